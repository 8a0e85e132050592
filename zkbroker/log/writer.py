"""Appends to a log: as the leader, as a follower, and markers that end transactions.

Invariant: offsets grow in the order of the log; a leader's appends are dense. An append is one
synchronous write to the page cache, and no other task runs between the assignment of its offsets
and the write. Readers see it once it is whole.
"""

import logging
import random
from collections.abc import Mapping
from functools import partial

from zkbroker.codecs import FETCH_SINCE
from zkbroker.config.log import NEVER, LogConfig
from zkbroker.errors import CorruptMessage, ErrorCode, ProtocolError
from zkbroker.log import names
from zkbroker.log.parts import NO_EPOCH, LogParts
from zkbroker.log.producers.stability import Verification
from zkbroker.log.results import AppendResult
from zkbroker.log.segments.segment import MAX_RELATIVE_OFFSET
from zkbroker.log.validation import Data, append_policy, check_leader_set, lacks_key, markers_in
from zkbroker.records import (
    ABORT,
    COMMIT,
    LOG_APPEND_TIME,
    Expanded,
    Marker,
    PreparedSet,
    RequestBudget,
    control_batch,
    expand_set,
    kernels,
    prepare_append,
)
from zkbroker.records.policy import EVER, allowed_timestamps

logger = logging.getLogger(__name__)

_NO_MARKERS: Mapping[int, Marker | None] = {}


class LogWriter:
    """Appends to one log; besides this, only truncations change the log's end."""

    def __init__(self, log: LogParts) -> None:
        self._log = log
        self._offload = log.directory.runtime.offload
        self.configure(log.config)

    def configure(self, config: LogConfig) -> None:
        """Use new settings from now on."""
        jitter = min(config.roll_jitter_ms, config.roll_ms - 1)
        self._roll_ms = config.roll_ms - random.randint(0, jitter)  # noqa: S311 - no secret
        self._segment_bytes = config.segment_bytes
        self._flush_messages = config.flush_messages
        self._policy = append_policy(config)
        self._keys_wanted = config.compacted and not self._log.internal
        stored_at_once = not self._keys_wanted and config.flush_messages == NEVER
        self._plain_magics = self._policy.plain_magics if stored_at_once else 0

    def append_as_leader(
        self,
        data: Data,
        leader_epoch: int,
        now_ms: int | None,
        budget: RequestBudget | None,
        expanded: Expanded | None,
        verification: Verification | None,
    ) -> AppendResult:
        """See `Log.append_as_leader`."""
        log, directory = self._log, self._log.directory
        now = directory.now_ms() if now_ms is None else now_ms
        if expanded is None:
            limit = self._policy.max_message_bytes
            expanded = expand_set(data, budget, max_message_bytes=limit, offload=self._offload)
        large = expanded.large
        with log.lock:
            if leader_epoch != log.led_under or log.gone or directory.offline:
                self.begin_epoch(leader_epoch)
            end = log.log_end_offset
            if large:
                prepared = self._offload(
                    prepare_append, data, end, self._policy, now, expanded, leader_epoch
                )
            else:
                prepared = prepare_append(data, end, self._policy, now, expanded, leader_epoch)
            if prepared.count == 0:
                raise CorruptMessage("an empty message set")
            if self._keys_wanted and lacks_key(prepared.data, self._offload if large else None):
                # A genuine broker that takes over the log could not compact it.
                raise CorruptMessage("a compacted topic accepts no message without a key")
            for entry in prepared.batches:
                if entry.producer_id >= 0:
                    stored = log.tracking.check(entry, verification)
                    if stored is not None:
                        return AppendResult.of_repeated(stored, log.log_start_offset)
            size = len(prepared.data)
            if size > self._segment_bytes:
                raise ProtocolError(
                    f"a set of {size} bytes does not fit a segment of {self._segment_bytes} bytes",
                    code=ErrorCode.RECORD_LIST_TOO_LARGE,
                )
            return self._write(prepared, now)

    def append_plain(self, data: memoryview, magics: int, leader_epoch: int) -> AppendResult | None:
        """Append a set by the short way, which takes no lock and reads the set once.

        It is for a set that `place_plain` accepts when nothing else has to be done: the log is free
        and led under this epoch, the segment has room, no timestamp requires a new segment, and
        there is no flush to wait for. The result is that of `append_as_leader`.

        Args:
            data: the set, writable.
            magics: the magics that the request may hold, bit 0 for magic 0 and so on.
            leader_epoch: under which the partition is led.

        Returns:
            The result; None, with nothing changed, if `append_as_leader` must do it.

        Raises:
            ProtocolError: of an idempotent producer: sequence (45), epoch (47), transaction (48).
            StorageError: the disk failed.
        """
        log = self._log
        directory, segment, end = log.directory, log.segment_list.active, log.log_end_offset
        size, magics = len(data), magics & self._plain_magics
        if (
            not magics
            or data.readonly
            # While no greenlet holds the lock, the log does not change until this one waits, which
            # it does not; see `zkbroker.runtime.Lock`.
            or getattr(log.lock, "depth", True)
            or leader_epoch != log.led_under
            or log.gone
            or directory.offline
            or segment.index_full
            or segment.size + size > self._segment_bytes
            # There are fewer messages than bytes.
            or end + size - segment.base_offset > MAX_RELATIVE_OFFSET
        ):
            return None
        now, policy = directory.now_ms(), self._policy
        earliest, latest = EVER if policy.any_timestamp else allowed_timestamps(policy, now)
        if segment.size:
            if now - segment.created_ms > self._roll_ms:
                return None
            if segment.first_timestamp >= 0:
                latest = min(latest, segment.first_timestamp + self._roll_ms)
        placed = kernels.place_plain(
            data, end, policy.max_message_bytes, earliest, latest, leader_epoch, magics
        )
        if placed is None:
            return None
        count, newest, newest_at, magic, producer = placed
        batches = []
        if producer is not None:
            stored = log.tracking.check(producer, None)
            if stored is not None:
                return AppendResult.of_repeated(stored, log.log_start_offset)
            batches.append(producer)
        last = end + count - 1
        prepared = PreparedSet(data, end, last, count, newest, end + newest_at, batches, magic)
        try:
            segment.append(prepared, size, fetch_since=0)
            if batches:
                log.tracking.record(segment, prepared, _NO_MARKERS)
        except OSError as error:
            raise directory.fail(error) from error
        log.log_end_offset = last + 1
        log.durability.written(last + 1, now, self._flush_messages)
        return AppendResult(end, last, -1, log.log_start_offset, count, size)

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        leader_epoch: int,
        now_ms: int | None,
    ) -> AppendResult:
        """See `Log.end_transaction`."""
        log = self._log
        now = log.directory.now_ms() if now_ms is None else now_ms
        marker = control_batch(
            COMMIT if commit else ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now,
        )
        with log.lock:
            self.begin_epoch(leader_epoch)
            log.producers.check_marker(producer_id, producer_epoch, coordinator_epoch)
            policy, end = append_policy(log.config, control=True), log.log_end_offset
            prepared = prepare_append(marker, end, policy, now, leader_epoch=leader_epoch)
            return self._write(prepared, now)

    def append_as_follower(self, data: Data) -> AppendResult:
        """See `Log.append_as_follower`."""
        log, directory = self._log, self._log.directory
        now = directory.now_ms()
        with log.lock:
            log.require_online()
            first = log.log_end_offset
            found = check_leader_set(data, first, self._segment_bytes)
            markers = [markers_in(part) for part in found.parts]
            log.led_under = NO_EPOCH
            with directory.storage():
                for epoch, offset in found.epochs:
                    if log.epochs.goes_on(epoch, offset):
                        continue
                    if epoch >= 0:
                        self._assign_epoch(epoch, offset)
                    else:
                        # The messages carry no epoch: the known epochs would not hold for them.
                        self._offload(log.epochs.clear)
            for part, of_part in zip(found.parts, markers, strict=True):
                self._write(part, now, of_part)
            return AppendResult(
                found.parts[0].first_offset if found.parts else first,
                log.log_end_offset - 1,
                -1,
                log.log_start_offset,
                found.count,
                sum(len(part.data) for part in found.parts),
            )

    def begin_epoch(self, epoch: int, *, may_fall: bool = False) -> None:
        """Record that the partition is led under an epoch from the log's end on.

        Args:
            epoch: decided by the controller.
            may_fall: whether to accept it when the log has later epochs, which are then dropped.

        Raises:
            ProtocolError: the log has a later epoch (74).
            StorageError: the disk failed, here or for another log meanwhile.
        """
        log = self._log
        with log.lock:
            if log.gone or log.directory.offline:
                log.require_online()
            if epoch == log.led_under:
                return
            latest = log.epochs.latest
            if epoch < latest:
                if not may_fall:
                    raise ProtocolError(
                        f"{log.topic_partition} was led under epoch {latest}, later than {epoch}",
                        code=ErrorCode.FENCED_LEADER_EPOCH,
                    )
                logger.warning(
                    "later leader epochs dropped partition=%s latest=%d decided=%d",
                    log.topic_partition,
                    latest,
                    epoch,
                )
            if epoch != latest:
                try:
                    self._assign_epoch(epoch, log.log_end_offset)
                except OSError as error:
                    raise log.directory.fail(error) from error
                # The disk may have failed for another log meanwhile.
                if log.gone or log.directory.offline:
                    log.require_online()
            log.led_under = epoch

    def _assign_epoch(self, epoch: int, offset: int) -> None:
        self._offload(partial(self._log.epochs.assign, epoch, offset, durable=False))
        # Saves one fsync for each change of the leader: the next flush of messages includes the
        # file's new name.
        self._log.durability.names_changed()

    def _write(
        self, prepared: PreparedSet, now: int, markers: Mapping[int, Marker | None] | None = None
    ) -> AppendResult:
        """Write a validated set; every append ends here."""
        log = self._log
        if log.gone or log.directory.offline:
            # The disk may have failed for another log during an off-load.
            log.require_online()
        fetch_since, tracked = 0, False
        for entry in prepared.batches:
            since = FETCH_SINCE[entry.codec]
            if since > fetch_since:
                fetch_since = since
            tracked = tracked or entry.producer_id >= 0
        size = len(prepared.data)
        segment = log.segment_list.active
        try:
            if segment.must_roll(prepared, size, now, self._segment_bytes, self._roll_ms):
                segment = log.roll(now_ms=now)
            if markers is None:
                markers = markers_in(prepared) if tracked else _NO_MARKERS
            if markers and any(each and each.kind == ABORT for each in markers.values()):
                # Without a free descriptor nothing may be written: a marker alone would stay in the
                # file, at the offset of the next append.
                indexes = log.directory.open_files.transaction_indexes
                indexes.open(segment.path(names.TXNINDEX))
            segment.append(prepared, size, fetch_since=fetch_since)
            if tracked:
                log.tracking.record(segment, prepared, markers)
        except OSError as error:
            raise log.directory.fail(error) from error
        last = prepared.last_offset
        log.log_end_offset = last + 1
        log.durability.written(last + 1, now, self._flush_messages)
        return AppendResult(
            prepared.first_offset,
            last,
            now if self._policy.timestamp_type == LOG_APPEND_TIME else -1,
            log.log_start_offset,
            prepared.count,
            size,
        )
