"""Sent sets which a view has yet to show byte for byte."""

import pytest

from zkbroker.log.legacy07.sent_sets import SentSets
from zkbroker.records.generations import AS_SENT, Stretch07

TERM = (1, 5)


def stretch(size, messages=1):
    return Stretch07(AS_SENT, memoryview(bytearray(size)), messages)


@pytest.fixture
def sets():
    return SentSets(limit_bytes=100)


def test_sets_are_ordered_by_master_offset(sets):
    for offset in (20, 10, 30):
        sets.add(offset, [stretch(10, 2), stretch(5, 3)], TERM)
    first = sets.first(0, TERM)
    assert (first.offset, first.count, first.size) == (10, 5, 15)
    sets.drop_first()
    assert sets.first(0, TERM).offset == 20


def test_set_bytes_are_copied_from_buffer(sets):
    buffer = bytearray(b"kept")
    sets.add(0, [Stretch07(AS_SENT, memoryview(buffer), 1)], TERM)
    buffer[:] = b"gone"
    assert sets.first(0, TERM).stretches[0].data == b"kept"


def test_set_above_bound_is_not_kept(sets):
    sets.add(0, [stretch(90)], TERM)
    sets.add(1, [stretch(11)], TERM)
    assert sets.first(1, TERM) is None
    sets.add(2, [stretch(100)], TERM)
    assert sets.first(2, TERM).offset == 2


def test_set_of_other_term_or_lower_offset_is_dropped(sets):
    sets.add(5, [stretch(1)], TERM)
    sets.add(6, [stretch(1)], (2, 6))
    assert sets.first(5, (2, 6)).offset == 6
    assert sets.first(7, (2, 6)) is None
