"""The stored entries of a partition, batches and markers, as tools read them from its leader.

Invariant: entries come whole and in the order of the log; what is being written meanwhile is not
waited for. A leader that moved is asked for again, a bounded number of times.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from zkbroker.client import Cluster
from zkbroker.errors import (
    ClientError,
    CorruptMessage,
    LeaderNotAvailable,
    ProtocolError,
    UnsupportedVersion,
    ZkbrokerError,
    protocol_error,
)
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import (
    READ_UNCOMMITTED,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
)
from zkbroker.records import EntryInfo, iter_entries
from zkbroker.types import PartitionKey

FETCH_BYTES = 4 * 1024 * 1024
TRIES = 20
_BACKOFF_S = 0.25
_WITH_TRANSACTIONS = 4


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One stored entry. Args: data is the whole of it."""

    head: EntryInfo
    data: memoryview


def read_entries(
    cluster: Cluster, key: PartitionKey, start: int, end: int
) -> Iterator[StoredEntry]:
    """Yield the entries from the one that holds an offset on, below an end.

    Args:
        cluster: finds the leader.
        key: the partition.
        start: an offset.
        end: the offset before which to stop.

    Raises:
        UnsupportedVersion: the leader is older than 0.11, and knows no transactions.
        ClientError: one entry is larger than what a request may fetch.
        ZkbrokerError: the leader does not answer, or refuses.
    """
    position, size = start, FETCH_BYTES
    while position < end:
        answer = _fetch(cluster, key, position, size)
        data = answer.records if isinstance(answer.records, bytes | memoryview) else b""
        view = memoryview(data)
        before = position
        for head in iter_entries(view):
            if head.last_offset < position:
                continue  # of a batch that begins below what was asked for
            if head.base_offset >= end:
                return
            position = head.last_offset + 1
            yield StoredEntry(head, view[head.position : head.position + head.size])
        if position == before:
            if not view:
                return  # the end of the log, or a hole that reaches to it
            raise ClientError(
                f"{key[0]}-{key[1]}: the entry at offset {position} is larger than {size} bytes"
            )


def _fetch(cluster: Cluster, key: PartitionKey, offset: int, size: int) -> FetchResponsePartition:
    for left in reversed(range(TRIES)):
        try:
            return _ask(cluster, key, offset, size)
        except UnsupportedVersion:
            raise
        except ZkbrokerError as error:
            passing = isinstance(error, ClientError) or (
                isinstance(error, ProtocolError)
                and error.code.retriable
                and not isinstance(error, CorruptMessage)
            )
            if not passing or not left:
                raise
        cluster.runtime.sleep(_BACKOFF_S)
        with contextlib.suppress(ZkbrokerError):  # the next try may be luckier
            cluster.refresh([key[0]])
    raise AssertionError("unreachable")


def _ask(cluster: Cluster, key: PartitionKey, offset: int, size: int) -> FetchResponsePartition:
    leader = cluster.leader(*key)
    if leader is None:
        raise LeaderNotAvailable(f"{key[0]}-{key[1]} has no leader")
    connection = cluster.connection(leader)
    response = connection.request(
        FetchRequest(
            max_wait_ms=0,
            max_bytes=size,
            isolation_level=READ_UNCOMMITTED,
            topics=[
                FetchRequestTopic(
                    key[0],
                    [
                        FetchRequestPartition(
                            partition=key[1],
                            current_leader_epoch=cluster.leader_epoch(*key),
                            fetch_offset=offset,
                            max_bytes=size,
                        )
                    ],
                )
            ],
        ),
        _version(connection),
    )
    if response.error_code:
        raise protocol_error(response.error_code, f"fetch of {key[0]}-{key[1]}")
    answer: FetchResponsePartition = response.topics[0].partitions[0]
    if answer.error_code:
        raise protocol_error(answer.error_code, f"fetch of {key[0]}-{key[1]} at {offset}")
    return answer


def _version(connection: BrokerConnection) -> int:
    version = connection.best_version(ApiKey.FETCH)
    if version < _WITH_TRANSACTIONS:
        raise UnsupportedVersion(
            f"{connection.address} is older than 0.11: there are no transactions in this cluster"
        )
    return version
