#!/usr/bin/env python3
"""Real programs inside the mount, each checked by its results.

    WARREN=path/to/warren programs.py [-v] [Programs.test_name]

A program that is not installed is a failure: tools/setup installs them all. npm fetches a package from the network.
"""
import hashlib
import os
import pathlib
import random
import shutil
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted

PROGRAM_SECONDS = 600
COPY = ("-aHS", "--modify-window=-1")  # for rsync: times are equal only if their nanoseconds are
PACKAGE = "semver@7.5.4"  # has two dependencies and a program


def describe_tree(top):
    """Path → everything that an exact copy keeps."""
    found = {}
    for directory, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(directory, name)
            about = os.lstat(path)
            kind = stat.S_IFMT(about.st_mode)
            content = os.readlink(path) if kind == stat.S_IFLNK else digest(path) if kind == stat.S_IFREG else None
            links = about.st_nlink if kind == stat.S_IFREG else None
            when = about.st_mtime_ns if kind != stat.S_IFLNK else None
            found[os.path.relpath(path, top)] = (oct(about.st_mode), about.st_uid, about.st_gid, links, when, content)
    return found


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_tree(top):
    """One node of each type, for programs that copy."""
    dice = random.Random(5)
    for number in range(200):
        path = top / f"dir{number % 7}" / f"sub{number % 3}" / f"file {number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dice.randbytes(dice.choice([0, 1, 100, 4096, 70_000])))
        path.chmod(dice.choice([0o644, 0o600, 0o755, 0o444]))
        os.utime(path, ns=(10**18 + number, 10**18 + number * 1001))
    os.link(top / "dir0" / "sub0" / "file 0", top / "hard link")
    os.symlink("dir1/sub1", top / "link to a directory")
    os.symlink("nowhere", top / "dangling")
    os.mkfifo(top / "fifo")
    (top / os.fsdecode(b"not utf-8 \xff\xfe")).write_bytes(b"odd")
    (top / "empty").mkdir()
    with open(top / "sparse", "wb") as file:
        file.seek(5 << 20)
        file.write(b"end")


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = cls.enterClassContext(mounted.World())
        cls.mount = cls.world.mount()

    def setUp(self):
        self.dir = self.mount / self._testMethodName
        self.dir.mkdir()

    @classmethod
    def tearDownClass(cls):
        cls.world.umount(cls.mount)
        cls.world.fsck()

    def run_program(self, *words, cwd=None, **more):
        """Runs the program, which must succeed; returns its output."""
        self.assertIsNotNone(shutil.which(words[0]), f"{words[0]} is not installed: run tools/setup")
        home = self.world.root / "user"
        home.mkdir(exist_ok=True)
        env = os.environ | {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8", "CCACHE_DISABLE": "1"}
        env |= more
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run([str(word) for word in words], cwd=cwd or self.dir, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PROGRAM_SECONDS)
        text = done.stdout.decode(errors="replace")
        self.assertEqual(done.returncode, 0, f"{' '.join(map(str, words))}:\n{text[-3000:]}")
        return text

    def git(self, *words, cwd=None):
        return self.run_program("git", "-c", "user.name=Test", "-c", "user.email=test@example.org", *words, cwd=cwd)

    def make_repository(self):
        self.git("init", "-q", "-b", "main", "repo")
        repo = self.dir / "repo"
        for number in range(150):
            path = repo / f"d{number % 10}" / f"f{number}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"file {number}\n" * (number + 1))
        os.symlink("d0/f0", repo / "link")
        (repo / "d0" / "f0").chmod(0o755)
        self.git("add", ".", cwd=repo)
        self.git("commit", "-qm", "first", cwd=repo)
        return repo

    def test_git_commits_and_sees_no_false_changes(self):
        repo = self.make_repository()
        self.assertEqual(self.git("status", "--porcelain", cwd=repo), "")
        (repo / "d1" / "f1").write_text("changed\n")
        (repo / "d2" / "f2").unlink()
        (repo / "new").write_text("new\n")
        self.assertEqual(self.git("status", "--porcelain", cwd=repo).splitlines(), [" M d1/f1", " D d2/f2", "?? new"])
        self.git("add", "-A", cwd=repo)
        self.git("commit", "-qm", "second", cwd=repo)
        self.assertEqual(self.git("log", "--format=%s", cwd=repo).splitlines(), ["second", "first"])
        self.git("checkout", "-q", "HEAD~1", cwd=repo)
        self.assertEqual((repo / "d1" / "f1").read_text(), "file 1\n" * 2)
        self.assertEqual(self.git("status", "--porcelain", cwd=repo), "")

    def test_git_packs_and_finds_nothing_wrong(self):
        repo = self.make_repository()
        for number in range(20):
            (repo / "d1" / "f1").write_text(f"version {number}\n")
            self.git("commit", "-qam", f"version {number}", cwd=repo)
        self.git("gc", "-q", "--prune=now", cwd=repo)
        self.assertIn("count: 0", self.git("count-objects", "-v", cwd=repo))
        self.git("fsck", "--full", "--strict", cwd=repo)
        self.assertEqual(self.git("rev-list", "--count", "HEAD", cwd=repo).strip(), "21")
        self.assertEqual(self.git("show", "HEAD~5:d1/f1", cwd=repo), "version 14\n")

    def test_git_works_in_worktrees_and_clones(self):
        repo = self.make_repository()
        self.git("worktree", "add", "-q", "../tree", "-b", "side", cwd=repo)
        (self.dir / "tree" / "side").write_text("on the side\n")
        self.git("add", "side", cwd=self.dir / "tree")
        self.git("commit", "-qm", "side", cwd=self.dir / "tree")
        self.git("merge", "-q", "side", cwd=repo)
        self.assertEqual((repo / "side").read_text(), "on the side\n")
        self.git("clone", "-q", "repo", "copy")
        self.git("clone", "-q", "--no-hardlinks", "--bare", "repo", "bare")
        self.assertEqual(self.git("rev-parse", "HEAD", cwd=self.dir / "copy"), self.git("rev-parse", "HEAD", cwd=repo))
        self.assertEqual(self.git("status", "--porcelain", cwd=self.dir / "copy"), "")
        self.git("fsck", "--full", cwd=self.dir / "bare")
        self.git("worktree", "remove", "../tree", cwd=repo)
        self.assertFalse((self.dir / "tree").exists())

    def test_cmake_and_ninja_build_and_rebuild(self):
        (self.dir / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.20)\nproject(tiny CXX)\n"
            "add_library(part STATIC part.cc)\nadd_executable(tiny main.cc)\ntarget_link_libraries(tiny part)\n")
        (self.dir / "part.h").write_text("int part();\n")
        (self.dir / "part.cc").write_text('#include "part.h"\nint part() { return 1; }\n')
        (self.dir / "main.cc").write_text(
            '#include <cstdio>\n#include "part.h"\nint main() { std::printf("%d\\n", part()); }\n')
        self.run_program("cmake", "-G", "Ninja", "-S", ".", "-B", "build")
        self.run_program("cmake", "--build", "build")
        self.assertEqual(self.run_built(), "1\n")
        self.assertIn("no work to do", self.run_program("ninja", "-C", "build"))
        (self.dir / "part.cc").write_text('#include "part.h"\nint part() { return 22; }\n')
        rebuilt = self.run_program("ninja", "-C", "build", "-v")
        self.assertIn("part.cc.o.d", rebuilt)
        self.assertNotIn("main.cc.o.d", rebuilt)
        self.assertEqual(self.run_built(), "22\n")
        self.assertIn("no work to do", self.run_program("ninja", "-C", "build"))

    def run_built(self):
        return self.run_program(self.dir / "build" / "tiny")

    def test_python_makes_an_environment_and_runs_in_it(self):
        self.run_program(sys.executable, "-m", "venv", "--without-pip", "env")
        module = self.dir / "module.py"
        module.write_text("import sys\ndef where():\n    return sys.prefix\n")
        where = self.run_program(self.dir / "env" / "bin" / "python", "-c", "import module; print(module.where())")
        self.assertEqual(where.strip(), str(self.dir / "env"))
        self.assertTrue(list((self.dir / "__pycache__").glob("module.*.pyc")))

    def test_sqlite_in_wal_mode_serves_two_processes(self):
        script = self.dir / "writer.py"
        script.write_text(
            "import sqlite3, sys\n"
            "db = sqlite3.connect('data.db', timeout=60, isolation_level=None)\n"
            "for number in range(200):\n"
            "    db.execute('BEGIN IMMEDIATE')\n"
            "    count = db.execute('SELECT count(*) FROM t').fetchone()[0]\n"
            "    db.execute('INSERT INTO t VALUES (?, ?, ?)', (sys.argv[1], number, count))\n"
            "    db.execute('COMMIT')\n")
        self.sqlite("PRAGMA journal_mode=WAL", "CREATE TABLE t (who TEXT, number INT, seen INT)")
        writers = [subprocess.Popen([sys.executable, str(script), who], cwd=self.dir) for who in ("a", "b")]
        self.assertEqual([writer.wait(PROGRAM_SECONDS) for writer in writers], [0, 0])
        rows = self.sqlite("SELECT who, number, seen FROM t ORDER BY seen")
        self.assertEqual([seen for _, _, seen in rows], list(range(400)))
        for who in ("a", "b"):
            self.assertEqual([number for name, number, _ in rows if name == who], list(range(200)))
        self.assertEqual(self.sqlite("PRAGMA integrity_check"), [("ok",)])
        self.assertEqual(self.sqlite("PRAGMA wal_checkpoint(TRUNCATE)")[0][0], 0)

    def sqlite(self, *statements):
        import sqlite3
        db = sqlite3.connect(self.dir / "data.db", timeout=60, isolation_level=None)
        try:
            return [db.execute(statement).fetchall() for statement in statements][-1]
        finally:
            db.close()

    def test_sqlite_rolls_back_what_a_killed_process_began(self):
        self.sqlite("PRAGMA journal_mode=DELETE", "CREATE TABLE t (x)", "INSERT INTO t VALUES ('kept')")
        killed = subprocess.run(
            [sys.executable, "-c", "import sqlite3, os, signal\n"
             "db = sqlite3.connect('data.db', isolation_level=None)\n"
             "db.execute('PRAGMA cache_size=1')\ndb.execute('BEGIN')\n"
             "db.executemany('INSERT INTO t VALUES (?)', [('x' * 5000,)] * 200)\n"
             "os.kill(os.getpid(), signal.SIGKILL)"], cwd=self.dir)
        self.assertEqual(killed.returncode, -9)
        self.assertTrue((self.dir / "data.db-journal").exists())
        self.assertEqual(self.sqlite("SELECT x FROM t"), [("kept",)])
        self.assertEqual(self.sqlite("PRAGMA integrity_check"), [("ok",)])

    def test_tar_packs_and_unpacks_the_same(self):
        source, target = self.dir / "source", self.dir / "target"
        source.mkdir()
        target.mkdir()
        make_tree(source)
        wanted = describe_tree(source)
        self.run_program("tar", "--format=posix", "-cpSf", "archive.tar", "-C", source, ".")
        self.run_program("tar", "-xpf", "archive.tar", "-C", target)
        self.assertEqual(describe_tree(target), wanted)
        self.run_program("tar", "-df", "archive.tar", "-C", target)

    def test_rsync_copies_out_and_back(self):
        source, outside, back = self.dir / "source", self.world.root / "outside", self.dir / "back"
        source.mkdir()
        make_tree(source)
        wanted = describe_tree(source)
        self.run_program("rsync", *COPY, f"{source}/", f"{outside}/")
        self.assertEqual(describe_tree(outside), wanted)
        self.run_program("rsync", *COPY, f"{outside}/", f"{back}/")
        self.assertEqual(describe_tree(back), wanted)
        self.assertEqual(self.run_program("rsync", *COPY, "-c", "--itemize-changes", f"{source}/", f"{back}/"), "")
        (source / "hard link").write_bytes(b"changed")
        (source / "dangling").unlink()
        self.run_program("rsync", *COPY, "--delete", f"{source}/", f"{back}/")
        self.assertEqual(describe_tree(back), describe_tree(source))

    def test_npm_installs_a_package_that_works(self):
        (self.dir / "package.json").write_text('{ "name": "here", "version": "1.0.0", "private": true }\n')
        self.run_program("npm", "install", "--no-audit", "--no-fund", PACKAGE, npm_config_cache=str(self.dir / ".npm"))
        version = self.run_program("node", "-e", "console.log(require('semver').inc('1.2.3', 'minor'))")
        self.assertEqual(version, "1.3.0\n")
        semver = self.dir / "node_modules" / ".bin" / "semver"
        self.assertEqual(self.run_program(semver, "-r", "^2", "1.0.0", "2.5.0"), "2.5.0\n")
        self.assertIn("yallist", os.listdir(self.dir / "node_modules"))
        self.run_program("npm", "ci", "--no-audit", "--no-fund", npm_config_cache=str(self.dir / ".npm"))
        self.assertIn(PACKAGE, self.run_program("npm", "ls"))

    def test_vim_writes_by_rename_and_in_place(self):
        for copy in ("yes", "no"):
            path = self.dir / f"text-{copy}"
            path.write_text("first line\nsecond line\n")
            path.chmod(0o640)
            self.run_program("vim", "-u", "NONE", "-i", "NONE", "-es",
                             "-c", f"set backupcopy={copy} backup writebackup backupskip=",
                             "-c", "%s/line/row/", "-c", "normal Gothird row", "-c", "wq", path)
            self.assertEqual(path.read_text(), "first row\nsecond row\nthird row\n")
            self.assertEqual((self.dir / f"text-{copy}~").read_text(), "first line\nsecond line\n")
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o640)
        self.assertEqual([name for name in os.listdir(self.dir) if name.endswith(".swp")], [])

    def test_shell_tools_copy_move_and_remove_trees(self):
        source = self.dir / "source"
        source.mkdir()
        make_tree(source)
        wanted = describe_tree(source)
        self.run_program("cp", "-a", "source", "copy")
        self.assertEqual(describe_tree(self.dir / "copy"), wanted)
        self.run_program("mv", "copy", self.world.root / "moved out")
        self.assertEqual(describe_tree(self.world.root / "moved out"), wanted)
        self.run_program("mv", self.world.root / "moved out", "moved in")
        self.assertEqual(describe_tree(self.dir / "moved in"), wanted)
        self.run_program("rm", "-rf", "moved in", "source")
        self.assertEqual(os.listdir(self.dir), [])


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
