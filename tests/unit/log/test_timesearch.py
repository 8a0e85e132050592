import os
import random

import pytest

from tests.support.clocks import Clock
from tests.support.logs import TP, append, read_all, reopened_log, started, started_log
from zkbroker.errors import UnsupportedForMessageFormat
from zkbroker.log.segments.time_search import EARLIEST, LATEST
from zkbroker.records import Codec


@pytest.mark.parametrize("reopened", [False, True])
def test_first_message_at_or_after_time_is_found(tmp_path, reopened):
    chosen = random.Random(3)
    settings = {"segment_bytes": 4000, "index_interval_bytes": 200}
    with started_log(tmp_path, **settings) as log:
        for index in range(80):
            base = 1000 + 10 * index + chosen.randint(-300, 300)
            codec = chosen.choice([Codec.NONE, Codec.SNAPPY])
            append(log, 3, magic=1 + index % 2, timestamp=base, codec=codec)
        if not reopened:
            check(log)
    if reopened:
        with reopened_log(tmp_path, **settings) as log:
            check(log)


def check(log):
    records = read_all(log)
    for timestamp in range(600, 2200, 7):
        expected = next(
            ((r.offset, r.timestamp) for r in records if r.timestamp >= timestamp), None
        )
        assert log.offset_for_timestamp(timestamp, log.log_end_offset) == expected


def test_deleted_records_are_not_found_by_time(tmp_path):
    with started_log(tmp_path) as log:
        append(log, 5, timestamp=1000)
        append(log, 5, timestamp=2000)
        log.advance_start_to(3)
        assert log.offset_for_timestamp(0, log.log_end_offset) == (3, 1003)


def test_messages_without_timestamps_are_not_found_by_time(tmp_path):
    overrides = {"pinned": {"message.format.version": "0.9.0"}}
    with started(tmp_path, overrides=overrides) as manager:
        log = manager.get_or_create(TP)
        append(log, 5, magic=0)
        assert log.offset_for_timestamp(0, log.log_end_offset) is None
        with pytest.raises(UnsupportedForMessageFormat):
            manager.get_or_create(TP._replace(topic="pinned")).offset_for_timestamp(0, 0)


def test_old_offset_requests_use_file_times(tmp_path):
    clock = Clock()
    with started_log(tmp_path, segment_bytes=1000, clock=clock) as log:
        assert log.segment_offsets_before(LATEST, 5, log.log_end_offset) == [0]
        # An empty log has the time of its file.
        os.utime(next(log.path.glob("*.log")), (1000, 1000))
        assert log.segment_offsets_before(EARLIEST, 5, log.log_end_offset) == [0]
        assert log.segment_offsets_before(1_000_000, 5, log.log_end_offset) == [0]
        assert log.segment_offsets_before(999_000, 5, log.log_end_offset) == []
        append(log, 4, times=8)
        bases = [segment.base_offset for segment in log.segments]
        assert len(bases) > 3
        for index, path in enumerate(sorted(log.path.glob("*.log"))):
            os.utime(path, (1000 + index, 1000 + index))
        assert log.segment_offsets_before(LATEST, 2, log.log_end_offset) == [32, bases[-1]]
        assert log.segment_offsets_before(EARLIEST, 5, log.log_end_offset) == [0]
        assert log.segment_offsets_before(1_001_500, 9, log.log_end_offset) == [bases[1], bases[0]]
        assert log.segment_offsets_before(999_000, 9, log.log_end_offset) == []
        assert log.segment_offsets_before(clock.now, 1, log.log_end_offset) == [32]
