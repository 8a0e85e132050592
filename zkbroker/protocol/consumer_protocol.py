"""The subscriptions and assignments that members of a group exchange in JoinGroup and SyncGroup.

    subscription  version:int16 | topics:[string] | user_data:bytes? | v1: owned:[topic [int32]]
    assignment    version:int16 | assigned:[topic [int32]] | user_data:bytes?

Invariant: a version newer than 1 is read as version 1 (fields are only ever added at the end), and
bytes after the known fields are ignored, so members of all versions can share a group.
"""

from collections.abc import Iterable
from typing import TypeVar

from zkbroker.protocol.codec import decode_versioned, encode_versioned, read_version
from zkbroker.protocol.errors import MalformedFrame
from zkbroker.protocol.schema import Kind, array, raw, string, wire_message

PROTOCOL_TYPE = "consumer"
HIGHEST_VERSION = 1

_Message = TypeVar("_Message")


@wire_message
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@wire_message
class Subscription:
    """The subscription of a member.

    Args:
        topics: their names.
        user_data: data of the assignor; None and b"" differ on the wire.
        owned: the partitions that the member owns now; since version 1.
    """

    topics: list[str] = array(Kind.STRING)
    user_data: bytes | None = raw(nullable=0, default=None)
    owned: list[TopicPartitions] = array(TopicPartitions, since=1)


@wire_message
class Assignment:
    """The partitions assigned to a member."""

    assigned: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = raw(nullable=0, default=None)


def encode_subscription(subscription: Subscription, version: int = 0) -> bytes:
    """Encode a subscription; members of every version understand version 0."""
    return encode_versioned(subscription, version)


def decode_subscription(data: bytes) -> Subscription:
    """Decode a subscription of any version.

    Raises:
        MalformedFrame: the bytes are not one.
    """
    return _decode(Subscription, data)


def encode_assignment(assignment: Assignment, version: int = 0) -> bytes:
    """Encode an assignment; members of every version understand version 0."""
    return encode_versioned(assignment, version)


def decode_assignment(data: bytes) -> Assignment:
    """Decode an assignment of any version; empty bytes are an empty assignment.

    Raises:
        MalformedFrame: the bytes are not one.
    """
    return _decode(Assignment, data) if data else Assignment()


def group_by_topic(partitions: Iterable[tuple[str, int]]) -> list[TopicPartitions]:
    """Group (topic, partition) pairs by topic, in the order of their first occurrence."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic, numbers) for topic, numbers in topics.items()]


def flatten(topics: Iterable[TopicPartitions]) -> list[tuple[str, int]]:
    """Return the (topic, partition) pairs of a grouped list."""
    return [(entry.topic, partition) for entry in topics for partition in entry.partitions]


def _decode(message: type[_Message], data: bytes) -> _Message:
    version = read_version(data, message.__name__)
    if version < 0:
        raise MalformedFrame(f"{message.__name__} of version {version}")
    return decode_versioned(message, min(version, HIGHEST_VERSION), data)
