"""Adopts the data files of a directory as a new beginning, where its table is lost or damaged.

    files ─▶ offsets each holds, read from it ─▶ positions, gaps ─▶ one commit of kind `adopt`

Invariant: after it `verify` holds. A partition goes on behind the last offset that a file holds;
offsets below that in no file are entered in the gap ledger; offsets in two files are refused, since
a program cannot know which file counts. Earlier entries no longer count.

Where the table can be read, the files that it names and that are there are adopted, and other files
are left. Where it cannot, every data file is adopted, and the old log is moved into
`_zkbroker/replaced`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_loader.errors import AlteredCheckpoint, LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.contents import (
    data_files,
    held_in_file,
    held_in_quarantine,
    is_quarantine,
    named_by_loader,
    quarantine_extent,
    quarantine_files,
    quarantined_partitions,
)
from spark_loader.lake.ledger import DataFile, Entry, Gap, TableFile, beside, now_text
from spark_loader.lake.table_files import LiveFile
from spark_loader.plurals import counted
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.runs import Runs, joined, minus, repeated
from spark_loader.reading.splits import OffsetRange
from spark_loader.sink.data_formats import format_of, in_table
from spark_loader.sink.statistics import statistics
from spark_loader.storage.files import FileStatus, LakeFileSystem, join, sha256_of
from zkbroker.types import Partition07

_CAUSE = "no file that was taken over holds these offsets"
_SHOWN = 10


@dataclass(slots=True)
class Survey:
    """The commit that an adoption would make.

    Attributes:
        entry: the entry of the commit.
        tabled: files that it adds to the table.
        schema: their columns.
        removed: files that it takes out of a table that can be read.
        fresh: whether the table cannot be read, so that another one is begun.
    """

    entry: Entry
    tabled: list[TableFile] = field(default_factory=list)
    schema: pa.Schema | None = None
    removed: list[LiveFile] = field(default_factory=list)
    fresh: bool = True


@dataclass(slots=True)
class _Found:
    """The contents of one partition's files."""

    files: list[tuple[str, Runs]] = field(default_factory=list)

    @property
    def covered(self) -> Runs:
        return joined(run for _, held in self.files for run in held)


def adopt(checkpoints: Checkpoints) -> Entry:
    """Commit a new beginning and return its entry.

    Raises:
        LoadError: there is no data file, one cannot be read, or two hold the same offsets; nothing
            was changed.
    """
    found = survey(checkpoints)
    if found.fresh:
        _put_log_aside(checkpoints)
    checkpoints.table.commit(found.entry, found.tabled, found.schema, found.removed)
    # Runs that were planned before are given up; the files that they staged can never count.
    for run in checkpoints.run_numbers():
        checkpoints.clear_staging(run)
    return found.entry


def _put_log_aside(checkpoints: Checkpoints) -> None:
    aside = checkpoints.path("replaced", now_text().replace(":", ""))
    log = join(checkpoints.output, checkpoints.table.format.directory)
    for each in list(checkpoints.filesystem.walk(log)):
        checkpoints.filesystem.rename(join(log, each.path), join(aside, each.path))
    checkpoints.table.forget()


def survey(checkpoints: Checkpoints) -> Survey:
    """Return the commit that `adopt` would make."""
    output = checkpoints.output
    try:
        live = checkpoints.table.files()
        before = checkpoints.table.latest()
        known = {each.path for each in beside(checkpoints.table.entries())[0]}
    except AlteredCheckpoint:
        live, before, known = [], None, set()
    fresh = before is None
    sizes = {each.path: each.size_bytes for each in live}
    files = [
        each
        for each in data_files(checkpoints.filesystem, output)
        if fresh or not in_table(each.path) or sizes.get(each.path) == each.size_bytes
    ]
    if not files:
        raise LoadError(f"{output} holds no data files that could be taken over")
    there = {each.path for each in files}
    inspected = _Inspection(checkpoints.filesystem, output, new=fresh)
    for each in [*files, *quarantine_files(checkpoints.filesystem, output)]:
        inspected.add(each)
    _require_once(inspected.found)
    spans = {
        source: (each.covered[0][0], each.covered[-1][1])
        for source, each in inspected.found.items()
        if each.covered
    }
    run = _next_run(checkpoints, before)
    entry = Entry(
        run=run,
        created=now_text(),
        kind="adopt",
        ranges=tuple(
            OffsetRange(source.topic, source.partition, start, until)
            for source, (start, until) in sorted(spans.items())
        ),
        checksums=inspected.checksums,
        files=tuple(inspected.data),
        quarantined=tuple(inspected.quarantined),
        withdrawn=tuple(sorted(known - there)),
        gaps=tuple(
            Gap(source.topic, source.partition, start, until, _CAUSE)
            for source, each in sorted(inspected.found.items())
            if source in spans
            for start, until in minus([spans[source]], each.covered)
        ),
        rows=inspected.rows,
        size_bytes=sum(each.size_bytes for each in files),
        positions={source: until for source, (_, until) in spans.items()},
        topics_created_ms=before.topics_created_ms if before is not None else {},
        group=before.group if before is not None else "",
        note=f"{counted(len(files), 'data file')} with {counted(inspected.rows, 'row')} taken over",
        beginning=run,
    )
    removed = [each for each in live if each.path not in there]
    return Survey(entry, inspected.tabled, inspected.schema, removed, fresh)


def _next_run(checkpoints: Checkpoints, before: Entry | None) -> int:
    """Return a number that no run had, as far as can be known without a table."""
    return max([0, *checkpoints.run_numbers(), before.run if before is not None else 0]) + 1


class _Inspection:
    """Reads files and gathers their contents."""

    def __init__(self, filesystem: LakeFileSystem, output: str, *, new: bool) -> None:
        self._fs = filesystem
        self._output = output
        self._new = new
        self.found: dict[TopicPartition, _Found] = {}
        self.tabled: list[TableFile] = []
        self.checksums: dict[str, str] = {}
        self.schema: pa.Schema | None = None
        self.data: list[DataFile] = []
        self.quarantined: list[DataFile] = []
        self.rows = 0

    def add(self, status: FileStatus) -> None:
        """Add the contents of a file."""
        path = status.path
        with self._fs.opened(join(self._output, path)) as local:
            try:
                if in_table(path):
                    self._of_table(local, status)
                else:
                    self._beside(local, status)
            except (ValueError, KeyError, TypeError, OSError) as error:
                raise LoadError(
                    f"{path} cannot be taken over ({error}): move it out of {self._output}, then "
                    "try again"
                ) from None

    def _of_table(self, local: Path, status: FileStatus) -> None:
        held = held_in_file(local, status.path) or {}
        footer = pq.read_metadata(local)
        digest = sha256_of(local)
        for partition, each in held.items():
            self._keep(TopicPartition(_topic(status.path), partition), status.path, each.runs)
        self.rows += footer.num_rows
        self.checksums[status.path] = digest
        if self._new:
            self.tabled.append(table_file(status, footer, digest))
            self.schema = unified(self.schema, pq.read_schema(local))

    def _beside(self, local: Path, status: FileStatus) -> None:
        path = status.path
        partition, held, rows, (start, until) = _contents(local, path)
        self._keep(TopicPartition(_topic(path), partition), path, held)
        file = DataFile(
            path=path,
            staged=path,
            topic=_topic(path),
            partition=partition,
            start=start,
            until=until,
            rows=rows,
            size_bytes=status.size_bytes,
            sha256=sha256_of(local),
            offsets=tuple(joined(held)) if _lists_offsets(path, partition) else (),
        )
        if is_quarantine(path):
            self.quarantined.append(file)
            return
        self.data.append(file)
        self.rows += rows

    def _keep(self, source: TopicPartition, path: str, held: Runs) -> None:
        self.found.setdefault(source, _Found()).files.append((path, held))


def table_file(status: FileStatus, footer: pq.FileMetaData, sha256: str) -> TableFile:
    """Describe an existing Parquet file, for a commit that adds it."""
    return TableFile(
        path=status.path,
        rows=footer.num_rows,
        size_bytes=status.size_bytes,
        sha256=sha256,
        stats=statistics(footer),
    )


def unified(known: pa.Schema | None, found: pa.Schema) -> pa.Schema:
    """Return the columns of two files as one schema; raise ValueError when they do not fit."""
    # The library writes bytes and text as views: the same in Parquet, another type in Arrow.
    plain = {pa.binary_view(): pa.binary(), pa.string_view(): pa.string()}
    found = pa.schema([each.with_type(plain.get(each.type, each.type)) for each in found])
    try:
        return found if known is None else pa.unify_schemas([known, found])
    except pa.ArrowTypeError as error:
        raise ValueError(str(error)) from None


def _lists_offsets(path: str, partition: int) -> bool:
    """Return whether a ledger names the offsets of a file."""
    return (
        is_quarantine(path)
        or isinstance(partition, Partition07)
        or format_of(path).offset_columns is None
    )


def _contents(local: Path, path: str) -> tuple[int, Runs, int, tuple[int, int]]:
    """Return partition, runs of offsets, number of rows and extent of a file beside the table.

    Raises:
        ValueError: they are unknown.
    """
    if is_quarantine(path):
        [partition] = quarantined_partitions(local)
        rows, start, until = quarantine_extent(local)
        return partition, sorted(held_in_quarantine(local)), rows, (start, until)
    held = held_in_file(local, path)
    if held is None:
        return _named_contents(local, path)
    if len(held) != 1:
        raise ValueError(f"it holds rows of {len(held)} partitions, not of one")
    [(number, each)] = held.items()
    return number, each.runs, format_of(path).count_rows(local), (each.start, each.until)


def _named_contents(local: Path, path: str) -> tuple[int, Runs, int, tuple[int, int]]:
    name = named_by_loader(path)
    if name is None:
        raise ValueError("its name is not one of the loader's")
    partition, start, until = name
    if isinstance(partition, Partition07):
        raise ValueError("it does not record which bytes of a log of Kafka 0.7 its rows came from")
    rows = format_of(path).count_rows(local)
    if rows != until - start:
        raise ValueError(
            f"it has {rows} rows and its name {until - start} offsets, so the offsets of "
            "its rows are unknown"
        )
    return partition, [(start, until)], rows, (start, until)


def _topic(path: str) -> str:
    [topic] = [part for part in path.split("/") if part.startswith("topic=")][:1]
    return topic.removeprefix("topic=")


def _require_once(found: dict[TopicPartition, _Found]) -> None:
    """Raise LoadError when offsets are in more than one file."""
    problems = list(_twice(found))
    if problems:
        more = f"\n  … and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        listed = "\n".join(f"  {each}" for each in problems[:_SHOWN])
        raise LoadError(
            "offsets are in more than one file, so nothing was taken over:\n"
            f"{listed}{more}\nMove all but one of those files away, then try again"
        )


def _twice(found: dict[TopicPartition, _Found]) -> Iterator[str]:
    for source, each in sorted(found.items()):
        for start, until in repeated(run for _, held in each.files for run in held):
            names = sorted(path for path, held in each.files if _meets(held, start, until))
            yield f"{source} [{start}, {until}): {', '.join(names)}"


def _meets(held: Iterable[tuple[int, int]], start: int, until: int) -> bool:
    return any(first < until and last > start for first, last in held)
