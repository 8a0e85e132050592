"""What lies in an output directory and which offsets a file holds, by the files themselves.

Invariant: a file counts as data when its name, and every directory above it, begins with neither
`.` nor `_`; that is what Spark and other readers see.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_loader.lake.checkpoint import STATE, Checkpoints
from spark_loader.reading.columns import POSITION
from spark_loader.reading.positions import partition_from_json
from spark_loader.reading.runs import Runs, covered, runs
from spark_loader.storage.files import FileStatus, LakeFileSystem, join
from zkbroker.types import parse_partition

QUARANTINE = f"{STATE}/quarantine"

_OURS = re.compile(r"(.+)\+(\d{5}|\d+-\d+)\+(\d{20})\+(\d{20})\+[^+/]+\.(?:parquet|jsonl|txt)")


def data_files(filesystem: LakeFileSystem, output: str) -> Iterator[FileStatus]:
    """Yield the files that readers of the directory see."""
    for directory in filesystem.names(output):
        if directory.startswith("topic="):
            for each in filesystem.walk(join(output, directory)):
                if not any(part.startswith((".", "_")) for part in each.path.split("/")):
                    yield FileStatus(f"{directory}/{each.path}", each.size_bytes)


def quarantine_files(filesystem: LakeFileSystem, output: str) -> Iterator[FileStatus]:
    """Yield the files of quarantined records."""
    for each in filesystem.walk(join(output, QUARANTINE)):
        if not each.path.rpartition("/")[2].startswith("."):
            yield FileStatus(f"{QUARANTINE}/{each.path}", each.size_bytes)


def named_by_loader(path: str) -> tuple[int, int, int] | None:
    """Return partition, start and until as the loader puts them into a name; None for others."""
    found = _OURS.fullmatch(path.rpartition("/")[2])
    return None if found is None else (parse_partition(found[2]), int(found[3]), int(found[4]))


def is_quarantine(path: str) -> bool:
    """Return whether a file holds quarantined records."""
    return path.startswith(STATE)


def held_offsets(local: Path, path: str) -> Runs | None:
    """Return the runs of offsets in a file; None for a raw file, which holds none.

    Raises:
        ValueError, OSError, KeyError: it is not what its name says (Arrow's errors are among them).
    """
    if is_quarantine(path):
        rows = _json_lines(local)
        return [
            (row["position"], row["offset"])
            if "position" in row
            else (row["offset"], row.get("until", row["offset"] + 1))
            for row in rows
            if row.get("position") != row["offset"]
        ]
    table = _offset_columns(local, path)
    if table is None:
        return None
    offsets = table.column("offset").combine_chunks()
    if POSITION in table.column_names:
        return covered(table.column(POSITION).combine_chunks(), offsets)
    return runs(offsets)


def holds_positions(local: Path, path: str) -> bool:
    """Return whether a file holds messages of Kafka 0.7, with the position of each entry."""
    if path.endswith(".parquet"):
        return POSITION in pq.read_schema(local).names
    first = next(_json_lines(local), {}) if path.endswith(".jsonl") else {}
    return POSITION in first


def extent(local: Path, path: str) -> tuple[int, int]:
    """Return where the first entry of a 0.7 file begins, and where to go on after its last row."""
    table = _offset_columns(local, path)
    assert table is not None
    return extent_of(table)


def extent_of(table: Any) -> tuple[int, int]:
    """Return the first offset of rows, and the one after the last."""
    offsets = table.column("offset")
    last = offsets[len(offsets) - 1].as_py()
    if POSITION not in table.schema.names:
        return offsets[0].as_py(), last + 1
    positions = table.column(POSITION)
    # Rows that are not the last of their entry end nowhere: the file is never taken for empty.
    return positions[0].as_py(), max(last, positions[len(positions) - 1].as_py() + 1)


def count_rows(local: Path, path: str) -> int:
    """Return the number of rows in a file."""
    if path.endswith(".parquet"):
        return int(pq.ParquetFile(local).metadata.num_rows)
    return count_lines(local)


def _offset_columns(local: Path, path: str) -> Any:
    """Return the columns of a file that say where its rows are from; None for a raw file."""
    if path.endswith(".parquet"):
        file = pq.ParquetFile(local)
        names = [name for name in ("offset", POSITION) if name in file.schema_arrow.names]
        return file.read(names)
    if path.endswith(".jsonl"):
        rows = list(_json_lines(local))
        columns = {"offset": pa.array([row["offset"] for row in rows], pa.int64())}
        if rows and POSITION in rows[0]:
            columns[POSITION] = pa.array([row[POSITION] for row in rows], pa.int64())
        return pa.table(columns)
    return None


def held_partitions(local: Path, path: str) -> set[int] | None:
    """Return the partitions whose rows are in a file; None for a raw file."""
    if path.endswith(".parquet"):
        table = pq.ParquetFile(local).read(["partition"])
        return set(table.column("partition").unique().to_pylist())
    if path.endswith(".jsonl"):
        return {partition_from_json(row["partition"]) for row in _json_lines(local)}
    return None


def count_lines(local: Path) -> int:
    """Return the number of newlines in a file."""
    count = 0
    with local.open("rb") as file:
        while block := file.read(1 << 20):
            count += block.count(b"\n")
    return count


def has_data(checkpoints: Checkpoints, filesystem: LakeFileSystem) -> bool:
    """Return whether there is any data file."""
    return next(data_files(filesystem, checkpoints.output), None) is not None


def _json_lines(local: Path) -> Iterator[dict[str, Any]]:
    with local.open("rb") as lines:
        for line in lines:
            yield json.loads(line)
