"""The base of the tests of diff, apply, undo and discard: a world with a base, and an agent on top of it."""
import os
import pathlib
import pty
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from overlaid import mounted

HOSTILE = [b"plain", b"with space", b"quo\"te", b"apos'trophe", b"new\nline", b"\xff\xfe", b"\xc3\xa9", b"tab\t", b"back\\slash",
           b"-dash", b"*", b"[a]", b"a -> b", b"\x1b[31m"]


class Case(unittest.TestCase):
    def setUp(self):
        self.w = overlaid.World()
        self.w.__enter__()
        self.addCleanup(self.w.__exit__)
        self.base = self.w.base

    def fill(self, **files):
        for name, content in files.items():
            overlaid.write(self.base / name.replace("__", "/"), content)
        self.w.init()

    def fs(self, *args, **options):
        return self.w.warren("fs", self.w.id, *args, **options)

    def write(self, path, content):
        self.fs("write", path, input=content.encode())

    def read(self, name):
        return (self.base / name).read_text()

    def talk(self, words, answers, meanwhile=None):
        """On a terminal. `meanwhile` is called once the program asks [y/N], before the answers."""
        leader, follower = pty.openpty()
        child = subprocess.Popen([mounted.program(), *words], cwd=self.w.home, env=self.w.environment(), stdin=follower,
                                 stdout=follower, stderr=follower)
        os.close(follower)
        if not meanwhile:
            os.write(leader, answers)
        said = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:
                break
            if not part:
                break
            said += part
            if meanwhile and b"[y/N]" in said:
                meanwhile()
                meanwhile = None
                os.write(leader, answers)
        child.wait(timeout=60)
        os.close(leader)
        return said

    def edit(self, path, offset, data):
        """Writes in place, without truncating the file first."""
        def change(point):
            with open(point + path, "r+b") as file:
                file.seek(offset)
                file.write(data)
        self.w.change(change)

    LINES = [f"line {i}\n" for i in range(1, 21)]

    def with_line(self, number, text, lines=None):
        lines = list(lines or self.LINES)
        lines[number - 1] = text + "\n"
        return lines


class MountedCase(Case):
    """The agent is mounted, and programs use it while changes are applied."""
    def begin(self, **files):
        self.fill(**files)
        self.point = self.w.mount()

    def agent(self, script):
        subprocess.run(["sh", "-ec", script], cwd=self.point, check=True, env={**os.environ, "LC_ALL": "C"})

    def host(self, script):
        subprocess.run(["sh", "-ec", script], cwd=self.base, check=True)

    def refused(self, *words):
        """Apply names a conflict, and the base is as it was."""
        before = overlaid.snapshot(self.base)
        said = self.w.fails("apply", self.w.id)
        self.assertIn("conflict: ", said, words)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [], words)

    def apply(self, *paths):
        self.w.warren("apply", self.w.id, *paths)

    def end(self):
        self.w.umount(self.point)
        self.w.fsck()
