"""A relay in a directory of its own, and agents that use nothing but the file protocol."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

WARREN = os.environ.get("WARREN_REACHABLE") or os.environ["WARREN"]  # see run_tests in ./check
FULL = os.environ.get("WARREN_CHECK_FULL") == "yes"


def die_with_parent():
    """For a child process: a test that is itself killed leaves nothing running."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def write_message(root, agent, text, name=None):
    """The write protocol, step by step; returns the id once it is over."""
    outbox = pathlib.Path(root) / "agents" / agent / "outbox"
    name = name or f"{time.time_ns()}-{secrets.token_hex(8)}.msg"
    draft = outbox / ".pending" / name
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, text if isinstance(text, bytes) else text.encode())
    os.fsync(fd)
    os.close(fd)
    os.rename(draft, outbox / name)
    parent = os.open(outbox, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)
    return f"{agent}/{name[:-4]}"


def parse(text):
    head, _, body = text.partition(b"\n\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\n") if ": " in line)
    return headers, body


def query(root, sql, *values):
    """Rows of a relay's ledger; none before there is one."""
    if not (root / "ledger.db").exists():
        return []
    with contextlib.closing(sqlite3.connect(f"file:{root}/ledger.db?mode=ro", uri=True, timeout=30)) as db:
        return db.execute(sql, values).fetchall()


def mount_disk(case, place, mebibytes, inodes):
    """An ext4 filesystem in one file. Where deleting a file is slow, a hundred thousand are gone with it at once."""
    image = case.dir / f"{place.name}.image"
    with open(image, "wb") as out:
        out.truncate(mebibytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-N", str(inodes), image], check=True)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    case.addCleanup(lambda: subprocess.run(["umount", "-q", "-l", place], capture_output=True))


def open_files(pid):
    """What the process has open now; descriptors come and go meanwhile."""
    links = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(fd))
    return links


def configure(root, config):
    """What a relay is told. How full this machine's disk is does not matter, unless the test is about that."""
    (root / "config.json").write_text(json.dumps({"disk_alert_percent": 100, **config}))


class Serving:
    """Whoever has a relay of its own as self.process."""

    def kill(self, how=signal.SIGKILL):
        if self.process is None:
            return None
        self.process.send_signal(how)
        self.process.wait()
        self.process.stderr.close()
        code, self.process = self.process.returncode, None
        return code


class RelayCase(Serving, unittest.TestCase):
    config = {}  # None: the relay makes everything itself, the root as well
    ledger = None  # the address of a PostgreSQL database, for cases that are run on one as well

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="warren-relay-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.root = self.dir / "root"
        self.process = None
        self.addCleanup(self.kill)
        if self.config is not None:
            self.root.mkdir(mode=0o700)
            configure(self.root, self.config)

    def up(self, **options):
        started = self.log_events("started")
        self.process = self.serve(self.root, **options)
        self.wait(lambda: len(self.log_events("started")) > len(started) and self.command("status", "--json", code=None).returncode == 0
                  and json.loads(self.command("status", "--json").stdout)["up"])
        return started

    def serve(self, root, **options):
        words = ["--ledger", self.ledger] if self.ledger else []
        return subprocess.Popen([WARREN, "relay", "up", "--root", root, *words], stderr=subprocess.PIPE, **options)

    def command(self, *words, code=0, stdin=""):
        done = subprocess.run([WARREN, "relay", *words, "--root", self.root], input=stdin, capture_output=True, text=True,
                              timeout=60)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stderr)
        return done

    def agent(self, *names):
        for name in names:
            (self.root / "agents" / name / "outbox" / ".pending").mkdir(parents=True, exist_ok=True)
        self.wait(lambda: all(self.statuses().get(name) == "active" for name in names))

    def statuses(self):
        return {one["name"]: one["status"] for one in json.loads(self.command("agents", "--all", "--json").stdout)}

    def send(self, agent, text, name=None):
        return write_message(self.root, agent, text, name)

    def inbox(self, agent):
        """(headers, body) of what is in an inbox, in order."""
        folder = self.root / "agents" / agent / "inbox"
        return [parse(file.read_bytes()) for file in sorted(folder.glob("*.msg"))]

    def state(self, message):
        done = self.command("status", message, "--json", code=None)
        if done.returncode != 0:
            return None
        return {one["recipient"]: one["state"] for one in json.loads(done.stdout)["deliveries"]}

    def wait(self, condition, seconds=20):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if condition():
                return
            if self.process is not None and self.process.poll() is not None:
                self.fail(f"the relay ended: {self.process.stderr.read()}")
            time.sleep(0.01)
        self.fail("waited in vain")

    def log_events(self, event, file="relay.log"):
        path = self.root / file
        text = path.read_text() if path.exists() else ""
        lines = text[:text.rfind("\n") + 1].splitlines()  # the last one may be half-written
        return [one for one in map(json.loads, lines) if one["event"] == event]

    def metrics_address(self):
        """Of a relay that serves them, for when its disk is full and it cannot log any more."""
        self.wait(lambda: self.log_events("metrics"))
        return self.log_events("metrics")[-1]["address"]

    @staticmethod
    def failed_rounds(address):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
            found = re.search(r"^warren_relay_rounds_failed_total (\d+)$", answer.read().decode(), re.M)
        return int(found.group(1))

    def fsck(self):
        done = self.command("fsck", code=None)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def main():
    unittest.main(verbosity=1, argv=[sys.argv[0], *sys.argv[1:]])
