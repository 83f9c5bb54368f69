#!/usr/bin/env python3
"""Attachments through the real program: stored, verified, waited for, kept while needed, collected afterwards; and what
hostile files in the store do."""
import hashlib
import json
import os
import pathlib
import secrets
import signal
import stat
import subprocess
import time

from relaying import WARREN, RelayCase, main

MIB = 1 << 20
KEEP = 2000


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Attachments(RelayCase):
    config = {"attachment_keep_ms": KEEP, "rescan_ms": 200}

    def path(self, hash_):
        return self.root / "attachments" / hash_[:2] / hash_

    def put(self, data, name=None):
        """The write protocol, as an agent in any language would follow it; the hash."""
        hash_ = name or digest(data)
        draft = self.root / "attachments/.pending" / secrets.token_hex(8)
        draft.write_bytes(data)
        self.path(hash_).parent.mkdir(exist_ok=True)
        draft.rename(self.path(hash_))
        return hash_

    def message(self, to, *hashes, body="see there"):
        lines = "".join(f"ATTACHMENT: sha256:{one}\n" for one in hashes)
        return f"TO: {to}\n{lines}\n{body}"

    def nack(self, agent, message):
        """The answer to one message, waited for: (ERROR, body)."""
        def found():
            return [(headers["ERROR"], body.decode()) for headers, body in self.inbox(agent)
                    if headers.get("REFERENCE") == message and headers["KIND"] == "nack"]
        self.wait(found)
        return found()[0]

    def listed(self):
        return {one["hash"][7:]: one for one in json.loads(self.command("attachments", "list", "--json").stdout)}

    def wait_for_collection(self):
        """Until a file that nobody ever needed, put there now, is gone: so would be any other that nobody needs."""
        witness = self.put(secrets.token_bytes(16))
        self.wait(lambda: not self.path(witness).exists(), 60)

    def rejected(self, hash_):
        return list((self.root / "attachments/.rejected").glob(f"{hash_}-*"))

    def test_a_message_with_attachments_is_delivered_with_its_headers(self):
        self.up()
        self.agent("alice", "bob")
        one, two = self.put(b"first"), self.put(os.urandom(3 * MIB))
        os.chmod(self.path(one), 0o644)
        os.chmod(self.path(one).parent, 0o755)
        message = self.send("alice", f"TO: bob\nATTACHMENT: SHA256:{one.upper()}\nattachment: sha256:{two} a b.bin\n\nx")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        text = next((self.root / "agents/bob/inbox").glob("*.msg")).read_text()
        self.assertIn(f"ATTACHMENT: SHA256:{one.upper()}\n", text)
        self.assertIn(f"attachment: sha256:{two} a b.bin\n", text)
        self.assertEqual(stat.S_IMODE(self.path(one).stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.path(one).parent.stat().st_mode), 0o700)
        self.assertTrue(self.listed()[one]["needed"] and self.listed()[two]["verified"])
        self.fsck()

    def test_a_missing_one_is_named_and_may_come_later(self):
        self.up()
        self.agent("alice", "bob")
        data = b"comes later"
        message = self.send("alice", self.message("bob", digest(data)))
        error, body = self.nack("alice", message)
        self.assertEqual(error, "not_found")
        self.assertIn(digest(data), body)
        self.assertEqual(self.inbox("bob"), [])
        letter = json.loads(self.command("dead", "list", "--json").stdout)[0]["id"]
        self.put(data)
        self.command("dead", "redeliver", str(letter))
        self.wait(lambda: self.state(message) == {"bob": "delivered"})

    def test_a_wrong_one_is_not_delivered_but_moved_aside_and_audited(self):
        self.up()
        self.agent("alice", "bob")
        for size in (10, 2 * MIB):  # hashed on the spot, and beside
            data = os.urandom(size)
            hash_ = self.put(data[:-1] + bytes([data[-1] ^ 1]), digest(data))
            message = self.send("alice", self.message("bob", hash_))
            self.assertEqual(self.nack("alice", message)[0], "corrupt")
            self.assertFalse(self.path(hash_).exists())
            self.assertEqual(len(self.rejected(hash_)), 1)
            self.put(data)
            again = self.send("alice", self.message("bob", hash_))
            self.wait(lambda: self.state(again) == {"bob": "delivered"})
        self.assertEqual(len(self.log_events("wrong_attachment", "audit.log")), 2)
        self.assertEqual(len(self.inbox("bob")), 2)

    def test_only_regular_files_with_one_name_are_taken(self):
        self.up()
        self.agent("alice", "bob")
        secret = self.dir / "secret"
        secret.write_bytes(b"secret")
        os.chmod(secret, 0o644)
        hash_ = digest(b"secret")

        def link():
            self.path(hash_).symlink_to(secret)

        def hard():
            os.link(secret, self.path(hash_))

        def pipe():
            os.mkfifo(self.path(hash_))

        def folder():
            self.path(hash_).mkdir()

        def parent():
            self.path(hash_).parent.rmdir()
            self.path(hash_).parent.symlink_to(self.dir / "elsewhere")
            (self.dir / "elsewhere").mkdir()
            (self.dir / "elsewhere" / hash_).write_bytes(b"secret")

        for make in (link, hard, pipe, folder, parent):
            self.path(hash_).parent.mkdir(exist_ok=True)
            make()
            message = self.send("alice", self.message("bob", hash_))
            self.assertEqual(self.nack("alice", message)[0], "denied", make.__name__)
            self.assertFalse(os.path.lexists(self.path(hash_)), make.__name__)
        self.assertEqual(secret.read_bytes(), b"secret")
        self.assertEqual(stat.S_IMODE(secret.stat().st_mode), 0o644)
        self.assertTrue((self.dir / "elsewhere" / hash_).exists())
        self.assertEqual(len(self.log_events("wrong_attachment", "audit.log")), 5)
        self.put(b"secret")
        good = self.send("alice", self.message("bob", hash_))
        self.wait(lambda: self.state(good) == {"bob": "delivered"})
        self.assertEqual(len(self.inbox("bob")), 1)

    def test_ill_formed_headers_too_many_and_too_large_ones_are_refused(self):
        self.config = dict(self.config, attachment_bytes_max=100)
        self.setUp()
        self.up()
        self.agent("alice", "bob")
        good = self.put(b"good")
        for value in ("", "sha256:", "sha256:12", "md5:" + good, "sha256:" + good[:-1] + "g", "sha256:" + good + "0",
                      f"sha256:{good} ../x", f"sha256:{good} .hidden", f"sha256:{good} -rf", f"sha256:{good} a/b",
                      f"sha256:{good} " + "x" * 256, f"sha256:../../{good}"):
            message = self.send("alice", f"TO: bob\nATTACHMENT: {value}\n\nx")
            self.assertEqual(self.nack("alice", message)[0], "invalid", value)
        message = self.send("alice", self.message("bob", *[good] * 17))
        self.assertEqual(self.nack("alice", message)[0], "invalid")
        message = self.send("alice", self.message("bob", self.put(b"x" * 101)))
        self.assertEqual(self.nack("alice", message)[0], "too_large")
        message = self.send("alice", self.message("bob", *[good] * 16))
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.assertEqual(len(self.inbox("bob")), 1)

    def test_a_large_one_holds_up_its_sender_alone_and_its_order_is_kept(self):
        self.up()
        self.agent("alice", "bob", "carol")
        size = 1024 * MIB  # of zeros, which take no space
        hash_ = hashlib.sha256()
        for _ in range(size // MIB):
            hash_.update(bytes(MIB))
        hash_ = hash_.hexdigest()
        draft = self.root / "attachments/.pending/draft"
        with open(draft, "wb") as out:
            out.truncate(size)
        self.path(hash_).parent.mkdir(exist_ok=True)
        draft.rename(self.path(hash_))
        self.process.send_signal(signal.SIGSTOP)  # so that it finds them together
        large = self.send("alice", self.message("bob", hash_, body="0"))
        after = [self.send("alice", f"TO: bob\n\n{number}") for number in range(1, 4)]
        self.send("carol", "TO: bob\n\ncarol")
        self.process.send_signal(signal.SIGCONT)
        self.wait(lambda: self.inbox("bob"), 60)
        self.assertEqual(self.inbox("bob")[0][1], b"carol")  # though sent last
        self.wait(lambda: self.state(after[-1]) == {"bob": "delivered"}, 120)
        self.assertEqual(self.state(large), {"bob": "delivered"})
        self.assertEqual([body for _, body in self.inbox("bob")], [b"carol", b"0", b"1", b"2", b"3"])
        # Known by now: it is not read again.
        before = self.read_bytes()
        again = self.send("carol", self.message("bob", hash_))
        self.wait(lambda: self.state(again) == {"bob": "delivered"})
        self.assertLess(self.read_bytes() - before, size // 2)

    def read_bytes(self):
        lines = pathlib.Path(f"/proc/{self.process.pid}/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["rchar"])

    def test_killed_while_it_reads_a_large_one_it_goes_on_at_the_next_start(self):
        self.up()
        self.agent("alice", "bob")
        hash_ = self.put(os.urandom(64 * MIB))
        for _ in range(3):
            message = self.send("alice", self.message("bob", hash_))
            time.sleep(0.02)
            self.kill()
            self.up()
            self.wait(lambda: self.state(message) == {"bob": "delivered"}, 60)
        self.assertEqual(len(self.inbox("bob")), 3)
        self.kill(15)
        self.fsck()

    def test_it_is_kept_until_read_and_a_while_longer_and_then_collected(self):
        self.up()
        self.agent("alice", "bob", "carol")
        hash_ = self.put(b"for both")
        message = self.send("alice", self.message("*", hash_))
        self.wait(lambda: self.state(message) == {"bob": "delivered", "carol": "delivered"})
        self.command("inbox", "bob", "--take")
        self.wait(lambda: self.state(message)["bob"] == "read")
        self.wait_for_collection()
        self.assertTrue(self.path(hash_).exists())  # carol has not read hers
        read = time.monotonic()
        self.command("inbox", "carol", "--take")
        self.wait(lambda: not self.path(hash_).exists(), 60)
        self.assertGreaterEqual(time.monotonic() - read, KEEP / 1000)
        self.wait(lambda: self.listed() == {}, 60)
        self.fsck()

    def test_dead_letters_and_stored_messages_keep_theirs(self):
        self.up()
        self.agent("alice", "bob")
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\ninactive")
        self.wait(lambda: self.statuses()["bob"] == "inactive")
        dead, stored = self.put(b"dead"), self.put(b"stored")
        self.send("alice", self.message("nobody", dead))
        message = self.send("alice", self.message("bob", stored))
        self.wait(lambda: self.state(message) == {"bob": "stored"})
        self.wait(lambda: json.loads(self.command("dead", "list", "--json").stdout))
        self.wait_for_collection()
        self.assertTrue(self.path(dead).exists() and self.path(stored).exists())
        letter = json.loads(self.command("dead", "list", "--json").stdout)[0]["id"]
        self.command("dead", "discard", str(letter))
        self.wait(lambda: not self.path(dead).exists(), 60)
        # What was changed while it was stored is hashed again, and is not delivered.
        self.path(stored).write_bytes(b"st0red")
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\nactive")
        self.wait(lambda: self.state(message) == {"bob": "dead"})
        self.assertEqual(self.inbox("bob"), [])
        self.assertEqual(self.nack("alice", message)[0], "corrupt")

    def test_a_large_one_that_changed_is_hashed_beside_when_its_message_is_released(self):
        self.up()
        self.agent("alice", "bob")
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\ninactive")
        self.wait(lambda: self.statuses()["bob"] == "inactive")
        hash_ = self.put(os.urandom(32 * MIB))
        first = self.send("alice", self.message("bob", hash_, body="0"))
        self.send("alice", "TO: bob\n\n1")
        self.wait(lambda: self.state(first) == {"bob": "stored"}, 60)
        os.utime(self.path(hash_))
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\nactive")
        last = self.send("alice", "TO: bob\n\n2")
        self.wait(lambda: self.state(last) == {"bob": "delivered"}, 60)
        self.assertEqual([body for _, body in self.inbox("bob")], [b"0", b"1", b"2"])

    def test_what_was_never_sent_and_drafts_and_strays_go_too(self):
        self.up()
        self.agent("alice")
        hash_ = self.put(b"never sent")
        draft = self.root / "attachments/.pending/draft"
        draft.write_bytes(b"x")
        stray = self.path(hash_).parent / "stray"
        stray.write_bytes(b"x")
        self.wait(lambda: hash_ in self.listed())
        self.wait(lambda: not self.path(hash_).exists() and not draft.exists() and not stray.exists(), 60)

    def test_collect_asks_for_it_now(self):
        self.config = {"rescan_ms": 200}
        self.setUp()
        self.up()
        self.agent("alice", "bob")
        sent, unsent = self.put(b"sent"), self.put(b"unsent")
        message = self.send("alice", self.message("bob", sent))
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.command("attachments", "collect")
        self.wait(lambda: unsent in self.listed())
        self.assertTrue(self.path(unsent).exists())
        self.assertIn("not needed", self.command("attachments", "list").stdout)
        self.command("attachments", "collect", "--all")
        self.wait(lambda: not self.path(unsent).exists())
        self.assertTrue(self.path(sent).exists())
        self.kill()
        self.assertIn("no relay is running", self.command("attachments", "collect", code=1).stderr)

    def test_files_are_sent_and_saved_by_command(self):
        self.up()
        self.agent("bob")
        source = self.dir / "some where"
        source.mkdir()
        (source / "notes.txt").write_bytes(b"notes")
        (source / "large.bin").write_bytes(os.urandom(5 * MIB))
        (source / ".profile").write_bytes(b"hidden")
        done = self.command("send", "bob", "look", "--from", "alice", "--register", "--attach", str(source / "notes.txt"), "--attach",
                            str(source / "large.bin"), "--attach", str(source / ".profile"), "--wait", "delivered")
        self.command("send", "bob", "again", "--from", "alice", "--attach", str(source / "notes.txt"), "--wait", "delivered")
        text = sorted((self.root / "agents/bob/inbox").glob("*.msg"))[0].read_text()
        self.assertNotIn("some where", text)
        self.assertNotIn(".profile", text)  # no name that would be hidden where it is saved
        shown = [json.loads(line) for line in self.command("inbox", "bob", "--json").stdout.splitlines()]
        self.assertEqual(shown[0]["attachments"][0], {"hash": "sha256:" + digest(b"notes"), "name": "notes.txt"})
        self.assertNotIn("headers", shown[0])
        into = self.dir / "saved/here"
        into.mkdir(parents=True)
        (into / "notes.txt").write_bytes(b"mine")
        out = self.command("inbox", "bob", "--save", str(into), "--take").stdout
        self.assertIn("notes.txt-1", out)
        hidden = digest(b"hidden")
        self.assertEqual(sorted(os.listdir(into)), sorted(["large.bin", "notes.txt", "notes.txt-1", hidden]))
        self.assertEqual((into / "notes.txt").read_bytes(), b"mine")
        self.assertEqual((into / "notes.txt-1").read_bytes(), b"notes")
        self.assertEqual((into / "large.bin").read_bytes(), (source / "large.bin").read_bytes())
        self.assertEqual((into / hidden).read_bytes(), b"hidden")
        self.wait(lambda: self.state(done.stdout.strip()) == {"bob": "read"})
        for bad in ("missing", "", str(self.dir)):
            self.command("send", "bob", "x", "--from", "alice", "--attach", bad, code=1)

    def test_a_message_whose_attachment_cannot_be_had_is_not_taken(self):
        self.up()
        self.agent("alice", "bob")
        gone, there = self.put(b"gone"), self.put(b"there")
        first = self.send("alice", self.message("bob", gone))
        second = self.send("alice", self.message("bob", there))
        self.wait(lambda: self.state(second) == {"bob": "delivered"} and self.state(first) == {"bob": "delivered"})
        self.path(gone).write_bytes(b"g0ne")
        done = self.command("inbox", "bob", "--save", str(self.dir / "into"), "--take", code=1)
        self.assertIn("does not match its hash", done.stderr)
        self.assertEqual(os.listdir(self.dir / "into"), [there])
        self.wait(lambda: self.state(second) == {"bob": "read"})
        self.assertEqual(self.state(first), {"bob": "delivered"})
        self.kill()
        self.fsck()  # without --deep it does not show
        self.assertIn("its content does not match its hash", self.command("fsck", "--deep", code=1).stdout)
        self.command("fsck", "--deep", "--repair", code=1)  # moved aside: now it is missing
        self.assertRegex(self.command("fsck", code=1).stdout, r"attachment [0-9a-f]{64} is missing")
        self.put(b"gone")
        self.fsck()

    def test_a_large_body_is_told_to_be_attached(self):
        self.up()
        done = self.command("send", "bob", "--from", "alice", "--register", code=1, stdin="x" * (MIB + 1))
        self.assertIn("--attach", done.stderr)
        self.assertEqual(list((self.root / "agents/alice/outbox").glob("*.msg")), [])
        out = subprocess.run([WARREN, "relay", "send", "--help"], capture_output=True, text=True, check=True).stdout
        self.assertIn("--attach", out)

    def test_the_same_content_is_stored_once_and_lives_on_when_it_is_attached_again(self):
        self.up()
        self.agent("alice", "bob", "carol")
        file = self.dir / "file"
        file.write_bytes(b"same")
        hash_ = digest(b"same")
        self.command("send", "bob", "x", "--from", "alice", "--attach", str(file), "--wait", "delivered")
        inode = self.path(hash_).stat().st_ino
        self.command("send", "bob", "x", "--from", "carol", "--attach", str(file), "--wait", "delivered")
        self.assertEqual(self.path(hash_).stat().st_ino, inode)
        until = time.monotonic() + 3 * KEEP / 1000
        while time.monotonic() < until:  # as often as it takes to meet a sweep
            self.command("inbox", "bob", "--take")
            self.command("send", "bob", "x", "--from", "carol", "--attach", str(file), "--wait", "delivered")
            self.assertTrue(self.path(hash_).exists())
        self.assertEqual(list((self.root / "attachments/.pending").iterdir()), [])


if __name__ == "__main__":
    main()
