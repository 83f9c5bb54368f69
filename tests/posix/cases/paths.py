"""Every call that takes a path, on every kind of path: its result, and its effect on the tree."""
import os
import socket
import stat

from probe import *

LONG_NAME = "n" * 255


def build():
    """One node of each type. Kept small: it is created again after each call that changed something."""
    os.mkdir("dir")
    os.mkdir("full")
    write("full/child")
    write("file")
    os.link("file", "second")
    os.symlink("file", "to_file")
    os.symlink("full", "to_dir")
    os.symlink("nowhere", "dangling")
    os.symlink("loop", "loop")
    os.mkfifo("fifo")


PATHS = {
    "file": "file", "second link": "second", "dir": "dir", "full dir": "full", "link to file": "to_file",
    "link to dir": "to_dir", "dangling link": "dangling", "looping link": "loop", "fifo": "fifo", "missing": "missing",
    "below missing": "missing/x", "below file": "file/x", "below link to file": "to_file/x", "in dir": "full/child",
    "through link": "to_dir/child", "below dangling": "dangling/x", "below loop": "loop/x", "file/": "file/",
    "dir/": "dir/", "full/": "full/", "missing/": "missing/", "link to file/": "to_file/", "link to dir/": "to_dir/",
    "dangling/": "dangling/", "fifo/": "fifo/", ".": ".", "dir/.": "dir/.", "dir/..": "dir/..", "full/..": "full/..",
    "empty": "", "255 bytes": LONG_NAME, "256 bytes": LONG_NAME + "n", "below 256 bytes": LONG_NAME + "n/x",
    "double slash": "full//child", "4095 bytes": ".//" + "./" * 2044 + "file", "4096 bytes": "./" * 2046 + "file",
    "5000 bytes": "./" * 2500,
}

CALLS = {
    "stat": lambda path: describe(os.stat(path)),
    "lstat": lambda path: describe(os.lstat(path)),
    "access": lambda path: os.access(path, os.F_OK),
    "readlink": os.readlink,
    "list": lambda path: sorted(os.listdir(path)),
    "chdir": lambda path: os.chdir(path) or os.fchdir(HOME[0]),
    "mkdir": os.mkdir,
    "rmdir": os.rmdir,
    "unlink": os.unlink,
    "symlink": lambda path: os.symlink("target", path),
    "mkfifo": os.mkfifo,
    "mknod file": lambda path: os.mknod(path, stat.S_IFREG | 0o640),
    "mknod device": lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(240, 7)),
    "bind socket": lambda path: bind(path),
    "chmod": lambda path: os.chmod(path, 0o4711),
    "chown": lambda path: os.chown(path, 7, 8),
    "lchown": lambda path: os.lchown(path, 7, 8),
    "utimens": lambda path: os.utime(path, ns=(5, 7)),
    "lutimens": lambda path: os.utime(path, ns=(5, 7), follow_symlinks=False),
    "truncate": lambda path: os.truncate(path, 3),
    "getxattr": lambda path: os.getxattr(path, "user.none"),
    "setxattr": lambda path: os.setxattr(path, "user.x", b"1"),
    "listxattr": os.listxattr,
    "statvfs": lambda path: os.statvfs(path).f_namemax,
}
HOME = []

FLAGS = {
    "RDONLY": os.O_RDONLY,
    "WRONLY": os.O_WRONLY,
    "RDWR": os.O_RDWR,
    "CREAT": os.O_WRONLY | os.O_CREAT,
    "CREAT|EXCL": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "CREAT|TRUNC": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "CREAT|EXCL|TRUNC": os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_TRUNC,
    "TRUNC": os.O_WRONLY | os.O_TRUNC,
    "RDONLY|TRUNC": os.O_RDONLY | os.O_TRUNC,
    "APPEND": os.O_WRONLY | os.O_APPEND,
    "NOFOLLOW": os.O_RDONLY | os.O_NOFOLLOW,
    "CREAT|NOFOLLOW": os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW,
    "DIRECTORY": os.O_RDONLY | os.O_DIRECTORY,
    "DIRECTORY|NOFOLLOW": os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW,
    "DIRECTORY|RDWR": os.O_RDWR | os.O_DIRECTORY,
    "DIRECTORY|CREAT": os.O_RDONLY | os.O_DIRECTORY | os.O_CREAT,
    "PATH": os.O_PATH,
    "PATH|NOFOLLOW": os.O_PATH | os.O_NOFOLLOW,
    "PATH|DIRECTORY": os.O_PATH | os.O_DIRECTORY,
    "SYNC": os.O_WRONLY | os.O_SYNC,
    "CREAT|DSYNC": os.O_WRONLY | os.O_CREAT | os.O_DSYNC,
}


def bind(path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path)


class Bench:
    """Makes each call on a fresh tree; an unchanged tree is reused."""

    def __init__(self):
        self.count = 0
        self.fresh()

    def fresh(self):
        self.count += 1
        os.mkdir(f"../{self.count}" if self.count > 1 else "1")
        os.chdir(f"../{self.count}" if self.count > 1 else "1")
        HOME[:] = [os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        build()
        self.before = tree()

    def call(self, function, *args):
        result = outcome(function, *args)
        if isinstance(result, OpenedFd):
            os.close(result)
            result = "ok"
        changes = changed(self.before, tree())
        if changes:
            os.close(HOME[0])
            self.fresh()
        return result, changes


def every_path(function):
    def run(p):
        bench = Bench()
        for what, path in PATHS.items():
            p.note(what, bench.call(function, path))
    return run


def one_case(name, run):
    run.__name__, run.__module__ = name.replace(" ", "_"), __name__
    case(run)


for call_name, call in CALLS.items():
    one_case(f"{call_name} on each kind of path", every_path(call))

# Opening a fifo must not wait for the other end.
for flags_name, flags in FLAGS.items():
    one_case(f"open {flags_name} on each kind of path",
             every_path(lambda path, flags=flags: opens(path, flags | os.O_NONBLOCK, 0o640)))

SOURCES = ["file", "second link", "dir", "full dir", "link to file", "link to dir", "dangling link", "fifo", "missing",
           "in dir", "below file", "below missing", "file/", "dir/", "full/", "missing/", "link to file/",
           "link to dir/", ".", "dir/.", "dir/..", "empty", "256 bytes", "double slash", "4095 bytes"]
TARGETS = SOURCES + ["255 bytes", "looping link", "dangling/", "through link", "below dangling"]


def every_pair(function):
    def run(p):
        bench = Bench()
        for old in SOURCES:
            for new in TARGETS:
                p.note(f"{old} to {new}", bench.call(function, PATHS[old], PATHS[new]))
    return run


one_case("rename each kind onto each", every_pair(os.rename))
one_case("rename NOREPLACE each kind onto each",
         every_pair(lambda old, new: renameat2(old, new, RENAME_NOREPLACE)))
one_case("rename EXCHANGE each kind with each", every_pair(lambda old, new: renameat2(old, new, RENAME_EXCHANGE)))
one_case("link each kind to each", every_pair(lambda old, new: linkat(old, new, 0)))
one_case("link following each kind to each", every_pair(lambda old, new: linkat(old, new, 0x400)))
