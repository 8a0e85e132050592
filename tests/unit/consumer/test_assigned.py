"""A consumer of given partitions ends at their stop offsets."""

import pytest

from tests.support.logs_cluster import LeaderLog, LogsCluster, log_with
from tests.support.message_sets import message_set
from zkbroker.consumer import ConsumerTimeout
from zkbroker.consumer.assigned import AssignedConsumer
from zkbroker.errors import OffsetOutOfRange
from zkbroker.runtime import get_runtime


def cluster_of(runtime: str = "threads", *logs: LeaderLog) -> LogsCluster:
    return LogsCluster(get_runtime(runtime), {("t", i): log for i, log in enumerate(logs)})


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_each_partition_is_read_to_its_stop_offset(runtime: str) -> None:
    cluster = cluster_of(runtime, log_with(5, 5), log_with(5, leader=1), log_with())
    with AssignedConsumer(
        cluster,
        {("t", 0): 2, ("t", 1): 0, ("t", 2): 0},
        stop={("t", 0): 8, ("t", 1): 5, ("t", 2): 0},
        runtime=runtime,
    ) as consumer:
        messages = [(m.partition, m.offset) for m in consumer]
    assert [m for m in messages if m[0] == 0] == [(0, offset) for offset in range(2, 8)]
    assert [m for m in messages if m[0] == 1] == [(1, offset) for offset in range(5)]
    assert len(messages) == 11


def test_stop_offset_after_gap_is_reached() -> None:
    # Offsets 3 and 4 were compacted away; the stop is the log end offset 5.
    log = log_with(2)
    log.append(_without_last_records(message_set(2, 3, base=2)))
    with AssignedConsumer(cluster_of("threads", log), {("t", 0): 0}, stop={("t", 0): 5}) as reader:
        assert [m.offset for m in reader] == [0, 1, 2]


def _without_last_records(batch: bytes) -> bytes:
    """Keep the span of offsets of a batch and only its first record, as compaction does."""
    from zkbroker.records import crc32c

    first = message_set(2, 1, base=2)
    kept = bytearray(first)
    kept[23:27] = batch[23:27]  # last offset delta
    kept[17:21] = crc32c(bytes(kept[21:])).to_bytes(4, "big")
    return bytes(kept)


def test_empty_range_ends_immediately() -> None:
    cluster = cluster_of("threads", log_with(3))
    with AssignedConsumer(cluster, {("t", 0): 3}, stop={("t", 0): 3}) as consumer:
        assert list(consumer) == []
    assert cluster.fetches == []


def test_iteration_continues_after_timeout() -> None:
    log = log_with(1)
    with AssignedConsumer(cluster_of("threads", log), {("t", 0): 0}, timeout_ms=40) as consumer:
        seen = []
        with pytest.raises(ConsumerTimeout):
            seen.extend(m.offset for m in consumer)
        log.append(message_set(2, 1, base=1))
        with pytest.raises(ConsumerTimeout):
            for message in consumer:
                seen.append(message.offset)  # noqa: PERF401 - the time-out must not lose it
    assert seen[-1] == 1


def test_offset_outside_log_raises_without_reset_policy() -> None:
    cluster = cluster_of("threads", log_with(3, start=5))
    with (
        AssignedConsumer(cluster, {("t", 0): 0}) as consumer,
        pytest.raises(OffsetOutOfRange, match="5 to 8"),
    ):
        next(iter(consumer))
