"""A relay as root, and agents of different users: each has its own mail, and nobody else's."""
import hashlib
import json
import os
import secrets
import subprocess
import time
import unittest

from relaying import WARREN, RelayCase, configure, main, parse
from spawning import SpawnCase

ALICE, BOB = 42_101, 42_102  # they need no entry in the user database


def as_user(uid, *words, stdin="", env=None, check=True):
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=60, user=uid, group=uid, extra_groups=[],
                          env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(env or {})}, cwd="/")
    if check and done.returncode != 0:
        raise AssertionError(f"{words}: {done.returncode} {done.stdout} {done.stderr}")
    return done


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class UsersCase(RelayCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)

    def up(self, **options):
        result = super().up(**options)
        for name, uid in (("alice", ALICE), ("bob", BOB)):
            self.command("register", name, "--user", str(uid))
        self.wait(lambda: {"alice", "bob"} <= set(self.statuses()))
        return result

    def relay_as(self, uid, *words, check=True, **options):
        return as_user(uid, WARREN, "relay", *words, "--root", str(self.root), check=check, **options)

    def mail_of(self, uid, name, *words):
        return [json.loads(line) for line in self.relay_as(uid, "inbox", name, "--json", *words).stdout.splitlines()]


class Users(UsersCase):
    def test_two_users_write_to_each_other(self):
        self.up()
        for sender, uid, to, other in (("alice", ALICE, "bob", BOB), ("bob", BOB, "alice", ALICE)):
            self.relay_as(uid, "send", to, f"hello {to}", "--from", sender)
            self.wait(lambda: self.mail_of(other, to))
            mail = self.mail_of(other, to, "--take")
            self.assertEqual([(one["from"], one["body"]) for one in mail], [(sender, f"hello {to}\n")])
        self.wait(lambda: all(state == "read" for state, in self.query("SELECT state FROM every_delivery")))
        self.fsck()

    def query(self, sql):
        from relaying import query
        return query(self.root, sql)

    def test_by_the_file_protocol_alone(self):
        self.up()
        outbox, inbox = self.root / "agents/alice/outbox", self.root / "agents/bob/inbox"
        name = f"{time.time_ns()}-{secrets.token_hex(8)}.msg"
        as_user(ALICE, "sh", "-c", f"printf 'TO: bob\\n\\nplain' > {outbox}/.pending/{name} && mv {outbox}/.pending/{name} {outbox}/")
        self.wait(lambda: list(inbox.glob("*.msg")))
        file, = inbox.glob("*.msg")
        self.assertEqual((file.stat().st_uid, file.stat().st_gid, file.stat().st_mode & 0o777), (BOB, BOB, 0o600))
        text = as_user(BOB, "cat", str(file)).stdout.encode()
        self.assertEqual(parse(text)[1], b"plain")
        as_user(BOB, "rm", str(file))
        self.wait(lambda: not list(outbox.glob("*.msg")))

    def test_each_user_sees_only_its_own(self):
        self.up()
        self.relay_as(ALICE, "send", "alice", "to myself", "--from", "alice")
        self.wait(lambda: self.mail_of(ALICE, "alice"))
        mail, = (self.root / "agents/alice/inbox").glob("*.msg")
        closed = [".", "agents", "agents/alice", "agents/alice/inbox", "agents/alice/outbox", "agents/alice/outbox/.pending",
                  "agents/alice/inbox/.attachments", "archive", "tmp", "tmp/deliveries", "attachments"]
        for path in closed:
            done = as_user(BOB, "ls", str(self.root / path), check=False)
            self.assertIn("Permission denied", done.stderr, path)
        for path in [mail, self.root / "ledger.db", self.root / "config.json", self.root / "relay.log", self.root / "audit.log",
                     self.root / ".lock"]:
            done = as_user(BOB, "cat", str(path), check=False)
            self.assertIn("Permission denied", done.stderr, path)
        for words in (["inbox", "alice"], ["send", "bob", "x", "--from", "alice"], ["ack", "alice", mail.name]):
            done = self.relay_as(BOB, *words, check=False)
            self.assertEqual((done.returncode, done.stderr), (1, "warren: agent 'alice' belongs to another user\n"), words)
        for words in (["status"], ["agents"], ["dead", "list"]):
            done = self.relay_as(BOB, *words, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("this is for the relay's own user", done.stderr)
        done = self.relay_as(BOB, "send", "alice", "x", "--from", "mallory", "--register", check=False)
        self.assertIn("`warren relay register`", done.stderr)
        done = self.relay_as(BOB, "send", "alice", "x", "--from", "bob", "--wait", "delivered", check=False)
        self.assertIn("'--wait' needs the relay's ledger", done.stderr)
        self.assertEqual(len(self.mail_of(ALICE, "alice")), 1)

    def test_attachments_reach_their_recipient_and_nobody_else(self):
        self.up()
        for size in (20, 3 << 20):  # read at once, and in the background
            content = secrets.token_bytes(size)
            file = self.dir / "report"
            file.write_bytes(content)
            os.chown(file, ALICE, ALICE)
            self.relay_as(ALICE, "send", "bob", "look", "--attach", str(file), "--from", "alice")
            self.wait(lambda: self.mail_of(BOB, "bob"))
            saved = self.dir / f"saved{size}"
            saved.mkdir()
            os.chown(saved, BOB, BOB)
            self.mail_of(BOB, "bob", "--take", "--save", str(saved))
            self.assertEqual((saved / "report").read_bytes(), content)
            copy = self.root / "agents/bob/inbox/.attachments" / hashlib.sha256(content).hexdigest()
            self.assertEqual(copy.stat().st_uid, BOB)
            self.assertIn("Permission denied", as_user(ALICE, "cat", str(copy), check=False).stderr)

    def test_who_knows_only_the_hash_does_not_get_the_content(self):
        self.up()
        secret = b"what alice sent to herself"
        digest = hashlib.sha256(secret).hexdigest()
        file = self.dir / "secret"
        file.write_bytes(secret)
        os.chown(file, ALICE, ALICE)
        self.relay_as(ALICE, "send", "alice", "mine", "--attach", str(file), "--from", "alice")
        self.wait(lambda: self.mail_of(ALICE, "alice"))
        attachments = self.root / "agents/bob/outbox/.attachments"
        for prepare in ("true", f"echo wrong > {attachments}/{digest}"):
            as_user(BOB, "sh", "-c", prepare)
            name = f"{time.time_ns()}-{secrets.token_hex(8)}.msg"
            outbox = self.root / "agents/bob/outbox"
            as_user(BOB, "sh", "-c", f"printf 'TO: bob\\nATTACHMENT: sha256:{digest}\\n\\ngive' > {outbox}/.pending/{name} && "
                                     f"mv {outbox}/.pending/{name} {outbox}/")
            self.wait(lambda: self.mail_of(BOB, "bob"))
            mail, = self.mail_of(BOB, "bob", "--take")
            self.assertEqual((mail["from"], mail["kind"]), ("__orchestrator__", "nack"), mail)
            self.assertFalse((self.root / "agents/bob/inbox/.attachments" / digest).exists())

    def test_a_link_to_a_file_of_another_user_is_not_sent(self):
        self.up()
        outbox = self.root / "agents/bob/outbox"
        theirs = self.dir / "theirs"
        theirs.write_text("TO: bob\n\nsecret")
        for kind in ("hard", "soft", "moved"):  # whatever the kernel lets bob do, this is what the relay would find
            name = f"{time.time_ns()}-{secrets.token_hex(8)}.msg"
            if kind == "hard":
                os.link(theirs, outbox / ".pending" / name)
                os.rename(outbox / ".pending" / name, outbox / name)
            elif kind == "soft":
                os.symlink(theirs, outbox / name)
            else:
                os.rename(theirs, outbox / name)
            self.wait(lambda: self.mail_of(BOB, "bob"))
            mail, = self.mail_of(BOB, "bob", "--take")
            self.assertEqual((mail["from"], mail["kind"]), ("__orchestrator__", "nack"), kind)
            self.assertNotIn("secret", mail["body"])
            self.wait(lambda: not (outbox / name).is_symlink() and not (outbox / name).exists())

    def test_directories_that_an_agent_exchanges_change_nobody_elses_files(self):
        self.up()
        theirs = self.dir / "theirs"
        (theirs / ".pending").mkdir(parents=True)
        (theirs / "keep").write_text("x")
        home = self.root / "agents/bob"
        for box in ("inbox", "outbox"):
            as_user(BOB, "sh", "-c", f"mv {home}/{box} {home}/{box}.old && ln -s {theirs} {home}/{box}")
        self.relay_as(ALICE, "send", "bob", "where to?", "--from", "alice")
        self.wait(lambda: self.log_events("delivery_failed"))
        self.assertEqual(sorted(path.name for path in theirs.iterdir()), [".pending", "keep"])
        self.assertEqual(theirs.stat().st_uid, 0)
        for box in ("inbox", "outbox"):
            as_user(BOB, "sh", "-c", f"rm {home}/{box} && mv {home}/{box}.old {home}/{box}")
        self.wait(lambda: self.mail_of(BOB, "bob"))

    def test_missing_directories_are_made_again_for_their_user(self):
        self.up()
        as_user(BOB, "rm", "-r", str(self.root / "agents/bob/inbox"), str(self.root / "agents/bob/outbox"))
        self.kill()
        super().up()
        self.wait(lambda: (self.root / "agents/bob/inbox/.done").exists())
        for path in ("inbox", "outbox", "inbox/.done", "outbox/.pending", "inbox/.attachments", "outbox/.attachments"):
            info = (self.root / "agents/bob" / path).stat()
            self.assertEqual((info.st_uid, info.st_mode & 0o777), (BOB, 0o700), path)
        self.relay_as(ALICE, "send", "bob", "again", "--from", "alice")
        self.wait(lambda: self.mail_of(BOB, "bob"))
        for path in (".", "agents"):
            self.assertEqual((self.root / path).stat().st_mode & 0o777, 0o711)

    def test_mail_that_was_staged_before_a_kill_belongs_to_its_user(self):
        self.up()
        self.process.send_signal(19)  # SIGSTOP: what is sent now waits
        for i in range(20):
            self.relay_as(ALICE, "send", "bob", str(i), "--from", "alice")
        self.process.send_signal(18)
        self.kill()
        super().up()
        self.wait(lambda: len(self.mail_of(BOB, "bob")) == 20)
        for file in (self.root / "agents/bob/inbox").glob("*.msg"):
            self.assertEqual(file.stat().st_uid, BOB)

    def test_root_sends_in_the_name_of_an_agent(self):
        self.up()
        file = self.dir / "f"
        file.write_text("from root")
        self.command("send", "bob", "hi", "--from", "alice", "--attach", str(file), "--wait", "delivered")
        mail, = self.mail_of(BOB, "bob")
        self.assertEqual((mail["from"], mail["body"]), ("alice", "hi\n"))
        self.relay_as(ALICE, "send", "bob", "after that", "--from", "alice", "--attach", WARREN)
        self.wait(lambda: len(self.mail_of(BOB, "bob")) == 2)

    def test_what_register_refuses(self):
        self.up()
        for words, why in ((["alice", "--user", str(BOB)], f"agent 'alice' exists and belongs to user {ALICE}"),
                           (["carol", "--user", "no-such-user-here"], "there is no user 'no-such-user-here'"),
                           (["../x"], "is not a valid agent name")):
            done = self.command("register", *words, code=1)
            self.assertIn(why, done.stderr)
        self.command("register", "alice", "--user", str(ALICE))  # again

    def test_a_relay_that_is_not_root_says_that_it_cannot_serve_others(self):
        for path, uid in ((self.root, ALICE), (self.root / "config.json", ALICE)):
            os.chown(path, uid, uid)
        (self.root / "agents" / "bob").mkdir(parents=True)
        os.chown(self.root / "agents", ALICE, ALICE)
        os.chown(self.root / "agents/bob", BOB, BOB)
        self.process = subprocess.Popen([WARREN, "relay", "up", "--root", self.root], stderr=subprocess.PIPE, user=ALICE, group=ALICE,
                                        extra_groups=[])
        self.wait(lambda: self.log_events("agent_failed"))
        self.assertIn(f"agent 'bob' belongs to user {BOB}", self.log_events("agent_failed")[0]["error"])


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class SpawnedUsers(SpawnCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)
        os.chmod(self.work, 0o777)
        config = json.loads((self.root / "config.json").read_text())
        script = 'id -u > "$1/id"; id -G >> "$1/id"; "$2" relay send Boss "from me" && cat "$AGENT_RELAY_ROOT/ledger.db"'
        config["spawn"]["clis"]["other"] = {"argv": ["sh", "-c", script, "sh", str(self.work), WARREN], "user": f"{BOB}:{BOB}"}
        config["spawn"]["clis"]["nobody"] = {"argv": ["true"], "user": "no-such-user-here"}
        configure(self.root, config)

    def test_a_program_runs_as_its_user(self):
        self.up()
        self.agent("Boss")
        self.ask("Boss", "worker", "other")
        self.wait(lambda: b"from me\n" in [body for _, body in self.inbox("Boss")], 60)
        self.wait(lambda: "exited" in self.states("Boss"))
        self.assertEqual((self.work / "id").read_text().split(), [str(BOB), str(BOB)])
        log = self.root / "agents/worker/agent.log"
        self.assertIn("Permission denied", log.read_text())
        self.assertEqual((log.stat().st_uid, (self.root / "agents/worker/meta.json").stat().st_uid), (BOB, BOB))

    def test_an_unknown_user_is_refused(self):
        self.up()
        self.agent("Boss")
        self.ask("Boss", "worker", "nobody")
        self.wait(lambda: self.inbox("Boss"))
        self.assertIn(b"there is no user 'no-such-user-here'", self.inbox("Boss")[0][1])


if __name__ == "__main__":
    main()
