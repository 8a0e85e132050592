"""The files of an output directory, and the offsets that each holds, read from the files.

Invariant: a file counts as data when neither its name nor a directory above it begins with `.` or
    `_`; Spark and other readers see the same files.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_loader.lake.table_files import STATE
from spark_loader.reading.columns import POSITION, ascending
from spark_loader.reading.positions import partition_from_json
from spark_loader.reading.runs import Runs, covered, entries, runs
from spark_loader.sink.data_formats import DATA_FORMATS, format_of, json_lines
from spark_loader.storage.files import FileStatus, LakeFileSystem, join
from zkbroker.types import Partition07, parse_partition

QUARANTINE = f"{STATE}/quarantine"

_OURS = re.compile(
    r"(.+)\+(\d{5}|\d+-\d+)\+(\d{20})\+(\d{20})\+[^+/]+\."
    rf"(?:{'|'.join(each.suffix for each in DATA_FORMATS.values())})"
)


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
    """Return partition, start and until from a name that the loader gave; None for other names."""
    found = _OURS.fullmatch(path.rpartition("/")[2])
    return None if found is None else (parse_partition(found[2]), int(found[3]), int(found[4]))


def made_by_loads(path: str) -> bool:
    """Return whether a file of a topic has a name that loads or the table's library give."""
    return named_by_loader(path) is not None or path.rpartition("/")[2].startswith("part-")


def is_quarantine(path: str) -> bool:
    """Return whether a file holds quarantined records."""
    return path.startswith(STATE)


@dataclass(slots=True)
class Held:
    """One partition's records in a file.

    Attributes:
        runs: of offsets, ascending; a repeated offset starts a new run. For Kafka 0.7 the bytes of
            the entries that end in the file.
        rows: number of records.
        start, until: the first offset, and the one after the last.
        entries: in Kafka 0.7, where each of the entries begins and ends.
    """

    runs: Runs
    rows: int
    start: int
    until: int
    entries: Runs = field(default_factory=list)


def held_in_file(local: Path, path: str) -> dict[int, Held] | None:
    """Return the contents of a data file by partition; None where its format does not record them.

    Raises:
        ValueError, OSError, KeyError: the file is not of the format that its name says, or damaged
        (Arrow's errors are subclasses).
    """
    offset_columns = format_of(path).offset_columns
    return None if offset_columns is None else held_in_table(offset_columns(local))


def held_in_table(table: pa.Table) -> dict[int, Held]:
    """Return the contents of rows by partition; the columns `partition` and `offset` are needed."""
    found: dict[int, Held] = {}
    numbers = table.column("partition").combine_chunks()
    for number in sorted(pc.unique(numbers).to_pylist()):
        rows = table.filter(pc.equal(numbers, number))
        column = rows.column("offset").combine_chunks()
        if POSITION in rows.column_names and rows.column(POSITION).null_count < rows.num_rows:
            positions = rows.column(POSITION).combine_chunks()
            start, until = pc.min(positions).as_py(), pc.max(column).as_py()
            until = max(until, pc.max(positions).as_py() + 1)
            source: int = Partition07.from_number(number)
            held = sorted(covered(positions, column))
            ended = sorted(entries(positions, column))
            found[source] = Held(held, rows.num_rows, start, until, ended)
            continue
        if not ascending(column):
            column = column.take(pc.array_sort_indices(column))
        held = runs(column)
        found[number] = Held(held, rows.num_rows, held[0][0], held[-1][1])
    return found


def held_in_quarantine(local: Path) -> Runs:
    """Return the runs of offsets in a quarantine file, one for each record."""
    return [
        (row["position"], row["offset"])
        if "position" in row
        else (row["offset"], row.get("until", row["offset"] + 1))
        for row in json_lines(local)
        if row.get("position") != row["offset"]
    ]


def quarantine_extent(local: Path) -> tuple[int, int, int]:
    """Return how many records a quarantine file holds, their first offset and the one after.

    Messages inside an entry of Kafka 0.7 are among them, though they account for no bytes.
    """
    starts, untils = [], []
    for row in json_lines(local):
        start = row.get("position", row["offset"])
        until = row["offset"] if "position" in row else row.get("until", row["offset"] + 1)
        starts.append(start)
        untils.append(max(until, start + 1))
    return len(starts), min(starts), max(untils)


def quarantined_partitions(local: Path) -> set[int]:
    """Return the partitions whose records are in a quarantine file."""
    return {partition_from_json(row["partition"]) for row in json_lines(local)}


def extent_of(table: Any) -> tuple[int, int]:
    """Return the first offset of rows of one partition, and the one after the last."""
    offsets = table.column("offset")
    last = offsets[len(offsets) - 1].as_py()
    if POSITION not in table.schema.names:
        return offsets[0].as_py(), last + 1
    positions = table.column(POSITION)
    # Rows that do not end their entry account for no bytes; + 1 keeps the extent from being empty.
    return positions[0].as_py(), max(last, positions[len(positions) - 1].as_py() + 1)
