"""The cluster of a source: partitions, offsets, commits, settings of topics.

Invariant: offsets are those of the source's generation; no code here adds to one or compares it
    with an offset of another cluster.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from zkbroker.admin import coordinator_groups, zk_groups
from zkbroker.client import Cluster, StaticSource, ZooKeeperSource
from zkbroker.client.resolve_offsets import resolve_or_end
from zkbroker.consumer.fetching.partition import Chunk
from zkbroker.mirror.repack import Piece, cut
from zkbroker.mirror.source_config import SourceConfig
from zkbroker.mirror.target import cluster_id
from zkbroker.mirror.topic_admin import CLIENT_ID, TopicAdmin
from zkbroker.protocol import ApiKey
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession

_OFFSETS_TIMEOUT_S = 30.0


class MirrorSource:
    """A source of Kafka 0.8 or later, started.

    Raises:
        ZkbrokerError: it cannot be reached.
    """

    def __init__(self, config: SourceConfig, runtime: Runtime) -> None:
        self.config = config
        self.cluster = self._connect(runtime)

    def _connect(self, runtime: Runtime) -> Cluster:
        config = self.config
        source = (
            StaticSource(config.properties["bootstrap.servers"].split(","))
            if config.by_coordinator
            else ZooKeeperSource(config.zookeeper, security=config.security.zookeeper)
        )
        return Cluster(
            source, runtime=runtime, client_id=CLIENT_ID, security=config.security
        ).start()

    def close(self) -> None:
        """Close all connections."""
        self.cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def identity(self) -> str | None:
        """Return an identity that source and target share in one cluster; None: unknown."""
        return cluster_id(self.cluster)

    def topic_admin(self) -> TopicAdmin | None:
        """Return the admin client of its topics; None if topics have no settings."""
        zookeeper = "" if self.config.by_coordinator else self.config.zookeeper
        return TopicAdmin(self.cluster, zookeeper, self.config.security)

    def partitions(self, topic: str) -> Sequence[int]:
        """Return the partitions of a topic.

        Raises:
            ZkbrokerError: there is none of this name, or no broker answers.
        """
        return [each.partition for each in self.cluster.partitions(topic)]

    @staticmethod
    def ordinal(partition: int) -> int:
        """Return a fixed number that spreads partitions over those of a target."""
        return partition

    def offsets(
        self, keys: Sequence[PartitionKey], time_ms: int, *, committed_only: bool = False
    ) -> Mapping[PartitionKey, int]:
        """Return the starts or ends of partitions.

        Args:
            keys: the partitions.
            time_ms: `EARLIEST_TIME` or `LATEST_TIME`.
            committed_only: whether they end before the first open transaction.

        Raises:
            ZkbrokerError: a broker does not answer.
        """
        return resolve_or_end(
            self.cluster,
            dict.fromkeys(keys, time_ms),
            read_committed=committed_only,
            timeout_s=_OFFSETS_TIMEOUT_S,
        )

    def committed(self, group: str = "") -> dict[PartitionKey, int]:
        """Return the offsets that a group has committed.

        Args:
            group: its name; empty for the mirror's own.

        Raises:
            ZkbrokerError: they cannot be read.
        """
        return group_offsets(self.config, self.cluster, group)

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
        """Cut a fetched chunk into pieces; see `repack.cut`."""
        return cut(
            chunk.records,
            begin,
            magic=magic,
            join_bytes=join_bytes,
            max_bytes=max_bytes,
            aligned=aligned,
            decode=decode,
        )


def group_offsets(
    source: SourceConfig, cluster: Cluster, group: str = ""
) -> dict[PartitionKey, int]:
    """Return the offsets that a group of a source of Kafka 0.8 or later has committed.

    Args:
        source: which cluster.
        cluster: its brokers.
        group: its name; empty for the mirror's own.

    Raises:
        ZkbrokerError: they cannot be read.
    """
    name = group or source.group_id
    found: dict[PartitionKey, int] = {}
    if source.zookeeper:
        with ZkSession(source.zookeeper, security=source.security.zookeeper) as session:
            found = zk_groups.committed(session, name)
    if source.by_coordinator or not found:
        connection = cluster.any_connection()
        if ApiKey.DESCRIBE_GROUPS in connection.versions:
            kept = dict(coordinator_groups.describe(cluster, name).offsets)
            found = {key: max(kept.get(key, 0), found.get(key, 0)) for key in {*kept, *found}}
    return found
