"""Times: what can be set, and which call changes which time of which node."""
import mmap
import os

from probe import *

PAST = (1_000_000_000, 123_456_789)


@case
def times_have_nanoseconds(p):
    write("f")
    os.mkdir("d")
    os.symlink("f", "s")
    for name in ("f", "d", "s"):
        for atime, mtime in (((1, 1), (2, 999_999_999)), ((0, 0), (0, 0)), ((2**31, 5), (2**31 + 1, 6)),
                             ((-1, 0), (-5, 7)), ((2**33, 1), (2**33, 2)), (PAST, PAST)):
            p.status(f"set {name} {atime} {mtime}", utimensat, name, atime, mtime, 0x100)
            found = os.lstat(name)
            p.note(f"got {name} {atime} {mtime}", (found.st_atime_ns, found.st_mtime_ns))


@case
def now_and_omit_are_understood(p):
    cases = {"now": (0, UTIME_NOW), "omit": (0, UTIME_OMIT), "set": (5, 6)}
    for first, atime in cases.items():
        for second, mtime in cases.items():
            write("f")
            utimensat("f", PAST, PAST)
            before = os.stat("f")
            let_clock_pass("f")
            p.status(f"{first} {second}", utimensat, "f", atime, mtime)
            after = os.stat("f")
            p.note(f"{first} {second} kinds", [kind(after.st_atime_ns), kind(after.st_mtime_ns)])
            p.note(f"{first} {second} ctime moved", after.st_ctime_ns != before.st_ctime_ns)
    p.status("bad nanoseconds", utimensat, "f", (0, 10**9), (0, 0))
    p.status("negative nanoseconds", utimensat, "f", (0, -1), (0, 0))


def kind(nanoseconds):
    past = PAST[0] * 10**9 + PAST[1]
    return "past" if nanoseconds == past else "set" if nanoseconds == 5 * 10**9 + 6 else "now"


def on(path, call, flags=os.O_RDWR):
    with opened(path, flags) as fd:
        return call(fd)


def write_mapped(fd):
    with mmap.mmap(fd, 4) as mapped:
        mapped[0:4] = b"mmap"
        mapped.flush()


# Without writing to a fifo: the kernel keeps the content and does not notify a FUSE server.
MOVES = {
    "nothing": lambda: None,
    "stat": lambda: os.stat("d/f"),
    "open and close": lambda: on("d/f", lambda fd: None),
    "write": lambda: on("d/f", lambda fd: os.write(fd, b"x")),
    "write nothing": lambda: on("d/f", lambda fd: os.write(fd, b"")),
    "pwrite past the end": lambda: on("d/f", lambda fd: os.pwrite(fd, b"x", 5000)),
    "append": lambda: on("d/f", lambda fd: os.write(fd, b"x"), os.O_WRONLY | os.O_APPEND),
    "write and fsync": lambda: on("d/f", lambda fd: (os.write(fd, b"x"), os.fsync(fd))),
    "write mapped": lambda: on("d/f", write_mapped),
    "truncate shorter": lambda: os.truncate("d/f", 1),
    "truncate same": lambda: os.truncate("d/f", 8),
    "truncate longer": lambda: os.truncate("d/f", 100),
    "ftruncate same": lambda: on("d/f", lambda fd: os.ftruncate(fd, 8)),
    "open truncating": lambda: on("d/f", lambda fd: None, os.O_WRONLY | os.O_TRUNC),
    "open truncating empty": lambda: on("d/empty", lambda fd: None, os.O_WRONLY | os.O_TRUNC),
    "fallocate": lambda: on("d/f", lambda fd: fallocate(fd, 0, 0, 10000)),
    "punch": lambda: on("d/f", lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4)),
    "create": lambda: write("d/new"),
    "create over existing": lambda: on("d/f", lambda fd: None, os.O_WRONLY | os.O_CREAT),
    "exclusive existing": lambda: outcome(os.open, "d/f", os.O_CREAT | os.O_EXCL),
    "mkdir": lambda: os.mkdir("d/new"),
    "mkdir existing": lambda: outcome(os.mkdir, "d/sub"),
    "symlink": lambda: os.symlink("x", "d/new"),
    "mkfifo": lambda: os.mkfifo("d/new"),
    "link": lambda: os.link("d/f", "e/new"),
    "unlink": lambda: os.unlink("d/f"),
    "unlink second": lambda: os.unlink("d/second"),
    "unlink missing": lambda: outcome(os.unlink, "d/missing"),
    "rmdir": lambda: os.rmdir("d/sub"),
    "rmdir full": lambda: outcome(os.rmdir, "d"),
    "rename": lambda: os.rename("d/f", "d/g"),
    "rename away": lambda: os.rename("d/f", "e/g"),
    "rename over": lambda: os.rename("d/f", "e/other"),
    "rename dir": lambda: os.rename("d/sub", "e/sub"),
    "rename onto itself": lambda: os.rename("d/f", "d/f"),
    "rename onto own link": lambda: os.rename("d/f", "d/second"),
    "rename failing": lambda: outcome(os.rename, "d/f", "d/sub"),
    "exchange": lambda: renameat2("d/f", "e/other", RENAME_EXCHANGE),
    "chmod": lambda: os.chmod("d/f", 0o600),
    "chmod same": lambda: os.chmod("d/f", 0o644),
    "chmod dir": lambda: os.chmod("d", 0o700),
    "chown": lambda: os.chown("d/f", 1, 1),
    "chown same": lambda: os.chown("d/f", 0, 0),
    "utimes": lambda: os.utime("d/f", ns=(1, 1)),
    "utimes now": lambda: os.utime("d/f"),
    "utimes of dir": lambda: os.utime("d", ns=(1, 1)),
    "setxattr": lambda: os.setxattr("d/f", "user.x", b"1"),
    "removexattr missing": lambda: outcome(os.removexattr, "d/f", "user.y"),
    "getxattr": lambda: outcome(os.getxattr, "d/f", "user.x"),
    "list": lambda: os.listdir("d"),
    "readlink": lambda: os.readlink("d/s"),
    "copy_file_range": lambda: on("e/other", lambda source: on("d/f", lambda fd: os.copy_file_range(source, fd, 4))),
}


def watch(call):
    """The times that the call changed, for each existing node; nodes are followed by descriptor if they move."""
    os.makedirs("d/sub")
    os.mkdir("e")
    for name in ("d/f", "e/other", "d/empty"):
        write(name, b"" if name == "d/empty" else b"content\n")
    os.link("d/f", "d/second")
    os.symlink("f", "d/s")
    os.mkfifo("d/fifo")
    names = ["d", "d/f", "d/sub", "d/s", "d/fifo", "d/empty", "e", "e/other"]
    held = {name: os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) for name in names}
    before = {name: os.fstat(fd) for name, fd in held.items()}
    for name in names:
        let_clock_pass(name)
    call()
    moved = []
    for name, fd in held.items():
        after = os.fstat(fd)
        moved += [f"{name} {time}" for time in ("mtime", "ctime")
                  if getattr(after, f"st_{time}_ns") != getattr(before[name], f"st_{time}_ns")]
        os.close(fd)
    return moved


@case
def calls_move_the_times_they_should(p):
    for number, (what, call) in enumerate(MOVES.items()):
        os.mkdir(str(number))
        os.chdir(str(number))
        p.value(what, watch, call)
        os.chdir("..")


@case
def a_new_node_has_one_time(p):
    write("f", b"")
    os.mkdir("d")
    os.symlink("x", "s")
    os.mkfifo("p")
    for name in ("f", "d", "s", "p"):
        found = os.lstat(name)
        p.note(f"{name} of now", found.st_mtime_ns == found.st_ctime_ns)
    p.note("the parent's is not older", os.stat(".").st_mtime_ns >= os.lstat("p").st_mtime_ns)


@case
def set_times_stay_through_close_and_rename(p):
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        os.write(fd, b"data" * 5000)
        os.utime(fd, ns=(10**18, 10**18 + 1))
        p.note("while open", os.fstat(fd).st_mtime_ns)
    p.note("closed", os.stat("f").st_mtime_ns)
    os.rename("f", "g")
    p.note("renamed", os.stat("g").st_mtime_ns)
    p.value("read", lambda: len(read("g")))
    p.note("after reading", os.stat("g").st_mtime_ns)
    with opened("g") as fd:
        os.fsync(fd)
    p.note("after fsync", os.stat("g").st_mtime_ns)
