"""Builds a server that exists as a Go module, for ./check --full, in a directory of the caller outside this repository.

Go keeps what it has compiled in its own cache, so the first build takes minutes and the next ones seconds.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

# What golang.org/toolchain is asked for where the installed Go is too old (Debian 12 has 1.19).
TOOLCHAIN = "1.25.5"


def version_of(go):
    found = re.search(r"go(\d+)\.(\d+)", subprocess.run([go, "version"], capture_output=True, text=True).stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def newer_go(go, scratch):
    """A newer Go, by the old one: its toolchains are modules, too."""
    name = f"golang.org/toolchain@v0.0.1-go{TOOLCHAIN}.linux-{go_architecture()}"
    cache = scratch / "toolchain"
    subprocess.run([go, "mod", "download", "-modcacherw", name], check=True, cwd=scratch,
                   env=os.environ | {"GOMODCACHE": str(cache), "GOFLAGS": "-mod=mod"})
    root = cache / name
    for program in [*(root / "bin").iterdir(), *(root / "pkg/tool").rglob("*")]:  # modules keep no modes
        if program.is_file():
            program.chmod(0o755)
    return root / "bin/go"


def go_architecture():
    return {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


def find_go(minimum, scratch):
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if not go:
        sys.exit("go_program.py: there is no Go; install it (package golang-go)")
    return go if version_of(go) >= minimum else newer_go(go, scratch)


def build(package, version, minimum, scratch):
    """The path of the program. `minimum`: the Go that its module asks for."""
    scratch = pathlib.Path(scratch)
    go = find_go(minimum, scratch)
    print(f"go_program.py: building {package} {version}", flush=True)
    subprocess.run([go, "install", f"{package}@{version}"], check=True, cwd=scratch,
                   env=os.environ | {"GOBIN": str(scratch), "CGO_ENABLED": "0"})
    return scratch / package.rsplit("/", 1)[-1]


def find_or_build(variable, package, version, minimum, scratch):
    """The program that the environment variable names, or a new build; without ./check --full the test is skipped."""
    if os.environ.get(variable):
        return pathlib.Path(os.environ[variable])
    if os.environ.get("WARREN_CHECK_FULL") != "yes":
        print(f"{package} is not built; ./check --full builds and tests it, or {variable} names the program")
        sys.exit(77)
    return build(package, version, minimum, scratch)
