#!/usr/bin/env python3
"""The help of every command fits the terminal, whatever its width, and so does the usage that follows a mistake.

    WARREN=path/to/warren help_width.py [-v] [HelpWidth.test_name]
"""
import os
import pathlib
import subprocess
import tempfile
import unittest

from on_terminal import on_terminal

WARREN = str(pathlib.Path(os.environ["WARREN"]).resolve())
WIDTHS = (40, 60, 80, 100)
SECTIONS = ("commands:", "arguments:", "options:", "examples:")


def plain_environment():
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")} | {"LC_ALL": "C.UTF-8"}


def words_for_help(usage, command):
    """The words before --help: "usage: warren checkpoint [ID] take NAME" → checkpoint take."""
    words = [word for word in usage.removeprefix("usage: ").split()[1:] if not word.startswith("[")]
    return words[:len(words) - words[::-1].index(command)]


class HelpWidth(unittest.TestCase):
    # Some of each kind: a terminal only says how wide it is, and what fits is tested for every command without one.
    ON_A_TERMINAL = ((), ("run",), ("fs",), ("fs", "ID", "ls"), ("apply",), ("checkpoint", "restore"), ("relay", "send"))

    @classmethod
    def setUpClass(cls):
        cls.commands = {}  # the words after the program → its help on one line each, as wide as it gets
        cls.learn([])

    @classmethod
    def learn(cls, names):
        text = subprocess.run([WARREN, "help", *names], env=plain_environment() | {"COLUMNS": "1000"}, capture_output=True,
                              text=True, check=True).stdout
        usage = next(line for line in text.splitlines() if line.startswith("usage: "))
        cls.commands[tuple(words_for_help(usage, names[-1]) if names else ())] = text
        listed = text.partition("\ncommands:\n")[2].partition("\n\n")[0].splitlines()
        for line in listed:
            if names or line.split()[0] != "help":
                cls.learn([*names, line.split()[0]])

    def check(self, text, columns):
        section = ""
        for line in text.splitlines():
            section = line if line in SECTIONS else section
            if len(line) <= columns:
                continue
            is_one_word = " " not in line.strip()
            is_command = section == "examples:" and not line.strip().startswith("#") and "  #" not in line
            self.assertTrue(is_one_word or is_command, f"{len(line)} of {columns} columns: {line!r}")

    def test_every_command_is_looked_at(self):
        self.assertGreater(len(self.commands), 150)
        for known in (*self.ON_A_TERMINAL, ("relay", "dead", "list"), ("checkpoint", "take")):
            self.assertIn(known, self.commands)

    def test_examples_fit_80_columns(self):
        for words, text in self.commands.items():
            for line in text.partition("\nexamples:\n")[2].partition("  #")[0].splitlines():
                self.assertLessEqual(len(line), 80, (words, line))

    def test_help_fits_the_columns_that_the_environment_names(self):
        for columns in WIDTHS:
            for words in self.commands:
                with self.subTest(words=words, columns=columns):
                    done = subprocess.run([WARREN, *words, "--help"], env=plain_environment() | {"COLUMNS": str(columns)},
                                          capture_output=True, text=True, check=True)
                    self.check(done.stdout, columns)

    def test_help_fits_a_real_terminal(self):
        for columns in WIDTHS:
            for words in self.ON_A_TERMINAL:
                with self.subTest(words=words, columns=columns):
                    text = on_terminal([WARREN, *words, "--help"], columns, env=plain_environment()).decode()
                    self.check(text, columns)

    def test_nothing_is_left_out_on_a_narrow_terminal(self):
        for words, wide in self.commands.items():
            with self.subTest(words=words):
                narrow = subprocess.run([WARREN, *words, "--help"], env=plain_environment() | {"COLUMNS": "40"},
                                        capture_output=True, text=True, check=True).stdout
                self.assertEqual(*(sorted(word for word in text.split() if word != "#") for text in (narrow, wide)))

    def test_a_usage_that_is_wrapped_is_indented(self):
        text = on_terminal([WARREN, "help", "checkpoint", "restore"], 40, env=plain_environment()).decode()
        self.assertIn("\nusage: warren checkpoint [ID] restore\n         [options] WHICH [PATH...]\n", text)

    def test_the_usage_after_a_mistake_is_wrapped_on_a_terminal_only(self):
        words = [WARREN, "checkpoint", "restore"]
        with tempfile.TemporaryDirectory() as empty:
            text = on_terminal(words, 40, env=plain_environment(), cwd=empty).decode()
            self.assertIn("\nusage: warren checkpoint [ID] restore\n         [options] WHICH [PATH...]\n", text)
            piped = subprocess.run(words, env=plain_environment() | {"COLUMNS": "40"}, cwd=empty, capture_output=True, text=True)
            self.assertIn("\nusage: warren checkpoint [ID] restore [options] WHICH [PATH...]\n", piped.stderr)

    def test_where_there_is_no_terminal_it_is_80_columns_wide(self):
        piped = subprocess.run([WARREN, "run", "--help"], env=plain_environment(), capture_output=True, text=True, check=True)
        same = subprocess.run([WARREN, "run", "--help"], env=plain_environment() | {"COLUMNS": "80"}, capture_output=True,
                              text=True, check=True)
        self.assertEqual(piped.stdout, same.stdout)
        self.assertEqual(max(map(len, piped.stdout.partition("\nexamples:\n")[0].splitlines())), 80)


if __name__ == "__main__":
    unittest.main()
