#!/usr/bin/env python3
"""Fails when packaging/ has another man page or other completions than the program prints.

With --write it puts them right instead.
"""
import pathlib
import subprocess
import sys

FILES = {
    "warren.1": ["man"],
    "completions/warren.bash": ["completions", "bash"],
    "completions/_warren": ["completions", "zsh"],
    "completions/warren.fish": ["completions", "fish"],
}


def main():
    program, root, version = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    wrong = []
    for name, words in FILES.items():
        path = root / "packaging" / name
        text = subprocess.run([program, *words], check=True, capture_output=True).stdout
        if "--write" in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        elif not path.exists() or path.read_bytes() != text:
            wrong.append(f"packaging/{name} is not what `warren {' '.join(words)}` prints: run {sys.argv[0]} with --write")
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    if said != f"warren {version}\n":
        wrong.append(f"the program says {said!r}, the build says {version}: see src/cli/version.h")
    print("\n".join(wrong) or "the installed files are the program's own")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
