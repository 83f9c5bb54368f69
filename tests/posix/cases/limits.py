"""Limits, and the boundaries of a filesystem."""
import os
import resource
import signal

from probe import *


@case
def a_process_limit_on_file_size_holds(p):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        p.value("below", os.pwrite, fd, b"x" * 9000, 0)
        p.value("across", os.pwrite, fd, b"y" * 5000, 8000)
        p.value("beyond", os.pwrite, fd, b"z", 10000)
        p.status("truncate to", os.ftruncate, fd, 10000)
        p.status("truncate beyond", os.ftruncate, fd, 10001)
        p.status("fallocate beyond", fallocate, fd, 0, 0, 20000)
        p.stat("size", fd)


@case
def offsets_that_no_file_has(p):
    """Maximum sizes differ between filesystems: the call fails with EFBIG or succeeds correctly."""
    write("f")
    with opened("f") as fd:
        for size in (10**15, 1 << 62, (1 << 63) - 1):
            done = status(os.ftruncate, fd, size)
            p.note(f"truncate to {size}", done == "EFBIG" or done == "ok" and os.fstat(fd).st_size == size)
            os.ftruncate(fd, 8)
        p.status("write past everything", os.pwrite, fd, b"xy", (1 << 63) - 1)
        p.value("read past everything", lambda: status(os.pread, fd, 10, (1 << 63) - 20) in ("ok", "EINVAL"))
        p.stat("untouched", fd)
        p.value("content", os.pread, fd, 100, 0)


@case
def another_filesystem_is_another(p):
    write("f")
    os.mkdir("d")
    for what, call in (("rename", lambda: os.rename("f", "/proc/f")), ("rename dir", lambda: os.rename("d", "/proc/d")),
                       ("rename from", lambda: os.rename("/proc/version", "v")),
                       ("link", lambda: os.link("f", "/proc/f")),
                       ("link from", lambda: os.link("/proc/version", "v")),
                       ("exchange", lambda: renameat2("f", "/proc/version", RENAME_EXCHANGE))):
        p.status(what, call)
    p.value("tree", tree)


@case
def statvfs_makes_sense(p):
    write("f", b"x" * 100_000)
    whole, by_file = os.statvfs("."), os.statvfs("f")
    with opened("f") as fd:
        by_descriptor = os.statvfs(fd)
    for what, found in (("directory", whole), ("file", by_file), ("descriptor", by_descriptor)):
        p.note(f"{what}: names", found.f_namemax)
        p.note(f"{what}: block size", found.f_bsize > 0 and found.f_frsize > 0)
        p.note(f"{what}: blocks", found.f_bavail <= found.f_bfree <= found.f_blocks)
        p.note(f"{what}: room", found.f_bavail > 0 and found.f_blocks > 0)
        p.note(f"{what}: writable", not found.f_flag & os.ST_RDONLY)
    # A mount's total is the agent's size plus the free space of its disk, which others change meanwhile.
    p.note("one block size", whole.f_frsize == by_file.f_frsize == by_descriptor.f_frsize)


@case
def inodes_and_devices_are_stable(p):
    write("f")
    os.mkdir("d")
    first = {name: (os.stat(name).st_ino, os.stat(name).st_dev) for name in ("f", "d", ".")}
    write("f", b"changed")
    os.rename("f", "d/g")
    p.note("file", (os.stat("d/g").st_ino, os.stat("d/g").st_dev) == first["f"])
    p.note("another process", in_child(lambda: os.stat("d").st_ino) == first["d"][0])
    p.note("by descriptor", all(os.fstat(os.open(name, os.O_RDONLY)).st_ino == first[name][0] for name in ("d", ".")))
    p.note("all different", len({value for value in first.values()}))
    p.note("one device", len({device for _, device in first.values()}))
    p.note("parent", os.stat("d/..").st_ino == first["."][0])


@case
def many_open_files(p):
    fds = []
    for number in range(500):
        fds.append(os.open(f"f{number}", os.O_RDWR | os.O_CREAT))
        os.write(fds[-1], f"content {number}".encode())
    p.note("content", all(os.pread(fd, 100, 0) == f"content {number}".encode() for number, fd in enumerate(fds)))
    for fd in fds:
        os.close(fd)
    p.note("by name", all(read(f"f{number}") == f"content {number}".encode() for number in range(500)))


@case
def many_links(p):
    write("f")
    p.note("made", sum(status(os.link, "f", f"l{number}") == "ok" for number in range(1000)))
    p.stat("counted", "f")


@case
def a_loop_of_directories_cannot_be_made(p):
    os.makedirs("a/b/c")
    with opened("a/b/c", os.O_RDONLY | os.O_DIRECTORY) as c:
        p.status("into its child", os.rename, "a", "x", dst_dir_fd=c)
        p.status("exchange with its child", renameat2, "a", "a/b", RENAME_EXCHANGE)
        p.status("exchange with its parent", renameat2, "a/b/c", "a", RENAME_EXCHANGE)
    p.value("tree", tree)
