#!/usr/bin/env python3
"""apply and undo while the agent goes on: files vanish, are replaced, and half-written things must not show.

    WARREN=path/to/warren at_work.py [-v] [Class.test_name]

Needs root and /dev/fuse; the test of a killed apply needs strace.
"""
import json
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import MountedCase
from overlaid import mounted


class AtWork(MountedCase):
    def apply_and(self, meanwhile, *words, answer=b"y\n"):
        """Runs an apply that asks, and calls the function at its first question: the changes are listed by then, and
        nothing has been read for the base. Returns the exit status and what was said."""
        leader, follower = pty.openpty()
        self.addCleanup(os.close, leader)
        child = subprocess.Popen([mounted.program(), "apply", self.w.id, *words], cwd=self.w.home, env=self.w.environment(),
                                 stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        said = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # the other side is closed
                break
            said += part
            if meanwhile and (b"[y/N]" in said or b"[y]es" in said):
                meanwhile()
                meanwhile = None
                os.write(leader, answer)
        self.assertIsNone(meanwhile, said)
        return child.wait(timeout=mounted.PATIENCE_SECONDS), said.decode(errors="replace").replace("\r\n", "\n")

    def work(self):
        """A Makefile makes apply ask."""
        self.begin(changed="of the base\n")
        (self.point / "changed").write_text("by the agent\n")
        (self.point / "Makefile").write_text("all:\n")
        (self.point / "dir" / "sub").mkdir(parents=True)
        (self.point / "dir" / "sub" / "x").write_text("x\n")
        for name in ("kept", "gone", "replaced", "other_kind"):
            (self.point / name).write_text(name)

    def test_a_new_file_that_is_gone_meanwhile_is_left_out(self):
        self.work()

        def go_on():
            (self.point / "gone").unlink()
            (self.point / "dir" / "sub" / "x").unlink()
            (self.point / "dir" / "sub").rmdir()
            (self.point / "draft").write_text("later")
            (self.point / "draft").rename(self.point / "replaced")
            (self.point / "other_kind").unlink()
            (self.point / "other_kind").mkdir()
        status, said = self.apply_and(go_on)
        self.assertEqual(status, 0, said)
        for path in ("/gone", "/dir/sub", "/dir/sub/x", "/replaced", "/other_kind"):
            self.assertIn(f"left out, since the agent removed or replaced it meanwhile: {path}\n", said)
        self.assertIn("3 added, 1 modified\n", said)
        self.assertEqual(sorted(os.listdir(self.base)), ["Makefile", "changed", "dir", "kept"])
        self.assertEqual(os.listdir(self.base / "dir"), [])
        self.assertEqual(self.w.changes(), ["A d /other_kind", "A f /replaced"])
        self.w.warren("undo", self.w.id)
        self.assertEqual(os.listdir(self.base), ["changed"])
        self.end()

    def test_an_apply_of_nothing_else_writes_nothing(self):
        self.begin(other="other\n")
        (self.point / "Makefile").write_text("all:\n")
        status, said = self.apply_and((self.point / "Makefile").unlink)
        self.assertEqual(status, 0, said)
        self.assertIn("left out, since the agent removed or replaced it meanwhile: /Makefile\n", said)
        self.assertEqual(os.listdir(self.base), ["other"])
        self.assertEqual((self.w.records(), json.loads(self.w.warren("undo", "--list", "--json", self.w.id))), ([], []))
        self.end()

    def test_one_that_was_named_is_an_error(self):
        self.work()
        status, said = self.apply_and((self.point / "gone").unlink, "/gone", "/Makefile")
        self.assertEqual(status, 1, said)
        self.assertIn("'/gone' was just deleted or replaced by the agent\nhint: the agent is changing it; try again\n", said)
        self.assertEqual(os.listdir(self.base), ["changed"])
        self.assertEqual((self.w.staging(), self.w.records()), ([], []))
        self.end()

    def test_a_change_of_the_bases_file_that_is_gone_is_an_error(self):
        self.work()
        status, said = self.apply_and((self.point / "changed").unlink)
        self.assertEqual(status, 1, said)
        self.assertIn("'/changed' was just deleted or replaced by the agent\nhint: the agent is changing it; try again\n", said)
        self.assertEqual((os.listdir(self.base), self.read("changed")), (["changed"], "of the base\n"))
        self.end()

    def test_the_dialog_names_a_file_that_is_gone(self):
        self.begin(other="other\n")
        for name in ("a", "b"):
            (self.point / name).write_text(name)
        status, said = self.apply_and((self.point / "b").unlink, "-i", answer=b"y\ny\n")
        self.assertEqual(status, 1, said)
        self.assertIn("'/b' was changed since you looked at it", said)
        self.assertNotIn("no longer exists", said)
        self.end()

    def test_what_was_new_is_new_again_after_an_undo(self):
        self.begin(other="other\n")
        (self.point / "dir").mkdir()
        for name in ("new", "changed", "again", "dir/in"):
            (self.point / name).write_text("1\n")
        os.symlink("new", self.point / "link")
        self.w.warren("apply", self.w.id)
        (self.point / "again").write_text("2\n")
        self.w.warren("apply", self.w.id)
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.read("again"), "1\n")
        self.assertEqual((self.point / "again").read_text(), "2\n")
        self.assertEqual(self.w.lines(), ["M f /again"])
        self.w.warren("undo", self.w.id)
        self.assertEqual(os.listdir(self.base), ["other"])
        (self.point / "changed").write_text("2\n")
        self.assertEqual(self.w.lines(), ["A f /again", "A f /changed", "A d /dir", "A f /dir/in", "A l /link", "A f /new"])
        self.w.warren("apply", self.w.id)
        self.assertEqual(self.w.lines(), [])
        self.assertEqual([self.read(name) for name in ("again", "changed", "dir/in", "link")], ["2\n", "2\n", "1\n", "1\n"])
        self.end()
        self.assertEqual(self.w.warren("sql", self.w.id, "select count(*) from fs_dentry").split()[-1], b"0")

    def test_what_was_replaced_by_another_kind_is_so_again_after_an_undo(self):
        self.begin(f2l="1\n", f2d="1\n", d2f__in="1\n", d2f__sub__x="1\n", d2l__x="1\n", other="1\n")
        os.symlink("other", self.base / "l2f")
        before = overlaid.snapshot(self.base)
        for name in ("f2l", "f2d", "l2f"):
            (self.point / name).unlink()
        for name in ("d2f", "d2l"):
            shutil.rmtree(self.point / name)
        for name in ("f2l", "d2l"):
            os.symlink("other", self.point / name)
        (self.point / "f2d").mkdir()
        for name in ("f2d/in", "l2f", "d2f"):
            (self.point / name).write_text("agent\n")
        changes, after = self.w.changes(), overlaid.snapshot(self.point)
        for again in range(2):
            self.w.warren("apply", self.w.id)
            self.assertEqual(self.w.changes(), [])
            self.w.warren("undo", self.w.id)
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.point), after), [])
            self.assertEqual(self.w.changes(), changes)
        self.w.umount(self.point)
        self.point = self.w.mount()
        self.assertEqual(self.w.changes(), changes)
        (self.base / "d2f/in").write_text("of the user\n")
        self.assertIn("conflict: /d2f/in: ", self.w.fails("apply", self.w.id))
        self.w.warren("discard", "--yes", self.w.id)
        self.assertEqual(self.w.changes(), [])
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.point), overlaid.snapshot(self.base)), [])
        self.end()

    def test_what_an_undo_of_an_undo_brings_is_never_deleted_unseen(self):
        self.begin(f="1\n", e__z="1\n")
        (self.point / "f").unlink()
        (self.point / "f").mkdir()
        (self.point / "e/z").rename(self.point / "f/z")
        (self.point / "f/new").write_text("new\n")
        self.w.warren("apply", self.w.id)
        self.w.warren("undo", self.w.id)
        overlaid.snapshot(self.point)
        kept = json.loads(self.w.warren("undo", "--list", "--json", self.w.id))[0]
        self.w.warren("undo", "--record", kept["name"])
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.point), overlaid.snapshot(self.base)), [])
        self.assertEqual(self.w.changes(), [])
        self.w.umount(self.point)
        self.point = self.w.mount()
        overlaid.snapshot(self.point)
        self.assertEqual(self.w.changes(), [])
        self.apply()
        self.assertEqual((self.base / "f/z").read_text(), "1\n")
        self.end()

    def test_a_file_with_a_second_name_follows_an_undo(self):
        self.begin(a="1\n", b="1\n")
        for name in ("a", "b"):
            os.link(self.point / name, self.point / (name + "2"))
            with open(self.point / name, "a") as file:
                file.write("agent\n")
        self.w.warren("apply", self.w.id)
        with open(self.point / "b", "a") as file:
            file.write("more\n")
        self.w.warren("undo", self.w.id)
        self.assertEqual(sorted(os.listdir(self.base)), ["a", "b"])
        mounted.wait_for(lambda: (self.point / "a").read_text() == "1\n", "the file does not follow the undo")
        self.assertFalse((self.point / "a2").exists())
        with open(self.point / "a", "a") as file:
            file.write("again\n")
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("a"), self.read("b")), ("1\nagain\n", "1\nagent\nmore\n"))
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_what_replaced_an_applied_file_is_no_conflict_after_an_undo(self):
        self.begin(old="1\n")
        for text in ("2\n", "3\n"):
            for name in ("old", "new"):
                (self.point / "draft").write_text(text)
                (self.point / "draft").rename(self.point / name)
            if text == "2\n":
                self.w.warren("apply", self.w.id)
        self.w.warren("undo", self.w.id)
        self.assertEqual(os.listdir(self.base), ["old"])
        self.w.warren("apply", self.w.id)
        self.assertEqual((self.read("old"), self.read("new")), ("3\n", "3\n"))
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_what_was_renamed_and_changed_is_so_again_after_an_undo(self):
        self.begin(a__x="x\n", large="x" * (3 << 20), removed="base\n", other="other\n")
        (self.point / "a" / "x").rename(self.point / "z")
        (self.point / "large").rename(self.point / "large2")
        (self.point / "removed").write_text("agent\n")
        with open(self.point / "z", "a+", buffering=1) as file, open(self.point / "large2", "r+b", buffering=0) as large:
            file.write("agent\n")
            large.write(b"agent")
            self.apply()
            (self.point / "removed").unlink()
            self.w.warren("undo", self.w.id)
            self.assertEqual((self.read("a/x"), self.read("removed")), ("x\n", "base\n"))
            self.assertEqual(self.w.changes(), ["R f /large -> /large2", "D f /removed", "R f /a/x -> /z"])
            mounted.wait_for(lambda: not (self.point / "a/x").exists(), "the old name still shows")
            file.write("more\n")
        self.assertEqual((self.point / "large2").read_bytes(), b"agent" + b"x" * ((3 << 20) - 5))
        self.apply()
        self.assertEqual((self.read("z"), self.read("large2")[:6]), ("x\nagent\nmore\n", "agentx"))
        self.assertEqual(sorted(os.listdir(self.base)), ["a", "large2", "other", "z"])
        self.assertEqual(self.w.changes(), [])
        self.end()

    def test_after_an_undo_an_edit_of_what_was_renamed_and_changed_is_a_conflict(self):
        self.begin(x="x\n")
        (self.point / "x").rename(self.point / "z")
        (self.point / "z").write_text("of the agent\n")
        self.apply()
        self.w.warren("undo", self.w.id)
        (self.base / "x").write_text("of the user\n")
        self.assertIn("conflict: /z: it was changed in the base", self.w.fails("apply", self.w.id))
        self.assertEqual(self.read("x"), "of the user\n")
        self.end()

    def test_a_directory_that_was_moved_over_another_and_removed_is_no_conflict(self):
        self.begin(a__x="x\n", d__e__x="x of e\n", d__x="x of d\n")
        for path in ("d/e/x", "d/x"):
            (self.point / path).unlink()
        (self.point / "d" / "e").rmdir()
        (self.point / "a").rename(self.point / "d")
        (self.point / "d" / "x").unlink()
        (self.point / "d").rmdir()
        self.apply()
        self.assertEqual(os.listdir(self.base), [])
        self.end()

    def test_a_fork_has_nothing_that_an_apply_left_for_programs(self):
        self.begin(other="other\n")
        (self.point / "new").write_text("1\n")
        self.w.warren("apply", self.w.id)
        self.w.warren("fork", self.w.id, "forked")
        (self.base / "new").write_text("of the user\n")
        self.assertEqual(self.w.warren("fs", "forked", "cat", "/new"), b"of the user\n")
        self.w.warren("fs", "forked", "rm", "/new")
        self.assertEqual(self.w.warren("diff", "forked"), b"D f /new\n")
        self.end()

    def test_a_merged_session_has_nothing_that_an_apply_left_for_programs(self):
        self.begin(other="other\n")
        (self.point / "new").write_text("1\n")
        self.w.warren("apply", self.w.id)
        self.w.warren("init", "--base", self.base, "second")
        self.w.warren("fs", "second", "write", "/theirs", input=b"2\n")
        self.w.warren("merge", self.w.id, "second", "--into", "both")
        (self.base / "new").write_text("of the user\n")
        self.assertEqual(self.w.warren("fs", "session:both", "cat", "/new"), b"of the user\n")
        self.assertEqual(self.w.warren("diff", "session:both"), b"A f /theirs\n")
        self.end()

    def test_the_directory_of_an_apply_is_not_shown(self):
        self.begin(changed="of the base\n")
        (self.point / "changed").write_text("by the agent\n")
        words = ["strace", "-f", "-o", self.w.root / "trace", "-e", "trace=renameat2",
                 "-e", "inject=renameat2:signal=KILL:when=1+", mounted.program(), "apply", self.w.id]
        for _ in range(5):  # which of its renames is the first in the base does not matter
            subprocess.run(words, cwd=self.w.home, env=self.w.environment(), capture_output=True, check=False)
            if self.w.staging():
                break
        (staging,) = self.w.staging()
        self.assertEqual(os.listdir(self.point), ["changed"])
        with self.assertRaises(PermissionError):
            os.stat(self.point / staging)
        (self.point / ".warren-apply-mine").write_text("of the agent\n")  # one that only the agent has
        self.assertEqual(sorted(os.listdir(self.point)), [".warren-apply-mine", "changed"])
        (self.point / ".warren-apply-mine").unlink()
        self.w.run("apply", "--recover", self.w.id)
        self.w.warren("apply", self.w.id)
        self.assertEqual((os.listdir(self.base), self.read("changed")), (["changed"], "by the agent\n"))
        self.end()


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
