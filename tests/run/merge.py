#!/usr/bin/env python3
"""`warren merge`: one session of two.

    WARREN=path/to/warren merge.py [-v] [Class.test_name]

Needs root.
"""
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed

LINES = "".join(f"line {i}\n" for i in range(1, 31))


def with_line(number, text, whole=LINES):
    lines = whole.splitlines(keepends=True)
    lines[number - 1] = text + "\n"
    return "".join(lines)


class Case(unittest.TestCase):
    def setUp(self):
        self.w = sandboxed.World()
        self.w.__enter__()
        self.addCleanup(self.w.__exit__)
        self.base = self.w.base
        (self.base / "text").write_text(LINES)
        (self.base / "blob").write_bytes(b"\0\1\2")
        for name in ("d/one", "d/two", "e/deep/three"):
            (self.base / name).parent.mkdir(parents=True, exist_ok=True)
            (self.base / name).write_text(name + "\n")

    def change(self, session, script):
        return self.w.inside(session, "sh", "-ec", script, cwd=self.base)

    def put(self, session, path, content):
        """Writes a file in a session, by its content."""
        with self.w.start("run", "--session", session, "--", "sh", "-c", f"cat > '{path}'", stdin=subprocess.PIPE) as p:
            p.communicate(content.encode())
            self.assertEqual(p.returncode, 0)

    def merge(self, *args, status=0):
        done = self.w.warren("merge", *args)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def show(self, session):
        """What the session sees: every file below the base, with its content."""
        return self.change(session, "find . -type f | sort | xargs tail -n +1")

    def read(self, session, path):
        return self.change(session, f"cat '{path}'")

    def diff(self, session):
        return self.w.warren("diff", session).stdout


class Merging(Case):
    def test_takes_what_only_one_of_them_has_changed(self):
        self.change("a", "echo a > of_a; rm d/one; chmod 755 text")
        self.change("b", "echo b > of_b; mkdir new; echo n > new/file; rm d/two; ln -s text link; echo more >> file")
        before = [self.show("a"), self.show("b")]
        done = self.merge("a", "b", "--into", "both")
        self.assertIn("session both:", done.stdout)
        self.assertEqual(self.diff("both").splitlines(), [
            "D f /d/one", "D f /d/two", "M f /file", "A l /link", "A d /new", "A f /new/file", "A f /of_a", "A f /of_b",
            "M f /text  [only its mode: 644 to 755]"])
        self.assertEqual(self.read("both", "of_a") + self.read("both", "of_b") + self.read("both", "new/file"), "a\nb\nn\n")
        self.assertEqual(self.change("both", "test ! -e d/one; test ! -e d/two; readlink link; stat -c %a text"), "text\n755\n")
        self.assertEqual([self.show("a"), self.show("b")], before, "neither is changed")
        self.assertEqual((self.base / "file").read_text(), "of the base\n")

    def test_merges_text_that_both_have_changed(self):
        self.put("a", "text", with_line(2, "of a"))
        self.put("b", "text", with_line(29, "of b"))
        done = self.merge("a", "b")
        self.assertIn("merged: /text", done.stdout)
        self.assertEqual(self.read("a-b", "text"), with_line(2, "of a", with_line(29, "of b")))
        self.assertEqual(self.w.warren("apply", "a-b").returncode, 0)
        self.assertEqual((self.base / "text").read_text(), with_line(2, "of a", with_line(29, "of b")))

    def test_a_conflict_makes_no_session_and_is_listed(self):
        self.put("a", "text", with_line(2, "of a"))
        self.put("b", "text", with_line(2, "of b"))
        done = self.merge("a", "b", status=1)
        self.assertIn("conflict: /text: both changed the same lines", done.stderr)
        self.assertIn("no session was made", done.stderr)
        self.assertEqual(self.w.sessions(), ["a", "b"])
        found = json.loads(self.w.warren("merge", "a", "b", "--json").stdout)
        self.assertEqual((found["made"], found["conflicts"][0]["path"]), (False, "/text"))

    def test_markers_keep_both_versions(self):
        self.put("a", "text", with_line(2, "of a"))
        self.put("b", "text", with_line(2, "of b"))
        self.change("a", "printf '\\0a' > blob; rm d/one; echo changed > d/two")
        self.change("b", "printf '\\0b' > blob; echo changed > d/one; rm d/two")
        done = self.merge("a", "b", "--conflict=markers", status=1)
        self.assertIn("session a-b: a, and 3 changes of b\n", done.stdout)  # not of d/two, which it deleted
        self.assertIn("<<<<<<< a\nof a\n=======\nof b\n>>>>>>> b\n", self.read("a-b", "text"))
        self.assertEqual(self.change("a-b", "od -An -c blob; od -An -c 'blob~b'").split(), ["\\0", "a", "\\0", "b"])
        self.assertEqual(self.read("a-b", "d/one") + self.read("a-b", "d/two"), "changed\nchanged\n")
        self.assertEqual(done.stderr.count("conflict: "), 4, done.stderr)

    def test_one_side_can_win(self):
        for session in ("a", "b"):
            self.put(session, "text", with_line(2, f"of {session}"))
            self.change(session, f"printf '\\0{session}' > blob; printf {session} > both_added")
        self.change("a", "rm d/one; echo changed > d/two")
        self.change("b", "echo changed > d/one; rm d/two")
        self.merge("a", "b", "--conflict=first", "--into", "first")
        self.assertEqual(self.change("first", "sed -n 2p text; cat both_added; tr -d '\\0' < blob; ls d"), "of a\naatwo\n")
        self.merge("a", "b", "--conflict=second", "--into", "second")
        self.assertEqual(self.change("second", "sed -n 2p text; cat both_added; tr -d '\\0' < blob; ls d"), "of b\nbbone\n")

    def test_what_has_no_place_is_not_called_settled(self):
        self.change("a", "rm d/one d/two; mkdir d/one; echo kept > d/one/x; mkdir -p d/two; echo kept > d/two/x; rm -r e; echo > e")
        self.change("b", "echo changed > d/one; rm d/two; echo changed > e/deep/three")
        done = self.merge("a", "b", "--conflict=second", status=1)
        for path in ("/d/one", "/e/deep/three"):
            self.assertRegex(done.stderr, f"conflict: {path}: .*it was left out")
        self.assertNotIn("was taken", done.stderr)
        self.assertEqual(self.change("a-b", "cat d/one/x d/two/x"), "kept\nkept\n")
        done = self.merge("a", "b", "--conflict=markers", "--into", "both", status=1)
        self.assertEqual(self.change("both", "cat d/one/x 'd/one~b'"), "kept\nchanged\n")

    def test_attributes_are_of_the_side_that_wins(self):
        for session in ("a", "b"):
            self.change(session, f"chmod {'600' if session == 'a' else '640'} text; "
                                 f"python3 -c 'import os; os.setxattr(\"text\", \"user.of\", b\"{session}\")'")
        for winner, name, mode in (("first", "a", "600"), ("second", "b", "640")):
            self.merge("a", "b", f"--conflict={winner}", "--into", winner)
            shown = self.change(winner, "stat -c %a text; python3 -c 'import os; print(os.getxattr(\"text\", \"user.of\"))'")
            self.assertEqual(shown, f"{mode}\nb'{name}'\n")

    def test_follows_renames_of_both(self):
        self.put("a", "text", with_line(2, "of a"))
        self.change("a", "mv d/one d/uno; mv e f")
        self.change("b", "mv text moved; mv d/two two; echo more >> d/one; echo new > e/new; echo more >> e/deep/three")
        self.merge("a", "b")
        self.assertEqual(self.read("a-b", "moved"), with_line(2, "of a"))
        self.assertEqual(self.change("a-b", "test ! -e text; test ! -e e; cat d/uno two f/new f/deep/three"),
                         "d/one\nmore\nd/two\nnew\ne/deep/three\nmore\n")
        self.assertEqual(self.w.warren("apply", "a-b").returncode, 0)
        self.assertEqual((self.base / "f/deep/three").read_text(), "e/deep/three\nmore\n")
        self.assertFalse((self.base / "e").exists())

    def test_a_directory_that_the_second_renamed_has_what_the_first_did_in_it(self):
        self.change("a", "echo of_a > e/added; echo more >> e/deep/three; chmod 700 e")
        self.change("b", "mv e z; mv d y; echo more >> y/one")
        self.merge("a", "b")
        self.assertEqual(self.change("a-b", "cat z/deep/three y/one y/two z/added; stat -c %a z; ls"),
                         "e/deep/three\nmore\nd/one\nmore\nd/two\nof_a\n700\nblob\ndir\nfile\ntext\ny\nz\n")

    def test_newer_work_in_the_base_is_not_reverted(self):
        self.put("b", "text", with_line(2, "of b"))
        self.change("b", "rm d/one")
        self.change("a", "echo a > of_a")
        (self.base / "text").write_text(with_line(29, "of the user"))
        (self.base / "d/one").write_text("of the user\n")
        done = self.merge("a", "b", status=1)
        self.assertIn("conflict: /d/one: it was changed in the base", done.stderr)
        self.merge("a", "b", "--conflict=first")
        self.assertEqual(self.read("a-b", "text"), with_line(2, "of b", with_line(29, "of the user")))
        self.assertEqual(self.w.warren("apply", "a-b").returncode, 0)
        self.assertEqual((self.base / "text").read_text(), with_line(2, "of b", with_line(29, "of the user")))
        self.assertEqual((self.base / "d/one").read_text(), "of the user\n")

    def test_both_made_the_same_change(self):
        for session in ("a", "b"):
            self.put(session, "text", with_line(2, "the same"))
            self.change(session, "echo same > added; rm d/one; mkdir shared; echo $PPID > /dev/null")
        self.merge("a", "b")
        self.assertEqual(self.read("a-b", "added"), "same\n")

    def test_a_link_does_not_lead_the_merge_elsewhere(self):
        self.change("a", "rm -r d; ln -s e d")
        self.change("b", "echo new > d/three")
        done = self.merge("a", "b", status=1)
        self.assertIn("conflict: /d/three: a directory above it is something else in 'a'", done.stderr)
        self.merge("a", "b", "--conflict=markers", status=1)
        self.assertEqual(self.change("a-b", "ls e"), "deep\n")

    def test_what_a_killed_merge_left_goes_with_the_next_one_or_the_session(self):
        self.change("a", "echo a > of_a")
        self.change("b", "echo b > of_b")
        folder = self.w.session_dir("both")
        folder.mkdir()

        def leave_drafts():
            for end in ("", "-wal", ".partial-fedcba9876543210"):
                (folder / ("delta.db.draft-0123456789abcdef" + end)).write_bytes(b"unfinished")

        leave_drafts()
        self.merge("a", "b", "--into", "both")
        self.assertEqual([path.name for path in folder.iterdir() if "draft" in path.name], [])
        leave_drafts()
        done = self.w.warren("sessions", "delete", "--yes", "both")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(folder.exists())
        folder.mkdir()
        leave_drafts()
        done = self.w.warren("sessions", "delete", "both")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(folder.exists())
        self.assertIn("'-z' is not a valid agent id", self.merge("a", "b", "--into=-z", status=1).stderr)

    def test_clear_errors(self):
        self.change("a", "echo a > x")
        other = self.w.root / "other"
        other.mkdir()
        self.w.inside("c", "sh", "-c", "echo c > x", cwd=other)
        self.assertIn("they have different bases", self.merge("a", "c", status=1).stderr)
        self.assertIn("cannot be merged with itself", self.merge("a", "a", status=1).stderr)
        self.assertIn("no agent or session 'aa'", self.merge("a", "aa", status=1).stderr)
        self.change("b", "echo b > y")
        self.assertIn("session 'c' exists already", self.merge("a", "b", "--into", "c", status=1).stderr)
        self.assertIn("not a valid agent id", self.merge("a", "b", "--into", "../x", status=1).stderr)
        self.assertEqual(self.w.sessions(), ["a", "b", "c"])

    def test_a_running_session_can_be_merged(self):
        self.change("b", "echo b > of_b")
        with self.w.start("run", "--session", "a", "--", "sh", "-c", "echo a > of_a; echo ready; read x",
                          stdin=subprocess.PIPE) as running:
            self.assertEqual(running.stdout.readline(), b"ready\n")
            sandboxed.wait_for(lambda: "of_a" in self.diff("a"), "the change is not stored")
            self.merge("a", "b", "--into", "both")
            running.stdin.close()
            running.wait(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(self.change("both", "cat of_a of_b"), "a\nb\n")


class Directories(Case):
    """Directories that one or both of them have renamed."""

    def setUp(self):
        super().setUp()
        (self.base / "d/empty").mkdir()
        (self.base / "d/empty").chmod(0o700)

    def names(self, session):
        """Everything in the directories that begin with d, e or z."""
        return self.change(session, "find . -path './[dez]*' | grep -v '^./dir' | sort").replace("./", "").split()

    def conflicts(self, done):
        return [line for line in done.stderr.splitlines() if line.startswith("conflict: ")]

    def check_sides(self, conflict, first, second, stays="the version of 'a' stays"):
        """One conflict, and what is there if one side wins."""
        done = self.merge("a", "b", status=1)
        self.assertEqual(self.conflicts(done), [f"conflict: {conflict}"])
        self.assertEqual(self.w.sessions(), ["a", "b"])
        for winner, names in (("first", first), ("second", second)):
            self.merge("a", "b", f"--conflict={winner}", "--into", winner)
            self.assertEqual(self.names(winner), names.split(), winner)
        done = self.merge("a", "b", "--conflict=markers", "--into", "markers", status=1)
        self.assertEqual(self.conflicts(done), [f"conflict: {conflict}: {stays}"])
        self.assertEqual(self.names("markers"), (second if stays != "the version of 'a' stays" else first).split())

    def check_both_orders(self, names):
        for first, second in ("ab", "ba"):
            self.merge(first, second)
            self.assertEqual(self.names(f"{first}-{second}"), names.split(), f"{second} into {first}")

    def test_two_new_names_are_a_conflict(self):
        self.change("a", "mv d d-a; mv d-a/two d-a/dos; echo a > d-a/of_a; rm -r e")
        self.change("b", "mv d d-b; echo more >> d-b/one; echo more >> d-b/two; echo b > d-b/of_b; rm -r e")
        self.check_sides("/d-a: both renamed it, 'b' to '/d-b'",
                         first="d-a d-a/dos d-a/empty d-a/of_a d-a/of_b d-a/one",
                         second="d-b d-b/dos d-b/empty d-b/of_a d-b/of_b d-b/one")
        self.assertEqual(self.read("first", "d-a/one") + self.read("first", "d-a/dos"), "d/one\nmore\nd/two\nmore\n")
        self.assertEqual(self.read("second", "d-b/one") + self.read("second", "d-b/dos"), "d/one\nmore\nd/two\nmore\n")
        self.assertEqual(self.w.warren("apply", "second").returncode, 0)
        self.assertEqual(sorted(os.listdir(self.base / "d-b")), ["dos", "empty", "of_a", "of_b", "one"])
        self.assertFalse((self.base / "d").exists())

    def test_a_new_name_that_the_first_has_for_something_else_is_not_taken(self):
        self.change("a", "mv d d-a; mkdir d-b; echo kept > d-b/x; rm -r e")
        self.change("b", "mv d d-b; rm -r e")
        done = self.merge("a", "b", "--conflict=second", status=1)
        self.assertEqual(self.conflicts(done), ["conflict: /d-a: both renamed it, 'b' to '/d-b': its name stays"])
        self.assertEqual(self.names("a-b"), "d-a d-a/empty d-a/one d-a/two d-b d-b/x".split())

    def test_the_same_new_name_is_no_conflict(self):
        self.change("a", "mv d z; echo a > z/of_a; rm -r e")
        self.change("b", "mv d z; echo b > z/of_b; rm -r e")
        self.check_both_orders("z z/empty z/of_a z/of_b z/one z/two")

    def test_a_renamed_directory_that_the_second_deleted_is_a_conflict(self):
        self.change("a", "mv d d-a; rm -r e")
        self.change("b", "rm -r d e")
        self.check_sides("/d-a: 'a' renamed it, 'b' deleted it", first="d-a d-a/empty d-a/one d-a/two", second="")

    def test_an_empty_directory_that_one_renamed_and_the_other_deleted_is_a_conflict(self):
        self.change("a", "mv d/empty z; rm -r e")
        self.change("b", "rmdir d/empty; rm -r e")
        self.check_sides("/z: 'a' renamed it, 'b' deleted it", first="d d/one d/two z", second="d d/one d/two")

    def test_what_the_first_changed_in_it_is_named_too(self):
        self.change("a", "mv d d-a; echo more >> d-a/one; echo new > d-a/new; rm -r e")
        self.change("b", "rm -r d e")
        done = self.merge("a", "b", status=1)
        self.assertEqual(self.conflicts(done), ["conflict: /d-a: 'a' renamed it, 'b' deleted it",
                                                "conflict: /d-a/one: 'a' changed it, 'b' deleted it"])
        self.merge("a", "b", "--conflict=second")
        self.assertEqual(self.names("a-b"), ["d-a", "d-a/new"])

    def test_a_deleted_directory_that_the_second_renamed_is_a_conflict(self):
        self.change("a", "rm -r d e")
        self.change("b", "mv d d-b; rm -r e")
        self.check_sides("/d-b: 'a' deleted it, 'b' renamed it", first="", second="d-b d-b/empty d-b/one d-b/two",
                         stays="the version of 'b' is there")
        self.assertEqual(self.change("second", "stat -c %a d-b/empty; cat d-b/one"), "700\nd/one\n")

    def test_what_the_first_has_put_in_place_of_a_deleted_directory_is_not_taken_for_it(self):
        self.change("a", "rm -r d; mv e d; echo a > d/one")
        self.change("b", "mv d d-b; echo b > d-b/of_b")
        self.check_sides("/d-b: 'a' deleted it, 'b' renamed it", first="d d-b d-b/of_b d/deep d/deep/three d/one",
                         second="d d-b d-b/empty d-b/of_b d-b/one d-b/two d/deep d/deep/three d/one",
                         stays="the version of 'b' is there")
        self.assertEqual(self.change("second", "cat d/one d-b/one"), "a\nd/one\n")

    def test_a_file_that_the_other_moved_out_of_it_stays_out(self):
        self.change("a", "mv d/one e/uno")
        self.change("b", "mv d z; echo more >> z/one")
        self.check_both_orders("e e/deep e/deep/three e/uno z z/empty z/two")
        for session in ("a-b", "b-a"):
            self.assertEqual(self.read(session, "e/uno"), "d/one\nmore\n")

    def test_a_file_that_the_other_deleted_in_it_is_gone(self):
        self.change("a", "rm d/one; rm -r e")
        self.change("b", "mv d z; rm -r e")
        self.check_both_orders("z z/empty z/two")

    def test_what_was_moved_into_it_goes_with_it(self):
        self.change("a", "mv d e/d")
        self.change("b", "mv e z; echo more >> d/one")
        self.check_both_orders("z z/d z/d/empty z/d/one z/d/two z/deep z/deep/three")
        for session in ("a-b", "b-a"):
            self.assertEqual(self.read(session, "z/d/one"), "d/one\nmore\n")

    def test_the_second_moved_it_into_a_new_one_of_its_name(self):
        self.change("a", "echo more >> d/one; rm -r e")
        self.change("b", "mv d t; mkdir d; mv t d/in; rm -r e")
        self.merge("a", "b")
        self.assertEqual(self.names("a-b"), "d d/in d/in/empty d/in/one d/in/two".split())
        self.assertEqual(self.change("a-b", "cat d/in/one; stat -c %a d/in/empty"), "d/one\nmore\n700\n")

    def test_what_is_moved_file_by_file_keeps_its_directories(self):
        self.change("a", "chmod 750 d; mkdir z; echo a > z/of_a; rm -r e")
        self.change("b", "mv d z; rm -r e")
        self.merge("a", "b")
        self.assertEqual(self.names("a-b"), "z z/empty z/of_a z/one z/two".split())
        self.assertEqual(self.change("a-b", "stat -c %a z/empty"), "700\n")
        self.change("c", "chmod 750 d; echo more >> d/one; rm -r e")
        self.merge("c", "b")
        self.assertEqual(self.change("c-b", "stat -c %a z z/empty"), "750\n700\n")

    def test_each_moved_into_the_other_is_a_conflict(self):
        self.change("a", "mv d e/d")
        self.change("b", "mv e d/e")
        done = self.merge("a", "b", status=1)
        self.assertEqual(self.conflicts(done), ["conflict: /e: 'b' renamed it to '/e/d/e', which is inside it in 'a'"])
        self.merge("a", "b", "--conflict=first", "--into", "first")
        self.assertEqual(self.names("first"), "e e/d e/d/empty e/d/one e/d/two e/deep e/deep/three".split())
        done = self.merge("a", "b", "--conflict=second", "--into", "second", status=1)
        self.assertIn("its name stays", done.stderr)


class Names(Case):
    """Old names that the second has used again, and names that both want."""

    def setUp(self):
        super().setUp()
        for name in ("d", "e"):
            (self.base / name / "empty").mkdir()
            (self.base / name / "empty").chmod(0o700)
            (self.base / name / "x").write_text(f"{name}/x\n")

    def tree(self, session):
        """The directories with their modes, and the files with their content, in d, e, n and z."""
        script = "find . -path './[denz]*' -not -path './dir*' -printf '%P %y %m\\n' | sort | while read -r name type mode; do " \
                 "case $type in d) echo \"$name/ $mode\";; *) echo \"$name $(cat \"$name\" | tr '\\n' ' ')\";; esac; done"
        return [line.strip() for line in self.change(session, script).splitlines()]

    def check_free(self, of_a, of_b, tree):
        """No conflict in either order, and the same result."""
        self.change("a", of_a)
        self.change("b", of_b)
        for first, second in ("ab", "ba"):
            self.merge(first, second)
            self.assertEqual(self.tree(f"{first}-{second}"), tree, f"{second} into {first}")

    def test_exchanged_files(self):
        self.check_free("echo more >> d/one; rm -r e", "mv d/one t; mv d/two d/one; mv t d/two; rm -r e",
                        ["d/ 755", "d/empty/ 700", "d/one d/two", "d/two d/one more", "d/x d/x"])

    def test_a_chain_of_directories(self):
        self.check_free("echo more >> d/x", "mv e n; mv d e; chmod 750 e",
                        ["e/ 750", "e/empty/ 700", "e/one d/one", "e/two d/two", "e/x d/x more",
                         "n/ 755", "n/deep/ 755", "n/deep/three e/deep/three", "n/empty/ 700", "n/x e/x"])

    def test_exchanged_directories_with_the_same_names_in_them(self):
        (self.base / "e").chmod(0o750)
        self.check_free("echo a > d/of_a; echo more >> e/x", "mv d t; mv e d; mv t e",
                        ["d/ 750", "d/deep/ 755", "d/deep/three e/deep/three", "d/empty/ 700", "d/x e/x more",
                         "e/ 755", "e/empty/ 700", "e/of_a a", "e/one d/one", "e/two d/two", "e/x d/x"])

    def test_a_directory_in_a_new_one_of_its_name_that_has_another_of_its_name(self):
        (self.base / "d/d").mkdir()
        (self.base / "d/d/x").write_text("d/d/x\n")
        self.check_free("echo more >> d/d/x; rm -r e", "mv d t; mkdir d; mv t d/d; rm -r e",
                        ["d/ 755", "d/d/ 755", "d/d/d/ 755", "d/d/d/x d/d/x more", "d/d/empty/ 700", "d/d/one d/one", "d/d/two d/two",
                         "d/d/x d/x"])

    def test_a_new_directory_with_an_old_name_in_a_renamed_directory(self):
        self.check_free("echo more >> e/deep/three; rm -r d", "mv e/deep n; mkdir e/deep; echo new > e/deep/new; mv e z; rm -r d",
                        ["n/ 755", "n/three e/deep/three more", "z/ 755", "z/deep/ 755", "z/deep/new new", "z/empty/ 700", "z/x e/x"])

    def test_a_new_directory_with_an_old_name_has_its_own_mode(self):
        self.check_free("true > of_a; rm -r e", "mv d n; mkdir -m 700 d; echo secret > d/key; rm -r e",
                        ["d/ 700", "d/key secret", "n/ 755", "n/empty/ 700", "n/one d/one", "n/two d/two", "n/x d/x"])

    def test_a_directory_that_gets_the_name_of_a_deleted_one(self):
        self.check_free("true > of_a", "rm -r e; mv d/empty e", ["d/ 755", "d/one d/one", "d/two d/two", "d/x d/x", "e/ 700"])

    def test_what_the_first_has_made_in_it_goes_with_it(self):
        self.check_free("mkdir d/mine; mv e/empty d/moved; rm -r e", "mv d z; rm -r e/deep e/x",
                        ["z/ 755", "z/empty/ 700", "z/mine/ 755", "z/moved/ 700", "z/one d/one", "z/two d/two", "z/x d/x"])

    def test_a_directory_that_is_united_with_one_of_the_first(self):
        self.change("a", "mkdir z; echo z > z/x; mkdir d/mine; mv e/empty d/moved; rm -r e")
        self.change("b", "mv d z; rm -r e/deep e/x")
        done = self.merge("a", "b", status=1)
        self.assertIn("conflict: /d/x: 'b' renamed it to '/z/x', where 'a' has something else\n", done.stderr)
        self.assertEqual(done.stderr.count("conflict: /"), 1, done.stderr)
        self.merge("a", "b", "--conflict=first")
        self.assertEqual(self.tree("a-b"), ["d/ 755", "d/x d/x", "z/ 755", "z/empty/ 700", "z/mine/ 755", "z/moved/ 700", "z/one d/one",
                                            "z/two d/two", "z/x z"])

    def test_what_the_second_has_added_in_it_goes_with_it_too(self):
        self.change("a", "mv d e/d")
        self.change("b", "mkdir d/new; echo n > d/new/f; mv e z")
        self.merge("a", "b")
        self.assertEqual(self.tree("a-b"), ["z/ 755", "z/d/ 755", "z/d/empty/ 700", "z/d/new/ 755", "z/d/new/f n", "z/d/one d/one",
                                            "z/d/two d/two", "z/d/x d/x", "z/deep/ 755", "z/deep/three e/deep/three", "z/empty/ 700",
                                            "z/x e/x"])

    def check_nothing_is_lost(self, of_a, of_b, conflict, contents):
        self.change("a", of_a)
        self.change("b", of_b)
        done = self.merge("a", "b", "--conflict=second", status=1)
        self.assertIn(f"conflict: {conflict}\n", done.stderr)
        shown = self.tree("a-b")
        for content in contents:
            self.assertEqual(len([line for line in shown if line.endswith(" " + content)]), 1, (content, shown))

    def test_a_file_of_the_base_at_the_new_name_stays(self):
        self.check_nothing_is_lost("mv d d-a; mv e/x n", "mv d n", "/d-a: both renamed it, 'b' to '/n': its name stays", ["d/x", "e/x"])

    def test_a_file_with_an_edit_at_the_new_name_stays(self):
        self.check_nothing_is_lost("mv e n", "mv d n; echo more >> e/x",
                                   "/d/x: 'b' renamed it to '/n/x', where 'a' has something else: its name stays", ["d/x", "e/x more"])

    def test_a_file_of_the_base_in_place_of_a_new_directory_or_file_stays(self):
        self.check_nothing_is_lost("mv e/x n; mv d/x z", "mkdir n; echo n > n/new; echo z > z",
                                   "/n: it is a directory in 'b' only: it was left out", ["d/x", "e/x"])

    def test_a_directory_in_place_of_a_link_stays(self):
        self.check_nothing_is_lost("mv e d/e; echo mine > d/new", "rm -r d; ln -s nowhere d",
                                   "/d: 'a' has something else there: it was left out", ["e/x", "mine"])

    def test_what_the_first_has_put_in_place_of_a_deleted_file_is_not_taken_for_it(self):
        self.change("a", "rm d/one; mv e/x d/one")
        self.change("b", "mv d/one d/uno")
        done = self.merge("a", "b", status=1)
        self.assertIn("conflict: /d/uno: 'a' deleted it, 'b' changed it\n", done.stderr)
        self.merge("a", "b", "--conflict=second")
        self.assertEqual(self.change("a-b", "cat d/one d/uno"), "e/x\nd/one\n")

    def test_special_files_come_back_with_their_directory(self):
        os.mkfifo(self.base / "d/empty/fifo")
        self.change("a", "rm -r d")
        self.change("b", "mv d z")
        self.merge("a", "b", "--conflict=second")
        self.assertEqual(self.change("a-b", "stat -c %F z/empty/fifo"), "fifo\n")

    def check_first(self, of_a, of_b, conflict, tree):
        """If the first wins, what it has keeps its name, whatever the second has put there."""
        self.change("a", of_a)
        self.change("b", of_b)
        done = self.merge("a", "b", "--conflict=first")
        self.assertIn(f"conflict: {conflict}: the version of 'a' was taken\n", done.stderr)
        self.assertEqual(self.tree("a-b"), tree)

    def test_a_file_that_the_second_moved_to_a_united_directory_keeps_its_name(self):
        (self.base / "n").write_text("n\n")
        self.check_first("mkdir z; echo mine > z/deep; rm -r d", "mv e/deep/three e/three; rmdir e/deep; mv e z; mv n z/deep; echo new > n; rm -r d",
                         "/n: 'b' renamed it to '/z/deep', where 'a' has something else",
                         ["n n", "z/ 755", "z/deep mine", "z/empty/ 700", "z/three e/deep/three", "z/x e/x"])

    def test_a_directory_that_the_second_moved_to_a_united_directory_keeps_its_name(self):
        self.check_first("mkdir z; echo mine > z/d; rm -r e/deep", "mv e z; mv d z/d; mkdir d; echo new > d/new; rm -r z/deep",
                         "/d: 'b' renamed it to '/z/d', where 'a' has something else",
                         ["d/ 755", "d/empty/ 700", "d/new new", "d/one d/one", "d/two d/two", "d/x d/x",
                          "z/ 755", "z/d mine", "z/empty/ 700", "z/x e/x"])

    def test_new_content_under_its_old_name_does_not_replace_a_file_that_stays(self):
        for name in ("", "d/"):
            self.setUp()
            self.check_nothing_is_lost(f"echo mine > {name}z", f"cp d/x new; mv d/x {name}z; sed -i s/x/new/ new; mv new d/x; rm -r e",
                                       f"/d/x: 'b' renamed it to '/{name}z', where 'a' has something else: its name stays", ["d/x", "mine"])

    def test_both_versions_of_a_file_that_has_no_place(self):
        (self.base / "blob").write_bytes(b"\0base")
        self.change("a", "mkdir z; echo mine > z/blob; printf '\\0a' > blob")
        self.change("b", "mv e z; mv blob z/blob; printf '\\0b' > z/blob; echo new > blob")
        done = self.merge("a", "b", "--conflict=markers", status=1)
        self.assertNotIn("warren-merge", done.stderr)
        self.assertEqual(self.change("a-b", "cat z/blob blob; cat blob~b*; ls -A | grep -c warren-merge || :").replace("\0", "0"),
                         "mine\n0anew\n0b0\n")

    def test_a_file_in_a_directory_that_the_first_moved_stays(self):
        for of_b, left_out in (("mkdir n; echo new > n/x", "/n/x: both added it, with different lines"),
                               ("mkdir -p n/x; echo new > n/x/y", "/n/x: it is a directory in 'b' only")):
            self.setUp()
            self.check_nothing_is_lost("mv e n", of_b, f"{left_out}: it was left out", ["e/x"])

    def test_special_files_stay_with_the_first_and_keep_their_inode(self):
        for name in ("d/fifo", "fifo", "free"):
            os.mkfifo(self.base / name)
        self.change("a", "mv d d-a; echo mine > fifo2")
        self.change("b", "rm -r d; mv fifo fifo2; mv free e/free")
        done = self.merge("a", "b", "--conflict=first")
        self.assertIn("conflict: /fifo: 'b' renamed it to '/fifo2', where 'a' has something else: the version of 'a' was taken\n", done.stderr)
        self.assertEqual(self.change("a-b", "stat -c %F d-a/fifo fifo e/free; cat fifo2"), "fifo\n" * 3 + "mine\n")
        self.assertIn("R ? /free -> /e/free", self.diff("a-b"))

    def test_the_mode_of_a_deleted_directory_is_not_given_to_another_one(self):
        self.change("a", "rm -r d; mv e d")
        self.change("b", "chmod 700 d")
        self.assertIn("conflict: /d: 'a' deleted it, 'b' changed its mode, owner or attributes\n", self.merge("a", "b", status=1).stderr)
        self.merge("a", "b", "--conflict=second", status=1)
        self.assertEqual(self.change("a-b", "stat -c %a d"), "755\n")

    def test_an_empty_directory_without_a_place_is_named(self):
        self.change("a", "rm -r d; echo mine > d")
        self.change("b", "mkdir d/made")
        self.assertIn("conflict: /d/made: 'a' has something else there\n", self.merge("a", "b", status=1).stderr)


class Random(Case):
    """Seeded changes of two agents."""
    SEEDS = range(40 if os.environ.get("WARREN_CHECK_FULL") == "yes" else 6)
    # Changes names that end in one letter, by a seed: the same in any tree that has the same of them.
    CHANGES = r"""
import os, pathlib, random, shutil, sys
side, random = sys.argv[1], random.Random(sys.argv[2])
for step in range(25):
    mine = sorted(path for path in pathlib.Path(".").rglob(f"*.{side}"))
    which = random.choice(mine)
    what = random.randrange(8)
    if what < 2 and which.is_file() and not which.is_symlink():
        which.open("wa"[what]).write(f"{side}{step}\n")
    elif what == 2 and len(mine) > 3:
        shutil.rmtree(which) if which.is_dir() and not which.is_symlink() else which.unlink()
    elif what == 3:
        which.rename(f"moved{step}.{side}")
    elif what == 4 and not which.is_symlink():
        which.chmod(0o700 + random.randrange(64))
    elif what == 5:
        (pathlib.Path(f"new{step}.{side}") / "deep").mkdir(parents=True)
        (pathlib.Path(f"new{step}.{side}") / "deep" / f"file.{side}").write_text(f"{step}\n")
    elif what == 6 and which.is_dir():
        (which / f"in{step}.{side}").write_text(f"{step}\n")
    elif what == 7:
        os.symlink(f"target{step}", f"link{step}.{side}")
"""

    def listing(self, session=None):
        look = "find . -not -name . -printf '%P %y %m %l\\n' | sort; find . -type f | sort | xargs -d '\\n' tail -n +1"
        if session:
            return self.change(session, look)
        return subprocess.run(["sh", "-ec", look], cwd=self.expected, check=True, capture_output=True, text=True).stdout

    RENAMES = r"""
import pathlib, random, sys
random = random.Random(int(sys.argv[1]))
root = pathlib.Path(".")
for step in range(1 + int(sys.argv[1]) % 6):
    all = sorted(path for path in root.rglob("*"))
    one, other = random.choice(all), random.choice(all)
    what = random.randrange(4)
    if what == 0 and one != other and one not in other.parents and other not in one.parents:  # exchanges two
        one.rename("exchanged")
        other.rename(one)
        pathlib.Path("exchanged").rename(other)
    elif what == 1:
        into = random.choice([root] + [path for path in all if path.is_dir()])
        if one != into and one not in into.parents and not (into / one.name).exists():
            one.rename(into / one.name)
    elif what == 2:  # away, and something new under its name
        one.rename(f"renamed{step}")
        one.mkdir(0o710)
        if random.randrange(2):
            pathlib.Path(f"renamed{step}").rename(one / f"inner{step}")
        else:
            (one / f"new{step}").write_text(f"{step}\n")
    elif what == 3:
        one.rename(one.parent / f"{one.name}{step}")
"""
    EDITS = r"""
import pathlib, random, sys
random = random.Random(int(sys.argv[1]))
for path in sorted(pathlib.Path(".").rglob("*")):
    what = random.randrange(4)
    if what == 0 and path.is_file():
        path.open("a").write(f"edited {path}\n")
    elif what == 1:
        path.chmod(0o700 + random.randrange(64))
    elif what == 2 and path.is_dir():
        (path / f"of_a_{path.name}").write_text(f"{path}\n")
"""

    def run_in(self, session, program, seed):
        self.w.inside(session, sandboxed.PYTHON, "-c", program, str(seed), cwd=self.base)

    def make_directories(self):
        for name in ("p/q/r", "s", "t/u"):
            (self.base / name).mkdir(parents=True)
            (self.base / name / "x").write_text(name + "\n")
            (self.base / name / "empty").mkdir(0o700)

    def test_names_of_one_and_edits_of_the_other(self):
        self.make_directories()
        for seed in self.SEEDS:
            self.run_in("a", self.EDITS, seed)
            self.run_in("b", f"open('of_b', 'w').close(){self.RENAMES}", seed)
            names = "find . -not -name 'of_a_*' | sort"
            self.merge("a", "b")
            self.merge("b", "a")
            self.assertEqual(self.change("a-b", names), self.change("b", names), f"seed {seed}")
            self.assertEqual(self.listing("a-b"), self.listing("b-a"), f"seed {seed}")
            self.w.warren("sessions", "delete", "--yes", "a", "b", "a-b", "b-a")

    def test_both_together_are_as_one_after_the_other(self):
        for directory in ("x.a", "x.b", "shared/y.a", "shared/y.b"):
            (self.base / directory / "inner").mkdir(parents=True)
            (self.base / directory / f"file.{directory[-1]}").write_text("one\ntwo\n")
        for side in "ab":
            (self.base / "shared" / f"{side}.{side}").write_text(side + "\n")
        for seed in self.SEEDS:
            self.expected = self.w.root / f"expected{seed}"
            subprocess.run(["cp", "-a", self.base, self.expected], check=True)
            for side in "ab":
                program = [sandboxed.PYTHON, "-c", self.CHANGES, side, str(seed)]
                self.w.inside(f"{side}{seed}", *program, cwd=self.base)
                subprocess.run(program, cwd=self.expected, check=True)
            self.merge(f"a{seed}", f"b{seed}", "--into", f"both{seed}")
            self.assertEqual(self.listing(f"both{seed}"), self.listing(), f"seed {seed}")


class Commits(Case):
    def git(self, *args):
        environment = self.w.environment() | {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return subprocess.run(["git", *args], cwd=self.base, env=environment, check=True, capture_output=True, text=True).stdout

    def commit(self, session, script):
        self.change(session, f"git config user.email x@y; git config user.name x; {script}; git add -A; git commit -qm 'of {session}'")

    def test_commits_of_both_come_along_as_branches(self):
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-qm", "start")
        self.commit("a", "echo a > of_a")
        self.commit("b", "echo b > of_b")
        self.change("b", "git gc -q; echo rest > rest")
        done = self.merge("a", "b", "--into", "both")
        self.assertIn("branch warren/b: the commits of b", done.stdout)
        self.assertEqual(self.change("both", "git log -1 --format=%s; git log -1 --format=%s warren/b; git fsck 2>/dev/null; cat rest"),
                         "of a\nof b\nrest\n")
        self.assertEqual(self.w.warren("apply", "both").returncode, 0)
        self.assertEqual(self.git("log", "-1", "--format=%s", "warren/both"), "of a\n")
        self.assertEqual(self.git("log", "-1", "--format=%s", "warren/b"), "of b\n")
        self.assertEqual(self.git("status", "--short"), "?? rest\n", "what is in the commits comes with them")
        self.w.warren("apply", "both")
        self.assertEqual(self.git("status", "--short"), "?? rest\n", "also before they are merged")
        self.git("merge", "-q", "--no-edit", "warren/both", "warren/b")
        self.assertEqual((self.base / "of_b").read_text(), "b\n")
        self.w.warren("apply", "both")
        self.assertRegex(self.w.warren("sessions").stdout, r"both +0 \+ git settings  ")

    def repository(self):
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-qm", "start")

    def test_a_name_for_two_branches_is_refused_before_one_is_written(self):
        self.repository()
        self.commit("a", "echo a > of_a")
        self.commit("b", "echo b > of_b")
        self.merge("a", "b", "--into", "both")
        for name in ("warren/b", "warren/b/c", "warren"):
            with self.subTest(name):
                for words in (("--dry-run",), ()):
                    done = self.w.warren("apply", "both", "--branch", name, *words)
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertIn(f"nothing was written: the session brings the branches '{name}' and 'warren/b'", done.stderr)
                    self.assertEqual(self.git("for-each-ref", "--format=%(refname)"), "refs/heads/main\n")
        self.assertEqual(self.w.warren("apply", "both", "--branch", "other").returncode, 0)

    def test_only_the_second_has_committed(self):
        self.repository()
        self.change("a", "echo a > of_a")
        self.commit("b", "echo b > of_b; sed -i 's/line 9$/nine/' text")
        self.merge("a", "b", "--into", "both")
        self.assertEqual(self.w.warren("apply", "both").returncode, 0)
        self.assertEqual(self.git("status", "--short"), "?? of_a\n")
        self.git("merge", "-q", "warren/both")
        self.assertEqual((self.base / "of_b").read_text(), "b\n")

    def test_diff_says_that_git_merges_what_the_second_has_committed(self):
        self.repository()
        self.commit("a", "echo a > of_a")
        self.commit("b", "echo b >> file; echo b > of_b")
        self.merge("a", "b", "--into", "both")
        (self.base / "file").write_text("of the host\n")
        self.git("commit", "-qam", "of the host")
        self.assertIn("M f /file  [changed in the base, too: git merges the commits]\n", self.diff("both"))
        done = self.w.warren("apply", "both")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.base / "file").read_text(), "of the host\n")

    def test_an_error_names_the_branches_that_were_written(self):
        self.repository()
        self.commit("a", "echo a > of_a")
        self.commit("b", "echo b > of_b")
        self.change("b", "echo rest > rest")
        self.merge("a", "b", "--into", "both")
        lock = self.base / ".git/refs/heads/warren/b.lock"  # as of a git that runs there
        lock.parent.mkdir(parents=True)
        lock.write_text("")
        done = self.w.warren("apply", "both")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the branch 'warren/both' was written, but no file was: cannot write the branch 'warren/b'", done.stderr)
        lock.unlink()
        self.git("branch", "-D", "warren/both")
        top = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(top, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as another apply does
            done = self.w.warren("apply", "both")
        finally:
            os.close(top)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the branches 'warren/both' and 'warren/b' were written, but no file was: another apply", done.stderr)
        self.assertFalse((self.base / "rest").exists())
        self.assertEqual(self.git("branch", "--format=%(refname:short)").split(), ["main", "warren/b", "warren/both"])
        self.assertEqual(self.w.warren("apply", "both").returncode, 0)
        self.assertEqual((self.base / "rest").read_text(), "rest\n")

    def test_a_file_of_both_waits_for_the_merge_of_their_commits(self):
        self.repository()
        self.commit("a", "sed -i 's/line 2$/two/' text")
        self.commit("b", "sed -i 's/line 20$/twenty/' text; echo b > of_b; echo more > untracked_file")
        self.change("b", "echo again >> of_b")
        self.merge("a", "b", "--into", "both")
        done = self.w.warren("apply", "both")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("changed again after the commits: ", done.stdout)
        self.assertEqual(self.git("status", "--short"), "")
        self.git("merge", "-q", "--no-edit", "warren/both")
        self.git("merge", "-q", "--no-edit", "warren/b")
        done = self.w.warren("apply", "both", "--merge")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.base / "of_b").read_text(), "b\nagain\n")
        self.assertEqual(self.git("status", "--short"), " M of_b\n")

    def test_a_branch_of_that_name_is_not_touched(self):
        self.repository()
        self.commit("a", "echo a > of_a")
        self.commit("b", "echo b > of_b")
        self.merge("a", "b", "--into", "both")
        self.git("branch", "warren/b")
        before = self.git("rev-parse", "warren/b")
        done = self.w.warren("apply", "both")
        self.assertIn("warren apply session:both --commits --from warren/b --branch NAME", done.stdout)
        self.assertEqual(self.git("rev-parse", "warren/b"), before)

    def test_untracked_files_in_the_second_branch_are_asked_about(self):
        self.repository()
        (self.base / "secret").write_text("secret\n")
        self.change("a", "git config user.email x@y; git config user.name x; echo a > of_a; git add of_a; git commit -qm 'of a'")
        self.change("b", "git config user.email x@y; git config user.name x; git add -f secret; git commit -qm 'of b'")
        self.merge("a", "b", "--into", "both")
        done = self.w.warren("apply", "both")
        self.assertEqual(done.returncode, 1)
        self.assertIn("secret", done.stderr)
        self.assertNotIn("warren/b", self.git("branch", "-a"))


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
