#!/usr/bin/env python3
"""What the user does in the base under a name that the agent uses is a conflict, whatever the agent does there afterwards.

    WARREN=path/to/warren unseen.py [-v] [Class.test_name]

Needs root and /dev/fuse.
"""
import itertools
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case, MountedCase


class Unseen(MountedCase):
    def each(self, first, host, second):
        """A session of its own for each combination."""
        for number, steps in enumerate(itertools.product(first, host, second)):
            with self.subTest(steps=steps):
                folder = f"k{number}"
                for at, script in zip((self.point, self.base, self.point), steps):
                    subprocess.run(["sh", "-ec", script], cwd=os.path.join(at, folder), check=True)
                before = overlaid.snapshot(self.base / folder)
                said = self.w.fails("apply", self.w.id, "/" + folder)
                self.assertIn("conflict: ", said)
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base / folder), before), [])
                self.w.warren("discard", "--yes", self.w.id, "/" + folder)
                self.assertEqual(overlaid.differences(overlaid.snapshot(pathlib.Path(self.point) / folder), before), [])
        self.end()

    def folders(self, count, **files):
        self.begin(**{f"k{i}__{name}": text for i in range(count) for name, text in files.items()})

    def test_a_file_of_the_base_that_was_replaced(self):
        first = ["sed -i s/base/agent/ x", "rm x; echo agent >x", "echo agent >n; mv n x"]
        second = ["rm x", "mv x w", "mv x w; mv w x", "mkdir d; mv x d", "rm x; echo new >x", "echo more >>x", "chmod 600 x",
                  "rm x; mkdir x; echo z >x/z", "ln -sf w x"]
        self.folders(len(first) * len(second), x="base\n")
        self.each(first, ["echo host >>x"], second)

    def test_a_removal_that_another_program_has_stored_a_second_time(self):
        names = (".env", "-x", "#x", "env")  # before and after '/'
        self.fill(**{name: "old\n" for name in names})
        for name in names:
            self.fs("rm", "/" + name)
        file = sqlite3.connect(self.w.file)
        file.executemany("INSERT INTO fs_whiteout (path, parent_path, created_at) VALUES (?, '', 0)", [(name,) for name in names])
        file.execute("DELETE FROM wr_covered")  # as in a file of an older version
        file.commit()
        file.close()
        for name in names:
            overlaid.write(self.base / name, "the user's\n")
        self.write("/later", "agent\n")
        said = self.w.fails("apply", self.w.id)
        for name in names:
            self.assertIn(f"conflict: /{name}: ", said)
            self.assertEqual(self.read(name), "the user's\n")

    def test_a_file_that_both_made(self):
        second = ["echo more >>y", "echo other >n; mv n y", "rm y; echo again >y", "chmod 600 y", "ln y z", "rm y; mkdir y; echo >y/z",
                  "ln -sf x y"]
        self.folders(2 * len(second), x="base\n")
        self.each(["echo agent >y"], ["echo host >y", "echo older >t; touch -d 2001-01-01 t; mv t y"], second)

    def test_a_file_in_a_directory_that_the_user_moved_there(self):
        second = [":", "echo more >>n/y", "rm n/y; echo again >n/y"]
        self.folders(len(second), c__y="user\n")
        self.each(["mkdir n; echo agent >n/y"], ["mv c n"], second)

    def test_a_directory_that_the_agent_removed(self):
        first = ["rm -r c", "rm -r c; mkdir c; echo agent >c/other", "rm -r c; echo agent >c"]
        second = [":", "rm -rf c; mkdir c", "rm -rf c; mkdir c; echo a >c/other; rm -r c", "rm -rf c; echo z >c"]
        self.folders(2 * len(first) * len(second), c__old="base\n", moved__in="user\n")
        self.each(first, ["echo host >c/new", "mv moved c/"], second)

    def test_links_and_directories_in_the_place_of_files(self):
        self.folders(2, x="base\n")
        self.each(["ln -s x l; mkdir n; echo a >n/a"], ["echo host >l", "echo host >n"],
                  ["ln -sfn nowhere l; echo z >n/z"])

    def test_an_agents_own_file_that_it_removes_is_no_change_of_the_users(self):
        self.begin(x="base\n")
        self.agent("echo temporary >y")
        self.host("echo host >y")
        self.agent("rm y; echo new >z")
        self.assertEqual(self.w.lines(), ["A f /z"])
        self.apply()
        self.assertEqual((self.read("y"), self.read("z")), ("host\n", "new\n"))
        self.end()
        self.assertEqual(self.w.lines(), [])

    def test_two_rounds_of_another_branch(self):
        """As `git checkout` of another branch and back does it, twice."""
        self.begin(x="one\n")
        away, back = "rm x; echo other >x", "rm x; echo one >x"
        self.agent(f"{away}; {back}")
        self.assertEqual(self.w.lines(), [])
        self.host("echo edit >>x")
        self.agent(f"{away}; {back}")
        self.refused()
        self.assertEqual(self.read("x"), "one\nedit\n")

    def test_what_an_apply_wrote_is_seen(self):
        """Later changes of names that were applied are no conflicts, in use or not."""
        self.begin(x="base\n", c__a="base\n")
        self.agent("rm x; echo agent >x; echo new >y; rm -r c; mkdir c; echo b >c/b; mkdir d; echo e >d/e")
        self.apply()
        self.agent("rm x; echo again >x; rm y; mkdir y; echo z >y/z; rm -r c; echo file >c; mv d dd; echo f >d")
        self.apply()
        self.assertEqual((self.read("x"), self.read("y/z"), self.read("c"), self.read("d"), self.read("dd/e")),
                         ("again\n", "z\n", "file\n", "f\n", "e\n"))
        self.end()
        self.assertEqual(self.w.lines(), [])

    def test_a_part_of_a_removed_directory(self):
        """A path of it is applied: what the user made there meanwhile stays unseen."""
        self.begin(c__a="base\n", c__b="base\n")
        self.agent("rm -r c")
        self.host("echo host >c/new")
        self.apply("/c/a")
        self.assertEqual(sorted(os.listdir(self.base / "c")), ["b", "new"])
        self.apply("/c/b")
        self.assertEqual(self.read("c/new"), "host\n")
        self.w.run("apply", self.w.id)
        self.assertEqual(self.read("c/new"), "host\n")

    def test_a_discard_forgets_what_was_seen(self):
        self.begin(x="base\n")
        self.agent("rm x; echo agent >x; echo agent >y")
        self.host("echo host >x; echo host >y")
        self.refused()
        self.w.warren("discard", "--yes", self.w.id)
        self.agent("rm x; echo agent >x; rm y; echo agent >y")
        self.apply()
        self.assertEqual((self.read("x"), self.read("y")), ("agent\n", "agent\n"))

    def test_checkpoints_have_it(self):
        self.begin(x="base\n")
        self.agent("echo agent >y")
        self.w.warren("checkpoint", self.w.id, "take", "then")
        self.end()
        self.w.warren("discard", "--yes", self.w.id)
        self.w.warren("checkpoint", self.w.id, "restore", "then")
        self.host("echo host >y")
        self.point = self.w.mount()
        self.agent("echo more >>y")
        self.refused()
        self.end()


class LostDirectory(Case):
    def test_a_restored_checkpoint_keeps_the_changes_in_a_directory_that_the_base_lacks_for_now(self):
        """As while the host is on another branch."""
        for is_removed in (False, True):
            with self.subTest(is_removed=is_removed):
                self.doCleanups()
                self.setUp()
                self.fill(d__a="1\n", d__b="1\n", d__e__a="1\n", d__e__b="1\n", other="1\n")
                for path in ("/d/a", "/d/e/a"):
                    self.fs("rm", path)
                self.write("/d/b", "agent\n")
                changes = self.w.changes()
                self.assertEqual(changes, ["D f /d/a", "M f /d/b", "D f /d/e/a"])
                self.w.warren("checkpoint", self.w.id, "take", "then")
                os.rename(self.base / "d", self.w.root / "aside")
                self.w.changes()
                if is_removed:
                    self.fs("rm", "-r", "/d")
                lost = self.w.fails("apply", self.w.id) if not is_removed else None
                self.w.warren("checkpoint", self.w.id, "restore", "then")
                if lost:
                    self.assertEqual(self.w.fails("apply", self.w.id), lost)
                os.rename(self.w.root / "aside", self.base / "d")
                self.assertEqual(self.w.changes(), changes)
                self.w.warren("apply", self.w.id)
                self.assertEqual((os.listdir(self.base / "d/e"), self.read("d/b")), (["b"], "agent\n"))
                self.assertEqual(self.w.changes(), [])

    def test_a_new_file_in_a_directory_that_the_base_has_lost_is_applied(self):
        """Names that sort between a directory and its entries: '.', '-' and ' ' come before '/'."""
        self.fill(a__x="x\n", **{"a.txt": "1\n", "a-b": "1\n"})
        self.write("/a/new", "new\n")
        self.write("/a.txt", "2\n")
        self.write("/a-b", "2\n")
        shutil.rmtree(self.base / "a")
        self.assertEqual(self.w.changes(), ["A d /a", "M f /a-b", "M f /a.txt", "A f /a/new"])
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual([self.read(name) for name in ("a/new", "a.txt", "a-b")], ["new\n", "2\n", "2\n"])


if __name__ == "__main__":
    unittest.main()
