#!/usr/bin/env python3
"""Sessions of `warren run`: what is kept, their checkpoints, and `warren sessions`.

    WARREN=path/to/warren sessions.py [-v] [AsRoot.test_name]

Needs root. What does not depend on who runs it is tried as root and as an ordinary user.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import commanding
import sandboxed
from sandboxed import wait_for


class Sessions(commanding.Commands):
    # Sessions.

    def test_a_session_is_kept_if_something_changed(self):
        self.ok("--", "true")
        self.assertEqual(self.world.sessions(), [])
        done = self.world.run("--", "sh", "-c", "echo x > f")
        (session,) = self.world.sessions()
        self.assertIn(f"session {session}: 1 added, 0 modified, 0 deleted (2 B)", done.stderr)
        for line in ("diff session:", "apply session:", "discard session:", "run --session "):
            self.assertIn(f"warren {line}{session}", done.stderr)
        self.ok("--keep", "--session", "kept", "--", "true")
        self.ok("--discard", "--session", "thrown", "--", "sh", "-c", "echo x > f")
        self.assertEqual(sorted(self.world.sessions()), sorted([session, "kept"]))

    def test_an_ended_session_is_one_file(self):
        self.ok("--session", "s", "--", "sh", "-c", "for i in 1 2 3 4 5; do echo $i > f$i; done")
        self.assertEqual(sorted(os.listdir(self.world.session_dir("s"))), ["base_path", "delta.db", "lock"])
        self.assertEqual(os.stat(self.world.session_dir("s")).st_mode & 0o777, 0o700)
        self.assertEqual((self.world.session_dir("s") / "base_path").read_text(), str(self.world.base))
        self.assertEqual(self.world.processes(), [])

    def test_a_session_is_resumed_on_its_own_base(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo one > f")
        script = ("--session", "s", "--", "sh", "-c", "pwd")
        self.assertEqual(self.ok(*script, cwd=self.world.base / "dir").splitlines()[0], str(self.world.base / "dir"))
        named = ("--base", self.world.base, "--session", "s", "--", "sh", "-c", "pwd; cat f")
        self.assertEqual(self.ok(*named, cwd="/"), f"{self.world.base}\none\n")
        self.fails("--session", "s", "--base", self.world.canary, "--", "true", says="the base of session 's' is")

    def test_a_session_of_another_project_is_refused(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo one > f")
        other = self.world.root / "other"
        other.mkdir()
        says = f"the base of session 's' is '{self.world.base}', but this command was started in '{other}'"
        self.fails("--session", "s", "--", "sh", "-c", "echo two > f", cwd=other, says=says)
        self.assertEqual(self.ok("--session", "s", "--", "cat", "f"), "one\n")
        running = self.world.start("run", "--session", "s", "--", "sh", "-c", "echo up; read line", stdin=subprocess.PIPE, text=True)
        self.assertEqual(running.stdout.readline().strip(), "up")
        self.fails("--session", "s", "--", "true", cwd=other, says=says)  # nor may it join
        running.communicate("\n", timeout=60)

    def test_every_command_finds_a_session_by_its_id(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo one > made")
        self.assertEqual(self.world.warren("fs", "s", "cat", "/made").stdout, "one\n")
        self.assertEqual(self.world.warren("fsck", "s").returncode, 0)

    def test_changes_are_shown_applied_and_discarded(self):
        world = self.world
        self.ok("--session", "s", "--", "sh", "-c", "echo new > made; echo more >> file; rm -r dir; mv made renamed")
        self.assertEqual(world.warren("diff", "s", cwd="/").stdout,
                         "D d /dir\nD f /dir/inner\nM f /file\nA f /renamed\n")
        done = world.warren("apply", "s", "/file", cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((world.base / "file").read_text(), "of the base\nmore\n")
        self.assertTrue((world.base / "dir").exists())
        self.assertFalse((world.base / "renamed").exists())
        self.before = sandboxed.checksum(world.base)
        self.assertEqual(world.warren("discard", "s").returncode, 1)  # not a terminal, so it cannot ask
        self.assertEqual(world.warren("diff", "s").stdout, "D d /dir\nD f /dir/inner\nA f /renamed\n")
        self.assertEqual(world.warren("discard", "s", "--yes", "/dir").returncode, 0)
        self.assertEqual(world.inside("s", "sh", "-c", "ls; cat dir/inner"), "dir\nfile\nrenamed\ninner\n")
        self.assertEqual(world.warren("discard", "s", "--yes", "--keep").returncode, 0)
        self.assertEqual(world.warren("diff", "s").stdout, "")

    def test_a_session_with_nothing_left_in_it_disappears(self):
        world = self.world
        for command in (("apply", "s"), ("discard", "s", "--yes")):
            self.ok("--session", "s", "--", "sh", "-c", f"echo more >> file; mkdir {command[0]}")
            done = world.warren(*command, f"/{command[0]}")
            self.assertEqual((done.returncode, world.sessions()), (0, ["s"]), done.stderr)
            done = world.warren(*command)
            self.assertIn("session 's' is deleted: nothing is left in it", done.stderr)
            self.assertEqual(world.sessions(), [])
        self.before = sandboxed.checksum(world.base)
        self.assertEqual(world.warren("undo", "s").returncode, 0, "what the apply replaced is kept all the same")
        self.assertEqual((world.base / "file").read_text(), "of the base\n")
        self.before = sandboxed.checksum(world.base)

    def test_an_empty_session_goes_with_a_discard_and_diff_says_so(self):
        world = self.world
        self.ok("--session", "s", "--keep", "--", "true")
        self.assertEqual(world.sessions(), ["s"])
        self.assertIn("nothing is left in the session 's': `warren apply session:s` deletes it", world.warren("diff", "s").stderr)
        self.assertEqual(world.warren("diff", "s", "--json").stderr, "")
        self.assertEqual(world.warren("discard", "s", "--keep").stdout, "nothing to discard\n")
        self.assertEqual(world.sessions(), ["s"])
        self.assertEqual(world.warren("discard", "s").stdout, "nothing to discard\n")
        self.assertEqual(world.sessions(), [])

    def test_a_session_with_more_than_changes_stays(self):
        world = self.world
        for what in (["kv", "s", "set", "key", "1"], ["vfs", "s", "write", "/mem/semantic/x", "kept"],
                     ["vfs", "s", "write", "/state/x", "kept"], ["checkpoint", "s", "take", "good"],
                     ["tools", "s", "record", "search", "--result", "[]", "--started", "1767225600", "--completed", "1767225602"],
                     ["audit", "s", "on"]):
            self.ok("--session", "s", "--", "sh", "-c", "echo x > made")
            self.assertEqual(world.warren(*what).returncode, 0, what)
            self.assertEqual(world.warren("discard", "s", "--yes").returncode, 0)
            self.assertEqual(world.sessions(), ["s"], what)
            self.assertEqual(world.warren("sessions", "prune", "--empty", "-n").stdout, "nothing to delete\n", what)
            self.assertEqual(world.warren("sessions", "delete", "s", "--yes").returncode, 0)

    def checkpoints(self):
        return [one["name"] for one in json.loads(self.world.warren("checkpoint", "s", "list", "--json").stdout)]

    def test_checkpoints_are_taken_at_intervals_and_a_run_goes_on_from_one(self):
        process, _ = self.begin("s", "echo one > f; echo up; read line", "--checkpoint", "every=1s")
        wait_for(lambda: self.world.warren("fs", "s", "cat", "/f@interval").stdout == "one\n", "the checkpoint")

        def is_at_rest():  # nothing has changed since
            before = self.checkpoints()
            time.sleep(3)
            return self.checkpoints() == before
        wait_for(is_at_rest, "the last of the checkpoints")
        process.communicate("\n", timeout=sandboxed.PATIENCE_SECONDS)
        taken = self.checkpoints()
        self.assertEqual(set(taken), {"interval"})
        self.ok("--session", "s", "--", "sh", "-c", "echo two > f; echo more > g; rm file; echo x > $WARREN_NAMESPACE/state/x")
        self.assertEqual(self.ok("--session", "s", "--at", "interval", "--", "sh", "-c", "cat f; ls; cat file"),
                         "one\ndir\nf\nfile\nof the base\n")
        self.assertEqual(self.checkpoints()[len(taken):], [f"before-restore-of-{len(taken)}"])

    def test_checkpoints_of_a_run_cover_its_working_memory_and_what_is_mounted(self):
        notes = f"/mem/notes=sqlite:{self.world.home}/notes.db"
        script = ("cd $WARREN_NAMESPACE/mem; echo one > working/plan; echo one > notes/day; echo up; read line; "
                  "echo two > working/plan; echo two > notes/day; echo done; read line")
        process, _ = self.begin("s", script, "--checkpoint", "every=1s", "--mount", notes)

        def listed():
            return json.loads(self.world.warren("checkpoint", "s", "list", "--json").stdout)

        def stored(one):
            shown = self.world.warren("checkpoint", "s", "show", str(one["id"]), "--json").stdout
            return json.loads(shown)["stored"]["mounted_values"]

        os.kill(self.world.server("s"), signal.SIGUSR1)
        [first, *_] = wait_for(lambda: [one["id"] for one in listed() if one["name"] == "signal"], "the checkpoint")
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")
        # Nothing has changed but working memory and what is mounted.
        later = wait_for(lambda: [one["id"] for one in listed() if one["id"] > first and stored(one) > 0], "another")
        process.communicate("\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertIn("M m /mem/working/plan\n", self.world.warren("checkpoint", "s", "diff", str(first), str(later[0])).stdout)
        done = self.world.warren("checkpoint", "s", "restore", str(first), "/mem/notes/day", "--mount", notes)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.world.warren("vfs", "s", "read", "/mem/notes/day", "--mount", notes).stdout, "one\n")

    def test_a_signal_to_the_server_takes_a_checkpoint(self):
        process, _ = self.begin("s", "echo one > f; echo up; read line; echo two > f; echo done; read line")
        os.kill(self.world.server("s"), signal.SIGUSR1)
        wait_for(lambda: self.checkpoints() == ["signal"], "the checkpoint")
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")
        process.communicate("\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(self.world.warren("fs", "s", "cat", "/f@signal").stdout, "one\n")
        self.assertEqual(self.world.warren("fs", "s", "cat", "/f").stdout, "two\n")

    def test_a_signal_to_the_run_takes_a_checkpoint_and_the_command_goes_on(self):
        process, _ = self.begin("s", "trap 'echo got it' USR1; echo one > f; echo up; read line; echo two > f; echo done")
        wait_for(lambda: self.warren_of(process), "the program")
        os.kill(self.warren_of(process), signal.SIGUSR1)
        wait_for(lambda: self.checkpoints() == ["signal"], "the checkpoint")
        out, err = process.communicate("\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual((process.returncode, out), (0, "done\n"), err)
        self.assertEqual(self.world.warren("fs", "s", "cat", "/f@signal").stdout, "one\n")
        self.assertEqual(self.world.warren("fs", "s", "cat", "/f").stdout, "two\n")

    def test_a_checkpoint_after_each_tool_call(self):
        process, _ = self.begin("s", "echo one > f; echo up; read line", "--checkpoint", "each-tool-call")

        def record(*args):
            done = self.world.warren("tools", "s", *args)
            self.assertEqual(done.returncode, 0, done.stderr)
        record("start", "search")
        record("succeed", "1", "--result", "[]")
        wait_for(lambda: self.checkpoints() == ["tool-call"], "the checkpoint")
        record("record", "search", "--result", "[]", "--started", "1767225600", "--completed", "1767225602")
        wait_for(lambda: self.checkpoints() == ["tool-call", "tool-call"], "the second checkpoint")
        process.communicate("\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(self.world.warren("fs", "s", "cat", "/f@tool-call").stdout, "one\n")

    def test_a_checkpoint_that_cannot_be_gone_to_is_refused(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo one > f")
        self.fails("--session", "s", "--at", "nope", "--", "true", says="there is no checkpoint 'nope'")
        self.fails("--session", "new", "--at", "nope", "--", "true", says="does not exist")
        self.fails("--at", "nope", "--", "true", status=2, says="--at needs --session")
        self.fails("--checkpoint", "5m", "--", "true", status=2, says="it is neither every=TIME nor each-tool-call")
        self.fails("--checkpoint", "every=1ms", "--", "true", status=2, says="the shortest time is 1s")
        self.world.warren("checkpoint", "s", "take", "c")
        running = self.world.start("run", "--session", "s", "--", "sh", "-c", "echo up; read line", stdin=subprocess.PIPE, text=True)
        self.assertEqual(running.stdout.readline().strip(), "up")
        self.fails("--session", "s", "--at", "c", "--", "true", says="session 's' is running")
        # But it can be restored from outside while it runs.
        self.assertEqual(self.world.warren("checkpoint", "s", "restore", "c").returncode, 0)
        running.communicate("\n", timeout=60)
        self.assertEqual(self.world.sessions(), ["s"])

    def check_two_runs(self, first, second):
        """Two runs of a session with a change each. The first one ends first; returns what the second one says."""
        waits = "echo on; read line; echo 1 > second"
        other = self.world.start("run", "--session", "s", *second, "--", "sh", "-c", waits, stdin=subprocess.PIPE, text=True)
        self.assertEqual(other.stdout.readline(), "on\n")
        self.world.run("--session", "s", *first, "--", "sh", "-c", "echo 1 > first")
        return other.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)[1]

    def test_a_run_discards_only_what_all_runs_beside_it_would(self):
        for first in ((), ("--keep",)):
            said = self.check_two_runs(first, ("--discard",))
            self.assertIn("session s was not discarded: another run of it was started without --discard", said)
            self.assertEqual(self.world.warren("diff", "s").stdout, "A f /first\nA f /second\n")
            self.world.warren("sessions", "delete", "--yes", "s")
            self.assertEqual(self.world.sessions(), [])
        self.check_two_runs(("--discard",), ("--discard",))
        self.assertEqual(self.world.sessions(), [])
        self.check_two_runs(("--discard",), ())
        self.assertEqual(self.world.sessions(), ["s"])

    def test_restrictions_of_a_session_hold_and_what_widens_a_run_does_not(self):
        secret = self.world.base / "secret"
        secret.write_text("s3cret\n")
        os.chown(secret, self.uid, self.uid)
        look = ("--session", "s", "--", "sh", "-c", "cat secret")
        self.world.run("--keep", "--hide", secret, *look)
        self.assertIn("s3cret", self.world.run("--allow", secret, *look).stdout)
        self.assertNotIn("s3cret", self.world.run(*look).stdout)
        self.assertEqual(self.world.run("--session", "s", "--read", secret, "--", "/nonexistent").returncode, 127)
        self.assertNotIn("s3cret", self.world.run(*look).stdout)
        secret.unlink()
        process = self.world.start("run", "--session", "s", "--", "sh", "-c", "echo on; read line; cat secret; echo end",
                                   stdin=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "on\n")
        secret.write_text("s3cret\n")
        os.chown(secret, self.uid, self.uid)
        self.assertEqual(process.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)[0], "end\n")
        secret.unlink()

    def test_restrictions_that_end_with_a_session_are_named(self):
        secret = self.world.base / "file"
        self.world.run("--session", "s", "--no-network", "--hide", secret, "--", "sh", "-c", "echo 1 > new")
        done = self.world.warren("apply", "session:s")
        self.assertEqual(self.world.sessions(), [])
        self.assertIn("its restrictions end with it, a new session of this name needs them again: "
                      f"network none, '{secret}' hidden\n", done.stderr)
        self.before = sandboxed.checksum(self.world.base)

    def test_a_kept_hidden_path_that_cannot_be_hidden_now_is_named(self):
        folder = self.world.base / "folder"
        folder.mkdir()
        (folder / "secret").write_text("s3cret\n")
        for path in (folder, folder / "secret"):
            os.chown(path, self.uid, self.uid)
        self.world.run("--keep", "--session", "s", "--hide", folder / "secret", "--", "true")
        shutil.rmtree(folder)
        said = self.world.run("--session", "s", "--", "true").stderr
        self.assertIn(f"'{folder}/secret' is to be hidden, but does not exist: this run sees it if it comes back", said)

    def test_discarding_a_resumed_session_deletes_all_of_it(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo one > one")
        listed = json.loads(self.world.warren("sessions", "--json").stdout)
        file = self.world.session_dir("s") / "delta.db"
        self.assertEqual([(s["id"], s["size_bytes"]) for s in listed], [("s", file.stat().st_size)])
        process, _ = self.begin("s", "echo on; read line")
        done = self.world.run("--session", "s", "--discard", "--", "true")
        process.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(self.world.inside("s", "cat", "one"), "one\n", done.stderr)
        self.ok("--session", "s", "--discard", "--", "cat", "one")
        self.assertEqual(self.world.sessions(), [])

    # `sessions`.

    def test_sessions_are_listed_renamed_and_deleted(self):
        self.ok("--session", "one", "--", "sh", "-c", "echo x > f")
        self.ok("--session", "two", "--", "sh", "-c", "echo x > f")
        listed = self.world.warren("sessions").stdout
        self.assertIn("one", listed)
        self.assertIn(str(self.world.base), listed)
        self.assertEqual(self.world.warren("sessions", "rename", "one", "two").returncode, 1)
        self.assertEqual(self.world.warren("sessions", "rename", "one", "three").returncode, 0)
        self.assertEqual(self.world.inside("three", "cat", "f"), "x\n")
        self.assertEqual(self.world.warren("sessions", "rename", "none", "four").returncode, 1)
        done = self.world.warren("sessions", "delete", "two")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--yes", done.stderr)
        self.assertEqual(self.world.warren("sessions", "delete", "two", "none", "--yes").returncode, 1)
        self.assertEqual(self.world.sessions(), ["three", "two"])
        self.assertEqual(self.world.warren("sessions", "delete", "two", "--yes").returncode, 0)
        self.assertEqual(self.world.sessions(), ["three"])

    def test_sessions_are_listed_newest_first_with_their_changes(self):
        self.ok("--session", "old", "--", "sh", "-c", "echo x > f; echo y > g; rm file")
        self.ok("--session", "new", "--", "sh", "-c", "echo x > f")
        self.ok("--session", "none", "--keep", "--", "true")
        for age, name in enumerate(("none", "new", "old")):
            os.utime(self.world.session_dir(name) / "delta.db", (time.time() - 3600 * age,) * 2)
        lines = self.world.warren("sessions").stdout.splitlines()
        shown = [line.split()[:3] for line in lines[1:4]]
        self.assertRegex(shown[0].pop(), r"^\d{1,2}s$")  # just made, on a machine that may be busy
        self.assertEqual(shown, [["none", "0"], ["new", "1", "1h"], ["old", "3", "2h"]])
        self.assertEqual(lines[4:], ["new and old both change /f"])
        listed = json.loads(self.world.warren("sessions", "--json").stdout)
        self.assertEqual(listed[2]["changes"], {"added": 2, "modified": 0, "deleted": 1, "renamed": 0})

    def test_the_columns_of_sessions_line_up_and_shared_files_are_listed_once(self):
        for name in ("a", "b", "c"):
            self.ok("--session", name, "--", "sh", "-c", f"echo x > f; echo y > g; echo z > {name}")
        self.ok("--session", "d", "--", "sh", "-c", "echo x > g")
        self.assertEqual(self.world.warren("checkpoint", "session:b", "take", "one").returncode, 0)
        lines = self.world.warren("sessions").stdout.splitlines()
        column = lines[0].index("STATE")
        self.assertIn("3 + checkpoints", "".join(lines))
        self.assertEqual([line[column:].split()[0] for line in lines[1:5]], ["ended"] * 4)
        ids = [line.split()[0] for line in lines[1:5]]
        three = [one for one in ids if one != "d"]
        self.assertEqual(sorted(lines[5:]), sorted([f"{three[0]}, {three[1]} and {three[2]} all change /f",
                                                    f"{ids[0]}, {ids[1]}, {ids[2]} and {ids[3]} all change /g"]))

    def test_a_renamed_file_is_shared_with_who_edits_it(self):
        self.ok("--session", "mover", "--", "sh", "-c", "mv file elsewhere")
        self.ok("--session", "editor", "--", "sh", "-c", "echo x >> file")
        self.assertIn(" both change /file\n", self.world.warren("sessions").stdout)

    def test_sessions_of_one_second_are_listed_newest_first(self):
        names = ["b", "a", "d", "c"]
        for name in names:
            self.ok("--session", name, "--", "sh", "-c", "echo x > f")
        second = int(time.time()) * 10**9
        for at, name in enumerate(names):
            os.utime(self.world.session_dir(name) / "delta.db", ns=(second + at * 10**6,) * 2)
        listed = [line.split()[0] for line in self.world.warren("sessions").stdout.splitlines()[1:5]]
        self.assertEqual(listed, names[::-1])
        self.assertIn("newest first: c, d, a, b", self.world.warren("diff").stderr)

    def test_sessions_are_pruned(self):
        self.ok("--session", "full", "--", "sh", "-c", "echo x > f")
        self.ok("--session", "empty", "--keep", "--", "true")
        self.ok("--session", "aged", "--", "sh", "-c", "echo x > g")
        os.utime(self.world.session_dir("aged") / "delta.db", (time.time() - 8 * 86400,) * 2)
        prune = lambda *words: self.world.warren("sessions", "prune", *words)
        self.assertEqual(prune().returncode, 2)
        self.assertEqual(prune("--older", "7d", "-n").stdout, "would delete aged (1 change)\n")
        self.assertEqual((prune("--older", "7", "--yes").returncode, len(self.world.sessions())), (2, 3))  # not seconds
        self.assertIn("--yes", prune("--older", "7d").stderr)
        self.assertEqual(prune("--older", "7d", "--empty", "--yes").stdout, "nothing to delete\n")
        self.assertEqual(prune("--older", "7d", "--yes").stdout, "deleted aged (1 change)\n")
        self.assertEqual(prune("--empty", "--yes").stdout, "deleted empty\n")
        self.assertEqual(self.world.sessions(), ["full"])

    def test_the_only_session_of_a_directory_needs_no_id(self):
        self.assertIn("no session has", self.world.warren("diff").stderr)
        self.ok("--session", "one", "--", "sh", "-c", "echo x > f")
        self.assertEqual(self.world.warren("diff").stdout, "A f /f\n")
        self.assertEqual(self.world.warren("diff", cwd=self.world.base / "dir").stdout, "A f /f\n")
        self.assertIn("no session has", self.world.warren("diff", cwd=self.world.canary).stderr)
        self.ok("--session", "two", "--", "sh", "-c", "echo x > g")
        os.utime(self.world.session_dir("one") / "delta.db", (time.time() - 60,) * 2)
        done = self.world.warren("apply")
        self.assertEqual(done.returncode, 1)
        self.assertIn("several sessions of this directory", done.stderr)
        self.assertIn("two, one", done.stderr)
        self.world.warren("sessions", "delete", "two", "--yes")
        self.assertIn("1 added", self.world.warren("apply", "--dry-run").stdout)
        self.assertIn("discarded: 1 added", self.world.warren("discard", "--yes").stdout)

    def test_a_path_without_an_id_is_one_of_the_only_session(self):
        diff = lambda *words, **how: self.world.warren("diff", *words, **how)
        self.ok("--session", "one", "--", "sh", "-c", "echo x >> file; echo x > dir/made; echo x > plain")
        self.assertEqual(diff("file").stdout, "M f /file\n")
        self.assertEqual(diff("dir", "file").stdout, "A f /dir/made\nM f /file\n")
        self.assertEqual(diff("../file", cwd=self.world.base / "dir").stdout, "M f /file\n")
        self.assertEqual(diff("plain", "d*/made").stdout.splitlines()[-1], "A f /plain")
        self.assertEqual(diff("f*").stdout, "M f /file\n")
        self.assertEqual(diff(f"../{self.world.base.name}/file").stdout, "M f /file\n")
        self.assertEqual(diff(f"../{self.world.base.name}/dir").stdout, "A f /dir/made\n")
        self.assertEqual(diff("one", f"../../{self.world.base.name}/file", cwd=self.world.base / "dir").stdout, "M f /file\n")
        self.assertIn("is outside of the base", diff("one", "../elsewhere").stderr)
        self.assertIn("no agent or session 'nothing'", diff("nothing").stderr)
        self.assertIn("1 added", self.world.warren("apply", "-n", "plain").stdout)
        self.ok("--session", "plain", "--", "sh", "-c", "echo x > other")
        self.assertEqual(diff("plain").stdout, "A f /other\n", "an id comes first")
        done = diff("file")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'file' is not an agent, and there are several sessions of this directory", done.stderr)
        self.assertIn("give the ID before a PATH; newest first: ", done.stderr)
        self.assertEqual(self.world.warren("discard", "one", "--yes", "plain").stdout, "discarded: 1 added\n")

    def test_undo_checkpoint_audit_and_their_like_need_no_id_either(self):
        warren = lambda *words, **options: self.world.warren(*words, **options)
        for words in (("checkpoint", "list"), ("audit", "show"), ("info",), ("timeline",)):
            self.assertIn("no session has", warren(*words).stderr, words)
        self.assertIn("no apply to this directory", warren("undo").stderr)
        self.ok("--session", "one", "--", "sh", "-c", "echo x > f")
        self.assertEqual(warren("checkpoint", "take", "first").stdout, "took checkpoint 1 (first)\n")
        self.assertIn("first", warren("checkpoint", "list", cwd=self.world.base / "dir").stdout)
        self.assertIn("1 (first)", warren("checkpoint", "restore", "first").stdout)
        self.assertEqual(warren("audit", "on").returncode, 0)
        self.assertIn("audit", warren("audit", "show").stdout)
        self.assertIn("schema", warren("info").stdout)
        self.assertEqual(warren("timeline").returncode, 0)
        self.assertIn("applied", warren("apply", "--yes", "--keep").stdout)
        self.assertIn("undone in", warren("undo").stdout)
        self.assertFalse((self.world.base / "f").exists())
        done = warren("checkpoint", "pull", "sqlite:x.db")
        self.assertEqual((done.returncode, done.stderr), (2, "warren: pull needs an ID, which names the agent that it makes\n"))
        self.ok("--session", "two", "--", "sh", "-c", "echo x > g")
        self.assertIn("several sessions of this directory", warren("checkpoint", "list").stderr)

    def test_undo_without_an_id_finds_the_apply_of_a_session_that_is_gone(self):
        self.ok("--session", "one", "--", "sh", "-c", "echo x > f")
        self.world.warren("apply", "--yes", "one")
        self.assertEqual(self.world.sessions(), [])
        self.ok("--session", "two", "--", "sh", "-c", "echo x > g")
        self.assertIn("undone in", self.world.warren("undo").stdout)
        self.assertFalse((self.world.base / "f").exists())
        self.ok("--session", "one", "--", "sh", "-c", "echo x > f")
        for session in ("one", "two"):
            self.world.warren("apply", "--yes", session)
        done = self.world.warren("undo")
        self.assertIn("several agents have applied changes to this directory", done.stderr)
        self.assertIn("newest first: session:two, session:one", done.stderr)
        self.assertIn("undone in", self.world.warren("undo", "session:two").stdout)
        self.assertTrue((self.world.base / "f").exists())
        self.assertIn("undone in", self.world.warren("undo").stdout, "only one agent is left that has applied something")

    def test_an_agent_with_the_name_of_a_command_comes_first(self):
        self.ok("--session", "one", "--", "sh", "-c", "echo x > f")
        self.world.warren("init", "list")
        self.assertEqual(self.world.warren("checkpoint", "list", "take", "of-list").stdout, "took checkpoint 1 (of-list)\n")
        self.assertIn("of-list", self.world.warren("checkpoint", "list", "list").stdout)
        (self.world.base / "show").write_text("not an agent")  # a file does not change what a command line means
        self.assertEqual(self.world.warren("audit", "show").returncode, 0)
        (self.world.base / "show").unlink()
        shutil.rmtree(self.world.base / ".agentfs")

    def test_a_verb_without_an_id_is_answered_with_the_id(self):
        hint = lambda *words: self.world.warren(*words).stderr.split("hint: ")[1].split("\n")[0]
        self.assertEqual(hint("fs", "ls"), "did you mean 'warren fs ID ls'?")
        self.ok("--session", "one", "--", "sh", "-c", "echo x > f")
        self.assertEqual(hint("fs", "ls"), "did you mean 'warren fs one ls'?")
        self.assertEqual(hint("fs", "ls", "/dir"), "did you mean 'warren fs one ls /dir'?")
        self.assertEqual(hint("fs", "ls", "-l"), "did you mean 'warren fs one ls -l'?")
        self.assertEqual(hint("kv", "get", "key"), "did you mean 'warren kv one get key'?")
        self.assertEqual(hint("fs", "ls", "one"), "did you mean 'warren fs one ls'?")
        self.ok("--session", "two", "--", "sh", "-c", "echo x > f")
        self.assertEqual(hint("fs", "ls", "two"), "did you mean 'warren fs two ls'?")

    def test_a_session_is_deleted_by_the_beginning_of_a_made_up_id(self):
        self.ok("--", "sh", "-c", "echo x > f")
        self.ok("--session", "chosen", "--", "sh", "-c", "echo x > f")
        made_up = next(one for one in self.world.sessions() if one != "chosen")
        self.assertIn("did you mean 'chosen'?", self.world.warren("sessions", "delete", "chosne", "--yes").stderr)
        self.assertEqual(self.world.warren("sessions", "delete", "cho", "--yes").returncode, 1, "a chosen id is written in full")
        self.assertEqual(self.world.warren("sessions", "delete", made_up[:4], "--yes").returncode, 0)
        self.assertEqual(self.world.sessions(), ["chosen"])

    def test_the_beginning_of_a_made_up_id_is_enough(self):
        self.ok("--", "sh", "-c", "echo x > f")
        (made_up,) = self.world.sessions()
        self.assertEqual(self.world.warren("diff", made_up[:4]).stdout, "A f /f\n")
        self.assertEqual(self.world.warren("diff", "session:" + made_up[:4]).stdout, "A f /f\n")
        self.assertEqual(self.world.warren("diff", made_up[:2]).returncode, 1)
        self.ok("--session", made_up[:4] + "-chosen", "--", "sh", "-c", "echo x > f")
        self.assertEqual(self.world.warren("diff", made_up[:4]).returncode, 1)
        done = self.world.warren("diff", made_up[:4] + "-chose")
        self.assertIn(f"no agent or session '{made_up[:4]}-chose'", done.stderr)
        self.assertIn(f"did you mean '{made_up[:4]}-chosen'?", done.stderr)
        self.ok("--session", "rv-long-name", "--", "sh", "-c", "echo x > f")
        self.ok("--session", "r1", "--", "sh", "-c", "echo x > f")
        self.assertIn("did you mean 'rv-long-name'?", self.world.warren("diff", "rv").stderr)

    def test_walls_without_a_command_are_only_printed(self):
        done = self.world.run("--walls")
        self.assertEqual((done.returncode, done.stdout, self.world.sessions()), (0, "", []), done.stderr)
        self.assertIn(f"copy-on-write: {self.world.base}", done.stderr)

    def test_walls_with_a_command_are_the_plan_for_it_and_nothing_runs(self):
        secret = self.world.base / "file"
        shown = self.world.home / "shown"
        shown.mkdir()
        (self.world.home / "kept back").mkdir()
        done = self.world.run("--walls", "--session", "s", "--hide", secret, "--read", shown, "--net", "one.example", "--net", "two.example:22",
                              "--", "sh", "-c", "echo ran > made; echo ran")
        self.assertEqual((done.returncode, done.stdout, self.world.sessions()), (0, "", []), done.stderr)
        self.assertFalse((self.world.base / "made").exists())
        for line in (f"hidden: {secret}\n", f"readable: {shown}\n", "network: may reach one.example, two.example:22\n", "read-only: everything else"):
            self.assertIn(line, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^hidden in .*kept back")
        self.assertNotRegex(done.stderr, r"(?m)^hidden in .*shown")
        for option in ("--keep", "--discard", "--quiet"):
            self.assertEqual(self.world.run("--walls", option).returncode, 2)

    def test_walls_of_a_session_leave_it_as_it_is(self):
        self.ok("--session", "s", "--", "sh", "-c", "echo x > f")
        self.assertIn("wrote /f", self.world.warren("log", cwd=self.world.base).stdout)  # the only session here
        done = self.world.run("--session", "s", "--walls", "--hide", self.world.base / "file")
        self.assertIn(f"hidden: {self.world.base}/file\n", done.stderr)
        self.assertEqual(self.world.inside("s", "cat", "file"), (self.world.base / "file").read_text())

    def test_a_running_session_is_neither_renamed_nor_deleted(self):
        process, _ = self.begin("s", "echo on; read line")
        for words in (("rename", "s", "t"), ("delete", "--yes", "s")):
            done = self.world.warren("sessions", *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("is running", done.stderr)
        process.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)


class AsRoot(Sessions, unittest.TestCase):
    def test_a_session_that_is_mounted_stays(self):
        world = self.world
        self.ok("--session", "s", "--", "sh", "-c", "echo x > made")
        point = world.root / "point"
        point.mkdir()
        self.assertEqual(world.warren("mount", "session:s", point).returncode, 0)
        try:
            self.assertEqual(world.warren("discard", "s", "--yes").returncode, 0)
            self.assertEqual(world.sessions(), ["s"])
            self.assertEqual(world.warren("sessions", "prune", "--empty", "--yes").stdout, "nothing to delete\n")
            done = world.warren("sessions", "rename", "s", "t")
            self.assertEqual((done.returncode, world.sessions()), (1, ["s"]))
            self.assertIn("is open in another process", done.stderr)
            done = world.warren("sessions", "delete", "s", "--yes")
            self.assertIn("is open in another process", done.stderr)
            (point / "later").write_text("kept")
        finally:
            self.assertEqual(world.warren("umount", point).returncode, 0)
        self.assertEqual(world.warren("fs", "s", "cat", "/later").stdout, "kept")

    def test_diff_does_not_say_that_apply_deletes_a_mounted_session(self):
        world = self.world
        self.ok("--session", "s", "--keep", "--", "true")
        point = world.root / "point"
        point.mkdir()
        self.assertEqual(world.warren("mount", "s", point).returncode, 0)
        try:
            self.assertEqual(world.warren("diff", "s").stderr, "")
            self.assertEqual(world.warren("apply", "s").returncode, 0)
            self.assertEqual(world.sessions(), ["s"])
        finally:
            self.assertEqual(world.warren("umount", point).returncode, 0)
        self.assertIn("`warren apply session:s` deletes it", world.warren("diff", "s").stderr)


class AsOrdinaryUser(Sessions, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
