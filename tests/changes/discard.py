#!/usr/bin/env python3
"""discard: what comes back, and what goes with it.

    WARREN=path/to/warren discard.py [-v] [Class.test_name]
"""
import errno
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted


def append(path, text):
    with open(path, "a") as file:
        file.write(text)


class Discard(Case):
    def test_asks_or_needs_yes(self):
        self.fill(a="1")
        self.write("/a", "22")
        self.assertIn("--yes", self.w.fails("discard", self.w.id))
        self.assertEqual(self.w.lines(), ["M f /a"])
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.fs("cat", "/a"), b"1")
        self.assertEqual(self.w.warren("discard", "--yes", self.w.id), b"nothing to discard\n")

    def test_an_empty_path_or_pattern_is_a_mistake_and_does_not_mean_everything(self):
        self.fill(a="1")
        self.write("/a", "22")
        self.write("/new", "n")
        for words in (("discard", self.w.id, "", "--yes"), ("discard", "", "--yes"), ("apply", self.w.id, ""), ("apply", ""),
                      ("apply", self.w.id, "--exclude", ""), ("apply", self.w.id, "--exclude="), ("diff", self.w.id, ""),
                      ("diff", self.w.id, "--exclude", ""), ("diff", self.w.id, "/a", ""), ("apply", self.w.id, "--to", ""),
                      ("review", self.w.id, "")):
            with self.subTest(words):
                self.assertIn("must not be empty", self.w.fails(*words, status=2))
        self.assertEqual(self.w.lines(), ["M f /a", "A f /new"])
        self.assertEqual(self.read("a"), "1")

    def test_the_question_shows_what_only_the_mode_of_a_file_is(self):
        self.fill(a="1")
        self.fs("chmod", "755", "/a")
        self.assertIn("M f /a  [only its mode: 644 to 755]", self.talk(["discard", self.w.id], b"n\n").decode())

    def test_what_was_changed_while_it_asked_is_not_dropped(self):
        later = {"a new file": lambda: self.write("/precious", "work\n"),
                 "the same file again": lambda: self.write("/a", "333"),
                 "one of them is gone": lambda: self.fs("rm", "/junk")}
        self.fill(a="1")
        for what, change in later.items():
            with self.subTest(what):
                self.write("/a", "22")
                self.write("/junk", "j")
                said = self.talk(["discard", self.w.id], b"y\n", meanwhile=change).decode()
                self.assertIn("was changed since you looked at it", said)
                self.assertIn("nothing was dropped", said)
                self.assertIn("M f /a", self.w.lines())
                self.assertIn("discarded: ", self.talk(["discard", self.w.id], b"y\n").decode())
                self.assertEqual(self.w.lines(), [])

    def test_a_branch_called_index_that_was_changed_while_it_asked_is_not_dropped(self):
        overlaid.git("init", "-q", ".", cwd=self.base)
        self.fill(a="1")
        path = "/.git/refs/heads/index"
        self.write(path, "1" * 40 + "\n")
        self.write("/.git/index", "one\n")
        def commit():
            self.write(path, "2" * 40 + "\n")
        said = self.talk(["discard", self.w.id, "/.git"], b"y\n", meanwhile=commit).decode()
        self.assertIn(f"'{path}' was changed since you looked at it", said)
        def ask_git():
            self.write("/.git/index", "two\n")
        self.assertIn("discarded: ", self.talk(["discard", self.w.id, "/.git"], b"y\n", meanwhile=ask_git).decode())
        self.assertEqual(self.w.lines("/.git"), [])

    def test_a_rename_goes_back(self):
        self.fill(d__x="1", a="1")
        self.fs("mv", "/d", "/e")
        self.write("/e/x", "22")
        self.w.warren("discard", "--yes", self.w.id, "/e/x")
        self.assertEqual(self.w.lines(), ["R d /d -> /e"])
        self.assertEqual(self.fs("cat", "/e/x"), b"1")
        self.w.warren("discard", "--yes", self.w.id, "/e")
        self.assertEqual(self.w.lines(), [])
        self.assertEqual(self.fs("cat", "/d/x"), b"1")

    def test_a_renamed_directory_with_a_file_that_was_changed_back_goes_back_by_any_name(self):
        self.fill(d__x="1\n", d__s__y="1\n", a="1\n")
        def work(point):
            os.rename(point + "/d", point + "/e")
            for name in ("x", "s/y"):
                append(f"{point}/e/{name}", "of the agent\n")
                overlaid.write(f"{point}/e/{name}", "1\n")
            overlaid.write(point + "/a", "22\n")
        for name in ("/d", "d", "/[d]", "/e", "/[e]"):
            with self.subTest(name):
                self.w.change(work)
                self.assertEqual(self.w.changes(), ["M f /a", "R d /d -> /e"])
                self.w.warren("discard", "--yes", self.w.id, name)
                self.assertEqual(self.w.changes(), ["M f /a"])
                self.assertEqual(self.fs("find", "/"), b"/\n/a\n/d\n/d/s\n/d/s/y\n/d/x\n")
                self.w.warren("discard", "--yes", self.w.id)
        self.w.fsck()

    def test_a_renamed_directory_goes_back_and_the_other_name_of_a_file_in_it_stays(self):
        self.fill(d__x="1\n")
        def work(point):
            os.rename(point + "/d", point + "/e")
            os.link(point + "/e/x", point + "/new")
        self.w.change(work)
        self.assertEqual(self.w.changes(), ["R d /d -> /e", "A f /new"])
        self.w.warren("discard", "--yes", self.w.id, "/d")
        self.assertEqual(self.w.changes(), ["A f /new"])
        self.w.change(lambda point: append(point + "/new", "of the agent\n"))
        self.assertEqual((self.fs("cat", "/d/x"), self.fs("cat", "/new")), (b"1\n", b"1\nof the agent\n"))
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("d/x"), self.read("new")), ("1\n", "1\nof the agent\n"))
        self.w.fsck()

    def test_one_file_of_a_deleted_directory_comes_back_alone(self):
        self.fill(d__x="1", d__y="1", d__s__z="1")
        self.fs("rm", "-r", "/d")
        self.w.warren("discard", "--yes", self.w.id, "/d/s/z")
        self.assertEqual(self.w.lines(), ["D f /d/x", "D f /d/y"])
        self.assertEqual(self.fs("cat", "/d/s/z"), b"1")

    def test_a_conflict_in_a_deleted_directory_stays_when_another_part_of_it_comes_back(self):
        self.fill(d__a="1\n", d__b="1\n", d__s__x="1\n", d__t__y="1\n", old__z="1\n")
        self.fs("rm", "-r", "/d")
        overlaid.write(self.base / "d/a", "of the host\n")
        overlaid.write(self.base / "d/new", "of the host\n")
        overlaid.write(self.base / "d/t/new", "of the host\n")
        os.rename(self.base / "old", self.base / "d/in")
        before = self.w.fails("apply", self.w.id)
        self.w.warren("discard", "--yes", self.w.id, "/d/s")
        self.assertEqual(self.fs("cat", "/d/s/x"), b"1\n")
        said = self.w.fails("apply", self.w.id)
        for path in ("/d/a", "/d/new", "/d/t/new", "/d/in/z"):
            self.assertIn(f"conflict: {path}: ", before)
            self.assertIn(f"conflict: {path}: ", said)
        self.assertNotIn("/d/b", said)
        self.assertEqual(self.read("d/a"), "of the host\n")
        self.w.warren("discard", "--yes", self.w.id, "/d/a")
        self.assertEqual(self.fs("cat", "/d/a"), b"of the host\n")
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.w.changes(), [])
        self.assertEqual(self.fs("cat", "/d/in/z"), b"1\n")

    def test_what_was_moved_out_of_a_deleted_directory_does_not_show_twice(self):
        self.fill(d__x="1", d__y="1")
        self.fs("mv", "/d/x", "/x")
        self.fs("rm", "-r", "/d")
        self.w.warren("discard", "--yes", self.w.id, "/[d]")  # a pattern: does not include what was below it
        self.assertEqual(self.w.lines(), ["R f /d/x -> /x"])
        self.assertEqual(self.fs("find", "/"), b"/\n/d\n/d/y\n/x\n")
        self.fs("rm", "-r", "/d")
        self.w.warren("apply", self.w.id, "/d")
        self.assertEqual((self.w.lines(), sorted(os.listdir(self.base)), self.read("x")), ([], ["x"], "1"))

    def test_an_exact_name_wins_over_a_pattern(self):
        self.w.init()
        self.w.change(lambda p: [overlaid.write(os.fsencode(p) + b"/" + name, b"1")
                                 for name in (rb"inv\xff", b"[a]", b"a", b"b*", b"bc", b"dir?/x", b"dirs/x")])
        for name, left in ((rb"inv\xff", ["/[a]", "/a", "/b*", "/bc", "/dir?", "/dir?/x", "/dirs", "/dirs/x"]),
                           (b"[a]", ["/a", "/b*", "/bc", "/dir?", "/dir?/x", "/dirs", "/dirs/x"]),
                           (b"b*", ["/a", "/bc", "/dir?", "/dir?/x", "/dirs", "/dirs/x"]),
                           (b"/dir?", ["/a", "/bc", "/dirs", "/dirs/x"]),
                           (b"b*", ["/a", "/dirs", "/dirs/x"])):
            self.w.warren("discard", "--yes", self.w.id, name)
            self.assertEqual(self.w.lines("--name-only"), left)
        self.assertIn("no changes match", self.w.fails("discard", "--yes", self.w.id, "[x]"))

    def link(self, *names, to="a", text="of the agent\n"):
        def work(point):
            for name in names:
                os.link(f"{point}/{to}", f"{point}/{name}")
            with open(f"{point}/{to}", "a") as file:
                file.write(text)
        self.w.change(work)

    def texts(self):
        """Of every file in the merged tree, by name, with the number of its names."""
        def look(point):
            return {name: (pathlib.Path(point, name).read_text(), os.stat(f"{point}/{name}").st_nlink) for name in os.listdir(point)}
        return self.w.change(look)

    def test_of_a_linked_file_only_the_other_name_stays_changed(self):
        self.fill(a="base\n")
        self.link("b")
        self.w.warren("discard", "--yes", self.w.id, "/a")
        self.assertEqual(self.w.changes(), ["A f /b"])
        self.assertEqual(self.texts(), {"a": ("base\n", 1), "b": ("base\nof the agent\n", 1)})
        overlaid.write(self.base / "a", "of the host\n")
        self.assertEqual(self.texts()["a"], ("of the host\n", 1))
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("a"), self.read("b")), ("of the host\n", "base\nof the agent\n"))
        self.assertEqual(self.w.changes(), [])

    def test_what_is_written_after_a_linked_file_was_discarded_is_a_change(self):
        for name, other in (("a", "b"), ("b", "a")):
            with self.subTest(name):
                self.doCleanups()
                self.setUp()
                self.fill(a="base\n")
                self.link("b")
                self.w.warren("discard", "--yes", self.w.id, "/a")
                self.w.change(lambda point: append(f"{point}/{name}", "important\n"))
                expected = {"a": "base\n", "b": "base\nof the agent\n"}
                expected[name] += "important\n"
                self.assertEqual({name: text for name, (text, _) in self.texts().items()}, expected)
                self.assertEqual(self.w.changes(), ["M f /a", "A f /b"] if name == "a" else ["A f /b"])
                self.w.warren("apply", self.w.id)
                self.assertEqual({name: self.read(name) for name in "ab"}, expected)

    def test_the_other_name_of_a_linked_file_is_discarded_alone(self):
        self.fill(a="base\n")
        self.link("b")
        self.w.warren("discard", "--yes", self.w.id, "/b")
        self.assertEqual(self.w.changes(), ["M f /a"])
        self.assertEqual(self.texts(), {"a": ("base\nof the agent\n", 1)})
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.texts(), {"a": ("base\n", 1)})

    def test_of_three_names_two_stay_one_file(self):
        self.fill(a="base\n")
        self.link("b", "c")
        self.w.warren("discard", "--yes", self.w.id, "/a")
        self.assertEqual(self.w.changes(), ["A f /b", "A f /c"])
        self.assertEqual(self.texts(), {"a": ("base\n", 1), "b": ("base\nof the agent\n", 2), "c": ("base\nof the agent\n", 2)})
        self.w.warren("discard", "--yes", self.w.id, "/c")
        self.w.warren("apply", self.w.id)
        self.assertEqual({name: self.read(name) for name in os.listdir(self.base)}, {"a": "base\n", "b": "base\nof the agent\n"})

    def test_a_renamed_and_linked_file_goes_back_and_its_other_name_stays(self):
        self.fill(a="base\n")
        def work(point):
            os.rename(f"{point}/a", f"{point}/b")
            os.link(f"{point}/b", f"{point}/c")
            append(f"{point}/c", "of the agent\n")
        self.w.change(work)
        (renamed,) = [line.split(" -> /")[1] for line in self.w.changes() if line.startswith("R")]
        other = {"b": "c", "c": "b"}[renamed]
        self.w.warren("discard", "--yes", self.w.id, "/" + renamed)
        self.assertEqual(self.w.changes(), [f"A f /{other}"])
        self.assertEqual(self.texts(), {"a": ("base\n", 1), other: ("base\nof the agent\n", 1)})

    def test_a_link_to_an_unchanged_file_stays_a_link_when_something_else_is_discarded(self):
        self.fill(d__a="base\n")
        self.w.change(lambda point: (os.link(f"{point}/d/a", f"{point}/b"), overlaid.write(f"{point}/d/x", "x")))
        self.w.warren("discard", "--yes", self.w.id, "/d")
        self.assertEqual(self.w.changes(), ["A f /b"])
        self.w.change(lambda point: append(f"{point}/d/a", "more\n"))
        self.assertEqual(self.fs("cat", "/b"), b"base\nmore\n")
        self.assertEqual(self.w.changes(), ["A f /b", "M f /d/a"])
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.w.changes(), [])

    def test_the_other_name_of_a_large_file_has_all_of_its_content(self):
        self.fill(a="x")
        size = 20 << 20
        with open(self.base / "a", "r+b") as file:
            file.truncate(size)
            file.seek(size - 4)
            file.write(b"end\n")
        self.w.change(lambda point: os.link(f"{point}/a", f"{point}/b"))
        self.edit("/b", 70000, b"A")
        self.w.warren("discard", "--yes", self.w.id, "/a")
        with open(self.base / "a", "r+b") as file:
            file.write(b"HOST")
        def look(point):
            with open(f"{point}/b", "rb") as file:
                return file.read()
        content = self.w.change(look)
        self.assertEqual((len(content), content[:1], content[70000:70001], content[-4:]), (size, b"x", b"A", b"end\n"))
        self.w.fsck()

    def test_while_the_agent_is_mounted_a_linked_file_becomes_two(self):
        self.fill(a="base\n")
        point = self.w.mount()
        os.link(point / "a", point / "b")
        with open(point / "a", "r+") as file:
            file.seek(0, os.SEEK_END)
            file.write("of the agent\n")
            file.flush()
            self.assertEqual((point / "b").read_text(), "base\nof the agent\n")
            self.w.warren("discard", "--yes", self.w.id, "/a")
            mounted.wait_for(lambda: (point / "a").read_text() == "base\n", "the base's content does not show")
            mounted.wait_for(lambda: (point / "b").read_text() == "base\nof the agent\n", "the agent's content does not show")
            with open(point / "b", "a") as other:
                other.write("more\n")
            self.assertEqual((point / "a").read_text(), "base\n")
        self.assertEqual((point / "b").read_text(), "base\nof the agent\nmore\n")
        with open(point / "a", "a") as file:
            file.write("important\n")
        self.assertEqual(self.w.changes(), ["M f /a", "A f /b"])
        self.w.umount(point)
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("a"), self.read("b")), ("base\nimportant\n", "base\nof the agent\nmore\n"))
        self.w.fsck()

    def test_a_renamed_directory_comes_back_without_what_was_moved_out_of_it(self):
        for when in ("while it is mounted", "at rest"):
            with self.subTest(when):
                self.doCleanups()
                self.setUp()
                self.fill(d__b="from d\n", d__c="c\n", f__b="from f\n")
                point = self.w.mount()
                os.rename(point / "d", point / "f/s")
                os.rename(point / "f/s/b", point / "f/b")
                if when == "at rest":
                    self.w.umount(point)
                self.assertEqual(self.w.changes(), ["D f /f/b", "R f /d/b -> /f/b", "R d /d -> /f/s"])
                self.w.warren("discard", "--yes", self.w.id, "/f/s")
                self.assertEqual(self.w.changes(), ["D f /f/b", "R f /d/b -> /f/b"])
                point = self.w.mount() if when == "at rest" else point
                mounted.wait_for(lambda: sorted(os.listdir(point)) == ["d", "f"], "the directory does not show")
                self.assertEqual((os.listdir(point / "d"), os.listdir(point / "f")), (["c"], ["b"]))
                append(point / "f/b", "more\n")
                self.w.umount(point)
                self.w.warren("apply", self.w.id)
                self.assertEqual((os.listdir(self.base / "d"), self.read("f/b")), (["c"], "from d\nmore\n"))
                self.w.fsck()

    def check_two(self, point):
        """After `mv e/b d/b` here and `mv e f` by the user: a write to one is none to the other."""
        append(point / "f/b", "more\n")
        self.assertEqual((point / "d/b").read_text(), "from d\n")
        append(point / "d/b", "too\n")
        self.assertEqual((point / "f/b").read_text(), "from e\nmore\n")
        self.assertNotEqual(os.stat(point / "d/b").st_ino, os.stat(point / "f/b").st_ino)
        self.assertEqual(self.w.changes(), ["M f /d/b", "M f /f/b"])
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("f/b"), self.read("d/b")), ("from e\nmore\n", "from d\ntoo\n"))
        self.assertEqual(self.w.changes(), [])
        self.w.umount(point)
        self.w.fsck()

    def test_a_file_that_was_moved_over_another_is_two_again(self):
        """The user has renamed the directory that it came from."""
        for when in ("while it is mounted", "while it is mounted and after a look", "at rest"):
            for name in ([], ["/d/b"], ["/d"]):
                with self.subTest((when, name)):
                    self.doCleanups()
                    self.setUp()
                    self.fill(e__b="from e\n", d__b="from d\n")
                    point = self.w.mount()
                    os.rename(point / "e/b", point / "d/b")
                    os.rename(self.base / "e", self.base / "f")
                    if when == "at rest":
                        self.w.umount(point)
                    elif when.endswith("look"):
                        mounted.wait_for(lambda: (point / "f/b").exists(), "the renamed directory does not show")
                        self.assertEqual((point / "f/b").read_text(), "from e\n")
                    self.w.warren("discard", "--yes", self.w.id, *name)
                    self.assertEqual(self.w.changes(), [])
                    point = self.w.mount() if when == "at rest" else point
                    mounted.wait_for(lambda: (point / "f/b").read_text() == "from e\n", "the renamed directory's file does not show")
                    mounted.wait_for(lambda: (point / "d/b").read_text() == "from d\n", "the replaced file does not show")
                    self.check_two(point)

    def test_while_a_removed_directory_is_in_use_the_bases_is_busy(self):
        def list_it():
            try:
                return sorted(os.listdir(point / "d"))
            except OSError as error:
                return error.errno
        self.fill(d__a="1\n", d__c="2\n")
        point = self.w.mount()
        with open(point / "d/c"):
            shutil.rmtree(point / "d")
            self.w.warren("discard", "--yes", self.w.id)
            self.assertEqual(self.w.changes(), [])
            mounted.wait_for(lambda: os.listdir(point) == ["d"], "the directory does not show")
            self.assertEqual(list_it(), errno.EBUSY)
        mounted.wait_for(lambda: list_it() == ["a", "c"], "the directory does not show its files")
        append(point / "d/a", "more\n")
        append(point / "d/new", "new\n")
        self.assertEqual(self.w.changes(), ["M f /d/a", "A f /d/new"])
        self.w.umount(point)
        self.w.fsck()

    def test_only_below_a_path(self):
        self.fill(a="1", b="1")
        self.write("/a", "22")
        self.write("/b", "22")
        self.w.warren("discard", "--yes", self.w.id, "/a")
        self.assertEqual(self.w.lines(), ["M f /b"])
        self.assertIn("no changes match", self.w.fails("discard", "--yes", self.w.id, "/typo"))


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
