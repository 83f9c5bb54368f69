#!/usr/bin/env python3
"""apply: what is kept, what is chosen, and what must not be touched.

    WARREN=path/to/warren apply.py [-v] [Class.test_name]
"""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted


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

    def test_only_the_changes_that_a_dry_run_has_shown(self):
        self.fill(f="1", g="1")
        self.write("/f", "2")
        dry = ["apply", "--dry-run", "--json", self.w.id]
        state = json.loads(self.w.warren(*dry))["state"]
        self.assertEqual(json.loads(self.w.warren(*dry))["state"], state)
        self.write("/f", "3")  # as long as before
        self.assertIn("not in the state of --if-state", self.w.fails("apply", "--if-state", state, self.w.id))
        self.assertEqual(self.read("f"), "1")
        state = json.loads(self.w.warren(*dry))["state"]
        self.write("/g", "2")
        self.assertIn("nothing was written", self.w.fails("apply", "--if-state", state, self.w.id))
        self.w.warren("apply", "--if-state", json.loads(self.w.warren(*dry))["state"], self.w.id)
        self.assertEqual((self.read("f"), self.read("g")), ("3", "2"))

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
        self.assertEqual(out, f"M f /a\nwould apply to {self.base}: 1 modified\n")
        self.assertEqual(self.read("a"), "1")
        self.assertEqual(self.w.lines(), ["M f /a"])

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

    def test_interactive_asks(self):
        self.fill(a="1\n", b="1\n", c="1\n")
        for name in "abc":
            self.write(f"/{name}", "22\n")
        self.assertIn("needs standard input to be a terminal", self.w.fails("apply", "-i", self.w.id))
        said = self.talk(["apply", "-i", self.w.id], b"p\ny\nn\ny\n")
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
        done = subprocess.run(["unshare", "-m", "--propagation", "slave", "sh", "-c", script], env=self.w.environment(), capture_output=True, timeout=60)
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

    def test_a_directory_stays_if_something_in_it_is_excluded(self):
        self.fill(**{"d__keep.txt": "1", "d__sub__keep.txt": "2", "d__sub__b": "3", "d__b": "4", "e__b": "5"})
        self.w.change(lambda p: [shutil.rmtree(p + "/" + name) for name in "de"])
        done = self.w.run("apply", self.w.id, "--exclude", "*.txt")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("/d", "/d/sub"):
            self.assertIn(f"left: D d {name}: not possible without D f ".encode(), done.stderr)
        self.assertEqual(sorted(str(path.relative_to(self.base)) for path in self.base.rglob("*")),
                         ["d", "d/keep.txt", "d/sub", "d/sub/keep.txt"])
        self.assertEqual(self.w.lines(), ["D d /d", "D f /d/keep.txt", "D d /d/sub", "D f /d/sub/keep.txt"])
        self.w.warren("apply", self.w.id)
        self.assertEqual(os.listdir(self.base), [])

    def test_a_tree_deeper_than_the_longest_path(self):
        self.fill(a="1")
        script = "import os\nfor _ in range(60):\n os.mkdir('n' * 100); os.chdir('n' * 100)\nopen('f', 'w').write('deep')"
        def make():
            self.w.change(lambda p: subprocess.run([sys.executable, "-c", script], cwd=p, check=True))
            self.write("/a", "22")
            self.assertEqual(len(self.w.lines("-a")), 62)
        make()
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.w.lines("-a"), self.w.staging()), ([], []))
        look = "import os\nfor _ in range(60):\n os.chdir('n' * 100)\nprint(open('f').read())"
        self.assertEqual(subprocess.check_output([sys.executable, "-c", look], cwd=self.base, text=True), "deep\n")
        self.w.warren("undo", self.w.id)
        self.assertEqual((os.listdir(self.base), self.read("a")), (["a"], "1"))
        make()
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


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
