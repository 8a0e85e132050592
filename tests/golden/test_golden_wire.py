"""Requests and responses of genuine brokers, byte for byte."""

import json
from pathlib import Path

import pytest

from zkbroker.protocol import (
    UnsupportedRequest,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    supported,
)

DATA = Path(__file__).parent / "data" / "wire"


def _exchanges():
    for path in sorted(DATA.glob("*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            entry = json.loads(line)
            yield pytest.param(entry, id=f"{path.stem}:{number} {entry['name']}")


def is_malformed_by_its_recorder(entry):
    """The recorder wrote the leader epoch of ListOffsets v4 and v5 as 8 bytes instead of 4."""
    return entry["api_key"] == 2 and entry["api_version"] in (4, 5)


EXCHANGES = list(_exchanges())


@pytest.mark.parametrize("entry", EXCHANGES)
def test_a_genuine_request_decodes_and_encodes_to_the_same_bytes(entry):
    frame = bytes.fromhex(entry["request"])
    if not supported(entry["api_key"], entry["api_version"]):
        with pytest.raises(UnsupportedRequest) as caught:
            decode_request(frame)
        assert caught.value.header.api_key == entry["api_key"]
        assert caught.value.header.correlation_id == entry["correlation_id"]
        return
    header, request = decode_request(frame)
    assert (header.api_key, header.api_version) == (entry["api_key"], entry["api_version"])
    assert header.correlation_id == entry["correlation_id"]
    encoded = b"".join(encode_request(header, request))[4:]
    if is_malformed_by_its_recorder(entry):
        partition = request.topics[0].partitions[0]
        assert partition.current_leader_epoch == -1
        assert encoded == frame[:-4]  # genuine brokers ignore the 4 bytes too many, and so do we
    else:
        assert encoded == frame


@pytest.mark.parametrize("entry", [p for p in EXCHANGES if p.values[0]["response"]])
def test_a_genuine_response_decodes_and_encodes_to_the_same_bytes(entry):
    frame = bytes.fromhex(entry["response"])
    version = entry["api_version"]
    correlation_id, response = decode_response(entry["api_key"], version, frame)
    assert correlation_id == entry["correlation_id"]
    assert b"".join(encode_response(correlation_id, response, version))[4:] == frame


def test_every_exchange_was_found():
    assert len(EXCHANGES) == 24 + 172
