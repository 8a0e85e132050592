"""Transactions for readers of committed records.

    control batch   one record  key { version:int16 = 0  type:int16 (0 abort, 1 commit) }
                                value { version:int16 = 0  coordinator_epoch:int32 }

An aborted transaction spans from its first batch to its ABORT marker, the control batch of the same
producer.

Invariant: batches of other producers, and those outside transactions, are never left out.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from zkbroker.records.batch import build_batch
from zkbroker.records.entries import Data
from zkbroker.records.heads import iter_entries
from zkbroker.records.portable.walk import decode_entry
from zkbroker.records.record import EntryInfo

ABORT: Final = 0
COMMIT: Final = 1

_KEY = Struct(">hh")
_VALUE = Struct(">hi")


class Marker(NamedTuple):
    """The content of a control batch.

    Args:
        kind: `ABORT`, `COMMIT`, or a kind of a later version.
        coordinator_epoch: of the coordinator that decided it, -1 if the batch does not say.
    """

    kind: int
    coordinator_epoch: int


def read_marker(batch: Data) -> Marker | None:
    """Return the marker in a control batch; None for one without a readable key.

    Raises:
        CorruptMessage: it cannot be read.
    """
    for entry in iter_entries(batch):
        for record in decode_entry(batch, entry):
            if record.key is not None and len(record.key) >= _KEY.size:
                value = record.value or b""
                epoch = _VALUE.unpack_from(value)[1] if len(value) >= _VALUE.size else -1
                return Marker(int(_KEY.unpack_from(record.key)[1]), int(epoch))
    return None


def control_type(batch: Data) -> int | None:
    """Return the kind of a control batch, such as `ABORT`; None if it has no readable key.

    Raises:
        CorruptMessage: it cannot be read.
    """
    marker = read_marker(batch)
    return None if marker is None else marker.kind


def control_batch(
    kind: int,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
) -> bytes:
    """Build the marker that ends a transaction.

    Args:
        kind: `ABORT` or `COMMIT`.
        producer_id: of the transaction.
        producer_epoch: its epoch.
        timestamp_ms: of the marker.
        coordinator_epoch: of the transaction's coordinator.
        base_offset: the marker's offset.
    """
    return build_batch(
        [(_KEY.pack(0, kind), _VALUE.pack(0, coordinator_epoch), timestamp_ms, ())],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


class AbortedBatches:
    """Finds batches of aborted transactions; called in the order of the log.

    Args:
        aborted: (producer id, first offset) of each, from the answer to a fetch.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._active: set[int] = set()

    def has(self, entry: EntryInfo, data: Data) -> bool:
        """Return whether an entry is a batch of an aborted transaction.

        Args:
            entry: of any magic; markers are never left out.
            data: its bytes.

        Raises:
            CorruptMessage: a marker cannot be read.
        """
        while self._waiting and self._waiting[-1][1] <= entry.last_offset:
            self._active.add(self._waiting.pop()[0])
        if not entry.is_transactional or entry.producer_id not in self._active:
            return False
        if not entry.is_control:
            return True
        if control_type(data) == ABORT:
            self._active.discard(entry.producer_id)
        return False


def committed_only(data: Data, aborted: Sequence[tuple[int, int]]) -> Data:
    """Remove the batches of aborted transactions from a fetched message set.

    Args:
        data: entries of any magic; the last one may be incomplete.
        aborted: (producer id, first offset) of each, from the answer to the fetch.

    Returns:
        The remaining entries, including markers; `data` itself if nothing was aborted.

    Raises:
        CorruptMessage: bytes that cannot be an entry.
    """
    if not aborted:
        return data
    view = memoryview(data)
    batches = AbortedBatches(aborted)
    kept: list[memoryview] = []
    for entry in iter_entries(view):
        part = view[entry.position : entry.position + entry.size]
        if not batches.has(entry, part):
            kept.append(part)
    return b"".join(kept)
