"""How much a server takes of connections and requests.

Invariant: whatever peers do, one of these bounds it.
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
    """How long a request that has begun may stay incomplete without a byte coming."""
    max_queued_request_bytes: int = -1
    """Memory of all requests together that are larger than a first buffer; -1 for any."""
    min_bytes_per_s: int = 16 * 1024
    """What a large request must bring while others wait for memory, or it is cut."""
    rate_window_s: float = 5.0
    """Over how long that rate is looked at."""
    max_answer_bytes: int = 64 * 1024 * 1024
    """Memory of all answers that are converted for their reader, in bytes, the smallest aside."""
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    busy_poll_s: float = 0.0
    """How long to look for a connection's next request before waiting for it; see `BusyPoll`."""
    creation: CreationLimits = field(default_factory=CreationLimits)
    """How many connections are accepted in a second."""
