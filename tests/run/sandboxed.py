"""A home directory, a project and a canary next to it, for the tests of `warren run`.

The program is the one the environment variable WARREN names. Everything lives in one directory outside /tmp, because
/tmp is another one inside a run. Leaving the `World` ends the servers that were started for its home and removes it.
"""
import hashlib
import os
import pathlib
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "mount"))
import mounted  # noqa: E402

PATIENCE_SECONDS = mounted.PATIENCE_SECONDS
NOBODY = 65534
program = mounted.program
wait_for = mounted.wait_for
PYTHON = "/usr/bin/python3"  # executable by every user
need_fuse = mounted.need_fuse


def checksum(root):
    """Names, types, modes, owners and content of everything below."""
    digest = hashlib.sha256()
    for path in sorted([root, *root.rglob("*")]):
        info = path.lstat()
        digest.update(f"{path}\0{info.st_mode:o}\0{info.st_uid}\0{info.st_gid}\0{info.st_nlink}\n".encode())
        if stat.S_ISREG(info.st_mode):
            digest.update(path.read_bytes())
        elif stat.S_ISLNK(info.st_mode):
            digest.update(os.readlink(path).encode())
    return digest.hexdigest()


class World:
    def __init__(self, uid=0):
        self.uid = uid
        self.program = program()
        self.mounts = []  # arguments for mount(8), run before each command in its own mount namespace
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="warren-run-", dir="/var/lib")).resolve()
        self.home, self.base, self.canary = self.root / "home", self.root / "project", self.root / "canary"

    def __enter__(self):
        os.chmod(self.root, 0o755)
        for path in (self.home, self.base, self.canary, self.root / "runtime"):
            path.mkdir(mode=0o700 if path.name == "runtime" else 0o755)
        (self.base / "file").write_text("of the base\n")
        (self.base / "dir").mkdir()
        (self.base / "dir" / "inner").write_text("inner\n")
        (self.canary / "file").write_text("canary\n")
        for name in (".ssh", ".aws"):
            (self.home / name).mkdir()
            (self.home / name / "secret").write_text("secret\n")
        (self.home / ".netrc").write_text("secret\n")
        (self.home / ".cache").mkdir()
        if self.uid:
            for path in [self.root / "runtime", self.home, self.base, self.canary, *self.home.rglob("*"),
                         *self.base.rglob("*"), *self.canary.rglob("*")]:
                os.chown(path, self.uid, self.uid)
        return self

    def __exit__(self, *_):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for(lambda: not self.processes(), "a process of the test is still there")
        shutil.rmtree(self.root)

    def environment(self):
        kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        # Only directories that every user can list: one of root's in PATH would turn "not found" into "denied".
        return kept | {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.root / "runtime"), "SHELL": "/bin/bash",
                       "SSH_AUTH_SOCK": "/run/agent.sock", "WARREN_TEST_WORLD": str(self.root)}

    def words(self, *args, name="warren"):
        """The command line; for the ordinary user, with an accessible /dev/fuse."""
        path = self.program
        if name != "warren":
            path = self.root / name
            if not path.exists():
                path.symlink_to(self.program)
        # The mark by which processes() finds the processes of this world, those inside too.
        mark = ["--env", "WARREN_TEST_WORLD"] if name == "warren" and args and args[0] == "run" else []
        words = [str(path), *map(str, args[:1]), *mark, *map(str, args[1:])]
        mounts = list(self.mounts)
        if self.uid:
            node = self.root / "fuse"
            if not node.exists():
                os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(10, 229))
                os.chmod(node, 0o666)
            mounts.append(["--bind", node, "/dev/fuse"])
            words = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "--", *words]
        if not mounts:
            return words
        script = " && ".join(shlex.join(["mount", *map(str, mount)]) for mount in mounts)
        return ["unshare", "-m", "--propagation", "slave", "sh", "-c", script + ' && exec "$@"', "sh", *words]

    def start(self, *args, name="warren", **options):
        options = {"cwd": self.base, "env": self.environment(), "stdin": subprocess.DEVNULL,
                   "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.Popen(self.words(*args, name=name), **options)

    def warren(self, *args, name="warren", **options):
        """Runs the command to its end; returns the process, with text output."""
        with self.start(*args, name=name, text=True, **options) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE_SECONDS)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def run(self, *args, **options):
        return self.warren("run", *args, **options)

    def inside(self, session, *command, **options):
        """Runs a command in a session, which must succeed; returns its output."""
        done = self.run("--session", session, "--", *command, **options)
        if done.returncode != 0:
            raise AssertionError(f"{command}: status {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def sessions(self):
        folder = self.home / ".agentfs" / "run"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []

    def session_dir(self, session):
        return self.home / ".agentfs" / "run" / session

    def processes(self):
        """All live processes that were started for this world."""
        mark = f"WARREN_TEST_WORLD={self.root}".encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                alive = b"State:\tZ" not in pathlib.Path(f"/proc/{entry}/status").read_bytes()
                if alive and mark in pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
            except OSError:
                continue
        return found

    def server(self, session):
        """The pid of the session's server: the one that holds the lock on its folder."""
        lock = str(self.session_dir(session) / "lock")
        for pid in self.processes():
            try:
                for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                    info = pathlib.Path(f"/proc/{pid}/fdinfo/{fd.name}")
                    if os.readlink(fd) == lock and "OFDLCK" in info.read_text():
                        return pid
            except OSError:
                continue
        return None

    def first_process(self, session):
        """The pid, outside, of the sandbox's first process: the server's child."""
        server = self.server(session)
        children = pathlib.Path(f"/proc/{server}/task/{server}/children").read_text().split()
        return int(children[0]) if children else None
