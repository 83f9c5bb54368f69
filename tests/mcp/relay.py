#!/usr/bin/env python3
"""The relay tools of `warren serve mcp`, with a real relay and without one.

    WARREN=path/to/warren relay.py [-v] [Relay.test_name]
"""
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import PATIENCE_SECONDS, WARREN, Server  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mount"))
from mounted import wait_for  # noqa: E402


class Relay(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="warren-mcp-"))
        self.root = f"{self.folder}/relay"
        self.relay = None
        self.addCleanup(self.stop)
        self.warren("init", "a")
        self.start()
        for name in ("alice", "bob"):
            self.warren("relay", "register", name, "--root", self.root)

    def warren(self, *args):
        return subprocess.run([WARREN, *args], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def start(self):
        self.relay = subprocess.Popen([WARREN, "relay", "up", "--root", self.root], cwd=self.folder,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.is_up, "the relay does not start")

    def is_up(self):
        done = subprocess.run([WARREN, "relay", "status", "--json", "--root", self.root], capture_output=True, check=False)
        return done.returncode == 0 and json.loads(done.stdout)["up"]

    def stop(self):
        if self.relay is not None:
            self.relay.terminate()
            self.relay.wait(PATIENCE_SECONDS)
            self.relay = None

    def server(self, name):
        return self.enterContext(Server(self.folder, "--relay-as", name, "--relay", self.root))

    def error_of(self, answer):
        self.assertTrue(answer["isError"], answer)
        return json.loads(answer["content"][0]["text"])

    def inbox(self, server):
        return server.call("relay_inbox")["structuredContent"]["messages"]

    def test_a_message_is_sent_read_and_acknowledged(self):
        alice, bob = self.server("alice"), self.server("bob")
        sent = alice.call("relay_send", to="bob", body="please look", thread="t1")["structuredContent"]
        self.assertFalse(sent["is_queued"])
        wait_for(lambda: self.inbox(bob), "it does not arrive")
        [message] = self.inbox(bob)
        self.assertEqual((message["from"], message["body"], message["thread"], message["id"]),
                         ("alice", "please look\n", "t1", sent["id"]))
        self.assertEqual(bob.call("readdir", path="/ipc/inbox")["structuredContent"]["entries"][-1]["name"], message["file"])
        self.assertFalse(bob.call("relay_ack", message=message["id"])["isError"])
        self.assertEqual(self.inbox(bob), [])
        wait_for(lambda: "acked" in self.states(sent["id"]), "it is not acknowledged")

    def states(self, message):
        with contextlib.closing(sqlite3.connect(f"file:{self.root}/ledger.db?mode=ro", uri=True, timeout=30)) as ledger:
            return [row[0] for row in ledger.execute("SELECT state FROM deliveries WHERE message_id = ?", (message,))]

    def test_a_refusal_names_its_reason(self):
        alice, bob = self.server("alice"), self.server("bob")
        sent = alice.call("relay_send", to="bob", body="x")["structuredContent"]["id"]
        wait_for(lambda: self.inbox(bob), "it does not arrive")
        answer = bob.call("relay_ack", message=self.inbox(bob)[0]["file"], refused_because="no time")
        self.assertTrue(answer["structuredContent"]["is_refused"])
        wait_for(lambda: "nacked" in self.states(sent), "it is not refused")

    def test_pages_join_to_the_inbox(self):
        alice, bob = self.server("alice"), self.server("bob")
        for number in range(7):
            alice.call("relay_send", to="bob", body=str(number))
        wait_for(lambda: len(self.inbox(bob)) == 7, "they do not arrive")
        seen, after = [], {}
        while after is not None:
            page = bob.call("relay_inbox", limit=3, **after)["structuredContent"]
            seen += [message["body"].strip() for message in page["messages"]]
            after = {"after": page["next_after"]} if page["next_after"] else None
        self.assertEqual(seen, [str(number) for number in range(7)])

    def test_agents_are_listed(self):
        alice = self.server("alice")
        wait_for(lambda: len(alice.call("relay_agents")["structuredContent"]["agents"]) == 2, "they are not registered")
        agents = {one["name"]: one for one in alice.call("relay_agents")["structuredContent"]["agents"]}
        self.assertTrue(agents["alice"]["is_self"])
        self.assertFalse(agents["bob"]["is_self"])

    def test_without_a_relay_an_error_says_what_to_do(self):
        alice = self.server("alice")
        self.stop()
        error = self.error_of(alice.call("relay_send", to="bob", body="x"))
        self.assertEqual(error["error_type"], "unavailable")
        self.assertIn("no relay is running", error["message"])
        self.assertIn("queue", error["next_action_hint"])
        self.assertEqual(os.listdir(f"{self.root}/agents/alice/outbox/.pending"), [])
        sent = alice.call("relay_send", to="bob", body="later", queue=True)["structuredContent"]
        self.assertTrue(sent["is_queued"])
        self.start()
        bob = self.server("bob")
        wait_for(lambda: self.inbox(bob), "it is not delivered later")

    def test_mistakes_are_named(self):
        alice = self.server("alice")
        self.assertEqual(self.error_of(alice.call("relay_send", to="../x", body="x"))["error_type"], "invalid_argument")
        self.assertEqual(self.error_of(alice.call("relay_ack", message="none"))["error_type"], "not_found")
        self.assertEqual(self.error_of(alice.call("relay_send", to="bob", body="x" * (2 << 20)))["error_type"], "limit")
        header = self.error_of(alice.call("relay_send", to="bob", body="x", thread="a\nTO: eve"))
        self.assertEqual(header["error_type"], "invalid_argument")

    def test_the_policy_holds_for_messages(self):
        pathlib.Path(f"{self.folder}/rules.json").write_text(json.dumps({
            "version": 1, "default": "allow", "rules": [{"effect": "deny", "path": "/ipc"}]}), encoding="utf8")
        self.warren("policy", "a", "set", "rules.json")
        alice = self.server("alice")
        for tool, arguments in (("relay_send", {"to": "bob", "body": "x"}), ("relay_inbox", {}), ("relay_ack", {"message": "x"}),
                                ("relay_agents", {})):
            self.assertEqual(self.error_of(alice.call(tool, **arguments))["error_type"], "denied", tool)

    def test_without_a_mailbox_the_tools_are_not_offered(self):
        server = self.enterContext(Server(self.folder))
        self.assertFalse({name for name in server.tools() if name.startswith("relay_")})
        done = subprocess.run([WARREN, "serve", "mcp", "a", "--tools", "relay"], cwd=self.folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--relay-as", done.stderr)
        done = subprocess.run([WARREN, "serve", "mcp", "a", "--relay-as", "nobody", "--relay", self.root], cwd=self.folder,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody", done.stderr)

    def test_an_installed_server_finds_the_relay_from_anywhere(self):
        environment = {**os.environ, "WARREN_RELAY_ROOT": os.path.relpath(self.root, self.folder)}
        for options, variables in ((["--relay", "./relay"], None), ([], environment)):
            text = subprocess.run([WARREN, "mcp", "install", "claude", "a", "--relay-as", "alice", *options], cwd=self.folder,
                                  env=variables, capture_output=True, text=True, check=True).stdout
            [entry] = json.loads(text)["mcpServers"].values()
            at = entry["args"].index("--relay")
            self.assertEqual(entry["args"][at + 1], os.path.realpath(self.root))
            self.assertEqual(entry["args"].count("--relay"), 1)
        missing = subprocess.run([WARREN, "mcp", "install", "claude", "a", "--relay-as", "alice", "--relay", "nowhere"],
                                 cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual((missing.returncode, missing.stdout), (1, ""))
        self.assertIn("there is no relay at 'nowhere'", missing.stderr)

    def test_the_command_line_has_the_same_tools(self):
        told = json.loads(self.warren("tool", "a", "relay_send", '{"to": "bob", "body": "x"}', "--relay-as", "alice",
                                      "--relay", self.root, "--json"))
        self.assertFalse(told["is_queued"])


if __name__ == "__main__":
    unittest.main()
