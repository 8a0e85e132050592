"""Consumer groups kept in ZooKeeper: members and owners.

    /consumers/[group]/ids/[consumer_id]          {"version":1,"subscription":{"topic":2},
                                                   "pattern":"static","timestamp":"ms"}
    /consumers/[group]/owners/[topic]/[n]         consumer_id-thread

Invariant: a claim is one transaction that also checks the registration of the member. It takes all
partitions or none, and never succeeds for a member whose session is over.
"""

import contextlib
import logging
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import read_json, write_json
from zkbroker.registry.optional_nodes import children, read_node
from zkbroker.types import PartitionKey
from zkbroker.zookeeper.errors import (
    BadVersion,
    ClaimBlocked,
    NodeExists,
    NoNode,
    SessionLost,
    TransactionFailed,
)
from zkbroker.zookeeper.nodes import Check, Create, Delete, Operation, Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

STATIC = "static"
WHITE_LIST = "white_list"
BLACK_LIST = "black_list"

# A transaction must fit into ZooKeeper's 1 MiB; an operation takes a few hundred bytes.
CLAIM_BATCH = 1000
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class StreamSubscription:
    """The topics of one consumer.

    Attributes:
        streams: topic → number of streams; with a filter one entry, its regular expression.
        pattern: `static`, `white_list` or `black_list`.
    """

    streams: Mapping[str, int]
    pattern: str = STATIC

    def to_json(self) -> bytes:
        node = {
            "version": 1,
            "subscription": dict(self.streams),
            "pattern": self.pattern,
            "timestamp": str(int(time.time() * 1000)),
        }
        return write_json(node)

    @classmethod
    def from_json(cls, data: bytes) -> "StreamSubscription | None":
        """Read a registration; None if the node holds none (yet)."""
        try:
            node = read_json(data)
            streams = {str(name): int(count) for name, count in node["subscription"].items()}
            pattern = str(node.get("pattern", STATIC))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
        return cls(streams, pattern if pattern in {WHITE_LIST, BLACK_LIST} else STATIC)


# -- members


def new_consumer_id(group: str, given: str | None = None) -> str:
    """Make the id of a new member: `group_host-ms-uuid8`, or `group_given`."""
    if given is not None:
        return f"{group}_{given}"
    return f"{group}_{socket.gethostname()}-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"


def list_groups(session: ZkSession) -> list[str]:
    """Return the names of all groups that have a node, sorted."""
    return children(session, paths.CONSUMERS)


def register_consumer(
    session: ZkSession, group: str, consumer_id: str, subscription: StreamSubscription
) -> None:
    """Register a member for as long as the session lives; may be repeated."""
    register_member(session, group, consumer_id, subscription.to_json())


def register_member(session: ZkSession, group: str, consumer_id: str, data: bytes) -> None:
    """Register a member with its encoded subscription; may be repeated."""
    path = paths.consumer(group, consumer_id)
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(NodeExists):
            session.create(path, data, ephemeral=True, parents=True)
            return
        with contextlib.suppress(NoNode, BadVersion):
            stat = session.exists(path)
            if stat is None:
                continue
            if stat.ephemeral_owner == session.session_id:
                session.set(path, data)
                return
            # An earlier session of this member left it: no other member has this id.
            session.delete(path, stat.version)
    raise RegistryError(f"{path} is changed by another client all the time")


def unregister_consumer(session: ZkSession, group: str, consumer_id: str) -> None:
    """Take a member out of the group."""
    session.delete(paths.consumer(group, consumer_id), missing_ok=True)


def members(session: ZkSession, group: str, watch: Settable | None = None) -> list[str]:
    """Return the ids of the live members, sorted."""
    return children(session, paths.consumer_ids(group), watch)


def subscriptions(
    session: ZkSession,
    group: str,
    watch: Settable | None = None,
    *,
    parse: Callable[[bytes], StreamSubscription | None] = StreamSubscription.from_json,
) -> dict[str, StreamSubscription | None]:
    """Return every live member's subscription; the watch is set when any of them changes."""
    ids = members(session, group, watch)
    nodes = session.get_many(
        [paths.consumer(group, consumer_id) for consumer_id in ids],
        None if watch is None else [watch] * len(ids),
    )
    return {
        consumer_id: parse(node[0])
        for consumer_id, node in zip(ids, nodes, strict=True)
        if node is not None
    }


# -- owners


def owner(session: ZkSession, group: str, topic: str, partition: int) -> str | None:
    """Return the thread that owns a partition, None for none."""
    found = read_node(session, paths.owner(group, topic, partition))
    return None if found is None else _text(found[0])


def owners(session: ZkSession, group: str, topic: str) -> dict[int, str]:
    """Return the owning thread of each partition of a topic."""
    numbers = partition_numbers(session, paths.owners(group, topic))
    nodes = session.get_many([paths.owner(group, topic, number) for number in numbers])
    return {
        number: _text(node[0])
        for number, node in zip(numbers, nodes, strict=True)
        if node is not None
    }


def owned_topics(session: ZkSession, group: str) -> list[str]:
    """Return the topics of which a group owns, or owned, partitions."""
    return children(session, f"{paths.CONSUMERS}/{group}/owners")


def claim(
    session: ZkSession, group: str, consumer_id: str, wanted: Mapping[PartitionKey, str]
) -> None:
    """Become the owner of all given partitions, or of none.

    Args:
        session: the session in which the member is registered.
        group: the group.
        consumer_id: the member; it must be registered.
        wanted: partition → thread id. Earlier owner nodes of this member are replaced.

    Raises:
        ClaimBlocked: another member owns one of them.
        SessionLost: the member is no longer registered.
    """
    for topic in sorted({topic for topic, _ in wanted}):
        session.ensure_path(paths.owners(group, topic))
    items = sorted(wanted.items())
    claimed: list[PartitionKey] = []
    try:
        for start in range(0, len(items), CLAIM_BATCH):
            batch = items[start : start + CLAIM_BATCH]
            _claim_batch(session, group, consumer_id, batch)
            claimed += [key for key, _ in batch]
    except RegistryError:
        if claimed:
            with contextlib.suppress(RegistryError):
                release(session, group, consumer_id, claimed)
        raise


def _claim_batch(
    session: ZkSession,
    group: str,
    consumer_id: str,
    batch: Sequence[tuple[PartitionKey, str]],
) -> None:
    registration = paths.consumer(group, consumer_id)
    for _ in range(_ATTEMPTS):
        nodes = session.get_many([paths.owner(group, *key) for key, _ in batch])
        operations: list[Operation] = [Check(registration)]
        for (key, thread_id), node in zip(batch, nodes, strict=True):
            path = paths.owner(group, *key)
            if node is not None:
                holder = _text(node[0])
                if not _is_thread_of(holder, consumer_id):
                    raise ClaimBlocked(path, holder)
                operations.append(Delete(path, node[1].version))
            operations.append(Create(path, thread_id.encode(), ephemeral=True))
        try:
            session.transaction(operations)
        except TransactionFailed as refused:
            if refused.index == 0:
                raise SessionLost(f"{registration} is gone: register again") from None
            continue
        return
    raise RegistryError(f"owners of group {group} change all the time")


def release(
    session: ZkSession, group: str, consumer_id: str, partitions: Iterable[PartitionKey]
) -> None:
    """Stop owning partitions; those of other members stay as they are."""
    keys = sorted(partitions)
    nodes = session.get_many([paths.owner(group, *key) for key in keys])
    batches: list[list[Operation]] = [
        [Delete(paths.owner(group, *key), node[1].version)]
        for key, node in zip(keys, nodes, strict=True)
        if node is not None and _is_thread_of(_text(node[0]), consumer_id)
    ]
    session.transactions(batches)


def _is_thread_of(thread_id: str, consumer_id: str) -> bool:
    head, dash, number = thread_id.rpartition("-")
    return bool(dash) and head == consumer_id and number.isdecimal()


def partition_numbers(session: ZkSession, path: str) -> list[int]:
    """Return the partitions that have a node below a path, sorted; none for a missing path."""
    return sorted(int(name) for name in children(session, path) if name.isdecimal())


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
