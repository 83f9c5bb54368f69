#!/usr/bin/env python3
"""apply: every kind of conflict, and merging.

    WARREN=path/to/warren conflicts.py [-v] [Class.test_name]
"""
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted


class Conflicts(Case):
    def conflict(self, *paths):
        """Apply must report these, write nothing and keep the changes."""
        before, changes = overlaid.snapshot(self.base), self.w.diff()
        said = self.w.fails("apply", self.w.id)
        for path in paths:
            self.assertIn(f"conflict: {path}: ", said)
        self.assertEqual(sum(line.startswith("conflict: ") for line in said.splitlines()), len(paths), said)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
        self.assertEqual(self.w.diff(), changes)
        self.assertEqual(self.w.staging(), [])

    def test_conflict_a_file_that_both_changed(self):
        self.fill(a="1\n", b="1\n")
        self.write("/a", "agent\n")
        self.write("/b", "agent\n")
        overlaid.write(self.base / "a", "host!\n")
        self.conflict("/a")
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual((self.read("a"), self.read("b")), ("agent\n", "agent\n"))
        self.assertEqual(self.w.diff(), [])

    def test_conflict_a_file_that_the_host_deleted(self):
        self.fill(d__a="1\n")
        self.write("/d/a", "agent\n")
        shutil.rmtree(self.base / "d")
        said = self.w.fails("apply", self.w.id)
        self.assertIn("conflict: /d/a: it was deleted from the base", said)
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual(self.read("d/a"), "agent\n")

    def test_conflict_a_link_or_a_file_in_place_of_a_directory(self):
        """Nothing is written through a link; and no hint offers what would fail."""
        self.fill(d__a="1\n", e__x="1\n")
        self.write("/d/a", "agent\n")
        self.write("/d/deep/new", "agent\n")
        outside = self.w.root / "outside"
        outside.mkdir()
        for kind in ("link", "file"):
            with self.subTest(kind=kind):
                os.rename(self.base / "d", self.w.root / "aside")
                if kind == "link":
                    (self.base / "d").symlink_to("../outside")
                else:
                    (self.base / "d").write_text("of the user\n")
                said = self.w.fails("apply", self.w.id)
                for name in ("a", "deep"):
                    self.assertIn(f"conflict: /d/{name}: the base has a {kind} at '/d' now", said)
                self.assertIn("never replaced, not even with --force: move it away, and apply again", said)
                self.assertNotIn("deleted", said)
                for options in ((), ("--dry-run",)):
                    said = self.w.fails("apply", "--force", "--yes", *options, self.w.id)
                    self.assertIn(f"the base has a {kind} at '/d' now", said)
                    self.assertIn("hint: move that away, and apply again", said)
                self.assertEqual(os.listdir(outside), [])
                self.assertEqual(self.w.staging(), [])
                (self.base / "d").unlink()
                os.rename(self.w.root / "aside", self.base / "d")
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("d/a"), self.read("d/deep/new")), ("agent\n", "agent\n"))

    def test_what_is_in_place_of_a_directory_can_be_moved_away_or_the_changes_dropped(self):
        self.fill(d__a="1\n")
        self.write("/d/a", "agent\n")
        self.write("/d/new", "agent\n")
        os.rename(self.base / "d", self.w.root / "aside")
        (self.base / "d").symlink_to("../aside")
        self.w.fails("apply", self.w.id)
        self.w.warren("discard", "--yes", self.w.id, "/d/new")
        (self.base / "d").rename(self.base / "link")
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual(self.read("d/a"), "agent\n")
        self.assertEqual((self.w.root / "aside/a").read_text(), "1\n")
        self.assertEqual(os.listdir(self.base / "d"), ["a"])

    def agent(self, script):
        self.w.change(lambda point: subprocess.run(["sh", "-ec", script], cwd=point, check=True))

    def host(self, script):
        subprocess.run(["sh", "-ec", script], cwd=self.base, check=True)

    def test_conflict_a_link_in_place_of_a_directory_that_the_agent_renamed(self):
        """What the agent has made in it is written below its new name, where nothing is in the way."""
        self.fill(d__one="1\n", d__s__s="1\n")
        self.agent("mv d z; echo new > z/new; echo more >> z/one; echo deep > z/s/deep")
        self.host("mv d d.aside; ln -s d.aside d")
        said = self.w.fails("apply", self.w.id)
        self.assertIn("conflict: /z: it was deleted from the base", said)
        self.assertNotIn("has a link", said)
        self.assertIn("--force", said)
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual((self.read("z/new"), self.read("z/one"), self.read("z/s/deep")), ("new\n", "1\nmore\n", "deep\n"))
        self.assertEqual(sorted(os.listdir(self.base / "d.aside")), ["one", "s"])
        self.assertEqual(os.readlink(self.base / "d"), "d.aside")

    def test_conflict_a_link_in_place_of_a_directory_below_one_that_the_agent_renamed(self):
        self.fill(d__one="1\n", d__s__s="1\n")
        self.agent("mv d z; echo deep > z/s/deep")
        self.host("mv d/s aside; ln -s ../aside d/s")
        said = self.w.fails("apply", self.w.id)
        self.assertIn("conflict: /z/s/deep: the base has a link at '/d/s' now", said)
        self.assertIn("the base has a link at '/d/s' now", self.w.fails("apply", "--force", self.w.id))
        self.assertEqual(os.listdir(self.base / "aside"), ["s"])

    def test_a_hint_never_offers_to_force_a_conflict_that_nothing_resolves(self):
        self.fill(d__a="1\n", f="1\n")
        self.agent("echo n > d/new; echo a > f")
        self.host("mv d aside; ln -s aside d; echo user > f")
        said = self.w.fails("apply", self.w.id)
        self.assertIn("conflict: /f: it was changed in the base", said)
        self.assertIn("hint: what the base has in place of a directory is never replaced, not even with --force: move it away", said)
        self.assertNotIn("takes the agent's version", said)
        (self.base / "d").unlink()
        (self.base / "aside").rename(self.base / "d")
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual((self.read("d/new"), self.read("f")), ("n\n", "a\n"))

    def test_what_cannot_be_forced_is_not_asked_about(self):
        self.fill(d__a="1\n", f="1\n")
        self.agent("mkdir d/made; echo n > d/made/new; echo a > f")
        self.host("mv d aside; ln -s aside d")
        said = self.talk(("apply", "--interactive", self.w.id), b"y\nq\n").decode()
        self.assertIn("left: A d /d/made: the base has a link at '/d' now", said)
        self.assertIn("left: A f /d/made/new: not possible without A d /d/made", said)
        self.assertEqual(said.count("[y]es"), 1, said)
        self.assertEqual((self.read("f"), os.listdir(self.base / "aside")), ("a\n", ["a"]))

    def test_conflict_a_file_that_the_host_replaced_by_a_directory(self):
        self.fill(a="1\n")
        self.write("/a", "agent\n")
        (self.base / "a").unlink()
        overlaid.write(self.base / "a/x", "host\n")
        said = self.w.fails("apply", self.w.id)
        self.assertIn("conflict: /a: its type was changed in the base", said)
        self.assertNotIn("deleted", said)
        self.assertEqual(self.read("a/x"), "host\n")

    def test_conflict_a_file_that_the_host_deleted_and_the_agent_replaced(self):
        self.fill(a="1\n", b="\0" * 9, applied="1\n", other_kind="1\n", d__x="1\n", moved="1\n", new="1\n")
        self.write("/applied", "2\n")
        self.w.warren("apply", self.w.id)

        def replace(p):
            for name in ("a", "b", "applied"):
                overlaid.write(p + "/draft", "agent\n")
                os.rename(p + "/draft", p + "/" + name)
            os.remove(p + "/other_kind")
            os.mkdir(p + "/other_kind")
            os.rename(p + "/moved", p + "/there")
            overlaid.write(p + "/moved", "agent\n")
        self.w.change(replace)
        self.w.warren("apply", self.w.id, "/there")  # that takes /moved from the base, and is no deletion of the host's
        for name in ("a", "b", "applied", "other_kind"):
            (self.base / name).unlink()
        said = self.w.fails("apply", self.w.id)
        for name in ("a", "b", "applied", "other_kind"):
            self.assertIn(f"conflict: /{name}: it was deleted from the base", said)
        self.assertEqual(said.count("conflict: "), 4, said)
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual((self.read("a"), self.read("moved")), ("agent\n", "agent\n"))
        self.assertEqual(self.w.changes(), [])

    def test_conflict_a_file_that_both_added(self):
        self.fill(a="1\n")
        self.write("/new", "agent\n")
        time.sleep(0.02)
        overlaid.write(self.base / "new", "host\n")
        self.conflict("/new")
        overlaid.write(self.base / "new", "agent\n")
        self.assertEqual(self.w.lines(), [])  # both are equal again

    def steps_after(self, path):
        """What the agent may do next with its file, without having seen the user's."""
        yield lambda: self.fs("append", path, input=b"more\n")
        yield lambda: self.fs("chmod", "600", path)
        yield lambda: (self.write("/draft", "agent 2\n"), self.fs("mv", "/draft", path))
        yield lambda: (self.fs("rm", path), self.write(path, "agent 3\n"))
        yield lambda: self.fs("rm", path)
        yield lambda: self.write(path, "agent 4\n")

    def test_conflict_about_a_file_that_both_added_stays_whatever_the_agent_does(self):
        self.fill(a="1\n")
        self.write("/new", "agent\n")
        overlaid.write(self.base / "new", "host\n")
        self.conflict("/new")
        for step in self.steps_after("/new"):
            step()
            has_removed_its_own = "/new" not in self.fs("find", "/").decode().splitlines()
            if has_removed_its_own:
                self.assertEqual(self.w.lines(), [])  # the user's file is no change of the agent's
            else:
                self.conflict("/new")

    def check_replaced(self, content):
        self.fill(a=content)
        self.write("/draft", "agent\n")
        self.fs("mv", "/draft", "/a")
        self.assertEqual(self.w.lines(), ["M f /a"])
        overlaid.write(self.base / "a", "host has more\n")
        self.conflict("/a")
        for step in self.steps_after("/a"):
            step()
            self.conflict("/a")

    def test_conflict_about_a_replaced_text_stays_whatever_the_agent_does(self):
        self.check_replaced("1\n")

    def test_conflict_about_a_replaced_binary_file_stays_whatever_the_agent_does(self):
        self.check_replaced("1\0")

    def test_conflict_a_new_file_and_a_directory_that_was_moved_there(self):
        self.fill(old__y="host\n")
        self.write("/n/y", "agent\n")
        (self.base / "old").rename(self.base / "n")
        self.conflict("/n/y")

    def test_a_file_that_was_replaced_before_anybody_else_changed_it_is_no_conflict(self):
        self.fill(a="1\n", b="\0", c="1\n")
        for name in ("/a", "/b"):
            self.fs("rm", name)
            self.write(name, "agent\n")
            self.fs("append", name, input=b"more\n")
        self.write("/draft", "agent\n")
        self.fs("mv", "/draft", "/c")
        self.w.warren("apply", self.w.id)
        self.assertEqual([self.read(name) for name in "abc"], ["agent\nmore\n", "agent\nmore\n", "agent\n"])
        self.assertEqual(self.w.lines(), [])

    def test_a_replacement_of_another_kind_is_a_conflict_only_if_the_host_changed_something(self):
        self.fill(d__x="1\n", e="1\n", f="1\n")

        def change(point):
            shutil.rmtree(point + "/d")
            overlaid.write(point + "/d", "agent\n")
            for name in ("/e", "/f"):
                os.unlink(point + name)
                os.symlink("d", point + name)
        self.w.change(change)
        overlaid.write(self.base / "f", "host has more\n")
        self.conflict("/f")
        self.w.warren("apply", self.w.id, "/d", "/e")
        self.assertEqual((self.read("d"), os.readlink(self.base / "e"), self.read("f")), ("agent\n", "d", "host has more\n"))
    def write_later(self, name, content):
        """In the base, at a time after now: the clock of files has coarse steps."""
        now = time.time_ns()
        while True:
            overlaid.write(self.base / name, content)
            if os.stat(self.base / name).st_ctime_ns > now:
                return

    def test_a_text_that_both_added_gets_markers(self):
        self.fill(a="1\n")
        self.write("/new", "same\nagent\n")
        self.write("/bin", "agent\0")
        self.write_later("new", "same\nhost\n")
        self.write_later("bin", "host\0")
        self.w.fails("apply", "--merge", self.w.id, "/new")
        self.assertIn("not text", self.w.fails("apply", "--conflict=markers", self.w.id))
        self.assertIn("conflict markers: /new", self.w.fails("apply", "--conflict=markers", self.w.id, "/new"))
        text = self.read("new")
        for line in ("same\n", "agent\n", "host\n", "<<<<<<<", ">>>>>>>"):
            self.assertIn(line, text)
        self.assertEqual(self.w.changes(), ["M f /bin"])

    def test_a_text_that_both_added_with_the_same_content_is_merged(self):
        self.fill(a="1\n")
        def add(point):
            overlaid.write(point + "/new", "same\n")
            os.chmod(point + "/new", 0o755)
        self.w.change(add)
        self.write_later("new", "same\n")
        self.conflict("/new")
        self.w.warren("apply", "--merge", self.w.id)
        self.assertEqual(self.read("new"), "same\n")
        self.assertTrue(os.access(self.base / "new", os.X_OK))

    def test_conflict_a_deleted_file_that_the_host_changed(self):
        self.fill(a="1\n", b="1\n")
        self.fs("rm", "/a")
        overlaid.write(self.base / "a", "host has more\n")
        self.conflict("/a")
        self.w.warren("apply", "--force", self.w.id)
        self.assertFalse((self.base / "a").exists())

    def test_conflict_a_deleted_directory_that_got_a_file(self):
        self.fill(d__x="1\n")
        self.fs("rm", "-r", "/d")
        time.sleep(0.02)
        overlaid.write(self.base / "d/unseen", "host\n")
        self.conflict("/d/unseen")

    def test_conflict_another_kind(self):
        self.fill(a="1\n")
        self.write("/a", "agent\n")
        os.unlink(self.base / "a")
        (self.base / "a").mkdir()
        self.assertIn("conflict: /a", self.w.fails("apply", self.w.id))

    def test_conflict_a_renamed_file_that_the_host_changed(self):
        self.fill(a="1\n")
        self.fs("mv", "/a", "/b")
        overlaid.write(self.base / "a", "host\n")
        self.conflict("/b")

    def test_touching_is_not_a_conflict(self):
        self.fill(a="1\n")
        self.edit("/a", 0, b"2")
        os.utime(self.base / "a")
        self.w.warren("apply", self.w.id)
        self.assertEqual(self.read("a"), "2\n")

    def test_merge_combines_changes_that_do_not_overlap(self):
        lines = [f"line {i:02}\n" for i in range(20)]
        agents = lines[:2] + ["agent 2\n"] + lines[3:]
        self.fill(a="".join(lines), b="".join(lines))
        for path in ("/a", "/b"):
            self.edit(path, 16, b"agent 2\n")
        overlaid.write(self.base / "a", "".join(lines[:15] + ["host\n"] + lines[16:]))
        overlaid.write(self.base / "b", "".join(lines[:2] + ["host\n"] + lines[3:]))
        said = self.w.fails("apply", "--merge", self.w.id)
        self.assertIn("conflict: /b", said)
        self.assertNotIn("conflict: /a", said)
        self.w.warren("apply", "--merge", self.w.id, "/a")
        self.assertEqual(self.read("a"), "".join(agents[:15] + ["host\n"] + agents[16:]))
        self.assertEqual(self.w.lines(), ["M f /b  [conflict: it was changed in the base]"])

    def replace_by(self, how):
        """Replaces /a by a version with another line 15, as editors do."""
        content = "".join(self.with_line(15, "agent"))

        def change(point):
            if how == "removed":
                os.unlink(point + "/a")
                overlaid.write(point + "/a", content)
                return
            if how == "written before":
                overlaid.write(point + "/a", "".join(self.with_line(1, "agent 1")))
            overlaid.write(point + "/a.new", content)
            os.rename(point + "/a.new", point + "/a")
            if how == "written after":
                with open(point + "/a", "r+") as file:
                    file.write(content)
        self.w.change(change)

    def test_merge_of_a_file_that_was_replaced(self):
        for how in ("renamed", "removed", "written before", "written after"):
            with self.subTest(how):
                self.doCleanups()
                self.setUp()
                self.fill(a="".join(self.LINES))
                self.replace_by(how)
                time.sleep(0.02)
                overlaid.write(self.base / "a", "".join(self.with_line(5, "host")))
                self.assertIn("conflict: /a", self.w.fails("apply", self.w.id))
                self.w.warren("apply", "--merge", self.w.id)
                self.assertEqual(self.read("a"), "".join(self.with_line(15, "agent", self.with_line(5, "host"))))
                self.w.fsck()

    def test_touching_a_file_that_was_replaced_is_not_a_conflict(self):
        for how in ("renamed", "removed"):
            with self.subTest(how):
                self.doCleanups()
                self.setUp()
                self.fill(a="".join(self.LINES))
                self.replace_by(how)
                time.sleep(0.02)
                os.utime(self.base / "a")
                self.w.warren("apply", self.w.id)
                self.assertEqual(self.read("a"), "".join(self.with_line(15, "agent")))

    def test_an_edit_before_the_agents_last_write_is_a_conflict_too(self):
        self.fill(a="".join(self.LINES))
        self.replace_by("renamed")
        overlaid.write(self.base / "a", "".join(self.with_line(5, "host")))
        time.sleep(0.02)
        self.write("/a", "".join(self.with_line(16, "agent")))
        self.assertIn("conflict: /a", self.w.fails("apply", self.w.id))

    def test_a_replaced_file_that_is_removed_or_moved_leaves_no_row(self):
        self.fill(a="1\n", b="2\n")
        for name in ("a", "b"):
            self.w.change(lambda p: (overlaid.write(p + "/new", "x\n"), os.rename(p + "/new", p + "/" + name)))
        self.w.change(lambda p: (os.unlink(p + "/a"), os.rename(p + "/b", p + "/c")))
        self.w.fsck()
        database = sqlite3.connect(self.w.file)
        self.assertEqual(database.execute("SELECT count(*) FROM wr_ancestor").fetchone(), (0,))
        database.close()

    def test_encrypted_files_cannot_be_merged_and_the_hint_says_why(self):
        self.fill(secret="one\n")
        self.w.warren("encrypt", self.w.id, "/secret")
        self.write("/secret", "two\n")
        (self.base / "secret").write_text("three\n")
        for option in ("--merge", "--conflict=markers"):
            self.assertIn("encrypted files cannot be merged", self.w.fails("apply", option, self.w.id))
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual(self.read("secret"), "two\n")


class Exchanged(Case):
    def test_after_an_apply_of_exchanged_directories_an_edit_of_either_file_is_a_conflict(self):
        self.fill(A__f=os.urandom(300_000), B__f=os.urandom(300_000))  # too large to keep what the agent saw

        def change(point):
            os.rename(point + "/A", point + "/t")
            os.rename(point + "/B", point + "/A")
            os.rename(point + "/t", point + "/B")
            for name in ("A/f", "B/f"):
                overlaid.write(f"{point}/{name}.new", os.urandom(300_000))
                os.rename(f"{point}/{name}.new", f"{point}/{name}")

        def write(point):
            for name in ("A/f", "B/f"):
                with open(f"{point}/{name}", "r+b") as file:
                    file.write(b"more")
        self.w.change(change)
        self.w.warren("apply", "--exclude", "f", self.w.id)
        overlaid.write(self.base / "A/f", "of the user\n")
        overlaid.write(self.base / "B/f", "of the user\n")
        self.w.change(write)
        for path in ("/A/f", "/B/f"):
            self.assertIn(f"conflict: {path}: ", self.w.fails("apply", self.w.id, path))
        self.assertEqual((self.read("A/f"), self.read("B/f")), ("of the user\n", "of the user\n"))

    def test_a_file_that_was_moved_over_another_stays_a_rename_when_its_directory_is_exchanged(self):
        self.fill(A__from="1\n", A__f="22\n", B__f="333\n", B__other="other\n")

        def change(point):
            os.rename(point + "/A/from", point + "/A/f")
            for old, new in (("A", "t"), ("B", "A"), ("t", "B")):
                os.rename(f"{point}/{old}", f"{point}/{new}")
            overlaid.write(point + "/A/other", "agent\n")
        self.w.change(change)
        self.w.warren("apply", self.w.id, "/A/other")
        self.assertEqual(self.w.lines(), ["D f /B/f", "R f /B/from -> /B/f"])
        self.w.warren("apply", self.w.id)
        self.assertEqual((os.listdir(self.base / "B"), self.read("B/f"), self.read("A/f")), (["f"], "1\n", "333\n"))


class Advice(Case):
    """What a refused apply says helps, and nothing else is said."""

    def advice(self, *args):
        return self.w.fails("apply", *args, self.w.id).partition("hint: ")[2]

    def make_kinds(self):
        self.fill(a="1\n")
        self.w.change(lambda p: (overlaid.write(p + "/nd/x", "agent\n"), overlaid.write(p + "/nf", "agent\n")))
        overlaid.write(self.base / "nd", "user\n")
        overlaid.write(self.base / "nf/y", "user\n")

    def test_a_name_that_both_have_made_as_different_types_is_a_conflict_of_types(self):
        self.make_kinds()
        nd, nf = ("[conflict: the base has a new file there, and the agent a directory]",
                  "[conflict: the base has a new directory there, and the agent a file]")
        self.assertEqual(self.w.lines(), [f"D f /nd  {nd}", f"A d /nd  {nd}", "A f /nd/x", f"D d /nf  {nf}", f"A f /nf  {nf}",
                                          "D f /nf/y  [conflict: it is new in the base, and the agent has a file at '/nf']"])
        said = self.advice()
        self.assertTrue(said.startswith("rename what the agent has there, in its session, and apply again; or --force"), said)
        self.assertNotIn("deleted", said)

    def test_of_two_types_both_are_kept_by_a_rename(self):
        self.make_kinds()
        self.w.change(lambda p: (os.rename(p + "/nd", p + "/nd2"), os.rename(p + "/nf", p + "/nf2")))
        self.w.warren("apply", self.w.id)
        self.assertEqual([self.read(f) for f in ("nd", "nd2/x", "nf/y", "nf2")], ["user\n", "agent\n", "user\n", "agent\n"])
        self.assertEqual(self.w.lines(), [])

    def test_of_two_types_one_is_taken_and_the_other_restored(self):
        self.make_kinds()
        before = overlaid.snapshot(self.base)
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual((self.read("nd/x"), self.read("nf")), ("agent\n", "agent\n"))
        self.w.warren("undo", self.w.id)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])

    def test_of_two_types_the_agents_is_dropped_by_its_path(self):
        self.make_kinds()
        before = overlaid.snapshot(self.base)
        self.w.warren("discard", "--yes", self.w.id, "/nd", "/nf")
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
        self.assertEqual(self.w.lines(), [])

    def test_a_merge_never_removes_a_file_that_the_agent_has_not_seen(self):
        self.fill(a="".join(self.LINES))
        self.w.change(lambda p: os.rename(p + "/a", p + "/new"))
        self.write("/new", "".join(self.with_line(3, "agent")))
        overlaid.write(self.base / "new", "user\n")
        overlaid.write(self.base / "a", "".join(self.with_line(15, "user")))
        before = overlaid.snapshot(self.base)
        for option in ("--merge", "--conflict=markers"):
            self.w.fails("apply", option, self.w.id)
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])

    def test_what_a_merge_cannot_do_is_not_advised(self):
        self.fill(bin=b"\0base", gone="base\n", text="".join(self.LINES))
        for name, content in (("bin", b"\0agent"), ("gone", b"agent\n"), ("text", "".join(self.with_line(3, "agent")).encode())):
            self.w.change(lambda p: overlaid.write(f"{p}/{name}", content))
        overlaid.write(self.base / "bin", b"\0of the user")
        (self.base / "gone").unlink()
        overlaid.write(self.base / "text", "".join(self.with_line(15, "user")))
        one_by_one = "`warren review` or `warren apply -i` asks about each, --force takes the agent's version"
        for options in ((), ("--merge",), ("--conflict=markers",)):
            self.assertTrue(self.advice(*options).startswith(f"not all of them can be merged: {one_by_one}") if not options else
                            "--merge" not in self.advice(*options), options)
            said = self.w.fails("apply", *options, self.w.id, "/bin").partition("hint: ")[2]
            self.assertRegex(said, "^they cannot be merged \\(.*\\): ")
            self.assertIn(one_by_one, said)
            said = self.w.fails("apply", *options, self.w.id, "/gone").partition("hint: ")[2]
            self.assertTrue(said.startswith("they are gone from the base: --force writes the agent's version, `warren discard`"), said)
        said = self.w.fails("apply", self.w.id, "/text").partition("hint: ")[2]
        self.assertTrue(said.startswith("--merge merges them"), said)
        self.talk(["apply", "-i", self.w.id, "/gone"], b"y\n")
        self.assertEqual(self.read("gone"), "agent\n")
        self.w.warren("discard", "--yes", self.w.id, "/bin")
        self.w.warren("apply", "--merge", self.w.id)
        self.assertEqual(self.w.lines(), [])


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
