"""A temporary directory with a base, an agent on top of it and its mount, for the tests of diff, apply and discard."""
import hashlib
import os
import pathlib
import stat
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mount"))
import mounted


class World(mounted.World):
    """`base` is the base. Use `change()` for real changes through a mount, `warren("fs", ...)` for simple ones."""

    def __enter__(self):
        try:
            self.home.mkdir(exist_ok=True)
            self.base = self.root / "base"
            self.base.mkdir()
        except BaseException:
            self.__exit__()
            raise
        return self

    def environment(self):
        """With a home of its own, where the records of applies are, and without a pager."""
        return os.environ | {"HOME": str(self.home), "PAGER": "cat"}

    def run(self, *args, **options):
        return super().run(*map(os.fsdecode, args), **({"env": self.environment()} | options))

    def records(self):
        folder = self.home / ".agentfs" / "applies"
        names = os.listdir(folder) if folder.exists() else []
        return sorted(name for name in names if "." not in name)  # without drafts of killed programs

    def init(self):
        self.warren("init", "--base", self.base, self.id)

    def change(self, function):
        """Calls the function with the path of a mount; unmounts afterwards."""
        point = self.mount()
        try:
            result = function(str(point))
        finally:
            self.umount(point)
        return result

    def diff(self, *args):
        """The changes: lines of `warren diff -z`, as [b"M f /path"]; a rename is [b"R f /old", b"/new"]."""
        return [part for part in self.warren("diff", "-z", self.id, *args).split(b"\0") if part]

    def lines(self, *args):
        return self.warren("diff", self.id, *args).decode(errors="surrogateescape").splitlines()

    def fails(self, *args, status=1, **options):
        """Runs the program, which must fail; returns its output."""
        done = self.run(*args, **options)
        if done.returncode != status:
            raise AssertionError(f"warren {args}: status {done.returncode}, not {status}: {done.stdout} {done.stderr}")
        return (done.stdout + done.stderr).decode(errors="replace")

    def staging(self):
        return [name for name in os.listdir(self.base) if name.startswith(".warren-apply-")]


def snapshot(top, with_times=False):
    """Everything below a directory that apply must keep: type, mode, owner, content, target, attributes, and optionally mtimes of files."""
    top = os.fsencode(top)
    seen = {}

    def add(path, name):
        info = os.lstat(path)
        kind = stat.S_IFMT(info.st_mode)
        mode = 0 if stat.S_ISLNK(info.st_mode) else stat.S_IMODE(info.st_mode)
        what = [kind, mode, info.st_uid, info.st_gid]
        if stat.S_ISREG(info.st_mode):
            with open(path, "rb") as file:
                what += [info.st_size, hashlib.sha256(file.read()).hexdigest()]
            if with_times:
                what.append(info.st_mtime_ns)
        elif stat.S_ISLNK(info.st_mode):
            what.append(os.readlink(path))
        if kind in (stat.S_IFREG, stat.S_IFDIR):
            ours = "user.warren.log"  # an agent file says where its log is
            what.append(sorted((x, os.getxattr(path, x)) for x in os.listxattr(path) if x.startswith("user.") and x != ours))
        seen[name] = tuple(map(str, what))

    add(top, b"/")
    for directory, dirs, files in os.walk(top):
        for name in dirs + files:
            if name.startswith(b".warren-apply-") and directory == top:
                continue
            path = os.path.join(directory, name)
            add(path, path[len(top):])
    return seen


def links(top):
    """The names below a directory grouped by file, and each name's link count."""
    top = os.fsencode(top)
    groups, counts = {}, {}
    for directory, _, files in os.walk(top):
        for name in files:
            path = os.path.join(directory, name)
            info = os.lstat(path)
            counts[path[len(top):]] = info.st_nlink
            groups.setdefault(info.st_ino, []).append(path[len(top):])
    return sorted(sorted(names) for names in groups.values() if len(names) > 1), counts


def differences(a, b):
    return [f"{name!r}: {a.get(name)} / {b.get(name)}" for name in sorted({*a, *b}) if a.get(name) != b.get(name)]


def write(path, content):
    path = os.fsencode(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def git(*args, cwd, **options):
    return subprocess.run(["git", *args], cwd=cwd, check=True, capture_output=True, **options).stdout
