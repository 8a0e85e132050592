"""Reads one partition forwards, chunk by chunk, committed or not.

Invariant: the position only grows, also past unreadable bytes; a chunk has the requested size, or
    is one larger entry of up to `MAX_ENTRY_BYTES`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

from zkbroker.client import Cluster
from zkbroker.client.fetch import TRANSACTIONS_SINCE, Wanted, doubled, fetch_one
from zkbroker.client.list_offsets import one_offset, valid_range
from zkbroker.config.fetching import FetchSettings
from zkbroker.console.access import REQUEST_TIMEOUT_MS
from zkbroker.console.entries import StoredRecord, stored_records
from zkbroker.console.other_generation import OtherCluster
from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages.fetch import FetchResponsePartition
from zkbroker.records import iter_entries

LANE = "console-messages"
"""Connections for messages are apart, so that reads do not delay collectors."""
INSIDE = 500
"""Most messages shown of one compressed set of another generation."""
MAX_ENTRY_BYTES = 64 * 1024 * 1024
_SETTINGS = FetchSettings(max_wait_ms=0, min_bytes=1, timeout_ms=REQUEST_TIMEOUT_MS)
_COMMITTED = replace(_SETTINGS, read_committed=True)


class Reader(ABC):
    """Reads a partition forwards, from its start, unless moved, to its initial end.

    Args:
        partition: its number.
        log: its start and its end.
    """

    def __init__(self, partition: int, log: tuple[int, int]) -> None:
        self.partition = partition
        self.start, self.end = log
        self.position = self.start
        self.bytes_read = 0
        self.records_read = 0

    @property
    def at_end(self) -> bool:
        """Whether the initial end is reached."""
        return self.position >= self.end

    def seek(self, offset: int) -> None:
        """Move to an offset, limited to the log."""
        self.position = max(self.start, min(offset, self.end))

    @abstractmethod
    def offset_at(self, time_ms: int) -> int | None:
        """Return the first offset at or after a time, or of one of the special times."""

    @abstractmethod
    def chunk(self) -> Iterator[StoredRecord]:
        """Yield the records of one chunk, and move past it.

        Raises:
            ZkbrokerError: the leader does not answer, or refuses.
        """


OpenReader = Callable[[int, int], Reader]
"""Opens a partition of a topic by its number, with the bytes per fetch."""


class PartitionReader(Reader):
    """Reads a partition, `chunk_bytes` per fetch.

    Raises:
        LeaderNotAvailable: no broker serves it.
        ZkbrokerError: its leader does not answer.
    """

    def __init__(self, cluster: Cluster, topic: str, partition: int, chunk_bytes: int) -> None:
        leader = cluster.leader(topic, partition)
        if leader is None:
            raise cluster.no_leader(topic, partition)
        self._connection: BrokerConnection = cluster.connection(leader, LANE)
        super().__init__(partition, valid_range(self._connection, topic, partition))
        self._topic = topic
        self._chunk_bytes = chunk_bytes

    def offset_at(self, time_ms: int) -> int | None:
        return one_offset(self._connection, self._topic, self.partition, time_ms)

    def chunk(self) -> Iterator[StoredRecord]:
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
            ends = (entry.last_offset + 1 for entry in iter_entries(data))
            self.position = max([self.position, *ends])
        except CorruptMessage as error:
            self.position += 1
            yield StoredRecord.unreadable(self.partition, self.position - 1, error)
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
            if not data or _holds_entry(data):
                return part
            where = f"{self._topic}-{self.partition} offset {self.position}"
            try:
                size = doubled(size, MAX_ENTRY_BYTES, where)
            except MessageSizeTooLarge as error:
                raise MessageSizeTooLarge(
                    f"{where}: the entry is larger than {MAX_ENTRY_BYTES} bytes, the limit of "
                    "this page: give another offset"
                ) from error


class OtherReader(Reader):
    """Reads a partition of another generation; offsets are positions in bytes."""

    def __init__(self, other: OtherCluster, topic: str, partition: int) -> None:
        super().__init__(partition, other.range(topic, partition))
        self._other = other
        self._topic = topic

    def offset_at(self, time_ms: int) -> int | None:
        """Return the start of the file for a time; 0.7 has only times of files."""
        return self._other.offset(self._topic, self.partition, time_ms)

    def chunk(self) -> Iterator[StoredRecord]:
        """Yield the messages of one fetch, and move past them."""
        begun = self.position
        found, after = self._other.read(self._topic, self.partition, begun)
        self.bytes_read += after - begun
        for number, each in enumerate(found):
            if each.inside > INSIDE:
                continue
            error = each.error
            last = number + 1 == len(found) or found[number + 1].position != each.position
            following = each.next_position
            if each.inside == INSIDE and not last:
                error = (
                    f"this compressed set holds more than {INSIDE} messages: the rest is left out"
                )
                following = next(
                    (one.position for one in found[number:] if one.position != each.position), after
                )
            self.records_read += 1
            yield StoredRecord(
                self.partition, each.position, -1, -1, None, each.payload, (),
                "committed" if error is None else "corrupt", each.magic, each.codec, error,
                each.inside, following,
            )  # fmt: skip
        # The log ends before the initial end: it was cut.
        self.position = after if after > begun else self.end


def records_of(part: FetchResponsePartition) -> bytes:
    """Return the message set of an answer."""
    return bytes(cast("memoryview", part.records or b""))


def _holds_entry(data: bytes) -> bool:
    """Whether the first entry is whole, or cannot be one."""
    try:
        return next(iter_entries(data), None) is not None
    except CorruptMessage:
        return True
