#!/usr/bin/env python3
"""Files encrypted by patterns: which pattern and key a file has, also after a restore, and what commands say of it."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from encrypt_case import OPEN, SECRET, WARREN, EncryptCase  # noqa: E402

KEY_OF = "SELECT c.key_id FROM wr_cipher_file c JOIN fs_dentry d ON d.ino = c.ino WHERE d.name = '{}'"
needs_memory = unittest.skipUnless(os.path.ismount("/dev/shm"), "there is no /dev/shm")


class EncryptRulesTest(EncryptCase):
    def make(self):
        self.warren("init", "a")
        self.warren("fs", "a", "write", "/secrets/x", SECRET)
        self.warren("fs", "a", "write", "/open.txt", OPEN)

    def key_of(self, name, agent="a"):
        found = self.ask(agent, KEY_OF.format(name))
        return found[0][0] if found else None

    def keys(self):
        return json.loads(self.warren("key", "a", "--json"))["files"]

    @contextlib.contextmanager
    def holder(self):
        """A process that has the agent open."""
        process = subprocess.Popen([WARREN, "serve", "mcp", "a"], cwd=self.work, env=self.environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stdout.close)
        try:
            process.stdin.write('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
                                '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n')
            process.stdin.flush()
            self.assertIn("result", process.stdout.readline())
            yield
        finally:
            process.stdin.close()
            process.wait(timeout=60)

    # After a restore.

    def test_a_restore_from_before_encrypt_encrypts_what_the_pattern_matches(self):
        self.make()
        self.warren("checkpoint", "a", "take", "plain")
        self.warren("encrypt", "a", "/secrets")
        self.warren("checkpoint", "a", "restore", "plain")
        self.assertEqual(self.key_of("x"), 1)
        self.assertIsNone(self.key_of("open.txt"))
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/x"), SECRET)
        self.warren("checkpoint", "a", "restore", "2")  # undo
        self.assertEqual(self.key_of("x"), 1)
        self.warren("fs", "a", "rm", "/secrets/x")
        self.warren("checkpoint", "a", "restore", "plain", "/secrets/x")
        self.assertEqual(self.key_of("x"), 1)
        self.warren("fork", "a", "b", "--at", "plain")
        self.assertEqual(self.key_of("x", "b"), 1)
        self.assertIn("clean", self.warren("fsck", "b"))

    def test_a_restore_without_the_key_says_what_is_not_encrypted_and_what_mends_it(self):
        self.make()
        self.warren("checkpoint", "a", "take", "plain")
        self.warren("encrypt", "a", "/secrets")
        said = self.refused("checkpoint", "a", "restore", "plain", **self.no_key())
        self.assertIn("everything was restored", said)
        self.assertIn("'/secrets/x'", said)
        self.assertIn("`warren encrypt ID PATTERN`", said)
        self.assertIsNone(self.key_of("x"))
        self.assertIn("'/secrets/x'", self.refused("fork", "a", "b", "--at", "plain", **self.no_key()))
        self.assertFalse(self.file_of("b").exists())
        self.assertIn("encrypted 1 file", self.warren("encrypt", "a", "/secrets"))
        self.assertEqual(self.key_of("x"), 1)

    def test_a_restore_from_before_a_rekey_leaves_nothing_with_the_old_key(self):
        self.make()
        self.warren("encrypt", "a", "/secrets")
        old, = self.notes()
        self.warren("checkpoint", "a", "take", "old")
        self.warren("rekey", "a", "/secrets")
        self.warren("checkpoint", "a", "restore", "old")
        self.assertEqual(self.key_of("x"), 2)
        self.assertEqual([(one["files"], one["checkpoints"]) for one in self.keys()], [(0, 1), (1, 1)])
        old.rename(self.dir / "old-note")
        self.assertEqual(self.warren("fs", "a", "cat", "/secrets/x"), SECRET)
        said = self.refused("checkpoint", "a", "restore", "old")
        self.assertIn("1 file is not encrypted as the patterns say: '/secrets/x': it is encrypted with key", said)
        shown = self.warren("key", "a")
        self.assertIn("encrypts no new files: 1 file, 1 checkpoint; it was replaced, and `warren rekey ID PATTERN`", shown)
        (self.dir / "old-note").rename(old)
        self.warren("rekey", "a", "/secrets")
        self.assertEqual(self.key_of("x"), 2)

    def test_a_backup_and_a_state_without_the_patterns_say_so(self):
        self.make()
        self.warren("backup", "a", "plain.db")
        self.warren("checkpoint", "a", "push", f"sqlite:{self.dir}/other.db")
        self.warren("encrypt", "a", "/secrets")
        self.warren("backup", "a", "encrypted.db")
        self.assertEqual(self.run_program("restore", "a", "encrypted.db", "--force").stderr, "")
        for words in (("restore", "a", "plain.db"), ("checkpoint", "a", "pull", f"sqlite:{self.dir}/other.db")):
            said = self.refused(*words, "--force")
            self.assertIn("does not have these patterns of encrypted files: '/secrets'", said)
            self.assertIn("`warren encrypt a '/secrets'`", said)
            self.assertEqual(self.warren("fs", "a", "cat", "/secrets/x"), SECRET)
            self.warren("encrypt", "a", "/secrets")

    def test_paths_that_are_restored_keep_or_get_the_present_key(self):
        self.make()
        self.warren("checkpoint", "a", "take", "plain")
        self.warren("encrypt", "a", "/secrets")
        self.warren("checkpoint", "a", "take", "old")
        self.warren("rekey", "a", "/secrets")
        for checkpoint in ("plain", "old"):
            self.warren("fs", "a", "write", "/secrets/x", "changed")
            self.warren("checkpoint", "a", "restore", checkpoint, "/secrets/x")
            self.assertEqual(self.key_of("x"), 2)
            self.warren("fs", "a", "rm", "/secrets/x")
            self.warren("checkpoint", "a", "restore", checkpoint, "/secrets")
            self.assertEqual(self.key_of("x"), 2)
            self.assertEqual(self.warren("fs", "a", "cat", "/secrets/x"), SECRET)
        self.assertIn("clean", self.warren("fsck", "a"))

    def test_a_path_that_was_encrypted_comes_back_encrypted_wherever_it_is(self):
        self.make()
        self.warren("encrypt", "a", "/secrets")
        self.warren("fs", "a", "mkdir", "/other")
        self.warren("fs", "a", "mv", "/secrets/x", "/other/moved")
        self.warren("fs", "a", "write", "/secrets/y", SECRET)
        self.warren("fs", "a", "ln", "/secrets/y", "/linked")
        self.warren("checkpoint", "a", "take", "moved")
        for name in ("/other/moved", "/linked", "/other"):
            self.warren("fs", "a", "rm", "-r", name)
            self.warren("checkpoint", "a", "restore", "moved", name)
        for name in ("moved", "linked"):
            self.assertEqual(self.key_of(name), 1, name)
        self.assertEqual(self.warren("fs", "a", "cat", "/other/moved"), SECRET)
        self.assertEqual(self.warren("fs", "a", "cat", "/linked"), SECRET)
        self.assert_hidden(self.file_of("a"))
        self.warren("rekey", "a", "/secrets")
        self.warren("fs", "a", "rm", "/other/moved")
        self.warren("checkpoint", "a", "restore", "moved", "/other/moved")
        self.assertEqual(self.key_of("moved"), 2)
        self.assert_hidden(self.file_of("a"))
        self.assertIn("clean", self.warren("fsck", "a"))

    def test_what_was_encrypted_comes_back_so_after_its_pattern_has_ended(self):
        self.make()
        self.warren("encrypt", "a", "/secrets")
        self.warren("checkpoint", "a", "take", "one")
        self.warren("fs", "a", "rm", "/secrets/x")
        self.warren("decrypt", "a", "/secrets")
        self.warren("checkpoint", "a", "restore", "one", "/secrets/x")
        self.assertEqual(self.key_of("x"), 1)
        self.assert_hidden(self.file_of("a"))
        self.warren("fs", "a", "rm", "/secrets/x")
        said = self.refused("checkpoint", "a", "restore", "one", "/secrets/x", **self.no_key())
        self.assertIn("it is encrypted with key", said)
        self.assertIn("no '/secrets/x'", self.refused("fs", "a", "cat", "/secrets/x"))

    # What is left of removed checkpoints.

    def test_nothing_plain_is_left_of_removed_checkpoints(self):
        for words in (("remove", "plain"), ("prune", "--keep", "0")):
            if self.file_of("a").exists():
                self.warren("delete", "a", "--yes")
            self.make()
            for number in range(40):
                self.warren("fs", "a", "write", f"/secrets/{number}", SECRET * (1 + 400 * (number % 2)))
            self.warren("checkpoint", "a", "take", "plain")
            self.assertIn("1 checkpoint may still have", self.warren("encrypt", "a", "/secrets"))
            self.warren("checkpoint", "a", "restore", "plain")
            self.assertIn(SECRET.encode(), self.file_of("a").read_bytes())
            done = self.run_program("checkpoint", "a", *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assert_hidden(self.file_of("a"))
            self.assertEqual(self.warren("fs", "a", "cat", "/secrets/0"), SECRET)

    def test_while_the_agent_is_open_removing_says_what_is_left_to_do(self):
        self.make()
        self.warren("checkpoint", "a", "take", "plain")
        self.warren("encrypt", "a", "/secrets")
        with self.holder():
            done = self.run_program("checkpoint", "a", "remove", "plain")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("may still have unencrypted content, since it is open", done.stderr)
        self.assertIn("run `warren encrypt ID PATTERN` again", done.stderr)
        self.warren("encrypt", "a", "/secrets")
        self.assert_hidden(self.file_of("a"))

    # Which pattern decides.

    def test_a_wildcard_that_matches_a_directory_means_what_is_in_it(self):
        self.make()
        self.warren("fs", "a", "write", "/deep/down/secrets/old", SECRET)
        self.assertIn("encrypted 2 files", self.warren("encrypt", "a", "/**/secrets"))
        self.warren("fs", "a", "write", "/other/secrets/below/new", SECRET)
        self.assertEqual([self.key_of(name) for name in ("x", "old", "new", "open.txt")], [1, 1, 1, None])
        self.assert_hidden(self.file_of("a"))
        self.assertIn("decrypted 3 files", self.warren("decrypt", "a", "/**/secrets"))

    def test_the_narrower_pattern_decides(self):
        self.warren("init", "a")
        self.warren("encrypt", "a", "/secrets", "--key-file", self.key_file("k1"))
        self.warren("fs", "a", "write", "/secrets/deep/old", SECRET)
        self.assertIn("encrypted 1 file", self.warren("encrypt", "a", "/secrets/deep", "--key-file", self.key_file("k2")))
        self.warren("fs", "a", "write", "/secrets/deep/new", SECRET)
        self.warren("fs", "a", "write", "/secrets/other", SECRET)
        self.assertEqual([self.key_of(name) for name in ("old", "new", "other")], [2, 2, 1])
        self.assertEqual([one["files"] for one in self.keys()], [1, 2])
        said = self.warren("decrypt", "a", "/secrets/deep")
        self.assertIn("decrypted 0 files", said)
        self.assertIn("2 files that match stay encrypted, since another pattern matches them (`warren key a` lists patterns)", said)
        self.assertEqual([self.key_of(name) for name in ("old", "new", "other")], [1, 1, 1])
        self.assertIn("no files are encrypted by the pattern", self.refused("decrypt", "a", "/secrets/other"))
        self.assertIn("decrypted 3 files", self.warren("decrypt", "a", "/secrets"))
        self.assertIn("clean", self.warren("fsck", "a"))

    def test_a_decryption_that_lacked_a_key_goes_on(self):
        self.warren("init", "a")
        wide = self.key_file("k1")
        self.warren("encrypt", "a", "/secrets", "--key-file", wide)
        self.warren("encrypt", "a", "/secrets/deep", "--key-file", self.key_file("k2"))
        self.warren("fs", "a", "write", "/secrets/deep/old", SECRET)
        os.rename(wide, wide + ".away")
        self.assertIn("not changed", self.refused("decrypt", "a", "/secrets/deep"))
        os.rename(wide + ".away", wide)
        self.assertIn("1 file that matches stays encrypted", self.warren("decrypt", "a", "/secrets/deep"))
        self.assertEqual(self.key_of("old"), 1)
        self.assertIn("no files are encrypted by the pattern", self.refused("decrypt", "a", "/secrets/deep"))

    def test_a_pattern_that_cannot_match_is_refused(self):
        self.make()
        for pattern, reason in (("/other/../secrets", "'.' and '..'"), ("/[", "not closed"), ("secrets", "begins neither"),
                                ("//secrets", "'//'"), ("/secrets/.", "'.' and '..'")):
            self.assertIn(reason, self.refused("encrypt", "a", pattern))
        self.assertEqual(self.notes(), [])
        self.assertIn("is not encrypted", self.warren("key", "a"))

    # What is said.

    def test_places_that_are_not_files_are_refused_or_named(self):
        self.warren("init", "a")
        for pattern, what in (("/mem/working/*", "working memory"), ("/state/checkpoints/*", "the list of checkpoints")):
            said = self.refused("encrypt", "a", pattern)
            self.assertIn(f"'{pattern}' matches no file of the agent", said)
            self.assertIn(what, said)
            self.assertIn("`warren encrypt ID` encrypts the whole agent", said)
        self.assertEqual(self.notes(), [])  # nothing was begun
        said = self.warren("encrypt", "a", "/mem", "/state")
        self.assertIn("not encrypted, since patterns are for files: /mem/working, /state/checkpoints; ", said)
        shown = json.loads(self.warren("encrypt", "a", "/secrets", "--json"))
        self.assertEqual(shown["left_out"], [])
        shown = json.loads(self.warren("encrypt", "a", "/mem", "--json"))
        self.assertEqual(shown["left_out"], [{"path": "/mem/working"}])

    def test_a_mount_that_a_pattern_seems_to_cover_is_named(self):
        self.warren("init", "a")
        mounts = self.dir / "home/.config/warren/mounts"
        mounts.mkdir(parents=True)
        (mounts / "a.toml").write_text('[[mount]]\npath = "/data"\nbackend = "memory:"\n')
        self.assertIn("/data", self.warren("vfs", "a", "mounts"))
        self.assertIn("not encrypted, since patterns are for files: /data; ", self.warren("encrypt", "a", "/data/*"))

    def test_a_whole_encrypted_agent_leaves_nothing_out(self):
        self.warren("init", "a", "--encrypt")
        self.assertNotIn("not encrypted", self.warren("encrypt", "a", "/mem"))
        self.assertIn("encrypted as a whole, and this with it", self.refused("encrypt", "a", "/mem/working"))
        self.warren("vfs", "a", "write", "/mem/working/plan", SECRET)
        self.warren("checkpoint", "a", "take", "one")
        for folder in (self.work, self.dir / "runtime"):
            for file in folder.rglob("*.db*"):
                self.assertNotIn(SECRET.encode(), file.read_bytes(), file)

    def test_a_project_may_have_directories_of_these_names(self):
        base = self.dir / "base"
        (base / "state/checkpoints").mkdir(parents=True)
        self.warren("init", "a", "--base", str(base))
        self.warren("encrypt", "a", "/state/checkpoints")
        self.warren("fs", "a", "write", "/state/checkpoints/weights", SECRET)
        self.assertNotIn(SECRET.encode(), self.file_of("a").read_bytes())

    def test_a_rekey_says_that_checkpoints_need_the_old_key_only_if_they_do(self):
        self.warren("init", "a")
        self.warren("encrypt", "a", "/secrets")
        self.warren("checkpoint", "a", "take", "empty")
        self.warren("fs", "a", "write", "/secrets/x", SECRET)
        self.assertNotIn("checkpoints need the old key", self.warren("rekey", "a", "/secrets"))
        self.warren("checkpoint", "a", "take", "full")
        self.assertIn("checkpoints need the old key", self.warren("rekey", "a", "/secrets"))

    def test_every_run_says_where_the_key_is(self):
        self.make()
        first = self.warren("encrypt", "a", "/secrets")
        second = self.warren("encrypt", "a", "/secrets")
        for said in (first, second, self.warren("encrypt", "a", "**/*.key")):
            self.assertIn(f"the key is in {self.notes()[0]}", said)
            self.assertIn("keep a copy of that file", said)

    def test_status_1_while_the_file_may_have_plain_content(self):
        self.make()
        self.warren("encrypt", "a", "/secrets")
        with self.holder():
            said = self.refused("encrypt", "a", "/secrets")
            self.assertIn("may still have unencrypted content, since it is open", said)
            self.assertFalse(json.loads(self.run_program("encrypt", "a", "/secrets", "--json").stdout)["compact"])
        self.warren("encrypt", "a", "/secrets")

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a small disk")
    def test_a_full_disk_ends_with_what_has_been_done(self):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", self.work], capture_output=True).returncode != 0:
            self.skipTest("mounts are not allowed here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.work], check=True)
        self.warren("init", "a")
        (self.work / "tree").mkdir()
        for number in range(300):
            (self.work / "tree" / str(number)).write_bytes(f"{number} {SECRET} ".encode() * 400)
        self.warren("fs", "a", "put", "tree", "/secrets")
        space = os.statvfs(self.work)
        (self.work / "filler").write_bytes(bytes(space.f_bavail * space.f_frsize - 1_500_000))
        said = self.refused("encrypt", "a", "/secrets")
        self.assertRegex(said, "before that, [1-9][0-9]* files were encrypted, and new ones are encrypted from now on")
        self.assertIn("free some space and run the same command again", said)
        self.assertNotIn("nothing was changed", said)
        (self.work / "filler").unlink()
        self.warren("encrypt", "a", "/secrets")
        self.assertEqual(self.ask("a", "SELECT count(*) FROM wr_cipher_file"), [(300,)])
        self.assert_hidden(self.file_of("a"))

    def test_a_dropped_table_is_noticed(self):
        self.make()
        self.warren("encrypt", "a", "/secrets")
        self.sql("a", "DROP TABLE wr_cipher_key")
        self.assertIn("wr_cipher_key is missing", self.refused("fs", "a", "cat", "/secrets/x"))
        self.assertIn("wr_cipher_key is missing", self.refused("fs", "a", "write", "/secrets/new", "x"))
        self.assertIn("WR-85", self.refused("fsck", "a"))

    def test_a_repair_says_that_the_patterns_are_lost(self):
        self.make()
        self.warren("encrypt", "a", "/secrets")
        self.sql("a", "DROP TABLE wr_cipher_pattern")
        said = self.refused("fsck", "a", "--repair")
        self.assertIn("the patterns of encrypted files are lost, and new files are not encrypted", said)
        self.assertIn("`warren encrypt a PATTERN` sets them again", said)
        self.warren("encrypt", "a", "/secrets")
        self.warren("fs", "a", "write", "/secrets/y", SECRET)
        self.assert_hidden(self.file_of("a"))

    # The editor's copy.

    def edit(self, path, script, **changed):
        editor = {"VISUAL": f"f() {{ {script}; }}; f", "XDG_RUNTIME_DIR": "/nowhere"}
        return self.run_program("fs", "a", "edit", path, **(editor | changed))

    def test_an_editor_that_leaves_no_regular_file_changes_nothing(self):
        self.make()
        for script in ('rm "$1"; mkfifo "$1"', 'rm "$1"; ln -s /etc/passwd "$1"', 'rm "$1"; mkdir "$1"'):
            done = self.edit("/open.txt", script, TMPDIR=str(self.dir))
            self.assertNotEqual(done.returncode, 0, script)
            self.assertIn("nothing was changed", done.stderr)
            self.assertEqual(self.warren("fs", "a", "cat", "/open.txt"), OPEN)

    @needs_memory
    def test_what_a_killed_edit_left_in_memory_goes_with_the_next_one(self):
        self.make()
        self.warren("encrypt", "a", "/secrets")
        place, go = self.dir / "place", self.dir / "go"
        os.mkfifo(place)
        os.mkfifo(go)
        command = {"VISUAL": f"f() {{ echo \"$1\" > '{place}'; read line < '{go}'; }}; f", "XDG_RUNTIME_DIR": "/nowhere"}
        process = subprocess.Popen([WARREN, "fs", "a", "edit", "/secrets/x"], cwd=self.work, stdin=subprocess.DEVNULL,
                                   env=self.environment | command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        copy = pathlib.Path(place.read_text().strip())
        self.assertEqual(copy.read_text(), SECRET)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(self.edit("/open.txt", "true").returncode, 0)
        self.assertTrue(copy.exists(), "the editor still has it")
        go.write_text("\n")
        process.stdout.read()  # until the editor has ended
        self.assertEqual(self.edit("/open.txt", "true").returncode, 0)
        self.assertFalse(copy.parent.exists())

    @needs_memory
    def test_what_could_not_be_stored_is_kept(self):
        self.make()
        self.warren("encrypt", "a", "/secrets")
        done = self.edit("/secrets/x", 'echo mine > "$1"; exit 3')
        self.assertIn("what you wrote is in '/dev/shm/warren-edit-", done.stderr)
        copy = pathlib.Path(done.stderr.split("what you wrote is in '")[1].split("'")[0])
        self.addCleanup(lambda: (copy.unlink(), copy.parent.rmdir()))
        self.assertEqual(self.edit("/secrets/x", "true").returncode, 0)
        self.assertEqual(copy.read_text(), "mine\n")


if __name__ == "__main__":
    unittest.main()
