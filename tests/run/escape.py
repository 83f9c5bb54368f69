#!/usr/bin/env python3
"""Every known way to escape from `warren run`, tried from inside: each must fail, and nothing outside may change.

    WARREN=path/to/warren escape.py [-v] [AsRoot.test_name]

Needs root. Each attempt runs as root and as an ordinary user.
"""
import os
import pathlib
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
        self.attempt("create", self.world.home / ".bashrc")

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
        lines = given.read_text().splitlines()
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
        listed = self.shell(f"ls -A {self.world.home}/.agentfs")
        self.assertEqual(listed.stdout, "")
        for option in ("--allow", "--read"):
            for path in (self.world.home / ".agentfs", folder):
                done = self.world.run(option, path, "--", "true")
                self.assertEqual(done.returncode, 125)
                self.assertIn("where agent files are kept", done.stderr)

    def test_the_agent_file_stays_hidden_when_the_home_is_allowed(self):
        listed = self.world.run("--session", "h", "--keep", "--allow", self.world.home, "--", "sh", "-c",
                                f"ls -A {self.world.home}/.agentfs; mv {self.world.home}/.agentfs {self.world.home}/x; "
                                f"echo x > {self.world.home}/.agentfs/y; rmdir {self.world.home}/.agentfs")
        self.assertEqual(listed.stdout, "")
        self.assertTrue((self.world.session_dir("h") / "delta.db").exists())

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
                   ".config/BraveSoftware", ".local/share/keyrings", ".config/rclone")
        files = (".netrc", ".git-credentials", ".pypirc", ".vault-token", ".config/git/credentials",
                 ".terraform.d/credentials.tfrc.json")
        for path in [home / name / "secret" for name in folders] + [home / name for name in files]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("secret\n")
        if self.uid:
            for path in home.rglob("*"):
                os.chown(path, self.uid, self.uid)
        for name in folders:
            self.attempt("read", home / name / "secret")
        everything = self.shell(f"cat {' '.join(str(home / name) for name in files)}; grep -rs secret {home}")
        self.assertEqual(everything.stdout, "")

    def test_secrets_are_hidden_under_every_name_that_mounts_give_them(self):
        home, root = self.world.home, self.world.root
        for name in ("other home", "keys", "over", "key", "netrc"):
            (root / name).touch() if name in ("key", "netrc") else (root / name).mkdir()
        self.world.mounts = [
            ["--bind", home, root / "other home"],  # the directory around, with a blank in its name
            ["--bind", home / ".ssh", root / "keys"],
            ["--bind", home / ".aws" / "secret", root / "key"],  # something below a hidden directory
            ["--bind", home / ".netrc", root / "netrc"],
            ["--bind", home, self.world.base / "dir"],  # inside the base
            ["--bind", home / ".ssh", root / "over"],  # something else is mounted over it
            ["--bind", self.world.canary, root / "over"]]
        self.shell("true")  # makes .agentfs
        others = [root / "other home", self.world.base / "dir", home]
        secrets = [f"{other}/{name}" for other in others for name in (".ssh/secret", ".aws/secret", ".netrc")]
        secrets += [root / "keys" / "secret", root / "key", root / "netrc"]
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
        look = f"cat {names} 2>/dev/null; cat {home}/link {nested}/config; echo real > {home}/.cache/new; echo end"
        process = self.world.start("run", "--session", "h", "--hide", root / "asked", "--", "sh", "-c",
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
                self.assertEqual((home / ".cache" / "new").read_text(), "real\n")
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
        inside = self.world.inside("s", sandboxed.PYTHON, "-c", script, home)
        hidden = (b".agentfs", b".ssh", b".aws", b".netrc")
        shown = [one for one in eval(outside.stdout) if one[0] not in hidden]
        self.assertEqual([one for one in eval(inside) if one[0] not in hidden], shown)
        self.assertEqual(self.shell(f"cat {home}/dir*/in").stdout, "in\n" * len(names))
        self.assertNotEqual(self.shell(f"echo x > {home}/new").returncode, 0)
        self.assertNotEqual(self.shell(f"mkdir {home}/newdir").returncode, 0)
        self.assertNotEqual(self.shell(f"echo x > '{home}/with blank'").returncode, 0)
        for line in self.shell("cat /proc/self/mountinfo", errors="surrogateescape").stdout.split("\n")[:-1]:
            where, options = line.split()[4:6]
            is_sealed = where.startswith(str(home)) and where != str(home / ".cache")
            self.assertTrue(not is_sealed or "ro" in options.split(","), line)
        self.assertFalse((home / "new").exists())

    def looking(self, text):
        """A run that executes these shell lines whenever it is asked."""
        process = self.world.start("run", "--session", "h", "--", "sh", "-c", f"while read line; do {text}; echo end; done",
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

    def test_what_the_host_changes_beside_secrets_shows(self):
        home = self.world.home
        (home / ".config").mkdir()
        for name in ("plain", ".config/conf"):
            self.put(home / name, "old\n")
        process = self.looking(f"cd {home}; ls; cat plain .config/* new/f link 2>/dev/null; ls -d .netrc .ssh/*")
        self.shows(process, ["plain\n", "old\n", "old\n"])
        for i in range(40):
            self.put(home / "plain", f"{i}\n")
        self.put(home / ".config" / "conf", "new\n")
        self.shows(process, ["plain\n", "39\n", "new\n"])
        self.put(home / "new" / "f", "f\n")
        (home / "link").symlink_to("plain")
        (home / "plain").unlink()
        self.shows(process, ["link\n", "new\n", "new\n", "f\n"])
        shutil.rmtree(home / "new")
        self.put(home / "new", "a file by now\n")
        (home / "link").unlink()
        self.put(home / "link" / "f", "a directory by now\n")
        (home / "later").symlink_to("link/f")
        self.shows(process, ["later\n", "link\n", "new\n", "new\n"])
        (home / "link" / "f").unlink()
        (home / "link").rmdir()
        os.link(home / "new", home / "link")
        self.shows(process, ["later\n", "link\n", "new\n", "new\n", "a file by now\n"])
        # More changes than the inotify queue holds: then it compares everything.
        first = self.world.first_process("h")
        os.kill(first, signal.SIGSTOP)
        for i in range(int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text()) + 10):
            os.utime(home / ("new" if i % 2 else ".config"))
        self.put(home / "plain", "last\n")
        (home / "later").unlink()
        self.put(home / ".netrc", "secret\n")
        os.kill(first, signal.SIGCONT)
        self.shows(process, ["link\n", "new\n", "plain\n", "last\n", "new\n", "a file by now\n"])
        self.assertNotEqual(self.world.run("--session", "h", "--", "touch", home / "touched").returncode, 0)
        for name in ("new", "link", "plain"):
            (home / name).unlink()
        self.shows(process, ["new\n"])

    def test_secrets_that_come_later_do_not_show(self):
        home = self.world.home
        (home / ".config").mkdir()
        os.chown(home / ".config", self.uid, self.uid)
        process = self.looking(f"cd {home}; grep -rs secret . ; cat .vault-token .docker/config 2>/dev/null; "
                               "cat marker .config/marker 2>/dev/null")
        self.shows(process, [])
        for name in (".vault-token", ".git-credentials", ".docker/config", ".kube/config", ".config/gh/token",
                     ".config/gcloud/key", ".terraform.d/credentials.tfrc.json"):
            self.put(home / name, "secret\n")
        # Existing directories: one is replaced, and one is moved away and created again.
        shutil.rmtree(home / ".aws")
        self.put(home / ".aws" / "secret", "secret\n")
        (home / ".ssh").rename(home / "keys")
        self.put(home / ".ssh" / "secret", "secret\n")
        (home / ".netrc").rename(home / "netrc")
        for name in ("marker", ".config/marker"):
            self.put(home / name, f"{name}\n")
        self.shows(process, ["marker\n", ".config/marker\n"])
        (home / "keys").rename(home / "moved again")
        self.put(home / "marker", "again\n")
        self.shows(process, ["again\n", ".config/marker\n"])

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
        process = self.world.start("run", "--session", "h", "--base", home, "--read", home / ".ssh" / "known_hosts", "--",
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
                              "rm -rf .aws .netrc; ls -A", cwd=home)
        self.assertEqual(done.stdout.split(), [".cache", "y"], done.stderr)
        self.assertEqual(self.world.warren("diff", "h").stdout, "A f /y\n")

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
    pass


class AsOrdinaryUser(Escape, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
