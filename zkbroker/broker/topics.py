"""Creating, growing, configuring and deleting topics, for every API that may.

Invariant: everything is checked before anything is written, with the same checks whether the caller
only wants to know (`validate_only`) or not. What is written goes to ZooKeeper; the brokers named in
the assignment, this one among them, act when they see it there.
"""

import logging
from collections.abc import Mapping, Sequence

from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ErrorCode, InvalidTopic, ProtocolError, UnknownTopicOrPartition
from zkbroker.protocol.offsets_topic import OFFSETS_TOPIC
from zkbroker.registry import ZkSession
from zkbroker.registry.assignment import assign_replicas
from zkbroker.registry.errors import NodeExists
from zkbroker.registry.topics import (
    add_partitions,
    check_topic_name,
    create_topic,
    mark_for_deletion,
    set_topic_config,
    topic_config,
)

logger = logging.getLogger(__name__)

MAX_PARTITIONS = 100_000


class Topics:
    """Changes topics through ZooKeeper.

    Args:
        config: the broker's settings, for defaults.
        session: a started session.
        view: the cluster.
    """

    def __init__(self, config: BrokerConfig, session: ZkSession, view: ClusterView) -> None:
        self._config = config
        self._session = session
        self._view = view

    def create(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        assignment: Mapping[int, Sequence[int]] | None = None,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic.

        Args:
            name: its name.
            partitions: how many; -1 for the broker's default. Not given with an assignment.
            replication_factor: 1, or -1 for it. Not given with an assignment.
            assignment: partition → broker ids, in place of both.
            settings: topic-level configuration.
            validate_only: check everything and create nothing.

        Raises:
            ProtocolError: what the checks found.
            ConfigError: a setting is not allowed.
            RegistryError: ZooKeeper does not answer.
        """
        check_topic_name(name)
        if name in self._view.topics.assignments:
            raise ProtocolError(
                f"Topic '{name}' already exists.", code=ErrorCode.TOPIC_ALREADY_EXISTS
            )
        self._check_collision(name)
        settings = dict(settings or {})
        self._config.log.with_topic_overrides(settings)
        if assignment:
            if partitions != -1 or replication_factor != -1:
                raise ProtocolError(
                    "Both numPartitions or replicationFactor and replicasAssignments were set. "
                    "Both cannot be used at the same time.",
                    code=ErrorCode.INVALID_REQUEST,
                )
            replicas: Mapping[int, Sequence[int]] = self._checked_assignment(assignment, first=0)
        else:
            replicas = self._assign(name, partitions, replication_factor)
        if not validate_only:
            try:
                create_topic(self._session, name, replicas, settings)
            except NodeExists:
                raise ProtocolError(
                    f"Topic '{name}' already exists.", code=ErrorCode.TOPIC_ALREADY_EXISTS
                ) from None

    def create_automatically(self, name: str) -> None:
        """Create a topic that somebody asked for, with the defaults; fine if it exists.

        Raises:
            ProtocolError: the name is not allowed.
            RegistryError: ZooKeeper does not answer.
        """
        config = self._config
        settings: dict[str, str] = {}
        partitions = config.topic_partitions.get(name, config.num_partitions)
        if name == OFFSETS_TOPIC:
            partitions = config.offsets_topic_partitions
            settings = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            }
        try:
            self.create(name, partitions=partitions, replication_factor=1, settings=settings)
        except ProtocolError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            return
        logger.info("topic created automatically topic=%s partitions=%d", name, partitions)

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
            total: partitions it is to have.
            assignments: brokers of each added partition, or None to have them assigned.
            validate_only: check everything and change nothing.

        Raises:
            ProtocolError: what the checks found.
            RegistryError: ZooKeeper does not answer.
        """
        current = self._view.assignment(name)
        if current is None:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        if total == len(current):
            raise ProtocolError(
                f"Topic already has {total} partitions.", code=ErrorCode.INVALID_PARTITIONS
            )
        if total < len(current):
            raise ProtocolError(
                f"Topic currently has {len(current)} partitions, which is higher than the "
                f"requested {total}.",
                code=ErrorCode.INVALID_PARTITIONS,
            )
        self._check_count(total)
        added = range(len(current), total)
        if assignments is None:
            start = current[0][0] if current and current.get(0) else None
            replicas: Mapping[int, Sequence[int]] = assign_replicas(
                self._racks(), len(added), 1, start_broker=start, first_partition=len(current)
            )
        else:
            if len(assignments) != len(added):
                raise ProtocolError(
                    f"Increasing the number of partitions by {len(added)} but "
                    f"{len(assignments)} assignments provided.",
                    code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                )
            replicas = self._checked_assignment(
                dict(zip(added, assignments, strict=True)), first=len(current)
            )
        if not validate_only:
            add_partitions(self._session, name, replicas)

    def delete(self, name: str) -> None:
        """Ask for the deletion of a topic.

        Raises:
            ProtocolError: it does not exist, or deletion is disabled.
            RegistryError: ZooKeeper does not answer.
        """
        if not self._config.delete_topics:
            raise ProtocolError(
                "Topic deletion is disabled.", code=ErrorCode.TOPIC_DELETION_DISABLED
            )
        if name not in self._view.topics.assignments:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        mark_for_deletion(self._session, name)

    def settings(self, name: str) -> dict[str, str]:
        """Return the settings of a topic as ZooKeeper has them.

        What this broker acts on follows them some milliseconds later; who has just changed a
        setting, here or at another broker, expects to be told the new value.

        Raises:
            UnknownTopicOrPartition: it does not exist.
            RegistryError: ZooKeeper does not answer.
        """
        check_topic_name(name)
        if not self._view.exists(name):
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        return topic_config(self._session, name)

    def configure(
        self, name: str, settings: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        """Replace the settings of a topic.

        Raises:
            UnknownTopicOrPartition: it does not exist.
            ConfigError: a setting is not allowed.
            RegistryError: ZooKeeper does not answer.
        """
        check_topic_name(name)
        if not self._view.exists(name):
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        self._config.log.with_topic_overrides(settings)
        if not validate_only:
            set_topic_config(self._session, name, settings)

    def _assign(
        self, name: str, partitions: int, replication_factor: int
    ) -> Mapping[int, Sequence[int]]:
        if partitions == -1:
            partitions = self._config.topic_partitions.get(name, self._config.num_partitions)
        self._check_count(partitions)
        if replication_factor == -1:
            replication_factor = 1
        if replication_factor < 1:
            raise ProtocolError(
                "Replication factor must be larger than 0.",
                code=ErrorCode.INVALID_REPLICATION_FACTOR,
            )
        # Also refuses more replicas than there are brokers, in the genuine brokers' words.
        assigned = assign_replicas(self._racks(), partitions, replication_factor)
        if replication_factor > 1:
            raise ProtocolError(
                f"Replication factor: {replication_factor} larger than 1: partitions have one "
                f"replica.",
                code=ErrorCode.INVALID_REPLICATION_FACTOR,
            )
        return assigned

    def _racks(self) -> dict[int, str | None]:
        return {broker.id: broker.rack for broker in self._view.brokers.values()}

    def _checked_assignment(
        self, assignment: Mapping[int, Sequence[int]], first: int
    ) -> dict[int, tuple[int, ...]]:
        numbers = sorted(assignment)
        if numbers != list(range(first, first + len(numbers))):
            raise ProtocolError(
                "Partitions should be a consecutive 0-based integer sequence.",
                code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            )
        self._check_count(len(numbers))
        for number in numbers:
            replicas = assignment[number]
            unknown = [broker for broker in replicas if broker not in self._view.brokers]
            if not replicas or len(set(replicas)) != len(replicas) or unknown:
                raise ProtocolError(
                    f"Partition {number} cannot be assigned to brokers {list(replicas)}: "
                    f"live ones are {sorted(self._view.brokers)}, each at most once.",
                    code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                )
            if len(replicas) > 1:
                raise ProtocolError(
                    f"Replication factor: {len(replicas)} larger than 1: partitions have one "
                    f"replica.",
                    code=ErrorCode.INVALID_REPLICATION_FACTOR,
                )
        return {number: tuple(assignment[number]) for number in numbers}

    @staticmethod
    def _check_count(partitions: int) -> None:
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise ProtocolError(
                f"Number of partitions must be from 1 to {MAX_PARTITIONS}, not {partitions}.",
                code=ErrorCode.INVALID_PARTITIONS,
            )

    def _check_collision(self, name: str) -> None:
        # Genuine brokers refuse it because their metric names have both characters as one.
        if "." not in name and "_" not in name:
            return
        folded = name.replace(".", "_")
        for other in self._view.topics.assignments:
            if other != name and other.replace(".", "_") == folded:
                raise InvalidTopic(f"Topic '{name}' collides with existing topics: {other}")
