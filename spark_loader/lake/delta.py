"""The Delta table of a lake, by the Delta library.

    add, remove            files of the table, by reference: `topic=…/date=…/hour=…/….parquet`
    txn zkbroker:TOPIC-N   the next offset to load of a partition
    txn zkbroker           the run: two runs on top of the same commit conflict on it
    commitInfo.zkbroker    the entry of the ledger

Invariant: no commit is ever removed from the log, so each run can be read again as it was.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_loader.errors import AlteredCheckpoint, CheckpointError, LoadError
from spark_loader.lake.table_files import (
    PARTITIONED,
    RESTORE,
    LiveFile,
    application,
    live_files,
    partition_values,
)
from spark_loader.lake.table_format import CONTENT, Change, CommitLost, Hours
from spark_loader.reading.columns import place_column
from spark_loader.reading.positions import TopicPartition
from spark_loader.storage.files import LakeFileSystem, join
from spark_loader.storage.table_log import LOG, TableLog

_CONFIGURATION = {
    "delta.enableExpiredLogCleanup": "false",
    # A reader reads every commit since the last checkpoint, in a bucket one by one.
    "delta.checkpointInterval": "20",
}
_RUNS = "zkbroker"
# Intermediate commits, so that a crash does not undo hours of work.
_COMMIT_EVERY_S = 60
_TRIES = 20


class DeltaSnapshot:
    """A version of the table; see `table_format.Snapshot`."""

    def __init__(self, table: Any) -> None:
        self.table = table

    @property
    def version(self) -> int:
        return int(self.table.version())

    def schema(self) -> pa.Schema:
        return pa.schema(self.table.schema().to_arrow())

    def files(self) -> list[LiveFile]:
        return live_files(self.table)

    def position(self, source: TopicPartition) -> int | None:
        found: int | None = self.table.transaction_version(application(source))
        return found


class DeltaTable:
    """The table in one output directory; see `table_format.TableFormat`."""

    directory = LOG

    def __init__(self, filesystem: LakeFileSystem, output: str) -> None:
        self._fs = filesystem
        self._output = output
        self._library = require_library()
        self._log: TableLog = filesystem.table_log(output)
        # Kept for reading: a large table is slow to open, and quick to update.
        self._opened: Any = None

    def exists(self) -> bool:
        return self._opened is not None or bool(self._fs.names(join(self._output, LOG)))

    def newest(self) -> DeltaSnapshot | None:
        if not self.exists():
            return None
        self._log.pull()
        self._opened = self._open(known=self._opened)
        return DeltaSnapshot(self._opened)

    def at(self, version: int) -> DeltaSnapshot:
        self._log.pull()
        return DeltaSnapshot(self._open(version))

    def commits(self) -> list[Mapping[str, Any]]:
        return numbered_commits(self._newest_table)

    def last_commits(self, limit: int) -> list[Mapping[str, Any]]:
        table = self._newest_table()
        return [] if table is None else list(table.history(limit))

    def check(self, schema: pa.Schema) -> None:
        """Nothing to do: Delta holds every type that a column of a load may have."""

    def forget(self) -> None:
        self._opened = None
        self._log.forget()

    def begin(self, schema: pa.Schema) -> None:
        fields = [*schema, *(pa.field(name, kind) for name, kind in PARTITIONED.items())]

        def write() -> int:
            self._library.DeltaTable.create(
                self._log.uri,
                schema=pa.schema(fields),
                partition_by=list(PARTITIONED),
                mode="ignore",
                configuration=_CONFIGURATION,
                storage_options=self._log.options or None,
            )
            return 0

        self._log.commit(write)

    def commit(self, base: DeltaSnapshot, change: Change) -> None:
        version = base.version
        if missing := self._missing(base.table, change.schema):
            version = self._add_columns(version, missing)
        now_ms = int(time.time() * 1000)
        library = self._library.transaction
        actions = [
            library.AddAction(
                each.path, each.size_bytes, partition_values(each.path), now_ms, True, each.stats
            )
            for each in change.files
        ]
        actions += [
            library.RemoveAction(
                each.path, True, now_ms, each.size_bytes, partition_values(each.path)
            )
            for each in change.removed
        ]

        def write() -> int:
            table = self._open(version)
            self._append(table, actions, change)
            return self._version_after(table)

        self._committed(write)

    def settle(self) -> None:
        """Nothing to do: a commit is one file."""

    def delete(
        self,
        base: DeltaSnapshot,
        change: Change,
        cuts: Mapping[TopicPartition, int],
        held: Sequence[LiveFile],
    ) -> None:
        version = base.version

        def write() -> int:
            table = self._open(version)
            self._log.fetch([each.path for each in held])
            table.delete(predicate(cuts), commit_properties=self._properties(change))
            if table.version() == version and change.run:
                # No row matched, so nothing was committed; the entry still has to be.
                self._append(table, [], change)
            return self._version_after(table)

        self._committed(write)

    def compact(
        self, change: Change, hours: Hours, target_bytes: int, small: Sequence[LiveFile]
    ) -> None:
        for filters in _filters(hours):

            def write(filters: list[tuple[str, str, str]] = filters) -> int:
                table = self._for_writing()
                self._log.fetch([each.path for each in small])
                table.optimize.compact(
                    partition_filters=filters,
                    target_size=target_bytes,
                    min_commit_interval=_COMMIT_EVERY_S,
                    commit_properties=self._properties(change),
                )
                return self._version_after(table)

            self._committed(write)

    def unneeded(self, retention_hours: int) -> list[str]:
        if self._log.uri != self._output:
            raise LoadError(
                f"vacuum cannot list {self._output}: it works on local directories and buckets"
            )
        found: list[str] = self._open().vacuum(
            retention_hours=retention_hours,
            dry_run=True,
            enforce_retention_duration=False,
            full=True,
        )
        return found

    def _newest_table(self) -> Any:
        newest = self.newest()
        return None if newest is None else newest.table

    def _open(self, version: int | None = None, known: Any = None) -> Any:
        errors = self._library.exceptions
        try:
            if known is not None:
                known.update_incremental()
                return known
            return self._library.DeltaTable(
                self._log.uri, version=version, storage_options=self._log.options or None
            )
        except (errors.DeltaError, errors.TableNotFoundError) as error:
            raise AlteredCheckpoint(
                f"{join(self._output, LOG)}: {str(error).splitlines()[0]}. {RESTORE}"
            ) from None

    def _for_writing(self) -> Any:
        """Return the newest table, for one commit."""
        self._log.pull()
        return self._open()

    def _version_after(self, table: Any) -> int:
        table.update_incremental()
        return int(table.version())

    def _append(self, table: Any, actions: list[Any], change: Change) -> None:
        table.create_write_transaction(
            actions,
            "append",
            table.schema(),
            list(PARTITIONED),
            commit_properties=self._properties(change),
        )

    def _committed(self, write: Callable[[], int]) -> None:
        try:
            self._log.commit(write)
        except self._library.exceptions.CommitFailedError as error:
            raise CommitLost(str(error).splitlines()[0]) from None

    def _missing(self, table: Any, schema: pa.Schema) -> list[Any]:
        """Return the columns that the table lacks; raise LoadError where one has another type."""
        known = {each.name: each for each in table.schema().fields}
        wanted = self._library.Schema.from_arrow(schema).fields
        for each in wanted:
            if each.name in known and known[each.name].type != each.type:
                raise LoadError(
                    f"column {each.name} is {each.type} in what was loaded and "
                    f"{known[each.name].type} in the table: give it another name"
                )
        return [each for each in wanted if each.name not in known]

    def _add_columns(self, version: int, missing: list[Any]) -> int:
        """Add columns on top of a version, and return the version that this makes."""

        def write() -> int:
            table = self._for_writing()
            if table.version() != version:
                raise CommitLost(f"version {version} is no longer the newest")
            table.alter.add_columns(missing)
            return self._version_after(table)

        self._committed(write)
        return version + 1

    def _properties(self, change: Change) -> Any:
        now_ms = int(time.time() * 1000)
        applications = {application(source): at for source, at in sorted(change.moved.items())}
        if change.run:
            applications[_RUNS] = change.run
        return self._library.CommitProperties(
            custom_metadata={CONTENT: change.content},
            app_transactions=[
                self._library.Transaction(name, version, now_ms)
                for name, version in applications.items()
            ],
        )


def numbered_commits(newest: Callable[[], Any]) -> list[Mapping[str, Any]]:
    """Return every commit with the version that it made, the newest first.

    The library reads the present log and counts down from the version at which the table was
    opened; a commit added in between would shift every number.

    Args:
        newest: returns the library's table as it is now, None when there is none.

    Raises:
        CheckpointError: commits come faster than they can be read.
    """
    table = newest()
    for _ in range(_TRIES):
        if table is None:
            return []
        version = table.version()
        found: list[Mapping[str, Any]] = table.history()
        table = newest()
        if table is not None and table.version() == version:
            return found
    raise CheckpointError("commits are added faster than they can be read: try again later")


def _filters(hours: Hours) -> list[list[tuple[str, str, str]]]:
    """Return the library's filters for hours: the earlier days, and the hours of the last day."""
    date = hours.date
    return [[("date", "<", date)], [("date", "=", date), ("hour", "<", str(hours.hour))]]


def predicate(cuts: Mapping[TopicPartition, int]) -> str:
    """Return a SQL condition for rows at or beyond an offset of their partition."""
    return " OR ".join(
        f'("topic" = \'{source.topic}\' AND "partition" = {int(source.partition)} AND '
        f'"{place_column(source)}" >= {cut})'
        for source, cut in sorted(cuts.items())
    )


def require_library() -> Any:
    """Return the Delta library; drivers and readers need it, mappers do not.

    Raises:
        LoadError: it is not installed.
    """
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ModuleNotFoundError:
        raise LoadError(
            "the lake is a Delta table, written by a library: pip install 'zkbroker[lake]'"
        ) from None
    return deltalake
