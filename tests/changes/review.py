#!/usr/bin/env python3
"""What a reviewer sees: the folded overview, marks, paths from the current directory, binary patches, the pager.

    WARREN=path/to/warren review.py [-v] [Class.test_name]
"""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import overlaid
from case import Case
from overlaid import mounted

WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org")


class Overview(Case):
    def put(self, *names, content="x\n"):
        def change(point):
            for name in names:
                overlaid.write(point + "/" + name, content)
        self.w.change(change)

    def test_a_large_new_directory_is_one_line(self):
        self.fill(a="1\n", **{f"old__f{i}": "123\n" for i in range(30)})
        self.put(*(f"node_modules/pkg{i}/index.js" for i in range(20)), "small/one", content="12345")
        self.fs("rm", "-r", "/old")
        self.assertEqual(self.w.lines(), ["A d /node_modules/ (20 files, 100 B)", "D d /old/ (30 files, 120 B)", "A d /small",
                                          "A f /small/one"])
        self.assertEqual(len(self.w.lines("-a")), 20 * 2 + 1 + 31 + 2)
        self.assertEqual(len(self.w.diff()), 20 * 2 + 1 + 31 + 2)

    def test_a_named_directory_is_opened(self):
        self.fill(a="1\n")
        self.put(*(f"big/sub/f{i}" for i in range(20)), *(f"big/g{i}" for i in range(3)))
        self.assertEqual(self.w.lines(), ["A d /big/ (23 files, 46 B)"])
        self.assertEqual(self.w.lines("/big"), ["A d /big", "A f /big/g0", "A f /big/g1", "A f /big/g2",
                                                "A d /big/sub/ (20 files, 40 B)"])

    def test_what_must_not_be_overlooked_is_never_folded(self):
        self.fill(a="1\n")
        self.put(*(f"big/f{i}" for i in range(20)), "big/Makefile")
        self.w.change(lambda p: os.chmod(p + "/big/f3", 0o4755))
        lines = self.w.lines()
        self.assertEqual(lines[0], "A d /big/ (19 files, 38 B)")
        self.assertIn("/big/Makefile  [runs by itself", lines[1])
        self.assertIn("/big/f3  [set-user-id]", lines[2])

    def test_what_git_ignores_is_folded(self):
        overlaid.write(self.base / ".gitignore", "build/\n*.log\n")
        overlaid.write(self.base / "build/keep", "1\n")
        overlaid.git("init", "-q", ".", cwd=self.base)
        self.fill(a="1\n")
        self.put("build/x.o", "build/deep/y.o", "build/keep", "new_build/build/a", "new_build/build/b", "one.log", "src/two.log")
        self.assertEqual(self.w.lines(), ["M d /build/ (3 changes, 6 B; git ignores it)", "A d /new_build",
                                          "A d /new_build/build/ (2 files, 4 B; git ignores it)", "A f /one.log", "A d /src",
                                          "A f /src/two.log"])

    def test_an_agent_cannot_hide_changes_by_its_own_rules(self):
        overlaid.git("init", "-q", ".", cwd=self.base)
        self.fill(a="1\n", b="1\n", d__x="1\n")
        self.put(".gitignore", "d/x", "d/y", content="*\n")
        self.assertEqual(self.w.lines(), ["A f /.gitignore", "M f /d/x", "A f /d/y"])

    def test_a_change_of_the_mode_alone_is_marked(self):
        self.fill(a="1\n", b="1\n")
        self.w.change(lambda p: (os.chmod(p + "/a", 0o755), os.chmod(p + "/b", 0o755), overlaid.write(p + "/b", "2\n"),
                                 os.setxattr(p + "/a", "user.x", b"1")))
        self.assertEqual(self.w.lines(), ["M f /a  [only its mode: 644 to 755]", "M f /b  [also its mode: 644 to 755]"])

    def test_a_conflict_is_marked(self):
        self.fill(a="1\n", b="1\n")
        self.write("/a", "agent\n")
        self.write("/b", "agent\n")
        overlaid.write(self.base / "a", "the host's, longer\n")
        self.assertEqual(self.w.lines(), ["M f /a  [conflict: it was changed in the base]", "M f /b"])

    def test_excluded_paths(self):
        self.fill(a="1\n")
        self.put("x.log", "deep/y.log", "web/node_modules/p/q", "docs/z")
        self.assertEqual(self.w.lines("--exclude", "*.log", "--exclude", "node_modules", "--exclude", "/docs"),
                         ["A d /deep", "A d /web"])
        self.w.warren("apply", "--exclude", "*.log", "--exclude", "node_modules", self.w.id)
        self.assertTrue((self.base / "docs/z").exists())
        self.assertFalse((self.base / "x.log").exists() or (self.base / "web/node_modules").exists())

    def test_paths_are_meant_from_the_current_directory(self):
        self.fill(a="1\n", src__a="1\n", src__b="1\n")
        for path in ("/a", "/src/a", "/src/b"):
            self.write(path, "22\n")
        def names(*paths, cwd=self.base / "src"):
            done = self.w.run("diff", "--name-only", self.w.file, *paths, cwd=cwd)
            return done.stdout.decode().split() or done.stderr.decode()
        self.assertEqual(names("a"), ["/src/a"])
        self.assertEqual(names("."), ["/src/a", "/src/b"])
        self.assertEqual(names("../a"), ["/a"])
        self.assertEqual(names("/a"), ["/a"])
        self.assertEqual(names(str(self.base / "src/b")), ["/src/b"])
        self.assertEqual(names("*"), ["/src/a", "/src/b"])
        self.assertIn("outside of the base", names("../../x"))
        self.assertIn("no changes match '/src/nothing', and no file has that path", names("nothing"))
        self.assertIn("no changes match '/src/*.none'", names("../src/*.none"))
        self.w.warren("discard", "--yes", self.w.file, "b", cwd=self.base / "src")
        self.w.warren("apply", self.w.file, "a", cwd=self.base / "src")
        self.assertEqual((self.read("a"), self.read("src/a"), self.read("src/b")), ("1\n", "22\n", "1\n"))


class Patches(Case):
    def test_git_applies_binary_changes(self):
        picture = bytes(range(256)) * 500
        for name, content in (("old", b"\0old"), ("gone", b"\0gone"), ("text", b"1\n")):
            overlaid.write(self.base / name, content)
        overlaid.git("init", "-q", ".", cwd=self.base)
        self.w.init()
        self.w.change(lambda p: (overlaid.write(p + "/old", picture), os.unlink(p + "/gone"), overlaid.write(p + "/new", b"\0new"),
                                 overlaid.write(p + "/text", "2\n")))
        patch = self.w.warren("diff", "-p", self.w.id)
        self.assertIn(b"GIT binary patch\n", patch)
        subprocess.run(["git", "apply", "-"], cwd=self.base, input=patch, check=True)
        self.assertEqual((self.base / "old").read_bytes(), picture)
        self.assertEqual((self.base / "new").read_bytes(), b"\0new")
        self.assertFalse((self.base / "gone").exists())
        self.assertEqual(self.w.diff(), [])

    def test_on_a_terminal_binary_files_are_mentioned(self):
        self.fill(a="1\n")
        self.w.change(lambda p: overlaid.write(p + "/b", b"\0b"))
        said = self.talk(["diff", "--no-pager", "-p", self.w.id], b"")
        self.assertIn(b"Binary files /dev/null and b/b differ", said)
        self.assertNotIn(b"GIT binary patch", said)

    def test_what_is_in_a_submodule_cannot_be_on_a_branch_and_the_message_says_what_to_do(self):
        library = self.w.root / "library"
        overlaid.write(library / "f", "1\n")
        for repository in (library, self.base):
            overlaid.git("init", "-q", ".", cwd=repository)
        for words in (("add", "."), (*WHO, "commit", "-qm", "one")):
            overlaid.git(*words, cwd=library)
        for key, value in (("user.name", "t"), ("user.email", "t@example.org")):
            overlaid.git("config", key, value, cwd=self.base)
        overlaid.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(library), "lib/sub", cwd=self.base)
        overlaid.git(*WHO, "commit", "-qm", "one", cwd=self.base)
        self.fill(a="1\n")
        self.write("/a", "2\n")
        self.write("/lib/sub/f", "2\n")
        branch = ("apply", "--as-branch", "work", self.w.id)
        self.assertEqual(self.w.fails(*branch),
                         "warren: '/lib/sub/f' is in the submodule '/lib/sub', whose files cannot be in a commit of this "
                         "repository\nhint: --exclude /lib/sub leaves them out; `warren apply` writes them as files, for a "
                         "commit in the submodule\n")
        self.w.warren(*branch, "--exclude", "/lib/sub")
        self.assertEqual(overlaid.git("show", "--name-only", "--format=", "work", cwd=self.base), b"a\n")
        self.w.warren("apply", self.w.id, "/lib/sub")
        self.assertEqual(self.read("lib/sub/f"), "2\n")

    def test_a_branch_has_the_message(self):
        self.fill(a="1\n")
        overlaid.git("init", "-q", ".", cwd=self.base)
        overlaid.git("add", ".", cwd=self.base)
        overlaid.git(*WHO, "commit", "-qm", "first", cwd=self.base)
        self.write("/a", "2\n")
        env = self.w.environment() | {"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org"}
        self.w.warren("apply", "--as-branch", "x", "-m", "Subject\n\nBody.", self.w.id, env=env)
        self.assertEqual(overlaid.git("log", "-1", "--format=%B", "x", cwd=self.base).strip(), b"Subject\n\nBody.")
        self.assertIn("--message needs --as-branch", self.w.fails("apply", "-m", "x", self.w.id, status=2))


class Pairs(Case):
    """diff A..B"""

    def both(self):
        self.fill(same="1\n", one="1\n", two="1\n", both="1\n", gone="1\n", dir__x="1\n")
        self.w.warren("init", "--base", self.base, "other")
        for path, content in (("/one", "a\n"), ("/both", "a\n"), ("/equal", "e\n")):
            self.write(path, content)
        self.fs("rm", "/gone")
        for path, content in (("/two", "b\n"), ("/both", "b\n"), ("/equal", "e\n"), ("/new", "n\n")):
            self.w.warren("fs", "other", "write", path, input=content.encode())
        self.w.warren("fs", "other", "mv", "/dir", "/moved")

    def pair(self, *words, ids="a..other"):
        return self.w.warren("diff", *words, ids).decode()

    def test_what_one_session_has_and_the_other_has_not(self):
        self.both()
        self.assertEqual(self.pair().splitlines(), ["M f /both", "D f /dir/x", "A f /gone", "A f /moved/x", "A f /new", "M f /one",
                                                    "M f /two"])
        self.assertEqual(self.pair(ids="other..a").splitlines()[1:4], ["A f /dir/x", "D f /gone", "D f /moved/x"])
        self.assertEqual(self.pair("--name-only", "--exclude", "moved").split(), ["/both", "/dir/x", "/gone", "/new", "/one", "/two"])
        self.assertEqual(self.w.run("diff", "--exit-code", "a..other").returncode, 1)
        self.assertEqual(self.pair(ids="a..a"), "")

    def test_a_path_that_neither_has_is_an_error(self):
        self.both()
        run = lambda path: self.w.run("diff", "a..other", path)
        self.assertEqual(run("/one").stdout, b"M f /one\n")
        self.assertEqual((run("/same").returncode, run("/same").stdout), (0, b""))
        for path in ("/nonexistent", "*.nothing"):
            self.assertEqual(run(path).returncode, 1)
            self.assertIn(b"no changes match", run(path).stderr)

    def test_the_patch_leads_from_one_to_the_other(self):
        self.both()
        tree = self.w.root / "tree"
        self.copy(self.w.id, tree)
        subprocess.run(["git", "init", "-q", "."], cwd=tree, check=True)
        subprocess.run(["git", "apply", "-"], cwd=tree, input=self.pair("-p").encode(), check=True)
        self.assertEqual({path: value for path, value in self.files(tree).items() if not path.startswith(".git/")},
                         self.files_of("other"))

    def copy(self, agent, to):
        for path, content in self.files_of(agent).items():
            overlaid.write(to / path, content)

    def files_of(self, agent):
        old, self.w.id = self.w.id, agent
        try:
            return self.w.change(lambda point: self.files(pathlib.Path(point)))
        finally:
            self.w.id = old

    @staticmethod
    def files(top):
        return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}

    def test_different_bases_cannot_be_compared(self):
        self.both()
        (self.w.root / "elsewhere").mkdir()
        self.w.warren("init", "--base", self.w.root / "elsewhere", "third")
        self.assertIn("different bases", self.w.fails("diff", "a..third"))
        self.assertIn("no agent or session 'nobody'", self.w.fails("diff", "a..nobody"))


class Parts(Case):
    def three_parts(self):
        self.fill(a="".join(self.LINES), b="1\n")
        lines = self.with_line(18, "third", self.with_line(10, "second", self.with_line(2, "first")))
        self.write("/a", "".join(lines))
        self.write("/b", "2\n")

    def test_a_file_is_applied_in_parts(self):
        self.three_parts()
        said = self.talk(["apply", "-i", self.w.id], b"s\n?\ny\nn\ny\nn\n")
        self.assertIn(b"M f /a  (3 parts)", said)
        self.assertIn(b"[?]help", said)
        self.assertIn(b"part 2 of 3", said)
        self.assertIn(b"+second", said)
        self.assertEqual(self.read("a"), "".join(self.with_line(18, "third", self.with_line(2, "first"))))
        self.assertEqual(self.read("b"), "1\n")
        # The rest is still a change, and no conflict.
        self.assertEqual(self.w.lines(), ["M f /a", "M f /b"])
        patch = self.w.warren("diff", "-p", self.w.id, "/a").decode()
        self.assertIn("-line 10\n+second\n", patch)
        self.assertNotIn("first\n+", patch)
        self.w.warren("apply", self.w.id, "/a")
        self.assertEqual(self.read("a"), self.fs("cat", "/a").decode())
        self.w.warren("undo", self.w.id)
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.read("a"), "".join(self.LINES))

    def test_the_rest_of_a_file_at_once(self):
        self.three_parts()
        self.talk(["apply", "-i", self.w.id], b"s\nn\na\nn\n")
        self.assertEqual(self.read("a"), "".join(self.with_line(18, "third", self.with_line(10, "second"))))
        self.talk(["apply", "-i", self.w.id], b"s\nd\nn\n")
        self.assertEqual(self.w.lines(), ["M f /a", "M f /b"])
        self.talk(["apply", "-i", self.w.id], b"s\ny\nn\n")
        self.assertEqual(self.w.lines(), ["M f /b"])

    def test_quitting_writes_nothing(self):
        self.three_parts()
        self.assertIn(b"nothing was written", self.talk(["apply", "-i", self.w.id], b"s\nn\nq\n"))
        for stop in (b"q\n", b"d\n", b"\x04"):
            self.assertIn(b"nothing was written", self.talk(["apply", "-i", self.w.id], stop))
        self.assertIn(b"nothing was written", self.talk(["apply", "-i", self.w.id], b"s\ny\n\x04"), "the end of the input")
        self.assertEqual(self.read("a"), "".join(self.LINES))

    def test_what_was_taken_before_quitting_is_written(self):
        self.three_parts()
        self.talk(["apply", "-i", self.w.id], b"s\ny\nq\n")
        self.assertEqual(self.read("a"), "".join(self.with_line(2, "first")))
        self.talk(["apply", "-i", self.w.id], b"y\nd\n")
        self.assertEqual((self.read("a"), self.read("b")), (self.fs("cat", "/a").decode(), "1\n"))
        self.assertEqual(self.w.lines(), ["M f /b"])

    def test_a_new_or_deleted_directory_is_one_question(self):
        self.fill(z="1\n", old__x="1\n", old__deep__y="1\n")
        self.fs("rm", "-r", "/old")
        for path in ("/new/a", "/new/sub/b", "/new/sub/c", "/other/x", "/other/y"):
            self.write(path, "1\n")
        self.write("/z", "2\n")
        said = self.talk(["apply", "-i", self.w.id], b"n\ny\ns\ny\nn\nn\n")  # new, old, other, x, y, z
        self.assertIn(b"A d /new  (4 changes in it)", said)
        self.assertIn(b"D d /old  (3 changes in it)", said)
        self.assertFalse((self.base / "new").exists() or (self.base / "old").exists())
        self.assertEqual(sorted(one.name for one in (self.base / "other").iterdir()), ["x"])
        self.talk(["apply", "-i", self.w.id], b"y\nq\n")
        self.assertEqual(self.read("new/sub/c"), "1\n")
        self.assertEqual(self.w.lines(), ["A f /other/y", "M f /z"])

    def test_what_runs_by_itself_is_not_taken_with_its_directory(self):
        self.fill(z="1\n")
        for path in ("/new/a", "/new/.envrc", "/new/b"):
            self.write(path, "1\n")
        said = self.talk(["apply", "-i", self.w.id], b"y\nn\n")
        self.assertIn(b"A d /new  (2 changes in it)", said)
        self.assertEqual(sorted(one.name for one in (self.base / "new").iterdir()), ["a", "b"])

    def test_what_has_no_parts(self):
        self.fill(a="1\n")
        self.w.change(lambda p: (overlaid.write(p + "/new", "x\n"), overlaid.write(p + "/a", b"\0binary")))
        said = self.talk(["apply", "-i", self.w.id], b"s\nn\ns\nn\n")
        self.assertEqual(said.count(b"it has no parts"), 2)


class Markers(Case):
    def both(self):
        self.fill(a="".join(self.LINES), b="".join(self.LINES))
        self.write("/a", "".join(self.with_line(5, "agent")))
        self.write("/b", "".join(self.with_line(5, "agent")))
        overlaid.write(self.base / "a", "".join(self.with_line(5, "host")))
        overlaid.write(self.base / "b", "".join(self.with_line(15, "host")))

    def test_hints_fit_the_case(self):
        self.both()
        self.assertIn("hint: --merge merges them", self.w.fails("apply", self.w.id, "/b"))
        for option in ((), ("--merge",)):
            said = self.w.fails("apply", *option, self.w.id)
            self.assertIn("the same lines of one file: --conflict=markers merges the rest and writes both versions", said)
            self.assertNotIn("--merge merges", said)

    def test_both_versions_are_written_between_markers(self):
        self.both()
        said = self.w.fails("apply", "--conflict=markers", self.w.id)
        self.assertIn("conflict markers: /a", said)
        self.assertIn("merged: /b", said)
        self.assertEqual(self.read("a"), "".join(self.LINES).replace("line 5\n", "<<<<<<< agent\nagent\n=======\nhost\n>>>>>>> base\n"))
        self.assertEqual(self.read("b"), "".join(self.with_line(15, "host", self.with_line(5, "agent"))))
        self.assertEqual(self.w.lines(), [])
        self.w.warren("undo", self.w.id)
        self.assertEqual(self.read("a"), "".join(self.with_line(5, "host")))

    def test_what_cannot_be_marked_is_still_a_conflict(self):
        self.both()
        self.w.change(lambda p: overlaid.write(p + "/a", b"\0binary"))
        before = overlaid.snapshot(self.base)
        said = self.w.fails("apply", "--conflict=markers", self.w.id)
        self.assertIn("1 conflict: nothing was written", said)
        self.assertIn("not text", said)
        self.assertEqual(overlaid.differences(overlaid.snapshot(self.base), before), [])


class Pager(Case):
    def setUp(self):
        super().setUp()
        self.fill(a="1\n")
        self.write("/a", "2\n")
        self.seen = self.w.root / "seen"

    def show(self, *words, **variables):
        base = self.w.environment()
        self.w.environment = lambda: base | {"TERM": "xterm"} | variables
        return self.talk(["diff", *words, self.w.id], b"")

    def test_output_goes_through_the_pager(self):
        said = self.show(WARREN_PAGER=f"cat > {self.seen}", PAGER="false")
        self.assertNotIn(b"/a", said)
        self.assertIn("f /a", self.seen.read_text())

    def test_a_pager_that_ends_early_is_no_error(self):
        for i in range(200):
            overlaid.write(self.base / f"f{i}", "x" * 1000)
        self.w.change(lambda p: [overlaid.write(p + f"/f{i}", "y\n" * 1000) for i in range(200)])
        self.assertNotIn(b"warren:", self.show("-p", PAGER="true"))

    def test_without_a_pager(self):
        for variables in ({"PAGER": ""}, {"PAGER": "cat"}, {"PAGER": "no-such-program"}, {"PAGER": f"touch {self.seen}", "TERM": "dumb"}):
            self.assertIn(b"f /a", self.show(**variables))
        self.assertIn(b"f /a", self.show("--no-pager", PAGER=f"touch {self.seen}"))
        self.assertFalse(self.seen.exists())

    def test_programs_get_no_pager(self):
        env = self.w.environment() | {"TERM": "xterm", "PAGER": f"touch {self.seen}"}
        self.assertEqual(self.w.warren("diff", self.w.id, env=env), b"M f /a\n")
        self.assertFalse(self.seen.exists())


if __name__ == "__main__":
    mounted.need_fuse()
    unittest.main()
