#!/usr/bin/env python3
"""An agent file and its log belong together, whatever happens to their names.

SQLite finds a log by name alone. So a file that is moved while it is in use, that has two names, or that takes the name
of another one must not be read without its log, nor with the log of another file.
"""
import contextlib
import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
import mounted

LINES = "".join(f"{number}\n" for number in range(20_000)).encode()


class Identity(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.file = self.world.file
        self.log = self.file.with_name("a.db-wal")
        self.moved = self.file.with_name("b.db")

    def put(self, mount, *names):
        for name in names:
            with open(mount / name, "wb") as file:
                file.write(LINES)
                file.flush()
                os.fsync(file.fileno())

    def kill(self, server, mount):
        server.send_signal(signal.SIGKILL)
        server.wait()
        mounted.detach(mount)

    def leave_log(self, *names):
        """A mount writes the files and is killed; its log stays."""
        server = self.world.serve()
        mount = self.world.point()
        self.put(mount, *names)
        self.kill(server, mount)
        self.assertTrue(self.log.exists())

    def refused(self, *command, said=()):
        done = self.world.run(*command)
        self.assertEqual(done.returncode, 1, (command, done.stdout, done.stderr))
        for text in said:
            self.assertIn(os.fsencode(text), done.stderr)
        return done.stderr

    def check(self, agent, *names):
        for name in names:
            self.assertEqual(self.world.warren("fs", agent, "cat", f"/{name}"), LINES, name)
        self.world.warren("fsck", agent)


class InUse(Identity):
    def test_a_file_that_was_moved_is_refused_until_the_mount_ends(self):
        mount = self.world.mount()
        self.put(mount, "one", "two")
        os.rename(self.file, self.moved)
        for command in (("fs", "b", "write", "/x", "y"), ("fs", "b", "cat", "/one"), ("fsck", "b"),
                        ("backup", "b", self.world.root / "backup.db"), ("kv", "b", "set", "k", "1"),
                        ("mount", "b", self.world.point("second"))):
            self.refused(*command, said=("was moved while it was in use", self.file, "warren umount"))
        self.assertFalse((self.world.root / "backup.db").exists())
        done = self.world.run("umount", mount)
        self.assertIn(b"it is '%s' now, with everything in it" % os.fsencode(self.moved), done.stderr)
        self.check("b", "one", "two")
        self.assertEqual(os.listdir(self.file.parent), ["b.db"])

    def test_a_file_that_was_moved_back_is_as_before(self):
        mount = self.world.mount()
        self.put(mount, "one")
        os.rename(self.file, self.moved)
        os.rename(self.moved, self.file)
        self.world.warren("fs", "a", "write", "/x", "y")
        self.assertEqual((mount / "x").read_bytes(), b"y")
        self.world.umount(mount)
        self.check("a", "one")

    def test_a_new_file_does_not_get_the_log_of_one_that_was_moved(self):
        self.world.warren("init", "other")
        self.world.warren("fs", "other", "write", "/o", "other")
        mount = self.world.mount()
        self.put(mount, "one")
        os.rename(self.file, self.moved)
        self.refused("init", "a", said=("a process still has the previous",))
        self.assertFalse(self.file.exists())
        os.rename(self.file.with_name("other.db"), self.file)
        self.refused("fs", "a", "ls", "/", said=("a process still has the previous",))
        self.world.run("umount", mount)
        self.assertEqual(self.world.warren("fs", "a", "cat", "/o"), b"other")
        self.check("b", "one")
        self.world.fsck()

    def test_a_second_name_is_refused_and_the_first_works(self):
        mount = self.world.mount()
        self.put(mount, "one")
        os.link(self.file, self.moved)
        self.refused("fs", "b", "write", "/x", "y", said=("both names lead to one file", self.file))
        self.refused("fs", "b", "ls", "/", said=("both names lead to one file",))
        self.world.warren("fs", "a", "write", "/x", "y")
        self.world.umount(mount)
        self.assertEqual(self.world.warren("fs", "b", "cat", "/x"), b"y")
        self.check("b", "one")

    def test_a_file_that_is_overwritten_in_place_is_reported_and_not_written_again(self):
        """`cp other.db a.db` under a mount: what is in the file afterwards is what was copied, and no mixture."""
        self.world.warren("init", "other")
        for number in range(50):
            self.world.warren("fs", "other", "write", f"/o{number}", f"other {number}")
        other = self.file.with_name("other.db").read_bytes()
        mount = self.world.mount()
        self.put(mount, "one", "two")
        log = self.log.stat().st_size
        subprocess.run(["cp", self.file.with_name("other.db"), self.file], check=True)
        mounted.wait_for(lambda: not self.log.exists(), "the log still has its name, and would be applied to the other file")
        with self.assertRaises(OSError) as refused:
            self.put(mount, "three")
        self.assertEqual(refused.exception.errno, errno.ESTALE)
        self.assertGreater(log, 0)
        done = self.world.run("umount", mount)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"'%s' was overwritten while it was in use" % os.fsencode(self.file), done.stderr)
        self.assertEqual(self.file.read_bytes(), other)
        self.world.fsck()
        self.assertEqual(self.world.warren("fs", "a", "cat", "/o49"), b"other 49")
        self.assertEqual(sorted(os.listdir(self.file.parent)), ["a.db", "other.db"])

    def test_what_others_do_to_the_file_is_no_overwriting(self):
        mount = self.world.mount()
        for number in range(3):
            self.put(mount, f"f{number}")
            os.utime(self.file)
            subprocess.run(["touch", self.file], check=True)
            with contextlib.closing(sqlite3.connect(self.file)) as other:
                other.execute("CREATE TABLE IF NOT EXISTS mine (x)")
                other.execute("INSERT INTO mine VALUES (zeroblob(1000000))")
                other.commit()
                other.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            self.world.warren("fs", "a", "write", f"/w{number}", "y")
            with contextlib.closing(sqlite3.connect(self.file)) as other:
                other.execute("PRAGMA wal_checkpoint").fetchall()
                other.execute("DELETE FROM mine")
                other.commit()
        # Enough for checkpoints of the mount's own, too.
        with open(mount / "large", "wb") as file:
            for _ in range(200):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        self.put(mount, "last")
        self.world.umount(mount)
        self.check("a", "f0", "f1", "f2", "last")

    def test_another_program_can_have_it_open(self):
        other = self.enterContext(contextlib.closing(sqlite3.connect(self.file)))
        other.execute("SELECT count(*) FROM fs_inode").fetchone()
        self.world.warren("fs", "a", "write", "/x", "y")
        self.assertEqual(self.world.warren("fs", "a", "cat", "/x"), b"y")

    def test_a_program_that_shares_no_log_has_not_moved_the_file(self):
        for is_written in (False, True):
            with self.subTest(is_written), contextlib.closing(sqlite3.connect(self.file, isolation_level=None)) as other:
                other.execute("PRAGMA locking_mode = EXCLUSIVE")
                other.execute("SELECT count(*) FROM fs_inode").fetchone()
                if is_written:
                    other.execute("PRAGMA user_version = 0")
                said = self.refused("fs", "a", "ls", "/", said=(f"is open in process {os.getpid()}", "try again"))
                self.assertNotIn(b"was moved while it was in use", said)

    def test_many_that_open_it_at_once_are_not_refused(self):
        commands = [subprocess.Popen([mounted.program(), "fs", "a", "write", f"/f{number}", "x"], cwd=self.world.home,
                                     stderr=subprocess.PIPE) for number in range(24)]
        for command in commands:
            _, said = command.communicate(timeout=mounted.PATIENCE_SECONDS)
            self.assertEqual(command.returncode, 0, said)
        self.assertEqual(len(self.world.warren("fs", "a", "ls", "/").split()), 24)
        self.assertEqual(self.world.left_beside(), [])


class Names(Identity):
    def test_a_file_with_two_names_can_only_be_read(self):
        self.world.warren("fs", "a", "write", "/x", "y")
        os.link(self.file, self.moved)
        for agent in ("a", "b"):
            self.refused("fs", agent, "write", "/x", "z", said=("has 2 names", "cp "))
            self.refused("mount", agent, self.world.point(), said=("has 2 names",))
            self.assertEqual(self.world.warren("fs", agent, "cat", "/x"), b"y")
        shutil.copy(self.file, self.file.with_name("copy"))
        os.rename(self.file.with_name("copy"), self.file)
        self.world.warren("fs", "a", "write", "/x", "z")
        self.assertEqual(self.world.warren("fs", "b", "cat", "/x"), b"y")

    def test_a_second_name_does_not_hide_what_is_in_the_log(self):
        self.leave_log("one")
        os.link(self.file, self.moved)
        self.refused("fs", "b", "ls", "/", said=("is not complete", self.log))
        self.check("a", "one")
        self.check("b", "one")


class Strange(Identity):
    """What somebody else has put in the place of a log, for example in an archive."""

    def test_a_pipe_is_refused_at_once(self):
        for suffix in ("-wal", "-shm"):
            with self.subTest(suffix):
                pipe = self.file.with_name("a.db" + suffix)
                os.mkfifo(pipe)
                said = (pipe.name, "is not a regular file")
                for command in (("fs", "a", "ls", "/"), ("fs", "a", "write", "/x", "y"), ("info", "a")):
                    self.refused(*command, said=said)
                new = self.file.with_name("new.db" + suffix)
                os.mkfifo(new)
                self.refused("init", "new", said=(new.name, "is not a regular file"))
                os.unlink(pipe)
                os.unlink(new)
                self.world.warren("fs", "a", "ls", "/")


class LeftLog(Identity):
    """A mount was killed, and its log is still there."""

    def test_a_new_agent_does_not_get_it(self):
        self.leave_log("one")
        os.unlink(self.file)
        for options in ((), ("--chunk-size", "65536"), ("--force",)):
            self.refused("init", "a", *options, said=(self.log.name, "mv "))
            self.assertFalse(self.file.exists())
        self.world.warren("init", "other")
        self.world.warren("backup", "other", self.world.root / "backup.db")
        self.refused("restore", "a", self.world.root / "backup.db", said=(self.log.name,))
        os.rename(self.log, self.log.with_name("kept"))
        self.world.warren("init", "a")
        self.assertEqual(self.world.warren("fs", "a", "ls", "/"), b"")

    def test_a_file_that_takes_the_name_does_not_get_it(self):
        self.world.warren("init", "other")
        self.world.warren("fs", "other", "write", "/o", "other")
        self.leave_log("one")
        os.rename(self.file, self.world.root / "kept.db")
        os.rename(self.file.with_name("other.db"), self.file)
        log = self.log.read_bytes()
        for command in (("fs", "a", "ls", "/"), ("fs", "a", "write", "/x", "y"), ("fsck", "a"), ("init", "--force", "a"),
                        ("mount", "a", self.world.point())):
            self.refused(*command, said=("is the log of another file", "mv "))
        self.assertEqual(self.log.read_bytes(), log)
        os.rename(self.log, self.world.root / "kept.db-wal")
        self.assertEqual(self.world.warren("fs", "a", "cat", "/o"), b"other")
        self.check(self.world.root / "kept.db", "one")

    def test_a_file_that_was_moved_without_it_is_refused(self):
        server = self.world.serve()
        mount = self.world.point()
        self.put(mount, "one")
        os.rename(self.file, self.moved)
        self.put_ignoring_stale(mount, "two")
        self.kill(server, mount)
        for command in (("fs", "b", "ls", "/"), ("fs", "b", "write", "/x", "y"), ("fsck", "b")):
            self.refused(*command, said=("is not complete", self.log, f"mv '{self.log}' '{self.moved}-wal'"))
        os.rename(self.log, f"{self.moved}-wal")
        self.check("b", "one")

    def put_ignoring_stale(self, mount, name):
        try:
            self.put(mount, name)
        except OSError:
            pass

    def test_a_copy_of_both_is_complete(self):
        self.leave_log("one")
        for options in ("-r", "-a"):
            copy = self.world.root / f"copy{options}"
            subprocess.run(["cp", options, self.file.parent, copy], check=True)
            self.check(copy / "a.db", "one")
        self.check("a", "one")

    def test_a_copy_of_a_file_that_was_closed_is_complete(self):
        self.world.warren("fs", "a", "write", "/x", "y")
        subprocess.run(["cp", "-a", self.file, self.moved], check=True)
        self.leave_log("one")
        self.assertEqual(self.world.warren("fs", "b", "ls", "/").split(), [b"x"])

    def test_a_directory_that_was_renamed_keeps_it(self):
        self.leave_log("one")
        os.rename(self.file.parent, self.world.home / "elsewhere")
        self.check(self.world.home / "elsewhere" / "a.db", "one")


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main(verbosity=2)
