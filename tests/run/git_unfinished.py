#!/usr/bin/env python3
"""`apply` of a session that is in the middle of a rebase, merge or cherry-pick, or has files that git could not merge.

    WARREN=path/to/warren git_unfinished.py [-v] [Class.test_name]

Needs root.
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed
from git import COMMIT
from git_state import BOT, State


class Unfinished(State):
    def setUp(self):
        super().setUp()
        self.write("file", "one\ntwo\nthree\n")
        self.commit("three lines")

    def both_change_a_file(self, committed=True):
        self.inside("sed -i s/two/agents/ file; echo 1 > mine" + (f"; git add mine; {COMMIT} agents" if committed else ""))
        self.host_commit("file", "one\nhosts\nthree\n")

    def check_asks(self, what, *words):
        """Nothing is written, and the question says what is under way."""
        self.assertIn(what, self.warren("diff", "session:s"))
        said = self.warren("apply", "session:s", *words, status=1)
        self.assertIn(f"nothing was written: {what}", said)
        self.assertNotIn("already in", said)
        self.assertEqual(self.git("branch", "--list", "warren/*"), "")
        self.assertEqual((self.base / "file").read_text(), "one\nhosts\nthree\n")
        self.assertEqual(self.git("status", "--short"), "")
        rehearsed = json.loads(self.world.warren("apply", "session:s", "--dry-run", "--json", *words).stdout)
        self.assertEqual([(one["about"], one["agree"]) for one in rehearsed.get("asks", [])], [("git", "--yes")])

    def test_of_a_rebase(self):
        self.both_change_a_file()
        self.inside(f"{BOT} rebase warren/base > /dev/null 2>&1 || true")
        what = "a rebase of 'main' is under way in the session, with unresolved conflicts in 1 file: /file"
        self.check_asks(what)
        self.check_asks(what, "--commits")
        self.assertIn("+ commits + a merge or rebase under way", self.listed())
        self.inside(f"printf 'one\\nboth\\nthree\\n' > file; git add file; GIT_EDITOR=true {BOT} rebase --continue > /dev/null")
        self.assertIn("branch warren/s: 1 commit", self.apply())
        self.git("merge", "-q", "warren/s")
        self.assertEqual((self.base / "file").read_text(), "one\nboth\nthree\n")
        self.apply()
        self.assertEqual(self.world.sessions(), [], "what git has left of the rebase keeps the session")

    def test_commits_that_were_brought_are_not_those_of_a_detached_head(self):
        self.both_change_a_file()
        self.warren("apply", "session:s", "--keep")
        self.inside(f"{BOT} rebase warren/base > /dev/null 2>&1 || true")
        said = self.warren("apply", "session:s", "--yes")
        self.assertIn("a rebase of 'main' is under way in the session", said)
        self.assertIn("the agent's commits are on its branch, which is being rebased", said)
        self.assertNotIn("already in", said)

    def test_of_a_merge(self):
        self.both_change_a_file()
        self.inside(f"{BOT} merge warren/base > /dev/null 2>&1 || true")
        self.check_asks("a merge is under way in the session, with unresolved conflicts in 1 file: /file")

    def test_of_a_cherry_pick(self):
        self.both_change_a_file()
        self.inside(f"{BOT} cherry-pick warren/base > /dev/null 2>&1 || true")
        self.check_asks("a cherry-pick is under way in the session, with unresolved conflicts in 1 file: /file")

    def test_of_a_popped_stash(self):
        self.both_change_a_file(committed=False)
        self.inside(f"{BOT} stash -q; {BOT} rebase -q warren/base; ! {BOT} stash pop > /dev/null 2>&1")
        self.check_asks("the session's git has unresolved conflicts in 1 file: /file")
        self.warren("apply", "session:s", "--yes")
        self.assertIn("<<<<<<<", (self.base / "file").read_text())

    def test_after_a_reset_the_file_itself_is_in_conflict_too(self):
        self.both_change_a_file(committed=False)
        self.inside(f"{BOT} stash -q; git reset -q --hard warren/base; ! {BOT} stash pop > /dev/null 2>&1")
        self.check_asks("the session's git has unresolved conflicts in 1 file: /file")
        self.assertIn("conflict: /file", self.warren("apply", "session:s", "--yes", status=1))
        self.assertEqual((self.base / "file").read_text(), "one\nhosts\nthree\n")
        self.warren("apply", "session:s", "--yes", "--force")
        self.assertIn("<<<<<<<", (self.base / "file").read_text())

    def test_of_an_index_of_version_4(self):
        self.both_change_a_file(committed=False)
        self.inside(f"git update-index --index-version 4; {BOT} stash -q; git reset -q --hard warren/base; "
                    f"! {BOT} stash pop > /dev/null 2>&1")
        self.check_asks("the session's git has unresolved conflicts in 1 file: /file")

    def test_other_files_can_be_named(self):
        self.both_change_a_file(committed=False)
        self.inside(f"{BOT} stash -q; {BOT} rebase -q warren/base; echo 1 > other; ! {BOT} stash pop > /dev/null 2>&1")
        self.assertIn("unresolved conflicts", self.warren("apply", "session:s", "/file", status=1))
        self.warren("apply", "session:s", "/other", "--keep")
        self.assertEqual(self.git("status", "--short"), "?? other")
        self.inside("git checkout -q --theirs file 2> /dev/null; git add file")
        self.warren("apply", "session:s")
        self.assertEqual((self.base / "file").read_text(), "one\nagents\nthree\n")

    def test_a_merge_of_the_user_is_no_question(self):
        self.git("checkout", "-q", "-b", "other")
        self.host_commit("file", "one\nothers\nthree\n")
        self.git("checkout", "-q", "main")
        self.host_commit("file", "one\nhosts\nthree\n")
        with self.assertRaises(AssertionError):
            self.git("merge", "-q", "other")
        self.inside("git status > /dev/null; echo 1 > mine")
        self.assertNotIn("under way", self.warren("apply", "session:s"))
        self.assertEqual((self.base / "mine").read_text(), "1\n")


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
