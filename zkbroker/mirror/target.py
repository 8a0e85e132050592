"""The producer side: one producer for all streams, and the topics it sends to.

Invariant: whoever asks for a topic gets a number of partitions that the target has now, or an
error; nothing is sent to a partition that is not there.
"""

import logging
from collections.abc import Mapping

from zkbroker.errors import (
    ConfigError,
    ErrorCode,
    ProtocolError,
    UnknownTopicOrPartition,
    ZkbrokerError,
)
from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.topic_admin import (
    TopicAdmin,
    TopicShape,
    WireTopics,
    ZooKeeperTopics,
    followed,
)
from zkbroker.producer import Producer
from zkbroker.producer.assembly import make_cluster
from zkbroker.protocol import ApiKey
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

# Produce versions from which on magic 1 and magic 2 are taken.
_MAGIC_BY_VERSION = ((3, 2), (2, 1), (0, 0))


class Target:
    """The cluster that is mirrored to.

    Args:
        config: of the mirror.
        runtime: of the mirror.

    Raises:
        ZkbrokerError: it cannot be reached.
    """

    _MOST_REPLICAS = 3

    def __init__(self, config: MirrorConfig, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        plain = config.producer(idempotent=False)
        self.cluster = make_cluster(plain, runtime).start()
        try:
            connection = self.cluster.any_connection()
            knows_numbers = ApiKey.INIT_PRODUCER_ID in connection.versions
            if config.exactly_once and ApiKey.END_TXN not in connection.versions:
                raise ConfigError(
                    f"exactly.once=true: the target at {connection.address} has no transactions, "
                    "which came with 0.11; mirror at least once"
                )
            numbered = knows_numbers and plain.required_acks == -1
            self.magic = self._magic(connection.best_version(ApiKey.PRODUCE), plain.message_format)
            self.settings = config.producer(idempotent=numbered and self.magic == 2)
            self.producer = Producer(self.settings, runtime=runtime, cluster=self.cluster)
        except BaseException:
            self.cluster.close()
            raise
        self._admin: TopicAdmin | None = None
        self._lock = runtime.lock()
        self._told: set[str] = set()
        logger.info(
            "target connected brokers=%d magic=%d idempotence=%s",
            len(self.cluster.brokers()),
            self.magic,
            self.settings.idempotence,
        )

    @staticmethod
    def _magic(version: int, wanted: str) -> int:
        newest = next(magic for least, magic in _MAGIC_BY_VERSION if version >= least)
        return newest if wanted == "auto" else min(newest, int(wanted))

    def admin(self) -> TopicAdmin:
        """Return the way to the target's topics; opened when it is first asked for.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        with self._lock:
            if self._admin is None:
                connect = self.settings.zookeeper_connect
                self._admin = (
                    ZooKeeperTopics(connect, self.cluster) if connect else WireTopics(self.cluster)
                )
            return self._admin

    def count(self, topic: str) -> int:
        """Return how many partitions a topic has; the brokers may create it.

        Raises:
            ZkbrokerError: it does not exist and is not created, or nobody answers.
        """
        known = self.cluster.known_partitions(topic)
        if known:
            return len(known)
        return len(self.cluster.partitions(topic, create=True))

    def transactional_producer(self, transactional_id: str) -> Producer:
        """Make a producer whose batches and messages are part of transactions."""
        settings = self._config.producer(idempotent=True, transactional_id=transactional_id)
        return Producer(settings, runtime=self._runtime, cluster=self.cluster)

    def have(self, topic: str, settings: Mapping[str, str] | None = None) -> int:
        """Have a topic of the mirror's own, made with one partition; returns how many it has.

        Args:
            topic: its name.
            settings: of the topic where it is made here.

        Raises:
            ZkbrokerError: it cannot be had, or nobody answers.
        """
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
        """Return how many partitions a topic has; it is created or grown after that of the source.

        Args:
            topic: its name here.
            partition: a number that it must have.
            source: topics of the source.
            source_topic: its name there.

        Raises:
            ZkbrokerError: that cannot be done, or nobody answers.
        """
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
        """Ask for more partitions; return what was answered where the topic has them by now.

        A stream and the upkeep may ask for the same at once, and an operator at any time.
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
        """Bring the settings and the count of a topic in line with the source's.

        What cannot be done is told once for each topic and tried again later.
        """
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
            level = logging.DEBUG if topic in self._told else logging.WARNING
            self._told.add(topic)
            logger.log(level, "topic settings not followed topic=%s error=%s", topic, error)
        else:
            self._told.discard(topic)

    def close(self, timeout_s: float) -> None:
        """Close the producer, which sends what it has within the time, and the connections."""
        try:
            self.producer.close(timeout_s)
        finally:
            if self._admin is not None:
                self._admin.close()
            self.cluster.close()
