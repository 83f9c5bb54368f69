#!/usr/bin/env python3
"""`checkpoint restore WHICH PATH`: what the user has made in the base since is in conflict with what comes back.

    WARREN=path/to/warren restored.py [-v] [Class.test_name]

Needs root and /dev/fuse.
"""
import itertools
import json
import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from case import MountedCase
from overlaid import mounted


class RestoredPath(MountedCase):
    RESTORED = {"echo more >>x": "x", "sed -i s/base/agent/ x": "x", "echo agent >n": "n", "rm x": "x", "mkdir m; echo 1 >m/n": "m",
                "rm x; mkdir x; echo 1 >x/n": "x", "rm x; ln -s w x": "x", "mv x n": "n"}

    def test_what_a_restored_path_replaces_has_not_been_seen(self):
        """The path is applied, then the user changes what the base has there, then a checkpoint brings it back."""
        hosts = {"x": "rm -rf x; echo host >x", "n": "echo host >>n", "m": "echo host >>m/n"}
        for (script, path), is_mounted in itertools.product(self.RESTORED.items(), (True, False)):
            with self.subTest(script=script, mounted=is_mounted):
                self.doCleanups()
                self.setUp()
                self.begin(x="base\n", w="base\n")
                self.agent(script)
                if not is_mounted:
                    self.end()
                self.w.warren("checkpoint", self.w.id, "take", "then")
                self.apply()
                self.host(hosts[path])
                self.w.warren("checkpoint", self.w.id, "restore", "then", "/" + path)
                self.refused(script)

    def test_what_the_user_makes_in_a_directory_has_not_been_seen_when_its_removal_is_restored(self):
        scripts = ("rm -r d", "rm -r d; echo agent >d", "rm -r d; mkdir d; echo agent >d/n", "rm -r d; ln -s w d")
        hosts = ("echo host >d/new", "echo host >d/1", "echo host >d/s/2", "mkdir d/t; echo host >d/t/x", "true")
        for script, host in itertools.product(scripts, hosts):
            with self.subTest(script=script, host=host):
                self.doCleanups()
                self.setUp()
                self.begin(d__1="base\n", d__s__2="base\n", w="base\n")
                self.agent(script)
                self.end()
                self.w.warren("checkpoint", self.w.id, "take", "then")
                changes = self.w.changes()
                self.w.warren("discard", "--yes", self.w.id)
                self.host(host)
                self.w.warren("checkpoint", self.w.id, "restore", "then", "/d")
                if host != "true":
                    self.refused(script)
                    continue
                self.assertEqual(self.w.changes(), changes)
                self.apply()

    def test_a_file_that_a_directory_above_a_restored_path_replaces_has_not_been_seen(self):
        for host in ("echo host >>f", "true"):
            with self.subTest(host=host):
                self.doCleanups()
                self.setUp()
                self.begin(f="base\n")
                self.agent("rm f; mkdir -p f/s; echo agent >f/s/z")
                self.end()
                self.w.warren("checkpoint", self.w.id, "take", "then")
                self.w.warren("discard", "--yes", self.w.id)
                self.host(host)
                self.w.warren("checkpoint", self.w.id, "restore", "then", "/f/s/z")
                if host == "true":
                    self.apply()
                    self.assertEqual(self.read("f/s/z"), "agent\n")
                else:
                    self.refused()

    def test_what_a_restored_path_replaces_after_an_undo_has_not_been_seen(self):
        self.begin(x="base\n", y="base\n", z="base\n")
        self.agent("echo agent >>x; rm y; echo agent >>z")
        self.end()
        self.w.warren("checkpoint", self.w.id, "take", "then")
        self.apply()
        self.w.warren("undo", self.w.id)
        self.w.warren("checkpoint", self.w.id, "restore", "then", "/x", "/y", "/z")
        self.apply("/z")
        self.assertEqual(self.read("z"), "base\nagent\n")
        self.w.warren("discard", "--yes", self.w.id)
        self.host("echo host >x; echo host >y")
        self.w.warren("checkpoint", self.w.id, "restore", "then", "/x", "/y")
        self.refused()

    def test_what_a_restored_path_finds_as_it_was_is_no_conflict(self):
        self.begin(x="base\n", y="base\n", z="base\n")
        self.agent("echo agent >>x; rm y; ln -sf x z; echo agent >n")
        self.w.warren("checkpoint", self.w.id, "take", "then")
        changes = self.w.changes()
        self.w.warren("discard", "--yes", self.w.id)
        self.w.warren("checkpoint", self.w.id, "restore", "then", "/x", "/y", "/z", "/n")
        self.assertEqual(self.w.changes(), changes)
        self.apply()
        self.assertEqual((self.read("x"), os.readlink(self.base / "z"), self.read("n")), ("base\nagent\n", "x", "agent\n"))
        self.assertFalse((self.base / "y").exists())
        self.end()

    def take(self):
        self.w.warren("checkpoint", self.w.id, "take", "then")

    def restore(self, *paths):
        self.w.warren("checkpoint", self.w.id, "restore", "then", *paths)

    def pass_time(self, path):
        """What changes from now on is younger, however coarse the times are."""
        changed = path.stat().st_ctime
        mounted.wait_for(lambda: time.time() > changed + 0.05, "the time passes")

    def kept(self, *names, words=""):
        """What the user has there is listed in conflict only, so that no apply removes or replaces it."""
        before = {name: self.read(name[1:]) for name in names}
        listed = {change["path"] for change in json.loads(self.w.warren("diff", "--json", self.w.id))}
        tried = json.loads(self.w.run("apply", "--dry-run", "--json", self.w.id).stdout)
        conflicts = {conflict["path"] for conflict in tried["conflicts"]}
        self.assertEqual([name for name in names if name in listed and name not in conflicts], [], words)
        for path in ([], *[[name] for name in sorted(listed)]):
            self.w.run("apply", self.w.id, *path)
            self.assertEqual({name: self.read(name[1:]) for name in names}, before, words)

    def test_what_the_user_has_made_in_a_directory_in_place_of_a_restored_file(self):
        agents = ("rm -r d; echo agent >d", "rm -r d; ln -s w d", "mv d e; echo agent >d")
        for agent, at, path, is_mounted in itertools.product(agents, ("before", "after"), ("/d", "/"), (True, False)):
            with self.subTest(agent=agent, at=at, path=path, mounted=is_mounted):
                self.doCleanups()
                self.setUp()
                self.begin(d__1="base\n", d__s__2="base\n", w="base\n")
                self.agent(agent)
                if at == "before":
                    self.take()
                self.apply()
                if at == "after":
                    self.take()
                if not is_mounted:
                    self.end()
                self.host("rm d; mkdir -p d/s; echo host >d/new; echo host >d/s/new")
                self.restore(path)
                self.kept("/d/new", "/d/s/new", words=(agent, at, path, is_mounted))

    def test_a_file_that_the_user_has_made_in_place_of_a_restored_directory(self):
        agents = ("echo agent >d/n", "rm d/1; mkdir d/1; echo agent >d/n", "rm -r d; mkdir d; echo agent >d/n")
        for agent, is_applied, path, is_mounted in itertools.product(agents, (True, False), ("/d", "/d/n", "/"), (True, False)):
            with self.subTest(agent=agent, applied=is_applied, path=path, mounted=is_mounted):
                self.doCleanups()
                self.setUp()
                self.begin(d__1="base\n", d__2="base\n")
                self.agent(agent)
                if is_applied:
                    self.apply()
                self.take()
                if not is_mounted:
                    self.end()
                self.w.warren("discard", "--yes", self.w.id)
                self.host("rm -r d; echo host >d")
                self.restore(path)
                self.kept("/d", words=(agent, is_applied, path, is_mounted))

    def test_what_a_renamed_file_replaces_has_not_been_seen_when_an_older_one_is_restored(self):
        self.begin(x="base\n", z="base\n")
        self.agent("echo agent >z")
        self.take()
        self.w.warren("discard", "--yes", self.w.id)
        self.host("echo host >z")
        self.agent("cat z; mv x z")
        self.restore("/z")
        self.kept("/z")

    def test_what_the_user_has_made_in_place_of_a_directory_when_everything_is_restored(self):
        for hosts in (("rm -r d; echo host >d", "true"), ("rm -r d", "echo host >d")):
            with self.subTest(hosts=hosts):
                self.doCleanups()
                self.setUp()
                self.begin(x="base\n")
                self.agent("mkdir d; echo agent >d/n")
                self.apply()
                self.take()
                self.end()
                self.host(hosts[0])
                self.restore()
                self.host(hosts[1])
                self.pass_time(self.base / "d")
                self.point = self.w.mount()
                self.agent("echo more >d/m")
                self.kept("/d", words=hosts)

    def test_a_program_writes_to_its_file_which_the_user_has_replaced_by_a_directory(self):
        self.begin(d__1="base\n")
        self.agent("rm -r d; echo agent >d")
        self.apply()
        self.host("rm d; mkdir d; echo host >d/new")
        self.pass_time(self.base / "d/new")
        self.agent("echo more >>d")
        self.kept("/d/new")


if __name__ == "__main__":
    unittest.main()
