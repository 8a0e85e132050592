"""Files of the table as the library lists them, their columns and their directories.

Invariant: a path names its partition: `topic=…/date=…/hour=…/` are the values of the partition
    columns, whether the loader or the library wrote the file.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from spark_loader.errors import LoadError
from spark_loader.reading.columns import arrow_schema
from spark_loader.reading.positions import TopicPartition

STATE = "_zkbroker"
RESTORE = "Put it back from a backup, or adopt the data files as a new beginning: --adopt"

PARTITIONED = {"topic": pa.string(), "date": pa.date32(), "hour": pa.int32()}


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of a version of the table, with the table's metadata of it.

    Attributes:
        path: relative to the output directory.
        least, greatest: of `partition` and of `offset`, where the table knows them.
    """

    path: str
    size_bytes: int
    rows: int
    least: tuple[int | None, int | None] = (None, None)
    greatest: tuple[int | None, int | None] = (None, None)

    @property
    def topic(self) -> str:
        """The topic of its rows."""
        return partition_values(self.path)["topic"]

    def may_hold(self, partition: int, offset: int) -> bool:
        """Return whether it may hold rows of a partition at or beyond an offset."""
        (low, _), (high, last) = self.least, self.greatest
        return (
            (low is None or low <= partition)
            and (high is None or partition <= high)
            and (last is None or offset <= last)
        )


def concerned(files: list[LiveFile], cuts: Mapping[TopicPartition, int]) -> list[LiveFile]:
    """Return the files that may hold rows at or beyond an offset of their partition."""
    return [
        file
        for file in files
        if any(
            file.topic == source.topic and file.may_hold(int(source.partition), cut)
            for source, cut in cuts.items()
        )
    ]


def live_files(table: Any) -> list[LiveFile]:
    """Return the files of the library's table, in the order of their paths."""
    actions = pa.table(table.get_add_actions(flatten=True))
    names = ("path", "size_bytes", "num_records", "min.partition", "min.offset",
             "max.partition", "max.offset")  # fmt: skip
    empty = [None] * actions.num_rows
    columns = [
        actions.column(name).to_pylist() if name in actions.column_names else empty
        for name in names
    ]
    return sorted(
        (
            LiveFile(unquote(path), size, rows or 0, (low_p, low), (high_p, high))
            for path, size, rows, low_p, low, high_p, high in zip(*columns, strict=True)
        ),
        key=lambda each: each.path,
    )


def base_schema() -> pa.Schema:
    """Return the columns that files of every load have."""
    fields = [each for each in arrow_schema(headers=False) if each.name != "topic"]
    return pa.schema([*fields, pa.field("event_time", pa.timestamp("us", tz="UTC"))])


def schema_to_text(schema: pa.Schema | None) -> str:
    """Return a schema as text for a mapper's offsets."""
    return "" if schema is None else base64.b64encode(schema.serialize()).decode()


def schema_from_texts(texts: Iterable[str]) -> pa.Schema | None:
    """Return the columns of several mappers' files as one schema.

    Raises:
        LoadError: a column is of different types.
    """
    schemas = [
        pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
        for text in dict.fromkeys(texts)
        if text
    ]
    try:
        return pa.unify_schemas(schemas) if schemas else None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise LoadError(f"files of this run have columns that do not fit: {error}") from None


def partition_values(path: str) -> dict[str, str]:
    """Return the values of the partition columns that a path's directories name."""
    named = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    # The column is a number, and the library writes it so.
    return {"topic": named["topic"], "date": named["date"], "hour": str(int(named["hour"]))}


def metadata_version(name: str) -> int:
    """Return the version of an Iceberg table in a metadata file's name, 0 for other files."""
    found = re.fullmatch(r"v(\d+)\.metadata\.json", name)
    return int(found[1]) if found else 0


def application(source: TopicPartition) -> str:
    """Return a partition's name among the table's application transactions."""
    return f"zkbroker:{source}"
