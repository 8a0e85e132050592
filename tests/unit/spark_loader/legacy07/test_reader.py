"""Ranges of bytes of a 0.7 log become rows, each byte accounted for once."""

import pytest

from spark_loader.errors import DamagedLog, DataLoss, LoadError
from spark_loader.lake.ledger import Gap
from spark_loader.legacy07.generation import GENERATION
from spark_loader.reading.reader import Fetched
from spark_loader.reading.splits import OffsetRange
from zkbroker.errors import OffsetOutOfRange
from zkbroker.records.codec import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper
from zkbroker.types import Partition07

PLAIN = build_message(b"plain")
OLD = build_message(b"old", magic=0)
WRAPPER = build_wrapper(Codec.GZIP, build_message(b"a") + build_message(b"b"))
EMPTY = build_wrapper(Codec.GZIP, b"")


class FakeFetcher07:
    """Answers as a 0.7 broker does: at most so many bytes, cut anywhere."""

    def __init__(self, data, start=0):
        self._data, self._start = data, start

    def send(self, source, offset, max_bytes):
        self._asked = offset, max_bytes
        return self.result

    def result(self):
        offset, most = self._asked
        end = self._start + len(self._data)
        if not self._start <= offset <= end:
            raise OffsetOutOfRange("gone", earliest=self._start, latest=end)
        found = self._data[offset - self._start :][:most]
        return Fetched(found, end if not found else offset + len(found))


def read(log, start, until, fetch_bytes=1000, **more):
    reader = GENERATION.reader(log, positions=True, fetch_bytes=fetch_bytes, **more)
    rows, others = [], []
    for piece in reader.read(OffsetRange("t", Partition07(3, 1), start, until)):
        if hasattr(piece, "to_pylist"):
            rows += piece.to_pylist()
        else:
            others.append(piece)
    return rows, others


@pytest.mark.parametrize("fetch_bytes", [1, 30, 61, 1000])
def test_rows_have_end_offset_and_entry_position(fetch_bytes):
    data = PLAIN + WRAPPER + OLD
    first, second = len(PLAIN), len(PLAIN + WRAPPER)
    rows, others = read(FakeFetcher07(data), 0, len(data), fetch_bytes)
    assert [(bytes(r["value"]), r["position"], r["offset"]) for r in rows] == [
        (b"plain", 0, first),
        (b"a", first, first),
        (b"b", first, second),
        (b"old", second, len(data)),
    ]
    assert {(r["key"], r["topic"], r["partition"], r["timestampType"]) for r in rows} == {
        (None, "t", Partition07(3, 1), -1)
    }
    assert others == []


def test_range_ending_inside_entry_is_refused():
    data = PLAIN + WRAPPER + OLD
    rows, _ = read(FakeFetcher07(data), len(PLAIN), len(PLAIN + WRAPPER))
    assert [bytes(r["value"]) for r in rows] == [b"a", b"b"]
    with pytest.raises(LoadError, match="inside the entry"):
        read(FakeFetcher07(data), 0, len(PLAIN) + 3)


def test_empty_wrapper_is_absent():
    _, others = read(FakeFetcher07(PLAIN + EMPTY + PLAIN), 0, len(PLAIN + EMPTY + PLAIN))
    (gap,) = others
    assert isinstance(gap, Gap)
    assert (gap.start, gap.until) == (len(PLAIN), len(PLAIN + EMPTY))


def test_damaged_entry_fails_or_is_kept():
    bad = bytearray(PLAIN)
    bad[-1] ^= 1
    data = OLD + bytes(bad) + OLD
    with pytest.raises(DamagedLog, match=rf"t-3-1 \[{len(OLD)}, {len(OLD + bad)}\)"):
        read(FakeFetcher07(data), 0, len(data))
    rows, (entry,) = read(FakeFetcher07(data), 0, len(data), keep_damaged=True)
    assert [bytes(r["value"]) for r in rows] == [b"old", b"old"]
    assert (entry.start, entry.until, entry.raw) == (len(OLD), len(OLD + bad), bytes(bad))
    # After an impossible length the start of the next entry is unknown.
    data = OLD + bytes(4) + OLD
    rows, (entry,) = read(FakeFetcher07(data), 0, len(data), keep_damaged=True)
    assert (len(rows), entry.start, entry.until) == (1, len(OLD), len(data))


def test_deleted_offsets_fail_or_become_gap():
    log = FakeFetcher07(PLAIN, start=500)
    with pytest.raises(DataLoss, match=r"\[0, 500\)"):
        read(log, 0, 500 + len(PLAIN))
    rows, (gap,) = read(log, 0, 500 + len(PLAIN), on_out_of_range="earliest")
    assert (gap.start, gap.until, len(rows)) == (0, 500, 1)
