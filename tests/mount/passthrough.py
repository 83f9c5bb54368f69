#!/usr/bin/env python3
"""A mount with --passthrough: the kernel reads large files of the base itself, and otherwise nothing changes.

    WARREN=path/to/warren passthrough.py [-v] [Class.test_name]

Needs root, and Linux 6.9 or later.
"""
import errno
import hashlib
import mmap
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "run"))
import mounted
import sandboxed

LARGE_BYTES = 8 << 20
HAS_IT = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) >= (6, 9)


class Passthrough(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.base = self.world.root / "base"
        self.base.mkdir()
        self.content = os.urandom(LARGE_BYTES)
        (self.base / "large").write_bytes(self.content)
        (self.base / "small").write_text("small\n")
        self.world.warren("init", "--force", self.world.id, "--base", self.base)
        self.mount = self.world.mount("mnt", "--passthrough")
        self.large = self.mount / "large"

    def tearDown(self):
        self.assertEqual((self.base / "large").read_bytes(), self.content, "the base was written to")

    def diff(self):
        return self.world.warren("diff", self.world.id).decode().splitlines()

    def remount(self):
        self.world.umount(self.mount)
        self.world.fsck()
        self.assertEqual(self.world.left_beside(), [])
        self.world.mount("mnt", "--passthrough")

    def is_refused(self, call):
        with self.assertRaises(OSError) as caught:
            call()
        self.assertEqual(caught.exception.errno, errno.EBUSY)

    def test_the_content_is_right_and_nothing_is_changed_by_reading(self):
        for _ in range(2):
            self.assertEqual(self.large.read_bytes(), self.content)
            self.assertEqual((self.mount / "small").read_text(), "small\n")
            with open(self.large, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                self.assertEqual(mapped[:], self.content)
                file.seek(5_000_001)
                self.assertEqual(file.read(3), self.content[5_000_001:5_000_004])
            self.assertEqual(self.diff(), [])
            self.remount()

    def test_an_open_file_is_read_without_the_server(self):
        [server] = self.world.daemons()
        with open(self.large, "rb") as file:
            os.kill(server, signal.SIGSTOP)
            try:
                read = []
                reader = threading.Thread(target=lambda: read.append(file.read()), daemon=True)
                reader.start()
                reader.join(mounted.PATIENCE_SECONDS)
                self.assertFalse(reader.is_alive(), "the kernel asked the server for content")
            finally:
                os.kill(server, signal.SIGCONT)
        self.assertEqual(read, [self.content])

    def test_a_program_runs_from_there(self):
        shutil.copy(os.path.realpath(sandboxed.PYTHON), self.base / "python")
        self.assertGreater(os.stat(self.base / "python").st_size, 1 << 20)
        done = subprocess.run([self.mount / "python", "-c", "print(6 * 7)"], capture_output=True, text=True)
        self.assertEqual(done.stdout, "42\n", done.stderr)

    def test_a_write_is_seen_by_whoever_opens_the_file_afterwards(self):
        with open(self.large, "r+b") as file:
            file.seek(1_000_000)
            file.write(b"changed")
            # While it is open for writing, it is read without passthrough.
            file.flush()
            with open(self.large, "rb") as other:
                other.seek(1_000_000)
                self.assertEqual(other.read(7), b"changed")
        wanted = self.content[:1_000_000] + b"changed" + self.content[1_000_007:]
        self.assertEqual(self.large.read_bytes(), wanted)
        self.assertEqual(self.diff(), ["M f /large"])
        self.remount()
        self.assertEqual(self.large.read_bytes(), wanted)
        self.world.warren("discard", "--yes", self.world.id)
        self.remount()
        self.assertEqual(self.large.read_bytes(), self.content)

    def test_while_somebody_reads_it_a_file_cannot_be_changed(self):
        with open(self.large, "rb") as reader, open(self.large, "rb") as second:
            for mode in ("r+b", "ab", "wb"):
                self.is_refused(lambda mode=mode: open(self.large, mode))
            self.is_refused(lambda: os.truncate(self.large, 5))
            os.chmod(self.large, 0o600)  # the mode is not content
            self.assertEqual(reader.read(), self.content)
            self.assertEqual(second.read(), self.content)
            with open(self.large, "rb") as third:
                self.assertEqual(third.read(), self.content)
        with open(self.large, "ab") as file:
            file.write(b"more")
        self.assertEqual(self.large.read_bytes(), self.content + b"more")
        os.truncate(self.large, 5)
        self.assertEqual(self.large.read_bytes(), self.content[:5])

    def test_a_writer_waits_a_moment_for_readers(self):
        for _ in range(50):  # on a busy machine the wait may be over too early
            reader = open(self.large, "rb")
            outcome = []

            def write():
                try:
                    with open(self.large, "ab") as file:
                        file.write(b"more")
                        outcome.append("written")
                except OSError as error:
                    outcome.append(error.errno)

            writer = threading.Thread(target=write)
            writer.start()
            reader.close()
            writer.join()
            if outcome == ["written"]:
                break
            self.assertEqual(outcome, [errno.EBUSY])
        self.assertEqual(outcome, ["written"])
        self.assertEqual(self.large.read_bytes(), self.content + b"more")

    def test_it_can_be_replaced_renamed_and_deleted_while_somebody_reads_it(self):
        with open(self.large, "rb") as reader:
            (self.mount / "new").write_bytes(b"new")
            os.rename(self.mount / "new", self.large)
            self.assertEqual(self.large.read_bytes(), b"new")
            self.assertEqual(reader.read(), self.content)
        os.unlink(self.large)
        self.assertFalse(self.large.exists())

    def test_what_another_process_writes_is_read_by_whoever_opens_the_file_afterwards(self):
        with open(self.large, "rb") as reader:
            self.assertEqual(reader.read(10), self.content[:10])
            self.world.warren("fs", self.world.id, "write", "/large", input=b"by another")

            def sees():
                with open(self.large, "rb") as file:
                    return os.read(file.fileno(), 100) == b"by another"

            mounted.wait_for(sees, "the change by another process")
        self.assertEqual(self.large.read_bytes(), b"by another")

    def test_files_are_made_written_and_read_as_without_it(self):
        for size in (0, 10, 3 << 20):
            content = os.urandom(size)
            (self.mount / "f").write_bytes(content)
            self.assertEqual((self.mount / "f").read_bytes(), content)
        with open(self.mount / "g", "x+b") as file:
            os.unlink(self.mount / "g")
            file.write(b"nameless")
            file.seek(0)
            self.assertEqual(file.read(), b"nameless")


class Run(unittest.TestCase):
    def read_large(self, uid):
        with sandboxed.World(uid) as world:
            content = os.urandom(LARGE_BYTES)
            (world.base / "large").write_bytes(content)
            script = "sha256sum large; printf more >> large; sha256sum large; cat dir/inner"
            done = world.run("--session", "s", "--passthrough", "--", "sh", "-c", script)
            self.assertEqual(done.returncode, 0, done.stderr)
            wanted = [hashlib.sha256(c).hexdigest() + "  large" for c in (content, content + b"more")]
            self.assertEqual(done.stdout.splitlines(), [*wanted, "inner"])
            self.assertEqual((world.base / "large").read_bytes(), content)
            return done.stderr

    def test_root_has_it(self):
        self.assertNotIn("--passthrough", self.read_large(0))

    def test_an_ordinary_user_gets_one_warning_and_reads_without_it(self):
        said = self.read_large(sandboxed.NOBODY)
        self.assertEqual(said.count("--passthrough:"), 1, said)
        self.assertIn("continuing without it", said)


if __name__ == "__main__":
    mounted.need_fuse()
    if not HAS_IT:
        sys.exit("this test needs Linux 6.9 or later")
    unittest.main()
