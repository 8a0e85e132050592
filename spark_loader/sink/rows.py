"""The three ways rows are written into a file: Parquet, JSON lines and raw values."""

import base64
import json
from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_loader.reading.columns import POSITION
from spark_loader.sink.statistics import has_order
from spark_loader.storage.files import HashingFile

COMPRESSIONS = ("snappy", "zstd", "gzip", "none")
"""Codecs of Parquet pages; the first is the default."""

_SAMPLE_ROWS = 4096
_REPEATED = 4
# Different in each record, whatever a sample says.
_APART = frozenset({"key", "value", "offset", "timestamp", "event_time", POSITION})


class RowWriter(ABC):
    """Writes tables in one format.

    Args:
        sink: where the bytes go.
        schema: the columns of each table.
        compression: codec of pages, in a format that has them.
    """

    def __init__(self, sink: HashingFile, schema: pa.Schema, compression: str) -> None:
        self._sink = sink
        self._schema = schema
        self._compression = compression

    @abstractmethod
    def write(self, table: pa.Table) -> None:
        """Write rows."""

    def close(self) -> None:  # noqa: B027 - lines hold nothing back
        """Write what is held back, in a format that holds rows back."""


class ParquetRows(RowWriter):
    """Parquet; keys and values are bytes, times are microseconds UTC.

    The file is begun with the first rows, which show the columns whose values repeat.
    """

    _begun: Any = None

    def write(self, table: pa.Table) -> None:
        self._writer(table).write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        self._writer(self._schema.empty_table()).close()

    @property
    def metadata(self) -> Any:
        """The file's footer, once it is closed."""
        return self._begun.writer.metadata

    def _writer(self, first: pa.Table) -> Any:
        if self._begun is None:
            # Statistics of bytes cost more than they save.
            counted = [each.name for each in self._schema if has_order(each.type)]
            self._begun = pq.ParquetWriter(
                pa.PythonFile(self._sink, mode="w"),
                self._schema,
                compression=self._compression,
                use_dictionary=repeating(first),
                write_statistics=counted,
                store_schema=False,
            )
        return self._begun


def repeating(table: pa.Table) -> list[str]:
    """Return the columns whose values repeat in the first rows.

    Dictionaries of other columns cost more time than the space they save is worth.
    """
    found = []
    rows = min(table.num_rows, _SAMPLE_ROWS)
    for field in table.schema:
        if pa.types.is_nested(field.type) or field.name in _APART:
            continue
        sample = table.column(field.name).slice(0, rows)
        if pc.count_distinct(sample).as_py() * _REPEATED <= rows:
            found.append(field.name)
    return found


class JsonRows(RowWriter):
    """One JSON object per line; bytes that are no UTF-8 text go base64 into `…_base64`."""

    def write(self, table: pa.Table) -> None:
        lines = []
        for row in times_as_ms(table).to_pylist():
            content: dict[str, Any] = {}
            for name, value in row.items():
                if isinstance(value, bytes):
                    content.update(_text_or_base64(name, value))
                elif name == "headers":
                    content[name] = [
                        {"key": each["key"], **_text_or_base64("value", each["value"])}
                        for each in value or ()
                    ]
                else:
                    content[name] = value
            # Decimals and dates become text.
            lines.append(json.dumps(content, ensure_ascii=False, default=str))
        lines.append("")
        self._sink.write("\n".join(lines).encode())


class RawRows(RowWriter):
    """Values as they are, each followed by a newline; a null value is an empty line."""

    def write(self, table: pa.Table) -> None:
        values = table.column("value").to_pylist()
        self._sink.write(b"".join(b"\n" if value is None else value + b"\n" for value in values))


def times_as_ms(rows: Any) -> Any:
    """Return rows with times as milliseconds since 1970, which JSON can hold.

    Microseconds, which columns of values may have, are cut off.
    """
    for index, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type):
            whole = rows.column(index).cast(pa.timestamp("ms", tz="UTC"), safe=False)
            values = whole.cast(pa.int64())
            rows = rows.set_column(index, column.name, values)
    return rows


def _text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": to_base64(value)}


def to_base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
