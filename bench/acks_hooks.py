"""Notes in a broker when the steps of a replicated produce happen; loaded by `bench.acks_all`.

Invariant: times are of the machine's monotonic clock, which all processes share; they are kept in
memory and written to `$ACKS_TRACE/PID` when the broker ends.
"""

import atexit
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zkbroker.broker.dispatcher import Dispatcher
from zkbroker.network.client.inter_broker import InterBrokerConnection
from zkbroker.protocol.messages import FetchRequest
from zkbroker.replica.delayed import Waiters
from zkbroker.replica.fetcher import ReplicaFetcher

PRODUCE, FETCH = b"\x00\x00", b"\x00\x01"
_events: list[tuple[int, str]] = []


def note(name: str) -> None:
    _events.append((time.monotonic_ns(), name))


def around(owner: type, method: str, before: Callable[..., str], after: Callable[..., str]) -> None:
    """Note what the functions return (nothing when it is empty) before and after a method."""
    plain = getattr(owner, method)

    @functools.wraps(plain)
    def noted(*args: Any, **options: Any) -> Any:
        if name := before(*args):
            note(name)
        answer = plain(*args, **options)
        if name := after(*args):
            note(name)
        return answer

    setattr(owner, method, noted)


def _nothing(*_: object) -> str:
    return ""


def _kind(frame: memoryview, produce: str, fetch: str) -> str:
    key = bytes(frame[:2])
    return produce if key == PRODUCE else fetch if key == FETCH else ""


around(
    Dispatcher,
    "handle",
    lambda _, session, frame: _kind(frame, "produce received", "fetch received"),
    lambda _, session, frame: _kind(frame, "produce answered", "fetch answered"),
)
around(Waiters, "appended", lambda *_: "appended", _nothing)
around(Waiters, "advanced", lambda *_: "high watermark", _nothing)
around(
    InterBrokerConnection,
    "send",
    lambda _, request, *rest: "next fetch" if isinstance(request, FetchRequest) else "",
    lambda _, request, *rest: "answer read" if isinstance(request, FetchRequest) else "",
)
around(ReplicaFetcher, "_apply", _nothing, lambda *_: "copied")


@atexit.register
def _write() -> None:
    lines = "".join(f"{at} {name}\n" for at, name in _events)
    Path(os.environ["ACKS_TRACE"], str(os.getpid())).write_text(lines, encoding="ascii")
