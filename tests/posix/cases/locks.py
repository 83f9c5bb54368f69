"""Advisory locks between processes: flock, fcntl's, and those of open file descriptions."""
import fcntl
import os
import signal
import struct

from probe import *

F_OFD_GETLK, F_OFD_SETLK = 36, 37
KINDS = {"read": fcntl.F_RDLCK, "write": fcntl.F_WRLCK}


def lock(fd, kind, start=0, length=0, command=fcntl.F_SETLK):
    fcntl.fcntl(fd, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))


def who_holds(fd, kind, start=0, length=0, command=fcntl.F_GETLK):
    """(kind, start, length, held by another process) of the first conflicting lock."""
    asked = struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)
    kind, _, start, length, pid = struct.unpack("hhqqi4x", fcntl.fcntl(fd, command, asked))
    return "nobody" if kind == fcntl.F_UNLCK else (kind, start, length, pid == os.getppid())


def elsewhere(call, *args):
    """Runs in another process, on its own descriptor."""
    def run():
        with opened("f") as fd:
            return outcome(call, fd, *args)
    return in_child(run)


@case
def flock_shares_and_excludes(p):
    write("f")
    for held in (fcntl.LOCK_SH, fcntl.LOCK_EX):
        for wanted in (fcntl.LOCK_SH, fcntl.LOCK_EX):
            with opened("f") as fd:
                fcntl.flock(fd, held)
                p.note(f"{wanted} while {held}", elsewhere(fcntl.flock, wanted | fcntl.LOCK_NB))
            p.note(f"{wanted} after {held} closed", elsewhere(fcntl.flock, wanted | fcntl.LOCK_NB))


@case
def flock_belongs_to_the_open_file(p):
    write("f")
    with opened("f") as first, opened("f") as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        p.status("second descriptor", fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        p.note("inherited", in_child(lambda: outcome(fcntl.flock, first, fcntl.LOCK_EX | fcntl.LOCK_NB)))
        copy = os.dup(first)
        os.close(copy)
        p.status("a copy closed", fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        p.status("down", fcntl.flock, first, fcntl.LOCK_SH)
        p.status("both share", fcntl.flock, second, fcntl.LOCK_SH | fcntl.LOCK_NB)
        p.status("up", fcntl.flock, first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(first, fcntl.LOCK_UN)
        p.status("free", fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    p.status("unlock unlocked", elsewhere, fcntl.flock, fcntl.LOCK_UN)
    with opened(".", os.O_RDONLY) as directory:
        p.status("directory", fcntl.flock, directory, fcntl.LOCK_EX | fcntl.LOCK_NB)


@case
def record_locks_cover_their_bytes(p):
    write("f", b"x" * 1000)
    with opened("f") as fd:
        for held_name, held in KINDS.items():
            lock(fd, held, 100, 50)
            for wanted_name, wanted in KINDS.items():
                for start, length in ((0, 100), (0, 101), (99, 1), (100, 1), (149, 1), (150, 10), (0, 0), (120, 5)):
                    p.note(f"{wanted_name} {start}+{length} while {held_name}", elsewhere(lock, wanted, start, length))
                    p.note(f"in the way of {wanted_name} {start}+{length} while {held_name}",
                           elsewhere(who_holds, wanted, start, length))
        lock(fd, fcntl.F_UNLCK, 110, 10)
        p.note("split", [elsewhere(lock, fcntl.F_WRLCK, start, 1) for start in (100, 109, 110, 119, 120, 149)])
        p.status("own lock over own", lock, fd, fcntl.F_WRLCK, 0, 0)
        p.value("nobody in my own way", who_holds, fd, fcntl.F_WRLCK)


@case
def record_locks_end_with_any_close(p):
    write("f")
    with opened("f") as fd:
        lock(fd, fcntl.F_WRLCK)
        p.note("held", elsewhere(lock, fcntl.F_WRLCK))
        os.close(os.open("f", os.O_RDONLY))
        p.note("gone", elsewhere(lock, fcntl.F_WRLCK))
        lock(fd, fcntl.F_WRLCK)
        p.note("not inherited", in_child(lambda: outcome(lock, fd, fcntl.F_WRLCK)))


@case
def locks_need_the_right_descriptor(p):
    write("f")
    with opened("f", os.O_RDONLY) as reader, opened("f", os.O_WRONLY) as writer:
        p.status("write lock on reader", lock, reader, fcntl.F_WRLCK)
        p.status("read lock on writer", lock, writer, fcntl.F_RDLCK)
        p.status("negative start", lock, writer, fcntl.F_WRLCK, -5, 1)
        p.status("far", lock, writer, fcntl.F_WRLCK, 1 << 40, 1 << 40)
        p.status("bad kind", lock, writer, 9)


@case
def locks_end_with_their_process(p):
    write("f")
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        fd = os.open("f", os.O_RDWR)
        lock(fd, fcntl.F_WRLCK, 0, 10)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(theirs, b"locked")
        signal.pause()
    os.read(ours, 10)
    p.note("held", (elsewhere(lock, fcntl.F_WRLCK), elsewhere(fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB)))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    p.note("released", (elsewhere(lock, fcntl.F_WRLCK), elsewhere(fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB)))


@case
def waiting_locks_are_granted(p):
    """Each of four processes adds to the file under the lock, many times: nothing is lost."""
    ways = (("flock", lambda fd: fcntl.flock(fd, fcntl.LOCK_EX), lambda fd: fcntl.flock(fd, fcntl.LOCK_UN)),
            ("fcntl", lambda fd: lock(fd, fcntl.F_WRLCK, command=fcntl.F_SETLKW), lambda fd: lock(fd, fcntl.F_UNLCK)))
    for what, take, give in ways:
        write("f", b"0")

        def add():
            with opened("f") as fd:
                for _ in range(50):
                    take(fd)
                    os.pwrite(fd, str(int(os.pread(fd, 20, 0)) + 1).encode(), 0)
                    give(fd)
        for finish in [start_child(add) for _ in range(4)]:
            finish()
        p.value(f"sum under {what}", read, "f")


@case
def a_deadlock_is_refused(p):
    write("f", b"x" * 10)
    held, told = os.pipe()

    def cross(mine, other):
        with opened("f") as fd:
            lock(fd, fcntl.F_WRLCK, mine, 1)
            os.write(told, b"1")
            os.read(go[0], 1)
            return outcome(lock, fd, fcntl.F_WRLCK, other, 1, fcntl.F_SETLKW)
    go = os.pipe()
    both = [start_child(lambda: cross(0, 1)), start_child(lambda: cross(1, 0))]
    os.read(held, 1), os.read(held, 1)
    os.write(go[1], b"go")
    p.note("one is refused", sorted(str(finish()) for finish in both))


@case
def locks_of_open_descriptions(p):
    write("f", b"x" * 100)
    with opened("f") as first, opened("f") as second:
        p.status("take", lock, first, fcntl.F_WRLCK, 0, 10, F_OFD_SETLK)
        p.status("conflicts in one process", lock, second, fcntl.F_WRLCK, 5, 10, F_OFD_SETLK)
        p.status("beside", lock, second, fcntl.F_WRLCK, 10, 10, F_OFD_SETLK)
        p.value("in the way", lambda: who_holds(second, fcntl.F_WRLCK, 0, 5, F_OFD_GETLK)[:3])
        p.note("against a record lock", elsewhere(lock, fcntl.F_WRLCK, 0, 5))
        p.note("inherited", in_child(lambda: outcome(lock, first, fcntl.F_WRLCK, 0, 10, F_OFD_SETLK)))
        os.close(os.open("f", os.O_RDONLY))
        p.status("another close keeps it", lock, second, fcntl.F_WRLCK, 0, 5, F_OFD_SETLK)
    p.note("closed", elsewhere(lock, fcntl.F_WRLCK, 0, 0))
