#!/usr/bin/env python3
"""`warren run` on a terminal: shells, job control, keys and window sizes, as without it.

    WARREN=path/to/warren terminal.py [-v] [Terminal.test_name]
"""
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed

SHELL = ["bash", "--norc", "--noprofile", "-i"]
PROMPT = "ready$ "


class Screen:
    """A program on its own terminal, as a session leader."""

    def __init__(self, world, words):
        self.seen = ""
        environment = world.environment() | {"PS1": PROMPT, "TERM": "dumb", "NO_COLOR": "1"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(world.base)
            os.execvpe(words[0], words, environment)
        self.resize(24, 80)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern, seconds=sandboxed.PATIENCE_SECONDS):
        """Waits until the text is on the screen; removes it and everything before it."""
        end = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.seen)
            if found:
                before, self.seen = self.seen[:found.end()], self.seen[found.end():]
                return before
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} did not come; on the screen: {self.seen!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace").replace("\r", "")
                except OSError:
                    if re.search(pattern, self.seen):
                        continue
                    raise AssertionError(f"{pattern!r} did not come before the end: {self.seen!r}")

    def end(self):
        """Returns the exit status; reads the remaining output, so that the program does not block."""
        end = time.monotonic() + sandboxed.PATIENCE_SECONDS
        while time.monotonic() < end:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace").replace("\r", "")
                except OSError:
                    time.sleep(0.05)
        raise AssertionError(f"it does not end; on the screen: {self.seen!r}")

    def close(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.fd)


class Terminal(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(sandboxed.World())

    def screen(self, *words):
        screen = Screen(self.world, [str(word) for word in words])
        self.addCleanup(screen.close)
        return screen

    def prompt(self, screen):
        return screen.expect(re.escape(PROMPT))

    def inner_shell(self):
        screen = self.screen(*self.world.words("run", "--env", "PS1", "--session", "t", "--", *SHELL))
        return screen, self.prompt(screen)

    def outer_shell(self):
        screen = self.screen(*SHELL)
        self.prompt(screen)
        return screen

    def sleeps(self):
        """This test's `sleep 1000` processes: state, process group and foreground group of their terminal."""
        mark = f"WARREN_TEST_WORLD={self.world.root}".encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "cmdline").read_bytes() != b"sleep\0001000\0" or mark not in (entry / "environ").read_bytes():
                    continue
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            yield fields[0], fields[2], fields[5]

    def sleep_is_there(self):
        sandboxed.wait_for(lambda: any(state == "S" for state, _, _ in self.sleeps()), "the command to sleep")

    def sleep_has_the_terminal(self):
        sandboxed.wait_for(lambda: any(state == "S" and group == owner for state, group, owner in self.sleeps()),
                           "the command to sleep in the foreground")

    def test_an_interactive_shell_has_job_control(self):
        screen, before = self.inner_shell()
        for complaint in ("cannot set terminal", "no job control"):
            self.assertNotIn(complaint, before)
        screen.type("sleep 1000\n")
        self.sleep_has_the_terminal()
        screen.type("\x1a")
        screen.expect("Stopped")
        self.prompt(screen)
        screen.type("jobs; fg\n")
        screen.expect("Stopped")
        screen.expect("sleep 1000\n")
        self.sleep_has_the_terminal()
        screen.type("\x03")
        self.prompt(screen)
        screen.type("echo status $?\n")
        screen.expect("\nstatus 130\n")
        screen.type("sleep 1000 &\n")
        self.prompt(screen)
        screen.type("kill %1; wait; exit 3\n")
        self.assertEqual(screen.end(), 3)

    def test_the_prompt_of_a_shell_that_is_told_to_ask_names_the_session(self):
        for options in ((), ("-i",), ("-i", "-l")):
            with self.subTest(options):
                screen = self.screen(*self.world.words("run", "--session", "t", "--", "bash", *options))
                screen.expect(r"\(t\) ")
                screen.type("exit 3\n")
                self.assertEqual(screen.end(), 3)

    def test_the_window_size_and_its_changes_are_passed_on(self):
        screen, _ = self.inner_shell()
        screen.type("stty size\n")
        screen.expect("\n24 80\n")
        screen.type("trap 'echo changed' WINCH\n")
        self.prompt(screen)
        screen.resize(40, 100)
        screen.type("stty size\n")
        self.assertIn("changed", screen.expect("40 100\n") + self.prompt(screen))

    def test_streams_of_the_terminal_can_be_opened_again(self):
        screen, _ = self.inner_shell()
        screen.type("echo to-tty > /dev/tty; echo to-err > /dev/stderr; test -t 0 && echo is-one\n")
        for word in ("\nto-tty\n", "to-err\n", "is-one\n"):
            screen.expect(word)

    def test_a_new_terminal_can_be_made_inside(self):
        screen, _ = self.inner_shell()
        screen.type(f"{sandboxed.PYTHON} -c \"import pty; pty.spawn(['sh', '-c', 'tty; echo spawned'])\"\n")
        screen.expect("/dev/pts/0\n")
        screen.expect("spawned\n")

    def test_the_whole_run_is_a_job_of_the_shell_outside(self):
        screen = self.outer_shell()
        run = " ".join(self.world.words("run", "--session", "t", "--", "sleep", "1000"))
        screen.type(run + "\n")
        sandboxed.wait_for(lambda: self.world.server("t") if self.world.session_dir("t").exists() else None, "the server")
        self.sleep_has_the_terminal()
        screen.type("\x1a")
        screen.expect("Stopped")
        self.prompt(screen)
        screen.type("fg\n")
        screen.expect("sleep 1000\n")
        self.sleep_has_the_terminal()
        screen.type("\x1a")
        screen.expect("Stopped")
        self.prompt(screen)
        screen.type("bg; sleep 0.2; jobs\n")
        screen.expect("Running")
        self.prompt(screen)
        screen.type("fg\n")
        # The run is not notified that it is in the foreground again: it receives the keys and passes them on.
        sandboxed.wait_for(lambda: os.tcgetpgrp(screen.fd) != screen.pid, "the shell to give its terminal away")
        screen.type("\x03")
        self.prompt(screen)
        screen.type("echo status $?; stty -a | grep -c isig\n")
        screen.expect("\nstatus 130\n1\n")
        screen.type("exit 0\n")
        self.assertEqual(screen.end(), 0)

    def test_in_a_pipeline_the_other_end_keeps_the_terminal(self):
        screen = self.outer_shell()
        run = " ".join(self.world.words("run", "--", "echo", "piped"))
        screen.type(f"{run} | (cat; read answer < /dev/tty; echo got $answer)\n")
        screen.expect("\npiped\n")
        screen.type("key\n")
        screen.expect("\ngot key\n")

    def test_in_a_pipeline_it_gets_the_terminal_when_it_asks(self):
        screen = self.outer_shell()
        run = " ".join(self.world.words("run", "--", "sh", "-c", "'echo ask; read answer; echo got $answer'"))
        screen.type(f"{run} | cat\n")
        screen.expect("\nask\n")
        screen.type("key\n")
        screen.expect("\ngot key\n")
        self.prompt(screen)
        run = " ".join(self.world.words("run", "--", "sh", "-c", "'echo on; sleep 1000'"))
        screen.type(f"{run} | cat\n")
        screen.expect("\non\n")
        self.sleep_is_there()  # a shell that has not started its command yet may miss the key
        screen.type("\x03")
        self.prompt(screen)

    def test_the_terminal_is_afterwards_as_it_was(self):
        """Whether the command ends by itself, by a signal, or leaves a process behind that goes on."""
        screen = self.outer_shell()
        node = os.readlink(f"/proc/{screen.pid}/fd/0")
        mode = os.stat(node).st_mode
        spoil = "chmod 0666 /proc/self/fd/0; stty raw -echo"
        for signals, text in ((None, f"{spoil}; exit 0"), (None, f"{spoil}; kill -9 $$"),
                              (None, f"(while :; do {spoil}; done) & sleep 0.3"),
                              (signal.SIGTERM, f"{spoil}; echo on; exec sleep 1000"),
                              (signal.SIGALRM, f"{spoil}; echo on; exec sleep 1000")):
            screen.type(" ".join(self.world.words("run", "--session", "t", "--keep", "--", "sh", "-c", f"'{text}'")) + "\n")
            if signals:
                screen.expect("\non\n")
                procs = self.world.session_dir("t") / "procs"
                os.kill(int(sandboxed.wait_for(lambda: [p.stem for p in procs.iterdir()], "the run")[0]), signals)
            self.prompt(screen)
            screen.type("stty -a | tr ' ' '\\n' | grep -xE -- '-?(echo|icanon|opost);?' | tr '\\n' ' '\n")
            screen.expect("opost icanon echo ")
            self.prompt(screen)
            self.assertEqual(os.stat(node).st_mode, mode, text)

    def test_the_terminal_can_be_read_and_opened_afterwards(self):
        script = self.world.root / "spoil.py"
        script.write_text("import fcntl, os, termios\n"
                          "fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_ASYNC)\n"
                          "fcntl.ioctl(0, termios.TIOCEXCL)\n")
        screen = self.outer_shell()
        screen.type(" ".join(self.world.words("run", "--session", "t", "--keep", "--", sandboxed.PYTHON, str(script))) + "\n")
        self.prompt(screen)
        screen.type("(read line; echo got $line; echo opened > /dev/tty)\n")
        screen.type("typed\n")
        screen.expect("got typed")
        screen.expect("\nopened")

    def test_the_start_says_what_is_hidden_of_the_home(self):
        screen = self.screen(*self.world.words("run", "--", "true"))
        screen.expect("new session .*, base .*\n")
        screen.expect("entries of your home directory are hidden: --read PATH shows one, --home all shows all but secrets\n")

    def test_without_a_command_it_is_the_users_shell(self):
        screen = self.screen(*self.world.words("run", "--session", "t"))
        screen.expect("new session t")
        screen.expect(r"\(t\) ")  # the prompt names the session
        screen.type("echo $WARREN_SESSION $0\n")
        screen.expect("\nt /bin/bash\n")
        screen.type("echo x > f; exit\n")
        self.assertEqual(screen.end(), 0)
        self.assertIn("warren diff session:t", screen.seen)

    def test_the_prompt_of_a_named_shell_names_the_session(self):
        for shell in ("bash", "bash --norc", "bash --noprofile --norc --posix", "bash --rcfile /dev/null -o vi", "zsh -f",
                      "zsh --no-rcs -o extendedglob", "sh", "dash", "sh -u", "fish", "fish --no-config", "fish -N -C true"):
            for outside in ((), ("env", "-u", "PS1")):  # a prompt that is exported gets the mark, too
                with self.subTest(shell, outside=outside):
                    screen = self.screen(*outside, *self.world.words("run", "--session", "named", "--", *shell.split()))
                    screen.expect("new session")
                    prompt = screen.expect(r"\(named\) .*[#$>] ")
                    self.assertEqual(prompt.count("(named)"), 1, prompt)
                    screen.type("echo still here; exit 3\n")
                    screen.expect("still here\n")
                    self.assertEqual(screen.end(), 3)

    def test_a_prompt_that_is_asked_for_stays_as_it_is(self):
        screen = self.screen(*self.world.words("run", "--env", "PS1", "--session", "t", "--", "dash"))
        screen.expect("new session t")
        self.assertNotIn("(t)", self.prompt(screen))

    def test_a_script_and_a_command_of_a_shell_get_no_mark(self):
        text = "env | grep -c '(t)'; echo end"
        (self.world.base / "script").write_text(text + "\n")
        for words in (("sh", "-c", text), ("bash", "--norc", "script"), ("zsh", "-f", "script"), ("fish", "-c", text)):
            with self.subTest(words):
                screen = self.screen(*self.world.words("run", "--session", "t", "--", *words))
                screen.expect(r"\n0\nend\n")
                self.assertEqual(screen.end(), 0)

    def test_deleting_a_session_asks(self):
        self.world.inside("t", "sh", "-c", "echo x > f")
        for answer, stays in (("n", True), ("y", False)):
            screen = self.screen(*self.world.words("sessions", "delete", "t"))
            screen.expect(r"\[y/N\] ")
            screen.type(answer + "\n")
            screen.end()
            self.assertEqual(self.world.session_dir("t").exists(), stays)


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
