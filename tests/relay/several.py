#!/usr/bin/env python3
"""Relays that share a ledger on PostgreSQL: files that go from one to another while everything is killed, agents that are
released from elsewhere, a database that is away when a relay starts, four relays, and TCP with TLS and a password."""
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import postgres
from postgres_server import TlsServer, make_certificate
from relaying import FULL, WARREN, configure, main, write_message

MIB = 1 << 20
PIECE = 256 << 10


def setUpModule():
    postgres.setUpModule()


def tearDownModule():
    postgres.tearDownModule()


def put(root, content):
    """Into a root's store, by the protocol; the hash."""
    name = hashlib.sha256(content).hexdigest()
    place = pathlib.Path(root) / "attachments" / name[:2]
    place.mkdir(mode=0o700, exist_ok=True)
    draft = pathlib.Path(root) / "attachments/.pending" / os.urandom(8).hex()
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view):]
    os.fsync(fd)
    os.close(fd)
    os.rename(draft, place / name)
    for folder in (place, place.parent):
        parent = os.open(folder, os.O_RDONLY)
        os.fsync(parent)
        os.close(parent)
    return name


class Several(postgres.TwoRelays):
    def attach(self, side, sender, to, content, body="x"):
        name = put(side.root, content)
        return write_message(side.root, sender, f"TO: {to}\nATTACHMENT: sha256:{name} file.bin\n\n{body}")

    def file_at(self, side, content):
        """Whether the content is in that root's store, whole."""
        name = hashlib.sha256(content).hexdigest()
        path = side.root / "attachments" / name[:2] / name
        return path.exists() and path.read_bytes() == content

    def nacks(self, side, agent):
        return [(headers.get("ERROR"), body.decode()) for headers, body in self.inbox_at(side, agent) if headers["KIND"] == "nack"]


for inherited in [name for name in dir(postgres.TwoRelays) if name.startswith("test_")]:
    setattr(Several, inherited, None)  # once is enough


class Letters(Several):
    def letters(self, side):
        return json.loads(self.on(side).command("dead", "list", "--json").stdout)

    def test_a_redelivery_is_not_done_before_the_other_relay_made_it(self):
        self.up_both()
        self.agents_at(self.left, "alice")
        write_message(self.left.root, "alice", "TO: bob\n\nx")
        self.wait(lambda: self.letters(self.left))
        letter = str(self.letters(self.left)[0]["id"])
        self.agents_at(self.right, "bob")
        self.wait(lambda: "bob" in self.on(self.left).statuses())
        self.right.kill()
        done = self.on(self.left).command("dead", "redeliver", letter, "--timeout", "2s", code=1)
        self.assertIn("is not delivered yet", done.stderr)
        self.right.up()
        self.wait(lambda: self.inbox_at(self.right, "bob"))

    def test_a_letter_of_another_relay_needs_no_relay_here(self):
        self.up_both()
        self.agents_at(self.left, "alice")
        self.agents_at(self.right, "ann")
        write_message(self.left.root, "alice", "TO: bob\n\nx")
        self.wait(lambda: self.letters(self.right))
        self.right.kill()
        letter = str(self.letters(self.right)[0]["id"])
        self.left.process.send_signal(signal.SIGSTOP)
        request = subprocess.Popen([WARREN, "relay", "dead", "discard", letter, "--root", self.right.root], stderr=subprocess.PIPE)
        self.wait(lambda: self.query("SELECT count(*) FROM pending_operations WHERE completed_at IS NULL") == "1")
        self.left.process.send_signal(signal.SIGCONT)
        self.assertEqual((request.wait(60), request.stderr.read()), (0, b""))
        request.stderr.close()
        self.assertEqual(self.letters(self.right), [])


class Files(Several):
    def test_a_file_is_there_before_its_message_and_the_ledger_keeps_nothing(self):
        self.up_both()
        self.agents_at(self.left, "alice", "ann")
        self.agents_at(self.right, "bob")
        contents = [b"", b"1", os.urandom(PIECE), os.urandom(PIECE + 1), os.urandom(5 * MIB + 3)]
        ids = [self.attach(self.left, "alice", "bob", content, str(i)) for i, content in enumerate(contents)]
        ids.append(write_message(self.left.root, "alice", "TO: bob\n\n5"))
        self.wait(lambda: self.state(ids[-1]) == {"bob": "delivered"})
        self.assertEqual([int(body) for _, body in self.inbox_at(self.right, "bob")], list(range(6)))
        for content in contents:
            self.assertTrue(self.file_at(self.right, content), len(content))
        everyone = self.attach(self.left, "alice", "*", contents[4])  # is there already
        self.wait(lambda: self.state(everyone) == {"ann": "delivered", "bob": "delivered"})
        taken = self.on(self.right).command("inbox", "bob", "--take", "--save", str(self.dir / "saved"))
        self.assertIn("file.bin", taken.stdout)
        self.assertEqual(max(path.stat().st_size for path in (self.dir / "saved").iterdir()), len(contents[4]))
        self.finish()

    def test_only_those_behind_a_file_wait_for_it(self):
        self.up_both()
        self.agents_at(self.left, "alice", "ann")
        self.agents_at(self.right, "bob")
        self.right.kill()
        content = os.urandom(MIB)
        first = self.attach(self.left, "alice", "bob", content, "0")
        self.wait(lambda: self.state(first) == {"bob": "routed"})
        self.query("DELETE FROM attachment_pieces; DELETE FROM carried_attachments")  # who has it is down, too
        self.left.kill()
        self.right.up()
        self.on(self.right).wait(lambda: self.log_events("attachment_waits"))
        self.agents_at(self.right, "carol")
        later = write_message(self.right.root, "carol", "TO: bob\n\nfrom carol")
        self.wait(lambda: self.state(later) == {"bob": "delivered"})
        self.left.up()
        behind = write_message(self.left.root, "alice", "TO: bob\n\n1")
        other = write_message(self.left.root, "ann", "TO: bob\n\nfrom ann")
        self.wait(lambda: self.state(behind) == {"bob": "delivered"} and self.state(other) == {"bob": "delivered"})
        bodies = [body for _, body in self.inbox_at(self.right, "bob")]
        self.assertLess(bodies.index(b"0"), bodies.index(b"1"))
        self.assertTrue(self.file_at(self.right, content))
        self.finish()

    def test_pieces_that_were_spoilt_in_the_ledger_are_asked_for_again(self):
        self.up_both()
        self.agents_at(self.left, "alice")
        self.agents_at(self.right, "bob")
        for spoil in ("UPDATE attachment_pieces SET content = 'other'", "DELETE FROM attachment_pieces",
                      "UPDATE attachment_pieces SET content = content || content"):
            self.right.kill()
            content = os.urandom(2 * PIECE + 17)
            message = self.attach(self.left, "alice", "bob", content)
            self.on(self.left).wait(lambda: self.state(message) == {"bob": "routed"})
            self.query(spoil)
            self.right.up()
            self.wait(lambda: self.state(message) == {"bob": "delivered"})
            self.assertTrue(self.file_at(self.right, content))
        self.finish()

    def test_what_was_held_or_stored_finds_its_file_at_another_home(self):
        self.up_both()
        self.agents_at(self.left, "alice", "bob")
        held, stored = os.urandom(MIB), os.urandom(2 * MIB)
        first = self.attach(self.left, "alice", "Lead", held)
        self.wait(lambda: self.state(first) == {"Lead": "held"})
        write_message(self.left.root, "bob", "TO: __orchestrator__\nKIND: status\n\ninactive\n")
        self.wait(lambda: self.statuses()["bob"] == "inactive")
        second = self.attach(self.left, "alice", "bob", stored)
        self.wait(lambda: self.state(second) == {"bob": "stored"})
        self.agents_at(self.right, "Lead")
        self.wait(lambda: self.state(first) == {"Lead": "delivered"})
        self.assertTrue(self.file_at(self.right, held))
        (self.right.root / "agents/bob/outbox/.pending").mkdir(parents=True)
        self.on(self.right).command("adopt", "bob")
        write_message(self.right.root, "bob", "TO: __orchestrator__\nKIND: status\n\nactive\n")
        self.wait(lambda: self.state(second) == {"bob": "delivered"})
        self.assertTrue(self.file_at(self.right, stored))
        self.finish()

    def test_a_file_that_is_gone_everywhere_is_told_of(self):
        self.up_both()
        self.agents_at(self.left, "alice")
        self.agents_at(self.right, "bob")
        self.right.kill()
        content = os.urandom(MIB)
        message = self.attach(self.left, "alice", "bob", content)
        self.on(self.left).wait(lambda: self.state(message) == {"bob": "routed"})
        self.query("DELETE FROM attachment_pieces; DELETE FROM carried_attachments")
        name = hashlib.sha256(content).hexdigest()
        (self.left.root / "attachments" / name[:2] / name).unlink()
        self.right.up()
        self.wait(lambda: self.nacks(self.left, "alice"))
        self.assertEqual(self.nacks(self.left, "alice")[0][0], "not_found")
        self.assertEqual(self.on(self.left).state(message), {"bob": "dead"})
        self.assertEqual(self.inbox_at(self.right, "bob"), [])


class SmallFiles(Several):
    config = {"attachment_carry_bytes_max": 1000}

    def test_one_that_is_larger_than_may_be_carried_is_refused_and_goes_to_neighbours(self):
        self.up_both()
        self.agents_at(self.left, "alice", "ann")
        self.agents_at(self.right, "bob")
        self.attach(self.left, "alice", "bob", os.urandom(1001))
        self.wait(lambda: self.nacks(self.left, "alice"))
        code, text = self.nacks(self.left, "alice")[0]
        self.assertEqual(code, "too_large")
        self.assertIn("another relay", text)
        near = self.attach(self.left, "alice", "ann", os.urandom(1001))
        far = self.attach(self.left, "alice", "bob", os.urandom(1000))
        self.wait(lambda: self.state(near) == {"ann": "delivered"} and self.state(far) == {"bob": "delivered"})
        config = json.loads((self.right.root / "config.json").read_text())
        configure(self.right.root, {**config, "attachment_bytes_max": 500})
        self.right.kill(signal.SIGTERM)
        self.right.up()
        message = self.attach(self.left, "alice", "bob", os.urandom(501))
        self.wait(lambda: self.state(message) == {"bob": "dead"})
        self.wait(lambda: len(self.nacks(self.left, "alice")) == 2)


class FilesAndKills(Several):
    config = {"attachment_keep_ms": 2000, "rescan_ms": 500}  # what a killed relay could not drop goes after that
    kills = 200 if FULL else 25

    def test_every_file_arrives_once_in_order_and_whole_whoever_is_killed(self):
        seed = int(os.environ.get("WARREN_SEED", time.time()))
        print(f"WARREN_SEED={seed}", file=sys.stderr)
        random.seed(seed)
        self.up_both()
        self.agents_at(self.left, "alice", "ann")
        self.agents_at(self.right, "bob")
        contents = []

        def send():
            while not self.done:
                content = random.randbytes(random.choice((0, 3, PIECE, PIECE + 1, 3 * MIB)))
                to = ("bob", "*")[len(contents) % 2]
                self.last = self.attach(self.left, "alice", to, content, str(len(contents)))
                contents.append(content)
                time.sleep(random.random() * 0.2)

        self.done = False
        sender = threading.Thread(target=send)
        sender.start()
        try:
            for kill in range(self.kills):
                time.sleep(random.random() * 0.3)
                if kill % 5 == 4:
                    postgres.SERVER.kill()
                    postgres.SERVER.start()
                else:
                    side = random.choice(self.sides)
                    side.kill()
                    side.up()
        finally:
            self.done = True
            sender.join()
        self.wait(lambda: (self.state(self.last) or {}).get("bob") == "delivered", 300)
        got = self.inbox_at(self.right, "bob")
        self.assertEqual([int(body) for _, body in got], list(range(len(contents))))
        for content in contents:
            self.assertTrue(self.file_at(self.right, content))
        print(f"{len(contents)} files, {self.kills} kills", file=sys.stderr)
        self.on(self.left).wait(lambda: self.query("SELECT count(*) FROM deliveries WHERE state IN ('pending', 'routed')") == "0")
        self.finish()


class AwayAtStart(Several):
    config = {"metrics": "127.0.0.1:0"}

    def tearDown(self):
        if postgres.SERVER.process.poll() is not None:
            postgres.SERVER.start()

    def health(self):
        port = [one["address"] for one in self.log_events("metrics")][-1]
        try:
            with urllib.request.urlopen(f"http://{port}/health", timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def test_a_relay_waits_for_its_ledger_and_says_so(self):
        postgres.SERVER.kill()
        self.left.up()
        self.on(self.left).wait(lambda: len(self.log_events("ledger_is_away")) >= 2)
        self.assertIn("running and waiting for its ledger", self.command("status", code=1).stderr)
        told = json.loads(self.command("status", "--json", code=1).stdout)
        self.assertEqual((told["up"], told["ledger"]), (True, "away"))
        code, body = self.health()
        self.assertEqual(code, 503)
        self.assertIn("PostgreSQL", body["problems"][0])
        self.assertIn("already running", self.command("up", code=1).stderr)
        (self.left.root / "agents/alice/outbox/.pending").mkdir(parents=True)
        (self.left.root / "agents/bob/outbox/.pending").mkdir(parents=True)
        message = write_message(self.left.root, "alice", "TO: bob\n\nearly")
        postgres.SERVER.start()
        self.wait(lambda: self.log_events("started"))
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.assertTrue(self.log_events("ledger_is_back"))
        self.wait(lambda: self.health()[0] == 200)
        self.assertEqual(self.left.kill(signal.SIGTERM), 0)

    def test_down_and_signals_end_one_that_waits(self):
        postgres.SERVER.kill()
        self.left.up()
        self.on(self.left).wait(lambda: self.log_events("ledger_is_away"))
        self.command("down")
        self.assertEqual(self.left.process.wait(), 0)
        self.left.process.stderr.close()
        self.left.process = None
        self.assertIn("no relay is running", self.command("status", code=1).stderr)
        self.command("up", "--daemon", "--ledger", self.ledger)
        self.assertIn("running and waiting", self.command("status", code=1).stderr)
        postgres.SERVER.start()
        self.wait(lambda: self.command("status", code=None).returncode == 0)
        self.command("down")


class Releases(Several):
    def setUp(self):
        self.config = {"lead": "boss", "spawn": {"clis": {"sleeper": {"argv": ["sleep", "100000"]}}, "notice_ms": 0}}
        super().setUp()
        for side in self.sides:
            config = json.loads((side.root / "config.json").read_text())
            config["spawn"]["roots"] = [str(self.dir)]
            configure(side.root, config)

    def ask(self, side, agent, kind, name):
        more = f"CLI: sleeper\nWORKING_DIR: {self.dir}\n" if kind == "spawn" else "REASON: done\n"
        return write_message(side.root, agent, f"TO: __orchestrator__\nKIND: {kind}\n\nNAME: {name}\n{more}")

    def states(self, side, agent):
        return [(headers.get("STATE"), headers.get("AGENT")) for headers, _ in self.inbox_at(side, agent)]

    def spawn(self, side, agent, name):
        self.ask(side, agent, "spawn", name)
        self.wait(lambda: ("spawned", name) in self.states(side, agent))
        return int([headers["PID"] for headers, _ in self.inbox_at(side, agent) if headers.get("AGENT") == name][-1])

    def test_who_leads_and_who_started_it_release_an_agent_from_another_relay(self):
        self.up_both()
        self.agents_at(self.left, "boss", "alice")
        self.agents_at(self.right, "bob")
        pid = self.spawn(self.right, "bob", "worker")
        self.addCleanup(lambda: subprocess.run(["kill", "-9", str(pid)], capture_output=True))
        denied = self.ask(self.left, "alice", "release", "worker")
        self.wait(lambda: self.nacks(self.left, "alice"))
        headers, body = self.inbox_at(self.left, "alice")[0]
        self.assertEqual((headers["ERROR"], headers["REFERENCE"]), ("denied", denied))
        self.assertIn(b"may release it", body)
        self.on(self.right).wait(lambda: self.log_events("denied", "audit.log"))
        os.kill(pid, 0)  # it runs
        self.right.kill()
        asked = self.ask(self.left, "boss", "release", "worker")  # while its relay is away
        self.on(self.left).wait(lambda: self.query(f"SELECT status FROM messages WHERE message_id = '{asked}'") == "completed")
        self.right.up()
        self.wait(lambda: ("released", "worker") in self.states(self.left, "boss"))
        self.wait(lambda: not pathlib.Path(f"/proc/{pid}").exists())
        self.assertEqual(self.on(self.left).statuses()["worker"], "terminated")
        self.ask(self.left, "boss", "release", "worker")
        self.wait(lambda: self.nacks(self.left, "boss"))
        self.assertIn("has already been released", self.nacks(self.left, "boss")[0][1])
        self.ask(self.left, "boss", "release", "nobody")
        self.wait(lambda: len(self.nacks(self.left, "boss")) == 2)
        # One who moved is still who started it.
        pid = self.spawn(self.right, "bob", "second")
        (self.left.root / "agents/bob/outbox/.pending").mkdir(parents=True)
        self.on(self.left).command("adopt", "bob")
        self.wait(lambda: self.query(f"SELECT count(*) FROM agent_homes a JOIN agent_homes b USING (home) WHERE a.agent = 'bob'"
                                     " AND b.agent = 'alice'") == "1")
        self.ask(self.left, "bob", "release", "second")
        self.wait(lambda: ("released", "second") in self.states(self.left, "bob"))
        self.wait(lambda: not pathlib.Path(f"/proc/{pid}").exists())


class FourRelays(Several):
    names = ("north", "east", "south", "west")

    def test_all_reach_all_in_order_with_files(self):
        self.up_both()
        agents = [f"{name}er" for name in self.names]
        for side, agent in zip(self.sides, agents):
            self.agents_at(side, agent)
            write_message(side.root, agent, "TO: __orchestrator__\nKIND: subscribe\n\n#all\n")
        self.wait(lambda: len(self.statuses()) == 4 and len(self.command("channels").stdout.split()) == 5)
        count = 60
        last = []
        contents = {agent: os.urandom(MIB) for agent in agents}

        def send(side, agent):
            for number in range(count):
                to = ("*", "#all", "*")[number % 3]
                if number == count // 2:
                    message = self.attach(side, agent, "*", contents[agent], f"{agent} {number}")
                else:
                    message = write_message(side.root, agent, f"TO: {to}\n\n{agent} {number}")
            last.append(message)

        threads = [threading.Thread(target=send, args=pair) for pair in zip(self.sides, agents)]
        for thread in threads:
            thread.start()
        self.sides[2].kill()
        self.sides[2].up()
        for thread in threads:
            thread.join()
        self.assertEqual(len(last), 4)
        for message in last:
            self.wait(lambda: set((self.state(message) or {"": ""}).values()) == {"delivered"}, 120)
        for side, agent in zip(self.sides, agents):
            got = [body.decode().split() for _, body in self.inbox_at(side, agent)]
            for other in agents:
                numbers = [int(number) for sender, number in got if sender == other]
                self.assertEqual(numbers, list(range(count)) if other != agent else [], f"{other} to {agent}")
                self.assertTrue(self.file_at(side, contents[other]))
        self.finish()


class OverTls(Several):
    """By TCP, where the server wants TLS and a password."""

    @classmethod
    def setUpClass(cls):
        cls.server = TlsServer()

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def new_database(self):
        return self.server.new_database()

    def query(self, sql):
        return self.server.query(sql, self.ledger.split("?")[0].split("/")[-1])

    def test_messages_and_files_and_a_server_that_is_killed(self):
        self.up_both()
        self.agents_at(self.left, "alice")
        self.agents_at(self.right, "bob")
        sessions = self.query("SELECT bool_and(s.ssl), count(*) > 1 FROM pg_stat_ssl s JOIN pg_stat_activity USING (pid) WHERE"
                              " application_name = 'warren relay'")
        self.assertEqual(sessions, "t|t")
        contents = [os.urandom(MIB) for _ in range(6)]
        for number, content in enumerate(contents):
            message = self.attach(self.left, "alice", "bob", content, str(number))
            if number == 2:
                self.server.kill()
                self.server.start()
        self.wait(lambda: self.state(message) == {"bob": "delivered"}, 120)
        self.assertEqual([int(body) for _, body in self.inbox_at(self.right, "bob")], list(range(6)))
        for content in contents:
            self.assertTrue(self.file_at(self.right, content))
        self.finish()
        for side in self.sides:
            self.assertNotIn("geheim", (side.root / "relay.log").read_text())

    def test_what_no_waiting_cures_ends_it_at_once(self):
        other = make_certificate(self.dir, "other")
        database = self.ledger.split("?")[0].split("/")[-1]
        wrong = {
            "password": (self.ledger.replace("geheim", "falsch"), "password"),
            "database": (self.server.url("missing"), "does not exist"),
            "certificate": (self.server.url(database, sslrootcert=other), "certificate"),
            "plain": (self.server.url(database, sslmode="disable"), "pg_hba"),
            "no password": (self.ledger.replace(":geheim", ""), "password"),
        }
        for what, (address, word) in wrong.items():
            with self.subTest(what):
                root = self.dir / what.replace(" ", "")
                done = subprocess.run([WARREN, "relay", "up", "--root", root, "--ledger", address], capture_output=True,
                                      text=True, timeout=120, env={**os.environ, "PGPASSFILE": "/dev/null"})
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(word, done.stderr)
                for secret in ("geheim", "falsch"):
                    self.assertNotIn(secret, done.stderr)
                log = root / "relay.log"
                self.assertNotIn("ledger_is_away", log.read_text() if log.exists() else "")


if __name__ == "__main__":
    main()
