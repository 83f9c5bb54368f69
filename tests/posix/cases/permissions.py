"""Permissions: users and modes, sticky directories, set-id bits, ownership."""
import os
import stat

from probe import *

DIR_MODES = [0o777, 0o1777, 0o755, 0o700, 0o711, 0o733, 0o744, 0o770, 0o1770, 0o750, 0o555, 0o111, 0o000]
USERS = {"root": (ROOT, ()), "owner": (OWNER, ()), "group": (MEMBER, ()), "other": (OTHER, ()),
         "extra group": (OTHER, (OWNER[1],))}


def in_dir(mode, prefix):
    """A directory owned by OWNER with one node of each type, some owned by OTHER."""
    top = prefix + oct(mode)
    os.mkdir(top)
    write(f"{top}/file")
    write(f"{top}/theirs")
    write(f"{top}/target")
    os.mkdir(f"{top}/sub")
    os.mkdir(f"{top}/sub2")
    os.symlink("file", f"{top}/link")
    for name in ("file", "sub", "link", "target"):
        own(f"{top}/{name}", OWNER)
    own(f"{top}/theirs", OTHER)
    own(f"{top}/sub2", OTHER)
    own(top, OWNER, mode)
    return top


ENTRY_CALLS = [
    ("stat", lambda d: describe(os.stat(f"{d}/file"))),
    ("list", lambda d: sorted(os.listdir(d))),
    ("chdir", lambda d: in_child(lambda: outcome(os.chdir, d))),
    ("missing", lambda d: os.stat(f"{d}/missing")),
    ("below missing", lambda d: os.stat(f"{d}/missing/x")),
    ("readlink", lambda d: os.readlink(f"{d}/link")),
    ("create", lambda d: write(f"{d}/new")),
    ("create existing", lambda d: opens(f"{d}/theirs", os.O_WRONLY | os.O_CREAT)),
    ("exclusive existing", lambda d: opens(f"{d}/theirs", os.O_WRONLY | os.O_CREAT | os.O_EXCL)),
    ("mkdir", lambda d: os.mkdir(f"{d}/newdir")),
    ("mkdir existing", lambda d: os.mkdir(f"{d}/sub")),
    ("symlink", lambda d: os.symlink("x", f"{d}/newlink")),
    ("mkfifo", lambda d: os.mkfifo(f"{d}/newfifo")),
    ("mknod device", lambda d: os.mknod(f"{d}/newdev", stat.S_IFCHR, os.makedev(240, 1))),
    ("link", lambda d: os.link(f"{d}/theirs", f"{d}/linked")),
    ("rename file", lambda d: os.rename(f"{d}/file", f"{d}/file2")),
    ("rename theirs", lambda d: os.rename(f"{d}/theirs", f"{d}/theirs2")),
    ("rename over", lambda d: os.rename(f"{d}/theirs2", f"{d}/target")),
    ("rename sub", lambda d: os.rename(f"{d}/sub", f"{d}/sub3")),
    ("exchange", lambda d: renameat2(f"{d}/file2", f"{d}/theirs2", RENAME_EXCHANGE)),
    ("rename away", lambda d: os.rename(f"{d}/theirs2", f"open/{d}")),
    ("rename missing", lambda d: os.rename(f"{d}/missing", f"{d}/x")),
    ("unlink file", lambda d: os.unlink(f"{d}/file2")),
    ("unlink theirs", lambda d: os.unlink(f"{d}/theirs")),
    ("unlink missing", lambda d: os.unlink(f"{d}/missing")),
    ("unlink target", lambda d: os.unlink(f"{d}/target")),
    ("rmdir sub", lambda d: os.rmdir(f"{d}/sub")),
    ("rmdir theirs", lambda d: os.rmdir(f"{d}/sub2")),
    ("unlink link", lambda d: os.unlink(f"{d}/link")),
]


def entries_case(who, groups):
    def run(p):
        os.mkdir("open")
        own("open", ROOT, 0o777)
        tops = [in_dir(mode, "d") for mode in DIR_MODES]

        def act(p):
            for top in tops:
                for what, call in ENTRY_CALLS:
                    p.value(f"{what} in {top}", call, top)
        p.as_user(who, act, groups=groups)
        p.value("left", tree)
    return run


FILE_MODES = [0o000, 0o400, 0o200, 0o100, 0o040, 0o020, 0o010, 0o004, 0o002, 0o001, 0o644, 0o755,
              0o777, 0o066, 0o706, 0o670]
FILE_CALLS = [
    ("read", read),
    ("write", lambda f: opens(f, os.O_WRONLY)),
    ("both", lambda f: opens(f, os.O_RDWR)),
    ("append", lambda f: opens(f, os.O_WRONLY | os.O_APPEND)),
    ("path", lambda f: opens(f, os.O_PATH)),
    ("open truncating", lambda f: opens(f, os.O_RDONLY | os.O_TRUNC)),
    ("truncate", lambda f: os.truncate(f, 3)),
    ("access", lambda f: [os.access(f, mode) for mode in range(8)]),
    ("effective access", lambda f: [outcome(faccessat2, f, mode, 0x200) for mode in range(8)]),
    ("execute", lambda f: in_child(lambda: outcome(os.execv, f, [f]))),
    ("setxattr", lambda f: os.setxattr(f, "user.x", b"1")),
    ("getxattr", lambda f: os.getxattr(f, "user.x")),
    ("touch", lambda f: os.utime(f)),
    ("set times", lambda f: os.utime(f, ns=(1, 1))),
    ("omit times", lambda f: utimensat(f, (0, UTIME_OMIT), (0, UTIME_OMIT))),
    ("now and omit", lambda f: utimensat(f, (0, UTIME_NOW), (0, UTIME_OMIT))),
    ("link", lambda f: os.link(f, f + "-linked")),
    ("chown nothing", lambda f: os.chown(f, -1, -1)),
    ("chown self", lambda f: os.chown(f, os.getuid(), -1)),
    ("chgrp own group", lambda f: os.chown(f, -1, os.getgid())),
    ("chgrp foreign", lambda f: os.chown(f, -1, 7099)),
    ("give away", lambda f: os.chown(f, 7098, -1)),
    ("chmod", lambda f: os.chmod(f, 0o6777)),
    ("mode after", lambda f: describe(os.stat(f))),
]


def files_case(who, groups):
    def run(p):
        os.chmod(".", 0o777)
        for mode in FILE_MODES:
            # Not a known executable format: executing it fails with ENOEXEC if it is permitted at all.
            write(oct(mode), b"\x00content\n")
            own(oct(mode), OWNER, mode)

        def act(p):
            for mode in FILE_MODES:
                for what, call in FILE_CALLS:
                    result = outcome(call, "./" + oct(mode))
                    p.note(f"{what} {oct(mode)}", "ok" if isinstance(result, OpenedFd) else result)
        p.as_user(who, act, groups=groups)
    return run


for user_name, (who, groups) in USERS.items():
    for topic, make in (("directory", entries_case), ("file", files_case)):
        run = make(who, groups)
        run.__name__, run.__module__ = f"{user_name}_and_each_{topic}_mode".replace(" ", "_"), __name__
        case(run)


def put(path, data):
    with opened(path, os.O_WRONLY) as fd:
        os.write(fd, data)


def on_fd(call):
    def run(path):
        with opened(path, os.O_RDWR) as fd:
            call(fd)
    return run


def copy_into(path):
    with opened("source", os.O_RDONLY) as source, opened(path, os.O_WRONLY) as fd:
        os.copy_file_range(source, fd, 4)


SETID_MODES = [0o6777, 0o4777, 0o2777, 0o4666, 0o1777]
# Set-group-id without group execution is cleared only for users outside the group, and the kernel does not tell a FUSE
# server which users are: compared only for users inside.
SETGID_ALONE_MODES = [0o2767, 0o6767, 0o2666, 0o6666]
# Not chown(-1, -1): where the server clears the bits (HANDLE_KILLPRIV_V2) the kernel does not tell it of that.
SETID_CALLS = [
    ("write", lambda f: put(f, b"x")),
    ("write nothing", lambda f: put(f, b"")),
    ("append", lambda f: open(f, "ab", buffering=0).write(b"x")),
    ("pwrite", on_fd(lambda fd: os.pwrite(fd, b"x", 100))),
    ("truncate", lambda f: os.truncate(f, 2)),
    ("truncate to same", lambda f: os.truncate(f, 8)),
    ("ftruncate", on_fd(lambda fd: os.ftruncate(fd, 1))),
    ("open truncating", lambda f: opens(f, os.O_WRONLY | os.O_TRUNC)),
    ("fallocate", on_fd(lambda fd: fallocate(fd, 0, 0, 4096))),
    ("punch", on_fd(lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4))),
    ("copy_file_range", copy_into),
    ("read", read),
    ("chown same user", lambda f: os.chown(f, os.stat(f).st_uid, -1)),
    ("chgrp same", lambda f: os.chown(f, -1, os.stat(f).st_gid)),
    ("chgrp other", lambda f: os.chown(f, -1, 7050)),
    ("chown other", lambda f: os.chown(f, 7051, -1)),
    ("chmod same", lambda f: os.chmod(f, stat.S_IMODE(os.stat(f).st_mode))),
    ("utime", lambda f: os.utime(f)),
    ("rename", lambda f: os.rename(f, f + "~") or os.rename(f + "~", f)),
    ("link", lambda f: os.link(f, f + "~")),
]


def setid_case(who, groups, owner):
    modes = SETID_MODES + (SETGID_ALONE_MODES if who[1] == owner[1] else [])

    def run(p):
        write("source", b"source")
        os.chmod(".", 0o777)
        for mode in modes:
            for what, _ in SETID_CALLS:
                write(f"{oct(mode)} {what}", b"content\n")
                own(f"{oct(mode)} {what}", owner, mode)

        def act(p):
            for mode in modes:
                for what, call in SETID_CALLS:
                    name = f"{oct(mode)} {what}"
                    result = outcome(call, name)
                    if isinstance(result, OpenedFd):
                        os.close(result)
                    p.note(f"{name}: result", result if isinstance(result, str) else "ok")
                    p.note(f"{name}: mode", describe(os.stat(name)))
        p.as_user(who, act, groups=groups)
    return run


for user_name, who, groups, owner in (("root", ROOT, (), OWNER), ("owner", OWNER, (), OWNER),
                                      ("other", OTHER, (), OWNER), ("owner in a second group", OWNER, (7050,), OWNER),
                                      ("owner outside the group", (OWNER[0], 7060), (), OWNER)):
    run = setid_case(who, groups, owner)
    run.__name__, run.__module__ = f"set_id_bits_after_calls_by_{user_name}".replace(" ", "_"), __name__
    case(run)


@case
def chmod_drops_setgid_for_those_outside_the_group(p):
    def act(p):
        for mode in (0o2755, 0o6755, 0o2644, 0o1777, 0o7777):
            for name in ("file", "dir"):
                p.status(f"chmod {name} {oct(mode)}", os.chmod, name, mode)
                p.stat(f"{name} {oct(mode)}", name)
    write("file")
    os.mkdir("dir")
    for name in ("file", "dir"):
        own(name, (OWNER[0], 7060), 0o755)
    p.as_user(OWNER, act)


@case
def chown_of_directories_keeps_bits(p):
    for mode in (0o2755, 0o6777, 0o1777):
        os.mkdir(oct(mode))
        own(oct(mode), OWNER, mode)
        os.chown(oct(mode), 1, 2)
        p.stat(f"dir {oct(mode)}", oct(mode))
    os.symlink("x", "link")
    p.status("lchown", os.lchown, "link", 3, 4)
    p.stat("link", "link")


@case
def a_setgid_directory_hands_its_group_down(p):
    os.mkdir("d")
    own("d", (0, OWNER[1]), 0o2777)

    def act(p, tag):
        os.umask(0)
        for what, call in (("file", lambda n: write(n, mode=0o2775)), ("dir", lambda n: os.mkdir(n, 0o755)),
                           ("fifo", os.mkfifo), ("symlink", lambda n: os.symlink("x", n)),
                           ("mknod", lambda n: os.mknod(n, stat.S_IFREG | 0o2777))):
            p.status(f"{what} by {tag}", call, f"d/{what}-{tag}")
            p.stat(f"{what} of {tag}", f"d/{what}-{tag}")
        p.status(f"below by {tag}", os.mkdir, f"d/dir-{tag}/below")
        p.stat(f"below of {tag}", f"d/dir-{tag}/below")
    for tag, (who, groups) in USERS.items():
        p.as_user(who, act, tag, groups=groups)


@case
def new_nodes_belong_to_who_made_them(p):
    os.chmod(".", 0o777)

    def act(p, tag):
        write(f"file {tag}")
        os.mkdir(f"dir {tag}")
        os.symlink("x", f"link {tag}")
        os.mkfifo(f"fifo {tag}")
        for what in ("file", "dir", "link", "fifo"):
            p.stat(f"{what} {tag}", f"{what} {tag}")
    for tag, (who, groups) in USERS.items():
        p.as_user(who, act, tag, groups=groups)


@case
def the_umask_applies(p):
    for mask in (0, 0o022, 0o077, 0o777, 0o027):
        os.umask(mask)
        for mode in (0o777, 0o666, 0o1777, 0o4755, 0):
            name = f"{oct(mask)} {oct(mode)}"
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, mode))
            os.mkdir(name + " dir", mode)
            os.mkfifo(name + " fifo", mode)
            for kind in ("", " dir", " fifo"):
                p.stat(name + kind, name + kind)


@case
def a_file_made_unreadable_stays_open(p):
    def act(p):
        fd = os.open("f", os.O_RDWR | os.O_CREAT, 0)
        p.status("write", os.write, fd, b"data")
        p.value("read", os.pread, fd, 10, 0)
        p.status("open again", opens, "f", os.O_RDONLY)
        p.status("ftruncate", os.ftruncate, fd, 2)
        p.status("fchmod", os.fchmod, fd, 0o400)
        p.status("open readable", opens, "f", os.O_RDONLY)
        p.status("open writable", opens, "f", os.O_WRONLY)
        p.stat("stat", "f")
    os.chmod(".", 0o777)
    p.as_user(OTHER, act)


@case
def search_permission_is_checked_on_the_whole_way(p):
    os.makedirs("a/b/c")
    write("a/b/c/f")
    for mode in (0o755, 0o000, 0o111, 0o444):
        os.chmod("a/b", mode)

        def act(p):
            for path in ("a/b/c/f", "a/b/missing", "a/b/c/missing", "a/b", "a/b/../b/c", "a/b/c/../../x", "a/b/c/f/x"):
                p.value(f"stat {path} {oct(mode)}", lambda: describe(os.stat(path)))
                p.status(f"open {path} {oct(mode)}", opens, path, os.O_RDONLY)
            p.value(f"list {oct(mode)}", lambda: sorted(os.listdir("a/b")))
        p.as_user(OTHER, act)


@case
def a_sticky_directory_protects_each_owner(p):
    """The caller owns the entry, the directory, or neither; and what may be replaced."""
    for who, tag in ((OWNER, "directory's owner"), (OTHER, "entry's owner"), (MEMBER, "neither")):
        os.mkdir(tag)
        own(tag, OWNER, 0o1777)
        for name in ("a", "b", "c", "e"):
            write(f"{tag}/{name}")
            own(f"{tag}/{name}", OTHER, 0o666)
        os.mkdir(f"{tag}/d")
        own(f"{tag}/d", OTHER, 0o777)

        def act(p):
            write(f"{tag}/mine")
            for what, call in (("rename", lambda: os.rename(f"{tag}/a", f"{tag}/a2")),
                               ("replace", lambda: os.rename(f"{tag}/mine", f"{tag}/b")),
                               ("exchange", lambda: renameat2(f"{tag}/c", f"{tag}/e", RENAME_EXCHANGE)),
                               ("unlink", lambda: os.unlink(f"{tag}/c")), ("rmdir", lambda: os.rmdir(f"{tag}/d")),
                               ("move dir", lambda: os.rename(f"{tag}/d", f"{tag}/d2")),
                               ("link", lambda: os.link(f"{tag}/e", f"{tag}/linked")),
                               ("write", lambda: put(f"{tag}/e", b"x"))):
                p.status(f"{what} as {tag}", call)
        p.as_user(who, act)
    p.value("left", tree)


@case
def moving_a_directory_needs_to_write_it(p):
    """Its '..' changes when it gets another parent; not when only its name changes."""
    os.chmod(".", 0o777)
    for mode in (0o755, 0o555, 0o777):
        os.mkdir(oct(mode))
        own(oct(mode), OTHER if mode != 0o777 else OWNER, mode)
    os.mkdir("there")
    os.chmod("there", 0o777)

    def act(p):
        for mode in (0o755, 0o555, 0o777):
            p.status(f"rename {oct(mode)}", os.rename, oct(mode), oct(mode) + "x")
            p.status(f"move {oct(mode)}", os.rename, oct(mode) + "x", f"there/{oct(mode)}")
    p.as_user(OTHER, act)
