#!/usr/bin/env python3
"""diff: every flag, hostile names, and the speed of many changes.

    WARREN=path/to/warren diff.py [-v] [Class.test_name]
"""
import contextlib
import json
import os
import pathlib
import sqlite3
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case, HOSTILE
from overlaid import mounted


class Diff(Case):
    def test_lines_names_and_json(self):
        self.fill(a="1\n", b="2\n", d__x="3\n")
        self.write("/a", "one\n")
        self.fs("rm", "/b")
        self.fs("mv", "/d", "/e")
        self.fs("mkdir", "/new")
        self.assertEqual(self.w.lines(), ["M f /a", "D f /b", "R d /d -> /e", "A d /new"])
        self.assertEqual(self.w.lines("--name-only"), ["/a", "/b", "/e", "/new"])
        self.assertEqual(self.w.warren("diff", "--name-only", "-z", self.w.id), b"/a\0/b\0/e\0/new\0")
        listed = json.loads(self.w.warren("diff", "--json", self.w.id))
        self.assertEqual([(c["change"], c["type"], c["path"]) for c in listed],
                         [("modified", "file", "/a"), ("deleted", "file", "/b"), ("renamed", "directory", "/e"),
                          ("added", "directory", "/new")])
        self.assertEqual(listed[2]["from"], "/d")

    def test_the_exit_status_shows_changes_only_if_asked(self):
        self.fill(a="1\n")
        self.assertEqual(self.w.run("diff", "--exit-code", self.w.id).returncode, 0)
        self.write("/a", "2\n")
        self.assertEqual(self.w.run("diff", self.w.id).returncode, 0)
        self.assertEqual(self.w.run("diff", "--exit-code", self.w.id).returncode, 1)

    def test_a_name_that_another_program_has_removed_twice_is_one_change(self):
        self.fill(a="1\n", b="2\n")
        self.fs("rm", "/a")
        with contextlib.closing(sqlite3.connect(self.w.file)) as agent, agent:
            agent.execute("INSERT INTO fs_whiteout (path, parent_path, created_at) VALUES ('a', '/', 1)")
        self.assertEqual(self.w.lines(), ["D f /a"])
        self.w.warren("apply", self.w.id)
        self.assertEqual(os.listdir(self.base), ["b"])
        self.assertEqual(self.w.lines(), [])

    def test_a_removed_name_that_cannot_be_a_path_hides_nothing(self):
        """A stranger's row. The last one would have a quarter of a million directories above it."""
        self.fill(d__1="1\n", d__e__2="2\n", gone="3\n")
        self.fs("rm", "/gone")
        for path in ("/d//1", "/d/../d/1", "/d/./1", "/d/1/", "/d/" + "x" * 300, "/d/1\0", "/d" * 262144):
            with self.subTest(path=path[:20]):
                with contextlib.closing(sqlite3.connect(self.w.file)) as agent, agent:
                    agent.execute("DELETE FROM fs_whiteout WHERE path <> '/gone'")
                    agent.execute("INSERT INTO fs_whiteout (path, parent_path, created_at) VALUES (?, '', 1)", (path,))
                self.assertEqual(self.w.changes(), ["D f /gone"])
                self.assertEqual(self.fs("ls", "/d"), b"1\ne\n")

    def test_paths_and_patterns_choose(self):
        self.fill(a="1", d__x="1", d__y="1", e__x="1")
        for path in ["/a", "/d/x", "/d/y", "/e/x"]:
            self.write(path, "22")
        self.assertEqual(self.w.lines("/d"), ["M f /d/x", "M f /d/y"])
        self.assertEqual(self.w.lines("d/x", "a"), ["M f /a", "M f /d/x"])
        self.assertEqual(self.w.lines("/*/x"), ["M f /d/x", "M f /e/x"])
        self.assertIn("no changes match '/nothing'", self.w.fails("diff", self.w.id, "/nothing"))
        self.assertIn("no changes match 'noth*'", self.w.fails("diff", self.w.id, "noth*"))

    def test_the_old_path_of_what_is_in_a_renamed_directory(self):
        self.fill(d__x="1\n", d__e__y="1\n", d__e__z="1\n", other="1\n")
        self.w.change(lambda p: os.rename(p + "/d", p + "/d new"))
        self.write("/d new/e/y", "2\n")
        self.write("/other", "2\n")
        renamed, changed = "R d /d -> /d new", "M f /d new/e/y"
        for path, shown in (("d/x", [renamed]), ("d/e/y", [renamed, changed]), ("/d/e", [renamed, changed]),
                            ("d/e/*", [renamed, changed]), ("d", [renamed]), ("d new", [renamed, changed])):
            with self.subTest(path=path):
                self.assertEqual(self.w.changes(path), shown)
        self.assertEqual(self.w.changes("d/x", "--exclude", "d new"), [])
        here = self.w.warren("diff", self.w.file, "--name-only", "x", cwd=self.base / "d")
        self.assertEqual(here, b"/d new\n")
        self.assertIn("no changes match 'd/wrong'", self.w.fails("diff", self.w.id, "d/wrong"))
        self.assertIn("no changes match 'd/x'", self.w.fails("apply", self.w.id, "d/x"))  # it would rename all of it
        self.assertTrue((self.base / "d/x").exists())

    def test_a_file_that_was_only_read_or_written_back_is_not_a_change(self):
        self.fill(a="1\n", b="2\n")
        self.fs("cat", "/a")
        self.write("/b", "2\n")
        self.w.change(lambda p: os.chmod(p + "/a", stat.S_IMODE(os.stat(p + "/a").st_mode)))
        self.assertEqual(self.w.diff(), [])

    def test_a_deleted_directory_is_listed_with_its_content(self):
        self.fill(d__x="1", d__s__y="1")
        self.fs("rm", "-r", "/d")
        self.assertEqual(self.w.lines(), ["D d /d", "D d /d/s", "D f /d/s/y", "D f /d/x"])

    def test_a_change_of_kind_is_a_deletion_and_an_addition(self):
        self.fill(f="1")
        self.fs("rm", "/f")
        self.fs("mkdir", "/f")
        self.assertEqual(self.w.lines(), ["D f /f", "A d /f"])

    def test_stat_counts_lines(self):
        self.fill(a="1\n2\n3\n")
        self.write("/a", "1\ntwo\n3\n4\n")
        self.w.change(lambda p: overlaid.write(p + "/bin", b"\0\1"))
        out = self.w.warren("diff", "--stat", self.w.id).decode()
        self.assertIn(" a   |   3 ++-", out)
        self.assertIn("bin | Bin 0 -> 2 bytes", out)
        self.assertIn(" 2 files changed, 2 insertions(+), 1 deletion(-)", out)

    def test_hostile_names_are_exact(self):
        for name in HOSTILE:
            overlaid.write(os.fsencode(self.base) + b"/" + name, b"1")
        self.w.init()
        for name in HOSTILE:
            self.w.change(lambda p, n=name: overlaid.write(os.fsencode(p) + b"/" + n, b"22"))
        wanted = sorted(b"M f /" + name for name in HOSTILE)
        self.assertEqual(sorted(self.w.diff()), wanted)
        listed = json.loads(self.w.warren("diff", "--json", self.w.id))
        names = sorted(bytes.fromhex(c["path_hex"]) if "path_hex" in c else c["path"].encode() for c in listed)
        self.assertEqual(names, sorted(b"/" + name for name in HOSTILE))
        self.w.warren("apply", self.w.id)
        for name in HOSTILE:
            with open(os.fsencode(self.base) + b"/" + name, "rb") as file:
                self.assertEqual(file.read(), b"22")
        self.assertEqual(self.w.diff(), [])

    def test_no_two_names_look_alike(self):
        self.w.init()
        names = [b"inv\xff", rb"inv\xff", rb"n\x0a"]
        self.w.change(lambda p: [overlaid.write(os.fsencode(p) + b"/" + name, b"1") for name in names])
        shown = [r"/inv\\xff", r"/inv\xff", r"/n\\x0a"]
        self.assertEqual(self.w.lines("--name-only"), shown)
        self.assertEqual(self.w.lines(), ["A f " + name for name in shown])
        self.assertEqual([line.split(" |")[0] for line in self.w.lines("--stat")[:3]], [" " + name[1:].ljust(8) for name in shown])

    def test_a_name_cannot_forge_a_line(self):
        self.w.init()
        self.w.change(lambda p: overlaid.write(os.fsencode(p) + b"/n\nforged", b"1"))
        self.assertEqual(self.w.lines("--name-only"), [r"/n\x0aforged"])
        self.assertEqual(self.w.warren("diff", "--name-only", "-z", self.w.id), b"/n\nforged\0")

    def test_hostile_names_do_nothing_to_a_terminal(self):
        for name in HOSTILE:
            overlaid.write(os.fsencode(self.base) + b"/" + name, b"1\n")
        self.w.init()
        self.w.change(lambda p: [overlaid.write(os.fsencode(p) + b"/" + name, b"2\n") for name in HOSTILE])
        for form in ([], ["--name-only"], ["--stat"], ["--patch"]):
            said = self.talk(["diff", *form, self.w.id], b"").replace(b"\r\n", b"\n")
            self.assertNotIn(b"\x1b[31m\n", said)
            self.assertNotIn(b"/\x1b", said)
            self.assertNotIn(b"\xff", said)
            self.assertNotIn(b"new\nline", said)
        patch = self.w.root / "patch"
        self.w.warren("apply", "--as-patch", patch, self.w.id)
        overlaid.git("apply", "--unsafe-paths", patch, cwd=self.base)
        for name in HOSTILE:
            with open(os.fsencode(self.base) + b"/" + name, "rb") as file:
                self.assertEqual(file.read(), b"2\n", name)

    def test_an_agent_without_a_base_says_so(self):
        self.w.warren("init", "lone")
        self.assertIn("has no base", self.w.fails("diff", "lone"))
        done = subprocess.run(["agentfs", "diff", "lone"], executable=mounted.program(), cwd=self.w.home, env=self.w.environment(), capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, b"No diff (non-overlay filesystem)\n"))

    def test_as_agentfs(self):
        self.fill(a="1", b="1", c="1")

        def agentfs():
            return subprocess.run(["agentfs", "diff", self.w.id], executable=mounted.program(), cwd=self.w.home,
                                  capture_output=True, check=True)
        self.assertEqual(agentfs().stdout, b"No changes\n")
        self.write("/a", "22")
        self.fs("mv", "/b", "/z")
        self.fs("rm", "/c")
        done = agentfs()
        self.assertEqual(done.stdout, b"M f /a\nD f /b\nD f /c\nA f /z\n")
        self.assertEqual(done.stderr, f"Using agent: a\nBase: {self.base}\n".encode())


class SlowReader(Case):
    LINES = "".join(f"line {i}\n" for i in range(60_000))

    def log_bytes(self):
        return sum(path.stat().st_size for path in self.w.root.rglob("*-wal"))

    def test_whoever_reads_slowly_does_not_make_the_log_grow(self):
        self.fill(a="1\n")
        self.write("/big", self.LINES)
        point = self.w.mount()
        for words in (("diff", self.w.id, "-p"), ("apply", self.w.id, "--as-patch", "-")):
            with self.subTest(words[0]), subprocess.Popen([mounted.program(), *words], cwd=self.w.home, env=self.w.environment(),
                                                          stdout=subprocess.PIPE) as reading:
                first = reading.stdout.read(1)
                most = 0
                for _ in range(160):
                    with open(f"{point}/passing", "wb") as file:
                        file.write(os.urandom(1 << 20))
                        file.flush()
                        os.fsync(file.fileno())
                    most = max(most, self.log_bytes())
                self.assertLess(most, 128 << 20)
                shown = (first + reading.stdout.read()).decode()
                self.assertEqual(shown.count("\n+line "), 60_000)
                self.assertEqual(reading.wait(timeout=60), 0)
        self.w.umount(point)

    def test_a_full_disk_for_temporary_files_is_named(self):
        self.fill(a="1\n")
        self.write("/big", self.LINES)
        small = self.w.home / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=True)
        self.addCleanup(subprocess.run, ["umount", small], check=True)
        environment = self.w.environment() | {"TMPDIR": str(small)}
        done = subprocess.run([mounted.program(), "diff", self.w.id, "-p"], cwd=self.w.home, env=environment, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("temporary file (in $TMPDIR, or else in /tmp): write: No space left on device", done.stderr)
        done = subprocess.run([mounted.program(), "diff", self.w.id], cwd=self.w.home, env=environment, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "A f /big\n"), done.stderr)


class Speed(Case):
    def test_ten_thousand_changed_files(self):
        for i in range(10_000):
            overlaid.write(self.base / f"d{i % 100}/f{i}", f"{i}\n")
        self.w.init()

        def change(p):
            for i in range(10_000):
                with open(f"{p}/d{i % 100}/f{i}", "wb") as file:
                    file.write(b"%d!" % i if i % 2 else b"X" * (len(str(i)) + 1))
        self.w.change(change)
        times = {}
        for name, args in {"diff": ("diff",), "diff --stat": ("diff", "--stat"), "apply": ("apply",)}.items():
            start = time.monotonic()
            out = self.w.warren(*args, self.w.id)
            times[name] = time.monotonic() - start
            if name == "diff":
                self.assertEqual(out.count(b"\n"), 10_000)
        print({name: f"{seconds:.2f} s" for name, seconds in times.items()}, file=sys.stderr)
        self.assertEqual(self.w.diff(), [])


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
