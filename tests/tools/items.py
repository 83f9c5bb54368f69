#!/usr/bin/env python3
"""Items and the tools on them, through the real program."""
import base64
import json
import os
import sqlite3
import subprocess
import time

from called import program, run_topic


def tools_are_listed_with_schemas(world):
    tools = json.loads(world.run("tool", "a", "--json"))
    names = [tool["name"] for tool in tools]
    for name in ("context_read", "context_write", "context_edit", "context_tree", "context_list_drives"):
        assert name in names, names
    for tool in tools:
        assert tool["input_schema"]["type"] == "object" and tool["output_schema"]["type"] == "object", tool
    assert b"context_read" in world.run("tool", "a")
    assert world.run("tool", "a", "context_raed", "{}", status=1) == b""
    world.run("tool", "a", "context_read", "{not json", status=1)
    world.run("tool", "nobody", status=1)


def a_call_is_in_the_trail(world):
    world.tool("context_write", {"path": "/a.md", "content": "x"})
    world.fails("context_read", {"path": "agent:/b.md"})
    calls = json.loads(world.run("timeline", "a", "--json"))
    calls = calls if isinstance(calls, list) else calls["calls"]
    assert sorted(call["name"] for call in calls) == ["context_read", "context_write"], calls


def every_form_of_a_reference_is_the_same_item(world):
    made = world.tool("context_write", {"drive": "url", "path": "/https://example.com/a", "content": "hi\n"})
    assert made["ref"] == "url:/https://example.com/a", made
    for ref in (made["id"], made["ref"], "https://example.com/a#part", "HTTPS://EXAMPLE.COM/a"):
        assert world.run("context", "a", "read", ref) == b"hi\n", ref
    assert world.run("vfs", "a", "read", "/context/url/https:/example.com/a") == b"hi\n"
    world.run("context", "a", "exists", made["id"])
    world.run("context", "a", "exists", "url:/nothing", status=1)


def hostile_references_are_refused(world):
    for path in ("agent:/../../etc/passwd", "agent:/a/../b", "agent:/a\0b", "agent:/" + "x" * 256, "agent:/" + "x/" * 3000,
                 "AGENT:/x", "ag ent:/x", "://", "/x"):
        error = world.fails("context_read", {"path": path})
        assert error["error_type"] == "invalid_argument", (path, error)
        error = world.fails("context_write", {"path": path, "content": "x", "drive": "../x"})
        assert error["error_type"] == "invalid_argument", (path, error)
    assert world.fails("context_read", {"drive": "disk", "path": ""})["error_type"] == "invalid_argument"
    assert world.fails("context_read", {"drive": "disk", "path": ["/a"]})["error_type"] == "invalid_argument"
    assert world.fails("context_read", {})["error_type"] == "invalid_argument"
    assert world.run("vfs", "a", "exists", "/context/x", status=None) == b""
    assert b"context" not in world.run("vfs", "a", "ls", "/"), "a refused write has made nothing"


def names_that_mean_something_elsewhere_are_names_here(world):
    names = ["%", "_", "%25", "a%b", "*", "?", "[a]", "'", '"', "; DROP TABLE wr_item", "-rf", "\\", "\u0430", "a", "\u202egpj",
             "CON", " ", "\n", "\t", "~", "$HOME", "a:b"]
    ids = {}
    for name in names:
        ids[name] = world.tool("context_write", {"drive": "agent", "path": "/h/" + name, "content": name})["id"]
    assert len(set(ids.values())) == len(names)
    for name in names:
        assert world.tool("context_read", {"drive": "agent", "path": "/h/" + name})["content"] == name, name
        assert world.tool("context_read", {"path": ids[name]})["path"] == "/h/" + name, name
    assert world.tool("context_delete", {"drive": "agent", "path": "/h/%"})["items"] == 1
    assert world.tool("context_delete", {"drive": "agent", "path": "/h/_"})["items"] == 1
    assert world.tool("context_dir_size", {"drive": "agent", "path": "/h"})["items"] == len(names) - 2
    tree = world.tool("context_tree", {"drive": "agent", "max_items": 100})["tree"]
    assert "\u202e" not in tree and len(tree.splitlines()) == len(names), tree


def names_that_are_not_utf8_are_reached_by_id(world):
    world.tool("context_write", {"path": "agent:/x/good", "content": "x"})
    world.run("fs", "a", "write", b"/context/agent/x/bad\xff", "bytes\n")
    assert world.tool("context_dir_size", {"drive": "agent"})["items"] == 2
    assert "bad\\xff" in world.tool("context_tree", {"drive": "agent"})["tree"]


def conflicts_change_nothing(world):
    first = world.tool("context_write", {"path": "agent:/a", "content": "one\ntwo\n"})
    assert world.fails("context_write", {"path": "agent:/a", "content": "x"})["error_type"] == "already_exists"
    assert world.fails("context_write", {"path": "agent:/a/b", "content": "x"})["error_type"] == "not_directory"
    world.run("fs", "a", "write", "/context/agent/a", "changed\n")
    patch = [{"start_line": 1, "end_line": 1, "content": "x\n"}]
    error = world.fails("context_edit", {"path": first["id"], "patches": patch, "expected_revision": first["revision"]})
    assert error["error_type"] == "conflict" and "context_read" in error["next_action_hint"], error
    assert world.run("context", "a", "read", "agent:/a") == b"changed\n"
    world.run("context", "a", "write", "agent:/a", "new", status=1)
    world.run("context", "a", "write", "agent:/a", "new", "--overwrite")
    assert world.run("context", "a", "read", "agent:/a") == b"new"


def a_large_item_comes_in_pages(world):
    text = b"".join(b"line %d\n" % i for i in range(1, 20001)) + b"y" * 600_000 + b"\nend"
    world.run("context", "a", "write", "disk:/big.txt", data=text)
    assert world.run("context", "a", "read", "disk:/big.txt") == text
    page = world.tool("context_read", {"path": "disk:/big.txt"})
    assert page["lines"] == 2000 and page["next_offset"] == 2001 and page["total_lines"] == 20002, page["lines"]
    shown = world.run("tool", "a", "context_read", '{"path": "disk:/big.txt", "offset": 3, "limit": 2}')
    assert shown.startswith(b"line 3\nline 4\n[2 lines from line 3; the rest: context_read({"), shown
    assert len(world.run("tool", "a", "context_read", '{"path": "disk:/big.txt", "offset": 20001}')) < 400_000
    assert world.run("context", "a", "read", "disk:/big.txt", "--offset", "5", "--limit", "1") == b"line 5\n"
    assert world.tool("context_count_lines", {"path": "disk:/big.txt"})["lines"] == 20002


def a_gibibyte_is_never_read_whole(world):
    world.tool("context_write", {"path": "disk:/huge", "content": "first\n"})
    with sqlite3.connect(world.path(".agentfs/a.db")) as file:
        file.execute("UPDATE fs_inode SET size = 1 << 30 WHERE ino = (SELECT ino FROM fs_dentry WHERE name = 'huge')")
    read = subprocess.run(["sh", "-c", 'ulimit -v 800000; exec "$0" tool a context_read \'{"path": "disk:/huge"}\'', program()],
                          cwd=world.dir, env=world.env, capture_output=True, timeout=300)
    assert json.loads(read.stdout)["error_type"] == "no_text_content", read
    info = world.tool("context_info", {"path": "disk:/huge"})
    assert info["size_bytes"] == 1 << 30 and info["is_text"] is False, info


def bytes_are_kept(world):
    blob = bytes(range(256)) * 100
    world.run("context", "a", "write", "agent:/blob.bin", data=blob)
    assert world.run("vfs", "a", "read", "/context/agent/blob.bin") == blob
    error = world.fails("context_read", {"path": "agent:/blob.bin"})
    assert error["error_type"] == "no_text_content", error
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n\0").decode()
    world.tool("context_write", {"path": "agent:/p.md", "content": png, "encoding": "base64"})
    assert world.tool("context_info", {"path": "agent:/p.md"})["mime"] == "image/png"


def edits_keep_line_ends(world):
    world.run("context", "a", "write", "agent:/crlf", data=b"a\r\nb\r\nc")
    world.run("context", "a", "edit", "agent:/crlf", '[{"start_line": 2, "end_line": 2, "content": "B1\\nB2"}]')
    assert world.run("context", "a", "read", "agent:/crlf") == b"a\r\nB1\r\nB2\r\nc"
    world.run("context", "a", "edit", "agent:/crlf", '{"start_line": 5, "end_line": 0, "content": "d"}')
    assert world.run("context", "a", "read", "agent:/crlf") == b"a\r\nB1\r\nB2\r\nc\r\nd"
    world.run("context", "a", "edit", "agent:/crlf", '[{"start_line": 9, "end_line": 9, "content": "x"}]', status=1)


def directories_are_copied_and_moved_between_drives(world):
    for name in ("x/1.md", "x/deep/2.md", "x/deep/er/3.md"):
        world.tool("context_write", {"path": "disk:/" + name, "content": name})
    one = world.tool("context_info", {"path": "disk:/x/deep/2.md"})["id"]
    assert json.loads(world.run("context", "a", "copy", "disk:/x", "agent:/copy", "--json"))["items"] == 3
    assert json.loads(world.run("context", "a", "move", "disk:/x", "mine:/moved", "--json"))["items"] == 3
    assert world.tool("context_read", {"path": one})["ref"] == "mine:/moved/deep/2.md"
    assert world.run("context", "a", "read", "agent:/copy/deep/er/3.md") == b"x/deep/er/3.md"
    drives = {drive["drive"]: drive["items"] for drive in world.tool("context_list_drives", {})["drives"]}
    assert drives == {"agent": 3, "disk": 0, "mine": 3}, drives
    world.run("context", "a", "delete", "mine:/moved", status=1)
    world.run("context", "a", "delete", "mine:/moved", "-r")
    with sqlite3.connect(world.path(".agentfs/a.db")) as file:
        assert file.execute("SELECT count(*) FROM wr_item").fetchone() == (3,)
    assert world.run("fsck", "a")


def an_agent_has_its_own_rights(world):
    world.tool("context_write", {"path": "disk:/private/a", "content": "secret"})
    rules = {"version": 1, "rules": [{"path": "/context/disk/private", "space": "user", "effect": "deny"}]}
    world.run("policy", "a", "set", data=json.dumps(rules).encode())
    assert world.tool("context_read", {"path": "disk:/private/a"})["content"] == "secret"
    assert world.fails("context_read", {"path": "disk:/private/a"}, "--as-agent")["error_type"] == "denied"
    assert world.fails("context_copy", {"path": "disk:/private", "to_path": "agent:/b"}, "--as-agent")["error_type"] == "denied"
    world.run("context", "a", "read", "disk:/private/a", "--as-agent", status=1)
    trail = world.run("audit", "a", "show")
    assert b"permission_denied" in trail, trail


def two_processes_make_one_item(world):
    writers = [subprocess.Popen([program(), "tool", "a", "context_write", json.dumps({"path": "agent:/same", "content": str(i)})],
                                cwd=world.dir, env=world.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i in range(8)]
    outcomes = [(writer.communicate(timeout=120), writer.returncode) for writer in writers]
    assert sorted(code for _, code in outcomes) == [0] + [1] * 7, outcomes
    for (out, _), code in outcomes:
        if code:
            assert json.loads(out)["error_type"] == "already_exists", out


def a_file_of_another_program_is_an_item(world):
    world.tool("context_write", {"path": "disk:/d/a.md", "content": "old\n"})
    with sqlite3.connect(world.path(".agentfs/a.db")) as file:
        parent = file.execute("SELECT ino FROM fs_dentry WHERE name = 'd'").fetchone()[0]
        now = int(time.time())
        made = file.execute("INSERT INTO fs_inode (mode, nlink, size, atime, mtime, ctime) VALUES (33188, 1, 3, ?, ?, ?)",
                            (now, now, now)).lastrowid
        file.execute("INSERT INTO fs_data VALUES (?, 0, x'68690a')", (made,))
        file.execute("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('b.md', ?, ?)", (parent, made))
    info = world.tool("context_info", {"path": "disk:/d/b.md"})
    assert info["id"] and info["lines"] == 1, info
    assert world.tool("context_read", {"path": info["id"]})["content"] == "hi\n"


def chunks_are_shown_for_every_form_of_a_reference(world):
    world.env["WARREN_EMBED"] = "none"
    answer = world.tool("context_write", {"path": "/a.md", "content": "# One\n\ntext\n"})
    for form in (answer["ref"], answer["id"], "/context/agent/a.md"):
        chunks = json.loads(world.run("context", "a", "chunks", form, "--json"))["chunks"]
        assert [(one["first_line"], one["last_line"], one["embedded"]) for one in chunks] == [(1, 3, False)], (form, chunks)
    assert world.run("context", "a", "chunks", "agent:/a.md").startswith(b"1-3  ")
    world.run("context", "a", "chunks", "agent:/none.md", status=1)
    hits = json.loads(world.run("context", "a", "search", "text", "--drive", "agent", "--json"))["hits"]
    assert [hit["path"] for hit in hits] == ["/context/agent/a.md"], hits
    assert json.loads(world.run("context", "a", "search", "text", "--drive", "disk", "--json"))["hits"] == []


def search_finds_what_was_just_written(world):
    world.env["WARREN_EMBED"] = "none"
    world.tool("context_write", {"path": "disk:/zoo/a.md", "content": "# Animals\n\nthe zebra has stripes\n"})
    found = world.tool("search", {"query": "zebra"})["results"]
    assert [hit["ref"] for hit in found] == ["disk:/zoo/a.md"] and "zebra" in found[0]["snippet"], found
    world.tool("context_move", {"path": "disk:/zoo", "to_path": "agent:/animals"})
    assert [hit["ref"] for hit in world.tool("context_search", {"query": "zebra"})["results"]] == ["agent:/animals/a.md"]
    world.tool("context_copy", {"path": "agent:/animals/a.md", "to_path": "disk:/copy.md"})
    refs = {hit["ref"] for hit in world.tool("search", {"query": "zebra"})["results"]}
    assert refs == {"agent:/animals/a.md", "disk:/copy.md"}, refs
    world.tool("context_delete", {"path": "agent:/animals", "recursive": True})
    assert [hit["ref"] for hit in world.tool("search", {"query": "zebra", "drive": "disk"})["results"]] == ["disk:/copy.md"]
    assert world.tool("search", {"query": "zebra", "drive": "agent"})["results"] == []
    assert world.fails("search", {})["error_type"] == "invalid_argument"


def items_of_an_agent_with_a_base_are_found_beside_its_files(world):
    world.env["WARREN_EMBED"] = "none"
    os.mkdir(world.path("project"))
    with open(world.path("project/main.txt"), "w") as file:
        file.write("a giraffe in the project\n")
    world.run("init", "b", "--base", "project")
    arguments = json.dumps({"path": "disk:/note.md", "content": "a giraffe on a drive\n"})
    world.run("tool", "b", "context_write", arguments)
    for _ in range(2):
        found = json.loads(world.run("tool", "b", "search", '{"query": "giraffe"}', "--json"))["results"]
        assert {hit["ref"] for hit in found} == {"disk:/note.md"}, found
        files = world.run("context", "b", "search", "giraffe")
        assert b"/main.txt" in files and b"/context/disk/note.md" in files, files


def every_entry_of_a_large_directory_is_listed(world):
    os.makedirs(world.path("many"))
    for i in range(1500):
        open(world.path(f"many/{i:04}.txt"), "w").close()
    world.run("context", "a", "add", "many", "--drive", "d")
    names, after = [], []
    while True:
        page = json.loads(world.run("context", "a", "list", "d:/many", "--json", *after))
        names += [entry["name"] for entry in page["entries"]]
        if page["next_after"] is None:
            break
        after = ["--after", page["next_after"]]
    assert names == [f"{i:04}.txt" for i in range(1500)], (len(names), names[:3])
    told = subprocess.run([program(), "context", "a", "list", "d:/many"], cwd=world.dir, env=world.env, capture_output=True, timeout=60, text=True)
    assert "--after '0999.txt'" in told.stderr and "context_tree" not in told.stdout + told.stderr, told.stderr


if __name__ == "__main__":
    run_topic([every_entry_of_a_large_directory_is_listed, tools_are_listed_with_schemas, a_call_is_in_the_trail, every_form_of_a_reference_is_the_same_item,
               hostile_references_are_refused, names_that_mean_something_elsewhere_are_names_here,
               names_that_are_not_utf8_are_reached_by_id, conflicts_change_nothing, a_large_item_comes_in_pages,
               a_gibibyte_is_never_read_whole, bytes_are_kept, edits_keep_line_ends,
               directories_are_copied_and_moved_between_drives, an_agent_has_its_own_rights, two_processes_make_one_item,
               a_file_of_another_program_is_an_item, chunks_are_shown_for_every_form_of_a_reference, search_finds_what_was_just_written,
               items_of_an_agent_with_a_base_are_found_beside_its_files])
