"""Reading directories, also while they change."""
import ctypes
import os
import stat

from probe import *


class Entry(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_int64), ("length", ctypes.c_uint16),
                ("kind", ctypes.c_uint8), ("name", ctypes.c_char * 256)]


LIBC.opendir.restype = ctypes.c_void_p
LIBC.opendir.argtypes = [ctypes.c_char_p]
LIBC.readdir.restype = ctypes.POINTER(Entry)
LIBC.telldir.restype = ctypes.c_long
LIBC.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
for function in (LIBC.readdir, LIBC.telldir, LIBC.rewinddir, LIBC.closedir):
    function.argtypes = [ctypes.c_void_p]


class Stream:
    def __init__(self, path="."):
        self.handle = LIBC.opendir(os.fsencode(path))
        assert self.handle

    def next(self):
        """(name, inode, kind), or nothing at the end."""
        found = LIBC.readdir(self.handle)
        return (found.contents.name, found.contents.ino, found.contents.kind) if found else None

    def rest(self):
        found = []
        while entry := self.next():
            found.append(entry)
        return found

    def close(self):
        LIBC.closedir(self.handle)


def names(entries):
    return [name for name, _, _ in entries if name not in (b".", b"..")]


@case
def every_entry_comes_once(p):
    for count in (0, 1, 2, 100, 5000):
        os.mkdir(str(count))
        expected = sorted(f"entry-{number}".encode() for number in range(count))
        for name in expected:
            os.close(os.open(f"{count}/".encode() + name, os.O_CREAT | os.O_WRONLY))
        stream = Stream(str(count))
        found = stream.rest()
        p.note(f"{count} entries", sorted(names(found)) == expected)
        p.note(f"dots of {count}", sorted(name for name, _, _ in found if name in (b".", b"..")))
        stream.close()


@case
def long_names_are_listed_whole(p):
    made = sorted(bytes([65 + number % 26]) * (255 - number % 3) + b"" for number in range(26))
    for name in made:
        write(name)
    p.value("list", lambda: sorted(os.listdir(b".")) == made)


@case
def entries_tell_kind_and_inode(p):
    write("file")
    os.mkdir("dir")
    os.symlink("file", "link")
    os.mkfifo("fifo")
    os.mknod("char", stat.S_IFCHR, os.makedev(240, 1))
    os.mknod("block", stat.S_IFBLK, os.makedev(240, 1))
    os.mknod("socket", stat.S_IFSOCK)
    stream = Stream()
    found = stream.rest()
    p.note("kinds", sorted((name, kind) for name, _, kind in found))
    p.note("inodes", all(os.lstat(name).st_ino == ino for name, ino, _ in found if name not in (b".", b"..")))
    p.note("own inode", all(os.stat(".").st_ino == ino for name, ino, _ in found if name == b"."))


@case
def a_position_can_be_returned_to(p):
    for number in range(1500):
        os.close(os.open(f"n{number}", os.O_CREAT | os.O_WRONLY))
    stream = Stream()
    places, order = [], []
    while True:
        places.append(LIBC.telldir(stream.handle))
        entry = stream.next()
        if not entry:
            break
        order.append(entry)
    back = []
    for index in (0, 1, 2, 700, 1000, len(order) - 1, 5, len(order)):
        LIBC.seekdir(stream.handle, places[index])
        back.append(stream.next() == (order[index] if index < len(order) else None))
    p.note("each place", back)
    LIBC.rewinddir(stream.handle)
    p.note("again from the start", stream.rest() == order)
    LIBC.seekdir(stream.handle, places[600])
    p.note("the rest from a place", stream.rest() == order[600:])
    stream.close()


@case
def what_stays_is_listed_once_while_others_go(p):
    for number in range(3000):
        os.close(os.open(f"{'stay' if number % 2 else 'go'}{number}", os.O_CREAT | os.O_WRONLY))
    stream = Stream()
    seen = [stream.next() for _ in range(50)]
    for number in range(0, 3000, 2):
        os.unlink(f"go{number}")
    seen += stream.rest()
    staying = [name for name in names(seen) if name.startswith(b"stay")]
    p.note("staying once each", sorted(staying) == sorted(f"stay{number}".encode() for number in range(1, 3000, 2)))
    p.note("nothing twice", len(set(names(seen))) == len(names(seen)))
    stream.close()


@case
def what_was_there_is_listed_once_while_others_come(p):
    for number in range(2000):
        os.close(os.open(f"old{number}", os.O_CREAT | os.O_WRONLY))
    stream = Stream()
    seen = [stream.next() for _ in range(50)]
    for number in range(1000):
        os.close(os.open(f"new{number}", os.O_CREAT | os.O_WRONLY))
    seen += stream.rest()
    old = [name for name in names(seen) if name.startswith(b"old")]
    p.note("old once each", sorted(old) == sorted(f"old{number}".encode() for number in range(2000)))
    p.note("nothing twice", len(set(names(seen))) == len(names(seen)))
    LIBC.rewinddir(stream.handle)
    p.note("rewound shows all", len(names(stream.rest())))
    stream.close()


@case
def removing_while_listing_empties(p):
    """Like rm -r: list, remove the listed entries, until nothing is left."""
    os.mkdir("d")
    for number in range(2500):
        os.close(os.open(f"d/{number}", os.O_CREAT | os.O_WRONLY))
    stream = Stream("d")
    while entry := stream.next():
        if entry[0] not in (b".", b".."):
            os.unlink(b"d/" + entry[0])
    stream.close()
    p.value("left", os.listdir, "d")
    p.status("rmdir", os.rmdir, "d")


@case
def listings_are_never_stale(p):
    """Each change shows in the next listing, however often the directory was listed before."""
    seen = []
    for turn in range(20):
        os.listdir(".")
        write(f"f{turn}")
        seen.append(sorted(os.listdir(".")))
        if turn % 3 == 0:
            os.rename(f"f{turn}", f"g{turn}")
        if turn % 4 == 0:
            os.unlink(f"f{turn}" if turn % 3 else f"g{turn}")
        in_child(lambda: write(f"child{turn}"))
        seen.append(sorted(os.listdir(".")))
    p.note("listings", seen)


@case
def missing_names_appear_when_made(p):
    seen = []
    for turn in range(20):
        seen.append(status(os.stat, f"f{turn}"))
        in_child(lambda: write(f"f{turn}", str(turn).encode()))
        seen.append(outcome(read, f"f{turn}"))
        in_child(lambda: os.unlink(f"f{turn}"))
        seen.append(status(os.stat, f"f{turn}"))
    p.note("seen", seen)
