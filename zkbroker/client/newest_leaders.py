"""The newest known leaders, kept when a broker answers with older ones.

    epoch found  >= epoch known   the answer counts
                 <  epoch known   the known leader stays, unless it is no longer registered; after
                                  `patience_s` of only such answers, the answer counts: the topic
                                  was deleted and created again

Invariant: the leader epoch of a partition goes back only after that time, or after the topic was
seen not to exist. Pure: the clock is given.
"""

import time
from collections.abc import Callable, Container

from zkbroker.client.view import PartitionInfo, Partitions, View
from zkbroker.errors import ProtocolError, UnknownTopicOrPartition
from zkbroker.types import PartitionKey


class NewestLeaders:
    """The newest leader of each partition.

    Args:
        patience_s: how long older answers count as those of a broker that lags.
        clock: seconds, monotonic.
    """

    def __init__(
        self, patience_s: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience_s = patience_s
        self._clock = clock
        self._known: dict[PartitionKey, PartitionInfo] = {}
        self._older_since: dict[PartitionKey, float] = {}

    def merge(self, view: View) -> View:
        """Return a view with the newest leaders, and remember them."""
        topics: dict[str, Partitions | ProtocolError] = {}
        for topic, partitions in view.topics.items():
            if isinstance(partitions, ProtocolError):
                if isinstance(partitions, UnknownTopicOrPartition):
                    self._forget(topic)
                topics[topic] = partitions
            else:
                topics[topic] = tuple(self._newest(each, view.brokers) for each in partitions)
        return View(view.brokers, topics)

    def _newest(self, found: PartitionInfo, brokers: Container[int]) -> PartitionInfo:
        key = found.topic, found.partition
        known = self._known.get(key)
        if known is not None and found.leader_epoch < known.leader_epoch:
            now = self._clock()
            if now - self._older_since.setdefault(key, now) < self._patience_s:
                return known if known.leader in brokers else known._replace(leader=None)
        self._older_since.pop(key, None)
        self._known[key] = found
        return found

    def _forget(self, topic: str) -> None:
        for key in [key for key in self._known if key[0] == topic]:
            del self._known[key]
            self._older_since.pop(key, None)
