#!/usr/bin/env python3
"""Warren and the AgentFS SDK alternate on one agent file, through every table.

Each test keeps a model of what the agent must hold. Either program changes the file and the model
together; then both programs must read exactly the model, and fsck must find nothing.
"""
import argparse
import copy
import base64
import json
import os
import pathlib
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
OPTIONS = None
ABSENT = {"$absent": True}  # JavaScript's undefined
SIZES = [0, 1, 100, 4095, 4096, 4097, 8192, 12289, 100_000, 1_048_576]


def content(seed, size):
    return random.Random(f"{seed}/{size}").randbytes(size)


class Failed(Exception):
    pass


class Model:
    """The expected content of the agent. Files are shared lists, so that hard links change together."""

    def __init__(self):
        self.nodes = {"/": None}  # path: [bytes] for a file, str for a symlink, None for a directory
        self.modes = {}  # path: permission bits, where the test set them
        self.kv = {}
        self.calls = {}  # id: fields that must be there

    def write(self, path, data):
        self.make_dirs(os.path.dirname(path))
        if isinstance(self.nodes.get(path), list):
            self.nodes[path][0] = data
        else:
            self.nodes[path] = [data]

    def make_dirs(self, path):
        while path not in self.nodes:
            self.nodes[path] = None
            path = os.path.dirname(path)

    def below(self, path):
        return [p for p in self.nodes if p == path or p.startswith(path.rstrip("/") + "/")]

    def move(self, source, target):
        for path in self.below(target):
            if path != target or source != target:
                del self.nodes[path]
                self.modes.pop(path, None)
        for path in self.below(source):
            moved = target + path[len(source):]
            self.nodes[moved] = self.nodes.pop(path)
            if path in self.modes:
                self.modes[moved] = self.modes.pop(path)

    def remove(self, path):
        for gone in self.below(path):
            del self.nodes[gone]
            self.modes.pop(gone, None)

    def names_in(self, directory):
        return sorted(os.path.basename(p) for p in self.nodes if p != "/" and os.path.dirname(p) == directory)

    def files(self):
        return {p: node[0] for p, node in self.nodes.items() if isinstance(node, list)}

    def symlinks(self):
        return {p: node for p, node in self.nodes.items() if isinstance(node, str)}

    def directories(self):
        return [p for p, node in self.nodes.items() if node is None]

    def links_of(self, path):
        return sum(1 for node in self.nodes.values() if node is self.nodes[path])


class InteropTest(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="warren-interop-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.db = str(self.scratch / "agent.db")
        self.model = Model()

    # The two programs.

    def warren(self, *args, stdin=None):
        done = subprocess.run([OPTIONS.warren, *args], input=stdin, capture_output=True, cwd=self.scratch)
        if done.returncode != 0:
            raise Failed(f"warren {' '.join(args)}: {done.stderr.decode()}{done.stdout.decode()[:2000]}")
        return done.stdout

    def warren_json(self, *args):
        return json.loads(self.warren(*args, "--json"))

    def extras(self, verb):
        done = subprocess.run([OPTIONS.extras, verb, self.db], capture_output=True)
        if done.returncode != 0:
            raise Failed(done.stderr.decode())

    def sdk(self, *calls):
        """Returns the calls' results; a call that fails fails the test."""

        def encode(value):
            if isinstance(value, bytes):
                return {"$bytes": base64.b64encode(value).decode()}
            return [encode(v) for v in value] if isinstance(value, (list, tuple)) else value

        def decode(value):
            if isinstance(value, dict) and "$bytes" in value:
                return base64.b64decode(value["$bytes"])
            return [decode(v) for v in value] if isinstance(value, list) else value

        done = subprocess.run(["node", str(HERE / "sdk.mjs"), OPTIONS.sdk, self.db],
                              input=json.dumps(encode(calls)).encode(), capture_output=True)
        if done.returncode != 0:
            raise Failed(f"the SDK failed: {done.stderr.decode()}")
        results = decode(json.loads(done.stdout))
        for call, result in zip(calls, results):
            if isinstance(result, dict) and "$error" in result:
                raise Failed(f"the SDK failed: {str(call)[:200]}: {result['$error']}")
        return results

    # Changes, to the file and to the model.

    def sdk_write(self, files):
        self.sdk(*[["fs", "writeFile", path, data] for path, data in files.items()])
        for path, data in files.items():
            self.model.write(path, data)

    def warren_write(self, path, data):
        self.warren("fs", self.db, "write", path, "-", stdin=data)
        self.model.write(path, data)

    def warren_link(self, source, target):
        self.warren("fs", self.db, "ln", source, target)
        self.model.nodes[target] = self.model.nodes[source]

    def warren_symlink(self, target, path):
        self.warren("fs", self.db, "ln", "-s", target, path)
        self.model.nodes[path] = target

    def warren_chmod(self, path, mode):
        self.warren("fs", self.db, "chmod", f"{mode:o}", path)
        for same in [p for p, node in self.model.nodes.items() if node is self.model.nodes[path] and node is not None] or [path]:
            self.model.modes[same] = mode

    def sdk_set(self, pairs):
        self.sdk(*[["kv", "set", key, value] for key, value in pairs.items()])
        self.model.kv.update(pairs)

    def warren_set(self, key, value, *options):
        self.warren("kv", self.db, "set", key, json.dumps(value), *options)
        self.model.kv[key] = value

    def fill_calls_by_sdk(self):
        pending, good, bad, *recorded = self.sdk(
            ["tools", "start", "think", {"about": ["this", 1, None]}],
            ["tools", "start", "search", {"query": "größe"}],
            ["tools", "start", "fetch"],
            ["tools", "record", "run", 1000, 1002, {"cmd": "ls"}, {"out": "ok"}],
            ["tools", "record", "run", 2000, 2005, {"cmd": "rm"}, ABSENT, "denied"],
            ["tools", "record", "quiet", 3000, 3000])
        self.sdk(["tools", "success", good, {"hits": 3}], ["tools", "error", bad, "timeout"])
        self.model.calls.update({
            pending: {"name": "think", "status": "pending", "parameters": {"about": ["this", 1, None]}},
            good: {"name": "search", "status": "success", "result": {"hits": 3}},
            bad: {"name": "fetch", "status": "error", "error": "timeout"},
            recorded[0]: {"name": "run", "status": "success", "started_at": 1000, "completed_at": 1002,
                          "duration_ms": 2000, "parameters": {"cmd": "ls"}, "result": {"out": "ok"}},
            recorded[1]: {"name": "run", "status": "error", "error": "denied", "duration_ms": 5000},
            recorded[2]: {"name": "quiet", "status": "success", "duration_ms": 0}})
        return pending

    def fill_calls_by_warren(self):
        pending = int(self.warren("tools", self.db, "start", "w-think", "--params", '{"deep": [true]}'))
        good = int(self.warren("tools", self.db, "start", "w-search", "--session", "s1", "--parent", str(pending)))
        self.warren("tools", self.db, "succeed", str(good), "--result", '"found"')
        bad = int(self.warren("tools", self.db, "start", "w-fetch"))
        self.warren("tools", self.db, "fail", str(bad), "no route")
        done = int(self.warren("tools", self.db, "record", "w-run", "--started", "5000", "--completed", "5003",
                               "--params", '{"n": 1.5}', "--result", "[]"))
        failed = int(self.warren("tools", self.db, "record", "w-run", "--error", "exit 1"))
        self.model.calls.update({
            pending: {"name": "w-think", "status": "pending", "parameters": {"deep": [True]}},
            good: {"name": "w-search", "status": "success", "result": "found"},
            bad: {"name": "w-fetch", "status": "error", "error": "no route"},
            done: {"name": "w-run", "status": "success", "started_at": 5000, "completed_at": 5003,
                   "duration_ms": 3000, "parameters": {"n": 1.5}, "result": []},
            failed: {"name": "w-run", "status": "error", "error": "exit 1"}})
        return pending

    # What both must see.

    def check_all(self):
        self.check_through_warren()
        self.check_through_sdk()
        self.check_through_warren()  # reading through the SDK has changed nothing
        self.warren("fsck", self.db)

    def check_through_warren(self):
        out = self.scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        self.warren("fs", self.db, "get", "/", str(out))
        seen = {}
        for root, dirs, names in os.walk(out):
            inside = "/" + os.path.relpath(root, out) if root != str(out) else "/"
            seen[inside] = None
            for name in names + [d for d in dirs if os.path.islink(os.path.join(root, d))]:
                host = os.path.join(root, name)
                seen[os.path.join(inside, name)] = os.readlink(host) if os.path.islink(host) else [pathlib.Path(host).read_bytes()]
        self.assertEqual(sorted(seen), sorted(self.model.nodes))
        for path, node in seen.items():
            self.assertTrue(node == self.model.nodes[path], f"{path} differs through warren")
        for path, mode in self.model.modes.items():
            self.assertEqual(self.warren_json("fs", self.db, "stat", path)[0]["mode"], f"{mode:04o}", path)
        for path in self.model.files():
            self.assertEqual(self.warren_json("fs", self.db, "stat", path)[0]["links"], self.model.links_of(path), path)
        pairs = {entry["key"]: entry["value"] for entry in self.warren_json("kv", self.db, "list")}
        self.assertEqual(pairs, self.model.kv)
        calls = {call["id"]: call for call in json.loads(self.warren("timeline", self.db, "--format", "json", "--limit", "1000"))}
        self.check_calls(calls)

    def check_calls(self, calls):
        self.assertEqual(sorted(calls), sorted(self.model.calls))
        for call_id, wanted in self.model.calls.items():
            for field, value in wanted.items():
                self.assertEqual(calls[call_id].get(field), value, f"{field} of call {call_id}")

    def check_through_sdk(self):
        files, links = self.model.files(), self.model.symlinks()
        directories, keys = self.model.directories(), list(self.model.kv)
        results = iter(self.sdk(*[["fs", "readFile", path] for path in files],
                                *[["fs", "stat", path] for path in files],
                                *[["fs", "readlink", path] for path in links],
                                *[["fs", "readdir", path] for path in directories],
                                *[["kv", "get", key] for key in keys],
                                ["kv", "list", ""],
                                *[["tools", "get", call_id] for call_id in self.model.calls],
                                ["tools", "getRecent", -1]))
        for path, data in files.items():
            self.assertTrue(next(results) == data, f"{path} differs through the SDK")
        for path, data in files.items():
            found = next(results)
            self.assertEqual((found["size"], stat.S_ISREG(found["mode"])), (len(data), True), path)
            self.assertEqual(found["nlink"], self.model.links_of(path), path)
        for path, target in links.items():
            self.assertEqual(next(results), target, path)
        for path in directories:
            self.assertEqual(sorted(next(results)), self.model.names_in(path), path)
        for key in keys:
            self.assertEqual(next(results), self.model.kv[key], key)
        self.assertEqual({e["key"]: e["value"] for e in next(results)}, self.model.kv)
        calls = {}
        for call_id in self.model.calls:
            calls[call_id] = next(results)
        self.check_calls(calls)
        self.assertEqual(sorted(c["id"] for c in next(results)), sorted(self.model.calls))

    # The tests.

    def test_an_agent_made_by_the_sdk_is_read_and_changed_by_both(self):
        self.sdk_write({f"/sizes/{size}": content("a", size) for size in SIZES})
        self.sdk_write({"/deep/er/and/deeper/f.txt": b"deep", "/with space/ünï.txt": "größe".encode(), "/.hidden": b"h"})
        self.sdk_write({"/sizes/100": content("b", 9000), "/sizes/100000": content("b", 10)})  # overwritten
        self.sdk(["fs", "mkdir", "/empty"], ["fs", "symlink", "sizes/1", "/link"],
                 ["fs", "writeFile", "/gone", b"x"], ["fs", "unlink", "/gone"],
                 ["fs", "writeFile", "/t/a", b"x"], ["fs", "rm", "/t", {"recursive": True}],
                 ["fs", "copyFile", "/sizes/8192", "/copied"],
                 ["fs", "writeFile", "/old", b"old"], ["fs", "rename", "/old", "/sizes/1"],
                 ["fs", "rename", "/deep/er", "/deep/moved"],
                 ["handle", "/sizes/12289", [["truncate", 5000], ["pwrite", 4990, b"0123456789abcdefghij"], ["fsync"]]],
                 ["handle", "/sizes/0", [["pwrite", 4094, b"over the edge"]]])
        self.model.make_dirs("/empty")
        self.model.nodes["/link"] = "sizes/1"
        self.model.write("/copied", content("a", 8192))
        self.model.write("/old", b"old")
        self.model.move("/old", "/sizes/1")
        self.model.move("/deep/er", "/deep/moved")
        self.model.write("/sizes/12289", content("a", 12289)[:4990] + b"0123456789abcdefghij")
        self.model.write("/sizes/0", bytes(4094) + b"over the edge")
        self.sdk_set({"string": "täxt", "number": 1.5, "null": None, "true": True, "nested": {"a": [1, {"b": []}]},
                      "a%b_c": "like", "gone": 1, "emoji 🐇": "🐇"})
        self.sdk(["kv", "delete", "gone"])
        del self.model.kv["gone"]
        pending = self.fill_calls_by_sdk()
        self.check_all()

        self.change_by_warren()
        self.warren("tools", self.db, "succeed", str(pending), "--result", '{"by": "warren"}')
        self.model.calls[pending].update(status="success", result={"by": "warren"})
        self.check_all()

        self.change_by_sdk()
        self.check_all()

    def test_an_agent_made_by_warren_is_read_and_changed_by_both(self):
        self.warren("init", "agent")
        self.db = str(self.scratch / ".agentfs" / "agent.db")
        for size in SIZES:
            self.warren_write(f"/sizes/{size}", content("w", size))
        self.warren("fs", self.db, "mkdir", "-p", "/empty/dir")
        self.model.make_dirs("/empty/dir")
        self.warren("quota", self.db, "--bytes", "64M", "--inodes", "1000")
        self.change_by_warren()
        self.warren_set("kept a while", [1, 2], "--ttl", "1h")
        self.warren_set("dropped by the SDK", 0, "--ttl", "1h")
        pending = self.fill_calls_by_warren()
        self.check_all()

        self.sdk(["tools", "success", pending, {"by": "sdk"}])
        self.model.calls[pending].update(status="success", result={"by": "sdk"})
        self.fill_calls_by_sdk()
        self.change_by_sdk()
        self.sdk(["kv", "delete", "dropped by the SDK"])
        del self.model.kv["dropped by the SDK"]
        self.check_all()
        self.check_quota()

    def test_what_only_warren_stores_survives_the_sdk(self):
        self.warren("init", "agent")
        self.db = str(self.scratch / ".agentfs" / "agent.db")
        self.extras("make")
        self.sdk(["fs", "writeFile", "/extras/new", content("s", 5000)], ["fs", "mkdir", "/extras/dir"],
                 ["fs", "writeFile", "/other", b"other"], ["fs", "rename", "/other", "/extras/other"])
        self.extras("check")
        self.assertEqual(self.warren("fs", self.db, "cat", "/extras/new"), content("s", 5000))
        # The SDK removes a node but not its extended attributes, which it does not know: the next node with that number
        # must not get them, and fsck must not report them as damage.
        self.sdk(["fs", "unlink", "/extras/attributed"], ["fs", "writeFile", "/extras/next", b"next"])
        self.warren("fs", self.db, "write", "/extras/attributed", "again")
        self.warren("fsck", self.db)

    def test_a_checkpoint_is_restored_exactly_after_the_sdk_has_written(self):
        self.warren("init", "agent")
        self.db = str(self.scratch / ".agentfs" / "agent.db")
        for size in SIZES:
            self.warren_write(f"/sizes/{size}", content("w", size))
        self.change_by_warren()
        self.warren("checkpoint", self.db, "take", "then")
        then = copy.deepcopy(self.model)
        self.change_by_sdk()
        self.check_all()
        self.warren("checkpoint", self.db, "take", "later")
        later, self.model = self.model, then
        self.warren("checkpoint", self.db, "restore", "then")
        self.check_all()
        self.model = later
        self.warren("checkpoint", self.db, "restore", "later")
        self.check_all()
        self.warren("fsck", self.db)

    def test_the_sdk_neither_sees_nor_damages_a_namespace(self):
        (self.scratch / "base").mkdir()
        self.warren("init", "agent", "--base", "base")
        self.db = str(self.scratch / ".agentfs" / "agent.db")
        environment = {"XDG_RUNTIME_DIR": str(self.scratch)}
        with unittest.mock.patch.dict(os.environ, environment):
            self.warren("vfs", self.db, "write", "/mem/semantic/note", "kept")
            self.sdk(["fs", "writeFile", "/mem/made", b"made"], ["fs", "mkdir", "/dir"], ["fs", "rmdir", "/dir"],
                     ["fs", "writeFile", "/gone", b"gone"], ["fs", "unlink", "/gone"])
            self.assertEqual(self.sdk(["fs", "readdir", "/"], ["fs", "readdir", "/mem"]), [["mem"], ["made"]])
            self.assertEqual(self.warren("fs", self.db, "cat", "/mem/made"), b"made")
            self.assertEqual(self.warren("vfs", self.db, "read", "/mem/semantic/note"), b"kept")
            self.sdk(["fs", "rm", "/mem", {"recursive": True}])
            self.assertEqual(self.warren("vfs", self.db, "read", "/mem/semantic/note"), b"kept")
        self.warren("fsck", self.db)

    def change_by_warren(self):
        """Changes of every kind to existing files in /sizes."""
        self.warren_write("/sizes/4096", content("c", 1))
        self.warren_write("/sizes/1", content("c", 70_000))
        self.warren_write("/w/new/file", content("c", 4096))
        self.warren("fs", self.db, "append", "/sizes/4097", "-", stdin=b"tail" * 2000)
        self.model.write("/sizes/4097", self.model.nodes["/sizes/4097"][0] + b"tail" * 2000)
        self.warren("fs", self.db, "cp", "-r", "/sizes", "/w/sizes")
        for path, data in list(self.model.files().items()):
            if path.startswith("/sizes/"):
                self.model.write("/w" + path, data)
        self.warren("fs", self.db, "mv", "/w/sizes/8192", "/w/moved")
        self.model.move("/w/sizes/8192", "/w/moved")
        self.warren("fs", self.db, "rm", "/w/sizes/4095")
        self.model.remove("/w/sizes/4095")
        self.warren_link("/sizes/4095", "/w/hard")
        self.warren_symlink("../sizes/4095", "/w/soft")
        self.warren_chmod("/w/moved", 0o600)
        self.warren_chmod("/w/new", 0o1777)
        self.warren_set("by-warren", {"n": [1, 2, {"x": None}]})
        self.warren_set("doomed", 0)
        self.warren("kv", self.db, "del", "doomed")
        del self.model.kv["doomed"]

    def change_by_sdk(self):
        """Changes of every kind by the SDK, including files that Warren created."""
        self.sdk_write({"/w/moved": content("d", 20_000), "/w/new/file": b"", "/sizes/4095": content("d", 4097),
                        "/s/made": content("d", 8191)})
        self.sdk(["fs", "unlink", "/w/hard"], ["fs", "rename", "/w/sizes", "/s/sizes"], ["fs", "unlink", "/s/sizes/1"],
                 ["fs", "copyFile", "/w/moved", "/s/copy"], ["fs", "symlink", "/nowhere", "/s/dangling"],
                 ["handle", "/s/sizes/4097", [["truncate", 3]]])
        self.model.remove("/w/hard")
        self.model.make_dirs("/s")
        self.model.move("/w/sizes", "/s/sizes")
        self.model.remove("/s/sizes/1")
        self.model.write("/s/copy", content("d", 20_000))
        self.model.modes["/s/copy"] = 0o600
        self.model.nodes["/s/dangling"] = "/nowhere"
        self.model.write("/s/sizes/4097", self.model.nodes["/s/sizes/4097"][0][:3])
        self.sdk_set({"by-warren": "by the SDK now", "more": [None]})

    def check_quota(self):
        wanted = sum(len(node) for node in {id(n): n[0] for n in self.model.nodes.values() if isinstance(n, list)}.values())
        wanted += sum(len(target) for target in self.model.symlinks().values())
        used = self.warren_json("quota", self.db)["bytes"]
        self.assertEqual(used, {"used": wanted, "limit": 64 << 20})
        with self.assertRaisesRegex(Failed, "quota"):
            self.warren("fs", self.db, "write", "/too-much", "-", stdin=bytes(70 << 20))
        self.warren("fsck", self.db)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser()
    parser.add_argument("--warren", required=True)
    parser.add_argument("--extras", required=True)
    parser.add_argument("--sdk", required=True)
    OPTIONS, rest = parser.parse_known_args()
    if not os.path.exists(os.path.join(OPTIONS.sdk, "node_modules/agentfs-sdk/package.json")):
        sys.exit(f"interop: the AgentFS SDK is not in {OPTIONS.sdk}: run tools/setup")
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
