#!/usr/bin/env python3
"""`warren run` and `warren sessions` from a user's point of view.

    WARREN=path/to/warren commands.py [-v] [AsRoot.test_name]

Needs root. What does not depend on who runs it is tried as root and as an ordinary user.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed
from sandboxed import wait_for

ROUNDS = 30 if sandboxed.mounted.FULL else 6


class Commands:
    uid = 0

    def setUp(self):
        self.world = self.enterContext(sandboxed.World(self.uid))
        self.before = sandboxed.checksum(self.world.base)

    def tearDown(self):
        self.assertEqual(sandboxed.checksum(self.world.base), self.before, "the base has changed")

    def ok(self, *args, **options):
        done = self.world.run(*args, **options)
        self.assertEqual(done.returncode, 0, f"{args}: {done.stdout}{done.stderr}")
        return done.stdout

    def fails(self, *args, status=125, says="", **options):
        done = self.world.run(*args, **options)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout}{done.stderr}")
        self.assertIn(says, done.stderr)
        return done

    # Status, environment, place.

    def test_the_exit_status_is_the_commands(self):
        for text, status in (("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143),
                             ("kill -KILL $$", 137)):
            self.assertEqual(self.world.run("--", "sh", "-c", text).returncode, status, text)
        self.fails("--", "no-such-program", status=127, says="no program 'no-such-program'")
        self.fails("--", "/etc/passwd", status=126, says="/etc/passwd")
        self.fails("--", "/", status=126)
        self.assertEqual(self.world.sessions(), [], "sessions in which nothing happened stayed")

    def test_the_environment_names_the_session_and_its_base(self):
        lines = dict(line.split("=", 1) for line in
                     self.ok("--session", "e", "--", "env", "-u", "_").splitlines() if "=" in line)
        self.assertEqual({name: lines.get(name) for name in
                          ("AGENTFS", "AGENTFS_SANDBOX", "AGENTFS_SESSION", "WARREN_SESSION", "WARREN_BASE",
                           "WARREN_SANDBOX", "TMPDIR", "HOME", "PWD")},
                         {"AGENTFS": "1", "AGENTFS_SANDBOX": "linux-namespace", "AGENTFS_SESSION": "e",
                          "WARREN_SESSION": "e", "WARREN_BASE": str(self.world.base), "WARREN_SANDBOX": "1",
                          "TMPDIR": "/tmp", "HOME": str(self.world.home), "PWD": str(self.world.base)})
        for name in ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"):
            self.assertNotIn(name, lines)

    def test_variables_are_passed_by_name_or_set(self):
        env = self.world.environment() | {"GH_TOKEN": "t0ken", "LC_ALL": "C", "CARGO_HOME": "/cargo", "OTHER": "no"}
        file = self.world.root / "variables"
        file.write_text("# of the test\nFROM_FILE='two words'\nexport GIVEN=file\n")
        out = self.ok("--env", "GH_TOKEN", "--env", "GIVEN=a=b", "--env-file", file, "--", "env", env=env).splitlines()
        for line in ("GH_TOKEN=t0ken", "GIVEN=a=b", "FROM_FILE=two words", "LC_ALL=C", "CARGO_HOME=/cargo"):
            self.assertIn(line, out)
        self.assertNotIn("OTHER=no", out)
        self.fails("--env", "NOT_SET", "--", "true", says="--env: NOT_SET is not set")
        self.fails("--env", "a-b=s3cret", "--", "true", says="--env: 'a-b' is not a valid name")
        self.fails("--env", "WARREN_SANDBOX=", "--", "true", says="set by the sandbox")
        self.fails("--env-file", "nothing", "--", "true", says="--env-file")
        file.write_text("A=1\ns3cret words\n")
        self.assertNotIn("s3cret", self.fails("--env-file", file, "--", "true", says="line 2").stderr)
        self.assertEqual(self.world.sessions(), [])

    def test_an_agent_gets_its_own_sign_in_variables(self):
        agent = self.world.root / "claude"
        agent.write_text("#!/bin/sh\nenv\n")
        agent.chmod(0o755)
        env = self.world.environment() | {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
        out = self.ok("--", agent, env=env).splitlines()
        self.assertIn("ANTHROPIC_API_KEY=k", out)
        self.assertNotIn("OPENAI_API_KEY=k", out)
        walls = self.world.run("--walls", "--", agent, env=env).stderr
        self.assertRegex(walls, "(?m)^environment: ANTHROPIC_API_KEY, HOME, ")
        self.assertRegex(walls, "(?m)^environment held back: OPENAI_API_KEY, ")

    def preferences(self, text, mode=0o600):
        file = self.world.home / ".config" / "warren" / "run.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        for path in (file, file.parent, file.parent.parent):
            os.chown(path, self.uid, self.uid)

    def test_preferences_count_for_every_run_or_for_a_project(self):
        env = self.world.environment() | {"GH_TOKEN": "t", "OTHER_TOKEN": "t"}
        self.preferences(f"""
            net = "none"
            env = ["GH_TOKEN", "NOT_SET"]
            processes = 500
            [project."{self.world.base}"]
            net = ["allowed.example", "pypi"]
            cpu-time = "100s"
            [project."{self.world.canary}"]
            memory = "1G"
            home = "all"
            home-layer = "project"
        """)
        walls = self.world.run("--walls", "--", "true", env=env).stderr
        for line in ("network: hosts by name, through a proxy", "processes: 500 ", "cpu time: 100 s", "memory: not limited"):
            self.assertIn(line, walls)
        self.assertRegex(walls, "(?m)^environment: .*GH_TOKEN")
        self.assertRegex(walls, "(?m)^environment held back: .*OTHER_TOKEN")
        walls = self.world.run("--walls", "--net", "all", "--processes", "600", "--", "true").stderr
        self.assertIn("network: all", walls)
        self.assertIn("processes: 600 ", walls)
        walls = self.world.run("--walls", "--", "true", cwd=self.world.canary).stderr
        self.assertIn("network: none", walls)
        self.assertIn("memory: 1.0 GiB", walls)
        self.ok("--", "sh", "-c", "echo 1 > ~/in-layer", cwd=self.world.canary)
        self.assertEqual(self.world.run("--", "sh", "-c", "cat ~/in-layer").returncode, 1)
        self.assertEqual(self.ok("--", "sh", "-c", "cat ~/in-layer", cwd=self.world.canary), "1\n")

    def test_bad_preferences_are_refused(self):
        for text, says in (("net = 3", "'net' must be"), ("nett = []", "'nett' is not a known key"), ("net = [", "line 1"),
                           ("memory = 'lots'", "memory"), ("[project.here]", "'project' must be"),
                           ("[project.'/x']\nfoo = 1", "'foo' is not a known key"), ("net = 'nonsense'", "neither a host"),
                           ("home = 'some'", "'home' must be"), ("home-layer = 1", "'home-layer' must be")):
            self.preferences(text)
            self.assertIn("run.toml", self.fails("--", "true", says=says).stderr)
        self.preferences("net = 'none'", mode=0o666)
        self.fails("--", "true", says="can be written by others")
        # One in the project, which the command can write, counts for nothing.
        self.preferences("")
        self.ok("--session", "p", "--", "sh", "-c", "mkdir -p .config/warren && echo 'net = 3' | tee run.toml > .config/warren/run.toml")
        self.ok("--session", "p", "--", "true")

    def test_bad_limits_are_refused(self):
        for words, status in ((("--memory", "much"), 2), (("--memory", "0"), 125), (("--processes", "0"), 125),
                              (("--processes", "-1"), 2), (("--cpu-time", "soon"), 2), (("--cpu-time", "10ms"), 125),
                              (("--disk", "0"), 125)):
            self.fails(*words, "--", "true", status=status, says=words[0])

    def test_it_starts_in_the_current_directory(self):
        self.assertEqual(self.ok("--", "pwd"), f"{self.world.base}\n")
        self.assertEqual(self.ok("--base", self.world.base, "--", "pwd", cwd="/"), f"{self.world.base}\n")

    def test_streams_are_passed_on(self):
        with open(self.world.canary / "file") as given:
            done = self.world.run("--", "sh", "-c", "cat; echo err >&2", stdin=given)
        self.assertEqual(done.stdout, "canary\n")
        self.assertIn("err\n", done.stderr)
        with open(self.world.root / "out", "w") as out:
            os.fchown(out.fileno(), self.uid, self.uid)
            self.world.run("--", "sh", "-c", "echo one > /dev/stdout; echo two >> /dev/stdout", stdout=out)
        self.assertEqual((self.world.root / "out").read_text(), "one\ntwo\n")

    def test_a_run_does_not_start_in_a_run(self):
        copy = self.world.root / "copy"  # the program itself may be in /tmp, which is private inside
        shutil.copy(sandboxed.program(), copy)
        done = self.world.run("--", copy, "run", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("already inside `warren run`", done.stderr)

    def test_a_base_that_cannot_be_one_is_refused(self):
        self.fails("--base", "/", "--", "true", says="--base: '/'")
        for path in ("/proc", "/sys", "/dev"):
            self.fails("--base", path, "--", "true", says="belongs to the system")
        self.fails("--base", "nothing", "--", "true", says="--base: 'nothing' does not exist")
        self.fails("--base", "file", "--", "true", says="is not a directory")
        self.fails("--base", self.world.home / ".agentfs", "--", "true", says="where agent files are kept")
        self.assertEqual(self.world.sessions(), [])

    def test_a_bad_session_id_is_refused(self):
        for bad in ("a/b", "..", "a b", "ü", ""):
            self.fails("--session", bad, "--", "true")

    # What is writable, readable and hidden.

    def test_writes_go_to_the_session_and_not_to_the_base(self):
        self.ok("--session", "w", "--", "sh", "-c", "echo new > made && mkdir d && echo x > d/x && ln -s made link")
        self.assertFalse((self.world.base / "made").exists())
        self.assertEqual(self.ok("--session", "w", "--", "cat", "made", "d/x"), "new\nx\n")
        done = self.world.run("--session", "w", "--", "sh", "-c", "cat file dir/inner; echo more >> file; rm -r dir; cat file; ls")
        self.assertEqual(done.stdout, "of the base\ninner\nof the base\nmore\nd\nfile\nlink\nmade\n")
        self.assertIn("session w: 4 added, 1 modified, 2 deleted", done.stderr)

    def test_allowed_paths_are_written_for_real(self):
        real = self.world.root / "real"
        real.mkdir()
        (real / "file").write_text("old\n")
        if self.uid:
            os.chown(real, self.uid, self.uid)
            os.chown(real / "file", self.uid, self.uid)
        self.ok("--allow", real, "--", "sh", "-c", f"echo new > {real}/file; echo x > {real}/made; mkdir {real}/d; "
                f"mv {real}/made {real}/d/")
        self.assertEqual((real / "file").read_text(), "new\n")
        self.assertTrue((real / "d" / "made").exists())
        self.ok("--allow", real / "file", "--", "sh", "-c", f"echo newer > {real}/file")
        self.assertEqual((real / "file").read_text(), "newer\n")
        self.fails("--allow", real / "file", "--", "sh", "-c", f"echo x > {real}/other", status=2)
        link = self.world.root / "link"
        link.symlink_to(real)
        self.ok("--allow", link, "--allow", real, "--allow", "../real", "--", "sh", "-c", f"echo twice > {link}/file")
        self.assertEqual((real / "file").read_text(), "twice\n")

    # The home.

    def put(self, name, text):
        """A file of the user."""
        path = self.world.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if self.uid:
            for each in (path, *path.parents):
                if each == self.world.home:
                    break
                os.chown(each, self.uid, self.uid)
        return path

    def test_the_home_is_a_layer_that_lasts_from_run_to_run(self):
        home = self.world.home
        self.put(".bashrc", "old\n")
        before = sandboxed.checksum(home / ".cache")
        self.ok("--", "sh", "-c", "mkdir -p ~/.cache/tool ~/.local/share/new && echo warm > ~/.cache/tool/data; "
                "echo new > ~/.bashrc; echo mine > ~/made")
        seen = self.ok("--session", "other", "--", "sh", "-c", "cat ~/.cache/tool/data ~/.bashrc ~/made; ls ~/.local/share")
        self.assertEqual(seen, "warm\nnew\nmine\nnew\n")
        self.assertEqual(sandboxed.checksum(home / ".cache"), before)
        self.assertEqual((home / ".bashrc").read_text(), "old\n")
        self.assertEqual(sorted(p.name for p in home.iterdir()), [".agentfs", ".aws", ".bashrc", ".cache", ".config", ".netrc", ".ssh"])
        self.assertEqual([p.name for p in (home / ".config").rglob("*")], ["warren", "audit.key"])
        self.assertEqual(self.world.sessions(), [], "a change of the home is not one of the session")

    def test_a_large_file_that_both_sides_change_stays_readable(self):
        path = self.put(".codex/state", "x" * 3_000_000)
        self.ok("--", "sh", "-c", "printf new | dd of=$HOME/.codex/state conv=notrunc bs=1 seek=10 2>/dev/null")
        path.write_text("y" * 3_000_001)
        self.assertEqual(self.ok("--", "sh", "-c", "head -c 14 ~/.codex/state; wc -c < ~/.codex/state"),
                         "xxxxxxxxxxnewx3000000\n")

    def test_a_project_can_have_a_layer_of_its_own(self):
        self.ok("--home-layer", "project", "--", "sh", "-c", "echo mine > ~/made")
        self.assertEqual(self.ok("--home-layer", "project", "--", "sh", "-c", "cat ~/made"), "mine\n")
        self.assertEqual(self.ok("--", "sh", "-c", "ls ~"), "")
        shown = self.world.warren("home", "diff", "--project", self.world.base)
        self.assertEqual((shown.returncode, shown.stdout), (0, "A f /made\n"), shown.stderr)
        self.fails("--home-layer", "none", "--", "true", status=2)

    def test_runs_at_once_share_the_home(self):
        process, _ = self.begin("one", "echo on; read line; cat ~/from-two; echo x > ~/from-one")
        self.assertEqual(self.ok("--session", "two", "--", "sh", "-c", "echo two > ~/from-two; cat ~/from-two"), "two\n")
        out, _ = process.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(out, "two\n")
        self.assertEqual(self.ok("--", "sh", "-c", "cat ~/from-one ~/from-two"), "x\ntwo\n")

    def test_only_tools_and_settings_of_the_home_are_shown(self):
        home = self.world.home
        for name in (".gitconfig", ".bashrc", ".cargo/config.toml", ".cargo/credentials.toml", ".nvm/nvm.sh", "notes.txt",
                     "Documents/letter", ".npmrc", ".config/git/ignore", ".config/app/token", ".local/bin/tool",
                     ".local/share/app/data", "dotfiles/vimrc", "dotfiles/secret"):
            self.put(name, f"{name}\n")
        (home / ".vimrc").symlink_to("dotfiles/vimrc")
        listed = self.ok("--", "sh", "-c", "cd ~ && find . -type f -o -type l | sort; cat .vimrc")
        self.assertEqual(listed.split(), ["./.bashrc", "./.cargo/config.toml", "./.config/git/ignore", "./.gitconfig",
                                          "./.local/bin/tool", "./.nvm/nvm.sh", "./.vimrc", "./dotfiles/vimrc",
                                          "dotfiles/vimrc"])
        self.assertEqual(self.ok("--home", "tools", "--read", home / "notes.txt", "--", "sh", "-c", "cat ~/notes.txt"),
                         "notes.txt\n")
        both = self.ok("--home", "all", "--", "sh", "-c", "cd ~; cat notes.txt Documents/letter .config/app/token; "
                       "cat .npmrc .cargo/credentials.toml .ssh/secret .netrc 2>/dev/null; true")
        self.assertEqual(both, "notes.txt\nDocuments/letter\n.config/app/token\n")
        self.fails("--home", "some", "--", "true", status=2)

    def test_the_start_says_what_is_hidden_of_the_home(self):
        self.put("notes.txt", "x\n")
        done = self.world.run("--walls", "--", "true")
        self.assertIn("of your home directory are hidden: --read PATH shows one, --home all shows all but secrets\n",
                      done.stderr)
        self.assertIn(f"copy-on-write: {self.world.home}, in {self.world.home}/.agentfs/home/shared.db\n", done.stderr)
        self.assertIn(f"written through: {self.world.home}/.claude/.credentials.json\n", done.stderr)
        done = self.world.run("--no-default-allows", "--walls", "--", "true")
        self.assertNotIn("written through", done.stderr)
        done = self.world.run("--", "true")
        self.assertNotIn("hidden", done.stderr, "a script is not disturbed")

    def test_sign_ins_of_agents_are_written_through_and_nothing_else(self):
        home = self.world.home
        sign_in = self.put(".claude/.credentials.json", "old\n")
        self.put(".claude/settings.json", "{}\n")
        os.chmod(sign_in, 0o600)
        self.ok("--", "sh", "-c", "cat ~/.claude/.credentials.json; echo new > ~/.claude/fresh && "
                "mv ~/.claude/fresh ~/.claude/.credentials.json; echo hooks > ~/.claude/settings.json; "
                "mkdir -p ~/.codex; echo first > ~/.codex/auth.json; echo command > ~/.codex/config.toml")
        self.assertEqual(sign_in.read_text(), "new\n")
        self.assertEqual(stat.S_IMODE(sign_in.stat().st_mode), 0o600)
        self.assertEqual((home / ".codex" / "auth.json").read_text(), "first\n")
        self.assertEqual([p.name for p in (home / ".codex").iterdir()], ["auth.json"])
        self.assertEqual((home / ".claude" / "settings.json").read_text(), "{}\n")
        # Signing in again outside counts inside.
        sign_in.write_text("newer\n")
        self.assertEqual(self.ok("--", "sh", "-c", "cat ~/.claude/.credentials.json ~/.claude/settings.json"),
                         "newer\nhooks\n")
        self.ok("--", "sh", "-c", "rm ~/.claude/.credentials.json")
        self.assertEqual(sign_in.read_text(), "newer\n", "a sign-out stays inside")
        self.assertEqual(self.ok("--", "sh", "-c", "cat ~/.claude/.credentials.json"), "newer\n")
        for walls in (["--no-default-allows"], ["--hide", home / ".claude"]):
            self.ok(*walls, "--", "sh", "-c", "mkdir -p ~/.claude; echo no > ~/.claude/.credentials.json; sleep 1.5")
            self.assertEqual(sign_in.read_text(), "newer\n")
            self.ok("--", "sleep", "2.5")
            self.assertEqual(sign_in.read_text(), "newer\n", "a later run has written what an earlier one must not")
        self.ok("--", "sh", "-c", "head -c 2000000 /dev/zero > ~/.claude/.credentials.json; sleep 2.5; "
                ": > ~/.claude/.credentials.json")
        self.assertEqual(sign_in.read_text(), "newer\n")

    def test_a_sign_in_is_written_while_the_run_goes_on(self):
        process, _ = self.begin("s", "mkdir -p ~/.codex; echo fresh > ~/.codex/auth.json; echo on; read line")
        path = self.world.home / ".codex" / "auth.json"
        sandboxed.wait_for(lambda: path.exists() and path.read_text() == "fresh\n", "the sign-in is not written")
        process.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)

    def test_a_sign_in_that_is_a_link_is_written_to_its_file_or_said_not_to_be(self):
        home = self.world.home
        for path in (".codex", ".gemini", ".qwen"):
            self.put(f"{path}/other", "x\n")
        kept = self.put("dotfiles/codex/auth.json", "old\n")
        os.chmod(kept, 0o600)
        (home / ".codex/auth.json").symlink_to("../dotfiles/codex/auth.json")
        self.put("dotfiles/claude/.credentials.json", "old\n")
        (home / ".claude").symlink_to("dotfiles/claude")
        mine = self.put(".bashrc", "mine\n")
        (home / ".gemini/oauth_creds.json").symlink_to("../.bashrc")
        far = self.world.canary / "oauth_creds.json"
        far.write_text("far\n")
        os.chown(far, self.world.uid, self.world.uid)
        (home / ".qwen/oauth_creds.json").symlink_to(far)
        done = self.world.run("--walls", "--", "true")
        for line in (f"written through: {home}/.codex/auth.json, to {kept}", f"written through: {kept}",
                     f"not written through: {home}/.gemini/oauth_creds.json: it is a link to another name, '{mine}'",
                     f"not written through: {home}/.qwen/oauth_creds.json: it is a link to '{far}', outside your home directory"):
            self.assertIn(f"{line}\n", done.stderr)
        # Written through the link, and in its place.
        out = self.ok("--", "sh", "-c", "cat ~/.codex/auth.json; echo new > ~/.codex/auth.json; cat ~/.claude/.credentials.json; "
                      "echo new > ~/.claude/fresh; mv ~/.claude/fresh ~/.claude/.credentials.json; ls -A ~/dotfiles")
        self.assertEqual(out, "old\nold\nclaude\ncodex\n")
        self.assertEqual((kept.read_text(), (home / ".claude/.credentials.json").read_text()), ("new\n", "new\n"))
        self.ok("--", "sh", "-c", "echo newer > ~/.codex/fresh; mv ~/.codex/fresh ~/.codex/auth.json; "
                "for f in .gemini .qwen; do echo evil > ~/x; mv ~/x ~/$f/oauth_creds.json; done")
        self.assertEqual(kept.read_text(), "newer\n")
        self.assertEqual(stat.S_IMODE(kept.stat().st_mode), 0o600)
        self.assertEqual((mine.read_text(), far.read_text()), ("mine\n", "far\n"))
        self.assertTrue((home / ".codex/auth.json").is_symlink() and (home / ".claude").is_symlink())
        # Afterwards the link shows again inside.
        self.assertEqual(self.ok("--", "sh", "-c", "readlink ~/.codex/auth.json; cat ~/.codex/auth.json"),
                         "../dotfiles/codex/auth.json\nnewer\n")

    def test_the_layer_of_the_home_is_shown_applied_and_reset(self):
        home, warren = self.world.home, self.world.warren
        done = warren("home", "show")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no run has used this layer yet", done.stderr)
        self.put(".inputrc", "[a]\n")
        self.put(".pgpass", "secret\n")
        self.ok("--", "sh", "-c", "echo '[b]' > ~/.inputrc; echo mine > ~/.pgpass; echo x > ~/made; echo y > ~/other")
        self.assertEqual(warren("home", "diff").stdout, "M f /.inputrc\nM f /.pgpass\nA f /made\nA f /other\n")
        self.assertIn("+[b]", warren("home", "diff", "-p", "/.inputrc").stdout)
        self.assertIn("changes: 2 added, 2 modified", warren("home", "show").stdout)
        done = warren("home", "apply", "/made")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing was written: 1 change in your home directory", done.stderr)
        done = warren("home", "apply", "/", "--yes")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/.pgpass' is or contains something that is hidden from runs", done.stderr)
        self.assertEqual((home / ".pgpass").read_text(), "secret\n")
        self.assertEqual(warren("home", "apply").returncode, 2, "what to apply must be named")
        done = warren("home", "apply", "/made", "--dry-run")
        self.assertIn("apply will ask, or needs --yes: 1 change in your home directory, where shells", done.stdout)
        for is_again in (False, True):
            done = warren("home", "apply", "/.inputrc", "/made", "--yes")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("\n  warren home undo   restores what was replaced\n", done.stdout)
            self.assertEqual(((home / ".inputrc").read_text(), (home / "made").read_text()), ("[b]\n", "x\n"))
            if not is_again:
                self.assertIn("shared.db", warren("home", "undo", "--list").stdout)
                done = warren("home", "undo")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(((home / ".inputrc").read_text(), (home / "made").exists()), ("[a]\n", False))
                # The change was applied, so it is no longer the layer's: a run makes it again.
                self.ok("--", "sh", "-c", "echo '[b]' > ~/.inputrc; echo x > ~/made")
        self.assertEqual(warren("home", "diff").stdout, "M f /.pgpass\nA f /other\n")
        self.put(".config/app/token", "secret\n")
        self.put(".config/git/ignore", "x\n")
        for words in ("rm -rf ~/.config", "mv ~/.config ~/moved"):
            self.ok("--home-layer", "project", "--", "sh", "-c", words)
            done = warren("home", "apply", "/", "--yes", "--project", self.world.base)
            self.assertEqual(done.returncode, 1)
            self.assertIn("hidden from runs", done.stderr)
            self.assertEqual((home / ".config/app/token").read_text(), "secret\n")
            self.assertEqual(warren("home", "reset", "--yes", "--project", self.world.base).returncode, 0)
        self.assertEqual(warren("home", "reset", "/other", "--yes").returncode, 0)
        self.assertEqual(warren("home", "diff").stdout, "M f /.pgpass\n")
        process, _ = self.begin("s", "echo on; read line")
        done = warren("home", "reset", "--yes")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a run is using the layer", done.stderr)
        process.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        done = warren("home", "reset")
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs --yes", done.stderr)
        self.assertEqual(warren("home", "reset", "--yes").returncode, 0)
        self.assertEqual(self.ok("--", "sh", "-c", "ls -A ~"), ".cache\n.config\n.inputrc\n")

    def test_a_project_in_the_home_is_found_whatever_runs_did_to_the_home(self):
        home = self.world.home
        self.put("work/deep/project/file", "of the project\n")
        self.put("work/secret", "secret\n")
        project = home / "work" / "deep" / "project"
        self.assertEqual(self.ok("--session", "p", "--", "sh", "-c", "cat file; echo new > file; ls ~/work ~/work/deep; "
                                 "cat ~/work/secret 2>/dev/null; true", cwd=project),
                         f"of the project\n{home}/work:\ndeep\n\n{home}/work/deep:\nproject\n")
        self.assertEqual((project / "file").read_text(), "of the project\n")
        self.ok("--", "sh", "-c", "rm -rf ~/work; ln -s /usr ~/work")
        self.assertEqual(self.ok("--session", "p", "--", "cat", project / "file", cwd=project), "new\n")
        self.ok("--allow", home / ".cache", "--", "sh", "-c", "echo real > ~/.cache/made")
        self.assertEqual((home / ".cache" / "made").read_text(), "real\n")

    def test_the_home_itself_can_be_hidden_or_the_base(self):
        home = self.world.home
        self.put("notes", "notes\n")
        self.fails("--allow", home, "--", "true", says="keys and settings of Warren that no command may see or move")
        self.assertEqual(self.ok("--hide", home, "--", "sh", "-c", "ls -A ~ 2>/dev/null; true"), "")
        self.assertEqual(self.ok("--session", "h", "--base", home, "--", "sh", "-c", "cat notes; echo x > new", cwd=home),
                         "notes\n")
        self.assertEqual(self.world.warren("diff", "h").stdout, "A f /new\n")
        self.assertEqual(self.ok("--read", home, "--", "sh", "-c", "cat ~/notes; cat ~/.netrc 2>/dev/null; true"), "notes\n")

    def test_tools_work_in_the_layer(self):
        self.put(".gitconfig", "[user]\n\tname = a\n\temail = a@b\n[include]\n\tpath = ~/hidden.inc\n"
                 "[includeIf \"gitdir:/\"]\n\tpath = ~/private/git.inc\n")
        self.put("hidden.inc", "[alias]\n\tx = status\n")
        self.put("private/git.inc", "[alias]\n\ty = status\n")
        self.put(".bashrc", "export FROM_RC=yes\n. ~/.secret-rc 2>/dev/null\n")
        self.put(".secret-rc", "export SECRET=1\n")
        self.ok("--session", "t", "--", "sh", "-c", "git init -q . 2>&1 && git add file && git commit -qm one && "
                "git config --global core.pager cat && git log --format=%an")
        self.assertEqual(self.ok("--", "bash", "-ic", "echo $FROM_RC$SECRET", stdin=subprocess.DEVNULL), "yes\n")
        self.ok("--", sandboxed.PYTHON, "-c", "import sqlite3, os; d = sqlite3.connect(os.path.expanduser('~/state.db')); "
                "d.execute('pragma journal_mode=wal'); d.execute('create table t(x)'); d.commit()")
        self.ok("--", "sh", "-c", "mkdir -p ~/.local/bin && printf '#!/bin/sh\necho ran\n' > ~/.local/bin/tool && "
                "chmod +x ~/.local/bin/tool && ~/.local/bin/tool")

    def test_hidden_paths_can_be_read_when_asked_for(self):
        home = self.world.home
        self.fails("--", "cat", home / ".ssh" / "secret", status=1)
        self.assertEqual(self.ok("--read", home / ".ssh", "--", "cat", home / ".ssh" / "secret"), "secret\n")
        self.assertEqual(self.ok("--read", home / ".netrc", "--", "cat", home / ".netrc"), "secret\n")
        (home / ".ssh" / "other").write_text("other\n")
        listed = self.ok("--read", home / ".ssh" / "secret", "--", "sh", "-c",
                         f"ls {home}/.ssh; cat {home}/.ssh/secret; cat {home}/.ssh/other 2>/dev/null; true")
        self.assertEqual(listed, "secret\nsecret\n")
        self.ok("--home-layer", "project", "--read", home / ".ssh", "--", "sh", "-c", f"echo x > {home}/.ssh/secret")
        self.assertEqual((home / ".ssh" / "secret").read_text(), "secret\n")
        self.ok("--allow", home / ".aws", "--", "sh", "-c", f"echo new > {home}/.aws/secret")
        self.assertEqual((home / ".aws" / "secret").read_text(), "new\n")

    def test_paths_are_hidden_when_asked_for(self):
        canary = self.world.canary
        self.assertEqual(self.ok("--", "cat", canary / "file"), "canary\n")
        self.fails("--hide", canary, "--", "cat", canary / "file", status=1)
        self.assertEqual(self.ok("--hide", canary / "file", "--", "sh", "-c", f"cat {canary}/file 2>/dev/null; true"), "")
        both = self.ok("--hide", self.world.root, "--", "sh", "-c", f"ls {self.world.root}; pwd")
        self.assertIn(str(self.world.base), both)
        self.assertNotIn("canary", both)

    def test_invalid_options_are_refused(self):
        base, canary = self.world.base, self.world.canary
        for option in ("--allow", "--read", "--hide"):
            self.fails(option, "/nothing/here", "--", "true", says=f"{option}: '/nothing/here' does not exist")
            self.fails(option, "/", "--", "true", says=f"{option}: '/'")
            self.fails(option, "/proc/self", "--", "true", says=option)
        self.fails("--allow", base, "--", "true", says="is the base")
        self.fails("--hide", base, "--", "true", says="is the base")
        self.fails("--hide", canary, "--allow", canary, "--", "true", says="--hide name the same path")
        self.fails("--keep", "--discard", "--", "true", status=2)

    def test_paths_inside_the_base_can_be_opened_and_hidden(self):
        base = self.world.base
        self.ok("--session", "a", "--allow", base / "dir", "--", "sh", "-c", "echo real > dir/made; echo mine > file")
        self.assertEqual((base / "dir" / "made").read_text(), "real\n")
        self.assertEqual(self.world.warren("diff", "a").stdout, "M f /file\n")
        (base / "dir" / "made").unlink()
        self.assertEqual(sandboxed.checksum(base), self.before)
        listed = self.ok("--session", "h", "--hide", base / "dir", "--", "sh", "-c",
                         "ls; cat dir/inner 2>/dev/null; mkdir dir 2>/dev/null; echo x > dir/new 2>/dev/null; rm -rf dir; true")
        self.assertEqual(listed, "file\n")
        self.assertEqual(self.world.warren("diff", "h").stdout, "")
        (base / "dir" / "other").write_text("other\n")
        self.before = sandboxed.checksum(base)
        listed = self.ok("--hide", base / "dir", "--read", base / "dir" / "inner", "--", "sh", "-c",
                         "ls dir; cat dir/inner; cat dir/other 2>/dev/null; true")
        self.assertEqual(listed, "inner\ninner\n")

    def test_only_what_is_opened_in_a_hidden_directory_shows(self):
        canary = self.world.canary
        for name in ("allowed", "readable"):
            (canary / name).mkdir()
            (canary / name / "f").write_text(f"{name}\n")
            os.chown(canary / name, self.uid, self.uid)
        seen = self.ok("--hide", canary, "--allow", canary / "allowed", "--read", canary / "readable", "--", "sh", "-c",
                       f"cd {canary}; ls; cat */f; echo x > allowed/new; echo x > readable/new 2>/dev/null; "
                       "echo x > new 2>/dev/null; cat file 2>/dev/null; true")
        self.assertEqual(seen, "allowed\nreadable\nallowed\nreadable\n")
        self.assertEqual(sorted(os.listdir(canary)), ["allowed", "file", "readable"])
        self.assertTrue((canary / "allowed" / "new").exists())
        self.assertFalse((canary / "readable" / "new").exists())

    def test_tmp_is_private_and_so_is_a_base_in_it(self):
        with open(f"/tmp/warren-run-test-{os.getpid()}", "w"):
            pass
        try:
            self.assertEqual(self.ok("--", "sh", "-c", "ls -A /tmp /var/tmp /dev/shm"),
                             "/dev/shm:\n\n/tmp:\n\n/var/tmp:\n")
            self.ok("--", "sh", "-c", "echo x > /tmp/f && cp /tmp/f /var/tmp/f && cp /tmp/f /dev/shm/f && mkdir /run/x")
        finally:
            os.unlink(f"/tmp/warren-run-test-{os.getpid()}")

    def test_restrictions_hold_for_later_runs_of_the_session_until_they_are_lifted(self):
        (self.world.base / "dir" / "secret").write_text("treasure\n")
        self.before = sandboxed.checksum(self.world.base)
        own = "readlink /proc/self/ns/net"
        self.ok("--session", "s", "--keep", "--no-network", "--hide", "dir/secret", "--", "true")
        hosts = os.readlink("/proc/self/ns/net") + "\n"
        later = self.world.run("--session", "s", "--", "sh", "-c", own)
        self.assertNotEqual(later.stdout, hosts)
        self.assertIn("as in earlier runs of session 's': network none (--net all lifts it)", later.stderr)
        self.fails("--session", "s", "--", "cat", "dir/secret", status=1)
        other, _ = self.begin("s", "echo on; read line")
        self.fails("--session", "s", "--", "cat", "dir/secret", status=1)
        other.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        lifted = self.world.run("--session", "s", "--net", "all", "--read", "dir/secret", "--", "sh", "-c", f"{own}; cat dir/secret")
        self.assertEqual(lifted.stdout, hosts + "treasure\n")
        again = self.world.run("--session", "s", "--", "sh", "-c", f"{own}; cat dir/secret")
        self.assertEqual(again.stdout, hosts + "treasure\n")
        self.assertNotIn("earlier runs", again.stderr)
        self.assertEqual(self.world.warren("sessions", "delete", "s", "--yes").returncode, 0)
        self.assertEqual(self.world.sessions(), [])

    def test_another_key_for_an_encrypted_session_is_refused(self):
        for name in ("one", "two"):
            path = self.world.home / name
            path.write_text("k" * 40 + name)
            path.chmod(0o600)
            if self.uid:
                os.chown(path, self.uid, self.uid)
        one, two = ("--encrypt", "--key-file", self.world.home / "one"), ("--encrypt", "--key-file", self.world.home / "two")
        self.ok("--session", "s", "--keep", *one, "--", "true")
        self.ok("--session", "s", *one, "--", "true")
        self.fails("--session", "s", *two, "--", "true", says="is encrypted with the key of")

    def test_an_agent_with_the_id_of_a_session_is_refused(self):
        self.ok("--session", "s", "--keep", "--", "true")
        done = self.world.warren("init", "s", cwd=self.world.home)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is a session 's'", done.stderr)

    def test_without_network_there_is_only_loopback(self):
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            port = server.getsockname()[1]
            reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
            self.ok("--", sandboxed.PYTHON, "-c", reach)
            self.fails("--no-network", "--", sandboxed.PYTHON, "-c", reach, status=1, says="refused")
        own = ("import socket; s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(); "
               "socket.create_connection(s.getsockname(), 2); print(sorted(n for _, n in socket.if_nameindex()))")
        self.assertIn("'lo'", self.ok("--no-network", "--", sandboxed.PYTHON, "-c", own))
        for option, last in ((("--no-network",), "ipc, network\n"), ((), "ipc\n")):
            self.assertIn(f"namespaces: user, mount, pid, {last}", self.world.run(*option, "--walls", "--", "true").stderr)

    # Sessions.

    def test_a_session_is_kept_if_something_changed(self):
        self.ok("--", "true")
        self.assertEqual(self.world.sessions(), [])
        done = self.world.run("--", "sh", "-c", "echo x > f")
        (session,) = self.world.sessions()
        self.assertIn(f"session {session}: 1 added, 0 modified, 0 deleted (2 B)", done.stderr)
        for line in ("diff session:", "apply session:", "discard session:", "run --session "):
            self.assertIn(f"warren {line}{session}", done.stderr)
        self.ok("--keep", "--session", "kept", "--", "true")
        self.ok("--discard", "--session", "thrown", "--", "sh", "-c", "echo x > f")
        self.assertEqual(sorted(self.world.sessions()), sorted([session, "kept"]))

    def test_an_ended_session_is_one_file(self):
        self.ok("--session", "s", "--", "sh", "-c", "for i in 1 2 3 4 5; do echo $i > f$i; done")
        self.assertEqual(sorted(os.listdir(self.world.session_dir("s"))), ["base_path", "delta.db", "lock"])
        self.assertEqual(os.stat(self.world.session_dir("s")).st_mode & 0o777, 0o700)
        self.assertEqual((self.world.session_dir("s") / "base_path").read_text(), str(self.world.base))
        self.assertEqual(self.world.processes(), [])

    def test_a_session_is_resumed_on_its_own_base(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo one > f")
        script = ("--session", "s", "--", "sh", "-c", "pwd")
        self.assertEqual(self.ok(*script, cwd=self.world.base / "dir").splitlines()[0], str(self.world.base / "dir"))
        named = ("--base", self.world.base, "--session", "s", "--", "sh", "-c", "pwd; cat f")
        self.assertEqual(self.ok(*named, cwd="/"), f"{self.world.base}\none\n")
        self.fails("--session", "s", "--base", self.world.canary, "--", "true", says="the base of session 's' is")

    def test_a_session_of_another_project_is_refused(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo one > f")
        other = self.world.root / "other"
        other.mkdir()
        says = f"the base of session 's' is '{self.world.base}', but this command was started in '{other}'"
        self.fails("--session", "s", "--", "sh", "-c", "echo two > f", cwd=other, says=says)
        self.assertEqual(self.ok("--session", "s", "--", "cat", "f"), "one\n")
        running = self.world.start("run", "--session", "s", "--", "sh", "-c", "echo up; read line", stdin=subprocess.PIPE, text=True)
        self.assertEqual(running.stdout.readline().strip(), "up")
        self.fails("--session", "s", "--", "true", cwd=other, says=says)  # nor may it join
        running.communicate("\n", timeout=60)

    def test_every_command_finds_a_session_by_its_id(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo one > made")
        self.assertEqual(self.world.warren("fs", "s", "cat", "/made").stdout, "one\n")
        self.assertEqual(self.world.warren("fsck", "s").returncode, 0)

    def test_changes_are_shown_applied_and_discarded(self):
        world = self.world
        self.ok("--session", "s", "--", "sh", "-c", "echo new > made; echo more >> file; rm -r dir; mv made renamed")
        self.assertEqual(world.warren("diff", "s", cwd="/").stdout,
                         "D d /dir\nD f /dir/inner\nM f /file\nA f /renamed\n")
        done = world.warren("apply", "s", "/file", cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((world.base / "file").read_text(), "of the base\nmore\n")
        self.assertTrue((world.base / "dir").exists())
        self.assertFalse((world.base / "renamed").exists())
        self.before = sandboxed.checksum(world.base)
        self.assertEqual(world.warren("discard", "s").returncode, 1)  # not a terminal, so it cannot ask
        self.assertEqual(world.warren("diff", "s").stdout, "D d /dir\nD f /dir/inner\nA f /renamed\n")
        self.assertEqual(world.warren("discard", "s", "--yes", "/dir").returncode, 0)
        self.assertEqual(world.inside("s", "sh", "-c", "ls; cat dir/inner"), "dir\nfile\nrenamed\ninner\n")
        self.assertEqual(world.warren("discard", "s", "--yes", "--keep").returncode, 0)
        self.assertEqual(world.warren("diff", "s").stdout, "")

    def test_a_session_with_nothing_left_in_it_disappears(self):
        world = self.world
        for command in (("apply", "s"), ("discard", "s", "--yes")):
            self.ok("--session", "s", "--", "sh", "-c", f"echo more >> file; mkdir {command[0]}")
            done = world.warren(*command, f"/{command[0]}")
            self.assertEqual((done.returncode, world.sessions()), (0, ["s"]), done.stderr)
            done = world.warren(*command)
            self.assertIn("session 's' is deleted: nothing is left in it", done.stderr)
            self.assertEqual(world.sessions(), [])
        self.before = sandboxed.checksum(world.base)
        self.assertEqual(world.warren("undo", "s").returncode, 0, "what the apply replaced is kept all the same")
        self.assertEqual((world.base / "file").read_text(), "of the base\n")
        self.before = sandboxed.checksum(world.base)

    def test_a_session_with_more_than_changes_stays(self):
        world = self.world
        for what in (["kv", "s", "set", "key", "1"], ["vfs", "s", "write", "/mem/semantic/x", "kept"],
                     ["vfs", "s", "write", "/state/x", "kept"], ["checkpoint", "s", "take", "good"],
                     ["tools", "s", "record", "search", "--result", "[]", "--started", "1767225600", "--completed", "1767225602"],
                     ["audit", "s", "on"]):
            self.ok("--session", "s", "--", "sh", "-c", "echo x > made")
            self.assertEqual(world.warren(*what).returncode, 0, what)
            self.assertEqual(world.warren("discard", "s", "--yes").returncode, 0)
            self.assertEqual(world.sessions(), ["s"], what)
            self.assertEqual(world.warren("sessions", "prune", "--empty", "-n").stdout, "nothing to delete\n", what)
            self.assertEqual(world.warren("sessions", "delete", "s", "--yes").returncode, 0)

    def checkpoints(self):
        return [one["name"] for one in json.loads(self.world.warren("checkpoint", "s", "list", "--json").stdout)]

    def test_checkpoints_are_taken_at_intervals_and_a_run_goes_on_from_one(self):
        process, _ = self.begin("s", "echo one > f; echo up; read line", "--checkpoint", "every=1s")
        wait_for(lambda: self.world.warren("fs", "s", "cat", "/f@interval").stdout == "one\n", "the checkpoint")

        def is_at_rest():  # nothing has changed since
            before = self.checkpoints()
            time.sleep(3)
            return self.checkpoints() == before
        wait_for(is_at_rest, "the last of the checkpoints")
        process.communicate("\n", timeout=sandboxed.PATIENCE_SECONDS)
        taken = self.checkpoints()
        self.assertEqual(set(taken), {"interval"})
        self.ok("--session", "s", "--", "sh", "-c", "echo two > f; echo more > g; rm file; echo x > $WARREN_NAMESPACE/state/x")
        self.assertEqual(self.ok("--session", "s", "--at", "interval", "--", "sh", "-c", "cat f; ls; cat file"),
                         "one\ndir\nf\nfile\nof the base\n")
        self.assertEqual(self.checkpoints()[len(taken):], [f"before-restore-of-{len(taken)}"])

    def test_checkpoints_of_a_run_cover_its_working_memory_and_what_is_mounted(self):
        notes = f"/mem/notes=sqlite:{self.world.home}/notes.db"
        script = ("cd $WARREN_NAMESPACE/mem; echo one > working/plan; echo one > notes/day; echo up; read line; "
                  "echo two > working/plan; echo two > notes/day; echo done; read line")
        process, _ = self.begin("s", script, "--checkpoint", "every=1s", "--mount", notes)

        def listed():
            return json.loads(self.world.warren("checkpoint", "s", "list", "--json").stdout)

        def stored(one):
            shown = self.world.warren("checkpoint", "s", "show", str(one["id"]), "--json").stdout
            return json.loads(shown)["stored"]["mounted_values"]

        os.kill(self.world.server("s"), signal.SIGUSR1)
        [first, *_] = wait_for(lambda: [one["id"] for one in listed() if one["name"] == "signal"], "the checkpoint")
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")
        # Nothing has changed but working memory and what is mounted.
        later = wait_for(lambda: [one["id"] for one in listed() if one["id"] > first and stored(one) > 0], "another")
        process.communicate("\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertIn("M m /mem/working/plan\n", self.world.warren("checkpoint", "s", "diff", str(first), str(later[0])).stdout)
        done = self.world.warren("checkpoint", "s", "restore", str(first), "/mem/notes/day", "--mount", notes)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.world.warren("vfs", "s", "read", "/mem/notes/day", "--mount", notes).stdout, "one\n")

    def test_a_signal_to_the_server_takes_a_checkpoint(self):
        process, _ = self.begin("s", "echo one > f; echo up; read line; echo two > f; echo done; read line")
        os.kill(self.world.server("s"), signal.SIGUSR1)
        wait_for(lambda: self.checkpoints() == ["signal"], "the checkpoint")
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")
        process.communicate("\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(self.world.warren("fs", "s", "cat", "/f@signal").stdout, "one\n")
        self.assertEqual(self.world.warren("fs", "s", "cat", "/f").stdout, "two\n")

    def test_a_signal_to_the_run_takes_a_checkpoint_and_the_command_goes_on(self):
        process, _ = self.begin("s", "trap 'echo got it' USR1; echo one > f; echo up; read line; echo two > f; echo done")
        wait_for(lambda: self.warren_of(process), "the program")
        os.kill(self.warren_of(process), signal.SIGUSR1)
        wait_for(lambda: self.checkpoints() == ["signal"], "the checkpoint")
        out, err = process.communicate("\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual((process.returncode, out), (0, "done\n"), err)
        self.assertEqual(self.world.warren("fs", "s", "cat", "/f@signal").stdout, "one\n")
        self.assertEqual(self.world.warren("fs", "s", "cat", "/f").stdout, "two\n")

    def test_a_checkpoint_after_each_tool_call(self):
        process, _ = self.begin("s", "echo one > f; echo up; read line", "--checkpoint", "each-tool-call")

        def record(*args):
            done = self.world.warren("tools", "s", *args)
            self.assertEqual(done.returncode, 0, done.stderr)
        record("start", "search")
        record("succeed", "1", "--result", "[]")
        wait_for(lambda: self.checkpoints() == ["tool-call"], "the checkpoint")
        record("record", "search", "--result", "[]", "--started", "1767225600", "--completed", "1767225602")
        wait_for(lambda: self.checkpoints() == ["tool-call", "tool-call"], "the second checkpoint")
        process.communicate("\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(self.world.warren("fs", "s", "cat", "/f@tool-call").stdout, "one\n")

    def test_a_checkpoint_that_cannot_be_gone_to_is_refused(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo one > f")
        self.fails("--session", "s", "--at", "nope", "--", "true", says="there is no checkpoint 'nope'")
        self.fails("--session", "new", "--at", "nope", "--", "true", says="does not exist")
        self.fails("--at", "nope", "--", "true", status=2, says="--at needs --session")
        self.fails("--checkpoint", "5m", "--", "true", status=2, says="it is neither every=TIME nor each-tool-call")
        self.fails("--checkpoint", "every=1ms", "--", "true", status=2, says="the shortest time is 1s")
        self.world.warren("checkpoint", "s", "take", "c")
        running = self.world.start("run", "--session", "s", "--", "sh", "-c", "echo up; read line", stdin=subprocess.PIPE, text=True)
        self.assertEqual(running.stdout.readline().strip(), "up")
        self.fails("--session", "s", "--at", "c", "--", "true", says="session 's' is running")
        # But it can be restored from outside while it runs.
        self.assertEqual(self.world.warren("checkpoint", "s", "restore", "c").returncode, 0)
        running.communicate("\n", timeout=60)
        self.assertEqual(self.world.sessions(), ["s"])

    def test_discarding_a_resumed_session_deletes_all_of_it(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo one > one")
        listed = json.loads(self.world.warren("sessions", "--json").stdout)
        file = self.world.session_dir("s") / "delta.db"
        self.assertEqual([(s["id"], s["size_bytes"]) for s in listed], [("s", file.stat().st_size)])
        process, _ = self.begin("s", "echo on; read line")
        done = self.world.run("--session", "s", "--discard", "--", "true")
        process.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(self.world.inside("s", "cat", "one"), "one\n", done.stderr)
        self.ok("--session", "s", "--discard", "--", "cat", "one")
        self.assertEqual(self.world.sessions(), [])

    def test_a_base_on_a_read_only_disk(self):
        world = self.world
        world.mounts = [["--bind", world.base, world.base], ["-o", "remount,bind,ro", world.base]]
        self.ok("--session", "s", "--", "sh", "-c", "echo more >> file; echo x > made; rm -r dir")
        self.assertEqual(self.ok("--session", "s", "--", "cat", "file", "made"), "of the base\nmore\nx\n")
        done = world.warren("apply", "s")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ead-only", done.stderr)
        changes = world.warren("diff", "s").stdout
        self.assertEqual(changes, "D d /dir\nD f /dir/inner\nM f /file\nA f /made\n")
        self.assertEqual(sandboxed.checksum(world.base), self.before)
        world.mounts = []
        self.assertEqual(world.warren("apply", "s").returncode, 0)
        self.assertEqual((world.base / "file").read_text(), "of the base\nmore\n")
        self.before = sandboxed.checksum(world.base)

    def test_a_base_inside_the_base_of_another_run(self):
        world = self.world
        outer, _ = self.begin("outer", "echo mine > dir/own; echo outer > file; echo on; read line; cat dir/inner dir/own; "
                              "read line; cat dir/inner dir/own")
        self.ok("--session", "inner", "--base", world.base / "dir", "--", "sh", "-c", "ls; echo changed > inner", cwd="/")
        outer.stdin.write("look\n")
        outer.stdin.flush()
        self.assertEqual([outer.stdout.readline() for _ in range(2)], ["inner\n", "mine\n"])
        self.assertEqual(world.warren("apply", "inner").returncode, 0)
        out, _ = outer.communicate("look\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(out, "changed\nmine\n")
        self.assertEqual(world.warren("diff", "outer").stdout, "A f /dir/own\nM f /file\n")
        self.before = sandboxed.checksum(world.base)

    def begin(self, session, text, *options):
        """Starts a command in the session and waits for its first line."""
        process = self.world.start("run", "--session", session, *options, "--", "sh", "-c", text,
                                   stdin=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdin.close(), process.stdout.close(),
                                 process.stderr.close()))
        line = process.stdout.readline()
        self.assertTrue(line, process.stderr.read() if not line else "")
        return process, line.strip()

    def test_commands_of_one_session_share_everything_inside(self):
        first, pid = self.begin("s", "echo shared > /tmp/t; echo file > f; echo $$; read line; cat g")
        seen = self.ok("--session", "s", "--", "sh", "-c",
                       f"cat /tmp/t f; echo back > g; kill -0 {pid} && echo sees; readlink /proc/{pid}/cwd >/dev/null; "
                       "ls /proc | grep -c '^[0-9]'")
        self.assertTrue(seen.startswith("shared\nfile\nsees\n"), seen)
        listed = json.loads(self.world.warren("sessions", "--json").stdout)
        self.assertEqual([(s["id"], s["running"], s["base"]) for s in listed], [("s", True, str(self.world.base))])
        self.assertEqual([p["owner"] for p in listed[0]["processes"]], [True])
        running = json.loads(self.world.warren("ps", "--json").stdout)
        self.assertEqual([(r["kind"], r["dir"]) for r in running], [("run", str(self.world.base))])
        self.fails("--session", "s", "--allow", self.world.canary, "--", "true", says="its sandbox cannot be changed until it ends")
        out, _ = first.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(out, "back\n")
        self.assertEqual(self.world.processes(), [])

    def test_the_first_may_end_before_the_others(self):
        first, _ = self.begin("s", "echo on; read line")
        second, _ = self.begin("s", "echo on; read line; echo still > f; cat f")
        first.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        out, _ = second.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(out, "still\n")

    def test_many_that_start_at_once_share_one_session(self):
        crowd = [self.world.start("run", "--session", "c", "--", "sh", "-c", f"echo {i} > f{i}; sleep 0.3; ls; "
                                  "readlink /proc/self/ns/pid", text=True) for i in range(6)]
        spaces = set()
        for process in crowd:
            out, err = process.communicate(timeout=sandboxed.PATIENCE_SECONDS)
            self.assertEqual(process.returncode, 0, err)
            spaces.add(out.split()[-1])
        self.assertEqual(len(spaces), 1, "there were several sandboxes")
        names = self.ok("--session", "c", "--", "ls").split()
        self.assertLessEqual({f"f{i}" for i in range(6)}, set(names))

    def test_what_a_command_left_running_ends_with_the_session(self):
        started = time.monotonic()
        self.ok("--", "sh", "-c", "sleep 300 >/dev/null 2>&1 & echo")
        self.assertLess(time.monotonic() - started, 60)
        wait_for(lambda: not self.world.processes(), "a process was left")

    # Signals.

    def test_signals_are_passed_on(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2):
            name = number.name[3:]
            process, _ = self.begin("s", f"trap 'echo got {name}; exit 9' {name}; echo on; while :; do sleep 0.05; done")
            wait_for(lambda: self.warren_of(process), "the program")
            os.kill(self.warren_of(process), number)
            out, _ = process.communicate(timeout=sandboxed.PATIENCE_SECONDS)
            self.assertEqual((process.returncode, out), (9, f"got {name}\n"))

    def warren_of(self, process):
        """The `warren run` process itself: an ordinary user's is started by other programs, which exec it."""
        return process.pid

    # kill -9.

    def check_resumes(self, session):
        """A session of which a process was killed can be resumed with the synced data."""
        wait_for(lambda: self.world.server(session) is None, "the server to end")
        self.assertEqual(self.world.inside(session, "cat", "synced"), "synced\n")
        self.assertEqual(self.world.warren("fsck", session).returncode, 0)

    def test_killing_any_process_of_a_run_loses_nothing_that_was_synced(self):
        dice = random.Random(4)
        for turn in range(ROUNDS):
            for victim in ("server", "first", "command", "warren"):
                with self.subTest(victim=victim, turn=turn):
                    self.kill_one(f"{victim}-{turn}", victim, dice.random() / 10)

    def kill_one(self, session, victim, delay):
        process, _ = self.begin(session, "echo synced > synced; sync synced .; echo on; "
                                "exec 2>/dev/null; while :; do i=$((i+1)); echo $i > f$i; done")
        time.sleep(delay)
        if victim == "server":
            os.kill(self.world.server(session), signal.SIGKILL)
        elif victim == "first":
            os.kill(self.world.first_process(session), signal.SIGKILL)
        elif victim == "warren":
            process.kill()
        else:
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(children[-1]), signal.SIGKILL)
        process.wait(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertIn(process.returncode, (137, -9))
        self.check_resumes(session)

    def test_a_kill_while_it_starts_leaves_a_usable_session(self):
        dice = random.Random(5)
        for turn in range(ROUNDS):
            process = self.world.start("run", "--session", "s", "--keep", "--", "true", start_new_session=True)
            time.sleep(dice.random() / 15)
            for pid in self.world.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.communicate(timeout=sandboxed.PATIENCE_SECONDS)
            self.assertEqual(self.ok("--session", "s", "--keep", "--", "echo", "on"), "on\n")
            self.assertEqual(self.world.warren("fsck", "s").returncode, 0)

    # `sessions`.

    def test_sessions_are_listed_renamed_and_deleted(self):
        self.ok("--session", "one", "--", "sh", "-c", "echo x > f")
        self.ok("--session", "two", "--", "sh", "-c", "echo x > f")
        listed = self.world.warren("sessions").stdout
        self.assertIn("one", listed)
        self.assertIn(str(self.world.base), listed)
        self.assertEqual(self.world.warren("sessions", "rename", "one", "two").returncode, 1)
        self.assertEqual(self.world.warren("sessions", "rename", "one", "three").returncode, 0)
        self.assertEqual(self.world.inside("three", "cat", "f"), "x\n")
        self.assertEqual(self.world.warren("sessions", "rename", "none", "four").returncode, 1)
        done = self.world.warren("sessions", "delete", "two")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--yes", done.stderr)
        self.assertEqual(self.world.warren("sessions", "delete", "two", "none", "--yes").returncode, 1)
        self.assertEqual(self.world.sessions(), ["three", "two"])
        self.assertEqual(self.world.warren("sessions", "delete", "two", "--yes").returncode, 0)
        self.assertEqual(self.world.sessions(), ["three"])

    def test_sessions_are_listed_newest_first_with_their_changes(self):
        self.ok("--session", "old", "--", "sh", "-c", "echo x > f; echo y > g; rm file")
        self.ok("--session", "new", "--", "sh", "-c", "echo x > f")
        self.ok("--session", "none", "--keep", "--", "true")
        for age, name in enumerate(("none", "new", "old")):
            os.utime(self.world.session_dir(name) / "delta.db", (time.time() - 3600 * age,) * 2)
        lines = self.world.warren("sessions").stdout.splitlines()
        shown = [line.split()[:3] for line in lines[1:4]]
        self.assertRegex(shown[0].pop(), r"^\d{1,2}s$")  # just made, on a machine that may be busy
        self.assertEqual(shown, [["none", "0"], ["new", "1", "1h"], ["old", "3", "2h"]])
        self.assertEqual(lines[4:], ["new and old both change /f"])
        listed = json.loads(self.world.warren("sessions", "--json").stdout)
        self.assertEqual(listed[2]["changes"], {"added": 2, "modified": 0, "deleted": 1, "renamed": 0})

    def test_sessions_are_pruned(self):
        self.ok("--session", "full", "--", "sh", "-c", "echo x > f")
        self.ok("--session", "empty", "--keep", "--", "true")
        self.ok("--session", "aged", "--", "sh", "-c", "echo x > g")
        os.utime(self.world.session_dir("aged") / "delta.db", (time.time() - 8 * 86400,) * 2)
        prune = lambda *words: self.world.warren("sessions", "prune", *words)
        self.assertEqual(prune().returncode, 2)
        self.assertEqual(prune("--older", "7d", "-n").stdout, "would delete aged\n")
        self.assertIn("--yes", prune("--older", "7d").stderr)
        self.assertEqual(prune("--older", "7d", "--empty", "--yes").stdout, "nothing to delete\n")
        self.assertEqual(prune("--older", "7d", "--yes").stdout, "deleted aged\n")
        self.assertEqual(prune("--empty", "--yes").stdout, "deleted empty\n")
        self.assertEqual(self.world.sessions(), ["full"])

    def test_the_only_session_of_a_directory_needs_no_id(self):
        self.assertIn("no session has", self.world.warren("diff").stderr)
        self.ok("--session", "one", "--", "sh", "-c", "echo x > f")
        self.assertEqual(self.world.warren("diff").stdout, "A f /f\n")
        self.assertEqual(self.world.warren("diff", cwd=self.world.base / "dir").stdout, "A f /f\n")
        self.assertIn("no session has", self.world.warren("diff", cwd=self.world.canary).stderr)
        self.ok("--session", "two", "--", "sh", "-c", "echo x > g")
        os.utime(self.world.session_dir("one") / "delta.db", (time.time() - 60,) * 2)
        done = self.world.warren("apply")
        self.assertEqual(done.returncode, 1)
        self.assertIn("several sessions of this directory", done.stderr)
        self.assertIn("two, one", done.stderr)
        self.world.warren("sessions", "delete", "two", "--yes")
        self.assertIn("1 added", self.world.warren("apply", "--dry-run").stdout)
        self.assertIn("discarded: 1 added", self.world.warren("discard", "--yes").stdout)

    def test_a_session_is_deleted_by_the_beginning_of_a_made_up_id(self):
        self.ok("--", "sh", "-c", "echo x > f")
        self.ok("--session", "chosen", "--", "sh", "-c", "echo x > f")
        made_up = next(one for one in self.world.sessions() if one != "chosen")
        self.assertIn("did you mean 'chosen'?", self.world.warren("sessions", "delete", "chosne", "--yes").stderr)
        self.assertEqual(self.world.warren("sessions", "delete", "cho", "--yes").returncode, 1, "a chosen id is written in full")
        self.assertEqual(self.world.warren("sessions", "delete", made_up[:4], "--yes").returncode, 0)
        self.assertEqual(self.world.sessions(), ["chosen"])

    def test_the_beginning_of_a_made_up_id_is_enough(self):
        self.ok("--", "sh", "-c", "echo x > f")
        (made_up,) = self.world.sessions()
        self.assertEqual(self.world.warren("diff", made_up[:4]).stdout, "A f /f\n")
        self.assertEqual(self.world.warren("diff", "session:" + made_up[:4]).stdout, "A f /f\n")
        self.assertEqual(self.world.warren("diff", made_up[:2]).returncode, 1)
        self.ok("--session", made_up[:4] + "-chosen", "--", "sh", "-c", "echo x > f")
        self.assertEqual(self.world.warren("diff", made_up[:4]).returncode, 1)
        done = self.world.warren("diff", made_up[:4] + "-chose")
        self.assertIn(f"no agent or session '{made_up[:4]}-chose'", done.stderr)
        self.assertIn(f"did you mean '{made_up[:4]}-chosen'?", done.stderr)

    def test_walls_without_a_command_are_only_printed(self):
        done = self.world.run("--walls")
        self.assertEqual((done.returncode, done.stdout, self.world.sessions()), (0, "", []), done.stderr)
        self.assertIn(f"copy-on-write: {self.world.base}", done.stderr)

    def test_a_running_session_is_neither_renamed_nor_deleted(self):
        process, _ = self.begin("s", "echo on; read line")
        for words in (("rename", "s", "t"), ("delete", "--yes", "s")):
            done = self.world.warren("sessions", *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("is running", done.stderr)
        process.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)


class AsRoot(Commands, unittest.TestCase):
    def test_a_session_that_is_mounted_stays(self):
        world = self.world
        self.ok("--session", "s", "--", "sh", "-c", "echo x > made")
        point = world.root / "point"
        point.mkdir()
        self.assertEqual(world.warren("mount", "session:s", point).returncode, 0)
        try:
            self.assertEqual(world.warren("discard", "s", "--yes").returncode, 0)
            self.assertEqual(world.sessions(), ["s"])
            self.assertEqual(world.warren("sessions", "prune", "--empty", "--yes").stdout, "nothing to delete\n")
            done = world.warren("sessions", "delete", "s", "--yes")
            self.assertIn("is open in another process", done.stderr)
            (point / "later").write_text("kept")
        finally:
            self.assertEqual(world.warren("umount", point).returncode, 0)
        self.assertEqual(world.warren("fs", "s", "cat", "/later").stdout, "kept")

    def test_as_agentfs_it_prints_what_agentfs_prints(self):
        world = self.world
        done = world.warren("run", "--session", "a", "/bin/bash", "-c", "echo hello > f; cat f", name="agentfs")
        self.assertEqual((done.returncode, done.stdout), (0, "hello\n"), done.stderr)
        for line in ("Welcome to AgentFS!", f"  - {world.base} (copy-on-write)", f"  - {world.home} (copy-on-write, shared by all runs)",
                     "To join this session from another terminal:", "Session: a", "To resume this session:",
                     "  agentfs run --session a", "To see what changed:", "  agentfs diff a"):
            self.assertIn(line, done.stderr)
        self.assertNotIn(f"  - {world.home}/.cache", done.stderr)
        done = world.warren("run", "--session", "b", "--allow-default", "/bin/bash", "-c", "echo real > ~/.cache/made",
                            name="agentfs")
        self.assertIn(f"  - {world.home}/.cache\n", done.stderr)
        self.assertEqual((world.home / ".cache" / "made").read_text(), "real\n")
        self.assertEqual(world.warren("run", "--allow-default", "--no-default-allows", "true", name="agentfs").returncode, 1)
        self.assertEqual(world.warren("sessions", "delete", "b", "--yes").returncode, 0)
        self.assertEqual(world.warren("ps", name="agentfs").stdout, "No active agentfs run sessions.\n")
        process, _ = self.begin("a", "echo on; read line")
        listed = world.warren("ps", name="agentfs").stdout.splitlines()
        self.assertEqual(listed[0].split(), ["SESSION", "PID", "OWNER", "COMMAND", "STARTED"])
        self.assertEqual(listed[1].split()[:3], ["a", str(process.pid), "*"])
        process.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        world.warren("run", "true", name="agentfs")
        fresh = [name for name in world.sessions() if name != "a"]
        self.assertRegex(fresh[0], r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")

    def test_a_base_that_is_the_mount_of_another_agent(self):
        world = self.world
        point = world.root / "mnt"
        point.mkdir()
        world.warren("init", "--base", world.base, "a", cwd=world.home)
        self.assertEqual(world.warren("mount", "a", point, cwd=world.home, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL).returncode, 0)
        self.addCleanup(sandboxed.mounted.detach, point)
        self.assertEqual(self.ok("--session", "s", "--base", point, "--", "sh", "-c",
                                 "cat file; echo more >> file; mv dir moved; cat moved/inner", cwd="/"),
                         "of the base\ninner\n")
        self.assertEqual((point / "file").read_text(), "of the base\n")
        self.assertEqual(world.warren("apply", "s").returncode, 0)
        self.assertEqual((point / "file").read_text(), "of the base\nmore\n")
        self.assertEqual(world.warren("umount", point).returncode, 0)
        self.assertEqual(world.warren("diff", "a", cwd=world.home).stdout, "M f /file\nR d /dir -> /moved\n")

    def test_a_machine_without_user_namespaces_says_what_to_do(self):
        limit = pathlib.Path("/proc/sys/user/max_user_namespaces")
        # In a separate user namespace, so that nothing else on this machine is affected.
        script = f'echo 0 > {limit} && exec "$@"'
        words = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh",
                 *self.world.words("run", "--", "true")]
        done = subprocess.run(words, cwd=self.world.base, env=self.world.environment(), capture_output=True, text=True,
                              timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("sysctl -w user.max_user_namespaces", done.stderr)

    def test_a_device_that_cannot_be_opened_is_named(self):
        # A device without permissions in a separate mount namespace, independent of this machine's.
        node = self.world.root / "closed-fuse"
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(10, 229))
        script = 'mount --bind "$1" /dev/fuse && shift && exec "$@"'
        words = ["unshare", "-m", "--propagation", "slave", "sh", "-c", script, "sh", str(node), "setpriv", "--reuid=65534",
                 "--regid=65534", "--clear-groups", "--", *self.world.words("run", "--", "true")]
        for path in (self.world.home, self.world.root / "runtime"):
            os.chown(path, 65534, 65534)
        done = subprocess.run(words, cwd=self.world.base, env=self.world.environment(), capture_output=True, text=True,
                              timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("chmod 0666 /dev/fuse", done.stderr)


class AsOrdinaryUser(Commands, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
