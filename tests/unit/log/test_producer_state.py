import pytest

from tests.support.logs import (
    TP,
    message_set,
    read_all,
    reopened_log,
    start_log,
    started,
    started_log,
)
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


def send(log, sequence, count=2, **producer):
    return log.append_as_leader(batch(sequence, count, **producer), leader_epoch=0)


def send_all(log, batches):
    """Append a number of batches of two messages."""
    for at in range(batches):
        send(log, 2 * at)


def state_of(*batches):
    state = ProducerState()
    for data in batches:
        for entry in iter_entries(data):
            state.update(entry)
    return state


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


def test_repeat_of_last_five_batches_returns_original_offsets(log):
    stored = [send(log, 2 * at) for at in range(7)]
    for at in range(2, 7):
        again = send(log, 2 * at)
        assert again.duplicate
        assert (again.base_offset, again.last_offset) == (stored[at].base_offset, 2 * at + 1)
        assert again.size_bytes == 0
    assert log.log_end_offset == 14


def test_older_repeats_and_gaps_are_out_of_order(log):
    send_all(log, 7)
    refused(log, batch(2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    refused(log, batch(16), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # The same first sequence with another count is not a repeat.
    refused(log, batch(12, 3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert not send(log, 14).duplicate


def test_older_epoch_is_refused_and_newer_epoch_begins_at_zero(log):
    send(log, 0, epoch=3)
    refused(log, batch(2, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH)
    refused(log, batch(2, epoch=4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert send(log, 0, epoch=4).base_offset == 2
    refused(log, batch(0, epoch=3), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_unknown_producer_may_begin_at_any_sequence(log):
    assert send(log, 77).base_offset == 0
    assert send(log, 79).base_offset == 2


def test_sequences_wrap_around(log):
    last = 2**31 - 1
    send(log, last - 1, 2)
    assert send(log, 0, 2).base_offset == 2
    send(log, 2**31 - 1, 1, producer=7)
    send(log, 0, 1, producer=7)
    send(log, last, 3, producer=8)
    assert send(log, last, 3, producer=8).duplicate
    assert not send(log, 2, 1, producer=8).duplicate


@pytest.mark.parametrize("stop", ["close", "abandon"])
def test_repeat_after_restart_is_stored_once(tmp_path, stop):
    manager, log = start_log(tmp_path, segment_bytes=700)
    send_all(log, 9)
    assert len(log.segments) > 2
    getattr(manager, stop)()
    with reopened_log(tmp_path, segment_bytes=700) as log:
        assert send(log, 16).duplicate
        assert send(log, 16).base_offset == 16
        assert send(log, 18).base_offset == 18
        assert len(read_all(log)) == 20


def test_last_five_batches_are_known_after_clean_stop(tmp_path):
    with started_log(tmp_path) as log:
        send_all(log, 9)
    with reopened_log(tmp_path) as log:
        for at in range(4, 9):
            assert send(log, 2 * at).base_offset == 2 * at
        refused(log, batch(6), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_snapshots_are_written_at_rolls_and_deleted_with_segments(tmp_path):
    with started_log(tmp_path, segment_bytes=700) as log:
        send_all(log, 9)
        bases = [segment.base_offset for segment in log.segments]
        assert snapshots(log.path) == bases[1:]
        log.advance_start_to(bases[2])
        assert snapshots(log.path) == bases[2:]


def test_snapshot_keeps_last_batch_of_each_producer(tmp_path):
    state = state_of(batch(0), batch(2, 5), batch(9, 1, producer=5, epoch=2))
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
def test_damaged_snapshot_is_refused(damage):
    with pytest.raises(ValueError, match="snapshot"):
        ProducerState.from_snapshot(damage(state_of(batch(0)).to_snapshot()))


def test_idle_producers_expire_by_broker_time():
    state = state_of(batch(0, producer=1), batch(0, producer=2))
    state.expire(NOW, 1000)
    state.expire(NOW + 1000, 1000)
    for entry in iter_entries(batch(2, producer=2)):
        state.update(entry)
    state.expire(NOW + 1001, 1000)
    assert list(state.producer_ids()) == [2]
    state.expire(NOW + 2002, 1000)
    assert list(state.producer_ids()) == []


def test_snapshots_outside_range_are_deleted(tmp_path):
    fs = FileSystem()
    for offset in (1, 5, 9):
        write_snapshot(fs, tmp_path, offset, ProducerState())
    drop_snapshots(fs, tmp_path, below=5)
    assert snapshots(tmp_path) == [5, 9]
    drop_snapshots(fs, tmp_path, above=5)
    assert snapshots(tmp_path) == [5]


def test_unassignable_producer_ids_are_not_listed():
    state = state_of(*(batch(0, producer=each) for each in (7, 2**62 - 1, 2**62, 2**63 - 1)))
    assert sorted(state.producer_ids()) == [7, 2**62 - 1]
