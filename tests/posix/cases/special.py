"""Fifos, sockets and device nodes in actual use."""
import os
import select
import socket
import stat

from probe import *


@case
def a_fifo_joins_two_processes(p):
    os.mkfifo("fifo", 0o640)
    p.stat("stat", "fifo")

    def send():
        with open("fifo", "wb") as out:
            out.write(b"through the fifo" * 1000)
    finish = start_child(send)
    p.value("received", lambda: read("fifo") == b"through the fifo" * 1000)
    finish()
    p.stat("holds nothing", "fifo")


@case
def a_fifo_without_its_other_end(p):
    os.mkfifo("fifo")
    p.status("write", opens, "fifo", os.O_WRONLY | os.O_NONBLOCK)
    p.status("read", opens, "fifo", os.O_RDONLY | os.O_NONBLOCK)
    with opened("fifo", os.O_RDWR) as fd:
        os.write(fd, b"both ends")
        p.value("both", os.read, fd, 100)
        p.value("seek", os.lseek, fd, 0, os.SEEK_SET)
        p.status("truncate", os.ftruncate, fd, 0)
        os.rename("fifo", "renamed")
        with opened("renamed", os.O_WRONLY | os.O_NONBLOCK) as other:
            os.write(other, b"renamed")
        p.value("after renaming", os.read, fd, 100)
    p.status("truncate by name", os.truncate, "renamed", 0)


@case
def a_linked_fifo_is_one_fifo(p):
    os.mkfifo("a")
    os.link("a", "b")
    with opened("a", os.O_RDONLY | os.O_NONBLOCK) as reader, opened("b", os.O_WRONLY | os.O_NONBLOCK) as writer:
        os.write(writer, b"linked")
        p.value("read", os.read, reader, 10)
        p.value("ready", lambda: select.select([reader], [], [], 0)[0] == [])
    p.stat("stat", "a")


@case
def sockets_bind_connect_and_talk(p):
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        p.status("connect to nothing", client.connect, "socket")
        server.bind("socket")
        p.stat("stat", "socket")
        p.status("connect before listen", client.connect, "socket")
        server.listen()
        p.status("connect", client.connect, "socket")
        peer, _ = server.accept()
        client.sendall(b"hello")
        p.value("received", peer.recv, 10)
        p.status("open", opens, "socket", os.O_RDONLY)
        p.status("bind again", lambda: socket.socket(socket.AF_UNIX).bind("socket"))
        os.rename("socket", "moved")
        with socket.socket(socket.AF_UNIX) as second:
            p.status("connect renamed", second.connect, "moved")
        peer.close()
    with socket.socket(socket.AF_UNIX) as client:
        p.status("connect after the end", client.connect, "moved")
    write("plain")
    with socket.socket(socket.AF_UNIX) as client:
        p.status("connect to a file", client.connect, "plain")
    p.status("unlink", os.unlink, "moved")


@case
def datagrams_too(p):
    kind = (socket.AF_UNIX, socket.SOCK_DGRAM)
    with socket.socket(*kind) as server, socket.socket(*kind) as client:
        server.bind("dgram")
        client.bind("client")
        client.sendto(b"ping", "dgram")
        p.value("received", server.recvfrom, 10)


@case
def connecting_needs_write_permission(p):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        server.listen()
        for mode in (0o600, 0o622, 0o644):
            os.chmod("socket", mode)

            def act(p):
                with socket.socket(socket.AF_UNIX) as client:
                    p.status(f"connect {oct(mode)}", client.connect, "socket")
            p.as_user(OTHER, act)


@case
def device_nodes_keep_their_numbers(p):
    for what, kind in (("char", stat.S_IFCHR), ("block", stat.S_IFBLK)):
        for major, minor in ((1, 3), (0, 0), (240, 255), (240, 256), (4095, 1048575), (259, 70000)):
            name = f"{what} {major} {minor}"
            p.status(f"make {name}", os.mknod, name, kind | 0o660, os.makedev(major, minor))
            p.stat(name, name)
    os.link("char 1 3", "linked")
    p.stat("linked", "linked")
    os.rename("linked", "renamed")
    p.stat("renamed", "renamed")


@case
def a_null_device_is_one_or_refused(p):
    """A mount may be without devices ('nodev'), and must then refuse to open them."""
    os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.chmod("null", 0o666)
    opened_it = status(opens, "null", os.O_RDWR)
    p.note("right or refused", opened_it == "EACCES" or opened_it == "ok" and read("null") == b"")
    p.stat("stat", "null")
    p.status("no such device", lambda: os.mknod("none", stat.S_IFCHR, os.makedev(240, 255)))
    p.note("no such device is not opened", status(opens, "none", os.O_RDONLY) in ("ENXIO", "EACCES"))


@case
def mknod_makes_only_what_there_is(p):
    for what, kind in (("file", stat.S_IFREG), ("none", 0), ("dir", stat.S_IFDIR), ("link", stat.S_IFLNK),
                       ("socket", stat.S_IFSOCK), ("fifo", stat.S_IFIFO), ("odd", 0o050000)):
        p.status(f"make {what}", os.mknod, what, kind | 0o644)
        p.stat(what, what)
