#!/usr/bin/env python3
"""What agents, operators and machines do to a relay: directories swapped under it, files of every kind, disks that fill at
every point of a delivery, a sync that fails, few descriptors, many agents. Nothing is lost, nothing comes twice."""
import contextlib
import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import threading
import time

from relaying import WARREN, RelayCase, configure, die_with_parent, main, query, write_message


class Files(RelayCase):
    def test_files_of_every_kind_harm_nobody(self):
        self.config = {"message_bytes_max": 2_000_000}
        self.setUp()
        self.up()
        self.agent("alice", "bob")
        outbox = self.root / "agents/alice/outbox"
        os.mknod(outbox / "1-aaaaaaa1.msg", 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
        with open(outbox / ".pending/sparse", "wb") as out:
            out.truncate(1 << 40)
        (outbox / ".pending/sparse").rename(outbox / "2-aaaaaaa2.msg")
        self.send("alice", "TO: bob\nX: " + "x" * 1_000_000 + "\n\nx", "3-aaaaaaa3.msg")
        self.send("alice", b"\xff\xfe\0" * 1000, "4-aaaaaaa4.msg")
        self.send("alice", "", "5-aaaaaaa5.msg")
        for name in ("x.msg", "12-xyz.msg", "1-aaaaaaaa.MSG", "a" * 255, "-aaaaaaaa.msg", "99999999999999999999-aaaaaaaa.msg"):
            (outbox / name).write_text("TO: bob\n\nill named")
        last = self.send("alice", "TO: bob\n\nlast")
        self.wait(lambda: self.state(last) == {"bob": "delivered"}, 60)
        self.wait(lambda: len(self.inbox("alice")) == 5, 60)
        answers = {headers["REFERENCE"]: headers["ERROR"] for headers, _ in self.inbox("alice")}
        self.assertEqual(answers, {"alice/1-aaaaaaa1": "denied", "alice/2-aaaaaaa2": "too_large",
                                   "alice/3-aaaaaaa3": "invalid", "alice/4-aaaaaaa4": "invalid",
                                   "alice/5-aaaaaaa5": "invalid"})
        self.assertEqual([body for _, body in self.inbox("bob")], [b"last"])
        self.assertTrue((outbox / "x.msg").exists(), "what is not named like a message is left alone")
        self.assertTrue(self.log_events("ignored_file"))

    def test_a_file_that_stays_empty_is_answered(self):
        self.up()
        self.agent("alice")
        (self.root / "agents/alice/outbox/1-aaaaaaaa.msg").touch()
        self.wait(lambda: [headers["KIND"] for headers, _ in self.inbox("alice")] == ["nack"], 60)

    def test_a_file_that_changes_while_it_is_read_arrives_whole_or_not_at_all(self):
        """A writer that stalls halfway looks finished after the settle time: with a checksum it does not pass for whole."""
        self.up()
        self.agent("alice", "bob")
        bodies = [("%d" % digit) * size for digit, size in enumerate((1000, 200_000, 30_000, 700_000))]

        def rewrite(out, body):
            out.truncate(0)
            out.seek(0)
            out.write(f"TO: bob\nCHECKSUM: sha256:{hashlib.sha256(body.encode()).hexdigest()}\n\n{body}".encode())
        until = time.monotonic() + 1.5
        with open(self.root / "agents/alice/outbox/1-aaaaaaaa.msg", "wb", buffering=0) as out:
            while time.monotonic() < until:
                rewrite(out, random.choice(bodies))
            rewrite(out, "final")
        self.wait(lambda: self.inbox("bob") or self.inbox("alice"), 60)
        got = [body.decode() for _, body in self.inbox("bob")]
        self.assertLessEqual(len(got), 1)
        self.assertLessEqual(set(got), {*bodies, "final"}, "torn")

    def test_a_file_that_is_being_written_when_the_relay_starts_arrives_whole(self):
        self.config = {"settle_ms": 600}  # longer than a busy machine keeps the writer waiting, and less than it writes
        self.up()
        self.agent("alice", "bob")
        for run in range(3):
            self.kill()
            parts = [f"{run} part {part}\n" for part in range(40)]
            with open(self.root / f"agents/alice/outbox/{run + 1}-aaaaaaaa.msg", "w", buffering=1) as out:
                out.write("TO: bob\n\n")
                started = threading.Thread(target=self.up)
                started.start()
                for part in parts:
                    out.write(part)
                    time.sleep(0.05)
            started.join()
            self.wait(lambda: len(self.inbox("bob")) == run + 1)
            self.assertEqual(self.inbox("bob")[-1][1].decode(), "".join(parts))
        self.assertEqual(self.inbox("alice"), [])

    def test_names_at_their_limits(self):
        self.up()
        longest, too_long = "a" * 63, "a" * 64
        (self.root / "agents" / too_long / "outbox/.pending").mkdir(parents=True)
        for name in ("9lives", "_x", "a.b", "a b", "ROOT", "Admin", "System", "é"):
            (self.root / "agents" / name / "outbox/.pending").mkdir(parents=True)
        self.agent("b", longest)
        self.assertEqual(set(self.statuses()), {"b", longest})
        message = self.send(longest, f"TO: b\n\n{'x' * 10}", f"{'9' * 19}-{'f' * 32}.msg")
        self.wait(lambda: self.state(message) == {"b": "delivered"})
        back = self.send("b", f"TO: {longest}\n\ny")
        self.wait(lambda: self.state(back) == {longest: "delivered"})
        for name in (too_long, "root", "../b", "b/../b", "."):
            refused = self.send("b", f"TO: {name}\n\ny")
            self.wait(lambda: any(headers.get("REFERENCE") == refused for headers, _ in self.inbox("b")))
        self.fsck()

    def test_follow_shows_what_waited_under_an_older_name(self):
        self.up()
        self.agent("alice", "bob")
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\ninactive\n")
        self.wait(lambda: self.statuses()["bob"] == "inactive")
        waiting = self.send("alice", "TO: bob\n\nwaited")
        self.wait(lambda: self.state(waiting) == {"bob": "stored"})
        with subprocess.Popen([WARREN, "relay", "inbox", "bob", "--follow", "--json", "--root", self.root],
                              stdout=subprocess.PIPE, text=True) as follow:
            try:
                self.send("bob", "TO: nobody\n\nx")  # answered at once, and makes bob active again
                bodies = [json.loads(follow.stdout.readline())["body"] for _ in range(2)]
            finally:
                follow.kill()
        self.assertEqual(sorted(bodies), ["there is no agent 'nobody'\n", "waited"])

    def test_a_stored_message_that_was_tampered_with_is_not_delivered(self):
        self.up()
        self.agent("alice", "bob")
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\ninactive\n")
        self.wait(lambda: self.statuses()["bob"] == "inactive")
        changed, gone, whole = [self.send("alice", f"TO: bob\n\n{number}") for number in range(3)]
        self.wait(lambda: self.state(whole) == {"bob": "stored"})
        self.wait(lambda: len(list(self.root.glob("archive/*/alice/*.msg"))) == 3)
        archived = {file.stem: file for file in self.root.glob("archive/*/alice/*.msg")}
        archived[changed.split("/")[1]].write_text("TO: bob\n\nother")
        archived[gone.split("/")[1]].unlink()
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\nactive\n")
        self.wait(lambda: self.state(whole) == {"bob": "delivered"})
        self.assertEqual([body for _, body in self.inbox("bob")], [b"2"])
        self.assertEqual([self.state(changed), self.state(gone)], [{"bob": "dead"}] * 2)
        nacks = [headers["REFERENCE"] for headers, _ in self.inbox("alice") if headers["KIND"] == "nack"]
        self.assertEqual(sorted(nacks), sorted([changed, gone]))
        self.assertEqual(len(json.loads(self.command("dead", "list", "--json").stdout)), 2)


class LoweredLimit(RelayCase):
    """What was taken under a higher limit is delivered, and stays, under a lower one."""
    config = {"message_bytes_max": 2_000_000}
    body = "y" * 1_000_000

    def lower(self):
        self.kill()
        configure(self.root, {"message_bytes_max": 1000})

    def test_what_is_held(self):
        self.up()
        self.agent("alice")
        message = self.send("alice", "TO: Lead\n\n" + self.body)
        self.wait(lambda: self.state(message) == {"Lead": "held"})
        self.lower()
        self.up()
        self.agent("Lead")
        self.wait(lambda: self.state(message) == {"Lead": "delivered"})
        self.assertEqual([body == self.body.encode() for _, body in self.inbox("Lead")], [True])
        refused = self.send("alice", "TO: Lead\n\n" + self.body)
        self.wait(lambda: [one for one, _ in self.inbox("alice") if one["REFERENCE"] == refused and one["KIND"] == "nack"])

    def test_what_was_not_archived_yet(self):
        archived = self.deliver_and_lower()
        outbox = self.root / "agents/alice/outbox"
        archived.rename(outbox / archived.name)  # as if it had been killed just before
        self.up()
        self.wait(lambda: not list(outbox.glob("*.msg")))
        self.assertEqual(list(archived.parent.iterdir()), [archived])
        self.assertEqual((self.inbox("alice"), len(self.inbox("bob"))), ([], 1))

    def test_what_is_in_an_inbox_after_a_power_cut(self):
        archived = self.deliver_and_lower()
        archived.unlink()
        foreign = self.root / "agents/bob/inbox" / f"{time.time_ns():019}-aaaaaaaaaaaaaaaa.msg"
        with open(foreign, "wb") as out:
            out.truncate(1 << 40)
        with contextlib.closing(sqlite3.connect(self.root / "ledger.db")) as ledger, ledger:
            ledger.execute("UPDATE orchestrator_state SET value = 'another boot' WHERE key = 'file_life'")
        self.up()
        self.assertTrue(foreign.exists())
        foreign.unlink()
        self.assertEqual([body == self.body.encode() for _, body in self.inbox("bob")], [True])
        self.assertEqual(self.log_events("torn_file"), [])

    def deliver_and_lower(self):
        """The file in the archive."""
        self.up()
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\n\n" + self.body)
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        pattern = f"archive/*/{message}.msg"
        self.wait(lambda: list(self.root.glob(pattern)))
        self.lower()
        return next(self.root.glob(pattern))


class Inboxes(RelayCase):
    def test_a_file_that_is_no_message_does_not_hide_those_behind_it(self):
        self.up()
        self.agent("alice", "bob")
        inbox = self.root / "agents/bob/inbox"
        (inbox / "0000000000000000001-aaaaaaaaaaaaaaaa.msg").write_text("no message")
        (inbox / "0000000000000000002-aaaaaaaaaaaaaaaa.msg").write_text("")
        message = self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        done = self.command("inbox", "bob", "--take", "--json", code=1)
        self.assertEqual(json.loads(done.stdout)["id"], message)
        for number in (1, 2):
            self.assertIn(f"{number}-aaaaaaaaaaaaaaaa.msg: there is no blank line after the headers", done.stderr)
        self.assertEqual(len(list(inbox.glob("*.msg"))), 2)
        self.wait(lambda: self.state(message) == {"bob": "read"})


class Places(RelayCase):
    def send_through(self, change, count=200):
        """alice sends to bob while `change` is called again and again; returns the numbers whose protocol was over."""
        finished, stopped = [], threading.Event()

        def send():
            for number in range(count):
                try:
                    self.send("alice", f"TO: bob\n\n{number}")
                    finished.append(number)
                except FileNotFoundError:
                    pass  # her outbox was gone just then
            stopped.set()
        sender = threading.Thread(target=send)
        sender.start()
        while not stopped.is_set():
            change()
            time.sleep(0.01)
        sender.join()
        return finished

    def test_an_outbox_removed_and_made_again_under_load(self):
        self.config = {"rescan_ms": 1000}
        self.setUp()
        self.up()
        self.agent("alice", "bob")
        outbox = self.root / "agents/alice/outbox"
        aways = []

        def change():
            aways.append(self.dir / f"away{len(aways)}")
            try:
                outbox.rename(aways[-1])
            except FileNotFoundError:
                aways.pop()
                return
            self.wait(lambda: (outbox / ".pending").exists(), 60)  # the relay makes it again
        finished = self.send_through(change)
        gone = {int(file.read_text().split()[-1]) for away in aways for file in away.glob("*.msg")}
        wanted = [number for number in finished if number not in gone]
        last = self.send("alice", f"TO: bob\n\n{1000}")
        self.wait(lambda: self.state(last) == {"bob": "delivered"}, 60)
        self.wait(lambda: not list(outbox.glob("*.msg")), 60)
        got = [int(body) for _, body in self.inbox("bob")]
        self.assertEqual(len(got), len(set(got)))
        self.assertLessEqual(set(wanted) | {1000}, set(got))
        self.assertTrue(aways)
        self.fsck()

    def test_an_inbox_or_a_home_that_becomes_a_link_is_not_written_through(self):
        self.up()
        self.agent("alice", "bob", "carol")
        elsewhere = self.dir / "elsewhere"
        elsewhere.mkdir()
        inbox, home = self.root / "agents/bob/inbox", self.root / "agents/carol"
        inbox.rename(self.dir / "bobs")
        inbox.symlink_to(elsewhere)
        waiting = self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.log_events("delivery_failed"))
        home.rename(self.dir / "carols")
        home.symlink_to(elsewhere)
        self.wait(lambda: self.statuses()["carol"] == "terminated")
        refused = self.send("alice", "TO: carol\n\nx")
        self.wait(lambda: self.inbox("alice"))
        self.assertEqual(self.inbox("alice")[0][0]["REFERENCE"], refused)
        self.assertEqual(os.listdir(elsewhere), [])
        inbox.unlink()
        (self.dir / "bobs").rename(inbox)
        self.wait(lambda: self.state(waiting) == {"bob": "delivered"}, 60)

    def test_a_removed_lock_lets_no_second_relay_in(self):
        self.up()
        self.agent("alice", "bob")
        (self.root / ".lock").unlink()
        self.assertIn("already running", self.command("up", code=1).stderr)
        self.wait(lambda: self.log_events("lock_removed", "audit.log"))
        self.assertTrue((self.root / ".lock").exists())
        self.send("alice", "TO: nobody\n\nx")
        self.wait(lambda: self.inbox("alice"))
        letter = json.loads(self.command("dead", "list", "--json").stdout)[0]["id"]
        self.command("dead", "discard", str(letter))  # which touches the new one
        self.wait(lambda: json.loads(self.command("dead", "list", "--json").stdout) == [])
        self.command("down")
        self.assertEqual(self.process.wait(), 0)

    def test_of_relays_started_at_once_one_serves(self):
        for number in range(5):
            self.root = self.dir / f"root{number}"
            relays = [subprocess.Popen([WARREN, "relay", "up", "--root", self.root], stderr=subprocess.PIPE, text=True,
                                       preexec_fn=die_with_parent) for _ in range(4)]
            try:
                self.wait(lambda: sum(relay.poll() is None for relay in relays) == 1, 60)
                self.agent("alice", "bob")
                message = self.send("alice", "TO: bob\n\nx")
                self.wait(lambda: self.state(message) == {"bob": "delivered"}, 60)
                self.assertEqual(sum(relay.poll() is None for relay in relays), 1)
            finally:
                for relay in relays:
                    relay.kill()
            said = [relay.communicate()[1] for relay in relays]
            self.assertEqual(sum("already running" in words for words in said), 3, said)

    def test_whoever_asks_a_relay_that_is_only_just_starting_waits_for_its_ledger(self):
        empty = sqlite3.connect(self.root / "ledger.db", isolation_level=None)
        empty.execute("BEGIN IMMEDIATE")  # nobody else can make tables
        self.process = self.serve(self.root)
        self.wait(lambda: (self.root / ".lock").exists() and (self.root / ".lock").read_text())
        asking = subprocess.Popen([WARREN, "relay", "agents", "--json", "--root", self.root], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        with self.assertRaises(subprocess.TimeoutExpired):
            asking.wait(0.5)
        self.assertEqual(self.log_events("started"), [])
        empty.close()
        self.assertEqual(asking.communicate(timeout=60), ("[]\n", ""))
        self.wait(lambda: self.log_events("started"))

    def test_a_root_that_is_not_whole_is_named_as_such(self):
        (self.root / "ledger.db").touch()
        self.assertIn("the relay at", self.command("agents", code=1).stderr)
        for name in ("agents", "archive", "attachments", "tmp/deliveries"):
            said = self.command("agents", code=1).stderr
            self.assertIn(f"has no directory '{name}'", said)
            self.assertIn("`warren relay up`", said)
            (self.root / name).mkdir(parents=True)
        said = self.command("agents", code=1).stderr  # not up: nobody is going to make them
        self.assertIn("the relay's ledger has no tables yet", said)
        self.assertIn("`warren relay up` creates them", said)
        (self.root / "ledger.db").unlink()
        self.assertIn("there is no ledger at", self.command("agents", code=1).stderr)
        self.up()
        self.assertEqual(self.statuses(), {})

    def test_asking_whether_it_is_up_keeps_no_relay_from_starting(self):
        self.up()
        self.kill(signal.SIGTERM)
        stopped = threading.Event()

        def ask():
            while not stopped.is_set():
                self.command("status", code=None)
        askers = [threading.Thread(target=ask) for _ in range(3)]
        for asker in askers:
            asker.start()
        try:
            for _ in range(8):
                self.up()
                self.assertEqual(self.kill(signal.SIGTERM), 0)
        finally:
            stopped.set()
            for asker in askers:
                asker.join()

    def test_a_spoilt_ledger_is_refused_and_nothing_is_lost(self):
        self.up()
        self.agent("alice", "bob")
        first = self.send("alice", "TO: bob\n\n0")
        self.wait(lambda: self.state(first) == {"bob": "delivered"})
        self.kill(signal.SIGTERM)
        waiting = self.send("alice", "TO: bob\n\n1")
        ledger = self.root / "ledger.db"
        whole = ledger.read_bytes()
        for spoilt in (b"garbage" * 1000, whole[:100] + bytes(4000) + whole[4100:], whole[:5000]):
            ledger.write_bytes(spoilt)
            for name in ("ledger.db-wal", "ledger.db-shm"):
                (self.root / name).unlink(missing_ok=True)
            self.assertRegex(self.command("up", code=1).stderr, "(?i)ledger|corrupt|malformed|not a database")
            self.assertEqual(len(list((self.root / "agents/alice/outbox").glob("*.msg"))), 1)
        ledger.write_bytes(whole)
        self.up()
        self.wait(lambda: self.state(waiting) == {"bob": "delivered"})
        self.assertEqual([body for _, body in self.inbox("bob")], [b"0", b"1"])
        self.fsck()

    def test_a_read_only_place_is_refused(self):
        self.up()
        self.agent("alice")
        self.kill(signal.SIGTERM)
        place = self.dir / "read-only"
        place.mkdir()
        subprocess.run(["mount", "--bind", self.root, place], check=True)
        self.addCleanup(lambda: subprocess.run(["umount", "-l", place]))
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        self.root = place
        self.assertIn("ead-only", self.command("up", code=1).stderr)
        self.assertIn("ead-only", self.command("send", "alice", "x", "--from", "alice", code=1).stderr)

    def test_permissions_taken_from_the_relay_itself_are_repaired(self):
        """By a relay that is not root, for whom they count."""
        self.config = None
        self.setUp()
        program = self.dir / "warren"
        shutil.copy(WARREN, program)
        os.chmod(self.dir, 0o755)
        self.root.mkdir()
        os.chown(self.root, 65534, 65534)

        def as_nobody(*words):
            return subprocess.Popen([program, "relay", *words, "--root", self.root], user=65534, group=65534, extra_groups=[],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
        self.process = as_nobody("up")
        self.wait(lambda: self.log_events("started"), 60)
        with as_nobody("send", "nobody", "x", "--from", "alice", "--register") as sending:
            self.assertEqual(sending.wait(), 0, sending.stderr.read())
        self.wait(lambda: self.inbox("alice"))
        self.kill(signal.SIGTERM)
        for path in ("agents/alice/inbox", "agents/alice", "tmp", "config.json", "ledger.db"):
            os.chmod(self.root / path, 0)
        self.process = as_nobody("up")
        self.wait(lambda: len(self.log_events("started")) == 2, 60)
        self.wait(lambda: stat.S_IMODE(os.stat(self.root / "agents/alice/inbox").st_mode) == 0o700)
        for path, mode in {"agents/alice": 0o700, "tmp": 0o700, "config.json": 0o600, "ledger.db": 0o600}.items():
            self.assertEqual(stat.S_IMODE(os.stat(self.root / path).st_mode), mode, path)
        self.assertTrue(self.log_events("permissions_repaired", "audit.log"))


class Shortage(RelayCase):
    def test_descriptors_run_out_and_the_order_stays(self):
        self.up()
        counts = []  # it is idle when its threads have opened what they need
        while len(counts) < 20 or len(set(counts[-20:])) > 1:
            counts.append(len(os.listdir(f"/proc/{self.process.pid}/fd")))
            time.sleep(0.1)
        idle = counts[-1]
        self.kill()
        for limit in (idle + 5, idle + 8, idle + 16):
            self.root = self.dir / f"root{limit}"
            names = [f"agent{number}" for number in range(20)]
            for name in names:
                (self.root / "agents" / name / "outbox/.pending").mkdir(parents=True)
            for name in names[:5]:
                for number in range(40):
                    self.send(name, f"TO: {'*' if number % 8 == 0 else 'agent19'}\n\n{number}")
            self.up(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
            self.wait(lambda: not list(self.root.glob("agents/*/outbox/*.msg")), 120)
            self.wait(lambda: query(self.root, "SELECT count(*) FROM every_delivery WHERE state = 'pending'") == [(0,)], 60)
            for name in names[:5]:
                got = [int(body) for headers, body in self.inbox("agent19") if headers["FROM"] == name]
                self.assertEqual(got, list(range(40)), f"{limit} descriptors")
            self.assertEqual(len(self.inbox("agent7")), 25)
            self.kill(signal.SIGTERM)
            self.fsck()

    def test_a_thousand_agents(self):
        names = [f"agent{number}" for number in range(1000)]
        for name in names:
            (self.root / "agents" / name / "outbox/.pending").mkdir(parents=True)
        self.up()
        self.wait(lambda: len(self.statuses()) == 1000, 120)
        for name in names:
            self.send(name, f"TO: agent{(int(name[5:]) + 1) % 1000}\n\n{name}")
        everybody = self.send("agent0", "TO: *\n\nall")
        self.wait(lambda: query(self.root, "SELECT count(*) FROM every_delivery WHERE state = 'delivered'") == [(1999,)], 120)
        self.assertEqual(len(self.state(everybody)), 999)
        for number in (0, 1, 500, 999):
            bodies = sorted(body.decode() for _, body in self.inbox(f"agent{number}"))
            self.assertEqual(bodies, sorted([f"agent{(number - 1) % 1000}", *(["all"] if number else [])]))

    def test_a_disk_that_fills_at_each_point_of_a_delivery(self):
        disk = self.dir / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", disk], check=True)
        self.addCleanup(lambda: subprocess.run(["umount", "-l", disk]))
        self.root = disk / "root"
        self.up()
        self.agent("alice", "bob")
        bodies = []
        for free in range(0, 24):  # pages left: for the staged file, the ledger's log, the archive's directory
            shutil.rmtree(next(self.root.glob("archive/*"), disk / "none"), ignore_errors=True)
            body = f"{free} " + "x" * 9000
            bodies.append(body)
            self.process.send_signal(signal.SIGSTOP)
            self.send("alice", f"TO: bob\n\n{body}")
            self.fill(disk, free)
            before = self.sign(body)
            self.process.send_signal(signal.SIGCONT)
            self.wait(lambda: self.sign(body) != before, 60)
            os.unlink(disk / "filler")
            self.wait(lambda: len(self.inbox("bob")) == len(bodies), 60)
        self.assertEqual([body.decode() for _, body in self.inbox("bob")], bodies)
        errors = {event["error"].partition(":")[0] for event in self.log_events("round_failed")}
        self.assertGreaterEqual(len(errors), 1)
        self.assertGreater(len(self.log_events("round_failed")), 2)
        self.wait(lambda: query(self.root, "SELECT count(*) FROM every_delivery WHERE state = 'pending'") == [(0,)], 60)
        self.kill(signal.SIGTERM)
        self.up()  # what could not be archived is, at the latest now
        self.wait(lambda: not list(self.root.glob("agents/*/outbox/*.msg")), 60)
        self.kill(signal.SIGTERM)
        self.assertEqual(os.listdir(self.root / "tmp/deliveries"), [])
        self.fsck()

    def sign(self, body):
        """Changes when the relay has tried: it failed, or it delivered."""
        log = self.root / "relay.log"
        return log.stat().st_size, len(os.listdir(self.root / "agents/bob/inbox"))

    @staticmethod
    def fill(disk, pages):
        with open(disk / "filler", "wb", buffering=0) as out:
            try:
                while True:
                    out.write(bytes(4096))
            except OSError:
                out.truncate(max(0, (out.tell() // 4096 - pages) * 4096))

    def test_a_commit_whose_sync_fails_loses_nothing_even_after_a_crash(self):
        """It may be on the disk all the same, and count after the crash."""
        self.up()
        self.agent("alice", "bob")
        for number in range(6):
            with subprocess.Popen(["strace", "-f", "-qq", "-o", self.dir / "trace", "-e", "trace=fdatasync",
                                   "-e", "inject=fdatasync:error=EIO", "-p", str(self.process.pid)]) as strace:
                self.wait(lambda: "TracerPid:\t0" not in pathlib.Path(f"/proc/{self.process.pid}/status").read_text())
                failures = len(self.log_events("round_failed"))
                self.send("alice", f"TO: bob\n\n{number}")
                self.wait(lambda: len(self.log_events("round_failed")) > failures, 60)
                if number % 2 == 0:
                    self.kill()
                else:
                    strace.terminate()
            if number % 2 == 0:
                self.up()
            self.wait(lambda: len(self.inbox("bob")) == number + 1, 60)
        last = self.send("alice", "TO: bob\n\n6")  # behind whatever might still come twice
        self.wait(lambda: self.state(last) == {"bob": "delivered"}, 60)
        self.assertEqual([int(body) for _, body in self.inbox("bob")], list(range(7)))
        self.wait(lambda: query(self.root, "SELECT count(*) FROM every_delivery WHERE state = 'pending'") == [(0,)], 60)
        self.kill(signal.SIGTERM)
        self.assertEqual(os.listdir(self.root / "tmp/deliveries"), [])
        self.fsck()


if __name__ == "__main__":
    main()
