#!/usr/bin/env python3
"""Agent files and keys of the operator, tried from inside of `warren run`: they are out of reach.

    WARREN=path/to/warren escape_keys.py [-v] [AsRoot.test_name]

Needs root. Each attempt runs as root and as an ordinary user.
"""
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import escaping
import sandboxed


class Keys(escaping.Escape):
    # The agent's own record.

    def test_the_agent_file_and_its_directory_show_nothing(self):
        self.shell("echo x > f")
        folder = self.world.session_dir("s")
        self.assertTrue((folder / "delta.db").exists())
        for path in (folder / "delta.db", folder / "socket", folder / "lock"):
            self.attempt("read", path)
        self.attempt("create", self.world.home / ".agentfs" / "new")
        for words in ("mkdir ~/.agentfs", "ln -s /tmp ~/.agentfs", "mkdir ~/x; mv ~/x ~/.agentfs", "ls ~/.agentfs"):
            self.assertNotEqual(self.shell(words).returncode, 0, words)
        listed = self.shell(f"ls -A {self.world.home}/.agentfs")
        self.assertEqual(listed.stdout, "")
        for option in ("--allow", "--read"):
            for path in (self.world.home / ".agentfs", folder):
                done = self.world.run(option, path, "--", "true")
                self.assertEqual(done.returncode, 125)
                self.assertIn("where agent files are kept", done.stderr)

    def test_the_agent_file_stays_hidden_when_the_home_is_allowed(self):
        elsewhere = self.world.root / "config"  # a home that has the operator's directory in it cannot be allowed
        self.make(elsewhere)
        listed = self.world.run("--session", "h", "--keep", "--allow", self.world.home, "--", "sh", "-c",
                                f"ls -A {self.world.home}/.agentfs; mv {self.world.home}/.agentfs {self.world.home}/x; "
                                f"echo x > {self.world.home}/.agentfs/y; rmdir {self.world.home}/.agentfs",
                                env=self.world.environment() | {"XDG_CONFIG_HOME": str(elsewhere)})
        self.assertEqual(listed.stdout, "", listed.stderr)
        self.assertTrue((self.world.session_dir("h") / "delta.db").exists())

    # Keys and settings of the operator.

    def make(self, path, content=None, mode=0o600):
        """A directory, or a file with this content, that belongs to the user."""
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.write_text(content)
            path.chmod(mode)
        if self.uid:
            os.chown(path, self.uid, self.uid)
        return path

    def refused(self, *options, says, **started):
        done = self.world.run(*options, "--", "true", **started)
        self.assertEqual(done.returncode, 125, done.stdout + done.stderr)
        self.assertIn(says, done.stderr)
        return done.stderr

    def test_a_directory_with_the_operators_keys_in_it_is_not_allowed(self):
        config = self.make(self.world.home / ".config")
        self.make(config / "app")
        self.shell("touch made")  # which makes the key of the audit trail
        for path in (config, self.world.home, self.world.root):
            says = self.refused("--allow", path, says="keys and settings of Warren that no command may see or move")
            self.assertIn(f"'{config}/warren'", says)
            self.assertIn("an --allow of its own", says)
        done = self.world.run("--discard", "--allow", config / "app", "--", "sh", "-c",
                              "echo x > ~/.config/app/made; cat ~/.config/warren/audit.key; mv ~/.config ~/c; ls ~/.config/warren")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertTrue((config / "app/made").exists(), done.stderr)
        self.assertTrue((config / "warren").is_dir())

    def test_the_key_file_of_an_agent_is_out_of_reach(self):
        home, key = self.world.home, f"{7:064}"
        project = self.make(home / "proj")
        self.make(project / "sub")
        self.make(project / "k", key + "\n")
        self.make(home / "agents")
        done = self.world.warren("init", "z", "--encrypt", "--key-file", project / "k", cwd=home / "agents")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused("--allow", project, says=f"contains '{project}/k'")
        self.refused("--allow", project / "k", says="has the key of an agent file")
        look = f"cat {project}/k; ls {project}; cp -r {project} /tmp/p; cat /tmp/p/k; true"
        for options in (["--read", project], ["--home", "all"], ["--base", project], ["--allow", project / "sub"]):
            done = self.world.run("--discard", *options, "--", "sh", "-c", look)
            self.assertEqual(done.returncode, 0, (options, done.stderr))
            self.assertNotIn(key, done.stdout + done.stderr, options)

    def test_keys_that_links_lead_to_are_out_of_reach(self):
        home = self.world.home
        config, dot = self.make(home / ".config") / "warren", self.make(home / "dot")
        self.make(home / "agents")
        self.shell("touch made")
        shutil.move(config / "audit.key", dot / "audit.key")
        os.symlink(dot / "audit.key", config / "audit.key")
        self.make(dot / "keys")
        os.symlink("../../dot/keys", config / "keys")
        done = self.world.warren("init", "z", "--encrypt", cwd=home / "agents")
        self.assertEqual(done.returncode, 0, done.stderr)
        (note,) = (dot / "keys").glob("*.json")
        self.make(home / "more")
        shutil.move(note, home / "more/note.json")
        os.symlink(home / "more/note.json", note)
        done = self.world.warren("fs", "z", "ls", cwd=home / "agents")
        self.assertEqual(done.returncode, 0, done.stderr)
        look = f"cat {home}/dot/keys/* {home}/dot/audit.key {home}/more/*; ls {home}/dot/keys; true"
        secret = (dot / "audit.key").read_text().strip()
        for options in (["--base", dot], ["--base", home / "more"], ["--home", "all"], ["--read", dot, "--read", home / "more"],
                        ["--base", home]):
            done = self.world.run("--discard", *options, "--", "sh", "-c", look)
            self.assertEqual(done.returncode, 0, (options, done.stderr))
            self.assertEqual(done.stdout, "", options)
            self.assertNotIn(secret, done.stderr)
        self.refused("--allow", dot, says="keys and settings of Warren")
        self.refused("--allow", home / "more", says=f"contains '{home}/more/note.json'")
        self.refused("--base", dot / "keys", says="keys and settings of Warren")

    def test_what_is_hidden_stays_hidden_in_an_allowed_directory_of_the_home(self):
        private = self.make(self.make(self.make(self.world.home / "proj") / "deep") / "private")
        self.make(private / "secret", "of nobody\n")
        for hidden in (private, private / "secret"):
            done = self.world.run("--discard", "--allow", self.world.home / "proj", "--hide", hidden, "--", "sh", "-c",
                                  "cat ~/proj/deep/private/secret; mv ~/proj/deep ~/proj/moved; cat ~/proj/moved/private/secret; "
                                  "mv ~/proj/deep/private ~/proj/p; cat ~/proj/p/secret; true")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual((private / "secret").read_text(), "of nobody\n")

    def test_a_home_that_two_mounts_show_has_a_project_in_it(self):
        project = self.make(self.make(self.world.home / "work") / "project")
        self.make(project / "file", "of the project\n")
        second = self.make(self.world.root / "second")
        for mounts in ([["--bind", self.world.home, second]], [["--bind", self.world.home, self.world.home]],
                       [["--bind", self.world.home / "work", second]]):
            self.world.mounts = mounts
            for options in ([], ["--home", "all"], ["--home-layer", "project"]):
                done = self.world.run("--discard", *options, "--", "cat", "file", cwd=project)
                self.assertEqual(done.stdout, "of the project\n", (mounts, options, done.stderr))
            done = self.world.run("--discard", "--", "sh", "-c", f"cat {second}/.netrc {second}/.ssh/secret; true", cwd=project)
            self.assertEqual(done.stdout, "")

    def test_the_agent_file_stays_hidden_when_the_home_is_the_base(self):
        listed = self.world.run("--session", "h", "--base", self.world.home, "--", "sh", "-c", "ls -A .agentfs/run")
        self.assertNotIn("h", listed.stdout.split())


class AsRoot(Keys, unittest.TestCase):
    pass


class AsOrdinaryUser(Keys, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
