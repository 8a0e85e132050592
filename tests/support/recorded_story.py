"""The steps of a recorded genuine cluster, as its controller saw and caused them.

    zk WHO: ...                  a write to ZooKeeper, of the controller or of others
    A>B Request ... => answer    a request of the controller or to it

Invariant: an action of others is an `Event`, in its order; the actions of the controller itself
are stored in the `Step`, for comparison with another controller that gets the same events.
"""

import gzip
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zkbroker.registry.partition_states import Key

_STEP = re.compile(r"== (\S+)  (.*)")
_ZK = re.compile(r"\s*[+-][\d.]+ zk (\S+): (.*)")
_REQUEST = re.compile(r"\s*[+-][\d.]+ (\S+)>([\d,]+) (\w+) v(\d+) (.*)")
_WRITE = re.compile(r"(\[ce v\d+\] )?(create|set|delete) (/\S+)(?: \(v\d+\))?(?:  (.*))?$")
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state$")
_SENT_STATE = re.compile(
    r"([\w.]+)-(\d+) L(-?\d+) e(\d+) isr\[([\d,]*)\] zv(\d+) r\[([\d,]*)\](?: ce\d+)?( NEW)?"
    r"(?: offline\[([\d,]*)\])?"
)


@dataclass(frozen=True)
class Event:
    """An event to which a controller reacts.

    Args:
        kind: join, gone, elected, isr, put, delete, shutdown or prefer.
        broker: its id; -1 for events without a broker.
        key: the partition whose ISR its leader changed.
        isr: the ISR that the leader wrote.
        path: of the written node.
        data: of the written node.
        keys: the partitions of a preferred leader election.
    """

    kind: str
    broker: int = -1
    key: Key = ("", -1)
    isr: tuple[int, ...] = ()
    path: str = ""
    data: str = ""
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class SentState:
    """The state of a partition that a broker was sent, without epochs and versions."""

    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline: tuple[int, ...] = ()


@dataclass
class Step:
    """One step: its events, and the controller's actions that were not refused."""

    name: str
    title: str
    events: list[Event] = field(default_factory=list)
    decisions: dict[Key, list[tuple[int, frozenset[int]]]] = field(default_factory=dict)
    """Leader and ISR of each decision that was stored."""
    assigned: dict[str, list[Any]] = field(default_factory=dict)
    """The assignments that the controller wrote, by topic."""
    deleted: set[str] = field(default_factory=set)
    """The nodes that the controller deleted."""
    sent: dict[tuple[int, Key], SentState] = field(default_factory=dict)
    """LeaderAndIsr: the last state that each broker accepted."""
    made: set[tuple[int, Key]] = field(default_factory=set)
    """LeaderAndIsr with is_new."""
    metadata: dict[tuple[int, Key], SentState] = field(default_factory=dict)
    """UpdateMetadata: the last state sent to each broker."""
    live: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The last live brokers sent to each broker."""
    stopped: set[tuple[int, bool, Key]] = field(default_factory=set)
    """StopReplica: broker, with deletion or not, partition."""


def _ids(text: str | None) -> tuple[int, ...]:
    return tuple(int(each) for each in (text or "").split(",") if each)


def _partitions(text: str) -> list[tuple[Key, SentState, bool, int]]:
    return [
        (
            (each[1], int(each[2])),
            SentState(int(each[3]), _ids(each[5]), _ids(each[7]), _ids(each[9])),
            bool(each[8]),
            int(each[4]),
        )
        for each in _SENT_STATE.finditer(text)
    ]


class _Reader:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.controller = -1
        self._bodies: dict[tuple[str, str], str] = {}

    @property
    def step(self) -> Step:
        return self.steps[-1]

    def read(self, line: str) -> None:
        if begun := _STEP.match(line):
            self.steps.append(Step(begun[1], begun[2]))
            self._bodies.clear()
        elif not self.steps:
            return  # the legend
        elif written := _ZK.match(line):
            self._written(written[1], written[2])
        elif sent := _REQUEST.match(line):
            at = line.split()[0]
            self._request(at, sent[1], sent[2], sent[3], sent[5])

    def _event(self, kind: str, **more: Any) -> None:
        self.step.events.append(Event(kind, **more))

    def _written(self, writer: str, text: str) -> None:
        if text.startswith("session closed"):
            self._event("gone", broker=int(writer[1:]))
        elif text.startswith("multi[ create-ephemeral /brokers/ids/"):
            self._event("join", broker=int(writer[1:]))
        elif text.startswith("multi[ create-ephemeral /controller "):
            self.controller = int(writer[1:])
            self._event("elected", broker=self.controller)
        elif write := _WRITE.match(text):
            fenced, verb, path, data = bool(write[1]), write[2], write[3], write[4] or ""
            state = _STATE.match(path)
            if state and verb != "delete":
                self._decided((state[1], int(state[2])), json.loads(data), own=fenced)
            elif fenced:
                self._own_write(verb, path, data)
            elif self._concerns_a_controller(path):
                self._event("delete" if verb == "delete" else "put", path=path, data=data)

    @staticmethod
    def _concerns_a_controller(path: str) -> bool:
        return path.startswith(
            ("/brokers/topics/", "/config/", "/admin/", "/isr_change", "/controller")
        )

    def _decided(self, key: Key, state: Any, *, own: bool) -> None:
        if own:
            decision = (state["leader"], frozenset(state["isr"]))
            self.step.decisions.setdefault(key, []).append(decision)
        else:
            self._event("isr", key=key, isr=tuple(state["isr"]))

    def _own_write(self, verb: str, path: str, data: str) -> None:
        if verb == "delete":
            self.step.deleted.add(path)
        elif path.startswith("/brokers/topics/") and verb == "set":
            partitions = json.loads(data)["partitions"]
            self.step.assigned.setdefault(path.rsplit("/", 1)[1], []).append(partitions)

    def _request(self, at: str, sender: str, receivers: str, api: str, text: str) -> None:
        if sender == "probe":
            return
        if api == "ControlledShutdown":
            for _ in receivers.split(","):
                self._event("shutdown", broker=int(sender))
            return
        if api == "ElectPreferredLeaders":
            topics = json.loads(text.split(" => ")[0])["topics"]
            keys = tuple((t["topic"], number) for t in topics for number in t["partitions"])
            self._event("prefer", keys=keys)
            return
        if api not in ("LeaderAndIsr", "UpdateMetadata", "StopReplica"):
            return
        if f"ctl={sender}/" not in text:
            return
        body, _, answer = text.partition(" => ")
        if same := re.search(r"\(body as at (\S+)\)", body):
            body = self._bodies[api, same[1]]
        else:
            self._bodies[api, at] = body
        for broker in _ids(receivers):
            self._received(api, broker, body, answer)

    def _received(self, api: str, broker: int, body: str, answer: str) -> None:
        step = self.step
        if api == "StopReplica":
            delete = "delete=true" in body
            named = re.search(r"\{(.*?)\}", body)
            for text in (named[1] if named else "").split():
                topic, _, number = text.rpartition("-")
                step.stopped.add((broker, delete, (topic, int(number))))
            return
        if api == "UpdateMetadata":
            for key, state, _, _ in _partitions(body):
                step.metadata[broker, key] = state
            live = re.search(r"live_brokers=\[([\d,]*)\]", body)
            if live:
                step.live[broker] = _ids(live[1])
            return
        for key, state, new, _ in _partitions(body):
            if re.search(rf"\b{re.escape(key[0])}-{key[1]}: \d+", answer):
                continue  # an epoch that the broker had, or a replica of another broker
            step.sent[broker, key] = state
            if new:
                step.made.add((broker, key))


def read_story(path: Path) -> list[Step]:
    """Read a recorded sequence."""
    reader = _Reader()
    with gzip.open(path, "rt") as lines:
        for line in lines:
            reader.read(line.rstrip("\n"))
    return reader.steps
