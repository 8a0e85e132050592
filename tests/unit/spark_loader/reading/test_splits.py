"""Offset ranges are split into pieces and mappers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.splits import (
    OffsetRange,
    balance,
    cap_records,
    divide,
    proportional,
    split_for_loading,
    split_for_reading,
)

ranges = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 500), st.integers(0, 100_000)), max_size=8
).map(
    lambda each: [
        OffsetRange("t", index, start, start + size, size_bytes)
        for index, (start, size, size_bytes) in enumerate(each)
    ]
)


def covered(pieces):
    found = {}
    for each in sorted(pieces, key=lambda r: (r.partition, r.start)):
        assert each.size > 0
        if each.partition in found:
            start, until = found[each.partition]
            assert until == each.start
            found[each.partition] = (start, each.until)
        else:
            found[each.partition] = (each.start, each.until)
    return found


def whole(given_ranges):
    return {each.partition: (each.start, each.until) for each in given_ranges if each.size}


@settings(deadline=None, derandomize=True)
@given(ranges, st.none() | st.integers(1, 20), st.none() | st.integers(1, 200))
def test_read_pieces_cover_ranges_exactly(wanted, min_partitions, max_records):
    pieces = split_for_reading(wanted, min_partitions=min_partitions, max_records=max_records)
    assert covered(pieces) == whole(wanted)
    if max_records:
        assert all(each.size <= max_records for each in pieces)
    if min_partitions and pieces:
        offsets = sum(each.size for each in wanted)
        assert len(pieces) >= min(min_partitions, offsets, len(pieces))


@settings(deadline=None, derandomize=True)
@given(ranges, st.integers(1, 50_000), st.integers(0, 50_000))
def test_mappers_cover_ranges_and_respect_split_size(wanted, split, group):
    mappers = split_for_loading(wanted, split_bytes=split, group_bytes=group)
    assert all(mappers)
    assert covered([each for mapper in mappers for each in mapper]) == whole(wanted)
    pieces = {}
    for mapper in mappers:
        assert len({each.partition for each in mapper}) == len(mapper)
        for each in mapper:
            pieces[each.partition] = pieces.get(each.partition, 0) + 1
    for each in wanted:
        if each.size and not (group and each.estimated_bytes * 2 <= group):
            assert pieces[each.partition] == min(each.size, -(-each.estimated_bytes // split) or 1)


def test_medium_partitions_get_one_mapper_each():
    wanted = [OffsetRange("t", index, 0, 100, 1000) for index in range(5)]
    assert len(split_for_loading(wanted, split_bytes=1 << 30, group_bytes=0)) == 5


def test_large_partitions_are_split_and_small_ones_grouped():
    wanted = [OffsetRange("t", 0, 0, 1000, 100_000)]
    wanted += [OffsetRange("t", index, 0, 10, 1000) for index in range(1, 11)]
    mappers = split_for_loading(wanted, split_bytes=25_000, group_bytes=5000)
    split = [mapper for mapper in mappers if mapper[0].partition == 0]
    assert [mapper[0].size for mapper in split] == [250] * 4
    grouped = [mapper for mapper in mappers if mapper[0].partition != 0]
    assert [len(mapper) for mapper in grouped] == [5, 5]


def test_min_partitions_cuts_in_proportion_to_bytes():
    wanted = [OffsetRange("t", 0, 0, 900, 900), OffsetRange("t", 1, 0, 100, 100)]
    pieces = split_for_reading(wanted, min_partitions=10)
    assert [each.partition for each in pieces] == [0] * 9 + [1]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=10), st.integers(1, 50))
def test_proportional_shares_are_positive_and_add_up(weights, total):
    shares = proportional(weights, total)
    assert all(share >= 1 for share in shares)
    if sum(weights) > 0 and total >= len(weights):
        assert sum(shares) >= total or sum(shares) == len(weights)


@settings(deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 1000)), min_size=1, max_size=10),
    st.integers(1, 3000),
)
def test_record_cap_is_exact_and_shared_by_lag(given_lags, most):
    start = {TopicPartition("t", i): first for i, (first, _) in enumerate(given_lags)}
    until = {TopicPartition("t", i): first + lag for i, (first, lag) in enumerate(given_lags)}
    capped = cap_records(start, until, most)
    assert all(start[tp] <= capped[tp] <= until[tp] for tp in until)
    total = sum(lag for _, lag in given_lags)
    assert sum(capped[tp] - start[tp] for tp in until) == min(most, total)
    waiting = [tp for tp in until if until[tp] > start[tp]]
    if most >= len(waiting):
        assert all(capped[tp] > start[tp] for tp in waiting)


def test_single_offset_is_not_divided():
    assert divide(OffsetRange("t", 0, 5, 6, 100), 10) == [OffsetRange("t", 0, 5, 6, 100)]


def test_balanced_groups_have_even_weight():
    wanted = [OffsetRange("t", index, 0, 1, size) for index, size in enumerate([7, 5, 4, 3, 2, 1])]
    sizes = [sum(each.estimated_bytes for each in group) for group in balance(wanted, 2)]
    assert sorted(sizes) == [11, 11]


def test_partition_with_many_compressed_records_is_not_grouped():
    many = [OffsetRange("t", p, 0, 100_000, 1000) for p in range(3)]
    few = [OffsetRange("t", p, 0, 100, 1000) for p in range(3, 6)]
    mappers = split_for_loading([*many, *few], split_bytes=1 << 30, group_bytes=1 << 20)
    assert sorted(len(each) for each in mappers) == [1, 1, 1, 3]
