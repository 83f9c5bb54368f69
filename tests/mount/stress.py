#!/usr/bin/env python3
"""Several processes perform random operations on the mount and on a plain directory; the trees must end up identical.

    WARREN=path/to/warren stress.py [--seconds 10] [--processes 4] [--seed N] [--dirs PLAIN_DIR MOUNT_DIR]

Each process has a subtree of its own, and all share one more under a lock, so that order is the same on both sides.
Every call's outcome is compared at once; the trees at the end, and again after unmounting and mounting anew.
A failure names its seed: the same seed does the same things, as far as it gets.
"""
import argparse
import collections
import contextlib
import errno
import fcntl
import mmap
import multiprocessing
import os
import pathlib
import random
import stat
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted

NAMES = [f"n{number}" for number in range(12)] + ["long" * 60, "\udcff\udcfe", "with space"]
DEPTH_MAX = 3
FILE_BYTES_MAX = 300_000
HELD_MAX = 6
SHOWN_MAX = 20
# Times that the test sets are long ago. Other times are those of the run, and differ between the two sides.
GIVEN_SECONDS = 1_000_000_000


def outcome(function, *args):
    try:
        return function(*args)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))


@contextlib.contextmanager
def opened(path, flags, mode=0o644):
    fd = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        yield fd
    finally:
        os.close(fd)


# Operations on one side. Each returns something comparable.

def write(path, flags, offset, data, sync):
    with opened(path, os.O_WRONLY | flags) as fd:
        done = os.write(fd, data) if flags & os.O_APPEND else os.pwrite(fd, data, offset)
        if sync:
            os.fsync(fd)
        return done


def write_mapped(path, offset, data):
    with opened(path, os.O_RDWR) as fd:
        size = os.fstat(fd).st_size
        if offset + len(data) > size:
            return "too short"
        with mmap.mmap(fd, size) as mapped:
            mapped[offset:offset + len(data)] = data


def check(path):
    """Everything about one node, with its content."""
    found = os.lstat(path)
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        return oct(found.st_mode), found.st_nlink, when(found), sorted(os.listdir(path))
    content = os.readlink(path) if kind == stat.S_IFLNK else whole(path)
    return oct(found.st_mode), found.st_nlink, found.st_size, when(found), content


def whole(path):
    with opened(path, os.O_RDONLY) as fd:
        return content_of(fd)


def content_of(fd):
    size = os.fstat(fd).st_size
    parts = []
    while data := os.pread(fd, 1 << 20, sum(map(len, parts))):
        parts.append(data)
    return size, b"".join(parts)


def when(found):
    return found.st_mtime_ns if found.st_mtime < GIVEN_SECONDS * 1.1 else "recent"


def sync_dir(path):
    with opened(path, os.O_RDONLY) as fd:
        os.fsync(fd)


class Worker:
    """Performs the same random operations in two directories."""

    def __init__(self, name, seed, tops, lock):
        self.name, self.tops, self.lock = name, tops, lock
        self.dice = random.Random(f"{seed}/{name}")
        self.held = []  # pairs of descriptors of one file on both sides
        self.log = collections.deque(maxlen=5000)
        self.count = 0
        self.given = 0

    def path(self, area):
        parts = [self.dice.choice(NAMES) for _ in range(self.dice.choice([1, 1, 2, 2, DEPTH_MAX]))]
        return os.path.join(area, *parts)

    def both(self, what, function, *args):
        """Calls the function for each of the two directories. Path arguments are given as Below."""
        results = []
        for top in self.tops:
            results.append(outcome(function, *[arg.at(top) if isinstance(arg, Below) else arg for arg in args]))
        self.agree(what, args, results)
        return results[0]

    def agree(self, what, args, results):
        self.count += 1
        shown = ", ".join(shorten(arg) for arg in args)
        self.log.append(f"{what}({shown}) = {shorten(results[0])}")
        if results[0] != results[1]:
            raise AssertionError(f"{self.name}, call {self.count}: {what}({shown}):\n"
                                 f"  plain: {shorten(results[0], 500)}\n  mount: {shorten(results[1], 500)}\n"
                                 "  before that:\n    " + "\n    ".join(self.history(args)))

    def history(self, args):
        """This worker's latest calls that named the same path."""
        places = [repr(os.path.join(*arg.path.split("/")[:2]))[:-1] for arg in args if isinstance(arg, Below)]
        return [line for line in self.log if not places or any(place in line for place in places)][-SHOWN_MAX:]

    def step(self):
        if self.dice.random() < 0.3:
            with opened(self.lock, os.O_RDWR | os.O_CREAT) as fd:
                fcntl.flock(fd, fcntl.LOCK_EX)
                self.act("shared")
        else:
            self.act(self.name)

    def act(self, area):
        action = self.dice.choices(list(ACTIONS), ACTIONS.values())[0]
        action(self, Below(self.path(area)), Below(self.path(area)))

    def data(self):
        length = self.dice.choice([1, 10, 100, 4096, 5000, 20_000, 100_000])
        return self.dice.randbytes(self.dice.randrange(1, length + 1))

    def some_time(self):
        self.given += 1
        return GIVEN_SECONDS * 10**9 + self.dice.randrange(10**9) * 1000 + self.given % 1000

    def create(self, path, _):
        flags = os.O_CREAT | self.dice.choice([0, os.O_EXCL, os.O_TRUNC])
        self.both("create", write, path, flags, 0, self.data(), False)

    def overwrite(self, path, _):
        self.both("write", write, path, 0, self.dice.randrange(FILE_BYTES_MAX), self.data(), self.dice.random() < 0.1)

    def append(self, path, _):
        self.both("append", write, path, os.O_APPEND, 0, self.data(), self.dice.random() < 0.1)

    def map(self, path, _):
        self.both("write mapped", write_mapped, path, self.dice.randrange(20_000), self.data()[:5000])

    def truncate(self, path, _):
        self.both("truncate", os.truncate, path, self.dice.randrange(FILE_BYTES_MAX))

    def rename(self, path, other):
        self.both("rename", os.rename, path, other)

    def link(self, path, other):
        self.both("link", os.link, path, other)

    def symlink(self, path, _):
        self.both("symlink", os.symlink, "to/" + self.dice.choice(NAMES), path)

    def unlink(self, path, _):
        self.both("unlink", os.unlink, path)

    def mkdir(self, path, _):
        self.both("mkdir", os.mkdir, path)

    def rmdir(self, path, _):
        self.both("rmdir", os.rmdir, path)

    def chmod(self, path, _):
        self.both("chmod", os.chmod, path, self.dice.choice([0o600, 0o644, 0o755, 0o4711, 0o2755, 0o1777]))

    def utimes(self, path, _):
        given = self.some_time()
        self.both("utimes", lambda where: os.utime(where, ns=(given, given)), path)

    def sync(self, path, _):
        self.both("fsync", sync_dir, path)

    def check(self, path, _):
        self.both("check", check, path)

    def hold(self, path, _):
        """Opens a file and keeps it open, whatever happens to its name."""
        fds = [outcome(os.open, path.at(top), os.O_RDWR | os.O_CLOEXEC) for top in self.tops]
        if all(isinstance(fd, int) for fd in fds):
            self.held.append(fds)
            fds = ["ok", "ok"]
        self.agree("hold", [path], fds)
        if len(self.held) > HELD_MAX:
            self.let_go()

    def use_held(self, *_):
        """Uses only the worker's own files: others change a shared file between our two calls."""
        if self.held:
            fds, data, offset = self.dice.choice(self.held), self.data(), self.dice.randrange(FILE_BYTES_MAX)
            self.agree("write held", [offset, data], [outcome(os.pwrite, fd, data, offset) for fd in fds])
            self.agree("read held", [], [content_of(fd) for fd in fds])
            self.agree("links of held", [], [os.fstat(fd).st_nlink for fd in fds])

    def let_go(self, *_):
        if self.held:
            for fd in self.held.pop(self.dice.randrange(len(self.held))):
                os.close(fd)


class Below:
    def __init__(self, path):
        self.path = path

    def at(self, top):
        return os.path.join(top, self.path)

    def __repr__(self):
        return repr(self.path)


def shorten(value, limit=80):
    text = ascii(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)})"


ACTIONS = {Worker.create: 14, Worker.overwrite: 10, Worker.append: 8, Worker.map: 3, Worker.truncate: 5,
           Worker.rename: 8, Worker.link: 5, Worker.symlink: 3, Worker.unlink: 7, Worker.mkdir: 7, Worker.rmdir: 3,
           Worker.chmod: 3, Worker.utimes: 5, Worker.sync: 2, Worker.check: 14}
HELD_ACTIONS = {Worker.hold: 4, Worker.use_held: 5, Worker.let_go: 2}


def work(name, seed, tops, lock, seconds, results):
    worker = Worker(name, seed, tops, lock)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if worker.dice.random() < 0.1:
                action = worker.dice.choices(list(HELD_ACTIONS), HELD_ACTIONS.values())[0]
                action(worker, Below(worker.path(name)), None)
            worker.step()
        results.put((worker.count, None))
    except BaseException as error:  # the parent reports it
        results.put((worker.count, f"{type(error).__name__}: {error}"))


def run_workers(options, tops, lock):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    names = [f"worker{number}" for number in range(options.processes)]
    for top in tops:
        for name in [*names, "shared"]:
            os.mkdir(os.path.join(top, name))
    common = (options.seed, tops, lock, options.seconds, results)
    workers = [context.Process(target=work, args=(name, *common)) for name in names]
    for worker in workers:
        worker.start()
    done = [results.get(timeout=options.seconds + 300) for _ in workers]
    for worker in workers:
        worker.join()
    return sum(count for count, _ in done), [failure for _, failure in done if failure]


def tree(top):
    found = {}
    for directory, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(directory, name)
            found[os.path.relpath(path, top)] = outcome(check, path)
    return found


def differences(wanted, got):
    return [f"{ascii(path)}: {shorten(wanted.get(path), 300)} / {shorten(got.get(path), 300)}"
            for path in sorted(wanted.keys() | got.keys()) if wanted.get(path) != got.get(path)]


def report(title, wanted, got):
    different = differences(wanted, got)
    print(f"{title}: {len(wanted)} nodes, {len(different)} differ", flush=True)
    print("".join(f"  {line}\n" for line in different[:SHOWN_MAX]), end="")
    return different


def run(options, plain, mount, lock):
    print(f"seed {options.seed}, {options.processes} processes, {options.seconds} s", flush=True)
    count, failures = run_workers(options, [str(plain), str(mount)], str(lock))
    print(f"{count} calls", flush=True)
    for failure in failures:
        print(failure)
    wanted = tree(plain)
    return wanted, bool(failures) | bool(report("as it is", wanted, tree(mount)))


def is_wrong(world):
    """Whether the unmounted agent's file is damaged: files left beside it, or fsck finds something. The comparison that follows shows the consequences."""
    if world.left_beside():
        print(f"left beside the agent's file: {world.left_beside()}")
    done = world.run("fsck", world.id)
    if done.returncode != 0:
        print(f"fsck: {(done.stdout + done.stderr).decode()}")
    return bool(world.left_beside()) or done.returncode != 0


def run_on_own_mount(options):
    mounted.need_fuse()
    with mounted.World() as world:
        plain = world.root / "plain"
        plain.mkdir()
        mount = world.mount()
        wanted, failed = run(options, plain, mount, world.root / "lock")
        world.umount(mount)
        failed |= is_wrong(world)
        world.mount()
        failed |= bool(report("mounted again", wanted, tree(mount)))
        world.umount(mount)
        return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=180 if mounted.FULL else 10)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--dirs", nargs=2, metavar=("PLAIN_DIR", "MOUNT_DIR"))
    options = parser.parse_args()
    if options.dirs:
        plain, mount = map(pathlib.Path, options.dirs)
        return run(options, plain, mount, plain.parent / "stress.lock")[1]
    return run_on_own_mount(options)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
