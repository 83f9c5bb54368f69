#!/usr/bin/env python3
"""Tools obey the rules of the namespace, and their work has limits.

    WARREN=path/to/warren rules.py
"""
from called import run_topic

AGENT = "--as-agent"


def an_agent_restores_nothing_through_a_link(world):
    world.run("vfs", "a", "append", "/mem/episodic/log.jsonl", '{"n": 1}')
    world.run("checkpoint", "a", "take", "early")
    world.run("vfs", "a", "append", "/mem/episodic/log.jsonl", '{"n": 2}')
    world.run("fs", "a", "ln", "-s", "/", "/r")
    for path in ("/r/mem/episodic/log.jsonl", "/r/mem", "/mem/episodic/log.jsonl"):
        error = world.fails("restore", {"checkpoint": "early", "paths": [path]}, AGENT)
        assert error["error_type"] == "denied", error
    assert world.run("vfs", "a", "read", "/mem/episodic/log.jsonl").count(b"n") == 2
    # The operator's restore does not follow links either.
    world.run("checkpoint", "a", "restore", "early", "/r/mem/episodic/log.jsonl", status=1)
    assert world.run("vfs", "a", "read", "/mem/episodic/log.jsonl").count(b"n") == 2


def an_agent_restores_no_file_that_has_another_name_where_other_rules_hold(world):
    world.run("fs", "a", "write", "/pub/x", "then")
    world.run("vfs", "a", "append", "/mem/episodic/other", "kept")
    world.run("fs", "a", "ln", "/mem/episodic/other", "/pub/linked")
    world.run("checkpoint", "a", "take", "early")
    world.run("fs", "a", "write", "/pub/x", "now")
    error = world.fails("restore", {"checkpoint": "early", "paths": ["/pub"]}, AGENT)
    assert error["error_type"] == "denied", error
    assert "/mem/episodic/other" in error["message"], error
    world.tool("restore", {"checkpoint": "early", "paths": ["/pub/x"]}, AGENT)
    assert world.run("fs", "a", "cat", "/pub/x") == b"then"


def paths_of_a_restore_are_named_or_left_out(world):
    world.run("fs", "a", "write", "/x", "then")
    world.run("checkpoint", "a", "take", "early")
    world.run("fs", "a", "write", "/x", "now")
    assert world.fails("restore", {"checkpoint": "early", "paths": []})["error_type"] == "invalid_argument"
    for data in ("/x", {"paths": ["/x"]}, [], [7]):
        error = world.fails("vfs_operation", {"operation": "restore", "path": "early", "data": data})
        assert error["error_type"] == "invalid_argument", error
    assert world.run("fs", "a", "cat", "/x") == b"now"
    world.tool("vfs_operation", {"operation": "restore", "path": "early", "data": ["/x"]})
    assert world.run("fs", "a", "cat", "/x") == b"then"


def an_edit_has_a_largest_size_before_it_is_made(world):
    world.run("fs", "a", "write", "/big", "-", data=b"a" * 1_000_000)
    edit = {"old_text": "a", "new_text": "b" * 60_000, "replace_all": True}
    error = world.fails("edit_file", {"path": "/big", "edits": [edit]})
    assert "60000000000 bytes" in error["message"], error
    assert world.run("fs", "a", "cat", "/big") == b"a" * 1_000_000


def a_text_that_occurs_often_is_refused_at_once(world):
    world.run("vfs", "a", "write", "/mem/notes", "-", data=b"\n" * 4_000_000)
    error = world.fails("memory", {"command": "str_replace", "path": "/memories/notes", "old_str": "\n", "new_str": "x"})
    assert len(error["message"]) < 1000, error["message"][:500]


run_topic([an_agent_restores_nothing_through_a_link,
           an_agent_restores_no_file_that_has_another_name_where_other_rules_hold,
           paths_of_a_restore_are_named_or_left_out,
           an_edit_has_a_largest_size_before_it_is_made,
           a_text_that_occurs_often_is_refused_at_once])
