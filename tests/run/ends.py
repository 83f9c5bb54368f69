#!/usr/bin/env python3
"""How one run of a session ends while another run of the session goes on.

    WARREN=path/to/warren ends.py [-v] [AsRoot.test_name]

Needs root. Everything is tried as root and as an ordinary user.
"""
import os
import pathlib
import select
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed
from sandboxed import wait_for

# Three that ignore what asks them to end: in the background, a daemon in a session of its own whose parents have ended,
# and a child in a session of its own.
LEFT_OVER = """
trap '' TERM INT HUP QUIT
sleep 1000 &
(setsid sh -c 'sleep 1000 & exit' &)
setsid sh -c 'sleep 1000' &
trap - TERM INT HUP QUIT
echo on
"""

# Its first thread ends, by itself alone, and the other one says when that has happened.
WITHOUT_FIRST_THREAD = f"""
import ctypes, threading, time
def work():
    while ') Z ' not in open('/proc/self/stat').read(): time.sleep(0.01)
    print('on', flush=True)
    time.sleep(1000)
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall({60 if os.uname().machine == "x86_64" else 93}, 0)  # exit
"""


class Ends:
    uid = 0

    def setUp(self):
        self.world = self.enterContext(sandboxed.World(self.uid))

    def begin(self, name, text):
        """Starts a run of the session whose processes inside can be told from others by `name`."""
        process = self.world.start("run", "--session", "s", "--env", f"WARREN_TEST_RUN={name}", "--", "sh", "-c", text,
                                   stdin=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdin.close(), process.stdout.close(),
                                 process.stderr.close()))
        line = process.stdout.readline()
        self.assertTrue(line, process.stderr.read() if not line else "")
        return process

    def inside(self, name):
        """The processes of the run inside, and what they run."""
        found = {}
        for pid in self.world.processes():
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if f"WARREN_TEST_RUN={name}".encode() in variables:
                    found[pid] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
        return found

    def sleepers(self, name):
        return list(self.inside(name).values()).count("sleep")

    def check_lives_on(self, process):
        self.assertIsNone(process.poll())
        out, err = process.communicate("go\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual((process.returncode, out), (0, "still\n"), err)

    def check_all_end(self, number, text, first):
        """The run `ended` gets the signal while the run `other` goes on; `first` starts the session."""
        waits = "echo on; read line; echo still > f; cat f"
        if first == "other":
            other, ended = self.begin("other", waits), self.begin("ended", text)
        else:
            ended = self.begin("ended", text)
            other = self.begin("other", waits)
        wait_for(lambda: self.sleepers("ended") == 4, "not everything has started")
        os.kill(ended.pid, number)
        status = ended.wait(timeout=sandboxed.PATIENCE_SECONDS)
        if number == signal.SIGKILL:
            wait_for(lambda: not self.inside("ended"), "a process of the killed run is left")
        self.assertEqual(self.inside("ended"), {}, "a process of the run is left")
        self.check_lives_on(other)
        return status

    def test_a_signal_that_asks_a_run_to_end_ends_all_that_it_started_and_no_other_run(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            for first in ("other", "ended"):
                with self.subTest(number=number.name, first=first):
                    status = self.check_all_end(number, LEFT_OVER + "exec sleep 1000", first)
                    self.assertEqual(status, 128 + number)

    def test_a_killed_run_ends_with_all_that_it_started_and_no_other_run(self):
        for first in ("other", "ended"):
            with self.subTest(first=first):
                self.check_all_end(signal.SIGKILL, LEFT_OVER + "trap '' TERM; sleep 1000", first)

    def test_what_forks_on_and_on_ends_too(self):
        other = self.begin("other", "echo on; read line; echo still > f; cat f")
        chain = "import os\nprint('on', flush=True)\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid()\n"
        ended = self.begin("ended", f"{sandboxed.PYTHON} -c \"{chain}\"; exec sleep 1000")
        wait_for(lambda: self.sleepers("ended") == 1, "it has not started")
        os.kill(ended.pid, signal.SIGKILL)
        ended.wait(timeout=sandboxed.PATIENCE_SECONDS)
        # Each of them has our pipe, so its end is the end of the last one.
        ready, _, _ = select.select([ended.stdout], [], [], sandboxed.PATIENCE_SECONDS)
        self.assertTrue(ready, "a process of the killed run is left")
        self.assertEqual(ended.stdout.read(), "")
        self.check_lives_on(other)

    def test_a_process_whose_first_thread_has_ended_ends_too(self):
        other = self.begin("other", "echo on; read line; echo still > f; cat f")
        ended = self.begin("ended", f"{sandboxed.PYTHON} -c \"{WITHOUT_FIRST_THREAD}\" & exec sleep 1000")
        os.kill(ended.pid, signal.SIGTERM)
        self.assertEqual(ended.wait(timeout=sandboxed.PATIENCE_SECONDS), 128 + signal.SIGTERM)
        # It has our pipe, so its end is the end of the process.
        ready, _, _ = select.select([ended.stdout], [], [], sandboxed.PATIENCE_SECONDS)
        self.assertTrue(ready, "a process of the run is left")
        self.assertEqual(ended.stdout.read(), "")
        self.check_lives_on(other)

    def test_a_command_that_takes_an_interrupt_and_succeeds_has_not_been_asked_to_end(self):
        other = self.begin("other", "echo on; read line; echo still")
        taken = self.begin("taken", "trap 'echo taken' INT; sleep 1000 >/dev/null 2>&1 & echo on; read line; read line; exit 0")
        taken.send_signal(signal.SIGINT)
        self.assertEqual(taken.stdout.readline(), "taken\n")
        out, err = taken.communicate("go\ngo\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual((taken.returncode, out), (0, ""), err)
        self.assertEqual(self.sleepers("taken"), 1)
        self.check_lives_on(other)

    def test_what_a_run_left_behind_stays_while_the_session_does(self):
        other = self.begin("other", "echo on; read line; echo still > f; cat f")
        ended = self.begin("ended", "sleep 1000 >/dev/null 2>&1 & echo on")
        self.assertEqual(ended.wait(timeout=sandboxed.PATIENCE_SECONDS), 0)
        self.assertEqual(self.sleepers("ended"), 1)
        self.check_lives_on(other)
        wait_for(lambda: not self.world.processes(), "a process was left")


class AsRoot(Ends, unittest.TestCase):
    pass


class AsUser(Ends, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
