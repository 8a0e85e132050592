"""The plan of a run: the offsets to load, fixed once, and the gaps with their causes.

Invariant: for every planned partition, disjoint ranges and gaps cover `[position, end)` in order; a
    partition for which this is impossible is left out whole. Positions come from the last entry. A
    partition that it does not name starts where the options say, or at its beginning if its topic
    was loaded before, since the partition was added later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from spark_loader.errors import DataLoss, LoadError
from spark_loader.lake.ledger import Entry, Gap, Plan, now_text
from spark_loader.load.options import LoadOptions
from spark_loader.reading.cuts import at_cuts, split_at_cuts
from spark_loader.reading.positions import AtOffsets, AtTimes, Bound, TopicPartition, TopicSelection
from spark_loader.reading.reader import POLICY_ADVICE
from spark_loader.reading.resolve import SourceCluster, estimate_bytes, find_partitions, resolve
from spark_loader.reading.splits import OffsetRange, cap_records, split_for_loading
from zkbroker.errors import UnknownTopicOrPartition


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets in the log of a partition: `[start, end)`.

    Attributes:
        readable: where reading ends: before `end` if committed records are read and a transaction
            is open.
    """

    start: int
    end: int
    readable: int


def make_plan(
    run: int, options: LoadOptions, view: SourceCluster, latest: Entry | None
) -> tuple[Plan | None, list[DataLoss]]:
    """Plan a run; None when there is nothing new at all.

    Returns:
        the plan, and the error of each partition that it leaves out: a position out of the log's
        range where the policy is `fail`.

    Raises:
        LoadError: no topic matches.
    """
    known = latest.positions if latest is not None else {}
    partitions, held = _present(wanted_topics(options, view), view, known)
    # Logs grow and are trimmed meanwhile; in this order no offset is above the next one.
    starts = view.earliest(partitions)
    first = first_positions(options, view, partitions, known)
    readable = view.latest(partitions)
    ends = view.log_ends(partitions)
    extents = {tp: Extent(starts[tp], ends[tp], readable[tp]) for tp in partitions}
    positions = {tp: known.get(tp, first.get(tp, starts[tp])) for tp in partitions}
    gaps: list[Gap] = []
    begin: dict[TopicPartition, int] = {}
    created = view.created_ms(sorted({tp.topic for tp in partitions}))
    before = latest.topics_created_ms if latest is not None else {}
    for tp in partitions:
        try:
            check_same_topic(tp, known.get(tp, 0), before, created)
            begin[tp], gap = place(tp, positions[tp], extents[tp], options.policy(tp))
        except DataLoss as error:
            held[tp] = error
            continue
        if gap is not None:
            gaps.append(gap)
    partitions = sorted(begin)
    until = {tp: max(begin[tp], extents[tp].readable) for tp in partitions}
    if options.max_records is not None:
        until = at_cuts(view, begin, cap_records(begin, until, options.max_records))
    sizes = estimate_bytes(view, begin, until)
    if options.max_bytes is not None and sum(sizes.values()) > options.max_bytes:
        records = sum(until[tp] - begin[tp] for tp in partitions)
        most = max(1, records * options.max_bytes // sum(sizes.values()))
        until = at_cuts(view, begin, cap_records(begin, until, most))
        sizes = estimate_bytes(view, begin, until)
    ranges = [
        OffsetRange(tp.topic, tp.partition, begin[tp], until[tp], sizes[tp])
        for tp in partitions
        if until[tp] > begin[tp]
    ]
    unknown = [tp for tp in partitions if tp not in known]
    if not ranges and not gaps and not unknown:
        return None, list(held.values())
    mappers = split_for_loading(
        ranges, split_bytes=options.split_bytes, group_bytes=options.group_bytes
    )
    mappers = _at_cuts(view, mappers)
    plan = Plan(
        run=run,
        created=now_text(),
        mappers=tuple(map(tuple, mappers)),
        gaps=tuple(gaps),
        positions={tp: gap_free(tp, positions[tp], begin[tp], gaps) for tp in partitions},
        log_starts=starts,
        log_ends=ends,
        read_committed=options.read_committed,
        # A topic with partitions held back keeps its old time, so that they are checked next time.
        topics_created_ms={
            **created,
            **{tp.topic: before[tp.topic] for tp in held if tp.topic in before},
        },
    )
    return plan, list(held.values())


def _at_cuts(view: SourceCluster, mappers: list[list[OffsetRange]]) -> list[list[OffsetRange]]:
    """Move the cuts within split partitions to places where those may be cut."""
    split = [mapper[0] for mapper in mappers if len(mapper) == 1]
    whole = [mapper for mapper in mappers if len(mapper) != 1]
    pieces = split_at_cuts(view, sorted(split, key=lambda r: (r.topic, r.partition, r.start)))
    if len(pieces) == len(split) and set(pieces) == set(split):
        return mappers
    moved = [[each] for each in pieces] + whole
    return sorted(moved, key=lambda m: (-sum(r.size for r in m), m[0].topic, m[0].partition))


def check_same_topic(
    tp: TopicPartition, position: int, before: Mapping[str, int], now: Mapping[str, int]
) -> None:
    """Check that a position belongs to the present topic.

    Raises:
        DataLoss: the topic was deleted and created again, so its offsets would repeat.
    """
    was, now_is = before.get(tp.topic), now.get(tp.topic)
    if position and was is not None and now_is is not None and was != now_is:
        raise DataLoss(
            f"{tp}: offsets below {position} were loaded before the topic was created again, and "
            "would repeat. Load it into another output directory; or, if it is the same log, say "
            f"so with `zkbroker-load set --topic {tp.topic} --partition {tp.partition} --to "
            f"{position}`"
        )


def gap_free(tp: TopicPartition, position: int, begin: int, gaps: Iterable[Gap]) -> int:
    """Return where a run's account of a partition starts: before its gap, if it has one."""
    starts = [gap.start for gap in gaps if gap.source == tp]
    return min([begin, *starts]) if starts else min(begin, position)


def wanted_topics(options: LoadOptions, view: SourceCluster) -> tuple[str, ...]:
    """Return the topics to load; raise LoadError when none matches."""
    topics = options.topics or tuple(topic for topic in view.topics() if options.wants(topic))
    if not topics:
        raise LoadError(
            f"no topic matches whitelist={options.whitelist!r} blacklist={options.blacklist!r}: "
            "correct the regex, which has to match whole names, or create the topic"
        )
    return topics


def _present(
    topics: Iterable[str], view: SourceCluster, known: Mapping[TopicPartition, int]
) -> tuple[list[TopicPartition], dict[TopicPartition, DataLoss]]:
    """Return the partitions of topics, in order, and an error for each topic that is gone.

    Raises:
        UnknownTopicOrPartition: a topic does not exist and was never loaded: it may be misspelt.
    """
    partitions: list[TopicPartition] = []
    held: dict[TopicPartition, DataLoss] = {}
    for topic in topics:
        loaded = sorted(tp for tp in known if tp.topic == topic)
        try:
            partitions += find_partitions(TopicSelection(subscribe=(topic,)), view)
        except UnknownTopicOrPartition:
            if not loaded:
                raise
            trouble = DataLoss(
                f"topic {topic} is no longer in the cluster; its loaded records stay. Leave it "
                "out of the loads, or create it again"
            )
            held.update(dict.fromkeys(loaded, trouble))
    return sorted(partitions), held


def first_positions(
    options: LoadOptions,
    view: SourceCluster,
    partitions: list[TopicPartition],
    known: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the starting offsets, by the options, of partitions of topics never loaded before."""
    loaded_topics = {tp.topic for tp in known}
    first = [tp for tp in partitions if tp.topic not in loaded_topics]
    if not first:
        return {}
    return resolve(
        only(options.starting, set(first)),
        first,
        view,
        option="starting offsets",
        latest_when_no_time_matches=True,
    )


def only(bound: Bound, wanted: set[TopicPartition]) -> Bound:
    """Return a bound without the partitions that are not wanted: an earlier run used theirs."""
    if isinstance(bound, AtOffsets):
        return replace(bound, offsets={tp: o for tp, o in bound.offsets.items() if tp in wanted})
    if isinstance(bound, AtTimes):
        kept = {tp: t for tp, t in bound.timestamps_ms.items() if tp in wanted}
        return replace(bound, timestamps_ms=kept)
    return bound


def place(tp: TopicPartition, position: int, extent: Extent, policy: str) -> tuple[int, Gap | None]:
    """Return where reading begins in a log, and the gap before it, if any.

    `earliest` and `nearest` go on at the first offset the log has; `latest` gives up all it has.

    Raises:
        DataLoss: the position is out of range and the policy is `fail`, or the log ends before
            it: then offsets would repeat, which no policy may decide.
    """
    if position > extent.end:
        raise DataLoss(
            f"{tp}: the next offset to load is {position}, but the log ends at {extent.end}: it "
            "was cut, or the topic created again. Load it into another output directory, or move "
            "the position with `zkbroker-load rewind`"
        )
    if position >= extent.start:
        return position, None
    if policy == "fail":
        raise DataLoss(
            f"{tp} [{position}, {extent.start}): deleted from the log, which begins at offset "
            f"{extent.start}. {POLICY_ADVICE}"
        )
    begin = extent.readable if policy == "latest" else extent.start
    cause = f"deleted from the log, which begins at offset {extent.start}"
    if policy == "latest":
        cause += "; the policy was to go on at the end"
    return begin, Gap(tp.topic, tp.partition, position, begin, cause)
