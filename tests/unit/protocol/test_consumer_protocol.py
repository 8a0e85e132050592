import json
from pathlib import Path
from random import Random

import pytest

from tests.support.wire_messages import random_message
from zkbroker.protocol import MalformedFrame, decode_request
from zkbroker.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    flatten,
    group_by_topic,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "wire" / "kafka-2.3.0.jsonl"


def test_subscription_has_genuine_bytes():
    with_data = encode_subscription(Subscription(["t"], b"u"))
    assert with_data == bytes.fromhex("0000 00000001 000174 00000001 75")
    without = encode_subscription(Subscription(["t"]))
    assert without == bytes.fromhex("0000 00000001 000174 ffffffff")
    owned = Subscription(["t"], None, [TopicPartitions("t", [2])])
    assert encode_subscription(owned, 1) == bytes.fromhex(
        "0001 00000001 000174 ffffffff 00000001 000174 00000001 00000002"
    )


def test_assignment_has_genuine_bytes():
    assert encode_assignment(Assignment([TopicPartitions("t", [0, 2])], b"")) == bytes.fromhex(
        "0000 00000001 000174 00000002 00000000 00000002 00000000"
    )


def test_recorded_subscription_round_trips():
    entries = map(json.loads, GOLDEN.read_text().splitlines())
    entry = next(e for e in entries if e["name"] == "JoinGroup v0")
    request = decode_request(bytes.fromhex(entry["request"]))[1]
    metadata = request.protocols[0].metadata
    subscription = decode_subscription(metadata)
    assert subscription.topics == ["wire-t"]
    assert encode_subscription(subscription) == metadata


@pytest.mark.parametrize("version", [0, 1])
def test_subscription_and_assignment_round_trip(version):
    chance = Random(version)
    for _ in range(30):
        subscription = random_message(Subscription, version, chance)
        assignment = random_message(Assignment, version, chance)
        assert decode_subscription(encode_subscription(subscription, version)) == subscription
        assert decode_assignment(encode_assignment(assignment, version)) == assignment


def test_later_subscription_version_is_read_partially():
    owned = Subscription(["t"], None, [TopicPartitions("t", [2])])
    later = b"\0\3" + encode_subscription(owned, 1)[2:] + b"generation and rack"
    assert decode_subscription(later) == owned


def test_empty_bytes_are_an_empty_assignment():
    assert decode_assignment(b"") == Assignment()


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\7"])
def test_invalid_subscription_is_malformed(data):
    with pytest.raises(MalformedFrame):
        decode_subscription(data)


def test_partitions_are_grouped_by_topic():
    pairs = [("b", 1), ("a", 0), ("b", 0)]
    gathered = group_by_topic(pairs)
    assert gathered == [TopicPartitions("b", [1, 0]), TopicPartitions("a", [0])]
    assert flatten(gathered) == [("b", 1), ("b", 0), ("a", 0)]
