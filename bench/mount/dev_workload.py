#!/usr/bin/env python3
"""A developer's everyday work on 2,000 generated files of about 8 KiB in 100 directories.

    dev_workload.py DIR          prints seconds per step and in total; --json for programs

DIR is filled but not cleaned: use a new directory. Every run does the same; creating the files is not timed.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import time

DIRS, FILES_PER_DIR, MEAN_BYTES = 100, 20, 8192
GIT = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0",
       "-c", "init.defaultBranch=main", "-C", "tree"]

# grep: no line matched. tar: a file changed while it was read, which tar reports wrongly on fuse-overlayfs.
ALLOWED = {"grep": 1, "tar": 1}
ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def generate(root, dirs=DIRS):
    rng = random.Random(42)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 10))) for _ in range(5000)]
    for d in range(dirs):
        folder = root / f"module{d // 10}" / f"part{d % 10}"
        folder.mkdir(parents=True)
        for f in range(FILES_PER_DIR):
            size, lines = rng.randint(MEAN_BYTES // 2, MEAN_BYTES * 3 // 2), []
            while size > 0:
                lines.append(" ".join(rng.choices(words, k=10)) + "\n")
                size -= len(lines[-1])
            (folder / f"file{f}.txt").write_text("".join(lines))


def steps():
    """(name, commands): each command runs in DIR."""
    yield "git add+commit", [[*GIT, "init", "-q"], [*GIT, "add", "."], [*GIT, "commit", "-q", "-m", "first"]]
    yield "git status", [[*GIT, "status", "--short"]]
    yield "grep -r", [["grep", "-rc", "--exclude-dir=.git", "nothing like this", "tree"]]
    yield "tar c", [["tar", "cf", "tree.tar", "tree"]]
    yield "tar x", [["mkdir", "unpacked"], ["tar", "xf", "tree.tar", "-C", "unpacked"]]
    yield "cp -r", [["cp", "-r", "tree", "copy"]]
    yield "rm -r", [["rm", "-r", "copy", "unpacked", "tree", "tree.tar"]]


def run_steps(root):
    took = {}
    for name, commands in steps():
        begin = time.monotonic()
        for command in commands:
            done = subprocess.run(command, cwd=root, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
            if done.returncode > ALLOWED.get(command[0], 0):
                sys.exit(f"dev_workload: {' '.join(command)} failed with {done.returncode}")
        took[name] = time.monotonic() - begin
    took["total"] = sum(took.values())
    return took


def main():
    arguments = [a for a in sys.argv[1:] if a != "--json"]
    if len(arguments) != 1:
        sys.exit("usage: dev_workload.py [--json] DIR")
    root = pathlib.Path(arguments[0])
    generate(root / "tree")
    os.sync()
    took = run_steps(root)
    if "--json" in sys.argv:
        print(json.dumps(took))
    else:
        for name, seconds in took.items():
            print(f"{name:<16}{seconds:8.3f} s")


if __name__ == "__main__":
    main()
