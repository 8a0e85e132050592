"""Values → typed columns, batch by batch; values that cannot be converted are reported by row.

    values ─▶ pieces of some thousand rows ─▶ arrays, at once
                          └─▶ a piece with a bad value: its halves, down to the row that is bad

Invariant: a row is converted to the same values alone or among others, so a bad neighbour never
    changes the outcome. A null value has null columns.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

_PIECE_BYTES = 64 * 1024 * 1024
_REASON_CHARACTERS = 300

Converted = tuple[list[pa.Array], Mapping[int, str]]


class Converter(Protocol):
    """Converts values of one kind.

    Attributes:
        piece_rows: how many values are best converted at once.
    """

    piece_rows: int

    def convert(self, values: pa.Array) -> Converted:
        """Return one array for each column, and why rows are bad, by index.

        Args:
            values: bytes, none of them null.

        Raises:
            pa.ArrowInvalid: one of them is bad.
        """


class TypedRows:
    """Adds the columns to batches.

    Args:
        converter: of the values.
        fields: of the columns.
    """

    def __init__(self, converter: Converter, fields: list[pa.Field]) -> None:
        self._converter = converter
        self._fields = fields

    def add(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Return a batch with the columns, and why rows of it are bad, by index."""
        reasons: dict[int, str] = {}
        values = batch.column("value")
        present = None
        if values.null_count:
            present = pc.indices_nonzero(pc.is_valid(values))
            values = values.take(present)
        pieces: list[list[pa.Array]] = []
        size = self._converter.piece_rows
        for first in range(0, len(values), size):
            for start, (arrays, bad) in self._convert(values.slice(first, size), first):
                pieces.append(arrays)
                for index, why in bad.items():
                    reasons[start + index] = why[:_REASON_CHARACTERS]
        arrays = [
            pa.concat_arrays([piece[index] for piece in pieces])
            if pieces
            else pa.nulls(0, field.type)
            for index, field in enumerate(self._fields)
        ]
        if present is not None:
            rows = pa.array(range(batch.num_rows), pa.int64())
            places = pc.index_in(rows, value_set=present.cast(pa.int64()))
            arrays = [each.take(places) for each in arrays]
            reasons = {present[index].as_py(): why for index, why in reasons.items()}
        schema = batch.schema
        for field in self._fields:
            schema = schema.append(field)
        return pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema), reasons

    def _convert(self, values: pa.Array, start: int) -> Iterator[tuple[int, Converted]]:
        """Yield converted pieces, each with the index of its first value."""
        if len(values) == 1 or values.nbytes <= _PIECE_BYTES:
            try:
                yield start, self._converter.convert(values)
                return
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                if len(values) == 1:
                    nulls = [pa.nulls(1, field.type) for field in self._fields]
                    yield start, (nulls, {0: str(error)})
                    return
        half = len(values) // 2
        yield from self._convert(values.slice(0, half), start)
        yield from self._convert(values.slice(half), start + half)


def without(values: pa.Array, bad: list[int]) -> tuple[pa.Array, pa.Array]:
    """Return the values but the bad rows, and each row's index among them, null for bad rows."""
    rows = pa.array(range(len(values)), pa.int64())
    good = pc.filter(rows, pc.invert(pc.is_in(rows, value_set=pa.array(bad, pa.int64()))))
    return values.take(good), pc.index_in(rows, value_set=good)
