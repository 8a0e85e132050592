"""Our controller takes the same decisions as genuine ones in the steps of recorded clusters.

It gets the events of the genuine one in the same order: brokers that start and stop, topics,
requests in `/admin`, ISRs written by leaders, controlled shutdowns, its own elections. Each step
compares its decisions, the last state sent to each broker, and its writes to ZooKeeper;
`DIFFERENCES` has every difference, with its reason. And our requests come in an order that genuine
brokers accept.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.controlled_cluster import ControlledCluster, SentRequest
from tests.support.recorded_story import Event, SentState, Step, read_story
from zkbroker.errors import ProtocolError
from zkbroker.protocol import ApiKey
from zkbroker.registry import paths
from zkbroker.registry.partition_states import Key, LeaderAndIsr
from zkbroker.registry.state_form import StateForm

DATA = Path(__file__).parent / "data" / "replication"
COMPARED = ("/brokers/topics/", "/config/topics/", "/admin/", "/isr_change")
RUNS = {"2.3.0": "2.3", "2.3.0-ibp2.1": "2.1"}


@dataclass
class BrokerState:
    """The state of one broker by the requests that it received."""

    live: set[int] = field(default_factory=set)
    epochs: dict[Key, int] = field(default_factory=dict)
    stopped: set[Key] = field(default_factory=set)


class Replay:
    """Our controller in a tree like the recorded one."""

    def __init__(self, level: str) -> None:
        self.cluster = ControlledCluster(StateForm.PERSISTENT, level=level)
        self.brokers: dict[int, BrokerState] = {}
        self.controller = -1
        self.wrong: list[str] = []
        self.decided: list[tuple[Key, LeaderAndIsr]] = []
        self.ours = Step("", "")
        write = self.cluster.states.write

        def noted(decisions: Any, epoch_version: int) -> Any:
            stored = write(decisions, epoch_version)
            self.decided += stored.items()
            return stored

        self.cluster.states.write = noted  # type: ignore[method-assign]

    def play(self, step: Step) -> Step:
        """Play the events of a step, and return what our controller did."""
        self.decided.clear()
        self.cluster.clear_sent()
        self.ours = Step(step.name, step.title)
        for event in step.events:
            self._meet(event)
        for key, state in self.decided:
            self.ours.decisions.setdefault(key, []).append((state.leader, frozenset(state.isr)))
        return self.ours

    def _meet(self, event: Event) -> None:
        cluster = self.cluster
        session = cluster.session
        began = len(cluster.channels.sent)
        before = {path: node.data for path, node in cluster.server.nodes.items()}
        match event.kind:
            case "join":
                cluster.start(event.broker)
                self.brokers[event.broker] = BrokerState()
            case "gone":
                cluster.kill(event.broker)
                if event.broker == self.controller:
                    self.controller = -1
            case "elected":
                self.controller = event.broker
                cluster.settings = replace(cluster.settings, controller_id=event.broker)
                cluster.channels.unanswered.clear()
                cluster.elect_controller()
            case "isr":
                cluster.change_isr(event.key, *event.isr)
            case "put" if event.path.startswith(paths.CONTROLLER):
                pass
            case "put" if cluster.exists(event.path):
                session.set(event.path, event.data.encode())
            case "put":
                session.create(event.path, event.data.encode(), parents=True)
            case "delete" if cluster.exists(event.path) and event.path != paths.CONTROLLER:
                session.delete(event.path)
            case "shutdown":
                cluster.settle()
                try:
                    cluster.term.moves.controlled_shutdown(event.broker, -1)
                except ProtocolError as refused:
                    self.wrong.append(f"shutdown of {event.broker} refused: {refused}")
            case "prefer":
                cluster.term.moves.elect_preferred(event.keys)
        if self.controller >= 0:
            cluster.settle()
        if event.kind == "put":
            before[event.path] = event.data.encode()
        self._note_writes(event, before)
        for sent in cluster.channels.sent[began:]:
            self._receive(sent)

    # -- the actions of our controller

    def _note_writes(self, event: Event, before: dict[str, bytes]) -> None:
        nodes = self.cluster.server.nodes
        for path in before.keys() - nodes.keys():
            if path.startswith(COMPARED) and (event.kind, event.path) != ("delete", path):
                self.ours.deleted.add(path)
        for path, data in before.items():
            parts = path.split("/")
            topic = path.startswith("/brokers/topics/") and len(parts) == 4
            if topic and path in nodes and nodes[path].data != data:
                assigned = json.loads(nodes[path].data)["partitions"]
                self.ours.assigned.setdefault(parts[3], []).append(assigned)

    # -- the order in which a genuine broker accepts requests

    def _receive(self, sent: SentRequest) -> None:
        broker = self.brokers[sent.broker]
        request = sent.request
        if request.controller_id != self.controller:
            self.wrong.append(f"{sent.broker} gets a request of controller {request.controller_id}")
        if request.api_key == ApiKey.UPDATE_METADATA:
            broker.live = {each.id for each in request.live_brokers}
            if sent.broker not in broker.live:
                self.wrong.append(f"{sent.broker} is not among the live brokers sent to it")
            for key, state in sent.states().items():
                self.ours.metadata[sent.broker, key] = _sent_state(state)
            self.ours.live[sent.broker] = tuple(sorted(broker.live))
        elif request.api_key == ApiKey.LEADER_AND_ISR:
            for key, state in sent.states().items():
                self._receive_decision(sent.broker, key, state)
        else:
            for key in request.replicas():
                delete = bool(request.delete_partitions)
                self.ours.stopped.add((sent.broker, delete, key))
                if delete and key not in broker.stopped:
                    self.wrong.append(f"{sent.broker} deletes {key} before it stops it")
                if delete:
                    broker.epochs.pop(key, None)
                broker.stopped.add(key)

    def _receive_decision(self, broker: int, key: Key, state: Any) -> None:
        known = self.brokers[broker]
        if state.leader_epoch <= known.epochs.get(key, -1):
            return  # a harmless repetition, answered with 11
        known.epochs[key] = state.leader_epoch
        known.stopped.discard(key)
        self.ours.sent[broker, key] = _sent_state(state)
        if state.is_new:
            self.ours.made.add((broker, key))
        node = self.cluster.server.nodes.get(paths.partition_state(*key))
        if node is None or state.leader_epoch > json.loads(node.data)["leader_epoch"]:
            self.wrong.append(f"{broker} gets a state of {key} that is not stored")
        if state.leader >= 0 and state.leader not in known.live | {broker}:
            self.wrong.append(f"{broker} follows {state.leader} for {key}, which it does not know")
        if broker not in state.replicas:
            self.wrong.append(f"{broker} has no replica of {key}")


def _sent_state(state: Any) -> SentState:
    offline = tuple(getattr(state, "offline_replicas", None) or ())
    return SentState(state.leader, tuple(state.isr), tuple(state.replicas), offline)


def differences(genuine: Step, ours: Step) -> Iterator[tuple[str, str]]:
    """Yield the kind of each difference, and its place."""
    for key in sorted(genuine.decisions.keys() | ours.decisions.keys()):
        theirs, own = genuine.decisions.get(key, []), ours.decisions.get(key, [])
        if theirs == own:
            continue
        where = f"{key[0]}-{key[1]}"
        if own and theirs and theirs[-1] == own[-1]:
            yield "decided in other steps", f"{where}: {theirs} ours {own}"
        elif not own:
            yield "not decided", f"{where}: {theirs}"
        else:
            yield "decided otherwise", f"{where}: {theirs} ours {own}"
    for name in ("assigned", "deleted", "sent", "made", "metadata", "live", "stopped"):
        theirs, own = getattr(genuine, name), getattr(ours, name)
        if theirs == own:
            continue
        if isinstance(theirs, set):
            if theirs - own:
                yield f"{name}: missing", f"{sorted(theirs - own)}"
            if own - theirs:
                yield f"{name}: added", f"{sorted(own - theirs)}"
            continue
        for each in sorted(theirs.keys() | own.keys(), key=str):
            if each not in own:
                yield f"{name}: missing", f"{each} {theirs[each]}"
            elif each not in theirs:
                yield f"{name}: added", f"{each} {own[each]}"
            elif not _same(theirs[each], own[each]):
                yield f"{name}: other", f"{each} {theirs[each]} ours {own[each]}"


def _same(theirs: Any, own: Any) -> bool:
    if isinstance(theirs, SentState) and isinstance(own, SentState):
        return _unordered(theirs) == _unordered(own)
    return bool(theirs == own)


def _unordered(state: SentState) -> tuple[Any, ...]:
    return state.leader, set(state.isr), state.replicas, set(state.offline)


ONE_DECISION = (
    "one decision, where the genuine controller writes two: first another leader or none, then the "
    "ISR"
)
LEAVER_STOPS = (
    "a broker that shuts down also stops fetching the partitions that it led: else it would be in "
    "the ISR again until its node is deleted"
)
LEAVER_TOLD = "requests to a broker that shuts down are not recorded, or were not answered in time"
UNION_ORDER = "while a partition moves its present replicas come first, in genuine clusters the new"
NEW_ONCE = (
    "a new replica gets is_new in the present epoch; from the genuine controller in the previous "
    "one, which is refused with 11"
)
DELETION_DECIDES_NOTHING = "no decision for a topic in deletion; its ISR is not shrunk first"
DELETION_WAITS = (
    "a deletion begins when every replica is alive: until then the topic is served, and no replica "
    "is stopped"
)
NEW_EPOCH_AFTER_RETURN = (
    "a broker that registered after the last decision gets a new epoch: it may have lost messages "
    "that were not on its disk; other replicas are preferred as leaders"
)
FOLLOWS = "a consequence of the different decision in c10"

BOTH = {
    ONE_DECISION: {(step, "decided in other steps") for step in ("c5", "c5t", "c8", "e2", "e5")},
    LEAVER_STOPS: {(step, "stopped: added") for step in ("c2", "c9", "o1", "z")},
    UNION_ORDER: {
        (step, what) for step in ("c5", "c5t") for what in ("assigned: other", "sent: other")
    },
    NEW_ONCE: {("c5", "made: added"), ("c5t", "made: added")},
    DELETION_DECIDES_NOTHING: {("c6", "not decided")},
    DELETION_WAITS: {
        ("c6d1", "decided otherwise"),
        ("c6d1", "metadata: other"),
        ("c6d1", "stopped: missing"),
        ("c6d2", "sent: missing"),
        ("c6d2", "stopped: added"),
    },
    NEW_EPOCH_AFTER_RETURN: {("e2", "decided otherwise")},
}
DIFFERENCES: dict[str, dict[str, set[tuple[str, str]]]] = {
    "2.3.0": {
        **BOTH,
        LEAVER_TOLD: {
            ("c2", "metadata: added"),
            ("o1", "metadata: added"),
            ("o1", "live: added"),
            ("z", "metadata: other"),
        },
    },
    "2.3.0-ibp2.1": {
        **BOTH,
        LEAVER_TOLD: {
            ("c1", "sent: added"),
            ("d1", "metadata: added"),
            ("d1", "live: added"),
            ("e1", "sent: missing"),
        },
        NEW_EPOCH_AFTER_RETURN: {
            ("e2", "decided otherwise"),
            ("c10", "decided otherwise"),
            ("c10", "sent: added"),
            ("c10", "metadata: other"),
        },
        FOLLOWS: {
            ("e5", "decided otherwise"),
            ("e5", "sent: other"),
            ("e5", "metadata: other"),
            ("e6", "decided otherwise"),
            ("e6", "sent: other"),
            ("e6", "metadata: other"),
            ("z", "decided in other steps"),
            ("z", "sent: other"),
            ("z", "metadata: other"),
        },
    },
}
"""Run → reason → step and kind of each difference. Each must occur."""


@pytest.mark.parametrize("run", RUNS)
def test_controller_takes_genuine_decisions(run: str) -> None:
    replay = Replay(RUNS[run])
    known = set().union(*DIFFERENCES[run].values())
    found: set[tuple[str, str]] = set()
    unexplained = []
    decided = 0
    for step in read_story(DATA / f"sequence-{run}.txt.gz"):
        ours = replay.play(step)
        decided += sum(map(len, ours.decisions.values()))
        for what, where in differences(step, ours):
            found.add((step.name, what))
            if (step.name, what) not in known:
                unexplained.append(f"{step.name} {what}: {where}")
    assert not unexplained, "\n".join(unexplained)
    assert found == known
    assert replay.wrong == [], "a genuine broker could not carry this out in that order"
    assert decided > 140
