"""Subscriptions and bounds are resolved into partitions and offsets."""

import pytest

from spark_loader.reading.positions import (
    EARLIEST,
    EARLIEST_BOUND,
    LATEST,
    LATEST_BOUND,
    AtOffsets,
    AtTime,
    AtTimes,
    TopicPartition,
    TopicSelection,
)
from spark_loader.reading.resolve import NoOffsetForTime, estimate_bytes, find_partitions, resolve
from tests.support.directory_cluster import DirectoryCluster
from tests.support.loading import AT
from zkbroker.errors import ConfigError, UnknownTopicOrPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def view(tmp_path):
    cluster = DirectoryCluster(str(tmp_path))
    cluster.append("t", 0, [b"x"] * 10, per_batch=5)
    cluster.append("t", 1, [b"x"] * 4, timestamp_ms=AT - 1000)
    cluster.append("u", 0, [b"x"])
    cluster.delete_before("t", 0, 5)
    return cluster.view(None)


def resolved(view, bound, *, latest_when_no_time_matches=False):
    return resolve(
        bound,
        [T0, T1],
        view,
        option="startingOffsets",
        latest_when_no_time_matches=latest_when_no_time_matches,
    )


def test_subscription_selects_partitions(view):
    assert find_partitions(TopicSelection(subscribe=("u", "t")), view) == [T0, T1, U0]
    assert find_partitions(TopicSelection(pattern="t|v"), view) == [T0, T1]
    assert find_partitions(TopicSelection(assign=(T1,)), view) == [T1]
    with pytest.raises(UnknownTopicOrPartition, match="t-7"):
        find_partitions(TopicSelection(assign=(T1, TopicPartition("t", 7))), view)


def test_earliest_and_latest_become_offsets(view):
    assert resolved(view, EARLIEST_BOUND) == {T0: 5, T1: 0}
    assert resolved(view, LATEST_BOUND) == {T0: 10, T1: 4}
    assert resolved(view, AtOffsets({T0: EARLIEST, T1: LATEST})) == {T0: 5, T1: 4}
    assert resolved(view, AtOffsets({T0: 7, T1: 1})) == {T0: 7, T1: 1}


def test_bound_must_name_every_partition(view):
    with pytest.raises(ConfigError, match="-1 stands for latest"):
        resolved(view, AtOffsets({T0: 7}))
    with pytest.raises(ConfigError, match="startingOffsetsByTimestamp"):
        resolved(view, AtTimes({T0: AT}))


def test_time_after_last_record_is_refused_unless_latest_allowed(view):
    with pytest.raises(NoOffsetForTime, match=f"{AT} ms in t-1"):
        resolved(view, AtTime(AT))
    found = resolved(view, AtTime(AT), latest_when_no_time_matches=True)
    assert found[T1] == 4
    assert resolved(view, AtTimes({T0: AT, T1: AT - 1000}))[T1] == 0


def test_bytes_are_estimated_per_topic(view):
    sizes = estimate_bytes(view, {T0: 5, T1: 4, U0: 0}, {T0: 10, T1: 4, U0: 1})
    assert sizes[T0] > 0 < sizes[U0]
    assert sizes[T1] == 0
