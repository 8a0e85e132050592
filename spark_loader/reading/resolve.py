"""Resolves subscriptions and bounds into partitions and offsets, looked up once and then fixed.

Invariant: after `resolve` every partition has a definite offset; `earliest` and `latest` are the
    brokers' answers at that moment and are not looked up again.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from spark_loader.reading.positions import (
    EARLIEST,
    LATEST,
    AtOffset,
    AtOffsets,
    AtTime,
    Bound,
    TopicPartition,
    TopicSelection,
    require_every,
)
from zkbroker.errors import ClientError, UnknownTopicOrPartition

_SAMPLES_PER_TOPIC = 3


class NoOffsetForTime(ClientError):
    """No record is as new as the requested time."""


class SourceCluster(Protocol):
    """A cluster, as the driver sees it."""

    def bootstrap(self) -> tuple[str, ...]:
        """Return `host:port` of the brokers, for the workers."""

    def topics(self) -> list[str]:
        """Return the names of all topics but internal ones."""

    def partitions(self, topic: str) -> list[int]:
        """Return a topic's partitions; raise UnknownTopicOrPartition when there is no topic."""

    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]: ...

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where reading ends; for committed records, at the first open transaction."""

    def log_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where the logs end, whatever transactions are open."""

    def at_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after a time, None where no record is as new."""

    def last_cut(self, source: TopicPartition, start: int, wanted: int) -> int:
        """Return the last place up to `wanted` where a range from `start` on may end.

        `wanted` itself where offsets count records; in Kafka 0.7 the end of an entry, of the first
        one at least.
        """

    def cuts(self, source: TopicPartition) -> list[int] | None:
        """Return places where a partition may be split, in order; None for anywhere."""

    def record_bytes(self, source: TopicPartition, offset: int) -> float:
        """Estimate the bytes of a record in the log from one chunk."""

    def created_ms(self, topics: Sequence[str]) -> dict[str, int]:
        """Return when topics were created, as far as the cluster knows."""

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Write `/consumers/[group]/offsets`."""

    def group_offsets(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Read `/consumers/[group]/offsets`; partitions without one are left out."""

    def close(self) -> None: ...


def find_partitions(subscription: TopicSelection, view: SourceCluster) -> list[TopicPartition]:
    """Return the partitions that a subscription selects now, in order.

    Raises:
        UnknownTopicOrPartition: a named topic or partition does not exist.
    """
    if subscription.pattern:
        pattern = re.compile(subscription.pattern)
        topics = [topic for topic in view.topics() if pattern.fullmatch(topic)]
    else:
        topics = list(
            dict.fromkeys([*subscription.subscribe, *(tp.topic for tp in subscription.assign)])
        )
    found = [TopicPartition(topic, each) for topic in topics for each in view.partitions(topic)]
    if subscription.assign:
        missing = sorted(set(subscription.assign) - set(found))
        if missing:
            raise UnknownTopicOrPartition(f"assigned but not there: {', '.join(map(str, missing))}")
        return list(subscription.assign)
    return sorted(found)


def resolve(
    bound: Bound,
    partitions: Sequence[TopicPartition],
    view: SourceCluster,
    *,
    option: str,
    latest_when_no_time_matches: bool,
) -> dict[TopicPartition, int]:
    """Return the offset of a bound in each partition.

    Args:
        bound: the requested bound.
        partitions: whose offsets are wanted.
        view: the cluster.
        option: name for messages: `startingOffsets` or `endingOffsets`.
        latest_when_no_time_matches: whether a time newer than every record means the log end.

    Raises:
        ConfigError: the bound does not name exactly these partitions.
        NoOffsetForTime: a time is newer than every record and that is not allowed.
    """
    if isinstance(bound, AtOffset):
        return view.latest(partitions) if bound.offset == LATEST else view.earliest(partitions)
    if isinstance(bound, AtOffsets):
        hint = " (-1 stands for latest, -2 for earliest)"
        require_every(bound.offsets, set(partitions), option, hint)
        offsets = dict(bound.offsets)
        for symbol, look_up in ((EARLIEST, view.earliest), (LATEST, view.latest)):
            meant = sorted(tp for tp, offset in offsets.items() if offset == symbol)
            if meant:
                offsets.update(look_up(meant))
        return offsets
    if isinstance(bound, AtTime):
        times = dict.fromkeys(partitions, bound.timestamp_ms)
    else:
        times = dict(bound.timestamps_ms)
        require_every(times, set(partitions), f"{option}ByTimestamp")
    found = view.at_time(times)
    newer = sorted(tp for tp, offset in found.items() if offset is None)
    if newer and not latest_when_no_time_matches:
        raise NoOffsetForTime(
            f"no record at or after {times[newer[0]]} ms in {', '.join(map(str, newer))}; "
            "startingOffsetsByTimestampStrategy=latest would start at the log end there"
        )
    ends = view.latest(newer) if newer else {}
    return {tp: ends[tp] if offset is None else offset for tp, offset in found.items()}


def estimate_bytes(
    view: SourceCluster, begin: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Estimate the bytes of each range from a sample of the largest partitions of each topic."""
    per_record: dict[str, float] = {}
    for topic in sorted({tp.topic for tp in begin}):
        largest = sorted(
            (tp for tp in begin if tp.topic == topic and until[tp] > begin[tp]),
            key=lambda tp: (begin[tp] - until[tp], tp),
        )[:_SAMPLES_PER_TOPIC]
        samples = [view.record_bytes(tp, begin[tp]) for tp in largest]
        per_record[topic] = sum(samples) / len(samples) if samples else 0.0
    return {tp: int((until[tp] - begin[tp]) * per_record[tp.topic]) for tp in begin}
