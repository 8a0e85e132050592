"""Split → Arrow: reads an offset range of a partition as record batches.

    fetch ──▶ decode into columns ──▶ record batch        (the next fetch is sent before the batch
       ▲                                                    is handed over, so both overlap)
       └──── next offset

Invariant: `RangeReader` accounts for every offset of the range exactly once, rows in order: as a
    row, as absent from the log, as aborted, as lost, or as part of a damaged entry. No offset is
    silently skipped.
"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from spark_loader.errors import DamagedLog, DataLoss, LoadError
from spark_loader.lake.ledger import Gap
from spark_loader.reading.columns import arrow_schema, ascending, fixed_array, missing, record_batch
from spark_loader.reading.committed import Aborted, LookedOver, look_over, parted
from spark_loader.reading.damage import MOST_RAW_BYTES, DamagedEntry, by_entry
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.runs import Runs
from spark_loader.reading.splits import OffsetRange
from zkbroker.errors import CorruptMessage, MessageSizeTooLarge, OffsetOutOfRange
from zkbroker.records import AbortedBatches, Columns, decode_columns

POLICIES = ("fail", "earliest", "latest", "nearest")
POLICY_ADVICE = (
    "No offset was skipped; to go on without these give --on-out-of-range earliest, nearest "
    "or latest"
)
ABSENT = "no record in the log: control record or compacted"
ABORTED = "written in a transaction that was aborted"
NOT_LOADED = (ABSENT, ABORTED)
"""Causes without any loss of data."""

_LARGEST_FETCH_BYTES = 512 * 1024 * 1024
_EMPTY_ANSWERS = 20


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer to a fetch: whole message-set bytes, perhaps with a partial entry at the end.

    Attributes:
        aborted: transactions to leave out; empty for a reader of uncommitted records.
        stable: first offset that a reader of committed records may not see yet; None for others.
    """

    records: bytes | memoryview
    high_watermark: int
    aborted: Aborted = ()
    stable: int | None = None


PendingFetch: TypeAlias = Callable[[], Fetched]
"""A fetch under way; the call waits for the answer, with retries.

Raises:
    OffsetOutOfRange: the offset is not in the log; `earliest` and `latest` are filled in.
    ProtocolError: the answer is an error that retries did not cure.
"""


class Fetcher(Protocol):
    """The source of message sets."""

    def send(self, source: TopicPartition, offset: int, max_bytes: int) -> PendingFetch: ...

    def close(self) -> None: ...


Piece: TypeAlias = pa.RecordBatch | Gap | DamagedEntry


@dataclass
class RangeReader:
    """Reads offset ranges through a fetcher.

    Args:
        fetcher: source of message sets; not closed.
        fetch_bytes: bytes asked for at once; doubled while an entry does not fit.
        headers: whether batches have the column `headers`.
        on_out_of_range: `fail`, `earliest`, `latest` or `nearest`; see `_lost`.
        keep_damaged: whether a damaged entry is yielded and skipped rather than raised.
        verify_crc: whether CRCs are checked.
        advice: the remedy in the message of a DataLoss.
    """

    fetcher: Fetcher
    _: KW_ONLY
    fetch_bytes: int
    headers: bool = False
    on_out_of_range: str = "fail"
    keep_damaged: bool = False
    verify_crc: bool = True
    advice: str = POLICY_ADVICE

    def __post_init__(self) -> None:
        self._schema = arrow_schema(headers=self.headers)

    def read(self, wanted: OffsetRange) -> Iterator[Piece]:
        """Yield batches, and a `Gap` or `DamagedEntry` wherever offsets have no record.

        Raises:
            DataLoss: offsets are out of the log's range and the policy is `fail`.
            DamagedLog: an entry is damaged, or larger than the largest fetch, and `keep_damaged`
                is off; the message names partition and offsets.
        """
        position = wanted.start
        fetch_bytes = self.fetch_bytes
        empty = partial = 0
        pending = self.fetcher.send(wanted.source, position, fetch_bytes) if wanted.size else None
        while pending is not None:
            try:
                fetched = pending()
            except OffsetOutOfRange as error:
                lost = self._lost(wanted, position, error)
                yield lost
                position = lost.until
                pending = self._next(wanted, position, fetch_bytes)
                continue
            except CorruptMessage as error:
                # The broker could not read past the damage; from a later offset it may.
                found = self._kept(wanted, DamagedEntry(position, position + 1, b"", str(error)))
                yield found
                position = found.until
                pending = self._next(wanted, position, fetch_bytes)
                continue
            if len(fetched.records) == 0 and fetched.high_watermark <= position:
                # The log ends before the planned range: it was cut or created again.
                past = OffsetOutOfRange(latest=max(fetched.high_watermark, 0), earliest=0)
                yield self._lost(wanted, position, past)
                return
            pieces, reached = self._decode(wanted, position, fetched)
            if reached <= position:
                size = len(fetched.records)
                if size == 0:
                    if (empty := empty + 1) > _EMPTY_ANSWERS:
                        if fetched.stable is not None and fetched.stable <= position:
                            raise LoadError(
                                f"{wanted.source}: offsets [{position}, {wanted.until}) are not "
                                "stable yet: a transaction that began there is open. Try again "
                                "when it has ended, or read with isolation level read_uncommitted"
                            )
                        raise LoadError(
                            f"{wanted.source}: the broker answers nothing at offset {position} "
                            f"though its high watermark is {fetched.high_watermark}"
                        )
                elif fetch_bytes >= _LARGEST_FETCH_BYTES or 0 < size == partial < fetch_bytes:
                    # This is the rest of the log, and still the entry is not whole.
                    cut = self._cut_off(wanted, position, fetched.records)
                    yield cut
                    position, partial, fetch_bytes = cut.until, 0, self.fetch_bytes
                else:
                    partial = size
                    fetch_bytes *= 2
                pending = self._next(wanted, position, fetch_bytes)
                continue
            position = reached
            empty = partial = 0
            pending = self._next(wanted, position, fetch_bytes)
            yield from pieces

    def _next(self, wanted: OffsetRange, position: int, fetch_bytes: int) -> PendingFetch | None:
        if position >= wanted.until:
            return None
        return self.fetcher.send(wanted.source, position, fetch_bytes)

    def _lost(self, wanted: OffsetRange, position: int, error: OffsetOutOfRange) -> Gap:
        """Return the offsets that the policy gives up.

        `earliest` and `nearest` go on at the first offset the log still has; `latest` gives up
        the rest of the range; past the end of the log every policy gives up the rest.
        """
        earliest = error.earliest if error.earliest is not None else position
        latest = error.latest if error.latest is not None else wanted.until
        if position < earliest:
            until = (
                wanted.until if self.on_out_of_range == "latest" else min(earliest, wanted.until)
            )
            cause = f"deleted from the log, which begins at offset {earliest}"
        else:
            until = wanted.until
            cause = f"beyond the log, which ends at offset {latest}: it was cut or created again"
        gap = Gap(wanted.topic, wanted.partition, position, until, cause)
        if self.on_out_of_range == "fail":
            raise DataLoss(f"{gap}. {self.advice}")
        return gap

    def _decode(
        self, wanted: OffsetRange, position: int, fetched: Fetched
    ) -> tuple[list[Piece], int]:
        """Decode message-set bytes; return their records and the offset after them."""
        seen: LookedOver | None = None
        records = fetched.records
        try:
            if fetched.aborted:
                seen = look_over(
                    records,
                    position,
                    fetched.high_watermark,
                    fetched.aborted,
                    verify_crc=self.verify_crc,
                )
                if seen is None:
                    return self._decode_by_entry(wanted, position, fetched)
                records = seen.kept
            columns = self._columns(records, position, wanted.until)
        except (CorruptMessage, MessageSizeTooLarge):
            return self._decode_by_entry(wanted, position, fetched)
        offsets = fixed_array(pa.int64(), columns.count, columns.offsets)
        if seen is None:
            reached = min(columns.next_offset, wanted.until)
            if columns.count == reached - position > 0 and ascending(offsets):
                return [record_batch(wanted.source, columns, offsets, self._schema)], reached
            seen = look_over(records, position, fetched.high_watermark, ())
        if seen is None or not ascending(offsets):
            # Offsets without a record may belong to an entry whose own offset is damaged.
            return self._decode_by_entry(wanted, position, fetched)
        pieces: list[Piece] = []
        reached = min(seen.end, wanted.until)
        self._collect(pieces, wanted, columns, offsets, position, reached, seen.aborted)
        return pieces, reached

    def _columns(self, records: bytes | memoryview, start: int, until: int) -> Columns:
        return decode_columns(
            records,
            start_offset=start,
            end_offset=until,
            verify_crc=self.verify_crc,
            headers=self.headers,
        )

    def _decode_by_entry(
        self, wanted: OffsetRange, position: int, fetched: Fetched
    ) -> tuple[list[Piece], int]:
        """Decode entry by entry; keep damaged ones verbatim."""
        pieces: list[Piece] = []
        batches = AbortedBatches(fetched.aborted)
        found = by_entry(
            fetched.records, position, wanted.until, fetched.high_watermark, self._columns
        )
        for each in found:
            if isinstance(each, DamagedEntry):
                pieces.append(self._kept(wanted, each))
                if fetched.aborted:
                    # It may have been a marker: fetch again from here.
                    return pieces, each.until
            elif fetched.aborted and batches.has(each.entry, each.raw):
                start = min(max(position, each.entry.base_offset), each.until)
                self._leave_out(pieces, wanted, [(position, each.until)], [(start, each.until)])
            else:
                offsets = fixed_array(pa.int64(), each.columns.count, each.columns.offsets)
                self._collect(pieces, wanted, each.columns, offsets, position, each.until)
            position = each.until
        return pieces, position

    def _cut_off(
        self, wanted: OffsetRange, position: int, records: bytes | memoryview
    ) -> DamagedEntry:
        """Return a damaged entry that claims more bytes than there are."""
        reason = f"it says it is larger than the {len(records)} bytes there are of it"
        raw = bytes(memoryview(records)[:MOST_RAW_BYTES])
        return self._kept(wanted, DamagedEntry(position, position + 1, raw, reason))

    def _kept(self, wanted: OffsetRange, entry: DamagedEntry) -> DamagedEntry:
        """Return a damaged entry if damaged entries are kept.

        Raises:
            DamagedLog: they are not.
        """
        if self.keep_damaged:
            return entry
        raise DamagedLog(
            f"{wanted.source} [{entry.start}, {entry.until}): the entry of the log is damaged: "
            f"{entry.reason}"
        )

    def _collect(
        self,
        pieces: list[Piece],
        wanted: OffsetRange,
        columns: Columns,
        offsets: pa.Array,
        position: int,
        reached: int,
        aborted: Runs | None = None,
    ) -> None:
        self._leave_out(pieces, wanted, missing(offsets, position, reached), aborted or [])
        if columns.count:
            pieces.append(record_batch(wanted.source, columns, offsets, self._schema))

    def _leave_out(
        self, pieces: list[Piece], wanted: OffsetRange, offsets: Runs, aborted: Runs
    ) -> None:
        pieces.extend(
            Gap(wanted.topic, wanted.partition, start, until, ABORTED if is_aborted else ABSENT)
            for start, until, is_aborted in parted(offsets, aborted)
        )
