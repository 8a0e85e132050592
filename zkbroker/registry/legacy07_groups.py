"""The nodes that members of a 0.7 group write.

    /consumers/[group]/ids/[consumer_id]      E  { "topic1": 2,"topic2": 1 }  threads by topic
                                                 *2*regex                     a whitelist, 2 threads
                                                 !2!regex                     a blacklist, 2 threads
    /consumers/[group]/owners/[topic]/N-P     E  consumer_id-thread
    /consumers/[group]/offsets/[topic]/N-P    P  next position in bytes, decimal

Owners and offsets are those of `registry.groups`, with a `Partition07` for the number.

Invariant: the nodes have the form that JVM members of 0.7.1 and 0.7.2 write: a JVM member that
cannot read the node of another one fails its rebalance with an exception.
"""

import contextlib
import json
import re

from zkbroker.registry import group_offsets, paths
from zkbroker.registry.groups import BLACK_LIST, STATIC, WHITE_LIST, StreamSubscription
from zkbroker.registry.node_json import read_json
from zkbroker.registry.optional_nodes import children
from zkbroker.types import Partition07, PartitionKey
from zkbroker.zookeeper.session import ZkSession

_MARKS = {WHITE_LIST: "*", BLACK_LIST: "!"}
_PATTERNS = {mark: pattern for pattern, mark in _MARKS.items()}
_FILTER = re.compile(r"([*!])(\d+)\1(.*)", re.ASCII | re.DOTALL)


def encode_subscription(subscription: StreamSubscription) -> bytes:
    """Return the content of a member's node."""
    streams = subscription.streams
    if subscription.pattern == STATIC:
        pairs = ",".join(f"{json.dumps(topic)}: {count}" for topic, count in streams.items())
        return f"{{ {pairs} }}".encode()
    ((regex, count),) = streams.items()
    mark = _MARKS[subscription.pattern]
    return f"{mark}{count}{mark}{regex}".encode()


def parse_subscription(data: bytes) -> StreamSubscription | None:
    """Read the node of a member; None if it holds no subscription of 0.7 (yet)."""
    text = data.decode("utf-8", "replace")
    found = _FILTER.fullmatch(text)
    if found is not None:
        return StreamSubscription({found[3]: int(found[2])}, _PATTERNS[found[1]])
    try:
        streams = {str(topic): int(count) for topic, count in read_json(text).items()}
    except (ValueError, TypeError, AttributeError):
        return None
    return StreamSubscription(streams)


def committed_positions(session: ZkSession, group: str) -> dict[PartitionKey, int]:
    """Return the positions that a group has committed, by topic and `Partition07`.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """
    keys: list[PartitionKey] = []
    for topic in group_offsets.committed_topics(session, group):
        for name in children(session, paths.offsets(group, topic)):
            # Other names belong to the newer generation, or to no known form.
            with contextlib.suppress(ValueError):
                keys.append((topic, Partition07.parse(name)))
    return {key: at for key, (at, _) in group_offsets.read_offsets(session, group, keys).items()}
