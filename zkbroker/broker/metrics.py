"""The counts of a broker, under the names that operators know.

Invariant: counts are exact, only grow, and cost each request a few additions. Memory is bounded:
topics and clients beyond a limit are counted together under `other`. Times of requests are gathered
and put into their histograms in groups.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from zkbroker.measures import OTHER, Histogram

GATHERED: Final = 256
"""How many times of requests may wait to be put into histograms."""


@dataclass(slots=True, eq=False)
class TopicMetrics:
    """Counts of one topic."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_rejected: int = 0
    failed_produces: int = 0
    failed_fetches: int = 0
    produces: int = 0
    fetches: int = 0

    NAMES: ClassVar = (
        ("messages_in", "MessagesInPerSec"),
        ("bytes_in", "BytesInPerSec"),
        ("bytes_out", "BytesOutPerSec"),
        ("bytes_rejected", "BytesRejectedPerSec"),
        ("failed_produces", "FailedProduceRequestsPerSec"),
        ("failed_fetches", "FailedFetchRequestsPerSec"),
        ("produces", "TotalProduceRequestsPerSec"),
        ("fetches", "TotalFetchRequestsPerSec"),
    )


class RequestMetrics:
    """Counts and durations of one API's requests."""

    __slots__ = ("_times", "errors", "gathered_s", "served")

    TIMES = (
        "RequestQueueTimeMs",
        "LocalTimeMs",
        "RemoteTimeMs",
        "ResponseSendTimeMs",
        "TotalTimeMs",
    )

    def __init__(self) -> None:
        self.served = 0
        """Number of handled requests, whether or not their answers were sent."""
        self.errors: dict[int, int] = {}
        self._times = tuple(Histogram() for _ in self.TIMES)
        self.gathered_s: list[tuple[float, ...]] = []
        """Durations of requests whose answers were sent, in the order of `TIMES`; when there are
        `GATHERED` of them, call `observe_gathered`."""

    def times(self) -> tuple[Histogram, ...]:
        """Return the durations of all requests so far, in the order of `TIMES`."""
        self.observe_gathered()
        return self._times

    def observe_gathered(self) -> None:
        """Put the gathered durations into their histograms."""
        gathered, self.gathered_s = self.gathered_s, []
        for histogram, column in zip(self._times, zip(*gathered, strict=True), strict=False):
            histogram.observe_all(column)


class BrokerMetrics:
    """All counts of a broker.

    Args:
        max_topics: how many topics get their own counts.
    """

    def __init__(self, max_topics: int = 1000) -> None:
        self._max_topics = max_topics
        self.topics: dict[str, TopicMetrics] = {OTHER: TopicMetrics()}
        self.requests: dict[int, RequestMetrics] = {}
        self.logins: dict[tuple[str, str, bool], int] = {}
        """(listener, mechanism, whether it was good) → logins."""
        self.replication_bytes_out = 0
        """Bytes sent to followers."""

    def topic(self, name: str) -> TopicMetrics:
        """Return the counts of a topic; if there are too many topics, those of all others."""
        found = self.topics.get(name)
        if found is None:
            if len(self.topics) > self._max_topics:
                return self.topics[OTHER]
            found = self.topics[name] = TopicMetrics()
        return found

    def forget_topic(self, name: str) -> None:
        """Drop the counts of a topic that was deleted."""
        if name != OTHER:
            self.topics.pop(name, None)

    def login(self, listener: str, mechanism: str, *, good: bool) -> None:
        """Count a login."""
        key = (listener, mechanism, good)
        self.logins[key] = self.logins.get(key, 0) + 1

    def request(self, api_key: int) -> RequestMetrics:
        """Return the counts of an API."""
        found = self.requests.get(api_key)
        if found is None:
            found = self.requests[api_key] = RequestMetrics()
        return found

    def totals(self) -> Iterator[tuple[str, int]]:
        """Yield each per-topic count summed over all topics."""
        for attribute, name in TopicMetrics.NAMES:
            yield name, sum(getattr(topic, attribute) for topic in self.topics.values())
