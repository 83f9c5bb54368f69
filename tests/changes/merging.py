#!/usr/bin/env python3
"""After an apply of commits: what git merge of the branch meets, and what apply and discard say about commits.

    WARREN=path/to/warren merging.py [-v] [Class.test_name]
"""
import fcntl
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from commits import Repository
from overlaid import mounted


class Merging(Repository):
    def shell(self, command):
        """What a user who copies it gets; from a directory below the top."""
        below = self.base / "below"
        below.mkdir(exist_ok=True)
        words = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t",
                 "GIT_COMMITTER_EMAIL": "t@example.org"}
        return subprocess.run(["sh", "-c", command], cwd=below, env=self.w.environment() | words, capture_output=True,
                              text=True)

    def advice(self, said, begin):
        """The command of the line that starts like that."""
        lines = [line.strip() for line in said.splitlines() if line.strip().startswith(begin)]
        self.assertEqual(len(lines), 1, said)
        return lines[0].split("   ")[0]

    def test_files_that_an_earlier_apply_wrote_are_stashed_for_the_merge(self):
        self.begin(a="1\n", b="1\n", gone="1\n")
        def change(point):
            overlaid.write(point + "/a", "2\n")
            overlaid.write(point + "/new dir/it's *", "new\n")
            os.remove(point + "/gone")
        self.agent(then=change)
        self.assertNotIn("git merge", self.apply())
        head = self.agent(commit="all")
        overlaid.write(self.base / "b", "mine\n")  # of no interest to the merge
        said = self.apply("--commits")
        self.assertNotEqual(self.shell("git merge warren/a").returncode, 0)
        self.assertIn("local changes that equal the commits: a, new dir/it's *", said)
        done = self.shell(self.advice(said, "git stash"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.rev("HEAD"), head)
        self.assertEqual(self.git("stash", "list"), "")
        self.assertEqual(self.read("new dir/it's *"), "new\n")
        self.assertEqual(self.read("b"), "mine\n")

    def test_other_local_changes_in_the_way_are_named(self):
        self.begin(a="1\n", b="1\n")
        self.agent(("a", "2\n"), ("b", "2\n"), commit="both")
        overlaid.write(self.base / "a", "mine\n")
        overlaid.write(self.base / "b", "2\n")
        said = self.apply()
        self.assertIn("once your local changes are committed or stashed: a, b", said)
        self.assertNotIn("stash drop", said)

    def test_too_many_files_for_a_command_are_counted(self):
        self.begin(a="1\n")
        self.agent(*((f"n{number:02}", "n\n") for number in range(60)))
        self.apply()
        self.agent(commit="many")
        said = self.apply()
        self.assertIn("your local changes, which equal the commits, are committed or stashed: n00, n01, n02, n03, n04 and 55 more", said)
        self.assertNotIn("stash drop", said)
        self.commit("the same")
        self.assertEqual(self.shell(self.advice(said, "git merge")).returncode, 0)

    def test_a_merge_of_both_sides_works_after_the_stash_too(self):
        self.begin(a="1\n", b="1\n")
        self.agent(("a", "2\n"))
        self.apply()
        self.agent(commit="a")
        overlaid.write(self.base / "b", "2\n")
        self.git("commit", "-qm", "mine", "b")
        done = self.shell(self.advice(self.apply(), "git stash"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.read("a"), self.read("b")), ("2\n", "2\n"))
        self.assertEqual(self.git("status", "--porcelain", "--untracked-files=no"), "")

    def test_an_ignored_file_with_the_same_content_is_not_in_the_way(self):
        self.begin(**{".gitignore": "x\n"})
        overlaid.write(self.base / "x", "same\n")
        self.agent(then=lambda p: (self.git("add", "-f", "x", cwd=p), self.git("commit", "-qm", "x", cwd=p)))
        self.assertIn("pushing the branch would publish files that you do not track: /x", self.apply(fails=True))
        done = self.shell(self.advice(self.apply("--yes"), "git merge"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read("x"), "same\n")

    def test_nothing_in_the_way_is_a_plain_merge(self):
        self.begin(a="1\n", b="1\n")
        self.agent(("a", "2\n"), commit="a")
        overlaid.write(self.base / "b", "mine\n")
        self.assertEqual(self.shell(self.advice(self.apply(), "git merge")).returncode, 0)
        self.assertEqual((self.read("a"), self.read("b")), ("2\n", "mine\n"))

    def test_before_the_first_commit_the_files_are_in_the_way(self):
        self.git("init", "-q", "-b", "main", ".")
        overlaid.write(self.base / "a", "1\n")
        self.w.init()
        self.agent(("n", "n\n"), commit="all")
        said = self.apply()
        self.assertNotEqual(self.shell("git merge warren/a").returncode, 0)
        done = self.shell(self.advice(said, "git add"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.rev("HEAD"), self.rev("warren/a"))
        self.assertEqual((self.read("a"), self.read("n")), ("1\n", "n\n"))
        self.assertEqual(self.git("status", "--short"), "")

    def check_before_the_first_commit(self, own, begin, status):
        self.git("init", "-q", "-b", "main", ".")
        overlaid.write(self.base / "a", "1\n")
        self.w.init()
        self.agent(("n", "n\n"), ("it's *", "n\n"), commit="all")
        overlaid.write(self.base / "a", own)
        overlaid.write(self.base / "staged", "mine\n")
        self.git("add", "staged")
        done = self.shell(self.advice(self.apply("--yes"), begin))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.git("status", "--short"), status)
        self.assertEqual([self.read(name) for name in ("a", "n", "it's *", "staged")], [own, "n\n", "n\n", "mine\n"])

    def test_before_the_first_commit_what_is_staged_stays_staged(self):
        self.check_before_the_first_commit("1\n", "git add", "A  staged\n")

    def test_before_the_first_commit_other_versions_stay_in_the_work_tree(self):
        self.check_before_the_first_commit("2\n", "git reset", " M a\n?? staged\n")

    def test_commits_without_a_common_one_are_not_to_be_merged(self):
        self.begin(a="1\n")
        self.agent(then=lambda p: (self.git("checkout", "-q", "--orphan", "other", cwd=p), self.commit("orphan", cwd=p)))
        said = self.apply()
        self.assertIn("they have no common ancestor with your branch", said)
        self.assertNotIn("brings them into your branch", said)

    def test_a_commit_of_a_submodule_that_only_the_agent_has_is_named(self):
        library = self.w.root / "library"
        library.mkdir()
        self.git("init", "-q", "-b", "main", ".", cwd=library)
        overlaid.write(library / "l", "1\n")
        self.commit("library", cwd=library)
        def add():
            self.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "sub")
            self.commit("with sub")
        self.begin(a="1\n", then=add)
        def bump(point):
            overlaid.write(point + "/sub/l", "2\n")
            inner = ("--git-dir=" + point + "/.git/modules/sub", "--work-tree=" + point + "/sub")
            self.git(*inner, "commit", "-qam", "in sub", cwd=point + "/sub")
            self.inner = self.git(*inner, "rev-parse", "HEAD", cwd=point + "/sub").strip()
            self.git("update-index", "--cacheinfo", "160000," + self.inner + ",sub", cwd=point)
            self.git("commit", "-qm", "bump", cwd=point)
        self.agent(then=bump)
        self.assertIn(f"commit {self.inner[:10]} of the submodule 'sub', which yours does not have", self.apply("--commits"))


class Hints(Repository):
    def test_an_amended_branch_is_replaced_without_touching_files(self):
        self.begin(a="1\n", b="1\n")
        self.agent(("a", "2\n"), commit="one")
        self.apply()
        def amend(point):
            overlaid.write(point + "/a", "3\n")
            self.git("commit", "-q", "--amend", "-am", "one amended", cwd=point)
            overlaid.write(point + "/b", "agent\n")
        head = self.agent(then=amend)
        overlaid.write(self.base / "b", "mine\n")
        self.assertIn("--commits --force replaces it and writes no files", self.apply(fails=True))
        self.apply("--commits", "--force")
        self.assertEqual(self.rev("warren/a"), head)
        self.assertEqual(self.read("b"), "mine\n")

    def test_a_branch_that_is_in_the_brought_one_has_nothing_more(self):
        self.begin(a="1\n")
        def fork(point):
            self.git("checkout", "-qb", "feature", cwd=point)
            overlaid.write(point + "/a", "3\n")
            self.commit("two", cwd=point)
            self.git("branch", "side", "main", cwd=point)
        self.agent(("a", "2\n"), commit="one", then=fork)
        self.assertNotIn("more commits", self.apply())

    def test_a_conflict_of_files_leaves_the_commits_to_bring(self):
        self.begin(a="1\n", b="1\n")
        head = self.agent(("a", "2\n"), commit="one", then=lambda p: overlaid.write(p + "/b", "agent\n"))
        overlaid.write(self.base / "b", "mine, longer\n")
        self.assertIn("--commits brings only the commits", self.apply(fails=True))
        self.apply("--commits")
        self.assertEqual(self.rev("warren/a"), head)

    def test_a_branch_that_was_written_is_named_if_the_files_are_refused(self):
        self.begin(a="1\n", b="1\n")
        self.agent(("a", "2\n"), commit="one", then=lambda p: overlaid.write(p + "/b", "agent\n"))
        top = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(top, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as another apply does
            said = self.apply(fails=True)
        finally:
            os.close(top)
        self.assertIn("the branch 'warren/a' was written, but no file was: another apply", said)
        self.assertIn("warren/a", self.branches())
        self.assertEqual(self.read("b"), "1\n")

    def test_an_error_does_not_say_that_nothing_was_written_if_a_branch_was(self):
        self.begin(a="1\n", b="1\n")
        kept = self.w.home / ".agentfs" / "undo"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("in the way of what would be replaced\n")
        self.agent(("a", "2\n"), commit="one", then=lambda p: overlaid.write(p + "/b", "agent\n"))
        said = self.apply(fails=True)
        self.assertIn(f"the branch 'warren/a' was written, but no file was: keep in '{kept}'", said)
        self.assertNotIn("nothing was written", said)
        self.assertIn("warren/a", self.branches())
        self.assertEqual(self.read("b"), "1\n")
        said = self.w.fails("apply", "--no-commits", self.w.id)
        self.assertIn(f"nothing was written: keep in '{kept}'", said)

    def test_the_full_name_of_a_reference_is_not_a_branch(self):
        self.begin(a="1\n")
        self.agent(("a", "2\n"), ("b", "2\n"), commit="one")
        self.assertIn("without 'refs/heads/'", self.apply("--branch", "refs/heads/x", fails=True))
        self.assertIn("without 'refs/heads/'", self.apply("--as-branch", "refs/heads/x", fails=True))
        self.assertEqual(self.branches(), ["main"])


class Discarding(Repository):
    def test_commits_that_are_nowhere_else_are_named(self):
        self.begin(a="1\n")
        def more(point):
            self.git("checkout", "-qb", "side", cwd=point)
            overlaid.write(point + "/s", "s\n")
            self.commit("on the side", cwd=point)
            self.git("checkout", "-q", "main", cwd=point)
            overlaid.write(point + "/junk", "j\n")
        self.agent(("a", "2\n"), commit="a day of work", then=more)
        what = "1 added, 1 modified, 2 commits that are nowhere else: 'a day of work'"
        self.assertIn(what, self.w.fails("discard", self.w.id))
        said = self.talk(["discard", self.w.id], b"n\n").decode()
        self.assertIn(f"Drop these changes permanently ({what})?", said)
        self.assertIn("A f /junk", said)
        self.assertNotIn(".git", said)
        self.assertIn(f"discarded: {what}", self.w.warren("discard", "--yes", self.w.id).decode())
        self.assertEqual(self.w.warren("discard", "--yes", self.w.id), b"nothing to discard\n")

    def test_commits_on_no_branch_are_named(self):
        self.begin(a="1\n")
        undo = lambda point: self.git("reset", "-q", "--hard", "HEAD~1", cwd=point)
        self.agent(("a", "2\n"), commit="a day of work", then=undo)
        what = "1 commit that is nowhere else: 'a day of work'"
        self.assertIn(what, self.w.fails("discard", self.w.id))
        self.agent(("a", "3\n"), commit="on the branch")
        what = "2 commits that are nowhere else: 'on the branch'"
        self.assertIn(f"discarded: 1 modified, {what}\n", self.w.warren("discard", "--yes", self.w.id).decode())

    def test_a_commit_made_while_it_asked_is_not_dropped(self):
        self.begin(a="1\n")
        self.agent(("junk", "j\n"))
        commit = lambda: self.agent(("b", "2\n"), commit="a day of work")
        said = self.talk(["discard", self.w.id], b"y\n", meanwhile=commit).decode()
        self.assertIn("was changed since you looked at it", said)
        self.assertIn("1 commit that is nowhere else: 'a day of work'", self.w.fails("discard", self.w.id))

    def test_commits_that_were_brought_or_stay_are_not_named(self):
        self.begin(a="1\n")
        self.agent(("a", "2\n"), commit="one", then=lambda p: overlaid.write(p + "/junk", "j\n"))
        self.assertIn("discarded: 1 added\n", self.w.warren("discard", "--yes", self.w.id, "/junk").decode())
        self.apply("--commits")
        self.assertIn("discarded: 1 modified\n", self.w.warren("discard", "--yes", self.w.id).decode())

    def test_what_else_is_only_in_git_is_named(self):
        self.begin(a="1\n")
        self.agent(("a", "2\n"), then=lambda p: self.git("stash", cwd=p))
        self.assertIn("discarded: the stash\n", self.w.warren("discard", "--yes", self.w.id).decode())

    def test_what_git_writes_by_itself_has_a_name(self):
        self.begin(a="1\n")
        self.agent(then=lambda p: (overlaid.write(p + "/x", "x"), self.git("add", "x", cwd=p), self.git("reset", "-q", cwd=p), os.remove(p + "/x")))
        self.assertIn("git's own files in .git", self.w.warren("discard", "--yes", self.w.id).decode())


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
