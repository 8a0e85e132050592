"""The log of one partition: append at the end, read from any offset.

Invariant: offsets are dense and never change. An append is one synchronous write to the page cache
with nothing between the assignment of offsets and the write; it is visible to readers when it is
whole. The list of segments is replaced, never changed, so a reader works on the list it took. The
high watermark is the log end offset while there is one replica. After an error of the disk nothing
is acknowledged any more: the data directory goes offline, and every call raises `StorageError`.
"""

import dataclasses
import itertools
import logging
import random
from collections.abc import Iterable
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.errors import CorruptMessage, ErrorCode, ProtocolError
from zkbroker.log import replace, trimming
from zkbroker.log.context import LogContext
from zkbroker.log.durability import Durability
from zkbroker.log.names import TopicPartition
from zkbroker.log.producer_state import Batch, drop_snapshots, write_snapshot
from zkbroker.log.reads import ReadableLog
from zkbroker.log.results import AppendResult, LogState
from zkbroker.log.segment import Segment
from zkbroker.log.transactions import AbortedTransaction, OpenTransaction, abort_marker
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS
from zkbroker.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    AppendPolicy,
    Codec,
    PreparedSet,
    decode_lists,
    prepare_append,
)

logger = logging.getLogger(__name__)

_MAX_RELATIVE = 2**31 - 1
_CLOSING = "the log is being closed"


def append_policy(config: LogConfig, leader_epoch: int) -> AppendPolicy:
    """Return what a topic's settings mean for the messages it takes."""
    codec = None
    if config.compression_type != "producer":
        codec = Codec.from_name(config.compression_type)
    timed_here = config.timestamp_type == "LogAppendTime"
    return AppendPolicy(
        max_message_bytes=config.max_message_bytes,
        timestamp_type=LOG_APPEND_TIME if timed_here else CREATE_TIME,
        max_timestamp_difference_ms=config.timestamp_difference_max_ms,
        message_format=config.pinned_magic,
        codec=codec,
        partition_leader_epoch=leader_epoch,
    )


class Log(ReadableLog):
    """A partition's log; made by a `LogManager`."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: Path,
        config: LogConfig,
        context: LogContext,
        state: LogState,
    ) -> None:
        super().__init__(topic_partition, directory, context, state)
        self._fs = context.fs
        self.producers = state.producers
        self._epochs = state.epochs
        self._created_ms = context.now_ms()
        self._durability = Durability(
            context,
            directory,
            self._lock,
            self._active,
            durable=state.recovery_point,
            unsynced=[
                segment
                for segment, following in itertools.pairwise(self.segments)
                if following.base_offset > state.recovery_point
            ],
            name=str(topic_partition),
        )
        self._configure(config)
        with context.storage():
            self.segments[-1].open_for_append(context.open_files.lock, config.index_max_bytes)
        if self.last_stable_offset < self.log_end_offset:
            logger.warning(
                "transactions open partition=%s count=%d last_stable_offset=%d log_end_offset=%d: "
                "nobody here ends them, and readers of committed messages stop there until "
                "`zkbroker log abort-transactions` does",
                topic_partition,
                len(self.open_transactions),
                self.last_stable_offset,
                self.log_end_offset,
            )

    # Settings

    def _configure(self, config: LogConfig) -> None:
        self.config = config
        jitter = min(config.roll_jitter_ms, config.roll_ms - 1)
        self._roll_jitter_ms = random.randint(0, jitter)  # noqa: S311 - no secret
        self._policy = append_policy(config, max(self._epochs.latest, 0))
        self._keys_wanted = config.compacted and self.topic_partition.topic not in INTERNAL_TOPICS

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
        with self._lock, self.context.storage():
            offload = self.context.runtime.offload
            if offload(self._epochs.assign, epoch, self.log_end_offset):
                self._configure(self.config)

    @property
    def recovery_point(self) -> int:
        """Offset below which log and indexes are on stable storage."""
        return self._durability.recovery_point

    @property
    def unflushed_since_ms(self) -> int | None:
        """When the oldest message that is not yet on stable storage was written."""
        return self._durability.unflushed_since_ms

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
                replaced (47), part of a transaction (48).
            StorageError: the disk failed; the set must not be acknowledged.
        """
        now = self.context.now_ms() if now_ms is None else now_ms
        with self._lock:
            if self._gone is not None or self.context.offline is not None:
                self.require_online()
            prepared = prepare_append(data, self.log_end_offset, self._policy, now)
            if prepared.count == 0:
                raise CorruptMessage("an empty message set")
            if self._keys_wanted and None in decode_lists(prepared.data).keys:
                # A genuine broker that takes the log over could not compact it.
                raise CorruptMessage("a compacted topic takes no message without a key")
            zstd = False
            produced = []
            for entry in prepared.batches:
                if entry.is_transactional:
                    raise ProtocolError(
                        "transactions are not served", code=ErrorCode.INVALID_TXN_STATE
                    )
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
            self._durability.written(end, now, self.config.flush_messages)
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

    def abort_transactions(self) -> list[OpenTransaction]:
        """Append an ABORT marker for every open transaction, as its coordinator would.

        Returns:
            The transactions that were open.

        Raises:
            StorageError: the disk failed.
        """
        ended = list(self.open_transactions)
        with self._lock:
            self.require_online()
            for each in ended:
                self._append_abort(each)
            self.open_transactions = ()
        self.notify()
        return ended

    def _append_abort(self, transaction: OpenTransaction) -> None:
        now = self.context.now_ms()
        policy = dataclasses.replace(
            append_policy(self.config, max(self._epochs.latest, 0)), allow_control=True
        )
        prepared = prepare_append(abort_marker(transaction, now), self.log_end_offset, policy, now)
        (marker,) = prepared.batches
        others = [
            each.first_offset
            for each in self.producers.open_transactions()
            if each.producer_id != transaction.producer_id
        ]
        size = len(prepared.data)
        with self.context.storage():
            segment = self._segment_for(prepared, size, now)
            segment.append(prepared, size, zstd=False)
            segment.add_aborted(
                AbortedTransaction(
                    transaction.producer_id,
                    transaction.first_offset,
                    marker.last_offset,
                    min(others, default=marker.last_offset + 1),
                )
            )
        self.producers.update(marker)
        self.log_end_offset = prepared.last_offset + 1
        self._durability.written(self.log_end_offset, now, self.config.flush_messages)

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
        self._durability.wait(target, timeout_s)
        self.require_online()

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
            self.require_online()
            active = self.segments[-1]
            if active.size == 0:
                return active
            with self.context.storage():
                segment = self.new_segment(self.log_end_offset)
                self._durability.names_changed()
                open_files = self.context.open_files
                try:
                    segment.open_for_append(open_files.lock, self.config.index_max_bytes)
                    write_snapshot(self._fs, self.directory, self.log_end_offset, self.producers)
                    active.finish()
                except OSError:
                    # What is appended next goes to the active segment: a file of this name would
                    # say that it ends before.
                    open_files.forget(segment)
                    segment.unlink()
                    raise
                self._durability.rolled(active)
            open_files.add(active)
            self.set_segments([*self.segments, segment])
            self._created_ms = self.context.now_ms() if now_ms is None else now_ms
            end = self.log_end_offset
        logger.debug("log rolled partition=%s base_offset=%d", self.topic_partition, end)
        self._durability.request(end)
        return segment

    def new_segment(self, base_offset: int) -> Segment:
        """Make a segment of this log that is not part of it yet."""
        return Segment(
            self._fs,
            self.directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
        )

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
            self.require_online()
            start = trimming.checked_start(self, offset)
        self._begin_at(start)
        self.notify()
        return self.log_start_offset

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete the segments that the retention policy lets go; returns how many.

        Raises:
            ConfigError: the policy cannot be had, or failed.
            StorageError: the disk failed.
        """
        with self._lock, self.context.storage():
            self.require_online()
            start = trimming.retained_start(self, now_ms)
        return self._begin_at(start)

    def _begin_at(self, offset: int) -> int:
        with self._lock, self.context.storage():
            moved = offset > self.log_start_offset
            if moved:
                self.log_start_offset = offset
                self.context.runtime.offload(self._epochs.truncate_start, offset)
            if not moved and trimming.segments_below_start(self) == 0:
                return 0
        self.context.save_start_offsets(self.context)
        self.require_online()
        with self._lock, self.context.storage():
            count = trimming.drop_below_start(self)
            self._durability.keep(self.segments)
        with self.context.storage():
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
        with self._lock, self.context.storage():
            self.require_online()
            replace.replace_segments(self, end_offset, entries)
            self._durability.keep(self.segments)

    # Flush

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

    def _active(self) -> tuple[int, Segment]:
        # A log that is being closed is flushed for the last time.
        if self._gone != _CLOSING:
            self.require_online()
        return self.log_end_offset, self.segments[-1]

    # End

    def close(self) -> None:
        """Flush, write the producers' state, trim the indexes and close the files.

        Raises:
            StorageError: the disk failed.
        """
        try:
            with self._lock:
                if self.offline is not None:
                    return
                # Nothing may be appended behind what the last flush covers.
                self._gone = _CLOSING
                with self.context.storage():
                    self.segments[-1].finish()
                    drop_snapshots(self._fs, self.directory, above=self.log_end_offset)
                    write_snapshot(self._fs, self.directory, self.log_end_offset, self.producers)
                self._durability.rolled(self.segments[-1])
                self._durability.names_changed()
            self._durability.flush()
        finally:
            self._gone = self._gone if self._gone not in (None, _CLOSING) else "the log is closed"
            self.release_files()
            self.notify()

    def release_files(self) -> None:
        """Close every file that no reader holds."""
        for segment in self.segments:
            self.context.open_files.forget(segment)

    def mark_deleted(self) -> None:
        """Refuse every call from now on: the partition goes away."""
        self._gone = "the partition was deleted"
        self._durability.fail(self._gone)
        self.release_files()
        self.notify()

    def mark_offline(self) -> None:
        """Wake everybody who waits: the data directory failed."""
        self._durability.fail(self.context.offline or "offline")
        self.notify()
