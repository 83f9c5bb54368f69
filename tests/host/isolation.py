#!/usr/bin/env python3
"""Agents in one host: what they can reach of each other, and what they can learn about each other (RFC-002, 6.1, 7.3).

    WARREN=path/to/warren isolation.py [-v] [Class.test_name]
"""
import contextlib
import json
import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hosted import Client, Closed, Refused, World, wait_for

OPERATIONS = ("read", "write", "append", "list", "stat", "remove", "query")


class Isolation(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(World())

    def client(self, agent):
        return self.enterContext(Client(self.world, agent))

    def refusal(self, function, *args, **options):
        with self.assertRaises(Refused) as caught:
            function(*args, **options)
        return caught.exception.code, caught.exception.message

    def outcomes(self, client, path):
        """What each operation on the path answers, as a client can tell."""
        found = {}
        for op in OPERATIONS:
            body = b"[1, 2]" if op == "query" else b"{}"
            found[op] = self.refusal(client.call, op, path, b"" if op in ("read", "list", "stat", "remove") else body)
        found["exists"] = client.exists(path)
        return found

    def test_an_agent_uses_its_own_namespace(self):
        self.world.agent("a", level="untrusted")
        self.world.up()
        with Client(self.world, "a") as a:
            a.write("/mem/working/task.json", b'{"step": 1}')
            self.assertEqual(a.read("/agent/a/mem/working/task.json"), b'{"step": 1}')
            a.call("append", "/mem/episodic/log", b"one\n")
            a.call("append", "/mem/episodic/log", b"two\n")
            self.assertEqual(a.read("/mem/episodic/log"), b"one\ntwo\n")
            self.assertEqual(a.list("/mem"), ["episodic", "semantic", "working"])
            self.assertTrue(a.exists("/mem/working/task.json"))
            self.assertFalse(a.exists("/mem/working/nothing"))
            a.call("write", "/x", b"0123456789")
            self.assertEqual(a.call("read", "/x", offset=3, length=4), ({"ok": True, "size": 10}, b"3456"))
            self.assertEqual(a.call("stat", "/x")[0]["attributes"]["size"], 10)
            a.call("remove", "/x")
            self.assertFalse(a.exists("/x"))
            a.write("/mem/semantic/cat.json", b'{"text": "cat", "embedding": [1, 0]}')
            found = json.loads(a.call("query", "/mem/semantic", b"[1, 0]", top_k=1)[1])
            self.assertEqual([match["path"] for match in found], ["/mem/semantic/cat.json"])
            # Its rights are its own (3.3), with the reason.
            self.assertEqual(self.refusal(a.write, "/policy/x", b"")[0], "denied")
            self.assertEqual(self.refusal(a.read, "/ipc/outbox/x")[0], "not_found")
            self.assertEqual(self.refusal(a.write, "/mem/working/bad.json", b"{")[0], "invalid")
        with Client(self.world, "a") as again:  # working memory is the host's, not the connection's
            self.assertEqual(again.read("/mem/working/task.json"), b'{"step": 1}')

    def test_s6_1_access_needs_trust_and_scope_and_policy(self):
        self.world.agent("owner", scopes=["data:read"])
        self.world.agent("peer", level="trusted")
        self.world.agent("weak", level="standard")
        self.world.up()
        owner, peer, weak = self.client("owner"), self.client("peer"), self.client("weak")
        owner.write("/mem/working/data.json", b'{"n": 1}')
        owner.write("/state/s", b"state")
        path = "/agent/owner/mem/working/data.json"
        # All three hold.
        self.assertEqual(peer.read(path), b'{"n": 1}')
        self.assertEqual(peer.list("/agent/owner/mem/working"), ["data.json"])
        self.assertTrue(peer.exists(path))
        self.assertEqual(peer.list("/agent"), ["owner", "peer"])
        # 1. The score is too low.
        self.assertEqual(self.refusal(weak.read, path)[0], "not_found")
        self.assertEqual(weak.list("/agent"), ["weak"])
        # 2. No scope for this path, or for this verb.
        self.assertEqual(self.refusal(peer.read, "/agent/owner/state/s")[0], "not_found")
        self.assertEqual(self.refusal(peer.write, path, b"{}")[0], "not_found")
        self.assertEqual(self.refusal(peer.call, "remove", path)[0], "not_found")
        self.assertEqual(owner.read("/mem/working/data.json"), b'{"n": 1}')
        # 3. The policy of the owner denies it, at once.
        self.world.policy("owner", {"agent": "peer", "space": "peer", "path": "/mem/working", "effect": "deny"})
        self.assertEqual(self.refusal(peer.read, path)[0], "not_found")
        self.assertFalse(peer.exists(path))
        self.assertEqual(owner.read("/mem/working/data.json"), b'{"n": 1}')
        self.world.policy("owner", {"agent": "other", "space": "peer", "path": "/", "effect": "deny"})
        self.assertEqual(peer.read(path), b'{"n": 1}')

    def test_s6_1_trust_that_is_withdrawn_or_ends_holds_for_open_connections(self):
        self.world.agent("owner", scopes=["data:read"])
        self.world.agent("peer")
        self.world.agent("third")
        self.world.up()
        owner, peer, third = self.client("owner"), self.client("peer"), self.client("third")
        owner.write("/mem/semantic/x", b"x")
        self.assertEqual(peer.read("/agent/owner/mem/semantic/x"), b"x")
        # A lower level, then a higher one again.
        self.world.trust("peer", level="unknown", serial=2)
        self.assertEqual(self.refusal(peer.read, "/agent/owner/mem/semantic/x")[0], "not_found")
        self.world.trust("peer", level="verified_partner", serial=3)
        self.assertEqual(peer.read("/agent/owner/mem/semantic/x"), b"x")
        # The owner shares no more.
        self.world.trust("owner", serial=2)
        self.assertEqual(self.refusal(peer.read, "/agent/owner/mem/semantic/x")[0], "not_found")
        self.world.trust("owner", scopes=["data:read"], serial=3)
        self.assertEqual(peer.read("/agent/owner/mem/semantic/x"), b"x")
        # Revoked: not even its own namespace.
        self.world.warren("trust", "revoke", "peer")
        self.assertEqual(self.refusal(peer.read, "/mem/working/x")[0], "denied")
        self.assertRaises(Closed, peer.receive)
        self.assertEqual(self.refusal(Client, self.world, "peer")[0], "denied")
        # An end.
        for seconds in (1, 10, 100):
            with contextlib.suppress(AssertionError):  # on a slow machine it ends before it is accepted
                self.world.trust("third", expires=f"{seconds}s", serial=2)
                break
        self.assertEqual(wait_for(lambda: self.ended(third), "the manifest ends", 200), "denied")

    def ended(self, client):
        """The code by which the host refuses the client everything; None while it is served."""
        try:
            client.list("/mem")
        except Refused as refused:
            return refused.code
        return None

    def test_s6_1_an_agent_proves_who_it_is(self):
        self.world.agent("a")
        self.world.agent("b")
        self.world.up()
        strange = self.world.dir / "strange.key"
        self.world.warren("trust", "keygen", strange)
        answers = {self.refusal(Client, self.world, *who) for who in [
            ("a", self.world.key_of("b")),       # another agent's key
            ("a", strange),                      # nobody's
            ("nobody", strange),                 # an agent that does not exist
            ("nobody", self.world.key_of("a")),
            ("../a", self.world.key_of("a")),
            ("", strange)]}
        self.assertEqual(len(answers), 1, answers)
        self.assertEqual(answers.pop()[0], "denied")
        # A key under which anybody can sign is nobody's.
        weak = "ed25519:" + "A" * 43 + "="
        done = self.world.run("trust", "sign", "a", "--key", "operator.key", "--agent-key", weak)
        self.assertIn(b"is not an Ed25519 public key", done.stderr)
        # A signature is for one connection.
        with Client(self.world) as first, Client(self.world) as second:
            self.assertNotEqual(first.hello["challenge"], second.hello["challenge"])
            second.hello = first.hello
            self.assertEqual(self.refusal(second.identify, "a", self.world.key_of("a"))[0], "denied")
        # Nothing else is answered before.
        for first in ({"op": "read", "path": "/"}, {"op": "identify"}, {"op": "identify", "agent": "a", "signature": "x"},
                      {"op": "identify", "agent": 5, "signature": None}, {}):
            with Client(self.world) as client:
                client.send(first)
                self.assertFalse(client.receive()[0]["ok"])
                self.assertRaises(Closed, client.receive)

    def test_s7_3_a_trusted_peer_reads_an_outbox_and_the_owner_writes_it(self):
        self.world.agent("owner", scopes=["outbox:read", "outbox:write", "outbox:delete"])
        self.world.agent("peer", level="trusted")
        self.world.agent("stranger", level="unknown")
        self.world.up()
        owner, peer, stranger = self.client("owner"), self.client("peer"), self.client("stranger")
        owner.write("/ipc/outbox/result.json", b'{"answer": 42}')
        path = "/agent/owner/ipc/outbox/result.json"
        self.assertEqual(peer.read(path), b'{"answer": 42}')
        self.assertEqual(peer.list("/agent/owner/ipc/outbox"), ["result.json"])
        # Whatever the manifest says, others do not write or remove it.
        for refused in (("write", path), ("write", "/agent/owner/ipc/outbox/forged"), ("append", path), ("remove", path)):
            self.assertEqual(self.refusal(peer.call, *refused, b"" if refused[0] == "remove" else b"{}")[0], "not_found")
        self.assertEqual(self.refusal(stranger.read, path)[0], "not_found")
        self.assertEqual(self.refusal(owner.read, "/ipc/outbox/result.json")[0], "denied")  # the table of 3.3
        self.assertEqual(peer.read(path), b'{"answer": 42}')

    def test_s6_1_what_was_read_of_another_agent_is_in_both_trails(self):
        self.world.agent("owner", scopes=["outbox:read"])
        self.world.agent("peer", level="trusted")
        self.world.up()
        owner, peer = self.client("owner"), self.client("peer")
        owner.write("/ipc/outbox/result.json", b"{}")
        peer.read("/agent/owner/ipc/outbox/result.json")
        self.refusal(peer.read, "/agent/owner/mem/secret")
        self.refusal(peer.read, "/agent/nobody/mem/secret")

        def events(agent):
            lines = self.world.warren("audit", agent, "show", "--all", "--json").splitlines()
            return [(event["agent_id"], event["op"], event["path"], event["ok"]) for event in map(json.loads, lines)]

        # Reads are stored within about a second.
        wait_for(lambda: ("peer", "read", "/agent/owner/ipc/outbox/result.json", True) in events("peer"), "the peer's event")
        wait_for(lambda: ("peer", "read", "/ipc/outbox/result.json", True) in events("owner"), "the owner's event")
        self.assertIn(("owner", "write", "/ipc/outbox/result.json", True), events("owner"))
        # What is refused looks like what is missing there, too: the peer can read its trail.
        lines = map(json.loads, self.world.warren("audit", "peer", "show", "--outcome", "failed", "--json").splitlines())
        self.assertEqual([(event["path"], event["err"]) for event in lines],
                         [("/agent/owner/mem/secret", "not_found"), ("/agent/nobody/mem/secret", "not_found")])
        for agent in ("owner", "peer"):
            said = self.world.warren("audit", agent, "verify")
            self.assertNotIn("copied", said if isinstance(said, str) else said.decode())

    def test_s6_1_never_the_policy_the_trail_or_the_inbox(self):
        self.world.agent("owner", scopes=[f"all:{verb}" for verb in ("read", "append", "write", "delete")])
        self.world.agent("peer", level="verified_partner")
        self.world.up()
        owner, peer = self.client("owner"), self.client("peer")
        self.world.policy("owner")
        self.world.warren("vfs", "owner", "write", "/ipc/inbox/1", "hello")
        for path in ("/policy/active.json", "/policy", "/audit", "/audit/events.jsonl", "/ipc/inbox", "/ipc/inbox/1"):
            for op, answer in self.outcomes(peer, f"/agent/owner{path}").items():
                self.assertIn(answer if op == "exists" else answer[0], (False, "not_found"), (op, path))
        self.assertEqual(peer.list("/agent/owner"), ["ipc", "mem", "state"])
        self.assertEqual(peer.list("/agent/owner/mem"), ["episodic", "semantic", "working"])
        # The rest is shared. What is remembered is not rewritten, by nobody.
        peer.write("/agent/owner/mem/semantic/note", b"from peer")
        self.assertEqual(owner.read("/mem/semantic/note"), b"from peer")
        peer.call("append", "/agent/owner/mem/episodic/log", b"seen\n")
        self.assertEqual(self.refusal(peer.call, "remove", "/agent/owner/mem/episodic/log")[0], "not_found")
        peer.call("remove", "/agent/owner/mem/semantic/note")
        self.assertFalse(owner.exists("/mem/semantic/note"))

    def test_s6_1_links_do_not_lead_out_of_what_is_shared(self):
        self.world.agent("owner", scopes=["/mem/semantic/public:read", "/mem/semantic/public:write"])
        self.world.agent("peer")
        self.world.warren("fs", "owner", "mkdir", "-p", "/mem/semantic/public")
        self.world.warren("fs", "owner", "write", "/mem/semantic/secret", "s")
        self.world.warren("fs", "owner", "write", "/mem/semantic/public/open", "o")
        for name, target in (("abs", "/mem/semantic/secret"), ("rel", "../secret"), ("dir", "/mem/semantic"),
                             ("up", ".."), ("self", "self"), ("in", "open")):
            self.world.warren("fs", "owner", "ln", "-s", target, f"/mem/semantic/public/{name}")
        self.world.warren("fs", "owner", "ln", "-s", "/mem/semantic/public", "/mem/working-link")
        self.world.warren("fs", "owner", "ln", "/mem/semantic/secret", "/mem/semantic/public/hard")
        self.world.up()
        peer = self.client("peer")
        top = "/agent/owner/mem/semantic/public"
        self.assertEqual(peer.read(f"{top}/open"), b"o")
        self.assertEqual(peer.read(f"{top}/in"), b"o")
        for name in ("abs", "rel", "dir/secret", "up/secret", "self", "dir", "../secret", "open/x", "hard"):
            self.assertEqual(self.refusal(peer.read, f"{top}/{name}"), self.refusal(peer.read, f"{top}/nothing"), name)
        for name in ("abs", "rel", "dir/secret", "up/new", "hard"):
            self.assertEqual(self.refusal(peer.write, f"{top}/{name}", b"x")[0], "not_found", name)
        self.assertEqual(self.refusal(peer.read, "/agent/owner/mem/working-link/open")[0], "not_found")
        self.assertEqual(self.world.warren("fs", "owner", "cat", "/mem/semantic/secret"), b"s")

    def test_s6_1_a_name_outside_of_what_is_shared_counts_while_the_host_runs(self):
        self.world.agent("owner", scopes=["/pub:read", "/pub:write"])
        self.world.agent("peer")
        self.world.warren("fs", "owner", "mkdir", "/secret")
        self.world.warren("fs", "owner", "mkdir", "/pub")
        self.world.warren("fs", "owner", "write", "/pub/f", "data")
        self.world.up()
        owner, peer = self.client("owner"), self.client("peer")
        self.assertEqual(peer.read("/agent/owner/pub/f"), b"data")
        self.world.warren("fs", "owner", "ln", "/pub/f", "/secret/f")
        self.assertEqual(self.refusal(peer.read, "/agent/owner/pub/f")[0], "not_found")
        self.assertEqual(self.refusal(peer.write, "/agent/owner/pub/f", b"new")[0], "not_found")
        self.assertEqual(peer.list("/agent/owner/pub"), [])
        owner.call("remove", "/secret/f")
        self.assertEqual(peer.read("/agent/owner/pub/f"), b"data")
        # What is wrong with a value is not said where the policy denies everything.
        self.world.policy("owner", {"space": "peer", "path": "/pub", "effect": "deny"})
        self.assertEqual(self.refusal(peer.write, "/agent/owner/pub/q.json", b"x"),
                         self.refusal(peer.write, "/agent/nobody/pub/q.json", b"x"))

    def test_s6_1_a_query_of_another_agent_returns_paths_that_can_be_read(self):
        self.world.agent("owner", scopes=["data:read"])
        self.world.agent("peer")
        self.world.up()
        self.client("owner").write("/mem/semantic/i.json", b'{"text": "t", "embedding": [1, 0]}')
        peer = self.client("peer")
        found = json.loads(peer.call("query", "/agent/owner/mem/semantic", b"[1, 0]")[1])
        self.assertEqual([one["path"] for one in found], ["/agent/owner/mem/semantic/i.json"])
        self.assertIn(b'"t"', peer.read(found[0]["path"]))

    def test_s6_1_what_is_refused_and_what_is_missing_look_the_same(self):
        self.world.agent("owner", scopes=["/mem/semantic/public:read"])
        self.world.agent("peer")
        self.world.agent("weak", level="unknown")
        self.world.warren("fs", "owner", "mkdir", "-p", "/mem/semantic/public/hidden")
        for path in ("/mem/semantic/secret.json", "/mem/semantic/public/hidden/x", "/mem/semantic/public/shown"):
            self.world.warren("fs", "owner", "write", path, "{}")
        self.world.policy("owner", {"space": "peer", "path": "/mem/semantic/public/hidden", "effect": "deny"})
        self.world.up()
        peer, weak = self.client("peer"), self.client("weak")
        nothing = self.outcomes(peer, "/agent/nobody/mem/semantic/secret.json")
        self.assertEqual({answer[0] for op, answer in nothing.items() if op != "exists"}, {"not_found"})
        for path in ("/agent/owner/mem/semantic/secret.json", "/agent/owner/mem/semantic/missing.json",
                     "/agent/owner/mem/semantic", "/agent/owner/mem", "/agent/owner", "/agent/owner/policy/active.json",
                     "/agent/owner/mem/semantic/secret.json/below", "/agent/owner/mem/semantic/missing/below",
                     "/agent/owner/mem/semantic/public/hidden", "/agent/owner/mem/semantic/public/hidden/x",
                     "/agent/owner/mem/semantic/public/hidden/missing", "/agent/weak/mem", "/agent/weak",
                     "/agent/Owner/mem", "/agent/../agent/nobody/x"):
            self.assertEqual(self.outcomes(peer, path), nothing, path)
        for path in ("/agent/owner/mem/semantic/public/shown", "/agent/owner", "/agent/peer/mem", "/agent/nobody"):
            self.assertEqual(self.outcomes(weak, path), nothing, path)
        self.assertEqual(peer.list("/agent/owner/mem/semantic/public"), ["shown"])

    def test_s6_1_ten_agents_learn_nothing_of_each_other_without_trust(self):
        names = [f"agent-{number}" for number in range(10)]
        for name in names:
            self.world.agent(name, level="standard", scopes=["all:read", "all:write"])  # 5 is less than 7
        self.world.up()
        clients = {name: self.client(name) for name in names}
        for name, client in clients.items():
            client.write(f"/mem/semantic/{name}-secret.json", json.dumps({"text": name, "embedding": [1, 1]}).encode())
            client.write(f"/mem/working/{name}", name.encode())
            client.write("/ipc/outbox/result", name.encode())
        for name, client in clients.items():
            self.assertEqual(client.list("/agent"), [name])
            self.assertEqual(client.list("/mem/working"), [name])
            own = json.loads(client.call("query", "/mem/semantic", b"[1, 1]", top_k=100)[1])
            self.assertEqual([match["path"] for match in own], [f"/mem/semantic/{name}-secret.json"])
            nothing = self.outcomes(client, "/agent/does-not-exist/mem/working/x")
            for other in names:
                if other == name:
                    continue
                for path in ("", "/mem", f"/mem/working/{other}", f"/mem/semantic/{other}-secret.json", "/mem/semantic",
                             "/ipc/outbox/result", "/policy"):
                    self.assertEqual(self.outcomes(client, f"/agent/{other}{path}"), nothing, (name, other, path))
                    self.assertEqual(self.outcomes(client, f"/agent/{name}/../{other}{path}"), nothing)
        everything = b"".join(clients[name].read(f"/mem/working/{name}") for name in names)
        self.assertEqual(everything, "".join(names).encode())

    def test_s6_1_a_refusal_does_not_open_the_other_agent(self):
        """What differs in time is opening a file: it must not happen for somebody who may not reach it."""
        self.world.agent("owner", scopes=["outbox:read"])
        self.world.agent("weak", level="unknown")
        self.world.agent("peer")
        self.world.up()
        weak, peer = self.client("weak"), self.client("peer")

        def open_agents():
            return json.loads(self.world.warren("host", "status", "--json"))[0]["open_agents"]

        for path in ("/agent/owner/ipc/outbox/x", "/agent/owner/mem/x", "/agent/nobody/mem/x"):
            self.outcomes(weak, path)
        self.outcomes(peer, "/agent/owner/mem/x")
        self.assertEqual(open_agents(), 2)  # those who asked: it is in their audit trails
        self.assertEqual(self.refusal(peer.read, "/agent/owner/ipc/outbox/x")[0], "not_found")
        self.assertEqual(open_agents(), 3)
        # So the time that a refusal takes does not depend on what is there either.

    def test_s6_1_attributes_tell_nothing_of_what_is_not_shared(self):
        self.world.agent("owner", scopes=["/mem/semantic/public:read"])
        self.world.agent("peer")
        self.world.warren("fs", "owner", "mkdir", "-p", "/mem/semantic/public/hidden")
        self.world.warren("fs", "owner", "mkdir", "/mem/semantic/public/dir")
        self.world.warren("fs", "owner", "write", "/mem/semantic/public/file", "f")
        self.world.warren("fs", "owner", "ln", "/mem/semantic/public/file", "/mem/semantic/public/again")
        self.world.policy("owner", {"space": "peer", "path": "/mem/semantic/public/hidden", "effect": "deny"})
        self.world.up()
        owner, peer = self.client("owner"), self.client("peer")
        owner.read("/mem/semantic/public/file")
        top = "/agent/owner/mem/semantic/public"
        found = [peer.call("stat", f"{top}{path}")[0]["attributes"] for path in ("", "/dir", "/file")]
        listed = json.loads(peer.call("list", top)[1])
        self.assertEqual(sorted(entry["name"] for entry in listed), ["again", "dir", "file"])
        for one in found + listed:
            self.assertEqual((one["inode"], one["links"], one["atime"]), (0, 1, one["mtime"]), one)
        own = owner.call("stat", "/mem/semantic/public/file")[0]["attributes"]
        self.assertEqual(own["links"], 2)
        self.assertGreater(own["inode"], 0)

    def test_s6_1_a_revoked_key_ends_open_connections(self):
        for name in ("a", "b"):
            self.world.agent(name, scopes=["data:read"])
        self.world.up()
        a, b = self.client("a"), self.client("b")
        a.write("/mem/working/x", b"x")
        self.assertEqual(b.read("/agent/a/mem/working/x"), b"x")
        # The key of an agent: it is gone, with what it shared.
        self.world.warren("trust", "revoke", "a.key.pub")
        self.assertEqual(self.refusal(b.read, "/agent/a/mem/working/x")[0], "not_found")
        self.assertEqual(self.refusal(a.read, "/mem/working/x")[0], "denied")
        self.assertRaises(Closed, a.receive)
        self.assertEqual(b.list("/agent"), ["b"])
        # The key that signed everything.
        self.world.warren("trust", "revoke", "operator.key.pub")
        self.assertEqual(self.refusal(b.list, "/agent")[0], "denied")
        self.assertRaises(Closed, b.receive)

    def test_s6_1_explain_names_the_condition_that_fails(self):
        self.world.agent("owner", scopes=["data:read", "outbox:write"])
        self.world.agent("peer", level="trusted")
        self.world.agent("weak", level="standard")
        self.world.policy("owner", {"space": "peer", "path": "/mem/working", "effect": "deny", "reason": "not yet"})

        def explain(peer, operation, path, *more):
            done = self.world.run("policy", "owner", "explain", operation, path, "--peer", peer, "--json", *more)
            found = json.loads(done.stdout)
            self.assertEqual(done.returncode, 0 if found[0]["effect"] == "allow" else 1)
            return found[0]["effect"], found[0]["reason"]

        self.assertEqual(explain("peer", "read", "/mem/semantic/x"), ("allow", "no rule matches: the default"))
        self.assertEqual(explain("weak", "read", "/mem/semantic/x"),
                         ("deny", "the score of 'weak' is 5, and 7 is needed"))
        self.assertEqual(explain("weak", "read", "/mem/semantic/x", "--threshold", "5")[0], "allow")
        self.assertEqual(explain("nobody", "read", "/mem/semantic/x"),
                         ("deny", "trust in 'nobody': no manifest of this agent was accepted"))
        self.assertEqual(explain("peer", "read", "/state/x"), ("deny", "the manifest of 'owner' does not share it"))
        self.assertEqual(explain("peer", "overwrite", "/ipc/outbox/x"),
                         ("deny", "the namespace's own rights in /ipc/outbox for other agents"))
        self.assertEqual(explain("peer", "read", "/mem/working/x"),
                         ("deny", "rule 1 (line 1), path '/mem/working': not yet"))
        done = self.world.run("policy", "owner", "explain", "read", "/x", "--peer", "peer", "--as-operator")
        self.assertIn(b"give '--peer' or '--as-operator', not both", done.stderr)
        done = self.world.run("policy", "owner", "explain", "read", "/x", "--peer", "../peer")
        self.assertIn(b"not a valid agent id", done.stderr)

    def test_with_a_relay_an_agent_has_its_mail(self):
        relay = self.world.dir / "relay"

        def run_relay(*words):
            return self.world.warren("relay", *words, "--root", relay)

        run_relay("up", "--daemon")
        self.addCleanup(run_relay, "down")
        for name in ("a", "b"):
            self.world.agent(name, scopes=["all:read"])
            run_relay("register", name)
        self.world.agent("unregistered", scopes=["data:read"])
        self.world.up("--relay", relay)
        a, b = self.client("a"), self.client("b")
        a.write(f"/ipc/outbox/{time.time_ns()}-0123abcd.msg", b"TO: b\n\nhello")
        def messages():
            return [name for name in b.list("/ipc/inbox") if name.endswith(".msg")]

        name, = wait_for(messages, "the message")
        self.assertIn(b"hello", b.read(f"/ipc/inbox/{name}"))
        # Whatever is shared, nobody else's inbox is.
        self.assertEqual(self.refusal(a.list, "/agent/b/ipc/inbox")[0], "not_found")
        self.assertEqual(self.refusal(a.read, f"/agent/b/ipc/inbox/{name}")[0], "not_found")
        b.call("remove", f"/ipc/inbox/{name}")
        # Who is not registered is told so, and others are not told anything.
        third = self.client("unregistered")
        code, message = self.refusal(third.list, "/mem")
        self.assertIn("has no agent 'unregistered'", message)
        self.assertEqual(self.refusal(a.list, "/agent/unregistered/mem"), self.refusal(a.list, "/agent/nobody/mem"))
        run_relay("register", "unregistered")
        third.list("/ipc/inbox")
        done = self.world.run("host", "up", "--relay", "nowhere", "--socket", "other")
        self.assertIn(b"there is no relay at 'nowhere'", done.stderr)

    def test_only_the_chosen_agents_are_served(self):
        for name in ("a", "b"):
            self.world.agent(name, scopes=["data:read"])
        self.world.up("a")
        a, b = self.client("a"), self.client("b")
        a.write("/mem/working/x", b"x")
        self.assertEqual(b.read("/agent/a/mem/working/x"), b"x")
        self.assertEqual(self.refusal(b.read, "/mem/working/x")[0], "not_found")
        self.assertEqual(self.refusal(a.read, "/agent/b/mem/working/x")[0], "not_found")
        self.assertEqual(a.list("/agent"), ["a"])
        with self.assertRaisesRegex(AssertionError, "no agent 'c'"):
            self.world.warren("host", "up", "c", "--socket", "other")

    def test_the_command_is_a_client(self):
        self.world.agent("owner", scopes=["data:read"])
        self.world.agent("peer")
        self.world.up()

        def vfs(agent, *words, **options):
            return self.world.warren("vfs", agent, *words, "--host", self.world.socket, "--key", f"{agent}.key", **options)

        vfs("owner", "write", "/mem/working/dir/a.json", '{"n": 1}')
        vfs("owner", "append", "/mem/episodic/log", "x", "--raw")
        vfs("owner", "write", "/mem/semantic/cat.json", '{"text": "cat", "embedding": [1, 0]}')
        vfs("owner", "write", "/mem/working/short", "s", "--ttl", "1h")
        self.assertEqual(vfs("peer", "read", "/agent/owner/mem/working/dir/a.json"), b'{"n": 1}')
        self.assertEqual(vfs("peer", "ls", "/agent/owner/mem"), b"episodic/\nsemantic/\nworking/\n")
        self.assertEqual(vfs("peer", "ls", "/agent"), b"owner/\npeer/\n")
        self.assertIn(b"  working/\n    dir/\n      a.json\n", vfs("peer", "tree", "/agent/owner/mem"))
        self.assertEqual(json.loads(vfs("peer", "stat", "/agent/owner/mem/working/dir/a.json", "--json"))["size"], 8)
        self.assertIn("expires_at_ms", json.loads(vfs("owner", "stat", "/mem/working/short", "--json")))
        self.assertEqual(vfs("peer", "exists", "/agent/owner/mem/working/dir", "--json"), b"true\n")
        self.assertIn(b"cat.json", vfs("peer", "query", "/agent/owner/mem/semantic", "--embedding", "-", input=b"[1, 0]"))
        vfs("owner", "rm", "-r", "/mem/working/dir")
        for words, message in [
                (("read", "/agent/owner/state/x", "--key", "peer.key"), "does not exist, or it is not shared with you"),
                (("read", "/x", "--key", "owner.key"), "does not know this agent, or not by this key"),
                (("read", "/x"), "--host needs --key FILE"),
                (("read", "/x", "--key", "peer.key", "--as-agent"), "--as-agent cannot be used with --host"),
                (("read", "/x", "--key", "nothing"), "there is no key file 'nothing'"),
                (("mounts", "--key", "peer.key"), "a host does not show what is mounted")]:
            done = self.world.run("vfs", "peer", *words, "--host", self.world.socket)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr.decode())
        done = self.world.run("vfs", "peer", "read", "/x", "--key", "peer.key", "--host", "nowhere")
        self.assertIn("connect to 'nowhere'", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
