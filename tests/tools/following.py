#!/usr/bin/env python3
"""Items that follow what they came from: `context add --watch`, sessions of `warren run`, and checkpoints."""
import contextlib
import json
import os
import pty
import queue
import signal
import sqlite3
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from mounted import wait_for  # noqa: E402
from called import World, program, run_topic

World.parent = "/var/lib"  # in a run, /tmp is another one


def write(world, name, content):
    path = world.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    return path


def top_of(world, name):
    return "disk:" + os.path.realpath(world.path(name))


def indexed_files(world):
    """How many files the index has without any search."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{world.path('.agentfs/a.index.db')}?mode=ro", uri=True)) as index:
            return index.execute("SELECT count(*) FROM file").fetchone()[0]
    except sqlite3.OperationalError:
        return None  # not made yet


class Watching:
    """`warren context a add --watch …`, with its lines as they come."""

    def __init__(self, world, *words, says=None):
        self.first = says
        self.process = subprocess.Popen([program(), "context", "a", "add", "--watch", "--json", *words], cwd=world.dir, env=world.env,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.errors = queue.Queue()
        for stream, lines in ((self.process.stdout, self.lines), (self.process.stderr, self.errors)):
            threading.Thread(target=self.read, args=(stream, lines), daemon=True).start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.put(line)
        lines.put(None)

    def __enter__(self):
        self.report = self.next()
        if self.first:
            self.says(self.first)
        assert "watching" in self.errors.get(timeout=60)
        return self

    def says(self, text):
        """Waits until it has said so."""
        seen = []
        while not seen or text not in seen[-1]:
            seen.append(self.errors.get(timeout=60))
            assert seen[-1] is not None, (text, seen)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=60)

    def next(self):
        line = self.lines.get(timeout=60)
        assert line is not None, "it ended: " + str(list(self.errors.queue))
        return json.loads(line)

    def until(self, *wanted):
        """Reads lines until all of (change, end of the reference) have come; returns all that came."""
        left = set(wanted)
        seen = []
        while left:
            line = self.next()
            seen.append(line)
            left = {(change, end) for change, end in left
                    if not (line["change"] == change and line.get("ref", line.get("what", "")).endswith(end))}
        return seen

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=60)


def a_watched_folder_is_followed(world):
    world.env["WARREN_EMBED"] = "none"
    write(world, "p/a.md", b"# A\n\nquokka\n")
    write(world, "p/.gitignore", b"*.log\nbuild/\n")
    write(world, "p/build/out.txt", b"no")
    top = top_of(world, "p")
    with Watching(world, "p") as watching:
        assert watching.report["added"] == 2 and watching.report["ignored"] == 1, watching.report
        write(world, "p/b.md", b"wombat\n")
        watching.until(("added", "/p/b.md"))
        wait_for(lambda: indexed_files(world) == 3, "the index is not brought up to date")
        write(world, "p/a.md", b"# A\n\nnumbat\n")
        watching.until(("replaced", "/p/a.md"))
        assert world.run("context", "a", "read", top + "/a.md") == b"# A\n\nnumbat\n"
        write(world, "p/new/deep/c.md", b"bilby\n")
        watching.until(("added", "/p/new/deep/c.md"))
        write(world, "p/new/deep/d.md", b"bettong\n")  # the new folder is watched too
        watching.until(("added", "/p/new/deep/d.md"))
        write(world, "p/x.log", b"ignored")
        os.rename(world.path("p/new"), world.path("p/moved"))
        seen = watching.until(("added", "/p/moved/deep/c.md"), ("deleted", "/p/new/deep/c.md"), ("deleted", "/p/new/deep/d.md"))
        assert not any("x.log" in json.dumps(line) for line in seen), seen
        assert world.tool("context_exists", {"path": top + "/new"})["exists"] is False  # nor is an empty directory left
        os.unlink(world.path("p/b.md"))
        watching.until(("deleted", "/p/b.md"))
        write(world, "p/.gitignore", b"*.log\nbuild/\nmoved/\n")  # what patterns leave out now, goes
        watching.until(("deleted", "/p/moved/deep/c.md"), ("replaced", "/.gitignore"))
        results = world.tool("search", {"query": "bilby numbat"})["results"]
        assert [hit["ref"] for hit in results] == [top + "/a.md"], results
        # As editors save: a new file is renamed over the old one.
        write(world, "p/.a.tmp", b"# A\n\nsaved\n")
        os.rename(world.path("p/.a.tmp"), world.path("p/a.md"))
        watching.until(("replaced", "/p/a.md"))
        assert watching.interrupt() == 0
    assert world.run("fsck", "a")


def what_was_changed_here_is_not_deleted(world):
    write(world, "p/a.md", b"one\n")
    write(world, "p/b.md", b"two\n")
    top = top_of(world, "p")
    with Watching(world, "p") as watching:
        world.tool("context_write", {"path": top + "/a.md", "content": "mine\n", "on_conflict": "overwrite"})
        world.tool("context_write", {"path": top + "/own.md", "content": "mine\n"})
        # The folder itself goes, as when it is not mounted any more: its items stay.
        os.rename(world.path("p"), world.path("q"))
        watching.says("p is gone; its items stay")
        write(world, "q/c.md", b"three\n")
        assert watching.interrupt() == 0
    os.mkdir(world.path("p"))
    assert world.tool("context_exists", {"path": top + "/b.md"})["exists"] is True
    with Watching(world, "p", says="p is empty now; its items stay") as watching:  # nor does a mount point delete them
        assert watching.report["deleted"] == 0, watching.report
        assert watching.interrupt() == 0
    assert world.tool("context_exists", {"path": top + "/b.md"})["exists"] is True
    write(world, "p/new.md", b"new\n")
    with Watching(world, "p") as watching:  # what was deleted meanwhile is found at the start
        assert watching.report["deleted"] == 1 and len(watching.report["failures"]) == 1, watching.report
        assert watching.interrupt() == 0
    assert world.run("context", "a", "read", top + "/a.md") == b"mine\n"
    assert world.run("context", "a", "read", top + "/own.md") == b"mine\n"
    assert world.tool("context_exists", {"path": top + "/b.md"})["exists"] is False


def a_folder_that_is_replaced_is_followed(world):
    write(world, "p/a.md", b"one\n")
    write(world, "p/d/b.md", b"two\n")
    with Watching(world, "p", "--drive", "d") as watching:
        os.rename(world.path("p"), world.path("old"))
        write(world, "p/back.md", b"back\n")  # as with git checkout or rsync
        watching.until(("added", ":/p/back.md"), ("deleted", ":/p/a.md"), ("deleted", ":/p/d/b.md"))
        write(world, "p/more.md", b"more\n")
        watching.until(("added", ":/p/more.md"))
        write(world, "old/c.md", b"not ours any more\n")
        os.rename(world.path("p"), world.path("away"))
        watching.says("p is gone; its items stay")
        os.mkdir(world.path("p"))
        watching.says("p is empty now; its items stay")
        os.rmdir(world.path("p"))
        watching.says("p is gone; its items stay")
        os.rename(world.path("old"), world.path("p"))
        watching.says("p is there again")
        watching.until(("added", ":/p/a.md"), ("added", ":/p/d/b.md"), ("added", ":/p/c.md"), ("deleted", ":/p/more.md"))
        assert watching.interrupt() == 0


def a_mount_point_is_followed(world):
    place = world.path("p")
    os.mkdir(place)
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    try:
        write(world, "p/a.md", b"one\n")
        with Watching(world, "p", "--drive", "d") as watching:
            subprocess.run(["umount", place], check=True)
            watching.says("p is empty now; its items stay")
            subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
            write(world, "p/b.md", b"two\n")
            watching.until(("added", ":/p/b.md"), ("deleted", ":/p/a.md"))
            write(world, "p/c.md", b"three\n")
            watching.until(("added", ":/p/c.md"))
            assert watching.interrupt() == 0
    finally:
        subprocess.run(["umount", "-l", place], check=False)


def a_folder_below_that_is_mounted_over_is_followed(world):
    write(world, "p/a.md", b"one\n")
    write(world, "p/sub/s.md", b"below\n")
    place = world.path("p/sub")
    with Watching(world, "p", "--drive", "d") as watching:
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
        try:
            write(world, "p/sub/m.md", b"mounted\n")
            watching.until(("added", ":/p/sub/m.md"), ("deleted", ":/p/sub/s.md"))
            write(world, "p/sub/n.md", b"watched, too\n")
            watching.until(("added", ":/p/sub/n.md"))
        finally:
            subprocess.run(["umount", "-l", place], check=True)
        watching.until(("added", ":/p/sub/s.md"), ("deleted", ":/p/sub/m.md"), ("deleted", ":/p/sub/n.md"))
        write(world, "p/sub/t.md", b"again\n")
        watching.until(("added", ":/p/sub/t.md"))
        assert watching.interrupt() == 0


def two_sources_do_not_lose_each_others_watches(world):
    write(world, "p/docs/d.md", b"doc\n")
    write(world, "p/docs/deep/e.md", b"deep\n")
    write(world, "p/README.md", b"read me\n")
    with Watching(world, "p/docs", "p/README.md", "--drive", "d") as watching:
        write(world, "new/docs/d.md", b"doc\n")
        write(world, "new/docs/deep/e.md", b"deep, too\n")
        write(world, "new/README.md", b"read me, too\n")
        os.rename(world.path("p"), world.path("old"))
        os.rename(world.path("new"), world.path("p"))
        watching.until(("replaced", ":/docs/deep/e.md"), ("replaced", ":/README.md"))
        write(world, "p/docs/f.md", b"more\n")
        write(world, "p/docs/deep/g.md", b"more\n")
        write(world, "p/README.md", b"more\n")
        watching.until(("added", ":/docs/f.md"), ("added", ":/docs/deep/g.md"), ("replaced", ":/README.md"))
        assert watching.interrupt() == 0


def a_folder_that_is_made_anew_and_empty_keeps_its_items(world):
    write(world, "p/a.md", b"one\n")
    with Watching(world, "p", "--drive", "d") as watching:
        watching.process.send_signal(signal.SIGSTOP)  # it sees only the end
        os.unlink(world.path("p/a.md"))
        os.rmdir(world.path("p"))
        os.mkdir(world.path("p"))
        watching.process.send_signal(signal.SIGCONT)
        watching.says("p is empty now; its items stay")
        write(world, "p/b.md", b"two\n")
        watching.until(("added", ":/p/b.md"), ("deleted", ":/p/a.md"))
        assert watching.interrupt() == 0


def a_file_becomes_a_folder_and_back(world):
    write(world, "p/a.md", b"one\n")
    with Watching(world, "p", "--drive", "d") as watching:
        os.unlink(world.path("p/a.md"))
        write(world, "p/a.md/x.md", b"in\n")
        seen = watching.until(("added", ":/p/a.md/x.md"))
        assert not any(line["change"] == "failed" for line in seen), seen
        os.unlink(world.path("p/a.md/x.md"))
        os.rmdir(world.path("p/a.md"))
        write(world, "p/a.md", b"two\n")
        seen = watching.until(("added", ":/p/a.md"))
        assert not any(line["change"] == "failed" for line in seen), seen
        assert watching.interrupt() == 0


def an_agent_is_not_its_own_source(world):
    write(world, "a.md", b"one\n")
    with Watching(world, ".", "--include", "*.md", "--include", "*.db", "--exclude", "runtime") as watching:
        assert watching.report["added"] == 1, watching.report  # not .agentfs/a.db, which each change would change
        write(world, "a.md", b"two\n")
        watching.until(("replaced", "/a.md"))
        assert watching.interrupt() == 0


def one_file_is_watched(world):
    path = write(world, "p/a.md", b"one\n")
    write(world, "p/other.md", b"other\n")
    with Watching(world, "p/a.md", "--drive", "notes") as watching:
        write(world, "p/other.md", b"changed\n")
        write(world, "p/a.md", b"two\n")
        assert [line["ref"] for line in watching.until(("replaced", ":/a.md"))] == ["notes:/a.md"]
        os.unlink(path)
        watching.until(("deleted", ":/a.md"))
        write(world, "p/a.md", b"three\n")
        watching.until(("added", ":/a.md"))
        assert watching.interrupt() == 0
    world.run("context", "a", "add", "--watch", "https://example.com/", status=2)
    world.run("context", "a", "add", status=2)


def a_terminal_gets_a_bar(world):
    for i in range(400):
        write(world, f"p/{i}.txt", b"x" * 2000)
    leader, follower = pty.openpty()
    adding = subprocess.Popen([program(), "context", "a", "add", "p"], cwd=world.dir, env=world.env, stdout=subprocess.PIPE,
                              stderr=follower)
    os.close(follower)
    drawn = b""
    try:
        while chunk := os.read(leader, 65536):
            drawn += chunk
    except OSError:
        pass  # the end of a terminal
    out, _ = adding.communicate(timeout=60)
    assert b"400 added" in out and b"%" in drawn and b"400 files" in drawn.replace(b"/400 files", b"400 files"), (out, drawn)


def few_descriptors_are_enough(world):
    for i in range(300):
        write(world, f"p/{i}.txt", b"%d" % i)
    added = subprocess.run(["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", program(), "context", "a", "add", "p"], cwd=world.dir, env=world.env,
                           capture_output=True, timeout=120)
    assert added.returncode == 0 and b"300 added" in added.stdout, added


def a_session_is_a_drive(world):
    world.env["WARREN_EMBED"] = "none"
    write(world, "base/kept.md", b"quokka in the base\n")
    write(world, "base/gone.md", b"wombat\n")
    write(world, "base/secret.txt", b"hidden bandicoot\n")
    base = world.path("base")
    ran = subprocess.run([program(), "run", "--session", "fix", "--hide", "secret.txt", "--", "sh", "-c",
                          "echo numbat > new.md; rm gone.md"], cwd=base, env=world.env, capture_output=True, timeout=120)
    if ran.returncode != 0 and b"not permitted" in ran.stderr:
        raise RuntimeError("no sandbox here: " + ran.stderr.decode())
    assert ran.returncode == 0, ran
    report = json.loads(world.run("context", "a", "add", "--session", "fix", "--json"))
    assert report["added"] == 2 and not report["failures"], report
    assert world.run("context", "a", "read", "session:/fix/new.md") == b"numbat\n"
    assert world.run("context", "a", "read", "session:/fix/kept.md") == b"quokka in the base\n"
    found = {hit["ref"] for hit in world.tool("search", {"query": "quokka numbat wombat bandicoot"})["results"]}
    assert found == {"session:/fix/new.md", "session:/fix/kept.md"}, found
    assert json.loads(world.run("context", "a", "add", "--session", "fix", "--json"))["unchanged"] == 2
    ran = subprocess.run([program(), "run", "--session", "fix", "--", "sh", "-c", "echo bilby > new.md; rm kept.md"], cwd=base,
                         env=world.env, capture_output=True, timeout=120)
    assert ran.returncode == 0, ran
    report = json.loads(world.run("context", "a", "refresh", "--session", "fix", "--json"))
    assert (report["replaced"], report["deleted"]) == (1, 1), report
    found = {hit["ref"] for hit in world.tool("search", {"query": "quokka bilby"})["results"]}
    assert found == {"session:/fix/new.md"}, found
    error = subprocess.run([program(), "context", "a", "add", "--session", "nobody"], cwd=world.dir, env=world.env,
                           capture_output=True, timeout=60)
    assert error.returncode == 1 and b"no session 'nobody'" in error.stderr, error


def a_restored_checkpoint_has_its_items(world):
    world.env["WARREN_EMBED"] = "none"
    write(world, "p/a.md", b"# A\n\nquokka\n")
    write(world, "p/b.md", b"wombat\n")
    top = top_of(world, "p")

    def state():
        return {name: {key: world.tool("context_info", {"path": f"{top}/{name}"})[key] for key in ("id", "source", "title", "size_bytes")}
                for name in ("a.md", "b.md")}

    world.run("context", "a", "add", "p")
    before = state()
    world.run("checkpoint", "a", "take", "before")
    write(world, "p/a.md", b"# Changed\n\nnumbat\n")
    write(world, "p/c.md", b"bilby\n")
    world.run("context", "a", "add", "p")
    world.run("context", "a", "delete", top + "/b.md")
    world.run("context", "a", "move", top + "/a.md", "agent:/moved.md")
    world.run("checkpoint", "a", "restore", "before")
    assert state() == before, (state(), before)
    assert world.run("context", "a", "read", top + "/a.md") == b"# A\n\nquokka\n"
    assert world.run("context", "a", "read", before["b.md"]["id"]) == b"wombat\n"
    found = {hit["ref"] for hit in world.tool("search", {"query": "quokka wombat numbat bilby"})["results"]}
    assert found == {top + "/a.md", top + "/b.md"}, found
    # What came back is what was added: adding again replaces it without a conflict.
    report = json.loads(world.run("context", "a", "add", "p", "--json"))
    assert (report["added"], report["replaced"], report["unchanged"], report["failures"]) == (1, 1, 1, []), report
    assert world.run("fsck", "a")


if __name__ == "__main__":
    run_topic([a_watched_folder_is_followed, what_was_changed_here_is_not_deleted, a_folder_that_is_replaced_is_followed, a_mount_point_is_followed,
               a_folder_below_that_is_mounted_over_is_followed, two_sources_do_not_lose_each_others_watches,
               a_folder_that_is_made_anew_and_empty_keeps_its_items,
               a_file_becomes_a_folder_and_back, an_agent_is_not_its_own_source, one_file_is_watched, a_terminal_gets_a_bar, few_descriptors_are_enough,
               a_session_is_a_drive, a_restored_checkpoint_has_its_items])
