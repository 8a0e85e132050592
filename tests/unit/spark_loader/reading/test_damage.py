"""Sound entries around damage are found, and damaged entries are reported with their offsets."""

import pytest

from spark_loader.reading.damage import DamagedEntry, Sound, by_entry
from tests.support.message_sets import message_set
from zkbroker.records import decode_columns, iter_entries


def decode(raw, start, until):
    return decode_columns(raw, start_offset=start, end_offset=until)


def walk(records, position=0, until=100, high_watermark=100):
    return list(by_entry(records, position, until, high_watermark, decode))


def entries(magic=2):
    return [message_set(magic, 2, base=base) for base in (0, 2, 4)]


def flipped(entry, at=-1):
    damaged = bytearray(entry)
    damaged[at] ^= 0xFF
    return bytes(damaged)


def test_only_damaged_entry_is_lost():
    one, two, three = entries()
    found = walk(one + flipped(two) + three)
    assert [type(each) for each in found] == [Sound, DamagedEntry, Sound]
    damaged = found[1]
    assert (damaged.start, damaged.until, damaged.raw) == (2, 4, flipped(two))
    assert [each.until for each in found] == [2, 4, 6]


def test_offset_out_of_order_is_damage():
    one, two, three = entries()
    # No checksum covers the offset in front of an entry.
    moved = (7).to_bytes(8, "big") + two[8:]
    found = walk(one + moved + three)
    assert [type(each) for each in found] == [Sound, DamagedEntry, Sound]
    assert (found[1].start, found[1].until) == (2, 4)
    assert "is not before 5" in found[1].reason


def test_offset_above_high_watermark_is_damage():
    one, two, _ = entries()
    found = walk(one + two, high_watermark=3)
    assert isinstance(found[1], DamagedEntry)
    assert "high watermark 3" in found[1].reason


def test_impossible_size_ends_walk():
    one, two, three = entries()
    nonsense = two[:8] + (3).to_bytes(4, "big") + two[12:]
    found = walk(one + nonsense + three)
    assert [type(each) for each in found] == [Sound, DamagedEntry]
    assert found[1].raw == nonsense + three


def test_partial_entry_and_entries_outside_range_are_skipped():
    one, two, three = entries()
    assert [each.until for each in walk(one + two + three[:-1], position=2)] == [4]
    assert [each.until for each in walk(one + two + three, until=3)] == [2, 3]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_sound_and_damaged_entries_cover_all_offsets(magic):
    whole = b"".join(entries(magic))
    for entry in list(iter_entries(whole)):
        damaged = flipped(whole, entry.position + entry.size - 1)
        position = 0
        for each in walk(damaged):
            if isinstance(each, DamagedEntry):
                assert each.start == position
            position = each.until
        assert position == 6
