#!/usr/bin/env python3
"""`warren serve mcp` and what takes two sides: questions before something is destroyed, progress, cancellation, notices
of changed lists, and the trail of calls.

    WARREN=path/to/warren asking.py [-v] [Asking.test_name]
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mount"))
from mounted import wait_for  # noqa: E402

STATELESS = "2026-07-28"
META = "io.modelcontextprotocol"


class Asking(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="warren-mcp-"))
        self.environment = os.environ | {"WARREN_EMBED": "none"}
        self.warren("init", "a")
        self.warren("fs", "a", "write", "/dir/file", "1")

    def warren(self, *args, stdin=None):
        return subprocess.run([WARREN, *args], cwd=self.folder, check=True, capture_output=True, text=True, input=stdin,
                              env=self.environment).stdout

    def server(self, *args, **options):
        return self.enterContext(Server(self.folder, *args, environment=self.environment, **options))

    def exists(self, path):
        return subprocess.run([WARREN, "fs", "a", "stat", path], cwd=self.folder, capture_output=True, check=False).returncode == 0

    def trail(self):
        return json.loads(self.warren("timeline", "a", "--json"))

    def test_a_client_that_can_ask_is_asked_before_a_directory_is_removed(self):
        server = self.server(capabilities={"elicitation": {}})
        asked = []

        def answer(content):
            def reply(message):
                asked.append(message)
                return content
            return reply

        for content in ({"action": "decline"}, {"action": "cancel"}, {"action": "accept", "content": {"confirm": False}}, "nonsense", {}):
            server.answer_request = answer(content)
            self.assertTrue(server.call("remove", path="/dir", recursive=True)["isError"], content)
            self.assertTrue(self.exists("/dir/file"))
        self.assertEqual(asked[0]["method"], "elicitation/create")
        self.assertIn("/dir", asked[0]["params"]["message"])
        self.assertEqual(asked[0]["params"]["requestedSchema"]["type"], "object")
        server.answer_request = answer({"action": "accept", "content": {"confirm": True}})
        self.assertFalse(server.call("remove", path="/dir", recursive=True)["isError"])
        self.assertFalse(self.exists("/dir"))

    def test_what_is_denied_while_the_user_is_asked_is_not_restored(self):
        self.warren("checkpoint", "a", "take", "start")
        self.warren("fs", "a", "write", "/dir/file", "2")
        server = self.server(capabilities={"elicitation": {}})

        def reply(_):
            rules = {"version": 1, "default": "allow", "rules": [{"effect": "deny", "path": "/dir"}]}
            pathlib.Path(f"{self.folder}/rules.json").write_text(json.dumps(rules), encoding="utf8")
            self.warren("policy", "a", "set", "rules.json")
            return {"action": "accept", "content": {"confirm": True}}

        server.answer_request = reply
        answer = server.call("restore", checkpoint="start", paths=["/dir/file"])
        self.assertEqual(json.loads(answer["content"][0]["text"])["error_type"], "denied", answer)
        self.assertEqual(self.warren("fs", "a", "cat", "/dir/file"), "2")

    def test_a_client_that_cannot_ask_is_not_asked(self):
        server = self.server()
        self.assertFalse(server.call("remove", path="/dir", recursive=True)["isError"])

    def test_a_question_that_is_not_answered_ends_with_the_input(self):
        server = self.server(capabilities={"elicitation": {}})
        server.send_request("r", "tools/call", name="remove", arguments={"path": "/dir", "recursive": True})
        server.wait_for(lambda message: message.get("method") == "elicitation/create")
        self.assertEqual(server.end(), 0)
        self.assertTrue(self.exists("/dir/file"))

    def test_a_question_that_the_client_cannot_put_is_not_a_no(self):
        server = self.server(capabilities={"elicitation": {}})
        server.send_request("r", "tools/call", name="remove", arguments={"path": "/dir", "recursive": True})
        question = server.wait_for(lambda message: message.get("method") == "elicitation/create")
        server.send(json.dumps({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no window"}}) + "\n")
        text = server.wait_for(lambda message: message.get("id") == "r")["result"]["content"][0]["text"]
        self.assertIn("the client answered the question with an error", text)
        self.assertNotIn("agree", text)
        self.assertTrue(self.exists("/dir/file"))

    def test_a_cancelled_question_is_over(self):
        server = self.server(capabilities={"elicitation": {}})
        server.send_request("r", "tools/call", name="remove", arguments={"path": "/dir", "recursive": True})
        question = server.wait_for(lambda message: message.get("method") == "elicitation/create")
        server.notify("notifications/cancelled", requestId="r")
        wait_for(lambda: [call for call in self.trail() if call["name"] == "remove" and call.get("error")], "it is not over")
        server.send(json.dumps({"jsonrpc": "2.0", "id": question["id"],
                                "result": {"action": "accept", "content": {"confirm": True}}}) + "\n")
        self.assertIn("result", server.ask("ping"))
        self.assertTrue(self.exists("/dir/file"))

    def lone(self, server, arguments, **params):
        meta = {f"{META}/protocolVersion": STATELESS, f"{META}/clientCapabilities": {"elicitation": {"form": {}}},
                f"{META}/clientInfo": {"name": "t", "version": "1"}}
        return server.ask("tools/call", name="remove", arguments=arguments, _meta=meta, **params)["result"]

    def test_without_a_session_the_question_is_the_result(self):
        server = self.server(begin=False)
        arguments = {"path": "/dir", "recursive": True}
        first = self.lone(server, arguments)
        self.assertEqual(first["resultType"], "input_required")
        request = first["inputRequests"]["confirm"]
        self.assertEqual(request["method"], "elicitation/create")
        self.assertTrue(self.exists("/dir/file"))
        yes = {"confirm": {"action": "accept", "content": {"confirm": True}}}
        no = {"confirm": {"action": "decline"}}
        self.assertTrue(self.lone(server, arguments, inputResponses=no, requestState=first["requestState"])["isError"])
        # An answer to another question, or without its state, does not count.
        again = self.lone(server, arguments, inputResponses=yes, requestState="x")
        self.assertEqual(again["resultType"], "input_required")
        self.assertEqual(self.lone(server, arguments, inputResponses=yes)["resultType"], "input_required")
        self.assertTrue(self.exists("/dir/file"))
        # Each question is answered once, also with no.
        self.assertEqual(self.lone(server, arguments, inputResponses=yes, requestState=first["requestState"])["resultType"], "input_required")
        done = self.lone(server, arguments, inputResponses=yes, requestState=again["requestState"])
        self.assertEqual((done["resultType"], done["isError"]), ("complete", False))
        self.assertFalse(self.exists("/dir"))
        self.warren("fs", "a", "write", "/dir/file", "1")
        again = self.lone(server, arguments, inputResponses=yes, requestState=again["requestState"])
        self.assertEqual(again["resultType"], "input_required")
        self.assertTrue(self.exists("/dir/file"))
        # Something else is there than what the user was asked about.
        self.warren("fs", "a", "write", "/dir/file", "2")
        changed = self.lone(server, arguments, inputResponses=yes, requestState=again["requestState"])
        self.assertEqual(changed["resultType"], "input_required")
        self.assertTrue(self.exists("/dir/file"))

    def test_a_yes_covers_only_what_was_there_when_the_user_was_asked(self):
        self.warren("context", "a", "write", "agent:/d/one.md", "1")
        server = self.server(capabilities={"elicitation": {}})
        asked = []
        for tool, arguments, added in (("remove", {"path": "/dir"}, "/dir/late"), ("context_delete", {"path": "agent:/d"}, "/context/agent/d/late.md")):
            def reply(message, path=added):
                asked.append(message["params"]["message"])
                self.warren("fs", "a", "write", path, "late")
                return {"action": "accept", "content": {"confirm": True}}
            server.answer_request = reply
            answer = server.call(tool, recursive=True, **arguments)
            self.assertEqual(json.loads(answer["content"][0]["text"])["error_type"], "conflict", answer)
            self.assertTrue(self.exists(added))
        self.assertIn("/dir and everything in it: 1 file or directory (file)", asked[0])
        self.assertIn("1 file or directory (one.md)", asked[1])

    def test_restore_asks_too(self):
        server = self.server(capabilities={"elicitation": {}})
        server.call("checkpoint", name="before")
        server.call("write_file", path="/dir/file", content="2")
        server.answer_request = lambda _: {"action": "decline"}
        self.assertTrue(server.call("restore", checkpoint="before", paths=["/dir/file"])["isError"])
        self.assertEqual(self.warren("fs", "a", "cat", "/dir/file"), "2")
        server.answer_request = lambda _: {"action": "accept", "content": {"confirm": True}}
        self.assertFalse(server.call("restore", checkpoint="before", paths=["/dir/file"])["isError"])
        self.assertEqual(self.warren("fs", "a", "cat", "/dir/file"), "1")

    def test_a_long_index_reports_progress_and_stops_when_it_is_cancelled(self):
        files = pathlib.Path(self.folder, "many")
        files.mkdir()
        for number in range(3000):
            (files / f"{number}.txt").write_text(f"words of file {number}\n" * 50, encoding="utf8")
        self.warren("fs", "a", "put", str(files), "/many")
        server = self.server()
        server.send_request("s", "tools/call", name="search", arguments={"query": "words"}, _meta={"progressToken": "p"})
        first = server.wait_for(lambda message: message.get("method") == "notifications/progress")
        self.assertEqual(first["params"]["progressToken"], "p")
        server.notify("notifications/cancelled", requestId="s")
        wait_for(lambda: [call for call in self.trail() if call["name"] == "search"], "it is not over")
        [call] = [call for call in self.trail() if call["name"] == "search"]
        self.assertIn("cancel", call["error"])
        answers = [message for message in server.notices if message.get("id") == "s"]
        self.assertEqual(answers, [])
        seen = [message["params"]["progress"] for message in [first, *server.notices] if message.get("method") == "notifications/progress"]
        self.assertEqual(seen, sorted(seen))

    def test_what_is_written_is_found_at_once(self):
        server = self.server()
        server.call("search", query="anything")
        for number, (tool, arguments) in enumerate((("write_file", {"path": "/n0", "content": "zebra zero"}),
                                                    ("vfs_operation", {"operation": "write", "path": "/mem/semantic/n1", "data": "zebra one"}),
                                                    ("context_write", {"path": "/n2", "content": "zebra two"}))):
            self.assertFalse(server.call(tool, **arguments)["isError"], tool)
            word = ("zero", "one", "two")[number]
            self.assertIn(f"zebra {word}", json.dumps(server.call("search", query=f"zebra {word}")), tool)

    def test_a_changed_list_of_resources_is_reported(self):
        server = self.server()
        server.notify("notifications/initialized")
        server.ask("ping")
        server.call("write_file", path="/new", content="1")
        server.wait_for(lambda message: message.get("method") == "notifications/resources/list_changed")
        self.warren("fs", "a", "rm", "/new")
        server.wait_for(lambda message: message.get("method") == "notifications/resources/list_changed")

    def test_every_call_is_in_the_trail(self):
        server = self.server()
        server.call("read_file", path="/dir/file")
        server.call("read_file", path="/none")
        server.call("read_file", path=7)
        server.call("write_file", path="/policy/x", content="1")
        server.call("grep", pattern="1")
        calls = self.trail()
        calls.sort(key=lambda call: call["id"])
        self.assertEqual([call["name"] for call in calls], ["read_file", "read_file", "read_file", "write_file", "grep"])
        for call, kind in zip(calls, (None, "not_found", "invalid_argument", "denied", None)):
            if kind is None:
                self.assertFalse(call.get("error"), call)
                self.assertTrue(call["result"], call)
            else:
                self.assertTrue(call["error"].startswith(kind), call)
            self.assertTrue(call["parameters"], call)


if __name__ == "__main__":
    unittest.main()
