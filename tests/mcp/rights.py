#!/usr/bin/env python3
"""`warren serve mcp` and rights: a path that the policy denies, through every tool and every kind of resource; what is
left with --tools; and another agent as the caller.

    WARREN=path/to/warren rights.py [-v] [Rights.test_name]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import WARREN, Server  # noqa: E402

SECRET = "treasure"
# How each tool reaches for /vault/gold (the item vault:/gold of a drive for the tools on items). A new tool must be
# added here, or to the list of those that take no path.
ATTEMPTS = {
    "access": [{"path": "/vault/gold"}],
    "copy": [{"from": "/vault/gold", "to": "/open/gold"}, {"from": "/vault", "to": "/open/all", "recursive": True},
             {"from": "/open/note", "to": "/vault/new"}],
    "edit_file": [{"path": "/vault/gold", "edits": [{"old_text": SECRET, "new_text": "x"}]}],
    "find": [{"path": "/vault", "pattern": "*"}, {"path": "/", "pattern": "gold"}],
    "grep": [{"path": "/vault", "pattern": "eas"}],
    "mkdir": [{"path": "/vault/dir"}],
    "read_file": [{"path": "/vault/gold"}, {"path": "/open/../vault/gold"}, {"path": "/agent/a/vault/gold"}, {"path": "/open/link"}],
    "readdir": [{"path": "/vault"}],
    "remove": [{"path": "/vault/gold"}, {"path": "/vault", "recursive": True}],
    "rename": [{"from": "/vault/gold", "to": "/open/gold"}, {"from": "/open/note", "to": "/vault/gold"},
               {"from": "/vault", "to": "/open/v"}],
    "stat": [{"path": "/vault/gold"}],
    "tree": [{"path": "/vault"}],
    "write_file": [{"path": "/vault/gold", "content": "x"}, {"path": "/vault/new", "content": "x"}, {"path": "/open/link", "content": "x"}],
    "vfs_operation": [{"operation": "read", "path": "/vault/gold"}, {"operation": "write", "path": "/vault/gold", "data": "x"},
                      {"operation": "append", "path": "/vault/gold", "data": "x"}, {"operation": "delete", "path": "/vault/gold"},
                      {"operation": "list", "path": "/vault"}, {"operation": "restore", "path": "start", "data": ["/vault/gold"]},
                      {"operation": "restore", "path": "start"}],
    "restore": [{"checkpoint": "start", "paths": ["/vault/gold"]}, {"checkpoint": "start"}],
    "diff": [{"from": "empty", "patch": True}],
    "memory": [{"command": "view", "path": "/memories/../vault/gold"}, {"command": "view", "path": "/memories/vault/gold"},
               {"command": "create", "path": "/memories/vault/new", "file_text": "x"},
               {"command": "str_replace", "path": "/memories/vault/gold", "old_str": SECRET, "new_str": "x"},
               {"command": "insert", "path": "/memories/vault/gold", "insert_line": 0, "insert_text": "x"},
               {"command": "delete", "path": "/memories/vault/gold"},
               {"command": "rename", "old_path": "/memories/vault/gold", "new_path": "/memories/gold"}],
    "search": [{"query": SECRET}, {"pattern": SECRET}],
    "context_search": [{"query": SECRET}],  # another name of search, which is not listed
    "context_read": [{"path": "vault:/gold"}],
    "context_write": [{"path": "vault:/gold", "content": "x", "on_conflict": "overwrite"}, {"path": "vault:/new", "content": "x"}],
    "context_edit": [{"path": "vault:/gold", "patches": [{"start_line": 1, "end_line": 1, "content": "x"}]}],
    "context_copy": [{"path": "vault:/gold", "to_drive": "agent", "to_path": "/gold"}],
    "context_move": [{"path": "vault:/gold", "to_drive": "agent", "to_path": "/gold"}],
    "context_delete": [{"path": "vault:/gold"}, {"path": "vault:/", "recursive": True}],
    "context_create_dir": [{"path": "vault:/dir"}],
    "context_info": [{"path": "vault:/gold"}],
    "context_exists": [{"path": "vault:/gold"}],
    "context_count_lines": [{"path": "vault:/gold"}],
    "context_dir_size": [{"path": "vault:/"}],
    "context_tree": [{"path": "vault:/"}],
    "context_refresh": [{"path": "vault:/gold"}],
}
NO_PATH = {"kv_get", "kv_set", "kv_delete", "kv_list", "checkpoint", "history", "context_list_drives"}
# What tells that a name exists, or its attributes, is not denied: every other operation needs that (docs/design/vfs.md).
LOOKS = {"access", "stat", "context_exists", "context_info"}
# What lists names, or counts: denied ones are not among them. `diff` shows what a link says, not only names.
LISTS = {"find", "tree", "context_tree", "context_dir_size", "grep", "search", "context_search"}


class Rights(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="warren-mcp-"))
        self.environment = os.environ | {"WARREN_EMBED": "none", "XDG_CONFIG_HOME": f"{self.folder}/config", "HOME": self.folder}
        self.warren("init", "a")
        self.warren("checkpoint", "a", "take", "empty")
        for path in ("/vault/gold", "/mem/vault/gold", "/context/vault/gold"):
            self.warren("vfs", "a", "write", path, SECRET)
        self.warren("vfs", "a", "write", "/open/note", "plain")
        self.warren("fs", "a", "ln", "-s", "/vault/gold", "/open/link")
        self.warren("checkpoint", "a", "take", "start")

    def warren(self, *args):
        done = subprocess.run([WARREN, *args], cwd=self.folder, check=False, capture_output=True, text=True, env=self.environment)
        self.assertEqual(done.returncode, 0, f"{args}: {done.stdout}{done.stderr}")
        return done.stdout

    def deny(self):
        rules = [{"effect": "deny", "path": path} for path in ("/vault", "/mem/vault", "/context/vault")]
        pathlib.Path(f"{self.folder}/rules.json").write_text(json.dumps({"version": 1, "default": "allow", "rules": rules}),
                                                             encoding="utf8")
        self.warren("policy", "a", "set", "rules.json")

    def server(self, *args, **options):
        return self.enterContext(Server(self.folder, *args, environment=self.environment, **options))

    def contents(self):
        return [self.warren("fs", "a", "cat", path) for path in ("/vault/gold", "/mem/vault/gold", "/context/vault/gold")]

    @staticmethod
    def found(answer):
        """What an answer tells about /vault/gold: lines and values that name it, and counts that are not 0."""
        told = answer["structuredContent"]
        lines = [line for line in answer["content"][0]["text"].splitlines() if "gold" in line]
        counted = [key for key in ("items", "size_bytes") if isinstance(told.get(key), int) and told[key] > 0]
        return lines + counted + [key for key, value in told.items() if "gold" in json.dumps(value)]

    def test_every_tool_obeys_the_policy(self):
        self.deny()
        server = self.server()
        self.assertEqual(server.tools() - NO_PATH, set(ATTEMPTS) - {"context_search"}, "how does a new tool reach for a path?")
        before = self.contents()
        for tool, attempts in ATTEMPTS.items():
            for arguments in attempts:
                answer = server.call(tool, **arguments)
                told = json.dumps(answer)
                self.assertNotIn(SECRET, told, (tool, arguments))
                if tool not in LOOKS | LISTS | {"diff"}:
                    self.assertTrue(answer["isError"], (tool, arguments, answer))
                elif answer["isError"]:
                    self.assertEqual(json.loads(answer["content"][0]["text"])["error_type"], "denied", (tool, arguments, answer))
                elif tool in LISTS:
                    self.assertEqual(self.found(answer), [], (tool, arguments))
        self.assertEqual(self.contents(), before)
        self.assertNotIn("gold", self.warren("fs", "a", "ls", "/open").split())
        refused = self.warren("audit", "a", "show", "--outcome", "failed")
        self.assertIn("/vault/gold", refused)

    def test_without_the_rule_the_same_attempts_find_it(self):
        server = self.server()
        for tool, arguments in (("read_file", {"path": "/vault/gold"}), ("vfs_operation", {"operation": "read", "path": "/vault/gold"}),
                                ("memory", {"command": "view", "path": "/memories/vault/gold"}), ("context_read", {"path": "vault:/gold"}),
                                ("grep", {"path": "/vault", "pattern": "eas"}), ("search", {"query": SECRET}),
                                ("diff", {"from": "empty", "patch": True})):
            self.assertIn(SECRET, json.dumps(server.call(tool, **arguments)), tool)
        for tool in sorted(LOOKS | LISTS):
            for arguments in ATTEMPTS[tool]:
                answer = server.call(tool, **arguments)
                self.assertFalse(answer["isError"], (tool, arguments, answer))
                if tool in LISTS:
                    self.assertNotEqual(self.found(answer), [], (tool, arguments, answer))

    def test_resources_obey_the_policy(self):
        self.deny()
        server = self.server()
        for uri in ("vfs://a/vault/gold", "vfs://a/open/%2e%2e/vault/gold", "vfs://a/open/link", "/vault/gold", "vfs://a/agent/a/vault/gold",
                    "vfs://a/open/..%2fvault%2fgold", "file:///vault/gold", "vfs://b/vault/gold", "vfs://a/vault"):
            answer = server.ask("resources/read", uri=uri)
            self.assertIn("error", answer, uri)
            self.assertNotIn(SECRET, json.dumps(answer))
        uris = [one["uri"] for one in server.ask("resources/list")["result"]["resources"]]
        self.assertFalse([uri for uri in uris if "gold" in uri and "/vault/" in uri], uris)
        completion = server.ask("completion/complete", ref={"type": "ref/resource", "uri": "vfs://{agent_id}/{path}"},
                                argument={"name": "path", "value": "/vault/"})
        self.assertEqual(completion["result"]["completion"]["values"], [])

    def test_a_server_whose_tools_read_no_files_has_no_resources(self):
        server = self.server("--tools", "checkpoints", begin=False)
        begun = server.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"})
        self.assertNotIn("resources", begun["result"]["capabilities"])
        for method, params in (("resources/list", {}), ("resources/read", {"uri": "vfs://a/open/note"}), ("resources/templates/list", {}),
                               ("resources/subscribe", {"uri": "vfs://a/open/note"})):
            self.assertEqual(server.ask(method, **params)["error"]["code"], -32601, method)
        keys = self.server("--tools", "keys,write_file")
        keys.call("kv_set", key="k", value=1)
        self.assertEqual(keys.ask("resources/list")["result"]["resources"], [])
        self.assertIn("error", keys.ask("resources/read", uri="vfs://a/open/note"))
        self.assertIn("error", keys.ask("resources/subscribe", uri="vfs://a/open/note"))
        self.assertEqual(keys.ask("resources/read", uri="kv://a/k")["result"]["contents"][0]["text"], "1")
        path = keys.ask("completion/complete", ref={"type": "ref/resource", "uri": "vfs://{agent_id}/{path}"},
                        argument={"name": "path", "value": "/op"})
        self.assertEqual(path["result"]["completion"]["values"], [])

    def trust(self, agent, *args):
        self.warren("trust", "keygen", f"{agent}.key")
        manifest = self.warren("trust", "sign", agent, "--key", "operator.key", "--agent-key", f"{agent}.key.pub", *args)
        pathlib.Path(f"{self.folder}/{agent}.json").write_text(manifest, encoding="utf8")
        self.warren("trust", "add", f"{agent}.json")

    def share(self):
        self.warren("trust", "keygen", "operator.key")
        self.warren("trust", "add", "operator.key.pub", "--name", "me")
        self.trust("a", "--level", "standard", "--scope", "/open:read")
        self.trust("peer", "--level", "trusted")

    def test_another_agent_sees_what_is_shared_and_nothing_else(self):
        self.share()
        peer = self.server("--as", "peer")
        self.assertFalse([name for name in peer.tools() if name.startswith(("kv_", "context_", "relay_"))])
        self.assertFalse(peer.tools() & {"checkpoint", "restore", "history", "diff", "memory", "vfs_operation", "search"})
        self.assertEqual(peer.call("read_file", path="/open/note")["content"][0]["text"], "plain")
        self.assertTrue(peer.call("write_file", path="/open/note", content="x")["isError"])
        for tool in peer.tools() & set(ATTEMPTS):
            for arguments in ATTEMPTS[tool]:
                self.assertNotIn(SECRET, json.dumps(peer.call(tool, **arguments)), (tool, arguments))
        names = [one["name"] for one in peer.call("readdir", path="/")["structuredContent"]["entries"]] if not \
            peer.call("readdir", path="/")["isError"] else []
        self.assertNotIn("vault", names)
        uris = [one["uri"] for one in peer.ask("resources/list")["result"]["resources"]]
        self.assertEqual([uri for uri in uris if not uri.startswith("vfs://a/open/")], [])
        self.assertIn("error", peer.ask("resources/read", uri="vfs://a/vault/gold"))
        self.assertIn("error", peer.ask("resources/read", uri="kv://a/k"))
        self.assertNotIn("plan_from_timeline", json.dumps(peer.ask("prompts/list")))

    def test_a_revocation_holds_for_a_server_that_runs(self):
        self.share()
        peer = self.server("--as", "peer")
        self.assertFalse(peer.call("read_file", path="/open/note")["isError"])
        self.warren("trust", "revoke", "peer")
        self.assertTrue(peer.call("read_file", path="/open/note")["isError"])
        self.assertIn("error", peer.ask("resources/read", uri="vfs://a/open/note"))

    def refused(self, *args):
        done = subprocess.run([WARREN, "serve", "mcp", "a", *args], cwd=self.folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False, env=self.environment)
        self.assertEqual(done.returncode, 1, args)
        return done.stderr

    def test_an_agent_that_nobody_knows_and_the_agent_itself_are_refused_at_the_start(self):
        self.assertIn("no manifest of 'stranger' was accepted", self.refused("--as", "stranger"))
        self.assertIn("'a' is the agent that is served", self.refused("--as", "a"))

    def test_options_that_contradict_each_other_are_refused(self):
        for args in (["--as", "peer", "--as-operator"], ["--as", "peer", "--tools", "keys"], ["--as", "../x"],
                     ["--as", "peer", "--relay-as", "x"], ["--relay-as", ""], ["--relay-as", "x", "--root", "/mem"]):
            self.assertTrue(self.refused(*args), args)
            install = subprocess.run([WARREN, "mcp", "install", "claude", "a", *args], cwd=self.folder,
                                     capture_output=True, text=True, check=False, env=self.environment)
            if "--as-operator" not in args and "../x" not in args:  # one is no option of it, the other is for the server
                self.assertEqual((install.returncode, install.stdout), (1, ""), args)


if __name__ == "__main__":
    unittest.main()
