r"""How a consumed message is printed, in kcat's words.

%t topic  %p partition  %o offset  %T timestamp (ms)  %h headers (k=v,k=v)
%k key  %K key length  %s value  %S value length (-1: null)  %R value length as big-endian int32
%% percent  \n \r \t \\ \xNN escapes
"""

import json
import re
import struct
from collections.abc import Callable
from typing import Protocol

from zkbroker.errors import ConfigError


class Printable(Protocol):
    """What a message must have to be printed."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...


Piece = Callable[[str, int, Printable], bytes]

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def compile_format(text: str, *, null: bytes = b"") -> Piece:
    r"""Compile a `-f` format into a function of topic, partition and message.

    Args:
        text: the format.
        null: what stands for a null key or value.

    Raises:
        ConfigError: an unknown `%` token or a broken escape.
    """
    pieces: list[Piece] = []
    literal = bytearray()

    def flush() -> None:
        if literal:
            fixed = bytes(literal)
            pieces.append(lambda _topic, _partition, _message: fixed)
            literal.clear()

    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            escaped, position = _escape(text, position + 1)
            literal += escaped
        elif character == "%":
            letter = text[position + 1 : position + 2]
            position += 2
            if letter == "%":
                literal += b"%"
                continue
            flush()
            pieces.append(_token(letter, text, null))
        else:
            literal += character.encode()
            position += 1
    flush()
    return lambda topic, partition, message: b"".join(
        [piece(topic, partition, message) for piece in pieces]
    )


def parse_delimiter(text: str) -> bytes:
    r"""Turn a delimiter as typed on a command line (`\t`, `\x01`, `::`) into bytes."""
    literal = bytearray()
    position = 0
    while position < len(text):
        if text[position] == "\\":
            escaped, position = _escape(text, position + 1)
            literal += escaped
        else:
            literal += text[position].encode()
            position += 1
    return bytes(literal)


def json_line(topic: str, partition: int, message: Printable) -> bytes:
    """Render a message as one JSON object, as `kcat -J` does.

    Bytes that are not UTF-8 are shown with replacement characters.
    """
    kind = {0: "create", 1: "logappend"}.get(message.timestamp_type, "unknown")
    fields: dict[str, object] = {
        "topic": topic,
        "partition": partition,
        "offset": message.offset,
        "tstype": kind,
        "ts": message.timestamp,
    }
    if message.headers:
        flat: list[str | None] = []
        for name, value in message.headers:
            flat += [name, _text(value)]
        fields["headers"] = flat
    fields["key"] = _text(message.key)
    fields["payload"] = _text(message.value)
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _escape(text: str, position: int) -> tuple[bytes, int]:
    character = text[position : position + 1]
    if character == "x":
        digits = text[position + 1 : position + 3]
        if re.fullmatch("[0-9a-fA-F]{2}", digits) is None:
            raise ConfigError(f"\\x{digits} in {text!r} is not an escape: give two hex digits")
        return bytes.fromhex(digits), position + 3
    if character not in _ESCAPES:
        raise ConfigError(
            f"\\{character} in {text!r} is not an escape: give \\n \\r \\t \\\\ \\xNN"
        )
    return _ESCAPES[character], position + 1


def _token(letter: str, text: str, null: bytes) -> Piece:
    pieces: dict[str, Piece] = {
        "t": lambda topic, _partition, _message: topic.encode(),
        "p": lambda _topic, partition, _message: b"%d" % partition,
        "o": lambda _topic, _partition, message: b"%d" % message.offset,
        "T": lambda _topic, _partition, message: b"%d" % message.timestamp,
        "k": lambda _topic, _partition, message: null if message.key is None else message.key,
        "K": lambda _topic, _partition, message: b"%d" % _length(message.key),
        "s": lambda _topic, _partition, message: null if message.value is None else message.value,
        "S": lambda _topic, _partition, message: b"%d" % _length(message.value),
        "R": lambda _topic, _partition, message: struct.pack(">i", _length(message.value)),
        "h": lambda _topic, _partition, message: b",".join(
            name.encode() + b"=" + (null if value is None else value)
            for name, value in message.headers
        ),
    }
    if letter not in pieces:
        raise ConfigError(
            f"%{letter} in {text!r} is not a token: give %t %p %o %T %k %K %s %S %R %h or %%"
        )
    return pieces[letter]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)
