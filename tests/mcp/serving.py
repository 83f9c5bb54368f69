"""A `warren serve mcp` over standard input and output, as a client without any library sees it."""
import json
import os
import select
import subprocess
import sys

PATIENCE_SECONDS = 60  # for what takes moments; only a hang reaches it
WARREN = os.path.abspath(os.environ.get("WARREN") or sys.exit("set WARREN to the warren program to test"))


class Server:
    """A server of an agent, with a session begun."""

    def __init__(self, folder, *args, agent="a", begin=True, environment=None, capabilities=None):
        self.process = subprocess.Popen([WARREN, "serve", "mcp", agent, *args], cwd=folder, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        self.last_id = 0
        self.unread = b""
        self.notices = []
        self.answer_request = None  # what to answer when the server asks something
        if begin:
            self.ask("initialize", protocolVersion="2025-11-25", capabilities=capabilities or {},
                     clientInfo={"name": "t", "version": "1"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass

    def send(self, line):
        self.process.stdin.write(line if isinstance(line, bytes) else line.encode())
        self.process.stdin.flush()

    def send_request(self, request_id, method, **params):
        self.send(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}) + "\n")

    def notify(self, method, **params):
        self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}) + "\n")

    def receive(self):
        output = self.process.stdout.fileno()  # without Python's buffer, which select() does not see
        while b"\n" not in self.unread:
            ready, _, _ = select.select([output], [], [], PATIENCE_SECONDS)
            if not ready:
                raise AssertionError("no answer")
            got = os.read(output, 65536)
            if not got:
                return None
            self.unread += got
        line, _, self.unread = self.unread.partition(b"\n")
        return json.loads(line)

    def wait_for(self, is_wanted):
        """The first message that is; others are kept as notices, and requests of the server are answered."""
        while True:
            message = self.receive()
            if message is None:
                raise AssertionError("the server has ended: " + self.process.stderr.read().decode())
            if "method" in message and "id" in message and self.answer_request is not None:
                self.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": self.answer_request(message)}) + "\n")
            if is_wanted(message):
                return message
            self.notices.append(message)

    def ask(self, method, **params):
        self.last_id += 1
        self.send_request(self.last_id, method, **params)
        return self.wait_for(lambda message: message.get("id") == self.last_id and "method" not in message)

    def call(self, tool, **arguments):
        return self.ask("tools/call", name=tool, arguments=arguments)["result"]

    def tools(self):
        return {tool["name"] for tool in self.ask("tools/list")["result"]["tools"]}

    def end(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE_SECONDS)
