#!/usr/bin/env python3
"""`warren serve mcp --http`: headers, sessions, streams, limits, and callers that must be refused.

    WARREN=path/to/warren over_http.py [-v] [Http.test_name]
"""
import base64
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PATIENCE_SECONDS = 60  # for what takes moments; only a hang reaches it
WARREN = os.path.abspath(os.environ.get("WARREN") or sys.exit("set WARREN to the warren program to test"))
STATELESS = "2026-07-28"
BOTH = "application/json, text/event-stream"


class Http(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="warren-mcp-"))
        self.warren("init", "a")
        self.server = None
        self.addCleanup(self.end)

    def warren(self, *args):
        return subprocess.run([WARREN, *args], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def serve(self, *args, address="127.0.0.1:0"):
        self.server = subprocess.Popen([WARREN, "serve", "mcp", "a", "--http", address, *args], cwd=self.folder,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.server.stderr:
            found = re.search(r"http://\S+:(\d+)/mcp", line)
            if found:
                self.port = int(found.group(1))
                return
        raise AssertionError("it does not serve")

    def end(self):
        if self.server is None:
            return
        if self.server.poll() is None:
            self.server.kill()
        self.server.wait()
        self.server.stderr.close()

    def request(self, method, body=None, path="/mcp", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        self.addCleanup(connection.close)  # it closes itself before that, if the answer was read
        sent = {"Accept": BOTH, "Content-Type": "application/json", "Connection": "close"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        connection.request(method, path, body if body is None or isinstance(body, bytes) else json.dumps(body), sent)
        return connection.getresponse()

    def post(self, body, **headers):
        answer = self.request("POST", body, **headers)
        text = answer.read().decode()
        if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            return answer.status, [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        return answer.status, json.loads(text) if text else None

    def begin(self):
        answer = self.request("POST", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
        self.assertEqual(json.loads(answer.read())["result"]["protocolVersion"], "2025-11-25")
        answer.close()
        return answer.headers["Mcp-Session-Id"]

    @staticmethod
    def call(tool, **arguments):
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}

    def lone(self, method, called=None, **params):
        params["_meta"] = {"io.modelcontextprotocol/protocolVersion": STATELESS,
                           "io.modelcontextprotocol/clientCapabilities": {}}
        headers = {"MCP_Protocol_Version": STATELESS, "Mcp_Method": method}
        if called is not None:
            headers["Mcp_Name"] = called
        return {"jsonrpc": "2.0", "id": 9, "method": method, "params": params}, headers

    def test_a_session_is_begun_used_and_ended(self):
        self.serve()
        session = self.begin()
        status, answer = self.post(self.call("write_file", path="/x", content="1"), Mcp_Session_Id=session)
        self.assertEqual((status, answer["result"]["isError"]), (200, False))
        self.assertEqual(self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, Mcp_Session_Id=session)[0], 202)
        self.assertEqual(self.post(self.call("stat", path="/x"))[0], 400)
        self.assertEqual(self.post(self.call("stat", path="/x"), Mcp_Session_Id="none")[0], 404)
        self.assertEqual(self.request("DELETE", Mcp_Session_Id=session).status, 204)
        self.assertEqual(self.post(self.call("stat", path="/x"), Mcp_Session_Id=session)[0], 404)
        self.assertEqual(self.warren("fs", "a", "cat", "/x"), "1")

    def test_a_request_of_the_stateless_era_stands_alone(self):
        self.serve()
        body, headers = self.lone("tools/call", "write_file", name="write_file", arguments={"path": "/y", "content": "2"})
        status, answer = self.post(body, **headers)
        self.assertEqual((status, answer["result"]["resultType"]), (200, "complete"))
        for wrong in ({"Mcp_Method": "tools/list"}, {"Mcp_Name": "read_file"}, {"MCP_Protocol_Version": "2025-11-25"}):
            status, answer = self.post(body, **{**headers, **wrong})
            self.assertEqual((status, answer["error"]["code"], answer["id"]), (400, -32020, 9), wrong)
        encoded = "=?base64?" + base64.b64encode(b"write_file").decode() + "?="
        self.assertEqual(self.post(body, **{**headers, "Mcp_Name": encoded})[0], 200)
        body, headers = self.lone("no/such")
        self.assertEqual(self.post(body, **headers)[0], 404)
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1900-01-01"
        headers["MCP_Protocol_Version"] = "1900-01-01"
        status, answer = self.post(body, **headers)
        self.assertEqual((status, answer["error"]["code"]), (400, -32022))

    def test_names_and_pages_from_elsewhere_are_refused(self):
        self.serve()
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for host in ("evil.example", "127.0.0.1.evil.example", "127.1", "[::1", "10.0.0.1:80", ""):
            self.assertEqual(self.post(ping, Host=host)[0] if host else 403, 403, host)
        for origin in ("http://evil.example", "null", "http://localhost.evil.example", "file://", "http://127.0.0.1@evil.example"):
            self.assertEqual(self.post(ping, Origin=origin)[0], 403, origin)
        for good in ("http://localhost:3000", "http://127.0.0.1", "https://[::1]:8080"):
            self.assertNotEqual(self.post(ping, Origin=good)[0], 403, good)

    def test_a_token_is_needed_where_there_is_one(self):
        with open(f"{self.folder}/token", "w", encoding="utf8") as file:
            file.write("a-very-secret-token\n")
        os.chmod(f"{self.folder}/token", 0o600)
        self.serve("--token-file", "token", address="0.0.0.0:0")
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        self.assertEqual(self.post(ping)[0], 401)
        self.assertEqual(self.post(ping, Authorization="Bearer wrong")[0], 401)
        self.assertEqual(self.post(ping, Authorization="Bearer a-very-secret-token")[0], 400)  # let in: no session
        done = subprocess.run([WARREN, "serve", "mcp", "a", "--http", "0.0.0.0:0"], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--token-file", done.stderr)

    def token_server(self):
        with open(f"{self.folder}/token", "w", encoding="utf8") as file:
            file.write("a-very-secret-token\n")
        os.chmod(f"{self.folder}/token", 0o600)
        self.serve("--token-file", "token")

    def raw(self, request):
        """What is answered to these bytes, until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_SECONDS) as connection:
            connection.sendall(request)
            answer = b""
            while True:
                try:
                    got = connection.recv(65536)
                except ConnectionResetError:
                    return answer
                if not got:
                    return answer
                answer += got

    def test_a_token_is_asked_for_before_the_body_is_read(self):
        self.token_server()
        head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n%s\r\n"
        self.assertTrue(self.raw((head % "").encode()).startswith(b"HTTP/1.1 401"))
        wrong = "Authorization: Bearer wrong-but-long-enough\r\n"
        self.assertTrue(self.raw((head % wrong).encode()).startswith(b"HTTP/1.1 401"))

    def test_a_token_that_others_can_read_is_refused(self):
        with open(f"{self.folder}/token", "w", encoding="utf8") as file:
            file.write("a-very-secret-token\n")
        os.chmod(f"{self.folder}/token", 0o644)
        done = subprocess.run([WARREN, "serve", "mcp", "a", "--http", "127.0.0.1:0", "--token-file", "token"],
                              cwd=self.folder, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 1)
        self.assertIn("chmod 600", done.stderr)

    def test_a_request_that_can_be_read_in_two_ways_is_refused(self):
        self.serve()
        second = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
        for headers in (b"Content-Length: 2\r\nContent-Length: 40\r\n", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                        b"Content-Length: 2\r\nMcp-Name: a\r\nMcp-Name: b\r\n",
                        b"Content-Length: 2\r\nAuthorization: a\r\nAuthorization: b\r\n"):
            answer = self.raw(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n{}" + second)
            self.assertIn(answer[:12], (b"HTTP/1.1 400", b""), headers)
            self.assertLessEqual(answer.count(b"HTTP/1.1"), 1, headers)

    def test_a_new_session_ends_the_one_that_was_used_least_recently(self):
        self.serve()
        used, unused = self.begin(), None
        body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        self.addCleanup(connection.close)
        for number in range(4200):
            connection.request("POST", "/mcp", body, {"Accept": BOTH, "Content-Type": "application/json"})
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200, number)
            answer.read()
            unused = unused or answer.headers["Mcp-Session-Id"]
            if number % 1000 == 500:
                self.assertEqual(self.post(self.call("access", path="/"), Mcp_Session_Id=used)[0], 200)
        self.assertEqual(self.post(self.call("access", path="/"), Mcp_Session_Id=used)[0], 200)
        self.assertEqual(self.post(self.call("access", path="/"), Mcp_Session_Id=unused)[0], 404)

    def test_answers_that_nobody_reads_are_bounded(self):
        self.serve()
        session = self.begin()
        content = base64.b64encode(os.urandom(6 << 20)).decode()
        self.post(self.call("write_file", path="/big", content=content), Mcp_Session_Id=session)
        unread = []
        for number in range(60):
            body = json.dumps({**self.call("read_file", path="/big", length=8 << 20), "id": f"r{number}"}).encode()
            request = (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: {BOTH}\r\nContent-Type: application/json\r\n"
                       f"Mcp-Session-Id: {session}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
            one = socket.create_connection(("127.0.0.1", self.port), PATIENCE_SECONDS)
            self.addCleanup(one.close)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(request)
            unread.append(one)
        statuses = [one.recv(12)[-3:] for one in unread]
        self.assertIn(b"200", statuses)
        self.assertIn(b"503", statuses)
        with open(f"/proc/{self.server.pid}/status", encoding="utf8") as status:
            peak = int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1))
        self.assertLess(peak, 1 << 20)  # a gibibyte: 60 answers are more
        for one in unread:
            one.close()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.post(self.call("access", path="/"), Mcp_Session_Id=session)[0] != 200:
            self.assertLess(time.monotonic(), deadline)

    def test_bad_requests_are_told(self):
        self.serve()
        session = self.begin()
        self.assertEqual(self.post(b"{", Mcp_Session_Id=session)[0], 400)
        self.assertEqual(self.post({}, Mcp_Session_Id=session, Content_Type="text/plain")[0], 415)
        self.assertEqual(self.request("PUT", {}).status, 405)
        self.assertEqual(self.request("GET", path="/other").status, 404)
        self.assertEqual(self.request("GET", Accept="application/json", Mcp_Session_Id=session).status, 406)
        self.assertEqual(self.request("GET").status, 405)
        self.assertEqual(self.request("POST", b"", Content_Length=str(1 << 30)).status, 413)
        self.assertIn("result", self.post(self.call("access", path="/"), Mcp_Session_Id=session)[1])

    def events(self, answer):
        """The events of a stream, as (id, message)."""
        event_id = None
        for line in answer:
            line = line.decode().rstrip("\n")
            if line.startswith("id: "):
                event_id = line[4:]
            elif line.startswith("data: "):
                yield event_id, json.loads(line[6:])

    def test_a_stream_of_notices_can_be_resumed(self):
        self.serve()
        session = self.begin()
        stream = self.events(self.request("GET", Mcp_Session_Id=session))
        self.post({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": "vfs://a/w"}}, Mcp_Session_Id=session)
        self.warren("vfs", "a", "write", "/w", "1")
        first, message = next(stream)
        self.assertEqual(message["params"]["uri"], "vfs://a/w")
        self.warren("vfs", "a", "write", "/w", "22")
        second, _ = next(stream)
        again = self.events(self.request("GET", Mcp_Session_Id=session, Last_Event_ID=first))
        self.assertEqual(next(again)[0], second)
        self.assertEqual(self.request("GET", Mcp_Session_Id=session, Last_Event_ID="nonsense").status, 400)

    def test_a_listener_hears_of_changes_until_the_server_ends(self):
        self.serve()
        body, headers = self.lone("subscriptions/listen", notifications={"resourceSubscriptions": ["vfs://a/l"]})
        stream = self.events(self.request("POST", body, **headers))
        self.assertEqual(next(stream)[1]["method"], "notifications/subscriptions/acknowledged")
        self.warren("vfs", "a", "write", "/l", "1")
        self.assertEqual(next(stream)[1]["method"], "notifications/resources/updated")
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(next(stream)[1]["id"], 9)
        self.assertEqual(self.server.wait(PATIENCE_SECONDS), 0)

    def test_a_thousand_sessions_with_streams_fit(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
        self.serve()
        sessions = [self.begin() for _ in range(1000)]
        streams = []
        for session in sessions:
            one = socket.create_connection(("127.0.0.1", self.port))
            self.addCleanup(one.close)
            one.sendall(f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n".encode())
            streams.append(one)
        for one in streams:
            self.assertTrue(one.recv(20).startswith(b"HTTP/1.1 200"))
        with open(f"/proc/{self.server.pid}/status", encoding="utf8") as status:
            kilobytes = int(next(line for line in status if line.startswith("VmHWM")).split()[1])
        self.assertLess(kilobytes, 256 * 1024)
        self.assertEqual(self.post(self.call("access", path="/"), Mcp_Session_Id=sessions[500])[0], 200)

    def test_clients_that_send_slowly_or_nothing_do_not_keep_others_waiting(self):
        self.serve()
        silent = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(100)]
        for one in silent:
            self.addCleanup(one.close)
            one.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n")
        began = time.monotonic()
        self.begin()
        self.assertLess(time.monotonic() - began, 10)

    def test_calls_at_the_same_time_are_all_answered(self):
        self.serve()
        session = self.begin()
        failed = []

        def work(number):
            status, answer = self.post({**self.call("write_file", path=f"/m/{number}", content="x"), "id": number}, Mcp_Session_Id=session)
            if status != 200 or answer["id"] != number:
                failed.append((number, status, answer))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(PATIENCE_SECONDS)
        self.assertEqual(failed, [])
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(PATIENCE_SECONDS), 0)
        self.assertEqual(len(self.warren("fs", "a", "ls", "/m").splitlines()), 64)


if __name__ == "__main__":
    unittest.main()
