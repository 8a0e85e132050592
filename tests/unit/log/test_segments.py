"""Rolling, and indexes that are missing or wrong."""

import random
import struct

import pytest

from tests.support.clocks import Clock
from tests.support.logs import TP, message_set, read_all, started
from zkbroker.records import Codec, iter_entries, iter_records


def bases(log):
    return [segment.base_offset for segment in log.segments]


def test_a_segment_is_rolled_before_it_grows_past_its_size(tmp_path):
    with started(tmp_path, segment_bytes=1000) as manager:
        log = manager.get_or_create(TP)
        for _ in range(20):
            log.append_as_leader(message_set(2), leader_epoch=0)
        assert len(log.segments) > 3
        sizes = [path.stat().st_size for path in sorted(log.path.glob("*.log"))]
        assert all(0 < size <= 1000 for size in sizes)
        assert [int(path.stem) for path in sorted(log.path.glob("*.log"))] == bases(log)


def test_a_segment_is_rolled_when_its_first_message_is_too_old(tmp_path):
    with started(tmp_path, roll_ms=1000) as manager:
        log = manager.get_or_create(TP)
        for timestamp in (5000, 5900, 6000, 6001, 7001, 7002):
            log.append_as_leader(message_set(1, timestamp=timestamp), leader_epoch=0)
        assert bases(log) == [0, 3, 5]


def test_the_age_of_a_segment_survives_a_restart(tmp_path):
    with started(tmp_path, roll_ms=1000) as manager:
        manager.get_or_create(TP).append_as_leader(message_set(1, timestamp=5000), leader_epoch=0)
    with started(tmp_path, roll_ms=1000) as manager:
        log = manager.get(TP)
        log.append_as_leader(message_set(1, timestamp=5500), leader_epoch=0)
        log.append_as_leader(message_set(1, timestamp=6001), leader_epoch=0)
        assert bases(log) == [0, 2]


def test_the_age_of_messages_without_timestamps_counts_from_the_segment_s_beginning(tmp_path):
    clock = Clock()
    with started(tmp_path, roll_ms=1000, clock=clock) as manager:
        log = manager.get_or_create(TP)
        log.append_as_leader(message_set(1, magic=0), leader_epoch=0)
        clock.advance(1000)
        log.append_as_leader(message_set(1, magic=0), leader_epoch=0)
        clock.advance(1)
        log.append_as_leader(message_set(1, magic=0), leader_epoch=0)
        assert bases(log) == [0, 2]


def test_a_full_index_begins_a_new_segment(tmp_path):
    with started(tmp_path, index_max_bytes=36, index_interval_bytes=0) as manager:
        log = manager.get_or_create(TP)
        for at in range(12):
            log.append_as_leader(message_set(1, timestamp=1000 + at), leader_epoch=0)
        # Three time index entries of 12 bytes; the first append is not indexed.
        assert bases(log) == [0, 4, 8]
        assert [record.offset for record in read_all(log)] == list(range(12))


def test_a_segment_is_rolled_before_an_offset_does_not_fit_its_indexes(tmp_path):
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        log.append_as_leader(message_set(1), leader_epoch=0)
        # As after a compaction: the offsets between are gone.
        log.log_end_offset = 2**31 - 3
        log.append_as_leader(message_set(3), leader_epoch=0)
        assert [segment.base_offset for segment in log.segments] == [0]
        log.append_as_leader(message_set(1), leader_epoch=0)
        assert [segment.base_offset for segment in log.segments] == [0, 2**31]
        assert [record.offset for record in read_all(log)][-2:] == [2**31 - 1, 2**31]


def test_an_empty_segment_is_not_rolled_again(tmp_path):
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        log.roll()
        log.append_as_leader(message_set(1), leader_epoch=0)
        log.roll()
        log.roll()
        assert bases(log) == [0, 1]


def fill(directory):
    with started(directory, segment_bytes=6000, index_interval_bytes=300) as manager:
        log = manager.get_or_create(TP)
        chosen = random.Random(2)
        for at in range(80):
            codec = chosen.choice([Codec.NONE, Codec.GZIP])
            size = chosen.randint(1, 80)
            log.append_as_leader(
                message_set(3, magic=at % 3, codec=codec, size=size, timestamp=1000 + 10 * at),
                leader_epoch=0,
            )
        assert len(log.segments) > 2
    return directory / str(TP)


def check(directory):
    with started(directory, segment_bytes=6000, index_interval_bytes=300) as manager:
        log = manager.get(TP)
        assert [record.offset for record in read_all(log)] == list(range(240))
        for offset in range(240):
            data = log.read_bytes(offset, 1, end=log.log_end_offset)
            assert next(iter_records(data, start_offset=offset)).offset == offset
        for timestamp in range(990, 1800, 13):
            found = log.offset_for_timestamp(timestamp, log.log_end_offset)
            records = read_all(log)
            first = next((r for r in records if r.timestamp >= timestamp), None)
            assert found == (None if first is None else (first.offset, first.timestamp))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_missing_index_is_rebuilt(tmp_path, suffix, which):
    partition = fill(tmp_path)
    sorted(partition.glob(f"*{suffix}"))[which].unlink()
    check(tmp_path)


@pytest.mark.parametrize("seed", range(8))
def test_a_wrong_offset_index_is_noticed_and_never_believed(tmp_path, seed):
    partition = fill(tmp_path)
    chosen = random.Random(seed)
    for path in partition.glob("*.index"):
        data = bytearray(path.read_bytes())
        for _ in range(6):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        path.write_bytes(data)
    with started(tmp_path, segment_bytes=6000, index_interval_bytes=300) as manager:
        log = manager.get(TP)
        for offset in range(240):
            data = log.read_bytes(offset, 1, end=log.log_end_offset)
            assert next(iter_records(data, start_offset=offset)).offset == offset


@pytest.mark.parametrize("convention", ["first", "last"])
def test_an_index_of_either_convention_finds_every_offset(tmp_path, convention):
    partition = fill(tmp_path)
    for path in partition.glob("*.log"):
        base = int(path.stem)
        entries = []
        for number, entry in enumerate(iter_entries(path.read_bytes())):
            # The entries of the first convention hold the first offset of what begins there.
            records = list(iter_records(path.read_bytes()[entry.position :][: entry.size]))
            offset = records[0].offset if convention == "first" else entry.last_offset
            if number % 3 == 2:
                entries.append(struct.pack(">ii", offset - base, entry.position))
        path.with_suffix(".index").write_bytes(b"".join(entries))
    check(tmp_path)


def test_segments_that_are_read_keep_few_files_open(tmp_path):
    fill(tmp_path)
    with started(tmp_path, manager={"open_segments": 2}) as manager:
        log = manager.get(TP)
        for _ in range(3):
            assert len(read_all(log, max_bytes=500)) == 240
        opened = [segment for segment in log.segments[:-1] if segment.files is not None]
        assert len(opened) <= 2
