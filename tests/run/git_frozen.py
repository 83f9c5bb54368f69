#!/usr/bin/env python3
"""What is committed in the base after a session's start does not show in the session, and can be merged there.

    WARREN=path/to/warren git_frozen.py [-v] [Class.test_name]

Needs root.
"""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed
from git import COMMIT
from git_state import BOT, State

SHOWN = "for f in $(find . -path ./.git -prune -o -type f -print | sort); do echo $f: $(cat $f); done"

ADDED = COMMIT.replace("-qam", "-qm")  # only what was added to the index


class Frozen(State):
    def setUp(self):
        super().setUp()
        (self.base / "lib").mkdir()
        self.write("lib/old", "old\n")
        self.write("run.sh", "#!/bin/sh\n")
        (self.base / "run.sh").chmod(0o755)
        (self.base / "link").symlink_to("file")
        self.commit("more")

    def host_work(self):
        """A commit of every kind: changed, added, deleted, moved, another type and mode."""
        self.write("file", "newer\n")
        (self.base / "new").mkdir()
        (self.base / "new/deep").mkdir()
        self.write("new/deep/file", "1\n")
        self.write("dir/added", "1\n")
        (self.base / "lib/old").unlink()
        (self.base / "lib").rmdir()
        (self.base / "run.sh").chmod(0o644)
        (self.base / "link").unlink()
        (self.base / "link").symlink_to("dir")
        self.commit("of the host")

    def linked_worktree(self):
        tree = self.world.home / "tree"
        self.git("worktree", "add", "-q", "-b", "linked", tree)
        return tree

    def shown(self, session="s"):
        return self.inside(SHOWN, session=session).stdout


class WhatShows(Frozen):
    def test_the_work_tree_is_that_of_the_start_and_git_finds_nothing(self):
        self.inside("echo 1 > mine; git status --short > /dev/null")
        before = self.inside(SHOWN + "; ls -l run.sh | cut -c1-10; readlink link; ls; ls dir").stdout
        self.host_work()
        for _ in range(2):
            self.assertEqual(self.inside(SHOWN + "; ls -l run.sh | cut -c1-10; readlink link; ls; ls dir").stdout, before)
            self.assertEqual(self.inside("git status --short").stdout, "?? mine\n")
        self.assertEqual(self.warren("diff", "session:s"), "A f /mine\n")
        self.apply()
        self.assertEqual(self.world.sessions(), [])
        self.assertEqual(self.git("status", "--short"), "?? mine")

    def test_it_also_holds_while_the_session_runs(self):
        with self.world.start("run", "--session", "s", "--", "sh", "-ec",
                              f"git status --short; {SHOWN} > before; touch begun; until [ -e go ]; do sleep 0.05; done; "
                              f"until git log -1 --format=%s warren/base | grep -q host; do sleep 0.05; done; "
                              f"{SHOWN} > after; git status --short -uno > status; cat lib/old >> status") as running:
            sandboxed.wait_for(lambda: "A f /begun" in self.world.warren("diff", "session:s").stdout, "the agent did not start")
            self.host_work()
            self.write("go", "")
            _, said = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(running.returncode, 0, said)
        (self.base / "go").unlink()
        self.warren("apply", "session:s", "/before", "/after", "/status", "--keep")
        before = (self.base / "before").read_text().splitlines()
        after = [line for line in (self.base / "after").read_text().splitlines() if line.split(":")[0] not in ("./go", "./before", "./after", "./begun")]
        self.assertEqual(after, [line for line in before if not line.startswith("./before")])
        self.assertEqual((self.base / "status").read_text(), "old\n")

    def test_uncommitted_work_of_the_user_shows(self):
        self.write("file", "half done\n")
        self.write("untracked", "1\n")
        self.inside("echo 1 > mine; grep -q half file; grep -q 1 untracked")
        self.write("dir/inner", "later\n")
        self.inside("grep -q later dir/inner")
        self.host_commit("other", "1\n")  # commits all of it
        self.inside("grep -q half file; grep -q 1 untracked; test ! -e other; ! grep -q later dir/inner")

    def test_another_branch_of_the_host_and_back(self):
        self.git("branch", "release")
        self.host_work()
        self.inside("echo 1 > mine; git status --short > /dev/null")
        before = self.shown()
        self.git("checkout", "-q", "release")
        self.assertEqual(self.shown(), before)
        self.assertEqual(self.inside("git status --short").stdout, "?? mine\n")
        self.git("checkout", "-q", "main")
        self.assertEqual(self.shown(), before)
        self.write("file", "live\n")
        self.inside("grep -q live file")

    def test_in_a_linked_worktree(self):
        tree = self.linked_worktree()
        self.inside("echo 1 > mine; git status --short > /dev/null", cwd=tree)
        (tree / "file").write_text("newer\n")
        (tree / "new").write_text("1\n")
        self.commit("of the host", cwd=tree)
        said = self.inside("git status --short; cat file; git log -1 --format=%s warren/base", cwd=tree).stdout
        self.assertEqual(said, "?? mine\nof the base\nof the host\n")

    def test_in_a_linked_worktree_while_the_session_runs(self):
        tree = self.linked_worktree()
        with self.world.start("run", "--session", "s", "--", "sh", "-ec",
                              "touch begun; until git log -1 --format=%s warren/base | grep -q host; do sleep 0.05; done; "
                              "cat file; git status --short -uno", cwd=tree) as running:
            sandboxed.wait_for(lambda: "A f /begun" in self.world.warren("diff", "session:s").stdout, "the agent did not start")
            (tree / "file").write_text("newer\n")
            self.commit("of the host", cwd=tree)
            said, errors = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual((running.returncode, said), (0, b"of the base\n"), errors)

    def test_content_filters_count(self):
        self.write(".gitattributes", "crlf text eol=crlf\n")
        self.write("crlf", "a\r\nb\r\n")
        self.commit("attributes")
        self.inside("echo 1 > mine; git status --short > /dev/null")
        self.host_commit("crlf", "c\r\n")
        self.assertEqual(self.inside("git status --short; od -c crlf | head -1").stdout.split()[2:], ["0000000", *"a", "\\r", "\\n", *"b", "\\r", "\\n"])

    def test_names_that_are_no_text(self):
        path = str(self.base).encode() + b"/a \xff\n'\""
        with open(path, "wb") as file:
            file.write(b"1\n")
        self.commit("odd")
        self.inside("echo 1 > mine; git status --short > /dev/null")
        with open(path, "wb") as file:
            file.write(b"2\n")
        self.commit("odd again")
        self.assertEqual(self.inside("git status --short; cat a*").stdout, "?? mine\n1\n")

    def test_what_is_hidden_from_the_session_stays_hidden(self):
        self.host_commit("secret", "1\n")
        self.inside("echo 1 > mine; test ! -e secret", options=("--hide", str(self.base / "secret")))
        self.host_commit("secret", "2\n")
        self.inside("test ! -e secret; ! cat secret", options=("--hide", str(self.base / "secret")))


class WhatTheAgentDoes(Frozen):
    def setUp(self):
        super().setUp()
        self.inside("echo 1 > mine; git status --short > /dev/null")
        self.host_work()

    def test_merge_rebase_and_pull_work(self):
        for way in ("merge -q --no-edit warren/base", "rebase -q warren/base"):
            with self.subTest(way=way):
                session = way.split()[0]
                self.git("checkout", "-q", "-B", "main", "HEAD")
                self.inside(f"echo {session} > of-{session}; git add of-{session}; {BOT} commit -qm {session}", session=session)
                self.host_commit("more", session)
                self.inside(f"{BOT} {way}; git status --short; grep -q {session} more; grep -q newer file", session=session)
                self.apply(session)
                self.git("merge", "-q", "--no-edit", f"warren/{session}")
                self.assertEqual((self.base / f"of-{session}").read_text(), f"{session}\n")
                self.apply(session)
                self.assertNotIn(session, self.world.sessions())

    def test_commits_contain_nothing_of_others(self):
        self.inside(f"git add -A; {COMMIT} all")
        self.apply()
        self.assertEqual(self.changed_in("warren/s"), ["mine"])
        self.git("merge", "-q", "--no-edit", "warren/s")
        self.assertEqual((self.base / "file").read_text(), "newer\n")
        self.assertTrue((self.base / "new/deep/file").exists())
        self.warren("apply", "session:s")
        self.assertEqual(self.world.sessions(), [])

    def test_cleaning_and_setting_back_takes_nothing_from_others(self):
        for way in ("clean -qfd", "reset -q --hard", "stash -q -u", "checkout -q ."):
            with self.subTest(way=way):
                session = way.split()[0]
                self.inside(f"echo 2 > of-{session}; {BOT} {way}; rm -f of-{session}; echo 1 > mine", session=session)
                self.apply(session)
                self.assertEqual(self.git("status", "--short"), "?? mine")
                (self.base / "mine").unlink()

    def test_a_change_of_what_others_have_committed_is_a_conflict(self):
        self.host_commit("file", "a\nb\nc\nd\ne\n")
        self.inside("echo 1 > n; git status --short > /dev/null", session="t")
        self.host_commit("file", "a\nb\nc\nd\nhost\n")
        self.inside("sed -i s/a/agent/ file", session="t")
        self.assertIn("conflict: /file: it was changed in the base", self.warren("apply", "session:t", status=1))
        self.assertIn("-a\n+agent\n b", self.warren("diff", "-p", "session:t", "/file"))
        self.warren("apply", "session:t", "--merge")
        self.assertEqual((self.base / "file").read_text(), "agent\nb\nc\nd\nhost\n")

    def test_a_change_of_what_others_have_deleted_is_a_conflict(self):
        self.inside("echo agent >> lib/old")
        said = self.warren("diff", "session:s")
        self.assertIn("A f /lib/old", said)
        self.assertIn("it was deleted from the base", self.warren("apply", "session:s", status=1))
        self.warren("apply", "session:s", "--force")
        self.assertEqual((self.base / "lib/old").read_text(), "old\nagent\n")

    def test_new_files_where_others_have_put_some_are_a_conflict(self):
        self.inside("mkdir new; echo agent > new/file; mkdir -p new/deep; echo agent > new/deep/file; echo agent > dir/added")
        said = self.warren("apply", "session:s", status=1)
        for path in ("/dir/added", "/new/deep/file"):
            self.assertIn(f"conflict: {path}", said)
        self.assertNotIn("conflict: /new/file", said)
        self.assertEqual((self.base / "dir/added").read_text(), "1\n")

    def test_what_the_agent_has_merged_and_the_host_reverts_is_no_change(self):
        for session, more in (("t", "true"), ("u", f"echo 1 > own; git add own; {COMMIT} own")):
            with self.subTest(session=session):
                self.inside("echo 1 > n; rm n; git stash list", session=session, options=("--keep",))
                self.write("added", "of the host\n")
                self.host_commit("file", f"for {session}\n")
                self.inside(f"{BOT} merge -q warren/base; {more}", session=session)
                self.git("revert", "--no-edit", "HEAD")
                said = self.warren("diff", f"session:{session}")
                self.assertNotIn("/file", said)
                self.assertNotIn("/added", said)
                self.apply(session)
                if session == "u":
                    self.git("merge", "-q", "--no-edit", "warren/u")
                    self.apply(session)
                self.assertNotIn(session, self.world.sessions())
                self.assertEqual((self.base / "file").read_text(), "newer\n")
                self.assertFalse((self.base / "added").exists())

    def test_other_nodes_where_others_have_put_some_are_a_conflict(self):
        ways = {"moved": "mv run.sh taken", "linked": "ln -s x taken", "into": "mv run.sh taken-link", "instead": "echo agent > taken-link",
                "dir": "mv dir taken-dir"}
        for session in ways:
            self.inside("echo 1 > n; git status --short > /dev/null", session=session)
        (self.base / "taken-link").symlink_to("file")
        (self.base / "taken-dir").mkdir()
        self.write("taken-dir/file", "of the host\n")
        self.host_commit("taken", "of the host\n")
        for session, way in ways.items():
            with self.subTest(way=way):
                self.inside(way, session=session)
                path = "/" + way.split()[-1]
                self.assertIn(f"conflict: {path}: ", self.warren("apply", f"session:{session}", status=1))
                self.assertIn(session, self.world.sessions())
        self.assertEqual(self.git("status", "--short"), "")
        self.warren("apply", "session:moved", "--force")
        self.assertEqual((self.base / "taken").read_text(), "#!/bin/sh\n")
        self.assertFalse((self.base / "run.sh").exists())

    def test_a_new_directory_where_others_have_put_one_takes_nothing_from_it(self):
        self.inside("mkdir new; mv dir/inner new/program")
        self.assertEqual(self.warren("diff", "session:s"), "A f /mine\nR f /dir/inner -> /new/program\n")
        self.apply()
        self.assertEqual((self.base / "new/deep/file").read_text(), "1\n")
        self.assertTrue((self.base / "new/program").exists())

    def test_what_the_agent_removes_while_the_host_is_on_a_branch_without_it(self):
        self.inside(f"echo more >> run.sh; echo more >> dir/inner; mv run.sh tool; echo tool > run.sh; {COMMIT} more; git status --short > /dev/null", session="t")
        self.inside(f"echo more >> run.sh; {COMMIT} more", session="u")
        self.git("checkout", "-q", "-b", "without")
        self.git("rm", "-rq", "run.sh", "dir")
        self.git("commit", "-qm", "without")
        self.assertEqual(self.inside("rm -r run.sh dir; git status --short", session="t").stdout, " D dir/added\n D dir/inner\n D run.sh\n?? tool\n")
        self.assertEqual(self.inside("mv run.sh moved; git status --short", session="u").stdout, " D run.sh\n?? moved\n")
        self.git("checkout", "-q", "main")
        self.assertEqual(self.inside("git status --short", session="t").stdout, " D dir/added\n D dir/inner\n D run.sh\n?? tool\n")
        self.assertEqual(self.inside("git status --short; tail -n1 moved", session="u").stdout, " D run.sh\n?? moved\nmore\n")
        self.assertIn("D d /dir", self.warren("diff", "session:t"))

    def test_what_the_agent_removes_stays_removed(self):
        self.inside("rm -r lib; mv run.sh program")
        self.inside("test ! -e lib; test ! -e run.sh; test -x program")
        said = self.warren("diff", "session:s")
        self.assertNotIn("lib", said)
        self.inside("mkdir lib; echo 1 > lib/new; test ! -e lib/old")
        self.inside("test ! -e lib/old; test -e lib/new")

    def test_what_both_have_removed_stays_removed(self):
        ways = {
            "removed": ("rm -r dir", f"{BOT} stash -q; {BOT} stash pop -q"),
            "again": ("rm -r dir", "git checkout -q dir; rm -r dir"),
            "moved": ("mv dir/inner n", f"{BOT} stash -q -u; {BOT} stash pop -q"),
            "empty": ("mv dir/inner n; rm dir/added", "rmdir dir"),
            "changed": ("echo 2 > dir/inner", "rm dir/inner"),
            "replaced": ("sed -i s/inner/2/ dir/inner", "rm dir/inner")}
        for session, (before, _) in ways.items():
            self.inside(f"{before}; git status --short > /dev/null", session=session)
        self.git("rm", "-rq", "dir")
        self.git("commit", "-qm", "the host removes it, too")
        for session, (_, after) in ways.items():
            with self.subTest(session):
                status = "git status --short -- dir/inner"
                self.assertEqual(self.inside(f"{after}; {status}", session=session).stdout, " D dir/inner\n")
                self.assertEqual(self.inside(status, session=session).stdout, " D dir/inner\n")
                self.assertEqual(self.inside(status, session=session).stdout, " D dir/inner\n")
                self.assertNotIn("dir", self.warren("diff", f"session:{session}"))

    def test_a_directory_that_others_have_deleted_can_be_moved(self):
        self.inside("mv lib moved; test -e moved/old")
        self.inside("test ! -e lib; cat moved/old")
        self.assertIn("conflict: /moved: it was deleted from the base", self.warren("apply", "session:s", status=1))
        self.warren("apply", "session:s", "--force")
        self.assertEqual((self.base / "moved/old").read_text(), "old\n")

    def test_what_the_session_has_applied_shows_as_the_base_has_it(self):
        self.inside("echo agent > run.sh; echo 1 > made; rm dir/inner", session="t")
        self.warren("apply", "session:t", "--keep")
        self.commit("applied")
        self.inside("grep -q agent run.sh; grep -q 1 made; test ! -e dir/inner", session="t")
        self.host_commit("file", "newest\n")
        self.inside("grep -q agent run.sh; grep -q 1 made; test ! -e dir/inner; grep -q newer file", session="t")

    def test_what_the_agent_takes_back_on_purpose_is_a_change(self):
        self.write("file", "of the base\nwork of the user\n")
        self.commit("one line")
        self.write("file", "of the base\nwork of the user\ndebug\n")
        self.write("scratch", "1\n")
        self.inside("sed -i /debug/d file; rm scratch", session="t")
        self.commit("what was uncommitted")
        self.assertEqual(self.warren("diff", "session:t"), "M f /file\nD f /scratch\n")
        self.warren("apply", "session:t")
        self.assertEqual((self.base / "file").read_text(), "of the base\nwork of the user\n")
        self.assertFalse((self.base / "scratch").exists())

    def test_what_the_agent_takes_back_of_what_was_applied_is_a_change(self):
        self.inside("echo agent > run.sh; echo 1 > made", session="t")
        self.warren("apply", "session:t", "--keep")
        self.commit("applied")
        self.inside("printf '#!/bin/sh\\n' > run.sh; rm made", session="t")
        self.assertEqual(self.warren("diff", "session:t"), "D f /made\nM f /run.sh\n")
        self.warren("apply", "session:t")
        self.assertEqual((self.base / "run.sh").read_text(), "#!/bin/sh\n")

    def test_a_committed_rename_of_a_directory(self):
        self.inside(f"git mv dir moved; {COMMIT} moved")
        self.host_commit("dir/inner", "of the host\n")
        self.assertEqual(self.inside("git status --short; cat moved/inner").stdout, "?? mine\ninner\n")
        self.git("checkout", "-q", "-b", "other", "HEAD~2")
        self.assertEqual(self.inside("git status --short; cat moved/inner").stdout, "?? mine\ninner\n")

    def test_a_rename_of_a_directory_that_is_not_committed(self):
        self.inside("git mv dir moved", session="t")
        before = self.inside("git status --short; cat moved/*", session="t").stdout
        self.assertEqual(before, "R  dir/added -> moved/added\nR  dir/inner -> moved/inner\n1\ninner\n")
        self.write("dir/more", "1\n")
        self.host_commit("dir/inner", "of the host\n")
        self.assertEqual(self.inside("git status --short; cat moved/*", session="t").stdout, before)
        self.git("rm", "-rq", "dir")
        self.git("commit", "-qm", "gone")
        self.assertEqual(self.inside("git status --short; cat moved/*", session="t").stdout, before)
        self.git("checkout", "-q", "-b", "other", "HEAD~3")
        self.assertEqual(self.inside("git status --short; cat moved/*", session="t").stdout, before)
        self.inside(f"{COMMIT} moved; git mv moved again", session="t")
        self.git("checkout", "-q", "main~1")
        said = self.inside("git status --short; cat again/*", session="t").stdout
        self.assertEqual(said, "R  moved/added -> again/added\nR  moved/inner -> again/inner\n1\ninner\n")

    def test_a_rename_of_a_directory_after_the_host_has_committed(self):
        self.inside("echo 1 > n; git status --short > /dev/null", session="t")
        self.host_commit("dir/inner", "of the host\n")
        self.inside("git mv dir moved; grep -q inner moved/inner", session="t")
        said = self.inside(f"git status --short -uno; {COMMIT} moved; cat moved/inner", session="t").stdout
        self.assertEqual(said, "R  dir/added -> moved/added\nR  dir/inner -> moved/inner\ninner\n")
        self.apply("t")
        self.git("merge", "-q", "--no-edit", "warren/t")
        self.assertEqual((self.base / "moved/inner").read_text(), "of the host\n")

    def test_directories_that_the_agent_has_swapped(self):
        for name in ("one", "two"):
            (self.base / name).mkdir()
            self.write(f"{name}/file", f"{name}\n")
        self.commit("two directories")
        self.inside("mv one t; mv two one; mv t two", session="t")
        self.write("one/file", "of the host\n")
        self.host_commit("two/file", "of the host, too\n")
        self.assertEqual(self.inside(f"cat one/file two/file; {COMMIT} swapped", session="t").stdout, "two\none\n")
        self.host_commit("file", "newest\n")
        self.assertEqual(self.inside("git status --short; cat one/file two/file", session="t").stdout, "two\none\n")

    def test_directories_whose_renames_are_committed_in_part_or_taken_back(self):
        names = ("one", "two", "three")
        for name in names:
            (self.base / name).mkdir()
            self.write(f"{name}/file", f"{name}\n")
            self.write(f"{name}/other", f"other {name}\n")
        self.commit("three directories")
        swap = "mv one t; mv two one; mv t two"
        turn = "mv one t; mv two one; mv three two; mv t three"
        back = "mv three t; mv two three; mv one two; mv t one"
        ways = {"back": f"git mv one t; {COMMIT} moved; mv t one",
                "swapped-back": f"{swap}; git add -A; {COMMIT} swapped; {swap}",
                "swapped-half": f"{swap}; git add one; {ADDED} half", "swapped-other-half": f"{swap}; git add two; {ADDED} half",
                "turned-back": f"{turn}; git add -A; {COMMIT} turned; {back}", "turned-half": f"{turn}; git add one three; {ADDED} half",
                "untracked": f"git rm -q --cached one/file; {ADDED} removed", "older": "git reset -q HEAD~1",
                "own": f"echo own > one/new; git add -A; {COMMIT} own; rm one/new"}
        show = "git status --short; grep -r . one two three t 2> /dev/null | sort"
        before = {session: self.inside(f"{way}; {show}", session=session, options=("--keep",)).stdout for session, way in ways.items()}
        for name in names:
            self.write(f"{name}/file", "of the host\n")
        self.write("one/new", "of the host\n")
        self.commit("of the host")
        for session in ways:
            for _ in range(2):
                with self.subTest(session):
                    self.assertEqual(self.inside(show, session=session).stdout, before[session])

    def test_a_directory_that_the_host_has_moved(self):
        self.git("mv", "dir", "elsewhere")
        self.commit("moved")
        self.inside("test ! -e elsewhere; cat dir/inner")
        self.assertEqual(self.inside("git status --short").stdout, "?? mine\n")

    def test_a_directory_that_the_host_has_moved_and_the_agent_has_committed_in(self):
        self.inside(f"echo more >> dir/inner; {COMMIT} more", session="t")
        self.git("mv", "dir", "elsewhere")
        self.commit("moved")
        self.assertEqual(self.inside("git status --short; cat dir/inner; test ! -e elsewhere", session="t").stdout, "inner\nmore\n")

    def test_directories_that_the_host_has_exchanged_or_replaced(self):
        self.inside("echo 1 > n; git status --short > /dev/null", session="t")
        (self.base / "dir").rename(self.base / "between")
        (self.base / "new").rename(self.base / "dir")
        (self.base / "between").rename(self.base / "new")
        self.commit("exchanged")
        both = "git status --short; cat dir/inner new/deep/file"
        self.assertEqual(self.inside(both, session="t").stdout, "?? n\ninner\n1\n")
        (self.base / "new").rename(self.base / "dir/moved")
        (self.base / "new").mkdir()
        self.write("new/other", "1\n")
        self.commit("replaced")
        self.assertEqual(self.inside(both, session="t").stdout, "?? n\ninner\n1\n")
        self.assertEqual(self.warren("diff", "session:t"), "A f /n\n")

    def test_own_files_that_were_removed_again_stay_removed(self):
        self.inside(f"cp -r dir copied; git add -A; {COMMIT} copied; rm -r copied")
        self.host_commit("file", "newest\n")
        self.assertEqual(self.inside("git status --short").stdout, " D copied/inner\n")

    def test_a_directory_that_became_a_file_is_not_taken_back_unseen(self):
        (self.base / "dir/added").unlink()
        (self.base / "dir/inner").unlink()
        (self.base / "dir").rmdir()
        self.write("dir", "a file now\n")
        self.commit("another type")
        self.inside("git checkout -q .")
        self.assertIn("conflict: /dir: it matches the agent's last commit", self.warren("apply", "session:s", status=1))
        self.assertEqual((self.base / "dir").read_text(), "a file now\n")

    def test_a_deleted_file_that_the_host_has_rewritten_is_no_conflict(self):
        self.inside("rm dir/inner", session="t")
        self.git("checkout", "-q", "-b", "older", "HEAD~1")
        self.git("checkout", "-q", "main")
        (self.base / "dir/inner").write_text((self.base / "dir/inner").read_text())
        self.assertEqual(self.warren("diff", "session:t"), "D f /dir/inner\n")
        self.warren("apply", "session:t")
        self.assertFalse((self.base / "dir/inner").exists())

    def test_what_git_wrote_again_before_the_host_committed_is_no_change(self):
        self.git("branch", "older", "HEAD~1")
        self.inside("git checkout -q older; git checkout -q main; echo 1 > n", session="t")
        self.host_commit("file", "newest\n")
        self.assertEqual(self.warren("diff", "session:t"), "A f /n\n")
        self.warren("apply", "session:t")
        self.assertEqual((self.base / "file").read_text(), "newest\n")

    def test_what_the_host_does_in_a_directory_that_git_made_again_is_no_change(self):
        self.write("dir/other", "1\n")
        self.commit("other")
        for again in ("rm -r dir; git checkout -q .", f"mv dir x; {BOT} stash -q -u; git stash drop -q"):
            for host in (("rm", "-rq", "dir"), ("rm", "-q", "dir/inner"), ("mv", "dir/inner", "moved"), ("mv", "dir", "moved")):
                with self.subTest(again, host=host):
                    self.inside(f"{again}; echo 1 > n", session="t")
                    self.git(*host)
                    self.git("commit", "-qm", "of the host")
                    self.assertEqual(self.warren("diff", "session:t"), "A f /n\n")
                    self.assertIn("1 added", self.warren("apply", "session:t"))
                    self.git("reset", "-q", "--hard", "HEAD~1")
                    (self.base / "n").unlink()

    def test_a_directory_that_both_have_made(self):
        self.inside("echo 1 > n", session="t")
        (self.base / "both").mkdir()
        self.write("both/host", "1\n")
        self.commit("of the host")
        self.inside("mkdir both; echo 1 > both/agent", session="t")
        self.assertEqual(self.warren("diff", "session:t"), "A f /both/agent\nA f /n\n")
        self.warren("apply", "session:t")
        self.assertEqual(sorted(path.name for path in (self.base / "both").iterdir()), ["agent", "host"])

    def test_an_edit_of_what_showed_for_a_moment_is_asked_about(self):
        self.git("branch", "older", "HEAD~1")
        self.inside("echo 1 > n; git status --short > /dev/null", session="t")
        self.write("file", "of the base\nfor a moment\n")  # as a checkout of another branch does, before it is done
        self.inside(f"echo agent >> file; {COMMIT} edited", session="t")
        self.write("file", "newer\n")
        self.assertIn("1 file in the commits is not a change of this session: /file", self.warren("apply", "session:t", status=1))

    def test_an_edit_of_a_binary_file_that_showed_for_a_moment_is_asked_about(self):
        self.write("binary", "\0 1\n")
        self.commit("binary")
        self.inside("echo 1 > n; git status --short > /dev/null", session="t")
        self.write("binary", "\0 for a moment\n")
        self.inside(f"echo agent >> binary; {COMMIT} edited", session="t")
        self.write("other", "1\n")
        self.git("add", "other")
        self.git("commit", "-qm", "other")
        outcome = self.world.warren("apply", "session:t", "--dry-run")
        self.assertNotIn("is not a change of this session", outcome.stdout + outcome.stderr)  # the user still has it
        self.write("binary", "\0 1\n")
        self.assertIn("1 file in the commits is not a change of this session: /binary", self.warren("apply", "session:t", status=1))

    def test_programs_go_on_in_a_directory_that_the_host_deletes(self):
        self.git("checkout", "-q", "-b", "more")
        (self.base / "deep").mkdir()
        self.write("deep/file", "1\n")
        self.commit("deep")
        with self.world.start("run", "--session", "t", "--", "sh", "-ec",
                              "cd deep; exec 3<> file; touch ../begun; until [ -e ../go ]; do sleep 0.05; done; "
                              "until git -C .. log -1 --format=%s warren/base | grep -q host; do sleep 0.05; done; "
                              "echo agent >&3; cat file > ../seen; echo 2 > new; ls > ../listed") as running:
            sandboxed.wait_for(lambda: "A f /begun" in self.world.warren("diff", "session:t").stdout, "the agent did not start")
            self.git("checkout", "-q", "main")
            self.write("go", "")
            _, said = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(running.returncode, 0, said)
        (self.base / "go").unlink()
        self.assertEqual(self.inside("cat seen listed deep/file", session="t").stdout, "agent\nfile\nnew\nagent\n")

    def test_discarding_takes_the_newer_work(self):
        self.inside("echo agent >> file")
        self.warren("discard", "session:s", "--yes", "/file")
        self.inside("grep -q 'of the base' file")
        self.warren("discard", "session:s", "--yes", "--keep")
        self.inside("grep -q newer file; test -e new/deep/file; test ! -e lib; git status --short")

    def test_discarding_in_a_linked_worktree_starts_again_from_its_head(self):
        tree = self.linked_worktree()
        self.inside("echo agent > file; git tag mine; git -c user.name=b -c user.email=b@example.org commit -qam agent", cwd=tree, session="w")
        (tree / "file").write_text("later\n")
        self.commit("of the host", cwd=tree)
        said = self.warren("discard", "session:w", "--yes", "/.git/index", status=1)
        self.assertIn("can only be dropped together", said)
        self.warren("discard", "session:w", "--yes", "--keep")
        said = self.inside("git log -1 --format=%s; cat file; git status --short; git tag", cwd=tree, session="w").stdout
        self.assertEqual(said, "of the host\nlater\n")
        self.assertIn(" 0 ", self.listed("w"))


class NotFrozen(Frozen):
    def test_more_than_the_limit_while_it_runs_is_said_at_the_end(self):
        with open(self.base / "large", "wb") as file:
            file.truncate(257 << 20)
        self.commit("large")
        with self.world.start("run", "--session", "s", "--", "sh", "-ec", "touch begun; until git log -1 --format=%s warren/base | "
                              "grep -q host; do sleep 0.05; done; test ! -e large") as running:
            sandboxed.wait_for(lambda: "A f /begun" in self.world.warren("diff", "session:s").stdout, "the agent did not start")
            self.git("rm", "-q", "large")
            self.commit("of the host")
            _, said = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(running.returncode, 0, said)
        self.assertEqual(said.count(b"the session shows what was committed in the project since its start: that is more than 20000 files"), 1, said)

    def test_a_full_disk_leaves_the_agent_its_room(self):
        state = self.world.home / ".agentfs"
        state.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", state], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", state], check=True)
        names = [f"text-{i}" for i in range(30)]
        for name in names:
            self.write(name, "old\n" * 20_000)
        self.commit("large")
        with self.world.start("run", "--session", "s", "--", "sh", "-ec", "touch begun; until git log -1 --format=%s warren/base | "
                              "grep -q host; do sleep 0.05; done; echo own > own; cat own > again") as running:
            sandboxed.wait_for(lambda: "A f /begun" in self.world.warren("diff", "session:s").stdout, "the agent did not start")
            for name in names:
                self.write(name, "new\n")
            self.commit("of the host")
            _, said = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(running.returncode, 0, said)
        self.assertIn(b"since its start: that needs 11 MiB on the disk of the session", said)
        disk = os.statvfs(state)
        self.assertGreater(disk.f_bavail * disk.f_frsize, 4 << 20)
        subprocess.run(["mount", "-o", "remount,size=60m", state], check=True)
        self.assertEqual(self.inside("git status --short; head -1 text-7").stdout, "?? again\n?? begun\n?? own\nold\n")

    def test_a_large_file_is_frozen(self):
        with open(self.base / "large", "wb") as file:
            file.truncate(70 << 20)
        self.commit("large")
        self.inside("echo 1 > mine")
        self.host_commit("large", "small\n")
        self.assertEqual(self.inside("git status --short; stat -c %s large").stdout, f"?? mine\n{70 << 20}\n")

    def test_a_changed_file_whose_directory_the_host_moves_leaves_no_rows(self):
        self.inside("sed -i s/old/new/ lib/old")
        self.git("mv", "lib", "library")
        self.commit("moved")
        self.inside("rm -r lib")
        self.assertIn("clean: ", self.warren("fsck", "session:s"))
        self.inside("rm -rf lib; mkdir lib; echo x > lib/x; echo y > lib/y; mv lib/x lib/y")
        self.assertIn("clean: ", self.warren("fsck", "session:s"))


class Merging(Frozen):
    def test_two_sessions_are_merged_as_they_are_while_the_host_is_on_an_older_branch(self):
        lines = [f"{i}\n" for i in range(1, 31)]
        for name in ("first", "second"):
            self.write(name, "".join(lines))
        self.commit("lines")
        self.git("branch", "release")
        for name in ("first", "second", "only-main"):
            self.write(name, "".join(lines[:19] + ["main\n"] + lines[20:]))
        self.commit("main")
        self.inside("sed -i s/^5$/a/ first", session="a")
        self.inside("sed -i s/^9$/b/ first second only-main", session="b")
        self.git("checkout", "-q", "release")
        self.assertIn("session both: a, and 3 changes of b", self.warren("merge", "a", "b", "--into", "both"))
        said = self.inside("git diff | grep '^[-+][^-+]'; git status --short", session="both").stdout.split("\n")
        self.assertEqual(said[:-1], ["-5", "+a", "-9", "+b", "-9", "+b", "-9", "+b", " M first", " M only-main", " M second"])
        self.git("checkout", "-q", "main")
        self.assertEqual(self.warren("diff", "both"), "M f /first\nM f /only-main\nM f /second\n")
        self.warren("apply", "session:both")
        self.assertEqual(self.git("diff", "--stat").splitlines()[-1].strip(), "3 files changed, 4 insertions(+), 4 deletions(-)")


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
