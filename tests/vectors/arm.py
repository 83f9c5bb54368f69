#!/usr/bin/env python3
"""Compiles the kernels of the vector index and of the embedders for arm64 and runs them in an emulator, with and without dotprod.

    arm.py SOURCE-ROOT

Without the cross compiler it is skipped, except in ./check --full, for which tools/setup installs it.
"""
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

COMPILER, EMULATOR = "aarch64-linux-gnu-g++-12", "qemu-aarch64-static"


def main():
    if platform.machine() == "aarch64":
        return print("arm.py: this is arm64; the unit tests cover it")
    missing = [program for program in (COMPILER, EMULATOR) if not shutil.which(program)]
    if missing:
        print(f"arm.py: missing: {', '.join(missing)} (packages g++-12-aarch64-linux-gnu, qemu-user-static)")
        sys.exit(1 if os.environ.get("WARREN_CHECK_FULL") == "yes" else 77)
    root = pathlib.Path(sys.argv[1])
    vectors, embed = root / "src/backends/vector", root / "src/embed/model"
    dots = [vectors / "dot.cc", vectors / "dot_neon.cc", root / "tests/vectors/dot_check.cc"]
    run_on_arm(root, dots, (("max", "neon-dotprod: checked"), ("cortex-a53", "neon-dotprod: not supported here")))
    kernels = [embed / f"kernel{part}.cc" for part in ("", "_neon", "_portable")] + [root / "tests/embed/kernel_check.cc"]
    run_on_arm(root, kernels, (("max", "neon: checked"), ("cortex-a53", "neon: checked")))


def run_on_arm(root, sources, processors):
    """Compiles the sources to a program and runs it on each processor, where it must print the line and exit with 0."""
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "check"
        subprocess.run([COMPILER, "-std=gnu++20", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-static",
                        "-I", root / "src", *sources, "-o", program], check=True)
        for processor, expected in processors:
            done = subprocess.run([EMULATOR, "-cpu", processor, program], capture_output=True, text=True)
            print(f"-- {processor}\n{done.stdout}", end="")
            if done.returncode != 0 or expected not in done.stdout:
                sys.exit(f"arm.py: failed on {processor}")


if __name__ == "__main__":
    main()
