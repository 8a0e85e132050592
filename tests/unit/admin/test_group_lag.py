"""The lag of a group, with partitions that have no commit or no leader."""

from typing import Any

import pytest

from zkbroker.admin import group_lag
from zkbroker.admin.group_lag import GroupPosition, LagSum, locate, sum_lag
from zkbroker.client.list_offsets import EARLIEST_TIME
from zkbroker.client.view import PartitionInfo


def test_lag_sum_counts_each_partition_once() -> None:
    total = sum_lag(
        [
            GroupPosition(5, 0, 8),
            GroupPosition(9, 0, 8),
            GroupPosition(None, 2, 42),
            GroupPosition(None, 0, 0),
            GroupPosition(5),
            GroupPosition(None),
        ]
    )
    assert total == LagSum(3, 2, 40, 2, 2)
    assert total.not_counted == (
        "40 messages in 2 partitions without a commit, 2 partitions without a leader"
    )


def test_not_counted_is_empty_for_complete_sum() -> None:
    assert sum_lag([GroupPosition(5, 0, 8)]).not_counted == ""
    one = sum_lag([GroupPosition(None, 0, 1)])
    assert one.not_counted == "1 message in 1 partition without a commit"


def test_locate_covers_all_partitions_of_group_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaders = {("t", 0): 1, ("t", 1): 1, ("t", 2): None, ("u", 0): 1}

    class Cluster:
        def refresh(self, topics: list[str]) -> None:
            assert topics == ["gone", "t", "u"]

        def known_partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
            return tuple(PartitionInfo(*key, leaders[key]) for key in leaders if key[0] == topic)

        def leader(self, topic: str, partition: int) -> int | None:
            return leaders.get((topic, partition))

    def resolve(_: Any, times: dict[Any, int]) -> dict[Any, int]:
        return {key: 2 if time == EARLIEST_TIME else 9 for key, time in times.items()}

    monkeypatch.setattr(group_lag, "resolve_offsets", resolve)
    cluster: Any = Cluster()
    assert locate(cluster, {("t", 0): 4, ("gone", 7): 1}, {("t", 1): "m"}, ["u"]) == {
        ("gone", 7): GroupPosition(1),
        ("t", 0): GroupPosition(4, None, 9),
        ("t", 1): GroupPosition(None, 2, 9, "m"),
        ("t", 2): GroupPosition(None),
        ("u", 0): GroupPosition(None, 2, 9),
    }
