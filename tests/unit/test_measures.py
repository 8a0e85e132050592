"""Counts and histograms of clients; the number of topics and partitions is bounded."""

import random

import pytest

from zkbroker.measures import (
    BOUNDS_MS,
    MAX_PARTITIONS,
    Histogram,
    TopicTable,
    lag_families,
)


def test_duration_is_counted_in_the_first_sufficient_bucket():
    times = Histogram()
    for seconds in (0.0, 0.0001, 0.00011, 0.003, 100.0):
        times.observe(seconds)
    assert times.count == sum(times.buckets) == 5
    assert times.buckets[:2] == [2, 1]
    assert (times.buckets[BOUNDS_MS.index(5)], times.buckets[-1]) == (1, 1)
    assert times.sum_ms == pytest.approx(100_003.21)


def test_observe_all_equals_single_observations():
    chance = random.Random(1)
    many = [0.0, *(bound / 1000 for bound in BOUNDS_MS), 100.0]
    many += [chance.expovariate(50) for _ in range(500)]
    at_once, one_by_one = Histogram(), Histogram()
    for each in many:
        one_by_one.observe(each)
    at_once.observe_all(many[:300])
    at_once.observe_all([])
    at_once.observe_all(reversed(many[300:]))
    assert (at_once.count, at_once.buckets) == (one_by_one.count, one_by_one.buckets)
    assert at_once.sum_ms == pytest.approx(one_by_one.sum_ms)


def test_number_of_topics_and_partitions_is_bounded():
    table = TopicTable(2)
    for number in range(10):
        table.topic(f"t{number}").add(1, 1)
    messages, _ = table.families()
    assert messages.samples == [(("t0",), 1), (("t1",), 1), (("other",), 8)]
    lag, largest = lag_families({("t", number): number for number in range(3000)})
    assert len(lag.samples) == MAX_PARTITIONS
    assert lag.samples[0] == (("t", "2999"), 2999)
    assert largest.samples == [((), 2999)]
    assert [family.samples for family in lag_families({})] == [[], [((), 0)]]
