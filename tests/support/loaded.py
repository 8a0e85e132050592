"""The contents of a lake, read by the Delta library and a Parquet reader, without the loader."""

from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable


def loaded_files(output: Path) -> list[Path]:
    """Return the files of the table, in order."""
    return sorted(map(Path, DeltaTable(str(output)).file_uris()))


def loaded_offsets(output: Path) -> dict[tuple[str, int], list[int]]:
    """Return the offsets in every file of the table, sorted, with repetitions."""
    found: dict[tuple[str, int], list[int]] = {}
    for path in loaded_files(output):
        topic = path.parts[-4].removeprefix("topic=")
        table = pq.ParquetFile(path).read(["partition", "offset"])
        rows = zip(*(table.column(n).to_pylist() for n in ("partition", "offset")), strict=True)
        for partition, offset in rows:
            found.setdefault((topic, partition), []).append(offset)
    return {source: sorted(offsets) for source, offsets in found.items()}


def file_with(output: Path, partition: int, offset: int) -> Path:
    """Return the file of the table that holds an offset of a partition."""
    for path in loaded_files(output):
        table = pq.ParquetFile(path).read(["partition", "offset"])
        if {"partition": partition, "offset": offset} in table.to_pylist():
            return path
    raise AssertionError((partition, offset))
