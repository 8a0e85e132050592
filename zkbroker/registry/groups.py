"""Consumer groups kept in ZooKeeper: members, owners, offsets.

    /consumers/[group]/ids/[consumer_id]          {"version":1,"subscription":{"topic":2},
                                                   "pattern":"static","timestamp":"ms"}
    /consumers/[group]/owners/[topic]/[n]         consumer_id-thread
    /consumers/[group]/offsets/[topic]/[n]        next offset to consume, decimal

Invariants: a claim is one transaction that also demands the claimer's own registration, so that it
takes all partitions or none and never succeeds for a member whose session is over; an offset can be
committed on the condition that nobody else committed since it was read.
"""

import contextlib
import json
import logging
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import read_json
from zkbroker.types import PartitionKey
from zkbroker.zookeeper.errors import (
    BadVersion,
    ClaimBlocked,
    NodeExists,
    NoNode,
    SessionLost,
    TransactionFailed,
)
from zkbroker.zookeeper.nodes import Check, Create, Delete, Operation, SetData, Settable
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
    """What one consumer takes.

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
        return json.dumps(node, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "StreamSubscription | None":
        """Read a registration; None when it holds none (yet)."""
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
    """Return the names of all groups that ever registered, sorted."""
    try:
        return session.children(paths.CONSUMERS)
    except NoNode:
        return []


def register_consumer(
    session: ZkSession, group: str, consumer_id: str, subscription: StreamSubscription
) -> None:
    """Register a member for as long as the session lives; may be repeated."""
    register_member(session, group, consumer_id, subscription.to_json())


def register_member(session: ZkSession, group: str, consumer_id: str, data: bytes) -> None:
    """Register a member with what its generation says of what it takes; may be repeated."""
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
            # Left by an earlier session of this member: no other makes this id.
            session.delete(path, stat.version)
    raise RegistryError(f"{path} is being changed by somebody else all the time")


def unregister_consumer(session: ZkSession, group: str, consumer_id: str) -> None:
    """Take a member out of the group."""
    session.delete(paths.consumer(group, consumer_id), missing_ok=True)


def members(session: ZkSession, group: str, watch: Settable | None = None) -> list[str]:
    """Return the ids of the live members, sorted."""
    while True:
        try:
            return session.children(paths.consumer_ids(group), watch)
        except NoNode:
            if watch is None:
                return []
            session.ensure_path(paths.consumer_ids(group))


def subscription(
    session: ZkSession, group: str, consumer_id: str, watch: Settable | None = None
) -> StreamSubscription | None:
    """Return what a member takes, None when it is gone or has not said so yet."""
    try:
        return StreamSubscription.from_json(
            session.get(paths.consumer(group, consumer_id), watch)[0]
        )
    except NoNode:
        return None


def subscriptions(
    session: ZkSession,
    group: str,
    watch: Settable | None = None,
    *,
    parse: Callable[[bytes], StreamSubscription | None] = StreamSubscription.from_json,
) -> dict[str, StreamSubscription | None]:
    """Return what every live member takes; the watch is set when any of it changes."""
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
    """Return which thread owns a partition, None for none."""
    try:
        return _text(session.get(paths.owner(group, topic, partition))[0])
    except NoNode:
        return None


def owners(session: ZkSession, group: str, topic: str) -> dict[int, str]:
    """Return which thread owns which partition of a topic."""
    numbers = _numbers(session, paths.owners(group, topic))
    nodes = session.get_many([paths.owner(group, topic, number) for number in numbers])
    return {
        number: _text(node[0])
        for number, node in zip(numbers, nodes, strict=True)
        if node is not None
    }


def owned_topics(session: ZkSession, group: str) -> list[str]:
    """Return the topics that a group owns or owned partitions of."""
    try:
        return session.children(f"{paths.CONSUMERS}/{group}/owners")
    except NoNode:
        return []


def claim(
    session: ZkSession, group: str, consumer_id: str, wanted: Mapping[PartitionKey, str]
) -> None:
    """Become the owner of partitions: of all or of none.

    Args:
        session: the session that the member is registered in.
        group: the group.
        consumer_id: the member; it must be registered.
        wanted: partition → thread id. Nodes that this member left there are replaced.

    Raises:
        ClaimBlocked: one is owned by somebody else.
        SessionLost: the member is not registered any more.
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
    raise RegistryError(f"partitions of group {group} are being changed by others all the time")


def release(
    session: ZkSession, group: str, consumer_id: str, partitions: Iterable[PartitionKey]
) -> None:
    """Stop being the owner of partitions; those owned by others stay as they are."""
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


# -- offsets


def read_offset(
    session: ZkSession, group: str, topic: str, partition: int
) -> tuple[int, int] | None:
    """Return the committed offset and its node version, None when there is none."""
    return read_offsets(session, group, [(topic, partition)]).get((topic, partition))


def read_offsets(
    session: ZkSession, group: str, partitions: Sequence[PartitionKey]
) -> dict[PartitionKey, tuple[int, int]]:
    """Return committed offsets and their node versions; partitions without one are left out."""
    nodes = session.get_many([paths.offset(group, *key) for key in partitions])
    found: dict[PartitionKey, tuple[int, int]] = {}
    for key, node in zip(partitions, nodes, strict=True):
        if node is not None:
            try:
                found[key] = int(node[0]), node[1].version
            except ValueError:
                logger.warning("offset unreadable group=%s partition=%s-%s", group, *key)
    return found


def committed_topics(session: ZkSession, group: str) -> list[str]:
    """Return the topics that a group has committed offsets of."""
    try:
        return session.children(f"{paths.CONSUMERS}/{group}/offsets")
    except NoNode:
        return []


def committed_partitions(session: ZkSession, group: str, topic: str) -> list[int]:
    """Return the partitions of a topic that a group has committed offsets of."""
    return _numbers(session, paths.offsets(group, topic))


def commit_offset(
    session: ZkSession,
    group: str,
    topic: str,
    partition: int,
    offset: int,
    version: int | None = None,
) -> int:
    """Commit the next offset to consume and return its new node version.

    Args:
        session: a started session; no member need be registered.
        group: the group.
        topic: the topic.
        partition: the partition.
        offset: the next offset to consume.
        version: the node version that the commit depends on, -1 for "no offset yet"; None commits
            in any case.

    Raises:
        BadVersion: somebody else committed since.
        ConnectionLost: whether it was committed is unknown: read the version again.
    """
    key = (topic, partition)
    answer = commit_offsets(session, group, {key: (offset, version)})[key]
    if isinstance(answer, BadVersion):
        raise answer
    return answer


def commit_offsets(
    session: ZkSession, group: str, offsets: Mapping[PartitionKey, tuple[int, int | None]]
) -> dict[PartitionKey, int | BadVersion]:
    """Commit many offsets in one flight.

    Args:
        session: a started session.
        group: the group.
        offsets: partition → (next offset, node version or -1 or None as in `commit_offset`).

    Returns:
        for each its new node version, or BadVersion when somebody else committed since.
    """
    answers: dict[PartitionKey, int | BadVersion] = {}
    writes = {key: item for key, item in offsets.items() if item[1] != -1}
    results = session.set_many(
        [
            SetData(paths.offset(group, *key), b"%d" % value, -1 if version is None else version)
            for key, (value, version) in writes.items()
        ]
    )
    missing = [key for key, item in offsets.items() if item[1] == -1]
    for (key, (value, version)), result in zip(writes.items(), results, strict=True):
        if isinstance(result, NoNode):
            missing.append(key)
        elif isinstance(result, RegistryError):
            answers[key] = _own_write(session, group, key, value, version or 0)
        else:
            answers[key] = result.version
    for key in missing:
        value, version = offsets[key]
        try:
            session.create(paths.offset(group, *key), b"%d" % value, parents=True)
            answers[key] = 0
        except NodeExists:
            if version is None:
                answers[key] = session.set(paths.offset(group, *key), b"%d" % value).version
            else:
                answers[key] = _own_write(session, group, key, value, -1)
    return answers


def _own_write(
    session: ZkSession, group: str, key: PartitionKey, value: int, expected: int
) -> int | BadVersion:
    """Tell our own write, whose answer was lost and which was then repeated, from another's."""
    found = read_offset(session, group, *key)
    if found == (value, expected + 1):
        return expected + 1
    return BadVersion(
        f"{paths.offset(group, *key)} was committed by somebody else"
        + (f" (offset {found[0]})" if found else "")
    )


def _numbers(session: ZkSession, path: str) -> list[int]:
    try:
        return sorted(int(name) for name in session.children(path) if name.isdecimal())
    except NoNode:
        return []


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
