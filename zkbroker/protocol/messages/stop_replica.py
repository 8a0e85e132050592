"""StopReplica (5): the controller tells a broker to stop replicas, and maybe delete their logs.

Version 1 adds the broker epoch of the receiver and groups the partitions by topic; the answer is
flat in both.
"""

from collections.abc import Iterator

from zkbroker.protocol.messages.leader_and_isr import NO_BROKER_EPOCH, PartitionError
from zkbroker.protocol.schema import (
    Kind,
    Request,
    array,
    boolean,
    int16,
    int32,
    int64,
    keyword_message,
    string,
    wire_message,
)


@wire_message
class StopReplicaPartition:
    topic: str = string()
    partition: int = int32()


@wire_message
class StopReplicaTopic:
    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@keyword_message
class StopReplicaRequest(Request):
    """Args: partitions in version 0, topics since 1; `replicas` reads both."""

    controller_id: int = int32()
    controller_epoch: int = int32()
    broker_epoch: int = int64(since=1, default=NO_BROKER_EPOCH)
    delete_partitions: bool = boolean()
    partitions: list[StopReplicaPartition] = array(StopReplicaPartition, until=0)
    topics: list[StopReplicaTopic] = array(StopReplicaTopic, since=1)

    def replicas(self) -> Iterator[tuple[str, int]]:
        """Yield topic and partition of every replica, in a request of either version."""
        for each in self.partitions:
            yield each.topic, each.partition
        for topic in self.topics:
            for partition in topic.partitions:
                yield topic.topic, partition


@wire_message
class StopReplicaResponse:
    error_code: int = int16()
    partitions: list[PartitionError] = array(PartitionError)
