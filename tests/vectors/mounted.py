#!/usr/bin/env python3
"""Queries of a vector index that is mounted in a namespace, through the command: Pinecone's stand-in.

    WARREN=path/to/warren mounted.py [-v]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run  # noqa: E402


class MountedIndex(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.port = run.free_port()
        self.server = subprocess.Popen([sys.executable, run.HERE / "pinecone.py", str(self.port), "s3cret"])
        self.addCleanup(self.stop)
        run.wait_for(f"http://127.0.0.1:{self.port}/", self.server)
        self.environment = os.environ | {"HOME": str(self.root), "XDG_RUNTIME_DIR": str(self.root), "INDEX_KEY": "s3cret",
                                         "no_proxy": "127.0.0.1"}
        self.environment.pop("XDG_CONFIG_HOME", None)
        self.warren("init", "a")

    def stop(self):
        self.server.kill()
        self.server.wait()

    def run_warren(self, *words, **more):
        return subprocess.run([os.environ["WARREN"], *words], cwd=self.root, env=self.environment, capture_output=True,
                              text=True, timeout=120, **more)

    def warren(self, *words, **more):
        done = self.run_warren(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def mount(self, path="/mem/books", space="x"):
        return f"{path}=pinecone://:${{INDEX_KEY}}@127.0.0.1:{self.port}/{space}?tls=no"

    def write(self, name, embedding, mount, **item):
        self.warren("vfs", "a", "write", name, json.dumps({"embedding": embedding} | item), "--mount", mount)

    def query(self, path, embedding, mount, *more):
        out = self.warren("vfs", "a", "query", path, "--embedding", "-", "--json", "--mount", mount, *more,
                          input=json.dumps(embedding))
        return [(match["path"], match["text"]) for match in json.loads(out)]

    def test_s4_2_a_query_asks_the_mounted_index(self):
        mount = self.mount()
        self.write("/mem/books/cat.json", [1, 0.1], mount, text="a cat", metadata={"legs": 4})
        self.write("/mem/books/b/bird.json", [0.2, 1], mount, text="a bird", metadata={"legs": 2})
        # Of another length than those in the agent's own semantic memory, which is not asked.
        self.warren("vfs", "a", "write", "/mem/semantic/own.json", '{"text": "own", "embedding": [1, 0, 0]}')
        self.assertEqual(self.query("/mem/books", [1, 0], mount, "-k", "1"), [("/mem/books/cat.json", "a cat")])
        self.assertEqual(self.query("/mem/books/b", [1, 0], mount), [("/mem/books/b/bird.json", "a bird")])
        self.assertEqual(self.query("/agent/a/mem/books", [1, 0], mount, "--filter", '{"legs": {"$lt": 3}}'),
                         [("/mem/books/b/bird.json", "a bird")])
        self.assertEqual(self.query("/mem/semantic", [1, 0, 0], mount), [("/mem/semantic/own.json", "own")])
        self.assertEqual(self.warren("vfs", "a", "ls", "/mem/books", "--mount", mount), "b/\ncat.json\n")

    def test_s2_2_semantic_memory_itself_can_be_such_an_index(self):
        mount = self.mount("/mem/semantic", "y")
        self.warren("vfs", "a", "write", "/mem/semantic/own.json", '{"text": "own", "embedding": [1, 0, 0]}')
        self.write("/mem/semantic/there.json", [1, 0], mount, text="there")
        self.assertEqual(self.query("/mem/semantic", [1, 0], mount), [("/mem/semantic/there.json", "there")])

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_s4_2_items_are_files_of_a_mount(self):
        mount, point = self.mount(space="m"), self.root / "mnt"
        point.mkdir()
        with open(self.root / "err", "w") as err:
            done = subprocess.run([os.environ["WARREN"], "mount", "--namespace", "a", point, "--mount", mount], cwd=self.root,
                                  env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        self.assertEqual(done.returncode, 0, (self.root / "err").read_text())
        try:
            books = point / "mem/books"
            (books / "animals").mkdir()
            (books / "animals/cat.json").write_text('{"text": "a cat", "embedding": [1, 0.1]}')
            (books / "bird.json").write_text('{"text": "a bird", "embedding": [0.1, 1]}')
            self.assertEqual(self.query("/mem/books", [1, 0], mount),
                             [("/mem/books/animals/cat.json", "a cat"), ("/mem/books/bird.json", "a bird")])
            self.assertEqual(json.loads((books / "animals/cat.json").read_text())["text"], "a cat")
            with self.assertRaises(OSError):
                (books / "bird.json").write_text("not an item")
            self.assertEqual(json.loads((books / "bird.json").read_text())["text"], "a bird")
            (books / "animals/cat.json").unlink()
            self.assertEqual(os.listdir(books / "animals"), [])
            self.assertEqual(self.query("/mem/books", [1, 0], mount), [("/mem/books/bird.json", "a bird")])
        finally:
            self.run_warren("umount", point)

    def test_only_what_the_caller_may_read_is_found(self):
        mount = self.mount(space="z")
        for i in range(30):
            self.write(f"/mem/books/{'secret' if i < 25 else 'open'}/{i}.json", [1, i], mount, text=str(i))
        rules = {"version": 1, "rules": [{"space": "user", "path": "/mem/books/secret", "effect": "deny"}]}
        self.warren("policy", "a", "set", input=json.dumps(rules))
        self.assertEqual(self.query("/mem/books", [1, 0], mount, "-k", "2", "--as-agent"),
                         [("/mem/books/open/25.json", "25"), ("/mem/books/open/26.json", "26")])
        self.assertEqual(self.query("/mem/books", [1, 0], mount, "-k", "1"), [("/mem/books/secret/0.json", "0")])

    def test_an_index_that_does_not_answer_is_named_without_its_key(self):
        mount = self.mount()
        self.stop()
        done = self.run_warren("vfs", "a", "query", "/mem/books", "--embedding", "-", "--mount", mount, input="[1]")
        self.assertEqual(done.returncode, 1)
        self.assertIn("127.0.0.1", done.stderr)
        self.assertNotIn("s3cret", done.stderr)


if __name__ == "__main__":
    unittest.main()
