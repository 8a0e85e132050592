"""LeaderAndIsr (4): the controller tells a broker which replicas it leads, and which it follows.

Version 1 marks new replicas; version 2 adds the broker epoch of the receiver and groups the
partitions by topic. The answer is flat in every version. Zero partitions are allowed.
"""

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

NO_LEADER = -1
LEADER_DURING_DELETE = -2
NO_BROKER_EPOCH = -1


@keyword_message
class LeaderAndIsrPartition:
    """The decision for one partition.

    Args:
        topic: its topic; since version 2 it is in the enclosing item.
        controller_epoch: of the controller that decided, perhaps an earlier one than the sender.
        leader: -1 while there is none.
        zk_version: version of the node with the decision, which the leader's next change expects.
        is_new: whether this request creates the replica.
    """

    topic: str = string(until=1)
    partition: int = int32()
    controller_epoch: int = int32()
    leader: int = int32(default=NO_LEADER)
    leader_epoch: int = int32()
    isr: list[int] = array(Kind.INT32)
    zk_version: int = int32()
    replicas: list[int] = array(Kind.INT32)
    is_new: bool = boolean(since=1)


@wire_message
class LeaderAndIsrTopic:
    topic: str = string()
    partition_states: list[LeaderAndIsrPartition] = array(LeaderAndIsrPartition)


@wire_message
class LiveLeader:
    """The address of a leader for other brokers."""

    id: int = int32()
    host: str = string()
    port: int = int32()


@keyword_message
class LeaderAndIsrRequest(Request):
    """Args: partition_states until version 1, topic_states since 2."""

    controller_id: int = int32()
    controller_epoch: int = int32()
    broker_epoch: int = int64(since=2, default=NO_BROKER_EPOCH)
    partition_states: list[LeaderAndIsrPartition] = array(LeaderAndIsrPartition, until=1)
    topic_states: list[LeaderAndIsrTopic] = array(LeaderAndIsrTopic, since=2)
    live_leaders: list[LiveLeader] = array(LiveLeader)


@wire_message
class PartitionError:
    topic: str = string()
    partition: int = int32()
    error_code: int = int16()


@wire_message
class LeaderAndIsrResponse:
    error_code: int = int16()
    partitions: list[PartitionError] = array(PartitionError)
