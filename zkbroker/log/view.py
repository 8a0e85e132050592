"""A log as the modules below it see it.

Invariant: `Log` has everything that is named here; the functions that work on a log (looking by
time, trimming, replacing) need nothing else of it, so they do not import it.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from zkbroker.config.log import LogConfig
from zkbroker.log.context import LogContext
from zkbroker.log.names import TopicPartition
from zkbroker.log.segment import Segment
from zkbroker.log.segment_files import SegmentFiles


class LogView(Protocol):
    """What can be read of a log."""

    config: LogConfig
    context: LogContext
    directory: Path
    log_start_offset: int
    segments: tuple[Segment, ...]
    topic_partition: TopicPartition

    @property
    def high_watermark(self) -> int:
        """End of what consumers may read."""

    def now_ms(self) -> int:
        """Return the clock's time."""

    def opened(self, segment: Segment) -> AbstractContextManager[SegmentFiles]:
        """Hold a segment's files open."""


class MutableLogView(LogView, Protocol):
    """What can be done to a log besides."""

    def new_segment(self, base_offset: int) -> Segment:
        """Make a segment that is not part of the log yet."""

    def roll(self, *, now_ms: int | None = None) -> Segment:
        """Begin a new segment at the log's end."""

    def set_segments(self, segments: list[Segment]) -> None:
        """Replace the list of segments."""
