"""The controller of a broker: stands, works, is asked, begins anew; on a virtual clock."""

import pytest

from tests.support.simulated_brokers import World
from tests.support.simulated_time import SimRuntime
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.registry import paths, topics
from zkbroker.registry.controller_election import ControllerElection
from zkbroker.registry.notifications import note_isr_changes
from zkbroker.registry.state_form import StateForm
from zkbroker.zookeeper import ConnectionLost

T0 = ("t", 0)


@pytest.fixture
def world():
    world = World(1, 3, StateForm.EPHEMERAL)
    world.server.create(paths.topic("t"), topics.encode_assignment({0: [0, 1], 1: [1, 2]}))
    assert world.run(10.0, lambda: ready(world))
    world.run(1.0)
    return world


def ready(world):
    return len(world.controllers()) == 1 and all(
        len(broker.metadata) == 2 for broker in world.brokers.values()
    )


def controller_of(world):
    return world.brokers[world.controllers()[0]]


def ask(world, broker, question):
    """Ask in a task of a broker's, and return the answer or the error."""
    found = []

    def run():
        try:
            found.append(question(broker.controller))
        except ProtocolError as error:
            found.append(error)

    broker.runtime.spawn(run, name="ask")
    assert world.run(60.0, lambda: bool(found))
    return found[0]


def test_one_broker_is_the_controller_and_says_so(world):
    broker = controller_of(world)
    figures = broker.controller.metrics()
    assert (figures.active, figures.topics, figures.partitions) == (1, 1, 2)
    assert figures.offline_partitions == figures.preferred_replica_imbalance == 0
    assert figures.queued_requests == dict.fromkeys(range(3), 0)
    others = [each for each in world.brokers.values() if each is not broker]
    assert all(each.controller.metrics().active == 0 for each in others)


def test_figures_follow_what_happens(world):
    broker = controller_of(world)
    victim = next(b for b in world.brokers.values() if b is not broker and b.led())
    led = len(victim.led())
    victim.kill()
    world.run(15.0)
    figures = broker.controller.metrics()
    assert figures.leader_elections == led
    assert figures.preferred_replica_imbalance == led
    assert figures.unclean_leader_elections == 0


def test_only_the_controller_is_to_be_asked(world):
    other = next(b for b in world.brokers.values() if b is not controller_of(world))
    refused = ask(world, other, lambda controller: controller.controlled_shutdown(0))
    assert refused.code == ErrorCode.STALE_CONTROLLER_EPOCH
    refused = ask(world, other, lambda controller: controller.elect_preferred())
    assert refused.code == ErrorCode.NOT_CONTROLLER


def test_a_start_that_failed_leaves_nothing_behind(world, monkeypatch):
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
    victim = world.brokers[1]
    victim.kill()
    world.run(15.0)
    victim.start()
    world.run(10.0)
    assert ready(world)
    assert tasks.count("controller") == 1


def test_answers_and_refusals_reach_the_caller(world):
    broker = controller_of(world)
    assert ask(world, broker, lambda controller: controller.controlled_shutdown(1)) == []
    refused = ask(world, broker, lambda controller: controller.controlled_shutdown(77))
    assert refused.code == ErrorCode.BROKER_NOT_AVAILABLE
    codes = ask(world, broker, lambda controller: controller.elect_preferred([T0, ("x", 0)]))
    assert codes[T0] == ErrorCode.NONE
    assert codes["x", 0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.controller.active, "a refusal is no failure of the controller"


def test_a_request_while_the_controller_is_stuck_times_out_with_the_reason(world):
    broker = controller_of(world)
    broker.session.break_link(30.0)
    world.server.create(paths.topic("u"), topics.encode_assignment({0: [0]}))
    refused = ask(
        world, broker, lambda controller: controller.controlled_shutdown(1, timeout_s=0.0)
    )
    assert refused.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_CONTROLLER_EPOCH)


def test_a_failed_term_begins_again_and_sends_everything(world):
    broker = controller_of(world)
    write, failures = broker.states.write, [ConnectionLost("stored, and nobody was told")]

    def write_and_fail(decisions, epoch_version):
        stored = write(decisions, epoch_version)
        if decisions and failures:
            raise failures.pop()
        return stored

    broker.states.write = write_and_fail
    world.server.create(paths.topic("u"), topics.encode_assignment({0: [0, 1, 2]}))
    assert world.run(30.0, lambda: all(("u", 0) in b.partitions for b in world.brokers.values()))
    assert not failures
    assert world.controllers() == [broker.number]
    assert world.brokers[1].partitions["u", 0].leader_epoch == 0


def test_a_repeated_failure_is_logged_once(world, monkeypatch, caplog):
    broker = controller_of(world)
    read, away = broker.states.read, [True]

    def fail(keys):
        if away:
            raise ConnectionLost("ZooKeeper is away")
        return read(keys)

    monkeypatch.setattr(broker.states, "read", fail)

    def told():
        return [
            each for each in caplog.records if each.getMessage().startswith("controller failed")
        ]

    caplog.set_level("DEBUG", "zkbroker.controller.controller")
    for number in range(2):
        world.server.create(paths.topic(f"u{number}"), topics.encode_assignment({0: [0]}))
        assert world.run(60.0, lambda: len(told()) >= 4)
        assert [each.levelname for each in told()[:4]] == ["WARNING", "DEBUG", "DEBUG", "DEBUG"]
        away.clear()
        assert world.run(60.0, lambda n=number: (f"u{n}", 0) in world.brokers[0].partitions)
        # It went well meanwhile: the next time it is news again.
        caplog.clear()
        away.append(True)


def test_a_controller_that_a_broker_calls_deposed_stands_again_with_a_higher_epoch(world):
    broker = controller_of(world)
    epoch = int(world.server.get(paths.CONTROLLER_EPOCH)[0])
    other = next(b for b in world.brokers.values() if b is not broker)
    other.controller_epoch = epoch + 2  # as of a life in another tree
    world.server.create(paths.topic("u"), topics.encode_assignment({0: [other.number]}))
    assert world.run(60.0, lambda: ("u", 0) in other.partitions)
    assert int(world.server.get(paths.CONTROLLER_EPOCH)[0]) >= epoch + 2


def test_a_controller_that_is_removed_by_hand_is_followed_by_the_next(world):
    epoch = int(world.server.get(paths.CONTROLLER_EPOCH)[0])
    world.server.delete(paths.CONTROLLER)
    assert world.run(30.0, lambda: int(world.server.get(paths.CONTROLLER_EPOCH)[0]) == epoch + 1)
    assert world.run(30.0, lambda: len(world.controllers()) == 1)


def test_preferred_leaders_come_back_by_themselves(world):
    broker = controller_of(world)
    victim = next(b for b in world.brokers.values() if b is not broker and b.led())
    key = victim.led()[0]
    victim.kill()
    world.run(15.0)
    leader = next(b for b in world.brokers.values() if b.alive and key in b.led())
    victim.start()
    world.run(5.0)
    leader.change_isr(key, 1.0)
    leader.runtime.spawn(lambda: note_isr_changes(leader.session, [key]), name="note")
    assert world.run(400.0, lambda: key in victim.led()), "within leader.imbalance.check.interval"


def test_a_controller_that_closes_leaves_the_office_to_others(world):
    broker = controller_of(world)
    closed = []

    def close():
        broker.controller.close(5.0)
        closed.append(True)

    broker.runtime.spawn(close, name="close")
    assert world.run(30.0, lambda: bool(closed))
    assert world.run(30.0, lambda: world.controllers() not in ([], [broker.number]))


def test_a_refused_request_is_repeated_until_the_broker_accepts(world):
    victim = next(b for b in world.brokers.values() if b is not controller_of(world))
    fence, until = victim._fence, world.clock.now + 5.0
    victim._fence = lambda request: -1 if world.clock.now < until else fence(request)
    world.server.create(paths.topic("u"), topics.encode_assignment({0: [0, 1, 2]}))
    world.run(4.0)
    assert ("u", 0) not in victim.partitions
    assert world.run(10.0, lambda: ("u", 0) in victim.partitions and ("u", 0) in victim.metadata)


@pytest.mark.parametrize("says_its_epoch", [True, False])
def test_a_shutdown_whose_turn_comes_after_a_restart_is_of_the_past(world, says_its_epoch):
    broker = controller_of(world)
    controller = broker.controller
    victim = next(b for b in world.brokers.values() if b is not broker)
    epoch = victim.epoch if says_its_epoch else -1
    answers = []

    def shut_down():
        try:
            answers.append(controller.controlled_shutdown(victim.number, epoch, 100.0))
        except ProtocolError as error:
            answers.append(error.code)

    def keep_busy():
        controller._call(lambda term: broker.runtime.sleep(40.0), ErrorCode.NOT_CONTROLLER, 100.0)

    broker.runtime.spawn(keep_busy, name="busy")
    world.run(1.0)
    broker.runtime.spawn(shut_down, name="ask")
    world.run(1.0)
    victim.kill()
    world.run(15.0)
    victim.start()
    assert world.run(60.0, lambda: bool(answers))
    assert answers == [ErrorCode.STALE_BROKER_EPOCH]
    assert controller._term.context.may_lead(victim.number)
