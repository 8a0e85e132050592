"""A broker that is stopping, while the controller is slow to move its leaderships."""

import pytest

from tests.support.broker_requests import (
    fetch_request,
    led,
    message_set,
    only,
    produce,
    values,
)
from tests.support.brokers import MortalBroker
from tests.support.zookeeper import until
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import OffsetCommitRequest
from zkbroker.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from zkbroker.protocol.offsets_topic import OFFSETS_TOPIC
from zkbroker.registry.controller_election import current_controller
from zkbroker.registry.topics import create_topic
from zkbroker.runtime import get_runtime

_LONG_MS = 60_000


@pytest.fixture
def leaving(chroot, zk, tmp_path):
    """Connect to a stopping broker that waits for a paused controller."""
    settings = {
        "zookeeper.connect": chroot,
        # The paused broker stays registered, and remains the controller.
        "log.index.size.max.bytes": "4096",
    }
    controller, broker = (
        MortalBroker(tmp_path, {**settings, "broker.id": str(number)}) for number in (0, 1)
    )
    with_clients = []

    def connect():
        host, port = broker.address
        made = BrokerConnection(get_runtime("threads"), host, port, client_id="test")
        with_clients.append(made)
        return made

    try:
        controller.start()
        until(lambda: current_controller(zk) == 0)
        broker.start()
        create_topic(zk, "replicated", {0: [1, 0]})
        create_topic(zk, "alone", {0: [1]})
        create_topic(zk, OFFSETS_TOPIC, {0: [1]})
        client = connect()
        for topic in ("replicated", "alone", OFFSETS_TOPIC):
            until(lambda topic=topic: led(client, topic))
        # A new coordinator loads its partition first.
        until(lambda: commit(client) == 0)
        controller.pause()
        broker.request_stop()
        until(lambda: "broker stopping" in broker.log_path.read_text())
        yield connect
    finally:
        for made in with_clients:
            made.close()
        if controller.alive:
            controller.resume()
        assert broker.stop(60)
        controller.stop()


def commit(client):
    """Commit an offset of a group; return the error code."""
    topics = [OffsetCommitRequestTopic("alone", [OffsetCommitRequestPartition(0, 0)])]
    answer = client.request(OffsetCommitRequest("group", topics=topics), 2)
    return int(answer.topics[0].partitions[0].error_code)


def test_stopping_broker_serves_and_coordinates_until_hand_over(leaving):
    reader, writer = leaving(), leaving()
    assert led(reader, "alone")
    waiting = reader.send(fetch_request("alone", 0, max_wait_ms=_LONG_MS))
    # The response to a later request: the broker has begun to handle the fetch.
    assert led(writer, "alone")
    # A fetch without data still waits, instead of an immediate empty response.
    assert produce(writer, "alone", message_set(2, [b"v"])).error_code == 0
    assert values(only(waiting.result(30))) == [b"v"]
    assert commit(writer) == 0
