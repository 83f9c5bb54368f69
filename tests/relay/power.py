#!/usr/bin/env python3
"""Power cuts. The relay's directory is on an ext4 image; while messages flow, everything is stopped and the image is
copied as the disk has it: what was not synced is not in the copy. On each copy a relay is started: every message whose
sender had finished its protocol at the cut is delivered once to each recipient, byte for byte and in order, and the
ledger and the directories agree."""
import glob
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from relaying import FULL, WARREN, RelayCase, die_with_parent, main, parse, query, write_message

CUTS = 100 if FULL else 12
BY_FILES = ["ann", "ben"]
BY_COMMAND = "cid"
SENDERS = [*BY_FILES, BY_COMMAND]
RECEIVERS = ["red", "blue"]
WAL_PAGES = 1000  # SQLite then starts its log anew, and appending no longer changes its size


def body_of(agent, number):
    size = int(hashlib.sha256(f"{agent}{number}".encode()).hexdigest()[:4], 16) % 6_000
    return f"{agent} {number} " + "x" * size + "."


def send_for_ever(root, agent, journal):
    """A child process. Each line of the journal, which no power cut touches, is a message whose protocol is over."""
    subprocess._USE_VFORK = False  # a child stopped before its exec would keep its parent from stopping
    out = open(journal, "a", buffering=1)
    number = 0
    pause = pathlib.Path(f"{journal}.pause")  # one more message, and then none as long as it is there
    while True:
        was_asked = pause.exists()
        to = ("red", "blue", "*")[number % 3]
        body = body_of(agent, number)
        if agent == BY_COMMAND:
            subprocess.run([WARREN, "relay", "send", to, "--from", agent, "--root", root], input=body.encode(), check=True,
                           stdout=subprocess.DEVNULL)
        else:
            write_message(root, agent, f"TO: {to}\n\n{body}")
        out.write(f"{number} {to}\n")
        number += 1
        if was_asked:
            pathlib.Path(f"{journal}.rests").touch()
            while pause.exists():
                time.sleep(0.005)
        time.sleep(random.random() * 0.03)


def receive_for_ever(root, agent):
    """A child process that takes what comes, and syncs nothing."""
    inbox = pathlib.Path(root) / "agents" / agent / "inbox"
    while True:
        for file in sorted(inbox.glob("*.msg")):
            file.rename(inbox / ".done" / file.name)
        time.sleep(0.005)


class Power(RelayCase):
    def setUp(self):
        super().setUp()
        self.image = self.dir / "image"
        self.disk = self.make_disk(self.image, "disk", 1024)
        self.root = self.disk / "root"
        self.journals = self.dir / "journals"
        self.journals.mkdir()
        self.children = []
        self.copies = 0
        self.addCleanup(self.end_children)

    def make_disk(self, image, name, mebibytes=0):
        if mebibytes:
            with open(image, "wb") as out:
                out.truncate(mebibytes << 20)
            subprocess.run(["mkfs.ext4", "-q", "-F", "-N", str(mebibytes << 8), "-J", "size=16", image], check=True)
        place = self.dir / name
        place.mkdir(exist_ok=True)
        # Nothing reaches the disk by the passing of time alone.
        subprocess.run(["mount", "-o", "loop,commit=900", image, place], check=True)
        self.addCleanup(lambda: subprocess.run(["umount", "-q", "-l", place], capture_output=True))
        return place

    def start(self, *words):
        self.children.append(subprocess.Popen([sys.executable, __file__, *words], start_new_session=True,
                                              preexec_fn=die_with_parent))

    def end_children(self):
        for child in self.children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()

    @staticmethod
    def group_states(group):
        """Of every thread of a process group."""
        states = []
        for stat in glob.glob("/proc/[0-9]*/task/[0-9]*/stat"):  # not pathlib's, which fails when a process ends
            try:
                fields = pathlib.Path(stat).read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group:
                states.append(fields[0])
        return states

    def freeze(self, groups):
        for group in groups:
            os.killpg(group, signal.SIGSTOP)
        for group in groups:
            self.wait(lambda: set(self.group_states(group)) <= set("TtZ"), 60)

    def thaw(self, groups):
        for group in groups:
            os.killpg(group, signal.SIGCONT)

    def test_what_was_acknowledged_survives_every_cut(self):
        seed = int(os.environ.get("WARREN_SEED", time.time()))
        print(f"WARREN_SEED={seed}", file=sys.stderr)
        random.seed(seed)
        self.up(start_new_session=True, preexec_fn=die_with_parent)
        self.agent(*RECEIVERS, *SENDERS)
        for agent in SENDERS:
            self.start("--send", str(self.root), agent, str(self.journals / agent))
        for agent in RECEIVERS:
            self.start("--receive", str(self.root), agent)
        self.wait(lambda: (self.root / "ledger.db-wal").stat().st_size > WAL_PAGES * 4096, 120)
        acknowledged = 0
        for cut in range(CUTS):
            time.sleep(0.05 + random.random() * 0.5)
            groups = [*(child.pid for child in self.children), self.process.pid]
            copy, sent = self.cut(("sudden", "quiet", "sent")[cut % 3], groups)
            with self.subTest(cut=cut):  # everything rests meanwhile, or the last cuts would take minutes each
                acknowledged += self.examine(copy, sent)
            self.thaw(groups)
        print(f"{CUTS} cuts, {acknowledged} messages acknowledged before them", file=sys.stderr)

    def cut(self, kind, groups):
        """Leaves everything stopped. A quiet cut comes when all was delivered and nobody synced anything since; in the third kind the command that
        sends was the last that did."""
        children = groups[:-1]
        for child in self.children:
            self.assertIsNone(child.poll(), "a sender failed")
        if kind == "quiet":
            self.freeze(children[:len(SENDERS)])
            time.sleep(0.05 + random.random() * 0.1)
        if kind == "sent":
            self.freeze([group for group in groups if group != children[SENDERS.index(BY_COMMAND)]])
            pause, rests = (self.journals / f"{BY_COMMAND}.{word}" for word in ("pause", "rests"))
            rests.unlink(missing_ok=True)
            pause.touch()
            self.wait(rests.exists, 60)
        self.freeze(groups)
        self.copies += 1
        copy = self.dir / f"copy{self.copies}"  # of its own: the system may still have blocks of the last one in memory
        self.wait(lambda: self.copy_of_a_moment(copy), 120)
        sent = {agent: [line.split() for line in (self.journals / agent).read_text().splitlines()] for agent in SENDERS}
        (self.journals / f"{BY_COMMAND}.pause").unlink(missing_ok=True)
        return copy, sent

    def copy_of_a_moment(self, copy):
        """Whether nothing was written to the disk while it was copied: the kernel writes when it likes, and other programs
        of this machine may sync all there is."""
        subprocess.run(["cp", "--sparse=always", self.image, copy], check=True)
        return subprocess.run(["cmp", "-s", self.image, copy]).returncode == 0

    def examine(self, copy, sent):
        place = self.make_disk(copy, "after")
        try:
            self.finish(place / "root")
            for receiver in RECEIVERS:
                self.check(place / "root" / "agents" / receiver, receiver, sent)
        finally:
            self.wait(lambda: subprocess.run(["umount", place], capture_output=True).returncode == 0, 60)
            copy.unlink()
        return sum(map(len, sent.values()))

    def finish(self, root):
        starts = self.count_starts(root)
        with subprocess.Popen([WARREN, "relay", "up", "--root", root], preexec_fn=die_with_parent) as relay:
            try:
                self.wait(lambda: relay.poll() is not None or (self.count_starts(root) > starts and self.is_idle(root)), 60)
                self.assertIsNone(relay.poll(), "it does not start")
            finally:
                relay.terminate()
        self.assertEqual(relay.returncode, 0)
        done = subprocess.run([WARREN, "relay", "fsck", "--root", root], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(os.listdir(root / "tmp/deliveries"), [])

    @staticmethod
    def count_starts(root):
        log = root / "relay.log"
        return log.read_bytes().count(b'"event":"started"') if log.exists() else 0

    @staticmethod
    def is_idle(root):
        waiting = query(root, "SELECT count(*) FROM every_delivery WHERE state = 'pending'")
        return waiting == [(0,)] and not list(root.glob("agents/*/outbox/*.msg"))

    def check(self, home, receiver, sent):
        files = sorted([*home.glob("inbox/*.msg"), *home.glob("inbox/.done/*.msg")], key=lambda file: file.name)
        got = {}
        for headers, body in (parse(file.read_bytes()) for file in files):
            self.assertIn("FROM", headers, "a file without its content")
            agent, number = headers["FROM"], int(body.split()[1])
            self.assertEqual(body.decode(), body_of(agent, number))
            got.setdefault(agent, []).append(number)
        for agent, lines in sent.items():
            numbers = got.get(agent, [])
            self.assertEqual(numbers, sorted(set(numbers)), f"{agent} to {receiver}: twice, or out of order")
            wanted = {int(number) for number, to in lines if to in (receiver, "*")}
            self.assertEqual(wanted - set(numbers), set(), f"{agent} to {receiver}: lost")
            self.assertLessEqual(set(numbers) - wanted, {len(lines)}, f"{agent} to {receiver}: invented")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--send"]:
        send_for_ever(*sys.argv[2:])
    if sys.argv[1:2] == ["--receive"]:
        receive_for_ever(*sys.argv[2:])
    main()
