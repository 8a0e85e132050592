"""The two ways to the topics of a cluster: by its ZooKeeper, and by its brokers.

Invariant: `zkbroker topics` and `health` do and print the same by either; what one way cannot do
is a usage error that names the other.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import CLIENT_ID, NO_CLUSTER, open_cluster, open_session
from zkbroker.cli.security import current_security
from zkbroker.errors import ConfigError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from zkbroker.admin.topics import TopicDescription
    from zkbroker.client import Cluster
    from zkbroker.zookeeper import ZkSession

Assignment = Mapping[int, Sequence[int]]

_ANSWER_MS = 5_000
"""How long each broker may take to connect, and to answer, where ZooKeeper is the way."""


class ByZooKeeper:
    """Topics by ZooKeeper. Args: session: a started one.

    `names` says which topics are marked for deletion; `defaults` returns settings of the brokers
    that are whole numbers, `min_isr` leaves topics out that no broker describes.
    """

    def __init__(self, session: "ZkSession") -> None:
        self._session = session

    def names(self) -> dict[str, bool]:
        from zkbroker.registry.topics import list_topics, topics_to_delete

        names = list_topics(self._session)
        marked = set(topics_to_delete(self._session))
        return {name: name in marked for name in names}

    def assignment(self, topic: str) -> Assignment | None:
        from zkbroker.registry.topics import assignment

        return assignment(self._session, topic)

    def create(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        assignment: Assignment | None,
        config: Mapping[str, str],
        *,
        rack_aware: bool,
    ) -> None:
        from zkbroker.admin.topics import create_topic

        create_topic(
            self._session,
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            assignment=assignment,
            config=config,
            rack_aware=rack_aware,
        )

    def describe(self, names: Sequence[str]) -> "list[TopicDescription]":
        from zkbroker.admin.topics import describe

        return describe(self._session, names)

    def alter_config(self, topic: str, add: Mapping[str, str], delete: Sequence[str]) -> None:
        from zkbroker.admin.topics import alter_config

        alter_config(self._session, topic, add=add, delete=delete)

    def grow(
        self, topic: str, total: int, added: Sequence[Sequence[int]] | None, *, rack_aware: bool
    ) -> None:
        from zkbroker.admin.topics import add_partitions

        add_partitions(self._session, topic, total, assignment=added, rack_aware=rack_aware)

    def delete(self, topic: str) -> None:
        from zkbroker.admin.topics import delete_topic

        delete_topic(self._session, topic)

    def brokers(self) -> list[int]:
        from zkbroker.registry.brokers import list_brokers

        return list(list_brokers(self._session))

    def controller(self) -> int | None:
        from zkbroker.registry.controller_election import current_controller

        return current_controller(self._session)

    def defaults(self, names: Sequence[str]) -> dict[str, int]:
        from zkbroker.admin.cluster_settings import broker_defaults

        with self._cluster() as cluster:
            return broker_defaults(cluster, names)

    def min_isr(self, topics: Collection[str]) -> dict[str, int]:
        from zkbroker.admin.cluster_settings import effective_min_isr
        from zkbroker.client import NoBrokersAvailable

        if not topics:
            return {}
        try:
            with self._cluster() as cluster:
                return effective_min_isr(cluster, topics)
        except NoBrokersAvailable:
            return {}

    def _cluster(self) -> "Cluster":
        """Return the brokers that are registered, for what ZooKeeper does not know."""
        from zkbroker.client import Cluster, ZooKeeperSource

        return Cluster(
            ZooKeeperSource(session=self._session),
            client_id=CLIENT_ID,
            request_timeout_ms=_ANSWER_MS,
            connect_timeout_ms=_ANSWER_MS,
            security=current_security(),
        )


class ByBrokers:
    """The same by the brokers. Args: cluster: a started one."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster

    def names(self) -> dict[str, bool]:
        # Which are marked is written in ZooKeeper alone.
        return dict.fromkeys(sorted(self._cluster.topics()), False)

    def assignment(self, topic: str) -> Assignment | None:
        try:
            (found,) = self.describe([topic])
        except UnknownTopicOrPartition:
            return None
        return {each.partition: each.replicas for each in found.partitions}

    def create(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        assignment: Assignment | None,
        config: Mapping[str, str],
        *,
        rack_aware: bool,
    ) -> None:
        from zkbroker.admin.wire_topics import await_topic, create_topic

        _refuse_without_racks(rack_aware)
        create_topic(
            self._cluster,
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            assignment=assignment,
            config=config,
        )
        await_topic(self._cluster, topic)

    def describe(self, names: Sequence[str]) -> "list[TopicDescription]":
        from zkbroker.admin.wire_topics import describe

        return describe(self._cluster, names)

    def alter_config(self, topic: str, add: Mapping[str, str], delete: Sequence[str]) -> None:
        from zkbroker.admin.wire_topics import alter_config

        alter_config(self._cluster, topic, add=add, delete=delete)

    def grow(
        self, topic: str, total: int, added: Sequence[Sequence[int]] | None, *, rack_aware: bool
    ) -> None:
        from zkbroker.admin.wire_topics import add_partitions

        _refuse_without_racks(rack_aware)
        add_partitions(self._cluster, topic, total, assignment=added)

    def delete(self, topic: str) -> None:
        from zkbroker.admin.wire_topics import delete_topic

        delete_topic(self._cluster, topic)

    def brokers(self) -> list[int]:
        return sorted(self._cluster.brokers())

    def controller(self) -> int | None:
        from zkbroker.admin.wire_topics import controller_id

        return controller_id(self._cluster)

    def defaults(self, names: Sequence[str]) -> dict[str, int]:
        from zkbroker.admin.cluster_settings import broker_defaults

        return broker_defaults(self._cluster, names)

    def min_isr(self, topics: Collection[str]) -> dict[str, int]:
        from zkbroker.admin.cluster_settings import effective_min_isr

        return effective_min_isr(self._cluster, topics)


TopicWay = ByZooKeeper | ByBrokers


def min_isr_of(
    way: TopicWay, described: "Sequence[TopicDescription]"
) -> tuple[dict[str, int], set[str]]:
    """Return `min.insync.replicas` of topics, and the topics of which no broker tells it."""
    from zkbroker.admin.cluster_settings import MIN_ISR

    own = {each.topic: int(each.config[MIN_ISR]) for each in described if MIN_ISR in each.config}
    others = {each.topic for each in described} - own.keys()
    found = {**way.min_isr(others), **own}
    return found, others - found.keys()


def _refuse_without_racks(rack_aware: bool) -> None:
    if not rack_aware:
        raise click.UsageError(
            "--disable-rack-aware needs -z: by -b the controller places replicas, and looks at "
            "racks. --replica-assignment places them by hand"
        )


@contextmanager
def open_topics(
    bootstrap: str | None, zookeeper: str | None, *, needs_brokers: bool = False
) -> Iterator[TopicWay]:
    """Open the way that the options name; brokers count when both are given.

    Args:
        bootstrap: brokers.
        zookeeper: its address with the chroot.
        needs_brokers: in ZooKeeper, brokers have to be registered.

    Raises:
        ConfigError: neither is given.
        ClientError: no broker answers.
        RegistryError: ZooKeeper does not answer, or there is no cluster under the address.
    """
    if bootstrap is not None:
        with open_cluster(bootstrap, None) as cluster:
            yield ByBrokers(cluster)
    elif zookeeper is not None:
        with open_session(zookeeper, needs_brokers=needs_brokers) as session:
            yield ByZooKeeper(session)
    else:
        raise ConfigError(NO_CLUSTER)
