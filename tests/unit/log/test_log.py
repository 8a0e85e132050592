import random

import pytest

from tests.support.effort import entered_functions
from tests.support.logs import TP, crash, make_manager, message_set, read_all, started
from zkbroker.errors import CorruptMessage, ErrorCode, OffsetOutOfRange, ProtocolError
from zkbroker.log import TopicPartition
from zkbroker.records import NOTHING, Codec, iter_records


def test_what_is_appended_is_read_with_dense_offsets_over_many_segments(tmp_path):
    with started(tmp_path, segment_bytes=5000) as manager:
        log = manager.get_or_create(TP)
        for index in range(60):
            codec = Codec.GZIP if index % 4 == 3 else Codec.NONE
            result = log.append_as_leader(
                message_set(7, magic=index % 3, codec=codec), leader_epoch=0
            )
            assert (result.base_offset, result.last_offset) == (7 * index, 7 * index + 6)
        assert len(log.segments) > 5
        records = read_all(log, max_bytes=1500)
        assert [record.offset for record in records] == list(range(420))
        assert all(record.value.startswith(b"v%d" % (at % 7)) for at, record in enumerate(records))
        assert log.log_end_offset == log.log_end_offset == 420


def test_every_offset_is_found_by_its_own_read(tmp_path):
    with started(tmp_path, segment_bytes=20_000, index_interval_bytes=300) as manager:
        log = manager.get_or_create(TP)
        chosen = random.Random(7)
        while log.log_end_offset < 900:
            log.append_as_leader(
                message_set(chosen.randint(1, 9), magic=chosen.randint(0, 2)), leader_epoch=0
            )
        for offset in range(900):
            data = log.read_bytes(offset, 1, end=log.log_end_offset)
            assert next(iter_records(data, start_offset=offset)).offset == offset


def test_a_read_outside_the_log_says_what_is_inside(tmp_path):
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        log.append_as_leader(message_set(3), leader_epoch=0)
        assert log.read(3, 1000, end=log.log_end_offset).slice is None
        for offset in (-1, 4):
            with pytest.raises(OffsetOutOfRange) as raised:
                log.read(offset, 1000, end=log.log_end_offset)
            assert (raised.value.earliest, raised.value.latest) == (0, 3)


def test_an_old_fetch_may_cut_the_first_entry_and_a_new_one_may_not(tmp_path):
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        whole = log.append_as_leader(message_set(5), leader_epoch=0).size_bytes
        assert len(log.read_bytes(0, 70, min_one_entry=False, end=log.log_end_offset)) == 70
        assert len(log.read_bytes(0, 70, end=log.log_end_offset)) == whole


def test_a_refused_set_leaves_no_byte(tmp_path):
    with started(tmp_path, max_message_bytes=500) as manager:
        log = manager.get_or_create(TP)
        damaged = bytearray(message_set(2))
        damaged[-1] ^= 1
        with pytest.raises(CorruptMessage):
            log.append_as_leader(damaged, leader_epoch=0)
        with pytest.raises(ProtocolError) as raised:
            log.append_as_leader(message_set(20), leader_epoch=0)
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(CorruptMessage):
            log.append_as_leader(b"", leader_epoch=0)
        assert log.size_bytes == 0
        assert log.log_end_offset == 0


def test_a_set_larger_than_a_segment_is_refused_with_its_code(tmp_path):
    with started(tmp_path, segment_bytes=1000) as manager:
        with pytest.raises(ProtocolError) as raised:
            manager.get_or_create(TP).append_as_leader(message_set(20), leader_epoch=0)
        assert raised.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_clean_stop_and_a_crash_keep_everything(tmp_path):
    with started(tmp_path, segment_bytes=5000) as manager:
        log = manager.get_or_create(TP)
        for _ in range(30):
            log.append_as_leader(message_set(4), leader_epoch=0)
    manager = make_manager(tmp_path, segment_bytes=5000)
    assert manager.start() == []
    log = manager.get(TP)
    assert log.log_end_offset == log.recovery_point == 120
    log.append_as_leader(message_set(4), leader_epoch=0)
    crash(manager)
    with started(tmp_path) as manager:
        assert [record.offset for record in read_all(manager.get(TP))] == list(range(124))


def test_the_topic_of_a_partition_may_hold_dashes_and_digits(tmp_path):
    tp = TopicPartition("a-1-b.c_d-2", 11)
    with started(tmp_path) as manager:
        manager.get_or_create(tp).append_as_leader(message_set(1), leader_epoch=0)
    with started(tmp_path) as manager:
        assert manager.get(tp).log_end_offset == 1


@pytest.mark.parametrize("reopened", [False, True])
def test_a_slice_knows_the_formats_that_old_readers_cannot_take(tmp_path, reopened):
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        for magic in (0, 0, 1, 0):
            log.append_as_leader(message_set(3, magic=magic), leader_epoch=0)
        if not reopened:
            check_formats(log)
    if reopened:
        with started(tmp_path) as manager:
            check_formats(manager.get(TP))


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
    log.append_as_leader(message_set(3, magic=2), leader_epoch=0)
    assert traits(9) == (2, 0)
    log.append_as_leader(message_set(3, magic=2, codec=Codec.ZSTD), leader_epoch=0)
    assert traits(9) == (2, 10)
    assert log.read(18, 100, end=log.log_end_offset).max_magic() == -1


def test_an_append_and_a_read_are_few_plain_calls(tmp_path):
    """Of one plain batch, on the runtime of the broker: a call is on the way of each request."""
    with started(tmp_path, runtime="gevent") as manager:
        log = manager.get_or_create(TP)
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
