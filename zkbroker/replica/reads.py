"""How far each reader of a partition sees, and the result of a read."""

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
    """The result of a read; the reader closes the slice.

    Args:
        found: the stored bytes.
        high_watermark: at the time of the read.
        last_stable_offset: likewise.
        log_end_offset: likewise.
        aborted: the aborted transactions in it; None unless the reader is `LAST_STABLE`.
    """

    found: ReadResult
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    aborted: list[AbortedTransaction] | None
