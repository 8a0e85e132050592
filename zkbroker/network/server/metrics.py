"""Figures of a server's connections and requests, for operators.

Invariant: `requests_handled` and `requests_waiting` together count the requests that were read and
have no answer yet, except those that are parked.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetrics:
    """The figures of a server at one moment.

    Args:
        connections: listener → open connections.
        accepted: connections accepted since the start.
        refused: connections refused by a limit since the start.
        requests_handled: requests in a handler.
        requests_waiting: requests that wait because `queued.max.requests` are being handled.
        request_bytes: memory of requests above 64 KiB.
    """

    connections: Mapping[str, int]
    accepted: int
    refused: int
    requests_handled: int
    requests_waiting: int
    request_bytes: int
