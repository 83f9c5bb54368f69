#!/usr/bin/env python3
"""Every known way to escape from `warren run`, tried from inside: each must fail, and nothing outside may change.

    WARREN=path/to/warren escape.py [-v] [AsRoot.test_name]

Needs root. Each attempt runs as root and as an ordinary user.
"""
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import escaping
import sandboxed


class Outside(escaping.Escape):
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


class AsRoot(Outside, unittest.TestCase):
    pass


class AsOrdinaryUser(Outside, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
