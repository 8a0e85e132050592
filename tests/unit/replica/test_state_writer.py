"""What leaders write to ZooKeeper, and when."""

import json

import pytest

from tests.support.instant_session import InstantSession, new_server
from tests.support.replicas import EntryLog, PlainRuntime, ReplicaClock, decided, make_partition
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.partition_states import LeaderAndIsr, PartitionStates
from zkbroker.replica.reads import ReadEnd
from zkbroker.replica.state_writer import LeaderStateWriter

PARTITION = paths.partition("t", 0)


class World:
    def __init__(self) -> None:
        self.server = new_server()
        self.session = InstantSession(self.server)
        self.states = PartitionStates(self.session)  # type: ignore[arg-type]
        self.clock = ReplicaClock()
        self.writer = LeaderStateWriter(
            self.session,  # type: ignore[arg-type]
            self.states,
            1,
            runtime=PlainRuntime(self.clock),  # type: ignore[arg-type]
        )
        self.partition = make_partition(
            log=EntryLog(), clock=self.clock, isr_proposed=self.writer.propose
        )
        self.decide(decided(1, 5, (1, 2)))

    def decide(self, decision) -> None:
        """Store what the controller decided, and tell the broker."""
        state = LeaderAndIsr(decision.leader, decision.leader_epoch, tuple(decision.isr), 1)
        path, data = paths.partition("t", 0), state.to_json()
        if path in self.server.nodes:
            decision.zk_version = self.session.set(path, data).version
        else:
            self.session.create(path, data, parents=True)
            decision.zk_version = 0
        if decision.leader == 1:
            self.partition.become_leader(decision)
        else:
            self.partition.become_follower(decision)

    def node(self, path=PARTITION):
        return json.loads(self.session.get(path)[0])

    def fetch(self, replica_id, offset) -> None:
        end = self.partition.leadership().read(offset, 1, reader=ReadEnd.LOG_END).log_end_offset
        self.partition.leadership().record_follower_fetch(replica_id, offset, 0, end)


def test_a_changed_isr_counts_when_it_is_written():
    world = World()
    world.partition.leadership().append(b"abc")
    world.fetch(2, 3)
    world.fetch(3, 3)
    assert world.partition.leadership().isr.members == (1, 2)
    world.writer.write()
    assert world.partition.leadership().isr.members == (1, 2, 3)
    assert world.node()["isr"] == [1, 2, 3]
    assert world.node(paths.partition_state("t", 0))["isr"] == [1, 2, 3]
    assert world.writer.idle


def test_nothing_is_written_while_zookeeper_is_away(monkeypatch):
    world = World()
    asked: list[str] = []

    def wait_connected(timeout_s: float) -> bool:
        asked.append("wait")
        world.writer.close(0)
        return False

    monkeypatch.setattr(world.writer, "write", lambda: asked.append("write"))
    world.writer._loop._ready = wait_connected
    world.writer.register([world.partition.leadership()])
    world.writer._loop._run()
    assert asked == ["wait"]


def test_an_error_of_zookeeper_is_a_warning_once(monkeypatch, caplog):
    world = World()
    answers = ["away", "away", None, "away"]

    def write() -> None:
        if not answers:
            world.writer.close(0)
        elif (answer := answers.pop(0)) is not None:
            raise RegistryError(answer)
        world.writer._loop.set()

    monkeypatch.setattr(world.writer, "write", write)
    monkeypatch.setattr(world.writer._loop, "_retry_s", 0)
    caplog.set_level("DEBUG", "zkbroker.replica.state_writer")
    world.writer.register([world.partition.leadership()])
    world.writer._loop._run()
    assert [each.levelname for each in caplog.records] == ["WARNING", "DEBUG", "WARNING"]


def test_without_zookeeper_nothing_counts_and_nothing_is_forgotten():
    world = World()
    world.partition.leadership().append(b"abc")
    world.fetch(2, 3)
    world.fetch(3, 3)

    def away():
        raise RegistryError("away")

    world.session.before = away
    with pytest.raises(RegistryError):
        world.writer.write()
    assert world.partition.leadership().isr.members == (1, 2)
    world.session.before = lambda: None
    world.writer.write()
    assert world.partition.leadership().isr.members == (1, 2, 3)


def test_a_version_that_moved_is_adopted_and_the_change_made_again():
    world = World()
    world.partition.leadership().append(b"abc")
    world.fetch(2, 3)
    world.fetch(3, 3)
    path = paths.partition("t", 0)
    world.session.set(path, world.session.get(path)[0])  # somebody rewrote the same
    world.writer.write()
    assert world.partition.leadership().isr.members == (1, 2)
    world.fetch(3, 3)
    world.writer.write()
    assert world.node()["isr"] == [1, 2, 3]


def test_a_decision_of_the_controller_ends_the_leaders_changes():
    world = World()
    world.partition.leadership().append(b"abc")
    world.fetch(2, 3)
    world.fetch(3, 3)
    path = paths.partition("t", 0)
    world.session.set(path, LeaderAndIsr(2, 6, (2,), 1).to_json())
    world.writer.write()
    assert world.node()["leader"] == 2
    assert world.partition.leadership().proposed_isr() is None
    assert world.writer.idle


def test_a_change_of_the_next_leadership_is_kept_while_one_before_is_answered():
    world = World()
    world.partition.leadership().append(b"abc")
    world.fetch(2, 3)
    world.fetch(3, 3)

    def lead_again() -> None:
        """While the change is on its way another broker leads, then this one does again."""
        world.session.before = lambda: None
        world.decide(decided(2, 6, (1, 2)))
        world.decide(decided(1, 7, (1, 2)))
        world.fetch(2, 3)
        world.fetch(3, 3)
        assert world.partition.leadership().isr.proposed == (1, 2, 3)

    world.session.before = lead_again
    world.writer.write()
    assert not world.writer.idle
    world.writer.write()
    assert world.node()["isr"] == [1, 2, 3]
    assert world.partition.leadership().isr.members == (1, 2, 3)
    assert world.writer.idle


def test_a_leader_is_registered_and_goes():
    world = World()
    world.writer.register([world.partition.leadership()])
    world.writer.write()
    state = paths.partition_state("t", 0)
    assert world.node(state)["leader"] == 1
    world.writer.unregister([world.partition.key])
    world.writer.write()
    assert state not in world.server.nodes


def test_the_callback_runs_when_everything_is_written():
    world = World()
    told_idle = []
    world.writer._written = lambda: told_idle.append(world.writer.idle)
    world.writer.register([world.partition.leadership()])
    assert not world.writer.idle
    world.writer.write()
    assert told_idle == [True]


def test_a_new_session_registers_again():
    world = World()
    world.writer.register([world.partition.leadership()])
    world.writer.write()
    world.session.expire()
    state = paths.partition_state("t", 0)
    assert state not in world.server.nodes
    world.writer.register([world.partition.leadership()])
    world.writer.write()
    assert world.node(state)["leader"] == 1


def test_the_controller_is_noted_once_changes_are_quiet():
    world = World()
    world.partition.leadership().append(b"abc")
    world.fetch(2, 3)
    world.fetch(3, 3)
    world.writer.write()
    assert world.session.children(paths.ISR_CHANGES) == []
    world.clock.now += 5_000
    world.writer.write()
    (note,) = world.session.children(paths.ISR_CHANGES)
    assert world.node(f"{paths.ISR_CHANGES}/{note}") == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 0}],
    }
    world.writer.write()
    assert len(world.session.children(paths.ISR_CHANGES)) == 1


def test_a_failed_directory_is_noted():
    world = World()
    world.writer.report_failed_directory()
    world.writer.write()
    (note,) = world.session.children(paths.LOG_DIR_EVENTS)
    assert world.node(f"{paths.LOG_DIR_EVENTS}/{note}")["broker"] == 1
