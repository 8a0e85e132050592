"""The proof over manifests and files, offline: no gap, no duplicate, nothing changed.

    offsets the manifests account for
      = offsets in data files + in quarantine + in the gap ledger + absent from the log,
    each exactly once; and every file has the length, rows and checksum that were published.

Invariant: the proof trusts file contents, not what mappers said, wherever a format holds offsets
(Parquet, JSON); for raw files it relies on the published runs of offsets and on the checksum.
"""

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_loader.checkpoint import STATE, Checkpoints
from spark_loader.files import FileSystem, join, sha256_of
from spark_loader.ledger import DataFile, Manifest, live
from spark_loader.operate import require_loaded
from spark_loader.positions import TopicPartition
from spark_loader.reader import runs
from spark_loader.splits import OffsetRange

Runs = list[tuple[int, int]]


@dataclass(slots=True)
class Report:
    """The outcome of a check.

    Attributes:
        problems: what is wrong, each a sentence; empty when the proof holds.
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
    covered: list[OffsetRange] = field(default_factory=list)


def verify(filesystem: FileSystem, output: str) -> Report:
    """Prove that an output directory holds each offset exactly once.

    Raises:
        CheckpointError: a manifest cannot be read.
        LoadError: there is no manifest: a misspelt directory proves nothing.
    """
    checkpoints = Checkpoints(filesystem, output)
    require_loaded(checkpoints)
    output = checkpoints.output
    manifests = list(checkpoints.manifests())
    data, quarantined = live(manifests)
    report = Report(manifests=len(manifests), files=len(data))
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
        for start, until, is_gap in ranges:
            if is_gap:
                report.gap_offsets += until - start
            else:
                report.absent_offsets += until - start
    for source in sorted(set(expected) | set(found)):
        _compare(source, expected.get(source, []), sorted(found.get(source, [])), report)
    _strangers(filesystem, output, {file.path for file in data}, report)
    report.covered = [
        OffsetRange(source.topic, source.partition, start, until)
        for source, ranges in sorted(expected.items())
        for start, until in ranges
    ]
    return report


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
    return {source: _joined(sorted(each)) for source, each in ranges.items() if each}


def withheld(manifests: Iterable[Manifest]) -> dict[TopicPartition, list[tuple[int, int, bool]]]:
    """Return gaps (True) and offsets absent from the log (False), after what was taken back."""
    found: dict[TopicPartition, list[tuple[int, int, bool]]] = {}
    for manifest in manifests:
        if manifest.kind == "rewind":
            for each in manifest.ranges:
                kept = found.get(each.source, [])
                found[each.source] = [
                    (start, min(until, each.start), is_gap)
                    for start, until, is_gap in kept
                    if start < each.start
                ]
            continue
        for gaps, is_gap in ((manifest.gaps, True), (manifest.absent, False)):
            for gap in gaps:
                source = TopicPartition(gap.topic, gap.partition)
                found.setdefault(source, []).append((gap.start, gap.until, is_gap))
    return found


def _check(filesystem: FileSystem, output: str, file: DataFile, report: Report) -> Runs:
    """Compare a file with what was published about it; return the runs of offsets it holds."""
    path = join(output, file.path)
    size = filesystem.size(path)
    if size is None:
        report.problems.append(f"{file.path} is missing")
        return []
    if size != file.size_bytes:
        report.problems.append(f"{file.path} has {size} bytes, {file.size_bytes} were published")
        return []
    local = filesystem.open_local(path)
    if sha256_of(local) != file.sha256:
        report.problems.append(f"{file.path} was changed: its checksum is another")
        return []
    held = _offsets(local, file)
    count = sum(until - start for start, until in held)
    if not file.path.startswith(STATE) and count != file.rows:
        report.problems.append(f"{file.path} holds {count} offsets, {file.rows} were published")
    if held and (held[0][0], held[-1][1]) != (file.start, file.until):
        report.problems.append(
            f"{file.path} holds [{held[0][0]}, {held[-1][1]}), "
            f"[{file.start}, {file.until}) was published"
        )
    return held


def _offsets(local: Path, file: DataFile) -> Runs:
    if file.path.startswith(STATE):
        with local.open("rb") as lines:
            rows = [json.loads(line) for line in lines]
        return [(row["offset"], row.get("until", row["offset"] + 1)) for row in rows]
    if file.path.endswith(".parquet"):
        column = pq.ParquetFile(local).read(["offset"]).column("offset")
        return runs(column.combine_chunks())
    if file.path.endswith(".jsonl"):
        with local.open("rb") as lines:
            return runs(pa.array([json.loads(line)["offset"] for line in lines], pa.int64()))
    return list(file.offsets)


def _compare(source: TopicPartition, expected: Runs, found: Runs, report: Report) -> None:
    """Report every offset that is missing, repeated or beyond what manifests account for."""
    for (_, until), (start, later) in itertools.pairwise(found):
        if start < until:
            report.problems.append(f"{source}: offsets [{start}, {min(until, later)}) are twice")
    present = _joined(found)
    for start, until in _minus(expected, present):
        report.problems.append(f"{source}: offsets [{start}, {until}) are missing")
    for start, until in _minus(present, expected):
        report.problems.append(
            f"{source}: offsets [{start}, {until}) are there but no manifest accounts for them"
        )


def _strangers(filesystem: FileSystem, output: str, known: set[str], report: Report) -> None:
    """Report data files beside the published ones, which a reader without manifests would see."""
    for directory in filesystem.names(output):
        if not directory.startswith("topic="):
            continue
        for each in filesystem.walk(join(output, directory)):
            path = f"{directory}/{each.path}"
            if path not in known and not path.rpartition("/")[2].startswith((".", "_")):
                report.problems.append(f"{path} is there but no manifest names it")


def _below(ranges: Runs, cut: int) -> Runs:
    return [(start, min(until, cut)) for start, until in ranges if start < cut]


def _joined(ranges: Iterable[tuple[int, int]]) -> Runs:
    """Join sorted runs that touch or overlap."""
    joined: Runs = []
    for start, until in ranges:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], until))
        else:
            joined.append((start, until))
    return joined


def _minus(left: Runs, right: Runs) -> Runs:
    """Return the parts of sorted, joined runs that other such runs do not cover."""
    rest: Runs = []
    for start, until in left:
        for other_start, other_until in right:
            if other_until <= start or other_start >= until:
                continue
            if other_start > start:
                rest.append((start, other_start))
            start = max(start, other_until)
        if start < until:
            rest.append((start, until))
    return rest
