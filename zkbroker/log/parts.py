"""The state of a partition's log, which its reader, its writer and its trimming share.

    segment_list    the segments and their files
    durability      which messages are on stable storage; flushes
    tracking        idempotent producers and their transactions
    epochs          leader epochs

Invariants: a log has a start and an end. `lock` guards the state; only a truncation holds it while
it waits for the disk. Code that removes files takes `files_lock` before `lock`. After a disk error
the data directory is offline, and `require_online` raises `StorageError`.
"""

import logging
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.log.directory import DataDirectory
from zkbroker.log.durability import Durability
from zkbroker.log.names import TopicPartition
from zkbroker.log.producers.state import ProducerState, write_snapshot
from zkbroker.log.producers.tracking import ProducerTracking
from zkbroker.log.results import LogState
from zkbroker.log.segment_list import SegmentList
from zkbroker.log.segments.segment import Segment
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS

logger = logging.getLogger(__name__)

NO_EPOCH = -1


class LogParts:
    """The state of a partition's log."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        path: Path,
        config: LogConfig,
        directory: DataDirectory,
        state: LogState,
    ) -> None:
        self.topic_partition = topic_partition
        self.path = path
        self.directory = directory
        """Its data directory."""
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.epochs = state.epochs
        """Leader epochs; only appends and truncations change them."""
        self.led_under = NO_EPOCH
        """The leader epoch of the next append; none if the log's epochs have changed since."""
        self.truncations = 0
        """How often the log was truncated; an earlier read may be invalid by now."""
        self.lowest_cut = 2**63 - 1
        """The lowest offset of a truncation since the reader reset this to `2**63 - 1`."""
        self.gone: str | None = None
        """Why the log is closed or deleted; None if it is neither."""
        self.lock = directory.runtime.lock()
        self.files_lock = directory.runtime.lock()
        self.config = config
        self.internal = topic_partition.topic in INTERNAL_TOPICS
        """Whether the topic belongs to a coordinator."""
        self.tracking = ProducerTracking(
            topic_partition, state.producers, sequenced=not self.internal
        )
        with directory.storage():
            self.segment_list = SegmentList(directory, path, config, state.segments)
        self.durability = Durability(directory, path, state)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, ascending, never empty; the last one is active."""
        return self.segment_list.all

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return self.segment_list.size_bytes

    @property
    def producers(self) -> ProducerState:
        """The idempotent producers at the log's end."""
        return self.tracking.state

    @property
    def recovery_point(self) -> int:
        """The offset below which log and indexes are on stable storage."""
        return self.durability.recovery_point

    @property
    def offline(self) -> str | None:
        """Why the log cannot be used; None if it can."""
        return self.gone or self.directory.offline

    def require_online(self) -> None:
        """Raise StorageError if the log cannot be used."""
        reason = self.offline
        if reason is not None:
            raise self.directory.error(f"{self.topic_partition}: {reason}")

    def roll(self, *, now_ms: int | None = None) -> Segment:
        """Begin a new segment at the log's end, unless the last one is empty.

        Raises:
            StorageError: the disk failed.
        """
        with self.lock:
            self.require_online()
            segment = self.segment_list.active
            if segment.size == 0:
                return segment
            end = self.log_end_offset
            with self.directory.storage():
                write_snapshot(self.directory.fs, self.path, end, self.producers)
                self.durability.names_changed()
                segment = self.segment_list.roll(end, now_ms)
            self.durability.rolled(segment)
        logger.debug("log rolled partition=%s base_offset=%d", self.topic_partition, end)
        self.durability.request(end)
        return segment
