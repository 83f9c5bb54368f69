#!/usr/bin/env python3
"""What an agent file is not believed about: its base, its name, its privileges, and files that run by themselves.

    WARREN=path/to/warren trust.py [-v] [Class.test_name]
"""
import json
import os
import pathlib
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted


class Base(Case):
    def foreign(self, base=None):
        """A copy of an agent file, as if it came from elsewhere."""
        self.fill(a="1\n")
        self.write("/a", "22\n")
        copy = self.w.home / "foreign.db"
        shutil.copy(self.w.file, copy)
        if base is not None:
            self.set_base(copy, base)
        return copy

    def set_base(self, file, base):
        database = sqlite3.connect(file)
        database.execute("UPDATE fs_overlay_config SET value = ? WHERE key = 'base_path'", (base,))
        self.assertEqual(database.total_changes, 1)
        database.commit()
        database.close()

    def test_a_file_from_elsewhere_needs_a_yes_once(self):
        copy = self.foreign()
        said = self.w.fails("apply", copy)
        self.assertIn("was not created here", said)
        self.assertIn(f"--trust-base '{self.base}'", said)
        self.assertEqual(self.read("a"), "1\n")
        self.w.warren("apply", "--dry-run", copy)
        self.w.warren("apply", "--to", self.w.root / "out", copy)
        self.assertIn("is " + repr(str(self.base)) + ", not", self.w.fails("apply", "--trust-base", self.w.root, copy))
        self.assertEqual(self.read("a"), "1\n")
        self.w.warren("apply", "--trust-base", self.base, copy)
        self.assertEqual(self.read("a"), "22\n")
        self.w.warren("fs", copy, "write", "/a", input=b"333\n")
        self.w.warren("apply", copy)
        self.assertEqual(self.read("a"), "333\n")

    def test_a_file_from_elsewhere_asks_on_a_terminal(self):
        copy = self.foreign()
        said = self.talk(["apply", str(copy)], b"n\n")
        self.assertIn(f"Write its changes to {self.base}?".encode(), said)
        self.assertEqual(self.read("a"), "1\n")
        self.talk(["apply", str(copy)], b"y\n")
        self.assertEqual(self.read("a"), "22\n")

    def test_a_dry_run_says_all_that_apply_asks(self):
        copy = self.foreign()
        self.w.warren("fs", copy, "write", "/Makefile", input=b"all:\n\trm -rf /\n")
        out = self.w.warren("apply", "--dry-run", copy).decode()
        base = f"apply will ask, or needs --trust-base '{self.base}': "
        self.assertRegex(out, f"(?m)^{base}.*was not created here")
        self.assertRegex(out, "(?m)^runs by itself: /Makefile: ")
        self.assertIn("apply will ask, or needs --yes: 1 file may run the next time you work in the base\n", out)
        asks = json.loads(self.w.warren("apply", "--dry-run", "--json", copy))["asks"]
        self.assertEqual([(one["about"], one["agree"]) for one in asks],
                         [("base", f"--trust-base '{self.base}'"), ("programs", "--yes")])
        self.assertEqual([file["path"] for file in asks[1]["files"]], ["/Makefile"])
        # What is answered is not asked; what is not applied either.
        out = self.w.warren("apply", "--dry-run", "--yes", "--trust-base", self.base, copy).decode()
        self.assertNotIn("will ask", out)
        self.assertNotIn("--yes", self.w.warren("apply", "--dry-run", copy, "/a").decode())
        self.assertIn("not '/'", self.w.fails("apply", "--dry-run", "--trust-base", "/", copy))
        # Nothing was agreed to by any of it.
        self.assertIn("was not created here", self.w.fails("apply", "--yes", copy))
        # With a conflict too.
        overlaid.write(self.base / "a", "changed\n")
        said = self.w.fails("apply", "--dry-run", copy)
        self.assertIn("conflict: /a", said)
        self.assertIn(base, said)

    def test_another_base_than_agreed_to_needs_a_yes(self):
        self.fill(a="1\n")
        self.write("/a", "22\n")
        victim = self.w.root / "victim"
        victim.mkdir()
        self.set_base(self.w.file, str(victim))
        said = self.w.fails("apply", self.w.id)
        self.assertIn("now names another base", said)
        self.assertEqual(os.listdir(victim), [])

    def test_another_directory_at_the_bases_path_needs_a_yes(self):
        self.fill(a="1\n")
        self.write("/a", "22\n")
        self.base.rename(self.w.root / "moved")
        self.base.mkdir()
        overlaid.write(self.base / "a", "1\n")
        self.assertIn("another directory", self.w.fails("apply", "--force", self.w.id))
        self.assertEqual(self.read("a"), "1\n")

    def test_a_base_that_is_not_absolute_is_an_error(self):
        for base in (".", "", "base", "../base"):
            copy = self.w.home / "foreign.db"
            if not copy.exists():
                self.foreign()
            self.set_base(copy, base)
            here = overlaid.snapshot(self.w.root)
            for words in (("diff",), ("apply",), ("apply", "--force", "--trust-base", "."), ("discard", "--yes")):
                self.assertIn("not an absolute path", self.w.fails(*words, copy))
            self.assertEqual(overlaid.differences(overlaid.snapshot(self.w.root), here), [])

    def test_our_own_state_is_not_written(self):
        self.w.base = self.base = self.w.home
        self.w.init()
        self.w.change(lambda p: overlaid.write(p + "/plain", "1\n"))
        env = self.w.environment() | {"HOME": str(self.w.home / "state")}
        (self.w.home / "state").mkdir()
        self.w.warren("fs", self.w.id, "write", "/state/.agentfs/bases/x", input=b"forged")
        for force in ([], ["--force"]):
            said = self.w.fails("apply", "--trust-base", self.base, *force, self.w.id, "/state/.agentfs", env=env)
            self.assertIn("where Warren keeps its own state", said)
        self.assertFalse((self.w.home / "state/.agentfs/bases/x").exists())
        self.w.change(lambda p: shutil.rmtree(p + "/state"))
        self.w.fails("apply", self.w.id, "/state", env=env)
        self.assertIn("where Warren keeps its own state", self.w.fails("apply", self.w.id, "/state", "**/.agentfs", env=env))
        self.assertTrue((self.w.home / "state/.agentfs/bases").exists())

    def test_a_restored_agent_is_still_agreed_to(self):
        self.fill(a="1\n")
        self.write("/a", "22\n")
        self.w.warren("backup", self.w.id, self.w.root / "copy.db")
        self.w.warren("discard", "--yes", self.w.id)
        self.w.warren("restore", "--force", self.w.id, self.w.root / "copy.db")
        self.w.warren("apply", self.w.id)
        self.assertEqual(self.read("a"), "22\n")

    def test_the_output_names_the_base(self):
        self.fill(a="1\n")
        self.write("/a", "22\n")
        self.assertIn(f"applied to {self.base}: 1 modified", self.w.warren("apply", self.w.id).decode())
        self.write("/a", "333\n")
        self.assertEqual(json.loads(self.w.warren("apply", "--json", self.w.id))["base"], str(self.base))


class Names(Case):
    def session(self, name, script):
        return subprocess.run([mounted.program(), "run", "--session", name, "--", "sh", "-c", script], cwd=self.base,
                              env=self.w.environment(), capture_output=True, text=True, timeout=120)

    def run_here(self, *words):
        return subprocess.run([mounted.program(), *words], cwd=self.base, env=self.w.environment(), capture_output=True,
                              text=True, timeout=60)

    def test_a_planted_agent_does_not_take_over_a_sessions_name(self):
        overlaid.write(self.base / "a", "1\n")
        victim = self.w.root / "victim"
        victim.mkdir()
        done = self.session("fix", f"echo 2 > a; mkdir -p {victim}; {mounted.program()} init --base {victim} fix; "
                                   f"{mounted.program()} fs fix write /.bashrc evil")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warren apply session:fix", done.stderr)
        # What the agent put into .agentfs is not part of the changes unless it is named.
        listed = self.run_here("diff", "session:fix")
        self.assertEqual(listed.stdout, "M f /a\n")
        self.assertIn(".agentfs left out", listed.stderr)
        self.assertIn("A f /.agentfs/fix.db", self.run_here("diff", "session:fix", ".agentfs").stdout)
        self.assertEqual(self.run_here("apply", "fix").returncode, 0)
        self.assertEqual((self.read("a"), (self.base / ".agentfs").exists()), ("2\n", False))
        # Even if it gets there, nothing takes it for the session.
        self.assertEqual(self.run_here("apply", "--keep", "session:fix", ".agentfs").returncode, 0)
        self.assertTrue((self.base / ".agentfs/fix.db").exists())
        for words in (("apply", "fix"), ("diff", "fix"), ("discard", "--yes", "fix"), ("fs", "fix", "ls", "/"),
                      ("kv", "fix", "list"), ("undo", "fix")):
            refused = self.run_here(*words)
            self.assertNotEqual(refused.returncode, 0, words)
            self.assertIn(".agentfs/fix.db", refused.stderr)
            self.assertIn("run/fix/delta.db", refused.stderr)
        self.assertEqual(os.listdir(victim), [])
        self.assertEqual(self.run_here("diff", "session:fix").returncode, 0)
        refused = self.run_here("apply", "./.agentfs/fix.db")
        self.assertIn("was not created here", refused.stderr)
        self.assertEqual(os.listdir(victim), [])

    def test_session_is_understood_where_sessions_are_named(self):
        overlaid.write(self.base / "a", "1\n")
        self.session("fix", "echo 2 > a")
        self.assertEqual(self.session("session:fix", "cat a").stdout, "2\n")
        self.assertEqual(self.run_here("sessions", "rename", "session:fix", "session:other").returncode, 0)
        self.assertEqual(self.run_here("sessions", "delete", "--yes", "session:other").returncode, 0)
        self.assertIn("no session 'other'", self.run_here("diff", "session:other").stderr)

    def test_deleting_a_directory_does_not_delete_agents_in_it(self):
        overlaid.write(self.base / "d/x", "1\n")
        overlaid.write(self.base / "d/.agentfs/a.db", "an agent\n")
        self.session("fix", "rm -r d")
        self.assertEqual(self.run_here("diff", "fix").stdout, "D f /d/x\n")
        self.assertEqual(self.run_here("apply", "fix").returncode, 0)
        self.assertEqual(self.read("d/.agentfs/a.db"), "an agent\n")
        self.assertFalse((self.base / "d/x").exists())


class Hidden(Case):
    def run_in(self, script, *options):
        done = subprocess.run([mounted.program(), "run", "--session", "s", *options, "--", "sh", "-c", script], cwd=self.base,
                              env=self.w.environment(), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def fill(self):
        overlaid.write(self.base / "a/b/secret", "precious\n")
        overlaid.write(self.base / "a/b/other", "1\n")
        overlaid.write(self.base / "a/x", "1\n")

    def test_a_hidden_file_is_not_deleted_with_its_directory(self):
        self.fill()
        self.run_in("rm -rf a", "--hide", "a/b/secret")
        self.run_in("true")  # a later run that hides nothing changes nothing about that
        self.assertEqual(self.w.warren("diff", "session:s").decode(), "D f /a/b/other\nD f /a/x\n")
        self.w.warren("apply", "--keep", "session:s")
        self.assertEqual([str(p.relative_to(self.base)) for p in sorted(self.base.rglob("*"))], ["a", "a/b", "a/b/secret"])
        self.assertEqual(self.read("a/b/secret"), "precious\n")
        self.assertEqual(self.w.warren("diff", "session:s"), b"")

    def test_a_hidden_file_is_not_replaced_or_moved(self):
        for script, path in (("rm -rf a; echo new > a", "/a"), ("mv a c", "/c"),
                             ("rm -rf a; mkdir -p a/b; echo forged > a/b/secret", "/a/b/secret")):
            with self.subTest(script):
                self.doCleanups()
                self.setUp()
                self.fill()
                self.run_in(script, "--hide", "a/b/secret")
                before = overlaid.snapshot(self.base)
                self.assertIn(f"conflict: {path}: ", self.w.fails("apply", "session:s"))
                self.assertIn(f"conflict: {path}: ", self.w.fails("apply", "--conflict=markers", "session:s"))
                self.assertIn("hidden from the agent", self.w.fails("apply", "--force", "session:s"))
                self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])


class Privileges(Case):
    def test_a_set_user_id_bit_is_left_out_and_stays_a_change(self):
        self.fill(a="1\n")
        self.w.change(lambda p: (overlaid.write(p + "/a", "22\n"), os.chmod(p + "/a", 0o6755)))
        self.assertEqual(self.w.lines(), ["M f /a  [set-user-id, set-group-id]"])
        done = self.w.run("apply", "--force", self.w.id)
        self.assertIn(b"'/a': left out its set-user-id bit", done.stderr)
        self.assertEqual((stat.S_IMODE(os.stat(self.base / "a").st_mode), self.read("a")), (0o755, "22\n"))
        self.assertEqual(self.w.lines(), ["M f /a  [set-user-id, set-group-id]"])
        self.assertIn("is not a change", self.w.fails("apply", "--privileged", "/b", self.w.id))
        out = self.w.warren("apply", "--privileged", "/a", self.w.id).decode()
        self.assertIn("1 modified", out)
        self.assertEqual(stat.S_IMODE(os.stat(self.base / "a").st_mode), 0o6755)
        self.assertEqual(self.w.lines(), [])

    def test_devices_are_left_out(self):
        self.fill(a="1\n", d="old\n")
        self.w.change(lambda p: (os.mknod(p + "/disk", stat.S_IFBLK | 0o666, os.makedev(7, 200)),
                                 os.unlink(p + "/d"), os.mknod(p + "/d", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
                                 overlaid.write(p + "/a", "22\n")))
        self.assertIn("A ? /disk  [block device 7:200]", self.w.lines())
        for words in (("apply",), ("apply", "--to", self.w.root / "out")):
            done = self.w.run(*words, self.w.id)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"'/disk': left out, because it is a block device", done.stderr)
        self.assertEqual((sorted(os.listdir(self.base)), self.read("d"), self.read("a")), (["a", "d"], "old\n", "22\n"))
        self.assertNotIn("disk", os.listdir(self.w.root / "out"))
        self.assertEqual(len(self.w.lines()), 3)
        self.w.warren("apply", "--privileged", "/disk", self.w.id, "/disk")
        self.assertTrue(stat.S_ISBLK(os.stat(self.base / "disk").st_mode))

    def test_capabilities_are_left_out(self):
        self.fill(a="1\n")
        everything = bytes.fromhex("0000000201ffffff00000000ff01000000000000")
        everything = b"\x01\x00\x00\x02" + b"\xff" * 4 + b"\0" * 4 + b"\xff" * 4 + b"\0" * 4
        self.w.change(lambda p: (overlaid.write(p + "/new", "x\n"), os.setxattr(p + "/new", "security.capability", everything),
                                 os.setxattr(p + "/a", "trusted.x", b"1"), os.setxattr(p + "/a", "user.fine", b"1")))
        lines = self.w.lines()
        self.assertEqual(lines, ["M f /a  [trusted.x]", "A f /new  [security.capability]"])
        self.assertEqual(json.loads(self.w.warren("diff", "--json", self.w.id))[1]["remarks"], ["security.capability"])
        said = self.w.run("apply", "--force", self.w.id).stderr.decode()
        self.assertIn("'/new': left out its attribute security.capability", said)
        self.assertEqual((os.listxattr(self.base / "new"), os.listxattr(self.base / "a")), ([], ["user.fine"]))
        self.w.warren("apply", "--privileged", "/new", self.w.id, "/new")
        self.assertEqual(os.getxattr(self.base / "new", "security.capability"), everything)


class Programs(Case):
    def test_files_that_run_by_themselves_are_marked_and_confirmed(self):
        self.fill(a="1\n", **{"package.json": '{"scripts": {"test": "true"}, "version": "1"}\n'})
        overlaid.git("init", "-q", ".", cwd=self.base)
        config = (self.base / ".git/config").read_text()

        def change(p):
            overlaid.write(p + "/.git/hooks/pre-commit", "#!/bin/sh\n")
            overlaid.write(p + "/.git/config", config + "[core]\n\tfsmonitor = touch PWNED\n")
            for name in (".envrc", ".vscode/tasks.json", "sub/Makefile", "harmless"):
                overlaid.write(p + "/" + name, "x\n")
            overlaid.write(p + "/package.json", '{"scripts": {"test": "touch PWNED"}, "version": "1"}\n')
        self.w.change(change)
        marked = {line.split()[2] for line in self.w.lines("**", ".git") if "[runs by itself: " in line}
        self.assertEqual(marked, {"/.git/hooks/pre-commit", "/.git/config", "/.envrc", "/.vscode/tasks.json", "/sub/Makefile",
                                  "/package.json"})
        before = overlaid.snapshot(self.base)
        said = self.w.fails("apply", self.w.id, "**", ".git")
        for path in marked:
            self.assertIn(f"runs by itself: {path}: ", said)
        self.assertIn("--as-branch", said)
        self.assertIn("--yes", said)
        self.assertIn("6 files may run", said)
        said = self.w.fails("apply", self.w.id)
        self.assertIn("left out, because it is in .git: /.git/config, /.git/hooks/pre-commit", said)
        self.assertIn("4 files may run", said)
        self.w.fails("apply", "--force", self.w.id)
        self.talk(["apply", self.w.id], b"n\n")
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])
        self.w.warren("apply", self.w.id, "/harmless")
        self.talk(["apply", self.w.id, "/.envrc"], b"y\n")
        self.assertEqual(self.read(".envrc"), "x\n")
        self.w.warren("apply", "--yes", self.w.id)
        self.assertEqual(self.w.lines(), [])
        self.assertFalse((self.base / ".git/hooks/pre-commit").exists())
        self.w.warren("apply", "--yes", self.w.id, ".git")
        self.assertEqual(self.w.lines("**", ".git"), [])
        self.assertTrue((self.base / ".git/hooks/pre-commit").exists())

    def test_other_ways_to_make_something_run_are_marked(self):
        self.fill(a="1\n", evil__tasks="x\n", mine__x="x\n")
        overlaid.write(self.base / ".git/hooks/sample", "#!/bin/sh\n")

        def change(p):
            os.chmod(p + "/.git/hooks/sample", 0o755)
            os.symlink("evil", p + "/.vscode")
            os.rename(p + "/mine", p + "/.husky")
            os.rename(p + "/a", p + "/.git/hooks/pre-push")
            for name in ("bare/HEAD", "bare/objects/x", "bare/config", "bare/hooks/x", ".githooks/post-merge", "config", "x.pth",
                         ".claude/hooks/x", "links/o/x", "links/config", "shared/commondir"):
                overlaid.write(p + "/" + name, "x\n")
            for name, target in (("HEAD", "refs/heads/main"), ("objects", "o"), ("refs", "o")):
                os.symlink(target, f"{p}/links/{name}")
        self.w.change(change)
        marked = {line.split("  [")[0].split()[-1] for line in self.w.lines("**", ".git") if "[runs by itself: " in line}
        self.assertEqual(marked, {"/.git/hooks/sample", "/.vscode", "/.husky", "/.git/hooks/pre-push", "/bare/HEAD", "/bare/config",
                                  "/bare/hooks/x", "/links/HEAD", "/links/config", "/shared/commondir", "/.githooks/post-merge", "/x.pth", "/.claude/hooks/x"})

    def test_files_that_the_settings_of_git_name_are_marked(self):
        self.fill(**{"tools__clean.sh": "x\n", "tools__settings": "\n", "tools__other": "x\n", "hooks__x": "x\n"})
        overlaid.git("init", "-q", ".", cwd=self.base)
        for name, value in (("filter.x.clean", "sh tools/clean.sh %f"), ("include.path", "../tools/settings"),
                            ("core.hooksPath", str(self.base / "hooks")), ("user.name", "tools/other")):
            overlaid.git("config", name, value, cwd=self.base)

        def change(p):
            for name in ("tools/clean.sh", "tools/settings", "tools/other", "hooks/x"):
                overlaid.write(p + "/" + name, "changed\n")
        self.w.change(change)
        marked = {line.split("  [")[0].split()[-1] for line in self.w.lines("**") if "[runs by itself: " in line}
        self.assertEqual(marked, {"/tools/clean.sh", "/tools/settings", "/hooks/x"})

    def test_what_settings_of_remotes_and_submodules_run_is_marked(self):
        named = {"tools/up.sh": ("submodule.one.update", f"!{self.base}/tools/up.sh"),
                 "two/up.sh": ("submodule.two.update", "!./up.sh -v"),
                 "tools/pack.sh": ("remote.origin.uploadpack", "./tools/pack.sh"),
                 "tools/receive.sh": ("remote.origin.receivepack", "sh tools/receive.sh"),
                 "tools/transport.sh": ("remote.other.url", "ext::./tools/transport.sh %S"),
                 "bare.git/hooks/update": ("remote.other.pushurl", "./bare.git"),
                 "file.git/hooks/update": ("remote.other.pushurl", f"file://{self.base}/file.git")}
        harmless = {"checkout": ("submodule.three.update", "checkout"), "three": ("submodule.three.url", "./three"),
                    "heads": ("remote.origin.fetch", "+heads:heads")}
        files = [*named, *harmless]
        self.fill(**{name.replace("/", "__"): "x\n" for name in files})
        overlaid.git("init", "-q", ".", cwd=self.base)
        for name, value in (named | harmless).values():
            overlaid.git("config", "--add", name, value, cwd=self.base)
        self.w.change(lambda p: [overlaid.write(f"{p}/{name}", "changed\n") for name in files])
        marked = {line.split("  [")[0].split()[-1] for line in self.w.lines("**") if "[runs by itself: " in line}
        self.assertEqual(marked, {f"/{name}" for name in named})

    def test_what_everybody_can_write_is_marked(self):
        self.fill(a="1\n", b="1\n")
        self.w.change(lambda p: (os.chmod(p + "/a", 0o666), os.chmod(p + "/b", 0o600)))
        marked = [line.split()[2] for line in self.w.lines() if "[everybody can write it]" in line]
        self.assertEqual(marked, ["/a"])

    def test_all_in_a_dialog_does_not_mean_programs(self):
        self.fill(a="1\n", b="1\n", z="1\n")
        for path in ("/a", "/b/Makefile", "/z"):
            if path == "/b/Makefile":
                self.fs("rm", "/b")
            self.write(path, "22\n")
        said = self.talk(["apply", "-i", self.w.id], b"a\nn\n")
        self.assertIn(b"runs by itself", said)
        self.assertEqual((self.read("a"), self.read("z"), (self.base / "b/Makefile").exists()), ("22\n", "22\n", False))

    def test_of_a_package_only_the_scripts_count(self):
        self.fill(**{"package.json": '{"scripts": {"test": "true"}, "version": "1"}\n'})
        self.write("/package.json", '{"version": "2", "scripts": {"test": "true"}}\n')
        self.assertEqual(self.w.lines(), ["M f /package.json"])
        self.w.warren("apply", self.w.id)


class Rows(Case):
    """Paths in the file that Warren would not write."""

    def put(self, statement):
        database = sqlite3.connect(self.w.file)
        database.execute(statement)
        database.commit()
        database.close()

    def test_a_whiteout_without_its_slash_is_one_in_the_root(self):
        self.fill(foo="1\n", other="1\n")
        self.put("INSERT INTO fs_whiteout (path, parent_path, created_at) VALUES ('foo', '', 1)")
        self.assertEqual(self.w.changes(), ["D f /foo"])
        self.w.warren("discard", "--yes", self.w.id, "/foo")
        self.assertEqual((self.w.changes(), self.fs("cat", "/foo")), ([], b"1\n"))
        self.put("INSERT INTO fs_whiteout (path, parent_path, created_at) VALUES ('foo', '', 1)")
        self.put("INSERT INTO fs_whiteout (path, parent_path, created_at) VALUES ('some/where', '', 1)")
        self.w.warren("apply", "--force", self.w.id)
        self.assertEqual((sorted(os.listdir(self.base)), self.w.changes()), (["other"], []))

    def test_a_relative_path_of_the_base_is_an_error(self):
        self.fill(a="1\n")
        self.write("/a", "2\n")
        for statement in ("INSERT INTO wr_lost_link (base_path, base_ino, at, at_nsec) VALUES ('foo', 1, 1, 1)",
                          "UPDATE wr_origin SET base_path = 'foo'"):
            with self.subTest(statement):
                self.put("DELETE FROM wr_lost_link")
                self.put(statement)
                for words in (("diff",), ("discard", "--yes"), ("apply",)):
                    self.assertIn("the agent file names 'foo' as a path of the base", self.w.fails(*words, self.w.id, timeout=60))
        self.assertEqual(self.read("a"), "1\n")


class TwoNames(Case):
    """A directory with two names, and even inside itself: every command ends, with an error that says what to do."""

    def limited(self):
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    def sql(self, file, statement, rows):
        database = sqlite3.connect(file)
        database.executemany(statement, rows)
        database.commit()
        database.close()

    def node(self, file, name):
        database = sqlite3.connect(file)
        (found,) = database.execute("SELECT ino FROM fs_dentry WHERE name = ?", (name,)).fetchone()
        database.close()
        return found

    def put_inside_itself(self, id, file):
        """/n/m has many names that lead to /n: a walk would double with each level."""
        self.w.warren("fs", id, "mkdir", "/n")
        self.w.warren("fs", id, "mkdir", "/n/m")
        self.w.warren("fs", id, "write", "/n/m/file", input=b"hello\n")
        self.w.warren("checkpoint", id, "take", "before")
        rows = [(f"again{i}", self.node(file, "m"), self.node(file, "n")) for i in range(20)]
        self.sql(file, "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES (?, ?, ?)", rows)

    def assert_ends(self, *words):
        with self.subTest(words):
            done = self.w.run(*words, preexec_fn=self.limited)
            said = done.stderr.decode(errors="replace")
            self.assertGreater(done.returncode, 0, said)
            self.assertIn("has another name, too", said)
            self.assertIn("`warren fsck`", said)

    def test_a_directory_inside_itself_ends_every_command(self):
        self.fill(a="1\n")
        self.put_inside_itself(self.w.id, self.w.file)
        id, out = self.w.id, self.w.root / "out"
        for words in (("diff", id), ("apply", "-n", id), ("apply", id), ("discard", "--yes", id, "/a"), ("apply", "--to", out, id),
                      ("fs", id, "find", "/"), ("fs", id, "ls", "-R", "/"), ("fs", id, "tree", "/"), ("fs", id, "du", "/"),
                      ("fs", id, "grep", "hello", "/"), ("fs", id, "get", "/n", out), ("fs", id, "cp", "-r", "/n", "/copy"),
                      ("fs", id, "rm", "-r", "/n"), ("checkpoint", id, "diff", "before")):
            self.assert_ends(*words)

        def look(point):
            for folder, _, _ in os.walk(point):
                self.assertLess(folder.count("again"), 2)
            self.assertEqual(sorted(os.listdir(point)), ["a", "n"])  # it is still served
        self.w.change(look)
        self.w.warren("fsck", "--repair", self.w.id)
        self.assertEqual(self.w.changes(), ["A d /n", "A d /n/m", "A f /n/m/file"])

    def test_a_directory_inside_itself_without_a_base(self):
        self.w.warren("init", "plain")
        file = self.w.home / ".agentfs" / "plain.db"
        self.put_inside_itself("plain", file)
        out = self.w.root / "out"
        for words in (("find", "/"), ("ls", "-R", "/"), ("tree", "/"), ("du", "/"), ("grep", "hello", "/"), ("get", "/n", out),
                      ("cp", "-r", "/n", "/copy"), ("rm", "-r", "/n")):
            self.assert_ends("fs", "plain", *words)
        for words in (("diff", "before"), ("restore", "before", "/n")):
            self.assert_ends("checkpoint", "plain", *words)
        self.w.warren("fsck", "--repair", "plain")
        self.assertEqual(self.w.warren("fs", "plain", "find", "/"), b"/\n/n\n/n/m\n/n/m/file\n")

    def test_directories_that_all_have_two_names(self):
        self.fill(a="1\n")
        self.fs("mkdir", "-p", "/" + "/".join(f"d{i}" for i in range(40)))
        database = sqlite3.connect(self.w.file)
        rows = database.execute("SELECT 'other ' || name, parent_ino, ino FROM fs_dentry WHERE name LIKE 'd%'").fetchall()
        database.close()
        self.assertEqual(len(rows), 40)
        self.sql(self.w.file, "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES (?, ?, ?)", rows)
        self.assert_ends("diff", self.w.id)


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
