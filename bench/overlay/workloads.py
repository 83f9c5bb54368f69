"""The workloads of the overlay benchmark.

A workload is a list of steps on one new project. A step gets a Place, prepares what it needs, and returns its
measurements: {row of the table: number}. Seconds, unless the row's name says bytes.
"""
import dataclasses
import os
import pathlib
import statistics
import subprocess
import sys
import time

import project

TOUCHED, APPENDED = 50, 1000
DIFF_CHANGED, DIFF_NEW = 4_800, 5_200
STARTS = 20
WARM_READS = 9  # the first ones vary by half
READ_BYTES = 1 << 20
ENVIRONMENT = project.dev_workload.ENVIRONMENT


@dataclasses.dataclass
class Place:
    where: pathlib.Path   # the project, as the contender shows it
    own: list             # files and directories where the contender stores changes
    warren: list          # how to call warren for this agent's directory; empty for the others
    npm_cache: pathlib.Path


def drop_caches():
    """Also waits for background work of earlier steps: writing back, forgetting nodes."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3\n")
    time.sleep(0.3)


def seconds(command, where, allowed=0, environment=ENVIRONMENT):
    begin = time.monotonic()
    done = subprocess.run([str(part) for part in command], cwd=where, env=environment, stdout=subprocess.DEVNULL)
    took = time.monotonic() - begin
    if done.returncode > allowed:
        sys.exit(f"bench: {' '.join(str(part) for part in command)} failed with {done.returncode} in {where}")
    return took


def sources(place, dirs=("src",)):
    """The text files of these directories, in a fixed order."""
    return sorted(path for name in dirs for path in (place.where / name).rglob("*.txt"))


def used_bytes(paths):
    """Size on disk, as du counts it."""
    found = [path for path in paths if path.exists()]
    if not found:
        return 0
    output = subprocess.run(["du", "-sck", *found], stdout=subprocess.PIPE, text=True, check=True).stdout
    return int(output.splitlines()[-1].split()[0]) * 1024


def git_status(place):
    return seconds([*project.GIT, "status", "--short"], place.where)


def status_cold(place):
    drop_caches()
    return {"git status, cold": git_status(place)}


def status_warm(place):
    git_status(place)
    return {"git status, warm": git_status(place)}


def status_touched(place):
    files = sources(place)
    for path in files[::len(files) // TOUCHED][:TOUCHED]:
        os.utime(path)
    return {f"git status, {TOUCHED} touched": git_status(place)}


def grep(place):
    command = ["grep", "-rc", "--exclude-dir=.git", "nothing like this", "."]
    return seconds(command, place.where, allowed=project.dev_workload.ALLOWED["grep"])


def grep_cold(place):
    drop_caches()
    return {"grep -r, cold": grep(place)}


def grep_warm(place):
    grep(place)
    return {"grep -r, warm": grep(place)}


def build(place):
    return {"make, 100 files": seconds(["make", "-s", "-j2"], place.where / "native")}


def npm_install(place):
    command = ["npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", "--cache", place.npm_cache]
    return {"npm install": seconds(command, place.where / "web")}


def copy_tree(place):
    return {"cp -r src": seconds(["cp", "-r", "src", "copy"], place.where)}


def remove_dir(place):
    return {"rm -rf vendor": seconds(["rm", "-rf", "vendor"], place.where)}


def move_dir(place):
    return {"mv vendor": seconds(["mv", "vendor", "moved"], place.where)}


def append(place):
    files = sources(place)[:APPENDED]
    begin = time.monotonic()
    for path in files:
        with open(path, "ab") as file:
            file.write(b"one more line\n")
    return {"append to 1,000": time.monotonic() - begin}


def read_whole(path):
    begin = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        while file.read(READ_BYTES):
            pass
    return time.monotonic() - begin


def read_cold(place):
    drop_caches()
    return {"read 512 MiB, cold": read_whole(place.where / "read.bin")}


def read_warm(place):
    times = [read_whole(place.where / "read.bin") for _ in range(WARM_READS + 1)][1:]
    return {"read 512 MiB, warm": statistics.median(times)}


def edit_middle(place):
    """Changes one line and syncs it."""
    drop_caches()
    before = used_bytes(place.own)
    begin = time.monotonic()
    with open(place.where / "edit.bin", "r+b", buffering=0) as file:
        file.seek(project.EDIT_MIB * project.MIB // 2)
        file.write(b"x" * 80)
        os.fsync(file.fileno())
    took = time.monotonic() - begin
    os.sync()
    return {"edit in 1 GiB": took, "edit in 1 GiB, bytes": used_bytes(place.own) - before}


def has_command(place, name):
    return bool(place.warren) and subprocess.run([*place.warren, name, "--help"], stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.DEVNULL).returncode == 0


def diff(place):
    if not has_command(place, "diff"):
        return {}
    for path in sources(place, ("src", "vendor"))[:DIFF_CHANGED]:
        with open(path, "ab") as file:
            file.write(b"one more line\n")
    for n in range(DIFF_NEW):
        folder = place.where / "new" / str(n // 100)
        if n % 100 == 0:
            folder.mkdir(parents=True)
        (folder / f"file{n}").write_text(f"new {n}\n")
    return {"warren diff, 10,000": seconds([*place.warren, "diff", "bench"], place.where.parent)}


def start(place):
    if not has_command(place, "run"):
        return {}
    ext4 = place.where.parent
    (ext4 / "home").mkdir()  # for its sessions
    command = [*place.warren, "run", "--base", ext4 / "project", "--", "true"]
    took = [seconds(command, ext4, environment={**ENVIRONMENT, "HOME": str(ext4 / "home")}) for _ in range(STARTS)]
    return {"warren run -- true": statistics.median(took)}


# (project, steps)
WORKLOADS = [
    ("tree", [status_cold, status_warm, status_touched]),
    ("tree", [grep_cold, grep_warm]),
    ("tree", [build]),
    ("tree", [npm_install]),
    ("tree", [copy_tree]),
    ("tree", [remove_dir]),
    ("tree", [move_dir]),
    ("tree", [append]),
    ("large", [read_cold, read_warm]),
    ("large", [edit_middle]),
    ("tree", [diff]),
    ("tree", [start]),
]
NOT_THERE_YET = {"diff": "warren diff, 10,000", "start": "warren run -- true"}


def name_of(step):
    return step.__name__.replace("_", "-")


def wanted(only):
    """The workloads, each up to the last of the requested steps."""
    for kind, steps in WORKLOADS:
        last = max((n for n, step in enumerate(steps) if not only or name_of(step) in only), default=-1)
        if last >= 0:
            yield kind, steps[:last + 1]
