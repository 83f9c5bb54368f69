#!/usr/bin/env python3
"""Secrets in the environment and in files, tried from inside of `warren run`: they are hidden, and stay so.

    WARREN=path/to/warren escape_hiding.py [-v] [AsRoot.test_name]

Needs root. Each attempt runs as root and as an ordinary user.
"""
import os
import pathlib
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import escaping
import sandboxed
from sandboxed import wait_for


def look_again(process):
    """Asks a program inside to look again, by sending it a line; returns what it sees."""
    process.stdin.write("look\n")
    lines = []
    while not lines or lines[-1] not in ("end\n", ""):
        lines.append(process.stdout.readline())
    return lines[:-1]


class Hiding(escaping.Escape):
    # Secrets.

    def test_secrets_in_the_environment_are_held_back(self):
        secrets = {name: "s3cret" for name in ("AWS_SECRET_ACCESS_KEY", "GH_TOKEN", "OPENAI_API_KEY", "PGPASSWORD",
                                               "ANTHROPIC_API_KEY", "NPM_TOKEN", "DATABASE_URL", "WHATEVER")}
        done = self.shell("env; cat /proc/self/environ; cat /proc/1/environ", env=self.world.environment() | secrets)
        self.assertNotIn("s3cret", done.stdout)
        self.assertNotIn("s3cret", done.stderr)
        line = next(line for line in done.stderr.splitlines() if line.startswith("held back from the environment: "))
        self.assertRegex(line, r": \w+, \w+, \w+ and \d+ more \(--env NAME passes one, --walls lists them\)$")
        walls = self.world.run("--walls", "--", "true", env=self.world.environment() | secrets).stderr
        line = next(line for line in walls.splitlines() if line.startswith("environment held back: "))
        for name in ("AWS_SECRET_ACCESS_KEY", "GH_TOKEN", "OPENAI_API_KEY", "PGPASSWORD", "NPM_TOKEN"):
            self.assertIn(name, line)

    def test_secrets_in_the_home_are_hidden(self):
        home = self.world.home
        folders = (".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".config/gh", ".docker", ".kube",
                   ".password-store", ".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium",
                   ".config/BraveSoftware", ".local/share/keyrings", ".config/rclone", ".agent-relay", "snap/firefox",
                   ".var/app/org.mozilla.firefox", ".config/sops/age", ".config/containers", ".bitcoin", ".electrum",
                   ".config/1Password", ".local/share/gopass", ".config/Bitwarden CLI")
        files = (".netrc", ".git-credentials", ".pypirc", ".vault-token", ".config/git/credentials",
                 ".terraform.d/credentials.tfrc.json", ".pgpass", ".my.cnf", ".npmrc", ".cargo/credentials",
                 ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties",
                 ".bash_history", ".zsh_history", ".psql_history", ".mysql_history", ".python_history", ".env",
                 "code/project/.env", "code/project/.env.production", ".envrc", ".Xauthority")
        for path in [home / name / "secret" for name in folders] + [home / name for name in files]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("secret\n")
        if self.uid:
            for path in home.rglob("*"):
                os.chown(path, self.uid, self.uid)
        for view in ("tools", "all"):
            for name in folders:
                self.attempt("read", home / name / "secret", options=("--home", view))
            everything = self.world.run("--home", view, "--", "sh", "-c", f"grep -rs secret {home}; "
                                        f"cat {' '.join(shlex.quote(str(home / name)) for name in files)}")
            self.assertEqual(everything.stdout, "")

    def test_what_is_not_known_to_be_harmless_is_hidden(self):
        home = self.world.home
        names = ("wallet.dat", "keys.txt", "Documents/taxes", ".config/unknown-tool/token", ".local/share/unknown/token",
                 ".cache/unknown/token", ".unknownrc", "code/other-project/.env", ".claude/projects/x/transcript")
        for name in names:
            self.put(home / name, "secret\n")
        self.assertEqual(self.shell(f"cd; cat {' '.join(names)}; grep -rs secret .; ls").stdout, "")

    def test_secrets_are_hidden_under_every_name_that_mounts_give_them(self):
        home, root = self.world.home, self.world.root
        self.put(home / "notes", "secret\n")
        for name in ("other home", "keys", "over", "key", "netrc", "note"):
            (root / name).touch() if name in ("key", "netrc", "note") else (root / name).mkdir()
        self.world.mounts = [
            ["--bind", home, root / "other home"],  # the directory around, with a blank in its name
            ["--bind", home / ".ssh", root / "keys"],
            ["--bind", home / ".aws" / "secret", root / "key"],  # something below a hidden directory
            ["--bind", home / ".netrc", root / "netrc"],
            ["--bind", home, self.world.base / "dir"],  # inside the base
            ["--bind", home, "/usr/local/games"],  # in a directory of the system
            ["--bind", home / "notes", root / "note"],  # not a known secret, but not shown either
            ["--bind", home / ".ssh", root / "over"],  # something else is mounted over it
            ["--bind", self.world.canary, root / "over"]]
        self.shell("true")  # makes .agentfs
        others = [root / "other home", self.world.base / "dir", home]
        secrets = [f"{other}/{name}" for other in others for name in (".ssh/secret", ".aws/secret", ".netrc")]
        secrets += [root / "keys" / "secret", root / "key", root / "netrc", root / "note", root / "other home" / "notes"]
        secrets += [f"/usr/local/games/{name}" for name in (".ssh/secret", ".netrc", "notes")]
        for path in secrets:
            done = self.shell(f"cat '{path}'")
            self.assertEqual(done.stdout, "", path)
        self.assertEqual(self.shell(f"ls -A '{root}/other home/.agentfs' {root}/keys").stdout.count("secret"), 0)
        self.assertEqual(self.shell(f"ls -A '{root}/other home/.agentfs'").stdout, "")
        self.assertEqual(self.shell(f"cat {root}/over/file").stdout, "canary\n", "what is not hidden was hidden")

    def test_a_name_of_agent_files_that_a_mount_gives_is_refused(self):
        self.shell("echo x > f")
        (self.world.root / "agents").mkdir()
        self.world.mounts = [["--bind", self.world.home / ".agentfs", self.world.root / "agents"]]
        for option in ("--allow", "--read", "--base"):
            done = self.world.run(option, self.world.root / "agents" / "run", "--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn("where agent files are kept", done.stderr)

    def test_another_mounted_name_can_be_allowed(self):
        (self.world.root / "keys").mkdir()
        self.world.mounts = [["--bind", self.world.home / ".ssh", self.world.root / "keys"]]
        keys = self.world.root / "keys"
        done = self.world.run("--session", "s", "--read", keys, "--", "cat", keys / "secret", self.world.home / ".ssh/secret")
        self.assertEqual(done.stdout, "secret\n", done.stderr)
        done = self.world.run("--session", "s", "--read", keys, "--hide", self.world.home / ".ssh", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("--hide name the same path", done.stderr)

    def test_a_hidden_file_stays_hidden_when_the_host_replaces_it(self):
        home, root = self.world.home, self.world.root
        nested = home / ".config" / "git"
        nested.mkdir(parents=True)
        (root / "other").mkdir()
        (root / "asked").write_text("secret\n")
        (nested / "credentials").write_text("secret\n")
        (nested / "config").write_text("config\n")
        (home / "plain").write_text("plain\n")
        (home / "link").symlink_to("plain")
        if self.uid:
            for path in [root / "asked", *home.rglob("*")]:
                os.chown(path, self.uid, self.uid, follow_symlinks=False)
        self.world.mounts = [["--bind", home, root / "other"]]
        hidden = [home / ".netrc", nested / "credentials", root / "asked"]
        names = " ".join(map(str, [*hidden, root / "other" / ".netrc", root / "other" / ".config/git/credentials"]))
        look = f"cat {names} 2>/dev/null; cat {home}/link {nested}/config; echo end"
        process = self.world.start("run", "--session", "h", "--home", "all", "--hide", root / "asked", "--", "sh", "-c",
                                   f"while read line; do {look}; done", stdin=subprocess.PIPE, text=True, bufsize=1)

        shown = ["plain\n", "config\n"]
        with process:
            try:
                self.assertEqual(look_again(process), shown)
                for path in hidden:
                    fresh = path.with_name("fresh")
                    fresh.write_text("secret\n")
                    os.chmod(fresh, 0o644)
                    fresh.rename(path)
                self.assertEqual(look_again(process), shown)
                for path in hidden:
                    path.unlink()
                self.assertEqual(look_again(process), shown)
                for path in hidden:
                    path.write_text("secret\n")
                    os.chmod(path, 0o644)
                self.assertEqual(look_again(process), shown)
                self.assertEqual((home / ".netrc").read_text(), "secret\n")
            finally:
                process.stdin.close()
        self.assertEqual(process.returncode, 0)

    def test_a_directory_with_a_hidden_file_is_otherwise_as_on_the_host(self):
        home = self.world.home
        home.chmod(0o750)
        names = ["with blank", "new\nline", "comma,=", os.fsdecode(b"\xff")]
        for name in names:
            (home / name).write_text("x\n")
            (home / f"dir {name}").mkdir()
            (home / f"dir {name}" / "in").write_text("in\n")
        os.mkfifo(home / "fifo")
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(home / "socket"))
        (home / "dangling").symlink_to("nowhere")
        (home / "away").symlink_to("/etc")
        if self.uid:
            for path in home.rglob("*"):
                os.chown(path, self.uid, self.uid, follow_symlinks=False)
        self.shell("true")  # makes .agentfs
        script = ("import os, stat, sys; d = sys.argv[1]; e = {}\n"
                  "for n in os.listdir(d):\n i = os.lstat(d + '/' + n)\n"
                  " e[os.fsencode(n)] = (i.st_mode, i.st_uid, i.st_size if stat.S_ISREG(i.st_mode) else 0,"
                  " os.readlink(d + '/' + n) if stat.S_ISLNK(i.st_mode) else '')\n"
                  "i = os.stat(d); e[b''] = (i.st_mode, i.st_uid, i.st_gid); print(sorted(e.items()))")
        outside = subprocess.run([sandboxed.PYTHON, "-c", script, home], stdout=subprocess.PIPE, text=True, check=True)
        inside = self.world.run("--session", "s", "--home", "all", "--", sandboxed.PYTHON, "-c", script, home).stdout
        hidden = (b".agentfs", b".ssh", b".aws", b".netrc")
        shown = [one for one in eval(outside.stdout) if one[0] not in hidden]
        self.assertEqual([one for one in eval(inside) if one[0] not in hidden], shown)
        before = sandboxed.checksum(home / "dir with blank")
        done = self.world.run("--session", "s", "--home", "all", "--", "sh", "-c",
                              f"cat {home}/dir*/in; echo x > {home}/new; mkdir {home}/newdir; echo x > '{home}/with blank'; "
                              f"rm -r '{home}/dir with blank'")
        self.assertEqual((done.returncode, done.stdout), (0, "in\n" * len(names)), done.stderr)
        self.assertEqual(sandboxed.checksum(home / "dir with blank"), before)
        self.assertEqual((home / "with blank").read_text(), "x\n")
        self.assertFalse((home / "new").exists() or (home / "newdir").exists())

    def test_a_directory_with_a_hidden_file_outside_the_home_is_otherwise_as_on_the_host(self):
        canary = self.world.canary
        (canary / "link").symlink_to("file")
        (canary / "hidden").write_text("secret\n")
        self.before = self.checksums()
        done = self.world.run("--session", "s", "--hide", canary / "hidden", "--", "sh", "-c",
                              f"cd {canary}; ls; cat link; echo x > new; mkdir newdir; echo x > file; cat hidden")
        self.assertEqual(done.stdout, "file\nlink\ncanary\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.checksums(), self.before)

    def shows(self, process, wanted):
        seen = sandboxed.wait_for(lambda: [lines for lines in [look_again(process)] if lines == wanted], f"{wanted} to show")
        self.assertEqual(seen, [wanted])

    def test_what_the_host_changes_beside_secrets_shows_and_what_it_adds_does_not(self):
        home = self.world.home
        (home / ".config").mkdir()
        for name in ("plain", ".config/conf", "was/f"):
            self.put(home / name, "old\n")
        (home / "link").symlink_to("plain")
        process = self.looking(f"cd {home}; ls; cat plain .config/* was/f link; ls -d .netrc .ssh/*", "--home", "all")
        self.shows(process, ["link\n", "plain\n", "was\n", "old\n", "old\n", "old\n", "old\n"])
        for i in range(40):
            self.put(home / "plain", f"{i}\n")
        self.put(home / ".config" / "conf", "new\n")
        self.shows(process, ["link\n", "plain\n", "was\n", "39\n", "new\n", "old\n", "39\n"])
        self.put(home / "new" / "f", "secret\n")
        self.put(home / ".config" / "added", "secret\n")
        self.put(home / ".netrc.lock", "secret\n")
        (home / "was" / "f").unlink()
        (home / "was").rmdir()
        self.put(home / "was", "a file by now\n")
        self.put(home / "plain", "last\n")
        self.shows(process, ["link\n", "plain\n", "was\n", "last\n", "new\n", "last\n"])
        (home / "plain").unlink()
        self.shows(process, ["link\n", "was\n", "new\n"])

    def test_beside_a_hidden_file_outside_the_home_too(self):
        folder = self.world.root / "folder"
        for name in ("hidden", "plain"):
            self.put(folder / name, f"{name}\n")
        process = self.looking(f"cd {folder}; ls; cat *", "--hide", folder / "hidden")
        self.shows(process, ["plain\n", "plain\n"])
        self.put(folder / "plain", "new\n")
        self.put(folder / "hidden.lock", "secret\n")
        self.put(folder / "hidden", "secret\n")
        self.shows(process, ["plain\n", "new\n"])
        # More changes than the inotify queue holds: then it compares everything.
        first = self.world.first_process("h")
        os.kill(first, signal.SIGSTOP)
        for i in range(int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text()) + 10):
            os.utime(folder / ("plain" if i % 2 else "hidden"))
        self.put(folder / "plain", "last\n")
        self.put(folder / "later", "secret\n")
        os.kill(first, signal.SIGCONT)
        self.shows(process, ["plain\n", "last\n"])
        (folder / "plain").unlink()
        self.shows(process, [])

    def test_secrets_that_come_later_do_not_show(self):
        home = self.world.home
        (home / ".config").mkdir()
        os.chown(home / ".config", self.uid, self.uid)
        for view in ("all", "tools"):
            for name in (".bashrc", ".config/git/config"):
                self.put(home / name, f"{name}\n")
            process = self.looking(f"cd {home}; grep -rs secret . ; cat .vault-token .docker/config; "
                                   "cat .bashrc .config/git/config", "--home", view)
            self.shows(process, [".bashrc\n", ".config/git/config\n"])
            for name in (".vault-token", ".git-credentials", ".docker/config", ".kube/config", ".config/gh/token",
                         ".config/gcloud/key", ".terraform.d/credentials.tfrc.json", ".config/git/credentials",
                         ".config/git/credentials.lock", ".git-credentials.lock"):
                self.put(home / name, "secret\n")
            # Existing directories: one is replaced, and one is moved away and created again.
            shutil.rmtree(home / ".aws")
            self.put(home / ".aws" / "secret", "secret\n")
            (home / ".ssh").rename(home / f"keys-{view}")
            self.put(home / ".ssh" / "secret", "secret\n")
            (home / ".netrc").rename(home / f"netrc-{view}")
            self.put(home / ".netrc", "secret\n")
            self.put(home / ".bashrc", "again\n")
            self.shows(process, ["again\n", ".config/git/config\n"])
            process.stdin.close()
            process.wait()
            shutil.rmtree(home / f"keys-{view}")
            (home / f"netrc-{view}").unlink()
            (home / ".git-credentials.lock").unlink()
            (home / ".config/git/credentials.lock").unlink()

    def test_environment_files_do_not_show_while_they_are_replaced(self):
        folder = self.world.home / "code"
        for name in (".env", ".env.local", "prod.env", ".env.example", "main.c"):
            self.put(folder / name, "secret\n" if "example" not in name and "env" in name else f"{name}\n")
        (folder / "fresh").unlink(missing_ok=True)
        process = self.looking(f"cd {folder}; ls -A; cat .env* *", "--home", "all")
        shown = [".env.example\n", "main.c\n", ".env.example\n", "main.c\n"]
        self.shows(process, shown)
        for name in ("sedAbC12x", ".env.swp", ".env~", "4913", "tmpq8w7e6r5", ".env.tmp"):
            (folder / name).write_text("secret\n")
        self.assertEqual(look_again(process), shown)

    # What runs leave for later, outside.

    def test_nothing_that_a_run_puts_into_the_home_is_found_outside(self):
        home = self.world.home
        for name in (".npm", ".local/share", ".claude", ".local/bin", ".config"):
            (home / name).mkdir(parents=True)
        self.put(home / ".claude" / "settings.json", "{}\n")
        self.put(home / ".bashrc", "true\n")
        self.shell("true")  # makes .agentfs
        others = [path for path in home.iterdir() if path.name != ".agentfs"]
        before = [sandboxed.checksum(path) for path in others]
        done = self.shell("cd ~; mkdir -p .npm/_npx/x/node_modules/.bin .local/share/systemd/user .config/autostart "
                          ".local/share/bash-completion/completions .config/fish/conf.d; "
                          "for f in .npm/_npx/x/node_modules/.bin/tool .local/share/systemd/user/evil.service "
                          ".config/autostart/evil.desktop .local/share/bash-completion/completions/warren "
                          ".config/fish/conf.d/evil.fish .claude/settings.json .local/bin/git .bashrc .profile "
                          ".gitconfig .ssh/authorized_keys; do mkdir -p $(dirname $f); echo evil > $f; done; "
                          "rm -rf .cache; mv .claude .moved; cat .bashrc .local/bin/git")
        self.assertEqual(done.stdout, "evil\nevil\n", done.stderr)
        self.assertEqual([sandboxed.checksum(path) for path in others], before)
        self.assertEqual(sorted(p.name for p in home.iterdir()), sorted([".agentfs", *(p.name for p in others)]))

    def test_a_sign_in_that_is_not_a_plain_file_is_not_written_through(self):
        home = self.world.home
        self.put(home / ".bashrc", "mine\n")
        self.shell("mkdir -p ~/.codex ~/.gemini; ln -s ~/.bashrc ~/.codex/auth.json; mkdir ~/.gemini/oauth_creds.json; "
                   "ln -s / ~/.claude; head -c 3000000 /dev/zero > ~/.gemini/google_accounts.json")
        self.assertEqual((home / ".bashrc").read_text(), "mine\n")
        self.assertFalse((home / ".codex").exists() or (home / ".claude").exists() or (home / ".gemini").exists())

    def test_a_link_in_the_place_of_a_secret_does_not_prevent_runs(self):
        home = self.world.home
        (home / ".local" / "share").mkdir(parents=True)
        for path in (home / ".local", home / ".local/share"):
            os.chown(path, self.uid, self.uid)
        self.shell("mkdir -p ~/.local/share; ln -s /usr ~/.local/share/keyrings; rm -rf ~/.ssh; ln -s / ~/.ssh; "
                   "rm -rf ~/.agentfs; ln -s /usr ~/.agentfs")
        self.assertEqual(self.shell("echo runs").stdout, "runs\n")
        # Even if the user has made one.
        (home / ".local/share/keyrings").symlink_to("/usr")
        (home / ".gnupg").symlink_to("/")
        (home / ".kube").symlink_to(self.world.root)
        for options in ((), ("--home", "all"), ("--base", home)):
            done = self.world.run(*options, "--", "sh", "-c", "echo runs; ls /usr/bin > /dev/null")
            self.assertEqual((done.returncode, done.stdout), (0, "runs\n"), done.stderr)

    def test_secrets_stay_hidden_when_the_home_is_the_base_and_is_rearranged(self):
        nested = self.world.home / ".config" / "gh"
        nested.mkdir(parents=True)
        (nested / "token").write_text("secret\n")
        if self.uid:
            for path in (nested.parent, nested, nested / "token"):
                os.chown(path, self.uid, self.uid)
        for _ in range(2):
            done = self.world.run("--session", "h", "--base", self.world.home, "--", "sh", "-c",
                                  "mv .config moved; mv .ssh moved-ssh; cat */gh/token .config/gh/token */secret "
                                  ".ssh/secret .netrc")
            self.assertNotIn("secret\n", done.stdout)

    def test_secrets_stay_hidden_in_the_base_when_names_are_lost_or_replaced(self):
        home = self.world.home
        (home / ".npm").mkdir()
        (home / ".ssh" / "known_hosts").write_text("known\n")
        if self.uid:
            for path in (".npm", ".ssh/known_hosts"):
                os.chown(home / path, self.uid, self.uid)
        look = "cat .netrc .ssh/* .aws/* 2>/dev/null; echo real > .cache/new; echo end"
        process = self.world.start("run", "--session", "h", "--base", home, "--allow", home / ".cache", "--read", home / ".ssh" / "known_hosts", "--",
                                   "sh", "-c", f"while read line; do {look}; done", stdin=subprocess.PIPE, cwd=home,
                                   text=True, bufsize=1)

        with process:
            try:
                self.assertEqual(look_again(process), ["known\n"])
                # More changes than the server's inotify queue holds: after that it must distrust every name.
                server = self.world.server("h")
                os.kill(server, signal.SIGSTOP)
                for i in range(int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text()) + 10):
                    os.utime(home / (".npm" if i % 2 else ".cache"))
                os.kill(server, signal.SIGCONT)
                (home / ".cache" / "new").unlink()
                for _ in range(20):
                    self.assertEqual(look_again(process), ["known\n"])
                    time.sleep(0.05)
                self.assertEqual((home / ".cache" / "new").read_text(), "real\n", "an allowed path has gone")
                (home / "saved").write_text("secret\n")
                os.chmod(home / "saved", 0o644)
                (home / "saved").rename(home / ".netrc")
                self.assertEqual(look_again(process), ["known\n"])
            finally:
                process.stdin.close()

    def test_hidden_names_in_the_base_cannot_be_created_again(self):
        home = self.world.home
        done = self.world.run("--session", "h", "--base", home, "--", "sh", "-c",
                              "mkdir .ssh; echo x > .ssh/secret; echo x > .netrc; mkdir .agentfs; echo x > y; mv y .netrc; "
                              "rm -rf .aws .netrc; ls -A; ls -A .config", cwd=home)
        # .config is there for the key of audit trails, which is hidden in it.
        self.assertEqual(done.stdout.split(), [".cache", ".config", "y"], done.stderr)
        self.assertEqual(self.world.warren("diff", "h").stdout, "A f /y\n")

    # A directory from a stranger.

    def make_repository(self, folder, secret):
        """What looks like a repository, with links to the secret wherever something is read or shown."""
        for name in ("objects/info", "refs", "info"):
            (folder / name).mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "objects/info/alternates").write_text(f"{secret.parent}\n")
        (folder / "hooks").symlink_to(secret.parent)
        for name in ("description", "index", "shallow", "ORIG_HEAD", "config.worktree", "info/exclude"):
            (folder / name).symlink_to(secret)
        self.make_state(folder, secret)

    def make_state(self, folder, secret):
        for name in ("sequencer", "logs/refs/heads"):
            (folder / name).mkdir(parents=True)
        for name in ("sharedindex.1", "REVERT_HEAD", "sequencer/todo", "logs/HEAD", "logs/refs/stash"):
            (folder / name).symlink_to(secret)
        for name in ("rebase-merge", "sequencer/dir", "logs/refs/heads/dir"):
            (folder / name).symlink_to(secret.parent)
        os.mkfifo(folder / "sequencer/pipe")
        os.mkfifo(folder / "MERGE_MODE")

    def make_submodule(self, tree, folder, secret):
        tree.mkdir(parents=True, exist_ok=True)
        self.make_repository(folder, secret)
        (folder / "config").write_text(f"[core]\n\tworktree = {os.path.relpath(tree, folder)}\n")
        (tree / ".git").write_text(f"gitdir: {os.path.relpath(folder, tree)}\n")

    def make_worktree(self, tree, folder, secret):
        own = folder / "worktrees/w"
        tree.mkdir(parents=True, exist_ok=True)
        own.mkdir(parents=True)
        self.make_repository(folder, secret)
        (folder / "config").symlink_to(secret)
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "commondir").write_text("../..\n")
        (own / "gitdir").write_text(os.path.relpath(tree / ".git", own) + "\n")
        for name in ("index", "MERGE_MSG", "config.worktree"):
            (own / name).symlink_to(secret)
        self.make_state(own, secret)
        (tree / ".git").write_text(f"gitdir: {os.path.relpath(own, tree)}\n")

    def test_a_directory_from_a_stranger_does_not_choose_what_is_read(self):
        secret = self.world.home / ".ssh/secret"
        forms = {"submodule": self.make_submodule, "worktree": self.make_worktree}
        for name, make in forms.items():
            for place in ("inside", "beside", "linked"):
                made = self.world.home / "code" / name / place
                tree = made / "tree"
                folder = tree / "g" if place == "inside" else made / "g"
                make(tree, folder, secret)
                if place == "linked":
                    shutil.rmtree(folder / "objects")
                    (folder / "objects").symlink_to(secret.parent)
                for path in [self.world.home / "code", *(self.world.home / "code").rglob("*")]:
                    os.chown(path, self.uid, self.uid, follow_symlinks=False)
                with self.subTest(form=name, place=place):
                    done = self.world.run("--session", f"{name}-{place}", "--", "sh", "-c",
                                          f"cat {secret}; ls -A {secret.parent}; cat .git; grep -rs -D skip secret . ../g; "
                                          "git config --list; echo end", cwd=tree)
                    self.assertEqual(done.stdout.splitlines()[-1:], ["end"], done.stderr)
                    self.assertNotIn("secret\n", done.stdout)
                    self.assertNotIn("secret\n", done.stderr.replace(str(secret), ""))


class AsRoot(Hiding, unittest.TestCase):
    def test_other_users_and_their_passwords_are_hidden(self):
        """In a mount namespace with homes and password files of its own."""
        root = self.world.root
        for name in ("homes/alice", "homes/linuxbrew/bin", "roots", "etc"):
            (root / name).mkdir(parents=True)
        (root / "homes/alice/private").write_text("secret\n")
        (root / "homes/linuxbrew/bin/tool").write_text("tool\n")
        (root / "roots/private").write_text("secret\n")
        (root / "etc/shadow").write_text("root:secret\n")
        (root / "srv").mkdir()
        (root / "srv/private").write_text("secret\n")
        people = pathlib.Path("/etc/passwd").read_text() + f"bob:x:54321:54321::{root}/srv:/bin/sh\n"
        (root / "etc/passwd").write_text(people)
        # The checkout may be below /root, which is covered.
        (root / "program").touch()
        self.world.mounts = [["--bind", self.world.program, root / "program"],
                             ["--bind", root / "homes", "/home"], ["--bind", root / "roots", "/root"],
                             ["--bind", root / "etc/shadow", "/etc/shadow"],
                             ["--bind", root / "etc/passwd", "/etc/passwd"], ["--bind", root / "homes", "/usr/local/games"]]
        self.world.program = root / "program"
        for view in ("tools", "all"):
            done = self.world.run("--session", "s", "--home", view, "--", "sh", "-c",
                                  f"cat {root}/srv/private /usr/local/games/alice/private;"
                                  "cat /home/alice/private /root/private /etc/shadow /etc/gshadow /etc/shadow- "
                                  "/var/backups/shadow.bak; ls -A /home /root; cat /home/linuxbrew/bin/tool; "
                                  "test -s /etc/passwd && echo passwd")
            self.assertEqual(done.stdout, "/home:\nlinuxbrew\n\n/root:\ntool\npasswd\n", done.stderr)
        done = self.world.run("--read", "/home/alice", "--", "cat", "/home/alice/private")
        self.assertEqual(done.stdout, "secret\n", done.stderr)


class AsOrdinaryUser(Hiding, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
