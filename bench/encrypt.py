#!/usr/bin/env python3
"""What encrypting a whole agent costs: the same work on a plain and on an encrypted agent, in turns.

    WARREN=build/release/src/warren bench/encrypt.py [DIR]

Prints the median seconds of each and their ratio. Each call is a process of its own, so the cost of opening is in it.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

WARREN = os.path.abspath(os.environ["WARREN"])
ROUNDS = 7
BIG_BYTES = 128 << 20
SMALL_FILES = 2000
KINDS = {"plain": [], "encrypted": ["--encrypt"]}


def prepare(work):
    (work / "big").write_bytes(os.urandom(BIG_BYTES))
    (work / "tree").mkdir()
    for number in range(SMALL_FILES):
        (work / "tree" / f"f{number}").write_bytes(os.urandom(3000))


def measure(work, environment, kind):
    """operation → seconds"""
    def run(*words):
        began = time.monotonic()
        subprocess.run([WARREN, *words], cwd=work, env=environment, stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - began

    run("init", kind, "--force", *KINDS[kind])
    subprocess.run(["rm", "-rf", work / "out"], check=True)
    return {"open": run("fs", kind, "ls", "/"),
            "put 128 MiB": run("fs", kind, "put", "big", "/big"),
            "cat 128 MiB": run("fs", kind, "cat", "/big"),
            "put 2,000 files": run("fs", kind, "put", "tree", "/tree"),
            "get 2,000 files": run("fs", kind, "get", "/tree", "out"),
            "backup": run("backup", kind, f"{kind}-{time.monotonic_ns()}.copy")}


def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        work = pathlib.Path(folder)
        environment = os.environ | {"HOME": folder, "XDG_CONFIG_HOME": f"{folder}/config"}
        prepare(work)
        times = {}
        for _ in range(ROUNDS):
            for kind in KINDS:
                for operation, seconds in measure(work, environment, kind).items():
                    times.setdefault(operation, {}).setdefault(kind, []).append(seconds)
            for copy in work.glob("*.copy"):
                copy.unlink()
        print(f"{'':<18}{'plain':>10}{'encrypted':>12}{'ratio':>8}")
        for operation, found in times.items():
            plain, encrypted = (statistics.median(found[kind]) for kind in ("plain", "encrypted"))
            print(f"{operation:<18}{plain:>9.3f}s{encrypted:>11.3f}s{encrypted / plain:>8.2f}")


if __name__ == "__main__":
    main()
