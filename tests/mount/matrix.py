#!/usr/bin/env python3
"""Every class of path x operation x space, through the command `vfs` and through a mount of the namespace.

    WARREN=path/to/warren matrix.py [-v] [Class.test_name]

Tests are named after the sections of RFC-002; src/api/vfs_matrix_test.cc is the same table through the library. Needs
root.
"""
import ctypes
import errno
import mmap
import os
import pathlib
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted

LIBC = ctypes.CDLL(None, use_errno=True)

# 3.3, with append-only episodic memory (2.1). What each space may do with files in these directories.
EVERYTHING = {"read", "list", "overwrite", "append", "create", "delete"}
GROWS = {"read", "list", "append", "create"}
LOOKS = {"read", "list"}
WRITES = {"overwrite", "append", "create"}
TABLE = {
    "/mem/working": (EVERYTHING, EVERYTHING),
    "/mem/episodic": (GROWS, GROWS),
    "/mem/semantic": (EVERYTHING, EVERYTHING),
    "/state": (EVERYTHING, EVERYTHING),
    "/policy": (LOOKS, EVERYTHING),
    "/ipc/inbox": (LOOKS | {"delete"}, WRITES),
    "/ipc/outbox": (WRITES, LOOKS | {"delete"}),
    "/ipc": (LOOKS, LOOKS),
    "/audit": (LOOKS, GROWS),
    "/notes": (EVERYTHING, EVERYTHING),
    "/mem/workingX": (EVERYTHING, EVERYTHING),
    "/mem/episodicX": (EVERYTHING, EVERYTHING),
    "/policyX": (EVERYTHING, EVERYTHING),
}


class Matrix(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.runtime = self.world.root / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.environment = os.environ | {"XDG_RUNTIME_DIR": str(self.runtime)}

    def plant(self, path, text="old"):
        """Through the door that has no rules."""
        self.world.warren("fs", "a", "write", path, text)

    def content(self, path):
        done = self.world.run("fs", "a", "cat", path)
        return done.stdout.decode() if done.returncode == 0 else None

    # The command.

    def vfs(self, *args, input=None):
        return self.world.run("vfs", "a", *args, env=self.environment, input=input)

    def may(self, done):
        if done.returncode == 0:
            return True
        self.assertIn(b"is not allowed to", done.stderr, done)
        return False

    def of_command(self, directory, space):
        as_agent = ["--as-agent"] if space == 0 else []
        is_working = directory == "/mem/working"
        allowed = set()
        for operation in sorted(EVERYTHING):
            path = f"{directory}/{operation}-{space}"
            if operation != "create":
                if is_working:
                    self.assertEqual(self.vfs("write", path, "old").returncode, 0)
                else:
                    self.plant(path)
            command = {"read": ["read", path], "list": ["ls", directory], "overwrite": ["write", path, "new"],
                       "append": ["append", path, "+"], "create": ["write", path, "new"],
                       "delete": ["rm", path]}[operation]
            if not self.may(self.vfs(*command, *as_agent)):
                continue
            after = self.vfs("read", path).stdout.decode() if is_working else self.content(path)
            expected = {"overwrite": "new", "append": "old+", "create": "new", "delete": None if not is_working else ""}
            if directory == "/mem/episodic" and operation == "overwrite":
                self.assertEqual(after, "oldnew")  # there `write` appends
                continue
            if operation in expected:
                self.assertEqual(after, expected[operation], path)
            allowed.add(operation)
        return allowed

    def test_s3_3_permissions_of_the_command(self):
        for directory, rights in TABLE.items():
            for space in (0, 1):
                with self.subTest(path=directory, space=("user", "kernel")[space]):
                    self.assertEqual(self.of_command(directory, space), rights[space])

    # The mount, which acts for the agent.

    def attempt(self, function, *args):
        try:
            function(*args)
            return True
        except OSError as error:
            self.assertEqual(error.errno, errno.EACCES, args)
            return False

    def of_mount(self, mount, directory):
        def put(path, flags, data):
            descriptor = os.open(path, os.O_WRONLY | flags, 0o644)
            try:
                os.write(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

        here = mount / directory[1:]
        allowed = set()
        for operation in sorted(EVERYTHING):
            path = here / operation
            call = {"read": (path.read_text,), "list": (os.listdir, here), "overwrite": (put, path, 0, b"n"),
                    "append": (put, path, os.O_APPEND, b"+"),
                    "create": (put, path, os.O_CREAT | os.O_EXCL, b"new"), "delete": (os.unlink, path)}[operation]
            if self.attempt(*call):
                allowed.add(operation)
        return allowed

    def test_s3_3_permissions_of_a_mount(self):
        for directory in TABLE:
            for operation in EVERYTHING - {"create"}:
                if directory != "/mem/working":
                    self.plant(f"{directory}/{operation}")
        mount = self.world.mount("mnt", "--namespace")
        for operation in EVERYTHING - {"create"}:
            (mount / "mem/working" / operation).write_text("old")
        for directory, rights in TABLE.items():
            with self.subTest(path=directory):
                self.assertEqual(self.of_mount(mount, directory), rights[0])
        self.world.umount(mount)
        self.world.fsck()
        self.assertEqual(self.content("/mem/episodic/append"), "old+")
        self.assertEqual(self.content("/mem/episodic/overwrite"), "old")
        self.assertEqual(self.content("/state/overwrite"), "nld")

    def test_s2_2_nothing_rewrites_episodic_memory(self):
        self.plant("/mem/episodic/log", "one\ntwo\n")
        self.plant("/mem/semantic/other", "x" * 100)
        mount = self.world.mount("mnt", "--namespace")
        log = mount / "mem/episodic/log"
        other = mount / "mem/semantic/other"
        descriptor = os.open(log, os.O_RDWR)
        source = os.open(other, os.O_RDONLY)

        def fallocate(mode):
            if LIBC.fallocate(descriptor, mode, ctypes.c_long(0), ctypes.c_long(4096)) != 0:
                raise OSError(ctypes.get_errno(), "fallocate")

        def exchange():
            if LIBC.renameat2(-100, os.fsencode(other), -100, os.fsencode(log), 2) != 0:
                raise OSError(ctypes.get_errno(), "renameat2")

        def through_a_map():
            with mmap.mmap(descriptor, 8) as mapped:
                mapped[0:1] = b"X"
                mapped.flush()
                os.fsync(descriptor)

        calls = {
            "truncate": lambda: os.truncate(log, 1),
            "ftruncate": lambda: os.ftruncate(descriptor, 0),
            "O_TRUNC": lambda: os.close(os.open(log, os.O_WRONLY | os.O_TRUNC)),
            "pwrite at the beginning": lambda: os.pwrite(descriptor, b"X", 0),
            "pwrite beyond the end": lambda: os.pwrite(descriptor, b"X", 100),
            "unlink": lambda: os.unlink(log),
            "rename away": lambda: os.rename(log, mount / "mem/semantic/log"),
            "rename within": lambda: os.rename(log, mount / "mem/episodic/log2"),
            "rename over": lambda: os.rename(other, log),
            "exchange": exchange,
            "link": lambda: os.link(log, mount / "mem/semantic/log"),
            "grow": lambda: fallocate(0),
            "punch a hole": lambda: fallocate(3),
            "zero": lambda: fallocate(16),
            "copy_file_range": lambda: os.copy_file_range(source, descriptor, 8, 0, 0),
            "memory map": through_a_map,
            "chmod": lambda: os.chmod(log, 0o600),
            "utime": lambda: os.utime(log, (1, 1)),
            "setxattr": lambda: os.setxattr(log, "user.a", b"x"),
            "expiry": lambda: os.setxattr(log, "user.warren.expires", b"1"),
            "rmdir": lambda: os.rmdir(mount / "mem/episodic"),
            "rename the directory": lambda: os.rename(mount / "mem/episodic", mount / "mem/e"),
        }
        for name, call in calls.items():
            with self.subTest(call=name):
                with self.assertRaises(OSError):
                    call()
                self.assertEqual(self.content("/mem/episodic/log"), "one\ntwo\n")
        os.pwrite(descriptor, b"three\n", 8)  # exactly at the end
        os.close(descriptor)
        os.close(source)
        self.world.run("umount", mount)  # says once that the mapped page was not stored
        if mounted.is_mounted(mount):
            self.world.umount(mount)
        self.world.fsck()
        self.assertEqual(self.content("/mem/episodic/log"), "one\ntwo\nthree\n")

    # Paths that try to be others.

    def test_s2_3_attacks_on_paths_of_the_command(self):
        self.plant("/policy/p", "secret")
        for path in ("/policy/x", "//policy//x", "/./policy/./x", "/mem/../policy/x", "/mem/working/../../policy/x",
                     "/../../../policy/x", "/agent/a/policy/x", "/agent/a/../a/policy/x", "policy/x", "/policy/x/",
                     "/mem/working/none/../../../policy/x"):
            with self.subTest(path=path):
                done = self.vfs("write", "--as-agent", path, "x")
                self.assertEqual(done.returncode, 1, done)
                self.assertIsNone(self.content("/policy/x"))
        for path in ("/agent/b/mem/x", "/agent/aX/mem/x", "/agent/A/mem/x", "/agent", "/mem/../agent/b/x",
                     "/agent/a/../b/x"):
            with self.subTest(path=path):
                done = self.vfs("read", "--as-agent", path)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr.decode(), "another agent|own namespace")
        # These are names like others: nothing is decoded, folded or normalised.
        for name in ("%2e%2e", "..%2fpolicy", "..．", "．．", "policy／x", "‥", "Policy", "policy ", "...", "~", "\\..",
                     "-x", "\x1b[2J"):
            with self.subTest(name=name):
                done = self.vfs("write", "--as-agent", "--", f"/mem/working/{name}", name)
                self.assertEqual(done.returncode, 0, done)
                self.assertEqual(self.vfs("read", "--", f"/mem/working/{name}").stdout.decode(), name)
        self.assertEqual(self.world.warren("fs", "a", "ls", "/policy").decode(), "p\n")
        for path in ("/mem/working/" + "n" * 256, "/" + "d/" * 3000 + "f"):
            done = self.vfs("write", "--as-agent", path, "x")
            self.assertEqual(done.returncode, 1)
            self.assertLess(len(done.stderr), 20_000)

    def test_s2_3_symbolic_links_in_and_out_of_mounts(self):
        self.plant("/mem/episodic/log", "kept")
        self.plant("/policy/p", "kept")
        mount = self.world.mount("mnt", "--namespace")
        for place in ("state", "mem/working"):
            up = "../" * (place.count("/") + 1)
            for target, file in (("mem/episodic", "log"), ("policy", "p")):
                link = mount / place / file
                os.symlink(f"{up}{target}/{file}", link)
                self.assertFalse(self.attempt(link.write_text, "changed"), link)
                self.assertEqual(link.read_text(), "kept")
                os.symlink(f"{up}{target}", mount / place / f"dir-{file}")
                self.assertFalse(self.attempt(os.unlink, mount / place / f"dir-{file}" / file))
            os.symlink(f"{up}mem/working/made", mount / place / "into")
            (mount / place / "into").write_text("in working memory")
            self.assertEqual((mount / "mem/working/made").read_text(), "in working memory")
            os.unlink(mount / "mem/working/made")
        # Links are not made where nothing may be made.
        self.assertFalse(self.attempt(os.symlink, "x", mount / "policy/link"))
        self.assertFalse(self.attempt(os.symlink, "x", mount / "audit/link"))
        self.world.umount(mount)
        for link in ("/state/log", "/state/dir-log/log", "/state/p", "/state/dir-p/p"):
            done = self.vfs("write", "--raw", "--as-agent", link, "changed")
            self.assertEqual(done.returncode, 1, done)
        self.assertEqual(self.content("/mem/episodic/log"), "kept")
        self.assertEqual(self.content("/policy/p"), "kept")

    # Concurrency.

    def test_concurrent_writers_lose_nothing(self):
        mount = self.world.mount("mnt", "--namespace")
        log = mount / "mem/episodic/log.jsonl"
        count = 10

        def by_mount(writer):
            for i in range(count):
                with open(log, "a") as file:
                    file.write(f'"m{writer}-{i}"\n')

        def by_command(writer):
            for i in range(count):
                done = self.vfs("append", "--as-agent", "/mem/episodic/log.jsonl", f'"c{writer}-{i}"')
                self.assertEqual(done.returncode, 0, done)

        threads = [threading.Thread(target=target, args=(writer,))
                   for writer in range(2) for target in (by_mount, by_command)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.world.umount(mount)
        lines = self.content("/mem/episodic/log.jsonl").splitlines()
        expected = {f'"{door}{writer}-{i}"' for door in "mc" for writer in range(2) for i in range(count)}
        self.assertEqual(len(lines), len(expected))
        self.assertEqual(set(lines), expected)


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
