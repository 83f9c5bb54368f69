#!/usr/bin/env python3
"""The relay killed at the system calls between a request to spawn and the running agent: its program is run at most once,
what was written down is true, and whoever asked hears the end of it."""
import collections
import pathlib
import re
import shutil
import subprocess
import sys

from relaying import FULL, main
from spawning import SpawnCase, is_alive

SAMPLES = 10**6 if FULL else 60


class SpawnKills(SpawnCase):
    def attach(self, *options):
        """strace on the one thread that does the work; agents are not followed."""
        tracer = subprocess.Popen(["strace", "-qq", "-p", str(self.process.pid), *options], stderr=subprocess.DEVNULL)
        self.addCleanup(tracer.kill)
        status = f"/proc/{self.process.pid}/task/{self.process.pid}/status"
        self.wait(lambda: "TracerPid:\t0\n" not in pathlib.Path(status).read_text())
        return tracer

    def begin(self):
        shutil.rmtree(self.root / "agents", ignore_errors=True)
        for name in self.root.glob("ledger.db*"):
            name.unlink()
        for name in (self.work / "runs", self.root / "relay.log"):
            name.unlink(missing_ok=True)
        self.up()
        self.agent("alice")

    def calls_of_a_spawn(self):
        """Which system calls there are from the request on, until the agent was let go; and which is the fork."""
        self.begin()
        trace = self.dir / "trace"
        tracer = self.attach("-o", str(trace))
        self.ask("alice", "worker")
        self.wait(lambda: self.states("alice") == ["spawned"] and len(self.runs()) == 1, 60)
        tracer.terminate()
        tracer.wait()
        self.kill()
        self.end_agents()
        lines = trace.read_text().splitlines()
        names = [match[1] for match in (re.match(r"(\w+)\(", line) for line in lines) if match]
        fork = next(at for at, name in enumerate(names) if name in ("clone", "clone3", "fork"))
        gate = next(at for at, line in enumerate(lines) if re.match(r'write\(\d+, "\\1", 1\)', line))
        self.assertLess(fork, gate)
        return names, fork, gate

    def test_no_program_is_run_twice_wherever_the_relay_is_killed(self):
        names, fork, gate = self.calls_of_a_spawn()
        last = min(len(names), gate + 10)
        # The first is what it waits in while nothing happens.
        chosen = set(range(1, last, max(1, last * 2 // SAMPLES))) | set(range(fork - 2, gate + 3, max(1, (gate - fork) * 2 // SAMPLES)))
        chosen |= {fork, fork + 1, gate, gate + 1}
        outcomes = collections.Counter()
        for at in sorted(chosen):
            call, times = names[at], names[:at + 1].count(names[at])
            try:
                outcomes[self.kill_at(call, times)] += 1
            except AssertionError as error:
                raise AssertionError(f"killed at {call}, number {times}") from error
        print(f"{len(chosen)} of {last} calls (fork at {fork}, let go at {gate}): {dict(outcomes)}", file=sys.stderr)
        self.assertGreater(outcomes["running"], 0)

    def kill_at(self, call, times):
        self.begin()
        tracer = self.attach("-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={times}")
        self.ask("alice", "worker")
        relay = self.process
        self.process = None  # that it ends is what is wanted
        self.wait(lambda: relay.poll() is not None or len(self.runs()) == 1, 60)
        if relay.poll() is None:  # the calls came in another number this time: then it is killed after all of them
            relay.kill()
        relay.wait()
        relay.stderr.close()
        tracer.wait()
        self.up()
        self.wait(lambda: self.lives().get("worker", {}).get("state") in ("running", "exited"), 60)
        self.wait(lambda: "spawned" in self.states("alice"))
        state = self.lives()["worker"]["state"]
        if state == "running":
            pid = self.lives()["worker"]["pid"]
            self.wait(lambda: self.runs() or self.lives()["worker"]["state"] == "exited", 60)
            state = self.lives()["worker"]["state"]
        if state == "running":
            self.assertEqual([int(run[0]) for run in self.runs()], [pid])
            self.assertTrue(is_alive(pid))
        else:  # written down, but not let go: it never ran, and that is said
            self.assertEqual(self.runs(), [])
            self.wait(lambda: self.states("alice") == ["spawned", "exited"])
        self.assertEqual(self.states("alice").count("spawned"), 1)
        self.kill()
        self.fsck()
        self.end_agents()
        return state


if __name__ == "__main__":
    main()
