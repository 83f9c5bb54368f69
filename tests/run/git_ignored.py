#!/usr/bin/env python3
"""What git ignores stays in the session of an agent that commits, as in a git worktree.

    WARREN=path/to/warren git_ignored.py [-v] [Class.test_name]

Needs root.
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from git import COMMIT, Git

STAY = "files that git ignores stay in the session"


class Ignored(Git):
    def setUp(self):
        super().setUp()
        self.write(".gitignore", "build/\n*.log\n")
        (self.base / "build").mkdir()
        self.write("build/kept", "tracked\n")
        self.git("add", "-f", "build/kept")
        self.commit("rules")
        self.write("build/old.o", "host's\n")

    def write(self, name, text):
        (self.base / name).write_text(text)

    def warren(self, *words, status=0):
        done = self.world.warren(*words)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout + done.stderr

    def status(self):
        return self.git("status", "--short", "--ignored")

    def test_build_output_does_not_come_with_commits(self):
        for session in ("a", "b"):
            self.inside(f"mkdir -p build sub/build; echo {session} | tee {session}.txt build/old.o build/new.o sub/build/x one.log > note; "
                        f"git add {session}.txt; {COMMIT} {session}; echo {session} > rest-{session}; rm note", session=session)
        for session in ("a", "b"):
            said = self.apply(session)
            self.assertIn(f"4 {STAY}: /build, /one.log, /sub/build; --ignored writes them", said)
            self.assertIn(session, self.world.sessions())
        self.assertEqual((self.base / "build/old.o").read_text(), "host's\n")
        self.assertEqual(self.status(), "?? rest-a\n?? rest-b\n!! build/old.o")
        self.assertFalse((self.base / "sub").exists())
        self.git("merge", "-q", "warren/a")
        self.git("merge", "-q", "--no-edit", "warren/b")
        self.apply("a")
        listed = self.warren("sessions")
        self.assertIn("0 + files that git ignores", listed)
        self.assertNotIn("both change", listed)
        self.assertEqual(self.inside("cat build/new.o", session="a").stdout, "a\n")
        self.assertIn("nothing to delete", self.warren("sessions", "prune", "--empty", "-n"))
        self.warren("sessions", "prune", "--empty", "--ignored", "--yes")
        self.assertEqual(self.world.sessions(), [])

    def test_it_comes_if_it_is_asked_for(self):
        self.inside(f"echo 1 > new; git add new; {COMMIT} new; echo agent > build/new.o; echo agent > one.log")
        self.warren("apply", "session:s", "one.log")
        self.assertEqual((self.base / "one.log").read_text(), "agent\n")
        self.assertFalse((self.base / "build/new.o").exists())
        self.assertIn("--ignored cannot be used with --commits", self.warren("apply", "session:s", "--ignored", "--commits", status=2))
        self.assertIn("1 added", self.warren("apply", "session:s", "--ignored"))
        self.assertEqual((self.base / "build/new.o").read_text(), "agent\n")

    def test_cleaning_does_not_delete_what_the_user_has_built(self):
        self.inside(f"git rm -qrf build; rm -rf build; {COMMIT} gone")
        self.assertIn(f"1 file that git ignores stays in the session: /build", self.apply())
        self.git("merge", "-q", "warren/s")
        self.apply()
        self.assertEqual([path.name for path in (self.base / "build").iterdir()], ["old.o"])

    def test_tracked_files_and_rules_of_the_agent_count(self):
        self.inside(f"echo 'out/' >> .gitignore; sed -i s/build.// .gitignore; {COMMIT} rules; mkdir out; echo 1 > out/x; "
                    "echo agent >> build/kept; echo 1 > build/seen.o")
        said = self.apply()
        self.assertIn("1 file that git ignores stays in the session: /out", said)
        self.assertEqual((self.base / "build/kept").read_text(), "tracked\nagent\n")
        self.assertTrue((self.base / "build/seen.o").exists())
        self.assertFalse((self.base / "out").exists())

    def test_without_commits_it_is_applied(self):
        self.inside("echo agent > build/new.o; echo 1 > new")
        self.assertIn("2 added", self.apply())
        self.assertEqual(self.world.sessions(), [])

    def test_diff_and_the_rehearsal_say_so(self):
        self.inside(f"echo 1 > new; git add new; {COMMIT} new; echo agent | tee build/old.o build/new.o > one.log")
        self.write("build/old.o", "newer\n")
        shown = self.warren("diff", "session:s")
        self.assertIn("M d /build/ (2 changes, 12 B; git ignores it: stays in the session)", shown)
        self.assertIn("A f /one.log  [git ignores it: stays in the session]", shown)
        self.assertNotIn("conflict", shown)
        plan = json.loads(self.world.warren("apply", "session:s", "--dry-run", "--json").stdout)
        self.assertEqual(plan["commits"]["ignored"], ["/build", "/one.log"])
        self.assertEqual(plan["conflicts"], [])


if __name__ == "__main__":
    unittest.main()
