"""Bytes of a 0.7 log as pieces for a target of a mirror."""

import pytest

from zkbroker.errors import CorruptMessage
from zkbroker.legacy07.mirror import SourceCluster07, cut07
from zkbroker.records import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper
from zkbroker.types import Partition07


def values(pieces):
    return [[record[1] for record in piece.records] for piece in pieces]


def test_each_message_is_in_one_piece_with_codec_of_its_wrapper():
    inner = build_message(b"c") + build_message(b"d", magic=0)
    data = (
        build_message(b"a")
        + build_message(b"b", magic=0)
        + build_wrapper(Codec.GZIP, inner)
        + build_wrapper(Codec.GZIP, build_message(b"e"))
        + build_wrapper(Codec.SNAPPY, build_message(b"f"))
        + build_message(b"")
    )
    pieces = list(cut07(data, max_bytes=10_000))
    assert values(pieces) == [[b"a", b"b"], [b"c", b"d", b"e"], [b"f"], [b""]]
    assert [piece.codec for piece in pieces] == [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.NONE]
    assert {(key, headers) for p in pieces for key, _, _, headers in p.records} == {(None, ())}


def test_pieces_are_bounded_in_bytes():
    data = b"".join(build_message(bytes(100)) for _ in range(100))
    pieces = list(cut07(data, max_bytes=1000))
    assert sum(len(piece.records) for piece in pieces) == 100
    assert max(len(piece.records) for piece in pieces) < 10


def test_corrupt_message_is_refused():
    bad = bytearray(build_message(b"bad"))
    bad[-1] ^= 1
    with pytest.raises(CorruptMessage):
        list(cut07(build_message(b"good") + bytes(bad), max_bytes=1000))
    with pytest.raises(CorruptMessage):
        list(cut07(build_message(b"x", attributes=3), max_bytes=1000))


def test_ordinal_adds_broker_and_number():
    names = [Partition07(broker, number) for broker in (0, 4) for number in range(2)]
    assert [SourceCluster07.ordinal(each) for each in names] == [0, 1, 4, 5]
