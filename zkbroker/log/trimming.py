"""Moving the ends of a log: retention and requests at the old one, truncation at the new one.

Invariant: what a crash leaves has no hole. The start is on stable storage before the first file
goes; what a truncation cuts counts as neither stable nor compacted before it is cut.
"""

import logging

from zkbroker.errors import OffsetOutOfRange
from zkbroker.log.base import BaseLog
from zkbroker.log.producers.loading import load_producers
from zkbroker.log.producers.stability import EndedTransactions
from zkbroker.log.producers.state import ProducerState, drop_snapshots
from zkbroker.log.retention import SegmentSummary, expired

logger = logging.getLogger(__name__)


class TrimmableLog(BaseLog):
    """How a log loses its oldest or newest messages."""

    # The old end

    def advance_start_to(self, offset: int) -> int:
        """Let the log begin at an offset, and make that stable; the start never goes back.

        The caller answers for the offset being at or below the high watermark.

        Returns:
            The log start offset.

        Raises:
            OffsetOutOfRange: the offset is past the log's end; nothing changed.
            StorageError: the disk failed.
        """
        self._advance_start_to(offset)
        return self.log_start_offset

    def _advance_start_to(self, offset: int) -> int:
        """Return how many segments were dropped."""
        with self._files:
            with self._lock, self.directory.storage():
                self._require_online()
                if offset > self.log_end_offset:
                    raise OffsetOutOfRange(
                        f"offset {offset} of {self.topic_partition} is behind its end",
                        earliest=self.log_start_offset,
                        latest=self.log_end_offset,
                    )
                moved = offset > self.log_start_offset
                if moved:
                    self.log_start_offset = offset
                    self.directory.runtime.offload(self.epochs.advance_start_to, offset)
                if not moved and not self._segments.count_below(self.log_start_offset):
                    return 0
            # On stable storage before the first file goes: a crash that brings some of the files
            # back leaves no hole then.
            self.directory.save_start_offset(self.topic_partition, lambda: self.log_start_offset)
            with self._lock, self.directory.storage():
                self._require_online()
                count = self._segments.drop_below(self.log_start_offset)
                self._durability.keep(self.segments)
                if count:
                    drop_snapshots(self._fs, self.path, below=self.segments[0].base_offset)
            with self.directory.storage():
                self.directory.runtime.offload(self._fs.fsync_dir, self.path)
        self._notify()
        if count:
            logger.info(
                "segments deleted partition=%s count=%d log_start_offset=%d",
                self.topic_partition,
                count,
                self.log_start_offset,
            )
        return count

    def delete_old_segments(self, now_ms: int, end: int) -> int:
        """Delete the segments that the retention policy lets go; returns how many.

        Args:
            now_ms: the clock.
            end: the high watermark; nothing behind it is deleted.

        Raises:
            ConfigError: the policy cannot be had, or failed.
            StorageError: the disk failed.
        """
        if "delete" not in self.config.cleanup_policy:
            return self._advance_start_to(self.log_start_offset)
        with self._lock, self.directory.storage():
            self._require_online()
            segments = self.segments
            # Only an active segment that holds something can go; a new one takes its place.
            usable = segments if segments[-1].size else segments[:-1]
            summaries = [
                SegmentSummary(each.base_offset, each.size, self._segments.largest_timestamp(each))
                for each in usable
            ]
            count = min(expired(self.config, self.path, summaries, now_ms), len(summaries))
            if count and count == len(segments) and self.log_end_offset <= end:
                self.roll(now_ms=now_ms)
            bases = [each.base_offset for each in self.segments[: max(count, 0) + 1]]
            start = max((base for base in bases if base <= end), default=self.log_start_offset)
        return self._advance_start_to(start)

    # The new end

    def truncate_to(self, offset: int) -> int:
        """Cut off every entry that ends at an offset or behind it, and make that stable.

        Returns:
            The log end offset: `offset` or the old end where that is smaller; where an entry holds
            the offset in its middle, the offset at which that entry began.

        Raises:
            CorruptMessage: the log is damaged there.
            StorageError: the disk failed.
        """
        with self._files, self._lock:
            self._require_online()
            if offset >= self.log_end_offset:
                # An epoch that begins at the end holds nothing: who asks where it ended would not
                # get on.
                with self.directory.storage():
                    self.directory.runtime.offload(self.epochs.truncate_to, self.log_end_offset)
                return self.log_end_offset
            if offset <= self.log_start_offset:
                self._restart_at(offset)
                return self.log_end_offset
            with self.directory.storage():
                self._forget_stable(offset)
                end = self._segments.truncate_to(offset)
                self.log_end_offset = end
                self._led_under = -1
                self._durability.truncated(end, self.segments)
                self.directory.runtime.offload(self.epochs.truncate_to, end)
                drop_snapshots(self._fs, self.path, above=end)
                self.producers = self.directory.runtime.offload(self._load_producers, end)
                self._ended.truncate_to(end)
                self.directory.runtime.offload(self._fs.fsync_dir, self.path)
        logger.info("log truncated partition=%s log_end_offset=%d", self.topic_partition, end)
        self._notify()
        return end

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop every message and go on from an offset, as a follower does that lost its place.

        Raises:
            StorageError: the disk failed.
        """
        with self._files, self._lock:
            self._require_online()
            self._restart_at(offset)
        logger.info("log emptied partition=%s log_start_offset=%d", self.topic_partition, offset)
        self._notify()

    def _restart_at(self, offset: int) -> None:
        with self.directory.storage():
            self._forget_stable(min(offset, self.log_start_offset))
            self._segments.restart_at(offset)
            self.log_start_offset = self.log_end_offset = offset
            self._led_under = -1
            self._durability.truncated(offset, self.segments)
            self.directory.runtime.offload(self.epochs.clear)
            drop_snapshots(self._fs, self.path, below=2**63)
            self.producers = ProducerState()
            self._ended = EndedTransactions()
            self._created_ms = self.directory.now_ms()
            self.directory.runtime.offload(self._fs.fsync_dir, self.path)
        self.directory.save_start_offset(self.topic_partition, lambda: self.log_start_offset)
        self._require_online()

    def _forget_stable(self, end: int) -> None:
        # Before anything is cut: what is appended next must not pass for verified or compacted.
        self.truncations += 1
        self.lowest_cut = min(self.lowest_cut, end)
        self.directory.lower_cleaned(self.topic_partition, end)
        self._durability.lower(end)
        self.directory.save_recovery_point(self.topic_partition, lambda: self.recovery_start)
        self._require_online()

    def _load_producers(self, end: int) -> ProducerState:
        return load_producers(self.path, list(self.segments), end, clean=False)
