"""What a broker does with the controller's requests, with the answers of genuine brokers."""

from typing import Any

import pytest

from tests.support.replicas import EntryLog, PlainRuntime
from zkbroker.errors import RegistryError, StorageError
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import LeaderAndIsrRequest, StopReplicaRequest
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.protocol.messages.stop_replica import StopReplicaPartition
from zkbroker.replica import role_changes
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.manager import ReplicaManager

T0 = TopicPartition("t", 0)


class Done:
    def join(self) -> bool:
        return True


class Runtime(PlainRuntime):
    def sleep(self, seconds: float) -> None: ...

    def spawn(self, function: Any, *, name: str) -> Done:
        function()
        return Done()


class PlayedLogs:
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
            self.held[key].offline = None  # type: ignore[attr-defined]
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


class Notes:
    """Stands for the state writer and the fetchers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Any]]] = []

    def register(self, partitions: Any) -> None:
        self._note("register", [each.key for each in partitions])

    def unregister(self, keys: Any) -> None:
        self._note("unregister", list(keys))

    def follow(self, partitions: Any) -> None:
        self._note("follow", [(each.key, each.leader) for each in partitions])

    def forget(self, keys: Any) -> None:
        self._note("forget", list(keys))

    def report_failed_directory(self) -> None:
        self._note("failed", [1])

    def propose(self, partition: Any) -> None:
        self._note("propose", [partition.key])

    def _note(self, what: str, about: list[Any]) -> None:
        if about:
            self.calls.append((what, about))

    def of(self, what: str) -> list[Any]:
        return [each for name, about in self.calls if name == what for each in about]


class World:
    def __init__(self, logs: PlayedLogs | None = None, settings: Any = None) -> None:
        self.logs = logs or PlayedLogs()
        self.notes = Notes()
        self.manager = ReplicaManager(
            1,
            self.logs,  # type: ignore[arg-type]
            self.notes,  # type: ignore[arg-type]
            ControllerFence(lambda: 50),
            settings or (lambda topics: {topic: {"a": "b"} for topic in topics}),
            runtime=Runtime(),  # type: ignore[arg-type]
            fetchers=self.notes,
        )

    def tell(self, *states: LeaderAndIsrPartition, epoch: int = 1, broker_epoch: int = -1) -> Any:
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


def state(
    leader: int,
    epoch: int,
    *,
    key: TopicPartition = T0,
    isr: tuple[int, ...] = (1, 2),
    replicas: tuple[int, ...] = (1, 2),
    is_new: bool = False,
) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        topic=key.topic,
        partition=key.partition,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=list(isr),
        zk_version=0,
        replicas=list(replicas),
        is_new=is_new,
    )


def codes(answer: Any) -> list[int]:
    return [each.error_code for each in answer.partitions]


def test_leader_and_follower():
    world = World()
    other = TopicPartition("t", 1)
    answer = world.tell(state(1, 0, is_new=True), state(2, 0, key=other))
    assert (answer.error_code, codes(answer)) == (0, [0, 0])
    assert world.manager.get("t", 0).leading
    assert world.manager.get("t", 1).role.name == "follower"
    assert world.logs.made == [(T0, {"a": "b"}, True), (other, {"a": "b"}, False)]
    assert world.notes.of("register") == [T0]
    assert world.notes.of("follow") == [(other, 2)]


def test_what_was_led_is_copied_from_its_next_leader():
    world = World()
    world.tell(state(1, 0))
    world.notes.calls.clear()
    world.tell(state(2, 1))
    assert world.notes.of("follow") == [(T0, 2)]


def test_fetching_stops_before_a_role_changes():
    world = World()
    world.tell(state(2, 0))
    world.notes.calls.clear()
    world.tell(state(1, 1))
    assert [name for name, _ in world.notes.calls] == ["forget", "register"]


def test_what_is_followed_is_copied_on_before_the_epochs_of_what_is_led_are_on_the_disk():
    world = World()
    other = TopicPartition("t", 1)
    world.tell(state(1, 0), state(2, 0, key=other))
    world.notes.calls.clear()
    world.tell(state(1, 1), state(2, 1, key=other))
    assert world.notes.calls == [
        ("forget", [other]),
        ("follow", [(other, 2)]),
        ("register", [T0]),
    ]


def test_many_leaders_are_registered_part_by_part(monkeypatch):
    monkeypatch.setattr(role_changes, "ANNOUNCED_AT_ONCE", 2)
    world = World()
    keys = [TopicPartition("t", number) for number in range(3)]
    world.tell(*(state(1, 0, key=key) for key in keys))
    assert [each for name, each in world.notes.calls if name == "register"] == [keys[:2], keys[2:]]


@pytest.mark.parametrize("epoch", [4, 5])
def test_an_epoch_that_is_not_newer_is_11_and_changes_nothing(epoch):
    world = World()
    world.tell(state(1, 5))
    answer = world.tell(state(2, epoch))
    assert (answer.error_code, codes(answer)) == (0, [11])
    assert world.manager.get("t", 0).leading


def test_a_restarted_broker_takes_the_current_epoch():
    assert codes(World().tell(state(1, 0))) == [0]


def test_a_replica_that_is_not_assigned_here_is_3_and_is_not_made():
    world = World()
    assert codes(world.tell(state(2, 1, replicas=(2, 3)))) == [3]
    assert world.manager.get("t", 0) is None
    assert not world.logs.made


def test_a_deposed_controller_is_11_for_everything():
    world = World()
    world.tell(state(1, 1), epoch=3)
    answer = world.tell(state(2, 2), epoch=2)
    assert (answer.error_code, codes(answer)) == (11, [11])
    assert world.stop(T0, delete=True, epoch=2).error_code == 11
    assert world.stop(T0, delete=True, epoch=2).partitions == []
    assert world.manager.get("t", 0).leading


def test_it_has_caught_up_once_what_the_present_controller_decided_is_carried_out():
    world, seen = World(), []
    world.manager.on_change(lambda: seen.append(world.manager.roles.caught_up))
    world.notes.follow = lambda roles: seen.append(("under way", world.manager.roles.caught_up))
    assert not world.manager.roles.caught_up
    world.tell(state(2, 1), epoch=3)
    assert seen == [("under way", False), True]
    world.manager.roles._fence.check(5, 4, -1)  # by an UpdateMetadata of the next controller
    assert not world.manager.roles.caught_up
    assert world.tell(state(2, 2), epoch=3).error_code == 11
    assert not world.manager.roles.caught_up, "the deposed one says nothing about the present one"
    world.tell(state(2, 1), epoch=4)
    assert world.manager.roles.caught_up, "what it repeats is carried out already"


class ContendedLock:
    """Lets another request go first whenever somebody is about to take it."""

    def __init__(self, before: Any) -> None:
        self.before: Any = before

    def __enter__(self) -> None:
        before, self.before = self.before, None
        if before is not None:
            before()

    def __exit__(self, *error: object) -> None: ...


def test_a_controller_deposed_while_its_request_waits_for_its_turn_is_not_obeyed():
    world = World()
    world.tell(state(2, 1), epoch=2)
    world.manager.roles._lock = ContendedLock(lambda: world.tell(state(1, 2), epoch=3))
    assert world.stop(T0, delete=True, epoch=2).error_code == 11
    assert world.manager.get("t", 0).leading
    assert world.logs.deleted == []
    world.manager.roles._lock = ContendedLock(lambda: world.stop(T0, delete=False, epoch=4))
    answer = world.tell(state(1, 3), epoch=3)
    assert (answer.error_code, codes(answer)) == (11, [11])
    assert not world.manager.get("t", 0).leading


@pytest.mark.parametrize(("broker_epoch", "code"), [(49, 77), (51, -1), (50, 0)])
def test_the_registration_that_a_request_is_meant_for(broker_epoch, code):
    answer = World().tell(state(1, 1), broker_epoch=broker_epoch)
    assert (answer.error_code, codes(answer)) == (code, [code])


def test_a_log_that_cannot_be_opened_is_56_and_the_others_are_served():
    world = World()
    world.logs.broken.add(T0)
    answer = world.tell(state(1, 1), state(1, 1, key=TopicPartition("t", 1)))
    assert codes(answer) == [56, 0]
    assert world.manager.get("t", 0).offline
    with pytest.raises(StorageError):
        world.manager.get("t", 0).leadership()
    assert codes(world.tell(state(1, 2))) == [56]


def test_without_a_leader_the_log_is_made_and_no_broker_followed():
    world = World()
    world.tell(state(-1, 1))
    assert world.logs.made
    assert world.manager.get("t", 0).leader == -1
    assert world.notes.of("follow") == []


def test_an_ended_leadership_is_deregistered_where_no_leader_succeeds():
    world = World()
    world.tell(state(1, 1))
    world.tell(state(2, 2))
    assert world.notes.of("unregister") == []  # the next leader replaces it
    world.tell(state(1, 3))
    world.tell(state(-1, 4))
    assert world.notes.of("unregister") == [T0]


def test_stop_keeps_or_deletes():
    world = World()
    world.tell(state(1, 1))
    answer = world.stop(T0, delete=False)
    assert (answer.error_code, codes(answer)) == (0, [0])
    assert not world.manager.get("t", 0).leading
    assert world.logs.deleted == []
    assert world.notes.of("unregister") == [T0]
    assert codes(world.stop(T0, delete=True)) == [0]
    assert world.manager.get("t", 0) is None
    assert world.logs.deleted == [T0]


def test_stopping_what_is_not_here_succeeds():
    world = World()
    assert codes(world.stop(TopicPartition("nosuch", 0), delete=False)) == [0]
    assert codes(world.stop(TopicPartition("nosuch", 0), delete=True)) == [0]
    assert world.logs.deleted == [TopicPartition("nosuch", 0)]  # a log that was left behind goes


def test_a_broker_that_is_about_to_go_does_not_follow_its_successors():
    world = World()
    world.tell(state(1, 0))
    world.tell(state(2, 0, key=TopicPartition("t", 1)))
    world.manager.leave()
    world.tell(state(2, 1))
    assert world.notes.of("follow") == [(TopicPartition("t", 1), 2)], "no more than before"
    assert not world.manager.get("t", 0).leading


def test_subscribers_follow_the_leadership():
    world = World()
    calls: list[tuple[str, int]] = []
    world.tell(state(1, 1))
    world.manager.subscribe(
        "t",
        lambda each: calls.append(("lead", each.key.partition)),
        lambda key: calls.append(("leave", key.partition)),
    )
    world.tell(state(1, 2, isr=(1,)))  # the same leader in another epoch
    world.tell(state(2, 3))
    world.tell(state(1, 4), state(1, 0, key=TopicPartition("other", 0)))
    world.stop(T0, delete=False)
    assert calls == [("lead", 0), ("leave", 0), ("lead", 0), ("leave", 0)]


def test_a_leader_whose_disk_fails_at_its_next_epoch_is_left_and_deregistered():
    world = World()
    calls: list[str] = []
    world.manager.subscribe(
        "t", lambda each: calls.append("lead"), lambda key: calls.append("leave")
    )
    world.tell(state(1, 1))
    world.logs.held[T0].broken = True
    assert codes(world.tell(state(1, 2, isr=(1,)))) == [56]
    # The check of failed directories finds nothing to do any more.
    assert world.manager.get("t", 0).offline
    assert calls == ["lead", "leave"]
    assert world.notes.of("unregister") == [T0]


def test_high_watermarks_are_kept_for_undecided_partitions():
    logs = PlayedLogs()
    logs.marks = {T0: 3, TopicPartition("u", 0): 9}
    world = World(logs)
    logs.get_or_create(T0, {}, is_new=False).entries = [(0, 1)] * 5
    world.tell(state(2, 1))
    assert world.manager.get("t", 0).high_watermark == 3
    assert logs.read_marks() == logs.marks
    world.tell(state(1, 2, isr=(1,)))
    assert logs.read_marks()[T0] == 5


def test_zookeeper_being_away_does_not_keep_a_partition_from_being_led():
    def away(topics: Any) -> Any:
        raise RegistryError("away")

    world = World(settings=away)
    assert codes(world.tell(state(1, 0))) == [0]
    assert world.logs.made == [(T0, None, False)]


def test_a_failed_directory_takes_its_partitions_offline_and_tells():
    world = World()
    world.tell(state(1, 1), state(1, 1, key=TopicPartition("t", 1)))
    world.logs.held[T0].offline = "no disk"  # type: ignore[attr-defined]
    world.logs.offline("/data", [T0], "no disk")
    world.manager._check()
    assert world.manager.get("t", 0).offline
    assert world.manager.get("t", 1).leading
    assert world.notes.of("failed") == [1]
    assert world.notes.of("unregister") == [T0]
    # What holds is repeated by a controller that asks which replicas are gone.
    told = world.tell(state(1, 1), state(1, 1, key=TopicPartition("t", 1)))
    assert codes(told) == [56, 11]
    assert codes(world.stop(T0, delete=True)) == [56]


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
def test_nonsense_is_42_reaches_no_disk_and_the_rest_is_carried_out(topic, number, epoch):
    def settings(topics):
        assert topics == {"other"}
        return {}

    world = World(settings=settings)
    nonsense, other = TopicPartition(topic, number), TopicPartition("other", 0)
    answer = world.tell(state(1, epoch, key=nonsense), state(1, 1, key=other))
    assert {each.topic: each.error_code for each in answer.partitions} == {topic: 42, "other": 0}
    assert world.manager.get(topic, number) is None
    assert [key for key, *_ in world.logs.made] == [other]


def test_a_refused_request_that_is_repeated_is_warned_of_once(caplog):
    world = World()
    world.tell(state(1, 1), epoch=3)
    for _ in range(5):
        world.tell(state(2, 2), epoch=2)
        world.tell(state(2, 2), epoch=2)
    world.tell(state(1, 1, key=TopicPartition("a/b", 0)), epoch=3)
    told = [each for each in caplog.records if "refused" in each.getMessage()]
    assert [each.levelname for each in told if each.levelno > 10] == ["WARNING"] * 2


def test_a_replica_whose_log_was_lost_follows_and_does_not_lead_empty():
    world = World()
    other = TopicPartition("t", 1)
    third = TopicPartition("t", 2)
    fourth = TopicPartition("t", 3)
    world.manager.refuse_to_lead([T0, other, third, fourth])
    answer = world.tell(
        state(1, 4, isr=(1,)),
        state(2, 4, key=other, isr=(2,)),
        state(-1, 4, key=third, isr=(1,)),
        state(2, 4, key=fourth, isr=(2, 1)),
    )
    assert sorted(codes(answer)) == [0, 56, 56, 56], "an empty log must not count as in sync"
    assert world.manager.get("t", 0).offline
    assert world.manager.get("t", 1).role.name == "follower"
    assert [key for key, *_ in world.logs.made] == [other]
    assert codes(world.tell(state(1, 5, key=other))) == [0]
    assert world.manager.get("t", 1).leading


def test_a_replica_whose_log_was_lost_and_that_others_have_does_not_lead_empty():
    world = World()
    other, third = TopicPartition("t", 1), TopicPartition("t", 2)
    world.manager.refuse_to_lead([], [T0, other, third])
    answer = world.tell(
        state(1, 4, isr=(1,)),  # by an unclean election
        state(2, 4, key=other, isr=(2, 1)),  # decided before it left
        state(-1, 4, key=third, isr=(2,)),
    )
    assert sorted(codes(answer)) == [0, 0, 56]
    assert world.manager.get("t", 0).offline
    assert sorted(key for key, *_ in world.logs.made) == [other, third]
    assert codes(world.tell(state(1, 5, key=other))) == [0], "it was copied"
    assert codes(world.tell(state(1, 5, key=third))) == [56], "it was copied from nobody"


def test_a_topic_that_is_made_again_has_lost_nothing():
    world = World()
    world.manager.refuse_to_lead([], [T0])
    assert codes(world.stop(T0, delete=True)) == [0]
    assert codes(world.tell(state(1, 0, isr=(1,)))) == [0]
    assert world.manager.get("t", 0).leading
