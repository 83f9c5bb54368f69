#!/usr/bin/env python3
"""Pressing TAB in bash, zsh and fish: what is offered, and that no name on disk is ever run or shown raw.

    WARREN=path/to/warren completing.py [-v] [Bash.test_name]
"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

WARREN = pathlib.Path(os.environ["WARREN"]).resolve()
PATIENCE_SECONDS = 30
PROMPT = "ready> "

HOSTILE = ["$(touch PWNED)", "`touch PWNED`", "; touch PWNED;", "'; touch PWNED; '", '"; touch PWNED; "', "(touch PWNED)",
           "o$(touch PWNED)", "one\n$(touch PWNED)", "two words", "new\nline", "*", "?ne", "[o]ne", "{one,two}", "-rf", "--force",
           "$HOME", "~root", "\x1b]0;EVIL\x07", "\x1b[31mEVIL", "\u009b31mEVIL", "\u202eEVIL", "a\tb", "a:b", "a=b", "a\\b",
           "=(touch PWNED)", "<(touch PWNED)", "one;touch PWNED", "one && touch PWNED", "#one", "!!", "e\rEVIL"]

# Names of one line, each of which a shell would change or run if it were not quoted.
SPECIAL = ["it's", 'say "hi"', "back\\slash", "end\\", "$HOME", "x$HOME", "$(touch PWNED)", "`touch PWNED`", "; touch PWNED;", "a;b",
           "'; touch PWNED; '", '"; touch PWNED; "', "*", "?ne", "[o]ne", "{one,two}", "~root", "~", "(touch PWNED)", "a=b",
           "one && touch PWNED", "a:b", "a@b", "!!", "wow!", "it's wow!", "=ls", "<(touch PWNED)", "%self", "two  spaces", " first",
           "last ", "^a^b", "'", '"', "\\", "\\'", "'\\''", "$'x'", '$"x"', "a|b", "a&", "#x", "a#b", "- x", "ü'ß"]

# Stands before the program in PATH: records the words of every command line but passes the shell's questions on.
SHIM = """#!/bin/sh
case "$1" in
  complete|completions) exec {program} "$@" ;;
esac
printf '%s\\0' "$@" > {record}.new && mv {record}.new {record}
"""


class Shell:
    """An interactive shell on its own terminal."""

    def __init__(self, words, directory, environment):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execvpe(words[0], words, environment)

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern):
        """Waits until the text is on the screen; removes it and everything before it."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (found := re.search(pattern, self.seen)):
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} did not come; on the screen: {self.seen!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 65536).decode(errors="surrogateescape")
        before, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return before

    def drain(self):
        """Reads what is there: a shell whose terminal is full does not go on."""
        while select.select([self.fd], [], [], 0.02)[0]:
            self.seen += os.read(self.fd, 65536).decode(errors="surrogateescape")

    def close(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.fd)


class World:
    def __init__(self, case):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="completing-"))
        case.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.home, self.base, self.bin = self.root / "home", self.root / "base", self.root / "bin"
        self.record = self.root / "record"
        for each in (self.home, self.base, self.bin):
            each.mkdir()
        self.environment = {"HOME": str(self.home), "PATH": f"{self.bin}:/usr/bin:/bin:/usr/sbin:/sbin", "TERM": "dumb",
                            "PS1": PROMPT, "LC_ALL": "C.UTF-8", "SHELL": "/bin/sh"}
        (self.root / "real").mkdir()
        for name in ("warren", "agentfs"):
            (self.root / "real" / name).symlink_to(WARREN)
            shim = self.bin / name
            shim.write_text(SHIM.format(program=self.root / "real" / name, record=self.record))
            shim.chmod(0o755)

    def warren(self, *words):
        subprocess.run([WARREN, *words], cwd=self.base, env=self.environment, check=True, capture_output=True)

    def session(self, name):
        folder = self.home / ".agentfs" / "run" / name
        folder.mkdir(parents=True)
        shutil.copy(self.base / ".agentfs" / "one.db", folder / "delta.db")

    def words(self, shell):
        """The words of the command line that was entered."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.record.exists():
            if time.monotonic() > end:
                raise AssertionError(f"the command line did not run; on the screen: {shell.seen[-2000:]!r}")
            shell.drain()
        words = self.record.read_bytes().split(b"\0")[:-1]
        self.record.unlink()
        return [word.decode(errors="surrogateescape") for word in words]

    def ran(self):
        """What a name made a shell do."""
        return [path for path in self.root.rglob("PWNED*")]


class Completing:
    """What every shell must do; the classes below say how each is started."""

    def setUp(self):
        self.assertIsNotNone(shutil.which(self.SHELL[0]), f"{self.SHELL[0]} is not installed: run tools/setup")
        self.world = World(self)
        for name in ("one", "two"):
            self.world.warren("init", name)

    def shell(self):
        shell = Shell(self.SHELL, self.world.base, self.world.environment | self.ENVIRONMENT)
        self.addCleanup(shell.close)
        for line in self.PREPARE:
            shell.type(line + "\r")
        shell.type("echo LO''ADED\r")
        shell.expect("LOADED")
        return shell

    def completed(self, typed, shell=None):
        """The words of the line when TAB and then Enter are pressed after what was typed."""
        shell = shell or self.shell()
        shell.type(typed + "\t\r")
        return self.world.words(shell)

    def test_commands_options_choices_and_ids_are_completed(self):
        shell = self.shell()
        for typed, words in [("warren timel", ["timeline"]),
                             ("warren fs on", ["fs", "one"]),
                             ("warren fs one ls --rec", ["fs", "one", "ls", "--recursive"]),
                             ("warren timeline one --status er", ["timeline", "one", "--status", "error"]),
                             ("warren timeline one --status=er", ["timeline", "one", "--status=error"]),
                             ("warren timeline --limit 5 tw", ["timeline", "--limit", "5", "two"]),
                             ("warren sessions ren", ["sessions", "rename"]),
                             ("agentfs fs on", ["fs", "one"])]:
            with self.subTest(typed=typed):
                self.assertEqual(self.completed(typed, shell), words)

    def test_files_and_directories_are_completed_where_they_are_meant(self):
        (self.world.base / "deep").mkdir()
        (self.world.base / "deep" / "file.txt").write_text("")
        shell = self.shell()
        self.assertEqual(self.completed("warren fs one put deep/fi", shell), ["fs", "one", "put", "deep/file.txt"])
        self.assertEqual(self.completed("warren -C de", shell)[1].rstrip("/"), "deep")
        self.assertEqual(self.completed("warren fs deep/fi", shell), ["fs", "deep/file.txt"])

    def test_ids_come_from_the_directory_given_with_C(self):
        (self.world.base / "other").mkdir()
        self.world.warren("-C", "other", "init", "elsewhere")
        self.assertEqual(self.completed("warren -C other diff els"), ["-C", "other", "diff", "elsewhere"])

    def test_sessions_are_offered_where_an_agent_or_a_session_is_named(self):
        self.world.session("my-fix")
        shell = self.shell()
        self.assertEqual(self.completed("warren diff my", shell), ["diff", "my-fix"])
        self.assertEqual(self.completed("warren sessions delete my", shell), ["sessions", "delete", "my-fix"])
        self.assertEqual(self.completed("warren run --session my", shell), ["run", "--session", "my-fix"])

    def test_paths_keys_and_checkpoints_of_an_agent_are_completed(self):
        for line in ("fs one mkdir -p /notes/deep", "fs one write /notes/deep/plan.md x", "fs one write /notes/readme.md x",
                     "fs one write /notes/.hidden x", "kv one set colour 1", "checkpoint one take before-it"):
            self.world.warren(*line.split())
        shell = self.shell()
        for typed, words in [("warren fs one cat /notes/rea", ["fs", "one", "cat", "/notes/readme.md"]),
                             ("warren fs one cat notes/rea", ["fs", "one", "cat", "notes/readme.md"]),
                             ("warren fs one ls /no\tde", ["fs", "one", "ls", "/notes/deep/"]),
                             ("warren fs one grep x /notes/.h", ["fs", "one", "grep", "x", "/notes/.hidden"]),
                             ("warren fs one cp /notes/rea\t/notes/de", ["fs", "one", "cp", "/notes/readme.md", "/notes/deep/"]),
                             ("warren log one /notes/rea", ["log", "one", "/notes/readme.md"]),
                             ("warren kv one get co", ["kv", "one", "get", "colour"]),
                             ("warren checkpoint one show bef", ["checkpoint", "one", "show", "before-it"]),
                             ("warren fork one --at=bef", ["fork", "one", "--at=before-it"])]:
            with self.subTest(typed=typed):
                self.assertEqual(self.completed(typed, shell), words)

    def test_names_that_need_quotes_are_completed_to_words_that_work(self):
        for name in ("/two words/and more.md", "/übung/ä.md", "/#one"):
            self.world.warren("fs", "one", "write", name, "x")
        for key in ("user:first", "last words", "#mark"):
            self.world.warren("kv", "one", "set", key, "1")
        self.world.session("my-fix")
        shell = self.shell()
        for typed, words in [("warren fs one cat /tw", ["fs", "one", "cat", "/two words/"]),
                             ("warren fs one cat /two\\ words/an", ["fs", "one", "cat", "/two words/and more.md"]),
                             ("warren fs one cat /üb", ["fs", "one", "cat", "/übung/"]),
                             ("warren fs one cat /übung/", ["fs", "one", "cat", "/übung/ä.md"]),
                             ("warren fs one cat /#", ["fs", "one", "cat", "/#one"]),
                             ("warren kv one get us", ["kv", "one", "get", "user:first"]),
                             ("warren kv one get user:fi", ["kv", "one", "get", "user:first"]),
                             ("warren kv one get la", ["kv", "one", "get", "last words"]),
                             ("warren kv one get last\\ w", ["kv", "one", "get", "last words"]),
                             ("warren kv one get \\#m", ["kv", "one", "get", "#mark"]),
                             ("warren diff session:my", ["diff", "session:my-fix"])]:
            with self.subTest(typed=typed):
                self.assertEqual(self.completed(typed, shell), words)
        for typed, words in [('warren kv one get "la', ["kv", "one", "get", "last words"]),
                             ("warren fs one cat '/two words/an", ["fs", "one", "cat", "/two words/and more.md"])]:
            with self.subTest(typed=typed):
                shell.type(typed + "\t")  # some shells close the quotes
                shell.type(("" if self.CLOSES_QUOTES else typed[typed.index(words[3][0]) - 1]) + "\r")
                self.assertEqual(self.world.words(shell), words)

    def test_paths_in_a_session_are_completed(self):
        project = self.world.base / "project"
        (project / "src").mkdir(parents=True)
        (project / "src/main.c").write_text("x")
        (project / "readme.md").write_text("x")
        self.world.warren("init", "work", "--base", str(project))
        self.world.warren("fs", "work", "write", "/src/new.c", "x")
        shell = self.shell()
        for command in ("diff", "apply", "review", "discard"):
            for typed, completed in [("/src/ma", "/src/main.c"), ("src/ne", "src/new.c"), ("/rea", "/readme.md"),
                                     (f"{project}/src/ma", f"{project}/src/main.c")]:
                with self.subTest(command=command, typed=typed):
                    self.assertEqual(self.completed(f"warren {command} work {typed}", shell), [command, "work", completed])
        work = self.world.base / ".agentfs/work.db"  # in the base, a relative path is from where one is
        offered = subprocess.run([WARREN, "complete", "--", "diff", work, "ma"], cwd=project / "src", env=self.world.environment,
                                 capture_output=True, text=True, check=True)
        self.assertEqual(offered.stdout, "paths\nmain.c\t\n")
        offered = subprocess.run([WARREN, "complete", "--", "diff", work, "../r"], cwd=project / "src", env=self.world.environment,
                                 capture_output=True, text=True, check=True)
        self.assertEqual(offered.stdout, "paths\n../readme.md\t\n")

    def test_relay_agents_and_channels_are_completed(self):
        relay = self.world.root / "relay"
        self.world.environment["WARREN_RELAY_ROOT"] = str(relay)
        self.world.warren("relay", "up", "--daemon")
        self.addCleanup(self.world.warren, "relay", "down")
        self.world.warren("relay", "register", "Alice")
        self.world.warren("relay", "subscribe", "Alice", "builds")
        shell = self.shell()
        self.assertEqual(self.completed("warren relay inbox Al", shell), ["relay", "inbox", "Alice"])
        self.assertEqual(self.completed("warren relay send Al", shell), ["relay", "send", "Alice"])
        self.assertEqual(self.completed("warren relay send \\#bu", shell), ["relay", "send", "#builds"])
        self.assertEqual(self.completed("warren relay unsubscribe Alice bu", shell), ["relay", "unsubscribe", "Alice", "builds"])

    def test_special_names_are_completed_to_words_that_mean_exactly_them(self):
        for number, name in enumerate(SPECIAL):
            self.world.warren("fs", "one", "write", "--", f"/d{number}/{name}", "x")
            self.world.warren("kv", "one", "set", "--", f"k{number}-{name}", "1")
        shell = self.shell()
        for number, name in enumerate(SPECIAL):
            path, key = f"/d{number}/{name}", f"k{number}-{name}"
            for typed, words in [(f"warren fs one cat /d{number}/", ["fs", "one", "cat", path]),
                                 (f"warren kv one get k{number}-", ["kv", "one", "get", key])]:
                with self.subTest(typed=typed, name=name):
                    self.assertEqual(self.completed(typed, shell), words)
                    self.assertEqual(self.world.ran(), [])

    def test_special_names_are_completed_in_quotes_that_are_open(self):
        for number, name in enumerate(SPECIAL):
            self.world.warren("kv", "one", "set", "--", f"k{number}-{name}", "1")
        shell = self.shell()
        for number, name in enumerate(SPECIAL):
            for quote in "'\"":
                typed = f"warren kv one get {quote}k{number}-"
                with self.subTest(typed=typed, name=name):
                    if quote == '"' and name in self.NOT_IN_DOUBLE_QUOTES:
                        shell.type(typed + "\t" + quote + "\r")
                        self.assertEqual(self.world.words(shell), ["kv", "one", "get", f"k{number}-"])
                    else:
                        self.assertEqual(self.completed(typed, shell), ["kv", "one", "get", f"k{number}-{name}"])
                    self.assertEqual(self.world.ran(), [])

    def test_what_special_names_have_in_common_is_completed_and_can_be_typed_on(self):
        for key in ("a $(touch PWNED)'1'", "a $(touch PWNED)'2'", "b$x", "b'x"):
            self.world.warren("kv", "one", "set", "--", key, "1")
        shell = self.shell()
        for typed, key in [("a\t1\t", "a $(touch PWNED)'1'"), ("a\t2\t", "a $(touch PWNED)'2'"), ("b\\$\t", "b$x"), ("b\\'\t", "b'x")]:
            with self.subTest(typed=typed):
                shell.type("warren kv one get " + typed + "\r")
                self.assertEqual(self.world.words(shell), ["kv", "one", "get", key])
                self.assertEqual(self.world.ran(), [])

    def test_a_special_character_that_is_typed_without_quotes_runs_nothing(self):
        for name in ("$(touch PWNED)", "`touch PWNED`", "$HOME", "~root", "{touch,PWNED}", "*", "x$(touch PWNED)y"):
            self.world.warren("fs", "one", "write", "--", "/d/" + name, "x")
            self.world.warren("kv", "one", "set", "--", name, "1")
        shell = self.shell()
        for word in ("/d/$(to", "/d/`to", "/d/$H", "/d/{to", "/d/*", '"/d/$(to', '"/d/`to', "/d/x$(", "$(to", "~ro", "`to", '"$(to'):
            for command in ("fs one cat", "kv one get"):
                with self.subTest(command=command, word=word):
                    shell.type(f"warren {command} {word}\t\t")
                    shell.type("n\x15echo NE''XT\r")
                    shell.expect("NEXT")  # after the answer to a question, or another letter, and Control-U
                    self.assertEqual(self.world.ran(), [])

    def test_hostile_names_in_an_agent_are_not_run_and_never_shown_raw(self):
        for name in HOSTILE:
            self.world.warren("fs", "one", "write", "--", "/d/" + name, "x")
            self.world.warren("kv", "one", "set", "--", name, "1")
            subprocess.run([WARREN, "checkpoint", "one", "take", "--", name], cwd=self.world.base,
                           env=self.world.environment, capture_output=True)
        self.world.warren("fs", "one", "write", "/d/plain", "x")
        shell = self.shell()
        for typed in ("warren fs one cat /d/", "warren kv one get ", "warren checkpoint one show ", "warren fs one rm /d/o"):
            with self.subTest(typed=typed):
                shell.type(typed + "\t\t")
                shell.type("\x15echo NE''XT\r")
                seen = shell.expect("NEXT")
                self.assertNotIn("EVIL", seen)
                if not typed.endswith(("/", "/o")):  # as the name of a file in a path it is no option
                    self.assertNotIn("force", seen)
                self.assertEqual(self.world.ran(), [])
        self.assertEqual(self.completed("warren fs one cat /d/pl", shell), ["fs", "one", "cat", "/d/plain"])
        self.assertEqual(self.world.ran(), [])

    def test_nothing_is_listed_of_an_agent_whose_reads_are_recorded(self):
        self.world.environment["WARREN_AUDIT_KEY"] = "a" * 64
        self.world.warren("fs", "one", "write", "/secret-plan", "x")
        self.world.warren("audit", "one", "reads")
        self.assertEqual(self.completed("warren fs one cat /secr"), ["fs", "one", "cat", "/secr"])

    def test_no_name_on_disk_is_run_or_offered_unless_it_is_an_id(self):
        for name in HOSTILE:
            if "/" not in name:
                shutil.copy(self.world.base / ".agentfs" / "one.db", self.world.base / ".agentfs" / f"{name}.db")
                self.world.session(name)
        shell = self.shell()
        for typed in ("warren diff ", "warren fs ", "agentfs fs ", "warren sessions delete ", "warren run --session "):
            with self.subTest(typed=typed):
                shell.type(typed + "\t\t")
                if typed.split()[1] in ("diff", "fs"):
                    shell.expect("one")
                shell.type("\x15echo NE''XT\r")  # Control-U: clears the line
                seen = shell.expect("NEXT")
                self.assertNotIn("EVIL", seen)
                self.assertNotIn("touch", seen)
                self.assertNotIn("force", seen)
                self.assertEqual(self.world.ran(), [])
        self.assertEqual(self.completed("warren diff on", shell), ["diff", "one"])
        self.assertEqual(self.world.ran(), [])

    def test_a_file_with_a_hostile_name_is_inserted_quoted(self):
        for number, name in enumerate(["$(touch PWNED)", "`touch PWNED`", "; touch PWNED;", "two words", "*", "-rf", "a'b\"c"]):
            folder = self.world.base / f"d{number}"
            folder.mkdir()
            (folder / name).write_text("")
            with self.subTest(name=name):
                self.assertEqual(self.completed(f"warren fs one put d{number}/"), ["fs", "one", "put", f"d{number}/{name}"])
                self.assertEqual(self.world.ran(), [])

    def test_what_is_typed_is_not_run_before_it_is_entered(self):
        shell = self.shell()
        for typed in ("warren fs $(touch PWNED) l", "warren -C $(touch PWNED) diff o", "warren fs `touch PWNED` --re"):
            shell.type(typed + "\t\t")
            shell.type("\x15echo NE''XT\r")
            shell.expect("NEXT")
            self.assertEqual(self.world.ran(), [])


class Bash(Completing, unittest.TestCase):
    CLOSES_QUOTES = True
    SHELL = ["bash", "--norc", "--noprofile", "-i"]
    ENVIRONMENT = {}
    NOT_IN_DOUBLE_QUOTES = [name for name in SPECIAL if "!" in name]  # a backslash before it would stay in the word
    PREPARE = ["bind 'set bell-style none'; bind 'set show-all-if-ambiguous on'; bind 'set page-completions off'",
               "source <(warren completions bash); source <(agentfs completions bash)"]

    def test_a_path_in_quotes_is_completed_to_its_end(self):
        self.world.warren("fs", "one", "write", "/docs/quote.md", "x")
        self.world.warren("fs", "one", "write", "/two words/more/a.md", "x")
        self.world.warren("fs", "one", "write", "/two words/more/b.md", "x")
        shell = self.shell()
        for typed, word in [('"/do\t', "/docs/quote.md"), ("'/do\t", "/docs/quote.md"), ('"/docs/"\t', "/docs/quote.md"),
                            ('"/docs/"qu\t', "/docs/quote.md"), ('"/two w\ta\t', "/two words/more/a.md"),
                            ("'/two words/'more/b\t", "/two words/more/b.md")]:
            with self.subTest(typed=typed):
                shell.type(f"warren fs one cat {typed}\r")
                self.assertEqual(self.world.words(shell), ["fs", "one", "cat", word])

    def test_after_a_redirection_files_are_completed(self):
        (self.world.base / "target.txt").write_text("")
        self.assertEqual(self.completed("warren diff one > targ"), ["diff", "one"])
        self.assertFalse((self.world.base / "targ").exists())


class Zsh(Completing, unittest.TestCase):
    CLOSES_QUOTES = True
    SHELL = ["zsh", "-f", "-i"]
    ENVIRONMENT = {}
    NOT_IN_DOUBLE_QUOTES = []
    PREPARE = ["unsetopt beep prompt_cr prompt_sp; autoload -Uz compinit && compinit -u -D",
               "source <(warren completions zsh); source <(agentfs completions zsh)"]


class Fish(Completing, unittest.TestCase):
    CLOSES_QUOTES = True
    SHELL = ["fish", "--no-config", "-i"]
    ENVIRONMENT = {}
    NOT_IN_DOUBLE_QUOTES = []
    PREPARE = ["warren completions fish | source; agentfs completions fish | source"]


if __name__ == "__main__":
    unittest.main()
