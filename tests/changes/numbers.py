#!/usr/bin/env python3
"""Inode numbers that the host reuses: a new file of the base must not be mistaken for the one that was copied up.

    WARREN=path/to/warren numbers.py [-v] [Class.test_name]

Needs root: the base is an ext4 filesystem of its own, which gives a free number to the next file that is made.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from overlaid import mounted

TRIES = 2000
KEPT_OPEN = 300  # more files than the server keeps open


class Numbers:
    inode_bytes = 256  # has a birth time

    def setUp(self):
        self.w = overlaid.World()
        self.w.__enter__()
        self.addCleanup(self.w.__exit__)
        self.base = self.w.base
        image = self.w.root / "image"
        with open(image, "wb") as out:
            out.truncate(32 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-I", str(self.inode_bytes), "-N", "8192", image], check=True,
                       capture_output=True)
        subprocess.run(["mount", "-o", "loop", image, self.base], check=True)
        self.w.points.append(self.base)
        for name in ("a", "d/x", "keep"):
            overlaid.write(self.base / name, f"{name} of the base\n")

    def init(self):
        self.w.init()
        return self.w.mount()

    def replace(self, name):
        """Replaces the file as programs do when they save it, and returns its old inode number, which is then free."""
        number = os.stat(self.base / name).st_ino
        overlaid.write(self.base / "new", f"{name} saved anew\n")
        os.rename(self.base / "new", self.base / name)
        return number

    def give(self, number, name, make):
        """Creates nodes on the host until one gets the inode number, and renames that one to the name."""
        others = []
        for i in range(TRIES):
            made = self.base / f"made{i}"
            make(made)
            if os.stat(made).st_ino == number:
                os.rename(made, self.base / name)
                break
            others.append(made)
        else:
            self.fail(f"number {number} was given to none of {TRIES}")
        for other in others:
            shutil.rmtree(other) if other.is_dir() else other.unlink()

    def give_file(self, number, name):
        self.give(number, name, lambda path: path.write_text("the host's own\n"))

    def remount(self, point):
        self.w.umount(point)
        self.w.fsck()
        return self.w.mount()

    def test_a_file_that_gets_the_number_of_a_copied_one_is_itself(self):
        point = self.init()
        (point / "a").write_text("the agent's\n")
        number = os.stat(point / "a").st_ino
        self.w.umount(point)
        self.give_file(self.replace("a"), "other")
        point = self.w.mount()
        for _ in range(2):
            self.assertEqual((point / "other").read_text(), "the host's own\n")
            self.assertEqual((point / "a").read_text(), "the agent's\n")
            self.assertEqual(os.stat(point / "a").st_ino, number)
            self.assertNotEqual(os.stat(point / "other").st_ino, number)
            listed = {entry.name: entry.inode() for entry in os.scandir(point)}
            self.assertEqual(listed["other"], os.stat(point / "other").st_ino)
            point = self.remount(point)
        self.assertEqual(self.w.changes(), ["M f /a"])
        self.assertEqual(self.w.warren("fs", self.w.id, "cat", "/other"), b"the host's own\n")

    def test_it_can_be_changed_and_applied_like_any_other(self):
        point = self.init()
        (point / "a").write_text("the agent's\n")
        self.w.umount(point)
        self.give_file(self.replace("a"), "other")
        point = self.w.mount()
        number = os.stat(point / "other").st_ino
        with open(point / "other", "a") as file:
            file.write("and more\n")
        for _ in range(2):
            self.assertEqual((point / "other").read_text(), "the host's own\nand more\n")
            self.assertEqual((point / "a").read_text(), "the agent's\n")
            self.assertEqual(os.stat(point / "other").st_ino, number)
            point = self.remount(point)
        self.w.umount(point)
        self.assertEqual(self.w.changes(), ["M f /a", "M f /other"])
        self.assertIn("conflict: /a: it was changed in the base", self.w.fails("apply", self.w.id, "/a"))
        self.w.warren("apply", self.w.id, "/other")
        self.assertEqual((self.base / "other").read_text(), "the host's own\nand more\n")
        self.assertEqual((self.base / "a").read_text(), "a saved anew\n")
        self.w.warren("discard", "--yes", self.w.id)
        point = self.w.mount()
        self.assertEqual((point / "a").read_text(), "a saved anew\n")
        self.assertEqual((point / "other").read_text(), "the host's own\nand more\n")

    def test_its_other_names_show_the_copy_and_other_files_do_not(self):
        os.link(self.base / "a", self.base / "twin")
        point = self.init()
        (point / "a").write_text("the agent's\n")
        self.w.umount(point)
        # One name is left: it still refers to the file that was copied up.
        number = self.replace("a")
        point = self.w.mount()
        self.assertEqual((point / "twin").read_text(), "the agent's\n")
        self.w.umount(point)
        # None is left.
        self.replace("twin")
        self.give_file(number, "other")
        point = self.w.mount()
        self.assertEqual([(point / name).read_text() for name in ("a", "twin", "other")],
                         ["the agent's\n", "twin saved anew\n", "the host's own\n"])
        self.w.umount(point)
        self.assertEqual(self.w.changes(), ["M f /a"])
        self.assertIn("was changed in the base", self.w.fails("apply", self.w.id))
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual([(self.base / name).read_text() for name in ("a", "twin", "other")],
                         ["the agent's\n", "twin saved anew\n", "the host's own\n"])
        self.assertEqual(self.w.changes(), [])

    def give_number_of_both(self):
        """The host replaces a and its twin; `other` gets their old inode number."""
        number = os.stat(self.base / "a").st_ino
        self.replace("a")
        self.replace("twin")
        self.give_file(number, "other")

    def test_a_copy_without_a_name_is_not_shown_by_another_file(self):
        os.link(self.base / "a", self.base / "twin")
        point = self.init()
        (point / "a").write_text("the agent's\n")
        (point / "a").unlink()
        self.w.umount(point)
        self.give_number_of_both()
        self.assertEqual(self.w.changes(), ["D f /a"])
        point = self.w.mount()
        self.assertEqual((point / "other").read_text(), "the host's own\n")
        self.assertEqual(os.stat(point / "other").st_nlink, 1)

    def test_a_link_that_was_lost_is_not_counted_for_another_file(self):
        os.link(self.base / "a", self.base / "twin")
        point = self.init()
        (point / "a").unlink()
        self.w.umount(point)
        self.give_number_of_both()
        point = self.w.mount()
        self.assertEqual(os.stat(point / "other").st_nlink, 1)
        os.link(point / "other", point / "second")
        self.assertEqual((point / "second").read_text(), "the host's own\n")

    def test_a_directory_that_gets_the_number_of_a_copied_one_is_itself(self):
        point = self.init()
        (point / "d" / "made").write_text("the agent's\n")
        self.w.umount(point)
        number = os.stat(self.base / "d").st_ino
        shutil.rmtree(self.base / "d")
        self.give(number, "e", lambda path: (path.mkdir(), (path / "y").write_text("y\n")))
        point = self.w.mount()
        self.assertEqual((os.listdir(point / "e"), os.listdir(point / "d")), (["y"], ["made"]))
        (point / "e" / "z").write_text("z\n")
        point = self.remount(point)
        self.assertEqual((sorted(os.listdir(point / "e")), os.listdir(point / "d")), (["y", "z"], ["made"]))

    def test_also_while_it_is_mounted(self):
        for i in range(KEPT_OPEN):
            overlaid.write(self.base / "many" / str(i), "m")
        point = self.init()
        (point / "a").write_text("the agent's\n")
        with open(point / "d" / "x") as held:
            for i in range(KEPT_OPEN):  # until the server has closed the files it copied from
                (point / "many" / str(i)).read_text()
            self.give_file(self.replace("a"), "other")
            self.give_file(self.replace("keep"), "another")
            for name in ("other", "another"):
                mounted.wait_for(lambda: (point / name).exists(), f"{name} shows")
                self.assertEqual((point / name).read_text(), "the host's own\n")
            self.assertEqual((point / "a").read_text(), "the agent's\n")
            mounted.wait_for(lambda: (point / "keep").read_text() == "keep saved anew\n", "what the host saved shows")
            self.assertEqual(held.read(), "d/x of the base\n")

    def test_a_file_that_only_moved_is_still_the_same(self):
        os.link(self.base / "a", self.base / "twin")
        point = self.init()
        (point / "a").write_text("the agent's\n")
        self.w.umount(point)
        os.chmod(self.base / "twin", 0o600)
        os.rename(self.base / "twin", self.base / "moved")
        point = self.w.mount()
        self.assertEqual((point / "moved").read_text(), "the agent's\n")


class WithBirthTimes(Numbers, unittest.TestCase):
    pass


class WithoutBirthTimes(Numbers, unittest.TestCase):
    inode_bytes = 128


class OnAnOverlay(unittest.TestCase):
    """The kernel's overlayfs, where a copied-up file has another birth time."""

    def test_a_file_that_the_host_opened_to_write_is_still_the_same(self):
        w = self.enterContext(overlaid.World())
        for name in ("lower", "upper", "work"):
            (w.root / name).mkdir()
        overlaid.write(w.root / "lower" / "a", b"\0of the base\n")
        overlaid.write(w.root / "lower" / "d" / "x", "x\n")
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir={w.root}/lower,upperdir={w.root}/upper,workdir={w.root}/work", w.base], check=True)
        w.points.append(w.base)
        w.init()
        w.change(lambda top: (overlaid.write(f"{top}/a", "new\n"), overlaid.write(f"{top}/d/y", "y\n")))
        with open(w.base / "a", "ab"):
            pass
        os.chmod(w.base / "d", os.stat(w.base / "d").st_mode)
        self.assertTrue((w.root / "upper" / "a").exists() and (w.root / "upper" / "d").exists())
        self.assertEqual(w.change(lambda top: sorted(os.listdir(f"{top}/d"))), ["x", "y"])
        w.warren("apply", w.id)
        self.assertEqual((w.base / "a").read_text(), "new\n")


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
