#!/usr/bin/env python3
"""An agent's repository is a stranger's: on the host, nothing of it is run, and it does not decide what work there is.

    WARREN=path/to/warren git_hostile.py [-v] [Class.test_name]

Needs root.
"""
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sandboxed
from git import COMMIT, Git

BOT = "git -c user.name=bot -c user.email=bot@example.org"
WHO = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "t"), ("EMAIL", "t@example.org"))}


class Hostile(Git):
    def write(self, name, text, mode=0o644):
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def warren(self, *words, status=0, **options):
        done = self.world.warren(*words, **options)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout + done.stderr


class Filters(Hostile):
    """The user's own content filters, whose commands are files of the project."""

    def setUp(self):
        super().setUp()
        self.ran = self.world.root / "ran"  # the agent cannot write there
        self.lower = f"#!/bin/sh\necho \"$0 $*\" >> {self.ran}; tr A-Z a-z\n"
        self.evil = f"#!/bin/sh\necho evil >> {self.ran}; tr A-Z a-z\n"

    def begin(self, clean, smudge="cat", **files):
        self.write(".gitattributes", "*.nb filter=x\n")
        for name, text in files.items():
            self.write(name.replace("__", "/"), text, 0o755)
        self.git("config", "filter.x.clean", clean)
        self.git("config", "filter.x.smudge", smudge)
        self.write("a.nb", "ONE\n")
        self.commit("filtered")
        self.assertEqual(self.git("show", "HEAD:a.nb"), "one")

    def check(self, script, environment=None):
        """An agent commits another version of the filter and a filtered file; every command that compares uses the user's."""
        self.inside(f"""echo TWO > a.nb; echo THREE > b.nb; {script}
                        git -c filter.x.clean='tr A-Z a-z' add -A; {BOT} commit -qm work; echo FOUR > c.nb""")
        self.ran.write_text("")
        for words in (("diff", "session:s"), ("apply", "-n", "session:s"), ("apply", "--as-branch", "b", "session:s"), ("sessions",),
                      ("apply", "session:s")):
            said = self.warren(*words, env=self.world.environment() | WHO | (environment or {}))
            self.assertNotIn("evil", self.ran.read_text(), words)
            self.assertNotIn("held back", said)
        self.assertEqual(self.git("show", "b:c.nb"), "four")
        self.assertEqual(self.git("show", "warren/s:a.nb"), "two")
        self.assertEqual([(self.base / name).read_text() for name in ("a.nb", "c.nb")], ["ONE\n", "FOUR\n"])
        return self.ran.read_text()

    def test_one_that_is_named_by_a_relative_path(self):
        self.begin("tools/clean", tools__clean=self.lower)
        self.assertIn("tools/clean", self.check(f"printf '%s' '{self.evil}' > tools/clean"))

    def test_one_that_git_is_asked_for(self):
        self.begin('"$(git rev-parse --show-toplevel)"/tools/clean %f', tools__clean=self.lower)
        self.assertIn("tools/clean a.nb", self.check(f"printf '%s' '{self.evil}' > tools/clean"))

    def test_a_module_that_python_finds_in_the_current_directory(self):
        modules = self.world.home / "modules"
        modules.mkdir()
        (modules / "lower.py").write_text("import sys; sys.stdout.write(sys.stdin.read().lower())\n")
        self.begin(f"env PYTHONPATH={modules} python3 -m lower")
        self.check(f"echo 'import sys; open(\"{self.ran}\", \"a\").write(\"evil\"); sys.stdout.write(sys.stdin.read().lower())' > lower.py")

    def test_programs_and_settings_that_the_environment_finds_by_relative_paths(self):
        self.begin("tr A-Z a-z", bin__lower=self.lower)
        self.git("config", "filter.x.clean", "lower %f || exit 1")
        self.write("own", "[user]\n\tname = user\n")
        evil = self.evil.replace("'", "'\\''")
        made = "; ".join(f"printf '%s' '{evil}' > {name}; chmod +x {name}" for name in ("git", "sh", "bin/lower", "bin/sh", "bin/git"))
        self.check(f"{made}; printf '[filter \"x\"]\\n\\tclean = ./bin/lower\\n' > own; rm -f libc.so.6; echo evil > libc.so.6",
                   {"PATH": f"bin:{self.world.environment()['PATH']}:.:", "LD_LIBRARY_PATH": ":;", "GIT_CONFIG_GLOBAL": "own"})

    def test_libraries_that_the_environment_finds_by_relative_paths(self):
        self.begin("tr A-Z a-z")
        source, library = self.world.root / "evil.c", self.world.root / "evil.so"
        source.write_text(f"""#include <stdio.h>
__attribute__((constructor)) static void begin(void) {{ FILE* ran = fopen("{self.ran}", "a"); if (ran) {{ fputs("evil ", ran); fclose(ran); }} }}
unsigned la_version(unsigned version) {{ begin(); return version; }}
""")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        self.inside(f"echo TWO > a.nb; mkdir lib; cp {library} evil.so; cp {library} lib/evil.so; git add -A; {BOT} commit -qm work; echo FOUR > c.nb")
        for name, value in (("LD_PRELOAD", "./evil.so"), ("LD_PRELOAD", "libnone.so lib/evil.so"), ("LD_AUDIT", "none:lib/evil.so")):
            self.ran.write_text("")
            for words in (("diff", "session:s"), ("apply", "-n", "session:s")):
                self.warren(*words, env=self.world.environment() | {name: value})
                self.assertEqual(self.ran.read_text(), "", (name, value, words))

    def test_one_process_for_all_files(self):
        source = f"""#!/usr/bin/env python3
import os, sys
into, out = sys.stdin.buffer, sys.stdout.buffer
def read():
    packets = []
    while True:
        head = into.read(4)
        if not head:
            sys.exit()
        if head == b"0000":
            return packets
        packets.append(into.read(int(head, 16) - 4))
def write(*packets):
    for one in packets:
        out.write(b"%04x" % (len(one) + 4) + one)
    out.write(b"0000")
    out.flush()
read()
write(b"git-filter-server\\n", b"version=2\\n")
read()
write(b"capability=clean\\n", b"capability=smudge\\n")
while True:
    about = read()
    text = b"".join(read())
    if os.access({str(self.ran)!r}, os.W_OK):
        open({str(self.ran)!r}, "a").write(repr(about))
    write(b"status=success\\n")
    write(*([text.lower()] if b"command=clean\\n" in about else [text]))
    write()
"""
        self.git("config", "filter.x.process", "tools/process")
        self.begin("false", "false", tools__process=source)
        ran = self.check(f"""echo 'import os; os.access("{self.ran}", os.W_OK) and open("{self.ran}", "a").write("evil")' > /tmp/evil; sed -i '1r /tmp/evil' tools/process""")
        self.assertIn("pathname=a.nb", ran)

    def test_those_of_a_project_and_with_a_command_that_need_quoting(self):
        self.base.rename(self.world.root / "it's $(touch x) \"%f\" %%")
        self.base = self.world.base = self.world.root / "it's $(touch x) \"%f\" %%"
        self.begin("""sh -c 'tr A-Z "$1-z"' "it's" a; true""")
        self.git("config", "filter.sub=x.section.clean", "./tools/second '%f'")
        self.write(".gitattributes", "*.nb filter=x\n*.second filter=sub=x.section\n")
        self.write("tools/second", self.lower, 0o755)
        self.commit("second")
        self.inside(f"echo TWO > a.nb; echo TWO > 'b c.second'; git add -A; {COMMIT} work")
        self.ran.write_text("")
        self.warren("apply", "session:s")
        self.assertEqual(self.git("show", "warren/s:a.nb"), "two")
        self.assertIn("./tools/second b c.second", self.ran.read_text())
        self.assertFalse(any(self.world.root.rglob("x")))

    def test_one_that_is_switched_off_stays_so(self):
        self.begin("tr A-Z a-z")
        (self.world.home / ".gitconfig").write_text('[filter "x"]\n\tclean = false\n\tprocess = false\n')
        self.git("config", "filter.x.clean", "")
        self.git("config", "filter.x.process", "")
        self.inside(f"echo TWO > a.nb; {COMMIT} work")
        self.warren("diff", "session:s")
        self.apply()
        self.assertEqual(self.git("show", "warren/s:a.nb"), "TWO")

    def test_those_of_the_project_write_what_a_session_keeps_of_its_start(self):
        lower = "#!/bin/sh\ntr A-Z a-z\n"
        self.begin("tools/clean", "tools/smudge", tools__clean=lower, tools__smudge="#!/bin/sh\ntr a-z A-Z\n")
        self.inside("git status --short > /dev/null; echo 1 > mine")
        self.write("a.nb", "NEWER\n")
        self.commit("newer")
        self.assertEqual(self.inside("cat a.nb").stdout, "ONE\n")


class Settings(Hostile):
    def test_the_users_gpg_does_not_look_at_what_an_agent_has_signed(self):
        gpg = self.world.root / "gpg"
        gpg.write_text(f"#!/bin/sh\necho >> {self.world.root}/ran; echo gpg; exit 1\n")
        gpg.chmod(0o755)
        sign = """git reset -q --hard $(git cat-file commit HEAD | sed 's/^committer.*/&\\
gpgsig -----BEGIN PGP SIGNATURE-----\\
 x\\
 -----END PGP SIGNATURE-----/' | git hash-object -t commit -w --stdin)"""
        self.inside(f"echo 2 > file; {COMMIT} work; {sign}; echo 3 > file; {BOT} stash -q; git stash drop -q")
        (self.world.home / ".gitconfig").write_text(f'[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {gpg}\n')
        self.assertIn("up to", self.warren("apply", "session:s", "--keep"))
        self.inside(f"git reset -q --soft HEAD~1; {COMMIT} 'other words'; {sign}")
        self.assertIn("amended or rebased", self.warren("apply", "session:s", "--keep"))
        self.assertFalse((self.world.root / "ran").exists())


class Merges(Hostile):
    """What a merge has otherwise than all of its parents is in no other commit."""

    def test_one_that_has_uncommitted_work_of_the_user_is_asked_about(self):
        for session, merge in (("one", f"{BOT} merge -q --no-commit warren/base"),
                               ("two", f"git checkout -q -b t HEAD~1; echo t > t; git add t; {BOT} commit -qm t; git checkout -q main; "
                                       f"{BOT} merge -q --no-commit t; git rev-parse warren/base >> .git/MERGE_HEAD")):
            with self.subTest(session):
                self.inside(f"echo 1 > mine-{session}; git add -A; {COMMIT} mine", session=session)
                self.write("other", f"{session}\n")
                self.commit("of the host")
                self.write("file", "not to be published\n")
                self.inside(f"{merge}; git add -A; {COMMIT} merged", session=session)
                self.assertIn("not a change of this session: /file", self.warren("diff", f"session:{session}"))
                self.assertIn("not a change of this session: /file", self.warren("apply", f"session:{session}", status=1))
                self.git("checkout", "-q", "--", "file")

    def test_one_that_has_an_excluded_file_is_named(self):
        self.inside(f"git checkout -q -b t; echo t > t; git add t; {COMMIT} t; git checkout -q main; echo m > m; git add m; {COMMIT} m; "
                    f"{BOT} merge -q --no-commit t; echo s > secret; git add secret; {COMMIT} merged")
        self.assertIn("excluded, but in the commits: /secret", self.warren("apply", "session:s", "--exclude", "secret"))


class Resources(Hostile):
    def setUp(self):
        super().setUp()
        self.calls = self.world.root / "calls"

    def with_shim(self, script):
        """An environment in which git is a script that notes its arguments."""
        shims = self.world.home / "shims"
        shims.mkdir(exist_ok=True)
        shim = shims / "git"
        shim.write_text(f'#!/bin/sh\necho "$*" >> {self.calls}\n{script}\nexec {shutil.which("git")} "$@"\n')
        shim.chmod(0o755)
        self.calls.write_text("")
        environment = self.world.environment()
        return environment | {"PATH": f"{shims}:{environment['PATH']}"}

    def list_calls(self):
        return self.calls.read_text().splitlines()

    def test_what_git_may_allocate_is_limited(self):
        self.inside(f"echo 2 > file; {COMMIT} two")
        limits = self.world.root / "limits"
        environment = self.with_shim(f"ulimit -d >> {limits}")
        self.warren("diff", "session:s", env=environment)
        self.assertEqual(set(limits.read_text().split()), {str(2 << 20)})

    def check_too_large(self):
        small = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, resource.RLIM_INFINITY))}
        self.assertIn("cannot tell", self.warren("diff", "session:s", **small))
        said = self.warren("apply", "session:s", status=1, **small)
        self.assertIn("the repository needs more than 400 MiB of memory", said)
        self.assertIn("--no-commits", said)
        self.assertIn("commits", self.warren("sessions", **small))
        self.assertNotIn("would delete s", self.warren("sessions", "prune", "--empty", "-n", **small))
        self.warren("apply", "session:s", "--no-commits", **small)
        self.assertEqual((self.base / "mine").read_text(), "1\n")

    def test_a_small_commit_that_unpacks_to_a_large_one(self):
        self.inside("""python3 - <<'END'
import hashlib, os, subprocess, zlib
def ask(*words):
    return subprocess.check_output(["git", *words], text=True).strip()
head = f"tree {ask('rev-parse', 'HEAD^{tree}')}\\nparent {ask('rev-parse', 'HEAD')}\\nauthor a <a@e> 1 +0000\\ncommitter a <a@e> 1 +0000\\n\\nwork\\n\\n".encode()
count, block = 500, b"a" * (1 << 20)
name, packed, out = hashlib.sha1(), zlib.compressobj(1), b""
for part in [b"commit %d\\0" % (len(head) + count * len(block)) + head] + [block] * count:
    name.update(part)
    out += packed.compress(part)
name = name.hexdigest()
os.makedirs(f".git/objects/{name[:2]}", exist_ok=True)
open(f".git/objects/{name[:2]}/{name[2:]}", "wb").write(out + packed.flush())
open(".git/refs/heads/main", "w").write(name + "\\n")
open("mine", "w").write("1\\n")
END""".replace("\\\\", "\\"))
        self.check_too_large()

    def test_a_few_trees_that_have_more_files_than_anybody_can_list(self):
        self.inside("""entry="100644 blob $(echo x | git hash-object -w --stdin)"
            for level in 1 2 3 4 5 6 7 8 9; do
              for n in 0 1 2 3 4 5 6 7 8 9; do printf '%s\\td%s\\n' "$entry" $n; done > list; tree=$(git mktree < list); entry="040000 tree $tree"
            done
            rm list; echo 1 > mine; """.replace("\\\\", "\\") + f"git update-ref refs/heads/main $({BOT} commit-tree -p HEAD -m bomb $tree)")
        self.check_too_large()

    def test_large_files_of_an_honest_agent_do_not_need_that_much(self):
        self.inside("""python3 - <<'END'
import hashlib, os, subprocess, zlib
def ask(*words, **options):
    return subprocess.check_output(["git", *words], text=True, **options).strip()
head, block = ask("rev-parse", "HEAD"), bytes(1 << 20)
for text in (b"1", b"2", b"3"):
    name, packed, out = hashlib.sha1(), zlib.compressobj(1), b""
    for part in [b"blob %d\\0" % (220 << 20 | 1), text] + [block] * 220:
        name.update(part)
        out += packed.compress(part)
    name = name.hexdigest()
    os.makedirs(f".git/objects/{name[:2]}", exist_ok=True)
    open(f".git/objects/{name[:2]}/{name[2:]}", "wb").write(out + packed.flush())
    tree = ask("mktree", input=ask("ls-tree", "HEAD") + f"\\n100644 blob {name}\\tlarge\\n")
    head = ask("-c", "user.name=bot", "-c", "user.email=bot@example.org", "commit-tree", "-p", head, "-m", "large", tree)
open(".git/refs/heads/main", "w").write(head + "\\n")
END""".replace("\\\\", "\\"))
        small = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, resource.RLIM_INFINITY))}
        self.assertIn("3 commits", self.warren("apply", "--commits", "session:s", **small))
        self.assertEqual(self.git("cat-file", "-s", "warren/s:large"), str((220 << 20) | 1))

    def test_a_few_trees_that_name_each_other_end_a_run_as_fast_as_others(self):
        environment = self.with_shim("")
        before = time.monotonic()
        self.inside("""tree=$(git mktree < /dev/null)
            for level in $(seq 40); do tree=$(printf '040000 tree %s\\ta\\n040000 tree %s\\tb\\n' $tree $tree | git mktree); done""",
                    options=("--keep",))
        self.warren("sessions", env=environment)
        self.assertLess(time.monotonic() - before, 60)
        self.assertGreater(len([call for call in self.list_calls() if "ls-tree" in call]), 30)

    def start_that_hangs(self, git, *words):
        """A command that is waiting for git; with the process number of that."""
        number = self.world.root / "number"
        # Not a shell, which would unblock signals.
        environment = self.with_shim("")
        (self.world.home / "shims" / "git").write_text(f"""#!{sandboxed.PYTHON}
import os, sys
if {git!r} in " ".join(sys.argv):
    open("{number}.new", "w").write(str(os.getpid()))
    os.rename("{number}.new", "{number}")
    os.execvp("sleep", ["sleep", "3600"])
os.execv({shutil.which("git")!r}, ["git", *sys.argv[1:]])
""")
        process = self.enterContext(self.world.start(*words, env=environment, text=True, start_new_session=True))
        self.addCleanup(process.kill)
        sandboxed.wait_for(number.exists, "git was not started")
        return process, int(number.read_text())

    def is_gone(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        except FileNotFoundError:
            return True

    def test_what_a_run_asks_git_at_its_end_can_be_interrupted(self):
        staged = "echo staged > staged; git add staged"
        process, pid = self.start_that_hangs("init --quiet", "run", "--session", "s", "--", "sh", "-ec", staged)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=sandboxed.PATIENCE_SECONDS)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("which only the session keeps", said)
        self.assertTrue(self.is_gone(pid))

    def test_git_ends_with_the_command_that_has_started_it(self):
        self.inside(f"echo 2 > file; {COMMIT} two")
        process, pid = self.start_that_hangs("init --quiet", "diff", "session:s")
        process.kill()
        sandboxed.wait_for(lambda: self.is_gone(pid), "git goes on")

    def test_a_comparison_of_rebased_commits_that_takes_too_long_counts_as_lost_work(self):
        self.inside(f"""echo 1 > lost; git add -A; {BOT} commit -qm lost; echo 1 > kept; git add -A; {BOT} commit -qm kept
                        GIT_SEQUENCE_EDITOR='sed -i 1d' {BOT} rebase -q -i HEAD~2; git reset -q --hard HEAD~1""")
        environment = self.with_shim('case "$*" in *--cherry-pick*) exec sleep 3600;; esac')
        self.assertIn("on no branch and exist", self.warren("diff", "session:s", env=environment))
        looks, compared = (len([call for call in self.list_calls() if word in call]) for word in (" init ", "--cherry-pick"))
        self.assertEqual(compared, looks)

    def test_staged_files_cost_no_git_process_each(self):
        counts = []
        for session, count in (("few", 3), ("many", 60)):
            self.inside(f"mkdir many; for i in $(seq {count}); do echo {session}$i > many/$i; done; git add -A; git write-tree; git reset -q; rm -r many",
                        session=session)
            environment = self.with_shim("")
            self.warren("sessions", env=environment)
            self.assertIn(session, self.world.sessions())
            counts.append(len(self.list_calls()))
            self.warren("sessions", "delete", session, "--yes")
        self.assertEqual(counts[0], counts[1])

    def test_all_branches_of_a_session_share_one_copy_of_its_objects(self):
        self.inside(f"for i in $(seq 5); do git branch warren/b$i $({BOT} commit-tree -p HEAD -m b$i 'HEAD^{{tree}}'); done; "
                    f"echo 2 > file; {COMMIT} work")
        self.assertIn("warren/b5", self.warren("apply", "-n", "session:s", env=self.with_shim("")))
        self.assertEqual(len([call for call in self.list_calls() if " init " in call]), 1)

    def test_a_long_subject_is_cut(self):
        self.inside(f"echo 2 > file; git add file; head -c 1000000 /dev/zero | tr '\\0' a > m; {BOT} commit -q -F m; rm m")
        said = self.warren("apply", "session:s")
        self.assertIn("aaa…'", said)
        self.assertLess(len(said), 2000)

    def test_what_git_cannot_read_in_a_linked_worktree_is_said(self):
        tree = self.world.home / "tree"
        self.git("worktree", "add", "-q", "-b", "linked", tree)
        self.inside(f"echo 2 > file; {COMMIT} two", cwd=tree)
        self.git("config", "core.repositoryFormatVersion", "99")
        self.assertIn("cannot tell what the agent has committed", self.warren("diff", "session:s", cwd=tree))
        self.assertIn("commits", self.warren("sessions"))


if __name__ == "__main__":
    unittest.main()
