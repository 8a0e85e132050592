"""Rows of places (topic and hour) without an open file, on local disk until their turn comes.

    buffer of a place ─▶ appended to one temporary file ─▶ read back, place by place, at the end

Invariant: rows come back unchanged, each place's in the same order. The open file has no name, so
    nothing is left behind however the process ends.
"""

import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa


class Spool:
    """One temporary file of Arrow messages, with the positions of each place's rows."""

    def __init__(self) -> None:
        self._file: Any = None
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._schema: pa.Schema | None = None

    def __contains__(self, place: str) -> bool:
        return place in self._places

    def put(self, place: str, table: pa.Table) -> None:
        """Append rows; raise OSError when the disk of temporary files is full."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="zkbroker-load-")  # noqa: SIM115 - kept
            self._schema = table.schema
        for batch in table.combine_chunks().to_batches():
            message = batch.serialize()
            self._places.setdefault(place, []).append((self._file.tell(), message.size))
            self._file.write(message)

    def places(self) -> list[str]:
        """Return the places that have rows here, in order."""
        return sorted(self._places)

    def take(self, place: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a place in the order they came, and forget them."""
        for position, size in self._places.pop(place):
            self._file.seek(position)
            yield pa.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), self._schema)

    def close(self) -> None:
        """Free the disk space."""
        self._places.clear()
        if self._file is not None:
            self._file.close()
            self._file = None
