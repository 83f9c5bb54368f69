#!/usr/bin/env python3
"""Runs transcripts and compares the program's output with the expected output.

    $ command          run by bash in a new directory, one directory per transcript
    text               a line of standard output
    ! text             a line of standard error
    ? 2                the exit status (default 0)
    # text             a comment; so is an empty line before the first command

An empty line of output is written as '.' alone. In expected text <n> is any number, <time> a date and time, <any> any
text. A command that ends in '|json' has its output checked to be JSON first and
must name what it shows: everything after it is compared with that JSON in one line, members sorted.

A .md file is a transcript too: its ```console blocks, with both outputs combined as a reader would see them. There,
numbers may differ, because sizes and times do, and so may the blanks that align them; '...' stands for any text. Blocks
marked ```console fuse are skipped if nothing can be mounted.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HOLES = {"<n>": r"-?\d+(?:\.\d+)?", "<time>": r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?: UTC|Z)?", "<any>": r".*"}
TIMEOUT_SECONDS = 120


NUMBERS = re.compile(r"\d+(?:\.\d+)?( [KMG]i)?")


class Step:
    def __init__(self, number, command):
        self.number, self.command, self.out, self.err, self.status = number, command, [], [], 0


def read_transcript(path):
    steps = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("$ "):
            steps.append(Step(number, line[2:]))
        elif line.startswith("> ") and steps and not steps[-1].out:
            steps[-1].command += "\n" + line[2:]
        elif line.startswith("#") or not line:
            continue
        elif not steps:
            raise SystemExit(f"{path}:{number}: text before the first command")
        elif line.startswith("! ") or line == "!":
            steps[-1].err.append(line[2:])
        elif line.startswith("? "):
            steps[-1].status = int(line[2:])
        else:
            steps[-1].out.append("" if line == "." else line[1:] if line.startswith("\\") else line)
    return steps


def can_mount():
    return os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK)


def unmount_below(scratch):
    """Unmounts what a failed step left mounted."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        if line.split()[4].startswith(f"{scratch}/"):
            subprocess.run(["umount", "-l", line.split()[4]], check=True)


def read_manual(path):
    steps, inside = [], False
    blocks = ["```console", "```console fuse"] if can_mount() else ["```console"]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("```"):
            inside = not inside and line in blocks
        elif inside and line.startswith("$ "):
            steps.append(Step(number, line[2:]))
        elif inside and steps:
            steps[-1].out.append(line)
    return steps


def without_numbers(text):
    return re.sub(" +", " ", NUMBERS.sub("#", text)).rstrip("\n")


def check_manual_step(step, cwd, env):
    done = subprocess.run(["bash", "-c", step.command], cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS)
    text = without_numbers(done.stdout.decode("utf-8", "backslashreplace"))
    expected = without_numbers("\n".join(step.out))
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    if re.fullmatch(pattern, text, re.DOTALL):
        return []
    return [show("it prints", text.splitlines()), show("the manual says", expected.splitlines())]


def pattern_of(line):
    parts = re.split("(" + "|".join(HOLES) + ")", line)
    return re.compile("".join(HOLES.get(part) or re.escape(part) for part in parts))


def lines_match(expected, actual):
    return len(expected) == len(actual) and all(pattern_of(e).fullmatch(a) for e, a in zip(expected, actual))


def show(title, lines):
    return "\n".join([f"  {title}:"] + [f"    |{line}" for line in lines])


def check_step(step, cwd, env):
    command, as_json = step.command, step.command.endswith("|json")
    if as_json:
        command = command[: -len("|json")]
    # Standard input is not a terminal, and empty unless the command redirects it.
    done = subprocess.run(["bash", "-c", command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=TIMEOUT_SECONDS)
    out_text = done.stdout.decode("utf-8", "backslashreplace")
    err = done.stderr.decode("utf-8", "backslashreplace").splitlines()
    problems = []
    if as_json:
        try:
            out = [json.dumps(json.loads(out_text), sort_keys=True, ensure_ascii=False)]
        except ValueError as error:
            out = out_text.splitlines()
            problems.append(f"  standard output is not JSON: {error}")
    else:
        out = out_text.splitlines()
    if done.returncode != step.status:
        problems.append(f"  exit status {done.returncode}, expected {step.status}")
    if not lines_match(step.out, out):
        problems += [show("standard output", out), show("expected", step.out)]
    if not lines_match(step.err, err):
        problems += [show("standard error", err), show("expected", step.err)]
    return problems


def run_transcript(path, programs):
    failures = []
    is_manual = path.suffix == ".md"
    steps = read_manual(path) if is_manual else read_transcript(path)
    check = check_manual_step if is_manual else check_step
    with tempfile.TemporaryDirectory(prefix="warren-cli-") as scratch:
        cwd = pathlib.Path(scratch, "work")
        cwd.mkdir()
        home = pathlib.Path(scratch, "home")
        home.mkdir()
        env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "LC_ALL": "C.UTF-8", "TZ": "UTC",
               "TESTS": str(path.parent), "SHELL": "/bin/bash", "XDG_RUNTIME_DIR": str(home)}
        for step in steps:
            problems = check(step, cwd, env)
            if problems:
                failures.append(f"{path.name}:{step.number}: $ {step.command}\n" + "\n".join(problems))
        unmount_below(scratch)
    return len(steps), failures


def main():
    program, wanted = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    folder = pathlib.Path(__file__).resolve().parent
    transcripts = [pathlib.Path(name) for name in wanted] or sorted(p for p in folder.glob("*.txt") if p.name != "CMakeLists.txt")
    count, failures = 0, []
    with tempfile.TemporaryDirectory(prefix="warren-bin-") as programs:
        for name in ("warren", "agentfs"):
            os.symlink(program, pathlib.Path(programs, name))
        for path in transcripts:
            steps, failed = run_transcript(path.resolve(), programs)
            count += steps
            failures += failed
    for failure in failures:
        print(failure)
    if count == 0:
        raise SystemExit("no transcript has a command")
    print(f"{count - len(failures)} of {count} commands as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
