"""Topics of a cluster with their counts and settings, read and changed in one of two ways.

    through ZooKeeper      any broker of 0.8 or later that is reached so
    over the protocol      brokers of 0.10.1 (create), 0.11 (settings), 1.0 (grow)

Invariant: what one way cannot do is an error that names the other one. A controller that moves,
or a broker that goes, is waited out for a bounded time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from zkbroker.admin import topics as zk_topics
from zkbroker.client import Cluster
from zkbroker.client.asking_again import ask_again
from zkbroker.client.metadata_source import ask
from zkbroker.config.zookeeper_security import ZooKeeperSecurity
from zkbroker.errors import ErrorCode, UnsupportedVersion, protocol_error
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
)
from zkbroker.protocol.messages.configs import (
    AlterConfigsResource,
    ConfigSource,
    DescribeConfigsResource,
)
from zkbroker.protocol.messages.topics import NewPartitions, NewTopic, TopicConfig
from zkbroker.registry import topics as registry_topics
from zkbroker.zookeeper import ZkSession

NOT_FOLLOWED = frozenset(
    {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "min.insync.replicas",
        "unclean.leader.election.enable",
        "remote.storage.enable",
    }
)
"""Settings that speak of a cluster's own brokers."""

_READ_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class TopicShape:
    """What a topic is like: count of partitions, replicas of each, settings of its own."""

    partitions: int
    replicas: int
    settings: Mapping[str, str]


class TopicAdmin(Protocol):
    """Topics of one cluster."""

    def shape(self, topic: str) -> TopicShape:
        """Describe a topic.

        Raises:
            UnknownTopicOrPartition: there is none of this name.
        """

    def create(self, topic: str, shape: TopicShape) -> None:
        """Create a topic; nothing where it is there by now."""

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions.

        Raises:
            ProtocolError: INVALID_PARTITIONS where it has as many, or more.
        """

    def set_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set all settings of a topic; those not given go."""

    def close(self) -> None:
        """Release what it took."""


class ZooKeeperTopics:
    """Topics through ZooKeeper.

    Args:
        connect: its connect string.
        cluster: of the same brokers.
        security: how its ZooKeeper is spoken to.
    """

    def __init__(self, connect: str, cluster: Cluster, security: ZooKeeperSecurity) -> None:
        self._session = ZkSession(connect, security=security).start()
        self._cluster = cluster

    def shape(self, topic: str) -> TopicShape:
        (found,) = zk_topics.describe(self._session, [topic])
        replicas = max((len(each.replicas) for each in found.partitions), default=1)
        return TopicShape(len(found.partitions), replicas, dict(found.config))

    def create(self, topic: str, shape: TopicShape) -> None:
        if registry_topics.assignment(self._session, topic) is not None:
            return
        zk_topics.create_topic(
            self._session,
            topic,
            partitions=shape.partitions,
            replication_factor=shape.replicas,
            config=shape.settings,
            rack_aware=False,
        )

    def grow(self, topic: str, partitions: int) -> None:
        zk_topics.add_partitions(self._session, topic, partitions, rack_aware=False)

    def set_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        registry_topics.set_topic_config(self._session, topic, settings)

    def close(self) -> None:
        self._session.close()


class WireTopics:
    """Topics over the protocol.

    Args:
        cluster: started; not closed here.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def shape(self, topic: str) -> TopicShape:
        self._cluster.partitions(topic)
        answer = ask(self._cluster.any_connection(), [topic])
        found = next(each for each in answer.topics if each.topic == topic)
        replicas = max((len(each.replicas) for each in found.partitions), default=1)
        return TopicShape(len(found.partitions), replicas, self._settings(topic))

    def _settings(self, topic: str) -> dict[str, str]:
        connection = self._cluster.any_connection()
        if ApiKey.DESCRIBE_CONFIGS not in connection.versions:
            return {}
        request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_name=topic)])
        (found,) = connection.request(request).resources
        _check(found, f"settings of topic {topic}")
        with_sources = any(each.source != ConfigSource.UNKNOWN for each in found.entries)
        return {
            each.name: each.value
            for each in found.entries
            if each.value is not None
            and (each.source == ConfigSource.TOPIC if with_sources else not each.is_default)
        }

    def create(self, topic: str, shape: TopicShape) -> None:
        new = NewTopic(
            topic=topic,
            num_partitions=shape.partitions,
            replication_factor=shape.replicas,
            configs=_configs(shape.settings),
        )

        def create() -> None:
            (found,) = self._ask(CreateTopicsRequest(topics=[new])).topics
            # Also where the answer to the first request was lost.
            if found.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                _check(found, f"topic {topic} cannot be created")

        ask_again(self._cluster, [], create)

    def grow(self, topic: str, partitions: int) -> None:
        request = CreatePartitionsRequest(topics=[NewPartitions(topic=topic, count=partitions)])

        def grow() -> None:
            (found,) = self._ask(request).topics
            _check(found, f"topic {topic} cannot grow to {partitions} partitions")

        ask_again(self._cluster, [], grow)

    def set_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        changed = AlterConfigsResource(resource_name=topic, configs=_configs(settings))

        def change() -> None:
            (found,) = self._ask(AlterConfigsRequest(resources=[changed])).resources
            _check(found, f"settings of topic {topic} cannot be changed")

        ask_again(self._cluster, [], change)

    def _ask(self, request: Any) -> Any:
        connection = self._cluster.any_connection()
        if request.api_key in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS):
            controller = ask(connection, []).controller_id
            if controller in self._cluster.brokers():
                connection = self._cluster.connection(controller)
        if request.api_key not in connection.versions:
            raise UnsupportedVersion(
                f"the broker at {connection.address} does not take {request.api_key.name}: name "
                "the cluster's zookeeper.connect, or make the topic by hand"
            )
        return connection.request(request, timeout_s=_READ_TIMEOUT_S)

    def close(self) -> None:
        """The cluster is not ours."""


def _configs(settings: Mapping[str, str]) -> list[TopicConfig]:
    return [TopicConfig(name, value) for name, value in sorted(settings.items())]


def _check(found: Any, what: str) -> None:
    if found.error_code:
        said = getattr(found, "error_message", None)
        raise protocol_error(found.error_code, f"{what}: {said}" if said else what)


def followed(settings: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a copy is to have.

    Args:
        settings: of the source's topic.
        own: of the target's.
    """
    kept = {key: value for key, value in own.items() if key in NOT_FOLLOWED}
    return {**{k: v for k, v in settings.items() if k not in NOT_FOLLOWED}, **kept}
