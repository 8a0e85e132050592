"""Frames of Kafka 0.7: round trips and incomplete frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkbroker.errors import NetworkError, ProtocolError
from zkbroker.protocol.legacy07 import (
    Fetch07,
    MultiFetch07,
    MultiProduce07,
    Offsets07,
    Produce07,
    decode_answer,
    decode_multifetch,
    decode_offsets,
    decode_request,
    encode_answer,
    encode_offsets,
    encode_request,
    part_head,
)

TOPICS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
PRODUCES = st.builds(Produce07, TOPICS, INTS, st.binary(max_size=30))
FETCHES = st.builds(Fetch07, TOPICS, INTS, LONGS, INTS)
REQUESTS = st.one_of(
    PRODUCES,
    FETCHES,
    st.builds(Offsets07, TOPICS, INTS, LONGS, INTS),
    st.builds(MultiFetch07, st.lists(FETCHES, max_size=4).map(tuple)),
    st.builds(MultiProduce07, st.lists(PRODUCES, max_size=4).map(tuple)),
)


@given(REQUESTS, st.binary(max_size=3))
def test_request_round_trips_with_surplus_bytes(request_, surplus):
    frame = encode_request(request_)
    assert decode_request(memoryview(frame + surplus)) == request_


@given(REQUESTS, st.data())
def test_truncated_request_is_refused(request_, data):
    frame = encode_request(request_)
    cut = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(ProtocolError, match="no request of Kafka"):
        decode_request(memoryview(frame)[:cut])


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\x05abc",
        b"\xff\xff",
        b"\x00\x02\xff\xff",
        b"\x00\x03\x80\x00",
        b"\x00\x01\xff\xff" + bytes(16),
        b"\x00\x00\x00\x01t\x00\x00\x00\x00\xff\xff\xff\xff",
    ],
    ids=["id 5", "id -1", "multifetch -1", "multiproduce", "topic length -1", "set size -1"],
)
def test_invalid_request_is_refused(frame):
    with pytest.raises(ProtocolError):
        decode_request(memoryview(frame))


def test_invalid_utf_8_becomes_invalid_topic():
    frame = b"\x00\x01\x00\x01\xff" + bytes(16)
    assert decode_request(memoryview(frame)).topic == "\ufffd"


def test_unencodable_request_is_refused():
    with pytest.raises(ValueError):
        encode_request(Fetch07("t", 2**31, 0, 0))


@given(st.lists(LONGS, max_size=5))
def test_offsets_round_trip(offsets):
    frame = memoryview(encode_answer(encode_offsets(offsets)))
    error, body = decode_answer(frame[4:])
    assert (error, decode_offsets(body)) == (0, offsets)
    with pytest.raises(NetworkError):
        decode_offsets(body[:-1] if offsets else body[:3])


@given(st.lists(st.tuples(st.sampled_from([0, 1, 3, -1]), st.binary(max_size=9)), max_size=4))
def test_multifetch_parts_round_trip(parts):
    body = b"".join(part_head(len(data), error) + data for error, data in parts)
    found = decode_multifetch(memoryview(body))
    assert [(error, bytes(data)) for error, data in found] == parts
    if body:
        with pytest.raises(NetworkError):
            decode_multifetch(memoryview(body)[:-1])


def test_response_without_error_code_is_refused():
    with pytest.raises(NetworkError):
        decode_answer(memoryview(b"\x00"))
