r"""How a consumed message is printed, in kcat's format.

%t topic  %p partition  %o offset  %T timestamp (ms)  %h headers (k=v,k=v)
%k key  %K key length  %s value  %S value length (-1: null)  %R value length as big-endian int32
%% percent  \n \r \t \\ \xNN (hexadecimal) \NNN (decimal) escapes; any other character after a
backslash is itself
"""

import json
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from zkbroker.cli.foreign_text import harmless_json
from zkbroker.cli.unpacking import Unpack
from zkbroker.errors import ConfigError
from zkbroker.types import Partition07

if TYPE_CHECKING:
    from zkbroker.consumer import MessageAndMetadata

Piece = Callable[["MessageAndMetadata"], bytes]

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t"}
_NUMBER = re.compile(r"x([0-9a-fA-F]{1,2})|([0-9]{1,3})")


def compile_format(
    text: str, *, null: bytes = b"", key: Unpack | None = None, value: Unpack | None = None
) -> Piece:
    r"""Compile a `-f` format into a function of a message.

    Args:
        text: the format.
        null: text for a null key or value.
        key: how keys are shown (`%k`); None for unchanged.
        value: how values are shown (`%s`).

    Raises:
        ConfigError: an unknown `%` token.
    """
    pieces: list[Piece] = []
    literal = bytearray()

    def flush() -> None:
        if literal:
            fixed = bytes(literal)
            pieces.append(lambda _: fixed)
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
            pieces.append(_token(letter, text, null, key or _as_it_is, value or _as_it_is))
        else:
            literal += character.encode()
            position += 1
    flush()
    return lambda message: b"".join([piece(message) for piece in pieces])


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


def json_line(message: "MessageAndMetadata", *, broker: int | None = None) -> bytes:
    """Render a message as one JSON object, as `kcat -J` does.

    Bytes that are not UTF-8 are shown with replacement characters. `broker` is the partition's
    leader; it is left out if unknown.
    """
    partition = message.partition
    kind = {0: "create", 1: "logappend"}.get(message.timestamp_type, "unknown")
    fields: dict[str, object] = {
        "topic": message.topic,
        "partition": str(partition) if isinstance(partition, Partition07) else partition,
        "offset": message.offset,
        "tstype": kind,
        "ts": message.timestamp,
    }
    if broker is not None:
        fields["broker"] = broker
    if message.headers:
        flat: list[str | None] = []
        for name, value in message.headers:
            flat += [_text(_name(name)), _text(value)]
        fields["headers"] = flat
    fields["key"] = _text(message.key)
    fields["payload"] = _text(message.value)
    line = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return harmless_json(line).encode() + b"\n"


def _name(text: str) -> bytes:
    """Return the original bytes of a header's name; those that are not UTF-8 became surrogates."""
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _escape(text: str, position: int) -> tuple[bytes, int]:
    """Return the bytes of an escape, and where it ends; `position` is after the backslash."""
    found = _NUMBER.match(text, position)
    if found is not None:
        number = int(found[1], 16) if found[1] else int(found[2])
        return bytes([number & 0xFF]), found.end()
    character = text[position : position + 1] or "\\"
    return _ESCAPES.get(character, character.encode()), position + 1


def _as_it_is(data: bytes) -> bytes:
    return data


def _token(letter: str, text: str, null: bytes, key: Unpack, value: Unpack) -> Piece:
    pieces: dict[str, Piece] = {
        "t": lambda message: message.topic.encode(),
        "p": lambda message: str(message.partition).encode(),
        "o": lambda message: b"%d" % message.offset,
        "T": lambda message: b"%d" % message.timestamp,
        "k": lambda message: null if message.key is None else key(message.key),
        "K": lambda message: b"%d" % _length(message.key),
        "s": lambda message: null if message.value is None else value(message.value),
        "S": lambda message: b"%d" % _length(message.value),
        "R": lambda message: struct.pack(">i", _length(message.value)),
        "h": lambda message: b",".join(
            _name(name) + b"=" + (b"NULL" if content is None else content)
            for name, content in message.headers
        ),
    }
    if letter not in pieces:
        raise ConfigError(
            f"%{letter} in {text!r} is not a token: give %t %p %o %T %k %K %s %S %R %h or %%"
        )
    return pieces[letter]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)
