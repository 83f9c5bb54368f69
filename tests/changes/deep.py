#!/usr/bin/env python3
"""Files whose path is longer than a program can give: they are reached with chdir.

    WARREN=path/to/warren deep.py [-v] [Class.test_name]
"""
import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from case import Case
from overlaid import mounted

NAME = "d" * 200
DEPTH = 21  # 4221 bytes
DEEP = ("/" + NAME) * DEPTH + "/file"


class Deep(Case):
    def setUp(self):
        super().setUp()
        self.base_dir = self.descend(self.base, os.mkdir)
        self.put(self.base_dir, "file", "base\n")
        self.w.init()

    def descend(self, top, prepare=lambda name, dir_fd: None):
        """An open directory, whose path is too long to open it."""
        at = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(DEPTH):
            prepare(NAME, dir_fd=at)
            above, at = at, os.open(NAME, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
            os.close(above)
        self.addCleanup(os.close, at)
        return at

    def put(self, directory, name, content):
        with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=directory), "w") as file:
            file.write(content)

    def get(self, directory, name):
        with open(os.open(name, os.O_RDONLY, dir_fd=directory)) as file:
            return file.read()

    def change(self, function):
        point = self.w.mount()
        try:
            at = os.open(point, os.O_RDONLY | os.O_DIRECTORY)
            try:
                for _ in range(DEPTH):
                    above, at = at, os.open(NAME, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
                    os.close(above)
                return function(at)
            finally:
                os.close(at)
        finally:
            self.w.umount(point)

    def work(self, directory):
        self.put(directory, "file", "of the agent\n")
        self.put(directory, "new", "new\n")

    def test_a_changed_file_is_shown_and_applied(self):
        self.change(self.work)
        self.write("/other", "1\n")
        self.assertEqual(self.w.changes(), [f"M f {DEEP}", f"A f {DEEP[:-4]}new", "A f /other"])
        self.w.fsck()
        self.w.warren("apply", self.w.id)
        self.assertEqual(self.get(self.base_dir, "file"), "of the agent\n")
        self.assertEqual(self.get(self.base_dir, "new"), "new\n")
        self.assertEqual(self.read("other"), "1\n")
        self.assertEqual(self.w.changes(), [])

    def test_a_changed_file_is_discarded(self):
        self.change(self.work)
        self.write("/other", "1\n")
        self.w.warren("discard", "--yes", self.w.id, "/" + NAME)
        self.assertEqual(self.w.changes(), ["A f /other"])
        self.assertEqual(self.change(lambda at: (self.get(at, "file"), sorted(os.listdir(at)))), ("base\n", ["file"]))

    def test_a_removed_file_is_applied_and_its_removal_discarded(self):
        self.change(lambda at: os.unlink("file", dir_fd=at))
        self.assertEqual(self.w.changes(), [f"D f {DEEP}"])
        self.w.fsck()
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.change(lambda at: self.get(at, "file")), "base\n")
        self.change(lambda at: os.unlink("file", dir_fd=at))
        self.w.warren("apply", self.w.id)
        self.assertEqual(os.listdir(self.base_dir), [])

    def test_it_is_written_elsewhere(self):
        self.change(self.work)
        self.w.warren("apply", self.w.id, "--to", self.w.root / "out")
        out = self.descend(self.w.root / "out")
        self.assertEqual((self.get(out, "file"), self.get(out, "new")), ("of the agent\n", "new\n"))


class Chain(Case):
    """Directories in each other, with a file in each."""
    COUNT = 900

    def descend(self, top, visit):
        at = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(self.COUNT):
            visit(at)
            above, at = at, os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
            os.close(above)
        os.close(at)

    def put(self, directory, content):
        with open(os.open("f", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=directory), "w") as file:
            file.write(content)

    def test_changes_in_a_chain_of_directories_are_listed_in_moments(self):
        (self.base / "top").mkdir()
        self.descend(self.base / "top", lambda at: (self.put(at, "base\n"), os.mkdir("d", dir_fd=at)))
        self.w.init()
        self.w.change(lambda point: self.descend(point + "/top", lambda at: self.put(at, "of the agent\n")))
        begin = time.monotonic()
        self.assertEqual(len(self.w.lines("/top/f")), 1)
        self.w.warren("diff", self.w.id)
        self.assertLess(time.monotonic() - begin, mounted.PATIENCE_SECONDS / 2)
        self.assertEqual(len(self.w.changes()), self.COUNT)
        self.fs("mv", "/top", "/there")
        self.assertEqual(len(self.w.changes()), 1 + self.COUNT)
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.w.changes(), [])


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
