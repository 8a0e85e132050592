"""How a dump prints keys and payloads.

A decoder takes the key and payload of a record with a value, and returns the text of each, None for
nothing. Decoders are named as in the genuine tool, by a short name, or as `module:function`.
"""

import importlib
import json
from collections.abc import Callable
from typing import Final

from zkbroker.errors import ConfigError
from zkbroker.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from zkbroker.protocol.errors import MalformedFrame
from zkbroker.protocol.offsets_topic import (
    GroupKey,
    GroupValue,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
)

Decoder = Callable[[bytes], str]
RecordDecoder = Callable[[bytes | None, bytes], tuple[str | None, str | None]]


def decode_string(data: bytes) -> str:
    """UTF-8; other bytes become the replacement character, as in Java."""
    return data.decode("utf-8", "replace")


def decode_bytes(data: bytes) -> str:
    """Hexadecimal (the genuine DefaultDecoder prints an object's address)."""
    return data.hex()


def _decode_int(data: bytes) -> str:
    return str(int.from_bytes(data, "big", signed=True))


_DECODERS: Final[dict[str, Decoder]] = {
    "string": decode_string,
    "StringDecoder": decode_string,
    "bytes": decode_bytes,
    "DefaultDecoder": decode_bytes,
    "integer": _decode_int,
    "IntegerDecoder": _decode_int,
    "long": _decode_int,
    "LongDecoder": _decode_int,
}


def named_decoder(name: str) -> Decoder:
    """Find a decoder by name.

    Args:
        name: string, bytes, integer, long; a genuine class name such as
            kafka.serializer.StringDecoder; or `module:function` of one's own.

    Raises:
        ConfigError: there is no decoder of that name.
    """
    known = _DECODERS.get(name.removeprefix("kafka.serializer."))
    if known is not None:
        return known
    module, _, function = name.partition(":")
    if not function:
        raise ConfigError(f"no decoder {name!r}: use {', '.join(_DECODERS)} or module:function")
    try:
        found: Decoder = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"no decoder {name!r}: {error}") from error
    return found


def record_decoder(key: Decoder, value: Decoder) -> RecordDecoder:
    """Decode key and payload separately; nothing is printed for a tombstone."""

    def decode(raw_key: bytes | None, payload: bytes) -> tuple[str | None, str | None]:
        return None if raw_key is None else key(raw_key), value(payload)

    return decode


STRINGS: Final = record_decoder(decode_string, decode_string)


def decode_offsets(key: bytes | None, payload: bytes) -> tuple[str | None, str | None]:
    """Decode a record of `__consumer_offsets`: a committed offset or a group's state.

    Raises:
        ValueError: no such record.
    """
    if key is None:
        raise ValueError("a record of the offsets topic without a key")
    try:
        found = decode_key(key)
        if isinstance(found, OffsetKey):
            committed = decode_offset(payload)
            shown = str(committed.offset)
            if committed.metadata:
                shown += f":{committed.metadata}"
            return f"offset::{found.group}:{found.topic}:{found.partition}", shown
        if isinstance(found, GroupKey):
            return _json({"metadata": found.group}), _group(decode_group(payload))
    except MalformedFrame as error:
        raise ValueError(f"a malformed record of the offsets topic: {error}") from error
    raise ValueError("a key of a later version in the offsets topic")


def _json(fields: dict[str, object]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def _group(value: GroupValue) -> str:
    shares = [
        f"{member.member_id}={_assignment(value.protocol_type, member.assignment)}"
        for member in value.members
    ]
    return _json(
        {
            "protocolType": value.protocol_type,
            "protocol": value.protocol,
            "generationId": value.generation,
            "assignment": "{" + ",".join(shares) + "}",
        }
    )


def _assignment(protocol_type: str, data: bytes) -> str:
    if protocol_type != PROTOCOL_TYPE or not data:
        return data.hex().upper()
    assignment = decode_assignment(data)
    partitions = [
        f"{share.topic}-{number}" for share in assignment.assigned for number in share.partitions
    ]
    listed = f"[{', '.join(partitions)}]"
    user_data = (assignment.user_data or b"").hex().upper()
    return f"{listed}:{user_data}" if user_data else listed
