#!/usr/bin/env python3
"""The mount when things go wrong: killed, ended while in use, its file gone.

    WARREN=path/to/warren robust.py [--rounds 3] [-v] [Robust.test_name]
"""
import argparse
import contextlib
import errno
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
