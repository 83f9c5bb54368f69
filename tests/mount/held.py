#!/usr/bin/env python3
"""A file that is open in a mount stays while it is open, whoever removes or replaces it: a command, another mount.

    WARREN=path/to/warren held.py [-v] [Class.test_name]

It is read, written, resized and mapped through its descriptor as on any filesystem. When it is closed, or the process
that had it is killed, nothing of it remains in the agent. Needs root.
"""
import contextlib
import mmap
import os
import pathlib
import signal
import sqlite3
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted


def content_of(path):
    """None while there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


class Held(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.prepare()
        self.mount = self.world.mount()

    def prepare(self):
        pass

    def fs(self, *args, **options):
        return self.world.warren("fs", self.world.id, *args, **options)

    def ask(self, query):
        with contextlib.closing(sqlite3.connect(f"file:{self.world.file}?mode=ro", uri=True, timeout=60)) as db:
            return db.execute(query).fetchone()[0]

    def leaves_nothing(self, *mounts):
        """Nothing but what has a name is in the agent; then everything is unmounted and checked."""
        unnamed = ("SELECT count(*) FROM fs_inode WHERE ino <> 1 AND ino NOT IN (SELECT ino FROM fs_dentry)",
                   "SELECT count(*) FROM wr_orphan",
                   "SELECT count(*) FROM fs_data WHERE ino NOT IN (SELECT ino FROM fs_inode)")
        mounted.wait_for(lambda: [self.ask(query) for query in unnamed] == [0, 0, 0], "removed files are still stored", 60)
        for mount in mounts or [self.mount]:
            self.world.umount(mount)
        self.world.fsck()
        self.assertEqual(self.world.left_beside(), [])

    def works(self, fd, content):
        """Everything that a program does with an open file of at least two pages."""
        size = len(content)
        self.assertEqual(os.pread(fd, size + 1, 0), content)
        self.assertEqual(os.fstat(fd).st_size, size)
        with mmap.mmap(fd, size) as mapped:
            self.assertEqual(mapped[:], content)
            mapped[4096:4100] = b"MAPS"
            mapped.flush()
        os.pwrite(fd, b"BYTES", 0)
        os.pwrite(fd, b"more", size)
        os.fsync(fd)
        content = b"BYTES" + content[5:4096] + b"MAPS" + content[4100:] + b"more"
        self.assertEqual(os.pread(fd, size + 10, 0), content)
        os.ftruncate(fd, size)
        self.assertEqual(os.fstat(fd).st_size, size)
        self.assertEqual(os.pread(fd, size + 10, 0), content[:size])
        return content[:size]

    def gone(self, path):
        mounted.wait_for(lambda: not path.exists(), f"{path} is still shown", 30)


CONTENT = bytes(range(256)) * 100


class ByCommand(Held):
    def test_a_removed_file_works_until_it_is_closed(self):
        (self.mount / "f").write_bytes(CONTENT)
        fd = os.open(self.mount / "f", os.O_RDWR)
        with mmap.mmap(fd, len(CONTENT), prot=mmap.PROT_READ) as mapped:
            self.fs("rm", "/f")
            self.gone(self.mount / "f")
            self.assertEqual(mapped[:], CONTENT)
        content = self.works(fd, CONTENT)
        self.fs("write", "/f", "another")
        self.assertEqual(self.fs("cat", "/f"), b"another")
        self.works(fd, content)
        self.assertEqual(os.fstat(fd).st_nlink, 0)
        os.close(fd)
        self.leaves_nothing()

    def test_a_replaced_file_works_until_it_is_closed(self):
        (self.mount / "f").write_bytes(CONTENT)
        (self.mount / "g").write_bytes(b"new")
        fd = os.open(self.mount / "f", os.O_RDWR)
        self.fs("mv", "/g", "/f")
        mounted.wait_for(lambda: (self.mount / "f").read_bytes() == b"new", "the new file is not shown", 30)
        self.works(fd, CONTENT)
        os.close(fd)
        self.assertEqual((self.mount / "f").read_bytes(), b"new")
        self.leaves_nothing()

    def test_a_large_file_stays_whole(self):
        part = os.urandom(1 << 20)
        with open(self.mount / "f", "wb") as file:
            for _ in range(40):
                file.write(part)
        fd = os.open(self.mount / "f", os.O_RDONLY)
        self.fs("rm", "/f")
        self.gone(self.mount / "f")
        self.assertTrue(all(os.pread(fd, 1 << 20, at << 20) == part for at in range(40)))
        os.close(fd)
        self.leaves_nothing()

    def test_a_removed_file_cannot_get_a_name_again(self):
        (self.mount / "f").write_bytes(CONTENT)
        fd = os.open(self.mount / "f", os.O_RDWR)
        self.fs("rm", "/f")
        with self.assertRaises(OSError):
            os.link(f"/proc/self/fd/{fd}", self.mount / "again", follow_symlinks=True)
        os.close(fd)
        self.leaves_nothing()

    def test_many_files_that_nobody_has_open_are_gone_soon(self):
        (self.mount / "d").mkdir()
        for number in range(300):
            (self.mount / "d" / str(number)).write_bytes(CONTENT)
        self.fs("rm", "-r", "/d")
        self.gone(self.mount / "d")
        self.leaves_nothing()

    def test_a_killed_mount_leaves_nothing(self):
        (self.mount / "f").write_bytes(CONTENT)
        (self.mount / "g").write_bytes(CONTENT)
        fd = os.open(self.mount / "f", os.O_RDWR)
        self.fs("rm", "/f")
        self.gone(self.mount / "f")
        self.assertEqual(self.ask("SELECT count(*) FROM wr_orphan"), 1)
        server, = self.world.daemons()
        os.kill(server, signal.SIGKILL)
        mounted.wait_for(lambda: not self.world.daemons(), "the killed daemon is still there")
        with contextlib.suppress(OSError):
            os.close(fd)
        self.fs("rm", "/g")
        self.assertEqual(self.ask("SELECT count(*) FROM fs_inode"), 1)
        mounted.detach(self.mount)
        self.world.mount()
        self.leaves_nothing()


class ByCommandFromASyncMount(Held):
    """Each change is a transaction of its own there, and no thread works in the background."""

    def test_a_removed_file_works_until_it_is_closed(self):
        self.world.umount(self.mount)
        self.world.mount("mnt", "--sync")
        (self.mount / "kept").touch()
        (self.mount / "f").write_bytes(CONTENT)
        fd = os.open(self.mount / "f", os.O_RDWR)
        self.fs("rm", "/f")
        self.gone(self.mount / "f")
        self.works(fd, CONTENT)
        os.close(fd)
        (self.mount / "kept").stat()
        self.leaves_nothing()


class ByAnotherMount(Held):
    def setUp(self):
        super().setUp()
        self.other = self.world.mount("other")

    def test_a_removed_file_works_until_it_is_closed(self):
        for here, there in ((self.mount, self.other), (self.other, self.mount)):
            (here / "f").write_bytes(CONTENT)
            fd = os.open(here / "f", os.O_RDWR)
            mounted.wait_for((there / "f").exists, "the other mount does not show it", 30)
            (there / "f").unlink()
            self.gone(here / "f")
            self.works(fd, CONTENT)
            os.close(fd)
        self.leaves_nothing(self.mount, self.other)

    def test_a_replaced_file_works_until_it_is_closed(self):
        for turn, (here, there) in enumerate(((self.mount, self.other), (self.other, self.mount))):
            (here / "f").write_bytes(CONTENT)
            fd = os.open(here / "f", os.O_RDWR)
            (there / "g").write_text(f"new {turn}")
            os.rename(there / "g", there / "f")
            mounted.wait_for(lambda: (here / "f").read_bytes() == b"new %d" % turn, "the new file is not shown", 30)
            self.works(fd, CONTENT)
            os.close(fd)
            (here / "f").unlink()
            self.gone(there / "f")
        self.leaves_nothing(self.mount, self.other)

    def test_both_have_it_open(self):
        for first, second in ((0, 1), (1, 0)):
            (self.mount / "f").write_bytes(CONTENT)
            mounted.wait_for((self.other / "f").exists, "the other mount does not show it", 30)
            fds = [os.open(self.mount / "f", os.O_RDWR), os.open(self.other / "f", os.O_RDWR)]
            (self.mount / "f").unlink()
            self.gone(self.other / "f")
            content = self.works(fds[0], CONTENT)
            mounted.wait_for(lambda: os.pread(fds[1], len(content) + 1, 0) == content, "the other sees other content", 30)
            os.close(fds[first])
            self.works(fds[second], content)
            os.close(fds[second])
        self.leaves_nothing(self.mount, self.other)

    def test_a_tree_that_nobody_has_open_is_gone_soon(self):
        for number in range(1000):
            (self.mount / f"d{number % 10}").mkdir(exist_ok=True)
            (self.mount / f"d{number % 10}" / str(number)).write_bytes(b"x" * 5000)
        mounted.wait_for(lambda: len(list(self.other.glob("*/*"))) == 1000, "the other mount does not show them", 30)
        for number in range(1000):
            (self.mount / f"d{number % 10}" / str(number)).unlink()
        for number in range(10):
            (self.mount / f"d{number}").rmdir()
        self.leaves_nothing(self.mount, self.other)

    def test_after_one_is_killed_the_other_frees_what_it_removes(self):
        for name in ("f", "g"):
            (self.mount / name).write_bytes(CONTENT)
        fd = os.open(self.other / "f", os.O_RDWR)
        (self.mount / "f").unlink()
        self.gone(self.other / "f")
        killed, = (pid for pid in self.world.daemons()
                   if os.fsencode(self.other) in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
        os.kill(killed, signal.SIGKILL)
        mounted.wait_for(lambda: len(self.world.daemons()) == 1, "the killed daemon is still there")
        with contextlib.suppress(OSError):  # the dead mount's error
            os.close(fd)
        (self.mount / "g").unlink()
        self.fs("ls", "/")
        mounted.detach(self.other)
        self.leaves_nothing()


class OverABase(Held):
    def prepare(self):
        self.base = self.world.root / "base"
        self.base.mkdir()
        (self.base / "f").write_bytes(CONTENT)
        self.world.warren("init", "--force", self.world.id, "--base", self.base)

    def leaves_nothing(self, *mounts):
        super().leaves_nothing(*mounts)
        self.assertEqual((self.base / "f").read_bytes(), CONTENT)
        self.assertEqual(self.ask("SELECT count(*) FROM wr_origin WHERE delta_ino <> 1"), 0)

    def test_a_file_of_the_base(self):
        fd = os.open(self.mount / "f", os.O_RDWR)
        self.fs("rm", "/f")
        self.gone(self.mount / "f")
        self.works(fd, CONTENT)
        self.assertFalse((self.mount / "f").exists())
        os.close(fd)
        self.leaves_nothing()

    def test_a_file_of_the_base_that_another_has_replaced(self):
        fd = os.open(self.mount / "f", os.O_RDWR)
        self.fs("write", "/g", "new")
        self.fs("mv", "/g", "/f")
        mounted.wait_for(lambda: (self.mount / "f").read_bytes() == b"new", "the new file is not shown", 30)
        self.works(fd, CONTENT)
        os.close(fd)
        self.assertEqual(self.fs("cat", "/f"), b"new")
        self.leaves_nothing()

    def test_a_changed_file_of_the_base(self):
        fd = os.open(self.mount / "f", os.O_RDWR)
        os.pwrite(fd, b"changed", 0)
        content = b"changed" + CONTENT[7:]
        self.fs("rm", "/f")
        self.gone(self.mount / "f")
        self.works(fd, content)
        os.close(fd)
        self.leaves_nothing()

    def test_a_file_of_the_base_that_another_has_changed(self):
        fd = os.open(self.mount / "f", os.O_RDWR)
        content = CONTENT[::-1]
        self.fs("write", "/f", "-", input=content)
        mounted.wait_for(lambda: os.pread(fd, len(content) + 1, 0) == content, "the change is not shown", 30)
        self.fs("rm", "/f")
        self.gone(self.mount / "f")
        self.works(fd, content)
        os.close(fd)
        self.leaves_nothing()

    def test_a_changed_file_of_the_base_that_two_mounts_have_open(self):
        other = self.world.mount("other")
        for remover, rest in ((self.mount, other), (other, self.mount)):
            (self.mount / "f").write_bytes(CONTENT[::-1])
            mounted.wait_for(lambda: content_of(other / "f") == CONTENT[::-1], "the change is not shown", 30)
            fds = [os.open(remover / "f", os.O_RDWR), os.open(rest / "f", os.O_RDWR)]
            (remover / "f").unlink()
            self.gone(rest / "f")
            os.close(fds[0])
            self.assertEqual(self.fs("ls", "/"), b"")
            self.works(fds[1], CONTENT[::-1])
            os.close(fds[1])
        self.leaves_nothing(self.mount, other)

    def test_a_new_file(self):
        (self.mount / "new").write_bytes(CONTENT)
        fd = os.open(self.mount / "new", os.O_RDWR)
        self.fs("rm", "/new")
        self.gone(self.mount / "new")
        self.works(fd, CONTENT)
        os.close(fd)
        self.leaves_nothing()


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
