"""What the genuine tools ask of the controller by a node that it removes when done.

    /admin/reassign_partitions
        {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}
    /admin/preferred_replica_election
        {"version":1,"partitions":[{"topic":"t","partition":0}]}

Invariant: a node's presence means "in progress" to the tools, which refuse to start again while it
is there; so every request that was looked at is removed, whatever became of it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from zkbroker.registry import paths
from zkbroker.registry.errors import NoNode
from zkbroker.registry.nodes import Settable
from zkbroker.registry.session import ZkSession
from zkbroker.registry.watching import WatchLoop

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OperatorRequests:
    """The requests that lie there; None where there is none.

    Attributes:
        reassignment: topic, partition → the replicas asked for.
        election: the partitions whose preferred replica is to lead.
    """

    reassignment: dict[TopicPartition, tuple[int, ...]] | None = None
    election: frozenset[TopicPartition] | None = None


def read_requests(session: ZkSession, watch: Settable | None = None) -> OperatorRequests:
    """Return what is asked for; a node that holds no request counts as one for nothing."""
    reassignment = _partitions(session, paths.REASSIGN_PARTITIONS, watch)
    election = _partitions(session, paths.PREFERRED_REPLICA_ELECTION, watch)
    return OperatorRequests(reassignment, None if election is None else frozenset(election))


def _partitions(
    session: ZkSession, path: str, watch: Settable | None
) -> dict[TopicPartition, tuple[int, ...]] | None:
    # Watches the node whether it exists or not.
    if session.exists(path, watch) is None:
        return None
    try:
        data = session.get(path)[0]
    except NoNode:
        return None
    try:
        return {
            (str(each["topic"]), int(each["partition"])): tuple(map(int, each.get("replicas", ())))
            for each in json.loads(data)["partitions"]
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def finish_reassignment(session: ZkSession) -> None:
    """Tell the tools that the reassignment is over."""
    session.delete(paths.REASSIGN_PARTITIONS, missing_ok=True)


def finish_election(session: ZkSession) -> None:
    """Tell the tools that the election is over."""
    session.delete(paths.PREFERRED_REPLICA_ELECTION, missing_ok=True)


class OperatorRequestsWatch(WatchLoop[OperatorRequests]):
    """Hand on what is asked for; see `WatchLoop`."""

    def __init__(self, session: ZkSession, on_change: Callable[[OperatorRequests], object]) -> None:
        super().__init__(
            session,
            lambda watch: read_requests(session, watch),
            on_change,
            name="watch-operator-requests",
        )
