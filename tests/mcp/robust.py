#!/usr/bin/env python3
"""`warren serve mcp` and input that no client sends, clients that misbehave, signals, and two doors at once.

    WARREN=path/to/warren robust.py [-v] [Robust.test_name]
"""
import json
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import PATIENCE_SECONDS, WARREN, Server  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mount"))
from mounted import answers, detach, wait_for  # noqa: E402

MEGABYTE = 1 << 20


class Robust(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="warren-mcp-"))
        self.warren("init", "a")

    def warren(self, *args):
        return subprocess.run([WARREN, *args], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def server(self, *args, **options):
        return self.enterContext(Server(self.folder, *args, **options))

    def test_it_ends_with_its_input_and_leaves_one_file(self):
        server = self.server()
        server.call("write_file", path="/x", content="1")
        self.assertEqual(server.end(), 0)
        self.assertEqual(sorted(name for name in os.listdir(f"{self.folder}/.agentfs") if name.startswith("a.db")), ["a.db"])
        self.assertEqual(self.warren("fs", "a", "cat", "/x"), "1")

    def test_requests_before_the_end_of_input_are_answered(self):
        server = self.server()
        for number in range(50):
            server.send(json.dumps({"jsonrpc": "2.0", "id": f"w{number}", "method": "tools/call", "params": {
                "name": "write_file", "arguments": {"path": f"/{number}", "content": "x"}}}) + "\n")
        out, _ = server.process.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual({json.loads(line)["id"] for line in out.splitlines()}, {f"w{n}" for n in range(50)})

    def test_a_line_of_100_mebibytes_is_an_error_and_the_next_one_is_served(self):
        server = self.server()
        piece = b"x" * MEGABYTE
        for _ in range(100):
            server.send(piece)
        server.send(b"\n")
        self.assertEqual(server.receive()["error"]["code"], -32600)
        self.assertIn("result", server.ask("ping"))

    def test_deep_nesting_and_other_bytes_are_parse_errors(self):
        server = self.server()
        for line in (b"[" * 100_000, b"{\"a\":" * 100_000, b"\xff\xfe\x00", b"{\"jsonrpc\": \"2.0\", \"id\": 1", b"null x"):
            server.send(line + b"\n")
            self.assertEqual(server.receive()["error"]["code"], -32700, line[:20])
        self.assertIn("result", server.ask("ping"))

    def test_random_messages_never_end_it(self):
        server = self.server()
        chance = random.Random(1)
        seed = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            "name": "read_file", "arguments": {"path": "/a", "offset": 1}, "_meta": {"progressToken": "t"}}}).encode()
        for _ in range(500):
            line = bytearray(seed)
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(line))
                if chance.random() < 0.5:
                    line[at] = chance.randrange(256)
                else:
                    del line[at:at + chance.randrange(1, 9)]
            server.send(bytes(line).replace(b"\n", b" ") + b"\n")
        self.assertIn("result", server.ask("ping"))

    def test_half_a_message_before_the_end_is_no_crash(self):
        server = self.server()
        server.send(b'{"jsonrpc": "2.0", "id": 1, "meth')
        self.assertEqual(server.end(), 0)

    def test_a_client_that_does_not_read_is_waited_for_and_a_signal_ends_that(self):
        server = self.server()
        server.call("write_file", path="/big", content="x" * MEGABYTE)
        request = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "tools/call",
                              "params": {"name": "read_file", "arguments": {"path": "/big"}}})
        os.set_blocking(server.process.stdin.fileno(), False)
        pipe = server.process.stdin.fileno()
        number = 0
        while select.select([], [pipe], [], 2)[1]:  # until it has taken nothing more for so long
            try:
                os.write(pipe, (request.replace('"id": 0', f'"id": {1000 + number}') + "\n").encode())
                number += 1
            except BlockingIOError:  # there is some room, but not for a whole message
                break
        with open(f"/proc/{server.process.pid}/status", encoding="utf8") as status:
            kilobytes = int(next(line for line in status if line.startswith("VmRSS")).split()[1])
        self.assertLess(kilobytes, 700_000)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(PATIENCE_SECONDS), 0)

    def test_sigterm_ends_it_cleanly(self):
        server = self.server()
        server.call("write_file", path="/x", content="1")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(PATIENCE_SECONDS), 0)
        self.assertFalse(os.path.exists(f"{self.folder}/.agentfs/a.db-wal"))

    def test_a_client_that_closes_its_end_is_no_crash(self):
        server = self.server()
        server.process.stdout.close()
        try:
            for _ in range(100_000):  # until it has noticed
                server.send('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        except BrokenPipeError:
            pass
        try:
            server.process.stdin.close()
        except BrokenPipeError:
            pass
        self.assertIn(server.process.wait(PATIENCE_SECONDS), (0, 1))

    def test_what_was_acknowledged_survives_a_kill(self):
        for _ in range(5):
            server = self.server()
            written = 0
            for number in range(40):
                self.assertFalse(server.call("write_file", path=f"/k/{number}", content=str(number))["isError"])
                written = number
            server.send(json.dumps({"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": {
                "name": "write_file", "arguments": {"path": "/k/last", "content": "x" * MEGABYTE}}}) + "\n")
            os.sched_yield()  # somewhere in the middle of it
            server.process.kill()
            server.process.wait()
            for number in range(written + 1):
                self.assertEqual(self.warren("fs", "a", "cat", f"/k/{number}"), str(number))
            if "last" in self.warren("fs", "a", "ls", "/k").split():  # whole or absent
                self.assertEqual(self.warren("fs", "a", "cat", "/k/last"), "x" * MEGABYTE)
                self.warren("fs", "a", "rm", "/k/last")
            self.warren("fsck", "a")

    def test_two_servers_share_an_agent(self):
        first, second = self.server(), self.server()
        for number in range(20):
            first.call("write_file", path="/shared", content=str(number))
            self.assertEqual(second.call("read_file", path="/shared")["content"][0]["text"], str(number))
            second.call("kv_set", key="n", value=number)
            self.assertEqual(first.call("kv_get", key="n")["structuredContent"]["value"], number)

    def mounted(self):
        point = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="warren-mcp-mount-"))).resolve()
        mount = subprocess.Popen([WARREN, "mount", "-f", "a", str(point)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(mount.wait, PATIENCE_SECONDS)
        self.addCleanup(mount.terminate)
        self.addCleanup(detach, point)
        wait_for(lambda: mount.poll() is not None or answers(point), "the mount does not answer")
        self.assertIsNone(mount.poll(), "the mount has ended")
        return point

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse on this machine")
    def test_two_servers_and_a_mount_share_an_agent(self):
        first, second, point = self.server(), self.server(), self.mounted()
        shared = point / "shared"
        for number in range(20):
            first.call("write_file", path="/shared", content=f"server {number}")
            self.assertEqual(second.call("read_file", path="/shared")["content"][0]["text"], f"server {number}")
            wait_for(lambda n=number: shared.exists() and shared.read_text() == f"server {n}", "the mount shows an old file")
            with open(shared, "w", encoding="utf8") as file:
                file.write(f"mount {number}")
                file.flush()
                os.fsync(file.fileno())
            for server in (first, second):
                self.assertEqual(server.call("read_file", path="/shared")["content"][0]["text"], f"mount {number}")
            second.call("remove", path="/shared")
            wait_for(lambda: not shared.exists(), "the mount shows a removed file")

    def test_sigusr1_takes_a_checkpoint(self):
        server = self.server()
        server.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: server.call("history")["structuredContent"]["checkpoints"], "no checkpoint is taken")

    def test_the_list_of_tools_is_small_and_has_each_tool_once(self):
        server = self.server()
        tools = server.ask("tools/list")["result"]["tools"]
        self.assertLess(len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode()), 50_000)
        names = [tool["name"] for tool in tools]
        self.assertIn("search", names)
        self.assertNotIn("context_search", names)
        self.assertFalse(server.call("context_search", pattern="x")["isError"])
        alone = self.server("--tools", "context_search")
        self.assertEqual(alone.tools(), {"context_search"})

    def test_read_only_and_operator(self):
        reader = self.server("--read-only")
        names = {tool["name"] for tool in reader.ask("tools/list")["result"]["tools"]}
        self.assertIn("read_file", names)
        self.assertFalse(names & {"write_file", "remove", "kv_set", "memory", "vfs_operation"})
        operator = self.server("--as-operator")
        self.assertFalse(operator.call("write_file", path="/policy/note", content="x")["isError"])
        self.assertTrue(self.server().call("write_file", path="/policy/note", content="y")["isError"])

    def test_a_root_hides_everything_else(self):
        self.warren("fs", "a", "write", "/work/f", "inside")
        self.warren("fs", "a", "write", "/secret", "outside")
        server = self.server("--root", "/work")
        self.assertEqual(server.call("read_file", path="/work/f")["content"][0]["text"], "inside")
        for tool, arguments in (("read_file", {"path": "/secret"}), ("readdir", {"path": "/"}), ("tree", {"path": "/"}),
                                ("read_file", {"path": "/work/../secret"}), ("copy", {"from": "/secret", "to": "/work/s"}),
                                ("memory", {"command": "create", "path": "/memories/m", "file_text": ""}),
                                ("vfs_operation", {"operation": "read", "path": "/secret"}), ("history", {})):
            answer = server.call(tool, **arguments)
            self.assertTrue(answer["isError"], tool)
            self.assertNotIn("outside", json.dumps(answer).replace("outside of", ""))
        self.assertEqual(server.call("grep", pattern="outside")["structuredContent"]["matches"], [])
        uris = [one["uri"] for one in server.ask("resources/list")["result"]["resources"]]
        self.assertEqual(uris, ["vfs://a/work/f"])
        self.assertIn("error", server.ask("resources/read", uri="vfs://a/secret"))

    def test_mistakes_on_the_command_line_are_told(self):
        for args, told in ((["no-such-agent"], "no-such-agent"), (["a", "--tools", "nonsense"], "nonsense")):
            done = subprocess.run([WARREN, "serve", "mcp", *args], cwd=self.folder, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout, "")
            self.assertIn(told, done.stderr)


if __name__ == "__main__":
    unittest.main()
