"""A temporary directory with one agent and its mounts, for the tests that need a real mount.

The program is the one the environment variable WARREN names. Whatever a test does, nothing stays behind: leaving
the `World` unmounts, ends the daemons it started (known by the temporary directory in their command line) and
removes the directory, without ever waiting on a mount that does not answer.
"""
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIBC = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2
SKIPPED = 77
FULL = os.environ.get("WARREN_CHECK_FULL") == "yes"  # ./check --full: the long runs
PATIENCE_SECONDS = 60  # for operations that take moments; only a hang reaches it


def need_fuse():
    """Exits with status 77 (skipped) if mounts cannot be tested here."""
    if not os.path.exists("/dev/fuse"):
        print("SKIPPED: NOTHING WAS TESTED, there is no /dev/fuse on this machine", file=sys.stderr)
        sys.exit(SKIPPED)


def program():
    """The warren to test; a copy that other users reach, if ./check has made one."""
    path = os.environ.get("WARREN_REACHABLE") or os.environ.get("WARREN")
    if not path or not os.access(path, os.X_OK):
        sys.exit("set WARREN to the warren program to test")
    return os.path.abspath(path)


def wait_for(condition, what, seconds=PATIENCE_SECONDS):
    """Waits for the condition and returns its first true value; fails on timeout."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain: {what}")
        time.sleep(0.01)


def mounts_at(path):
    """The ids of the mounts on this path, by the kernel's mount table, because a dead mount does not answer."""
    wanted = str(path).encode()
    lines = (line.split() for line in pathlib.Path("/proc/self/mountinfo").read_bytes().splitlines())
    return [fields[0] for fields in lines if fields[4].decode("unicode_escape").encode("latin-1") == wanted]


def is_mounted(path):
    return bool(mounts_at(path))


def answers(path):
    """Whether a mount exists and its server is alive. Does not use stat, which the kernel may answer for a dead mount.

    A mount that is replaced between two of these steps does not count: the plain directory would have answered for it.
    """
    try:
        mounts = mounts_at(path)
        return bool(mounts) and os.statvfs(path) is not None and mounts_at(path) == mounts
    except OSError:
        return False


def detach(path):
    while is_mounted(path):
        if LIBC.umount2(os.fsencode(path), MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), f"umount2 {path}")


def unless_gone(_, path, error):
    """For rmtree: a server that is just ending removes its log."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


class World:
    """Use with `with`. `id` is the agent, `file` its file, `root` the directory everything is in."""

    def __init__(self, agent_dir=None):
        self.id = "a"
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="warren-mount-")).resolve()
        os.chmod(self.root, 0o755)  # other users must be able to reach the mount point
        self.home = pathlib.Path(agent_dir or self.root / "home")
        self.file = self.home / ".agentfs" / "a.db"
        self.points = []

    def __enter__(self):
        try:
            self.home.mkdir(exist_ok=True)
            self.warren("init", self.id)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for point in self.points:
            detach(point)
        for pid in self.daemons():
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self.daemons(), "a daemon that was killed is still there")
        shutil.rmtree(self.root, onerror=unless_gone)

    def run(self, *args, **options):
        """Runs the program to its end. Checks nothing."""
        options = {"cwd": self.home, "capture_output": True, "timeout": PATIENCE_SECONDS} | options
        return subprocess.run([program(), *map(str, args)], **options)

    def warren(self, *args, **options):
        """Runs the program, which must succeed; returns its output."""
        done = self.run(*args, **options)
        if done.returncode != 0:
            said = ((done.stdout or b"") + (done.stderr or b"")).decode(errors="replace")
            raise AssertionError(f"warren {' '.join(map(str, args))}: status {done.returncode}: {said}")
        return done.stdout

    def point(self, name="mnt"):
        path = self.root / name
        if path not in self.points:
            path.mkdir(exist_ok=True)
            self.points.append(path)
        return path

    def mount(self, name="mnt", *options):
        """Mounts in the background; returns the mount point."""
        path = self.point(name)
        # The daemon must not inherit our pipes: their reader would wait until it ends.
        with open(self.root / "mount.err", "w+b") as errors:
            done = self.run("mount", *options, self.id, path, capture_output=False, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=errors)
            errors.seek(0)
            if done.returncode != 0 or not is_mounted(path):
                raise AssertionError(f"warren mount: status {done.returncode}: {errors.read().decode()}")
        return path

    def serve(self, name="mnt", *options):
        """Mounts in the foreground; returns the process once the mount is ready."""
        path = self.point(name)
        with open(self.root / "serve.log", "ab") as log:
            server = subprocess.Popen([program(), "mount", "-f", *options, self.id, str(path)], cwd=self.home,
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: server.poll() is not None or answers(path), "the mount to answer")
        if server.poll() is not None:
            said = (self.root / "serve.log").read_text()
            raise AssertionError(f"warren mount -f: status {server.returncode}: {said}")
        return server

    def umount(self, path):
        self.warren("umount", path)
        if is_mounted(path):
            raise AssertionError(f"{path} is still mounted after umount")

    def fsck(self):
        self.warren("fsck", self.id)

    def left_beside(self):
        """Files next to the agent's: none if it was closed properly."""
        return sorted(name for name in os.listdir(self.file.parent) if name.startswith(self.file.name + "-"))

    def daemons(self):
        """The mounting processes that we started: those whose command line names this world's directory."""
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and self.is_daemon(entry)]

    def is_daemon(self, pid):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False  # it has just ended
        names_us = any(os.fsencode(self.root) in word for word in words)
        return names_us and b"mount" in words and os.path.basename(words[0]) in (b"warren", b"agentfs")
