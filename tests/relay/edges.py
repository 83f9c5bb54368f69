#!/usr/bin/env python3
"""Each edge case of the specification's section 6, and of its list of races, made to happen."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import time
import unittest

from relaying import WARREN, RelayCase, configure, main, write_message


class Edges(RelayCase):
    def test_a_file_written_in_place_is_read_when_it_stands_still(self):
        self.up()
        self.agent("alice", "bob")
        path = self.root / "agents/alice/outbox/1706123456789012345-a1b2c3d4.msg"
        with open(path, "w") as out:
            for piece in ("TO: b", "ob\n", "\nfirst ", "second ", "third"):
                out.write(piece)
                out.flush()
                time.sleep(0.06)
        self.wait(lambda: self.inbox("bob"))
        self.assertEqual(self.inbox("bob")[0][1], b"first second third")

    def test_a_partial_write_that_never_ends_is_refused_after_five_seconds(self):
        self.up()
        self.agent("alice")
        begun = time.monotonic()
        (self.root / "agents/alice/outbox/1706123456789012345-a1b2c3d4.msg").write_text("TO: bo")
        self.wait(lambda: self.inbox("alice"))
        self.assertGreater(time.monotonic() - begun, 4.5)
        self.assertEqual(self.inbox("alice")[0][0]["KIND"], "nack")

    def test_a_dead_senders_draft_is_never_delivered_and_goes_away(self):
        self.config = {"rescan_ms": 2000}
        self.setUp()
        self.up()
        self.agent("alice", "bob")
        draft = self.root / "agents/alice/outbox/.pending/1706123456789012345-a1b2c3d4.msg"
        draft.write_text("TO: bob\n\nx")
        self.wait(lambda: not draft.exists(), 120)
        self.assertEqual(self.inbox("bob"), [])
        self.wait(lambda: self.log_events("leftover_removed"))

    def test_a_socket_is_refused_and_moved_aside(self):
        self.up()
        self.agent("alice", "bob")
        outbox = self.root / "agents/alice/outbox"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(outbox / "1-aaaaaaaa.msg"))
            self.wait(lambda: self.inbox("alice"))
        self.assertEqual(self.inbox("alice")[0][0]["KIND"], "nack")
        self.wait(lambda: list(self.root.glob("archive/*/alice/1-aaaaaaaa.msg.strange")))
        self.assertEqual(self.log_events("read_failed"), [])

    def test_the_signal_for_checkpoints_changes_nothing(self):
        self.up()
        self.agent("alice", "bob")
        self.process.send_signal(signal.SIGUSR1)
        message = self.send("alice", "TO: bob\n\nhello")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        tail = subprocess.Popen([WARREN, "relay", "tail", "--follow", "--root", self.root], stdout=subprocess.PIPE)
        self.addCleanup(tail.stdout.close)
        self.addCleanup(tail.wait)
        self.addCleanup(tail.kill)
        self.assertTrue(tail.stdout.readline())
        tail.send_signal(signal.SIGUSR1)
        tail.terminate()
        self.assertIn(tail.wait(20), (0, -signal.SIGTERM))
        self.process.terminate()
        self.assertEqual(self.process.wait(20), 0)

    def test_a_large_message_that_a_power_cut_took_on_its_way_is_delivered_again(self):
        """Its rename was half on the disk: gone from where it was staged, and not in the inbox."""
        self.up()
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\n\n" + 40_000 * "x")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.kill(signal.SIGTERM)
        for file in (self.root / "agents/bob/inbox").glob("*.msg"):
            file.unlink()
        with contextlib.closing(sqlite3.connect(self.root / "ledger.db")) as db:
            db.execute("UPDATE deliveries SET state = 'pending'")
            db.execute("UPDATE messages SET status = 'processing'")
            db.execute("UPDATE orchestrator_state SET value = 'before the cut' WHERE key = 'file_life'")
            db.commit()
        self.up()
        self.wait(lambda: self.inbox("bob"))
        self.assertEqual(len(self.inbox("bob")[0][1]), 40_000)
        self.fsck()

    def test_links_pipes_and_directories_are_not_read(self):
        self.up()
        self.agent("alice", "bob")
        secret = self.dir / "secret"
        secret.write_text("TO: bob\n\nsecret")
        outbox = self.root / "agents/alice/outbox"
        (outbox / "1-aaaaaaaa.msg").symlink_to(secret)
        os.mkfifo(outbox / "2-aaaaaaaa.msg")
        (outbox / "3-aaaaaaaa.msg").mkdir()
        (outbox / "../../alice/outbox/4-aaaaaaaa.msg").symlink_to("/dev/zero")
        last = self.send("alice", "TO: bob\n\nlast")
        self.wait(lambda: self.state(last) == {"bob": "delivered"})
        self.wait(lambda: len(self.inbox("alice")) == 3)
        self.assertEqual([body for _, body in self.inbox("bob")], [b"last"])
        self.assertEqual(secret.read_text(), "TO: bob\n\nsecret")
        self.assertGreaterEqual(len(self.log_events("strange_file", "audit.log")), 3)
        self.assertEqual(stat.S_IMODE(os.stat(self.root / "audit.log").st_mode), 0o600)

    def test_an_agents_directory_that_is_a_link_is_no_agent(self):
        self.up()
        elsewhere = self.dir / "elsewhere"
        (elsewhere / "outbox").mkdir(parents=True)
        (self.root / "agents/alice").symlink_to(elsewhere)
        (self.root / "agents/root/outbox").mkdir(parents=True)
        self.agent("bob")
        self.assertEqual(self.statuses(), {"bob": "active"})

    def test_permissions_are_repaired(self):
        self.up()
        self.agent("alice")
        self.kill()
        for path in (".", "agents", "agents/alice", "agents/alice/outbox", "archive"):
            os.chmod(self.root / path, 0o755)
        for path in ("ledger.db", "config.json"):
            os.chmod(self.root / path, 0o644)
        self.up()
        for path in (".", "agents", "agents/alice", "agents/alice/outbox", "agents/alice/inbox", "archive", "tmp", "attachments"):
            self.assertEqual(stat.S_IMODE(os.stat(self.root / path).st_mode), 0o700, path)
        for path in ("ledger.db", "config.json", ".lock", "relay.log"):
            self.assertEqual(stat.S_IMODE(os.stat(self.root / path).st_mode), 0o600, path)

    def test_a_clock_that_jumps_loses_nothing_and_keeps_the_order(self):
        self.up()
        self.agent("alice", "bob")
        stamps = [5_000, 3_000, 9_000_000_000_000_000_000, 1, 4_000]
        for number, stamp in enumerate(stamps):
            message = self.send("alice", f"TO: bob\n\n{number}", f"{stamp}-aaaaaaa{number}.msg")
            self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.assertEqual([int(body) for _, body in self.inbox("bob")], list(range(len(stamps))))
        self.assertEqual(len(self.log_events("clock_went_back")), 2)

    def test_more_events_than_the_kernel_keeps(self):
        self.up()
        self.agent("alice", "bob")
        limit = int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        self.process.send_signal(19)  # SIGSTOP: events pile up
        outbox = self.root / "agents/alice/outbox"
        count = limit + 100
        for number in range(count):
            draft = outbox / ".pending" / f"{number}"
            draft.write_text(f"TO: bob\n\n{number}")
            draft.rename(outbox / f"{1_700_000_000_000_000_000 + number}-aaaaaaaa.msg")
        self.process.send_signal(18)
        self.wait(lambda: len(os.listdir(self.root / "agents/bob/inbox")) == count + 1, 120)  # and .done
        self.assertTrue(self.log_events("events_lost"))
        got = [int(body) for _, body in self.inbox("bob")]
        self.assertTrue(got == list(range(count)), "out of order")  # a diff of these would take minutes

    def test_few_descriptors_are_enough(self):
        names = [f"agent{i}" for i in range(100)]
        for name in names:
            (self.root / "agents" / name / "outbox/.pending").mkdir(parents=True)
        import resource
        self.up(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
        self.wait(lambda: len(self.statuses()) == 100)
        messages = [self.send(name, "TO: *\n\nx") for name in names[:3]]
        self.wait(lambda: all(len(self.inbox(name)) >= 2 for name in names), 60)
        self.wait(lambda: set((self.state(messages[0]) or {"": ""}).values()) == {"delivered"})

    def test_the_rate_of_one_agent_is_limited_and_the_rest_waits_in_its_outbox(self):
        self.config = {"rate_per_second": 20}
        self.setUp()
        self.up()
        self.agent("alice", "bob", "carol")
        for number in range(60):
            self.send("alice", f"TO: bob\n\n{number}")
        other = self.send("carol", "TO: bob\n\ncarol")
        self.wait(lambda: self.state(other) == {"bob": "delivered"})
        self.assertGreater(len(list((self.root / "agents/alice/outbox").glob("*.msg"))), 10)
        self.wait(lambda: len(self.inbox("bob")) == 61)
        got = [body for _, body in self.inbox("bob") if body != b"carol"]
        self.assertEqual([int(body) for body in got], list(range(60)))

    def test_an_inbox_that_fails_is_tried_again_in_order_and_then_given_up(self):
        self.config = {"deadline_ms": 4000}
        self.setUp()
        self.up()
        self.agent("alice", "bob")
        inbox = self.root / "agents/bob/inbox"
        inbox.rename(self.root / "agents/bob/away")
        inbox.write_text("not a directory")
        ids = [self.send("alice", f"TO: bob\n\n{number}") for number in range(5)]
        self.wait(lambda: (self.state(ids[4]) or {}).get("bob") == "pending" and self.log_events("delivery_failed"))
        inbox.unlink()
        (self.root / "agents/bob/away").rename(inbox)
        self.wait(lambda: self.state(ids[4]) == {"bob": "delivered"})
        self.assertEqual([int(body) for _, body in self.inbox("bob")], list(range(5)))
        inbox.rename(self.root / "agents/bob/away")
        inbox.write_text("not a directory")
        late = self.send("alice", "TO: bob\n\nlate")
        self.wait(lambda: self.state(late) == {"bob": "dead"}, 30)
        self.wait(lambda: self.inbox("alice") and self.inbox("alice")[0][0]["KIND"] == "nack")
        inbox.unlink()
        (self.root / "agents/bob/away").rename(inbox)
        letter = json.loads(self.command("dead", "list", "--json").stdout)[0]["id"]
        self.command("dead", "redeliver", str(letter))
        self.wait(lambda: self.state(late) == {"bob": "delivered"})

    def test_an_unknown_key_of_the_configuration_is_named(self):
        self.config = {"setle_ms": 5}
        self.setUp()
        self.assertIn("setle_ms", self.command("up", code=1).stderr)


class FullDisk(RelayCase):
    def setUp(self):
        super().setUp()
        self.disk = self.dir / "disk"
        self.disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", self.disk], capture_output=True).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", self.disk]))
        self.root = self.disk / "root"
        self.root.mkdir(mode=0o700)
        configure(self.root, {"metrics": "127.0.0.1:0", "disk_alert_percent": 90})

    def test_a_full_disk_stops_the_relay_and_loses_nothing(self):
        self.up()
        self.agent("alice", "bob")
        ids = [self.send("alice", f"TO: bob\n\n{number}") for number in range(3)]
        self.wait(lambda: self.state(ids[-1]) == {"bob": "delivered"})
        address = self.metrics_address()
        body = "x" * 200_000
        self.process.send_signal(19)
        ids.append(self.send("alice", "TO: bob\n\n" + body))
        filler = os.open(self.disk / "filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(filler, b"x" * 4096):
                pass
        except OSError:
            os.close(filler)
        self.process.send_signal(18)
        self.wait(lambda: self.failed_rounds(address) >= 3, 60)
        self.assertEqual(len(self.inbox("bob")), 3)
        os.unlink(self.disk / "filler")
        self.wait(lambda: len(self.inbox("bob")) == 4, 40)
        self.assertEqual(self.inbox("bob")[3][1].decode(), body)
        self.wait(lambda: self.state(ids[-1]) == {"bob": "delivered"})
        self.kill(15)
        self.fsck()


if __name__ == "__main__":
    main()
