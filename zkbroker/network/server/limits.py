"""The limits of a server on connections, requests and their memory.

Invariant: every resource that a peer can take is bounded by one of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from zkbroker.network.server.connection_rates import CreationLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a server. Counts are of connections or requests, times in seconds."""

    max_request_bytes: int = 100 * 1024 * 1024
    max_queued_requests: int = 500
    max_connections: int = 2**31 - 1
    max_connections_per_ip: int = 2**31 - 1
    max_connections_overrides: Mapping[str, int] = field(default_factory=dict)
    max_idle_s: float = 600.0
    max_frame_s: float = 30.0
    """How long an incomplete request may go without receiving a byte."""
    max_queued_request_bytes: int = -1
    """Memory of all requests above 64 KiB together; -1 for no limit."""
    min_bytes_per_s: int = 16 * 1024
    """The lowest rate of a large request while others wait for memory; a slower one is cut."""
    rate_window_s: float = 5.0
    """The period over which that rate is measured."""
    max_answer_bytes: int = 64 * 1024 * 1024
    """Memory of all answers that are not sent from files; each may take 64 KiB in any case."""
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    busy_poll_s: float = 0.0
    """How long to poll for a connection's next request before waiting for it; see `BusyPoll`."""
    creation: CreationLimits = field(default_factory=CreationLimits)
    """How many connections are accepted per second."""
