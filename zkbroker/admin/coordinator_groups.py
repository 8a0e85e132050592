"""Consumer groups kept by coordinators (Kafka 0.9 and later), through the protocol.

Invariant: every group is asked of its own coordinator, found anew for each question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zkbroker.discovery import Cluster
from zkbroker.errors import ErrorCode, protocol_error
from zkbroker.network import BrokerConnection
from zkbroker.protocol.consumer_protocol import decode_assignment, flatten
from zkbroker.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
)

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member and what it was assigned, where its protocol is that of consumers."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group: its state and strategy, its members and its offsets.

    Args:
        coordinator: id of the broker that keeps it.
    """

    group: str
    state: str
    strategy: str
    coordinator: int
    members: tuple[GroupMember, ...]
    offsets: Mapping[TopicPartition, int]

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """Partition → id of the member that it is assigned to."""
        return {key: member.member_id for member in self.members for key in member.partitions}


def list_groups(cluster: Cluster) -> dict[str, str]:
    """Return group → protocol type, of all brokers.

    Raises:
        ProtocolError: a broker does not answer.
    """
    found: dict[str, str] = {}
    for broker in cluster.brokers():
        response = cluster.connection(broker).request(ListGroupsRequest())
        if response.error_code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            raise protocol_error(response.error_code, f"groups of broker {broker}")
        found |= {each.group_id: each.protocol_type for each in response.groups}
    return dict(sorted(found.items()))


def describe(cluster: Cluster, group: str) -> GroupDescription:
    """Describe a group; one that does not exist has the state Dead.

    Raises:
        ProtocolError: its coordinator does not answer, or refuses.
    """
    coordinator, connection = _coordinator(cluster, group)
    (described,) = connection.request(DescribeGroupsRequest(groups=[group])).groups
    if described.error_code:
        raise protocol_error(described.error_code, f"group {group}")
    fetched = connection.request(OffsetFetchRequest(group_id=group, topics=None))
    if fetched.error_code:
        raise protocol_error(fetched.error_code, f"offsets of group {group}")
    consumers = described.protocol_type == "consumer"
    members = tuple(
        GroupMember(
            each.member_id,
            each.client_id,
            each.client_host,
            tuple(flatten(decode_assignment(each.assignment).assigned))
            if consumers and each.assignment
            else (),
        )
        for each in described.members
    )
    offsets = {
        (topic.topic, partition.partition): partition.offset
        for topic in fetched.topics
        for partition in topic.partitions
        if partition.offset >= 0
    }
    return GroupDescription(
        group, described.state, described.protocol_name, coordinator, members, offsets
    )


def delete(cluster: Cluster, names: Sequence[str]) -> None:
    """Delete groups without members, with their offsets.

    Raises:
        ProtocolError: a group has members (68) or does not exist (69).
    """
    for group in names:
        _, connection = _coordinator(cluster, group)
        (deleted,) = connection.request(DeleteGroupsRequest(groups=[group])).groups
        if deleted.error_code:
            raise protocol_error(deleted.error_code, f"group {group}")


def _coordinator(cluster: Cluster, group: str) -> tuple[int, BrokerConnection]:
    found = cluster.any_connection().request(FindCoordinatorRequest(key=group))
    if found.error_code:
        raise protocol_error(found.error_code, f"coordinator of group {group}")
    return found.node_id, cluster.connection(found.node_id)
