"""The fetchers of a connector, and the search for leaders.

    new or given back --> pending --(leader known)--> the fetcher of that broker

Invariants: a partition that is not revoked is either pending or with one fetcher. A missing leader
is looked up every `leader_backoff_ms`. Once another leader is known the partition moves to its
fetcher at once, even from a fetcher whose broker hangs.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator

from zkbroker.client import Cluster
from zkbroker.config.fetching import FetchSettings
from zkbroker.consumer.fetching.fetch_loop import FetchLoop
from zkbroker.consumer.fetching.fetcher import BrokerFetcher
from zkbroker.consumer.fetching.partition import ConsumedPartition
from zkbroker.errors import ClientError, ProtocolError, RegistryError
from zkbroker.measures import Family, SharedHistogram, TopicTable
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_IDLE_S = 1.0
_UNANSWERED_S = 2.0
"""How late an answer may be before the leader is looked up again."""


class Fetchers:
    """All fetchers of one connector.

    Args:
        cluster: knows leaders and gives connections.
        settings: of all its fetches.
        runtime: the connector's.
        make: makes a fetcher that fits the cluster, with the arguments of `BrokerFetcher`.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: FetchSettings,
        runtime: Runtime,
        make: Callable[..., FetchLoop] = BrokerFetcher,
    ) -> None:
        self._cluster = cluster
        self._make = make
        self._settings = settings
        self._runtime = runtime
        self._lock = runtime.lock()
        self._pending: dict[PartitionKey, ConsumedPartition] = {}
        self._given_back = False
        self._topics = TopicTable()
        self._times = SharedHistogram()
        self._fetchers: dict[tuple[int, int], FetchLoop] = {}
        self._work = runtime.event()
        self._stopping = runtime.event()
        self._leaders_changed = False
        self._unwatch = cluster.watch(self._note_change)
        self._finder = runtime.spawn(self._find_leaders, name="leader-finder")

    def start(self, partitions: Iterable[ConsumedPartition]) -> None:
        """Fetch these partitions, each until it is revoked."""
        with self._lock:
            for partition in partitions:
                partition.counts = self._topics.topic(partition.topic)
                self._pending[partition.key] = partition
        self._work.set()

    def wake(self) -> None:
        """Make every fetcher check again which partitions have room."""
        # Without the lock: a stream calls this for every chunk, and a fetcher that is missed here
        # has just begun and checks by itself.
        for fetcher in list(self._fetchers.values()):
            fetcher.wake()

    def metrics(self) -> dict[str, int]:
        """Return counts of answers and of bytes since the start."""
        with self._lock:
            fetchers = list(self._fetchers.values())
        return {
            "fetches": sum(fetcher.fetches for fetcher in fetchers),
            "fetched_bytes": sum(fetcher.fetched_bytes for fetcher in fetchers),
        }

    def measures(self) -> Iterator[Family]:
        """Yield messages and bytes by topic, and how long fetches took."""
        yield from self._topics.families()
        yield Family.single("FetchRequestRateAndTimeMs", self._times)

    def close(self, timeout_s: float) -> bool:
        """Stop all fetchers; False when one still runs after `timeout_s`."""
        self._unwatch()
        self._stopping.set()
        self._work.set()
        ended = self._finder.join(timeout_s)
        with self._lock:
            fetchers = list(self._fetchers.values())
        for fetcher in fetchers:
            fetcher.stop()
        for fetcher in fetchers:
            ended = fetcher.join(timeout_s) and ended
        return ended

    def _give_back(self, partitions: Iterable[ConsumedPartition]) -> None:
        with self._lock:
            for partition in partitions:
                if not partition.revoked:
                    # Never replace a newer ownership of the same partition.
                    self._pending.setdefault(partition.key, partition)
            self._given_back = True
        self._work.set()

    def _find_leaders(self) -> None:
        while not self._stopping.is_set():
            try:
                self._find_some()
            except Exception:
                # A defect of this library: log the traceback, and keep looking.
                logger.exception("search for leaders failed")
                self._stopping.wait(self._settings.leader_backoff_ms / 1000)

    def _note_change(self) -> None:
        self._leaders_changed = True
        self._work.set()

    def _take_moved(self) -> None:
        with self._lock:
            self._leaders_changed = False
            fetchers = list(self._fetchers.values())
        for fetcher in fetchers:
            moved = fetcher.take_moved()
            with self._lock:
                for partition in moved:
                    if not partition.revoked:
                        self._pending.setdefault(partition.key, partition)

    def _find_some(self) -> None:
        self._work.clear()
        if self._leaders_changed:
            self._take_moved()
        with self._lock:
            given_back, self._given_back = self._given_back, False
            pending = [p for p in self._pending.values() if not p.revoked]
            self._pending = {p.key: p for p in pending}
        if not pending:
            self._look_behind_silence()
            self._work.wait(_IDLE_S)
            return
        backoff_s = self._settings.leader_backoff_ms / 1000
        if given_back:
            # The known leaders have just proved wrong; give the cluster time to elect.
            self._stopping.wait(backoff_s)
        unknown = [p for p in pending if self._cluster.leader(*p.key) is None]
        if given_back or unknown:
            self._refresh(partition.topic for partition in pending)
        missing = [p for p in pending if not self._assign(p)]
        if missing:
            logger.info(
                "partitions without leader count=%d first=%s-%s", len(missing), *missing[0].key
            )
            self._stopping.wait(backoff_s)

    def _look_behind_silence(self) -> None:
        """Move partitions of brokers that do not answer to new leaders, once there are any."""
        now = time.monotonic()
        late_s = self._settings.max_wait_ms / 1000 + _UNANSWERED_S
        with self._lock:
            fetchers = list(self._fetchers.values())
        silent: set[str] = set()
        for fetcher in fetchers:
            since = fetcher.asking_since
            if since is not None and now - since > late_s:
                silent |= fetcher.topics()
        if silent:
            self._refresh(silent)

    def _refresh(self, topics: Iterable[str]) -> None:
        try:
            self._cluster.refresh(sorted(set(topics)))
        except (ProtocolError, ClientError, RegistryError) as error:
            logger.warning("leaders not refreshed error=%s", error)

    def _assign(self, partition: ConsumedPartition) -> bool:
        """Hand a partition to the fetcher of its leader; False when there is no leader."""
        leader = self._cluster.leader(*partition.key)
        if leader is None:
            return False
        number = (hash(partition.topic) + partition.partition) % self._settings.fetchers
        with self._lock:
            if self._stopping.is_set() or self._pending.get(partition.key) is not partition:
                return True
            del self._pending[partition.key]
            fetcher = self._fetchers.get((leader, number))
            if fetcher is None:
                fetcher = self._fetchers[leader, number] = self._make(
                    leader,
                    number,
                    cluster=self._cluster,
                    settings=self._settings,
                    runtime=self._runtime,
                    give_back=self._give_back,
                    times=self._times,
                )
        fetcher.add(partition)
        return True
