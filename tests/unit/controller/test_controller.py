"""A broker's controller on a virtual clock: election, requests, failures, metrics."""

import pytest

from tests.support.simulated_brokers import ControllerSimulation
from tests.support.simulated_time import SimRuntime
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.registry import paths, topics
from zkbroker.registry.controller_election import ControllerElection
from zkbroker.registry.notifications import note_isr_changes
from zkbroker.registry.state_form import StateForm
from zkbroker.zookeeper import ConnectionLost

T0 = ("t", 0)


@pytest.fixture
def simulation():
    simulation = ControllerSimulation(1, 3, StateForm.EPHEMERAL)
    simulation.server.create(paths.topic("t"), topics.encode_assignment({0: [0, 1], 1: [1, 2]}))
    assert simulation.run(10.0, lambda: ready(simulation))
    simulation.run(1.0)
    return simulation


def ready(simulation):
    return len(simulation.controllers()) == 1 and all(
        len(broker.metadata) == 2 for broker in simulation.brokers.values()
    )


def controller_of(simulation):
    return simulation.brokers[simulation.controllers()[0]]


def call(simulation, broker, method):
    """Call a method of a broker's controller in a task, and return the result or the error."""
    found = []

    def run():
        try:
            found.append(method(broker.controller))
        except ProtocolError as error:
            found.append(error)

    broker.runtime.spawn(run, name="call")
    assert simulation.run(60.0, lambda: bool(found))
    return found[0]


def test_controller_metrics_of_active_and_other_brokers(simulation):
    broker = controller_of(simulation)
    figures = broker.controller.metrics()
    assert (figures.active, figures.topics, figures.partitions) == (1, 1, 2)
    assert figures.offline_partitions == figures.preferred_replica_imbalance == 0
    assert figures.queued_requests == dict.fromkeys(range(3), 0)
    others = [each for each in simulation.brokers.values() if each is not broker]
    assert all(each.controller.metrics().active == 0 for each in others)


def test_controller_metrics_count_elections_and_imbalance(simulation):
    broker = controller_of(simulation)
    victim = next(b for b in simulation.brokers.values() if b is not broker and b.led_partitions())
    led = len(victim.led_partitions())
    victim.kill()
    simulation.run(15.0)
    figures = broker.controller.metrics()
    assert figures.leader_elections == led
    assert figures.preferred_replica_imbalance == led
    assert figures.unclean_leader_elections == 0


def test_requests_to_inactive_controller_are_refused(simulation):
    other = next(b for b in simulation.brokers.values() if b is not controller_of(simulation))
    refused = call(simulation, other, lambda controller: controller.controlled_shutdown(0))
    assert refused.code == ErrorCode.STALE_CONTROLLER_EPOCH
    refused = call(simulation, other, lambda controller: controller.elect_preferred())
    assert refused.code == ErrorCode.NOT_CONTROLLER


def test_failed_start_leaves_no_second_task(simulation, monkeypatch):
    stand, spawn = ControllerElection.start, SimRuntime.spawn
    failures, tasks = [ConnectionLost("once")], []

    def start(self):
        if failures:
            raise failures.pop()
        stand(self)

    def noted(self, *args, name):
        tasks.append(name)
        return spawn(self, *args, name=name)

    monkeypatch.setattr(ControllerElection, "start", start)
    monkeypatch.setattr(SimRuntime, "spawn", noted)
    victim = simulation.brokers[1]
    victim.kill()
    simulation.run(15.0)
    victim.start()
    simulation.run(10.0)
    assert ready(simulation)
    assert tasks.count("controller") == 1


def test_results_and_errors_reach_the_caller(simulation):
    broker = controller_of(simulation)
    assert call(simulation, broker, lambda controller: controller.controlled_shutdown(1)) == []
    refused = call(simulation, broker, lambda controller: controller.controlled_shutdown(77))
    assert refused.code == ErrorCode.BROKER_NOT_AVAILABLE
    codes = call(simulation, broker, lambda controller: controller.elect_preferred([T0, ("x", 0)]))
    assert codes[T0] == ErrorCode.NONE
    assert codes["x", 0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.controller.active, "a refused request does not end the term"


def test_request_to_blocked_controller_times_out(simulation):
    broker = controller_of(simulation)
    broker.session.break_link(30.0)
    simulation.server.create(paths.topic("u"), topics.encode_assignment({0: [0]}))
    refused = call(
        simulation, broker, lambda controller: controller.controlled_shutdown(1, timeout_s=0.0)
    )
    assert refused.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_CONTROLLER_EPOCH)


def test_failed_term_restarts_and_resends_everything(simulation):
    broker = controller_of(simulation)
    write, failures = broker.states.write, [ConnectionLost("stored, but the answer was lost")]

    def write_and_fail(decisions, epoch_version):
        stored = write(decisions, epoch_version)
        if decisions and failures:
            raise failures.pop()
        return stored

    broker.states.write = write_and_fail
    simulation.server.create(paths.topic("u"), topics.encode_assignment({0: [0, 1, 2]}))
    assert simulation.run(
        30.0, lambda: all(("u", 0) in b.partitions for b in simulation.brokers.values())
    )
    assert not failures
    assert simulation.controllers() == [broker.number]
    assert simulation.brokers[1].partitions["u", 0].leader_epoch == 0


def test_repeated_failure_is_logged_as_warning_once(simulation, monkeypatch, caplog):
    broker = controller_of(simulation)
    read, away = broker.states.read, [True]

    def fail(keys):
        if away:
            raise ConnectionLost("ZooKeeper is away")
        return read(keys)

    monkeypatch.setattr(broker.states, "read", fail)

    def failures():
        return [
            each for each in caplog.records if each.getMessage().startswith("controller failed")
        ]

    caplog.set_level("DEBUG", "zkbroker.controller.controller")
    for number in range(2):
        simulation.server.create(paths.topic(f"u{number}"), topics.encode_assignment({0: [0]}))
        assert simulation.run(60.0, lambda: len(failures()) >= 4)
        assert [each.levelname for each in failures()[:4]] == ["WARNING", "DEBUG", "DEBUG", "DEBUG"]
        away.clear()
        assert simulation.run(
            60.0, lambda n=number: (f"u{n}", 0) in simulation.brokers[0].partitions
        )
        # After a success the next failure is a warning again.
        caplog.clear()
        away.append(True)


def test_controller_refused_as_deposed_is_reelected_with_higher_epoch(simulation):
    broker = controller_of(simulation)
    epoch = int(simulation.server.get(paths.CONTROLLER_EPOCH)[0])
    other = next(b for b in simulation.brokers.values() if b is not broker)
    other.controller_epoch = epoch + 2  # for example from another ZooKeeper tree
    simulation.server.create(paths.topic("u"), topics.encode_assignment({0: [other.number]}))
    assert simulation.run(60.0, lambda: ("u", 0) in other.partitions)
    assert int(simulation.server.get(paths.CONTROLLER_EPOCH)[0]) >= epoch + 2


def test_deletion_of_controller_znode_elects_next_controller(simulation):
    epoch = int(simulation.server.get(paths.CONTROLLER_EPOCH)[0])
    simulation.server.delete(paths.CONTROLLER)
    assert simulation.run(
        30.0, lambda: int(simulation.server.get(paths.CONTROLLER_EPOCH)[0]) == epoch + 1
    )
    assert simulation.run(30.0, lambda: len(simulation.controllers()) == 1)


def test_preferred_leader_is_elected_automatically(simulation):
    broker = controller_of(simulation)
    victim = next(b for b in simulation.brokers.values() if b is not broker and b.led_partitions())
    key = victim.led_partitions()[0]
    victim.kill()
    simulation.run(15.0)
    leader = next(b for b in simulation.brokers.values() if b.alive and key in b.led_partitions())
    victim.start()
    simulation.run(5.0)
    leader.change_isr(key, 1.0)
    leader.runtime.spawn(lambda: note_isr_changes(leader.session, [key]), name="note")
    assert simulation.run(400.0, lambda: key in victim.led_partitions()), (
        "within leader.imbalance.check.interval"
    )


def test_closed_controller_is_succeeded_by_another_broker(simulation):
    broker = controller_of(simulation)
    closed = []

    def close():
        broker.controller.close(5.0)
        closed.append(True)

    broker.runtime.spawn(close, name="close")
    assert simulation.run(30.0, lambda: bool(closed))
    assert simulation.run(30.0, lambda: simulation.controllers() not in ([], [broker.number]))


def test_refused_request_is_repeated_until_accepted(simulation):
    victim = next(b for b in simulation.brokers.values() if b is not controller_of(simulation))
    fence, until = victim._fence, simulation.clock.now + 5.0
    victim._fence = lambda request: -1 if simulation.clock.now < until else fence(request)
    simulation.server.create(paths.topic("u"), topics.encode_assignment({0: [0, 1, 2]}))
    simulation.run(4.0)
    assert ("u", 0) not in victim.partitions
    assert simulation.run(
        10.0, lambda: ("u", 0) in victim.partitions and ("u", 0) in victim.metadata
    )


@pytest.mark.parametrize("with_epoch", [True, False])
def test_queued_shutdown_of_restarted_broker_is_refused(simulation, with_epoch):
    broker = controller_of(simulation)
    controller = broker.controller
    victim = next(b for b in simulation.brokers.values() if b is not broker)
    epoch = victim.epoch if with_epoch else -1
    answers = []

    def shut_down():
        try:
            answers.append(controller.controlled_shutdown(victim.number, epoch, 100.0))
        except ProtocolError as error:
            answers.append(error.code)

    def keep_busy():
        controller._call(lambda term: broker.runtime.sleep(40.0), ErrorCode.NOT_CONTROLLER, 100.0)

    broker.runtime.spawn(keep_busy, name="busy")
    simulation.run(1.0)
    broker.runtime.spawn(shut_down, name="call")
    simulation.run(1.0)
    victim.kill()
    simulation.run(15.0)
    victim.start()
    assert simulation.run(60.0, lambda: bool(answers))
    assert answers == [ErrorCode.STALE_BROKER_EPOCH]
    assert controller._term.context.may_lead(victim.number)
