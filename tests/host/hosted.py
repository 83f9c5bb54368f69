"""A temporary directory with agents, an operator's configuration and a host, and a client that speaks its protocol
without any of Warren's code.

The program is the one the environment variable WARREN names. Leaving the `World` ends its hosts.
"""
import base64
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mount"))
from mounted import PATIENCE_SECONDS, program, wait_for  # noqa: E402, F401


# Ed25519 by RFC 8032, section 5.1, for signing only.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def add(a, b):
    s, t = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    u, v = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = t - s, v - u, v + u, t + s
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(number, point):
    result = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = add(result, point)
        point = add(point, point)
        number >>= 1
    return result


BASE_Y = 4 * pow(5, P - 2, P) % P
X2 = (BASE_Y * BASE_Y - 1) * pow(D * BASE_Y * BASE_Y + 1, P - 2, P) % P
BASE_X = pow(X2, (P + 3) // 8, P)
if (BASE_X * BASE_X - X2) % P:
    BASE_X = BASE_X * pow(2, (P - 1) // 4, P) % P
BASE_X = BASE_X if BASE_X % 2 == 0 else P - BASE_X
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def packed(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def number(data):
    return int.from_bytes(hashlib.sha512(data).digest(), "little")


def sign(seed, data):
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | (1 << 254)
    public = packed(times(scalar, BASE))
    nonce = number(digest[32:] + data) % ORDER
    first = packed(times(nonce, BASE))
    second = (nonce + number(first + public + data) % ORDER * scalar) % ORDER
    return first + second.to_bytes(32, "little")


def seed_of(key_file):
    lines = pathlib.Path(key_file).read_text().splitlines()
    return base64.b64decode("".join(lines[1:-1]))[-32:]


class Refused(Exception):
    """An answer that is an error: its code and its message."""

    def __init__(self, answer):
        self.code, self.message = answer["error"]["code"], answer["error"]["message"]
        super().__init__(f"{self.code}: {self.message}")


class Closed(Exception):
    pass


class Client:
    def __init__(self, world, agent=None, key=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect(str(world.socket))
        self.hello, _ = self.receive()
        if agent is None:
            return
        try:
            self.identify(agent, key or world.key_of(agent))
        except Refused:
            self.close()
            raise

    def host_user(self):
        return struct.unpack("3i", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]

    def identify(self, agent, key_file):
        text = f"warren host 1\n{self.hello['challenge']}\n{agent}\n{self.host_user()}".encode()
        signature = base64.b64encode(sign(seed_of(key_file), text)).decode()
        self.send({"op": "identify", "agent": agent, "signature": signature})
        answer, _ = self.receive()
        if not answer["ok"]:
            raise Refused(answer)

    def send(self, head, body=b""):
        text = json.dumps(head).encode()
        self.socket.sendall(struct.pack(">II", len(text), len(body)) + text + body)

    def exactly(self, count):
        data = bytearray()
        while len(data) < count:
            try:
                part = self.socket.recv(min(count - len(data), 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise Closed()
            data += part
        return bytes(data)

    def receive(self):
        head, body = struct.unpack(">II", self.exactly(8))
        return json.loads(self.exactly(head)), self.exactly(body)

    def call(self, op, path, body=b"", **more):
        self.send({"op": op, "path": path, **more}, body)
        answer, content = self.receive()
        if not answer["ok"]:
            raise Refused(answer)
        return answer, content

    def read(self, path):
        return self.call("read", path)[1]

    def write(self, path, data, **more):
        self.call("write", path, data, **more)

    def list(self, path):
        return [entry["name"] for entry in json.loads(self.call("list", path)[1])]

    def exists(self, path):
        return self.call("exists", path)[0]["exists"]

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class World:
    def __enter__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="warren-host-"))
        self.socket = self.dir / "s"
        self.hosts = []
        home = self.dir / "home"
        (self.dir / "run").mkdir(mode=0o700)
        home.mkdir()
        self.env = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(self.dir / "run")}
        self.env.pop("XDG_CONFIG_HOME", None)
        self.warren("trust", "keygen", "operator.key")
        self.warren("trust", "add", "operator.key.pub")
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            if host.poll() is None:
                host.kill()
            host.wait()
            host.stderr.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, *args, **options):
        return subprocess.run([program(), *map(str, args)], cwd=self.dir, env=self.env, capture_output=True,
                              timeout=PATIENCE_SECONDS * 2, **options)

    def warren(self, *args, **options):
        done = self.run(*args, **options)
        if done.returncode != 0:
            raise AssertionError(f"warren {' '.join(map(str, args))}: {done.stderr.decode()}")
        return done.stdout

    def key_of(self, agent):
        return self.dir / f"{agent}.key"

    def agent(self, name, level="trusted", scopes=(), serial=1, **options):
        """An agent with a key and an accepted manifest."""
        if not (self.dir / f".agentfs/{name}.db").exists():
            self.warren("init", name)
        if not self.key_of(name).exists():
            self.warren("trust", "keygen", f"{name}.key")
        self.trust(name, level, scopes, serial, **options)

    def trust(self, name, level="trusted", scopes=(), serial=1, expires="1d"):
        words = [word for scope in scopes for word in ("--scope", scope)]
        manifest = self.warren("trust", "sign", name, "--key", "operator.key", "--agent-key", f"{name}.key.pub",
                               "--level", level, "--serial", serial, "--expires-in", expires, *words)
        self.warren("trust", "add", "-", input=manifest)

    def up(self, *args):
        host = subprocess.Popen([program(), "host", "up", "--socket", str(self.socket), *map(str, args)], cwd=self.dir,
                                env=self.env, stderr=subprocess.PIPE)
        self.hosts.append(host)
        line = host.stderr.readline()
        if b"serving agents" not in line:
            raise AssertionError((line + host.stderr.read()).decode())
        return host

    def end(self, host):
        host.send_signal(signal.SIGTERM)
        return host.wait(PATIENCE_SECONDS)

    def policy(self, agent, *rules):
        text = json.dumps({"version": 1, "rules": list(rules)})
        self.warren("policy", agent, "set", "-", input=text.encode())
