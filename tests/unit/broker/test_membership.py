"""How a broker comes into the cluster, and leaves it."""

from types import SimpleNamespace

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.broker.dialing import Dialing
from zkbroker.broker.membership import ClusterMembership
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.log import LogManagerConfig
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.registry import paths
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.partition_states import LeaderAndIsr, PartitionStates
from zkbroker.registry.state_form import StateForm, declare_form
from zkbroker.registry.topics import create_topic
from zkbroker.registry.topics_watch import TopicsView
from zkbroker.zookeeper import SessionState

OWN = BrokerInfo(1, "10.0.0.1", 9092)


class PlayedController:
    """Elected; answers what it is told to, in turn."""

    is_controller = True

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def controlled_shutdown(self, broker_id, broker_epoch):
        self.asked.append((broker_id, broker_epoch))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def world(tmp_path):
    session = InstantSession()
    config = BrokerConfig(
        zookeeper_connect="unused",
        controlled_shutdown_backoff_ms=0,
        log_manager=LogManagerConfig(log_dirs=(str(tmp_path),)),
    )
    states = PartitionStates(session)
    view = ClusterView(OWN)
    registered = []
    membership = ClusterMembership(
        config, session, states, view, OWN, Dialing(session.runtime, OWN)
    )
    membership.on_registered(lambda: registered.append(1))
    return SimpleNamespace(
        session=session, states=states, view=view, membership=membership, registered=registered
    )


def test_broker_epoch_is_the_zxid_of_the_registration(world):
    world.membership.start()
    stat = world.session.exists(paths.broker(1))
    assert world.membership.broker_epoch == stat.czxid
    assert world.registered == [1]
    world.membership.deregister(1.0)


def test_broker_epoch_is_read_again_only_for_a_later_one(world):
    world.membership.start()
    epoch = world.membership.broker_epoch
    world.membership.broker_epoch = epoch - 1
    world.membership.learn_epoch(epoch - 2)
    assert world.membership.broker_epoch == epoch - 1
    world.membership.learn_epoch(epoch)
    assert world.membership.broker_epoch == epoch
    world.membership.deregister(1.0)


def hand_over(world, controller, others=(2,)):
    world.view.set_brokers({each: BrokerInfo(each, "b", each) for each in others})
    return world.membership.hand_over(controller, [(1, 2)])


def test_controlled_shutdown_hands_leaderships_over(world):
    controller = PlayedController([])
    assert hand_over(world, controller)
    assert controller.asked == [(1, -1)]


def test_controlled_shutdown_is_retried_a_bounded_number_of_times(world):
    refused = ProtocolError("not the controller", code=ErrorCode.STALE_CONTROLLER_EPOCH)
    assert hand_over(world, PlayedController([("t", 0)], refused, []))
    controller = PlayedController(*[[("t", 0)]] * 5)
    assert not hand_over(world, controller)
    assert len(controller.asked) == 3


def test_no_hand_over_without_other_replicas(world):
    controller = PlayedController()
    assert hand_over(world, controller, others=(7,))
    assert controller.asked == []


@pytest.mark.parametrize("last", [True, False])
def test_last_broker_leaves_a_persistent_state_node(world, last):
    declare_form(world.session, StateForm.EPHEMERAL, 1)
    world.membership.start()
    create_topic(world.session, "t", {0: (1,)})
    world.session.create(paths.CONTROLLER_EPOCH, b"1")
    state = LeaderAndIsr(1, 4, (1,), 1)
    stored = world.states.write({("t", 0): state}, 0)
    world.states.register_leader(stored)
    world.view.set_topics(TopicsView({"t": {0: (1,)}}, {}, frozenset()))
    if not last:
        other = BrokerInfo(2, "b", 2)
        world.session.create(paths.broker(2), other.to_json(), ephemeral=True)
    world.states.unregister_leader([("t", 0)])
    world.membership.deregister(1.0)
    left = world.session.exists(paths.partition_state("t", 0))
    assert (left is not None) is last
    if left is not None:
        assert left.ephemeral_owner == 0


@pytest.mark.parametrize(
    ("stored", "asked", "answer"),
    [(b"4", 4, True), (b"4", 3, True), (b"4", 5, False), (b"garbage", 5, None), (None, 1, False)],
)
def test_controller_epoch_is_compared_with_the_stored_one(world, stored, asked, answer):
    if stored is not None:
        world.session.create(paths.CONTROLLER_EPOCH, stored)
    assert world.membership.was_elected(asked) is answer


def test_session_is_over_after_its_timeout_without_zookeeper(world, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(
        world.session.runtime, "clock_ms", lambda: int(now[0] * 1000), raising=False
    )
    membership = world.membership
    membership.note_session(SessionState.SUSPENDED)
    now[0] += 5.9
    assert not membership.session_over()
    membership.note_session(SessionState.LOST)
    now[0] += 0.2
    assert membership.session_over()
    membership.note_session(SessionState.CONNECTED)
    assert not membership.session_over()


class WaitingController(PlayedController):
    """Comes to nothing before it is released; ZooKeeper goes when it is asked."""

    def __init__(self, session):
        super().__init__()
        self.session = session
        self.released = session.runtime.event()

    def controlled_shutdown(self, broker_id, broker_epoch):
        self.asked.append((broker_id, broker_epoch))
        self.session.suspend()
        self.released.wait()
        return []


def test_hand_over_ends_when_zookeeper_goes_away(world):
    controller = WaitingController(world.session)
    try:
        assert not hand_over(world, controller)
        assert len(controller.asked) == 1
    finally:
        controller.released.set()


def test_no_hand_over_while_zookeeper_is_away(world):
    world.session.suspend()
    controller = PlayedController()
    assert not hand_over(world, controller)
    assert controller.asked == []
