#!/usr/bin/env python3
"""The mount when things go wrong: killed, out of space, ended while in use.

    WARREN=path/to/warren robust.py [--rounds 3] [-v] [Robust.test_name]

Needs root, for the tmpfs that fills up.
"""
import argparse
import contextlib
import errno
import mmap
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted

ROUNDS = 30 if mounted.FULL else 3
WRITERS = 3
LOAD_LINES = 150  # acknowledgements of one round before the kill
GONE = {errno.ENOTCONN, errno.ECONNABORTED}  # a mount without a server: calls after its end, and a call during it
END_SECONDS = 10  # the limit for ending after SIGTERM


def content(key, size):
    return random.Random(key).randbytes(size)


def write_and_record(directory, log, number, turn):
    """Files that are fsynced, and recorded on the plain disk only then. Never ends by itself.

    Each way of making data durable that programs use: a new file, one replaced by rename, one that grows.
    """
    dice, count = random.Random(f"{number}/{turn}"), 0
    own = os.path.join(directory, f"writer{number}-{turn}")
    os.mkdir(own)
    sync(own)
    sync(directory)
    while True:
        count += 1
        key, size = f"{number}/{turn}/{count}", dice.choice([0, 1, 4096, 10_000, 200_000])
        name = f"new{count}" if count % 3 else f"replaced{count % 5}"
        path = os.path.join(own, name)
        put_synced(path + ".tmp" if count % 3 == 0 else path, content(key, size))
        if count % 3 == 0:
            os.rename(path + ".tmp", path)
        sync(own)
        line = f"{path}\t{key}\t{size}\n".encode()
        grow_synced(os.path.join(own, "grown"), line)
        os.write(log, line)


@contextlib.contextmanager
def synced(path, flags):
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield fd
        os.fsync(fd)
    finally:
        os.close(fd)


def put_synced(path, data):
    with synced(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        os.write(fd, data)


def grow_synced(path, line):
    with synced(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as fd:
        os.write(fd, line)


def sync(directory):
    with synced(directory, os.O_RDONLY):
        pass


def start(function, *args):
    """Runs in a child that ends quietly when its mount dies."""
    pid = os.fork()
    if pid == 0:
        try:
            function(*args)
        except OSError as error:
            os._exit(error.errno)
        finally:
            os._exit(0)
    return pid


def end_of(pid, seconds=mounted.PATIENCE_SECONDS):
    """Returns the child's exit status; a child that hangs is killed and counts as a failure."""
    def ended():
        done, status = os.waitpid(pid, os.WNOHANG)
        return (status,) if done else None
    try:
        return os.waitstatus_to_exitcode(mounted.wait_for(ended, f"child {pid} hangs", seconds)[0])
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


class Robust(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())

    def make_load(self, mount, log_path, turn):
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        before = log_path.read_bytes().count(b"\n")
        writers = [start(write_and_record, str(mount), log, number, turn) for number in range(WRITERS)]
        os.close(log)
        try:
            mounted.wait_for(lambda: log_path.read_bytes().count(b"\n") >= before + LOAD_LINES, "enough writes")
        except AssertionError:
            for writer in writers:
                os.kill(writer, signal.SIGKILL)
            raise
        return writers

    def check_acknowledged(self, mount, log_path):
        newest, grown = {}, {}
        for line in log_path.read_text().splitlines(keepends=True):
            path, key, size = line.rstrip("\n").split("\t")
            newest[path] = (key, int(size))
            grown[os.path.dirname(path)] = grown.get(os.path.dirname(path), "") + line
        for path, (key, size) in newest.items():
            self.check_file(path, key, size)
        for directory, lines in grown.items():
            found = pathlib.Path(directory, "grown").read_text()
            # There may be one more line: synced, but killed before it was recorded.
            self.assertTrue(found.startswith(lines), f"{directory}/grown: {len(found)} bytes of {len(lines)}")
        self.assertGreater(len(newest), 0)

    def check_file(self, path, key, size):
        """Every acknowledged file is present, or, if it was replaced, a newer version; complete in either case."""
        found = pathlib.Path(path).read_bytes()
        if found == content(key, size):
            return
        self.assertIn("replaced", path, f"{path}: {len(found)} bytes, acknowledged {size}")
        number, turn, count = key.split("/")
        later = [content(f"{number}/{turn}/{int(count) + 15}", size) for size in (0, 1, 4096, 10_000, 200_000)]
        self.assertIn(found, later, f"{path}: {len(found)} bytes that nobody wrote")

    def test_a_killed_mount_keeps_what_was_synced(self):
        log = self.world.root / "acknowledged"
        for turn in range(ROUNDS):
            server = self.world.serve()
            mount = self.world.point()
            if turn:
                self.check_acknowledged(mount, log)
            writers = self.make_load(mount, log, turn)
            server.kill()
            server.wait()
            self.assertLessEqual({end_of(writer) for writer in writers}, GONE)
            with self.assertRaises(OSError):
                os.listdir(mount)
        self.assertTrue(mounted.is_mounted(mount), "the dead mount is what the next mount has to clean up")
        self.world.mount()
        self.check_acknowledged(mount, log)
        self.world.umount(mount)
        self.assertFalse(mounted.is_mounted(mount))
        self.assertEqual(self.world.left_beside(), [])
        self.world.fsck()

    def test_the_file_is_right_after_a_kill_without_another_mount(self):
        """The command line reads the synced data, and fsck finds nothing, before another mount has cleaned up."""
        server = self.world.serve()
        mount = self.world.point()
        log = self.world.root / "acknowledged"
        writers = self.make_load(mount, log, 0)
        server.kill()
        server.wait()
        for writer in writers:
            end_of(writer)
        self.world.fsck()
        path, key, size = [line for line in log.read_text().splitlines() if "/new" in line][-1].split("\t")
        inside = "/" + os.path.relpath(path, mount)
        self.assertEqual(self.world.warren("fs", self.world.id, "cat", inside), content(key, int(size)))

    def test_a_client_in_a_call_gets_an_error(self):
        """A read that the server will never answer fails instead of hanging."""
        server = self.world.serve()
        mount = self.world.point()
        (mount / "file").write_bytes(content("read", 1 << 20))

        def read_on():
            while True:
                with open(mount / "file", "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    file.read()
                os.listdir(mount)
        readers = [start(read_on) for _ in range(2)]
        for _ in range(100):
            os.stat(mount / "file")
        server.kill()
        server.wait()
        self.assertLessEqual({end_of(reader) for reader in readers}, GONE)

    def test_sigterm_with_open_files_ends_well(self):
        for sent in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(sent.name):
                self.end_by(sent)

    def end_by(self, sent):
        server = self.world.serve()
        mount = self.world.point()
        data = content(sent.name, 300_000)
        held = os.open(mount / f"held-{sent.name}", os.O_RDWR | os.O_CREAT)
        os.write(held, data)
        unlinked = os.open(mount / "unlinked", os.O_RDWR | os.O_CREAT)
        os.unlink(mount / "unlinked")
        os.write(unlinked, b"going")
        directory = os.open(mount, os.O_RDONLY)
        server.send_signal(sent)
        self.assertEqual(server.wait(END_SECONDS), 0)
        mounted.wait_for(lambda: not mounted.is_mounted(mount), "the mount point to be free")
        self.assertEqual(self.world.left_beside(), [])
        self.world.fsck()
        self.check_dead(held, unlinked, directory)
        found = self.world.warren("fs", self.world.id, "cat", f"/held-{sent.name}")
        self.assertEqual(found, data)
        self.assertNotIn(b"unlinked", self.world.warren("fs", self.world.id, "ls", "/"))

    def check_dead(self, held, unlinked, directory):
        """Descriptors of an ended mount fail at once. Runs in a child, because otherwise a failure would hang."""
        calls = [lambda: os.write(held, b"x"), lambda: os.fsync(held), lambda: os.listdir(directory),
                 lambda: os.pread(unlinked, 10, 1 << 20),
                 lambda: os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=directory)]

        def try_all():
            failed = sum(fails(call) for call in calls)
            os._exit(100 + failed)
        self.assertEqual(end_of(start(try_all)), 100 + len(calls))
        for fd in (held, unlinked, directory):
            with contextlib.suppress(OSError):  # closing may fail because of the dead mount, too
                os.close(fd)

    def test_sigterm_under_load_loses_nothing_synced(self):
        server = self.world.serve()
        mount = self.world.point()
        log = self.world.root / "acknowledged"
        writers = self.make_load(mount, log, 0)
        server.terminate()
        self.assertEqual(server.wait(END_SECONDS), 0)
        for writer in writers:
            self.assertNotEqual(end_of(writer), 0)
        self.assertEqual(self.world.left_beside(), [])
        self.world.fsck()
        self.world.mount()
        self.check_acknowledged(mount, log)
        self.world.umount(mount)

    def test_umount_refuses_while_in_use_or_ends_cleanly(self):
        """Both are right, but a success must not lose data or leave files behind."""
        mount = self.world.mount()
        data = content("umount", 100_000)
        held = os.open(mount / "held", os.O_RDWR | os.O_CREAT)
        os.write(held, data)
        done = self.world.run("umount", mount)
        self.assertEqual(done.returncode == 0, not mounted.is_mounted(mount), done.stderr)
        os.close(held)
        if done.returncode != 0:
            self.world.umount(mount)
        self.assertEqual(self.world.left_beside(), [])
        self.world.fsck()
        self.assertEqual(self.world.warren("fs", self.world.id, "cat", "/held"), data)


def fails(call):
    try:
        call()
        return False
    except OSError:
        return True


class Busy(unittest.TestCase):
    def test_while_another_program_holds_the_write_lock_only_writers_wait(self):
        world = self.enterContext(mounted.World())
        mount = world.mount()
        self.make_files(mount)
        world.umount(mount)
        self.check_that_only_writers_wait(world)

    def test_over_a_base_only_writers_wait_too(self):
        world = self.enterContext(mounted.World())
        base = world.root / "base"
        base.mkdir()
        self.make_files(base)
        (base / "w" / "old").write_bytes(b"old")
        world.warren("init", "--force", world.id, "--base", base)
        mount = world.mount()
        for number in range(100):  # half of them are copied
            os.utime(mount / f"{number}", (1, 1))
        world.umount(mount)
        self.check_that_only_writers_wait(world, lambda: os.utime(mount / "w" / "old", (1, 1)),
                                          lambda: os.link(mount / "w" / "old", mount / "w" / "linked"))
        self.assertEqual((mount / "w" / "linked").stat().st_mtime, 1)

    def make_files(self, directory):
        (directory / "w").mkdir()  # while a name is being made in it, the kernel looks up none there
        for number in range(200):
            (directory / f"{number}").write_bytes(content(str(number), 10_000))

    def check_that_only_writers_wait(self, world, *more):
        mount = world.mount()
        with contextlib.closing(sqlite3.connect(world.file, timeout=60, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            written = threading.Event()

            def write():
                (mount / "w" / "new").write_bytes(b"x")
                written.set()
            threads = [threading.Thread(target=one) for one in (write, write, write, write, *more)]
            for thread in threads:
                thread.start()
            time.sleep(0.2)
            begun = time.monotonic()
            for number in range(200):
                self.assertEqual((mount / f"{number}").read_bytes(), content(str(number), 10_000))
            self.assertLess(time.monotonic() - begun, 5)
            self.assertFalse(written.is_set())
            other.execute("COMMIT")
            for thread in threads:
                thread.join()
        self.assertEqual((mount / "w" / "new").read_bytes(), b"x")


class LostFile(unittest.TestCase):
    """The agent's file is deleted, replaced or moved under a mount."""

    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.file = self.world.file
        self.rescued = self.file.with_name("a.rescued.db")

    def begin(self, mount):
        put_synced(mount / "before", content("before", 300_000))
        (mount / "unsynced").write_bytes(b"unsynced")

    def go_on(self, mount):
        """Everything works, but every fsync says that nothing of it is safe."""
        with open(mount / "after", "wb", buffering=0) as file:
            file.write(b"after")
            for _ in range(3):
                with self.assertRaises(OSError) as failed:
                    os.fsync(file.fileno())
                self.assertEqual(failed.exception.errno, errno.ESTALE)
        (mount / "late").write_bytes(b"late")
        self.assertEqual((mount / "before").read_bytes(), content("before", 300_000))

    def end(self, mount, said):
        done = self.world.run("umount", mount)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"was deleted, moved or replaced while it was in use", done.stderr)
        self.assertIn(said, done.stderr)
        self.assertFalse(mounted.is_mounted(mount))

    def check(self, file):
        for name, data in (("before", content("before", 300_000)), ("unsynced", b"unsynced"), ("after", b"after"),
                           ("late", b"late")):
            self.assertEqual(self.world.warren("fs", file, "cat", f"/{name}"), data, name)
        self.world.warren("fsck", file)

    def test_a_deleted_file_is_rescued(self):
        mount = self.world.mount()
        self.begin(mount)
        os.unlink(self.file)
        self.go_on(mount)
        self.end(mount, b"its whole content is now in '%s'" % os.fsencode(self.rescued))
        self.assertEqual(os.listdir(self.file.parent), ["a.rescued.db"])
        self.check(self.rescued)
        os.rename(self.rescued, self.file)
        self.world.mount()
        self.assertEqual((mount / "late").read_bytes(), b"late")
        self.world.umount(mount)

    def test_over_a_base_too(self):
        base = self.world.root / "base"
        base.mkdir()
        (base / "in-base").write_bytes(b"old")
        self.world.warren("init", "--force", self.world.id, "--base", base)
        mount = self.world.mount()
        self.begin(mount)
        (mount / "in-base").write_bytes(b"new")
        os.unlink(self.file)
        self.go_on(mount)
        self.end(mount, os.fsencode(self.rescued))
        self.check(self.rescued)
        self.assertEqual(self.world.warren("fs", self.rescued, "cat", "/in-base"), b"new")

    def test_a_file_that_replaces_it_stays_as_it_is(self):
        self.world.warren("init", "other")
        self.world.warren("fs", "other", "write", "/other", "from the other")
        mount = self.world.mount()
        self.begin(mount)
        os.replace(self.file.with_name("other.db"), self.file)
        # Its reader must not find the log of the file that was there before.
        log = self.file.with_name("a.db-wal")
        mounted.wait_for(lambda: not log.exists(), "the log of a file that is gone still has its name")
        self.assertEqual(self.world.warren("fs", "a", "cat", "/other"), b"from the other")
        self.go_on(mount)
        for number in range(30):  # more than the log holds before it is checkpointed
            (mount / f"large{number}").write_bytes(content("large", 4_000_000))
        self.world.warren("fs", "a", "write", "/more", "more of the other")
        self.end(mount, os.fsencode(self.rescued))
        self.assertEqual(self.world.warren("fs", "a", "ls", "/").split(), [b"more", b"other"])
        self.world.warren("fsck", "a")
        self.check(self.rescued)
        self.assertEqual(sorted(os.listdir(self.file.parent)), ["a.db", "a.rescued.db"])

    def test_a_file_that_was_moved_has_everything_at_the_end(self):
        mount = self.world.mount()
        self.begin(mount)
        moved = self.world.root / "moved.db"
        os.rename(self.file, moved)
        self.go_on(mount)
        self.end(mount, b"it is '%s' now, with everything in it" % os.fsencode(moved))
        self.assertEqual(os.listdir(self.file.parent), [])
        self.check(moved)

    def test_if_its_directory_is_gone_it_is_rescued_above(self):
        mount = self.world.mount()
        self.begin(mount)
        gone = self.file.parent  # the mount removes the log's name from it at the same time
        mounted.wait_for(lambda: shutil.rmtree(gone, ignore_errors=True) or not gone.exists(), "it is not empty")
        self.go_on(mount)
        self.end(mount, os.fsencode(self.world.home / "a.rescued.db"))
        self.check(self.world.home / "a.rescued.db")

    def test_a_name_that_is_taken_is_not_replaced(self):
        self.rescued.write_bytes(b"something else")
        mount = self.world.mount()
        self.begin(mount)
        os.unlink(self.file)
        self.go_on(mount)
        self.end(mount, b"a.rescued-2.db")
        self.assertEqual(self.rescued.read_bytes(), b"something else")
        self.check(self.file.with_name("a.rescued-2.db"))

    def test_exec_fails_and_rescues_it(self):
        script = f"echo mine > f && rm {self.file}"
        done = self.world.run("exec", "a", "sh", "-c", script)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(os.fsencode(self.rescued), done.stderr)
        self.assertEqual(self.world.warren("fs", self.rescued, "cat", "/f"), b"mine\n")

    def test_run_fails_and_rescues_it(self):
        home, base = self.world.root / "user", self.world.root / "base"
        home.mkdir()
        base.mkdir()
        environment = {**os.environ, "HOME": str(home)}
        script = "echo mine > f && echo ready && read line && echo late > g"
        run = subprocess.Popen([mounted.program(), "run", "--session", "s", "--", "sh", "-c", script], cwd=base,
                               env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(run.stdout.readline(), b"ready\n")
        file, = home.glob("**/s/*.db")
        os.unlink(file)
        _, said = run.communicate(b"go on\n", timeout=mounted.PATIENCE_SECONDS)
        self.assertNotEqual(run.returncode, 0, said)
        rescued, = home.glob("**/s/*.rescued.db")
        self.assertIn(b"its whole content is now in '%s'" % os.fsencode(rescued), said)
        for name, data in (("f", b"mine\n"), ("g", b"late\n")):
            self.assertEqual(self.world.warren("fs", rescued, "cat", f"/{name}"), data)


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
            # Both are accepted while there is room, which is gone when they are stored. They may be stored before it is
            # gone: then they are written again.
            for attempt in range(200):
                filler.truncate(kept)
                filler.seek(kept)
                sync(self.mount)
                os.pwrite(first.fileno(), content(f"one{attempt}", size), 0)
                os.pwrite(second.fileno(), content(f"two{attempt}", size), 0)
                while not fails(lambda: filler.write(bytes(65536))):
                    pass
                while not fails(lambda: filler.write(bytes(4096))):
                    pass
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
        for words, how in ((["exec", self.world.id], {}),
                           (["run", "--allow", self.disk, "--allow", self.world.root, "--"],
                            {"cwd": project, "env": os.environ | {"HOME": str(self.disk)}})):
            done = self.world.run(*words, "/usr/bin/python3", program, **how)
            self.assertTrue((self.disk / "filler").exists(), (words, done.stderr))
            os.unlink(self.disk / "filler")
            self.assertNotEqual(done.returncode, 0, (words, done.stderr))
            self.assertIn(b"'/mapped'", done.stderr, words)
            self.assertIn(b"lost", done.stderr, words)

    def check_reported_loss(self):
        """The memory map of /mapped is lost for good, and everybody who asks is told."""
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

    def move_on_full_disk(self):
        self.world.umount(self.mount)
        server = self.world.serve()
        put_synced(self.mount / "f", content("f", 3_000_000))
        server.send_signal(signal.SIGSTOP)  # before it copies the log to the file
        self.assertLess(self.world.file.stat().st_size, 3_000_000)
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


def main():
    global ROUNDS
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options, rest = parser.parse_known_args()
    ROUNDS = options.rounds
    mounted.need_fuse()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
