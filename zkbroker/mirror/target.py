"""The producer side: one producer for all streams, and the topics it sends to.

Invariant: a look-up of a topic returns partitions that exist in the target, or an error; nothing is
sent to a partition that does not exist.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from zkbroker.client import BrokerUnavailable, Cluster
from zkbroker.client.metadata_source import ask
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import (
    ConfigError,
    ErrorCode,
    ProtocolError,
    UnknownTopicOrPartition,
    ZkbrokerError,
)
from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.topic_admin import TopicAdmin, TopicShape, followed
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.producer import DefaultPartitioner, Producer
from zkbroker.producer.assembly import make_cluster
from zkbroker.producer.plugins import resolve
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import InitProducerIdRequest
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

_CLUSTER_ID_VERSION = 2
_IDEMPOTENCE = "enable.idempotence"
# First produce versions that accept magic 1 and magic 2.
_MAGIC_BY_VERSION = ((3, 2), (2, 1), (0, 0))


class MirrorTarget(ABC):
    """The target cluster, of any generation.

    Attributes:
        cluster: its brokers.
        producer: one for all streams.
        settings: of the producer.
        magic: its message format; -1 if no stored batch passes unchanged.
        partitioner: chooses by key; None if keys do not matter.
        own_partitioner: whether the user configured the partitioner.
    """

    cluster: Cluster
    producer: Producer
    settings: ProducerConfig
    magic: int
    partitioner: Any
    own_partitioner: bool

    @abstractmethod
    def identity(self) -> str | None:
        """Return an identity that source and target share in one cluster; None: unknown."""

    @abstractmethod
    def partitions(self, topic: str) -> Sequence[int]:
        """Return the present partitions of a topic; the brokers may create it.

        Raises:
            ZkbrokerError: it does not exist and is not created, or no broker answers.
        """

    def count_like(self, topic: str, partition: int, source: TopicAdmin, source_topic: str) -> int:
        """Create or grow a topic like the source's; return its number of partitions.

        Args:
            topic: its name here.
            partition: a number that it must have.
            source: topics of the source.
            source_topic: its name there.

        Raises:
            ZkbrokerError: that cannot be done, or no broker answers.
        """
        raise ConfigError(f"topic {topic} of the target cannot be created like that of the source")

    def have(self, topic: str, settings: Mapping[str, str] | None = None) -> int:
        """Create a topic of the mirror's own unless it exists; return its partition count.

        Args:
            topic: its name.
            settings: of the topic, if it is created here.

        Raises:
            ZkbrokerError: it cannot be created, or no broker answers.
        """
        raise ConfigError(f"topic {topic} of the mirror's own cannot be created in this target")

    def transactional_producer(self, transactional_id: str) -> Producer:
        """Make a producer whose batches and messages are part of transactions."""
        raise ConfigError("the target has no transactions")

    def follow(self, topic: str, source: TopicAdmin, source_topic: str) -> None:  # noqa: B027 - may do nothing
        """Synchronize the settings and the partition count of a topic with the source's.

        A failure is logged once for each topic, and tried again later.
        """

    def close(self, timeout_s: float) -> None:
        """Close the producer, which sends its messages within the time, and the connections."""
        try:
            self.producer.close(timeout_s)
        finally:
            self.cluster.close()


class NewerTarget(MirrorTarget):
    """A target of Kafka 0.8 or later.

    Raises:
        ConfigError: the settings ask for features that its brokers lack.
        ZkbrokerError: it cannot be reached.
    """

    _MOST_REPLICAS = 3

    def __init__(self, config: MirrorConfig, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        plain = config.producer(idempotent=False)
        self.partitioner = resolve("partitioner", plain.partitioner)
        self.own_partitioner = type(self.partitioner) is not DefaultPartitioner
        self.cluster = make_cluster(plain, runtime).start()
        try:
            connections = self._connections()
            if config.exactly_once:
                self._check_transactions(connections)
            oldest = min(each.best_version(ApiKey.PRODUCE) for each in connections)
            self.magic = self._magic(oldest, plain.message_format)
            why = self._why_not_idempotent(plain, connections)
            self.settings = config.producer(idempotent=not why)
            self.producer = Producer(self.settings, runtime=runtime, cluster=self.cluster)
        except BaseException:
            self.cluster.close()
            raise
        self._admin: TopicAdmin | None = None
        self._lock = runtime.lock()
        self._not_followed: set[str] = set()
        logger.info(
            "target connected brokers=%d magic=%d idempotence=%s%s",
            len(self.cluster.brokers()),
            self.magic,
            str(self.settings.idempotence).lower(),
            f": {why}, so a retry may store messages twice" if why else "",
        )

    def identity(self) -> str | None:
        return cluster_id(self.cluster)

    def _connections(self) -> list[BrokerConnection]:
        """Return a connection to each reachable broker.

        Raises:
            NoBrokersAvailable: none can.
        """
        found = []
        for broker in self.cluster.brokers():
            try:
                found.append(self.cluster.connection(broker))
            except BrokerUnavailable as error:
                logger.warning("target broker not reached broker=%d error=%s", broker, error)
        return found or [self.cluster.any_connection()]

    @staticmethod
    def _check_transactions(connections: Sequence[BrokerConnection]) -> None:
        for connection in connections:
            if ApiKey.END_TXN not in connection.versions:
                raise ConfigError(
                    f"exactly.once=true: the target at {connection.address} has no transactions, "
                    "which came with 0.11; mirror at least once"
                )

    @staticmethod
    def _magic(version: int, wanted: str) -> int:
        newest = next(magic for least, magic in _MAGIC_BY_VERSION if version >= least)
        return newest if wanted == "auto" else min(newest, int(wanted))

    def _why_not_idempotent(
        self, plain: ProducerConfig, connections: Sequence[BrokerConnection]
    ) -> str:
        """Return why the producer is not idempotent; empty if it is.

        Raises:
            ConfigError: the settings require it, but the target does not support it.
        """
        asked = _IDEMPOTENCE in self._config.target
        if asked and not self._config.producer().idempotence:
            return f"{_IDEMPOTENCE}=false"
        why = self._why_no_producer_ids(connections)
        if why and asked:
            raise ConfigError(
                f"{_IDEMPOTENCE}=true is not for this target: {why}; leave it out, or set false"
            )
        if plain.required_acks != -1 and not asked:
            return f"acks={plain.required_acks}"
        return why

    def _why_no_producer_ids(self, connections: Sequence[BrokerConnection]) -> str:
        for connection in connections:
            if ApiKey.INIT_PRODUCER_ID not in connection.versions:
                return f"the broker at {connection.address} gives no producer ids (before 0.11)"
        if self.magic < 2:
            return f"message format {self.magic} holds no producer ids"
        code = connections[0].request(InitProducerIdRequest()).error_code
        if code and not ErrorCode(code).retriable:
            return f"the broker at {connections[0].address} refused a producer id: {code}"
        return ""

    def admin(self) -> TopicAdmin:
        """Return the admin client of the target's topics, opened at first use.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        with self._lock:
            if self._admin is None:
                config = self._config
                self._admin = TopicAdmin(
                    self.cluster, config.target_zookeeper, config.target_security
                )
            return self._admin

    def partitions(self, topic: str) -> Sequence[int]:
        known = self.cluster.known_partitions(topic) or self.cluster.partitions(topic, create=True)
        return range(len(known))

    def transactional_producer(self, transactional_id: str) -> Producer:
        settings = self._config.producer(idempotent=True, transactional_id=transactional_id)
        return Producer(settings, runtime=self._runtime, cluster=self.cluster)

    def have(self, topic: str, settings: Mapping[str, str] | None = None) -> int:
        known = self.cluster.known_partitions(topic)
        if known:
            return len(known)
        with self._lock:
            try:
                return len(self.cluster.partitions(topic))
            except UnknownTopicOrPartition:
                self._create(topic, TopicShape(1, self._MOST_REPLICAS, settings or {}))
                return len(self.cluster.partitions(topic, create=True))

    def count_like(self, topic: str, partition: int, source: TopicAdmin, source_topic: str) -> int:
        known = self.cluster.known_partitions(topic)
        if known and partition < len(known):
            return len(known)
        with self._lock:
            try:
                count = len(self.cluster.partitions(topic))
            except UnknownTopicOrPartition:
                shape = source.shape(source_topic)
                self._create(topic, shape)
                logger.info("topic created topic=%s partitions=%d", topic, shape.partitions)
                return len(self.cluster.partitions(topic, create=True))
            if partition >= count:
                wanted = max(source.shape(source_topic).partitions, partition + 1)
                refused = self._grow(topic, wanted)
                count = len(self.cluster.partitions(topic))
                if partition >= count:
                    raise UnknownTopicOrPartition(
                        f"topic {topic} of the target has {count} partitions, and partition "
                        f"{partition} is not there yet" + (f": {refused}" if refused else "")
                    )
            return count

    def _grow(self, topic: str, wanted: int) -> ProtocolError | None:
        """Request more partitions; return the refusal if the topic has them already.

        A stream and the upkeep may request the same at once, and an operator at any time.
        """
        refused: ProtocolError | None = None
        try:
            self.admin().grow(topic, wanted)
            logger.info("topic grown topic=%s partitions=%d", topic, wanted)
        except ProtocolError as error:
            if error.code != ErrorCode.INVALID_PARTITIONS:
                raise
            refused = error
        self.cluster.refresh([topic])
        return refused

    def _create(self, topic: str, shape: TopicShape) -> None:
        given = self._config.replication_factor
        replicas = given or min(shape.replicas, max(1, len(self.cluster.brokers())))
        settings = followed(shape.settings, {})
        try:
            self.admin().create(topic, TopicShape(shape.partitions, replicas, settings))
        except ProtocolError as error:
            if given or replicas == 1 or error.code != ErrorCode.INVALID_REPLICATION_FACTOR:
                raise
            logger.warning("topic created with one replica topic=%s error=%s", topic, error)
            self.admin().create(topic, TopicShape(shape.partitions, 1, settings))

    def follow(self, topic: str, source: TopicAdmin, source_topic: str) -> None:
        try:
            theirs = source.shape(source_topic)
            ours = self.admin().shape(topic)
            wanted = followed(theirs.settings, ours.settings)
            if wanted != dict(ours.settings):
                self.admin().set_settings(topic, wanted)
                logger.info("topic settings followed topic=%s settings=%s", topic, wanted)
            if theirs.partitions > ours.partitions:
                self._grow(topic, theirs.partitions)
        except ZkbrokerError as error:
            level = logging.DEBUG if topic in self._not_followed else logging.WARNING
            self._not_followed.add(topic)
            logger.log(level, "topic settings not followed topic=%s error=%s", topic, error)
        else:
            self._not_followed.discard(topic)

    def close(self, timeout_s: float) -> None:
        try:
            super().close(timeout_s)
        finally:
            if self._admin is not None:
                self._admin.close()


def cluster_id(cluster: Cluster) -> str | None:
    """Return the id of a cluster, None if its brokers have none."""
    connection = cluster.any_connection()
    if connection.best_version(ApiKey.METADATA) < _CLUSTER_ID_VERSION:
        return None
    return ask(connection, []).cluster_id
