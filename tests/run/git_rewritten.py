#!/usr/bin/env python3
"""Files that git writes again in a session, after the host has changed them: the change is shown, and merged.

    WARREN=path/to/warren git_rewritten.py [-v] [Class.test_name]

Needs root.
"""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed
from git import COMMIT
from git_state import BOT, State

ADDED = COMMIT.replace("-qam", "-qm")
LINES = [f"{i}\n" for i in range(1, 41)]
EDIT = "sed -i 's/^3$/THREE/' file"
STASH = f"{BOT} stash -q; git stash pop -q"


def text(**changed):
    """The lines, with some of them changed: text(line3="THREE")."""
    return "".join(changed.get(f"line{i}", line.strip()) + "\n" for i, line in enumerate(LINES, 1))


class Rewritten(State):
    def setUp(self):
        super().setUp()
        self.host_commit("file", text())

    def removed_and_added(self, session="s"):
        shown = self.warren("diff", "-p", f"session:{session}").splitlines()
        return [line for line in shown if line[:1] in "-+" and line[:3] not in ("---", "+++")]

    def check_merges(self, session, before, after, host=None):
        """The agent does `before`, the host commits line 30, the agent does `after`."""
        with self.subTest(session):
            self.inside(before, session=session)
            (host or self.host_commit)("file", text(line30="HOST"))
            self.inside(after, session=session)
            self.assertEqual(self.removed_and_added(session), ["-3", "+THREE"])
            self.assertIn("1 file changed", self.warren("diff", "--stat", f"session:{session}"))
            self.assertIn("conflict: /file", self.warren("apply", f"session:{session}", "--no-commits", status=1))
            self.assertEqual((self.base / "file").read_text(), text(line30="HOST"))
            self.warren("apply", f"session:{session}", "--no-commits", "--merge")
            self.assertEqual((self.base / "file").read_text(), text(line3="THREE", line30="HOST"))
            self.write("file", text())
            if host is None:
                self.commit("as before")

    def test_by_stash_and_checkout(self):
        self.check_merges("stash", EDIT, STASH)
        self.check_merges("later", "echo 1 > other", f"rm other; {EDIT}; {STASH}")
        self.check_merges("checkout", EDIT, f"git checkout -q file; {EDIT}")
        self.check_merges("squash", f"git checkout -q -b f; {EDIT}; {COMMIT} x; git checkout -q main",
                          "git merge -q --squash f")

    def test_the_host_has_not_committed_its_change(self):
        self.check_merges("stash", EDIT, STASH, host=self.write)

    def test_content_filters_count(self):
        self.write(".gitattributes", "file text eol=crlf\n")
        self.commit("attributes")
        lines = text().replace("\n", "\r\n")
        (self.base / "file").write_bytes(lines.encode())
        self.inside(EDIT.replace("3$", "3\\r$").replace("THREE", "THREE\\r"))
        (self.base / "file").write_bytes(lines.replace("30\r", "HOST\r").encode())
        self.commit("host")
        self.inside(STASH)
        self.warren("apply", "session:s", "--merge")
        self.assertEqual((self.base / "file").read_bytes().decode(),
                         text(line3="THREE", line30="HOST").replace("\n", "\r\n"))

    def test_a_line_that_both_have_changed_stays_a_conflict(self):
        self.inside(EDIT)
        self.host_commit("file", text(line3="HOST"))
        self.inside(STASH)
        self.assertIn("1 conflict: nothing was written", self.warren("apply", "session:s", "--merge", status=1))
        self.warren("apply", "session:s", "--conflict=markers", status=1)
        marked = (self.base / "file").read_text()
        for part in ("<<<<<<<", "THREE", "HOST", ">>>>>>>"):
            self.assertIn(part, marked)

    def test_newer_work_that_the_agent_has_merged_is_not_shown_as_its_own(self):
        for session, take_over in (("merge", "merge -q --no-edit warren/base"), ("rebase", "rebase -q warren/base")):
            with self.subTest(session):
                self.inside(f"{EDIT}; {COMMIT} three", session=session)
                self.host_commit("file", text(line30="HOST"))
                self.inside(f"{BOT} {take_over}", session=session)
                self.assertEqual(self.removed_and_added(session), ["-3", "+THREE"])
                self.host_commit("file", text(), "as before")

    def test_newer_work_that_the_agent_does_not_have_in_its_file_is_not_reverted(self):
        self.inside(EDIT)
        self.host_commit("file", text(line30="HOST"))
        self.inside(f"{STASH}; git reset -q warren/base")
        self.warren("apply", "session:s", "--no-commits", "--merge")
        self.assertEqual((self.base / "file").read_text(), text(line3="THREE", line30="HOST"))


    def check_conflicts(self, before, move, session):
        """The agent does `before`, the host commits line 30, HEAD becomes `warren/base` without its files."""
        self.inside(before, session=session)
        self.host_commit("file", text(line30="HOST"))
        self.inside(move, session=session)
        self.assertIn("conflict: /file", self.warren("apply", f"session:{session}", status=1))
        self.assertEqual((self.base / "file").read_text(), text(line30="HOST"))
        self.assertIn("[conflict: it was changed in the base]", self.warren("diff", f"session:{session}"))

    def test_newer_work_that_came_to_head_without_its_files_is_in_conflict(self):
        for number, (before, move) in enumerate((
                (EDIT, "git reset -q warren/base"), (EDIT, "git reset -q --soft warren/base"),
                (EDIT, "git update-ref refs/heads/main warren/base"), (EDIT, "git branch warren/x warren/base"),
                (f"{EDIT}; {COMMIT} own", "git reset -q warren/base"),
                (EDIT, f"git reset -q warren/base; {COMMIT} again; git reset -q --soft HEAD~1"),
                ("rm file", "git reset -q warren/base"))):
            with self.subTest(before, move=move):
                self.check_conflicts(before, move, f"s{number}")
                self.host_commit("file", text())

    def test_it_is_in_conflict_after_a_merge_of_commits_on_top_of_it(self):
        for number, before in enumerate((EDIT, "mv file moved")):
            with self.subTest(before):
                session = f"s{number}"
                self.inside(before, session=session)
                self.host_commit("file", text(line30="HOST"))
                self.inside(f"git reset -q warren/base; echo {number} > other; git add other; {ADDED} other", session=session)
                self.warren("apply", f"session:{session}", "--keep")
                self.git("merge", "-q", f"warren/{session}")
                self.assertIn("conflict: /", self.warren("apply", f"session:{session}", status=1))
                self.assertEqual((self.base / "file").read_text(), text(line30="HOST"))
                self.host_commit("file", text())

    def test_newer_work_that_is_in_the_agents_file_is_not_in_conflict(self):
        edit = f"{EDIT}; sed -i s/^HOST$/30/ file"  # on purpose, where the file came with a command of git
        for number, (before, move, expected) in enumerate((
                ("true", f"git merge -q warren/base; {edit}", text(line3="THREE")),
                (EDIT, f"{BOT} stash -q; git merge -q warren/base; {BOT} stash pop -q; git branch -m renamed; sed -i s/^HOST$/30/ file",
                 text(line3="THREE")),
                ("echo 1 > other", f"git add other; {ADDED} own; {BOT} rebase -q warren/base; git reset -q HEAD~1; {edit}", text(line3="THREE")),
                ("true", f"git reset -q --hard warren/base; {EDIT}", text(line3="THREE", line30="HOST")),
                (EDIT, f"{BOT} stash -q; git reset -q --hard warren/base; {BOT} stash pop -q", text(line3="THREE", line30="HOST")))):
            with self.subTest(move):
                session = f"s{number}"
                self.inside(before, session=session)
                self.host_commit("file", text(line30="HOST"))
                self.inside(move, session=session)
                self.warren("apply", f"session:{session}")
                self.assertEqual((self.base / "file").read_text(), expected)
                self.host_commit("file", text())


class OtherThanContent(State):
    """Git compares whether a file is a program, and no other mode, owner or attribute."""

    def check_stays(self, script, line="M f /file  [conflict: it was changed in the base]\n", session="s"):
        with self.subTest(script):
            self.inside(script, session=session)
            self.host_commit("file", f"{script}\n")
            self.assertEqual(self.warren("diff", f"session:{session}"), line)
            self.assertIn("nothing was written", self.warren("apply", f"session:{session}", status=1))
            self.assertIn(session, self.world.sessions())
            self.assertEqual((self.base / "file").read_text(), f"{script}\n")
            self.warren("apply", f"session:{session}", "--merge")
            self.assertEqual((self.base / "file").read_text(), f"{script}\n")

    def test_a_mode_that_the_agent_has_set_is_a_change_after_the_host_has_committed_the_file(self):
        self.check_stays("chmod 600 file")
        self.assertEqual((self.base / "file").stat().st_mode & 0o777, 0o600)

    def test_an_owner_and_an_attribute_too(self):
        self.check_stays("chown 1:1 file", session="owner")
        self.assertEqual((self.base / "file").stat().st_uid, 1)
        set_it = f"{sandboxed.PYTHON} -c 'import os; os.setxattr(\"file\", \"user.mine\", b\"1\")'"
        self.check_stays(set_it, session="attribute")
        self.assertEqual(os.getxattr(self.base / "file", "user.mine"), b"1")

    def test_a_mode_that_is_set_while_the_session_shows_the_version_of_its_start(self):
        self.inside("echo 1 > other")
        self.host_commit("file", "newer\n")
        self.inside("rm other; chmod 600 file")
        self.assertIn("M f /file", self.warren("diff", "session:s"))
        self.warren("apply", "session:s", status=1)
        self.assertEqual((self.base / "file").read_text(), "newer\n")

    def test_a_program_that_the_agent_has_committed_and_the_host_has_merged_is_none(self):
        self.inside(f"chmod +x file; {COMMIT} program; echo 1 > other")
        self.warren("apply", "session:s", "--keep")
        self.git("merge", "-q", "--no-edit", "warren/s")
        self.host_commit("file", "newer\n")
        self.assertNotIn("/file", self.warren("diff", "session:s"))


class Deleted(State):
    def test_a_deleted_file_that_the_host_has_changed_is_shown_and_the_hint_says_what_force_does(self):
        self.inside("rm file; echo 1 > other")
        self.host_commit("file", "of the host\n")
        shown = self.warren("diff", "-p", "session:s")
        self.assertIn("-of the base\n", shown)
        self.assertIn("+1\n", shown)
        for words in ((), ("--merge",), ("--conflict=markers",)):
            said = self.warren("apply", "session:s", *words, status=1)
            self.assertIn("hint: the agent has deleted them: --force deletes them with what was changed there", said)
        self.assertEqual((self.base / "file").read_text(), "of the host\n")


if __name__ == "__main__":
    unittest.main()
