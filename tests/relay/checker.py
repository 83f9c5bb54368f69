#!/usr/bin/env python3
"""Senders that use the file protocol, agents that take what comes, and the relay and senders killed at random: then every
message whose sender finished its protocol was delivered exactly once to each recipient, in its sender's order, nothing
was invented, senders were told of each step once and never before its time, and the ledger and the directories agree,
also at every moment at which the relay was killed."""
import collections
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

from relaying import FULL, WARREN, RelayCase, die_with_parent, main, mount_disk, parse, query, write_message

SENDERS = [f"sender{i}" for i in range(4)]
RECEIVERS = ["red", "blue"]
AGENTS = [*SENDERS, *RECEIVERS]
KILLS = 1000 if FULL else 60
PAUSE = 0.02 if FULL else 0.004  # at most, between messages: agents in Python take what comes more slowly than it could come
LIFE = 1_000_000  # a sender that starts again counts on from the next multiple
TARGETS = ("red", "blue", "*", "#news")


def recipients_of(sender, to):
    return {"*": set(AGENTS) - {sender}, "#news": set(RECEIVERS)}.get(to, {to})


def wants_receipt(number):
    return number % 5 == 0 and number % 200 < 100  # where nobody is to be told, recording waits for a quiet moment


def send_for_ever(root, agent, journal, start):
    """A child process: each line of the journal is a message whose protocol is over."""
    out = open(journal, "a", buffering=1)
    number = start
    while True:
        receipt = "RECEIPT: yes\n" if wants_receipt(number) else ""
        message = write_message(root, agent, f"TO: {TARGETS[number % 4]}\n{receipt}\n{agent} {number}\n")
        out.write(f"{number} {message}\n")
        number += 1
        time.sleep(random.random() * PAUSE)


class Agent(threading.Thread):
    """Takes what comes, in order of names, some by unlinking and some by moving to .done. Two of them may share an inbox:
    who takes a file under another name has it."""

    def __init__(self, case, name):
        super().__init__(daemon=True)
        self.case, self.agent = case, name
        self.inbox = case.root / "agents" / name / "inbox"
        self.got = []  # (file, headers, body)
        self.problems = []
        self.done = False

    def run(self):
        try:
            while not self.done:
                self.take_all()
                time.sleep(0.003)
            self.take_all()
        except Exception as error:  # a thread's exception would be lost
            self.problems.append(repr(error))

    def list_inbox(self):
        """Twice, as the relay's page says: a large directory is not read at one moment."""
        before = max(self.inbox.glob("*.msg"), default=None)
        return [] if before is None else [file for file in sorted(self.inbox.glob("*.msg")) if file <= before]

    def take_all(self):
        for file in self.list_inbox():
            mine = self.inbox / f".{threading.get_ident()}"
            try:
                headers, body = parse(file.read_bytes())
                self.case.taken.add((headers["ID"], self.agent))  # before the relay can know
                file.rename(mine)
            except FileNotFoundError:
                continue  # the other one has it
            self.check_receipt(headers)
            self.got.append((file.name, headers, body))
            if random.random() < 0.5:
                mine.unlink()
            else:
                mine.rename(self.inbox / ".done" / file.name)

    def check_receipt(self, headers):
        state, message = headers.get("STATE"), headers.get("REFERENCE")
        recipient = headers.get("RECIPIENT")
        if state == "read" and (message, recipient) not in self.case.taken:
            self.problems.append(f"{message} is said to be read by {recipient}, too early")
        if state == "delivered" and not self.case.is_delivered(message, recipient):
            self.problems.append(f"{message} is said to be delivered to {recipient}, too early")


class Checker(RelayCase):
    def setUp(self):
        super().setUp()
        if FULL:
            mount_disk(self, self.dir / "disk", 8192, 1_000_000)
            self.root = self.dir / "disk/root"

    def start_sender(self, agent):
        self.lives[agent] += 1
        start = self.lives[agent] * LIFE  # what a killed sender did last it cannot know: it goes on above
        words = [sys.executable, __file__, "--send", self.root, agent, self.dir / f"{agent}.journal", str(start)]
        return subprocess.Popen(words, preexec_fn=die_with_parent)

    def start_relay(self):
        self.process = subprocess.Popen([WARREN, "relay", "up", "--root", self.root], stderr=subprocess.PIPE,
                                        preexec_fn=die_with_parent)

    def is_delivered(self, message, recipient):
        if (message, recipient) in self.taken:
            return True
        digest = hashlib.sha256(message.encode()).hexdigest()[:16]  # names in inboxes end so
        found = list((self.root / "agents" / recipient / "inbox").glob(f"*-{digest}.msg"))
        return bool(found) or (message, recipient) in self.taken

    def check_dead_moment(self):
        """The relay is dead: what the ledger calls delivered was delivered, what it calls pending is staged or was."""
        for message, recipient, state, file in query(
                self.root, "SELECT message_id, recipient, state, inbox_name FROM every_delivery WHERE state IN ('pending', 'delivered')"):
            is_staged = (self.root / "tmp/deliveries" / f"{file}.{recipient}").exists()
            self.assertTrue((is_staged and state == "pending") or self.is_delivered(message, recipient),
                            f"{message} to {recipient} is {state} and nowhere")

    def test_every_finished_message_arrives_once_and_in_order(self):
        seed = int(os.environ.get("WARREN_SEED", time.time()))
        print(f"WARREN_SEED={seed}", file=sys.stderr)
        random.seed(seed)
        self.lives = dict.fromkeys(SENDERS, 0)
        self.taken = set()
        self.start_relay()
        self.wait(lambda: self.log_events("started"), 60)
        self.agent(*AGENTS)
        for name in RECEIVERS:
            self.command("subscribe", name, "#news")
        self.wait(lambda: self.command("channels").stdout == "#news blue red\n")
        agents = [Agent(self, name) for name in [*AGENTS, "blue"]]  # two of blue
        for agent in agents:
            agent.start()
        senders = {name: self.start_sender(name) for name in SENDERS}
        for kill in range(KILLS):
            time.sleep(random.random() * 0.15)
            if kill % 4 == 3:
                victim = random.choice(SENDERS)
                senders[victim].kill()
                senders[victim].wait()
                senders[victim] = self.start_sender(victim)
            else:
                self.kill()
                self.check_dead_moment()
                self.start_relay()
        for sender in senders.values():
            sender.kill()
            sender.wait()
        self.wait(lambda: self.is_idle(), 300)
        for agent in agents:
            agent.done = True
            agent.join()
        self.assertEqual([problem for agent in agents for problem in agent.problems], [])
        self.check(agents)
        self.assertEqual(self.kill(signal.SIGTERM), 0)
        self.assertEqual(os.listdir(self.root / "tmp/deliveries"), [])
        self.fsck()

    def is_idle(self):
        """All was taken from outboxes, delivered, and taken from inboxes."""
        if list(self.root.glob("agents/*/outbox/*.msg")) or list(self.root.glob("agents/*/inbox/*.msg")):
            return False
        return query(self.root, "SELECT count(*) FROM every_delivery WHERE state IN ('pending', 'delivered')") == [(0,)]

    def check(self, agents):
        got = collections.defaultdict(list)  # recipient → (file, headers, body), in order of names
        for agent in agents:
            names = [file for file, _, _ in agent.got]
            if agent.agent != "blue":
                late = [name for before, name in zip(names, names[1:]) if name < before]
                self.assertEqual(late, [], f"{agent.agent}: names are not in the order of arrival")
            got[agent.agent] += agent.got
        journals = {name: self.journal(name) for name in SENDERS}
        for recipient in AGENTS:
            got[recipient].sort(key=lambda one: one[0])
            for sender in SENDERS:
                if sender != recipient:
                    self.check_pair(sender, recipient, journals[sender], got[recipient])
        for sender in SENDERS:
            self.check_receipts(sender, journals[sender], got[sender])
        count = sum(map(len, journals.values()))
        self.assertGreater(count, KILLS)
        print(f"{count} messages, {sum(map(len, got.values()))} deliveries, {KILLS} kills", file=sys.stderr)

    def journal(self, sender):
        """number → id of every message whose protocol was over."""
        lines = (self.dir / f"{sender}.journal").read_text().splitlines()
        return {int(number): message for number, message in map(str.split, lines)}

    def check_pair(self, sender, recipient, journal, got):
        numbers = [int(body.split()[1]) for _, headers, body in got if headers["FROM"] == sender]
        self.assertEqual(numbers, sorted(set(numbers)), f"{sender} to {recipient}: twice, or out of order")
        wanted = {number for number in journal if recipient in recipients_of(sender, TARGETS[number % 4])}
        self.assertEqual(wanted - set(numbers), set(), f"{sender} to {recipient}: lost")
        for extra in set(numbers) - wanted:  # what a sender was killed in may have arrived, and nothing else
            self.assertTrue(extra - 1 in journal or extra % LIFE == 0, f"{sender} to {recipient}: invented {extra}")
            self.assertNotIn(extra, journal, f"{sender} to {recipient}: not for it")

    def check_receipts(self, sender, journal, got):
        told = collections.defaultdict(list)
        for _, headers, _ in got:
            if headers["FROM"] == "__orchestrator__":
                self.assertEqual(headers["KIND"], "status", headers)
                told[headers["REFERENCE"], headers["RECIPIENT"]].append(headers["STATE"])
        for number, message in journal.items():
            for recipient in recipients_of(sender, TARGETS[number % 4]):
                states = ["delivered", "read"] if wants_receipt(number) else []
                self.assertEqual(told.get((message, recipient), []), states, f"{message} to {recipient}")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--send":
        send_for_ever(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    main()
