#!/usr/bin/env python3
"""undo while programs use the agent: what the agent had done is done again, and nothing of anybody is lost.

    WARREN=path/to/warren undo_in_use.py [-v] [Class.test_name]

Needs root and /dev/fuse; the tests of a killed undo need strace.
"""
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import MountedCase
from overlaid import mounted

RENAME_EXCHANGE = 2
AT_FDCWD = -100


def exchange(one, other):
    if mounted.LIBC.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) != 0:
        raise OSError(f"cannot exchange {one} and {other}")


def shell(script):
    return lambda place: subprocess.run(["sh", "-ec", script], cwd=place, check=True)


class UndoInUse(MountedCase):
    def begin_with(self, prepare, work):
        self.doCleanups()
        self.setUp()
        prepare(self.base)
        self.w.init()
        self.point = self.w.mount()
        work(self.point)

    def check_done_again(self, prepare, work):
        """What the agent did is listed, shown and applied after an undo exactly as it was before the apply."""
        self.begin_with(prepare, work)
        before, changes, view = overlaid.snapshot(self.base), self.w.changes(), overlaid.snapshot(self.point)
        for _ in range(2):
            self.apply()
            self.assertEqual(self.w.changes(), [])
            self.w.warren("undo", self.w.id)
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
            self.assertEqual(self.w.changes(), changes)
            mounted.wait_for(lambda: overlaid.snapshot(self.point) == view, "the session does not show the agent's work",
                             seconds=10)
        self.w.umount(self.point)
        self.point = self.w.mount()
        self.assertEqual(self.w.changes(), changes)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.point), view), [])
        self.apply()
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), view), [])
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_what_was_moved_aside_is_so_again(self):
        """Something else has the old name."""
        cases = {
            "file, changed, new file": ("echo content >c", "mv c a; echo note >>a; echo new >c"),
            "file, new file": ("echo content >c", "mv c a; echo new >c"),
            "file, directory": ("echo content >c", "mv c a; mkdir c; echo new >c/n"),
            "file, directory in it": ("echo content >c", "mv c a; mkdir -p c/sub; echo new >c/sub/n"),
            "file, link": ("echo content >c", "mv c a; ln -s y c"),
            "file, itself": ("echo content >c", "mv c t; mkdir c; mv t c/c"),
            "directory, directory": ("mkdir d; echo content >d/1", "mv d e; mkdir d; echo new >d/n"),
            "directory, same names": ("mkdir -p d/s; echo content >d/s/1; echo 2 >d/2",
                                      "mv d e; mkdir -p d/s; echo new >d/s/1; echo new >d/2; echo more >>e/s/1"),
            "directory, file": ("mkdir d; echo content >d/1", "mv d e; echo new >d"),
            "directory, itself": ("mkdir d; echo content >d/1; echo 2 >d/2",
                                  "mv d t; mkdir d; mv t d/t; echo more >>d/t/1; echo new >d/n"),
            "in a renamed directory": ("mkdir -p c/s; echo content >c/s/1; echo 2 >c/2",
                                       "mv c/s c/r; echo new >c/s; mv c/2 c/3; echo new >c/2; mv c e; echo new >c"),
            "file, directory, changed": ("echo content >c", "mv c a; echo work >>a; mkdir c"),
            "link, directory": ("ln -s content c", "mv c a; mkdir c"),
            "over a directory": ("mkdir a; echo 1 >a/1; echo b >b", "rm -r a; mv b a; echo work >>a; echo new >b"),
            "out of a directory that is replaced": ("mkdir -p d/s; echo x >d/x; echo y >d/y; echo t >d/s/t",
                                                    "mv d/x z; mv d/s s; rm -r d; echo new >d"),
            "large, changed": ("head -c 9000000 /dev/zero | tr '\\0' x >c",
                               "mv c a; printf agent | dd of=a bs=1 seek=5000000 conv=notrunc 2>/dev/null; echo new >c"),
        }
        for name, (prepare, work) in cases.items():
            with self.subTest(name):
                self.check_done_again(shell(prepare), shell(work))

    def test_names_that_were_exchanged_are_so_again(self):
        cases = {
            "files": ("echo A >a; echo D >d", (("a", "d"),)),
            "file and link": ("echo A >a; ln -s x d", (("a", "d"),)),
            "links": ("ln -s x a; ln -s y d", (("a", "d"),)),
            "file and directory": ("echo A >a; mkdir d; echo 1 >d/1", (("a", "d"),)),
            "directories": ("mkdir -p a/s d/s; echo A >a/s/1; echo D >d/s/1; echo 2 >d/2", (("a", "d"),)),
            "three": ("echo A >a; echo C >c; ln -s x d", (("c", "d"), ("a", "c"))),
        }
        for name, (prepare, pairs) in cases.items():
            with self.subTest(name):
                self.check_done_again(shell(prepare),
                                      lambda point, pairs=pairs: [exchange(point / a, point / b) for a, b in pairs])

    def test_what_has_its_old_path_in_another_directory_is_moved_again(self):
        prepare = "mkdir -p a/s b/s; echo A >a/s/1; echo B >b/s/2; echo f >b/f"
        cases = {
            "a directory in a new directory": "mv b c; mkdir b; mv c/s b/s",
            "a file in a new directory": "mv b c; mkdir b; mv c/f b/f",
            "exchanged, and a child renamed": "mv a t; mv b a; mv t b; mv a/s a/s2",
            "exchanged, and a file moved": "mv a t; mv b a; mv t b; mv a/f b/f",
        }
        for name, script in cases.items():
            with self.subTest(name):
                self.check_done_again(shell(prepare), shell(script))

    def test_a_file_with_another_name_in_the_base_is_moved_again(self):
        self.begin_with(shell("echo content >c; ln c twin"), shell("mv c a; echo new >c"))
        changes = self.w.changes()
        self.apply()
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.w.changes(), changes)
        self.assertEqual([(self.point / name).read_text() for name in ("a", "c", "twin")],
                         ["content\n", "new\n", "content\n"])
        self.apply()
        self.assertEqual([self.read(name) for name in ("a", "c", "twin")], ["content\n", "new\n", "content\n"])
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_what_was_changed_under_two_names_of_a_moved_file_is_not_lost(self):
        self.begin_with(shell("echo content >c; ln c twin"), shell("mv c a; echo note >>a; echo new >c"))
        view = overlaid.snapshot(self.point)
        self.apply()
        self.w.warren("undo", self.w.id)
        self.assertEqual((self.read("c"), self.read("twin")), ("content\n", "content\n"))
        self.apply()
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), view), [])
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_a_moved_file_is_new_if_its_old_name_leads_to_another_file_with_two_names(self):
        """The undo makes that one. A part of a large file is only in the base until then."""
        for size in (8, 9_000_000):
            with self.subTest(size=size):
                self.begin_with(lambda base, size=size: (overlaid.write(base / "c", "x" * size), os.link(base / "c", base / "twin")),
                                shell("mv c a; printf agent | dd of=a bs=1 seek=3 conv=notrunc 2>/dev/null; rm twin; echo new >c"))
                self.apply()
                self.w.warren("undo", self.w.id)
                self.assertEqual(self.w.changes(), ["A f /a", "M f /c"])
                changed = "xxxagent" + "x" * (size - 8)
                mounted.wait_for(lambda: (self.point / "twin").exists(), "what is back does not show", seconds=10)
                self.assertEqual([(self.point / name).read_text() for name in ("a", "c", "twin")], [changed, "new\n", "x" * size])
                self.apply()
                self.assertEqual([self.read(name) for name in ("a", "c", "twin")], [changed, "new\n", "x" * size])
                self.end()

    def test_a_changed_file_with_a_new_second_name_is_no_conflict(self):
        self.begin_with(shell("mkdir c; echo 1 >d; echo 1 >z"), shell("for i in d z; do echo 2 >n; mv n $i; done"))
        self.w.warren("apply", self.w.id, "/d")
        shell("ln d c/b; ln z a; echo 3 >>d; echo 3 >>z")(self.point)
        self.apply()
        self.w.warren("undo", self.w.id)
        self.assertEqual((self.read("d"), self.read("z")), ("2\n", "1\n"))
        self.apply()
        self.assertEqual([self.read(name) for name in ("d", "c/b", "z", "a")], ["2\n3\n"] * 4)
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_programs_go_on_with_what_was_moved_aside(self):
        self.begin_with(shell("echo content >config"), shell("true"))
        with open(self.point / "config", "a+", buffering=1) as old:
            os.rename(self.point / "config", self.point / "config.bak")
            with open(self.point / "config", "w", buffering=1) as new:
                old.write("note\n")
                new.write("new\n")
                self.apply()
                self.w.warren("undo", self.w.id)
                self.assertEqual(self.w.changes(), ["A f /config", "R f /config -> /config.bak"])
                old.write("more\n")
                new.write("newer\n")
            old.seek(0)
            self.assertEqual(old.read(), "content\nnote\nmore\n")
        self.apply()
        self.assertEqual((self.read("config"), self.read("config.bak")), ("new\nnewer\n", "content\nnote\nmore\n"))
        self.end()

    def test_an_edit_of_what_was_moved_aside_is_a_conflict(self):
        for edited in ("config", "d/1"):
            with self.subTest(edited):
                self.begin_with(shell("echo content >config; mkdir d; echo 1 >d/1"),
                                shell("mv config config.bak; echo new >config; mv d e; mkdir d; echo new >d/n;"
                                      " echo more >>e/1"))
                self.apply()
                self.w.warren("undo", self.w.id)
                overlaid.write(self.base / edited, "of the user\n")
                self.assertIn("conflict: ", self.w.fails("apply", self.w.id))
                self.assertEqual(self.read(edited), "of the user\n")
                self.end()

    def kill_undo(self, call, nth):
        """Returns whether it was killed."""
        done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                               f"inject={call}:signal=KILL:when={nth}", mounted.program(), "undo", self.w.id],
                              cwd=self.w.home, env=self.w.environment(), capture_output=True, timeout=60)
        return done.returncode != 0

    def test_names_that_were_exchanged_are_so_again_after_a_killed_undo(self):
        """Killed also between the update of the agent and the removal of the record: the update is repeated."""
        killed = 0
        for call, nth in itertools.product(("pwrite64", "fdatasync", "unlinkat", "unlink"), range(1, 5)):
            with self.subTest(call=call, nth=nth):
                self.begin_with(shell("echo A >a; mkdir d; echo 1 >d/1"),
                                lambda point: exchange(point / "a", point / "d"))
                changes, view = self.w.changes(), overlaid.snapshot(self.point)
                self.apply()
                if self.kill_undo(call, nth):
                    killed += 1
                    self.w.run("undo", self.w.id)
                self.assertEqual(self.w.records(), [])
                self.assertEqual(self.w.changes(), changes)
                mounted.wait_for(lambda: overlaid.snapshot(self.point) == view, "the names are not exchanged", seconds=10)
                self.apply()
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), view), [])
                self.end()
        self.assertGreater(killed, 4)

    def test_what_the_user_makes_after_a_killed_undo_is_a_conflict(self):
        """In a directory that is back, and that the agent has replaced: nobody in the session has seen it."""
        killed = 0
        for call, nth in itertools.product(("pwrite64", "unlinkat", "unlink"), range(1, 5)):
            for edited in ("x/new", "x/1", "x/s/new", "x/newdir/f"):
                with self.subTest(call=call, nth=nth, edited=edited):
                    self.begin_with(shell("mkdir -p x/s; echo 1 >x/1; echo 2 >x/s/2"), shell("rm -r x; echo agent >x"))
                    self.apply()
                    is_killed = self.kill_undo(call, nth)
                    if not is_killed or not (self.base / "x").is_dir():
                        self.w.run("undo", self.w.id)
                        self.end()
                        break
                    killed += 1
                    overlaid.write(self.base / edited, "of the user\n")
                    self.w.run("undo", self.w.id)
                    self.assertEqual(self.w.records(), [])
                    self.assertIn(f"conflict: /{edited}: ", self.w.fails("apply", self.w.id))
                    self.assertEqual(self.read(edited), "of the user\n")
                    self.end()
        self.assertGreater(killed, 4)

    def test_what_is_back_in_a_removed_directory_is_removed_again(self):
        """After a part of the removal was applied."""
        for edited in (None, "a/b", "a/sub/c", "a/sub/new"):
            with self.subTest(edited=edited):
                self.begin_with(shell("mkdir -p a/sub; echo b >a/b; echo c >a/sub/c"), shell("rm -r a"))
                changes = self.w.changes()
                self.apply("/a/b", "/a/sub")
                self.assertEqual(self.w.changes(), ["D d /a"])
                self.w.warren("undo", self.w.id)
                self.assertEqual(self.w.changes(), changes)
                if edited:
                    overlaid.write(self.base / edited, "of the user\n")
                    self.assertIn(f"conflict: /{edited}: ", self.w.fails("apply", self.w.id))
                    self.assertEqual(self.read(edited), "of the user\n")
                else:
                    self.apply()
                    self.assertEqual((os.listdir(self.base), self.w.changes()), ([], []))
                self.end()

    def test_a_file_with_conflict_markers_is_the_agents_again(self):
        for name, work in (("in place", "printf 'AGENT\\n2\\n3\\n' >a"), ("replaced", "printf 'AGENT\\n2\\n3\\n' >t; mv t a")):
            for edit in ("", "AGAIN\n"):
                with self.subTest(name, edit=edit):
                    self.begin_with(shell("printf '1\\n2\\n3\\n' >a"), shell(work))
                    (self.base / "a").write_text("USER\n2\n3\n")
                    before = self.w.lines()
                    self.assertIn("[conflict: ", before[0])
                    self.w.fails("apply", "--conflict=markers", self.w.id)
                    marked = self.read("a")
                    self.assertIn("<<<<<<<", marked)
                    self.assertEqual((self.w.lines(), (self.point / "a").read_text()), ([], marked))
                    if edit:
                        with open(self.point / "a", "a") as file:
                            file.write(edit)
                    self.w.warren("undo", self.w.id)
                    self.assertEqual(self.w.lines(), before)
                    mine = marked + edit if edit else "AGENT\n2\n3\n"
                    mounted.wait_for(lambda: (self.point / "a").read_text() == mine, "the session does not show the agent's version")
                    self.assertIn("conflict: /a: ", self.w.fails("apply", self.w.id))
                    self.assertEqual(self.read("a"), "USER\n2\n3\n")
                    if not edit:
                        self.w.fails("apply", "--conflict=markers", self.w.id)
                        self.assertEqual(self.read("a"), marked)
                    self.w.umount(self.point)
                    self.w.fsck()

    def test_a_renamed_file_with_conflict_markers_is_in_conflict_again(self):
        """It keeps the markers: the agent's version is not brought back under the name that it does not have."""
        for name, work in (("renamed", "mv a b; printf 'AGENT\\n2\\n3\\n4\\n5\\n' >b"),
                           ("renamed, new", "mv a b; printf 'AGENT\\n2\\n3\\n4\\n5\\n' >b; echo new >a")):
            with self.subTest(name):
                self.begin_with(shell("printf '1\\n2\\n3\\n4\\n5\\n' >a"), shell(work))
                (self.base / "a").write_text("USER\n2\n3\n4\n5\n")
                before, changes = overlaid.snapshot(self.base), self.marked()
                self.assertIn("R f /a -> /b  [conflict]", changes)
                self.w.fails("apply", "--conflict=markers", self.w.id)
                self.assertIn("<<<<<<<", self.read("b"))
                self.w.warren("undo", self.w.id)
                self.assertEqual(self.marked(), changes)
                self.assertIn("conflict: /b: ", self.w.fails("apply", self.w.id))
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
                self.end()

    def test_an_undo_of_an_undo_keeps_the_conflict_of_a_file_with_markers(self):
        for name, edit, change in (("not edited", "true", "M"), ("removed", "rm a", "D")):
            with self.subTest(name):
                self.begin_with(shell("printf '1\\n2\\n' >a"), shell("printf 'AGENT\\n2\\n' >a"))
                (self.base / "a").write_text("USER\n2\n")
                self.w.fails("apply", "--conflict=markers", self.w.id)
                marked = self.read("a")
                shell(edit)(self.point)
                self.w.warren("undo", self.w.id)
                for content in ("USER\n2\n", marked, "USER\n2\n"):
                    self.assertEqual((self.read("a"), self.marked()), (content, [f"{change} f /a  [conflict]"]))
                    self.assertIn("conflict: /a: ", self.w.fails("apply", self.w.id))
                    self.undo_the_undo()
                self.w.umount(self.point)
                self.w.fsck()

    def marked(self):
        """The changes, and which of them are in conflict."""
        return [re.sub(r"conflict: [^]]*", "conflict", line) for line in self.w.lines("-a")]

    def check_in_conflict_again(self, prepare, work, edit, *paths):
        """The user edits the base; then an apply with --force, which is undone. Nothing may overwrite the edit after that."""
        self.begin_with(shell(prepare), shell(work))
        shell(edit)(self.base)
        before, marked = overlaid.snapshot(self.base), self.marked()
        self.assertIn("conflict: ", self.w.fails("apply", self.w.id))
        for _ in range(2):
            self.w.warren("apply", "--force", self.w.id, *paths)
            self.assertNotEqual(overlaid.snapshot(self.base), before)
            self.w.warren("undo", self.w.id)
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
            self.assertEqual(self.marked(), marked)
            self.assertIn("conflict: ", self.w.fails("apply", self.w.id))
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
        self.w.umount(self.point)
        self.assertEqual(self.marked(), marked)
        self.w.fsck()

    def test_what_a_forced_apply_had_replaced_is_in_conflict_again(self):
        cases = {
            "new": ("true", "echo agent >a", "echo user >a"),
            "replaced": ("echo old >a", "echo agent >b; mv b a", "echo user >a"),
            "link": ("echo old >a", "rm a; ln -s elsewhere a", "echo user >a"),
            "renamed, changed": ("echo old >a", "mv a b; echo agent >>b", "echo user >a"),
            "renamed": ("echo old >a", "mv a b", "echo user >a"),
            "renamed, mode": ("echo old >a", "mv a b; chmod 755 b", "echo user >a"),
            "in a renamed directory": ("mkdir d; echo old >d/1", "mv d e; echo agent >x; mv x e/1", "echo user >d/1"),
            "renamed over a file": ("echo old >a; echo old >b", "mv a b", "echo user >b"),
            "renamed over a file, both": ("echo old >a; echo old >b", "mv a b", "echo user >b; echo user >a"),
            "renamed, new": ("echo old >a", "mv a b; echo agent >a", "echo user >a"),
            "directory, file": ("mkdir d; echo old >d/1; echo old >d/2", "rm -r d; echo agent >d", "echo user >d/1"),
            "directory, other directory": ("mkdir d e; echo old >d/1; echo old >d/2; echo old >e/3", "rm -r d; mv e d",
                                           "echo user >d/1"),
            "removed directory, a file of it": ("mkdir a; echo old >a/1; echo old >a/2", "rm -r a", "echo user >a/1", "/a/1"),
            "removed directory, a part of it": ("mkdir -p a/s; echo old >a/s/1; echo old >a/2", "rm -r a", "echo user >a/s/1",
                                                "/a/s"),
        }
        for name, case in cases.items():
            with self.subTest(name):
                self.check_in_conflict_again(*case)

    def test_what_a_forced_apply_had_made_again_is_in_conflict_with_the_deletion_again(self):
        cases = {
            "replaced": ("echo old >a", "echo agent >b; mv b a", "rm a"),
            "in a renamed directory": ("mkdir d; echo old >d/1", "mv d e; echo agent >x; mv x e/1", "rm d/1"),
            "renamed": ("echo old >a", "mv a b; echo agent >>b", "rm a"),
            "directory": ("mkdir d; echo old >d/1", "mv d e; echo agent >e/2", "rm -r d"),
        }
        for name, case in cases.items():
            with self.subTest(name):
                self.check_in_conflict_again(*case)

    def test_what_an_undo_of_an_undo_brings_back_is_no_conflict(self):
        """A forced apply: what the agent has in its session is what the base has again."""
        self.begin_with(shell("echo old >a; echo old >b"), shell("echo agent >x; mv x a; mv b c; echo agent >>c"))
        shell("echo user >a; echo user >b")(self.base)
        self.w.warren("apply", "--force", self.w.id)
        self.w.warren("undo", self.w.id)
        for _ in range(2):
            self.assertEqual(self.marked(), ["M f /a  [conflict]", "R f /b -> /c  [conflict]"])
            self.undo_the_undo()
            self.assertEqual((self.read("a"), self.read("c"), self.marked()), ("agent\n", "old\nagent\n", []))
            self.undo_the_undo()
            self.assertEqual((self.read("a"), self.read("b")), ("user\n", "user\n"))
        self.undo_the_undo()
        shell("echo more >>a; echo more >>c")(self.point)
        self.apply()
        self.assertEqual((self.read("a"), self.read("c")), ("agent\nmore\n", "old\nagent\nmore\n"))
        self.end()

    def test_an_undo_that_is_repeated_leaves_no_conflict(self):
        """An undo, the undo of that, and the undo of that one."""
        cases = {"new directory": ("true", "mkdir -p h/x; echo new >h/x/k"),
                 "directory, file": ("mkdir d e; echo old >d/2; echo old >e/1", "rm -r e; mv d/2 e")}
        for name, (prepare, work) in cases.items():
            with self.subTest(name):
                self.begin_with(shell(prepare), shell(work))
                before, marked = overlaid.snapshot(self.base), self.marked()
                self.apply()
                self.w.warren("undo", self.w.id)
                self.w.umount(self.point)
                self.point = self.w.mount()
                self.undo_the_undo()
                self.assertEqual(self.marked(), [])
                self.undo_the_undo()
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
                self.assertEqual(self.marked(), marked)
                self.end()

    def undo_the_undo(self):
        (kept,) = json.loads(self.w.warren("undo", "--list", "--json", self.w.id))
        self.w.warren("undo", "--record", kept["name"])


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
