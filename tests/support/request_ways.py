"""The ways of requests through a broker of this thread, traced: what `make docs` shows of them.

Invariant: a request is encoded before it is traced, and its answer is decoded afterwards, so that a
way holds what the broker did and nothing of the client.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gevent.socket

from tests.support.broker_requests import fetch_request, message_set
from tests.support.call_trace import Way, trace
from zkbroker.broker import BrokerNode
from zkbroker.config.broker import BrokerConfig
from zkbroker.protocol import RequestHeader, decode_response, encode_request
from zkbroker.protocol.messages import CreateTopicsRequest, LeaderAndIsrRequest, ProduceRequest
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import NewTopic

TOPIC = "events"


class Line:
    """A connection to a broker of this thread; requests are encoded before they are traced."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self._socket = gevent.socket.create_connection(address)

    def sender(self, request: Any, version: int) -> Callable[[], bytearray]:
        header = RequestHeader(request.api_key, version, 1, "trace")
        frame = b"".join(bytes(part) for part in encode_request(header, request))

        def send() -> bytearray:
            self._socket.sendall(frame)
            size = int.from_bytes(self._receive(4), "big")
            return self._receive(size)

        return send

    def request(self, request: Any, version: int) -> Any:
        answer = self.sender(request, version)()
        return decode_response(request.api_key, version, memoryview(answer))[1]

    def _receive(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return data


@contextmanager
def serving(chroot: str, directory: Path) -> Iterator[Line]:
    """A connection to a broker of this thread that leads one partition."""
    config = BrokerConfig.from_properties(
        {
            "broker.id": "0",
            "host.name": "127.0.0.1",
            "port": "0",
            "log.dirs": str(directory),
            "zookeeper.connect": chroot,
            # The tracer's time decides whether the next request is polled for or waited for.
            "socket.busy.poll.us": "0",
        }
    )
    node = BrokerNode(config)
    node.start()
    try:
        Line(node.address).request(CreateTopicsRequest(topics=[NewTopic(TOPIC, 1, 1)]), 0)
        # One that is newer than the controller's: its requests are obeyed like the controller's.
        yield Line(node.address)
    finally:
        node.stop()


def plain_produce() -> ProduceRequest:
    data = message_set(2, [b"value"])
    return ProduceRequest(
        acks=1, topics=[ProduceRequestTopic(TOPIC, [ProduceRequestPartition(0, data)])]
    )


def produce_way(line: Line) -> Way:
    """Produce one plain batch with acks=1, in version 7."""
    request = plain_produce()
    answer = line.request(request, 7).topics[0].partitions[0]
    assert answer.error_code == 0
    return trace(line.sender(request, 7))


def fetch_way(line: Line) -> Way:
    """Fetch one partition as a consumer, in version 10."""
    line.request(plain_produce(), 7)
    request = fetch_request(TOPIC, 0)
    answer = line.request(request, 10).topics[0].partitions[0]
    assert answer.error_code == 0
    assert len(answer.records)
    return trace(line.sender(request, 10))


def _decision(epoch: int) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartition(
        topic=TOPIC,
        partition=0,
        controller_epoch=1,
        leader=0,
        leader_epoch=epoch,
        isr=[0],
        zk_version=0,
        replicas=[0],
    )
    return LeaderAndIsrRequest(
        controller_id=0, controller_epoch=1, broker_epoch=-1, partition_states=[state]
    )


def repeated_decision_way(line: Line) -> Way:
    """Repeat a decision that was carried out, in version 1."""
    return trace(line.sender(_decision(0), 1))


def leader_and_isr_way(line: Line) -> Way:
    """Have a known partition led under another leader epoch, in version 1."""
    # The controller may open another connection at first: then this one is over.
    for epoch in range(50, 100):
        answer = line.request(_decision(epoch), 1)
        if [each.error_code for each in answer.partitions] == [0]:
            break
        line = Line(line.address)
    senders = iter([line.sender(_decision(epoch), 1) for epoch in range(101, 121)])
    return trace(lambda: next(senders)())
