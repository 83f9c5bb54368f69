"""Runs a program on a terminal of its own and returns what it wrote there."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import unicodedata

# What may not reach a terminal from a stranger: controls (C0, DEL, C1), format characters (bidirectional, zero-width,
# tags), line and paragraph separators. The terminal itself adds carriage returns; line ends and tabs are ours.
HIDDEN = ("Cc", "Cf", "Zl", "Zp")
COLOURS = [f"\x1b[{code}m" for code in ("0", "1", "31", "32", "33", "34", "36")]

# Names that would clear the screen, set a title, write backwards, hide or break a line.
HOSTILE = ["\x1b[2Jclear", "\x1b]0;title\x07", "\u009b31mc1", "gpj.\u202eexe", "\u2066isolated\u2069", "zero\u200bwidth",
           "\u2028separator", "line\nwarren: forged", "return\rover", "\x7fdelete", "tag\U000e0041", "\ufeffmark"]
HOSTILE_BYTES = [name.encode() for name in HOSTILE] + [b"latin\xe9\x9b31m"]


def on_terminal(words, columns=None, **options):
    """Both outputs of the program, as bytes."""
    ours, theirs = pty.openpty()
    if columns:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, **options)
    os.close(theirs)
    seen = b""
    while True:
        select.select([ours], [], [])
        try:
            part = os.read(ours, 65536)
        except OSError:
            part = b""
        if not part:
            break
        seen += part
    os.close(ours)
    process.wait()
    return seen.replace(b"\r\n", b"\n")


def strays(output):
    """The characters in a program's output that may not be there."""
    try:
        text = output.decode()
    except UnicodeDecodeError as error:
        return [f"not UTF-8: {error}"]
    for colour in COLOURS:
        text = text.replace(colour, "")
    return [f"U+{ord(each):04X}" for each in text if unicodedata.category(each) in HIDDEN and each not in "\n\t"]
