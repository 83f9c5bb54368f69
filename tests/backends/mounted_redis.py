"""A path of the namespace on a real Redis, through the program: written, listed, expired, gone and back."""
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

PATIENCE_SECONDS = 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class MountedRedis(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.port = free_port()
        self.server = None
        self.start()
        self.addCleanup(self.stop)
        self.environment = os.environ | {"HOME": str(self.root), "XDG_RUNTIME_DIR": str(self.root), "REDIS_SECRET": "sesame"}
        self.environment.pop("XDG_CONFIG_HOME", None)
        self.mount = f"/mem/notes=redis://:${{REDIS_SECRET}}@127.0.0.1:{self.port}/0?prefix=a&timeout=5s"
        self.warren("init", "a")

    def start(self):
        words = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.root), "--save", "",
                 "--appendonly", "yes", "--appendfsync", "always", "--requirepass", "sesame"]
        self.server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_SECONDS
        while "PONG" not in self.redis("ping"):
            self.assertLess(time.monotonic(), end, "redis-server does not start")
            time.sleep(0.05)

    def stop(self):
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()

    def redis(self, *words):
        return subprocess.run(["redis-cli", "-p", str(self.port), "-a", "sesame", "--no-auth-warning", *words],
                              capture_output=True, text=True).stdout

    def run_warren(self, *words, **more):
        return subprocess.run([os.environ["WARREN"], *words], cwd=self.root, env=self.environment, capture_output=True, text=True,
                              timeout=PATIENCE_SECONDS * 4, **more)

    def warren(self, *words, **more):
        done = self.run_warren(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def vfs(self, *words):
        return self.warren("vfs", "a", *words, "--mount", self.mount)

    def test_what_is_written_is_a_plain_value_in_redis(self):
        self.vfs("write", "/mem/notes/day/1.txt", "hello")
        self.vfs("append", "/mem/notes/day/1.txt", " there")
        self.assertEqual(self.redis("get", "a:day/1.txt").strip(), "hello there")
        self.assertEqual(self.vfs("read", "/mem/notes/day/1.txt"), "hello there")
        self.assertEqual(self.vfs("ls", "/mem/notes"), "day/\n")
        self.vfs("rm", "/mem/notes/day/1.txt")
        self.assertEqual(self.redis("get", "a:day/1.txt").strip(), "")

    def test_nothing_acknowledged_is_lost_when_the_server_is_killed(self):
        self.vfs("write", "/mem/notes/x", "kept")
        self.stop()
        done = self.run_warren("vfs", "a", "read", "/mem/notes/x", "--mount", self.mount)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"port {self.port}: Connection refused", done.stderr)
        self.assertNotIn("sesame", done.stderr)
        self.start()
        self.assertEqual(self.vfs("read", "/mem/notes/x"), "kept")

    def test_a_wrong_password_is_said(self):
        self.environment["REDIS_SECRET"] = "wrong"
        done = self.run_warren("vfs", "a", "write", "/mem/notes/x", "lost", "--mount", self.mount)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Redis refuses the user or the password", done.stderr)
        self.assertNotIn("sesame", done.stderr)

    def test_a_time_to_live_is_redis_own(self):
        self.vfs("write", "/mem/notes/x", "short", "--ttl", "100s")
        self.assertIn(int(self.redis("ttl", "a:x")), range(1, 101))
        listed = self.warren("vfs", "a", "mounts", "--check", "--mount", self.mount)
        self.assertIn("answers", listed)
        self.assertNotIn("sesame", listed)


if __name__ == "__main__":
    unittest.main()
