#!/usr/bin/env python3
"""Encrypted agents through the program: every door opens them with the key, and nothing does without it."""
import base64
import json
import os
import pathlib
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from encrypt_case import SECRET, WARREN, EncryptCase  # noqa: E402

NAME = "plans-for-tomorrow.txt"


class EncryptTest(EncryptCase):
    def make(self, agent="a", *options, **changed):
        self.warren("init", agent, "--encrypt", *options, **changed)
        self.warren("fs", agent, "write", f"/{NAME}", SECRET, **changed)

    def read(self, agent="a", **changed):
        return self.warren("fs", agent, "cat", f"/{NAME}", **changed)

    def assert_nothing_readable(self, *files):
        for file in files:
            content = file.read_bytes()
            for text in (SECRET, NAME, "CREATE TABLE", "fs_inode", "SQLite format 3"):
                self.assertNotIn(text.encode(), content, f"{text} in {file}")

    # Doors.

    def drafts(self):
        return sorted(name for name in os.listdir(self.work / ".agentfs") if "draft" in name or "partial" in name)

    def test_a_signal_during_decrypt_leaves_nothing_beside_the_agent(self):
        asked, go = self.dir / "asked", self.dir / "go"
        os.mkfifo(go)
        command = self.dir / "key.sh"
        command.write_text(f"#!/bin/sh\ntouch {asked}\nread line < {go}\nprintf %064d 7\n")
        command.chmod(0o700)
        self.make("a", "--key-env", "MINE", MINE=f"{7:064}")
        self.warren("key", "a", "--key-env", "MINE", MINE=f"{7:064}")
        os.unlink(self.notes()[0])
        process = subprocess.Popen([WARREN, "decrypt", "a"], cwd=self.work, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=self.environment | {"WARREN_KEY_COMMAND": str(command)})
        while not asked.exists():
            self.assertIsNone(process.poll(), "it ended without asking for the key")
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        with open(go, "w", encoding="ascii") as answer:
            answer.write("go\n")
        says = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, -signal.SIGINT, says)
        self.assertEqual(self.drafts(), [])
        self.assertEqual(self.read(), SECRET)

    def test_what_a_killed_decrypt_left_goes_with_the_next_one_or_with_the_agent(self):
        self.make()
        self.make("b")
        left = ["a.db.draft-0123456789abcdef", "a.db.draft-0123456789abcdef.partial-fedcba9876543210",
                "b.db.draft-0123456789abcdef"]
        for name in left:
            (self.work / ".agentfs" / name).write_text(SECRET)
        self.warren("decrypt", "a")
        self.assertEqual(self.drafts(), left[2:])
        self.warren("delete", "b", "--yes")
        self.assertEqual(self.drafts(), [])

    def files_with(self, text):
        runtime = self.dir / "runtime"
        return [file for file in runtime.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]

    def test_working_memory_goes_with_the_file_that_it_belongs_to(self):
        for verb, agent in (("encrypt", "a"), ("delete", "b"), ("init", "c"), ("restore", "d")):
            self.warren("init", agent)
            self.warren("backup", agent, f"{agent}.copy")
            self.warren("vfs", agent, "write", "/mem/working/a.txt", SECRET)
            self.assertEqual(len(self.files_with(SECRET)), 1)
            options = {"delete": ["--yes"], "init": ["--force"], "restore": [f"{agent}.copy", "--force"]}.get(verb, [])
            self.warren(verb, agent, *options)
            self.assertEqual(self.files_with(SECRET), [], verb)
        self.warren("vfs", "a", "write", "/mem/working/a.txt", SECRET)
        self.assertEqual(self.files_with(SECRET), [])
        for verb in ("rekey", "decrypt"):
            self.warren(verb, "a")
            left = [file for file in (self.dir / "runtime").rglob("working-*") if file.is_file()]
            self.assertEqual(left, [], verb)
            self.warren("vfs", "a", "write", "/mem/working/a.txt", SECRET)

    def test_a_key_file_whose_path_is_not_utf8(self):
        folder = os.path.join(os.fsencode(self.dir), b"d\xff")
        os.mkdir(folder)
        path = os.path.join(folder, b"k")
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(f"{7:064}\n".encode())
        self.make("a", "--key-file", path)
        self.assertEqual(self.read(), SECRET)
        self.make("b")
        self.warren("rekey", "b", "--key-file", path)
        self.assertEqual(self.read("b"), SECRET)
        self.assertIn("\\xff", self.warren("key", "b"))

    def test_nothing_that_a_key_command_printed_is_said(self):
        for command in ("echo 5ecre7; echo wrong: 5ecre7 >&2; exit 3", "echo 5ecre7 >&2; exit 3", "set -x; : 5ecre7; exit 3",
                        "printf '5ecre7 first\\nsecond\\n'; echo 5ecre7 first >&2; exit 3"):
            error = self.refused("init", "--encrypt", "a", "--key-command", command)
            self.assertIn("ended with status 3", error)
            self.assertIn("run it yourself to see why", error)
            self.assertIn("in the directory /", error)
            self.assertNotIn("5ecre7", error)

    def test_a_file_that_was_cut_off_and_a_wrong_key_are_told_apart(self):
        key = self.dir / "key"
        key.write_text(secrets.token_hex(32))
        key.chmod(0o600)
        self.make("a", "--key-file", str(key))
        whole = self.file_of("a").read_bytes()
        self.file_of("a").write_bytes(whole[:-8192])
        self.assertIn("its key fits, and it is damaged", self.refused("fs", "a", "ls", "/"))
        self.file_of("a").write_bytes(whole)
        self.assertEqual(self.read(), SECRET)
        key.write_text(secrets.token_hex(32))
        error = self.refused("rekey", "a", "--key-file", str(key))
        self.assertIn("its key does not fit", error)
        self.assertIn("put the old one back", error)

    def test_commands_meet_an_agent_whose_key_changes_without_failing(self):
        """One process writes file after file while others encrypt, rekey and decrypt: everybody waits for the others."""
        self.warren("init", "z")
        stop = self.dir / "stop"
        loop = f'i=0; while [ ! -e "{stop}" ]; do i=$((i+1)); "{WARREN}" fs z write /n$i v || exit 1; echo $i; done'
        with open(self.dir / "errors", "w+", encoding="utf-8") as errors, \
             subprocess.Popen(["sh", "-c", loop], cwd=self.work, env=self.environment, text=True, stdout=subprocess.PIPE,
                              stderr=errors) as writer:
            try:
                for verb in ("encrypt", "rekey", "decrypt", "encrypt", "rekey", "rekey", "decrypt"):
                    begun = writer.stdout.readline()  # the agent is in use
                    self.assertTrue(begun, "the writer has ended")
                    self.warren(verb, "z")
            finally:
                stop.touch()
            written = [int(line) for line in writer.stdout]
        self.assertEqual((self.dir / "errors").read_text(), "")
        self.assertEqual(writer.returncode, 0)
        last = written[-1]
        names = self.warren("fs", "z", "ls").split()
        self.assertEqual(sorted(names, key=lambda name: int(name[1:])), [f"n{i}" for i in range(1, last + 1)])
        self.warren("fsck", "z")

    def test_a_plain_file_in_the_place_of_an_encrypted_agent_is_refused(self):
        self.make()
        self.assertEqual(self.read(), SECRET)
        self.warren("init", "plain")
        shutil.copy(self.file_of("plain"), self.file_of("a"))
        for words in (["fs", "a", "write", "/x", "y"], ["fs", "a", "ls"], ["kv", "a", "set", "k", "1"], ["info", "a"]):
            error = self.refused(*words)
            self.assertIn("agent 'a' was encrypted, and the file in its place is not", error)
        note = error.split("remove '")[1].split("'")[0]
        os.unlink(note)
        self.warren("fs", "a", "write", "/x", "y")

    def test_an_agent_that_warren_made_plain_again_is_not_refused(self):
        self.make()
        self.warren("decrypt", "a")
        self.assertEqual(self.read(), SECRET)
        self.make("b")
        self.warren("init", "b", "--force")
        self.warren("fs", "b", "ls")
        self.make("c")
        self.warren("delete", "c", "--yes")
        self.warren("init", "c")
        self.warren("fs", "c", "ls")

    def test_an_encrypted_agent_is_not_replaced_by_a_copy_that_is_not(self):
        self.make()
        self.warren("init", "plain")
        self.warren("backup", "plain", "plain.backup")
        self.assertIn("agent 'a' is encrypted, and this copy is not", self.refused("restore", "a", "plain.backup", "--force"))
        (self.dir / "a").mkdir()
        self.warren("-C", str(self.dir / "a"), "init", "a")
        self.warren("-C", str(self.dir / "a"), "checkpoint", "a", "push", f"sqlite:{self.dir}/other.db")
        self.refused("checkpoint", "a", "pull", f"sqlite:{self.dir}/other.db", "--force")
        self.assertEqual(self.read(), SECRET)
        self.warren("delete", "a", "--yes")
        self.warren("restore", "a", "plain.backup")
        self.warren("fs", "a", "ls")

    def test_another_encrypted_file_in_its_place_is_refused(self):
        self.make()
        self.make("b")
        self.assertEqual(self.read(), SECRET)
        shutil.copy(self.file_of("b"), self.file_of("a"))
        self.assertIn("another encrypted file is in the place of agent 'a'", self.refused("fs", "a", "ls"))
        self.warren("rekey", "b")
        self.assertEqual(self.read("b"), SECRET)

    def test_the_search_index_is_encrypted_as_the_agent_is(self):
        index = self.work / ".agentfs" / "a.index.db"

        def search():
            said = self.warren("context", "a", "search", "launch", "--json", WARREN_EMBED="none")
            return [hit["path"] for hit in json.loads(said)["hits"]]

        self.make()
        self.assertEqual(search(), [f"/{NAME}"])
        self.assert_nothing_readable(index)
        self.warren("decrypt", "a")
        self.assertFalse(index.exists())
        self.assertEqual(search(), [f"/{NAME}"])
        self.assertIn(SECRET.encode(), index.read_bytes())
        plain = index.read_bytes()
        self.warren("encrypt", "a")
        self.assertFalse(index.exists())
        index.write_bytes(plain)  # as if it had been left
        index.chmod(0o600)
        self.assertEqual(search(), [f"/{NAME}"])
        self.assert_nothing_readable(index)
        sealed = index.read_bytes()
        self.warren("rekey", "a")
        index.write_bytes(sealed)  # with the old key
        index.chmod(0o600)
        self.assertEqual(search(), [f"/{NAME}"])
        self.assert_nothing_readable(index)

    def test_every_plain_door_opens_it_without_options(self):
        self.make()
        self.assertEqual(self.read(), SECRET)
        self.warren("kv", "a", "set", "k", json.dumps(SECRET))
        self.assertIn(SECRET, self.warren("kv", "a", "get", "k"))
        self.warren("tools", "a", "record", "t", "--params", json.dumps({"p": SECRET}), "--result", '"r"')
        self.assertIn("t", self.warren("timeline", "a"))
        self.assertIn("AEGIS-256", self.warren("info", "a"))
        self.assertTrue(json.loads(self.warren("info", "a", "--json"))["encrypted"])
        self.assertIn("clean", self.warren("fsck", "a"))
        self.assertIn("1", self.warren("sql", "a", "SELECT count(*) FROM fs_dentry"))
        self.warren("migrate", "a")
        self.warren("quota", "a", "--bytes", "10M")
        self.assertIn(NAME, self.warren("fs", "a", "ls", "/"))
        self.assert_nothing_readable(self.file_of("a"))

    def test_the_namespace_and_its_working_memory_are_encrypted_too(self):
        self.make()
        self.warren("vfs", "a", "write", "/state/s.json", json.dumps(SECRET))
        self.warren("vfs", "a", "write", "/mem/working/w.txt", SECRET)
        self.assertIn(SECRET, self.warren("vfs", "a", "read", "/mem/working/w.txt"))
        self.assertIn("intact", self.warren("audit", "a", "verify"))
        working = list((self.dir / "runtime").rglob("working-*.db"))
        self.assertEqual(len(working), 1)
        self.assert_nothing_readable(working[0], self.file_of("a"))
        everywhere = [file for file in self.dir.rglob("*") if file.is_file()]
        for file in everywhere:
            self.assertNotIn(SECRET.encode(), file.read_bytes(), file)

    def test_the_search_index_is_encrypted_with_the_agents_key(self):
        words = {"WARREN_EMBED": "none"}
        self.warren("init", "a")
        self.warren("fs", "a", "write", f"/{NAME}", SECRET)
        index = self.work / ".agentfs/a.index.db"
        self.assertIn(NAME, self.warren("context", "a", "search", "launch", **words))
        self.assertIn(b"launch", index.read_bytes())  # of a plain agent it is plain
        plain = index.read_bytes()
        self.warren("encrypt", "a")
        self.assertFalse(index.exists())
        for _ in range(2):  # the second search finds the index; a plain one in its place is not used
            self.assertIn(NAME, self.warren("context", "a", "search", "launch", **words))
            self.assertNotIn(b"launch", index.read_bytes())
            self.assert_nothing_readable(*index.parent.glob("a.index.db*"))
        index.write_bytes(plain)
        self.assertIn(NAME, self.warren("context", "a", "search", "launch", **words))
        self.assert_nothing_readable(*index.parent.glob("a.index.db*"))
        self.warren("decrypt", "a")
        self.assertIn(NAME, self.warren("context", "a", "search", "launch", **words))

    def test_backup_restore_fork_and_checkpoints_stay_encrypted(self):
        self.make()
        self.warren("checkpoint", "a", "take", "one")
        self.warren("fs", "a", "write", f"/{NAME}", "something else")
        self.assertEqual(self.warren("fs", "a", "cat", f"/{NAME}@one"), SECRET)
        self.assertIn(NAME, self.warren("checkpoint", "a", "diff", "one"))
        self.warren("backup", "a", "copy.db")
        self.warren("restore", "r", "copy.db")
        self.warren("fork", "a", "f", "--at", "one")
        self.warren("checkpoint", "r", "restore", "one")
        self.assertEqual(self.read("f"), SECRET)
        self.assertEqual(self.read("r"), SECRET)
        self.assertIn("appeared", self.warren("log", "a", f"/{NAME}"))
        self.assert_nothing_readable(self.work / "copy.db", self.file_of("a"), self.file_of("r"), self.file_of("f"))
        self.warren("checkpoint", "a", "push", "sqlite:vault.db")
        self.warren("checkpoint", "pulled", "pull", "sqlite:vault.db", "--from", "a")
        self.assertEqual(self.warren("fs", "pulled", "cat", f"/{NAME}@one"), SECRET)
        self.assertNotIn(SECRET.encode(), (self.work / "vault.db").read_bytes())
        self.assertNotIn(NAME.encode(), (self.work / "vault.db").read_bytes())
        self.assertEqual(len(self.notes()), 1)  # they all have the same key

    def test_an_agent_with_a_base_keeps_its_changes_encrypted(self):
        base = self.work / "base"
        base.mkdir()
        (base / "open.txt").write_text("from the base\n")
        self.warren("init", "a", "--encrypt", "--base", str(base))
        self.warren("fs", "a", "write", f"/{NAME}", SECRET)
        self.warren("fs", "a", "write", "/open.txt", SECRET)
        self.assertIn(SECRET, self.warren("diff", "a", "--patch"))
        self.assert_nothing_readable(self.file_of("a"))
        self.warren("vfs", "a", "write", "/state/s.json", "1")
        self.warren("apply", "a", "--yes")
        self.assertEqual((base / NAME).read_text(), SECRET)

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_a_mount_and_exec_write_only_ciphertext(self):
        self.make()
        self.warren("exec", "a", "sh", "-c", f"cat {NAME} > copy && test -s copy")
        self.assertEqual(self.warren("fs", "a", "cat", "/copy"), SECRET)
        point = self.work / "m"
        point.mkdir()
        self.warren("mount", "a", str(point))
        try:
            self.assertEqual((point / NAME).read_text(), SECRET)
            big = point / "big"
            with open(big, "w") as file:
                file.write(f"{SECRET}\n" * 50_000)
                file.flush()
                os.fsync(file.fileno())
            log = pathlib.Path(f"{self.file_of('a')}-wal")
            self.assertGreater(log.stat().st_size, 100_000)
            self.assert_nothing_readable(self.file_of("a"), log)
            self.assertEqual(self.warren("fs", "a", "cat", "/big").count(SECRET), 50_000)
            self.assertIn("open in another process", self.refused("rekey", "a"))
        finally:
            self.warren("umount", str(point))
        self.assertEqual(self.warren("fs", "a", "cat", "/big").count(SECRET), 50_000)
        self.assert_nothing_readable(self.file_of("a"))

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_a_killed_writer_leaves_an_encrypted_log_that_the_key_recovers(self):
        self.make()
        command = f"cat {NAME} {NAME} > twice && sync twice && echo written && sleep 100"
        writer = subprocess.Popen([WARREN, "exec", "a", "sh", "-c", command], cwd=self.work, env=self.environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.assertEqual(writer.stdout.readline(), "written\n")
        os.killpg(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        log = pathlib.Path(f"{self.file_of('a')}-wal")
        self.assertGreater(log.stat().st_size, 4096)
        self.assert_nothing_readable(self.file_of("a"), log)
        self.assertEqual(self.warren("fs", "a", "cat", "/twice"), SECRET * 2)
        self.assertIn("clean", self.warren("fsck", "a"))

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_a_run_keeps_what_it_writes_encrypted(self):
        (self.work / "open.txt").write_text("from the base\n")
        command = ("sh", "-c", f"echo '{SECRET}' > {NAME} && echo '{SECRET}' >> open.txt")
        self.warren("run", "--session", "s", "--encrypt", "--", *command)
        files = [file for file in (self.dir / "home/.agentfs/run/s").rglob("*.db*") if file.is_file()]
        self.assertTrue(files)
        self.assert_nothing_readable(*files)
        self.assertIn(SECRET, self.warren("diff", "s", "--patch"))
        self.assertIn(SECRET, self.warren("run", "--session", "s", "--", "cat", NAME))
        self.assertIn(SECRET, self.warren("run", "--session", "s", "--encrypt", "--", "cat", "open.txt"))
        self.warren("apply", "s", "--yes")
        self.assertEqual((self.work / NAME).read_text(), f"{SECRET}\n")
        self.warren("run", "--session", "plain", "--keep", "--", "true")
        self.assertIn("exists already and is not encrypted", self.refused("run", "--session", "plain", "--encrypt", "--", "true"))
        shown = self.warren("run", "--encrypt", "--key-env", "MY_KEY", "--discard", "--", "env", MY_KEY=secrets.token_hex(32),
                            WARREN_KEY=secrets.token_hex(32), WARREN_KEY_COMMAND="true")
        self.assertNotIn("KEY", shown)

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_no_key_reaches_the_command_of_a_run(self):
        key = secrets.token_hex(32)
        inside = self.work / "inside.key"
        inside.write_text(key)
        inside.chmod(0o600)
        look = ("sh", "-c", "env; cat inside.key || true; ls")
        self.warren("run", "--session", "s", "--encrypt", "--key-file", "inside.key", "--keep", "--", "true")
        for words in (("--session", "s"), ("--session", "t", "--encrypt", "--key-file", "inside.key"), ("--discard",)):
            self.assertNotIn(key, self.warren("run", *words, "--", *look), words)
        self.assertIn("which no agent may see", self.refused("run", "--read", "inside.key", "--", *look))
        shown = self.warren("run", "--discard", "--", *look, WARREN_KEY_FILE=str(inside))
        self.assertNotIn("inside.key", shown)
        variable = {"MY_KEY": key, "WARREN_EMBED_KEY": key}
        self.warren("run", "--session", "v", "--encrypt", "--key-env", "MY_KEY", "--keep", "--", "true", **variable)
        agentfs = self.dir / "agentfs"
        agentfs.symlink_to(WARREN)
        done = subprocess.run([agentfs, "run", "--session", "v", "env"], cwd=self.work, env=self.environment | variable,
                              text=True, capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
        self.assertIn("PATH=", done.stdout, done.stderr)
        self.assertNotIn(key, done.stdout)
        says = self.refused("run", "--session", "v", "--env", "MY_KEY", "--", "env", **variable)
        self.assertIn("MY_KEY has the key of an agent file", says)
        self.assertNotIn(key, says)
        self.assertIn("MY_KEY=other", self.warren("run", "--session", "v", "--env", "MY_KEY=other", "--", "env", **variable))

    # Keys.

    def test_an_agent_whose_key_is_lost_can_be_replaced_by_a_backup(self):
        self.warren("init", "plain")
        self.warren("fs", "plain", "write", "/x", "from the backup")
        self.warren("backup", "plain", "plain.db")
        self.make("a", "--key-env", "MY_KEY", MY_KEY=secrets.token_hex(32))
        self.assertIn("already exists", self.refused("restore", "a", "plain.db"))
        self.assertIn("is encrypted, and this copy is not", self.refused("restore", "a", "plain.db", "--force"))
        self.warren("delete", "a", "--yes")  # the variable is not set
        self.warren("restore", "a", "plain.db")
        self.assertEqual(self.warren("fs", "a", "cat", "/x"), "from the backup")
        self.make("b")
        shutil.rmtree(self.dir / "home/.config/warren/keys")
        self.warren("checkpoint", "plain", "push", "sqlite:vault.db")
        self.warren("checkpoint", "b", "pull", "sqlite:vault.db", "--from", "plain", "--force")
        self.assertEqual(self.warren("fs", "b", "cat", "/x"), "from the backup")

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_a_mounted_agent_whose_key_is_lost_is_not_replaced_by_a_backup(self):
        self.make()
        self.warren("init", "plain")
        self.warren("backup", "plain", "plain.db")
        point = self.work / "m"
        point.mkdir()
        self.warren("mount", "a", str(point))
        try:
            elsewhere = {"XDG_CONFIG_HOME": str(self.dir / "elsewhere")}
            self.assertIn("open in another process", self.refused("restore", "a", "plain.db", "--force", **elsewhere))
            self.assertEqual((point / NAME).read_text(), SECRET)
        finally:
            self.warren("umount", str(point))

    def test_a_copy_can_be_read_by_nobody_who_cannot_read_the_original(self):
        self.warren("init", "a")
        self.warren("init", "open")
        self.warren("backup", "open", "open.db")
        self.file_of("a").chmod(0o600)
        self.warren("backup", "a", "private.db")
        self.warren("fork", "a", "f")
        self.warren("restore", "a", "open.db", "--force")
        for file in (self.file_of("a"), self.work / "private.db", self.file_of("f")):
            self.assertEqual(file.stat().st_mode & 0o777, 0o600, file)
        self.file_of("a").chmod(0o640)
        self.warren("restore", "a", "private.db", "--force")
        self.assertEqual(self.file_of("a").stat().st_mode & 0o777, 0o640)
        if os.geteuid() == 0:
            os.chown(self.file_of("a"), 12, 34)
            self.warren("restore", "a", "private.db", "--force")
            self.assertEqual((self.file_of("a").stat().st_uid, self.file_of("a").stat().st_gid), (12, 34))

    def test_an_error_after_the_new_file_is_in_place_says_where_its_key_is(self):
        self.warren("init", "a")
        (self.work / ".agentfs/a.index.db-wal").mkdir()
        says = self.refused("encrypt", "a")
        note, = self.notes()
        self.assertIn(f"the new key is noted in '{note}'", says)
        (self.work / ".agentfs/a.index.db-wal").rmdir()
        self.assertIn("AEGIS-256", self.warren("info", "a"))

    def test_a_key_in_place_of_a_variables_name_is_not_repeated(self):
        for key in (secrets.token_hex(32), "a" + secrets.token_hex(32), base64.b64encode(secrets.token_bytes(32)).decode(), "x=y"):
            says = self.refused("init", "a", "--encrypt", "--key-env", key)
            self.assertIn("not the name of a variable", says)
            self.assertNotIn(key, says)

    def test_a_key_file_is_a_regular_file_and_is_read_whole_or_not_at_all(self):
        pipe = self.dir / "pipe"
        os.mkfifo(pipe, 0o600)
        self.assertIn("is not a regular file", self.refused("init", "a", "--encrypt", "--key-file", str(pipe)))
        long = self.dir / "long"
        long.write_text("x" * 5000)
        long.chmod(0o600)
        self.assertIn("has more than", self.refused("init", "a", "--encrypt", "--key-file", str(long)))

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_init_force_does_not_replace_a_mounted_agent_whose_key_it_lacks(self):
        self.make()
        point = self.work / "m"
        point.mkdir()
        self.warren("mount", "a", str(point))
        try:
            elsewhere = {"XDG_CONFIG_HOME": str(self.dir / "elsewhere")}
            self.assertIn("open in another process", self.refused("init", "a", "--force", **elsewhere))
            self.assertEqual((point / NAME).read_text(), SECRET)
        finally:
            self.warren("umount", str(point))
        self.warren("init", "a", "--force", **elsewhere)
        self.assertEqual(self.warren("fs", "a", "ls", "/", **elsewhere), "")
        self.assertIn("was encrypted", self.refused("fs", "a", "ls", "/"))  # that was not done with this configuration

    def test_without_the_key_nothing_opens_it(self):
        self.make()
        os.rename(self.dir / "home/.config", self.dir / "config-elsewhere")
        before = self.file_of("a").read_bytes()
        for words in (("fs", "a", "ls", "/"), ("fs", "a", "write", "/x", "y"), ("kv", "a", "list"), ("info", "a"),
                      ("fsck", "a"), ("fsck", "a", "--repair"), ("backup", "a", "b.db"), ("fork", "a", "f"),
                      ("sql", "a", "SELECT 1"), ("migrate", "a"), ("checkpoint", "a", "list"), ("rekey", "a"),
                      ("vfs", "a", "read", "/state/x"), ("diff", "a"), ("audit", "a", "show")):
            says = self.refused(*words)
            self.assertIn("agent 'a' is encrypted, and there is no key for it", says, words)
            self.assertIn("warren key", says, words)
        self.assertEqual(self.file_of("a").read_bytes(), before)
        with self.assertRaises(sqlite3.DatabaseError):
            sqlite3.connect(self.file_of("a")).execute("SELECT * FROM fs_inode").fetchall()

    def test_a_wrong_key_is_refused_and_never_printed(self):
        self.make("a", "--key-env", "MY_KEY", MY_KEY=secrets.token_hex(32))
        wrong = secrets.token_hex(32)
        says = self.refused("fs", "a", "cat", f"/{NAME}", MY_KEY=wrong)
        self.assertIn("its key does not fit", says)
        self.assertNotIn(wrong, says)
        self.assertIn("the variable MY_KEY is not set", self.refused("fs", "a", "ls", "/"))
        short = self.refused("fs", "a", "ls", "/", MY_KEY="short")
        self.assertIn("neither a key nor a passphrase", short)
        self.assertNotIn("short", short)

    def test_every_source_of_a_key_works_and_the_key_itself_is_stored_only_if_it_was_made_here(self):
        raw = secrets.token_bytes(32)
        key_file = self.dir / "key"
        key_file.write_text(base64.b64encode(raw).decode() + "\n")
        key_file.chmod(0o600)
        self.make("file", "--key-file", str(key_file))
        self.make("command", "--key-command", f"cat '{key_file}'")
        self.make("variable", "--key-env", "MY_KEY", MY_KEY=raw.hex())
        self.make("words", "--key-env", "MY_KEY", MY_KEY="correct horse battery staple")
        self.assertEqual(self.read("file"), SECRET)
        self.assertEqual(self.read("command"), SECRET)
        self.assertEqual(self.read("variable", MY_KEY=raw.hex()), SECRET)
        self.assertEqual(self.read("variable", MY_KEY=raw.hex().upper()), SECRET)
        self.assertEqual(self.read("variable", MY_KEY=base64.b64encode(raw).decode()), SECRET)
        self.assertEqual(self.read("words", MY_KEY="correct horse battery staple"), SECRET)
        self.refused("fs", "words", "ls", "/", MY_KEY="correct horse battery stapler")
        for note in self.notes():
            self.assertNotIn(raw.hex(), note.read_text().lower())
            self.assertNotIn(base64.b64encode(raw).decode(), note.read_text())
            self.assertNotIn("horse", note.read_text())
            self.assertEqual(note.stat().st_mode & 0o777, 0o600)
        for agent in ("file", "command", "variable", "words"):
            content = self.file_of(agent).read_bytes()
            self.assertNotIn(raw, content)
            self.assert_nothing_readable(self.file_of(agent))

    def test_a_random_key_is_made_private_and_its_place_is_said(self):
        said = self.warren("init", "a", "--encrypt")
        note, = self.notes()
        self.assertIn(str(note), said)
        key = json.loads(note.read_text())["key"]
        self.assertRegex(key, "^[0-9a-f]{64}$")
        self.assertNotIn(key, said)
        self.assertNotIn(key, self.warren("key", "a"))
        self.assertIn(str(note), self.warren("key", "a"))
        note.chmod(0o644)
        says = self.refused("fs", "a", "ls", "/")
        self.assertIn("can be read by others", says)
        self.assertNotIn(key, says)

    def test_a_file_from_elsewhere_gets_its_key_by_a_note_or_a_variable(self):
        raw = secrets.token_hex(32)
        self.make("a", "--key-env", "MY_KEY", MY_KEY=raw)
        shutil.rmtree(self.dir / "home/.config")
        self.assertEqual(self.read(WARREN_KEY=raw), SECRET)
        key_file = self.dir / "key"
        key_file.write_text(raw)
        self.assertEqual(self.read(WARREN_KEY_COMMAND=f"cat {key_file}"), SECRET)
        self.assertIn("can be read by others", self.refused("fs", "a", "ls", "/", WARREN_KEY_FILE=str(key_file)))
        self.assertIn("can be read by others", self.refused("key", "a", "--key-file", str(key_file)))
        key_file.chmod(0o600)
        self.assertEqual(self.read(WARREN_KEY_FILE=str(key_file)), SECRET)
        other = self.dir / "other"
        other.write_text(secrets.token_hex(32))
        other.chmod(0o600)
        self.assertIn("its key does not fit", self.refused("key", "a", "--key-file", str(other)))
        self.assertEqual(self.notes(), [])
        self.warren("key", "a", "--key-file", str(key_file))
        self.assertEqual(self.read(), SECRET)
        self.assertEqual(self.read(WARREN_KEY=secrets.token_hex(32)), SECRET)  # the note is about this agent
        self.assertIn(str(key_file), self.warren("key", "a"))

    def test_plain_agents_are_ordinary_sqlite_files_and_need_no_key(self):
        self.warren("init", "p")
        self.warren("fs", "p", "write", f"/{NAME}", SECRET, WARREN_KEY=secrets.token_hex(32))
        self.assertEqual(self.read("p"), SECRET)
        content = self.file_of("p").read_bytes()
        self.assertTrue(content.startswith(b"SQLite format 3\0"))
        self.assertEqual(content[20], 0)
        with sqlite3.connect(self.file_of("p")) as plain:
            self.assertEqual(plain.execute("SELECT name FROM fs_dentry").fetchall(), [(NAME,)])
            self.assertEqual(plain.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        plain.close()
        self.assertIn("not encrypted", self.warren("key", "p"))
        self.assertIn("agent 'p' is not encrypted", self.refused("key", "p", "--key-env", "HOME"))
        self.assertIn("agent 'p' is not encrypted", self.refused("rekey", "p"))
        self.assertIn("agent 'p' is not encrypted", self.refused("decrypt", "p"))
        self.assertFalse(json.loads(self.warren("info", "p", "--json"))["encrypted"])

    def test_mistakes_with_options_are_named(self):
        self.assertIn("add --encrypt", self.refused("init", "a", "--key-env", "K"))
        self.assertIn("several sources of a key were given", self.refused("init", "a", "--encrypt", "--key-env", "K", "--key-command", "true"))
        self.assertIn("not the key", self.refused("init", "a", "--encrypt", "--key-env", "K=value"))
        self.assertIn("K is not set", self.refused("init", "a", "--encrypt", "--key-env", "K"))
        self.assertIn("status 3", self.refused("init", "a", "--encrypt", "--key-command", "echo hush; exit 3"))
        self.assertFalse(self.file_of("a").exists())
        self.assertEqual(self.notes(), [])

    # Damage.

    def test_a_changed_byte_in_any_page_is_found(self):
        self.make()
        self.warren("fs", "a", "write", "/more", "x" * 20_000)
        sound = self.file_of("a").read_bytes()
        pages = len(sound) // 4096
        for page in range(pages):
            at = page * 4096 + 30 + (page * 997) % 4000
            self.file_of("a").write_bytes(sound[:at] + bytes([sound[at] ^ 0x80]) + sound[at + 1:])
            done = self.run_program("fsck", "a")
            self.assertNotEqual(done.returncode, 0, f"page {page + 1}: {done.stdout}")
        self.file_of("a").write_bytes(sound)
        self.assertIn("clean", self.warren("fsck", "a"))

    # Rekey.

    def test_rekey_changes_the_key_and_old_backups_keep_theirs(self):
        self.make()
        self.warren("backup", "a", "old.db")
        first, = self.notes()
        self.warren("rekey", "a")
        self.assertEqual(len(self.notes()), 2)
        self.assertEqual(self.read(), SECRET)
        self.warren("restore", "r", "old.db")
        self.assertEqual(self.read("r"), SECRET)
        raw = secrets.token_hex(32)
        self.warren("rekey", "a", "--key-env", "MY_KEY", MY_KEY=raw)
        self.assertEqual(self.read(MY_KEY=raw), SECRET)
        self.refused("fs", "a", "ls", "/")
        first.unlink()
        self.refused("fs", "r", "ls", "/")
        self.assertEqual(self.read(MY_KEY=raw), SECRET)
        self.assertIn("clean", self.warren("fsck", "a", MY_KEY=raw))

    def test_an_agent_is_encrypted_and_made_ordinary_again(self):
        base = self.work / "base"
        base.mkdir()
        self.warren("init", "a", "--audit", "--base", str(base))
        self.warren("fs", "a", "write", f"/{NAME}", SECRET)
        self.warren("kv", "a", "set", "k", json.dumps(SECRET))
        self.warren("checkpoint", "a", "take", "one")
        self.warren("fs", "a", "write", f"/{NAME}", "later")
        key = secrets.token_hex(32)
        self.file_of("a").chmod(0o600)
        self.warren("encrypt", "a", "--key-env", "MY_KEY", MY_KEY=key)
        self.assert_nothing_readable(self.file_of("a"))
        self.assertEqual(self.warren("fs", "a", "cat", f"/{NAME}", MY_KEY=key), "later")
        self.assertEqual(self.warren("fs", "a", "cat", f"/{NAME}@one", MY_KEY=key), SECRET)
        self.assertIn(SECRET, self.warren("kv", "a", "get", "k", MY_KEY=key))
        self.assertIn("intact", self.warren("audit", "a", "verify", MY_KEY=key))
        self.assertIn("encrypted already", self.refused("encrypt", "a", MY_KEY=key))
        self.warren("apply", "a", "--yes", MY_KEY=key)  # the note about its base went with it: no question
        self.assertIn("MY_KEY is not set", self.refused("decrypt", "a"))
        self.warren("decrypt", "a", MY_KEY=key)
        self.assertEqual(self.warren("fs", "a", "cat", f"/{NAME}@one"), SECRET)
        self.assertIn("clean", self.warren("fsck", "a"))
        self.assertIn("intact", self.warren("audit", "a", "verify"))
        with sqlite3.connect(self.file_of("a")) as plain:
            self.assertEqual(plain.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        plain.close()
        self.assertEqual([file.name for file in self.file_of("a").parent.iterdir()], ["a.db"])
        self.assertEqual(self.file_of("a").stat().st_mode & 0o777, 0o600)

    def test_a_rekey_that_is_killed_leaves_the_agent_with_its_old_or_its_new_key(self):
        self.make()
        self.warren("fs", "a", "write", "/big", SECRET * 4000)
        started = time.monotonic()
        self.warren("rekey", "a")
        whole = time.monotonic() - started
        outcomes = set()
        for nth in range(20):
            salt = self.file_of("a").read_bytes()[:16]
            process = subprocess.Popen([WARREN, "rekey", "a"], cwd=self.work, env=self.environment,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(whole * 1.2 * nth / 20)
            process.kill()
            process.wait()
            outcomes.add(salt == self.file_of("a").read_bytes()[:16])
            self.assertEqual(self.read(), SECRET)
            self.assertEqual(self.warren("fs", "a", "cat", "/big"), SECRET * 4000)
        self.assertIn("clean", self.warren("fsck", "a"))
        self.assertIn(True, outcomes)
        for file in self.file_of("a").parent.iterdir():
            if not file.name.endswith("-shm"):
                self.assertNotIn(SECRET.encode(), file.read_bytes(), file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
