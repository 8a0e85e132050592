"""Long loops that let other requests run.

Invariant: a loop lets the hub run the other connections every few milliseconds; short loops cost
nothing.
"""

import time
from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from zkbroker.protocol.codegen import SHORT
from zkbroker.runtime.greenlets import yield_turn

Item = TypeVar("Item")

RUN_S = 0.003


def paced(items: Collection[Item]) -> Iterable[Item]:
    """Iterate items, and let other greenlets run whenever a few milliseconds have passed."""
    if len(items) < SHORT:
        return items
    return _paced(items)


def _paced(items: Iterable[Item]) -> Iterator[Item]:
    now = time.monotonic
    until = now() + RUN_S
    for item in items:
        yield item
        if now() > until:
            yield_turn()
            until = now() + RUN_S
