#!/usr/bin/env python3
"""What a relay tells about itself, and what it clears away: metrics, health, logs, top, disk alert, retention."""
import datetime
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time
import urllib.error
import urllib.request

from relaying import WARREN, RelayCase, configure, main, open_files

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"\})? (\S+)$')
COMMENT = re.compile(r"^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$")


def parse_exposition(text):
    """{name + labels: value}; every line must be of the text format, and every series announced by its type."""
    samples, types = {}, {}
    assert text.endswith("\n"), "the last line has no end"
    for line in text[:-1].split("\n"):
        if line.startswith("#"):
            kind, name, rest = COMMENT.match(line).groups()
            if kind == "TYPE":
                assert name not in types, name
                assert rest in ("counter", "gauge", "histogram"), line
                types[name] = rest
            continue
        name, labels, value = SAMPLE.match(line).groups()
        family = re.sub(r"_(bucket|sum|count)$", "", name) if name not in types else name
        assert family in types, line
        assert types[family] != "counter" or name.endswith("_total"), line
        key = name + (labels or "")
        assert key not in samples, key
        samples[key] = float(value)
    return samples


def old_day(days):
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)).strftime("%Y-%m-%d")


def stay_within_a_day(seconds=300):
    """What is of yesterday now is of the day before after midnight."""
    now = datetime.datetime.now(datetime.timezone.utc)
    left = 86_400 - (now - now.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    if left < seconds:
        time.sleep(left + 1)


class Observe(RelayCase):
    def up_with(self, *words):
        self.process = subprocess.Popen([WARREN, "relay", "up", *words, "--root", self.root], stderr=subprocess.PIPE)
        self.wait(lambda: self.command("status", code=None).returncode == 0)

    def stats(self):
        path = self.root / "stats.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def address(self):
        self.wait(lambda: "metrics" in self.stats() and self.stats()["pid"] == self.process.pid)
        return self.stats()["metrics"]

    def get(self, path, code=200, host=None):
        request = urllib.request.Request(f"http://{self.address()}{path}", headers={"Host": host} if host else {})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, body, kind = answer.status, answer.read().decode(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as failed:
            status, body, kind = failed.code, failed.read().decode(), failed.headers["Content-Type"]
            failed.close()
        self.assertEqual(status, code, body)
        return body, kind

    def metrics(self):
        body, kind = self.get("/metrics")
        self.assertEqual(kind, "text/plain; version=0.0.4")
        return parse_exposition(body)

    def metric(self, name):
        return self.metrics()["warren_relay_" + name]


class Metrics(Observe):
    def test_counters_histogram_and_gauges_move_as_messages_do(self):
        self.up_with("--metrics", "0")
        before = self.metrics()
        for name, value in before.items():
            if "_total" in name or "_bucket" in name:
                self.assertEqual(value, 0, name)
        self.agent("alice", "bob", "carol")
        bodies = [f"TO: bob\n\n{number}" for number in range(5)]
        ids = [self.send("alice", body) for body in bodies]
        self.send("alice", "TO: *\n\nall")
        self.send("alice", "TO: nobody\n\nx")
        self.wait(lambda: self.metric("delivered_total") == 8)  # 5, 2 and the nack
        self.wait(lambda: self.metric('deliveries{state="delivered"}') == 8)
        got = self.metrics()
        self.assertEqual(got["warren_relay_accepted_total"], 6)
        self.assertEqual(got["warren_relay_accepted_bytes_total"], sum(map(len, bodies)) + len("TO: *\n\nall"))
        self.assertEqual(got["warren_relay_refused_total"], 1)
        self.assertEqual(got["warren_relay_dead_letters_total"], 1)
        self.assertEqual(got["warren_relay_dead_letters"], 1)
        self.assertEqual(got["warren_relay_queue_depth"], 0)
        self.assertEqual(got['warren_relay_messages{status="failed"}'], 1)
        self.assertEqual(got['warren_relay_agents{status="active"}'], 3)
        self.assertGreaterEqual(got["warren_relay_rounds_total"], 1)
        self.assertGreater(got["warren_relay_uptime_seconds"], 0)
        self.assertTrue(0 < got["warren_relay_disk_used_ratio"] <= 1)
        buckets = [value for name, value in got.items() if name.startswith("warren_relay_delivery_latency_seconds_bucket")]
        self.assertEqual(buckets, sorted(buckets))
        self.assertEqual(buckets[-1], 8)
        self.assertEqual(got["warren_relay_delivery_latency_seconds_count"], 8)
        self.assertGreater(got["warren_relay_delivery_latency_seconds_sum"], 0)
        bounds = [float(re.search('le="(.*)"', name)[1]) for name in got if "_bucket" in name]
        self.assertEqual((bounds[0], bounds[-2], bounds), (0.0001, 30, sorted(bounds)))
        self.command("inbox", "bob", "--take")
        self.wait(lambda: self.metric("read_total") == 6)
        self.command("ack", "bob", ids[0])
        self.command("nack", "bob", ids[1], "no")
        self.wait(lambda: (self.metric("acked_total"), self.metric("nacked_total")) == (1, 1))
        self.wait(lambda: self.metric('deliveries{state="acked"}') == 1)
        self.wait(lambda: self.stats()["acked"] == 1)  # replaced once a second
        self.assertEqual(self.stats()["waiting"], {"alice": 1, "carol": 1})

    def test_what_waits_for_an_agent_is_in_the_queue(self):
        self.up_with("--metrics", "0")
        self.agent("alice", "bob")
        self.send("bob", "TO: __orchestrator__\nKIND: status\n\ninactive\n")
        self.wait(lambda: self.metric('agents{status="inactive"}') == 1)
        for number in range(3):
            self.send("alice", f"TO: bob\n\n{number}")
        self.wait(lambda: self.metric('deliveries{state="stored"}') == 3 and self.metric("queue_depth") == 3)

    def test_a_failing_inbox_counts_retries_and_then_a_dead_letter(self):
        self.config = {"deadline_ms": 1500}
        self.setUp()
        self.up_with("--metrics", "0")
        self.agent("alice", "bob")
        inbox = self.root / "agents/bob/inbox"
        inbox.rename(self.root / "agents/bob/away")
        inbox.write_text("not a directory")
        self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.metric("retries_total") >= 1)
        self.wait(lambda: self.metric("dead_letters_total") == 1, 60)
        self.wait(lambda: self.metric("dead_letters") == 1)

    def test_lost_events_are_counted(self):
        self.up_with("--metrics", "0")
        self.agent("alice")
        limit = int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        self.process.send_signal(signal.SIGSTOP)
        outbox = self.root / "agents/alice/outbox"
        for number in range(limit // 2 + 100):  # two events each
            (outbox / f"x{number}").touch()
            (outbox / f"x{number}").rename(outbox / f"y{number}")
        self.process.send_signal(signal.SIGCONT)
        self.wait(lambda: self.metric("inotify_overflows_total") >= 1, 60)

    def test_paths_methods_and_names_it_does_not_answer_to(self):
        self.up_with("--metrics", "0")
        self.get("/", 404)
        self.get("/metrics/", 404)
        self.get("/metrics", 403, host="evil.example")
        self.get("/metrics", 403, host="127.evil.example")
        self.get("/metrics", 200, host="localhost")
        done = subprocess.run(["python3", "-c", "import sys, urllib.request as u\ntry: u.urlopen(u.Request(sys.argv[1], method='POST', data=b'x'))\n"
                               "except Exception as e: print(e.code)", f"http://{self.address()}/metrics"], capture_output=True, text=True)
        self.assertEqual(done.stdout, "405\n")

    def test_sixty_half_open_clients_do_not_keep_health_from_answering(self):
        self.up_with("--metrics", "0")
        host, _, port = self.address().rpartition(":")
        clients = [socket.create_connection((host, int(port))) for _ in range(60)]
        for client in clients[::2]:
            client.sendall(b"GET /health HTTP/1.1\r\nHost:")
        begun = time.monotonic()
        self.get("/health", 200)
        self.assertLess(time.monotonic() - begun, 10)
        for client in clients:
            client.close()

    def test_no_port_and_no_server_unless_asked(self):
        self.up_with()
        self.wait(lambda: self.stats().get("pid") == self.process.pid)
        self.assertNotIn("metrics", self.stats())
        links = open_files(self.process.pid)
        self.assertFalse([link for link in links if link.startswith("socket:")], links)

    def test_the_address_is_in_the_configuration_and_status_shows_it(self):
        self.config = {"metrics": 0}
        self.setUp()
        self.up_with()
        address = self.address()
        self.assertIn(f"http://{address}/metrics", self.command("status").stdout)
        self.assertEqual(json.loads(self.command("status", "--json").stdout)["metrics"], address)
        self.assertTrue(address.startswith("127.0.0.1:"))
        for strange in ([], {"pid": "x"}, {"pid": self.process.pid, "metrics": 5}, {"pid": 1, "metrics": "elsewhere:1"}):
            self.wait(lambda: "metrics" not in self.status_beside(strange))

    def status_beside(self, stats):
        """What status says while stats.json is this; "metrics" if the relay has replaced it meanwhile."""
        (self.root / "stats.json").write_text(json.dumps(stats))
        said = self.command("status").stdout
        return said if self.stats() == stats else "metrics"

    def test_bad_addresses_and_ports_in_use_start_nothing(self):
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cases = {"x": "not a valid address", "70000": "not a valid address", "example.org:80": "not a valid address", "::1:80": "not a valid address to listen on",
                 str(port): "in use", "0.0.0.0:0": "other machines", "[::]:0": "other machines", "192.0.2.1:0": "other machines"}
        for address, error in cases.items():
            for words in (["up"], ["up", "--daemon"]):
                done = self.command(*words, "--metrics", address, code=1)
                self.assertRegex(done.stderr, error, address)
                self.assertFalse((self.root / "ledger.db").exists(), address)
        self.root.mkdir(mode=0o700, exist_ok=True)
        configure(self.root, {"metrics_public": True})
        self.assertIn("192.0.2.1", self.command("up", "--metrics", "192.0.2.1:0", code=1).stderr)  # not an address of ours
        for config in ({"metrics": True}, {"metrics": -1}, {"metrics_public": 1}, {"log_level": "loud"}, {"log_files": -1},
                       {"disk_alert_percent": 101}, {"disk_alert_percent": 0}, {"archive_days": "30"}):
            configure(self.root, config)
            self.assertIn(next(iter(config)), self.command("up", code=1).stderr)
        configure(self.root, {"metrics": "nowhere"})
        self.assertIn("nowhere", self.command("up", code=1).stderr)

    def test_it_ends_though_somebody_holds_a_connection(self):
        self.up_with("--metrics", "0")
        host, _, port = self.address().rpartition(":")
        held = [socket.create_connection((host, int(port))) for _ in range(6)]
        for one in held:
            self.addCleanup(one.close)
            one.sendall(b"GET /metrics HTTP/1.1\r\n")
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(60), 0)


class Status(Observe):
    def test_the_exit_status_says_whether_it_is_up(self):
        self.assertEqual(self.command("status", code=None).returncode, 3)  # there is no relay at all
        self.up_with()
        self.command("status", code=0)
        self.command("status", "alice/1-aaaaaaaa", code=1)
        self.kill(signal.SIGTERM)
        self.assertEqual(self.command("status", code=3).stdout.split("\n")[0], "down")
        self.assertFalse(json.loads(self.command("status", "--json", code=3).stdout)["up"])


class SmallDisk(Observe):
    def setUp(self):
        super().setUp()
        self.disk = self.dir / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", self.disk], check=True)
        self.addCleanup(lambda: subprocess.run(["umount", "-l", self.disk]))
        self.root = self.disk / "root"
        self.root.mkdir(mode=0o700)
        configure(self.root, {"rescan_ms": 200, "disk_alert_percent": 90})

    def fill(self, percent):
        (self.disk / "filler").unlink(missing_ok=True)
        info = os.statvfs(self.disk)
        blocks = info.f_blocks * percent // 100 - (info.f_blocks - info.f_bfree)
        with open(self.disk / "filler", "wb") as filler:
            filler.write(b"x" * (blocks * info.f_frsize))

    def test_a_nearly_full_disk_is_said_and_old_days_go_until_it_is_not(self):
        def plant(days, name="alice/1-aaaaaaaa.msg", size=1 << 20):
            path = self.root / "archive" / old_day(days) / name
            path.parent.mkdir(parents=True)
            path.write_bytes(b"x" * size)
            return path
        stay_within_a_day()
        oldest, old, yesterday, today = plant(9), plant(5), plant(1), plant(0)
        strange = self.root / "archive/notes"
        strange.mkdir()
        self.up_with("--metrics", "0")
        body, kind = self.get("/health")
        self.assertEqual((json.loads(body)["status"], kind), ("ok", "application/json"))
        self.assertTrue(oldest.exists() and old.exists())
        self.fill(92)  # one day less is enough
        self.wait(lambda: not oldest.parent.parent.exists(), 60)
        self.wait(lambda: self.log_events("disk_has_room", "audit.log"), 60)
        self.assertTrue(self.log_events("disk_nearly_full", "audit.log"))
        self.assertTrue(old.exists())
        self.assertEqual(self.metric("archive_files_removed_total"), 1)
        self.fill(97)  # nothing that may go is enough
        self.wait(lambda: not old.exists(), 60)
        self.wait(lambda: self.health_is(503), 60)
        body, _ = self.get("/health", 503)
        self.assertEqual(json.loads(body)["status"], "failing")
        self.assertIn("nearly full", json.loads(body)["problems"][0])
        self.assertGreater(self.metric("disk_used_ratio"), 0.9)
        self.assertTrue(yesterday.exists() and today.exists() and strange.exists())
        (self.disk / "filler").unlink()
        self.wait(lambda: self.health_is(200), 60)

    def health_is(self, code):
        try:
            self.get("/health", code)
            return True
        except AssertionError:
            return False

    def test_rounds_that_fail_are_said_until_they_do_not(self):
        self.up_with("--metrics", "0")
        self.agent("alice", "bob")
        self.address()  # is said while there is room
        self.process.send_signal(signal.SIGSTOP)
        self.send("alice", "TO: bob\n\n" + "x" * 200_000)
        filler = os.open(self.disk / "filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(filler, b"x" * 4096):
                pass
        except OSError:
            os.close(filler)
        self.process.send_signal(signal.SIGCONT)
        self.wait(lambda: self.health_is(503) and "rounds are failing" in self.get("/health", 503)[0], 60)
        self.assertGreaterEqual(self.metric("rounds_failed_total"), 1)
        os.unlink(self.disk / "filler")
        self.wait(lambda: self.health_is(200), 120)
        self.wait(lambda: len(self.inbox("bob")) == 1)


class Retention(Observe):
    def plant(self, days, agent, stem, text="TO: bob\n\nold"):
        path = self.root / "archive" / old_day(days) / agent / f"{stem}.msg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def age(self, days):
        """Everything the ledger knows, and its files, moved back by so many days."""
        microseconds = days * 86_400_000_000
        sql = f"UPDATE messages SET discovered_at = discovered_at - {microseconds}, processed_at = processed_at - {microseconds};"
        then = []
        for day in sorted(os.listdir(self.root / "archive")):  # two, if it was midnight just now
            then.append((datetime.date.fromisoformat(day) - datetime.timedelta(days=days)).isoformat())
            sql += f"UPDATE messages SET file_path = replace(file_path, 'archive/{day}/', 'archive/{then[-1]}/');"
            (self.root / "archive" / day).rename(self.root / "archive" / then[-1])
        subprocess.run(["sqlite3", self.root / "ledger.db", sql], check=True)
        return [self.root / "archive" / day for day in then]

    def test_old_days_rows_and_done_files_go_and_what_is_needed_stays(self):
        self.up()
        self.agent("alice", "bob", "carol", "dave")
        self.send("carol", "TO: __orchestrator__\nKIND: status\n\ninactive\n")
        self.wait(lambda: self.statuses()["carol"] == "inactive")
        read = [self.send("alice", f"TO: bob\n\n{number}") for number in range(300)]
        self.wait(lambda: len(self.inbox("bob")) == 300)
        self.command("inbox", "bob", "--take")
        stored = self.send("alice", "TO: carol\n\nstored")
        dead = self.send("alice", "TO: nobody\n\ndead")
        unread = self.send("alice", "TO: dave\n\nunread")
        self.wait(lambda: self.state(unread) == {"dave": "delivered"} and self.state(read[-1]) == {"bob": "read"})
        self.kill(signal.SIGTERM)
        days = self.age(40)
        done = self.root / "agents/bob/inbox/.done"
        for file in sorted(done.iterdir())[:299]:
            os.utime(file, (time.time() - 40 * 86_400,) * 2)
        (done / "notes").write_text("kept")
        os.utime(done / "notes", (0, 0))
        unknown = self.plant(31, "alice", "1-bbbbbbbb")
        young = self.plant(29, "alice", "1-cccccccc")
        leftover = self.root / "tmp/operation"
        leftover.mkdir()
        (leftover / "half").write_text("x")
        os.utime(leftover, (0, 0))
        fresh = self.root / "tmp/running"
        fresh.mkdir()
        swept = self.root / "tmp/swept-2001-01-01-5/alice"
        swept.mkdir(parents=True)
        (swept / "1-dddddddd.msg").write_text("x")
        self.up()
        left = lambda: {file.stem for day in days for file in day.glob("alice/*")}
        self.wait(lambda: len(left()) == 2, 60)
        self.assertEqual(left(), {stored.split("/")[1], dead.split("/")[1]})
        self.wait(lambda: not unknown.parent.parent.exists() and sorted(os.listdir(self.root / "tmp")) == ["deliveries", "running"])
        self.assertTrue(young.exists() and fresh.exists())
        self.wait(lambda: len(list(done.iterdir())) == 2, 60)
        self.assertTrue((done / "notes").exists())
        self.wait(lambda: self.stats().get("ledger_messages_removed", 0) >= 300, 180)
        for gone in (read[0], read[299]):
            self.assertIsNone(self.state(gone))
        self.assertEqual(self.state(unread), {"dave": "delivered"})
        self.assertEqual(self.state(stored), {"carol": "stored"})
        self.assertTrue(self.log_events("swept"))
        self.fsck()
        self.send("carol", "TO: __orchestrator__\nKIND: status\n\nactive\n")
        self.wait(lambda: [body for _, body in self.inbox("carol")] == [b"stored"])
        letter = json.loads(self.command("dead", "list", "--json").stdout)[0]
        self.assertEqual(letter["message"], dead)
        self.agent("nobody")
        self.command("dead", "redeliver", str(letter["id"]))
        self.wait(lambda: [body for _, body in self.inbox("nobody")] == [b"dead"])

    def test_nothing_goes_when_everything_is_to_be_kept(self):
        self.config = {"archive_days": 0}
        self.setUp()
        old = self.plant(4000, "alice", "1-bbbbbbbb")
        leftover = self.root / "tmp/operation"
        leftover.mkdir(parents=True)
        os.utime(leftover, (0, 0))
        self.up()
        self.wait(lambda: not leftover.exists())
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.assertTrue(old.exists())

    def test_names_in_inboxes_still_rise_after_everything_was_forgotten(self):
        self.up()
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.state(message) == {"bob": "delivered"})
        self.command("inbox", "bob", "--take")
        self.wait(lambda: self.state(message) == {"bob": "read"})
        self.kill(signal.SIGTERM)
        self.age(40)
        future = 9_100_000_000_000_000_000
        subprocess.run(["sqlite3", self.root / "ledger.db", f"UPDATE deliveries SET inbox_name = '{future}-aaaaaaaa.msg'"], check=True)
        self.up()
        self.wait(lambda: self.stats().get("uptime", 0) > 0 and self.stats()["pid"] == self.process.pid)
        other = self.send("alice", "TO: bob\n\ny")
        self.wait(lambda: self.state(other) == {"bob": "delivered"})
        name = next((self.root / "agents/bob/inbox").glob("*.msg")).name
        self.assertGreater(int(name.split("-")[0]), future)


class Logs(Observe):
    def test_logs_rotate_and_so_many_old_ones_are_kept(self):
        self.config = {"log_bytes_max": 4096, "log_files": 2, "log_level": "debug"}
        self.setUp()
        self.up()
        self.agent("alice", "bob")
        for number in range(60):
            self.send("alice", f"TO: bob\n\n{number}")
        self.wait(lambda: (self.root / "relay.log.2").exists() and len(self.inbox("bob")) == 60)
        self.kill(signal.SIGTERM)  # nothing is renamed any more
        self.assertEqual(sorted(file.name for file in self.root.glob("relay.log*")), ["relay.log", "relay.log.1", "relay.log.2"])
        for file in self.root.glob("relay.log.*"):
            self.assertLessEqual(file.stat().st_size, 4096)
            self.assertEqual(file.stat().st_mode & 0o777, 0o600)
            for line in file.read_text().splitlines():
                json.loads(line)

    def test_debug_has_every_step_of_a_message_and_is_off_by_default(self):
        self.config = {"log_level": "debug"}
        self.setUp()
        self.up()
        self.agent("alice", "bob")
        message = self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.log_events("delivered"))
        self.command("inbox", "bob", "--take")
        self.wait(lambda: self.log_events("read"))
        self.command("ack", "bob", message)
        self.wait(lambda: self.log_events("acked"))
        self.assertEqual(self.log_events("accepted")[0]["message"], message)
        self.assertTrue(all(self.log_events(event)[0]["message"] == message for event in ("delivered", "read", "acked")))
        self.assertEqual(self.log_events("accepted")[0]["level"], "debug")
        self.assertTrue(any(one["path"].endswith(message.split("/")[1] + ".msg") for one in self.log_events("archived")))

    def test_less_than_the_level_is_not_written_and_the_audit_always_is(self):
        self.config = {"log_level": "error"}
        self.setUp()
        self.up_with()
        self.agent("alice", "bob")
        (self.root / "agents/alice/outbox/1-aaaaaaaa.msg").symlink_to("/etc/passwd")
        self.wait(lambda: self.log_events("strange_file", "audit.log"))
        self.assertEqual({one["level"] for one in map(json.loads, (self.root / "relay.log").read_text().splitlines())}, {"warning"})
        self.send("bob", "TO: nobody\n\nx")
        self.wait(lambda: self.inbox("bob"))
        self.assertFalse(self.log_events("started") + self.log_events("refused"))

    def test_a_tail_follows_through_rotations_and_ends_when_told(self):
        self.config = {"log_bytes_max": 8192, "log_level": "debug"}
        self.setUp()
        self.up()
        self.agent("alice", "bob")
        tail = subprocess.Popen([WARREN, "relay", "tail", "--follow", "--json", "--root", self.root], stdout=subprocess.PIPE, text=True)
        self.addCleanup(tail.kill)
        ids = []
        for number in range(40):
            ids.append(self.send("alice", f"TO: bob\n\n{number}"))
            self.wait(lambda: self.state(ids[-1]) == {"bob": "delivered"})
        accepted = []
        while len(accepted) < len(ids):
            line = json.loads(tail.stdout.readline())
            if line["event"] == "accepted":
                accepted.append(line["message"])
        self.assertEqual(accepted, ids)
        self.assertTrue((self.root / "relay.log.1").exists())
        tail.send_signal(signal.SIGINT)
        self.assertEqual(tail.wait(60), 0)
        tail.stdout.close()


class Following(Observe):
    def start(self, *words):
        process = subprocess.Popen([WARREN, "relay", *words, "--root", self.root], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def test_an_inbox_is_followed_and_left_when_told(self):
        self.up()
        self.agent("alice", "bob")
        follower = self.start("inbox", "bob", "--follow", "--json", "--take")
        for number in range(3):
            self.send("alice", f"TO: bob\n\n{number}")
            self.assertEqual(json.loads(follower.stdout.readline())["body"], str(number))
        follower.send_signal(signal.SIGTERM)
        self.assertEqual(follower.wait(60), 0)

    def test_send_waits_until_it_is_read_and_says_so_when_ended_before(self):
        self.up()
        self.agent("alice", "bob")
        waiting = self.start("send", "bob", "hello", "--from", "alice", "--wait", "read", "--timeout", "10m")
        self.wait(lambda: len(self.inbox("bob")) == 1)
        self.assertIsNone(waiting.poll())
        self.command("inbox", "bob", "--take")
        self.assertEqual(waiting.wait(60), 0)
        ended = self.start("send", "bob", "hello", "--from", "alice", "--wait", "read", "--timeout", "10m")
        self.wait(lambda: len(self.inbox("bob")) == 1)
        self.wait(lambda: "signalfd" in " ".join(open_files(ended.pid)))
        ended.send_signal(signal.SIGINT)
        self.assertEqual(ended.wait(60), 1)
        self.assertIn("not read yet", ended.stderr.read())


class Top(Observe):
    def start_top(self, rows=30, columns=100):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(WARREN, [WARREN, "relay", "top", "--root", str(self.root)])
        self.resize(terminal, rows, columns)
        self.addCleanup(os.close, terminal)
        self.screen = b""
        return pid, terminal

    def resize(self, terminal, rows, columns):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def see(self, terminal, text):
        def is_there():
            while select.select([terminal], [], [], 0)[0]:
                try:
                    self.screen += os.read(terminal, 65_536)
                except OSError:  # the other side has ended
                    return text in self.screen
            return text in self.screen
        self.wait(is_there, 60)

    def end(self, pid):
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)

    def test_a_live_view_that_leaves_the_terminal_as_it_was(self):
        self.up()
        self.agent("alice", "bob")
        for leave in (b"q", b"\x03"):
            pid, terminal = self.start_top()
            self.see(terminal, b"\x1b[?1049h")
            self.see(terminal, b"relay " + str(self.root).encode())
            self.assertFalse(termios.tcgetattr(terminal)[3] & (termios.ICANON | termios.ECHO))
            self.send("alice", "TO: bob\n\nx")
            self.see(terminal, b"  bob\x1b[K")
            self.see(terminal, b"p50 ")
            self.screen = b""
            self.resize(terminal, 4, 20)
            self.see(terminal, b"...\x1b[K")
            os.write(terminal, leave)
            self.see(terminal, b"\x1b[?25h\x1b[?1049l")
            self.assertEqual(self.end(pid), 0)
        pid, terminal = self.start_top()
        self.see(terminal, b"relay ")
        os.kill(pid, signal.SIGTERM)
        self.see(terminal, b"\x1b[?1049l")
        self.assertEqual(self.end(pid), 0)

    def test_the_mode_of_the_terminal_is_put_back(self):
        self.up()
        outer, inner = pty.openpty()
        self.addCleanup(os.close, outer)
        self.addCleanup(os.close, inner)
        before = termios.tcgetattr(inner)
        process = subprocess.Popen([WARREN, "relay", "top", "--root", self.root], stdin=inner, stdout=inner)
        self.addCleanup(process.kill)
        self.screen = b""
        self.see(outer, b"relay ")
        self.assertNotEqual(termios.tcgetattr(inner), before)
        os.write(outer, b"q")
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(termios.tcgetattr(inner), before)

    def test_one_plain_frame_where_there_is_no_terminal(self):
        self.up()
        self.agent("alice", "bob")
        for _ in range(3):
            self.send("alice", "TO: bob\n\nx")
        self.wait(lambda: self.stats().get("waiting") == {"bob": 3})
        for words in (["top"], ["top", "--once"]):
            frame = self.command(*words).stdout
            self.assertNotIn("\x1b", frame)
            self.assertRegex(frame, r"relay .*root   up \d")
            self.assertRegex(frame, r"delivered 3\n")
            self.assertRegex(frame, r" 3  bob\n")
            self.assertRegex(frame, r"p50 [\d.]+ m?s   p99 [\d.]+ m?s")
        numbers = json.loads(self.command("top", "--json").stdout)
        self.assertEqual((numbers["up"], numbers["delivered"], numbers["waiting"]), (True, 3, {"bob": 3}))
        self.kill(signal.SIGTERM)
        self.assertIn("   down\n", self.command("top").stdout)
        (self.root / "stats.json").write_text('{"latency": 5, "waiting": [1], "problems": "x", "deliveries": {"a\\u001b[2J": 1}}')
        self.assertNotIn("\x1b", self.command("top").stdout)
        (self.root / "stats.json").write_text("torn")
        self.assertIn("down", self.command("top").stdout)
        self.assertIn("no relay", subprocess.run([WARREN, "relay", "top", "--root", self.dir / "nowhere"], capture_output=True, text=True).stderr)


if __name__ == "__main__":
    main()
