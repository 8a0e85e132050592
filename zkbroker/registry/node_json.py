"""The JSON of nodes, which is read so that no content can make the reader fail.

Invariant: reading any bytes of a node gives a value or ValueError. Python's own reader also raises
RecursionError (for nested brackets), and turns `1e999` into infinity, for which `int()` raises
OverflowError.
"""

import json
import logging
import math
from collections import OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

_INT32 = range(-(2**31), 2**31)
_MAX_WARNED = 1000

_warned: "WeakKeyDictionary[object, OrderedDict[str, None]]" = WeakKeyDictionary()


def read_json(data: str | bytes) -> Any:
    """Return the value of a node's JSON.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or has a number that is not finite.
    """
    try:
        return json.loads(data, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def write_json(value: object, *, ascii_only: bool = True) -> bytes:
    """Return the JSON of a node: without blanks, as genuine brokers write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only).encode()


def int32(value: Any) -> int:
    """Return a number that fits into requests: a broker id, a partition, an epoch, a port.

    Raises:
        ValueError: it does not fit into 32 bits, or is no number.
        TypeError: it is no number.
    """
    number = int(value)
    if number not in _INT32:
        raise ValueError(f"{number} is beyond 32 bits")
    return number


def tell_unreadable(session: object, logger: logging.Logger, what: str, error: object) -> None:
    """Warn of a node that is skipped, once per session and content, however often it is read.

    Args:
        session: the session that reads the node.
        logger: of the module that skips it.
        what: the kind of node.
        error: the path and the content of the node.
    """
    warned = _warned.setdefault(session, OrderedDict())
    text = f"{what} {error}"
    level = logging.DEBUG if text in warned else logging.WARNING
    warned[text] = None
    if len(warned) > _MAX_WARNED:
        warned.popitem(last=False)
    logger.log(level, "%s unreadable, skipped error=%s", what, error)
