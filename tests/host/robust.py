#!/usr/bin/env python3
"""A host and clients that misbehave, crashes, and its end.

    WARREN=path/to/warren robust.py [-v] [Class.test_name]
"""
import contextlib
import json
import os
import pathlib
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hosted import PATIENCE_SECONDS, Client, Closed, Refused, World, wait_for

BODY_MAX = 64 << 20


class Robust(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(World())
        self.world.agent("a", scopes=["data:read"])
        self.world.agent("b")
        self.host = self.world.up()

    def client(self, agent):
        return self.enterContext(Client(self.world, agent))

    def refused_with(self, client):
        """The error that the host sends before it closes."""
        answer, _ = client.receive()
        self.assertFalse(answer["ok"])
        self.assertRaises(Closed, client.receive)
        return answer["error"]["code"]

    def assert_serves(self):
        with Client(self.world, "b") as other:
            other.write("/mem/working/probe", b"here")
            self.assertEqual(other.read("/mem/working/probe"), b"here")
        self.assertIsNone(self.host.poll())

    def test_messages_that_are_not_messages(self):
        for raw in (struct.pack(">II", 1 << 31, 0), struct.pack(">II", (64 << 10) + 1, 0),
                    struct.pack(">II", 2, BODY_MAX + 1) + b"{}", struct.pack(">II", 0, 0),
                    struct.pack(">II", 5, 0) + b"hello", struct.pack(">II", 2, 0) + b"[]",
                    struct.pack(">II", 3, 0) + b'"\xff"', struct.pack(">II", 60000, 0) + b"[" * 60000):
            with Client(self.world, "a") as client:
                client.socket.sendall(raw)
                self.assertIn(self.refused_with(client), ("too_large", "invalid"))
        with Client(self.world) as client:  # before it is known who it is, only small ones
            client.socket.sendall(struct.pack(">II", 5000, 0))
            self.assertEqual(self.refused_with(client), "too_large")
        self.assert_serves()

    def test_values_that_would_take_the_stack(self):
        client = self.client("a")
        deep = b"[" * 500_000 + b"]" * 500_000
        for path in ("/mem/working/x.jsonl", "/mem/working/x.json", "/mem/semantic/x.json"):
            client.send({"op": "write", "path": path}, deep)
            self.assertEqual(client.receive()[0]["error"]["code"], "invalid")
        client.send({"op": "write", "path": "/mem/semantic/x.json", "as_is": True},
                    b'{"embedding": [1], "metadata": {"a": ' + deep + b"}}")
        self.assertTrue(client.receive()[0]["ok"])
        client.send({"op": "query", "path": "/mem/semantic"}, b"[1]")
        self.assertEqual(client.receive()[1], b"[]")
        self.assert_serves()

    def test_requests_that_are_wrong_are_answered_and_the_connection_goes_on(self):
        client = self.client("a")
        for head in ({}, {"op": 5}, {"op": "fly", "path": "/"}, {"op": "read"}, {"op": "read", "path": 5},
                     {"op": "read", "path": "/x", "path64": "AA=="}, {"op": "read", "path64": "not base64"},
                     {"op": "read", "path": "/\0"}, {"op": "read", "path": "/x", "offset": -1},
                     {"op": "read", "path": "/x", "length": BODY_MAX + 1}, {"op": "read", "path": "/x", "surprise": 1},
                     {"op": "write", "path": "/x", "as_is": "yes"}, {"op": "write", "path": "/x", "ttl_ms": 1 << 60},
                     {"op": "write", "path": "/mem/episodic/x", "ttl_ms": 5},
                     {"op": "query", "path": "/mem/semantic"}, {"op": "query", "path": "/mem/semantic", "top_k": "all"}):
            client.send(head)
            answer, _ = client.receive()
            self.assertEqual((answer["ok"], answer["error"]["code"]), (False, "invalid"), head)
        for path, code in (("/" + "x" * 256, "name_too_long"), ("/x" * 2100, "name_too_long")):
            client.send({"op": "read", "path": path})
            self.assertEqual(client.receive()[0]["error"]["code"], code)
        client.send({"op": "write", "path64": "L/8="}, b"b")
        self.assertTrue(client.receive()[0]["ok"])  # a name that is not UTF-8
        self.assertIn("/w==", [entry.get("name64") for entry in json.loads(client.call("list", "/")[1])])

    def test_a_client_that_stops_within_a_message_holds_up_itself_only(self):
        stopped = [Client(self.world, "a") for _ in range(20)]
        for number, client in enumerate(stopped):
            raw = struct.pack(">II", 40, 1 << 20) + b'{"op": "write", "path": "/mem/working/x"}'
            client.socket.sendall(raw[:1 + number * 2])
        begin = time.monotonic()
        self.assert_serves()
        self.assertLess(time.monotonic() - begin, PATIENCE_SECONDS / 2)
        for client in stopped:
            client.close()
        with Client(self.world, "a") as client:
            self.assertFalse(client.exists("/mem/working/x"))

    def test_a_client_that_does_not_read_holds_up_itself_only(self):
        client = self.client("a")
        client.write("/mem/working/large", b"x" * (8 << 20))
        client.socket.setblocking(False)
        request = json.dumps({"op": "read", "path": "/mem/working/large"}).encode()
        sent = 0
        try:
            for _ in range(200):
                client.socket.send(struct.pack(">II", len(request), 0) + request)
                sent += 1
        except BlockingIOError:
            pass
        self.assertGreater(sent, 0)
        self.assert_serves()
        with Client(self.world, "a") as other:
            self.assertEqual(len(other.read("/mem/working/large")), 8 << 20)
        # It does not grow by what was asked for: one answer at a time.
        memory = int(pathlib.Path(f"/proc/{self.host.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        self.assertLess(memory, 400 << 20)

    def test_clients_that_never_say_who_they_are_keep_nobody_out(self):
        silent = [self.client(None) for _ in range(1100)]
        self.assert_serves()
        self.assertEqual(silent[0].socket.recv(1), b"")  # the oldest made room
        status = json.loads(self.world.warren("host", "status", "--json"))[0]
        self.assertLessEqual(status["connections"] - status["identified"], 1030)

    def test_large_values_come_whole_or_not_at_all(self):
        client = self.client("a")
        value = os.urandom(BODY_MAX)
        client.write("/mem/working/large", value)
        self.assertEqual(client.read("/mem/working/large"), value)
        client.call("append", "/mem/working/large", b"one more")
        with self.assertRaises(Refused) as caught:
            client.read("/mem/working/large")
        self.assertEqual(caught.exception.code, "too_large")
        self.assertEqual(client.call("read", "/mem/working/large", offset=BODY_MAX)[1], b"one more")
        # One agent's bytes in flight are bounded, together.
        first, second = self.client("a"), self.client("a")
        head = json.dumps({"op": "write", "path": "/mem/working/y"}).encode()
        for one in (first, second):
            one.socket.sendall(struct.pack(">II", len(head), BODY_MAX) + head)
        refused = wait_for(lambda: select.select([first.socket, second.socket], [], [], 1)[0], "one is refused")
        self.assertEqual(self.refused_with(first if refused == [first.socket] else second), "busy")
        self.assert_serves()

    def test_a_thousand_connections(self):
        count = 1000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < count + 100:
            self.skipTest(f"only {hard} descriptors are allowed here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 100), hard))
        clients = []
        for _ in range(count):
            clients.append(Client(self.world, "a"))
        status = json.loads(self.world.warren("host", "status", "--json"))[0]
        self.assertGreaterEqual(status["identified"], count)
        for number in range(0, count, 50):
            clients[number].write(f"/mem/working/{number}", str(number).encode())
        for number in range(0, count, 50):
            self.assertEqual(clients[-1 - number].read(f"/mem/working/{number}"), str(number).encode())
        self.assert_serves()
        for client in clients:
            client.close()
        wait_for(lambda: json.loads(self.world.warren("host", "status", "--json"))[0]["connections"] < 10,
                 "closed connections are removed")

    def test_requests_at_once(self):
        failures = []

        def work(number):
            try:
                with Client(self.world, "a") as client:
                    for turn in range(20):
                        client.write(f"/mem/semantic/{number}-{turn}", str(turn).encode())
                        client.call("append", "/mem/episodic/log", f"{number} {turn}\n".encode())
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        with Client(self.world, "a") as client:
            self.assertEqual(len(client.list("/mem/semantic")), 160)
            self.assertEqual(len(client.read("/mem/episodic/log").splitlines()), 160)

    def test_it_ends_with_its_answers_given(self):
        client = self.client("a")
        idle = self.client("b")
        half = self.client("b")
        half.socket.sendall(b"\0\0")
        client.write("/mem/semantic/x", b"kept")
        self.assertEqual(self.world.warren("host", "down"), b"")
        self.assertEqual(self.host.wait(PATIENCE_SECONDS), 0)
        self.assertRaises(Closed, idle.receive)
        self.assertEqual([path.name for path in self.world.dir.glob("s*")], [])
        self.assertEqual(self.world.run("host", "status").returncode, 3)
        self.assertIn(b"no host is running", self.world.run("host", "down").stderr)
        self.assertEqual(self.world.warren("fs", "a", "cat", "/mem/semantic/x"), b"kept")
        self.assertEqual(list((self.world.dir / ".agentfs").glob("*-wal")), [])  # closed cleanly
        self.host = self.world.up()
        with Client(self.world, "a") as again:
            self.assertEqual(again.read("/mem/semantic/x"), b"kept")
            self.assertEqual(again.list("/mem/working"), [])

    def test_kill_9_loses_nothing_that_was_answered(self):
        client = self.client("a")
        done = []

        def write():
            try:
                for number in range(100_000):
                    client.write(f"/mem/semantic/{number:06}", str(number).encode())
                    done.append(number)
            except (Closed, OSError):
                pass

        thread = threading.Thread(target=write)
        thread.start()
        wait_for(lambda: len(done) > 20, "some answers")
        self.host.kill()
        self.host.wait()
        thread.join()
        self.assertTrue(self.world.socket.exists())  # what it left is no obstacle
        self.host = self.world.up()
        with Client(self.world, "a") as again:
            for number in done:
                self.assertEqual(again.read(f"/mem/semantic/{number:06}"), str(number).encode())
        self.world.warren("fsck", "a")
        self.assertEqual(len(json.loads(self.world.warren("host", "status", "--json"))), 1)

    def test_one_host_for_a_socket(self):
        done = self.world.run("host", "up", "--socket", self.world.socket)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"a host is running at", done.stderr)
        self.assert_serves()
        for words, message in [(("--socket", "x" * 200), b"has more than 107 bytes"),
                               (("--socket", "nowhere/s"), b"--socket 'nowhere/s'"),
                               (("--socket", "operator.key"), b"exists and is not a socket"),
                               (("--dir", "nowhere"), b"no agents at 'nowhere/.agentfs'"),
                               (("--threshold", "11"), b"within 1 and 10"), (("--threshold", "0"), b"within 1 and 10"),
                               (("--user", "nobody-of-this-name"), b"--user"), (("../a",), b"not a valid agent id")]:
            done = self.world.run("host", "up", *words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(message, done.stderr)
        self.assertIn(b"PRIVATE KEY", (self.world.dir / "operator.key").read_bytes())

    def test_an_agent_file_that_was_replaced_is_opened_again(self):
        client, other = self.client("a"), self.client("b")
        client.write("/mem/semantic/x", b"old")
        self.assertEqual(other.read("/agent/a/mem/semantic/x"), b"old")
        for path in (self.world.dir / ".agentfs").glob("a.db*"):
            path.unlink()
        for refused in (lambda: client.write("/mem/semantic/x", b"lost"), lambda: other.read("/agent/a/mem/semantic/x")):
            with self.assertRaises(Refused) as caught:
                refused()
            self.assertEqual(caught.exception.code, "not_found")
        self.world.warren("init", "a")
        self.assertFalse(client.exists("/mem/semantic/x"))
        client.write("/mem/semantic/y", b"new")
        self.assertEqual(other.read("/agent/a/mem/semantic/y"), b"new")
        self.assertEqual(self.world.warren("fs", "a", "cat", "/mem/semantic/y"), b"new")
        # Replaced at once, as by a restored copy.
        (self.world.dir / "copy").mkdir()
        self.world.warren("backup", "a", "copy/a.db")
        client.write("/mem/semantic/y", b"newer")
        for path in (self.world.dir / ".agentfs").glob("a.db-*"):
            path.unlink()
        (self.world.dir / "copy/a.db").rename(self.world.dir / ".agentfs/a.db")
        self.assertEqual(client.read("/mem/semantic/y"), b"new")
        client.write("/mem/semantic/z", b"kept")
        self.assertEqual(self.world.end(self.host), 0)
        self.assertEqual(self.world.warren("fs", "a", "cat", "/mem/semantic/z"), b"kept")
        self.world.warren("fsck", "a")

    def test_the_socket_is_where_nobody_else_can_replace_it(self):
        place = self.world.dir / "place"
        place.mkdir()
        place.chmod(0o777)
        done = self.world.run("host", "up", "--socket", place / "s")
        self.assertIn(b"others could replace a socket in", done.stderr)
        self.assertIn(b"others than its owner can write there", done.stderr)
        self.assertEqual(list(place.iterdir()), [])
        if os.geteuid() == 0:
            place.chmod(0o755)
            os.chown(place, 65534, 65534)
            self.assertIn(b"it belongs to another user", self.world.run("host", "up", "--socket", place / "s").stderr)
            os.chown(place, 0, 0)
        place.chmod(0o1777)  # as /tmp
        self.world.warren("host", "up", "--daemon", "--socket", place / "s")
        self.world.warren("host", "down", "--socket", place / "s")
        # A socket that another program uses, until it only left it; a link; a directory.
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(str(place / "taken"))
            taken.listen()
            done = self.world.run("host", "up", "--socket", place / "taken")
            self.assertIn(b"another program uses the socket", done.stderr)
        self.world.warren("host", "up", "--daemon", "--socket", place / "taken")
        self.world.warren("host", "down", "--socket", place / "taken")
        (place / "link").symlink_to(place / "nowhere")
        (place / "dir").mkdir()
        for name in ("link", "dir"):
            done = self.world.run("host", "up", "--socket", place / name)
            self.assertIn(b"exists and is not a socket", done.stderr, name)
        self.assertTrue((place / "link").is_symlink())

    def test_removing_a_tree_that_one_may_only_read_ends(self):
        client, other = self.client("a"), self.client("b")
        client.write("/mem/semantic/dir/x", b"x")
        with self.assertRaises(Refused) as caught:
            other.call("remove", "/agent/a/mem/semantic", recursive=True)
        self.assertEqual(caught.exception.code, "not_found")
        self.assertEqual(client.read("/mem/semantic/dir/x"), b"x")

    def test_announced_bytes_take_no_memory(self):
        def peak_bytes():
            status = pathlib.Path(f"/proc/{self.host.pid}/status").read_text()
            return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) << 10

        self.assert_serves()
        before = peak_bytes()
        head = json.dumps({"op": "write", "path": "/mem/working/y"}).encode()
        client = self.client("a")
        client.socket.sendall(struct.pack(">II", len(head), BODY_MAX) + head + b"some")
        # The second one is refused because of the first one's bytes, so they were admitted.
        with self.client("a") as second:
            second.socket.sendall(struct.pack(">II", len(head), BODY_MAX) + head)
            self.assertTrue(select.select([client.socket, second.socket], [], [], PATIENCE_SECONDS)[0])
        self.assertLess(peak_bytes() - before, 16 << 20)

    def test_in_the_background(self):
        other = self.world.dir / "other"
        self.world.warren("host", "up", "--daemon", "--socket", other)
        try:
            status = json.loads(self.world.warren("host", "status", "--json", "--socket", other))
            self.assertEqual([one["socket"] for one in status], [str(other)])
            self.assertIn(b"hosts are running", self.world.run("host", "down").stderr)
            out = self.world.warren("vfs", "a", "ls", "/mem", "--host", other, "--key", "a.key")
            self.assertEqual(out, b"episodic/\nsemantic/\nworking/\n")
        finally:
            self.world.warren("host", "down", "--socket", other)
        self.assertFalse(other.exists())
        self.assert_serves()

    def test_a_damaged_list_of_trust_lets_nobody_in(self):
        client = self.client("a")
        trust = self.world.dir / "home/.config/warren/trust/trust.json"
        good = trust.read_bytes()
        trust.write_bytes(good[:-20])
        with self.assertRaises(Refused):
            client.read("/mem")
        with self.assertRaises(Refused):
            Client(self.world, "a")
        self.assertIn(b"nobody is served", self.world.warren("host", "status"))
        trust.write_bytes(good)
        self.assert_serves()
        # Nor does one that is elsewhere: others may be able to replace it there.
        elsewhere = self.world.dir / "trust.json"
        trust.rename(elsewhere)
        trust.symlink_to(elsewhere)
        with self.assertRaises(Refused):
            Client(self.world, "a")
        self.assertIn(b"is a symbolic link; it decides who is trusted", self.world.run("trust", "show").stderr)
        elsewhere.rename(trust)
        self.assert_serves()

    def test_a_pipe_in_the_place_of_the_list_of_trust_hangs_nobody(self):
        client = self.client("a")
        trust = self.world.dir / "home/.config/warren/trust/trust.json"
        elsewhere = self.world.dir / "trust.json"
        trust.rename(elsewhere)
        os.mkfifo(trust)
        with self.assertRaises(Refused) as caught:
            client.read("/mem")
        self.assertEqual(caught.exception.code, "unavailable")
        elsewhere.rename(trust)
        self.assert_serves()
        # Nor is a folder that others could write forgotten, or remembered.
        trust.parent.chmod(0o777)
        self.assertRaises(Refused, Client, self.world, "a")
        trust.parent.chmod(0o700)
        self.assert_serves()

    def test_a_proof_is_for_hosts_of_one_user(self):
        """A host of another user could pass it on."""
        for user, refused in ((os.geteuid(), False), (os.geteuid() + 1, True)):
            with Client(self.world) as client:
                client.host_user = lambda: user
                if refused:
                    with self.assertRaises(Refused):
                        client.identify("a", self.world.key_of("a"))
                else:
                    client.identify("a", self.world.key_of("a"))

    def test_other_users_are_refused_unless_they_were_named(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be another user")
        self.world.dir.chmod(0o755)
        self.world.socket.chmod(0o666)

        def greeting():
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(PATIENCE_SECONDS)
            client.connect(str(self.world.socket))
            return client.recv(4096)

        with self.as_nobody(greeting) as (_, pipe):
            self.assertIn(b"does not serve your user", pipe.read())
        self.world.end(self.host)
        self.host = self.world.up("--user", "65534")
        with self.as_nobody(greeting) as (_, pipe):
            self.assertIn(b"challenge", pipe.read())

    def checkpoints(self, agent):
        return [one["name"] for one in json.loads(self.world.warren("checkpoint", agent, "list", "--json"))]

    def test_sigusr1_takes_a_checkpoint_of_each_agent_in_use(self):
        self.world.warren("init", "unused")
        for agent in ("a", "b"):
            self.client(agent).write("/mem/working/plan", agent.encode())
        self.host.send_signal(signal.SIGUSR1)
        for agent in ("a", "b"):
            wait_for(lambda: self.checkpoints(agent) == ["signal"], f"a checkpoint of {agent}")
            shown = json.loads(self.world.warren("checkpoint", agent, "show", "signal", "--json"))
            self.assertIn("/mem/working", shown["mounts"])
        self.assertEqual(self.checkpoints("unused"), [])
        self.assert_serves()
        self.host.send_signal(signal.SIGUSR1)
        wait_for(lambda: len(self.checkpoints("b")) == 2, "a second checkpoint")
        self.assertEqual(self.world.end(self.host), 0)
        self.assertEqual(self.host.stderr.read(), b"")

    def test_an_agent_without_a_checkpoint_is_named_and_the_others_have_theirs(self):
        self.client("a").write("/mem/working/plan", b"a")
        self.client("b").write("/mem/working/plan", b"b")
        os.replace(self.world.dir / ".agentfs/a.db", self.world.dir / "kept.db")
        (self.world.dir / ".agentfs/a.db").write_text("not a database")
        self.host.send_signal(signal.SIGUSR1)
        wait_for(lambda: self.checkpoints("b") == ["signal"], "a checkpoint of b")
        self.assertEqual(self.world.end(self.host), 0)
        self.assertRegex(self.host.stderr.read().decode(), "^warren: agent 'a': no checkpoint was taken: ")

    def test_a_missing_path_is_on_the_record_whatever_the_door(self):
        client = self.client("a")
        for op in ("read", "list", "remove"):
            with self.assertRaises(Refused) as refused:
                client.call(op, "/none")
            self.assertEqual(refused.exception.code, "not_found")
        with self.assertRaises(Refused):
            client.call("read", "/none", offset=1)
        self.assertFalse(client.exists("/none"))
        for words in (("read", "/none"), ("ls", "/none"), ("rm", "/none"), ("exists", "/none"), ("stat", "/none")):
            self.assertEqual(self.world.run("vfs", "a", *words).returncode, 1)
        lines = self.world.warren("audit", "a", "show", "--all", "--outcome", "failed", "--json").splitlines()
        events = [(one["door"], one["op"], one["path"], one["err"]) for one in map(json.loads, lines)]
        self.assertEqual(events, [(door, op, "/none", "not_found")
                                  for door, ops in (("host", ("read", "list", "delete", "read")),
                                                    ("vfs", ("read", "list", "delete"))) for op in ops])

    def test_a_client_does_not_trust_a_host_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be another user")
        place = self.world.dir / "place"
        place.mkdir()
        os.chown(place, 65534, 65534)
        self.world.dir.chmod(0o755)

        def serve():
            server = socket.socket(socket.AF_UNIX)
            server.bind(str(place / "s"))
            server.listen()
            (place / "ready").touch()
            return str(len(server.accept()[0].recv(10))).encode()

        with self.as_nobody(serve) as (pid, pipe):
            wait_for((place / "ready").exists, "the other user's server")
            done = self.world.run("vfs", "a", "read", "/x", "--host", place / "s", "--key", "a.key")
            self.assertIn(b"is run by user 65534, who is not trusted", done.stderr)
            self.assertEqual(pipe.read(), b"0")  # nothing was sent to it

    @contextlib.contextmanager
    def as_nobody(self, function):
        """A child of the user nobody: its pid, and a pipe with what the function returns."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                os.write(writer, function())
            finally:
                os._exit(0)
        os.close(writer)
        try:
            with open(reader, "rb") as pipe:
                yield pid, pipe
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    unittest.main()
