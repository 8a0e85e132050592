"""On a virtual clock: order, repetition, giving up, overflow."""

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


class Line:
    """A connection that takes a second for each request, and fails as often as it is told."""

    def __init__(self, world, info):
        self.world, self.info, self.closed = world, info, False
        self.in_flight = 0
        world.lines.append(self)

    def send(self, request, version):
        self.world.attempts += 1
        self.in_flight += 1
        assert self.in_flight == 1, "one at a time"
        self.world.runtime.sleep(1.0)
        self.in_flight -= 1
        if self.world.failures or self.closed:
            self.world.failures = max(0, self.world.failures - 1)
            raise NetworkError("no answer")
        self.world.received.append(request)
        return f"answer {len(self.world.received)}"

    def close(self):
        self.closed = True


class World:
    def __init__(self, limit=100):
        self.clock = Clock()
        self.runtime = SimRuntime(self.clock, Process("controller"))
        self.attempts = self.failures = 0
        self.received, self.lines, self.posted, self.overflowed = [], [], [], []
        self.channels = BrokerChannels(
            self.runtime,
            lambda info: Line(self, info),
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
def world():
    return World()


def test_requests_arrive_in_order_one_at_a_time(world):
    requests = [UpdateMetadataRequest(epoch) for epoch in range(5)]
    answers = []
    for request in requests:
        world.channels.send(1, request, 5, lambda *answer: answers.append(answer))
    assert world.channels.queued() == {1: 5}
    world.clock.run(10.0)
    assert world.received == requests
    world.take_posted()
    assert answers == [(1, f"answer {n}") for n in range(1, 6)]
    assert world.channels.queued() == {1: 0}


def test_a_request_is_repeated_until_it_is_answered(world):
    world.failures = 50
    world.channels.send(1, UpdateMetadataRequest(1), 5, None)
    world.channels.send(1, UpdateMetadataRequest(2), 5, None)
    world.clock.run(1000.0)
    assert [each.controller_id for each in world.received] == [1, 2]
    assert world.attempts == 52


def test_nothing_is_said_to_a_broker_that_is_gone(world):
    world.failures = 10**9
    world.channels.send(1, UpdateMetadataRequest(1), 5, lambda *a: pytest.fail("answered"))
    world.clock.run(3.0)
    world.channels.drop(1)
    attempts = world.attempts
    world.clock.run(30.0)
    assert world.attempts <= attempts + 1
    assert world.lines[0].closed
    world.channels.send(1, UpdateMetadataRequest(1), 5, None)
    assert world.channels.queued() == {}


def test_a_new_registration_gets_its_own_queue(world):
    world.failures = 10**9
    world.channels.send(1, UpdateMetadataRequest(1), 5, None)
    world.clock.run(2.0)
    world.channels.open(BROKER)
    world.failures = 0
    world.channels.send(1, UpdateMetadataRequest(2), 5, None)
    world.clock.run(60.0)
    assert [each.controller_id for each in world.received] == [2]


def test_an_answer_after_the_end_is_not_reported(world):
    world.channels.send(1, UpdateMetadataRequest(1), 5, lambda *a: pytest.fail("answered"))
    world.clock.run(0.5)
    world.channels.close()
    world.clock.run(60.0)
    world.take_posted()


def test_an_answer_that_is_still_to_be_reported_at_the_end_says_nothing_any_more(world):
    world.channels.send(1, StopReplicaRequest(0, 1), 1, lambda *a: pytest.fail("answered"))
    world.clock.run(2.0)
    assert world.posted
    world.channels.open(BROKER)  # it registered anew
    world.take_posted()


def test_a_queue_that_is_too_long_is_replaced_except_for_what_is_waited_for():
    world = World(limit=4)
    world.failures = 10**9
    world.clock.run(1.0)
    stop = StopReplicaRequest(0, 1)
    world.channels.send(1, stop, 1, None)
    for epoch in range(4):
        world.channels.send(1, LeaderAndIsrRequest(epoch), 2, None)
    world.take_posted()
    assert world.overflowed == [1]
    assert world.channels.queued() == {1: 1}
    world.failures = 0
    world.clock.run(60.0)
    assert stop in world.received


def test_a_request_that_cannot_be_encoded_does_not_end_the_channel(world):
    send, errors = Line.send, [ValueError("too long")]

    def fail_once(request, version):
        if errors:
            raise errors.pop()
        return send(world.lines[0], request, version)

    world.lines[0].send = fail_once
    world.channels.send(1, UpdateMetadataRequest(1), 5, None)
    world.clock.run(30.0)
    assert [each.controller_id for each in world.received] == [1]
