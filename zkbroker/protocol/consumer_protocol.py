"""What consumers of one group tell each other inside JoinGroup and SyncGroup.

    subscription  version:int16 | topics:[string] | user_data:bytes? | v1: owned:[topic [int32]]
    assignment    version:int16 | assigned:[topic [int32]] | user_data:bytes?

Invariant: a version newer than 1 is read as version 1 (fields are only ever added at the end), and
bytes behind the known fields are ignored, so members of any age can share a group.
"""

import struct
from collections.abc import Iterable
from typing import TypeVar

from zkbroker.protocol import codec
from zkbroker.protocol.errors import MalformedFrame
from zkbroker.protocol.schema import Kind, array, raw, string, wire_message

PROTOCOL_TYPE = "consumer"
HIGHEST_VERSION = 1
_VERSION = struct.Struct(">h")

_Message = TypeVar("_Message")


@wire_message
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@wire_message
class Subscription:
    """What a member wants.

    Args:
        topics: their names.
        user_data: the assignor's own; None and b"" differ on the wire.
        owned: what the member holds at the moment, from version 1.
    """

    topics: list[str] = array(Kind.STRING)
    user_data: bytes | None = raw(nullable=0, default=None)
    owned: list[TopicPartitions] = array(TopicPartitions, since=1)


@wire_message
class Assignment:
    """What a member gets."""

    assigned: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = raw(nullable=0, default=None)


def encode_subscription(subscription: Subscription, version: int = 0) -> bytes:
    """Encode a subscription; version 0 is understood by members of every age."""
    return _VERSION.pack(version) + codec.encode_bytes(subscription, version)


def decode_subscription(data: bytes) -> Subscription:
    """Decode a subscription of any version.

    Raises:
        MalformedFrame: the bytes are not one.
    """
    return _decode(Subscription, data)


def encode_assignment(assignment: Assignment, version: int = 0) -> bytes:
    """Encode an assignment; version 0 is understood by members of every age."""
    return _VERSION.pack(version) + codec.encode_bytes(assignment, version)


def decode_assignment(data: bytes) -> Assignment:
    """Decode an assignment of any version; no bytes at all mean that nothing was assigned.

    Raises:
        MalformedFrame: the bytes are not one.
    """
    return _decode(Assignment, data) if data else Assignment()


def group_by_topic(partitions: Iterable[tuple[str, int]]) -> list[TopicPartitions]:
    """Gather (topic, partition) pairs by topic, topics and partitions in order of first mention."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic, numbers) for topic, numbers in topics.items()]


def flatten(topics: Iterable[TopicPartitions]) -> list[tuple[str, int]]:
    """The (topic, partition) pairs of a gathered list."""
    return [(entry.topic, partition) for entry in topics for partition in entry.partitions]


def _decode(message: type[_Message], data: bytes) -> _Message:
    try:
        version: int = _VERSION.unpack_from(data)[0]
    except struct.error as error:
        raise MalformedFrame(f"{message.__name__} without a version") from error
    if version < 0:
        raise MalformedFrame(f"{message.__name__} of version {version}")
    return codec.decode(message, min(version, HIGHEST_VERSION), data, _VERSION.size)[0]
