"""Fetched records are appended in small parts: whole entries, in order, once."""

from types import SimpleNamespace

import pytest

from tests.support.message_sets import message_set
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.records import iter_entries
from zkbroker.replica import follower_append
from zkbroker.replica.follower_append import append_in_parts


class Follower:
    """Appends whole entries that follow its end, as a partition does."""

    def __init__(self, start=0, code=ErrorCode.UNKNOWN_SERVER_ERROR):
        self.log_start_offset = self.log_end_offset = start
        self.code = code
        self.entries = []
        self.restarts = []

    def append(self, data):
        size = 0
        for entry in iter_entries(data):
            if entry.base_offset != self.log_end_offset:
                raise ProtocolError("out of order", code=self.code)
            self.entries.append(entry.base_offset)
            self.log_end_offset = entry.last_offset + 1
            size += entry.size
        return SimpleNamespace(size_bytes=size)

    def restart_at(self, offset):
        self.log_start_offset = self.log_end_offset = offset
        self.restarts.append(offset)


def appended(follower, data, go_on=lambda: True):
    pauses = []
    size = append_in_parts(follower, memoryview(data), go_on=go_on, pause=lambda: pauses.append(1))
    return size, len(pauses)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(follower_append, "APPEND_BYTES", 100)


DATA = b"".join(message_set(2, 2, base=base) for base in range(0, 20, 2))


def test_append_pauses_between_parts_of_whole_entries():
    follower = Follower()
    size, pauses = appended(follower, DATA)
    assert size == len(DATA)
    assert follower.entries == list(range(0, 20, 2))
    assert pauses > 3
    large = message_set(2, 100, base=20)
    assert appended(follower, large) == (len(large), 0)


def test_incomplete_last_entry_is_not_appended():
    follower = Follower()
    whole = len(message_set(2, 2))
    assert appended(follower, DATA[: whole + 20])[0] == whole
    assert follower.log_end_offset == 2


def test_append_stops_when_partition_is_unfollowed():
    pauses = iter([True, False])
    follower = Follower()
    size, _ = appended(follower, DATA, go_on=lambda: next(pauses))
    assert 0 < size < len(DATA)


def test_empty_log_restarts_at_batch_containing_leaders_start():
    follower = Follower(start=1)
    appended(follower, DATA)
    assert follower.restarts == [0]
    assert follower.log_end_offset == 20


@pytest.mark.parametrize(
    "follower", [Follower(start=1, code=ErrorCode.NOT_LEADER_FOR_PARTITION), Follower(start=50)]
)
def test_other_append_errors_are_raised(follower):
    with pytest.raises(ProtocolError, match="out of order"):
        appended(follower, DATA)
    assert follower.restarts == []
