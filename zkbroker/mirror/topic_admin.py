"""Topics of one side of a mirror, read and changed through ZooKeeper or over the protocol.

    through ZooKeeper      any broker of 0.8 or later that is reached so
    over the protocol      brokers of 0.10.1 (create), 0.11 (settings), 1.0 (grow)

Invariant: what one way cannot do is an error that names the other one. A controller that moves,
or a broker that goes, is waited out for a bounded time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.admin.topic_ways import ByBrokers, ByZooKeeper, TopicWay
from zkbroker.client import Cluster
from zkbroker.client.asking_again import ask_again
from zkbroker.config.security import ClientSecurity
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.zookeeper import ZkSession

CLIENT_ID = "zkbroker-mirror"
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


class TopicAdmin:
    """Topics of one cluster.

    Args:
        cluster: started; not closed here.
        zookeeper: connect string of its ZooKeeper; the protocol is the way where it is empty.
        security: how both are connected to.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """

    def __init__(self, cluster: Cluster, zookeeper: str, security: ClientSecurity) -> None:
        self._cluster = cluster
        self._session: ZkSession | None = None
        self._way: TopicWay = ByBrokers(cluster)
        if zookeeper:
            self._session = ZkSession(zookeeper, security=security.zookeeper).start()
            self._way = ByZooKeeper(self._session, security, CLIENT_ID)

    def shape(self, topic: str) -> TopicShape:
        """Describe a topic.

        Raises:
            UnknownTopicOrPartition: there is none of this name.
        """
        # Before brokers are asked by a name, for which they may make a topic.
        self._cluster.partitions(topic)
        (found,) = self._way.describe([topic])
        replicas = max((len(each.replicas) for each in found.partitions), default=1)
        return TopicShape(len(found.partitions), replicas, dict(found.config))

    def create(self, topic: str, shape: TopicShape) -> None:
        """Create a topic; nothing where it is there by now."""

        def create() -> None:
            try:
                self._way.create(
                    topic, shape.partitions, shape.replicas, None, shape.settings, rack_aware=False
                )
            except ProtocolError as error:
                # Also where the answer to the first request was lost.
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

        ask_again(self._cluster, [], create)

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions.

        Raises:
            ProtocolError: INVALID_PARTITIONS where it has as many, or more.
        """
        ask_again(
            self._cluster, [], lambda: self._way.grow(topic, partitions, None, rack_aware=False)
        )

    def set_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set all settings of a topic; those not given go."""
        ask_again(self._cluster, [], lambda: self._way.set_config(topic, settings))

    def close(self) -> None:
        """Close the session; the cluster stays open."""
        if self._session is not None:
            self._session.close()


def followed(settings: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a copy is to have.

    Args:
        settings: of the source's topic.
        own: of the target's.
    """
    kept = {key: value for key, value in own.items() if key in NOT_FOLLOWED}
    return {**{k: v for k, v in settings.items() if k not in NOT_FOLLOWED}, **kept}
