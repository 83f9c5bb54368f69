#!/usr/bin/env python3
"""apply -i: what was answered with "no", and what cannot be written without that, stays a change of the session.

    WARREN=path/to/warren left_out.py [-v] [Class.test_name]
"""
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted

NEWER = "the user's newer work\n"


class LeftOut(Case):
    def interactive(self, answers, *options):
        return self.talk(["apply", "-i", *options, self.w.id], answers.encode()).decode().replace("\r\n", "\n")

    def delete_directory(self):
        self.fill(dir__f="old\n", dir__g="g\n", other="o\n")
        self.fs("rm", "-r", "/dir")
        overlaid.write(self.base / "dir/f", NEWER)

    def test_a_directory_with_a_conflict_in_it_is_not_deleted_by_all(self):
        self.delete_directory()
        said = self.interactive("a\n")
        self.assertIn("left: D d /dir: not possible without D f /dir/f\n", said)
        self.assertEqual(self.read("dir/f"), NEWER)
        self.assertEqual(os.listdir(self.base / "dir"), ["f"])
        self.assertEqual(self.w.lines(), ["D d /dir", "D f /dir/f  [conflict: it was changed in the base]"])

    def test_a_directory_stays_if_a_file_in_it_was_refused(self):
        self.delete_directory()
        said = self.interactive("y\nn\nn\n")
        self.assertIn("D f /dir/f  (conflict: ", said)
        self.assertIn("left: D d /dir: not possible without D f /dir/f\n", said)
        self.assertEqual((self.read("dir/f"), self.read("dir/g")), (NEWER, "g\n"))
        self.assertEqual(len(self.w.lines()), 3)

    def test_a_directory_stays_if_the_questions_end_before_all_of_it(self):
        self.delete_directory()
        said = self.interactive("y\nq\n")
        self.assertIn("left: D d /dir: not possible without D f /dir/f\n", said)
        self.assertIn("nothing was written", said)
        self.assertEqual((self.read("dir/f"), self.read("dir/g")), (NEWER, "g\n"))

    def test_a_directory_is_deleted_once_each_conflict_was_agreed_to(self):
        self.delete_directory()
        self.assertNotIn("left:", self.interactive("y\ny\ny\n"))
        self.assertFalse((self.base / "dir").exists())
        self.assertEqual(self.w.lines(), [])

    def test_a_conflict_that_was_not_named_is_asked_about_if_it_is_needed(self):
        self.delete_directory()
        said = self.talk(["apply", "-i", self.w.id, "/di?"], b"y\nn\nn\n").decode()
        self.assertIn("D f /dir/f  (conflict: ", said)
        self.assertEqual(self.read("dir/f"), NEWER)

    def delete_with_excluded(self, answers):
        self.fill(dir__keep="k\n", dir__one="1\n", other="o\n")
        self.w.change(lambda p: shutil.rmtree(p + "/dir"))
        said = self.interactive(answers, "--exclude", "keep")
        self.assertIn("left: D d /dir: not possible without D f /dir/keep, which is excluded\n", said)
        self.assertIn("1 deleted", said)
        self.assertEqual(os.listdir(self.base / "dir"), ["keep"])
        self.assertEqual(self.w.changes(), ["D d /dir", "D f /dir/keep"])

    def test_a_directory_stays_if_something_in_it_is_excluded(self):
        self.delete_with_excluded("y\n")

    def test_all_does_not_take_a_directory_with_something_excluded(self):
        self.delete_with_excluded("a\n")

    def test_a_rename_is_left_if_one_of_its_names_is_excluded(self):
        self.fill(keep="k\n", old="1\n", other="o\n")
        self.w.change(lambda p: (os.rename(p + "/keep", p + "/moved"), os.rename(p + "/old", p + "/keep.txt"),
                                 overlaid.write(p + "/other", "agent\n")))
        options = ("--exclude", "keep", "--exclude", "keep.txt")
        dry = self.w.run("apply", "-n", *options, self.w.id).stderr.decode()
        for said in (dry, self.interactive("q\n", *options), self.interactive("a\n", *options)):
            for line in ("R f /keep -> /moved", "R f /old -> /keep.txt"):
                self.assertIn(f"left: {line}: one of its two names is excluded\n", said)
        self.assertEqual(sorted(os.listdir(self.base)), ["keep", "old", "other"])
        self.assertEqual(self.read("other"), "agent\n")

    def test_a_directory_is_not_renamed_for_a_file_in_it(self):
        self.fill(src__f="old\n", src__g="old\n")
        self.fs("mv", "/src", "/lib")
        self.write("/lib/f", "agent\n")
        said = self.interactive("n\ny\n")
        self.assertIn("left: M f /lib/f: not possible without R d /src -> /lib\n", said)
        self.assertEqual(sorted(os.listdir(self.base)), ["src"])
        self.assertEqual(self.read("src/f"), "old\n")
        self.interactive("y\ny\n")
        self.assertEqual((sorted(os.listdir(self.base)), self.read("lib/f")), (["lib"], "agent\n"))

    def test_all_that_needs_a_renamed_directory_is_left_with_it(self):
        self.fill(src__f="old\n", src__g="old\n", z="old\n")
        self.fs("mv", "/src", "/lib")
        for name in ("/lib/f", "/lib/g", "/z"):
            self.write(name, "agent\n")
        said = self.interactive("n\ny\ny\ny\n")
        self.assertIn("left: 2 more changes: not possible without R d /src -> /lib\n", said)
        self.assertEqual((self.read("src/f"), self.read("src/g"), self.read("z")), ("old\n", "old\n", "agent\n"))

    def test_newer_work_is_not_replaced_by_a_rename_over_it(self):
        self.fill(x="old\n", y="agent\n")
        self.fs("rm", "/x")
        self.fs("mv", "/y", "/x")
        overlaid.write(self.base / "x", NEWER)
        said = self.interactive("n\ny\n")
        self.assertIn("left: R f /y -> /x: not possible without D f /x\n", said)
        self.assertEqual((self.read("x"), self.read("y")), (NEWER, "agent\n"))

    def test_a_rename_stays_if_the_name_is_not_given_up(self):
        self.fill(a="1\n", b="2\n")
        self.fs("mv", "/b", "/c")
        self.fs("mv", "/a", "/b")
        for answers in ("y\nn\n", "y\nq\n"):
            said = self.interactive(answers)
            self.assertIn("left: R f /a -> /b: not possible without R f /b -> /c\n", said)
            self.assertEqual((self.read("a"), self.read("b")), ("1\n", "2\n"))

    def test_parts_of_a_file_that_is_left_are_not_written(self):
        self.fill(src__f="".join(self.LINES), lib__x="2\n", zz="old\n")
        self.fs("mv", "/lib", "/old")
        self.fs("mv", "/src", "/lib")
        self.write("/lib/f", "".join(self.with_line(2, "agent 2", self.with_line(18, "agent 18"))))
        self.write("/zz", "agent\n")
        said = self.interactive("y\ns\ny\nn\nn\ny\n")
        self.assertIn("part 2 of 2", said)
        for line in ("R d /src -> /lib", "M f /lib/f"):
            self.assertIn(f"left: {line}: not possible without R d /lib -> /old\n", said)
        self.assertEqual((self.read("src/f"), self.read("lib/x"), self.read("zz")), ("".join(self.LINES), "2\n", "agent\n"))

    def test_a_new_directory_is_made_for_a_file_in_it(self):
        self.fill(z="old\n")
        self.fs("mkdir", "/new")
        self.write("/new/a", "1\n")
        self.write("/new/b", "2\n")
        self.assertNotIn("left:", self.interactive("s\ny\nn\n"))
        self.assertEqual(os.listdir(self.base / "new"), ["a"])

    def test_two_that_exchange_their_names_are_written_or_left_together(self):
        self.fill(a="1\n", b="2\n")
        self.fs("mv", "/a", "/t")
        self.fs("mv", "/b", "/a")
        self.fs("mv", "/t", "/b")
        for answers in ("y\nn\n", "n\ny\n"):
            self.interactive(answers)
            self.assertEqual((self.read("a"), self.read("b")), ("1\n", "2\n"))
        self.interactive("y\ny\n")
        self.assertEqual((self.read("a"), self.read("b")), ("2\n", "1\n"))


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
