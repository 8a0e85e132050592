"""Cuts are moved to places where a log may be cut."""

import pytest

from spark_loader.reading.cuts import at_cuts, split_at_cuts
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.splits import OffsetRange, divide
from zkbroker.types import Partition07

ONE, TWO = TopicPartition("t", Partition07(0, 0)), TopicPartition("t", Partition07(0, 1))


class ViewWithCuts:
    def __init__(self, *cuts):
        self._cuts = cuts

    def cuts(self, source):
        return list(self._cuts) if self._cuts else None

    def last_cut(self, source, start, wanted):
        return max(at for at in self._cuts if at <= wanted)


def pieces(parts, size=1000, start=0):
    return divide(OffsetRange("t", ONE.partition, start, size, size), parts)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("cuts", [(0, 250, 400, 1000), (0, 990), (0,), (0, 1, 2, 3)])
def test_pieces_stay_contiguous_and_begin_at_cuts(parts, cuts):
    moved = split_at_cuts(ViewWithCuts(*cuts), pieces(parts))
    assert (moved[0].start, moved[-1].until) == (0, 1000)
    assert [each.until for each in moved[:-1]] == [each.start for each in moved[1:]]
    assert all(each.size > 0 for each in moved)
    assert {each.start for each in moved} <= set(cuts)
    assert len(moved) <= parts


def test_pieces_are_unchanged_without_cuts():
    given = [*pieces(3), OffsetRange("t", TWO.partition, 5, 9)]
    assert split_at_cuts(ViewWithCuts(), given) == given


def test_partitions_are_cut_independently():
    given = [*pieces(2), OffsetRange("t", TWO.partition, 500, 600)]
    moved = split_at_cuts(ViewWithCuts(0, 100), given)
    assert [(each.source, each.start, each.until) for each in moved] == [
        (ONE, 0, 100),
        (ONE, 100, 1000),
        (TWO, 500, 600),
    ]


def test_ends_of_non_empty_ranges_move_to_cuts():
    ends = at_cuts(ViewWithCuts(0, 30, 60), {ONE: 0, TWO: 44}, {ONE: 50, TWO: 44})
    assert ends == {ONE: 30, TWO: 44}
