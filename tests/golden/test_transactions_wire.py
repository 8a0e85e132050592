"""Requests of transactions and their answers from genuine brokers, byte for byte."""

import gzip
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

DATA = Path(__file__).parent / "data" / "transactions"
FIELDS = {"transaction_timeout_ms", "producer_id", "producer_epoch", "group_id", "committed"}


def exchanges():
    for path in sorted(DATA.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for number, line in enumerate(lines, 1):
                entry = json.loads(line)
                yield pytest.param(entry, id=f"{path.name}:{number} {entry['name']}")


EXCHANGES = list(exchanges())


@pytest.mark.parametrize("entry", EXCHANGES)
def test_a_request_decodes_and_encodes_to_the_same_bytes(entry):
    frame = bytes.fromhex(entry["request"])
    if not supported(entry["api_key"], entry["api_version"]):
        with pytest.raises(UnsupportedRequest):
            decode_request(frame)
        return
    header, request = decode_request(frame)
    assert header.correlation_id == entry["correlation_id"]
    assert b"".join(encode_request(header, request))[4:] == frame
    recorded = entry["decoded"]["request"]
    for name in FIELDS & recorded.keys():
        assert getattr(request, name) == recorded[name], name


@pytest.mark.parametrize("entry", [p for p in EXCHANGES if p.values[0]["response"]])
def test_an_answer_decodes_and_encodes_to_the_same_bytes(entry):
    if not supported(entry["api_key"], entry["api_version"]):
        pytest.skip("a version that is one too new: its answer has no layout here")
    frame = bytes.fromhex(entry["response"])
    version = entry["api_version"]
    correlation_id, response = decode_response(entry["api_key"], version, frame)
    assert correlation_id == entry["correlation_id"]
    assert b"".join(encode_response(correlation_id, response, version))[4:] == frame


def test_every_kind_of_exchange_was_found():
    found = {(p.values[0]["api_key"], p.values[0]["api_version"]) for p in EXCHANGES}
    transactional = {(k, v) for k, v in found if 22 <= k <= 28 and supported(k, v)}
    assert transactional == {
        (22, 0), (22, 1), (24, 0), (24, 1), (25, 0), (25, 1), (26, 0), (26, 1), (27, 0),
        (28, 0), (28, 1), (28, 2),
    }  # fmt: skip
