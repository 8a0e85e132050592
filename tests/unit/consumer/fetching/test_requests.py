"""Fetch requests, and where to go on after an answer."""

import pytest

from tests.support.message_sets import message_set
from zkbroker.consumer.fetching.requests import Wanted, doubled, end_of, fetch_request
from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.protocol.messages.fetch import FetchResponsePartition
from zkbroker.records import Codec, offset_after


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_offset_after_is_that_after_the_last_whole_entry(magic: int, codec: Codec) -> None:
    first = message_set(magic, 3, base=10, codec=codec)
    second = message_set(magic, 1, base=13, codec=codec)
    assert offset_after(first) == 13
    assert offset_after(first + second) == 14
    assert offset_after(first + second[:-1]) == 13


def test_not_even_one_whole_entry_gives_none() -> None:
    assert offset_after(message_set(2, 1)[:-1]) is None
    assert offset_after(b"\0" * 5) is None


def test_nonsense_ends_the_walk_and_is_raised_when_it_comes_first() -> None:
    nonsense = bytes([0] * 8 + [0, 0, 0, 20] + [9] * 20)
    assert offset_after(message_set(2, 3) + nonsense) == 3
    with pytest.raises(CorruptMessage):
        offset_after(nonsense)


def test_fetch_size_is_doubled_up_to_the_limit() -> None:
    sizes = [1000]
    while sizes[-1] < 5000:
        sizes.append(doubled(sizes[-1], 5000, "t-0"))
    assert sizes == [1000, 2000, 4000, 5000]
    with pytest.raises(MessageSizeTooLarge, match="t-0"):
        doubled(5000, 5000, "t-0")


def test_request_keeps_the_order_of_the_partitions() -> None:
    wanted = [(("b", 1), Wanted(5, 10)), (("b", 0), Wanted(6, 10)), (("a", 0), Wanted(7, 10))]
    request = fetch_request(wanted, max_wait_ms=1, min_bytes=2, max_bytes=3)
    assert [(t.topic, [p.partition for p in t.partitions]) for t in request.topics] == [
        ("b", [1, 0]),
        ("a", [0]),
    ]
    assert (request.session_id, request.session_epoch, request.max_bytes) == (0, -1, 3)


@pytest.mark.parametrize(("stable", "end"), [(5, 5), (-1, 9)])
def test_a_reader_of_committed_messages_is_at_its_end_before_an_open_transaction(
    stable: int, end: int
) -> None:
    part = FetchResponsePartition(high_watermark=9, last_stable_offset=stable)
    assert end_of(part, read_committed=True) == end
    assert end_of(part, read_committed=False) == 9
