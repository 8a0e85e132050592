"""Members of a group as processes, and the invariants of their reports."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.support import java_clients, node_clients

SCRIPT = Path(__file__).parents[1] / "interop" / "group_member.py"
OLD_KAFKA_PYTHON = Path(sys.prefix) / "kafka-python-2.0.2"

KINDS = {  # name: library, API version, whether it is the old kafka-python
    "zkbroker": ("zkbroker", "", False),
    "confluent": ("confluent", "", False),
    "kafka-python": ("kafka-python", "", False),
    "aiokafka": ("aiokafka", "", False),
    "kafka-python-2.0.2-as-0.9": ("kafka-python", "0.9", True),
    "kafka-python-2.0.2-as-0.10": ("kafka-python", "0.10", True),
    "kafka-python-2.0.2-as-0.11": ("kafka-python", "0.11", True),
}


def _command(kind, *arguments, session_ms):
    """The command and environment of a member; `java-VERSION` and `node-LIBRARY` are kinds too."""
    environment = dict(os.environ)
    if kind.startswith("node-"):
        environment = node_clients.environment() | {"GROUP_MEMBER_SESSION_MS": str(session_ms)}
        if kind == "node-high-level":  # it gets the ZooKeeper address, and has one strategy
            return [*node_clients.command("zookeeper_member.js"), *arguments[:3]], environment
        member = node_clients.command("group_member.js")
        return [*member, kind.removeprefix("node-"), *arguments], environment
    if kind.startswith("java-"):
        version = kind.removeprefix("java-")
        return java_clients.command(
            "GroupMember", version, *arguments, str(session_ms)
        ), environment
    library, version, old = KINDS[kind]
    root = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(([str(OLD_KAFKA_PYTHON)] if old else []) + [root])
    environment["GROUP_MEMBER_SESSION_MS"] = str(session_ms)
    more = [version] if version else []
    return [sys.executable, str(SCRIPT), library, *arguments, *more], environment


class MemberProcess:
    """A member; `held` has its present partitions."""

    def __init__(self, kind, address, group, topic, strategy="range", session_ms=10_000):
        command, environment = _command(
            kind, address, group, topic, strategy, session_ms=session_ms
        )
        self.kind = kind
        self.changed = threading.Condition()
        self.held = set()
        self.holdings = []  # (partition, from, until)
        self.since = {}
        self.read = []
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self._threads = [
            threading.Thread(target=self._follow, daemon=True),
            threading.Thread(target=self._collect_errors, daemon=True),
        ]
        self.errors = []
        for thread in self._threads:
            thread.start()

    def _follow(self):
        for line in self.process.stdout:
            entry = json.loads(line)
            with self.changed:
                if entry["event"] == "assigned":
                    self._release(self.held, entry["at"])
                    self.held = set(entry["partitions"])
                    self.since = dict.fromkeys(self.held, entry["at"])
                elif entry["event"] == "revoked":
                    self._release(set(entry["partitions"]) & self.held, entry["at"])
                    self.held -= set(entry["partitions"])
                elif entry["event"] == "messages":
                    self.read += map(tuple, entry["read"])
                elif entry["event"] == "leaving":
                    self._release(self.held, entry["at"])
                    self.held = set()
                self.changed.notify_all()

    def _release(self, partitions, at):
        self.holdings += [(number, self.since.pop(number), at) for number in partitions]

    def _collect_errors(self):
        self.errors = self.process.stderr.readlines()

    def leave(self):
        """End gracefully."""
        self.process.stdin.close()
        assert self.process.wait(90) == 0, self.errors
        self._finish(time.monotonic())

    def crash(self):
        """End as by a power cut."""
        self.process.kill()
        self.process.wait(90)
        self._finish(time.monotonic())

    def _finish(self, at):
        self._threads[0].join(60)
        with self.changed:
            self._release(set(self.since), at)
            self.held = set()


def wait_for(condition, what, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


def wait_until_shared(members, partitions):
    """Wait until these members hold all partitions, each its own."""

    def shared():
        held = [number for member in members for number in member.held]
        return sorted(held) == list(range(partitions)) and all(m.held for m in members)

    wait_for(shared, lambda: f"not shared: {[(m.kind, m.held, m.errors[-3:]) for m in members]}")


def wait_until_read(members, ends):
    """Wait until everything below the end offsets has been read by any member."""

    def missing():
        read = {entry for member in members for entry in list(member.read)}
        return [
            (number, offset)
            for number, end in ends.items()
            for offset in range(end)
            if (number, offset) not in read
        ]

    wait_for(lambda: not missing(), lambda: f"never delivered: {missing()[:10]}")


def check_nothing_was_held_twice(members):
    """Whether two members ever held one partition at the same time."""
    spans = sorted(
        (number, since, until, member.kind)
        for member in members
        for number, since, until in member.holdings
    )
    for before, after in itertools.pairwise(spans):
        if before[0] == after[0]:
            assert before[2] <= after[1], (before, after)
