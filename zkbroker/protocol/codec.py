"""The codec: turns the wire metadata of a message into one decoder and one encoder per version.

Invariant: a (message, version) pair is compiled once, to straight-line Python: neighbouring fields
of fixed size, and the length word that follows them, are one `struct` call; nested arrays are
inlined loops. The nesting is that of the dataclasses, so no input can cause recursion.

Before it allocates memory, decoding refuses a length or count that exceeds the remaining bytes, and
more array items (of all levels together) than `max_items`. Bytes after the last field are ignored,
as in genuine brokers.

Decoders are `decode(view, position, max_items, paced) -> (message, position)`; encoders
`encode(message, pieces, paced, errors)` append bytes-like objects and file slices to one list, and
error codes other than 0 to another. `paced` iterates over the items of an array: a server passes
one that lets other requests run in between.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeAlias, TypeVar

from zkbroker.protocol.codegen import decoder_source, encoder_source
from zkbroker.protocol.errors import MalformedFrame, TooManyItems
from zkbroker.protocol.pieces import Piece, Records

Message = TypeVar("Message")

Paced: TypeAlias = Callable[[Any], Iterable[Any]]
Decoder: TypeAlias = Callable[[memoryview, int, int, Paced], tuple[Any, int]]
Encoder: TypeAlias = Callable[[Any, list[Piece], Paced, list[int]], None]

NO_LIMIT = 2**63 - 1
_LONG_TEXT_BYTES = 0x7FFF // 3
_VERSION = struct.Struct(">h")

_DECODERS: dict[tuple[type[Any], int], Decoder] = {}
_ENCODERS: dict[tuple[type[Any], int], Encoder] = {}


def decode(
    message: type[Message],
    version: int,
    data: bytes | bytearray | memoryview,
    position: int = 0,
    *,
    max_items: int = NO_LIMIT,
    paced: Paced = iter,
) -> tuple[Message, int]:
    """Decode one message.

    Args:
        message: its class.
        version: of the message.
        data: the bytes; records fields of the result are views of them.
        position: where in the bytes the message begins.
        max_items: the most array items that it may have, all arrays together.
        paced: iterates over the items of an array.

    Returns:
        The message, and the position of the first byte after it.

    Raises:
        MalformedFrame: the bytes are not such a message.
        TooManyItems: it has more than `max_items`.
    """
    view = data if isinstance(data, memoryview) else memoryview(data)
    try:
        decode_from = _DECODERS.get((message, version)) or decoder(message, version)
        result: tuple[Message, int] = decode_from(view, position, max_items, paced)
    except struct.error as error:
        raise MalformedFrame(f"{message.__name__} v{version} is cut short") from error
    return result


def encode(
    message: object, version: int, paced: Paced = iter, errors: list[int] | None = None
) -> list[Piece]:
    """Encode one message as pieces, in order.

    Args:
        message: the message.
        version: of its encoding.
        paced: iterates over the items of an array.
        errors: every error code in the message other than 0 is appended to it.

    Raises:
        ValueError: a value does not fit its wire type, or is None where null is not allowed.
    """
    pieces: list[Piece] = []
    try:
        encode_into = _ENCODERS.get((type(message), version)) or encoder(type(message), version)
        encode_into(message, pieces, paced, [] if errors is None else errors)
    except struct.error as error:
        msg = f"{type(message).__name__} v{version} holds a value that does not fit: {error}"
        raise ValueError(msg) from error
    return pieces


def encode_bytes(message: object, version: int) -> bytes:
    """Encode a message that holds no file slice as one byte string.

    Raises:
        ValueError: as `encode`.
    """
    return b"".join(encode(message, version))  # type: ignore[arg-type]  # no slices by contract


def encode_versioned(message: object, version: int) -> bytes:
    """Encode a message after its version, as in the records of internal topics.

    Raises:
        ValueError: as `encode`.
    """
    return _VERSION.pack(version) + encode_bytes(message, version)


def read_version(data: bytes | memoryview, what: str) -> int:
    """Return the version before a message; `what` is named in the error.

    Raises:
        MalformedFrame: there is none.
    """
    try:
        version: int = _VERSION.unpack_from(data)[0]
    except struct.error as error:
        raise MalformedFrame(f"{what} without a version") from error
    return version


def decode_versioned(message: type[Message], version: int, data: bytes | memoryview) -> Message:
    """Decode a message of a version that `read_version` has read before it.

    Raises:
        MalformedFrame: the bytes are not such a message.
    """
    return decode(message, version, data, _VERSION.size)[0]


def decoder(message: type[Any], version: int) -> Decoder:
    """Return the compiled decoder of one version; it raises MalformedFrame or struct.error."""
    known = _DECODERS.get((message, version))
    if known is None:
        source, names = decoder_source(message, version)
        known = _compile(source, "decode", f"{message.__name__} v{version}", names)
        _DECODERS[message, version] = known
    return known


def encoder(message: type[Any], version: int) -> Encoder:
    """Return the compiled encoder of one version; it raises ValueError or struct.error."""
    known = _ENCODERS.get((message, version))
    if known is None:
        source, names = encoder_source(message, version)
        known = _compile(source, "encode", f"{message.__name__} v{version}", names)
        _ENCODERS[message, version] = known
    return known


def _compile(source: str, name: str, title: str, names: dict[str, Any]) -> Any:
    scope = {
        **names,
        "text": decode_text,
        "refuse": _refuse,
        "too_many": _too_many,
        "refuse_null": _refuse_null,
        "record_size": _record_size,
    }
    code = compile(source, f"<{name} {title}>", "exec")
    exec(code, scope)  # noqa: S102 - the source comes from our own class metadata, never from input
    return scope[name]


def decode_text(data: memoryview) -> str:
    """Decode a string; bytes that are not UTF-8 become U+FFFD, as in Java.

    That character may take three times as many bytes as it replaces, so a long string must be
    UTF-8: every decoded string can then be encoded again.

    Raises:
        MalformedFrame: the string is long and not UTF-8.
    """
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        if len(data) > _LONG_TEXT_BYTES:
            raise MalformedFrame(f"a text of {len(data)} bytes is not UTF-8") from error
        return str(data, "utf-8", "replace")


def _refuse(field: str) -> NoReturn:
    raise MalformedFrame(f"{field}: length or count does not fit")


def _too_many(field: str) -> NoReturn:
    raise TooManyItems(f"{field}: more items than a request may have")


def _refuse_null(field: str) -> NoReturn:
    msg = f"{field} is None, which this version does not allow"
    raise ValueError(msg)


def _record_size(value: Records) -> int:
    if value is None:
        return -1
    return sum(map(len, value)) if isinstance(value, list) else len(value)
