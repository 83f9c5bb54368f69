#!/usr/bin/env python3
"""Files encrypted by patterns of their paths, through the program: what is hidden, from whom, and what is noticed."""
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from encrypt_case import OPEN, SECRET, WARREN, EncryptCase  # noqa: E402

needs_fuse = unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")


class EncryptPatternTest(EncryptCase):
    def assert_hidden_everywhere(self):
        for file in self.dir.rglob("*"):
            if file.is_file():
                self.assertNotIn(SECRET.encode(), file.read_bytes(), file)

    def make(self, agent="a", *options, **changed):
        self.warren("init", agent)
        self.warren("encrypt", agent, "/secrets", "**/*.key", *options, **changed)
        self.warren("fs", agent, "write", "/secrets/plan.txt", SECRET, **changed)
        self.warren("fs", agent, "write", "/deep/er/my.key", SECRET, **changed)
        self.warren("fs", agent, "write", "/open.txt", OPEN, **changed)

    # What is encrypted.

    def test_matching_files_are_hidden_and_others_are_ordinary(self):
        self.make()
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt"), SECRET)
        self.assertEqual(self.warren("fs", "a", "cat", "/deep/er/my.key"), SECRET)
        self.assert_hidden_everywhere()
        stored = self.ask("a", "SELECT CAST(data AS TEXT) FROM fs_data d JOIN fs_dentry e ON e.ino = d.ino WHERE name = 'open.txt'")
        self.assertEqual(stored, [(OPEN,)])
        sizes = self.ask("a", "SELECT length(data), size FROM fs_data d JOIN fs_inode i ON i.ino = d.ino")
        self.assertTrue(all(length == size for length, size in sizes))
        shown = self.warren("key", "a")
        self.assertIn("'/secrets'", shown)
        self.assertIn("'**/*.key'", shown)
        self.assertIn("clean", self.warren("fsck", "a"))
        self.assertFalse(json.loads(self.warren("key", "a", "--json"))["encrypted"])

    def test_files_that_exist_are_encrypted_and_leave_nothing_behind(self):
        self.warren("init", "a")
        for number in range(30):
            self.warren("fs", "a", "write", f"/secrets/{number}.txt", f"{number} {SECRET} " * 300)
        self.warren("fs", "a", "write", "/secrets/gone.txt", SECRET * 1000)
        self.warren("fs", "a", "rm", "/secrets/gone.txt")
        self.assertIn("/secrets/7.txt", self.warren("context", "a", "search", "launch", "--limit", "100"))
        said = self.warren("encrypt", "a", "/secrets")
        self.assertIn("encrypted 30 files", said)
        self.assertIn(str(self.notes()[0]), said)
        self.assert_hidden_everywhere()
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/7.txt"), f"7 {SECRET} " * 300)
        self.assertNotIn("secrets", self.warren("context", "a", "search", "launch"))
        self.assert_hidden_everywhere()
        self.assertIn("encrypted 0 files", self.warren("encrypt", "a", "/secrets"))
        self.assertIn("have a key already", self.refused("encrypt", "a", "/secrets", "--key-env", "X", X="x" * 20))

    def test_a_search_index_has_no_text_of_encrypted_files_unless_it_is_encrypted_itself(self):
        self.make()
        self.warren("fs", "a", "write", "/words.txt", "launch pad")
        found = self.warren("context", "a", "search", "launch")
        self.assertIn("/words.txt", found)
        self.assertNotIn("plan.txt", found)
        self.assert_hidden_everywhere()
        self.warren("encrypt", "a")
        self.assertIn("plan.txt", self.warren("context", "a", "search", "launch"))
        self.assert_hidden_everywhere()
        self.warren("decrypt", "a")
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt"), SECRET)
        self.assert_hidden(self.file_of("a"))

    def test_semantic_memory_has_no_text_of_encrypted_items(self):
        self.warren("init", "a")
        self.warren("encrypt", "a", "/mem/semantic/hidden")
        for folder, text in (("hidden", SECRET), ("open", OPEN)):
            item = json.dumps({"text": text, "embedding": [1, 0, 0]})
            self.warren("vfs", "a", "write", f"/mem/semantic/{folder}/x.json", item)
        (self.work / "query").write_text("[1, 0, 0]")
        self.assertIn(OPEN, self.warren("vfs", "a", "query", "--embedding", "query", "--json"))
        self.assertIn("/mem/semantic/hidden/x.json: the file is encrypted", self.refused("vfs", "a", "query", "--check"))
        self.assertIn(SECRET, self.warren("vfs", "a", "read", "/mem/semantic/hidden/x.json"))
        self.assert_hidden_everywhere()

    def test_backup_fork_checkpoints_and_push_keep_files_hidden_and_readable(self):
        self.make()
        self.warren("checkpoint", "a", "take", "one")
        self.warren("fs", "a", "write", "/secrets/plan.txt", "something else")
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt@one"), SECRET)
        self.assertIn("plan.txt", self.warren("checkpoint", "a", "diff", "one"))
        self.warren("backup", "a", "copy.db")
        self.warren("restore", "r", "copy.db")
        self.warren("fork", "a", "f", "--at", "one")
        self.warren("checkpoint", "r", "restore", "one")
        self.warren("checkpoint", "a", "push", "sqlite:vault.db")
        self.warren("checkpoint", "pulled", "pull", "sqlite:vault.db", "--from", "a")
        for agent in ("r", "f"):
            self.assertEqual(self.warren("fs", agent, "cat", "/secrets/plan.txt"), SECRET)
            self.assertIn("clean", self.warren("fsck", agent))
        self.assertEqual(self.warren("fs", "pulled", "cat", "/secrets/plan.txt@one"), SECRET)
        self.warren("checkpoint", "a", "restore", "one", "/secrets/plan.txt")
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt"), SECRET)
        self.assert_hidden_everywhere()
        self.assertEqual(len(self.notes()), 1)

    def test_an_agent_with_a_base_encrypts_its_copies(self):
        base = self.work / "base"
        (base / "secrets").mkdir(parents=True)
        (base / "secrets/from-base.txt").write_text("first line\n")
        self.warren("init", "a", "--base", str(base))
        self.warren("encrypt", "a", "/secrets")
        self.warren("fs", "a", "write", "/secrets/new.txt", SECRET)
        self.warren("exec", "a", "sh", "-c", f"echo '{SECRET}' >> secrets/from-base.txt")
        self.assert_hidden_everywhere()
        self.assertNotIn(b"first line", self.file_of("a").read_bytes())
        patch = self.warren("diff", "a", "--patch")
        self.assertIn(f"+{SECRET}", patch)
        self.refused("diff", "a", "--patch", **self.no_key())
        elsewhere = self.work / "elsewhere/secrets"
        elsewhere.mkdir(parents=True)
        (elsewhere / "new.txt").write_text("mine")
        self.assertIn("nothing was written", self.refused("apply", "a", "--to", str(elsewhere.parent), **self.no_key()))
        self.assertEqual((elsewhere / "new.txt").read_text(), "mine")
        self.warren("apply", "a", "--yes")
        self.assertEqual((base / "secrets/from-base.txt").read_text(), f"first line\n{SECRET}\n")
        self.assertEqual((base / "secrets/new.txt").read_text(), SECRET)

    # Without the key.

    def test_without_the_key_files_can_be_listed_moved_and_removed_only(self):
        self.make()
        self.assertIn("plan.txt", self.warren("fs", "a", "ls", "/secrets", **self.no_key()))
        says = self.refused("fs", "a", "cat", "/secrets/plan.txt", **self.no_key())
        self.assertIn("/secrets/plan.txt", says)
        self.assertIn("encrypted with key", says)
        self.assertIn("warren key", says)
        self.assertIn("encrypted with key", self.refused("fs", "a", "write", "/secrets/plan.txt", "x", **self.no_key()))
        self.assertIn("encrypted with key", self.refused("fs", "a", "write", "/secrets/new.txt", "x", **self.no_key()))
        self.assertIn("encrypted with key", self.refused("decrypt", "a", "/secrets", **self.no_key()))
        self.assertIn("'/secrets'", self.warren("key", "a"))  # the pattern stays
        self.assertEqual(self.warren("fs", "a", "cat", "/open.txt", **self.no_key()), OPEN)
        self.warren("fs", "a", "write", "/open.txt", "changed", **self.no_key())
        self.warren("fs", "a", "mv", "/secrets/plan.txt", "/moved.txt", **self.no_key())
        self.assertEqual(self.warren("fs", "a", "cat", "/moved.txt"), SECRET)
        self.warren("fs", "a", "rm", "/moved.txt", **self.no_key())
        self.assertIn("were not checked", self.warren("fsck", "a", **self.no_key()))
        self.assertIn("clean", self.warren("fsck", "a"))

    def test_every_source_of_a_key_works_and_a_wrong_one_is_refused(self):
        key = secrets.token_hex(32)
        self.make("a", "--key-env", "MY_KEY", MY_KEY=key)
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt", MY_KEY=key), SECRET)
        says = self.refused("fs", "a", "cat", "/secrets/plan.txt", MY_KEY=secrets.token_hex(32))
        self.assertIn("the key that was found is another", says)
        self.assertIn("the variable MY_KEY is not set", self.refused("fs", "a", "cat", "/secrets/plan.txt"))
        file = self.dir / "key"
        file.write_text(key)
        file.chmod(0o600)
        other = self.no_key()
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt", WARREN_KEY_FILE=str(file), **other), SECRET)
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt", WARREN_KEY_COMMAND=f"cat '{file}'", **other), SECRET)
        self.warren("key", "a", "--key-file", str(file), **other)
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt", **other), SECRET)
        file.write_text(secrets.token_hex(32))
        self.assertIn("no file of agent 'a' is encrypted with", self.refused("key", "a", "--key-file", str(file)))
        for note in (self.dir).rglob("*.json"):
            self.assertNotIn(key, note.read_text())
        self.assertNotIn(bytes.fromhex(key), self.file_of("a").read_bytes())

    def test_all_keys_of_one_source_are_noted(self):
        self.warren("init", "a")
        file = self.key_file()
        for path in ("/x", "/y"):
            self.warren("encrypt", "a", path, "--key-file", file)
            self.warren("fs", "a", "write", f"{path}/file", SECRET)
        self.assertIn("encrypted with key", self.refused("fs", "a", "cat", "/y/file", **self.no_key()))
        self.warren("key", "a", "--key-file", file, **self.no_key())
        for path in ("/x", "/y"):
            self.assertEqual(self.warren("fs", "a", "cat", f"{path}/file", **self.no_key()), SECRET)

    @unittest.skipUnless(os.path.ismount("/dev/shm"), "there is no /dev/shm")
    def test_an_editor_gets_encrypted_files_in_memory_only(self):
        self.make()
        where = self.work / "where"
        editor = {"VISUAL": f"f() {{ echo \"$1\" > '{where}'; echo more >> \"$1\"; }}; f", "XDG_RUNTIME_DIR": "/nowhere"}
        for path in ("/secrets/plan.txt", "/secrets/new.txt"):
            self.warren("fs", "a", "edit", path, **editor)
            self.assertTrue(where.read_text().startswith("/dev/shm/warren-secret-"), where.read_text())
            self.assertFalse(os.path.exists(where.read_text().strip()))
            self.assertTrue(self.warren("fs", "a", "cat", path).endswith("more\n"))
        self.warren("fs", "a", "edit", "/open.txt", **editor)
        self.assertFalse(where.read_text().startswith("/dev/shm/"))

    # What strangers do.

    def test_changed_swapped_and_older_chunks_are_found(self):
        self.warren("init", "a")
        self.warren("encrypt", "a", "/s")
        for name in ("one", "two"):
            (self.work / name).write_bytes(os.urandom(40_000))
            self.warren("fs", "a", "put", name, f"/s/{name}")
        self.warren("fs", "a", "write", "/s/good", SECRET)
        one, two = (self.ask("a", f"SELECT ino FROM fs_dentry WHERE name = '{name}'")[0][0] for name in ("one", "two"))
        self.sql("a", "CREATE TABLE old_data AS SELECT * FROM fs_data", "CREATE TABLE old_seal AS SELECT * FROM wr_cipher_chunk")
        self.warren("exec", "a", "sh", "-c", "printf changed | dd of=s/one bs=1 seek=9000 conv=notrunc status=none")
        good = self.file_of("a").read_bytes()
        here = f"WHERE ino = {one} AND chunk_index = 2"
        forgeries = {
            "a flipped byte": [f"UPDATE fs_data SET data = CAST(x'00' || substr(data, 2) AS BLOB) {here}"],
            "a chunk of another file": [
                f"UPDATE fs_data SET data = (SELECT data FROM fs_data WHERE ino = {two} AND chunk_index = 2) {here}",
                f"UPDATE wr_cipher_chunk SET (nonce, tag) = (SELECT nonce, tag FROM wr_cipher_chunk WHERE ino = {two}"
                f" AND chunk_index = 2) {here}"],
            "a chunk of another place": [
                f"UPDATE fs_data SET data = (SELECT data FROM fs_data WHERE ino = {one} AND chunk_index = 3) {here}",
                f"UPDATE wr_cipher_chunk SET (nonce, tag) = (SELECT nonce, tag FROM wr_cipher_chunk WHERE ino = {one}"
                f" AND chunk_index = 3) {here}"],
            "an older chunk": [f"UPDATE fs_data SET data = (SELECT data FROM old_data {here}) {here}",
                               f"UPDATE wr_cipher_chunk SET (nonce, tag) = (SELECT nonce, tag FROM old_seal {here}) {here}"],
            "a plain chunk": [f"UPDATE fs_data SET data = CAST(printf('%04096d', 7) AS BLOB) {here}"],
            "a plain file of an AgentFS program": [
                f"DELETE FROM fs_data WHERE ino = {one}", f"INSERT INTO fs_data VALUES ({one}, 0, CAST('plain' AS BLOB))",
                f"UPDATE fs_inode SET size = 5 WHERE ino = {one}"],
        }
        for name, statements in forgeries.items():
            with self.subTest(name):
                self.file_of("a").write_bytes(good)
                for companion in ("-wal", "-shm"):
                    pathlib.Path(f"{self.file_of('a')}{companion}").unlink(missing_ok=True)
                self.sql("a", *statements)
                says = self.refused("fs", "a", "cat", "/s/one")
                self.assertIn("changed without its key", says)
                self.assertIn("/s/one", says)
                self.assertRegex(self.refused("fsck", "a"), "WR-8[234]")
                self.assertEqual(len(self.run_program("fs", "a", "ls", "/s").stdout.splitlines()), 3)
                self.warren("restore", "copy", str(self.file_of("a")), "--force")  # one bad file does not cost the others
                self.assertEqual(self.warren("fs", "copy", "cat", "/s/good"), SECRET)
                self.warren("fs", "a", "rm", "/s/one")
                self.assertIn("clean", self.warren("fsck", "a"))

    # Keys that change; interruptions.

    def kill_after(self, log_bytes, *words):
        """Starts a command and kills it once its log has so many bytes. Returns whether it was still running."""
        log = pathlib.Path(f"{self.file_of('a')}-wal")
        process = subprocess.Popen([WARREN, *words], cwd=self.work, env=self.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        while process.poll() is None:
            try:
                if log.stat().st_size >= log_bytes:
                    process.send_signal(signal.SIGKILL)
                    break
            except FileNotFoundError:
                pass
        return process.wait() == -signal.SIGKILL

    def test_a_killed_encrypt_and_rekey_go_on(self):
        self.warren("init", "a")
        tree = self.work / "tree"
        tree.mkdir()
        for number in range(300):
            (tree / str(number)).write_bytes(f"{number} {SECRET}".encode() * 200)
        self.warren("fs", "a", "put", "tree", "/secrets")
        killed = [self.kill_after(size, "encrypt", "a", "/secrets") for size in (10_000, 400_000, 1_500_000)]
        self.assertTrue(all(killed), killed)
        left = self.ask("a", "SELECT 300 - count(*) FROM wr_cipher_file")[0][0]
        self.assertTrue(0 < left < 300, left)
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/299"), f"299 {SECRET}" * 200)
        self.warren("encrypt", "a", "/secrets")
        self.assertEqual(self.ask("a", "SELECT count(*) FROM wr_cipher_file"), [(300,)])
        self.assertEqual(len(self.notes()), 1)
        self.assert_hidden(self.file_of("a"))
        self.assertIn("clean", self.warren("fsck", "a"))
        killed = [self.kill_after(size, "rekey", "a", "/secrets") for size in (10_000, 1_000_000)]
        self.assertTrue(all(killed), killed)
        self.assertEqual(len(self.ask("a", "SELECT DISTINCT key_id FROM wr_cipher_file")), 2)
        file = self.key_file()
        self.assertIn("is not finished", self.refused("rekey", "a", "/secrets", "--key-file", file))
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/7"), f"7 {SECRET}" * 200)
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/298"), f"298 {SECRET}" * 200)
        self.warren("rekey", "a", "/secrets")
        self.assertEqual(len(self.ask("a", "SELECT DISTINCT key_id FROM wr_cipher_file")), 1)
        self.assertIn("clean", self.warren("fsck", "a"))
        self.warren("fs", "a", "get", "/secrets", "back")
        for number in range(300):
            self.assertEqual((self.work / "back" / str(number)).read_bytes(), (tree / str(number)).read_bytes())

    def test_a_killed_compaction_leaves_the_agent_as_it_was(self):
        self.warren("init", "a")
        (self.work / "large").write_bytes(os.urandom(30_000_000))
        self.warren("fs", "a", "put", "large", "/large")
        self.warren("fs", "a", "write", "/secrets/x", SECRET)
        known = set(self.file_of("a").parent.iterdir())
        process = subprocess.Popen([WARREN, "encrypt", "a", "/secrets"], cwd=self.work, env=self.environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        while process.poll() is None:
            new = [file for file in self.file_of("a").parent.iterdir() if file not in known]
            if any(".draft-" in file.name for file in new):
                process.send_signal(signal.SIGKILL)
                break
        self.assertEqual(process.wait(), -signal.SIGKILL)
        self.assertIn("clean", self.warren("fsck", "a"))
        self.warren("encrypt", "a", "/secrets")
        self.assert_hidden(self.file_of("a"))
        self.assertIn("clean", self.warren("fsck", "a"))
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/x"), SECRET)
        self.warren("fs", "a", "get", "/large", "back")
        self.assertEqual((self.work / "back").read_bytes(), (self.work / "large").read_bytes())
        self.assertEqual(set(self.file_of("a").parent.iterdir()), {self.file_of("a")})

    def test_a_damaged_file_does_not_stop_a_new_key(self):
        self.make()
        damaged = self.ask("a", "SELECT ino FROM fs_dentry WHERE name = 'my.key'")[0][0]
        self.sql("a", f"UPDATE fs_data SET data = zeroblob(length(data)) WHERE ino = {damaged}")
        self.assertIn("not changed", self.refused("rekey", "a", "/secrets"))
        self.assertIn("not changed", self.refused("rekey", "a", "/secrets", "--key-file", self.key_file()))
        keys = self.ask("a", "SELECT ino, key_id FROM wr_cipher_file ORDER BY ino")
        self.assertEqual({key for node, key in keys if node == damaged}, {1})
        self.assertEqual({key for node, key in keys if node != damaged}, {3})
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt"), SECRET)

    def test_after_a_rekey_the_old_key_reads_nothing_but_checkpoints(self):
        self.make()
        old, = self.notes()
        self.warren("checkpoint", "a", "take", "one")
        said = self.warren("rekey", "a", "/secrets")
        self.assertIn("encrypted 2 files", said)  # the other pattern shares the key
        self.assertIn("checkpoints need the old key", said)
        shown = json.loads(self.warren("key", "a", "--json"))["files"]
        self.assertEqual([one["replaced"] for one in shown], [True, False])
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt@one"), SECRET)
        old.rename(self.dir / "old-note")
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt"), SECRET)
        self.assertEqual(self.warren("fs", "a", "cat", "/deep/er/my.key"), SECRET)
        self.assertIn("encrypted with key", self.refused("fs", "a", "cat", "/secrets/plan.txt@one"))
        self.assertIn("no files are encrypted by the pattern '/other'", self.refused("rekey", "a", "/other"))

    def test_decrypt_makes_files_ordinary_again(self):
        self.make()
        self.assertIn("decrypted 1 file,", self.warren("decrypt", "a", "/secrets"))
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/plan.txt", **self.no_key()), SECRET)
        self.warren("fs", "a", "write", "/secrets/next.txt", "plain", **self.no_key())
        self.refused("fs", "a", "cat", "/deep/er/my.key", **self.no_key())
        self.assertIn("decrypted 1 file,", self.warren("decrypt", "a", "**/*.key"))
        self.assertEqual(self.warren("fs", "a", "cat", "/deep/er/my.key", **self.no_key()), SECRET)
        self.assertIn("no files are encrypted by", self.refused("decrypt", "a", "/nothing"))
        self.assertIn("clean", self.warren("fsck", "a"))
        self.assertIn("is not a valid pattern", self.refused("encrypt", "a", ""))

    # Mounts and runs.

    @needs_fuse
    def test_a_mount_reads_and_writes_and_a_second_process_sees_it(self):
        self.make()
        point = self.work / "m"
        point.mkdir()
        self.warren("mount", "a", str(point))
        try:
            self.assertEqual((point / "secrets/plan.txt").read_text(), SECRET)
            self.assertTrue(os.getxattr(point / "secrets/plan.txt", "user.warren.encrypted"))
            with self.assertRaises(OSError):
                os.getxattr(point / "open.txt", "user.warren.encrypted")
            with open(point / "secrets/big", "w") as file:
                file.write(f"{SECRET}\n" * 50_000)
                file.flush()
                os.fsync(file.fileno())
                log = pathlib.Path(f"{self.file_of('a')}-wal")
                self.assertGreater(log.stat().st_size, 100_000)
                self.assert_hidden(self.file_of("a"), log)
            self.assertEqual(self.warren("fs", "a", "cat", "/secrets/big").count(SECRET), 50_000)
            self.warren("fs", "a", "write", "/secrets/plan.txt", SECRET + " no more")
            self.assertEqual((point / "secrets/plan.txt").read_text(), SECRET + " no more")
            with open(point / "secrets/big", "r+b") as file:
                file.truncate(1_000_000)
                file.seek(4090)
                file.write(b"across")
            os.rename(point / "secrets/big", point / "big")
            self.assertEqual(len((point / "big").read_bytes()), 1_000_000)
            self.assertIn("open in another process", self.refused("encrypt", "a", "/more"))
            self.assertIn("open in another process", self.refused("rekey", "a", "/secrets"))
            self.assertIn("encrypted 0 files", self.refused("encrypt", "a", "/secrets"))
        finally:
            self.warren("umount", str(point))
        self.assertEqual(self.warren("fs", "a", "cat", "/big")[4090:4096], "across")
        self.assertIn("clean", self.warren("fsck", "a"))
        self.assert_hidden_everywhere()

    @needs_fuse
    def test_a_mount_without_the_key_shows_names_and_refuses_content(self):
        self.make()
        point = self.work / "m"
        point.mkdir()
        self.warren("mount", "a", str(point), **self.no_key())
        try:
            self.assertEqual((point / "secrets/plan.txt").stat().st_size, len(SECRET))
            with self.assertRaises(PermissionError):
                (point / "secrets/plan.txt").read_text()
            with self.assertRaises(PermissionError):
                (point / "secrets/plan.txt").write_text("x")
            with self.assertRaises(PermissionError):
                (point / "secrets/new.txt").write_text("x")
            self.assertEqual((point / "open.txt").read_text(), OPEN)
            os.rename(point / "secrets/plan.txt", point / "plan")
            (point / "deep/er/my.key").unlink()
        finally:
            self.warren("umount", str(point))
        self.assertEqual(self.warren("fs", "a", "cat", "/plan"), SECRET)

    @needs_fuse
    def test_a_killed_writer_leaves_files_that_are_whole(self):
        self.make()
        command = "cat secrets/plan.txt secrets/plan.txt > secrets/twice && sync secrets/twice && echo written && sleep 100"
        writer = subprocess.Popen([WARREN, "exec", "a", "sh", "-c", command], cwd=self.work, env=self.environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.assertEqual(writer.stdout.readline(), "written\n")
        os.killpg(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        self.assert_hidden(self.file_of("a"), pathlib.Path(f"{self.file_of('a')}-wal"))
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/twice"), SECRET * 2)
        self.assertIn("clean", self.warren("fsck", "a"))

    @needs_fuse
    def test_a_run_works_on_encrypted_files_and_gets_no_key(self):
        self.warren("run", "--session", "s", "--keep", "--", "true")
        self.warren("encrypt", "s", "/secrets")
        command = f"mkdir -p secrets && echo '{SECRET}' > secrets/x && cat secrets/x && env"
        shown = self.warren("run", "--session", "s", "--keep", "--", "sh", "-c", command)
        self.assertIn(SECRET, shown)
        self.assertNotIn(json.loads(self.notes()[0].read_text())["key"], shown)
        files = [file for file in (self.dir / "home/.agentfs/run/s").rglob("*.db*") if file.is_file()]
        self.assertTrue(files)
        self.assert_hidden(*files)
        self.assertIn(SECRET, self.warren("diff", "s", "--patch"))

    def test_the_audit_trail_names_the_patterns(self):
        self.warren("init", "--audit", "a")
        self.warren("encrypt", "a", "/secrets", "**/*.key")
        self.warren("rekey", "a", "/secrets")
        self.warren("decrypt", "a", "**/*.key")
        events = [json.loads(line) for line in self.warren("audit", "a", "export").splitlines()]
        changes = [(event["op"], event["path"]) for event in events if event["op"] in ("encrypt", "rekey", "decrypt")]
        self.assertEqual(changes, [("encrypt", "/secrets"), ("encrypt", "**/*.key"), ("rekey", "/secrets"),
                                   ("decrypt", "**/*.key")])
        self.assertIn("intact", self.warren("audit", "a", "verify"))

    @needs_fuse
    def test_a_merge_does_not_write_encrypted_files_in_the_clear(self):
        for session in ("one", "two"):
            self.warren("run", "--session", session, "--keep", "--", "touch", f"from-{session}")
        self.warren("encrypt", "two", "/secrets")
        self.warren("run", "--session", "two", "--keep", "--", "sh", "-c", f"mkdir secrets; echo '{SECRET}' > secrets/x")
        self.assertIn("is encrypted, and its copy", self.refused("merge", "one", "two"))
        self.warren("encrypt", "one", "/secrets")
        self.warren("merge", "one", "two", "--into", "both")
        self.assertEqual(self.warren("fs", "both", "cat", "/secrets/x"), SECRET + "\n")
        self.assert_hidden(*[file for file in (self.dir / "home/.agentfs/run").rglob("*.db*") if file.is_file()])


if __name__ == "__main__":
    unittest.main()
