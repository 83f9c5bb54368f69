#!/usr/bin/env python3
"""Who gets a message, what its sender hears of it, and the commands around it."""
import json
import os
import pathlib
import subprocess
import time

from relaying import WARREN, RelayCase, main

APPENDIX_A = r'''#!/bin/bash
# Example: Writing a message atomically

RELAY_DIR="$HOME/.agent-relay"
AGENT_NAME="${AGENT_RELAY_NAME:-myagent}"
OUTBOX="$RELAY_DIR/agents/$AGENT_NAME/outbox"
PENDING="$OUTBOX/.pending"

# Ensure directories exist
mkdir -p "$PENDING"

# Generate unique filename
TIMESTAMP=$(date +%s%N)
UUID=$(head -c 4 /dev/urandom | xxd -p)
FILENAME="${TIMESTAMP}-${UUID}.msg"

# Write to temp file
TEMP_FILE="$PENDING/$FILENAME"
cat > "$TEMP_FILE" << 'EOF'
TO: Lead

ACK: Task received and understood.
EOF

# Sync to disk
sync "$TEMP_FILE"

# Atomic rename to final location
mv "$TEMP_FILE" "$OUTBOX/$FILENAME"

# Sync parent directory
sync "$OUTBOX"

echo "Message written: $FILENAME"
'''


class Routing(RelayCase):
    def test_a_header_as_long_as_it_may_be_is_read_by_whoever_gets_it(self):
        self.up()
        self.agent("alice", "bob")
        value = "v" * (8192 - len("X:"))
        message = self.send("alice", f"TO:bob\nX:{value}\n\nbody")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        shown = json.loads(self.command("inbox", "bob", "--json").stdout)
        self.assertEqual((shown["id"], shown["headers"]["X"], shown["body"]), (message, value, "body"))

    def test_the_shell_example_works_unchanged(self):
        self.root = self.dir / ".agent-relay"
        self.up()
        environment = dict(os.environ, HOME=str(self.dir))
        done = subprocess.run(["bash", "-c", APPENDIX_A], env=environment, capture_output=True, text=True, check=True)
        stem = done.stdout.split()[-1][:-4]
        self.wait(lambda: self.state(f"myagent/{stem}") == {"Lead": "held"})
        self.agent("Lead")
        self.wait(lambda: self.inbox("Lead"))
        headers, body = self.inbox("Lead")[0]
        self.assertEqual(body, b"ACK: Task received and understood.\n")
        self.assertEqual((headers["FROM"], headers["TO"], headers["ID"]), ("myagent", "Lead", f"myagent/{stem}"))

    def test_a_misspelt_name_registers_nobody(self):
        self.up()
        self.agent("alice", "bob")
        for words in (["inbox", "bobb"], ["inbox", "bobb", "--take"], ["ack", "bobb", "x"], ["nack", "bobb", "x"],
                      ["subscribe", "bobb", "news"], ["unsubscribe", "bobb", "news"], ["send", "alice", "x", "--from", "bobb"],
                      ["broadcast", "x", "--from", "bobb"], ["release", "alice", "--from", "bobb"],
                      ["spawn", "x", "--cli", "y", "--from", "bobb"]):
            done = self.command(*words, code=1)
            self.assertIn("there is no agent 'bobb'", done.stderr, words)
            self.assertIn("did you mean 'bob'?", done.stderr, words)
            self.assertEqual("--register" in done.stderr, "--from" in words, words)
        self.assertIn("is not a valid agent name", self.command("inbox", "../bob", code=1).stderr)
        self.assertEqual(sorted(os.listdir(self.root / "agents")), ["alice", "bob"])
        self.command("send", "bob", "x", "--from", "dora", "--register", "--wait", "delivered")
        self.command("send", "bob", "x", "--wait", "delivered")
        self.assertEqual(set(self.statuses()), {"alice", "bob", "dora", "Operator"})

    def test_direct_broadcast_channel_and_lead(self):
        self.up()
        self.agent("alice", "bob", "carol", "Lead")
        self.send("bob", "TO: __orchestrator__\nKIND: subscribe\n\n#news\n")
        self.send("carol", "TO: __orchestrator__\nKIND: subscribe\nCHANNEL: news\n\n")
        self.wait(lambda: self.command("channels").stdout == "#news bob carol\n")
        self.send("alice", "TO: bob\nFROM: mallory\nX-Own: kept\n\ndirect\0\r\n")
        self.send("alice", "TO: *\n\nall\n")
        self.send("bob", "TO: #news\n\nnews\n")
        last = self.send("alice", "TO: Lead\n\nlead\n")
        self.wait(lambda: self.state(last) == {"Lead": "delivered"})
        self.wait(lambda: len(self.inbox("carol")) == 2)
        self.assertEqual([body for _, body in self.inbox("bob")], [b"direct\0\r\n", b"all\n"])
        self.assertEqual(sorted(body for _, body in self.inbox("carol")), [b"all\n", b"news\n"])
        self.assertEqual([body for _, body in self.inbox("Lead")], [b"all\n", b"lead\n"])
        self.assertEqual(self.inbox("alice"), [])
        headers, _ = self.inbox("bob")[0]
        self.assertEqual((headers["FROM"], headers["X-Own"]), ("alice", "kept"))
        self.send("carol", "TO: __orchestrator__\nKIND: unsubscribe\n\nnews\n")
        self.wait(lambda: self.command("channels").stdout == "#news bob\n")

    def test_what_cannot_go_is_answered_and_kept(self):
        self.up()
        self.agent("alice", "bob")
        cases = {"TO: nobody\n\nx": "kNotFound", "TO: #empty\n\nx": "kNotFound", "TO: ../bob\n\nx": "kInvalid",
                 "TO: __orchestrator__\nKIND: spawn\n\nNAME: w\nCLI: sh\n": "kUnsupported",
                 "TO: bob\nKIND: release\n\n": "kUnsupported", "no header": "kInvalid", "TO: a\nTO: b\n\n": "kInvalid",
                 "TO: bob\nCHECKSUM: sha256:00\n\nx": "kCorrupt", "TO: bob\n\n" + "x" * 1_100_000: "kTooLarge"}
        for text in cases:
            message = self.send("alice", text)
            self.wait(lambda: self.inbox("alice"))
            headers, _ = self.inbox("alice")[0]
            self.assertEqual((headers["KIND"], headers["REFERENCE"], headers["FROM"]), ("nack", message, "__orchestrator__"), text[:40])
            self.command("inbox", "alice", "--take")
        self.assertEqual(self.inbox("bob"), [])
        letters = json.loads(self.command("dead", "list", "--json").stdout)
        self.assertEqual(len(letters), len(cases))
        shown = self.command("dead", "show", str(letters[0]["id"]))
        self.assertEqual(shown.stdout, "TO: nobody\n\nx")
        self.assertRegex(shown.stderr, rf"dead letter {letters[0]['id']} of \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d, message alice/.*: .*nobody")
        self.agent("nobody")
        self.command("dead", "redeliver", str(letters[0]["id"]))
        self.wait(lambda: [body for _, body in self.inbox("nobody")] == [b"x"])
        self.command("dead", "discard", str(letters[1]["id"]))
        self.wait(lambda: len(json.loads(self.command("dead", "list", "--json").stdout)) == len(cases) - 2)
        self.fsck()

    def test_an_inactive_agent_gets_its_messages_later_in_order(self):
        self.up()
        self.agent("alice", "bob")
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\ninactive\n")
        self.wait(lambda: self.statuses()["bob"] == "inactive")
        ids = [self.send("alice", f"TO: bob\n\n{i}\n") for i in range(600)]
        self.wait(lambda: self.state(ids[-1]) == {"bob": "stored"})
        self.wait(lambda: len(self.inbox("alice")) == 600)
        self.assertEqual(self.inbox("alice")[0][0]["STATE"], "stored")
        self.assertEqual(self.inbox("bob"), [])
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\nactive\n")
        self.send("alice", "TO: bob\n\n600\n")
        self.wait(lambda: len(self.inbox("bob")) == 601)
        self.assertEqual([int(body) for _, body in self.inbox("bob")], list(range(601)))

    def test_the_sender_sees_accepted_delivered_read_and_acked(self):
        self.up()
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\nRECEIPT: yes\n\nx")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        file = next((self.root / "agents/bob/inbox").glob("*.msg"))
        self.command("inbox", "bob", "--take")
        self.wait(lambda: self.state(message) == {"bob": "read"})
        self.command("ack", "bob", file.name)
        self.wait(lambda: self.state(message) == {"bob": "acked"})
        self.wait(lambda: [headers["STATE"] for headers, _ in self.inbox("alice")] == ["delivered", "read", "acked"])
        other = self.send("alice", "TO: bob\n\ny")
        self.wait(lambda: self.state(other) == {"bob": "delivered"})
        self.command("nack", "bob", other, "not mine")
        self.wait(lambda: self.state(other) == {"bob": "nacked"})
        self.assertIn("not mine", self.command("status", other).stdout)
        self.send("alice", f"TO: __orchestrator__\nKIND: ack\nREFERENCE: {other}\n\n")  # was never sent to her
        self.wait(lambda: self.inbox("alice")[-1][0]["KIND"] == "nack")
        self.assertEqual(self.state(other), {"bob": "nacked"})

    def test_send_waits_and_fails_when_told(self):
        self.up()
        self.agent("bob")
        done = self.command("send", "bob", "--from", "alice", "--register", "--wait", "delivered", stdin="from standard input")
        self.assertEqual(self.inbox("bob")[0][1], b"from standard input")
        self.assertEqual(self.state(done.stdout.strip()), {"bob": "delivered"})
        self.assertIn("no agent 'x'", self.command("send", "x", "hi", "--from", "alice", "--wait", "delivered", code=1).stderr)
        self.assertIn("not read yet", self.command("send", "bob", "hi", "--from", "alice", "--wait", "read", "--timeout",
                                                   "200ms", code=1).stderr)

    def test_urgent_messages_go_first_and_a_senders_order_is_kept(self):
        self.up()
        self.agent("alice", "bob")
        self.kill()
        for i in range(5):
            self.send("alice", f"TO: bob\n\n{i}\n")
        self.send("alice", "TO: bob\nPRIORITY: 0\n\nurgent\n")
        self.send("alice", "TO: bob\nPRIORITY: 9\n\nlast\n")
        self.send("alice", "TO: bob\n\n5\n")
        self.up()
        self.wait(lambda: len(self.inbox("bob")) == 8)
        self.assertEqual([body.strip().decode() for _, body in self.inbox("bob")], ["urgent", *"012345", "last"])

    def test_the_same_file_again_is_nothing_and_other_bytes_are_a_conflict(self):
        self.up()
        self.agent("alice", "bob")
        name = "1706123456789012345-a1b2c3d4.msg"
        message = self.send("alice", "TO: bob\n\nx", name)
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        outbox = self.root / "agents/alice/outbox"
        self.send("alice", "TO: bob\n\nx", name)
        self.wait(lambda: not list(outbox.glob("*.msg")))
        self.send("alice", "TO: bob\n\ny", name)
        self.wait(lambda: self.inbox("alice"))
        self.assertEqual(self.inbox("alice")[0][0]["KIND"], "nack")
        self.assertEqual([body for _, body in self.inbox("bob")], [b"x"])
        self.wait(lambda: len(list(self.root.glob("archive/*/alice/*"))) == 2)
        self.assertEqual(min(file.name for file in self.root.glob("archive/*/alice/*")), name)

    def test_one_relay_at_a_time_and_down_ends_it(self):
        self.up()
        self.assertIn("already running", self.command("up", code=1).stderr)
        self.command("down")
        self.assertEqual(self.process.wait(), 0)
        self.assertIn("no relay is running", self.command("down", code=1).stderr)
        self.command("up", "--daemon")
        self.assertTrue(json.loads(self.command("status", "--json").stdout)["up"])
        self.command("down")
        self.assertFalse(json.loads(self.command("status", "--json", code=3).stdout)["up"])

    def test_backup_archive_tail_and_fsck(self):
        self.up()
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.command("backup", str(self.dir / "copy.db"))
        counted = subprocess.run(["sqlite3", self.dir / "copy.db", "SELECT count(*) FROM messages"], capture_output=True, text=True)
        self.assertEqual(counted.stdout, "1\n")
        self.assertIn("1 messages", self.command("archive", "list").stdout)
        (self.root / "archive/2001-01-01/alice").mkdir(parents=True)
        (self.root / "archive/2001-01-01/alice/978307200000000000-00000000.msg").write_text("TO: bob\n\nold")
        (self.root / "archive/2001-01-01/alice/978307200000000001-00000000.msg.strange").symlink_to("/nowhere")
        os.mkfifo(self.root / "archive/2001-01-01/alice/978307200000000002-00000000.msg.strange")
        self.assertEqual(self.command("archive", "prune", "--older", "30d").stdout, "3 messages removed\n")
        self.assertFalse((self.root / "archive/2001-01-01").exists())
        self.assertIn('"event":"started"', self.command("tail", "--json").stdout)
        self.assertRegex(self.command("tail").stdout, r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info started pid=\d+ agents=0 ")
        self.kill()
        (self.root / "tmp/deliveries/1-deadbeef.msg.bob").write_text("x")
        self.assertIn("has no pending delivery", self.command("fsck", code=1).stdout)
        self.command("fsck", "--repair")
        self.fsck()


if __name__ == "__main__":
    main()
