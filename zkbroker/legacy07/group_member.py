"""A cluster of Kafka 0.7 under a connector: byte positions, `broker-number` partitions.

Positions are committed to ZooKeeper in the form of 0.7, so that genuine 0.7 members of the group
and ours can take over from each other.
"""

from collections.abc import Callable, Mapping
from functools import partial

from zkbroker.client.list_offsets import EARLIEST_TIME
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer.fetching.decode import Decode
from zkbroker.consumer.fetching.fetchers import Fetchers
from zkbroker.consumer.streams.generation import Positions
from zkbroker.consumer.streams.offset_keeper import OffsetKeeper
from zkbroker.consumer.streams.zookeeper_offsets import ZooKeeperOffsets
from zkbroker.errors import InvalidTopic
from zkbroker.legacy07.cluster import Cluster07
from zkbroker.legacy07.decode import decode_chunk07
from zkbroker.legacy07.fetcher import BrokerFetcher07
from zkbroker.legacy07.group_store import GroupStore07, range_assign_07
from zkbroker.rebalance.assignor import Assignor
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession


class Generation07:
    """Implements `consumer.streams.generation.Generation`.

    Args:
        config: the consumer's settings.
        idle_ms: how long a fetcher waits after an answer without data.
        session: the member's session.
        runtime: the connector's.
    """

    decode: Decode = staticmethod(decode_chunk07)
    step = 0
    strategy: Assignor = staticmethod(range_assign_07)

    def __init__(
        self, config: ConsumerConfig, idle_ms: int, session: ZkSession, runtime: Runtime
    ) -> None:
        self._config = config
        self._idle_ms = idle_ms
        self._session = session
        self._runtime = runtime
        self._cluster = Cluster07(
            session=session, socket_timeout_ms=config.socket_timeout_ms, runtime=runtime
        )

    @staticmethod
    def check_topic(topic: str) -> None:
        """Raise `InvalidTopic` for a name that ZooKeeper does not allow; 0.7 has no other rule."""
        if not isinstance(topic, str) or not topic or "/" in topic:
            raise InvalidTopic(f"a topic name must be text without /, not {topic!r}")

    def start(self) -> None:
        self._cluster.start()

    def fetchers(self) -> Fetchers:
        make = partial(BrokerFetcher07, idle_ms=self._idle_ms)
        return Fetchers(self._cluster, self._config.fetching(), self._runtime, make)

    def store(self, consumer_id: str) -> GroupStore07:
        return GroupStore07(self._session, self._config.group_id, consumer_id)

    def keeper(
        self, consumer_id: str, positions: Positions, stopping: Callable[[], bool]
    ) -> OffsetKeeper:
        config = self._config
        return OffsetKeeper(
            ZooKeeperOffsets(self._session, config.group_id, consumer_id),
            None,
            runtime=self._runtime,
            interval_ms=config.auto_commit_interval_ms if config.auto_commit_enable else None,
            positions=positions,
        )

    def offsets_at(self, times_ms: Mapping[PartitionKey, int]) -> Mapping[PartitionKey, int]:
        """Return the newest file's start at or before each time; 0.7 has only times of files."""
        cluster = self._cluster
        found: dict[PartitionKey, int] = {}
        for (topic, partition), time_ms in times_ms.items():
            offset = cluster.offset(topic, partition, time_ms)
            if offset is None:
                offset = cluster.offset(topic, partition, EARLIEST_TIME)
            found[topic, partition] = offset or 0
        return found

    def close(self, timeout_s: float) -> None:
        self._cluster.close(timeout_s)
