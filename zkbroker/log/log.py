"""The log of one partition: append at the end, read from any offset.

Invariant: offsets are dense and never change. An append is one synchronous write to the page cache
with nothing between the assignment of offsets and the write; it is visible to readers when it is
whole. The list of segments is replaced, never changed, so a reader works on the list it took. The
high watermark is the log end offset while there is one replica. After an error of the disk nothing
is acknowledged any more: the data directory goes offline, and every call raises `StorageError`.
"""

import bisect
import itertools
import logging
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.errors import CorruptMessage, ErrorCode, OffsetOutOfRange, ProtocolError
from zkbroker.log import replace, timesearch, trimming
from zkbroker.log.context import LogContext
from zkbroker.log.flush import GroupCommit
from zkbroker.log.names import TopicPartition
from zkbroker.log.producer_state import Batch, drop_snapshots, write_snapshot
from zkbroker.log.results import AppendResult, LogState, ReadResult
from zkbroker.log.segment import Segment, SegmentFiles
from zkbroker.log.timesearch import TimestampOffset
from zkbroker.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    AppendPolicy,
    Codec,
    PreparedSet,
    prepare_append,
)

logger = logging.getLogger(__name__)

_MAX_RELATIVE = 2**31 - 1


class Log:
    """A partition's log; made by a `LogManager`."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: Path,
        config: LogConfig,
        context: LogContext,
        state: LogState,
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.context = context
        """The data directory it is in."""
        self._fs = context.fs
        self._lock = context.runtime.lock()
        self.segments: tuple[Segment, ...] = tuple(state.segments)
        """Ascending, never empty; the last one is written."""
        self._bases = [segment.base_offset for segment in self.segments]
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.producers = state.producers
        self._epochs = state.epochs
        self._created_ms = context.now_ms()
        self._unsynced: list[Segment] = [
            segment
            for segment, following in itertools.pairwise(self.segments)
            if following.base_offset > state.recovery_point
        ]
        # Whether its names are stable is not known of a log that was not flushed to its end.
        self._names_unsynced = state.recovery_point < state.log_end_offset or not self.size_bytes
        self._unflushed_since_ms: int | None = None
        if state.recovery_point < state.log_end_offset:
            self._unflushed_since_ms = self._created_ms
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._gone: str | None = None
        self._commit = GroupCommit(
            context.runtime,
            self.flush,
            durable=state.recovery_point,
            name=f"flush-{topic_partition}",
        )
        self._configure(config)
        with self._storage():
            self._open_active()

    # Settings

    def _configure(self, config: LogConfig) -> None:
        self.config = config
        self._roll_jitter_ms = random.randint(0, config.roll_jitter_ms)  # noqa: S311 - no secret
        codec = None
        if config.compression_type != "producer":
            codec = Codec.from_name(config.compression_type)
        self._policy = AppendPolicy(
            max_message_bytes=config.max_message_bytes,
            timestamp_type=LOG_APPEND_TIME
            if config.timestamp_type == "LogAppendTime"
            else CREATE_TIME,
            max_timestamp_difference_ms=config.timestamp_difference_max_ms,
            message_format=config.pinned_magic,
            codec=codec,
            partition_leader_epoch=max(self._epochs.latest, 0),
        )

    def update_config(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        with self._lock:
            self._configure(config)
            for segment in self.segments:
                segment.index_interval_bytes = config.index_interval_bytes

    @property
    def leader_epoch(self) -> int:
        """Epoch of the leadership under which messages are appended, -1 before the first."""
        return self._epochs.latest

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        with self._lock, self._storage():
            if self._epochs.assign(epoch, self.log_end_offset):
                self._configure(self.config)

    # State

    @property
    def high_watermark(self) -> int:
        """End of what consumers may read: the log end offset while there is one replica."""
        return self.log_end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def recovery_point(self) -> int:
        """Offset below which log and indexes are on stable storage."""
        with self._lock:
            durable = self._commit.durable
            return min([durable, *(segment.base_offset for segment in self._unsynced)])

    @property
    def unflushed_since_ms(self) -> int | None:
        """When the oldest message that is not yet on stable storage was written."""
        return self._unflushed_since_ms

    @property
    def offline(self) -> str | None:
        """Why the log cannot be used, None when it can."""
        return self._gone or self.context.offline

    def now_ms(self) -> int:
        """Return the clock's time."""
        return self.context.now_ms()

    def add_append_listener(self, listener: Callable[[], None]) -> None:
        """Have a function called after each append, and when the log goes offline or away.

        It runs in the appender's context: it must not wait, raise, or call the log.
        """
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove_append_listener(self, listener: Callable[[], None]) -> None:
        """Undo `add_append_listener`; a listener that is not there is no error."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)

    def notify(self) -> None:
        """Call the listeners."""
        for listener in self._listeners:
            listener()

    # Append

    def append(
        self, data: bytes | bytearray | memoryview, *, now_ms: int | None = None
    ) -> AppendResult:
        """Validate a message set, give it the next offsets and write it.

        Args:
            data: entries of any magic; patched in place when writable, else copied.
            now_ms: the broker's clock.

        Raises:
            ProtocolError: the set is refused, and nothing was written: CorruptMessage (2),
                MessageSizeTooLarge (10), RECORD_LIST_TOO_LARGE (18), INVALID_TIMESTAMP (32),
                UnsupportedForMessageFormat (43), a sequence out of order (45), an epoch that was
                replaced (47).
            StorageError: the disk failed; the set must not be acknowledged.
        """
        now = self.context.now_ms() if now_ms is None else now_ms
        with self._lock:
            self._require_online()
            prepared = prepare_append(data, self.log_end_offset, self._policy, now)
            if prepared.count == 0:
                raise CorruptMessage("an empty message set")
            zstd = False
            produced = []
            for entry in prepared.batches:
                zstd = zstd or entry.codec == Codec.ZSTD
                if entry.producer_id >= 0:
                    produced.append(entry)
                    stored = self.producers.check(entry)
                    if stored is not None:
                        return self._repeated(stored)
            size = len(prepared.data)
            if size > self.config.segment_bytes:
                raise ProtocolError(
                    f"a set of {size} bytes does not fit a segment of {self.config.segment_bytes}",
                    code=ErrorCode.RECORD_LIST_TOO_LARGE,
                )
            try:
                segment = self._segment_for(prepared, size, now)
                segment.append(prepared, size, zstd=zstd)
            except OSError as error:
                raise self.context.fail(error) from error
            for entry in produced:
                self.producers.update(entry)
            end = self.log_end_offset = prepared.last_offset + 1
            if self._unflushed_since_ms is None:
                self._unflushed_since_ms = now
            if end - self._commit.durable >= self.config.flush_messages:
                self._commit.request(end)
            result = AppendResult(
                prepared.first_offset,
                prepared.last_offset,
                now if self._policy.timestamp_type == LOG_APPEND_TIME else -1,
                self.log_start_offset,
                prepared.count,
                size,
            )
        for listener in self._listeners:
            listener()
        return result

    def _repeated(self, stored: Batch) -> AppendResult:
        timed = self._policy.timestamp_type == LOG_APPEND_TIME
        return AppendResult(
            stored.first_offset,
            stored.last_offset,
            stored.timestamp if timed else -1,
            self.log_start_offset,
            stored.last_offset - stored.first_offset + 1,
            0,
            duplicate=True,
        )

    def wait_durable(self, last_offset: int, timeout_s: float | None = None) -> None:
        """Wait until the flush policy is met for an append that ended at `last_offset`.

        With `flush.messages` M fewer than M messages up to it may still be missing on the disk
        when this returns; with M = 1 it is on disk. One fsync serves everybody who waits.

        Raises:
            StorageError: the disk failed; the append must not be acknowledged.
            RequestTimedOut: not within `timeout_s`.
        """
        target = last_offset + 2 - self.config.flush_messages
        if self._commit.durable < target:
            self._commit.wait(target, timeout_s)
        self._require_online()

    def _segment_for(self, prepared: PreparedSet, size: int, now: int) -> Segment:
        active = self.segments[-1]
        if active.size == 0:
            return active
        limit = self.config.roll_ms - self._roll_jitter_ms
        if active.first_timestamp >= 0 and prepared.max_timestamp >= 0:
            age = prepared.max_timestamp - active.first_timestamp
        else:
            age = now - self._created_ms
        if (
            active.size + size > self.config.segment_bytes
            or age > limit
            or active.index_full
            or prepared.last_offset - active.base_offset > _MAX_RELATIVE
        ):
            return self.roll(now_ms=now)
        return active

    def roll(self, *, now_ms: int | None = None) -> Segment:
        """Begin a new segment at the log's end; without effect while the last one is empty.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock:
            self._require_online()
            active = self.segments[-1]
            if active.size == 0:
                return active
            with self._storage():
                segment = self.new_segment(self.log_end_offset)
                segment.open_for_append(self.context.open_files.lock, self.config.index_max_bytes)
                self._names_unsynced = True
                try:
                    active.finish()
                    write_snapshot(self._fs, self.directory, self.log_end_offset, self.producers)
                except OSError:
                    self.context.open_files.forget(segment)
                    raise
                self._unsynced.append(active)
            self.context.open_files.add(active)
            self.set_segments([*self.segments, segment])
            self._created_ms = self.context.now_ms() if now_ms is None else now_ms
            end = self.log_end_offset
        logger.debug("log rolled partition=%s base_offset=%d", self.topic_partition, end)
        self._commit.request(end)
        return segment

    def new_segment(self, base_offset: int) -> Segment:
        """Make a segment of this log that is not part of it yet."""
        return Segment(
            self._fs,
            self.directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
        )

    def set_segments(self, segments: list[Segment]) -> None:
        """Replace the list of segments."""
        with self._lock:
            self._bases = [segment.base_offset for segment in segments]
            self.segments = tuple(segments)

    def _open_active(self) -> None:
        active = self.segments[-1]
        active.open_for_append(self.context.open_files.lock, self.config.index_max_bytes)

    # Read

    def read(self, offset: int, max_bytes: int, *, min_one_entry: bool = True) -> ReadResult:
        """Return the stored bytes from the entry that holds an offset on, without copying them.

        Args:
            offset: from the log start offset to the high watermark.
            max_bytes: size of the slice at most; its last entry may be cut.
            min_one_entry: the first entry is whole even if it is larger than `max_bytes`; without,
                it may be cut (Fetch v0 to v2).

        Raises:
            OffsetOutOfRange: with `earliest` and `latest`.
            CorruptMessage: the log is damaged there.
            StorageError: the disk failed.
        """
        with self._lock:
            self._require_online()
            start, end = self.log_start_offset, self.log_end_offset
            if not start <= offset <= end:
                raise OffsetOutOfRange(
                    f"offset {offset} of {self.topic_partition} is not in [{start}, {end}]",
                    earliest=start,
                    latest=end,
                )
            if offset == end:
                return ReadResult(None, end, start)
            index = max(bisect.bisect_right(self._bases, offset) - 1, 0)
            with self._storage():
                for segment in self.segments[index:]:
                    with self.opened(segment) as files:
                        found = segment.find(files, offset)
                        if found is None:
                            continue
                        position, entry_bytes = found
                        wanted = max(max_bytes, entry_bytes if min_one_entry else 0)
                        size = min(wanted, segment.size - position)
                        part = segment.slice(files, position, size)
                        return ReadResult(part, end, start, segment, files)
            return ReadResult(None, end, start)

    def read_bytes(self, offset: int, max_bytes: int, *, min_one_entry: bool = True) -> bytes:
        """Return what `read` finds as a copy; nothing has to be closed."""
        found = self.read(offset, max_bytes, min_one_entry=min_one_entry).slice
        if found is None:
            return b""
        try:
            with self._storage():
                return os.pread(found.fd, found.size, found.position)
        finally:
            found.close()

    @contextmanager
    def opened(self, segment: Segment) -> Iterator[SegmentFiles]:
        """Hold a segment's files open."""
        files = self.context.open_files.acquire(segment)
        try:
            yield files
        finally:
            files.release()

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Find the first message whose timestamp (ms) is at least the one given.

        Raises:
            UnsupportedForMessageFormat: the topic is pinned to magic 0.
            StorageError: the disk failed.
        """
        with self._lock, self._storage():
            self._require_online()
            return timesearch.offset_for_timestamp(self, timestamp)

    def segment_offsets_before(self, timestamp: int, max_count: int) -> list[int]:
        """Return starts of segments last written before a time, newest first (ListOffsets v0).

        Args:
            timestamp: ms, -1 for the latest, -2 for the earliest.
            max_count: how many at most.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock, self._storage():
            self._require_online()
            return timesearch.segment_offsets_before(self, timestamp, max_count)

    # The old end

    def delete_records_before(self, offset: int) -> int:
        """Let the log begin at an offset (-1: the high watermark), and make that stable.

        Returns:
            The log start offset.

        Raises:
            OffsetOutOfRange: the offset is past the high watermark.
            StorageError: the disk failed.
        """
        with self._lock:
            self._require_online()
            start = trimming.checked_start(self, offset)
        self._begin_at(start)
        self.notify()
        return self.log_start_offset

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete the segments that the retention policy lets go; returns how many.

        Raises:
            ConfigError: the policy cannot be had.
            StorageError: the disk failed.
        """
        with self._lock, self._storage():
            self._require_online()
            start = trimming.retained_start(self, now_ms)
        return self._begin_at(start)

    def _begin_at(self, offset: int) -> int:
        with self._lock, self._storage():
            moved = offset > self.log_start_offset
            if moved:
                self.log_start_offset = offset
                self._epochs.truncate_start(offset)
            if not moved and trimming.segments_below_start(self) == 0:
                return 0
        self.context.save_start_offsets(self.context)
        self._require_online()
        with self._lock, self._storage():
            count = trimming.drop_below_start(self)
            self._unsynced = [each for each in self._unsynced if each in self.segments]
        with self._storage():
            self.context.runtime.offload(self._fs.fsync_dir, self.directory)
        return count

    def replace_segments(self, end_offset: int, entries: Iterable[bytes]) -> None:
        """Replace every segment below `end_offset` by ones that hold `entries`, all or nothing.

        Messages that are kept keep their offsets; gaps may remain. For an owner that rewrites its
        own log, such as the offsets store: `roll`, then replace all but the active segment.

        Args:
            end_offset: base offset of the first segment that stays.
            entries: whole entries, ascending, with their offsets set.

        Raises:
            ValueError: `end_offset` is not where a segment begins, or offsets do not ascend.
            StorageError: the disk failed.
        """
        with self._lock, self._storage():
            self._require_online()
            replace.replace_segments(self, end_offset, entries)
            self._unsynced = [each for each in self._unsynced if each in self.segments]

    # Flush

    def flush(self) -> int:
        """Bring everything written so far to stable storage, off the event loop.

        Returns:
            The end offset that is on stable storage.

        Raises:
            StorageError: the disk failed; the data directory is offline now.
        """
        with self._lock:
            self._require_online()
            end = self.log_end_offset
            rolled, names_unsynced = list(self._unsynced), self._names_unsynced
            self._unflushed_since_ms, since = None, self._unflushed_since_ms
            with self._storage():
                held = [self.context.open_files.acquire(each) for each in rolled]
                held.append(self.context.open_files.acquire(self.segments[-1]))
        try:
            with self._storage():
                self.context.runtime.offload(self._sync, held, rolled, names_unsynced)
        except BaseException:
            self._unflushed_since_ms = since
            raise
        finally:
            for files in held:
                files.release()
        with self._lock:
            self._unsynced = [each for each in self._unsynced if each not in rolled]
            if names_unsynced:
                self._names_unsynced = bool(self._unsynced)
        self._commit.advance(end)
        return end

    def _sync(self, held: list[SegmentFiles], rolled: list[Segment], names_unsynced: bool) -> None:
        for segment in rolled:
            segment.sync_indexes()
        for files in held:
            self._fs.fsync(files.fd)
        if names_unsynced:
            self._fs.fsync_dir(self.directory)

    # End

    def close(self) -> None:
        """Flush, write the producers' state, trim the indexes and close the files.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock:
            if self.offline is None:
                with self._storage():
                    self.segments[-1].finish()
                    drop_snapshots(self._fs, self.directory, above=self.log_end_offset)
                    write_snapshot(self._fs, self.directory, self.log_end_offset, self.producers)
                self._unsynced.append(self.segments[-1])
                self._names_unsynced = True
        try:
            if self.offline is None:
                self.flush()
        finally:
            self._gone = "the log is closed"
            self.release_files()
            self.notify()

    def release_files(self) -> None:
        """Close every file that no reader holds."""
        for segment in self.segments:
            self.context.open_files.forget(segment)

    def mark_deleted(self) -> None:
        """Refuse every call from now on: the partition goes away."""
        self._gone = "the partition was deleted"
        self._commit.fail(self.context.error(self._gone))
        self.release_files()
        self.notify()

    def mark_offline(self) -> None:
        """Wake everybody who waits: the data directory failed."""
        self._commit.fail(self.context.error(self.context.offline or "offline"))
        self.notify()

    def _require_online(self) -> None:
        reason = self.offline
        if reason is not None:
            raise self.context.error(f"{self.topic_partition}: {reason}")

    @contextmanager
    def _storage(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self.context.fail(error) from error
