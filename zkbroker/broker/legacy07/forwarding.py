"""Forwards sets that 0.7 clients produced to a view at this broker to the partition's leader.

Invariant: the first offset is returned only if the batches are contiguous in the log.
"""

from zkbroker.broker.connections import BrokerConnections
from zkbroker.errors import ErrorCode, NotLeaderForPartition, ProtocolError
from zkbroker.protocol.messages import ProduceRequest, ProduceResponse
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import iter_entries
from zkbroker.records.generations import Converted07
from zkbroker.replica.partition import Partition

_PRODUCE_VERSION = 3


def forward(
    connections: BrokerConnections, partition: Partition, converted: Converted07, timeout_ms: int
) -> int | None:
    """Let the leader append a set; returns the first offset, None if it is not contiguous.

    Raises:
        ZkbrokerError: the leader refused it, or is unknown.
    """
    leader = partition.leader
    if leader < 0:
        raise NotLeaderForPartition("the partition has no leader")
    topic, number = partition.key
    base = following = None
    view = memoryview(converted.batches)
    for entry in iter_entries(view):
        batch = view[entry.position : entry.position + entry.size]
        asked = ProduceRequestTopic(topic, [ProduceRequestPartition(number, batch)])
        request = ProduceRequest(None, 1, timeout_ms, [asked])
        response: ProduceResponse = connections.send("", leader, request, _PRODUCE_VERSION)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise ProtocolError(
                f"broker {leader}, which leads {partition.key}, refused a set: "
                f"{ErrorCode(answer.error_code).name}",
                code=ErrorCode(answer.error_code),
            )
        if base is None:
            base = following = answer.base_offset
        if following != answer.base_offset:
            # Other messages came between two batches: the set is rendered from the master.
            following = None
        if following is not None:
            following += entry.record_count
    return None if following is None else base
