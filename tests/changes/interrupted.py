#!/usr/bin/env python3
"""An apply that was interrupted, and what an agent file can and cannot say about it.

    WARREN=path/to/warren interrupted.py [-v] [Class.test_name]
"""
import os
import pathlib
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted


class Interrupted(Case):
    def interrupt(self, interferes=True):
        """Kills an apply after it has moved /gone away, and puts something else at its place."""
        self.fill(a="old a\n", gone="old gone\n")
        self.write("/a", "new a\n")
        self.fs("rm", "/gone")
        subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2", "-e",
                        "inject=renameat2:signal=KILL:when=2", mounted.program(), "apply", self.w.id], cwd=self.w.home,
                       env=self.w.environment(), capture_output=True, timeout=60)
        self.assertFalse((self.base / "gone").exists())
        if not interferes:
            return
        overlaid.write(self.base / "gone", "of the host\n")
        overlaid.write(self.base / "a", "changed by the host\n")

    def kept(self):
        return [path.read_text() for name in self.w.staging() for path in (self.base / name).iterdir() if path.name != "warren-mark"]

    def test_what_could_not_be_restored_stays_until_the_user_removes_it(self):
        self.interrupt()
        said = self.w.run("apply", "--recover", self.w.id).stderr.decode()
        self.assertIn("except '/gone': something else is there now, so it was not restored; the other version is ", said)
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

    def test_the_status_of_recover_says_whether_the_changes_are_in_the_base(self):
        self.fill(a="1\n")
        self.assertEqual(self.w.warren("apply", "--recover", self.w.id), b"no apply of this agent was interrupted\n")
        for interferes, status in ((False, 0), (True, 1)):
            with self.subTest(interferes):
                self.doCleanups()
                self.setUp()
                self.interrupt(interferes)
                self.assertEqual(self.w.run("apply", "--recover", self.w.id).returncode, status)
                self.assertEqual((self.base / "gone").exists(), interferes)

    def test_an_apply_that_an_older_version_began_can_be_undone(self):
        self.interrupt(interferes=False)
        (folder,) = (self.w.home / ".agentfs" / "undo").iterdir()
        self.assertEqual(os.listdir(folder), ["prepared"])
        (folder / "prepared").unlink()  # older versions make it later
        folder.rmdir()
        self.w.warren("apply", "--recover", self.w.id)
        self.assertEqual((self.read("a"), (self.base / "gone").exists()), ("new a\n", False))
        self.w.warren("undo", self.w.id)
        self.assertEqual((self.read("a"), self.read("gone")), ("old a\n", "old gone\n"))

    def test_an_apply_that_was_killed_while_it_marked_its_directory_blocks_nothing(self):
        self.fill(a="1\n")
        self.write("/a", "2\n")
        for nth in range(1, 30):
            subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject=fsync:signal=KILL:when={nth}",
                            mounted.program(), "apply", self.w.id], cwd=self.w.home, env=self.w.environment(), capture_output=True)
            if [os.listdir(self.base / name) for name in self.w.staging()] == [["warren-mark"]]:
                break
        (name,) = self.w.staging()
        mark = self.base / name / "warren-mark"
        os.truncate(mark, 10)
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("a"), self.w.staging(), self.w.records()), ("2\n", [], []))

    def test_a_session_forgets_the_mark_of_an_apply_that_was_killed_while_it_staged(self):
        self.fill(a="1\n")
        self.write("/a", "2\n")

        def mark():
            database = sqlite3.connect(self.w.file)
            (found,) = database.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'wr_apply'").fetchone()
            rows = database.execute("SELECT length(intent) FROM wr_apply").fetchall() if found else []
            database.close()
            return rows
        subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=mkdirat:signal=KILL:when=1", mounted.program(),
                        "apply", self.w.id], cwd=self.w.home, env=self.w.environment(), capture_output=True)
        self.assertEqual((mark(), self.read("a")), ([(0,)], "1\n"))
        self.w.change(lambda point: self.assertEqual(mark(), []))
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("a"), self.w.staging(), self.w.records()), ("2\n", [], []))

    def test_a_file_in_a_deleted_directory_that_is_changed_meanwhile_is_not_lost(self):
        self.fill(d__x="old x\n", d__y="old y\n")
        self.fs("rm", "-r", "/d")
        with subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=renameat2:delay_enter=3000000:when=1",
                               mounted.program(), "apply", self.w.id], cwd=self.w.home, env=self.w.environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as apply:
            mounted.wait_for(lambda: self.w.staging() and self.w.records(), "the apply to begin")
            time.sleep(1)
            overlaid.write(self.base / "d/x", "changed meanwhile\n")
            _, said = apply.communicate(timeout=60)
        self.assertEqual(apply.returncode, 1, said)
        self.assertIn(b"was changed by another process during the apply", said)
        self.assertEqual((self.read("d/x"), self.read("d/y"), self.w.staging()), ("changed meanwhile\n", "old y\n", []))

    def test_recover_needs_nothing_else(self):
        self.fill(a="1")
        self.w.fails("apply", "--recover", "--force", self.w.id, status=2)
        self.w.warren("apply", "--recover", self.w.id)


class Replaced(Case):
    """`init --force` replaces an agent when the new one is complete."""

    def test_the_old_agent_is_there_until_the_new_one_is(self):
        self.fill(a="1\n")
        self.write("/a", "2\n")
        for call in ("renameat2", "ftruncate", "fdatasync"):
            subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when=1",
                            mounted.program(), "init", "--force", self.w.id], cwd=self.w.home, env=self.w.environment(),
                           capture_output=True, timeout=60)
            self.assertEqual(self.fs("cat", "/a"), b"2\n", call)
        self.assertIn("does not exist", self.w.fails("init", "--force", "--base", self.w.root / "none", self.w.id))
        self.assertEqual(self.fs("cat", "/a"), b"2\n")
        self.w.warren("init", "--force", self.w.id)
        self.assertEqual(self.fs("ls", "/"), b"")

    def test_not_while_it_is_open(self):
        self.fill(a="1\n")
        point = self.w.mount()
        overlaid.write(point / "a", "mounted\n")
        self.assertIn("open in another process", self.w.fails("init", "--force", self.w.id))
        self.w.umount(point)
        self.assertEqual(self.fs("cat", "/a"), b"mounted\n")


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
