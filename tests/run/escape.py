#!/usr/bin/env python3
"""Every known way to escape from `warren run`, tried from inside: each must fail, and nothing outside may change.

    WARREN=path/to/warren escape.py [-v] [AsRoot.test_name]

Needs root. Each attempt runs as root and as an ordinary user.
"""
import fcntl
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
import sandboxed

ATTEMPTS = pathlib.Path(__file__).resolve().parent / "attempts.c"


def look_again(process):
    """Asks a program inside to look again, by sending it a line; returns what it sees."""
    process.stdin.write("look\n")
    lines = []
    while not lines or lines[-1] not in ("end\n", ""):
        lines.append(process.stdout.readline())
    return lines[:-1]


class Escape:
    uid = 0

    def setUp(self):
        self.world = self.enterContext(sandboxed.World(self.uid))
        self.program = self.world.root / "attempts"
        subprocess.run(["cc", "-O1", "-Wall", "-o", self.program, ATTEMPTS], check=True)
        self.before = self.checksums()

    def tearDown(self):
        self.assertEqual(self.checksums(), self.before, "something outside has changed")

    def checksums(self):
        return sandboxed.checksum(self.world.base), sandboxed.checksum(self.world.canary)

    def attempt(self, *words, options=(), **started):
        """The attempt was made, and failed."""
        done = self.world.run("--session", "s", *options, "--", self.program, *words, **started)
        self.assertEqual(done.returncode, 0, f"{words}: status {done.returncode}: {done.stdout}{done.stderr}")
        self.assertEqual(self.checksums(), self.before, f"{words}: something outside has changed")
        return done.stdout

    def shell(self, text, **started):
        """Runs a shell command line inside; the caller checks whether it succeeded."""
        done = self.world.run("--session", "s", "--", "sh", "-c", text, **started)
        self.assertEqual(self.checksums(), self.before, f"{text}: something outside has changed")
        return done

    # Files outside.

    def test_absolute_paths_lead_to_nothing_writable(self):
        canary = self.world.canary
        for name in ("write", "truncate", "chmod", "chown", "unlink"):
            self.attempt(name, canary / "file")
        for name in ("create", "mkdir"):
            self.attempt(name, canary / "new")
            self.attempt(name, "/etc/warren-test-new")
            self.attempt(name, "/usr/bin/warren-test-new")

    def test_going_up_leads_to_nothing_writable(self):
        self.attempt("create", "../canary/new")
        self.attempt("create", "dir/../../canary/new")

    def test_a_link_planted_in_the_base_leads_to_nothing_writable(self):
        done = self.shell(f"ln -s {self.world.canary} out && ln -s {self.world.canary}/file out-file; "
                          "echo x > out/new; echo x > out-file; echo x > out/file")
        self.assertNotEqual(done.returncode, 0)

    def test_a_link_that_was_in_the_base_before_leads_to_nothing_writable(self):
        os.symlink(self.world.canary, self.world.base / "planted")
        self.before = self.checksums()
        self.attempt("create", "planted/new")
        self.attempt("write", "planted/file")

    def test_hard_links_and_renames_do_not_cross(self):
        canary = self.world.canary
        self.attempt("link", canary / "file", "linked")
        self.attempt("link", "/etc/hostname", "/tmp/linked")
        self.attempt("rename", canary / "file", "moved")
        self.shell("echo x > mine")
        self.attempt("rename", "mine", canary / "moved")
        self.attempt("link", "mine", canary / "linked")

    def test_the_roots_of_processes_are_the_same_root(self):
        self.attempt("create", f"/proc/self/root{self.world.canary}/new")
        self.attempt("create", f"/proc/1/root{self.world.canary}/new")
        self.attempt("roots", f"{self.world.canary}/new")
        # The first process has open directories that are hidden from the others.
        done = self.shell("for n in $(seq 0 60); do cat /proc/1/fd/$n/.netrc; ls -L /proc/1/fd/$n/ && echo listed; "
                          "touch /proc/1/fd/$n/made && echo made; done")
        self.assertEqual(done.stdout, "")

    def test_what_was_open_outside_is_closed_inside(self):
        directory = os.open(self.world.canary, os.O_RDONLY)
        file = os.open(self.world.canary / "file", os.O_RDWR)
        try:
            self.attempt("descriptors", pass_fds=(directory, file))
        finally:
            os.close(directory)
            os.close(file)

    def test_a_directory_as_a_standard_stream_is_refused(self):
        directory = os.open(self.world.canary, os.O_RDONLY)
        try:
            done = self.world.run("--session", "s", "--", "sh", "-c", "cd /proc/self/fd/0 && echo x > new",
                                  stdin=directory)
        finally:
            os.close(directory)
        self.assertEqual(done.returncode, 125)
        self.assertIn("would lead outside", done.stderr)

    def test_a_file_as_a_standard_stream_cannot_be_altered_otherwise(self):
        given = self.world.root / "given"
        given.write_text("line\n" * 50_000)
        os.chown(given, self.uid, -1)
        os.chmod(given, 0o640)
        before = os.stat(given)
        with open(given) as file:
            done = self.shell("chmod 4777 /proc/self/fd/0; touch -d 2001-01-01 /proc/self/fd/0; wc -l", stdin=file)
        self.assertEqual(done.stdout.split(), ["50000"])
        after = os.stat(given)
        self.assertEqual((after.st_mode, after.st_mtime_ns, after.st_ctime_ns),
                         (before.st_mode, before.st_mtime_ns, before.st_ctime_ns))

    def test_output_to_a_file_is_all_there_and_in_order(self):
        given = self.world.root / "given"
        with open(given, "w") as file:
            os.chown(given, self.uid, -1)
            mode = os.stat(given).st_mode
            self.shell("seq 1 50000; echo last >&2; chmod 4777 /proc/self/fd/1; sleep 100 & exit 0", stdout=file,
                       stderr=file)
        first, *lines = given.read_text().splitlines()
        self.assertTrue(first.startswith("held back from the environment: "), first)  # our own line, on standard error
        self.assertEqual(lines[:50000], [str(number) for number in range(1, 50001)])
        self.assertEqual(lines[50000], "last")
        self.assertEqual(os.stat(given).st_mode, mode)

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

    # Mounts and namespaces.

    def test_mounts_stay_as_they_are(self):
        for name in ("mount", "remount", "umount"):
            for path in ("/", "/tmp", self.world.base, self.world.home / ".agentfs"):
                self.attempt(name, path)
        self.attempt("bind", self.world.canary)
        for name in ("fsopen", "open_tree", "move_mount", "pivot_root", "mount_setattr", "compat_mount"):
            self.attempt(name)
        self.attempt("chroot", "/")

    def test_no_namespace_is_left_or_made(self):
        for name in ("unshare_user", "unshare_mount", "clone_user", "clone_user_high", "clone3"):
            self.attempt(name)
        for kind in ("mnt", "user", "pid", "net"):
            self.attempt("setns", f"/proc/1/ns/{kind}")
            self.attempt("setns", f"/proc/self/ns/{kind}")

    def test_capabilities_do_not_come_back(self):
        self.attempt("capabilities")

    # Other processes.

    def test_processes_outside_cannot_be_reached(self):
        with subprocess.Popen(["sleep", "60"]) as outsider:
            for name in ("kill", "ptrace", "memory"):
                self.attempt(name, outsider.pid)
            self.assertIsNone(outsider.poll())
            outsider.kill()
        for name in ("ptrace", "memory"):
            self.attempt(name, 1)

    def test_a_signal_to_the_own_group_stays_inside(self):
        outsider = subprocess.Popen(["sleep", "60"], process_group=0)
        try:
            done = self.world.run("--session", "s", "--", "sh", "-c", "kill -TERM 0", process_group=outsider.pid)
            self.assertEqual(done.returncode, 128 + 15)
            self.assertIsNone(outsider.poll(), "the signal got out")
        finally:
            outsider.kill()
            outsider.wait()

    def test_the_first_process_survives_what_is_inside(self):
        done = self.shell("kill -9 1; kill -9 -1; echo alive")
        self.assertEqual((done.returncode, done.stdout), (0, "alive\n"), done.stderr)
        self.assertEqual(self.shell("echo again").stdout, "again\n")

    def test_sockets_outside_cannot_be_reached(self):
        name = f"warren-test-{os.getpid()}"
        path = pathlib.Path("/run") / f"{name}.sock"
        with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as bound:
            abstract.bind("\0" + name)
            abstract.listen()
            bound.bind(str(path))
            try:
                bound.listen()
                os.chmod(path, 0o777)
                self.attempt("socket", path)
                self.attempt("abstract", name)
            finally:
                path.unlink()

    def test_named_sockets_anywhere_cannot_be_reached_unless_allowed(self):
        opened, paths = [], []
        for folder, kind in ((self.world.canary, socket.SOCK_STREAM), (self.world.home / ".cache", socket.SOCK_STREAM),
                             (pathlib.Path("/opt"), socket.SOCK_SEQPACKET), (self.world.canary, socket.SOCK_DGRAM)):
            path = folder / f"warren-{os.getpid()}-{len(opened)}"
            one = self.enterContext(socket.socket(socket.AF_UNIX, kind))
            one.bind(str(path))
            self.addCleanup(path.unlink)
            os.chmod(path, 0o777)
            if kind != socket.SOCK_DGRAM:
                one.listen()
            opened.append(one)
            paths.append(path)
        self.before = self.checksums()
        script = ("import socket, sys\n"
                  "for path, kind in zip(sys.argv[1::2], sys.argv[2::2]):\n"
                  "    try:\n"
                  "        socket.socket(socket.AF_UNIX, int(kind)).connect(path)\n"
                  "        print('reached', path)\n"
                  "    except OSError as error:\n"
                  "        print('refused')\n")
        words = [word for one, path in zip(opened, paths) for word in (path, int(one.type))]
        for options in ((), ("--no-network",), ("--hide", self.world.home / ".cache")):
            done = self.world.run("--no-default-allows", *options, "--", sandboxed.PYTHON, "-c", script, *words)
            self.assertEqual(done.stdout, "refused\n" * 4, f"{options}: {done.stderr}")
        done = self.world.run("--allow", paths[0], "--", sandboxed.PYTHON, "-c", script, *words[:2])
        self.assertEqual(done.stdout, f"reached {paths[0]}\n", done.stderr)

    def test_odd_families_of_sockets_cannot_be_opened(self):
        # raw packets, CAN, TIPC, Bluetooth, the kernel's cryptography, vsock, XDP, and one that does not exist yet
        for family in (17, 29, 30, 31, 38, 40, 44, 63):
            self.attempt("family", family)
            self.attempt("family", family, options=("--no-network",))

    def test_without_network_nothing_of_the_hosts_network_shows(self):
        run = self.world.root / "run"
        (run / "resolve").mkdir(parents=True)
        # As systemd-resolved has it: the file is a link into /run, with a socket beside it that resolves names.
        (run / "resolve" / "resolv.conf").write_text("nameserver 127.0.0.53\n")
        service = self.enterContext(socket.socket(socket.AF_UNIX))
        service.bind(str(run / "resolve" / "io.systemd.Resolve"))
        service.listen()
        os.chmod(run / "resolve" / "io.systemd.Resolve", 0o777)
        etc = self.world.root / "etc"
        subprocess.run(["cp", "-a", "/etc", etc], check=True)
        (etc / "resolv.conf").unlink()
        (etc / "resolv.conf").symlink_to("/run/resolve/resolv.conf")
        self.world.mounts = [["--bind", run, "/run"], ["--bind", etc, "/etc"]]
        look = "cat /etc/resolv.conf 2>/dev/null; ls -A /run/resolve 2>/dev/null; true"
        done = self.world.run("--", "sh", "-c", look)
        self.assertEqual(done.stdout, "nameserver 127.0.0.53\nresolv.conf\n", done.stderr)
        done = self.world.run("--no-network", "--", "sh", "-c", look)
        self.assertEqual(done.stdout, "", done.stderr)
        hosts = sorted(set(os.listdir("/sys/class/net")) - {"lo"})
        done = self.world.run("--no-network", "--", "sh", "-c",
                              "ls -A /sys/class/net /sys/devices/virtual/net; cat /proc/net/dev; "
                              "find /sys/devices -path '*/net/*' -maxdepth 8 2>/dev/null; true")
        self.assertTrue(hosts, "this machine has no network to hide")
        for name in hosts:
            self.assertNotIn(name, done.stdout)

    def test_where_mounts_let_it_write_landlock_does_not(self):
        """A FIFO on a read-only mount can be written to; only Landlock prevents that, if the kernel supports it."""
        has_landlock = "landlock: ABI" in self.world.run("--walls", "--", "true").stderr
        fifo = self.world.canary / "fifo"
        os.mkfifo(fifo)
        os.chmod(fifo, 0o666)
        self.before = self.checksums()
        reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        try:
            done = self.shell(f"echo got out > {fifo}")
            self.assertEqual(done.returncode != 0, has_landlock, done.stderr)
            if has_landlock:
                self.assertRaises(BlockingIOError, os.read, reader, 100)
        finally:
            os.close(reader)

    # Devices, privileges, the kernel.

    def test_devices_cannot_be_made_or_used(self):
        for name in ("mknod_block", "mknod_char"):
            for path in ("node", "/tmp/node", "/dev/node", "/dev/shm/node"):
                self.attempt(name, path)
        os.mknod(self.world.canary / "memory", stat.S_IFCHR | 0o666, os.makedev(1, 1))
        os.chmod(self.world.canary / "memory", 0o666)
        self.before = self.checksums()
        self.attempt("read", self.world.canary / "memory")
        for path in ("/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/vda", "/dev/sda", "/dev/loop0", "/proc/kcore"):
            self.attempt("write", path)

    def test_nodes_of_the_machine_cannot_be_given_other_modes(self):
        # Sets the mode they already have, so that the test does no harm if it is not refused.
        for path in ("/dev/null", "/dev/full", "/dev/tty", "/proc/version", "/proc/meminfo", "/proc/kallsyms",
                     "/proc/sys", "/proc/self/fd/0"):
            done = self.shell(f"chmod $(stat -L -c %a {path}) {path}")
            self.assertNotEqual(done.returncode, 0, path)
        self.assertEqual(self.shell("echo x > /dev/null && head -c 3 /dev/zero | wc -c").stdout, "3\n")

    def test_a_setuid_program_gives_nothing(self):
        copy = self.world.root / "setuid"
        shutil.copy(self.program, copy)
        os.chown(copy, 0, 0)
        os.chmod(copy, 0o4755)
        done = self.world.run("--session", "s", "--", copy, "privilege")
        self.assertEqual(done.returncode, 1 if self.uid == 0 else 0, done.stdout + done.stderr)
        done = self.shell("grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | cut -f2")
        kept = "00000000000004fb" if self.uid == 0 else "0000000000000000"
        self.assertEqual(done.stdout.split(), [kept, kept, kept, "1", "2"])

    def test_the_kernel_is_out_of_reach(self):
        for name in ("keyctl", "add_key", "bpf", "perf", "userfaultfd", "io_uring", "init_module", "finit_module",
                     "kexec", "reboot", "settime", "sethostname", "swapoff", "handle"):
            self.attempt(name)

    def test_typing_into_the_terminal_is_refused(self):
        outer, inner = os.openpty()
        try:
            for name in ("tiocsti", "tiocsti_high", "tioclinux"):
                self.attempt(name, stdin=inner)
        finally:
            os.close(outer)
            os.close(inner)

    def test_settings_of_the_machine_cannot_be_changed(self):
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches",
                     "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/sys/kernel/mm/ksm/run",
                     "/sys/power/state", "/sys/kernel/uevent_helper", "/sys/fs/fuse/connections"):
            self.attempt("write", path)
        for path in ("/sys/fs/cgroup/x", "/sys/fs/cgroup/memory/x", "/sys/fs/cgroup/unified/x"):
            self.attempt("mkdir", path)

    # Secrets.

    def test_secrets_in_the_environment_are_held_back(self):
        secrets = {name: "s3cret" for name in ("AWS_SECRET_ACCESS_KEY", "GH_TOKEN", "OPENAI_API_KEY", "PGPASSWORD",
                                               "ANTHROPIC_API_KEY", "NPM_TOKEN", "DATABASE_URL", "WHATEVER")}
        done = self.shell("env; cat /proc/self/environ; cat /proc/1/environ", env=self.world.environment() | secrets)
        self.assertNotIn("s3cret", done.stdout)
        self.assertNotIn("s3cret", done.stderr)
        line = next(line for line in done.stderr.splitlines() if line.startswith("held back from the environment: "))
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

    def looking(self, text, *options):
        """A run that executes these shell lines whenever it is asked."""
        process = self.world.start("run", "--session", "h", *options, "--", "sh", "-c",
                                   f"exec 2>/dev/null; while read line; do {text}; echo end; done",
                                   stdin=subprocess.PIPE, text=True, bufsize=1)
        self.addCleanup(lambda: (process.stdin.close(), process.stdout.close(), process.stderr.close(), process.wait()))
        return process

    def put(self, path, text):
        """Saves a user's file as most programs do."""
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name("fresh")
        fresh.write_text(text)
        os.chmod(fresh, 0o644)
        os.chown(path.parent, self.uid, self.uid)
        os.chown(fresh, self.uid, self.uid)
        fresh.rename(path)

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

    def test_the_relay_cannot_be_held_up(self):
        home = self.world.home
        self.put(home / ".agent-relay" / ".lock", "")
        self.put(home / ".agent-relay" / "agents/bob/inbox/mail", "secret\n")
        for view in ("tools", "all"):
            done = self.world.run("--home", view, "--", "sh", "-c", "flock ~/.agent-relay/.lock echo locked; "
                                  "cat ~/.agent-relay/agents/bob/inbox/mail; ls -A ~/.agent-relay")
            self.assertEqual(done.stdout.replace("locked\n", ""), "")
        held = os.open(home / ".agent-relay" / ".lock", os.O_RDONLY)
        process = self.looking("flock -x -n ~/.agent-relay/.lock sleep 100 & sleep 0.2")
        look_again(process)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(held)

    def test_leases_are_refused_and_inotify_instances_limited(self):
        script = ("import ctypes, fcntl, os, sys; libc = ctypes.CDLL(None); n = 0\n"
                  "while n < 120 and libc.inotify_init1(0) >= 0: n += 1\n"
                  "print(n < 100)\n"
                  "limit = int(open('/proc/sys/fs/inotify/max_user_watches').read())\n"
                  "print(int(open('/proc/sys/user/max_inotify_watches').read()) < limit)\n"
                  f"f = os.open({str(self.world.canary / 'file')!r}, os.O_RDONLY)\n"
                  "try: fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK); print('lease')\n"
                  "except PermissionError: print('refused')\n")
        done = self.world.run("--session", "s", "--", sandboxed.PYTHON, "-c", script)
        self.assertEqual(done.stdout, "True\nTrue\nrefused\n", done.stderr)

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

    # What a run may take of the machine.

    def test_a_fork_bomb_ends_at_its_limit(self):
        walls = self.world.run("--walls", "--processes", "200", "--", "true").stderr
        self.assertIn("\nprocesses: 200 ", walls)
        if self.uid == 0 and "(rlimit" in walls:
            self.skipTest("this kernel exempts root: it has no limit for a pid namespace, and there is no cgroup here")
        script = ("import os, time\n"
                  "made = 0\n"
                  "try:\n"
                  "    while made < 3000:\n"
                  "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"
                  "        made += 1\n"
                  "except OSError as error: print('refused', error.errno)\n"
                  "print(made)\n")
        before = len(os.listdir("/proc"))
        done = self.world.run("--processes", "200", "--", sandboxed.PYTHON, "-c", script)
        refused, made = done.stdout.splitlines()
        self.assertIn("refused", refused, done.stderr)
        self.assertLess(int(made), 600)
        self.assertGreater(int(made), 100)
        sandboxed.wait_for(lambda: not self.world.processes(), "processes of the bomb are left")
        self.assertLess(len(os.listdir("/proc")), before + 100)
        # The machine's own limit is as before.
        self.assertGreater(int(pathlib.Path("/proc/sys/kernel/pid_max").read_text()), 4000)

    def test_a_memory_hog_ends_at_its_limit(self):
        script = ("import sys\ntry: hog = bytearray(int(sys.argv[1]) << 20); print('got it')\n"
                  "except MemoryError: print('refused')\n")
        for size, shown in ((400, "refused\n"), (20, "got it\n")):
            done = self.world.run("--memory", "200M", "--", sandboxed.PYTHON, "-c", script, str(size))
            if "(cgroup)" not in self.world.run("--walls", "--memory", "200M", "--", "true").stderr:
                self.assertEqual(done.stdout, shown, done.stderr)
            else:
                self.assertEqual(done.returncode, 0 if size == 20 else 137)
        raised = self.world.run("--memory", "200M", "--", "sh", "-c", "ulimit -d unlimited")
        self.assertNotEqual(raised.returncode, 0)

    def delegated_cgroup(self):
        """A cgroup that belongs to the user, as systemd makes one for a session; runs are started in a child of it."""
        mounts = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        tops = [pathlib.Path(words[1]) for words in mounts if words[2] == "cgroup2"]
        offered = (tops[0] / "cgroup.controllers").read_text().split() if tops else []
        if not {"memory", "pids"} <= set(offered):
            why = (f"NOT TESTED: limits by a cgroup. They need version 2 with the controllers memory and pids; this machine's "
                   f"has {' '.join(offered) or 'none'}")
            print(f"{self.id()}: {why}", file=sys.stderr)
            self.skipTest(why)
        top = tops[0] / f"warren-test-{os.getpid()}"
        self.addCleanup(lambda: [child.rmdir() for child in [*top.glob("*/"), top] if child.exists()])
        try:
            (tops[0] / "cgroup.subtree_control").write_text("+memory +pids")
            top.mkdir()
            (top / "cgroup.subtree_control").write_text("+memory +pids")
        except OSError as error:
            print(f"{self.id()}: NOT TESTED: limits by a cgroup: {error}", file=sys.stderr)
            self.skipTest(f"this machine does not let us make a cgroup: {error}")
        (top / "terminal").mkdir()
        for path in (top, *top.glob("cgroup.*"), top / "terminal", *(top / "terminal").glob("cgroup.*")):
            os.chown(path, self.uid, self.uid)
        return top

    def test_a_run_in_a_delegated_cgroup_is_limited_as_a_whole(self):
        top = self.delegated_cgroup()
        # The walls of this class are in force as well; each process alone stays below the limit.
        script = ("import os, signal, time\n"
                  "children = []\n"
                  "for i in range(4):\n"
                  "    pid = os.fork()\n"
                  "    if pid == 0: hog = bytearray(100 << 20); time.sleep(60); os._exit(0)\n"
                  "    children.append(pid)\n"
                  "ended = os.waitpid(-1, 0)[1]\n"
                  "print('killed' if os.WTERMSIG(ended) == signal.SIGKILL else ended)\n")

        def run(*words):
            enter = f"echo $$ > {top}/terminal/cgroup.procs && exec \"$@\""
            return subprocess.run(["sh", "-c", enter, "sh", *self.world.words("run", *words)], cwd=self.world.base, text=True,
                                  env=self.world.environment(), capture_output=True, timeout=sandboxed.PATIENCE_SECONDS)

        done = run("--walls", "--memory", "200M", "--processes", "100", "--", sandboxed.PYTHON, "-c", script)
        self.assertIn("memory: 200.0 MiB for the whole run (cgroup)\n", done.stderr)
        self.assertIn("processes: 100 for the whole run (cgroup)\n", done.stderr)
        self.assertEqual(done.stdout, "killed\n", done.stderr)
        done = run("--processes", "50", "--", "sh", "-c", "for i in $(seq 200); do sleep 60 & done; echo not reached")
        self.assertNotIn("not reached", done.stdout)
        done = run("--", "cat", "/proc/self/cgroup")
        self.assertIn("warren-run-", done.stdout, done.stderr)
        self.assertEqual([path.name for path in top.glob("*/")], ["terminal"], "a cgroup is left")

    def test_processor_time_and_disk_have_limits(self):
        done = self.world.run("--cpu-time", "1s", "--", "sh", "-c", "while :; do :; done")
        self.assertIn(done.returncode, (128 + signal.SIGXCPU, 128 + signal.SIGKILL))
        done = self.world.run("--session", "d", "--disk", "4M", "--", "sh", "-c",
                              "head -c 3000000 /dev/zero > a || exit 1; head -c 3000000 /dev/zero > b; "
                              "head -c 8000000 /dev/zero > /tmp/c; stat -c %s /tmp/c")
        self.assertLessEqual(int(done.stdout), 4 << 20, done.stderr)
        stored = sum((self.world.session_dir("d") / name).stat().st_size for name in ("delta.db",))
        self.assertLess(stored, 8 << 20)

    # Mounts of the host.

    def test_what_the_host_unmounts_is_not_kept_alive_and_what_it_mounts_does_not_appear(self):
        root = self.world.root
        shared = root / "shared"
        for path in (shared, root / "other"):
            path.mkdir()
        (root / "other" / "file").write_text("secret\n")
        os.chmod(root / "other", 0o777)
        # Another user does not see root's FUSE mounts; for one, any other mount shows the same.
        make = f"cd {root} && $WARREN init a >/dev/null && $WARREN mount a {shared}/m"
        end = f"$WARREN umount {shared}/m"
        if self.uid:
            make, end = f"mount -t tmpfs none {shared}/m", f"umount {shared}/m"
        script = f"""
            mount -t tmpfs none {shared} && mount --make-shared {shared} && mkdir {shared}/m {shared}/new
            {make} || exit 9
            cd {self.world.base}
            "$@" & run=$!
            while ! test -e {self.world.root}/runtime/up; do sleep 0.05; done
            {end}; echo "umount: $?"
            mount --bind {root}/other {shared}/new
            sleep 0.5; touch {self.world.root}/runtime/look
            wait $run
            umount {shared}/new {shared}
        """
        look = (f"test -e {shared}/m && echo there; touch {root}/runtime/up; "
                f"while ! test -e {root}/runtime/look; do touch {shared}/new/made 2>/dev/null && echo made; done; "
                f"ls {shared}/new; grep -c 'shared/m ' /proc/self/mountinfo")
        words = self.world.words("run", "--allow", root / "runtime", "--", "sh", "-c", look)
        env = self.world.environment() | {"WARREN": str(sandboxed.program())}
        began = time.monotonic()
        done = subprocess.run(["unshare", "-m", "--propagation", "slave", "sh", "-c", script, "sh", *words], env=env, text=True,
                              capture_output=True, timeout=sandboxed.PATIENCE_SECONDS, cwd=self.world.base)
        self.assertEqual(done.stdout, "there\numount: 0\n0\n", done.stderr)
        self.assertLess(time.monotonic() - began, 20)
        self.assertFalse((root / "other" / "made").exists())

    # Sessions of others.

    def test_a_socket_of_another_user_is_not_joined(self):
        folder = self.world.session_dir("planted")
        folder.mkdir(parents=True)
        for path in (folder, folder.parent, folder.parent.parent):
            os.chown(path, self.uid, self.uid)
        other = sandboxed.NOBODY - 1
        script = ("import os, socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
                  f"s.bind('socket'); os.chmod('socket', 0o777); os.setuid({other}); s.listen(); print('up', flush=True); "
                  "s.accept(); sys.stdin.read()")
        with subprocess.Popen([sandboxed.PYTHON, "-c", script], cwd=folder, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as planted:
            self.assertEqual(planted.stdout.readline(), "up\n")
            done = self.world.run("--session", "planted", "--", "true")
            planted.kill()
        self.assertEqual(done.returncode, 125)
        self.assertIn("another user's process", done.stderr)


class AsRoot(Escape, unittest.TestCase):
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
        self.world.mounts = [["--bind", root / "homes", "/home"], ["--bind", root / "roots", "/root"],
                             ["--bind", root / "etc/shadow", "/etc/shadow"],
                             ["--bind", root / "etc/passwd", "/etc/passwd"], ["--bind", root / "homes", "/usr/local/games"]]
        for view in ("tools", "all"):
            done = self.world.run("--session", "s", "--home", view, "--", "sh", "-c",
                                  f"cat {root}/srv/private /usr/local/games/alice/private;"
                                  "cat /home/alice/private /root/private /etc/shadow /etc/gshadow /etc/shadow- "
                                  "/var/backups/shadow.bak; ls -A /home /root; cat /home/linuxbrew/bin/tool; "
                                  "test -s /etc/passwd && echo passwd")
            self.assertEqual(done.stdout, "/home:\nlinuxbrew\n\n/root:\ntool\npasswd\n", done.stderr)
        done = self.world.run("--read", "/home/alice", "--", "cat", "/home/alice/private")
        self.assertEqual(done.stdout, "secret\n", done.stderr)


class AsOrdinaryUser(Escape, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
