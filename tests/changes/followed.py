#!/usr/bin/env python3
"""Renames of an agent that the base makes, too: by a merge of the agent's commits, by hand, by another session's apply.

    WARREN=path/to/warren followed.py [-v] [Class.test_name]
"""
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import MountedCase
from commits import Repository
from overlaid import mounted


class Committed(Repository):
    """The agent commits a rename, and the user merges it."""

    def rename(self, old, new):
        return lambda point: (os.rename(f"{point}/{old}", f"{point}/{new}"), self.commit("renamed", cwd=point))

    def bring(self):
        self.apply()
        self.git("merge", "-q", "warren/a")

    def test_an_agent_goes_on_in_a_directory_whose_rename_was_merged(self):
        self.begin(src__c="c\n", src__d="d\n", src__sub__e="e\n", a="1\n")
        self.agent(then=self.rename("src", "lib"))
        self.bring()
        self.assertEqual(self.w.lines(), [])

        def go_on(point):
            self.assertEqual(sorted(os.listdir(point + "/lib")), ["c", "d", "sub"])
            self.assertEqual(self.git("status", "--short", cwd=point), "")
            overlaid.write(point + "/a", "2\n")
            overlaid.write(point + "/lib/c", "changed\n")
            self.commit("next", cwd=point)
            self.assertEqual(self.git("show", "--format=", "--name-status", "HEAD", cwd=point).split(), ["M", "a", "M", "lib/c"])
        self.agent(then=go_on)
        self.bring()
        self.assertEqual(sorted(os.listdir(self.base / "lib")), ["c", "d", "sub"])
        self.assertEqual((self.read("a"), self.read("lib/c"), self.read("lib/sub/e")), ("2\n", "changed\n", "e\n"))
        self.assertEqual(self.w.lines(), [])
        self.w.fsck()

    def test_what_was_not_committed_in_it_is_written_after_the_merge(self):
        self.begin(src__c="".join(self.LINES), src__d="d\n", src__e="e\n")
        again = "".join(self.with_line(18, "again"))

        def change(point):
            self.rename("src", "lib")(point)
            overlaid.write(point + "/lib/new", "new\n")
            overlaid.write(point + "/lib/c", again)
            os.unlink(point + "/lib/d")
        self.agent(then=change)
        self.assertIn("/lib/new", self.apply())
        self.assertTrue((self.base / "src/c").exists())
        self.git("merge", "-q", "warren/a")
        overlaid.write(self.base / "lib/e", "of the user\n")
        self.commit("mine")
        self.assertEqual(self.w.changes(), ["M f /lib/c", "D f /lib/d", "A f /lib/new"])
        self.apply("--merge")
        self.assertEqual((self.read("lib/c"), self.read("lib/new"), self.read("lib/e")), (again, "new\n", "of the user\n"))
        self.assertEqual(sorted(os.listdir(self.base / "lib")), ["c", "e", "new"])
        self.assertEqual(self.w.lines(), [])

    def test_a_file_whose_rename_was_merged_is_no_change(self):
        self.begin(a="".join(self.LINES), b="1\n")
        self.agent(then=self.rename("a", "moved"))
        self.bring()
        self.assertEqual(self.w.lines(), [])
        self.agent(("b", "2\n"))
        self.apply()
        self.assertEqual(self.read("b"), "2\n")
        overlaid.write(self.base / "a", "another file\n")
        self.assertEqual(self.w.lines(), [])
        self.assertEqual(self.fs("cat", "/a"), b"another file\n")

    def test_a_file_that_was_renamed_and_changed_again(self):
        self.begin(a="".join(self.LINES))
        again = self.with_line(18, "again")
        self.agent(then=lambda p: (self.rename("a", "moved")(p), overlaid.write(p + "/moved", "".join(again))))
        self.assertIn("was changed again after the commits", self.apply())
        self.git("merge", "-q", "warren/a")
        self.assertEqual(self.w.lines(), ["M f /moved"])
        self.assertIn("+again", self.w.warren("diff", "-p", self.w.id).decode())
        overlaid.write(self.base / "moved", "".join(self.with_line(2, "of the user")))
        self.commit("mine")
        self.apply("--merge")
        self.assertEqual(self.read("moved"), "".join(self.with_line(2, "of the user", again)))

    def test_a_large_file_whose_content_is_still_in_the_base(self):
        content = os.urandom(3_000_000)
        self.begin(a=content)
        self.agent(then=self.rename("a", "moved"))
        self.bring()
        self.assertEqual(self.w.lines(), [])

        def look(point):
            with open(point + "/moved", "rb") as file:
                self.assertEqual(file.read(), content)
        self.agent(then=look)
        self.w.fsck()

    def test_what_the_user_made_of_the_file_is_a_conflict(self):
        self.begin(a="".join(self.LINES))
        self.agent(then=lambda p: (os.rename(p + "/a", p + "/moved"),
                                   overlaid.write(p + "/moved", "".join(self.with_line(2, "agent")))))
        os.rename(self.base / "a", self.base / "moved")
        overlaid.write(self.base / "moved", "".join(self.with_line(2, "user")))
        self.assertIn("conflict", self.apply(fails=True))
        self.assertIn("conflict", self.apply("--merge", fails=True))
        self.apply("--conflict=markers", fails=True)  # there is something to edit
        self.assertIn("<<<<<<< agent\nagent\n", self.read("moved"))
        self.assertIn("user\n>>>>>>> base\n", self.read("moved"))


class ByHand(MountedCase):
    """The agent is in use while the base makes the rename."""

    def await_names(self, path, names):
        mounted.wait_for(lambda: sorted(os.listdir(self.point / path)) == names, f"{names} in {path}")

    def test_a_directory_in_use(self):
        self.begin(src__c="c\n", src__sub__d="d\n")
        os.rename(self.point / "src", self.point / "lib")
        overlaid.write(self.point / "lib/new", "new\n")
        self.assertEqual(sorted(os.listdir(self.point / "lib")), ["c", "new", "sub"])
        inside = os.open(self.point / "lib", os.O_RDONLY | os.O_DIRECTORY)
        shutil.copytree(self.base / "src", self.base / "copy")  # as git does it: other nodes
        shutil.rmtree(self.base / "src")
        os.rename(self.base / "copy", self.base / "lib")
        mounted.wait_for((self.point / "lib/sub/d").exists, "what the base has at the new place does not show")
        self.assertEqual((self.point / "lib/sub/d").read_text(), "d\n")
        self.await_names("lib", ["c", "new", "sub"])
        self.assertEqual(sorted(os.listdir(inside)), ["c", "new", "sub"])
        os.close(inside)
        self.assertEqual(self.w.changes(), ["A f /lib/new"])
        overlaid.write(self.base / "lib/later", "later\n")
        self.await_names("lib", ["c", "later", "new", "sub"])
        self.end()
        self.assertEqual(self.w.changes(), ["A f /lib/new"])
        os.rename(self.base / "lib", self.base / "third")
        self.assertEqual(sorted(self.fs("ls", "/lib").decode().split()), ["new"])

    def test_a_rename_that_the_user_takes_back(self):
        self.begin(src__c="c\n", src__d="d\n")
        os.rename(self.point / "src", self.point / "lib")
        os.rename(self.base / "src", self.base / "lib")
        overlaid.write(self.base / "lib/later", "later\n")
        self.await_names("lib", ["c", "d", "later"])
        overlaid.write(self.point / "lib/c", "changed\n")
        self.assertEqual(self.w.changes(), ["M f /lib/c"])
        os.rename(self.base / "lib", self.base / "src")
        overlaid.write(self.base / "src/last", "last\n")
        self.await_names("lib", ["c", "d", "last", "later"])
        self.assertEqual(self.w.changes(), ["R d /src -> /lib", "M f /lib/c"])
        self.apply()
        self.await_names("lib", ["c", "d", "last", "later"])
        self.assertEqual((os.listdir(self.base), (self.base / "lib/c").read_text()), (["lib"], "changed\n"))
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_the_user_makes_another_directory_under_the_old_name(self):
        self.begin(src__c="c\n", src__d="d\n")
        os.rename(self.point / "src", self.point / "lib")
        os.rename(self.base / "src", self.base / "lib")
        overlaid.write(self.base / "lib/later", "later\n")
        self.await_names("lib", ["c", "d", "later"])
        overlaid.write(self.base / "src/other", "other\n")
        self.await_names("", ["lib", "src"])
        self.await_names("src", ["other"])
        self.assertEqual(self.w.changes(), [])
        os.rename(self.point / "lib", self.point / "third")
        self.assertEqual(sorted(os.listdir(self.point / "third")), ["c", "d", "later"])
        self.assertEqual(self.w.changes(), ["R d /lib -> /third"])
        self.apply()
        self.assertEqual(sorted(os.listdir(self.base)), ["src", "third"])
        self.end()

    def test_another_session_applies_the_same_rename(self):
        self.begin(src__c="c\n", src__d="d\n")
        os.rename(self.point / "src", self.point / "lib")
        os.unlink(self.point / "lib/d")
        self.w.warren("init", "--base", self.base, "other")
        self.w.warren("fs", "other", "mv", "/src", "/lib")
        self.w.warren("apply", "other")
        self.await_names("lib", ["c"])
        self.assertEqual(self.w.changes(), ["D f /lib/d"])
        self.apply()
        self.assertEqual(sorted(os.listdir(self.base / "lib")), ["c"])
        self.end()

    def test_the_user_moves_another_directory_there(self):
        self.begin(src__c="c\n", other__old="of the user\n")
        os.rename(self.point / "src", self.point / "lib")
        mounted.wait_for(self.is_later_than(self.point / "lib"), "a later time")
        os.rename(self.base / "other", self.base / "lib")
        self.assertIn("conflict: /lib/old", self.w.fails("apply", self.w.id))
        self.assertEqual(sorted(os.listdir(self.base)), ["lib", "src"])
        self.end()

    def test_a_file_that_the_agent_has_changed_and_the_user_has_renamed_is_two(self):
        self.begin(x="1\n", d__y="1\n", d__other="1\n")
        large = self.base / "large"
        overlaid.write(large, b"L" * (20 << 20))
        for name in ("x", "d/y"):
            with open(self.point / name, "a") as file:
                file.write("of the agent\n")
        with open(self.point / "large", "r+b") as file:
            file.write(b"A")
        os.rename(self.base / "x", self.base / "z")
        os.rename(self.base / "d", self.base / "e")
        os.rename(large, self.base / "great")
        for is_mounted_again in (False, True):
            self.await_names("", ["d", "e", "great", "large", "x", "z"])
            self.await_names("e", ["other", "y"])
            for old, new in (("x", "z"), ("d/y", "e/y")):
                self.assertEqual((self.point / old).read_text(), "1\nof the agent\n")
                self.assertEqual((self.point / new).read_text(), "1\n")
                self.assertNotEqual(os.stat(self.point / old).st_ino, os.stat(self.point / new).st_ino)
            self.assertNotEqual(os.stat(self.point / "d").st_ino, os.stat(self.point / "e").st_ino)
            self.assertEqual((self.point / "great").read_bytes()[:2], b"LL")
            if is_mounted_again:
                self.assertEqual(os.listdir(self.point / "d"), ["y"])
            else:
                self.assertEqual((self.point / "large").read_bytes()[:2], b"AL")
                self.w.umount(self.point)
                self.point = self.w.mount()
        for name in ("z", "e/y"):
            with open(self.point / name, "a") as file:
                file.write("later\n")
        self.assertEqual((self.point / "x").read_text(), "1\nof the agent\n")
        overlaid.write(self.point / "e/new", "new\n")
        self.assertEqual(self.w.changes("/d", "/e", "/x", "/z"), ["A d /d", "A f /d/y", "A f /e/new", "M f /e/y", "A f /x", "M f /z"])
        self.w.warren("apply", self.w.id, "/z", "/e")
        self.assertEqual((self.read("z"), self.read("e/y"), self.read("e/new")), ("1\nlater\n", "1\nlater\n", "new\n"))
        self.assertIn("conflict: /x: it was deleted from the base", self.w.fails("apply", self.w.id))
        self.end()

    def test_a_directory_that_the_user_has_moved_into_another_of_its_name(self):
        self.begin(a__x="1\n")
        overlaid.write(self.point / "a/new", "new\n")
        os.rename(self.base / "a", self.base / "b")
        os.mkdir(self.base / "a")
        os.rename(self.base / "b", self.base / "a/t")
        self.w.umount(self.point)
        self.point = self.w.mount()
        self.assertEqual(sorted(os.listdir(self.point / "a")), ["new", "t"])
        self.assertEqual(os.listdir(self.point / "a/t"), ["x"])
        self.assertEqual(self.w.changes(), ["A f /a/new"])
        os.rename(self.point / "a/new", self.point / "a/t/new")
        self.apply()
        self.assertEqual(sorted(os.listdir(self.base / "a/t")), ["new", "x"])
        self.end()

    def is_later_than(self, path):
        """Whether what the host does now is later than the last change of the node. Clocks of filesystems are coarse."""
        def is_later():
            probe = self.w.root / "probe"
            overlaid.write(probe, "")
            return probe.stat().st_ctime_ns > path.stat().st_ctime_ns
        return is_later

    def test_the_user_has_deleted_it(self):
        self.begin(src__c="c\n", src__d="d\n")
        os.rename(self.point / "src", self.point / "lib")
        overlaid.write(self.point / "lib/c", "changed\n")
        shutil.copytree(self.base / "src", self.base / "elsewhere")
        shutil.rmtree(self.base / "src")
        self.await_names("lib", ["c"])
        self.assertEqual(self.w.changes(), ["A d /lib", "A f /lib/c"])
        self.assertIn("it was deleted from the base", self.w.fails("apply", self.w.id))
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual(sorted(os.listdir(self.base / "elsewhere")), ["c", "d"])
        self.assertEqual((self.base / "lib/c").read_text(), "changed\n")
        self.end()


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
