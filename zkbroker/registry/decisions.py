"""The decision for a partition, as its nodes hold it.

    {"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}

A broker that amends a decision before it registers adds "decided_zxid", the transaction of the
decision itself. Invariant: no node's content stops a reader; an unreadable one is no decision.
"""

import logging
from dataclasses import dataclass, field, replace

from zkbroker.errors import RegistryError
from zkbroker.registry.node_json import int32, read_json
from zkbroker.registry.partitions import PartitionState
from zkbroker.zookeeper.nodes import NodeStat

logger = logging.getLogger(__name__)

Key = tuple[str, int]
"""Topic and partition number."""

Node = tuple[bytes, NodeStat] | None

NO_LEADER = -1
MISSING = -1
"""As `zk_version`: the node does not exist yet."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The decision for a partition.

    Args:
        leader: broker id; -1 for none.
        leader_epoch: grows with every decision of a controller; a leader's change keeps it.
        isr: the replicas in sync. Empty only for a partition of which only the last epoch is known.
        controller_epoch: epoch of the controller that decided.
        zk_version: version of the node it was read from or written to; MISSING before that.
        zxid: the transaction in which its controller, or its leader, decided it, 0 unless it was
            read; to be compared with broker epochs.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = 0
    zk_version: int = MISSING
    zxid: int = field(default=0, compare=False)

    def to_json(self, *, amended: bool = False) -> bytes:
        """Return a node's content; `amended` by a broker keeps the decision's transaction."""
        return PartitionState(
            self.leader,
            self.leader_epoch,
            self.isr,
            self.controller_epoch,
            self.zxid if amended and self.zxid else None,
        ).to_json()


@dataclass(frozen=True, slots=True)
class IsrUpdate:
    """The outcome of a leader's change of the ISR.

    Args:
        state: the stored state with its version; None when it could not be read.
        written: the wanted ISR is stored.
        still_leader: the stored leader and leader epoch are those of the writer.
    """

    state: LeaderAndIsr | None
    written: bool
    still_leader: bool


@dataclass(frozen=True, slots=True)
class LostLogs:
    """The partitions whose logs a broker has lost, by the replicas in sync.

    Args:
        others: other replicas are in sync; they have every acknowledged message.
        last: the broker alone is in sync.
    """

    others: set[Key]
    last: set[Key]


def without(broker_id: int, state: LeaderAndIsr) -> LeaderAndIsr:
    """Return a decision without one of its replicas in sync."""
    isr = tuple(each for each in state.isr if each != broker_id)
    if state.leader != broker_id:
        return replace(state, isr=isr)
    # An epoch has one leader.
    return replace(state, leader=NO_LEADER, leader_epoch=state.leader_epoch + 1, isr=isr)


def node_version(node: Node) -> int:
    """Return a node's version, MISSING for no node."""
    return MISSING if node is None else node[1].version


def decode(key: Key, node: Node) -> LeaderAndIsr | None:
    """Read a decision; None for no node, an empty one, or one that cannot be read."""
    if node is None or not node[0]:
        return None
    data, stat = node
    try:
        state = PartitionState.from_json(data)
    except RegistryError as error:
        epoch = _epoch_alone(data)
        if epoch is None:
            logger.debug("partition state unreadable partition=%s-%d error=%s", *key, error)
            return None
        return LeaderAndIsr(NO_LEADER, epoch, (), zk_version=stat.version)
    return LeaderAndIsr(
        state.leader,
        state.leader_epoch,
        state.isr,
        state.controller_epoch,
        stat.version,
        stat.mzxid if state.decided_zxid is None else state.decided_zxid,
    )


def _epoch_alone(data: bytes) -> int | None:
    """What releases before replication left in a partition's node: the epochs used so far."""
    try:
        state = read_json(data)
        if "leader" in state or "isr" in state:
            return None  # a decision, of which something cannot be read
        return int32(state["leader_epoch"])
    except (ValueError, TypeError, KeyError):
        return None


def judge(wanted: LeaderAndIsr, current: LeaderAndIsr | None) -> IsrUpdate:
    """Return the outcome of a refused change, by what is stored now."""
    if current is None:
        return IsrUpdate(None, written=False, still_leader=False)
    ours = (current.leader, current.leader_epoch) == (wanted.leader, wanted.leader_epoch)
    return IsrUpdate(current, written=ours and current.isr == wanted.isr, still_leader=ours)
