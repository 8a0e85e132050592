"""Proves offline, from table, ledger and files: no gap, no duplicate, nothing changed.

    offsets the ledger accounts for
      = offsets in the table + in files beside it + in quarantine + in the gap ledger
        + absent from the log or aborted,
    each exactly once; every file has the length, rows and checksum that were published; and the
    positions in the table's application transactions are those of the ledger.

In Kafka 0.7 offsets are bytes: a file accounts for the entries whose last message it holds, so that
every entry belongs to exactly one file, whatever its size.

Invariant: where a format holds offsets (Parquet, JSON) the proof reads them from the files; for raw
    files it relies on the published runs of offsets and on the checksum.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from spark_loader.errors import AlteredCheckpoint
from spark_loader.lake.audit import kept_ledgers, offsets_of
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.contents import (
    Held,
    data_files,
    held_in_file,
    held_in_quarantine,
    is_quarantine,
)
from spark_loader.lake.integrity import difference
from spark_loader.lake.ledger import DataFile, Entry, beside
from spark_loader.lake.operate import require_loaded
from spark_loader.lake.pinned import PinnedTable
from spark_loader.lake.rows import cuts_of
from spark_loader.lake.table_files import LiveFile
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.reader import ABORTED
from spark_loader.reading.runs import Runs, joined, minus, repeated
from spark_loader.reading.splits import OffsetRange
from spark_loader.sink.data_formats import format_of, in_table
from spark_loader.storage.files import LakeFileSystem, join, sha256_of
from zkbroker.types import Partition07

_MODULUS = 1 << 64


@dataclass(slots=True)
class Report:
    """The outcome of a check.

    Attributes:
        problems: what is wrong, each a sentence; empty when the proof holds.
        commits: runs that the ledger has.
        unsealed: files of the table without a recorded checksum yet; see `seal.py`.
        unreferenced: files that no commit names; `vacuum` removes them.
        rows_crc: sum of the CRC-32 of every value in the table (of b"" where it is null), modulo
            2^64; the order of rows does not matter.
        absent_offsets: offsets of control records, and of records that were compacted away.
        aborted_offsets: offsets of records that aborted transactions wrote.
        covered: the ranges accounted for, per partition.
    """

    problems: list[str] = field(default_factory=list)
    commits: int = 0
    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    unsealed: int = 0
    unreferenced: int = 0
    rows_crc: int = 0
    quarantined: int = 0
    gap_offsets: int = 0
    absent_offsets: int = 0
    aborted_offsets: int = 0
    covered: list[OffsetRange] = field(default_factory=list)


def verify(filesystem: LakeFileSystem, output: str) -> Report:
    """Prove that an output directory holds each offset exactly once.

    Raises:
        CheckpointError: the table or its ledger cannot be read.
        LoadError: there is no table, as in a misspelt directory.
    """
    checkpoints = Checkpoints(filesystem, output)
    require_loaded(checkpoints)
    output = checkpoints.output
    report = Report()
    proof = _Proof(filesystem, output, report)
    # Loads and merges may go on meanwhile, so everything compared is of one commit.
    table = PinnedTable(filesystem, output)
    try:
        entries = table.entries()
        checksums = table.checksums()
    except AlteredCheckpoint as error:
        report.problems.append(str(error))
        return report
    tabled = table.files()
    data, quarantined = beside(entries)
    report.commits, report.files = len(entries), len(tabled) + len(data)
    for file in tabled:
        proof.table_file(file, checksums.get(file.path))
    for kept in [*data, *quarantined]:
        proof.file_beside(kept)
    expected = accounted(entries)
    gaps, absent = kept_ledgers(entries)
    for gap in [*gaps, *absent]:
        proof.found.setdefault(gap.source, []).append((gap.start, gap.until))
    report.gap_offsets = offsets_of(gaps)
    report.aborted_offsets = offsets_of(each for each in absent if each.cause == ABORTED)
    report.absent_offsets = offsets_of(absent) - report.aborted_offsets
    for source in sorted(set(expected) | set(proof.found)):
        _compare(source, expected.get(source, []), sorted(proof.found.get(source, [])), report)
    positions = entries[-1].positions
    for source, at in table.positions(positions).items():
        if at != positions[source]:
            report.problems.append(
                f"{source}: the position is {positions[source]} in the ledger and {at} among the "
                "table's application transactions"
            )
    named = {*(each.path for each in tabled), *(each.path for each in data)}
    unnamed = [each.path for each in data_files(filesystem, output) if each.path not in named]
    report.unreferenced = sum(in_table(each) for each in unnamed)
    strange = [each for each in unnamed if not in_table(each)]
    if strange:
        # Files of a run that is not published yet, or has been published since.
        coming = checkpoints.under_way()
        coming.update(each.path for each in beside(checkpoints.table.entries())[0])
        report.problems.extend(
            f"{each} is there but no commit names it" for each in strange if each not in coming
        )
    report.covered = [
        OffsetRange(source.topic, source.partition, start, until)
        for source, ranges in sorted(expected.items())
        for start, until in ranges
    ]
    return report


def accounted(entries: Iterable[Entry]) -> dict[TopicPartition, Runs]:
    """Return the ranges that the ledger accounts for, joined, without those withdrawn."""
    ranges: dict[TopicPartition, Runs] = {}
    for entry in entries:
        if entry.kind == "rewind":
            for source, cut in cuts_of(entry).items():
                ranges[source] = _below(ranges.get(source, []), cut)
            continue
        for each in entry.ranges:
            ranges.setdefault(each.source, []).append((each.start, each.until))
        planned = {each.source: (each.start, each.until) for each in entry.ranges}
        for gap in entry.gaps:
            start, until = planned.get(gap.source, (gap.until, gap.until))
            if not start <= gap.start < until:
                ranges.setdefault(gap.source, []).append((gap.start, gap.until))
    return {source: joined(each) for source, each in ranges.items() if each}


class _Proof:
    """The offsets found in files, by partition."""

    def __init__(self, filesystem: LakeFileSystem, output: str, report: Report) -> None:
        self._fs = filesystem
        self._output = output
        self._report = report
        self.found: dict[TopicPartition, Runs] = {}

    def table_file(self, file: LiveFile, sha256: str | None) -> None:
        """Compare a file of the table with its published metadata, and add its offsets."""
        report = self._report
        report.rows += file.rows
        report.size_bytes += file.size_bytes
        report.unsealed += sha256 is None
        path = join(self._output, file.path)
        if not self._whole(file.path, file.size_bytes):
            return
        with self._fs.opened(path) as local:
            if sha256 is not None and sha256_of(local) != sha256:
                report.problems.append(f"{file.path} was changed: its checksum is another")
                return
            try:
                held = held_in_file(local, file.path) or {}
                report.rows_crc = (report.rows_crc + rows_crc(local)) % _MODULUS
            except (ValueError, OSError) as error:
                report.problems.append(f"{file.path} cannot be read: {error}")
                return
        rows = sum(each.rows for each in held.values())
        if rows != file.rows:
            report.problems.append(f"{file.path} holds {rows} rows, {file.rows} were published")
        self._take(file.topic, held)

    def file_beside(self, file: DataFile) -> None:
        """Compare a file beside the table with its published metadata, and add its offsets."""
        report = self._report
        quarantine = is_quarantine(file.path)
        if quarantine:
            report.quarantined += file.rows
        else:
            report.rows += file.rows
            report.size_bytes += file.size_bytes
        if not self._whole(file.path, file.size_bytes):
            return
        with self._fs.opened(join(self._output, file.path)) as local:
            if sha256_of(local) != file.sha256:
                report.problems.append(f"{file.path} was changed: its checksum is another")
                return
            if quarantine:
                runs = held_in_quarantine(local)
                if isinstance(file.partition, Partition07):
                    # Messages inside an entry are part of the file's extent, but not of the runs.
                    if joined(runs) != list(file.offsets):
                        report.problems.append(
                            f"{file.path} does not hold the entries that were published"
                        )
                elif runs and (runs[0][0], runs[-1][1]) != (file.start, file.until):
                    report.problems.append(
                        f"{file.path} does not hold the offsets that were published"
                    )
                self._keep(file.source, runs)
                return
            held = held_in_file(local, file.path)
            rows = format_of(file.path).count_rows(local)
        if rows != file.rows:
            report.problems.append(f"{file.path} holds {rows} rows, {file.rows} were published")
        if held is None:
            self._keep(file.source, list(file.offsets))
        else:
            self._take(file.topic, held)

    def _whole(self, path: str, published: int) -> bool:
        size = self._fs.size(join(self._output, path))
        if size != published:
            self._report.problems.append(difference(path, size, published))
        return size == published

    def _take(self, topic: str, held: dict[int, Held]) -> None:
        for partition, each in held.items():
            self._keep(TopicPartition(topic, partition), each.runs)

    def _keep(self, source: TopicPartition, runs: Runs) -> None:
        self.found.setdefault(source, []).extend(runs)


def rows_crc(local: Path) -> int:
    """Return the sum of the CRC-32 of the values in a Parquet file."""
    total = 0
    for batch in pq.ParquetFile(local).iter_batches(columns=["value"]):
        total += sum(map(zlib.crc32, (each or b"" for each in batch.column(0).to_pylist())))
    return total


def _compare(source: TopicPartition, expected: Runs, found: Runs, report: Report) -> None:
    """Report every offset that is missing, repeated or not in the ledger."""
    for start, until in repeated(found):
        report.problems.append(f"{source}: offsets [{start}, {until}) are there twice")
    present = joined(found)
    for start, until in minus(expected, present):
        report.problems.append(f"{source}: offsets [{start}, {until}) are missing")
    for start, until in minus(present, expected):
        report.problems.append(
            f"{source}: offsets [{start}, {until}) are there but no run accounts for them"
        )


def _below(ranges: Runs, cut: int) -> Runs:
    return [(start, min(until, cut)) for start, until in ranges if start < cut]
