"""Offsets by time over a cluster with moving leaders."""

import pytest

from tests.support.logs_cluster import LeaderLog, LogsCluster, log_with
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets, resolve_or_end
from zkbroker.errors import (
    ErrorCode,
    LeaderNotAvailable,
    NetworkError,
    OffsetOutOfRange,
)
from zkbroker.runtime import get_runtime

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def cluster_of(*logs: LeaderLog) -> LogsCluster:
    return LogsCluster(
        get_runtime("threads"), {("t", number): log for number, log in enumerate(logs)}
    )


def test_offsets_are_resolved_at_each_leader():
    cluster = cluster_of(log_with(3), log_with(2, leader=1), log_with(1, start=7))
    times = {T0: LATEST_TIME, T1: LATEST_TIME, T2: EARLIEST_TIME}
    assert resolve_offsets(cluster, times) == {T0: 3, T1: 2, T2: 7}
    assert cluster.refreshed == 0


def test_time_after_last_message_resolves_to_none_or_log_end():
    cluster = cluster_of(log_with(3))
    assert resolve_offsets(cluster, {T0: 99}) == {T0: None}
    assert resolve_or_end(cluster, {T0: 99}) == {T0: 3}


def test_moved_partition_is_resolved_at_new_leader():
    cluster = cluster_of(log_with(3), log_with(2))
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 1, 1
    assert resolve_offsets(cluster, {T0: LATEST_TIME, T1: LATEST_TIME}) == {T0: 3, T1: 2}
    assert cluster.refreshed == 1


def test_hanging_leader_is_left_after_leader_change():
    cluster = cluster_of(log_with(3), log_with(2, leader=1))
    cluster.still.add(0)

    def elect():
        if cluster.refreshed == 2:
            cluster.logs[T0].leader, cluster.logs[T0].epoch = 1, 1

    cluster.on_refresh = elect
    assert resolve_offsets(cluster, {T0: LATEST_TIME, T1: LATEST_TIME}) == {T0: 3, T1: 2}
    assert cluster.refreshed == 3


def test_former_leader_is_rejected_by_leader_epoch():
    cluster = cluster_of(log_with(6))
    log = cluster.logs[T0]
    log.deposed[0] = log_with(2)
    cluster.move(T0, leader=1)
    cluster.take_for_leader(T0, 0)
    assert resolve_offsets(cluster, {T0: LATEST_TIME}) == {T0: 6}
    assert cluster.refreshed == 1


def test_zero_timeout_refreshes_leaders_once():
    log = log_with(1)
    log.leader = None
    cluster = cluster_of(log)
    with pytest.raises(LeaderNotAvailable, match="t-0"):
        resolve_offsets(cluster, {T0: LATEST_TIME}, timeout_s=0)
    assert cluster.refreshed == 1


def test_default_timeout_waits_for_leader():
    cluster = cluster_of(log_with(3), log_with(2))
    log = cluster.logs[T0]
    log.list_offsets_error = ErrorCode.NOT_LEADER_FOR_PARTITION

    def lead() -> None:
        if cluster.refreshed == 3:
            log.list_offsets_error = 0

    cluster.on_refresh = lead
    assert resolve_or_end(cluster, {T0: LATEST_TIME, T1: LATEST_TIME}) == {T0: 3, T1: 2}
    assert cluster.refreshed == 3


def test_error_names_broker_that_is_down():
    cluster = cluster_of(log_with(3))
    cluster.down.add(0)
    with pytest.raises(NetworkError, match="broker 0 is down"):
        resolve_offsets(cluster, {T0: LATEST_TIME}, timeout_s=0)


def test_fatal_list_offsets_error_is_raised_at_once():
    log = log_with(3)
    log.list_offsets_error = ErrorCode.OFFSET_OUT_OF_RANGE
    cluster = cluster_of(log)
    with pytest.raises(OffsetOutOfRange):
        resolve_offsets(cluster, {T0: LATEST_TIME}, timeout_s=20)
    assert cluster.refreshed == 0
