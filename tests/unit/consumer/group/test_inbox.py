import pytest

from zkbroker.consumer.fetching.messages import string_decoder
from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition
from zkbroker.consumer.group.inbox import Inbox
from zkbroker.errors import CorruptMessage
from zkbroker.records import encode_message_set
from zkbroker.runtime import get_runtime

RUNTIME = get_runtime("threads")


class InboxSetup:
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
        """Take messages; return (partition, offsets, end) of each part."""
        return [
            (t.partition.partition, [m.offset for m in t.messages], t.end)
            for t in self.inbox.take(limit, paused)
        ]


def test_messages_are_taken_in_fetch_order():
    setup = InboxSetup()
    one, two = setup.partition(1), setup.partition(2)
    setup.fetched(one, [b"a", b"b"])
    setup.fetched(two, [b"c"])
    setup.fetched(one, [b"d"])
    assert setup.arrived == setup.inbox.queued == 3
    assert setup.take() == [(1, [0, 1], 1), (2, [0], 0), (1, [2], 2)]
    assert setup.inbox.queued == 0
    assert (one.chunks_put, one.chunks_taken) == (2, 2)


def test_next_take_continues_after_limit():
    setup = InboxSetup()
    one = setup.partition()
    setup.fetched(one, [b"x"] * 5, next_offset=9)  # offsets 5 to 8 hold no message
    assert setup.take(2) == [(0, [0, 1], 1)]
    assert one.chunks_taken == 0
    assert setup.take(2) == [(0, [2, 3], 3)]
    assert setup.take(2) == [(0, [4], 8)]
    assert one.chunks_taken == 1


def test_chunk_without_messages_only_moves_position():
    setup = InboxSetup()
    one = setup.partition()
    setup.fetched(one, [], next_offset=7)
    assert setup.take() == [(0, [], 6)]


def test_chunks_before_seek_or_revocation_are_dropped():
    setup = InboxSetup()
    sought, gone = setup.partition(1), setup.partition(2)
    setup.fetched(sought, [b"old"])
    setup.fetched(gone, [b"old"])
    sought.seek(40)
    gone.revoke()
    setup.fetched(sought, [b"new"])
    assert setup.take() == [(1, [40], 40)]
    assert sought.chunks_put == sought.chunks_taken == 2


def test_chunks_of_paused_partitions_stay_queued():
    setup = InboxSetup()
    one, two = setup.partition(1), setup.partition(2)
    setup.fetched(one, [b"a"])
    setup.fetched(two, [b"b"])
    assert setup.take(paused={("t", 1)}) == [(2, [0], 0)]
    assert setup.inbox.queued == 1
    assert setup.take() == [(1, [0], 0)]


def test_partition_error_is_raised_after_earlier_messages():
    setup = InboxSetup()
    one = setup.partition()
    setup.fetched(one, [b"a"])
    one.add(Chunk(one, one.progress, 1, 1, error=CorruptMessage("bad")))
    assert setup.take() == [(0, [0], 0)]
    with pytest.raises(CorruptMessage, match="bad"):
        setup.take()
    assert setup.take() == []
    assert one.halted


def test_partition_error_is_raised_after_moves_of_positions():
    setup = InboxSetup()
    one, two = setup.partition(1), setup.partition(2)
    setup.fetched(one, [], next_offset=7)
    two.add(Chunk(two, two.progress, 0, 0, error=CorruptMessage("bad")))
    assert setup.take() == [(1, [], 6)]
    with pytest.raises(CorruptMessage, match="bad"):
        setup.take()


def test_decoder_error_is_raised_after_moves_of_positions():
    setup = InboxSetup(value_decoder=string_decoder())
    one, two = setup.partition(1), setup.partition(2)
    setup.fetched(one, [], next_offset=7)
    setup.fetched(two, [b"\xff", b"b"])
    assert setup.take() == [(1, [], 6)]
    with pytest.raises(UnicodeDecodeError):
        setup.take()
    assert setup.take() == [(2, [1], 1)]


def test_corrupt_entry_raises_after_valid_messages_of_chunk():
    setup = InboxSetup()
    one = setup.partition()
    good = encode_message_set([(b"k", b"v", 1, ())])
    bad = bytearray(encode_message_set([(b"k", b"v", 1, ())], base_offset=1))
    bad[-1] ^= 1
    one.add(Chunk(one, one.progress, 0, 2, good + bytes(bad)))
    assert setup.take() == [(0, [0], 0)]
    with pytest.raises(CorruptMessage):
        setup.take()
    assert setup.inbox.queued == 0


def test_nothing_after_corrupt_entry_is_returned_until_a_seek():
    setup = InboxSetup()
    one, two = setup.partition(1), setup.partition(2)
    good = encode_message_set([(b"k", b"v", 1, ())])
    bad = bytearray(encode_message_set([(b"k", b"v", 1, ())], base_offset=1))
    bad[-1] ^= 1
    one.add(Chunk(one, one.progress, 0, 2, good + bytes(bad)))
    setup.fetched(one, [b"later"])  # was fetched before the error was found
    setup.fetched(two, [b"other"])
    assert setup.take() == [(1, [0], 0)]
    with pytest.raises(CorruptMessage):
        setup.take()
    assert setup.take() == [(2, [0], 0)]
    assert (one.position(in_hand=True), one.fetch_offset, one.halted) == (1, 1, True)
    assert one.chunks_put == one.chunks_taken == 2
    one.seek(2)
    setup.fetched(one, [b"later"])
    assert setup.take() == [(1, [2], 2)]


def test_decoder_error_skips_one_message():
    setup = InboxSetup(value_decoder=string_decoder(), key_decoder=string_decoder())
    one = setup.partition()
    setup.fetched(one, [b"a", b"\xff", b"c", None])
    assert [m.value for t in setup.inbox.take(9, ()) for m in t.messages] == ["a"]
    with pytest.raises(UnicodeDecodeError):
        setup.take()
    taken = setup.inbox.take(9, ())
    assert [(m.offset, m.key, m.value) for t in taken for m in t.messages] == [
        (2, "k", "c"),
        (3, "k", None),
    ]
    assert setup.inbox.queued == 0


def test_clear_frees_queue_space():
    setup = InboxSetup()
    one = setup.partition()
    setup.fetched(one, [b"a", b"b"])
    setup.take(1)
    setup.inbox.clear()
    assert setup.inbox.queued == 0
    assert one.chunks_put == one.chunks_taken == 1


def chunks(setup, limit_bytes, paused=()):
    taken = setup.inbox.take_chunks(limit_bytes, paused)
    return [(chunk.partition.partition, chunk.offset) for chunk in taken]


def test_take_chunks_returns_one_chunk_even_above_limit():
    setup = InboxSetup()
    one, two = setup.partition(1), setup.partition(2)
    for partition in (one, two, one):
        setup.fetched(partition, [b"x" * 500])
    assert chunks(setup, 0) == []
    assert chunks(setup, 10) == [(1, 0)]
    assert (one.chunks_put, one.chunks_taken) == (2, 1)
    assert chunks(setup, 10_000) == [(2, 0), (1, 1)]
    assert setup.inbox.queued == 0


def test_take_chunks_keeps_paused_and_drops_stale_chunks():
    setup = InboxSetup()
    one, two, three = setup.partition(1), setup.partition(2), setup.partition(3)
    for partition in (one, two, three, one):
        setup.fetched(partition, [b"x"])
    three.revoke()
    assert chunks(setup, 10_000, paused={one.key}) == [(2, 0)]
    assert chunks(setup, 10_000) == [(1, 0), (1, 1)]


def test_take_chunks_raises_error_after_earlier_chunks():
    setup = InboxSetup()
    one = setup.partition(1)
    setup.fetched(one, [b"x"])
    error = CorruptMessage("bad")
    one.add(Chunk(one, one.progress, 1, 1, error=error))
    assert chunks(setup, 10_000) == [(1, 0)]
    with pytest.raises(CorruptMessage):
        chunks(setup, 10_000)
    assert chunks(setup, 10_000) == []
