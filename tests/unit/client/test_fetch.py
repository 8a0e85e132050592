"""Fetch requests and responses."""

from types import SimpleNamespace
from typing import Any

import pytest

from zkbroker.client.fetch import (
    Wanted,
    answer_of_one,
    doubled,
    end_of,
    fetched,
    require_transactions,
    send_fetch,
)
from zkbroker.config.fetching import FetchSettings
from zkbroker.errors import MessageSizeTooLarge, ProtocolError, UnsupportedVersion
from zkbroker.protocol.messages import FetchResponse
from zkbroker.protocol.messages.fetch import FetchResponsePartition, FetchResponseTopic


class Connection:
    """Answers every fetch with one response."""

    address = "b:1"

    def __init__(self, answer: Any = None, newest: int = 10) -> None:
        self.answer, self.newest = answer, newest

    def best_version(self, api_key: int, at_most: int | None = None) -> int:
        return min(self.newest, self.newest if at_most is None else at_most)

    def send(self, request: Any, version: int) -> Any:
        pending = SimpleNamespace(request=request, version=version)

        def result(timeout_s: float, *, muted: bool) -> Any:
            assert muted
            pending.waited_s = timeout_s
            return self.answer

        pending.result = result
        return pending


def test_fetch_size_doubles_up_to_limit() -> None:
    sizes = [1000]
    while sizes[-1] < 5000:
        sizes.append(doubled(sizes[-1], 5000, "t-0"))
    assert sizes == [1000, 2000, 4000, 5000]
    with pytest.raises(MessageSizeTooLarge, match="t-0"):
        doubled(5000, 5000, "t-0")


def test_fetch_request_keeps_order_of_partitions() -> None:
    wanted = {("b", 1): Wanted(5, 10), ("b", 0): Wanted(6, 10), ("a", 0): Wanted(7, 10)}
    settings = FetchSettings(max_wait_ms=1, min_bytes=2, response_bytes=3)
    request = send_fetch(Connection(), wanted, settings).request
    assert [(t.topic, [p.partition for p in t.partitions]) for t in request.topics] == [
        ("b", [1, 0]),
        ("a", [0]),
    ]
    assert (request.session_id, request.session_epoch, request.max_bytes) == (0, -1, 3)
    assert (request.max_wait_ms, request.min_bytes, request.isolation_level) == (1, 2, 0)


def test_caller_overrides_wait_time_and_version() -> None:
    settings = FetchSettings(timeout_ms=2000, read_committed=True)
    wanted = {("t", 0): Wanted(0, 1)}
    connection = Connection(FetchResponse())
    pending = send_fetch(connection, wanted, settings, max_wait_ms=0, at_most=3)
    assert (pending.request.max_wait_ms, pending.request.isolation_level) == (0, 1)
    assert pending.version == 3
    assert dict(fetched(pending, settings)) == {}
    assert pending.waited_s == 2.0


def test_errors_of_response_and_of_partition_are_raised() -> None:
    settings = FetchSettings()
    refused = send_fetch(Connection(FetchResponse(error_code=70)), {}, settings)
    with pytest.raises(ProtocolError, match="FETCH_SESSION_ID_NOT_FOUND"):
        list(fetched(refused, settings))
    part = FetchResponsePartition(partition=4, error_code=6)
    answer = FetchResponse(topics=[FetchResponseTopic("t", [part])])
    with pytest.raises(ProtocolError, match="fetch of t-4: NOT_LEADER"):
        answer_of_one(send_fetch(Connection(answer), {}, settings), settings)
    with pytest.raises(ProtocolError, match="did not answer for the partition"):
        answer_of_one(send_fetch(Connection(FetchResponse()), {}, settings), settings)


def test_require_transactions_refuses_older_broker() -> None:
    require_transactions(Connection(newest=4))
    with pytest.raises(UnsupportedVersion, match=r"b:1 is older than 0\.11"):
        require_transactions(Connection(newest=3))


@pytest.mark.parametrize(("stable", "end"), [(5, 5), (-1, 9)])
def test_end_for_committed_reader_is_last_stable_offset(stable: int, end: int) -> None:
    part = FetchResponsePartition(high_watermark=9, last_stable_offset=stable)
    assert end_of(part, read_committed=True) == end
    assert end_of(part, read_committed=False) == 9


def test_throttled_fetch_is_empty_or_repeated_when_patient() -> None:
    settings, part = FetchSettings(), FetchResponsePartition(partition=4)
    throttled = FetchResponse(throttle_time_ms=5)
    answers = [throttled, throttled, FetchResponse(topics=[FetchResponseTopic("t", [part])])]
    connection = Connection()
    pending = send_fetch(connection, {}, settings)
    pending.again = lambda: pending
    pending.result = lambda timeout_s, *, muted: answers.pop(0)
    assert dict(fetched(pending, settings)) == {}
    assert answer_of_one(pending, settings) is part
    assert answers == []
