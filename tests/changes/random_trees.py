#!/usr/bin/env python3
"""Random trees, changed at random through a real mount: the guarantees of diff, apply and discard for any changes.

    WARREN=path/to/warren random_trees.py [-v]     WARREN_SEEDS=3,17 runs these seeds alone

For each seed: the patch gives the merged tree with `git apply` on a copy of the base; apply gives the merged tree
and leaves nothing in the agent; applying and discarding bit by bit gives the same; discard gives the base back.
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from overlaid import mounted

SEEDS = [int(seed) for seed in os.environ.get("WARREN_SEEDS", "").split(",") if seed] or range(40 if mounted.FULL else 12)
NAMES = [b"a", b"b", b"c", b"d e", b"f\"q", b"n\nl", b"\xff\xfe", b"\xc3\xa9", b"tab\t", b"back\\slash", b"-x", b"'"]


def text(rng):
    return b"".join(b"line %d\n" % rng.randrange(30) for _ in range(rng.randrange(12))) + rng.choice([b"", b"end"])


def content(rng):
    kind = rng.randrange(12)
    if kind == 0:
        return b""
    if kind == 1:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    if kind == 2:
        return text(rng) * rng.choice([1, 400])
    return text(rng)


class Tree:
    """Random changes below a directory."""

    def __init__(self, top, rng, is_text=False):
        self.top, self.rng = os.fsencode(top), rng
        self.content = text if is_text else content

    def all(self, want):
        found = []
        for directory, dirs, files in os.walk(self.top):
            for name in dirs + files:
                path = os.path.join(directory, name)
                if want(path):
                    found.append(path)
        return sorted(found)

    def pick(self, want):
        found = self.all(want)
        return self.rng.choice(found) if found else None

    def dir(self):
        return self.rng.choice([self.top, *self.all(lambda p: os.path.isdir(p) and not os.path.islink(p))])

    def fresh(self):
        path = os.path.join(self.dir(), self.rng.choice(NAMES) + (b"%d" % self.rng.randrange(4)))
        return None if os.path.lexists(path) else path

    def is_file(self, path):
        return os.path.isfile(path) and not os.path.islink(path)

    def grow(self, count):
        for _ in range(count):
            path = self.fresh()
            if path is None:
                continue
            kind = self.rng.randrange(10)
            if kind < 3:
                os.mkdir(path)
            elif kind == 3:
                os.symlink(self.rng.choice([b"a", b"../x", b"/nowhere", b"\xff"]), path)
            else:
                overlaid.write(path, self.content(self.rng))
                os.chmod(path, self.rng.choice([0o644, 0o755, 0o600]))

    def link(self, count):
        for _ in range(count):
            file, path = self.pick(self.is_file), self.fresh()
            if file and path:
                os.link(file, path)

    def step(self):
        rng = self.rng
        kind = rng.randrange(14)
        file = self.pick(self.is_file)
        if kind < 3:
            self.grow(1)
        elif kind < 5 and file:
            overlaid.write(file, self.content(rng))
        elif kind == 5 and file:
            with open(file, "ab") as out:
                out.write(b"more\n")
        elif kind == 6 and file:
            os.chmod(file, rng.choice([0o644, 0o755, 0o640]))
        elif kind == 7 and file:
            os.unlink(file)
        elif kind == 8:
            path = self.pick(lambda p: os.path.isdir(p) and not os.path.islink(p))
            if path and rng.randrange(2):
                shutil.rmtree(path)
        elif kind in (9, 10):
            path, to = self.pick(lambda p: True), self.fresh()
            if path and to and not to.startswith(path + b"/"):
                os.rename(path, to)
        elif kind == 11 and file:
            to = self.pick(self.is_file)
            os.rename(file, to)  # over another one, or itself
        elif kind == 12 and file:
            draft = file + b".tmp"
            overlaid.write(draft, self.content(rng))
            os.rename(draft, file)
        elif kind == 13:
            path = self.pick(lambda p: os.path.isdir(p) and not os.path.islink(p))
            if path and rng.randrange(2):
                shutil.rmtree(path)
                if rng.randrange(2):
                    os.mkdir(path)
                    overlaid.write(path + b"/new", self.content(rng))
                else:
                    overlaid.write(path, self.content(rng))


def drop_empty_dirs(tree):
    """The properties that a patch can express."""
    kept = {name: (what[0], "x" if int(what[1]) & 0o100 else "-", what[4:6]) if what[0] == str(0o100000) else what
            for name, what in tree.items() if what[0] in (str(0o100000), str(0o120000))}
    return kept


class RandomTrees(unittest.TestCase):
    def world(self, seed, is_text=False, has_links=True):
        rng = random.Random(seed)
        world = overlaid.World()
        world.__enter__()
        self.addCleanup(world.__exit__)
        Tree(world.base, rng, is_text).grow(30)
        if has_links:
            Tree(world.base, rng).link(rng.choice([0, 3, 12]))
        world.init()

        def change(point):
            tree = Tree(point, rng, is_text)
            for _ in range(rng.randrange(1, 25)):
                tree.step()
            return overlaid.snapshot(point)

        merged = world.change(change)
        return world, rng, merged

    def check(self, a, b, seed, world=None):
        found = overlaid.differences(a, b)
        self.assertEqual(found, [], f"seed {seed}")

    def test_apply_gives_the_merged_tree_and_leaves_nothing(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                world, _, merged = self.world(seed)
                world.warren("apply", world.id)
                self.check(overlaid.snapshot(world.base), merged, seed)
                self.assertEqual(world.diff(), [], seed)
                self.assertEqual(world.staging(), [])
                world.fsck()
                self.check(world.change(overlaid.snapshot), merged, seed)
                # Only copies that equal the base may stay.
                rows = world.warren("sql", world.id, "--json", "SELECT path FROM fs_whiteout UNION ALL "
                                    "SELECT 'opaque' FROM wr_origin WHERE base_path = ''")
                self.assertEqual(json.loads(rows), [], f"seed {seed}: the upper layer is not empty")

    def test_apply_piece_by_piece_gives_the_same(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                world, rng, merged = self.world(seed)
                for _ in range(200):
                    parts = world.diff()
                    if not parts:
                        break
                    part = rng.choice([p for p in parts if p[1:2] == b" "])
                    world.warren("apply", world.id, "--", escape(part[4:]))
                    self.check(world.change(overlaid.snapshot), merged, seed)
                self.assertEqual(world.diff(), [])
                self.check(overlaid.snapshot(world.base), merged, seed)
                world.fsck()

    def test_discard_gives_the_base_back(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                world, _, _ = self.world(seed)
                before, links = overlaid.snapshot(world.base), overlaid.links(world.base)
                world.warren("discard", "--yes", world.id)
                self.assertEqual(world.diff(), [], seed)
                self.check(world.change(overlaid.snapshot), before, seed)
                self.assertEqual(world.change(overlaid.links), links, seed)
                self.check(overlaid.snapshot(world.base), before, seed)
                world.fsck()

    def test_discard_piece_by_piece_gives_the_base_back(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                world, rng, _ = self.world(seed)
                before = overlaid.snapshot(world.base)
                for _ in range(200):
                    parts = world.diff()
                    if not parts:
                        break
                    part = rng.choice([p for p in parts if p[1:2] == b" "])
                    world.warren("discard", "--yes", world.id, "--", escape(part[4:]))
                    after = world.diff()
                    self.assertLess(len(after), len(parts), f"seed {seed}: {part} {parts} {after}")
                    world.fsck()
                self.assertEqual(world.diff(), [])
                self.check(world.change(overlaid.snapshot), before, seed)

    def test_the_patch_gives_the_merged_tree(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                world, _, merged = self.world(seed, is_text=True, has_links=False)  # a patch cannot express links
                copy = world.root / "copy"
                subprocess.run(["cp", "-a", world.base, copy], check=True)
                subprocess.run(["find", copy, "-mindepth", "1", "-type", "d", "-empty", "-delete"], check=True)
                patch = world.warren("diff", "--patch", world.id)
                overlaid.git("init", "-q", ".", cwd=world.root)
                if patch:
                    done = subprocess.run(["git", "apply", "--directory=copy", "--whitespace=nowarn", "-"],
                                          input=patch, cwd=world.root, capture_output=True)
                    self.assertEqual(done.returncode, 0, f"seed {seed}: {done.stderr}\n{patch.decode(errors='replace')}")
                self.check(drop_empty_dirs(overlaid.snapshot(copy)), drop_empty_dirs(merged), seed)

    def test_to_a_copy_of_the_base_gives_the_merged_tree(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                # In another directory, other names of a file may be outside of it: nothing is written in place.
                world, _, merged = self.world(seed, has_links=False)
                copy = world.root / "copy"
                before = overlaid.snapshot(world.base)
                subprocess.run(["cp", "-a", world.base, copy], check=True)
                changes = world.diff()
                world.warren("apply", "--to", copy, world.id)
                self.check(overlaid.snapshot(copy), merged, seed)
                self.check(overlaid.snapshot(world.base), before, seed)
                self.assertEqual(world.diff(), changes)


def escape(path):
    """A pattern that matches only this path."""
    return b"".join(b"\\" + bytes([c]) if c in b"*?[\\" else bytes([c]) for c in path)


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
