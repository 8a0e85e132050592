"""Keys and values of the topic `__consumer_offsets`, as genuine brokers write and read them.

    key v0, v1   version:int16 group:string topic:string partition:int32      an offset
    key v2       version:int16 group:string                                   a group's metadata
    value        version:int16 fields of that version; null (a tombstone) removes the key

Offset values: version 1 (0.9) has the times of the commit and of its expiry, where -1 leaves the
expiry to the group's state; version 2 drops the expiry; version 3 adds the leader epoch. Group
values: version 0 is of 0.9, 1 adds the rebalance time-out (0.10.1), 2 the time of the last change
of state (2.1).

Invariant: every genuine broker and tool since 0.9 can read a value that this module writes, unless
the value needs a field that came later.
"""

from dataclasses import dataclass

from zkbroker.protocol.codec import decode_versioned, encode_versioned, read_version
from zkbroker.protocol.errors import MalformedFrame
from zkbroker.protocol.schema import array, int32, int64, raw, string

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state"})
"""Topics of the brokers' own state: producers may not write to them, and they are compacted."""
_OFFSET_KEY_VERSION = 1
_GROUP_KEY_VERSION = 2
_GROUP_VALUE_VERSION = 2
_HIGHEST_OFFSET_VALUE = 3
_HIGHEST_GROUP_VALUE = 3
_WHAT = "record of the offsets topic"


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
        offset: the next offset to consume.
        leader_epoch: of the last consumed record; -1 if the member did not send it.
        metadata: data that the member stored with the offset.
        commit_timestamp_ms: when it was committed.
        expire_timestamp_ms: when it expires; -1 leaves the expiry to the group's state.
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
        protocol: the elected protocol; None while the group is empty.
        leader: the leader's member id; None while the group is empty.
        current_state_timestamp_ms: when the group entered this state; -1 if not known.
        members: all members.
    """

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=0, default=None)
    leader: str | None = string(nullable=0, default=None)
    current_state_timestamp_ms: int = int64(since=2, default=-1)
    members: list[GroupMemberValue] = array(GroupMemberValue)


def encode_key(key: OffsetKey | GroupKey) -> bytes:
    """Return the key of a record."""
    version = _OFFSET_KEY_VERSION if isinstance(key, OffsetKey) else _GROUP_KEY_VERSION
    return encode_versioned(key, version)


def decode_key(data: bytes | memoryview) -> OffsetKey | GroupKey | None:
    """Decode a key; None for a version after Kafka 2.1, whose record must be skipped.

    Raises:
        MalformedFrame: the bytes are not a key.
    """
    version = read_version(data, _WHAT)
    if version in (0, 1):
        return decode_versioned(OffsetKey, version, data)
    if version == _GROUP_KEY_VERSION:
        return decode_versioned(GroupKey, 0, data)
    return None


def encode_offset(value: OffsetValue) -> bytes:
    """Return the value of an offset: version 3 with a leader epoch, else 1, which all can read."""
    if value.leader_epoch >= 0 and value.expire_timestamp_ms < 0:
        return encode_versioned(value, 3)
    return encode_versioned(value, 1)


def decode_offset(data: bytes | memoryview) -> OffsetValue:
    """Decode an offset of any version.

    Raises:
        MalformedFrame: the bytes are not an offset, or have an unknown version.
    """
    version = read_version(data, _WHAT)
    if not 0 <= version <= _HIGHEST_OFFSET_VALUE:
        raise MalformedFrame(f"offset value of version {version}")
    return decode_versioned(OffsetValue, version, data)


def encode_group(value: GroupValue) -> bytes:
    """Return the value of a group."""
    return encode_versioned(value, _GROUP_VALUE_VERSION)


def decode_group(data: bytes | memoryview) -> GroupValue:
    """Decode a group of any version.

    Raises:
        MalformedFrame: the bytes are not a group, or have an unknown version.
    """
    version = read_version(data, _WHAT)
    if not 0 <= version <= _HIGHEST_GROUP_VALUE:
        raise MalformedFrame(f"group value of version {version}")
    return decode_versioned(GroupValue, version, data)
