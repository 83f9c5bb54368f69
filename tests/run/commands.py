#!/usr/bin/env python3
"""`warren run` from a user's point of view: status, environment, base, and what is allowed and hidden.

    WARREN=path/to/warren commands.py [-v] [AsRoot.test_name]

Needs root. What does not depend on who runs it is tried as root and as an ordinary user.
"""
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import commanding
import sandboxed


class Runs(commanding.Commands):
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
        for line in ("network: hosts by name, through a proxy", "network: may reach allowed.example, pypi\n", "processes: 500 ", "cpu time: 100 s", "memory: not limited"):
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


class AsRoot(Runs, unittest.TestCase):
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


class AsOrdinaryUser(Runs, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
