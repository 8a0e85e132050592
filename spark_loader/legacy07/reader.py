"""Split → Arrow for a log of Kafka 0.7: offsets are bytes, entries have sizes, there are no keys.

    entry at 40, 30 bytes          a row with offset 70
    wrapper at 70, 50 bytes, of 3  rows with offsets 70, 70, 120

The offset of a row is the position after it, as in 0.7; a load also keeps the position of its
entry. A range begins and ends between entries.

Invariant, as in `RangeReader`: every byte of the range is accounted for once, by the last row of
its entry, as an empty wrapper or as part of a damaged entry.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from spark_loader.errors import LoadError
from spark_loader.lake.ledger import Gap
from spark_loader.reading.columns import POSITION, arrow_schema, in_microseconds
from spark_loader.reading.damage import MOST_RAW_BYTES, DamagedEntry
from spark_loader.reading.reader import ABSENT, Fetched, Piece, RangeReader
from spark_loader.reading.splits import OffsetRange
from zkbroker.errors import CorruptMessage
from zkbroker.records.legacy07 import messages, read_entry

_NO_TIME = -1


@dataclass
class RangeReader07(RangeReader):
    """Reads ranges of bytes through a fetcher; arguments as of `RangeReader`.

    Args:
        positions: whether batches have the column `position`.
    """

    positions: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        self._schema = arrow_schema(headers=self.headers, positions=self.positions)

    def _decode(
        self, wanted: OffsetRange, position: int, fetched: Fetched
    ) -> tuple[list[Piece], int]:
        """Decode whole entries; return what they hold and the position after them."""
        view = memoryview(fetched.records)
        pieces: list[Piece] = []
        rows = _Rows()
        at = 0
        while position + at < wanted.until:
            try:
                entry = read_entry(view, at)
            except CorruptMessage as error:
                # Where the next entry begins is unknown.
                self._flush(pieces, wanted, rows)
                raw = bytes(view[at : at + MOST_RAW_BYTES])
                damaged = DamagedEntry(position + at, wanted.until, raw, str(error))
                pieces.append(self._kept(wanted, damaged))
                return pieces, wanted.until
            if entry is None:
                break
            start, end = position + at, position + entry.end
            if end > wanted.until:
                raise LoadError(
                    f"{wanted.source}: the range ends at {wanted.until}, inside the entry from "
                    f"{start} to {end}; give positions between entries"
                )
            try:
                inside = [each.payload for each in messages(view[at : entry.end], 0)]
            except CorruptMessage as error:
                self._flush(pieces, wanted, rows)
                damaged = DamagedEntry(start, end, bytes(view[at : entry.end]), str(error))
                pieces.append(self._kept(wanted, damaged))
            else:
                if inside:
                    rows.add(start, end, inside)
                else:
                    self._flush(pieces, wanted, rows)
                    pieces.append(Gap(wanted.topic, wanted.partition, start, end, ABSENT))
            at = entry.end
        self._flush(pieces, wanted, rows)
        return pieces, position + at

    def _cut_off(
        self, wanted: OffsetRange, position: int, records: bytes | memoryview
    ) -> DamagedEntry:
        found = super()._cut_off(wanted, position, records)
        return DamagedEntry(position, wanted.until, found.raw, found.reason)

    def _flush(self, pieces: list[Piece], wanted: OffsetRange, rows: "_Rows") -> None:
        count = len(rows.values)
        if not count:
            return
        times = pa.repeat(pa.scalar(_NO_TIME, pa.timestamp("ms", tz="UTC")), count)
        arrays = [
            pa.nulls(count, pa.binary()),
            pa.array(rows.values, pa.binary()),
            pa.repeat(wanted.topic, count),
            pa.repeat(pa.scalar(int(wanted.partition), pa.int32()), count),
            pa.array(rows.offsets, pa.int64()),
            in_microseconds(times),
            pa.repeat(pa.scalar(_NO_TIME, pa.int32()), count),
        ]
        if self.headers:
            arrays.append(pa.nulls(count, self._schema.field("headers").type))
        if self.positions:
            assert self._schema.names[-1] == POSITION
            arrays.append(pa.array(rows.positions, pa.int64()))
        pieces.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        rows.clear()


class _Rows:
    """Rows of a batch under construction."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.values: list[bytes] = []
        self.offsets: list[int] = []
        self.positions: list[int] = []

    def add(self, start: int, end: int, inside: list[bytes]) -> None:
        """Add the messages of one entry."""
        self.values += inside
        self.offsets += [start] * (len(inside) - 1)
        self.offsets.append(end)
        self.positions += [start] * len(inside)
