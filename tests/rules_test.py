#!/usr/bin/env python3
"""Every rule of docs/format.md has a test that names it, and every test that names a rule names one there is.

With --write the table from rule to tests at the end of docs/format.md is written anew; without, it must be
up to date.
"""
import pathlib
import re
import sys

MARK = "<!-- written by tests/rules_test.py --write -->"
RULE = re.compile(r"^- \*\*((?:FS|KV|TC|OV|WR)-\d+)\*\*(.*?)(?=^- \*\*|^\||^#|\Z|^$)", re.M | re.S)
TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(((?:FS|KV|TC|OV|WR))(\d+)_\w+)")
PYTHON_TEST = re.compile(r"\bdef (test_((?:FS|KV|TC|OV|WR))(\d+)_\w+)")


def read_rules(text):
    """Rule id → whether its test may still be missing."""
    return {match.group(1): "*(with the" in match.group(2) for match in RULE.finditer(text)}


def read_tests(root):
    """Rule id → [(test, file)]."""
    found = {}
    for file in sorted([*(root / "src").rglob("*_test.cc"), *(root / "tests").rglob("*_test.cc")]):
        for suite, name, kind, number in TEST.findall(file.read_text()):
            found.setdefault(f"{kind}-{number}", []).append((f"{suite}.{name}", file.relative_to(root)))
    for file in sorted((root / "tests").rglob("*_test.py")):
        for name, kind, number in PYTHON_TEST.findall(file.read_text()):
            found.setdefault(f"{kind}-{number}", []).append((name, file.relative_to(root)))
    return found


def order(rule):
    kind, _, number = rule.partition("-")
    return ["FS", "OV", "KV", "TC", "WR"].index(kind), int(number)


def table(rules, tests):
    lines = ["| rule | test | in |", "|---|---|---|"]
    for rule in sorted(rules, key=order):
        for name, file in tests.get(rule, [("none yet", "")]):
            lines.append(f"| {rule} | `{name}` | {file} |" if file else f"| {rule} | {name} | |")
    return "\n".join(lines) + "\n"


def problems(root, rules, tests):
    has_overlay = any((root / "src" / "fs").glob("overlay_fs.*"))
    for rule, may_wait in rules.items():
        if rule not in tests and (has_overlay or not may_wait):
            yield f"{rule}: no test is named after it"
    for rule, named in tests.items():
        if rule not in rules:
            for name, file in named:
                yield f"{file}: {name} names {rule}, which docs/format.md does not have"
    mention = re.compile(r"\b(?:FS|KV|TC|OV|WR)-\d+\b")
    for file in sorted((root / "src").rglob("*")):
        if file.suffix in (".h", ".cc"):
            for rule in mention.findall(file.read_text()):
                if rule not in rules:
                    yield f"{file.relative_to(root)}: {rule} is not in docs/format.md"


def main():
    root = pathlib.Path(sys.argv[1])
    page = root / "docs" / "format.md"
    text = page.read_text()
    head, mark, old = text.partition(MARK)
    rules, tests = read_rules(head), read_tests(root)
    new = "\n\n" + table(rules, tests)
    if "--write" in sys.argv:
        page.write_text(head + mark + new)
        old = new
    found = list(problems(root, rules, tests))
    if len(rules) < 40:
        found.append(f"only {len(rules)} rules were found in docs/format.md")
    if old != new:
        found.append("the table in docs/format.md is out of date: tests/rules_test.py . --write")
    print("\n".join(found) if found else f"{len(rules)} rules, each with its tests")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
