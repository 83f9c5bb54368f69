#!/usr/bin/env python3
"""git inside a run: from a subdirectory, in a linked worktree, and how commits arrive.

    WARREN=path/to/warren git.py [-v] [Class.test_name]

Needs root.
"""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed

WHO = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
BOT = "git -c user.name=bot -c user.email=bot@example.org"
COMMIT = f"{BOT} commit -qam"


class Git(unittest.TestCase):
    uid = 0

    def setUp(self):
        self.world = self.enterContext(sandboxed.World(self.uid))
        self.base = self.world.base
        self.git("init", "-q", "-b", "main", ".")
        self.commit("first")

    def git(self, *words, cwd=None, environment=None):
        become = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "--"] if self.uid else []
        done = subprocess.run([*become, "git", *WHO, *map(str, words)], cwd=cwd or self.base, capture_output=True, text=True,
                              env=self.world.environment() | (environment or {}))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def commit(self, message, cwd=None):
        self.git("add", "-A", cwd=cwd)
        self.git("commit", "-qm", message, cwd=cwd)

    def inside(self, script, cwd=None, session="s", options=()):
        done = self.world.run("--session", session, *options, "--", "sh", "-ec", script, cwd=cwd or self.base)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done

    def apply(self, session="s"):
        done = self.world.warren("apply", f"session:{session}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class LeftInTheSession(Git):
    def test_a_session_with_a_stash_or_a_tag_or_memory_is_not_empty(self):
        commit = "git -c user.name=bot -c user.email=bot@example.org"
        for session, script, what in (
                ("stash", f"echo 2 > file; {commit} stash -q", "the stash"),
                ("tag", f"git checkout -q --detach; echo 2 > file; {commit} commit -qam x; git tag keep; git checkout -q main", "tags"),
                ("hook", "echo true > .git/hooks/pre-commit", "hooks"),
                ("settings", "git config user.name bot", "git settings"),
                ("memory", 'echo 1 > "$WARREN_NAMESPACE/mem/semantic/x"', "memory")):
            with self.subTest(session):
                self.assertIn(f"{what} in the session, which only the session keeps", self.inside(script, session=session).stderr)
                self.assertIn(f"0 + {what}", self.world.warren("sessions").stdout)
                self.assertNotIn(session, self.world.warren("sessions", "prune", "--empty", "-n").stdout)
                self.apply(session)
                self.assertIn(session, self.world.sessions())
        self.inside("true", session="nothing", options=("--keep",))
        self.assertEqual(self.world.warren("sessions", "prune", "--empty", "-n").stdout, "would delete nothing\n")

    def check_stays(self, cwd, session, script, what):
        with self.subTest(session):
            self.inside(script, cwd=cwd, session=session)
            self.apply(session)
            self.assertIn(session, self.world.sessions(), f"{session} was deleted")
            self.assertIn(f"+ {what}", self.world.warren("sessions").stdout)

    def test_whatever_is_only_in_its_git_directories_keeps_a_session(self):
        self.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", self.base, "sub")
        self.commit("second")
        tree = self.world.home / "tree"
        self.git("worktree", "add", "-q", "-b", "fix", tree)
        folder = "$(git rev-parse --git-dir)"
        for place, cwd in (("main", self.base), ("worktree", tree), ("submodule", self.base / "sub")):
            self.check_stays(cwd, f"{place}-config", "git config my.key only-here", "git settings")
            self.check_stays(cwd, f"{place}-file", f"echo mine > {folder}/notes", "'/.git/notes'")
            self.check_stays(cwd, f"{place}-exclude", f"echo mine >> {folder}/info/exclude", "'/.git/info/exclude'")
            self.check_stays(cwd, f"{place}-lfs", f"mkdir -p {folder}/lfs/objects; echo 1 > {folder}/lfs/objects/1", "files in '.git/lfs'")
            self.check_stays(cwd, f"{place}-rebase", f"mkdir {folder}/rebase-merge; echo 1 > {folder}/rebase-merge/todo",
                             "a merge or rebase under way")
        self.check_stays(self.base, "branch", "git branch keep HEAD~1", "branches")
        self.check_stays(self.base, "submodule-tag", "cd sub; git tag keep", "tags of a submodule")
        self.check_stays(self.base, "submodule-branch", "cd sub; git branch keep", "branches of a submodule")

    def test_what_git_writes_by_itself_does_not_keep_a_session(self):
        tree = self.world.home / "tree"
        self.git("worktree", "add", "-q", "-b", "fix", tree)
        script = "git status -s; git checkout -q -b other; git checkout -q -; git fetch -q . HEAD; echo 2 > file"
        for place, cwd in (("main", self.base), ("worktree", tree)):
            said = self.inside(script, cwd=cwd, session=place).stderr
            self.assertNotIn("only the session keeps", said)
            done = self.world.warren("apply", f"session:{place}")
            self.assertNotIn("left out", done.stderr)
            self.assertEqual(self.world.sessions(), [], done.stderr)

    def apply_and_merge(self, session):
        self.apply(session)
        self.git("merge", "-q", f"warren/{session}")
        self.apply(session)

    def test_a_branch_that_is_in_the_way_is_named_before_anything_is_brought(self):
        self.git("branch", "warren")
        self.inside(f"echo 2 > file; {COMMIT} two")
        before = self.git("count-objects", "-v")
        done = self.world.warren("apply", "session:s")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("because there is a branch 'warren'", done.stderr)
        self.assertIn("--branch NAME", done.stderr)
        self.assertEqual(self.git("count-objects", "-v"), before)
        done = self.world.warren("apply", "session:s", "--branch", "agent/s")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.git("log", "--format=%s", "-1", "agent/s"), "two")

    def test_force_writes_no_branch_if_a_file_cannot_be_written(self):
        self.inside(f"echo 2 > file; {COMMIT} two; echo new > dir/new")
        (self.base / "dir").rename(self.base / "aside")
        (self.base / "dir").symlink_to("aside")
        before = self.git("count-objects", "-v")
        done = self.world.warren("apply", "session:s", "--force", "--yes")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("nothing was written: '/dir/new': the base has a link at '/dir' now", done.stderr)
        self.assertEqual(self.git("branch", "--list", "warren/*"), "")
        self.assertEqual(self.git("count-objects", "-v"), before)
        (self.base / "dir").unlink()
        (self.base / "aside").rename(self.base / "dir")
        done = self.world.warren("apply", "session:s", "--force", "--yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.git("log", "--format=%s", "-1", "warren/s"), "two")
        self.assertEqual((self.base / "dir/new").read_text(), "new\n")

    def test_an_apply_while_the_agent_commits_brings_what_it_has_seen(self):
        script = f"echo ready; for i in $(seq 200); do echo $i >> file; {COMMIT} $i; done"
        run = self.world.start("run", "--session", "s", "--quiet", "--", "sh", "-ec", script, cwd=self.base)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        run.stdout.readline()
        applied = 0
        while run.poll() is None or applied < 3:
            done = self.world.warren("apply", "session:s", "--keep", "--commits")
            self.assertNotIn("damaged", done.stderr)
            applied += done.returncode == 0
        run.communicate()
        self.world.warren("apply", "session:s", "--keep", "--commits")
        self.assertEqual(self.git("log", "--format=%s", "-1", "warren/s"), "200")

    def test_commits_that_were_brought_do_not_keep_it_and_others_do(self):
        self.inside(f"echo 2 > file; {COMMIT} two")
        self.apply_and_merge("s")
        self.assertEqual(self.world.sessions(), [])
        self.inside(f"for i in $(seq 150); do echo $i > f$i; done; git add -A; {COMMIT} many", session="many")  # git packs these
        self.apply_and_merge("many")
        self.assertEqual(self.world.sessions(), [])
        self.inside(f"echo 3 > file; {COMMIT} three; git checkout -q --detach; echo 4 > file; {COMMIT} lost; git checkout -q main",
                    session="lost")
        self.apply_and_merge("lost")
        self.assertEqual(self.world.sessions(), ["lost"])


class RenamedAndMerged(Git):
    def test_a_session_goes_on_after_its_rename_was_merged_and_ends_when_all_is_in_the_base(self):
        self.inside(f"git mv dir lib; {COMMIT} renamed", options=("--keep",))
        self.apply()
        self.git("merge", "-q", "warren/s")
        done = self.inside(f"ls lib; git status --short; echo 2 > file; git add -A; {COMMIT} next; "
                           "git show --format= --name-status", options=("--keep",))
        self.assertEqual(done.stdout, "inner\nM\tfile\n")
        self.inside(f"git mv file moved; {COMMIT} moved; echo rest > lib/rest", options=("--keep",))
        self.apply()
        self.assertEqual(sorted(os.listdir(self.base / "lib")), ["inner", "rest"])
        self.git("merge", "-q", "warren/s")
        self.assertEqual((self.base / "moved").read_text(), "2\n")
        self.assertEqual(self.world.warren("diff", "session:s").stdout, "")
        self.assertNotIn("both change", self.world.warren("sessions").stdout)
        self.apply()
        self.assertNotIn("s", self.world.sessions())


class Subdirectory(Git):
    def test_the_base_is_the_repository(self):
        done = self.inside("pwd; echo 2 > inner; git status --porcelain; cat ../file", cwd=self.base / "dir")
        self.assertEqual(done.stdout, f"{self.base}/dir\n M dir/inner\nof the base\n")
        self.assertIn(f"the base is the git repository '{self.base}'; --base . takes only this directory", done.stderr)
        self.assertEqual(self.world.warren("diff", "session:s").stdout, "M f /dir/inner\n")

    def test_another_base_can_be_asked_for(self):
        done = self.inside("pwd; ls ..; echo 2 > inner", cwd=self.base / "dir", options=("--base", "."))
        self.assertNotIn("the base is", done.stderr)
        self.assertEqual(self.world.warren("diff", "session:s").stdout, "M f /inner\n")

    def test_at_the_top_nothing_is_said(self):
        self.assertNotIn("the base is", self.inside("true").stderr)
        self.assertNotIn("git cannot commit", self.inside("true").stderr)

    def test_a_base_below_the_top_is_said_to_be_without_git(self):
        for _ in range(2):  # and when it is resumed
            done = self.inside("true", cwd=self.base / "dir", options=("--base", ".", "--keep"))
            self.assertIn(f"git cannot commit in this run: the repository '{self.base}' is above the base", done.stderr)


class Signed(Git):
    """Commits are to be signed."""
    COMMIT = "echo 2 > file; git -c user.name=bot -c user.email=bot@example.org commit -qam signed 2>&1 && echo done || echo failed"

    def check(self, key, *settings):
        for name, value in (("commit.gpgsign", "true"), *settings):
            self.git("config", name, value)
        done = self.inside(self.COMMIT)
        self.assertIn("failed", done.stdout)
        self.assertIn(f"git is set to sign commits (commit.gpgsign), and the key '{key}' is hidden in this run", done.stderr)

    def test_a_hidden_key_of_gpg_is_named(self):
        key = self.world.home / ".gnupg"
        key.mkdir(mode=0o700, exist_ok=True)
        self.check(key)

    def test_a_hidden_key_of_ssh_is_named_and_a_visible_one_is_not(self):
        key = self.world.home / ".ssh" / "id_test"
        key.write_text("a key\n")
        self.check(key, ("gpg.format", "ssh"), ("user.signingkey", "~/.ssh/id_test"))
        done = self.inside("true", session="r", options=("--read", key))
        self.assertNotIn("is set to sign", done.stderr)

    def test_a_session_keeps_its_base(self):
        self.inside("echo 2 > inner", cwd=self.base / "dir", options=("--base", "."))
        self.assertIn("2", self.inside("cat inner", cwd=self.base / "dir").stdout)

    def test_a_home_is_not_a_project(self):
        self.git("init", "-q", cwd=self.world.home)
        folder = self.world.home / "work"
        folder.mkdir()
        self.assertNotIn("the base is", self.inside("touch x", cwd=folder).stderr)
        self.assertEqual(self.world.warren("diff", "session:s").stdout, "A f /x\n")

    def test_a_repository_of_somebody_else_is_not_taken(self):
        for path in [self.base / ".git", *(self.base / ".git").rglob("*")]:
            os.chown(path, sandboxed.NOBODY, sandboxed.NOBODY)
        self.assertNotIn("the base is", self.inside("touch x", cwd=self.base / "dir").stderr)


class Worktree(Git):
    def setUp(self):
        super().setUp()
        self.tree = self.world.home / "trees/fix"  # in the home, most of which a run does not see
        self.git("worktree", "add", "-q", "-b", "fix", self.tree)
        self.main = self.base

    def test_git_works_and_commits_arrive(self):
        done = self.inside("git status --porcelain; git log --format=%s; git branch --show-current; echo 2 > file; "
                           f"{COMMIT} 'in a worktree'; git status --porcelain; echo 3 > dir/inner", cwd=self.tree)
        self.assertEqual(done.stdout, "first\nfix\n")
        self.assertIn("new commits, which apply brings as the branch warren/s", done.stderr)
        self.assertEqual(self.git("log", "--format=%s", "--all"), "first")
        self.assertTrue((self.tree / ".git").is_file())
        said = self.apply()
        self.assertIn("branch warren/s: 1 commit, up to", said)
        self.assertEqual(self.git("log", "-1", "--format=%s", "warren/s"), "in a worktree")
        self.assertEqual(((self.tree / "file").read_text(), (self.tree / "dir/inner").read_text()), ("of the base\n", "3\n"))
        self.git("merge", "-q", "warren/s", cwd=self.tree)
        self.assertEqual((self.tree / "file").read_text(), "2\n")
        self.assertEqual(self.world.warren("diff", "session:s").stdout, "")
        self.git("fsck", "--strict")

    def test_sessions_of_two_worktrees_that_change_the_same_file_are_named(self):
        self.inside("echo 2 > file", session="here")
        self.inside("echo 3 > file; echo 4 > other", session="there", cwd=self.tree)
        self.assertIn("\nthere and here both change /file\n", self.world.warren("sessions").stdout)

    def test_a_main_repository_in_a_hidden_folder(self):
        main = self.world.home / "code/main"
        self.git("clone", "-q", self.base, main)
        tree = self.world.canary / "tree"
        self.git("worktree", "add", "-q", "-b", "two", tree, cwd=main)
        done = self.inside(f"git log --format=%s; echo 2 > file; {COMMIT} two; ls {main} 2>&1 || true", cwd=tree)
        self.assertEqual(done.stdout.splitlines()[0], "first")
        self.assertNotIn("file", done.stdout)
        self.apply()
        self.assertEqual(self.git("log", "-1", "--format=%s", "warren/s", cwd=main), "two")

    def test_it_is_copy_on_write(self):
        before = sandboxed.checksum(self.base / ".git/refs"), (self.base / ".git/config").read_bytes()
        self.inside(f"echo 2 > file; {COMMIT} two; git branch other; git config user.x y; git tag t; git gc -q; git checkout -q other",
                    cwd=self.tree)
        self.assertEqual((sandboxed.checksum(self.base / ".git/refs"), (self.base / ".git/config").read_bytes()), before)
        self.git("fsck", "--strict")

    def test_a_session_without_changes_leaves_nothing(self):
        done = self.world.run("--", "git", "log", "--format=%s", cwd=self.tree)
        self.assertEqual((done.stdout, self.world.sessions()), ("first\n", []), done.stderr)

    def test_from_a_subdirectory_of_it(self):
        done = self.inside("git rev-parse --show-toplevel --show-prefix", cwd=self.tree / "dir")
        self.assertEqual(done.stdout, f"{self.tree}\ndir/\n")

    def test_its_repository_does_not_keep_a_session(self):
        self.inside("echo 2 > file", cwd=self.tree)
        self.apply()
        self.assertEqual(self.world.sessions(), [])

    def test_nothing_replaces_the_file_that_leads_to_its_repository(self):
        self.inside("mkdir -p .git/hooks; echo true > .git/hooks/pre-commit; git config user.x y; echo 2 > file", cwd=self.tree)
        before = (self.tree / ".git").read_bytes()
        for path in (".git/hooks/pre-commit", ".git/config", ".git"):
            done = self.world.warren("apply", "session:s", "--yes", path, cwd=self.tree)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("leads to a repository elsewhere", done.stderr)
        self.assertEqual((self.tree / ".git").read_bytes(), before)
        self.git("status", cwd=self.tree)

    def test_a_session_is_resumed(self):
        self.inside(f"echo 2 > file; {COMMIT} two", cwd=self.tree)
        self.assertEqual(self.inside("git log --format=%s", cwd=self.tree).stdout, "two\nfirst\n")

    def test_in_a_submodule_git_works_and_commits_arrive(self):
        self.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", self.base, "sub")
        sub = self.base / "sub"
        done = self.inside(f"git status --short; echo 2 > file; {COMMIT} inside; git log --format=%s -1", cwd=sub, session="m")
        self.assertEqual(done.stdout, "inside\n")
        self.assertEqual((sub / "file").read_text(), "of the base\n")
        done = self.world.warren("apply", "session:m", cwd=sub)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.git("log", "--format=%s", "-1", "warren/m", cwd=sub), "inside")

    def split_index(self, tree):
        for words in (("config", "core.splitIndex", "true"), ("config", "splitIndex.maxPercentChange", "100"),
                      ("update-index", "--split-index")):
            self.git(*words, cwd=tree)
        folder = pathlib.Path(self.git("rev-parse", "--absolute-git-dir", cwd=tree))
        self.assertTrue(list(folder.glob("sharedindex.*")))

    def test_a_split_index_works(self):
        self.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", self.base, "sub")
        for session, tree in (("w", self.tree), ("m", self.base / "sub")):
            with self.subTest(session):
                self.split_index(tree)
                (tree / "file").write_text("of the user\n")
                done = self.inside(f"git status --short; echo 1 > new; git add new; {BOT} commit -qm new; git status --short",
                                   cwd=tree, session=session)
                self.assertEqual(done.stdout, " M file\n M file\n")
                self.world.warren("apply", f"session:{session}", cwd=tree)
                self.assertEqual(self.git("show", "--format=", "--name-only", f"warren/{session}", cwd=tree), "new")

    def test_stashes_and_logs_are_those_of_the_start(self):
        (self.tree / "file").write_text("put aside\n")
        self.git("stash", "-q", cwd=self.tree)
        self.git("checkout", "-q", "-b", "other", cwd=self.tree)
        done = self.inside("git stash list; git stash show -p | grep '^+put'; git checkout -q -; git branch --show-current",
                           cwd=self.tree)
        self.assertEqual(done.stdout, "stash@{0}: WIP on fix: " + self.git("log", "-1", "--format=%h first") +
                         "\n+put aside\nfix\n")
        self.assertNotIn("stash", done.stderr)
        self.inside("git stash pop -q; cat file", cwd=self.tree)
        self.assertIn("put aside", self.git("stash", "show", "-p", cwd=self.tree))

    def conflict(self):
        """Commits of which the older ones can be neither reverted nor picked without a conflict."""
        for text in ("2\n", "3\n"):
            (self.tree / "file").write_text(text)
            self.commit(text.strip(), cwd=self.tree)

    def begin(self, *words):
        with self.assertRaises(AssertionError):
            self.git(*words, cwd=self.tree)
        self.assertRegex(self.git("status", cwd=self.tree), "currently (reverting|rebasing)|in progress")

    def check_goes_on(self, words, end, said):
        self.conflict()
        self.begin(*words)
        done = self.inside(f"echo merged > file; git add file; GIT_EDITOR=true {BOT} {end}; git log --format=%s -1; "
                           "git status --short", cwd=self.tree)
        self.assertIn(said, done.stdout.splitlines()[-1])
        self.assertNotIn("under way", self.world.warren("apply", "session:s", "-n").stderr)

    def test_a_revert_that_is_under_way_at_the_start_goes_on(self):
        self.check_goes_on(("revert", "--no-edit", "HEAD~1"), "revert --continue", "Revert")

    def test_a_rebase_that_is_under_way_at_the_start_goes_on(self):
        self.check_goes_on(("rebase", "--onto", "HEAD~2", "HEAD~1"), "rebase --continue", "3")

    def test_a_rebase_by_patches_that_is_under_way_at_the_start_goes_on(self):
        self.check_goes_on(("rebase", "--apply", "--onto", "HEAD~2", "HEAD~1"), "rebase --continue", "3")

    def test_what_is_under_way_at_the_start_is_no_question(self):
        self.conflict()
        self.begin("revert", "--no-edit", "HEAD~1")
        self.inside("echo 1 > new", cwd=self.tree)
        self.assertIn("1 added", self.apply())
        self.assertEqual(self.world.sessions(), [])

    def test_more_than_git_keeps_there_is_an_error(self):
        own = self.base / ".git/worktrees/fix/rebase-merge"
        own.mkdir()
        with open(own / "patch", "w") as file:
            file.truncate(17 << 20)
        done = self.world.run("--session", "s", "--", "true", cwd=self.tree)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rebase-merge/patch", done.stderr)
        self.assertIn("more than the limit of 16", done.stderr)
        self.assertEqual(self.world.sessions(), [])

    def test_a_repository_elsewhere_that_does_not_name_its_work_tree_is_said_not_to_work(self):
        tree = self.world.home / "tree"
        self.git("init", "-q", "--separate-git-dir", self.world.home / "elsewhere.git", tree, cwd=self.world.home)
        done = self.world.run("--session", "e", "--", "true", cwd=tree)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("git cannot commit in this run", done.stderr)

    def test_a_file_that_leads_elsewhere_is_not_followed(self):
        secret = self.world.home / ".ssh"
        (secret / "objects").mkdir()
        (secret / "objects" / "key").write_text("secret\n")
        (secret / "HEAD").write_text("ref: refs/heads/main\n")
        (secret / "commondir").write_text(".\n")
        (self.tree / ".git").write_text(f"gitdir: {secret}\n")
        done = self.inside(f"cat {secret}/objects/key 2>&1 || echo hidden", cwd=self.tree)
        self.assertIn("hidden", done.stdout)
        self.assertNotIn("secret\n", done.stdout)


class WorktreeOfAUser(Worktree):
    uid = 1000


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
