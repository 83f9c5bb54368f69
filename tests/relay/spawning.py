"""Agents that a relay starts: programs for them, and what is looked at from outside."""
import json
import os
import pathlib
import signal
import sys

from relaying import RelayCase, configure

# Says what it was given, and ends with the status in its prompt if that is one.
LOOKS = r'''
import json, os, sys
fds = {}
for fd in os.listdir("/proc/self/fd"):
    try:
        fds[fd] = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        pass
fds = {fd: to for fd, to in fds.items() if not to.startswith("/proc/")}
seen = {"argv": [os.fsencode(word).hex() for word in sys.argv[2:]], "env": dict(os.environ), "cwd": os.getcwd(),
        "fds": fds, "pid": os.getpid(), "sid": os.getsid(0), "pgid": os.getpgid(0),
        "blocked": [line.split()[1] for line in open("/proc/self/status") if line.startswith("SigBlk")][0]}
print("to standard output")
print("to standard error", file=sys.stderr)
with open(sys.argv[1] + ".new", "w") as out:
    json.dump(seen, out)
os.rename(sys.argv[1] + ".new", sys.argv[1])
sys.exit(int(sys.argv[2]) if sys.argv[2].isdigit() else 0)
'''

# Adds its process to a file, and stays.
STAYS = r'''#!/bin/sh
echo "$$ $AGENT_RELAY_NAME $AGENT_RELAY_CONTINUITY" >> "$1/runs"
exec sleep 100000
'''

# Does not care for SIGTERM, nor does what it started.
STUBBORN = r'''#!/bin/sh
trap "" TERM
sh -c 'trap "" TERM; echo "$$ grandchild" >> "$0/runs"; while :; do sleep 1; done' "$1" &
echo "$$ $AGENT_RELAY_NAME" >> "$1/runs"
while :; do sleep 1; done
'''

# Has three more of its kind started, as fast as it can.
BOMB = r'''#!/bin/sh
echo "$$ $AGENT_RELAY_NAME" >> "$1/runs"
for i in 0 1 2; do
  name=$(date +%s%N)-0000000$i.msg
  printf 'TO: __orchestrator__\nKIND: spawn\n\nNAME: %s%s\nCLI: bomb\n' "$AGENT_RELAY_NAME" $i > "$AGENT_RELAY_OUTBOX/.pending/$name"
  mv "$AGENT_RELAY_OUTBOX/.pending/$name" "$AGENT_RELAY_OUTBOX/$name"
done
exec sleep 100000
'''

# Saves its state when it hears that it is released.
SAVES = r'''#!/bin/sh
echo "$$ $AGENT_RELAY_NAME $AGENT_RELAY_CONTINUITY" >> "$1/runs"
until grep -qs "^STATE: releasing" "$AGENT_RELAY_INBOX"/*.msg; do sleep 0.05; done
name=$(date +%s%N)-00000000.msg
printf 'TO: __orchestrator__\nKIND: continuity\nTOKEN: %s\n\nACTION: save\n\nwhat I know' "$AGENT_RELAY_TOKEN" > "$AGENT_RELAY_OUTBOX/.pending/$name"
mv "$AGENT_RELAY_OUTBOX/.pending/$name" "$AGENT_RELAY_OUTBOX/$name"
exec sleep 100000
'''


def is_alive(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def running_commands():
    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            found.add((entry / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            pass
    return found


class SpawnCase(RelayCase):
    spawn = {}  # beside what is set here

    def setUp(self):
        super().setUp()
        self.work = self.dir / "work"
        self.work.mkdir(exist_ok=True)
        self.addCleanup(self.end_agents)
        (self.dir / "looks.py").write_text(LOOKS)
        for name, text in (("stays", STAYS), ("stubborn", STUBBORN), ("bomb", BOMB), ("saves", SAVES)):
            (self.dir / name).write_text(text)
            os.chmod(self.dir / name, 0o755)
        clis = {name: {"argv": [str(self.dir / name), str(self.work)]} for name in ("stays", "stubborn", "bomb", "saves")}
        clis["looks"] = {"argv": [sys.executable, str(self.dir / "looks.py"), f"{self.work}/{{name}}.json", "{prompt}",
                                  "before {prompt} after", "{name}", "{not a placeholder}"]}
        clis["absent"] = {"argv": [str(self.dir / "absent")]}
        clis["garbage"] = {"argv": [str(self.dir / "garbage")]}
        (self.dir / "garbage").write_bytes(b"\x7fELF nothing of the kind")
        os.chmod(self.dir / "garbage", 0o755)
        self.root.mkdir(mode=0o700, exist_ok=True)
        settings = {"clis": clis, "roots": [str(self.work)], "env": ["TASK", "MY_*"], "notice_ms": 0, **self.spawn}
        configure(self.root, {**self.config, "spawn": settings})

    def end_agents(self):
        """Whatever names the test's own directory: its agents."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                mine = str(self.dir).encode() in (entry / "environ").read_bytes()
            except OSError:
                continue
            if mine and int(entry.name) != os.getpid():
                try:
                    os.kill(int(entry.name), signal.SIGKILL)
                except OSError:
                    pass

    def ask(self, agent, name, cli="stays", more=""):
        return self.send(agent, f"TO: __orchestrator__\nKIND: spawn\n\nNAME: {name}\nCLI: {cli}\n{more}")

    def ask_release(self, agent, name):
        return self.send(agent, f"TO: __orchestrator__\nKIND: release\n\nNAME: {name}\nREASON: enough\n")

    def seen(self, name):
        path = self.work / f"{name}.json"
        self.wait(path.exists, 60)
        return json.loads(path.read_text())

    def told(self, agent, about=None):
        """What the relay told an agent, as (STATE or nack's ERROR, AGENT, headers, body)."""
        out = []
        for headers, body in self.inbox(agent):
            if headers["FROM"] == "__orchestrator__" and about in (None, headers.get("REFERENCE")):
                out.append((headers.get("STATE") or headers.get("ERROR"), headers.get("AGENT"), headers, body.decode()))
        return out

    def states(self, agent, about=None):
        return [state for state, _, _, _ in self.told(agent, about)]

    def runs(self):
        path = self.work / "runs"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def lives(self):
        return {one["name"]: one for one in json.loads(self.command("agents", "--all", "--json").stdout) if "spawner" in one}
