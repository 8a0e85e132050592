import pytest

from tests.support.logs import TP, make_manager, message_set, read_all, started
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.log import FileSystem
from zkbroker.log.producers.state import (
    ProducerState,
    drop_snapshots,
    snapshots,
    write_snapshot,
)
from zkbroker.records import iter_entries

PRODUCER = 1000
NOW = 2_000_000_000_000


def batch(sequence, count=2, *, epoch=0, producer=PRODUCER):
    return message_set(
        count,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        prefix=f"{sequence}-",
    )


def refused(log, data, code):
    before = log.log_end_offset
    with pytest.raises(ProtocolError) as raised:
        log.append_as_leader(data, leader_epoch=0)
    assert raised.value.code is code
    assert log.log_end_offset == before


@pytest.fixture
def log(tmp_path):
    with started(tmp_path) as manager:
        yield manager.get_or_create(TP)


def test_each_of_the_last_five_batches_is_answered_with_its_own_offsets_when_repeated(log):
    stored = [log.append_as_leader(batch(2 * at), leader_epoch=0) for at in range(7)]
    for at in range(2, 7):
        again = log.append_as_leader(batch(2 * at), leader_epoch=0)
        assert again.duplicate
        assert (again.base_offset, again.last_offset) == (stored[at].base_offset, 2 * at + 1)
        assert again.size_bytes == 0
    assert log.log_end_offset == 14


def test_an_older_repeat_and_a_gap_are_out_of_order(log):
    for at in range(7):
        log.append_as_leader(batch(2 * at), leader_epoch=0)
    refused(log, batch(2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    refused(log, batch(16), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # The same first sequence with another count is no repeat.
    refused(log, batch(12, 3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert not log.append_as_leader(batch(14), leader_epoch=0).duplicate


def test_an_older_epoch_is_refused_and_a_newer_one_begins_at_zero(log):
    log.append_as_leader(batch(0, epoch=3), leader_epoch=0)
    refused(log, batch(2, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH)
    refused(log, batch(2, epoch=4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert log.append_as_leader(batch(0, epoch=4), leader_epoch=0).base_offset == 2
    refused(log, batch(0, epoch=3), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_producer_that_is_not_known_may_begin_anywhere(log):
    assert log.append_as_leader(batch(77), leader_epoch=0).base_offset == 0
    assert log.append_as_leader(batch(79), leader_epoch=0).base_offset == 2


def test_sequences_wrap_around(log):
    last = 2**31 - 1
    log.append_as_leader(batch(last - 1, 2), leader_epoch=0)
    assert log.append_as_leader(batch(0, 2), leader_epoch=0).base_offset == 2
    log.append_as_leader(batch(2**31 - 1, 1, producer=7), leader_epoch=0)
    log.append_as_leader(batch(0, 1, producer=7), leader_epoch=0)
    log.append_as_leader(batch(last, 3, producer=8), leader_epoch=0)
    assert log.append_as_leader(batch(last, 3, producer=8), leader_epoch=0).duplicate
    assert not log.append_as_leader(batch(2, 1, producer=8), leader_epoch=0).duplicate


@pytest.mark.parametrize("stop", ["close", "abandon"])
def test_a_repeat_after_a_restart_is_still_stored_once(tmp_path, stop):
    manager = make_manager(tmp_path, segment_bytes=700)
    manager.start()
    log = manager.get_or_create(TP)
    for at in range(9):
        log.append_as_leader(batch(2 * at), leader_epoch=0)
    assert len(log.segments) > 2
    getattr(manager, stop)()
    with started(tmp_path, segment_bytes=700) as again:
        log = again.get(TP)
        assert log.append_as_leader(batch(16), leader_epoch=0).duplicate
        assert log.append_as_leader(batch(16), leader_epoch=0).base_offset == 16
        assert log.append_as_leader(batch(18), leader_epoch=0).base_offset == 18
        assert len(read_all(log)) == 20


def test_after_a_clean_stop_the_last_five_batches_are_known(tmp_path):
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        for at in range(9):
            log.append_as_leader(batch(2 * at), leader_epoch=0)
    with started(tmp_path) as manager:
        log = manager.get(TP)
        for at in range(4, 9):
            assert log.append_as_leader(batch(2 * at), leader_epoch=0).base_offset == 2 * at
        refused(log, batch(6), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_snapshots_are_taken_at_rolls_and_go_with_their_segments(tmp_path):
    with started(tmp_path, segment_bytes=700) as manager:
        log = manager.get_or_create(TP)
        for at in range(9):
            log.append_as_leader(batch(2 * at), leader_epoch=0)
        bases = [segment.base_offset for segment in log.segments]
        assert snapshots(log.path) == bases[1:]
        log.advance_start_to(bases[2])
        assert snapshots(log.path) == bases[2:]


def test_a_snapshot_keeps_the_last_batch_of_each_producer(tmp_path):
    state = ProducerState()
    for data in (batch(0), batch(2, 5), batch(9, 1, producer=5, epoch=2)):
        for entry in iter_entries(data):
            state.update(entry)
    again = ProducerState.from_snapshot(state.to_snapshot())
    assert again.to_snapshot() == state.to_snapshot()
    (entry,) = iter_entries(batch(2, 5))
    assert again.check(entry) == state.check(entry) is not None
    # version, CRC and count, then 46 bytes a producer
    assert len(state.to_snapshot()) == 2 + 4 + 4 + 2 * 46


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d[:-1],
        lambda d: b"\0\2" + d[2:],
        lambda d: b"",
        lambda d: d[:20] + b"\xff" + d[21:],
    ],
)
def test_a_damaged_snapshot_is_known_as_such(damage):
    state = ProducerState()
    for entry in iter_entries(batch(0)):
        state.update(entry)
    with pytest.raises(ValueError, match="snapshot"):
        ProducerState.from_snapshot(damage(state.to_snapshot()))


def test_silent_producers_are_forgotten_whatever_the_time_of_their_events():
    state = ProducerState()

    def send(producer, sequence):
        for entry in iter_entries(batch(sequence, producer=producer)):
            state.update(entry)

    send(1, 0)
    send(2, 0)
    state.expire(NOW, 1000)
    state.expire(NOW + 1000, 1000)
    send(2, 2)
    state.expire(NOW + 1001, 1000)
    assert list(state.producer_ids()) == [2]
    state.expire(NOW + 2002, 1000)
    assert list(state.producer_ids()) == []


def test_snapshots_outside_a_range_are_dropped(tmp_path):
    fs = FileSystem()
    for offset in (1, 5, 9):
        write_snapshot(fs, tmp_path, offset, ProducerState())
    drop_snapshots(fs, tmp_path, below=5)
    assert snapshots(tmp_path) == [5, 9]
    drop_snapshots(fs, tmp_path, above=5)
    assert snapshots(tmp_path) == [5]


def test_an_id_that_no_cluster_gave_out_is_none_to_begin_above():
    state = ProducerState()
    for producer in (7, 2**62 - 1, 2**62, 2**63 - 1):
        for entry in iter_entries(batch(0, producer=producer)):
            state.update(entry)
    assert sorted(state.producer_ids()) == [7, 2**62 - 1]
