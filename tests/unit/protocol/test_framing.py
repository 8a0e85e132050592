import pytest

from zkbroker.errors import ErrorCode, UnsupportedVersion
from zkbroker.fileslice import FileSlice
from zkbroker.protocol import (
    SUPPORTED_VERSIONS,
    ApiKey,
    MalformedFrame,
    RequestHeader,
    TooManyItems,
    UnsupportedRequest,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from zkbroker.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchResponse,
    HeartbeatRequest,
    MetadataRequest,
    ProduceRequest,
    served_versions,
)
from zkbroker.protocol.messages.fetch import FetchResponsePartition, FetchResponseTopic
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.stop_replica import StopReplicaPartition, StopReplicaRequest

# The first request of a client of 2.4 or later: header v2 with tagged fields, compact strings.
FLEXIBLE_API_VERSIONS = bytes.fromhex(
    "0012 0003 00000001 0004 726b3939 00 05 726b3939 04 312e3200 00"
)


def test_request_has_documented_bytes():
    header = RequestHeader(ApiKey.HEARTBEAT, 1, 7, "me")
    parts = encode_request(header, HeartbeatRequest("g", 3, "m"))
    assert b"".join(parts) == bytes.fromhex(
        "00000016 000c 0001 00000007 00026d65 000167 00000003 00016d"
    )


def test_client_id_may_be_null():
    frame = b"".join(encode_request(RequestHeader(18, 0, 1, None), ApiVersionsRequest()))
    assert frame == bytes.fromhex("0000000a 0012 0000 00000001 ffff")
    assert decode_request(frame[4:])[0].client_id is None


def test_too_long_client_id_is_refused():
    with pytest.raises(ValueError, match="client id has 32768 bytes: at most 32767"):
        encode_request(RequestHeader(18, 0, 1, "c" * 0x8000), ApiVersionsRequest())


@pytest.mark.parametrize(
    ("api_key", "version"), [(0, 8), (0, -1), (4, 3), (99, 0), (-1, 0), (17, 2)]
)
def test_unsupported_request_error_has_header(api_key, version):
    frame = b"".join(encode_request(RequestHeader(18, 0, 1, "old-app"), ApiVersionsRequest()))[4:]
    frame = (
        api_key.to_bytes(2, "big", signed=True)
        + version.to_bytes(2, "big", signed=True)
        + frame[4:]
    )
    with pytest.raises(UnsupportedRequest) as caught:
        decode_request(frame)
    assert caught.value.header == RequestHeader(api_key, version, 1, "old-app")
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert isinstance(caught.value, UnsupportedVersion)


def test_newer_api_versions_request_gets_error_35_in_oldest_layout():
    header, request = decode_request(FLEXIBLE_API_VERSIONS)
    assert header == RequestHeader(ApiKey.API_VERSIONS, 3, 1, "rk99")
    assert request == ApiVersionsRequest()
    answer = ApiVersionsResponse(error_code=35, versions=served_versions(), throttle_time_ms=9)
    frame = b"".join(encode_response(header.correlation_id, answer, header.api_version))[4:]
    assert frame[:10].hex() == "000000010023" + len(SUPPORTED_VERSIONS).to_bytes(4, "big").hex()
    assert len(frame) == 10 + 6 * len(SUPPORTED_VERSIONS)  # no throttle time
    correlation_id, decoded = decode_response(ApiKey.API_VERSIONS, 3, frame)
    assert correlation_id == 1
    assert decoded.error_code == 35
    assert decoded.versions == answer.versions


@pytest.mark.parametrize("size", range(10))
def test_request_shorter_than_header_is_malformed(size):
    with pytest.raises(MalformedFrame):
        decode_request(bytes.fromhex("0012 0000 00000001 0001")[:size])


def test_invalid_client_id_length_is_malformed():
    with pytest.raises(MalformedFrame):
        decode_request(bytes.fromhex("0012 0000 00000001 7fff"))
    with pytest.raises(MalformedFrame):
        decode_request(bytes.fromhex("0012 0000 00000001 fffe"))


def test_response_without_correlation_id_is_malformed():
    with pytest.raises(MalformedFrame):
        decode_response(ApiKey.API_VERSIONS, 0, b"\0\0\0")


def test_file_slice_is_separate_part_counted_in_size():
    piece = FileSlice(fd=-1, position=0, size=5000)
    partitions = [FetchResponsePartition(0, records=piece), FetchResponsePartition(1, records=b"x")]
    response = FetchResponse(topics=[FetchResponseTopic("t", partitions)])
    head, slice_, tail = encode_response(5, response, 4)
    assert slice_ is piece
    assert int.from_bytes(head[:4], "big") == len(head) - 4 + 5000 + len(tail)


def test_empty_file_slice_is_kept_for_closing():
    piece = FileSlice(fd=-1, position=0, size=0)
    response = FetchResponse(
        topics=[FetchResponseTopic("t", [FetchResponsePartition(0, records=piece)])]
    )
    assert any(part is piece for part in encode_response(5, response, 4))


def test_only_large_record_set_is_sent_without_copy():
    large, small = bytes(10_000), b"small"
    for data, parts in ((large, 2), (small, 1)):
        request = ProduceRequest(
            topics=[ProduceRequestTopic("t", [ProduceRequestPartition(0, data)])]
        )
        pieces = encode_request(RequestHeader(0, 2, 1, "p"), request)
        assert len(pieces) == parts
        assert (pieces[-1] is data) == (data is large)


def test_request_items_are_bounded():
    names = MetadataRequest(["t"] * 50)
    frame = b"".join(encode_request(RequestHeader(ApiKey.METADATA, 1, 1, "c"), names))[4:]
    assert len(decode_request(frame, max_items=50)[1].topics) == 50
    with pytest.raises(TooManyItems, match="MetadataRequest v1 topics"):
        decode_request(frame, max_items=49)
    stop = StopReplicaRequest(partitions=[StopReplicaPartition("t", at) for at in range(90)])
    frame = b"".join(encode_request(RequestHeader(ApiKey.STOP_REPLICA, 0, 1, "c"), stop))[4:]
    assert len(decode_request(frame, max_items=9)[1].partitions) == 90
    with pytest.raises(TooManyItems):
        decode_request(frame, max_items=8)
