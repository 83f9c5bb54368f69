"""The projects that the overlay benchmark uses as bases. Every run creates the same.

make_tree: about 5,000 files in git, one commit: src (2,800 files), vendor (2,000), native (a C program of 100
files with a Makefile), web (an npm package whose dependencies are tarballs beside it) and a few large files.
make_large: two large files.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mount"))
import dev_workload  # noqa: E402

MIB = 1 << 20
GIT = dev_workload.GIT[:-2]  # without the directory
SOURCE_DIRS = 140
UNITS = 100
PACKAGES, FILES_PER_PACKAGE = 8, 60
LARGE_FILES = 10
READ_MIB, EDIT_MIB = 512, 1024
AN_HOUR_AGO = 3600


def make_native(root):
    """UNITS small translation units that call each other in a chain, and a Makefile."""
    root.mkdir()
    (root / "all.h").write_text("".join(f"int unit{n}(int x);\n" for n in range(UNITS + 1)))
    for n in range(UNITS):
        steps = "".join(f"static int step{k}(int x) {{ return x * {k + 2} + {n}; }}\n" for k in range(30))
        calls = "".join(f"  x = step{k}(x);\n" for k in range(30))
        head = '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include "all.h"\n'
        body = f"int unit{n}(int x) {{\n{calls}  return unit{n + 1}(x);\n}}\n"
        (root / f"unit{n}.c").write_text(head + steps + body)
    last = f"int unit{UNITS}(int x) {{ return x; }}\n"
    (root / "main.c").write_text(f'#include "all.h"\n{last}int main(void) {{ return unit0(1) == 0; }}\n')
    objects = " ".join(f"unit{n}.o" for n in range(UNITS)) + " main.o"
    (root / "Makefile").write_text(f"program: {objects}\n\tcc -o $@ $^\n%.o: %.c all.h\n\tcc -c -o $@ $<\n")


def make_web(root):
    """A package whose dependencies are tarballs in it, so that installing it needs no network."""
    root.mkdir()
    dependencies = {}
    with tempfile.TemporaryDirectory() as scratch:
        for n in range(PACKAGES):
            package = pathlib.Path(scratch) / f"part{n}"
            (package / "lib").mkdir(parents=True)
            (package / "package.json").write_text(json.dumps({"name": f"part{n}", "version": "1.0.0"}))
            for f in range(FILES_PER_PACKAGE):
                numbers = ", ".join(str(n * f + k) for k in range(400))
                (package / "lib" / f"f{f}.js").write_text(f"module.exports = [{numbers}];\n")
            subprocess.run(["npm", "pack", "--silent", "--pack-destination", root, package], check=True,
                           stdout=subprocess.DEVNULL)
            dependencies[f"part{n}"] = f"file:part{n}-1.0.0.tgz"
    (root / "package.json").write_text(json.dumps({"name": "web", "version": "1.0.0", "dependencies": dependencies}))
    (root / ".gitignore").write_text("node_modules\n")


def make_older(root):
    """Makes the files older than git's index: git reads every file that is as new as its index."""
    for where, dirs, files in os.walk(root):
        for name in files:
            path = os.path.join(where, name)
            at = os.stat(path).st_mtime - AN_HOUR_AGO
            os.utime(path, (at, at))


def write_random(path, mib, rng):
    with open(path, "wb") as file:
        for _ in range(mib):
            file.write(rng.randbytes(MIB))


def make_tree(root):
    root.mkdir()
    dev_workload.generate(root / "src", SOURCE_DIRS)
    dev_workload.generate(root / "vendor")
    make_native(root / "native")
    make_web(root / "web")
    (root / "assets").mkdir()
    for n in range(LARGE_FILES):
        write_random(root / "assets" / f"large{n}.bin", 2, random.Random(n))
    make_older(root)
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"], ["status"]):
        subprocess.run([*GIT, *command], cwd=root, env=dev_workload.ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


def make_large(root):
    root.mkdir()
    write_random(root / "read.bin", READ_MIB, random.Random(1))
    write_random(root / "edit.bin", EDIT_MIB, random.Random(2))
