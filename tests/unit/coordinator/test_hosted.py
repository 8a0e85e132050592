"""Partitions of an internal topic: led, loading, served, gone."""

import logging

import pytest

from tests.support.inline_runtime import InlineRuntime
from zkbroker.coordinator.hosted import HostedPartition, HostedPartitions
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import ErrorCode, NotLeaderForPartition, StorageError

COUNT = 4
KEY, NUMBER = "a-group", key_partition("a-group", COUNT)


class HostedSetup:
    def __init__(self, led_here=(), failure=None):
        self.runtime = InlineRuntime()
        self.served = []
        self.failure = failure
        self.partitions = HostedPartitions(
            "__internal",
            self.read,
            self.served.append,
            runtime=self.runtime,
            partition_count=lambda: COUNT,
            led_here=lambda number: number in led_here,
        )

    def read(self, partition):
        if self.failure is not None:
            raise self.failure
        return 3

    def error(self):
        return self.partitions.find(KEY)[1]


def test_partition_is_served_once_loaded():
    host = HostedSetup()
    partition = HostedPartition(NUMBER)
    assert host.error() is ErrorCode.NOT_COORDINATOR
    host.partitions.host(partition)
    assert host.error() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert host.partitions.loaded() == []
    host.runtime.run("load-__internal")
    assert host.partitions.find(KEY) == (partition, ErrorCode.NONE)
    assert host.served == host.partitions.loaded() == [partition]
    assert host.partitions.release(NUMBER) is partition
    assert host.error() is ErrorCode.NOT_COORDINATOR
    assert host.partitions.release(NUMBER) is None


def test_led_but_unhosted_partition_counts_as_loading():
    host = HostedSetup(led_here={NUMBER})
    assert host.error() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    host.partitions.host(HostedPartition(NUMBER))
    host.partitions.release(NUMBER)
    # The view of the cluster may lag behind the release.
    assert host.error() is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("failure", "level", "event"),
    [
        (StorageError("disk"), logging.ERROR, "loading failed"),
        (NotLeaderForPartition("moved"), logging.INFO, "loading ends"),
    ],
)
def test_unreadable_partition_is_never_served(caplog, failure, level, event):
    caplog.set_level(logging.INFO)
    host = HostedSetup(failure=failure)
    host.partitions.host(HostedPartition(NUMBER))
    host.runtime.run("load-")
    assert host.error() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert host.served == []
    (record,) = caplog.records
    assert record.levelno == level
    assert event in record.message


def test_failed_load_is_repeated_until_the_partition_is_released():
    host = HostedSetup(failure=StorageError("Too many open files"))
    partition = HostedPartition(NUMBER)
    host.partitions.host(partition)
    for _ in range(3):
        host.runtime.run("load-")
        assert host.error() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    host.failure = None
    host.runtime.run("load-")
    assert host.partitions.find(KEY) == (partition, ErrorCode.NONE)
    host.failure = StorageError("Too many open files")
    host.partitions.host(HostedPartition(NUMBER))
    host.partitions.release(NUMBER)
    host.runtime.run("load-")
    assert host.runtime.tasks == []


def test_load_finished_after_release_is_ignored():
    host = HostedSetup()
    earlier, later = HostedPartition(NUMBER), HostedPartition(NUMBER)
    host.partitions.host(earlier)
    host.partitions.release(NUMBER)
    host.partitions.host(later)
    first, second = (task for _, task in host.runtime.tasks)
    first()
    assert not host.partitions.holds(earlier)
    assert host.served == []
    second()
    assert host.served == [later]
