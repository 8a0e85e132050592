"""Writes of a leader's ISRs, registrations and notifications to ZooKeeper."""

import json

import pytest

from tests.support.clocks import Clock
from tests.support.instant_session import InstantSession, new_server
from tests.support.leading import fetch
from tests.support.replicas import EntryLog, PlainRuntime, decided, make_partition
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.partition_states import LeaderAndIsr, PartitionStates
from zkbroker.replica import state_writer
from zkbroker.replica.state_writer import LeaderStateWriter

PARTITION = paths.partition("t", 0)
STATE = paths.partition_state("t", 0)


class LeaderWithWriter:
    """A partition that broker 1 leads, with its state writer."""

    def __init__(self) -> None:
        self.server = new_server()
        self.session = InstantSession(self.server)
        self.states = PartitionStates(self.session)  # type: ignore[arg-type]
        self.clock = Clock()
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
        """Store a controller's decision, and apply it to the partition."""
        state = LeaderAndIsr(decision.leader, decision.leader_epoch, tuple(decision.isr), 1)
        if PARTITION in self.server.nodes:
            decision.zk_version = self.session.set(PARTITION, state.to_json()).version
        else:
            self.session.create(PARTITION, state.to_json(), parents=True)
            decision.zk_version = 0
        if decision.leader == 1:
            self.partition.become_leader(decision)
        else:
            self.partition.become_follower(decision)

    def node(self, path=PARTITION):
        return json.loads(self.session.get(path)[0])

    def propose_broker_3(self) -> None:
        """Append, and let both followers catch up: the ISR of 1 and 2 is to grow."""
        self.partition.leadership().append(b"abc")
        fetch(self.partition, 2, 3)
        fetch(self.partition, 3, 3)


def test_isr_change_takes_effect_when_written():
    leader = LeaderWithWriter()
    leader.propose_broker_3()
    assert leader.partition.leadership().isr.members == (1, 2)
    leader.writer.write()
    assert leader.partition.leadership().isr.members == (1, 2, 3)
    assert leader.node()["isr"] == [1, 2, 3]
    assert leader.node(STATE)["isr"] == [1, 2, 3]
    assert leader.writer.idle


def test_writer_waits_for_zookeeper_connection(monkeypatch):
    leader = LeaderWithWriter()
    calls: list[str] = []

    def wait_connected(timeout_s: float) -> bool:
        calls.append("wait")
        leader.writer.close(0)
        return False

    monkeypatch.setattr(leader.writer, "write", lambda: calls.append("write"))
    leader.writer._loop._ready = wait_connected
    leader.writer.register([leader.partition.leadership()])
    leader.writer._loop._run()
    assert calls == ["wait"]


def test_repeated_zookeeper_error_is_logged_as_warning_once(monkeypatch, caplog):
    leader = LeaderWithWriter()
    answers = ["away", "away", None, "away"]

    def write() -> None:
        if not answers:
            leader.writer.close(0)
        elif (answer := answers.pop(0)) is not None:
            raise RegistryError(answer)
        leader.writer._loop.set()

    monkeypatch.setattr(leader.writer, "write", write)
    monkeypatch.setattr(leader.writer._loop, "_retry_s", 0)
    caplog.set_level("DEBUG", "zkbroker.replica.state_writer")
    leader.writer.register([leader.partition.leadership()])
    leader.writer._loop._run()
    assert [each.levelname for each in caplog.records] == ["WARNING", "DEBUG", "WARNING"]


def test_isr_change_waits_for_zookeeper():
    leader = LeaderWithWriter()
    leader.propose_broker_3()

    def away():
        raise RegistryError("away")

    leader.session.before = away
    with pytest.raises(RegistryError):
        leader.writer.write()
    assert leader.partition.leadership().isr.members == (1, 2)
    leader.session.before = lambda: None
    leader.writer.write()
    assert leader.partition.leadership().isr.members == (1, 2, 3)


def test_version_conflict_is_adopted_and_change_repeated():
    leader = LeaderWithWriter()
    leader.propose_broker_3()
    leader.session.set(PARTITION, leader.session.get(PARTITION)[0])  # the same state, stored again
    leader.writer.write()
    assert leader.partition.leadership().isr.members == (1, 2)
    fetch(leader.partition, 3, 3)
    leader.writer.write()
    assert leader.node()["isr"] == [1, 2, 3]


def test_newer_controller_decision_ends_isr_changes():
    leader = LeaderWithWriter()
    leader.propose_broker_3()
    leader.session.set(PARTITION, LeaderAndIsr(2, 6, (2,), 1).to_json())
    leader.writer.write()
    assert leader.node()["leader"] == 2
    assert leader.partition.leadership().proposed_isr() is None
    assert leader.writer.idle


def test_change_of_next_leadership_survives_answer_to_earlier_one():
    leader = LeaderWithWriter()
    leader.propose_broker_3()

    def lead_again() -> None:
        """Let another broker lead, and then this one again, during the write."""
        leader.session.before = lambda: None
        leader.decide(decided(2, 6, (1, 2)))
        leader.decide(decided(1, 7, (1, 2)))
        fetch(leader.partition, 2, 3)
        fetch(leader.partition, 3, 3)
        assert leader.partition.leadership().isr.proposed == (1, 2, 3)

    leader.session.before = lead_again
    leader.writer.write()
    assert not leader.writer.idle
    leader.writer.write()
    assert leader.node()["isr"] == [1, 2, 3]
    assert leader.partition.leadership().isr.members == (1, 2, 3)
    assert leader.writer.idle


def test_leader_is_registered_and_unregistered():
    leader = LeaderWithWriter()
    leader.writer.register([leader.partition.leadership()])
    leader.writer.write()
    assert leader.node(STATE)["leader"] == 1
    leader.writer.unregister([leader.partition.key])
    leader.writer.write()
    assert STATE not in leader.server.nodes


def test_callback_runs_after_last_write():
    leader = LeaderWithWriter()
    idle_in_callback = []
    leader.writer._written = lambda: idle_in_callback.append(leader.writer.idle)
    leader.writer.register([leader.partition.leadership()])
    assert not leader.writer.idle
    leader.writer.write()
    assert idle_in_callback == [True]


def test_leader_is_registered_again_in_new_session():
    leader = LeaderWithWriter()
    leader.writer.register([leader.partition.leadership()])
    leader.writer.write()
    leader.session.expire()
    assert STATE not in leader.server.nodes
    leader.writer.register([leader.partition.leadership()])
    leader.writer.write()
    assert leader.node(STATE)["leader"] == 1


def test_controller_is_notified_after_quiet_time():
    leader = LeaderWithWriter()
    leader.propose_broker_3()
    leader.writer.write()
    assert leader.session.children(paths.ISR_CHANGES) == []
    leader.clock.now += 5_000
    leader.writer.write()
    (note,) = leader.session.children(paths.ISR_CHANGES)
    assert leader.node(f"{paths.ISR_CHANGES}/{note}") == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 0}],
    }
    leader.writer.write()
    assert len(leader.session.children(paths.ISR_CHANGES)) == 1


def test_failed_directory_is_notified():
    leader = LeaderWithWriter()
    leader.writer.report_failed_directory()
    leader.writer.write()
    (note,) = leader.session.children(paths.LOG_DIR_EVENTS)
    assert leader.node(f"{paths.LOG_DIR_EVENTS}/{note}")["broker"] == 1


def test_directory_that_fails_during_a_notification_is_notified(monkeypatch):
    leader, noted = LeaderWithWriter(), []

    def note(session, broker):
        assert not leader.writer.idle
        if not noted:
            leader.writer.report_failed_directory()
        noted.append(broker)

    monkeypatch.setattr(state_writer, "note_log_dir_failure", note)
    leader.writer.report_failed_directory()
    leader.writer.write()
    leader.writer.write()
    assert noted == [1, 1]
    assert leader.writer.idle
