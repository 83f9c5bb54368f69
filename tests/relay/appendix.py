#!/usr/bin/env python3
"""The specification's shell example, unchanged, as agents of all kinds would use it; and its steps for attachments."""
import hashlib
import json
import os
import stat
import subprocess

from relaying import WARREN, RelayCase, main
from routing import APPENDIX_A

# Section 3.4 in shell: the attachment first, by the same pattern, then a message that refers to it.
ATTACH = r'''set -eu
STORE="$HOME/.agent-relay/attachments"
HASH=$(sha256sum "$1" | cut -d' ' -f1)
mkdir -p "$STORE/.pending" "$STORE/${HASH:0:2}"
TEMP_FILE="$STORE/.pending/$$"
cp "$1" "$TEMP_FILE"
sync "$TEMP_FILE"
mv "$TEMP_FILE" "$STORE/${HASH:0:2}/$HASH"
sync "$STORE/${HASH:0:2}"

OUTBOX="$HOME/.agent-relay/agents/myagent/outbox"
mkdir -p "$OUTBOX/.pending"
FILENAME="$(date +%s%N)-$(head -c 4 /dev/urandom | xxd -p).msg"
printf 'TO: Worker\nKIND: message\nATTACHMENT: sha256:%s\n\nProcess this file.\n' "$HASH" > "$OUTBOX/.pending/$FILENAME"
sync "$OUTBOX/.pending/$FILENAME"
mv "$OUTBOX/.pending/$FILENAME" "$OUTBOX/$FILENAME"
sync "$OUTBOX"
'''


class Appendix(RelayCase):
    def setUp(self):
        super().setUp()
        self.root = self.dir / ".agent-relay"

    def shell(self, script, *words, **variables):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.dir), **variables}
        return subprocess.Popen(["bash", "-c", script, "bash", *words], env=environment, stdout=subprocess.PIPE, text=True)

    def finish(self, process):
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        return out

    def test_sent_before_there_ever_was_a_relay_it_is_delivered_by_the_first(self):
        out = self.finish(self.shell(APPENDIX_A))
        file = out.split()[-1]
        self.assertEqual(out, f"Message written: {file}\n")
        self.up()
        self.wait(lambda: self.state(f"myagent/{file[:-4]}") == {"Lead": "held"})
        for path in (".", "agents", "agents/myagent", "agents/myagent/outbox", "agents/myagent/outbox/.pending"):
            self.assertEqual(stat.S_IMODE(os.stat(self.root / path).st_mode), 0o700, path)
        self.agent("Lead")
        self.wait(lambda: self.inbox("Lead"))
        headers, body = self.inbox("Lead")[0]
        self.assertEqual(body, b"ACK: Task received and understood.\n")
        self.assertEqual((headers["TO"], headers["FROM"], headers["ID"]), ("Lead", "myagent", f"myagent/{file[:-4]}"))

    def test_many_at_once_under_several_names_all_arrive_once(self):
        self.up()
        self.agent("Lead")
        names = [f"agent{number % 4}" for number in range(24)]
        written = [self.shell(APPENDIX_A, AGENT_RELAY_NAME=name) for name in names]
        ids = {f"{name}/{self.finish(process).split()[-1][:-4]}" for name, process in zip(names, written)}
        self.assertEqual(len(ids), 24)
        self.wait(lambda: len(self.inbox("Lead")) >= 24, 60)
        self.assertEqual(sorted(headers["ID"] for headers, _ in self.inbox("Lead")), sorted(ids))
        for name in set(names):
            outbox = self.root / "agents" / name / "outbox"
            self.wait(lambda: not list(outbox.glob("*.msg")))
        self.kill(15)
        self.fsck()

    def test_an_attachment_made_by_the_shell_is_verified_and_delivered(self):
        self.up()
        self.agent("Worker")
        file = self.dir / "input.bin"
        file.write_bytes(os.urandom(3_000_000))
        self.finish(self.shell(ATTACH, str(file)))
        self.wait(lambda: self.inbox("Worker"), 60)
        headers, body = self.inbox("Worker")[0]
        hash_ = hashlib.sha256(file.read_bytes()).hexdigest()
        self.assertEqual((headers["ATTACHMENT"], body), (f"sha256:{hash_}", b"Process this file.\n"))
        stored = self.root / "attachments" / hash_[:2] / hash_
        self.assertEqual(stat.S_IMODE(stored.stat().st_mode), 0o600)
        self.assertEqual(stored.read_bytes(), file.read_bytes())
        done = subprocess.run([WARREN, "relay", "inbox", "Worker", "--json", "--save", self.dir / "out"],
                              env={"HOME": str(self.dir)}, capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout)["attachments"][0]["saved"], hash_)
        self.assertEqual((self.dir / "out" / hash_).read_bytes(), file.read_bytes())


if __name__ == "__main__":
    main()
