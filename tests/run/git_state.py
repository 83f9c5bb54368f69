#!/usr/bin/env python3
"""A session's state of git (HEAD, index, references) is that of its start, whatever the host does meanwhile.

    WARREN=path/to/warren git_state.py [-v] [Class.test_name]

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
import sandboxed
from git import COMMIT, Git

BOT = "git -c user.name=bot -c user.email=bot@example.org"


class State(Git):
    def write(self, name, text):
        (self.base / name).write_text(text)

    def host_commit(self, name, text, message="of the host"):
        self.write(name, text)
        self.commit(message)

    def warren(self, *words, status=0):
        done = self.world.warren(*words)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout + done.stderr

    def changed_in(self, commit):
        return self.git("show", "--format=", "--name-only", commit).split()

    def listed(self, session="s"):
        lines = [line for line in self.warren("sessions").splitlines() if line.startswith(session + " ")]
        return lines[0] if lines else ""

    def count_git(self, *words):
        """The number of git processes that a command starts."""
        shims = self.world.home / "shims"
        shims.mkdir(exist_ok=True)
        count = shims / "count"
        count.write_text("")
        shim = shims / "git"
        shim.write_text(f"#!/bin/sh\necho >> {count}\nexec {shutil.which('git')} \"$@\"\n")
        shim.chmod(0o755)
        environment = self.world.environment()
        done = self.world.warren(*words, env=environment | {"PATH": f"{shims}:{environment['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return len(count.read_text().splitlines())


class LargeOrMany(State):
    def test_files_that_others_changed_too_cost_no_git_process_each(self):
        lines = [f"{i}\n" for i in range(1, 31)]
        names = [f"file-{i}" for i in range(30)]
        for name in names:
            self.write(name, "".join(lines))
        self.commit("many")
        counts = []
        for session, some in (("few", names[:3]), ("many", names[3:])):
            self.inside(f"sed -i 's/^5$/agent/' {' '.join(some)}; {COMMIT} five", session=session)
            for name in some:
                self.write(name, "".join(lines[:-1] + ["host\n"]))
            self.commit("of the host")
            self.inside(f"{BOT} merge -q --no-edit warren/base", session=session)
            self.assertNotIn("take back", self.warren("diff", f"session:{session}"))
            counts.append(self.count_git("diff", f"session:{session}"))
        self.assertEqual(counts[0], counts[1])

    def test_branches_cost_no_git_process_each(self):
        counts = []
        for session, count in (("few", 2), ("many", 30)):
            self.host_commit(session, "1\n")
            self.inside(f"for i in $(seq {count}); do git branch x$i HEAD~1; done; git pack-refs --all; "
                        f"for i in $(seq {count}); do git branch y$i HEAD~1; done; echo 1 > mine", session=session)
            counts.append(self.count_git("sessions"))
            self.assertIn("branches", self.listed(session))
            self.warren("sessions", "delete", session, "--yes")
        self.assertEqual(counts[0], counts[1])

    def test_what_an_agent_writes_into_its_log_of_rebases_costs_little(self):
        counts = []
        for session, rebases in (("few", 2), ("many", 22)):
            self.inside(f"""
                seq 20 | while read i; do echo 1 > f$i; done; git add -A; {BOT} commit -qm files
                seq 10 | while read i; do seq 20 | while read n; do echo c$i >> f$n; done; {BOT} commit -qam c$i; done
                tip=$(git rev-parse HEAD); git reset -q --hard HEAD~10
                seq {rebases} | while read i; do
                  other=$({BOT} commit-tree -m $i 'HEAD^{{tree}}')
                  printf "$tip $other a <a@b> 1700000000 +0000\\trebase (start): x\\n" >> .git/logs/HEAD
                  printf "$tip $other a <a@b> 1700000000 +0000\\trebase (finish): x\\n" >> .git/logs/HEAD
                done""", session=session)
            self.assertIn(f"{10 + rebases} commits are on no branch", self.warren("diff", f"session:{session}"))
            counts.append(self.count_git("diff", f"session:{session}"))
        self.assertLessEqual(counts[1] - counts[0], 20 * 5)
        self.assertLess(counts[0], 200)

    def test_rebases_across_a_long_history_in_the_log_cost_little(self):
        commits = "".join(f"commit refs/heads/long\ncommitter a <a@b> {1700000000 + i} +0000\ndata 1\nc\n" for i in range(5100))
        subprocess.run(["git", "fast-import", "--quiet"], input=commits, cwd=self.base, check=True, text=True)
        counts = []
        for session, rebases in (("few", 2), ("many", 22)):
            self.inside(f"""
                old=$({BOT} commit-tree -m old -p HEAD 'HEAD^{{tree}}')
                seq {rebases} | while read i; do
                  printf "$old $(git rev-parse long~$i) a <a@b> 1700000000 +0000\\trebase (start): x\\n" >> .git/logs/HEAD
                done""", session=session)
            self.assertIn("1 commit is on no branch", self.warren("diff", f"session:{session}"))
            counts.append(self.count_git("diff", f"session:{session}"))
        self.assertEqual(counts[0], counts[1])

    def test_many_rebases_in_the_log_do_not_hide_what_one_of_them_dropped(self):
        self.inside(f"""
            seq -f '%040.0f' 100 300 | while read id; do
              printf "$id $(git rev-parse HEAD) a <a@b> 1700000000 +0000\\trebase (start): x\\n" >> .git/logs/HEAD
            done
            echo lost > lost; git add -A; {BOT} commit -qm lost; echo 1 > kept; git add -A; {BOT} commit -qm kept
            GIT_SEQUENCE_EDITOR='sed -i 1d' {BOT} rebase -q -i HEAD~2""")
        self.assertIn("is on no branch and exists", self.warren("diff", "session:s"))

    def test_a_package_file_that_nobody_can_look_into_is_asked_about(self):
        self.inside(f"truncate -s 20M package.json; git add package.json; {COMMIT} large")
        self.assertIn("/package.json: npm runs its scripts", self.warren("apply", "session:s"))

    def test_a_damaged_record_does_not_keep_a_session_from_review_and_discard(self):
        self.inside(f"echo 1 > mine; {COMMIT} two || true; truncate -s 65M .git/warren-session")
        self.assertIn("/mine", self.warren("diff", "session:s"))
        self.assertIn("/mine", self.warren("apply", "session:s", "-n"))
        self.warren("discard", "session:s", "--yes", "--keep")
        self.assertEqual(self.inside("git status --short; git log --format=%s").stdout, "first\n")


class WhateverTheHostDoes(State):
    def test_a_commit_of_the_host_is_not_reverted_by_the_agents_next_one(self):
        self.inside("git status --short; echo 1 > plan")
        self.host_commit("hosts", "1\n")
        self.inside("rm plan; echo 1 > mine; git add mine; " + f"{BOT} commit -qm mine")
        self.apply()
        self.assertEqual(self.changed_in("warren/s"), ["mine"])
        self.git("merge", "-q", "--no-edit", "warren/s")
        self.assertEqual((self.base / "hosts").read_text(), "1\n")

    def test_two_agents_and_the_host_commit_in_turns(self):
        for session in "ab":
            self.inside(f"git status --short; echo {session} > note-{session}", session=session)
        for turn in "12":
            for session in "ab":
                self.inside(f"echo {turn} > of-{session}; git add of-{session}; {BOT} commit -qm {session}{turn}", session=session)
                self.apply(session)
                self.assertEqual(self.changed_in(f"warren/{session}"), [f"of-{session}"])
                self.git("merge", "-q", "--no-edit", f"warren/{session}")
            self.host_commit("hosts", turn, f"host {turn}")
        self.assertEqual([(self.base / name).read_text().strip() for name in ("of-a", "of-b", "hosts")], ["2", "2", "2"])

    def test_another_branch_on_the_host_does_not_move_the_agents_head(self):
        self.git("branch", "release")
        self.host_commit("newer", "1\n")
        self.inside(f"echo 1 > mine; git add mine; {BOT} commit -qm one")
        self.git("checkout", "-q", "release")
        said = self.inside("git branch --show-current; git log --format=%s; echo 2 > mine; git add mine; " + f"{BOT} commit -qm two").stdout
        self.assertEqual(said, "main\none\nof the host\nfirst\n")
        self.git("checkout", "-q", "main")
        self.apply()
        self.assertEqual(self.git("log", "--format=%s", "main..warren/s"), "two\none")
        self.assertEqual(self.changed_in("warren/s"), ["mine"])

    def test_what_is_under_way_on_the_host_is_not_seen(self):
        self.git("checkout", "-q", "-b", "other")
        self.host_commit("file", "other\n")
        self.git("checkout", "-q", "main")
        self.host_commit("file", "main\n")
        self.inside(f"echo 1 > n; {BOT} merge -q --no-commit --no-ff HEAD; git status --short")
        with self.assertRaises(AssertionError):
            self.git("merge", "-q", "other")
        (self.base / ".git/index.lock").touch()
        self.inside(f"test ! -e .git/MERGE_HEAD; git add n; {BOT} commit -qm mine")
        (self.base / ".git/index.lock").unlink()
        self.git("merge", "--abort")
        self.apply()
        self.assertEqual(self.git("log", "-1", "--format=%s %p", "warren/s"), "mine " + self.git("rev-parse", "--short", "main"))

    def test_a_command_under_way_on_the_host_is_waited_for(self):
        self.git("branch", "release")
        self.host_commit("newer", "1\n")
        self.git("checkout", "-q", "release")
        index, of_release, lock = (self.base / ".git" / name for name in ("index", "of-release", "index.lock"))
        shutil.copy2(index, of_release)
        self.git("checkout", "-q", "main")
        lock.touch()

        def has_begun():
            os.utime(lock)  # as that of a command which has just begun
            return any(self.world.home.rglob("*.new"))

        with self.world.start("run", "--session", "s", "--", "sh", "-ec", "git diff --cached --stat; git branch --show-current",
                              text=True) as running:
            sandboxed.wait_for(has_begun, "the session was not begun")
            # What `git checkout release` does while it holds the lock.
            of_release.rename(index)
            self.git("symbolic-ref", "HEAD", "refs/heads/release")
            lock.unlink()
            out, said = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual((running.returncode, out), (0, "release\n"), said)

    def test_a_lock_that_stays_is_named_and_the_state_before_it_is_taken(self):
        lock = self.base / ".git/index.lock"
        lock.touch()
        os.utime(lock, (1, 1))
        done = self.inside("git status --short --branch")
        self.assertEqual(done.stdout, "## main\n")
        self.assertIn("git is at work in", done.stderr)
        self.assertIn("/.git/index.lock' exists; the session begins with the state before that", done.stderr)
        lock.unlink()

    def test_a_merge_that_is_under_way_at_the_start_is_the_agents_too(self):
        self.git("checkout", "-q", "-b", "other")
        self.host_commit("file", "other\n")
        self.git("checkout", "-q", "main")
        self.host_commit("file", "main\n")
        with self.assertRaises(AssertionError):
            self.git("merge", "-q", "other")
        self.inside(f"git status | grep -q 'You have unmerged paths'; echo both > file; git add file; {BOT} commit -qm merged; "
                    "test ! -e .git/MERGE_HEAD")
        self.git("merge", "--abort")
        self.inside("git status --short; test ! -e .git/MERGE_HEAD")
        self.apply()
        self.assertEqual(len(self.git("log", "-1", "--format=%p", "warren/s").split()), 2)

    def test_branches_that_the_host_deletes_or_rewrites_are_no_commits_of_the_agent(self):
        self.git("checkout", "-q", "-b", "old")
        self.host_commit("x", "1\n")
        self.git("checkout", "-q", "main")
        self.host_commit("y", "1\n")
        tree = self.world.home / "tree"
        self.git("worktree", "add", "-q", "-b", "linked", tree)
        for session, cwd in (("s", self.base), ("w", tree)):
            self.inside("git status --short; echo 1 > note", session=session, cwd=cwd)
        self.git("branch", "-q", "-D", "old")
        self.git("commit", "-q", "--amend", "-m", "amended")
        self.git("commit", "-q", "--amend", "--allow-empty", "-m", "amended", cwd=tree)
        for session in "sw":
            said = self.warren("diff", f"session:{session}")
            self.assertNotIn("new commits", said)
            self.inside("git rev-parse -q --verify old; rm note", session=session, cwd=self.base if session == "s" else tree)
            self.apply(session)
            self.assertNotIn(session, self.world.sessions())

    def test_stashes_and_logs_are_those_of_the_start(self):
        self.inside("git status --short; echo 1 > mine")
        self.write("file", "parked\n")
        self.git("stash", "-q")
        self.host_commit("other", "1\n", "later")
        listed = self.inside(f"echo 2 > dir/inner; {BOT} stash -q; git stash list; {BOT} stash pop -q; git stash list; "
                             f"{COMMIT} two; git reflog main; git reflog HEAD").stdout
        self.assertEqual(listed.count("stash@{"), 1)
        self.assertEqual((listed.count("two"), listed.count("(initial)"), listed.count("later")), (2, 2, 0))
        self.assertEqual(self.git("stash", "list").count("stash@{"), 1)

    def test_all_references_are_those_of_the_start(self):
        self.git("tag", "-a", "-m", "v1", "v1")
        self.git("branch", "packed")
        self.git("pack-refs", "--all")
        self.git("tag", "v2")
        self.git("branch", "fix/parser")
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
        self.host_commit("x", "1\n")
        listing = ("for-each-ref", "refs/heads", "refs/tags", "refs/remotes")
        before = self.git(*listing)
        self.inside("echo 1 > note; git for-each-ref --format='%(objectname)' > /dev/null; git symbolic-ref refs/remotes/origin/HEAD")
        self.host_commit("x", "2\n")
        self.git("branch", "-D", "packed")
        self.git("tag", "v3")
        self.assertEqual(self.inside(f"git fsck --strict > /dev/null; git {' '.join(listing)}").stdout.strip(), before)

    def test_newer_work_of_the_host_can_be_merged_by_the_agent(self):
        self.inside(f"echo 1 > mine; git add mine; {BOT} commit -qm mine")
        self.host_commit("hosts", "1\n")
        said = self.inside(f"git log --format=%s -1 warren/base; {BOT} merge -q --no-edit warren/base; "
                           "git status --short").stdout
        self.assertEqual(said, "of the host\n")
        self.apply()
        self.git("merge", "-q", "--ff-only", "warren/s")
        self.assertEqual(((self.base / "hosts").read_text(), (self.base / "mine").read_text()), ("1\n", "1\n"))

    def test_newer_work_of_the_host_can_be_merged_after_the_agent_has_packed_its_objects(self):
        for i in range(400):
            self.write(f"f{i}", f"{i}\n")
        self.commit("many objects")
        self.inside(f"git gc -q; seq 50 > mine; git add mine; {BOT} commit -qm mine")
        for i in range(5):
            self.host_commit("file", f"{i}\n", f"host {i}")
        self.inside(f"{BOT} merge -q --no-edit warren/base; cat file; git fsck --connectivity-only 2>&1 | grep -c missing || true")
        self.assertEqual(self.inside("git log --format=%s warren/base..HEAD | tail -1; cat file").stdout, "mine\n4\n")

    def test_what_the_agent_does_in_the_state_stays(self):
        self.inside(f"git checkout -q -b work; echo 2 > file; {COMMIT} one; git tag keep; git branch gone; git branch -D gone; "
                    "git config user.x y; git pack-refs --all; git reflog > /dev/null")
        self.host_commit("hosts", "1\n")
        self.assertEqual(self.inside("git branch --show-current; git log --format=%s; git tag; git config user.x").stdout,
                         "work\none\nfirst\nkeep\ny\n")
        self.apply()
        self.assertEqual(self.git("log", "--format=%s", "warren/s"), "one\nfirst")

    def test_a_session_in_which_git_did_nothing_vanishes(self):
        self.git("branch", "release")
        self.inside("git log --format=%s")
        self.assertEqual(self.world.sessions(), [])
        self.inside("git status --short; git checkout -q release; git checkout -q main")
        self.assertEqual(self.world.sessions(), [])
        self.inside("git status --short; echo 2 > file")
        self.host_commit("hosts", "1\n")
        self.git("checkout", "-q", "release")
        self.git("checkout", "-q", "main")
        self.assertEqual(self.world.warren("diff", "session:s").stdout, "M f /file\n")
        self.assertEqual(self.world.warren("diff", "session:s").stderr, "")
        self.apply()
        self.assertEqual(self.world.sessions(), [])

    def test_changes_of_a_running_session_are_found_when_the_host_commits(self):
        self.world.run("--session", "s", "--", "sh", "-ec", "git status --short; echo 2 > file")
        with self.world.start("run", "--session", "s", "--", "sh", "-ec",
                              "git status --short > seen; until [ -e go ]; do sleep 0.05; done; "
                              f"echo 1 > mine; git add mine; {BOT} commit -qm mine") as running:
            sandboxed.wait_for(lambda: "A f /seen" in self.world.warren("diff", "session:s").stdout, "the agent did not start")
            self.host_commit("hosts", "1\n")
            self.write("go", "")
            _, said = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(running.returncode, 0, said)
        (self.base / "go").unlink()
        self.apply()
        self.assertEqual(self.changed_in("warren/s"), ["mine"])

    def test_discarding_everything_takes_the_state_that_the_base_has_now(self):
        self.inside(f"git checkout -q -b work; echo 2 > file; {COMMIT} one; echo 3 > file; echo true > .git/hooks/pre-push")
        self.host_commit("hosts", "1\n")
        self.warren("discard", "session:s", "--yes", ".git/hooks/pre-push")
        self.assertIn("dropped together", self.warren("discard", "session:s", "--yes", ".git/HEAD", status=1))
        self.assertEqual(self.inside("git log --format=%s; git status --short -uno").stdout, "one\nfirst\n M file\n")
        self.warren("discard", "session:s", "--yes", "--keep")
        self.assertEqual(self.inside("git log --format=%s; git status --short; git branch --format='%(refname:short)'").stdout,
                         "of the host\nfirst\nmain\n")


class WorkOfOthers(State):
    def asked(self, *words):
        return self.warren("apply", "session:s", *words, status=1)

    def test_uncommitted_work_of_the_host_in_a_commit_needs_consent(self):
        self.inside(f"echo 1 > mine; git add mine; {BOT} commit -qm one")
        self.write("file", "half done\n")
        self.inside(f"echo 2 > mine; {COMMIT} two")
        self.assertIn("1 file in the commits is not a change of this session: /file", self.warren("diff", "session:s"))
        self.assertIn("/file; the base changed while the agent committed: look at that before you merge", self.asked())
        self.assertEqual(self.git("branch", "--list", "warren/*"), "")
        rehearsed = json.loads(self.world.warren("apply", "session:s", "--dry-run", "--json").stdout)
        self.assertEqual((rehearsed["commits"]["not_of_session"], [one["about"] for one in rehearsed["asks"]]), (["/file"], ["commits"]))
        self.assertIn("/file", self.asked("--commits"))
        self.warren("apply", "session:s", "--no-commits", "--dry-run")
        self.warren("apply", "session:s", "--yes")
        self.assertEqual(self.git("log", "-1", "--format=%s", "warren/s"), "two")

    def test_no_work_is_taken_back_because_the_host_was_on_another_branch(self):
        self.git("branch", "release")
        self.host_commit("newer", "1\n")
        self.host_commit("file", "newer\n")
        self.inside(f"git checkout -q -b work; echo 1 > dir/inner; {COMMIT} one")
        self.git("checkout", "-q", "release")
        self.inside(f"echo 2 > dir/inner; {COMMIT} two")
        self.git("checkout", "-q", "main")
        self.apply()
        self.assertEqual(self.changed_in("warren/s"), ["dir/inner"])

    def test_no_work_is_taken_back_while_the_host_is_still_on_another_branch(self):
        self.git("branch", "release")
        self.host_commit("newer", "1\n")
        self.host_commit("file", "newer\n")
        self.inside(f"echo 1 > dir/inner; {COMMIT} one")
        self.git("checkout", "-q", "release")
        self.inside(f"echo 2 > dir/inner; {COMMIT} two")
        self.apply()
        self.assertEqual(self.changed_in("warren/s"), ["dir/inner"])

    def test_work_that_commits_on_top_of_it_take_back(self):
        lines = [f"{i}\n" for i in range(1, 31)]
        self.host_commit("file", "".join(lines))
        self.inside("sed -i 's/^5$/agent/' file")
        self.host_commit("file", "".join(lines[:-1] + ["host\n"]))
        self.inside("git reset -q warren/base; " + f"{COMMIT} five")
        self.assertIn("the commits revert newer work by others in 1 file: /file: look at that", self.asked())
        self.assertIn("revert newer work", self.warren("diff", "session:s"))

    def test_new_files_of_others_that_commits_on_top_of_them_remove(self):
        for session, way in (("r", "reset -q"), ("o", "merge -q -s ours --no-edit")):
            with self.subTest(way):
                self.inside(f"echo 1 > {session}; git add {session}; {BOT} commit -qm one", session=session)
                self.host_commit(f"of-host-{session}", "work of the host\n")
                self.inside(f"{BOT} {way} warren/base; {BOT} commit --allow-empty -qam two", session=session)
                said = self.warren("apply", f"session:{session}", status=1)
                self.assertIn(f"revert newer work by others in 1 file: /of-host-{session}", said)

    def test_files_that_the_agent_renames_or_removes_after_it_has_merged_them(self):
        ways = ["git mv file moved", "git rm -q file", "git mv newer newest", "git rm -q newer", "git mv dir lib"]
        sessions = {f"{take}-{i}": (take, way) for take in ("merge", "rebase") for i, way in enumerate(ways)}
        for session in sessions:
            self.inside(f"echo 1 > mine; git add mine; {BOT} commit -qm one", session=session)
        for name in ("file", "newer", "dir/inner"):
            self.write(name, "".join(f"of the host {i}\n" for i in range(20)))
        self.commit("of the host")
        for session, (take, way) in sessions.items():
            with self.subTest(f"{take}, {way}"):
                self.inside(f"{BOT} {take} -q warren/base; {way}; {COMMIT} two", session=session)
                self.apply(session)
        self.inside(f"{BOT} revert --no-edit warren/base > /dev/null", session="merge-4")
        self.assertIn("revert newer work", self.warren("apply", "session:merge-4", status=1))

    def test_own_files_that_the_agent_removes_after_the_merge_are_not_asked_about(self):
        self.inside(f"echo 1 > own; echo 1 > other; git add own other; {BOT} commit -qm own")
        self.warren("apply", "session:s", "--keep")
        self.git("merge", "-q", "warren/s")
        self.inside(f"git rm -q own; {BOT} commit -qm removed; echo 2 > other; {COMMIT} other")
        self.assertNotIn("revert", self.warren("diff", "session:s"))
        self.warren("apply", "session:s", "--keep")
        self.git("merge", "-q", "warren/s")
        self.assertFalse((self.base / "own").exists())

    def test_what_the_agent_removed_is_not_asked_about_after_the_host_has_amended_the_start(self):
        self.host_commit("more", "1\n")
        self.inside("git status --short; echo 1 > mine")
        self.write("new", "1\n")
        self.git("add", "new")
        self.git("commit", "-q", "--amend", "-m", "amended")
        self.inside(f"seq 99 > gone-again; git add gone-again; rm -r dir; {COMMIT} removed; rm gone-again")
        self.git("rm", "-rq", "dir")
        self.git("commit", "-qm", "the host removes it, too")
        self.assertIn("was changed again after the commits: /gone-again", self.apply())
        self.assertEqual(self.changed_in("warren/s"), ["dir/inner", "gone-again"])

    def test_another_type_in_a_commit_is_whole(self):
        self.inside(f"rm file; ln -s dir/inner file; mv dir/inner dir/other; echo new > dir/inner; git add -A; {COMMIT} types")
        said = self.apply()
        self.assertIn("changes are in the commits, not written as files", said)
        self.assertNotIn("was changed again after the commits", said)

    def test_newer_work_that_the_agent_has_merged_is_not_asked_about(self):
        lines = [f"{i}\n" for i in range(1, 31)]
        self.host_commit("file", "".join(lines))
        self.inside("sed -i 's/^5$/agent/' file; " + f"{COMMIT} five")
        self.host_commit("file", "".join(lines[:-1] + ["host\n"]))
        self.inside(f"{BOT} merge -q --no-edit warren/base")
        self.host_commit("file", "".join(["first\n"] + lines[1:-1] + ["host\n"]))
        self.apply()
        self.git("merge", "-q", "--no-edit", "warren/s")
        self.assertEqual((self.base / "file").read_text().split(), ["first", *"234", "agent", *map(str, range(6, 30)), "host"])

    def test_files_that_were_applied_before_they_were_committed_are_not_asked_about(self):
        self.inside("echo agent > file; echo 1 > new")
        self.warren("apply", "session:s", "--keep")
        self.inside("git add -A; " + f"{COMMIT} both")
        self.assertIn("git stash push", self.apply())

    def test_files_that_were_applied_after_a_commit_and_another_change_are_not_asked_about(self):
        for session, words in (("path", ("file",)), ("files", ("--no-commits",))):
            with self.subTest(session):
                self.inside(f"sed -i 's/of/OF/' file; {COMMIT} own; echo more >> file", session=session)
                self.warren("apply", f"session:{session}", *words, "--keep")
                self.assertNotIn("not a change of this session", self.warren("diff", f"session:{session}"))
                self.assertIn("once your local changes are committed or stashed: file", self.apply(session))
                self.assertEqual(self.git("show", f"warren/{session}:file"), "OF the base")
                self.assertEqual((self.base / "file").read_text(), "OF the base\nmore\n")
                self.git("checkout", "-q", "file")

    def test_a_file_that_the_user_changed_after_it_was_applied_is_asked_about(self):
        self.inside(f"sed -i 's/of/OF/' file; {COMMIT} own; echo more >> file")
        self.warren("apply", "session:s", "file", "--keep")
        self.write("file", "of the user\n")
        self.assertIn("not a change of this session: /file", self.asked())

    def test_the_command_that_is_printed_for_names_with_signs_works(self):
        for name in ("_config.yml", "@types/a.ts", "-rf", "=x", ",x", "%x", "+x", ".x", "x_-+=@%,.y"):
            (self.base / name).parent.mkdir(exist_ok=True)
            self.write(name, "1\n")
        self.inside(f"echo 1 > p; git add -A; {COMMIT} all")
        said = self.warren("apply", "session:s", "--yes")
        command = next(line for line in said.splitlines() if "git stash push" in line).split("   brings")[0]
        subprocess.run(["sh", "-ec", command], cwd=self.base, check=True, capture_output=True,
                       env=self.world.environment() | {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
                                                       "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org"})
        self.assertEqual(self.git("status", "--short"), "")
        self.assertEqual(self.git("rev-parse", "HEAD"), self.git("rev-parse", "warren/s"))

    def test_what_the_agent_sets_back_to_its_start_is_no_change(self):
        for way in ("reset -q --hard", "checkout -q .", "stash -q"):
            with self.subTest(way=way):
                session = way.split()[0]
                self.inside(f"echo 1 > of-{session}; git status --short", session=session)
                self.host_commit("file", f"of the host {session}\n")
                self.inside(f"{BOT} {way}; echo 2 > of-{session}", session=session)
                self.assertNotIn("/file", self.warren("diff", f"session:{session}"))
                self.warren("apply", f"session:{session}")
                self.assertEqual((self.base / "file").read_text(), f"of the host {session}\n")

    def test_ordinary_work_is_not_asked_about(self):
        self.git("checkout", "-q", "-b", "feature")
        self.host_commit("of-feature", "1\n")
        self.git("checkout", "-q", "main")
        self.inside(f"echo 1 > a; git add a; {BOT} commit -qm a")
        self.apply()
        self.git("merge", "-q", "warren/s")
        self.host_commit("a", "of the host\n")
        self.inside(f"echo 1 > b; git add b; {BOT} commit -qm b; echo 2 > b; {COMMIT} b2; {BOT} revert --no-edit HEAD > /dev/null")
        self.apply()
        self.git("merge", "-q", "--no-edit", "warren/s")
        self.inside("git checkout -q .; git checkout -q feature; echo 2 > of-feature; " + f"{COMMIT} feature; git log --format=%s -1")
        self.warren("apply", "session:s", "--branch", "feature-of-s")
        self.assertEqual(self.changed_in("feature-of-s"), ["of-feature"])
        self.inside(f"echo 1 > c; git add c; {BOT} commit -qm c; {BOT} cherry-pick feature > /dev/null; {BOT} rebase -q main > /dev/null",
                    session="t")
        self.warren("apply", "session:t")

    def test_work_that_is_merged_already_is_not_asked_about(self):
        self.inside("echo 1 > of-b", session="s")
        self.inside(f"echo 2 > file; echo 1 > of-a; git add .; {BOT} commit -qm a", session="a")
        self.apply("a")
        self.git("merge", "-q", "warren/a")
        self.inside(f"git add -A; {COMMIT} b")
        self.apply()
        self.git("merge", "-q", "--no-edit", "warren/s")


class TakenBack(State):
    def check(self, script, path, after):
        self.inside(script)
        said = self.apply()
        self.assertIn(f"not written yet, because it was changed again after the commits: {path}", said)
        self.assertIn("s", self.world.sessions())
        self.assertIn("changes after its commits", self.listed())
        self.git("merge", "-q", "warren/s")
        self.warren("apply", "session:s", "--merge")
        after()
        self.assertEqual(self.world.sessions(), [])

    def test_a_new_file_that_was_removed_again(self):
        self.check(f"seq 50 > new; git add new; {BOT} commit -qm new; rm new", "/new",
                   lambda: self.assertFalse((self.base / "new").exists()))

    def test_a_file_with_its_old_text_again(self):
        self.check(f"cp file /tmp/old; echo 2 > file; {COMMIT} two; cp /tmp/old file", "/file",
                   lambda: self.assertEqual((self.base / "file").read_text(), "of the base\n"))

    def test_a_mode_that_was_set_back(self):
        self.check(f"chmod +x file; {COMMIT} mode; chmod -x file", "/file",
                   lambda: self.assertEqual((self.base / "file").stat().st_mode & 0o111, 0))


class LinkedWorktree(State):
    def test_newer_work_of_the_host_can_be_merged_by_the_agent(self):
        tree = self.world.home / "tree"
        self.git("worktree", "add", "-q", "-b", "linked", tree)
        self.inside(f"echo 1 > mine; git add mine; {BOT} commit -qm mine", cwd=tree)
        (tree / "hosts").write_text("1\n")
        self.commit("of the host", cwd=tree)
        said = self.inside(f"git log --format=%s -1 warren/base; {BOT} merge -q --no-edit warren/base; "
                           "git status --short", cwd=tree).stdout
        self.assertEqual(said, "of the host\n")


class SymbolicBranch(State):
    def test_its_commits_arrive_once(self):
        self.git("symbolic-ref", "refs/heads/current", "refs/heads/main")
        self.git("symbolic-ref", "HEAD", "refs/heads/current")
        self.inside(f"echo n > n; git add n; {BOT} commit -qm n")
        self.assertIn("branch warren/s: 1 commit", self.apply())
        self.assertFalse((self.base / "n").exists())
        self.git("merge", "-q", "warren/s")
        self.apply()
        self.assertEqual(self.world.sessions(), [])


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
