"""The effects of open's flags: appending, direct, path-only, temporary, truncating."""
import errno
import mmap
import os

from probe import *


@case
def an_access_mode_binds_its_descriptor(p):
    write("f")
    ways = {"read": os.O_RDONLY, "write": os.O_WRONLY, "path": os.O_PATH, "append": os.O_RDWR | os.O_APPEND}
    for name, flags in ways.items():
        with opened("f", flags) as fd:
            for what, call in (("read", lambda: os.read(fd, 3)), ("write", lambda: os.write(fd, b"y")),
                               ("pwrite", lambda: os.pwrite(fd, b"z", 0)), ("ftruncate", lambda: os.ftruncate(fd, 5)),
                               ("fchmod", lambda: os.fchmod(fd, 0o640)), ("stat", lambda: describe(os.fstat(fd))),
                               ("fallocate", lambda: fallocate(fd, 0, 0, 6)), ("fsync", lambda: os.fsync(fd)),
                               ("setxattr", lambda: os.setxattr(fd, "user.a", b"b")),
                               ("seek", lambda: os.lseek(fd, 2, os.SEEK_SET)),
                               ("chdir", lambda: os.fchdir(fd)), ("utime", lambda: os.utime(fd, ns=(3, 4))),
                               ("mmap write", lambda: mmap.mmap(fd, 3).close()),
                               ("mmap read", lambda: mmap.mmap(fd, 3, prot=mmap.PROT_READ).close())):
                p.value(f"{what} on {name}", call)
    p.value("content", read, "f")


@case
def exclusive_creation_has_one_winner(p):
    def compete():
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        return [name for name in map(str, range(300)) if status(opens, name, flags) == "ok"]
    wins = [finish() for finish in [start_child(compete) for _ in range(3)]]
    p.note("each name once", sorted(sum(wins, [])) == sorted(map(str, range(300))))
    p.note("files", len(os.listdir(".")))


@case
def exclusive_links_have_one_winner(p):
    for number in range(3):
        write(f"source{number}")

    def compete(number):
        return sum(status(os.link, f"source{number}", f"lock{turn}") == "ok" for turn in range(200))
    wins = [finish() for finish in [start_child(lambda number=number: compete(number)) for number in range(3)]]
    p.note("winners", sum(wins))


@case
def appends_of_two_processes_never_overlap(p):
    def append(letter):
        with opened("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT) as fd:
            for number in range(400):
                os.write(fd, f"{letter}{number:04}{letter * 45}\n".encode())
    for finish in [start_child(lambda letter=letter: append(letter)) for letter in "abc"]:
        finish()
    lines = read("log").split(b"\n")
    p.note("lines", len(lines))
    p.note("whole", all(len(line) == 50 and len(set(line[5:])) == 1 for line in lines[:-1]))
    by_letter = [[line for line in lines if line[:1] == letter] for letter in (b"a", b"b", b"c")]
    p.note("in order", all(part == sorted(part) for part in by_letter))


@case
def appending_ignores_the_position(p):
    write("f", b"start")
    with opened("f", os.O_RDWR | os.O_APPEND) as fd:
        os.lseek(fd, 0, os.SEEK_SET)
        p.value("write", os.write, fd, b"+one")
        p.value("position", os.lseek, fd, 0, os.SEEK_CUR)
        os.truncate("f", 2)
        p.value("after truncate", os.write, fd, b"+two")
        p.value("pwrite appends too", os.pwrite, fd, b"!", 0)
        p.value("read", os.pread, fd, 100, 0)
    with opened("f") as other, opened("f", os.O_WRONLY | os.O_APPEND) as fd:
        os.pwrite(other, b"grown", 100)
        os.write(fd, b"end")
    p.value("after growth", read, "f")


@case
def truncating_on_open_empties_for_all(p):
    write("f", b"x" * 10000)
    with opened("f", os.O_RDONLY) as fd:
        p.value("before", lambda: len(os.pread(fd, 20000, 0)))
        os.close(os.open("f", os.O_WRONLY | os.O_TRUNC))
        p.value("after", os.pread, fd, 100, 0)
        p.stat("size", fd)
        write("f", b"new")
        p.value("again", os.pread, fd, 100, 0)


def aligned(data):
    buffer = mmap.mmap(-1, len(data))
    buffer[:] = data
    return buffer


@case
def direct_and_cached_io_see_each_other(p):
    block = 4096
    fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    p.value("write", os.pwritev, fd, [aligned(b"d" * block * 4)], 0)
    p.value("cached read", lambda: read("f") == b"d" * block * 4)
    with opened("f") as cached:
        os.pwrite(cached, b"c" * block, block)
        os.fsync(cached)
        into = mmap.mmap(-1, block * 8)
        p.value("direct read", os.preadv, fd, [into], 0)
        p.note("what was read", into[:block * 4] == b"d" * block + b"c" * block + b"d" * block * 2)
        os.pwritev(fd, [aligned(b"e" * block)], block)
        p.note("direct write seen", os.pread(cached, block, block) == b"e" * block)
    p.value("at the end", os.preadv, fd, [mmap.mmap(-1, block)], block * 4)
    p.value("past the end", os.preadv, fd, [mmap.mmap(-1, block)], block * 40)
    p.value("growing", os.pwritev, fd, [aligned(b"g" * block)], block * 10)
    p.stat("grown", "f")
    p.value("hole", lambda: read("f")[block * 4:] == bytes(block * 6) + b"g" * block)


@case
def a_path_descriptor_names_but_does_not_open(p):
    write("f", b"data", mode=0o600)
    os.symlink("f", "s")
    with opened("f", os.O_PATH) as fd:
        p.stat("stat", fd)
        p.status("open again", opens, f"/proc/self/fd/{fd}", os.O_RDONLY)
        p.status("link", linkat, f"/proc/self/fd/{fd}", "linked", 0x400)
        p.status("chmod", os.chmod, f"/proc/self/fd/{fd}", 0o640)
        os.unlink("f")
        p.stat("after unlink", fd)
    with opened("s", os.O_PATH | os.O_NOFOLLOW) as fd:
        p.stat("symlink itself", fd)
        p.value("readlink", os.readlink, "", dir_fd=fd)
    p.value("tree", tree)


@case
def a_file_without_a_name_is_right_or_refused(p):
    """A filesystem may refuse O_TMPFILE; one that does not must keep the file hidden until it is linked."""
    try:
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
    except OSError as error:
        p.note("right or refused", error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS))
        return
    os.write(fd, b"temporary")
    hidden = os.listdir(".") == [] and os.fstat(fd).st_nlink == 0
    linkat(f"/proc/self/fd/{fd}", "kept", 0x400)
    os.close(fd)
    p.note("right or refused", hidden and read("kept") == b"temporary" and os.stat("kept").st_nlink == 1)


@case
def a_whiteout_is_right_or_refused(p):
    write("f", b"moved")
    result = status(renameat2, "f", "g", RENAME_WHITEOUT)
    if result == "ok":
        found = os.lstat("f")
        p.note("right or refused", read("g") == b"moved" and found.st_rdev == 0 and describe(found)[0] == "c")
    else:
        p.note("right or refused", result == "EINVAL" and read("f") == b"moved" and not os.path.exists("g"))


@case
def a_shared_descriptor_shares_its_position(p):
    write("f", b"0123456789")
    with opened("f") as fd:
        p.value("parent", os.read, fd, 3)
        p.value("child", lambda: in_child(lambda: os.read(fd, 3)))
        p.value("parent again", os.read, fd, 3)
        copy = os.dup(fd)
        p.value("copy", os.read, copy, 3)
        os.close(copy)
        p.value("whence end", os.lseek, fd, -4, os.SEEK_END)
        p.value("whence current", os.lseek, fd, 1, os.SEEK_CUR)
        p.value("negative", os.lseek, fd, -1, os.SEEK_SET)
        p.value("far", os.lseek, fd, 1 << 40, os.SEEK_SET)
        p.value("read far", os.read, fd, 10)


@case
def programs_run_from_it(p):
    write("script", b"#!/bin/sh\necho ran \"$@\"\nexit 3\n", mode=0o755)
    write("plain", b"#!/bin/sh\nexit 0\n", mode=0o644)

    def execute(name, *args):
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(theirs, 1)
                os.execv(name, [name, *args])
            except OSError as error:
                os._exit(error.errno)
        os.close(theirs)
        with os.fdopen(ours, "rb") as pipe:
            text = pipe.read()
        return text, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    p.value("script", execute, "./script", "a", "b")
    p.value("not executable", execute, "./plain")
    p.value("missing", execute, "./missing")
    p.value("directory", execute, ".")
    write("copy", read("/bin/true"), mode=0o755)
    p.value("binary", execute, "./copy")
    with opened("copy", os.O_WRONLY):
        p.value("while written", execute, "./copy")
