"""What the attempts to escape from `warren run` share. Each runs as root and as an ordinary user."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed

ATTEMPTS = pathlib.Path(__file__).resolve().parent / "attempts.c"


class Escape:
    uid = 0

    def setUp(self):
        self.world = self.enterContext(sandboxed.World(self.uid))
        self.program = self.world.root / "attempts"
        subprocess.run(["cc", "-O1", "-Wall", "-o", self.program, ATTEMPTS], check=True)
        self.before = self.checksums()

    def tearDown(self):
        self.assertEqual(self.checksums(), self.before, "something outside has changed")

    def checksums(self):
        return sandboxed.checksum(self.world.base), sandboxed.checksum(self.world.canary)

    def attempt(self, *words, options=(), **started):
        """The attempt was made, and failed."""
        done = self.world.run("--session", "s", *options, "--", self.program, *words, **started)
        self.assertEqual(done.returncode, 0, f"{words}: status {done.returncode}: {done.stdout}{done.stderr}")
        self.assertEqual(self.checksums(), self.before, f"{words}: something outside has changed")
        return done.stdout

    def shell(self, text, **started):
        """Runs a shell command line inside; the caller checks whether it succeeded."""
        done = self.world.run("--session", "s", "--", "sh", "-c", text, **started)
        self.assertEqual(self.checksums(), self.before, f"{text}: something outside has changed")
        return done

    def looking(self, text, *options):
        """A run that executes these shell lines whenever it is asked."""
        process = self.world.start("run", "--session", "h", *options, "--", "sh", "-c",
                                   f"exec 2>/dev/null; while read line; do {text}; echo end; done",
                                   stdin=subprocess.PIPE, text=True, bufsize=1)
        self.addCleanup(lambda: (process.stdin.close(), process.stdout.close(), process.stderr.close(), process.wait()))
        return process

    def put(self, path, text):
        """Saves a user's file as most programs do."""
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name("fresh")
        fresh.write_text(text)
        os.chmod(fresh, 0o644)
        os.chown(path.parent, self.uid, self.uid)
        os.chown(fresh, self.uid, self.uid)
        fresh.rename(path)
