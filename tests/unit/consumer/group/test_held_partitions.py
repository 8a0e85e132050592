"""Partitions of a group consumer: processed, ready and stale messages."""

import pytest

from tests.support.message_sets import message_set
from zkbroker.client.group_offsets import Committed
from zkbroker.consumer.fetching.messages import NotOwned
from zkbroker.consumer.fetching.partition import Chunk
from zkbroker.consumer.group.held_partitions import HeldPartitions
from zkbroker.consumer.group.inbox import Inbox
from zkbroker.errors import CorruptMessage
from zkbroker.runtime import get_runtime

T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def held() -> HeldPartitions:
    runtime = get_runtime("threads")
    inbox = Inbox(runtime, lambda: None, None, None)
    return HeldPartitions(runtime, inbox, fetch_bytes=1000, queued_chunks=4)


def fetched(held: HeldPartitions, key: tuple[str, int], base: int, count: int) -> None:
    partition = held.get(key)
    records = message_set(2, count, base=base)
    assert partition.add(Chunk(partition, partition.progress, base, base + count, records))


def test_partitions_start_at_committed_offsets(held: HeldPartitions) -> None:
    added = held.add([T0, T1], {T0: Committed(5), T1: None})
    assert [(each.key, each.fetch_offset) for each in added] == [(T0, 5), (T1, None)]
    assert held.positions() == {T0: 5}


def test_partitions_may_be_given_away_while_their_lag_is_read(held: HeldPartitions) -> None:
    class Leaving:
        high_watermark = 5

        def position(self, *, in_hand: bool) -> int:
            held.partitions.pop(T1, None)  # as the polling task does
            return 1

    held.add([T0, T1], {T0: Committed(0), T1: Committed(0)})
    held.partitions[T0] = Leaving()
    assert held.lag() == {T0: 4}


def test_position_that_moves_before_an_error_is_kept(held: HeldPartitions) -> None:
    reset, failing = held.add([T0, T1], {T0: None, T1: Committed(0)})
    assert reset.reset(reset.progress, 40)
    failing.add(Chunk(failing, failing.progress, 0, 0, error=CorruptMessage("bad")))
    with pytest.raises(CorruptMessage):
        held.collect(10)
    assert held.positions() == {T0: 40, T1: 0}
    assert not held.collect(10)


def test_returned_messages_are_processed_at_next_mark(held: HeldPartitions) -> None:
    held.add([T0], {T0: Committed(5)})
    fetched(held, T0, 5, 3)
    assert held.collect(10)
    assert [message.offset for message in held.hand_out()] == [5, 6, 7]
    assert (held.positions(), held.processed()) == ({T0: 8}, {T0: 5})
    held.mark_processed()
    assert held.processed() == {T0: 8}


def test_each_yielded_message_advances_position(
    held: HeldPartitions,
) -> None:
    held.add([T0], {T0: Committed(5)})
    fetched(held, T0, 5, 3)
    held.collect(10)
    for message in held.hand_out_singly():
        assert held.positions() == {T0: message.offset + 1}


def test_messages_returned_by_poll_are_not_yielded_again(
    held: HeldPartitions,
) -> None:
    held.add([T0], {T0: Committed(0)})
    fetched(held, T0, 0, 4)
    held.collect(10)
    messages = held.hand_out_singly()
    assert next(messages).offset == 0
    assert [message.offset for message in held.hand_out()] == [1, 2, 3]
    fetched(held, T0, 4, 2)
    held.collect(10)
    assert [message.offset for message in messages] == [4, 5]
    assert held.positions() == {T0: 6}


@pytest.mark.parametrize("sought", [0, 3])
def test_seek_ends_messages_being_yielded(held: HeldPartitions, sought: int) -> None:
    held.add([T0], {T0: Committed(0)})
    fetched(held, T0, 0, 4)
    held.collect(10)
    messages = held.hand_out_singly()
    assert next(messages).offset == 0
    held.get(T0).seek(sought)
    assert list(messages) == []
    assert held.positions() == {T0: sought}


def test_messages_of_released_or_sought_partition_are_not_returned(held: HeldPartitions) -> None:
    held.add([T0, T1], {T0: Committed(0), T1: Committed(0)})
    fetched(held, T0, 0, 2)
    fetched(held, T1, 0, 2)
    held.collect(10)
    held.keep_only([T1])
    held.get(T1).seek(1)
    assert held.hand_out() == []
    assert held.positions() == {T1: 1}
    with pytest.raises(NotOwned, match="t-0"):
        held.get(T0)


def test_lag_is_distance_to_high_watermark(held: HeldPartitions) -> None:
    held.add([T0, T1], {T0: Committed(5), T1: Committed(5)})
    held.get(T0).high_watermark = 9
    assert held.lag() == {T0: 4}
