"""Names: allowed bytes, length, depth; and links and symlinks."""
import errno
import os

from probe import *

ODD_NAMES = [b"caf\xc3\xa9", b"caf\xe9", b"\xff\xfe\x80", b"\xc3", b"\xed\xa0\x80", b"\xe2\x82\xac" * 85, b"\xff" * 255,
             b"e\xcc\x81", b"\xc3\xa9", b"a b", b"new\nline", b"\x01\x7f", b"\\", b"*?[", b"-rf", b"...", b"..x", b" ",
             b"'\"", b"%s%n"]


@case
def names_are_any_bytes_but_slash_and_nul(p):
    for name in ODD_NAMES:
        p.status(f"create {name}", write, name, name)
        p.value(f"read {name}", read, name)
        p.stat(f"stat {name}", name)
    p.value("list", lambda: sorted(os.listdir(b".")))
    for name in ODD_NAMES:
        p.status(f"rename {name}", os.rename, name, name[:250] + b"\xfe2")
    p.value("list renamed", lambda: sorted(os.listdir(b".")))
    for name in ODD_NAMES:
        p.status(f"unlink {name}", os.unlink, name[:250] + b"\xfe2")
    p.value("list emptied", lambda: os.listdir(b"."))


@case
def directories_and_symlinks_take_any_bytes_too(p):
    for name in ODD_NAMES:
        p.status(f"mkdir {name}", os.mkdir, name)
        p.status(f"symlink to {name}", os.symlink, name, os.path.join(name, b"back"))
        p.value(f"readlink {name}", os.readlink, os.path.join(name, b"back"))
    p.value("tree", tree)


@case
def case_and_normal_form_are_kept_apart(p):
    for name in ("a", "A", "\u00e9", "e\u0301", "\u212b", "\u00c5"):
        p.status(f"create {ascii(name)}", write, name, name.encode(), mode=0o600)
    p.value("list", lambda: sorted(os.listdir(".")))


@case
def a_name_may_have_255_bytes(p):
    for length in (254, 255, 256, 1000):
        name = "x" * length
        for what, call in (("create", lambda: write(name)), ("stat", lambda: describe(os.stat(name))),
                           ("link", lambda: os.link(name, "y" * length)),
                           ("symlink", lambda: os.symlink("t", "s" * length)),
                           ("mkdir", lambda: os.mkdir("d" * length)), ("rename", lambda: os.rename(name, "r" * length)),
                           ("unlink", lambda: os.unlink("r" * length)), ("rmdir", lambda: os.rmdir("d" * length))):
            p.value(f"{what} {length}", call)


@case
def a_path_may_have_4095_bytes(p):
    part = "d" * 200
    deep = [part] * 20
    for depth in range(1, len(deep) + 1):
        p.status(f"mkdir {depth}", os.mkdir, "/".join(deep[:depth]))
    base = "/".join(deep)
    for length in (4094, 4095, 4096, 4097):
        path = base + "/" + "f" * (length - len(base) - 1)
        p.status(f"create {length}", write, path)
        p.value(f"read {length}", read, path)
        p.status(f"rename {length}", os.rename, path, path[:-1] + "g")


@case
def a_tree_may_be_deeper_than_any_path(p):
    top = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    for depth in range(60):
        os.mkdir("e" * 100)
        os.chdir("e" * 100)
    p.status("create", write, "bottom", b"deep")
    p.value("read", read, "bottom")
    p.status("unlink", os.unlink, "bottom")
    p.note("way up", [outcome(lambda: os.chdir("..") or os.rmdir("e" * 100)) for _ in range(60)])
    p.note("same place", os.stat(".").st_ino == os.fstat(top).st_ino)


@case
def hard_links_are_one_file(p):
    write("a")
    for number in range(20):
        p.status(f"link {number}", os.link, "a", f"l{number}")
    p.stat("counted", "a")
    p.note("one inode", len({os.stat(name).st_ino for name in os.listdir(".")}))
    write("l3", b"new content")
    p.value("content", read, "l7")
    os.chmod("l1", 0o600)
    p.stat("mode", "l2")
    for number in range(20):
        os.unlink(f"l{number}")
    p.stat("one again", "a")


@case
def a_renamed_hard_link_stays_linked(p):
    write("a")
    os.link("a", "b")
    p.status("onto itself", os.rename, "a", "b")
    p.value("both stay", tree)
    os.mkdir("d")
    p.status("move", os.rename, "b", "d/c")
    p.value("tree", tree)
    p.note("same inode", os.stat("a").st_ino == os.stat("d/c").st_ino)


@case
def directories_count_their_subdirectories(p):
    os.mkdir("d")
    p.stat("none", "d")
    for number in range(10):
        os.mkdir(f"d/{number}")
    p.stat("ten", "d")
    os.rmdir("d/0")
    os.mkdir("e")
    os.rename("d/1", "e/1")
    p.stat("one removed, one moved", "d")
    p.stat("one got", "e")
    os.mkdir("d/1")
    os.rename("d/1", "e/1")
    p.stat("replaced", "e")


def resolved(call, tries=200):
    """What call returns. A kernel whose walk without locks was disturbed, by any mount or unmount on the machine, begins it
    again without setting its count of links back to 0: so now and then forty links are too many, on every filesystem."""
    for _ in range(tries):
        try:
            return call()
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
    return call()


@case
def symlinks_resolve_up_to_forty(p):
    write("0", b"end")
    for number in range(1, 45):
        os.symlink(str(number - 1), str(number))
    for number in (1, 8, 39, 40, 41, 44):
        p.value(f"{number} levels", resolved, lambda: read(str(number)))
        p.value(f"stat {number}", lambda: describe(resolved(lambda: os.stat(str(number)))))


@case
def a_symlink_keeps_its_target_as_given(p):
    for length in (1, 59, 60, 61, 255, 1000, 4000, 4095, 4096):
        p.status(f"make {length}", os.symlink, "t" * length, f"l{length}")
        p.value(f"read {length}", os.readlink, f"l{length}")
        p.stat(f"stat {length}", f"l{length}")
    for target in ("/", "..", "a//b/", "./x/../y"):
        os.symlink(target, f"t{len(target)}")
        p.value(f"target {target}", os.readlink, f"t{len(target)}")
    p.status("empty", os.symlink, "", "nothing")


@case
def symlinks_are_followed_where_they_should(p):
    os.mkdir("d")
    os.symlink("d", "to_d")
    os.symlink("new", "to_new")
    p.status("create through dangling", write, "to_new", b"made")
    p.value("made", read, "new")
    p.status("create below", write, "to_d/x")
    p.status("rmdir link", os.rmdir, "to_d")
    p.status("rename link", os.rename, "to_d", "moved")
    p.value("tree", tree)
    p.status("chmod through", os.chmod, "to_new", 0o600)
    p.status("lchown", os.lchown, "to_new", 5, 6)
    p.value("owned", tree)
    p.status("unlink link", os.unlink, "moved")
    p.value("left", tree)


@case
def rename_keeps_a_tree_a_tree(p):
    os.makedirs("a/b/c")
    os.makedirs("full/x")
    write("file")
    for old, new in (("a", "a/b"), ("a", "a/b/c/d"), ("a/b", "a"), ("a", "full"), ("a", "file"), ("file", "a"),
                     ("a", "a"), ("a/b/c", "a"), (".", "x"), ("a/..", "x"), ("a", "."), ("a", "missing/x"),
                     ("a", "full/x"), ("full/x", "a2"), ("a2/", "a3"), ("a3", "a4/"),
                     ("file", "file2/"), ("file/", "file2")):
        p.status(f"{old} to {new}", os.rename, old, new)
        p.value(f"after {old} to {new}", tree)


@case
def exchange_swaps_whole_trees(p):
    os.makedirs("a/x/y")
    os.mkdir("b")
    write("b/f", b"of b")
    write("f", b"top")
    for old, new in (("a", "b"), ("a", "f"), ("f", "b"), ("a", "a"), ("b", "b/f"), ("b/x", "b")):
        p.status(f"{old} with {new}", renameat2, old, new, RENAME_EXCHANGE)
        p.value(f"after {old} with {new}", tree)
    p.status("both flags", renameat2, "a", "b", RENAME_EXCHANGE | RENAME_NOREPLACE)
    p.status("unknown flag", renameat2, "a", "b", 64)


@case
def an_open_file_survives_renames_and_replacement(p):
    write("a", b"first")
    write("b", b"second")
    with opened("b") as fd:
        os.rename("a", "b")
        p.value("by name", read, "b")
        p.value("by descriptor", os.pread, fd, 100, 0)
        p.stat("links", fd)
        os.write(fd, b"SEC")
        p.value("written", os.pread, fd, 100, 0)
        p.value("name unharmed", read, "b")


@case
def descriptors_of_directories_are_places(p):
    os.makedirs("d/e")
    write("d/f", b"in d")
    with opened("d", os.O_RDONLY | os.O_DIRECTORY) as d:
        os.rename("d", "moved")
        for what, call in (("open", lambda: status(opens, "f", os.O_RDONLY, dir_fd=d)),
                           ("stat", lambda: describe(os.stat("f", dir_fd=d))),
                           ("mkdir", lambda: os.mkdir("g", dir_fd=d)),
                           ("rename", lambda: os.rename("f", "h", src_dir_fd=d, dst_dir_fd=d)),
                           ("symlink", lambda: os.symlink("h", "s", dir_fd=d)),
                           ("readlink", lambda: os.readlink("s", dir_fd=d)),
                           ("link", lambda: os.link("h", "i", src_dir_fd=d, dst_dir_fd=d)),
                           ("unlink", lambda: os.unlink("h", dir_fd=d)),
                           ("rmdir", lambda: os.rmdir("e", dir_fd=d)),
                           ("list", lambda: sorted(os.listdir(d))),
                           ("fsync", lambda: os.fsync(d)),
                           ("read", lambda: os.read(d, 10)),
                           ("fchmod", lambda: os.fchmod(d, 0o700)),
                           ("not a directory", lambda: os.stat("x", dir_fd=os.open("i", os.O_RDONLY, dir_fd=d)))):
            p.value(what, call)
    p.value("tree", tree)
