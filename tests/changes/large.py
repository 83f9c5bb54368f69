#!/usr/bin/env python3
"""Large files of the base that the agent has changed, and that the user changes too.

    WARREN=path/to/warren large.py [-v] [Class.test_name]

Needs root and /dev/fuse.
"""
import errno
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from case import MountedCase
from overlaid import mounted

WHOLE = 1_300_000  # copied whole by the first change
LARGE = 17 << 20   # only the parts that are written
AT = LARGE // 2


class Large(MountedCase):
    def start(self, size):
        self.size = size
        self.content = b"begin" + b"x" * (size - 8) + b"end"
        self.begin(other="other\n")
        (self.base / "big").write_bytes(self.content)
        self.point_write(b"AGENT")

    def point_write(self, data, at=None):
        with open(self.point / "big", "r+b", buffering=0) as file:
            file.seek(self.size // 2 if at is None else at)
            file.write(data)

    def mine(self):
        middle = self.size // 2
        return self.content[:middle] + b"AGENT" + self.content[middle + 5:]

    def replace(self):
        (self.base / "draft").write_bytes(b"of the user")
        (self.base / "draft").rename(self.base / "big")

    def touch(self):
        os.utime(self.base / "big")

    def remove(self):
        (self.base / "big").unlink()

    def append(self):
        with open(self.base / "big", "ab") as file:
            file.write(b"user")

    def parts(self):
        return int(self.w.warren("sql", self.w.id, "select count(*) from wr_base_range").split()[-1])

    def check_force(self):
        """Nothing was lost: it is a conflict, and --force takes the agent's version."""
        self.end()
        self.assertIn("conflict: /big: ", self.w.fails("apply", self.w.id))
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual((self.base / "big").read_bytes(), self.mine())

    def test_a_file_that_was_copied_whole_does_not_need_its_base(self):
        self.start(WHOLE)
        for change in (self.touch, self.append, self.replace, self.remove):
            change()
            self.assertEqual((self.point / "big").read_bytes(), self.mine())
        self.replace()
        self.check_force()

    def test_a_changed_mode_is_harmless(self):
        self.start(LARGE)
        os.chmod(self.base / "big", 0o600)
        self.assertEqual((self.point / "big").read_bytes(), self.mine())
        self.assertEqual(self.parts(), 2)
        self.check_force()

    def check_stays(self, change):
        self.start(LARGE)
        change()
        self.assertEqual((self.point / "big").read_bytes(), self.mine())
        self.point_write(b"B", 0)
        self.content = b"B" + self.content[1:]
        mounted.wait_for(lambda: self.parts() == 0, "the rest is not copied")
        self.check_force()

    def test_a_file_that_is_replaced_stays_with_the_session(self):
        self.check_stays(self.replace)

    def test_a_file_that_is_removed_stays_with_the_session(self):
        self.check_stays(self.remove)

    def test_a_file_that_is_moved_stays_with_the_session(self):
        self.check_stays(lambda: (self.base / "big").rename(self.base / "moved"))

    def check_stays_with_a_later_mount(self, change):
        """One in which nothing has listed the directory."""
        big = self.base / "sub" / "big"
        self.begin(sub__big="x" * LARGE)
        with open(self.point / "sub" / "big", "ab") as file:
            file.write(b"AGENT")
        self.w.umount(self.point)
        self.point = self.w.mount()
        mine = b"x" * LARGE + b"AGENT"
        self.assertEqual((self.point / "sub" / "big").read_bytes(), mine)
        change(big)
        self.end()
        self.assertEqual(self.parts(), 0)
        self.assertEqual(self.fs("cat", "/sub/big"), mine)

    def test_a_file_that_a_later_mount_has_read_stays_with_the_session(self):
        def replace(big):
            (self.w.root / "draft").write_bytes(b"of the user")  # nothing but its directory changes
            (self.w.root / "draft").rename(big)
            mounted.wait_for(lambda: self.parts() == 0, "the rest is not copied")
        self.check_stays_with_a_later_mount(replace)

    def test_a_file_that_is_removed_just_before_the_end_stays_with_the_session(self):
        self.check_stays_with_a_later_mount(lambda big: big.unlink())

    def test_what_is_lost_by_an_edit_in_place_is_named_and_the_rest_can_be_read(self):
        self.start(LARGE)
        self.append()
        with open(self.point / "big", "r+b", buffering=0) as file:
            file.seek(AT)
            self.assertEqual(file.read(5), b"AGENT")
            for call in (lambda: os.pread(file.fileno(), 5, 0), lambda: os.pwrite(file.fileno(), b"more", AT),
                         lambda: os.ftruncate(file.fileno(), AT)):
                with self.assertRaises(OSError) as raised:
                    call()
                self.assertEqual(raised.exception.errno, errno.EIO)
        self.end()
        refused = self.w.fails("apply", self.w.id)
        self.assertIn("conflict: /big: it was changed in the base, and part of the agent's version existed only in the base and is lost",
                      refused)
        self.assertNotIn("--force takes", refused)
        forced = self.w.fails("apply", "--force", self.w.id)
        self.assertIn(f"bytes 0 to {AT - 1}, {AT + 65536} to {LARGE - 1} are lost", forced)
        self.assertEqual((self.base / "big").read_bytes(), self.content + b"user")
        self.w.warren("discard", "--yes", self.w.id, "/big")
        self.assertEqual(self.w.changes(), [])

    def test_an_undo_does_not_lose_what_the_agent_has_only_in_the_file_that_it_replaces(self):
        for is_mounted in (False, True):
            with self.subTest(is_mounted=is_mounted):
                self.doCleanups()
                self.setUp()
                self.start(LARGE)
                self.apply()
                if is_mounted:
                    self.point_write(b"B", 0)
                else:
                    self.w.umount(self.point)
                    self.edit("/big", 0, b"B")
                self.assertGreater(self.parts(), 0)
                self.w.warren("undo", self.w.id)
                self.assertEqual((self.base / "big").read_bytes(), self.content)
                self.assertEqual(self.parts(), 0)
                self.assertEqual(self.w.lines(), ["M f /big"])
                if is_mounted:
                    self.w.umount(self.point)
                mine = b"B" + self.mine()[1:]
                self.assertEqual(self.fs("cat", "/big"), mine)
                self.w.warren("apply", self.w.id)
                self.assertEqual((self.base / "big").read_bytes(), mine)
                self.w.fsck()

    def edit_after_an_apply(self):
        """What the agent has of the file now is only in the base, except one byte."""
        self.doCleanups()
        self.setUp()
        self.start(LARGE)
        self.apply()
        self.w.umount(self.point)
        self.edit("/big", 0, b"B")
        self.assertGreater(self.parts(), 0)
        return b"B" + self.mine()[1:]

    def check_undone(self, mine):
        self.assertEqual((self.base / "big").read_bytes(), self.content)
        self.assertEqual(self.fs("cat", "/big"), mine)
        self.w.warren("apply", "--trust-base", self.base, self.w.id)
        self.assertEqual((self.base / "big").read_bytes(), mine)

    def test_an_undo_is_refused_while_the_agent_cannot_be_read(self):
        mine = self.edit_after_an_apply()
        self.assertFalse(pathlib.Path(f"{self.w.file}-wal").exists())
        with open(self.w.file, "r+b") as file:
            begin = file.read(100)
            file.seek(0)
            file.write(b"x" * 100)
        applied = (self.base / "big").read_bytes()
        said = self.w.fails("undo", self.w.id)
        self.assertIn("nothing was undone", said)
        self.assertIn(str(self.w.file), said)
        self.assertEqual((self.base / "big").read_bytes(), applied)
        self.assertEqual((self.w.staging(), self.w.records()), ([], []))
        with open(self.w.file, "r+b") as file:
            file.write(begin)
        self.w.warren("undo", self.w.id)
        self.check_undone(mine)
        self.w.fsck()

    def test_an_undo_knows_an_agent_whose_file_is_another_one(self):
        """It was restored from a backup, or moved."""
        mine = self.edit_after_an_apply()
        copy = self.w.root / "copy.db"
        shutil.copy(self.w.file, copy)
        os.rename(copy, self.w.file)
        self.w.warren("undo", self.w.id)
        self.check_undone(mine)
        mine = self.edit_after_an_apply()
        moved = self.w.root / "moved.db"
        os.rename(self.w.file, moved)
        self.w.warren("undo", moved)
        os.rename(moved, self.w.file)
        self.check_undone(mine)

    def test_an_undo_keeps_what_another_session_has_only_in_the_file_that_it_replaces(self):
        self.start(LARGE)
        self.apply()
        self.w.umount(self.point)
        applied = self.mine()
        done = self.w.run("run", "--session", "other", "--", "sh", "-c", "printf B | dd of=big bs=1 conv=notrunc", cwd=self.base)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.w.warren("undo", self.w.id)
        self.assertEqual((self.base / "big").read_bytes(), self.content)
        self.assertEqual(self.w.warren("fs", "other", "cat", "/big"), b"B" + applied[1:])

    def check_apply_keeps(self, script):
        """What another session, which is not running, has only in a file that the apply replaces or removes."""
        self.content = b"begin" + b"x" * (LARGE - 8) + b"end"
        (self.w.base / "sub").mkdir()
        (self.w.base / "sub" / "big").write_bytes(self.content)
        for session, command in (("other", "printf B | dd of=sub/big bs=1 seek=7 conv=notrunc"), ("fix", script)):
            done = self.w.run("run", "--session", session, "--", "sh", "-ec", command, cwd=self.w.base)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.w.warren("apply", "--yes", "fix")
        self.assertEqual(self.w.warren("fs", "other", "cat", "/sub/big"), self.content[:7] + b"B" + self.content[8:])
        self.assertIn("conflict: /sub/big: ", self.w.fails("apply", "other"))
        self.w.warren("apply", "--force", "other")
        self.assertEqual((self.w.base / "sub" / "big").read_bytes(), self.content[:7] + b"B" + self.content[8:])

    def test_an_apply_keeps_what_another_session_has_only_in_the_file_that_it_replaces(self):
        self.check_apply_keeps("echo short > sub/big")

    def test_an_apply_keeps_what_another_session_has_only_in_the_file_that_it_edits(self):
        self.check_apply_keeps("printf A | dd of=sub/big bs=1 conv=notrunc")

    def test_an_apply_keeps_what_another_session_has_only_in_a_directory_that_it_removes(self):
        self.check_apply_keeps("rm -r sub")

    def test_without_its_base_what_is_complete_can_be_written_elsewhere(self):
        self.start(LARGE)
        (self.point / "new").write_text("new\n")
        self.w.umount(self.point)
        os.rename(self.base, self.w.root / "gone")
        self.assertIn("`--exclude` leaves out large files that the agent has only in part", self.w.fails("diff", self.w.id))
        self.base.mkdir()
        out = self.w.root / "out"
        said = self.w.fails("apply", self.w.id, "--to", out)
        self.assertIn("nothing was written: read '/big': ", said)
        self.assertIn("hint: `--exclude` leaves it out, and writes the rest", said)
        self.assertFalse(out.exists())
        self.w.warren("apply", self.w.id, "--to", out, "--exclude", "/big")
        self.assertEqual((os.listdir(out), (out / "new").read_text()), (["new"], "new\n"))


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
