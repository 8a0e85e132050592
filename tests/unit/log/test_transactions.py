"""Logs with transactions: indexes of aborted ones, stable offsets, producers and coordinators."""

import os
import random
import struct
from collections import Counter
from pathlib import Path

import pytest

from tests.support.effort import executed_steps
from tests.support.logs import (
    TP,
    EagerRuntime,
    HookedFileSystem,
    ScarceFileSystem,
    append,
    append_transactional,
    crash,
    end_transaction,
    force_recovery,
    make_manager,
    open_paths,
    reopened_log,
    start_log,
    started,
    started_log,
)
from tests.support.powercut import PowerCutFileSystem
from tests.support.transactional import TransactionalLog
from zkbroker.admin.log_check import check_logs, repair_logs
from zkbroker.errors import ErrorCode, ProtocolError, StorageError
from zkbroker.log import Log, TopicPartition
from zkbroker.log.producers.stability import EndedTransactions
from zkbroker.log.replacing import replace_segments, segment_writer
from zkbroker.records import (
    committed_only,
    encode_message_set,
    iter_entries,
    iter_records,
    offset_after,
)


def stable_end(log: Log) -> int:
    """Return the last stable offset of a partition whose high watermark is at its end."""
    first = log.first_unstable_offset
    return log.log_end_offset if first is None else first


def abort_all(log: Log) -> set[int]:
    """Abort every open transaction; return the ids of their producers."""
    ended = log.producers.open_transactions()
    for each in ended:
        end_transaction(
            log, each.producer_id, epoch=each.producer_epoch, commit=False, coordinator_epoch=3
        )
    return {each.producer_id for each in ended}


def read_committed(log: Log, start: int = 0, max_bytes: int = 1 << 20) -> list[int]:
    """Read as a consumer with isolation.level=read_committed does."""
    offsets = []
    at = start
    while True:
        found = log.read(at, max_bytes, end=stable_end(log))
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


def stored_batches(tmp_path: Path, *sent: tuple[int | None, int]) -> TransactionalLog:
    """Store batches: the producer of the transaction (None: no transaction), and a count."""
    log = TransactionalLog(tmp_path)
    for producer, count in sent:
        log.send(producer, count)
    log.store()
    return log


def index_file(directory: Path, base: int) -> list[tuple[int, ...]]:
    data = (directory / f"{base:020d}.txnindex").read_bytes()
    return [entry[1:] for entry in struct.iter_unpack(">hqqqq", data)]


@pytest.fixture
def stored(tmp_path: Path) -> TransactionalLog:
    """Three segments of two interleaved producers; one aborts a transaction over two segments."""
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


def test_read_committed_skips_aborted_transactions(stored, tmp_path):
    with reopened_log(tmp_path) as log:
        assert stable_end(log) == log.log_end_offset == 12
        starts = {0: [0, 6, 8], 2: [6, 8], 8: [8], 10: [], 12: []}
        assert {start: read_committed(log, start) for start in starts} == starts
        found = log.read(1, 1 << 20, end=stable_end(log))
        aborted = [tuple(each) for each in log.aborted_transactions(1, found)]
        assert aborted == [(2, 3, 4, 1), (1, 1, 7, 8)]
        found.slice.close()


def test_transaction_index_has_genuine_layout(stored, tmp_path):
    with started(tmp_path):
        pass
    found = {base: index_file(stored.directory, base) for base in (0, 5, 8)}
    assert found == {0: [(2, 3, 4, 1)], 5: [(1, 1, 7, 8)], 8: [(2, 10, 11, 12)]}


@pytest.mark.parametrize("damage", ["cut", "version", "offset", "order"])
def test_damaged_transaction_index_is_rewritten(stored, tmp_path, damage):
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
    with reopened_log(tmp_path) as log:
        assert read_committed(log) == [0, 6, 8]
    assert path.read_bytes() == good


@pytest.mark.parametrize("missing", [0, 5, 8])
def test_recovery_rebuilds_missing_transaction_index(stored, tmp_path, missing):
    with started(tmp_path):
        pass
    (stored.directory / f"{missing:020d}.txnindex").unlink()
    force_recovery(tmp_path)
    with reopened_log(tmp_path) as log:
        assert read_committed(log) == [0, 6, 8]
    assert index_file(stored.directory, 5) == [(1, 1, 7, 8)]


def test_recovery_of_last_segment_knows_earlier_open_transactions(tmp_path):
    stored = TransactionalLog(tmp_path)
    stored.send(1)
    stored.send(None)
    stored.abort(1)
    stored.store(1)
    with started(tmp_path):
        pass
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (stored.directory / f"{1:020d}.txnindex").unlink()
    points = tmp_path / "recovery-point-offset-checkpoint"
    points.write_text(f"0\n1\n{TP.topic} {TP.partition} 1\n")
    with reopened_log(tmp_path) as log:
        assert read_committed(log) == [1]
    assert index_file(stored.directory, 1) == [(1, 0, 2, 3)]


def test_open_transaction_bounds_last_stable_offset(tmp_path):
    stored_batches(tmp_path, (None, 2), (1, 1), (None, 2))
    with reopened_log(tmp_path) as log:
        assert (stable_end(log), log.log_end_offset) == (2, 5)
        append(log, 1)
        assert (stable_end(log), log.log_end_offset) == (2, 6)
        assert read_committed(log) == [0, 1]
        found = log.read(0, 1 << 20, end=log.log_end_offset)
        assert found.slice is not None
        found.slice.close()
        assert log.read(2, 1 << 20, end=stable_end(log)).slice is None
    with reopened_log(tmp_path) as log:
        assert stable_end(log) == 2


def test_deleted_transaction_does_not_bound_last_stable_offset(tmp_path):
    stored_batches(tmp_path, (1, 2), (None, 2))
    with reopened_log(tmp_path) as log:
        log.advance_start_to(1)
        assert stable_end(log) == 1
        log.advance_start_to(2)
        assert stable_end(log) == 4
        assert read_committed(log, 2) == [2, 3]


def test_all_open_transactions_can_be_aborted(tmp_path):
    stored = stored_batches(tmp_path, (1, 1), (2, 1), (None, 1))
    with reopened_log(tmp_path) as log:
        assert abort_all(log) == {1, 2}
        assert abort_all(log) == set()
        assert stable_end(log) == log.log_end_offset == 5
        assert read_committed(log) == [2]
        append(log, 1)
        assert read_committed(log) == [2, 5]
        entries = list(iter_entries(log.read_bytes(3, 1 << 20, end=log.log_end_offset)))
        assert [entry.is_control for entry in entries] == [True, True, False]
    assert index_file(stored.directory, 0) == [(1, 0, 3, 1), (2, 1, 4, 5)]
    with reopened_log(tmp_path) as log:
        assert read_committed(log) == [2, 5]


def test_markers_survive_crash_without_index(tmp_path):
    stored = stored_batches(tmp_path, (1, 1))
    manager = make_manager(tmp_path)
    manager.start()
    abort_all(manager.get(TP))
    crash(manager)
    (stored.directory / f"{0:020d}.txnindex").unlink()
    with reopened_log(tmp_path) as log:
        assert read_committed(log) == []
        assert stable_end(log) == 2
    assert index_file(stored.directory, 0) == [(1, 0, 1, 2)]


@pytest.mark.parametrize("seed", range(8))
def test_flushed_abort_survives_power_cut(tmp_path, seed):
    (tmp_path / "data").mkdir()
    fs = PowerCutFileSystem(tmp_path / "data", tmp_path / "after", seed)
    manager, log = start_log(tmp_path / "data", fs=fs, runtime=EagerRuntime())
    append(log, 1)
    append_transactional(log)
    end_transaction(log, commit=False)
    log.flush()
    manager.upkeep.checkpoint()
    # The next segment begins at the checkpointed recovery point.
    log.durability.request = lambda end: None
    log.roll()
    fs.cut()
    manager.abandon()
    fs.close_all()
    with reopened_log(tmp_path / "after") as log:
        assert log.log_end_offset == 3
        assert read_committed(log) == [0]


def batch(sequence=0, *, epoch=0, transactional=True):
    return encode_message_set(
        [(None, b"x", 0, ())],
        producer_id=1,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def refused(code, call, *args, **more):
    with pytest.raises(ProtocolError) as raised:
        call(*args, **more)
    assert raised.value.code is code


@pytest.fixture
def log(tmp_path):
    with started(tmp_path) as manager:
        yield manager.get_or_create(TP)


def test_transaction_needs_coordinator_verification(log):
    refused(ErrorCode.INVALID_TXN_STATE, log.append_as_leader, batch(), leader_epoch=0)
    assert log.log_end_offset == 0
    verification = log.begin_verification(1, 0)
    log.append_as_leader(batch(), leader_epoch=0, verification=verification)
    # An open transaction needs no further verification.
    assert log.begin_verification(1, 0) is None
    log.append_as_leader(batch(1), leader_epoch=0)
    end_transaction(log)
    refused(ErrorCode.INVALID_TXN_STATE, log.append_as_leader, batch(2), leader_epoch=0)
    append_transactional(log, 2)


def test_marker_invalidates_pending_verification(log):
    append_transactional(log)
    end_transaction(log)
    late = log.begin_verification(1, 0)
    assert log.begin_verification(1, 0) is late
    end_transaction(log)
    call = log.append_as_leader
    refused(ErrorCode.INVALID_TXN_STATE, call, batch(1), leader_epoch=0, verification=late)
    again = log.begin_verification(1, 0)
    assert again is not late
    call(batch(1), leader_epoch=0, verification=again)


def test_higher_producer_epoch_needs_new_verification(log):
    append_transactional(log)
    refused(ErrorCode.INVALID_TXN_STATE, log.append_as_leader, batch(epoch=1), leader_epoch=0)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, append_transactional, log, 1, epoch=1)
    append_transactional(log, epoch=1)
    assert log.last_stable_offset(2) == 0


def test_plain_batch_is_refused_during_transaction(log):
    append_transactional(log)
    plain = batch(1, transactional=False)
    refused(ErrorCode.INVALID_TXN_STATE, log.append_as_leader, plain, leader_epoch=0)
    end_transaction(log)
    assert log.append_as_leader(plain, leader_epoch=0).base_offset == 2


def test_marker_of_replaced_coordinator_is_refused(log):
    append_transactional(log)
    end_transaction(log, epoch=2, coordinator_epoch=5)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, end_transaction, log, epoch=1, coordinator_epoch=6)
    refused(
        ErrorCode.TRANSACTION_COORDINATOR_FENCED, end_transaction, log, epoch=2, coordinator_epoch=4
    )
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, append_transactional, log, 1)
    # A repeated marker is accepted; a new producer epoch keeps the epoch of the coordinator.
    end_transaction(log, epoch=2, coordinator_epoch=5)
    append_transactional(log, epoch=3)
    refused(
        ErrorCode.TRANSACTION_COORDINATOR_FENCED, end_transaction, log, epoch=3, coordinator_epoch=4
    )


@pytest.mark.parametrize("clean", [True, False])
def test_coordinator_epoch_survives_restart(tmp_path, clean):
    manager, log = start_log(tmp_path)
    append_transactional(log)
    end_transaction(log, coordinator_epoch=5)
    (manager.close if clean else lambda: crash(manager))()
    with reopened_log(tmp_path) as known:
        refused(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED, end_transaction, known, coordinator_epoch=4
        )
        end_transaction(known, coordinator_epoch=5)


def test_marker_takes_effect_below_high_watermark(log):
    append_transactional(log)
    append_transactional(log, producer=2)
    end_transaction(log)
    assert [log.last_stable_offset(mark) for mark in (0, 1, 2, 3)] == [0, 0, 0, 1]
    end_transaction(log, producer=2, commit=False)
    assert [log.last_stable_offset(mark) for mark in (2, 3, 4)] == [1, 1, 4]


def test_truncated_marker_reopens_transaction(log):
    append_transactional(log)
    end_transaction(log)
    log.truncate_to(1)
    assert log.begin_verification(1, 0) is None
    assert log.last_stable_offset(1) == 0
    append_transactional(log, 1)
    end_transaction(log)
    assert log.last_stable_offset(3) == 3


def test_transactional_batch_without_producer_opens_no_transaction(log):
    data = encode_message_set([(None, b"x", 0, ())], is_transactional=True)
    assert log.append_as_leader(data, leader_epoch=0).base_offset == 0
    assert log.last_stable_offset(1) == 1


def test_abort_opens_no_file_and_has_constant_cost(tmp_path):
    """`count` producers begin a transaction each; then each is aborted, with reads in between."""
    effort = {}
    for count in (100, 200):
        fs, calls = HookedFileSystem(), Counter()
        with started_log(tmp_path / str(count), fs=fs, runtime=EagerRuntime()) as log:
            for producer in range(count):
                append_transactional(log, producer=producer)
            # Its time is much later: it gets a segment of its own.
            end_transaction(log, producer=count)
            entries = log.segments[-1].aborted
            for name in ("open", "close", "write"):
                fs.before[name] = lambda *_, name=name, calls=calls: calls.update([name])

            def abort_each(log=log, count=count):
                for producer in range(count):
                    end_transaction(log, producer=producer, commit=False)
                    log.last_stable_offset(count)

            steps = executed_steps(abort_each)
            # Each writes its marker, and an entry of the index.
            assert calls == {"open": 1, "write": 2 * count}
            fs.before.clear()
            assert log.segments[-1].aborted is entries  # not copied
            assert len(entries) == count
            effort[count] = steps
    assert effort[200] < 2.1 * effort[100]


def test_abort_without_a_free_descriptor_writes_nothing(tmp_path):
    # Half of it would leave a marker in the file, at the offset of the next append.
    fs = ScarceFileSystem(written_ending=".txnindex")
    with started_log(tmp_path, fs=fs) as log:
        append_transactional(log)
        fs.left = 0
        with pytest.raises(StorageError, match="Too many open files"):
            end_transaction(log, commit=False)
        fs.left = None
        append(log, 1)
        end_transaction(log, commit=False)
        files = [each.path(".log").read_bytes() for each in log.segments]
        stored = [(each.base_offset, each.is_control) for f in files for each in iter_entries(f)]
        assert stored == [(0, False), (1, False), (2, True)]
        assert [tuple(each) for s in log.segments for each in s.aborted] == [(1, 0, 2, 3)]


def test_read_cost_does_not_grow_with_earlier_aborts(log):
    effort = []
    for count in (200, 400):
        while log.log_end_offset < 2 * count:
            append_transactional(log, producer=log.log_end_offset)
            end_transaction(log, producer=log.log_end_offset - 1, commit=False)
        found = log.read(2 * count - 2, 1 << 20, end=stable_end(log))
        steps = executed_steps(lambda f=found, at=2 * count - 2: log.aborted_transactions(at, f))
        assert len(log.aborted_transactions(2 * count - 2, found)) == 1
        found.slice.close()
        effort.append(steps)
    assert effort[1] < 1.2 * effort[0]


def test_aborted_transactions_are_found_if_their_segment_was_joined_meanwhile(tmp_path):
    with started_log(tmp_path) as log:
        for producer in range(2):
            append_transactional(log, producer=producer)
            end_transaction(log, producer=producer, commit=False)
            log.roll()
        found = log.read(2, 1 << 20, end=4)
        old = log.segments[:-1]
        joined = segment_writer(log, 0)
        for segment in old:
            joined.append(segment.path(".log").read_bytes())
            for each in segment.aborted:
                joined.add_aborted(each)
        joined.finish()
        replace_segments(log, old, [joined])
        assert [each[:2] for each in log.aborted_transactions(2, found)] == [(1, 2)]
        found.slice.close()


def open_indexes():
    """Return the number of transaction indexes that this process has open."""
    return sum(".txnindex" in path for path in open_paths())


def test_open_transaction_index_files_are_bounded(tmp_path):
    with started(tmp_path) as manager:
        logs = [manager.get_or_create(TopicPartition("t", number)) for number in range(70)]
        for producer in range(2):
            for log in logs:
                end_transaction(log, producer=producer, commit=False)
        assert open_indexes() == 64
        for log in logs:
            assert len(index_file(log.path, 0)) == 2
        logs[-1].roll()
        logs[-2].truncate_to(1)
        manager.delete(logs[-3].topic_partition)
        assert open_indexes() == 61
        end_transaction(logs[-2], producer=7, commit=False)
        assert [entry[0] for entry in index_file(logs[-2].path, 0)] == [0, 7]


@pytest.mark.parametrize("seed", range(4))
def test_first_unstable_offset_matches_model(seed):
    chance = random.Random(seed)
    ended, waiting, mark = EndedTransactions(), [], 0
    for marker in range(1, 400):
        ended.note(first := chance.randrange(marker), marker)
        waiting.append((first, marker))
        if chance.random() < 0.05:
            cut = chance.randint(max(mark, marker - 5), marker)
            ended.truncate_to(cut)
            waiting = [each for each in waiting if each[1] < cut]
        mark = max(mark, marker - chance.randrange(30))
        waiting = [each for each in waiting if each[1] >= mark]
        wanted = min((each for each, _ in waiting), default=None)
        assert ended.first_unstable_offset(mark) == wanted


@pytest.mark.parametrize("seed", range(12))
def test_random_logs_are_read_committed(tmp_path, seed):
    stored = TransactionalLog(tmp_path)
    stored.play(seed)
    stored.store(*range(seed % 7 + 5, stored.offset, seed % 7 + 10))
    for first, clean in enumerate((False, True, False)):
        with reopened_log(tmp_path, index_interval_bytes=100) as log:
            assert (stable_end(log), log.log_end_offset) == (stored.stable, stored.offset)
            assert read_committed(log) == stored.committed
            for start in range(first, stored.offset, 3):
                wanted = [each for each in stored.committed if each >= start]
                assert read_committed(log, start, 1 + start * 37 % 900) == wanted
            found = [tuple(each) for segment in log.segments for each in segment.aborted]
            assert found == stored.aborted
        if not clean:
            (tmp_path / ".kafka_cleanshutdown").unlink()


def test_check_reports_missing_transaction_index(stored, tmp_path):
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
