"""The state nodes of partitions, for clients and tools that read them from ZooKeeper.

    /brokers/topics/[t]/partitions/[n]/state  {"controller_epoch":1,"leader":1,"version":1,
                                               "leader_epoch":3,"isr":[1]}

Invariant: in both forms of partition state (`registry.partition_states`) this node exists while the
leader lives. This module only reads.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import int32, read_json, tell_unreadable, write_json
from zkbroker.registry.optional_nodes import read_node
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

MAX_EPOCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The content of a state node.

    Args:
        leader, leader_epoch, isr, controller_epoch: as genuine brokers write them.
        decided_zxid: the transaction of the decision that this one amends; None if this is a
            decision itself. Genuine brokers ignore it.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = 0
    decided_zxid: int | None = None

    def to_json(self) -> bytes:
        state = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": list(self.isr),
        }
        if self.decided_zxid is not None:
            state["decided_zxid"] = self.decided_zxid
        return write_json(state)

    @classmethod
    def from_json(cls, data: bytes) -> "PartitionState":
        """Read a state node.

        Raises:
            RegistryError: the node holds no partition state.
        """
        try:
            state = read_json(data)
            zxid = state.get("decided_zxid")
            return cls(
                leader=int32(state["leader"]),
                leader_epoch=_epoch(state["leader_epoch"]),
                isr=tuple(int32(broker) for broker in state.get("isr", ())),
                controller_epoch=int32(state.get("controller_epoch", 0)),
                decided_zxid=None if zxid is None else int(zxid),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RegistryError(f"no partition state: {data[:200]!r}") from error


def _epoch(value: object) -> int:
    """Return a leader epoch that can still be raised: its successor must fit into requests."""
    number = int32(value)
    if number == MAX_EPOCH:
        raise ValueError(f"leader epoch {number} is the last one")
    return number


def partition_state(
    session: ZkSession, name: str, number: int, watch: Settable | None = None
) -> PartitionState | None:
    """Return the state of a partition, None while there is none.

    The watch fires when the state changes or is created.
    """
    found = read_node(session, paths.partition_state(name, number), watch)
    return None if found is None else PartitionState.from_json(found[0])


def partition_states(
    session: ZkSession, partitions: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], PartitionState]:
    """Return the states of many partitions with pipelined reads; missing ones are left out."""
    nodes = session.get_many([paths.partition_state(name, number) for name, number in partitions])
    found: dict[tuple[str, int], PartitionState] = {}
    for key, node in zip(partitions, nodes, strict=True):
        if node is not None:
            try:
                found[key] = PartitionState.from_json(node[0])
            except RegistryError as error:
                tell_unreadable(session, logger, "partition state", f"{key[0]}-{key[1]} {error}")
    return found
