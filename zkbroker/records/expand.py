"""Decompresses a set's compressed entries before the log is locked for the append.

    head     the number of records is deducted from the request's budget before any decoding
    small    an entry that expands to less than `INLINE_BYTES` is decompressed by the caller's task
    large    others are decompressed by `offload`, in another thread, up to the rest of the budget

Invariant: the compressed entries of one request together hold no more records and expand to no more
bytes than its budget. The results are reused while the log is locked.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from zkbroker.errors import MessageSizeTooLarge
from zkbroker.records import kernels
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES
from zkbroker.records.entries import Data, read_head
from zkbroker.records.payload import batch_payload, unwrap
from zkbroker.records.record import EntryInfo, PartialEntry

DEFAULT_MAX_RECORDS: Final = 1_000_000
INLINE_BYTES: Final = 512 * 1024
# Below this many records a batch is scanned in well under a millisecond.
_INLINE_RECORDS: Final = 50_000

Offload = Callable[..., Any]


class RequestBudget:
    """The records and bytes that the compressed entries of a request may still hold.

    Args:
        max_bytes: how many bytes they may expand to together.
        max_records: how many records they may hold together.
    """

    __slots__ = ("_max_bytes", "_max_records", "bytes_left", "records_left")

    def __init__(
        self, max_bytes: int = MAX_DECOMPRESSED_BYTES, max_records: int = DEFAULT_MAX_RECORDS
    ) -> None:
        self._max_bytes = max_bytes
        self._max_records = max_records
        self.bytes_left = max_bytes
        self.records_left = max_records

    def take_records(self, count: int) -> None:
        """Deduct records; MessageSizeTooLarge if the budget is exceeded."""
        if count > self.records_left:
            raise MessageSizeTooLarge(
                f"a request with more than {self._max_records} records in compressed batches"
            )
        self.records_left -= count

    def take_bytes(self, size: int) -> None:
        """Deduct bytes; MessageSizeTooLarge if the budget is exceeded."""
        if size > self.bytes_left:
            raise MessageSizeTooLarge(
                f"a request whose compressed batches expand beyond {self._max_bytes} bytes"
            )
        self.bytes_left -= size


class Payload(NamedTuple):
    """The contents of a batch or wrapper; for a batch also the scan of its records.

    Args:
        data: the records or message set, decompressed.
        scan: the result of `kernels.scan_records`; None for a wrapper.
    """

    data: bytes
    scan: tuple[int, int, int, bool] | None


class Expanded(NamedTuple):
    """Payloads of a set's compressed entries by position, and whether they are large."""

    payloads: dict[int, Payload]
    large: bool


NOTHING: Final = Expanded({}, False)


def expand_set(
    data: Data,
    budget: RequestBudget | None,
    *,
    max_message_bytes: int,
    offload: Offload | None = None,
) -> Expanded:
    """Decompress and scan the compressed entries of a set.

    A damaged set is expanded up to the damage: `prepare_append` raises the error.

    Args:
        data: entries as a producer sent them.
        budget: of the request; None for a budget of this set alone.
        max_message_bytes: the walk ends at a larger entry, which is refused anyway.
        offload: calls a function with its arguments in another thread; None calls it here.

    Raises:
        CorruptMessage: an entry cannot be decompressed, or does not hold its records.
        MessageSizeTooLarge: the budget is exceeded.
    """
    if budget is None:
        budget = RequestBudget()
    payloads: dict[int, Payload] = {}
    large = False
    position = 0
    while (position := kernels.end_of_plain(data, position, max_message_bytes)) < len(data):
        try:
            entry = read_head(data, position, sent=True)
        except PartialEntry:
            break
        if entry.size > max_message_bytes:
            break
        if entry.codec:
            payload = _expand(data, entry, budget, offload)
            payloads[position] = payload
            large = large or len(payload.data) > INLINE_BYTES
        position += entry.size
    return Expanded(payloads, large)


def _expand(
    data: Data, entry: EntryInfo, budget: RequestBudget, offload: Offload | None
) -> Payload:
    if entry.magic == 2:
        budget.take_records(entry.record_count)
    payload: Payload | None = None
    few = entry.record_count <= _INLINE_RECORDS
    if offload is None:
        payload = look_inside(data, entry, budget.bytes_left)
    elif few and entry.size < INLINE_BYTES:
        try:
            payload = look_inside(data, entry, min(INLINE_BYTES, budget.bytes_left))
        except MessageSizeTooLarge:
            payload = None
    if payload is None:
        assert offload is not None
        payload = offload(look_inside, data, entry, budget.bytes_left)
    budget.take_bytes(len(payload.data))
    return payload


def look_inside(data: Data, entry: EntryInfo, max_bytes: int) -> Payload:
    """Return the payload of an entry, decompressed, and, for a batch, the scan of its records.

    Raises:
        CorruptMessage: it cannot be decompressed, or does not hold its records.
        MessageSizeTooLarge: it expands beyond `max_bytes`.
    """
    if entry.magic < 2:
        return Payload(unwrap(data, entry, max_bytes), None)
    inner = batch_payload(data, entry, max_bytes)
    count = entry.record_count
    return Payload(inner, kernels.scan_records(inner, count, count - 1, entry.base_timestamp))
