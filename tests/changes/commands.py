#!/usr/bin/env python3
"""diff, apply and discard: every flag, every kind of conflict, hostile names, and what must not be touched.

    WARREN=path/to/warren commands.py [-v] [Class.test_name]
"""
import errno
import json
import os
import pathlib
import pty
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from overlaid import mounted

HOSTILE = [b"plain", b"with space", b"quo\"te", b"apos'trophe", b"new\nline", b"\xff\xfe", b"\xc3\xa9", b"tab\t", b"back\\slash",
           b"-dash", b"*", b"[a]", b"a -> b", b"\x1b[31m"]


class Case(unittest.TestCase):
    def setUp(self):
        self.w = overlaid.World()
        self.w.__enter__()
        self.addCleanup(self.w.__exit__)
        self.base = self.w.base

    def fill(self, **files):
        for name, content in files.items():
            overlaid.write(self.base / name.replace("__", "/"), content)
        self.w.init()

    def fs(self, *args, **options):
        return self.w.warren("fs", self.w.id, *args, **options)

    def write(self, path, content):
        self.fs("write", path, input=content.encode())

    def read(self, name):
        return (self.base / name).read_text()

    def talk(self, words, answers):
        """On a terminal."""
        leader, follower = pty.openpty()
        child = subprocess.Popen([mounted.program(), *words], cwd=self.w.home, env=self.w.environment(), stdin=follower,
                                 stdout=follower, stderr=follower)
        os.close(follower)
        os.write(leader, answers)
        said = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:
                break
            if not part:
                break
            said += part
        child.wait(timeout=60)
        os.close(leader)
        return said


class Diff(Case):
    def test_lines_names_and_json(self):
        self.fill(a="1\n", b="2\n", d__x="3\n")
        self.write("/a", "one\n")
        self.fs("rm", "/b")
        self.fs("mv", "/d", "/e")
        self.fs("mkdir", "/new")
        self.assertEqual(self.w.lines(), ["M f /a", "D f /b", "R d /d -> /e", "A d /new"])
        self.assertEqual(self.w.lines("--name-only"), ["/a", "/b", "/e", "/new"])
        self.assertEqual(self.w.warren("diff", "--name-only", "-z", self.w.id), b"/a\0/b\0/e\0/new\0")
        listed = json.loads(self.w.warren("diff", "--json", self.w.id))
        self.assertEqual([(c["change"], c["type"], c["path"]) for c in listed],
                         [("modified", "file", "/a"), ("deleted", "file", "/b"), ("renamed", "directory", "/e"),
                          ("added", "directory", "/new")])
        self.assertEqual(listed[2]["from"], "/d")

    def test_the_exit_status_shows_changes_only_if_asked(self):
        self.fill(a="1\n")
        self.assertEqual(self.w.run("diff", "--exit-code", self.w.id).returncode, 0)
        self.write("/a", "2\n")
        self.assertEqual(self.w.run("diff", self.w.id).returncode, 0)
        self.assertEqual(self.w.run("diff", "--exit-code", self.w.id).returncode, 1)

    def test_paths_and_patterns_choose(self):
        self.fill(a="1", d__x="1", d__y="1", e__x="1")
        for path in ["/a", "/d/x", "/d/y", "/e/x"]:
            self.write(path, "22")
        self.assertEqual(self.w.lines("/d"), ["M f /d/x", "M f /d/y"])
        self.assertEqual(self.w.lines("d/x", "a"), ["M f /a", "M f /d/x"])
        self.assertEqual(self.w.lines("/*/x"), ["M f /d/x", "M f /e/x"])
        self.assertEqual(self.w.lines("/nothing"), [])

    def test_a_file_that_was_only_read_or_written_back_is_not_a_change(self):
        self.fill(a="1\n", b="2\n")
        self.fs("cat", "/a")
        self.write("/b", "2\n")
        self.w.change(lambda p: os.chmod(p + "/a", stat.S_IMODE(os.stat(p + "/a").st_mode)))
        self.assertEqual(self.w.diff(), [])

    def test_a_deleted_directory_is_listed_with_its_content(self):
        self.fill(d__x="1", d__s__y="1")
        self.fs("rm", "-r", "/d")
        self.assertEqual(self.w.lines(), ["D d /d", "D d /d/s", "D f /d/s/y", "D f /d/x"])

    def test_a_change_of_kind_is_a_deletion_and_an_addition(self):
        self.fill(f="1")
        self.fs("rm", "/f")
        self.fs("mkdir", "/f")
        self.assertEqual(self.w.lines(), ["D f /f", "A d /f"])

    def test_stat_counts_lines(self):
        self.fill(a="1\n2\n3\n")
        self.write("/a", "1\ntwo\n3\n4\n")
        self.w.change(lambda p: overlaid.write(p + "/bin", b"\0\1"))
        out = self.w.warren("diff", "--stat", self.w.id).decode()
        self.assertIn(" a   |   3 ++-", out)
        self.assertIn("bin | Bin 0 -> 2 bytes", out)
        self.assertIn(" 2 files changed, 2 insertions(+), 1 deletion(-)", out)

    def test_hostile_names_are_exact(self):
        for name in HOSTILE:
            overlaid.write(os.fsencode(self.base) + b"/" + name, b"1")
        self.w.init()
        for name in HOSTILE:
            self.w.change(lambda p, n=name: overlaid.write(os.fsencode(p) + b"/" + n, b"22"))
        wanted = sorted(b"M f /" + name for name in HOSTILE)
        self.assertEqual(sorted(self.w.diff()), wanted)
        listed = json.loads(self.w.warren("diff", "--json", self.w.id))
        names = sorted(bytes.fromhex(c["path_hex"]) if "path_hex" in c else c["path"].encode() for c in listed)
        self.assertEqual(names, sorted(b"/" + name for name in HOSTILE))
        self.w.warren("apply", self.w.id)
        for name in HOSTILE:
            with open(os.fsencode(self.base) + b"/" + name, "rb") as file:
                self.assertEqual(file.read(), b"22")
        self.assertEqual(self.w.diff(), [])

    def test_hostile_names_do_nothing_to_a_terminal(self):
        for name in HOSTILE:
            overlaid.write(os.fsencode(self.base) + b"/" + name, b"1\n")
        self.w.init()
        self.w.change(lambda p: [overlaid.write(os.fsencode(p) + b"/" + name, b"2\n") for name in HOSTILE])
        for form in ([], ["--name-only"], ["--stat"], ["--patch"]):
            said = self.talk(["diff", *form, self.w.id], b"").replace(b"\r\n", b"\n")
            self.assertNotIn(b"\x1b[31m\n", said)
            self.assertNotIn(b"/\x1b", said)
            self.assertNotIn(b"\xff", said)
            self.assertNotIn(b"new\nline", said)
        patch = self.w.root / "patch"
        self.w.warren("apply", "--as-patch", patch, self.w.id)
        overlaid.git("apply", "--unsafe-paths", patch, cwd=self.base)
        for name in HOSTILE:
            with open(os.fsencode(self.base) + b"/" + name, "rb") as file:
                self.assertEqual(file.read(), b"2\n", name)

    def test_an_agent_without_a_base_says_so(self):
        self.w.warren("init", "lone")
        self.assertIn("has no base", self.w.fails("diff", "lone"))
        done = subprocess.run(["agentfs", "diff", "lone"], executable=mounted.program(), cwd=self.w.home, env=self.w.environment(), capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, b"No diff (non-overlay filesystem)\n"))

    def test_as_agentfs(self):
        self.fill(a="1", b="1", c="1")

        def agentfs():
            return subprocess.run(["agentfs", "diff", self.w.id], executable=mounted.program(), cwd=self.w.home,
                                  capture_output=True, check=True)
        self.assertEqual(agentfs().stdout, b"No changes\n")
        self.write("/a", "22")
        self.fs("mv", "/b", "/z")
        self.fs("rm", "/c")
        done = agentfs()
        self.assertEqual(done.stdout, b"M f /a\nD f /b\nD f /c\nA f /z\n")
        self.assertEqual(done.stderr, f"Using agent: a\nBase: {self.base}\n".encode())


class Apply(Case):
    def test_times_modes_links_and_attributes_are_kept(self):
        self.fill(f="1", g="1")
        os.setxattr(self.base / "f", "user.old", b"1")

        def change(p):
            overlaid.write(p + "/f", "new")
            os.utime(p + "/f", ns=(10**18, 10**18 + 5))
            os.removexattr(p + "/f", "user.old")
            os.setxattr(p + "/f", "user.new", b"\0v")
            os.chmod(p + "/g", 0o751)
            os.symlink("nowhere", p + "/l")
            os.lchown(p + "/l", 12, 13)
            overlaid.write(p + "/one", "linked")
            os.link(p + "/one", p + "/two")
            os.mkfifo(p + "/pipe", 0o600)
            with open(p + "/sparse", "wb") as file:
                file.seek(50 << 20)
                file.write(b"end")
        self.w.change(change)
        self.w.warren("apply", self.w.id)
        info = os.stat(self.base / "f")
        self.assertEqual(info.st_mtime_ns, 10**18 + 5)
        self.assertEqual(os.listxattr(self.base / "f"), ["user.new"])
        self.assertEqual(os.getxattr(self.base / "f", "user.new"), b"\0v")
        self.assertEqual(stat.S_IMODE(os.stat(self.base / "g").st_mode), 0o751)
        self.assertEqual((os.readlink(self.base / "l"), os.lstat(self.base / "l").st_uid), ("nowhere", 12))
        self.assertTrue(os.path.samefile(self.base / "one", self.base / "two"))
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.base / "pipe").st_mode))
        sparse = os.stat(self.base / "sparse")
        self.assertEqual(sparse.st_size, (50 << 20) + 3)
        self.assertLess(sparse.st_blocks * 512, 1 << 20)
        self.assertEqual(self.w.diff(), [])

    def test_a_renamed_directory_is_renamed_and_not_copied(self):
        self.fill(d__x="1", d__y="2")
        number = os.stat(self.base / "d").st_ino, os.stat(self.base / "d/x").st_ino
        self.fs("mv", "/d", "/e")
        self.w.warren("apply", self.w.id)
        self.assertEqual((os.stat(self.base / "e").st_ino, os.stat(self.base / "e/x").st_ino), number)

    def test_a_file_with_other_names_is_written_in_place(self):
        overlaid.write(self.base / "a", "old")
        os.link(self.base / "a", self.base / "b")
        self.w.init()
        self.write("/a", "new content")
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("a"), self.read("b")), ("new content", "new content"))
        self.assertTrue(os.path.samefile(self.base / "a", self.base / "b"))

    def test_only_what_was_chosen_and_what_it_needs(self):
        self.fill(a="1", b="1")
        self.write("/a", "22")
        self.write("/b", "22")
        self.write("/new/deep/f", "x")
        self.write("/new/other", "y")
        self.w.warren("apply", self.w.id, "/b", "/new/deep/f")
        self.assertEqual(self.w.lines(), ["M f /a", "A f /new/other"])
        self.assertEqual((self.read("a"), self.read("b"), self.read("new/deep/f")), ("1", "22", "x"))
        self.assertIn("no changes match", self.w.fails("apply", self.w.id, "/typo"))

    def test_dry_run_changes_nothing(self):
        self.fill(a="1")
        self.write("/a", "22")
        out = self.w.warren("apply", "--dry-run", self.w.id).decode()
        self.assertEqual(out, "M f /a\nwould apply: 1 modified\n")
        self.assertEqual(self.read("a"), "1")
        self.assertEqual(self.w.lines(), ["M f /a"])

    def conflict(self, *paths):
        """Apply must report these, write nothing and keep the changes."""
        before, changes = overlaid.snapshot(self.base), self.w.diff()
        said = self.w.fails("apply", self.w.id)
        for path in paths:
            self.assertIn(f"conflict: {path}: ", said)
        self.assertEqual(sum(line.startswith("conflict: ") for line in said.splitlines()), len(paths), said)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
        self.assertEqual(self.w.diff(), changes)
        self.assertEqual(self.w.staging(), [])

    def test_conflict_a_file_that_both_changed(self):
        self.fill(a="1\n", b="1\n")
        self.write("/a", "agent\n")
        self.write("/b", "agent\n")
        overlaid.write(self.base / "a", "host!\n")
        self.conflict("/a")
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual((self.read("a"), self.read("b")), ("agent\n", "agent\n"))
        self.assertEqual(self.w.diff(), [])

    def test_conflict_a_file_that_the_host_deleted(self):
        self.fill(d__a="1\n")
        self.write("/d/a", "agent\n")
        shutil.rmtree(self.base / "d")
        said = self.w.fails("apply", self.w.id)
        self.assertIn("conflict: /d/a: it was deleted from the base", said)
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual(self.read("d/a"), "agent\n")

    def test_conflict_a_file_that_both_added(self):
        self.fill(a="1\n")
        self.write("/new", "agent\n")
        time.sleep(0.02)
        overlaid.write(self.base / "new", "host\n")
        self.conflict("/new")
        overlaid.write(self.base / "new", "agent\n")
        self.assertEqual(self.w.lines(), [])  # both are equal again

    def test_conflict_a_deleted_file_that_the_host_changed(self):
        self.fill(a="1\n", b="1\n")
        self.fs("rm", "/a")
        overlaid.write(self.base / "a", "host has more\n")
        self.conflict("/a")
        self.w.warren("apply", "--force", self.w.id)
        self.assertFalse((self.base / "a").exists())

    def test_conflict_a_deleted_directory_that_got_a_file(self):
        self.fill(d__x="1\n")
        self.fs("rm", "-r", "/d")
        time.sleep(0.02)
        overlaid.write(self.base / "d/unseen", "host\n")
        self.conflict("/d/unseen")

    def test_conflict_another_kind(self):
        self.fill(a="1\n")
        self.write("/a", "agent\n")
        os.unlink(self.base / "a")
        (self.base / "a").mkdir()
        self.assertIn("conflict: /a", self.w.fails("apply", self.w.id))

    def test_conflict_a_renamed_file_that_the_host_changed(self):
        self.fill(a="1\n")
        self.fs("mv", "/a", "/b")
        overlaid.write(self.base / "a", "host\n")
        self.conflict("/b")

    def test_touching_is_not_a_conflict(self):
        self.fill(a="1\n")
        self.edit("/a", 0, b"2")
        os.utime(self.base / "a")
        self.w.warren("apply", self.w.id)
        self.assertEqual(self.read("a"), "2\n")

    def edit(self, path, offset, data):
        """Writes in place, without truncating the file first."""
        def change(point):
            with open(point + path, "r+b") as file:
                file.seek(offset)
                file.write(data)
        self.w.change(change)

    def test_merge_combines_changes_that_do_not_overlap(self):
        lines = [f"line {i:02}\n" for i in range(20)]
        agents = lines[:2] + ["agent 2\n"] + lines[3:]
        self.fill(a="".join(lines), b="".join(lines))
        for path in ("/a", "/b"):
            self.edit(path, 16, b"agent 2\n")
        overlaid.write(self.base / "a", "".join(lines[:15] + ["host\n"] + lines[16:]))
        overlaid.write(self.base / "b", "".join(lines[:2] + ["host\n"] + lines[3:]))
        said = self.w.fails("apply", "--merge", self.w.id)
        self.assertIn("conflict: /b", said)
        self.assertNotIn("conflict: /a", said)
        self.w.warren("apply", "--merge", self.w.id, "/a")
        self.assertEqual(self.read("a"), "".join(agents[:15] + ["host\n"] + agents[16:]))
        self.assertEqual(self.w.lines(), ["M f /b"])

    def replace_by(self, how):
        """Replaces /a by a version with another line 15, as editors do."""
        content = "".join(self.with_line(15, "agent"))

        def change(point):
            if how == "removed":
                os.unlink(point + "/a")
                overlaid.write(point + "/a", content)
                return
            if how == "written before":
                overlaid.write(point + "/a", "".join(self.with_line(1, "agent 1")))
            overlaid.write(point + "/a.new", content)
            os.rename(point + "/a.new", point + "/a")
            if how == "written after":
                with open(point + "/a", "r+") as file:
                    file.write(content)
        self.w.change(change)

    def test_merge_of_a_file_that_was_replaced(self):
        for how in ("renamed", "removed", "written before", "written after"):
            with self.subTest(how):
                self.doCleanups()
                self.setUp()
                self.fill(a="".join(self.LINES))
                self.replace_by(how)
                time.sleep(0.02)
                overlaid.write(self.base / "a", "".join(self.with_line(5, "host")))
                self.assertIn("conflict: /a", self.w.fails("apply", self.w.id))
                self.w.warren("apply", "--merge", self.w.id)
                self.assertEqual(self.read("a"), "".join(self.with_line(15, "agent", self.with_line(5, "host"))))
                self.w.fsck()

    def test_touching_a_file_that_was_replaced_is_not_a_conflict(self):
        for how in ("renamed", "removed"):
            with self.subTest(how):
                self.doCleanups()
                self.setUp()
                self.fill(a="".join(self.LINES))
                self.replace_by(how)
                time.sleep(0.02)
                os.utime(self.base / "a")
                self.w.warren("apply", self.w.id)
                self.assertEqual(self.read("a"), "".join(self.with_line(15, "agent")))

    def test_an_edit_before_the_agents_last_write_is_a_conflict_too(self):
        self.fill(a="".join(self.LINES))
        self.replace_by("renamed")
        overlaid.write(self.base / "a", "".join(self.with_line(5, "host")))
        time.sleep(0.02)
        self.write("/a", "".join(self.with_line(16, "agent")))
        self.assertIn("conflict: /a", self.w.fails("apply", self.w.id))

    def test_a_replaced_file_that_is_removed_or_moved_leaves_no_row(self):
        self.fill(a="1\n", b="2\n")
        for name in ("a", "b"):
            self.w.change(lambda p: (overlaid.write(p + "/new", "x\n"), os.rename(p + "/new", p + "/" + name)))
        self.w.change(lambda p: (os.unlink(p + "/a"), os.rename(p + "/b", p + "/c")))
        self.w.fsck()
        database = sqlite3.connect(self.w.file)
        self.assertEqual(database.execute("SELECT count(*) FROM wr_ancestor").fetchone(), (0,))
        database.close()

    def test_a_changed_mode_alone_is_synced(self):
        self.fill(a="1", d__x="2")
        self.w.change(lambda p: (os.chmod(p + "/a", 0o600), os.chmod(p + "/d", 0o700)))
        log = self.w.root / "trace"
        subprocess.run(["strace", "-f", "-y", "-o", log, "-e", "trace=fsync,syncfs", mounted.program(), "apply", self.w.id],
                       cwd=self.w.home, env=self.w.environment(), check=True, capture_output=True, timeout=60)
        synced = log.read_text()
        for name in ("a", "d"):
            self.assertRegex(synced, f"fsync\\([0-9]+<{self.base}/{name}>", synced)

    def test_a_new_set_user_id_bit_needs_force(self):
        self.fill(a="1")
        self.w.change(lambda p: os.chmod(p + "/a", 0o4755))
        self.w.warren("apply", self.w.id)
        self.assertEqual(stat.S_IMODE(os.stat(self.base / "a").st_mode), 0o755)

    def test_to_writes_only_the_changed_files(self):
        self.fill(a="1", b="1", d__x="1")
        self.write("/a", "22")
        self.fs("mv", "/d", "/e")
        self.w.warren("apply", "--to", self.w.root / "out", self.w.id)
        self.assertEqual(sorted(os.listdir(self.w.root / "out")), ["a", "e"])
        self.assertEqual((self.w.root / "out/e/x").read_text(), "1")
        self.assertEqual(self.read("a"), "1")

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

    LINES = [f"line {i}\n" for i in range(1, 21)]

    def with_line(self, number, text, lines=None):
        lines = list(lines or self.LINES)
        lines[number - 1] = text + "\n"
        return lines

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
        self.assertIn("HEAD does not have the version that the agent started from", said)
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
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.w.root)}
        self.assertIn("is not in a git work tree", self.w.fails("apply", "--as-branch", "x", self.w.id, env=env))
        self.assertIn("git is not installed",
                      self.w.fails("apply", "--as-branch", "x", self.w.id, env={**env, "PATH": "/nonexistent"}))

    def test_interactive_asks(self):
        self.fill(a="1\n", b="1\n", c="1\n")
        for name in "abc":
            self.write(f"/{name}", "22\n")
        self.assertIn("needs standard input to be a terminal", self.w.fails("apply", "-i", self.w.id))
        said = self.talk(["apply", "-i", self.w.id], b"d\ny\nn\ny\n")
        self.assertIn(b"+22", said)
        self.assertEqual((self.read("a"), self.read("b"), self.read("c")), ("22\n", "1\n", "22\n"))
        self.talk(["apply", "-i", self.w.id], b"q\n")
        self.assertEqual(self.read("b"), "1\n")

    def test_a_link_in_the_base_is_not_followed(self):
        """A directory of the base is replaced by a link to another place, before and during the apply."""
        outside = self.w.root / "outside"
        outside.mkdir()
        overlaid.write(outside / "f", "outside\n")
        self.fill(d__f="1\n")
        self.write("/d/f", "agent\n")
        self.write("/d/new", "agent\n")
        shutil.rmtree(self.base / "d")
        os.symlink(outside, self.base / "d")
        self.w.run("apply", self.w.id)
        self.w.run("apply", "--force", self.w.id)
        self.assertEqual(os.listdir(outside), ["f"])
        self.assertEqual((outside / "f").read_text(), "outside\n")

    def test_a_base_that_cannot_be_written(self):
        self.fill(a="1\n")
        self.write("/a", "22\n")
        script = f"mount --bind {self.base} {self.base} && mount -o remount,bind,ro {self.base} && " \
                 f"cd {self.w.home} && {mounted.program()} apply a; code=$?; {mounted.program()} diff a; exit $code"
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"stage the changes in the base", done.stderr)
        self.assertEqual(done.stdout, b"M f /a\n")
        self.assertEqual(self.read("a"), "1\n")

    def test_a_full_disk_changes_nothing(self):
        small = self.w.root / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
        self.addCleanup(lambda: mounted.detach(small))
        self.w.base = self.base = small
        overlaid.write(small / "a", "1")
        self.w.init()
        self.w.change(lambda p: (overlaid.write(p + "/big", os.urandom(4 << 20)), overlaid.write(p + "/a", "22")))
        self.assertIn("No space", self.w.fails("apply", self.w.id).replace("no space", "No space"))
        self.assertEqual(os.listdir(small), ["a"])
        self.assertEqual(self.read("a"), "1")
        self.assertEqual(self.w.lines(), ["M f /a", "A f /big"])

    def test_a_tree_deeper_than_the_longest_path(self):
        self.fill(a="1")
        script = "import os\nfor _ in range(60):\n os.mkdir('n' * 100); os.chdir('n' * 100)\nopen('f', 'w').write('deep')"
        self.w.change(lambda p: subprocess.run([sys.executable, "-c", script], cwd=p, check=True))
        self.write("/a", "22")
        # It cannot be applied, but must not prevent anything else.
        self.assertIn("at most 4096 are allowed", self.w.fails("apply", self.w.id))
        self.assertEqual(self.w.staging(), [])
        self.assertEqual(len(self.w.lines()), 62)
        self.w.warren("apply", self.w.id, "/a")
        self.assertEqual(self.read("a"), "22")
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.w.lines(), [])
        self.assertEqual(os.listdir(self.base), ["a"])

    def test_while_it_is_mounted(self):
        self.fill(a="1", b="1")
        point = self.w.mount()
        overlaid.write(point / "a", "from the mount")
        os.sync()
        with open(point / "a") as held:
            os.fsync(held.fileno())
        self.w.warren("apply", self.w.id)
        self.assertEqual(self.read("a"), "from the mount")
        mounted.wait_for(lambda: (point / "a").read_text() == "from the mount", "the mount to show it")
        overlaid.write(point / "a", "again")
        self.assertEqual((point / "a").read_text(), "again")
        self.w.umount(point)
        self.assertEqual(self.w.lines(), ["M f /a"])
        self.assertEqual(self.read("a"), "from the mount")
        self.w.fsck()


class Interrupted(Case):
    def interrupt(self):
        """Kills an apply after it has moved /gone away, and puts something else at its place."""
        self.fill(a="old a\n", gone="old gone\n")
        self.write("/a", "new a\n")
        self.fs("rm", "/gone")
        subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=linkat", "-e",
                        "inject=linkat:signal=KILL:when=1", mounted.program(), "apply", self.w.id], cwd=self.w.home,
                       env=self.w.environment(), capture_output=True, timeout=60)
        self.assertFalse((self.base / "gone").exists())
        overlaid.write(self.base / "gone", "of the host\n")
        overlaid.write(self.base / "a", "changed by the host\n")

    def kept(self):
        return [path.read_text() for name in self.w.staging() for path in (self.base / name).iterdir() if path.name != "warren-mark"]

    def test_what_could_not_be_restored_stays_until_the_user_removes_it(self):
        self.interrupt()
        said = self.w.run("apply", "--recover", self.w.id).stderr.decode()
        self.assertIn("not restored, because something else is there now: /gone", said)
        (name,) = self.w.staging()
        self.assertIn(name, said)
        for _ in range(2):
            self.w.warren("diff", self.w.id)
            self.w.warren("apply", "--recover", self.w.id)
            self.assertEqual(self.w.staging(), [name])
            self.assertIn("old gone\n", self.kept())
        self.w.warren("apply", "--force", self.w.id, "/a")
        self.assertIn("old gone\n", self.kept())
        self.assertEqual(self.read("a"), "new a\n")

    def test_only_apply_acts_on_it(self):
        self.interrupt()
        before = overlaid.snapshot(self.base), self.w.staging(), self.kept()
        said = self.w.run("diff", self.w.id).stderr.decode()
        self.assertIn("`warren apply a --recover` finishes it", said)
        for words in (("discard", "--yes", self.w.id), ("apply", "--dry-run", self.w.id), ("apply", "--as-patch", "-", self.w.id)):
            self.assertIn("was interrupted", self.w.fails(*words))
        self.assertEqual((overlaid.snapshot(self.base), self.w.staging(), self.kept()), before)

    def test_an_agent_file_cannot_name_what_is_removed(self):
        self.fill(Documents__x="precious\n")
        database = sqlite3.connect(self.w.file)
        database.execute("CREATE TABLE wr_apply (id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, intent BLOB NOT NULL)")
        for name in (b"Documents", b"", b".", b".warren-apply-1"):
            forged = b"warren-apply-1\n" + len(name).to_bytes(8, "little") + name + bytes(16)
            for intent in (forged, name):
                database.execute("INSERT OR REPLACE INTO wr_apply VALUES (1, 0, ?)", (intent,))
                database.commit()
                self.w.warren("diff", self.w.id)
                self.w.warren("apply", self.w.id)
                self.assertEqual(self.read("Documents/x"), "precious\n")
        database.close()

    def test_a_directory_without_our_mark_is_not_removed(self):
        self.interrupt()
        (name,) = self.w.staging()
        (self.base / name / "warren-mark").unlink()
        self.w.run("apply", "--recover", self.w.id)
        self.assertIn("old gone\n", self.kept())

    def test_recover_needs_nothing_else(self):
        self.fill(a="1")
        self.w.fails("apply", "--recover", "--force", self.w.id, status=2)
        self.w.warren("apply", "--recover", self.w.id)


class OtherFilesystems(Case):
    """Another filesystem mounted in the base, and a part of the base mounted in it a second time."""

    def setUp(self):
        super().setUp()
        self.fill(a="a\n", keep="k\n", d__x="x\n", d__m__covered="c\n", bound__f="bound\n", **{"file": "file\n"})
        self.mount("-t", "tmpfs", "tmpfs", "d/m")
        for name in ("one", "two", "sub/deep", "gone/1", "gone/2"):
            overlaid.write(self.base / "d/m" / name, f"{name}\n")

    def mount(self, *words):
        where = self.base / words[-1]
        subprocess.run(["mount", *words[:-1], where], check=True)
        self.w.points.append(where)

    def change(self, *steps):
        def run(point):
            for step in steps:
                step(pathlib.Path(point))
            return overlaid.snapshot(point)
        self.before = overlaid.snapshot(self.base)
        self.merged = self.w.change(run)

    def apply(self, *words):
        self.w.warren("apply", *words, self.w.id)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), self.merged), [])
        self.assertEqual(self.w.lines(), [])
        self.assertEqual(self.w.change(overlaid.snapshot), self.merged)

    def refuses(self, text):
        for options in ([], ["--dry-run"]):
            self.assertIn(text, self.w.fails("apply", self.w.id, *options))
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), self.before), [])

    def test_changes_of_every_kind_are_applied_where_they_are(self):
        self.change(lambda p: (p / "a").write_text("new a\n"),
                    lambda p: (p / "d/m/one").write_text("new one\n"),
                    lambda p: (p / "d/m/two").rename(p / "d/m/2"),
                    lambda p: overlaid.write(p / "d/m/new/tree/f", "f\n"),
                    lambda p: shutil.rmtree(p / "d/m/gone"),
                    lambda p: (p / "d/m/sub").rename(p / "d/m/moved"),
                    lambda p: (p / "d/m/moved/deep").chmod(0o600),
                    lambda p: (p / "d/m").chmod(0o750),
                    lambda p: (p / "d/x").unlink())
        self.apply()
        self.assertTrue(os.path.ismount(self.base / "d/m"))

    def test_a_file_is_moved_from_one_to_the_other(self):
        self.change(lambda p: (p / "a").rename(p / "d/m/a"), lambda p: (p / "d/m/one").rename(p / "one"),
                    lambda p: (p / "one").write_text("new\n"))
        self.assertEqual(self.w.lines(), ["R f /a -> /d/m/a", "R f /d/m/one -> /one"])
        self.apply()

    def test_a_directory_is_copied_from_one_to_the_other_as_on_the_host(self):
        def cannot(function):
            with self.assertRaises(OSError) as refused:
                function()
            self.assertEqual(refused.exception.errno, errno.EXDEV)

        def move(p):
            cannot(lambda: (p / "d/m/sub").rename(p / "sub"))
            (p / "new").mkdir()
            cannot(lambda: (p / "d/m/sub").rename(p / "new/sub"))
            cannot(lambda: (p / "bound").rename(p / "d/m/bound"))
            cannot(lambda: (p / "d/m").rename(p / "m"))
            (p / "new").rename(p / "d/m/new")
            shutil.move(p / "d/m/sub", p / "sub")
            shutil.move(p / "bound", p / "d/m/bound")
        self.change(move)
        self.apply()

    def test_a_directory_with_a_mount_in_it_is_renamed_with_it(self):
        self.change(lambda p: (p / "d").rename(p / "e"))
        self.w.points.append(self.base / "e/m")
        self.apply()
        self.assertTrue(os.path.ismount(self.base / "e/m"))

    def test_the_same_filesystem_mounted_twice_counts_as_another(self):
        self.mount("--bind", self.base / "keep", "file")
        (self.base / "again").mkdir()
        self.mount("--bind", self.base / "bound", "again")
        self.change(lambda p: (p / "again/f").write_text("new\n"), lambda p: (p / "again/g").write_text("g\n"))
        self.w.warren("apply", self.w.id, "/again")
        for name in ("bound", "again"):
            self.assertEqual([(self.base / name / f).read_text() for f in "fg"], ["new\n", "g\n"])
        # A file that is a mount point is written in place.
        self.change(lambda p: (p / "file").write_text("new file\n"))
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("keep"), self.read("file")), ("new file\n",) * 2)
        self.assertEqual(self.w.lines(), [])

    def test_a_change_that_would_move_a_mount_point_is_refused(self):
        self.change(lambda p: shutil.rmtree(p / "d"))
        self.refuses("'/d/m' is a mount point")
        self.w.warren("discard", "--yes", self.w.id)
        self.change(lambda p: (p / "d/m").rename(p / "d/n"))
        self.refuses("'/d/m' is a mount point")
        self.w.warren("discard", "--yes", self.w.id)
        overlaid.write(self.base / "bound/sub/f", "f\n")
        (self.base / "again").mkdir()
        self.mount("--bind", self.base / "bound", "again")
        self.change(lambda p: (p / "again/sub").rename(p / "sub"))
        self.refuses("renamed from another filesystem")
        self.w.warren("discard", "--yes", self.w.id)
        self.change(lambda p: (p / "d/m/one").write_text("new\n"), lambda p: (p / "d").rename(p / "e"))
        self.refuses("would be moved")

    def test_a_filesystem_that_cannot_be_written_changes_nothing(self):
        self.change(lambda p: (p / "a").write_text("new\n"), lambda p: (p / "d/m/one").write_text("new\n"))
        subprocess.run(["mount", "-o", "remount,ro", self.base / "d/m"], check=True)
        self.refuses("ead-only")
        subprocess.run(["mount", "-o", "remount,rw", self.base / "d/m"], check=True)
        self.apply()

    def test_a_recovery_waits_for_the_filesystem(self):
        self.change(lambda p: (p / "a").write_text("new\n"), lambda p: (p / "d/m/one").write_text("new\n"))
        subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=renameat:signal=KILL:when=1",
                        mounted.program(), "apply", self.w.id], cwd=self.w.home, env=self.w.environment(), capture_output=True, timeout=60)
        self.mount("-t", "tmpfs", "tmpfs", "d/m")
        said = self.w.fails("apply", "--recover", self.w.id)
        self.assertIn("filesystem at '/d/m' in the base, which is not mounted now", said)
        mounted.LIBC.umount2(os.fsencode(self.base / "d/m"), 0)
        self.w.warren("apply", "--recover", self.w.id)
        self.assertEqual(self.w.lines(), [])
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), self.merged), [])


class HardLinks(Case):
    """Files of the base with several names. The result must equal that of the same steps on a plain copy."""

    def setUp(self):
        super().setUp()
        for name in ("a", "d/b", "c"):
            overlaid.write(self.base / name, "")
        overlaid.write(self.base / "d" / "other", "other\n")
        overlaid.write(self.base / "c", "old\n")
        for name in ("a", "d/b"):
            (self.base / name).unlink()
            os.link(self.base / "c", self.base / name)
        self.w.init()

    def do(self, *steps):
        """Performs the steps on a copy, for comparison, and through the mount."""
        self.model = self.w.root / "model"
        subprocess.run(["cp", "-a", self.base, self.model], check=True)
        for top in (self.model, None):
            def run(point):
                for step in steps:
                    step(pathlib.Path(point))
                return overlaid.snapshot(point), overlaid.links(point)
            if top:
                run(top)
            else:
                self.merged = self.w.change(run)
        self.assertEqual(self.merged, (overlaid.snapshot(self.model), overlaid.links(self.model)))

    def apply(self, *paths):
        self.w.warren("apply", self.w.id, *paths)

    def finish(self):
        """Compares base and copy, after the last apply."""
        self.assertEqual(self.w.lines(), [])
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), overlaid.snapshot(self.model)), [])
        self.assertEqual(overlaid.links(self.base), overlaid.links(self.model))
        self.assertEqual(self.w.change(overlaid.links), overlaid.links(self.model))
        self.assertEqual(self.lost_links(), [])
        self.w.fsck()

    def lost_links(self):
        return json.loads(self.w.warren("sql", self.w.id, "--json", "SELECT base_path FROM wr_lost_link"))

    def write_a(self, top):
        (top / "a").write_text("new\n")

    def test_one_that_was_written_and_deleted_is_modified_under_its_other_names(self):
        self.do(self.write_a, lambda top: (top / "a").unlink())
        self.assertEqual(self.w.lines(), ["D f /a", "M f /c"])
        self.assertIn("+new", self.w.warren("diff", "--patch", self.w.id, "/c").decode())
        self.apply()
        self.finish()

    def test_the_last_other_name_is_modified_too(self):
        self.do(self.write_a, lambda top: (top / "a").unlink(), lambda top: (top / "c").unlink())
        self.assertEqual(self.w.lines(), ["D f /a", "D f /c", "M f /d/b"])
        self.apply()
        self.finish()

    def test_also_where_a_renamed_directory_has_it(self):
        self.do(self.write_a, lambda top: (top / "a").unlink(), lambda top: (top / "c").unlink(),
                lambda top: (top / "d").rename(top / "e"))
        self.assertEqual(self.w.lines(), ["D f /a", "D f /c", "R d /d -> /e", "M f /e/b"])
        self.apply()
        self.finish()

    def test_its_parts_can_be_applied_one_after_the_other(self):
        for order in (["/c", "/a"], ["/a", "/c"]):
            with self.subTest(order=order):
                self.do(self.write_a, lambda top: (top / "a").unlink())
                for path in order:
                    self.apply(path)
                    self.assertEqual(self.w.change(overlaid.snapshot), self.merged[0])
                self.finish()
                shutil.rmtree(self.model)
                (self.base / "c").write_text("old\n")
                os.link(self.base / "c", self.base / "a")

    def test_one_that_was_renamed_and_written_stays_one_file(self):
        self.do(lambda top: (top / "a").rename(top / "z"), lambda top: (top / "z").write_text("new\n"))
        self.assertEqual(self.w.lines(), ["R f /a -> /z"])
        self.apply()
        self.finish()

    def test_one_that_lost_its_name_and_gets_another_is_not_an_orphan(self):
        self.do(self.write_a, lambda top: (top / "a").unlink(), lambda top: (top / "c").rename(top / "z"))
        self.w.fsck()
        self.assertEqual(self.w.lines(), ["D f /c", "R f /a -> /z"])
        self.apply()
        self.finish()

    def test_one_that_the_agent_gives_a_second_name_is_not_a_conflict(self):
        self.do(self.write_a, lambda top: (top / "a").unlink(), lambda top: os.link(top / "c", top / "n"))
        self.w.fsck()
        self.apply()
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), self.merged[0]), [])
        self.assertEqual(self.w.lines(), [])

    def test_a_changed_mode_alone_is_seen(self):
        self.do(lambda top: (top / "a").chmod(0o600), lambda top: (top / "a").unlink())
        self.assertEqual(self.w.lines(), ["D f /a", "M f /c"])
        self.apply()
        self.finish()

    def test_a_base_that_has_changed_too_is_a_conflict(self):
        self.do(self.write_a, lambda top: (top / "a").unlink())
        (self.base / "c").write_text("of the host\n")
        self.assertIn("was changed in the base", self.w.fails("apply", self.w.id))
        self.assertEqual(self.read("c"), "of the host\n")
        self.w.warren("apply", "--force", self.w.id)
        self.finish()

    def test_deleting_a_directory_that_contains_one_leaves_the_right_count(self):
        self.do(lambda top: shutil.rmtree(top / "d"))
        self.apply()
        self.finish()

    def test_discarding_restores_the_base_with_its_counts(self):
        fresh = overlaid.snapshot(self.base), overlaid.links(self.base)
        cases = {
            "deleted": [lambda top: (top / "a").unlink()],
            "written and deleted": [self.write_a, lambda top: (top / "a").unlink()],
            "another deleted": [self.write_a, lambda top: (top / "d" / "b").unlink()],
            "with its directory": [self.write_a, lambda top: shutil.rmtree(top / "d")],
            "replaced": [lambda top: (top / "new").write_text("x"), lambda top: (top / "new").rename(top / "a")],
            "deleted and made anew": [lambda top: (top / "a").unlink(), lambda top: (top / "a").write_text("x")],
            "all": [self.write_a, lambda top: (top / "a").unlink(), lambda top: (top / "c").unlink(),
                    lambda top: shutil.rmtree(top / "d")],
        }
        for name, steps in cases.items():
            for is_piecewise in (False, True):
                with self.subTest(case=name, is_piecewise=is_piecewise):
                    self.do(*steps)
                    while self.w.lines():
                        paths = ["/" + self.w.lines()[-1].split(" /")[-1]] if is_piecewise else []
                        self.w.warren("discard", "--yes", self.w.id, *paths)
                    self.assertEqual(self.w.change(lambda p: (overlaid.snapshot(p), overlaid.links(p))), fresh)
                    self.assertEqual(self.lost_links(), [])
                    self.w.fsck()
                    shutil.rmtree(self.model)

    def test_discarding_one_of_several_counts_as_a_fresh_overlay_does(self):
        self.do(self.write_a, lambda top: (top / "c").unlink(), lambda top: shutil.rmtree(top / "d"))
        self.w.warren("discard", "--yes", self.w.id, "/d")
        shutil.copytree(self.base / "d", self.model / "d")
        (self.model / "d" / "b").unlink()
        os.link(self.model / "a", self.model / "d" / "b")
        self.assertEqual(self.w.change(overlaid.links), overlaid.links(self.model))
        self.assertEqual(self.w.lines(), ["M f /a", "D f /c"])
        self.w.warren("discard", "--yes", self.w.id, "/c")
        os.link(self.model / "a", self.model / "c")
        self.assertEqual(self.w.change(overlaid.links), overlaid.links(self.model))
        self.assertEqual(self.w.lines(), ["M f /a"])
        self.apply()
        self.finish()


class Discard(Case):
    def test_asks_or_needs_yes(self):
        self.fill(a="1")
        self.write("/a", "22")
        self.assertIn("--yes", self.w.fails("discard", self.w.id))
        self.assertEqual(self.w.lines(), ["M f /a"])
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.fs("cat", "/a"), b"1")
        self.assertEqual(self.w.warren("discard", "--yes", self.w.id), b"nothing to discard\n")

    def test_a_rename_goes_back(self):
        self.fill(d__x="1", a="1")
        self.fs("mv", "/d", "/e")
        self.write("/e/x", "22")
        self.w.warren("discard", "--yes", self.w.id, "/e/x")
        self.assertEqual(self.w.lines(), ["R d /d -> /e"])
        self.assertEqual(self.fs("cat", "/e/x"), b"1")
        self.w.warren("discard", "--yes", self.w.id, "/e")
        self.assertEqual(self.w.lines(), [])
        self.assertEqual(self.fs("cat", "/d/x"), b"1")

    def test_one_file_of_a_deleted_directory_comes_back_alone(self):
        self.fill(d__x="1", d__y="1", d__s__z="1")
        self.fs("rm", "-r", "/d")
        self.w.warren("discard", "--yes", self.w.id, "/d/s/z")
        self.assertEqual(self.w.lines(), ["D f /d/x", "D f /d/y"])
        self.assertEqual(self.fs("cat", "/d/s/z"), b"1")

    def test_what_was_moved_out_of_a_deleted_directory_does_not_show_twice(self):
        self.fill(d__x="1", d__y="1")
        self.fs("mv", "/d/x", "/x")
        self.fs("rm", "-r", "/d")
        self.w.warren("discard", "--yes", self.w.id, "/[d]")  # a pattern: does not include what was below it
        self.assertEqual(self.w.lines(), ["R f /d/x -> /x"])
        self.assertEqual(self.fs("find", "/"), b"/\n/d\n/d/y\n/x\n")
        self.fs("rm", "-r", "/d")
        self.w.warren("apply", self.w.id, "/d")
        self.assertEqual((self.w.lines(), sorted(os.listdir(self.base)), self.read("x")), ([], ["x"], "1"))

    def test_only_below_a_path(self):
        self.fill(a="1", b="1")
        self.write("/a", "22")
        self.write("/b", "22")
        self.w.warren("discard", "--yes", self.w.id, "/a")
        self.assertEqual(self.w.lines(), ["M f /b"])
        self.assertIn("no changes match", self.w.fails("discard", "--yes", self.w.id, "/typo"))


class Speed(Case):
    def test_ten_thousand_changed_files(self):
        for i in range(10_000):
            overlaid.write(self.base / f"d{i % 100}/f{i}", f"{i}\n")
        self.w.init()

        def change(p):
            for i in range(10_000):
                with open(f"{p}/d{i % 100}/f{i}", "wb") as file:
                    file.write(b"%d!" % i if i % 2 else b"X" * (len(str(i)) + 1))
        self.w.change(change)
        times = {}
        for name, args in {"diff": ("diff",), "diff --stat": ("diff", "--stat"), "apply": ("apply",)}.items():
            start = time.monotonic()
            out = self.w.warren(*args, self.w.id)
            times[name] = time.monotonic() - start
            if name == "diff":
                self.assertEqual(out.count(b"\n"), 10_000)
        print({name: f"{seconds:.2f} s" for name, seconds in times.items()}, file=sys.stderr)
        self.assertEqual(self.w.diff(), [])


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
