#!/usr/bin/env python3
"""apply -i: a file that the user and the agent have both changed is decided part by part.

    WARREN=path/to/warren conflict_parts.py [-v] [Class.test_name]
"""
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted


class Parts(Case):
    """Both have changed line 10; the agent also lines 2 and 18, the user also line 6."""

    def lines(self, **texts):
        lines = list(self.LINES)
        for number, text in texts.items():
            lines[int(number[1:]) - 1] = text + "\n"
        return "".join(lines)

    def both(self):
        self.fill(a="".join(self.LINES))
        self.write("/a", self.lines(n2="agent 2", n10="agent 10", n18="agent 18"))
        self.user = self.lines(n6="user 6", n10="user 10")
        overlaid.write(self.base / "a", self.user)

    def interactive(self, answers):
        return self.talk(["apply", "-i", self.w.id], answers.encode()).decode().replace("\r\n", "\n")

    def patch(self):
        return self.w.warren("diff", "-p", self.w.id, "/a").decode()

    def added(self):
        return [line[1:] for line in self.patch().splitlines() if line.startswith("+") and not line.startswith("+++")]

    def test_what_merges_is_taken_one_by_one(self):
        self.both()
        said = self.interactive("s\ny\nn\nn\n")
        self.assertIn("(3 parts, 1 in conflict)", said)
        self.assertEqual(self.read("a"), self.lines(n2="agent 2", n6="user 6", n10="user 10"))
        # The rest is a change of the session still, in conflict still, and what the base has is not in it any more.
        self.assertEqual(self.w.lines(), ["M f /a  [conflict: it was changed in the base]"])
        self.assertEqual(self.added(), ["agent 10", "agent 18"])
        self.assertIn("(2 parts, 1 in conflict)", self.interactive("q\n"))
        self.w.fails("apply", self.w.id)
        self.interactive("s\nn\ny\n")
        self.assertEqual(self.read("a"), self.lines(n2="agent 2", n6="user 6", n10="user 10", n18="agent 18"))
        self.assertEqual(self.added(), ["agent 10"])

    def test_a_part_in_conflict_is_shown_with_both_sides(self):
        self.both()
        said = self.interactive("s\nn\n?\ny\nn\n")
        self.assertIn("-user 10\n+agent 10\n", said)
        self.assertIn("part 2 of 3, conflict: - is the base's, + the agent's", said)
        self.assertIn("b: write both versions", said)
        self.assertIn(" line 7\n line 8\n line 9\n-user 10", said)
        self.assertEqual(self.read("a"), self.lines(n6="user 6", n10="agent 10"))

    def test_all_of_the_file(self):
        self.both()
        self.interactive("s\ny\ny\ny\n")
        self.assertEqual(self.read("a"), self.lines(n2="agent 2", n6="user 6", n10="agent 10", n18="agent 18"))
        self.assertEqual(self.w.lines(), [])
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.read("a"), self.user)

    def test_all_the_rest_does_not_take_conflicts(self):
        self.both()
        said = self.interactive("s\na\nn\n")
        self.assertEqual(said.count("[?]help"), 3)  # the file, part 1 and part 2
        self.assertEqual(self.read("a"), self.lines(n2="agent 2", n6="user 6", n10="user 10", n18="agent 18"))

    def test_both_versions_between_markers(self):
        self.both()
        said = self.interactive("s\nb\nn\nb\ny\n")
        self.assertIn("only the agent has changed these lines", said)
        self.assertIn("conflict markers: /a: edit it", said)
        marked = "<<<<<<< agent\nagent 10\n=======\nuser 10\n>>>>>>> base"
        self.assertEqual(self.read("a"), self.lines(n6="user 6", n10=marked, n18="agent 18"))
        self.assertEqual(self.added()[0], "agent 2")

    def test_nothing_taken(self):
        self.both()
        for answers in ("s\nn\nn\nn\n", "s\nd\n", "s\nn\nq\n", "s\ny\n\x04", "n\n"):
            self.interactive(answers)
            self.assertEqual(self.read("a"), self.user)
        self.assertEqual(self.added(), ["agent 2", "agent 10", "agent 18"])

    def test_an_edit_meanwhile_is_never_overwritten(self):
        self.both()
        later = self.user + "later\n"
        said = self.interactive_with_edit("s\ny\n", later, "n\nn\n")
        self.assertIn("was just changed in the base", said)
        self.assertEqual(self.read("a"), later)
        self.assertEqual(self.w.lines(), ["M f /a  [conflict: it was changed in the base]"])

    def interactive_with_edit(self, first, content, rest):
        """The user edits the file once the first answers were given and part 2 is on the screen."""
        leader, follower = pty.openpty()
        child = subprocess.Popen([mounted.program(), "apply", "-i", self.w.id], cwd=self.w.home, env=self.w.environment(),
                                 stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        os.write(leader, first.encode())
        said = b""
        while b"part 2 of 3" not in said:
            said += os.read(leader, 4096)
        overlaid.write(self.base / "a", content)
        os.write(leader, rest.encode())
        while True:
            try:
                said += os.read(leader, 4096)
            except OSError:
                break
        self.assertEqual(child.wait(timeout=60), 1)
        os.close(leader)
        return said.decode()

    def test_after_an_undo_it_is_in_conflict_again_and_whole(self):
        for answers in ("s\ny\nn\nn\n", "s\nn\ny\nn\n", "s\ny\ny\nn\n"):
            with self.subTest(answers):
                self.doCleanups()
                self.setUp()
                self.both()
                self.interactive(answers)
                self.assertNotEqual(self.read("a"), self.user)
                self.w.warren("undo", self.w.id)
                self.assertEqual(self.read("a"), self.user)
                self.assertIn("conflict: /a", self.w.fails("apply", self.w.id))
                self.assertEqual(self.added(), ["agent 2", "agent 10", "agent 18"])
                self.assertIn("(3 parts, 1 in conflict)", self.interactive("q\n"))

    def test_so_it_is_if_the_agent_had_replaced_the_file(self):
        self.fill(a="".join(self.LINES))
        self.write("/b", self.lines(n2="agent 2", n10="agent 10", n18="agent 18"))
        self.fs("mv", "/b", "/a")
        self.user = self.lines(n6="user 6", n10="user 10")
        overlaid.write(self.base / "a", self.user)
        self.assertIn("(3 parts, 1 in conflict)", self.interactive("s\ny\nn\nn\n"))
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.read("a"), self.user)
        self.assertIn("conflict: /a", self.w.fails("apply", self.w.id))
        self.assertEqual(self.read("a"), self.user)

    def test_after_a_crash_nothing_of_the_user_is_taken_back(self):
        if not shutil.which("strace"):
            self.skipTest("needs strace")
        killed = 0
        for nth in range(1, 12):
            self.doCleanups()
            self.setUp()
            self.both()
            words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2,unlinkat", "-e",
                     f"inject=renameat2,unlinkat:signal=KILL:when={nth}", mounted.program(), "apply", "-i", self.w.id]
            program, mounted.program = mounted.program, lambda: words[0]
            try:
                self.talk(words[1:], b"s\ny\nn\nn\n")
            finally:
                mounted.program = program
            done = self.w.run("apply", "--recover", self.w.id)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(self.read("a"), (self.user, self.lines(n2="agent 2", n6="user 6", n10="user 10")))
            killed += self.read("a") == self.user
            rest = ["agent 10", "agent 18"]
            self.assertEqual(self.added(), rest if "agent 2" in self.read("a") else ["agent 2", *rest])
            self.assertIn("conflict: /a", self.w.fails("apply", self.w.id))
        self.assertGreater(killed, 0)

    def test_in_a_mounted_session(self):
        self.both()
        point = self.w.mount()
        agents = (point / "a").read_text()
        self.interactive("s\ny\nn\nn\n")
        self.assertEqual((point / "a").read_text(), agents)
        self.interactive("s\ny\ny\n")
        whole = self.lines(n2="agent 2", n6="user 6", n10="agent 10", n18="agent 18")
        self.assertEqual((self.read("a"), (point / "a").read_text()), (whole, whole))
        self.w.umount(point)
        self.w.fsck()
        self.assertEqual(self.w.lines(), [])

    def test_a_file_that_the_agent_replaced(self):
        self.fill(a="".join(self.LINES))
        self.w.change(lambda p: (overlaid.write(p + "/draft", self.lines(n2="agent 2", n18="agent 18")), os.rename(p + "/draft", p + "/a")))
        overlaid.write(self.base / "a", self.lines(n10="user 10"))
        self.interactive("s\nn\ny\n")
        self.assertEqual(self.read("a"), self.lines(n10="user 10", n18="agent 18"))
        self.assertEqual(self.added(), ["agent 2"])
        self.w.warren("apply", "--merge", self.w.id)
        self.assertEqual(self.read("a"), self.lines(n2="agent 2", n10="user 10", n18="agent 18"))
        self.assertEqual(self.w.lines(), [])

    def test_a_file_that_both_have_added(self):
        self.fill(z="1\n")
        self.write("/a", self.lines(n2="agent 2"))
        overlaid.write(self.base / "a", self.lines(n2="user 2", n15="user 15"))
        said = self.interactive("s\ny\nn\n")
        self.assertIn("(2 parts, 2 in conflict)", said)
        self.assertEqual(self.read("a"), self.lines(n2="agent 2", n15="user 15"))

    def both_fill(self):
        self.fill(a="", replaced="")
        text = self.lines(n2="agent 2")
        self.w.change(lambda p: (overlaid.write(p + "/a", text), overlaid.write(p + "/draft", text),
                                 os.rename(p + "/draft", p + "/replaced")))
        for name in ("a", "replaced"):
            overlaid.write(self.base / name, self.lines(n2="user 2", n15="user 15"))

    def test_an_empty_file_that_both_have_filled(self):
        self.both_fill()
        said = self.interactive("s\ny\nn\ns\nn\ny\n")
        self.assertEqual(said.count("(2 parts, 2 in conflict)"), 2)
        self.assertEqual(self.read("a"), self.lines(n2="agent 2", n15="user 15"))
        self.assertEqual(self.read("replaced"), self.lines(n2="user 2"))

    def test_an_empty_file_that_both_have_filled_gets_markers(self):
        self.both_fill()
        self.w.fails("apply", "--merge", self.w.id)
        self.w.fails("apply", "--conflict=markers", self.w.id)
        for name in ("a", "replaced"):
            self.assertIn("<<<<<<< agent\nagent 2\n", self.read(name))
            self.assertIn("user 2\n>>>>>>> base\n", self.read(name))

    def test_an_empty_file_that_the_user_has_touched_is_no_conflict(self):
        self.fill(a="")
        self.write("/a", "agent\n")
        os.utime(self.base / "a", (1, 1))
        self.w.warren("apply", self.w.id)
        self.assertEqual(self.read("a"), "agent\n")

    def test_a_file_with_other_names_is_written_in_place(self):
        overlaid.write(self.base / "a", "".join(self.LINES))
        os.link(self.base / "a", self.base / "second")
        self.w.init()
        self.write("/a", self.lines(n2="agent 2", n18="agent 18"))
        old = os.stat(self.base / "a")
        # A session can give its file any time: also that of the file that it has seen.
        self.w.change(lambda p: os.utime(p + "/a", ns=(old.st_mtime_ns, old.st_mtime_ns)))
        overlaid.write(self.base / "a", self.lines(n10="user10x", n20="u 20"))
        self.interactive("s\ny\nn\n")
        written = self.lines(n2="agent 2", n10="user10x", n20="u 20")
        self.assertEqual((self.read("a"), self.read("second")), (written, written))
        self.assertIn("conflict: /a", self.w.fails("apply", self.w.id, "/a"))

    def test_where_there_are_no_parts_it_says_why(self):
        self.fill(binary="1\n", large="x" * 70 + "\n" + "line\n" * 60000, gone="1\n")
        self.w.change(lambda p: (overlaid.write(p + "/binary", b"\0agent"), self.append(p + "/large"), overlaid.write(p + "/gone", "2\n")))
        for name in ("binary", "large"):
            self.append(self.base / name, "of the user\n")
        (self.base / "gone").unlink()
        said = self.interactive("s\nn\ns\nn\ns\ny\n")
        self.assertIn("it has no parts: it is not text; y writes all of the agent's version", said)
        self.assertIn("it has no parts: it is not a changed text file; y writes", said)
        self.assertIn("it has no parts: the version that the agent started from was not kept; y writes", said)
        self.assertTrue(self.read("large").endswith("line\nof the agent\n"))
        self.assertFalse((self.base / "gone").exists())

    @staticmethod
    def append(path, text="of the agent\n"):
        with open(path, "a") as file:
            file.write(text)

    def test_a_merge_of_which_something_is_left_out_does_not_take_back_newer_work(self):
        self.fill(a="".join(self.LINES))
        self.write("/a", self.lines(n2="agent 2"))
        self.w.change(lambda p: os.chmod(p + "/a", 0o4755))
        overlaid.write(self.base / "a", self.lines(n10="user 10"))
        self.w.warren("apply", "--merge", self.w.id)
        both = self.lines(n2="agent 2", n10="user 10")
        self.assertEqual(self.read("a"), both)
        self.w.run("apply", "--privileged", "/a", self.w.id)
        self.assertEqual(self.read("a"), both)

    def test_after_the_undo_of_a_merge_the_session_goes_on_from_it(self):
        self.fill(a="".join(self.LINES))
        point = self.w.mount()
        overlaid.write(point / "a", self.lines(n2="agent 2"))
        self.user = self.lines(n10="user 10")
        overlaid.write(self.base / "a", self.user)
        self.w.warren("apply", "--merge", self.w.id)
        later = self.lines(n2="agent 2", n10="user 10", n18="agent 18")
        overlaid.write(point / "a", later)
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.read("a"), self.user)
        self.assertEqual(self.added(), ["agent 2", "agent 18"])
        self.w.warren("apply", self.w.id)
        self.assertEqual(self.read("a"), later)
        self.w.umount(point)


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
