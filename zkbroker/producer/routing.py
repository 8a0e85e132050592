"""From a message to the queue of its partition.

Invariant: messages of one topic are placed in the order of `send`. Those of a topic whose
partitions are not known yet are parked together, and placed or failed together; they hold up no
other topic.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from zkbroker.discovery import Cluster, Partitions
from zkbroker.errors import ClientError, UnknownTopicOrPartition, ZkbrokerError
from zkbroker.producer.accumulator import Accumulator
from zkbroker.producer.encoders import Encoder
from zkbroker.producer.errors import EncodingFailed, TopicUnavailable
from zkbroker.producer.future import SendFuture
from zkbroker.producer.outcomes import gave_up, may_pass
from zkbroker.producer.partitioners import DefaultPartitioner
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

Fail = Callable[[Sequence[SendFuture], BaseException], None]
_MAX_LOOKUPS = 16
_KEYLESS = attrgetter("keyless")


class _ParkedTopic:
    """A topic whose partitions are not known yet."""

    __slots__ = ("attempts", "first_at", "futures", "looking", "not_before")

    def __init__(self, first_at: float) -> None:
        self.futures: list[SendFuture] = []
        self.first_at = first_at
        self.attempts = 0
        self.not_before = 0.0
        self.looking = False


class Router:
    """Places messages; owned by the sender's loop.

    Args:
        cluster: where partitions are looked up.
        runtime: spawns the look-ups, which wait for the network.
        accumulator: where messages are placed.
        partitioner: the user's or one of ours.
        key_encoder: encodes partition keys for partitioners that hash bytes.
        retries: how often a look-up that may pass is tried again.
        backoff_s: wait between two tries.
        lookup_timeout_s: how long one try may take.
        post: runs a function in the sender's loop.
        fail: resolves futures to an error.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        runtime: Runtime,
        accumulator: Accumulator,
        partitioner: Any,
        key_encoder: Encoder,
        retries: int,
        backoff_s: float,
        lookup_timeout_s: float,
        post: Callable[..., None],
        fail: Fail,
    ) -> None:
        self._cluster = cluster
        self._runtime = runtime
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._encoded_key: bool = getattr(partitioner, "encoded_key", False)
        self._choose: Callable[[str, Sequence[int]], int] = getattr(
            partitioner, "choose", DefaultPartitioner().choose
        )
        self._deal: Callable[[str, Sequence[int], int], Iterable[tuple[int, slice]]] | None = (
            getattr(partitioner, "deal", None)
        )
        self._on_refresh: Callable[[str], None] | None = getattr(partitioner, "on_refresh", None)
        self._key_encoder = key_encoder
        self._retries = retries
        self._backoff_s = backoff_s
        self._lookup_timeout_s = lookup_timeout_s
        self._post = post
        self._fail = fail
        self._parked: dict[str, _ParkedTopic] = {}
        # What the last placement saw of each topic: the view's tuple and the led partitions in it.
        self._seen: dict[str, tuple[Partitions, Sequence[int]]] = {}
        self._lookups = 0

    def route(self, futures: Iterable[SendFuture], now: float) -> None:
        """Place messages, or park those of unknown topics.

        Args:
            futures: in the order of `send`.
            now: `time.monotonic()` of the first of them.
        """
        by_topic: dict[str, list[SendFuture]] = {}
        last: str | None = None
        add: Callable[[SendFuture], None] = list[SendFuture]().append
        for future in futures:
            topic = future.topic
            # Runs of one topic are the rule, and mostly of one and the same string.
            if topic is not last:
                last = topic
                add = by_topic.setdefault(topic, []).append
            add(future)
        for topic, each in by_topic.items():
            parked = self._parked.get(topic)
            partitions = None if parked is not None else self._cluster.known_partitions(topic)
            if partitions:
                self._place(topic, each, partitions, now)
                continue
            if parked is None:
                parked = self._parked[topic] = _ParkedTopic(now)
            parked.futures += each

    def _place(
        self, topic: str, futures: Sequence[SendFuture], partitions: Partitions, now: float
    ) -> None:
        seen = self._seen.get(topic)
        if seen is None or seen[0] is not partitions:
            led = [each.partition for each in partitions if each.leader is not None]
            seen = (partitions, led or [each.partition for each in partitions])
            self._seen[topic] = seen
            if self._on_refresh is not None:
                self._on_refresh(topic)
        available = seen[1]
        extend = self._accumulator.extend
        if self._deal is not None and all(map(_KEYLESS, futures)):
            for number, share in self._deal(topic, available, len(futures)):
                extend(topic, number, futures[share], now)
            return
        count, choose = len(partitions), self._choose
        by_number: dict[int, list[SendFuture]] = {}
        for future in futures:
            if future.keyless:
                number = choose(topic, available)
            else:
                number = self._explicit(future, count)
            if number in by_number:
                by_number[number].append(future)
            elif number >= 0:
                by_number[number] = [future]
        for number, each in by_number.items():
            extend(topic, number, each, now)

    def _explicit(self, future: SendFuture, count: int) -> int:
        message = future.partitioned_by
        if message is None:
            return self._ask(future, future.record[0], count)
        number = message.partition
        if number is None:
            key = message.key if message.partition_key is None else message.partition_key
            return self._ask(future, key, count)
        if 0 <= number < count:
            return number
        self._fail(
            [future],
            TopicUnavailable(
                f"topic {message.topic} has no partition {number}: it has {count}; give 0 to "
                f"{count - 1}, or add partitions"
            ),
        )
        return -1

    def _ask(self, future: SendFuture, key: Any, count: int) -> int:
        try:
            if self._encoded_key:
                message = future.partitioned_by
                if message is None or message.partition_key is None:
                    key = future.record[0]
                else:
                    key = self._key_encoder.to_bytes(key)
            number = self._partitioner.partition(key, count)
            if isinstance(number, int) and 0 <= number < count:
                return number
            problem = f"returned {number!r}"
        # A user's code: whatever it raises fails this message, and goes to its future.
        except Exception as error:  # noqa: BLE001
            problem = f"raised {error!r}"
        self._fail(
            [future],
            EncodingFailed(
                f"partitioner {type(self._partitioner).__name__} {problem} for a key of type "
                f"{type(key).__name__} and {count} partitions of topic {future.topic}: it "
                f"must return 0 to {count - 1}"
            ),
        )
        return -1

    # -- look-ups

    def step(self, now: float) -> None:
        """Start the look-ups that are due."""
        for topic, parked in list(self._parked.items()):
            if not parked.looking and now >= parked.not_before and self._lookups < _MAX_LOOKUPS:
                parked.looking = True
                self._lookups += 1
                self._runtime.spawn(self._look_up, topic, name=f"producer-lookup-{topic}")

    def _look_up(self, topic: str) -> None:
        try:
            self._cluster.partitions(topic, create=True, timeout_s=self._lookup_timeout_s)
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
            self._place(topic, parked.futures, partitions, parked.first_at)
            return
        error = error or UnknownTopicOrPartition(f"topic {topic} does not exist")
        parked.attempts += 1
        if may_pass(error) and parked.attempts <= self._retries:
            parked.not_before = time.monotonic() + self._backoff_s
            logger.debug("topic lookup failed topic=%s error=%s", topic, error)
            return
        del self._parked[topic]
        self._fail(
            parked.futures,
            gave_up(topic, f"topic {topic}", parked.attempts, error, False)
            if may_pass(error)
            else TopicUnavailable(f"topic {topic} cannot be sent to: {error}"),
        )

    def next_deadline(self, now: float) -> float | None:
        """Return when `step` may next do more only because time passed; None for never."""
        waiting = [
            each.not_before
            for each in self._parked.values()
            if not each.looking and each.not_before > now
        ]
        return min(waiting, default=None)

    def expire(self, before: float, error: Callable[[str], ClientError]) -> None:
        """Fail what was parked before a point in time."""
        for topic, parked in list(self._parked.items()):
            if parked.first_at < before:
                del self._parked[topic]
                self._fail(parked.futures, error(f"topic {topic}"))

    def parked(self) -> Iterator[SendFuture]:
        """Yield every message whose topic is not known yet."""
        for parked in list(self._parked.values()):
            yield from parked.futures

    def forget_all(self) -> list[SendFuture]:
        """Take every parked message out."""
        futures = list(self.parked())
        self._parked.clear()
        return futures
