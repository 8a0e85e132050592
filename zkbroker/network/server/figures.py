"""Figures of a server's connections and requests, for operators.

Invariant: `requests_handled` and `requests_waiting` together are the requests that were read and
have no answer yet, without those parked until data or other brokers are ready.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFigures:
    """A server at one moment.

    Args:
        connections: listener → open connections.
        accepted: connections accepted since the start.
        refused: connections that a limit refused since the start.
        requests_handled: requests being handled.
        requests_waiting: requests that wait because `queued.max.requests` are being handled.
        request_bytes: memory of requests above 64 KiB.
    """

    connections: Mapping[str, int]
    accepted: int
    refused: int
    requests_handled: int
    requests_waiting: int
    request_bytes: int
