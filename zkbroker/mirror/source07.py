"""A source of Kafka 0.7: what a mirror asks of its cluster, and its log entries as records.

Messages of 0.7 have neither key nor time nor header. A mirrored one has no key, the time at which
it was read, and the codec of the wrapper that it lay in.

Invariant: each message of the bytes is in exactly one piece, in the order of the log; checksums
were verified before it is passed on.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Self

from zkbroker.client import PartitionInfo, Partitions
from zkbroker.consumer.legacy07 import Cluster07
from zkbroker.mirror.pieces import Decoded, in_batches
from zkbroker.records import Codec
from zkbroker.records.legacy07 import entries, messages
from zkbroker.records.record import Unsent
from zkbroker.registry.legacy07_groups import committed_positions
from zkbroker.runtime import Runtime
from zkbroker.types import Partition07, PartitionKey
from zkbroker.zookeeper import ZkSession


class SourceCluster07:
    """A 0.7 cluster, for metadata and lag.

    Args:
        zookeeper: of its registry.
        runtime: of the mirror.
    """

    def __init__(self, zookeeper: str, runtime: Runtime) -> None:
        self._zookeeper = zookeeper
        self._cluster = Cluster07(zookeeper, runtime=runtime)

    def start(self) -> Self:
        """Connect.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        self._cluster.start()
        return self

    def close(self) -> None:
        """Close all connections."""
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return self._cluster.topics()

    def partitions(self, topic: str) -> Partitions:
        """Return the partitions of a topic on brokers that are up."""
        found = self._cluster.partitions(topic)
        return tuple(PartitionInfo(topic, each, each.broker) for each in found)

    def offsets(self, keys: Iterable[PartitionKey], time_ms: int) -> dict[PartitionKey, int]:
        """Return where the logs of partitions begin or end.

        Args:
            keys: partitions of brokers that are up.
            time_ms: `EARLIEST_TIME` or `LATEST_TIME`.

        Raises:
            ZkbrokerError: a broker does not answer.
        """
        found: dict[PartitionKey, int] = {}
        for topic, partition in keys:
            assert isinstance(partition, Partition07)
            offsets = self._cluster.consumer(partition.broker).offsets(
                topic, partition.number, time_ms
            )
            found[topic, partition] = offsets[0] if offsets else 0
        return found

    def committed(self, group: str) -> dict[PartitionKey, int]:
        """Return the positions that a group has committed.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        with ZkSession(self._zookeeper) as session:
            return committed_positions(session, group)


def cut07(data: bytes | memoryview, *, max_bytes: int) -> Iterator[Decoded]:
    """Cut fetched bytes of a 0.7 log into pieces of about `max_bytes`, before compression.

    Args:
        data: whole entries.
        max_bytes: about the most of one piece.

    Raises:
        CorruptMessage: the pieces before it came out.
    """
    now_ms = int(time.time() * 1000)
    view = memoryview(data)
    row: list[Unsent] = []
    codec = Codec.NONE
    for entry in entries(view):
        if row and entry.codec != codec:
            yield from _pieces(row, codec, max_bytes)
            row = []
        codec = Codec(entry.codec) if entry.codec <= Codec.SNAPPY else Codec.NONE
        inside = messages(view[entry.position : entry.end], 0)
        row += [(None, each.payload, now_ms, ()) for each in inside]
    yield from _pieces(row, codec, max_bytes)


def _pieces(row: list[Unsent], codec: Codec, max_bytes: int) -> Iterator[Decoded]:
    for records in in_batches(row, max_bytes):
        yield Decoded(records, codec)
