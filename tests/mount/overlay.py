#!/usr/bin/env python3
"""A mounted agent with a base: what it shows, what it copies up, what persists after a remount.

    WARREN=path/to/warren overlay.py [-v] [Class.test_name]

Needs root.
"""
import ctypes
import hashlib
import mmap
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted

KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16  # of fallocate(2)
VISIBLE_SECONDS = 2
LARGE_BYTES = 20_000_000  # larger than what is copied whole


def allocate(fd, mode, offset, length):
    if mounted.LIBC.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def tree(root):
    """Every path with type, mode and content."""
    found = {}
    for here, dirs, files in os.walk(os.fsencode(root)):
        for name in dirs + files:
            path = os.path.join(here, name)
            info = os.lstat(path)
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path):
                content = hashlib.sha256(pathlib.Path(os.fsdecode(path)).read_bytes()).hexdigest()
            else:
                content = None
            found[os.path.relpath(path, os.fsencode(root))] = (info.st_mode, info.st_uid, info.st_size, content)
    return found


class Overlay(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.base = self.world.root / "base"
        (self.base / "src" / "deep" / "er").mkdir(parents=True)
        (self.base / "README").write_text("from the base\n")
        (self.base / "src" / "main.c").write_text("int main(void) { return 0; }\n")
        (self.base / "src" / "deep" / "er" / "f").write_text("deep\n")
        (self.base / "large").write_bytes(os.urandom(LARGE_BYTES))
        os.symlink("README", self.base / "link")
        os.chmod(self.base / "src" / "main.c", 0o751)
        self.before = tree(self.base)
        self.world.warren("init", "--force", self.world.id, "--base", self.base)
        self.mount = self.world.mount()

    def remount(self):
        self.world.umount(self.mount)
        self.world.fsck()
        self.assertEqual(self.world.left_beside(), [])
        self.mount = self.world.mount()

    def tearDown(self):
        self.assertEqual(tree(self.base), self.before, "the base has changed")

    def soon(self, function, wanted):
        end = time.monotonic() + VISIBLE_SECONDS
        while function() != wanted and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(function(), wanted)

    def test_a_log_of_the_base_continues_after_what_others_appended(self):
        for name in ("README", "large"):
            expected = (self.base / name).read_bytes()
            with open(self.mount / name, "ab", buffering=0) as log:
                for turn in range(6):
                    self.world.warren("fs", self.world.id, "append", f"/{name}", f"theirs {turn}\n")
                    log.write(f"ours {turn}\n".encode())
                    expected += f"theirs {turn}\nours {turn}\n".encode()
            self.soon((self.mount / name).read_bytes, expected)
            self.assertEqual(self.world.warren("fs", self.world.id, "cat", f"/{name}"), expected)
        self.remount()

    def test_allocating_and_punching_in_a_large_file_copies_only_the_edges(self):
        """In memory, on the disk and in time: not the whole file."""
        self.world.umount(self.mount)
        size, block = 400 << 20, os.urandom(1 << 20)
        with open(self.base / "huge", "wb") as file:
            for _ in range(size >> 20):
                file.write(block)
        self.before = tree(self.base)
        server = self.world.serve()
        fd = os.open(self.mount / "huge", os.O_RDWR)
        os.posix_fallocate(fd, 0, size)  # changes nothing
        os.posix_fallocate(fd, size - 10, 20)
        allocate(fd, ZERO_RANGE | KEEP_SIZE, 12_345, 5000)
        allocate(fd, PUNCH_HOLE | KEEP_SIZE, (3 << 20) + 7, size - (6 << 20))
        allocate(fd, ZERO_RANGE, size - 100, 300)
        os.fsync(fd)
        peak_kib = int(re.search(r"VmHWM:\s*(\d+)", pathlib.Path(f"/proc/{server.pid}/status").read_text())[1])
        self.assertLess(peak_kib, 150 << 10)
        stored = sum(os.stat(path).st_size for path in self.world.file.parent.glob("a.db*"))
        self.assertLess(stored, 20 << 20)
        self.assertEqual(os.fstat(fd).st_size, size + 200)
        for at, wanted in (
                (0, block[:12_345] + bytes(5000) + block[17_345:]), (2 << 20, block),
                (3 << 20, block[:7] + bytes((1 << 20) - 7)), (size >> 1, bytes(1 << 20)),
                (size - (3 << 20), bytes(7) + block[7:]), (size - (1 << 20), block[:-100] + bytes(300))):
            self.assertTrue(os.pread(fd, len(wanted), at) == wanted, at)
        os.close(fd)
        server.terminate()
        self.assertEqual(server.wait(30), 0)
        self.world.fsck()
        os.unlink(self.base / "huge")
        del self.before[b"huge"]

    def test_the_base_shows_as_it_is_and_reading_stores_nothing(self):
        self.assertEqual(tree(self.mount), self.before)
        self.world.umount(self.mount)
        said = self.world.warren("sql", self.world.id, "SELECT count(*) FROM fs_inode").decode()
        self.assertIn("1", said.split())

    def test_changes_stay_and_the_base_does_not_get_them(self):
        numbers = {name: os.lstat(self.mount / name).st_ino for name in ["README", "src/main.c", "large"]}
        (self.mount / "README").write_text("changed\n")
        os.chmod(self.mount / "src" / "main.c", 0o600)
        (self.mount / "new").write_text("n")
        os.unlink(self.mount / "link")
        for _ in range(2):
            self.assertEqual((self.mount / "README").read_text(), "changed\n")
            self.assertEqual(os.stat(self.mount / "src" / "main.c").st_mode & 0o777, 0o600)
            self.assertEqual(sorted(os.listdir(self.mount)), ["README", "large", "new", "src"])
            for name, number in numbers.items():
                self.assertEqual(os.lstat(self.mount / name).st_ino, number)
            self.remount()

    def test_a_moved_directory_keeps_its_children(self):
        os.rename(self.mount / "src", self.mount / "source")
        (self.mount / "source" / "deep" / "new").write_text("n")
        os.rename(self.mount / "source" / "deep", self.mount / "deep")
        for _ in range(2):
            self.assertEqual((self.mount / "deep" / "er" / "f").read_text(), "deep\n")
            self.assertEqual(os.listdir(self.mount / "source"), ["main.c"])
            self.assertFalse((self.mount / "src").exists())
            self.remount()

    def test_a_directory_made_again_is_empty(self):
        shutil.rmtree(self.mount / "src")
        os.mkdir(self.mount / "src")
        for _ in range(2):
            self.assertEqual(os.listdir(self.mount / "src"), [])
            self.remount()

    def test_of_a_large_file_only_what_is_written_is_stored(self):
        expected = bytearray((self.base / "large").read_bytes())
        with open(self.mount / "large", "r+b") as file:
            file.seek(5_000_000)
            file.write(b"one line")
        expected[5_000_000:5_000_008] = b"one line"
        os.truncate(self.mount / "large", LARGE_BYTES - 1000)
        del expected[LARGE_BYTES - 1000:]
        for _ in range(2):
            self.assertEqual((self.mount / "large").read_bytes(), bytes(expected))
            self.remount()
        self.world.umount(self.mount)
        self.assertLess(os.stat(self.world.file).st_size, 1 << 20)

    def test_files_in_a_directory_of_the_base_come_and_go(self):
        (self.mount / "src" / "index.lock").write_text("lock")
        self.assertIn("index.lock", os.listdir(self.mount / "src"))
        self.assertIn("main.c", os.listdir(self.mount / "src"))
        os.unlink(self.mount / "src" / "index.lock")
        os.mkdir(self.mount / "src" / "objects")
        os.rmdir(self.mount / "src" / "objects")
        self.assertEqual(sorted(os.listdir(self.mount / "src")), ["deep", "main.c"])

    def test_what_changes_on_the_host_shows_soon(self):
        readme = self.mount / "README"
        self.assertEqual(readme.read_text(), "from the base\n")
        self.assertFalse((self.mount / "src" / "late").exists())
        (self.base / "README").write_text("the host wrote this\n")
        (self.base / "src" / "late").write_text("late")
        os.rename(self.base / "src" / "main.c", self.base / "src" / "moved.c")
        self.soon(readme.read_text, "the host wrote this\n")
        self.soon(lambda: (self.mount / "src" / "late").exists() and (self.mount / "src" / "late").read_text(), "late")
        self.soon(lambda: sorted(os.listdir(self.mount / "src")), ["deep", "late", "moved.c"])
        self.before = tree(self.base)

    def test_the_command_line_and_the_mount_see_one_tree(self):
        fs = ["fs", self.world.id]
        self.assertEqual(self.world.warren(*fs, "cat", "/README"), b"from the base\n")
        self.world.warren(*fs, "rm", "/README")
        self.soon(lambda: (self.mount / "README").exists(), False)
        (self.mount / "src" / "main.c").write_text("short")
        self.assertEqual(self.world.warren(*fs, "cat", "/src/main.c"), b"short")
        self.world.warren(*fs, "mv", "/src", "/moved")
        self.soon(lambda: (self.mount / "moved" / "deep" / "er" / "f").exists(), True)

    def test_a_reader_sees_what_a_writer_writes(self):
        with open(self.mount / "README", "rb", buffering=0) as reader:
            self.assertEqual(reader.read(4), b"from")
            with open(self.mount / "README", "r+b", buffering=0) as writer:
                writer.write(b"FROM")
            self.assertEqual(os.pread(reader.fileno(), 4, 0), b"FROM")
            with open(self.mount / "README", "ab", buffering=0) as writer:
                writer.write(b"more\n")
            self.assertEqual(os.pread(reader.fileno(), 100, 0), b"FROM the base\nmore\n")
            os.truncate(self.mount / "README", 3)
            self.assertEqual(os.pread(reader.fileno(), 100, 0), b"FRO")
            self.assertEqual(os.fstat(reader.fileno()).st_size, 3)

    def test_a_mapped_file_can_be_written_over(self):
        with open(self.mount / "large", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
            before = view[:4]
            with open(self.mount / "large", "r+b", buffering=0) as writer:
                writer.write(bytes(byte ^ 255 for byte in before))
            self.assertEqual(view[:4], bytes(byte ^ 255 for byte in before))

    def test_hard_links_of_the_base_stay_one_file(self):
        os.link(self.base / "README", self.base / "src" / "twin")
        self.before = tree(self.base)
        with open(self.mount / "README", "a") as file:
            file.write("more\n")
        for _ in range(2):
            self.assertEqual((self.mount / "src" / "twin").read_text(), "from the base\nmore\n")
            self.assertEqual(os.stat(self.mount / "src" / "twin").st_nlink, 2)
            self.remount()

    def test_an_agent_whose_base_is_gone_says_so_and_keeps_its_state(self):
        self.world.warren("kv", self.world.id, "set", "k", "1")
        self.world.umount(self.mount)
        os.rename(self.base, self.world.root / "elsewhere")
        done = self.world.run("fs", self.world.id, "ls", "/")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"base", done.stderr)
        self.assertEqual(self.world.warren("kv", self.world.id, "get", "k").strip(), b"1")
        os.rename(self.world.root / "elsewhere", self.base)
        self.mount = self.world.mount()

    def test_the_mount_point_cannot_be_inside_the_base(self):
        inside = self.base / "mnt"
        inside.mkdir()
        done = self.world.run("mount", self.world.id, inside)
        inside.rmdir()
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"base", done.stderr)

    def test_the_folder_of_the_agent_is_hidden_from_it(self):
        self.world.umount(self.mount)
        home = self.world.root / "project"
        home.mkdir()
        (home / "x").write_text("x")
        subprocess.run([mounted.program(), "init", "self", "--base", "."], cwd=home, check=True, capture_output=True)
        said = subprocess.run([mounted.program(), "fs", "self", "ls", "-a", "/"], cwd=home, check=True,
                              capture_output=True).stdout
        self.assertNotIn(b".agentfs", said)
        self.assertIn(b"x", said)
        self.mount = self.world.mount()

    def test_an_open_file_goes_on_after_an_apply(self):
        """An apply moves the agent's copy to the base. For a program that has it open, it is the same file."""
        with open(self.mount / "README", "r+b", buffering=0) as file, open(self.mount / "src/main.c", "rb") as idle:
            content = b""
            for turn in range(3):
                content = b"turn %d\n" % turn + b"x" * (6000 * turn)
                os.pwrite(file.fileno(), content, 0)
                os.ftruncate(file.fileno(), len(content))
                self.world.warren("apply", "--yes", self.world.id)
                self.assertEqual((self.base / "README").read_bytes(), content)
                self.assertEqual(os.pread(file.fileno(), 100_000, 0), content)
                after = content + b"and more\n"
                os.pwrite(file.fileno(), b"and more\n", len(content))
                os.fsync(file.fileno())
                self.assertEqual((self.base / "README").read_bytes(), content)
                self.soon((self.mount / "README").read_bytes, after)
                self.assertEqual(os.fstat(file.fileno()).st_size, len(after))
            self.world.warren("apply", "--yes", self.world.id)
            self.assertEqual((self.base / "README").read_bytes(), after)
            self.assertEqual(idle.read(), (self.base / "src/main.c").read_bytes())
        self.remount()
        self.assertEqual((self.mount / "README").read_bytes(), after)
        self.before = tree(self.base)

    def test_an_open_file_follows_what_the_user_puts_in_its_place(self):
        """After an apply it is the base's file for the program, until the agent changes it again."""
        with open(self.mount / "README", "r+b", buffering=0) as file:
            for turn in range(2):
                os.ftruncate(file.fileno(), 0)
                os.pwrite(file.fileno(), b"of the agent %d\n" % turn, 0)
                self.world.warren("apply", "--yes", self.world.id)
                self.assertEqual((self.base / "README").read_bytes(), b"of the agent %d\n" % turn)
                (self.base / "README~").write_bytes(b"another file of the user\n")
                os.rename(self.base / "README~", self.base / "README")
                self.soon((self.mount / "README").read_bytes, b"another file of the user\n")
                self.assertEqual(os.pread(file.fileno(), 100, 0), b"another file of the user\n")
                self.assertEqual(self.world.warren("diff", self.world.id), b"")
        self.before = tree(self.base)

    def test_git_finds_nothing_changed(self):
        repository = self.base / "repo"
        repository.mkdir()
        for number in range(50):
            (repository / f"f{number}").write_text(f"{number}\n")
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.invalid"]
        subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
        subprocess.run(["git", "add", "-A"], cwd=repository, check=True)
        subprocess.run(["git", *identity, "commit", "-qm", "first"], cwd=repository, check=True)
        self.before = tree(self.base)
        inside = self.mount / "repo"
        self.soon(inside.exists, True)
        (inside / "f1").write_text("changed\n")
        os.unlink(inside / "f2")
        said = subprocess.run(["git", "status", "--porcelain"], cwd=inside, check=True, capture_output=True).stdout
        self.assertEqual(said.split(b"\n")[:2], [b" M f1", b" D f2"])
        subprocess.run(["git", *identity, "commit", "-qam", "second"], cwd=inside, check=True)
        subprocess.run(["git", "gc", "-q"], cwd=inside, check=True)
        subprocess.run(["git", "fsck"], cwd=inside, check=True, capture_output=True)


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
