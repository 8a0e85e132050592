"""Reads partitions of a 0.7 cluster without a group.

Invariant: if an end is asked for, the ends are read once.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from zkbroker.admin.cluster_tree import require_cluster
from zkbroker.config.zookeeper_security import ZooKeeperSecurity
from zkbroker.consumer import LATEST_TIME, MessageAndMetadata
from zkbroker.errors import ConfigError
from zkbroker.legacy07.cluster import Cluster07
from zkbroker.legacy07.decode import decode_chunk07
from zkbroker.types import Partition07

_POLL_S = 0.2

Messages = Iterator[MessageAndMetadata]


@contextmanager
def read_partitions(
    topic: str,
    partitions: Sequence[int],
    zookeeper: str,
    start: int,
    *,
    exit_at_end: bool,
    security: ZooKeeperSecurity,
) -> Iterator[Messages]:
    """Read partitions of a topic.

    Args:
        topic: its name.
        partitions: to read; if empty, all.
        zookeeper: of the registry.
        start: a position in bytes between two messages, `EARLIEST_TIME` or `LATEST_TIME`.
        exit_at_end: stop at the present ends.
        security: of connections to ZooKeeper.

    Raises:
        ConfigError: a partition does not exist.
        RegistryError: ZooKeeper does not answer, or no broker is registered there.
    """
    require_cluster(zookeeper, security)
    with Cluster07(zookeeper, security=security) as cluster:
        known = cluster.numbers(topic)
        unknown = sorted(set(partitions) - set(known))
        if unknown or not known:
            there = ", ".join(map(str, known)) or "none"
            missing = f"partition {unknown[0]}" if unknown else "partition on a broker that is up"
            raise ConfigError(f"topic {topic} has no {missing}; it has {there}")
        wanted = [each for each in known if not partitions or each in partitions]
        starts = {
            each: start if start >= 0 else _ask(cluster, topic, each, start) for each in wanted
        }
        stops = {each: _ask(cluster, topic, each, LATEST_TIME) for each in wanted}
        yield _read(cluster, topic, starts, stops if exit_at_end else None)


def _ask(cluster: Cluster07, topic: str, partition: Partition07, time_ms: int) -> int:
    return cluster.offset(topic, partition, time_ms) or 0


def _read(
    cluster: Cluster07,
    topic: str,
    positions: dict[Partition07, int],
    stops: Mapping[Partition07, int] | None,
) -> Messages:
    while True:
        came = False
        for partition, offset in list(positions.items()):
            if stops is not None and offset >= stops[partition]:
                del positions[partition]
                continue
            consumer = cluster.consumer(partition.broker)
            (found,) = consumer.fetch_entries([(topic, partition.number, offset)])
            if found.error is not None:
                raise found.error
            decoded = decode_chunk07(topic, partition, found.data, offset)
            for message in decoded.messages:
                if stops is None or message.offset <= stops[partition]:
                    yield message
            if decoded.error is not None:
                raise decoded.error
            positions[partition] = found.next_offset
            came = came or found.next_offset > offset
        if not positions:
            return
        if not came:
            time.sleep(_POLL_S)
