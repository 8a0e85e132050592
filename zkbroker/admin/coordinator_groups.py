"""Consumer groups kept by coordinators (Kafka 0.9 and later), through the protocol.

Invariant: each function looks up the coordinator of its group, and retries for a bounded time while
    that moves or loads its groups.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zkbroker.client import Cluster
from zkbroker.client.coordinator import CoordinatorConnection
from zkbroker.client.group_offsets import Committed, commit_error, commit_request, fetch_error
from zkbroker.client.leader_retries import retry_requests
from zkbroker.errors import ClientError, ErrorCode, protocol_error
from zkbroker.protocol.consumer_protocol import decode_assignment, flatten
from zkbroker.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
)
from zkbroker.types import PartitionKey

COORDINATOR_TIMEOUT_S = 10.0
_RETRY_MS = 200


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member, and its assignment if its protocol is that of consumers."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[PartitionKey, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group: its state and strategy, its members and its offsets.

    Args:
        coordinator: id of the broker that keeps it.
    """

    group: str
    state: str
    strategy: str
    coordinator: int
    members: tuple[MemberDescription, ...]
    offsets: Mapping[PartitionKey, int]

    @property
    def owners(self) -> dict[PartitionKey, str]:
        """Partition → id of the member that it is assigned to."""
        return {key: member.member_id for member in self.members for key in member.partitions}


def list_groups(cluster: Cluster) -> dict[str, str]:
    """Return group → protocol type, of all brokers.

    Raises:
        ProtocolError: a broker does not answer, or still loads its groups.
    """

    def ask() -> dict[str, str]:
        found: dict[str, str] = {}
        for broker in cluster.brokers():
            response = cluster.connection(broker).request(ListGroupsRequest())
            if response.error_code:
                raise protocol_error(response.error_code, f"groups of broker {broker}")
            found |= {each.group_id: each.protocol_type for each in response.groups}
        return dict(sorted(found.items()))

    return retry_requests(cluster, [], ask, timeout_s=COORDINATOR_TIMEOUT_S)


def describe(cluster: Cluster, group: str) -> ConsumerGroupDescription:
    """Describe a group; one that does not exist has the state Dead.

    Raises:
        ProtocolError: its coordinator does not answer, or refuses.
    """
    coordinator = _coordinator(cluster, group)
    (described,) = _ask(coordinator, DescribeGroupsRequest(groups=[group]), _group_error).groups
    if described.error_code:
        raise protocol_error(described.error_code, f"group {group}")
    fetched = _ask(coordinator, OffsetFetchRequest(group_id=group, topics=None), fetch_error)
    if fetched.error_code:
        raise protocol_error(fetched.error_code, f"offsets of group {group}")
    consumers = described.protocol_type == "consumer"
    members = tuple(
        MemberDescription(
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
    broker = -1 if coordinator.broker_id is None else coordinator.broker_id
    return ConsumerGroupDescription(
        group, described.state, described.protocol_name, broker, members, offsets
    )


def delete(cluster: Cluster, group: str) -> None:
    """Delete a group without members, with its offsets.

    Raises:
        ProtocolError: it has members (68) or does not exist (69).
    """
    request = DeleteGroupsRequest(groups=[group])
    (deleted,) = _ask(_coordinator(cluster, group), request, _group_error).groups
    if deleted.error_code == ErrorCode.NON_EMPTY_GROUP:
        text = f"group {group} has members (NON_EMPTY_GROUP): stop them first"
        raise protocol_error(deleted.error_code, text)
    if deleted.error_code:
        raise protocol_error(deleted.error_code, f"group {group}")


def set_offsets(cluster: Cluster, group: str, offsets: Mapping[PartitionKey, int]) -> None:
    """Commit offsets for a group that has no members now.

    Raises:
        ClientError: it has members, which would overwrite them.
        ProtocolError: its coordinator does not answer, or refuses.
    """
    check_idle(cluster, group)
    committed = {key: Committed(offset) for key, offset in offsets.items()}
    request = commit_request(group, committed)
    answer = _ask(_coordinator(cluster, group), request, commit_error)
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                # A member joined after the check.
                raise ClientError(f"group {group} has members now: stop them first")
            if each.error_code:
                raise protocol_error(
                    each.error_code, f"offset of {topic.topic}-{each.partition} in group {group}"
                )


def check_idle(cluster: Cluster, group: str) -> None:
    """Check that a group has no members.

    Raises:
        ClientError: it has members.
        ProtocolError: its coordinator does not answer, or refuses.
    """
    found = describe(cluster, group)
    if found.members:
        first, count = found.members[0], len(found.members)
        raise ClientError(
            f"group {group} has {count} member{'s' if count > 1 else ''} now (state "
            f"{found.state}), which would overwrite it: stop {first.client_id} at {first.host}"
            f"{' and the others' if count > 1 else ''} first"
        )


def _coordinator(cluster: Cluster, group: str) -> CoordinatorConnection:
    return CoordinatorConnection(cluster, group, runtime=cluster.runtime, backoff_ms=_RETRY_MS)


def _ask(coordinator: CoordinatorConnection, request: Any, error_of: Callable[[Any], int]) -> Any:
    # The first request ever makes the brokers create the offsets topic.
    return coordinator.ask(request, timeout_s=COORDINATOR_TIMEOUT_S, error_of=error_of)


def _group_error(answer: Any) -> int:
    """Return the error of an answer about one group."""
    code: int = answer.groups[0].error_code
    return code
