#!/usr/bin/env python3
"""Each system call on the mount and on a plain directory: same result, same errno.

    parity.py [PLAIN_DIR MOUNT_DIR] [--only NAME] [--all]

Without directories it mounts an agent of its own with the program that WARREN names. NAME is a case, a topic, or
part of either; --all prints every difference, not only the first few of each case. Needs root, since cases change
user; the plain directory should be ext4.
"""
import argparse
import importlib
import os
import pathlib
import re
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "mount")]

import mounted
import probe

CASE_SECONDS = 120  # a case takes moments; one that takes this long hangs
SHOWN_PER_CASE = 8
SHOWN_BYTES = 600


def observe(function, top):
    """Runs the case in a new directory below top, in a separate process; returns its notes."""
    place = tempfile.mkdtemp(dir=top)

    def run():
        probe.alarm_after(CASE_SECONDS)
        os.umask(0o022)
        os.chmod(place, 0o755)
        os.chdir(place)
        notes = probe.Probe()
        function(notes)
        return notes.notes
    try:
        return probe.in_child(run), None
    except probe.ChildFailed as failure:
        return {}, str(failure)
    finally:
        remove(place)


def remove(place):
    try:
        shutil.rmtree(place)
    except OSError as error:
        print(f"left behind: {place}: {error}", file=sys.stderr)


def show(value):
    text = re.sub(r"(.)\1{40,}", lambda run: f"{run[1]}*{len(run[0])}", repr(value))
    return text if len(text) <= SHOWN_BYTES else text[:SHOWN_BYTES] + "..."


def only_different(wanted, got):
    """The difference of two trees or listings, without their common part."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        keys = [key for key in wanted | got if wanted.get(key) != got.get(key)]
        return {key: wanted.get(key) for key in keys}, {key: got.get(key) for key in keys}
    return wanted, got


def compare(name, plain, mount, shown):
    """Prints the differences; returns the numbers of compared and of differing notes."""
    (wanted, broken), (got, failed) = plain, mount
    if broken or not wanted:
        print(f"{name}: the case itself is wrong: {broken or 'it notes nothing'}")
        return 1, 1
    if failed:
        print(f"{name}: completed: yes / {failed}")
    different = [what for what in wanted | got if what not in got or what not in wanted or wanted[what] != got[what]]
    for what in [] if failed else different[:shown]:
        expected, found = only_different(wanted.get(what, "nothing"), got.get(what, "nothing"))
        print(f"{name}: {what}: {show(expected)} / {show(found)}")
    if len(different) > shown and not failed:
        print(f"{name}: ... and {len(different) - shown} more")
    return len(wanted), 1 if failed else len(different)


def run(plain, mount, options):
    for file in sorted((HERE / "cases").glob("*.py")):
        importlib.import_module(f"cases.{file.stem}")
    chosen = {name: function for name, function in probe.CASES.items() if options.only in name}
    if not chosen:
        sys.exit(f"no case has '{options.only}' in its name")
    shown = sys.maxsize if options.all else SHOWN_PER_CASE
    compared = different = 0
    for name, function in chosen.items():
        counts = compare(name, observe(function, plain), observe(function, mount), shown)
        compared, different = compared + counts[0], different + counts[1]
        sys.stdout.flush()
    print(f"{len(chosen)} cases, {compared} comparisons, {different} differ")
    return 1 if different else 0


def run_on_own_mount(options):
    mounted.need_fuse()
    with mounted.World() as world:
        plain = world.root / "plain"
        plain.mkdir()
        mount = world.mount("mnt", "--allow-other")
        os.chmod(mount, 0o755)
        result = run(plain, mount, options)
        world.umount(mount)
        world.fsck()
        return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directories", nargs="*", metavar="PLAIN_DIR MOUNT_DIR")
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("parity needs root: it runs cases as several users")
    if not options.directories:
        return run_on_own_mount(options)
    if len(options.directories) != 2:
        parser.error("two directories, or none")
    return run(*options.directories, options)


if __name__ == "__main__":
    sys.exit(main())
