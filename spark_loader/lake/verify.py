"""The proof over manifests and files, offline: no gap, no duplicate, nothing changed.

    offsets the manifests account for
      = offsets in data files + in quarantine + in the gap ledger + absent from the log or aborted,
    each exactly once; and every file has the length, rows and checksum that were published.

Of a log of Kafka 0.7 offsets are bytes: a file accounts for those of the entries whose last message
it holds, so that every entry is in exactly one file, whatever its size.

Invariant: the proof trusts file contents, not what mappers said, wherever a format holds offsets
(Parquet, JSON); for raw files it relies on the published runs of offsets and on the checksum.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from spark_loader.errors import CheckpointError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.contents import count_rows, data_files, held_offsets, is_quarantine
from spark_loader.lake.integrity import missing_manifests
from spark_loader.lake.ledger import DataFile, Manifest, live
from spark_loader.lake.operate import require_loaded
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.reader import ABORTED
from spark_loader.reading.runs import Runs, joined, minus, repeated
from spark_loader.reading.splits import OffsetRange
from spark_loader.storage.files import LakeFileSystem, join, sha256_of
from zkbroker.types import Partition07


@dataclass(slots=True)
class Report:
    """The outcome of a check.

    Attributes:
        problems: what is wrong, each a sentence; empty when the proof holds.
        absent_offsets: of control records, and of what was compacted.
        aborted_offsets: of records that aborted transactions wrote.
        covered: the ranges accounted for, per partition.
    """

    problems: list[str] = field(default_factory=list)
    manifests: int = 0
    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    quarantined: int = 0
    gap_offsets: int = 0
    absent_offsets: int = 0
    aborted_offsets: int = 0
    covered: list[OffsetRange] = field(default_factory=list)


def verify(filesystem: LakeFileSystem, output: str) -> Report:
    """Prove that an output directory holds each offset exactly once.

    Raises:
        CheckpointError: a manifest cannot be read.
        LoadError: there is no manifest: a misspelt directory proves nothing.
    """
    checkpoints = Checkpoints(filesystem, output)
    require_loaded(checkpoints)
    output = checkpoints.output
    report = Report(problems=missing_manifests(checkpoints, filesystem, altered=True))
    manifests = list(_readable(checkpoints, report))
    data, quarantined = live(manifests)
    report.manifests, report.files = len(manifests), len(data)
    found: dict[TopicPartition, Runs] = {}
    for file in data:
        held = _check(filesystem, output, file, report)
        found.setdefault(TopicPartition(file.topic, file.partition), []).extend(held)
        report.rows += file.rows
        report.size_bytes += file.size_bytes
    for file in quarantined:
        held = _check(filesystem, output, file, report)
        found.setdefault(TopicPartition(file.topic, file.partition), []).extend(held)
        report.quarantined += file.rows
    expected = accounted(manifests)
    for source, ranges in withheld(manifests).items():
        found.setdefault(source, []).extend((start, until) for start, until, _ in ranges)
        for start, until, kind in ranges:
            match kind:
                case Withheld.GAP:
                    report.gap_offsets += until - start
                case Withheld.ABSENT:
                    report.absent_offsets += until - start
                case Withheld.ABORTED:
                    report.aborted_offsets += until - start
    for source in sorted(set(expected) | set(found)):
        _compare(source, expected.get(source, []), sorted(found.get(source, [])), report)
    _unnamed(filesystem, output, {file.path for file in data}, report)
    report.covered = [
        OffsetRange(source.topic, source.partition, start, until)
        for source, ranges in sorted(expected.items())
        for start, until in ranges
    ]
    return report


def _readable(checkpoints: Checkpoints, report: Report) -> Iterator[Manifest]:
    """Yield the manifests since the beginning, reporting those that are not as they were written.

    What an altered one says is compared with the files all the same.
    """
    beginning = 0
    numbers = checkpoints.manifest_numbers()
    with contextlib.suppress(CheckpointError):
        beginning = checkpoints.manifest(numbers[-1], altered=True).beginning
    for run in numbers:
        if run < beginning:
            continue
        try:
            checkpoints.manifest(run)
        except CheckpointError as error:
            report.problems.append(str(error))
        with contextlib.suppress(CheckpointError):
            yield checkpoints.manifest(run, altered=True)


def accounted(manifests: Iterable[Manifest]) -> dict[TopicPartition, Runs]:
    """Return the ranges that manifests account for, after what was taken back, joined."""
    ranges: dict[TopicPartition, Runs] = {}
    for manifest in manifests:
        if manifest.kind == "rewind":
            for source in {each.source for each in manifest.ranges}:
                cut = min(each.start for each in manifest.ranges if each.source == source)
                ranges[source] = _below(ranges.get(source, []), cut)
            continue
        for each in manifest.ranges:
            ranges.setdefault(each.source, []).append((each.start, each.until))
        planned = {each.source: (each.start, each.until) for each in manifest.ranges}
        for gap in manifest.gaps:
            source = TopicPartition(gap.topic, gap.partition)
            start, until = planned.get(source, (gap.until, gap.until))
            if not start <= gap.start < until:
                ranges.setdefault(source, []).append((gap.start, gap.until))
    return {source: joined(each) for source, each in ranges.items() if each}


class Withheld(Enum):
    """Why offsets are in no file."""

    GAP = "given up"
    ABSENT = "absent from the log"
    ABORTED = "aborted"


def withheld(
    manifests: Iterable[Manifest],
) -> dict[TopicPartition, list[tuple[int, int, Withheld]]]:
    """Return the offsets that are in no file and why, after what was taken back."""
    found: dict[TopicPartition, list[tuple[int, int, Withheld]]] = {}
    for manifest in manifests:
        if manifest.kind == "rewind":
            for each in manifest.ranges:
                kept = found.get(each.source, [])
                found[each.source] = [
                    (start, min(until, each.start), kind)
                    for start, until, kind in kept
                    if start < each.start
                ]
            continue
        for gap in manifest.gaps:
            source = TopicPartition(gap.topic, gap.partition)
            found.setdefault(source, []).append((gap.start, gap.until, Withheld.GAP))
        for gap in manifest.absent:
            source = TopicPartition(gap.topic, gap.partition)
            kind = Withheld.ABORTED if gap.cause == ABORTED else Withheld.ABSENT
            found.setdefault(source, []).append((gap.start, gap.until, kind))
    return found


def _check(filesystem: LakeFileSystem, output: str, file: DataFile, report: Report) -> Runs:
    """Compare a file with what was published about it; return the runs of offsets it holds."""
    path = join(output, file.path)
    size = filesystem.size(path)
    if size is None:
        report.problems.append(f"{file.path} is missing")
        return []
    if size != file.size_bytes:
        report.problems.append(f"{file.path} has {size} bytes, {file.size_bytes} were published")
        return []
    with filesystem.opened(path) as local:
        if sha256_of(local) != file.sha256:
            report.problems.append(f"{file.path} was changed: its checksum is another")
            return []
        found = held_offsets(local, file.path)
        rows = count_rows(local, file.path)
    held = list(file.offsets) if found is None else found
    if isinstance(file.partition, Partition07):
        # Bytes of entries: there are fewer of them than bytes, and more rows than entries.
        if not is_quarantine(file.path) and rows != file.rows:
            report.problems.append(f"{file.path} holds {rows} rows, {file.rows} were published")
        if joined(held) != list(file.offsets):
            report.problems.append(f"{file.path} holds other entries than were published")
        return held
    count = sum(until - start for start, until in held)
    if not is_quarantine(file.path) and count != file.rows:
        report.problems.append(f"{file.path} holds {count} offsets, {file.rows} were published")
    if held and (held[0][0], held[-1][1]) != (file.start, file.until):
        report.problems.append(
            f"{file.path} holds [{held[0][0]}, {held[-1][1]}), "
            f"[{file.start}, {file.until}) was published"
        )
    return held


def _compare(source: TopicPartition, expected: Runs, found: Runs, report: Report) -> None:
    """Report every offset that is missing, repeated or beyond what manifests account for."""
    for start, until in repeated(found):
        report.problems.append(f"{source}: offsets [{start}, {until}) are twice")
    present = joined(found)
    for start, until in minus(expected, present):
        report.problems.append(f"{source}: offsets [{start}, {until}) are missing")
    for start, until in minus(present, expected):
        report.problems.append(
            f"{source}: offsets [{start}, {until}) are there but no manifest accounts for them"
        )


def _unnamed(filesystem: LakeFileSystem, output: str, known: set[str], report: Report) -> None:
    """Report data files beside the published ones, which a reader without manifests would see."""
    for each in data_files(filesystem, output):
        if each.path not in known:
            report.problems.append(f"{each.path} is there but no manifest names it")


def _below(ranges: Runs, cut: int) -> Runs:
    return [(start, min(until, cut)) for start, until in ranges if start < cut]
