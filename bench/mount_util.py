"""Shared by the benchmarks of mounts: new ext4 images, servers, and the load of the machine."""
import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 1 << 30
MOUNT_SECONDS = 10
UMOUNT_SECONDS = 120


def tell(message):
    print(f"bench: {message}", file=sys.stderr, flush=True)


def output_of(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: {shlex.join(str(part) for part in command)} failed with {done.returncode}")
    return done.stdout


@contextlib.contextmanager
def undisturbed():
    """Delays signals: a mount(8) or umount(8) that is killed midway leaves something mounted."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def make_ext4(image, size_bytes):
    with open(image, "wb") as file:
        file.truncate(size_bytes)
    # Without lazy initialisation, which the kernel would do in the background during the measurements.
    output_of("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)


@contextlib.contextmanager
def mounted(point, *arguments):
    """Runs `mount ARGUMENTS POINT`, and unmounts at the end."""
    with undisturbed():
        output_of("mount", *arguments, point)
    try:
        yield point
    finally:
        with undisturbed():
            if os.path.ismount(point):
                unmount(point)


@contextlib.contextmanager
def scratch_dir():
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="warren-mount-bench-", dir=os.environ.get("WARREN_BENCH_DIR")))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def fresh_ext4(size_bytes, template=None):
    """A new ext4 filesystem on a loop device, or a copy of the image `template`; yields its mount point."""
    with scratch_dir() as scratch:
        image, point = scratch / "image", scratch / "ext4"
        point.mkdir()
        with undisturbed():
            if template:
                output_of("cp", "--sparse=always", template, image)
            else:
                make_ext4(image, size_bytes)
        with mounted(point, "-o", "loop", image):
            yield point


def unmount(point):
    for _ in range(50):
        if subprocess.run(["umount", str(point)], stderr=subprocess.DEVNULL).returncode == 0:
            return
        if not os.path.ismount(point):
            return
        time.sleep(0.1)
    tell(f"{point} is still busy; it is unmounted when its last user ends")
    subprocess.run(["umount", "-l", str(point)])


@contextlib.contextmanager
def served(command, point):
    """A filesystem mounted on `point` by a server in the foreground; yields the server's process id."""
    point.mkdir()
    server = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + MOUNT_SECONDS
        while not os.path.ismount(point):
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"bench: {shlex.join(str(part) for part in command)} did not mount")
            time.sleep(0.01)
        yield server.pid
    finally:
        with undisturbed():
            if os.path.ismount(point):
                unmount(point)
            else:
                server.terminate()
            end(server)


def end(server):
    """Waits for the server of a removed mount, which may still be writing."""
    try:
        server.wait(UMOUNT_SECONDS)
    except subprocess.TimeoutExpired:
        tell(f"process {server.pid} did not end after its unmount; killing it")
        server.kill()
        server.wait()


def warren_program():
    return pathlib.Path(os.environ.get("WARREN") or ROOT / "build/release/src/warren").resolve()


# These get an ext4 and yield (directory to work in, process id of the server).
@contextlib.contextmanager
def served_warren(ext4, *init_options):
    output_of(warren_program(), "-C", ext4, "init", "bench", *init_options)
    mount = [warren_program(), "-C", ext4, "mount", "--foreground", "bench", ext4 / "mnt"]
    with served(mount, ext4 / "mnt") as pid:
        yield ext4 / "mnt", pid


def overlay_layers(ext4, lower):
    """The options of an overlay on `ext4`; creates its other directories."""
    for name in ("upper", "work"):
        (ext4 / name).mkdir()
    return f"lowerdir={lower},upperdir={ext4}/upper,workdir={ext4}/work"


@contextlib.contextmanager
def served_fuse_overlayfs(ext4, lower):
    layers = overlay_layers(ext4, lower)
    with served(["fuse-overlayfs", "-f", "-o", layers, ext4 / "mnt"], ext4 / "mnt") as pid:
        yield ext4 / "mnt", pid


def memory_mib(pid):
    """(now, highest) resident memory of a process, in MiB"""
    lines = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status") if ":" in line)
    return tuple(int(lines[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))


def busy():
    """The load of the machine's processors while this program is idle."""
    def times():
        fields = [int(field) for field in open("/proc/stat").readline().split()[1:]]
        return sum(fields), fields[3] + fields[4]  # all; idle and waiting for the disk
    total, idle = times()
    time.sleep(1)
    total_later, idle_later = times()
    return 1 - (idle_later - idle) / max(1, total_later - total)


def medians(runs):
    """[{key: number}] → {key: median}"""
    return {key: statistics.median(run[key] for run in runs if key in run) for key in runs[0]}


def add_run_options(parser):
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--cpu", type=int, metavar="N", help="run everything on one processor: less noise, for comparing versions")


def require_root():
    if os.geteuid() != 0:
        sys.exit("bench: loop mounts and drop_caches need root")


def prepare_to_measure(options):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is unmounted
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})  # the servers and clients started later inherit it
    others = busy()
    if others > 0.1:
        tell(f"other programs use {others:.0%} of this machine, which slows a mount more than ext4")
