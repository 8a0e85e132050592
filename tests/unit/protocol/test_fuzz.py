"""Any bytes decode to a message or raise one of the two declared exceptions."""

import json
import random
import struct
import tracemalloc
from pathlib import Path

import pytest

from tests.support import soak
from tests.support.mutations import mutated
from zkbroker.protocol import (
    BROKER_VERSIONS,
    MalformedFrame,
    UnsupportedRequest,
    decode_request,
    decode_response,
    supported,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "wire"


def golden_frames():
    """Return `(frame, None)` of requests, `(frame, (api, version))` of responses."""
    frames = []
    for path in sorted(GOLDEN.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            frames.append((bytes.fromhex(entry["request"]), None))
            if entry["response"] and supported(entry["api_key"], entry["api_version"]):
                response = bytes.fromhex(entry["response"])
                frames.append((response, (entry["api_key"], entry["api_version"])))
    return frames


def decode_all(count, seed):
    rng = random.Random(seed)
    frames = golden_frames()
    outcomes = {"decoded": 0, "malformed": 0, "unsupported": 0}
    for number in range(count):
        frame, response_of = frames[number % len(frames)]
        # Mostly the body, so that mutants pass the header.
        kept = 0 if rng.random() < 0.1 else 8
        data = frame[:kept] + mutated(frame[kept:], rng)
        try:
            if response_of is None:
                decode_request(data)
            else:
                decode_response(*response_of, data)
            outcomes["decoded"] += 1
        except MalformedFrame:
            outcomes["malformed"] += 1
        except UnsupportedRequest:
            outcomes["unsupported"] += 1
    return outcomes


def compile_everything():
    from zkbroker.protocol import MESSAGES, codec

    for api_key, (low, high) in BROKER_VERSIONS.items():
        for version in range(low, high + 1):
            for message in MESSAGES[api_key]:
                codec.decoder(message, version)


@pytest.mark.parametrize(
    "count", [2_000, pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]
)
def test_mutated_frames_raise_declared_errors_and_leak_no_memory(count):
    count = soak.part_of(count)
    compile_everything()
    decode_all(500, seed=1)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        outcomes = decode_all(count, seed=2 + soak.SEED)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(outcomes.values()) == count
    assert min(outcomes["decoded"], outcomes["malformed"]) > count // 10, outcomes
    assert after - before < 100_000
    assert peak - before < 4_000_000  # the golden frames themselves are below 1 MB


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_raise_only_declared_errors(seed):
    rng = random.Random(seed)
    for api_key, (low, high) in BROKER_VERSIONS.items():
        for version in range(low, high + 1):
            noise = rng.randbytes(rng.randrange(64))
            try:
                decode_request(struct.pack(">hhih", api_key, version, 0, -1) + noise)
            except MalformedFrame:
                pass
            try:
                decode_response(api_key, version, noise)
            except MalformedFrame:
                pass
