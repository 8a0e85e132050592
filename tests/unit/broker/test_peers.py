"""A broker without ZooKeeper learns from others who leads now."""

from types import MappingProxyType

import pytest

from tests.unit.broker.test_view import update
from zkbroker.broker.peers import PeerKnowledge
from zkbroker.broker.view import ClusterView
from zkbroker.errors import NetworkError
from zkbroker.protocol.messages import MetadataResponse
from zkbroker.protocol.messages.metadata import MetadataPartition, MetadataTopic
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.topics_watch import TopicsView
from zkbroker.runtime import get_runtime


class World:
    """Broker 1, and what brokers 2 and 3 answer: (leader, epoch) of t-0, or an error."""

    def __init__(self):
        self.answers = {2: (2, 5), 3: (2, 5)}
        self.asked = []
        self.over = False
        self.view = ClusterView(BrokerInfo(1, "a", 1))
        self.view.set_brokers({n: BrokerInfo(n, "b", n) for n in (2, 3)})
        self.topics({"t": {0: (1, 2)}, "single": {0: (1,)}})
        update(self.view, 1, epoch=4)
        self.peers = PeerKnowledge(
            self.view,
            lambda: self.over,
            lambda broker: Line(self, broker.id),
            runtime=get_runtime("gevent"),
        )

    def topics(self, assignments):
        view = TopicsView(MappingProxyType(assignments), MappingProxyType({}), frozenset())
        self.view.set_topics(view)


class Line:
    def __init__(self, world, broker):
        self.world, self.broker = world, broker

    def send(self, request, version):
        assert version >= 7, "leader epochs"
        assert not request.allow_auto_topic_creation
        self.world.asked.append((self.broker, request.topics))
        answer = self.world.answers[self.broker]
        if isinstance(answer, Exception):
            raise answer
        leader, epoch = answer
        part = MetadataPartition(0, 0, leader, epoch, [1, 2], [leader], [])
        return MetadataResponse(topics=[MetadataTopic(0, name, False, [part]) for name in ["t"]])

    def close(self):
        self.broker = None


@pytest.fixture
def world():
    return World()


def test_later_leader_of_a_peer_is_adopted(world):
    assert world.view.leader("t", 0) == (1, 4)
    assert world.peers.ask() == 1
    assert world.view.leader("t", 0) == (2, 5)
    assert world.view.decided("t", 0).isr == [2]
    assert world.asked == [(2, ["t"])], "nobody else can lead what has one replica"


@pytest.mark.parametrize("answer", [(2, 4), (2, 3), (-1, -1)])
def test_peer_without_newer_epoch_changes_nothing(world, answer):
    world.answers[2] = answer
    assert world.peers.ask() == 0
    assert world.view.leader("t", 0) == (1, 4)


def test_peers_are_queried_in_turn_past_failing_ones(world):
    world.answers[2] = NetworkError("refused")
    assert [world.peers.ask() for _ in range(3)] == [0, 1, 0]
    assert [broker for broker, _ in world.asked] == [2, 3, 2]


def test_peers_are_queried_only_after_the_session_is_over(world):
    world.peers._step()
    assert world.asked == []
    world.over = True
    world.peers._step()
    assert world.view.leader("t", 0) == (2, 5)


def test_single_broker_queries_no_peer(world):
    world.view.set_brokers({})
    assert world.peers.ask() == 0


def test_many_topics_are_queried_in_parts(world):
    world.topics({f"t{n}": {0: (1, 2)} for n in range(450)})
    world.peers.ask()
    assert [len(topics) for _, topics in world.asked] == [200, 200, 50]


def test_later_controller_decision_replaces_the_peers(world):
    world.peers.ask()
    update(world.view, 1, epoch=6)
    assert world.view.leader("t", 0) == (1, 6)
