"""Results of the simple consumer."""

import pytest

from tests.support.message_sets import message_set
from zkbroker.consumer.message_set import FetchRequest, MessageSet
from zkbroker.errors import OffsetOutOfRange


def test_iteration_starts_at_requested_offset() -> None:
    request = FetchRequest("t", 1, 12)
    found = MessageSet(request, message_set(2, 5, base=10), high_watermark=15, next_offset=15)
    assert [record.offset for record in found] == [12, 13, 14]
    assert (found.topic, found.partition, found.offset, found.next_offset) == ("t", 1, 12, 15)


def test_message_set_with_error_raises_and_keeps_offset() -> None:
    error = OffsetOutOfRange("gone", earliest=5, latest=9)
    found = MessageSet(FetchRequest("t", 1, 12), error=error)
    assert (found.next_offset, found.high_watermark) == (12, -1)
    with pytest.raises(OffsetOutOfRange):
        list(found)
