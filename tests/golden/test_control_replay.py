"""Recorded requests of genuine controllers and of probes get the same codes, or a listed reason.

The controller's requests: every LeaderAndIsr, StopReplica and UpdateMetadata of a recorded run in
its order, each to its broker, with real logs; restarted brokers are created again on their
directories. The probes: requests with stale epochs, unassigned replicas and the like, sent to real
broker processes in the state of the genuine ones.
"""

import gzip
import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import MortalBroker
from tests.support.logs import make_manager
from tests.support.process import eventually
from tests.support.recorded_exchanges import Wire, content
from zkbroker.broker.view import ClusterView
from zkbroker.log import FileSystem, LogManager
from zkbroker.log.checkpoints import write_epochs
from zkbroker.log.names import LEADER_EPOCHS
from zkbroker.protocol import ApiKey, decode_request, decode_response, encode_request
from zkbroker.records import iter_entries
from zkbroker.registry import paths
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.partition_states import LeaderAndIsr, PartitionStates
from zkbroker.registry.state_form import StateForm
from zkbroker.replica.fencing import ControllerFence, states_in
from zkbroker.replica.leadership import LeaderSettings
from zkbroker.replica.manager import ReplicaManager
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession

DATA = Path(__file__).parent / "data" / "replication"
V08, V21, V23 = "kafka-0.8.2.2", "kafka-2.3.0-ibp2.1", "kafka-2.3.0"
RUNS = (V08, V21, V23)
STORY = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA}

RESTARTS = {
    "b3": (1,), "b5": (1,), "c3": (1,), "c6d2": (1,), "c8r": (0,), "c9r": (1,), "o2": (1,),
    "d3": (2,), "d4b": (2,), "d6": (1,), "e2": (0, 1, 2),
}  # fmt: skip
"""Step → the brokers that were restarted in it."""
SESSIONS_LOST = {"e5": (0,), "e6": (0,)}
"""Step → the brokers that registered again in it without a restart."""
GAPS = {
    (V08, "c10", 0), (V08, "c10", 2), (V08, "d1", 1), (V08, "d2", 0),
    (V21, "c10", 2),
    (V23, "c5t", 1), (V23, "c9", 0), (V23, "c10", 0), (V23, "c10", 1), (V23, "c10", 2),
    (V23, "d1", 1), (V23, "e5", 1),
}  # fmt: skip
"""(run, step, broker): see NOT_KEPT."""

STALE, OLD_STALE = 11, 13

STALE_EPOCH = "0.8.2.2 answers an old leader epoch with 13; ours with 11, as later versions do"
NO_ENTRIES = "0.8.2.2 lists no partitions with a stale controller epoch; later versions do"
STALE_UPDATE = "0.8.2.2 answers UpdateMetadata of a stale controller with -1; later ones with 11"
NOT_KEPT = "the request with the previous epoch was not recorded"
NO_POSITION = "0.8.2.2 answers an unassigned replica with -1; ours serves it, as later versions do"
NOT_CONTROLLER = "0.8.2.2 answers every failed ControlledShutdown with -1; later ones with a code"

DIFFERENCES: dict[str, set[str]] = {
    V08: {STALE_EPOCH, NO_ENTRIES, STALE_UPDATE, NOT_KEPT, NO_POSITION, NOT_CONTROLLER},
    V21: {NOT_KEPT},
    V23: {NOT_KEPT},
}
"""Why answers differ, by run; each must occur."""


def load(run: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{run}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def codes(api_key: int, answer: Any) -> Any:
    """Return the codes of an answer, and the fields that a follower uses."""
    if api_key in STORY or api_key == ApiKey.CONTROLLED_SHUTDOWN:
        parts = getattr(answer, "partitions", [])
        return answer.error_code, sorted((p.topic, p.partition, p.error_code) for p in parts)
    found = []
    for topic in answer.topics:
        for each in topic.partitions:
            row: list[Any] = [topic.topic, each.partition, each.error_code]
            if api_key == ApiKey.FETCH:
                row += [each.high_watermark, content(bytes(each.records))]
            elif api_key == ApiKey.LIST_OFFSETS:
                row += [getattr(each, "offset", None), list(getattr(each, "offsets", None) or ())]
            else:
                row += [each.leader_epoch, each.end_offset]
            found.append(row)
    return getattr(answer, "error_code", 0), found


@dataclass
class ControlledBroker:
    """The part of a broker that handles a controller's requests, with its logs."""

    id: int
    directory: Path
    broker_epoch: int | None = None
    logs: LogManager = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        runtime = get_runtime("threads")
        self.logs = make_manager(self.directory)
        self.logs.start(broker_id=self.id)
        self.fence = ControllerFence(lambda: self.broker_epoch)
        self.view = ClusterView(BrokerInfo(id=self.id, host="127.0.0.1", port=1))
        self.replicas = ReplicaManager(
            self.id,
            self.logs,
            _NoZooKeeper(),  # type: ignore[arg-type]
            self.fence,
            lambda topics: {topic: {} for topic in topics},
            runtime=runtime,
            settings=LeaderSettings(),
            fetchers=_NoFetchers(),  # type: ignore[arg-type]
        )

    def restart(self) -> None:
        self.logs.close()
        self.start()

    def answer(self, request: Any) -> Any:
        if request.api_key == ApiKey.LEADER_AND_ISR:
            return self.replicas.roles.leader_and_isr(request)
        if request.api_key == ApiKey.STOP_REPLICA:
            return self.replicas.roles.stop_replica(request)
        return self.view.update(request, self.fence)


class _NoZooKeeper:
    """Ignores the writes of a leader."""

    def register(self, partitions: Any) -> None: ...

    def unregister(self, keys: Any) -> None: ...


class _NoFetchers:
    """Copies nothing."""

    def follow(self, roles: Any) -> None: ...

    def forget(self, keys: Any) -> None: ...


def why(run: str, entry: dict[str, Any], genuine: Any, ours: Any) -> set[str] | None:
    """Return the reasons of a difference; None where a part has no reason."""
    reasons: set[str] = set()
    (top, parts), (our_top, our_parts) = genuine, ours
    if run == V08 and entry["api_key"] in STORY:
        if top == STALE and not parts and our_parts:
            reasons.add(NO_ENTRIES)
            our_parts = []
        if entry["api_key"] == ApiKey.UPDATE_METADATA and (top, our_top) == (-1, STALE):
            reasons.add(STALE_UPDATE)
            our_top = top
        renamed = [(*each, STALE if code == OLD_STALE else code) for *each, code in parts]
        if renamed != parts:
            reasons.add(STALE_EPOCH)
            parts = renamed
    if run == V08 and entry["api_key"] == ApiKey.CONTROLLED_SHUTDOWN and top == -1 and our_top:
        reasons.add(NOT_CONTROLLER)
        our_top = top
    if run == V08 and "not assigned" in entry["name"]:
        return {NO_POSITION} if parts[0][2] == -1 and our_parts[0][2] == 0 else None
    if (run, entry["step"], entry["to"]) in GAPS and len(parts) == len(our_parts):
        filled = [
            theirs if theirs[-1] == STALE and each[-1] == 0 else each
            for theirs, each in zip(parts, our_parts, strict=True)
        ]
        if filled != our_parts:
            reasons.add(NOT_KEPT)
            our_parts = filled
    return reasons if (top, list(parts)) == (our_top, list(our_parts)) else None


class Comparison:
    """The genuine answers of a run and ours."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.compared = 0
        self.reasons: set[str] = set()
        self.unexplained: list[str] = []

    def add(self, entry: dict[str, Any], ours: Any) -> None:
        key, version = entry["api_key"], entry["api_version"]
        genuine = codes(key, decode_response(key, version, bytes.fromhex(entry["response"]))[1])
        self.compared += 1
        if genuine == ours:
            return
        reasons = why(self.run, entry, genuine, ours)
        if reasons is None:
            self.unexplained.append(
                f"{entry['step']} {entry['name']} to {entry['to']}: genuine {genuine} ours {ours}"
            )
        else:
            self.reasons |= reasons


@pytest.fixture(scope="module")
def occurred() -> dict[str, set[str]]:
    """The reasons that occurred, by run."""
    return {run: set() for run in RUNS}


@pytest.mark.parametrize("run", RUNS)
def test_controller_requests_get_genuine_codes(
    run: str, tmp_path: Path, occurred: dict[str, set[str]]
) -> None:
    brokers = {n: ControlledBroker(n, tmp_path / f"broker-{n}") for n in range(3)}
    comparison = Comparison(run)
    restart: set[int] = set()
    registered: set[int] = {0, 1, 2}
    step = ""
    try:
        for entry in load(run):
            if entry["step"] != step:
                step = entry["step"]
                restart |= set(RESTARTS.get(step, ()))
                registered |= {*RESTARTS.get(step, ()), *SESSIONS_LOST.get(step, ())}
            if entry["api_key"] not in STORY or entry["from"] == "probe":
                continue
            broker = brokers[entry["to"]]
            _, request = decode_request(bytes.fromhex(entry["request"]))
            if broker.id in restart and entry["api_key"] == ApiKey.LEADER_AND_ISR:
                restart.discard(broker.id)
                broker.restart()
            named = getattr(request, "broker_epoch", -1)
            if broker.id in registered and named > (broker.broker_epoch or 0):
                registered.discard(broker.id)
                broker.broker_epoch = named
            answer = broker.answer(request)
            if entry["response"] is not None:
                whole = isinstance(answer, int)
                comparison.add(entry, (answer, []) if whole else codes(entry["api_key"], answer))
    finally:
        for each in brokers.values():
            each.logs.close()
    assert not comparison.unexplained, "\n".join(comparison.unexplained)
    assert comparison.compared > 90
    occurred[run] |= comparison.reasons


SETTINGS = {
    V08: {"log.message.format.version": "0.8.2", "inter.broker.protocol.version": "0.8.2"},
    V21: {"inter.broker.protocol.version": "2.1"},
    V23: {"inter.broker.protocol.version": "2.3"},
}
ASSIGNMENT = {"0": [0, 1, 2], "1": [1, 2, 0], "2": [2, 0, 1], "3": [0, 2, 1]}


class ProbedBrokers:
    """Three brokers of ours, in the state of the genuine ones when they were probed."""

    def __init__(self, run: str, chroot: str, directory: Path) -> None:
        self.entries = [each for each in load(run) if each["from"] == "probe"]
        self.session = ZkSession(chroot)
        self.epoch = next(
            decode_request(bytes.fromhex(each["request"]))[1]
            for each in self.entries
            if "leader epoch the broker already has" in each["name"]
        )
        ((_, self.recorded),) = states_in(self.epoch)
        self.processes = [
            MortalBroker(
                directory,
                {
                    "broker.id": str(n),
                    "zookeeper.connect": chroot,
                    # Broker 0 leads in the recording, and is not the preferred leader.
                    "auto.leader.rebalance.enable": "false",
                    **SETTINGS[run],
                },
            )
            for n in range(3)
        ]

    def start(self) -> None:
        session = self.session
        session.start()
        session.create("/brokers", b"")
        session.create("/brokers/topics", b"")
        session.create(
            paths.topic("t3"), json.dumps({"version": 1, "partitions": ASSIGNMENT}).encode()
        )
        session.create(paths.partitions("t3"), b"")
        stored = LeaderAndIsr(0, self.recorded.leader_epoch - 1, (0,), 2)
        session.create(paths.partition("t3", 1), stored.to_json())
        # The next controller gets the epoch of the recorded one.
        session.create(paths.CONTROLLER_EPOCH, b"%d" % (self.epoch.controller_epoch - 1))
        log = self.processes[0].data_directory / "t3-1"
        log.mkdir(parents=True)
        data = self._records()
        (log / "00000000000000000000.log").write_bytes(data)
        starts: dict[int, int] = {}
        for batch in iter_entries(data):
            if batch.magic == 2:
                starts.setdefault(batch.partition_leader_epoch, batch.base_offset)
        write_epochs(FileSystem(), log / LEADER_EPOCHS, sorted(starts.items()))
        for process in self.processes:
            process.start()
        states = PartitionStates(session, StateForm.EPHEMERAL)
        eventually(
            lambda: set(states.read([("t3", 1)])[("t3", 1)].isr) == {0, 1, 2}, "all are in the ISR"
        )
        state = states.read([("t3", 1)])[("t3", 1)]
        assert state.leader == 0
        self.shift = state.leader_epoch - self.recorded.leader_epoch
        assert self.shift >= 0
        found = session.exists(paths.broker(1))
        assert found is not None
        self.broker_shift = found.czxid - getattr(self.epoch, "broker_epoch", 0)

    def _records(self) -> bytes:
        entry = next(each for each in self.entries if "Fetch from 0" in each["name"])
        answer = decode_response(1, entry["api_version"], bytes.fromhex(entry["response"]))[1]
        return bytes(answer.topics[0].partitions[0].records)  # type: ignore[attr-defined]

    def rewritten(self, entry: dict[str, Any], sessions: dict[int, int]) -> bytes:
        """Return a probe with our epochs and session ids instead of the recorded ones."""
        header, decoded = decode_request(bytes.fromhex(entry["request"]))
        request: Any = decoded
        current = self.recorded.leader_epoch
        if getattr(request, "broker_epoch", -1) > 1:
            request.broker_epoch += self.broker_shift
        if entry["api_key"] == ApiKey.LEADER_AND_ISR:
            for _, each in states_in(request):
                each.leader_epoch += self.shift
        if entry["api_key"] == ApiKey.FETCH:
            request.session_id = sessions.get(request.session_id, request.session_id)
        if entry["api_key"] in (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH):
            for each in (part for topic in request.topics for part in topic.partitions):
                if each.current_leader_epoch >= 0:
                    each.current_leader_epoch += self.shift
                if getattr(each, "leader_epoch", -1) >= current:
                    each.leader_epoch += self.shift
        return b"".join(encode_request(header, request))[4:]

    def unshifted(self, api_key: int, ours: Any) -> Any:
        """Return the codes of our answer with the recorded epochs."""
        if api_key != ApiKey.OFFSET_FOR_LEADER_EPOCH:
            return ours
        top, parts = ours
        current = self.recorded.leader_epoch + self.shift
        return top, [
            [*before, epoch - self.shift if epoch >= current else epoch, end]
            for *before, epoch, end in parts
        ]

    def close(self) -> None:
        for process in reversed(self.processes):
            if process.alive:
                process.stop()
        self.session.close()


@pytest.mark.parametrize("run", RUNS)
def test_probes_get_genuine_codes(
    run: str, chroot: str, tmp_path: Path, occurred: dict[str, set[str]]
) -> None:
    comparison = Comparison(run)
    probed = ProbedBrokers(run, chroot, tmp_path)
    with ExitStack() as stack:
        stack.callback(probed.close)
        probed.start()
        wires = {each.id: Wire(each.address) for each in probed.processes}
        for wire in wires.values():
            stack.callback(wire.close)
        sessions: dict[int, int] = {}
        for entry in probed.entries:
            key, version = entry["api_key"], entry["api_version"]
            frame = wires[entry["to"]].ask(probed.rewritten(entry, sessions))
            assert frame is not None, entry["name"]
            answer: Any = decode_response(key, version, frame)[1]
            if key == ApiKey.FETCH:
                genuine: Any = decode_response(key, version, bytes.fromhex(entry["response"]))[1]
                assert bool(genuine.session_id) == bool(answer.session_id), entry["name"]
                sessions[genuine.session_id] = answer.session_id
            comparison.add(entry, probed.unshifted(key, codes(key, answer)))
    assert not comparison.unexplained, "\n".join(comparison.unexplained)
    assert comparison.compared >= 17
    occurred[run] |= comparison.reasons


def test_every_listed_difference_occurs(occurred: dict[str, set[str]]) -> None:
    if not all(occurred.values()):
        pytest.skip("not all runs were replayed")
    assert occurred == DIFFERENCES
