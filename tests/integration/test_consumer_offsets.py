"""Conditional commits in a real ZooKeeper."""

import pytest

from zkbroker.consumer.streams.zookeeper_offsets import ZooKeeperOffsets
from zkbroker.registry import group_offsets, groups
from zkbroker.registry.groups import StreamSubscription
from zkbroker.zookeeper import ZkSession

T0, T1 = ("t", 0), ("t", 1)


def member(zk: ZkSession, name: str) -> ZooKeeperOffsets:
    groups.register_consumer(zk, "g", name, StreamSubscription({"t": 1}))
    return ZooKeeperOffsets(zk, "g", name)


def committed(zk: ZkSession, *keys: tuple[str, int]) -> dict[tuple[str, int], int]:
    return {key: offset for key, (offset, _) in group_offsets.read_offsets(zk, "g", keys).items()}


def test_offsets_are_stored_as_jvm_members_store_them(zk: ZkSession) -> None:
    offsets = member(zk, "g_a")
    assert offsets.read([T0, T1]) == {T0: None, T1: None}
    assert offsets.commit({T0: 5, T1: 70}) == set()
    assert offsets.commit({T0: 6}) == set()
    assert zk.get("/consumers/g/offsets/t/0")[0] == b"6"
    assert zk.get("/consumers/g/offsets/t/1")[0] == b"70"
    assert offsets.read([T0, T1]) == {T0: 6, T1: 70}


@pytest.mark.parametrize("first_commit", [True, False])
def test_replaced_member_cannot_overwrite_offset(zk: ZkSession, first_commit: bool) -> None:
    zombie, successor = member(zk, "g_a"), member(zk, "g_b")
    zombie.read([T0])
    if first_commit:
        zombie.commit({T0: 5})
    # The zombie sleeps beyond its session; its partition moves on.
    groups.claim(zk, "g", "g_b", {T0: "g_b-0"})
    successor.read([T0])
    successor.commit({T0: 90})
    assert zombie.commit({T0: 7}) == {T0}
    assert committed(zk, T0) == {T0: 90}
    assert successor.commit({T0: 91}) == set()


def test_refused_partition_does_not_block_others(zk: ZkSession) -> None:
    offsets = member(zk, "g_a")
    offsets.read([T0, T1])
    group_offsets.commit_offset(zk, "g", "t", 0, 50)
    assert offsets.commit({T0: 1, T1: 2}) == {T0}
    assert committed(zk, T0, T1) == {T0: 50, T1: 2}
