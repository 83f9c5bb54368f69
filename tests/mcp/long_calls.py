#!/usr/bin/env python3
"""`warren serve mcp --http` while commands run in the sandbox: everything else is served, and a command ends with its client.

    WARREN=path/to/warren long_calls.py [-v] [LongCalls.test_name]
"""
import http.client
import json
import pathlib
import re
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "run")]
import sandboxed  # noqa: E402

STATELESS = "2026-07-28"
LONG_CALLS_MAX = 8  # Service::kLongCallsMax


class LongCalls(unittest.TestCase):
    def setUp(self):
        sandboxed.need_fuse()
        self.world = self.enterContext(sandboxed.World())
        self.world.inside("s", "sh", "-c", "echo > made")
        self.server = self.world.start("serve", "mcp", "session:s", "--allow", "run", "--http", "127.0.0.1:0",
                                       stdout=subprocess.DEVNULL, text=True)
        self.addCleanup(self.end)
        for line in self.server.stderr:
            found = re.search(r"http://\S+:(\d+)/mcp", line)
            if found:
                self.port = int(found.group(1))
                break
        self.session = self.begin()

    def end(self):
        self.server.terminate()
        self.server.wait()
        self.server.stderr.close()

    def send(self, body, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=sandboxed.PATIENCE_SECONDS)
        self.addCleanup(connection.close)
        sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "Connection": "close"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0"} | body), sent)
        return connection

    def begin(self):
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        answer = self.send({"id": 0, "method": "initialize", "params": params}).getresponse()
        self.assertIn("result", json.loads(answer.read()))
        return answer.headers["Mcp-Session-Id"]

    def ask(self, request_id, method, **params):
        answer = self.send({"id": request_id, "method": method, "params": params}, Mcp_Session_Id=self.session).getresponse()
        return json.loads(answer.read())["result"]

    def run_command(self, request_id, command):
        return self.ask(request_id, "tools/call", name="run", arguments={"command": command, "timeout_seconds": 3600})

    def started(self):
        listed = self.ask("ls", "tools/call", name="find", arguments={"path": "/project", "pattern": "started*"})
        return len(listed["structuredContent"]["matches"])

    def test_commands_that_run_keep_nothing_else_from_being_served(self):
        for number in range(LONG_CALLS_MAX):
            self.send({"id": f"run{number}", "method": "tools/call", "params": {"name": "run", "arguments": {
                "command": f"mkfifo pipe{number}; echo > started{number}; cat pipe{number}", "timeout_seconds": 3600}}},
                      Mcp_Session_Id=self.session)
        sandboxed.wait_for(lambda: self.started() == LONG_CALLS_MAX, "the commands do not start")
        self.assertEqual(self.ask("p", "ping"), {})
        self.assertNotEqual(self.begin(), self.session)
        refused = self.run_command("more", "true")
        self.assertTrue(refused["isError"])
        error = json.loads(refused["content"][0]["text"])
        self.assertEqual(error["error_type"], "busy")
        self.assertIn("run or apply", error["message"])
        cancel = {"method": "notifications/cancelled", "params": {"requestId": "run3"}}
        self.assertEqual(self.send(cancel, Mcp_Session_Id=self.session).getresponse().status, 202)
        sandboxed.wait_for(lambda: not self.run_command("again", "true")["isError"], "a cancelled command leaves no place")

    def test_a_client_that_closes_the_connection_cancels_its_command(self):
        meta = {"io.modelcontextprotocol/protocolVersion": STATELESS, "io.modelcontextprotocol/clientCapabilities": {}}
        connection = self.send({"id": 1, "method": "tools/call", "params": {
            "name": "run", "_meta": meta, "arguments": {"command": "mkfifo pipe; echo > started; cat pipe", "timeout_seconds": 3600}}},
                               MCP_Protocol_Version=STATELESS, Mcp_Method="tools/call", Mcp_Name="run")
        sandboxed.wait_for(lambda: self.started() == 1, "the command does not start")
        connection.close()
        sandboxed.wait_for(self.failed_runs, "the command goes on")
        self.assertIn("cancelled", self.failed_runs()[0]["error"])

    def failed_runs(self):
        calls = json.loads(self.world.warren("timeline", "session:s", "--json").stdout)
        return [one for one in calls if one.get("name") == "run" and one.get("error")]

    def test_many_calls_at_once_are_all_answered(self):
        answers = []
        threads = [threading.Thread(target=lambda n=number: answers.append(self.ask(n, "tools/list"))) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len([one for one in answers if one["tools"]]), 40)


if __name__ == "__main__":
    unittest.main()
