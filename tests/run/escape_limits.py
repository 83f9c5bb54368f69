#!/usr/bin/env python3
"""What a run could take or hold up, tried from inside of `warren run`: it ends at its limits.

    WARREN=path/to/warren escape_limits.py [-v] [AsRoot.test_name]

Needs root. Each attempt runs as root and as an ordinary user.
"""
import fcntl
import os
import pathlib
import signal
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


class Limits(escaping.Escape):
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

        done = run("--walls", "--memory", "200M", "--processes", "100")
        self.assertIn("memory: 200.0 MiB for the whole run (cgroup)\n", done.stderr)
        self.assertIn("processes: 100 for the whole run (cgroup)\n", done.stderr)
        done = run("--memory", "200M", "--processes", "100", "--", sandboxed.PYTHON, "-c", script)
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


class AsRoot(Limits, unittest.TestCase):
    pass


class AsOrdinaryUser(Limits, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
