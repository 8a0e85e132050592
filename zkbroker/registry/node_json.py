"""What nodes hold, read so that nothing in them can stop the reader.

Invariant: whatever bytes lie in a node, reading them ends in a value or in ValueError. Python's own
reader also ends in RecursionError (a node of nested brackets), and makes infinity of `1e999`, which
no `int()` takes.
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
    """Return what a node's JSON says.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or names a number that is not finite.
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


def int32(value: Any) -> int:
    """Return a number that requests can carry: a broker id, a partition, an epoch, a port.

    Raises:
        ValueError: it is beyond 32 bits.
        TypeError: it is no number.
    """
    number = int(value)
    if number not in _INT32:
        raise ValueError(f"{number} is beyond 32 bits")
    return number


def tell_unreadable(session: object, logger: logging.Logger, what: str, error: object) -> None:
    """Warn of a node that is skipped: once a session and content, however often it is read.

    Args:
        session: that reads it.
        logger: of the module that skips it.
        what: the sort of node.
        error: names the node and what it holds.
    """
    warned = _warned.setdefault(session, OrderedDict())
    text = f"{what} {error}"
    level = logging.DEBUG if text in warned else logging.WARNING
    warned[text] = None
    if len(warned) > _MAX_WARNED:
        warned.popitem(last=False)
    logger.log(level, "%s unreadable, skipped error=%s", what, error)
