"""The cluster as read from ZooKeeper, with a watch on every node."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.client import ZooKeeperSource
from zkbroker.client.view import NO_EPOCH, PartitionInfo
from zkbroker.errors import ErrorCode, ProtocolError, RegistryError
from zkbroker.registry import paths, topics
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.partitions import PartitionState
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.errors import ConnectionLost, SessionLost


class WatchedSource:
    """A source with its own session, and the event that it sets."""

    def __init__(self) -> None:
        self.session: Any = InstantSession()
        self.changed: Any = get_runtime("threads").event()
        self.source = ZooKeeperSource(session=self.session)
        self.source.start(None, self.changed)  # type: ignore[arg-type]

    def broker(self, number: int, rack: str | None = None) -> None:
        info = BrokerInfo(id=number, host=f"h{number}", port=9092, rack=rack)
        self.session.create(paths.broker(number), info.to_json(), ephemeral=True, parents=True)

    def state(self, topic: str, number: int, leader: int, epoch: int) -> None:
        state = PartitionState(leader, epoch, (leader,), 0)
        path = paths.partition_state(topic, number)
        self.session.create(path, state.to_json(), ephemeral=True, parents=True)

    def read(self, *names: str) -> Any:
        self.changed.clear()
        return self.source.read(names)


@pytest.fixture
def watched() -> WatchedSource:
    return WatchedSource()


def test_view_has_leader_epochs_and_no_dead_leaders(watched: WatchedSource) -> None:
    watched.broker(1, "north")
    topics.create_topic(watched.session, "t", {0: [1], 1: [2], 2: [1]}, {})
    watched.state("t", 0, 1, 7)
    watched.state("t", 1, 2, 3)
    view = watched.read("t")
    assert {number: broker.rack for number, broker in view.brokers.items()} == {1: "north"}
    assert view.topics["t"] == (
        PartitionInfo("t", 0, 1, 7, (1,), (1,)),
        PartitionInfo("t", 1, None, 3, (2,), (2,)),
        PartitionInfo("t", 2, None, NO_EPOCH, (1,)),
    )


def test_isr_is_known_without_registered_leader(watched: WatchedSource) -> None:
    watched.broker(1)
    topics.create_topic(watched.session, "t", {0: [1, 2, 3]}, {})
    decided = PartitionState(3, 5, (2, 3), 0)
    watched.session.create(paths.partition("t", 0), decided.to_json(), parents=True)
    assert watched.read("t").topics["t"] == (
        PartitionInfo("t", 0, None, NO_EPOCH, (1, 2, 3), (2, 3)),
    )


def test_every_node_read_is_watched(watched: WatchedSource) -> None:
    topics.create_topic(watched.session, "t", {0: [1]}, {})
    for change in (
        lambda: watched.broker(1),
        lambda: watched.state("t", 0, 1, 0),
        lambda: topics.add_partitions(watched.session, "t", {1: [1]}),
        lambda: topics.create_topic(watched.session, "u", {0: [1]}, {}),
        lambda: watched.session.delete(paths.partition_state("t", 0)),
        lambda: watched.session.delete(paths.broker(1)),
    ):
        watched.read("t")
        assert not watched.changed.is_set()
        change()
        assert watched.changed.is_set()


def test_reconnect_triggers_reading(watched: WatchedSource) -> None:
    watched.session.suspend()
    watched.changed.clear()
    watched.session.reconnect()
    assert watched.changed.is_set()
    watched.source.close()
    watched.changed.clear()
    watched.session.reconnect()
    assert not watched.changed.is_set()


def test_unreadable_topic_has_error_and_others_are_read(watched: WatchedSource) -> None:
    watched.session.create(paths.topic("broken"), b"[]")
    topics.create_topic(watched.session, "t", {0: [1]}, {})
    found = watched.read("broken", "gone", "t").topics
    errors = {name: each.code for name, each in found.items() if isinstance(each, ProtocolError)}
    assert errors == {
        "broken": ErrorCode.LEADER_NOT_AVAILABLE,
        "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert found["t"] == (PartitionInfo("t", 0, None, NO_EPOCH, (1,)),)
    assert watched.source.all_topics() == ["broken", "t"]


@pytest.mark.parametrize("failure", [ConnectionLost, SessionLost])
def test_lost_connection_is_raised_by_read(
    watched: WatchedSource, monkeypatch: pytest.MonkeyPatch, failure: type[RegistryError]
) -> None:
    topics.create_topic(watched.session, "t", {0: [1]}, {})

    def broken(*_: object) -> None:
        raise failure("away")

    monkeypatch.setattr(watched.session, "get_many", broken)
    with pytest.raises(failure):
        watched.read("t")


def test_many_topics_are_read_in_few_round_trips(
    watched: WatchedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.broker(1)
    names = [f"t{number}" for number in range(100)]
    for name in names:
        topics.create_topic(watched.session, name, {0: [1]}, {})
    for name in names[::2]:
        watched.state(name, 0, 1, 4)
    asked: list[str] = []
    for method in ("get", "get_many", "exists", "exists_many", "children"):
        real = getattr(watched.session, method)

        def counted(
            *arguments: object, real: Callable[..., object] = real, name: str = method
        ) -> object:
            asked.append(name)
            return real(*arguments)

        monkeypatch.setattr(watched.session, method, counted)
    view = watched.read(*names)
    assert [view.topics[name][0].leader for name in names] == [1, None] * 50
    assert len(asked) < 10, asked


def test_damaged_state_node_means_no_leader(watched: WatchedSource) -> None:
    topics.create_topic(watched.session, "t", {0: [1]}, {})
    watched.session.create(paths.partition_state("t", 0), b"{", parents=True)
    assert watched.read("t").topics["t"] == (PartitionInfo("t", 0, None, NO_EPOCH, (1,)),)


@pytest.mark.parametrize("both", [True, False])
def test_source_requires_either_address_or_session(both: bool) -> None:
    session: Any = InstantSession() if both else None
    with pytest.raises(RegistryError, match="not both"):
        ZooKeeperSource("zk:2181" if both else "", session=session)
