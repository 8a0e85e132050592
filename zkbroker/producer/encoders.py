"""Encoders of keys and values: from objects to bytes.

An encoder has `to_bytes(data) -> bytes | None`; None is a null key or a tombstone.
"""

import json
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Encoder(Protocol):
    """The interface of a user's encoder."""

    def to_bytes(self, data: Any) -> bytes | None:
        """Return the bytes to store; an exception fails the `send` of that message."""


class DefaultEncoder:
    """Takes bytes as they are."""

    def to_bytes(self, data: Any) -> bytes | None:
        """Return bytes-like data and None unchanged.

        Raises:
            TypeError: it is something else.
        """
        if data is None or data.__class__ is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        raise TypeError(
            f"DefaultEncoder takes bytes, not {type(data).__name__}: give bytes, or set "
            "serializer.class (key.serializer.class for keys), for example StringEncoder"
        )


class StringEncoder:
    """Encodes text.

    Args:
        encoding: name of the character encoding.
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def to_bytes(self, data: Any) -> bytes | None:
        """Return the text's bytes; bytes and None pass unchanged."""
        if data is None:
            return None
        if isinstance(data, str):
            return data.encode(self._encoding)
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        raise TypeError(f"StringEncoder takes str, not {type(data).__name__}")


class JsonEncoder:
    """Encodes what `json.dumps` takes, as UTF-8 without white space; None stays a tombstone."""

    def to_bytes(self, data: Any) -> bytes | None:
        if data is None:
            return None
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


class NullEncoder:
    """Encodes everything as null."""

    def to_bytes(self, data: Any) -> bytes | None:
        return None


class IntegerEncoder:
    """Encodes a whole number as 4 bytes, big-endian."""

    width = 4

    def to_bytes(self, data: Any) -> bytes | None:
        return None if data is None else int(data).to_bytes(self.width, "big", signed=True)


class LongEncoder(IntegerEncoder):
    """Encodes a whole number as 8 bytes, big-endian."""

    width = 8
