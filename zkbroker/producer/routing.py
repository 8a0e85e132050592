"""The router: it places messages in the queues of their partitions.

Invariant: messages of one topic are placed in the order of `send`. Messages of a topic with unknown
partitions are parked together, and placed or failed together; they hold up no other topic.
"""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from zkbroker.client import Cluster, Partitions
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import UnknownTopicOrPartition, ZkbrokerError
from zkbroker.producer.accumulator import Accumulator
from zkbroker.producer.cluster_metadata import ClusterMetadata
from zkbroker.producer.errors import EncodingFailed, TopicUnavailable
from zkbroker.producer.hooks import Fail, Hooks
from zkbroker.producer.outcomes import cure_of, gave_up, may_pass, timed_out
from zkbroker.producer.partitioners import DefaultPartitioner, sees_whole_message
from zkbroker.producer.queued_messages import Part, QueuedMessages
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

_MAX_LOOKUPS = 16


@dataclass(slots=True)
class _ParkedTopic:
    """A topic whose partitions are not known yet."""

    first_at: float
    parts: list[Part] = field(default_factory=list)
    attempts: int = 0
    not_before: float = 0.0
    looking: bool = False
    last_error: ZkbrokerError | None = None


class Router:
    """Places messages; owned by the sender's loop.

    Args:
        config: of the producer.
        cluster: where partitions are looked up.
        runtime: spawns the look-ups, which wait for the network.
        accumulator: where messages are placed.
        hooks: have the partitioner, and encode partition keys for one that hashes bytes.
        post: runs a function in the sender's loop.
        fail: resolves messages to an error.
    """

    def __init__(
        self,
        *,
        config: ProducerConfig,
        cluster: Cluster,
        runtime: Runtime,
        accumulator: Accumulator,
        hooks: Hooks,
        post: Callable[..., None],
        fail: Fail,
    ) -> None:
        partitioner = hooks.partitioner
        self._config = config
        self._cluster = cluster
        self._runtime = runtime
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._metadata = ClusterMetadata(cluster) if sees_whole_message(partitioner) else None
        self._encoded_key: bool = getattr(partitioner, "encoded_key", False)
        self._choose: Callable[[str, Sequence[int]], int] = getattr(
            partitioner, "choose", DefaultPartitioner().choose
        )
        self._deal: Callable[[str, Sequence[int], int], Iterable[tuple[int, slice]]] | None = (
            getattr(partitioner, "deal", None)
        )
        self._on_refresh: Callable[[str], None] | None = getattr(partitioner, "on_refresh", None)
        self._partition_of: Callable[..., Any] = partitioner.partition
        self._key_encoder = hooks.key_encoder
        self._post = post
        self._fail = fail
        self._parked: dict[str, _ParkedTopic] = {}
        self.placing: list[QueuedMessages] = []
        """Lists of a topic that was looked up, while their messages are placed."""
        # Per topic, from its last placement: the view's tuple, and the partitions with leaders.
        self._seen: dict[str, tuple[Partitions, Sequence[int]]] = {}
        self._lookups = 0

    def route(self, parts: Iterable[Part]) -> None:
        """Place messages, or park those of unknown topics; in the order of `send`."""
        for part in parts:
            topic = part[0].topic
            parked = self._parked.get(topic)
            partitions = None if parked is not None else self._cluster.known_partitions(topic)
            if partitions:
                self._place(part, partitions)
                continue
            if parked is None:
                parked = self._parked[topic] = _ParkedTopic(part[0].first_at)
            parked.parts.append(part)

    def _place(self, part: Part, partitions: Partitions) -> None:
        queued, indices = part
        topic = queued.topic
        seen = self._seen.get(topic)
        if seen is None or seen[0] is not partitions:
            led = [each.partition for each in partitions if each.leader is not None]
            seen = (partitions, led or [each.partition for each in partitions])
            self._seen[topic] = seen
            if self._on_refresh is not None:
                self._on_refresh(topic)
        available = seen[1]
        extend = self._accumulator.extend
        if queued.keyless and self._deal is not None and self._metadata is None:
            try:
                dealt = list(self._deal(topic, available, len(indices)))
            except Exception as error:  # noqa: BLE001 - a user's code
                self._fail_bad_partition(queued, indices, len(partitions), f"raised {error!r}")
                return
            for number, share in dealt:
                if _has(partitions, number):
                    extend(number, (queued, indices[share]), queued.first_at)
                else:
                    problem = f"dealt {number!r}"
                    self._fail_bad_partition(queued, indices[share], len(partitions), problem)
            return
        by_number: dict[int, list[int]] = {}
        for index in indices:
            if queued.keyless and self._metadata is None:
                number = self._chosen(queued, index, available, partitions)
            else:
                number = self._number(queued, index, available, partitions)
            if number in by_number:
                by_number[number].append(index)
            elif number >= 0:
                by_number[number] = [index]
        for number, each in by_number.items():
            extend(number, (queued, each), queued.first_at)

    def _number(
        self, queued: QueuedMessages, index: int, available: Sequence[int], partitions: Partitions
    ) -> int:
        message = queued.kept.get(index)
        key, value, _, _ = queued.records[index]
        if message is None:
            if self._metadata is not None:
                arguments = (queued.topic, key, key, value, value, self._metadata)
                return self._ask(queued, index, partitions, arguments)
            if key is None:
                return self._chosen(queued, index, available, partitions)
            count = len(partitions)
            try:
                number = self._partition_of(key, count)
            except Exception as error:  # noqa: BLE001 - a user's code
                return self._fail_bad_partition(queued, (index,), count, f"raised {error!r}")
            if isinstance(number, int) and 0 <= number < count:
                return partitions[number].partition
            return self._fail_bad_partition(queued, (index,), count, f"returned {number!r}")
        if message.partition is not None:
            return self._explicit(queued, index, message.partition, partitions)
        chosen_by = message.key if message.partition_key is None else message.partition_key
        encoded = key if message.partition_key is None else chosen_by
        encode = message.partition_key is not None
        if self._metadata is not None:
            keys = chosen_by, encoded
            arguments = (queued.topic, *keys, message.message, value, self._metadata)
            return self._ask(queued, index, partitions, arguments, encode=2 if encode else None)
        if chosen_by is None:
            return self._chosen(queued, index, available, partitions)
        if not self._encoded_key:
            return self._ask(queued, index, partitions, (chosen_by, len(partitions)))
        by_bytes = (encoded, len(partitions))
        return self._ask(queued, index, partitions, by_bytes, encode=0 if encode else None)

    def _chosen(
        self,
        queued: QueuedMessages,
        index: int,
        available: Sequence[int],
        partitions: Partitions,
    ) -> int:
        """Return the partition for a message without a key; fail the message where it has none."""
        try:
            number = self._choose(queued.topic, available)
        except Exception as error:  # noqa: BLE001 - a user's code
            problem = f"raised {error!r}"
        else:
            if _has(partitions, number):
                return number
            problem = f"chose {number!r}"
        return self._fail_bad_partition(queued, (index,), len(partitions), problem)

    def _explicit(
        self, queued: QueuedMessages, index: int, number: int, partitions: Partitions
    ) -> int:
        # Numbers run from 0, except in 0.7, where each broker has its own.
        at = bisect_left(partitions, number, key=lambda each: each.partition)
        if at < len(partitions) and partitions[at].partition == number:
            return partitions[at].partition
        self._fail(
            [(queued, (index,))],
            TopicUnavailable(
                f"topic {queued.topic} has no partition {number}: it has {len(partitions)}; "
                f"give {partitions[0].partition} to {partitions[-1].partition}, or add partitions"
            ),
        )
        return -1

    def _ask(
        self,
        queued: QueuedMessages,
        index: int,
        partitions: Partitions,
        arguments: tuple[Any, ...],
        *,
        encode: int | None = None,
    ) -> int:
        """Return the partition that the partitioner gives; fail the message where it gives none.

        Args:
            queued: the list with the message.
            index: of the message.
            partitions: of its topic; the partitioner returns an index into them.
            arguments: of the partitioner.
            encode: which argument is a key to encode first.
        """
        count = len(partitions)
        try:
            if encode is not None:
                key = self._key_encoder.to_bytes(arguments[encode])
                arguments = (*arguments[:encode], key, *arguments[encode + 1 :])
            number = self._partition_of(*arguments)
            if isinstance(number, int) and 0 <= number < count:
                return partitions[number].partition
            problem = f"returned {number!r}"
        # A user's code: its exception fails this message, and goes to the future.
        except Exception as error:  # noqa: BLE001
            problem = f"raised {error!r}"
        return self._fail_bad_partition(queued, (index,), count, problem)

    def _fail_bad_partition(
        self, queued: QueuedMessages, indices: Sequence[int], count: int, problem: str
    ) -> int:
        """Fail the messages that the partitioner gave no partition for."""
        if not indices:
            return -1
        message = queued.message(indices[0])
        key = message.key if message.partition_key is None else message.partition_key
        self._fail(
            [(queued, indices)],
            EncodingFailed(
                f"partitioner {type(self._partitioner).__name__} {problem} for a key of type "
                f"{type(key).__name__} and {count} partitions of topic {queued.topic}: it must "
                f"return 0 to {count - 1}"
            ),
        )
        return -1

    # -- look-ups

    def step(self, now: float) -> None:
        """Start the look-ups that are due.

        Topics with the fewest tries come first: topics without leaders, which take long, must not
        keep others from their turn.
        """
        if self._lookups >= _MAX_LOOKUPS:
            return
        due = [
            (parked.attempts, parked.first_at, topic)
            for topic, parked in self._parked.items()
            if not parked.looking and now >= parked.not_before
        ]
        for _, _, topic in sorted(due)[: _MAX_LOOKUPS - self._lookups]:
            self._parked[topic].looking = True
            self._lookups += 1
            self._runtime.spawn(self._look_up, topic, name=f"producer-lookup-{topic}")

    def _look_up(self, topic: str) -> None:
        try:
            timeout_s = self._config.request_timeout_ms / 1000
            self._cluster.partitions(topic, create=True, timeout_s=timeout_s)
        except ZkbrokerError as error:
            self._post(self._looked_up, topic, error)
        else:
            self._post(self._looked_up, topic, None)

    def _looked_up(self, topic: str, error: ZkbrokerError | None) -> None:
        self._lookups -= 1
        parked = self._parked.get(topic)
        if parked is None:
            return
        parked.looking = False
        partitions = self._cluster.known_partitions(topic)
        if error is None and partitions:
            del self._parked[topic]
            self.placing = [queued for queued, _ in parked.parts]
            for part in parked.parts:
                self._place(part, partitions)
            self.placing = []
            return
        error = error or UnknownTopicOrPartition(f"topic {topic} does not exist")
        parked.attempts += 1
        parked.last_error = error
        if may_pass(error) and parked.attempts <= self._config.retries:
            parked.not_before = time.monotonic() + self._config.retry_backoff_ms / 1000
            logger.debug("topic lookup failed topic=%s error=%s", topic, error)
            return
        del self._parked[topic]
        self._fail(
            parked.parts,
            gave_up(f"topic {topic}", parked.attempts, error, "", cure_of(error, topic))
            if may_pass(error)
            else TopicUnavailable(f"topic {topic} cannot be sent to: {error}"),
        )

    def next_deadline(self, now: float) -> float | None:
        """Return when `step` has more to do only because time passed; None for never."""
        waiting = [
            each.not_before
            for each in self._parked.values()
            if not each.looking and each.not_before > now
        ]
        return min(waiting, default=None)

    def expire(self, before: float) -> None:
        """Fail the messages parked before a point in time."""
        for topic, parked in list(self._parked.items()):
            if parked.first_at < before:
                del self._parked[topic]
                timeout_ms = self._config.delivery_timeout_ms
                self._fail(parked.parts, timed_out(f"topic {topic}", timeout_ms, None, ""))

    def parked(self) -> Iterator[QueuedMessages]:
        """Yield the messages of unknown topics."""
        for parked in list(self._parked.values()):
            for queued, _ in parked.parts:
                yield queued

    def forget_all(self) -> list[tuple[str, ZkbrokerError | None, list[Part]]]:
        """Take every parked message out: topic, why its last look-up failed, messages."""
        found = [(topic, each.last_error, each.parts) for topic, each in self._parked.items()]
        self._parked.clear()
        return found


def _has(partitions: Partitions, number: int) -> bool:
    """Whether a user's partitioner gave a partition that exists."""
    if (
        number.__class__ is int
        and 0 <= number < len(partitions)
        and partitions[number].partition == number
    ):
        return True
    return any(each.partition == number for each in partitions)
