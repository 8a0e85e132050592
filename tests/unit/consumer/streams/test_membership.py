"""Partitions of one member: the order of its steps, and commits."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from tests.support.message_sets import message_set
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer import ConsumerTimeout, KafkaStream
from zkbroker.consumer.fetching.fetchers import Fetchers
from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition
from zkbroker.consumer.streams.membership import Membership
from zkbroker.consumer.streams.offset_keeper import OffsetKeeper
from zkbroker.errors import RegistryError
from zkbroker.runtime import get_runtime

T0, T1 = ("t", 0), ("t", 1)


class FetchersAndOffsets:
    """Fetchers and offsets that record their calls."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, int], int] = {}
        self.commits: list[dict[tuple[str, int], int]] = []
        self.failures = 0
        self.fetched: list[ConsumedPartition] = []

    def start(self, partitions: Iterable[ConsumedPartition]) -> None:
        self.fetched = list(partitions)

    def read(
        self, partitions: Iterable[tuple[str, int]], timeout_s: float
    ) -> dict[tuple[str, int], int | None]:
        return {key: self.offsets.get(key) for key in partitions}

    def commit(
        self, offsets: Mapping[tuple[str, int], int], timeout_s: float
    ) -> set[tuple[str, int]]:
        if self.failures:
            self.failures -= 1
            raise RegistryError("no ZooKeeper")
        self.commits.append(dict(offsets))
        return set()


class MemberSetup:
    def __init__(self, **settings: Any) -> None:
        self.fakes = FetchersAndOffsets()
        runtime = get_runtime("threads")
        self.stream = KafkaStream(runtime, timeout_ms=0)
        chosen = {"rebalance_drain_ms": 0, **settings}
        self.member = Membership(
            config=ConsumerConfig(group_id="g", zookeeper_connect="z", **chosen),
            runtime=runtime,
            fetchers=cast("Fetchers", self.fakes),
            keeper=cast("OffsetKeeper", self.fakes),
            streams=[self.stream],
            stream_for=lambda topic, thread: self.stream,
        )

    def own(self, *keys: tuple[str, int]) -> None:
        owned = dict.fromkeys(keys, 0)
        self.member.load(owned)
        self.member.start(owned)

    def feed(self, key: tuple[str, int], count: int) -> None:
        partition = self.member.partition(key)
        assert partition is not None
        offset = partition.fetch_offset or 0
        records = message_set(2, count, base=offset)
        partition.add(Chunk(partition, partition.progress, offset, offset + count, records))


def test_stop_commits_processed_messages_without_message_in_hand() -> None:
    setup = MemberSetup()
    setup.fakes.offsets = {T0: 5}
    setup.own(T0, T1)
    setup.feed(T0, 10)
    assert [next(setup.stream).offset for _ in range(3)] == [5, 6, 7]
    setup.member.stop()
    setup.member.commit()
    # Partition 1 has no known position yet: the reset is still to come.
    assert setup.fakes.commits == [{T0: 7}]
    assert setup.member.owned() == {}
    with pytest.raises(ConsumerTimeout):
        next(setup.stream)


@pytest.mark.parametrize(("in_hand", "committed"), [(True, 7), (False, 6)])
def test_message_in_hand_is_committed_at_shutdown_on_request(in_hand: bool, committed: int) -> None:
    setup = MemberSetup()
    setup.fakes.offsets = {T0: 5}
    setup.own(T0)
    setup.feed(T0, 10)
    next(setup.stream)
    next(setup.stream)
    setup.member.close(in_hand=in_hand)
    setup.member.stop()
    setup.member.commit()
    assert setup.fakes.commits == [{T0: committed}]


def test_message_processed_during_stop_is_committed() -> None:
    setup = MemberSetup(rebalance_drain_ms=10_000)
    setup.fakes.offsets = {T0: 0}
    setup.own(T0)
    setup.feed(T0, 3)
    assert next(setup.stream).offset == 0
    runtime = get_runtime("threads")
    stopped = runtime.spawn(setup.member.stop, name="stop")
    while not setup.stream._paused:
        runtime.sleep(0.001)
    with pytest.raises(ConsumerTimeout):
        next(setup.stream)
    assert stopped.join(10)
    setup.member.commit()
    assert setup.fakes.commits == [{T0: 1}]


def test_rebalance_without_auto_commit_commits_nothing() -> None:
    setup = MemberSetup(auto_commit_enable=False)
    setup.fakes.offsets = {T0: 5}
    setup.own(T0)
    setup.feed(T0, 2)
    next(setup.stream)
    next(setup.stream)
    setup.member.stop()
    setup.member.commit()
    assert setup.fakes.commits == []


def test_dropped_ownership_is_neither_delivered_nor_committed() -> None:
    setup = MemberSetup()
    setup.own(T0)
    setup.feed(T0, 10)
    next(setup.stream)
    setup.member.pause()
    setup.member.drop()
    assert setup.member.owned() == {}
    with pytest.raises(ConsumerTimeout):
        next(setup.stream)
    setup.member.stop()
    setup.member.commit()
    assert setup.fakes.commits == []
    setup.own(T0)
    setup.feed(T0, 1)
    assert next(setup.stream).offset == 0


def test_drop_between_load_and_start_forgets_partitions() -> None:
    setup = MemberSetup()
    setup.member.load({T0: 0})
    assert setup.member.partition(T0) is not None
    setup.member.drop()
    assert setup.member.partition(T0) is None


def test_failed_commit_is_retried_only_at_shutdown() -> None:
    for closing, commits in ((False, []), (True, [{T0: 1}])):
        setup = MemberSetup(offsets_commit_max_retries=3, offsets_channel_backoff_ms=10)
        setup.fakes.failures = 2
        setup.fakes.offsets = {T0: 0}
        setup.own(T0)
        setup.feed(T0, 1)
        next(setup.stream)
        with pytest.raises(ConsumerTimeout):
            next(setup.stream)
        if closing:
            setup.member.close(in_hand=True)
        setup.member.stop()
        setup.member.commit()
        assert setup.fakes.commits == commits


def test_session_pause_outlasts_rebalance() -> None:
    setup = MemberSetup()
    setup.member.stop()
    setup.member.pause()
    setup.own(T0)
    setup.feed(T0, 1)
    with pytest.raises(ConsumerTimeout):
        next(setup.stream)
    setup.member.resume()
    assert next(setup.stream).offset == 0
