"""A broker without ZooKeeper learns of new leaders from other brokers."""

import pytest

from tests.unit.broker.test_view import topics, update
from zkbroker.broker.peers import PeerKnowledge
from zkbroker.broker.view import ClusterView
from zkbroker.errors import NetworkError
from zkbroker.protocol.messages import MetadataResponse
from zkbroker.protocol.messages.metadata import MetadataPartition, MetadataTopic
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.runtime import get_runtime


class QueriedPeers:
    """Broker 1, and the responses of brokers 2 and 3: (leader, epoch) of t-0, or an error."""

    def __init__(self):
        self.answers = {2: (2, 5), 3: (2, 5)}
        self.asked = []
        self.over = False
        self.view = ClusterView(BrokerInfo(1, "a", 1))
        self.view.set_brokers({n: BrokerInfo(n, "b", n) for n in (2, 3)})
        self.view.set_topics(topics({"t": {0: (1, 2)}, "single": {0: (1,)}}))
        update(self.view, 1, epoch=4)
        self.peers = PeerKnowledge(
            self.view,
            lambda: self.over,
            lambda broker: PeerConnection(self, broker.id),
            runtime=get_runtime("gevent"),
        )


class PeerConnection:
    def __init__(self, queried, broker):
        self.queried, self.broker = queried, broker

    def send(self, request, version):
        assert version >= 7, "leader epochs"
        assert not request.allow_auto_topic_creation
        self.queried.asked.append((self.broker, request.topics))
        answer = self.queried.answers[self.broker]
        if isinstance(answer, Exception):
            raise answer
        leader, epoch = answer
        part = MetadataPartition(0, 0, leader, epoch, [1, 2], [leader], [])
        return MetadataResponse(topics=[MetadataTopic(0, name, False, [part]) for name in ["t"]])

    def close(self):
        self.broker = None


@pytest.fixture
def queried():
    return QueriedPeers()


def test_later_leader_of_a_peer_is_adopted(queried):
    assert queried.view.leader("t", 0) == (1, 4)
    assert queried.peers.ask() == 1
    assert queried.view.leader("t", 0) == (2, 5)
    assert queried.view.decided("t", 0).isr == [2]
    assert queried.asked == [(2, ["t"])], "a partition with one replica has no other leader"


@pytest.mark.parametrize("answer", [(2, 4), (2, 3), (-1, -1)])
def test_peer_without_newer_epoch_changes_nothing(queried, answer):
    queried.answers[2] = answer
    assert queried.peers.ask() == 0
    assert queried.view.leader("t", 0) == (1, 4)


def test_peers_are_queried_in_turn_past_failing_ones(queried):
    queried.answers[2] = NetworkError("refused")
    assert [queried.peers.ask() for _ in range(3)] == [0, 1, 0]
    assert [broker for broker, _ in queried.asked] == [2, 3, 2]


def test_peers_are_queried_only_after_the_session_is_over(queried):
    queried.peers._step()
    assert queried.asked == []
    queried.over = True
    queried.peers._step()
    assert queried.view.leader("t", 0) == (2, 5)


def test_single_broker_queries_no_peer(queried):
    queried.view.set_brokers({})
    assert queried.peers.ask() == 0


def test_many_topics_are_queried_in_parts(queried):
    queried.view.set_topics(topics({f"t{n}": {0: (1, 2)} for n in range(450)}))
    queried.peers.ask()
    assert [len(topics) for _, topics in queried.asked] == [200, 200, 50]


def test_later_controller_decision_replaces_the_peers(queried):
    queried.peers.ask()
    update(queried.view, 1, epoch=6)
    assert queried.view.leader("t", 0) == (1, 6)
