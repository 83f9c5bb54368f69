"""What the tests of the commands of `warren run` share. Each is tried as root and as an ordinary user."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed


class Commands:
    uid = 0

    def setUp(self):
        self.world = self.enterContext(sandboxed.World(self.uid))
        self.before = sandboxed.checksum(self.world.base)

    def tearDown(self):
        self.assertEqual(sandboxed.checksum(self.world.base), self.before, "the base has changed")

    def ok(self, *args, **options):
        done = self.world.run(*args, **options)
        self.assertEqual(done.returncode, 0, f"{args}: {done.stdout}{done.stderr}")
        return done.stdout

    def fails(self, *args, status=125, says="", **options):
        done = self.world.run(*args, **options)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout}{done.stderr}")
        self.assertIn(says, done.stderr)
        return done

    def begin(self, session, text, *options):
        """Starts a command in the session and waits for its first line."""
        process = self.world.start("run", "--session", session, *options, "--", "sh", "-c", text,
                                   stdin=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdin.close(), process.stdout.close(),
                                 process.stderr.close()))
        line = process.stdout.readline()
        self.assertTrue(line, process.stderr.read() if not line else "")
        return process, line.strip()

    def warren_of(self, process):
        """The `warren run` process itself: an ordinary user's is started by other programs, which exec it."""
        return process.pid
