#!/usr/bin/env python3
"""Runs the suite of vector indexes against one of them, with a server of its own.

    run.py memory|pinecone|chroma|weaviate|weaviate_stand_in SUITE DEPS
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "backends"))
import go_program  # noqa: E402

WEAVIATE = "v1.35.2"
CHROMA = "chromadb==1.5.9"  # in .deps, where the test installs it


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def free_pair():
    """The first of two ports in a row: a Weaviate looks for itself at the next one."""
    while True:
        first = free_port()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", first + 1))
                return first
            except (OSError, OverflowError):
                pass


def wait_for(url, server):
    for _ in range(1200):
        if server.poll() is not None:
            sys.exit(f"run.py: the server ended with status {server.returncode}")
        try:
            urllib.request.urlopen(url, timeout=5).read()
            return
        except urllib.error.HTTPError as error:
            if error.code != 503:
                return
            time.sleep(0.1)
        except OSError:
            time.sleep(0.1)
    sys.exit("run.py: the server did not start")


def chroma_command(deps, scratch):
    """Chroma's server, from its Python package alone: what that depends on is for clients."""
    folder = deps / CHROMA.replace("==", "-")
    if not folder.exists():
        python = next((one for one in (sys.executable, shutil.which("python3")) if has_venv(one)), None)
        if not python:
            sys.exit("run.py: Python has no venv to install Chroma with; install the package python3-venv")
        shutil.rmtree(f"{folder}.new", ignore_errors=True)  # of a test that was interrupted
        subprocess.run([python, "-m", "venv", f"{scratch}/venv"], check=True)
        subprocess.run([f"{scratch}/venv/bin/pip", "install", "-q", "--no-deps", "--no-compile", "--disable-pip-version-check",
                        "--target", f"{folder}.new", CHROMA], check=True)
        os.rename(f"{folder}.new", folder)
    code = "import sys; sys.path.append(sys.argv.pop(1)); import chromadb_rust_bindings as c; c.cli(['chroma', *sys.argv[1:]])"
    return [sys.executable, "-c", code, folder]


def has_venv(python):
    return python and subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True).returncode == 0


def start_weaviate(scratch, port):
    program = go_program.find_or_build("WARREN_WEAVIATE", "github.com/weaviate/weaviate/cmd/weaviate-server", WEAVIATE,
                                       (1, 25), scratch)
    settings = {"PERSISTENCE_DATA_PATH": f"{scratch}/data", "DISABLE_TELEMETRY": "true", "GO_PROFILING_DISABLE": "true",
                "CLUSTER_HOSTNAME": "node1", "CLUSTER_IN_LOCALHOST": "true", "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
                "RAFT_BOOTSTRAP_EXPECT": "1", "DISK_USE_READONLY_PERCENTAGE": "100", "LOG_LEVEL": "error",
                "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false", "AUTHENTICATION_APIKEY_ENABLED": "true",
                "AUTHENTICATION_APIKEY_ALLOWED_KEYS": "s3cret", "AUTHENTICATION_APIKEY_USERS": "tester",
                "AUTHORIZATION_ADMINLIST_ENABLED": "true", "AUTHORIZATION_ADMINLIST_USERS": "tester"}
    gossip, raft = free_pair(), free_pair()
    settings |= {"CLUSTER_GOSSIP_BIND_PORT": str(gossip), "CLUSTER_DATA_BIND_PORT": str(gossip + 1), "RAFT_PORT": str(raft),
                 "RAFT_INTERNAL_RPC_PORT": str(raft + 1), "GRPC_PORT": str(free_port())}
    with open(f"{scratch}/log", "w") as log:
        return subprocess.Popen([program, "--scheme", "http", "--host", "127.0.0.1", "--port", str(port)], cwd=scratch,
                                env=os.environ | settings, stdout=log, stderr=log)


def main():
    kind, suite, deps = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    variables = dict(os.environ)
    server = None
    with tempfile.TemporaryDirectory() as scratch, socket.create_server(("127.0.0.1", 0)) as hangs:
        port, dead, hang = free_port(), free_port(), hangs.getsockname()[1]
        if kind == "chroma":
            command = chroma_command(deps, scratch)
            server = subprocess.Popen([*command, "run", "--path", f"{scratch}/data", "--host", "127.0.0.1", "--port", str(port)],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=scratch)
            wait_for(f"http://127.0.0.1:{port}/api/v2/heartbeat", server)
            form = "chroma://:s3cret@127.0.0.1:{}/{}"
            variables |= {"VECTOR_INDEX": form.format(port, "suite-{}"), "SECRET": "s3cret",
                          "PROXIED": form.format("{port}", "suite-{}"), "SERVER_PORT": str(port),
                          "DEAD": form.format(dead, "abc"), "HANGS": form.format(hang, "abc")}
        elif kind in ("weaviate", "weaviate_stand_in"):
            if kind == "weaviate":
                server = start_weaviate(scratch, port)
            else:
                server = subprocess.Popen([sys.executable, HERE / "weaviate.py", str(port), "s3cret"])
            wait_for(f"http://127.0.0.1:{port}/v1/.well-known/ready", server)
            form = "weaviate://:{}@127.0.0.1:{}/{}"
            variables |= {"VECTOR_INDEX": form.format("s3cret", port, "Suite_{}"), "SECRET": "s3cret",
                          "PROXIED": form.format("s3cret", "{port}", "Suite_{}"), "SERVER_PORT": str(port),
                          "DEAD": form.format("s3cret", dead, "X"), "HANGS": form.format("s3cret", hang, "X"),
                          "WRONG": form.format("wrong", port, "X")}
        elif kind == "pinecone":
            server = subprocess.Popen([sys.executable, HERE / "pinecone.py", str(port), "s3cret"])
            wait_for(f"http://127.0.0.1:{port}/", server)
            form = "pinecone://:{}@127.0.0.1:{}/{}?tls=no"
            variables |= {"VECTOR_INDEX": form.format("s3cret", port, "suite-{}"), "SECRET": "s3cret",
                          "PROXIED": form.format("s3cret", "{port}", "suite-{}"), "SERVER_PORT": str(port),
                          "DEAD": form.format("s3cret", dead, "x"), "HANGS": form.format("s3cret", hang, "x"),
                          "WRONG": form.format("wrong", port, "x")}
        try:
            sys.exit(subprocess.run([suite], env=variables).returncode)
        finally:
            if server:
                server.kill()
                server.wait()


if __name__ == "__main__":
    main()
