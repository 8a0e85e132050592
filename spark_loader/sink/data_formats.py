"""The formats of data files, one line each: how they are written, counted and read back.

Invariant: a file's suffix names its format. All code that depends on the format uses this table; an
    unknown suffix is an error.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_loader.reading.columns import POSITION
from spark_loader.reading.positions import partition_from_json
from spark_loader.sink.rows import JsonRows, ParquetRows, RawRows, RowWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFormat:
    """One format of data files.

    Attributes:
        suffix: of their names.
        writer: writes its files.
        count_rows: the number of rows in a file.
        offset_columns: reads the columns `partition` and `offset`, and `position` of Kafka 0.7;
            None where rows lack them, so that the ledger lists the offsets.
        in_table: whether its files are part of the table, which holds Parquet only, or lie beside
            it.
        has_columns: whether values may be turned into columns.
    """

    suffix: str
    writer: type[RowWriter]
    count_rows: Callable[[Path], int]
    offset_columns: Callable[[Path], pa.Table] | None
    in_table: bool
    has_columns: bool


def format_of(path: str) -> DataFormat:
    """Return the format of a data file by its name.

    Raises:
        ValueError: no format has that suffix.
    """
    suffix = path.rpartition(".")[2]
    for each in DATA_FORMATS.values():
        if each.suffix == suffix:
            return each
    known = ", ".join(f".{each.suffix}" for each in DATA_FORMATS.values())
    raise ValueError(f"its name does not end in one of {known}")


def in_table(path: str) -> bool:
    """Return whether a file, by its name, can be part of a table."""
    return any(each.in_table and path.endswith(f".{each.suffix}") for each in DATA_FORMATS.values())


def json_lines(local: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that has one per line."""
    with local.open("rb") as lines:
        for line in lines:
            yield json.loads(line)


def _count_lines(local: Path) -> int:
    count = 0
    with local.open("rb") as file:
        while block := file.read(1 << 20):
            count += block.count(b"\n")
    return count


def _count_parquet(local: Path) -> int:
    return int(pq.ParquetFile(local).metadata.num_rows)


def _offsets_of_parquet(local: Path) -> pa.Table:
    file = pq.ParquetFile(local)
    wanted = ("partition", "offset", POSITION)
    return file.read([name for name in wanted if name in file.schema_arrow.names])


def _offsets_of_json(local: Path) -> pa.Table:
    rows = list(json_lines(local))
    partitions = [int(partition_from_json(row["partition"])) for row in rows]
    columns = {
        "partition": pa.array(partitions, pa.int32()),
        "offset": pa.array([row["offset"] for row in rows], pa.int64()),
    }
    if rows and POSITION in rows[0]:
        columns[POSITION] = pa.array([row[POSITION] for row in rows], pa.int64())
    return pa.table(columns)


DATA_FORMATS = {
    "parquet": DataFormat(
        suffix="parquet",
        writer=ParquetRows,
        count_rows=_count_parquet,
        offset_columns=_offsets_of_parquet,
        in_table=True,
        has_columns=True,
    ),
    "json": DataFormat(
        suffix="jsonl",
        writer=JsonRows,
        count_rows=_count_lines,
        offset_columns=_offsets_of_json,
        in_table=False,
        has_columns=True,
    ),
    "raw": DataFormat(
        suffix="txt",
        writer=RawRows,
        count_rows=_count_lines,
        offset_columns=None,
        in_table=False,
        has_columns=False,
    ),
}
"""By name, as in `--format`."""
