"""Offsets by time from one leader, and partitions grouped by topic as requests need them.

Invariant: a request names the known leader epochs, so that a deposed leader that does not know it
yet refuses the request instead of answering from an older log.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TypeVar

from zkbroker.client.view import NO_EPOCH
from zkbroker.errors import ProtocolError, protocol_error
from zkbroker.network.client.connection import BrokerConnection, Pending
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import ListOffsetsRequest
from zkbroker.protocol.messages.fetch import READ_COMMITTED
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from zkbroker.types import PartitionKey

LATEST_TIME = -1
EARLIEST_TIME = -2

T = TypeVar("T")

_NO_EPOCHS: Mapping[PartitionKey, int] = {}


def by_topic(items: Mapping[PartitionKey, T]) -> Iterable[tuple[str, list[tuple[int, T]]]]:
    """Group items by topic, topics and partitions in order."""
    ordered = sorted(items.items(), key=lambda item: item[0])
    for topic, group in groupby(ordered, key=lambda item: item[0][0]):
        yield topic, [(key[1], item) for key, item in group]


def list_offsets(
    connection: BrokerConnection,
    times: Mapping[PartitionKey, int],
    *,
    max_num_offsets: int = 1,
    version: int | None = None,
    read_committed: bool = False,
    epochs: Mapping[PartitionKey, int] = _NO_EPOCHS,
) -> dict[PartitionKey, list[int] | ProtocolError]:
    """Ask a broker for offsets by time.

    Args:
        connection: to the leader of all of the partitions.
        times: milliseconds, `LATEST_TIME` or `EARLIEST_TIME` for each partition.
        max_num_offsets: how many; only version 0 answers more than one.
        version: of the request; the highest that both sides speak by default.
        read_committed: whether the log ends at its last stable offset.
        epochs: the leader epoch of each partition, where it is known.

    Returns:
        For each partition its offsets, newest first, or its error. From version 1 on the offset
        is that of the first message at or after the time, none without such a message; version
        0 answers the base offsets of segments that were last written before it.

    Raises:
        ProtocolError: the request failed as a whole.
    """
    pending = send_list_offsets(
        connection,
        times,
        max_num_offsets=max_num_offsets,
        version=version,
        read_committed=read_committed,
        epochs=epochs,
    )
    return listed_offsets(pending)


def send_list_offsets(
    connection: BrokerConnection,
    times: Mapping[PartitionKey, int],
    *,
    max_num_offsets: int = 1,
    version: int | None = None,
    read_committed: bool = False,
    epochs: Mapping[PartitionKey, int] = _NO_EPOCHS,
) -> Pending:
    """Send the request of `list_offsets`; `listed_offsets` takes its answer."""
    topics = [
        ListOffsetsRequestTopic(
            topic=topic,
            partitions=[
                ListOffsetsRequestPartition(
                    partition=partition,
                    current_leader_epoch=epochs.get((topic, partition), NO_EPOCH),
                    timestamp=time_ms,
                    max_num_offsets=max_num_offsets,
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
    return connection.send(request, version)


def listed_offsets(pending: Pending) -> dict[PartitionKey, list[int] | ProtocolError]:
    """Wait for the answer, and return it as `list_offsets` does."""
    response = pending.result()
    found: dict[PartitionKey, list[int] | ProtocolError] = {}
    for answer in response.topics:
        for part in answer.partitions:
            key = answer.topic, part.partition
            if part.error_code:
                found[key] = protocol_error(part.error_code, f"offsets of {key[0]}-{key[1]}")
            elif pending.version == 0:
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
    epoch: int = NO_EPOCH,
) -> int | None:
    """Return the offset for a time, None without a message at or after it.

    Raises:
        ProtocolError: the broker does not answer, or refuses.
    """
    key = topic, partition
    found = list_offsets(
        connection, {key: time_ms}, read_committed=read_committed, epochs={key: epoch}
    )[key]
    if isinstance(found, ProtocolError):
        raise found
    return found[0] if found else None


def valid_range(
    connection: BrokerConnection, topic: str, partition: int, epoch: int = NO_EPOCH
) -> tuple[int, int]:
    """Return the first offset that can be read, and the log end.

    Raises:
        ProtocolError: the broker does not answer, or refuses.
    """
    earliest = one_offset(connection, topic, partition, EARLIEST_TIME, epoch=epoch)
    latest = one_offset(connection, topic, partition, LATEST_TIME, epoch=epoch)
    return earliest or 0, latest or 0
