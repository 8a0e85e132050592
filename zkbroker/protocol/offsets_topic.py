"""Keys and values of the topic `__consumer_offsets`, as genuine brokers write and read them.

    key v0, v1   version:int16 group:string topic:string partition:int32      an offset
    key v2       version:int16 group:string                                   a group's metadata
    value        version:int16 fields of that version; null (a tombstone) removes the key

Offset values: 0 and 1 carry a time of expiry (1, of 0.9 and later, beside the time of the commit;
-1 there leaves expiry to the group's state), 2 does not, 3 adds the leader epoch. Group values: 0
of 0.9, 1 adds the rebalance time-out (0.10.1), 2 the time of the last change of state (2.1).

Invariant: what this module writes, every genuine broker and tool from 0.9 on reads, unless it needs
a field that came later.
"""

import struct
from dataclasses import dataclass
from typing import Any, TypeVar

from zkbroker.protocol import codec
from zkbroker.protocol.errors import MalformedFrame
from zkbroker.protocol.schema import array, int32, int64, raw, string

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state"})
"""Topics that brokers keep for themselves: no producer's to write, rewritten as they grow."""
_VERSION = struct.Struct(">h")
_OFFSET_KEY_VERSION = 1
_GROUP_KEY_VERSION = 2
_GROUP_VALUE_VERSION = 2
_HIGHEST_OFFSET_VALUE = 3
_HIGHEST_GROUP_VALUE = 3

_Message = TypeVar("_Message")


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Names the committed offset of one partition in one group."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Names the metadata of one group."""

    group: str = string()


@dataclass(frozen=True, slots=True)
class OffsetValue:
    """A committed offset.

    Args:
        offset: the next one to consume.
        leader_epoch: of the last record consumed; -1 if the member did not say.
        metadata: whatever the member stored with it.
        commit_timestamp_ms: when it was committed.
        expire_timestamp_ms: when it is to be forgotten; -1 leaves it to the group's state.
    """

    offset: int = int64()
    leader_epoch: int = int32(since=3, default=-1)
    metadata: str = string()
    commit_timestamp_ms: int = int64(default=-1)
    expire_timestamp_ms: int = int64(since=1, until=1, default=-1)


@dataclass(frozen=True, slots=True)
class GroupMemberValue:
    """One member as stored; times in milliseconds."""

    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=3, default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(since=1, default=-1)
    session_timeout_ms: int = int32()
    subscription: bytes = raw()
    assignment: bytes = raw()


@dataclass(frozen=True, slots=True)
class GroupValue:
    """A group between two rebalances.

    Args:
        protocol_type: "consumer" for consumers.
        generation: the generation id.
        protocol: the elected one; None while the group is empty.
        leader: its member id; None while the group is empty.
        current_state_timestamp_ms: when the group came into this state; -1 if not known.
        members: all of them.
    """

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=0, default=None)
    leader: str | None = string(nullable=0, default=None)
    current_state_timestamp_ms: int = int64(since=2, default=-1)
    members: list[GroupMemberValue] = array(GroupMemberValue)


def encode_key(key: OffsetKey | GroupKey) -> bytes:
    """The key of a record."""
    version = _OFFSET_KEY_VERSION if isinstance(key, OffsetKey) else _GROUP_KEY_VERSION
    return _encode(key, version)


def decode_key(data: bytes | memoryview) -> OffsetKey | GroupKey | None:
    """Decode a key; None for one of a version that came after Kafka 2.1, which is to be skipped.

    Raises:
        MalformedFrame: the bytes are no key.
    """
    version = _version(data)
    if version in (0, 1):
        return _decode(OffsetKey, version, data)
    if version == _GROUP_KEY_VERSION:
        return _decode(GroupKey, 0, data)
    return None


def encode_offset(value: OffsetValue) -> bytes:
    """The value of an offset: version 1, which every reader knows, unless it has a leader epoch."""
    if value.leader_epoch >= 0 and value.expire_timestamp_ms < 0:
        return _encode(value, 3)
    return _encode(value, 1)


def decode_offset(data: bytes | memoryview) -> OffsetValue:
    """Decode an offset of any version.

    Raises:
        MalformedFrame: the bytes are no offset, or of a version later than those known.
    """
    version = _version(data)
    if not 0 <= version <= _HIGHEST_OFFSET_VALUE:
        raise MalformedFrame(f"offset value of version {version}")
    return _decode(OffsetValue, version, data)


def encode_group(value: GroupValue) -> bytes:
    """The value of a group."""
    return _encode(value, _GROUP_VALUE_VERSION)


def decode_group(data: bytes | memoryview) -> GroupValue:
    """Decode a group of any version.

    Raises:
        MalformedFrame: the bytes are no group, or of a version later than those known.
    """
    version = _version(data)
    if not 0 <= version <= _HIGHEST_GROUP_VALUE:
        raise MalformedFrame(f"group value of version {version}")
    return _decode(GroupValue, version, data)


def _encode(message: Any, version: int) -> bytes:
    return _VERSION.pack(version) + codec.encode_bytes(message, version)


def _decode(message: type[_Message], version: int, data: bytes | memoryview) -> _Message:
    return codec.decode(message, version, data, _VERSION.size)[0]


def _version(data: bytes | memoryview) -> int:
    try:
        version: int = _VERSION.unpack_from(data)[0]
    except struct.error as error:
        raise MalformedFrame("record of the offsets topic without a version") from error
    return version
