#!/usr/bin/env python3
"""A mount on the record: what programs do in it is in the audit trail, whatever happens to the mount.

    WARREN=path/to/warren audited.py [-v] [Class.test_name]

Needs root.
"""
import errno
import hmac
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted


class Audited(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        old = os.environ["HOME"]
        os.environ["HOME"] = str(self.world.root)
        self.addCleanup(os.environ.__setitem__, "HOME", old)

    def events(self, *options):
        lines = self.world.warren("audit", self.world.id, "show", "--all", "--json", *options).splitlines()
        return [json.loads(line) for line in lines]

    def ops(self, *options):
        return [f"{event['op']} {event['path']}" for event in self.events(*options) if event["op"] != "audit"]

    def verify(self, *options):
        return self.world.warren("audit", self.world.id, "verify", *options).decode()

    def test_where_it_is_off_a_mount_records_nothing(self):
        mount = self.world.mount()
        (mount / "f").write_text("hello")
        self.world.umount(mount)
        self.assertEqual(self.events(), [])
        self.assertEqual(self.world.warren("sql", self.world.id, "SELECT count(*) FROM sqlite_schema WHERE "
                                           "name = 'wr_audit'").split()[-1], b"0")

    def test_changes_in_a_plain_mount(self):
        self.world.warren("audit", self.world.id, "on")
        mount = self.world.mount()
        (mount / "f").write_text("hello")
        with open(mount / "f", "a") as file:
            file.write("!")
        self.assertEqual((mount / "f").read_text(), "hello!")
        os.rename(mount / "f", mount / "g")
        os.mkdir(mount / "d")
        os.unlink(mount / "g")
        self.world.umount(mount)
        # Creating and writing it is one event if both are in one batch.
        self.assertEqual([op for op in self.ops() if op != "create /f"],
                         ["write /f", "append /f", "rename /f", "mkdir /d", "delete /g"])
        self.assertEqual({event["door"] for event in self.events() if event["op"] != "audit"}, {"mount"})
        self.assertIn("rows intact", self.verify())
        self.world.fsck()

    def test_reads_are_one_event_for_each_open_file(self):
        self.world.warren("audit", self.world.id, "reads")
        mount = self.world.mount()
        (mount / "f").write_text("x" * 1_000_000)
        for _ in range(3):  # the kernel has it cached
            with open(mount / "f", "rb") as file:
                while file.read(4096):
                    pass
        with open(mount / "f", "r+b") as file:
            file.seek(10)
            file.read(1)
        self.world.umount(mount)
        reads = [event for event in self.events("--op", "read")]
        self.assertEqual([(event["path"], event["size_bytes"]) for event in reads], [("/f", 1_000_000)] * 4)
        self.verify()

    def test_a_namespace_records_refusals_and_shows_its_trail(self):
        mount = self.world.mount("mnt", "--namespace")
        (mount / "mem/working/task").write_text("x")
        for function, args in ((open, (mount / "policy/x", "w")), (os.listdir, (mount / "ipc/outbox",)),
                               (os.unlink, (mount / "audit/events.jsonl",))):
            with self.assertRaises(OSError) as caught:
                function(*args)
            self.assertEqual(errno.errorcode[caught.exception.errno], "EACCES")
        with open(mount / "ipc/outbox/1", "w") as file:
            file.write("mail")
        with self.assertRaises(PermissionError):
            open(mount / "ipc/outbox/1")

        def shown():
            return [json.loads(line) for line in (mount / "audit/events.jsonl").read_text().splitlines()]

        mounted.wait_for(lambda: any(event["op"] == "read" and not event["ok"] for event in shown()), "the refusal")
        refused = [f"{event['op']} {event['path']}" for event in shown() if not event["ok"]]
        self.assertEqual(refused, ["create /policy/x", "list /ipc/outbox", "delete /audit/events.jsonl",
                                   "read /ipc/outbox/1"])
        self.world.umount(mount)
        self.assertTrue({"create /mem/working/task", "write /mem/working/task"} & set(self.ops()))
        self.verify()

    def test_the_trail_can_be_followed_in_the_mount(self):
        mount = self.world.mount("mnt", "--namespace")
        (mount / "first").write_text("1")
        mounted.wait_for(lambda: (mount / "audit/events.jsonl").stat().st_size > 0, "the first event")
        tail = subprocess.Popen(["tail", "-n", "+1", "-f", "-s", "0.1", mount / "audit/events.jsonl"],
                                stdout=subprocess.PIPE, text=True)
        follow = subprocess.Popen([mounted.program(), "audit", self.world.id, "tail", "-n", "100", "-f", "--json"],
                                  cwd=self.world.home, stdout=subprocess.PIPE, text=True)
        seen = {tail: [], follow: []}

        def read(process):
            for line in process.stdout:
                seen[process].append(json.loads(line))

        readers = [threading.Thread(target=read, args=(process,)) for process in seen]
        for reader in readers:
            reader.start()
        try:
            for number in range(20):
                (mount / f"f{number}").write_text("x" * number)
            wanted = {f"/f{number}" for number in range(20)}
            for process in seen:
                mounted.wait_for(lambda: wanted <= {event["path"] for event in seen[process]}, f"{process.args[:2]}")
        finally:
            for process in seen:
                process.terminate()
                process.wait()
            for reader in readers:
                reader.join()
            for process in seen:
                process.stdout.close()
        numbers = [event["seq"] for event in seen[tail]]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        self.world.umount(mount)
        self.verify()

    def test_anybody_with_the_key_can_check_the_hashes(self):
        """As docs/format.md says, without a line of ours."""
        self.world.warren("vfs", self.world.id, "write", "/state/x.json", "[1]", env=os.environ | {"WARREN_TRACE_ID": "t"})
        self.world.run("vfs", self.world.id, "write", "--as-agent", "/policy/x", "y")
        self.world.warren("vfs", self.world.id, "read", "/state/x.json")
        keys = {}
        for line in (self.world.root / ".config/warren/audit.key").read_text().split():
            key = bytes.fromhex(line)
            keys[hmac.new(key, b"warren audit key id", "sha256").hexdigest()[:16]] = key

        def netstring(value):
            if value is None:
                return b"-,"
            value = value if isinstance(value, bytes) else str(value).encode()
            return b"%d:%s," % (len(value), value)

        with sqlite3.connect(self.world.file) as database:
            rows = database.execute("SELECT prev, seq, at_us, agent_id, op, path, to_path, size_bytes, ok, err, trace_id, "
                                    "door, space, session, end_bytes, key_id, hash FROM wr_audit ORDER BY seq").fetchall()
        self.assertEqual(len(rows), 3)
        before = bytes(32)
        for *fields, digest in rows:
            message = b"".join(map(netstring, ["warren-audit-1", *fields]))
            self.assertEqual(hmac.new(keys[fields[15]], message, "sha256").digest(), digest)
            self.assertEqual(fields[0], before)
            before = digest

    def test_after_a_kill_events_and_changes_fit(self):
        self.world.warren("audit", self.world.id, "on")
        for attempt in range(4):
            server = self.world.serve()
            mount = self.world.point()

            def work(worker):
                try:
                    for number in range(100_000):
                        (mount / f"{attempt}-{worker}-{number}").touch()
                except OSError:
                    pass

            workers = [threading.Thread(target=work, args=(worker,)) for worker in range(2)]
            for worker in workers:
                worker.start()
            mounted.wait_for(lambda: len(os.listdir(mount)) > 100 * (attempt + 1), "some files")
            time.sleep(0.05 * attempt)  # somewhere in a batch
            server.send_signal(signal.SIGKILL)
            server.wait()
            for worker in workers:
                worker.join()
            mounted.detach(mount)
            self.verify()
            files = set(self.world.warren("fs", self.world.id, "ls", "/").decode().split())
            created = {event["path"][1:] for event in self.events("--op", "create", "--outcome", "ok")}
            self.assertEqual(files, created)

    def test_a_mount_anchors_its_trail(self):
        self.world.warren("audit", self.world.id, "on")
        self.world.warren("init", "keeper")
        anchors = self.world.home / "anchors.jsonl"
        wheres = [str(anchors), "agent:" + str(self.world.home / ".agentfs/keeper.db")]
        for number, where in enumerate(wheres):
            mount = self.world.mount(f"mnt{number}", "--anchor", where, "--anchor-every", "1s")
            (mount / "f").write_text("x")
            if number == 0:
                mounted.wait_for(lambda: len(anchors.read_text().splitlines()) >= 2, "the second anchor")
            os.unlink(mount / "f")
            self.world.umount(mount)
            last = int(self.world.warren("sql", self.world.id, "SELECT max(seq) FROM wr_audit").split()[-1])
            if number == 0:
                self.assertEqual(json.loads(anchors.read_text().splitlines()[-1])["seq"], last)
            self.assertIn("compared with", self.verify("--anchor", where))
        for where, says in ((str(self.world.home / "none/x"), "anchor"), ("nosuch:x", "anchor")):
            done = self.world.run("mount", self.world.id, str(self.world.point("bad")), "--anchor", where)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr.decode() if isinstance(done.stderr, bytes) else done.stderr)
        self.world.run("audit", self.world.id, "verify", "--anchor", wheres[0])

    def test_reads_of_a_read_only_mount_are_recorded(self):
        self.world.warren("fs", self.world.id, "write", "/f", "x")
        for level, options in (("reads", ()), ("on", ("--namespace",))):
            self.world.warren("audit", self.world.id, level)
            mount = self.world.mount(f"mnt-{level}", "--read-only", *options)
            self.assertEqual((mount / "f").read_text(), "x")
            with self.assertRaises(OSError) as caught:
                (mount / "g").write_text("x")
            self.assertEqual(caught.exception.errno, errno.EROFS)
            self.world.umount(mount)
        reads = [(event["door"], event["path"]) for event in self.events("--op", "read")]
        self.assertEqual(reads, [("mount", "/f"), ("namespace", "/f")])
        self.verify()

    def test_what_expires_is_recorded(self):
        self.world.warren("audit", self.world.id, "on")
        mount = self.world.mount()
        (mount / "f").write_text("x")
        os.setxattr(mount / "f", "user.warren.expires", str(int(time.time()) + 1).encode())
        mounted.wait_for(lambda: not (mount / "f").exists(), "the file's end")
        (mount / "g").write_text("x")
        self.world.umount(mount)
        self.assertIn("expire /f", self.ops())
        self.verify()

    def test_several_processes_record_in_one_trail(self):
        self.world.warren("audit", self.world.id, "on")
        first, second = self.world.mount("one"), self.world.mount("two")
        failures = []

        def in_mount(mount, name):
            for number in range(60):
                (mount / f"{name}{number}").write_text("x")

        def by_command():
            for number in range(15):
                done = self.world.run("fs", self.world.id, "write", f"/c{number}", "x")
                if done.returncode != 0:
                    failures.append(done.stderr)

        workers = [threading.Thread(target=in_mount, args=(first, "a")), threading.Thread(target=in_mount, args=(second, "b")),
                   threading.Thread(target=by_command)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(failures, [])
        self.world.umount(first)
        self.world.umount(second)
        self.verify()
        written = {event["path"] for event in self.events("--op", "write")}
        self.assertEqual(written, {f"/{name}{number}" for name in "ab" for number in range(60)} |
                         {f"/c{number}" for number in range(15)})


class FullDisk(unittest.TestCase):
    def setUp(self):
        self.disk = pathlib.Path(self.enterContext(mounted.World()).root, "disk")
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", self.disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], check=True)
        self.world = self.enterContext(mounted.World(agent_dir=self.disk / "home"))
        old = os.environ["HOME"]
        os.environ["HOME"] = str(self.world.root)
        self.addCleanup(os.environ.__setitem__, "HOME", old)

    def test_what_cannot_be_recorded_is_not_done(self):
        self.world.warren("vfs", self.world.id, "write", "/state/a.json", "1")
        ballast = self.disk / "ballast"
        with open(ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError as error:
                self.assertEqual(error.errno, errno.ENOSPC)
        write = self.world.run("vfs", self.world.id, "write", "/state/b.json", "2")
        self.assertEqual(write.returncode, 1)
        # A refusal stays one.
        refused = self.world.run("vfs", self.world.id, "write", "--as-agent", "/policy/x", "y")
        self.assertEqual(refused.returncode, 1)
        ballast.unlink()
        self.world.warren("vfs", self.world.id, "write", "/state/c.json", "3")
        self.world.warren("audit", self.world.id, "verify")
        self.assertEqual(self.world.run("vfs", self.world.id, "exists", "/state/b.json").returncode, 1)
        shown = self.world.warren("audit", self.world.id, "show", "--op", "write", "--outcome", "ok").decode()
        self.assertIn("/state/a.json", shown)
        self.assertIn("/state/c.json", shown)
        self.assertNotIn("/state/b.json", shown)


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
