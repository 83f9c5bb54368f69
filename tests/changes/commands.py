#!/usr/bin/env python3
"""diff, apply and discard: every flag, every kind of conflict, hostile names, and what must not be touched.

    WARREN=path/to/warren commands.py [-v] [Class.test_name]
"""
import json
import os
import pathlib
import pty
import shutil
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

    def test_the_exit_status_tells_only_if_asked(self):
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

    def test_what_was_only_read_or_written_back_is_no_change(self):
        self.fill(a="1\n", b="2\n")
        self.fs("cat", "/a")
        self.write("/b", "2\n")
        self.w.change(lambda p: os.chmod(p + "/a", stat.S_IMODE(os.stat(p + "/a").st_mode)))
        self.assertEqual(self.w.diff(), [])

    def test_a_deleted_directory_is_listed_whole(self):
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

    def test_an_agent_without_a_base_says_so(self):
        self.w.warren("init", "lone")
        self.assertIn("lies over no base", self.w.fails("diff", "lone"))
        done = subprocess.run(["agentfs", "diff", "lone"], executable=mounted.program(), cwd=self.w.home, capture_output=True)
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
        self.assertIn("nothing is changed at", self.w.fails("apply", self.w.id, "/typo"))

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
        self.assertEqual(self.w.lines(), [])  # the same, after all

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

    def test_touching_is_no_conflict(self):
        self.fill(a="1\n")
        self.edit("/a", 0, b"2")
        os.utime(self.base / "a")
        self.w.warren("apply", self.w.id)
        self.assertEqual(self.read("a"), "2\n")

    def edit(self, path, offset, data):
        """In place, without truncating the file first."""
        def change(point):
            with open(point + path, "r+b") as file:
                file.seek(offset)
                file.write(data)
        self.w.change(change)

    def test_merge_brings_together_what_does_not_overlap(self):
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

    def test_a_new_set_user_id_bit_needs_force(self):
        self.fill(a="1")
        self.w.change(lambda p: os.chmod(p + "/a", 0o4755))
        self.w.warren("apply", self.w.id)
        self.assertEqual(stat.S_IMODE(os.stat(self.base / "a").st_mode), 0o755)

    def test_to_writes_the_changed_files_alone(self):
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
        overlaid.write(self.base / "sub/a", "1\n")
        overlaid.write(self.base / "sub/gone", "1\n")
        overlaid.write(self.base / ".gitignore", "*.log\n")
        overlaid.git("init", "-q", ".", cwd=self.base)
        for key, value in (("user.name", "T"), ("user.email", "t@example.org")):
            overlaid.git("config", key, value, cwd=self.base)
        overlaid.git("add", ".", cwd=self.base)
        overlaid.git("commit", "-qm", "first", cwd=self.base)
        before = overlaid.snapshot(self.base / "sub")
        top, self.w.base = self.base, self.base / "sub"
        self.w.init()
        self.write("/a", "2\n")
        self.fs("rm", "/gone")
        self.w.change(lambda p: overlaid.write(os.fsencode(p) + b"/n\xff\n\"w", "new\n"))
        self.write("/x.log", "ignored")
        self.w.warren("apply", "--as-branch", "agent", self.w.id)
        files = overlaid.git("ls-tree", "-r", "-z", "--name-only", "agent", cwd=top).split(b"\0")
        self.assertEqual(files, [b".gitignore", b"sub/a", b"sub/n\xff\n\"w", b""])
        self.assertEqual(overlaid.git("show", "agent:sub/a", cwd=top), b"2\n")
        self.assertEqual(overlaid.git("status", "--porcelain", cwd=top), b"")
        self.assertEqual(overlaid.git("rev-parse", "agent^", cwd=top), overlaid.git("rev-parse", "HEAD", cwd=top))
        self.assertEqual(overlaid.snapshot(top / "sub"), before)
        self.assertIn("exists already", self.w.fails("apply", "--as-branch", "agent", self.w.id))
        self.assertIn("no name for a branch", self.w.fails("apply", "--as-branch", "a..b", self.w.id))

    def test_as_branch_without_a_repository(self):
        self.fill(a="1")
        self.write("/a", "22")
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.w.root)}
        self.assertIn("in no git work tree", self.w.fails("apply", "--as-branch", "x", self.w.id, env=env))
        self.assertIn("git is not installed",
                      self.w.fails("apply", "--as-branch", "x", self.w.id, env={**env, "PATH": "/nonexistent"}))

    def test_interactive_asks(self):
        self.fill(a="1\n", b="1\n", c="1\n")
        for name in "abc":
            self.write(f"/{name}", "22\n")
        self.assertIn("needs a terminal", self.w.fails("apply", "-i", self.w.id))
        said = self.talk(["apply", "-i", self.w.id], b"d\ny\nn\ny\n")
        self.assertIn(b"+22", said)
        self.assertEqual((self.read("a"), self.read("b"), self.read("c")), ("22\n", "1\n", "22\n"))
        self.talk(["apply", "-i", self.w.id], b"q\n")
        self.assertEqual(self.read("b"), "1\n")

    def talk(self, words, answers):
        """On a terminal."""
        leader, follower = pty.openpty()
        child = subprocess.Popen([mounted.program(), *words], cwd=self.w.home, stdin=follower, stdout=follower, stderr=follower)
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

    def test_a_link_in_the_base_leads_nowhere(self):
        """A directory of the base that becomes a link to somewhere else, before the apply and in the middle of it."""
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

    def test_another_filesystem_below_is_refused(self):
        self.fill(a="1", d__x="1")
        self.w.warren("discard", "--yes", self.w.id)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.base / "d"], check=True)
        self.addCleanup(lambda: mounted.detach(self.base / "d"))
        overlaid.write(self.base / "d/x", "1")
        self.write("/d/x", "22")
        self.assertIn("another filesystem", self.w.fails("apply", self.w.id))
        self.assertEqual((self.base / "d/x").read_text(), "1")
        self.assertEqual(self.w.staging(), [])

    def test_a_tree_deeper_than_a_path_can_say(self):
        self.fill(a="1")
        script = "import os\nfor _ in range(60):\n os.mkdir('n' * 100); os.chdir('n' * 100)\nopen('f', 'w').write('deep')"
        self.w.change(lambda p: subprocess.run([sys.executable, "-c", script], cwd=p, check=True))
        self.write("/a", "22")
        # It cannot be applied, and must not stand in the way of anything else.
        self.assertIn("at most 4096 are possible", self.w.fails("apply", self.w.id))
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
        self.w.warren("discard", "--yes", self.w.id, "/[d]")  # a pattern: not what was below it once
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
        self.assertIn("nothing is changed at", self.w.fails("discard", "--yes", self.w.id, "/typo"))


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
