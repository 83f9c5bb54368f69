#!/usr/bin/env python3
"""Paths of the namespace on real services, through the program: commands, and a mount that outlives its server.

    WARREN=path/to/warren BACKEND_SERVER=path/to/backend_server mounted_services.py [-v] Redis|Postgres|S3
"""
import errno
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mount"))
import mounted  # noqa: E402


class Services:
    """What every service owes. A class that inherits it says how its own client reads a value."""
    kind = ""
    refuses = ""  # part of the message for a wrong password

    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen([os.environ["BACKEND_SERVER"], cls.kind], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        line = cls.server.stdout.readline()
        if not line:
            raise AssertionError(f"{cls.kind} did not start")
        cls.facts = json.loads(line)

    @classmethod
    def tearDownClass(cls):
        cls.server.stdin.close()
        cls.server.wait()
        cls.server.stdout.close()

    def tell(self, word):
        self.server.stdin.write(word + "\n")
        self.server.stdin.flush()
        self.assertEqual(self.server.stdout.readline(), "done\n")

    def setUp(self):
        self.enterContext(unittest.mock.patch.dict(os.environ, {"STORE_SECRET": self.facts["secret"], "no_proxy": "127.0.0.1"}))
        self.world = self.enterContext(mounted.World())
        os.environ |= {"HOME": str(self.world.home), "XDG_RUNTIME_DIR": str(self.world.home)}
        os.environ.pop("XDG_CONFIG_HOME", None)
        os.chmod(self.world.home, 0o700)
        self.prefix = self._testMethodName.replace("_", "-")[:40]
        self.mount = "/mem/notes=" + self.facts["address"].replace("{}", self.prefix)

    def run_vfs(self, *words):
        return self.world.run("vfs", self.world.id, *words, "--mount", self.mount, text=True)

    def vfs(self, *words):
        done = self.run_vfs(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def assert_refused(self, done, says=""):
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(says, done.stderr)
        self.assertNotIn(self.facts["secret"], done.stderr)

    def test_the_audit_trail_of_a_mount_is_anchored_there(self):
        """At intervals by the mount, and at its end; an older copy of the agent file is found by it."""
        address = self.facts["address"].replace("{}", self.prefix)
        self.world.warren("audit", self.world.id, "on")
        older = self.world.file.read_bytes()
        mount = self.world.mount("mnt", "--anchor", address, "--anchor-every", "1s")
        (mount / "f").write_text("x")

        def anchored():
            lines = self.stored(f"{self.world.id}.audit.jsonl").splitlines()
            return [json.loads(line)["seq"] for line in lines]

        mounted.wait_for(lambda: len(anchored()) >= 2, "the anchor of what was written")
        os.unlink(mount / "f")
        self.world.umount(mount)
        last = self.world.warren("sql", self.world.id, "SELECT max(seq) FROM wr_audit").split()[-1]
        self.assertEqual(anchored()[-1], int(last))
        self.world.warren("audit", self.world.id, "verify", "--anchor", address)
        self.world.file.write_bytes(older)
        done = self.world.run("audit", self.world.id, "verify", "--anchor", address, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("it is missing, with all rows up to", done.stdout)
        self.assertNotIn(self.facts["secret"], done.stdout + done.stderr)

    def run_checkpoint(self, *words):
        return self.world.run("checkpoint", self.world.id, *words, "--mount", self.mount, text=True)

    def checkpoint(self, *words):
        done = self.run_checkpoint(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_checkpoints_cover_what_is_mounted(self):
        """Values are what they were after a restore; while the server is dead nothing is taken and nothing restored."""
        agent = self.world.id
        for n in range(10):
            self.vfs("write", f"/mem/notes/dir/{n}", f"first {n}")
        self.vfs("write", "/mem/working/plan", "first")
        self.world.warren("fs", agent, "write", "/own", "first")
        self.checkpoint("take", "before")
        shown = self.world.warren("checkpoint", agent, "show", "before").decode()
        self.assertIn("covers  /mem/notes", shown)
        self.assertIn("covers  /mem/working", shown)
        self.vfs("write", "/mem/notes/dir/7", "second")
        self.vfs("write", "/mem/notes/new", "second")
        self.vfs("rm", "/mem/notes/dir/3")
        self.vfs("write", "/mem/working/plan", "second")
        self.world.warren("fs", agent, "write", "/own", "second")
        changes = ["M f /own", "D m /mem/notes/dir/3", "M m /mem/notes/dir/7", "A m /mem/notes/new", "M m /mem/working/plan"]
        self.assertEqual(self.checkpoint("diff", "before").splitlines(), changes)
        self.tell("kill")
        try:
            self.assert_refused(self.run_checkpoint("take", "never"), "/mem/notes")
            self.assert_refused(self.run_checkpoint("restore", "before"), "/mem/notes")
            self.assertEqual(self.world.warren("fs", agent, "cat", "/own"), b"second")
            self.world.warren("checkpoint", agent, "take", "alone", "--without-mounts")
        finally:
            self.tell("start")
        names = [one["name"] for one in json.loads(self.world.warren("checkpoint", agent, "list", "--json"))]
        self.assertEqual(names, ["before", "alone"])
        undo = json.loads(self.checkpoint("restore", "before", "--json"))["before"]["id"]
        self.assertEqual(self.checkpoint("diff", "before"), "")
        self.assertEqual(self.stored("dir/7"), "first 7")
        self.assertEqual(self.stored("dir/3"), "first 3")
        self.assertNotEqual(self.run_vfs("exists", "/mem/notes/new").returncode, 0)
        self.assertEqual(self.vfs("read", "/mem/working/plan"), "first")
        self.checkpoint("restore", str(undo), "/mem/notes/new")
        self.assertEqual(self.stored("new"), "second")
        self.assertEqual(self.stored("dir/7"), "first 7")
        self.checkpoint("restore", str(undo))
        self.assertEqual(self.stored("dir/7"), "second")
        self.assertEqual(self.vfs("read", "/mem/working/plan"), "second")
        self.world.fsck()

    def test_checkpoints_are_pushed_and_pulled(self):
        """All of an agent's checkpoints; the second time only what has changed, and nothing half when the server dies."""
        address = self.facts["address"].replace("{}", self.prefix)
        agent = self.world.id
        warren = self.world.warren
        (self.world.root / "large").write_bytes(os.urandom(3_000_000))
        warren("fs", agent, "put", str(self.world.root / "large"), "/large")
        warren("fs", agent, "write", "/plan", "first")
        warren("checkpoint", agent, "take", "before")
        warren("fs", agent, "write", "/plan", "second")
        whole = json.loads(warren("checkpoint", agent, "push", address, "--json"))
        self.assertEqual([one["name"] for one in whole["checkpoints"]], ["before"])
        warren("fs", agent, "write", "/plan", "third")
        little = json.loads(warren("checkpoint", agent, "push", address, "--json"))
        self.assertGreater(little["sent_blocks"], 0)
        self.assertLess(little["sent_bytes"], whole["sent_bytes"] / 2)
        self.tell("kill")
        try:
            warren("fs", agent, "write", "/plan", "fourth")
            self.assert_refused(self.world.run("checkpoint", agent, "push", address, text=True), "127.0.0.1")
            self.assert_refused(self.world.run("checkpoint", "copy", "pull", address, "--from", agent, text=True))
        finally:
            self.tell("start")
        listed = json.loads(warren("checkpoint", agent, "remote", address, "--json"))
        self.assertEqual([one["state"] for one in listed], [whole["state"], little["state"]])
        warren("checkpoint", "copy", "pull", address, "--from", agent)
        self.assertEqual(warren("fs", "copy", "cat", "/plan"), b"third")
        warren("checkpoint", "copy", "restore", "before")
        self.assertEqual(warren("fs", "copy", "cat", "/plan"), b"first")
        warren("checkpoint", agent, "pull", address, "--state", whole["state"], "--force")
        self.assertEqual(warren("fs", agent, "cat", "/plan"), b"second")

    # Through commands.

    def test_s4_2_what_is_written_is_a_plain_value_of_the_service(self):
        self.vfs("write", "/mem/notes/day/1.txt", "hello")
        self.vfs("append", "/mem/notes/day/1.txt", " there")
        self.assertEqual(self.stored("day/1.txt"), "hello there")
        self.assertEqual(self.vfs("read", "/mem/notes/day/1.txt"), "hello there")
        self.assertEqual(self.vfs("ls", "/mem/notes"), "day/\n")
        self.vfs("rm", "/mem/notes/day/1.txt")
        self.assertEqual(self.vfs("ls", "/mem/notes/day"), "")
        listed = self.vfs("mounts", "--check")
        self.assertIn("answers", listed)
        self.assertNotIn(self.facts["secret"], listed)

    def test_nothing_acknowledged_is_lost_when_the_server_is_killed(self):
        self.vfs("write", "/mem/notes/x", "kept")
        self.tell("kill")
        try:
            begun = time.monotonic()
            self.assert_refused(self.run_vfs("read", "/mem/notes/x"), "127.0.0.1")
            self.assert_refused(self.run_vfs("write", "/mem/notes/x", "new"))
            self.assert_refused(self.run_vfs("mounts", "--check"))
            self.assertLess(time.monotonic() - begun, 30, "calls did not end in time")
        finally:
            self.tell("start")
        self.assertEqual(self.vfs("read", "/mem/notes/x"), "kept")

    def test_a_wrong_password_is_said(self):
        os.environ["STORE_SECRET"] = "wrong"
        self.assert_refused(self.run_vfs("write", "/mem/notes/x", "lost"), self.refuses)

    def test_a_time_to_live(self):
        self.vfs("write", "/mem/notes/x", "long", "--ttl", "100s")
        self.assertIn("expires", self.vfs("stat", "/mem/notes/x"))
        self.vfs("write", "/mem/notes/y", "short", "--ttl", "1ms")
        mounted.wait_for(lambda: self.run_vfs("exists", "/mem/notes/y").returncode == 1, "the value to expire")
        self.assertEqual(self.vfs("ls", "/mem/notes"), "x\n")

    # Through a mount.

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_a_mount_goes_on_when_its_server_is_back(self):
        mount = self.world.mount("mnt", "--namespace", "--mount", self.mount)
        notes = mount / "mem/notes"
        (notes / "kept").write_text("kept")
        self.tell("kill")
        try:
            begun = time.monotonic()
            with self.assertRaises(OSError):
                (notes / "kept").read_text()
            descriptor = os.open(notes / "kept", os.O_WRONLY | os.O_APPEND) if self.can_open(notes / "kept") else None
            if descriptor is not None:
                with self.assertRaises(OSError):
                    os.write(descriptor, b" more")
                    os.fsync(descriptor)
                try:
                    os.close(descriptor)
                except OSError:
                    pass
            (mount / "mem/semantic/own").write_text("the rest of the mount answers")
            self.assertLess(time.monotonic() - begun, 60, "calls did not end in time")
        finally:
            self.tell("start")

        def is_whole():
            try:
                return (notes / "kept").read_text() in ("kept", "kept more")
            except OSError:
                return False
        mounted.wait_for(is_whole, "the mount to work again")
        with open(notes / "kept", "w") as file:
            file.write("after")
            os.fsync(file.fileno())
        self.assertEqual(self.stored("kept"), "after")
        self.world.umount(mount)
        self.assertEqual(self.vfs("read", "/mem/notes/kept"), "after")

    @staticmethod
    def can_open(path):
        try:
            os.close(os.open(path, os.O_WRONLY))
            return True
        except OSError:
            return False

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_what_was_closed_or_synced_survives_the_kill_of_its_mount(self):
        server = self.world.serve("mnt", "--namespace", "--mount", self.mount)
        notes = self.world.point("mnt") / "mem/notes"
        (notes / "closed").write_text("closed")
        synced = os.open(notes / "synced", os.O_CREAT | os.O_WRONLY)
        os.write(synced, b"synced")
        os.fsync(synced)
        (notes / "replaced").write_text("old")
        replaced = os.open(notes / "replaced", os.O_WRONLY | os.O_TRUNC)
        os.write(replaced, b"new")
        server.kill()
        server.wait()
        for descriptor in (synced, replaced):
            try:
                os.close(descriptor)
            except OSError as error:
                self.assertIn(error.errno, (errno.ENOTCONN, errno.ECONNABORTED))
        mounted.detach(self.world.point("mnt"))
        self.assertEqual(self.vfs("read", "/mem/notes/closed"), "closed")
        self.assertEqual(self.vfs("read", "/mem/notes/synced"), "synced")
        self.assertIn(self.vfs("read", "/mem/notes/replaced"), ("old", "", "new"), "neither was acknowledged")
        mount = self.world.mount("mnt", "--namespace", "--mount", self.mount)
        self.assertEqual((mount / "mem/notes/synced").read_text(), "synced")
        self.world.umount(mount)


class Redis(Services, unittest.TestCase):
    kind = "redis"
    refuses = "Redis refuses the user or the password"

    def redis(self, *words):
        words = ["redis-cli", "-p", str(self.facts["port"]), "-a", self.facts["secret"], "--no-auth-warning", *words]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.removesuffix("\n")

    def stored(self, key):
        return self.redis("get", f"{self.prefix}:{key}")

    def test_a_time_to_live_is_redis_own(self):
        self.vfs("write", "/mem/notes/x", "short", "--ttl", "100s")
        self.assertIn(int(self.redis("ttl", f"{self.prefix}:x")), range(1, 101))


class Postgres(Services, unittest.TestCase):
    kind = "postgres"
    refuses = "password authentication failed"

    def stored(self, key):
        sql = f"SELECT convert_from(content, 'UTF8') FROM warren_blobs WHERE prefix = '{self.prefix}' AND key = '{key}'"
        words = ["psql", "-X", "-h", "127.0.0.1", "-p", str(self.facts["port"]), "-U", "warren", "-d", self.facts["place"],
                 "-Atqc", sql]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.removesuffix("\n")


class S3(Services, unittest.TestCase):
    kind = "s3"
    refuses = "SignatureDoesNotMatch"

    def stored(self, key):
        nothing = hashlib.sha256(b"").hexdigest()  # the body; curl of Debian 12 leaves the header out
        words = ["curl", "-sf", "-H", f"x-amz-content-sha256: {nothing}", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{self.facts['user']}:{self.facts['secret']}",
                 f"http://127.0.0.1:{self.facts['port']}/{self.facts['place']}/{self.prefix}/{key}"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    unittest.main()
