"""Which partitions are hosted, with ZooKeeper and logs played."""

from collections.abc import Callable
from typing import Any

import gevent
import gevent.event
import pytest

from zkbroker.broker import hosting as module
from zkbroker.broker.hosting import Hosting
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.view import ClusterView
from zkbroker.errors import RegistryError, StorageError
from zkbroker.log import TopicPartition
from zkbroker.registry import SessionState
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.topics_watch import TopicsView


class PlayedLog:
    leader_epoch = -1

    def __init__(self) -> None:
        self.listeners: list[Any] = []

    def add_append_listener(self, listener: Any) -> None:
        self.listeners.append(listener)

    def remove_append_listener(self, listener: Any) -> None:
        self.listeners.remove(listener)


class PlayedLogs:
    def __init__(self) -> None:
        self.logs: dict[TopicPartition, PlayedLog] = {}
        self.deleted: list[TopicPartition] = []
        self.broken: set[TopicPartition] = set()

    def get(self, key: TopicPartition) -> PlayedLog | None:
        return self.logs.get(key)

    def get_or_create(self, key: TopicPartition, settings: Any = None) -> PlayedLog:
        if key in self.broken:
            raise StorageError("its directory cannot be read")
        return self.logs.setdefault(key, PlayedLog())

    def delete(self, key: TopicPartition) -> None:
        self.deleted.append(key)
        self.logs.pop(key, None)

    def update_topic_config(self, topic: str, settings: Any) -> None: ...


class PlayedSession:
    generation = 0
    state = SessionState.CONNECTED


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.view = ClusterView(BrokerInfo(1, "h", 1))
        self.logs = PlayedLogs()
        self.session = PlayedSession()
        self.registered: list[tuple[str, int]] = []
        self.in_zookeeper: dict[str, Any] = {}
        self.away = False
        self.before_answer: Callable[[], object] = lambda: None
        monkeypatch.setattr(module, "register_partitions", self.register)
        monkeypatch.setattr(module, "unregister_partition", lambda *given: None)
        monkeypatch.setattr(module, "controller_epoch", lambda session: 1)
        monkeypatch.setattr(
            module, "read_assignment", lambda session, topic: self.in_zookeeper.get(topic)
        )
        self.hosting = Hosting(
            1,
            self.logs,  # type: ignore[arg-type]
            self.session,  # type: ignore[arg-type]
            self.view,
            BrokerMetrics(),
        )

    def register(self, session: object, keys: Any, broker_id: int, epoch: int) -> Any:
        self.before_answer()
        if self.away:
            raise RegistryError("ZooKeeper is away")
        self.registered += keys
        return {key: self.registered.count(key) - 1 for key in keys}

    def see(self, assignments: Any, deleting: frozenset[str] = frozenset()) -> None:
        self.view.set_topics(
            TopicsView(assignments, {topic: {} for topic in assignments}, deleting)
        )
        self.hosting.poke()

    def settle(self) -> None:
        assert self.hosting.wait_settled(10)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    monkeypatch.setattr(module, "REOPEN_S", 0.01)
    return World(monkeypatch)


def test_only_partitions_led_here_are_hosted(world: World) -> None:
    world.see({"t": {0: (1,), 1: (2,), 2: (1, 2)}})
    world.hosting.start()
    world.settle()
    assert sorted((h.topic, h.number) for h in world.hosting.all()) == [("t", 0), ("t", 2)]
    assert world.hosting.leader_epoch("t", 1) is None
    world.hosting.stop()


def test_a_request_that_comes_before_zookeepers_answer_waits_for_it(world: World) -> None:
    in_zookeeper, answer = gevent.event.Event(), gevent.event.Event()
    world.before_answer = lambda: (in_zookeeper.set(), answer.wait())
    world.hosting.start()
    world.see({"t": {0: (1,)}})
    assert in_zookeeper.wait(5)
    request = gevent.spawn(world.hosting.get_soon, "t", 0)
    gevent.idle()
    assert not request.ready()
    assert world.hosting.get_soon("u", 0) is None  # nobody waits for others
    answer.set()
    assert request.get(timeout=5) is world.hosting.get("t", 0) is not None
    world.hosting.stop()


def test_a_request_does_not_wait_for_zookeeper_for_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REGISTERING_S", 0.01)
    in_zookeeper, answer = gevent.event.Event(), gevent.event.Event()
    world.before_answer = lambda: (in_zookeeper.set(), answer.wait())
    world.hosting.start()
    world.see({"t": {0: (1,)}})
    assert in_zookeeper.wait(5)
    assert world.hosting.get_soon("t", 0) is None
    answer.set()
    world.hosting.stop()


def test_a_lost_session_registers_again_and_serves_on(world: World) -> None:
    world.see({"t": {0: (1,)}})
    world.hosting.start()
    world.settle()
    served = world.hosting.get("t", 0)
    world.away, world.session.generation = True, 1
    world.hosting.poke()
    assert not world.hosting.wait_settled(0.1)
    assert world.hosting.get("t", 0) is served
    world.away = False
    world.settle()
    assert world.hosting.get("t", 0) is served
    assert served is not None
    assert served.leader_epoch == 1
    world.hosting.stop()


def test_an_empty_tree_deletes_nothing_that_was_not_seen(world: World) -> None:
    world.logs.get_or_create(TopicPartition("kept", 0))
    world.see({})
    world.hosting.start()
    world.settle()
    assert world.logs.deleted == []
    world.hosting.stop()


def test_a_topic_that_is_deleted_loses_its_log_and_wakes_who_waits(world: World) -> None:
    world.see({"t": {0: (1,)}})
    world.hosting.start()
    world.settle()
    hosted = world.hosting.get("t", 0)
    assert hosted is not None
    waiter = module.gevent.event.Event()
    hosted.waiters.add(waiter)
    world.see({"t": {0: (1,)}}, frozenset({"t"}))
    world.settle()
    assert world.logs.deleted == [("t", 0)]
    assert waiter.is_set()
    assert world.hosting.get("t", 0) is None
    world.hosting.stop()


def test_what_was_deleted_meanwhile_is_dropped_before_the_broker_is_seen(world: World) -> None:
    deleted = TopicPartition("gone", 0)
    world.logs.get_or_create(deleted)
    world.see({"gone": {0: (1,)}}, frozenset({"gone"}))
    world.hosting.open_assigned()
    assert world.logs.deleted == [deleted]
    # The controller takes the broker for one that has dropped it, and removes the nodes.
    world.see({})
    world.hosting.start()
    world.settle()
    assert world.logs.logs == {}
    world.hosting.stop()


def test_a_node_that_cannot_be_read_is_no_deletion(world: World) -> None:
    world.see({"t": {0: (1,)}})
    world.hosting.start()
    world.settle()
    world.in_zookeeper["t"] = {0: (1,)}
    world.see({})
    world.settle()
    assert world.logs.deleted == []
    world.hosting.stop()


def test_a_partition_that_moved_away_keeps_its_log(world: World) -> None:
    world.see({"t": {0: (1,)}})
    world.hosting.start()
    world.settle()
    world.see({"t": {0: (2,)}})
    world.settle()
    assert world.hosting.get("t", 0) is None
    assert world.logs.deleted == []
    world.hosting.stop()


def test_one_log_that_cannot_be_opened_keeps_no_other_from_being_served(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.logs.broken.add(TopicPartition("bad", 0))
    world.see({"bad": {0: (1,)}, "good": {0: (1,)}})
    world.hosting.start()
    world.settle()
    assert world.hosting.get("good", 0) is not None
    assert world.hosting.get("bad", 0) is None
    assert caplog.text.count("partition not opened partition=bad-0") == 1
    world.logs.broken.clear()
    assert world.view.wait_for(lambda: world.hosting.get("bad", 0) is not None, 10)
    world.hosting.stop()


@pytest.mark.parametrize("failure", [RegistryError("away"), LookupError("a defect")])
def test_a_round_that_fails_is_tried_again_whatever_the_cause(
    world: World, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    failures = [failure, failure]

    def epoch(session: object) -> int:
        if failures:
            raise failures.pop()
        return 1

    monkeypatch.setattr(module, "controller_epoch", epoch)
    world.see({"t": {0: (1,)}})
    world.hosting.start()
    world.settle()
    assert world.hosting.get("t", 0) is not None
    world.hosting.stop()


def test_subscribers_hear_of_what_comes_and_goes(world: World) -> None:
    heard: list[tuple[str, int]] = []
    world.see({"t": {0: (1,)}})
    world.hosting.start()
    world.settle()
    world.hosting.subscribe(
        "t",
        lambda number, log: heard.append(("came", number)),
        lambda number: heard.append(("went", number)),
    )
    world.see({"t": {0: (1,), 1: (1,)}})
    world.settle()
    world.see({"t": {1: (1,)}})
    world.settle()
    assert heard == [("came", 0), ("came", 1), ("went", 0)]
    world.hosting.stop()
