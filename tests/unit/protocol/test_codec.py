import struct
import tracemalloc
from dataclasses import dataclass

import pytest

from zkbroker.fileslice import FileSlice
from zkbroker.protocol import MalformedFrame, codec
from zkbroker.protocol.messages import (
    FetchResponse,
    JoinGroupRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from zkbroker.protocol.messages.fetch import FetchResponsePartition, FetchResponseTopic
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.schema import Kind, array, boolean, int8, int64, string, wire_fields


@dataclass(slots=True)
class Sample:
    flag: bool = boolean()
    small: int = int8(since=1)
    name: str = string()
    nick: str | None = string(since=1, until=2, nullable=2, default="none yet")
    big: int = int64(default=-1)
    numbers: list[int] | None = array(Kind.INT16, nullable=3)


def test_encoding_follows_field_metadata():
    sample = Sample(True, 5, "ab", "c", 7, [1, -1])
    for version, encoded in (
        (0, "01 00026162 0000000000000007 00000002 0001ffff"),
        (1, "01 05 00026162 000163 0000000000000007 00000002 0001ffff"),
        (3, "01 05 00026162 0000000000000007 00000002 0001ffff"),
    ):
        assert codec.encode_bytes(sample, version) == bytes.fromhex(encoded)


def test_field_absent_from_version_keeps_default():
    decoded, _ = codec.decode(Sample, 0, codec.encode_bytes(Sample(True, 5, "ab", "c"), 0))
    assert decoded == Sample(True, 0, "ab", "none yet")


def test_null_is_allowed_from_its_version():
    with pytest.raises(ValueError, match="Sample v1 nick is None"):
        codec.encode(Sample(nick=None), 1)
    assert codec.decode(Sample, 2, codec.encode_bytes(Sample(nick=None), 2))[0].nick is None
    null_numbers = b"\0\0\0\0" + b"\0" * 8 + b"\xff\xff\xff\xff"
    with pytest.raises(MalformedFrame, match="Sample v0 numbers"):
        codec.decode(Sample, 0, b"\0\0\0" + b"\0" * 8 + b"\xff\xff\xff\xff")
    assert codec.decode(Sample, 3, null_numbers)[0].numbers is None


@pytest.mark.parametrize("length", [-2, -32768])
def test_negative_length_other_than_null_is_malformed(length):
    with pytest.raises(MalformedFrame):
        codec.decode(Sample, 0, struct.pack(">bh", 0, length) + bytes(20))


def test_truncated_message_is_malformed():
    whole = codec.encode_bytes(Sample(True, 5, "ab", "c", 7, [1, 2]), 1)
    for size in range(len(whole)):
        with pytest.raises(MalformedFrame):
            codec.decode(Sample, 1, whole[:size])


def test_bytes_after_last_field_are_ignored():
    whole = codec.encode_bytes(Sample(), 0)
    assert codec.decode(Sample, 0, whole + b"more") == (Sample(), len(whole))


@pytest.mark.parametrize("count", [1_000, 0x7FFFFFFF])
@pytest.mark.parametrize(
    ("message", "version"), [(MetadataRequest, 1), (MetadataResponse, 7), (ProduceRequest, 0)]
)
def test_count_beyond_frame_is_refused_before_allocation(message, version, count):
    prefix = {MetadataRequest: b"", MetadataResponse: bytes(4), ProduceRequest: bytes(6)}[message]
    frame = prefix + struct.pack(">i", count) + bytes(100)
    codec.decoder(message, version)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrame, match="does not fit"):
            codec.decode(message, version, frame)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


def test_invalid_utf_8_is_replaced_as_in_java():
    decoded, _ = codec.decode(MetadataRequest, 1, b"\0\0\0\1\0\2\xffa\0")
    assert decoded.topics == ["\ufffda"]


@pytest.mark.parametrize("length", [10_922, 10_923, 32_767])
def test_decoded_text_can_be_encoded(length):
    frame = b"\0\0\0\1" + struct.pack(">h", length) + b"\xff" * length + b"\0"
    if length > 10_922:
        with pytest.raises(MalformedFrame, match="not UTF-8"):
            codec.decode(MetadataRequest, 4, frame)
        frame = frame.replace(b"\xff", b"x")
    codec.encode(codec.decode(MetadataRequest, 4, frame)[0], 4)


def test_unencodable_value_error_names_message():
    with pytest.raises(ValueError, match="Sample v1 holds a value that does not fit"):
        codec.encode(Sample(small=200), 1)
    with pytest.raises(ValueError, match="does not fit"):
        codec.encode(Sample(name="x" * 40000), 1)


def test_decoded_records_are_writable_views_of_frame():
    request = ProduceRequest(
        topics=[ProduceRequestTopic("t", [ProduceRequestPartition(0, b"message set")])]
    )
    frame = bytearray(codec.encode_bytes(request, 7))
    records = codec.decode(ProduceRequest, 7, frame)[0].topics[0].partitions[0].records
    assert isinstance(records, memoryview)
    records[:7] = b"MESSAGE"
    assert bytes(frame).endswith(b"MESSAGE set")


def test_file_slices_and_lists_are_encoded_without_copy():
    piece = FileSlice(fd=-1, position=3, size=1000)
    view = memoryview(b"abc")
    rows = [
        FetchResponsePartition(number, records=records)
        for number, records in enumerate(([view, piece], None, b""))
    ]
    response = FetchResponse(topics=[FetchResponseTopic("t", rows)])
    pieces = codec.encode(response, 4)
    assert any(each is view for each in pieces)
    assert any(each is piece for each in pieces)
    written = b"".join(bytes(each) if each is not piece else bytes(1000) for each in pieces)
    partitions = codec.decode(FetchResponse, 4, written)[0].topics[0].partitions
    assert [None if p.records is None else len(p.records) for p in partitions] == [1003, None, 0]


def test_message_without_wire_metadata_is_refused():
    @dataclass
    class Unmarked:
        name: str = ""

    with pytest.raises(TypeError, match=r"Unmarked\.name"):
        wire_fields(Unmarked)


def test_codec_of_version_is_compiled_once():
    assert codec.decoder(JoinGroupRequest, 2) is codec.decoder(JoinGroupRequest, 2)
    assert codec.encoder(JoinGroupRequest, 2) is codec.encoder(JoinGroupRequest, 2)


def test_encode_collects_error_codes():
    partitions = [FetchResponsePartition(n, code, records=b"") for n, code in enumerate((0, 3, 6))]
    response = FetchResponse(error_code=70, topics=[FetchResponseTopic("t", partitions)])
    errors: list[int] = []
    codec.encode(response, 10, errors=errors)
    assert sorted(errors) == [3, 6, 70]
    # Version 4 has no error code of the whole response.
    codec.encode(response, 4, errors=(older := []))
    assert older == [3, 6]
