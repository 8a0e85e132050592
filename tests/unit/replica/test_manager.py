"""A broker's reactions to LeaderAndIsr and StopReplica, with the codes of genuine brokers."""

from functools import partial
from typing import Any

import pytest

from tests.support.logs import EagerRuntime
from tests.support.replicas import EntryLog, decided
from zkbroker.errors import RegistryError, StorageError
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import LeaderAndIsrRequest, StopReplicaRequest
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.protocol.messages.stop_replica import StopReplicaPartition
from zkbroker.replica import role_changes
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.leadership import LeaderSettings
from zkbroker.replica.manager import ReplicaManager

T0 = TopicPartition("t", 0)


class PlayedLogs:
    """The part of `LogManager` that the manager uses, with logs in memory."""

    def __init__(self) -> None:
        self.held: dict[TopicPartition, EntryLog] = {}
        self.made: list[tuple[TopicPartition, Any, bool]] = []
        self.deleted: list[TopicPartition] = []
        self.broken: set[TopicPartition] = set()
        self.marks: dict[TopicPartition, int] = {}
        self.offline: Any = None

    def logs(self) -> dict[TopicPartition, EntryLog]:
        return dict(self.held)

    def get(self, key: TopicPartition) -> EntryLog | None:
        return self.held.get(key)

    def get_or_create(self, key: TopicPartition, settings: Any, *, is_new: bool) -> EntryLog:
        if key in self.broken:
            raise StorageError("its directory cannot be read")
        if key not in self.held:
            self.made.append((key, settings, is_new))
            self.held[key] = EntryLog()
        return self.held[key]

    def delete(self, key: TopicPartition) -> None:
        if key in self.broken:
            raise StorageError("its directory cannot be read")
        self.deleted.append(key)
        self.held.pop(key, None)

    def checkpointed_high_watermarks(self) -> dict[TopicPartition, int]:
        return dict(self.marks)

    def use_high_watermarks(self, read: Any) -> None:
        self.read_marks = read

    def on_offline(self, callback: Any) -> None:
        self.offline = callback


class RecordedCalls:
    """Replaces the state writer and the fetchers, and records their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Any]]] = []

    def register(self, partitions: Any) -> None:
        self._record("register", [each.key for each in partitions])

    def unregister(self, keys: Any) -> None:
        self._record("unregister", list(keys))

    def follow(self, partitions: Any) -> None:
        self._record("follow", [(each.key, each.leader) for each in partitions])

    def forget(self, keys: Any) -> None:
        self._record("forget", list(keys))

    def report_failed_directory(self) -> None:
        self._record("failed", [1])

    def propose(self, partition: Any) -> None:
        self._record("propose", [partition.key])

    def _record(self, name: str, arguments: list[Any]) -> None:
        if arguments:
            self.calls.append((name, arguments))

    def of(self, name: str) -> list[Any]:
        return [each for called, arguments in self.calls if called == name for each in arguments]


class PlayedManager:
    """A manager of broker 1 over played logs, and the requests of its controller."""

    def __init__(self, logs: PlayedLogs | None = None, settings: Any = None) -> None:
        self.logs = logs or PlayedLogs()
        self.calls = RecordedCalls()
        self.manager = ReplicaManager(
            1,
            self.logs,  # type: ignore[arg-type]
            self.calls,  # type: ignore[arg-type]
            ControllerFence(lambda: 50),
            settings or (lambda topics: {topic: {"a": "b"} for topic in topics}),
            runtime=EagerRuntime(),
            settings=LeaderSettings(isr_proposed=self.calls.propose),
            fetchers=self.calls,  # type: ignore[arg-type]
        )

    def leader_and_isr(
        self, *states: LeaderAndIsrPartition, epoch: int = 1, broker_epoch: int = -1
    ) -> Any:
        request = LeaderAndIsrRequest(
            controller_id=0,
            controller_epoch=epoch,
            broker_epoch=broker_epoch,
            partition_states=list(states),
        )
        return self.manager.roles.leader_and_isr(request)

    def stop(self, *keys: TopicPartition, delete: bool, epoch: int = 1) -> Any:
        request = StopReplicaRequest(
            controller_id=0, controller_epoch=epoch, broker_epoch=-1, delete_partitions=delete
        )
        request.partitions = [StopReplicaPartition(*key) for key in keys]
        return self.manager.roles.stop_replica(request)


state = partial(decided, isr=(1, 2), replicas=(1, 2))


def codes(answer: Any) -> list[int]:
    return [each.error_code for each in answer.partitions]


def test_leader_and_follower_roles_begin():
    broker = PlayedManager()
    other = TopicPartition("t", 1)
    answer = broker.leader_and_isr(state(1, 0, is_new=True), state(2, 0, key=other))
    assert (answer.error_code, codes(answer)) == (0, [0, 0])
    assert broker.manager.get("t", 0).leading
    assert broker.manager.get("t", 1).role.name == "follower"
    assert broker.logs.made == [(T0, {"a": "b"}, True), (other, {"a": "b"}, False)]
    assert broker.calls.of("register") == [T0]
    assert broker.calls.of("follow") == [(other, 2)]


def test_former_leader_follows_next_leader():
    broker = PlayedManager()
    broker.leader_and_isr(state(1, 0))
    broker.calls.calls.clear()
    broker.leader_and_isr(state(2, 1))
    assert broker.calls.of("follow") == [(T0, 2)]


def test_fetching_stops_before_a_role_changes():
    broker = PlayedManager()
    broker.leader_and_isr(state(2, 0))
    broker.calls.calls.clear()
    broker.leader_and_isr(state(1, 1))
    assert [name for name, _ in broker.calls.calls] == ["forget", "register"]


def test_following_begins_before_leader_epochs_are_written():
    broker = PlayedManager()
    other = TopicPartition("t", 1)
    broker.leader_and_isr(state(1, 0), state(2, 0, key=other))
    broker.calls.calls.clear()
    broker.leader_and_isr(state(1, 1), state(2, 1, key=other))
    assert broker.calls.calls == [
        ("forget", [other]),
        ("follow", [(other, 2)]),
        ("register", [T0]),
    ]


def test_many_leaders_are_registered_in_parts(monkeypatch):
    monkeypatch.setattr(role_changes, "ANNOUNCED_AT_ONCE", 2)
    broker = PlayedManager()
    keys = [TopicPartition("t", number) for number in range(3)]
    broker.leader_and_isr(*(state(1, 0, key=key) for key in keys))
    assert [each for name, each in broker.calls.calls if name == "register"] == [keys[:2], keys[2:]]


@pytest.mark.parametrize("epoch", [4, 5])
def test_old_leader_epoch_is_refused(epoch):
    broker = PlayedManager()
    broker.leader_and_isr(state(1, 5))
    answer = broker.leader_and_isr(state(2, epoch))
    assert (answer.error_code, codes(answer)) == (0, [11])
    assert broker.manager.get("t", 0).leading


def test_unassigned_replica_is_refused():
    broker = PlayedManager()
    assert codes(broker.leader_and_isr(state(2, 1, replicas=(2, 3)))) == [3]
    assert broker.manager.get("t", 0) is None
    assert not broker.logs.made


def test_deposed_controller_is_refused():
    broker = PlayedManager()
    broker.leader_and_isr(state(1, 1), epoch=3)
    answer = broker.leader_and_isr(state(2, 2), epoch=2)
    assert (answer.error_code, codes(answer)) == (11, [11])
    assert broker.stop(T0, delete=True, epoch=2).error_code == 11
    assert broker.stop(T0, delete=True, epoch=2).partitions == []
    assert broker.manager.get("t", 0).leading


def test_caught_up_after_request_of_present_controller():
    broker, seen = PlayedManager(), []
    broker.manager.on_change(lambda: seen.append(broker.manager.roles.caught_up))
    broker.calls.follow = lambda roles: seen.append(("under way", broker.manager.roles.caught_up))
    assert not broker.manager.roles.caught_up
    broker.leader_and_isr(state(2, 1), epoch=3)
    assert seen == [("under way", False), True]
    broker.manager.roles._fence.check(5, 4, -1)  # by an UpdateMetadata of the next controller
    assert not broker.manager.roles.caught_up
    assert broker.leader_and_isr(state(2, 2), epoch=3).error_code == 11
    assert not broker.manager.roles.caught_up, "a deposed controller's request does not count"
    broker.leader_and_isr(state(2, 1), epoch=4)
    assert broker.manager.roles.caught_up, "its repeated states are carried out already"


class ContendedLock:
    """A lock that runs another request before it is taken for the first time."""

    def __init__(self, before: Any) -> None:
        self.before: Any = before

    def __enter__(self) -> None:
        before, self.before = self.before, None
        if before is not None:
            before()

    def __exit__(self, *error: object) -> None: ...


def test_request_of_controller_deposed_while_waiting_is_refused():
    broker = PlayedManager()
    broker.leader_and_isr(state(2, 1), epoch=2)
    broker.manager.roles._lock = ContendedLock(lambda: broker.leader_and_isr(state(1, 2), epoch=3))
    assert broker.stop(T0, delete=True, epoch=2).error_code == 11
    assert broker.manager.get("t", 0).leading
    assert broker.logs.deleted == []
    broker.manager.roles._lock = ContendedLock(lambda: broker.stop(T0, delete=False, epoch=4))
    answer = broker.leader_and_isr(state(1, 3), epoch=3)
    assert (answer.error_code, codes(answer)) == (11, [11])
    assert not broker.manager.get("t", 0).leading


@pytest.mark.parametrize(("broker_epoch", "code"), [(49, 77), (51, -1), (50, 0)])
def test_request_for_other_broker_epoch_is_refused(broker_epoch, code):
    answer = PlayedManager().leader_and_isr(state(1, 1), broker_epoch=broker_epoch)
    assert (answer.error_code, codes(answer)) == (code, [code])


def test_unreadable_log_is_storage_error_of_its_partition():
    broker = PlayedManager()
    broker.logs.broken.add(T0)
    answer = broker.leader_and_isr(state(1, 1), state(1, 1, key=TopicPartition("t", 1)))
    assert codes(answer) == [56, 0]
    assert broker.manager.get("t", 0).offline
    with pytest.raises(StorageError):
        broker.manager.get("t", 0).leadership()
    assert codes(broker.leader_and_isr(state(1, 2))) == [56]


def test_partition_without_leader_gets_log_and_is_not_followed():
    broker = PlayedManager()
    broker.leader_and_isr(state(-1, 1))
    assert broker.logs.made
    assert broker.manager.get("t", 0).leader == -1
    assert broker.calls.of("follow") == []


def test_ended_leadership_without_successor_is_deregistered():
    broker = PlayedManager()
    broker.leader_and_isr(state(1, 1))
    broker.leader_and_isr(state(2, 2))
    assert broker.calls.of("unregister") == []  # the next leader replaces it
    broker.leader_and_isr(state(1, 3))
    broker.leader_and_isr(state(-1, 4))
    assert broker.calls.of("unregister") == [T0]


def test_zookeeper_is_asked_for_a_controller_while_no_lock_is_held(monkeypatch):
    broker = PlayedManager()
    roles = broker.manager.roles
    locked = []

    def elected(epoch):
        locked.append(roles._lock._is_owned())
        return True

    monkeypatch.setattr(roles._fence, "_elected", elected)
    broker.stop(T0, delete=True, epoch=2)
    broker.leader_and_isr(epoch=3)
    assert locked == [False, False]


def test_stop_replica_keeps_or_deletes_log():
    broker = PlayedManager()
    broker.leader_and_isr(state(1, 1))
    answer = broker.stop(T0, delete=False)
    assert (answer.error_code, codes(answer)) == (0, [0])
    assert not broker.manager.get("t", 0).leading
    assert broker.logs.deleted == []
    assert broker.calls.of("unregister") == [T0]
    assert codes(broker.stop(T0, delete=True)) == [0]
    assert broker.manager.get("t", 0) is None
    assert broker.logs.deleted == [T0]


def test_stop_of_unknown_replica_succeeds():
    broker = PlayedManager()
    assert codes(broker.stop(TopicPartition("nosuch", 0), delete=False)) == [0]
    assert codes(broker.stop(TopicPartition("nosuch", 0), delete=True)) == [0]
    assert broker.logs.deleted == [TopicPartition("nosuch", 0)]  # a left-over log is deleted


def test_broker_in_shutdown_does_not_follow_new_leaders():
    broker = PlayedManager()
    broker.leader_and_isr(state(1, 0))
    broker.leader_and_isr(state(2, 0, key=TopicPartition("t", 1)))
    broker.manager.leave()
    broker.leader_and_isr(state(2, 1))
    assert broker.calls.of("follow") == [(TopicPartition("t", 1), 2)], "it follows no new leader"
    assert not broker.manager.get("t", 0).leading


def test_subscribers_are_called_on_leadership_changes():
    broker = PlayedManager()
    calls: list[tuple[str, int]] = []
    broker.leader_and_isr(state(1, 1))
    broker.manager.subscribe(
        "t",
        lambda each: calls.append(("lead", each.key.partition)),
        lambda key: calls.append(("leave", key.partition)),
    )
    broker.leader_and_isr(state(1, 2, isr=(1,)))  # the same leader in another epoch
    broker.leader_and_isr(state(2, 3))
    broker.leader_and_isr(state(1, 4), state(1, 0, key=TopicPartition("other", 0)))
    broker.stop(T0, delete=False)
    assert calls == [("lead", 0), ("leave", 0), ("lead", 0), ("leave", 0)]


def test_storage_error_at_new_epoch_ends_leadership():
    broker = PlayedManager()
    calls: list[str] = []
    broker.manager.subscribe(
        "t", lambda each: calls.append("lead"), lambda key: calls.append("leave")
    )
    broker.leader_and_isr(state(1, 1))
    broker.logs.held[T0].broken = True
    assert codes(broker.leader_and_isr(state(1, 2, isr=(1,)))) == [56]
    # The check of failed directories has nothing left to do.
    assert broker.manager.get("t", 0).offline
    assert calls == ["lead", "leave"]
    assert broker.calls.of("unregister") == [T0]


def test_high_watermarks_are_kept_for_undecided_partitions():
    logs = PlayedLogs()
    logs.marks = {T0: 3, TopicPartition("u", 0): 9}
    broker = PlayedManager(logs)
    logs.get_or_create(T0, {}, is_new=False).entries = [(0, 1)] * 5
    broker.leader_and_isr(state(2, 1))
    assert broker.manager.get("t", 0).high_watermark == 3
    assert logs.read_marks() == logs.marks
    broker.leader_and_isr(state(1, 2, isr=(1,)))
    assert logs.read_marks()[T0] == 5


def test_leader_begins_without_topic_settings_of_zookeeper():
    def away(topics: Any) -> Any:
        raise RegistryError("away")

    broker = PlayedManager(settings=away)
    assert codes(broker.leader_and_isr(state(1, 0))) == [0]
    assert broker.logs.made == [(T0, None, False)]


def test_failed_directory_takes_partitions_offline_and_is_reported():
    broker = PlayedManager()
    broker.leader_and_isr(state(1, 1), state(1, 1, key=TopicPartition("t", 1)))
    broker.logs.held[T0].offline = "no disk"  # type: ignore[attr-defined]
    broker.logs.offline("/data", [T0], "no disk")
    broker.manager._check()
    assert broker.manager.get("t", 0).offline
    assert broker.manager.get("t", 1).leading
    assert broker.calls.of("failed") == [1]
    assert broker.calls.of("unregister") == [T0]
    # A controller repeats the present states to learn which replicas are offline.
    answer = broker.leader_and_isr(state(1, 1), state(1, 1, key=TopicPartition("t", 1)))
    assert codes(answer) == [56, 11]
    assert codes(broker.stop(T0, delete=True)) == [56]


@pytest.mark.parametrize(
    ("topic", "number", "epoch"),
    [
        ("x" * 300, 0, 1),
        ("", 0, 1),
        ("..", 0, 1),
        ("../../etc", 0, 1),
        ("a/b", 0, 1),
        ("a b\n\x1b[31m", 0, 1),
        ("t", -5, 1),
        ("t", 2**31 - 1, 1),
        ("t", 0, -1),
    ],
)
def test_invalid_partition_is_refused_alone(topic, number, epoch):
    def settings(topics):
        assert topics == {"other"}
        return {}

    broker = PlayedManager(settings=settings)
    invalid, other = TopicPartition(topic, number), TopicPartition("other", 0)
    answer = broker.leader_and_isr(state(1, epoch, key=invalid), state(1, 1, key=other))
    assert {each.topic: each.error_code for each in answer.partitions} == {topic: 42, "other": 0}
    assert broker.manager.get(topic, number) is None
    assert [key for key, *_ in broker.logs.made] == [other]


def test_repeated_refusal_is_logged_as_warning_once(caplog):
    broker = PlayedManager()
    broker.leader_and_isr(state(1, 1), epoch=3)
    for _ in range(5):
        broker.leader_and_isr(state(2, 2), epoch=2)
        broker.leader_and_isr(state(2, 2), epoch=2)
    broker.leader_and_isr(state(1, 1, key=TopicPartition("a/b", 0)), epoch=3)
    logged = [each for each in caplog.records if "refused" in each.getMessage()]
    assert [each.levelname for each in logged if each.levelno > 10] == ["WARNING"] * 2


def test_last_replica_with_lost_log_follows_but_does_not_lead():
    broker = PlayedManager()
    other = TopicPartition("t", 1)
    third = TopicPartition("t", 2)
    fourth = TopicPartition("t", 3)
    broker.manager.opening.refuse_to_lead([T0, other, third, fourth])
    answer = broker.leader_and_isr(
        state(1, 4, isr=(1,)),
        state(2, 4, key=other, isr=(2,)),
        state(-1, 4, key=third, isr=(1,)),
        state(2, 4, key=fourth, isr=(2, 1)),
    )
    assert sorted(codes(answer)) == [0, 56, 56, 56], "an empty log must not count as in sync"
    assert broker.manager.get("t", 0).offline
    assert broker.manager.get("t", 1).role.name == "follower"
    assert [key for key, *_ in broker.logs.made] == [other]
    assert codes(broker.leader_and_isr(state(1, 5, key=other))) == [0]
    assert broker.manager.get("t", 1).leading


def test_replica_with_lost_log_does_not_lead_until_copied():
    broker = PlayedManager()
    other, third = TopicPartition("t", 1), TopicPartition("t", 2)
    broker.manager.opening.refuse_to_lead([], [T0, other, third])
    answer = broker.leader_and_isr(
        state(1, 4, isr=(1,)),  # by an unclean election
        state(2, 4, key=other, isr=(2, 1)),  # decided before it left the ISR
        state(-1, 4, key=third, isr=(2,)),
    )
    assert sorted(codes(answer)) == [0, 0, 56]
    assert broker.manager.get("t", 0).offline
    assert sorted(key for key, *_ in broker.logs.made) == [other, third]
    assert codes(broker.leader_and_isr(state(1, 5, key=other))) == [0], "it was copied"
    assert codes(broker.leader_and_isr(state(1, 5, key=third))) == [56], "it has not been copied"


def test_recreated_topic_has_no_lost_log():
    broker = PlayedManager()
    broker.manager.opening.refuse_to_lead([], [T0])
    assert codes(broker.stop(T0, delete=True)) == [0]
    assert codes(broker.leader_and_isr(state(1, 0, isr=(1,)))) == [0]
    assert broker.manager.get("t", 0).leading
