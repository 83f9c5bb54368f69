#!/usr/bin/env python3
"""Items and queries by text with an embedding service, through the program. The service is a strict one of our own."""
import http.server
import json
import os
import subprocess
import tempfile
import threading
import unittest

WARREN = os.environ["WARREN"]
KEY = "sk-test-4711-secret"
WORDS = ["rabbit", "ship", "tax"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        service = self.server.service
        body = self.rfile.read(int(self.headers["Content-Length"]))
        service.requests.append((self.path, dict(self.headers), body))
        status, answer = service.answer(self.path, self.headers, json.loads(body))
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Service:
    """Embeds a text as how often each of three words occurs in it."""

    def __init__(self):
        self.requests, self.failures = [], []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.service = self
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def answer(self, path, headers, body):
        if self.failures:
            return self.failures.pop(0), {"error": {"message": "not now"}}
        if headers.get("Authorization") != f"Bearer {KEY}":
            return 401, {"error": {"message": "wrong key"}}
        if path != "/v1/embeddings" or set(body) != {"model", "input", "encoding_format"} or body["model"] != "words":
            return 400, {"error": {"message": f"bad request to {path}"}}
        data = [{"object": "embedding", "index": i, "embedding": [text.count(word) + 0.01 for word in WORDS]}
                for i, text in enumerate(body["input"])]
        return 200, {"object": "list", "data": data[::-1], "model": "words", "usage": {}}


class ServiceTest(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.close)
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = scratch.name
        os.mkdir(f"{self.dir}/runtime", 0o700)
        os.makedirs(f"{self.dir}/config/warren")
        self.env = {**os.environ, "XDG_RUNTIME_DIR": f"{self.dir}/runtime", "XDG_CONFIG_HOME": f"{self.dir}/config",
                    "HOME": self.dir, "WARREN_EMBED_KEY": KEY, "no_proxy": "127.0.0.1"}
        self.env.pop("WARREN_EMBED", None)
        with open(f"{self.dir}/config/warren/embed.toml", "w") as file:
            file.write(f'url = "{self.service.url}"\nmodel = "words"\n')
        self.warren("init", "a")

    def warren(self, *words, status=0, **env):
        done = subprocess.run([WARREN, *words], cwd=self.dir, env={**self.env, **env}, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertNotIn(KEY, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def write(self, name, text, **options):
        return self.warren("vfs", "a", "write", f"/mem/semantic/{name}.json", json.dumps({"text": text}), **options)

    def query(self, text, **options):
        return self.warren("vfs", "a", "query", "--text", text, "--top-k", "1", **options)

    def test_items_are_embedded_by_the_service_and_found_by_words(self):
        self.write("r", "a rabbit and another rabbit")
        self.write("s", "a ship")
        self.assertIn("/mem/semantic/s.json", self.query("ship ahoy"))
        self.assertIn("/mem/semantic/r.json", self.query("rabbit"))
        item = json.loads(self.warren("vfs", "a", "read", "/mem/semantic/r.json"))
        self.assertEqual(item["metadata"], {"embedding_model": "http:words"})
        self.assertEqual(len(item["embedding"]), 3)
        self.assertAlmostEqual(sum(n * n for n in item["embedding"]), 1, places=5)

    def test_items_of_another_model_are_not_compared(self):
        self.write("r", "a rabbit")
        self.warren("vfs", "a", "write", "/mem/semantic/x.json", json.dumps(
            {"text": "rabbit", "embedding": [1, 0, 0], "metadata": {"embedding_model": "http:other"}}))
        self.warren("vfs", "a", "write", "/mem/semantic/y.json", json.dumps({"text": "rabbit", "embedding": [1, 0, 0]}))
        found = json.loads(self.warren("vfs", "a", "query", "--text", "rabbit", "--json"))
        self.assertEqual([one["path"] for one in found], ["/mem/semantic/r.json"])

    def test_a_failure_that_passes_is_not_noticed(self):
        self.service.failures = [503, 429]
        self.write("r", "a rabbit")
        self.assertEqual(len(self.service.requests), 4)  # one asks for the dimension

    def test_an_item_is_stored_while_the_service_is_down_and_gets_its_embedding_later(self):
        self.service.failures = [500] * 3
        said = self.write("r", "a rabbit")
        self.assertIn("status 500: not now", said)
        self.assertIn("/mem/semantic/r.json is stored without an embedding", said)
        self.assertEqual(json.loads(self.warren("vfs", "a", "read", "/mem/semantic/r.json")), {"text": "a rabbit"})
        self.assertIn("/mem/semantic/r.json", self.query("rabbit"))

    def test_an_item_is_stored_without_the_model(self):
        said = self.write("r", "a rabbit", WARREN_EMBED=f"{self.dir}/none")
        self.assertIn("is stored without an embedding", said)
        self.warren("vfs", "a", "exists", "/mem/semantic/r.json")

    def test_what_the_policy_refuses_is_not_sent_to_the_service(self):
        self.warren("policy", "a", "set", "--preset", "read-only")
        self.warren("vfs", "a", "write", "--as-agent", "/mem/semantic/r.json", json.dumps({"text": "rabbit"}), status=1)
        self.warren("vfs", "a", "exists", "/mem/semantic/r.json", status=1)
        self.assertEqual(self.service.requests, [])

    def test_a_wrong_key_is_said_and_never_shown(self):
        said = self.query("rabbit", status=1, WARREN_EMBED_KEY="another-secret")
        self.assertIn("wrong key", said)
        self.assertIn("WARREN_EMBED_KEY", said)
        self.assertNotIn("another-secret", said)
        self.assertEqual(len(self.service.requests), 1)

    def test_files_are_searched_by_meaning_and_without_the_service_by_words(self):
        self.warren("fs", "a", "write", "/r.txt", "rabbit rabbit rabbit")
        self.warren("fs", "a", "write", "/s.txt", "ship ship ship")
        self.warren("context", "a", "embed")

        def search(text, **env):
            return json.loads(self.warren("context", "a", "search", text, "--json", **env))

        for _ in range(2):  # the vectors are kept
            hit = search("ship")["hits"][0]
            self.assertEqual((hit["path"], hit["found_by"]), ("/s.txt", ["text", "meaning"]))
        embedded = [text for _, _, body in self.service.requests for text in json.loads(body)["input"] if "ship ship" in text]
        self.assertEqual(len(embedded), 1)
        down = search("ship", WARREN_EMBED="http://127.0.0.1:1/v1#words")
        self.assertEqual((down["hits"][0]["path"], down["hits"][0]["found_by"]), ("/s.txt", ["text"]))
        self.assertIn("the embedding service", down["hint"])

    def test_the_environment_counts_more_than_the_file(self):
        self.write("r", "a rabbit")
        said = self.query("rabbit", status=1, WARREN_EMBED="http://127.0.0.1:1/v1#words")
        self.assertIn("the embedding service", said)
        said = self.query("rabbit", status=1, WARREN_EMBED="none")
        self.assertIn("there is none", said)


if __name__ == "__main__":
    unittest.main()
