#!/usr/bin/env python3
"""Commits that only the session has, those that the agent has replaced, and when a session has nothing left to keep.

    WARREN=path/to/warren git_left.py [-v] [Class.test_name]

Needs root.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed
from git import COMMIT
from git_state import BOT, State


class OnNoBranch(State):
    def test_they_are_named_and_keep_the_session(self):
        for session, script in (
                ("detached", f"git checkout -q --detach; echo 2 > file; {COMMIT} x; git checkout -q main"),
                ("elsewhere", f"git worktree add -q --detach /tmp/wt HEAD; cd /tmp/wt; echo 2 > file; {COMMIT} x"),
                ("reset", f"echo 2 > file; {COMMIT} x; git reset -q --hard HEAD~1")):
            with self.subTest(session):
                self.assertIn("commits on no branch", self.inside(script, session=session).stderr)
                self.assertIn("0 + commits on no branch", self.listed(session))
                self.assertIn("1 commit is on no branch and exists only in the session; create a branch there to have it applied",
                              self.warren("diff", f"session:{session}"))
                self.assertNotIn(session, self.warren("sessions", "prune", "--empty", "-n"))
                self.warren("apply", f"session:{session}")
                self.assertIn(session, self.world.sessions())
        self.inside("git branch kept HEAD@{1}", session="reset")
        self.assertIn("branch warren/reset: 1 commit", self.apply("reset"))

    def test_commits_that_a_rebase_dropped_or_skipped(self):
        commit = f"git add -A; {BOT} commit -qm"
        lost = f"echo lost > lost; {commit} lost; echo 1 > kept; {commit} kept"
        rebase = f"{BOT} rebase -q -i HEAD~2"
        conflict = f"echo 2 > file; {COMMIT} two; echo 1 > kept; {commit} kept; git checkout -q -b other HEAD~2; echo 3 > file; {COMMIT} three; git checkout -q main"
        for session, script in (
                ("dropped", f"{lost}; GIT_SEQUENCE_EDITOR='sed -i 1d' {rebase}"),
                ("drop-detached", f"{lost}; git checkout -q --detach; git branch -q -D main; GIT_SEQUENCE_EDITOR='sed -i 1d' {rebase}; git checkout -q -b main"),
                ("drop-and-fixup", f"{lost}; echo 2 >> kept; {commit} more; "
                                   f"GIT_SEQUENCE_EDITOR=\"sed -i '1d; 3s/pick/fixup/'\" {BOT} rebase -q -i HEAD~3"),
                ("skipped", f"{conflict}; {BOT} rebase -q other || {BOT} rebase --skip")):
            with self.subTest(session):
                self.inside(script, session=session)
                self.assertIn("on no branch and exist", self.warren("diff", f"session:{session}"))
                self.apply(session)
                self.git("merge", "-q", "--no-edit", f"warren/{session}")
                self.apply(session)
                self.assertIn("0 + commits on no branch", self.listed(session))
                self.git("reset", "-q", "--hard", "HEAD~1")

    def test_commits_made_during_a_rebase_that_was_aborted(self):
        two = f"echo 1 > one; git add one; {BOT} commit -qm one; echo 2 > two; git add two; {BOT} commit -qm two"
        edit = f"{two}; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' {BOT} rebase -q -i HEAD~2"
        for session, during in (("made", f"echo work > w; git add w; {BOT} commit -qm work"),
                                ("amended", f"echo work > w; git add w; {BOT} commit -q --amend --no-edit"),
                                ("later", f"echo work > two; git add two; {BOT} commit -qm work; {BOT} rebase --continue || true")):
            with self.subTest(session):
                self.inside(f"{edit}; {during}; git rebase --abort", session=session)
                self.assertIn("1 commit is on no branch", self.warren("diff", f"session:{session}"))
                self.assertIn("commits on no branch", self.listed(session))

    def test_an_aborted_rebase_alone_leaves_nothing(self):
        self.inside(f"echo 1 > one; git add one; {BOT} commit -qm one; echo agent > file; {COMMIT} two")
        self.host_commit("file", "of the host\n")
        self.inside(f"{BOT} rebase -q warren/base || git rebase --abort")
        self.assertNotIn("no branch", self.warren("diff", "session:s"))
        self.assertNotIn("no branch", self.listed())

    def test_content_that_was_only_staged_is_named(self):
        self.inside("echo staged > x; git add x; rm x; git reset -q")
        self.assertIn("0 + staged content of git", self.listed())

    def test_content_that_was_staged_beside_a_merge_that_stopped_is_named(self):
        self.inside(f"echo agent > file; {COMMIT} one")
        self.host_commit("file", "of the host\n")
        self.inside(f"{BOT} merge -q warren/base || git merge --abort; echo staged > x; git add x; rm x; git reset -q")
        self.warren("apply", "session:s", "--yes")
        self.git("merge", "-q", "-s", "ours", "--no-edit", "warren/s")
        self.warren("apply", "session:s", "--force")
        self.assertIn("staged content of git", self.listed())

    def test_commits_on_branches_and_stashes_are_not(self):
        self.inside(f"echo 2 > file; {COMMIT} x; echo 3 > file; {BOT} stash -q; echo 4 > file; {BOT} stash -q")
        self.assertIn("the stash", self.listed())
        self.assertNotIn("no branch", self.listed())


class Replaced(State):
    def commit_and_apply(self, session="s"):
        self.inside(f"echo 1 > n; git add n; {BOT} commit -qm n", session=session)
        self.apply(session)
        return self.git("rev-parse", f"warren/{session}")

    def test_the_branch_of_the_last_apply_follows_an_amendment_and_a_rebase(self):
        first = self.commit_and_apply()
        self.inside(f"echo 2 >> n; {BOT} commit -qa --amend -m n2")
        self.assertIn("would write the branch warren/s: 1 commit", self.warren("apply", "session:s", "--dry-run"))
        self.assertIn("in place of commits that the agent has amended or rebased since: `git log warren/s@{1}` shows them", self.apply())
        self.assertEqual(self.git("log", "--format=%s", "main..warren/s"), "n2")
        self.assertEqual(self.git("rev-parse", "warren/s@{1}"), first)
        self.host_commit("hosts", "1\n")
        self.inside(f"git clean -qfd; {BOT} rebase -q warren/base")
        self.apply()
        self.assertEqual(self.git("log", "--format=%s", "main..warren/s"), "n2")

    def test_a_branch_without_a_log_gets_one(self):
        self.git("config", "core.logAllRefUpdates", "false")
        first = self.commit_and_apply()
        self.inside(f"{BOT} commit -q --amend -m n2")
        self.apply()
        self.assertEqual(self.git("rev-parse", "warren/s@{1}"), first)

    def test_a_branch_that_somebody_else_moved_is_not_replaced(self):
        first = self.commit_and_apply()
        theirs = self.git("commit-tree", "-m", "theirs", "-p", first, f"{first}^{{tree}}")
        self.git("update-ref", "refs/heads/warren/s", theirs)
        self.inside(f"{BOT} commit -q --amend -m n2")
        self.assertIn("has commits that are not in the agent's branch", self.warren("apply", "session:s", status=1))
        self.assertEqual(self.git("rev-parse", "warren/s"), theirs)

    def test_commits_that_the_agent_still_has_are_not_replaced(self):
        first = self.commit_and_apply()
        self.inside(f"git checkout -q -b second HEAD~1; echo 2 > file; {COMMIT} second")
        self.assertIn("has commits that are not in the agent's branch", self.warren("apply", "session:s", status=1))
        self.assertEqual(self.git("rev-parse", "warren/s"), first)

    def test_a_branch_of_another_session_of_that_name_is_not_replaced(self):
        first = self.commit_and_apply()
        self.warren("sessions", "delete", "s", "--yes")
        self.inside(f"echo 3 > other; git add other; {BOT} commit -qm other")
        self.assertIn("has commits that are not in the agent's branch", self.warren("apply", "session:s", status=1))
        self.assertEqual(self.git("rev-parse", "warren/s"), first)


class Vanishes(State):
    def check(self, script, session="s"):
        """The session is empty once its commits are merged."""
        self.inside(script, session=session)
        self.apply(session)
        if self.git("branch", "--list", f"warren/{session}"):
            self.git("merge", "-q", "--no-edit", f"warren/{session}")
            self.apply(session)
        self.assertEqual(self.listed(session), "")

    def test_after_an_amendment(self):
        self.check(f"echo 1 > n; git add n; {BOT} commit -qm n; echo 2 > n; {BOT} commit -qa --amend -m n2; {BOT} commit -q --amend -m n3")

    def test_after_a_rebase(self):
        self.check(f"git checkout -q -b work; for i in 1 2 3; do echo $i > n$i; git add .; {BOT} commit -qm n$i; done; "
                   f"git checkout -q main; echo 2 > file; {COMMIT} m; git checkout -q work; {BOT} rebase -q main; "
                   f"GIT_SEQUENCE_EDITOR=\"sed -i '2s/pick/fixup/'\" {BOT} rebase -q -i HEAD~3; git checkout -q main; {BOT} merge -q work")

    def test_after_a_rebase_that_kept_all_content(self):
        commit = f"git add -A; {BOT} commit -qm"
        three = f"for i in 1 2 3; do echo $i >> n; {commit} n$i; done"
        rebase = f"{BOT} rebase -q -i HEAD~3"
        for session, script in (
                ("fixup", f"{three}; GIT_SEQUENCE_EDITOR=\"sed -i '2,3s/pick/fixup/'\" {rebase}"),
                ("squash", f"{three}; GIT_EDITOR='echo all >' GIT_SEQUENCE_EDITOR=\"sed -i '2,3s/pick/squash/'\" {rebase}"),
                ("reword", f"{three}; GIT_EDITOR='echo other >' GIT_SEQUENCE_EDITOR=\"sed -i '2s/pick/reword/'\" {rebase}"),
                ("resolved", f"echo 2 > file; {COMMIT} two; git checkout -q -b other HEAD~1; echo 3 > file; {COMMIT} three; "
                             f"git checkout -q main; {BOT} rebase -q other || (echo 4 > file; git add file; GIT_EDITOR=true {BOT} rebase --continue)"),
                ("redone", f"echo 1 > l; {commit} l; echo 1 > k; {commit} k; GIT_SEQUENCE_EDITOR='sed -i 1d' {BOT} rebase -q -i HEAD~2; "
                           f"echo 1 > l; {commit} again")):
            with self.subTest(session):
                self.check(f"{script}; git log --format=%h main > /dev/null; git branch | grep -q other && {BOT} checkout -q main && git branch -q -D other || true", session=session)
                self.git("rm", "-qr", "--ignore-unmatch", "n", "l", "k")
                self.git("commit", "-q", "--allow-empty", "-m", "again")

    def test_after_a_stash_was_popped_with_one_of_the_host_below_it(self):
        self.write("file", "of the host\n")
        self.git("stash", "-q", environment={"GIT_COMMITTER_DATE": "1700000000 +0000", "GIT_AUTHOR_DATE": "1700000000 +0000"})
        # At one time and by one author: the commits that have the index are the same.
        same = "export GIT_COMMITTER_DATE='1700000000 +0000' GIT_AUTHOR_DATE='1700000000 +0000'; "
        self.check(f"{same} echo 2 > dir/inner; git -c user.name=t -c user.email=t@example.org stash -q; {BOT} stash pop -q; "
                   "git stash list | grep -q WIP")
        self.assertEqual(self.git("stash", "list").count("WIP"), 1)

    def test_after_merges_that_stopped_at_a_conflict(self):
        lines = [f"{i}\n" for i in range(1, 31)]
        merge = f"{BOT} merge -q warren/base"
        resolve = f"echo both > file; {COMMIT} merged"
        for session, script in (("plain", f"{merge} || true; {resolve}"),
                                ("aborted", f"{merge} || git merge --abort; {BOT} merge -q -X ours --no-edit warren/base"),
                                ("rebased", f"{BOT} rebase -q warren/base || git rebase --abort; {merge} || true; {resolve}")):
            with self.subTest(session):
                self.host_commit("file", f"before {session}\n")
                self.host_commit("dir/inner", "".join(lines))
                self.inside(f"echo {session} > file; sed -i s/^5$/{session}/ dir/inner; {COMMIT} one", session=session)
                self.host_commit("dir/inner", "".join(lines[:-1] + ["host\n"]))
                self.host_commit("file", f"of the host {session}\n")
                self.check(script, session=session)

    def test_after_the_last_file_of_a_directory_was_removed(self):
        (self.base / "dir/deep").mkdir()
        for session, script in (("file", "rm dir/deep/file"), ("dir", "rm -r dir/deep")):
            with self.subTest(session):
                (self.base / "dir/deep").mkdir(parents=True, exist_ok=True)
                self.host_commit("dir/deep/file", "1\n")
                self.check(f"git rm -q --ignore-unmatch dir/inner; {script}; {COMMIT} gone", session=session)
                self.assertFalse((self.base / "dir").exists())

    def test_after_the_host_dropped_a_stash_of_the_start(self):
        self.write("file", "parked\n")
        self.git("stash", "-q")
        self.inside(f"echo 2 > dir/inner; {BOT} stash -q; {BOT} stash pop -q; git gc -q; {COMMIT} one")
        self.git("stash", "drop", "-q")
        self.git("gc", "-q", "--prune=now")
        self.check(f"echo 3 > dir/inner; {COMMIT} two")

    def test_after_git_packed_everything(self):
        self.git("tag", "v1")
        self.git("branch", "other")
        self.check(f"git checkout -q -b work; echo 1 > n; git add n; {BOT} commit -qm n; git checkout -q main; {BOT} merge -q work; git gc -q")

    def test_not_with_a_stash_or_a_tag_that_git_packed(self):
        for session, script, what in (("t", f"{BOT} tag mine", "tags"), ("b", "git branch mine HEAD~1", "branches"),
                                      ("n", f"{BOT} notes add -m note", "references")):
            with self.subTest(session):
                self.host_commit("hosts", session)
                self.inside(f"{script}; git pack-refs --all", session=session)
                self.apply(session)
                self.assertIn(what, self.listed(session))
        self.inside(f"echo 2 > file; {BOT} stash -q; git gc -q")
        self.apply()
        self.assertIn("the stash", self.listed())

    def squash(self):
        self.inside(f"echo 1 > n; git add n; {BOT} commit -qm n; echo 2 > file; {COMMIT} two")
        self.apply()
        self.git("merge", "-q", "--squash", "warren/s")
        self.git("commit", "-qm", "squashed")
        self.git("branch", "-q", "-D", "warren/s")

    def test_after_a_squash_merge(self):
        self.squash()
        self.assertNotIn("commits", self.listed())
        self.assertNotIn("new commits", self.warren("diff", "session:s"))
        self.assertIn("what the agent's commits change is already in your HEAD, as other commits", self.apply())
        self.assertEqual(self.git("branch", "--list", "warren/*"), "")
        self.assertEqual(self.world.sessions(), [])
        self.inside(f"echo 3 > n; {COMMIT} three")
        self.assertIn("branch warren/s: 1 commit", self.apply())

    def test_changes_after_a_squash_merge_are_written(self):
        self.host_commit("file", "1\n2\n3\n4\n5\n")
        self.inside(f"sed -i s/1/one/ file; {COMMIT} two; sed -i s/5/five/ file")
        self.assertIn("changed again after the commits: /file", self.apply())
        self.git("merge", "-q", "--squash", "warren/s")
        self.git("commit", "-qm", "squashed")
        self.git("branch", "-q", "-D", "warren/s")
        self.assertNotIn("not written", self.apply())
        self.assertEqual((self.base / "file").read_text(), "one\n2\n3\n4\nfive\n")
        self.assertEqual(self.world.sessions(), [])

    def test_not_after_a_squash_merge_of_a_part(self):
        self.squash()
        self.git("revert", "--no-edit", "HEAD")
        self.git("checkout", "HEAD~1", "--", "n")
        self.git("commit", "-qm", "only n")
        self.assertIn("commits", self.listed())
        self.assertIn("branch warren/s: 2 commits", self.apply())

    def test_not_with_a_branch_that_was_only_deleted(self):
        self.inside(f"echo 1 > n; git add n; {BOT} commit -qm n; {BOT} commit -q --allow-empty -m again")
        self.apply()
        self.git("branch", "-q", "-D", "warren/s")
        self.assertIn("branch warren/s: 2 commits", self.apply())

    def test_not_with_a_commit_that_was_reset_after_an_amendment(self):
        self.inside(f"echo 1 > n; git add n; {BOT} commit -qm n; {BOT} commit -q --amend -m n2; git reset -q --hard HEAD~1")
        self.apply()
        self.assertIn("0 + commits on no branch", self.listed())


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
