"""The fetchers of a broker: which one copies which partition.

Invariant: at most one fetcher copies a partition, and it is one of the present leader's. Which of
them it is depends on the partition's name alone. A fetcher without partitions ends.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace

from zkbroker.log import TopicPartition
from zkbroker.protocol.java_hash import string_hash
from zkbroker.replica.fetcher import ReplicaFetcher
from zkbroker.replica.fetching import Connect, FetcherSettings
from zkbroker.replica.following import Following
from zkbroker.replica.throttle import ReplicationThrottle
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)


class FetcherManager:
    """Copies the partitions that other brokers lead. Args: throttle is that of a follower."""

    def __init__(
        self,
        broker_id: int,
        connect: Connect,
        settings: FetcherSettings,
        *,
        runtime: Runtime,
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._connect = connect
        self._settings = settings
        self._runtime = runtime
        self.throttle = throttle or ReplicationThrottle(runtime)
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._ended_bytes_in = 0
        self._closed = False

    def follow(self, roles: Iterable[Following]) -> None:
        """Copy the partitions of these roles from the leaders that they name."""
        for following in roles:
            self._remove(following.key)
            if not self._closed:
                self._assign(following)
        self._end_idle()

    def resize(self, fetchers: int) -> None:
        """Spread the partitions of each leader over another number of fetchers."""
        if fetchers == self._settings.fetchers:
            return
        logger.info("fetchers of each leader before=%d now=%d", self._settings.fetchers, fetchers)
        self._settings = replace(self._settings, fetchers=fetchers)
        for place, fetcher in list(self._fetchers.items()):
            for key, each in list(fetcher.followed.by_key.items()):
                if self._number(key) != place[1]:
                    fetcher.followed.forget(key)
                    self._assign(each.following, truncate=each.truncating)
        self._end_idle()

    def _assign(self, following: Following, *, truncate: bool = True) -> None:
        number = self._number(following.key)
        place = (following.leader, number)
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = ReplicaFetcher(
                self._broker_id,
                following.leader,
                number,
                self._connect,
                self._settings,
                runtime=self._runtime,
                throttle=self.throttle,
            )
        fetcher.follow(following, truncate=truncate)

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """Stop copying these, without waiting; a late answer meets the partition's new role."""
        for key in keys:
            self._remove(key)

    def _remove(self, key: TopicPartition) -> None:
        for fetcher in self._fetchers.values():
            fetcher.followed.forget(key)

    def _number(self, key: TopicPartition) -> int:
        return abs(31 * string_hash(key.topic) + key.partition) % self._settings.fetchers

    def _end_idle(self) -> None:
        for place, fetcher in list(self._fetchers.items()):
            if fetcher.followed.idle:
                fetcher.stop()
                del self._fetchers[place]
                self._ended_bytes_in += fetcher.bytes_in

    def close(self, timeout_s: float) -> None:
        """End every fetcher; answers under way are dropped."""
        self._closed = True
        fetchers, self._fetchers = list(self._fetchers.values()), {}
        for fetcher in fetchers:
            fetcher.stop()
            self._ended_bytes_in += fetcher.bytes_in
        for fetcher in fetchers:
            fetcher.join(timeout_s)

    # -- metrics

    @property
    def bytes_in(self) -> int:
        """Bytes appended as a follower (ReplicationBytesInPerSec)."""
        return self._ended_bytes_in + sum(each.bytes_in for each in self._fetchers.values())

    @property
    def fetchers(self) -> int:
        """How many fetchers there are."""
        return len(self._fetchers)

    @property
    def failed(self) -> set[TopicPartition]:
        """Partitions that are not copied until the controller decides again."""
        return {key for each in self._fetchers.values() for key in each.followed.failed}

    def lags(self) -> dict[TopicPartition, int]:
        """Return how many messages each followed partition misses (ConsumerLag, MaxLag)."""
        return {
            key: lag
            for each in self._fetchers.values()
            for key, lag in each.followed.lags().items()
        }
