#!/usr/bin/env python3
"""What an apply leaves in the agent for its users, and what they, the user and the host do with it afterwards.

    WARREN=path/to/warren kept.py [-v] [Class.test_name]

Needs root and /dev/fuse; the tests of a killed apply need strace.
"""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from case import MountedCase
from overlaid import mounted


class Kept(MountedCase):
    def conflicts(self):
        said = self.w.fails("apply", self.w.id)
        return sorted(line.split()[1].rstrip(":") for line in said.splitlines() if line.startswith("conflict: /"))

    def rows(self):
        return int(self.w.warren("sql", self.w.id, "select count(*) from fs_dentry").split()[-1])

    def test_the_users_edit_is_not_lost_when_the_agent_removes_the_file(self):
        self.begin(other="other\n", changed="of the base\n")
        (self.point / "new").mkdir()
        for name in ("gone", "moved", "replaced", "again", "new/gone"):
            (self.point / name).write_text("1\n")
        os.symlink("1", self.point / "link")
        self.apply()
        (self.point / "changed").write_text("by the agent\n")
        names = ("gone", "moved", "replaced", "again", "new/gone", "changed")
        for name in names:
            (self.base / name).write_text("2\n")
        (self.base / "link").unlink()
        os.symlink("2", self.base / "link")
        for name in ("gone", "again", "changed", "new/gone"):
            (self.point / name).unlink()
        (self.point / "new").rmdir()
        (self.point / "again").write_text("agent\n")
        (self.point / "moved").rename(self.point / "moved2")
        (self.point / "draft").write_text("agent\n")
        (self.point / "draft").rename(self.point / "replaced")
        os.symlink("agent", self.point / "draft")
        (self.point / "draft").rename(self.point / "link")
        self.assertEqual(self.conflicts(),
                         ["/again", "/changed", "/gone", "/link", "/moved", "/new/gone", "/replaced"])
        for name in names:
            self.assertEqual(self.read(name), "2\n")
        self.assertEqual(os.readlink(self.base / "link"), "2")
        self.end()
        self.assertEqual(len(self.conflicts()), 7)

    def test_without_an_edit_of_the_user_there_is_no_conflict(self):
        self.begin(other="other\n")
        (self.point / "new").mkdir()
        for name in ("gone", "moved", "replaced", "again", "new/gone"):
            (self.point / name).write_text("1\n")
        self.apply()
        for name in ("gone", "again", "new/gone"):
            (self.point / name).unlink()
        (self.point / "new").rmdir()
        (self.point / "again").write_text("agent\n")
        (self.point / "moved").rename(self.point / "moved2")
        (self.point / "draft").write_text("agent\n")
        (self.point / "draft").rename(self.point / "replaced")
        self.apply()
        self.assertEqual(sorted(os.listdir(self.base)), ["again", "moved2", "other", "replaced"])
        self.assertEqual((self.read("again"), self.read("replaced")), ("agent\n", "agent\n"))
        self.assertEqual(self.w.changes(), [])
        self.end()
        self.assertEqual(self.rows(), 0)

    def test_a_program_in_a_new_directory_removes_what_was_applied(self):
        self.begin(other="other\n")
        (self.point / "new" / "sub" / "deep").mkdir(parents=True)
        for name in ("gone", "moved", "sub/deep/f"):
            (self.point / "new" / name).write_text("1\n")
        script = "read line; rm gone && mv moved moved2 && rm -r sub && mkdir sub && cd .. && ls new new/sub"
        with subprocess.Popen(["sh", "-c", script], cwd=self.point / "new", stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as shell:
            self.apply()
            said = shell.communicate("go\n", timeout=mounted.PATIENCE_SECONDS)[0]
        self.assertEqual(said.split(), ["new:", "moved2", "sub", "new/sub:"])
        self.assertEqual(self.w.changes(), ["D f /new/gone", "D f /new/moved", "A f /new/moved2", "D d /new/sub/deep",
                                            "D f /new/sub/deep/f"])
        self.apply()
        self.assertEqual(sorted(os.listdir(self.base / "new")), ["moved2", "sub"])
        self.assertEqual(os.listdir(self.base / "new" / "sub"), [])
        self.end()

    def kill_apply(self, name):
        """Ends an apply right after the base has the file."""
        for call in range(1, 40):
            words = ["strace", "-f", "-o", self.w.root / "trace", "-e", "trace=renameat2",
                     "-e", f"inject=renameat2:signal=KILL:when={call}", mounted.program(), "apply", self.w.id]
            subprocess.run(words, cwd=self.w.home, env=self.w.environment(), capture_output=True, check=False)
            if (self.base / name).exists():
                break
        self.assertTrue((self.base / name).exists())

    def test_what_the_agent_removes_during_an_apply_stays_removed(self):
        self.begin(**{name: "of the base\n" for name in ("changed", "moved", "replaced")})
        (self.base / "dir").mkdir()
        (self.base / "dir" / "in").write_text("of the base\n")
        (self.point / "new" / "sub").mkdir(parents=True)
        for name in ("gone", "away", "sub/f"):
            (self.point / "new" / name).write_text("1\n")
        (self.point / "kept").write_text("1\n")
        for name in ("changed", "moved", "replaced", "dir/in"):
            (self.point / name).write_text("by the agent\n")
        opened = open(self.point / "moved", "a", buffering=1)
        self.addCleanup(opened.close)
        self.kill_apply("kept")
        for name in ("new/gone", "new/sub/f", "changed"):
            (self.point / name).unlink()
        (self.point / "new" / "sub").rmdir()
        (self.point / "new" / "away").rename(self.point / "new" / "away2")
        (self.point / "moved").rename(self.point / "moved2")
        (self.point / "dir").rename(self.point / "dir2")
        (self.point / "draft").write_text("later\n")
        (self.point / "draft").rename(self.point / "replaced")
        said = self.w.run("apply", "--recover", self.w.id).stderr.decode()
        self.assertIn("the agent changed /new/gone again during the apply: that change is not applied yet\n", said)
        self.assertEqual(self.read("new/gone"), "1\n")
        self.assertEqual(self.read("changed"), "by the agent\n")
        self.assertFalse((self.point / "new" / "gone").exists())
        self.assertEqual(sorted(os.listdir(self.point / "new")), ["away2"])
        self.assertEqual(self.w.changes(), ["D f /changed", "R d /dir -> /dir2", "R f /moved -> /moved2",
                                            "D f /new/away", "A f /new/away2", "D f /new/gone", "D d /new/sub",
                                            "D f /new/sub/f", "M f /replaced"])
        opened.write("more\n")
        opened.close()
        self.assertEqual((self.point / "moved2").read_text(), "by the agent\nmore\n")
        self.apply()
        self.assertEqual(sorted(os.listdir(self.base)), ["dir2", "kept", "moved2", "new", "replaced"])
        self.assertEqual(sorted(os.listdir(self.base / "new")), ["away2"])
        self.assertEqual((self.read("moved2"), self.read("dir2/in"), self.read("replaced")),
                         ("by the agent\nmore\n", "by the agent\n", "later\n"))
        self.assertEqual(self.w.changes(), [])
        self.end()
        self.assertEqual(self.rows(), 0)

    def test_discard_gives_an_open_file_what_the_base_has(self):
        self.begin(other="other\n")
        with open(self.point / "log", "a", buffering=1) as log:
            log.write("1\n")
            self.apply()
            log.write("2\n")
            self.w.warren("discard", "--yes", self.w.id)
            self.assertEqual(self.w.changes(), [])
            mounted.wait_for(lambda: (self.point / "log").read_text() == "1\n", "the base's content does not show")
            log.write("3\n")
            self.assertEqual((self.point / "log").read_text(), "1\n3\n")
        self.assertEqual(self.w.changes(), ["M f /log"])
        self.apply()
        self.assertEqual(self.read("log"), "1\n3\n")
        self.end()
        self.assertEqual(self.rows(), 0)

    def discard_removal_while_open(self, name):
        """Of a file that an apply has written while a program had it open."""
        with open(self.point / name, "a+", buffering=1) as log:
            log.write("1\n")
            self.apply()
            before = self.read(name)
            os.unlink(self.point / name)
            self.assertEqual(self.w.changes(), [f"D f /{name}"])
            self.w.warren("discard", "--yes", self.w.id)
            mounted.wait_for((self.point / name).exists, "the base's file does not show")
            self.assertEqual((self.point / name).read_text(), before)
            self.assertEqual(os.stat(self.point / name).st_nlink, 1)
            log.write("of the removed file\n")
            log.seek(0)
            self.assertEqual(log.read(), before + "of the removed file\n")
            with open(self.point / name, "a") as again:
                again.write("2\n")
            self.assertEqual((self.point / name).read_text(), before + "2\n")
            self.assertEqual(self.w.changes(), [f"M f /{name}"])
            os.unlink(self.point / name)
            self.w.warren("discard", "--yes", self.w.id)
            mounted.wait_for((self.point / name).exists, "the base's file does not show again")
            self.assertEqual((self.point / name).read_text(), before)
        self.assertEqual((self.point / name).read_text(), before)
        with open(self.point / name, "a") as again:
            again.write("3\n")
        self.apply()
        self.assertEqual(self.read(name), before + "3\n")
        self.end()
        self.assertEqual(self.rows(), 0)

    def test_an_applied_file_that_is_removed_while_it_is_open_comes_back(self):
        self.begin(log="of the base\n")
        self.discard_removal_while_open("log")

    def test_a_new_file_that_was_applied_and_removed_while_it_is_open_comes_back(self):
        self.begin(other="other\n")
        self.discard_removal_while_open("log")

    def test_a_merged_file_is_not_reverted(self):
        self.begin(other="other\n")
        (self.point / "log").write_text("1\n2\n3\n4\n5\n")
        self.apply()
        (self.base / "log").write_text("of the user\n2\n3\n4\n5\n")
        with open(self.point / "log", "a") as log:
            log.write("agent\n")
        self.w.warren("apply", "--merge", self.w.id)
        merged = "of the user\n2\n3\n4\n5\nagent\n"
        self.assertEqual(self.read("log"), merged)
        self.assertEqual(self.w.changes(), [])
        mounted.wait_for(lambda: (self.point / "log").read_text() == merged, "the merged content does not show")
        self.end()
        self.assertEqual(self.rows(), 0)

    def test_a_renamed_file_does_not_hide_the_base_afterwards(self):
        self.begin(old="of the base\n")
        (self.point / "old").rename(self.point / "new")
        self.apply()
        self.end()
        self.assertEqual(self.rows(), 0)
        (self.base / "new").write_text("of the user\n")
        self.assertEqual(self.fs("cat", "/new"), b"of the user\n")

    def test_on_a_filesystem_with_coarse_times_nothing_is_left(self):
        image = self.w.root / "image"
        with open(image, "wb") as out:
            out.truncate(8 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-I", "128", image], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", image, self.base], check=True)
        self.w.points.append(self.base)
        self.begin(other="other\n")
        (self.point / "new").write_text("1\n")
        self.apply()
        self.assertEqual(self.w.changes(), [])
        (self.base / "new").write_text("of the user\n")
        self.assertEqual(self.w.changes(), [])
        self.end()
        self.assertEqual(self.rows(), 0)
        self.assertEqual(self.fs("cat", "/new"), b"of the user\n")

    def test_after_a_crash_the_next_mount_shows_the_base(self):
        self.fill(other="other\n")
        server = self.w.serve()
        point = self.w.point()
        (point / "new").write_text("1\n")
        self.apply()
        server.kill()
        server.wait()
        subprocess.run(["umount", "-l", point], check=True)
        (self.base / "new").write_text("of the user\n")
        self.point = self.w.mount()
        self.assertEqual((self.point / "new").read_text(), "of the user\n")
        self.end()

    def test_what_an_undo_takes_back_is_a_change_again(self):
        self.begin(other="other\n")
        (self.point / "new").write_text("1\n")
        self.apply()
        self.w.warren("undo", self.w.id)
        self.assertFalse((self.base / "new").exists())
        self.assertEqual(self.w.changes(), ["A f /new"])
        self.end()
        self.assertEqual(self.w.changes(), ["A f /new"])
        self.assertEqual(self.fs("cat", "/new"), b"1\n")


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
