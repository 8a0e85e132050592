"""Bytes of messages as people read them: text, JSON, hex.

Invariant: what is made of one value is at most `SHOWN_BYTES` of it in each form, whatever the bytes
are; text is exactly what the bytes say in UTF-8, or there is none. Nothing is escaped here: a page
shows text as text.
"""

import base64
import codecs
import json
import math
from typing import Any

SHOWN_BYTES = 64 * 1024
_MAX_NUMBER = 400


def shown(data: bytes | None, most: int = SHOWN_BYTES) -> dict[str, Any] | None:
    """Return the forms of a value; None for a null.

    Args:
        data: the whole value.
        most: bytes of it that are shown.
    """
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
    """Return UTF-8; a character that was cut at the end is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")("strict").decode(data, final=whole)
    except UnicodeDecodeError:
        return None


def _json(text: str) -> Any:
    """Return an object or a list, which is worth its own form; None for all else."""
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
