"""What the tests of encryption share: a home of their own, and the program run in it."""
import os
import pathlib
import secrets
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

SECRET = "the launch code is 7391"
OPEN = "anybody may read this"
WARREN = os.environ["WARREN"]


class EncryptCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="warren-encrypt-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        for folder in ("home", "runtime", "work"):
            (self.dir / folder).mkdir(mode=0o700)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WARREN_", "XDG_"))}
        self.environment = kept | {"HOME": str(self.dir / "home"), "XDG_RUNTIME_DIR": str(self.dir / "runtime"),
                                   "WARREN_EMBED": "none"}
        self.work = self.dir / "work"

    def run_program(self, *words, **changed):
        return subprocess.run([WARREN, *words], cwd=self.work, env=self.environment | changed, text=True,
                              capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL)

    def warren(self, *words, **changed):
        done = self.run_program(*words, **changed)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def refused(self, *words, **changed):
        """Everything that it says."""
        done = self.run_program(*words, **changed)
        self.assertNotEqual(done.returncode, 0, f"{words} succeeded: {done.stdout}")
        self.assertNotIn(SECRET, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def file_of(self, agent):
        return self.work / ".agentfs" / f"{agent}.db"

    def notes(self):
        return sorted((self.dir / "home/.config/warren/keys").glob("*.json"))

    def no_key(self):
        return {"XDG_CONFIG_HOME": str(self.dir / "elsewhere")}

    def key_file(self, name="key"):
        file = self.dir / name
        file.write_text(secrets.token_hex(32))
        file.chmod(0o600)
        return str(file)

    def sql(self, agent, *statements):
        database = sqlite3.connect(self.file_of(agent))
        for statement in statements:
            database.execute(statement)
        database.commit()
        database.close()

    def ask(self, agent, query):
        database = sqlite3.connect(self.file_of(agent))
        found = database.execute(query).fetchall()
        database.close()
        return found

    def assert_hidden(self, *files):
        for file in files:
            self.assertNotIn(SECRET.encode(), file.read_bytes(), file)
