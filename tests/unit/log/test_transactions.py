"""Logs with transactions, as adopted from genuine brokers."""

import os
import struct
from pathlib import Path

import pytest

from tests.support.logs import TP, crash, make_manager, message_set, started
from tests.support.transactional import TransactionalLog
from zkbroker.admin.log_check import check_logs, repair_logs
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.log import Log
from zkbroker.records import (
    committed_only,
    encode_message_set,
    iter_entries,
    iter_records,
    offset_after,
)


def read_committed(log: Log, start: int = 0, max_bytes: int = 1 << 20) -> list[int]:
    """Read as a consumer with isolation.level=read_committed does."""
    offsets = []
    at = start
    while True:
        found = log.read(at, max_bytes, committed=True)
        if found.slice is None:
            return offsets
        aborted = [each[:2] for each in log.aborted_transactions(at, found)]
        data = os.pread(found.slice.fd, found.slice.size, found.slice.position)
        found.slice.close()
        following = offset_after(data)
        assert following is not None
        kept = committed_only(data, aborted)
        offsets += [record.offset for record in iter_records(kept, start_offset=at)]
        assert following > at
        at = following


def index_file(directory: Path, base: int) -> list[tuple[int, ...]]:
    data = (directory / f"{base:020d}.txnindex").read_bytes()
    return [entry[1:] for entry in struct.iter_unpack(">hqqqq", data)]


@pytest.fixture
def stored(tmp_path: Path) -> TransactionalLog:
    """Two producers interleaved over three segments; one aborts across a border."""
    log = TransactionalLog(tmp_path)
    log.send(None)  # 0
    log.send(1, 2)  # 1, 2
    log.send(2)  # 3
    log.abort(2)  # 4
    log.send(1)  # 5, second segment
    log.send(None)  # 6
    log.abort(1)  # 7
    log.send(1)  # 8, third segment
    log.commit(1)  # 9
    log.send(2)  # 10
    log.abort(2)  # 11
    log.store(5, 8)
    return log


def test_readers_of_committed_messages_are_told_what_was_aborted(stored, tmp_path):
    with started(tmp_path) as manager:
        log = manager.get(TP)
        assert log.last_stable_offset == log.log_end_offset == 12
        assert [read_committed(log, start) for start in (0, 2, 8, 10, 12)] == [
            [0, 6, 8],
            [6, 8],
            [8],
            [],
            [],
        ]
        found = log.read(1, 1 << 20, committed=True)
        assert [tuple(each) for each in log.aborted_transactions(1, found)] == [
            (2, 3, 4, 1),
            (1, 1, 7, 8),
        ]
        found.slice.close()


def test_indexes_are_written_as_genuine_brokers_write_them(stored, tmp_path):
    with started(tmp_path):
        pass
    found = {base: index_file(stored.directory, base) for base in (0, 5, 8)}
    assert found == {
        0: [(2, 3, 4, 1)],
        5: [(1, 1, 7, 8)],
        8: [(2, 10, 11, 12)],
    }


@pytest.mark.parametrize("damage", ["cut", "version", "offset", "order"])
def test_an_index_that_is_wrong_is_written_anew(stored, tmp_path, damage):
    with started(tmp_path):
        pass
    path = stored.directory / f"{5:020d}.txnindex"
    good = path.read_bytes()
    bad = {
        "cut": good[:-1],
        "version": b"\x00\x07" + good[2:],
        "offset": good[:18] + struct.pack(">q", 99) + good[26:],
        "order": good * 2,
    }[damage]
    path.write_bytes(bad)
    with started(tmp_path) as manager:
        assert read_committed(manager.get(TP)) == [0, 6, 8]
    assert path.read_bytes() == good


@pytest.mark.parametrize("missing", [0, 5, 8])
def test_a_recovery_writes_the_indexes_that_are_missing(stored, tmp_path, missing):
    with started(tmp_path):
        pass
    (stored.directory / f"{missing:020d}.txnindex").unlink()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    with started(tmp_path) as manager:
        assert read_committed(manager.get(TP)) == [0, 6, 8]
    assert index_file(stored.directory, 5) == [(1, 1, 7, 8)]


def test_a_recovery_of_the_last_segment_knows_what_was_open_before_it(tmp_path):
    log = TransactionalLog(tmp_path)
    log.send(1)
    log.send(None)
    log.abort(1)
    log.store(1)
    with started(tmp_path):
        pass
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (log.directory / f"{1:020d}.txnindex").unlink()
    points = tmp_path / "recovery-point-offset-checkpoint"
    points.write_text(f"0\n1\n{TP.topic} {TP.partition} 1\n")
    with started(tmp_path) as manager:
        assert read_committed(manager.get(TP)) == [1]
    assert index_file(log.directory, 1) == [(1, 0, 2, 3)]


def test_an_open_transaction_ends_what_is_stable(tmp_path):
    stored = TransactionalLog(tmp_path)
    stored.send(None, 2)
    stored.send(1)
    stored.send(None, 2)
    stored.store()
    with started(tmp_path) as manager:
        log = manager.get(TP)
        assert (log.last_stable_offset, log.high_watermark) == (2, 5)
        log.append(message_set(1))
        assert (log.last_stable_offset, log.high_watermark) == (2, 6)
        assert read_committed(log) == [0, 1]
        found = log.read(0, 1 << 20)
        assert found.slice is not None
        found.slice.close()
        assert log.read(2, 1 << 20, committed=True).slice is None
    with started(tmp_path) as manager:
        assert manager.get(TP).last_stable_offset == 2


def test_a_transaction_that_left_the_log_holds_nobody_up(tmp_path):
    stored = TransactionalLog(tmp_path)
    stored.send(1, 2)
    stored.send(None, 2)
    stored.store()
    with started(tmp_path) as manager:
        log = manager.get(TP)
        log.delete_records_before(1)
        assert log.last_stable_offset == 1
        log.delete_records_before(2)
        assert log.last_stable_offset == 4
        assert read_committed(log, 2) == [2, 3]


def test_open_transactions_are_aborted_on_request(tmp_path):
    stored = TransactionalLog(tmp_path)
    stored.send(1)
    stored.send(2)
    stored.send(None)
    stored.store()
    with started(tmp_path) as manager:
        log = manager.get(TP)
        assert {each.producer_id for each in log.abort_transactions()} == {1, 2}
        assert log.abort_transactions() == []
        assert log.last_stable_offset == log.high_watermark == 5
        assert read_committed(log) == [2]
        log.append(message_set(1))
        assert read_committed(log) == [2, 5]
        entries = list(iter_entries(log.read_bytes(3, 1 << 20)))
        assert [entry.is_control for entry in entries] == [True, True, False]
    assert index_file(stored.directory, 0) == [(1, 0, 3, 1), (2, 1, 4, 5)]
    with started(tmp_path) as manager:
        assert read_committed(manager.get(TP)) == [2, 5]


def test_markers_survive_a_crash_that_took_the_index(tmp_path):
    stored = TransactionalLog(tmp_path)
    stored.send(1)
    stored.store()
    manager = make_manager(tmp_path)
    manager.start()
    manager.get(TP).abort_transactions()
    crash(manager)
    (stored.directory / f"{0:020d}.txnindex").unlink()
    with started(tmp_path) as manager:
        assert read_committed(manager.get(TP)) == []
        assert manager.get(TP).last_stable_offset == 2
    assert index_file(stored.directory, 0) == [(1, 0, 1, 2)]


def test_no_part_of_a_transaction_is_taken_from_a_producer(tmp_path):
    batch = encode_message_set(
        [(None, b"x", 0, ())],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        with pytest.raises(ProtocolError) as refused:
            log.append(batch)
        assert refused.value.code == ErrorCode.INVALID_TXN_STATE
        assert log.log_end_offset == 0


@pytest.mark.parametrize("seed", range(12))
def test_every_reader_gets_what_was_committed(tmp_path, seed):
    stored = TransactionalLog(tmp_path)
    stored.play(seed)
    stored.store(*range(seed % 7 + 5, stored.offset, seed % 7 + 10))
    for clean in (False, True, False):
        with started(tmp_path, index_interval_bytes=100) as manager:
            log = manager.get(TP)
            assert (log.last_stable_offset, log.high_watermark) == (stored.stable, stored.offset)
            assert read_committed(log) == stored.committed
            for start in range(stored.offset):
                wanted = [each for each in stored.committed if each >= start]
                assert read_committed(log, start, 1 + start * 37 % 900) == wanted
            found = [tuple(each) for segment in log.segments for each in segment.aborted]
            assert found == stored.aborted
        if not clean:
            (tmp_path / ".kafka_cleanshutdown").unlink()


def test_a_check_compares_the_indexes_with_the_log(stored, tmp_path):
    with started(tmp_path):
        pass
    assert [each.findings for each in check_logs([tmp_path])] == [[]]
    (stored.directory / f"{5:020d}.txnindex").unlink()
    (check,) = check_logs([tmp_path])
    assert [str(each) for each in check.findings] == [
        f"{stored.directory}/{5:020d}.txnindex position 0: 0 aborted transactions, the log has 1"
    ]
    repair_logs([tmp_path])
    assert [each.findings for each in check_logs([tmp_path])] == [[]]
