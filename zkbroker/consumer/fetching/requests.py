"""Fetch requests and what their answers hold, without a socket.

The answer of one partition is a message set whose last entry may be cut off; its first entry may
begin before the offset asked for. When not even the first entry is whole, the fetch size was too
small: it is doubled up to a limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zkbroker.client.view import NO_EPOCH
from zkbroker.errors import MessageSizeTooLarge
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import (
    READ_COMMITTED,
    AbortedTransaction,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
)
from zkbroker.records import committed_only
from zkbroker.types import PartitionKey


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to fetch of one partition: from `offset` on, about `max_bytes`.

    `leader_epoch` is the one that the request is addressed under, where it is known.
    """

    offset: int
    max_bytes: int
    leader_epoch: int = NO_EPOCH


def fetch_request(
    wanted: Mapping[PartitionKey, Wanted] | Sequence[tuple[PartitionKey, Wanted]],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool = False,
) -> FetchRequest:
    """Build a full fetch (no fetch session) of several partitions, in the order given."""
    topics: list[FetchRequestTopic] = []
    items = wanted.items() if isinstance(wanted, Mapping) else wanted
    for (topic, partition), want in items:
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
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=READ_COMMITTED if read_committed else 0,
        topics=topics,
    )


def committed(records: bytes | memoryview, aborted: Sequence[AbortedTransaction] | None) -> bytes:
    """Copy a fetched message set without what was aborted.

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
        read_committed: the reader stops at the first open transaction; brokers without
            transactions have none.
    """
    if read_committed and part.last_stable_offset >= 0:
        return part.last_stable_offset
    return part.high_watermark


def check_size(records: bytes | memoryview, limit_bytes: int, where: str) -> None:
    """Refuse what is larger than the limit of the fetch size.

    A fetch never asks for more than the limit; newer brokers send a first entry that is larger
    than what was asked for nevertheless.

    Raises:
        MessageSizeTooLarge: it is larger.
    """
    if len(records) > limit_bytes:
        raise _too_large(limit_bytes, where)


def doubled(size_bytes: int, limit_bytes: int, where: str) -> int:
    """Return the next fetch size for a message that did not fit.

    Args:
        size_bytes: what was not enough.
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
