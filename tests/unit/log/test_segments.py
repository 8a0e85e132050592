"""Rolls of segments, and missing or wrong indexes."""

import random
import struct

import pytest

from tests.support.clocks import Clock
from tests.support.logs import TP, append, read_all, reopened_log, started, started_log
from zkbroker.records import Codec, iter_entries, iter_records


def bases(log):
    return [segment.base_offset for segment in log.segments]


def test_segment_rolls_before_size_limit(tmp_path):
    with started_log(tmp_path, segment_bytes=1000) as log:
        append(log, 2, times=20)
        assert len(log.segments) > 3
        sizes = [path.stat().st_size for path in sorted(log.path.glob("*.log"))]
        assert all(0 < size <= 1000 for size in sizes)
        assert [int(path.stem) for path in sorted(log.path.glob("*.log"))] == bases(log)


def test_segment_rolls_by_age_of_first_message(tmp_path):
    with started_log(tmp_path, roll_ms=1000) as log:
        for timestamp in (5000, 5900, 6000, 6001, 7001, 7002):
            append(log, 1, timestamp=timestamp)
        assert bases(log) == [0, 3, 5]


def test_segment_age_survives_restart(tmp_path):
    with started(tmp_path, roll_ms=1000) as manager:
        append(manager.get_or_create(TP), 1, timestamp=5000)
    with reopened_log(tmp_path, roll_ms=1000) as log:
        append(log, 1, timestamp=5500)
        append(log, 1, timestamp=6001)
        assert bases(log) == [0, 2]


def test_age_without_timestamps_counts_from_segment_creation(tmp_path):
    clock = Clock()
    with started_log(tmp_path, roll_ms=1000, clock=clock) as log:
        append(log, 1, magic=0)
        clock.advance(1000)
        append(log, 1, magic=0)
        clock.advance(1)
        append(log, 1, magic=0)
        assert bases(log) == [0, 2]


def test_full_index_rolls_segment(tmp_path):
    with started_log(tmp_path, index_max_bytes=36, index_interval_bytes=0) as log:
        for at in range(12):
            append(log, 1, timestamp=1000 + at)
        # Three time index entries of 12 bytes; the first append is not indexed.
        assert bases(log) == [0, 4, 8]
        assert [record.offset for record in read_all(log)] == list(range(12))


def test_segment_rolls_before_relative_offset_overflows(tmp_path):
    with started_log(tmp_path) as log:
        append(log, 1)
        # As after a compaction that removed the offsets between.
        log.log_end_offset = 2**31 - 3
        append(log, 3)
        assert bases(log) == [0]
        append(log, 1)
        assert bases(log) == [0, 2**31]
        assert [record.offset for record in read_all(log)][-2:] == [2**31 - 1, 2**31]


def test_empty_segment_is_not_rolled(tmp_path):
    with started_log(tmp_path) as log:
        log.roll()
        append(log, 1)
        log.roll()
        log.roll()
        assert bases(log) == [0, 1]


def fill(directory):
    with started_log(directory, segment_bytes=6000, index_interval_bytes=300) as log:
        chosen = random.Random(2)
        for at in range(80):
            codec = chosen.choice([Codec.NONE, Codec.GZIP])
            size = chosen.randint(1, 80)
            append(log, 3, magic=at % 3, codec=codec, size=size, timestamp=1000 + 10 * at)
        assert len(log.segments) > 2
    return directory / str(TP)


def check_reads(log):
    for offset in range(240):
        data = log.read_bytes(offset, 1, end=log.log_end_offset)
        assert next(iter_records(data, start_offset=offset)).offset == offset


def check(directory):
    with reopened_log(directory, segment_bytes=6000, index_interval_bytes=300) as log:
        records = read_all(log)
        assert [record.offset for record in records] == list(range(240))
        check_reads(log)
        for timestamp in range(990, 1800, 13):
            found = log.offset_for_timestamp(timestamp, log.log_end_offset)
            first = next((r for r in records if r.timestamp >= timestamp), None)
            assert found == (None if first is None else (first.offset, first.timestamp))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("segment", [0, 1, -1])
def test_missing_index_is_rebuilt(tmp_path, suffix, segment):
    partition = fill(tmp_path)
    sorted(partition.glob(f"*{suffix}"))[segment].unlink()
    check(tmp_path)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_offset_index_does_not_mislead_reads(tmp_path, seed):
    partition = fill(tmp_path)
    chosen = random.Random(seed)
    for path in partition.glob("*.index"):
        data = bytearray(path.read_bytes())
        for _ in range(6):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        path.write_bytes(data)
    with reopened_log(tmp_path, segment_bytes=6000, index_interval_bytes=300) as log:
        check_reads(log)


@pytest.mark.parametrize("convention", ["first", "last"])
def test_index_of_first_or_last_offsets_finds_every_offset(tmp_path, convention):
    partition = fill(tmp_path)
    for path in partition.glob("*.log"):
        base = int(path.stem)
        entries = []
        for number, entry in enumerate(iter_entries(path.read_bytes())):
            # Under the convention "first" an index entry holds the first offset at its position.
            records = list(iter_records(path.read_bytes()[entry.position :][: entry.size]))
            offset = records[0].offset if convention == "first" else entry.last_offset
            if number % 3 == 2:
                entries.append(struct.pack(">ii", offset - base, entry.position))
        path.with_suffix(".index").write_bytes(b"".join(entries))
    check(tmp_path)


def test_reads_keep_few_segments_open(tmp_path):
    fill(tmp_path)
    with reopened_log(tmp_path, manager={"open_segments": 2}) as log:
        for _ in range(3):
            assert len(read_all(log, max_bytes=500)) == 240
        opened = [segment for segment in log.segments[:-1] if segment.files is not None]
        assert len(opened) <= 2
