#!/usr/bin/env python3
"""Processes of `warren run`: several of one session at once, signals, and kills.

    WARREN=path/to/warren processes.py [-v] [AsRoot.test_name]

Needs root. What does not depend on who runs it is tried as root and as an ordinary user.
"""
import json
import os
import pathlib
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import commanding
import sandboxed
from sandboxed import wait_for

ROUNDS = 30 if sandboxed.mounted.FULL else 6


class Processes(commanding.Commands):
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


class AsRoot(Processes, unittest.TestCase):
    pass


class AsOrdinaryUser(Processes, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
