#!/usr/bin/env python3
"""A run on the record: what its command did to the files and to its memory, and that it cannot reach the key.

    WARREN=path/to/warren audit.py [-v] [Class.test_name]

Needs root.
"""
import json
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

    def test_a_run_that_only_reads_has_changed_nothing(self):
        done = self.world.run("--session", "s", "--", "sh", "-c", "ls > /dev/null; cat $WARREN_NAMESPACE/policy/* ; true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.world.sessions(), [])  # nothing is left to be kept

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


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
