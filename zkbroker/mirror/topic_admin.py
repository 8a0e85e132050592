"""Topics of one side of a mirror, read and changed through ZooKeeper or over the protocol.

    through ZooKeeper      any broker of 0.8 or later
    over the protocol      brokers of 0.10.1 (create), 0.11 (settings), 1.0 (grow)

Invariant: if one way cannot do something, the error names the other one. If the controller moves or
    a broker goes away, requests are retried for a bounded time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.admin.topic_ways import ByZooKeeper, TopicWay
from zkbroker.admin.wire_topics import ByBrokers
from zkbroker.client import Cluster
from zkbroker.client.leader_retries import retry_requests
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
"""Settings that refer to a cluster's own brokers."""


@dataclass(frozen=True, slots=True)
class TopicShape:
    """The shape of a topic: count of partitions, replicas of each, its own settings."""

    partitions: int
    replicas: int
    settings: Mapping[str, str]


class TopicAdmin:
    """Topics of one cluster.

    Args:
        cluster: started; not closed here.
        zookeeper: connect string of its ZooKeeper; if empty, the protocol is used.
        security: of connections to both.

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
        # Checked first: brokers may create a topic that they are asked for by name.
        self._cluster.partitions(topic)
        (found,) = self._way.describe([topic])
        replicas = max((len(each.replicas) for each in found.partitions), default=1)
        return TopicShape(len(found.partitions), replicas, dict(found.config))

    def create(self, topic: str, shape: TopicShape) -> None:
        """Create a topic, unless it exists."""

        def create() -> None:
            try:
                self._way.create(
                    topic, shape.partitions, shape.replicas, None, shape.settings, rack_aware=False
                )
            except ProtocolError as error:
                # Also if the answer to an earlier request was lost.
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

        retry_requests(self._cluster, [], create)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic.

        Raises:
            ProtocolError: INVALID_PARTITIONS if it has as many or more.
        """
        retry_requests(
            self._cluster, [], lambda: self._way.grow(topic, partitions, None, rack_aware=False)
        )

    def set_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        """Replace all settings of a topic."""
        retry_requests(self._cluster, [], lambda: self._way.set_config(topic, settings))

    def close(self) -> None:
        """Close the session; the cluster stays open."""
        if self._session is not None:
            self._session.close()


def followed(settings: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a copy.

    Args:
        settings: of the source's topic.
        own: of the target's.
    """
    kept = {key: value for key, value in own.items() if key in NOT_FOLLOWED}
    return {**{k: v for k, v in settings.items() if k not in NOT_FOLLOWED}, **kept}
