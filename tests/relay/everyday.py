#!/usr/bin/env python3
"""What people do with a relay all day: read mail and the log, change its configuration, remove agents."""
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest.mock

from relaying import WARREN, RelayCase, configure, die_with_parent, main, query


class Reading(RelayCase):
    def deliver(self, text="TO: bob\n\nx", to="bob"):
        message = self.send("alice", text)
        self.wait(lambda: self.state(message) == {to: "delivered"})
        return message

    def progress(self, message):
        return self.command("status", message).stdout.split()[1]

    def test_a_message_is_delivered_until_it_is_read(self):
        self.up()
        self.agent("alice", "bob")
        message = self.deliver()
        self.assertEqual(self.progress(message), "delivered")
        self.assertEqual(json.loads(self.command("status", message, "--json").stdout)["status"], "delivered")
        self.command("inbox", "bob", "--take")
        self.wait(lambda: self.progress(message) == "read")
        self.command("ack", "bob", message)
        self.wait(lambda: self.progress(message) == "acked")
        self.assertIn("messages delivered: 2\n", self.command("status").stdout)
        self.assertEqual(json.loads(self.command("status", "--json").stdout)["messages"], {"delivered": 2})

    def test_a_broadcast_is_as_far_as_its_slowest_recipient(self):
        self.up()
        self.agent("alice", "bob", "carol")
        message = self.send("alice", "TO: *\n\nx")
        self.wait(lambda: self.state(message) == {"bob": "delivered", "carol": "delivered"})
        self.command("ack", "carol", message)
        self.wait(lambda: (self.state(message) or {}).get("carol") == "acked")
        self.assertEqual(self.progress(message), "delivered")

    def test_a_request_to_the_relay_is_done(self):
        self.up()
        self.agent("alice")
        message = self.send("alice", "TO: __orchestrator__\nKIND: subscribe\n\n#news\n")
        self.wait(lambda: self.command("status", message, code=None).returncode == 0)
        self.assertEqual(self.progress(message), "done")

    def test_the_inbox_shows_how_far_a_receipt_says_a_message_is(self):
        self.up()
        self.agent("alice", "bob")
        message = self.deliver("TO: bob\nRECEIPT: yes\n\nx")
        self.command("ack", "bob", message)
        for state in ("delivered", "acked"):
            self.wait(lambda: re.search(rf"\(status\) about {message}: {state}\n", self.command("inbox", "alice").stdout))

    def test_without_a_directory_no_relay_is_running(self):
        done = subprocess.run([WARREN, "relay", "status", "--root", self.root / "none"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (3, "down\n"), done.stderr)
        self.assertIn("none", done.stderr)

    def test_the_inbox_shows_when_mail_arrived(self):
        self.up()
        self.agent("alice", "bob")
        before = time.time()
        self.deliver()
        self.assertRegex(self.command("inbox", "bob").stdout, r"^\d+-[0-9a-f]+\.msg \d{4}-\d\d-\d\d \d\d:\d\d:\d\d from alice\n  x\n$")
        at = json.loads(self.command("inbox", "bob", "--json").stdout)["delivered_at_us"] / 1e6
        self.assertTrue(before - 1 <= at <= time.time() + 1, at)

    def test_times_are_local_unless_utc_is_asked_for(self):
        self.up()
        self.agent("alice", "bob")
        self.deliver()
        with unittest.mock.patch.dict(os.environ, TZ="XXX-9"):  # nine hours before Greenwich
            for words in (["inbox", "bob"], ["tail"]):
                local, utc = (datetime.datetime.fromisoformat(re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown).group())
                              for shown in (self.command(*words).stdout, self.command(*words, "--utc").stdout))
                self.assertEqual(local - utc, datetime.timedelta(hours=9), words)

    def test_refused_and_acknowledged_mail_leaves_the_inbox(self):
        self.up()
        self.agent("alice", "bob")
        first, second, third = self.deliver(), self.deliver(), self.deliver()
        files = sorted(file.name for file in (self.root / "agents/bob/inbox").glob("*.msg"))
        self.command("nack", "bob", first, "not mine")
        self.command("nack", "bob", files[1])
        self.command("ack", "bob", third)
        self.assertEqual(self.command("inbox", "bob").stdout, "")
        self.wait(lambda: [self.state(one)["bob"] for one in (first, second, third)] == ["nacked", "nacked", "acked"])
        self.assertEqual(len(list((self.root / "agents/bob/inbox/.done").glob("*.msg"))), 3)
        self.command("nack", "bob", first)  # once more: there is nothing left to take
        self.fsck()

    def test_the_log_is_for_people_and_as_json_on_request(self):
        self.up()
        self.agent("alice")
        self.send("alice", "TO: nobody\n\nx")
        self.wait(lambda: self.log_events("refused"))
        shown = self.command("tail").stdout
        self.assertRegex(shown, r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info agent registered agent=alice$")
        self.assertRegex(shown, r'''(?m)^\S+ \S+ warning refused message=alice/\S+ error="there is no agent 'nobody'"$''')
        raw = self.command("tail", "--json").stdout
        self.assertEqual(raw, (self.root / "relay.log").read_text())
        self.assertEqual(len(shown.splitlines()), len(raw.splitlines()))


class Configuring(RelayCase):
    def status(self):
        return json.loads(self.command("status", "--json").stdout)

    def test_a_changed_configuration_is_used_without_a_restart(self):
        self.up()
        self.agent("alice", "bob")
        held = self.send("alice", "TO: Lead\n\nwho leads?")
        self.wait(lambda: self.state(held) == {"Lead": "held"})
        configure(self.root, {"message_bytes_max": 100, "lead": "bob"})
        self.wait(lambda: self.log_events("config_read"))
        self.wait(lambda: [body for _, body in self.inbox("bob")] == [b"who leads?"])
        large = self.send("alice", "TO: bob\n\n" + 200 * "x")
        self.wait(lambda: self.log_events("refused"))
        self.assertEqual(json.loads(self.command("status", large, "--json").stdout)["status"], "failed")
        draft = self.root / "draft.json"
        draft.write_text(json.dumps({"disk_alert_percent": 100}))
        os.rename(draft, self.root / "config.json")  # as editors do
        self.wait(lambda: len(self.log_events("config_read")) == 2)
        again = self.send("alice", "TO: bob\n\n" + 200 * "x")
        self.wait(lambda: self.state(again) == {"bob": "delivered"})

    def test_a_bad_configuration_is_reported_and_not_used(self):
        self.config = {"message_bytes_max": 100}
        self.setUp()
        self.up()
        self.agent("alice", "bob")
        (self.root / "config.json").write_text('{"message_bytes_mx": 10}')
        self.wait(lambda: self.log_events("config_refused"))
        self.assertIn("unknown key 'message_bytes_mx'", self.log_events("config_refused")[0]["error"])
        self.wait(lambda: "unknown key 'message_bytes_mx'" in self.status().get("config", ""))
        self.assertEqual(self.status()["problems"], [])  # it works, and a restart would not help
        self.assertRegex(self.command("status").stdout, "(?m)^config: the changed config.json is not used")
        self.send("alice", "TO: bob\n\n" + 200 * "x")
        self.wait(lambda: self.log_events("refused"))  # the old limit
        configure(self.root, {})
        self.wait(lambda: self.log_events("config_read"))
        self.wait(lambda: "config" not in self.status())

    def test_the_status_is_about_the_configuration_that_is_there(self):
        self.up()
        (self.root / "config.json").write_text('{"first": 1}')
        self.wait(lambda: "unknown key 'first'" in self.status().get("config", ""))
        (self.root / "config.json").write_text('{"second": 1}')
        self.assertIn("unknown key 'second'", self.status()["config"])
        self.wait(lambda: len(self.log_events("config_refused")) == 2)
        (self.root / "config.json").unlink()
        self.assertNotIn("config", self.status())
        configure(self.root, {})
        self.assertNotIn("config", self.status())

    def test_what_is_not_a_file_is_a_bad_configuration(self):
        self.up()
        config = self.root / "config.json"
        for number, make in enumerate((lambda: config.mkdir(), lambda: os.mkfifo(config),
                                       lambda: config.symlink_to("/dev/zero")), 1):
            config.unlink()
            make()
            self.wait(lambda: len(self.log_events("config_refused")) == number)
            self.assertIn("config.json", self.log_events("config_refused")[-1]["error"])
            self.assertIn("the changed config.json is not used", self.status()["config"])
            config.rmdir() if number == 1 else config.unlink()
            configure(self.root, {})
            self.wait(lambda: len(self.log_events("config_read")) == number)
            self.assertNotIn("config", self.status())

    def test_what_cannot_change_while_it_runs_is_named(self):
        self.up()
        configure(self.root, {"metrics": "127.0.0.1:0"})
        self.wait(lambda: self.log_events("config_read"))
        self.assertEqual(self.log_events("config_read")[0]["used_at_next_start"], ["metrics"])
        self.wait(lambda: "metrics will be used at the next start" in self.status().get("config", ""))

    def test_the_log_level_changes(self):
        self.up()
        self.agent("alice", "bob")
        configure(self.root, {"log_level": "debug"})
        self.wait(lambda: self.log_events("config_read"))
        self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.log_events("accepted"))


class Answering(RelayCase):
    def test_only_what_was_received_can_be_answered(self):
        self.up()
        self.agent("alice", "bob", "carol")
        message = self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        for verb in ("ack", "nack"):
            for agent, which in (("carol", message), ("bob", "nobody/1"), ("bob", "../../../etc/passwd")):
                self.assertIn(f"agent '{agent}' has received no message '{which}'",
                              self.command(verb, agent, which, code=1).stderr)
        for agent in ("bob", "carol"):
            self.assertEqual(list((self.root / "agents" / agent / "outbox").glob("*.msg")), [])
        self.command("ack", "bob", message)
        self.wait(lambda: self.state(message) == {"bob": "acked"})
        self.assertEqual(json.loads(self.command("status", "--json").stdout)["dead_letters"], 0)
        self.assertEqual(self.inbox("carol"), [])

    def test_a_file_that_the_relay_did_not_deliver_cannot_be_answered(self):
        self.up()
        self.agent("alice", "bob")
        self.wait(lambda: (self.root / "agents/bob/inbox/.done").exists())
        for folder in ("inbox", "inbox/.done"):
            file = self.root / "agents/bob" / folder / f"{time.time_ns()}-0123456789abcdef.msg"
            file.write_text("FROM: alice\n\nforged")
            for verb in ("ack", "nack"):
                refused = self.command(verb, "bob", file.name, code=1).stderr
                self.assertIn(f"the relay has delivered no message '{file.name}' to 'bob'\n", refused)
                self.assertTrue(file.exists())
        self.assertEqual(list((self.root / "agents/bob/outbox").glob("*.msg")), [])

    def test_an_answer_to_no_message_is_refused_with_what_it_lacks(self):
        self.up()
        self.agent("bob")
        for kind in ("ack", "nack"):
            sent = self.send("bob", f"TO: __orchestrator__\nKIND: {kind}\n\nno")
            self.wait(lambda: any(headers.get("REFERENCE") == sent for headers, _ in self.inbox("bob")))
            [body] = [body for headers, body in self.inbox("bob") if headers.get("REFERENCE") == sent]
            self.assertEqual(body, f"KIND '{kind}' needs the header REFERENCE, with the file's name or the message's ID\n".encode())

    def test_the_first_answer_counts(self):
        self.up()
        self.agent("alice", "bob")
        for first, second in (("ack", "nack"), ("nack", "ack")):
            message = self.send("alice", "TO: bob\nRECEIPT: yes\n\nx")
            self.wait(lambda: self.state(message) == {"bob": "delivered"})
            self.command(first, "bob", message)
            self.wait(lambda: self.state(message) == {"bob": first + "ed"})
            refused = self.command(second, "bob", message, code=1).stderr
            self.assertIn(f"is {first}ed already; the first answer counts", refused)
            self.command(first, "bob", message)  # as somebody does who was killed
            other = self.send("bob", f"TO: __orchestrator__\nKIND: {second}\nREFERENCE: {message}\n\n")
            self.wait(lambda: any(headers.get("REFERENCE") == other for headers, _ in self.inbox("bob")))
            self.assertEqual(self.state(message), {"bob": first + "ed"})
            states = [headers["STATE"] for headers, _ in self.inbox("alice") if headers.get("REFERENCE") == message]
            self.assertEqual(states[-1], first + "ed")
            self.assertNotIn(second + "ed", states)

    def test_two_answers_in_one_round(self):
        self.up()
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\nRECEIPT: yes\n\nx")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        os.kill(self.process.pid, signal.SIGSTOP)
        self.send("bob", f"TO: __orchestrator__\nKIND: nack\nREFERENCE: {message}\n\nno")
        other = self.send("bob", f"TO: __orchestrator__\nKIND: ack\nREFERENCE: {message}\n\n")
        os.kill(self.process.pid, signal.SIGCONT)
        self.wait(lambda: any(headers.get("REFERENCE") == other for headers, _ in self.inbox("bob")))
        self.assertEqual(self.state(message), {"bob": "nacked"})


class Removing(RelayCase):
    def test_an_agent_without_mail_is_removed(self):
        self.up()
        self.agent("alice", "bob")
        self.send("bob", "TO: __orchestrator__\nKIND: subscribe\n\n#news\n")
        self.wait(lambda: "#news bob" in self.command("channels").stdout)
        self.command("remove", "bob")
        self.assertFalse((self.root / "agents/bob").exists())
        self.assertEqual(self.statuses()["bob"], "terminated")
        self.assertEqual([line.split()[:2] for line in self.command("agents").stdout.splitlines()], [["alice", "active"]])
        self.assertIn("bob terminated", self.command("agents", "--all").stdout)
        self.assertNotIn("bob", self.command("channels").stdout)
        self.assertEqual(list((self.root / "tmp").glob("removed-*")), [])
        self.assertIn("no agent 'bob'", self.command("remove", "bob", code=1).stderr)
        self.assertIn("did you mean 'alice'", self.command("remove", "alicee", code=1).stderr)
        self.assertIn("not a valid agent name", self.command("remove", "../agents", code=1).stderr)
        self.fsck()

    def test_an_agent_that_was_removed_while_no_relay_ran_is_not_listed(self):
        self.up()
        self.agent("alice", "bob", "carol")
        self.kill(signal.SIGTERM)
        self.command("remove", "bob")
        shutil.rmtree(self.root / "agents/carol")
        self.assertEqual([line.split()[0] for line in self.command("agents").stdout.splitlines()], ["alice"])
        self.assertEqual([one["name"] for one in json.loads(self.command("agents", "--json").stdout)], ["alice"])
        self.assertEqual(sorted(self.statuses()), ["alice", "bob", "carol"])  # with --all

    def test_mail_prevents_it_unless_forced(self):
        self.up()
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\n\nunread")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        refused = self.command("remove", "bob", code=1).stderr
        self.assertIn("agent 'bob' has 1 unread message\n", refused)
        self.assertIn("--force", refused)
        self.assertEqual(len(self.inbox("bob")), 1)
        self.assertEqual(self.statuses()["bob"], "active")
        self.assertEqual(self.command("remove", "bob", "--force").stderr, "1 unread message became a dead letter\n")
        self.assertFalse((self.root / "agents/bob").exists())

    def check_unread_is_dead(self, messages, read):
        """After bob was removed, and a relay was running."""
        def nacks():
            return sorted(headers["REFERENCE"] for headers, _ in self.inbox("alice") if headers["KIND"] == "nack")
        self.wait(lambda: nacks() == sorted(messages))
        self.assertEqual(len(json.loads(self.command("dead", "list", "--json").stdout)), min(len(messages), 1000))
        for message in (messages[0], messages[-1]):
            self.assertEqual(self.state(message), {"bob": "dead"})
        self.assertEqual(self.state(read), {"bob": "read"})
        reports = [headers for headers, _ in self.inbox("alice") if headers.get("STATE") == "read"]
        self.assertEqual([headers["REFERENCE"] for headers in reports], [read])
        self.agent("bob")
        last = self.send("alice", "TO: bob\n\nlast")
        self.wait(lambda: self.state(last) == {"bob": "delivered"})
        os.rename(self.root / "agents/bob", self.root / "bob")  # back again: his inbox is compared with the ledger
        self.wait(lambda: self.statuses()["bob"] == "terminated")
        os.rename(self.root / "bob", self.root / "agents/bob")
        self.wait(lambda: self.statuses()["bob"] == "active")
        after = self.send("alice", "TO: bob\n\nafter")
        self.wait(lambda: self.state(after) == {"bob": "delivered"})
        self.assertEqual(nacks(), sorted(messages))
        for message in (messages[0], messages[-1]):
            self.assertEqual(self.state(message), {"bob": "dead"})
        self.assertEqual([body for _, body in self.inbox("bob")], [b"last", b"after"])
        self.fsck()

    def send_some(self, count):
        """Returns messages that bob has not read, and one that he has."""
        self.up()
        self.agent("alice", "bob")
        read = self.send("alice", "TO: bob\nRECEIPT: yes\n\nread")
        self.wait(lambda: self.state(read) == {"bob": "delivered"})
        self.command("inbox", "bob", "--take")
        self.wait(lambda: self.state(read) == {"bob": "read"})
        messages = [self.send("alice", f"TO: bob\nRECEIPT: yes\n\n{number}") for number in range(count)]
        self.wait(lambda: all(self.state(message) == {"bob": "delivered"} for message in messages[-3:]))
        return messages, read

    def test_what_is_unread_becomes_dead_letters_and_is_never_read(self):
        messages, read = self.send_some(3)
        self.command("remove", "bob", "--force")
        self.check_unread_is_dead(messages, read)

    def test_what_was_in_a_directory_that_was_moved_away_was_not_read(self):
        messages, read = self.send_some(3)
        os.rename(self.root / "agents/bob", self.root / "moved")
        self.wait(lambda: self.statuses()["bob"] == "terminated")
        self.command("register", "bob")
        self.check_unread_is_dead(messages, read)

    def test_nor_if_no_relay_was_running_then(self):
        messages, read = self.send_some(3)
        self.kill(signal.SIGTERM)
        os.rename(self.root / "agents/bob", self.root / "moved")
        self.command("register", "bob")
        self.up()
        self.check_unread_is_dead(messages, read)

    def test_what_was_read_while_no_relay_was_running_was_read(self):
        messages, _ = self.send_some(3)
        self.kill(signal.SIGTERM)
        for file in (self.root / "agents/bob/inbox").glob("*.msg"):
            file.unlink()
        self.up()
        self.wait(lambda: all(self.state(message) == {"bob": "read"} for message in messages))
        self.assertEqual(json.loads(self.command("dead", "list", "--json").stdout), [])

    def test_more_unread_messages_than_a_page_become_dead_letters(self):
        messages, read = self.send_some(1100)
        self.assertEqual(self.command("remove", "bob", "--force").stderr, "1100 unread messages became dead letters\n")
        self.check_unread_is_dead(messages, read)

    def test_without_a_relay_what_is_unread_becomes_dead_letters_later(self):
        messages, read = self.send_some(3)
        self.stop()
        self.assertIn("3 unread messages will become dead letters when a relay runs", self.command("remove", "bob", "--force").stderr)
        self.command("register", "bob")  # before the relay knows that he was removed
        self.up()
        self.wait(lambda: self.state(messages[-1]) == {"bob": "dead"})
        self.check_unread_is_dead(messages, read)

    def is_removal_asked_for(self):
        return query(self.root, "SELECT 1 FROM pending_operations WHERE operation_type = 'remove'")

    def ask_for_removal(self, *options):
        """While the relay is stopped."""
        os.kill(self.process.pid, signal.SIGSTOP)
        return subprocess.Popen([WARREN, "relay", "remove", "bob", "--root", self.root, *options],
                                stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)

    def start_removal(self, *options):
        """Returns the command, and the directory that it has moved away; one that times out may bring it back at once."""
        process = self.ask_for_removal(*options)
        self.wait(self.is_removal_asked_for)
        [moved] = (self.root / "tmp").glob("removed-*")
        self.assertLess(time.time() - moved.stat().st_mtime, 60)
        return process, moved

    def test_mail_that_a_busy_relay_delivers_meanwhile_is_kept(self):
        self.up()
        self.agent("alice", "bob")
        os.utime(self.root / "agents/bob", (0, 0))
        process, moved = self.start_removal()
        # As the relay does through a descriptor that it has kept open.
        (moved / "inbox/1706123456789012345-a1b2c3d4.msg").write_text("FROM: alice\n\nhi")
        os.kill(self.process.pid, signal.SIGCONT)
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1)
        self.assertIn("agent 'bob' got 1 unread message meanwhile", error)
        self.assertTrue((self.root / "agents/bob/inbox/1706123456789012345-a1b2c3d4.msg").exists())
        self.wait(lambda: self.statuses()["bob"] == "active")

    def test_an_agent_stays_if_the_relay_does_not_answer(self):
        self.up()
        self.agent("alice", "bob")
        process = self.ask_for_removal("--timeout", "100ms")
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1)
        self.assertIn("timed out", error)
        self.assertTrue((self.root / "agents/bob/inbox").exists())
        os.kill(self.process.pid, signal.SIGCONT)
        self.wait(lambda: self.log_events("operation_failed"))
        self.assertIn("registered again", self.log_events("operation_failed")[0]["error"])
        self.assertEqual(self.statuses()["bob"], "active")

    def test_a_forced_removal_that_was_asked_for_is_never_taken_back(self):
        messages, read = self.send_some(1100)
        (self.root / "agents/bob/inbox/1706123456789012345-a1b2c3d4.msg").write_text("put here by hand")
        process, moved = self.start_removal("--force", "--timeout", "100ms")
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1)
        self.assertIn(f"timed out: the relay has not carried it out; the directory of agent 'bob' is 'tmp/{moved.name}'",
                      error)
        self.assertFalse((self.root / "agents/bob").exists())
        os.kill(self.process.pid, signal.SIGCONT)
        self.wait(lambda: self.command("operations").stdout == "")
        self.check_unread_is_dead(messages, read)

    def test_files_that_are_not_deliveries_are_not_counted_as_dead_letters(self):
        messages, _ = self.send_some(1)
        (self.root / "agents/bob/inbox/1706123456789012345-a1b2c3d4.msg").write_text("put here by hand")
        self.assertEqual(self.command("remove", "bob", "--force").stderr, "1 unread message became a dead letter\n")
        self.assertEqual(self.state(messages[0]), {"bob": "dead"})

    def test_what_was_just_delivered_to_an_inbox_that_is_gone_is_delivered_when_it_is_back(self):
        self.up()
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\nRECEIPT: yes\n\nhello")
        self.wait(lambda: self.inbox("bob"))
        os.rename(self.root / "agents/bob", self.root / "bob")
        self.wait(lambda: self.statuses()["bob"] == "terminated")
        os.rename(self.root / "bob", self.root / "agents/bob")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.assertEqual([body for _, body in self.inbox("bob")], [b"hello"])
        self.fsck()

    def test_waiting_mail_becomes_dead_letters_and_no_later_agent_gets_it(self):
        self.up()
        self.agent("alice", "bob")
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\ninactive\n")
        self.wait(lambda: self.statuses()["bob"] == "inactive")
        messages = [self.send("alice", f"TO: bob\n\n{number}") for number in range(300)]  # more than a page
        self.wait(lambda: self.state(messages[-1]) == {"bob": "stored"})
        self.assertIn("has 300 waiting messages", self.command("remove", "bob", code=1).stderr)
        self.assertEqual(self.command("remove", "bob", "--force").stderr, "300 waiting messages became dead letters\n")
        self.wait(lambda: len(json.loads(self.command("dead", "list", "--json").stdout)) == 300)
        self.agent("bob")
        last = self.send("alice", "TO: bob\n\nlast")
        self.wait(lambda: self.state(last) == {"bob": "delivered"})
        self.assertEqual([body for _, body in self.inbox("bob")], [b"last"])
        letter = re.match(r"\d+", self.command("dead", "list").stdout).group()
        self.command("dead", "redeliver", letter)  # somebody who wants the new one to have it
        self.wait(lambda: len(self.inbox("bob")) == 2)
        self.fsck()

    def stop(self):
        self.command("down")
        self.process.wait()
        self.process.stderr.close()
        self.process = None

    def test_without_a_relay_the_next_one_does_the_rest(self):
        self.up()
        self.agent("alice", "bob")
        self.stop()
        outbox = self.root / "agents/bob/outbox"
        (outbox / "1706123456789012345-a1b2c3d4.msg").write_text("TO: alice\n\nx")
        self.assertIn("has 1 unsent message", self.command("remove", "bob", code=1).stderr)
        self.assertIn("no relay is running", self.command("remove", "bob", "--force").stderr)
        self.up()
        self.wait(lambda: self.statuses()["bob"] == "terminated")
        self.wait(lambda: self.command("operations").stdout == "")


class RemovingAProcess(RelayCase):
    config = {"spawn": {"clis": {"sleeper": {"argv": ["sleep", "1000"]}}, "notice_ms": 0}}

    def test_an_agent_that_runs_is_not_removed_unless_forced(self):
        self.up()
        self.agent("alice")
        self.command("spawn", "worker", "--cli", "sleeper", "--from", "alice", "--wait")
        pid = next(one["pid"] for one in json.loads(self.command("agents", "--all", "--json").stdout) if one["name"] == "worker")
        self.assertIn(f"agent 'worker' is running as process {pid}", self.command("remove", "worker", code=1).stderr)
        self.command("remove", "worker", "--force")
        self.wait(lambda: not os.path.exists(f"/proc/{pid}"))


if __name__ == "__main__":
    main()
