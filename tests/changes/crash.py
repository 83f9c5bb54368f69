#!/usr/bin/env python3
"""An apply that is killed at any system call: after `apply --recover` the base is completely old or completely new.

    WARREN=path/to/warren crash.py [-v]

strace kills the program at the Nth call of each kind that matters, for every N until it comes through.
"""
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from overlaid import mounted

# The calls with the step by which N increases: some calls are very frequent, and most of them are alike.
CALLS = {"renameat2": 1, "rename": 1, "renameat": 1, "linkat": 1, "unlinkat": 3, "mkdirat": 1, "fsync": 1, "syncfs": 1, "utimensat": 2, "fchownat": 2,
         "chmod": 1, "pwrite64": 1 if mounted.FULL else 9, "fdatasync": 1, "ftruncate": 1 if mounted.FULL else 3}


def fill(base):
    for name in ["a", "b", "swap1", "swap2", "keep/k", "dir/1", "dir/2", "dir/sub/3", "gone/x", "gone/sub/y", "kind", "file-to-dir"]:
        overlaid.write(base / name, f"old {name}\n" * 20)
    os.link(base / "a", base / "other-name-of-a")
    os.symlink("a", base / "link")
    (base / "mnt").mkdir()


def fill_mounted(base):
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", base / "mnt"], check=True)
    for name in ["changed", "gone", "renamed", "moved"]:
        overlaid.write(base / "mnt" / name, f"old {name}\n" * 20)


def change(point):
    p = pathlib.Path(point)
    overlaid.write(p / "a", "new a\n")  # has another name: written in place
    overlaid.write(p / "b", "new b\n" * 5000)
    os.rename(p / "swap1", p / "t")
    os.rename(p / "swap2", p / "swap1")
    os.rename(p / "t", p / "swap2")
    os.rename(p / "dir", p / "moved")
    overlaid.write(p / "moved/1", "new 1\n")
    overlaid.write(p / "moved/added", "added\n")
    os.unlink(p / "moved/2")
    os.rename(p / "moved/sub/3", p / "three")
    shutil.rmtree(p / "gone")
    for i in range(4):
        overlaid.write(p / f"fresh/{i}/file", f"{i}\n" * 50)
    os.chmod(p / "keep", 0o700)
    os.chmod(p / "keep/k", 0o600)
    os.unlink(p / "link")
    os.symlink("elsewhere", p / "link")
    os.unlink(p / "file-to-dir")
    overlaid.write(p / "file-to-dir/inside", "x")
    overlaid.write(p / "mnt/changed", "new\n" * 100)
    os.unlink(p / "mnt/gone")
    os.rename(p / "mnt/renamed", p / "mnt/other")
    os.rename(p / "mnt/moved", p / "moved-out")


class Crash(unittest.TestCase):
    def make(self):
        world = overlaid.World()
        world.__enter__()
        fill(world.base)
        world.points.append(world.base / "mnt")
        fill_mounted(world.base)
        world.init()
        merged = world.change(lambda point: (change(point), overlaid.snapshot(point))[1])
        return world, overlaid.snapshot(world.base), merged

    def kill_at(self, call, nth, *args):
        """Does one run; returns whether it was killed."""
        world, old, new = self.make()
        try:
            changes = world.diff()
            done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                   f"inject={call}:signal=KILL:when={nth}", mounted.program(), "apply", world.id, *args],
                                  cwd=world.home, env=world.environment(), capture_output=True, timeout=60)
            where = f"killed at {call} {nth}"
            world.diff()  # changes nothing
            world.warren("apply", "--recover", world.id)
            after = world.diff()
            base = overlaid.snapshot(world.base)
            is_old, is_new = base == old, base == new
            self.assertTrue(is_old or is_new, f"{where}: neither old {overlaid.differences(base, old)} "
                                              f"nor new {overlaid.differences(base, new)}")
            self.assertEqual(after, changes if is_old else [], where)
            self.assertEqual(world.staging(), [], where)
            self.assertEqual(world.records(), [], where)
            world.fsck()
            if is_old:
                self.assertEqual(overlaid.differences(world.change(overlaid.snapshot), new), [], where)
                world.warren("apply", world.id)
                self.assertEqual(overlaid.differences(overlaid.snapshot(world.base), new), [], where)
            return done.returncode != 0, is_new
        finally:
            world.__exit__()

    def test_a_killed_apply_is_finished_or_never_was(self):
        outcomes = {True: 0, False: 0}
        for call, step in CALLS.items():
            nth, kills = 1, 0
            while True:
                is_killed, is_new = self.kill_at(call, nth)
                if not is_killed:
                    break
                outcomes[is_new] += 1
                kills += 1
                nth += step
            print(f"{call}: killed {kills} times", file=sys.stderr)
        print(f"{outcomes[True]} times it was finished, {outcomes[False]} times it never was", file=sys.stderr)
        self.assertGreater(outcomes[True], 0)
        self.assertGreater(outcomes[False], 0)

    def test_a_killed_recovery_is_recovered_from(self):
        for nth in range(1, 40, 1 if mounted.FULL else 5):
            world, old, new = self.make()
            try:
                for call, n in (("renameat2", 4), ("renameat2", nth), ("unlinkat", nth)):
                    command = ("apply",) if n == 4 else ("apply", "--recover")
                    subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={n}",
                                    mounted.program(), *command, world.id], cwd=world.home, env=world.environment(), capture_output=True, timeout=60)
                world.warren("apply", "--recover", world.id)
                self.assertEqual(world.diff(), [])
                self.assertEqual(overlaid.differences(overlaid.snapshot(world.base), new), [])
                self.assertEqual(world.staging() + world.records(), [])
                world.fsck()
            finally:
                world.__exit__()

    def test_a_killed_exchange_of_directories_and_of_what_they_have_under_one_name(self):
        def exchange(point):
            for one, other in (("a", "b"), ("a/s", "b/s")):
                for old, new in ((one, "t"), (other, one), ("t", other)):
                    os.rename(f"{point}/{old}", f"{point}/{new}")
        for nth in itertools.count(1):
            with overlaid.World() as world:
                for name in "ab":
                    overlaid.write(world.base / name / "s/x", name)
                    overlaid.write(world.base / name / "own", name)
                world.init()
                old = overlaid.snapshot(world.base)
                new = world.change(lambda point: (exchange(point), overlaid.snapshot(point))[1])
                done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject=renameat2:signal=KILL:when={nth}",
                                       mounted.program(), "apply", world.id], cwd=world.home, env=world.environment(), capture_output=True, timeout=60)
                world.warren("apply", "--recover", world.id)
                base = overlaid.snapshot(world.base)
                self.assertIn(base, (old, new), nth)
                self.assertEqual(world.staging() + world.records(), [], nth)
                if done.returncode == 0:
                    break
        self.assertGreater(nth, 8)  # eight steps
        self.assertEqual(base, new)

    def test_a_failing_call_undoes_everything(self):
        for call, error in (("renameat2", "EIO"), ("fsync", "EIO"), ("linkat", "EIO"), ("mkdirat", "ENOSPC")):
            for nth in range(1, 30, 1 if mounted.FULL else 4):
                world, old, new = self.make()
                try:
                    changes = world.diff()
                    done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={call}:error={error}:when={nth}",
                                           mounted.program(), "apply", world.id], cwd=world.home, env=world.environment(), capture_output=True, timeout=60)
                    where = f"{error} at {call} {nth}: {done.stderr.decode()}"
                    base = overlaid.snapshot(world.base)
                    if done.returncode != 0:
                        self.assertEqual(overlaid.differences(base, old), [], where)
                        self.assertEqual(world.diff(), changes, where)
                    else:
                        self.assertEqual(overlaid.differences(base, new), [], where)
                        self.assertEqual(world.diff(), [], where)
                    self.assertEqual(world.staging(), [], where)
                    world.fsck()
                finally:
                    world.__exit__()


if __name__ == "__main__":
    mounted.need_fuse()
    if not shutil.which("strace"):
        sys.exit("this test needs strace")
    unittest.main()
