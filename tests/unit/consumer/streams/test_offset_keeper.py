"""The owner loop of a member's offsets: reads and writes of each storage."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import pytest

from zkbroker.client.group_offsets import CoordinatorOffsets
from zkbroker.consumer.streams.offset_keeper import OffsetKeeper
from zkbroker.consumer.streams.zookeeper_offsets import ZooKeeperOffsets
from zkbroker.errors import ClientError, RegistryError
from zkbroker.runtime import get_runtime

T0, T1 = ("t", 0), ("t", 1)


class Storage:
    def __init__(self, **offsets: int) -> None:
        self.offsets = {("t", int(name[1:])): offset for name, offset in offsets.items()}
        self.writes: list[dict[tuple[str, int], int]] = []
        self.refuses: set[tuple[str, int]] = set()
        self.error: RegistryError | None = None
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    def read(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
        return {key: self.offsets.get(key) for key in partitions}

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> set[tuple[str, int]]:
        self.asked.set()
        self.answers.wait(60)
        if self.error is not None:
            raise self.error
        self.writes.append(dict(offsets))
        self.offsets.update({k: v for k, v in offsets.items() if k not in self.refuses})
        return self.refuses & set(offsets)

    def forget(self) -> None:
        pass


made: list[OffsetKeeper] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while made:
        made.pop().close(10)


def keeper(zookeeper: Storage | None, kafka: Storage | None, **options: Any) -> OffsetKeeper:
    one = OffsetKeeper(
        cast("ZooKeeperOffsets | None", zookeeper),
        cast("CoordinatorOffsets | None", kafka),
        runtime=get_runtime(options.pop("runtime", "threads")),
        interval_ms=options.pop("interval_ms", None),
        positions=options.pop("positions", dict),
        earlier=cast("ZooKeeperOffsets | None", options.pop("earlier", None)),
    )
    made.append(one)
    return one


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_unchanged_offset_is_written_once(runtime: str) -> None:
    storage = Storage(p0=3)
    one = keeper(storage, None, runtime=runtime)
    assert one.read([T0, T1], 10) == {T0: 3, T1: None}
    for offsets in ({T0: 3}, {T0: 4, T1: 1}, {T0: 4, T1: 1}, {T0: 5, T1: 1}):
        assert one.commit(offsets, 10) == set()
    assert storage.writes == [{T0: 4, T1: 1}, {T0: 5}]
    assert one.close(10)


def test_dual_commit_starts_at_larger_offset() -> None:
    zookeeper, kafka = Storage(p0=10, p1=5), Storage(p0=7, p1=6)
    one = keeper(zookeeper, kafka)
    assert one.read([T0, T1, ("t", 2)], 10) == {T0: 10, T1: 6, ("t", 2): None}
    assert zookeeper.offsets == kafka.offsets == {T0: 10, T1: 6}
    one.commit({T0: 11, T1: 6}, 10)
    assert zookeeper.offsets == kafka.offsets == {T0: 11, T1: 6}
    assert zookeeper.writes == [{T1: 6}, {T0: 11}]
    assert kafka.writes == [{T0: 10}, {T0: 11}]


def test_failed_storage_is_written_by_next_commit() -> None:
    zookeeper, kafka = Storage(p0=10), Storage()
    kafka.error = RegistryError("away")
    one = keeper(zookeeper, kafka)
    assert one.read([T0], 10) == {T0: 10}
    kafka.error = None
    one.commit({T0: 10}, 10)
    assert kafka.offsets == {T0: 10}
    assert zookeeper.writes == []


def test_missing_broker_offset_falls_back_to_zookeeper(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka, earlier = Storage(p0=7), Storage(p0=3, p1=5)
    one = keeper(None, kafka, earlier=earlier)
    assert one.read([T0, T1, ("t", 2)], 10) == {T0: 7, T1: 5, ("t", 2): None}
    assert kafka.offsets == {T0: 7, T1: 5}
    assert earlier.writes == []
    assert ["partition=1 offset=5" in text for text in caplog.messages] == [True]


def test_offset_refused_by_zookeeper_is_not_written_to_brokers() -> None:
    zookeeper, kafka = Storage(), Storage()
    zookeeper.refuses = {T0}
    assert keeper(zookeeper, kafka).commit({T0: 1, T1: 2}, 10) == {T0}
    assert kafka.writes == [{T1: 2}]


def test_broker_storage_alone_does_not_write_zookeeper() -> None:
    kafka = Storage(p0=7)
    one = keeper(None, kafka)
    assert one.read([T0], 10) == {T0: 7}
    one.commit({T0: 8}, 10)
    assert kafka.writes == [{T0: 8}]


def test_storage_error_is_raised_and_next_commit_retries() -> None:
    storage = Storage()
    storage.error = RegistryError("no ZooKeeper")
    one = keeper(storage, None)
    with pytest.raises(RegistryError, match="no ZooKeeper"):
        one.commit({T0: 1}, 10)
    storage.error = None
    one.commit({T0: 1}, 10)
    assert storage.offsets == {T0: 1}


def test_commit_whose_caller_gave_up_while_it_waited_is_not_made() -> None:
    kafka = Storage()
    one = keeper(None, kafka)
    kafka.answers.clear()
    under_way = threading.Thread(target=one.commit, args=({T0: 1}, 60))
    under_way.start()
    assert kafka.asked.wait(60)
    with pytest.raises(ClientError, match="did not answer within"):
        one.commit({T0: 2}, 0.01)
    kafka.answers.set()
    under_way.join()
    assert one.close(10)
    assert kafka.writes == [{T0: 1}]


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_automatic_commits_continue_after_failure(runtime: str) -> None:
    storage = Storage()
    storage.error = RegistryError("no ZooKeeper")
    asked = []

    def positions() -> dict[tuple[str, int], int]:
        asked.append(1)
        if len(asked) > 2:
            storage.error = None
        return {T0: 42}

    one = keeper(storage, None, interval_ms=1, positions=positions, runtime=runtime)
    sleep = get_runtime(runtime).sleep
    while storage.offsets != {T0: 42}:
        sleep(0.001)
    assert one.close(10)


def test_closed_keeper_finishes_pending_requests_and_refuses_new() -> None:
    storage = Storage()
    one = keeper(storage, None)
    one.commit({T0: 1}, 10)
    assert one.close(10)
    with pytest.raises(ClientError, match="shut down"):
        one.commit({T0: 2}, 10)
