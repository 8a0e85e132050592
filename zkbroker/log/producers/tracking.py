"""The producers and transactions of one log while it is written.

    last stable offset = min(high watermark, first offset of each transaction that is open, or
                             whose marker is not below the high watermark)

Invariant: an abort is in the transaction index of its segment before the last stable offset rises.
Otherwise readers would take aborted data for committed data (KAFKA-7866).
"""

from collections.abc import Mapping
from weakref import WeakValueDictionary

from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.log.names import TopicPartition
from zkbroker.log.producers.stability import EndedTransactions, Verification
from zkbroker.log.producers.state import BatchMetadata, ProducerState
from zkbroker.log.segments.segment import Segment
from zkbroker.records import ABORT, EntryInfo, Marker, PreparedSet


class ProducerTracking:
    """Checks and records batches of idempotent producers.

    Args:
        topic_partition: of the log.
        state: the producers at the log's end.
        sequenced: whether to check sequences; coordinators write each batch with sequence 0.
    """

    def __init__(
        self, topic_partition: TopicPartition, state: ProducerState, *, sequenced: bool
    ) -> None:
        self.state = state
        self._topic_partition = topic_partition
        self._sequenced = sequenced
        self.ended = EndedTransactions()
        """Transactions with a marker that may still be above the high watermark."""
        # By producer, until its next marker; each lives as long as its request.
        self._verifications: WeakValueDictionary[int, Verification] = WeakValueDictionary()

    def check(self, entry: EntryInfo, verification: Verification | None) -> BatchMetadata | None:
        """Check a batch of a producer before it is written.

        Returns:
            The stored batch that it repeats, None if it is new.

        Raises:
            ProtocolError: see `ProducerState.check`; or the batch would begin a transaction that
                its coordinator has not confirmed (48).
        """
        stored = self.state.check(entry, sequenced=self._sequenced)
        if stored is not None or not entry.is_transactional:
            return stored
        if self.state.in_transaction(entry.producer_id, entry.producer_epoch):
            return None
        if verification is None or self._verifications.get(entry.producer_id) is not verification:
            raise ProtocolError(
                f"producer {entry.producer_id} has no ongoing transaction in "
                f"{self._topic_partition} that its coordinator knows",
                code=ErrorCode.INVALID_TXN_STATE,
            )
        return None

    def begin_verification(self, producer_id: int, producer_epoch: int) -> Verification | None:
        """Return the verification for an append; None if the transaction has already begun."""
        if self.state.in_transaction(producer_id, producer_epoch):
            return None
        return self._verifications.setdefault(producer_id, Verification())

    def record(
        self, segment: Segment, prepared: PreparedSet, markers: Mapping[int, Marker | None]
    ) -> None:
        """Record the batches of a set that was written to a segment, with its markers by offset.

        Raises:
            OSError: the transaction index cannot be written.
        """
        for entry in prepared.batches:
            marker = markers[entry.base_offset] if entry.is_control else None
            if marker is not None and marker.kind == ABORT:
                segment.add_aborted(self.state.aborted_by(entry))
            begun_at = self.state.update(entry, marker)
            if entry.is_control:
                self._verifications.pop(entry.producer_id, None)
            if begun_at >= 0:
                self.ended.note(begun_at, entry.base_offset)

    def last_stable_offset(self, high_watermark: int, log_start_offset: int) -> int:
        """Return the end offset for readers of committed messages, at most the high watermark."""
        stable = high_watermark
        for first in (
            self.state.first_unstable_offset(log_start_offset),
            self.ended.first_unstable_offset(high_watermark),
        ):
            if first is not None and first < stable:
                stable = max(first, log_start_offset)
        return stable

    def truncate_to(self, offset: int, state: ProducerState) -> None:
        """Forget everything recorded from an offset on, where the producers were in this state."""
        self.state = state
        self.ended.truncate_to(offset)
