"""Bytes shown as numbers and text, in kcat's syntax (`-s value=>iq`).

    < little-endian  > big-endian (from the start)  b B h H i I q Q  integers of 8, 16, 32, 64 bits
    c one character  s the rest as it is  $ nothing may be left  space is printed

Values are joined without a separator; bytes after the format's end are left out.
"""

import struct
from collections.abc import Callable

from zkbroker.errors import ClientError, ConfigError

Unpack = Callable[[bytes], bytes]

_INTEGERS = "bBhHiIqQ"


def parse_serdes(texts: tuple[str, ...]) -> tuple[Unpack | None, Unpack | None]:
    """Combine the `-s` options: each `key=FORMAT`, `value=FORMAT`, or a format for both.

    Returns:
        How to show keys, and values; None leaves them as they are.

    Raises:
        ConfigError: a format is invalid.
    """
    key: Unpack | None = None
    value: Unpack | None = None
    for text in texts:
        if text.startswith("key="):
            key = unpacking(text[4:])
        elif text.startswith("value="):
            value = unpacking(text[6:])
        else:
            key = value = unpacking(text)
    return key, value


def unpacking(form: str) -> Unpack:
    """Compile one format.

    Raises:
        ConfigError: it has an unknown character.
    """
    if not form or form == "avro" or set(form) - set(f"<> cs${_INTEGERS}"):
        raise ConfigError(
            f"-s {form!r} is not a format: give a row of b B h H i I q Q c s $, with < or > for "
            "the byte order"
        )
    return lambda data: _unpack(form, data)


def _unpack(form: str, data: bytes) -> bytes:
    shown = bytearray()
    order, position = ">", 0
    for code in form:
        if code in "<>":
            order = code
        elif code == " ":
            shown += b" "
        elif code == "s":
            shown += data[position:]
            position = len(data)
        elif code == "$":
            if position < len(data):
                raise ClientError(f"{len(data) - position} bytes are left where -s {form} has $")
        else:
            layout = struct.Struct(order + code)
            if len(data) - position < layout.size:
                raise ClientError(
                    f"{len(data) - position} bytes are left where -s {form} wants {layout.size} "
                    f"for {code}"
                )
            (found,) = layout.unpack_from(data, position)
            position += layout.size
            shown += found if isinstance(found, bytes) else b"%d" % found
    return bytes(shown)
