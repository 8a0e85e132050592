"""Retries while leaders move, and their bounds."""

import pytest

from zkbroker.client import BrokerUnavailable
from zkbroker.client.leader_retries import retry_requests
from zkbroker.errors import (
    ErrorCode,
    NetworkError,
    ProtocolError,
    RegistryError,
    RequestTimedOut,
    UnknownTopicOrPartition,
    protocol_error,
)
from zkbroker.runtime import get_runtime


class FakeMetadata:
    runtime = get_runtime("threads")

    def __init__(self, *failures):
        self.failures = list(failures)
        self.refreshed = []

    def refresh(self, topics=None):
        self.refreshed.append(topics)
        if self.failures:
            raise self.failures.pop(0)


def retried(metadata, *errors, **options):
    """Return the answer that follows these errors."""
    left = list(errors)

    def ask():
        if left:
            raise left.pop(0)
        return "answer"

    return retry_requests(metadata, {"t"}, ask, **options)


@pytest.mark.parametrize("code", [3, 5, 6, 7, 9, 13, 14, 15, 16, 56, 74, 75, 78])
def test_leader_change_errors_are_retried_with_fresh_metadata(code):
    metadata = FakeMetadata()
    assert retried(metadata, *[protocol_error(code)] * 3) == "answer"
    assert metadata.refreshed == [["t"]] * 3


@pytest.mark.parametrize(
    "error",
    [NetworkError("lost"), RequestTimedOut("late"), BrokerUnavailable("gone"), RegistryError("no")],
)
def test_connection_errors_are_retried(error):
    assert retried(FakeMetadata(), error, error) == "answer"


@pytest.mark.parametrize("code", [1, 2, 10, 17, 29, 35, 42, 43, 76])
def test_error_that_is_not_retriable_is_raised_at_once(code):
    metadata = FakeMetadata()
    with pytest.raises(ProtocolError) as caught:
        retried(metadata, protocol_error(code))
    assert caught.value.code == code
    assert metadata.refreshed == []


def test_zero_timeout_refreshes_metadata_once():
    metadata = FakeMetadata()
    moved = protocol_error(ErrorCode.NOT_LEADER_FOR_PARTITION)
    assert retried(metadata, moved, timeout_s=0) == "answer"
    with pytest.raises(ProtocolError):
        retried(metadata, moved, moved, timeout_s=0)


def test_retries_stop_after_timeout():
    metadata = FakeMetadata()
    with pytest.raises(ProtocolError):
        retried(metadata, *[protocol_error(6)] * 1000, timeout_s=0.5)
    assert len(metadata.refreshed) < 20


def test_unknown_topic_is_raised_after_few_tries():
    metadata = FakeMetadata()
    with pytest.raises(UnknownTopicOrPartition):
        retried(metadata, *[protocol_error(3)] * 1000, timeout_s=3600)
    assert len(metadata.refreshed) < 10


def test_failed_metadata_refresh_is_retried():
    metadata = FakeMetadata(RegistryError("away"), NetworkError("lost"))
    assert retried(metadata, *[protocol_error(6)] * 3) == "answer"
    with pytest.raises(RegistryError, match="away"):
        retried(FakeMetadata(RegistryError("away")), protocol_error(6), timeout_s=0)
