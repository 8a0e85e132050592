"""Progress of a partition: chunks of an earlier reading are dropped."""

from typing import Any

import pytest

from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition, ReadProgress, next_after
from zkbroker.runtime import get_runtime


class Sink:
    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    def put(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)

    @property
    def queued(self) -> int:
        return len(self.chunks)


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def partition(sink: Sink) -> ConsumedPartition:
    return ConsumedPartition("t", 0, sink, get_runtime("threads").lock(), 1000, 5)


def chunk(partition: ConsumedPartition, offset: int, until: int, **more: Any) -> Chunk:
    return Chunk(partition, partition.progress, offset, until, **more)


def test_added_chunk_is_queued_and_advances_fetch_offset(
    partition: ConsumedPartition, sink: Sink
) -> None:
    assert partition.add(chunk(partition, 5, 8))
    assert (partition.fetch_offset, sink.queued) == (8, 1)


def test_chunk_at_other_offset_is_stale(partition: ConsumedPartition, sink: Sink) -> None:
    assert partition.add(chunk(partition, 5, 8))
    assert not partition.add(chunk(partition, 5, 9))
    assert (partition.fetch_offset, sink.queued) == (8, 1)


def test_seek_makes_outstanding_chunks_stale(partition: ConsumedPartition, sink: Sink) -> None:
    late = chunk(partition, 5, 8)
    assert partition.seek(100)
    assert not partition.add(late)
    assert not partition.reset(late.progress, 50)
    assert (partition.fetch_offset, partition.position(in_hand=True), sink.queued) == (100, 100, 0)


def test_revoke_returns_last_progress_and_refuses_later_chunks(
    partition: ConsumedPartition,
) -> None:
    late = chunk(partition, 5, 8)
    partition.progress.delivered = 6
    assert partition.revoke().delivered == 6
    assert partition.revoked
    assert not partition.add(late)
    assert not partition.seek(5)
    assert partition.position(in_hand=True) is None


def test_reset_is_queued_in_order(partition: ConsumedPartition, sink: Sink) -> None:
    partition.add(chunk(partition, 5, 8))
    assert partition.reset(partition.progress, 20)
    assert [(each.offset, each.next_offset) for each in sink.chunks] == [(5, 8), (20, 20)]
    assert partition.fetch_offset == 20


def test_error_halts_partition_until_seek(partition: ConsumedPartition) -> None:
    partition.add(chunk(partition, 5, 5, error=RuntimeError("damaged")))
    assert partition.halted
    partition.seek(6)
    assert not partition.halted


def test_positions_include_message_in_hand_only_on_request() -> None:
    progress = ReadProgress(5)
    progress.delivered = 7
    assert (next_after(progress, in_hand=True), next_after(progress, in_hand=False)) == (8, 5)
    assert next_after(ReadProgress(None), in_hand=True) is None
