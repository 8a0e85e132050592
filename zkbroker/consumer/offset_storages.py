"""Where a member's offsets are kept, by its settings.

offsets.storage=zookeeper                             ZooKeeper
offsets.storage=kafka, dual.commit.enabled=true       both
offsets.storage=kafka, dual.commit.enabled=false      brokers
"""

from collections.abc import Callable, Mapping

from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer.kafka_offsets import KafkaOffsets
from zkbroker.consumer.offset_keeper import OffsetKeeper
from zkbroker.consumer.partition import TopicPartition
from zkbroker.consumer.zookeeper_offsets import ZooKeeperOffsets
from zkbroker.discovery import Cluster
from zkbroker.registry import ZkSession
from zkbroker.runtime import Runtime


def make_keeper(
    config: ConsumerConfig,
    *,
    consumer_id: str,
    session: ZkSession,
    cluster: Cluster,
    runtime: Runtime,
    positions: Callable[[], Mapping[TopicPartition, int]],
    stopping: Callable[[], bool],
) -> OffsetKeeper:
    """Start the owner loop of one member's offsets.

    Args:
        config: the consumer's settings.
        consumer_id: the member.
        session: the member's session.
        cluster: gives connections to brokers.
        runtime: the connector's.
        positions: what an automatic commit writes.
        stopping: whether a coordinator that is out of reach is given up.
    """
    zookeeper = kafka = None
    if config.commits_to_zookeeper:
        zookeeper = ZooKeeperOffsets(session, config.group_id, consumer_id)
    if config.offsets_storage == "kafka":
        kafka = KafkaOffsets(
            config.group_id,
            any_connection=cluster.any_connection,
            connect=lambda broker_id, *_: cluster.connection(broker_id, "offsets"),
            runtime=runtime,
            backoff_ms=config.offsets_channel_backoff_ms,
            retries=config.offsets_commit_max_retries,
            stopping=stopping,
        )
    return OffsetKeeper(
        zookeeper,
        kafka,
        runtime=runtime,
        interval_ms=config.auto_commit_interval_ms if config.auto_commit_enable else None,
        positions=positions,
    )
