#!/usr/bin/env python3
"""`warren serve mcp` embeds in the background what a search leaves waiting, and its end waits for no embedding service.

    WARREN=path/to/warren embedding.py [-v] [Background.test_name]
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import PATIENCE_SECONDS, WARREN, Server  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "context"))
from search import Embedding, Service  # noqa: E402
from mounted import wait_for  # noqa: E402

FILES = 300
BATCH_OF_A_SEARCH = 4
CALL_SECONDS = 0.05  # a slow service: a search cannot embed everything by itself


class WithService(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="warren-mcp-"))
        service = Service()
        service.start()
        self.addCleanup(service.stop)
        self.addCleanup(setattr, Embedding, "before", None)
        self.environment = os.environ | {"WARREN_EMBED": f"http://127.0.0.1:{service.port}/v1#m"}
        self.warren("init", "a")

    def warren(self, *args):
        return subprocess.run([WARREN, *args], cwd=self.folder, check=True, capture_output=True, text=True, env=self.environment).stdout


class Background(WithService):
    def setUp(self):
        super().setUp()
        Embedding.before = lambda texts: time.sleep(CALL_SECONDS)
        many = pathlib.Path(self.folder) / "many"
        many.mkdir()
        for i in range(FILES):
            (many / f"{i}.md").write_text(f"anchor number {i}\n")
        self.warren("context", "a", "add", "many", "--drive", "d")

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


class Waiting(WithService):
    """Calls that wait for a service that does not answer."""

    def setUp(self):
        super().setUp()
        one = pathlib.Path(self.folder) / "one.md"
        one.write_text("the cat sleeps\n")
        self.warren("context", "a", "add", "one.md", "--drive", "d")
        self.warren("context", "a", "embed")
        self.is_hanging, release = threading.Event(), threading.Event()
        self.addCleanup(release.set)

        def before(texts):
            if texts != ["rabbit"]:  # with which the service is tried
                self.is_hanging.set()
                release.wait(600)

        Embedding.before = before

    def begin_call(self, tool, arguments):
        """A server with a call that waits for the service."""
        self.is_hanging.clear()
        server = self.enterContext(Server(self.folder, environment=self.environment))
        server.send_request(100, "tools/call", name=tool, arguments=arguments)
        self.assertTrue(self.is_hanging.wait(PATIENCE_SECONDS), "the call asks the service")
        return server

    def check_end(self, tool, **arguments):
        server = self.begin_call(tool, arguments)
        server.process.send_signal(signal.SIGTERM)
        # The time limit is far below that of the attempts to ask the service.
        self.assertEqual(server.process.wait(PATIENCE_SECONDS), 0)

    def test_sigterm_ends_a_write_to_semantic_memory(self):
        self.check_end("vfs_operation", operation="write", path="/mem/semantic/a.json", data={"text": "x"})

    def test_sigterm_ends_a_query_of_semantic_memory(self):
        self.check_end("vfs_operation", operation="query", path="/mem/semantic", data={"text": "x"})

    def test_sigterm_ends_a_search(self):
        self.check_end("search", query="where does it sleep")


if __name__ == "__main__":
    unittest.main()
