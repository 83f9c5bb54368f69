#!/usr/bin/env python3
"""An apply or an undo that cannot be finished: everything is restored that can be, and only what is not is reported.

    WARREN=path/to/warren rollback.py [-v] [Class.test_name]
"""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from edited import MINE, Steps, append, save_by_rename
from overlaid import mounted

USER = 65534


class Linked(Steps):
    """Files with other names are overwritten in place, after the files that are replaced."""
    NAMES = ("a", "l1", "l2")

    def prepare(self, mode=None, user=0, linked_mode=0o644, roots=()):
        for name in self.NAMES:
            overlaid.write(self.base / name, f"old {name}\n")
        for name in ("l1", "l2"):
            os.link(self.base / name, self.base / f"other-{name}")
            os.chmod(self.base / name, linked_mode)
        self.give(user, self.base)
        for name in roots:
            os.chown(self.base / name, 0, 0)
        self.w.init()

        def change(point):
            for name in self.NAMES:
                overlaid.write(f"{point}/{name}", f"agent {name}\n")
                if mode is not None:
                    os.chmod(f"{point}/{name}", mode)
        self.w.change(change)
        self.give(user, self.w.home)

    def give(self, user, top):
        for path in [top, *top.rglob("*")]:
            os.chown(path, user, user, follow_symlinks=False)

    def as_user(self, *words, inject=None):
        trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={inject}"] if inject else []
        done = subprocess.run([*trace, mounted.program(), *words], cwd=self.w.home, env=self.w.environment(), capture_output=True,
                              timeout=60, user=USER, group=USER, extra_groups=[])
        return done.returncode, (done.stdout + done.stderr).decode()

    def contents(self):
        return {name: self.read(name) for name in self.NAMES}

    def all_of(self, who):
        return {name: f"{who} {name}\n" for name in self.NAMES}


class Permissions(Linked):
    def test_a_file_of_somebody_else_is_refused_before_anything_is_written(self):
        self.prepare(user=USER, roots=("l2",))
        for words in (("apply", "--dry-run", self.w.id), ("apply", self.w.id)):
            status, said = self.as_user(*words)
            self.assertEqual(status, 1, said)
            self.assertIn("open '/l2': Permission denied", said)
            self.assertIn("make it writable, or leave it out", said)
            self.assertEqual((self.contents(), self.w.staging(), self.w.records()), (self.all_of("old"), [], []))
        self.assertEqual(self.as_user("apply", self.w.id, "/a", "/l1")[0], 0)
        self.assertEqual(self.contents(), self.all_of("agent") | {"l2": "old l2\n"})

    def test_an_own_file_that_is_read_only_is_written(self):
        for mode in (0o444, 0o400):
            with self.subTest(oct(mode)):
                self.doCleanups()
                self.setUp()
                self.prepare(mode=mode, user=USER, linked_mode=0o444)
                status, said = self.as_user("apply", self.w.id)
                self.assertEqual((status, self.contents()), (0, self.all_of("agent")), said)
                self.assertEqual(self.read("other-l1"), "agent l1\n")
                self.assertEqual(stat.S_IMODE(os.stat(self.base / "l1").st_mode), mode)
                status, said = self.as_user("undo", self.w.id)
                self.assertEqual((status, self.contents()), (0, self.all_of("old")), said)
                self.assertEqual(stat.S_IMODE(os.stat(self.base / "l1").st_mode), 0o444)

    def test_a_mode_that_forbids_everything(self):
        self.prepare(mode=0, user=USER)
        status, said = self.as_user("apply", self.w.id)
        self.assertEqual((status, self.contents()), (0, self.all_of("agent")), said)
        self.assertEqual(stat.S_IMODE(os.stat(self.base / "l1").st_mode), 0)

    def test_one_file_that_can_no_longer_be_written_does_not_keep_the_others(self):
        """l1 is overwritten when the apply is killed; then somebody takes it away, and l2 is in the way."""
        between = 0
        for nth in range(1, 30):
            with self.subTest(nth=nth):
                self.doCleanups()
                self.setUp()
                self.prepare(mode=0o640, user=USER)
                if self.as_user("apply", self.w.id, inject=f"utimensat:signal=KILL:when={nth}")[0] == 0:
                    break
                before = self.contents()
                if before != self.all_of("agent") | {"l2": "old l2\n"}:
                    continue
                between += 1
                os.chown(self.base / "l1", 0, 0)
                os.chmod(self.base / "l1", 0o644)
                append(self.base / "l2")
                status, said = self.as_user("apply", "--recover", self.w.id)
                self.assertEqual(status, 1, said)
                self.assertEqual(self.contents(), {"a": "old a\n", "l1": "agent l1\n", "l2": "old l2\n" + MINE}, said)
                self.assertEqual(self.aside(said.replace("open '/l1'", "open l1"), "/l1"), "old l1\n")
                self.assertIn("Permission denied", said)
                self.assertEqual(self.as_user("apply", "--recover", self.w.id)[0], 0)
                self.assertEqual(self.as_user("apply", "--force", self.w.id, "/a")[0], 0)
        self.assertGreater(between, 0)


class NotReached(Linked):
    def test_a_file_that_was_saved_before_its_step_is_not_reported(self):
        self.prepare()
        status, said = self.during(1, lambda: self.w.staging() and self.w.records(), lambda: save_by_rename(self.base / "l2"), "apply", self.w.id)
        self.assertEqual(status, 1, said)
        self.assertIn("'/l2' was changed by another process during the apply", said)
        self.assertNotIn("except", said)
        self.assertEqual(self.contents(), self.all_of("old") | {"l2": "old l2\n" + MINE})
        self.assertEqual((self.w.staging(), self.w.records()), ([], []))

    def test_a_renamed_file_that_was_not_put_in_is_not_reported(self):
        self.prepare()

        def change(point):
            os.rename(point + "/l1", point + "/b1")
            os.mkdir(point + "/d")
            os.rename(point + "/l2", point + "/d/b2")
        self.w.change(change)
        for interferes in ("b1", "d"):
            with self.subTest(interferes):
                before = overlaid.snapshot(self.base)
                status, said = self.during(3, lambda: not (self.base / "l1").exists() and not (self.base / "l2").exists(),
                                           lambda: overlaid.write(self.base / interferes, MINE), "apply", self.w.id)
                self.assertEqual(status, 1, said)
                self.assertNotIn("except", said)
                self.assertEqual(self.read(interferes), MINE)
                os.unlink(self.base / interferes)
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
                self.assertEqual((self.w.staging(), self.w.records()), ([], []))

    def test_a_killed_apply_of_a_renamed_file_is_rolled_back_silently(self):
        for nth in range(1, 8):
            with self.subTest(nth=nth):
                self.doCleanups()
                self.setUp()
                self.prepare()
                self.w.change(lambda point: os.rename(point + "/l1", point + "/b1"))
                before = overlaid.snapshot(self.base)
                if not self.kill("renameat2", nth, "apply", self.w.id) or (self.base / "b1").exists():
                    break
                overlaid.write(self.base / "b1", MINE)
                said = self.w.fails("apply", "--recover", self.w.id)
                self.assertNotIn("except", said)
                os.unlink(self.base / "b1")
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
                self.assertEqual((self.w.staging(), self.w.records()), ([], []))
        self.assertGreater(nth, 1)


class Undo(Steps):
    def apply_twice(self):
        """Two agents have the same base, and each has applied a change."""
        self.fill(a="1\n", b="1\n", x="1\n")
        self.w.warren("init", "--base", self.base, "second")
        self.w.warren("fs", "second", "write", "/x", input=b"2\n")
        self.w.warren("apply", "second")
        self.write("/a", "2\n")
        self.write("/b", "2\n")
        self.w.warren("apply", self.w.id)

    def test_an_interrupted_undo_of_another_agent_in_the_same_base_is_finished_first(self):
        for words in (("second",), None):
            with self.subTest(words):
                self.doCleanups()
                self.setUp()
                self.apply_twice()
                (kept,) = json.loads(self.w.warren("undo", "--list", "--json", "second"))
                self.assertTrue(self.kill("renameat2", 3, "undo", self.w.id))
                done = self.w.run("undo", *(words or ("--record", kept["name"])))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(b"was interrupted; it is finished now", done.stderr)
                self.assertIn(b"undone in ", done.stdout)
                self.assertEqual([self.read(name) for name in "abx"], ["1\n", "1\n", "1\n"])

    def test_or_it_refuses(self):
        self.apply_twice()
        self.assertTrue(self.kill("renameat2", 3, "undo", self.w.id))
        (name,) = self.w.staging()
        (self.base / name).rename(self.base / "hidden")  # as if it were on a filesystem that is not mounted
        self.assertIn("an interrupted undo had written to the filesystem at '/'", self.w.fails("undo", "second"))
        self.assertEqual(self.read("x"), "2\n")
        (self.base / "hidden").rename(self.base / name)
        self.w.warren("undo", "second")
        self.assertEqual([self.read(name) for name in "abx"], ["1\n", "1\n", "1\n"])

    def move_mount(self, source, target):
        """Not by `mount --move`, which refuses what lies in a shared mount."""
        subprocess.run(["mount", "--bind", source, target], check=True)
        subprocess.run(["umount", source], check=True)

    def test_a_mount_that_is_missing_is_waited_for(self):
        self.fill(a="1\n")
        inner = self.base / "d"
        inner.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", inner], check=True)
        self.addCleanup(mounted.detach, inner)
        for name in ("x", "y"):
            overlaid.write(inner / name, "1\n")

        def change(point):
            for name in ("a", "d/x", "d/y"):
                overlaid.write(f"{point}/{name}", "2\n")
        self.w.change(change)
        self.w.warren("apply", self.w.id)
        for nth in range(1, 12):
            self.kill("renameat2", nth, "undo", self.w.id)
            if "1\n" in (self.read("d/x"), self.read("d/y")):
                break
        aside = self.w.root / "aside"
        aside.mkdir()
        self.move_mount(inner, aside)
        self.addCleanup(mounted.detach, aside)
        for _ in range(2):
            said = self.w.fails("undo", self.w.id)
            self.assertIn("an interrupted undo had written to the filesystem at '/d' in the base, which is not mounted now", said)
            self.assertEqual(len(self.w.records()), 1)
        self.move_mount(aside, inner)
        self.w.warren("undo", self.w.id)
        self.assertEqual([self.read(name) for name in ("a", "d/x", "d/y")], ["1\n", "1\n", "1\n"])
        self.assertEqual((self.w.staging(), self.w.records(), sorted(os.listdir(inner))), ([], [], ["x", "y"]))

    def test_an_undo_succeeds_if_what_it_replaced_cannot_be_kept(self):
        self.fill(a="1\n")
        self.write("/a", "2\n")
        self.w.warren("apply", self.w.id)
        # Two calls exchange the files; the third keeps the agent's version in the home directory.
        with self.traced("renameat2:error=ENOSPC:when=3", "undo", self.w.id) as process:
            out, said = process.communicate(timeout=60)
        self.assertEqual((process.returncode, self.read("a")), (0, "1\n"), said)
        self.assertIn(b"could not be kept, so this cannot be undone", said)
        self.assertIn(b"undone in ", out)
        self.assertEqual((self.w.staging(), self.w.records(), os.listdir(self.w.home / ".agentfs/undo")), ([], [], []))
        self.write("/a", "3\n")
        self.w.warren("apply", self.w.id)


if __name__ == "__main__":
    mounted.need_fuse()
    if not shutil.which("strace"):
        sys.exit("this test needs strace")
    unittest.main()
