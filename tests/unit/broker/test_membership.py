"""A broker registers in the cluster, hands over its leaderships, and deregisters."""

from types import SimpleNamespace

import pytest

from tests.support.instant_session import InstantSession
from tests.unit.broker.test_view import topics
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
from zkbroker.zookeeper import SessionState

OWN = BrokerInfo(1, "10.0.0.1", 9092)


class FakeController:
    """The elected controller; returns or raises the given results in turn."""

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
def broker(tmp_path):
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


def test_broker_epoch_is_the_zxid_of_the_registration(broker):
    broker.membership.start()
    stat = broker.session.exists(paths.broker(1))
    assert broker.membership.broker_epoch == stat.czxid
    assert broker.registered == [1]
    broker.membership.deregister(1.0)


def test_broker_epoch_is_read_again_only_for_a_later_one(broker):
    broker.membership.start()
    epoch = broker.membership.broker_epoch
    broker.membership.broker_epoch = epoch - 1
    broker.membership.learn_epoch(epoch - 2)
    assert broker.membership.broker_epoch == epoch - 1
    broker.membership.learn_epoch(epoch)
    assert broker.membership.broker_epoch == epoch
    broker.membership.deregister(1.0)


def hand_over(broker, controller, others=(2,)):
    broker.view.set_brokers({each: BrokerInfo(each, "b", each) for each in others})
    return broker.membership.hand_over(controller, [(1, 2)])


def test_controlled_shutdown_hands_leaderships_over(broker):
    controller = FakeController([])
    assert hand_over(broker, controller)
    assert controller.asked == [(1, -1)]


def test_controlled_shutdown_is_retried_a_bounded_number_of_times(broker):
    refused = ProtocolError("not the controller", code=ErrorCode.STALE_CONTROLLER_EPOCH)
    assert hand_over(broker, FakeController([("t", 0)], refused, []))
    controller = FakeController(*[[("t", 0)]] * 5)
    assert not hand_over(broker, controller)
    assert len(controller.asked) == 3


def test_no_hand_over_without_other_replicas(broker):
    controller = FakeController()
    assert hand_over(broker, controller, others=(7,))
    assert controller.asked == []


@pytest.mark.parametrize("last", [True, False])
def test_last_broker_leaves_a_persistent_state_node(broker, last):
    declare_form(broker.session, StateForm.EPHEMERAL, 1)
    broker.membership.start()
    create_topic(broker.session, "t", {0: (1,)})
    broker.session.create(paths.CONTROLLER_EPOCH, b"1")
    state = LeaderAndIsr(1, 4, (1,), 1)
    stored = broker.states.write({("t", 0): state}, 0)
    broker.states.register_leader(stored)
    broker.view.set_topics(topics({"t": {0: (1,)}}))
    if not last:
        other = BrokerInfo(2, "b", 2)
        broker.session.create(paths.broker(2), other.to_json(), ephemeral=True)
    broker.states.unregister_leader([("t", 0)])
    broker.membership.deregister(1.0)
    left = broker.session.exists(paths.partition_state("t", 0))
    assert (left is not None) is last
    if left is not None:
        assert left.ephemeral_owner == 0


@pytest.mark.parametrize(
    ("stored", "asked", "answer"),
    [(b"4", 4, True), (b"4", 3, True), (b"4", 5, False), (b"garbage", 5, None), (None, 1, False)],
)
def test_controller_epoch_is_compared_with_the_stored_one(broker, stored, asked, answer):
    if stored is not None:
        broker.session.create(paths.CONTROLLER_EPOCH, stored)
    assert broker.membership.was_elected(asked) is answer


def test_session_is_over_after_its_timeout_without_zookeeper(broker, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(
        broker.session.runtime, "clock_ms", lambda: int(now[0] * 1000), raising=False
    )
    membership = broker.membership
    membership.note_session(SessionState.SUSPENDED)
    now[0] += 5.9
    assert not membership.session_over()
    membership.note_session(SessionState.LOST)
    now[0] += 0.2
    assert membership.session_over()
    membership.note_session(SessionState.CONNECTED)
    assert not membership.session_over()


class BlockingController(FakeController):
    """Suspends the session when it is called, and returns after its release."""

    def __init__(self, session):
        super().__init__()
        self.session = session
        self.released = session.runtime.event()

    def controlled_shutdown(self, broker_id, broker_epoch):
        self.asked.append((broker_id, broker_epoch))
        self.session.suspend()
        self.released.wait()
        return []


def test_hand_over_ends_when_zookeeper_goes_away(broker):
    controller = BlockingController(broker.session)
    try:
        assert not hand_over(broker, controller)
        assert len(controller.asked) == 1
    finally:
        controller.released.set()


def test_no_hand_over_while_zookeeper_is_away(broker):
    broker.session.suspend()
    controller = FakeController()
    assert not hand_over(broker, controller)
    assert controller.asked == []
