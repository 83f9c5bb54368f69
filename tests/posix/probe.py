"""The notes of a parity case, and the system calls that Python does not offer.

A case is a function of one `Probe`, run in its own process whose working directory is fresh. It is run on a plain
directory and on the mount; every note must come out the same.
"""
import contextlib
import ctypes
import errno
import os
import pickle
import signal
import stat
import struct
import time

CASES = {}
LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 0x10
CLOCK_REALTIME_COARSE = 5
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2

# Users of the permission cases: arbitrary ids, which need no names.
OWNER, MEMBER, OTHER = (7001, 7001), (7002, 7001), (7003, 7003)
ROOT = (0, 0)


def case(function):
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    assert name not in CASES, name
    CASES[name] = function
    return function


def errno_name(error):
    return errno.errorcode.get(error.errno, str(error.errno)) if isinstance(error, OSError) else repr(error)


def outcome(function, *args, **options):
    """The function's result, or the errno's name."""
    try:
        return function(*args, **options)
    except (OSError, ValueError, OverflowError) as error:
        return errno_name(error)


def status(function, *args, **options):
    """'ok', or the errno's name."""
    result = None
    try:
        result = function(*args, **options)
    except (OSError, ValueError, OverflowError) as error:
        return errno_name(error)
    finally:
        if isinstance(result, OpenedFd):
            os.close(result)
    return "ok"


class OpenedFd(int):
    """A descriptor of which only the opening matters."""


def opens(path, flags, mode=0o666, **options):
    return OpenedFd(os.open(path, flags | os.O_CLOEXEC, mode, **options))


class Probe:
    def __init__(self):
        self.notes = {}

    def note(self, what, value):
        assert what not in self.notes, f"noted twice: {what}"
        self.notes[what] = value

    def value(self, what, function, *args, **options):
        self.note(what, outcome(function, *args, **options))

    def status(self, what, function, *args, **options):
        self.note(what, status(function, *args, **options))

    def stat(self, what, path, **options):
        self.note(what, outcome(lambda: describe(os.lstat(path, **options) if isinstance(path, (str, bytes))
                                                 else os.fstat(path))))

    def as_user(self, who, function, *args, groups=()):
        """Runs the function with this probe as another user, and takes over its notes."""
        def be_them():
            become(who, groups)
            before = set(self.notes)
            function(self, *args)
            return {what: value for what, value in self.notes.items() if what not in before}
        self.notes |= in_child(be_them)


def become(who, groups=()):
    os.setgroups(groups)
    os.setresgid(who[1], who[1], who[1])
    os.setresuid(who[0], who[0], who[0])


def in_child(function):
    """Runs the function in a child process; returns its result or raises its exception."""
    return start_child(function)()


def start_child(function):
    """Starts the function in a child process; calling the result waits for the function's result."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        with os.fdopen(theirs, "wb") as pipe:
            pickle.dump(caught(function), pipe)
        os._exit(0)
    os.close(theirs)

    def finish():
        with os.fdopen(ours, "rb") as pipe:
            data = pipe.read()
        os.waitpid(pid, 0)
        good, value = pickle.loads(data) if data else (False, "the child died")
        if not good:
            raise ChildFailed(value)
        return value
    return finish


class ChildFailed(Exception):
    pass


def caught(function):
    try:
        return True, function()
    except BaseException as error:  # in a forked child: it must never continue with the parent's code
        return False, f"{type(error).__name__}: {error}"


# Fixtures

def write(path, data=b"content\n", mode=0o644):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with open(fd, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


@contextlib.contextmanager
def opened(path, flags=os.O_RDWR, mode=0o666, **options):
    fd = os.open(path, flags | os.O_CLOEXEC, mode, **options)
    try:
        yield fd
    finally:
        os.close(fd)


def own(path, who, mode=None):
    os.chown(path, *who, follow_symlinks=False)
    if mode is not None:
        os.chmod(path, mode)


def describe(found):
    """The fields of a stat that must be equal everywhere. Sizes of directories differ between filesystems."""
    size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return (f"{stat.filemode(found.st_mode)} links {found.st_nlink} owner {found.st_uid}:{found.st_gid} size {size}"
            + (f" device {found.st_rdev}" if found.st_rdev else ""))


def tree(top="."):
    """Path → description of the node, for everything below."""
    found = {}
    for directory, dirs, files in os.walk(os.fsencode(top)):
        found[directory] = describe(os.lstat(directory))
        for name in files + [d for d in dirs if os.path.islink(os.path.join(directory, d))]:
            found[os.path.join(directory, name)] = node(os.path.join(directory, name))
    return found


def node(path):
    found = os.lstat(path)
    content = b""
    if stat.S_ISLNK(found.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(found.st_mode):
        content = outcome(read, path)
    return f"{describe(found)} {content}"


def changed(before, after):
    return [f"{os.fsdecode(path)}: {before.get(path)} -> {after.get(path)}"
            for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]


def let_clock_pass(path):
    """Waits until the kernel's coarse clock is past every time of the node, so that a new time differs."""
    found = os.lstat(path)
    newest = max(found.st_mtime_ns, found.st_ctime_ns)
    while time.clock_gettime_ns(CLOCK_REALTIME_COARSE) <= newest:
        time.sleep(0.001)


# System calls

def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def renameat2(old, new, flags):
    checked(LIBC.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags))


def fallocate(fd, mode, offset, length):
    checked(LIBC.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def utimensat(path, atime, mtime, flags=0):
    """Times are (seconds, nanoseconds) pairs, where nanoseconds may be UTIME_NOW or UTIME_OMIT."""
    checked(LIBC.utimensat(AT_FDCWD, os.fsencode(path), struct.pack("qqqq", *atime, *mtime), flags))


def linkat(old, new, flags):
    checked(LIBC.linkat(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags))


def faccessat2(path, mode, flags):
    checked(LIBC.syscall(439, AT_FDCWD, os.fsencode(path), mode, flags))


def raw_getxattr(path, name, size):
    buffer = ctypes.create_string_buffer(max(size, 1))
    return checked(LIBC.getxattr(os.fsencode(path), os.fsencode(name), buffer, ctypes.c_size_t(size)))


def raw_listxattr(path, size):
    buffer = ctypes.create_string_buffer(max(size, 1))
    return checked(LIBC.listxattr(os.fsencode(path), buffer, ctypes.c_size_t(size)))


def alarm_after(seconds):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
