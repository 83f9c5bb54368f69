"""A PostgreSQL server of the test's own, on a socket in a temporary directory, or by TCP with TLS. It can be killed and
started again."""
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time


def find_programs():
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    return pathlib.Path(shutil.which("postgres") or "postgres").parent


def make_certificate(folder, name):
    """Signed by itself, for 127.0.0.1."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / f"{name}.key", "-out",
                    folder / f"{name}.crt"], check=True, capture_output=True)
    return folder / f"{name}.crt"


def find_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    port = 5432  # only in the name of the socket

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
        self.configure()
        self.start()

    def configure(self):
        self.options = ["listen_addresses="]

    def start(self):
        """After a kill the new server waits until the old one's processes have noticed, and says so by ending."""
        for _ in range(300):
            begin = (self.dir / "log").stat().st_size if (self.dir / "log").exists() else 0
            if self.try_to_start():
                return
            said = (self.dir / "log").read_text()[begin:]
            if "is still in use" not in said:
                break
            time.sleep(0.2)
        raise RuntimeError("PostgreSQL does not start: " + said[-2000:])

    def try_to_start(self):
        log = open(self.dir / "log", "a")
        options = [word for option in ["max_connections=100", *self.options] for word in ("-c", option)]
        self.process = subprocess.Popen([self.programs / "postgres", "-D", self.dir / "data", "-k", self.dir,
                                         "-p", str(self.port), *options], stdout=log, stderr=log, cwd="/",
                                        start_new_session=True, **self.as_user)
        log.close()
        for _ in range(6000):
            if subprocess.run([self.programs / "pg_isready", "-q", "-h", self.dir, "-p", str(self.port)]).returncode == 0:
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return False

    def url(self, database):
        return f"postgres://warren@/{database}?host={self.dir}"

    def new_database(self):
        self.databases += 1
        name = f"relay{self.databases}"
        self.query(f"CREATE DATABASE {name}", "postgres")
        return self.url(name)

    def query(self, sql, database):
        done = subprocess.run([self.programs / "psql", "-h", self.dir, "-p", str(self.port), "-U", "warren", "-d", database, "-Atqc", sql],
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


class TlsServer(Server):
    """On a port of 127.0.0.1, where it wants TLS and a password."""
    password = "geheim"

    def configure(self):
        self.port = find_port()
        self.certificate = make_certificate(self.dir, "server")
        if self.as_user:
            for name in ("server.key", "server.crt"):
                os.chown(self.dir / name, self.as_user["user"], self.as_user["group"])
        os.chmod(self.dir / "server.key", 0o600)
        (self.dir / "data/pg_hba.conf").write_text("local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        self.options = ["listen_addresses=127.0.0.1", "ssl=on", f"ssl_cert_file={self.certificate}",
                        f"ssl_key_file={self.dir / 'server.key'}"]

    def start(self):
        super().start()
        self.query(f"ALTER USER warren PASSWORD '{self.password}'", "postgres")

    def url(self, database, **parameters):
        wanted = {"sslmode": "verify-full", "sslrootcert": self.certificate, **parameters}
        words = "&".join(f"{key}={value}" for key, value in wanted.items())
        return f"postgres://warren:{self.password}@127.0.0.1:{self.port}/{database}?{words}"
