"""When a starting broker is ready."""

from types import SimpleNamespace

import pytest

from tests.unit.broker.test_view import topics
from zkbroker.broker.readiness import Readiness
from zkbroker.broker.view import ClusterView
from zkbroker.protocol.messages.update_metadata import UpdateMetadataPartition
from zkbroker.registry.brokers import BrokerInfo


class FakeReplicas:
    """The replica manager of broker 1."""

    def __init__(self):
        self.partitions = {}
        self.roles = SimpleNamespace(caught_up=False)
        self.listeners = []

    def on_change(self, function):
        self.listeners.append(function)
        return lambda: self.listeners.remove(function)

    def get(self, topic, number):
        return self.partitions.get((topic, number))

    def begin(self, number, *, leads):
        self.partitions["t", number] = SimpleNamespace(leading=object() if leads else None)
        for listener in self.listeners:
            listener()


@pytest.fixture
def parts():
    view, replicas = ClusterView(BrokerInfo(1, "a", 1)), FakeReplicas()
    writer = SimpleNamespace(idle=True)
    view.set_topics(topics({"t": {0: (1, 2), 1: (2, 1), 2: (2, 3)}}))
    return view, replicas, writer, Readiness(1, view, replicas, writer)


def decide(view, number):
    view._decided["t", number] = UpdateMetadataPartition("t", number, 1, 1, 0, [1], 0, [1])


def test_broker_is_ready_when_every_step_is_done(parts):
    view, replicas, writer, readiness = parts
    replicas.begin(0, leads=True)
    replicas.begin(1, leads=False)
    decide(view, 0)
    assert not readiness.reached(), "LeaderAndIsr is still being handled"
    replicas.roles.caught_up = True
    assert readiness.reached()
    writer.idle = False
    assert not readiness.reached(), "its state nodes are not written yet"


@pytest.mark.parametrize("missing", [0, 1])
def test_broker_waits_for_partitions_without_a_role(parts, missing):
    view, replicas, _, readiness = parts
    replicas.roles.caught_up = True
    replicas.begin(1 - missing, leads=True)
    decide(view, 1 - missing)
    assert not readiness.reached()


def test_led_partition_must_be_known_from_metadata(parts):
    _, replicas, _, readiness = parts
    replicas.roles.caught_up = True
    replicas.begin(0, leads=True)
    replicas.begin(1, leads=False)
    assert not readiness.reached()


def test_broker_without_partitions_is_ready_at_once(parts):
    view, _, _, readiness = parts
    view.set_topics(topics({}))
    assert readiness.reached()


def test_partitions_being_deleted_are_not_waited_for(parts):
    view, _, _, readiness = parts
    view.set_topics(topics(view.topics.assignments, deleting={"t"}))
    assert readiness.reached()


def test_wait_goes_on_while_there_is_progress(parts):
    view, replicas, _, readiness = parts
    decide(view, 0)
    waits = []

    def wait_for(condition, still_s):
        """During each wait one more role begins."""
        waits.append(still_s)
        if condition():
            return True
        if len(replicas.partitions) < 2:
            number = len(replicas.partitions)
            replicas.begin(number, leads=number == 0)
        else:
            replicas.roles.caught_up = True
        return condition()

    view.wait_for = wait_for
    assert readiness.wait(still_s=60.0)
    assert waits == [60.0] * 3
    assert not replicas.listeners, "no listener is left after the start"


def test_wait_ends_without_progress(parts):
    *_, readiness = parts
    assert not readiness.wait(still_s=0.01)
