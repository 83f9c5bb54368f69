#!/usr/bin/env python3
"""The relay on PostgreSQL: everything it does on SQLite; and two relays, each with a root and agents of its own, that
share one ledger, while either of them, or the server, is killed."""
import json
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

import everyday
import routing
from postgres_server import Server
from relaying import FULL, WARREN, RelayCase, Serving, configure, die_with_parent, main, parse, write_message

LIFE = 1_000_000  # what a killed sender did last it cannot know: its next life counts on above
SERVER = None


def setUpModule():
    global SERVER
    SERVER = Server()


def tearDownModule():
    SERVER.close()


class RoutingOnPostgres(routing.Routing):
    """Each case of routing.py."""

    def setUp(self):
        super().setUp()
        self.ledger = SERVER.new_database()

    def test_backup_archive_tail_and_fsck(self):
        self.up()
        self.assertIn("pg_dump", self.command("backup", str(self.dir / "copy.db"), code=1).stderr)
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.assertIn("1 messages", self.command("archive", "list").stdout)
        (self.root / "archive/2001-01-01/alice").mkdir(parents=True)
        (self.root / "archive/2001-01-01/alice/978307200000000000-00000000.msg").write_text("TO: bob\n\nold")
        self.assertEqual(self.command("archive", "prune", "--older", "30d").stdout, "1 messages removed\n")
        self.kill()
        (self.root / "tmp/deliveries/1-deadbeef.msg.bob").write_text("x")
        self.assertIn("has no pending delivery", self.command("fsck", code=1).stdout)
        self.command("fsck", "--repair")
        self.fsck()


class RemovingOnPostgres(everyday.Removing):
    """Each case of removing agents."""

    # Relays that share a ledger cannot tell them from messages in the inbox that the agent had at another home (docs/relay.md).
    test_what_was_in_a_directory_that_was_moved_away_was_not_read = None
    test_nor_if_no_relay_was_running_then = None

    def setUp(self):
        super().setUp()
        self.ledger = SERVER.new_database()

    def is_removal_asked_for(self):
        return SERVER.query("SELECT 1 FROM pending_operations WHERE operation_type = 'remove'",
                            self.ledger.split("?")[0].split("/")[-1])


class OneRelay(RelayCase):
    def setUp(self):
        super().setUp()
        self.ledger = SERVER.new_database()

    def test_bytes_that_postgres_does_not_keep_stop_nobody(self):
        self.up()
        self.agent("alice", "bob")
        for text in (b"TO: \xff\xfe\n\nx", b"TO: bob\nKIND: \xc0\x80\n\nx",
                     b"TO: __orchestrator__\nKIND: ack\nREFERENCE: a/\xff\n\nx"):
            self.send("alice", text)
        message = self.send("alice", b"TO: bob\nX-Odd: \xff\n\n\0\xff\xfe")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.wait(lambda: len(self.inbox("alice")) == 3)
        body = next((self.root / "agents/bob/inbox").glob("*.msg")).read_bytes()
        self.assertTrue(body.endswith(b"\n\n\0\xff\xfe"))
        self.assertIn(b"X-Odd: \xff\n", body)

    def test_the_address_is_kept_and_a_password_is_not_shown(self):
        secret = self.ledger.replace("warren@", "warren:geheim@")
        self.ledger = secret
        self.up()
        self.agent("alice", "bob")
        config = self.root / "config.json"
        self.assertEqual(json.loads(config.read_text())["ledger"], secret)
        self.assertEqual(stat.S_IMODE(os.stat(config).st_mode), 0o600)
        self.kill(signal.SIGTERM)
        self.ledger = None  # from now on config.json says it
        self.up()
        self.assertEqual(self.statuses(), {"alice": "active", "bob": "active"})
        self.kill(signal.SIGTERM)
        self.assertFalse((self.root / "ledger.db").exists())
        other = subprocess.run([WARREN, "relay", "up", "--root", self.root, "--ledger", SERVER.url("another")],
                               capture_output=True, text=True)
        self.assertEqual(other.returncode, 1)
        self.assertIn("already uses another ledger", other.stderr)
        for bad in ("postgres://warren:geheim@host:port:x/db", "mysql://warren:geheim@host/db",
                    SERVER.url("missing").replace("warren@", "warren:geheim@")):
            done = subprocess.run([WARREN, "relay", "up", "--root", self.dir / "other", "--ledger", bad],
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertNotIn("geheim", done.stderr + done.stdout)
            if (self.dir / "other").exists():
                subprocess.run(["rm", "-r", self.dir / "other"], check=True)
        for log in ("relay.log", "audit.log"):
            if (self.root / log).exists():
                self.assertNotIn("geheim", (self.root / log).read_text())

    def test_a_root_with_a_ledger_of_its_own_keeps_it(self):
        address, self.ledger = self.ledger, None
        self.up()
        self.kill(signal.SIGTERM)
        self.assertIn("already uses another ledger", self.command("up", "--ledger", address, code=1).stderr)

    def test_a_database_without_tables_is_named_as_such(self):
        self.up()
        self.kill(signal.SIGTERM)
        config = json.loads((self.root / "config.json").read_text())
        configure(self.root, {**config, "ledger": SERVER.new_database()})
        said = self.command("agents", code=1).stderr
        self.assertIn("the relay's ledger has no tables yet", said)
        self.assertIn("`warren relay up` creates them", said)

    def test_messages_wait_in_outboxes_while_the_server_is_away(self):
        self.up()
        self.agent("alice", "bob")
        first = self.send("alice", "TO: bob\n\n0")
        self.wait(lambda: self.state(first) == {"bob": "delivered"})
        SERVER.kill()
        for number in range(1, 20):
            self.send("alice", f"TO: bob\n\n{number}")
        self.wait(lambda: self.log_events("round_failed"))
        self.assertEqual(len(list((self.root / "agents/alice/outbox").glob("*.msg"))), 19)
        self.assertIn("PostgreSQL", self.command("status", code=1).stderr)
        SERVER.start()
        self.wait(lambda: len(self.inbox("bob")) == 20, 90)
        self.assertEqual([int(body) for _, body in self.inbox("bob")], list(range(20)))
        self.assertTrue(self.log_events("ledger_is_back"))
        self.command("down")

    def test_down_works_without_the_server(self):
        self.up()
        SERVER.kill()
        try:
            self.command("down")
            self.assertEqual(self.process.wait(), 0)
        finally:
            SERVER.start()

    def test_a_relay_whose_root_was_copied_and_started_elsewhere_stops(self):
        self.up()
        self.agent("alice")
        copy = self.dir / "copy"
        copy.mkdir(mode=0o700)
        for name in (".home", "config.json"):
            (copy / name).write_bytes((self.root / name).read_bytes())
        (copy / "agents").mkdir(mode=0o700)
        successor = subprocess.Popen([WARREN, "relay", "up", "--root", copy], stderr=subprocess.PIPE)
        self.addCleanup(lambda: (successor.kill(), successor.wait(), successor.stderr.close()))
        self.assertEqual(self.process.wait(60), 1)
        self.assertIn(b"another relay was started", self.process.stderr.read())
        self.assertIsNone(successor.poll())


class Proxy:
    """Between a relay and the server. Cuts the connection at a COMMIT: before the server has it, or before the answer."""

    def __init__(self, case):
        self.dir = case.dir / "proxy"
        self.dir.mkdir()
        self.cut = None  # "before" or "after": the next commit of a message
        self.cuts = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.dir / ".s.PGSQL.5432"))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()
        case.addCleanup(self.listener.close)

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(SERVER.dir / ".s.PGSQL.5432"))
            except OSError:
                client.close()
                continue
            state = {"mute": False, "committed": threading.Event()}
            threading.Thread(target=self.pump, args=(client, server, state, True), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, state, False), daemon=True).start()

    def pump(self, source, target, state, is_client):
        sent = unheard = b""
        try:
            while data := source.recv(65536):
                sent = sent[-65536:] + data
                if is_client and self.cut and b"COMMIT" in data and b"alice/" in sent:
                    how, self.cut = self.cut, None
                    if how == "after":
                        state["mute"] = True
                        target.sendall(data)
                        if not state["committed"].wait(30):  # the server does it, and nobody hears of it
                            return
                    self.cuts.append(how)
                    break
                if not is_client and state["mute"]:
                    unheard += data
                    if b"COMMIT\0" in unheard:  # what the server answers to it
                        state["committed"].set()
                    continue
                if is_client and b"COMMIT" in data:
                    sent = b""
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()


class InDoubt(RelayCase):
    def test_a_commit_without_an_answer_is_neither_lost_nor_doubled(self):
        database = SERVER.new_database()
        self.proxy = Proxy(self)
        self.ledger = database.replace(str(SERVER.dir), str(self.proxy.dir))
        self.up()
        self.agent("alice", "bob")
        for round, how in enumerate(["before", "after"] * 4):
            self.proxy.cut = how
            for number in range(5):
                self.send("alice", f"TO: bob\nRECEIPT: yes\n\n{round * 5 + number}")
            self.wait(lambda: len(self.proxy.cuts) == round + 1)
            self.wait(lambda: len(self.inbox("bob")) == round * 5 + 5, 60)
            # Only after it has recovered does the relay take another message. A cut before that is part of the same doubt.
            after = self.send("bob", "TO: alice\n\nstill there?")
            self.wait(lambda: self.state(after) == {"alice": "delivered"}, 60)
        self.assertEqual(self.proxy.cuts, ["before", "after"] * 4)
        self.assertGreaterEqual(len(self.log_events("commit_in_doubt")), 8)
        last = self.send("alice", "TO: bob\n\n40")
        self.wait(lambda: self.state(last) == {"bob": "delivered"}, 60)
        self.assertEqual([int(body) for _, body in self.inbox("bob")], list(range(41)))
        self.assertEqual(os.listdir(self.root / "tmp/deliveries"), [])
        self.assertEqual(self.kill(signal.SIGTERM), 0)
        self.fsck()


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
        self.inbox = root / "agents" / agent / "inbox"
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


class Side(Serving):
    """One of two relays."""

    def __init__(self, case, name):
        self.case = case
        self.root = case.dir / name
        self.process = None

    def up(self):
        self.process = self.case.serve(self.root)


class TwoRelays(RelayCase):
    names = ("left", "right")

    def setUp(self):
        super().setUp()
        self.ledger = self.new_database()
        self.sides = tuple(Side(self, name) for name in self.names)
        self.left, self.right = self.sides[:2]
        for side in self.sides:
            self.addCleanup(side.kill)
            side.root.mkdir(mode=0o700)
            configure(side.root, self.config)
        self.root = self.left.root

    def new_database(self):
        return SERVER.new_database()

    def up_both(self):
        for side in self.sides:
            side.up()
            self.wait(lambda: (side.root / "agents").exists())
        for side in self.sides:
            self.on(side)
            self.wait(lambda: self.command("status", code=None).stdout.startswith("up"), 60)

    def on(self, side):
        self.root = side.root
        return self

    def agents_at(self, side, *names):
        self.on(side).agent(*names)

    def wait(self, condition, seconds=60):
        super().wait(lambda: self.check_alive() or condition(), seconds)

    def check_alive(self):
        for side in self.sides:
            if side.process is not None and side.process.poll() is not None:
                self.fail(f"a relay ended: {side.process.stderr.read()}")

    def inbox_at(self, side, agent):
        return self.on(side).inbox(agent)

    def test_direct_broadcast_channel_lead_and_receipts_across(self):
        self.up_both()
        self.agents_at(self.left, "alice", "ann")
        self.agents_at(self.right, "bob", "Lead")
        self.on(self.left).wait(lambda: len(self.statuses()) == 4)
        write_message(self.right.root, "bob", "TO: __orchestrator__\nKIND: subscribe\n\n#news\n")
        write_message(self.left.root, "ann", "TO: __orchestrator__\nKIND: subscribe\n\n#news\n")
        self.wait(lambda: self.command("channels").stdout == "#news ann bob\n")
        message = write_message(self.left.root, "alice", b"TO: bob\nRECEIPT: yes\nX-Own: kept\n\ndirect\0\xff\r\n")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        file = next((self.right.root / "agents/bob/inbox").glob("*.msg"))
        raw = file.read_bytes()
        self.assertTrue(raw.endswith(b"\n\ndirect\0\xff\r\n"), raw)
        headers, _ = parse(raw)
        self.assertEqual((headers["FROM"], headers["ID"], headers["X-Own"]), ("alice", message, "kept"))
        file.rename(file.parent / ".done" / file.name)
        self.wait(lambda: self.state(message) == {"bob": "read"})
        self.on(self.right).command("ack", "bob", message)
        self.wait(lambda: [one[0].get("STATE") for one in self.inbox_at(self.left, "alice")] == ["delivered", "read", "acked"])
        everyone = write_message(self.left.root, "alice", "TO: *\n\nall\n")
        self.wait(lambda: self.state(everyone) == {"ann": "delivered", "bob": "delivered", "Lead": "delivered"})
        news = write_message(self.right.root, "Lead", "TO: #news\n\nnews\n")
        self.wait(lambda: self.state(news) == {"ann": "delivered", "bob": "delivered"})
        lead = write_message(self.left.root, "ann", "TO: Lead\n\nlead\n")
        self.wait(lambda: self.state(lead) == {"Lead": "delivered"})
        self.assertEqual([body for _, body in self.inbox_at(self.right, "bob")], [b"all\n", b"news\n"])
        self.assertEqual([body for _, body in self.inbox_at(self.right, "Lead")], [b"all\n", b"lead\n"])
        self.finish()

    def test_stored_held_and_dead_letters_across(self):
        self.up_both()
        self.agents_at(self.left, "alice")
        self.agents_at(self.right, "bob")
        held = [write_message(self.left.root, "alice", f"TO: Lead\n\nheld {i}") for i in range(3)]
        self.wait(lambda: self.state(held[-1]) == {"Lead": "held"})
        self.agents_at(self.right, "Lead")
        self.wait(lambda: self.state(held[-1]) == {"Lead": "delivered"})
        self.assertEqual([body for _, body in self.inbox_at(self.right, "Lead")], [b"held 0", b"held 1", b"held 2"])
        write_message(self.right.root, "bob", "TO: __orchestrator__\nKIND: status\n\ninactive\n")
        self.on(self.left).wait(lambda: self.statuses()["bob"] == "inactive")
        ids = [write_message(self.left.root, "alice", f"TO: bob\n\n{i}") for i in range(300)]
        self.wait(lambda: self.state(ids[-1]) == {"bob": "stored"})
        told = [headers.get("STATE") for headers, _ in self.inbox_at(self.left, "alice")]
        self.assertIn("stored", told)
        write_message(self.right.root, "bob", "TO: __orchestrator__\nKIND: status\n\nactive\n")
        ids.append(write_message(self.left.root, "alice", "TO: bob\n\n300"))
        self.wait(lambda: self.state(ids[-1]) == {"bob": "delivered"})
        self.assertEqual([int(body) for _, body in self.inbox_at(self.right, "bob")], list(range(301)))
        nobody = write_message(self.left.root, "alice", "TO: nobody\n\nlate")
        self.wait(lambda: json.loads(self.command("dead", "list", "--json").stdout))
        self.agents_at(self.right, "nobody")
        letter = json.loads(self.command("dead", "list", "--json").stdout)[0]["id"]
        self.on(self.right).command("dead", "redeliver", str(letter))  # asked there, done by the sender's relay
        self.wait(lambda: [body for _, body in self.inbox_at(self.right, "nobody")] == [b"late"])
        self.wait(lambda: self.state(nobody) == {"nobody": "delivered"})
        self.finish()

    def test_a_name_belongs_to_one_home_until_another_adopts_it(self):
        self.up_both()
        self.agents_at(self.left, "alice", "bob")
        self.on(self.right)
        (self.right.root / "agents/bob/outbox/.pending").mkdir(parents=True)
        self.wait(lambda: self.log_events("name_is_taken", "audit.log"))
        write_message(self.right.root, "bob", "TO: alice\n\nfrom the right")
        message = write_message(self.left.root, "alice", "TO: bob\n\nto the left")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.assertEqual(len(self.inbox_at(self.left, "bob")), 1)
        self.assertEqual(self.inbox_at(self.left, "alice"), [])  # the file waits
        self.on(self.right).command("adopt", "bob")
        self.wait(lambda: [body for _, body in self.inbox_at(self.left, "alice")] == [b"from the right"])
        later = write_message(self.left.root, "alice", "TO: bob\n\nto the right")
        self.wait(lambda: self.state(later) == {"bob": "delivered"})
        self.assertEqual([body for _, body in self.inbox_at(self.right, "bob")], [b"to the right"])
        self.assertEqual(len(self.inbox_at(self.left, "bob")), 1)

    def test_agents_are_started_by_the_relay_they_are_at_home_with(self):
        for side in self.sides:
            clis = {"sleeper": {"argv": ["sleep", "600"]}}
            configure(side.root, {"spawn": {"clis": clis, "roots": [str(self.dir)]}})
        self.up_both()
        self.agents_at(self.left, "alice")
        self.agents_at(self.right, "bob")
        for side, spawner, name in ((self.left, "alice", "worker1"), (self.right, "bob", "worker2")):
            write_message(side.root, spawner, f"TO: __orchestrator__\nKIND: spawn\n\nNAME: {name}\nCLI: sleeper\n"
                          f"WORKING_DIR: {self.dir}\n")
        self.wait(lambda: [one[0].get("STATE") for one in self.inbox_at(self.left, "alice")] == ["spawned"])
        self.wait(lambda: [one[0].get("STATE") for one in self.inbox_at(self.right, "bob")] == ["spawned"])
        self.left.kill()
        self.left.up()  # adopts its own, and leaves the other's alone
        message = write_message(self.right.root, "bob", "TO: worker1\n\nhello")
        self.on(self.right).wait(lambda: self.state(message) == {"worker1": "delivered"})
        for side, spawner, name in ((self.left, "alice", "worker1"), (self.right, "bob", "worker2")):
            write_message(side.root, spawner, f"TO: __orchestrator__\nKIND: release\n\nNAME: {name}\nREASON: done\n")
        for side, spawner in ((self.left, "alice"), (self.right, "bob")):
            self.wait(lambda: [one[0].get("STATE") for one in self.inbox_at(side, spawner)] == ["spawned", "released"])

    def test_one_relay_away_keeps_what_is_for_it(self):
        self.up_both()
        self.agents_at(self.left, "alice")
        self.agents_at(self.right, "bob")
        self.right.kill()
        ids = [write_message(self.left.root, "alice", f"TO: bob\n\n{i}") for i in range(200)]
        self.on(self.left).wait(lambda: self.state(ids[-1]) == {"bob": "routed"})
        self.right.up()
        self.wait(lambda: self.state(ids[-1]) == {"bob": "delivered"})
        self.assertEqual([int(body) for _, body in self.inbox_at(self.right, "bob")], list(range(200)))
        self.finish()

    def query(self, sql):
        return SERVER.query(sql, self.ledger.split("?")[0].split("/")[-1])

    def finish(self):
        """All end, all agree with the ledger, and no content stays behind in it."""
        for table in ("carried_attachments", "attachment_pieces"):
            self.wait(lambda: self.query(f"SELECT count(*) FROM {table}") == "0")
        for side in self.sides:
            self.assertEqual(side.kill(signal.SIGTERM), 0)
            self.on(side).fsck()
        self.assertEqual(self.query("SELECT count(*) FROM message_bodies"), "0")


class Checker(TwoRelays):
    """The checker of one relay, with senders and receivers on both sides."""
    kills = 400 if FULL else 30

    def start_sender(self, side, agent):
        self.lives[agent] = self.lives.get(agent, 0) + 1
        words = [sys.executable, __file__, "--send", side.root, agent, self.dir / f"{agent}.journal"]
        return subprocess.Popen([*words, str(self.lives[agent] * LIFE)], preexec_fn=die_with_parent)

    def test_every_finished_message_arrives_once_and_in_order_on_both_sides(self):
        seed = int(os.environ.get("WARREN_SEED", time.time()))
        print(f"WARREN_SEED={seed}", file=sys.stderr)
        random.seed(seed)
        self.lives = {}
        self.up_both()
        self.agents_at(self.left, "red", "sender0", "sender1")
        self.agents_at(self.right, "blue", "sender2", "sender3")
        homes = {"sender0": self.left, "sender1": self.left, "sender2": self.right, "sender3": self.right}
        receivers = {"red": Receiver(self.left.root, "red"), "blue": Receiver(self.right.root, "blue")}
        for receiver in receivers.values():
            receiver.start()
        senders = {name: self.start_sender(side, name) for name, side in homes.items()}
        server_kills = 0
        for kill in range(self.kills):
            time.sleep(random.random() * 0.4)
            if kill % 10 == 9:
                SERVER.kill()
                server_kills += 1
                time.sleep(random.random() * 0.5)
                SERVER.start()
            elif kill % 5 == 3:
                victim = random.choice(sorted(senders))
                senders[victim].kill()
                senders[victim].wait()
                senders[victim] = self.start_sender(homes[victim], victim)
            else:
                side = random.choice(self.sides)
                side.kill()
                side.up()
        for sender in senders.values():
            sender.kill()
            sender.wait()
        self.on(self.left)
        self.wait(lambda: not any(list((homes[name].root / "agents" / name / "outbox").glob("*.msg")) for name in homes), 180)
        self.wait(lambda: not {"pending", "routed"} & set(self.deliveries()), 180)
        for receiver in receivers.values():
            receiver.done = True
            receiver.join()
        self.check(receivers, homes)
        print(f"{server_kills} kills of the server", file=sys.stderr)
        self.finish()

    def check(self, receivers, homes):
        finished = 0
        for agent in homes:
            sent = [line.split() for line in (self.dir / f"{agent}.journal").read_text().splitlines()]
            finished += len(sent)
            known = {int(number) for number, _ in sent}
            for name, receiver in receivers.items():
                got = [int(body.split()[1]) for sender, body in receiver.got if sender == agent]
                self.assertEqual(got, sorted(set(got)), f"{agent} to {name}: twice, or out of order")
                wanted = {int(number) for number, to in sent if to in (name, "*")}
                self.assertEqual(wanted - set(got), set(), f"{agent} to {name}: lost")
                for extra in set(got) - wanted:  # what a sender was killed in may have arrived, and nothing else
                    self.assertTrue(extra - 1 in known or extra % LIFE == 0, f"{agent} to {name}: invented {extra}")
                    self.assertNotIn(extra, known)
        self.assertGreater(finished, self.kills)
        print(f"{finished} messages, {self.kills} kills", file=sys.stderr)

    def deliveries(self):
        done = self.command("status", "--json", code=None)
        return json.loads(done.stdout)["deliveries"] if done.returncode == 0 else {"pending": 1}


for inherited in [name for name in dir(TwoRelays) if name.startswith("test_")]:
    setattr(Checker, inherited, None)  # once is enough
del inherited


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--send":
        send_for_ever(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    main()
