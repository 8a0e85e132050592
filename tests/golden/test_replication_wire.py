"""Requests that genuine brokers sent each other, byte for byte and field for field."""

import gzip
import json
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from zkbroker.protocol import (
    ApiKey,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from zkbroker.protocol.schema import wire_fields

DATA = Path(__file__).parent / "data" / "replication"
CONTROL = {4, 5, 6, 7, 23, 43}
SPELT = {"error": "error_code", "throttle": "throttle_time_ms", "message": "error_message"}
"""The recorder's names, where they are not ours."""


def exchanges():
    for path in sorted(DATA.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for number, line in enumerate(lines, 1):
                entry = json.loads(line)
                yield pytest.param(entry, id=f"{path.name}:{number} {entry['name']}")


EXCHANGES = list(exchanges())


def plain(message, version):
    """A message as the recorder decoded it: only what the version has."""
    if is_dataclass(message):
        return {
            field.name: plain(getattr(message, field.name), version)
            for field in wire_fields(type(message))
            if field.wire.present(version)
        }
    return [plain(each, version) for each in message] if isinstance(message, list) else message


def spelt_as_ours(recorded, api_key):
    if isinstance(recorded, dict):
        names = SPELT | ({"timeout": "timeout_ms"} if api_key == 43 else {})
        return {
            names.get(key, key): spelt_as_ours(value, api_key) for key, value in recorded.items()
        }
    if isinstance(recorded, list):
        return [spelt_as_ours(each, api_key) for each in recorded]
    return recorded


@pytest.mark.parametrize("entry", EXCHANGES)
def test_a_request_between_brokers_decodes_and_encodes_to_the_same_bytes(entry):
    frame = bytes.fromhex(entry["request"])
    header, request = decode_request(frame)
    assert (header.api_key, header.api_version) == (entry["api_key"], entry["api_version"])
    assert header.correlation_id == entry["correlation_id"]
    assert b"".join(encode_request(header, request))[4:] == frame
    if entry["api_key"] in CONTROL:
        recorded = spelt_as_ours(entry["decoded"]["request"], entry["api_key"])
        assert plain(request, entry["api_version"]) == recorded


@pytest.mark.parametrize("entry", [p for p in EXCHANGES if p.values[0]["response"]])
def test_an_answer_between_brokers_decodes_and_encodes_to_the_same_bytes(entry):
    frame = bytes.fromhex(entry["response"])
    version = entry["api_version"]
    correlation_id, response = decode_response(entry["api_key"], version, frame)
    assert b"".join(encode_response(correlation_id, response, version))[4:] == frame
    if entry["api_key"] in CONTROL:
        recorded = spelt_as_ours(entry["decoded"]["response"], entry["api_key"])
        assert plain(response, version) == recorded


def test_the_header_of_the_oldest_controlled_shutdown_has_no_client_id():
    entry = next(
        p.values[0]
        for p in EXCHANGES
        if (p.values[0]["api_key"], p.values[0]["api_version"]) == (ApiKey.CONTROLLED_SHUTDOWN, 0)
    )
    header, request = decode_request(bytes.fromhex(entry["request"]))
    assert header.client_id is None
    assert request.broker_id == entry["decoded"]["request"]["broker_id"]


def test_every_kind_of_exchange_was_found():
    found = {(p.values[0]["api_key"], p.values[0]["api_version"]) for p in EXCHANGES}
    assert found == {
        (1, 0), (1, 10), (1, 11), (2, 0), (2, 4), (2, 5), (4, 0), (4, 1), (4, 2), (5, 0), (5, 1),
        (6, 0), (6, 4), (6, 5), (7, 0), (7, 1), (7, 2), (23, 2), (23, 3), (43, 0),
    }  # fmt: skip
