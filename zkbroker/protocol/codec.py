"""The codec: turns the wire metadata of a message into one decoder and one encoder per version.

Invariant: a (message, version) pair is compiled once, to straight-line Python: neighbouring fields
of fixed size, and the length word that follows them, are one `struct` call; nested arrays are
inlined loops. Nesting is as deep as the dataclasses are, so no input can recurse.

Decoding refuses a length or count that does not fit into the bytes that remain before anything is
allocated for it, and more array items, all levels together, than it was told to take. Bytes behind
the last field are ignored, as genuine brokers do.

Decoders are `decode(view, position, max_items, paced) -> (message, position)`; encoders
`encode(message, pieces, paced, errors)` append bytes-like objects and file slices to a list, and
the error codes that are not 0 to another. `paced` goes through the items of an array: a server
gives one that lets other requests run in between.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeAlias, TypeVar

from zkbroker.fileslice import FileSlice
from zkbroker.protocol.codegen import decoder_source, encoder_source
from zkbroker.protocol.errors import MalformedFrame, TooManyItems
from zkbroker.protocol.pieces import Piece, Records, total_size

Message = TypeVar("Message")

Paced: TypeAlias = Callable[[Any], Iterable[Any]]
Decoder: TypeAlias = Callable[[memoryview, int, int, Paced], tuple[Any, int]]
Encoder: TypeAlias = Callable[[Any, list[Piece], Paced, list[int]], None]

NO_LIMIT = 2**63 - 1
_LONG_TEXT_BYTES = 0x7FFF // 3

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
        version: which version of it the bytes are.
        data: the bytes; records fields of the result are views of them.
        position: where in the bytes the message begins.
        max_items: how many array items it may have, all arrays together.
        paced: goes through the items of an array.

    Returns:
        The message, and the position of the first byte behind it.

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
        version: which version of it to make.
        paced: goes through the items of an array.
        errors: gets every error code in it that is not 0.

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


def decoder(message: type[Any], version: int) -> Decoder:
    """The compiled decoder of one version; it raises MalformedFrame or struct.error."""
    known = _DECODERS.get((message, version))
    if known is None:
        source, names = decoder_source(message, version)
        known = _compile(source, "decode", f"{message.__name__} v{version}", names)
        _DECODERS[message, version] = known
    return known


def encoder(message: type[Any], version: int) -> Encoder:
    """The compiled encoder of one version; it raises ValueError or struct.error."""
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
    exec(code, scope)  # noqa: S102 - the source is made of our own class metadata, never of input
    return scope[name]


def decode_text(data: memoryview) -> str:
    """Decode a string; what is not UTF-8 reads as U+FFFD, as in Java.

    Such a character takes up to three times the bytes it stands for, so a long text must be UTF-8:
    whatever is decoded can be encoded again.

    Raises:
        MalformedFrame: it is long and not UTF-8.
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
    if isinstance(value, FileSlice):
        return value.size
    return total_size(value) if isinstance(value, list) else len(value)
