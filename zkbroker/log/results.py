"""Results of appends and reads, and the state of a recovered log."""

from dataclasses import dataclass
from typing import NamedTuple

from zkbroker.fileslice import FileSlice
from zkbroker.log.epochs import LeaderEpochs
from zkbroker.log.producers.state import BatchMetadata, ProducerState
from zkbroker.log.segments.files import SegmentFiles
from zkbroker.log.segments.segment import Segment


@dataclass(slots=True)
class AppendResult:
    """Where a message set was stored.

    Args:
        base_offset: offset of its first message.
        last_offset: offset of its last message.
        log_append_time_ms: the timestamp that all its messages got, -1 if they kept theirs; for a
            duplicate the latest stored one.
        log_start_offset: first offset of the log.
        count: number of messages.
        size_bytes: bytes written.
        duplicate: the set was stored before, with these offsets; nothing was written.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    count: int
    size_bytes: int
    duplicate: bool = False

    @classmethod
    def of_repeated(cls, stored: BatchMetadata, log_start_offset: int) -> "AppendResult":
        """Return the result for a batch that was stored before."""
        return cls(
            stored.first_offset,
            stored.last_offset,
            # Genuine brokers answer the batch's latest timestamp whatever its type.
            stored.timestamp,
            log_start_offset,
            stored.last_offset - stored.first_offset + 1,
            0,
            duplicate=True,
        )


class ReadResult(NamedTuple):
    """The result of a read; its receiver closes the slice.

    Args:
        slice: entries, the first of which holds the requested offset, the last of which may be
            incomplete; None if there is nothing to read yet.
        log_start_offset: first offset of the log.
        segment: the segment of the slice.
        files: its open files, until the slice is closed.
    """

    slice: FileSlice | None
    log_start_offset: int
    segment: Segment | None = None
    files: SegmentFiles | None = None

    def max_magic(self) -> int:
        """Return the largest magic that the slice may hold, -1 without a slice.

        To be called before the slice is closed.
        """
        return self._traits()[0]

    def fetch_since(self) -> int:
        """Return the lowest version of Fetch that may carry the codecs of the slice.

        To be called before the slice is closed.
        """
        return self._traits()[1]

    def _traits(self) -> tuple[int, int]:
        if self.slice is None or self.segment is None or self.files is None:
            return -1, 0
        return self.segment.traits(self.files, self.slice.position, self.slice.size)


@dataclass(slots=True)
class LogState:
    """The state of a log on disk, found by its recovery."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producers: ProducerState
    epochs: LeaderEpochs
