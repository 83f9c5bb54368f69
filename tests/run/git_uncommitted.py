#!/usr/bin/env python3
"""The user's uncommitted work and an agent that commits: neither taken back nor published without a question.

    WARREN=path/to/warren git_uncommitted.py [-v] [Class.test_name]

Needs root.
"""
import json
import os
import pathlib
import shutil
import subprocess
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


    def test_what_a_deleted_session_has_applied_is_not_of_the_next_whose_file_has_its_inode(self):
        self.inside("echo agent > file", session="first")
        self.warren("apply", "session:first", "--keep")
        place = self.world.home / ".agentfs/run"
        kept = place / "kept"
        os.link(place / "first/delta.db", kept)
        self.warren("sessions", "delete", "first", "--yes")
        (self.base / "file").write_text("half done\n")
        self.inside(f"{BOT} stash -qu; echo 2 > other; {BOT} commit -qm two other")
        kept.write_bytes((place / "s/delta.db").read_bytes())
        os.rename(kept, place / "s/delta.db")
        self.assertIn("/file", self.warren("apply", "session:s", "--no-commits", status=1))
        self.assertTrue(self.has_work())

    def test_a_rule_of_the_agents_keeps_no_question_from_being_asked(self):
        self.inside(f"rm scratch; echo scratch > .gitignore; echo 2 > other; {BOT} commit -qm two other")
        self.assertEqual(self.asked("scratch"), ["work"])
        self.assertEqual(self.asked("--ignored"), ["work"])
        self.assertIn("revert your uncommitted work", self.warren("apply", "session:s", "scratch", status=1))
        self.assertTrue(self.has_work())


class Damaged(Uncommitted):
    """What the agent has committed cannot be known: its git is damaged, or more than a limit allows."""

    PACK = f".git/objects/pack/pack-{'a' * 40}.pack"
    NO_HEAD = "the agent's repository has no HEAD that can be read"
    LOST = "the HEAD of the agent's repository names no commit any more"
    DAMAGE = {
        "pack": (f"mkdir -p .git/objects/pack; echo x > {PACK}", f"the agent's pack '/{PACK}' is invalid"),
        "missing": ("rm .git/HEAD", NO_HEAD),
        "garbage": ("echo x > .git/HEAD", NO_HEAD),
        "removed": ("rm -r .git", NO_HEAD),
        "moved": ("rm -r .git; echo 'gitdir: /nowhere' > .git", NO_HEAD),
        "orphan": ("git symbolic-ref HEAD refs/heads/orphan", LOST),
        "branch": ("echo x > .git/refs/heads/main", LOST),
        "blob": ("id=$(git rev-parse HEAD:other); echo $id > .git/HEAD", "the agent's commits are incomplete or damaged"),
        "limit": ("truncate -s 65M .git/packed-refs", "read '/.git/packed-refs': it has 65.0 MiB, more than the limit"),
    }

    def test_the_question_about_uncommitted_work_stays(self):
        for name, (script, why) in self.DAMAGE.items():
            with self.subTest(name):
                self.world.warren("sessions", "delete", "s", "--yes")
                self.inside(f"git checkout -q file; rm scratch; echo 2 > other; {BOT} commit -qm two other; {script}")
                shown = self.warren("diff", "session:s")
                self.assertIn(f"cannot tell whether changes revert your uncommitted work in /file, /scratch: {why}", shown)
                self.assertIn("change may revert your uncommitted work: /file; that cannot be known: " + why,
                              self.warren("apply", "session:s", "file", status=1))
                self.assertEqual(self.asked("scratch"), ["work"])
                self.assertEqual(self.asked("other"), [])
                self.assertEqual(self.asked("--no-commits"), ["work"])
                self.warren("apply", "session:s", status=1)
                self.assertTrue(self.has_work())
                self.warren("apply", "session:s", "--no-commits", "--yes", "--keep")
                self.assertFalse(self.has_work())
                self.warren("undo", "session:s")
                self.assertTrue(self.has_work())

    def test_a_linked_worktree_is_not_one_that_the_agent_makes_of_its_repository(self):
        tree = self.base.with_name("linked")
        self.git("worktree", "add", "-q", "-b", "fix", tree)
        (tree / "file").write_text("half done\n")
        where = (tree / ".git").read_text().strip()
        self.base = tree
        self.inside(f"git checkout -q file; echo 2 > other; {BOT} commit -qm two other; rm -rf .git; echo '{where}' > .git")
        said = self.warren("apply", "session:s", "--no-commits", status=1)
        self.assertIn("may revert your uncommitted work: /file; that cannot be known: " + self.NO_HEAD, said)
        self.assertEqual((tree / "file").read_text(), "half done\n")

    def test_nothing_is_asked_about_other_files(self):
        for name, (script, _) in self.DAMAGE.items():
            with self.subTest(name):
                self.world.warren("sessions", "delete", "s", "--yes")
                self.inside(f"echo 1 > mine; echo 2 > other; {BOT} commit -qm two other; echo 3 > other; {script}")
                self.assertEqual(self.asked("--no-commits"), [])
                self.assertNotIn("uncommitted work", self.warren("diff", "session:s"))

    def test_commits_that_cannot_be_looked_at_are_not_called_something_else(self):
        for name in ("pack", "missing", "garbage", "removed", "limit"):
            with self.subTest(name):
                self.world.warren("sessions", "delete", "s", "--yes")
                self.inside(f"echo 2 > other; {BOT} commit -qam two; echo 1 > other; {self.DAMAGE[name][0]}", options=("--keep",))
                listed = self.warren("sessions")
                self.assertIn("commits that cannot be looked at", listed)
                self.assertNotIn("staged", listed)
                self.assertNotIn("on no branch", listed)
                self.assertIn("cannot tell what", self.warren("diff", "session:s"))
                self.warren("apply", "session:s", status=1)

    def test_a_repository_that_never_had_a_commit_is_not_damaged(self):
        shutil.rmtree(self.base / ".git")
        self.git("init", "-q", "-b", "main", ".")
        self.inside("git status -s > /dev/null; echo 2 > file")
        self.commit("first")
        self.assertNotIn("cannot tell", self.warren("diff", "session:s"))
        self.assertEqual(self.asked(), [])


class Stashed(Uncommitted):
    """What only a stash of the user's has."""

    def setUp(self):
        super().setUp()
        self.git("stash", "push", "-qu")

    def check(self, script, *paths, words=()):
        self.inside(script)
        said = f"the commits contain what only a stash of yours has: {', '.join(paths)}: look"
        if not words:
            self.assertIn(said, self.warren("diff", "session:s"))
        self.assertIn(said, self.warren("apply", "session:s", *words, status=1))
        self.assertEqual(self.git("branch", "--list"), "* main")
        plan = self.plan(*words)
        self.assertEqual((plan["commits"]["your_stashed"], [one["about"] for one in plan["asks"]]), (list(paths), ["commits"]))
        self.assertIn(said, self.warren("apply", "session:s", "--yes", *words))

    def test_untracked_and_tracked_files_of_it(self):
        self.check(f"git stash pop -q; git add -A; {BOT} commit -qm all", "/file", "/scratch")

    def test_those_of_an_older_one_in_an_earlier_commit(self):
        (self.base / "file").write_text("something else\n")
        self.git("stash", "push", "-q")
        self.check(f"git checkout -q 'stash@{{1}}^3' -- scratch; {BOT} commit -qm oops; git rm -q --cached scratch; {BOT} commit -qm again; "
                   f"rm scratch; echo 2 > other; {BOT} commit -qm two other", "/scratch")

    def test_under_another_name(self):
        self.check(f"git show 'stash@{{0}}^3:scratch' > copy; git add copy; {BOT} commit -qm copy", "/copy")

    def test_a_file_that_was_staged(self):
        (self.base / "secret").write_text("secret\n")
        self.git("add", "secret")
        self.git("stash", "push", "-q")
        self.check(f"git stash pop -q; {BOT} commit -qm secret", "/secret")

    def test_the_commits_of_it(self):
        self.check(f"git reset -q --hard stash; echo 2 > other; {BOT} commit -qm two other", "/file", "/scratch", words=("--commits",))

    def test_the_excluded_files_in_the_commits_of_it_are_named(self):
        self.inside(f"git reset -q --hard stash; echo 2 > other; {BOT} commit -qm two other")
        self.assertIn("excluded, but in the commits: /scratch", self.warren("apply", "session:s", "--exclude", "scratch", "--yes"))

    def test_nothing_is_asked_about_what_is_elsewhere_too_or_the_agents(self):
        (self.base / "empty").write_text("")
        (self.base / "copy").write_text("1\n")  # as other is
        self.git("stash", "push", "-qu")
        self.inside(f"touch empty; cp other copy; echo own > own; {BOT} stash -qu; git stash apply -q; git add -A; {BOT} commit -qm all")
        self.assertEqual(self.asked(), [])
        self.assertNotIn("stash of yours", self.warren("apply", "session:s"))

    def test_a_commit_that_the_user_has_amended_since_is_not_of_the_stash(self):
        (self.base / "more").write_text("draft\n")
        self.commit("more")
        (self.base / "other").write_text("stashed\n")
        self.git("stash", "push", "-q")
        self.inside(f"echo agent >> more; {BOT} commit -qam two")
        (self.base / "more").write_text("draft, improved\n")
        self.git("commit", "-qa", "--amend", "-m", "more of it")
        self.assertNotIn("stash", self.warren("diff", "session:s"))
        self.assertNotIn("stash", self.warren("apply", "session:s", "--yes"))

    def test_work_that_the_user_has_taken_out_of_it_is_uncommitted_work(self):
        self.git("stash", "apply", "-q")
        self.inside(f"git add file; {BOT} commit -qm file")
        said = self.warren("apply", "session:s")
        self.assertIn("the commits contain your uncommitted work: /file: look", said)


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

    def test_a_list_of_applied_files_that_the_agent_has_written_keeps_no_question_from_being_asked(self):
        forge = "printf '/scratch\\0/file\\0' > .git/warren-applied"
        self.inside(f"git add scratch; {BOT} commit -qm one; {forge}", session="commits")
        self.assertIn("files that you do not track: /scratch", self.warren("apply", "session:commits", status=1))
        self.inside(f"git add scratch; {BOT} commit -qm one; git rm -q --cached scratch; {BOT} commit -qm two; {forge}", session="history")
        self.assertIn("files that you do not track: /scratch", self.warren("apply", "session:history", status=1))
        self.inside(f"git checkout -q file; echo 2 > other; {BOT} commit -qm two other; {forge}", session="work")
        self.assertIn(f"M f /file  {MARK}", self.warren("diff", "session:work"))
        self.assertIn("revert your uncommitted work", self.warren("apply", "session:work", status=1))
        self.assertEqual(self.git("branch", "--list", "warren/*"), "")
        self.assertTrue(self.has_work())

    def test_tracked_files_in_the_commits_are_named(self):
        self.git("add", "file", "scratch")  # and the session's index has them, too
        self.inside(f"echo 1 > mine; git add mine; {BOT} commit -qm mine")
        said = "the commits contain your uncommitted work: /file, /scratch: look at that"
        self.assertIn(said, self.warren("diff", "session:s"))
        self.assertEqual(self.asked(), [])
        self.assertIn(said, self.warren("apply", "session:s"))


class Published(Uncommitted):
    """What the host does not track, in a commit before the last one."""

    def setUp(self):
        super().setUp()
        (self.base / ".gitignore").write_text(".env\n")
        self.git("add", ".gitignore")
        self.git("commit", "-qm", "rules", "--", ".gitignore")
        (self.base / ".env").write_text("secret\n")

    def check(self, script, *paths, words=()):
        self.inside(script)
        said = f"publish files that you do not track: {', '.join(paths)}: look"
        self.assertIn(said, self.warren("apply", "session:s", *words, status=1))
        self.assertEqual(self.git("branch", "--list"), "* main")
        self.assertIn(said, self.warren("apply", "session:s", "--yes", *words))

    def test_untracked_again_in_a_later_commit(self):
        add = f"git add -f .env scratch; {BOT} commit -qm oops"
        self.inside(f"{add}; git rm -q --cached .env scratch; {BOT} commit -qm again; echo 2 > other; {BOT} commit -qm two other")
        self.assertIn("you do not track: /.env, /scratch", self.warren("diff", "session:s"))
        self.check("true", "/.env", "/scratch")

    def test_in_a_merged_branch(self):
        self.check(f"git checkout -q -b side; git add -f .env; {BOT} commit -qm oops; git checkout -q main; "
                   f"echo 2 > other; {BOT} commit -qm two other; {BOT} merge -q -s ours --no-edit side", "/.env", words=("--commits",))

    def test_in_a_merge_only(self):
        self.check(f"git checkout -q -b side; echo 2 > other; {BOT} commit -qm two other; git checkout -q main; "
                   f"{BOT} merge -q --no-ff --no-commit side; git add -f .env; {BOT} commit -qm merged; "
                   f"git rm -q --cached .env; {BOT} commit -qm again", "/.env")

    def test_changed_before_or_after(self):
        self.check(f"echo more >> .env; git add -f .env; {BOT} commit -qm oops; git rm -q --cached .env; {BOT} commit -qm again", "/.env")
        self.warren("sessions", "delete", "s", "--yes")
        self.git("branch", "-q", "-D", "warren/s")
        self.check(f"git add -f .env; {BOT} commit -qm oops; echo more >> .env; {BOT} commit -qm more .env", "/.env")

    def test_on_another_branch(self):
        self.check(f"git checkout -q -b side; git add -f .env; {BOT} commit -qm oops; {BOT} rm -q --cached .env; {BOT} commit -qm again; "
                   f"git checkout -q main; echo 2 > other; {BOT} commit -qm two other", "/.env",
                   words=("--commits", "--from", "side", "--branch", "side"))

    def test_what_the_agent_has_made_is_not_asked_about(self):
        self.inside("echo 1 > own")
        self.warren("apply", "session:s", "--keep")
        self.inside(f"git add own; {BOT} commit -qm own; git rm -q --cached own; {BOT} commit -qm again; "
                    f"echo 1 > passing; git add passing; {BOT} commit -qm passing; git rm -q passing; {BOT} commit -qm gone")
        (self.base / "passing").write_text("of the host\n")
        self.assertEqual(self.asked("--commits"), [])


class CommittedMeanwhile(Uncommitted):
    """The session's git put the user's work aside, and the user has committed it since."""

    def test_it_is_no_change_of_the_session(self):
        for way in ("checkout -q .; git clean -fdq", "stash -qu; git stash drop -q", "reset -q --hard; rm scratch"):
            with self.subTest(way):
                self.inside(f"{BOT} {way}; echo {len(way)} > other; {BOT} commit -qm two other")
                self.assertIn(MARK, self.warren("diff", "session:s"))
                self.commit("work")
                self.assertNotIn("/scratch", self.warren("diff", "session:s"))
                self.assertNotIn("in the commits, not written as files", self.warren("apply", "session:s"))
                self.git("merge", "-q", "--no-edit", "warren/s")
                self.warren("apply", "session:s")
                self.assertEqual(self.world.sessions(), [])
                self.assertTrue(self.has_work())
                self.git("rm", "-q", "--cached", "scratch")
                (self.base / "file").write_text("before\n")
                self.commit("again")
                self.git("rm", "-q", "--cached", "scratch")
                self.git("commit", "-qm", "untracked")
                (self.base / "file").write_text("half done\n")

    def test_it_is_none_under_names_with_newlines_either(self):
        for name in ("aa\nbb", "cc\ndd", "ee", "ff"):
            (self.base / name).write_text("1\n")
        self.commit("names")
        for name in ("aa\nbb", "cc\ndd", "ee", "ff"):
            (self.base / name).write_text(f"work {name}\n")
        self.inside(f"{BOT} stash -q; git stash drop -q; echo 2 > other; {BOT} commit -qm two other")
        self.commit("work")
        self.assertNotIn(MARK, self.warren("diff", "session:s"))
        self.assertNotIn("in the commits, not written as files", self.warren("apply", "session:s"))

    def test_what_the_user_has_committed_in_part_is_asked_about(self):
        self.inside(f"git checkout -q file; echo 2 > other; {BOT} commit -qm two other")
        (self.base / "file").rename(self.base / "whole")
        (self.base / "file").write_text("half\n")
        self.git("commit", "-qm", "part", "file")
        (self.base / "whole").rename(self.base / "file")
        self.warren("apply", "session:s", status=1)
        self.assertTrue(self.has_work())

    def test_what_was_applied_and_then_taken_back_is_written(self):
        self.inside(f"echo 2 > other; {BOT} commit -qm two other; echo 1 > new; echo agent >> dir/inner")
        self.warren("apply", "session:s", "--keep")
        self.commit("applied")
        self.git("merge", "-q", "--no-edit", "warren/s")
        self.inside("rm new; sed -i '$d' dir/inner")
        self.assertEqual(self.warren("diff", "session:s"), "M f /dir/inner\nD f /new\n")
        self.warren("apply", "session:s")
        self.assertFalse((self.base / "new").exists())
        self.assertEqual((self.base / "dir/inner").read_text(), "inner\n")
        self.assertEqual(self.world.sessions(), [])


class Marks(Uncommitted):
    def test_a_committed_change_that_git_merges_is_no_conflict(self):
        (self.base / "long").write_text("".join(f"{i}\n" for i in range(20)))
        self.commit("long")
        self.inside(f"sed -i s/^3$/THREE/ long; {BOT} commit -qam three; echo 1 > loose")
        (self.base / "long").write_text("".join(f"{i}\n" for i in range(19)) + "host\n")
        self.commit("host")
        (self.base / "loose").write_text("of the host\n")
        shown = self.warren("diff", "session:s")
        self.assertIn("M f /long  [changed in the base, too: git merges the commits]\n", shown)
        self.assertIn("/loose  [conflict: ", shown)
        (self.base / "loose").unlink()
        self.warren("apply", "session:s")
        self.git("merge", "-q", "--no-edit", "warren/s")
        shown = self.world.warren("diff", "session:s")
        self.assertEqual((shown.returncode, shown.stdout), (0, ""))
        self.assertEqual(shown.stderr, "nothing is left in the session 's': `warren apply session:s` deletes it\n")
        self.warren("apply", "s")
        self.assertEqual(self.world.sessions(), [])


class Empty(Uncommitted):
    def test_after_the_printed_command_nothing_is_asked(self):
        shutil.rmtree(self.base / ".git")
        self.git("init", "-q", "-b", "main", ".")
        self.git("add", "file", "other")
        self.inside(f"echo x > x; git add x; {BOT} commit -qm first")
        said = self.warren("apply", "session:s")
        line = next(line.strip() for line in said.splitlines() if line.strip().startswith("git add"))
        done = subprocess.run(["sh", "-c", line.split("   ")[0]], cwd=self.base, capture_output=True, text=True, env=self.world.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.base / "x").read_text(), "x\n")
        self.warren("apply", "session:s")
        self.assertEqual(self.world.sessions(), [])


class Deleting(Uncommitted):
    def test_prune_names_what_is_lost(self):
        self.inside(f"echo 2 > other; {BOT} commit -qm two other; echo 1 > new")
        self.assertEqual(self.warren("sessions", "prune", "--older", "1ms", "-n"), "would delete s (2 changes + commits)\n")
        self.assertEqual(self.warren("sessions", "prune", "--older", "1ms", "--yes"), "deleted s (2 changes + commits)\n")


if __name__ == "__main__":
    unittest.main()
