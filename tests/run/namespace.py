#!/usr/bin/env python3
"""The namespace inside `warren run`: memory and messages as plain files, under the rules, for root and ordinary users.

    WARREN=path/to/warren namespace.py [-v] [AsRoot.test_name]

Needs root.
"""
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed


class Namespaces:
    uid = 0

    def setUp(self):
        self.world = self.enterContext(sandboxed.World(self.uid))
        self.before = sandboxed.checksum(self.world.base)

    def tearDown(self):
        self.assertEqual(sandboxed.checksum(self.world.base), self.before, "the base has changed")

    def sh(self, session, script, *options, status=0):
        done = self.world.run("--session", session, *options, "--", "sh", "-c", script)
        self.assertEqual(done.returncode, status, f"{script}: {done.stdout}{done.stderr}")
        return done.stdout

    def python(self, session, text, *options):
        """Runs Python inside, which must succeed. `denied` is true if a call fails with one of these errors."""
        head = textwrap.dedent("""
            import errno, os, pathlib
            root = pathlib.Path(os.environ["WARREN_NAMESPACE"])
            def denied(call, *args, codes=("EACCES", "EPERM", "EROFS")):
                try:
                    call(*args)
                except OSError as error:
                    name = errno.errorcode[error.errno]
                    assert name in codes, (call, args, name)
                    return
                raise AssertionError(f"{call} {args} was allowed")
        """)
        done = self.world.run("--session", session, *options, "--", sandboxed.PYTHON, "-c", head + textwrap.dedent(text))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def vfs(self, session, *args, status=0):
        done = self.world.warren("vfs", f"session:{session}", *args)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout}{done.stderr}")
        return done.stdout

    # What a program finds.

    def test_it_is_a_directory_of_plain_files(self):
        out = self.sh("s", 'echo $WARREN_NAMESPACE; ls /agent; ls $WARREN_NAMESPACE; ls $WARREN_NAMESPACE/mem')
        self.assertEqual(out.split(), ["/agent/s", "s", "audit", "ipc", "mem", "policy", "state", "episodic",
                                       "semantic", "working"])
        self.assertEqual(self.world.sessions(), [], "looking at it counted as a change")

    def test_memory_lasts_and_working_memory_does_not(self):
        self.sh("s", """cd $WARREN_NAMESPACE && echo one >> mem/episodic/log && echo fact > mem/semantic/f &&
                        echo now > mem/working/w && cat mem/working/w""")
        self.assertEqual(self.world.sessions(), ["s"], "memory alone must keep a session")
        out = self.sh("s", "cd $WARREN_NAMESPACE && echo two >> mem/episodic/log && cat mem/episodic/log mem/semantic/f"
                           "&& ls mem/working")
        self.assertEqual(out, "one\ntwo\nfact\n")
        self.assertEqual(self.vfs("s", "read", "/mem/episodic/log"), "one\ntwo\n")
        self.assertEqual(self.vfs("s", "read", "/agent/s/mem/semantic/f"), "fact\n")
        done = self.world.run("--session", "s", "--", "sh", "-c", "echo 3 >> $WARREN_NAMESPACE/mem/episodic/log")
        self.assertIn("warren vfs session:s tree", done.stderr)

    def test_files_of_the_base_and_of_the_namespace_are_apart(self):
        self.sh("s", "mkdir mem && echo base > mem/x && echo new > file && test ! -e $WARREN_NAMESPACE/file")
        self.assertEqual(self.vfs("s", "ls", "/"), "audit/\nipc/\nmem/\npolicy/\nstate/\n")
        diff = self.world.warren("diff", "session:s", "--stat").stdout
        self.assertNotIn("episodic", diff)
        self.vfs("s", "write", "/mem/semantic/x", "kept")
        self.assertEqual(self.world.warren("discard", "session:s", "--yes").returncode, 0)
        self.sh("s", "test ! -e mem")
        self.assertEqual(self.vfs("s", "read", "/mem/semantic/x"), "kept", "discarding took the memory along")
        self.assertEqual(self.world.warren("diff", "session:s").stdout, "")

    def test_a_joiner_shares_it(self):
        first = self.world.start("run", "--session", "s", "--", "sh", "-c",
                                 "echo here > $WARREN_NAMESPACE/mem/working/w; touch $WARREN_NAMESPACE/mem/working/up; "
                                 "while test -e $WARREN_NAMESPACE/mem/working/up; do sleep 0.05; done")
        sandboxed.wait_for(lambda: self.world.server("s") is not None, "the server did not start")
        out = self.sh("s", "cd $WARREN_NAMESPACE/mem/working; until test -e up; do sleep 0.05; done; cat w; rm up")
        self.assertEqual(out, "here\n")
        first.communicate(timeout=sandboxed.PATIENCE_SECONDS)

    def test_it_can_be_switched_off(self):
        for options in (["--no-namespace"], []):
            if not options:
                file = self.world.home / ".config" / "warren" / "run.toml"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("namespace = false\n")
                for path in (file, file.parent, file.parent.parent):
                    os.chown(path, self.uid, self.uid)
            done = self.world.run(*options, "--", "sh", "-c", "echo ${WARREN_NAMESPACE-none}; ls -d /agent")
            self.assertEqual(done.stdout, "none\n")
            self.assertIn("memory and messages: no", self.world.run("--walls", *options, "--", "true").stderr)
        file.write_text("namespace = 1\n")
        done = self.world.run("--", "true")
        self.assertIn("'namespace' must be true or false", done.stderr)

    def test_walls_list_it_and_agentfs_has_none(self):
        self.assertIn("memory and messages: /agent/s", self.world.run("--session", "s", "--walls", "--", "true").stderr)
        done = self.world.warren("run", "--session", "t", "sh", "-c", "echo ${WARREN_NAMESPACE-none}", name="agentfs")
        self.assertIn("none", done.stdout)

    def test_a_session_is_deleted_with_it(self):
        self.sh("s", "echo x > $WARREN_NAMESPACE/mem/semantic/x")
        names = sorted(p.name for p in self.world.session_dir("s").iterdir() if ".db" in p.name)
        self.assertEqual(names, ["delta.db"])
        self.assertEqual(self.world.warren("sessions", "rename", "s", "t").returncode, 0)
        self.assertEqual(self.vfs("t", "read", "/agent/t/mem/semantic/x"), "x\n")
        self.assertIn("clean", self.world.warren("fsck", "session:t").stdout)
        self.assertEqual(self.world.warren("sessions", "delete", "--yes", "t").returncode, 0)
        self.assertEqual(self.world.sessions(), [])
        self.sh("u", "echo x > $WARREN_NAMESPACE/mem/semantic/x", "--discard")
        self.assertEqual(self.world.sessions(), [])

    def test_the_local_queue_is_moved_by_kernel_space_alone(self):
        self.sh("s", "echo hi > $WARREN_NAMESPACE/ipc/outbox/1")
        self.vfs("s", "write", "/ipc/inbox/1", "hello")
        self.python("s", """
            assert (root / "ipc/inbox/1").read_text() == "hello"
            denied((root / "ipc/inbox/2").write_text, "forged")
            denied((root / "ipc/inbox/1").write_text, "changed")
            denied((root / "ipc/outbox/1").read_text)
            denied(os.unlink, root / "ipc/outbox/1")
            os.unlink(root / "ipc/inbox/1")
        """)
        self.assertEqual(self.vfs("s", "read", "/ipc/outbox/1"), "hi\n")
        self.vfs("s", "rm", "/ipc/outbox/1")
        self.vfs("s", "exists", "/ipc/inbox/1", status=1)

    # With a relay.

    def relay(self, *args, status=0):
        done = self.world.warren("relay", *args, "--root", str(self.root), cwd=self.world.root)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout}{done.stderr}")
        return done.stdout

    def start_relay(self):
        self.root = self.world.home / "relay"
        self.relay("up", "--daemon")
        self.addCleanup(self.relay, "down")
        for name in ("alice", "bob"):
            self.relay("register", name)
        return ["--relay-as", "alice", "--relay", str(self.root)]

    def mail_of(self, name):
        """The first message in the inbox of an agent of the relay, as soon as there is one."""
        found = []

        def look():
            found[:] = [json.loads(line) for line in self.relay("inbox", name, "--take", "--json").splitlines() if line]
            return found
        sandboxed.wait_for(look, "no message came")
        return found[0]

    def test_a_file_in_the_outbox_becomes_a_message(self):
        options = self.start_relay()
        self.python("s", """
            import time
            def stem(digits):
                return f"{time.time_ns()}-{digits}.msg"
            # Slower than the relay would wait for a file that is written in place.
            draft, name = root / "ipc/outbox/.pending" / stem("0123abcd"), stem("0123abcd")
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            for part in (b"TO: bob\\n\\n", b"first ", b"half, ", b"second half"):
                os.write(fd, part)
                time.sleep(0.2)
            os.fsync(fd)
            os.close(fd)
            os.rename(draft, root / "ipc/outbox" / name)
        """, *options)
        mail = self.mail_of("bob")
        self.assertEqual((mail["from"], mail["body"]), ("alice", "first half, second half"))
        self.sh("s", """printf 'TO: bob\\n\\nin place' > $WARREN_NAMESPACE/ipc/outbox/$(date +%s%N)-89abcdef.msg""", *options)
        self.assertEqual(self.mail_of("bob")["body"], "in place")

    def test_a_run_that_cannot_be_marked_as_confined_does_not_start(self):
        options = self.start_relay()
        (self.root / "agents" / "alice" / ".confined").symlink_to("nowhere")
        done = self.world.run("--session", "s", *options, "--", "true")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("mark 'alice' as confined at the relay", done.stderr)

    def test_the_inbox_is_the_relays(self):
        options = self.start_relay()
        first = self.relay("send", "alice", "hello", "--from", "bob", "--wait", "delivered").strip()
        run = self.world.start("run", "--session", "s", *options, "--", "sh", "-c", """
            cd $WARREN_NAMESPACE/ipc/inbox; ls; cat *.msg; rm *.msg; echo "--"
            until test -n "$(ls)"; do sleep 0.05; done; cat *.msg""", text=True)
        out = ""
        while not out.endswith("--\n"):
            line = run.stdout.readline()
            self.assertTrue(line, out)
            out += line
        self.assertIn("FROM: bob", out)
        self.assertIn("hello", out)
        self.relay("send", "alice", "while it runs", "--from", "bob", "--wait", "delivered")
        rest, _ = run.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertIn("while it runs", rest)
        sandboxed.wait_for(lambda: "alice read" in self.relay("status", first), "removing the file did not count as reading")

    def test_a_directory_opened_before_a_message_came_leaves_no_old_list(self):
        options = self.start_relay()
        run = self.world.start("run", "--session", "s", *options, "--", "python3", "-c", """if True:
            import os, sys, time
            os.chdir(os.environ["WARREN_NAMESPACE"] + "/ipc/inbox")
            fd = os.open(".", os.O_RDONLY)
            print("open", flush=True)
            name = sys.stdin.readline().strip()
            while not os.path.exists(name):
                time.sleep(0.01)
            os.listdir(fd)  # the kernel keeps this list
            os.close(fd)
            while name not in os.listdir("."):
                time.sleep(0.01)
            print("seen", flush=True)""", stdin=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        self.assertEqual(run.stdout.readline(), "open\n")
        self.relay("send", "alice", "hello", "--from", "bob", "--wait", "delivered")
        (name,) = [path.name for path in (self.root / "agents/alice/inbox").glob("*.msg")]
        out, _ = run.communicate(name + "\n", timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(out, "seen\n")

    def test_the_mail_of_others_is_out_of_reach(self):
        options = self.start_relay()
        self.relay("send", "alice", "for alice", "--from", "bob", "--wait", "delivered")
        self.relay("send", "bob", "for bob", "--from", "alice", "--wait", "delivered")
        self.python("s", f"""
            inbox, outbox = root / "ipc/inbox", root / "ipc/outbox"
            name = [n for n in os.listdir(inbox) if n.endswith(".msg")][0]
            denied((inbox / "1-00000000.msg").write_text, "FROM: bob\\n\\nforged")
            denied((inbox / name).write_text, "changed")
            denied(os.rename, inbox / name, inbox / ".done" / name)
            denied(os.mkdir, inbox / "dir")
            denied(os.symlink, "{self.root}/agents/bob/inbox", outbox / "bob")
            denied(os.link, inbox / name, outbox / name, codes=("EXDEV", "EPERM", "EACCES"))
            denied(os.mkfifo, outbox / "pipe")
            denied(os.listdir, "{self.root}/agents", codes=("ENOENT", "EACCES"))
            denied(os.listdir, inbox / "../../../bob", codes=("ENOENT", "EACCES"))
            os.unlink(inbox / name)
        """, *options)
        self.assertEqual(self.mail_of("bob")["body"], "for bob\n")

    ATTACH = """
            import hashlib, time
            def send(header):
                stem = f"{time.time_ns()}-0123abcd.msg"
                (root / "ipc/outbox/.pending" / stem).write_text(f"TO: bob\\nATTACHMENT: {header}\\n\\nsee there")
                os.rename(root / "ipc/outbox/.pending" / stem, root / "ipc/outbox" / stem)
            """

    def test_attachments_are_handed_over_in_the_folders(self):
        options = self.start_relay()
        self.python("s", self.ATTACH + """
            content = b"of the sandbox " * 10_000
            digest = hashlib.sha256(content).hexdigest()
            (root / "ipc/outbox/.attachments/.draft").write_bytes(content)
            os.rename(root / "ipc/outbox/.attachments/.draft", root / f"ipc/outbox/.attachments/{digest}")
            send(f"sha256:{digest} file")
        """, *options)
        self.assertIn("see there", self.mail_of("bob")["body"])
        secret = self.world.root / "file"
        secret.write_bytes(b"for alice alone")
        self.relay("send", "alice", "take it", "--from", "bob", "--attach", str(secret), "--wait", "delivered")
        self.python("s", """
            (name,) = [n for n in os.listdir(root / "ipc/inbox/.attachments") if not n.startswith(".")]
            assert (root / "ipc/inbox/.attachments" / name).read_bytes() == b"for alice alone"
        """, *options)

    def test_a_sandbox_cannot_send_what_it_does_not_have(self):
        options = self.start_relay()
        secret = self.world.root / "secret"
        secret.write_bytes(b"of bob alone")
        self.relay("send", "bob", "note to self", "--from", "bob", "--attach", str(secret), "--wait", "delivered")
        self.mail_of("bob")
        self.python("s", self.ATTACH + """
            send("sha256:" + hashlib.sha256(b"of bob alone").hexdigest())
        """, *options)
        sandboxed.wait_for(lambda: "has no file for" in self.relay("inbox", "alice"), "no nack came")
        self.assertEqual(self.relay("inbox", "bob", "--json"), "")
        # The same name outside of a sandbox is treated alike.
        self.relay("send", "bob", "from outside", "--from", "alice", "--attach", str(secret), "--wait", "delivered")

    def test_the_outbox_cannot_fill_the_disk(self):
        options = self.start_relay()
        self.python("s", """
            written = 0
            try:
                for number in range(100):
                    (root / f"ipc/outbox/.pending/{number}").write_bytes(bytes(1 << 20))
                    written += 1
            except OSError as error:
                assert errno.errorcode[error.errno] == "ENOSPC", error
            assert 5 < written < 16, written
        """, *options, "--disk", "16M")

    def test_a_relay_that_is_asked_for_needs_a_namespace(self):
        options = self.start_relay()
        settings = self.world.home / ".config/warren/run.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text("namespace = false\n")
        for path in (settings, settings.parent, settings.parent.parent):
            os.chown(path, self.uid, self.uid)
        done = self.world.run("--", "sh", "-c", "test -z $WARREN_NAMESPACE")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.world.run(*options, "--", "sh", "-c", "ls -a $WARREN_NAMESPACE/ipc/inbox")
        self.assertEqual((done.returncode, ".done" in done.stdout), (0, True), done.stderr)

    def test_a_relay_that_is_not_there_is_named(self):
        options = self.start_relay()
        cases = ((["--relay-as", "carol", "--relay", str(self.root)], "has no agent 'carol'"),
                 (["--relay-as", "../bob", "--relay", str(self.root)], "not a valid agent id"),
                 (["--relay-as", "alice", "--relay", str(self.world.root / "none")], "there is no relay at"),
                 (["--relay-as", "alice"], "there is no relay at"),
                 (["--relay", str(self.root)], "--relay needs --relay-as NAME"),
                 ([*options, "--no-namespace"], "which this run does not have"))
        for words, says in cases:
            done = self.world.run(*words, "--", "true")
            self.assertEqual(done.returncode, 125, words)
            self.assertIn(says, done.stderr)
        self.assertEqual(self.world.sessions(), [])
        self.assertIn(f"messages: those of alice at the relay {self.root}",
                      self.world.run("--walls", *options, "--", "true").stderr)

    # Backends.

    def own(self, path, text=None, mode=0o644):
        """A file (or, without a text, a directory) of the user, with those above it."""
        missing = [one for one in (path, *path.parents) if not one.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.mkdir()
        else:
            path.write_text(text)
            path.chmod(mode)
        for one in missing:
            os.chown(one, self.uid, self.uid)
        return path

    def test_s4_a_backend_is_mounted_by_an_option(self):
        store = self.own(self.world.home / "store")
        spec = f"/mem/notes=sqlite:{store}/notes.db"
        out = self.sh("s", "cd $WARREN_NAMESPACE/mem/notes && mkdir day && echo one > day/1 && cat day/1 && ls -A ~/store 2>&1",
                      "--keep", "--mount", spec, status=2)
        self.assertIn("one\n", out)
        self.assertNotIn("notes.db", out, "the backend's own file is shown")
        self.assertEqual(self.vfs("s", "read", "/mem/notes/day/1", "--mount", spec), "one\n")
        self.assertEqual(self.vfs("s", "exists", "/mem/notes", status=1), "", "it is in the agent's own files")
        table = self.own(self.world.home / "mounts.toml", f'[[mount]]\npath = "/mem/notes"\nbackend = "sqlite:store/notes.db"\n')
        self.assertEqual(self.sh("s", "cat $WARREN_NAMESPACE/mem/notes/day/1", "--mounts", table), "one\n")

    def test_s4_the_users_own_files_say_what_is_mounted(self):
        config = self.world.home / ".config" / "warren"
        self.own(self.world.home / "store")

        def mounted(*options):
            done = self.world.run("--session", "s", "--walls", *options, "--", "true")
            self.assertEqual(done.returncode, 0, done.stderr)
            return [line for line in done.stderr.splitlines() if line.startswith("mounted: ")]

        def line(name, path="/mem/notes"):
            return f"mounted: sqlite:{name}.db on /agent/s{path}"

        self.own(config / "run.toml", f"""
            mount = "/mem/notes=sqlite:all.db"
            [project."{self.world.base}"]
            mount = ["/mem/notes=sqlite:project.db", "/mem/more=sqlite:more.db"]
            [project."/elsewhere"]
            mount = "/mem/notes=sqlite:elsewhere.db"
        """)
        self.assertEqual(mounted(), [line("project"), line("more", "/mem/more")])
        self.own(config / "mounts" / "s.toml", '[[mount]]\npath = "/mem/notes"\nbackend = "sqlite:session.db"\n')
        self.assertEqual(mounted(), [line("more", "/mem/more"), line("session")])
        table = self.own(self.world.home / "t.toml", '[[mount]]\npath = "/mem/notes"\nbackend = "sqlite:table.db"\n')
        self.assertEqual(mounted("--mounts", table), [line("more", "/mem/more"), line("table")])
        option = f"/mem/notes=sqlite:{self.world.home}/store/option.db"
        self.assertEqual(mounted("--mounts", table, "--mount", option)[1:],
                         [f"mounted: {option.split('=')[1]} on /agent/s/mem/notes"])
        self.assertEqual(mounted("--no-namespace"), [])
        # Relative paths begin at the file that has them.
        self.assertTrue((config / "project.db").exists())
        self.assertTrue((config / "mounts" / "session.db").exists())
        for text, says in (("mount = 3", "'mount' must be a text or a list of texts"),
                           ('mount = "/mem/x"', "a mount is written as PATH=BACKEND"),
                           ('mounts = "t.toml"', "'mounts' must be an absolute path")):
            self.own(config / "run.toml", text + "\n")
            done = self.world.run("--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn(says, done.stderr)

    def test_s4_what_a_backend_needs_stays_outside(self):
        store = self.own(self.world.home / "store")
        example = pathlib.Path(__file__).resolve().parents[2] / "examples" / "backend.py"
        self.own(store / "backend.py", example.read_text())
        script = self.own(store / "backend", f"""#!/bin/sh
            test "$STORE_SECRET" = sesame || exit 1
            exec {sandboxed.PYTHON} {store}/backend.py {store}/values
        """, 0o755)
        secret = {"env": self.world.environment() | {"STORE_SECRET": "sesame"}}
        done = self.world.run("--session", "s", "--keep", "--mount", f"/mem/custom=exec:{script}", "--", "sh", "-c", """
            cd $WARREN_NAMESPACE/mem/custom && echo kept > x && cat x && echo ${STORE_SECRET-none} && ! ls ~/store &&
            ! grep -l sesame /proc/*/environ 2>/dev/null""", **secret)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "kept\nnone\n")
        done = self.world.run("--session", "s", "--mount", f"/mem/custom=exec:{script}", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("mount '/mem/custom'", done.stderr)

    def test_s4_what_could_not_be_stored_is_reported(self):
        store = self.own(self.world.home / "store")
        example = pathlib.Path(__file__).resolve().parents[2] / "examples" / "backend.py"
        full = example.read_text().replace(
            'content = base64.b64decode(request["content"], validate=True)\n',
            'content = base64.b64decode(request["content"], validate=True)\n'
            '        if content:\n            raise Refused("no_space", "full")\n')
        self.own(store / "full.py", full)
        done = self.world.run("--session", "s", "--mount", f"/mem/x=exec:{sandboxed.PYTHON} {store}/full.py {store}/values",
                              "--", sandboxed.PYTHON, "-c", """if True:
            import errno, os
            descriptor = os.open(os.environ["WARREN_NAMESPACE"] + "/mem/x/f", os.O_CREAT | os.O_WRONLY)
            os.write(descriptor, b"lost")
            try:
                os.close(descriptor)
            except OSError as error:
                print(errno.errorcode[error.errno])""")
        self.assertEqual(done.stdout, "ENOSPC\n", done.stderr)
        self.assertEqual(done.returncode, 125)
        self.assertIn("store what was written to '/mem/x'", done.stderr)

    def test_s4_bad_mounts_are_named_and_leave_no_session(self):
        table = self.own(self.world.home / "t.toml", '[[mount]]\npath = "/mem/x"\nbackend = "memory:"\n', 0o666)
        cases = ((["--mount", "/mem/x"], "a mount is written as PATH=BACKEND"),
                 (["--mount", "/policy/x=memory:"], "belongs to the agent itself"),
                 (["--mount", "/mem/x=ftp://host"], "not a known kind of backend"),
                 (["--mount", "/mem/x=redis://u:secret@host"], "has a password in it"),
                 (["--mount", "/mem/x=redis://u:${NOT_SET}@host"], "'NOT_SET' is not set"),
                 (["--mount", "/mem/x=memory:", "--mount", "/mem//x=memory:"], "two backends are mounted on '/mem/x'"),
                 (["--mounts", self.world.home / "none.toml"], "there is no file"),
                 (["--mounts", table], "can be written by others"),
                 (["--mount", "/mem/x=memory:", "--no-namespace"], "which this run does not have"))
        for words, says in cases:
            done = self.world.run(*words, "--", "true")
            self.assertEqual(done.returncode, 125, words)
            self.assertIn(says, done.stderr)
            self.assertNotIn("secret", done.stderr)
        self.assertEqual(self.world.sessions(), [])
        first = self.world.start("run", "--session", "s", "--mount", "/mem/x=memory:", "--", "sh", "-c",
                                 "echo here > $WARREN_NAMESPACE/mem/x/f; touch $WARREN_NAMESPACE/mem/working/up; sleep 1000")
        sandboxed.wait_for(lambda: self.world.server("s") is not None, "the server did not start")
        out = self.sh("s", "cd $WARREN_NAMESPACE/mem; until test -e working/up; do sleep 0.05; done; cat x/f")
        self.assertEqual(out, "here\n", "a joiner does not share the mount")
        done = self.world.run("--session", "s", "--mount", "/mem/y=memory:", "--", "true")
        self.assertIn("its sandbox cannot be changed", done.stderr)
        first.kill()
        first.communicate()

    # What must not work.

    def test_a_backend_that_hangs_does_not_hold_the_run(self):
        script = self.own(self.world.home / "hang.sh", """echo '{"warren": 1}'; exec sleep 1000\n""")
        # One after the other these calls would take minutes.
        done = self.world.run("--session", "s", "--mount", f"/mem/x=exec:sh {script}", "--", sandboxed.PYTHON, "-c", """if True:
            import os, threading, time
            for _ in range(60):
                threading.Thread(target=os.listdir, args=[os.environ["WARREN_NAMESPACE"] + "/mem/x"]).start()
            time.sleep(1)
            os._exit(7)""")
        self.assertEqual(done.returncode, 7, done.stderr)

    def test_the_first_process_does_not_show_how_the_run_was_started(self):
        out = self.sh("s", "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done",
                      "--mount", "/mem/hidden-place=memory:")
        self.assertIn("warren-init", out)
        self.assertNotIn("hidden-place", out)
        self.assertNotIn("--mount", out)

    def test_passwords_in_options_of_an_address_are_refused(self):
        for address in ("postgres://u@127.0.0.1:1/db?password=secret",
                        "redis+sentinel://127.0.0.1:1/name?sentinel_password=secret"):
            done = self.world.run("--mount", f"/mem/p={address}", "--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn("has a password in it, where others can see it", done.stderr)
            self.assertNotIn("secret", done.stderr)

    def test_the_policy_binds_a_run_and_is_out_of_its_reach(self):
        self.sh("s", "echo x > $WARREN_NAMESPACE/mem/semantic/x")
        policy = self.world.root / "policy.json"
        policy.write_text(json.dumps({"version": 1, "rules": [
            {"path": "/mem/semantic/**", "operation": "write", "effect": "deny", "reason": "frozen"}]}))
        policy.chmod(0o644)
        self.assertEqual(self.world.warren("policy", "session:s", "set", str(policy)).returncode, 0)
        self.python("s", """
            denied((root / "mem/semantic/y").write_text, "y")
            assert "frozen" in (root / "policy/active.json").read_text()
            for name in ("active.json", "history.json", "mine.json"):
                denied((root / "policy" / name).write_text, "{}")
            denied(os.unlink, root / "policy/active.json")
            denied(os.rename, root / "policy", root / "old", codes=("EACCES", "EPERM", "EBUSY", "EXDEV"))
            denied(os.mkdir, root / "policy/dir")
            (root / "mine.json").write_text("{}")
            denied(os.rename, root / "mine.json", root / "policy/active.json")
            denied(os.link, root / "policy/active.json", root / "second", codes=("EXDEV", "EACCES", "EPERM"))
            denied(os.truncate, root / "policy/active.json", 0)
            denied(os.chmod, root / "policy/active.json", 0o777)
        """)

    def test_episodic_memory_cannot_be_rewritten(self):
        self.python("s", """
            log = root / "mem/episodic/log"
            with open(log, "a") as file:
                file.write("first\\n")
            denied(open, log, "w")
            denied(os.truncate, log, 0)
            denied(os.unlink, log)
            denied(os.rename, log, root / "mem/episodic/other")
            (root / "mem/semantic/new").write_text("new")
            denied(os.rename, root / "mem/semantic/new", log)
            fd = os.open(log, os.O_RDWR)
            denied(os.pwrite, fd, b"X", 0)
            assert log.read_text() == "first\\n"
        """)
        self.assertEqual(self.vfs("s", "read", "/mem/episodic/log"), "first\n")

    def test_other_sessions_are_out_of_reach(self):
        self.sh("other", "echo secret > $WARREN_NAMESPACE/mem/semantic/x")
        running = self.world.start("run", "--session", "third", "--", "sh", "-c",
                                   "echo secret > $WARREN_NAMESPACE/mem/semantic/x; sleep 1000")
        sandboxed.wait_for(lambda: self.world.server("third") is not None, "the server did not start")
        self.sh("s", f"""
            test "$(ls /agent)" = s && ! ls /agent/other /agent/third && ! mkdir /agent/other && ! mkdir /new &&
            ! ls {self.world.session_dir("other")} && ! cat $WARREN_NAMESPACE/../other/mem/semantic/x &&
            ! cat {self.world.session_dir("s")}/delta.db
        """)
        running.kill()
        running.communicate()
        self.assertFalse(pathlib.Path("/agent").exists(), "the host has got a directory")

    def test_links_lead_nowhere_that_the_run_may_not_go(self):
        self.python("s", f"""
            (root / "link").symlink_to("{self.world.home}/.ssh/secret")
            denied((root / "link").read_text, codes=("ENOENT", "EACCES"))
            (root / "up").symlink_to("../../..{self.world.canary}/file")
            denied((root / "up").write_text, "escaped")
            (root / "policy-link").symlink_to("policy")
            denied((root / "policy-link/active.json").write_text, "{{}}")
            denied(os.link, "{self.world.base}/file", root / "linked", codes=("EXDEV", "EPERM"))
        """)
        self.assertEqual((self.world.canary / "file").read_text(), "canary\n")
        self.assertEqual(self.vfs("s", "read", "/link", status=1), "", "the operator's command followed a link out")

    def test_the_root_directory_shows_what_the_hosts_does(self):
        host = sorted(os.listdir("/"))
        out = self.sh("s", "ls -A1 /; mkdir /x 2>&1; touch /agent/x 2>&1; ls -d /usr/bin /etc/passwd; cat /proc/mounts")
        lines = out.splitlines()
        self.assertEqual(sorted(set(lines[:len(host) + 1])), sorted(set(host) | {"agent"}))
        self.assertIn("/usr/bin", lines)
        self.assertFalse(pathlib.Path("/x").exists())
        root_lines = [line for line in lines if line.split()[1:2] == ["/"] and "tmpfs" in line]
        self.assertEqual([line.split()[3].split(",")[0] for line in root_lines], ["ro"])

    def test_it_has_the_limits_of_the_run(self):
        self.python("s", """
            import shutil
            def fill(path, count):  # files of 8 MiB: one of 16 has another limit
                path.mkdir()
                for i in range(count):
                    with open(path / str(i), "wb") as file:
                        file.write(b"x" * (8 << 20))
                        file.flush()
                        os.fsync(file.fileno())
            for place, count in (("mem/semantic", 4), ("mem/working", 40)):
                denied(fill, root / place / "big", count, codes=("ENOSPC", "EDQUOT"))
                shutil.rmtree(root / place / "big")
                (root / place / "small").write_text("fits")
        """, "--disk", "16M")
        self.assertEqual(self.vfs("s", "read", "/mem/semantic/small"), "fits")

    def test_it_survives_a_killed_server(self):
        run = self.world.start("run", "--session", "s", "--", "sh", "-c", """
            cd $WARREN_NAMESPACE/mem; echo kept > episodic/log; echo gone > working/w
            sync episodic/log; echo ready; sleep 1000""", text=True)
        self.assertEqual(run.stdout.readline(), "ready\n")
        os.kill(self.world.server("s"), 9)
        run.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(self.sh("s", "cd $WARREN_NAMESPACE/mem; cat episodic/log; ls working"), "kept\n")


class AsRoot(Namespaces, unittest.TestCase):
    pass


class AsUser(Namespaces, unittest.TestCase):
    uid = sandboxed.NOBODY


class Agents(unittest.TestCase):
    """An agent with a base, without a run."""

    def setUp(self):
        self.world = self.enterContext(sandboxed.World())

    def warren(self, *args, status=0):
        done = self.world.warren(*args, cwd=self.world.root)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def read(self, agent="a"):
        return self.warren("vfs", agent, "read", "/mem/semantic/x")

    def test_its_namespace_is_in_its_file_and_apart_from_its_files(self):
        self.warren("init", "a", "--base", self.world.base)
        self.assertIn("has no policy", self.warren("policy", "a", "show"))
        self.warren("vfs", "a", "write", "/mem/semantic/x", "kept")
        self.assertEqual(self.warren("vfs", "a", "read", "/agent/a/mem/semantic/x"), "kept")
        self.assertEqual(self.warren("fs", "a", "ls", "/").split(), sorted(os.listdir(self.world.base)))
        self.assertEqual(os.listdir(self.world.root / ".agentfs"), ["a.db"])
        self.assertEqual(self.warren("diff", "a"), "")
        self.warren("policy", "a", "set", "--preset", "read-only")
        self.assertIn("denied by rule", self.warren("vfs", "a", "write", "--as-agent", "/mem/semantic/y", "1", status=1))
        self.assertIn("clean", self.warren("fsck", "a"))

    def test_changes_are_discarded_and_the_memory_stays(self):
        self.warren("init", "a", "--base", self.world.base)
        self.warren("vfs", "a", "write", "/mem/semantic/x", "kept")
        self.warren("fs", "a", "write", "/made", "made")
        self.assertEqual(self.warren("diff", "a"), "A f /made\n")
        self.warren("discard", "a", "--yes")
        self.assertEqual(self.warren("diff", "a"), "")
        self.assertEqual(self.read(), "kept")
        self.assertIn("clean", self.warren("fsck", "a"))

    def test_backup_and_restore_take_it_along(self):
        self.warren("init", "a", "--base", self.world.base)
        self.warren("vfs", "a", "write", "/mem/semantic/x", "kept")
        self.warren("backup", "a", "copy.db")
        self.warren("vfs", "a", "write", "/mem/semantic/x", "changed")
        self.warren("restore", "a", "copy.db", "--force")
        self.assertEqual(self.read(), "kept")
        self.warren("init", "a", "--base", self.world.base, "--force")
        self.warren("vfs", "a", "read", "/mem/semantic/x", status=1)

    def test_it_moves_with_its_file_and_goes_with_it(self):
        self.warren("init", "a", "--base", self.world.base)
        self.warren("vfs", "a", "write", "/mem/semantic/x", "kept")
        folder = self.world.root / ".agentfs"
        (folder / "a.db").rename(folder / "b.db")
        self.assertEqual(self.read("b"), "kept")
        (folder / "b.db").unlink()
        self.warren("init", "b", "--base", self.world.base)
        self.warren("vfs", "b", "read", "/mem/semantic/x", status=1)

    def test_one_quota_is_for_files_and_memory(self):
        self.warren("init", "a", "--base", self.world.base)
        self.warren("fs", "a", "write", "/made", "x" * 600)
        self.warren("quota", "a", "--bytes", "1000")
        self.assertIn("quota", self.warren("vfs", "a", "write", "/mem/semantic/x", "x" * 600, status=1))
        self.warren("vfs", "a", "write", "/mem/semantic/x", "x" * 300)

    def test_a_repair_keeps_it(self):
        self.warren("init", "a", "--base", self.world.base)
        self.warren("vfs", "a", "write", "/mem/semantic/x", "kept")
        self.warren("sql", "a", "--write", "DELETE FROM wr_orphan")
        self.assertIn("WR-35", self.warren("fsck", "a", status=1))
        self.warren("fsck", "a", "--repair")
        self.assertEqual(self.read(), "kept")
        self.assertEqual(self.warren("diff", "a"), "")

    def test_a_root_that_is_a_directory_of_the_files_is_refused(self):
        self.warren("init", "a", "--base", self.world.base)
        self.warren("fs", "a", "mkdir", "/policy")
        self.warren("sql", "a", "--write", "INSERT INTO wr_meta SELECT 'namespace_ino', ino FROM fs_dentry "
                                           "WHERE name = 'policy'")
        out = self.warren("vfs", "a", "ls", "/", status=1)
        self.assertIn("as the root of the namespace, which has a name", out)
        self.assertIn("warren fsck", out)
        self.warren("fsck", "a", "--repair")
        self.warren("vfs", "a", "write", "/mem/semantic/x", "kept")
        self.assertEqual(self.read(), "kept")

    def test_it_works_without_the_base(self):
        self.warren("init", "a", "--base", self.world.base)
        self.warren("vfs", "a", "write", "/mem/semantic/x", "kept")
        self.world.base.rename(self.world.root / "moved")
        self.assertEqual(self.warren("vfs", "a", "read", "/mem/semantic/x"), "kept")
        (self.world.root / "moved").rename(self.world.base)

    def test_several_processes_make_it_at_once(self):
        for round_number in range(3):
            agent = f"b{round_number}"
            self.warren("init", agent, "--base", self.world.base)
            writers = [self.world.start("vfs", agent, "write", f"/state/{i}", str(i), cwd=self.world.root) for i in range(6)]
            said = [writer.communicate(timeout=sandboxed.PATIENCE_SECONDS)[1] for writer in writers]
            self.assertEqual([writer.returncode for writer in writers], [0] * 6, said)
            self.assertEqual(self.warren("vfs", agent, "ls", "/state"), "0\n1\n2\n3\n4\n5\ncheckpoints/\n")
            folder = self.world.root / ".agentfs"
            self.assertEqual([p.name for p in folder.iterdir() if ".new" in p.name], [], "a draft was left")

    def test_a_time_to_live_works_in_it(self):
        self.warren("init", "a", "--base", self.world.base)
        self.warren("vfs", "a", "write", "/mem/semantic/soon", "x", "--ttl", "1ms")
        self.warren("vfs", "a", "write", "/state/later", "x", "--ttl", "1h")
        sandboxed.wait_for(lambda: "soon" not in self.warren("vfs", "a", "ls", "/mem/semantic"), "the file to expire")
        self.assertIn("expires", self.warren("vfs", "a", "stat", "/state/later"))


if __name__ == "__main__":
    sandboxed.need_fuse()
    unittest.main()
