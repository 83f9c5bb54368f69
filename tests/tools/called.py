"""A temporary directory with one agent, and its tools called through the program that WARREN names."""
import json
import os
import shutil
import subprocess
import sys
import tempfile


def program():
    path = os.environ.get("WARREN")
    if not path or not os.access(path, os.X_OK):
        sys.exit("set WARREN to the warren program to test")
    return os.path.abspath(path)


class World:
    parent = None  # where it is made; the system's directory for temporary files

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="warren-tools-", dir=self.parent)
        runtime = os.path.join(self.dir, "runtime")
        os.mkdir(runtime, 0o700)
        self.env = {**os.environ, "HOME": self.dir, "XDG_RUNTIME_DIR": runtime, "XDG_CONFIG_HOME": self.dir + "/config"}
        self.env.pop("WARREN_TRACE_ID", None)
        self.run("init", "a")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def run(self, *words, data=None, status=0):
        """Runs a command and returns its output as bytes."""
        done = subprocess.run([program(), *words], cwd=self.dir, env=self.env, input=data or b"", capture_output=True,
                              timeout=300)
        if status is not None:
            assert done.returncode == status, (words[:4], done.returncode, done.stdout[:2000], done.stderr[:2000])
        return done.stdout

    def tool(self, name, arguments, *options):
        """The answer of a call, which succeeds."""
        return json.loads(self.run("tool", "a", name, "-", "--json", *options, data=json.dumps(arguments).encode()))

    def fails(self, name, arguments, *options):
        """The error of a call, which fails."""
        error = json.loads(self.run("tool", "a", name, "-", *options, data=json.dumps(arguments).encode(), status=1))
        assert error["is_error"] is True, error
        assert set(error) == {"is_error", "error_type", "message", "next_action_hint"}, error
        return error


def run_topic(tests):
    """Runs functions that take a World, each with its own."""
    failed = 0
    for test in tests:
        with World() as world:
            try:
                test(world)
                print(f"ok    {test.__name__}", flush=True)
            except Exception as error:  # noqa: BLE001: every failure is reported, and the next test still runs
                failed += 1
                print(f"FAILED {test.__name__}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)
