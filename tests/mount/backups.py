#!/usr/bin/env python3
"""Copies of an agent or a ledger, on a disk that is too small for them: `backup`, `restore`, `fsck --repair` and
`relay backup` write a complete copy or report why not.

    WARREN=path/to/warren backups.py [-v] [FullDisk.test_name]

Needs root, for the disk.
"""
import contextlib
import os
import pathlib
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted

CONTENT_MIB = 12
NO_SPACE = b"the disk is full"


class FullDisk(unittest.TestCase):
    """Every size from too small for one copy to more than twice its size."""

    def setUp(self):
        self.world = self.enterContext(mounted.World())
        content = self.world.root / "content"
        content.write_bytes(os.urandom(CONTENT_MIB << 20))
        self.world.warren("fs", self.world.id, "put", content, "/content")
        self.disk = self.world.point("disk")

    @contextlib.contextmanager
    def disk_of(self, mebibytes):
        image = self.world.root / "image"
        image.unlink(missing_ok=True)
        with open(image, "wb") as out:
            out.truncate(mebibytes << 20)
        # Without a journal and reserved blocks, so that the size is what a file can use.
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-N", "64", "-O", "^has_journal", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, self.disk], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", self.disk], check=True)

    def files(self):
        return sorted(name for name in os.listdir(self.disk) if name != "lost+found")

    def check_sizes(self, make, copy, check):
        """make() writes the copy. It succeeds and the copy is whole, or it says that the disk is full and leaves none."""
        outcomes = set()
        for mebibytes in (8, CONTENT_MIB + 2, CONTENT_MIB * 3 // 2, CONTENT_MIB * 2, CONTENT_MIB * 3):
            with self.subTest(mebibytes=mebibytes), self.disk_of(mebibytes):
                before = self.files()
                done = make()
                outcomes.add(done.returncode == 0)
                if done.returncode == 0:
                    self.assertEqual(self.files(), sorted({*before, copy()}))
                    check(self.disk / copy())
                else:
                    self.assertIn(NO_SPACE, done.stderr)
                    self.assertEqual(self.files(), before)
        self.assertEqual(outcomes, {True, False})

    def check_agent(self, path):
        self.world.warren("fsck", path)
        found = self.world.warren("fs", path, "cat", "/content")
        self.assertEqual(found, (self.world.root / "content").read_bytes())

    def test_a_backup_is_whole_or_refused(self):
        self.check_sizes(lambda: self.world.run("backup", self.world.id, self.disk / "copy.db"), lambda: "copy.db",
                         self.check_agent)

    def test_a_restored_agent_is_whole_or_refused(self):
        def restore():
            (self.disk / ".agentfs").mkdir()
            done = self.world.run("restore", "b", self.world.file, cwd=self.disk)
            if done.returncode != 0:
                self.assertEqual(os.listdir(self.disk / ".agentfs"), [])
                (self.disk / ".agentfs").rmdir()
            return done
        self.check_sizes(restore, lambda: ".agentfs", lambda path: self.check_agent(path / "b.db"))

    def test_a_repair_without_room_for_its_backup_changes_nothing(self):
        with contextlib.closing(sqlite3.connect(self.world.file)) as agent:
            agent.execute("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('nowhere', 1, 987654)")
            agent.commit()
            agent.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        damaged = self.world.file.read_bytes()
        for free_mib in (8, CONTENT_MIB // 2, CONTENT_MIB * 3 // 2):
            with self.subTest(free_mib=free_mib), self.disk_of(CONTENT_MIB + 2 + free_mib):
                (self.disk / "a.db").write_bytes(damaged)
                done = self.world.run("fsck", self.disk / "a.db", "--repair")
                copies = [name for name in self.files() if name != "a.db"]
                if done.returncode == 0:
                    self.assertEqual(len(copies), 1, copies)
                    self.assertEqual(self.rows(self.disk / copies[0]), self.rows(self.disk / "a.db") + 1)
                else:
                    self.assertIn(NO_SPACE, done.stderr)
                    self.assertEqual(copies, [])
                    self.assertEqual((self.disk / "a.db").read_bytes(), damaged)

    def rows(self, path):
        with contextlib.closing(sqlite3.connect(path)) as agent:
            self.assertEqual(agent.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            return agent.execute("SELECT count(*) FROM fs_dentry").fetchone()[0]

    def test_a_ledger_backup_is_whole_or_refused(self):
        root = self.world.root / "relay"
        ledger = root / "ledger.db"
        relay = subprocess.Popen([mounted.program(), "relay", "--root", root, "up"], stderr=subprocess.DEVNULL)
        try:
            mounted.wait_for(ledger.exists, "the relay's ledger")
        finally:
            relay.terminate()
            relay.wait()
        with contextlib.closing(sqlite3.connect(ledger)) as db:
            db.execute("CREATE TABLE ballast (x)")
            db.executemany("INSERT INTO ballast VALUES (?)", [(os.urandom(1 << 20),)] * CONTENT_MIB)
            db.commit()

        def check(path):
            with contextlib.closing(sqlite3.connect(path)) as db:
                self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
                self.assertEqual(db.execute("SELECT count(*) FROM ballast").fetchone(), (CONTENT_MIB,))
        self.check_sizes(lambda: self.world.run("relay", "--root", root, "backup", self.disk / "copy.db"),
                         lambda: "copy.db", check)

    def test_two_backups_to_one_name_do_not_mix(self):
        """Each one is complete when it is published, or refused."""
        with self.disk_of(CONTENT_MIB * 6):
            target = self.disk / "copy.db"
            for _ in range(5):
                running = [subprocess.Popen([mounted.program(), "backup", self.world.id, target], cwd=self.world.home,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(3)]
                ends = [(one.communicate()[1], one.returncode) for one in running]
                self.assertEqual(sorted(code == 0 for _, code in ends), [False, False, True], ends)
                self.assertEqual(self.files(), ["copy.db"])
                self.check_agent(target)
                target.unlink()


if __name__ == "__main__":
    mounted.need_fuse()
    if os.geteuid() != 0:
        print("SKIPPED: NOTHING WAS TESTED, this needs root", file=sys.stderr)
        sys.exit(mounted.SKIPPED)
    unittest.main()
