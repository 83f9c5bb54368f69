"""Content: holes, sizes, large offsets, memory maps, and calls that copy bytes without reading them."""
import ctypes
import hashlib
import mmap
import os
import random
import socket

from probe import *

KIB = 1024


def content_of(fd):
    size = os.fstat(fd).st_size
    return os.pread(fd, size + 10, 0)


def pieces(fd):
    """(start, end) of the data ranges according to SEEK_DATA and SEEK_HOLE."""
    found, position, size = [], 0, os.fstat(fd).st_size
    while position < size:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:
            break
        position = os.lseek(fd, start, os.SEEK_HOLE)
        found.append((start, position))
    return found


def seeks_are_valid(fd):
    """Every byte outside the data ranges is zero, and the ranges are ordered, disjoint and inside the file."""
    data, pairs = content_of(fd), pieces(fd)
    ends = [end for pair in pairs for end in pair]
    if ends != sorted(set(ends)) or any(end > len(data) for end in ends):
        return f"out of order: {pairs}"
    outside = [0] + ends + [len(data)]
    for start, end in zip(outside[::2], outside[1::2]):
        if any(data[start:end]):
            return f"bytes in a hole between {start} and {end}"
    return "valid"


@case
def reads_and_writes_at_every_offset(p):
    write("f", b"")
    with opened("f") as fd:
        p.value("read empty", os.read, fd, 10)
        for offset, length in ((0, 1), (4095, 2), (4096, 4096), (10000, 1), (65535, 2), (131072, 131073), (7, 5000)):
            p.value(f"write {length} at {offset}", os.pwrite, fd, bytes([length % 251 + 1]) * length, offset)
            p.stat(f"size after {offset}", fd)
            p.value(f"content after {offset}", lambda: hash_of(content_of(fd)))
        size = os.fstat(fd).st_size
        for offset in (size - 1, size, size + 1, size + 10**6, 1 << 40):
            p.value(f"read at {offset}", os.pread, fd, 10, offset)
        p.value("negative offset", os.pread, fd, 10, -1)
        p.value("negative write", os.pwrite, fd, b"x", -1)
        p.value("write nothing far", os.pwrite, fd, b"", 10**7)
        p.stat("size", fd)


def hash_of(data):
    return len(data), hashlib.sha256(data).hexdigest()[:16]


@case
def random_writes_and_truncates_add_up(p):
    """The same thousand random calls; the content is compared after every fiftieth."""
    dice = random.Random(7)
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        for turn in range(1000):
            choice, offset, length = dice.random(), dice.randrange(300_000), dice.randrange(1, 20_000)
            if choice < 0.7:
                os.pwrite(fd, dice.randbytes(length), offset)
            elif choice < 0.8:
                os.ftruncate(fd, offset)
            elif choice < 0.9:
                fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset, length)
            else:
                fallocate(fd, ZERO_RANGE, offset, length)
            if turn % 50 == 49:
                p.value(f"after {turn}", lambda: hash_of(content_of(fd)))
                p.value(f"seeks after {turn}", seeks_are_valid, fd)
        os.fsync(fd)
    p.value("reopened", lambda: hash_of(read("f")))


@case
def vectors_are_written_whole(p):
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        p.value("writev", os.writev, fd, [b"one", b"", b"two", b"x" * 9000])
        p.value("pwritev", os.pwritev, fd, [b"A", b"B"], 2)
        first, second = bytearray(4), bytearray(20000)
        p.value("preadv", os.preadv, fd, [first, second], 0)
        p.note("first", bytes(first))
        p.value("append", os.pwritev, fd, [b"end"], 0, os.RWF_APPEND)
        p.value("content", lambda: hash_of(content_of(fd)))


@case
def truncation_shortens_and_lengthens_with_zeros(p):
    write("f", b"x" * 10000)
    for size in (9999, 5000, 4096, 4095, 1, 0, 100, 4097, 100_000, 3):
        p.status(f"to {size}", os.truncate, "f", size)
        p.value(f"content at {size}", lambda: hash_of(read("f")))
        p.stat(f"stat at {size}", "f")
    write("f", b"y" * 9000)
    os.truncate("f", 4500)
    os.truncate("f", 9000)
    p.value("cut and regrown", lambda: read("f") == b"y" * 4500 + bytes(4500))
    p.status("negative", os.truncate, "f", -1)
    os.mkdir("d")
    p.status("directory", os.truncate, "d", 0)


@case
def an_open_map_and_a_truncation_agree(p):
    write("f", b"x" * 8192)
    with opened("f") as fd, mmap.mmap(fd, 8192) as mapped:
        os.ftruncate(fd, 4000)
        p.note("rest of the page is zero", mapped[4000:4096] == bytes(96))
        os.ftruncate(fd, 8192)
        p.note("regrown is zero", mapped[4000:8192] == bytes(4192))
        p.note("kept", mapped[:4000] == b"x" * 4000)


@case
def holes_read_as_zeros(p):
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        os.pwrite(fd, b"end", 64 << 20)
        p.stat("size", fd)
        p.note("zeros", not any(os.pread(fd, 1 << 20, 5 << 20)))
        p.note("the hole is seen", os.lseek(fd, 0, os.SEEK_DATA) > 1 << 20)
        p.value("the data is seen", lambda: pieces(fd)[-1][1])
        os.pwrite(fd, b"middle", 32 << 20)
        p.note("pieces", len(pieces(fd)))
        p.value("in order", lambda: [start // (1 << 20) for start, _ in pieces(fd)])


@case
def seeking_data_and_holes_is_valid(p):
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        p.value("data in nothing", os.lseek, fd, 0, os.SEEK_DATA)
        p.value("hole in nothing", os.lseek, fd, 0, os.SEEK_HOLE)
        for offset in (0, 100_000, 1 << 20):
            os.pwrite(fd, b"data" * 3000, offset)
            p.value(f"valid {offset}", seeks_are_valid, fd)
        size = os.fstat(fd).st_size
        p.value("last hole", os.lseek, fd, size - 1, os.SEEK_HOLE)
        for what, whence in (("data", os.SEEK_DATA), ("hole", os.SEEK_HOLE)):
            p.value(f"{what} at the end", os.lseek, fd, size, whence)
            p.value(f"{what} past the end", os.lseek, fd, size + 1, whence)
            p.value(f"{what} negative", os.lseek, fd, -1, whence)
        os.ftruncate(fd, 5 << 20)
        p.value("data after the last", os.lseek, fd, 4 << 20, os.SEEK_DATA)
        p.value("valid after growing", seeks_are_valid, fd)


@case
def far_offsets_work(p):
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        for shift in (31, 32, 33, 40, 43):
            p.value(f"write at 2^{shift}", os.pwrite, fd, b"far", 1 << shift)
            p.value(f"read at 2^{shift}", os.pread, fd, 10, (1 << shift) - 2)
            p.stat(f"stat 2^{shift}", fd)
        os.ftruncate(fd, 1 << 42)
        p.stat("truncated", fd)
        p.value("read cut", os.pread, fd, 10, 1 << 43)


FALLOCATE = {"allocate": 0, "keep size": KEEP_SIZE, "punch": PUNCH_HOLE | KEEP_SIZE, "zero": ZERO_RANGE,
             "zero keep size": ZERO_RANGE | KEEP_SIZE, "punch without keep": PUNCH_HOLE, "unknown mode": 0x800}
RANGES = [(0, 1), (0, 4096), (4096, 4096), (100, 8000), (9000, 5000), (20000, 4096), (0, 0), (-1, 10), (0, -1),
          (1 << 20, 4096), ((1 << 63) - 10, 4096)]


@case
def fallocate_does_what_its_mode_says(p):
    for what, mode in FALLOCATE.items():
        for offset, length in RANGES:
            write("f", b"x" * 10000)
            with opened("f") as fd:
                p.value(f"{what} {offset} {length}", fallocate, fd, mode, offset, length)
                p.stat(f"stat {what} {offset} {length}", fd)
                p.value(f"content {what} {offset} {length}", lambda: hash_of(content_of(fd)))
                p.value(f"seeks {what} {offset} {length}", seeks_are_valid, fd)
    with opened(".", os.O_RDONLY) as fd:
        p.status("directory", fallocate, fd, 0, 0, 10)
    with opened("f", os.O_RDONLY) as fd:
        p.status("read-only", fallocate, fd, 0, 0, 10)


@case
def copies_between_files(p):
    write("source", bytes(range(256)) * 400)
    write("target", b"t" * 50_000)
    with opened("source") as source, opened("target") as target:
        for what, args in (("start", (1000, 0, 0)), ("middle", (5000, 333, 777)),
                           ("to the end", (10**6, 90_000, 40_000)), ("past the source", (100, 10**6, 0)),
                           ("nothing", (0, 0, 0)), ("grow", (5000, 0, 200_000))):
            p.value(what, os.copy_file_range, source, target, *args)
            p.value(f"content after {what}", lambda: hash_of(content_of(target)))
        p.value("by position", os.copy_file_range, source, target, 10)
        p.note("positions", [os.lseek(fd, 0, os.SEEK_CUR) for fd in (source, target)])
        p.status("onto itself overlapping", os.copy_file_range, source, source, 1000, 0, 500)
        p.value("onto itself apart", os.copy_file_range, source, source, 1000, 0, 5000)
        p.value("source after", lambda: hash_of(content_of(source)))
    with opened("source", os.O_RDONLY) as source, opened("target", os.O_RDONLY) as target:
        p.status("into read-only", os.copy_file_range, source, target, 10)
    with opened("source") as source, opened("target", os.O_WRONLY | os.O_APPEND) as target:
        p.status("into appending", os.copy_file_range, source, target, 10)


@case
def copies_over_fresh_writes(p):
    """Data just written through another descriptor is copied, and the copy is visible at once."""
    write("a", b"old" * 5000)
    write("b", b"")
    with opened("a") as a, opened("b") as b:
        os.pread(b, 10, 0)
        os.pwrite(a, b"NEW", 6000)
        p.value("copy", os.copy_file_range, a, b, 15000, 0, 0)
        p.value("seen", lambda: hash_of(read("b")))
        with mmap.mmap(b, 15000) as mapped:
            os.pwrite(a, b"again", 3000)
            p.value("over a map", os.copy_file_range, a, b, 5000, 3000, 3000)
            p.value("seen in the map", lambda: hash_of(mapped[:]))


@case
def sendfile_and_splice_carry_content(p):
    data = random.Random(3).randbytes(200_000)
    write("source", data)
    write("target", b"")
    with opened("source") as source, opened("target") as target:
        p.value("to a file", os.sendfile, target, source, 0, 150_000)
        p.value("from an offset", os.sendfile, target, source, 150_000, 100_000)
        p.value("same", lambda: content_of(target) == data)
        ours, theirs = socket.socketpair()
        p.value("to a socket", os.sendfile, ours.fileno(), source, 100, 5000)
        p.value("received", lambda: theirs.recv(6000, socket.MSG_WAITALL | socket.MSG_DONTWAIT) == data[100:5100])
        read_end, write_end = os.pipe()
        p.value("splice out", os.splice, source, write_end, 3000, offset_src=50)
        p.value("splice in", os.splice, read_end, target, 3000, offset_dst=100_000)
        p.value("spliced", lambda: os.pread(target, 3000, 100_000) == data[50:3050])


@case
def shared_maps_and_reads_agree(p):
    write("f", b"x" * 20000)
    with opened("f") as fd, mmap.mmap(fd, 20000) as mapped:
        mapped[5000:5003] = b"MAP"
        p.value("map to read", os.pread, fd, 3, 5000)
        os.pwrite(fd, b"WRITE", 9000)
        p.note("write to map", mapped[9000:9005])
        mapped.flush()
        p.value("by another descriptor", lambda: read("f")[5000:5003])
        p.value("another process", lambda: in_child(lambda: read("f")[9000:9005]))
        with mmap.mmap(fd, 20000, flags=mmap.MAP_PRIVATE) as private:
            private[0:7] = b"PRIVATE"
        p.value("private stays private", os.pread, fd, 7, 0)
    p.value("after unmapping", lambda: hash_of(read("f")))
    p.stat("size kept", "f")


@case
def two_processes_share_a_map(p):
    write("f", bytes(8192))

    def change():
        with opened("f") as fd, mmap.mmap(fd, 8192) as mapped:
            mapped[0:5] = b"child"
            seen = mapped[4096:4102]
            mapped.flush()
            return bytes(seen)
    with opened("f") as fd, mmap.mmap(fd, 8192) as mapped:
        mapped[4096:4102] = b"parent"
        p.value("child saw", lambda: in_child(change))
        p.note("parent sees", mapped[0:5])
    p.value("content", lambda: hash_of(read("f")))


@case
def a_map_outlives_descriptor_and_name(p):
    write("f", b"m" * 5000)
    fd = os.open("f", os.O_RDWR)
    mapped = mmap.mmap(fd, 5000)
    os.close(fd)
    os.unlink("f")
    mapped[0:4] = b"live"
    p.value("flush", lambda: mapped.flush())
    p.note("content", bytes(mapped[:8]))
    mapped.close()
    p.value("gone", os.listdir, ".")


@case
def a_map_past_the_first_page_is_written_back(p):
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        os.ftruncate(fd, 1 << 20)
        with mmap.mmap(fd, 1 << 20) as mapped:
            for offset in range(0, 1 << 20, 70_001):
                mapped[offset:offset + 4] = b"spot"
            mapped.flush()
        os.fsync(fd)
        p.value("content", lambda: hash_of(content_of(fd)))
        p.value("seeks", seeks_are_valid, fd)


@case
def a_large_file_is_kept(p):
    dice = random.Random(11)
    blocks = [dice.randbytes(1 << 20) for _ in range(16)]
    with opened("f", os.O_WRONLY | os.O_CREAT) as fd:
        p.note("written", [os.write(fd, block) for block in blocks])
    p.value("read", lambda: read("f") == b"".join(blocks))
    p.stat("stat", "f")
    p.note("blocks", os.stat("f").st_blocks * 512 >= 16 << 20)


@case
def syncing_is_allowed_everywhere(p):
    write("f")
    os.mkdir("d")
    os.mkfifo("p")
    for name, flags in (("f", os.O_RDONLY), ("f", os.O_WRONLY), ("d", os.O_RDONLY), (".", os.O_RDONLY)):
        with opened(name, flags) as fd:
            p.status(f"fsync {name} {flags}", os.fsync, fd)
            p.status(f"fdatasync {name} {flags}", os.fdatasync, fd)
            p.status(f"syncfs {name} {flags}", lambda: checked(LIBC.syncfs(fd)))
    with opened("f") as fd:
        p.status("advise", os.posix_fadvise, fd, 0, 0, os.POSIX_FADV_DONTNEED)
        p.value("read after dropping the cache", os.pread, fd, 100, 0)
        p.status("sync range", lambda: checked(LIBC.sync_file_range(fd, ctypes.c_long(0), ctypes.c_long(0), 7)))
