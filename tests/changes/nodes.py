#!/usr/bin/env python3
"""apply and discard with other filesystems and hard links in the base.

    WARREN=path/to/warren nodes.py [-v] [Class.test_name]
"""
import errno
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted


class OtherFilesystems(Case):
    """Another filesystem mounted in the base, and a part of the base mounted in it a second time."""

    def setUp(self):
        super().setUp()
        self.fill(a="a\n", keep="k\n", d__x="x\n", d__m__covered="c\n", bound__f="bound\n", **{"file": "file\n"})
        self.mount("-t", "tmpfs", "tmpfs", "d/m")
        for name in ("one", "two", "sub/deep", "gone/1", "gone/2"):
            overlaid.write(self.base / "d/m" / name, f"{name}\n")

    def mount(self, *words):
        where = self.base / words[-1]
        subprocess.run(["mount", *words[:-1], where], check=True)
        self.w.points.append(where)

    def change(self, *steps):
        def run(point):
            for step in steps:
                step(pathlib.Path(point))
            return overlaid.snapshot(point)
        self.before = overlaid.snapshot(self.base)
        self.merged = self.w.change(run)

    def apply(self, *words):
        self.w.warren("apply", *words, self.w.id)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), self.merged), [])
        self.assertEqual(self.w.changes(), [])
        self.assertEqual(self.w.change(overlaid.snapshot), self.merged)

    def refuses(self, text):
        for options in ([], ["--dry-run"]):
            self.assertIn(text, self.w.fails("apply", self.w.id, *options))
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), self.before), [])

    def test_changes_of_every_kind_are_applied_where_they_are(self):
        self.change(lambda p: (p / "a").write_text("new a\n"),
                    lambda p: (p / "d/m/one").write_text("new one\n"),
                    lambda p: (p / "d/m/two").rename(p / "d/m/2"),
                    lambda p: overlaid.write(p / "d/m/new/tree/f", "f\n"),
                    lambda p: shutil.rmtree(p / "d/m/gone"),
                    lambda p: (p / "d/m/sub").rename(p / "d/m/moved"),
                    lambda p: (p / "d/m/moved/deep").chmod(0o600),
                    lambda p: (p / "d/m").chmod(0o750),
                    lambda p: (p / "d/x").unlink())
        self.apply()
        self.assertTrue(os.path.ismount(self.base / "d/m"))

    def test_a_file_is_moved_from_one_to_the_other(self):
        self.change(lambda p: (p / "a").rename(p / "d/m/a"), lambda p: (p / "d/m/one").rename(p / "one"),
                    lambda p: (p / "one").write_text("new\n"))
        self.assertEqual(self.w.changes(), ["R f /a -> /d/m/a", "R f /d/m/one -> /one"])
        self.apply()

    def test_a_directory_is_copied_from_one_to_the_other_as_on_the_host(self):
        def cannot(function):
            with self.assertRaises(OSError) as refused:
                function()
            self.assertEqual(refused.exception.errno, errno.EXDEV)

        def move(p):
            cannot(lambda: (p / "d/m/sub").rename(p / "sub"))
            (p / "new").mkdir()
            cannot(lambda: (p / "d/m/sub").rename(p / "new/sub"))
            cannot(lambda: (p / "bound").rename(p / "d/m/bound"))
            cannot(lambda: (p / "d/m").rename(p / "m"))
            (p / "new").rename(p / "d/m/new")
            shutil.move(p / "d/m/sub", p / "sub")
            shutil.move(p / "bound", p / "d/m/bound")
        self.change(move)
        self.apply()

    def test_a_directory_with_a_mount_in_it_is_renamed_with_it(self):
        self.change(lambda p: (p / "d").rename(p / "e"))
        self.w.points.append(self.base / "e/m")
        self.apply()
        self.assertTrue(os.path.ismount(self.base / "e/m"))

    def test_the_same_filesystem_mounted_twice_counts_as_another(self):
        self.mount("--bind", self.base / "keep", "file")
        (self.base / "again").mkdir()
        self.mount("--bind", self.base / "bound", "again")
        self.change(lambda p: (p / "again/f").write_text("new\n"), lambda p: (p / "again/g").write_text("g\n"))
        self.w.warren("apply", self.w.id, "/again")
        for name in ("bound", "again"):
            self.assertEqual([(self.base / name / f).read_text() for f in "fg"], ["new\n", "g\n"])
        # A file that is a mount point is written in place.
        self.change(lambda p: (p / "file").write_text("new file\n"))
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("keep"), self.read("file")), ("new file\n",) * 2)
        self.assertEqual(self.w.changes(), [])

    def test_a_directory_that_is_mounted_inside_itself_is_not_entered(self):
        (self.base / "bound/again").mkdir()
        self.mount("--bind", self.base / "bound", "bound/again")
        said = self.w.fails("fs", self.w.id, "write", "/bound/again/f", input=b"new\n")
        self.assertIn("'/bound/again' is a directory above it, mounted again", said)
        def look(p):
            self.assertRaises(OSError, os.listdir, p / "bound/again")
            (p / "bound/f").write_text("new\n")
        self.change(look)
        self.w.warren("apply", self.w.id)
        self.assertEqual(self.read("bound/f"), "new\n")

    def test_a_change_that_would_move_a_mount_point_is_refused(self):
        self.change(lambda p: shutil.rmtree(p / "d"))
        self.refuses("'/d/m' is a mount point")
        self.w.warren("discard", "--yes", self.w.id)
        self.change(lambda p: (p / "d/m").rename(p / "d/n"))
        self.refuses("'/d/m' is a mount point")
        self.w.warren("discard", "--yes", self.w.id)
        overlaid.write(self.base / "bound/sub/f", "f\n")
        (self.base / "again").mkdir()
        self.mount("--bind", self.base / "bound", "again")
        self.change(lambda p: (p / "again/sub").rename(p / "sub"))
        self.refuses("renamed from another filesystem")
        self.w.warren("discard", "--yes", self.w.id)
        self.change(lambda p: (p / "d/m/one").write_text("new\n"), lambda p: (p / "d").rename(p / "e"))
        self.refuses("would be moved")

    def test_a_filesystem_that_cannot_be_written_changes_nothing(self):
        self.change(lambda p: (p / "a").write_text("new\n"), lambda p: (p / "d/m/one").write_text("new\n"))
        subprocess.run(["mount", "-o", "remount,ro", self.base / "d/m"], check=True)
        self.refuses("ead-only")
        subprocess.run(["mount", "-o", "remount,rw", self.base / "d/m"], check=True)
        self.apply()

    def test_a_recovery_waits_for_the_filesystem(self):
        self.change(lambda p: (p / "a").write_text("new\n"), lambda p: (p / "d/m/one").write_text("new\n"))
        subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=renameat2:signal=KILL:when=2",
                        mounted.program(), "apply", self.w.id], cwd=self.w.home, env=self.w.environment(), capture_output=True, timeout=60)
        self.mount("-t", "tmpfs", "tmpfs", "d/m")
        said = self.w.fails("apply", "--recover", self.w.id)
        self.assertIn("filesystem at '/d/m' in the base, which is not mounted now", said)
        mounted.LIBC.umount2(os.fsencode(self.base / "d/m"), 0)
        self.w.warren("apply", "--recover", self.w.id)
        self.assertEqual(self.w.changes(), [])
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), self.merged), [])


class HardLinks(Case):
    """Files of the base with several names. The result must equal that of the same steps on a plain copy."""

    def setUp(self):
        super().setUp()
        for name in ("a", "d/b", "c"):
            overlaid.write(self.base / name, "")
        overlaid.write(self.base / "d" / "other", "other\n")
        overlaid.write(self.base / "c", "old\n")
        for name in ("a", "d/b"):
            (self.base / name).unlink()
            os.link(self.base / "c", self.base / name)
        self.w.init()

    def do(self, *steps):
        """Performs the steps on a copy, for comparison, and through the mount."""
        self.model = self.w.root / "model"
        subprocess.run(["cp", "-a", self.base, self.model], check=True)
        for top in (self.model, None):
            def run(point):
                for step in steps:
                    step(pathlib.Path(point))
                return overlaid.snapshot(point), overlaid.links(point)
            if top:
                run(top)
            else:
                self.merged = self.w.change(run)
        self.assertEqual(self.merged, (overlaid.snapshot(self.model), overlaid.links(self.model)))

    def apply(self, *paths):
        self.w.warren("apply", self.w.id, *paths)

    def finish(self):
        """Compares base and copy, after the last apply."""
        self.assertEqual(self.w.changes(), [])
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), overlaid.snapshot(self.model)), [])
        self.assertEqual(overlaid.links(self.base), overlaid.links(self.model))
        self.assertEqual(self.w.change(overlaid.links), overlaid.links(self.model))
        self.assertEqual(self.lost_links(), [])
        self.w.fsck()

    def lost_links(self):
        return json.loads(self.w.warren("sql", self.w.id, "--json", "SELECT base_path FROM wr_lost_link"))

    def write_a(self, top):
        (top / "a").write_text("new\n")

    def test_one_that_was_written_and_deleted_is_modified_under_its_other_names(self):
        self.do(self.write_a, lambda top: (top / "a").unlink())
        self.assertEqual(self.w.changes(), ["D f /a", "M f /c"])
        self.assertIn("+new", self.w.warren("diff", "--patch", self.w.id, "/c").decode())
        self.apply()
        self.finish()

    def test_the_last_other_name_is_modified_too(self):
        self.do(self.write_a, lambda top: (top / "a").unlink(), lambda top: (top / "c").unlink())
        self.assertEqual(self.w.changes(), ["D f /a", "D f /c", "M f /d/b"])
        self.apply()
        self.finish()

    def test_also_where_a_renamed_directory_has_it(self):
        self.do(self.write_a, lambda top: (top / "a").unlink(), lambda top: (top / "c").unlink(),
                lambda top: (top / "d").rename(top / "e"))
        self.assertEqual(self.w.changes(), ["D f /a", "D f /c", "R d /d -> /e", "M f /e/b"])
        self.apply()
        self.finish()

    def test_its_parts_can_be_applied_one_after_the_other(self):
        for order in (["/c", "/a"], ["/a", "/c"]):
            with self.subTest(order=order):
                self.do(self.write_a, lambda top: (top / "a").unlink())
                for path in order:
                    self.apply(path)
                    self.assertEqual(self.w.change(overlaid.snapshot), self.merged[0])
                self.finish()
                shutil.rmtree(self.model)
                (self.base / "c").write_text("old\n")
                os.link(self.base / "c", self.base / "a")

    def test_one_that_was_renamed_and_written_stays_one_file(self):
        self.do(lambda top: (top / "a").rename(top / "z"), lambda top: (top / "z").write_text("new\n"))
        self.assertEqual(self.w.changes(), ["R f /a -> /z"])
        self.apply()
        self.finish()

    def test_one_that_lost_its_name_and_gets_another_is_not_an_orphan(self):
        self.do(self.write_a, lambda top: (top / "a").unlink(), lambda top: (top / "c").rename(top / "z"))
        self.w.fsck()
        self.assertEqual(self.w.changes(), ["D f /c", "R f /a -> /z"])
        self.apply()
        self.finish()

    def test_one_that_the_agent_gives_a_second_name_is_not_a_conflict(self):
        self.do(self.write_a, lambda top: (top / "a").unlink(), lambda top: os.link(top / "c", top / "n"))
        self.w.fsck()
        self.apply()
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), self.merged[0]), [])
        self.assertEqual(self.w.changes(), [])

    def test_a_changed_mode_alone_is_seen(self):
        self.do(lambda top: (top / "a").chmod(0o600), lambda top: (top / "a").unlink())
        self.assertEqual(self.w.changes(), ["D f /a", "M f /c"])
        self.apply()
        self.finish()

    def test_a_base_that_has_changed_too_is_a_conflict(self):
        self.do(self.write_a, lambda top: (top / "a").unlink())
        (self.base / "c").write_text("of the host\n")
        self.assertIn("was changed in the base", self.w.fails("apply", self.w.id))
        self.assertEqual(self.read("c"), "of the host\n")
        self.w.warren("apply", "--force", self.w.id)
        self.finish()

    def test_deleting_a_directory_that_contains_one_leaves_the_right_count(self):
        self.do(lambda top: shutil.rmtree(top / "d"))
        self.apply()
        self.finish()

    def test_discarding_restores_the_base_with_its_counts(self):
        fresh = overlaid.snapshot(self.base), overlaid.links(self.base)
        cases = {
            "deleted": [lambda top: (top / "a").unlink()],
            "written and deleted": [self.write_a, lambda top: (top / "a").unlink()],
            "another deleted": [self.write_a, lambda top: (top / "d" / "b").unlink()],
            "with its directory": [self.write_a, lambda top: shutil.rmtree(top / "d")],
            "replaced": [lambda top: (top / "new").write_text("x"), lambda top: (top / "new").rename(top / "a")],
            "deleted and made anew": [lambda top: (top / "a").unlink(), lambda top: (top / "a").write_text("x")],
            "all": [self.write_a, lambda top: (top / "a").unlink(), lambda top: (top / "c").unlink(),
                    lambda top: shutil.rmtree(top / "d")],
        }
        for name, steps in cases.items():
            for is_piecewise in (False, True):
                with self.subTest(case=name, is_piecewise=is_piecewise):
                    self.do(*steps)
                    while self.w.changes():
                        paths = ["/" + self.w.changes()[-1].split(" /")[-1]] if is_piecewise else []
                        self.w.warren("discard", "--yes", self.w.id, *paths)
                    self.assertEqual(self.w.change(lambda p: (overlaid.snapshot(p), overlaid.links(p))), fresh)
                    self.assertEqual(self.lost_links(), [])
                    self.w.fsck()
                    shutil.rmtree(self.model)

    def test_discarding_one_of_several_counts_as_a_fresh_overlay_does(self):
        self.do(self.write_a, lambda top: (top / "c").unlink(), lambda top: shutil.rmtree(top / "d"))
        self.w.warren("discard", "--yes", self.w.id, "/d")
        shutil.copytree(self.base / "d", self.model / "d")
        (self.model / "d" / "b").unlink()
        os.link(self.model / "a", self.model / "d" / "b")
        self.assertEqual(self.w.change(overlaid.links), overlaid.links(self.model))
        self.assertEqual(self.w.changes(), ["M f /a", "D f /c"])
        self.w.warren("discard", "--yes", self.w.id, "/c")
        os.link(self.model / "a", self.model / "c")
        self.assertEqual(self.w.change(overlaid.links), overlaid.links(self.model))
        self.assertEqual(self.w.changes(), ["M f /a"])
        self.apply()
        self.finish()


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
