#!/usr/bin/env python3
"""More messages at once than the relay enters into its tables as they come: they are delivered all the same, once and in
order; what is acknowledged meanwhile stays acknowledged; and when it is quiet, everything is recorded as what it is."""
import os
import signal
import threading
import time

from relaying import RelayCase, main, mount_disk, parse, query

SENDERS = [f"sender{i}" for i in range(4)]
RECEIVERS = ["red", "blue"]
EACH = 3000         # in all more than the 8,192 from which on rounds enter more than they take
ACKED_OF_EACH = 30  # one of so many that a receiver took


class Receiver(threading.Thread):
    def __init__(self, root, name, count):
        super().__init__(daemon=True)
        self.root, self.agent, self.left = root, name, count
        self.got, self.acked = [], []

    def run(self):
        inbox = self.root / "agents" / self.agent / "inbox"
        while self.left > 0:
            for name in sorted(name for name in os.listdir(inbox) if name.endswith(".msg")):
                headers, body = parse((inbox / name).read_bytes())
                os.rename(inbox / name, inbox / ".done" / name)
                self.got.append((headers["FROM"], int(body)))
                self.left -= 1
                if len(self.got) % ACKED_OF_EACH == 0:
                    self.acknowledge(name, headers["ID"])
            time.sleep(0.001)

    def acknowledge(self, name, message):
        outbox = self.root / "agents" / self.agent / "outbox"
        file = f"{time.time_ns()}-{len(self.acked):016x}.msg"
        (outbox / ".pending" / file).write_text(f"TO: __orchestrator__\nKIND: ack\nREFERENCE: {name}\n\n")
        os.rename(outbox / ".pending" / file, outbox / file)
        self.acked.append(message)


class Rush(RelayCase):
    def setUp(self):
        super().setUp()
        mount_disk(self, self.dir / "disk", 1024, 200_000)
        self.root = self.dir / "disk/root"

    def write_all(self):
        base = time.time_ns()
        for number in range(EACH):
            for sender in SENDERS:
                file = self.root / "agents" / sender / "outbox" / f"{base + number}-{number:016x}.msg"
                file.write_text(f"TO: {RECEIVERS[number % 2]}\n\n{number}")

    def rush(self, acknowledges):
        self.up()
        self.agent(*SENDERS, *RECEIVERS)
        self.kill()
        self.write_all()
        if not acknowledges:
            Receiver.acknowledge = lambda *_: None
        receivers = [Receiver(self.root, name, EACH * len(SENDERS) // 2) for name in RECEIVERS]
        for receiver in receivers:
            receiver.start()
        self.up()
        most = 0
        while any(receiver.is_alive() for receiver in receivers):
            most = max(most, *(row[0] for row in query(self.root, "SELECT count(*) FROM arrivals")))
            time.sleep(0.05)
        for receiver in receivers:
            for sender in SENDERS:
                numbers = [number for name, number in receiver.got if name == sender]
                self.assertEqual(numbers, [n for n in range(EACH) if RECEIVERS[n % 2] == receiver.agent])
        return receivers, most

    def states(self):
        return dict(query(self.root, "SELECT state, count(*) FROM deliveries WHERE recipient IN ('red', 'blue') GROUP BY 1"))

    def test_everything_is_recorded_when_it_is_quiet(self):
        acknowledge = Receiver.acknowledge
        self.addCleanup(lambda: setattr(Receiver, "acknowledge", acknowledge))
        _, most = self.rush(False)
        self.assertGreater(most, 256, "nothing waited for a quiet moment: this tests nothing")
        self.wait(lambda: self.states() == {"read": EACH * len(SENDERS)}, 60)
        # Contents go when nothing can vanish any more, within some seconds.
        self.wait(lambda: query(self.root, "SELECT count(*) FROM arrivals") == [(0,)], 60)
        done = query(self.root, "SELECT status, count(*) FROM messages GROUP BY 1")
        self.assertEqual(done, [("completed", EACH * len(SENDERS))])
        self.kill()
        self.fsck()

    def test_what_is_acknowledged_in_a_rush_stays_so(self):
        receivers, _ = self.rush(True)
        acked = [message for receiver in receivers for message in receiver.acked]
        self.assertGreater(len(acked), 100)
        wanted = {"acked": len(acked), "read": EACH * len(SENDERS) - len(acked)}
        self.wait(lambda: self.states() == wanted, 60)
        found = query(self.root, "SELECT message_id FROM deliveries WHERE state = 'acked'")
        self.assertEqual(sorted(row[0] for row in found), sorted(acked))

    def test_a_stop_in_the_middle_of_it_loses_nothing(self):
        self.up()
        self.agent(*SENDERS, *RECEIVERS)
        self.kill()
        self.write_all()
        self.up()
        self.wait(lambda: query(self.root, "SELECT count(*) FROM every_delivery")[0][0] > 2000)
        self.kill(signal.SIGTERM)
        self.assertEqual(query(self.root, "SELECT count(*) FROM every_delivery"),
                         query(self.root, "SELECT count(*) FROM deliveries"))
        self.up()
        self.wait(lambda: sum(len(os.listdir(self.root / "agents" / name / "inbox")) - 1 for name in RECEIVERS)
                  == EACH * len(SENDERS), 60)
        self.kill()
        self.fsck()


if __name__ == "__main__":
    main()
