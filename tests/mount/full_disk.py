#!/usr/bin/env python3
"""The mount on a full disk: what was acknowledged is kept, and the rest is refused.

    WARREN=path/to/warren full_disk.py [-v] [FullDisk.test_name]

Needs root, for the tmpfs that fills up.
"""
import contextlib
import errno
import mmap
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted
from robust import content, end_of, fails, put_synced, start, sync


class FullDisk(unittest.TestCase):
    """The agent's file is on a separate tmpfs."""

    SMALL, LARGE = "24m", "96m"

    def setUp(self):
        disk = self.enterContext(mounted.World())
        self.disk = disk.point("disk")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.SMALL}", "tmpfs", self.disk], check=True)
        self.world = self.enterContext(mounted.World(self.disk))
        self.mount = self.world.mount()

    def fill(self, tag):
        """Writes files until the disk is full; returns the synced ones by name."""
        safe = {}
        for number in range(1000):
            path = self.mount / f"{tag}{number}"
            try:
                put_synced(path, content(path.name, 500_000))
            except OSError as error:
                self.assertEqual(error.errno, errno.ENOSPC)
                return safe
            safe[path] = path.name
        self.fail("a small disk never was full")

    def check(self, safe):
        self.assertGreater(len(safe), 5)
        for path, key in safe.items():
            self.assertEqual(path.read_bytes(), content(key, 500_000), path)

    def finish(self, safe):
        self.world.umount(self.mount)
        self.world.fsck()
        self.world.mount()
        self.check(safe)
        self.world.umount(self.mount)
        self.world.fsck()
        self.assertEqual(self.world.left_beside(), [])

    def test_a_full_disk_recovers_when_it_grows(self):
        safe = self.fill("first")
        self.check(safe)
        self.assertTrue(fails(lambda: put_synced(self.mount / "more", content("more", 2_000_000))))
        self.check(safe)
        subprocess.run(["mount", "-o", f"remount,size={self.LARGE}", self.disk], check=True)
        put_synced(self.mount / "again", content("again", 500_000))
        safe[self.mount / "again"] = "again"
        self.finish(safe)

    def test_a_log_that_must_stay_on_a_full_disk_is_reported(self):
        data = content("first", 5_000_000)
        put_synced(self.mount / "first", data)
        with open(self.disk / "filler", "wb", buffering=0) as filler:
            while not fails(lambda: filler.write(bytes(4096))):
                pass
        done = self.world.run("umount", self.mount)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"a.db-wal' contains changes that are not in the agent's file yet", done.stderr)
        self.assertEqual(self.world.left_beside(), ["a.db-shm", "a.db-wal"])
        os.unlink(self.disk / "filler")
        self.world.mount()
        self.assertEqual((self.mount / "first").read_bytes(), data)
        done = self.world.run("umount", self.mount)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.world.left_beside(), [])
        self.world.fsck()

    def test_over_a_base_what_was_accepted_is_kept(self):
        base = self.world.root / "base"
        for number in range(300):
            (base / str(number)).mkdir(parents=True)
            for file in range(50):
                (base / str(number) / str(file)).write_text("from the base")
        self.world.umount(self.mount)
        self.world.warren("init", "--force", self.world.id, "--base", base)
        self.world.mount()
        (self.mount / "written").write_bytes(content("written", 300_000))
        accepted = []
        try:
            for path in sorted(base.glob("*/*")):
                mine = self.mount / path.relative_to(base)
                os.utime(mine, (1, 1))
                accepted.append(mine)
                if len(accepted) % 10 == 0:
                    new = mine.with_name(f"new{mine.name}")
                    new.write_bytes(content("new", 30_000))
                    accepted.append(new)
            self.fail("a small disk never was full")
        except OSError as error:
            self.assertEqual(error.errno, errno.ENOSPC)
        self.assertGreater(len(accepted), 100)

        def check():
            self.assertEqual((self.mount / "written").read_bytes(), content("written", 300_000))
            for path in accepted:
                if path.name.startswith("new"):
                    self.assertEqual(path.read_bytes(), content("new", 30_000), path)
                else:
                    self.assertEqual(path.stat().st_mtime, 1, path)
        check()
        self.world.umount(self.mount)
        self.world.mount()
        check()
        self.world.umount(self.mount)
        self.world.fsck()

    def fsync_fails(self, file):
        try:
            os.fsync(file.fileno())
            return False
        except OSError as error:
            self.assertEqual(error.errno, errno.ENOSPC)
            return True

    @contextlib.contextmanager
    def what_cannot_be_stored(self):
        """Two open files with content that was accepted and cannot be stored, their content, and the filler."""
        size = 400_000
        filler = open(self.disk / "filler", "wb", buffering=0)
        free = os.statvfs(self.disk)
        os.posix_fallocate(filler.fileno(), 0, free.f_bavail * free.f_frsize - 8_000_000)
        kept = filler.seek(0, os.SEEK_END)
        one, two = self.mount / "one", self.mount / "two"
        with filler, open(one, "wb", buffering=0) as first, open(two, "wb", buffering=0) as second:
            # Both are accepted while there is room, which is gone when they are stored: the server is stopped until
            # then. If it stores them before it is stopped, they are written again.
            (server,) = self.world.daemons()
            for attempt in range(200):
                filler.truncate(kept)
                filler.seek(kept)
                sync(self.mount)
                os.pwrite(first.fileno(), content(f"one{attempt}", size), 0)
                os.pwrite(second.fileno(), content(f"two{attempt}", size), 0)
                os.kill(server, signal.SIGSTOP)
                try:
                    while not fails(lambda: filler.write(bytes(65536))):
                        pass
                    while not fails(lambda: filler.write(bytes(4096))):
                        pass
                finally:
                    os.kill(server, signal.SIGCONT)
                if self.fsync_fails(first):
                    break
            else:
                self.fail("everything was stored in time, every time")
            yield first, second, {name: content(f"{name}{attempt}", size) for name in ("one", "two")}, filler

    def test_what_cannot_be_stored_is_kept_and_every_fsync_says_so(self):
        with self.what_cannot_be_stored() as (first, second, written, filler):
            for file in (second, first) * 3:
                self.assertTrue(self.fsync_fails(file))
            self.assertEqual((self.mount / "one").read_bytes(), written["one"])
            self.assertTrue(fails(lambda: first.write(b"more")))
            filler.truncate(0)
            os.fsync(second.fileno())
            os.fsync(first.fileno())
        self.world.umount(self.mount)
        self.world.mount()
        for name, data in written.items():
            self.assertEqual((self.mount / name).read_bytes(), data)

    def test_a_command_says_that_the_disk_is_full_and_what_helps(self):
        (self.mount / "one").write_bytes(b"1")
        self.world.umount(self.mount)
        with open(self.disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        for words in (("fs", self.world.id, "write", "/two", "2"), ("fs", self.world.id, "rm", "/one")):
            done = self.world.run(*words)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(b"the disk is full", done.stderr)
            self.assertIn(b"hint: free some space", done.stderr)
        os.unlink(self.disk / "filler")
        self.world.mount()
        self.assertEqual([path.name for path in self.mount.iterdir()], ["one"])

    def test_umount_refuses_while_something_cannot_be_stored(self):
        with self.what_cannot_be_stored() as (first, second, written, filler):
            first.close()
            second.close()
            for _ in range(2):
                done = self.world.run("umount", self.mount)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(b"cannot be stored in", done.stderr)
                self.assertIn(b"No space left", done.stderr)
                self.assertTrue(mounted.is_mounted(self.mount))
            filler.truncate(0)
        self.world.umount(self.mount)
        self.world.mount()
        for name, data in written.items():
            self.assertEqual((self.mount / name).read_bytes(), data)

    def test_a_forced_umount_says_what_is_lost(self):
        with self.what_cannot_be_stored() as (first, second, _, filler):
            first.close()
            second.close()
            done = self.world.run("umount", "--force", self.mount)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(b"a.db' and are lost: ", done.stderr)
            self.assertIn(b"'/one', '/two'", done.stderr)
            self.assertFalse(mounted.is_mounted(self.mount))
            filler.truncate(0)
        self.world.mount()
        self.world.umount(self.mount)
        self.world.fsck()

    def test_a_mount_that_loses_something_at_its_end_is_reported_by_ps(self):
        self.world.umount(self.mount)
        server = self.world.serve()
        with self.what_cannot_be_stored() as (first, second, _, filler):
            first.close()
            second.close()
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(mounted.PATIENCE_SECONDS), 1)
            filler.truncate(0)
        said = self.world.run("ps").stderr
        self.assertIn(b"a.db' and are lost: ", said)
        self.assertNotIn(b"are lost", self.world.run("ps").stderr)

    @contextlib.contextmanager
    def full(self):
        """While nothing at all fits on the disk. Yields the file that fills it."""
        with open(self.disk / "filler", "wb", buffering=0) as filler:
            for size in (65536, 4096):
                while not fails(lambda: filler.write(bytes(size))):
                    pass
            yield filler
            filler.truncate(0)

    def sparse(self, name, size):
        with open(self.mount / name, "wb") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def change_by_map(self, name):
        """Fills the file with M through a memory map; no call of the program fails for it."""
        with open(self.mount / name, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:] = b"M" * len(mapped)

    def fsync(self, name):
        with open(self.mount / name, "r+b") as file:
            os.fsync(file.fileno())

    def fsync_error(self, name):
        try:
            self.fsync(name)
            return None
        except OSError as error:
            return error.errno

    def test_a_memory_map_that_cannot_be_stored_is_kept(self):
        self.sparse("mapped", 1 << 20)
        with self.full() as filler:
            self.change_by_map("mapped")
            for _ in range(3):
                self.assertEqual(self.fsync_error("mapped"), errno.ENOSPC)
                self.assertEqual((self.mount / "mapped").read_bytes(), b"M" * (1 << 20))
            for _ in range(2):
                done = self.world.run("umount", self.mount)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(b"cannot be stored in", done.stderr)
                self.assertTrue(mounted.is_mounted(self.mount))
            filler.truncate(0)
            self.fsync("mapped")
        self.world.umount(self.mount)
        self.world.mount()
        self.assertEqual((self.mount / "mapped").read_bytes(), b"M" * (1 << 20))
        self.world.umount(self.mount)
        self.world.fsck()

    def test_a_memory_map_over_a_base_is_kept(self):
        base = self.world.root / "base"
        base.mkdir()
        (base / "small").write_bytes(bytes(100_000))
        (base / "large").write_bytes(bytes(3 << 20))
        self.world.umount(self.mount)
        self.world.warren("init", "--force", self.world.id, "--base", base)
        self.world.mount()
        sync(self.mount)
        with self.full() as filler:
            for name in ("small", "large"):
                self.change_by_map(name)
                self.assertEqual(self.fsync_error(name), errno.ENOSPC)
            filler.truncate(0)
            self.fsync("small")
        self.world.umount(self.mount)
        self.world.mount()
        for name, size in (("small", 100_000), ("large", 3 << 20)):
            self.assertEqual((self.mount / name).read_bytes(), b"M" * size)
        self.world.umount(self.mount)
        self.world.fsck()

    def test_a_mount_that_ends_says_which_memory_map_is_lost(self):
        self.world.umount(self.mount)
        server = self.world.serve()
        self.sparse("mapped", 1 << 20)
        with self.full():
            self.change_by_map("mapped")
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(mounted.PATIENCE_SECONDS), 1)
        self.assertIn(b"and are lost: ", said := self.world.run("ps").stderr)
        self.assertIn(b"'/mapped'", said)

    def test_exec_and_run_fail_if_a_memory_map_is_lost(self):
        program = self.world.root / "program.py"
        program.write_text(f"""
import mmap, os
fd = os.open("mapped", os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, 1 << 20)
os.fsync(fd)
mapped = mmap.mmap(fd, 0)
with open({str(self.disk / "filler")!r}, "ab", buffering=0) as filler:
    try:
        while True:
            filler.write(bytes(4096))
    except OSError:
        pass
mapped[:] = b"M" * (1 << 20)
""")
        self.world.umount(self.mount)
        project = self.world.root / "project"
        project.mkdir()
        config = tempfile.mkdtemp(prefix="warren-config-")  # in no directory that the run may write to
        self.addCleanup(shutil.rmtree, config, ignore_errors=True)
        for words, how in ((["exec", self.world.id], {}),
                           (["run", "--allow", self.disk, "--allow", self.world.root, "--"],
                            {"cwd": project, "env": os.environ | {"HOME": str(self.disk), "XDG_CONFIG_HOME": str(config)}})):
            done = self.world.run(*words, "/usr/bin/python3", program, **how)
            self.assertTrue((self.disk / "filler").exists(), (words, done.stderr))
            os.unlink(self.disk / "filler")
            self.assertNotEqual(done.returncode, 0, (words, done.stderr))
            self.assertIn(b"'/mapped'", done.stderr, words)
            self.assertIn(b"lost", done.stderr, words)

    def check_reported_loss(self):
        """The memory map of /mapped is lost for good, and every fsync reports it."""
        for _ in range(3):
            self.assertEqual(self.fsync_error("mapped"), errno.ENOSPC)
        (self.mount / "other").write_bytes(b"")
        self.fsync("other")
        lost = b"changes of '/mapped' through a memory map could not be stored and are lost: "
        self.assertIn(lost, self.world.run("ps").stderr)
        self.assertIn(lost, self.world.run("ps", "--json").stdout)
        for _ in range(2):
            done = self.world.run("umount", self.mount)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(lost, done.stderr)
            self.assertIn(b"--force", done.stderr)
        self.assertTrue(mounted.is_mounted(self.mount))

    def test_a_memory_map_that_is_too_large_to_keep_is_reported_as_lost(self):
        self.sparse("mapped", 64 << 20)
        with self.full():
            self.change_by_map("mapped")
        subprocess.run(["mount", "-o", f"remount,size={self.LARGE}", self.disk], check=True)
        self.check_reported_loss()
        done = self.world.run("umount", "--force", self.mount)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"'/mapped'", done.stderr)
        self.assertFalse(mounted.is_mounted(self.mount))
        self.world.fsck()

    def test_a_memory_map_with_sync_is_reported_as_lost_until_the_file_is_emptied(self):
        self.world.umount(self.mount)
        self.world.mount("mnt", "--sync")
        self.sparse("mapped", 1 << 20)
        with self.full():
            self.change_by_map("mapped")
        self.check_reported_loss()
        (self.mount / "mapped").write_bytes(b"new")
        self.fsync("mapped")
        self.world.umount(self.mount)
        self.assertEqual(self.world.warren("fs", self.world.id, "cat", "/mapped"), b"new")

    def test_many_lost_memory_maps_do_not_hide_the_mount(self):
        self.world.umount(self.mount)
        self.world.mount("mnt", "--sync")
        folder = self.mount / ("d" * 200)
        folder.mkdir()
        names = [f"{folder.name}/{number:03}{'n' * 150}" for number in range(300)]
        for name in names:
            self.sparse(name, 4096)
        with self.full():
            for name in names:
                self.change_by_map(name)
        lost = sum(self.fsync_error(name) == errno.ENOSPC for name in names)  # the first few still fit
        self.assertGreater(lost, 250)
        for done in (self.world.run("umount", self.mount), self.world.run("ps")):
            self.assertEqual(done.stderr.count(f"changes of '/{folder.name}/".encode()), 10, done.stderr)
            self.assertIn(b"changes of %d other files through a memory map could not be stored" % (lost - 10), done.stderr)
        self.assertIn(os.fsencode(self.mount), self.world.run("ps").stdout)
        self.assertTrue(mounted.is_mounted(self.mount))
        done = self.world.run("umount", "--force", self.mount)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"changes of %d other files" % (lost - 10), done.stderr)

    def test_a_lost_memory_map_of_a_file_that_is_removed_or_replaced_ends(self):
        self.world.umount(self.mount)
        self.world.mount("mnt", "--sync")
        for name in ("removed", "replaced"):
            self.sparse(name, 1 << 20)
        with self.full():
            for name in ("removed", "replaced"):
                self.change_by_map(name)
        self.assertEqual(self.fsync_error("removed"), errno.ENOSPC)
        self.assertIn(b"'/removed'", self.world.run("umount", self.mount).stderr)
        (self.mount / "good").write_bytes(b"good")
        os.rename(self.mount / "good", self.mount / "replaced")
        os.unlink(self.mount / "removed")
        sync(self.mount)
        self.assertNotIn(b"'/re", self.world.run("ps").stderr)
        self.world.umount(self.mount)
        self.assertEqual(self.world.warren("fs", self.world.id, "cat", "/replaced"), b"good")

    def test_a_full_disk_recovers_when_files_are_deleted(self):
        safe = self.fill("first")
        for path in list(safe)[:len(safe) // 2]:
            path.unlink()
            del safe[path]
        sync(self.mount)
        for number in range(3):
            put_synced(self.mount / f"again{number}", content(f"again{number}", 500_000))
            safe[self.mount / f"again{number}"] = f"again{number}"
        self.check(safe)
        self.finish(safe)

    def test_many_small_writers_all_get_an_error(self):
        """No sync succeeds unless the data is safe: each synced file is complete after a remount."""
        log = self.world.root / "acknowledged"
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def write_until_full(number):
            for count in range(100_000):
                name = f"small{number}-{count}"
                put_synced(self.mount / name, content(name, 20_000))
                os.write(out, f"{name}\n".encode())
        writers = [start(write_until_full, number) for number in range(3)]
        self.assertEqual([end_of(writer) for writer in writers], [errno.ENOSPC] * 3)
        os.close(out)
        subprocess.run(["mount", "-o", f"remount,size={self.LARGE}", self.disk], check=True)
        self.world.umount(self.mount)
        self.world.fsck()
        self.world.mount()
        for name in log.read_text().split():
            self.assertEqual((self.mount / name).read_bytes(), content(name, 20_000), name)
        self.world.umount(self.mount)

    def test_a_kill_on_a_full_disk_loses_nothing_synced(self):
        self.world.umount(self.mount)
        server = self.world.serve()
        safe = self.fill("first")
        server.kill()
        server.wait()
        subprocess.run(["mount", "-o", f"remount,size={self.LARGE}", self.disk], check=True)
        self.world.mount()
        self.check(safe)
        self.finish(safe)

    def occupy(self):
        """Another program takes the rest of the disk."""
        other = self.disk / "other"
        with open(other, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        return other

    def test_a_deleted_file_stays_mounted_until_it_can_be_rescued(self):
        put_synced(self.mount / "f", content("f", 3_000_000))
        other = self.occupy()
        os.unlink(self.world.file)
        for _ in range(2):
            done = self.world.run("umount", self.mount)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"it is still mounted", done.stderr)
            self.assertTrue(mounted.is_mounted(self.mount))
        self.assertEqual((self.mount / "f").read_bytes(), content("f", 3_000_000))
        other.unlink()
        done = self.world.run("umount", self.mount)
        self.assertIn(b"its whole content is now in", done.stderr)
        rescued = self.world.file.with_name("a.rescued.db")
        self.assertEqual(self.world.warren("fs", rescued, "cat", "/f"), content("f", 3_000_000))

    def serve_with_unfinished_log(self):
        """A stopped server whose latest changes are in the log alone: it must not have begun to copy them to the file."""
        self.world.umount(self.mount)
        empty = self.world.file.read_bytes()
        for _ in range(50):
            server = self.world.serve()
            before = self.world.file.stat()
            put_synced(self.mount / "f", content("f", 3_000_000))
            server.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)
            after = self.world.file.stat()
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                return server
            server.send_signal(signal.SIGCONT)
            self.world.umount(self.mount)
            server.wait(mounted.PATIENCE_SECONDS)
            self.world.file.write_bytes(empty)
        self.fail("the server copies its log at once, every time")

    def move_on_full_disk(self):
        server = self.serve_with_unfinished_log()
        other = self.occupy()
        moved = self.world.file.with_name("b.db")
        os.rename(self.world.file, moved)
        server.send_signal(signal.SIGCONT)
        return server, other, moved

    def test_a_moved_file_stays_mounted_until_it_can_be_complete(self):
        server, other, _ = self.move_on_full_disk()
        done = self.world.run("umount", self.mount)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"it is still mounted", done.stderr)
        self.assertTrue(mounted.is_mounted(self.mount))
        other.unlink()
        done = self.world.run("umount", self.mount)
        self.assertIn(b"with everything in it", done.stderr)
        server.wait(mounted.PATIENCE_SECONDS)
        self.assertEqual(self.world.warren("fs", "b", "cat", "/f"), content("f", 3_000_000))
        self.world.warren("fsck", "b")

    def test_a_forced_umount_of_a_moved_file_names_the_log(self):
        server, other, moved = self.move_on_full_disk()
        log = f"{self.world.file}-wal"
        done = self.world.run("umount", "--force", self.mount)
        self.assertIn(b"its latest changes are still in '%s'" % os.fsencode(log), done.stderr)
        server.wait(mounted.PATIENCE_SECONDS)
        other.unlink()
        self.assertIn(b"is not complete", self.world.run("fs", "b", "ls", "/").stderr)
        os.rename(log, f"{moved}-wal")
        self.assertEqual(self.world.warren("fs", "b", "cat", "/f"), content("f", 3_000_000))
        self.world.warren("fsck", "b")

    def read_everything(self):
        self.assertEqual(self.world.warren("fs", "a", "cat", "/f"), content("f", 3_000_000))
        self.world.warren("kv", "a", "list")
        self.world.fsck()
        backup = self.disk.parent / "backup.db"
        backup.unlink(missing_ok=True)
        self.world.warren("backup", "a", backup)
        self.assertEqual(self.world.warren("fs", backup, "cat", "/f"), content("f", 3_000_000))
        self.world.mount("mnt", "-r")
        self.assertEqual((self.mount / "f").read_bytes(), content("f", 3_000_000))
        self.world.umount(self.mount)

    def test_an_agent_that_nobody_uses_can_be_read_on_a_full_disk(self):
        put_synced(self.mount / "f", content("f", 3_000_000))
        self.world.umount(self.mount)
        other = self.occupy()
        self.read_everything()
        done = self.world.run("fs", "a", "write", "/g", "new")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"o space left", done.stderr)
        other.unlink()
        self.world.warren("fs", "a", "write", "/g", "new")
        self.assertEqual(self.world.left_beside(), [])

    def test_after_a_kill_it_can_be_read_on_a_full_disk(self):
        self.world.umount(self.mount)
        server = self.world.serve()
        put_synced(self.mount / "f", content("f", 3_000_000))
        server.kill()
        server.wait()
        mounted.detach(self.mount)
        other = self.occupy()
        self.read_everything()
        other.unlink()
        self.read_everything()
        self.assertEqual(self.world.left_beside(), [])


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
