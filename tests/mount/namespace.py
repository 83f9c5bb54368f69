#!/usr/bin/env python3
"""A mount of an agent's namespace: the rules hold for any program in it.

    WARREN=path/to/warren namespace.py [-v] [Class.test_name]

Needs root.
"""
import contextlib
import ctypes
import errno
import json
import mmap
import os
import pathlib
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted


class Namespace(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.mount = self.world.mount("mnt", "--namespace")

    def denied(self, function, *args, code=errno.EACCES):
        with self.assertRaises(OSError) as caught:
            function(*args)
        self.assertEqual(errno.errorcode[caught.exception.errno], errno.errorcode[code])

    def finish(self):
        self.world.umount(self.mount)
        self.world.fsck()
        self.assertEqual(self.world.left_beside(), [])

    def test_the_hierarchy_is_there(self):
        self.assertEqual(sorted(os.listdir(self.mount)), ["audit", "ipc", "mem", "policy", "state"])
        self.assertEqual(sorted(os.listdir(self.mount / "mem")), ["episodic", "semantic", "working"])
        self.finish()

    def test_working_memory_is_empty_after_a_remount(self):
        (self.mount / "mem/working/task").write_text("x" * 100_000)
        (self.mount / "mem/semantic/fact").write_text("kept")
        self.assertEqual((self.mount / "mem/working/task").stat().st_size, 100_000)
        self.world.umount(self.mount)
        self.mount = self.world.mount("mnt", "--namespace")
        self.assertEqual(os.listdir(self.mount / "mem/working"), [])
        self.assertEqual((self.mount / "mem/semantic/fact").read_text(), "kept")
        self.finish()

    def test_episodic_memory_only_grows(self):
        log = self.mount / "mem/episodic/log"
        with open(log, "a") as file:
            file.write("one\n")
        with open(log, "a") as file:
            file.write("two\n")
        subprocess.run(["sh", "-c", 'echo three >> "$1"', "sh", log], check=True)
        before = "one\ntwo\nthree\n"
        self.assertEqual(log.read_text(), before)
        self.denied(open, log, "w")
        self.denied(os.truncate, log, 1)
        self.denied(os.unlink, log)
        self.denied(os.rename, log, self.mount / "mem/episodic/other")
        (self.mount / "mem/semantic/new").write_text("new")
        self.denied(os.rename, self.mount / "mem/semantic/new", log)
        self.denied(os.chmod, log, 0o600)
        descriptor = os.open(log, os.O_RDWR)
        self.denied(os.pwrite, descriptor, b"X", 0)
        self.denied(os.posix_fallocate, descriptor, 0, 100)
        with mmap.mmap(descriptor, len(before)) as mapped:
            mapped[0:1] = b"X"
            with self.assertRaises(OSError):
                mapped.flush()
                os.fsync(descriptor)
        os.close(descriptor)
        # The kernel still has to say that a page was not stored. It says so once.
        with self.assertRaisesRegex(AssertionError, "Permission denied"):
            self.world.umount(self.mount)
        self.world.umount(self.mount)
        self.assertEqual(self.world.warren("fs", "a", "cat", "/mem/episodic/log").decode(), before)

    def test_what_is_written_to_semantic_memory_can_be_queried(self):
        def query(embedding):
            answer = self.world.warren("vfs", "a", "query", "--embedding", "-", "--json", "--as-agent",
                                       input=json.dumps(embedding).encode())
            return [pathlib.Path(match["path"]).name for match in json.loads(answer)]

        memory = self.mount / "mem/semantic"
        for number in range(20):
            item = {"text": f"item {number}", "embedding": [1, number], "metadata": {"n": number}}
            (memory / f"{number}.json").write_text(json.dumps(item))
        self.assertEqual(query([1, 7])[:3], ["7.json", "8.json", "6.json"])
        os.rename(memory / "7.json", memory / "seven.json")
        os.unlink(memory / "6.json")
        (memory / "8.json").write_text("{half of an it")  # stored as any file, and not found
        self.assertEqual(query([1, 7])[:2], ["seven.json", "9.json"])
        self.assertEqual((memory / "8.json").read_text(), "{half of an it")
        self.finish()

    def test_the_agent_reads_its_inbox_and_writes_its_outbox(self):
        self.world.warren("fs", "a", "write", "/ipc/inbox/1", "hello")
        self.assertEqual(mounted.wait_for(lambda: os.listdir(self.mount / "ipc/inbox"), "the message"), ["1"])
        self.assertEqual((self.mount / "ipc/inbox/1").read_text(), "hello")
        self.denied((self.mount / "ipc/inbox/2").write_text, "forged")
        os.unlink(self.mount / "ipc/inbox/1")
        out = self.mount / "ipc/outbox"
        (out / ".new").write_text("answer")
        os.rename(out / ".new", out / "answer.msg")
        self.denied((out / "answer.msg").read_text)
        self.denied(os.listdir, out)
        self.denied(os.unlink, out / "answer.msg")
        self.assertEqual(self.world.warren("fs", "a", "cat", "/ipc/outbox/answer.msg"), b"answer")
        self.finish()

    def test_nothing_of_policy_and_audit_can_be_changed(self):
        for directory in ("policy", "audit"):
            self.denied((self.mount / directory / "x").write_text, "x")
            self.denied(os.mkdir, self.mount / directory / "x")
            self.denied(os.symlink, "x", self.mount / directory / "x")
            self.denied(os.rename, self.mount / directory, self.mount / "gone")
            self.denied(os.chmod, self.mount / directory, 0o777)
        self.finish()

    def test_mount_points_stay(self):
        self.denied(os.rmdir, self.mount / "mem/working")
        self.denied(os.rename, self.mount / "mem", self.mount / "gone")
        (self.mount / "mem/working/x").write_text("x")
        self.denied(os.rename, self.mount / "mem/working/x", self.mount / "x", code=errno.EXDEV)
        subprocess.run(["mv", self.mount / "mem/working/x", self.mount / "x"], check=True)  # copies
        self.assertEqual((self.mount / "x").read_text(), "x")
        self.finish()

    def set_policy(self, *rules):
        text = json.dumps({"version": 1, "rules": list(rules)})
        self.world.warren("policy", "a", "set", "-", input=text.encode())

    def is_denied(self, function, *args):
        try:
            function(*args)
            return False
        except PermissionError:
            return True

    def test_a_policy_takes_effect_while_mounted(self):
        notes = self.mount / "notes"
        notes.write_text("first")
        self.assertEqual(notes.read_text(), "first")
        descriptor = os.open(notes, os.O_RDWR)
        self.set_policy({"path": "/notes", "effect": "deny", "operation": ["read", "write"]})
        self.denied(os.pwrite, descriptor, b"second", 0)
        # What the kernel had cached is dropped as soon as the change is noticed.
        mounted.wait_for(lambda: self.is_denied(notes.read_text), "reading to be denied", 10)
        self.set_policy()
        mounted.wait_for(lambda: not self.is_denied(os.pwrite, descriptor, b"third", 0), "writing to be allowed", 10)
        os.close(descriptor)
        self.assertEqual(notes.read_text(), "third")
        self.finish()

    def test_a_protected_directory_cannot_be_renamed_out_of_its_rule(self):
        (self.mount / "data/a").mkdir(parents=True)
        (self.mount / "data/a/secret").write_text("s")
        self.set_policy({"path": "/data/*/secret", "effect": "deny"})
        self.denied(os.rename, self.mount / "data", self.mount / "moved", code=errno.EXDEV)
        self.denied(os.link, self.mount / "data/a/secret", self.mount / "open", code=errno.EXDEV)
        done = subprocess.run(["cp", "-r", self.mount / "data", self.mount / "copy"], capture_output=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse((self.mount / "copy/a/secret").exists() and (self.mount / "copy/a/secret").read_text())
        self.finish()

    def test_what_cannot_be_read_cannot_be_moved_to_where_it_can(self):
        for name in ("secrets", "vault"):
            (self.mount / name).mkdir()
            (self.mount / name / "key").write_text("TOPSECRET")
        (self.mount / "own").write_text("mine")
        self.set_policy({"path": "/secrets", "operation": "read", "effect": "deny"},
                        {"path": "/vault", "operation": ["read", "list", "write"], "effect": "deny"})
        for name in ("secrets", "vault"):
            self.denied(os.rename, self.mount / name / "key", self.mount / "k", code=errno.EXDEV)
            done = subprocess.run(["mv", self.mount / name / "key", self.mount / "k"], capture_output=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertNotEqual((self.mount / "k").exists() and (self.mount / "k").read_text(), "TOPSECRET")
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
        exchange = 2
        done = renameat2(-100, bytes(self.mount / "own"), -100, bytes(self.mount / "secrets/key"), exchange)
        self.assertEqual((done, ctypes.get_errno()), (-1, errno.EXDEV))
        self.assertEqual((self.mount / "own").read_text(), "mine")
        self.finish()

    def test_a_hard_link_made_before_the_rule_is_no_way_around_it(self):
        for name in ("reports/done", "own"):
            (self.mount / name).mkdir(parents=True)
        (self.mount / "reports/done/r").write_text("final")
        os.link(self.mount / "reports/done/r", self.mount / "own/r")
        self.set_policy({"path": "/reports/**", "operation": ["overwrite", "delete"], "effect": "deny"})
        self.denied((self.mount / "own/r").write_text, "tampered")
        done = self.world.run("vfs", "a", "write", "--as-agent", "/own/r", "tampered")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"'/reports/done/r' is denied by rule 1", done.stderr)
        explained = self.world.run("policy", "a", "explain", "overwrite", "/own/r")
        self.assertEqual(explained.returncode, 1)
        self.assertIn(b"the file is also '/reports/done/r'", explained.stdout)
        self.assertEqual((self.mount / "reports/done/r").read_text(), "final")
        self.finish()

    def test_a_name_in_a_denied_place_counts_while_mounted(self):
        """Made by a door without rules, as the operator's `warren fs` is."""
        for name in ("open", "secret", "moving"):
            (self.mount / name).mkdir()
        for name in ("f", "g"):
            (self.mount / "open" / name).write_text("data")
        self.world.warren("fs", "a", "ln", "/open/g", "/moving/g")
        self.set_policy({"path": "/secret", "effect": "deny"})
        for name in ("f", "g"):
            self.assertEqual((self.mount / "open" / name).read_text(), "data")
        self.world.warren("fs", "a", "ln", "/open/f", "/secret/f")
        self.world.warren("fs", "a", "mv", "/moving", "/secret/moving")
        for name, elsewhere in (("f", "/secret/f"), ("g", "/secret/moving/g")):
            path = self.mount / "open" / name
            mounted.wait_for(lambda: self.is_denied(path.read_text), f"reading {name} to be denied", 10)
            self.denied(path.write_text, "new")
            self.world.warren("fs", "a", "rm", elsewhere)
            mounted.wait_for(lambda: not self.is_denied(path.read_text), f"reading {name} to be allowed", 10)
        self.finish()

    def test_a_query_finds_only_what_may_be_read_by_every_name(self):
        self.world.warren("vfs", "a", "write", "/mem/semantic/i.json", '{"text": "TOPSECRET", "embedding": [1, 0]}')
        self.world.warren("vfs", "a", "write", "/mem/semantic/j.json", '{"text": "open", "embedding": [1, 0]}')
        self.world.warren("fs", "a", "mkdir", "/secret")
        self.world.warren("fs", "a", "ln", "/mem/semantic/i.json", "/secret/i.json")
        self.set_policy({"space": "user", "path": "/secret", "effect": "deny"})
        found = self.world.warren("vfs", "a", "query", "--as-agent", "/mem/semantic", "--embedding", "-", input=b"[1, 0]")
        self.assertIn(b"open", found)
        self.assertNotIn(b"TOPSECRET", found)
        self.finish()

    def test_a_tree_with_a_circle_ends(self):
        """As in a file that a stranger made."""
        (self.mount / "one/two").mkdir(parents=True)
        inode = (self.mount / "one").stat().st_ino
        inner = (self.mount / "one/two").stat().st_ino
        self.world.umount(self.mount)
        with contextlib.closing(sqlite3.connect(self.world.file)) as database:
            database.execute("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('back', ?, ?)", (inner, inode))
            database.commit()
        done = self.world.run("vfs", "a", "tree", "/one")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"is inside itself", done.stderr)
        self.assertLess(len(done.stdout.splitlines()), 20)

    def test_a_time_to_live_needs_the_right_to_delete(self):
        (self.mount / "logs").mkdir()
        (self.mount / "logs/b").write_text("kept")
        (self.mount / "ipc/outbox/p").write_text("message")
        self.set_policy({"path": "/logs", "operation": "delete", "effect": "deny"})
        for place in ("logs/b", "ipc/outbox/p"):
            self.denied(self.expires_in, self.mount / place, 1)
            (self.mount / "state/soon").write_text("x")
            self.expires_in(self.mount / "state/soon", 3600)
            self.denied(os.rename, self.mount / "state/soon", self.mount / place)
        self.assertEqual((self.mount / "logs/b").read_text(), "kept")
        self.assertEqual(self.world.warren("fs", "a", "cat", "/ipc/outbox/p"), b"message")
        self.finish()

    def test_copies_go_to_the_end_of_what_only_grows(self):
        (self.mount / "source").write_text("content\n")
        log = self.mount / "mem/episodic/log"
        subprocess.run(["cp", self.mount / "source", log], check=True)
        subprocess.run(["sh", "-c", 'cat "$1" > "$2"; cat "$1" >> "$2"', "sh", self.mount / "source",
                        self.mount / "mem/episodic/other"], check=True)
        self.assertEqual(log.read_text(), "content\n")
        self.assertEqual((self.mount / "mem/episodic/other").read_text(), "content\ncontent\n")
        with open(self.mount / "source", "rb") as source, open(log, "r+b") as target:
            self.denied(os.copy_file_range, source.fileno(), target.fileno(), 4, 0, 0)
        self.assertEqual(log.read_text(), "content\n")
        self.finish()

    def test_nobody_reads_what_a_memory_map_was_refused(self):
        log = self.mount / "mem/episodic/log"
        with open(log, "a") as file:
            file.write("event one\n")
        descriptor = os.open(log, os.O_RDWR)
        with mmap.mmap(descriptor, 10) as mapped:
            mapped[0:9] = b"EVENT ZZZ"
            with self.assertRaises(OSError):
                mapped.flush()
                os.fsync(descriptor)
            mounted.wait_for(lambda: log.read_text() == "event one\n", "the refused page to be dropped", 30)
        os.close(descriptor)

    def test_a_policy_holds_for_a_directory_that_is_open(self):
        (self.mount / "shut").mkdir()
        (self.mount / "shut/file").write_text("x")
        directory = os.open(self.mount / "shut", os.O_RDONLY)
        self.assertEqual(os.listdir(directory), ["file"])
        self.set_policy({"path": "/shut", "effect": "deny"})
        mounted.wait_for(lambda: self.is_denied(os.listdir, directory), "listing to be denied", 30)
        os.close(directory)
        self.finish()

    def test_standard_directories_are_not_links(self):
        self.denied(os.rmdir, self.mount / "mem/semantic")
        self.denied(os.rename, self.mount / "mem/semantic", self.mount / "gone")
        os.symlink("policy", self.mount / "link")
        self.denied(os.rename, self.mount / "link", self.mount / "mem/semantic", code=errno.EISDIR)
        self.world.umount(self.mount)
        for name in ("ipc", "state"):
            self.world.warren("fs", "a", "rm", "-r", f"/{name}")
            self.world.warren("fs", "a", "ln", "-s", "policy", f"/{name}")  # by a door without rules
        self.mount = self.world.mount("mnt", "--namespace")
        self.denied(os.readlink, self.mount / "ipc")
        self.denied(os.listdir, self.mount / "ipc")
        self.assertEqual(os.listdir(self.mount / "state"), ["checkpoints"])  # the mount point's directory
        self.denied((self.mount / "state/new").touch, code=errno.EROFS)
        self.assertEqual(os.listdir(self.mount / "policy"), [])
        self.finish()

    def expires_in(self, path, seconds):
        os.setxattr(path, "user.warren.expires", f"{time.time() + seconds:.3f}".encode())

    def test_a_file_with_a_time_to_live_is_gone_though_the_kernel_had_it_cached(self):
        for place in ("mem/semantic", "mem/working", "state"):
            path = self.mount / place / "soon"
            path.write_text("x")
            self.expires_in(path, 1)
            self.assertEqual(path.read_text(), "x")
            with open(path) as held:
                mounted.wait_for(lambda: not path.exists(), f"{path} to be gone", 10)
                self.assertNotIn("soon", os.listdir(path.parent))
                self.assertRaises(FileNotFoundError, path.read_text)
                self.assertEqual(held.read(), "x")
            path.write_text("new")
            self.assertEqual(os.listxattr(path), [])
            path.unlink()
        self.finish()

    def test_a_time_to_live_that_another_process_sets_holds_in_the_mount(self):
        path = self.mount / "state/soon"
        path.write_text("x")
        self.assertTrue(path.exists())
        self.world.warren("fs", "a", "write", "/state/soon", "y", "--ttl", "1s")
        mounted.wait_for(lambda: not path.exists(), "the file to be gone", 10)
        self.finish()

    def test_a_plain_mount_and_one_of_the_namespace_lose_the_file_together(self):
        plain = self.world.mount("plain")
        for here, there in ((plain, self.mount), (self.mount, plain)):
            (here / "state/soon").write_text("x")
            mounted.wait_for((there / "state/soon").exists, "the file in the other mount", 10)
            self.expires_in(here / "state/soon", 1)
            mounted.wait_for(lambda: not (here / "state/soon").exists(), "the file to be gone", 10)
            mounted.wait_for(lambda: not (there / "state/soon").exists(), "the file to be gone in the other mount", 10)
        self.world.umount(plain)
        self.finish()

    def test_what_is_append_only_gets_no_time_to_live(self):
        log = self.mount / "mem/episodic/log"
        with open(log, "a") as file:
            file.write("one\n")
        self.denied(self.expires_in, log, 1)
        self.finish()

    def test_a_killed_host_loses_only_working_memory(self):
        self.world.umount(self.mount)
        server = self.world.serve("mnt", "--namespace")
        (self.mount / "mem/working/x").write_text("x")
        with open(self.mount / "mem/episodic/log", "a") as file:
            file.write("kept\n")
            file.flush()
            os.fsync(file.fileno())
        server.kill()
        server.wait()
        mounted.detach(self.mount)
        self.mount = self.world.mount("mnt", "--namespace")
        self.assertEqual((self.mount / "mem/episodic/log").read_text(), "kept\n")
        self.assertEqual(os.listdir(self.mount / "mem/working"), [])
        self.finish()


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
