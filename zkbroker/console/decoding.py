"""Bytes of messages for people: text, JSON, hex.

Invariant: each form shows at most `SHOWN_BYTES` of a value, whatever the bytes are; text is the
    exact UTF-8 decoding, or absent. Nothing is escaped here: the page inserts text as text.
"""

import base64
import codecs
import json
import math
from typing import Any

SHOWN_BYTES = 64 * 1024
_MAX_NUMBER = 400


def shown(data: bytes | None, most: int = SHOWN_BYTES) -> dict[str, Any] | None:
    """Return the forms of a value, of which at most so many bytes are shown; None for a null."""
    if data is None:
        return None
    part = data[: min(most, SHOWN_BYTES)]
    whole = len(part) == len(data)
    text = _text(part, whole=whole)
    return {
        "bytes": len(data),
        "shown": len(part),
        "text": text,
        "json": _json(text) if whole and text else None,
        "hex": part.hex(),
        "base64": base64.b64encode(part).decode(),
    }


def _text(data: bytes, *, whole: bool) -> str | None:
    """Return text from UTF-8, without a character that is cut off at the end."""
    try:
        return codecs.getincrementaldecoder("utf-8")("strict").decode(data, final=whole)
    except UnicodeDecodeError:
        return None


def _json(text: str) -> Any:
    """Return a JSON object or list; None for other values, which need no form of their own."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_float, parse_int=_int)
    except (ValueError, RecursionError):
        return None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _int(text: str) -> int:
    if len(text) > _MAX_NUMBER:
        raise ValueError("too long")
    return int(text)
