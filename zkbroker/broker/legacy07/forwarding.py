"""Has the leader of a partition append what was produced to its view at this broker.

Invariant: one connection to each broker that leads such a partition; an address that changed
replaces it.
"""

from zkbroker.broker.services import BrokerServices
from zkbroker.controller.connections import BrokerLine
from zkbroker.errors import ErrorCode, NotLeaderForPartition, ProtocolError
from zkbroker.protocol.messages import ProduceRequest, ProduceResponse
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import iter_entries
from zkbroker.records.generations import Converted07
from zkbroker.replica.partition import Partition

_PRODUCE_VERSION = 3


class Forwarder07:
    """Produces to other brokers.

    Args:
        services: of this broker.
        client_id: what the leaders are told.
        timeout_ms: how long a leader may take.
    """

    def __init__(self, services: BrokerServices, client_id: str, timeout_ms: int) -> None:
        self._services = services
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._lines: dict[int, tuple[BrokerLine, object]] = {}

    def close(self) -> None:
        """Close the connections."""
        for line, _ in self._lines.values():
            line.close()

    def forward(self, partition: Partition, converted: Converted07) -> int | None:
        """Have the leader append it; returns the first offset, None if there is no such one.

        Raises:
            ZkbrokerError: the leader did not take it, or is not known.
        """
        leader = partition.leader
        topic, number = partition.key
        base = following = None
        view = memoryview(converted.batches)
        for entry in iter_entries(view):
            batch = view[entry.position : entry.position + entry.size]
            asked = ProduceRequestPartition(number, batch)
            request = ProduceRequest(
                None, 1, self._timeout_ms, [ProduceRequestTopic(topic, [asked])]
            )
            answer = self._send(leader, request).topics[0].partitions[0]
            if answer.error_code:
                raise ProtocolError(
                    f"broker {leader}, which leads {partition.key}, did not take it: "
                    f"{ErrorCode(answer.error_code).name}",
                    code=ErrorCode(answer.error_code),
                )
            if base is None:
                base = following = answer.base_offset
            if following != answer.base_offset:
                # Others wrote between two batches: it is shown as the master has it.
                following = None
            if following is not None:
                following += entry.record_count
        return None if following is None else base

    def _send(self, broker_id: int, request: ProduceRequest) -> ProduceResponse:
        broker = self._services.view.brokers.get(broker_id)
        if broker is None:
            raise NotLeaderForPartition("no live broker leads it")
        known = self._lines.get(broker_id)
        if known is None or known[1] != broker:
            if known is not None:
                known[0].close()
            line = BrokerLine(self._services.runtime, broker, self._client_id, self._timeout_ms)
            known = self._lines[broker_id] = (line, broker)
        answer: ProduceResponse = known[0].send(request, _PRODUCE_VERSION)
        return answer
