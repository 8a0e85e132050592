"""What readers of a partition see, and what a read finds."""

from enum import Enum
from typing import NamedTuple

from zkbroker.log import ReadResult
from zkbroker.log.segments.transaction_index import AbortedTransaction


class ReadEnd(Enum):
    """How far a reader sees."""

    LOG_END = 1
    """Followers and log-inspection tools."""
    HIGH_WATERMARK = 2
    """Consumers."""
    LAST_STABLE = 3
    """Consumers of committed messages."""


class PartitionRead(NamedTuple):
    """What a read found; its reader closes the slice.

    Args:
        found: the stored bytes.
        high_watermark: at the time of the read.
        last_stable_offset: likewise.
        log_end_offset: likewise.
        aborted: the aborted transactions in it, None unless committed messages were asked for.
    """

    found: ReadResult
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    aborted: list[AbortedTransaction] | None
