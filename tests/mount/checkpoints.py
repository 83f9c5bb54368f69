#!/usr/bin/env python3
"""Checkpoints while an agent is mounted, by other programs in between, and with kills at any moment.

    WARREN=path/to/warren STEP_KILLER=path/to/step_killer checkpoints.py [-v] [Class.test_name]

Needs root for mounts. STEP_KILLER kills a program at its Nth system call (tests/relay/step_killer.cc).
"""
import contextlib
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted

KILLS = 200 if mounted.FULL else 16  # of each command
# Whatever a checkpoint covers; not what the tables are about (times of nodes, journal).
COVERED = ["fs_inode", "fs_dentry", "fs_data", "fs_symlink", "kv_store", "wr_xattr", "wr_expiry", "wr_kv_expiry"]
OF_A_BASE = ["fs_whiteout", "fs_origin", "wr_origin", "wr_whiteout", "wr_covered", "wr_lost_link", "wr_base_range", "wr_ancestor"]


def state(file, tables=COVERED):
    """Every covered row, as sqlite3 sees it."""
    with sqlite3.connect(file) as database:
        database.text_factory = bytes
        found = {table: sorted(map(repr, database.execute(f"SELECT * FROM {table}"))) for table in tables}
    database.close()
    return found


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())

    def checkpoint(self, *args):
        return self.world.warren("checkpoint", self.world.id, *args)

    def keep_working_memory_here(self):
        """Of commands, so that nothing of it stays behind."""
        self.enterContext(unittest.mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": str(self.world.home)}))

    def ids(self):
        return [one["id"] for one in json.loads(self.checkpoint("list", "--json"))]

    def write(self, path, data):
        self.world.warren("fs", self.world.id, "write", path, "-", input=data)

    def fill(self, text):
        self.write("/notes", text * 1000)
        self.write("/dir/deep", text)
        self.world.warren("kv", self.world.id, "set", "--string", "k", text.decode())


class Mounted(Checkpoints):
    def setUp(self):
        super().setUp()
        self.mount = self.world.mount()

    def finish(self):
        self.world.umount(self.mount)
        self.world.fsck()
        self.assertEqual(self.world.left_beside(), [])

    def shows(self, wanted, path):
        def found():
            try:
                return (self.mount / path).read_bytes() == wanted
            except FileNotFoundError:
                return wanted is None
        mounted.wait_for(found, f"{path} is not what was restored")

    def test_a_checkpoint_has_what_the_mount_has_written(self):
        (self.mount / "a").write_bytes(b"1")
        self.checkpoint("take", "then")
        (self.mount / "a").write_bytes(b"2")
        (self.mount / "b").write_bytes(b"2")
        self.assertEqual(self.checkpoint("diff", "then"), b"M f /a\nA f /b\n")
        self.finish()

    def test_a_restore_shows_in_the_mount(self):
        (self.mount / "dir").mkdir()
        (self.mount / "dir/a").write_bytes(b"then")
        (self.mount / "gone").write_bytes(b"gone")
        self.checkpoint("take", "then")
        (self.mount / "dir/a").write_bytes(b"now, and longer")
        (self.mount / "gone").unlink()
        (self.mount / "new").write_bytes(b"new")
        self.shows(b"now, and longer", "dir/a")
        self.checkpoint("restore", "then")
        self.shows(b"then", "dir/a")
        self.shows(b"gone", "gone")
        self.shows(None, "new")
        (self.mount / "dir/a").write_bytes(b"after")  # and it goes on
        self.assertEqual(self.world.warren("fs", self.world.id, "cat", "/dir/a"), b"after")
        self.finish()

    def test_an_open_file_that_a_restore_removes_can_be_read_until_it_is_closed(self):
        self.checkpoint("take", "empty")
        with open(self.mount / "new", "w+b", buffering=0) as file:
            file.write(b"still here")
            self.checkpoint("restore", "empty")
            self.shows(None, "new")
            self.assertEqual(os.pread(file.fileno(), 100, 0), b"still here")
        self.finish()

    def test_a_signal_takes_one(self):
        (self.mount / "a").write_bytes(b"1")
        [pid] = self.world.daemons()
        os.kill(pid, signal.SIGUSR1)
        mounted.wait_for(lambda: self.ids() == [1], "no checkpoint after SIGUSR1")
        os.kill(pid, signal.SIGUSR1)
        mounted.wait_for(lambda: self.ids() == [1, 2], "no second checkpoint")
        self.assertEqual(self.world.warren("fs", self.world.id, "cat", "/a@1"), b"1")
        self.finish()

    def test_restores_while_the_mount_writes(self):
        (self.mount / "base").write_bytes(b"x" * 10000)
        self.checkpoint("take", "start")
        ending = threading.Event()

        def work():
            nth = 0
            while not ending.is_set():
                nth += 1
                try:
                    (self.mount / f"f{nth % 20}").write_bytes(b"%d" % nth * 500)
                    (self.mount / f"f{(nth + 7) % 20}").unlink(missing_ok=True)
                except OSError:
                    pass  # a restore took it away between two calls
        writer = threading.Thread(target=work)
        writer.start()
        try:
            for _ in range(6):
                time.sleep(0.1)
                self.checkpoint("restore", "start")
        finally:
            ending.set()
            writer.join()
        self.checkpoint("restore", "start")
        self.shows(b"x" * 10000, "base")
        self.assertEqual(self.world.warren("fs", self.world.id, "ls", "/"), b"base\n")
        self.finish()

    def test_a_large_file_that_is_being_removed_comes_back_whole(self):
        block = os.urandom(1 << 20)
        with open(self.mount / "large", "wb") as file:
            for nth in range(150):
                file.write(block[nth:] + block[:nth])
        self.checkpoint("take", "then")
        (self.mount / "large").unlink()
        self.checkpoint("restore", "then")
        time.sleep(1)  # in which the mount goes on removing what it still believes to be removed
        wanted = b"".join(block[nth:] + block[:nth] for nth in range(150))
        self.assertTrue(self.world.warren("fs", self.world.id, "cat", "/large") == wanted)
        self.finish()

    def test_restoring_a_path_leaves_files_that_share_its_content_alone(self):
        mount = self.mount
        (mount / "d").mkdir()
        (mount / "d/a").write_bytes(b"A")
        (mount / "d/c").write_bytes(b"C")
        (mount / "x").write_bytes(b"X")
        self.checkpoint("take", "then")
        (mount / "d/c").unlink()
        os.link(mount / "d/a", mount / "d/c")
        os.link(mount / "x", mount / "y")
        (mount / "x").write_bytes(b"changed")
        self.checkpoint("restore", "then", "/d", "/x")
        self.shows(b"A", "d/a")
        self.shows(b"C", "d/c")
        self.shows(b"X", "x")
        self.shows(b"changed", "y")
        self.finish()

    def test_restores_of_a_path_while_the_mount_writes_it(self):
        """Whatever was written before a restore is in the checkpoint that it took."""
        (self.mount / "counter").write_bytes(b"0")
        self.checkpoint("take", "start")
        ending = threading.Event()

        def work():
            nth = 0
            while not ending.is_set():
                nth += 1
                (self.mount / "other").write_bytes(b"%d" % nth)
                (self.mount / "counter").write_bytes(b"%d" % nth)
        writer = threading.Thread(target=work)
        writer.start()
        try:
            for _ in range(6):
                said = json.loads(self.checkpoint("restore", "start", "/counter", "--json"))
                before = said["before"]["id"]
                counted = self.world.warren("fs", self.world.id, "cat", f"/counter@{before}")
                self.assertRegex(counted, rb"^[0-9]*$")
        finally:
            ending.set()
            writer.join()
        self.finish()


class InTheNamespace(Checkpoints):
    def test_a_file_made_in_state_checkpoints_takes_one(self):
        mount = self.world.mount("mnt", "--namespace")
        (mount / "state/plan").write_bytes(b"first")
        os.close(os.open(mount / "state/checkpoints/before", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        (mount / "state/plan").write_bytes(b"second")
        self.assertEqual(os.listdir(mount / "state/checkpoints"), ["before"])
        self.assertEqual(json.loads((mount / "state/checkpoints/before").read_bytes())["id"], 1)
        with self.assertRaises(PermissionError):
            (mount / "state/checkpoints/before").unlink()
        with self.assertRaises(OSError):
            (mount / "state/checkpoints/12").touch()
        self.checkpoint("restore", "before")
        mounted.wait_for(lambda: (mount / "state/plan").read_bytes() == b"first", "the restored plan is not shown")
        self.assertEqual(self.ids(), [1, 2])
        [pid] = self.world.daemons()
        os.kill(pid, signal.SIGUSR1)
        mounted.wait_for(lambda: len(self.ids()) == 3, "no checkpoint after SIGUSR1")
        self.world.umount(mount)
        self.world.fsck()
        taken = self.world.warren("audit", self.world.id, "export", "--door", "checkpoint").splitlines()
        self.assertEqual([(one["op"], one["path"]) for one in map(json.loads, taken)],
                         [("checkpoint", "before@1"), ("checkpoint", "before-restore-of-1@2"), ("restore", "/"),
                          ("checkpoint", "signal@4")])
        self.world.warren("audit", self.world.id, "verify")


    def test_a_checkpoint_of_a_mount_covers_its_working_memory_and_what_is_mounted(self):
        self.keep_working_memory_here()
        notes = f"/mem/notes=sqlite:{self.world.root}/notes.db"
        mount = self.world.mount("mnt", "--namespace", "--mount", notes)
        (mount / "mem/working/plan").write_bytes(b"first")
        (mount / "mem/notes/day").write_bytes(b"first")
        [pid] = self.world.daemons()
        os.kill(pid, signal.SIGUSR1)
        mounted.wait_for(lambda: self.ids() == [1], "no checkpoint after SIGUSR1")
        (mount / "mem/working/plan").write_bytes(b"second")
        (mount / "mem/notes/day").write_bytes(b"second")
        os.close(os.open(mount / "state/checkpoints/later", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        self.assertEqual(self.checkpoint("diff", "1", "later").split(b"\n")[:2],
                         [b"M m /mem/notes/day", b"M m /mem/working/plan"])
        self.checkpoint("restore", "1", "--mount", notes)
        mounted.wait_for(lambda: (mount / "mem/notes/day").read_bytes() == b"first", "the restored note is not shown")
        self.assertEqual((mount / "mem/working/plan").read_bytes(), b"second")  # of that process
        self.world.umount(mount)
        vfs = ["vfs", self.world.id, "read", "--mount", notes]
        self.assertEqual(self.world.warren(*vfs, "/mem/working/plan"), b"first")  # of commands
        self.assertEqual(self.world.warren(*vfs, "/mem/notes/day"), b"first")
        self.world.fsck()


class Strangers(Checkpoints):
    def test_restores_while_sqlite3_writes(self):
        """Each restore is exact, and what the other program wrote before it is in the checkpoint that it took."""
        self.fill(b"a")
        self.checkpoint("take", "a")
        before = state(self.world.file)
        ending = threading.Event()
        errors = []

        def work():
            database = sqlite3.connect(self.world.file, timeout=60, isolation_level=None)
            nth = 0
            try:
                while not ending.is_set():
                    nth += 1
                    database.execute("INSERT OR REPLACE INTO kv_store (key, value) VALUES (?, ?)", (f"s{nth % 5}", str(nth)))
                    database.execute("UPDATE fs_data SET data = zeroblob(length(data)) WHERE chunk_index = ?", (nth % 3,))
                    time.sleep(0.005)
            except Exception as error:
                errors.append(error)
            database.close()
        writer = threading.Thread(target=work)
        writer.start()
        try:
            taken = [json.loads(self.checkpoint("restore", "a", "--json"))["before"]["id"] for _ in range(6)]
        finally:
            ending.set()
            writer.join()
        self.assertEqual(errors, [])
        self.checkpoint("restore", "a")
        self.assertEqual(state(self.world.file), before)
        for one in taken:  # whole states, though nobody has copies of them
            self.checkpoint("restore", str(one))
            found = state(self.world.file)
            self.checkpoint("take", "again")
            self.assertEqual(self.checkpoint("diff", str(one), "again"), b"")
            self.assertEqual(state(self.world.file), found)
        self.world.fsck()

    def test_a_restore_is_exact_after_sqlite3_has_written(self):
        self.fill(b"a")
        self.checkpoint("take", "a")
        before = state(self.world.file)
        with sqlite3.connect(self.world.file) as database:
            database.execute("UPDATE fs_data SET data = zeroblob(length(data))")
            database.execute("UPDATE kv_store SET value = '0'")
            database.execute("DELETE FROM fs_dentry WHERE name = 'deep'")
            database.execute("DELETE FROM fs_inode WHERE ino = 4")
        database.close()
        strange = state(self.world.file)
        self.assertNotEqual(strange, before)
        said = json.loads(self.checkpoint("restore", "a", "--json"))
        self.assertEqual(state(self.world.file), before)
        self.checkpoint("restore", said["before"]["id"])
        self.assertEqual(state(self.world.file), strange)

    def test_a_restore_is_exact_after_sqlite3_wrote_while_a_mount_was_open(self):
        self.fill(b"a")
        mount = self.world.mount()
        self.checkpoint("take", "a")
        before = state(self.world.file)
        with sqlite3.connect(self.world.file) as database:
            database.execute("UPDATE fs_data SET data = zeroblob(length(data))")
        database.close()
        self.checkpoint("restore", "a")
        self.assertEqual(state(self.world.file), before)
        self.world.umount(mount)

    def test_a_copy_and_a_file_without_attributes_have_their_checkpoints(self):
        self.fill(b"a")
        self.checkpoint("take", "a")
        before = state(self.world.file)
        data = self.world.file.read_bytes()
        self.world.file.unlink()
        self.world.file.write_bytes(data)
        self.fill(b"b")
        self.checkpoint("restore", "a")
        self.assertEqual(state(self.world.file), before)


class Based(unittest.TestCase):
    """An agent with a base: what it has recorded about the base is restored exactly."""

    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.base = self.world.root / "base"
        (self.base / "sub").mkdir(parents=True)
        for name in ["one", "two", "sub/three", "sub/four"]:
            (self.base / name).write_bytes(name.encode() * 10)
        (self.base / "large").write_bytes(b"l" * 20_000_000)  # larger than what is copied whole
        os.link(self.base / "one", self.base / "linked")
        self.world.warren("init", "o", "--base", self.base)
        self.world.id = "o"
        self.file = self.world.file.parent / "o.db"

    def all(self):
        return state(self.file, COVERED + OF_A_BASE)

    def test_whiteouts_origins_and_partial_copies_are_what_they_were(self):
        warren = self.world.warren
        mount = self.world.mount()
        (mount / "one").write_bytes(b"changed")
        (mount / "two").unlink()
        (mount / "sub").rename(mount / "moved")
        with open(mount / "large", "r+b") as large:
            large.seek(1_000_000)
            large.write(b"!")
        warren("checkpoint", "o", "take", "then")
        self.world.umount(mount)
        before, changes = self.all(), warren("diff", "o")
        mount = self.world.mount()
        (mount / "one").unlink()
        (mount / "linked").unlink()
        (mount / "two").write_bytes(b"again")
        (mount / "moved/three").unlink()
        (mount / "moved").rename(mount / "sub")
        with open(mount / "large", "r+b") as large:
            large.seek(3_000_000)
            large.write(b"?")
        self.assertIn(b"/two", warren("checkpoint", "o", "diff", "then"))
        self.world.umount(mount)
        after = self.all()
        warren("checkpoint", "o", "restore", "then")
        self.assertEqual(self.all(), before)
        self.assertEqual(warren("diff", "o"), changes)
        last = json.loads(warren("checkpoint", "o", "list", "--json"))[-1]["id"]
        warren("checkpoint", "o", "restore", last)
        self.assertEqual(self.all(), after)
        warren("fsck", "o")

    def test_a_mount_shows_the_base_again(self):
        mount = self.world.mount()
        self.world.warren("checkpoint", "o", "take", "clean")
        (mount / "one").write_bytes(b"changed")
        (mount / "two").unlink()
        self.world.warren("checkpoint", "o", "restore", "clean")
        mounted.wait_for(lambda: (mount / "two").exists() and (mount / "one").read_bytes() == b"one" * 10,
                         "the mount does not show the base")
        self.assertEqual(self.world.warren("diff", "o"), b"")
        self.world.umount(mount)

    def test_the_namespace_goes_with_it(self):
        warren = self.world.warren
        warren("vfs", "o", "write", "/mem/episodic/log", "-", input=b"one\n")
        warren("checkpoint", "o", "take", "then")
        warren("vfs", "o", "append", "/mem/episodic/log", "-", input=b"two\n")
        warren("checkpoint", "o", "restore", "then")
        self.assertEqual(warren("vfs", "o", "read", "/mem/episodic/log"), b"one\n")

    def test_a_path_of_the_base_comes_back(self):
        warren = self.world.warren
        warren("checkpoint", "o", "take", "then")
        warren("fs", "o", "rm", "/two")
        warren("fs", "o", "write", "/one", "-", input=b"x")
        warren("checkpoint", "o", "restore", "then", "/two", "/one", "/linked")
        self.assertEqual(warren("fs", "o", "cat", "/two"), b"two" * 10)
        self.assertEqual(warren("diff", "o"), b"")


class Model(unittest.TestCase):
    """Random operations through a mount, commands and sqlite3, against a full copy of what every checkpoint must be."""

    NODE = {"fs_dentry": "0", "kv_store": "0", "wr_kv_expiry": "0", "fs_whiteout": "0", "wr_whiteout": "0", "wr_covered": "0", "wr_lost_link": "0",
            "fs_origin": "delta_ino", "wr_origin": "delta_ino", "wr_base_range": "delta_ino", "wr_ancestor": "delta_ino"}

    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.tables = COVERED
        self.file = self.world.file
        self.open = []
        self.addCleanup(lambda: [os.close(one) for one in self.open])

    def rows(self):
        """What a checkpoint covers: not what is only open."""
        with sqlite3.connect(self.file, timeout=60) as database:
            database.text_factory = bytes
            database.execute("BEGIN")
            found = {table: sorted(map(repr, database.execute(
                f"SELECT * FROM {table} WHERE {self.NODE.get(table, 'ino')} NOT IN (SELECT ino FROM wr_orphan WHERE boot <> '')")))
                for table in self.tables}
        database.close()
        return found

    def checkpoint(self, *args):
        return self.world.warren("checkpoint", self.world.id, *args)

    def stranger(self, *statement):
        with sqlite3.connect(self.file, timeout=60) as database:
            database.execute(*statement)
        database.close()

    def remount(self, how):
        while self.open:
            os.close(self.open.pop())
        if how == "killed":
            for pid in self.world.daemons():
                os.kill(pid, signal.SIGKILL)
            mounted.detach(self.mount)
            mounted.wait_for(lambda: not self.world.daemons(), "the killed mount")
        else:
            self.world.umount(self.mount)
        self.mount = self.world.mount()

    def change(self, chance, nth):
        """One change of the tree. It may be impossible."""
        path = lambda: self.mount / f"d{chance.randrange(3)}" / f"f{chance.randrange(6)}"
        kind = chance.randrange(12)
        try:
            if kind < 3:
                path().write_bytes(chance.randbytes(chance.randrange(20_000)))
            elif kind == 3:
                with open(path(), "r+b") as file:
                    file.seek(chance.randrange(30_000))
                    file.write(b"patch %d" % nth)
            elif kind == 4:
                os.truncate(path(), chance.randrange(30_000))
            elif kind == 5:
                path().unlink()
            elif kind == 6:
                path().rename(path())
            elif kind == 7:
                os.link(path(), path())
            elif kind == 8:
                os.setxattr(path(), "user.a", b"%d" % nth)
            elif kind == 9:
                path().parent.rename(self.mount / f"d{chance.randrange(3)}")
            elif kind == 10:
                os.symlink("somewhere", path())
            elif len(self.open) < 3:
                self.open.append(os.open(path(), os.O_RDONLY))
            else:
                os.close(self.open.pop(0))
        except OSError:
            with contextlib.suppress(OSError):
                self.mount.joinpath(f"d{chance.randrange(3)}").mkdir()

    def play(self, seed, steps):
        chance = random.Random(seed)
        self.mount = self.world.mount()
        copies = {}
        unknown = set()  # taken by restores: nobody has a copy
        for nth in range(steps):
            kind = chance.randrange(40)
            if kind < 26:
                self.change(chance, nth)
            elif kind < 28:
                self.world.warren("kv", self.world.id, "set", f"k{chance.randrange(5)}", str(nth), *chance.choice([[], ["--ttl", "1d"]]))
            elif kind == 28:
                self.world.run("kv", self.world.id, "del", f"k{chance.randrange(5)}")
            elif kind == 29:
                self.world.run("fs", self.world.id, "write", "--ttl", "1d", f"/d0/f{chance.randrange(6)}", str(nth))
            elif kind == 30:
                self.stranger("UPDATE fs_data SET data = randomblob(length(data)) WHERE ino % 3 = 0")
            elif kind == 31:
                self.stranger("INSERT OR REPLACE INTO kv_store (key, value) VALUES (?, ?)", (f"k{chance.randrange(5)}", str(nth)))
            elif kind == 32:
                self.remount(chance.choice(["killed", "in order"]))
            elif kind < 36:
                made = json.loads(self.checkpoint("take", f"c{nth}", "--json"))["id"]
                copies[made] = self.rows()
            elif copies and kind == 36:
                gone = chance.choice(sorted({*copies, *unknown}))
                self.checkpoint("remove", str(gone))
                copies.pop(gone, None)
                unknown.discard(gone)
            elif copies:
                chosen = chance.choice(sorted({*copies, *unknown}))
                said = json.loads(self.checkpoint("restore", str(chosen), "--json"))
                if chosen in copies:
                    self.assertEqual(self.rows(), copies[chosen], f"seed {seed}, step {nth}, checkpoint {chosen}")
                unknown.add(said["before"]["id"])
        self.remount("in order")
        for one in sorted({*copies, *unknown}):
            self.checkpoint("restore", str(one))
            if one in copies:
                self.assertEqual(self.rows(), copies[one], f"seed {seed}, checkpoint {one}")
        self.world.umount(self.mount)
        self.world.warren("fsck", self.world.id)

    def test_every_checkpoint_of_an_agent_is_restored_exactly(self):
        seed = random.randrange(1 << 32) if mounted.FULL else 19
        self.play(seed, 2000 if mounted.FULL else 150)

    def test_every_checkpoint_of_an_agent_with_a_base_is_restored_exactly(self):
        base = self.world.root / "base"
        for nth in range(12):
            (base / f"d{nth % 3}").mkdir(parents=True, exist_ok=True)
            (base / f"d{nth % 3}/f{nth // 2}").write_bytes(b"of the base" * 1000 * nth)
        self.world.warren("init", "o", "--base", base)
        self.world.id = "o"
        self.file = self.file.parent / "o.db"
        self.tables = COVERED + OF_A_BASE
        seed = random.randrange(1 << 32) if mounted.FULL else 20
        self.play(seed, 2000 if mounted.FULL else 150)


class Kills(Checkpoints):
    """kill -9 at any moment leaves the state before or after."""

    kills = 0  # that found the program still running

    def killer(self, step, *args):
        """Runs a command until it enters that system call. Returns what step_killer says."""
        command = [os.environ["STEP_KILLER"], "start", str(step), mounted.program(), *args]
        reader, writer = os.pipe()  # at the end of its input it would kill at once
        try:
            done = subprocess.run(command, cwd=self.world.home, stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=mounted.PATIENCE_SECONDS)
        finally:
            os.close(reader)
            os.close(writer)
        return done.stdout.split()

    def killed_at(self, step, *args):
        """It may have ended before."""
        self.kills += self.killer(step, *args)[-2] == b"killed"

    def steps(self, *args):
        """Moments at which to kill a command, spread over all of its system calls. Runs it once."""
        words = self.killer(1_000_000_000, *args)
        self.assertEqual((words[-3], words[-1]), (b"ended", b"0"), words)
        count = int(words[-2])
        return sorted({max(1, count * nth // KILLS + random.randrange(-2, 3)) for nth in range(1, KILLS)})

    def test_a_killed_take_restore_remove_or_prune_leaves_a_whole_state(self):
        self.world.warren("audit", self.world.id, "on")
        states = {}
        for nth in range(3):
            self.fill(b"%d" % nth)
            made = json.loads(self.checkpoint("take", f"c{nth}", "--json"))["id"]
            states[made] = state(self.world.file)
        first, last = min(states), max(states)

        for step in self.steps("checkpoint", "a", "take", "killed"):
            now = state(self.world.file)
            self.killed_at(step, "checkpoint", "a", "take", "killed")
            self.assertEqual(state(self.world.file), now)
            self.assertLessEqual(set(states), set(self.ids()))

        for step in self.steps("checkpoint", "a", "restore", str(first)):
            self.checkpoint("restore", str(last))
            self.killed_at(step, "checkpoint", "a", "restore", str(first))
            self.assertIn(state(self.world.file), [states[first], states[last]])

        self.checkpoint("take", "victim")
        for step in self.steps("checkpoint", "a", "remove", "victim"):
            self.checkpoint("take", "victim")
            now, before = state(self.world.file), set(self.ids())
            self.killed_at(step, "checkpoint", "a", "remove", "victim")
            self.assertEqual(state(self.world.file), now)
            self.assertIn(len(before - set(self.ids())), [0, 1])

        keep = ["checkpoint", "a", "prune", "--keep", "1"]
        kept = {}
        for step in self.steps(*keep):
            kept = {}
            for nth in range(3):
                self.fill(b"p%d" % nth)
                made = json.loads(self.checkpoint("take", f"p{nth}", "--json"))["id"]
                kept[made] = state(self.world.file)
            before = self.ids()
            self.killed_at(step, *keep)
            self.assertIn(self.ids(), [before, before[-1:]])
        self.world.fsck()
        for made in self.ids():
            self.checkpoint("restore", str(made))
            if made in kept:
                self.assertEqual(state(self.world.file), kept[made])
        self.world.fsck()
        self.assertGreater(self.kills, 2 * KILLS)
        self.check_trail()

    def test_a_killed_checkpoint_of_what_is_mounted_is_finished_by_the_next(self):
        """A kill leaves the store alone or half restored; a restore after it is exact."""
        self.keep_working_memory_here()
        store = self.world.root / "n.db"
        mount = ["--mount", f"/mem/n=sqlite:{store}"]

        def fill(text):
            for key in ("a", "b", f"only-{text}"):
                self.world.warren("vfs", "a", "write", f"/mem/n/{key}", text, *mount)
            self.world.warren("vfs", "a", "write", "/mem/working/plan", text)

        def values():
            with contextlib.closing(sqlite3.connect(store)) as database:
                rows = database.execute("SELECT key, content FROM wr_blobs ORDER BY key").fetchall()
            return rows, self.world.warren("vfs", "a", "read", "/mem/working/plan")

        fill("one")
        self.checkpoint("take", "first", *mount)
        first = values()
        fill("two")
        self.checkpoint("take", "second", *mount)
        second = values()
        self.assertNotEqual(first, second)
        for step in self.steps("checkpoint", "a", "take", "killed", *mount):
            self.world.warren("vfs", "a", "write", "/mem/n/a", str(step), *mount)
            now = values()
            self.killed_at(step, "checkpoint", "a", "take", "killed", *mount)
            self.assertEqual(values(), now)
        for step in self.steps("checkpoint", "a", "restore", "first", *mount):
            self.checkpoint("restore", "second", *mount)
            self.assertEqual(values(), second)
            self.killed_at(step, "checkpoint", "a", "restore", "first", *mount)
            self.checkpoint("restore", "first", *mount)
            self.assertEqual(values(), first)
        self.assertGreater(self.kills, KILLS)
        self.world.fsck()

    def check_trail(self):
        """Events are stored with what they are about: one for each checkpoint that is there or was removed."""
        self.world.warren("audit", self.world.id, "verify")
        there = set()
        for line in self.world.warren("audit", self.world.id, "export", "--door", "checkpoint").splitlines():
            event = json.loads(line)
            self.assertTrue(event["ok"], event)
            if event["op"] == "checkpoint":
                there.add(event["path"])
            elif event["op"] == "checkpoint_remove":
                there.remove(event["path"])
        listed = json.loads(self.checkpoint("list", "--json"))
        self.assertEqual(there, {f"{one['name']}@{one['id']}" for one in listed})

    def test_a_killed_fork_leaves_a_whole_agent_or_none(self):
        self.fill(b"x")
        self.checkpoint("take", "c")
        self.fill(b"y")
        for step in self.steps("fork", "a", "whole", "--at", "c"):
            self.killed_at(step, "fork", "a", f"f{step}", "--at", "c")
            if (self.world.file.parent / f"f{step}.db").exists():
                self.assertEqual(self.world.warren("fs", f"f{step}", "cat", "/dir/deep"), b"x")
                self.world.warren("fsck", f"f{step}")
        self.assertGreater(self.kills, KILLS // 2)
        listed = json.loads(self.world.warren("agents", "--json"))
        self.assertTrue(all(one["id"] in ("a", "whole") or one["id"].startswith("f") for one in listed), listed)
        self.assertEqual([one["id"] for one in listed if ".draft-" in one["id"]], [])  # a draft is not an agent

    def test_what_a_killed_fork_left_goes_with_the_next(self):
        self.fill(b"x")
        folder = self.world.file.parent
        old, new, other = (folder / f"f.db.draft-{name}" for name in ("0" * 16, "1" * 16, "note"))
        for one in (old, new, other):
            one.write_bytes(b"")
        for one in (old, other):
            os.utime(one, (1, 1))
        self.world.warren("fork", "a", "f")
        self.assertEqual([one.exists() for one in (old, new, other)], [False, True, True])


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
