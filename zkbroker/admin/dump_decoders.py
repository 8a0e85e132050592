"""How a dump prints keys and payloads.

A decoder takes key and payload of a record with a value and returns what is printed of each, None
for nothing. They are named as in the genuine tool, by a short name, or as `module:function`.
"""

import importlib
import json
import struct
from collections.abc import Callable
from typing import Final

from zkbroker.errors import ConfigError

Decoder = Callable[[bytes], str]
RecordDecoder = Callable[[bytes | None, bytes], tuple[str | None, str | None]]


def decode_string(data: bytes) -> str:
    """UTF-8; what is not becomes the replacement character, as Java prints it."""
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
        ConfigError: there is none of that name.
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
    """Decode key and payload each on its own; of a tombstone nothing is printed."""

    def decode(raw_key: bytes | None, payload: bytes) -> tuple[str | None, str | None]:
        return None if raw_key is None else key(raw_key), value(payload)

    return decode


STRINGS: Final = record_decoder(decode_string, decode_string)


class _Reader:
    """Reads the fields of an offsets-topic record: int16-length strings, int32-length bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def number(self, layout: str) -> int:
        """Read one big-endian integer of a struct layout."""
        (value,) = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return int(value)

    def take(self, size: int) -> bytes:
        """Read so many bytes; struct.error if there are fewer."""
        if size > len(self.data) - self.position:
            raise struct.error(f"{size} bytes wanted, {len(self.data) - self.position} left")
        self.position += size
        return self.data[self.position - size : self.position]

    def string(self) -> str | None:
        """Read a nullable string."""
        size = self.number(">h")
        return None if size < 0 else self.take(size).decode("utf-8", "replace")

    def blob(self) -> bytes:
        """Read bytes; null is empty."""
        return self.take(max(self.number(">i"), 0))


def decode_offsets(key: bytes | None, payload: bytes) -> tuple[str | None, str | None]:
    """Decode a record of `__consumer_offsets`: a committed offset or a group's state.

    Raises:
        ValueError: no such record.
    """
    if key is None:
        raise ValueError("a record of the offsets topic without a key")
    try:
        reader = _Reader(key)
        version = reader.number(">h")
        if version in (0, 1):
            name = f"offset::{reader.string()}:{reader.string()}:{reader.number('>i')}"
            return name, _committed(_Reader(payload))
        if version == 2:
            name = json.dumps({"metadata": reader.string()}, separators=(",", ":"))
            return name, _group(_Reader(payload))
    except struct.error as error:
        raise ValueError(f"a malformed record of the offsets topic: {error}") from error
    raise ValueError(f"a key of version {version} in the offsets topic")


def _committed(value: _Reader) -> str:
    version = value.number(">h")
    offset = value.number(">q")
    if version >= 3:
        value.number(">i")  # leader epoch
    metadata = value.string()
    return f"{offset}:{metadata}" if metadata else str(offset)


def _group(value: _Reader) -> str:
    version = value.number(">h")
    protocol_type = value.string() or ""
    generation = value.number(">i")
    protocol = value.string()
    value.string()  # leader
    if version >= 2:
        value.number(">q")  # state timestamp
    members = []
    for _ in range(value.number(">i")):
        member = value.string()
        if version >= 3:
            value.string()  # group instance id
        value.string()  # client id
        value.string()  # client host
        if version >= 1:
            value.number(">i")  # rebalance timeout
        value.number(">i")  # session timeout
        value.blob()  # subscription
        members.append(f"{member}={_assignment(protocol_type, value.blob())}")
    fields = {
        "protocolType": protocol_type,
        "protocol": protocol,
        "generationId": generation,
        "assignment": "{" + ",".join(members) + "}",
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def _assignment(protocol_type: str, data: bytes) -> str:
    if protocol_type != "consumer" or not data:
        return data.hex().upper()
    reader = _Reader(data)
    reader.number(">h")
    partitions = []
    for _ in range(reader.number(">i")):
        topic = reader.string()
        partitions += [f"{topic}-{reader.number('>i')}" for _ in range(reader.number(">i"))]
    user_data = reader.blob().hex().upper()
    listed = f"[{', '.join(partitions)}]"
    return f"{listed}:{user_data}" if user_data else listed
