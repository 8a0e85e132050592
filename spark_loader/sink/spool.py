"""Rows of hours for which no file is open, on local disk until their hour's turn comes.

    buffer of an hour ─▶ appended to one temporary file ─▶ read back, hour by hour, at the end

Invariant: rows come back as they were put in, hour for hour in the same order. The file has no name
once it is open, so nothing is left behind however the process ends.
"""

import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa


class Spool:
    """One temporary file of Arrow messages, with the places of each hour's."""

    def __init__(self) -> None:
        self._file: Any = None
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._schema: pa.Schema | None = None

    def __contains__(self, hour: str) -> bool:
        return hour in self._places

    def put(self, hour: str, table: pa.Table) -> None:
        """Append rows; raise OSError when the disk of temporary files is full."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="zkbroker-load-")  # noqa: SIM115 - kept
            self._schema = table.schema
        for batch in table.combine_chunks().to_batches():
            message = batch.serialize()
            self._places.setdefault(hour, []).append((self._file.tell(), message.size))
            self._file.write(message)

    def hours(self) -> list[str]:
        """Return the hours that have rows here, in order."""
        return sorted(self._places)

    def take(self, hour: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an hour in the order they came, and forget them."""
        for place, size in self._places.pop(hour):
            self._file.seek(place)
            yield pa.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), self._schema)

    def close(self) -> None:
        """Give the disk back."""
        self._places.clear()
        if self._file is not None:
            self._file.close()
            self._file = None
