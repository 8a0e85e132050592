"""Nodes of members of 0.7 groups, compared with recorded genuine ones."""

import re

import pytest

from tests.support.legacy07 import znodes
from zkbroker.registry.groups import BLACK_LIST, WHITE_LIST, StreamSubscription
from zkbroker.registry.legacy07_groups import encode_subscription, parse_subscription

RECORDED = [
    value
    for name in (
        "kafka-0.7.2-2-two-consumers-in-a-group.txt",
        "kafka-0.7.2-3-and-whitelist-and-blacklist-consumers.txt",
        "kafka-0.7.2-8-static-topic-count-consumer.txt",
    )
    for path, (_, value) in znodes(name).items()
    if re.fullmatch(r"/consumers/[^/]+/ids/[^/]+", path) and value is not None
]


def test_recording_has_every_kind_of_subscription():
    assert {value[0] for value in RECORDED} == {"*", "!", "{"}


@pytest.mark.parametrize("value", sorted(set(RECORDED)))
def test_genuine_subscriptions_round_trip(value):
    found = parse_subscription(value.encode())
    assert found is not None
    assert encode_subscription(found) == value.encode()


def test_filter_subscriptions_round_trip():
    for pattern, mark in ((WHITE_LIST, b"*"), (BLACK_LIST, b"!")):
        given = StreamSubscription({"a*b!|c.*": 12}, pattern)
        assert encode_subscription(given) == mark + b"12" + mark + b"a*b!|c.*"
        assert parse_subscription(encode_subscription(given)) == given


@pytest.mark.parametrize(
    "node",
    [
        b"",
        b"samsa",
        b"*x*t",
        b"[1]",
        b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}',
        b"\xff",
        b"[" * 100_000,
        b'{"t": 1e999}',
    ],
)
def test_nodes_of_other_tools_are_ignored(node):
    assert parse_subscription(node) is None
