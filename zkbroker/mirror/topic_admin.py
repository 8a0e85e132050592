"""Topics of a cluster with their counts and settings, read and changed in one of two ways.

    through ZooKeeper      any broker of 0.8 or later that is reached so
    over the protocol      brokers of 0.10.1 (create), 0.11 (settings), 1.0 (grow)

Invariant: what one way cannot do is an error that names the other one. A controller that moves,
or a broker that goes, is waited out for a bounded time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from zkbroker.admin import topics as zk_topics
from zkbroker.admin import wire_topics
from zkbroker.admin.topics import TopicDescription
from zkbroker.client import Cluster
from zkbroker.client.asking_again import ask_again
from zkbroker.config.zookeeper_security import ZooKeeperSecurity
from zkbroker.errors import ErrorCode, ProtocolError, protocol_error
from zkbroker.protocol.messages import AlterConfigsRequest
from zkbroker.protocol.messages.configs import AlterConfigsResource
from zkbroker.protocol.messages.topics import TopicConfig
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
        return _shape(zk_topics.describe(self._session, [topic]))

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
        # Before brokers are asked by a name, for which they may make a topic.
        self._cluster.partitions(topic)
        return _shape(wire_topics.describe(self._cluster, [topic]))

    def create(self, topic: str, shape: TopicShape) -> None:
        def create() -> None:
            try:
                wire_topics.create_topic(
                    self._cluster,
                    topic,
                    partitions=shape.partitions,
                    replication_factor=shape.replicas,
                    config=shape.settings,
                )
            except ProtocolError as error:
                # Also where the answer to the first request was lost.
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

        ask_again(self._cluster, [], create)

    def grow(self, topic: str, partitions: int) -> None:
        grow = partial(wire_topics.add_partitions, self._cluster, topic, partitions)
        ask_again(self._cluster, [], grow)

    def set_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        configs = [TopicConfig(name, value) for name, value in sorted(settings.items())]
        request = AlterConfigsRequest([AlterConfigsResource(resource_name=topic, configs=configs)])

        def change() -> None:
            connection = self._cluster.any_connection()
            wire_topics.require_api(connection, request.api_key)
            (found,) = connection.request(request).resources
            if found.error_code:
                why = found.error_message or f"settings of topic {topic} cannot be changed"
                raise protocol_error(found.error_code, why)

        ask_again(self._cluster, [], change)

    def close(self) -> None:
        """The cluster is not ours."""


def _shape(described: list[TopicDescription]) -> TopicShape:
    (found,) = described
    replicas = max((len(each.replicas) for each in found.partitions), default=1)
    return TopicShape(len(found.partitions), replicas, dict(found.config))


def followed(settings: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a copy is to have.

    Args:
        settings: of the source's topic.
        own: of the target's.
    """
    kept = {key: value for key, value in own.items() if key in NOT_FOLLOWED}
    return {**{k: v for k, v in settings.items() if k not in NOT_FOLLOWED}, **kept}
