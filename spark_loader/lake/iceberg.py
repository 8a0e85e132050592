"""The Iceberg table of a lake, by pyiceberg.

    snapshot                       files of the table, by reference; partitions topic, date and hour
    its summary, zkbroker          the entry of the ledger
    property zkbroker:TOPIC-N      the next offset to load of a partition, set in the same commit

Invariant: no snapshot is ever expired, since its summary is the ledger; each run can be read again
as it was. Data files have no partition columns and no field ids: readers take partition values from
the metadata and map the other columns by name, as for files of Hive.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.exceptions import CommitFailedException, ValidationError, ValidationException
from pyiceberg.expressions.literals import literal
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Snapshot as IcebergVersion
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IntegerType, NestedField, PrimitiveType, StringType

from spark_loader.errors import AlteredCheckpoint, LoadError
from spark_loader.lake.iceberg_files import METADATA, FileCatalog
from spark_loader.lake.ledger import TableFile
from spark_loader.lake.table_files import (
    PARTITIONED,
    RESTORE,
    LiveFile,
    application,
    partition_values,
)
from spark_loader.lake.table_format import CONTENT, Change, CommitLost, Hours
from spark_loader.reading.columns import place_column
from spark_loader.reading.positions import TopicPartition
from spark_loader.sink.rows import ParquetRows
from spark_loader.sink.statistics import statistics
from spark_loader.storage.files import HashingFile, LakeFileSystem, join

_NAME_MAPPING = "schema.name-mapping.default"
_PROPERTIES = {
    # Retries happen here, on top of the other writer's commit, not in the library.
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
}
_TRIES = 20
_UNKNOWN_TYPES = (pa.int8(), pa.int16())


class IcebergSnapshot:
    """The table as one commit left it; see `table_format.Snapshot`."""

    def __init__(self, table: Table, number: int | None = None) -> None:
        self.table = table
        self._number = number if number is not None else table.metadata.current_snapshot_id

    @property
    def version(self) -> int:
        return self._number or 0

    def schema(self) -> pa.Schema:
        fields = self.table.schema().as_arrow()
        # The library uses Arrow's large types for text and bytes; files have the plain ones.
        short = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
        return pa.schema([pa.field(each.name, short.get(each.type, each.type)) for each in fields])

    def files(self) -> list[LiveFile]:
        found = [self._live(each) for each in self.data_files().values()]
        return sorted(found, key=lambda each: each.path)

    def data_files(self) -> dict[str, DataFile]:
        """Return the metadata of files, by path."""
        if self._number is None:
            return {}
        above = len(self.table.location()) + 1
        tasks = self.table.scan(snapshot_id=self._number).plan_files()
        return {each.file.file_path[above:]: each.file for each in tasks}

    def position(self, source: TopicPartition) -> int | None:
        found = self.table.properties.get(application(source))
        return None if found is None else int(found)

    def _live(self, file: DataFile) -> LiveFile:
        return LiveFile(
            file.file_path[len(self.table.location()) + 1 :],
            file.file_size_in_bytes,
            file.record_count,
            self._bounds(file.lower_bounds),
            self._bounds(file.upper_bounds),
        )

    def _bounds(self, bounds: Mapping[int, bytes] | None) -> tuple[int | None, int | None]:
        low, high = (self.table.schema().find_field(name) for name in ("partition", "offset"))
        return _bound(bounds, low), _bound(bounds, high)


def _bound(bounds: Mapping[int, bytes] | None, field: NestedField) -> int | None:
    if not bounds or field.field_id not in bounds:
        return None
    assert isinstance(field.field_type, PrimitiveType)
    found: Any = from_bytes(field.field_type, bounds[field.field_id])
    return int(found)


class IcebergTable:
    """The table in one output directory; see `table_format.TableFormat`."""

    directory = METADATA

    def __init__(self, filesystem: LakeFileSystem, output: str) -> None:
        self._fs = filesystem
        self._output = output
        self._catalog = FileCatalog(filesystem, output)

    def exists(self) -> bool:
        return self._catalog.newest() > 0

    def newest(self) -> IcebergSnapshot | None:
        version = self._catalog.newest()
        if not version:
            return None
        try:
            table = self._catalog.read(version)
        except (ValueError, OSError, ValidationError) as error:
            raise AlteredCheckpoint(
                f"version {version} of the table in {self._output} cannot be read: "
                f"{str(error).splitlines()[0]}. {RESTORE}"
            ) from None
        if table.location() != self._output:
            raise AlteredCheckpoint(
                f"{self._output} holds an Iceberg table that was made at {table.location()}: such "
                "a table names its files by whole paths, so put it back there"
            )
        return IcebergSnapshot(table)

    def at(self, version: int) -> IcebergSnapshot:
        newest = self.newest()
        assert newest is not None
        return IcebergSnapshot(newest.table, version)

    def commits(self) -> list[Mapping[str, Any]]:
        newest = self.newest()
        versions: list[IcebergVersion] = [] if newest is None else newest.table.snapshots()
        return [_commit_of(each) for each in reversed(versions)]

    def last_commits(self, limit: int) -> list[Mapping[str, Any]]:
        return self.commits()[:limit]

    def settle(self) -> None:
        self._catalog.hint()

    def check(self, schema: pa.Schema) -> None:
        for each in schema:
            if each.type in _UNKNOWN_TYPES:
                raise LoadError(f"column {each.name}: Iceberg has no {each.type}, give it as int")

    def forget(self) -> None:
        """Nothing to do: each look reads the newest metadata."""

    def begin(self, schema: pa.Schema) -> None:
        kinds = {"topic": StringType(), "date": DateType(), "hour": IntegerType()}
        fields = [
            NestedField(number, name, kinds[name], required=False)
            for number, name in enumerate(PARTITIONED, 1)
        ]
        spec = PartitionSpec(
            *(
                PartitionField(each.field_id, 1000 + n, IdentityTransform(), each.name)
                for n, each in enumerate(fields)
            )
        )
        self._catalog.begin(
            new_table_metadata(
                Schema(*fields), spec, UNSORTED_SORT_ORDER, self._output, dict(_PROPERTIES)
            )
        )

    def commit(self, base: IcebergSnapshot, change: Change) -> None:
        self._commit(base, change, change.files, change.removed)

    def delete(
        self,
        base: IcebergSnapshot,
        change: Change,
        cuts: Mapping[TopicPartition, int],
        held: Sequence[LiveFile],
    ) -> None:
        made: list[TableFile] = []
        gone: list[LiveFile] = []
        for file in held:
            rows = self._rows([file])
            kept = rows.filter(pc.invert(_beyond(rows, partition_values(file.path), cuts)))
            if kept.num_rows < rows.num_rows:
                gone.append(file)
                made.extend(self._written(file, kept))
        if gone or change.run:
            self._commit_made(base, change, made, gone)

    def compact(
        self, change: Change, hours: Hours, target_bytes: int, small: Sequence[LiveFile]
    ) -> None:
        base = self.newest()
        assert base is not None
        made: list[TableFile] = []
        gone: list[LiveFile] = []
        for group in _groups(small, target_bytes):
            made.extend(self._written(group[0], self._rows(group)))
            gone.extend(group)
        self._commit_made(base, change, made, gone)

    def unneeded(self, retention_hours: int) -> list[str]:
        raise LoadError(
            f"{self._output} is an Iceberg table, whose snapshots are its ledger and stay: there "
            "is nothing that vacuum could delete"
        )

    def _commit_made(
        self,
        base: IcebergSnapshot,
        change: Change,
        made: Sequence[TableFile],
        gone: Sequence[LiveFile],
    ) -> None:
        """Commit the files just written; remove them if the commit is refused."""
        try:
            # Loads may commit meanwhile; files that they add do not invalidate this work.
            for _ in range(_TRIES if not change.run else 1):
                try:
                    return self._commit(base, change, made, gone)
                except CommitLost:
                    newest = self.newest()
                    assert newest is not None
                    base = newest
            raise CommitLost(f"other writers were faster {_TRIES} times")
        except CommitLost:
            for each in made:
                self._fs.delete(join(self._output, each.path))
            raise

    def _commit(
        self,
        base: IcebergSnapshot,
        change: Change,
        files: Iterable[TableFile],
        removed: Sequence[LiveFile],
    ) -> None:
        transaction = base.table.transaction()
        _widen(transaction, change.schema)
        moved = {application(source): str(at) for source, at in change.moved.items()}
        if moved:
            transaction.set_properties(moved)
        summary = {CONTENT: json.dumps(change.content, ensure_ascii=False)}
        there = base.data_files() if removed else {}
        update = transaction.update_snapshot(summary)
        schema = transaction.table_metadata.schema()
        with update.overwrite() if removed else update.merge_append() as producer:
            for file in files:
                producer.append_data_file(_data_file(self._output, schema, file))
            for each in removed:
                if each.path not in there:
                    raise CommitLost(f"{each.path} was taken out meanwhile")
                producer.delete_data_file(there[each.path])
        try:
            transaction.commit_transaction()
        except (CommitFailedException, ValidationException) as error:
            raise CommitLost(str(error)) from None

    def _rows(self, files: Sequence[LiveFile]) -> pa.Table:
        tables = []
        for each in files:
            with self._fs.opened(join(self._output, each.path)) as local:
                tables.append(pq.ParquetFile(local).read())
        return pa.concat_tables(tables, promote_options="default")

    def _written(self, like: LiveFile, rows: pa.Table) -> list[TableFile]:
        """Write rows beside a file of the same hour; no file for no rows."""
        if not rows.num_rows:
            return []
        directory = like.path.rpartition("/")[0]
        path = f"{directory}/part-{uuid.uuid4().hex}.parquet"
        output = self._fs.create(join(self._output, path))
        sink = HashingFile(output)
        writer = ParquetRows(sink, rows.schema, "snappy")
        writer.write(rows)
        writer.close()
        output.commit()
        return [
            TableFile(
                path=path,
                rows=rows.num_rows,
                size_bytes=sink.size_bytes,
                sha256=sink.sha256,
                stats=statistics(writer.metadata),
            )
        ]


def _commit_of(version: IcebergVersion) -> Mapping[str, Any]:
    found = version.summary.additional_properties if version.summary is not None else {}
    content = {CONTENT: json.loads(found[CONTENT])} if CONTENT in found else {}
    return {"version": version.snapshot_id, **content}


def _widen(transaction: Transaction, schema: pa.Schema) -> None:
    """Add the columns that the table lacks; raise LoadError where one has another type."""
    before = transaction.table_metadata.schema()
    try:
        with transaction.update_schema() as update:
            update.union_by_name(schema)
    except (ValidationError, ValueError, TypeError) as error:
        raise LoadError(f"{error}: give the column another name") from None
    after = transaction.table_metadata.schema()
    for each in before.fields:
        if after.find_field(each.name).field_type != each.field_type:
            raise LoadError(
                f"column {each.name} is {after.find_field(each.name).field_type} in what was "
                f"loaded and {each.field_type} in the table: give it another name"
            )
    if len(after.fields) != len(before.fields):
        transaction.set_properties({_NAME_MAPPING: after.name_mapping.model_dump_json()})


def _data_file(output: str, schema: Schema, file: TableFile) -> DataFile:
    """Describe a file for the library, from the statistics that its mapper recorded."""
    stats = json.loads(file.stats)
    values = partition_values(file.path)
    date = literal(values["date"]).to(DateType()).value
    fields = {each.name: each for each in schema.fields}
    nulls = {fields[name].field_id: count for name, count in stats.get("nullCount", {}).items()}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=join(output, file.path),
        file_format=FileFormat.PARQUET,
        partition=Record(values["topic"], date, int(values["hour"])),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        value_counts=dict.fromkeys(nulls, file.rows),
        null_value_counts=nulls,
        lower_bounds=_as_bytes(stats.get("minValues", {}), fields),
        upper_bounds=_as_bytes(stats.get("maxValues", {}), fields),
        spec_id=0,
    )


def _as_bytes(values: Mapping[str, Any], fields: Mapping[str, NestedField]) -> dict[int, bytes]:
    found = {}
    for name, value in values.items():
        kind = fields[name].field_type
        assert isinstance(kind, PrimitiveType)
        if isinstance(value, str) and not isinstance(kind, StringType):
            # The library wants the zone as a number.
            value = literal(value.replace("Z", "+00:00")).to(kind).value
        found[fields[name].field_id] = to_bytes(kind, value)
    return found


def _beyond(
    rows: pa.Table, place: Mapping[str, str], cuts: Mapping[TopicPartition, int]
) -> pa.ChunkedArray:
    """Return which rows of a file are at or beyond an offset of their partition."""
    found = pa.chunked_array([pa.array([False] * rows.num_rows)])
    for source, cut in cuts.items():
        if source.topic == place["topic"]:
            mine = pc.equal(rows.column("partition"), int(source.partition))
            beyond = pc.greater_equal(rows.column(place_column(source)), cut)
            found = pc.or_(found, pc.and_(mine, beyond))
    return found


def _groups(small: Sequence[LiveFile], target_bytes: int) -> list[list[LiveFile]]:
    """Group the small files of each hour, up to about a size."""
    by_hour: dict[tuple[str, ...], list[list[LiveFile]]] = {}
    for each in small:
        groups = by_hour.setdefault(tuple(partition_values(each.path).values()), [[]])
        if sum(file.size_bytes for file in groups[-1]) >= target_bytes:
            groups.append([])
        groups[-1].append(each)
    return [group for groups in by_hour.values() for group in groups if len(group) > 1]
