#!/usr/bin/env python3
"""`warren review` on a real terminal, which tmux provides.

    WARREN=path/to/warren review.py [-v] [Class.test_name]

Needs root and tmux.
"""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed

LINES = "".join(f"line {i}\n" for i in range(1, 41))


def with_lines(changes, whole=LINES):
    lines = whole.splitlines(keepends=True)
    for number, text in changes.items():
        lines[number - 1] = text + "\n"
    return "".join(lines)


class Case(unittest.TestCase):
    columns, rows = 80, 24

    def setUp(self):
        self.w = sandboxed.World()
        self.w.__enter__()
        self.addCleanup(self.w.__exit__)
        self.base = self.w.base
        self.terminals = 0
        (self.w.root / "tmux.conf").write_text("set -g status off\nset -g exit-empty off\n")
        (self.base / "text").write_text(LINES)

    def change(self, script, session="fix"):
        return self.w.inside(session, "sh", "-ec", script, cwd=self.base)

    def put(self, path, content, session="fix"):
        with self.w.start("run", "--session", session, "--", "sh", "-c", f"cat > '{path}'", stdin=subprocess.PIPE) as p:
            p.communicate(content.encode())
            self.assertEqual(p.returncode, 0)

    def tmux(self, *words):
        socket = self.w.root / f"tmux{self.terminals}"
        done = subprocess.run(["tmux", "-S", socket, "-f", self.w.root / "tmux.conf", *map(str, words)], capture_output=True,
                              encoding="utf-8", env=self.w.environment() | {"TERM": "xterm-256color", "LANG": "C.UTF-8"},
                              cwd=self.base, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def open_terminal(self, *words):
        """Another one: with its own server, which ends with the test's world."""
        self.terminals += 1
        self.tmux("new-session", "-d", "-x", self.columns, "-y", self.rows, *words)

    def start(self, *args, shell=False):
        """Starts the review in a terminal; `shell`: from an interactive shell, which has job control."""
        command = shlex.join([str(sandboxed.program()), "review", *args])
        report = "; echo \"ended with $?\"; stty -a | tr ' ;' '\\n\\n' | grep -x -e '-*echo' -e '-*icanon' | xargs echo terminal:; cat"
        words = ["bash", "--norc", "-i"] if shell else ["sh", "-c", command + report]
        self.open_terminal(*words)
        if shell:
            self.tmux("send-keys", "PS1='ready> '", "Enter")
            self.see("ready> ")
            self.tmux("send-keys", command, "Enter")
        self.see("taken")

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def see(self, text, is_there=True):
        """Waits until the text, or what a compiled pattern matches, is on the screen, or is not there any more."""
        seen = []
        def look():
            seen[:] = [self.screen()]
            found = text in seen[0] if isinstance(text, str) else text.search(seen[0])
            return bool(found) == is_there
        try:
            sandboxed.wait_for(look, "")
        except AssertionError:
            self.fail(f"{'never' if is_there else 'always'} on the screen: {text!r}\n{seen[0]}")
        return seen[0]

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def line_with(self, text):
        found = [line for line in self.see(text).splitlines() if text in line]
        self.assertTrue(found)
        return found[0]

    def pid(self):
        """Of the review itself."""
        for pid in self.w.processes():
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if len(words) > 1 and words[1] == b"review":
                return pid
        return self.fail("the review is not running")

    def alternate(self):
        return self.tmux("display-message", "-p", "#{alternate_on}").strip()

    def assert_restored(self):
        self.see("terminal: icanon echo")
        self.assertEqual(self.alternate(), "0")


class Reviewing(Case):
    def test_takes_one_change_and_leaves_the_other(self):
        self.change("echo changed > file; echo new > added")
        self.start()  # the only session of this directory
        self.assertIn("0 of 2 taken", self.screen())
        self.assertIn("[ ] A added", self.screen())
        self.keys("j", "Space")
        self.see("[x] M file")
        self.assertIn("+changed", self.screen())
        self.keys("Enter")
        self.see("Apply 1 of 2 changes? [y/N]")
        self.assertEqual((self.base / "file").read_text(), "of the base\n")
        self.keys("y")
        self.see("1 modified")
        self.see("ended with 0")
        self.assert_restored()
        self.assertEqual((self.base / "file").read_text(), "changed\n")
        self.assertFalse((self.base / "added").exists())
        self.assertEqual(self.w.warren("diff", "fix").stdout, "A f /added\n")

    def test_takes_one_part_of_a_file(self):
        self.put("text", with_lines({2: "near the top", 39: "near the end"}))
        self.start("fix")
        self.see("part 1 of 2")
        self.keys("Tab", "Down", "Space")
        self.see("[x] part 2 of 2")
        self.see("[~] M text")
        self.see("1 in part")
        self.keys("Enter", "y")
        self.see("ended with 0")
        self.assertEqual((self.base / "text").read_text(), with_lines({39: "near the end"}))
        self.assertIn("+near the top", self.w.warren("diff", "-p", "fix").stdout)

    def test_a_directory_is_taken_as_a_whole_and_can_be_folded(self):
        self.change("mkdir -p new/deep; for i in 1 2 3; do echo $i > new/deep/$i; done; echo x > other")
        self.start("fix")
        self.see("new/")
        self.keys("Space")
        self.see("5 of 6 taken")
        self.keys("Left")
        self.see("new/ (+4)")
        self.keys("Enter", "y")
        self.see("ended with 0")
        self.assertEqual(sorted(os.listdir(self.base / "new/deep")), ["1", "2", "3"])
        self.assertFalse((self.base / "other").exists())

    def test_quitting_writes_nothing(self):
        self.change("echo changed > file")
        for key in ("q", "C-c"):
            self.start("fix")
            self.keys("a")
            self.see("1 of 1 taken")
            self.keys("Enter", "n")
            self.see("nothing was applied")
            self.keys(key)
            self.see("nothing was written")
            self.see("ended with 1")
            self.assert_restored()
        self.assertEqual((self.base / "file").read_text(), "of the base\n")

    def test_help_and_nothing_taken(self):
        self.change("echo changed > file")
        self.start("fix")
        self.keys("?")
        self.see("take or leave the change")
        self.see("Any key goes back.")
        self.keys("x")
        self.see("[ ] M file")
        self.see("Any key goes back.", is_there=False)
        self.keys("Enter")
        self.see("nothing is taken")

    def test_a_conflict_is_never_taken_with_others_and_can_be_merged(self):
        self.put("text", with_lines({2: "of the agent"}))
        self.change("echo new > added")
        (self.base / "text").write_text(with_lines({39: "of the user"}))
        self.start("fix")
        self.keys("a")
        self.see("1 of 2 taken")
        self.see("[ ]!M text")
        self.keys("j", "m")
        self.see("[x]!M text")
        self.see("merged with the base")
        self.keys("Enter")
        self.see("Apply 2 of 2 changes? [y/N]")
        self.keys("y")
        self.see("ended with 0")
        self.assertEqual((self.base / "text").read_text(), with_lines({2: "of the agent", 39: "of the user"}))

    def delete_a_directory(self):
        (self.base / "gone").mkdir()
        for name in "fg":
            (self.base / "gone" / name).write_text("old\n")
        self.change("rm -r gone")
        (self.base / "gone/f").write_text("newer work of the user\n")
        self.start("fix")

    def test_all_does_not_take_a_directory_with_a_conflict_in_it(self):
        self.delete_a_directory()
        self.keys("a")
        self.see("1 of 3 taken")
        self.see("[~] D gone/")
        self.keys("n", "Space")  # on the directory: as little
        self.see("1 of 3 taken")
        self.see("[ ]!D f")
        self.keys("Enter")
        self.see("Apply 1 of 3 changes? [y/N]")
        self.keys("y")
        self.see("ended with 0")
        self.assertEqual(os.listdir(self.base / "gone"), ["f"])
        self.assertEqual((self.base / "gone/f").read_text(), "newer work of the user\n")
        self.assertIn("D d /gone", self.w.warren("diff", "fix").stdout)

    def test_what_is_excluded_is_not_deleted_with_its_directory(self):
        (self.base / "gone").mkdir()
        for name in ("keep", "one"):
            (self.base / "gone" / name).write_text("old\n")
        self.change("rm -r gone")
        self.start("--exclude", "keep", "fix")
        self.see("0 of 1 taken")
        self.keys("a")
        self.see("1 of 1 taken")
        self.keys("Enter")
        self.see("Apply 1 of 1 changes? [y/N]")
        self.keys("y")
        self.see("ended with 0")
        self.see("left: D d /gone: not possible without D f /gone/keep, which is excluded")
        self.assertEqual(os.listdir(self.base / "gone"), ["keep"])

    def test_a_directory_is_taken_with_a_conflict_only_if_that_is_taken_by_itself(self):
        self.delete_a_directory()
        self.keys("j", "Space")
        self.see("[x]!D f")
        self.keys("k", "Space")
        self.see("3 of 3 taken")
        self.keys("j", "Space")  # without it, the directory is left, too
        self.see("1 of 3 taken")
        self.keys("Space", "k", "Space", "Enter")
        self.see("Apply 3 of 3 changes, replacing newer work in 1 of them? [y/N]")
        self.keys("y")
        self.see("3 deleted")
        self.assertFalse((self.base / "gone").exists())

    def test_what_is_needed_is_shown_and_counted(self):
        self.change("mkdir src; echo f > src/f")
        self.w.warren("apply", "fix")
        self.change("mv src lib; echo agent > lib/f; echo x > other", "two")
        self.start("two")
        self.keys("j", "Space")
        self.see("[x] M f")
        self.see("2 of 3 taken")
        self.keys("Enter")
        self.see("Apply 2 of 3 changes? [y/N]")
        self.keys("n", "Space", "Enter")
        self.see("nothing is taken")

    def test_a_needed_conflict_is_decided_about_first(self):
        (self.base / "y").write_text("moved\n")
        self.change("rm file; mv y file")
        (self.base / "file").write_text("newer work of the user\n")
        self.start("fix")
        self.see("[ ]!D file")
        self.keys("j", "Space")
        self.see("[x]!R file")
        self.keys("Enter")
        self.see("decide about the conflict /file first")
        self.keys("k", "Space", "Enter")
        self.see("Apply 2 of 2 changes, replacing newer work in 2 of them? [y/N]")
        self.keys("n", "Space")
        self.see("0 of 2 taken")

    def test_replacing_newer_work_is_said_before(self):
        self.put("text", with_lines({2: "of the agent"}))
        (self.base / "text").write_text(with_lines({2: "of the user"}))
        self.start("fix")
        self.keys("m")
        self.see("cannot be merged automatically")
        self.keys("Space", "Enter")
        self.see("replacing newer work in 1 of them? [y/N]")
        self.keys("n")
        self.see("nothing was applied")
        self.keys("q")
        self.see("ended with 1")

    def test_strangers_cannot_control_the_terminal(self):
        self.change(r"""printf 'a\033[2J\033]0;owned\007b\n' > file; printf 'x\n' > "$(printf 'evil\033[31m\nname')" """)
        self.start("fix")
        self.see(r"evil\x1b[31m\x0aname")
        self.keys("j")
        self.see(r"+a\x1b[2J\x1b]0;owned\x07b")
        self.assertNotIn("owned", self.tmux("display-message", "-p", "#{pane_title}"))

    def test_files_that_run_by_themselves_are_asked_about_at_the_end(self):
        self.change("printf 'all:\\n\\ttrue\\n' > Makefile")
        self.start("fix")
        self.see("A /Makefile  [")
        self.keys("a", "Enter", "y")
        self.see("Apply them?")
        self.assertFalse((self.base / "Makefile").exists())
        self.keys("y", "Enter")
        self.see("ended with 0")
        self.assertTrue((self.base / "Makefile").exists())

    def test_who_does_not_agree_at_the_end_comes_back_with_everything_that_was_taken(self):
        self.change("printf 'all:\\n\\ttrue\\n' > Makefile; echo changed > file; echo new > added")
        self.start("fix")
        self.keys("a")
        self.see("3 of 3 taken")
        self.keys("Enter", "y")
        self.see("Apply them?")
        self.keys("n", "Enter")
        self.see("nothing was applied")
        self.see("3 of 3 taken")
        self.assertEqual(self.alternate(), "1")
        self.assertFalse((self.base / "Makefile").exists())
        self.keys("Space")  # the first line is the Makefile
        self.see("[ ] A Makefile")
        self.keys("Enter")
        self.see("Apply 2 of 3 changes? [y/N]")
        self.keys("y")
        self.see("ended with 0")
        self.assert_restored()
        self.assertEqual((self.base / "file").read_text(), "changed\n")
        self.assertEqual(self.w.warren("diff", "fix", "--name-only").stdout, "/Makefile\n")

    def test_who_quits_after_that_writes_nothing(self):
        self.change("printf 'all:\\n\\ttrue\\n' > Makefile")
        self.start("fix")
        self.keys("a", "Enter", "y")
        self.see("Apply them?")
        self.keys("n", "Enter")
        self.see("1 of 1 taken")
        self.keys("q")
        self.see("ended with 1")
        self.assert_restored()
        self.assertFalse((self.base / "Makefile").exists())

    def test_only_a_path(self):
        self.change("echo 1 > dir/inner; echo 2 > file")
        self.start("fix", "dir")
        self.see("0 of 1 taken")
        self.keys("q")

    def test_large_changes(self):
        self.change("mkdir many; seq 400 | sed 's,^,many/,' | xargs touch; seq 300000 > large; seq 3 300002 > text")
        self.start("fix")
        self.see("many/ (+400)")
        self.keys("End")
        self.see("part 1 of")
        self.keys("Up")
        self.see("+12")
        self.keys("Tab", "NPage", "NPage")
        self.see("+40")
        self.keys("q")
        self.see("nothing was written")

    def test_a_running_agent_that_goes_on_cannot_smuggle_parts_in(self):
        self.put("text", with_lines({2: "good", 39: "fine"}))
        self.start("fix")
        self.keys("Tab", "Space")
        self.see("[x] part 1 of 2")
        self.put("text", with_lines({2: "bad", 20: "worse", 39: "fine"}))
        self.keys("Enter", "y")
        self.see("was changed since you looked at it")
        self.see("0 of 1 taken")
        self.keys("q")
        self.see("ended with 1")
        self.assertEqual((self.base / "text").read_text(), LINES)

    def test_nor_a_whole_file(self):
        self.put("new", "good\n")
        self.change("echo changed > file")
        self.start("fix")
        self.keys("a")
        self.see("2 of 2 taken")
        self.put("new", "evil\n")
        self.keys("Enter", "y")
        self.see("'/new' was changed since you looked at it")
        self.see("[ ] A new")
        self.see("+evil")
        self.see("1 of 2 taken")
        self.assertEqual((self.base / "file").read_text(), "of the base\n")
        self.keys("Enter", "y")
        self.see("ended with 0")
        self.assertFalse((self.base / "new").exists())
        self.assertEqual((self.base / "file").read_text(), "changed\n")

    def test_nor_a_file_that_is_only_needed(self):
        self.change("mv file moved; echo more >> moved; echo new > file; echo new > other")
        self.start("fix")
        self.keys("Space")
        self.see("[x] A file")
        self.see("[x] R moved")
        self.keys("End", "Space")
        self.see("3 of 3 taken")
        self.change("echo evil >> moved")
        self.keys("Enter", "y")
        self.see("'/moved' was changed since you looked at it")
        self.see("[ ] R moved")
        self.see("1 of 3 taken")
        self.assertEqual((self.base / "file").read_text(), "of the base\n")
        self.assertFalse((self.base / "moved").exists())
        self.keys("Enter", "y")
        self.see("ended with 0")
        self.assertTrue((self.base / "other").exists())
        self.assertEqual((self.base / "file").read_text(), "of the base\n")

    def test_a_deletion_that_a_running_agent_takes_back_is_not_written(self):
        self.change("rm file; echo new > added")
        self.start("fix")
        self.keys("a")
        self.see("2 of 2 taken")
        self.put("file", "again\n")
        self.keys("Enter", "y")
        self.see("'/file' was changed since you looked at it")
        self.see("[ ] M file")
        self.see("1 of 2 taken")
        self.assertEqual((self.base / "file").read_text(), "of the base\n")
        self.keys("Enter", "y")
        self.see("ended with 0")
        self.assertEqual((self.base / "file").read_text(), "of the base\n")
        self.assertTrue((self.base / "added").exists())

    def test_nor_that_of_a_directory_that_it_makes_again(self):
        (self.base / "gone").mkdir()
        (self.base / "gone/f").write_text("old\n")
        self.change("rm -r gone")
        self.start("fix")
        self.keys("a")
        self.see("2 of 2 taken")
        self.change("mkdir gone")
        self.keys("Enter", "y")
        self.see("'/gone' was changed since you looked at it")
        self.see("1 of 1 taken")  # the file stays deleted
        self.assertTrue((self.base / "gone/f").exists())
        self.keys("Enter", "y")
        self.see("ended with 0")
        self.assertEqual(os.listdir(self.base / "gone"), [])

    def test_a_deletion_that_makes_room_for_something_else_is_written(self):
        for name in ("one", "two"):
            (self.base / name).mkdir()
            (self.base / name / "f").write_text("old\n")
        self.change("rm file; mkdir file; echo new > file/f; rm -r dir; ln -s one dir; rm -r one; mv two one")
        self.start("fix")
        self.keys("a", "Enter", "y")
        self.see("ended with 0")
        self.assertEqual((self.base / "file/f").read_text(), "new\n")
        self.assertEqual(os.readlink(self.base / "dir"), "one")
        self.assertEqual(os.listdir(self.base / "one"), ["f"])
        self.assertFalse((self.base / "two").exists())
        self.assertEqual(self.w.sessions(), [])


class OneByOne(Case):
    """`warren apply -i`."""

    def ask(self, *args):
        command = shlex.join([str(sandboxed.program()), "apply", "-i", *args])
        self.open_terminal("sh", "-c", command + "; echo \"ended with $?\"; cat")

    def test_what_is_only_needed_is_not_written_as_nobody_has_seen_it(self):
        (self.base / "second").write_text("moved on\n")
        self.change("mv second third; echo more >> third; mv file second; echo new > file")
        self.ask("fix", "file")
        self.see("A f /file")
        self.keys("y", "Enter")
        self.see("R f /file -> /second")
        self.change("echo evil >> third")  # the second can only be written if it moves to there
        self.keys("y", "Enter")
        self.see("nothing was written: '/third' was changed since you looked at it")
        self.see("ended with 1")
        self.assertEqual((self.base / "file").read_text(), "of the base\n")
        self.assertFalse((self.base / "third").exists())

    def test_a_deletion_that_is_taken_back_before_the_last_question_is_not_written(self):
        self.change("rm file; printf 'all:\\n\\ttrue\\n' > Makefile")
        self.ask("fix")
        self.see("A f /Makefile")
        self.keys("y", "Enter")
        self.see("D f /file")
        self.put("file", "again\n")
        self.keys("y", "Enter")
        self.see("nothing was written: '/file' was changed since you looked at it")
        self.see("ended with 1")
        self.assertEqual((self.base / "file").read_text(), "of the base\n")
        self.assertFalse((self.base / "Makefile").exists())


class Meanwhile(Case):
    """The base changes while the user looks: nothing is written, and what is taken stays so."""

    def refused(self, why, taken):
        self.keys("Enter", "y")
        self.see(why)
        self.see(taken)
        self.assertEqual(self.alternate(), "1")

    def test_what_the_base_has_changed_is_left_as_a_conflict_and_the_rest_stays_taken(self):
        self.put("text", with_lines({2: "near the top", 39: "near the end"}))
        self.change("echo changed > file; echo new > added; echo 2 > dir/inner")
        self.start("fix")
        self.keys("a")
        self.see("4 of 4 taken")
        self.keys("End", "Tab", "Space")  # all of the text but its first part
        self.see("1 in part")
        (self.base / "file").write_text("of the user\n")
        self.refused("nothing was written: '/file' was just changed in the base", "2 of 4 taken, 1 in part")
        self.assertEqual((self.base / "text").read_text(), LINES)
        self.see("[ ]!M file")
        self.see("+changed")  # it is the selected one
        self.keys("Enter")
        self.see("Apply 3 of 4 changes, 1 in part? [y/N]")
        self.keys("y")
        self.see("ended with 0")
        self.assert_restored()
        self.assertEqual((self.base / "file").read_text(), "of the user\n")
        self.assertEqual((self.base / "added").read_text(), "new\n")
        self.assertEqual((self.base / "text").read_text(), with_lines({39: "near the end"}))
        self.assertEqual(self.w.warren("diff", "fix", "--name-only").stdout, "/file\n/text\n")

    def test_a_file_that_the_base_has_got_is_left(self):
        self.change("echo changed > file; echo new > added")
        self.start("fix")
        self.keys("a")
        self.see("2 of 2 taken")
        (self.base / "added").write_text("of the user\n")
        self.refused("nothing was written", "1 of 2 taken")
        self.see("!M added")
        self.assertEqual((self.base / "file").read_text(), "of the base\n")
        self.keys("q")
        said = self.see("ended with 1")
        self.assertIn("warren: nothing was written: '/added' was changed by another process during the\napply\n", said)
        self.assert_restored()
        self.assertEqual((self.base / "added").read_text(), "of the user\n")

    def test_a_path_without_a_change_by_now_does_not_end_it(self):
        self.change("echo changed > file; echo new > added")
        self.start("fix", "added", "file")
        self.keys("a")
        self.see("2 of 2 taken")
        (self.base / "file").write_text("of the user\n")
        self.change("rm added")
        self.refused("nothing was written", "0 of 1 taken")
        self.see("[ ]!M file")
        self.keys("q")
        said = self.see("ended with 1")
        self.assertRegex(said, "warren: nothing was written: .* was .*changed .*\nhint: (try|review it) again\n")
        self.assertNotIn("match", said)

    def test_a_conflict_that_was_taken_is_looked_at_again(self):
        self.change("echo changed > file")
        (self.base / "file").write_text("of the user\n")
        self.start("fix")
        self.keys("Space")
        self.see("[x]!M file")
        (self.base / "file").write_text("newer work of the user\n")
        self.refused("was just changed in the base", "0 of 1 taken")
        self.keys("q")
        self.see("ended with 1")
        self.assertEqual((self.base / "file").read_text(), "newer work of the user\n")

    def test_what_needs_the_new_conflict_is_left_with_it(self):
        (self.base / "gone").mkdir()
        (self.base / "gone/f").write_text("old\n")
        self.change("rm -r gone; echo changed > file")
        self.start("fix")
        self.keys("a")
        self.see("3 of 3 taken")
        (self.base / "gone/f").write_text("of the user\n")
        self.refused("was just changed in the base", "1 of 3 taken")
        self.see("[ ]!D f")
        self.keys("Enter", "y")
        self.see("ended with 0")
        self.assertEqual((self.base / "gone/f").read_text(), "of the user\n")
        self.assertEqual((self.base / "file").read_text(), "changed\n")


class Blocked(Case):
    """The base has a link in place of a directory in which the agent has made something."""

    def setUp(self):
        super().setUp()
        self.change("echo new > dir/new; mkdir dir/made; echo new > dir/made/new; echo changed > file")
        (self.base / "dir").rename(self.base / "aside")
        (self.base / "dir").symlink_to("aside")
        self.start("fix")
        self.see("[ ]!A new")

    def test_it_cannot_be_taken_and_the_reason_is_in_view(self):
        why = "it cannot be taken: the base has a link at '/dir' now"
        self.keys("j", "j", "j")  # /dir/new, below /dir/made with its file
        self.see("!")
        for key in ("Space", "m"):
            self.keys(key)
            self.see(why)
            self.see("0 of 4 taken")
            self.keys("?", "?")
            self.see(why, is_there=False)
        self.keys("Home", "j", "Space")  # the new directory
        self.see(why)
        self.keys("j", "Space")  # what is in it
        self.see("1 of 4 taken")
        self.keys("Enter")
        self.see("leave /dir/made/new: it needs /dir/made, which cannot be taken")
        self.keys("Space")
        self.see("0 of 4 taken")

    def test_everything_else_can_be(self):
        self.keys("a")
        self.see("1 of 4 taken")
        self.keys("Enter", "y")
        self.see("ended with 0")
        self.assertEqual((self.base / "file").read_text(), "changed\n")
        self.assertEqual(os.listdir(self.base / "aside"), ["inner"])


class Conflicts(Case):
    """Both have changed line 20; the agent also lines 2 and 39, the user also line 10."""

    USER = {10: "user 10", 20: "user 20"}

    def both(self):
        self.put("text", with_lines({2: "agent 2", 20: "agent 20", 39: "agent 39"}))
        (self.base / "text").write_text(with_lines(self.USER))
        self.start("fix")
        self.see("[ ]!M text")

    def text(self):
        return (self.base / "text").read_text()

    def apply(self, asked, status=0):
        self.keys("Enter")
        self.see(asked)
        self.keys("y")
        self.see(f"ended with {status}")

    def added(self):
        patch = self.w.warren("diff", "-p", "fix").stdout
        return [line[1:] for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]

    def test_its_parts_are_taken_one_by_one(self):
        self.both()
        self.see("[ ] part 1 of 3  @@ -2,1 +2,1 @@")
        self.keys("Tab", "Down")
        self.see("[ ] part 2 of 3  conflict: - base's, + agent's")
        self.assertIn("-user 20", self.screen())
        self.assertIn("+agent 20", self.screen())
        self.assertEqual(self.screen().splitlines()[-1].strip(),
                         "space agent's/base's  b both  up/down part  tab tree  enter apply  ? help")
        self.keys("Up", "Space")
        self.see("[x] part 1 of 3")
        self.see("[~]!M text")
        self.see("merged with the base")
        self.apply("Apply 1 of 1 changes, 1 in part? [y/N]")
        self.assertEqual(self.text(), with_lines(self.USER | {2: "agent 2"}))
        self.assertEqual(self.added(), ["agent 20", "agent 39"])
        self.start("fix")
        self.see("[ ] part 1 of 2  conflict")
        self.keys("Space")
        self.see("replaces newer work")
        self.apply("replacing newer work in 1 of them? [y/N]")
        self.assertEqual(self.text(), with_lines(self.USER | {2: "agent 2", 20: "agent 20", 39: "agent 39"}))
        self.assertEqual(self.w.sessions(), [])

    def test_both_versions_between_markers(self):
        self.both()
        self.keys("Tab", "b")
        self.see("only the agent has changed these lines")
        self.keys("Down", "b")
        self.see("[b] part 2 of 3")
        self.see("merged, with conflict markers")
        self.keys("b")
        self.see("[ ] part 2 of 3")
        self.keys("Tab", "b")
        self.see("[x]!M text")
        self.see("[b] part 2 of 3")
        self.keys("Enter")
        self.see("Apply 1 of 1 changes, with markers in 1? [y/N]")
        self.keys("y")
        self.see("conflict markers: /text: edit it")
        self.see("ended with 1")
        marked = "<<<<<<< agent\nagent 20\n=======\nuser 20\n>>>>>>> base"
        self.assertEqual(self.text(), with_lines({2: "agent 2", 10: "user 10", 20: marked, 39: "agent 39"}))

    def test_space_remembers_how_it_was_taken(self):
        self.both()
        self.keys("m")
        self.see("it cannot be merged automatically: tab goes to its parts, b writes both")
        self.keys("b")
        self.see("[b] part 2 of 3")
        self.keys("Space")
        self.see("[ ] part 2 of 3")
        self.see("0 of 1 taken")
        self.keys("Space")
        self.see("[b] part 2 of 3")
        self.keys("n")
        self.see("0 of 1 taken")
        self.keys("Space", "Tab", "Down", "Space")
        self.see("[x] part 2 of 3")
        self.keys("Tab", "Space")
        self.see("0 of 1 taken")
        self.keys("Space")
        self.see("[x] part 2 of 3")
        self.see("replaces newer work")
        self.keys("q")

    def test_space_remembers_a_merge(self):
        self.put("text", with_lines({2: "agent 2"}))
        (self.base / "text").write_text(with_lines({10: "user 10"}))
        self.start("fix")
        self.keys("m")
        self.see("merged with the base")
        self.keys("Space")
        self.see("0 of 1 taken")
        self.keys("Space")
        self.see("merged with the base")
        self.apply("Apply 1 of 1 changes? [y/N]")
        self.assertEqual(self.text(), with_lines({2: "agent 2", 10: "user 10"}))

    def test_a_renamed_file_has_no_parts_and_remembers_its_merge(self):
        self.put("text", with_lines({2: "agent 2"}))
        self.change("mv text renamed")
        (self.base / "text").write_text(with_lines({10: "user 10"}))
        self.start("fix")
        self.see("it is not a changed text file: it is taken as a whole")
        self.keys("m")
        self.see("merged with the base")
        self.keys("Space")
        self.see("0 of 1 taken")
        self.keys("Space")
        self.see("merged with the base")
        self.keys("m")
        self.see("replaces newer work")
        self.keys("m")
        self.apply("Apply 1 of 1 changes? [y/N]")
        self.assertEqual((self.base / "renamed").read_text(), with_lines({2: "agent 2", 10: "user 10"}))

    def test_without_an_ancestor_it_is_taken_as_a_whole(self):
        self.change(r"printf 'a\0b' > file")
        (self.base / "file").write_text("of the user\n")
        self.start("fix")
        self.see("it is not text: it is taken as a whole")
        self.keys("m")
        self.see("it cannot be merged automatically")
        self.keys("Space")
        self.see("replaces newer work")
        self.apply("replacing newer work in 1 of them? [y/N]")
        self.assertEqual((self.base / "file").read_bytes(), b"a\0b")

    def test_an_edit_meanwhile_is_not_overwritten(self):
        for more in ({30: "user 30"}, {20: "USER 20"}):
            later = with_lines(self.USER | more)
            self.both()
            self.keys("Tab", "Space")
            self.see("[x] part 1 of 3")
            (self.base / "text").write_text(later)
            self.keys("Enter", "y")
            self.see(re.compile("was just changed in the base|was changed since you looked at it"))
            self.see("0 of 1 taken")
            self.keys("q")
            self.see("ended with 1")
            self.assertEqual(self.text(), later)
            self.w.warren("sessions", "delete", "--yes", "fix")
            (self.base / "text").write_text(LINES)

    def test_the_help_fits_on_the_screen(self):
        self.both()
        self.keys("?")
        self.see("Any key goes back.")
        self.assertIn("b                  take both versions of a conflict, between conflict markers", self.screen())
        self.assertTrue(all(len(line) < self.columns for line in self.screen().splitlines()))


class Terminal(Case):
    def test_resizing(self):
        self.put("text", with_lines({2: "near the top"}))
        self.start("fix")
        side_by_side = re.compile(r"-line 2 +\|\+near the top")
        self.see("-line 2")
        self.see(side_by_side, is_there=False)
        self.tmux("resize-window", "-x", 200, "-y", 50)
        self.see(side_by_side)
        self.tmux("resize-window", "-x", 30, "-y", 5)
        self.see("q quits; 40 columns")
        self.tmux("resize-window", "-x", 80, "-y", 24)
        self.see("[ ] M text")
        self.keys("q")
        self.see("ended with 1")

    def test_signals_restore_the_terminal(self):
        self.change("echo changed > file")
        for which in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            self.start("fix")
            self.assertEqual(self.alternate(), "1")
            os.kill(self.pid(), which)
            self.see("nothing was written")
            self.assert_restored()

    def test_stopping_and_continuing(self):
        self.change("echo changed > file")
        self.start("fix", shell=True)
        self.keys("C-z")
        self.see("Stopped")
        self.assertEqual(self.alternate(), "0")
        self.keys("stty -a | grep -q ' echo ' && printf 'restored%s' 42", "Enter")
        self.see("restored42")
        self.keys("fg", "Enter")
        self.see("0 of 1 taken")
        self.assertEqual(self.alternate(), "1")
        self.keys("Space")
        self.see("1 of 1 taken")
        os.kill(self.pid(), signal.SIGTSTP)
        self.see("1 of 1 taken", is_there=False)
        self.assertEqual(self.alternate(), "0")
        self.keys("fg", "Enter")
        self.see("1 of 1 taken")
        self.keys("q")
        self.see("nothing was written")

    def test_not_a_terminal(self):
        self.change("echo changed > file")
        done = self.w.warren("review", "fix")
        self.assertEqual(done.returncode, 1)
        self.assertIn("review needs a terminal", done.stderr)

    def test_nothing_to_review(self):
        self.w.run("--session", "fix", "--keep", "--", "true")
        self.open_terminal("sh", "-c", f"{sandboxed.program()} review fix; cat")
        self.see("there are no changes to review")


class Wide(Case):
    columns, rows = 200, 50

    def test_side_by_side(self):
        self.put("text", with_lines({2: "near the top", 39: "\u6f22\u5b57 wide"}))
        self.start("fix")
        line = self.line_with("near the top")
        self.assertRegex(line, r"\|-line 2 +\|\+near the top")
        self.assertRegex(self.line_with("\u6f22\u5b57"), "\\|-line 39 +\\|\\+\u6f22\u5b57 wide")
        self.keys("Space", "Enter", "y")
        self.see("ended with 0")
        self.assertEqual((self.base / "text").read_text(), with_lines({2: "near the top", 39: "\u6f22\u5b57 wide"}))


if __name__ == "__main__":
    sandboxed.need_fuse()
    if not shutil.which("tmux"):
        sys.exit("review.py needs tmux: tools/setup installs it")
    unittest.main()
