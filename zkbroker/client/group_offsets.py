"""Offsets of a group kept by brokers: OffsetCommit and OffsetFetch, for all clients.

Version 0 of both requests may go to any broker, which keeps the offsets in ZooKeeper; later
versions go to the group's coordinator, which keeps them in `__consumer_offsets`. A member's commit
names the generation and the member id under which it holds the partitions.

Invariant: an error for one partition makes the whole answer an error; a missing offset is no error,
however the broker's version reports it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from zkbroker.client.coordinator import CoordinatorConnection
from zkbroker.client.list_offsets import by_topic
from zkbroker.errors import ErrorCode, protocol_error
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from zkbroker.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestTopic,
)
from zkbroker.types import PartitionKey

Key = TypeVar("Key", bound=PartitionKey)

NO_GENERATION = -1
ZOOKEEPER_VERSION = 0
"""The version of both requests that keeps offsets in ZooKeeper."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset: the next one to consume, with the user's metadata."""

    offset: int
    metadata: str = ""


# -- requests and answers, without a socket


def commit_request(
    group: str,
    offsets: Mapping[PartitionKey, Committed],
    *,
    generation: int = NO_GENERATION,
    member_id: str = "",
) -> OffsetCommitRequest:
    """Build a commit; without generation and member id it comes from outside the group."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            [
                OffsetCommitRequestPartition(
                    partition=number, offset=each.offset, metadata=each.metadata
                )
                for number, each in numbers
            ],
        )
        for topic, numbers in by_topic(offsets)
    ]
    return OffsetCommitRequest(
        group_id=group, generation_id=generation, member_id=member_id, topics=topics
    )


def commit_error(response: OffsetCommitResponse) -> int:
    """Return the first error code of a commit, NONE where all of it was stored."""
    codes = (part.error_code for topic in response.topics for part in topic.partitions)
    return next((code for code in codes if code), ErrorCode.NONE)


def fetch_request(group: str, partitions: Iterable[PartitionKey]) -> OffsetFetchRequest:
    """Build the request for a group's committed offsets."""
    topics = [
        OffsetFetchRequestTopic(topic, [number for number, _ in numbers])
        for topic, numbers in by_topic(dict.fromkeys(partitions))
    ]
    return OffsetFetchRequest(group_id=group, topics=topics)


def fetch_error(response: OffsetFetchResponse) -> int:
    """Return the first error code of an answer, NONE where there is none."""
    if response.error_code:
        return response.error_code
    codes = (part.error_code for topic in response.topics for part in topic.partitions)
    # "No offset" is error 3 in version 0, and in version 1 of 0.8.2 brokers.
    ignored = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return next((code for code in codes if code not in ignored), ErrorCode.NONE)


def fetched_offsets(
    group: str, partitions: Iterable[PartitionKey], response: OffsetFetchResponse
) -> dict[PartitionKey, Committed | None]:
    """Return the committed offsets in an answer, None where nothing was committed.

    Raises:
        ProtocolError: the first error in it.
    """
    code = fetch_error(response)
    if code:
        raise protocol_error(code, f"offsets of group {group}")
    found: dict[PartitionKey, Committed | None] = dict.fromkeys(partitions)
    for topic in response.topics:
        for part in topic.partitions:
            if part.offset >= 0 and not part.error_code:
                found[topic.topic, part.partition] = Committed(part.offset, part.metadata or "")
    return found


# -- kept in ZooKeeper, through any broker


def commit_offsets(connection: BrokerConnection, group: str, offsets: Mapping[Key, int]) -> None:
    """Have a broker commit offsets to ZooKeeper.

    Raises:
        ProtocolError: the first partition that was refused.
    """
    committed: dict[PartitionKey, Committed] = {
        key: Committed(offset) for key, offset in offsets.items()
    }
    response = connection.request(commit_request(group, committed), ZOOKEEPER_VERSION)
    code = commit_error(response)
    if code:
        raise protocol_error(code, f"commit of group {group}")


def fetch_offsets(
    connection: BrokerConnection, group: str, partitions: Sequence[PartitionKey]
) -> dict[PartitionKey, int | None]:
    """Have a broker read a group's offsets in ZooKeeper; None where the group has none.

    Raises:
        ProtocolError: the first partition that was refused.
    """
    response = connection.request(fetch_request(group, partitions), ZOOKEEPER_VERSION)
    return _numbers(fetched_offsets(group, partitions, response))


# -- kept by the coordinator


@dataclass(frozen=True, slots=True)
class CoordinatorOffsets:
    """The offsets of one group in `__consumer_offsets`; its commits come from outside the group.

    Args:
        coordinator: of the group; retries while it moves or loads.
        group: the group id.
        timeout_s: how long one commit or read is tried.
        stopping: asked before each new try; True gives up.
    """

    coordinator: CoordinatorConnection
    group: str
    timeout_s: float = field(kw_only=True)
    stopping: Callable[[], bool] = field(kw_only=True, default=lambda: False)

    def commit(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Commit offsets.

        Raises:
            ProtocolError: refused, or the coordinator stayed out of reach.
        """
        if not offsets:
            return
        committed = {key: Committed(offset) for key, offset in offsets.items()}
        response: OffsetCommitResponse = self.coordinator.ask(
            commit_request(self.group, committed),
            timeout_s=self.timeout_s,
            error_of=commit_error,
            stopping=self.stopping,
        )
        code = commit_error(response)
        if code:
            raise protocol_error(code, f"commit of group {self.group}")

    def fetch(self, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, Committed | None]:
        """Return committed offsets with their metadata, None where there is none.

        Raises:
            ProtocolError: refused, or the coordinator stayed out of reach.
        """
        wanted = list(partitions)
        if not wanted:
            return {}
        response: OffsetFetchResponse = self.coordinator.ask(
            fetch_request(self.group, wanted),
            timeout_s=self.timeout_s,
            error_of=fetch_error,
            stopping=self.stopping,
        )
        return fetched_offsets(self.group, wanted, response)

    def read(self, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, int | None]:
        """Return committed offsets alone; raises as `fetch`."""
        return _numbers(self.fetch(partitions))


def _numbers(
    found: Mapping[PartitionKey, Committed | None],
) -> dict[PartitionKey, int | None]:
    return {key: None if each is None else each.offset for key, each in found.items()}
