"""One source of a mirror with its streams, and whether it has caught up.

Invariant: reading the progress changes nothing; a stream that ended, or is starting again, has no
    lag and no positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.config.shared_options import READ_COMMITTED
from zkbroker.errors import ZkbrokerError
from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.routes import Routes
from zkbroker.mirror.source_cluster import MirrorSource
from zkbroker.mirror.sources import topic_filter
from zkbroker.mirror.worker import Worker
from zkbroker.types import PartitionKey


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """The progress of one topic of one source."""

    source: str
    topic: str
    messages: int
    bytes: int
    lag: int


@dataclass(slots=True)
class SourceStreams:
    """The parts of one source."""

    source: MirrorSource
    routes: Routes
    workers: list[Worker] = field(default_factory=list)

    def close(self) -> None:
        """Release its resources, after its workers have ended."""
        self.routes.close()
        self.source.close()

    def status(self) -> list[TopicStatus]:
        """Return counts and lag of each topic."""
        lag: dict[str, int] = {}
        counts: dict[str, list[int]] = {}
        for worker in self.workers:
            for (topic, _), behind in lag_of(worker).items():
                lag[topic] = lag.get(topic, 0) + behind
            for index, family in enumerate(worker.counts.topics.families()):
                for (topic,), value in family.samples:
                    assert isinstance(value, int)
                    counts.setdefault(topic, [0, 0])[index] += value
        return [
            TopicStatus(self.source.config.label, topic, sent[0], sent[1], lag.get(topic, 0))
            for topic in sorted({*lag, *counts})
            for sent in (counts.get(topic, [0, 0]),)
            if not self.routes.skips(topic)
        ]


def lag_of(worker: Worker) -> Mapping[PartitionKey, int]:
    try:
        return worker.source.lag()
    except ZkbrokerError:
        return {}  # it has ended


def _processed(worker: Worker) -> Mapping[PartitionKey, int]:
    # Not the positions: they pass a chunk before the worker has it in flight, and is not idle.
    try:
        return worker.source.processed()
    except ZkbrokerError:
        return {}  # it has ended, or begins again


class CatchUp:
    """Tells whether all messages up to the sources' ends at one moment have arrived."""

    def __init__(self, sides: Sequence[SourceStreams], config: MirrorConfig) -> None:
        self._sides = sides
        self._ends: list[Mapping[PartitionKey, int]] = []
        self._from: list[dict[PartitionKey, int]] = []
        chosen = topic_filter(config)
        for side in sides:
            source = side.source
            keys = [
                (topic, partition)
                for topic in source.cluster.topics()
                if chosen.matches(topic) and not side.routes.skips(topic)
                for partition in source.partitions(topic)
            ]
            isolation = source.config.properties.get("isolation.level", READ_COMMITTED)
            ends = source.offsets(keys, LATEST_TIME, committed_only=isolation == READ_COMMITTED)
            starts = source.offsets(keys, EARLIEST_TIME)
            committed = source.committed()
            self._ends.append(ends)
            self._from.append(
                {key: max(start, committed.get(key, 0)) for key, start in starts.items()}
            )
        self.total = sum(
            max(0, end - begun[key])
            for ends, begun in zip(self._ends, self._from, strict=True)
            for key, end in ends.items()
        )
        """Number of offsets left at the beginning."""

    def left(self) -> int:
        """Return the number of offsets left; 0 when all have arrived."""
        left = 0
        for side, ends, begun in zip(self._sides, self._ends, self._from, strict=True):
            reached = dict(begun)
            for worker in side.workers:
                for key, position in _processed(worker).items():
                    reached[key] = max(position, reached.get(key, 0))
            behind = self._behind(side, ends, reached)
            if not behind and not all(worker.idle for worker in side.workers):
                behind = 1
            left += behind
        return left

    @staticmethod
    def _behind(
        side: SourceStreams, ends: Mapping[PartitionKey, int], reached: dict[PartitionKey, int]
    ) -> int:
        held = {key for worker in side.workers for key in _processed(worker)}
        if any(end > reached.get(key, 0) for key, end in ends.items() if key not in held):
            # Other mirrors of the group may have copied the rest: read their commits.
            for key, offset in side.source.committed().items():
                reached[key] = max(offset, reached.get(key, 0))
        return sum(max(0, end - reached.get(key, 0)) for key, end in ends.items())
