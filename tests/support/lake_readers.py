"""The rows of a lake, read by engines that do not use the loader.

Engines are imported where they are used: each takes long, and most workers of a suite need none.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable


@dataclass(frozen=True)
class ReaderResult:
    """Rows that an engine read: their places in order, and the checksum that `verify` has."""

    places: tuple[tuple[str, int, int], ...]
    rows_crc: int

    @property
    def rows(self) -> int:
        return len(self.places)


COLUMNS = ("topic", "partition", "offset", "value")


def reader_result(table: pa.Table) -> ReaderResult:
    topics, partitions, offsets, values = (table.column(name).to_pylist() for name in COLUMNS)
    crc = sum(zlib.crc32(each or b"") for each in values) % 2**64
    return ReaderResult(tuple(sorted(zip(topics, partitions, offsets, strict=True))), crc)


def by_pyarrow(output: Path) -> ReaderResult:
    return reader_result(DeltaTable(str(output)).to_pyarrow_table(columns=list(COLUMNS)))


def by_polars(output: Path) -> ReaderResult:
    import polars as pl

    return reader_result(pl.read_delta(str(output), columns=list(COLUMNS)).to_arrow())


def by_duckdb(output: Path) -> ReaderResult:
    import duckdb

    files = DeltaTable(str(output)).file_uris()
    if not files:
        return ReaderResult((), 0)
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    source = "read_parquet($files, hive_partitioning = true)"
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT {columns} FROM {source}", params={"files": files})
        return reader_result(found.to_arrow_table())


def by_spark(spark: Any, output: Path) -> ReaderResult:
    from spark_loader import read

    rows = read(spark, str(output)).select(*COLUMNS).collect()
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    columns["value"] = [bytes(each) for each in columns["value"]]
    return reader_result(pa.table(columns))


def by_iceberg(output: Path) -> ReaderResult:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(str(output))
    return reader_result(table.scan(selected_fields=COLUMNS).to_arrow())


def by_polars_of_iceberg(output: Path) -> ReaderResult:
    import polars as pl

    version = (output / "metadata" / "version-hint.text").read_text()
    metadata = output / "metadata" / f"v{version}.metadata.json"
    return reader_result(pl.scan_iceberg(str(metadata)).select(COLUMNS).collect().to_arrow())


READERS = (by_pyarrow, by_polars, by_duckdb)
ICEBERG_READERS = (by_iceberg, by_polars_of_iceberg)
