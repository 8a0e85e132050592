"""Creates, grows, configures and deletes topics, for all APIs that can.

Invariant: everything is checked before anything is written, with the same checks for
`validate_only`. Changes are written to ZooKeeper; the brokers in the assignment, including this
one, act when they see them there.
"""

import logging
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from zkbroker.broker.capacity import PartitionCapacity
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ErrorCode, ProtocolError, UnknownTopicOrPartition
from zkbroker.protocol.offsets_topic import OFFSETS_TOPIC
from zkbroker.protocol.transaction_topic import TRANSACTION_TOPIC
from zkbroker.registry.brokers import BrokerInfo, list_brokers
from zkbroker.registry.topic_rules import (
    Racks,
    check_assignment,
    check_new_name,
    check_topic_name,
    plan_growth,
    plan_topic,
    some_without_rack,
    topic_exists,
)
from zkbroker.registry.topics import (
    add_partitions,
    assignment,
    create_topic,
    mark_for_deletion,
    set_topic_config,
    topic_config,
)
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.errors import NodeExists

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Topics:
    """Changes topics through ZooKeeper; defaults come from the broker's settings."""

    config: BrokerConfig
    session: ZkSession
    view: ClusterView
    capacity: PartitionCapacity

    def create(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        assignment: Mapping[int, Sequence[int]] | None = None,
        settings: Mapping[str, str] | None = None,
        racks: Racks = Racks.REQUIRED,
        validate_only: bool = False,
    ) -> None:
        """Create a topic.

        Args:
            name: its name.
            partitions: how many; -1 for the broker's default. Not given with an assignment.
            replication_factor: replicas of each partition; -1 for the broker's default. Not given
                with an assignment.
            assignment: partition → broker ids, in place of both.
            settings: topic-level configuration.
            racks: how to use the brokers' racks.
            validate_only: check everything and create nothing.

        Raises:
            ProtocolError: a check failed.
            ConfigError: a setting is not allowed.
            RegistryError: ZooKeeper does not answer.
        """
        check_new_name(name, self.view.topics.assignments)
        settings = dict(settings or {})
        self.config.log.with_topic_overrides(settings)
        if assignment:
            if partitions != -1 or replication_factor != -1:
                raise ProtocolError(
                    "Both numPartitions or replicationFactor and replicasAssignments were set. "
                    "Both cannot be used at the same time.",
                    code=ErrorCode.INVALID_REQUEST,
                )
            named = {broker for replicas in assignment.values() for broker in replicas}
            replicas = check_assignment(assignment, self._live(named=named))
        else:
            if partitions == -1:
                partitions = self.config.topic_partitions.get(name, self.config.num_partitions)
            if replication_factor == -1:
                replication_factor = self.config.default_replication_factor
            replicas = plan_topic(
                self._racks(replication_factor), partitions, replication_factor, racks=racks
            )
        self._check_capacity(replicas)
        if not validate_only:
            try:
                create_topic(self.session, name, replicas, settings)
            except NodeExists:
                raise topic_exists(name) from None

    def create_automatically(self, name: str) -> None:
        """Create a topic that a client asked for, with the defaults; no error if it exists.

        Raises:
            ProtocolError: the name is not allowed.
            RegistryError: ZooKeeper does not answer.
        """
        config = self.config
        settings: dict[str, str] = {}
        factor = config.default_replication_factor
        partitions = config.topic_partitions.get(name, config.num_partitions)
        if name == OFFSETS_TOPIC:
            partitions = config.offsets_topic_partitions
            factor = self._internal_replicas(name, config.offsets_topic_replication_factor)
            settings = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            }
        elif name == TRANSACTION_TOPIC:
            partitions = config.transaction_topic_partitions
            factor = self._internal_replicas(name, config.transaction_topic_replication_factor)
            settings = {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(min(config.transaction_topic_min_isr, factor)),
                "segment.bytes": str(config.transaction_topic_segment_bytes),
                "unclean.leader.election.enable": "false",
            }
        try:
            self.create(
                name,
                partitions=partitions,
                replication_factor=factor,
                settings=settings,
                # As genuine brokers create topics on demand: the client that asks for one cannot
                # know the racks of the cluster.
                racks=Racks.USED_IF_COMPLETE,
            )
        except ProtocolError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            return
        logger.info("topic created automatically topic=%s partitions=%d", name, partitions)
        without = some_without_rack(self._racks())
        if without:
            logger.warning(
                "topic=%s was placed without regard to racks: set broker.rack on brokers %s too",
                name,
                ", ".join(map(str, without)),
            )

    def add_partitions(
        self,
        name: str,
        total: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Grow a topic to `total` partitions.

        Args:
            name: the topic.
            total: the new number of partitions.
            assignments: brokers of each new partition, or None to assign them here.
            validate_only: check everything and change nothing.

        Raises:
            ProtocolError: a check failed.
            RegistryError: ZooKeeper does not answer.
        """
        # Not from the view: it may show a topic that was replaced or has grown, and new partitions
        # must follow the present ones.
        current = assignment(self.session, name)
        if current is None:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        named = {broker for replicas in assignments or () for broker in replicas}
        racks = self._racks(len(current.get(0, ())), named)
        replicas = plan_growth(name, current, total, racks, assignment=assignments)
        self._check_capacity(replicas)
        if not validate_only:
            add_partitions(self.session, name, replicas)

    def delete(self, name: str) -> None:
        """Request the deletion of a topic.

        Raises:
            ProtocolError: it does not exist, or deletion is disabled.
            RegistryError: ZooKeeper does not answer.
        """
        if not self.config.delete_topics:
            raise ProtocolError(
                "Topic deletion is disabled.", code=ErrorCode.TOPIC_DELETION_DISABLED
            )
        if name not in self.view.topics.assignments:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        mark_for_deletion(self.session, name)

    def settings(self, name: str) -> dict[str, str]:
        """Return the settings of a topic in ZooKeeper.

        The settings in force follow a few milliseconds later, but a client that has just changed a
        setting, here or at another broker, expects the new value.

        Raises:
            UnknownTopicOrPartition: it does not exist.
            RegistryError: ZooKeeper does not answer.
        """
        self._check_exists(name)
        return topic_config(self.session, name)

    def configure(
        self, name: str, settings: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        """Replace the settings of a topic.

        Raises:
            UnknownTopicOrPartition: it does not exist.
            ConfigError: a setting is not allowed.
            RegistryError: ZooKeeper does not answer.
        """
        self._check_exists(name)
        self.config.log.with_topic_overrides(settings)
        if not validate_only:
            set_topic_config(self.session, name, settings)

    def _check_exists(self, name: str) -> None:
        check_topic_name(name)
        if not self.view.exists(name):
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")

    def _internal_replicas(self, name: str, wanted: int) -> int:
        live = len(self._live(wanted))
        if wanted > live:
            logger.warning(
                "topic=%s gets replicas=%d instead of configured=%d: only brokers live=%d",
                name,
                live,
                wanted,
                live,
            )
        return min(wanted, live)

    def _live(self, replicas: int = 1, named: Set[int] = frozenset()) -> Mapping[int, BrokerInfo]:
        """Return the live brokers of the view, or those of ZooKeeper if they are not enough.

        The view gets a broker from the controller, a moment after the broker has registered.

        Args:
            replicas: how many brokers a partition needs.
            named: brokers that an assignment names.
        """
        live = self.view.brokers
        if len(live) < replicas or not named <= live.keys():
            live = list_brokers(self.session)
        return live

    def _racks(self, replicas: int = 1, named: Set[int] = frozenset()) -> dict[int, str | None]:
        return {broker.id: broker.rack for broker in self._live(replicas, named).values()}

    def _check_capacity(self, added: Mapping[int, Sequence[int]]) -> None:
        assignments = self.view.topics.assignments
        held = (replicas for each in assignments.values() for replicas in each.values())
        self.capacity.check(held, added.values())
