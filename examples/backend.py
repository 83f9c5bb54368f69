#!/usr/bin/env python3
"""A backend for Warren's namespace that keeps each value in a file of a directory: docs/backends.md describes the protocol.

    warren vfs ID write /mem/notes/a.txt hello --mount '/mem/notes=exec:python3 backend.py DIRECTORY'
"""
import base64
import fcntl
import json
import os
import sys
import tempfile
import time
import urllib.parse

LARGEST = 16 << 20


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Store:
    """A value is a file whose name is the key, percent-encoded. Its first line is JSON: version and expiry."""

    def __init__(self, directory):
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        # Others that use the same directory wait while one changes it.
        self.lock = open(os.path.join(directory, ".lock"), "a+")

    def path_of(self, key):
        # A name has at most 255 bytes, so long keys are split into directories.
        name = urllib.parse.quote(key, safe="").replace(".", "%2E")
        parts = [name[i : i + 200] for i in range(0, len(name), 200)]
        return os.path.join(self.directory, *[part + "+" for part in parts[:-1]], parts[-1])

    def read(self, key):
        """(facts, content), or None. An expired value is none."""
        try:
            with open(self.path_of(key), "rb") as file:
                facts = json.loads(file.readline())
                content = file.read()
                facts["modified"] = os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        if facts["expires"] is not None and facts["expires"] <= time.time():
            return None
        return facts, content

    def describe(self, facts, content):
        return {"size": len(content), "version": facts["version"], "modified": facts["modified"],
                "expires": facts["expires"]}

    def keys(self):
        for folder, _, names in os.walk(self.directory):
            inner = os.path.relpath(folder, self.directory)
            before = "" if inner == "." else "".join(part[:-1] for part in inner.split(os.sep))
            for name in names:
                if not name.startswith("."):
                    yield urllib.parse.unquote(before + name)

    # The operations. Each gets the request and returns the answer's members.

    def get(self, request):
        found = self.read(request["key"])
        if found is None:
            return {"blob": None}
        facts, content = found
        begin = request.get("offset", 0)
        part = content[begin : begin + request.get("length", len(content))]
        return {"blob": {**self.describe(facts, content), "content": base64.b64encode(part).decode()}}

    def find(self, request):
        found = self.read(request["key"])
        return {"blob": None if found is None else self.describe(*found)}

    def put(self, request):
        content = base64.b64decode(request["content"], validate=True)
        if len(content) > LARGEST:
            raise Refused("too_large", f"a value has at most {LARGEST} bytes")
        found = self.read(request["key"])
        if request.get("if_absent") and found is not None:
            raise Refused("exists", "there is a value")
        if "if_match" in request and (found is None or found[0]["version"] != request["if_match"]):
            raise Refused("conflict", "the value was changed")
        expires = time.time() + request["ttl_ms"] / 1000 if "ttl_ms" in request else None
        facts = {"version": os.urandom(12).hex(), "expires": expires}
        path = self.path_of(request["key"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Whole or not at all, and on the disk before it is acknowledged.
        with tempfile.NamedTemporaryFile(dir=self.directory, prefix=".new-", delete=False) as file:
            file.write(json.dumps(facts).encode() + b"\n" + content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        facts["modified"] = os.stat(path).st_mtime
        return {"blob": self.describe(facts, content)}

    def remove(self, request):
        found = self.read(request["key"])
        if "if_match" in request and (found is None or found[0]["version"] != request["if_match"]):
            raise Refused("conflict", "the value was changed")
        try:
            os.unlink(self.path_of(request["key"]))
        except FileNotFoundError:
            pass
        return {"removed": found is not None}

    def list(self, request):
        blobs = []
        for key in sorted(self.keys()):
            if key.startswith(request["prefix"]) and key >= request["from"] and len(blobs) < request["limit"]:
                found = self.read(key)
                if found is not None:
                    blobs.append({"key": key, **self.describe(*found)})
        return {"blobs": blobs}


def main():
    store = Store(sys.argv[1])
    operations = {"get": store.get, "find": store.find, "put": store.put, "remove": store.remove, "list": store.list}

    def say(message):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    conditions = {"conditional_puts": True, "conditional_removals": True}
    say({"warren": 1, "abilities": {**conditions, "ttl": True, "lasts": True, "largest": LARGEST}})
    for line in sys.stdin:
        request = json.loads(line)
        fcntl.flock(store.lock, fcntl.LOCK_EX)
        try:
            if request["op"] not in operations:
                raise Refused("unsupported", f"unknown operation {request['op']}")
            say({"id": request["id"], **operations[request["op"]](request)})
        except Refused as refused:
            say({"id": request["id"], "error": {"code": refused.code, "message": str(refused)}})
        except OSError as error:
            say({"id": request["id"], "error": {"code": "io", "message": str(error)}})
        finally:
            fcntl.flock(store.lock, fcntl.LOCK_UN)


if __name__ == "__main__":
    main()
