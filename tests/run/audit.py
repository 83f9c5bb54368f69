#!/usr/bin/env python3
"""A run on the record: what its command did to the files and to its memory, and that it cannot reach the key.

    WARREN=path/to/warren audit.py [-v] [Class.test_name]

Needs root.
"""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed


class Audit(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(sandboxed.World())

    def events(self, session):
        done = self.world.warren("audit", f"session:{session}", "show", "--all", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def verify(self, session):
        done = self.world.warren("audit", f"session:{session}", "verify")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_changes_are_recorded_by_default(self):
        (self.world.base / "old").write_text("old")
        self.world.inside("s", "sh", "-c",
                          "cat old > /dev/null; echo new > made; rm old; cd $WARREN_NAMESPACE; echo note >> mem/episodic/log;"
                          "cat mem/episodic/log > /dev/null; echo x > policy/x; true")
        events = self.events("s")
        done = [(event["door"], event["op"], event["path"], event["ok"]) for event in events]
        for wanted in (("run", "write", "/made", True), ("run", "delete", "/old", True),
                       ("namespace", "append", "/mem/episodic/log", True), ("namespace", "read", "/mem/episodic/log", True),
                       ("namespace", "create", "/policy/x", False)):
            self.assertIn(wanted, done)
        self.assertFalse([event for event in events if event["op"] == "read" and event["door"] == "run"])
        self.assertEqual({(event["session"], event["space"]) for event in events}, {("s", "user")})
        self.verify("s")

    def test_a_change_that_fails_is_recorded_once_and_as_failed(self):
        (self.world.base / "full").mkdir()
        (self.world.base / "full/f").write_text("x")
        self.world.inside("s", "sh", "-c", "rmdir full; mkdir full; touch made; true")
        done = [(event["op"], event["path"], event["ok"]) for event in self.events("s") if event["path"] == "/full"]
        self.assertNotIn(("delete", "/full", True), done)
        self.assertNotIn(("mkdir", "/full", True), done)
        self.verify("s")

    def test_a_run_anchors_its_trail(self):
        anchors = self.world.home / "anchors.jsonl"
        done = self.world.run("--session", "s", "--anchor", str(anchors), "--", "touch", "made")
        self.assertEqual(done.returncode, 0, done.stderr)
        last = self.events("s")[-1]
        line = json.loads(anchors.read_text().splitlines()[-1])
        self.assertEqual((line["agent"], line["seq"], line["hash"]), ("s", last["seq"], last["hash"]))
        done = self.world.warren("audit", "session:s", "verify", "--anchor", str(anchors))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.world.run("--session", "t", "--anchor", "nosuch:x", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("nosuch", done.stderr)

    def test_a_run_that_only_reads_has_changed_nothing(self):
        done = self.world.run("--session", "s", "--", "sh", "-c", "ls > /dev/null; cat $WARREN_NAMESPACE/policy/* ; true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.world.sessions(), [])  # nothing is left to be kept

    def test_what_was_refused_stays_on_the_record_though_nothing_was_changed(self):
        done = self.world.run("--session", "s", "--", "sh", "-c", "echo x > $WARREN_NAMESPACE/policy/x; true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warren audit session:s show --outcome failed", done.stderr)
        self.assertEqual(self.world.sessions(), ["s"])
        self.assertIn(("create", "/policy/x", False),
                      [(event["op"], event["path"], event["ok"]) for event in self.events("s")])

    def test_the_key_is_out_of_reach(self):
        self.world.inside("s", "touch", "made")
        key = self.world.home / ".config/warren/audit.key"
        self.assertTrue(key.exists())
        done = self.world.run("--session", "t", "--home", "all", "--", "sh", "-c",
                              f"cat {key}; ls ~/.agentfs/audit; env",
                              env=self.world.environment() | {"WARREN_AUDIT_KEY": key.read_text().strip()})
        self.assertNotIn(key.read_text().strip(), done.stdout + done.stderr)
        self.assertNotIn("WARREN_AUDIT", done.stdout)
        self.verify("s")

    def test_the_key_is_out_of_reach_wherever_it_is(self):
        """Another configuration directory, in the base, that the run may even write to; and the first run of all."""
        config = self.world.base / "cfg"
        config.mkdir()
        key = config / "warren/audit.key"
        environment = self.world.environment() | {"XDG_CONFIG_HOME": str(config)}
        done = self.world.run("--session", "s", "--", "sh", "-c", f"touch made; cat {key}; echo x > {key}; true",
                              env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(key.read_text(), "^[0-9a-f]{64}\n$")
        self.assertNotIn(key.read_text().strip(), done.stdout)
        done = self.world.run("--session", "t", "--allow", str(config), "--", "true", env=environment)
        self.assertEqual(done.returncode, 125)
        self.assertIn("keys and settings of Warren", done.stderr)

    def test_a_name_with_a_line_end_forges_no_line_in_a_pipe(self):
        forged = "x\n2026-11-17T23:00:00.000Z apply      ok                         -  apply     approved\x1b[2J"
        self.world.inside("s", "sh", "-c", 'echo 1 > "$0"', forged)
        for words in (["audit", "session:s", "show"], ["log", "session:s"]):
            done = self.world.warren(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(r"x\x0a2026-11-17T23:00:00.000Z apply", done.stdout)
            self.assertNotIn("\n2026-11-17T23:00:00.000Z", done.stdout)
            self.assertNotIn("\x1b", done.stdout)


class WithoutAKey(unittest.TestCase):
    """An ordinary user whose configuration directory belongs to somebody else."""

    NOTHING = "warren: nothing is recorded in the audit trail: "

    def setUp(self):
        self.world = self.enterContext(sandboxed.World(sandboxed.NOBODY))
        self.config = self.world.home / ".config"
        self.config.mkdir(mode=0o755)

    def command(self, *words, status=0, says="", **options):
        done = self.world.warren(*words, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertIn(says, done.stderr)
        return done

    def give_the_directory(self, to_user):
        os.chown(self.config, *(2 * [self.world.uid if to_user else 0]))

    def test_what_nobody_asked_to_record_is_done_without(self):
        done = self.command("run", "--session", "s", "--", "sh", "-c", "echo new > made; ls $WARREN_NAMESPACE", says=self.NOTHING)
        self.assertEqual(done.stderr.count(self.NOTHING), 1)
        self.assertIn("Permission denied", done.stderr)
        self.assertIn("WARREN_AUDIT_KEY", done.stderr)
        self.assertIn("mem", done.stdout)
        self.command("init", "a")
        for words in (["vfs", "a", "write", "/state/x", "1"], ["vfs", "a", "read", "/state/x"], ["policy", "a", "set", "--preset", "open"]):
            self.assertEqual(self.command(*words, says=self.NOTHING).stderr.count(self.NOTHING), 1, words)
        self.command("fs", "a", "write", "/f", "x")  # is not recorded by default, and says nothing
        self.assertEqual(self.command("audit", "a", "show").stdout, "")
        self.assertFalse((self.config / "warren").exists())

    def test_what_was_asked_for_is_an_error(self):
        self.command("init", "a")
        self.command("init", "b", "--audit", status=1, says="make a key for audit trails")
        self.command("audit", "a", "on", status=1, says="make a key for audit trails")
        self.command("run", "--session", "s", "--anchor", self.world.root / "x", "--", "true", status=125, says="nothing is recorded")
        self.assertEqual(self.world.sessions(), [])
        given = self.world.environment() | {"WARREN_AUDIT_KEY": "short"}
        self.command("run", "--session", "s", "--", "true", status=125, says="WARREN_AUDIT_KEY", env=given)

    def test_a_trail_that_exists_goes_on_or_nothing_is_done(self):
        self.give_the_directory(to_user=True)
        self.command("run", "--session", "s", "--", "touch", "made")
        self.command("init", "a")
        self.command("vfs", "a", "write", "/state/x", "1")
        (self.config / "warren/audit.key").unlink()
        (self.config / "warren").rmdir()
        self.give_the_directory(to_user=False)
        self.command("run", "--session", "s", "--", "touch", "more", status=125, says="there is no key for audit trails")
        self.command("vfs", "a", "write", "/state/x", "2", status=1, says="there is no key for audit trails")
        self.command("run", "--session", "t", "--", "touch", "more", says=self.NOTHING)


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
