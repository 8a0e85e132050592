"""Offsets by time, and topic-partitions grouped as requests want them."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TypeVar

from zkbroker.consumer.partition import TopicPartition
from zkbroker.errors import ProtocolError, protocol_error
from zkbroker.network import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import ListOffsetsRequest
from zkbroker.protocol.messages.fetch import READ_COMMITTED
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)

LATEST_TIME = -1
EARLIEST_TIME = -2

T = TypeVar("T")


def by_topic(items: Mapping[TopicPartition, T]) -> Iterable[tuple[str, list[tuple[int, T]]]]:
    """Group items by topic, topics and partitions in order."""
    ordered = sorted(items.items(), key=lambda item: item[0])
    for topic, group in groupby(ordered, key=lambda item: item[0][0]):
        yield topic, [(key[1], item) for key, item in group]


def list_offsets(
    connection: BrokerConnection,
    times: Mapping[TopicPartition, int],
    *,
    max_num_offsets: int = 1,
    version: int | None = None,
    read_committed: bool = False,
) -> dict[TopicPartition, list[int] | ProtocolError]:
    """Ask a broker for offsets by time.

    Args:
        connection: to the leader of all of the partitions.
        times: milliseconds, `LATEST_TIME` or `EARLIEST_TIME` for each partition.
        max_num_offsets: how many; only version 0 answers more than one.
        version: of the request; the highest that both sides speak by default.
        read_committed: the log ends at its last stable offset.

    Returns:
        For each partition the offsets, newest first, or its error. From version 1 on a time asks
        for the first message at or after it, and there is no offset when there is no such message;
        version 0 answers the starts of segments that were last written before it.

    Raises:
        ProtocolError: the request failed as a whole.
    """
    topics = [
        ListOffsetsRequestTopic(
            topic=topic,
            partitions=[
                ListOffsetsRequestPartition(
                    partition=partition, timestamp=time_ms, max_num_offsets=max_num_offsets
                )
                for partition, time_ms in partitions
            ],
        )
        for topic, partitions in by_topic(times)
    ]
    if version is None:
        version = connection.best_version(ApiKey.LIST_OFFSETS)
    request = ListOffsetsRequest(
        isolation_level=READ_COMMITTED if read_committed else 0, topics=topics
    )
    response = connection.request(request, version)
    found: dict[TopicPartition, list[int] | ProtocolError] = {}
    for answer in response.topics:
        for part in answer.partitions:
            key = answer.topic, part.partition
            if part.error_code:
                found[key] = protocol_error(part.error_code, f"offsets of {key[0]}-{key[1]}")
            elif version == 0:
                found[key] = list(part.offsets)
            else:
                found[key] = [] if part.offset < 0 else [part.offset]
    return found


def one_offset(
    connection: BrokerConnection,
    topic: str,
    partition: int,
    time_ms: int,
    *,
    read_committed: bool = False,
) -> int | None:
    """Return the offset for a time, None when no message is as late.

    Raises:
        ProtocolError: the broker does not answer, or refuses.
    """
    key = topic, partition
    found = list_offsets(connection, {key: time_ms}, read_committed=read_committed)[key]
    if isinstance(found, ProtocolError):
        raise found
    return found[0] if found else None


def valid_range(connection: BrokerConnection, topic: str, partition: int) -> tuple[int, int]:
    """Return the first offset and the log end offset of a partition."""
    earliest = one_offset(connection, topic, partition, EARLIEST_TIME)
    latest = one_offset(connection, topic, partition, LATEST_TIME)
    return earliest or 0, latest or 0
