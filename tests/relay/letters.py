#!/usr/bin/env python3
"""Dead letters and other operations: each is carried out once; one that fails is set aside with its error, and everything
else goes on."""
import contextlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request

from relaying import WARREN, RelayCase, main, query

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from on_terminal import HOSTILE_BYTES, on_terminal, strays


class Letters(RelayCase):
    def letter(self, to="ghost"):
        """A dead letter for an agent that does not exist."""
        count = len(self.letters())
        self.send("alice", f"TO: {to}\n\nboo")
        self.wait(lambda: len(self.letters()) == count + 1)
        return str(self.letters()[-1]["id"])

    def letters(self):
        return json.loads(self.command("dead", "list", "--json").stdout)

    def operations(self):
        return json.loads(self.command("operations", "--json").stdout)

    def bodies(self, agent):
        return [body for _, body in self.inbox(agent)]

    def change_ledger(self, *statements):
        with contextlib.closing(sqlite3.connect(self.root / "ledger.db", timeout=30)) as db:
            for statement in statements:
                db.execute(statement)
            db.commit()

    def check_alive(self):
        """The relay still delivers."""
        count = len(self.inbox("bob"))
        self.send("alice", "TO: bob\n\nstill there?")
        self.wait(lambda: len(self.inbox("bob")) == count + 1)


class Several(Letters):
    def test_several_letters_are_discarded_at_once(self):
        self.up()
        self.agent("alice", "bob")
        first, second, third = self.letter(), self.letter(), self.letter()
        lines = self.command("dead", "list").stdout.splitlines()
        self.assertRegex(lines[0], rf"^{first} \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d ")
        self.command("dead", "discard", first, third)
        self.assertEqual([str(one["id"]) for one in self.letters()], [second])
        self.assertIn("99", self.command("dead", "discard", "99", second, second, code=1).stderr)
        self.assertEqual(self.letters(), [])

    def test_a_message_from_standard_input(self):
        self.up()
        self.agent("alice", "bob")
        done = self.command("send", "bob", "-", "--from", "alice", "--wait", "delivered", stdin="piped\n")
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.bodies("bob"), [b"piped\n"])

    def test_sending_without_a_relay_says_so(self):
        self.up()
        self.agent("alice", "bob")
        self.assertEqual(self.command("send", "bob", "hi", "--from", "alice").stderr, "")
        self.kill(signal.SIGTERM)
        self.assertIn("no relay is running at", self.command("send", "bob", "hi", "--from", "alice").stderr)
        waited = self.command("send", "bob", "hi", "--from", "alice", "--wait", "delivered", "--timeout", "1ms", code=1).stderr
        self.assertIn("no relay is running at", waited)
        self.assertIn("hint: no relay is running: `warren relay up` starts one", waited)


class Once(Letters):
    def test_a_ledger_with_two_requests_for_one_letter_recovers(self):
        """As versions before this one left it: they never delivered anything again."""
        self.up()
        self.agent("alice", "bob")
        letter = self.letter()
        self.agent("ghost")
        self.kill(signal.SIGTERM)
        self.change_ledger(*2 * ["INSERT INTO pending_operations(operation_type, payload, created_at)"
                                 f" VALUES ('redeliver', '{{\"dead_letter\":{letter}}}', 1)"])
        self.up()
        self.wait(lambda: self.bodies("ghost") == [b"boo"])
        self.check_alive()
        self.assertEqual(self.bodies("ghost"), [b"boo"])
        self.assertEqual(self.letters(), [])
        self.assertEqual([(one["type"], one["state"], one["error"]) for one in self.operations()],
                         [("redeliver", "failed", f"dead letter {letter} is closed")])
        self.assertIn("failed operations: 1", self.command("status").stdout)
        self.fsck()

    def test_a_second_request_is_refused_while_one_is_pending(self):
        self.up()
        self.agent("alice", "bob", "ghost2")
        letter = self.letter()
        self.kill(signal.SIGTERM)
        self.command("dead", "redeliver", letter, "--no-wait")
        done = self.command("dead", "redeliver", letter, "--no-wait", code=1)
        self.assertIn(f"dead letter {letter} is already being redelivered", done.stderr)
        self.assertEqual([(one["type"], one["state"]) for one in self.operations()], [("redeliver", "open")])
        (self.root / "agents/ghost").mkdir()
        self.up()
        self.wait(lambda: self.bodies("ghost") == [b"boo"])
        done = self.command("dead", "redeliver", letter, code=1)
        self.assertIn(f"dead letter {letter} is closed", done.stderr)
        done = self.command("dead", "discard", letter, code=1)
        self.assertIn(f"dead letter {letter} is closed", done.stderr)
        done = self.command("dead", "redeliver", "99", code=1)
        self.assertIn("there is no dead letter 99", done.stderr)
        self.check_alive()

    def test_of_many_commands_at_the_same_time_one_wins(self):
        self.up()
        self.agent("alice", "bob")
        letter = self.letter()
        self.agent("ghost")
        done = []
        threads = [threading.Thread(target=lambda: done.append(self.command("dead", "redeliver", letter, code=None)))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(one.returncode for one in done), [0] + 7 * [1], [one.stderr for one in done])
        self.assertEqual(self.bodies("ghost"), [b"boo"])
        self.check_alive()

    def test_a_redelivery_and_a_discard_of_one_letter_at_once(self):
        self.up()
        self.agent("alice", "bob")
        letter = self.letter()
        self.agent("ghost")
        self.kill(signal.SIGTERM)
        self.command("dead", "redeliver", letter, "--no-wait")
        self.command("dead", "discard", letter, "--no-wait")
        self.up()
        self.wait(lambda: self.bodies("ghost") == [b"boo"])
        self.assertEqual([(one["type"], one["state"]) for one in self.operations()], [("discard", "failed")])
        self.check_alive()


class Failing(Letters):
    config = {"metrics": "127.0.0.1:0"}

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.metrics_address()}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def test_an_operation_that_cannot_be_recorded_is_set_aside(self):
        self.up()
        self.agent("alice", "bob")
        letters = [self.letter("ghost"), self.letter("cursed"), self.letter("ghost")]
        self.agent("ghost", "cursed")
        self.kill(signal.SIGTERM)
        self.change_ledger("CREATE TRIGGER curse BEFORE INSERT ON deliveries WHEN NEW.recipient = 'cursed' BEGIN"
                           " SELECT RAISE(ABORT, 'cursed'); END")
        for letter in letters:
            self.command("dead", "redeliver", letter, "--no-wait")
        self.up()
        self.wait(lambda: len(self.bodies("ghost")) == 2)
        self.check_alive()
        self.assertEqual([(one["id"] > 0, one["type"], one["state"]) for one in self.operations()],
                         [(True, "redeliver", "failed")])
        self.assertIn("cursed", self.operations()[0]["error"])
        self.assertEqual([str(one["id"]) for one in self.letters()], letters[1:2], "it stays, for another try")
        self.assertIn("warren_relay_operations_failed_total 1\n", self.get("/metrics")[1])
        self.wait(lambda: self.get("/health")[0] == 200)
        done = self.command("dead", "redeliver", letters[1], code=1)
        self.assertIn("cursed", done.stderr)
        self.change_ledger("DROP TRIGGER curse")
        self.command("dead", "redeliver", letters[1])
        self.assertEqual(self.bodies("cursed"), [b"boo"])

    def test_mail_does_not_wait_for_operations_that_fail(self):
        self.up()
        self.agent("alice", "bob")
        letters = [self.letter("cursed") for _ in range(6)]
        self.agent("cursed")
        self.kill(signal.SIGTERM)
        self.change_ledger("CREATE TRIGGER curse BEFORE INSERT ON deliveries WHEN NEW.recipient = 'cursed' BEGIN"
                           " SELECT RAISE(ABORT, 'cursed'); END")
        for letter in letters:
            self.command("dead", "redeliver", letter, "--no-wait")
        self.up()
        self.check_alive()
        self.wait(lambda: [one["state"] for one in self.operations()] == 6 * ["failed"])
        self.assertEqual(len(self.log_events("round_failed")), 1, "the others were trials, and nothing waited for them")

    def test_more_requests_than_fit_into_a_round(self):
        self.up()
        self.agent("alice", "bob")
        self.kill(signal.SIGTERM)
        self.change_ledger(*600 * ["INSERT INTO pending_operations(operation_type, payload, created_at)"
                                   " VALUES ('nonsense', '{\"dead_letter\":1}', 1)"])
        self.up()
        self.wait(lambda: query(self.root, "SELECT count(*) FROM pending_operations WHERE completed_at IS NULL") == [(0,)])

    def test_failing_rounds_show_in_status_and_health(self):
        self.up()
        self.agent("alice", "bob")
        self.assertEqual(json.loads(self.command("status", "--json").stdout)["problems"], [])
        self.change_ledger("CREATE TRIGGER curse BEFORE INSERT ON arrivals BEGIN SELECT RAISE(ABORT, 'cursed'); END")
        self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: "rounds are failing" in self.command("status").stdout)
        self.assertIn("cursed", json.loads(self.command("status", "--json").stdout)["problems"][0])
        code, text = self.get("/health")
        self.assertEqual(code, 503)
        self.assertIn("rounds are failing", text)
        self.change_ledger("DROP TRIGGER curse")
        self.wait(lambda: self.bodies("bob") == [b"x"], 60)
        self.wait(lambda: "rounds are failing" not in self.command("status").stdout)


class Answers(Letters):
    def test_a_redelivery_that_fails_again_says_why_and_exits_with_an_error(self):
        self.up()
        self.agent("alice", "bob")
        letter = self.letter("ghost")
        done = self.command("dead", "redeliver", letter, code=1)
        self.assertIn("there is no agent 'ghost'", done.stderr)
        self.assertEqual([str(one["id"]) for one in self.letters()], [letter], "the same letter, still open")
        self.agent("ghost")
        self.command("dead", "redeliver", letter)
        self.assertEqual(self.bodies("ghost"), [b"boo"], "it is there when the command returns")
        self.assertEqual(self.letters(), [])

    def test_without_a_relay_it_says_that_it_waits(self):
        self.up()
        self.agent("alice", "ghost2")
        letter = self.letter("ghost")
        self.kill(signal.SIGTERM)
        done = self.command("dead", "redeliver", letter, code=1)
        self.assertIn("no relay is running", done.stderr)
        self.assertEqual([(one["type"], one["state"]) for one in self.operations()], [("redeliver", "open")])


class Waiting(Letters):
    config = {"deadline_ms": 300}

    def test_send_wait_says_why_a_delivery_failed(self):
        self.up()
        self.agent("alice", "bob")
        (self.root / "agents/bob/inbox").rename(self.dir / "away")
        (self.root / "agents/bob/inbox").write_text("in the way")
        done = self.command("send", "bob", "x", "--from", "alice", "--wait", "delivered", code=1)
        self.assertRegex(done.stderr, r"warren: .*'bob'.*: \S+")
        letter = str(self.letters()[0]["id"])
        self.assertIn(f"warren relay dead redeliver {letter}", done.stderr)
        done = self.command("dead", "redeliver", letter, code=1)
        self.assertRegex(done.stderr, r"warren: .*'bob'.*: \S+")
        again = self.letters()[0]["id"]
        self.assertIn(f"warren relay dead redeliver {again}", done.stderr)
        (self.root / "agents/bob/inbox").unlink()
        (self.dir / "away").rename(self.root / "agents/bob/inbox")
        self.command("dead", "redeliver", str(again))
        self.assertEqual(self.bodies("bob"), [b"x\n"])


class Taking(Letters):
    def take(self, *options, **streams):
        return subprocess.run([WARREN, "relay", "inbox", "bob", "--take", *options, "--root", str(self.root)],
                              stderr=subprocess.PIPE, text=True, timeout=60, **streams)

    def test_what_cannot_be_printed_is_not_taken(self):
        self.up()
        self.agent("alice", "bob")
        for text in ("one", "two"):
            self.send("alice", f"TO: bob\n\n{text}")
        self.wait(lambda: len(self.inbox("bob")) == 2)
        there = self.inbox("bob")
        for options in ([], ["--json"]):
            with open("/dev/full", "w") as full:
                done = self.take(*options, stdout=full)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("No space left on device", done.stderr)
            self.assertEqual(self.inbox("bob"), there)
            reader, writer = os.pipe()
            os.close(reader)
            done = self.take(*options, stdout=writer)
            os.close(writer)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(self.inbox("bob"), there)
        self.assertEqual(self.take(stdout=subprocess.DEVNULL).returncode, 0)
        self.assertEqual(self.inbox("bob"), [])

    def test_an_impossible_recipient_is_refused_without_a_relay(self):
        self.up()
        self.agent("alice")
        self.kill(signal.SIGTERM)
        for name in ("x y", "", "#", "#a b", "../x", "é"):
            done = self.command("send", name, "x", "--from", "alice", code=1)
            self.assertIn("name", done.stderr)
        self.assertEqual([name for name in os.listdir(self.root / "agents/alice/outbox") if name.endswith(".msg")], [])


class Strangers(Letters):
    def test_nothing_that_an_agent_writes_controls_the_terminal_of_who_looks_at_it(self):
        self.up()
        self.agent("alice", "bob")
        text = b"\n".join(HOSTILE_BYTES)
        self.send("alice", b"TO: bob\nSUBJECT: \xc2\x9b31m\n\n" + text)
        self.send("alice", b"TO: gho\xe2\x80\xaest\n\n" + text)
        self.send("alice", b"TO: ghost\nKIND: \xc2\x9b2J\n\n" + text)
        self.send("alice", b"\x1b[2J no header\xff\n\n" + text)
        self.wait(lambda: self.inbox("bob") and len(self.inbox("alice")) >= 2)
        views = [["inbox", "bob"], ["inbox", "alice"], ["dead", "list"], ["status"], ["agents"], ["tail"], ["operations"],
                 ["top", "--once"], ["fsck"], ["channels"], ["inbox", "bob", "--json"], ["dead", "list", "--json"]]
        views += [["dead", "show", str(letter["id"])] for letter in self.letters()]
        self.assertGreater(len(self.letters()), 0)
        for words in views:
            with self.subTest(words=words):
                seen = on_terminal([WARREN, "relay", *words, "--root", str(self.root)])
                self.assertEqual(strays(seen), [], seen)
        self.assertIn(b"\\u009b31m", on_terminal([WARREN, "relay", "inbox", "bob", "--root", str(self.root)]))


if __name__ == "__main__":
    main()
