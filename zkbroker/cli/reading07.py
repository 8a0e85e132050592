"""Where `zkbroker consume` takes messages of partitions of a 0.7 cluster from.

Invariant: as of `reading`: with an end asked for, the ends are taken once.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from zkbroker.admin.cluster_tree import require_cluster
from zkbroker.cli.positions import Anchor, Position, Range
from zkbroker.cli.reading import Messages
from zkbroker.consumer import EARLIEST_TIME, LATEST_TIME
from zkbroker.errors import ConfigError
from zkbroker.legacy07 import Cluster07, Partition07, decode_chunk07

_POLL_S = 0.2


@contextmanager
def of_partitions_07(
    topic: str, partitions: tuple[int, ...], zookeeper: str, chosen: Range, exit_at_end: bool
) -> Iterator[Messages]:
    """Read partitions of a topic without a group.

    Raises:
        ConfigError: a partition does not exist, or a position is not one of 0.7.
        RegistryError: ZooKeeper does not answer, or no broker is registered there.
    """
    require_cluster(zookeeper)
    with Cluster07(zookeeper) as cluster:
        known = cluster.numbers(topic)
        unknown = sorted(set(partitions) - set(known))
        if unknown or not known:
            there = ", ".join(map(str, known)) or "none"
            missing = f"partition {unknown[0]}" if unknown else "partition on a broker that is up"
            raise ConfigError(f"topic {topic} has no {missing}; it has {there}")
        wanted = [each for each in known if not partitions or each in partitions]
        if chosen.stop is not None:
            raise ConfigError("messages of Kafka 0.7 have no time to stop at")
        starts = {each: _start(cluster, topic, each, chosen.start) for each in wanted}
        stops = {each: _ask(cluster, topic, each, LATEST_TIME) for each in wanted}
        yield _read(cluster, topic, starts, stops if exit_at_end else None)


def _start(cluster: Cluster07, topic: str, partition: Partition07, position: Position) -> int:
    if position.anchor is Anchor.BEGINNING:
        return _ask(cluster, topic, partition, EARLIEST_TIME)
    if position.anchor is Anchor.END and not position.value:
        return _ask(cluster, topic, partition, LATEST_TIME)
    if position.anchor is Anchor.OFFSET:
        return position.value
    raise ConfigError(
        "-o of a cluster of Kafka 0.7 is beginning, end or a position in bytes that lies between "
        "two messages"
    )


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
