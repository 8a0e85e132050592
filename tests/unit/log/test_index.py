import bisect
import os
import random
import struct

import pytest

from tests.support.logs import open_paths
from zkbroker.log import FileSystem
from zkbroker.log.segments.index import OffsetIndex, TimeIndex

FS = FileSystem()


def test_lookup_finds_last_entry_at_or_below_offset(tmp_path):
    index = OffsetIndex(FS, tmp_path / "x.index", 100, max_bytes=8 * 1000)
    chosen = random.Random(1)
    offsets, positions = [], []
    offset, position = 100, 0
    assert index.lookup(150) == (100, 0)
    for _ in range(1000):
        offset += chosen.randint(1, 50)
        position += chosen.randint(1, 5000)
        index.append(offset, position)
        offsets.append(offset)
        positions.append(position)
    assert index.full
    index.append(offset + 1, position + 1)
    for reopened in (False, True):
        for wanted in range(100, offset + 20, 7):
            at = bisect.bisect_right(offsets, wanted) - 1
            expected = (100, 0) if at < 0 else (offsets[at], positions[at])
            assert index.lookup(wanted) == expected
        if not reopened:
            index.trim()
            index.close()
            index = OffsetIndex(FS, tmp_path / "x.index", 100)
    index.close()
    assert (tmp_path / "x.index").stat().st_size == 8000


def test_non_increasing_entries_are_dropped(tmp_path):
    index = OffsetIndex(FS, tmp_path / "x.index", 10, max_bytes=800)
    for offset, position in (
        (10, 0),
        (12, 50),
        (12, 60),
        (11, 70),
        (13, 50),
        (2**31 + 10, 80),
        (14, 90),
    ):
        index.append(offset, position)
    assert list(index.entries()) == [(2, 50), (4, 90)]
    index.close()
    times = TimeIndex(FS, tmp_path / "x.timeindex", 10, max_bytes=1200)
    for timestamp, offset in ((0, 10), (5, 12), (5, 13), (4, 14), (6, 11), (-1, 15), (7, 12)):
        times.append(timestamp, offset)
    assert list(times.entries()) == [(5, 2), (7, 2)]
    times.close()


def filled_index(path, count):
    """Return an open index with room for 20,000 entries; entry `n` is at position `1000 * n`."""
    index = OffsetIndex(FS, path, 0, max_bytes=8 * 20_000)
    for number in range(1, count + 1):
        index.append(number, 1000 * number)
    return index


@pytest.mark.parametrize("entries", [0, 1, 2, 3, 100])
def test_trailing_zeros_of_untrimmed_index_are_ignored(tmp_path, entries):
    data = b"".join(struct.pack(">ii", at, at * 10) for at in range(1, entries + 1))
    (tmp_path / "x.index").write_bytes(data.ljust(80_000, b"\0"))
    for max_bytes in (None, 80_000):
        again = OffsetIndex(FS, tmp_path / "x.index", 0, max_bytes=max_bytes)
        assert again.count == entries
        assert again.last_entry == ((entries, entries * 10) if entries else None)
        again.close()


def test_time_lookup_returns_first_offset_that_can_be_that_late(tmp_path):
    times = TimeIndex(FS, tmp_path / "x.timeindex", 100, max_bytes=120)
    for timestamp, offset in ((1000, 110), (2000, 120), (3000, 130)):
        times.append(timestamp, offset)
    looked_up = {ts: times.lookup_before(ts) for ts in (0, 1000, 1001, 2000, 2001, 3000, 3001)}
    assert looked_up == {0: 100, 1000: 100, 1001: 111, 2000: 111, 2001: 121, 3000: 121, 3001: 131}
    times.close()


def test_incomplete_last_index_entry_is_ignored(tmp_path):
    index = OffsetIndex(FS, tmp_path / "x.index", 0, max_bytes=80)
    for at in (1, 2, 3):
        index.append(at, at * 10)
    index.trim()
    index.close()
    data = (tmp_path / "x.index").read_bytes()
    (tmp_path / "x.index").write_bytes(data[:-3])
    again = OffsetIndex(FS, tmp_path / "x.index", 0)
    assert again.last_entry == (2, 20)
    again.close()


def test_small_and_large_indexes_find_entries(tmp_path):
    for count in (100, 20_000):
        path = tmp_path / f"{count}.index"
        index = OffsetIndex(FS, path, 0, max_bytes=8 * count)
        for at in range(1, count + 1):
            index.append(at, at)
        index.trim()
        index.close()
        again = OffsetIndex(FS, path, 0)
        assert again.lookup(count // 2) == (count // 2, count // 2)
        assert again.position_before(count // 3) == count // 3
        again.close()


def descriptors_of(path):
    return open_paths().count(str(path))


def test_open_index_holds_one_descriptor_and_closed_small_one_none(tmp_path):
    path = tmp_path / "x.index"
    index = filled_index(path, 19_999)
    assert index.lookup(50) == (50, 50_000)
    assert descriptors_of(path) == 1
    index.trim()
    assert index.lookup(50) == (50, 50_000)
    assert descriptors_of(path) == 1
    index.close()
    assert descriptors_of(path) == 0
    for kept, descriptors in ((20_000, 1), (8_000, 0)):
        os.truncate(path, min(8 * kept, path.stat().st_size))
        index = OffsetIndex(FS, path, 0)
        assert index.lookup(50) == (50, 50_000)
        assert descriptors_of(path) == descriptors
        index.close()
        assert descriptors_of(path) == 0


def test_lookup_in_truncated_index_file_raises(tmp_path):
    path = tmp_path / "x.index"
    index = filled_index(path, 19_999)
    os.truncate(path, 80)
    with pytest.raises(OSError, match="shorter than it was"):
        index.lookup(15_000)
    index.close()
    with pytest.raises(ValueError, match="is closed"):
        index.lookup(15_000)


def test_written_and_unwritten_entries_are_listed(tmp_path):
    index = filled_index(tmp_path / "x.index", 10_010)
    expected = [(number, 1000 * number) for number in range(1, 10_011)]
    assert list(index.entries()) == expected
    index.trim()
    assert list(index.entries()) == expected
    index.close()


@pytest.mark.parametrize("growth", ["even", "accelerating", "decelerating", "one gap"])
def test_lookup_works_for_any_spread_of_offsets(tmp_path, growth):
    count = 6000
    spread = {
        "even": lambda n: n * 100,
        "accelerating": lambda n: n * n,
        "decelerating": lambda n: int(n**0.5 * 10_000) + n,
        "one gap": lambda n: n + 100_000_000 * (n > 4000),
    }[growth]
    offsets = OffsetIndex(FS, tmp_path / "x.index", 0, max_bytes=8 * count)
    times = TimeIndex(FS, tmp_path / "x.timeindex", 0, max_bytes=12 * count)
    values = [spread(number) for number in range(1, count)]
    began = 1_700_000_000_000
    for number, value in enumerate(values, 1):
        offsets.append(value, number * 1000)
        times.append(began + value, number)
    chosen = random.Random(growth)
    for value in [0, values[-1] + 1, *(chosen.choice(values) for _ in range(500))]:
        for wanted in (value - 1, value, value + 1):
            at = bisect.bisect_right(values, wanted)
            assert offsets.lookup(wanted) == ((values[at - 1], at * 1000) if at else (0, 0))
            at = bisect.bisect_left(values, wanted)
            assert times.lookup_before(began + wanted) == (at + 1 if at else 0)
    for index in (offsets, times):
        index.close()
