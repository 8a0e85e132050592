"""The short way to append has the effects of the general way, or none."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import message_set, started
from tests.support.replicas import decided
from zkbroker.errors import NotLeaderForPartition, ProtocolError
from zkbroker.log import TopicPartition
from zkbroker.replica.delayed import DelayedOperation
from zkbroker.replica.leadership import LeaderSettings
from zkbroker.replica.partition import Partition
from zkbroker.replica.plain_append import append_plain
from zkbroker.runtime import get_runtime

KEY = TopicPartition("t", 0)
ANY_MAGIC = 0b111


@pytest.fixture
def lead(tmp_path: Path) -> Any:
    """Return a function that makes a leading partition over a real log."""
    with started(tmp_path, runtime="gevent") as manager:

        def make(replicas: tuple[int, ...] = (1,), runtime: str = "gevent") -> Partition:
            made = Partition(KEY, 1, runtime=get_runtime(runtime), settings=LeaderSettings())
            made.open(manager.get_or_create(KEY), 0)
            made.become_leader(decided(1, 3, replicas, replicas))
            return made

        yield make


def plain_set(count: int = 3, **more: Any) -> memoryview:
    return memoryview(bytearray(message_set(count, **more)))


def test_plain_set_is_appended_and_visible_at_once(lead: Any) -> None:
    partition = lead()
    leadership = partition.leading
    result = append_plain(leadership, plain_set(), ANY_MAGIC, 1)
    assert (result.base_offset, result.last_offset, result.count) == (0, 2, 3)
    assert partition.high_watermark == partition.log_end_offset == 3
    assert leadership.safe(result.last_offset, -1)


def test_append_wakes_waiting_operations(lead: Any) -> None:
    leadership = lead().leading
    operations = [DelayedOperation(get_runtime("gevent")) for _ in range(2)]
    leadership.waiters.watch_appends(operations[0])
    leadership.waiters.watch_high_watermark(operations[1])
    append_plain(leadership, plain_set(), ANY_MAGIC, 1)
    assert [each.sleep(leadership.replica.runtime.clock_ms() + 1000) for each in operations] == [
        True,
        True,
    ]


def test_high_watermark_waits_for_other_replicas(lead: Any) -> None:
    partition = lead((1, 2))
    append_plain(partition.leading, plain_set(), ANY_MAGIC, -1)
    assert (partition.high_watermark, partition.log_end_offset) == (0, 3)


def test_append_is_left_to_general_way_while_lock_is_held(lead: Any) -> None:
    leadership = lead().leading
    for lock in (leadership.replica.lock, leadership.log.lock):
        with lock:
            assert append_plain(leadership, plain_set(), ANY_MAGIC, 1) is None
    assert leadership.log.log_end_offset == 0


def test_append_is_left_to_general_way_on_threads(lead: Any) -> None:
    leadership = lead(runtime="threads").leading
    assert append_plain(leadership, plain_set(), ANY_MAGIC, 1) is None


def test_append_is_left_to_general_way_with_too_few_replicas(lead: Any) -> None:
    leadership = lead().leading
    leadership.isr.members = ()
    assert append_plain(leadership, plain_set(), ANY_MAGIC, -1) is None
    assert append_plain(leadership, plain_set(), ANY_MAGIC, 1) is not None


def test_superseded_leader_keeps_high_watermark(lead: Any) -> None:
    partition = lead()
    partition.leading.isr.superseded = True
    append_plain(partition.leading, plain_set(), ANY_MAGIC, 1)
    assert partition.high_watermark == 0


def test_ended_leadership_refuses_append(lead: Any) -> None:
    partition = lead()
    leadership = partition.leading
    partition.become_follower(decided(2, 4, (1, 2), (1, 2)))
    with pytest.raises(NotLeaderForPartition):
        append_plain(leadership, plain_set(), ANY_MAGIC, 1)


def test_duplicate_batch_is_detected_and_sequence_gap_refused(lead: Any) -> None:
    leadership = lead().leading
    producer = {"producer_id": 7, "producer_epoch": 0}
    first = append_plain(leadership, plain_set(base_sequence=0, **producer), ANY_MAGIC, 1)
    again = append_plain(leadership, plain_set(base_sequence=0, **producer), ANY_MAGIC, 1)
    assert (again.base_offset, again.last_offset, again.duplicate) == (0, 2, True)
    assert first.duplicate is False
    with pytest.raises(ProtocolError, match="sequence"):
        append_plain(leadership, plain_set(base_sequence=9, **producer), ANY_MAGIC, 1)
    assert leadership.log.log_end_offset == 3
