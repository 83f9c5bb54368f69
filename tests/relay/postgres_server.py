"""A PostgreSQL server of the test's own, on a socket in a temporary directory. It can be killed and started again."""
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time


def find_programs():
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    return pathlib.Path(shutil.which("postgres") or "postgres").parent


class Server:
    def __init__(self):
        self.programs = find_programs()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="warren-pg-"))
        self.process = None
        self.databases = 0
        user = pwd.getpwnam("nobody") if os.getuid() == 0 else None  # it refuses to run as root
        self.as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        if user:
            os.chown(self.dir, user.pw_uid, user.pw_gid)
        subprocess.run([self.programs / "initdb", "-D", self.dir / "data", "-U", "warren", "-A", "trust", "-E", "UTF8",
                        "--locale=C", "--no-instructions"], check=True, capture_output=True, cwd="/", **self.as_user)
        self.start()

    def start(self):
        log = open(self.dir / "log", "a")
        self.process = subprocess.Popen([self.programs / "postgres", "-D", self.dir / "data", "-k", self.dir,
                                         "-c", "listen_addresses=", "-c", "max_connections=60"], stdout=log, stderr=log,
                                        cwd="/", start_new_session=True, **self.as_user)
        log.close()
        for _ in range(6000):
            if subprocess.run([self.programs / "pg_isready", "-q", "-h", self.dir]).returncode == 0:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError("PostgreSQL does not start: " + (self.dir / "log").read_text()[-2000:])

    def url(self, database):
        return f"postgres://warren@/{database}?host={self.dir}"

    def new_database(self):
        self.databases += 1
        name = f"relay{self.databases}"
        self.query(f"CREATE DATABASE {name}", "postgres")
        return self.url(name)

    def query(self, sql, database):
        done = subprocess.run([self.programs / "psql", "-h", self.dir, "-U", "warren", "-d", database, "-Atqc", sql],
                              capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def kill(self, how=signal.SIGKILL):
        """With SIGKILL its children see that it is gone and end by themselves, each when it next looks."""
        self.process.send_signal(how)
        self.process.wait()
        for _ in range(6000):  # a new one refuses to start while old ones hold the shared memory
            if subprocess.run(["pgrep", "-s", str(self.process.pid)], capture_output=True).returncode != 0:
                return
            time.sleep(0.01)
        raise RuntimeError("PostgreSQL's processes do not end")

    def close(self):
        if self.process.poll() is None:
            self.kill(signal.SIGINT)
        shutil.rmtree(self.dir, ignore_errors=True)
