#!/usr/bin/env python3
"""apply and discard while programs have files of the mounted agent open.

    WARREN=path/to/warren in_use.py [-v] [Class.test_name]

Needs root and /dev/fuse; the test of a killed apply needs strace.
"""
import itertools
import mmap
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import MountedCase
from overlaid import mounted


class InUse(MountedCase):
    def check_clean(self):
        """After the last user nothing is left of what was applied."""
        self.assertEqual(self.w.changes(), [])
        self.end()
        self.assertEqual(self.w.changes(), [])
        self.assertEqual(self.w.warren("sql", self.w.id, "select count(*) from fs_dentry").split()[-1], b"0")

    def test_a_new_file_goes_on(self):
        self.begin(other="other\n")
        with open(self.point / "log", "w", buffering=1) as log:
            log.write("one\n")
            number = os.stat(self.point / "log").st_ino
            self.apply()
            self.assertEqual(self.w.changes(), [])
            self.assertEqual(os.stat(self.point / "log").st_ino, number)
            log.write("LATE\n")
            self.assertEqual((self.point / "log").read_text(), "one\nLATE\n")
            self.assertEqual(self.w.changes(), ["M f /log"])
            self.apply()
            self.assertEqual(self.read("log"), "one\nLATE\n")
            log.write("LATER\n")
        self.apply()
        self.assertEqual(self.read("log"), "one\nLATE\nLATER\n")
        self.check_clean()

    def test_a_file_that_was_saved_by_a_rename_goes_on(self):
        self.begin(log="of the base\n")
        with open(self.point / "draft", "w", buffering=1) as log:
            log.write("one\n")
            os.rename(self.point / "draft", self.point / "log")
            self.apply()
            self.assertEqual(self.read("log"), "one\n")
            log.write("LATE\n")
            self.assertEqual((self.point / "log").read_text(), "one\nLATE\n")
            self.assertEqual(self.w.changes(), ["M f /log"])
        self.apply()
        self.assertEqual(self.read("log"), "one\nLATE\n")
        self.check_clean()

    def test_a_renamed_file_goes_on(self):
        self.begin(old="of the base\n", text="text\n")
        os.rename(self.point / "old", self.point / "new")
        os.rename(self.point / "text", self.point / "text2")
        with open(self.point / "new", "a", buffering=1) as same, open(self.point / "text2", "a", buffering=1) as changed:
            changed.write("more\n")
            self.apply()
            self.assertEqual(self.w.changes(), [])
            same.write("LATE\n")
            changed.write("LATE\n")
            self.assertEqual((self.point / "new").read_text(), "of the base\nLATE\n")
            self.assertEqual((self.point / "text2").read_text(), "text\nmore\nLATE\n")
            self.assertEqual(self.w.changes(), ["M f /new", "M f /text2"])
        self.apply()
        self.assertEqual(self.read("new"), "of the base\nLATE\n")
        self.assertEqual(self.read("text2"), "text\nmore\nLATE\n")
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_a_program_in_a_new_directory_goes_on(self):
        self.begin(other="other\n")
        (self.point / "new" / "deep").mkdir(parents=True)
        (self.point / "new" / "a").write_text("a\n")
        script = "read line; getcwd=$(/bin/pwd) && echo LATE > late && echo more >> ../a && ls .. && echo $getcwd"
        with subprocess.Popen(["sh", "-c", script], cwd=self.point / "new" / "deep", stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as shell:
            self.apply()
            said = shell.communicate("go\n", timeout=mounted.PATIENCE_SECONDS)[0]
        self.assertEqual(said.split(), ["a", "deep", str(self.point / "new" / "deep")])
        self.assertEqual(self.w.changes(), ["M f /new/a", "A f /new/deep/late"])
        (self.base / "new" / "host").write_text("of the host\n")
        mounted.wait_for(lambda: (self.point / "new" / "host").exists(), "the host's file does not show")
        self.apply()
        self.assertEqual(self.read("new/deep/late"), "LATE\n")
        self.assertEqual(self.read("new/a"), "a\nmore\n")
        os.rename(self.point / "new", self.point / "moved")
        self.assertEqual(sorted(os.listdir(self.point / "moved")), ["a", "deep", "host"])
        self.apply()
        self.assertEqual(self.read("moved/host"), "of the host\n")
        self.assertFalse((self.base / "new").exists())
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_a_new_directory_in_use_outlives_every_apply(self):
        self.begin(other="other\n")
        (self.point / "new").mkdir()
        opened = os.open(self.point / "new", os.O_RDONLY | os.O_DIRECTORY)
        try:
            for count in range(3):
                (self.point / f"new{count}").write_text("new\n")
                self.apply()
            (self.point / "other").write_text("changed\n")
            self.w.warren("discard", "--yes", self.w.id)
            os.close(os.open("late", os.O_WRONLY | os.O_CREAT, dir_fd=opened))
            self.apply()
            self.assertEqual(os.listdir(self.base / "new"), ["late"])
            os.rename(self.point / "new", self.point / "moved")
            self.apply()
            os.mkdir("later", dir_fd=opened)
            self.assertEqual(self.w.changes(), ["A d /moved/later"])
        finally:
            os.close(opened)
        self.apply()
        self.assertEqual(sorted(os.listdir(self.base / "moved")), ["late", "later"])
        self.assertEqual(self.w.changes(), [])
        self.end()
        self.assertEqual(self.w.changes(), [])

    def test_a_database_in_wal_mode_keeps_its_commits(self):
        self.begin(other="other\n")
        path = self.point / "app.db"
        first = sqlite3.connect(path)
        first.execute("pragma journal_mode=wal")
        first.execute("create table t(x)")
        first.execute("insert into t values(1)")
        first.commit()
        self.apply()
        first.execute("insert into t values(2)")
        first.commit()
        second = sqlite3.connect(path)
        count = "select count(*) from t"
        self.assertEqual(second.execute(count).fetchone(), (2,))
        second.execute("insert into t values(3)")
        second.commit()
        self.assertEqual(first.execute(count).fetchone(), (3,))
        first.execute("begin immediate")
        second.execute("pragma busy_timeout=0")
        with self.assertRaises(sqlite3.OperationalError):
            second.execute("begin immediate")  # one lock, whenever it was opened
        first.rollback()
        second.close()
        first.close()
        self.apply()
        with sqlite3.connect(self.base / "app.db") as base:
            self.assertEqual(base.execute(count).fetchone(), (3,))
            self.assertEqual(base.execute("pragma integrity_check").fetchone(), ("ok",))
        base.close()
        self.check_clean()

    def test_hard_links_and_other_kinds_go_on(self):
        self.begin(other="other\n")
        os.mkfifo(self.point / "pipe")
        os.symlink("one", self.point / "link")
        with open(self.point / "one", "w", buffering=1) as file, open(self.point / "pipe", "r+b", buffering=0) as pipe:
            file.write("1\n")
            os.link(self.point / "one", self.point / "two")
            os.truncate(self.point / "one", mmap.PAGESIZE)
            with open(self.point / "one", "r+b") as again, mmap.mmap(again.fileno(), mmap.PAGESIZE) as mapped:
                self.apply()
                self.assertEqual(self.w.changes(), [])
                with open(self.point / "pipe", "wb", buffering=0) as writer:
                    writer.write(b"through")
                self.assertEqual(pipe.read(7), b"through")
                mapped[2:7] = b"LATE\n"
                self.assertEqual((self.point / "two").read_bytes()[:7], b"1\nLATE\n")
                mapped.flush()
            self.assertEqual(self.w.changes(), ["M f /one", "M f /two"])
            self.apply()
        for name in ("one", "two"):
            self.assertEqual((self.base / name).read_bytes()[:7], b"1\nLATE\n")
        self.assertEqual(os.stat(self.base / "one").st_ino, os.stat(self.base / "two").st_ino)
        os.unlink(self.point / "link")
        self.assertEqual(self.w.changes(), ["D l /link"])
        self.apply()
        self.check_clean()

    def test_a_second_name_of_a_file_of_the_base_is_a_file_of_its_own_after_the_apply(self):
        self.begin(first="base\n")
        os.link(self.point / "first", self.point / "second")
        self.apply()
        self.assertEqual(self.w.changes(), [])
        (self.point / "first").write_text("1\n")
        (self.point / "second").write_text("2\n")
        self.assertEqual(((self.point / "first").read_text(), (self.point / "second").read_text()), ("1\n", "2\n"))
        self.assertEqual(self.w.changes(), ["M f /first", "M f /second"])
        self.apply()
        self.assertEqual((self.read("first"), self.read("second")), ("1\n", "2\n"))
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_two_names_that_are_applied_together_stay_one_file(self):
        self.begin(first="base\n")
        os.link(self.point / "first", self.point / "second")
        with open(self.point / "second", "a", buffering=1) as file:
            for text in ("1\n", "2\n", "3\n"):
                file.write(text)
                self.apply()
                self.assertEqual(self.w.changes(), [])
                self.assertEqual((self.point / "first").read_text(), (self.point / "second").read_text())
                self.assertEqual(self.read("first"), self.read("second"))
        self.assertEqual(self.read("first"), "base\n1\n2\n3\n")
        self.assertEqual(os.stat(self.base / "first").st_ino, os.stat(self.base / "second").st_ino)
        self.end()
        self.assertEqual(self.w.changes(), [])
        (self.base / "first").write_text("of the host\n")
        self.assertEqual(self.w.changes(), [])

    def test_one_of_two_names_is_applied(self):
        self.begin(other="other\n")
        with open(self.point / "one", "w", buffering=1) as file:
            file.write("1\n")
            os.link(self.point / "one", self.point / "two")
            self.apply("/one")
            self.assertEqual(self.w.changes(), ["A f /two"])
            file.write("LATE\n")
            self.assertEqual(self.w.changes(), ["M f /one", "A f /two"])
        self.apply()
        self.assertEqual((self.read("one"), self.read("two")), ("1\nLATE\n", "1\nLATE\n"))
        self.check_clean()

    def test_a_log_of_the_base_goes_on_over_several_applies(self):
        self.begin(log="base\n", other="other\n")
        with open(self.point / "log", "a", buffering=1) as log:
            log.write("1\n")
            number = os.fstat(log.fileno()).st_ino
            for count in range(2, 6):
                self.apply()
                self.assertEqual(self.w.changes(), [])
                self.assertEqual(os.stat(self.point / "log").st_ino, number)
                (self.point / f"new{count}").write_text("new\n")  # so that each apply writes something
                if count % 2 == 0:
                    self.apply()
                log.write(f"{count}\n")
                os.fsync(log.fileno())
                self.assertIn("M f /log", self.w.changes())
            text = "base\n1\n2\n3\n4\n5\n"
            self.assertEqual((self.point / "log").read_text(), text)
        self.apply()
        self.assertEqual(self.read("log"), text)
        self.check_clean()

    def test_a_log_of_the_base_follows_what_the_host_makes_of_it(self):
        self.begin(log="base\n", other="other\n")
        with open(self.point / "log", "a+", buffering=1) as log:
            log.write("1\n")
            self.apply()
            (self.base / "fresh").write_text("replaced\n")
            os.rename(self.base / "fresh", self.base / "log")
            mounted.wait_for(lambda: (self.point / "log").read_text() == "replaced\n", "the host's file does not show")
            log.write("2\n")
            self.assertEqual(self.w.changes(), ["M f /log"])
            self.apply()
            self.assertEqual(self.read("log"), "replaced\n2\n")
            with open(self.base / "log", "a") as edited:
                edited.write("in place\n")
            (self.base / "log").chmod(0o600)
            text = "replaced\n2\nin place\n"
            mounted.wait_for(lambda: (self.point / "log").read_text() == text, "the host's line does not show")
            mounted.wait_for(lambda: os.fstat(log.fileno()).st_mode & 0o777 == 0o600, "the host's mode does not show")
            log.seek(0)
            self.assertEqual(log.read(), text)
            self.assertEqual(self.w.changes(), [])
        self.check_clean()

    def test_what_the_host_makes_of_a_changed_file_is_not_overwritten(self):
        self.begin(log="base\n")
        with open(self.point / "log", "a", buffering=1) as log:
            log.write("1\n")
            self.apply()
            log.write("2\n")
            (self.base / "log").write_text("of the host\n")
            self.assertIn("conflict: /log: it was changed in the base", self.w.fails("apply", self.w.id))
            self.assertEqual((self.point / "log").read_text(), "base\n1\n2\n")
        self.assertEqual(self.read("log"), "of the host\n")
        self.end()

    def test_after_an_undo_the_session_has_what_the_base_has(self):
        self.begin(log="base\n")
        with open(self.point / "log", "a+", buffering=1) as log:
            log.write("1\n")
            self.apply()
            self.w.warren("undo", self.w.id)
            mounted.wait_for(lambda: (self.point / "log").read_text() == "base\n", "the old content does not show")
            log.write("2\n")
        self.apply()
        self.assertEqual(self.read("log"), "base\n2\n")
        self.check_clean()

    def test_with_a_checkpoint_an_undo_shows_as_without_one(self):
        """Every commit to an agent with checkpoints is in its journal, also the end of an undo."""
        for take in ("before", "after"):
            with self.subTest(checkpoint=take):
                self.doCleanups()
                self.setUp()
                self.begin(log="base\n", other="base\n")
                with open(self.point / "log", "a+", buffering=1) as log:
                    if take == "before":
                        self.w.warren("checkpoint", self.w.id, "take", "one")
                    log.write("1\n")
                    (self.point / "other").write_text("agent\n")
                    if take == "after":
                        self.w.warren("checkpoint", self.w.id, "take", "one")
                    self.apply()
                    self.w.warren("undo", self.w.id)
                    shown = [(name, "base\n") for name in ("log", "other")]
                    mounted.wait_for(lambda: [(name, (self.point / name).read_text()) for name, _ in shown] == shown,
                                     "the old content does not show", seconds=10)
                    self.assertEqual(self.w.changes(), [])
                    log.write("2\n")
                self.assertEqual(self.w.changes(), ["M f /log"])
                self.apply()
                self.assertEqual((self.read("log"), self.read("other")), ("base\n2\n", "base\n"))
                self.check_clean()

    def test_after_an_apply_that_fails_the_session_follows_the_host_with_a_checkpoint(self):
        """What had to wait while content was staged does not wait for ever."""
        self.begin(log="base\n", big="base\n")
        self.w.warren("checkpoint", self.w.id, "take", "one")
        with open(self.point / "log", "a+", buffering=1) as log:
            log.write("1\n")
            self.apply()
            (self.point / "big").write_text("agent\n")
            stopped = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2", "-e",
                                        "inject=renameat2:error=EIO:delay_enter=3000000:when=1", mounted.program(),
                                        "apply", self.w.id], cwd=self.w.home, env=self.w.environment(),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            mounted.wait_for(self.mark, "the apply does not begin")
            overlaid.write(self.base / "log", "of the host\n")
            self.assertNotEqual(stopped.wait(timeout=60), 0)
            self.w.run("apply", "--recover", self.w.id)
            self.assertFalse(self.mark())
            mounted.wait_for(lambda: (self.point / "log").read_text() == "of the host\n", "the host's edit does not show",
                             seconds=10)
        self.end()

    def mark(self):
        """Whether the agent file says that the base is about to change."""
        database = sqlite3.connect(self.w.file)
        (count,) = database.execute("SELECT count(*) FROM wr_apply").fetchone()
        database.close()
        return count > 0

    def test_after_a_killed_undo_the_session_has_what_it_undid(self):
        """Killed at each write to the agent file and at each removal; the last one is that of its record."""
        for call, nth in itertools.product(("pwrite64", "fdatasync", "unlinkat", "unlink"), range(1, 5)):
            with self.subTest(call=call, nth=nth):
                self.doCleanups()
                self.setUp()
                self.begin(d__y="y\n", other="other\n")
                os.rename(self.point / "d", self.point / "e")
                (self.point / "n").write_text("n\n")
                self.apply()
                done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                       f"inject={call}:signal=KILL:when={nth}", mounted.program(), "undo", self.w.id],
                                      cwd=self.w.home, env=self.w.environment(), capture_output=True, timeout=60)
                if done.returncode != 0:
                    self.assertNotEqual(self.w.records(), [])
                    self.w.run("undo", self.w.id)
                self.assertEqual((self.w.records(), self.mark()), ([], False))
                self.assertEqual((self.read("d/y"), (self.base / "n").exists()), ("y\n", False))
                self.assertEqual(self.w.changes(), ["R d /d -> /e", "A f /n"])
                self.apply()
                self.assertEqual((self.read("e/y"), self.read("n")), ("y\n", "n\n"))
                self.end()

    def test_the_mark_of_an_undo_that_fails_stays_until_it_is_taken_back(self):
        self.begin(a="1\n", b="1\n")
        (self.point / "a").write_text("2\n")
        (self.point / "b").write_text("2\n")
        self.apply()
        done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=renameat2:error=EIO:when=2+",
                               mounted.program(), "undo", self.w.id], cwd=self.w.home, env=self.w.environment(),
                              capture_output=True, timeout=60)
        self.assertIn(b"taking it back failed too", done.stderr)
        self.assertTrue(self.mark())
        self.w.run("undo", "--list", self.w.id)
        self.assertEqual((self.mark(), self.w.records()), (False, []))
        self.end()

    def test_after_an_undo_what_was_renamed_is_renamed_again(self):
        self.begin(a__x="x\n", d__y="y\n", other="other\n")
        os.rename(self.point / "a/x", self.point / "z")
        os.rename(self.point / "d", self.point / "e")
        with open(self.point / "z", "a+", buffering=1) as file:
            self.apply()
            self.w.warren("undo", self.w.id)
            self.assertEqual((self.read("a/x"), self.read("d/y")), ("x\n", "y\n"))
            self.assertEqual(self.w.changes(), ["R d /d -> /e", "R f /a/x -> /z"])
            mounted.wait_for(lambda: not (self.point / "a/x").exists(), "the old name still shows")
            file.write("more\n")
            self.assertEqual(((self.point / "z").read_text(), (self.point / "e/y").read_text()), ("x\nmore\n", "y\n"))
        self.apply()
        self.assertEqual((self.read("z"), self.read("e/y")), ("x\nmore\n", "y\n"))
        self.assertEqual(sorted(os.listdir(self.base)), ["a", "e", "other", "z"])
        self.check_clean()

    def test_after_an_undo_what_is_new_in_a_renamed_directory_is_new_again(self):
        self.begin(c__z="z\n", c__s__t="t\n", a__q="q\n", d__y="y\n", x="x\n", over="over\n")
        (self.base / "a" / "b").mkdir()
        (self.point / "c" / "m").mkdir()
        for name in ("c/f", "c/m/f", "c/s/f"):
            (self.point / name).write_text("new\n")
        os.rename(self.point / "c" / "s", self.point / "c" / "r")
        os.rename(self.point / "c", self.point / "e")
        for name in ("e/later", "e/r/later"):
            (self.point / name).write_text("new\n")
        (self.point / "a" / "b").rmdir()
        os.rename(self.point / "d", self.point / "a" / "b")
        (self.point / "a" / "b" / "f").write_text("new\n")
        os.rename(self.point / "x", self.point / "over")
        wanted = overlaid.snapshot(self.point)
        self.apply()
        self.w.warren("undo", self.w.id)
        self.assertEqual((self.read("c/s/t"), os.listdir(self.base / "a/b"), self.read("over")), ("t\n", [], "over\n"))
        mounted.wait_for(lambda: overlaid.snapshot(self.point) == wanted, "the session does not show the agent's files")
        self.apply()
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), wanted), [])
        self.check_clean()

    def test_directories_that_exchange_their_names(self):
        self.begin(a__x="x\n", c__y="y\n")
        for old, new in (("a", "t"), ("c", "a"), ("t", "c")):
            os.rename(self.point / old, self.point / new)
        for name in ("a/n", "c/n"):
            (self.point / name).write_text(name)
        done = self.w.run("apply", self.w.id)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        for place in (self.point, self.base):
            self.assertEqual([sorted(os.listdir(place / name)) for name in "ac"], [["n", "y"], ["n", "x"]])
            self.assertEqual([(place / name).read_text() for name in ("a/n", "c/n")], ["a/n", "c/n"])
        self.check_clean()

    def test_directories_and_what_they_have_under_one_name_are_exchanged(self):
        self.begin(a__s__x="a\n", a__own="a\n", b__s__x="b\n", b__own="b\n", c__s="c\n", c__own="c\n", d__s="d\n", d__own="d\n")
        before = overlaid.snapshot(self.base)
        for one, other in (("a", "b"), ("a/s", "b/s"), ("c", "d"), ("c/s", "d/s")):
            for old, new in ((one, "t"), (other, one), ("t", other)):
                os.rename(self.point / old, self.point / new)
        wanted = overlaid.snapshot(self.point)
        self.apply()
        for _ in range(2):
            self.assertEqual([self.read(name) for name in ("a/s/x", "a/own", "c/s", "d/own")], ["a\n", "b\n", "c\n", "c\n"])
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), wanted), [])
            self.w.warren("undo", self.w.id)
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
            mounted.wait_for(lambda: overlaid.snapshot(self.point) == wanted, "the session does not show the agent's files")
            self.apply()
        self.check_clean()

    def test_after_an_undo_an_edit_of_what_was_renamed_is_a_conflict(self):
        self.begin(x="x\n")
        os.rename(self.point / "x", self.point / "z")
        self.apply()
        self.w.warren("undo", self.w.id)
        (self.point / "z").write_text("of the agent\n")
        overlaid.write(self.base / "x", "of the user\n")
        self.assertIn("conflict: /z: it was changed in the base", self.w.fails("apply", self.w.id))
        self.assertEqual(self.read("x"), "of the user\n")
        self.end()

    def test_a_large_file_of_the_base_goes_on_and_is_not_copied(self):
        size = 20 << 20  # larger than what is copied whole
        self.begin(other="other\n")
        (self.base / "large").write_bytes(b"x" * size)
        with open(self.point / "large", "r+b", buffering=0) as file:
            for at in (0, size // 2, size - 1):
                file.seek(at)
                file.write(b"1")
                self.apply()
                file.seek(at)
                self.assertEqual(file.read(1), b"1")
                self.assertEqual((self.point / "large").read_bytes(), (self.base / "large").read_bytes())
            file.seek(1)
            file.write(b"discarded")
            self.w.warren("discard", "--yes", self.w.id)
            self.assertEqual(self.w.changes(), [])
            file.seek(0)
            self.assertEqual(file.read(10), b"1xxxxxxxxx")
            stored = int(self.w.warren("sql", self.w.id, "select coalesce(sum(length(data)), 0) from fs_data").split()[-1])
            self.assertLess(stored, size // 4)
            file.seek(5)
            file.write(b"2")
        self.apply()
        self.assertEqual((self.base / "large").read_bytes()[:7], b"1xxxx2x")
        self.check_clean()

    def test_a_database_of_the_base_goes_on(self):
        self.begin(other="other\n")
        with sqlite3.connect(self.base / "app.db") as made:
            made.execute("create table t(x)")
        made.close()
        server = sqlite3.connect(self.point / "app.db")
        for count in range(1, 4):
            server.execute("insert into t values(?)", (count,))
            server.commit()
            self.apply()
            reader = sqlite3.connect(self.point / "app.db")
            self.assertEqual(reader.execute("select count(*) from t").fetchone(), (count,))
            reader.close()
            (self.point / f"new{count}").write_text("new\n")
            self.apply()
        server.execute("insert into t values(4)")
        server.commit()
        server.close()
        self.apply()
        with sqlite3.connect(self.base / "app.db") as base:
            self.assertEqual(base.execute("select count(*) from t").fetchone(), (4,))
            self.assertEqual(base.execute("pragma integrity_check").fetchone(), ("ok",))
        base.close()
        self.check_clean()

    def test_a_file_whose_attributes_alone_were_applied_goes_on(self):
        self.begin(script="#!/bin/sh\necho hello\n", tagged="tagged\n", unread="#!/bin/sh\necho unread\n")
        (self.point / "script").read_text()
        (self.point / "script").chmod(0o755)
        (self.point / "unread").chmod(0o755)
        os.setxattr(self.point / "tagged", "user.a", b"1")
        for text in ("1\n", "2\n"):
            self.apply()
            self.assertEqual(self.w.changes(), [])
            for name, said in (("script", b"hello\n"), ("unread", b"unread\n")):
                self.assertEqual(subprocess.check_output([self.point / name]), said)
            with open(self.point / "tagged", "a") as tagged:
                tagged.write(text)
        os.rename(self.point / "script", self.point / "moved")
        os.unlink(self.point / "unread")
        self.assertEqual(self.w.changes(), ["R f /script -> /moved", "M f /tagged", "D f /unread"])
        self.apply()
        self.assertEqual((self.read("tagged"), self.read("moved")), ("tagged\n1\n2\n", "#!/bin/sh\necho hello\n"))
        self.assertEqual(os.listdir(self.point), os.listdir(self.base))
        self.check_clean()

    def test_discard_gives_a_file_of_the_base_back_to_those_who_have_it_open(self):
        self.begin(log="base\n")
        with open(self.point / "log", "a+", buffering=1) as log:
            log.write("1\n")
            self.apply()
            log.write("2\n")
            self.w.warren("discard", "--yes", self.w.id)
            self.assertEqual(self.w.changes(), [])
            log.write("3\n")
            log.seek(0)
            self.assertEqual(log.read(), "base\n1\n3\n")
        self.apply()
        self.assertEqual(self.read("log"), "base\n1\n3\n")
        self.check_clean()

    def test_after_a_discard_the_names_of_the_base_are_found_at_once(self):
        """Also those that the kernel remembers as missing, without a listing of the directory."""
        self.begin(gone="1\n", renamed="1\n", dir__x="1\n", other="1\n")
        (self.point / "gone").unlink()
        (self.point / "renamed").rename(self.point / "new")
        shutil.rmtree(self.point / "dir")
        names = ("gone", "renamed", "dir/x")
        for name in names:
            self.assertFalse((self.point / name).exists())
        self.w.warren("discard", "--yes", self.w.id)
        mounted.wait_for(lambda: all((self.point / name).exists() for name in names), "what was removed is not found",
                         seconds=10)
        self.assertFalse((self.point / "new").exists())
        self.end()

    def test_what_is_written_after_a_discard_is_not_lost_in_a_file_that_was_removed(self):
        """The old file is still open, and has the number of the base's, which shows again."""
        removals = {"replaced": lambda path: (overlaid.write(path + ".new", "new\n"), os.rename(path + ".new", path)),
                    "removed": os.unlink,
                    "made_again": lambda path: (os.unlink(path), overlaid.write(path, "new\n"))}
        self.begin(**{name: f"{name}\n" for name in removals})
        for name, remove in removals.items():
            path = str(self.point / name)
            with open(path, "r+", buffering=1) as old:
                remove(path)
                old.write("OLD")
                old.flush()
                self.w.warren("discard", "--yes", self.w.id)
                mounted.wait_for(lambda: pathlib.Path(path).read_text() == f"{name}\n", "the base's file shows")
                self.assertEqual(os.fstat(old.fileno()).st_nlink, 1)
            with open(path, "a") as file:
                file.write("work\n")
                os.fsync(file.fileno())
            self.assertEqual(self.w.changes(), [f"M f /{name}"])
            self.apply()
            self.assertEqual(self.read(name), f"{name}\nwork\n")
        self.check_clean()

    def test_what_a_checkpoint_brings_back_is_a_change_again(self):
        """Files that were applied, and that programs may have open, are in the checkpoint; the base is another now."""
        names = ("changed", "gone", "of_the_host", "lost", "same")
        self.begin(**{name: "init\n" for name in names})
        for name in (*names, "new"):
            with open(self.point / name, "a") as file:
                file.write("v1\n")
        (self.point / "dir").mkdir()
        (self.point / "dir" / "x").write_text("v1\n")
        self.apply()
        self.w.warren("checkpoint", self.w.id, "take", "v1")
        for name in ("changed", "new"):
            (self.point / name).write_text("v2\n")
        os.unlink(self.point / "gone")
        os.rename(self.point / "dir", self.point / "moved")
        self.apply()
        overlaid.write(self.base / "of_the_host", "edited\n")
        os.unlink(self.base / "lost")
        self.w.warren("checkpoint", self.w.id, "restore", "v1")
        expected = ["A d /dir", "A f /dir/x", "A f /gone", "A f /lost", "M f /changed", "M f /new", "M f /of_the_host"]
        restored = {name: "init\nv1\n" for name in names} | {"new": "v1\n", "dir/x": "v1\n"}

        def check(point):
            self.assertEqual(sorted(self.w.changes()), expected)
            self.assertEqual({name: (point / name).read_text() for name in restored}, restored)
        mounted.wait_for(lambda: (self.point / "gone").exists(), "what was restored shows")
        check(self.point)
        self.w.warren("fork", self.w.id, "forked", "--at", "v1")
        listed = self.w.warren("diff", "-z", "forked").decode().split("\0")
        self.assertEqual(sorted(line for line in listed if line), expected)
        self.end()
        self.point = self.w.mount()
        check(self.point)
        self.assertIn("conflict: /of_the_host: it was changed in the base", self.w.fails("apply", self.w.id))
        self.assertEqual(self.read("of_the_host"), "edited\n")
        self.apply("--force")
        self.assertEqual({name: self.read(name) for name in restored}, restored)
        self.check_clean()

    def test_what_is_written_to_a_file_that_has_another_name_in_the_base_shows_there(self):
        self.begin(b="init\n")
        os.link(self.base / "b", self.base / "twin")
        with open(self.point / "b", "a", buffering=1) as log:
            os.unlink(self.point / "b")
            log.write("work\n")  # nobody has looked at the other name
            self.assertEqual((self.point / "twin").read_text(), "init\nwork\n")
        self.assertEqual(self.w.changes(), ["D f /b", "M f /twin"])
        self.apply()
        self.assertEqual((os.listdir(self.base), self.read("twin")), (["twin"], "init\nwork\n"))
        self.check_clean()

    def test_after_a_discard_the_version_of_before_is_not_the_one_to_compare_with(self):
        self.begin(f="a=1\n")
        (self.point / "f").write_text("a=9\n")
        overlaid.write(self.base / "f", "a=2\n")
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual((self.point / "f").read_text(), "a=2\n")
        with open(self.point / "f", "a") as file:
            file.write("x\n")
        overlaid.write(self.base / "f", "a=1\n")
        self.assertIn("conflict: /f: it was changed in the base", self.w.fails("apply", self.w.id))
        self.assertEqual(self.read("f"), "a=1\n")
        self.end()

    def test_after_a_discard_the_new_version_is_the_merge_base(self):
        self.begin(f="".join(self.LINES))
        (self.point / "f").write_text("agent\n")
        base = self.with_line(1, "of the user")
        overlaid.write(self.base / "f", "".join(base))
        self.w.warren("discard", "--yes", self.w.id)
        (self.point / "f").write_text("".join(self.with_line(20, "of the agent", base)))
        overlaid.write(self.base / "f", "".join(self.with_line(10, "of the user again", base)))
        self.w.warren("apply", "--merge", self.w.id)
        merged = self.with_line(20, "of the agent", self.with_line(10, "of the user again", base))
        self.assertEqual(self.read("f"), "".join(merged))
        self.end()

    def test_what_the_host_changes_afterwards_is_not_overwritten(self):
        self.begin(other="other\n")
        with open(self.point / "log", "w", buffering=1) as log:
            log.write("one\n")
            self.apply()
            (self.base / "log").write_text("of the host\n")
            self.assertEqual(self.w.changes(), [])  # the agent has changed nothing
            log.write("LATE\n")
            self.assertIn("conflict: /log: it was changed in the base", self.w.fails("apply", self.w.id))
        self.assertEqual(self.read("log"), "of the host\n")
        os.rename(self.point / "log", self.point / "log.1")  # what it was applied as counts no more
        self.apply("/log.1")
        self.assertEqual(self.read("log.1"), "one\nLATE\n")
        self.end()

    def test_the_base_shows_again_when_nobody_uses_the_agent(self):
        self.begin(other="other\n")
        (self.point / "new").write_text("applied\n")
        (self.point / "changed").write_text("applied\n")
        self.apply()
        (self.point / "changed").write_text("changed again\n")
        (self.base / "new").write_text("of the host\n")
        self.end()
        self.assertEqual(self.fs("cat", "/new"), b"of the host\n")
        self.assertEqual(self.w.changes(), ["M f /changed"])

    def test_discard_leaves_nothing_of_renamed_exchanged_and_new_directories_with_a_changed_file(self):
        cases = ("mv d D; echo agent >> D/a", "mv d t; mv e d; mv t e; echo agent >> e/a", "mv e f; mv d e; chmod 600 e/a",
                 "mv d e/inside; echo agent >> e/inside/a", "chmod 700 d; mv d/a d/b; echo agent > d/new", "rm -r d; mkdir d; echo agent > d/a",
                 "rm -r d; mkdir -p d/deep; echo agent > d/deep/b; echo agent > d/a")
        for script in cases:
            with self.subTest(script):
                self.doCleanups()
                self.setUp()
                for name in ("d/a", "d/deep/b", "e/a"):
                    (self.base / name).parent.mkdir(parents=True, exist_ok=True)
                    (self.base / name).write_text(name + "\n")
                self.w.init()
                point = self.w.mount()
                before = overlaid.snapshot(self.base)
                subprocess.run(["sh", "-ec", script], cwd=point, check=True)
                self.w.warren("discard", "--yes", self.w.id)
                self.assertEqual(self.w.lines("-a"), [])
                self.assertEqual(overlaid.differences(overlaid.snapshot(point), before), [])
                self.w.warren("apply", self.w.id)
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
                self.w.umount(point)

    def test_discard_of_a_renamed_directory_leaves_nothing_of_an_apply_in_it(self):
        self.begin(c="c\n", d__x="x\n", d__q__y="y\n")
        overlaid.write(self.point / "d/e/new", "new\n")
        (self.point / "d/x").write_text("agent\n")
        self.apply()
        before = overlaid.snapshot(self.base)
        for paths in ((), ("/c/q/a",), ("/p", "/c")):
            os.rename(self.point / "d/e", self.point / "d/q/a")
            for old, new in (("c", "p"), ("d", "c")):
                os.rename(self.point / old, self.point / new)
            self.w.warren("discard", "--yes", self.w.id, *paths)
            if paths == ("/c/q/a",):
                self.w.warren("discard", "--yes", self.w.id)
            self.assertEqual(self.w.lines("-a"), [], paths)
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.point), before), [], paths)
        self.check_clean()

    def test_discard_removes_a_new_file_as_rm_does(self):
        self.begin(other="other\n")
        with open(self.point / "log", "w+", buffering=1) as log, open(self.point / "kept", "w", buffering=1) as kept:
            kept.write("one\n")
            self.apply("/kept")
            log.write("one\n")
            self.w.warren("discard", "--yes", self.w.id)
            self.assertFalse((self.point / "log").exists())
            log.write("LATE\n")
            log.seek(0)
            self.assertEqual(log.read(), "one\nLATE\n")
            kept.write("LATE\n")  # it was no change, so it is not discarded
        self.assertEqual(self.w.changes(), ["M f /kept"])
        self.apply()
        self.assertEqual(self.read("kept"), "one\nLATE\n")
        self.check_clean()

    def test_a_killed_apply_is_finished_and_loses_nothing(self):
        self.begin(other="other\n")
        with open(self.point / "log", "w", buffering=1) as log:
            log.write("one\n")
            # The first rename into the base's directory puts the file in; the process ends right after it.
            for call in range(1, 40):
                words = ["strace", "-f", "-o", self.w.root / "trace", "-e", "trace=renameat2",
                         "-e", f"inject=renameat2:signal=KILL:when={call}", mounted.program(), "apply", self.w.id]
                subprocess.run(words, cwd=self.w.home, env=self.w.environment(), capture_output=True, check=False)
                if (self.base / "log").exists():
                    break
                self.w.run("apply", "--recover", self.w.id)
                if (self.base / "log").exists():
                    break
            self.assertEqual(self.read("log"), "one\n")
            log.write("LATE\n")
            self.w.run("apply", "--recover", self.w.id)
            log.write("LATER\n")
            self.assertEqual((self.point / "log").read_text(), "one\nLATE\nLATER\n")
            self.assertEqual(self.w.changes(), ["M f /log"])
            self.apply()
        self.assertEqual(self.read("log"), "one\nLATE\nLATER\n")
        self.check_clean()


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
