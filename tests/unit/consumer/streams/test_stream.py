"""Streams: order, positions, time-outs, interruptions; on threads and on gevent."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.message_sets import message_set
from zkbroker.consumer import ConsumerTimeout, KafkaStream, MessageAndMetadata, string_decoder
from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition
from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import encode_message_set
from zkbroker.runtime import Runtime, get_runtime


@pytest.fixture(params=["threads", "gevent"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return get_runtime(str(request.param))


def stream_of(runtime: Runtime, **options: Any) -> KafkaStream:
    options.setdefault("timeout_ms", 0)
    return KafkaStream(runtime, **options)


def partition_of(
    runtime: Runtime, stream: KafkaStream, number: int = 0, next_offset: int | None = 0
) -> ConsumedPartition:
    return ConsumedPartition("t", number, stream, runtime.lock(), 1000, next_offset)


def feed(partition: ConsumedPartition, count: int, *, magic: int = 2) -> None:
    offset = partition.fetch_offset or 0
    records = message_set(magic, count, base=offset)
    assert partition.add(Chunk(partition, partition.progress, offset, offset + count, records))


def take_all(stream: KafkaStream) -> list[MessageAndMetadata]:
    messages: list[MessageAndMetadata] = []
    try:
        for message in stream:
            messages.append(message)  # noqa: PERF402 - the time-out must not lose what was read
    except ConsumerTimeout:
        pass
    return messages


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_messages_of_all_magics_keep_order_and_metadata(runtime: Runtime, magic: int) -> None:
    stream = stream_of(runtime)
    partition = partition_of(runtime, stream)
    feed(partition, 3, magic=magic)
    feed(partition, 2, magic=magic)
    messages = take_all(stream)
    assert [message.offset for message in messages] == [0, 1, 2, 3, 4]
    assert messages[1] == MessageAndMetadata(
        topic="t",
        partition=0,
        offset=1,
        key=b"key",
        value=b"value 1",
        timestamp=1_500_000_000_001 if magic else -1,
        timestamp_type=0 if magic else -1,
        headers=(),
    )


def test_decoders_are_not_called_for_null(runtime: Runtime) -> None:
    stream = stream_of(runtime, key_decoder=string_decoder(), value_decoder=len)
    partition = partition_of(runtime, stream)
    records = encode_message_set([(b"key", b"value", 1, ()), (None, None, 1, ())])
    assert partition.add(Chunk(partition, partition.progress, 0, 2, records))
    assert [(m.key, m.value) for m in take_all(stream)] == [("key", 5), (None, None)]


def test_iterator_continues_after_error(runtime: Runtime) -> None:
    def decode(data: bytes) -> str:
        if data == b"value 1":
            raise ValueError("not mine")
        return data.decode()

    stream = stream_of(runtime, value_decoder=decode)
    partition = partition_of(runtime, stream)
    messages = iter(stream)
    for _ in range(2):
        with pytest.raises(ConsumerTimeout, match=r"consumer\.timeout\.ms=0"):
            next(messages)
    feed(partition, 3)
    assert next(messages).offset == 0
    with pytest.raises(ValueError, match="not mine"):
        next(messages)
    assert partition.position(in_hand=True) == 2
    assert next(messages).offset == 2
    stream.close()
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(messages)


def test_message_in_hand_is_delivered_but_not_processed(runtime: Runtime) -> None:
    stream = stream_of(runtime)
    partition = partition_of(runtime, stream)
    feed(partition, 2)
    assert partition.position(in_hand=False) == 0
    next(stream)
    assert partition.position(in_hand=False) == 0
    assert partition.position(in_hand=True) == 1
    next(stream)
    assert partition.position(in_hand=False) == 1
    with pytest.raises(ConsumerTimeout):
        next(stream)
    assert partition.position(in_hand=False) == 2


def test_revoked_partition_delivers_no_message(runtime: Runtime) -> None:
    stream = stream_of(runtime)
    mine, other = partition_of(runtime, stream), partition_of(runtime, stream, 1)
    feed(mine, 3)
    feed(other, 1)
    assert next(stream).offset == 0
    progress = mine.revoke()
    stream.interrupt()
    assert [(m.partition, m.offset) for m in take_all(stream)] == [(1, 0)]
    assert progress.processed == 0
    assert mine.position(in_hand=True) is None
    assert not mine.seek(5)


def test_reset_sets_unknown_position(runtime: Runtime) -> None:
    stream = stream_of(runtime)
    partition = partition_of(runtime, stream, next_offset=None)
    assert partition.position(in_hand=True) is None
    partition.reset(partition.progress, 40)
    assert take_all(stream) == []
    assert partition.position(in_hand=False) == 40


def test_corrupt_entry_raises_after_earlier_messages_and_is_refetched(
    runtime: Runtime,
) -> None:
    stream = stream_of(runtime)
    partition = partition_of(runtime, stream)
    bad = bytearray(message_set(2, 2, base=2))
    bad[-3] ^= 0xFF
    records = message_set(2, 2) + bytes(bad)
    for _ in range(2):
        partition.add(Chunk(partition, partition.progress, 0, 4, records))
        assert [next(stream).offset, next(stream).offset] == [0, 1]
        with pytest.raises(CorruptMessage, match="t-0 at offset 2"):
            next(stream)
        assert partition.fetch_offset == 2
        partition.seek(0)
        stream.interrupt()


def test_partition_error_is_raised_and_partition_is_refetched(
    runtime: Runtime,
) -> None:
    stream = stream_of(runtime)
    partition = partition_of(runtime, stream, next_offset=5)
    error = MessageSizeTooLarge("too large")
    partition.add(Chunk(partition, partition.progress, 5, 5, error=error))
    assert partition.halted
    with pytest.raises(MessageSizeTooLarge, match="too large"):
        next(stream)
    assert not partition.halted
    assert partition.fetch_offset == 5


def test_queue_bound_allows_one_chunk_per_partition(
    runtime: Runtime,
) -> None:
    stream = stream_of(runtime)
    busy, quiet = partition_of(runtime, stream), partition_of(runtime, stream, 1)
    assert busy.has_room
    feed(busy, 1)
    assert busy.has_room
    feed(busy, 1)
    assert not busy.has_room
    assert quiet.has_room
    feed(quiet, 1)
    assert not quiet.has_room
    take_all(stream)
    assert busy.has_room
    assert quiet.has_room


def run(runtime: Runtime, function: Callable[[], object]) -> Any:
    """Run the reader in a separate task; return a function that waits for its result."""
    result: list[object] = []
    task = runtime.spawn(lambda: result.append(function()), name="reader")

    def wait() -> object:
        assert task.join(30)
        return result[0]

    return wait


def test_close_ends_waiting_reader(runtime: Runtime) -> None:
    stream = stream_of(runtime, timeout_ms=-1)
    partition = partition_of(runtime, stream)
    feed(partition, 2)
    reader = run(runtime, lambda: [message.offset for message in stream])
    while partition.position(in_hand=False) != 2:
        runtime.sleep(0.001)
    stream.close()
    assert reader() == [0, 1]
    assert list(stream) == []


def test_clear_after_close_still_ends_reader(runtime: Runtime) -> None:
    for _ in range(50):
        stream = stream_of(runtime, timeout_ms=-1)
        partition = partition_of(runtime, stream)
        feed(partition, 1)
        reader = run(runtime, lambda stream=stream: [message.offset for message in stream])
        while partition.position(in_hand=False) != 1:
            runtime.sleep(0.001)
        stream.close()
        stream.clear()
        assert reader() == [0]


def test_paused_stream_delivers_after_resume(runtime: Runtime) -> None:
    stream = stream_of(runtime, timeout_ms=20)
    partition = partition_of(runtime, stream)
    feed(partition, 3)
    assert next(stream).offset == 0
    stream.pause("test")
    assert not stream.settle(0)
    with pytest.raises(ConsumerTimeout):
        next(stream)
    assert stream.settle(0)
    assert partition.position(in_hand=False) == 1
    stream.resume("test")
    assert next(stream).offset == 1


def test_settle_waits_for_message_in_hand(runtime: Runtime) -> None:
    stream = stream_of(runtime, timeout_ms=-1)
    partition = partition_of(runtime, stream)
    feed(partition, 3)
    in_hand, go_on = runtime.event(), runtime.event()

    def reader() -> list[int]:
        offsets = []
        for message in stream:
            offsets.append(message.offset)
            in_hand.set()
            go_on.wait(30)
        return offsets

    wait = run(runtime, reader)
    assert in_hand.wait(30)
    stream.pause("test")
    assert not stream.settle(0)
    go_on.set()
    assert stream.settle(30)
    assert partition.position(in_hand=False) == 1
    stream.close()
    assert wait() == [0]


def test_expired_lease_stops_delivery(runtime: Runtime) -> None:
    lease = [True]
    stream = stream_of(runtime, timeout_ms=30, lease_valid=lambda: lease[0])
    partition = partition_of(runtime, stream)
    feed(partition, 100)
    assert next(stream).offset == 0
    lease[0] = False
    # The rest of the present slice is still delivered; later messages wait.
    assert [message.offset for message in take_all(stream)] == list(range(1, 32))
    assert take_all(stream) == []
    lease[0] = True
    assert next(stream).offset == 32


def test_clear_empties_queue(runtime: Runtime) -> None:
    stream = stream_of(runtime)
    partition = partition_of(runtime, stream)
    feed(partition, 1)
    feed(partition, 1)
    partition.revoke()
    stream.clear()
    assert stream.queued == 0
    assert take_all(stream) == []


def test_chunk_is_processed_when_next_chunk_is_taken(runtime: Runtime) -> None:
    stream = stream_of(runtime)
    partition = partition_of(runtime, stream)
    feed(partition, 3)
    feed(partition, 2)
    first = stream.take_chunk(1)
    assert first is not None
    assert (first.offset, first.next_offset) == (0, 3)
    assert partition.position(in_hand=True) == 3
    assert partition.position(in_hand=False) == 0
    second = stream.take_chunk(1)
    assert second is not None
    assert partition.position(in_hand=False) == 3
    assert stream.take_chunk(0) is None
    assert partition.position(in_hand=False) == 5


def test_no_chunk_is_taken_from_paused_closed_or_revoked_stream(
    runtime: Runtime,
) -> None:
    stream = stream_of(runtime)
    partition = partition_of(runtime, stream)
    feed(partition, 1)
    stream.pause("rebalance")
    assert stream.take_chunk(0) is None
    stream.resume("rebalance")
    assert stream.take_chunk(0) is not None
    feed(partition, 1)
    partition.revoke()
    assert stream.take_chunk(0) is None
    stream.close()
    assert stream.take_chunk(1) is None


def test_take_chunk_raises_partition_error(runtime: Runtime) -> None:
    stream = stream_of(runtime)
    partition = partition_of(runtime, stream)
    error = CorruptMessage("bad")
    assert partition.add(Chunk(partition, partition.progress, 0, 0, error=error))
    with pytest.raises(CorruptMessage):
        stream.take_chunk(1)
    feed(partition, 1)  # it is fetched again from there
    assert stream.take_chunk(1) is not None
