#!/usr/bin/env python3
"""The commands around a mount: mount, umount, exec, ps, prune, init -c, as warren, as agentfs and as mount.warren.

    WARREN=path/to/warren commands.py [-v] [Class.test_name]

Runs in a mount namespace of its own, where no other agent is mounted: the lists are known to the last line, and
pruning takes nothing away from anybody. What needs no mount is in tests/cli/mount.txt. Needs root.
"""
import ctypes
import errno
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mounted

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
VISIBLE_SECONDS = 2
ORDINARY_UID = 65534


def be_alone():
    """Enters a new mount namespace, without the agents that are mounted outside."""
    if mounted.LIBC.unshare(CLONE_NEWNS) != 0 or mounted.LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        sys.exit(f"a mount namespace: {os.strerror(ctypes.get_errno())}")
    for mount in list_mounts():
        mounted.detach(mount["dir"])


def list_mounts():
    return json.loads(subprocess.run([mounted.program(), "mount", "--json"], check=True, capture_output=True).stdout)


def errno_of(function, *args):
    try:
        function(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
    return None


class Commands(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(mounted.World())
        self.temporary = self.world.root / "tmp"
        self.temporary.mkdir()
        self.enterContext(unittest.mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(self.world.root),
                                                   TMPDIR=str(self.temporary), WARREN=mounted.program()))

    def run_as(self, name, *args, **options):
        """The program under another name: (status, standard output, standard error)."""
        link = self.world.root / name
        if not link.exists():
            link.symlink_to(mounted.program())
        options = {"cwd": self.world.home, "capture_output": True, "text": True,
                   "timeout": mounted.PATIENCE_SECONDS} | options
        done = subprocess.run([link, *map(str, args)], **options)
        return done.returncode, done.stdout, done.stderr

    def warren(self, *args, **options):
        return self.run_as("warren", *args, **options)

    def agentfs(self, *args, **options):
        return self.run_as("agentfs", *args, **options)

    def running(self):
        return json.loads(self.world.warren("ps", "--json"))

    def kill_server(self, number):
        [server] = self.running()
        os.kill(server["pid"], number)

    def make_dead_mount(self, name="mnt"):
        point = self.world.mount(name)
        self.kill_server(signal.SIGKILL)
        mounted.wait_for(lambda: not mounted.answers(point), "the mount to die")
        return point

    def check_closed_well(self):
        mounted.wait_for(lambda: not self.world.daemons(), "the daemon to end")
        self.assertEqual(self.world.left_beside(), [])
        self.world.fsck()


class Mounting(Commands):
    def test_mount_returns_when_the_mount_is_ready(self):
        point = self.world.point()
        self.world.warren("fs", "a", "write", "/file", "content")
        self.assertEqual(self.warren("mount", "a", point), (0, "", ""))
        self.assertEqual((point / "file").read_text(), "content")
        self.assertEqual(self.warren("umount", point), (0, "", ""))
        self.assertFalse(mounted.is_mounted(point))
        self.check_closed_well()

    def test_paths_may_be_relative_and_have_odd_names(self):
        point = self.world.point("with space, and comma")
        self.assertEqual(self.warren("mount", ".agentfs/a.db", "../with space, and comma"), (0, "", ""))
        self.assertEqual(self.warren("mount"), (0, f"{self.world.file} on {point}\n", ""))
        self.assertEqual(self.warren("umount", "../with space, and comma"), (0, "", ""))

    def test_mount_lists_what_is_mounted(self):
        self.assertEqual(self.warren("mount"), (0, "", ""))
        self.assertEqual(list_mounts(), [])
        point = self.world.mount()
        self.assertEqual(self.warren("mount"), (0, f"{self.world.file} on {point}\n", ""))
        self.assertEqual(list_mounts(), [{"agent": str(self.world.file), "dir": str(point), "alive": True}])
        self.world.umount(point)
        self.assertEqual(self.warren("mount"), (0, "", ""))

    def test_ps_lists_the_processes_that_serve(self):
        self.assertEqual(self.warren("ps"), (0, "", ""))
        self.assertEqual(self.running(), [])
        point = self.world.mount()
        [server] = self.running()
        self.assertEqual(self.world.daemons(), [server["pid"]])
        self.assertEqual((server["kind"], server["agent"], server["dir"], server["command"]),
                         ("mount", str(self.world.file), str(point), f"warren mount a {point}"))
        _, text, _ = self.warren("ps")
        heading, line = text.splitlines()
        self.assertEqual(heading.split(), ["PID", "KIND", "STARTED", "AGENT", "DIR", "COMMAND"])
        self.assertEqual(line.split()[:2], [str(server["pid"]), "mount"])
        self.world.umount(point)
        self.assertEqual(self.warren("ps"), (0, "", ""))

    def test_read_only_refuses_changes_and_shows_those_of_others(self):
        self.world.warren("fs", "a", "write", "/file", "old")
        point = self.world.mount("mnt", "--read-only")
        for change in (lambda: (point / "new").touch(), lambda: (point / "dir").mkdir(), (point / "file").unlink,
                       lambda: (point / "file").write_text("x"), lambda: (point / "file").chmod(0o600)):
            self.assertEqual(errno_of(change), "EROFS")
        self.assertEqual((point / "file").read_text(), "old")
        self.world.warren("fs", "a", "write", "/file", "changed")
        self.world.warren("fs", "a", "write", "/new", "made")
        mounted.wait_for(lambda: (point / "file").read_text() == "changed", "the change to show", VISIBLE_SECONDS)
        mounted.wait_for(lambda: sorted(os.listdir(point)) == ["file", "new"], "the name to show", VISIBLE_SECONDS)
        self.world.umount(point)
        self.check_closed_well()

    def test_uid_and_gid_are_shown_and_not_stored(self):
        point = self.world.mount("mnt", "--uid", "1234", "--gid=4321")
        (point / "file").write_text("x")
        for path in (point, point / "file"):
            self.assertEqual((path.stat().st_uid, path.stat().st_gid), (1234, 4321))
        self.world.umount(point)
        [stored] = json.loads(self.world.warren("fs", "a", "stat", "--json", "/file"))
        self.assertEqual((stored["uid"], stored["gid"]), (os.geteuid(), os.getegid()))

    def test_others_are_kept_out_unless_they_are_let_in(self):
        for options, status in (([], 1), (["--allow-root"], 1), (["--allow-other"], 0), (["--system"], 0)):
            point = self.world.mount("mnt", *options)
            (point / "file").write_text("x")
            done = subprocess.run(["cat", point / "file"], user=ORDINARY_UID, capture_output=True)
            self.assertEqual(done.returncode, status, options)
            self.world.umount(point)

    def test_a_mount_never_honours_set_user_ids_and_devices(self):
        point = self.world.mount("mnt", "--allow-other")
        self.assertTrue(os.statvfs(point).f_flag & os.ST_NOSUID)
        self.assertTrue(os.statvfs(point).f_flag & os.ST_NODEV)


class Ending(Commands):
    def test_a_mount_in_use_is_not_unmounted(self):
        point = self.world.mount()
        user = subprocess.Popen(["sleep", "600"], cwd=point)
        try:
            status, out, err = self.warren("umount", point)
            self.assertEqual((status, out), (1, ""))
            self.assertEqual(err, f"warren: '{point}' is in use by 'sleep' (process {user.pid})\n"
                             "hint: end it or leave the directory there, or unmount with --lazy\n")
            # By an open file, a memory map, a program.
            subprocess.run(["cp", "/bin/sleep", point / "program"], check=True)
            script = ("import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0) if sys.argv[2:] else 0\n"
                      "if m: f.close()\nprint(flush=True); sys.stdin.read()")
            for words in ([sys.executable, "-c", script, point / "program"],
                          [sys.executable, "-c", script, point / "program", "map"], [point / "program", "600"]):
                other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                try:
                    if words[0] == sys.executable:
                        other.stdout.readline()
                    self.assertIn(f"(process {other.pid})", self.warren("umount", point)[2], words)
                finally:
                    other.kill()
                    other.communicate()
            self.assertTrue(mounted.answers(point))
            self.assertEqual(self.warren("umount", "--lazy", point), (0, "", ""))
            self.assertFalse(mounted.is_mounted(point))
        finally:
            user.kill()
            user.wait()
        self.check_closed_well()

    def test_a_mount_that_is_in_use_for_a_moment_is_unmounted(self):
        point = self.world.mount()
        trace = self.world.root / "trace"
        done = subprocess.run(["strace", "-f", "-qq", "-o", trace, "-e", "inject=umount2:error=EBUSY:when=1..3",
                               mounted.program(), "umount", point], cwd=self.world.home, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(trace.read_text().count("(INJECTED)"), 3)
        self.assertFalse(mounted.is_mounted(point))
        self.check_closed_well()

    def test_a_mount_that_is_in_use_by_nobody_who_can_be_seen_stays(self):
        point = self.world.mount()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            used = os.open(point, os.O_RDONLY)
            socket.send_fds(ours, [b"."], [used])  # no process has it while it is on its way
            os.close(used)
            status, _, err = self.warren("umount", point)
            self.assertEqual((status, err.splitlines()[0]), (1, f"warren: '{point}' is in use"))
            self.assertTrue(mounted.answers(point))
        self.assertEqual(self.warren("umount", point), (0, "", ""))
        self.check_closed_well()

    def test_signals_end_the_mount_and_leave_one_file(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            server = self.world.serve()
            point = self.world.point()
            held = os.open(point / "file", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.write(held, number.name.encode())
            server.send_signal(number)
            self.assertEqual(server.wait(mounted.PATIENCE_SECONDS), 0)
            self.assertFalse(mounted.is_mounted(point))
            self.assertEqual(errno_of(os.close, held), "ENOTCONN")
            self.check_closed_well()
            self.assertEqual(self.world.warren("fs", "a", "cat", "/file"), number.name.encode())

    def test_a_signal_ends_a_mount_in_the_background(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            point = self.world.mount()
            self.kill_server(number)
            self.check_closed_well()
            self.assertFalse(mounted.is_mounted(point))
            self.assertEqual(self.running(), [])

    def test_the_signal_for_checkpoints_does_not_end_it(self):
        server = self.world.serve()
        server.send_signal(signal.SIGUSR1)
        (self.world.point() / "file").write_text("x")
        self.world.umount(self.world.point())
        self.assertEqual(server.wait(mounted.PATIENCE_SECONDS), 0)

    def test_auto_unmount_removes_the_mount_of_a_killed_process(self):
        point = self.world.mount("mnt", "--auto-unmount")
        self.kill_server(signal.SIGKILL)
        mounted.wait_for(lambda: not mounted.is_mounted(point), "the mount to go away", 5)
        self.assertEqual(self.running(), [])

    def test_a_dead_mount_is_listed_as_such(self):
        point = self.make_dead_mount()
        self.assertEqual(list_mounts(), [{"agent": str(self.world.file), "dir": str(point), "alive": False}])
        self.assertEqual(self.warren("mount"), (
            0, f"{self.world.file} on {point} (dead: `warren prune mounts` removes it)\n", ""))

    def test_umount_by_the_agents_id(self):
        self.assertIn("agent 'a' is not mounted", self.warren("umount", "a")[2])
        point = self.world.mount("point")
        status, _, said = self.warren("umount", "poin")
        self.assertEqual((status, said), (1, "warren: there is no directory and no agent 'poin'\nhint: did you mean 'point'?\n"))
        status, _, said = self.warren("-C", "/", "umount", "point")  # from another directory
        self.assertEqual((status, said), (1, f"warren: there is no directory and no agent 'point'\nhint: did you mean '{point}'?\n"))
        self.assertEqual(self.warren("umount", "a"), (0, "", ""))
        self.assertFalse(os.path.ismount(point))
        self.world.mount("one")
        self.world.mount("two")
        status, _, said = self.warren("umount", "a")
        self.assertEqual(status, 1)
        self.assertIn("agent 'a' is mounted 2 times", said)
        for name in ("one", "two"):
            self.world.umount(self.world.root / name)
        self.check_closed_well()

    def test_umount_removes_a_dead_mount(self):
        point = self.make_dead_mount()
        self.assertEqual(self.warren("umount", point), (0, "", ""))
        self.assertFalse(mounted.is_mounted(point))

    def test_the_next_mount_replaces_a_dead_one(self):
        point = self.make_dead_mount()
        self.assertEqual(self.warren("mount", "a", f"../{point.name}"), (0, "", ""))
        self.assertTrue(mounted.answers(point))
        self.assertEqual(len(list_mounts()), 1)

    def test_prune_removes_only_dead_mounts(self):
        self.assertEqual(self.warren("prune", "mounts"), (0, "no dead mounts\n", ""))
        dead = self.make_dead_mount("dead")
        alive = self.world.mount("alive")
        self.assertEqual(self.warren("prune", "mounts"), (0, f"unmounted {dead} (was {self.world.file})\n", ""))
        self.assertEqual([mount["dir"] for mount in list_mounts()], [str(alive)])
        self.assertTrue(mounted.answers(alive))

    def test_prune_removes_the_directory_of_a_killed_exec(self):
        run = subprocess.Popen([mounted.program(), "exec", "a", "sh", "-c", "echo ready; exec sleep 600"],
                               cwd=self.world.home, stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.stdout.readline(), "ready\n")
        [point] = self.temporary.iterdir()
        self.world.points.append(point)
        [child] = [int(pid) for pid in pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
        for pid in (run.pid, child):
            os.kill(pid, signal.SIGKILL)
        run.communicate()
        mounted.wait_for(lambda: not mounted.answers(point), "the mount to die")
        self.assertEqual(self.warren("prune", "mounts"), (0, f"unmounted {point} (was {self.world.file})\n", ""))
        self.assertEqual(list(self.temporary.iterdir()), [])


class Running(Commands):
    def check_nothing_is_left(self):
        self.assertEqual(list_mounts(), [])
        self.assertEqual(list(self.temporary.iterdir()), [])
        self.assertEqual(self.running(), [])
        self.check_closed_well()

    def test_exec_runs_inside_the_agent(self):
        self.assertEqual(self.warren("exec", "a", "sh", "-c", "cat > f; pwd; cat f; echo err >&2", input="given\n")[::2],
                         (0, "err\n"))
        self.assertEqual(self.world.warren("fs", "a", "cat", "/f"), b"given\n")
        self.check_nothing_is_left()

    def test_exec_ends_with_the_commands_status(self):
        self.assertEqual(self.warren("exec", "a", "true"), (0, "", ""))
        self.assertEqual(self.warren("exec", "a", "sh", "-c", "exit 7"), (7, "", ""))
        self.assertEqual(self.warren("exec", "a", "sh", "-c", "kill -TERM $$"), (128 + 15, "", ""))
        self.assertEqual(self.warren("exec", "a", "sh", "-c", "kill -KILL $$"), (128 + 9, "", ""))
        self.check_nothing_is_left()

    def test_exec_of_a_missing_program_says_so_and_leaves_nothing(self):
        self.assertEqual(self.warren("exec", "a", "no-such-program"), (1, "", "warren: no program 'no-such-program'\n"))
        self.check_nothing_is_left()

    def test_words_after_the_command_are_passed_to_it(self):
        self.assertEqual(self.warren("exec", "a", "echo", "--json", "-f", "--", "x"), (0, "--json -f -- x\n", ""))

    def test_ps_lists_exec_while_it_runs(self):
        status, out, _ = self.warren("exec", "a", "sh", "-c", '"$WARREN" ps --json')
        self.assertEqual(status, 0)
        [running] = json.loads(out)
        self.assertEqual((running["kind"], running["command"]), ("exec", 'sh -c "$WARREN" ps --json'))
        self.assertEqual(pathlib.Path(running["dir"]).parent, self.temporary)

    def test_init_runs_a_first_command(self):
        self.assertEqual(self.warren("init", "b", "-c", "echo made | tee f; exit 3"),
                         (3, "created agent 'b' at .agentfs/b.db\nmade\n", ""))
        self.assertEqual(self.world.warren("fs", "b", "cat", "/f"), b"made\n")
        self.check_nothing_is_left()


class AsMountHelper(Commands):
    def test_a_mount_that_was_started_without_standard_descriptors_works(self):
        point = self.world.point()
        done = subprocess.run(["sh", "-c", 'exec 0<&- 1>&- 2>&-; exec "$0" mount -a "$1" "$2"', mounted.program(),
                               self.world.file, point], timeout=60)
        self.assertEqual(done.returncode, 0)
        (point / "f").write_text("content")
        self.assertEqual((point / "f").read_text(), "content")
        self.world.umount(point)
        self.world.fsck()

    def test_it_accepts_what_mount_passes(self):
        point = self.world.point()
        self.assertEqual(self.run_as("mount.warren", self.world.file, point, "-n", "-o",
                                     "rw,nofail,ro,allow_other,uid=5,gid=6"), (0, "", ""))
        self.assertEqual((point.stat().st_uid, point.stat().st_gid), (5, 6))
        self.assertEqual(errno_of((point / "new").touch), "EROFS")
        self.world.umount(point)

    def test_mount_accepts_the_common_options(self):
        """Through mount(8), as for a line of /etc/fstab."""
        helper = pathlib.Path("/sbin/mount.warren")
        if helper.exists() or os.geteuid() != 0:
            self.skipTest("mount.warren is installed, or we are not root")
        helper.symlink_to(mounted.program())
        self.addCleanup(helper.unlink)
        point = self.world.point()
        for options in ("noexec", "user", "sync", "dirsync", "strictatime", "lazytime", "default_permissions",
                        "fsname=notes", "defaults,nofail,_netdev,noatime,x-systemd.automount,comment=a",
                        "users,owner,group,nosuid,nodev,relatime,nodiratime,subtype=warren,allow_other"):
            with self.subTest(options):
                with open(self.world.root / "mount.err", "w+b") as said:
                    done = subprocess.run(["mount", "-t", "warren", "-o", options, self.world.file, point],
                                          stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=60)
                    said.seek(0)
                    self.assertEqual((done.returncode, said.read()), (0, b""))
                script = point / "script"
                script.write_text("#!/bin/sh\nexit 0\n")
                script.chmod(0o755)
                may_execute = options not in ("noexec", "user") and not options.startswith("users")
                self.assertEqual(errno_of(subprocess.run, [script]), None if may_execute else "EACCES")
                self.world.umount(point)

    def test_with_sync_every_change_is_durable_at_once(self):
        """Each change is committed and synced before its call returns: the log has it, and nothing waits for a batch."""
        point = self.world.mount("mnt", "--sync")
        other = self.world.root / "copy.db"
        for number in range(5):
            (point / f"f{number}").write_text("x")
            for suffix in ("", "-wal"):
                shutil.copy(f"{self.world.file}{suffix}", f"{other}{suffix}")
            self.assertIn(f"f{number}\n".encode(), self.world.warren("fs", other, "ls", "/"))
            self.assertEqual(self.world.warren("fs", other, "cat", f"/f{number}"), b"x")
            for suffix in ("", "-wal", "-shm"):
                pathlib.Path(f"{other}{suffix}").unlink(missing_ok=True)
        self.world.umount(point)

    def test_it_refuses_unknown_options(self):
        point = self.world.point()
        status, out, err = self.run_as("mount.warren", self.world.file, point, "-o", "data=journal")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("'data=journal'", err)
        self.assertEqual(self.run_as("mount.warren", self.world.root / "none.db", point)[0], 32)
        self.assertFalse(mounted.is_mounted(point))


class AsAgentfs(Commands):
    def test_mount_and_list(self):
        self.assertEqual(self.agentfs("mount"), (0, "No agentfs filesystems mounted.\n", ""))
        point = self.world.point()
        self.assertEqual(self.agentfs("mount", "a", point), (0, "", ""))
        (point / "file").write_text("x")
        status, out, _ = self.agentfs("mount")
        self.assertEqual((status, [line.split() for line in out.splitlines()]),
                         (0, [["ID", "MOUNTPOINT"], ["a", str(point)]]))
        self.world.umount(point)
        self.check_closed_well()

    def test_exec_and_init_run_a_command(self):
        self.assertEqual(self.agentfs("exec", "a", "sh", "-c", "echo made > f; cat f; exit 7"), (7, "made\n", ""))
        self.assertEqual(self.agentfs("init", "b", "-c", "echo first"),
                         (0, "first\n", "Created agent filesystem: .agentfs/b.db\nAgent ID: b\n"))

    def test_ps_knows_no_run_sessions(self):
        self.world.mount()
        self.assertEqual(self.agentfs("ps"), (0, "No active agentfs run sessions.\n", ""))

    def test_prune_unmounts_unused_mounts(self):
        self.assertEqual(self.agentfs("prune", "mounts"), (0, "Nothing to prune.\n", ""))
        unused, used = self.world.mount("unused"), self.world.mount("used")
        question = f"The following unused mount points will be unmounted:\n\n  a -> {unused}\n\n"
        with open(used / "file", "w"):
            self.assertEqual(self.agentfs("prune", "mounts", input="n\n"),
                             (0, question + "Aborted.\n", "Are you sure? (y/N) "))
            self.assertTrue(mounted.is_mounted(unused))
            self.assertEqual(self.agentfs("prune", "mounts", "--force"),
                             (0, question + f"Unmounting {unused}... done\n", ""))
        self.assertEqual([mount["dir"] for mount in list_mounts()], [str(used)])

    def test_prune_asks_and_accepts_yes(self):
        point = self.world.mount()
        status, out, _ = self.agentfs("prune", "mounts", input="y\n")
        self.assertEqual((status, out.splitlines()[-1]), (0, f"Unmounting {point}... done"))
        self.assertFalse(mounted.is_mounted(point))


def main():
    mounted.need_fuse()
    be_alone()
    unittest.main()


if __name__ == "__main__":
    main()
