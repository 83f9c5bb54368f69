#!/usr/bin/env python3
"""undo: what an apply replaced comes back, and nothing that was changed since is overwritten.

    WARREN=path/to/warren undo.py [-v] [Class.test_name]
"""
import itertools
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted


class Undo(Case):
    def kept(self, *words):
        return json.loads(self.w.warren("undo", "--list", "--json", *words))

    def change_everything(self):
        self.fill(a="old a\n", b="old b\n", d__x="x\n", d__s__y="y\n", e__f="f\n", gone__1="1\n", linked="l\n", mode="m\n")
        os.link(self.base / "linked", self.base / "second")
        os.setxattr(self.base / "a", "user.k", b"v")
        self.before = overlaid.snapshot(self.base, with_times=True), overlaid.links(self.base)

        def change(p):
            overlaid.write(p + "/a", "new a\n")
            os.rename(p + "/b", p + "/c")
            os.rename(p + "/d", p + "/moved")
            overlaid.write(p + "/moved/x", "new x\n")
            os.chmod(p + "/moved/s/y", 0o600)
            overlaid.write(p + "/new/deep/f", "new\n")
            os.rename(p + "/e/f", p + "/new/f")
            shutil.rmtree(p + "/gone")
            overlaid.write(p + "/gone", "now a file\n")
            overlaid.write(p + "/linked", "new linked\n")
            os.chmod(p + "/mode", 0o600)
            os.symlink("a", p + "/link")
        self.w.change(change)

    def test_everything_comes_back_and_again(self):
        self.change_everything()
        out = self.w.warren("apply", self.w.id).decode()
        self.assertIn("  warren undo a ", out)
        self.assertEqual(self.w.staging(), [])
        after = overlaid.snapshot(self.base, with_times=True), overlaid.links(self.base)
        self.assertIn("undone in " + str(self.base), self.w.warren("undo", self.w.id).decode())
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), self.before[0]), [])
        self.assertEqual(overlaid.links(self.base), self.before[1])
        self.assertEqual((self.w.staging(), self.w.records()), ([], []))
        # The agent's version was kept in turn.
        (kept,) = self.kept(self.w.id)
        self.assertEqual(kept["kind"], "undo")
        self.assertIn("no apply of 'a' can be undone", self.w.fails("undo", self.w.id))
        self.w.warren("undo", "--record", kept["name"])
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), after[0]), [])
        self.assertEqual(overlaid.links(self.base), after[1])

    def test_a_forced_apply_is_undone(self):
        self.fill(a="1\n")
        self.write("/a", "agent\n")
        overlaid.write(self.base / "a", "of the host\n")
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual(self.read("a"), "agent\n")
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.read("a"), "of the host\n")

    def test_what_it_did_not_write_stays_a_conflict(self):
        self.fill(src__a="1\n2\n3\n", src__gone="1\n")
        self.fs("chmod", "700", "/src")
        self.w.warren("apply", self.w.id)
        self.write("/src/a", "agent\n2\n3\n")
        overlaid.write(self.base / "src/a", "user\n2\n3\n")
        self.assertIn("conflict: /src/a: it was changed in the base", self.w.fails("apply", self.w.id))
        self.w.warren("undo", self.w.id)
        self.assertIn("conflict: /src/a: it was changed in the base", self.w.fails("apply", self.w.id))
        self.assertEqual(self.read("src/a"), "user\n2\n3\n")

    def test_an_edit_after_the_undo_is_a_conflict(self):
        for name in ("single", "linked"):  # one is replaced by the undo, the other one is overwritten
            with self.subTest(name):
                self.doCleanups()
                self.setUp()
                overlaid.write(self.base / "linked", "1\n")
                os.link(self.base / "linked", self.base / "second")
                self.fill(single="1\n")
                self.write("/" + name, "agent\n")
                self.w.warren("apply", self.w.id)
                self.write("/" + name, "again\n")
                self.w.warren("undo", self.w.id)
                self.assertEqual(self.read(name), "1\n")
                self.w.warren("apply", "--dry-run", self.w.id)  # the agent's change is one to what the undo restored
                overlaid.write(self.base / name, "2\n")
                self.assertIn(f"conflict: /{name}: ", self.w.fails("apply", self.w.id))
                self.assertEqual(self.read(name), "2\n")

    def test_what_was_written_again_as_it_was_is_no_conflict(self):
        self.fill(a="old a\n", mode="m\n", gone="1\n")

        def change(p):
            overlaid.write(p + "/a", "new a\n")
            overlaid.write(p + "/new/deep/f", "new\n")
            os.symlink("a", p + "/link")
        self.w.change(change)
        before = overlaid.snapshot(self.base)
        self.w.warren("apply", self.w.id)
        after = overlaid.snapshot(self.base)
        overlaid.write(self.base / "other", "stays\n")
        for name in ("a", "new", "link"):  # as `git checkout` of another branch and back does
            os.rename(self.base / name, self.w.root / name)
            subprocess.run(["cp", "-r", "--no-dereference", "--preserve=mode", self.w.root / name, self.base / name], check=True)
            os.utime(self.base / name, (1, 1), follow_symlinks=False)
        self.assertEqual(self.w.warren("undo", self.w.id).decode().count("conflict"), 0)
        (self.base / "other").unlink()
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
        (kept,) = self.kept(self.w.id)
        self.w.warren("undo", "--record", kept["name"])
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), after), [])

    def test_another_mode_is_a_conflict(self):
        self.fill(a="1\n")
        self.write("/a", "agent\n")
        self.w.warren("apply", self.w.id)
        os.chmod(self.base / "a", 0o640)
        self.assertIn("conflict: /a: it was changed since the apply", self.w.fails("undo", self.w.id))

    def test_what_was_changed_since_is_a_conflict(self):
        def edit(name, content="changed since\n"):
            return lambda: overlaid.write(self.base / name, content)
        cases = {"/a": edit("a"), "/new": edit("new/deep/f"), "/c": edit("c"), "/gone": edit("gone"), "/linked": edit("linked"),
                 "/moved/x": edit("moved/x"), "/mode": lambda: os.chmod(self.base / "mode", 0o640), "/b": edit("b"), "/d": edit("d/x")}
        for path, change in cases.items():
            with self.subTest(path):
                self.doCleanups()
                self.setUp()
                self.change_everything()
                self.w.warren("apply", self.w.id)
                change()
                before = overlaid.snapshot(self.base, with_times=True)
                said = self.w.fails("undo", self.w.id)
                self.assertRegex(said, f"conflict: {path}: (it was changed since the apply|something else is there now)")
                self.assertEqual(sum(line.startswith("conflict: ") for line in said.splitlines()), 1, said)
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), before), [])
                self.assertEqual((self.w.staging(), self.w.records()), ([], []))
                self.assertEqual(len(self.kept()), 1)

    def test_a_file_with_conflict_markers_is_the_agents_again(self):
        """Its session, which nobody uses, has not kept it."""
        text = "1\n2\n3\n4\n5\n"
        self.fill(d__a=text, d__twin=text)
        os.link(self.base / "d/twin", self.base / "second")
        for name in ("a", "twin"):
            self.write("/d/" + name, text.replace("1", "AGENT"))
            (self.base / "d" / name).write_text(text.replace("1", "USER").replace("5", "USER"))
        before, conflicts = overlaid.snapshot(self.base), self.w.lines()
        self.assertEqual([line.partition("  [conflict: ")[0] for line in conflicts], ["M f /d/a", "M f /d/twin"])
        for _ in range(2):
            self.w.fails("apply", "--conflict=markers", self.w.id)
            marked = overlaid.snapshot(self.base)
            self.assertIn("<<<<<<<", self.read("d/a"))
            self.assertEqual(self.w.lines(), [])
            self.w.warren("undo", self.w.id)
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
            self.assertEqual(self.w.lines(), conflicts)
            self.assertEqual(self.fs("cat", "/d/a").decode(), text.replace("1", "AGENT"))
            self.assertEqual(self.fs("cat", "/second").decode(), text.replace("1", "AGENT"))
        self.w.fails("apply", "--conflict=markers", self.w.id)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), marked), [])
        self.w.fsck()

    def apply_with_markers(self):
        """Returns what is listed before."""
        self.write("/a", "AGENT\n2\n")
        (self.base / "a").write_text("USER\n2\n")
        conflicts = self.w.lines()
        self.assertIn("[conflict: ", conflicts[0])
        self.w.fails("apply", "--conflict=markers", self.w.id)
        self.assertIn("<<<<<<<", self.read("a"))
        return conflicts

    def test_a_new_agent_in_the_place_of_the_old_one_gets_nothing_of_it(self):
        """Its file may even have the same inode."""
        self.fill(a="1\n2\n")
        self.w.warren("init", "--base", self.base, "b")
        self.apply_with_markers()
        self.w.file.write_bytes((self.w.home / ".agentfs/b.db").read_bytes())
        self.assertEqual(self.w.lines(), [])
        self.w.warren("undo", self.w.id)
        self.assertEqual((self.read("a"), self.w.lines()), ("USER\n2\n", []))
        self.assertEqual(self.fs("cat", "/a").decode(), "USER\n2\n")

    def test_another_agent_whose_file_has_the_same_inode_has_applied_nothing(self):
        self.fill(a="1\n")
        self.write("/a", "2\n")
        self.w.warren("apply", self.w.id)
        self.w.warren("init", "--base", self.base, "b")
        folder = self.w.home / ".agentfs"
        os.rename(self.w.file, folder / "c.db")
        (folder / "c.db").write_bytes((folder / "b.db").read_bytes())
        self.assertIn("no apply of 'c' can be undone", self.w.fails("undo", "c"))
        self.assertEqual((self.read("a"), self.kept("c")), ("2\n", []))
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.read("a"), "1\n")

    def test_an_edit_under_another_name_of_a_file_with_conflict_markers_stays(self):
        for is_mounted in (False, True):
            with self.subTest(is_mounted=is_mounted):
                self.doCleanups()
                self.setUp()
                overlaid.write(self.base / "a", "1\n2\n")
                os.link(self.base / "a", self.base / "z")
                self.w.init()
                self.apply_with_markers()
                edited = self.read("a") + "again\n"
                point = self.w.mount()
                with open(point / "z", "a") as file:
                    file.write("again\n")
                if not is_mounted:
                    self.w.umount(point)
                self.w.warren("undo", self.w.id)
                if is_mounted:
                    self.w.umount(point)
                self.assertEqual(self.read("z"), "USER\n2\n")
                self.assertEqual(self.fs("cat", "/z").decode(), edited)
                self.w.fsck()

    def test_a_file_with_conflict_markers_has_the_mode_and_attributes_of_the_agent_again(self):
        self.fill(a="1\n2\n")
        os.setxattr(self.base / "a", "user.old", b"1")

        def change(point):
            os.chmod(point + "/a", 0o750)
            os.chown(point + "/a", 7, 8)
            os.setxattr(point + "/a", "user.new", b"2")
            os.removexattr(point + "/a", "user.old")
        self.w.change(change)
        self.apply_with_markers()
        self.w.warren("undo", self.w.id)
        self.assertEqual(os.getxattr(self.base / "a", "user.old"), b"1")

        def check(point):
            info = os.stat(point + "/a")
            self.assertEqual((stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid), (0o750, 7, 8))
            self.assertEqual([name for name in os.listxattr(point + "/a") if name.startswith("user.")], ["user.new"])
            self.assertEqual(pathlib.Path(point + "/a").read_text(), "AGENT\n2\n")
        self.w.change(check)

    def test_a_directory_that_something_is_to_return_to_is_named_if_it_is_gone(self):
        gone, other = "it no longer exists", "it is no longer a directory"
        cases = {
            "link to nothing": (["rm", "/d/s/a"], "rm -r d/s; ln -s nowhere d/s", "/d/s", other),
            "link to itself": (["rm", "/d/s/a"], "rm -r d/s; ln -s s d/s", "/d/s", other),
            "file": (["rm", "/d/s/a"], "rm -r d/s; echo f >d/s", "/d/s", other),
            "nothing": (["rm", "/d/s/a"], "rm -r d/s", "/d/s", gone),
            "nothing above": (["rm", "/d/s/a"], "rm -r d", "/d", gone),
            "moved, with a link": (["rm", "/d/s/a"], "mv d x; ln -s x d", "/d", other),
            "a rename": (["mv", "/d/s", "/t"], "mv d x; ln -s x d", "/d", other),
            "a rename in a renamed directory": (["mv", "/d/s/a", "/d/q"], "rm -r d/s; ln -s x d/s", "/d/s", other),
            "a directory": (["rm", "-r", "/d/s"], "rm -r d; ln -s x d", "/d", other),
        }
        for name, (work, user, path, why) in cases.items():
            with self.subTest(name):
                self.doCleanups()
                self.setUp()
                self.fill(d__s__a="1\n", d__s__b="2\n")
                self.fs(*work)
                self.w.warren("apply", self.w.id)
                subprocess.run(["sh", "-ec", user], cwd=self.base, check=True)
                before = overlaid.snapshot(self.base, with_times=True)
                self.assertIn(f"conflict: {path}: {why}, and something in it is to be restored", self.w.fails("undo", self.w.id))
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), before), [])
                self.assertEqual((self.w.staging(), self.w.records()), ([], []))

    def test_what_returns_together_with_its_directory_is_no_conflict(self):
        self.fill(d__s__a="1\n", d__s__b="2\n", e__x="x\n")

        def change(p):
            os.unlink(p + "/d/s/a")
            os.rename(p + "/d", p + "/moved")
            os.rename(p + "/e/x", p + "/x")
            os.rmdir(p + "/e")
        self.w.change(change)
        before = overlaid.snapshot(self.base, with_times=True)
        self.w.warren("apply", self.w.id)
        self.assertEqual(sorted(os.listdir(self.base)), ["moved", "x"])
        self.w.warren("undo", self.w.id)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), before), [])

    EXCHANGED = "mv a t; mv b a; mv t b; "
    AFTER_AN_EXCHANGE = {
        "a directory renamed": EXCHANGED + "mv a/s a/s2",
        "both renamed": EXCHANGED + "mv a/s a/s2; mv b/s b/s2",
        "a file renamed": EXCHANGED + "mv a/f a/f2",
        "a directory moved out": EXCHANGED + "mv a/s out",
        "a directory moved to the other": EXCHANGED + "mv a/s b/s2",
        "the directories in them exchanged": EXCHANGED + "mv a/s t; mv b/s a/s; mv t b/s",
        "a directory removed": EXCHANGED + "rm -r a/s",
        "a file removed": EXCHANGED + "rm b/f",
        "a file replaced by a directory": EXCHANGED + "rm a/f; mkdir a/f; echo new >a/f/new",
        "a file edited": EXCHANGED + "echo edited >a/f; mv b/s b/s2",
        "three in a circle": "mv a t; mv b a; mv c b; mv t c; mv a/s a/s2; mv b/f b/f2; rm -r c/s",
        "twice, one in the other": EXCHANGED + "mv a/s/u t; mv a/s/v a/s/u; mv t a/s/v; mv a/s/u/g a/s/u/g2",
        "in a new directory": "mkdir n; mv a t; mv b a; mv t n/b; mv n b; mv a/s b/s",
    }

    def fill_three(self):
        for name in "abc":
            for path in ("f", "s/f" + name, "s/u/g", "s/v/g"):
                overlaid.write(self.base / name / path, f"{path} of {name}\n")
        self.w.init()

    def test_directories_that_exchanged_names_come_back_with_what_is_in_them(self):
        for name, script in self.AFTER_AN_EXCHANGE.items():
            with self.subTest(name):
                self.doCleanups()
                self.setUp()
                self.fill_three()
                before = overlaid.snapshot(self.base, with_times=True)
                self.w.change(lambda point: subprocess.run(["sh", "-ec", script], cwd=point, check=True))
                self.w.warren("apply", self.w.id)
                after = overlaid.snapshot(self.base, with_times=True)
                for wanted in (before, after, before):
                    self.w.warren("undo", "--record", self.kept(self.w.id)[0]["name"])
                    self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), wanted), [])
                    self.assertEqual((self.w.staging(), self.w.records()), ([], []))
                self.w.fsck()

    def test_a_name_that_was_taken_in_a_renamed_directory_is_a_conflict(self):
        for script in (self.EXCHANGED + "mv a/s a/s2", "mv b e; mv e/s e/s2", "mv b e; rm -r e/s"):
            with self.subTest(script):
                self.doCleanups()
                self.setUp()
                self.fill_three()
                self.w.change(lambda point: subprocess.run(["sh", "-ec", script], cwd=point, check=True))
                self.w.warren("apply", self.w.id)
                renamed = "e" if (self.base / "e").exists() else "a"
                overlaid.write(self.base / renamed / "s", "the user's\n")
                before = overlaid.snapshot(self.base, with_times=True)
                self.assertIn(f"conflict: /{renamed}/s: something else is there now", self.w.fails("undo", self.w.id))
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), before), [])

    def in_session(self, session, script):
        done = self.w.run("run", "--session", session, "--", "sh", "-ec", script, cwd=self.base)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_another_session_has_seen_a_file_that_an_undo_has_brought_back(self):
        prepare = "echo f >f; ln -s f link; mkdir d e; echo 1 >d/1; echo 2 >d/2; chmod 4750 d/2; truncate -s 20M d/large"
        remove = "rm f link d/1 d/2 d/large"
        works = {
            "removed in both": (remove, remove),
            "moved in the other": (remove, "for n in f link d/1 d/2 d/large; do mv $n e; done"),
            "replaced in the other": (remove, "rm f; mkdir f; echo new >f/new; rm link; echo new >link; rm d/1; ln -s . d/1"),
            "written in the other": (remove, "echo more >>f; chmod 600 d/1; printf x | dd of=d/large bs=1 conv=notrunc"),
            "moved in both": ("mv f e; mv link e; mv d/1 d/large e", remove),
        }
        for name, (one, other) in works.items():
            with self.subTest(name):
                self.doCleanups()
                self.setUp()
                subprocess.run(["sh", "-ec", prepare], cwd=self.base, check=True)
                before = overlaid.snapshot(self.base, with_times=True)
                self.in_session("one", one)
                self.in_session("other", other)
                for _ in range(2):
                    self.w.warren("apply", "session:one")
                    self.w.warren("undo", "session:one")
                    self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), before), [])
                    self.assertEqual({os.lstat(self.base / path).st_nlink for path in ("f", "link", "d/1", "d/large")}, {1})
                    self.in_session("one", one)
                self.w.warren("apply", "--yes", "session:other")
                self.assertEqual((self.w.staging(), self.w.records()), ([], []))

    def test_an_edit_of_a_file_that_an_undo_has_brought_back_is_a_conflict(self):
        self.fill(f="1\n", g="1\n")
        for session in ("one", "other"):
            self.in_session(session, "rm f g")
        self.w.warren("apply", "session:one")
        self.w.warren("undo", "session:one")
        for name, number in (("f", os.stat(self.base / "f").st_ino), ("g", None)):
            if number is None:
                (self.base / name).unlink()
            overlaid.write(self.base / name, "2\n")
        said = self.w.fails("apply", "session:other")
        self.assertIn("conflict: /f: ", said)
        self.assertIn("conflict: /g: ", said)
        self.assertEqual((self.read("f"), self.read("g")), ("2\n", "2\n"))

    def test_applies_are_undone_one_after_the_other(self):
        self.fill(a="1\n")
        for content in ("2\n", "3\n"):
            self.write("/a", content)
            self.w.warren("apply", self.w.id)
        for content in ("2\n", "1\n"):
            self.w.warren("undo", self.w.id)
            self.assertEqual(self.read("a"), content)

    def test_names_of_one_file_come_back_as_one_file(self):
        overlaid.write(self.base / "x", "1\n")
        os.link(self.base / "x", self.base / "y")
        overlaid.write(self.base / "single", "1\n")
        self.w.init()
        for name in ("/x", "/y", "/single"):
            self.fs("rm", name)
        self.w.warren("apply", self.w.id)
        self.assertEqual(os.listdir(self.base), [])
        self.w.warren("undo", self.w.id)
        self.assertEqual(overlaid.links(self.base), ([[b"/x", b"/y"]], {b"/x": 2, b"/y": 2, b"/single": 1}))
        self.assertEqual(self.read("y"), "1\n")
        (kept,) = self.kept(self.w.id)
        self.w.warren("undo", "--record", kept["name"])
        self.assertEqual(os.listdir(self.base), [])

    def test_names_of_a_replaced_file_come_back_as_one_file(self):
        overlaid.write(self.base / "x", "1\n")
        os.link(self.base / "x", self.base / "y")
        self.w.init()
        for name in ("/x", "/y"):
            self.fs("rm", name)
            self.write(name, "2\n")
        self.w.warren("apply", self.w.id)
        self.assertEqual((overlaid.links(self.base)[0], self.read("x"), self.read("y")), ([], "2\n", "2\n"))
        self.w.warren("undo", self.w.id)
        self.assertEqual((overlaid.links(self.base)[0], self.read("x")), ([[b"/x", b"/y"]], "1\n"))

    def test_a_file_with_the_name_of_the_session(self):
        def run(script):
            subprocess.run([mounted.program(), "run", "--session", "fix", "--", "sh", "-c", script], cwd=self.base,
                           env=self.w.environment(), check=True, capture_output=True, timeout=120)
        run("echo 2 > fix")
        done = self.w.run("apply", "fix", cwd=self.base)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"  warren undo session:fix ", done.stdout)
        self.assertIn(b"session 'fix' is deleted: nothing is left in it", done.stderr)
        self.w.warren("undo", "session:fix", cwd=self.base)
        self.assertFalse((self.base / "fix").exists())
        run("echo 3 > other")
        overlaid.write(self.base / "fix", "of the user\n")
        self.assertIn("is ambiguous", self.w.fails("discard", "--yes", "fix", cwd=self.base))
        done = self.w.run("discard", "--yes", "session:fix", cwd=self.base)
        self.assertEqual((done.returncode, done.stdout), (0, b"discarded: 1 added\n"), done.stderr)
        self.assertIn(b"session 'fix' is deleted: nothing is left in it", done.stderr)

    def test_a_deleted_session_can_still_be_undone(self):
        overlaid.write(self.base / "a", "1\n")
        environment = self.w.environment()
        subprocess.run([mounted.program(), "run", "--session", "fix", "--", "sh", "-c", "echo 2 > a"], cwd=self.base,
                       env=environment, check=True, capture_output=True, timeout=120)
        self.assertIn(b"warren undo session:fix", self.w.warren("apply", "--keep", "fix"))
        self.w.warren("sessions", "delete", "--yes", "fix")
        self.w.warren("undo", "fix")
        self.assertEqual(self.read("a"), "1\n")

    def test_limits(self):
        self.fill(a="1\n", big="x" * (1 << 20))
        self.write("/a", "2\n")
        out = self.w.warren("apply", "--undo-size", "0", self.w.id, "/a")
        self.assertNotIn(b"undo", out)
        self.assertEqual(self.kept(), [])
        self.fs("rm", "/big")
        done = self.w.run("apply", "--undo-size", "64K", self.w.id)
        self.assertIn(b"more than --undo-size allows", done.stderr)
        self.assertNotIn(b"warren undo", done.stdout)
        self.assertEqual(self.kept(), [])
        for nth in range(5):  # the oldest go first
            self.write("/a", f"{nth}" * 50_000)
            self.w.warren("apply", "--undo-size", "160K", self.w.id)
        self.assertEqual(len(self.kept()), 2)
        self.write("/a", "again\n")
        self.w.warren("apply", "--undo-time", "1s", self.w.id)
        self.assertEqual(len(self.kept()), 3)
        self.write("/a", "and again\n")
        environment = self.w.environment()
        self.assertEqual(self.kept()[0]["until"] - self.kept()[0]["at"], 1)
        subprocess.run(["sleep", "2"], check=True)
        self.w.warren("apply", self.w.id, env=environment)
        self.assertEqual(len([one for one in self.kept() if one["until"] - one["at"] == 1]), 0)

    def keep_elsewhere(self):
        """What is kept is on a small filesystem of its own."""
        self.kept_dir = self.w.home / ".agentfs" / "undo"
        self.kept_dir.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", self.kept_dir], check=True)
        self.addCleanup(lambda: mounted.detach(self.kept_dir))

    def fill_disk(self):
        filler = self.kept_dir / "filler"
        room = os.statvfs(self.kept_dir)
        filler.write_bytes(b"x" * (room.f_bavail * room.f_frsize - 200_000))
        return filler

    def check_no_room(self, *words):
        before = overlaid.snapshot(self.base, with_times=True)
        changes = self.w.changes()
        said = self.w.fails(*words)
        self.assertIn("nothing was written: keep in '" + str(self.kept_dir) + "' what would be replaced", said)
        self.assertIn("hint: free space there; or `--undo-size 0` goes on without", said)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), before), [])
        self.assertEqual((self.w.staging(), self.w.records(), self.w.changes()), ([], [], changes))

    def test_without_room_for_what_it_replaces_nothing_is_applied(self):
        self.keep_elsewhere()
        self.fill(a="1\n", gone__x="x" * 300_000, e__f="f\n")
        self.w.change(lambda p: (overlaid.write(p + "/a", "agent\n"), os.remove(p + "/gone/x"), os.remove(p + "/e/f")))
        overlaid.write(self.base / "a", "of the host\n" + "h" * 300_000)
        filler = self.fill_disk()
        self.check_no_room("apply", "--force", self.w.id)
        self.assertEqual(os.listdir(self.kept_dir), ["filler"])
        filler.unlink()
        self.w.warren("apply", "--force", self.w.id)
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.read("a")[:12], "of the host\n")

    def test_without_room_for_what_it_replaces_nothing_is_undone(self):
        self.keep_elsewhere()
        self.fill(a="1\n")
        self.write("/a", "agent\n" + "a" * 300_000)
        self.w.warren("apply", self.w.id)
        self.fill_disk()
        self.check_no_room("undo", self.w.id)
        self.w.warren("undo", "--undo-size", "0", self.w.id)
        self.assertEqual(self.read("a"), "1\n")
        self.assertEqual(self.kept(), [])

    def test_a_moved_part_of_a_removed_directory_on_another_filesystem(self):
        """What is copied ahead does not contain what leaves the directory by itself."""
        self.keep_elsewhere()
        self.fill(d__keep="k\n", d__sub__moved="m\n", d__s__t__u="u\n", ren__f="f\n")
        before = overlaid.snapshot(self.base, with_times=True)

        def change(p):
            os.rename(p + "/d/sub/moved", p + "/moved")
            os.rename(p + "/d/s/t", p + "/t")
            shutil.rmtree(p + "/d")
            os.rename(p + "/ren", p + "/other")
            overlaid.write(p + "/other/f", "agent\n")
            os.remove(p + "/t/u")
        self.w.change(change)
        self.w.warren("apply", self.w.id)
        after = overlaid.snapshot(self.base, with_times=True)
        self.w.warren("undo", self.w.id)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), before), [])
        self.w.warren("undo", "--record", self.kept()[0]["name"])
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), after), [])

    def test_another_filesystem(self):
        small = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
        self.addCleanup(lambda: shutil.rmtree(small))
        self.w.base = self.base = small
        self.change_everything()
        self.w.warren("apply", self.w.id)
        self.assertNotEqual(os.stat(small).st_dev, os.stat(self.w.home).st_dev)
        self.w.warren("undo", self.w.id)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), self.before[0]), [])

    def test_mistakes(self):
        self.fill(a="1\n")
        self.assertIn("no apply to this directory", self.w.fails("undo"))
        self.w.fails("undo", "--record", "x", self.w.id, status=2)
        self.assertIn("no apply of 'a' can be undone", self.w.fails("undo", self.w.id))
        self.assertIn("no kept apply 'x'", self.w.fails("undo", "--record", "x"))
        self.assertEqual(self.w.warren("undo", "--list"), b"nothing to undo\n")
        self.write("/a", "2\n")
        self.w.warren("apply", self.w.id)
        self.base.rename(self.w.root / "moved")
        self.base.mkdir()
        self.assertIn("another directory", self.w.fails("undo", self.w.id))
        self.assertEqual(os.listdir(self.base), [])

    def test_the_list_is_for_people_too(self):
        self.fill(a="1\n")
        self.write("/a", "2\n")
        self.w.warren("apply", self.w.id)
        said = self.w.warren("undo", "--list").decode()
        self.assertRegex(said, r"NAME +AT +KIND +AGENT +SIZE +KEPT UNTIL +BASE\n[0-9a-f]{32}  .* apply  a ")
        folder = self.w.home / ".agentfs/undo"
        self.assertEqual(stat.S_IMODE(os.stat(next(folder.iterdir())).st_mode), 0o700)


class Killed(Case):
    """An undo that is killed at a system call is finished or taken back by the next one."""

    def kill(self, words, call, nth):
        done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                               f"inject={call}:signal=KILL:when={nth}", mounted.program(), *words], cwd=self.w.home,
                              env=self.w.environment(), capture_output=True, timeout=60)
        return done.returncode != 0

    def test_at_any_rename_and_sync(self):
        for call in ("renameat2", "renameat", "linkat", "fsync", "unlinkat"):
            for nth in range(1, 40, 2):
                self.doCleanups()
                self.setUp()
                Undo.change_everything(self)
                old = overlaid.snapshot(self.base, with_times=True)
                self.w.warren("apply", self.w.id)
                new = overlaid.snapshot(self.base, with_times=True)
                if not self.kill(["undo", self.w.id], call, nth):
                    break
                with self.subTest(call=call, nth=nth):
                    self.w.warren("apply", "--recover", self.w.id)
                    self.w.warren("undo", "--list")
                    now = overlaid.snapshot(self.base, with_times=True)
                    self.assertIn(now, (old, new))
                    self.assertEqual((self.w.staging(), self.w.records()), ([], []))
                    if now == new:
                        self.w.warren("undo", self.w.id)
                        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), old), [])

    def test_a_removed_file_is_the_same_one_with_one_name_after_any_kill(self):
        for call in ("linkat", "renameat2", "unlinkat", "fsync"):
            for nth in range(1, 40):
                self.doCleanups()
                self.setUp()
                self.fill(a="1\n", b="2\n")
                before = overlaid.snapshot(self.base, with_times=True)
                numbers = [os.stat(self.base / name).st_ino for name in "ab"]
                self.fs("rm", "/a")
                self.fs("rm", "/b")
                self.w.warren("apply", self.w.id)
                if not self.kill(["undo", self.w.id], call, nth):
                    break
                with self.subTest(call=call, nth=nth):
                    self.w.warren("undo", "--list")
                    if not os.listdir(self.base):
                        self.w.warren("undo", self.w.id)
                    self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), before), [])
                    back = [os.stat(self.base / name) for name in "ab"]
                    self.assertEqual([(info.st_ino, info.st_nlink) for info in back], [(number, 1) for number in numbers])
                    self.assertEqual((self.w.staging(), self.w.records()), ([], []))

    def test_a_directory_that_has_become_a_link_blocks_nobody(self):
        """After the undo was killed: it is taken back, and the next apply can be performed."""
        killed = 0
        for nth in range(1, 20):
            with self.subTest(nth=nth):
                self.doCleanups()
                self.setUp()
                self.fill(d__s__a="1\n", d__s__b="2\n", f="f\n")
                self.fs("rm", "/d/s/a")
                self.write("/f", "agent\n")
                self.w.warren("apply", self.w.id)
                if not self.kill(["undo", self.w.id], "renameat2", nth):
                    break
                killed += 1
                os.rename(self.base / "d", self.base / "x")
                os.symlink("x", self.base / "d")
                self.w.run("undo", self.w.id)
                self.write("/other", "other\n")
                self.w.warren("apply", self.w.id)
                self.assertEqual(self.read("other"), "other\n")
                self.assertEqual((self.w.staging(), self.w.records()), ([], []))
        self.assertGreater(killed, 2)

    def interrupt_after_the_replacement(self):
        """A world in which an undo was killed when it had replaced the file, which the agent has changed again."""
        for nth in range(1, 40):
            self.doCleanups()
            self.setUp()
            self.fill(a="1\n")
            self.w.warren("audit", self.w.id, "on")
            self.write("/a", "agent\n")
            self.w.warren("apply", self.w.id)
            self.write("/a", "again\n")
            self.assertTrue(self.kill(["undo", self.w.id], "renameat2", nth), "it ended before the kill")
            if self.read("a") == "1\n":
                return
        self.fail("the file was never replaced")

    def test_the_agent_has_its_change_again_when_another_command_finishes_it(self):
        for words in (["undo"], ["apply", "--recover"]):
            with self.subTest(words=words):
                self.interrupt_after_the_replacement()
                self.assertNotEqual(self.w.records(), [])
                self.w.warren(*words, self.w.id)
                self.assertEqual((self.read("a"), self.w.records()), ("1\n", []))
                trail = self.w.warren("audit", self.w.id, "show", "--op", "undo").decode()
                self.assertIn(f"/a -> {self.base}/a", trail)
                self.w.warren("apply", self.w.id)
                self.assertEqual(self.read("a"), "again\n")

    def test_without_room_in_the_agent_its_version_is_not_lost(self):
        """Every write to its file fails once. A later undo goes on."""
        failed = set()
        for nth in itertools.count(1):
            self.doCleanups()
            self.setUp()
            self.fill(a="1\n2\n")
            conflicts = Undo.apply_with_markers(self)
            marked = self.read("a")
            files = [word for end in ("", "-wal", "-journal") for word in ("-P", f"{self.w.file}{end}")]
            done = subprocess.run(["strace", "-f", "-qq", "-o", self.w.root / "trace", *files, "-e", "trace=pwrite64", "-e",
                                   f"inject=pwrite64:error=ENOSPC:when={nth}", mounted.program(), "undo", self.w.id],
                                  cwd=self.w.home, env=self.w.environment(), capture_output=True, timeout=60)
            if "INJECTED" not in (self.w.root / "trace").read_text():
                break
            with self.subTest(nth=nth):
                said = done.stderr.decode()
                if done.returncode != 0:
                    is_refused = "nothing was undone" in said
                    failed.add(is_refused)
                    self.assertTrue(is_refused or "is as before the apply, but the agent" in said, said)
                    self.assertEqual(self.read("a"), marked if is_refused else "USER\n2\n")
                    self.w.warren("undo", self.w.id)
                self.assertEqual((self.read("a"), self.w.lines(), self.w.records()), ("USER\n2\n", conflicts, []))
                self.assertEqual(self.fs("cat", "/a").decode(), "AGENT\n2\n")
                self.w.fsck()
        self.assertEqual(failed, {False, True})

    def test_an_apply_that_is_killed_while_it_keeps_is_undone(self):
        for call, nth in (("renameat2", 8), ("renameat2", 10), ("renameat2", 12), ("unlinkat", 1), ("unlinkat", 3)):
            with self.subTest(call=call, nth=nth):
                self.doCleanups()
                self.setUp()
                Undo.change_everything(self)
                self.kill(["apply", self.w.id], call, nth)
                self.w.run("apply", "--recover", self.w.id)
                if overlaid.snapshot(self.base, with_times=True) == self.before[0]:
                    continue
                self.assertEqual(self.w.lines(), [])
                self.w.warren("undo", self.w.id)
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base, with_times=True), self.before[0]), [])


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
