#!/usr/bin/env python3
"""apply to a directory, a patch or a git branch.

    WARREN=path/to/warren elsewhere.py [-v] [Class.test_name]
"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted


class Elsewhere(Case):
    def test_to_writes_only_the_changed_files(self):
        self.fill(a="1", b="1", d__x="1")
        self.write("/a", "22")
        self.fs("mv", "/d", "/e")
        self.w.warren("apply", "--to", self.w.root / "out", self.w.id)
        self.assertEqual(sorted(os.listdir(self.w.root / "out")), ["a", "e"])
        self.assertEqual((self.w.root / "out/e/x").read_text(), "1")
        self.assertEqual(self.read("a"), "1")

    def test_to_does_not_write_to_the_base(self):
        self.fill(a="1", d__x="1")
        self.write("/a", "agent")
        self.write("/new", "n")
        overlaid.write(self.base / "a", "newer work")
        (self.base / "link").symlink_to(".")
        before = overlaid.snapshot(self.base)
        for to, says in ((self.base, "is the base"), (self.base / "link", "is the base"), (self.base.parent, "contains the base"),
                         (self.base / "d", "is in the base"), (self.base / "d/..", "is the base")):
            with self.subTest(to):
                self.assertIn(says, self.w.fails("apply", "--to", to, self.w.id))
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
        self.w.warren("apply", "--to", self.base / "out", self.w.id)  # it is new, so nothing is replaced
        self.assertEqual(sorted(os.listdir(self.base / "out")), ["a", "new"])

    def test_as_patch(self):
        self.fill(a="1\n")
        self.write("/a", "2\n")
        self.w.warren("apply", "--as-patch", self.w.root / "p", self.w.id)
        self.assertEqual((self.w.root / "p").read_bytes(), self.w.warren("diff", "-p", self.w.id))
        self.assertEqual(self.w.warren("apply", "--as-patch", "-", self.w.id), self.w.warren("diff", "-p", self.w.id))
        subprocess.run(["patch", "-p1", "-i", self.w.root / "p"], cwd=self.base, check=True, capture_output=True)
        self.assertEqual(self.read("a"), "2\n")

    def test_as_branch(self):
        overlaid.write(self.base / " sub/a", "1\n")
        overlaid.write(self.base / " sub/gone", "1\n")
        overlaid.write(self.base / ".gitignore", "*.log\n")
        overlaid.git("init", "-q", ".", cwd=self.base)
        for key, value in (("user.name", "T"), ("user.email", "t@example.org")):
            overlaid.git("config", key, value, cwd=self.base)
        overlaid.git("add", ".", cwd=self.base)
        overlaid.git("commit", "-qm", "first", cwd=self.base)
        before = overlaid.snapshot(self.base / " sub")
        top, self.w.base = self.base, self.base / " sub"  # a name that must not be trimmed
        self.w.init()
        self.write("/a", "2\n")
        self.fs("rm", "/gone")
        self.w.change(lambda p: overlaid.write(os.fsencode(p) + b"/n\xff\n\"w", "new\n"))
        self.write("/x.log", "ignored")
        self.w.warren("apply", "--as-branch", "agent", self.w.id)
        files = overlaid.git("ls-tree", "-r", "-z", "--name-only", "agent", cwd=top).split(b"\0")
        self.assertEqual(files, [b" sub/a", b" sub/n\xff\n\"w", b".gitignore", b""])
        self.assertEqual(overlaid.git("show", "agent: sub/a", cwd=top), b"2\n")
        self.assertEqual(overlaid.git("status", "--porcelain", cwd=top), b"")
        self.assertEqual(overlaid.git("rev-parse", "agent^", cwd=top), overlaid.git("rev-parse", "HEAD", cwd=top))
        self.assertEqual(overlaid.snapshot(top / " sub"), before)
        self.assertIn("already exists", self.w.fails("apply", "--as-branch", "agent", self.w.id))
        self.assertIn("is not a valid branch name", self.w.fails("apply", "--as-branch", "a..b", self.w.id))

    def both_change(self, other="host", line=5):
        """A repository in which the agent changed line 15, and somebody else then committed a change of another line."""
        self.fill(a="".join(self.LINES), b="b\n")
        self.commit("first", "init", "-q")
        self.write("/a", "".join(self.with_line(15, "agent")))
        overlaid.write(self.base / "a", "".join(self.with_line(line, other)))
        self.commit("second")

    def commit(self, message, *before):
        if before:
            overlaid.git(*before, cwd=self.base)
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        overlaid.git("add", "a", "b", cwd=self.base)
        overlaid.git(*who, "commit", "-qm", message, cwd=self.base)

    def branch(self, name, *paths, fails=False):
        run = self.w.fails if fails else self.w.warren
        env = self.w.environment() | {"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org",
                                      "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        return run("apply", "--as-branch", name, self.w.id, *paths, env=env)

    def test_a_patch_and_a_branch_do_not_revert_newer_work(self):
        self.both_change()
        expected = "".join(self.with_line(15, "agent", self.with_line(5, "host")))
        for patch in (self.w.warren("diff", "-p", self.w.id), self.w.warren("apply", "--as-patch", "-", self.w.id)):
            self.assertNotIn(b"host", patch)
            self.assertIn(b"-line 15\n+agent\n", patch)
            self.assertNotIn(b"line 5\n", patch)
        subprocess.run(["git", "apply", "-"], cwd=self.base, input=patch, check=True)
        self.assertEqual(self.read("a"), expected)
        overlaid.git("checkout", "-q", "a", cwd=self.base)
        self.branch("agent")
        self.assertEqual(overlaid.git("show", "agent:a", cwd=self.base).decode(), expected)
        self.assertEqual(overlaid.git("diff", "--name-only", "HEAD", "agent", cwd=self.base), b"a\n")

    def test_a_branch_that_would_revert_newer_work_is_refused(self):
        self.both_change(line=15)
        said = self.branch("agent", fails=True)
        self.assertIn("HEAD has another version than the agent saw", said)
        self.assertNotIn(b"agent", overlaid.git("branch", cwd=self.base))

    def test_a_deletion_of_a_newer_version_is_refused(self):
        self.fill(a="1\n", b="b\n")
        self.commit("first", "init", "-q")
        self.fs("rm", "/a")
        overlaid.write(self.base / "a", "2\n")
        self.commit("second")
        self.assertIn("the version that the agent started from was not kept", self.branch("agent", fails=True))
        self.assertIn("the version that the agent started from was not kept", self.w.fails("diff", "-p", self.w.id))

    def test_as_branch_without_a_repository(self):
        self.fill(a="1")
        self.write("/a", "22")
        env = {**self.w.environment(), "GIT_CEILING_DIRECTORIES": str(self.w.root)}
        self.assertIn("is not in a git work tree", self.w.fails("apply", "--as-branch", "x", self.w.id, env=env))
        self.assertIn("git is not installed",
                      self.w.fails("apply", "--as-branch", "x", self.w.id, env={**env, "PATH": "/nonexistent"}))


class Branch(Case):
    """In a repository that existed when the agent was created: the branch starts where the agent did."""

    WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org")

    def git(self, *words, **options):
        return overlaid.git(*self.WHO, *words, cwd=self.base, **options).decode()

    def begin(self, settings=(), **files):
        self.git("init", "-q", "-b", "main", ".")
        for key, value in settings:
            self.git("config", key, value)
        for name, content in files.items():
            overlaid.write(self.base / name, content)
        self.commit("first")
        self.start = self.git("rev-parse", "HEAD")
        self.w.init()

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-qm", message)

    def branch(self, *words, name="agent", run=None):
        env = self.w.environment() | {"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org"}
        return (run or self.w.warren)("apply", "--as-branch", name, *(words or (self.w.id,)), env=env)

    def merges(self, name="agent"):
        return subprocess.run(["git", *self.WHO, "merge", "-q", "--no-edit", name], cwd=self.base, capture_output=True).returncode == 0

    def test_git_merges_it_with_newer_work(self):
        self.begin(a="".join(self.LINES), b="b\n")
        self.write("/a", "".join(self.with_line(15, "agent")))
        overlaid.write(self.base / "a", "".join(self.with_line(5, "host")))
        self.commit("second")
        self.branch()
        self.assertEqual(self.git("rev-parse", "agent^"), self.start)
        self.assertEqual(self.git("show", "agent:a"), "".join(self.with_line(15, "agent")))
        self.assertTrue(self.merges())
        self.assertEqual(self.read("a"), "".join(self.with_line(15, "agent", self.with_line(5, "host"))))

    def test_git_reports_what_both_changed_or_one_deleted(self):
        for change, fs in ((lambda: overlaid.write(self.base / "a", "".join(self.with_line(15, "host"))), ("write", "/a")),
                           (lambda: overlaid.write(self.base / "a", "host\n"), ("rm", "/a"))):
            with self.subTest(fs):
                self.doCleanups()
                self.setUp()
                self.begin(a="".join(self.LINES), b="b\n")
                self.fs(*fs, input="".join(self.with_line(15, "agent")).encode())
                change()
                self.commit("second")
                self.branch()
                self.assertEqual(self.git("rev-parse", "agent^"), self.start)
                self.assertFalse(self.merges())
                self.assertIn("host", self.git("show", "main:a"))

    def test_two_sessions_do_not_erase_each_other(self):
        self.begin(a="".join(self.LINES), b="b\n")
        self.w.warren("init", "--base", self.base, "other")
        self.write("/a", "".join(self.with_line(2, "one")))
        self.w.warren("fs", "other", "write", "/a", input="".join(self.with_line(18, "two")).encode())
        self.branch(name="one")
        self.assertTrue(self.merges("one"))
        self.branch("other", name="two")
        self.assertTrue(self.merges("two"))
        self.assertEqual(self.read("a"), "".join(self.with_line(18, "two", self.with_line(2, "one"))))

    def test_a_session_records_where_it_started(self):
        self.begin(a="1\n")
        subprocess.run([mounted.program(), "run", "--session", "fix", "--", "sh", "-c", "echo agent > a"], cwd=self.base,
                       env=self.w.environment(), check=True, capture_output=True, timeout=120)
        overlaid.write(self.base / "b", "host\n")
        self.commit("second")
        self.branch("session:fix")
        self.assertEqual(self.git("rev-parse", "agent^"), self.start)

    def test_a_start_that_the_repository_does_not_have_is_not_used(self):
        self.begin(a="1\n")
        self.write("/a", "agent\n")
        shutil.rmtree(self.base / ".git")
        self.git("init", "-q", "-b", "main", ".")
        overlaid.write(self.base / "b", "b\n")
        self.commit("another repository")
        self.branch()
        self.assertEqual(self.git("rev-parse", "agent^"), self.git("rev-parse", "main"))

    def test_a_file_from_elsewhere_has_no_start(self):
        self.begin(a="1\n", b="b\n")
        self.fs("rm", "/a")
        copy = self.w.home / "copy.db"
        shutil.copy(self.w.file, copy)
        overlaid.write(self.base / "a", "newer\n")
        self.commit("second")
        said = self.branch("--trust-base", self.base, copy, run=self.w.fails)
        self.assertIn("the version that the agent started from was not kept", said)

    def test_uncommitted_work_is_not_part_of_it(self):
        self.begin(a="".join(self.LINES))
        overlaid.write(self.base / "a", "".join(self.with_line(3, "not committed")))
        self.write("/a", "".join(self.with_line(15, "agent", self.with_line(3, "not committed"))))
        self.branch()
        self.assertEqual(self.git("show", "agent:a"), "".join(self.with_line(15, "agent")))

    def test_a_large_file(self):
        self.begin(a="1\n")
        with open(self.base / "big", "wb") as file:
            file.truncate(65 << 20)
            file.write(b"begin")
        self.commit("big")
        self.w.warren("init", "--base", self.base, "late")
        for agent in (self.w.id, "late"):
            self.w.warren("fs", agent, "write", "/other", input=b"x\n")
        point = self.w.mount()
        with open(point / "big", "r+b") as file:
            file.seek(1 << 20)
            file.write(b"agent")
        self.w.umount(point)
        self.branch()
        self.assertEqual(self.git("cat-file", "-s", "agent:big").strip(), str(65 << 20))
        names = self.git("diff", "--name-only", "main", "agent").split()
        self.assertEqual(names, ["big", "other"])

    def test_line_ends_are_converted_as_git_does(self):
        self.begin([("core.autocrlf", "true")], a="one\r\ntwo\r\n")
        self.assertEqual(self.git("cat-file", "blob", "main:a"), "one\ntwo\n")
        self.write("/a", "one\r\n2\r\n")
        self.write("/new", "n\r\n")
        self.branch()
        self.assertEqual(self.git("cat-file", "blob", "agent:a"), "one\n2\n")
        self.assertEqual(self.git("cat-file", "blob", "agent:new"), "n\n")
        self.assertEqual(self.git("diff", "--numstat", "main", "agent", "--", "a").split(), ["1", "1", "a"])

    def test_clean_filters_are_used(self):
        self.begin([("filter.up.clean", "tr a-z A-Z"), ("filter.up.smudge", "tr A-Z a-z")], x="plain\n",
                   **{".gitattributes": "*.up filter=up\n", "a.up": "one\ntwo\nthree\nfour\n"})
        self.assertEqual(self.git("cat-file", "blob", "main:a.up"), "ONE\nTWO\nTHREE\nFOUR\n")
        self.write("/a.up", "one\ntwo\nthree\n4\n")
        self.write("/sub/b.up", "new\n")
        self.branch()
        self.assertEqual(self.git("cat-file", "blob", "agent:a.up"), "ONE\nTWO\nTHREE\n4\n")
        self.assertEqual(self.git("cat-file", "blob", "agent:sub/b.up"), "NEW\n")

    def test_no_hook_runs_and_nothing_else_changes(self):
        self.begin(a="1\n")
        for hook in ("post-index-change", "reference-transaction", "pre-commit", "post-commit"):
            overlaid.write(self.base / ".git/hooks" / hook, f"#!/bin/sh\ntouch {self.w.root}/PWNED\n")
            os.chmod(self.base / ".git/hooks" / hook, 0o755)
        self.write("/a", "2\n")
        self.w.change(lambda p: (os.symlink("a", p + "/link"), overlaid.write(p + "/tool", "x\n"), os.chmod(p + "/tool", 0o755)))
        index = (self.base / ".git/index").read_bytes()
        self.branch()
        self.assertFalse((self.w.root / "PWNED").exists())
        self.assertEqual((self.base / ".git/index").read_bytes(), index)
        listed = [line.split()[0] + " " + line.split("\t")[1] for line in self.git("ls-tree", "-r", "agent").splitlines()]
        self.assertEqual(listed, ["100644 a", "120000 link", "100755 tool"])


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
