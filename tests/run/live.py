#!/usr/bin/env python3
"""apply and discard while a session runs: what its programs go on writing is kept; and applies that were killed.

    WARREN=path/to/warren live.py [-v] [Class.test_name]

Needs root and /dev/fuse.
"""
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed

LOG = """
exec 7>log 8>>renamed
echo one >&7
mkdir new; cd new
echo ready; read line
echo LATE >&7; echo LATE >&8; echo LATE > late; /bin/pwd
cat ../log ../renamed late
"""
DATABASE = """
import sqlite3
import subprocess
db = sqlite3.connect("app.db")
db.execute("pragma journal_mode=wal")
db.execute("create table t(x)")
db.execute("insert into t values(1)")
db.commit()
print("ready", flush=True)
input()
db.execute("insert into t values(2)")
db.commit()
print(sqlite3.connect("app.db").execute("select count(*) from t").fetchone())
db.close()
print(sqlite3.connect("app.db").execute("select count(*) from t").fetchone())
"""


class Live(unittest.TestCase):
    def setUp(self):
        self.w = sandboxed.World()
        self.w.__enter__()
        self.addCleanup(self.w.__exit__)

    def begin(self, *command, options=()):
        run = self.w.start("run", "--session", "s", *options, "--", *command, text=True, stdin=sandboxed.subprocess.PIPE)
        self.addCleanup(run.wait)
        self.assertEqual(run.stdout.readline(), "ready\n")
        return run

    def go_on(self, run):
        said, self.complaints = run.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(run.returncode, 0, self.complaints)
        return said.splitlines()

    def apply(self, *args):
        done = self.w.warren("apply", "s", *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def diff(self):
        return self.w.warren("diff", "-z", "s").stdout.split("\0")[:-1]

    def test_open_files_and_the_current_directory_go_on(self):
        run = self.begin("sh", "-c", "mv file renamed" + LOG)
        self.apply()
        self.assertEqual(self.diff(), [])
        self.assertEqual(self.go_on(run), [f"{self.w.base}/new", "one", "LATE", "of the base", "LATE", "LATE"])
        self.assertEqual(self.diff(), ["M f /log", "A f /new/late", "M f /renamed"])
        self.assertEqual((self.w.base / "log").read_text(), "one\n")
        self.apply()
        self.assertEqual((self.w.base / "log").read_text(), "one\nLATE\n")
        self.assertEqual((self.w.base / "renamed").read_text(), "of the base\nLATE\n")
        self.assertEqual((self.w.base / "new" / "late").read_text(), "LATE\n")
        self.assertEqual(self.w.sessions(), [])  # nothing is left in it

    def test_a_database_keeps_its_commits(self):
        run = self.begin(sandboxed.PYTHON, "-c", DATABASE)
        self.apply()
        self.assertEqual(self.go_on(run), ["(2,)", "(2,)"])
        self.apply()
        with sqlite3.connect(self.w.base / "app.db") as base:
            self.assertEqual(base.execute("select count(*) from t").fetchone(), (2,))
        base.close()

    def test_a_session_that_was_applied_while_it_ran_is_empty(self):
        run = self.begin("sh", "-c", "echo 1 > new; echo ready; read line", options=("--keep",))
        self.apply()
        self.go_on(run)
        self.assertNotIn("warren apply", self.complaints)  # there is nothing to apply
        self.assertEqual(self.diff(), [])
        self.assertIn("deleted s", self.w.warren("sessions", "prune", "--empty", "--yes").stdout)

    def test_a_session_in_which_nothing_is_left_disappears_at_its_end(self):
        run = self.begin("sh", "-c", "echo 1 > new; echo ready; read line", options=("--hide", self.w.base / "dir"))
        self.apply()
        self.go_on(run)
        self.assertEqual(self.w.sessions(), [])
        self.assertIn("session 's' is deleted: nothing is left in it\nits restrictions end with it, a new session of this "
                      f"name needs them again: '{self.w.base}/dir' hidden\n", self.complaints)
        self.assertEqual((self.w.base / "new").read_text(), "1\n")

    def test_a_resumed_session_stays_without_changes_since_somebody_may_have_kept_it(self):
        self.w.inside("s", "sh", "-c", "echo 0 > old")
        run = self.begin("sh", "-c", "echo 1 > new; echo ready; read line")
        self.apply()
        self.go_on(run)
        self.assertEqual(self.w.sessions(), ["s"])
        self.assertIn("  warren sessions delete s   delete it: nothing is left in it\n", self.complaints)
        self.assertNotIn("warren apply", self.complaints)

    def test_a_session_stays_if_another_of_its_runs_wants_to_keep_it(self):
        run = self.begin("sh", "-c", "echo 1 > new; echo ready; read line")
        self.assertEqual(self.w.run("--session", "s", "--keep", "--", "true").returncode, 0)
        self.apply()
        self.go_on(run)
        self.assertEqual(self.w.sessions(), ["s"])
        self.assertNotIn("warren apply", self.complaints)

    def test_a_session_stays_if_an_apply_during_its_run_keeps_it(self):
        run = self.begin("sh", "-c", "echo 1 > new; echo ready; read line")
        self.apply("--keep")
        self.go_on(run)
        self.assertEqual((self.w.base / "new").read_text(), "1\n")
        self.assertEqual(self.w.sessions(), ["s"])
        self.assertIn("  warren sessions delete s   delete it: nothing is left in it\n", self.complaints)

    def test_what_is_refused_keeps_no_session(self):
        run = self.begin("sh", "-c", "echo 1 > new; echo ready; read line")
        for words in (("discard", "s", "--keep", "--yes", "/nonexistent"), ("apply", "s", "--keep", "/nonexistent"),
                      ("discard", "s", "--keep")):
            done = self.w.warren(*words)
            self.assertEqual(done.returncode, 1, words)
        self.apply()
        self.go_on(run)
        self.assertEqual(self.w.sessions(), [])

    def test_a_session_stays_if_a_discard_during_its_run_keeps_it(self):
        run = self.begin("sh", "-c", "echo 1 > new; echo ready; read line")
        self.assertEqual(self.w.warren("discard", "s", "--keep", "--yes").returncode, 0)
        self.go_on(run)
        self.assertEqual(self.w.sessions(), ["s"])

    def test_a_session_without_changes_stays_if_one_of_them_keeps_it(self):
        for words in (("discard", "s", "--keep", "--yes"), ("apply", "s", "--keep")):
            with self.subTest(words[0]):
                run = self.begin("sh", "-c", "echo ready; read line")
                done = self.w.warren(*words)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.go_on(run)
                self.assertEqual(self.w.sessions(), ["s"])
                self.w.warren("sessions", "delete", "--yes", "s")

    def test_a_run_with_discard_deletes_also_what_an_apply_keeps(self):
        run = self.begin("sh", "-c", "echo ready; read line", options=("--discard",))
        self.apply("--keep")
        self.go_on(run)
        self.assertEqual(self.w.sessions(), [])

    def test_a_recovery_says_what_it_found_also_if_the_session_cannot_be_kept(self):
        self.w.inside("s", "sh", "-c", "echo 1 > new")
        (self.w.home / ".agentfs/run/s/kept").mkdir()
        done = self.w.warren("apply", "s", "--recover", "--keep")
        self.assertEqual(done.returncode, 1)
        self.assertIn("keep the session at the end of its run", done.stderr)
        self.assertEqual(done.stdout, "no apply of this agent was interrupted\n")

    def test_what_was_only_there_for_a_while_keeps_no_session(self):
        done = self.w.run("--session", "s", "--", "sh", "-c", "echo x > scratch; rm scratch")
        self.assertIn("session 's' is deleted: nothing is left in it\n", done.stderr)
        self.assertEqual(self.w.sessions(), [])


class Interrupted(unittest.TestCase):
    """An apply that was killed."""

    def setUp(self):
        self.w = sandboxed.World()
        self.w.__enter__()
        self.addCleanup(self.w.__exit__)

    def interrupt_apply(self):
        """Kills an apply of session s after it has taken `file` away."""
        world = self.w
        self.w.inside("s", "sh", "-c", "rm file; echo x > made")
        subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2", "-e",
                        "inject=renameat2:signal=KILL:when=2", sandboxed.program(), "apply", "s", "--keep"], cwd=world.base,
                       env=world.environment(), capture_output=True, timeout=60)
        self.assertFalse((world.base / "file").exists())
        self.assertFalse((world.base / "made").exists())

    def test_a_session_stays_until_its_interrupted_apply_is_finished(self):
        world = self.w
        self.interrupt_apply()
        for words in (("sessions", "delete", "--yes", "s"), ("delete", "--yes", "session:s")):
            done = world.warren(*words)
            self.assertEqual((done.returncode, done.stdout), (1, ""), words)
        done = world.warren("sessions", "delete", "--yes", "s")
        self.assertIn("warren: an apply of 's' was interrupted, and only with it can that be finished\n"
                      "hint: `warren apply s --recover` finishes it\n", done.stderr)
        done = world.warren("undo", "s")
        self.assertIn("hint: `warren apply s --recover` finishes it\n", done.stderr)
        done = world.warren("sessions", "prune", "--older", "1ms", "--yes")
        self.assertIn("session 's' stays: an apply of 's' was interrupted", done.stderr)
        self.assertEqual(done.stdout, "nothing to delete\n")
        self.assertEqual(world.warren("apply", "s", "--recover", "--keep").returncode, 0)
        self.assertEqual((world.base / "made").read_text(), "x\n")
        self.assertEqual(world.warren("sessions", "delete", "--yes", "s").returncode, 0)
        self.assertEqual(world.warren("undo").returncode, 0)
        self.assertEqual((world.base / "file").read_text(), "of the base\n")

    def test_an_interrupted_apply_to_a_directory_that_was_replaced_can_be_ended(self):
        world = self.w
        self.interrupt_apply()
        shutil.rmtree(world.base)
        world.base.mkdir()
        (world.base / "file").write_text("of a backup\n")
        done = world.warren("apply", "s", "--recover")
        self.assertEqual(done.returncode, 1)
        record = done.stderr.split("remove ")[1].strip().strip("'")
        os.unlink(record)
        self.assertEqual((world.base / "file").read_text(), "of a backup\n")
        self.assertEqual(world.warren("apply", "s", "--force", "--trust-base", world.base).returncode, 0)
        self.assertEqual((world.base / "made").read_text(), "x\n")
        self.assertFalse((world.base / "file").exists())


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
