#!/usr/bin/env python3
"""Commits that an agent made: they arrive as a branch, and .git is otherwise left out.

    WARREN=path/to/warren commits.py [-v] [Class.test_name]
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted

WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


class Repository(Case):
    """The base is a repository; `agent()` changes it through a mount, with git if need be."""

    def begin(self, *options, then=None, **files):
        """`then` goes on before the agent is made."""
        self.git("init", "-q", "-b", "main", *options, ".")
        for name, content in files.items():
            overlaid.write(self.base / name.replace("__", "/"), content)
        self.commit("first")
        if then:
            then()
        self.start = self.rev("HEAD")
        self.w.init()

    def git(self, *words, cwd=None, **options):
        return overlaid.git(*WHO, *words, cwd=cwd or self.base, **options).decode(errors="surrogateescape")

    def rev(self, name, **options):
        return self.git("rev-parse", "--verify", name, **options).strip()

    def commit(self, message, cwd=None):
        self.git("add", "-A", cwd=cwd)
        self.git("commit", "-qm", message, cwd=cwd)

    def agent(self, *files, commit=None, then=None, name=None):
        """Writes files, each (name, content), commits them, and calls `then` with the mount point. Returns HEAD."""
        old, self.w.id = self.w.id, name or self.w.id

        def change(point):
            for path, content in files:
                overlaid.write(point + "/" + path, content)
            if commit:
                self.commit(commit, cwd=point)
            if then:
                then(point)
            return self.git("rev-parse", "HEAD", cwd=point).strip()
        try:
            return self.w.change(change)
        finally:
            self.w.id = old

    def apply(self, *words, fails=False):
        done = self.w.run("apply", *words, self.w.id)
        said = (done.stdout + done.stderr).decode(errors="replace")
        self.assertEqual(done.returncode, 1 if fails else 0, said)
        return said

    def branches(self):
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()

    def refs(self):
        return self.git("for-each-ref")


class Brought(Repository):
    def test_commits_become_a_branch_and_the_rest_is_written_as_files(self):
        self.begin(a="1\n", b="1\n", c="1\n", gone="1\n", sub__x="1\n")
        def rest(point):
            os.unlink(point + "/gone")
            self.commit("second", cwd=point)
            overlaid.write(point + "/b", "not committed\n")
            overlaid.write(point + "/new/untracked", "new\n")
        head = self.agent(("a", "agent\n"), ("sub/y", "y\n"), commit="first of the agent", then=rest)
        self.git("status")  # touches the index
        said = self.apply()
        self.assertEqual(self.rev("warren/a"), head)
        self.assertEqual(self.rev("HEAD"), self.start)
        self.assertIn("branch warren/a: 2 commits, up to " + head[:10] + " 'second'", said)
        self.assertIn("3 changes are in the commits", said)
        self.assertIn("2 added, 1 modified", said)  # the directory too
        self.assertEqual((self.read("a"), self.read("b"), self.read("new/untracked")), ("1\n", "not committed\n", "new\n"))
        self.assertTrue((self.base / "gone").exists())
        self.assertFalse((self.base / "sub/y").exists())
        self.git("merge", "-q", "warren/a")
        self.assertEqual((self.read("a"), self.read("sub/y"), (self.base / "gone").exists()), ("agent\n", "y\n", False))
        self.assertEqual(self.w.lines(), [])
        self.git("fsck", "--strict", "--no-dangling")

    def test_diff_shows_no_files_of_git_and_names_the_commits(self):
        self.begin(a="1\n")
        head = self.agent(("a", "2\n"), commit="two")
        done = self.w.run("diff", self.w.id)
        self.assertEqual(done.stdout, b"M f /a\n")
        self.assertIn("new commits: main is at " + head[:10], done.stderr.decode())
        self.assertIn(b"/.git/index\n", self.w.warren("diff", "--name-only", self.w.id, ".git"))

    def test_two_committing_agents_do_not_conflict(self):
        self.begin(a="1\n", b="1\n")
        self.w.warren("init", "--base", self.base, "other")
        self.agent(("a", "one\n"), commit="one")
        self.agent(("b", "two\n"), commit="two", name="other")
        self.apply()
        self.w.warren("apply", "other")
        self.git("merge", "-q", "warren/a")
        self.git("merge", "-q", "warren/other", "-m", "merge")
        self.assertEqual((self.read("a"), self.read("b")), ("one\n", "two\n"))

    def test_a_second_apply_brings_what_was_committed_since(self):
        self.begin(a="1\n")
        first = self.agent(("a", "2\n"), commit="two")
        self.apply()
        said = self.apply()
        self.assertIn("already in warren/a", said)
        second = self.agent(("a", "3\n"), commit="three")
        self.assertIn("1 commit, up to", self.apply())
        self.assertEqual((self.rev("warren/a"), self.rev("warren/a^")), (second, first))

    def test_a_branch_with_commits_of_its_own_is_not_overwritten(self):
        self.begin(a="1\n")
        head = self.agent(("a", "2\n"), ("rest", "r\n"), then=lambda p: (self.git("add", "a", cwd=p), self.git("commit", "-qm", "x", cwd=p)))
        self.git("checkout", "-qb", "warren/a")
        overlaid.write(self.base / "mine", "x\n")
        self.commit("mine")
        mine = self.rev("HEAD")
        self.assertIn("is checked out", self.apply(fails=True))
        self.git("checkout", "-q", "main")
        said = self.apply(fails=True)
        self.assertIn("'warren/a' has commits that are not in the agent's branch", said)
        self.assertIn("--branch NAME", said)
        self.assertEqual(self.rev("warren/a"), mine)
        self.assertFalse((self.base / "rest").exists())
        self.apply("--branch", "agents/work")
        self.assertEqual(self.rev("agents/work"), head)
        self.assertTrue((self.base / "rest").exists())
        self.git("branch", "-qD", "agents/work")
        self.assertIn("'warren/a' has commits that are not in the agent's branch", self.apply("--force", fails=True))
        self.assertEqual(self.rev("warren/a"), mine)
        said = self.apply("--commits", "--force", "--dry-run")
        self.assertIn("in place of 1 commit that the agent's branch does not have: `git log warren/a` shows them", said)
        said = self.apply("--commits", "--force")
        self.assertIn("in place of 1 commit that the agent's branch does not have: `git log warren/a@{1}` shows them", said)
        self.assertEqual(self.rev("warren/a"), head)
        self.assertEqual(self.git("rev-parse", "warren/a@{1}").strip(), mine)

    def test_what_was_changed_again_waits_for_the_merge(self):
        self.begin(a="".join(self.LINES), b="1\n")
        again = "".join(self.with_line(18, "again", self.with_line(2, "committed")))
        self.agent(("a", "".join(self.with_line(2, "committed"))), commit="two", then=lambda p: overlaid.write(p + "/a", again))
        said = self.apply()
        self.assertIn("was changed again after the commits: /a", said)
        self.assertEqual(self.read("a"), "".join(self.LINES))
        self.git("merge", "-q", "warren/a")
        self.apply("--merge")
        self.assertEqual(self.read("a"), again)

    def test_a_committed_rename_of_a_directory(self):
        self.begin(src__a="1\n", src__b="2\n", keep="1\n")
        def move(point):
            os.rename(point + "/src", point + "/lib")
            self.commit("moved", cwd=point)
            overlaid.write(point + "/lib/untracked", "x\n")
            overlaid.write(point + "/other", "x\n")
        self.agent(then=move)
        said = self.apply()
        self.assertIn("/lib/untracked", said)
        self.assertEqual(sorted(os.listdir(self.base)), [".git", "keep", "other", "src"])
        self.git("merge", "-q", "warren/a")
        self.assertEqual(sorted(os.listdir(self.base / "lib")), ["a", "b"])

    def test_only_the_commits_or_only_files(self):
        self.begin(a="1\n", b="1\n")
        self.assertIn("has made no commits", self.apply("--commits", fails=True))
        head = self.agent(("a", "2\n"), commit="two", then=lambda p: overlaid.write(p + "/b", "2\n"))
        self.apply("--commits")
        self.assertEqual((self.rev("warren/a"), self.read("b")), (head, "1\n"))
        self.git("branch", "-qD", "warren/a")
        self.apply("--no-commits")
        self.assertEqual((self.branches(), self.read("a"), self.read("b")), (["main"], "2\n", "2\n"))

    def test_what_is_excluded_and_yet_in_the_commits_is_named(self):
        self.begin(a="1\n")
        def go_on(point):
            os.remove(point + "/old-secret")
            self.commit("two", cwd=point)
            overlaid.write(point + "/new-secret", "not committed\n")
        self.agent(("a", "2\n"), ("secret", "s\n"), ("old-secret", "s\n"), commit="one", then=go_on)
        said = self.apply("--exclude", "*secret", "--dry-run")
        what = "excluded, but in the commits: /old-secret, /secret; --no-commits applies the changes as files, without them"
        self.assertIn(what, said)
        report = json.loads(self.w.warren("apply", "--dry-run", "--json", "--exclude", "/secret", self.w.id))
        self.assertEqual(report["commits"]["excluded"], ["/secret"])
        self.assertNotIn("excluded", self.apply("--exclude", "b", "--dry-run"))
        self.assertIn(what, self.apply("--commits", "--exclude", "*secret", "--dry-run"))
        self.assertNotIn("excluded", self.apply("--no-commits", "--exclude", "*secret"))
        self.assertEqual(sorted(os.listdir(self.base)), [".git", "a"])

    def test_several_files_that_were_changed_again_are_named_as_several(self):
        self.begin(a="1\n", b="1\n")
        again = lambda point: [overlaid.write(f"{point}/{name}", "3\n") for name in "ab"]
        self.agent(("a", "2\n"), ("b", "2\n"), commit="two", then=again)
        said = self.apply()
        self.assertIn("not written yet, because they were changed again after the commits: /a, /b", said)
        self.assertIn("--merge   writes them, once the commits are merged", said)

    def test_named_paths_are_files(self):
        self.begin(a="1\n")
        self.agent(("a", "2\n"), commit="two")
        self.w.warren("apply", self.w.id, "a")
        self.assertEqual((self.branches(), self.read("a")), (["main"], "2\n"))

    def test_a_rehearsal_writes_nothing(self):
        self.begin(a="1\n", b="1\n")
        self.agent(("a", "2\n"), commit="two", then=lambda p: overlaid.write(p + "/b", "2\n"))
        before = overlaid.snapshot(self.base)
        said = self.apply("--dry-run")
        self.assertIn("would write the branch warren/a: 1 commit", said)
        self.assertIn("would apply to", said)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
        report = json.loads(self.w.warren("apply", "--dry-run", "--json", self.w.id))
        self.assertEqual((report["commits"]["branch"], report["commits"]["count"]), ("warren/a", 1))
        self.assertEqual([change["path"] for change in report["applied"]], ["/b"])

    def test_nothing_is_brought_if_the_files_conflict(self):
        self.begin(a="1\n", b="1\n")
        self.agent(("a", "2\n"), commit="two", then=lambda p: overlaid.write(p + "/b", "2\n"))
        overlaid.write(self.base / "b", "the host's\n")
        self.assertIn("conflict: /b", self.apply(fails=True))
        self.assertEqual(self.branches(), ["main"])

    def test_another_branch_of_the_agent(self):
        self.begin(a="1\n")
        def fork(point):
            self.git("checkout", "-qb", "feature/x", cwd=point)
            overlaid.write(point + "/a", "x\n")
            self.commit("x", cwd=point)
            self.git("checkout", "-qb", "second", "main", cwd=point)
            overlaid.write(point + "/a", "y\n")
            self.commit("y", cwd=point)
            self.git("checkout", "-q", "main", cwd=point)
            return
        self.agent(then=fork)
        said = self.apply()
        self.assertEqual(self.git("show", "warren/a:a"), "x\n")
        self.assertIn("more commits are on the agent's branch second", said)
        self.assertIn("no new commits on the agent's branch 'nine'", self.apply("--commits", "--from", "nine", fails=True))
        self.apply("--commits", "--from", "second", "--branch", "two")
        self.assertEqual(self.git("show", "two:a"), "y\n")

    def test_after_the_merge_of_one_branch_the_others_hold_up_nothing(self):
        self.begin(a="1\n", b="1\n")

        def fork(point):
            self.git("checkout", "-qb", "other", cwd=point)
            overlaid.write(point + "/b", "x\n")
            self.commit("x", cwd=point)
            self.git("checkout", "-q", "main", cwd=point)
            overlaid.write(point + "/a", "y\n")
            self.commit("y", cwd=point)
        self.agent(then=fork)
        self.assertIn("more commits are on the agent's branch other", self.apply())
        brought = self.rev("warren/a")
        self.git("merge", "-q", "warren/a")
        self.agent(("later", "1\n"))
        self.assertIn("more commits are on the agent's branch other", self.apply())
        self.assertEqual(self.rev("warren/a"), brought)
        self.assertEqual((self.base / "later").read_text(), "1\n")
        self.apply("--commits", "--from", "other", "--branch", "two")
        self.assertEqual(self.git("show", "two:b"), "x\n")

    def test_the_host_may_be_on_another_branch_meanwhile(self):
        self.begin(a="1\n", b="1\n")
        head = self.agent(("a", "2\n"), commit="two", then=lambda p: overlaid.write(p + "/b", "2\n"))
        self.git("checkout", "-qb", "elsewhere")
        self.apply()
        self.assertEqual((self.rev("warren/a"), self.read("a"), self.read("b")), (head, "1\n", "2\n"))

    def test_another_branch_of_the_agent_reverts_nothing(self):
        def work():
            self.git("branch", "release")
            overlaid.write(self.base / "a", "mine\n")
            overlaid.write(self.base / "new", "mine\n")
            self.commit("my work")
        self.begin(a="old\n", b="old\n", c="old\n", then=work)

        def hotfix(point):
            self.git("checkout", "-q", "-b", "hotfix", "release", cwd=point)
            overlaid.write(point + "/c", "fixed\n")
            self.commit("fix", cwd=point)
            overlaid.write(point + "/b", "not committed\n")
        self.agent(then=hotfix)
        said = self.apply()
        self.assertEqual(self.git("show", "warren/a:c"), "fixed\n")
        self.assertEqual((self.read("a"), self.read("new"), self.read("c")), ("mine\n", "mine\n", "old\n"), said)
        self.assertEqual(self.read("b"), "not committed\n")

    def test_a_commit_that_the_agent_dropped_stays(self):
        def work():
            overlaid.write(self.base / "a", "2\n")
            self.commit("mine")
        self.begin(a="1\n", b="1\n", then=work)

        def drop(point):
            self.git("reset", "-q", "--hard", "HEAD~1", cwd=point)
            overlaid.write(point + "/b", "2\n")
            self.commit("theirs", cwd=point)
        self.agent(then=drop)
        self.apply()
        self.assertEqual((self.read("a"), self.read("b"), self.git("show", "warren/a:b")), ("2\n", "1\n", "2\n"))

    def test_what_was_changed_again_on_the_same_line_is_written_after_the_merge(self):
        text = "".join(f"{i}\n" for i in range(20))
        self.begin(a=text)
        self.agent(("a", text.replace("5\n", "five\n", 1)), commit="five",
                   then=lambda p: overlaid.write(p + "/a", text.replace("5\n", "FIVE\n", 1)))
        self.assertIn("not written yet, because it was changed again after the commits: /a", self.apply())
        self.git("merge", "-q", "warren/a")
        self.apply("--merge")
        self.assertEqual(self.read("a"), text.replace("5\n", "FIVE\n", 1))

    def test_what_the_user_commits_meanwhile_is_not_taken_for_the_agents_version(self):
        text = "".join(f"{i}\n" for i in range(20))
        self.begin(a=text)
        self.agent(("a", text.replace("5\n", "agent\n", 1)))
        overlaid.write(self.base / "a", text.replace("15\n", "mine\n"))
        self.commit("mine")
        self.assertIn("conflict: /a: it was changed in the base", self.apply(fails=True))
        self.assertEqual(self.read("a"), text.replace("15\n", "mine\n"))

    def test_commits_of_the_user_that_the_agents_git_does_not_know_stay(self):
        self.begin(a="1\n", b="1\n")
        self.agent(("a", "2\n"), commit="two")
        self.apply()
        self.git("merge", "-q", "warren/a")
        overlaid.write(self.base / "b", "mine\n")
        overlaid.write(self.base / "new", "mine\n")
        self.commit("mine")

        def go_on(point):
            self.git("stash", "-q", "-u", cwd=point)
            overlaid.write(point + "/a", "3\n")
            self.commit("three", cwd=point)
        self.agent(then=go_on)
        self.apply()
        self.assertEqual((self.read("b"), self.read("new"), self.git("show", "warren/a:a")), ("mine\n", "mine\n", "3\n"))

    def test_what_runs_by_itself_in_commits_is_named(self):
        self.begin(a="1\n", **{"package.json": '{"scripts": {}, "version": "1"}\n', "tools__clean": "x\n"})
        self.git("config", "filter.x.clean", "tools/clean")
        self.agent((".husky/post-merge", "#!/bin/sh\n"), ("tools/clean", "y\n"), ("b", "1\n"),
                   ("package.json", '{"scripts": {}, "version": "2"}\n'), commit="more")
        said = self.apply()
        self.assertEqual({line.split(": ")[1] for line in said.splitlines() if "runs by itself" in line},
                         {"/.husky/post-merge", "/tools/clean"}, said)

    def test_packed_and_collected_objects(self):
        self.begin(a="1\n", **{f"f{i}": f"{i}\n" for i in range(50)})
        head = self.agent(("a", "2\n"), commit="two", then=lambda p: (self.git("gc", "-q", "--prune=now", cwd=p),
                                                                       self.git("pack-refs", "--all", cwd=p)))
        self.apply()
        self.assertEqual(self.rev("warren/a"), head)
        self.git("fsck", "--strict", "--no-dangling")

    def test_content_filters_count(self):
        self.git("init", "-q", "-b", "main", ".")
        self.git("config", "core.autocrlf", "true")
        overlaid.write(self.base / "a", "one\r\n")
        self.commit("first")
        self.w.init()
        self.agent(("a", "two\r\n"), commit="two")
        self.assertIn("1 change is in the commits", self.apply())
        self.assertEqual((self.base / "a").read_bytes(), b"one\r\n")

    def test_modes_and_links(self):
        self.begin(a="1\n")
        def change(point):
            os.chmod(point + "/a", 0o755)
            os.symlink("a", point + "/link")
            self.commit("modes", cwd=point)
        self.agent(then=change)
        self.assertIn("2 changes are in the commits", self.apply())
        self.git("merge", "-q", "warren/a")
        self.assertEqual((os.stat(self.base / "a").st_mode & 0o777, os.readlink(self.base / "link")), (0o755, "a"))

    def test_sha256(self):
        self.begin("--object-format=sha256", a="1\n")
        head = self.agent(("a", "2\n"), commit="two")
        self.apply()
        self.assertEqual((self.rev("warren/a"), len(head)), (head, 64))

    def test_a_shallow_clone(self):
        self.git("init", "-q", "-b", "main", "../origin")
        for number in range(3):
            overlaid.write(self.w.root / "origin/a", f"{number}\n")
            self.commit(f"c{number}", cwd=self.w.root / "origin")
        os.rmdir(self.base)
        self.git("clone", "-q", "--depth=1", f"file://{self.w.root}/origin", str(self.base), cwd=self.w.root)
        self.w.init()
        head = self.agent(("a", "agent\n"), commit="agent")
        self.apply()
        self.assertEqual(self.rev("warren/a"), head)

    def test_a_repository_that_the_agent_created_is_files(self):
        self.fill(a="1\n")
        def create(point):
            self.git("init", "-q", "-b", "main", ".", cwd=point)
            self.commit("first", cwd=point)
        self.w.change(create)
        self.w.warren("apply", "--yes", self.w.id)
        self.assertEqual(self.git("log", "--format=%s").strip(), "first")

    def test_a_session_gives_the_branch_its_name(self):
        self.begin(a="1\n")
        script = "echo agent > a; git -c user.name=t -c user.email=t@example.org commit -qam 'from a run'; git status; echo 2 > b"
        done = subprocess.run([mounted.program(), "run", "--session", "fix", "--", "sh", "-ec", script], cwd=self.base,
                              env=self.w.environment(), capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"session fix: 1 added, 1 modified, 0 deleted", done.stderr)
        self.assertIn(b"new commits, which apply brings as the branch warren/fix", done.stderr)
        self.git("status")
        said = self.w.warren("apply", "session:fix").decode()
        self.assertIn("branch warren/fix: 1 commit, up to", said)
        self.assertEqual((self.git("log", "-1", "--format=%s", "warren/fix").strip(), self.read("b")), ("from a run", "2\n"))


class Hostile(Repository):
    """Whatever an agent puts into its .git, nothing of it runs and nothing invalid arrives."""

    def setUp(self):
        super().setUp()
        self.trap = self.w.root / "PWNED"

    def check(self):
        self.assertFalse(self.trap.exists(), "something of the agent's was run")
        self.git("fsck", "--strict", "--no-dangling")

    def test_settings_and_hooks_do_not_run_and_are_left_out(self):
        self.begin(a="1\n")
        evil = f"touch {self.trap}"
        def plant(point):
            for hook in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "update"):
                overlaid.write(point + "/.git/hooks/" + hook, f"#!/bin/sh\n{evil}\n")
                os.chmod(point + "/.git/hooks/" + hook, 0o755)
            with open(point + "/.git/config", "a") as file:
                file.write(f'[core]\n\tfsmonitor = {evil}\n\tsshCommand = {evil}\n\tpager = {evil}\n\thooksPath = hooks\n'
                           f'[uploadpack]\n\tpackObjectsHook = {evil}\n[filter "x"]\n\tclean = {evil}\n\tsmudge = {evil}\n'
                           f'[remote "origin"]\n\turl = ext::sh -c {evil}\n[diff "x"]\n\ttextconv = {evil}\n'
                           f'[include]\n\tpath = /etc/passwd\n[gpg]\n\tprogram = {evil}\n[log]\n\tshowSignature = true\n')
            overlaid.write(point + "/.git/info/attributes", "* filter=x diff=x\n")
        head = self.agent(("a", "2\n"), commit="two")
        self.w.change(plant)
        before = (self.base / ".git/config").read_bytes()
        said = self.w.run("diff", self.w.id).stderr.decode()
        self.assertIn("left out, because it is in .git: /.git/config", said)
        said = self.apply()
        self.assertIn("left out, because it is in .git: /.git/config", said)
        self.assertEqual(self.rev("warren/a"), head)
        self.assertEqual((self.base / ".git/config").read_bytes(), before)
        self.assertFalse((self.base / ".git/hooks/update").exists())
        self.check()

    def test_hooks_arrive_only_when_named_and_confirmed(self):
        self.begin(a="1\n")
        self.w.change(lambda p: overlaid.write(p + "/.git/hooks/pre-commit", "#!/bin/sh\n"))
        said = self.w.fails("apply", self.w.id, ".git/hooks/pre-commit")
        self.assertIn("may run the next time", said)
        self.assertIn(f"`warren apply {self.w.id} --as-branch NAME` writes nothing into .git but a branch", said)
        self.w.warren("apply", "--yes", self.w.id, ".git/hooks/pre-commit")
        self.assertTrue((self.base / ".git/hooks/pre-commit").exists())

    def test_no_other_file_of_git_is_applied_by_name(self):
        self.begin(a="1\n")
        self.agent(("a", "2\n"), commit="two")
        self.w.change(lambda p: overlaid.write(p + "/.git/info/exclude", "*.log\n"))
        before = overlaid.snapshot(self.base / ".git")
        for path in (".git", ".git/refs/heads/main", ".git/index", ".git/objects", ".git/logs", "**/main"):
            for more in ((), ("--yes",), ("--force", "--yes"), ("--dry-run",)):
                with self.subTest(path=path, more=more):
                    paths = (path,) if path.startswith(".git") else (path, ".git/info/exclude")
                    self.assertIn("is one of git's own files", self.w.fails("apply", self.w.id, *paths, *more))
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base / ".git"), before), [])
        self.w.warren("apply", "--yes", self.w.id, ".git/info/exclude")
        self.assertEqual((self.base / ".git/info/exclude").read_text(), "*.log\n")
        self.git("fsck", "--strict")

    def test_a_missing_object_is_named_in_plain_text(self):
        self.begin(a="1\n")
        def lose(point):
            blob = self.rev("HEAD:a", cwd=point)
            os.remove(f"{point}/.git/objects/{blob[:2]}/{blob[2:]}")
        self.agent(("a", "2\n"), commit="two", then=lose)
        said = self.apply(fails=True)
        self.assertIn("incomplete or damaged", said)
        self.assertNotIn("\\x00", said)

    def test_alternates_are_not_followed(self):
        self.begin(a="1\n")
        self.git("init", "-q", "-b", "main", "../secret")
        overlaid.write(self.w.root / "secret/key", "secret\n")
        self.commit("secret", cwd=self.w.root / "secret")
        secret = self.rev("HEAD", cwd=self.w.root / "secret")
        def point_there(point):
            overlaid.write(point + "/.git/objects/info/alternates", f"{self.w.root}/secret/.git/objects\n")
            overlaid.write(point + "/.git/refs/heads/main", secret + "\n")
        self.w.change(point_there)
        before = self.refs()
        self.assertIn("incomplete or damaged", self.apply(fails=True))
        self.assertEqual(self.refs(), before)
        self.assertNotEqual(subprocess.run(["git", "cat-file", "-e", secret], cwd=self.base, capture_output=True).returncode, 0)

    def test_references_with_bad_names_or_content(self):
        self.begin(a="1\n")
        head = self.agent(("a", "2\n"), commit="two")
        for text in ("ref: refs/heads/../../../../etc/passwd\n", "ref: refs/heads/-x\n", "--upload-pack=touch x\n", "x" * 100000):
            with self.subTest(head=text[:40]):
                self.w.change(lambda p: overlaid.write(p + "/.git/HEAD", text))
                before = self.refs()
                self.assertIn("M f /a", self.w.warren("diff", self.w.id).decode())
                self.assertIn("has no HEAD that can be read", self.apply("--dry-run", fails=True))
                self.apply("--dry-run", "--no-commits")
                self.assertEqual(self.refs(), before)
        def bad(point):
            overlaid.write(point + "/.git/HEAD", "ref: refs/heads/main\n")
            overlaid.write(point + "/.git/packed-refs", f"{head} refs/heads/../../x\n{head} refs/heads/a b\n{'0' * 40} refs/heads/zero\nz\n")
            overlaid.write(point + "/.git/refs/heads/x.lock", head + "\n")
            os.symlink("/etc/passwd", point + "/.git/refs/heads/link")
        self.w.change(bad)
        self.apply()
        self.assertEqual(self.branches(), ["main", "warren/a"])
        self.assertEqual(self.rev("warren/a"), head)
        self.check()

    def loose(self, point, name):
        """The files of the objects that the agent has added, of one type."""
        found = []
        for directory, _, files in os.walk(point + "/.git/objects"):
            for file in files:
                id = os.path.basename(directory) + file
                path = os.path.join(directory, file)
                if len(id) == 40 and not os.path.exists(path.replace(point, str(self.base))) and \
                        self.git("cat-file", "-t", id, cwd=point).strip() == name:
                    found.append(path)
        return found

    def test_damaged_and_missing_objects(self):
        for kind in ("blob", "tree", "commit"):
            for how in ("missing", "rubbish", "empty", "other", "truncated"):
                with self.subTest(kind=kind, how=how):
                    self.doCleanups()
                    self.setUp()
                    self.begin(a="1\n")
                    def damage(point):
                        path = self.loose(point, kind)[0]
                        content = pathlib.Path(path).read_bytes()
                        os.unlink(path)
                        if how != "missing":
                            overlaid.write(path, {"rubbish": b"x" * 100, "empty": b"", "truncated": content[:-6],
                                                  "other": zlib.compress(b"blob 6\0other\n")}[how])
                    self.agent(("a", "2\n"), commit="two")
                    self.w.change(damage)
                    before = self.refs()
                    said = self.apply(fails=True)
                    self.assertIn("damaged", said)
                    self.assertIn("--no-commits", said)
                    self.assertEqual((self.refs(), self.read("a")), (before, "1\n"))
                    self.apply("--no-commits")
                    self.assertEqual(self.read("a"), "2\n")

    def test_a_damaged_pack(self):
        self.begin(a="1\n")
        def damage(point):
            self.git("gc", "-q", cwd=point)
            folder = point + "/.git/objects/pack"
            for name in os.listdir(folder):
                if name.endswith(".pack"):
                    os.chmod(f"{folder}/{name}", 0o644)
                    with open(f"{folder}/{name}", "r+b") as file:
                        file.seek(30)
                        file.write(b"\xff\xff\xff\xff")
        self.agent(("a", "2\n"), commit="two")
        self.w.change(damage)
        self.assertIn("is invalid", self.apply(fails=True))
        self.assertEqual(self.branches(), ["main"])
        self.assertEqual(self.w.records(), [])

    def test_a_tree_that_would_write_into_git(self):
        """A commit whose tree has an entry `.git`: git's own check refuses it."""
        self.begin(a="1\n")
        def forge(point):
            blob = self.git("hash-object", "-w", "--stdin", cwd=point, input=b"evil\n").strip()
            tree = b"100644 .git\0" + bytes.fromhex(blob)
            id = self.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", cwd=point, input=tree).strip()
            commit = self.git("commit-tree", id, "-p", "HEAD", "-m", "evil", cwd=point).strip()
            overlaid.write(point + "/.git/refs/heads/main", commit + "\n")
        self.w.change(forge)
        self.assertIn("damaged", self.apply("--commits", fails=True))
        self.assertEqual(self.branches(), ["main"])

    def test_git_as_a_link_or_a_file(self):
        self.begin(a="1\n")
        self.git("init", "-q", "-b", "main", "../other")
        for replace in (lambda p: os.symlink(f"{self.w.root}/other/.git", p + "/.git"),
                        lambda p: overlaid.write(p + "/.git", f"gitdir: {self.w.root}/other/.git\n")):
            self.w.change(lambda p: (shutil.rmtree(p + "/.git") if os.path.isdir(p + "/.git") and not os.path.islink(p + "/.git")
                                     else os.unlink(p + "/.git"), replace(p), overlaid.write(p + "/a", "2\n")))
            before = overlaid.snapshot(self.base / ".git")
            self.assertIn("has no HEAD that can be read", self.apply("--dry-run", fails=True))
            self.apply("--dry-run", "--no-commits")
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.base / ".git"), before), [])
        self.apply("--no-commits")
        self.assertEqual(self.read("a"), "2\n")
        self.check()

    def test_a_repository_that_git_does_not_trust(self):
        self.begin(a="1\n")
        self.agent(("a", "2\n"), commit="two")
        for directory, dirs, files in os.walk(self.base / ".git"):
            for name in [".", *dirs, *files]:
                os.chown(os.path.join(directory, name), 65534, 65534)
        os.chown(self.base, 65534, 65534)
        said = self.apply(fails=True)
        self.assertIn("git does not take", said)
        self.assertIn("--no-commits", said)
        self.assertIn("1 change may revert your uncommitted work: /a; that cannot be known: git does not take",
                      self.apply("--no-commits", fails=True))
        self.apply("--no-commits", "--yes")
        self.assertEqual(self.read("a"), "2\n")

    def test_a_subject_cannot_control_the_terminal(self):
        self.begin(a="1\n")
        self.agent(("a", "2\n"), commit="\x1b[31mred\x1b]0;title\x07")
        self.assertNotIn("\x1b", self.apply())

    def test_an_agent_file_from_elsewhere_needs_consent(self):
        self.begin(a="1\n")
        head = self.agent(("a", "2\n"), commit="two")
        copy = self.w.home / "copy.db"
        shutil.copy(self.w.file, copy)
        self.assertIn("--trust-base", self.w.fails("apply", copy))
        self.assertEqual(self.branches(), ["main"])
        self.w.warren("apply", "--trust-base", self.base, copy)
        self.assertEqual(self.rev("warren/copy"), head)


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
