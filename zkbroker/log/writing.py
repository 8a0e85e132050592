"""Appending to a log: as the leader, as a follower, and the markers that end transactions.

Invariant: offsets grow in the order of the log; as leader they are dense. An append is one
synchronous write to the page cache with nothing between the assignment of offsets and the write; it
is visible to readers when it is whole.
"""

from collections.abc import Mapping

from zkbroker.errors import CorruptMessage, ErrorCode, ProtocolError
from zkbroker.log.appending import Data, append_policy, check_leader_set, lacks_key, markers_in
from zkbroker.log.base import BaseLog
from zkbroker.log.producers.stability import Verification
from zkbroker.log.producers.state import BatchMetadata
from zkbroker.log.results import AppendResult
from zkbroker.log.segments.segment import Segment
from zkbroker.records import (
    ABORT,
    COMMIT,
    LOG_APPEND_TIME,
    Codec,
    EntryInfo,
    Expanded,
    Marker,
    PreparedSet,
    RequestBudget,
    control_batch,
    expand_set,
    prepare_append,
)

_MAX_RELATIVE = 2**31 - 1
_ZSTD = int(Codec.ZSTD)


class WritableLog(BaseLog):
    """What is appended to a log."""

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
            leader_epoch: under which the partition is led; put into batches and remembered.
            now_ms: the broker's clock.
            budget: what the compressed entries of the request may still expand to.
            expanded: what `expand_set` would find, where that is known; None to have it called.
            verification: what `begin_verification` gave; the coordinator of the batch's transaction
                said since that messages may be written here.

        Raises:
            ProtocolError: the set is refused, and nothing was written: CorruptMessage (2),
                MessageSizeTooLarge (10), RECORD_LIST_TOO_LARGE (18), INVALID_TIMESTAMP (32),
                UnsupportedForMessageFormat (43), a sequence out of order (45), an epoch that was
                replaced (47), a transaction that may not begin or a batch that is of none (48), a
                leadership that is over (74).
            StorageError: the disk failed; the set must not be acknowledged.
        """
        now = self.directory.now_ms() if now_ms is None else now_ms
        offload = self._offload
        if expanded is None:
            expanded = expand_set(
                data, budget, max_message_bytes=self._policy.max_message_bytes, offload=offload
            )
        with self._lock:
            if self._gone is not None or self.directory.offline is not None:
                self._require_online()
            if leader_epoch != self._led_under:
                self._begin_epoch(leader_epoch)
            end, large = self.log_end_offset, expanded.large
            if large:
                prepared = offload(prepare_append, data, end, self._policy, now, expanded)
            else:
                prepared = prepare_append(data, end, self._policy, now, expanded)
            if prepared.count == 0:
                raise CorruptMessage("an empty message set")
            if self._keys_wanted and lacks_key(prepared.data, offload if large else None):
                # A genuine broker that takes the log over could not compact it.
                raise CorruptMessage("a compacted topic takes no message without a key")
            for entry in prepared.batches:
                if entry.producer_id >= 0:
                    stored = self.producers.check(entry, sequenced=not self._internal)
                    if stored is not None:
                        return self._repeated(stored)
                    if entry.is_transactional:
                        self._check_verified(entry, verification)
            size = len(prepared.data)
            if size > self.config.segment_bytes:
                raise self._too_large(size)
            result = self._write(prepared, size, now, None)
        for listener in self._listeners:
            listener()
        return result

    def begin_verification(self, producer_id: int, producer_epoch: int) -> Verification | None:
        """Begin to ask whether a producer's transaction may begin here; None if it did already.

        The append that follows shows what it got; it is refused if a marker came meanwhile.
        """
        with self._lock:
            if self.producers.in_transaction(producer_id, producer_epoch):
                return None
            return self._verifications.begin(producer_id)

    def _check_verified(self, entry: EntryInfo, verification: Verification | None) -> None:
        if self.producers.in_transaction(entry.producer_id, entry.producer_epoch):
            return
        if not self._verifications.holds(entry.producer_id, verification):
            raise ProtocolError(
                f"producer {entry.producer_id} has no ongoing transaction in "
                f"{self.topic_partition} that its coordinator knows",
                code=ErrorCode.INVALID_TXN_STATE,
            )

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

        Args:
            producer_id: whose transaction it is.
            producer_epoch: its epoch.
            commit: COMMIT, else ABORT.
            coordinator_epoch: of the transaction's coordinator.
            leader_epoch: under which the partition is led.
            now_ms: the broker's clock.

        Raises:
            ProtocolError: a producer (47) or coordinator (52) that was replaced, a topic whose
                format holds no markers (43), a leadership that is over (74).
            StorageError: the disk failed.
        """
        now = self.directory.now_ms() if now_ms is None else now_ms
        marker = control_batch(
            COMMIT if commit else ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now,
        )
        with self._lock:
            self._require_online()
            if leader_epoch != self._led_under:
                self._begin_epoch(leader_epoch)
            self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch)
            policy = append_policy(self.config, leader_epoch, control=True)
            prepared = prepare_append(marker, self.log_end_offset, policy, now)
            result = self._write(prepared, len(prepared.data), now, None)
        self._notify()
        return result

    def append_as_follower(self, data: Data) -> AppendResult:
        """Write what the partition's leader has, byte for byte, at the leader's offsets.

        Epochs, producers and transactions are taken from the batches. A last entry that is cut off
        is left out; without a whole entry nothing is written, and `size_bytes` is 0.

        Args:
            data: entries as the leader's log has them; offsets may be missing between them.

        Raises:
            CorruptMessage: an entry is damaged, or offsets go back; nothing was written.
            ProtocolError: the first offset is below the log end offset (-1); nothing was written.
            StorageError: the disk failed; a part may have been written, up to the log end offset.
        """
        now = self.directory.now_ms()
        with self._lock:
            self._require_online()
            first = self.log_end_offset
            found = check_leader_set(data, first, self.config.segment_bytes)
            markers = [markers_in(part) for part in found.parts]
            self._led_under = -1
            with self.directory.storage():
                for start in found.epochs:
                    if self.epochs.goes_on(start.epoch, start.offset):
                        continue
                    # Of messages without an epoch nothing can be said by epochs any more.
                    self._offload(
                        *(
                            (self.epochs.assign, start.epoch, start.offset)
                            if start.epoch >= 0
                            else (self.epochs.clear,)
                        )
                    )
            for part, of_part in zip(found.parts, markers, strict=True):
                self._write(part, len(part.data), now, of_part)
            result = AppendResult(
                found.parts[0].first_offset if found.parts else first,
                self.log_end_offset - 1,
                -1,
                self.log_start_offset,
                found.count,
                sum(len(part.data) for part in found.parts),
            )
        if found.parts:
            self._notify()
        return result

    def _begin_epoch(self, epoch: int) -> None:
        latest = self.epochs.latest
        if epoch < latest:
            raise ProtocolError(
                f"{self.topic_partition} was led under epoch {latest}, this is {epoch}",
                code=ErrorCode.FENCED_LEADER_EPOCH,
            )
        if epoch > latest:
            with self.directory.storage():
                self.directory.runtime.offload(self.epochs.assign, epoch, self.log_end_offset)
        self._policy = append_policy(self.config, epoch)
        self._led_under = epoch

    def begin_epoch(self, epoch: int) -> None:
        """Remember that the partition is led under an epoch from the log's end on.

        Raises:
            ProtocolError: the log knows a later one (74).
            StorageError: the disk failed.
        """
        with self._lock:
            self._require_online()
            if epoch != self._led_under:
                self._begin_epoch(epoch)

    def _too_large(self, size: int) -> ProtocolError:
        return ProtocolError(
            f"a set of {size} bytes does not fit a segment of {self.config.segment_bytes}",
            code=ErrorCode.RECORD_LIST_TOO_LARGE,
        )

    def _write(
        self,
        prepared: PreparedSet,
        size: int,
        now: int,
        markers: Mapping[int, Marker | None] | None,
    ) -> AppendResult:
        """Write a set that was judged: the one way into the log."""
        zstd = tracked = False
        for entry in prepared.batches:
            if entry.codec == _ZSTD:
                zstd = True
            if entry.producer_id >= 0:
                tracked = True
        try:
            segment = self._segment_for(prepared, size, now)
            segment.append(prepared, size, zstd=zstd)
            if tracked:
                self._track(segment, prepared, markers)
        except OSError as error:
            raise self.directory.fail(error) from error
        last = prepared.last_offset
        self.log_end_offset = last + 1
        self._durability.written(last + 1, now, self.config.flush_messages)
        return AppendResult(
            prepared.first_offset,
            last,
            now if self._policy.timestamp_type == LOG_APPEND_TIME else -1,
            self.log_start_offset,
            prepared.count,
            size,
        )

    def _track(
        self, segment: Segment, prepared: PreparedSet, markers: Mapping[int, Marker | None] | None
    ) -> None:
        if markers is None:
            markers = markers_in(prepared)
        for entry in prepared.batches:
            marker = markers[entry.base_offset] if entry.is_control else None
            if marker is not None and marker.kind == ABORT:
                segment.add_aborted(self.producers.aborted_by(entry))
            # The index is written before the last stable offset may rise: a reader that was not
            # told of the abort would take what was aborted for committed (KAFKA-7866).
            ended = self.producers.update(entry, marker)
            if entry.is_control:
                self._verifications.ended(entry.producer_id)
            if ended >= 0:
                self._ended.note(ended, entry.base_offset)

    def _repeated(self, stored: BatchMetadata) -> AppendResult:
        return AppendResult(
            stored.first_offset,
            stored.last_offset,
            # As genuine brokers do, whoever gave it: what is remembered of a batch is its latest.
            stored.timestamp,
            self.log_start_offset,
            stored.last_offset - stored.first_offset + 1,
            0,
            duplicate=True,
        )

    def _segment_for(self, prepared: PreparedSet, size: int, now: int) -> Segment:
        active = self._segments.active
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
