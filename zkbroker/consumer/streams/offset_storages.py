"""The offset storages of a member, by its settings.

offsets.storage=zookeeper (dual.commit.enabled=false)     ZooKeeper
offsets.storage=kafka, dual.commit.enabled=false          brokers; ZooKeeper is read where they
                                                          have no offset, and not written
either with dual.commit.enabled=true                      both; the larger offset counts
"""

from collections.abc import Callable, Mapping

from zkbroker.client import Cluster
from zkbroker.client.coordinator import CoordinatorConnection
from zkbroker.client.group_offsets import CoordinatorOffsets
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer.streams.offset_keeper import OffsetKeeper
from zkbroker.consumer.streams.zookeeper_offsets import ZooKeeperOffsets
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession


def make_keeper(
    config: ConsumerConfig,
    *,
    consumer_id: str,
    session: ZkSession,
    cluster: Cluster,
    runtime: Runtime,
    positions: Callable[[], Mapping[PartitionKey, int]],
    stopping: Callable[[], bool],
) -> OffsetKeeper:
    """Start the owner loop of one member's offsets.

    Args:
        config: the consumer's settings.
        consumer_id: the member.
        session: the member's session.
        cluster: gives connections to brokers.
        runtime: the connector's.
        positions: returns the offsets of an automatic commit.
        stopping: whether to give up a coordinator that is out of reach.
    """
    kafka = None
    zookeeper = ZooKeeperOffsets(session, config.group_id, consumer_id)
    if config.commits_to_brokers:
        coordinator = CoordinatorConnection(
            cluster,
            config.group_id,
            runtime=runtime,
            backoff_ms=config.offsets_channel_backoff_ms,
            lane="offsets",
        )
        kafka = CoordinatorOffsets(
            coordinator,
            config.group_id,
            timeout_s=config.offsets_channel_socket_timeout_ms / 1000,
            stopping=stopping,
        )
    written = config.commits_to_zookeeper
    return OffsetKeeper(
        zookeeper if written else None,
        kafka,
        earlier=None if written else zookeeper,
        runtime=runtime,
        interval_ms=config.auto_commit_interval_ms if config.auto_commit_enable else None,
        positions=positions,
    )
