#!/usr/bin/env python3
"""What encryption costs: the same work on a plain agent, on one that is encrypted as a whole, and on one whose files are
encrypted by a pattern, in turns. In mounts, also by gocryptfs, if it is installed.

    WARREN=build/release/src/warren bench/encrypt.py [DIR]

Prints the median seconds of each, and their ratio to plain. Each call is a process of its own, so the cost of opening
is in it. A mount is made anew before each reading, so that the kernel has no content of it.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

WARREN = os.path.abspath(os.environ["WARREN"])
ROUNDS = int(os.environ.get("ROUNDS", "7"))
BIG_BYTES = 128 << 20
SMALL_FILES = 2000
KINDS = ("plain", "whole", "pattern")
GOCRYPTFS = shutil.which("gocryptfs") if os.path.exists("/dev/fuse") else None


def prepare(work):
    (work / "big").write_bytes(os.urandom(BIG_BYTES))
    (work / "tree").mkdir()
    for number in range(SMALL_FILES):
        (work / "tree" / f"f{number}").write_bytes(os.urandom(3000))
    (work / "point").mkdir()


class Bench:
    def __init__(self, work):
        self.work = work
        self.environment = os.environ | {"HOME": str(work), "XDG_CONFIG_HOME": f"{work}/config"}

    def run(self, *words):
        began = time.monotonic()
        subprocess.run(words, cwd=self.work, env=self.environment, stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - began

    def make(self, kind):
        self.run(WARREN, "init", kind, "--force", *(["--encrypt"] if kind == "whole" else []))
        if kind == "pattern":
            self.run(WARREN, "encrypt", kind, "/big", "/tree")

    def by_command(self, kind):
        """operation → seconds"""
        self.make(kind)
        shutil.rmtree(self.work / "out", ignore_errors=True)
        return {"open": self.run(WARREN, "fs", kind, "ls", "/"),
                "put 128 MiB": self.run(WARREN, "fs", kind, "put", "big", "/big"),
                "cat 128 MiB": self.run(WARREN, "fs", kind, "cat", "/big"),
                "put 2,000 files": self.run(WARREN, "fs", kind, "put", "tree", "/tree"),
                "get 2,000 files": self.run(WARREN, "fs", kind, "get", "/tree", "out"),
                "backup": self.run(WARREN, "backup", kind, f"{kind}-{time.monotonic_ns()}.copy")}

    def by_mount(self, kind):
        point = str(self.work / "point")
        if kind == "gocryptfs":
            shutil.rmtree(self.work / "cipher", ignore_errors=True)
            (self.work / "cipher").mkdir()
            self.run(GOCRYPTFS, "-q", "-init", "-extpass", "echo password", "cipher")

            def mount():
                self.run(GOCRYPTFS, "-q", "-extpass", "echo password", "cipher", point)

            def umount():
                self.run("fusermount3", "-u", point)
        else:
            self.make(kind)

            def mount():
                self.run(WARREN, "mount", kind, point)

            def umount():
                self.run(WARREN, "umount", point)
        times = {}
        for operation, script in (("mount: write 128 MiB", "cp big point/big && sync point/big"),
                                  ("mount: read 128 MiB", "cat point/big > /dev/null"),
                                  ("mount: write 2,000 files", "cp -r tree point/tree && sync point/tree/f0"),
                                  ("mount: read 2,000 files", "cat point/tree/* > /dev/null")):
            mount()
            try:
                times[operation] = self.run("sh", "-c", script)
            finally:
                umount()
        return times


def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        bench = Bench(pathlib.Path(folder))
        prepare(bench.work)
        rivals = ("gocryptfs",) if GOCRYPTFS else ()
        times = {}
        for _ in range(ROUNDS):
            for kind in KINDS + rivals:
                found = {} if kind in rivals else bench.by_command(kind)
                if os.path.exists("/dev/fuse"):
                    found |= bench.by_mount(kind)
                for operation, seconds in found.items():
                    times.setdefault(operation, {}).setdefault(kind, []).append(seconds)
            for copy in bench.work.glob("*.copy"):
                copy.unlink()
        print(f"{'':<26}" + "".join(f"{kind:>18}" for kind in KINDS + rivals))
        for operation, found in times.items():
            plain = statistics.median(found["plain"])
            row = ""
            for kind in KINDS + rivals:
                middle = statistics.median(found[kind]) if kind in found else None
                row += f"{middle:>9.3f}s ({middle / plain:>4.2f}) " if middle is not None else f"{'-':>18}"
            print(f"{operation:<26}{row}")


if __name__ == "__main__":
    main()
