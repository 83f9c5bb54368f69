#!/usr/bin/env python3
"""The published conformance suite of the Model Context Protocol against `warren serve mcp --conformance`.

    WARREN=path/to/warren conformance.py FOLDER    the folder that tools/setup has installed the suite in
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SUITE = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
CHECKS = 39  # of the pinned version; fewer would mean that some were not made
PATIENCE_SECONDS = 300


def serve(warren, folder):
    """The server and its address."""
    server = subprocess.Popen([warren, "serve", "mcp", "a", "--conformance", "--http", "127.0.0.1:0"], cwd=folder,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        found = re.search(r"http://\S+/mcp", line)
        if found:
            return server, found.group(0)
    sys.exit(f"the server has ended: status {server.wait()}")


def main():
    warren = os.path.abspath(os.environ.get("WARREN") or sys.exit("set WARREN to the warren program to test"))
    suite = pathlib.Path(sys.argv[1]).resolve() / SUITE
    if not suite.exists():
        sys.exit(f"there is no {suite}; tools/setup installs it")
    with tempfile.TemporaryDirectory(prefix="warren-conformance-") as folder:
        subprocess.run([warren, "init", "a"], cwd=folder, check=True, capture_output=True)
        server, address = serve(warren, folder)
        try:
            done = subprocess.run(["node", str(suite), "server", "--url", address], cwd=folder, text=True,
                                  capture_output=True, timeout=PATIENCE_SECONDS, check=False)
        finally:
            server.terminate()
            server.wait(PATIENCE_SECONDS)
            server.stderr.close()
    total = re.search(r"^Total: (\d+) passed, (\d+) failed", done.stdout, re.MULTILINE)
    if done.returncode == 0 and total and total.groups() == (str(CHECKS), "0"):
        print(total.group(0))
        return 0
    print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    print(f"wanted: {CHECKS} passed, 0 failed; status {done.returncode}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
