"""Counts and histograms, and the form in which they are read.

Invariant: counts only grow and are exact. Memory is bounded: topics beyond a limit are counted
together under `other`. A `Family` has the name of the genuine JMX bean, including `PerSec`, and
does not depend on how it is displayed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Protocol

OTHER: Final = "other"
BOUNDS_MS: Final = (
    *(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500),
    *(1000, 2500, 5000, 10000, 30000),
)
MAX_TOPICS: Final = 100
MAX_PARTITIONS: Final = 1000


class Histogram:
    """Durations in milliseconds: their count, their sum, and the count of each bucket."""

    __slots__ = ("buckets", "count", "sum_ms")

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self.buckets = [0] * (len(BOUNDS_MS) + 1)

    def observe(self, seconds: float) -> None:
        duration_ms = seconds * 1000
        self.count += 1
        self.sum_ms += duration_ms
        self.buckets[bisect_left(BOUNDS_MS, duration_ms)] += 1

    def observe_all(self, seconds: Iterable[float]) -> None:
        """Observe many durations, each at a fraction of the cost of `observe`."""
        durations_ms = sorted(each * 1000 for each in seconds)
        self.count += len(durations_ms)
        self.sum_ms += sum(durations_ms)
        below = 0
        for number, bound in enumerate(BOUNDS_MS):
            if below == len(durations_ms):
                return
            up_to = bisect_right(durations_ms, bound, below)
            self.buckets[number] += up_to - below
            below = up_to
        self.buckets[-1] += len(durations_ms) - below


class SharedHistogram(Histogram):
    """A histogram that several threads add to."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def observe(self, seconds: float) -> None:
        with self._lock:
            super().observe(seconds)

    def observe_all(self, seconds: Iterable[float]) -> None:
        with self._lock:
            super().observe_all(seconds)


class TopicCounts:
    """Messages and bytes of one topic, as a client sees them; several threads may add to them."""

    __slots__ = ("_lock", "bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        # No greenlet waits while it holds this lock, so greenlets may share the counts too.
        self._lock = Lock()

    def add(self, messages: int, size: int) -> None:
        """Count messages and bytes."""
        with self._lock:
            self.messages += messages
            self.bytes += size


class TopicTable:
    """Counts by topic, bounded.

    Args:
        max_topics: the most topics with their own counts.
    """

    def __init__(self, max_topics: int = MAX_TOPICS) -> None:
        self._max_topics = max_topics
        self._topics: dict[str, TopicCounts] = {}

    def topic(self, name: str) -> TopicCounts:
        """Return the counts of a topic, or those of `other` if there are too many topics."""
        found = self._topics.get(name)
        if found is None:
            if len(self._topics) >= self._max_topics:
                name = OTHER
            found = self._topics.setdefault(name, TopicCounts())
        return found

    def families(self) -> Iterator["Family"]:
        """Yield MessagesPerSec and BytesPerSec by topic."""
        topics = list(self._topics.items())
        for bean, attribute in (("MessagesPerSec", "messages"), ("BytesPerSec", "bytes")):
            family = Family(bean, labels=("topic",))
            family.samples += [((name,), getattr(counts, attribute)) for name, counts in topics]
            yield family


@dataclass(slots=True)
class Family:
    """One measure with its samples.

    Args:
        bean: its name; one that ends with `PerSec` has counts, one with `TimeMs` has histograms,
            and others have present values.
        labels: names of its labels.
        samples: the values of the labels, each with the measured value.
    """

    bean: str
    labels: tuple[str, ...] = ()
    samples: list[tuple[tuple[str, ...], float | Histogram]] = field(default_factory=list)

    @classmethod
    def single(cls, bean: str, value: float | Histogram) -> "Family":
        """Return a family of one sample without labels."""
        return cls(bean, samples=[((), value)])


class Measured(Protocol):
    """A client that has measures."""

    role: str
    """`producer` or `consumer`."""

    @property
    def client_id(self) -> str:
        """The id that its requests carry."""

    def measures(self) -> Iterator[Family]:
        """Yield every measure with its present value."""


def lag_families(lag: dict[tuple[str, int], int]) -> Iterator[Family]:
    """Yield MaxLag and ConsumerLag by partition; of too many partitions, those with most lag."""
    farthest = sorted(lag.items(), key=lambda item: (-item[1], item[0]))[:MAX_PARTITIONS]
    family = Family("ConsumerLag", labels=("topic", "partition"))
    family.samples += [((topic, str(number)), behind) for (topic, number), behind in farthest]
    yield family
    yield Family.single("MaxLag", max(lag.values(), default=0))
