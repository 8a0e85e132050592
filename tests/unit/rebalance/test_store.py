"""Reads of a group's state set watches, even on missing nodes; a claim takes all or nothing."""

from typing import Any

import pytest

from tests.support.instant_session import InstantSession, new_server
from zkbroker.rebalance import ZkGroupStore
from zkbroker.registry import paths, topics
from zkbroker.registry.groups import StreamSubscription
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ClaimBlocked, SessionLost


@pytest.fixture
def server() -> Any:
    return new_server()


def member(server: Any, name: str) -> tuple[Any, ZkGroupStore]:
    session: Any = InstantSession(server)
    return session, ZkGroupStore(session, "g", name)


def watch() -> Any:
    return get_runtime("threads").event()


def test_subscriptions_are_read_and_watched(server: Any) -> None:
    _, one = member(server, "g_one")
    _, two = member(server, "g_two")
    one.register(StreamSubscription({"t": 2}))
    changed = watch()
    assert one.subscriptions(changed) == {"g_one": StreamSubscription({"t": 2})}
    two.register(StreamSubscription({"t": 1}))
    assert changed.is_set()
    changed = watch()
    assert set(one.subscriptions(changed)) == {"g_one", "g_two"}
    two.unregister()
    assert changed.is_set()


def test_missing_topic_has_no_partitions_and_is_watched(server: Any) -> None:
    session, one = member(server, "g_one")
    changed = watch()
    assert one.partitions(["t"], changed) == {"t": []}
    assert not changed.is_set()
    topics.create_topic(session, "t", {0: [1], 1: [1]}, {})
    assert changed.is_set()
    assert one.partitions(["t"], watch()) == {"t": [0, 1]}


def test_empty_topic_node_has_no_partitions_and_is_watched(server: Any) -> None:
    session, one = member(server, "g_one")
    session.create(paths.topic("t"))
    changed = watch()
    assert one.partitions(["t"], changed) == {"t": []}
    session.set(paths.topic("t"), topics.encode_assignment({0: [1]}))
    assert changed.is_set()
    assert one.partitions(["t"], watch()) == {"t": [0]}


def test_brokers_are_watched_before_first_registration(server: Any) -> None:
    session, one = member(server, "g_one")
    changed = watch()
    one.watch_brokers(changed)
    session.create(paths.broker(1), b"{}", ephemeral=True)
    assert changed.is_set()
    session.delete(paths.BROKER_IDS, recursive=True)
    changed = watch()
    one.watch_brokers(changed)
    session.create(paths.BROKER_IDS)
    assert changed.is_set()


def test_claim_takes_all_or_nothing_and_names_blocking_owner(server: Any) -> None:
    session, one = member(server, "g_one")
    _, two = member(server, "g_two")
    for each in (one, two):
        each.register(StreamSubscription({"t": 1}))
    one.claim({("t", 1): "g_one-0"})
    with pytest.raises(ClaimBlocked, match="g_one-0") as blocked:
        two.claim({("t", 0): "g_two-0", ("t", 1): "g_two-0"})
    assert session.exists(paths.owner("g", "t", 0)) is None
    gone = watch()
    assert two.still_blocked(blocked.value, gone)
    one.release([("t", 1)])
    assert gone.is_set()
    assert not two.still_blocked(blocked.value, watch())
    two.claim({("t", 0): "g_two-0", ("t", 1): "g_two-0"})


def test_unregistered_member_cannot_claim(server: Any) -> None:
    session, one = member(server, "g_one")
    with pytest.raises(SessionLost):
        one.claim({("t", 0): "g_one-0"})
    assert session.exists(paths.owner("g", "t", 0)) is None
