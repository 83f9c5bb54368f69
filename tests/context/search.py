#!/usr/bin/env python3
"""`warren context ID search` finds what is there, whoever wrote it, and nothing else, whatever happens to the index."""
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mount"))
from mounted import World, program, wait_for  # noqa: E402

SDK = os.environ.get("WARREN_SDK", "")
BY_WORDS = os.environ | {"WARREN_EMBED": "none"}


class Agent(World):
    def __init__(self, *args):
        super().__init__(*args)
        self.index = self.file.with_name("a.index.db")

    def search(self, *args):
        """The answer as JSON."""
        return json.loads(self.warren("context", self.id, "search", "--json", *args, env=BY_WORDS))

    def find(self, *args):
        return sorted({hit["path"] for hit in self.search(*args)["hits"]})

    def write(self, path, text):
        self.warren("fs", self.id, "write", path, "-", input=text.encode())

    def status(self):
        return json.loads(self.warren("context", self.id, "status", "--json", env=BY_WORDS))

    def remove_index(self):
        for suffix in ("", "-wal", "-shm"):
            pathlib.Path(f"{self.index}{suffix}").unlink(missing_ok=True)


class Doors(unittest.TestCase):
    def test_what_the_command_line_writes_moves_and_removes(self):
        with Agent() as agent:
            agent.write("/notes/a.md", "# Sails\n\nThe spinnaker is for light wind.\n")
            self.assertEqual(agent.find("spinnaker"), ["/notes/a.md"])
            agent.warren("fs", "a", "mv", "/notes", "/log")
            self.assertEqual(agent.find("spinnaker"), ["/log/a.md"])
            agent.warren("fs", "a", "cp", "/log/a.md", "/copy.md")
            self.assertEqual(agent.find("spinnaker"), ["/copy.md", "/log/a.md"])
            agent.warren("fs", "a", "rm", "-r", "/log")
            self.assertEqual(agent.find("spinnaker"), ["/copy.md"])
            agent.write("/copy.md", "nothing")
            self.assertEqual(agent.find("spinnaker"), [])

    def test_what_a_mount_writes_while_it_is_mounted(self):
        if not os.path.exists("/dev/fuse"):
            self.skipTest("there is no /dev/fuse")
        with Agent() as agent:
            point = agent.mount()
            (point / "deep" / "er").mkdir(parents=True)
            (point / "deep" / "er" / "f.txt").write_text("a marlinspike\n")
            self.assertEqual(agent.find("marlinspike"), ["/deep/er/f.txt"])
            os.rename(point / "deep", point / "moved")
            self.assertEqual(agent.find("marlinspike"), ["/moved/er/f.txt"])
            (point / "moved" / "er" / "f.txt").write_text("a capstan\n")
            self.assertEqual(agent.find("marlinspike"), [])
            self.assertEqual(agent.find("capstan"), ["/moved/er/f.txt"])
            agent.umount(point)
            self.assertEqual(agent.find("capstan"), ["/moved/er/f.txt"])

    def test_what_another_program_writes_with_sqlite(self):
        with Agent() as agent:
            agent.write("/a", "halyard")
            self.assertEqual(agent.find("halyard"), ["/a"])
            with sqlite3.connect(agent.file) as database:
                database.execute("UPDATE fs_data SET data = ? WHERE ino = (SELECT ino FROM fs_dentry WHERE name = 'a')", (b"mizzens",))
                database.execute("UPDATE fs_inode SET mtime = mtime + 1 WHERE ino = (SELECT ino FROM fs_dentry WHERE name = 'a')")
            database.close()
            self.assertEqual(agent.find("halyard"), [])
            self.assertEqual(agent.find("mizzen"), ["/a"])

    def test_what_the_agentfs_sdk_writes(self):
        installed = pathlib.Path(SDK, "node_modules", "agentfs-sdk").exists() and shutil.which("node")
        self.assertTrue(installed, "tools/setup has not installed the AgentFS SDK")
        script = pathlib.Path(__file__).resolve().parent.parent / "interop" / "sdk.mjs"

        def sdk(*calls):
            done = subprocess.run(["node", script, SDK, agent.file], input=json.dumps(calls).encode(), capture_output=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)

        with Agent() as agent:
            agent.write("/a", "halyard")
            self.assertEqual(agent.find("halyard"), ["/a"])
            sdk(["fs", "writeFile", "/sdk/b", "a bowline knot"])
            self.assertEqual(agent.find("bowline"), ["/sdk/b"])
            sdk(["fs", "rename", "/sdk/b", "/c"], ["fs", "unlink", "/a"])
            self.assertEqual(agent.find("bowline"), ["/c"])
            self.assertEqual(agent.find("halyard"), [])

    def test_a_base_is_searched_with_the_changes(self):
        with Agent() as agent:
            base = agent.root / "project"
            (base / "src").mkdir(parents=True)
            (base / ".git").mkdir()
            (base / ".git" / "config").write_text("fairlead\n")
            (base / "src" / "a.c").write_text("int fairlead(void);\n")
            agent.warren("init", "o", "--base", base)
            agent.id = "o"
            self.assertEqual(agent.find("fairlead"), ["/src/a.c"])
            (base / "new.txt").write_text("fairlead\n")
            self.assertEqual(agent.find("fairlead"), ["/new.txt", "/src/a.c"])
            agent.warren("fs", "o", "rm", "/src/a.c")
            agent.write("/own", "fairlead")
            self.assertEqual(agent.find("fairlead"), ["/new.txt", "/own"])


class UnchangedFile(unittest.TestCase):
    """A file that nobody wrote to is not looked at again; one that somebody wrote to is."""

    def test_a_file_of_some_seconds(self):
        with Agent() as agent:
            agent.write("/a", "halyard")
            time.sleep(2.5)  # what it is about: how old the file is
            self.assertEqual(agent.find("halyard"), ["/a"])
            with sqlite3.connect(agent.index) as database:
                mark = database.execute("SELECT value FROM meta WHERE key = 'file_mark'").fetchone()[0]
                self.assertNotEqual(mark, "")
                database.execute("UPDATE file SET path = '/b' WHERE path = '/a'")  # a listing would correct it
            database.close()
            self.assertEqual(agent.status()["files"], 1)
            with sqlite3.connect(agent.index) as database:
                self.assertEqual(database.execute("SELECT path FROM file").fetchall(), [("/b",)])
            database.close()
            with sqlite3.connect(agent.file) as database:
                database.execute("UPDATE fs_data SET data = ? WHERE ino = (SELECT ino FROM fs_dentry WHERE name = 'a')", (b"mizzens",))
            database.close()
            self.assertEqual(agent.find("mizzen"), ["/a"])


class Answers(unittest.TestCase):
    def test_filters_names_and_pages(self):
        with Agent() as agent:
            for i in range(40):
                agent.write(f"/noise/{i}.txt", "rudder rudder rudder")
            agent.write("/100%/x_y.md", "# Steering\n\nOne rudder and many words of other kinds.\n")
            self.assertEqual(agent.find("rudder", "--in", "/100%"), ["/100%/x_y.md"])
            self.assertEqual(agent.find("rudder", "--in", "/noise/1"), [])
            self.assertEqual(agent.find("rudder", "--glob", "**/*.md", "-n", "1"), ["/100%/x_y.md"])
            self.assertEqual(agent.find("rudder", "--mime", "text/markdown"), ["/100%/x_y.md"])
            self.assertEqual(agent.find("rudder", "--since", "2100-01-01"), [])
            self.assertEqual(len(agent.search("rudder", "-n", "7")["hits"]), 7)
            hit = agent.search("rudder", "--in", "/100%")["hits"][0]
            self.assertEqual((hit["first_line"], hit["last_line"], hit["heading"]), (1, 3, "Steering"))
            self.assertEqual(hit["found_by"], ["text"])

    def test_patterns(self):
        with Agent() as agent:
            agent.write("/a.py", "def f():\n    return open_file(3)\n")
            agent.write("/b.py", "x = 1\n")
            self.assertEqual(agent.find("--pattern", r"open_\w+\(\d"), ["/a.py"])
            done = agent.run("context", "a", "search", "--pattern", "a(b", env=BY_WORDS)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"is not a valid pattern", done.stderr)

    def test_every_answer_without_an_embedder_says_so(self):
        with Agent() as agent:
            agent.write("/a", "jib")
            self.assertIn("words alone", agent.search("jib")["hint"])

    def test_strange_files(self):
        with Agent() as agent:
            agent.write("/long", "x" * 1_000_000 + " spritsail " + "y" * 1_000_000)
            agent.write("/crlf.md", "# A\r\n\r\nspritsail\r\n")
            agent.warren("fs", "a", "write", "/bad", "-", input=b"spritsail \xff\xfe\x80 tail\n")
            agent.warren("fs", "a", "write", "/binary", "-", input=b"spritsail\0\1\2")
            agent.warren("fs", "a", "write", "/latin", "-", input="spritsail für Größe\n".encode("latin-1"))
            self.assertEqual(agent.find("spritsail"), ["/bad", "/crlf.md", "/latin", "/long"])
            self.assertEqual(agent.find("größe"), ["/latin"])

    def test_a_file_of_a_gibibyte_is_found_by_its_name_alone(self):
        with Agent() as agent:
            agent.write("/enormous.txt", "")
            with sqlite3.connect(agent.file) as database:
                database.execute("UPDATE fs_inode SET size = 1 << 30 WHERE ino = (SELECT ino FROM fs_dentry WHERE name = 'enormous.txt')")
            database.close()
            self.assertEqual(agent.find("enormous"), ["/enormous.txt"])
            self.assertEqual([p["path"] for p in agent.status()["only_by_name"]], ["/enormous.txt"])


class Index(unittest.TestCase):
    def test_it_is_private_and_not_an_agent(self):
        with Agent() as agent:
            agent.write("/a", "tiller")
            agent.find("tiller")
            self.assertEqual(os.stat(agent.index).st_mode & 0o777, 0o600)
            self.assertNotIn(b"index", agent.warren("agents"))
            agent.fsck()

    def test_deleted_damaged_or_of_another_agent_it_is_made_again(self):
        with Agent() as agent:
            agent.write("/a", "tiller")
            self.assertEqual(agent.find("tiller"), ["/a"])
            agent.remove_index()
            self.assertEqual(agent.find("tiller"), ["/a"])
            whole = agent.index.read_bytes()
            numbers = random.Random(4)
            for damage in range(12):
                broken = bytearray(whole)
                if damage == 0:
                    broken = bytearray(b"not a database at all")
                elif damage == 1:
                    broken = broken[:len(broken) // 2]
                elif damage == 2:
                    broken = bytearray()
                else:
                    for _ in range(400):
                        broken[numbers.randrange(len(broken))] = numbers.randrange(256)
                agent.remove_index()
                agent.index.write_bytes(broken)
                os.chmod(agent.index, 0o600)
                found = agent.find("tiller")
                # Damage in bytes that no search reads may stay unnoticed; a wrong result may not.
                self.assertIn(found, (["/a"],), f"damage {damage}")
            agent.warren("init", "b")
            agent.warren("fs", "b", "write", "/secret", "-", input=b"tiller of another")
            agent.warren("context", "b", "status", env=BY_WORDS)
            agent.remove_index()
            shutil.copy(agent.index.with_name("b.index.db"), agent.index)
            self.assertEqual(agent.find("tiller"), ["/a"])

    def test_a_directory_or_link_in_its_place(self):
        with Agent() as agent:
            agent.write("/a", "tiller")
            outside = agent.root / "outside"
            outside.write_text("not ours\n")
            os.symlink(outside, agent.index)
            self.assertEqual(agent.find("tiller"), ["/a"])
            self.assertEqual(outside.read_text(), "not ours\n")
            agent.remove_index()
            agent.index.mkdir()
            done = agent.run("context", "a", "search", "tiller", env=BY_WORDS)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"a.index.db", done.stderr)

    def test_rebuild(self):
        with Agent() as agent:
            agent.write("/a", "tiller")
            self.assertEqual(agent.warren("context", "a", "rebuild", env=BY_WORDS), b"1 files, 1 chunks\n")
            self.assertEqual(agent.find("tiller"), ["/a"])

    def fill(self, agent, count):
        folder = agent.root / "many"
        for i in range(count):
            path = folder / str(i % 10) / f"{i}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# File {i}\n\nword{i} and keelson, " + "filling " * 200)
        agent.warren("fs", "a", "put", folder, "/many")

    def test_killed_while_it_indexes_it_goes_on_and_no_file_is_half_there(self):
        with Agent() as agent:
            self.fill(agent, 600)
            numbers = random.Random(7)
            agent.find("nothing")
            whole = agent.status()
            agent.remove_index()
            started = time.monotonic()
            agent.find("nothing")
            length = time.monotonic() - started
            agent.remove_index()
            for _ in range(12):
                process = subprocess.Popen([program(), "context", "a", "status"], cwd=agent.home, env=BY_WORDS,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(numbers.uniform(0, length))
                process.send_signal(signal.SIGKILL)
                process.wait()
            after = agent.status()
            for key in ("files", "chunks", "with_text"):
                self.assertEqual(after[key], whole[key])
            with sqlite3.connect(agent.index) as database:
                self.assertEqual(database.execute("PRAGMA integrity_check").fetchone()[0], "ok")
                unequal = database.execute("SELECT count(*) FROM file WHERE state = 1 AND NOT EXISTS (SELECT 1 FROM chunk WHERE id >> 20 = file.id)").fetchone()[0]
            database.close()
            self.assertEqual(unequal, 0)
            for i in range(0, 600, 61):
                self.assertEqual(agent.find(f"word{i}"), [f"/many/{i % 10}/{i}.md"])

    def test_several_processes_index_at_the_same_time(self):
        with Agent() as agent:
            self.fill(agent, 400)
            several = [subprocess.Popen([program(), "context", "a", "search", "--json", f"word{i}"], cwd=agent.home,
                                        env=BY_WORDS, stdout=subprocess.PIPE) for i in (3, 77, 399)]
            for i, process in zip((3, 77, 399), several):
                said, _ = process.communicate(timeout=120)
                self.assertEqual([hit["path"] for hit in json.loads(said)["hits"]], [f"/many/{i % 10}/{i}.md"])
            self.assertEqual(agent.status()["files"], 400)

    def test_it_can_be_deleted_while_another_process_uses_it(self):
        with Agent() as agent:
            self.fill(agent, 600)
            process = subprocess.Popen([program(), "context", "a", "search", "--json", "word5"], cwd=agent.home, env=BY_WORDS, stdout=subprocess.PIPE)
            wait_for(lambda: agent.index.exists() or process.poll() is not None, "the index to appear")
            agent.remove_index()
            self.assertEqual(agent.find("word599"), ["/many/9/599.md"])
            said, _ = process.communicate(timeout=120)
            self.assertEqual([hit["path"] for hit in json.loads(said)["hits"]], ["/many/5/5.md"])


class Embedding(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible service whose embeddings count letters."""
    texts = []
    before = None  # called with the texts before they are answered

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        type(self).texts += texts
        if type(self).before:
            type(self).before(texts)
        data = [{"index": i, "embedding": [1 + text.lower().count(letter) for letter in "aeiou"]} for i, text in enumerate(texts)]
        body = json.dumps({"data": data, "model": asked["model"]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client was killed

    def log_message(self, *_):
        pass


class Service:
    """The service, which can go away and come back at the same address."""

    def __init__(self):
        self.port = 0
        self.server = None

    def start(self):
        http.server.ThreadingHTTPServer.allow_reuse_address = True
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Embedding)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
        self.server = None


class Models(unittest.TestCase):
    def test_while_the_service_is_down_words_answer_and_the_queue_waits(self):
        service = Service()
        service.start()
        self.addCleanup(service.stop)
        env = os.environ | {"WARREN_EMBED": f"http://127.0.0.1:{service.port}/v1#m"}
        with Agent() as agent:
            agent.write("/a.md", "aaa anchor\n")
            self.assertIn(b"1 embedded, 0 waiting", agent.warren("context", "a", "embed", env=env))
            service.stop()
            agent.write("/b.md", "bollard\n")
            answer = json.loads(agent.warren("context", "a", "search", "--json", "bollard", env=env))
            self.assertEqual([hit["path"] for hit in answer["hits"]], ["/b.md"])
            self.assertIn("words alone", answer["hint"])
            service.start()
            Embedding.texts = []
            self.assertEqual(json.loads(agent.warren("context", "a", "embed", "--json", env=env)), {"embedded": 1, "waiting": 0})
            self.assertEqual([text for text in Embedding.texts if "anchor" in text], [])  # what was embedded before, stays
            # Embedding everything again, and the parts that are embedded.
            self.assertEqual(json.loads(agent.warren("context", "a", "reembed", "--json", env=env)), {"embedded": 2, "waiting": 0})
            chunks = json.loads(agent.warren("context", "a", "chunks", "/a.md", "--json", env=env))["chunks"]
            self.assertEqual([(chunk["first_line"], chunk["text"].strip(), chunk["embedded"]) for chunk in chunks], [(1, "aaa anchor", True)])
            # Another model of the same service: the one before answers until everything is embedded again.
            other = env | {"WARREN_EMBED": env["WARREN_EMBED"] + "-2"}
            answer = json.loads(agent.warren("context", "a", "search", "--json", "anchor", env=other))
            self.assertIn("meaning", answer["hits"][0]["found_by"])

    def test_a_service_that_is_down_and_a_model_that_is_not_there_are_shown_as_such(self):
        with Agent() as agent:
            agent.write("/a.md", "anchor\n")
            for embedder, configured in (("http://u:secret@127.0.0.1:1/v1#m", "http:m at http://127.0.0.1:1/v1"), ("nosuchmodel", "nosuchmodel")):
                env = os.environ | {"WARREN_EMBED": embedder}
                said = agent.warren("context", "a", "status", env=env).decode()
                self.assertIn(f"embedder   configured: {configured}; not available: ", said)
                self.assertIn("waiting    1 chunks", said)
                self.assertNotIn("secret", said)
                status = json.loads(agent.warren("context", "a", "status", "--json", env=env))
                self.assertEqual((status["model"], status["configured"], status["waiting"]), (None, configured, 1))
                self.assertTrue(status["not_available"])
            status = agent.status()
            self.assertEqual((status["model"], status["configured"], status["not_available"]), (None, None, None))

    def test_a_kill_while_embedding_keeps_what_was_done_and_the_next_one_goes_on(self):
        service = Service()
        service.start()
        self.addCleanup(service.stop)
        calls, reached, release = [], threading.Event(), threading.Event()
        self.addCleanup(release.set)

        def before(texts):
            if texts == ["rabbit"] or reached.is_set():
                return
            calls.append(texts)
            if len(calls) == 4:  # the first three are stored by now
                reached.set()
                release.wait(60)

        Embedding.before = before
        self.addCleanup(setattr, Embedding, "before", None)
        env = os.environ | {"WARREN_EMBED": f"http://127.0.0.1:{service.port}/v1#m"}
        with Agent() as agent:
            folder = agent.file.parent / "many"
            folder.mkdir()
            for i in range(200):
                (folder / f"{i}.md").write_text(f"anchor number {i}\n")
            agent.warren("context", "a", "add", str(folder), "--drive", "d", env=env)
            process = subprocess.Popen([program(), "context", "a", "embed"], cwd=agent.home, env=env, stdout=subprocess.DEVNULL)
            self.assertTrue(reached.wait(60))
            process.kill()
            process.wait()
            release.set()
            stored = sum(len(texts) for texts in calls[:3])
            status = json.loads(agent.warren("context", "a", "status", "--json", env=env))
            self.assertEqual((status["embedded"], status["waiting"]), (stored, 200 - stored))
            Embedding.texts = []
            self.assertEqual(json.loads(agent.warren("context", "a", "embed", "--json", env=env)), {"embedded": 200 - stored, "waiting": 0})
            again = [text for text in Embedding.texts if text != "rabbit"]
            self.assertEqual(len(again), len(set(again)))
            self.assertEqual(set(again) & {text for texts in calls[:3] for text in texts}, set())
            with sqlite3.connect(agent.index) as index:
                self.assertEqual(index.execute("SELECT count(*), count(DISTINCT hash) FROM vector").fetchone(), (200, 200))

    def test_another_model_embeds_again_while_the_one_before_answers(self):
        installed = pathlib.Path(os.environ["WARREN_DOCS"]).parent / ".deps/models/all-MiniLM-L6-v2"
        self.assertTrue(installed.is_dir(), "run tools/setup")
        with Agent() as agent:
            models = agent.file.parent / "models"
            shutil.copytree(installed, models / "second", copy_function=os.symlink)
            pooling = models / "second/1_Pooling/config.json"
            pooling.unlink()
            pooling.write_text('{"pooling_mode_cls_token": true}')  # the same weights, other vectors
            first = os.environ | {"WARREN_EMBED": "local", "WARREN_MODELS": str(models)}
            second = first | {"WARREN_EMBED": "second"}
            for i in range(80):
                agent.write(f"/n{i}.md", f"Chapter {i}. " + "The cat sleeps on the warm sofa all day. " * 12)
            self.assertIn(b"80 embedded", agent.warren("context", "a", "embed", env=first))
            words = ("context", "a", "search", "--json", "--limit", "100", "--per-file", "1", "furry pets rest")
            answer = json.loads(agent.warren(*words, env=second))
            by_meaning = [hit for hit in answer["hits"] if "meaning" in hit["found_by"]]
            self.assertGreater(answer["waiting"], 0, "too fast to be seen: give it more files")
            self.assertEqual(len(by_meaning), 80, answer["hint"])
            self.assertIn("vectors from before", answer["hint"])
            self.assertIn(b" 0 waiting", agent.warren("context", "a", "embed", env=second))
            status = json.loads(agent.warren("context", "a", "status", "--json", env=second))
            self.assertRegex(status["model"], "^second@[0-9a-f]{12}$")
            self.assertEqual(status["embedded"], 80)


if __name__ == "__main__":
    unittest.main(verbosity=2)
