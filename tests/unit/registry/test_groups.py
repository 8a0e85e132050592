import json

import pytest

from zkbroker.registry.groups import StreamSubscription, _is_thread_of


def test_subscription_round_trips_with_genuine_keys() -> None:
    ours = StreamSubscription({"g08-m.*": 1}, "white_list")
    node = json.loads(ours.to_json())
    assert node.keys() == {"version", "subscription", "pattern", "timestamp"}
    assert isinstance(node["timestamp"], str)
    assert StreamSubscription.from_json(ours.to_json()) == ours


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{}", b'{"subscription":[]}', b'{"subscription":{"t":"x"}}']
)
def test_incomplete_subscription_is_ignored(data: bytes) -> None:
    assert StreamSubscription.from_json(data) is None


def test_missing_pattern_means_named_topics() -> None:
    assert StreamSubscription.from_json(b'{"subscription":{"t":2}}') == StreamSubscription({"t": 2})


@pytest.mark.parametrize(
    ("thread", "consumer", "expected"),
    [
        ("c-1-0", "c-1", True),
        ("c-1-10", "c-1", True),
        ("c-10", "c-1", False),
        ("c-1", "c-1", False),
    ],
)
def test_thread_id_belongs_to_one_consumer(thread: str, consumer: str, expected: bool) -> None:
    assert _is_thread_of(thread, consumer) is expected
