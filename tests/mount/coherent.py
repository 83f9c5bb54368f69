#!/usr/bin/env python3
"""Several ways to one agent at once: the mount, the command line, a second mount; and a mount by an ordinary user.

    WARREN=path/to/warren coherent.py [-v] [Class.test_name]

What is changed elsewhere must show in the mount within a second, also where the kernel had cached the old state.
What is changed in the mount must be there for the next command at once. Needs root.
"""
import contextlib
import errno
import mmap
import os
import pathlib
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted

VISIBLE_SECONDS = 1
ORDINARY_UID = 65534


def outcome(function, *args):
    try:
        return function(*args)
    except OSError as error:
        return errno.errorcode[error.errno]


def append(path, data):
    with open(path, "ab", buffering=0) as file:
        file.write(data)


class Coherent(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.mount = self.world.mount()

    def finish(self, *mounts):
        for mount in mounts or [self.mount]:
            self.world.umount(mount)
        self.world.fsck()
        self.assertEqual(self.world.left_beside(), [])

    def fs(self, *args, **options):
        return self.world.warren("fs", self.world.id, *args, **options)

    def shows(self, wanted, function, *args):
        """Waits until the function returns the expected result."""
        end = time.monotonic() + VISIBLE_SECONDS
        while (found := outcome(function, *args)) != wanted and time.monotonic() < end:
            time.sleep(0.005)
        self.assertEqual(found, wanted)


class CommandLine(Coherent):
    def test_new_content_replaces_what_was_cached(self):
        path = self.mount / "file"
        for turn, size in enumerate((10, 5, 100_000, 4096, 0, 300_000, 1)):
            data = bytes([65 + turn]) * size
            self.fs("write", "/file", "-", input=data)
            self.shows(data, path.read_bytes)
            self.assertEqual(path.stat().st_size, size)
            path.read_bytes()
        self.finish()

    def test_an_open_file_shows_what_was_added(self):
        path = self.mount / "file"
        path.write_bytes(b"start\n")
        with open(path, "rb", buffering=0) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            self.assertEqual(mapped[:], b"start\n")
            self.fs("append", "/file", "more\n")
            self.shows(11, lambda: os.fstat(file.fileno()).st_size)
            self.shows(b"start\nmore\n", lambda: os.pread(file.fileno(), 100, 0))
            self.assertEqual(mapped[:], b"start\n")
        self.finish()

    def test_a_log_that_is_kept_open_continues_after_what_others_appended(self):
        """Whole pages as well: the kernel caches those where it believed the end to be."""
        for size in (10, 4096, 5000, 300_000):
            for pause_seconds in (0, 0, 0.3):
                with self.subTest(size=size, pause_seconds=pause_seconds):
                    self.append_in_turns(f"log-{size}-{pause_seconds}", size, pause_seconds)
        self.finish()

    def append_in_turns(self, name, size, pause_seconds):
        path, expected = self.mount / name, b""
        path.unlink(missing_ok=True)
        with open(path, "ab", buffering=0) as log:
            for turn in range(3):
                ours, theirs = bytes([65 + turn]) * size, bytes([97 + turn]) * size
                log.write(ours)
                self.assertEqual(path.read_bytes(), expected + ours)
                os.fsync(log.fileno())
                self.fs("append", f"/{name}", "-", input=theirs)
                time.sleep(pause_seconds)
                log.write(ours)
                expected += ours + theirs + ours
                self.shows(expected, path.read_bytes)
                self.assertEqual(path.stat().st_size, len(expected))
                self.assertEqual(self.fs("cat", f"/{name}"), expected)

    def test_a_log_that_was_truncated_elsewhere_starts_again(self):
        path = self.mount / "log"
        with open(path, "ab", buffering=0) as log:
            log.write(b"old\n" * 1000)
            os.fsync(log.fileno())
            self.fs("write", "/log", "")
            log.write(b"new\n")
            self.shows(b"new\n", path.read_bytes)
        self.finish()

    def test_a_memory_map_of_a_log_is_written_where_it_is(self):
        path = self.mount / "log"
        path.write_bytes(b"a" * 10_000)
        fd = os.open(path, os.O_RDWR | os.O_APPEND)
        with mmap.mmap(fd, 10_000) as mapped:
            mapped[5:10] = b"bbbbb"
            mapped.flush()
        os.close(fd)
        self.assertEqual(self.fs("cat", "/log"), b"a" * 5 + b"bbbbb" + b"a" * 9990)
        self.finish()

    def test_new_names_appear_where_none_were(self):
        for number in range(5):
            path = self.mount / f"new{number}"
            self.assertEqual(outcome(path.stat), "ENOENT")
            self.assertNotIn(path.name, os.listdir(self.mount))
            self.fs("write", f"/new{number}", "here")
            self.shows(b"here", path.read_bytes)
            self.shows(True, lambda: path.name in os.listdir(self.mount))
        self.finish()

    def test_removed_names_go_away(self):
        for number in range(5):
            path = self.mount / f"old{number}"
            path.write_text("old")
            path.read_text(), path.stat(), os.listdir(self.mount)
            self.fs("rm", f"/old{number}")
            self.shows("ENOENT", path.stat)
            self.shows("ENOENT", path.read_text)
            self.shows(False, lambda: path.name in os.listdir(self.mount))
            path.write_text("again")
            self.assertEqual(self.fs("cat", f"/old{number}"), b"again")
        self.finish()

    def test_moves_and_directories_show(self):
        self.fs("mkdir", "/a")
        self.shows(True, (self.mount / "a").is_dir)
        (self.mount / "a" / "f").write_text("moved")
        os.listdir(self.mount / "a"), os.listdir(self.mount)
        self.fs("mv", "/a", "/b")
        self.shows("ENOENT", (self.mount / "a" / "f").read_text)
        self.shows("moved", (self.mount / "b" / "f").read_text)
        self.shows(["b"], os.listdir, self.mount)
        self.fs("write", "/other", "over")
        self.fs("mv", "/other", "/b/f")
        self.shows("over", (self.mount / "b" / "f").read_text)
        self.shows(["b"], os.listdir, self.mount)
        self.fs("rm", "-r", "/b")
        self.shows([], os.listdir, self.mount)
        self.shows("ENOENT", (self.mount / "b").stat)
        self.finish()

    def test_a_file_and_a_directory_take_each_others_name(self):
        path = self.mount / "name"
        for _ in range(3):
            self.fs("write", "/name", "file")
            self.shows("file", path.read_text)
            self.fs("rm", "/name")
            self.fs("mkdir", "/name")
            self.shows([], os.listdir, path)
            self.fs("rmdir", "/name")
            self.shows("ENOENT", path.stat)
        self.finish()

    def test_modes_and_links_show(self):
        path = self.mount / "file"
        path.write_text("x")
        self.assertEqual(path.stat().st_nlink, 1)
        self.fs("chmod", "600", "/file")
        self.shows(0o600, lambda: stat.S_IMODE(path.stat().st_mode))
        self.fs("ln", "/file", "/second")
        self.shows(2, lambda: path.stat().st_nlink)
        self.assertEqual((self.mount / "second").read_text(), "x")
        self.fs("rm", "/second")
        self.shows(1, lambda: path.stat().st_nlink)
        for target in ("file", "elsewhere"):
            self.fs("ln", "-s", "-f", target, "/link")
            self.shows(target, os.readlink, self.mount / "link")
        self.finish()

    def test_a_file_removed_elsewhere_while_open_is_still_read(self):
        path = self.mount / "file"
        path.write_bytes(b"content" * 10_000)
        with open(path, "rb", buffering=0) as file:
            self.assertEqual(file.read(7), b"content")
            self.fs("rm", "/file")
            self.shows("ENOENT", path.stat)
            self.assertEqual(outcome(os.pread, file.fileno(), 7, 14_000), b"content")
        self.finish()

    def test_what_the_mount_closed_is_read_at_once(self):
        for turn, size in enumerate((0, 1, 4096, 70_000, 5 << 20)):
            data = os.urandom(size)
            (self.mount / "file").write_bytes(data)
            self.assertEqual(self.fs("cat", "/file"), data)
            append(self.mount / "file", b"more")
            self.assertEqual(self.fs("cat", "/file"), data + b"more")
            os.truncate(self.mount / "file", size // 2)
            self.assertEqual(self.fs("cat", "/file"), data[:size // 2])
            (self.mount / f"new{turn}").write_bytes(data)
            self.assertEqual(self.fs("cat", f"/new{turn}"), data)
        self.finish()

    def test_what_the_mount_synced_is_read_while_open(self):
        with open(self.mount / "file", "wb", buffering=0) as file:
            for turn in range(5):
                file.write(b"line\n")
                os.fsync(file.fileno())
                self.assertEqual(self.fs("cat", "/file"), b"line\n" * (turn + 1))
        with open(self.mount / "file", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[0:4] = b"LINE"
            mapped.flush()
            self.assertEqual(self.fs("cat", "/file")[:5], b"LINE\n")
        self.finish()

    def test_names_that_the_mount_changed_are_seen_at_once(self):
        top = self.mount / "top"
        for _ in range(3):
            top.mkdir()
            (top / "a").write_text("a")
            self.assertEqual(self.fs("ls", "/top").split(), [b"a"])
            (top / "a").rename(top / "b")
            os.symlink("b", top / "c")
            self.assertEqual(self.fs("ls", "/top").split(), [b"b", b"c"])
            self.assertEqual(self.fs("cat", "/top/b"), b"a")
            self.assertEqual(self.fs("readlink", "/top/c").strip(), b"b")
            (top / "b").unlink()
            self.assertNotEqual(self.world.run("fs", self.world.id, "cat", "/top/b").returncode, 0)
            (top / "c").unlink()
            top.rmdir()
            self.assertEqual(self.fs("ls", "/").split(), [])
        self.finish()

    def test_taking_turns_loses_nothing(self):
        path, wanted = self.mount / "log", b""
        for turn in range(15):
            line = f"mount {turn}\n".encode()
            append(path, line)
            self.fs("append", "/log", f"command {turn}\n")
            wanted += line + f"command {turn}\n".encode()
            self.shows(wanted, path.read_bytes)
        self.assertEqual(self.fs("cat", "/log"), wanted)
        self.finish()

    def test_both_write_at_once_and_nothing_is_lost(self):
        script = 'for n in $(seq 30); do echo "$n" > "mount-$0-$n"; done'
        writers = [subprocess.Popen(["sh", "-ec", script, who], cwd=self.mount) for who in ("a", "b")]
        for number in range(15):
            self.fs("write", f"/command-{number}", str(number))
        self.assertEqual([writer.wait(mounted.PATIENCE_SECONDS) for writer in writers], [0, 0])
        wanted = sorted([f"command-{number}" for number in range(15)]
                        + [f"mount-{who}-{number}" for who in ("a", "b") for number in range(1, 31)])
        self.shows(wanted, lambda: sorted(os.listdir(self.mount)))
        self.assertEqual(sorted(self.fs("ls", "/").decode().split()), wanted)
        self.assertEqual((self.mount / "command-7").read_text(), "7")
        self.finish()

    def test_exec_and_listings_know_the_mount(self):
        (self.mount / "seen").write_text("by exec")
        self.assertEqual(self.world.warren("exec", self.world.id, "cat", "seen"), b"by exec")
        self.assertEqual(self.world.run("exec", self.world.id, "sh", "-c", "exit 7").returncode, 7)
        self.assertIn(os.fsencode(self.mount), self.world.warren("mount"))
        self.assertIn(os.fsencode(self.mount), self.world.warren("ps"))
        self.finish()
        self.assertNotIn(os.fsencode(self.mount), self.world.warren("mount"))


class OtherPrograms(Coherent):
    """Programs that know SQLite and not Warren: nothing of what they do is in the journal."""

    def sql(self, *statements):
        with contextlib.closing(sqlite3.connect(self.world.file, timeout=60)) as db, db:
            for statement in statements:
                db.execute(statement)

    def test_a_change_is_seen_beside_one_by_a_command(self):
        path = self.mount / "file"
        path.write_bytes(b"old")
        os.sync()
        server, = self.world.daemons()
        for turn in range(5):
            path.read_bytes()
            time.sleep(0.3)  # longer than a batch
            os.kill(server, signal.SIGSTOP)  # so that it sees both at once
            try:
                self.sql(f"UPDATE fs_data SET data = CAST('{turn:03}' AS BLOB)", f"UPDATE fs_inode SET uid = {turn + 7}")
                self.fs("mkdir", f"/dir{turn}")
            finally:
                os.kill(server, signal.SIGCONT)
            self.shows(f"{turn:03}".encode(), path.read_bytes)
            self.shows(turn + 7, lambda: path.stat().st_uid)
        self.finish()

    def test_a_journal_row_that_is_not_one_hides_nothing(self):
        path = self.mount / "file"
        path.write_bytes(b"old")
        os.sync()
        path.read_bytes()
        self.sql("INSERT INTO wr_journal (at_us, origin, changes) VALUES (1, 1, x'ff')",
                 "UPDATE fs_data SET data = CAST('new' AS BLOB)")
        self.shows(b"new", path.read_bytes)
        for turn in range(3):
            self.fs("write", "/file", f"{turn}")
            self.shows(f"{turn}".encode(), path.read_bytes)
        self.world.umount(self.mount)
        self.world.warren("fsck", "--repair", self.world.id)


class TwoMounts(Coherent):
    def setUp(self):
        super().setUp()
        self.other = self.world.mount("other")

    def sides(self, count):
        """(writing, reading) mount points, by turns."""
        return [(turn, *((self.mount, self.other) if turn % 2 else (self.other, self.mount))) for turn in range(count)]

    def done(self):
        self.finish(self.mount, self.other)

    def test_content_goes_back_and_forth(self):
        for turn, here, there in self.sides(20):
            data = f"turn {turn}".encode() * (1 + turn * 300)
            (here / "file").write_bytes(data)
            self.shows(data, (there / "file").read_bytes)
            self.assertEqual((there / "file").stat().st_size, len(data))
        self.done()

    def test_appends_alternate(self):
        wanted = b""
        for turn, here, there in self.sides(20):
            self.shows(len(wanted), lambda: (here / "log").stat().st_size if wanted else 0)
            append(here / "log", f"{turn}\n".encode())
            wanted += f"{turn}\n".encode()
        self.shows(wanted, (self.mount / "log").read_bytes)
        self.shows(wanted, (self.other / "log").read_bytes)
        self.done()

    def test_logs_that_both_keep_open_lose_no_line(self):
        lines = [[f"{side} {turn}\n" for turn in range(300)] for side in "ab"]
        (self.mount / "log").touch()
        self.shows([], (self.other / "log").read_text().splitlines)
        writers = []
        for place, own in zip((self.mount, self.other), lines):
            writers.append(os.fork())
            if writers[-1] == 0:
                fd = os.open(place / "log", os.O_WRONLY | os.O_APPEND)
                os._exit(0 if all(os.write(fd, line.encode()) == len(line) for line in own) else 1)
        self.assertEqual([os.waitpid(pid, 0)[1] for pid in writers], [0, 0])
        found = self.fs("cat", "/log").decode().splitlines(keepends=True)
        self.assertEqual([[line for line in found if line[0] == side] for side in "ab"], lines)
        self.assertEqual(len(found), 600)
        self.shows("".join(found), (self.mount / "log").read_text)
        self.shows("".join(found), (self.other / "log").read_text)
        self.done()

    def test_names_move_on_both_sides(self):
        (self.mount / "n0").write_text("wandering")
        for turn, here, there in self.sides(12):
            self.shows("wandering", (here / f"n{turn}").read_text)
            os.rename(here / f"n{turn}", here / f"n{turn + 1}")
            self.shows([f"n{turn + 1}"], os.listdir, there)
            self.shows("ENOENT", (there / f"n{turn}").stat)
        self.done()

    def test_names_come_and_go_on_both_sides(self):
        for turn, here, there in self.sides(10):
            self.assertEqual(outcome((there / "name").stat), "ENOENT")
            (here / "name").mkdir()
            (here / "name" / "f").write_text(str(turn))
            self.shows(str(turn), (there / "name" / "f").read_text)
            (there / "name" / "f").unlink()
            self.shows([], os.listdir, here / "name")
            (here / "name").rmdir()
            self.shows("ENOENT", (there / "name").stat)
        self.done()

    def test_attributes_show_on_both_sides(self):
        (self.mount / "f").write_text("x")
        for turn, here, there in self.sides(10):
            self.shows(True, (here / "f").exists)
            os.chmod(here / "f", 0o600 + turn)
            self.shows(0o600 + turn, lambda: stat.S_IMODE((there / "f").stat().st_mode))
            os.utime(here / "f", ns=(turn, 10**18 + turn))
            self.shows(10**18 + turn, lambda: (there / "f").stat().st_mtime_ns)
            os.setxattr(here / "f", "user.turn", str(turn).encode())
            self.shows(str(turn).encode(), os.getxattr, there / "f", "user.turn")
        self.done()

    def test_an_open_file_sees_the_other_sides_writes(self):
        (self.mount / "f").write_bytes(b"0" * 5000)
        self.shows(5000, lambda: (self.other / "f").stat().st_size)
        with open(self.mount / "f", "r+b", buffering=0) as here, open(self.other / "f", "r+b", buffering=0) as there:
            for turn in range(10):
                writer, reader = (here, there) if turn % 2 else (there, here)
                os.pwrite(writer.fileno(), bytes([65 + turn]) * 100, turn * 700)
                os.fsync(writer.fileno())
                self.shows(bytes([65 + turn]) * 100, os.pread, reader.fileno(), 100, turn * 700)
        self.done()

    def test_what_one_removes_the_other_still_holds(self):
        (self.mount / "f").write_bytes(b"held" * 1000)
        self.shows(4000, lambda: (self.other / "f").stat().st_size)
        with open(self.other / "f", "rb", buffering=0) as held:
            self.assertEqual(held.read(4), b"held")
            (self.mount / "f").unlink()
            self.shows("ENOENT", (self.other / "f").stat)
            self.assertEqual(outcome(os.pread, held.fileno(), 4, 0), b"held")
        self.done()

    def test_exclusive_creation_has_one_winner(self):
        script = ("import os, sys\n"
                  "for number in range(100):\n"
                  "    try:\n"
                  "        os.close(os.open(f'lock{number}', os.O_CREAT | os.O_EXCL | os.O_WRONLY))\n"
                  "        print(number)\n"
                  "    except FileExistsError:\n"
                  "        pass\n")
        racers = [subprocess.Popen([sys.executable, "-c", script], cwd=mount, stdout=subprocess.PIPE, text=True)
                  for mount in (self.mount, self.other)]
        outputs = [racer.communicate(timeout=mounted.PATIENCE_SECONDS)[0] for racer in racers]
        self.assertEqual(sorted(int(line) for output in outputs for line in output.split()), list(range(100)))
        self.done()

    def test_both_write_at_once_and_nothing_is_lost(self):
        script = "for n in $(seq 100); do mkdir -p d$((n % 5)); echo \"$0 $n\" > d$((n % 5))/$0-$n; done"
        writers = [subprocess.Popen(["sh", "-ec", script, name], cwd=mount)
                   for name, mount in (("here", self.mount), ("there", self.other))]
        self.assertEqual([writer.wait(mounted.PATIENCE_SECONDS) for writer in writers], [0, 0])
        wanted = {f"d{number % 5}/{who}-{number}": f"{who} {number}\n"
                  for number in range(1, 101) for who in ("here", "there")}
        for mount in (self.mount, self.other):
            self.shows(wanted, lambda: {str(path.relative_to(mount)): path.read_text() for path in mount.glob("d*/*")})
        self.done()

    def test_one_unmounts_and_the_other_continues(self):
        (self.mount / "f").write_text("first")
        self.world.umount(self.mount)
        self.shows("first", (self.other / "f").read_text)
        (self.other / "f").write_text("second")
        self.world.mount()
        self.assertEqual((self.mount / "f").read_text(), "second")
        self.done()


# Run by root in a separate mount namespace: $1 is a private node that replaces /dev/fuse there.
AS_ORDINARY_USER = '''
mount --bind "$1" /dev/fuse
shift
exec setpriv --reuid={uid} --regid={uid} --clear-groups "$@"
'''.format(uid=ORDINARY_UID)


class OrdinaryUser(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.home = self.world.root / "ordinary"
        (self.home / "mnt").mkdir(parents=True)
        for path in (self.home, self.home / "mnt"):
            os.chown(path, ORDINARY_UID, ORDINARY_UID)
        # Other users may not have access to the build directory.
        self.program = self.world.root / "warren"
        shutil.copy(mounted.program(), self.program)

    def run_as_user(self, node_mode, script):
        node = self.world.root / f"fuse-{node_mode:o}"
        if not node.exists():
            os.mknod(node, stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
            os.chmod(node, node_mode)
        with open(self.home / "out", "w+b") as out:  # not a pipe, which a daemon would keep open
            done = subprocess.run(["unshare", "--mount", "--propagation", "slave", "sh", "-ec", AS_ORDINARY_USER, "sh", node,
                                   "sh", "-ec", script, self.program],
                                  cwd=self.home, env=os.environ | {"HOME": str(self.home)}, stdin=subprocess.DEVNULL,
                                  stdout=out, stderr=subprocess.STDOUT, timeout=mounted.PATIENCE_SECONDS)
            out.seek(0)
            return done.returncode, out.read().decode()

    def test_an_ordinary_user_mounts_works_and_unmounts(self):
        status, text = self.run_as_user(0o666, '''
            "$0" init u
            "$0" mount u "$PWD/mnt"
            cd mnt
            echo hello > file
            mkdir dir && ln -s ../file dir/link && cat dir/link
            chmod 600 file && test "$(stat -c %a:%u file)" = 600:{uid}
            rm -r dir && ls
            cd ..
            "$0" umount "$PWD/mnt"
            grep "$PWD/mnt" /proc/self/mountinfo && exit 1
            "$0" fs u cat /file
            "$0" fsck u
            ls .agentfs
        '''.format(uid=ORDINARY_UID))
        self.assertEqual(status, 0, text)
        told = [line for line in text.splitlines() if line in ("hello", "file", "u.db")]
        self.assertEqual(told, ["hello", "file", "hello", "u.db"])

    def test_an_ordinary_user_runs_a_command_inside(self):
        status, text = self.run_as_user(0o666, '''
            "$0" init u
            "$0" exec u sh -c "echo made > f; cat f; id -u"
            "$0" fs u cat /f
        ''')
        self.assertEqual(status, 0, text)
        self.assertEqual(text.splitlines()[-3:], ["made", str(ORDINARY_UID), "made"])

    def test_letting_in_only_root_is_refused(self):
        status, text = self.run_as_user(0o666, '''
            "$0" init u
            "$0" mount --allow-root u "$PWD/mnt" && exit 1
            ! grep "$PWD/mnt" /proc/self/mountinfo
        ''')
        self.assertEqual(status, 0, text)
        self.assertIn("--allow-other", text)

    def test_a_closed_device_is_named_in_the_error(self):
        status, text = self.run_as_user(0o600, '''
            "$0" init u
            "$0" mount u "$PWD/mnt" && exit 1
            ! grep "$PWD/mnt" /proc/self/mountinfo
        ''')
        self.assertEqual(status, 0, text)
        self.assertIn("/dev/fuse", text)


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
