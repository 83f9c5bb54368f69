#!/usr/bin/env python3
"""discard: what comes back, and what goes with it.

    WARREN=path/to/warren discard.py [-v] [Class.test_name]
"""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted


class Discard(Case):
    def test_asks_or_needs_yes(self):
        self.fill(a="1")
        self.write("/a", "22")
        self.assertIn("--yes", self.w.fails("discard", self.w.id))
        self.assertEqual(self.w.lines(), ["M f /a"])
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.fs("cat", "/a"), b"1")
        self.assertEqual(self.w.warren("discard", "--yes", self.w.id), b"nothing to discard\n")

    def test_what_was_changed_while_it_asked_is_not_dropped(self):
        later = {"a new file": lambda: self.write("/precious", "work\n"),
                 "the same file again": lambda: self.write("/a", "333"),
                 "one of them is gone": lambda: self.fs("rm", "/junk")}
        self.fill(a="1")
        for what, change in later.items():
            with self.subTest(what):
                self.write("/a", "22")
                self.write("/junk", "j")
                said = self.talk(["discard", self.w.id], b"y\n", meanwhile=change).decode()
                self.assertIn("was changed since you looked at it", said)
                self.assertIn("nothing was dropped", said)
                self.assertIn("M f /a", self.w.lines())
                self.assertIn("discarded: ", self.talk(["discard", self.w.id], b"y\n").decode())
                self.assertEqual(self.w.lines(), [])

    def test_a_rename_goes_back(self):
        self.fill(d__x="1", a="1")
        self.fs("mv", "/d", "/e")
        self.write("/e/x", "22")
        self.w.warren("discard", "--yes", self.w.id, "/e/x")
        self.assertEqual(self.w.lines(), ["R d /d -> /e"])
        self.assertEqual(self.fs("cat", "/e/x"), b"1")
        self.w.warren("discard", "--yes", self.w.id, "/e")
        self.assertEqual(self.w.lines(), [])
        self.assertEqual(self.fs("cat", "/d/x"), b"1")

    def test_one_file_of_a_deleted_directory_comes_back_alone(self):
        self.fill(d__x="1", d__y="1", d__s__z="1")
        self.fs("rm", "-r", "/d")
        self.w.warren("discard", "--yes", self.w.id, "/d/s/z")
        self.assertEqual(self.w.lines(), ["D f /d/x", "D f /d/y"])
        self.assertEqual(self.fs("cat", "/d/s/z"), b"1")

    def test_a_conflict_in_a_deleted_directory_stays_when_another_part_of_it_comes_back(self):
        self.fill(d__a="1\n", d__b="1\n", d__s__x="1\n", d__t__y="1\n", old__z="1\n")
        self.fs("rm", "-r", "/d")
        overlaid.write(self.base / "d/a", "of the host\n")
        overlaid.write(self.base / "d/new", "of the host\n")
        overlaid.write(self.base / "d/t/new", "of the host\n")
        os.rename(self.base / "old", self.base / "d/in")
        before = self.w.fails("apply", self.w.id)
        self.w.warren("discard", "--yes", self.w.id, "/d/s")
        self.assertEqual(self.fs("cat", "/d/s/x"), b"1\n")
        said = self.w.fails("apply", self.w.id)
        for path in ("/d/a", "/d/new", "/d/t/new", "/d/in/z"):
            self.assertIn(f"conflict: {path}: ", before)
            self.assertIn(f"conflict: {path}: ", said)
        self.assertNotIn("/d/b", said)
        self.assertEqual(self.read("d/a"), "of the host\n")
        self.w.warren("discard", "--yes", self.w.id, "/d/a")
        self.assertEqual(self.fs("cat", "/d/a"), b"of the host\n")
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.w.changes(), [])
        self.assertEqual(self.fs("cat", "/d/in/z"), b"1\n")

    def test_what_was_moved_out_of_a_deleted_directory_does_not_show_twice(self):
        self.fill(d__x="1", d__y="1")
        self.fs("mv", "/d/x", "/x")
        self.fs("rm", "-r", "/d")
        self.w.warren("discard", "--yes", self.w.id, "/[d]")  # a pattern: does not include what was below it
        self.assertEqual(self.w.lines(), ["R f /d/x -> /x"])
        self.assertEqual(self.fs("find", "/"), b"/\n/d\n/d/y\n/x\n")
        self.fs("rm", "-r", "/d")
        self.w.warren("apply", self.w.id, "/d")
        self.assertEqual((self.w.lines(), sorted(os.listdir(self.base)), self.read("x")), ([], ["x"], "1"))

    def test_an_exact_name_wins_over_a_pattern(self):
        self.w.init()
        self.w.change(lambda p: [overlaid.write(os.fsencode(p) + b"/" + name, b"1")
                                 for name in (rb"inv\xff", b"[a]", b"a", b"b*", b"bc", b"dir?/x", b"dirs/x")])
        for name, left in ((rb"inv\xff", ["/[a]", "/a", "/b*", "/bc", "/dir?", "/dir?/x", "/dirs", "/dirs/x"]),
                           (b"[a]", ["/a", "/b*", "/bc", "/dir?", "/dir?/x", "/dirs", "/dirs/x"]),
                           (b"b*", ["/a", "/bc", "/dir?", "/dir?/x", "/dirs", "/dirs/x"]),
                           (b"/dir?", ["/a", "/bc", "/dirs", "/dirs/x"]),
                           (b"b*", ["/a", "/dirs", "/dirs/x"])):
            self.w.warren("discard", "--yes", self.w.id, name)
            self.assertEqual(self.w.lines("--name-only"), left)
        self.assertIn("no changes match", self.w.fails("discard", "--yes", self.w.id, "[x]"))

    def test_only_below_a_path(self):
        self.fill(a="1", b="1")
        self.write("/a", "22")
        self.write("/b", "22")
        self.w.warren("discard", "--yes", self.w.id, "/a")
        self.assertEqual(self.w.lines(), ["M f /b"])
        self.assertIn("no changes match", self.w.fails("discard", "--yes", self.w.id, "/typo"))


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
