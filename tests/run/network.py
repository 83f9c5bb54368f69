#!/usr/bin/env python3
"""`warren run --net`: what is allowed by name is reached, and nothing else.

    WARREN=path/to/warren network.py [-v] [AsRoot.test_name]

Needs root. Every server is on this machine: names are given to it by an /etc/hosts that only the run's proxy sees.
"""
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed

PORT = 3128  # of the proxy, inside


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        self.server.seen.append((self.command, self.path, self.headers["Host"], body))
        text = f"{self.command} {self.headers['Host']} {self.path} {body.decode()}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address="127.0.0.1", tls=None):
        super().__init__((address, 0), Handler)
        self.seen = []
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]


# Inside: sends bytes to the proxy and prints what comes back.
TALK = """
import socket, sys
s = socket.create_connection(("127.0.0.1", %d))
s.settimeout(20)
for part in sys.argv[1:]:
    s.sendall(part.encode("latin-1").decode("unicode_escape").encode("latin-1"))
    if part == sys.argv[-1]: break
    sys.stdout.write(repr(s.recv(100))[:100] + "\\n")
s.shutdown(socket.SHUT_WR)
got = b""
try:
    while block := s.recv(65536): got += block
except OSError as error:
    got += type(error).__name__.encode()
sys.stdout.write(repr(got[:400]))
""" % PORT

# Inside: a TLS connection through a tunnel for one host that asks for another.
WRONG_NAME = """
import socket, ssl, sys
host, port, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
s = socket.create_connection(("127.0.0.1", %d))
s.settimeout(20)
s.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n".encode())
print(s.recv(1000).split(b"\\r\\n")[0].decode())
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
try:
    tls = context.wrap_socket(s, server_hostname=name or None)
    tls.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
    print("got", tls.recv(1000))
except OSError as error:
    print("refused", type(error).__name__)
""" % PORT


# Outside: a proxy as companies have them. Every name leads to this machine. Writes down what it was asked for.
UPSTREAM = """
import base64, socket, socketserver, sys, threading
log, wanted, mode = sys.argv[1:]

class Client(socketserver.StreamRequestHandler):
    def handle(self):
        first = self.rfile.readline().decode().split()
        headers = {}
        while line := self.rfile.readline().decode().strip():
            name, value = line.split(": ", 1)
            headers[name.lower()] = value
        given = headers.get("proxy-authorization", "-")
        with open(log, "a") as file:
            print(first[0], first[1], given, file=file)
        if mode == "garbage":
            return self.wfile.write(b"SSH-2.0-me\\r\\n")
        if mode == "silent":
            return
        if given != (f"Basic {base64.b64encode(wanted.encode()).decode()}" if wanted else "-"):
            return self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\\r\\nContent-Length: 0\\r\\n\\r\\n")
        if mode == "refusing":
            return self.wfile.write(b"HTTP/1.1 403 By policy\\r\\nContent-Length: 0\\r\\n\\r\\n")
        place = first[1] if first[0] == "CONNECT" else first[1].removeprefix("http://").split("/")[0]
        server = socket.create_connection(("127.0.0.1", int(place.rsplit(":", 1)[1])))
        if first[0] == "CONNECT":
            self.wfile.write(b"HTTP/1.1 200 Connection established\\r\\nVia: me\\r\\n\\r\\n")
        else:
            path = "/" + first[1].removeprefix("http://").split("/", 1)[1]
            kept = "".join(f"{n}: {v}\\r\\n" for n, v in headers.items() if not n.startswith("proxy-"))
            server.sendall(f"{first[0]} {path} HTTP/1.1\\r\\n{kept}\\r\\n".encode())
        def carry(take, give):
            try:
                while block := take(): give(block)
                server.shutdown(socket.SHUT_WR)
            except OSError: pass
        threading.Thread(target=carry, args=(lambda: self.rfile.read1(65536), server.sendall), daemon=True).start()
        while block := server.recv(65536): self.wfile.write(block)

class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

server = Server(("127.0.0.1", 0), Client)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class Network:
    uid = 0

    def setUp(self):
        self.world = self.enterContext(sandboxed.World(self.uid))
        self.names = self.world.root / "hosts"
        self.name("127.0.0.1 localhost")
        self.world.mounts = [["--bind", self.names, "/etc/hosts"]]
        self.before = sandboxed.checksum(self.world.base)

    def tearDown(self):
        self.assertEqual(sandboxed.checksum(self.world.base), self.before, "the base has changed")

    def name(self, *lines):
        self.names.write_text("".join(f"{line}\n" for line in lines))

    def server(self, **options):
        server = Server(**options)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def certificate(self, name):
        key, cert = self.world.root / "key.pem", self.world.root / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", cert, "-days", "2", "-subj", f"/CN={name}",
                        "-addext", f"subjectAltName=DNS:{name}"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        os.chmod(cert, 0o644)
        return context, cert

    def run_with(self, *net, command, env=(), env_outside=None, **options):
        words = [word for host in net for word in ("--net", host)]
        words += [word for one in env for word in ("--env", one)]
        if env_outside:
            options["env"] = env_outside
        return self.world.run(*words, "--", *command, **options)

    def talk(self, net, *parts):
        """What the proxy answers to these bytes, and what run says about it."""
        done = self.run_with(*net, command=(sandboxed.PYTHON, "-c", TALK, *parts))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def talk_open(self, net, bytes):
        """Like talk, with a client that does not close its side."""
        done = self.run_with(*net, command=(sandboxed.PYTHON, "-c", TALK.replace("s.shutdown(socket.SHUT_WR)", ""), bytes))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def upstream(self, user="", mode="working"):
        """Starts a second proxy, in a process of its own; returns its port, and a function that lists what it was asked."""
        log = self.world.root / f"upstream-{mode}"
        log.write_text("")
        process = subprocess.Popen([sandboxed.PYTHON, "-c", UPSTREAM, log, user, mode], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return int(process.stdout.readline()), lambda: log.read_text().splitlines()

    def without_name_service(self):
        """No name is known but those of /etc/hosts, as in a network whose proxy resolves names."""
        switch = self.world.root / "nsswitch.conf"
        switch.write_text("passwd: files\ngroup: files\nhosts: files\n")
        self.world.mounts.append(["--bind", switch, "/etc/nsswitch.conf"])

    # What works.

    def test_programs_reach_what_is_allowed_through_the_proxy(self):
        tls, cert = self.certificate("allowed.example")
        web, secure = self.server(), self.server(tls=tls)
        self.name("127.0.0.1 allowed.example other.example")
        net = (f"allowed.example:{web.port}", f"allowed.example:{secure.port}", f"127.0.0.1:{web.port}",
               f"127.0.0.1:{secure.port}")
        env = (f"SSL_CERT_FILE={cert}", f"CURL_CA_BUNDLE={cert}")
        for port, scheme in ((web.port, "http"), (secure.port, "https")):
            url = f"{scheme}://allowed.example:{port}/path"
            done = self.run_with(*net, env=env, command=("curl", "-sS", "-d", "sent", url))
            self.assertEqual(done.stdout, f"POST allowed.example:{port} /path sent\n", done.stderr)
            self.assertIn(f"network: reached allowed.example:{port}\n", done.stderr)
            script = f"import urllib.request; print(urllib.request.urlopen('{url}').read().decode(), end='')"
            done = self.run_with(*net, env=env, command=(sandboxed.PYTHON, "-c", script))
            self.assertEqual(done.stdout, f"GET allowed.example:{port} /path \n", done.stderr)
        done = self.run_with(*net, env=env, command=(
            "curl", "-sS", "--socks5-hostname", f"127.0.0.1:{PORT}", "--noproxy", "", f"https://allowed.example:{secure.port}/"))
        self.assertEqual(done.stdout, f"GET allowed.example:{secure.port} / \n", done.stderr)
        done = self.run_with(*net, command=("curl", "-sS", "-H", "Transfer-Encoding: chunked", "-d", "abc",
                                            f"http://allowed.example:{web.port}/"))
        self.assertEqual(done.stdout, f"POST allowed.example:{web.port} / abc\n", done.stderr)

    def test_git_clones_through_the_proxy(self):
        source = self.world.root / "source"
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", source]
        source.mkdir()
        for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "first"],
                      ["update-server-info"]):
            subprocess.run([*git, *words], check=True)

        class Files(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args):
                super().__init__(*args, directory=str(source))

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        port = server.server_address[1]
        self.name("127.0.0.1 git.example")
        done = self.run_with(f"git.example:{port}", f"127.0.0.1:{port}", command=(
            "sh", "-c", f"git clone -q http://git.example:{port}/.git /tmp/c && git -C /tmp/c log --format=%s"))
        self.assertEqual(done.stdout, "first\n", done.stderr)

    def test_servers_of_the_run_itself_need_no_proxy(self):
        script = ("import http.server, threading, urllib.request\n"
                  "s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
                  "threading.Thread(target=s.serve_forever, daemon=True).start()\n"
                  "print(urllib.request.urlopen(f'http://localhost:{s.server_port}/file').read().decode(), end='')\n")
        done = self.run_with("allowed.example", command=(sandboxed.PYTHON, "-c", script))
        self.assertEqual(done.stdout, "of the base\n", done.stderr)

    def test_variables_name_the_proxy_in_place_of_the_users_own(self):
        env = self.world.environment() | {"HTTPS_PROXY": "http://mine:1", "no_proxy": "*"}
        out = self.run_with("allowed.example", command=("env",), env=()).stdout.splitlines()
        proxy = f"http://127.0.0.1:{PORT}"
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "npm_config_https_proxy",
                     "PIP_PROXY", "CARGO_HTTP_PROXY", "GIT_CONFIG_VALUE_0"):
            self.assertIn(f"{name}={proxy}", out)
        done = self.world.run("--net", "allowed.example", "--env", "HTTP_PROXY=http://asked:2", "--", "env", env=env)
        out = done.stdout.splitlines()
        self.assertIn(f"HTTPS_PROXY={proxy}", out)
        self.assertIn("HTTP_PROXY=http://asked:2", out)
        self.assertIn("no_proxy=localhost,127.0.0.1,::1", out)
        self.assertNotIn("HTTPS_PROXY=http://mine:1", out)

    def test_the_users_own_proxy_is_the_way_out(self):
        tls, cert = self.certificate("allowed.example")
        web, secure = self.server(), self.server(tls=tls)
        self.without_name_service()
        port, asked = self.upstream("us@er:pass word")
        proxy = f"http://us%40er:pass%20word@127.0.0.1:{port}/"
        env = self.world.environment() | {"HTTPS_PROXY": proxy, "http_proxy": proxy}
        net = (f"allowed.example:{web.port}", f"allowed.example:{secure.port}")
        login = "Basic dXNAZXI6cGFzcyB3b3Jk"
        url = f"https://allowed.example:{secure.port}/x"
        seen = []
        for command, shown, line in (
                (("curl", "-sS", "-d", "sent", url), f"POST allowed.example:{secure.port} /x sent\n",
                 f"CONNECT allowed.example:{secure.port} {login}"),
                (("curl", "-sS", "--socks5-hostname", f"127.0.0.1:{PORT}", "--noproxy", "", url),
                 f"GET allowed.example:{secure.port} /x \n", f"CONNECT allowed.example:{secure.port} {login}"),
                (("curl", "-sS", "-d", "plain", f"http://allowed.example:{web.port}/y?z"),
                 f"POST allowed.example:{web.port} /y?z plain\n", f"POST http://allowed.example:{web.port}/y?z {login}")):
            done = self.run_with(*net, env=(f"CURL_CA_BUNDLE={cert}",), command=command, env_outside=env)
            self.assertEqual(done.stdout, shown, done.stderr)
            self.assertIn("network: reached allowed.example:", done.stderr)
            seen.append(line)
            self.assertEqual(asked(), seen)
        # The password stays outside, and what is not allowed never gets to that proxy.
        done = self.run_with(*net, command=("sh", "-c", "env; cat /proc/*/environ; curl -sS http://other.example/; "
                                            f"curl -sS -X TRACE http://allowed.example:{web.port}/"), env_outside=env)
        for secret in ("pass%20word", "pass word", login):
            self.assertNotIn(secret, done.stdout + done.stderr)
        self.assertIn("other.example:80 is not allowed in this run", done.stdout)
        self.assertEqual(asked(), seen)
        done = self.world.run("--walls", "--net", net[0], "--", "true", env=env)
        self.assertIn(f"network: hosts by name, through a proxy, which uses your proxy 127.0.0.1:{port}\n", done.stderr)

    def test_a_proxy_of_the_user_that_fails_is_named(self):
        self.without_name_service()
        free = socket.create_server(("127.0.0.1", 0))
        closed = free.getsockname()[1]
        free.close()
        for port, says in ((self.upstream("u:p")[0], "it asks for a user and a password"),
                           (self.upstream(mode="refusing")[0], "it answers '403 By policy'"),
                           (self.upstream(mode="garbage")[0], "its answer is not one of an HTTP proxy"),
                           (self.upstream(mode="silent")[0], "it has closed the connection"), (closed, "refused")):
            env = self.world.environment() | {"ALL_PROXY": f"http://127.0.0.1:{port}"}
            done = self.run_with("allowed.example", env_outside=env,
                                 command=("curl", "-sS", "-w", "%{http_connect}", "https://allowed.example/"))
            self.assertEqual(done.stdout, "502", done.stderr)
            self.assertRegex(done.stderr, f"network: failed allowed.example:443: the proxy 127.0.0.1:{port}: .*{says}")
        for value in ("socks5://127.0.0.1:1", "https://u:secret@127.0.0.1:1", "http://u:secret@:x"):
            done = self.run_with("allowed.example", env_outside=self.world.environment() | {"https_proxy": value},
                                 command=("true",))
            self.assertEqual(done.returncode, 125)
            self.assertIn("https_proxy ", done.stderr)
            self.assertIn("hint: ", done.stderr)
            self.assertNotIn("secret", done.stderr)
            self.assertEqual(self.world.run("--", "true", env=self.world.environment() | {"https_proxy": value}).returncode, 0)
        self.assertEqual(self.world.sessions(), [])

    def test_the_users_own_proxy_opens_no_private_address(self):
        web = self.server()
        self.without_name_service()
        port, asked = self.upstream()
        env = self.world.environment() | {"ALL_PROXY": f"http://127.0.0.1:{port}", "NO_PROXY": "direct.example"}
        self.name("10.1.2.3 inner.example", "127.0.0.1 local.example direct.example")
        fetch = ("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}")
        for host in ("inner.example", "local.example", "10.1.2.3", "127.0.0.1", "localhost"):
            rules = (f"inner.example:{web.port}", f"local.example:{web.port}")
            done = self.run_with(*rules, env_outside=env, command=(*fetch, "--noproxy", "", f"http://{host}:{web.port}/"))
            self.assertEqual(done.stdout, "403", done.stderr)
        self.assertEqual((asked(), web.seen), ([], []))
        # Named as an address it is allowed; and what NO_PROXY names is reached directly.
        done = self.run_with(f"inner.example:{web.port}", f"10.1.2.3:{web.port}", env_outside=env,
                             command=(*fetch, f"http://inner.example:{web.port}/"))
        self.assertEqual(done.stdout, "200", done.stderr)
        self.assertEqual(asked(), [f"GET http://inner.example:{web.port}/ -"])
        done = self.run_with(f"direct.example:{web.port}", f"127.0.0.1:{web.port}", env_outside=env,
                             command=(*fetch, f"http://direct.example:{web.port}/"))
        self.assertEqual((done.stdout, len(asked()), len(web.seen)), ("200", 1, 2), done.stderr)

    def test_a_joiner_gets_the_network_of_the_session(self):
        web = self.server()
        self.name("127.0.0.1 allowed.example")
        first = self.world.start("run", "--session", "j", "--net", f"allowed.example:{web.port}", "--net",
                                 f"127.0.0.1:{web.port}", "--", "sh", "-c", "echo up; read line", stdin=subprocess.PIPE,
                                 text=True)
        with first:
            try:
                self.assertEqual(first.stdout.readline(), "up\n")
                done = self.world.run("--session", "j", "--", "curl", "-sS", f"http://allowed.example:{web.port}/x")
                self.assertEqual(done.stdout, f"GET allowed.example:{web.port} /x \n", done.stderr)
                self.assertIn("network: reached", done.stderr)
                done = self.world.run("--session", "j", "--net", "all", "--", "true")
                self.assertEqual(done.returncode, 125)
                self.assertIn("cannot be changed", done.stderr)
            finally:
                first.stdin.close()
        self.assertEqual(self.world.sessions(), [])

    def test_without_a_choice_the_network_is_the_hosts(self):
        web = self.server()
        done = self.world.run("--", "curl", "-sS", f"http://127.0.0.1:{web.port}/")
        self.assertEqual(done.returncode, 0, done.stderr)
        for option in (("--net", "none"), ("--no-network",)):
            done = self.world.run(*option, "--", "curl", "-sS", f"http://127.0.0.1:{web.port}/")
            self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(len(web.seen), 1)

    def test_bad_choices_are_refused(self):
        for words, says in ((("nonsense",), "neither a host nor a known set"), (("all", "none"), "cannot be combined"),
                            (("0x7f.1",), "not a valid host"),
                            (("http://x.example",), "hint: write 'x.example'"),
                            (("https://u@x.example:8443/a?b",), "hint: write 'x.example:8443'"),
                            (("0.0.0.0/0",), "hint: `--net all`"), (("::/0",), "hint: `--net all`"), (("*",), "hint: `--net all`"),
                            (("x.example/path",), "without a path"),
                            (("*.com",), "at least two parts"), (("a.example:0",), "not a valid port"), (("",), "no host")):
            done = self.run_with(*words, command=("true",))
            self.assertEqual(done.returncode, 125, words)
            self.assertIn("--net: ", done.stderr)
            self.assertIn(says, done.stderr)
        done = self.world.run("--net", "a.example", "--no-network", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertEqual(self.world.sessions(), [])

    # What must not work.

    def test_other_hosts_are_refused_and_named_with_how_to_allow_them(self):
        web = self.server()
        self.name("127.0.0.1 other.example")
        for words in (("-sS", f"http://other.example:{web.port}/"), ("-sSk", f"https://other.example:{web.port}/"),
                      ("-sS", "--socks5-hostname", f"127.0.0.1:{PORT}", "--noproxy", "", f"http://other.example:{web.port}/")):
            done = self.run_with("allowed.example", command=("curl", "-f", *words))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"network: refused other.example:{web.port}; allow it with --net other.example:{web.port}\n",
                          done.stderr)
        self.assertEqual(web.seen, [])

    def test_there_is_no_way_around_the_proxy(self):
        web = self.server()
        outside = socket.gethostbyname(socket.gethostname()) if self.uid < 0 else "127.0.0.1"
        script = (f"import socket\n"
                  f"for family, address in ((socket.AF_INET, ('{outside}', {web.port})), (socket.AF_INET, ('8.8.8.8', 53)),\n"
                  f"                        (socket.AF_INET6, ('::1', {web.port})), (socket.AF_INET6, ('2001:4860:4860::8888', 53))):\n"
                  "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
                  "        try:\n"
                  "            s = socket.socket(family, kind); s.settimeout(2); s.connect(address); s.send(b'x'); s.recv(1)\n"
                  "            print('reached', address)\n"
                  "        except OSError: pass\n"
                  "try: print(socket.getaddrinfo('allowed.example', 80))\n"
                  "except OSError: pass\n"
                  "try: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print('raw')\n"
                  "except OSError: pass\n")
        done = self.run_with("allowed.example", command=(sandboxed.PYTHON, "-c", script))
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_a_name_that_leads_to_this_machine_is_refused(self):
        web = self.server()
        own = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
        for address in ("127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254", "10.0.0.1", *own):
            self.name(f"{address} rebound.example")
            done = self.run_with(f"rebound.example:{web.port}", command=(
                "curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", f"http://rebound.example:{web.port}/"))
            self.assertEqual(done.stdout, "403", f"{address}: {done.stderr}")
            self.assertIn("which is not a public address", done.stderr)
        self.assertEqual(web.seen, [])

    def test_addresses_in_any_spelling_are_refused_unless_named(self):
        web = self.server()
        spellings = ("127.0.0.1", "127.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]",
                     "[::ffff:7f00:1]", "0", "0.0.0.0", "localhost", "LOCALHOST.", "[::]", "127.0.0.1.", "127.0.0.1%00.allowed.example",
                     "allowed.example@127.0.0.1", "127.0.0.1#allowed.example")
        for spelling in spellings:
            for head in (f"CONNECT {spelling}:{web.port} HTTP/1.1", f"GET http://{spelling}:{web.port}/ HTTP/1.1"):
                done = self.talk(("allowed.example", "*.allowed.example:*"), head + "\\r\\n\\r\\n")
                self.assertRegex(done.stdout, r"^b['\"]HTTP/1.1 (400|403) ", f"{head}: {done.stdout}")
                self.assertIn("network: refused ", done.stderr)
        done = self.talk((f"127.0.0.1:{web.port}",), f"GET http://[::ffff:127.0.0.1]:{web.port}/ HTTP/1.1\\r\\n\\r\\n")
        self.assertIn("HTTP/1.1 200 OK", done.stdout)
        self.assertEqual(len(web.seen), 1)

    def test_tls_must_ask_for_the_host_of_the_tunnel(self):
        tls, _ = self.certificate("allowed.example")
        secure = self.server(tls=tls)
        self.name("127.0.0.1 allowed.example")
        net = (f"allowed.example:{secure.port}", f"127.0.0.1:{secure.port}")
        for name in ("hidden.example", "", "allowed.example.evil.example", "xallowed.example"):
            done = self.run_with(*net, command=(sandboxed.PYTHON, "-c", WRONG_NAME, "allowed.example", str(secure.port), name))
            self.assertIn("200", done.stdout)
            self.assertIn("refused", done.stdout, f"{name}: {done.stderr}")
            self.assertRegex(done.stderr, "network: refused allowed.example:.*TLS")
        done = self.run_with(*net, command=(sandboxed.PYTHON, "-c", WRONG_NAME, "127.0.0.1", str(secure.port), "hidden.example"))
        self.assertIn("refused", done.stdout)
        self.assertEqual(secure.seen, [])
        done = self.run_with(*net, command=(sandboxed.PYTHON, "-c", WRONG_NAME, "allowed.example", str(secure.port), "Allowed.Example"))
        self.assertIn("got", done.stdout, done.stderr)

    def test_a_tunnel_to_the_web_carries_nothing_but_tls(self):
        # Ports 80 and 443 as the run's proxy sees them, in a network namespace of its own.
        script = ("ip link set lo up; "
                  f"{sandboxed.PYTHON} -m http.server --bind 127.0.0.1 80 --directory / & server=$!; "
                  "for i in 1 2 3 4 5 6 7 8 9; do curl -s -o /dev/null http://127.0.0.1/ && break; sleep 0.3; done; "
                  '"$@"; status=$?; kill $server; exit $status')
        if shutil.which("ip") is None:
            self.skipTest("needs ip(8)")
        self.name("127.0.0.1 allowed.example")
        request = "GET / HTTP/1.1\\r\\nHost: hidden.example\\r\\n\\r\\n"
        words = self.world.words("run", "--net", "allowed.example", "--net", "127.0.0.1", "--", sandboxed.PYTHON, "-c", TALK,
                                 "CONNECT allowed.example:80 HTTP/1.1\\r\\n\\r\\n", request)
        done = subprocess.run(["unshare", "-n", "sh", "-c", script, "sh", *words], cwd=self.world.base, text=True,
                              env=self.world.environment(), capture_output=True, timeout=sandboxed.PATIENCE_SECONDS)
        self.assertIn("200 Connection established", done.stdout)
        self.assertNotIn("200 OK", done.stdout)
        self.assertIn("not TLS", done.stderr)

    def test_one_connection_carries_one_request_to_one_host(self):
        web = self.server()
        self.name("127.0.0.1 allowed.example")
        net = (f"allowed.example:{web.port}", f"127.0.0.1:{web.port}")
        url = f"http://allowed.example:{web.port}"
        second = "GET /second HTTP/1.1\\r\\nHost: hidden.example\\r\\n\\r\\n"
        self.talk(net, f"GET {url}/first HTTP/1.1\\r\\nHost: hidden.example\\r\\n\\r\\n" + second)
        self.talk(net, f"POST {url}/first HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\nab" + second)
        self.talk(net, f"POST {url}/first HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nab\\r\\n0\\r\\n\\r\\n" + second)
        self.assertEqual([(path, host) for _, path, host, _ in web.seen], [("/first", f"allowed.example:{web.port}")] * 3)
        for bad in ("Content-Length: 2\\r\\nTransfer-Encoding: chunked", "Content-Length: 1\\r\\nContent-Length: 2",
                    "A: b\\nHost: hidden.example", " folded: x", "Transfer-Encoding: x-chunked"):
            done = self.talk(net, f"POST {url}/bad HTTP/1.1\\r\\n{bad}\\r\\n\\r\\n")
            self.assertIn("HTTP/1.1 400", done.stdout, bad)
        self.assertEqual(len(web.seen), 3)

    def test_garbage_gets_an_error_and_harms_nobody(self):
        web = self.server()
        self.name("127.0.0.1 allowed.example")
        net = (f"allowed.example:{web.port}", f"127.0.0.1:{web.port}")
        for head in ("\\0\\0\\0\\0\\r\\n\\r\\n", "GET / HTTP/1.1\\r\\n\\r\\n", "CONNECT\\r\\n\\r\\n", "CONNECT a:b:c HTTP/1.1\\r\\n\\r\\n",
                     "GET http://allowed.example:99999/ HTTP/1.1\\r\\n\\r\\n", "GET gopher://allowed.example/ HTTP/1.1\\r\\n\\r\\n"):
            self.assertIn("HTTP/1.1 400", self.talk(net, head).stdout, head)
        # What hung until it timed out: refused at once, in the client's own protocol.
        began = time.monotonic()
        self.assertIn("HTTP/1.1 400", self.talk_open(net, "GET http://allowed.example/ HTTP/1.1\\n\\n").stdout)
        self.assertIn("b'\\x00[", self.talk_open(net, "\\4\\1\\0\\120\\177\\0\\0\\1\\0").stdout)
        self.assertLess(time.monotonic() - began, 20)
        for socks in ("\\5\\1\\2", "\\5\\0", "\\4\\1\\0\\120\\177\\0\\0\\1\\0"):
            self.assertNotIn("\\\\x05\\\\x00", self.talk(net, socks).stdout, socks)
        for request in ("\\5\\2\\0\\1\\177\\0\\0\\1\\0\\120", "\\5\\3\\0\\1\\177\\0\\0\\1\\0\\120", "\\5\\1\\0\\11xxxxxxxxxx",
                        "\\5\\1\\0\\3\\4a b!\\0\\120", "\\5\\1\\1\\1\\177\\0\\0\\1\\0\\120", "\\5\\1\\0\\1\\177\\0\\0\\1\\0\\0", "\\4\\4\\4\\4\\4\\4"):
            done = self.talk(net, "\\5\\1\\0", request)
            self.assertNotIn("b'\\x05\\x00\\x00", done.stdout, request)
        # Longer than a command line may be: made inside.
        script = (f"import socket\ns = socket.create_connection(('127.0.0.1', {PORT}))\ns.settimeout(20)\n"
                  f"s.sendall(b'GET http://allowed.example:{web.port}/ HTTP/1.1\\r\\n')\n"
                  "try:\n    for i in range(100): s.sendall(b'X-%d: ' % i + b'x' * 1000 + b'\\r\\n')\nexcept OSError: pass\n"
                  "try: print(s.recv(100))\nexcept OSError: print('reset')\n")
        done = self.run_with(*net, command=(sandboxed.PYTHON, "-c", script))
        self.assertRegex(done.stdout, "431|reset", done.stderr)
        self.assertEqual(web.seen, [])

    def test_many_connections_at_once_have_a_limit(self):
        web = self.server()
        self.name("127.0.0.1 allowed.example")
        script = (f"import socket, subprocess\nheld = []\n"
                  f"for i in range(300):\n    s = socket.create_connection(('127.0.0.1', {PORT})); held.append(s)\n"
                  "closed = 0\n"
                  "for s in held[260:]:\n    s.settimeout(10)\n    try: closed += s.recv(1) == b''\n    except ConnectionError: closed += 1\n"
                  "    except TimeoutError: pass\n"
                  "print(closed)\n"
                  "for s in held: s.close()\n"
                  f"import time; time.sleep(1)\n"
                  f"print(subprocess.run(['curl', '-sS', 'http://allowed.example:{web.port}/'], capture_output=True, text=True).stdout)\n")
        done = self.run_with(f"allowed.example:{web.port}", f"127.0.0.1:{web.port}", command=(sandboxed.PYTHON, "-c", script))
        closed, answer = done.stdout.splitlines()[:2]
        self.assertEqual(int(closed), 40, done.stderr)
        self.assertIn("GET allowed.example", answer)

    def test_the_proxy_ends_with_its_run(self):
        self.run_with("allowed.example", command=("true",))
        sandboxed.wait_for(lambda: not self.world.processes(), "a process is left")
        process = self.world.start("run", "--session", "k", "--net", "allowed.example", "--", "sleep", "100")
        sandboxed.wait_for(lambda: self.world.server("k"), "no server")
        time.sleep(0.3)
        os.kill(self.world.server("k"), 9)
        process.communicate()
        sandboxed.wait_for(lambda: not self.world.processes(), "a process is left")

    def test_the_record_is_kept_with_the_session(self):
        web = self.server()
        self.name("127.0.0.1 allowed.example")
        self.world.run("--session", "r", "--net", f"allowed.example:{web.port}", "--net", f"127.0.0.1:{web.port}", "--", "sh", "-c",
                       f"curl -s http://allowed.example:{web.port}/; curl -s http://refused.example/; echo x > made")
        lines = [json.loads(line) for line in (self.world.session_dir("r") / "network.jsonl").read_text().splitlines()]
        self.assertEqual([(line["outcome"], line["host"], line["port"]) for line in lines],
                         [("reached", "allowed.example", web.port), ("refused", "refused.example", 80)])
        done = self.world.run("--session", "r", "--", "true")
        self.assertNotIn("network: ", done.stderr)
        self.assertEqual(self.world.warren("sessions", "delete", "r", "--yes").returncode, 0)
        self.assertEqual(self.world.sessions(), [])


class AsRoot(Network, unittest.TestCase):
    pass


class AsOrdinaryUser(Network, unittest.TestCase):
    uid = sandboxed.NOBODY


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
