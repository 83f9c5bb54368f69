"""Extended attributes."""
import os
import socket

from probe import *


def make():
    write("file")
    os.mkdir("dir")
    os.symlink("file", "link")
    os.mkfifo("fifo")


@case
def attributes_are_set_read_and_removed(p):
    make()
    for name in ("file", "dir", "link", "fifo"):
        for follow in (True, False):
            for what, call in (("set", lambda: os.setxattr(name, "user.a", b"value", follow_symlinks=follow)),
                               ("get", lambda: os.getxattr(name, "user.a", follow_symlinks=follow)),
                               ("list", lambda: sorted(os.listxattr(name, follow_symlinks=follow))),
                               ("remove", lambda: os.removexattr(name, "user.a", follow_symlinks=follow)),
                               ("remove again", lambda: os.removexattr(name, "user.a", follow_symlinks=follow)),
                               ("get removed", lambda: os.getxattr(name, "user.a", follow_symlinks=follow))):
                p.value(f"{what} {name} {follow}", call)


@case
def create_and_replace_are_told_apart(p):
    make()
    for name in ("file", "dir"):
        for what, flags, value in (("replace missing", os.XATTR_REPLACE, b"1"), ("create", os.XATTR_CREATE, b"2"),
                                   ("create existing", os.XATTR_CREATE, b"3"), ("replace", os.XATTR_REPLACE, b"4"),
                                   ("either", 0, b"5"), ("both", os.XATTR_CREATE | os.XATTR_REPLACE, b"6"),
                                   ("unknown flag", 8, b"7")):
            p.status(f"{what} {name}", os.setxattr, name, "user.x", value, flags)
            p.value(f"value after {what} {name}", os.getxattr, name, "user.x")


@case
def values_are_any_bytes(p):
    write("f")
    for value in (b"", b"\0", b"a\0b", bytes(range(256)), b"x" * 1000, b"y" * 3000):
        p.status(f"set {len(value)}", os.setxattr, "f", f"user.{len(value)}", value)
        p.value(f"get {len(value)}", os.getxattr, "f", f"user.{len(value)}")
        os.removexattr("f", f"user.{len(value)}")
    p.status("too long", os.setxattr, "f", "user.big", b"z" * 65537)


@case
def a_value_is_replaced_by_longer_and_shorter(p):
    write("f")
    for length in (10, 2000, 1, 0, 500):
        os.setxattr("f", "user.v", b"v" * length)
        p.value(f"length {length}", os.getxattr, "f", "user.v")


@case
def names_have_their_limits(p):
    write("f")
    for name in ("user.", "user", "", "nodot", "none.x", "user." + "n" * 250, "user." + "n" * 251, "user.a.b", "user. ",
                 "user.\u00e9", "user.\udcff", "trusted.t", "security.s", "system.none", "USER.x"):
        p.status(f"set {ascii(name)[:20]} {len(name)}", os.setxattr, "f", name, b"1")
        p.value(f"get {ascii(name)[:20]} {len(name)}", os.getxattr, "f", name)
    p.value("list", lambda: sorted(name for name in os.listxattr("f")))


@case
def small_buffers_are_refused(p):
    write("f")
    os.setxattr("f", "user.abc", b"0123456789")
    os.setxattr("f", "user.de", b"")
    for size in (0, 1, 9, 10, 11):
        p.value(f"get {size}", raw_getxattr, "f", "user.abc", size)
    for size in (0, 1, 8, 16, 17, 18, 100):
        p.value(f"list {size}", raw_listxattr, "f", size)


@case
def attributes_follow_the_file(p):
    write("f")
    os.setxattr("f", "user.k", b"kept")
    os.link("f", "l")
    p.value("through a link", os.getxattr, "l", "user.k")
    os.setxattr("l", "user.k", b"changed")
    p.value("changed through a link", os.getxattr, "f", "user.k")
    os.rename("f", "g")
    p.value("renamed", os.getxattr, "g", "user.k")
    with opened("g") as fd:
        p.value("by descriptor", os.getxattr, fd, "user.k")
        os.unlink("g")
        os.unlink("l")
        p.value("unlinked", os.getxattr, fd, "user.k")
    write("g")
    p.value("a new file has none", os.listxattr, "g")


@case
def many_attributes(p):
    write("f")
    for number in range(40):
        p.status(f"set {number}", os.setxattr, "f", f"user.name{number}", str(number).encode())
    p.value("list", lambda: sorted(os.listxattr("f")))
    p.note("values", [os.getxattr("f", f"user.name{number}") for number in range(40)])
    for number in range(0, 40, 2):
        os.removexattr("f", f"user.name{number}")
    p.value("half", lambda: sorted(os.listxattr("f")))


@case
def who_may_use_them(p):
    make()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    os.setxattr("file", "trusted.secret", b"root's")
    os.mkdir("sticky")
    own("sticky", ROOT, 0o1777)

    def act(p):
        for name in ("file", "dir", "sticky", "fifo", "socket", "missing"):
            p.value(f"get {name}", os.getxattr, name, "user.x")
            p.status(f"set {name}", os.setxattr, name, "user.x", b"1")
            p.value(f"list {name}", os.listxattr, name)
            p.value(f"trusted {name}", os.getxattr, name, "trusted.secret")
            p.status(f"set trusted {name}", os.setxattr, name, "trusted.new", b"1")
    p.as_user(OTHER, act)
    os.chmod("file", 0o666)
    p.as_user(MEMBER, lambda p: p.status("writable by all", os.setxattr, "file", "user.y", b"1"))
