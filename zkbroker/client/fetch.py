"""Fetches of all clients: the request, its answer, and the next offset.

Invariant: only this module builds a client's Fetch and knows the differences between its versions.
Consumers, tools and loaders differ in their `FetchSettings`.

The answer of one partition is a message set whose last entry may be cut off; its first entry may
begin before the offset asked for. When not even the first entry is whole, the fetch size was too
small: it is doubled up to a limit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zkbroker.client.view import NO_EPOCH
from zkbroker.config.fetching import FetchSettings
from zkbroker.errors import (
    MessageSizeTooLarge,
    ProtocolError,
    UnsupportedVersion,
    protocol_error,
)
from zkbroker.network.client.connection import BrokerConnection, Pending
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import FetchRequest, FetchResponse
from zkbroker.protocol.messages.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponseAbortedTransaction,
    FetchResponsePartition,
)
from zkbroker.records import committed_only
from zkbroker.types import PartitionKey

TRANSACTIONS_SINCE = 4
"""The first version whose answers name aborted transactions and the last stable offset."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A fetch of one partition: from `offset` on, about `max_bytes`.

    `leader_epoch` is the known epoch of the leader that the request is for.
    """

    offset: int
    max_bytes: int
    leader_epoch: int = NO_EPOCH


def send_fetch(
    connection: BrokerConnection,
    wanted: Mapping[PartitionKey, Wanted],
    settings: FetchSettings,
    *,
    max_wait_ms: int | None = None,
    response_bytes: int | None = None,
    at_most: int | None = None,
) -> Pending:
    """Send a full fetch (no fetch session) of several partitions, in the order given.

    Args:
        connection: to the leader of all of them.
        wanted: the fetch of each partition.
        settings: of all fetches of this client.
        max_wait_ms: overrides the settings.
        response_bytes: overrides the settings.
        at_most: the highest version to use; None for the newest that both sides speak.

    Raises:
        ProtocolError: the request cannot be sent.
    """
    topics: list[FetchRequestTopic] = []
    for (topic, partition), want in wanted.items():
        # Brokers fill an answer in the order of the request, so the order is kept; partitions of
        # one topic share an entry when they follow each other.
        if not topics or topics[-1].topic != topic:
            topics.append(FetchRequestTopic(topic=topic))
        topics[-1].partitions.append(
            FetchRequestPartition(
                partition=partition,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.offset,
                max_bytes=want.max_bytes,
            )
        )
    request = FetchRequest(
        max_wait_ms=settings.max_wait_ms if max_wait_ms is None else max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.response_bytes if response_bytes is None else response_bytes,
        isolation_level=READ_COMMITTED if settings.read_committed else READ_UNCOMMITTED,
        topics=topics,
    )
    return connection.send(request, connection.best_version(ApiKey.FETCH, at_most))


def fetched(
    pending: Pending, settings: FetchSettings, *, patient: bool = False
) -> Iterator[tuple[PartitionKey, FetchResponsePartition]]:
    """Wait for the answer, and yield each partition's part, with its error where it has one.

    The answer for a reader above its quota holds no partition.

    Args:
        pending: the fetch.
        settings: of the reader.
        patient: ask again until the quota lets an answer through.

    Raises:
        RequestTimedOut: it did not come in time.
        ProtocolError: the request failed as a whole.
    """
    wait_s = (settings.timeout_ms + pending.request.max_wait_ms) / 1000
    response: FetchResponse = pending.result(wait_s, muted=True)
    while patient and response.throttle_time_ms and not response.topics:
        # The broker does not read it before the throttle time is over.
        pending = pending.again()
        response = pending.result(wait_s, muted=True)
    if response.error_code:
        raise protocol_error(response.error_code, "fetch")
    for topic in response.topics:
        for part in topic.partitions:
            yield (topic.topic, part.partition), part


def fetch_one(
    connection: BrokerConnection, key: PartitionKey, want: Wanted, settings: FetchSettings
) -> FetchResponsePartition:
    """Fetch from one partition.

    Raises:
        ProtocolError: the broker does not answer, or refuses.
    """
    pending = send_fetch(connection, {key: want}, settings, response_bytes=want.max_bytes)
    return answer_of_one(pending, settings)


def answer_of_one(pending: Pending, settings: FetchSettings) -> FetchResponsePartition:
    """Wait for the answer to a fetch of one partition.

    Raises:
        ProtocolError: the broker does not answer, or refuses.
    """
    for (topic, partition), part in fetched(pending, settings, patient=True):
        if part.error_code:
            raise protocol_error(part.error_code, f"fetch of {topic}-{partition}")
        return part
    raise ProtocolError("the broker did not answer for the partition of the fetch")


def require_transactions(connection: BrokerConnection) -> None:
    """Refuse a broker whose fetches do not support transactions.

    Raises:
        UnsupportedVersion: it is older than 0.11.
    """
    if connection.best_version(ApiKey.FETCH) < TRANSACTIONS_SINCE:
        raise UnsupportedVersion(
            f"{connection.address} is older than 0.11: there are no transactions in this cluster"
        )


def committed(
    records: bytes | memoryview, aborted: Sequence[FetchResponseAbortedTransaction] | None
) -> bytes:
    """Copy a fetched message set without the messages of aborted transactions.

    Args:
        records: as fetched.
        aborted: as the answer names them; None for a reader of uncommitted messages.

    Raises:
        CorruptMessage: bytes that cannot be an entry.
    """
    if not aborted:
        return bytes(records)
    pairs = [(each.producer_id, each.first_offset) for each in aborted]
    return bytes(committed_only(records, pairs))


def end_of(part: FetchResponsePartition, *, read_committed: bool) -> int:
    """Return the offset after the last message that a reader may read.

    Args:
        part: an answer without an error.
        read_committed: whether the reader stops at the first open transaction; brokers without
            transactions have none.
    """
    if read_committed and part.last_stable_offset >= 0:
        return part.last_stable_offset
    return part.high_watermark


def check_size(records: bytes | memoryview, limit_bytes: int, where: str) -> None:
    """Refuse a first entry that is larger than the limit of the fetch size.

    A fetch never asks for more than the limit, but newer brokers send a whole first entry
    whatever its size.

    Raises:
        MessageSizeTooLarge: it is larger.
    """
    if len(records) > limit_bytes:
        raise _too_large(limit_bytes, where)


def doubled(size_bytes: int, limit_bytes: int, where: str) -> int:
    """Return the next fetch size for a message that did not fit.

    Args:
        size_bytes: the size that was not enough.
        limit_bytes: the largest allowed.
        where: topic, partition and offset, for the error.

    Raises:
        MessageSizeTooLarge: the limit was not enough.
    """
    if size_bytes >= limit_bytes:
        raise _too_large(limit_bytes, where)
    return min(size_bytes * 2, limit_bytes)


def _too_large(limit_bytes: int, where: str) -> MessageSizeTooLarge:
    return MessageSizeTooLarge(
        f"{where}: the message is larger than {limit_bytes} bytes; raise the limit of the "
        "fetch size (fetch.message.limit.bytes) or seek past it"
    )
