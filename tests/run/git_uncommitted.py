#!/usr/bin/env python3
"""The user's uncommitted work and an agent that commits: neither taken back nor published without a question.

    WARREN=path/to/warren git_uncommitted.py [-v] [Class.test_name]

Needs root.
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from git import COMMIT, Git

BOT = "git -c user.name=bot -c user.email=bot@example.org"
MARK = "[reverts your uncommitted work]"


class Uncommitted(Git):
    def setUp(self):
        super().setUp()
        (self.base / "other").write_text("1\n")
        self.commit("other")
        (self.base / "file").write_text("half done\n")
        (self.base / "scratch").write_text("mine\n")

    def warren(self, *words, status=0):
        done = self.world.warren(*words)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout + done.stderr

    def plan(self, *words):
        return json.loads(self.world.warren("apply", "session:s", "--dry-run", "--json", *words).stdout)

    def asked(self, *words):
        return [one["about"] for one in self.plan(*words)["asks"]]

    def has_work(self):
        return (self.base / "file").read_text() == "half done\n" and (self.base / "scratch").exists()


class TakenBack(Uncommitted):
    def test_what_git_put_aside_is_marked_and_asked_about(self):
        for way, files in (("stash -qu", ["/file", "/scratch"]), ("reset -q --hard", ["/file"]), ("clean -fdq", ["/scratch"]),
                           ("checkout -q .", ["/file"]), ("checkout -q -f -b feature", ["/file"])):
            with self.subTest(way):
                self.inside(f"{BOT} {way}; echo 2 > other; {BOT} commit -qm two other")
                shown = self.warren("diff", "session:s")
                self.assertEqual([line.split()[2] for line in shown.splitlines() if MARK in line], files)
                self.assertIn("revert your uncommitted work to the session's last commit", self.warren("apply", "session:s", status=1))
                self.assertEqual(self.git("branch", "--list", "warren/*"), "")
                self.assertTrue(self.has_work())
                asks = self.plan()["asks"]
                self.assertEqual([(one["about"], [file["path"] for file in one["files"]]) for one in asks], [("work", files)])
                self.warren("sessions", "delete", "s", "--yes")

    def test_the_ways_out_of_the_question(self):
        self.inside(f"git checkout -q .; echo 2 > other; {COMMIT} two")
        self.assertEqual(self.asked("--exclude", "file"), [])
        self.assertEqual(self.asked("--commits"), [])
        self.assertEqual(self.asked("--yes"), [])
        self.assertEqual(json.loads(self.world.warren("apply", "session:s", "file", "-n", "--json").stdout)["asks"][0]["about"], "work")
        self.warren("apply", "session:s", "--yes")
        self.assertEqual(self.git("status", "--short"), "?? scratch")
        self.warren("undo", "session:s")
        self.assertTrue(self.has_work())

    def test_it_is_asked_about_after_the_merge_too(self):
        self.inside(f"git checkout -q .; echo 2 > other; {COMMIT} two")
        self.warren("apply", "session:s", "--commits")
        self.git("merge", "-q", "warren/s")
        self.assertIn(MARK, self.warren("diff", "session:s"))
        self.assertEqual(self.asked(), ["work"])

    def test_a_deletion_that_git_took_back_is_work_as_well(self):
        (self.base / "other").unlink()
        self.inside(f"git checkout -q other; echo 2 > dir/inner; {BOT} commit -qm two dir/inner")
        self.assertIn(f"A f /other  {MARK}", self.warren("diff", "session:s"))

    def test_nothing_is_asked_about_what_the_agent_does_itself(self):
        self.inside(f"{BOT} stash -qu; echo 2 > other; {COMMIT} two; git stash pop -q")
        self.assertEqual(self.asked(), [])
        self.inside("echo agent > of-agent; echo more >> file")
        self.assertEqual(self.asked(), [])
        self.warren("apply", "session:s")
        self.inside("rm of-agent")  # its own, which was applied
        self.assertEqual(self.asked(), [])

    def test_without_commits_nothing_is_asked(self):
        self.inside("git checkout -q file")
        self.assertEqual(self.asked(), [])
        self.assertNotIn(MARK, self.warren("diff", "session:s"))

    def test_what_git_ignores_is_not_work(self):
        (self.base / ".gitignore").write_text("*.o\n")
        self.git("add", ".gitignore")
        self.git("commit", "-qm", "rules", "--", ".gitignore")
        (self.base / "a.o").write_text("1\n")
        self.inside(f"rm a.o; echo 2 > other; {BOT} commit -qm two other")
        self.assertEqual(self.asked("--ignored"), [])


class Committed(Uncommitted):
    def test_untracked_files_in_the_commits_are_named_and_asked_about(self):
        self.inside(f"echo 1 > mine; git add .; {BOT} commit -qm all")
        said = "the commits contain your uncommitted work: /file, /scratch; pushing the branch would publish files that you do not track: /scratch"
        self.assertIn(said, self.warren("diff", "session:s"))
        self.assertIn(said, self.warren("apply", "session:s", status=1))
        self.assertEqual(self.git("branch", "--list", "warren/*"), "")
        plan = self.plan()
        self.assertEqual((plan["commits"]["your_uncommitted"], [one["about"] for one in plan["asks"]]), (["/file", "/scratch"], ["commits"]))
        self.assertIn(said, self.warren("apply", "session:s", "--yes"))
        self.assertIn("scratch", self.git("show", "--format=", "--name-only", "warren/s"))

    def test_tracked_files_in_the_commits_are_named(self):
        self.git("add", "file", "scratch")  # and the session's index has them, too
        self.inside(f"echo 1 > mine; git add mine; {BOT} commit -qm mine")
        said = "the commits contain your uncommitted work: /file, /scratch: look at that"
        self.assertIn(said, self.warren("diff", "session:s"))
        self.assertEqual(self.asked(), [])
        self.assertIn(said, self.warren("apply", "session:s"))


class Deleting(Uncommitted):
    def test_prune_names_what_is_lost(self):
        self.inside(f"echo 2 > other; {BOT} commit -qm two other; echo 1 > new")
        self.assertEqual(self.warren("sessions", "prune", "--older", "1ms", "-n"), "would delete s (2 changes + commits)\n")
        self.assertEqual(self.warren("sessions", "prune", "--older", "1ms", "--yes"), "deleted s (2 changes + commits)\n")


if __name__ == "__main__":
    unittest.main()
