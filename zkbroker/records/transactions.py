"""Transactions as a reader of committed records meets them.

    control batch   one record  key { version:int16 = 0  type:int16 (0 abort, 1 commit) }
                                value { version:int16 = 0  coordinator_epoch:int32 }

An aborted transaction spans from its first batch to its ABORT marker, the control batch of the same
producer.

Invariant: batches of other producers, and those of no transaction, are never left out.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from zkbroker.records.batch import build_batch
from zkbroker.records.entries import Data
from zkbroker.records.heads import iter_entries
from zkbroker.records.portable.walk import decode_entry

ABORT: Final = 0
COMMIT: Final = 1

_KEY = Struct(">hh")
_VALUE = Struct(">hi")


def control_type(batch: Data) -> int | None:
    """Return what a control batch says, `ABORT` or `COMMIT`; None for another kind.

    Raises:
        CorruptMessage: it cannot be read.
    """
    for entry in iter_entries(batch):
        for record in decode_entry(batch, entry):
            if record.key is not None and len(record.key) >= _KEY.size:
                return int(_KEY.unpack_from(record.key)[1])
    return None


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
        producer_id: whose transaction it is.
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


def committed_only(data: Data, aborted: Iterable[tuple[int, int]]) -> Data:
    """Leave the batches of aborted transactions out of a fetched message set.

    Args:
        data: entries of any magic, the last one perhaps cut off.
        aborted: (producer id, first offset) of each, as the answer to the fetch names them.

    Returns:
        The entries that are left, markers among them; without anything aborted `data` itself.

    Raises:
        CorruptMessage: bytes that cannot be an entry.
    """
    waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
    if not waiting:
        return data
    view = memoryview(data)
    active: set[int] = set()
    kept: list[memoryview] = []
    for entry in iter_entries(view):
        while waiting and waiting[-1][1] <= entry.last_offset:
            active.add(waiting.pop()[0])
        part = view[entry.position : entry.position + entry.size]
        if entry.is_transactional and entry.producer_id in active:
            if not entry.is_control:
                continue
            if control_type(part) == ABORT:
                active.discard(entry.producer_id)
        kept.append(part)
    return b"".join(kept)
