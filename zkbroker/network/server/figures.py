"""What operators watch of a server's connections and requests.

Invariant: `requests_handled` and `requests_waiting` together are the requests that were read and
have no answer yet, without those that wait parked for data or other brokers.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFigures:
    """A server at one moment.

    Args:
        connections: listener → connections that are open.
        accepted: connections that were taken since the start.
        refused: connections that a limit refused since the start.
        requests_handled: requests that are worked on.
        requests_waiting: requests that wait because `queued.max.requests` are worked on.
        request_bytes: memory of requests above 64 KiB.
    """

    connections: Mapping[str, int]
    accepted: int
    refused: int
    requests_handled: int
    requests_waiting: int
    request_bytes: int
