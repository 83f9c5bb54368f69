#!/usr/bin/env python3
"""Backends in a mounted namespace: a SQLite file, and a program in Python that is killed.

    WARREN=path/to/warren backends.py [-v] [Class.test_name]

Needs root.
"""
import concurrent.futures
import errno
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "backend.py"


class Backends(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def finish(self, mount):
        self.world.umount(mount)
        self.world.fsck()
        self.assertEqual(self.world.left_beside(), [])

    def vfs(self, *words):
        return self.world.warren("vfs", self.world.id, *words).decode()

    def test_files_and_directories_in_sqlite(self):
        spec = f"/mem/notes=sqlite:{self.folder}/notes.db"
        mount = self.world.mount("mnt", "--namespace", "--mount", spec)
        notes = mount / "mem/notes"
        (notes / "a/b").mkdir(parents=True)
        (notes / "a/b/f.txt").write_text("hello")
        with open(notes / "a/b/f.txt", "a") as file:
            file.write(" there")
        self.assertEqual((notes / "a/b/f.txt").read_text(), "hello there")
        content = os.urandom(3_000_000)
        (notes / "large").write_bytes(content)
        self.assertEqual((notes / "large").read_bytes(), content)
        subprocess.run(["sh", "-c", 'cp "$1/large" "$1/copy" && cmp "$1/large" "$1/copy" && mv "$1/copy" "$1/moved" && '
                        'mv "$1/a" "$1/z" && rm "$1/large"', "sh", notes], check=True)
        self.assertEqual(sorted(os.listdir(notes)), ["moved", "z"])
        self.assertEqual((notes / "z/b/f.txt").read_text(), "hello there")
        with self.assertRaises(OSError) as caught:
            os.symlink("x", notes / "link")
        self.assertEqual(caught.exception.errno, errno.EOPNOTSUPP)
        # Another door sees what was acknowledged.
        self.assertEqual(self.vfs("read", "/mem/notes/z/b/f.txt", "--mount", spec), "hello there")
        self.finish(mount)
        with sqlite3.connect(self.folder / "notes.db") as db:
            keys = [bytes(key).decode() for (key,) in db.execute("SELECT key FROM wr_blobs ORDER BY key")]
        self.assertIn("z/b/f.txt", keys)

    def test_episodic_memory_on_a_backend_only_grows(self):
        mount = self.world.mount("mnt", "--namespace", "--mount", f"/mem/episodic=sqlite:{self.folder}/e.db")
        log = mount / "mem/episodic/log"
        for line in ("one\n", "two\n"):
            with open(log, "a") as file:
                file.write(line)
        for attempt in (lambda: open(log, "w"), lambda: os.truncate(log, 1), lambda: os.unlink(log),
                        lambda: os.rename(log, str(log) + "2")):
            with self.assertRaises(OSError) as caught:
                attempt()
            self.assertEqual(caught.exception.errno, errno.EACCES)
        self.assertEqual(log.read_text(), "one\ntwo\n")
        self.finish(mount)

    def test_two_mounts_append_to_one_log(self):
        specs = ["--namespace", "--mount", f"/mem/episodic=sqlite:{self.folder}/e.db"]
        first = self.world.mount("one", *specs)
        second = self.world.mount("two", *specs)
        failures = []

        def append(mount, name):
            try:
                for i in range(20):
                    with open(mount / "mem/episodic/log", "a") as file:
                        file.write(f"{name}{i}\n")
            except OSError as error:
                failures.append(error)

        open(first / "mem/episodic/log", "a").close()
        threads = [threading.Thread(target=append, args=pair) for pair in ((first, "a"), (second, "b"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        lines = self.vfs("read", "/mem/episodic/log", "--mount", specs[2]).splitlines()
        self.assertEqual(sorted(lines), sorted([f"{name}{i}" for name in "ab" for i in range(20)]))
        self.assertEqual([line for line in lines if line[0] == "a"], [f"a{i}" for i in range(20)])
        self.world.umount(second)
        self.finish(first)

    def test_many_commands_begin_one_log(self):
        spec = f"/mem/episodic=sqlite:{self.folder}/e.db"
        for attempt in range(5):
            path = f"/mem/episodic/log{attempt}"
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda i: self.vfs("append", "--raw", path, f"{i}\n", "--mount", spec), range(8)))
            lines = self.vfs("read", path, "--mount", spec).splitlines()
            self.assertEqual(sorted(lines), [str(i) for i in range(8)])

    def test_the_slower_of_two_writers_learns_it_from_close(self):
        specs = ["--namespace", "--mount", f"/mem/notes=sqlite:{self.folder}/notes.db"]
        first, second = self.world.mount("one", *specs), self.world.mount("two", *specs)
        (first / "mem/notes/f").write_text("old")
        for end in (os.close, os.fsync):
            slow = os.open(first / "mem/notes/f", os.O_RDWR)
            os.pwrite(slow, b"slow", 0)
            (second / "mem/notes/f").write_text("fast")
            with self.assertRaises(OSError) as caught:
                end(slow)
            self.assertEqual(caught.exception.errno, errno.ESTALE)
            if end == os.fsync:
                os.close(slow)
            self.assertEqual(self.vfs("read", "/mem/notes/f", "--mount", specs[2]), "fast")
            # Opened again, it can be changed.
            with open(first / "mem/notes/f", "r+") as file:
                self.assertEqual(file.read(), "fast")
                file.write(" and slow")
            self.assertEqual(self.vfs("read", "/mem/notes/f", "--mount", specs[2]), "fast and slow")
        self.world.umount(second)
        self.finish(first)

    def test_a_program_ends_with_its_killed_host(self):
        script = self.folder / "asleep.sh"
        script.write_text("""echo '{"warren": 1, "abilities": {}}'; echo $$ > "$1"; exec sleep 1000\n""")
        said = self.folder / "pid"
        server = self.world.serve("mnt", "--namespace", "--mount", f"/mem/x=exec:sh {script} {said}")
        mounted.wait_for(lambda: said.exists() and said.read_text().strip(), "the program to start", 30)
        program = pathlib.Path("/proc") / said.read_text().strip()
        self.assertTrue(program.exists())
        server.kill()
        server.wait()
        mounted.wait_for(lambda: not program.exists() or "\nState:\tZ" in (program / "status").read_text(),
                         "the program to end", 30)
        mounted.detach(self.world.point("mnt"))

    def test_a_mount_in_the_background_keeps_no_output_of_its_caller_open(self):
        spec = f"/mem/custom=exec:{sys.executable} {EXAMPLE} {self.folder}/store"
        mount = self.world.point("mnt")
        done = self.world.run("mount", "--namespace", "--mount", spec, self.world.id, mount)  # until its pipes are closed
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        (mount / "mem/custom/f").write_text("x")
        self.finish(mount)

    def test_a_change_that_waits_for_a_backend_counts_once(self):
        spec = f"/mem/custom=exec:{sys.executable} {EXAMPLE} {self.folder}/store"
        mount = self.world.mount("mnt", "--namespace", "--mount", spec)
        custom = mount / "mem/custom"
        custom.joinpath("f").write_text("x")
        policy = self.folder / "policy.json"
        policy.write_text('{"version": 1, "limits": {"changes_per_second": 8}}')
        self.world.warren("policy", self.world.id, "set", policy)
        # Each is two changes, the new file and its removal, and each has to ask the program.
        for i in range(4):
            os.mkdir(custom / f"d{i}")
            os.rmdir(custom / f"d{i}")
        with self.assertRaises(OSError) as caught:
            for i in range(500):
                os.mkdir(custom / f"e{i}")
        self.assertEqual(caught.exception.errno, errno.EBUSY)
        self.world.warren("policy", self.world.id, "set", "--preset", "open")
        self.finish(mount)

    def backend_pids(self):
        pids = []
        for folder in pathlib.Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(self.folder / "store").encode() in words and b"warren" not in words[0]:
                pids.append(int(folder.name))
        return pids

    def test_a_program_that_is_killed_is_started_again(self):
        spec = f"/mem/custom=exec:{sys.executable} {EXAMPLE} {self.folder}/store"
        mount = self.world.mount("mnt", "--namespace", "--mount", spec)
        custom = mount / "mem/custom"
        (custom / "kept").write_text("acknowledged")
        for round_number in range(3):
            (pid,) = self.backend_pids()
            os.kill(pid, signal.SIGKILL)
            self.assertEqual((custom / "kept").read_text(), "acknowledged")
            path = custom / f"new{round_number}"
            path.write_text("x" * 100_000)
            self.assertEqual(path.stat().st_size, 100_000)
        self.assertEqual(self.vfs("ls", "/mem/custom", "--mount", spec), "kept\nnew0\nnew1\nnew2\n")
        self.finish(mount)
        mounted.wait_for(lambda: self.backend_pids() == [], "the program to end with the mount")

    def test_a_backend_that_refuses_is_an_error_of_close(self):
        program = self.folder / "full.py"
        program.write_text(EXAMPLE.read_text().replace(
            'content = base64.b64decode(request["content"], validate=True)\n',
            'content = base64.b64decode(request["content"], validate=True)\n'
            '        if content:\n            raise Refused("no_space", "full")\n'))
        spec = f"/mem/custom=exec:{sys.executable} {program} {self.folder}/store"
        mount = self.world.mount("mnt", "--namespace", "--mount", spec)
        descriptor = os.open(mount / "mem/custom/f", os.O_CREAT | os.O_WRONLY)
        os.write(descriptor, b"data")
        for function in (os.fsync, os.close):
            with self.assertRaises(OSError) as caught:
                function(descriptor)
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
        done = self.world.run("umount", mount)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"cannot be stored", done.stderr)
        self.world.run("umount", "--force", mount)
        self.assertFalse(mounted.is_mounted(mount))


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
