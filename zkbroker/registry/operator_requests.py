"""What the genuine tools ask of the controller by a node that it removes when done.

    /admin/reassign_partitions
        {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}
    /admin/preferred_replica_election
        {"version":1,"partitions":[{"topic":"t","partition":0}]}

Invariant: a node that is there means "in progress" to the tools, which refuse to start again until
it is gone; so every request that was looked at is removed, whatever became of it.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zkbroker.registry import paths
from zkbroker.registry.controller_writes import controller_transactions
from zkbroker.registry.node_json import int32, read_json, tell_unreadable
from zkbroker.types import PartitionKey
from zkbroker.zookeeper.errors import NoNode
from zkbroker.zookeeper.nodes import Delete, Operation, SetData, Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OperatorRequests:
    """The requests that lie there; None where there is none.

    Attributes:
        reassignment: topic, partition → the replicas asked for.
        election: the partitions whose preferred replica is to lead.
    """

    reassignment: dict[PartitionKey, tuple[int, ...]] | None = None
    election: frozenset[PartitionKey] | None = None


def read_requests(session: ZkSession, watch: Settable | None = None) -> OperatorRequests:
    """Return what is asked for; a node that holds no request counts as one for nothing."""
    reassignment = _partitions(session, paths.REASSIGN_PARTITIONS, watch)
    election = _partitions(session, paths.PREFERRED_REPLICA_ELECTION, watch)
    return OperatorRequests(reassignment, None if election is None else frozenset(election))


def _partitions(
    session: ZkSession, path: str, watch: Settable | None
) -> dict[PartitionKey, tuple[int, ...]] | None:
    # Watches the node whether it exists or not.
    if session.exists(path, watch) is None:
        return None
    try:
        data = session.get(path)[0]
    except NoNode:
        return None
    decoded = _decoded(data)
    if decoded is None:
        tell_unreadable(session, logger, "operator's request", f"{path} holds {data[:200]!r}")
    return decoded or {}


def _decoded(data: bytes) -> dict[PartitionKey, tuple[int, ...]] | None:
    try:
        return {
            (str(each["topic"]), int32(each["partition"])): tuple(
                map(int32, each.get("replicas", ()))
            )
            for each in read_json(data)["partitions"]
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def store_reassignment(
    session: ZkSession,
    remaining: Mapping[PartitionKey, Sequence[int]],
    epoch_version: int,
    finished: Mapping[PartitionKey, Sequence[int]] | None = None,
) -> None:
    """Leave the unfinished partitions in the node; without any, the tools see that it is over.

    Where the node names other replicas by now, of an unfinished partition or of one that finished
    meanwhile, they stay: an operator has turned it back, and the controller reads that next.

    Args:
        session: a started session.
        remaining: partitions under way, with their new replicas.
        epoch_version: version of `/controller_epoch` since the election.
        finished: partitions that leave the node, with the replicas that they have now.

    Raises:
        ControllerMoved: there is another controller.
    """
    try:
        data, stat = session.get(paths.REASSIGN_PARTITIONS)
    except NoNode:
        return
    asked = _decoded(data) or {}
    left = {key: asked.get(key) or replicas for key, replicas in remaining.items()}
    for key, replicas in (finished or {}).items():
        if key in asked and tuple(asked[key]) != tuple(replicas):
            left[key] = asked[key]
    if not left:
        write: Operation = Delete(paths.REASSIGN_PARTITIONS, stat.version)
    else:
        items = [
            {"topic": key[0], "partition": key[1], "replicas": list(replicas)}
            for key, replicas in sorted(left.items())
        ]
        text = json.dumps({"version": 1, "partitions": items}, separators=(",", ":"))
        write = SetData(paths.REASSIGN_PARTITIONS, text.encode(), stat.version)
    controller_transactions(session, [write], epoch_version)


def finish_election(session: ZkSession, epoch_version: int) -> None:
    """Tell the tools that the election is over.

    Raises:
        ControllerMoved: there is another controller.
    """
    controller_transactions(session, [Delete(paths.PREFERRED_REPLICA_ELECTION)], epoch_version)
