"""Channels to brokers on a virtual clock: order, retries, closing, overflow."""

import pytest

from tests.support.simulated_time import Clock, Process, SimRuntime
from zkbroker.controller.channel import BrokerChannels
from zkbroker.errors import NetworkError
from zkbroker.protocol.messages import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkbroker.registry.brokers import BrokerInfo

BROKER = BrokerInfo(1, "h", 1)


class SlowConnection:
    """A connection that takes a second for each request; `failures` requests of the test fail."""

    def __init__(self, test, info):
        self.test, self.info, self.closed = test, info, False
        self.in_flight = 0
        test.connections.append(self)

    def send(self, request, version):
        self.test.attempts += 1
        self.in_flight += 1
        assert self.in_flight == 1, "one request at a time"
        self.test.runtime.sleep(1.0)
        self.in_flight -= 1
        if self.test.failures or self.closed:
            self.test.failures = max(0, self.test.failures - 1)
            raise NetworkError("no answer")
        self.test.received.append(request)
        return f"answer {len(self.test.received)}"

    def close(self):
        self.closed = True


class SlowChannels:
    """Channels over slow connections, with the functions that they have posted."""

    def __init__(self, limit=100):
        self.clock = Clock()
        self.runtime = SimRuntime(self.clock, Process("controller"))
        self.attempts = self.failures = 0
        self.received, self.connections, self.posted, self.overflowed = [], [], [], []
        self.channels = BrokerChannels(
            self.runtime,
            lambda info: SlowConnection(self, info),
            limit,
            self.posted.append,
            self.overflowed.append,
        )
        self.channels.open(BROKER)

    def take_posted(self):
        posted, self.posted[:] = list(self.posted), []
        for function in posted:
            function()


@pytest.fixture
def slow():
    return SlowChannels()


def test_requests_are_sent_in_order_one_at_a_time(slow):
    requests = [UpdateMetadataRequest(epoch) for epoch in range(5)]
    answers = []
    for request in requests:
        slow.channels.send(1, request, 5, lambda *answer: answers.append(answer))
    assert slow.channels.queued() == {1: 5}
    slow.clock.run(10.0)
    assert slow.received == requests
    slow.take_posted()
    assert answers == [(1, f"answer {n}") for n in range(1, 6)]
    assert slow.channels.queued() == {1: 0}


def test_request_is_repeated_until_answered(slow):
    slow.failures = 50
    slow.channels.send(1, UpdateMetadataRequest(1), 5, None)
    slow.channels.send(1, UpdateMetadataRequest(2), 5, None)
    slow.clock.run(1000.0)
    assert [each.controller_id for each in slow.received] == [1, 2]
    assert slow.attempts == 52


def test_dropped_broker_gets_no_requests(slow):
    slow.failures = 10**9
    slow.channels.send(1, UpdateMetadataRequest(1), 5, lambda *a: pytest.fail("answered"))
    slow.clock.run(3.0)
    slow.channels.drop(1)
    attempts = slow.attempts
    slow.clock.run(30.0)
    assert slow.attempts <= attempts + 1
    assert slow.connections[0].closed
    slow.channels.send(1, UpdateMetadataRequest(1), 5, None)
    assert slow.channels.queued() == {}


def test_new_registration_discards_old_queue(slow):
    slow.failures = 10**9
    slow.channels.send(1, UpdateMetadataRequest(1), 5, None)
    slow.clock.run(2.0)
    slow.channels.open(BROKER)
    slow.failures = 0
    slow.channels.send(1, UpdateMetadataRequest(2), 5, None)
    slow.clock.run(60.0)
    assert [each.controller_id for each in slow.received] == [2]


def test_response_after_close_is_not_reported(slow):
    slow.channels.send(1, UpdateMetadataRequest(1), 5, lambda *a: pytest.fail("answered"))
    slow.clock.run(0.5)
    slow.channels.close()
    slow.clock.run(60.0)
    slow.take_posted()


def test_posted_response_of_old_registration_is_discarded(slow):
    slow.channels.send(1, StopReplicaRequest(0, 1), 1, lambda *a: pytest.fail("answered"))
    slow.clock.run(2.0)
    assert slow.posted
    slow.channels.open(BROKER)  # a new registration
    slow.take_posted()


def test_overflowing_queue_keeps_only_stop_replica():
    slow = SlowChannels(limit=4)
    slow.failures = 10**9
    slow.clock.run(1.0)
    stop = StopReplicaRequest(0, 1)
    slow.channels.send(1, stop, 1, None)
    for epoch in range(4):
        slow.channels.send(1, LeaderAndIsrRequest(epoch), 2, None)
    slow.take_posted()
    assert slow.overflowed == [1]
    assert slow.channels.queued() == {1: 1}
    slow.failures = 0
    slow.clock.run(60.0)
    assert stop in slow.received


def test_unencodable_request_does_not_end_channel(slow):
    send, errors = SlowConnection.send, [ValueError("too long")]

    def fail_once(request, version):
        if errors:
            raise errors.pop()
        return send(slow.connections[0], request, version)

    slow.connections[0].send = fail_once
    slow.channels.send(1, UpdateMetadataRequest(1), 5, None)
    slow.clock.run(30.0)
    assert [each.controller_id for each in slow.received] == [1]
