#!/usr/bin/env python3
"""The home directory in `warren run`: a layer that lasts, sign-ins, and `warren home`.

    WARREN=path/to/warren home.py [-v] [AsRoot.test_name]

Needs root. What does not depend on who runs it is tried as root and as an ordinary user.
"""
import os
import pathlib
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import commanding
import sandboxed
from sandboxed import wait_for


class Home(commanding.Commands):
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
        unseen = "[conflict: the base has a new or changed version that the agent has not seen]"
        self.assertEqual(warren("home", "diff").stdout, f"M f /.inputrc\nM f /.pgpass  {unseen}\nA f /made\nA f /other\n")
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
        self.assertEqual(warren("home", "diff").stdout, f"M f /.pgpass  {unseen}\nA f /other\n")
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
        self.assertEqual(warren("home", "diff").stdout, f"M f /.pgpass  {unseen}\n")
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


class AsRoot(Home, unittest.TestCase):
    pass


class AsOrdinaryUser(Home, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
