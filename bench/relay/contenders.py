"""The relay and its rivals, each started in a fresh directory on a free port, and loaded by relay_load."""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from mount_util import ROOT, output_of, warren_program  # noqa: E402

START_SECONDS = 60
TICKS = os.sysconf("SC_CLK_TCK")


def load_program():
    bin_dir = os.environ.get("WARREN_BENCH_BIN") or ROOT / "build/release/bench"
    return pathlib.Path(bin_dir).resolve() / "relay_load"


def load(*arguments):
    """What relay_load prints, which ends the benchmark when it fails."""
    out = output_of(load_program(), *arguments)
    return json.loads(out) if out else {}


def wait_until(is_true, what):
    deadline = time.monotonic() + START_SECONDS
    while not is_true():
        if time.monotonic() > deadline:
            sys.exit(f"bench: {what} did not start in {START_SECONDS} s")
        time.sleep(0.01)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def server(command, port):
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or answers(port), command[0])
        if process.poll() is not None:
            sys.exit(f"bench: {command[0]} ended at once with {process.returncode}")
        yield port
    finally:
        process.kill()
        process.wait()


def redis(where, fsync):
    port = free_port()
    return server(["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", where, "--save", "", "--appendonly",
                   "yes", "--appendfsync", fsync], port)


def beanstalkd(where):
    port = free_port()
    return server(["beanstalkd", "-l", "127.0.0.1", "-p", port, "-b", where, "-f0"], port)


def missing_rivals():
    return [name for name in ("redis-server", "beanstalkd") if not shutil.which(name)]


class Relay:
    """`warren relay up` in the foreground, so that its process is ours to look at."""

    def __init__(self, root):
        self.root = root
        self.begin_ns = time.monotonic_ns()
        self.process = subprocess.Popen([warren_program(), "relay", "up", "--root", root])
        try:
            wait_until(self.is_up, "the relay")
        except SystemExit:
            self.stop()
            raise
        self.up_ns = time.monotonic_ns()

    def is_up(self):
        if self.process.poll() is not None:
            sys.exit(f"bench: the relay ended with {self.process.returncode}")
        # Its log says so once it has recovered and watches everything; `status` opens the ledger, which takes longer.
        with contextlib.suppress(OSError):
            log = (self.root / "relay.log").read_text()
            return '"event":"started"' in log and f'"pid":{self.process.pid}' in log
        return False

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def status(self):
        return json.loads(output_of(warren_program(), "relay", "status", "--json", "--root", self.root))

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def relay(root, agents):
    load("agents", root, agents)
    running = Relay(root)
    try:
        yield running
    finally:
        running.stop()
