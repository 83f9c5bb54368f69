#!/usr/bin/env python3
"""The relay killed at every system call of a delivery, and the sending command at every system call of its own: after a
restart each message was delivered once to each recipient, byte for byte and in order, its sender heard of each step
once, ledger and directories agree, and nothing is left over.

Without WARREN_CHECK_FULL every scenario is killed at a sample of its system calls, another one for each WARREN_SEED."""
import os
import random
import shutil
import subprocess
import time

from relaying import FULL, WARREN, RelayCase, main, parse, query

STEP_KILLER = os.environ["STEP_KILLER"]
SAMPLE = 22
NEVER = 10**9


class Scenario:
    """What happens while the relay may be killed. `steps` yields conditions to wait for; `wanted` is what every agent must
    have received when all is over, (sender, body) or (kind, state or error) of the relay's own, per agent in order."""
    recipients = ()

    def __init__(self, case, run):
        self.case, self.run, self.wanted, self.ids = case, run, {}, []

    def prepare(self):
        pass

    def send(self, agent, text):
        self.ids.append(self.case.send(agent, text))
        return self.ids[-1]


class Direct(Scenario):
    """Two messages with receipts to one agent, with bytes that are easily spoilt."""

    def steps(self):
        bodies = [f"{self.run} {number} \r\n\0\n\nTO: x\n" for number in range(2)]
        for body in bodies:
            self.send("alice", f"TO: bob\nRECEIPT: yes\n\n{body}")
        self.wanted = {"bob": [("alice", body) for body in bodies],
                       "alice": {one: ["delivered", "read"] for one in self.ids}}
        yield lambda: True


class Broadcast(Scenario):
    def steps(self):
        self.send("alice", f"TO: *\n\n{self.run}")
        self.wanted = {name: [("alice", str(self.run))] for name in ("bob", "carol", "dave")}
        yield lambda: True


class Waiting(Scenario):
    """For an agent that is inactive, and then is not."""

    def prepare(self):
        self.case.send("dave", "TO: __orchestrator__\nKIND: status\n\ninactive\n")
        self.case.pump(lambda: self.case.agent_status("dave") == "inactive")

    def steps(self):
        for number in range(2):
            self.send("alice", f"TO: dave\n\n{self.run} {number}")
        self.wanted = {"dave": [("alice", f"{self.run} {number}") for number in range(2)],
                       "alice": {one: ["stored"] for one in self.ids}}
        yield lambda: self.case.states(self.ids) == ["stored", "stored"]
        self.case.send("dave", "TO: __orchestrator__\nKIND: status\n\nactive\n")
        yield lambda: True


class Redelivery(Scenario):
    """Of a dead letter, to an agent that was not there when it was sent."""

    def prepare(self):
        if (self.case.root / "agents/ghost").exists():
            # In one step: a relay that is just completing the directory must not find half of it.
            gone = self.case.dir / f"ghost.{self.run}"
            (self.case.root / "agents/ghost").rename(gone)
            shutil.rmtree(gone)
        self.case.pump(lambda: self.case.agent_status("ghost") in (None, "terminated"))
        self.send("alice", f"TO: ghost\n\n{self.run}")
        self.case.pump(lambda: self.case.got.get("alice"))
        self.case.got.clear()
        (self.case.root / "agents/ghost").mkdir()
        self.case.pump(lambda: self.case.agent_status("ghost") == "active")
        self.letter = self.case.query("SELECT id FROM dead_letters WHERE closed_at IS NULL")[0][0]

    def steps(self):
        self.case.command("dead", "redeliver", str(self.letter), "--no-wait")
        self.wanted = {"ghost": [("alice", str(self.run))]}
        yield lambda: self.case.query("SELECT id FROM dead_letters WHERE closed_at IS NULL") == []


class Refused(Scenario):
    def steps(self):
        self.send("alice", f"TO: nobody\n\n{self.run}")
        self.wanted = {"alice": {self.ids[0]: ["not_found"]}}
        yield lambda: True

    def after(self):
        letters = self.case.query("SELECT count(*) FROM dead_letters WHERE message_id = ?", self.ids[0])
        self.case.assertEqual(letters, [(1,)])


class Strange(Scenario):
    """Not a file that can be read: a link. It is answered once, and moved aside, not deleted."""

    def steps(self):
        self.name = f"{1_706_123_456_789_000_000 + self.run}-a1b2c3d4"
        os.symlink("/etc/hostname", self.case.root / f"agents/alice/outbox/{self.name}.msg")
        self.wanted = {"alice": {f"alice/{self.name}": ["denied"]}}
        yield lambda: self.case.got.get("alice")

    def after(self):
        moved = list(self.case.root.glob(f"archive/*/alice/{self.name}.msg.strange"))
        self.case.assertEqual([os.readlink(one) for one in moved], ["/etc/hostname"])
        self.case.assertFalse(os.path.lexists(self.case.root / f"agents/alice/outbox/{self.name}.msg"))


class Conflict(Scenario):
    """Other bytes under the name of an earlier message."""

    def prepare(self):
        self.name = f"{1_706_123_456_789_000_000 + self.run}-a1b2c3d4.msg"
        self.ids.append(self.case.send("alice", f"TO: bob\n\n{self.run}", self.name))
        self.case.pump(lambda: self.case.states(self.ids) == ["read"])

    def steps(self):
        self.case.send("alice", f"TO: bob\n\n{self.run} but other", self.name)
        self.wanted = {"alice": {self.ids[0]: ["conflict"]}}
        yield lambda: True


class Kills(RelayCase):
    killed = False

    def start(self):
        started = self.log_size()
        self.process = subprocess.Popen([STEP_KILLER, "later", WARREN, "relay", "up", "--root", self.root],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait(lambda: b'"started"' in self.log_after(started), 60)

    def log_size(self):
        log = self.root / "relay.log"
        return log.stat().st_size if log.exists() else 0

    def log_after(self, offset):
        log = self.root / "relay.log"
        return log.read_bytes()[offset:] if log.exists() else b""

    def stop(self):
        """Ends the relay and says how many system calls it made since it was armed."""
        self.process.stdin.close()
        word, count = self.process.stdout.read().split()[-2:]
        self.kill()
        self.killed |= word == "killed"
        return int(count)

    def kill(self, how=9):
        if self.process is None:
            return
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        self.process.wait()  # without its standard input it ends what it runs
        self.process = None

    def query(self, sql, *values):
        return query(self.root, sql, *values)

    def agent_status(self, name):
        found = self.query("SELECT status FROM agents WHERE name = ?", name)
        return found[0][0] if found else None

    def states(self, ids):
        marks = ",".join("?" * len(ids))
        return [row[0] for row in self.query(f"SELECT state FROM every_delivery WHERE message_id IN ({marks})", *ids)]

    def receive(self):
        """Every agent takes what it has, in order, at whatever moment it appears."""
        for inbox in self.root.glob("agents/*/inbox"):
            for file in sorted(inbox.glob("*.msg")):
                self.got.setdefault(inbox.parent.name, []).append(parse(file.read_bytes()))
                file.rename(inbox / ".done" / file.name)

    def is_idle(self):
        open_ones = self.query("SELECT count(*) FROM every_delivery WHERE state IN ('pending', 'delivered')")
        open_messages = self.query("SELECT count(*) FROM every_message WHERE status = 'processing'")
        return open_ones == [(0,)] and open_messages == [(0,)] and not list(self.root.glob("agents/*/outbox/*.msg"))

    def pump(self, condition, seconds=60):
        """Waits, while agents receive; a relay that was killed is started again."""
        until = time.monotonic() + seconds
        while not condition():
            self.receive()
            if self.process.poll() is not None:
                self.assertEqual(self.process.stdout.read().split()[-2], "killed", self.process.stderr.read())
                self.killed = True
                self.kill()
                self.start()
            self.assertLess(time.monotonic(), until, "waited in vain")
            time.sleep(0.002)

    def play(self, kind, run, boundary):
        """Returns how many system calls it took; `killed` says whether the relay was killed at one."""
        scenario = kind(self, run)
        scenario.prepare()
        self.killed = False
        self.pump(self.is_idle)
        self.got.clear()
        self.process.stdin.write(f"{boundary}\n")
        self.process.stdin.flush()
        self.assertEqual(self.process.stdout.readline(), "armed\n")
        for condition in scenario.steps():
            self.pump(condition)
        self.pump(lambda: self.is_idle() and not list(self.root.glob("agents/*/inbox/*.msg")))
        count = self.stop()
        self.check(scenario)
        return count

    def check(self, scenario):
        own = {}
        for agent, got in self.got.items():
            sent = [(headers["FROM"], body.decode()) for headers, body in got if headers["FROM"] != "__orchestrator__"]
            if sent:
                own[agent] = sent
            told = {}
            for headers, body in got:
                if headers["FROM"] == "__orchestrator__":
                    told.setdefault(headers["REFERENCE"], []).append(headers.get("STATE") or headers.get("ERROR"))
            if told:
                self.assertNotIn(agent, own, "an agent of these scenarios sends or receives")
                own[agent] = told
        self.assertEqual(own, scenario.wanted)
        self.assertEqual(os.listdir(self.root / "tmp/deliveries"), [])
        if hasattr(scenario, "after"):
            scenario.after()
        self.fsck()

    def try_all(self, kind):
        self.got = {}
        self.start()
        self.agent("alice", "bob", "carol", "dave")
        total = self.play(kind, 0, NEVER)
        steps = list(range(1, total + 1))
        if not FULL:
            steps = sorted(random.sample(steps, min(SAMPLE, total)))
        killed = 0
        for step in steps:
            with self.subTest(kind=kind.__name__, boundary=step):
                try:
                    self.start()
                    self.play(kind, step, step)
                finally:
                    self.kill()
                killed += self.killed
        print(f"{kind.__name__}: {total} system calls, {killed} of {len(steps)} kills")
        self.assertGreater(killed, len(steps) // 2)

    def test_a_direct_message(self):
        self.try_all(Direct)

    def test_a_broadcast(self):
        self.try_all(Broadcast)

    def test_a_message_for_an_inactive_agent(self):
        self.try_all(Waiting)

    def test_a_dead_letter_delivered_again(self):
        self.try_all(Redelivery)

    def test_a_refused_message(self):
        self.try_all(Refused)

    def test_a_strange_file(self):
        self.try_all(Strange)

    def test_a_conflict(self):
        self.try_all(Conflict)

    def test_the_sending_command(self):
        self.got = {}
        self.start()
        self.agent("alice", "bob")
        reported, total = {}, self.send_killed("0", NEVER, {})
        # Its last system calls are those that matter; one run is not killed at all, even if it takes some calls more.
        unkilled = total + 100
        steps = [*range(1 if FULL else max(1, total - 50), total + 2), unkilled]
        for step in steps:
            self.send_killed(str(step), step, reported)
        self.pump(self.is_idle)
        self.pump(lambda: not list(self.root.glob("agents/bob/inbox/*.msg")))
        bodies = [body.decode().strip() for _, body in self.got["bob"]]
        self.assertEqual(len(bodies), len(set(bodies)), "twice")
        self.assertEqual({"0", *reported} - set(bodies), set(), "reported and lost")
        ids = {body.decode().strip(): headers["ID"] for headers, body in self.got["bob"]}
        for body, name in reported.items():
            self.assertEqual(ids[body], name)
        self.assertLessEqual(set(bodies), {"0", *map(str, steps)})
        self.assertIn(str(unkilled), reported)
        print(f"send: {total} system calls, {len(steps)} kills, {len(reported)} reported, {len(bodies) - 1} arrived")
        self.stop()
        self.fsck()

    def send_killed(self, body, boundary, reported):
        """Notes the id if the command printed one; returns how many system calls it took."""
        words = [STEP_KILLER, "start", str(boundary), WARREN, "relay", "send", "bob", body, "--from", "alice", "--root", self.root]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            lines = process.stdout.read().splitlines()
        if len(lines) == 2:
            reported[body] = lines[0]
        self.receive()
        return int(lines[-1].split()[1])


if __name__ == "__main__":
    seed = int(os.environ.get("WARREN_SEED", time.time()))
    print(f"WARREN_SEED={seed}")
    random.seed(seed)
    main()
