"""Committed offsets in the metrics, within a limit."""

from types import SimpleNamespace

from tests.support.memory_log import MemoryLog
from zkbroker.coordinator.groups.group import GroupState
from zkbroker.coordinator.groups.metrics import group_metrics
from zkbroker.coordinator.groups.offsets import OffsetsStore
from zkbroker.protocol.offsets_topic import OffsetValue


def partition(**groups):
    """A hosted partition with groups: name → members and how many partitions it committed."""
    store = OffsetsStore(MemoryLog())
    for name, (_, count) in groups.items():
        offsets = {
            ("t", number): OffsetValue(offset=number, metadata="", commit_timestamp_ms=1)
            for number in range(count)
        }
        if offsets:
            store.commit(name, offsets, 1)
    return SimpleNamespace(
        store=store,
        groups={
            name: SimpleNamespace(
                group_id=name,
                members=members,
                state=GroupState.STABLE if members else GroupState.EMPTY,
            )
            for name, (members, _) in groups.items()
        },
    )


def test_groups_with_members_are_listed_first_and_whole():
    hosted = [partition(a=([], 2), z=(["m"], 2)), partition(b=([], 3), c=([], 0))]
    found = group_metrics(hosted, 4)
    assert found.committed == {"z": {("t", 0): 0, ("t", 1): 1}, "a": {("t", 0): 0, ("t", 1): 1}}
    assert found.left_out == 1
    assert found.states[GroupState.EMPTY] == 3
    assert found.states[GroupState.STABLE] == 1
    assert found.states[GroupState.DEAD] == 0


def test_limit_of_zero_lists_no_offsets():
    found = group_metrics([partition(a=(["m"], 1))], 0)
    assert (found.committed, found.left_out) == ({}, 1)
