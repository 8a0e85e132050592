import pytest

from zkbroker.consumer.fetching.messages import string_decoder
from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition
from zkbroker.consumer.group.inbox import Inbox
from zkbroker.errors import CorruptMessage
from zkbroker.records import encode_message_set
from zkbroker.runtime import get_runtime

RUNTIME = get_runtime("threads")


class Desk:
    def __init__(self, **decoders):
        self.arrived = 0
        self.inbox = Inbox(RUNTIME, self._arrive, **decoders)

    def _arrive(self):
        self.arrived += 1

    def partition(self, number=0, start=0):
        return ConsumedPartition("t", number, self.inbox, RUNTIME.lock(), 1000, start, 4)

    def fetched(self, partition, values, *, next_offset=None, start=None):
        start = partition.fetch_offset if start is None else start
        data = encode_message_set([(b"k", v, 1, ()) for v in values], base_offset=start)
        end = start + len(values) if next_offset is None else next_offset
        partition.add(Chunk(partition, partition.progress, start, end, data))

    def take(self, limit=100, paused=()):
        """(partition, offsets, end) of what is taken."""
        return [
            (t.partition.partition, [m.offset for m in t.messages], t.end)
            for t in self.inbox.take(limit, paused)
        ]


def test_messages_are_taken_in_fetch_order():
    desk = Desk()
    one, two = desk.partition(1), desk.partition(2)
    desk.fetched(one, [b"a", b"b"])
    desk.fetched(two, [b"c"])
    desk.fetched(one, [b"d"])
    assert desk.arrived == desk.inbox.queued == 3
    assert desk.take() == [(1, [0, 1], 1), (2, [0], 0), (1, [2], 2)]
    assert desk.inbox.queued == 0
    assert (one.chunks_put, one.chunks_taken) == (2, 2)


def test_next_take_continues_after_limit():
    desk = Desk()
    one = desk.partition()
    desk.fetched(one, [b"x"] * 5, next_offset=9)  # offsets 5 to 8 hold no message
    assert desk.take(2) == [(0, [0, 1], 1)]
    assert one.chunks_taken == 0
    assert desk.take(2) == [(0, [2, 3], 3)]
    assert desk.take(2) == [(0, [4], 8)]
    assert one.chunks_taken == 1


def test_chunk_without_messages_only_moves_position():
    desk = Desk()
    one = desk.partition()
    desk.fetched(one, [], next_offset=7)
    assert desk.take() == [(0, [], 6)]


def test_chunks_before_seek_or_revocation_are_dropped():
    desk = Desk()
    sought, gone = desk.partition(1), desk.partition(2)
    desk.fetched(sought, [b"old"])
    desk.fetched(gone, [b"old"])
    sought.seek(40)
    gone.revoke()
    desk.fetched(sought, [b"new"])
    assert desk.take() == [(1, [40], 40)]
    assert sought.chunks_put == sought.chunks_taken == 2


def test_chunks_of_paused_partitions_stay_queued():
    desk = Desk()
    one, two = desk.partition(1), desk.partition(2)
    desk.fetched(one, [b"a"])
    desk.fetched(two, [b"b"])
    assert desk.take(paused={("t", 1)}) == [(2, [0], 0)]
    assert desk.inbox.queued == 1
    assert desk.take() == [(1, [0], 0)]


def test_partition_error_is_raised_after_earlier_messages():
    desk = Desk()
    one = desk.partition()
    desk.fetched(one, [b"a"])
    one.add(Chunk(one, one.progress, 1, 1, error=CorruptMessage("bad")))
    assert desk.take() == [(0, [0], 0)]
    with pytest.raises(CorruptMessage, match="bad"):
        desk.take()
    assert desk.take() == []
    assert one.halted


def test_corrupt_entry_raises_after_valid_messages_of_chunk():
    desk = Desk()
    one = desk.partition()
    good = encode_message_set([(b"k", b"v", 1, ())])
    bad = bytearray(encode_message_set([(b"k", b"v", 1, ())], base_offset=1))
    bad[-1] ^= 1
    one.add(Chunk(one, one.progress, 0, 2, good + bytes(bad)))
    assert desk.take() == [(0, [0], 0)]
    with pytest.raises(CorruptMessage):
        desk.take()
    assert desk.inbox.queued == 0


def test_decoder_error_skips_one_message():
    desk = Desk(value_decoder=string_decoder(), key_decoder=string_decoder())
    one = desk.partition()
    desk.fetched(one, [b"a", b"\xff", b"c", None])
    assert [m.value for t in desk.inbox.take(9, ()) for m in t.messages] == ["a"]
    with pytest.raises(UnicodeDecodeError):
        desk.take()
    taken = desk.inbox.take(9, ())
    assert [(m.offset, m.key, m.value) for t in taken for m in t.messages] == [
        (2, "k", "c"),
        (3, "k", None),
    ]
    assert desk.inbox.queued == 0


def test_clear_frees_queue_space():
    desk = Desk()
    one = desk.partition()
    desk.fetched(one, [b"a", b"b"])
    desk.take(1)
    desk.inbox.clear()
    assert desk.inbox.queued == 0
    assert one.chunks_put == one.chunks_taken == 1


def chunks(desk, limit_bytes, paused=()):
    taken = desk.inbox.take_chunks(limit_bytes, paused)
    return [(chunk.partition.partition, chunk.offset) for chunk in taken]


def test_take_chunks_returns_one_chunk_even_above_limit():
    desk = Desk()
    one, two = desk.partition(1), desk.partition(2)
    for partition in (one, two, one):
        desk.fetched(partition, [b"x" * 500])
    assert chunks(desk, 0) == []
    assert chunks(desk, 10) == [(1, 0)]
    assert (one.chunks_put, one.chunks_taken) == (2, 1)
    assert chunks(desk, 10_000) == [(2, 0), (1, 1)]
    assert desk.inbox.queued == 0


def test_take_chunks_keeps_paused_and_drops_stale_chunks():
    desk = Desk()
    one, two, three = desk.partition(1), desk.partition(2), desk.partition(3)
    for partition in (one, two, three, one):
        desk.fetched(partition, [b"x"])
    three.revoke()
    assert chunks(desk, 10_000, paused={one.key}) == [(2, 0)]
    assert chunks(desk, 10_000) == [(1, 0), (1, 1)]


def test_take_chunks_raises_error_after_earlier_chunks():
    desk = Desk()
    one = desk.partition(1)
    desk.fetched(one, [b"x"])
    error = CorruptMessage("bad")
    one.add(Chunk(one, one.progress, 1, 1, error=error))
    assert chunks(desk, 10_000) == [(1, 0)]
    with pytest.raises(CorruptMessage):
        chunks(desk, 10_000)
    assert chunks(desk, 10_000) == []
