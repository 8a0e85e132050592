"""Requests of the genuine tools: nodes that the controller removes when it is done.

    /admin/reassign_partitions
        {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}
    /admin/preferred_replica_election
        {"version":1,"partitions":[{"topic":"t","partition":0}]}

Invariant: while a node exists, the tools take its request to be in progress and refuse another one.
The controller therefore removes every request that it has processed, whatever the outcome.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zkbroker.registry import paths
from zkbroker.registry.controller_writes import controller_transactions
from zkbroker.registry.node_json import int32, read_json, tell_unreadable, write_json
from zkbroker.registry.optional_nodes import read_node
from zkbroker.types import PartitionKey
from zkbroker.zookeeper.nodes import Delete, Operation, SetData, Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OperatorRequests:
    """The pending requests; None for one that is not there.

    Attributes:
        reassignment: topic, partition → the requested replicas.
        election: the partitions whose preferred replica is to become the leader.
    """

    reassignment: dict[PartitionKey, tuple[int, ...]] | None = None
    election: frozenset[PartitionKey] | None = None


def read_requests(session: ZkSession, watch: Settable | None = None) -> OperatorRequests:
    """Return the pending requests; a node without a valid request counts as an empty one."""
    reassignment = _partitions(session, paths.REASSIGN_PARTITIONS, watch)
    election = _partitions(session, paths.PREFERRED_REPLICA_ELECTION, watch)
    return OperatorRequests(reassignment, None if election is None else frozenset(election))


def _partitions(
    session: ZkSession, path: str, watch: Settable | None
) -> dict[PartitionKey, tuple[int, ...]] | None:
    found = read_node(session, path, watch)
    if found is None:
        return None
    decoded = _decoded(found[0])
    if decoded is None:
        tell_unreadable(session, logger, "operator's request", f"{path} holds {found[0][:200]!r}")
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
    """Keep only the unfinished partitions in the node; without any, delete it.

    If an operator has given a partition other replicas in the node, that entry stays, even if the
    partition is finished: the controller reads it next.

    Args:
        session: a started session.
        remaining: partitions that are being reassigned, with their new replicas.
        epoch_version: version of `/controller_epoch` since the election.
        finished: partitions to remove from the node, with the replicas that they have now.

    Raises:
        ControllerMoved: there is another controller.
    """
    found = read_node(session, paths.REASSIGN_PARTITIONS)
    if found is None:
        return
    data, stat = found
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
        data = write_json({"version": 1, "partitions": items})
        write = SetData(paths.REASSIGN_PARTITIONS, data, stat.version)
    controller_transactions(session, [write], epoch_version)


def finish_election(session: ZkSession, epoch_version: int) -> None:
    """Delete the election request, so that the tools see that it is done.

    Raises:
        ControllerMoved: there is another controller.
    """
    controller_transactions(session, [Delete(paths.PREFERRED_REPLICA_ELECTION)], epoch_version)
