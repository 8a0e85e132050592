"""Topics by the brokers: the counterpart of `topic_ways.ByZooKeeper`, over the protocol.

    list, describe   Metadata and DescribeConfigs, of any broker
    create           CreateTopics, of the controller (0.10.1 and later)
    grow             CreatePartitions, of the controller (1.0 and later)
    delete           DeleteTopics, of the controller (0.10.1 and later)
    settings         DescribeConfigs and AlterConfigs (0.11 and later)

Invariant: brokers check and decide; a refusal is raised with their text. If a broker is too old for
    a request, the error names the way through ZooKeeper.
"""

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from zkbroker.admin.cluster_settings import broker_defaults, effective_min_isr
from zkbroker.admin.described_configs import change_described, is_own
from zkbroker.admin.entity_configs import TopicEntity
from zkbroker.admin.topics import PartitionDescription, TopicDescription
from zkbroker.client import Cluster
from zkbroker.client.metadata_source import ask
from zkbroker.errors import (
    ClientError,
    ErrorCode,
    ProtocolError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    ZkbrokerError,
    protocol_error,
)
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)
from zkbroker.protocol.messages.configs import (
    AlterConfigsResource,
    ConfigResourceType,
    ConfigSource,
    DescribeConfigsResource,
)
from zkbroker.protocol.messages.topics import (
    NewPartitionAssignment,
    NewPartitions,
    NewTopic,
    ReplicaAssignment,
    TopicConfig,
)

Assignment = Mapping[int, Sequence[int]]

TIMEOUT_MS = 30_000
"""How long the controller may take until a request has taken effect."""
_AGAIN_S = 0.05
_KNOWN_S = 10.0


class ByBrokers:
    """Topics by their brokers; `ByZooKeeper` has the same methods.

    Args:
        cluster: a started one.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def names(self) -> dict[str, bool]:
        # Only ZooKeeper records which topics are marked.
        return dict.fromkeys(sorted(self._cluster.topics()), False)

    def assignment(self, topic: str) -> Assignment | None:
        try:
            (found,) = self.describe([topic])
        except UnknownTopicOrPartition:
            return None
        return {each.partition: each.replicas for each in found.partitions}

    def brokers(self) -> list[int]:
        return sorted(self._cluster.brokers())

    def defaults(self, names: Sequence[str]) -> dict[str, int]:
        return broker_defaults(self._cluster, names)

    def min_isr(self, names: Collection[str]) -> dict[str, int]:
        return effective_min_isr(self._cluster, names)

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
        """Create a topic, and wait until every broker that answers knows it.

        Args:
            topic: its name.
            partitions: how many; ignored if there is an assignment.
            replication_factor: replicas of each; likewise.
            assignment: partition → broker ids.
            config: the topic's own configuration, such as `retention.ms`.
            rack_aware: not used: the controller places replicas, and uses racks.

        Raises:
            ProtocolError: the controller refuses, or did not do it in time.
            UnsupportedVersion: the brokers are too old for it.
        """
        new = NewTopic(
            topic, configs=[TopicConfig(*each) for each in sorted((config or {}).items())]
        )
        if assignment is None:
            new.num_partitions, new.replication_factor = partitions, replication_factor
        else:
            new.assignments = [
                ReplicaAssignment(number, list(brokers)) for number, brokers in assignment.items()
            ]
        answer = self._ask_controller(CreateTopicsRequest([new], TIMEOUT_MS))
        _check(answer.topics[0], f"topic {topic} was not created")
        self._await(topic)

    def _await(self, topic: str) -> None:
        """Wait until every broker that answers knows a topic that was just created.

        Brokers learn of it one after the other, and the next request may go to any of them. After a
        timeout the function returns all the same.
        """
        deadline = time.monotonic() + _KNOWN_S
        for broker in sorted(self._cluster.brokers()):
            # The next request will not go to a broker that is down.
            with contextlib.suppress(ZkbrokerError):
                connection = self._cluster.connection(broker)
                while time.monotonic() < deadline:
                    (found,) = ask(connection, [topic]).topics
                    if found.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        break
                    self._cluster.runtime.sleep(_AGAIN_S)

    def grow(
        self,
        topic: str,
        total: int,
        added: Sequence[Sequence[int]] | None = None,
        *,
        rack_aware: bool = True,
    ) -> None:
        """Add partitions to a topic.

        Args:
            topic: its name.
            total: the new number of partitions.
            added: brokers of each new one; the controller chooses by default.
            rack_aware: not used, see `create`.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            ProtocolError: the controller refuses, or did not do it in time.
            UnsupportedVersion: the brokers are too old for it.
        """
        placed = (
            None if added is None else [NewPartitionAssignment(list(brokers)) for brokers in added]
        )
        request = CreatePartitionsRequest([NewPartitions(topic, total, placed)], TIMEOUT_MS)
        answer = self._ask_controller(request)
        _check(answer.topics[0], f"topic {topic} did not grow to {total} partitions")

    def delete(self, topic: str) -> None:
        """Delete a topic.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            ProtocolError: the controller refuses, as with delete.topic.enable=false.
            UnsupportedVersion: the brokers are too old for it.
        """
        answer = self._ask_controller(DeleteTopicsRequest([topic], TIMEOUT_MS))
        found = answer.topics[0]
        if found.error_code == ErrorCode.REQUEST_TIMED_OUT:
            return  # It is marked; a stopped broker delays its deletion.
        _check(found, f"topic {topic} was not deleted")

    def alter_config(self, topic: str, add: Mapping[str, str], delete: Sequence[str] = ()) -> None:
        """Change a topic's own configuration; settings that are not named are kept.

        Raises:
            UnknownTopicOrPartition: there is no such topic.
            ConfigError: one to delete is not set.
            ProtocolError: the broker refuses.
        """
        self._cluster.partitions(topic)
        change_described(self._cluster, TopicEntity(topic), add=add, delete=delete)

    def set_config(self, topic: str, settings: Mapping[str, str]) -> None:
        """Replace a topic's own configuration.

        Raises:
            ProtocolError: the broker refuses.
            UnsupportedVersion: the broker is too old for it.
        """
        configs = [TopicConfig(name, value) for name, value in sorted(settings.items())]
        request = AlterConfigsRequest([AlterConfigsResource(resource_name=topic, configs=configs)])
        connection = self._cluster.any_connection()
        _require_api(connection, request.api_key)
        (found,) = connection.request(request).resources
        if found.error_code:
            why = found.error_message or f"settings of topic {topic} cannot be changed"
            raise protocol_error(found.error_code, why)

    def describe(self, names: Sequence[str] = ()) -> list[TopicDescription]:
        """Describe topics, or all of them, in order.

        Brokers do not know which topics are marked for deletion: the field is False. Brokers before
        0.11 do not describe settings: none are shown.

        Raises:
            UnknownTopicOrPartition: one of them does not exist.
            ProtocolError: one of them may not be described.
        """
        connection = self._cluster.any_connection()
        answer = ask(connection, sorted(names) or None)
        live = {broker.node_id for broker in answer.brokers}
        found = {each.topic: each for each in answer.topics}
        wanted = sorted(names or found)
        for name in wanted:
            if name not in found:
                raise UnknownTopicOrPartition(f"there is no topic {name}")
            code = found[name].error_code
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopicOrPartition(f"there is no topic {name}")
            if code and code != ErrorCode.LEADER_NOT_AVAILABLE:
                raise protocol_error(code, f"topic {name} cannot be described")
        own = _own_settings(connection, wanted)
        return [
            TopicDescription(
                name,
                own.get(name, {}),
                tuple(
                    PartitionDescription.of(
                        each.partition, each.leader, each.replicas, each.isr, live
                    )
                    for each in sorted(found[name].partitions, key=lambda each: each.partition)
                ),
            )
            for name in wanted
        ]

    def controller(self) -> int | None:
        """Return the id of the controller; None while there is none.

        Raises:
            UnsupportedVersion: the broker is older than 0.10 and does not name it.
        """
        connection = self._cluster.any_connection()
        if connection.best_version(ApiKey.METADATA) == 0:
            raise UnsupportedVersion(
                f"the broker at {connection.address} does not name the controller: give -z "
                "HOST:PORT[/CHROOT] instead of -b"
            )
        found: int = ask(connection, []).controller_id
        return found if found >= 0 else None

    def _ask_controller(self, request: Any) -> Any:
        """Ask the controller; a broker that no longer is the controller names the new one.

        Raises:
            ClientError: no broker is the controller.
        """
        for _ in range(2):
            connection = self._cluster.any_connection()
            controller = ask(connection, []).controller_id
            if controller in self._cluster.brokers():
                connection = self._cluster.connection(controller)
            _require_api(connection, request.api_key)
            wait_s = TIMEOUT_MS / 1000 + connection.request_timeout_s
            answer = connection.request(request, timeout_s=wait_s)
            if answer.topics[0].error_code != ErrorCode.NOT_CONTROLLER:
                return answer
            self._cluster.refresh()
        raise ClientError("no broker that answers is the controller: try again in some seconds")


def _own_settings(connection: BrokerConnection, names: Sequence[str]) -> dict[str, dict[str, str]]:
    if not names or ApiKey.DESCRIBE_CONFIGS not in connection.versions:
        return {}
    resources = [DescribeConfigsResource(ConfigResourceType.TOPIC, name) for name in names]
    answer = connection.request(DescribeConfigsRequest(resources))
    own: dict[str, dict[str, str]] = {}
    for each in answer.resources:
        # The topic was deleted meanwhile.
        if each.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise protocol_error(each.error_code, f"settings of topic {each.resource_name}")
        own[each.resource_name] = {
            entry.name: entry.value
            for entry in each.entries
            if entry.value is not None and is_own(entry, ConfigSource.TOPIC)
        }
    return own


def _require_api(connection: BrokerConnection, api: ApiKey) -> None:
    """Raise `UnsupportedVersion` if a broker lacks an API; the error names the other way."""
    if api not in connection.versions:
        raise UnsupportedVersion(
            f"the broker at {connection.address} does not support {api.name}: give the cluster's "
            "ZooKeeper instead (-z HOST:PORT[/CHROOT], or zookeeper.connect)"
        )


def _check(found: Any, what: str) -> None:
    if not found.error_code:
        return
    said = getattr(found, "error_message", None)
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopicOrPartition(f"there is no topic {found.topic}")
    if said:
        raise ProtocolError(said, code=ErrorCode(found.error_code))
    raise protocol_error(found.error_code, what)
