"""A 0.7 group in ZooKeeper: partitions follow their brokers, and are watched."""

from typing import Any

import pytest

from tests.support.instant_session import InstantSession, new_server
from zkbroker.legacy07.group_store import GroupStore07, range_assign_07
from zkbroker.rebalance import range_assign
from zkbroker.registry.groups import StreamSubscription
from zkbroker.runtime import get_runtime
from zkbroker.types import Partition07
from zkbroker.zookeeper import ClaimBlocked


@pytest.fixture
def server() -> Any:
    return new_server()


def member(server: Any, name: str) -> tuple[Any, GroupStore07]:
    session: Any = InstantSession(server)
    return session, GroupStore07(session, "g", name)


def watch() -> Any:
    return get_runtime("threads").event()


def test_members_register_in_0_7_format(server: Any) -> None:
    session, one = member(server, "g_one")
    _, two = member(server, "g_two")
    one.register(StreamSubscription({"t": 2}))
    assert session.get("/consumers/g/ids/g_one")[0] == b'{ "t": 2 }'
    changed = watch()
    assert one.subscriptions(changed) == {"g_one": StreamSubscription({"t": 2})}
    two.register(StreamSubscription({"a.*": 1}, "white_list"))
    assert changed.is_set()
    assert one.subscriptions(watch())["g_two"] == StreamSubscription({"a.*": 1}, "white_list")


def test_partitions_follow_registered_brokers(server: Any) -> None:
    session, one = member(server, "g_one")
    changed = watch()
    assert one.partitions(["t"], changed) == {"t": []}
    session.create("/brokers/topics/t/10", b"1", parents=True)
    assert changed.is_set()
    session.create("/brokers/topics/t/3", b"2")
    changed = watch()
    found = one.partitions(["t"], changed)["t"]
    assert found == [Partition07(3, 0), Partition07(3, 1), Partition07(10, 0)]
    assert one.topics(watch()) == ["t"]
    session.delete("/brokers/topics/t/10")
    assert changed.is_set()


def test_owner_nodes_are_named_by_broker_and_number(server: Any) -> None:
    session, one = member(server, "g_one")
    _, two = member(server, "g_two")
    for each in (one, two):
        each.register(StreamSubscription({"t": 1}))
    key = ("t", Partition07(3, 1))
    one.claim({key: "g_one-0"})
    assert session.get("/consumers/g/owners/t/3-1")[0] == b"g_one-0"
    with pytest.raises(ClaimBlocked) as blocked:
        two.claim({key: "g_two-0"})
    assert two.still_blocked(blocked.value, watch())
    one.release([key])
    two.claim({key: "g_two-0"})


def test_partitions_are_assigned_in_text_order() -> None:
    partitions = [Partition07(3, 0), Partition07(10, 0), Partition07(3, 1)]
    threads = {"t": ["b-0", "a-0"]}
    assert range_assign_07({"t": partitions}, threads) == {
        ("t", Partition07(10, 0)): "a-0",
        ("t", Partition07(3, 0)): "a-0",
        ("t", Partition07(3, 1)): "b-0",
    }
    assert range_assign({"t": partitions}, threads)["t", Partition07(10, 0)] == "b-0"
