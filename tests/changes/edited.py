#!/usr/bin/env python3
"""What the user changes while an apply or an undo is under way, or after it was killed: it is never lost.

    WARREN=path/to/warren edited.py [-v] [Class.test_name]

strace delays or kills the program at the Nth call; the steps of an apply are calls of renameat2.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted

MINE = "of the user\n"


def append(path):
    with open(path, "a") as file:
        file.write(MINE)


def save_by_rename(path):
    overlaid.write(str(path) + "~", path.read_text() + MINE)
    os.rename(str(path) + "~", path)


def overwrite_keeping_size_and_time(path):
    before = os.stat(path)
    with open(path, "r+") as file:
        file.write(MINE[:3])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class Steps(Case):
    NAMES = ("a", "b", "z")

    def prepare(self):
        """The steps are: a and b are replaced, which is two calls each; fresh and new are put in; z is replaced."""
        self.fill(**{name: f"old {name}\n" for name in self.NAMES})

        def change(point):
            for name in self.NAMES:
                overlaid.write(f"{point}/{name}", f"agent {name}\n")
            overlaid.write(point + "/fresh/x", "agent x\n")
            overlaid.write(point + "/fresh/y", "agent y\n")
            overlaid.write(point + "/new", "agent new\n")
        self.w.change(change)

    def traced(self, inject, *words):
        return subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={inject.split(':')[0]}", "-e", f"inject={inject}",
                                 mounted.program(), *words], cwd=self.w.home, env=self.w.environment(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def kill(self, call, nth, *words):
        """Returns whether it was killed."""
        with self.traced(f"{call}:signal=KILL:when={nth}", *words) as process:
            process.communicate(timeout=60)
        return process.returncode != 0

    def during(self, nth, is_reached, change, *words):
        """Calls change() while the program waits before its Nth rename; returns its exit status and what it said."""
        with self.traced(f"renameat2:delay_enter=2500000:when={nth}", *words) as process:
            mounted.wait_for(is_reached, "the step before")
            time.sleep(0.3)
            change()
            _, said = process.communicate(timeout=60)
        return process.returncode, said.decode()

    def aside(self, said, path):
        """The content of the other version that a message names."""
        found = re.search(rf"'{path}': [^']*; the other version is '(/\.warren-apply-[^']*)' in the base", said)
        self.assertTrue(found, said)
        return self.read(found[1][1:])

    def snapshot(self):
        return {name: self.read(name) for name in [*self.NAMES, "new", "fresh/x", "fresh/y"] if (self.base / name).exists()}

    def edit_and_recover(self, first, *recover):
        """After a kill, the user edits every file in place. Returns whether all steps were undone or done before."""
        before = self.snapshot()
        for name in before:
            append(self.base / name)
        done = self.w.run(*recover)
        said = done.stderr.decode()
        for name, content in before.items():
            self.assertEqual(self.read(name), content + MINE, (name, said))
        is_between = len({content.split()[0] for name, content in before.items() if name in self.NAMES}) > 1
        if is_between:
            self.assertEqual(done.returncode, 1, said)
            for name, content in before.items():
                if not content.startswith(first) and name in self.NAMES:
                    self.assertEqual(self.aside(said, "/" + name), f"{first} {name}\n")
            self.assertEqual(len(self.w.staging()), 1)
            self.w.run(*recover)  # changes nothing any more
            for name, content in before.items():
                self.assertEqual(self.read(name), content + MINE, name)
        return is_between


class Edited(Steps):
    def test_during_an_apply_that_fails(self):
        def change(last):
            append(self.base / "a")
            append(self.base / "fresh/x")
            append(self.base / "new")
            last(self.base / "z")
        for last in (append, save_by_rename):  # z has already been checked: the change comes just before the exchange
            with self.subTest(last.__name__):
                self.doCleanups()
                self.setUp()
                self.prepare()
                status, said = self.during(7, lambda: (self.base / "new").exists(), lambda: change(last), "apply", self.w.id)
                self.assertEqual(status, 1, said)
                self.assertIn("'/z' was changed by another process during the apply", said)
                self.assertEqual(self.snapshot(), {"a": "agent a\n" + MINE, "b": "old b\n", "z": "old z\n" + MINE, "new": "agent new\n" + MINE,
                                                   "fresh/x": "agent x\n" + MINE, "fresh/y": "agent y\n"})
                for name in ("a", "new", "fresh"):
                    self.assertIn(f"'/{name}': it was changed meanwhile, so it was kept", said)
                self.assertNotIn("'/b'", said)
                self.assertEqual(self.aside(said, "/a"), "old a\n")
                self.assertEqual(len(self.w.records()), 1)
                self.assertEqual(self.fs("cat", "/b"), b"agent b\n")

    def test_nothing_stays_behind_if_nothing_was_put_aside(self):
        self.prepare()
        status, said = self.during(7, lambda: (self.base / "new").exists(),
                                   lambda: (append(self.base / "new"), append(self.base / "z")), "apply", self.w.id)
        self.assertEqual(status, 1, said)
        self.assertIn("'/new': it was changed meanwhile, so it was kept", said)
        self.assertEqual(self.snapshot(), {"a": "old a\n", "b": "old b\n", "z": "old z\n" + MINE, "new": "agent new\n" + MINE})
        self.assertEqual((self.w.staging(), self.w.records()), ([], []))

    def test_a_change_that_keeps_size_and_time(self):
        self.prepare()

        def change():
            for name in ("a", "fresh/x", "new"):
                overwrite_keeping_size_and_time(self.base / name)
            append(self.base / "z")
        status, said = self.during(7, lambda: (self.base / "new").exists(), change, "apply", self.w.id)
        self.assertEqual(status, 1, said)
        self.assertEqual(self.snapshot(), {"a": "of nt a\n", "b": "old b\n", "z": "old z\n" + MINE, "new": "of nt new\n",
                                           "fresh/x": "of nt x\n", "fresh/y": "agent y\n"})

    def test_a_file_that_is_written_through_an_open_descriptor(self):
        self.prepare()
        with open(self.base / "a", "a") as file:
            status, said = self.during(7, lambda: (self.base / "new").exists(), lambda: (file.write(MINE), file.flush()), "apply", self.w.id)
        self.assertEqual(status, 1, said)
        self.assertEqual(self.snapshot(), {"a": "old a\n" + MINE, "b": "old b\n", "z": "old z\n"})
        self.assertEqual((self.w.staging(), self.w.records()), ([], []))

    def test_after_a_killed_apply(self):
        between = 0
        for nth in range(1, 20):
            with self.subTest(nth=nth):
                self.doCleanups()
                self.setUp()
                self.prepare()
                if not self.kill("renameat2", nth, "apply", self.w.id):
                    break
                between += self.edit_and_recover("old", "apply", "--recover", self.w.id)
        self.assertGreater(between, 3)

    def test_after_a_killed_undo(self):
        between = 0
        for nth in range(1, 20):
            with self.subTest(nth=nth):
                self.doCleanups()
                self.setUp()
                self.prepare()
                self.w.warren("apply", self.w.id)
                if not self.kill("renameat2", nth, "undo", self.w.id):
                    break
                between += self.edit_and_recover("agent", "undo", "--list", self.w.id)
        self.assertGreater(between, 3)

    def run_without_exchange(self, *words, inject=()):
        """On a filesystem that cannot exchange names."""
        plain = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2,renameat", "-e", "inject=renameat2:error=EINVAL"]
        return subprocess.run([*plain, *inject, mounted.program(), *words], cwd=self.w.home, env=self.w.environment(),
                              capture_output=True, timeout=60)

    def kill_without_exchange(self, nth):
        """Returns whether it was killed."""
        return self.run_without_exchange("apply", self.w.id, inject=("-e", f"inject=renameat:signal=KILL:when={nth}")).returncode != 0

    def test_on_a_filesystem_that_cannot_exchange_names(self):
        between = 0
        for nth in range(2, 20):  # the first call is no step: see the next test
            with self.subTest(nth=nth):
                self.doCleanups()
                self.setUp()
                self.prepare()
                if not self.kill_without_exchange(nth):
                    break
                before = self.snapshot()
                append(self.base / "a")
                append(self.base / "z")
                if (self.base / "new").exists():
                    append(self.base / "new")
                if not before["z"].startswith("old"):
                    continue
                done = self.run_without_exchange("apply", "--recover", self.w.id)
                expected = {"a": before["a"] + MINE, "b": "old b\n", "z": "old z\n" + MINE}
                if "new" in before:
                    expected["new"] = "agent new\n" + MINE
                self.assertEqual((done.returncode, self.snapshot()), (1, expected), done.stderr)
                if before["a"].startswith("agent"):
                    between += 1
                    self.assertEqual(self.aside(done.stderr.decode(), "/a"), "old a\n")
        self.assertGreater(between, 2)

    def test_an_apply_that_was_killed_before_its_first_step(self):
        """The first renameat tries whether what is replaced can be moved to where it is kept."""
        self.prepare()
        self.assertTrue(self.kill_without_exchange(1))
        self.assertEqual(self.snapshot(), {name: f"old {name}\n" for name in self.NAMES})
        self.assertEqual(len(self.w.staging()), 1)
        for name in self.NAMES:
            append(self.base / name)
        mine = {name: f"old {name}\n" + MINE for name in self.NAMES}
        done = self.run_without_exchange("apply", "--recover", self.w.id)
        self.assertEqual((done.returncode, done.stdout), (0, b"no apply of this agent was interrupted\n"), done.stderr)
        self.assertEqual((self.snapshot(), self.w.staging(), self.w.records()), (mine, [], []))
        self.assertIn("3 conflicts: nothing was written", self.w.fails("apply", self.w.id))
        self.w.warren("apply", "--force", self.w.id)
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.snapshot(), mine)

    def test_an_apply_is_finished_around_edits_that_are_not_in_its_way(self):
        self.prepare()
        self.assertTrue(self.kill("renameat2", 7, "apply", self.w.id))
        for name in ("a", "new", "fresh/x"):
            append(self.base / name)
        self.w.warren("apply", "--recover", self.w.id)
        self.assertEqual(self.snapshot(), {"a": "agent a\n" + MINE, "b": "agent b\n", "z": "agent z\n", "new": "agent new\n" + MINE,
                                           "fresh/x": "agent x\n" + MINE, "fresh/y": "agent y\n"})
        self.assertEqual((self.w.staging(), self.w.records(), self.w.lines()), ([], [], []))

    def test_a_rollback_that_is_killed_goes_on_as_a_rollback(self):
        for nth in range(1, 12):
            with self.subTest(nth=nth):
                self.doCleanups()
                self.setUp()
                self.prepare()
                self.assertTrue(self.kill("renameat2", 7, "apply", self.w.id))
                append(self.base / "b")
                append(self.base / "z")
                is_killed = self.kill("renameat2", nth, "apply", "--recover", self.w.id)
                overlaid.write(self.base / "z", "old z\n")  # no longer in the way
                os.utime(self.base / "z", ns=(0, 0))
                said = self.w.run("apply", "--recover", self.w.id).stderr.decode()
                self.assertEqual(self.snapshot(), {"a": "old a\n", "b": "agent b\n" + MINE, "z": "old z\n"}, said)
                self.assertEqual(self.fs("cat", "/a"), b"agent a\n")
                (name,) = self.w.staging()
                self.assertIn("old b\n", [path.read_text() for path in (self.base / name).iterdir() if path.is_file()])
                if not is_killed:
                    break

    def test_in_a_directory_that_was_renamed(self):
        self.fill(d__x="old x\n", z="old z\n")

        def change(point):
            os.rename(point + "/d", point + "/moved")
            overlaid.write(point + "/moved/x", "agent x\n")
            overlaid.write(point + "/moved/added", "agent added\n")
            overlaid.write(point + "/z", "agent z\n")
        self.w.change(change)
        status, said = self.during(6, lambda: (self.base / "moved/added").exists() and "agent" in self.read("moved/x"),
                                   lambda: [append(self.base / name) for name in ("moved/x", "moved/added", "z")], "apply", self.w.id)
        self.assertEqual(status, 1, said)
        self.assertEqual([self.read(name) for name in ("d/x", "d/added", "z")],
                         ["agent x\n" + MINE, "agent added\n" + MINE, "old z\n" + MINE])
        self.assertIn("'/d/added': it was changed meanwhile", said)
        self.assertEqual(self.aside(said, "/d/x"), "old x\n")

    def test_files_that_are_overwritten_in_place(self):
        between = 0
        for call, nth in [(call, nth) for call in ("utimensat", "ftruncate") for nth in range(1, 30)]:
            with self.subTest(call=call, nth=nth):
                self.doCleanups()
                self.setUp()
                for name in ("l1", "l2"):
                    overlaid.write(self.base / name, f"old {name}\n")
                    os.link(self.base / name, self.base / f"other-{name}")
                self.w.init()
                self.w.change(lambda point: [overlaid.write(f"{point}/{name}", f"agent {name}\n") for name in ("l1", "l2")])
                if not self.kill(call, nth, "apply", self.w.id):
                    break
                before = {name: self.read(name) for name in ("l1", "l2")}
                for name in before:
                    append(self.base / name)
                done = self.w.run("apply", "--recover", self.w.id)
                for name, content in before.items():
                    self.assertEqual(self.read(name), content + MINE, (before, done.stderr))
                    self.assertEqual(self.read("other-" + name), content + MINE)
                if before["l1"] != "old l1\n" and before["l2"] == "old l2\n":
                    between += 1
                    self.assertEqual(done.returncode, 1)
                    self.assertEqual(self.aside(done.stderr.decode(), "/l1"), "old l1\n")
        self.assertGreater(between, 0)

    def test_a_mode_that_the_user_has_set(self):
        self.prepare()

        def change():
            os.chmod(self.base / "a", 0o600)
            append(self.base / "z")
        status, said = self.during(7, lambda: (self.base / "new").exists(), change, "apply", self.w.id)
        self.assertEqual(status, 1, said)
        self.assertEqual(os.stat(self.base / "a").st_mode & 0o777, 0o600)
        self.assertEqual(self.aside(said, "/a"), "old a\n")


class Undo(Steps):
    def test_an_edit_that_keeps_size_and_time_is_a_conflict(self):
        for name, path in (("a", "/a"), ("fresh/x", "/fresh"), ("new", "/new")):
            with self.subTest(name):
                self.doCleanups()
                self.setUp()
                self.prepare()
                self.w.warren("apply", self.w.id)
                overwrite_keeping_size_and_time(self.base / name)
                before = self.snapshot()
                self.assertIn(f"conflict: {path}: it was changed since the apply", self.w.fails("undo", self.w.id))
                self.assertEqual(self.snapshot(), before)

    def test_repeating_a_killed_undo_undoes_one_apply(self):
        for call, nth in [("renameat2", nth) for nth in range(1, 9)] + [("unlinkat", nth) for nth in range(1, 4)]:
            with self.subTest(call=call, nth=nth):
                self.doCleanups()
                self.setUp()
                self.fill(a="1\n", b="1\n")
                for content in ("2\n", "3\n"):
                    self.write("/a", content)
                    self.write("/b", content)
                    self.w.warren("apply", self.w.id)
                if not self.kill(call, nth, "undo", self.w.id):
                    continue
                done = self.w.run("undo", self.w.id)
                self.assertEqual((self.read("a"), self.read("b"), done.returncode), ("2\n", "2\n", 0), done.stderr)
                self.w.warren("undo", self.w.id)
                self.assertEqual((self.read("a"), self.read("b")), ("1\n", "1\n"))

    def test_repeating_it_with_json_or_by_its_name(self):
        for words in ((self.w.id,), None):
            with self.subTest(words):
                self.doCleanups()
                self.setUp()
                self.fill(a="1\n", b="1\n")
                self.write("/a", "2\n")
                self.write("/b", "2\n")
                self.w.warren("apply", self.w.id)
                (kept,) = json.loads(self.w.warren("undo", "--list", "--json"))
                again = words or ("--record", kept["name"])
                self.assertTrue(self.kill("renameat2", 3, "undo", *again))
                said = json.loads(self.w.warren("undo", "--json", *again))
                self.assertEqual((sorted(said["undone"]), said["conflicts"], said["was_interrupted"]), (["/a", "/b"], [], True))
                self.assertEqual((self.read("a"), self.read("b")), ("1\n", "1\n"))

    def test_a_killed_undo_of_another_agent_does_not_stop_this_one(self):
        self.fill(a="1\n", b="1\n")
        other = self.w.root / "other"
        overlaid.write(other / "x", "1\n")
        self.w.warren("init", "--base", other, "second")
        self.w.warren("fs", "second", "write", "/x", input=b"2\n")
        self.w.warren("apply", "second")
        self.write("/a", "2\n")
        self.write("/b", "2\n")
        self.w.warren("apply", self.w.id)
        self.assertTrue(self.kill("renameat2", 3, "undo", self.w.id))
        aside = self.base.with_name("moved")
        self.base.rename(aside)
        done = self.w.run("undo", "second")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual((other / "x").read_text(), "1\n")
        listed = self.w.run("undo", "--list")
        self.assertEqual(listed.returncode, 1)
        self.assertIn(b"was interrupted, and cannot be finished", listed.stderr)
        self.assertIn(b"second", listed.stdout)
        aside.rename(self.base)
        self.assertIn(b"was interrupted; it is finished now", self.w.run("undo", "--list").stderr)
        self.assertEqual((self.read("a"), self.read("b")), ("1\n", "1\n"))

    def test_messages(self):
        self.fill(a="1\n", b="1\n")
        self.assertIn("no agent 'nosuch'", self.w.fails("undo", "nosuch"))
        self.assertIn("no apply of 'a' can be undone", self.w.fails("undo", self.w.id))
        self.write("/a", "2\n")
        self.write("/b", "2\n")
        self.w.warren("apply", self.w.id)
        self.assertTrue(self.kill("renameat2", 3, "undo", self.w.id))
        done = self.w.run("apply", "--recover", self.w.id)
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        self.assertIn(b"an undo in ", done.stderr)
        self.assertIn(b"was interrupted; it is finished now", done.stderr)
        self.assertEqual(self.w.warren("apply", "--recover", self.w.id), b"no apply of this agent was interrupted\n")


if __name__ == "__main__":
    mounted.need_fuse()
    if not shutil.which("strace"):
        sys.exit("this test needs strace")
    unittest.main()
