#!/usr/bin/env python3
"""`warren serve mcp` embeds in the background what a search leaves waiting, and ends at once.

    WARREN=path/to/warren embedding.py [-v] [Background.test_name]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import WARREN, Server  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "context"))
from search import Embedding, Service  # noqa: E402
from mounted import wait_for  # noqa: E402

FILES = 300
BATCH_OF_A_SEARCH = 4
CALL_SECONDS = 0.05  # a slow service: a search cannot embed everything by itself


class Background(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="warren-mcp-"))
        service = Service()
        service.start()
        self.addCleanup(service.stop)
        self.addCleanup(setattr, Embedding, "before", None)
        Embedding.before = lambda texts: time.sleep(CALL_SECONDS)
        self.environment = os.environ | {"WARREN_EMBED": f"http://127.0.0.1:{service.port}/v1#m"}
        self.warren("init", "a")
        many = pathlib.Path(self.folder) / "many"
        many.mkdir()
        for i in range(FILES):
            (many / f"{i}.md").write_text(f"anchor number {i}\n")
        self.warren("context", "a", "add", "many", "--drive", "d")

    def warren(self, *args):
        return subprocess.run([WARREN, *args], cwd=self.folder, check=True, capture_output=True, text=True, env=self.environment).stdout

    def status(self):
        return json.loads(self.warren("context", "a", "status", "--json"))

    def search(self, server):
        return server.call("search", query="anchor")["structuredContent"]

    def test_what_a_search_leaves_waiting_is_embedded_and_searches_are_answered_meanwhile(self):
        server = self.enterContext(Server(self.folder, environment=self.environment))
        found = self.search(server)
        self.assertEqual(len(found["results"]), 10)
        self.assertIn("not embedded yet", found["hint"])
        self.assertEqual(len(self.search(server)["results"]), 10)
        wait_for(lambda: self.status()["waiting"] == 0, "everything to be embedded")
        self.assertEqual(self.status()["embedded"], FILES)
        self.assertEqual(self.search(server)["hint"], "")
        self.assertEqual(server.end(), 0)

    def test_its_end_does_not_wait_for_the_service(self):
        is_hanging, release = threading.Event(), threading.Event()
        self.addCleanup(release.set)

        def before(texts):
            time.sleep(CALL_SECONDS)
            if len(texts) > BATCH_OF_A_SEARCH:  # only the background asks for so many at once
                is_hanging.set()
                release.wait(300)

        Embedding.before = before
        server = self.enterContext(Server(self.folder, environment=self.environment))
        self.assertIn("not embedded yet", self.search(server)["hint"])
        self.assertTrue(is_hanging.wait(60))
        self.assertEqual(server.end(), 0)  # its time limit is below that of one call to the service
        release.set()
        Embedding.before = None
        self.assertGreater(self.status()["waiting"], 0)
        self.warren("context", "a", "embed")
        self.assertEqual(self.status()["embedded"], FILES)


if __name__ == "__main__":
    unittest.main()
