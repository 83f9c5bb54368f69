#!/usr/bin/env python3
"""Senders that use the file protocol, a relay and senders killed at random: then every message whose sender finished its
protocol was delivered exactly once to each recipient, in its sender's order, nothing was invented, and the ledger and
the directories agree."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

from relaying import FULL, RelayCase, main, parse, write_message

SENDERS = [f"sender{i}" for i in range(4)]
RECEIVERS = ["red", "blue"]
KILLS = 1000 if FULL else 60


def send_for_ever(root, agent, journal, start):
    """A child process: each line of the journal is a message whose protocol is over."""
    out = open(journal, "a", buffering=1)
    number = start
    while True:
        to = ("red", "blue", "*")[number % 3]
        write_message(root, agent, f"TO: {to}\n\n{agent} {number}\n")
        out.write(f"{number} {to}\n")
        number += 1
        time.sleep(random.random() * 0.004)


class Receiver(threading.Thread):
    """Takes what comes, in order of names, some by unlinking and some by moving to .done."""

    def __init__(self, root, agent):
        super().__init__(daemon=True)
        self.inbox = pathlib.Path(root) / "agents" / agent / "inbox"
        self.got = []
        self.done = False

    def run(self):
        while not self.done:
            self.take_all()
            time.sleep(0.003)
        self.take_all()

    def take_all(self):
        for file in sorted(self.inbox.glob("*.msg")):
            headers, body = parse(file.read_bytes())
            self.got.append((headers["FROM"], body))
            if random.random() < 0.5:
                file.unlink()
            else:
                file.rename(self.inbox / ".done" / file.name)


class Checker(RelayCase):
    def start_sender(self, agent):
        self.lives[agent] += 1
        start = self.lives[agent] * 1_000_000  # what a killed sender did last it cannot know: it goes on above
        return subprocess.Popen([sys.executable, __file__, "--send", self.root, agent, self.dir / f"{agent}.journal", str(start)])

    def test_every_finished_message_arrives_once_and_in_order(self):
        random.seed(20261115)
        self.lives = dict.fromkeys(SENDERS, 0)
        self.up()
        self.agent(*RECEIVERS, *SENDERS)
        receivers = {name: Receiver(self.root, name) for name in RECEIVERS}
        for receiver in receivers.values():
            receiver.start()
        senders = {name: self.start_sender(name) for name in SENDERS}
        for kill in range(KILLS):
            time.sleep(random.random() * 0.15)
            if kill % 4 == 3:
                victim = random.choice(SENDERS)
                senders[victim].kill()
                senders[victim].wait()
                senders[victim] = self.start_sender(victim)
            else:
                self.process.kill()
                self.process.wait()
                self.process.stderr.close()
                self.process = subprocess.Popen([os.environ["WARREN"], "relay", "up", "--root", self.root],
                                                stderr=subprocess.PIPE)
        for sender in senders.values():
            sender.kill()
            sender.wait()
        self.wait(lambda: not any(list((self.root / "agents" / name / "outbox").glob("*.msg")) for name in SENDERS), 60)
        self.wait(lambda: self.command("status", "--json").stdout.find('"pending"') < 0, 60)
        for receiver in receivers.values():
            receiver.done = True
            receiver.join()
        self.check(receivers)
        self.assertEqual(self.kill(signal.SIGTERM), 0)
        self.fsck()

    def check(self, receivers):
        finished = 0
        for agent in SENDERS:
            sent = [line.split() for line in (self.dir / f"{agent}.journal").read_text().splitlines()]
            finished += len(sent)
            known = {int(number) for number, _ in sent}
            for name, receiver in receivers.items():
                got = [int(body.split()[1]) for sender, body in receiver.got if sender == agent]
                self.assertEqual(len(got), len(set(got)), f"{agent} to {name}: twice")
                self.assertEqual(got, sorted(got), f"{agent} to {name}: out of order")
                wanted = {int(number) for number, to in sent if to in (name, "*")}
                self.assertEqual(wanted - set(got), set(), f"{agent} to {name}: lost")
                # The one a sender was killed in may have arrived: its next number, and nothing else.
                for extra in set(got) - wanted:
                    self.assertTrue(extra - 1 in known or extra % 1_000_000 == 0, f"{agent} to {name}: invented {extra}")
                    self.assertNotIn(extra, known)
        self.assertGreater(finished, KILLS)
        print(f"{finished} messages, {KILLS} kills", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--send":
        send_for_ever(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    main()
