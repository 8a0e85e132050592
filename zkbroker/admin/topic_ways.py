"""The two ways to the topics of a cluster: by its ZooKeeper, and by its brokers.

Invariant: both do and return the same. Only ZooKeeper allows placing replicas without regard to
    racks, since with brokers the controller places them.
"""

from collections.abc import Collection, Mapping, Sequence

from zkbroker.admin import topics
from zkbroker.admin.cluster_settings import broker_defaults, effective_min_isr
from zkbroker.admin.topics import TopicDescription
from zkbroker.admin.wire_topics import Assignment, ByBrokers
from zkbroker.client import Cluster, NoBrokersAvailable, ZooKeeperSource
from zkbroker.client.topic_settings import MIN_ISR
from zkbroker.config.security import ClientSecurity
from zkbroker.registry import topics as registry
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.controller_election import current_controller
from zkbroker.zookeeper import ZkSession

_ANSWER_MS = 5_000
"""How long each broker may take to connect and to answer, for `ByZooKeeper`."""


class ByZooKeeper:
    """Topics by ZooKeeper.

    `names` marks topics under deletion; `set_config` replaces all settings of a topic; `defaults`
    returns settings of the brokers that are whole numbers; `min_isr` leaves out topics that no
    broker describes.

    Args:
        session: a started one.
        security: of connections to brokers, for settings that are not in ZooKeeper.
        client_id: sent to them.
    """

    def __init__(self, session: ZkSession, security: ClientSecurity, client_id: str) -> None:
        self._session = session
        self._security = security
        self._client_id = client_id

    def names(self) -> dict[str, bool]:
        names = registry.list_topics(self._session)
        marked = set(registry.topics_to_delete(self._session))
        return {name: name in marked for name in names}

    def assignment(self, topic: str) -> Assignment | None:
        return registry.assignment(self._session, topic)

    def create(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        assignment: Assignment | None = None,
        config: Mapping[str, str] | None = None,
        *,
        rack_aware: bool = True,
    ) -> None:
        topics.create_topic(
            self._session,
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            assignment=assignment,
            config=config,
            rack_aware=rack_aware,
        )

    def describe(self, names: Sequence[str]) -> list[TopicDescription]:
        return topics.describe(self._session, names)

    def alter_config(self, topic: str, add: Mapping[str, str], delete: Sequence[str] = ()) -> None:
        topics.alter_config(self._session, topic, add=add, delete=delete)

    def set_config(self, topic: str, settings: Mapping[str, str]) -> None:
        registry.set_topic_config(self._session, topic, settings)

    def grow(
        self,
        topic: str,
        total: int,
        added: Sequence[Sequence[int]] | None = None,
        *,
        rack_aware: bool = True,
    ) -> None:
        topics.add_partitions(self._session, topic, total, assignment=added, rack_aware=rack_aware)

    def delete(self, topic: str) -> None:
        topics.delete_topic(self._session, topic)

    def brokers(self) -> list[int]:
        return list(list_brokers(self._session))

    def controller(self) -> int | None:
        return current_controller(self._session)

    def defaults(self, names: Sequence[str]) -> dict[str, int]:
        with self._cluster() as cluster:
            return broker_defaults(cluster, names)

    def min_isr(self, names: Collection[str]) -> dict[str, int]:
        if not names:
            return {}
        try:
            with self._cluster() as cluster:
                return effective_min_isr(cluster, names)
        except NoBrokersAvailable:
            return {}

    def _cluster(self) -> Cluster:
        return Cluster(
            ZooKeeperSource(session=self._session),
            client_id=self._client_id,
            request_timeout_ms=_ANSWER_MS,
            connect_timeout_ms=_ANSWER_MS,
            security=self._security,
        )


TopicWay = ByZooKeeper | ByBrokers


def min_isr_of(
    way: TopicWay, described: Sequence[TopicDescription]
) -> tuple[dict[str, int], set[str]]:
    """Return `min.insync.replicas` of topics, and the topics for which no broker shows it."""
    own = {each.topic: int(each.config[MIN_ISR]) for each in described if MIN_ISR in each.config}
    others = {each.topic for each in described} - own.keys()
    found = {**way.min_isr(others), **own}
    return found, others - found.keys()
