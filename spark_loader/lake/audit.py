"""Reconciles a lake with its logs: offsets appended, rows written, offsets left out.

Invariant: rows are counted in the files themselves; left-out offsets are those of the ledger, less
    those that a rewind withdrew.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import Entry, Gap, beside
from spark_loader.lake.operate import in_cluster, require_loaded
from spark_loader.lake.rows import cuts_of, held
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.reader import ABORTED
from spark_loader.reading.resolve import SourceCluster


@dataclass(frozen=True, slots=True)
class Audit:
    """The account of one partition: the offsets of its log, and the outcome of each.

    All counts are of offsets, so of bytes in a log of Kafka 0.7.

    `appended` = rows + quarantined + gaps + absent + aborted + pending, when all is accounted for.

    Attributes:
        appended: from the first offset loaded to the log end.
        absent: control records, and records that were compacted away.
        aborted: records that aborted transactions wrote, left out.
        pending: in the log and not loaded yet.
    """

    source: TopicPartition
    appended: int
    rows: int
    quarantined: int
    gaps: int
    absent: int
    aborted: int
    pending: int

    @property
    def difference(self) -> int:
        """Offsets that no count includes; negative for those that two counts include."""
        left_out = self.gaps + self.absent + self.aborted
        return self.appended - (self.rows + self.quarantined + left_out + self.pending)


def audit(checkpoints: Checkpoints, view: SourceCluster | None = None) -> list[Audit]:
    """Reconcile the brokers' logs with the files written, per partition.

    Log ends are those that the runs recorded, or the present ones when a cluster is given; rows are
    read from the files that count.
    """
    require_loaded(checkpoints)
    entries = checkpoints.table.entries()
    data, quarantined = beside(entries)
    tabled = held(checkpoints.filesystem, checkpoints.output, checkpoints.table.files())
    first: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for entry in entries:
        ends.update(entry.log_ends)
        spans = [(each.source, each.start) for each in entry.ranges]
        spans += [(gap.source, gap.start) for gap in entry.gaps]
        for source, start in spans:
            first[source] = min(first.get(source, start), start)
    positions = entries[-1].positions
    if view is not None:
        there = in_cluster(view, sorted({each.topic for each in positions}))
        ends.update(view.latest(sorted(there & positions.keys())))
    gaps, absent = kept_ledgers(entries)
    books = []
    for source, position in sorted(positions.items()):
        end = max(ends.get(source, position), position)
        begin = first.get(source, position)
        mine = [each for each in absent if each.source == source]
        books.append(
            Audit(
                source,
                appended=end - begin,
                rows=sum(each.accounted for each in data if each.source == source)
                + sum(
                    until - start for each in tabled.get(source, ()) for start, until in each.runs
                ),
                quarantined=sum(
                    until - start
                    for each in quarantined
                    if each.source == source
                    for start, until in each.offsets
                ),
                gaps=offsets_of(each for each in gaps if each.source == source),
                absent=offsets_of(each for each in mine if each.cause != ABORTED),
                aborted=offsets_of(each for each in mine if each.cause == ABORTED),
                pending=end - position,
            )
        )
    return books


def offsets_of(gaps: Iterable[Gap]) -> int:
    """Return how many offsets gaps have together."""
    return sum(each.until - each.start for each in gaps)


def gap_ledger(checkpoints: Checkpoints) -> list[Gap]:
    """Return every gap that still counts, in order."""
    gaps, _ = kept_ledgers(checkpoints.table.entries())
    return gaps


def aborted_offsets(checkpoints: Checkpoints) -> int:
    """Return how many offsets were left out because their transactions were aborted."""
    _, absent = kept_ledgers(checkpoints.table.entries())
    return offsets_of(each for each in absent if each.cause == ABORTED)


def kept_ledgers(entries: Iterable[Entry]) -> tuple[list[Gap], list[Gap]]:
    """Return gaps, and absent or aborted offsets, without those that a rewind took back."""
    gaps: list[Gap] = []
    absent: list[Gap] = []
    for entry in entries:
        if entry.kind == "rewind":
            cuts = cuts_of(entry)
            gaps = _cut(gaps, cuts)
            absent = _cut(absent, cuts)
            continue
        gaps.extend(entry.gaps)
        absent.extend(entry.absent)
    return sorted(gaps, key=_place), sorted(absent, key=_place)


def _cut(gaps: list[Gap], cuts: dict[TopicPartition, int]) -> list[Gap]:
    kept = []
    for gap in gaps:
        cut = cuts.get(gap.source, gap.until)
        if gap.start < cut:
            kept.append(replace(gap, until=min(gap.until, cut)))
    return kept


def _place(gap: Gap) -> tuple[str, int, int]:
    return gap.topic, gap.partition, gap.start
