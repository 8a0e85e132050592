"""Takes the data files of a directory over as a new beginning, where its checkpoints cannot be.

    files ─▶ offsets each holds, read from it ─▶ positions, gaps ─▶ one manifest of kind `adopt`

Invariant: after it `verify` holds. A partition goes on behind the last offset that a file holds;
offsets below that in no file are entered in the gap ledger; offsets in two files are refused, for
which of them counts is not for a program to choose. Manifests before it no longer count.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from spark_loader.errors import AlteredCheckpoint, LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.contents import (
    count_lines,
    count_rows,
    data_files,
    extent,
    held_offsets,
    held_partitions,
    holds_positions,
    is_quarantine,
    named_by_loader,
    quarantine_files,
)
from spark_loader.lake.ledger import DataFile, Gap, Manifest, now_text
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.runs import Runs, joined, minus, repeated
from spark_loader.reading.splits import OffsetRange
from spark_loader.storage.files import FileStatus, LakeFileSystem, join, sha256_of
from spark_loader.words import counted
from zkbroker.types import Partition07

_CAUSE = "no file that was taken over holds these offsets"
_SHOWN = 10


@dataclass(slots=True)
class _Found:
    """What the files of one partition hold."""

    files: list[tuple[str, Runs]] = field(default_factory=list)

    @property
    def covered(self) -> Runs:
        return joined(run for _, held in self.files for run in held)


def adopt(checkpoints: Checkpoints, filesystem: LakeFileSystem) -> Manifest:
    """Write the manifest of a new beginning and return it.

    Raises:
        LoadError: there is no data file, one cannot be read, or two hold the same offsets; nothing
            was changed.
    """
    manifest = survey(checkpoints, filesystem)
    checkpoints.write_manifest(manifest)
    # Runs that were planned before are given up; what they staged can never count.
    for run in checkpoints.run_numbers():
        for name in checkpoints.staged_names(run):
            filesystem.delete(join(checkpoints.output, checkpoints.staging(run), name))
    return manifest


def survey(checkpoints: Checkpoints, filesystem: LakeFileSystem) -> Manifest:
    """Return the manifest that `adopt` would write."""
    output = checkpoints.output
    data = [_look_into(filesystem, output, each) for each in data_files(filesystem, output)]
    if not data:
        raise LoadError(f"{output} holds no data files that could be taken over")
    quarantined = [
        _look_into(filesystem, output, each) for each in quarantine_files(filesystem, output)
    ]
    found: dict[TopicPartition, _Found] = {}
    for file, held in [*data, *quarantined]:
        source = TopicPartition(file.topic, file.partition)
        found.setdefault(source, _Found()).files.append((file.path, held))
    _require_once(found)
    spans = {source: (each.covered[0][0], each.covered[-1][1]) for source, each in found.items()}
    before = _before(checkpoints)
    run = checkpoints.next_run()
    rows = sum(file.rows for file, _ in data)
    return Manifest(
        run=run,
        created=now_text(),
        kind="adopt",
        ranges=tuple(
            OffsetRange(source.topic, source.partition, start, until)
            for source, (start, until) in sorted(spans.items())
        ),
        files=tuple(file for file, _ in data),
        quarantined=tuple(file for file, _ in quarantined),
        gaps=tuple(
            Gap(source.topic, source.partition, start, until, _CAUSE)
            for source, each in sorted(found.items())
            for start, until in minus([spans[source]], each.covered)
        ),
        rows=rows,
        positions={source: until for source, (_, until) in spans.items()},
        topics_created_ms=before.topics_created_ms if before is not None else {},
        group=before.group if before is not None else "",
        note=f"{counted(len(data), 'data file')} with {counted(rows, 'row')} taken over",
        beginning=run,
    )


def _before(checkpoints: Checkpoints) -> Manifest | None:
    """Return the last manifest if it can still be read."""
    try:
        return checkpoints.latest()
    except AlteredCheckpoint:
        return None


def _look_into(
    filesystem: LakeFileSystem, output: str, status: FileStatus
) -> tuple[DataFile, Runs]:
    """Describe a file by its contents."""
    path = status.path
    topic = _topic(path)
    with filesystem.opened(join(output, path)) as local:
        try:
            partition, held, rows, (start, until) = _contents(local, path)
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise LoadError(
                f"{path} cannot be taken over ({error}): move it out of {output}, then try again"
            ) from None
        digest = sha256_of(local)
    file = DataFile(
        path=path,
        staged=path,
        topic=topic,
        partition=partition,
        start=start,
        until=until,
        rows=rows,
        size_bytes=status.size_bytes,
        sha256=digest,
        offsets=tuple(held) if _lists_offsets(path, partition) else (),
    )
    return file, held


def _lists_offsets(path: str, partition: int) -> bool:
    """Return whether a ledger names the offsets of a file."""
    return is_quarantine(path) or path.endswith(".txt") or isinstance(partition, Partition07)


def _contents(local: Path, path: str) -> tuple[int, Runs, int, tuple[int, int]]:
    """Return partition, runs of offsets, number of rows and extent.

    Raises:
        ValueError: they cannot be told.
    """
    held = held_offsets(local, path)
    name = named_by_loader(path)
    if held is None:
        if name is None or not path.endswith(".txt"):
            raise ValueError("its name is not one that the loader gives")
        partition, start, until = name
        if isinstance(partition, Partition07):
            raise ValueError("which bytes of a log of Kafka 0.7 its lines are from cannot be told")
        lines = count_lines(local)
        if lines != until - start:
            raise ValueError(
                f"it has {lines} lines and its name {until - start} offsets, so which line is of "
                "which offset cannot be told"
            )
        return partition, [(start, until)], lines, (start, until)
    partitions = held_partitions(local, path)
    if partitions is not None and len(partitions) == 1 and holds_positions(local, path):
        number = partitions.pop()
        of_07 = number if isinstance(number, Partition07) else Partition07.from_number(number)
        return of_07, joined(held), count_rows(local, path), extent(local, path)
    if not held or partitions is None or len(partitions) != 1:
        raise ValueError(f"it holds rows of {len(partitions or ())} partitions, not of one")
    rows = sum(until - start for start, until in held)
    if is_quarantine(path):
        rows = len(held)
    held = sorted(held)
    return int(partitions.pop()), held, rows, (held[0][0], held[-1][1])


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
