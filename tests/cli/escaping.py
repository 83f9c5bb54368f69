#!/usr/bin/env python3
"""Names and contents from strangers on a terminal: nothing in them controls it, and JSON and patches stay what they are.

    WARREN=path/to/warren escaping.py [-v] [Escaping.test_name]
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from on_terminal import HOSTILE, HOSTILE_BYTES, on_terminal, strays

WARREN = str(pathlib.Path(os.environ["WARREN"]).resolve())


class Escaping(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="escaping-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.base = self.dir / "base"
        self.base.mkdir()
        (self.dir / "home").mkdir()
        self.environment = {"HOME": str(self.dir / "home"), "PATH": os.environ["PATH"], "TERM": "xterm", "PAGER": "cat", "LC_ALL": "C.UTF-8"}

    def warren(self, *words, input=None, status=0):
        done = subprocess.run([WARREN, *words], cwd=self.dir, env=self.environment, capture_output=True, input=input)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def screen(self, *words):
        return on_terminal([WARREN, *words], cwd=self.dir, env=self.environment)

    def check(self, *words, contains=b""):
        with self.subTest(words=words):
            seen = self.screen(*words)
            self.assertEqual(strays(seen), [], seen)
            self.assertNotIn(b"\nwarren: forged", seen)
            self.assertIn(contains, seen)

    def overlay(self):
        """An agent over a base, whose changes have hostile names and contents."""
        self.warren("init", "one", "--base", str(self.base))
        for name in HOSTILE_BYTES:
            self.warren("fs", "one", "write", b"/" + name, b"first\n" + name + b"\nlast\n")

    def test_doors_in_the_journal_of_a_stranger(self):
        self.warren("init", "one")
        self.warren("fs", "one", "write", "/f", b"x")
        forged = "char(10) || 'warren: forged' || char(27) || '[31m'"
        self.warren("sql", "one", "--write", f"UPDATE wr_journal SET door = {forged}, space = {forged}")
        self.check("log", "one", contains=b"added /f")
        self.warren("sql", "one", "--write", "UPDATE wr_journal SET door = x'ff00', space = 7")
        self.check("log", "one", contains=b"added /f")

    def test_names_in_listings(self):
        self.overlay()
        for name in HOSTILE:
            self.warren("kv", "one", "set", name, json.dumps(name, ensure_ascii=False))
            self.warren("tools", "one", "record", name, "--error", name, "--started", "1", "--completed", "2")
        for words in (["fs", "one", "ls"], ["fs", "one", "ls", "-l"], ["fs", "one", "tree"], ["fs", "one", "find"],
                      ["fs", "one", "find", "--null"], ["fs", "one", "du"], ["kv", "one", "list"], ["kv", "one", "get", HOSTILE[2]],
                      ["fs", "one", "grep", "."], ["fs", "one", "grep", "-l", "first"], ["fs", "one", "grep", "-c", "first"],
                      ["log", "one"], ["log", "one", "/"], ["timeline", "one"], ["tools", "one", "stats"], ["tools", "one", "show", "1"], ["fsck", "one"],
                      ["sql", "one", "SELECT name FROM fs_dentry"], ["sql", "one", "SELECT name FROM fs_dentry", "--csv"]):
            self.check(*words)
        for name in HOSTILE_BYTES:
            self.check("fs", "one", "stat", b"/" + name)

    def test_help_is_as_wide_as_the_terminal(self):
        for columns in (50, 100, 160):
            seen = on_terminal([WARREN, "run", "--help"], columns=columns, cwd=self.dir, env=self.environment).decode()
            text = [line for line in seen.split("\nexamples:")[0].split("\n") if not line.startswith("usage:")]
            widest = max(map(len, text))
            self.assertLessEqual(widest, columns)
            self.assertGreater(widest, columns - 15)

    def test_grep_has_headings_and_colours_on_a_terminal(self):
        self.warren("init", "one")
        self.warren("fs", "one", "write", "/a", "x needle needle y\nhay\nneedle\n")
        self.warren("fs", "one", "write", "/b", "needle\n")
        red, green, cyan, plain = "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[0m"
        needle = f"{red}needle{plain}"
        expected = (f"{cyan}/a{plain}\n{green}1{plain}:x {needle} {needle} y\n{green}3{plain}:{needle}\n"
                    f"\n{cyan}/b{plain}\n{green}1{plain}:{needle}\n")
        self.assertEqual(self.screen("fs", "one", "grep", "needle").decode(), expected)
        self.environment["NO_COLOR"] = "1"
        self.assertEqual(self.screen("fs", "one", "grep", "hay").decode(), "/a\n2:hay\n")

    def test_names_and_contents_in_changes(self):
        self.overlay()
        self.check("diff", "one", contains=b"\\u202e")
        self.check("diff", "one", "-p", contains=b"\\u009b31m")
        self.check("diff", "one", "--stat")
        self.check("diff", "one", "--name-only")
        self.check("diff", "one", "--name-only", "--null")
        self.check("apply", "one", "--as-patch")
        self.check("apply", "one", "--dry-run")

    def test_names_in_errors(self):
        self.warren("init", "one")
        for name in HOSTILE_BYTES:
            self.check("fs", "one", "cat", b"/" + name)
            self.check("fs", name, "ls")
            self.check("fs", "one", b"x" + name)
            self.check(b"--" + name)
            self.check("mount", "one", name)
            self.check("relay", "inbox", name)
            self.check("sessions", "delete", "--yes", name)

    def test_errors_are_escaped_off_a_terminal_too(self):
        self.warren("init", "one")
        done = subprocess.run([WARREN, "fs", "one", "cat", "/\u202e\x1b[2J"], cwd=self.dir, env=self.environment, capture_output=True)
        self.assertIn(b"'/\\u202e\\x1b[2J'", done.stderr)

    def test_the_names_of_agentfs_commands(self):
        self.overlay()
        (self.dir / "bin").mkdir()
        (self.dir / "bin" / "agentfs").symlink_to(WARREN)
        for words in (["fs", "one", "ls"], ["diff", "one"], ["fs", "one", "cat", "x" + HOSTILE[7]], ["fs", "x" + HOSTILE[7], "ls"],
                      [HOSTILE[7]]):
            with self.subTest(words=words):
                seen = on_terminal([str(self.dir / "bin" / "agentfs"), *words], cwd=self.dir, env=self.environment)
                self.assertEqual(strays(seen), [], seen)
                self.assertNotIn(b"\nwarren: forged", seen)

    def test_json_on_a_terminal_is_the_same_json(self):
        self.overlay()
        for words in (["diff", "one", "--json"], ["fs", "one", "ls", "--json"]):
            piped = self.warren(*words)
            seen = self.screen(*words)
            self.assertEqual(strays(seen), [])
            self.assertEqual(json.loads(seen), json.loads(piped))

    def test_a_patch_in_a_file_is_exact(self):
        self.overlay()
        patch = self.warren("diff", "one", "-p")
        subprocess.run(["git", "init", "-q", "."], cwd=self.base, check=True)
        subprocess.run(["git", "apply", "-"], cwd=self.base, input=patch, check=True)
        for name in HOSTILE_BYTES:
            self.assertEqual((self.base / os.fsdecode(name)).read_bytes(), b"first\n" + name + b"\nlast\n")

    def test_contents_that_are_asked_for_are_exact(self):
        self.warren("init", "one")
        content = b"\x1b[31m\xff\x00\xe2\x80\xae"
        self.warren("fs", "one", "write", "/f", "-", input=content)
        self.assertEqual(self.warren("fs", "one", "cat", "/f"), content)
        self.assertEqual(self.screen("fs", "one", "cat", "/f"), content)

    def test_our_own_colours_pass(self):
        self.warren("init", "one")
        self.warren("fs", "one", "mkdir", "/d\u202e")
        self.assertIn(b"\x1b[34md\\u202e", self.screen("fs", "one", "ls"))


if __name__ == "__main__":
    unittest.main()
