"""The part of a connector that depends on the generation of Kafka that its cluster speaks.

Invariant: all generations share the code of members, streams, rebalances and commits; they differ
in finding partitions, in fetching and decoding, and in assigning partitions.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from zkbroker.client import Cluster, ZooKeeperSource
from zkbroker.client.coordinator import CoordinatorConnection
from zkbroker.client.group_offsets import CoordinatorOffsets
from zkbroker.client.resolve_offsets import resolve_or_end
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer.fetching.decode import Decode, decode_chunk
from zkbroker.consumer.fetching.fetchers import Fetchers
from zkbroker.consumer.streams.offset_keeper import OffsetKeeper
from zkbroker.consumer.streams.zookeeper_offsets import ZooKeeperOffsets
from zkbroker.rebalance import ZkGroupStore
from zkbroker.rebalance.assignor import Assignor
from zkbroker.registry.topic_rules import check_topic_name
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession

Positions = Callable[[], Mapping[PartitionKey, int]]


class Generation(Protocol):
    """A cluster of some generation, as the connector of one member sees it."""

    @property
    def decode(self) -> Decode: ...

    @property
    def step(self) -> int:
        """See `ReadProgress`."""

    @property
    def strategy(self) -> str | Assignor: ...

    @property
    def check_topic(self) -> Callable[[str], object]:
        """Raises `InvalidTopic` for a name that no topic can have."""

    def start(self) -> object:
        """Read the brokers; the session is connected."""

    def fetchers(self) -> Fetchers: ...

    def store(self, consumer_id: str) -> ZkGroupStore: ...

    def keeper(
        self, consumer_id: str, positions: Positions, stopping: Callable[[], bool]
    ) -> OffsetKeeper:
        """Start the owner loop of one member's offsets.

        Args:
            consumer_id: the member.
            positions: returns the offsets of an automatic commit.
            stopping: whether to give up a coordinator that is out of reach.
        """

    def offsets_at(self, times_ms: Mapping[PartitionKey, int]) -> Mapping[PartitionKey, int]:
        """Return the first offset at or after a time of each partition, else its log end.

        Raises:
            ZkbrokerError: a broker does not answer.
        """

    def close(self, timeout_s: float) -> object: ...


class ConsumerGeneration(Protocol):
    """The settings of a connector for an older generation of Kafka than 0.8."""

    def connector(self) -> ConsumerConfig:
        """Return the settings that connectors of all generations share.

        Raises:
            ConfigError: a value is not allowed.
        """

    def generation(self, session: ZkSession, runtime: Runtime) -> Generation:
        """Return the cluster as the connector of one member sees it."""


class Newer:
    """Kafka 0.8 and later."""

    decode: Decode = staticmethod(decode_chunk)
    step = 1
    check_topic: Callable[[str], object] = staticmethod(check_topic_name)

    def __init__(self, config: ConsumerConfig, session: ZkSession, runtime: Runtime) -> None:
        self._config = config
        self._session = session
        self._runtime = runtime
        self._cluster = Cluster(
            ZooKeeperSource(session=session),
            runtime=runtime,
            client_id=config.effective_client_id,
            request_timeout_ms=config.socket_timeout_ms,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
            security=config.security,
        )

    @property
    def strategy(self) -> str:
        return self._config.partition_assignment_strategy

    def start(self) -> None:
        self._cluster.start()

    def fetchers(self) -> Fetchers:
        return Fetchers(self._cluster, self._config.fetching(), self._runtime)

    def store(self, consumer_id: str) -> ZkGroupStore:
        return ZkGroupStore(self._session, self._config.group_id, consumer_id)

    def keeper(
        self, consumer_id: str, positions: Positions, stopping: Callable[[], bool]
    ) -> OffsetKeeper:
        """Start the owner loop of one member's offsets, with the storages of its settings.

        offsets.storage=zookeeper (dual.commit.enabled=false)     ZooKeeper
        offsets.storage=kafka, dual.commit.enabled=false          brokers; ZooKeeper is read where
                                                                  they have no offset, and not
                                                                  written
        either with dual.commit.enabled=true                      both; the larger offset counts
        """
        config = self._config
        kafka = None
        zookeeper = ZooKeeperOffsets(self._session, config.group_id, consumer_id)
        if config.commits_to_brokers:
            coordinator = CoordinatorConnection(
                self._cluster,
                config.group_id,
                runtime=self._runtime,
                backoff_ms=config.offsets_channel_backoff_ms,
                lane="offsets",
            )
            kafka = CoordinatorOffsets(
                coordinator,
                config.group_id,
                timeout_s=config.offsets_channel_socket_timeout_ms / 1000,
                stopping=stopping,
            )
        written = config.commits_to_zookeeper
        return OffsetKeeper(
            zookeeper if written else None,
            kafka,
            earlier=None if written else zookeeper,
            runtime=self._runtime,
            interval_ms=config.auto_commit_interval_ms if config.auto_commit_enable else None,
            positions=positions,
        )

    def offsets_at(self, times_ms: Mapping[PartitionKey, int]) -> Mapping[PartitionKey, int]:
        timeout_s = self._config.socket_timeout_ms / 1000
        return resolve_or_end(self._cluster, times_ms, timeout_s=timeout_s)

    def close(self, timeout_s: float) -> None:
        self._cluster.close(timeout_s)
