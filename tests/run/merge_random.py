#!/usr/bin/env python3
"""`warren merge` of two sessions that changed one tree at random: nothing is lost, doubled or brought back.

    WARREN=path/to/warren merge_random.py [-v]     WARREN_SEEDS=3,17 runs these seeds alone

Every line and link of the trees is unique, so it can be followed wherever a rename has put it. For each seed, whatever
the two did:

- a merge without conflicts has each line exactly once: those of the base that both still have, and those that either
  has written;
- `--conflict=first` keeps all that the first has written, `--conflict=second` what the second has, and
  `--conflict=markers` both, unless a message names what was left out; what neither has deleted is never lost, and
  what neither has moved stays where it is;
- `apply` of the merged session writes what the session shows, and `undo` restores the base.

Needs root.
"""
import collections
import os
import pathlib
import random
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed

SEEDS = [int(seed) for seed in os.environ.get("WARREN_SEEDS", "").split(",") if seed]
# 586 is one that lost a file which the second session had moved, and put a new one in place of.
SEEDS = SEEDS or [586, *range(100 if sandboxed.mounted.FULL else 12)]
AGENT = (pathlib.Path(__file__).resolve().parent / "random_agent.py").read_text()
MARKERS = ("<<<<<<<", "=======", ">>>>>>>")


def make_base(top, rng):
    """Some directories in each other, with files of a few lines, and links."""
    dirs = [top]
    for number in range(rng.randrange(2, 7)):
        directory = rng.choice(dirs) / f"d{number}"
        directory.mkdir()
        dirs.append(directory)
    for number in range(rng.randrange(4, 12)):
        path = rng.choice(dirs) / f"f{number}"
        if rng.randrange(8) == 0:
            path.symlink_to(f"base-{number}")
        else:
            path.write_text("".join(f"base-{number}-{line}\n" for line in range(rng.randrange(1, 16))))


def read_tree(top):
    """Every path below, with its mode and its lines."""
    tree = {}
    for path in sorted(top.rglob("*")):
        lines = []
        if path.is_symlink():
            lines = [os.readlink(path)]
        elif path.is_file():
            lines = path.read_text().splitlines()
        tree[str(path.relative_to(top))] = (f"{path.lstat().st_mode:o}", lines)
    return tree


def find_lines(tree):
    """The path of each."""
    return {line: path for path, (_, lines) in tree.items() for line in lines}


def count_lines(tree):
    return collections.Counter(line for _, lines in tree.values() for line in lines if not line.startswith(MARKERS))


class Merges(unittest.TestCase):
    def begin(self, seed):
        w = sandboxed.World()
        w.__enter__()
        self.addCleanup(w.__exit__)
        for path in ("dir/inner", "file"):
            (w.base / path).unlink()
        (w.base / "dir").rmdir()
        make_base(w.base, random.Random(seed))
        for side in ("a", "b"):
            w.inside(side, sandboxed.PYTHON, "-c", AGENT, side, str(seed))
        return w

    def view(self, w, session):
        """What the session shows."""
        copy = w.root / "views" / session
        copy.mkdir(parents=True)
        with w.start("run", "--session", session, "--", "tar", "-cf", "-", ".") as packed:
            subprocess.run(["tar", "-xf", "-", "-C", copy], stdin=packed.stdout, check=True)
            problem = packed.stderr.read().decode()
        self.assertEqual(packed.returncode, 0, problem)
        return read_tree(copy)

    def check_applied(self, w, session, shown):
        before = read_tree(w.base)
        done = w.warren("apply", session, "--yes", "--keep")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(read_tree(w.base), shown, f"apply of {session} writes what it shows")
        if before == shown:
            return
        done = w.warren("undo", session)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(read_tree(w.base), before, f"undo after {session} restores the base")

    def test_lose_nothing(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.merge_at_random(seed)

    def merge_at_random(self, seed):
        w = self.begin(seed)
        base = count_lines(read_tree(w.base))
        sides = {side: self.view(w, side) if side in w.sessions() else read_tree(w.base) for side in ("a", "b")}
        if len(w.sessions()) < 2:
            return  # one of them came back to what the base has
        a, b = (count_lines(sides[side]) for side in ("a", "b"))
        added = {"a": a - base, "b": b - base}
        common = base & a & b
        before, places = find_lines(read_tree(w.base)), [find_lines(sides[side]) for side in ("a", "b")]
        unmoved = {line: path for line, path in before.items() if all(side.get(line) == path for side in places)}
        for policy in ("", "first", "second", "markers"):
            merged = "m" + policy
            done = w.warren("merge", "a", "b", "--into", merged, *([f"--conflict={policy}"] if policy else []))
            self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
            if merged not in w.sessions():
                self.assertEqual((done.returncode, policy), (1, ""), done.stdout + done.stderr)
                continue
            shown = self.view(w, merged)
            found = count_lines(shown)
            said = f"{policy}\n{done.stdout}{done.stderr}{self.describe(w, sides, shown)}"
            self.assertFalse(common - found, f"what neither has deleted: {said}")
            if done.returncode == 0 and policy == "":
                self.assertEqual(found, common + added["a"] + added["b"], said)
            if policy in ("first", "markers"):
                self.assertFalse(added["a"] - found, said)
            if policy in ("second", "markers") and done.returncode == 0:
                self.assertFalse(added["b"] - found, said)
            if policy != "markers":  # both versions of a file may have a line
                self.assertFalse([line for line, times in found.items() if times > 1], said)
                self.assertFalse([path for path in shown if "~" in path], said)
                now = find_lines(shown)
                self.assertEqual(unmoved, {line: now.get(line) for line in unmoved}, said)
            if done.returncode == 0 and policy == "":
                break  # the policies change nothing about it
        self.check_applied(w, merged, shown)

    def describe(self, w, sides, shown):
        """For a failure: the trees."""
        trees = {"base": read_tree(w.base), **sides, "merged": shown}
        lines = []
        for name, tree in trees.items():
            lines += [f"-- {name}", *(f"{path}: {' '.join(content)}" for path, (_, content) in tree.items())]
        return "\n" + "\n".join(lines)


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
