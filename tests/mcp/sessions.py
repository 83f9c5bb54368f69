#!/usr/bin/env python3
"""`warren serve mcp` for a session of `warren run`: its project, its changes, its sandbox.

    WARREN=path/to/warren sessions.py [-v] [Sessions.test_name]
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "run")]
import sandboxed  # noqa: E402
from serving import WARREN, Server  # noqa: E402

SLEEP = 10_000_000 + os.getpid()  # of this test alone


class Sessions(unittest.TestCase):
    def setUp(self):
        sandboxed.need_fuse()
        self.world = self.enterContext(sandboxed.World())
        self.world.inside("s", "sh", "-c", "echo changed > file; echo new > added; echo kept > /agent/s/mem/semantic/note")

    def server(self, *args, **options):
        return self.enterContext(Server(self.world.base, *args, agent="session:s", environment=self.world.environment(), **options))

    def error_of(self, answer):
        self.assertTrue(answer["isError"], answer)
        return json.loads(answer["content"][0]["text"])

    def text(self, answer):
        self.assertFalse(answer["isError"], answer)
        return answer["content"][0]["text"]

    def test_the_project_is_served_with_the_changes_of_the_session(self):
        server = self.server()
        self.assertEqual(self.text(server.call("read_file", path="/project/file")), "changed\n")
        self.assertEqual(self.text(server.call("read_file", path="/project/dir/inner")), "inner\n")
        self.assertEqual(self.text(server.call("read_file", path="/mem/semantic/note")), "kept\n")
        server.call("write_file", path="/project/dir/inner", content="through mcp\n")
        self.assertEqual((self.world.base / "dir" / "inner").read_text(), "inner\n")
        self.assertEqual(self.world.inside("s", "cat", "dir/inner"), "through mcp\n")
        uris = [one["uri"] for one in server.ask("resources/list")["result"]["resources"]]
        self.assertIn("vfs://s/project/file", uris)

    def test_a_long_command_reports_that_it_goes_on(self):
        server = self.server("--allow", "run")
        server.send_request("long", "tools/call", name="run", _meta={"progressToken": "t"},
                            arguments={"command": "mkfifo pipe; cat pipe", "timeout_seconds": 3600})
        reports = [server.wait_for(lambda one: one.get("method") == "notifications/progress")["params"] for _ in range(2)]
        self.assertEqual([one["progressToken"] for one in reports], ["t", "t"])
        self.assertLess(0, reports[0]["progress"])
        self.assertLess(reports[0]["progress"], reports[1]["progress"])
        server.notify("notifications/cancelled", requestId="long")
        self.assertEqual(server.ask("ping")["result"], {})

    def found(self, server, **query):
        answer = server.call("search", **query)
        self.assertFalse(answer["isError"], answer)
        return [one["ref"] for one in answer["structuredContent"]["results"]]

    def test_search_finds_the_project(self):
        server = self.server()
        self.assertEqual(self.found(server, pattern="changed"), ["/project/file"])
        self.assertEqual(self.found(server, pattern="inner", path="/project/dir"), ["/project/dir/inner"])
        self.assertEqual(self.found(server, pattern="inner", glob="/project/dir/**"), ["/project/dir/inner"])
        self.assertEqual(self.found(server, pattern="kept"), ["/mem/semantic/note"])
        server.call("write_file", path="/project/dir/inner", content="rewritten here\n")
        self.assertEqual(self.found(server, pattern="rewritten"), ["/project/dir/inner"])
        deny = {"version": 1, "rules": [{"path": "/project/dir/**", "operation": "read", "effect": "deny"}]}
        policy = self.world.root / "policy.json"
        policy.write_text(json.dumps(deny))
        self.world.warren("policy", "session:s", "set", str(policy))
        self.assertEqual(self.found(server, pattern="rewritten"), [])
        limited = self.server("--root", "/mem")
        self.assertEqual(self.found(limited, pattern="changed"), [])

    def test_search_does_not_find_what_runs_do_not_see(self):
        (self.world.base / "secret").write_text("treasure\n")
        self.world.run("--session", "h", "--hide", str(self.world.base / "secret"), "--keep", "--", "true")
        self.world.warren("context", "session:h", "search", "treasure")  # the operator's search may index it
        server = self.enterContext(Server(self.world.base, agent="session:h", environment=self.world.environment()))
        self.assertEqual(self.found(server, pattern="treasure"), [])

    def test_the_base_of_a_copied_agent_file_is_not_indexed(self):
        copy = self.world.root / "copy.db"
        subprocess.run(["cp", self.world.session_dir("s") / "delta.db", copy], check=True)
        server = self.enterContext(Server(self.world.base, agent=str(copy), environment=self.world.environment()))
        self.assertEqual(self.found(server, pattern="base|inner|changed"), [])
        server.end()
        index = (self.world.root / "copy.index.db").read_bytes()
        self.assertTrue(b"kept" in index)
        self.assertFalse(b"inner" in index)

    def test_what_runs_do_not_see_is_not_served(self):
        (self.world.base / "secret").write_text("treasure\n")
        self.world.run("--session", "h", "--hide", str(self.world.base / "secret"), "--keep", "--", "true")
        server = self.enterContext(Server(self.world.base, agent="session:h", environment=self.world.environment()))
        answer = server.call("read_file", path="/project/secret")
        self.assertTrue(answer["isError"])
        self.assertNotIn("treasure", json.dumps(answer))
        self.assertIn("error", server.ask("resources/read", uri="vfs://h/project/secret"))
        self.assertIn("error", server.ask("resources/subscribe", uri="vfs://h/project/secret"))
        self.assertNotIn("error", server.ask("resources/subscribe", uri="vfs://h/project/secretary"))

    def test_what_earlier_runs_did_not_see_a_command_does_not_see_either(self):
        (self.world.base / "secret").write_text("treasure\n")
        self.world.run("--session", "h", "--hide", str(self.world.base / "secret"), "--keep", "--", "true")
        server = self.enterContext(Server(self.world.base, "--allow", "run", agent="session:h", environment=self.world.environment()))
        answer = server.call("run", command="cat secret; cp secret copy; cat copy")
        self.assertNotIn("treasure", json.dumps(answer))

    def test_a_copied_agent_file_does_not_show_its_base(self):
        copy = self.world.root / "copy.db"
        subprocess.run(["cp", self.world.session_dir("s") / "delta.db", copy], check=True)
        server = self.enterContext(Server(self.world.base, agent=str(copy), environment=self.world.environment()))
        self.assertTrue(server.call("read_file", path="/project/file")["isError"])
        self.assertEqual(self.error_of(server.call("diff"))["error_type"], "denied")

    def test_diff_shows_what_the_session_has_changed(self):
        server = self.server()
        found = server.call("diff", patch=True)["structuredContent"]
        self.assertEqual({(one["change"], one["path"]) for one in found["changes"]},
                         {("modified", "/project/file"), ("added", "/project/added")})
        self.assertIn("+changed", found["patch"])
        server.call("checkpoint", name="now")
        server.call("write_file", path="/project/later", content="x")
        since = server.call("diff", **{"from": "now"})["structuredContent"]
        self.assertEqual([one["path"] for one in since["changes"]], ["/project/later"])

    def test_run_is_off_by_default(self):
        server = self.server()
        self.assertFalse(server.tools() & {"run", "apply"})
        self.assertEqual(server.ask("tools/call", name="run", arguments={"command": "true"})["error"]["code"], -32602)
        for args, told in ((["--tools", "run"], "--allow run"), (["--allow", "run", "--root", "/project"], "--root"),
                           (["--allow", "apply", "--read-only"], "--read-only")):
            done = subprocess.run([WARREN, "serve", "mcp", "session:s", *args], cwd=self.world.base, capture_output=True,
                                  text=True, stdin=subprocess.DEVNULL, check=False, env=self.world.environment())
            self.assertEqual(done.returncode, 1, args)
            self.assertIn(told, done.stderr)

    def test_a_command_runs_in_the_sandbox(self):
        server = self.server("--allow", "run")
        done = server.call("run", command="cat file; echo made > made; echo oops >&2; exit 3")["structuredContent"]
        self.assertEqual((done["exit_status"], done["stdout"], done["stderr"]), (3, "changed\n", "oops\n"))
        self.assertFalse((self.world.base / "made").exists())
        self.assertEqual(self.text(server.call("read_file", path="/project/made")), "made\n")
        outside = self.world.canary / "file"
        server.call("run", command=["sh", "-c", f"echo broken > {outside}"])
        self.assertEqual(outside.read_text(), "canary\n")

    def test_a_command_is_bounded_in_time_and_output(self):
        server = self.server("--allow", "run")
        done = server.call("run", command="echo up; sleep 1000", timeout_seconds=1)["structuredContent"]
        self.assertTrue(done["has_timed_out"])
        self.assertEqual(done["stdout"], "up\n")
        done = server.call("run", command="yes | head -c 3000000")["structuredContent"]
        self.assertTrue(done["is_cut"])
        self.assertEqual(len(done["stdout"]), 128 * 1024)

    def test_a_cancelled_command_ends(self):
        server = self.server("--allow", "run")
        server.send_request("c", "tools/call", name="run",
                            arguments={"command": "mkfifo pipe; echo ready > started; cat pipe", "timeout_seconds": 3600})
        sandboxed.wait_for(lambda: not server.call("read_file", path="/project/started")["isError"], "it does not start")
        server.notify("notifications/cancelled", requestId="c")
        done = server.call("run", command="true")["structuredContent"]
        self.assertEqual(done["exit_status"], 0)
        sandboxed.wait_for(lambda: self.failed_runs(), "the cancelled call is not in the trail")

    def test_sigterm_after_the_end_of_the_input_ends_the_server_and_its_command(self):
        server = self.server("--allow", "run")
        server.send_request("c", "tools/call", name="run",
                            arguments={"command": "mkfifo pipe; echo ready > started; cat pipe", "timeout_seconds": 3600})
        sandboxed.wait_for(lambda: not server.call("read_file", path="/project/started")["isError"], "it does not start")
        server.process.stdin.close()
        server.process.terminate()
        self.assertEqual(server.process.wait(timeout=60), 0)

    def begin_other_run(self):
        """A run of the same session that goes on."""
        other = self.world.start("run", "--session", "s", "--", "sh", "-c", "echo on; read line; echo still",
                                 stdin=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (other.kill(), other.wait(), other.stdin.close(), other.stdout.close(), other.stderr.close()))
        self.assertEqual(other.stdout.readline(), "on\n")
        return other

    def check_lives_on(self, other):
        out, err = other.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual((other.returncode, out), (0, "still\n"), err)

    def sleepers(self):
        found = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and f"sleep\0{SLEEP}".encode() in pathlib.Path(f"/proc/{entry}/cmdline").read_bytes():
                    found.append(entry)
            except OSError:
                continue
        return found

    STUBBORN = f"trap '' TERM INT HUP; (setsid sleep {SLEEP} &); sleep {SLEEP} & echo ready > started; sleep {SLEEP}"

    def test_a_command_ends_with_all_that_it_started_while_another_run_goes_on(self):
        other = self.begin_other_run()
        server = self.server("--allow", "run")
        for seconds in (1, 10, 60):  # a busy machine may need longer to start it
            done = server.call("run", command=self.STUBBORN, timeout_seconds=seconds)["structuredContent"]
            self.assertTrue(done["has_timed_out"])
            sandboxed.wait_for(lambda: not self.sleepers(), "a process is left after the time limit")
            has_started = not server.call("remove", path="/project/started")["isError"]
            if has_started:
                break
        self.assertTrue(has_started)
        server.send_request("c", "tools/call", name="run", arguments={"command": self.STUBBORN, "timeout_seconds": 3600})
        sandboxed.wait_for(lambda: len(self.sleepers()) == 3, "it does not start")
        server.notify("notifications/cancelled", requestId="c")
        sandboxed.wait_for(lambda: not self.sleepers(), "a process is left after the cancellation")
        self.check_lives_on(other)

    def test_a_command_ends_with_a_killed_server_while_another_run_goes_on(self):
        other = self.begin_other_run()
        server = self.server("--allow", "run")
        server.send_request("c", "tools/call", name="run", arguments={"command": self.STUBBORN, "timeout_seconds": 3600})
        sandboxed.wait_for(lambda: len(self.sleepers()) == 3, "it does not start")
        server.process.kill()
        sandboxed.wait_for(lambda: not self.sleepers(), "a process is left after the server was killed")
        self.check_lives_on(other)

    def test_a_command_does_not_keep_a_server_whose_client_has_ended(self):
        other = self.begin_other_run()
        for gone in ("stdin", "stdout"):  # one that still reads, and one that does not
            with self.subTest(gone):
                server = self.server("--allow", "run")
                server.send_request("c", "tools/call", name="run", arguments={"command": self.STUBBORN, "timeout_seconds": 3600})
                sandboxed.wait_for(lambda: len(self.sleepers()) == 3, "it does not start")
                if gone == "stdout":
                    server.process.stdout.close()
                server.process.stdin.close()
                self.assertEqual(server.process.wait(timeout=sandboxed.PATIENCE_SECONDS), 0)
                sandboxed.wait_for(lambda: not self.sleepers(), "a process is left after the end of input")
        self.check_lives_on(other)

    def test_a_short_command_is_answered_after_the_end_of_input(self):
        server = self.server("--allow", "run")
        server.send_request("c", "tools/call", name="run", arguments={"command": "echo answer"})
        server.process.stdin.close()
        self.assertEqual(server.receive()["result"]["structuredContent"]["stdout"], "answer\n")
        self.assertEqual(server.process.wait(timeout=sandboxed.PATIENCE_SECONDS), 0)

    def test_a_command_has_the_network_that_earlier_runs_had(self):
        self.world.run("--session", "n", "--no-network", "--keep", "--", "true")
        server = self.enterContext(Server(self.world.base, "--allow", "run", agent="session:n", environment=self.world.environment()))
        devices = server.call("run", command="ls /sys/class/net; cat /proc/net/dev")["structuredContent"]["stdout"]
        self.assertNotIn("eth", devices)
        self.assertIn("lo:", devices)

    def failed_runs(self):
        calls = json.loads(self.world.warren("timeline", "session:s", "--json").stdout)
        return [one for one in calls if one.get("name") == "run" and one.get("error")]

    def test_apply_writes_to_the_project(self):
        server = self.server("--allow", "apply")
        dry = server.call("apply", dry_run=True)["structuredContent"]
        self.assertEqual((dry["total"], dry["is_dry_run"]), (2, True))
        self.assertEqual((self.world.base / "file").read_text(), "of the base\n")
        one = server.call("apply", paths=["/project/added"])["structuredContent"]
        self.assertEqual([change["path"] for change in one["applied"]], ["/project/added"])
        self.assertEqual((self.world.base / "added").read_text(), "new\n")
        (self.world.base / "file").write_text("somebody else\n")
        os.utime(self.world.base / "file")
        error = self.error_of(server.call("apply"))
        self.assertEqual(error["error_type"], "conflict")
        self.assertIn("/project/file", error["message"])
        self.assertEqual((self.world.base / "file").read_text(), "somebody else\n")
        self.assertEqual(self.error_of(server.call("apply", paths=["/mem"]))["error_type"], "invalid_argument")

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words], cwd=self.world.base, check=True,
                              capture_output=True, text=True, env=self.world.environment()).stdout.strip()

    def commit_in(self, script):
        self.world.inside("g", "sh", "-ec", f"export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a "
                          f"GIT_COMMITTER_EMAIL=a@example.org; {script}")

    def git_server(self, script):
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-qm", "first")
        self.commit_in(script)
        return self.enterContext(Server(self.world.base, "--allow", "apply", agent="session:g", environment=self.world.environment()))

    def test_commits_are_named_by_diff_and_apply(self):
        server = self.git_server("for i in 1 2; do echo $i > n$i; git add n$i; git commit -qm n$i; done; echo r > rest")
        tip = self.world.inside("g", "git", "rev-parse", "HEAD").strip()
        shown = server.call("diff")
        self.assertEqual(shown["structuredContent"]["commits"], {"branches": [{"branch": "main", "commit": tip}], "count": 2})
        self.assertIn(f"new commits: main is at {tip}", self.text(shown))
        dry = server.call("apply", dry_run=True)
        self.assertIn("Would write 2 commits, as the branch 'warren/g'", self.text(dry))
        self.assertEqual(self.git("branch", "--list", "warren/*"), "")
        done = server.call("apply")
        self.assertEqual(done["structuredContent"]["commits"],
                         {"count": 2, "branch": "warren/g", "commit": tip, "files": 2, "waiting": []})
        self.assertEqual([one["path"] for one in done["structuredContent"]["applied"]], ["/project/rest"])
        self.assertEqual(self.text(done), "Applied 1 change\nWrote 2 commits, as the branch 'warren/g' of the project's repository; "
                         "its files are written when the operator merges it\n2 changes are in the commits, not written as files")
        self.assertEqual(self.git("rev-parse", "warren/g"), tip)
        self.assertNotIn("commits", server.call("diff")["structuredContent"])

    def test_what_only_the_operator_can_agree_to_is_said_without_options(self):
        server = self.git_server("echo 1 > mine; git add mine; git commit -qm one")
        (self.world.base / "file").write_text("half done\n")
        self.commit_in("echo 2 > mine; git commit -qam two")
        self.assertIn("Only the operator can agree to this: 1 file in the commits", self.text(server.call("apply", dry_run=True)))
        error = self.error_of(server.call("apply"))
        self.assertEqual(error["error_type"], "denied")
        self.assertIn("1 file in the commits is not a change of this session: /file", error["message"])
        self.assertEqual(error["next_action_hint"], "Ask the operator, who can look at it and agree.")
        self.assertNotIn("--", json.dumps(error))
        self.git("branch", "warren/g", self.git("commit-tree", "-m", "another", "HEAD^{tree}"))
        error = self.error_of(server.call("apply"))
        self.assertIn("the branch 'warren/g' has commits that are not in the agent's branch", error["message"])
        self.assertNotIn("--", json.dumps(error))

    def test_a_merge_under_way_is_refused(self):
        server = self.git_server("git checkout -q -b other; echo 2 > file; git commit -qam other; git checkout -q main; "
                                 "echo 3 > file; git commit -qam main; git merge other > /dev/null || true")
        error = self.error_of(server.call("apply"))
        self.assertEqual((error["error_type"], error["message"]),
                         ("denied", "nothing was applied: a merge is under way in the session, with unresolved conflicts in 1 file: /file"))
        self.assertEqual(self.git("branch", "--list", "warren/*"), "")

    def deny(self, path, *operations):
        policy = self.world.root / "policy.json"
        policy.write_text(json.dumps({"version": 1, "rules": [{"path": path, "operation": list(operations), "effect": "deny"}]}))
        self.assertEqual(self.world.warren("policy", "session:s", "set", str(policy)).returncode, 0)

    def test_apply_writes_nothing_that_diff_does_not_show(self):
        self.deny("/project/added", "read", "write", "delete")
        server = self.server("--allow", "apply")
        shown = server.call("diff")
        self.assertEqual((shown["structuredContent"]["total"], shown["structuredContent"]["left_out"]), (1, 1))
        self.assertIn("left out", self.text(shown))
        for arguments in ({}, {"paths": ["/project/added"]}, {"dry_run": True}):
            error = self.error_of(server.call("apply", **arguments))
            self.assertEqual(error["error_type"], "denied", arguments)
            self.assertNotIn("added", error["message"])
        self.assertFalse((self.world.base / "added").exists())
        self.assertEqual((self.world.base / "file").read_text(), "of the base\n")
        self.assertEqual(server.call("apply", paths=["/project/file"])["structuredContent"]["total"], 1)
        self.assertEqual((self.world.base / "file").read_text(), "changed\n")

    def test_apply_writes_nothing_that_may_not_be_written(self):
        self.deny("/project/file", "write")
        server = self.server("--allow", "apply")
        self.assertEqual(server.call("diff")["structuredContent"]["left_out"], 0)
        self.assertEqual(self.error_of(server.call("apply"))["error_type"], "denied")
        self.assertEqual(server.call("apply", paths=["/project/added"])["structuredContent"]["total"], 1)
        self.assertEqual((self.world.base / "file").read_text(), "of the base\n")

    def test_a_yes_to_apply_covers_only_the_changes_it_was_asked_about(self):
        server = self.server("--allow", "apply", capabilities={"elicitation": {}})
        asked = []

        def reply(message):
            asked.append(message["params"]["message"])
            if len(asked) == 1:
                self.world.inside("s", "sh", "-c", "echo evil > file")
            return {"action": "accept", "content": {"confirm": True}}

        server.answer_request = reply
        error = self.error_of(server.call("apply"))
        self.assertEqual(error["error_type"], "conflict", error)
        self.assertEqual((self.world.base / "file").read_text(), "of the base\n")
        self.assertFalse((self.world.base / "added").exists())
        self.assertEqual(server.call("apply")["structuredContent"]["total"], 2)
        self.assertEqual((self.world.base / "file").read_text(), "evil\n")
        self.assertIn(f"Write 2 changes to {self.world.base}? added /project/added, modified /project/file", asked[0])

    def test_a_server_of_another_agent_cannot_be_allowed_to_run(self):
        subprocess.run([WARREN, "init", "plain"], cwd=self.world.base, check=True, capture_output=True,
                       env=self.world.environment())
        done = subprocess.run([WARREN, "serve", "mcp", "plain", "--allow", "run"], cwd=self.world.base, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, check=False, env=self.world.environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn("session", done.stderr)


if __name__ == "__main__":
    unittest.main()
