"""Recorded requests and responses round-trip byte for byte and field for field."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded_frames import GOLDEN, case, plain, recorded
from zkbroker.protocol import (
    UnsupportedRequest,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    supported,
)

RECORDINGS = sorted(
    path
    for folder in ("wire", "replication", "transactions")
    for path in (GOLDEN / folder).glob("*.jsonl*")
)
CONTROL = {4, 5, 6, 7, 23, 43}
SPELT = {"error": "error_code", "throttle": "throttle_time_ms", "message": "error_message"}
"""The recorder's names of fields → ours."""
FIELDS = {"transaction_timeout_ms", "producer_id", "producer_epoch", "group_id", "committed"}


def kinds(folder: str) -> set[tuple[int, int]]:
    """Return API key and version of each exchange in a folder of recordings."""
    return {
        (entry["api_key"], entry["api_version"])
        for path in RECORDINGS
        if path.parent.name == folder
        for _, entry in recorded(path)
    }


def spelt_as_ours(decoded: Any, api_key: int) -> Any:
    if isinstance(decoded, dict):
        names = SPELT | ({"timeout": "timeout_ms"} if api_key == 43 else {})
        return {
            names.get(key, key): spelt_as_ours(value, api_key) for key, value in decoded.items()
        }
    if isinstance(decoded, list):
        return [spelt_as_ours(each, api_key) for each in decoded]
    return decoded


def is_malformed_by_its_recorder(folder: str, entry: Any) -> bool:
    """The recorder wrote the leader epoch of ListOffsets v4 and v5 as 8 bytes instead of 4."""
    return folder == "wire" and entry["api_key"] == 2 and entry["api_version"] in (4, 5)


def check_request(folder: str, entry: Any) -> None:
    frame = bytes.fromhex(entry["request"])
    if not supported(entry["api_key"], entry["api_version"]):
        assert folder != "replication"
        with pytest.raises(UnsupportedRequest) as caught:
            decode_request(frame)
        assert caught.value.header.api_key == entry["api_key"]
        assert caught.value.header.correlation_id == entry["correlation_id"]
        return
    header, decoded = decode_request(frame)
    request: Any = decoded
    assert (header.api_key, header.api_version) == (entry["api_key"], entry["api_version"])
    assert header.correlation_id == entry["correlation_id"]
    encoded = b"".join(encode_request(header, request))[4:]
    if is_malformed_by_its_recorder(folder, entry):
        partition = request.topics[0].partitions[0]
        assert partition.current_leader_epoch == -1
        assert encoded == frame[:-4]  # genuine brokers and ours ignore the 4 surplus bytes
    else:
        assert encoded == frame
    if folder == "replication" and entry["api_key"] in CONTROL:
        expected = spelt_as_ours(entry["decoded"]["request"], entry["api_key"])
        assert plain(request, entry["api_version"]) == expected
    if folder == "transactions":
        fields = entry["decoded"]["request"]
        for name in FIELDS & fields.keys():
            assert getattr(request, name) == fields[name], name


def check_answer(folder: str, entry: Any) -> None:
    api_key, version = entry["api_key"], entry["api_version"]
    frame = bytes.fromhex(entry["response"])
    correlation_id, response = decode_response(api_key, version, frame)
    if folder != "replication":
        assert correlation_id == entry["correlation_id"]
    assert b"".join(encode_response(correlation_id, response, version))[4:] == frame
    if folder == "replication" and api_key in CONTROL:
        expected = spelt_as_ours(entry["decoded"]["response"], api_key)
        assert plain(response, version) == expected


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_recorded_requests_round_trip(path: Path) -> None:
    for place, entry in recorded(path):
        with case(place):
            check_request(path.parent.name, entry)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_recorded_responses_round_trip(path: Path) -> None:
    for place, entry in recorded(path):
        # The response to a transactional request of an unsupported version has no layout here.
        unknown = path.parent.name == "transactions" and not supported(
            entry["api_key"], entry["api_version"]
        )
        if entry["response"] and not unknown:
            with case(place):
                check_answer(path.parent.name, entry)


def test_recordings_are_complete() -> None:
    wire = [path for path in RECORDINGS if path.parent.name == "wire"]
    assert sum(1 for path in wire for _ in recorded(path)) == 24 + 172
    assert kinds("replication") == {
        (1, 0), (1, 10), (1, 11), (2, 0), (2, 4), (2, 5), (4, 0), (4, 1), (4, 2), (5, 0), (5, 1),
        (6, 0), (6, 4), (6, 5), (7, 0), (7, 1), (7, 2), (23, 2), (23, 3), (43, 0),
    }  # fmt: skip
    assert {
        kind for kind in kinds("transactions") if 22 <= kind[0] <= 28 and supported(*kind)
    } == {
        (22, 0), (22, 1), (24, 0), (24, 1), (25, 0), (25, 1), (26, 0), (26, 1), (27, 0),
        (28, 0), (28, 1), (28, 2),
    }  # fmt: skip
