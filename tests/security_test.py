#!/usr/bin/env python3
"""docs/security.md names a test for each of its numbered attacks, and every test that it names exists.

    security_test.py ROOT
"""
import pathlib
import re
import sys

ATTACKS = 17
ROW = re.compile(r"^\| (\d+) \|.*\| ([^|]*) \|$", re.M)
FILE = re.compile(r"`((?:tests|src)/[\w/.]+)`((?:[:,] `test_\w+`)*)")


def defined(root):
    """Names of Python tests in the tree → the files that define them."""
    found = {}
    for file in sorted((root / "tests").rglob("*.py")):
        for name in re.findall(r"\bdef (test_\w+)", file.read_text()):
            found.setdefault(name, set()).add(str(file.relative_to(root)))
    return found


def problems(root):
    page = (root / "docs" / "security.md").read_text()
    tests = defined(root)
    for name in sorted(set(re.findall(r"`(test_\w+)`", page)) - tests.keys()):
        yield f"no test is called {name}"
    rows = {int(number): cell for number, cell in ROW.findall(page)}
    for number in range(1, ATTACKS + 1):
        files = FILE.findall(rows.get(number, ""))
        if not files:
            yield f"attack {number} names no test"
        for file, names in files:
            if not (root / file).exists():
                yield f"attack {number}: there is no {file}"
            for name in re.findall(r"test_\w+", names):
                if file not in tests.get(name, ()):
                    yield f"attack {number}: {file} has no {name}"
    for number in rows.keys() - set(range(1, ATTACKS + 1)):
        yield f"attack {number} is not one of {ATTACKS}"


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1])))
    for problem in found:
        print(f"docs/security.md: {problem}")
    sys.exit(1 if found else 0)
