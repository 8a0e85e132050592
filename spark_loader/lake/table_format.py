"""The interface of a table format: Delta or Iceberg, each by its library.

Invariant: a commit is atomic. A commit of a run is accepted only if no other run was committed
    since its snapshot; of two runs on top of the same one the later is refused (`CommitLost`), and
    nothing of it counts. Commits that name no run do not conflict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from spark_loader.lake.ledger import TableFile
from spark_loader.lake.table_files import LiveFile
from spark_loader.reading.positions import TopicPartition

CONTENT = "zkbroker"
"""Name of the ledger's entry in a commit's properties."""


class CommitLost(Exception):
    """Another writer was faster; read the table again and commit on top of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One commit.

    Attributes:
        run: number of the run; 0 for none.
        content: the entry of the ledger, as JSON values.
        moved: new positions of the partitions whose position changes.
        schema: columns of the new files.
        files: new files.
        removed: files that no longer count.
    """

    run: int
    content: dict[str, Any]
    schema: pa.Schema
    moved: Mapping[TopicPartition, int] = field(default_factory=dict)
    files: Sequence[TableFile] = ()
    removed: Sequence[LiveFile] = ()


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours `[…, end)` of all days: earlier days whole, the last one up to an hour.

    Attributes:
        date: ISO date of the last day.
        hour: first hour of that day that is not included.
    """

    date: str
    hour: int

    def holds(self, date: str, hour: int) -> bool:
        """Return whether an hour is included."""
        return (date, hour) < (self.date, self.hour)


class Snapshot(Protocol):
    """The table as one commit left it."""

    @property
    def version(self) -> int:
        """Number of that commit."""

    def schema(self) -> pa.Schema:
        """Return its columns, partition columns included."""

    def files(self) -> list[LiveFile]:
        """Return its files, in the order of their paths."""

    def position(self, source: TopicPartition) -> int | None:
        """Return the next offset of a partition from the metadata; None for an unknown one."""


class TableFormat(Protocol):
    """The table in one output directory."""

    @property
    def directory(self) -> str:
        """Directory of its metadata, below the output directory."""

    def exists(self) -> bool:
        """Return whether there is one."""

    def newest(self) -> Snapshot | None:
        """Return the table as it is; None when there is none.

        Raises:
            AlteredCheckpoint: it cannot be read.
        """

    def at(self, version: int) -> Snapshot:
        """Return the table as a commit left it."""

    def commits(self) -> list[Mapping[str, Any]]:
        """Return every commit, the newest first: its `version`, and its content under `CONTENT`."""

    def last_commits(self, limit: int) -> list[Mapping[str, Any]]:
        """Return the contents of the newest commits, the newest first."""

    def check(self, schema: pa.Schema) -> None:
        """Raise LoadError when the format cannot hold columns of such types."""

    def forget(self) -> None:
        """Forget what was read: the table's metadata was moved away."""

    def begin(self, schema: pa.Schema) -> None:
        """Make an empty table unless there is one."""

    def commit(self, base: Any, change: Change) -> None:
        """Commit on top of one of its snapshots; columns may be new.

        Raises:
            CommitLost: another run was committed since, or removed files are gone.
            LoadError: a column has another type in the table.
        """

    def settle(self) -> None:
        """Finish what a crash left half done after a commit."""

    def delete(
        self,
        base: Any,
        change: Change,
        cuts: Mapping[TopicPartition, int],
        held: Sequence[LiveFile],
    ) -> None:
        """Take rows at or beyond an offset of their partition out of one of its snapshots.

        Rows that were committed since are left.

        Args:
            base: the snapshot.
            change: the commit; one without a run is left out if there is no such row.
            cuts: the offsets.
            held: the files that may hold such rows.

        Raises:
            CommitLost: as for `commit`.
        """

    def compact(
        self, change: Change, hours: Hours, target_bytes: int, small: Sequence[LiveFile]
    ) -> None:
        """Merge small files of each hour into files of about a size.

        Raises:
            CommitLost: the same files were changed meanwhile.
            LoadError: the format's library cannot do that.
        """

    def unneeded(self, retention_hours: int) -> list[str]:
        """Return the files that no version since `retention_hours` ago needs.

        Raises:
            LoadError: the format's library cannot do that, or cannot list the file system.
        """
