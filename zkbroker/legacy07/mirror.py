"""Clusters of Kafka 0.7 as source and as target of a mirror.

Messages of 0.7 have neither key nor time nor header. A message from such a source gets no key, the
time of reading, and the codec of its wrapper. For such a target keys, times and headers are left
out, and a null becomes an empty message.

Invariants: each message of the bytes is in exactly one piece, in the order of the log; checksums
    are verified before a message is passed on. A message counts as stored only when its broker has
    answered a later request.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence

from zkbroker.client import Cluster
from zkbroker.consumer.fetching.partition import Chunk
from zkbroker.legacy07.cluster import Cluster07
from zkbroker.legacy07.producer_config import Partitioner07
from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.repack import Decoded, Piece, in_batches
from zkbroker.mirror.source_cluster import MirrorSource
from zkbroker.mirror.target import MirrorTarget
from zkbroker.producer import Producer
from zkbroker.producer.plugins import resolve
from zkbroker.records import Codec
from zkbroker.records.legacy07 import entries, messages
from zkbroker.records.record import Unsent
from zkbroker.registry.legacy07_groups import committed_positions
from zkbroker.runtime import Runtime
from zkbroker.types import Partition07, PartitionKey
from zkbroker.zookeeper import ZkSession

logger = logging.getLogger(__name__)


class SourceCluster07(MirrorSource):
    """A source of Kafka 0.7, started; arguments as of `MirrorSource`. Offsets are bytes."""

    cluster: Cluster07

    def _connect(self, runtime: Runtime) -> Cluster:
        config = self.config
        return Cluster07(
            config.zookeeper, security=config.security.zookeeper, runtime=runtime
        ).start()

    def identity(self) -> str | None:
        return _identity(self.config.zookeeper)

    def topic_admin(self) -> None:
        """Return None: topics have no settings."""

    def partitions(self, topic: str) -> Sequence[int]:
        return self.cluster.numbers(topic)

    @staticmethod
    def ordinal(partition: int) -> int:
        name = Partition07.from_number(partition)
        return name.broker + name.number

    def offsets(
        self, keys: Sequence[PartitionKey], time_ms: int, *, committed_only: bool = False
    ) -> Mapping[PartitionKey, int]:
        return {key: self.cluster.offset(*key, time_ms) or 0 for key in keys}

    def committed(self, group: str = "") -> dict[PartitionKey, int]:
        config = self.config
        with ZkSession(config.zookeeper, security=config.security.zookeeper) as session:
            return committed_positions(session, group or config.group_id)

    @staticmethod
    def repack(
        chunk: Chunk,
        begin: int,
        *,
        magic: int,
        join_bytes: int,
        max_bytes: int,
        aligned: bool,
        decode: bool,
    ) -> Iterator[Piece]:
        # The mirrored position is between two entries.
        return cut07(chunk.records[begin - chunk.offset :], max_bytes=max_bytes)


class Target07(MirrorTarget):
    """A target of Kafka 0.7.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """

    magic = -1

    def __init__(self, config: MirrorConfig, runtime: Runtime) -> None:
        own = config.generation_producer()
        self.settings = own.producer()
        self._zookeeper = self.settings.zookeeper_connect
        partitioner = resolve("partitioner", own.make_partitioner())
        # With a list of brokers, the brokers choose the partition.
        self.partitioner = partitioner if self._zookeeper else None
        self.own_partitioner = type(partitioner) is not Partitioner07
        self.cluster = own.make_cluster(runtime).start()
        try:
            self.producer = Producer(own, runtime=runtime, cluster=self.cluster)
        except BaseException:
            self.cluster.close()
            raise
        logger.warning(
            "target connected brokers=%d: Kafka 0.7 stores values only: keys, times and headers "
            "are left out, a null becomes an empty message, and a retry may store messages twice",
            len(self.cluster.brokers()),
        )

    def identity(self) -> str | None:
        return _identity(self._zookeeper)

    def partitions(self, topic: str) -> Sequence[int]:
        known = self.cluster.known_partitions(topic)
        return [each.partition for each in known or self.cluster.partitions(topic, create=True)]


def _identity(zookeeper: str) -> str | None:
    """Return the address of a 0.7 cluster's registry: the cluster has no id."""
    return f"0.7 at {zookeeper}" if zookeeper else None


def cut07(data: bytes | memoryview, *, max_bytes: int) -> Iterator[Decoded]:
    """Cut fetched bytes of a 0.7 log into pieces of about `max_bytes`, before compression.

    Args:
        data: whole entries.
        max_bytes: about the size of one piece.

    Raises:
        CorruptMessage: after the pieces before the damage.
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
