#!/usr/bin/env python3
"""Once the user has merged an agent's commits, the session goes on from what the project has.

    WARREN=path/to/warren git_merged.py [-v] [Class.test_name]

Needs root.
"""
import hashlib
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed
from git import COMMIT, Git

ADDED = COMMIT.replace("-qam", "-qm")  # only what was added to the index
BACK = "mv moved dir; mv new file"
WORK = "git mv dir moved; mkdir dir; echo n > dir/n; echo more > more; git add -A; " + COMMIT + " own"


class Merged(Git):
    def warren(self, *words, status=0):
        done = self.world.warren(*words)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout

    def bring(self, session="s"):
        self.warren("apply", f"session:{session}", "--keep")
        self.git("merge", "-q", f"warren/{session}")

    def files(self):
        return sorted(str(path.relative_to(self.base)) for path in self.base.rglob("*")
                      if path.is_file() and ".git" not in path.parts)

    def work_and_bring(self, after="true"):
        self.inside(WORK)
        self.bring()
        self.inside(after)

    def test_nothing_is_left_of_what_was_merged(self):
        self.inside(WORK)
        self.bring()
        self.assertEqual(self.warren("diff", "session:s"), "")
        self.warren("apply", "session:s")
        self.assertEqual(self.world.sessions(), [])
        self.assertEqual(self.files(), ["dir/n", "file", "more", "moved/inner"])
        self.assertEqual(self.git("status", "--short"), "")

    def test_what_the_agent_does_next_is_a_change_of_the_merged_version(self):
        for number, (script, change, files) in enumerate((
                ("rm more", "D f /more\n", ["dir/n", "file", "moved/inner"]),
                ("mv more again", "R f /more -> /again\n", ["again", "dir/n", "file", "moved/inner"]),
                ("git mv moved again", "R d /moved -> /again\n", ["again/inner", "dir/n", "file", "more"]),
                ("rm -r moved", "D d /moved\nD f /moved/inner\n", ["dir/n", "file", "more"]),
                ("echo 2 >> more", "M f /more\n", ["dir/n", "file", "more", "moved/inner"]),
                ("rm more; ln -s x more", "D f /more\nA l /more\n", ["dir/n", "file", "moved/inner"]))):
            with self.subTest(script):
                self.git("reset", "-q", "--hard", self.git("rev-list", "--max-parents=0", "HEAD"))
                self.work_and_bring(script)
                self.assertEqual(self.warren("diff", "session:s"), change)
                self.warren("apply", "session:s")
                self.assertEqual(self.files(), files)
                self.assertEqual(self.world.sessions(), [])
                (self.base / "more").unlink(missing_ok=True)
                self.git("clean", "-qfdx")
                self.git("branch", "-D", "warren/s")

    def squash(self, *after):
        self.warren("apply", "session:s", "--keep")
        self.git("merge", "-q", "--squash", "warren/s")
        self.git("commit", "-qm", "squashed")
        for words in after:
            self.git(*words)

    def test_what_the_agent_does_after_a_squash_merge_is_a_change_of_that(self):
        delete = ("branch", "-q", "-D", "warren/s")
        for script, change, after in (
                ("rm more", "D f /more\n", [delete]),
                ("rm more", "D f /more\n", []),
                ("rm more; mv dir/n dir/m; echo 2 > moved/inner", "R f /dir/n -> /dir/m\nD f /more\nM f /moved/inner\n", [delete]),
                ("rm more; mv dir/n dir/m; echo 2 > moved/inner", "R f /dir/n -> /dir/m\nD f /more\nM f /moved/inner\n", [])):
            with self.subTest(script, after=after):
                self.git("reset", "-q", "--hard", self.git("rev-list", "--max-parents=0", "HEAD"))
                self.git("clean", "-qfdx")
                self.inside(WORK)
                self.squash(*after)
                self.assertEqual(self.warren("diff", "session:s"), "")
                self.inside(script)
                self.assertEqual(self.warren("diff", "session:s"), change)
                self.assertNotIn("not written", self.warren("apply", "session:s"))
                self.assertNotIn("more", self.files())
                self.assertEqual(self.world.sessions(), [])
                if not after:
                    self.git(*delete)

    def test_what_was_changed_before_a_squash_merge_is_no_conflict_after_it(self):
        self.inside(WORK + "; rm more; echo 2 > moved/inner")
        self.squash()
        self.assertEqual(self.warren("diff", "session:s"), "D f /more  [conflict: it was changed in the base]\nM f /moved/inner\n")
        self.warren("apply", "session:s")
        self.assertEqual(self.files(), ["dir/n", "file", "moved/inner"])

    def test_a_commit_that_takes_back_what_was_squashed_is_not_taken_for_merged(self):
        self.inside(f"echo new > file; echo 1 > more; git add -A; {COMMIT} one; echo of the base > file; {COMMIT} back")
        self.warren("apply", "session:s", "--keep")
        self.git("merge", "-q", "--squash", "warren/s~1")
        self.git("commit", "-qm", "squashed")
        self.git("branch", "-q", "-D", "warren/s")
        self.assertIn("new commits: main is at", self.world.warren("diff", "session:s").stderr)
        self.assertNotIn("as other commits", self.warren("apply", "session:s", "--keep"))
        self.assertEqual(self.git("show", "warren/s:file"), "of the base")
        self.assertEqual((self.base / "file").read_text(), "new\n")

    def test_the_session_keeps_its_files_when_the_host_leaves_what_it_has_merged(self):
        for number, leave in enumerate((("reset", "-q", "--hard", "HEAD~1"), ("checkout", "-q", "-B", "other", "HEAD~1"),
                                        ("revert", "--no-edit", "HEAD"), ("rm", "-q", "more", "dir/n", "moved/inner"))):
            for how in ("ff", "squash"):
                with self.subTest(how, leave=leave):
                    self.git("checkout", "-q", "-f", "main")
                    self.git("reset", "-q", "--hard", self.git("rev-list", "--max-parents=0", "HEAD"))
                    self.git("clean", "-qfdx")
                    session = f"{how}{number}"
                    self.inside(WORK, session=session)
                    self.warren("apply", f"session:{session}", "--keep")
                    if how == "ff":
                        self.git("merge", "-q", f"warren/{session}")
                    else:
                        self.git("merge", "-q", "--squash", f"warren/{session}")
                        self.git("commit", "-qm", "squashed")
                    self.assertEqual(self.warren("diff", f"session:{session}"), "")
                    self.git(*leave)
                    if leave[0] == "rm":
                        self.git("commit", "-qm", "removed")
                    self.assertEqual(self.inside("git status --short; cat more dir/n moved/inner", session=session).stdout,
                                     "more\nn\ninner\n")
                    self.assertEqual(self.warren("diff", f"session:{session}"), "")

    def test_a_directory_that_was_renamed_back_after_the_apply_keeps_its_files(self):
        (self.base / "dir/two").write_text("two\n")
        self.commit("two")
        self.inside("true", options=("--keep",))
        (self.base / "dir/inner").write_text("newer\n")
        self.commit("of the host")
        self.inside(f"git merge -q warren/base; git mv dir moved; {COMMIT} moved")
        self.warren("apply", "session:s", "--keep")
        self.inside(f"git mv moved dir; {COMMIT} back")
        self.git("merge", "-q", "warren/s")
        self.assertEqual(self.inside("git status --short; cat dir/inner dir/two").stdout, "newer\ntwo\n")
        self.bring()
        self.assertEqual(self.files(), ["dir/inner", "dir/two", "file"])
        self.assertEqual(self.warren("diff", "session:s"), "")

    def test_the_next_commit_to_the_same_file_is_brought_without_a_question(self):
        (self.base / "file").write_text("".join(f"{i}\n" for i in range(20)))
        self.commit("lines")
        merge = "git merge -q warren/base; "
        for session, words, before in (("ff", (), ""), ("noff", ("--no-ff", "--no-edit"), ""), ("inside", (), merge),
                                       ("squash", ("--squash",), "")):
            with self.subTest(session):
                for number in range(3):
                    self.inside(f"{before if number else ''}sed -i {5 * number + 3}s/.*/{session}/ file; {COMMIT} {number}", session=session)
                    self.assertNotIn("not a change of this session", self.world.warren("diff", f"session:{session}").stderr)
                    self.warren("apply", f"session:{session}", "--keep")
                    self.git("merge", "-q", *words, f"warren/{session}")
                    if "--squash" in words:
                        self.git("commit", "-qm", "squashed")
                        self.git("branch", "-q", "-D", f"warren/{session}")
                self.assertEqual((self.base / "file").read_text().count(session), 3)

    def test_a_directory_that_was_renamed_back_without_a_commit_keeps_its_files(self):
        (self.base / "dir/two").write_text("two\n")
        large = b"".join(bytes([65 + i]) * (1 << 20) for i in range(18))
        (self.base / "dir/large").write_bytes(large)
        os.symlink("two", self.base / "dir/link")
        os.link(self.base / "dir/two", self.base / "dir/linked")
        self.commit("more")
        old = ["dir/inner", "dir/large", "dir/link", "dir/linked", "dir/two", "file"]
        new = [name.replace("dir/", "moved/").replace("file", "new") for name in old]
        # Renamed back after the apply, it is a rename of what the merge has brought. Before, it goes with the merge.
        for session, before, after, change in (("before", "mv moved dir", "true", ""),
                                               ("after", "true", BACK, "R d /moved -> /dir\nR f /new -> /file\n")):
            with self.subTest(session):
                self.git("checkout", "-q", "-B", "merged", "main")
                self.inside(f"git mv dir moved; git mv file new; {COMMIT} moved; {before}", session=session)
                self.git("checkout", "-q", "--orphan", "elsewhere")  # other nodes, with newer times
                self.git("rm", "-rfq", ".")
                self.git("checkout", "-q", "merged")
                self.warren("apply", f"session:{session}", "--keep")
                self.inside(after, session=session)
                self.git("merge", "-q", f"warren/{session}")
                names = old if change else new
                self.assertEqual(self.inside("find * -type f -o -type l | sort", session=session).stdout.split(), names)
                self.assertEqual(self.warren("diff", f"session:{session}"), change)
                self.warren("apply", f"session:{session}")
                self.assertEqual(self.files(), names)
                self.assertEqual((self.base / names[1]).read_bytes(), large)
                self.git("add", "-A")
                self.git("commit", "-q", "--allow-empty", "-m", "applied")

    def test_a_question_remains_if_the_user_has_changed_what_was_renamed_back(self):
        (self.base / "dir/two").write_text("two\n")
        self.commit("two")
        self.inside(f"git mv dir moved; {COMMIT} moved; mv moved dir", options=("--keep",))
        (self.base / "dir/two").write_text("of the user\n")
        for commit in (lambda: None, lambda: self.commit("of the user")):
            commit()
            done = self.world.warren("apply", "session:s", "--keep")
            self.assertEqual(done.returncode, 1)
            self.assertIn("1 file in the commits is not a change of this session: /dir/two", done.stderr + done.stdout)

    def test_a_file_that_was_renamed_back_is_a_change_in_conflict(self):
        self.inside(f"git mv file new; {COMMIT} moved; mv new file")
        self.warren("apply", "session:s", "--keep", "--yes")
        self.git("merge", "-q", "warren/s")
        self.assertIn("A f /file  [conflict: it was deleted from the base]", self.warren("diff", "session:s"))
        self.assertIn("conflict: /file: it was deleted from the base", self.world.warren("apply", "session:s").stderr)
        self.assertEqual(self.files(), ["dir/inner", "new"])
        self.warren("apply", "session:s", "--force", "--yes")
        self.assertEqual(self.files(), ["dir/inner", "file"])

    def test_a_directory_that_was_renamed_again_before_the_merge_keeps_its_files(self):
        (self.base / "dir/two").write_text("two\n")
        self.commit("two")
        self.inside(f"git mv dir moved; {COMMIT} moved; git mv moved again")
        show = "git status --short; cat again/*"
        before = self.inside(show).stdout
        self.warren("apply", "session:s", "--commits", "--yes")
        self.git("merge", "-q", "warren/s")
        self.assertEqual(self.inside(show).stdout, before)
        self.assertEqual(self.files(), ["file", "moved/inner", "moved/two"])

    def test_it_holds_after_a_rebase_of_the_branch(self):
        self.inside(WORK)
        self.warren("apply", "session:s", "--keep")
        (self.base / "hosts").write_text("1\n")
        self.commit("of the host")
        self.git("checkout", "-q", "-b", "rebased", "warren/s")
        self.git("rebase", "-q", "main")
        self.git("checkout", "-q", "main")
        self.git("merge", "-q", "--ff-only", "rebased")
        self.inside("rm more")
        self.assertEqual(self.warren("diff", "session:s"), "D f /more\n")

    def test_it_holds_while_the_session_runs(self):
        script = (WORK + "; touch done; until [ -e go ]; do sleep 0.05; done; "
                  "until git log -1 --format=%s warren/base | grep -q own; do sleep 0.05; done; "
                  "exec 3>> more; echo 3 >&3; rm more; mv moved/inner moved/other; cat moved/other > seen")
        with self.world.start("run", "--session", "s", "--", "sh", "-ec", script) as running:
            sandboxed.wait_for(lambda: "A f /done" in self.world.warren("diff", "session:s").stdout, "the agent did not start")
            self.bring()
            (self.base / "go").write_text("")
            _, said = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(running.returncode, 0, said)
        (self.base / "go").unlink()
        self.assertEqual(self.warren("diff", "session:s"), "D f /more\nR f /moved/inner -> /moved/other\nA f /seen\n")
        self.warren("apply", "session:s")
        self.assertEqual(self.files(), ["dir/n", "done", "file", "moved/other", "seen"])

    def test_what_was_removed_before_the_merge_is_a_change_after_it(self):
        self.inside(WORK)
        self.warren("apply", "session:s", "--keep")
        self.inside("rm more; echo 2 > dir/n")
        self.git("merge", "-q", "warren/s")
        self.inside("test ! -e more")
        self.assertEqual(self.warren("diff", "session:s"), "M f /dir/n\nD f /more\n")

    def test_what_others_have_changed_meanwhile_is_not_taken_for_the_merged_version(self):
        self.inside(f"echo agent >> file; {COMMIT} own")
        self.bring()
        (self.base / "file").write_text("newer\n")
        self.assertEqual(self.inside("cat file").stdout, "of the base\nagent\n")
        self.commit("newer")
        self.assertEqual(self.inside("cat file; git status --short").stdout, "of the base\nagent\n")
        self.warren("apply", "session:s")
        self.assertEqual((self.base / "file").read_text(), "newer\n")

    def test_what_was_discarded_is_not_deleted_by_the_merge(self):
        self.inside(WORK)
        self.warren("apply", "session:s", "--keep")
        self.warren("discard", "session:s", "more", "--yes")
        self.git("merge", "-q", "warren/s")
        self.warren("apply", "session:s")
        self.assertIn("more", self.files())

    def test_of_a_rename_that_was_committed_in_part_the_other_half_is_left(self):
        removal = f"mv file new; {COMMIT} own"
        addition = f"mv file new; git add new; {ADDED} own"
        for number, (script, after, change, files) in enumerate((
                (removal, "true", "A f /new\n", {"new": ""}),
                (removal + "; echo 2 >> new", "true", "A f /new\n", {"new": "2\n"}),
                (removal, "echo 2 >> new", "A f /new\n", {"new": "2\n"}),
                (removal, "mv new again", "A f /again\n", {"again": ""}),
                (removal, "rm new; touch x", "A f /x\n", {}),
                (addition, "true", "D f /file\n", {"new": ""}),
                (addition + "; echo 2 >> new", "true", "D f /file\nM f /new\n", {"new": "2\n"}),
                (addition, "mv new again", "R f /new -> /again\nD f /file\n", {"again": ""}),
                (f"echo 2 >> file; {COMMIT} own; mv file new", "true", "R f /file -> /new\n", {"new": "2\n"}),
                (f"mv dir moved; git add moved; {ADDED} own", "true", "D d /dir\nD f /dir/inner\n", {"file": ""}))):
            with self.subTest(script, after=after):
                session = f"s{number}"
                self.git("reset", "-q", "--hard", self.git("rev-list", "--max-parents=0", "HEAD"))
                self.git("clean", "-qfdx")
                self.inside(script, session=session)
                self.bring(session)
                self.inside(after, session=session)
                self.assertEqual(self.warren("diff", f"session:{session}"), change)
                self.warren("apply", f"session:{session}")
                self.assertNotIn(session, self.world.sessions())
                there = {path: (self.base / path).read_text() for path in self.files()}
                expected = {path: "of the base\n" + text for path, text in files.items()}
                for path, text in expected.items():
                    self.assertEqual(there.get(path), text)
                self.assertEqual("file" in there, "file" in files)

    def test_the_other_half_of_a_rename_is_left_while_the_session_runs(self):
        for name, script, change in (
                ("old", f"mv file new; exec 3>> new; {COMMIT} own", "A f /new\n"),
                ("new", f"mv file new; exec 3>> new; git add new; {ADDED} own", "D f /file\nM f /new\n")):
            script += ("; touch /tmp/done; until git log -1 --format=%s warren/base | grep -q own; do sleep 0.05; done; "
                       "test ! -e file; echo 2 >&3; cat new; touch ok")
            with self.subTest(name), self.world.start("run", "--session", name, "--", "sh", "-ec", script) as running:
                sandboxed.wait_for(lambda: "new commits" in self.world.warren("diff", f"session:{name}").stderr,
                                   "the agent did not commit")
                self.bring(name)
                out, said = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
                self.assertEqual((running.returncode, out), (0, b"of the base\n2\n"), said)
            self.assertEqual(self.warren("diff", f"session:{name}"), change + "A f /ok\n")
            self.warren("apply", f"session:{name}")
            self.assertEqual(self.files(), ["dir/inner", "new", "ok"])
            self.assertEqual((self.base / "new").read_text(), "of the base\n2\n")
            self.git("reset", "-q", "--hard", self.git("rev-list", "--max-parents=0", "HEAD"))
            self.git("clean", "-qfdx")

    # A rename is committed, and then the file is exchanged with another one.
    EXCHANGED = f"git mv file new; {COMMIT} moved; mv new t; mv dir/inner new; mv t dir/inner"

    def test_a_file_that_was_exchanged_after_the_commit_of_its_rename_keeps_its_content(self):
        for session, after, inner in (("plain", "true", "of the base\n"), ("edited", "echo 2 >> dir/inner", "of the base\n2\n"),
                                      ("replaced", "rm new", "of the base\n")):
            with self.subTest(session):
                self.git("reset", "-q", "--hard", self.git("rev-list", "--max-parents=0", "HEAD"))
                self.git("clean", "-qfdx")
                self.inside(f"{self.EXCHANGED}; {after}", session=session)
                self.bring(session)
                self.assertNotIn("M f /dir/inner  [conflict", self.warren("diff", f"session:{session}"))
                self.warren("apply", f"session:{session}", "--merge", "--yes")
                self.assertEqual((self.base / "dir/inner").read_text(), inner)
                self.assertEqual((self.base / "new").exists(), session != "replaced")
                if session != "replaced":
                    self.assertEqual((self.base / "new").read_text(), "inner\n")
                self.assertNotIn(session, self.world.sessions())

    def test_what_the_user_has_changed_where_the_agent_has_put_another_file_is_a_conflict(self):
        self.inside(self.EXCHANGED)
        self.bring()
        (self.base / "dir/inner").write_text("mine\n")
        self.assertIn("M f /dir/inner  [conflict: it was changed in the base]", self.warren("diff", "session:s"))
        self.warren("apply", "session:s", "--merge", status=1)
        self.assertEqual((self.base / "dir/inner").read_text(), "mine\n")

    def test_what_the_user_has_made_where_the_agent_has_an_old_file_is_a_conflict(self):
        self.inside(f"mv file new; {COMMIT} removed")
        self.bring()
        self.assertEqual(self.warren("diff", "session:s"), "A f /new\n")
        (self.base / "new").write_text("mine\n")
        self.assertIn("M f /new  [conflict: it was changed in the base]", self.warren("diff", "session:s"))
        self.warren("apply", "session:s", "--merge", status=1)
        self.assertEqual((self.base / "new").read_text(), "mine\n")

    def test_an_exchange_after_the_commit_of_a_rename_holds_while_the_session_runs(self):
        script = (f"{self.EXCHANGED}; exec 3>> dir/inner 4>> new; touch /tmp/done; "
                  "until git log -1 --format=%s warren/base | grep -q moved; do sleep 0.05; done; echo 2 >&3; echo 3 >&4; "
                  "cat dir/inner new; touch ok")
        with self.world.start("run", "--session", "s", "--", "sh", "-ec", script) as running:
            sandboxed.wait_for(lambda: "new commits" in self.world.warren("diff", "session:s").stderr, "the agent did not commit")
            self.bring()
            out, said = running.communicate(timeout=sandboxed.PATIENCE_SECONDS)
            self.assertEqual((running.returncode, out), (0, b"of the base\n2\ninner\n3\n"), said)
        self.warren("apply", "session:s", "--merge", "--yes")
        self.assertEqual((self.base / "dir/inner").read_text(), "of the base\n2\n")
        self.assertEqual((self.base / "new").read_text(), "inner\n3\n")

    def test_of_exchanged_directories_one_may_be_empty(self):
        for session, after, files in (("plain", "true", ["b/fa", "b/fb", "dir/inner", "file"]),
                                      ("edited", "echo 2 >> b/fa", ["b/fa", "b/fb", "dir/inner", "file"]),
                                      ("removed", "rm b/fa", ["b/fb", "dir/inner", "file"]),
                                      ("again", "mv b c", ["c/fa", "c/fb", "dir/inner", "file"]),
                                      ("filled", "echo n > a/n", ["a/n", "b/fa", "b/fb", "dir/inner", "file"])):
            for when in ("after",) if session == "again" else ("before", "after"):
                with self.subTest(session, when=when):
                    self.git("reset", "-q", "--hard", self.git("rev-list", "--max-parents=0", "HEAD"))
                    self.git("clean", "-qfdx")
                    for name in "abc":
                        if (self.base / name).exists():
                            (self.base / name).rmdir()
                    (self.base / "a").mkdir()
                    (self.base / "b").mkdir()
                    (self.base / "a/fa").write_text("fa\n")
                    (self.base / "a/fb").write_text("fb\n")
                    self.commit("two")
                    name = session + when
                    self.inside(f"mv a t; mv b a; mv t b; git add -A; {COMMIT} exchanged; " + (after if when == "before" else "true"),
                                session=name)
                    self.warren("apply", f"session:{name}", "--keep", "--yes")
                    self.git("merge", "-q", f"warren/{name}")
                    if when == "after":
                        self.inside(f"test -d a; {after}", session=name)
                    self.assertNotIn("-> /a", self.warren("diff", f"session:{name}"))
                    self.warren("apply", f"session:{name}", "--merge", "--yes", "--keep")
                    self.assertEqual(self.files(), files)
                    if session == "plain":
                        # A later change does not follow the old rename, either.
                        self.inside("echo 2 >> b/fa", session=name)
                        self.assertEqual(self.warren("diff", f"session:{name}"), "M f /b/fa\n")

    def test_exchanged_directories_of_which_one_was_renamed_again_before_the_merge_are_a_conflict(self):
        (self.base / "a").mkdir()
        (self.base / "b").mkdir()
        (self.base / "a/fa").write_text("fa\n")
        self.commit("two")
        self.inside(f"mv a t; mv b a; mv t b; git add -A; {COMMIT} exchanged; mv b c")
        self.warren("apply", "session:s", "--keep", "--yes")
        self.git("merge", "-q", "warren/s")
        self.assertIn("A d /c  [conflict: it was deleted from the base]", self.warren("diff", "session:s"))
        self.warren("apply", "session:s", "--merge", status=1)
        self.assertEqual(self.files(), ["b/fa", "dir/inner", "file"])

    def test_a_renamed_directory_whose_files_were_removed_after_the_commit_comes_with_the_merge(self):
        for session, script, left in (("renamed", f"git mv dir new; {COMMIT} own; rm new/inner", "new"),
                                      ("exchanged", f"mv dir t; mv new dir; mv t new; git add -A; {COMMIT} own; rm new/inner", "new")):
            with self.subTest(session):
                self.git("reset", "-q", "--hard", self.git("rev-list", "--max-parents=0", "HEAD"))
                self.git("clean", "-qfdx")
                if session == "exchanged":
                    (self.base / "new").mkdir()
                self.inside(script, session=session)
                self.warren("apply", f"session:{session}", "--keep", "--yes")
                self.assertEqual(self.files(), ["dir/inner", "file"])
                self.git("merge", "-q", f"warren/{session}")
                self.assertEqual(self.files(), sorted(["file", f"{left}/inner"]))
                self.assertIn(f"D f /{left}/inner", self.warren("diff", f"session:{session}"))
                self.warren("apply", f"session:{session}", "--merge", "--yes")
                self.assertEqual(self.files(), ["file"])
                self.assertTrue((self.base / left).is_dir())

    def test_a_large_file_of_which_only_the_removal_was_committed_can_be_read_after_the_merge(self):
        large = self.base / "large"
        with large.open("wb") as file:
            for i in range(18):
                file.write(bytes([65 + i]) * (1 << 20))
        self.commit("large")
        before = hashlib.sha256(large.read_bytes()).hexdigest()
        self.inside(f"mv large new; {COMMIT} own")
        self.bring()
        self.assertFalse(large.exists())
        self.assertEqual(self.inside("sha256sum < new").stdout.split()[0], before)
        self.assertEqual(self.warren("diff", "session:s"), "A f /new\n")
        self.warren("apply", "session:s")
        self.assertEqual(hashlib.sha256((self.base / "new").read_bytes()).hexdigest(), before)

    def test_what_the_user_changes_at_the_other_name_meanwhile_is_a_conflict(self):
        self.inside(f"mv file new; git add new; {ADDED} own")
        self.bring()
        (self.base / "file").write_text("mine\n")
        self.assertIn("[conflict: it was changed in the base]", self.warren("diff", "session:s"))
        self.warren("apply", "session:s", status=1)
        self.assertEqual((self.base / "file").read_text(), "mine\n")

    def test_a_directory_whose_rename_was_committed_for_some_files_does_not_get_its_old_name_back(self):
        (self.base / "dir/two").write_text("two\n")
        self.commit("two")
        self.inside(f"mv dir new; git add new/two; git rm -q --cached dir/two; {ADDED} own; echo more >> new/inner")
        self.bring()
        self.assertEqual(self.inside("find dir new -type f | sort; cat new/inner").stdout, "new/inner\nnew/two\ninner\nmore\n")

    def test_a_note_that_the_agent_has_damaged_is_none(self):
        write = "printf '{}' > .git/warren-brought".format
        for damage in (write("x"), write("0123456789012345678901234567890123456789\\nwarren-apply-6\\n\\377\\377\\377"),
                       "LC_ALL=C sed -i s,/more,xmore, .git/warren-brought", "LC_ALL=C sed -i s,/more,/../., .git/warren-brought"):
            self.inside(WORK, session="t")
            self.warren("apply", "session:t", "--keep")
            self.inside(damage, session="t")
            self.git("merge", "-q", "warren/t")
            self.inside("cat more", session="t")
            self.warren("sessions", "delete", "t", "--yes")
            self.git("reset", "-q", "--hard", "HEAD~1")
            self.git("branch", "-D", "warren/t")


if __name__ == "__main__":
    unittest.main()
