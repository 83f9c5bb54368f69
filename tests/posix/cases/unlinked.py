"""Unlinked files and directories that are still in use."""
import mmap
import os

from probe import *


@case
def an_unlinked_file_lives_until_closed(p):
    write("f", b"still here")
    with opened("f") as fd:
        p.stat("before", fd)
        os.unlink("f")
        p.stat("after", fd)
        p.value("read", os.read, fd, 100)
        p.value("write", os.write, fd, b", more" * 2000)
        p.stat("written", fd)
        p.value("reread", os.pread, fd, 20, 0)
        for what, call in (("ftruncate", lambda: os.ftruncate(fd, 4)), ("fchmod", lambda: os.fchmod(fd, 0o4711)),
                           ("fchown", lambda: os.fchown(fd, 7, 8)), ("futimens", lambda: os.utime(fd, ns=(5, 6))),
                           ("fsync", lambda: os.fsync(fd)), ("fallocate", lambda: fallocate(fd, 0, 0, 10000)),
                           ("setxattr", lambda: os.setxattr(fd, "user.x", b"y")),
                           ("getxattr", lambda: os.getxattr(fd, "user.x")),
                           ("seek data", lambda: os.lseek(fd, 0, os.SEEK_DATA)),
                           ("relink", lambda: linkat(f"/proc/self/fd/{fd}", "again", 0x400)),
                           ("open by proc", lambda: status(opens, f"/proc/self/fd/{fd}", os.O_RDWR)),
                           ("readlink by proc", lambda: os.readlink(f"/proc/self/fd/{fd}").endswith("f (deleted)"))):
            p.value(what, call)
            p.stat(f"stat after {what}", fd)
        p.note("times", os.fstat(fd).st_atime_ns)
        write("f", b"another")
        p.note("another inode", os.stat("f").st_ino != os.fstat(fd).st_ino)
        p.value("the old one", os.pread, fd, 4, 0)
    p.value("left", tree)


@case
def a_file_unlinked_by_another_process_stays(p):
    write("f", b"shared")
    with opened("f") as fd:
        in_child(lambda: os.unlink("f"))
        p.value("read", os.pread, fd, 10, 0)
        p.stat("stat", fd)
        in_child(lambda: os.pwrite(fd, b"SH", 0))
        p.value("the child's write", os.pread, fd, 10, 0)


@case
def one_of_two_links_removed(p):
    write("a", b"two names")
    os.link("a", "b")
    with opened("a") as fd:
        os.unlink("a")
        p.stat("one left", fd)
        os.unlink("b")
        p.stat("none left", fd)
        p.value("read", os.pread, fd, 100, 0)
        p.status("relink", linkat, f"/proc/self/fd/{fd}", "c", 0x400)


@case
def a_linked_descriptor_gives_a_new_name(p):
    write("a", b"named")
    with opened("a") as fd:
        p.status("link", linkat, f"/proc/self/fd/{fd}", "b", 0x400)
        p.stat("stat", fd)
        os.unlink("a")
        p.status("link after unlink", linkat, f"/proc/self/fd/{fd}", "c", 0x400)
    p.value("tree", tree)


@case
def an_unlinked_file_can_be_mapped(p):
    write("f", b"x" * 4096)
    with opened("f") as fd:
        os.unlink("f")
        with mmap.mmap(fd, 4096) as mapped:
            mapped[0:3] = b"map"
            mapped.flush()
            p.value("read", os.pread, fd, 5, 0)


@case
def many_unlinked_files_at_once(p):
    fds = []
    for number in range(100):
        fds.append(os.open("same", os.O_RDWR | os.O_CREAT | os.O_EXCL))
        os.unlink("same")
        os.write(fds[-1], str(number).encode())
    p.note("each its own", [os.pread(fd, 10, 0) for fd in fds])
    p.note("links", {os.fstat(fd).st_nlink for fd in fds})
    p.value("names", os.listdir, ".")


@case
def a_replaced_directory_is_gone_but_open(p):
    os.mkdir("d")
    os.mkdir("e")
    with opened("d", os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.rename("e", "d")
        p.stat("links", fd)
        p.value("list", os.listdir, fd)
        p.status("create", opens, "x", os.O_CREAT | os.O_WRONLY, dir_fd=fd)
        p.status("fchmod", os.fchmod, fd, 0o700)


@case
def a_removed_working_directory(p):
    os.mkdir("d")
    os.chdir("d")
    os.rmdir("../d")
    for what, call in (("stat", lambda: describe(os.stat("."))), ("list", lambda: os.listdir(".")),
                       ("create", lambda: write("x")), ("mkdir", lambda: os.mkdir("x")), ("getcwd", os.getcwd),
                       ("symlink", lambda: os.symlink("a", "x")), ("missing", lambda: os.stat("x")),
                       ("open itself", lambda: status(opens, ".", os.O_RDONLY)),
                       ("chmod", lambda: os.chmod(".", 0o700)), ("parent", lambda: sorted(os.listdir(".."))),
                       ("rmdir again", lambda: os.rmdir("../d")), ("link into", lambda: os.link("../f", "x")),
                       ("rename into", lambda: os.rename("../f", "x")), ("mkfifo", lambda: os.mkfifo("x"))):
        write("../f")
        p.value(what, call)
    p.status("chdir up", os.chdir, "..")
    p.value("tree", tree)


@case
def a_removed_open_directory(p):
    os.makedirs("d/e")
    with opened("d", os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.rmdir("d/e")
        os.rmdir("d")
        p.stat("stat", fd)
        p.value("list", os.listdir, fd)
        p.status("create", opens, "x", os.O_CREAT | os.O_WRONLY, dir_fd=fd)
        p.status("mkdir", os.mkdir, "x", dir_fd=fd)
        p.status("fsync", os.fsync, fd)
        os.mkdir("d")
        p.stat("the new one", "d")
        p.stat("the old one", fd)
