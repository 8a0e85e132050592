"""The log of one partition: a facade over its parts.

    `parts.py`      its state
    writer          appends
    reader          reads by offset and by time
    `trimming.py`   truncation and retention
    `replacing.py`  replacement of segments by compacted ones

Invariants: offsets never change, and grow in the order of the log. Each read states the end offset
that its reader may see. After a disk error every call raises `StorageError`.
"""

import os
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.log import trimming
from zkbroker.log.directory import DataDirectory
from zkbroker.log.names import TopicPartition
from zkbroker.log.parts import LogParts
from zkbroker.log.producers.stability import Verification
from zkbroker.log.producers.state import drop_snapshots, write_snapshot
from zkbroker.log.reader import LogReader
from zkbroker.log.results import AppendResult, LogState, ReadResult
from zkbroker.log.segments.time_search import TimestampOffset
from zkbroker.log.segments.transaction_index import AbortedTransaction
from zkbroker.log.validation import Data
from zkbroker.log.writer import LogWriter
from zkbroker.records import Expanded, RequestBudget


class Log(LogParts):
    """A partition's log; a `LogManager` makes it."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        path: Path,
        config: LogConfig,
        directory: DataDirectory,
        state: LogState,
    ) -> None:
        super().__init__(topic_partition, path, config, directory, state)
        self.writer = LogWriter(self)
        self.reader = LogReader(self)

    def update_config(self, config: LogConfig) -> None:
        """Use new settings from now on."""
        with self.lock:
            self.config = config
            self.segment_list.configure(config)
            self.writer.configure(config)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first open transaction begins, None if none is open."""
        return self.producers.first_unstable_offset(self.log_start_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the end offset for readers of committed messages, at most the high watermark."""
        tracking = self.tracking
        if not tracking.state.open and not tracking.ended.pending:
            return high_watermark
        return tracking.last_stable_offset(high_watermark, self.log_start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch not newer than `epoch`, and where it ends (-1, -1: unknown)."""
        with self.lock:
            return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # Appends

    def append_as_leader(
        self,
        data: Data,
        *,
        leader_epoch: int,
        now_ms: int | None = None,
        budget: RequestBudget | None = None,
        expanded: Expanded | None = None,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Validate a producer's message set, give it the next offsets and write it.

        Args:
            data: entries of any magic; patched in place when writable, else copied.
            leader_epoch: of the leader; it is put into batches and stored.
            now_ms: the broker's clock.
            budget: how far the compressed entries of the request may still expand.
            expanded: the result of `expand_set`; None to call it here.
            verification: what `begin_verification` returned before the transaction's coordinator
                confirmed that the batch may be written here.

        Raises:
            ProtocolError: the set is refused, and nothing was written: CorruptMessage (2),
                MessageSizeTooLarge (10), RECORD_LIST_TOO_LARGE (18), INVALID_TIMESTAMP (32),
                UnsupportedForMessageFormat (43), a sequence out of order (45), a replaced
                producer epoch (47), an unconfirmed transaction or a batch outside the open one
                (48), a leader epoch that is over (74).
            StorageError: the disk failed; the set must not be acknowledged.
        """
        return self.writer.append_as_leader(
            data, leader_epoch, now_ms, budget, expanded, verification
        )

    def begin_verification(self, producer_id: int, producer_epoch: int) -> Verification | None:
        """Begin to verify that a producer's transaction may begin; None if it has already begun.

        The following append passes the result; it is refused if a marker was written meanwhile.
        """
        with self.lock:
            return self.tracking.begin_verification(producer_id, producer_epoch)

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        leader_epoch: int,
        now_ms: int | None = None,
    ) -> AppendResult:
        """Append the marker that ends a producer's transaction, as its coordinator decided.

        Raises:
            ProtocolError: a replaced producer (47) or coordinator (52), a topic whose format cannot
                hold markers (43), a leader epoch that is over (74).
            StorageError: the disk failed.
        """
        return self.writer.end_transaction(
            producer_id, producer_epoch, commit, coordinator_epoch, leader_epoch, now_ms
        )

    def append_as_follower(self, data: Data) -> AppendResult:
        """Write entries of the partition's leader, byte for byte, at the leader's offsets.

        Epochs, producers and transactions are taken from the batches. An incomplete last entry is
        left out; without a whole entry nothing is written, and `size_bytes` is 0.

        Args:
            data: entries of the leader's log; there may be gaps between their offsets.

        Raises:
            CorruptMessage: an entry is damaged, or offsets go back; nothing was written.
            ProtocolError: the first offset is below the log end offset (-1); nothing was written.
            StorageError: the disk failed; a part may have been written, up to the log end offset.
        """
        return self.writer.append_as_follower(data)

    # Reads

    def read(
        self, offset: int, max_bytes: int, *, end: int, min_one_entry: bool = True
    ) -> ReadResult:
        """Return the stored bytes from the entry with an offset on, without copying them.

        Args:
            offset: from the log start offset to the log end offset.
            max_bytes: largest size of the slice; its last entry may be incomplete.
            end: where the visible part of the log ends: no entry is returned that ends at or after
                this offset. Aborted entries before it are in the slice, and
                `aborted_transactions` names them.
            min_one_entry: the first entry is whole even if it is larger than `max_bytes`; if
                False, it may be incomplete (Fetch v0 to v2).

        Raises:
            OffsetOutOfRange: with `earliest` and `latest`.
            CorruptMessage: the log is damaged there.
            StorageError: the disk failed.
        """
        return self.reader.read(offset, max_bytes, end, min_one_entry)

    def read_bytes(
        self, offset: int, max_bytes: int, *, end: int, min_one_entry: bool = True
    ) -> bytes:
        """Return the result of `read` as a copy; nothing has to be closed."""
        found = self.read(offset, max_bytes, end=end, min_one_entry=min_one_entry).slice
        if found is None:
            return b""
        try:
            with self.directory.storage():
                return os.pread(found.fd, found.size, found.position)
        finally:
            found.close()

    def aborted_transactions(self, offset: int, found: ReadResult) -> list[AbortedTransaction]:
        """Return the aborted transactions that may overlap the result of a read from an offset on.

        To be called before the slice is closed.
        """
        return self.reader.aborted_transactions(offset, found)

    def offset_for_timestamp(self, timestamp: int, end: int) -> TimestampOffset | None:
        """Find the first message before `end` whose timestamp (ms) is at least the one given.

        Raises:
            UnsupportedForMessageFormat: the topic is pinned to magic 0.
            StorageError: the disk failed.
        """
        return self.reader.offset_for_timestamp(timestamp, end)

    def segment_offsets_before(self, timestamp: int, max_count: int, end: int) -> list[int]:
        """Return starts of segments last written up to a time, newest first (ListOffsets v0).

        Args:
            timestamp: ms, -1 for the latest, -2 for the earliest.
            max_count: the largest number to return.
            end: where the visible part of the log ends.

        Raises:
            StorageError: the disk failed.
        """
        return self.reader.segment_offsets_before(timestamp, max_count, end)

    # Both ends

    def advance_start_to(self, offset: int) -> int:
        """Move the log's start to an offset, durably; the start never goes back.

        The caller ensures that the offset is at or below the high watermark.

        Returns:
            The log start offset.

        Raises:
            OffsetOutOfRange: the offset is past the log's end; nothing changed.
            StorageError: the disk failed.
        """
        trimming.advance_start(self, offset)
        return self.log_start_offset

    def truncate_to(self, offset: int) -> int:
        """Cut off every entry that ends at or after an offset, and make that stable.

        Returns:
            The log end offset: `offset`, or the old end if that is smaller, or the start of an
            entry that holds the offset in its middle.

        Raises:
            CorruptMessage: the log is damaged there.
            StorageError: the disk failed.
        """
        trimming.truncate(self, offset)
        return self.log_end_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop every message and continue at an offset, for a follower whose leader begins later.

        Raises:
            StorageError: the disk failed.
        """
        trimming.restart(self, offset)

    # Flushes and the end

    def wait_durable(self, last_offset: int, timeout_s: float | None = None) -> None:
        """Wait until the flush policy is met for an append that ended at `last_offset`.

        With `flush.messages` M, fewer than M messages up to it may still be missing on disk when
        this returns; with M = 1 it is on disk. One fsync serves all waiters.

        Raises:
            StorageError: the disk failed; the append must not be acknowledged.
            RequestTimedOut: it was not within `timeout_s`.
        """
        self.durability.wait(last_offset + 2 - self.config.flush_messages, timeout_s)
        self.require_online()

    def flush(self) -> int:
        """Flush everything written so far to stable storage, off the event loop.

        Returns:
            The end offset that is on stable storage.

        Raises:
            StorageError: the disk failed; the data directory is offline now.
        """
        return self.durability.flush()

    def close(self) -> None:
        """Flush, write the producers' state, trim the indexes and close the files.

        Raises:
            StorageError: the disk failed.
        """
        fs = self.directory.fs
        try:
            with self.files_lock, self.lock:
                if self.offline is not None:
                    return
                # Nothing may be appended after the last flush.
                self.gone = "the log is closed"
                with self.directory.storage():
                    self.segment_list.active.finish()
                    drop_snapshots(fs, self.path, above=self.log_end_offset)
                    write_snapshot(fs, self.path, self.log_end_offset, self.producers)
                self.durability.finished()
            self.durability.flush()
        finally:
            self.gone = self.gone or "the log is closed"
            self.segment_list.release_files()

    def delete(self, doomed: Path) -> None:
        """Rename the log's directory, and refuse every call from now on.

        Code that replaces or removes files is waited for: it would not find them any more, or find
        those of a later log.

        Raises:
            OSError: it could not be renamed.
        """
        with self.files_lock, self.lock:
            self.gone = "the partition was deleted"
            self.durability.fail(self.gone)
            self.segment_list.release_files()
            self.directory.fs.rename(self.path, doomed)
