#!/usr/bin/env python3
"""What the user and the agent do while an apply ends, and how the session follows the user's edits afterwards.

    WARREN=path/to/warren meanwhile.py [-v] [Class.test_name]

Needs root, /dev/fuse and strace.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import MountedCase
from overlaid import mounted

LARGE = 17 << 20  # larger than what is copied whole


class Meanwhile(MountedCase):
    def append(self, path, text):
        with open(path, "a") as file:
            file.write(text)

    def conflicts(self):
        said = self.w.fails("apply", self.w.id)
        return sorted(line.split()[1].rstrip(":") for line in said.splitlines() if line.startswith("conflict: /"))

    def apply_and(self, is_written, meanwhile, *more):
        """Calls `meanwhile` when the base has what is applied, before the agent file says so: it stops the apply at each
        rename of a record. More pairs of a condition and a function follow one after the other. Returns what the apply
        said."""
        pending = [(is_written, meanwhile), *more]
        trace = self.w.root / "trace"
        words = ["strace", "-f", "-o", trace, "-e", "trace=rename", "-e", "inject=rename:signal=STOP", mounted.program(),
                 "apply", self.w.id]
        apply = subprocess.Popen(words, cwd=self.w.home, env=self.w.environment(), stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        self.addCleanup(apply.stdout.close)

        def stops():
            lines = trace.read_text().splitlines() if trace.exists() else []
            renamers = {line.split()[0] for line in lines if " rename(" in line}
            return [int(line.split()[0]) for line in lines
                    if line.endswith("--- stopped by SIGSTOP ---") and line.split()[0] in renamers]
        seen = 0
        while True:
            mounted.wait_for(lambda: len(stops()) > seen or apply.poll() is not None, "the apply goes on for ever")
            if len(stops()) <= seen:
                break
            seen += 1
            if pending and pending[0][0]():
                pending.pop(0)[1]()
            os.kill(stops()[-1], signal.SIGCONT)
        self.assertEqual(pending, [])
        self.assertEqual(apply.returncode, 0)
        return apply.stdout.read()

    def test_an_edit_while_an_apply_ends_is_not_reverted(self):
        names = ("shown", "same_size", "again", "deleted", "replaced")
        self.begin(**{name: "base 1\n" for name in names})
        for name in names:
            self.append(self.point / name, "agent\n")
        (self.point / "dir").mkdir()
        for name in ("new", "new_again", "dir/new", "dir/again"):
            (self.point / name).write_text("agent\n")
        opened = open(self.point / "shown", "a", buffering=1)
        self.addCleanup(opened.close)

        def edit():
            for name in (*names, "new", "new_again", "dir/new", "dir/again"):
                self.append(self.base / name, "user\n")
            (self.base / "same_size").write_text("user 1\nagent\n")
            for name in ("again", "new_again", "dir/again"):
                self.append(self.point / name, "again\n")
            (self.point / "deleted").unlink()
            (self.point / "draft").write_text("draft\n")
            (self.point / "draft").rename(self.point / "replaced")
        said = self.apply_and(lambda: (self.base / "dir" / "again").exists() and
                              all(self.read(name) == "base 1\nagent\n" for name in names), edit)
        for name in ("again", "new_again", "dir/again"):
            self.assertIn(f"/{name}", said)
        mounted.wait_for(lambda: (self.point / "shown").read_text() == "base 1\nagent\nuser\n", "the edit does not show")
        mounted.wait_for(lambda: (self.point / "same_size").read_text() == "user 1\nagent\n", "the edit does not show")
        for name in ("new", "dir/new"):
            self.assertEqual((self.point / name).read_text(), "agent\nuser\n")
        self.assertEqual(self.conflicts(), ["/again", "/deleted", "/dir/again", "/new_again", "/replaced"])
        opened.write("more\n")
        self.apply("/shown")
        self.assertEqual(self.read("shown"), "base 1\nagent\nuser\nmore\n")
        for name in ("again", "deleted", "replaced"):
            self.assertEqual(self.read(name), "base 1\nagent\nuser\n")
        self.assertEqual(self.read("same_size"), "user 1\nagent\n")
        for name in ("new", "new_again", "dir/new", "dir/again"):
            self.assertEqual(self.read(name), "agent\nuser\n")
        opened.close()
        self.end()
        self.assertEqual(len(self.conflicts()), 5)

    def test_a_write_to_a_second_name_while_an_apply_ends_stays_with_both(self):
        self.begin(first="base\n")
        os.link(self.point / "first", self.point / "second")
        said = self.apply_and((self.base / "second").exists, lambda: self.append(self.point / "second", "during\n"))
        self.assertIn("/second", said)
        for name in ("first", "second"):
            self.assertEqual((self.point / name).read_text(), "base\nduring\n")
        self.apply()
        self.assertEqual((self.read("first"), self.read("second")), ("base\nduring\n", "base\nduring\n"))
        self.assertEqual(self.w.changes(), [])
        self.end()

    def fill_links(self):
        (self.base / "large").write_bytes(b"x" * LARGE)
        (self.base / "small").write_text("base\n")
        for name in ("large", "small"):
            os.link(self.base / name, self.base / f"{name}2")

    def check_shown(self, *names):
        for name in names:
            wanted = (self.base / name).read_bytes()
            mounted.wait_for(lambda: (self.point / name).read_bytes() == wanted, f"the edit of {name} does not show")
        self.assertEqual(self.w.changes(), [])

    def test_a_file_with_several_names_shows_the_hosts_edit_after_an_apply(self):
        self.fill_links()
        self.begin()
        self.edit_in_place("large")
        with open(self.point / "small", "a", buffering=1) as opened:
            opened.write("agent\n")
            self.apply()
            for name in ("large", "small"):
                self.append(self.base / name, "host\n")
            self.check_shown("large", "large2", "small", "small2")
            opened.write("more\n")
            self.apply()
        self.assertEqual(self.read("small2"), "base\nagent\nhost\nmore\n")
        self.check_shown("small", "small2")
        self.end()

    def test_a_file_with_several_names_shows_the_hosts_edit_after_a_discard(self):
        self.fill_links()
        self.begin()
        self.edit_in_place("large")
        self.append(self.point / "small", "agent\n")
        self.w.warren("discard", "--yes", self.w.id)
        for name in ("large", "small"):
            self.append(self.base / name, "host\n")
        self.check_shown("large", "large2", "small", "small2")
        self.end()

    def test_an_applied_file_that_the_user_removes_is_removed_in_the_session(self):
        self.begin(deleted="base\n", moved="base\n", dir="base\n", link="base\n", other="base\n")
        names = ("deleted", "moved", "dir", "link")
        for name in names:
            self.append(self.point / name, "agent\n")
        self.apply()
        opened = open(self.point / "deleted")
        self.addCleanup(opened.close)
        (self.base / "deleted").unlink()
        (self.base / "moved").rename(self.base / "elsewhere")
        for name in ("dir", "link"):
            (self.base / name).unlink()
        (self.base / "dir").mkdir()
        (self.base / "dir" / "in").write_text("in\n")
        os.symlink("other", self.base / "link")
        mounted.wait_for(lambda: sorted(os.listdir(self.point)) == ["dir", "elsewhere", "link", "other"] and
                         os.listdir(self.point / "dir") == ["in"] and (self.point / "link").is_symlink(),
                         "the session does not show what the host has")
        self.assertEqual(opened.read(), "base\nagent\n")
        self.append(self.point / "other", "agent\n")
        self.assertEqual(self.w.changes(), ["M f /other"])
        self.append(self.point / "moved", "again\n")
        self.apply()
        opened.close()
        self.assertEqual((self.read("moved"), self.read("elsewhere")), ("again\n", "base\nagent\n"))
        self.end()
        self.assertEqual(self.w.changes(), [])

    def test_what_the_agent_removes_while_an_apply_runs_does_not_come_back(self):
        self.begin(other="base\n", d__x="base\n")
        (self.point / "n" / "sub").mkdir(parents=True)
        names = ("n/gone", "n/moved", "n/sub/x", "top", "d/new", "again")
        for name in names:
            (self.point / name).write_text("agent\n")

        def remove():
            for name in ("n/gone", "n/sub/x", "top", "d/new", "again"):
                (self.point / name).unlink()
            (self.point / "n" / "sub").rmdir()
            (self.point / "n" / "moved").rename(self.point / "n" / "away")
            (self.point / "again").write_text("agent 2\n")

        def check():
            for name in ("n/gone", "n/moved", "n/sub", "top", "d/new"):
                self.assertFalse((self.point / name).exists(), name)
            self.assertEqual(os.listdir(self.point / "n"), ["away"])
            os.close(os.open(self.point / "top", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            (self.point / "top").unlink()
        self.apply_and(lambda: any(self.base.glob(".warren-apply-*")), remove, (lambda: self.exists(*names), check))
        check()
        self.assertEqual((self.point / "again").read_text(), "agent 2\n")
        self.apply()
        self.assertEqual(sorted(os.listdir(self.base)), ["again", "d", "n", "other"])
        self.assertEqual((os.listdir(self.base / "n"), os.listdir(self.base / "d")), (["away"], ["x"]))
        self.assertEqual(self.w.changes(), [])
        self.end()

    def begin_in_a_directory(self):
        """Something new in a directory of the base."""
        self.begin(a__x="base\n", a__b__y="base\n")
        (self.point / "a" / "n").mkdir()
        for name in ("1", "2"):
            (self.point / "a" / "n" / name).write_text("agent\n")

    def make_again(self):
        (self.point / "a").rename(self.point / "e")
        (self.point / "a" / "n").mkdir(parents=True)
        (self.point / "a" / "n" / "1").write_text("agent 2\n")

    def check_made_again(self, place):
        for folder, names in (("a", ["n", "n/1"]), ("e", ["b", "b/y", "n", "n/1", "n/2", "x"])):
            found = (place / folder).rglob("*")
            self.assertEqual(sorted(str(path.relative_to(place / folder)) for path in found), names)
        self.assertEqual((place / "a/n/1").read_text(), "agent 2\n")
        self.assertEqual((place / "e/n/1").read_text(), "agent\n")

    def test_a_directory_that_is_renamed_and_made_again_while_an_apply_runs(self):
        self.begin_in_a_directory()
        self.apply_and(lambda: any(self.base.glob(".warren-apply-*")), self.make_again)
        self.check_made_again(self.point)
        self.assertEqual(self.w.changes(), ["A d /a", "A d /a/n", "A f /a/n/1", "R d /a -> /e"])
        self.apply()
        for place in (self.point, self.base):
            self.check_made_again(place)
        self.end()
        self.assertEqual(self.w.changes(), [])

    def test_a_directory_that_is_renamed_while_an_apply_runs_and_removed_afterwards(self):
        self.begin_in_a_directory()
        self.apply_and(lambda: any(self.base.glob(".warren-apply-*")),
                       lambda: (self.point / "a").rename(self.point / "e"))
        shutil.rmtree(self.point / "e")
        self.apply()
        self.assertEqual(os.listdir(self.base), [])
        self.assertEqual(self.w.changes(), [])
        self.end()

    def exists(self, *names):
        return all((self.base / name).exists() for name in names)

    def test_a_mode_that_is_set_to_what_it_is_changes_nothing(self):
        self.begin(mode="base\n", changed="base\n")
        os.chmod(self.point / "mode", (self.base / "mode").stat().st_mode & 0o7777)
        (self.point / "changed").write_text("agent\n")
        self.assertEqual(self.w.changes(), ["M f /changed"])
        for name in ("mode", "changed"):
            overlaid.write(self.base / name, "host\n")
        mounted.wait_for(lambda: (self.point / "mode").read_text() == "host\n", "it does not follow")
        self.assertEqual(self.conflicts(), ["/changed"])
        self.end()
        self.assertEqual(self.w.changes(), ["M f /changed"])

    def test_a_file_that_was_renamed_does_not_follow_another_one_of_its_old_name(self):
        self.begin(x="old\n", y="y\n")
        os.rename(self.point / "x", self.point / "x.bak")
        (self.point / "x").write_text("new\n")
        os.rename(self.point / "y", self.point / "z")
        os.rename(self.point / "x.bak", self.point / "y")
        for _ in range(2):
            self.w.run("apply", self.w.id)
            for place in (self.point, self.base):
                self.assertEqual([(place / name).read_text() for name in "xyz"], ["new\n", "old\n", "y\n"])
        self.end()
        self.assertEqual(self.w.changes(), [])

    def test_an_edit_in_an_applied_directory_that_the_agent_makes_again(self):
        self.begin(c__a="base\n")
        (self.point / "d").mkdir()
        for name in ("d/f", "c/n"):
            (self.point / name).write_text("agent\n")
        self.apply()
        overlaid.write(self.base / "d/f", "host\n")
        for folder in ("d", "c"):
            shutil.rmtree(self.point / folder)
            (self.point / folder).mkdir()
        (self.point / "d/f").write_text("again\n")
        self.assertEqual(self.conflicts(), ["/d/f"])  # and nothing about what the apply wrote
        self.assertEqual(self.read("d/f"), "host\n")
        self.end()

    def edit_in_place(self, name):
        with open(self.point / name, "r+b") as file:
            file.write(b"1")

    def test_an_applied_file_follows_the_host_when_events_were_lost(self):
        (self.base / "large").write_bytes(b"x" * LARGE)
        self.fill(small="base\n")
        server = self.w.serve()
        self.point = self.w.point()
        self.edit_in_place("large")
        self.append(self.point / "small", "agent\n")
        self.apply()
        server.send_signal(signal.SIGSTOP)
        mounted.wait_for(lambda: pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")")[-1].split()[0] == "T",
                         "the mount does not stop")
        most = int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        for _ in range(most // 2 + 1):  # two events each
            os.close(os.open(self.base / "passing", os.O_CREAT | os.O_WRONLY))
            (self.base / "passing").unlink()
        for name in ("large", "small"):
            self.append(self.base / name, "host\n")
        server.send_signal(signal.SIGCONT)
        self.check_shown("large", "small")
        self.end()
        self.assertEqual(server.wait(timeout=mounted.PATIENCE_SECONDS), 0)


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
