"""The log of one partition, whole: what its parts do, and replacing, flushing and closing it.

    base.py      the state that all share, and going on in a new segment
    writing.py   append as leader and as follower, markers
    reading.py   by offset and by time
    trimming.py  either end moves

Invariant: offsets never change, and grow in the order of the log. A log knows its two ends and
nothing of who may read how far.
"""

from collections.abc import Sequence
from functools import partial

from zkbroker.log.producers.state import drop_snapshots, write_snapshot
from zkbroker.log.reading import ReadableLog
from zkbroker.log.segments.replacement import (
    SegmentWriter,
    commit_plan,
    forget_plan,
    swap_files,
)
from zkbroker.log.segments.segment import Segment
from zkbroker.log.trimming import TrimmableLog
from zkbroker.log.writing import WritableLog


class Log(ReadableLog, WritableLog, TrimmableLog):
    """A partition's log; made by a `LogManager`."""

    def last_records(self) -> dict[int, tuple[int, int | None]]:
        """Return of each producer its epoch and the offset of its last data, None without any."""
        with self._lock:
            return self.producers.last_records()

    def drop_snapshots_below(self, offset: int) -> None:
        """Remove what would spare a reader the messages before an offset below this one.

        A compaction drops markers whose data is gone; who goes on from an older snapshot, in which
        a transaction is open, would never see its end. The names are gone for good with the next
        `replace_segments`.

        Raises:
            StorageError: the disk failed.
        """
        with self._files, self.directory.storage():
            self._require_online()
            drop = partial(drop_snapshots, self._fs, self.path, below=offset)
            self.directory.runtime.offload(drop)

    def segment_writer(self, base_offset: int) -> SegmentWriter:
        """Begin a segment beside the log, for `replace_segments`.

        Raises:
            StorageError: the disk failed.
        """
        with self.directory.storage():
            self._require_online()
            return self._segments.writer(base_offset)

    def replace_segments(
        self,
        old: Sequence[Segment],
        new: Sequence[SegmentWriter],
        *,
        truncations: int | None = None,
    ) -> None:
        """Put segments that were written beside the log in the place of others, all or nothing.

        Messages that are kept keep their offsets; gaps may remain. After a crash at any point the
        log has all of the old segments or all of the new. Appends and reads go on meanwhile.

        Args:
            old: neighbours, ascending, none of them the active one.
            new: finished, ascending, within the range of the old ones; may be none.
            truncations: as the log had it when the old ones were read.

        Raises:
            ValueError: they are not, or the log was truncated since; nothing changed.
            StorageError: the disk failed, or the log is gone.
        """
        runtime = self.directory.runtime
        with self._files:
            with self._lock:
                self._require_online()
                if truncations is not None and truncations != self.truncations:
                    raise ValueError(f"{self.topic_partition} was truncated meanwhile")
                start, end = self._range_of(old, new)
            bases = [each.segment.base_offset for each in new]
            # A log whose plan is there must not be written or cut until the plan is carried out.
            with self.directory.storage(half_done=True):
                runtime.offload(commit_plan, self._fs, self.path, start, end, bases)
                with self._lock:
                    swap_files(self._fs, self.path, start, end, bases)
                    self._segments.put(start, end, [each.segment for each in new])
                    self._durability.keep(self.segments)
                runtime.offload(forget_plan, self._fs, self.path)

    def _range_of(self, old: Sequence[Segment], new: Sequence[SegmentWriter]) -> tuple[int, int]:
        segments = self.segments
        at = segments.index(old[0]) if old and old[0] in segments else -1
        if at < 0 or segments[at : at + len(old)] != tuple(old) or old[-1] is segments[-1]:
            raise ValueError(f"these are no closed neighbours in the log of {self.topic_partition}")
        start, end = old[0].base_offset, segments[at + len(old)].base_offset
        expected = start
        for each in new:
            base = each.segment.base_offset
            if not (expected <= base < end and each.next_offset <= end):
                raise ValueError(
                    f"a segment of offsets {base} to {each.next_offset} is not in "
                    f"[{expected}, {end})"
                )
            expected = max(each.next_offset, base + 1)
        return start, end

    # Flush

    def wait_durable(self, last_offset: int, timeout_s: float | None = None) -> None:
        """Wait until the flush policy is met for an append that ended at `last_offset`.

        With `flush.messages` M fewer than M messages up to it may still be missing on the disk
        when this returns; with M = 1 it is on disk. One fsync serves everybody who waits.

        Raises:
            StorageError: the disk failed; the append must not be acknowledged.
            RequestTimedOut: not within `timeout_s`.
        """
        self._durability.wait(last_offset + 2 - self.config.flush_messages, timeout_s)
        self._require_online()

    def flush(self) -> int:
        """Bring everything written so far to stable storage, off the event loop.

        Returns:
            The end offset that is on stable storage.

        Raises:
            StorageError: the disk failed; the data directory is offline now.
        """
        return self._durability.flush()

    def start_flush(self) -> int:
        """Have everything written so far flushed, without waiting.

        Returns:
            The end offset to `wait_flushed` for.
        """
        end = self.log_end_offset
        self._durability.request(end)
        return end

    def wait_flushed(self, end: int) -> None:
        """Wait until everything below `end` is on stable storage.

        Raises:
            StorageError: the disk failed.
        """
        self._durability.wait(end, None)

    # End

    def close(self) -> None:
        """Flush, write the producers' state, trim the indexes and close the files.

        Raises:
            StorageError: the disk failed.
        """
        try:
            with self._files, self._lock:
                if self.offline is not None:
                    return
                # Nothing may be appended behind what the last flush covers.
                self._gone = "the log is closed"
                with self.directory.storage():
                    self._segments.active.finish()
                    drop_snapshots(self._fs, self.path, above=self.log_end_offset)
                    write_snapshot(self._fs, self.path, self.log_end_offset, self.producers)
                self._durability.finished()
            self._durability.flush()
        finally:
            self._gone = self._gone or "the log is closed"
            self.release_files()
            self._notify()

    def release_files(self) -> None:
        """Close every file that no reader holds."""
        self._segments.release_files()

    def mark_deleted(self) -> None:
        """Refuse every call from now on: the partition goes away."""
        self._gone = "the partition was deleted"
        self._durability.fail(self._gone)
        self.release_files()
        self._notify()

    def mark_offline(self) -> None:
        """Wake everybody who waits: the data directory failed."""
        self._durability.fail(self.directory.offline or "offline")
        self._notify()
