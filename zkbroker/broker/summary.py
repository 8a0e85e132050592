"""A broker's own totals, in one small page: `/summary` of the admin page.

    {"version": "0.2.0", "id": 1, "cpu_seconds": 12.5, "resident_bytes": 48000000,
     "connections": 12, "messages_in": 10, "bytes_in": 1000, "bytes_out": 2000}

Invariant: unlike those of `/metrics`, its size and cost do not grow with topics and partitions, so
that it can be read every few seconds. Counts only grow.
"""

import resource
import sys
import time
from pathlib import Path
from typing import Any

from zkbroker import __version__
from zkbroker.broker.services import BrokerServices
from zkbroker.network.server.metrics import ServerMetrics


def summary(services: BrokerServices, server: ServerMetrics) -> dict[str, Any]:
    """Return the page of a running broker."""
    totals = dict(services.metrics.totals())
    return {
        "version": __version__,
        "id": services.broker_id,
        "cpu_seconds": time.process_time(),
        "resident_bytes": resident_bytes(),
        "connections": sum(server.connections.values()),
        "messages_in": totals["MessagesInPerSec"],
        "bytes_in": totals["BytesInPerSec"],
        "bytes_out": totals["BytesOutPerSec"],
    }


def resident_bytes() -> int:
    """Return the resident memory of this process; on systems other than Linux, its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()
