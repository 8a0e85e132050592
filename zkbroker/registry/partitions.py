"""Which broker hosts a partition: the state nodes.

    /brokers/topics/[t]/partitions/[n]        {"version":1,"leader_epoch":3}
    /brokers/topics/[t]/partitions/[n]/state  {"controller_epoch":1,"leader":1,"version":1,
                                               "leader_epoch":3,"isr":[1]}          (ephemeral)

Invariants: the state lives in the session of the broker that hosts the partition; `leader_epoch`
grows by one at every registration, and the parent remembers it while the state is gone; both are
written in one transaction. Genuine brokers keep the state persistent: such a node is taken over.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.errors import NoNode
from zkbroker.registry.nodes import Create, Delete, NodeStat, Operation, SetData, Settable
from zkbroker.registry.session import ZkSession

logger = logging.getLogger(__name__)

ATTEMPTS = 10
BATCH = 500


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who hosts a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = 0

    def to_json(self) -> bytes:
        state = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": list(self.isr),
        }
        return json.dumps(state, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "PartitionState":
        """Read a state node.

        Raises:
            RegistryError: it holds something else.
        """
        try:
            state = json.loads(data)
            return cls(
                leader=int(state["leader"]),
                leader_epoch=int(state["leader_epoch"]),
                isr=tuple(int(broker) for broker in state.get("isr", ())),
                controller_epoch=int(state.get("controller_epoch", 0)),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RegistryError(f"no partition state: {data[:200]!r}") from error


def partition_state(
    session: ZkSession, name: str, number: int, watch: Settable | None = None
) -> PartitionState | None:
    """Return the state of a partition, None while no broker hosts it.

    The watch is set when that changes, also when there is no state yet.
    """
    path = paths.partition_state(name, number)
    while True:
        try:
            return PartitionState.from_json(session.get(path, watch)[0])
        except NoNode:
            # Nothing to read leaves no watch; look again if it came in between.
            if watch is None or session.exists(path, watch) is None:
                return None


def partition_states(
    session: ZkSession, partitions: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], PartitionState]:
    """Return the states of many partitions, read in one flight; those without one are left out."""
    nodes = session.get_many([paths.partition_state(name, number) for name, number in partitions])
    found: dict[tuple[str, int], PartitionState] = {}
    for key, node in zip(partitions, nodes, strict=True):
        if node is not None:
            try:
                found[key] = PartitionState.from_json(node[0])
            except RegistryError as error:
                logger.warning("partition state unreadable partition=%s-%d error=%s", *key, error)
    return found


def leader(session: ZkSession, name: str, number: int) -> int | None:
    """Return the broker that hosts a partition, None while there is none."""
    state = partition_state(session, name, number)
    return None if state is None or state.leader < 0 else state.leader


def register_partition(
    session: ZkSession, name: str, number: int, broker_id: int, controller_epoch: int = 0
) -> int:
    """Register one partition as hosted by a broker and return its leader epoch.

    Raises:
        RegistryError: another live broker hosts it, or the topic does not exist.
    """
    epochs = register_partitions(session, [(name, number)], broker_id, controller_epoch)
    return epochs[name, number]


def register_partitions(
    session: ZkSession,
    partitions: Sequence[tuple[str, int]],
    broker_id: int,
    controller_epoch: int = 0,
) -> dict[tuple[str, int], int]:
    """Register partitions as hosted by a broker, many in one flight.

    Args:
        session: the session that the broker itself is registered in.
        partitions: topics and partition numbers.
        broker_id: the broker; it must be registered under `/brokers/ids` by this session, since
            that is what makes a state left by this id stale.
        controller_epoch: written into the states.

    Returns:
        the leader epoch of each partition.

    Raises:
        RegistryError: another live broker hosts one of them, or a topic does not exist; the others
            may be registered or not.
    """
    epochs: dict[tuple[str, int], int] = {}
    for start in range(0, len(partitions), BATCH):
        left = list(partitions[start : start + BATCH])
        for _ in range(ATTEMPTS):
            done = _register_batch(session, left, broker_id, controller_epoch)
            epochs |= done
            left = [key for key in left if key not in done]
            if not left:
                break
        else:
            raise RegistryError(
                f"partition {left[0][0]}-{left[0][1]} is being changed by others all the time"
            )
    return epochs


def _register_batch(
    session: ZkSession,
    partitions: Sequence[tuple[str, int]],
    broker_id: int,
    controller_epoch: int,
) -> dict[tuple[str, int], int]:
    for name in sorted({name for name, _ in partitions}):
        _ensure_parent(session, name)
    parents = session.get_many([paths.partition(*key) for key in partitions])
    states = session.get_many([paths.partition_state(*key) for key in partitions])
    done: dict[tuple[str, int], int] = {}
    batches: list[list[Operation]] = []
    asked: list[tuple[tuple[str, int], int]] = []
    for key, parent, node in zip(partitions, parents, states, strict=True):
        state = _readable(key, node)
        if node is not None and state is not None:
            if node[1].ephemeral_owner == session.session_id and state.leader == broker_id:
                done[key] = state.leader_epoch
                continue
            _refuse_if_hosted(session, key, state, node[1], broker_id)
        used = max(
            -1 if state is None else state.leader_epoch, -1 if parent is None else _epoch(parent[0])
        )
        fresh = PartitionState(broker_id, used + 1, (broker_id,), controller_epoch)
        remembered = json.dumps(
            {"version": 1, "leader_epoch": fresh.leader_epoch}, separators=(",", ":")
        ).encode()
        path = paths.partition(*key)
        operations: list[Operation] = [
            Create(path, remembered)
            if parent is None
            else SetData(path, remembered, parent[1].version)
        ]
        if node is not None:
            operations.append(Delete(paths.partition_state(*key), node[1].version))
        operations.append(Create(paths.partition_state(*key), fresh.to_json(), ephemeral=True))
        batches.append(operations)
        asked.append((key, fresh.leader_epoch))
    for (key, epoch), refused in zip(asked, session.transactions(batches), strict=True):
        if refused is None:
            done[key] = epoch
    return done


def _ensure_parent(session: ZkSession, name: str) -> None:
    if session.exists(paths.topic(name)) is None:
        raise NoNode(f"topic {name} does not exist")
    session.ensure_path(f"{paths.topic(name)}/partitions")


def _readable(key: tuple[str, int], node: tuple[bytes, NodeStat] | None) -> PartitionState | None:
    if node is None:
        return None
    try:
        return PartitionState.from_json(node[0])
    except RegistryError as error:
        logger.warning("partition state replaced partition=%s-%d error=%s", *key, error)
        return None


def _refuse_if_hosted(
    session: ZkSession,
    key: tuple[str, int],
    state: PartitionState,
    stat: NodeStat,
    broker_id: int,
) -> None:
    """Refuse to take a partition from another broker that lives."""
    if stat.ephemeral_owner == 0 or state.leader == broker_id:
        return
    if session.exists(paths.broker(state.leader)) is not None:
        raise RegistryError(f"partition {key[0]}-{key[1]} is hosted by broker {state.leader}")


def _epoch(data: bytes) -> int:
    try:
        return int(json.loads(data)["leader_epoch"])
    except (ValueError, TypeError, KeyError):
        # Genuine brokers leave the node empty.
        return -1


def unregister_partition(session: ZkSession, name: str, number: int) -> None:
    """Remove the state of a partition that this session registered."""
    path = paths.partition_state(name, number)
    stat = session.exists(path)
    if stat is not None and stat.ephemeral_owner == session.session_id:
        session.delete(path, missing_ok=True)
