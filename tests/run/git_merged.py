#!/usr/bin/env python3
"""Once the user has merged an agent's commits, the session goes on from what the project has.

    WARREN=path/to/warren git_merged.py [-v] [Class.test_name]

Needs root.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed
from git import COMMIT, Git

WORK = "git mv dir moved; mkdir dir; echo n > dir/n; echo more > more; git add -A; " + COMMIT + " own"


class Merged(Git):
    def warren(self, *words, status=0):
        done = self.world.warren(*words)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout

    def bring(self, session="s"):
        self.warren("apply", f"session:{session}", "--keep")
        self.git("merge", "-q", f"warren/{session}")

    def files(self):
        return sorted(str(path.relative_to(self.base)) for path in self.base.rglob("*")
                      if path.is_file() and ".git" not in path.parts)

    def work_and_bring(self, after="true"):
        self.inside(WORK)
        self.bring()
        self.inside(after)

    def test_nothing_is_left_of_what_was_merged(self):
        self.inside(WORK)
        self.bring()
        self.assertEqual(self.warren("diff", "session:s"), "")
        self.warren("apply", "session:s")
        self.assertEqual(self.world.sessions(), [])
        self.assertEqual(self.files(), ["dir/n", "file", "more", "moved/inner"])
        self.assertEqual(self.git("status", "--short"), "")

    def test_what_the_agent_does_next_is_a_change_of_the_merged_version(self):
        for number, (script, change, files) in enumerate((
                ("rm more", "D f /more\n", ["dir/n", "file", "moved/inner"]),
                ("mv more again", "R f /more -> /again\n", ["again", "dir/n", "file", "moved/inner"]),
                ("git mv moved again", "R d /moved -> /again\n", ["again/inner", "dir/n", "file", "more"]),
                ("rm -r moved", "D d /moved\nD f /moved/inner\n", ["dir/n", "file", "more"]),
                ("echo 2 >> more", "M f /more\n", ["dir/n", "file", "more", "moved/inner"]),
                ("rm more; ln -s x more", "D f /more\nA l /more\n", ["dir/n", "file", "moved/inner"]))):
            with self.subTest(script):
                self.git("reset", "-q", "--hard", self.git("rev-list", "--max-parents=0", "HEAD"))
                self.work_and_bring(script)
                self.assertEqual(self.warren("diff", "session:s"), change)
                self.warren("apply", "session:s")
                self.assertEqual(self.files(), files)
                self.assertEqual(self.world.sessions(), [])
                (self.base / "more").unlink(missing_ok=True)
                self.git("clean", "-qfdx")
                self.git("branch", "-D", "warren/s")

    def test_it_holds_while_the_session_runs(self):
        script = (WORK + "; touch done; until [ -e go ]; do sleep 0.05; done; "
                  "until git log -1 --format=%s warren/base | grep -q own; do sleep 0.05; done; "
                  "exec 3>> more; echo 3 >&3; rm more; mv moved/inner moved/other; cat moved/other > seen")
        with self.world.start("run", "--session", "s", "--", "sh", "-ec", script) as running:
            sandboxed.wait_for(lambda: "A f /done" in self.world.warren("diff", "session:s").stdout, "the agent did not start")
            self.bring()
            (self.base / "go").write_text("")
            _, said = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(running.returncode, 0, said)
        (self.base / "go").unlink()
        self.assertEqual(self.warren("diff", "session:s"), "D f /more\nR f /moved/inner -> /moved/other\nA f /seen\n")
        self.warren("apply", "session:s")
        self.assertEqual(self.files(), ["dir/n", "done", "file", "moved/other", "seen"])

    def test_what_was_removed_before_the_merge_is_a_change_after_it(self):
        self.inside(WORK)
        self.warren("apply", "session:s", "--keep")
        self.inside("rm more; echo 2 > dir/n")
        self.git("merge", "-q", "warren/s")
        self.inside("test ! -e more")
        self.assertEqual(self.warren("diff", "session:s"), "M f /dir/n\nD f /more\n")

    def test_what_others_have_changed_meanwhile_is_not_taken_for_the_merged_version(self):
        self.inside(f"echo agent >> file; {COMMIT} own")
        self.bring()
        (self.base / "file").write_text("newer\n")
        self.assertEqual(self.inside("cat file").stdout, "of the base\nagent\n")
        self.commit("newer")
        self.assertEqual(self.inside("cat file; git status --short").stdout, "of the base\nagent\n")
        self.warren("apply", "session:s")
        self.assertEqual((self.base / "file").read_text(), "newer\n")

    def test_what_was_discarded_is_not_deleted_by_the_merge(self):
        self.inside(WORK)
        self.warren("apply", "session:s", "--keep")
        self.warren("discard", "session:s", "more", "--yes")
        self.git("merge", "-q", "warren/s")
        self.warren("apply", "session:s")
        self.assertIn("more", self.files())

    def test_a_note_that_the_agent_has_damaged_is_none(self):
        write = "printf '{}' > .git/warren-brought".format
        for damage in (write("x"), write("0123456789012345678901234567890123456789\\nwarren-apply-6\\n\\377\\377\\377"),
                       "LC_ALL=C sed -i s,/more,xmore, .git/warren-brought", "LC_ALL=C sed -i s,/more,/../., .git/warren-brought"):
            self.inside(WORK, session="t")
            self.warren("apply", "session:t", "--keep")
            self.inside(damage, session="t")
            self.git("merge", "-q", "warren/t")
            self.inside("cat more", session="t")
            self.warren("sessions", "delete", "t", "--yes")
            self.git("reset", "-q", "--hard", "HEAD~1")
            self.git("branch", "-D", "warren/t")


if __name__ == "__main__":
    unittest.main()
