import random

import pytest

from tests.support.effort import entered_functions
from tests.support.logs import (
    TP,
    append,
    crash,
    make_manager,
    message_set,
    read_all,
    reopened_log,
    started,
    started_log,
)
from zkbroker.errors import CorruptMessage, ErrorCode, OffsetOutOfRange, ProtocolError
from zkbroker.records import NOTHING, Codec, iter_records


def test_appended_messages_are_read_with_dense_offsets(tmp_path):
    with started_log(tmp_path, segment_bytes=5000) as log:
        for index in range(60):
            codec = Codec.GZIP if index % 4 == 3 else Codec.NONE
            result = append(log, 7, magic=index % 3, codec=codec)
            assert (result.base_offset, result.last_offset) == (7 * index, 7 * index + 6)
        assert len(log.segments) > 5
        records = read_all(log, max_bytes=1500)
        assert [record.offset for record in records] == list(range(420))
        assert all(record.value.startswith(b"v%d" % (at % 7)) for at, record in enumerate(records))
        assert log.log_end_offset == 420


def test_read_at_every_offset_begins_there(tmp_path):
    with started_log(tmp_path, segment_bytes=20_000, index_interval_bytes=300) as log:
        chosen = random.Random(7)
        while log.log_end_offset < 900:
            append(log, chosen.randint(1, 9), magic=chosen.randint(0, 2))
        for offset in range(900):
            data = log.read_bytes(offset, 1, end=log.log_end_offset)
            assert next(iter_records(data, start_offset=offset)).offset == offset


def test_out_of_range_error_names_log_range(tmp_path):
    with started_log(tmp_path) as log:
        append(log, 3)
        assert log.read(3, 1000, end=log.log_end_offset).slice is None
        for offset in (-1, 4):
            with pytest.raises(OffsetOutOfRange) as raised:
                log.read(offset, 1000, end=log.log_end_offset)
            assert (raised.value.earliest, raised.value.latest) == (0, 3)


def test_only_old_fetch_may_cut_first_entry(tmp_path):
    with started_log(tmp_path) as log:
        whole = append(log, 5).size_bytes
        assert len(log.read_bytes(0, 70, min_one_entry=False, end=log.log_end_offset)) == 70
        assert len(log.read_bytes(0, 70, end=log.log_end_offset)) == whole


def test_refused_set_writes_no_byte(tmp_path):
    with started_log(tmp_path, max_message_bytes=500) as log:
        damaged = bytearray(message_set(2))
        damaged[-1] ^= 1
        with pytest.raises(CorruptMessage):
            log.append_as_leader(damaged, leader_epoch=0)
        with pytest.raises(ProtocolError) as raised:
            append(log, 20)
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(CorruptMessage):
            log.append_as_leader(b"", leader_epoch=0)
        assert log.size_bytes == 0
        assert log.log_end_offset == 0


def test_set_larger_than_segment_is_refused_with_code(tmp_path):
    with started(tmp_path, segment_bytes=1000) as manager:
        with pytest.raises(ProtocolError) as raised:
            append(manager.get_or_create(TP), 20)
        assert raised.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_log_survives_clean_stop_and_crash(tmp_path):
    with started_log(tmp_path, segment_bytes=5000) as log:
        append(log, 4, times=30)
    manager = make_manager(tmp_path, segment_bytes=5000)
    assert manager.start() == []
    log = manager.get(TP)
    assert log.log_end_offset == log.recovery_point == 120
    append(log, 4)
    crash(manager)
    with reopened_log(tmp_path) as log:
        assert [record.offset for record in read_all(log)] == list(range(124))


@pytest.mark.parametrize("reopened", [False, True])
def test_slice_reports_formats_that_old_readers_cannot_read(tmp_path, reopened):
    with started_log(tmp_path) as log:
        for magic in (0, 0, 1, 0):
            append(log, 3, magic=magic)
        if not reopened:
            check_formats(log)
    if reopened:
        with reopened_log(tmp_path) as log:
            check_formats(log)


def check_formats(log):
    def traits(offset, max_bytes=1 << 20):
        found = log.read(offset, max_bytes, end=log.log_end_offset)
        result = found.max_magic(), found.fetch_since()
        found.slice.close()
        return result

    first = traits(0, 150)
    assert first[0] in (0, 1)
    assert first[1] == 0
    assert traits(0) == (1, 0)
    append(log, 3, magic=2)
    assert traits(9) == (2, 0)
    append(log, 3, magic=2, codec=Codec.ZSTD)
    assert traits(9) == (2, 10)
    assert log.read(18, 100, end=log.log_end_offset).max_magic() == -1


def test_append_and_read_make_few_calls(tmp_path):
    """Of one plain batch, on the broker's runtime: every request makes these calls."""
    with started_log(tmp_path, runtime="gevent") as log:
        batches = [memoryview(bytearray(message_set(1))) for _ in range(30)]
        for batch in batches[:-1]:
            log.append_as_leader(batch, leader_epoch=0, now_ms=0, expanded=NOTHING)
        end = log.log_end_offset
        append = entered_functions(
            lambda: log.append_as_leader(batches[-1], leader_epoch=0, now_ms=0, expanded=NOTHING)
        )
        assert "log/segments/segment.py:append" in append
        assert len(append) <= 10
        assert len({each.partition(":")[0] for each in append}) <= 7
        read = entered_functions(lambda: log.read(end, 1000, end=end + 1).slice.close())
        assert "log/segments/entries.py:find_entry" in read
        assert len(read) <= 11
        assert len({each.partition(":")[0] for each in read}) <= 9
