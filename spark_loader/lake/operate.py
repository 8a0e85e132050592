"""Operators' functions between loads: see how far they are, compare positions, move them.

Invariant: a position is moved only by a commit of its own, so `verify` holds before and after:
    going back removes every row from there on, going forward enters the skipped offsets in the gap
    ledger.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from spark_loader.errors import LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.contents import Held
from spark_loader.lake.integrity import missing_files, require_whole
from spark_loader.lake.ledger import DataFile, Entry, Gap, beside, now_text
from spark_loader.lake.recover import recover
from spark_loader.lake.rows import held, take_back
from spark_loader.lake.seal import seal
from spark_loader.lake.table_files import concerned
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.resolve import SourceCluster
from spark_loader.reading.splits import OffsetRange
from spark_loader.storage.files import join
from zkbroker.errors import UnknownTopicOrPartition
from zkbroker.types import Partition07


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a partition is loaded.

    Attributes:
        position: next offset to load; None when its topic was loaded before it was added.
        log_start, log_end: present extent of the log; None when no cluster was asked.
        group: offset of the consumer group, or None.
        gone: whether it is no longer in the cluster.
    """

    source: TopicPartition
    position: int | None
    log_start: int | None = None
    log_end: int | None = None
    group: int | None = None
    gone: bool = False

    @property
    def lag(self) -> int | None:
        """Number of offsets in the log that are not loaded."""
        if self.log_end is None:
            return None
        begin = self.log_start or 0 if self.position is None else self.position
        return max(0, self.log_end - begin)

    @property
    def beyond(self) -> bool:
        """Whether the log ends before the position: it was cut, or the topic created again."""
        return (
            self.position is not None and self.log_end is not None and self.position > self.log_end
        )

    @property
    def lost(self) -> int:
        """Number of offsets that were deleted from the log before they were loaded."""
        if self.log_start is None or self.position is None:
            return 0
        return max(0, self.log_start - self.position)


def require_loaded(checkpoints: Checkpoints) -> None:
    """Raise LoadError when nothing was ever published in a directory: it may be misspelt.

    Raises:
        DamagedLake: there are data files, and their checkpoints are gone.
    """
    if checkpoints.table.latest() is None:
        require_whole(checkpoints)
        raise LoadError(f"nothing was loaded into {checkpoints.output} yet: it has no table")


def table_paths(checkpoints: Checkpoints, run: int | None = None) -> list[str]:
    """Return the paths of the table's files, now or as they were after a run.

    Raises:
        LoadError: nothing was loaded, there is no such run, or all that was loaded lies beside the
            table.
    """
    require_loaded(checkpoints)
    table = checkpoints.table
    found = table.files(table.version_of(run) if run is not None else None)
    if not found and beside(table.entries())[0]:
        raise LoadError(
            f"{checkpoints.output} has files of JSON or raw lines, which are not in the table: "
            "read them by directory, topic=TOPIC/date=DATE/hour=HOUR"
        )
    return [join(checkpoints.output, each.path) for each in found]


def in_cluster(view: SourceCluster, topics: Iterable[str]) -> set[TopicPartition]:
    """Return the partitions that topics have now; none of a topic that does not exist."""
    found: set[TopicPartition] = set()
    for topic in topics:
        with contextlib.suppress(UnknownTopicOrPartition):
            found.update(TopicPartition(topic, each) for each in view.partitions(topic))
    return found


def require_known(
    checkpoints: Checkpoints, source: TopicPartition, view: SourceCluster | None
) -> None:
    """Check that a partition was loaded before, or is in the cluster.

    Raises:
        LoadError: it is neither, or was not loaded and no cluster is named.
    """
    latest = checkpoints.table.latest()
    if latest is not None and source in latest.positions:
        return
    if checkpoints.unfinished() is not None:
        raise _unfinished()
    if view is None:
        raise LoadError(
            f"{source} was never loaded here: name the cluster (-b or -z), so that it is looked up "
            "there, or correct topic and partition"
        )
    there = sorted(each.partition for each in in_cluster(view, [source.topic]))
    if source.partition not in there:
        known = f"has the partitions {', '.join(map(str, there))}" if there else "does not exist"
        raise LoadError(f"there is no {source} in the cluster: topic {source.topic} {known}")


def status(
    checkpoints: Checkpoints, view: SourceCluster | None = None, group: str = ""
) -> list[Standing]:
    """Return how far each partition is loaded, with lags when a cluster is given."""
    latest = checkpoints.table.latest()
    if latest is None:
        return []
    sources = sorted(latest.positions)
    if view is None:
        return [Standing(each, latest.positions[each]) for each in sources]
    there = in_cluster(view, sorted({each.topic for each in sources}))
    asked = sorted(there)
    starts, ends = view.earliest(asked), view.latest(asked)
    group = group or latest.group
    committed = view.group_offsets(group, sources) if group else {}
    return [
        Standing(
            each,
            latest.positions.get(each),
            starts.get(each),
            ends.get(each),
            committed.get(each),
            gone=each not in there,
        )
        for each in sorted({*sources, *there})
    ]


@dataclass(frozen=True, slots=True)
class Difference:
    """A position in one place and in another."""

    source: TopicPartition
    here: int | None
    there: int | None


def diff(here: dict[TopicPartition, int], there: dict[TopicPartition, int]) -> list[Difference]:
    """Return the partitions in which two sets of positions differ."""
    return [
        Difference(source, here.get(source), there.get(source))
        for source in sorted(here.keys() | there.keys())
        if here.get(source) != there.get(source)
    ]


def positions_at(checkpoints: Checkpoints, run: int | None) -> dict[TopicPartition, int]:
    """Return the positions after a run, the latest one by default; raise when there is none."""
    require_loaded(checkpoints)
    if run is not None:
        return dict(checkpoints.table.entry(run).positions)
    latest = checkpoints.table.latest()
    return dict(latest.positions) if latest is not None else {}


def rewind(
    checkpoints: Checkpoints,
    sources: Sequence[TopicPartition],
    to: int,
) -> dict[TopicPartition, int]:
    """Go back, so that offsets from `to` on are loaded again.

    Rows of the table are removed one by one, so a partition goes back to `to` exactly; in Kafka 0.7
    to the beginning of its entry. Files beside the table (quarantine, JSON, raw) count as a whole:
    where one holds `to`, the partition goes back to the file's beginning.

    Returns:
        the new position of each partition.

    Raises:
        LoadError: a run is unfinished, or no partition has loaded offset `to`.
    """
    recover(checkpoints)
    if checkpoints.unfinished() is not None:
        raise _unfinished()
    table = checkpoints.table
    latest = table.latest()
    if latest is None:
        raise LoadError("nothing was loaded here yet")
    data, quarantined = beside(table.entries())
    files = [*data, *quarantined]
    tabled = table.files()
    lost = missing_files(checkpoints, tabled)
    there = [each for each in tabled if each not in lost]
    positions: dict[TopicPartition, int] = {}
    for source in sources:
        position = latest.positions.get(source)
        if position is None or to > position:
            raise LoadError(f"{source}: offset {to} is not loaded; the position is {position}")

        def held_from(offset: int, source: TopicPartition = source) -> Sequence[Held]:
            begun = concerned(there, {source: offset})
            return held(checkpoints.filesystem, checkpoints.output, begun).get(source, [])

        positions[source] = _rewound(files, source, to, held_from)
    withdrawn = [
        each for each in files if each.source in positions and each.until > positions[each.source]
    ]
    entry = Entry(
        run=checkpoints.next_run(),
        created=now_text(),
        kind="rewind",
        ranges=tuple(
            OffsetRange(each.topic, each.partition, start, latest.positions[each])
            for each, start in sorted(positions.items())
        ),
        withdrawn=tuple(each.path for each in withdrawn),
        positions={**latest.positions, **positions},
        topics_created_ms=latest.topics_created_ms,
        group=latest.group,
        note=f"back to offset {to}",
    )
    if lost:
        # Lost files cannot be searched: remove them from the table first, then the rows of others.
        table.commit(entry, removed=lost, since=latest.positions)
        take_back(table, entry)
    elif tabled:
        table.delete(entry, positions, latest.positions)
    else:
        table.commit(entry, since=latest.positions)
    seal(checkpoints)
    recover(checkpoints)
    return positions


def _rewound(
    files: Sequence[DataFile],
    source: TopicPartition,
    to: int,
    held_from: Callable[[int], Sequence[Held]],
) -> int:
    """Return the greatest offset up to `to` that cuts no file, and in Kafka 0.7 no entry, in two.

    Args:
        files: files beside the table.
        source: the partition.
        to: the wanted offset.
        held_from: returns what the table holds from an offset on.
    """
    start = _stretch_start(files, source, to)
    while isinstance(source.partition, Partition07):
        begun = min([start, *_entry_starts(held_from(start), start)])
        # The beginning of the entry may lie in another file.
        moved = _stretch_start(files, source, begun)
        if moved == start:
            break
        start = moved
    return start


def _entry_starts(found: Iterable[Held], offset: int) -> Iterator[int]:
    """Yield the beginning of the entry of a 0.7 log that contains an offset."""
    for each in found:
        for start, until in each.entries:
            if start < offset < until:
                yield start


def set_position(
    checkpoints: Checkpoints,
    source: TopicPartition,
    to: int,
) -> int:
    """Move a position: forward, with a gap in the ledger for the skipped offsets, or back.

    Returns:
        the new position; on the way back it may lie before `to`, see `rewind`.
    """
    recover(checkpoints)
    latest = checkpoints.table.latest()
    before = latest or Entry(run=0, kind="", created="")
    position = before.positions.get(source)
    if position is not None and to < position:
        return rewind(checkpoints, [source], to)[source]
    if checkpoints.unfinished() is not None:
        raise _unfinished()
    gaps: tuple[Gap, ...] = ()
    if position is not None and to > position:
        gaps = (Gap(source.topic, source.partition, position, to, "passed over by an operator"),)
    entry = Entry(
        run=checkpoints.next_run(),
        created=now_text(),
        kind="set",
        gaps=gaps,
        positions={**before.positions, source: to},
        # The operator has decided that the position fits the present topic.
        topics_created_ms={
            topic: created
            for topic, created in before.topics_created_ms.items()
            if topic != source.topic
        },
        group=before.group,
        note=f"{source} set to {to}",
    )
    checkpoints.table.commit(entry, since=latest.positions if latest is not None else None)
    return to


def _stretch_start(files: Iterable[DataFile], source: TopicPartition, to: int) -> int:
    """Return the greatest offset up to `to` that cuts no file of the partition in two."""
    start = to
    spans = sorted(((f.start, f.until) for f in files if f.source == source), reverse=True)
    moved = True
    while moved:
        moved = False
        for first, until in spans:
            if first < start < until:
                start, moved = first, True
    return start


def _unfinished() -> LoadError:
    return LoadError("a run is unfinished: run the load again to finish it, then move positions")
