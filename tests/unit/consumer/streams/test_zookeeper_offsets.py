"""Offsets in ZooKeeper, with other members and tools that write beside this one."""

from typing import Any

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.consumer.streams.zookeeper_offsets import ZooKeeperOffsets
from zkbroker.registry import paths
from zkbroker.registry.group_offsets import commit_offset

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def session() -> InstantSession:
    return InstantSession()


def own(session: Any, partition: int, consumer_id: str) -> None:
    path = paths.owner("g", "t", partition)
    if path in session.server.nodes:
        session.delete(path)
    session.create(path, f"{consumer_id}-0".encode(), ephemeral=True, parents=True)


def offsets(session: Any, consumer_id: str = "g_me") -> ZooKeeperOffsets:
    return ZooKeeperOffsets(session, "g", consumer_id)


def test_committed_offset_is_read_by_another_member(session: InstantSession) -> None:
    mine = offsets(session)
    assert mine.read([T0, T1]) == {T0: None, T1: None}
    assert mine.commit({T0: 5}) == set()
    assert mine.commit({T0: 6}) == set()
    assert offsets(session, "g_you").read([T0, T1]) == {T0: 6, T1: None}
    assert mine.commit({}) == set()


def test_former_owner_cannot_overwrite_offset(session: InstantSession) -> None:
    mine, successor = offsets(session), offsets(session, "g_you")
    mine.read([T0])
    mine.commit({T0: 5})
    own(session, 0, "g_you")
    successor.read([T0])
    successor.commit({T0: 9})
    assert mine.commit({T0: 6}) == {T0}
    assert successor.read([T0]) == {T0: 9}


def test_owner_overwrites_offset_of_tool(session: Any) -> None:
    mine = offsets(session)
    own(session, 0, "g_me")
    mine.read([T0])
    mine.commit({T0: 5})
    commit_offset(session, "g", "t", 0, 2)
    assert mine.commit({T0: 6}) == set()
    assert mine.read([T0]) == {T0: 6}


def test_forgotten_versions_are_read_again(session: InstantSession) -> None:
    mine = offsets(session)
    mine.commit({T0: 5})
    mine.forget()
    assert mine.commit({T0: 6, T1: 1}) == set()
    assert mine.read([T0, T1]) == {T0: 6, T1: 1}
