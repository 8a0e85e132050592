"""Streams of server-sent events: the changes since the previous event.

Invariant: a stream ends with its reader, and there are at most `STREAMS` of them; a slow
reader gets the changes since its last event, never a queue. A publication is encoded once for all
readers.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flask import Response

from zkbroker.console.collector import Collector
from zkbroker.console.publication import Publication, dumps
from zkbroker.console.requests import Refused
from zkbroker.network.server.pages import TAKE_TIME

STREAMS = 100
HEARTBEAT_S = 15.0


class EventStreams:
    """The open streams."""

    def __init__(self) -> None:
        self._open = 0

    def stream(self, events: Callable[[], Iterator[str]], environ: dict[str, Any]) -> Response:
        """Return a stream; raise a refusal if too many are open."""
        if self._open >= STREAMS:
            raise Refused(
                503, "too_many_streams", f"{STREAMS} pages are open already: close one of them"
            )
        environ.get(TAKE_TIME, lambda: None)()
        self._open += 1
        response = Response(_encoded(events()), mimetype="text/event-stream")
        response.call_on_close(self._closed)
        # Keeps proxies from buffering it.
        response.headers["X-Accel-Buffering"] = "no"
        return response

    def _closed(self) -> None:
        self._open -= 1


def event(name: str, text: str) -> str:
    """Return one event."""
    return f"event: {name}\ndata: {text}\n\n"


def _encoded(events: Iterator[str]) -> Iterator[bytes]:
    yield b"retry: 2000\n\n"
    for text in events:
        yield text.encode()


def cluster_events(
    collector: Collector, what: frozenset[str], names: Sequence[str]
) -> Iterator[str]:
    """Yield the changes of `what`, any of `overview`, `topics` and `groups`, and of series."""
    lists = [rows for rows in ("topics", "groups") if rows in what]
    before: Publication | None = None
    while not collector.closed:
        after = -1 if before is None else before.number
        now = collector.wait(after, HEARTBEAT_S)
        if now.number == after:
            yield ": still here\n\n"
            continue
        if "overview" in what:
            yield event("overview", now.overview_text)
        for rows in lists:
            changed = now.changed_text(rows, before)
            if changed is not None:
                yield event(rows, changed)
        gone = {rows: names_gone for rows in lists if (names_gone := now.gone(rows, before))}
        if gone:
            yield event("gone", dumps(gone))
        if names:
            values = {name: now.series[name] for name in names if name in now.series}
            yield event("series", dumps({"time_ms": now.time_ms, "values": values}))
        before = now
