"""Changes the current directory at random, as one of the sessions of merge_random.py: python3 -c THIS SIDE SEED.

Every line and link that it writes is unique, and begins with SIDE.
"""
import os
import random
import sys

side = sys.argv[1]
rng = random.Random(f"{side} {sys.argv[2]}")
written = 0
# A file that was moved and then rewritten, or the reverse, is a removal and a new file: nothing leads from one to the
# other. So these inodes have one only.
moved, rewritten = set(), set()


def token():
    global written
    written += 1
    return f"{side}-{written}"


def nodes(want):
    found = []
    for directory, dirs, files in os.walk("."):
        found += [os.path.join(directory, name) for name in dirs + files if want(os.path.join(directory, name))]
    return sorted(found)


def pick(want):
    found = nodes(want)
    return rng.choice(found) if found else None


def is_text(path):
    return os.path.isfile(path) and not os.path.islink(path)


def is_dir(path):
    return os.path.isdir(path) and not os.path.islink(path)


def some_dir():
    return rng.choice([".", *nodes(is_dir)])


def may_move(path):
    return os.lstat(path).st_ino not in rewritten


def new_name():
    """Often one that the other side takes, too, or that had another node before."""
    if rng.randrange(2):
        return os.path.join(".", f"n{rng.randrange(2)}")
    name = rng.choice([f"{side}{rng.randrange(4)}", f"f{rng.randrange(8)}", f"d{rng.randrange(5)}"])
    return os.path.join(some_dir(), name)


def edit():
    path = pick(is_text)
    if path is None:
        return
    with open(path) as content:
        lines = content.read().splitlines()
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(lines) + 1)
        lines[at:at + rng.randrange(2)] = [token()]
    # As editors do: in place, or by a new file that takes the name.
    draft = path if rng.randrange(2) or os.lstat(path).st_ino in moved else path + ".draft"
    with open(draft, "w") as content:
        content.write("".join(line + "\n" for line in lines))
    if draft != path:
        os.replace(draft, path)
        rewritten.add(os.lstat(path).st_ino)


def create():
    path = new_name()
    if os.path.lexists(path):
        return
    kind = rng.randrange(5)
    if kind == 0:
        os.symlink(token(), path)
        return
    if kind < 3:
        os.mkdir(path)
        path = os.path.join(path, "new")
    with open(path, "w") as content:
        content.write("".join(token() + "\n" for _ in range(rng.randrange(1, 5))))


def remove():
    path = pick(lambda path: not is_dir(path))
    if path is not None:
        os.remove(path)


def remove_dir():
    top = pick(is_dir)
    if top is None:
        return
    for directory, dirs, files in os.walk(top, topdown=False):
        for name in files:
            os.remove(os.path.join(directory, name))
        for name in dirs:
            path = os.path.join(directory, name)
            os.remove(path) if os.path.islink(path) else os.rmdir(path)
    os.rmdir(top)


def move(want):
    path, to = pick(want), new_name()
    if path is None or os.path.lexists(to) or (to + "/").startswith(path + "/"):
        return
    moved.add(os.lstat(path).st_ino)
    os.rename(path, to)


def put_new_in_place():
    """A file or directory gets another name, and something new its old one."""
    path, to = pick(may_move), new_name()
    if path is None or os.path.lexists(to) or (to + "/").startswith(path + "/"):
        return
    moved.add(os.lstat(path).st_ino)
    os.rename(path, to)
    if rng.randrange(3) == 0:
        os.mkdir(path)
        path = os.path.join(path, "new")
    with open(path, "w") as content:
        content.write(token() + "\n")


def exchange():
    one, other = pick(may_move), pick(may_move)
    if one is None or one == other or other.startswith(one + "/") or one.startswith(other + "/"):
        return
    moved.update((os.lstat(one).st_ino, os.lstat(other).st_ino))
    os.rename(one, one + ".shelf")
    os.rename(other, one)
    os.rename(one + ".shelf", other)


for _ in range(rng.randrange(1, 7)):
    rng.choice([edit, edit, edit, create, create, remove, remove_dir, exchange, put_new_in_place, put_new_in_place,
                lambda: move(is_dir), lambda: move(is_dir), lambda: move(lambda path: not is_dir(path) and may_move(path))])()
