#!/usr/bin/env python3
"""Settings, names and stashes of the user's that git meets when an agent's commits arrive.

    WARREN=path/to/warren git_host.py [-v] [Class.test_name]

Needs root.
"""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from git import COMMIT, Git

BOT = "git -c user.name=bot -c user.email=bot@example.org"
WHO = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "t"), ("EMAIL", "t@example.org"))}


class Host(Git):
    def setUp(self):
        super().setUp()
        self.write("file", "1\n")
        self.write("other", "1\n")
        self.commit("files")

    def write(self, name, text):
        (self.base / name).write_text(text)

    def warren(self, *words, status=0, **options):
        done = self.world.warren(*words, **options)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout + done.stderr

    def shell(self, command):
        return subprocess.run(["bash", "-c", command], cwd=self.base, capture_output=True, text=True, env=self.world.environment() | WHO)


class Stash(Host):
    def setUp(self):
        super().setUp()
        self.write("other", "precious\n")
        self.git("stash", "push", "-q", "-m", "precious")
        self.inside("echo agent > file")
        self.warren("apply", "session:s", "--keep")
        self.inside(f"{COMMIT} agents")
        said = self.warren("apply", "session:s")
        self.command = next(line for line in said.splitlines() if "git stash push" in line).split("   brings")[0]

    def check(self):
        self.shell(self.command)
        self.assertEqual(self.git("rev-parse", "HEAD"), self.git("rev-parse", "warren/s"))
        self.assertEqual(self.git("stash", "list", "--format=%gs"), "On main: precious")
        self.assertEqual(self.git("status", "--short"), "")

    def test_the_printed_command_drops_its_own_stash_only(self):
        self.check()

    def test_the_printed_command_drops_no_stash_if_there_is_nothing_to_stash(self):
        self.git("checkout", "-q", "--", "file")
        self.check()
        self.check()


class Settings(Host):
    def test_commits_arrive_where_git_takes_no_bare_repository_by_itself(self):
        (self.world.home / ".gitconfig").write_text("[safe]\n\tbareRepository = explicit\n")
        self.inside(f"echo 2 > file; {COMMIT} loose", session="loose")
        self.inside(f"echo 3 > file; {COMMIT} packed; git repack -qd", session="packed")
        for session in ("loose", "packed"):
            listed = self.warren("sessions")
            self.assertNotIn("commits on no branch", listed)
            self.assertNotIn("cannot be looked at", listed)
            self.assertIn(f"branch warren/{session}: 1 commit", self.apply(session))

    def test_commits_arrive_with_a_colon_in_the_name_of_the_temporary_directory(self):
        (self.world.root / "a:b").mkdir()
        self.inside(f"echo 2 > file; {COMMIT} two; echo 2 > other")
        said = self.warren("apply", "session:s", env=self.world.environment() | {"TMPDIR": str(self.world.root / "a:b")})
        self.assertIn("branch warren/s: 1 commit", said)
        self.assertEqual((self.base / "other").read_text(), "2\n")

    def test_the_remote_of_a_partial_clone_is_not_asked_for_commits_of_the_agent(self):
        asked = self.world.root / "asked"
        self.git("clone", "-q", "--bare", str(self.base), str(self.world.root / "remote"))
        for name, value in (("core.repositoryFormatVersion", "1"), ("extensions.partialClone", "origin"), ("remote.origin.promisor", "true"),
                            ("remote.origin.url", self.world.root / "remote"), ("remote.origin.uploadpack", f"touch {asked}; git-upload-pack")):
            self.git("config", name, value)
        self.inside(f"echo 2 > file; {COMMIT} two")
        self.assertIn("branch warren/s: 1 commit", self.apply())
        self.assertFalse(asked.exists())


class Names(Host):
    def test_a_name_that_ends_in_a_carriage_return(self):
        self.write("Icon\r", "1\n")
        self.commit("icon")
        self.inside(f"echo 2 > file; {COMMIT} two; printf '2\\n' > \"$(printf 'Icon\\r')\"")
        self.apply()
        self.assertEqual((self.base / "Icon\r").read_text(), "2\n")

    def test_a_branch_with_signs_of_the_shell_is_quoted_in_the_command(self):
        self.inside(f"echo 2 > file; {COMMIT} two; git checkout -q -b 'x;touch${{IFS}}pwned'; echo 3 > file; {COMMIT} three; git checkout -q main")
        command = next(line for line in self.apply().splitlines() if "--from" in line).split("   brings")[0]
        self.assertIn("--from 'x;touch${IFS}pwned' --branch NAME", command)

    def ignoring(self):
        self.write(".gitignore", "node_modules/\n")
        self.commit("rules")

    def test_a_name_that_git_takes_for_a_pattern_does_not_bring_ignored_files(self):
        self.ignoring()
        self.inside(f"echo 2 > file; {COMMIT} two; mkdir node_modules; echo 1 > node_modules/1; echo 1 > ':-)'")
        self.assertIn("stays in the session: /node_modules", self.apply())
        self.assertFalse((self.base / "node_modules").exists())
        self.assertTrue((self.base / ":-)").exists())

    def test_such_a_name_and_a_directory_in_place_of_a_link_go_to_a_branch(self):
        self.ignoring()
        (self.base / "dir").mkdir(exist_ok=True)
        os.symlink("dir", self.base / "l")
        self.commit("link")
        self.inside("mkdir node_modules; echo 1 > node_modules/1; echo 1 > ':-)'; rm l; mkdir l; echo 1 > l/f")
        self.warren("apply", "--as-branch", "b", "session:s", env=self.world.environment() | WHO)
        self.assertEqual(self.git("diff", "--name-status", "--no-renames", "main", "b").split(), ["A", ":-)", "D", "l", "A", "l/f"])


class Damaged(Host):
    def test_a_path_that_no_file_can_have_is_named(self):
        self.inside("blob=$(echo 1 | git hash-object -w --stdin); "
                    "tree=$( (git ls-tree HEAD; printf '100644 blob %s\\t..\\n' $blob) | git mktree); "
                    f"git update-ref HEAD $({BOT} commit-tree -m bad -p HEAD $tree)")
        said = self.warren("apply", "session:s", status=1)
        self.assertIn("the agent's commits are incomplete or damaged: '..' is not a valid path", said)
        self.assertIn("--no-commits applies the changes as files", said)
        self.assertEqual(self.git("branch", "--list", "warren/*"), "")


if __name__ == "__main__":
    unittest.main()
