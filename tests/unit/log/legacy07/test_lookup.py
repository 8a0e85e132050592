"""Offsets of positions and positions of offsets, by the maps of a view."""

import pytest

from tests.support.logs import end_transaction
from tests.support.views07 import shown
from zkbroker.errors import OffsetOutOfRange, StorageError
from zkbroker.log.legacy07.lookup import ViewMap
from zkbroker.records import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper, messages

WRAPPER = build_wrapper(Codec.GZIP, build_message(b"3") + build_message(b"4"))


@pytest.fixture
def found(tmp_path):
    with shown(tmp_path, file_bytes=60) as made:
        made.modern(b"0", b"1", b"2")
        made.old(WRAPPER + build_message(b"5", magic=0))
        made.modern(b"6", codec=Codec.SNAPPY)
        made.show()
        yield made


def test_position_and_offset_lookups_are_inverse(found):
    view = ViewMap(found.view.directory)
    assert view.partition == 0
    at, places = 0, []
    data = found.bytes()
    while at < len(data):
        places.append(at)
        at = at + 4 + int.from_bytes(data[at : at + 4], "big")
    offsets = [0, 1, 2, 3, 5, 6]
    assert [view.offset_at(place) for place in places] == offsets
    assert [view.position_of(offset) for offset in offsets] == places
    # Inside the wrapper: from its beginning.
    assert view.position_of(4) == places[3]
    assert view.offset_at(len(data)) == 7
    assert view.position_of(7) == len(data)
    for each in messages(data, 0):
        assert view.position_of(view.offset_at(each.next_offset)) == each.next_offset


def test_invalid_positions_and_offsets_are_refused(found):
    view = ViewMap(found.view.directory)
    for position in (1, len(build_message(b"0")) + 3):
        with pytest.raises(StorageError, match="is inside a message"):
            view.offset_at(position)
    for position in (-1, found.view.end + 1):
        with pytest.raises(OffsetOutOfRange):
            view.offset_at(position)
    for offset in (-1, 8):
        with pytest.raises(OffsetOutOfRange):
            view.position_of(offset)
    with pytest.raises(StorageError, match="it has no map"):
        ViewMap(found.path)


def test_offset_without_message_maps_to_next_message(tmp_path):
    with shown(tmp_path) as found:
        found.modern(b"k0")
        end_transaction(found.log)
        found.modern(b"k2")
        found.show()
        view = ViewMap(found.view.directory)
        assert view.position_of(1) == view.position_of(2) == len(build_message(b"k0"))


def test_offset_after_truncation_maps_to_new_message(tmp_path):
    with shown(tmp_path) as found:
        found.modern(b"one")
        found.modern(b"two")
        found.show()
        found.log.truncate_to(1)
        found.epoch = 1
        found.modern(b"other")
        found.show()
        view = ViewMap(found.view.directory)
        one = len(build_message(b"one"))
        assert view.position_of(0) == 0
        assert view.position_of(1) == 2 * one
        assert [view.offset_at(at) for at in (0, one, 2 * one)] == [0, 1, 1]
