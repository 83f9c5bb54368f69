#!/usr/bin/env python3
"""What `warren serve mcp` refuses: it changes nothing, and it says what to do instead.

    WARREN=path/to/warren refusals.py [-v] [Refusals.test_name]
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import robust  # noqa: E402
from robust import PATIENCE_SECONDS, WARREN  # noqa: E402

MEBIBYTE = 1 << 20


class Refusals(unittest.TestCase):
    setUp = robust.Robust.setUp
    warren = robust.Robust.warren
    server = robust.Robust.server

    def policy(self, text):
        with open(f"{self.folder}/policy.json", "w", encoding="utf8") as file:
            file.write(text)
        self.warren("policy", "a", "set", "policy.json")

    def fails(self, answer, kind):
        self.assertTrue(answer["isError"], answer)
        error = json.loads(answer["content"][0]["text"])
        self.assertEqual(error["error_type"], kind, answer)
        return error["next_action_hint"]

    def works(self, answer):
        self.assertFalse(answer["isError"], answer)
        return answer.get("structuredContent")

    def text_of(self, server, path):
        answer = server.call("read_file", path=path)
        self.works(answer)
        return answer["content"][0]["text"]

    def test_a_refused_write_leaves_working_memory_as_it_was(self):
        self.policy('{"version": 1, "limits": {"file_bytes": 100}}')
        server = self.server()
        path = "/mem/working/notes"
        self.works(server.call("write_file", path=path, content="precious"))
        big = "x" * 200
        self.fails(server.call("write_file", path=path, content=big), "limit")
        self.fails(server.call("edit_file", path=path, edits=[{"old_text": "precious", "new_text": big}]), "limit")
        self.fails(server.call("write_file", path="/mem/working/new/file", content=big), "limit")
        self.assertEqual(self.text_of(server, path), "precious")
        self.assertFalse(self.works(server.call("access", path="/mem/working/new"))["exists"])
        self.works(server.call("write_file", path=path, content="changed"))
        self.assertEqual(self.text_of(server, path), "changed")

    def test_copies_between_mounts(self):
        server = self.server()
        self.works(server.call("write_file", path="/src", content="source"))
        self.works(server.call("write_file", path="/mem/working/dst", content="precious"))
        self.works(server.call("copy", **{"from": "/src", "to": "/mem/working/dst"}))
        self.assertEqual(self.text_of(server, "/mem/working/dst"), "source")
        self.works(server.call("copy", **{"from": "/mem/working/dst", "to": "/back"}))
        self.assertEqual(self.text_of(server, "/back"), "source")
        self.works(server.call("write_file", path="/d/e/f", content="deep"))
        self.works(server.call("copy", **{"from": "/d", "to": "/mem/working/d", "recursive": True}))
        self.assertEqual(self.text_of(server, "/mem/working/d/e/f"), "deep")
        self.works(server.call("rename", **{"from": "/src", "to": "/mem/working/moved"}))
        self.assertEqual(self.text_of(server, "/mem/working/moved"), "source")
        self.fails(server.call("stat", path="/src"), "not_found")

    def test_items_move_between_a_mounted_drive_and_another(self):
        self.warren("context", "a", "write", "agent:/first.md", "first")
        server = self.server("--mount", "/context/shared=sqlite:shared.db")
        self.works(server.call("context_write", path="agent:/dir/a.md", content="a"))
        self.works(server.call("context_write", path="agent:/dir/deep/b.md", content="b"))
        copied = self.works(server.call("context_copy", path="agent:/dir", to_path="shared:/x/dir"))
        self.assertEqual((copied["items"], copied["id"]), (2, None))
        self.works(server.call("context_move", path="agent:/dir/a.md", to_path="shared:/a.md"))
        self.fails(server.call("context_read", path="agent:/dir/a.md"), "not_found")
        self.assertEqual(self.text_of(server, "/context/shared/a.md"), "a")
        self.assertEqual(self.works(server.call("context_move", path="shared:/x/dir", to_path="agent:/back"))["items"], 2)
        self.assertEqual(self.text_of(server, "/context/agent/back/deep/b.md"), "b")
        self.assertFalse(self.works(server.call("context_exists", path="shared:/x/dir"))["exists"])
        self.policy('{"version": 1, "rules": [{"path": "/context/agent/back/deep/b.md", "operation": "delete", "effect": "deny"}]}')
        answer = server.call("context_move", path="agent:/back", to_path="shared:/again")
        self.fails(answer, "denied")
        self.assertIn("was copied to", answer["content"][0]["text"])
        self.assertEqual(self.text_of(server, "/context/agent/back/a.md"), "a")
        self.assertEqual(self.text_of(server, "/context/shared/again/deep/b.md"), "b")

    def test_an_item_keeps_its_id(self):
        server = self.server()
        item = self.works(server.call("context_write", path="agent:/a.md", content="a"))["id"]
        self.works(server.call("rename", **{"from": "/context/agent/a.md", "to": "/context/agent/b.md"}))
        self.works(server.call("write_file", path="/new", content="b"))
        self.works(server.call("rename", **{"from": "/new", "to": "/context/agent/b.md"}))
        self.assertEqual(self.works(server.call("context_info", path="agent:/b.md"))["id"], item)
        self.works(server.call("checkpoint", name="then"))
        self.works(server.call("context_delete", path="agent:/b.md"))
        self.works(server.call("restore", checkpoint="then", paths=["/context/agent/b.md"]))
        self.assertEqual(self.works(server.call("context_info", path="agent:/b.md"))["id"], item)

    def test_a_name_that_is_not_utf8_is_reached_by_its_uri(self):
        self.warren("fs", "a", "write", b"/bad\xff", "found")
        server = self.server()
        uri = self.works(server.call("find", pattern="bad*"))["matches"][0]["uri"]
        self.assertEqual(uri, "vfs://a/bad%FF")
        self.assertEqual(self.text_of(server, uri), "found")

    def test_the_policy_binds_keys(self):
        self.warren("kv", "a", "set", "plan", '"mine"')
        self.warren("policy", "a", "set", "--preset", "read-only")
        server = self.server()
        self.fails(server.call("kv_set", key="plan", value=1), "denied")
        self.fails(server.call("kv_delete", key="plan"), "denied")
        self.assertEqual(self.works(server.call("kv_get", key="plan"))["value"], "mine")
        self.policy('{"version": 1, "limits": {"file_bytes": 20}, "rules": '
                    '[{"space": "user", "path": "/state/kv/secret/**", "effect": "deny"}]}')
        self.warren("kv", "a", "set", "secret/a", "1")
        self.fails(server.call("kv_get", key="secret/a"), "denied")
        self.fails(server.call("kv_set", key="secret/b", value=1), "denied")
        self.assertEqual(self.works(server.call("kv_list"))["keys"], ["plan"])
        self.assertIn("error", server.ask("resources/read", uri="kv://a/secret/a"))
        self.works(server.call("checkpoint", name="then"))
        for key in ("secret/a", "secret/b", "plan", "more"):
            self.warren("kv", "a", "set", key, "2")
        changed = self.works(server.call("diff", **{"from": "then"}))["keys"]
        self.assertEqual(changed, {"added": ["more"], "modified": ["plan"], "deleted": [], "total": 2})
        self.warren("kv", "a", "set", "secret/a", "1")
        self.fails(server.call("kv_set", key="long", value="x" * 30), "limit")
        self.works(server.call("kv_set", key="short", value="x"))
        self.assertEqual(self.warren("kv", "a", "get", "secret/a").strip(), "1")

    def test_a_root_hides_what_is_outside(self):
        self.warren("fs", "a", "mkdir", "/work")
        self.warren("fs", "a", "mkdir", "/out")
        for path in ("/work/a.txt", "/out/s.txt"):
            self.warren("fs", "a", "write", path, "inside")
        server = self.server("--root", "/work")
        self.assertEqual([one["path"] for one in self.works(server.call("grep", pattern="insi"))["matches"]], ["/work/a.txt"])
        self.assertEqual([one["path"] for one in self.works(server.call("find", pattern="*.txt"))["matches"]], ["/work/a.txt"])
        self.works(server.call("tree"))
        for tool in ("stat", "access", "read_file"):
            self.assertIn("/work", self.fails(server.call(tool, path="/out/s.txt"), "denied"))
        self.fails(server.call("vfs_operation", operation="exists", path="/out/s.txt"), "denied")
        self.assertIn("error", server.ask("resources/subscribe", uri="vfs://a/out/s.txt"))
        self.assertIn("result", server.ask("resources/subscribe", uri="vfs://a/work/a.txt"))
        self.warren("fs", "a", "ln", "/out/s.txt", "/work/linked")
        for answer in (server.call("read_file", path="/work/linked"), server.call("write_file", path="/work/linked", content="x")):
            self.fails(answer, "denied")
            self.assertNotIn("s.txt", json.dumps(answer))

    def test_quota_counts_keys_and_old_checkpoints_go(self):
        self.warren("quota", "a", "--bytes", "3M")
        self.warren("checkpoint", "a", "take", "start")
        server = self.server()
        self.works(server.call("kv_set", key="a", value="x" * (2 * MEBIBYTE)))
        self.fails(server.call("kv_set", key="b", value="x" * (2 * MEBIBYTE)), "limit")
        self.works(server.call("kv_delete", key="a"))
        for number in range(12):
            self.works(server.call("write_file", path="/f", content=str(number) * MEBIBYTE))
            self.works(server.call("restore", checkpoint="start", paths=["/f"]))
        self.assertEqual(server.end(), 0)
        listed = self.warren("checkpoint", "a", "list")
        self.assertLess(listed.count("before-restore"), 6, listed)

    def test_an_agents_checkpoint_has_no_name_of_the_operator(self):
        server = self.server()
        self.works(server.call("write_file", path="/a", content="operator"))
        self.warren("checkpoint", "a", "take", "precious")
        self.works(server.call("write_file", path="/a", content="agent"))
        self.fails(server.call("checkpoint", name="precious"), "already_exists")
        self.works(server.call("checkpoint", name="mine"))
        self.works(server.call("checkpoint", name="mine"))
        self.assertEqual(self.warren("fs", "a", "cat", "/a@precious"), "operator")

    def test_the_agent_keeps_the_directories_of_the_namespace(self):
        server = self.server()
        for path in ("/mem/semantic", "/ipc/inbox"):
            self.fails(server.call("remove", path=path), "denied")
        self.fails(server.call("rename", **{"from": "/mem/semantic", "to": "/elsewhere"}), "denied")
        self.works(server.call("mkdir", path="/mine"))
        self.works(server.call("remove", path="/mine"))

    def test_grep_without_a_path_leaves_the_trail_out(self):
        server = self.server()
        self.works(server.call("write_file", path="/notes", content="todo\n"))
        for _ in range(3):
            found = self.works(server.call("grep", pattern="todo"))
        self.assertEqual([one["path"] for one in found["matches"]], ["/notes"])

    def test_a_value_that_no_answer_carries(self):
        server = self.server()
        self.works(server.call("kv_set", key="big", value="x" * (9 * MEBIBYTE)))
        self.fails(server.call("kv_get", key="big"), "limit")

    def test_an_empty_list_of_tools_is_not_all_of_them(self):
        for words in ("", "files,,keys", " ", ","):
            done = subprocess.run([WARREN, "serve", "mcp", "a", "--tools", words], cwd=self.folder, capture_output=True,
                                  stdin=subprocess.DEVNULL, text=True, check=False, timeout=PATIENCE_SECONDS)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("--tools", done.stderr)

    def test_hints_name_only_tools_that_are_offered(self):
        self.assertIn("readdir {", self.fails(self.server().call("read_file", path="/none"), "not_found"))
        alone = self.server("--tools", "vfs")
        self.assertEqual(alone.tools(), {"vfs_operation"})
        hint = self.fails(alone.call("vfs_operation", operation="read", path="/mem/none"), "not_found")
        self.assertEqual(hint, 'See what exists: vfs_operation {"operation":"list","path":"/mem"}')
        hint = self.fails(alone.call("vfs_operation", operation="restore", path="none"), "not_found")
        self.assertIn('vfs_operation {"operation":"list","path":"/state/checkpoints"}', hint)
        self.assertNotIn("readdir", self.fails(self.server("--tools", "read_file").call("read_file", path="/none"), "not_found"))


if __name__ == "__main__":
    unittest.main()
