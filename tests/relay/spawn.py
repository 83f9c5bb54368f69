#!/usr/bin/env python3
"""Agents that the relay starts: what is allowed, what they are given, who may end them, what they leave to their next life."""
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess

from relaying import WARREN, RelayCase, configure, main
from spawning import SpawnCase, is_alive, running_commands


class Spawn(SpawnCase):
    def test_an_agent_is_started_as_it_was_asked_for_and_its_spawner_hears_of_it(self):
        os.environ["TASK"] = "from the relay"
        os.environ["UNLISTED_SECRET"] = "not to be passed on"
        self.addCleanup(os.environ.pop, "TASK")
        self.addCleanup(os.environ.pop, "UNLISTED_SECRET")
        (self.work / "project").mkdir()
        self.up()
        self.agent("alice")
        prompt = "; touch x $(touch x) `touch x` && \"two\" 'one' {name} {dir} \\ *\nsecond line: \x80\xff".encode("latin-1")
        body = (f"TO: __orchestrator__\nKIND: spawn\n\nNAME: worker\nCLI: looks\nWORKING_DIR: {self.work}/project\n"
                "ENV: TASK=build,MY_KEY=a=b\nPROMPT: ").encode() + prompt + b"\n"
        message = self.send("alice", body)
        seen = self.seen("worker")
        words = [bytes.fromhex(word) for word in seen["argv"]]
        self.assertEqual(words, [prompt, b"before " + prompt + b" after", b"worker", b"{not a placeholder}"])
        self.assertEqual(seen["cwd"], f"{self.work}/project")
        self.assertEqual(list((self.work / "project").iterdir()), [])
        environment = seen["env"]
        home = f"{self.root}/agents/worker"
        self.assertEqual([environment[name] for name in ("TASK", "MY_KEY", "PWD", "AGENT_RELAY_NAME", "AGENT_RELAY_ROOT",
                                                         "AGENT_RELAY_INBOX", "AGENT_RELAY_OUTBOX")],
                         ["build", "a=b", f"{self.work}/project", "worker", str(self.root), f"{home}/inbox", f"{home}/outbox"])
        self.assertNotIn("UNLISTED_SECRET", environment)
        self.assertNotIn("AGENT_RELAY_CONTINUITY", environment)
        self.assertEqual(len(environment["AGENT_RELAY_TOKEN"]), 64)
        self.assertEqual(set(seen["fds"]), {"0", "1", "2"})
        self.assertEqual(seen["fds"]["0"], "/dev/null")
        self.assertEqual((seen["sid"], seen["pgid"]), (seen["pid"], seen["pid"]))
        self.assertEqual(seen["blocked"], "0000000000000000")
        self.wait(lambda: self.states("alice", message) == ["spawned", "exited"])
        (_, _, started, _), (_, _, ended, _) = self.told("alice", message)
        self.assertEqual((started["PID"], started["AGENT"], ended["OUTCOME"]), (str(seen["pid"]), "worker", "exit status 0"))
        self.assertFalse(pathlib.Path(f"/proc/{seen['pid']}").exists(), "a zombie is left")
        self.assertIn("to standard error", pathlib.Path(f"{home}/agent.log").read_text())
        self.assertEqual(os.stat(f"{home}/agent.log").st_mode & 0o777, 0o600)
        meta = json.loads(pathlib.Path(f"{home}/meta.json").read_text())
        self.assertEqual((meta["pid"], meta["spawner"], meta["cli"], meta["state"]), (seen["pid"], "alice", "looks", "exited"))
        ledger = (self.root / "ledger.db").read_bytes() + (self.root / "ledger.db-wal").read_bytes()
        self.assertNotIn(environment["AGENT_RELAY_TOKEN"].encode(), ledger)
        self.assertEqual(self.statuses()["worker"], "inactive")
        self.fsck()

    def test_the_example_of_the_specification_and_the_ways_a_program_ends(self):
        self.up()
        self.agent("alice")
        self.send("alice", f"TO: __orchestrator__\nKIND: spawn\n\nNAME: WorkerAgent\nCLI: looks\nPROMPT: 7\nWORKING_DIR: {self.work}\n"
                  "ENV: MY_KEY1=value1,MY_KEY2=value2\n")
        self.wait(lambda: self.states("alice") == ["spawned", "exited"])
        self.assertEqual(self.told("alice")[1][2]["OUTCOME"], "exit status 7")
        self.assertEqual(self.seen("WorkerAgent")["env"]["MY_KEY2"], "value2")
        self.ask("alice", "killed")
        self.wait(lambda: len(self.runs()) == 1)
        os.kill(int(self.runs()[0][0]), signal.SIGKILL)
        self.wait(lambda: len(self.told("alice")) == 4)
        self.assertEqual(self.told("alice")[3][2]["OUTCOME"], "signal 9")
        self.ask("alice", "never", "garbage")
        self.wait(lambda: len(self.told("alice")) == 6)
        self.assertEqual(self.told("alice")[5][2]["OUTCOME"], "exit status 127")
        self.assertIn("cannot run", (self.root / "agents/never/agent.log").read_text())

    def test_what_is_not_allowed_is_refused_and_starts_nothing(self):
        (self.work / "link").symlink_to("/etc")
        (self.work / "here").symlink_to(self.work)
        (self.work / "file").write_text("")
        self.up()
        self.agent("alice", "bob")
        denied, invalid = "denied", "invalid"
        cases = [
            ("NAME: w\n", invalid, "no line 'CLI'"), ("CLI: looks\n", invalid, "no line 'NAME'"), ("", invalid, "no line"),
            ("NAME: ../w\nCLI: looks\n", invalid, "not a valid agent name"), ("NAME: root\nCLI: looks\n", invalid, "reserved"),
            ("NAME: a b\nCLI: looks\n", invalid, "not a valid agent name"), ("NAME: w\nNAME: v\nCLI: looks\n", invalid, "duplicate line"),
            ("NAME: w\nCLI: looks\nSHELL: yes\n", invalid, "unknown line"), ("nonsense\n", invalid, "KEY: value"),
            ("NAME: w\nCLI: sh\n", denied, "not in config.json"), ("NAME: w\nCLI: /bin/sh\n", denied, "not in config.json"),
            ("NAME: w\nCLI: looks; id\n", denied, "not in config.json"), ("NAME: w\nCLI: absent\n", "not found", "absent"),
            ("NAME: bob\nCLI: looks\n", "exists", "not started by the relay"),
            ("NAME: w\nCLI: looks\nWORKING_DIR: /etc\n", denied, "not below"),
            (f"NAME: w\nCLI: looks\nWORKING_DIR: {self.work}x\n", denied, "not below"),
            (f"NAME: w\nCLI: looks\nWORKING_DIR: {self.work}/..\n", denied, "'..'"),
            ("NAME: w\nCLI: looks\nWORKING_DIR: ../..\n", denied, "'..'"),
            (f"NAME: w\nCLI: looks\nWORKING_DIR: {self.work}/link\n", denied, "symbolic link"),
            (f"NAME: w\nCLI: looks\nWORKING_DIR: {self.work}/link/ssl\n", denied, "symbolic link"),
            (f"NAME: w\nCLI: looks\nWORKING_DIR: {self.work}/here\n", denied, "symbolic link"),
            (f"NAME: w\nCLI: looks\nWORKING_DIR: {self.work}/file\n", "not", "file"),
            (f"NAME: w\nCLI: looks\nWORKING_DIR: {self.work}/nowhere\n", "not found", "nowhere"),
            ("NAME: w\nCLI: looks\nENV: LD_PRELOAD=/x.so\n", denied, "must not be set"),
            ("NAME: w\nCLI: looks\nENV: PYTHONPATH=/x\n", denied, "must not be set"),
            ("NAME: w\nCLI: looks\nENV: BASH_ENV=/x\n", denied, "must not be set"),
            ("NAME: w\nCLI: looks\nENV: AGENT_RELAY_NAME=bob\n", denied, "must not be set"),
            ("NAME: w\nCLI: looks\nENV: TASK=1,PATH=/x\n", denied, "'PATH' is not in"),
            ("NAME: w\nCLI: looks\nENV: TASK\n", invalid, "KEY=value"), ("NAME: w\nCLI: looks\nENV: A-B=1\n", invalid, "not a valid variable name"),
            ("NAME: w\nCLI: looks\nENV: TASK=1,TASK=2\n", invalid, "twice"),
            ("NAME: w\nCLI: looks\nPROMPT: a\0b\n", invalid, "NUL"),
            ("NAME: w\nCLI: looks\nPROMPT: " + "x" * 200_000 + "\n", "too large", "too long"),
        ]
        for body, _, text in cases:
            message = self.send("alice", f"TO: __orchestrator__\nKIND: spawn\n\n{body}")
            self.wait(lambda: self.told("alice", message))
            (_, _, headers, why), = self.told("alice", message)
            self.assertEqual(headers["KIND"], "nack", body[:60])
            self.assertIn(text, why, body[:60])
            self.command("inbox", "alice", "--take")
        audited = self.log_events("denied", "audit.log")
        self.assertEqual(len(audited), sum(kind == denied for _, kind, _ in cases))
        self.assertEqual(self.lives(), {})
        self.assertEqual(list(self.work.glob("*.json")), [])
        self.assertFalse((self.root / "agents/w").exists())
        self.fsck()

    def test_a_log_that_is_a_pipe_or_a_link_is_not_written_to(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "worker", "looks", "PROMPT: 1\n")
        self.wait(lambda: self.states("alice") == ["spawned", "exited"])
        log = self.root / "agents/worker/agent.log"
        victim = self.dir / "victim"
        victim.write_text("mine")
        for plant in (lambda: os.mkfifo(log), lambda: log.symlink_to(victim), lambda: log.mkdir()):
            log.unlink()
            plant()
            message = self.ask("alice", "worker", "looks")
            self.wait(lambda: self.told("alice", message))
            self.assertEqual(self.told("alice", message)[0][2]["KIND"], "nack")
            log.rmdir() if log.is_dir() and not log.is_symlink() else log.unlink()
            log.write_text("")
        self.assertEqual(victim.read_text(), "mine")
        message = self.ask("alice", "worker", "looks")
        self.wait(lambda: self.states("alice", message) == ["spawned", "exited"])

    def test_lead_is_the_spawner_when_nobody_else_leads(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "worker")
        self.wait(lambda: "worker" in self.lives())
        message = self.send("worker", "TO: Lead\n\nfor you")
        self.wait(lambda: self.state(message) == {"alice": "delivered"})
        self.agent("Lead")
        message = self.send("worker", "TO: Lead\n\nfor Lead")
        self.wait(lambda: self.state(message) == {"Lead": "delivered"})

    def test_the_command_line(self):
        self.up()
        made = json.loads(self.command("spawn", "worker", "--cli", "looks", "--prompt", "-", "--dir", str(self.work), "--env", "TASK=t",
                                       "--from", "alice", "--register", "--wait", "--json", stdin="NAME: of something else\nCLI: x\n").stdout)
        seen = self.seen("worker")
        self.assertEqual(seen["pid"], made["pid"])
        self.assertEqual(bytes.fromhex(seen["argv"][0]), b"NAME: of something else\nCLI: x")
        self.wait(lambda: self.lives()["worker"]["state"] == "exited")
        self.assertEqual(self.lives()["worker"]["outcome"], "exit status 0")
        self.command("spawn", "other", "--cli", "stays", "--from", "alice", "--wait")
        pid = self.lives()["other"]["pid"]
        self.assertIn(f"other active running pid {pid} by alice\n", self.command("agents").stdout)
        self.assertIn("not in config.json", self.command("spawn", "x", "--cli", "sh", "--from", "alice", "--wait", code=1).stderr)
        self.assertIn("--cli is required", self.command("spawn", "x", "--from", "alice", code=2).stderr)
        self.assertIn("not a valid agent name", self.command("spawn", "a/b", "--cli", "looks", "--from", "alice", code=1).stderr)
        self.assertIn("comma", self.command("spawn", "x", "--cli", "looks", "--env", "A=1,B=2", "--from", "alice", code=1).stderr)
        self.assertIn("may release", self.command("release", "other", "--from", "stranger", "--register", "--wait", code=1).stderr)
        self.command("release", "other", "--from", "alice", "--reason", "done", "--wait")
        self.assertFalse(is_alive(pid))
        self.assertIn("other terminated released by alice (signal 15)\n", self.command("agents").stdout)


class NothingConfigured(RelayCase):
    def test_spawning_is_refused_with_what_to_write(self):
        self.up()
        self.agent("alice")
        self.send("alice", "TO: __orchestrator__\nKIND: spawn\n\nNAME: w\nCLI: sh\n")
        self.wait(lambda: self.inbox("alice"))
        self.assertIn(b'config.json needs "spawn"', self.inbox("alice")[0][1])

    def test_mistakes_in_the_configuration_are_named(self):
        argv = {"argv": ["x"]}
        for spawn, text in [({"clis": {"a": {"argv": "x"}}}, "argv"), ({"clis": {"a": {}}}, "argv"),
                            ({"clis": {"a": {"argv": ["{prompt}"]}}}, "program"), ({"clis": {"a": {"argv": ["./x"]}}}, "program"),
                            ({"clis": {"a": {"argv": ["x", "{promt}"]}}}, "promt"), ({"clis": {"a": {**argv, "shell": True}}}, "shell"),
                            ({"roots": ["work"]}, "absolute"), ({"env": ["LD_PRELOAD"]}, "never passed on"), ({"env": ["A B"]}, "not a valid variable name"),
                            ({"count_max": -1}, "count_max"), ({"require_token": 1}, "require_token"), ({"nope": 1}, "nope"), ([], "object")]:
            (self.root).mkdir(mode=0o700, exist_ok=True)
            configure(self.root, {"spawn": spawn})
            self.assertIn(text, self.command("up", code=1).stderr, spawn)
        for config in ({"continuity": {"versions": 0}}, {"continuity": 1}, {"inactive_ms": -1}):
            configure(self.root, config)
            self.command("up", code=1)


class Limits(SpawnCase):
    spawn = {"count_max": 4, "depth_max": 2, "per_minute": 5}

    def test_agents_that_start_agents_come_to_an_end(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "b", "bomb")
        self.wait(lambda: len(self.runs()) == 4, 60)  # b, and the three it asked for
        # Those are as deep as may be: each of their nine requests is refused.
        self.wait(lambda: sum(len(self.told(f"b{i}")) for i in range(3)) == 9, 60)
        for i in range(3):
            self.assertEqual({headers["KIND"] for _, _, headers, _ in self.told(f"b{i}")}, {"nack"})
        self.assertEqual(len(self.runs()), 4)
        message = self.ask("alice", "another")
        self.wait(lambda: self.told("alice", message))
        self.assertIn("4 agents are already running", self.told("alice", message)[0][3])

    def test_the_rate_of_one_spawner_is_limited(self):
        self.up()
        self.agent("alice", "bob")
        for number in range(6):
            message = self.ask("alice", f"w{number}", "looks")
            self.wait(lambda: self.states("alice", message) in (["spawned", "exited"], ["limit"], ["kLimit"]), 60)
        self.assertEqual(len(list(self.work.glob("*.json"))), 5)
        self.assertIn("per minute", self.told("alice", message)[0][3])
        other = self.ask("bob", "v", "looks")
        self.wait(lambda: self.states("bob", other) == ["spawned", "exited"])

    def test_a_round_full_of_requests_does_not_pass_the_limit(self):
        self.up()
        self.agent("alice", "bob")
        self.process.send_signal(signal.SIGSTOP)
        asked = [self.ask(("alice", "bob")[number % 2], f"w{number}") for number in range(10)]
        asked.append(self.ask("alice", "w0"))
        self.process.send_signal(signal.SIGCONT)
        self.wait(lambda: len(self.told("alice")) + len(self.told("bob")) == 11 and len(self.runs()) == 4)
        self.assertEqual(len(asked), 11)
        self.assertEqual(len({name for _, name in (run[:2] for run in self.runs())}), 4)


class Release(SpawnCase):
    spawn = {"grace_ms": 1000}

    def test_only_those_above_and_the_lead_may_release(self):
        self.up()
        self.agent("alice", "bob")
        self.ask("alice", "worker")
        self.wait(lambda: len(self.runs()) == 1)
        pid = int(self.runs()[0][0])
        for agent, name in (("bob", "worker"), ("worker", "worker"), ("bob", "alice"), ("worker", "alice")):
            message = self.ask_release(agent, name)
            self.wait(lambda: self.told(agent, message))
            self.assertEqual(self.told(agent, message)[0][2]["KIND"], "nack", (agent, name))
        self.assertEqual(len(self.log_events("denied", "audit.log")), 4)
        self.assertTrue(is_alive(pid))
        respawn = self.ask("bob", "worker")
        self.wait(lambda: self.told("bob", respawn))
        self.agent("Lead")
        self.ask_release("Lead", "worker")
        self.wait(lambda: ("released", "worker") in [told[:2] for told in self.told("Lead")])
        self.wait(lambda: ("released", "worker") in [told[:2] for told in self.told("alice")])
        self.assertFalse(is_alive(pid))
        self.assertEqual(self.statuses()["worker"], "terminated")
        message = self.send("alice", "TO: worker\n\nstill there?")
        self.wait(lambda: self.told("alice", message))
        self.assertEqual(self.told("alice", message)[0][2]["KIND"], "nack")
        # Nor may a stranger have a program run under that name, and read its mail.
        respawn = self.ask("bob", "worker")
        self.wait(lambda: self.told("bob", respawn))
        self.assertIn("started by another", self.told("bob", respawn)[0][3])
        again = self.ask("alice", "worker")
        self.wait(lambda: self.states("alice", again) == ["spawned"])
        self.wait(lambda: self.statuses()["worker"] == "active")

    def test_who_does_not_care_for_sigterm_is_killed_with_its_group(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "worker", "stubborn")
        self.wait(lambda: len(self.runs()) == 2)
        pids = [int(run[0]) for run in self.runs()]
        self.ask_release("alice", "worker")
        self.wait(lambda: self.states("alice") == ["spawned", "released"], 60)
        self.assertEqual(self.told("alice")[1][2]["OUTCOME"], "signal 9")
        self.wait(lambda: not any(map(is_alive, pids)))
        self.assertFalse(pathlib.Path(f"/proc/{pids[0]}").exists() and pathlib.Path(f"/proc/{pids[1]}").exists())
        gone = self.ask_release("alice", "worker")
        self.wait(lambda: self.told("alice", gone))
        self.assertIn("has already been released", self.told("alice", gone)[0][3])

    def test_what_an_agent_leaves_running_ends_with_it(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "worker", "stubborn")
        self.wait(lambda: len(self.runs()) == 2)
        pids = {run[1]: int(run[0]) for run in self.runs()}
        os.kill(pids["worker"], signal.SIGKILL)
        self.wait(lambda: self.states("alice") == ["spawned", "exited"])
        self.wait(lambda: not is_alive(pids["grandchild"]))

    def test_those_it_started_are_released_with_it(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "top")
        self.wait(lambda: self.statuses().get("top") == "active")
        self.ask("top", "middle")
        self.wait(lambda: self.statuses().get("middle") == "active")
        self.ask("middle", "bottom")
        self.ask("alice", "beside")
        self.wait(lambda: len(self.runs()) == 4)
        pids = {run[1]: int(run[0]) for run in self.runs()}
        self.ask_release("alice", "top")
        self.wait(lambda: {told[1] for told in self.told("alice") if told[0] == "released"} == {"top", "middle", "bottom"})
        self.assertEqual({name for name, pid in pids.items() if is_alive(pid)}, {"beside"})
        self.ask_release("alice", "beside")
        self.wait(lambda: self.statuses()["beside"] == "terminated")


class ReleaseAcrossRestarts(SpawnCase):
    spawn = {"grace_ms": 2000}

    def test_a_release_is_finished_by_the_next_relay(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "worker", "stubborn")
        self.wait(lambda: len(self.runs()) == 2)
        pids = [int(run[0]) for run in self.runs()]
        self.ask_release("alice", "worker")
        self.wait(lambda: self.lives()["worker"]["state"] == "releasing")
        self.kill()
        self.assertTrue(is_alive(pids[0]))
        self.up()
        self.wait(lambda: "released" in self.states("alice"), 60)
        self.wait(lambda: not any(map(is_alive, pids)))

    def test_an_agent_lives_on_without_the_relay_and_is_watched_again(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "first")
        self.ask("alice", "second")
        self.ask("alice", "third")
        self.wait(lambda: len(self.runs()) == 3)
        pids = {run[1]: int(run[0]) for run in self.runs()}
        self.kill()
        os.kill(pids["third"], signal.SIGKILL)
        self.up()
        self.wait(lambda: ("exited", "third") in [told[:2] for told in self.told("alice")])
        self.assertIn("unknown", [told for told in self.told("alice") if told[1] == "third"][-1][2]["OUTCOME"])
        self.assertEqual(self.lives()["first"]["pid"], pids["first"])
        self.assertEqual(self.lives()["first"]["state"], "running")
        self.assertIn("SigIgn:\t0000000000000000", pathlib.Path(f"/proc/{pids['first']}/status").read_text())
        os.kill(pids["first"], signal.SIGKILL)
        self.wait(lambda: ("exited", "first") in [told[:2] for told in self.told("alice")])
        outcome = [told for told in self.told("alice") if told[1] == "first"][-1][2]["OUTCOME"]
        tells_others = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 15)  # than the parent
        self.assertRegex(outcome, "^signal 9" if tells_others else "signal 9|unknown")
        self.ask_release("alice", "second")
        self.wait(lambda: ("released", "second") in [told[:2] for told in self.told("alice")])
        self.wait(lambda: not is_alive(pids["second"]))
        self.assertEqual(len(self.runs()), 3)
        self.assertEqual(self.kill(signal.SIGTERM), 0)
        self.fsck()


class Continuity(SpawnCase):
    config = {"continuity": {"bytes_max": 1000, "versions": 3}}

    def save(self, agent, state, header=False):
        head = "ACTION: save\n" if header else ""
        body = state if header else b"ACTION: save\n\n" + state
        return self.send(agent, f"TO: __orchestrator__\nKIND: continuity\n{head}\n".encode() + body)

    def load(self, agent, more=""):
        message = self.send(agent, f"TO: __orchestrator__\nKIND: continuity\n\nACTION: load\n{more}")
        self.wait(lambda: [1 for headers, _ in self.inbox(agent) if headers.get("REFERENCE") == message])
        return [(headers.get("STATE"), headers.get("VERSION"), body) for headers, body in self.inbox(agent)
                if headers.get("REFERENCE") == message][0]

    def test_states_are_kept_byte_for_byte_through_restarts(self):
        self.up()
        self.agent("alice", "bob")
        self.assertEqual(self.load("alice"), ("none", None, b""))
        state = bytes(range(256)) + b"\n\nACTION: load\n"
        self.save("alice", state)
        self.wait(lambda: self.inbox("alice")[-1][0].get("STATE") == "saved")
        self.kill()
        self.up()
        self.assertEqual(self.load("alice"), ("loaded", "1", state))
        self.assertEqual(self.load("bob"), ("none", None, b""))
        for number in range(4):
            self.save("alice", b"%d" % number, header=number % 2 == 0)
        self.wait(lambda: self.load("alice")[1] == "5")
        self.assertEqual(self.load("alice"), ("loaded", "5", b"3"))
        self.assertEqual(self.load("alice", "VERSION: 3\n"), ("loaded", "3", b"1"))
        self.assertEqual(self.load("alice", "VERSION: 2\n"), ("none", None, b""))  # three are kept

    def test_what_cannot_be_saved_is_answered(self):
        self.up()
        self.agent("alice")
        for body, text in ((b"ACTION: save\n\n" + b"x" * 1001, b"1001 bytes"), (b"ACTION: forget\n", b"save or load"), (b"", b"ACTION"),
                           (b"ACTION: load\nVERSION: -1\n", b"VERSION"), (b"state", b"KEY: value")):
            message = self.send("alice", b"TO: __orchestrator__\nKIND: continuity\n\n" + body)
            self.wait(lambda: self.told("alice", message))
            self.assertIn(text.decode(), self.told("alice", message)[0][3])
            self.command("inbox", "alice", "--take")
        self.save("alice", b"x" * 1000)
        self.wait(lambda: self.states("alice") == ["saved"])


class Notice(SpawnCase):
    spawn = {"notice_ms": 600_000}

    def test_a_released_agent_saves_its_state_and_its_next_life_is_told(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "worker", "saves")
        self.wait(lambda: len(self.runs()) == 1)
        self.ask_release("alice", "worker")  # ten minutes, unless it says that it is ready
        self.wait(lambda: self.states("alice") == ["spawned", "released"], 60)
        self.assertEqual(self.told("alice")[1][2]["OUTCOME"], "signal 15")
        self.ask("alice", "worker", "stays")
        self.wait(lambda: len(self.runs()) == 2)
        self.assertEqual(self.runs()[1][1:], ["worker", "1"])
        message = self.send("worker", "TO: __orchestrator__\nKIND: continuity\n\nACTION: load\n")
        self.wait(lambda: self.told("worker", message))
        self.assertEqual(self.told("worker", message)[0][3], "what I know")


class Tokens(SpawnCase):
    def token(self, name="worker"):
        return self.seen(name)["env"]["AGENT_RELAY_TOKEN"]

    def test_a_wrong_token_is_refused_and_a_right_one_goes_no_further(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "worker", "looks")
        token = self.token()
        good = self.send("worker", f"TO: alice\nTOKEN: {token}\nX-Other: kept\n\nmine")
        self.wait(lambda: self.state(good) == {"alice": "delivered"})
        headers = [headers for headers, body in self.inbox("alice") if body == b"mine"][0]
        self.assertEqual(headers["X-Other"], "kept")
        self.assertNotIn("TOKEN", headers)
        bad = self.send("worker", f"TO: alice\ntoken: {'0' * 64}\n\nforged")
        self.wait(lambda: self.log_events("denied", "audit.log"))
        self.assertIn("TOKEN", self.log_events("denied", "audit.log")[0]["error"])
        self.wait(lambda: self.command("status", bad, code=None).returncode == 0)
        self.assertIn("failed", self.command("status", bad).stdout)
        plain = self.send("worker", "TO: alice\n\nwithout")
        self.wait(lambda: self.state(plain) == {"alice": "delivered"})
        self.assertNotIn(b"forged", [body for _, body in self.inbox("alice")])


class RequiredTokens(Tokens):
    spawn = {"require_token": True}

    def test_a_wrong_token_is_refused_and_a_right_one_goes_no_further(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "worker", "looks")
        token = self.token()
        self.send("worker", "TO: alice\n\nwithout")
        self.wait(lambda: self.log_events("denied", "audit.log"))
        environment = dict(os.environ, AGENT_RELAY_NAME="worker", AGENT_RELAY_TOKEN=token, WARREN_RELAY_ROOT=str(self.root))
        subprocess.run([WARREN, "relay", "send", "alice", "by command", "--wait", "delivered"], env=environment, check=True,
                       capture_output=True)
        self.assertEqual([body for headers, body in self.inbox("alice") if headers["FROM"] == "worker"], [b"by command\n"])
        plain = self.send("alice", "TO: alice\n\nshe was not started by the relay")
        self.wait(lambda: self.state(plain) == {"alice": "delivered"})


class Lifetimes(SpawnCase):
    config = {"rescan_ms": 200, "inactive_ms": 1500}
    spawn = {"orphan_ms": 500}

    def test_a_program_that_runs_too_long_is_released(self):
        config = json.loads((self.root / "config.json").read_text())
        config["spawn"]["clis"]["stays"]["timeout_ms"] = 1000
        configure(self.root, config)
        self.up()
        self.agent("alice")
        self.ask("alice", "worker")
        self.wait(lambda: self.states("alice") == ["spawned", "released"], 60)
        self.assertIn("its time limit was reached", self.log_events("agent_releasing")[0]["reason"])

    def test_orphans_are_released(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "parent")
        self.wait(lambda: self.statuses().get("parent") == "active")
        self.ask("parent", "child")
        self.wait(lambda: len(self.runs()) == 2)
        pids = {run[1]: int(run[0]) for run in self.runs()}
        os.kill(pids["parent"], signal.SIGKILL)
        self.wait(lambda: self.statuses()["parent"] == "inactive")
        self.send("alice", "TO: __orchestrator__\nKIND: status\n\ninactive\n")
        self.wait(lambda: not is_alive(pids["child"]), 60)
        self.wait(lambda: self.statuses()["child"] == "terminated")
        self.assertIn("none of its ancestors is alive", self.log_events("agent_releasing")[0]["reason"])

    def test_removing_its_directory_ends_an_agent(self):
        self.up()
        self.agent("alice")
        self.ask("alice", "worker")
        self.wait(lambda: len(self.runs()) == 1)
        pid = int(self.runs()[0][0])
        (self.root / "agents/worker").rename(self.dir / "removed")
        self.wait(lambda: not is_alive(pid), 60)
        self.wait(lambda: self.lives()["worker"]["state"] == "released")

    def test_who_leaves_its_mail_lying_is_inactive_until_it_stirs(self):
        self.up()
        self.agent("alice", "bob", "idle")
        first = self.send("alice", "TO: bob\n\nfirst")
        self.wait(lambda: self.state(first) == {"bob": "delivered"})
        self.wait(lambda: self.statuses()["bob"] == "inactive", 60)
        self.assertEqual(self.statuses()["idle"], "active")  # nobody wants anything of it
        later = self.send("alice", "TO: bob\n\nlater")
        self.wait(lambda: self.state(later) == {"bob": "stored"})
        self.command("inbox", "bob", "--take")
        self.wait(lambda: self.state(later) in ({"bob": "delivered"}, {"bob": "read"}), 60)


class FullDisk(SpawnCase):
    def test_a_full_disk_starts_nothing_and_then_each_once(self):
        disk = self.dir / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", disk], check=True)
        self.addCleanup(lambda: subprocess.run(["umount", "-l", disk]))
        config = (self.root / "config.json").read_text()
        self.root = disk / "root"
        self.root.mkdir(mode=0o700)
        configure(self.root, {**json.loads(config), "metrics": "127.0.0.1:0"})
        self.up()
        self.agent("alice")
        address = self.metrics_address()
        self.process.send_signal(signal.SIGSTOP)
        for number in range(3):
            self.ask("alice", f"w{number}", "stays", "PROMPT: " + "x" * 50_000)
        filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(filler, b"x" * 4096):
                pass
        except OSError:
            pass
        os.close(filler)
        self.process.send_signal(signal.SIGCONT)
        self.wait(lambda: self.failed_rounds(address) >= 3, 60)
        self.assertEqual(self.runs(), [])
        (disk / "filler").unlink()
        self.wait(lambda: self.states("alice") == ["spawned"] * 3, 90)
        self.wait(lambda: sorted(run[1] for run in self.runs()) == ["w0", "w1", "w2"])
        self.kill()
        self.fsck()


class Sandboxed(SpawnCase):
    def test_a_sandboxed_agent_sees_its_boxes_and_writes_nothing_else(self):
        config = json.loads((self.root / "config.json").read_text())
        script = ('echo changed > "$1/file"; cat "$AGENT_RELAY_ROOT/config.json" || echo kept out; ls "$AGENT_RELAY_ROOT/agents"; '
                  'printf "TO: alice\\n\\nfrom inside\\n" > "$AGENT_RELAY_OUTBOX/.pending/1-00000000.msg" && '
                  'mv "$AGENT_RELAY_OUTBOX/.pending/1-00000000.msg" "$AGENT_RELAY_OUTBOX/"')
        config["spawn"]["clis"]["boxed"] = {"argv": ["sh", "-c", script, "sh", "{dir}"], "sandbox": True}
        marked = f"sleep 99{os.getpid()}"  # leaves its group, but not the sandbox
        config["spawn"]["clis"]["boxed_stays"] = {"argv": ["sh", "-c", f"trap '' TERM; setsid {marked} & while :; do sleep 1; done"],
                                                  "sandbox": True}
        config["spawn"]["grace_ms"] = 500
        configure(self.root, config)
        (self.work / "file").write_text("mine")
        os.environ["HOME"], before = str(self.dir), os.environ["HOME"]
        self.addCleanup(os.environ.__setitem__, "HOME", before)
        self.up()
        self.agent("alice")
        self.ask("alice", "worker", "boxed")
        self.wait(lambda: "exited" in self.states("alice"), 60)
        log = (self.root / "agents/worker/agent.log").read_text()
        self.assertEqual(self.told("alice")[-1][2].get("OUTCOME"), "exit status 0", log)
        self.wait(lambda: b"from inside\n" in [body for _, body in self.inbox("alice")])
        self.assertIn("kept out\nworker\n", log)
        self.assertEqual((self.work / "file").read_text(), "mine")
        self.ask("alice", "sleeper", "boxed_stays")
        self.wait(lambda: marked in running_commands(), 60)
        self.ask_release("alice", "sleeper")
        self.wait(lambda: self.statuses()["sleeper"] == "terminated", 60)
        self.wait(lambda: marked not in running_commands())

    def test_a_sandboxed_agent_uses_the_commands_and_attachments(self):
        config = json.loads((self.root / "config.json").read_text())
        script = (f'w={WARREN}; cd "$1"; until $w relay inbox worker | grep -q "for you"; do sleep 0.05; done; '
                  '$w relay inbox worker --take --save got; cat got/note; '
                  'echo "answer" > out.txt; head -c 3000000 /dev/zero > large; '
                  '$w relay send alice "done" --attach out.txt --attach large; '
                  '$w relay inbox other || true; $w relay send alice x --from other || true; '
                  'find "$AGENT_RELAY_ROOT" -name "*.msg" -o -name "ledger*" -o -path "*/other/*" -o -path "*/attachments/*"')
        config["spawn"]["clis"]["boxed"] = {"argv": ["sh", "-c", script, "sh", "{dir}"], "sandbox": True}
        configure(self.root, config)
        os.environ["HOME"], before = str(self.dir), os.environ["HOME"]
        self.addCleanup(os.environ.__setitem__, "HOME", before)
        self.up()
        self.agent("alice", "other")
        (self.dir / "note").write_text("the note")
        secret = b"not for the worker"
        (self.dir / "secret").write_bytes(secret)
        self.command("send", "other", "private", "--from", "alice", "--attach", str(self.dir / "secret"), "--wait", "delivered")
        self.ask("alice", "worker", "boxed")
        self.wait(lambda: "spawned" in self.states("alice"), 60)
        self.command("send", "worker", "for you", "--from", "alice", "--attach", str(self.dir / "note"))
        log = self.root / "agents/worker/agent.log"
        self.wait(lambda: "exited" in self.states("alice"), 60)
        self.wait(lambda: b"done\n" in [body for _, body in self.inbox("alice")])
        text = log.read_text()
        self.assertIn("the note", text)
        self.assertIn("there is no agent 'other'", text)
        self.assertNotIn("private", text)
        self.assertNotIn("ledger", text)
        self.assertNotIn("/other/", text)
        self.assertNotIn("/attachments/", text)
        saved = self.dir / "saved"
        self.command("inbox", "alice", "--save", str(saved))
        self.assertEqual((saved / "out.txt").read_text(), "answer\n")
        self.assertEqual((saved / "large").stat().st_size, 3_000_000)
        # Nor can it have a file delivered that it does not have.
        digest = hashlib.sha256(secret).hexdigest()
        asked = self.send("worker", f"TO: worker\nATTACHMENT: sha256:{digest}\n\ngive")
        self.wait(lambda: asked in [headers.get("REFERENCE") for headers, _ in self.inbox("worker")])
        self.assertEqual([headers["KIND"] for headers, _ in self.inbox("worker") if headers.get("REFERENCE") == asked], ["nack"])
        self.assertFalse((self.root / "agents/worker/inbox/.attachments" / digest).exists())


if __name__ == "__main__":
    main()
