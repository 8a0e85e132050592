"""Reads the stored entries of a partition, batches and markers, from its leader.

Invariant: entries come whole and in the order of the log, without waiting for new ones. If the
    leader moves, it is looked up again, for a bounded time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from zkbroker.client import Cluster
from zkbroker.client.fetch import Wanted, fetch_one, require_transactions
from zkbroker.client.leader_retries import retry_requests
from zkbroker.config.fetching import FetchSettings
from zkbroker.errors import ClientError
from zkbroker.protocol.messages.fetch import FetchResponsePartition
from zkbroker.records import EntryInfo, iter_entries
from zkbroker.types import PartitionKey

FETCH_BYTES = 4 * 1024 * 1024
WAIT_S = 10.0
"""How long to look for a leader."""
_SETTINGS = FetchSettings(max_wait_ms=0)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One stored entry. Args: data is all of its bytes."""

    head: EntryInfo
    data: memoryview


def read_entries(
    cluster: Cluster, key: PartitionKey, start: int, end: int
) -> Iterator[StoredEntry]:
    """Yield the entries from the one that holds the offset `start`, up to `end`.

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
        answer = retry_requests(
            cluster, [key[0]], partial(_fetch, cluster, key, position, size), timeout_s=WAIT_S
        )
        data = answer.records if isinstance(answer.records, bytes | memoryview) else b""
        view = memoryview(data)
        before = position
        for head in iter_entries(view):
            if head.last_offset < position:
                continue  # entries before `start`
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
    leader = cluster.leader(*key)
    if leader is None:
        raise cluster.no_leader(*key)
    connection = cluster.connection(leader)
    require_transactions(connection)
    return fetch_one(connection, key, Wanted(offset, size, cluster.leader_epoch(*key)), _SETTINGS)
