"""Reads one partition forwards, chunk by chunk, committed or not.

Invariant: the position only grows, also past unreadable bytes; a chunk has the requested size, or
    is one larger entry of up to `MAX_ENTRY_BYTES`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol, cast

from zkbroker.client import Cluster
from zkbroker.client.fetch import TRANSACTIONS_SINCE, Wanted, doubled, fetch_one
from zkbroker.client.list_offsets import one_offset, valid_range
from zkbroker.config.fetching import FetchSettings
from zkbroker.console.access import REQUEST_TIMEOUT_MS
from zkbroker.console.entries import Stored, stored_records
from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages.fetch import FetchResponsePartition
from zkbroker.records import iter_entries

LANE = "console-messages"
"""Connections for messages are apart, so that reads do not delay collectors."""
MAX_ENTRY_BYTES = 64 * 1024 * 1024
_SETTINGS = FetchSettings(max_wait_ms=0, min_bytes=1, timeout_ms=REQUEST_TIMEOUT_MS)
_COMMITTED = replace(_SETTINGS, read_committed=True)


class Reader(Protocol):
    """Reads a partition forwards, from its start unless moved; see `PartitionReader`."""

    partition: int
    start: int
    end: int
    position: int
    bytes_read: int
    records_read: int

    @property
    def at_end(self) -> bool: ...
    def seek(self, offset: int) -> None: ...
    def offset_at(self, time_ms: int) -> int | None: ...
    def chunk(self) -> Iterator[Stored]: ...


OpenReader = Callable[[int, int], Reader]
"""Opens a partition of a topic by its number, with the bytes per fetch."""


class PartitionReader:
    """Reads a partition, `chunk_bytes` per fetch.

    Raises:
        LeaderNotAvailable: no broker serves it.
        ZkbrokerError: its leader does not answer.
    """

    def __init__(self, cluster: Cluster, topic: str, partition: int, chunk_bytes: int) -> None:
        self._topic = topic
        self.partition = partition
        self._chunk_bytes = chunk_bytes
        leader = cluster.leader(topic, partition)
        if leader is None:
            raise cluster.no_leader(topic, partition)
        self._connection: BrokerConnection = cluster.connection(leader, LANE)
        self.start, self.end = valid_range(self._connection, topic, partition)
        self.position = self.start
        self.bytes_read = 0
        self.records_read = 0

    def offset_at(self, time_ms: int) -> int | None:
        """Return the first offset at or after a time, or of one of the special times."""
        return one_offset(self._connection, self._topic, self.partition, time_ms)

    def seek(self, offset: int) -> None:
        """Move to an offset, limited to the log."""
        self.position = max(self.start, min(offset, self.end))

    @property
    def at_end(self) -> bool:
        """Whether the initial end is reached."""
        return self.position >= self.end

    def chunk(self) -> Iterator[Stored]:
        """Yield the records of one chunk, and move past it.

        Raises:
            ZkbrokerError: the leader does not answer, or refuses.
        """
        begun = self.position
        part, stable = self._fetch()
        data = records_of(part)
        self.bytes_read += len(data)
        aborted = [
            (each.producer_id, each.first_offset) for each in part.aborted_transactions or ()
        ]
        try:
            for record in stored_records(data, self.partition, begun, aborted, stable):
                self.records_read += 1
                self.position = record.offset + 1
                yield record
            self.position = max(self.position, _after(data, begun))
        except CorruptMessage as error:
            self.position += 1
            yield Stored.unreadable(self.partition, self.position - 1, error)
        if self.position <= begun:
            # Nothing to read: the log was cut, or compaction left a gap.
            self.position = self.end

    def _fetch(self) -> tuple[FetchResponsePartition, int | None]:
        """Return an answer with an entry, or an empty one at the end; and its stable offset."""
        knows_transactions = self._connection.best_version(ApiKey.FETCH) >= TRANSACTIONS_SINCE
        part = self._answer(_COMMITTED if knows_transactions else _SETTINGS)
        stable = part.last_stable_offset if knows_transactions else -1
        if stable < 0 or stable >= part.high_watermark:
            return part, None
        if self.position >= stable:
            return self._answer(_SETTINGS), stable
        return part, stable

    def _answer(self, settings: FetchSettings) -> FetchResponsePartition:
        size = self._chunk_bytes
        while True:
            part = fetch_one(
                self._connection,
                (self._topic, self.partition),
                Wanted(self.position, size),
                settings,
            )
            data = records_of(part)
            if not data or next(iter_entries(data), None) is not None:
                return part
            where = f"{self._topic}-{self.partition} offset {self.position}"
            try:
                size = doubled(size, MAX_ENTRY_BYTES, where)
            except MessageSizeTooLarge as error:
                raise MessageSizeTooLarge(
                    f"{where}: the entry is larger than {MAX_ENTRY_BYTES} bytes, the limit of "
                    "this page: give another offset"
                ) from error


def records_of(part: FetchResponsePartition) -> bytes:
    """Return the message set of an answer."""
    return bytes(cast("memoryview", part.records or b""))


def _after(data: bytes, least: int) -> int:
    """Return the offset after the last whole entry."""
    return max(least, *(entry.last_offset + 1 for entry in iter_entries(data)), least)
