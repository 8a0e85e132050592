"""Logs with transactions, as adopted from genuine brokers."""

import contextlib
import os
import random
import struct
from pathlib import Path

import pytest

from tests.support.effort import executed_steps
from tests.support.logs import (
    TP,
    EagerRuntime,
    UnsyncedFileSystem,
    crash,
    make_manager,
    message_set,
    started,
)
from tests.support.powercut import PowerCutFileSystem
from tests.support.transactional import TransactionalLog
from zkbroker.admin.log_check import check_logs, repair_logs
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.log import Log, TopicPartition
from zkbroker.log.producers.stability import EndedTransactions
from zkbroker.records import (
    committed_only,
    encode_message_set,
    iter_entries,
    iter_records,
    offset_after,
)


def stable_end(log: Log) -> int:
    """The last stable offset of a partition whose every message is committed."""
    first = log.first_unstable_offset
    return log.log_end_offset if first is None else first


def abort_all(log: Log) -> set[int]:
    """End every open transaction; returns whose."""
    ended = log.producers.open_transactions()
    for each in ended:
        log.end_transaction(
            each.producer_id,
            each.producer_epoch,
            commit=False,
            coordinator_epoch=3,
            leader_epoch=0,
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


def test_read_committed_answers_name_the_aborted_transactions(stored, tmp_path):
    with started(tmp_path) as manager:
        log = manager.get(TP)
        assert stable_end(log) == log.log_end_offset == 12
        assert [read_committed(log, start) for start in (0, 2, 8, 10, 12)] == [
            [0, 6, 8],
            [6, 8],
            [8],
            [],
            [],
        ]
        found = log.read(1, 1 << 20, end=stable_end(log))
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
def test_a_wrong_index_is_rewritten(stored, tmp_path, damage):
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
        assert (stable_end(log), log.log_end_offset) == (2, 5)
        log.append_as_leader(message_set(1), leader_epoch=0)
        assert (stable_end(log), log.log_end_offset) == (2, 6)
        assert read_committed(log) == [0, 1]
        found = log.read(0, 1 << 20, end=log.log_end_offset)
        assert found.slice is not None
        found.slice.close()
        assert log.read(2, 1 << 20, end=stable_end(log)).slice is None
    with started(tmp_path) as manager:
        assert stable_end(manager.get(TP)) == 2


def test_a_transaction_that_left_the_log_holds_no_reader_back(tmp_path):
    stored = TransactionalLog(tmp_path)
    stored.send(1, 2)
    stored.send(None, 2)
    stored.store()
    with started(tmp_path) as manager:
        log = manager.get(TP)
        log.advance_start_to(1)
        assert stable_end(log) == 1
        log.advance_start_to(2)
        assert stable_end(log) == 4
        assert read_committed(log, 2) == [2, 3]


def test_open_transactions_are_aborted_on_request(tmp_path):
    stored = TransactionalLog(tmp_path)
    stored.send(1)
    stored.send(2)
    stored.send(None)
    stored.store()
    with started(tmp_path) as manager:
        log = manager.get(TP)
        assert abort_all(log) == {1, 2}
        assert abort_all(log) == set()
        assert stable_end(log) == log.log_end_offset == 5
        assert read_committed(log) == [2]
        log.append_as_leader(message_set(1), leader_epoch=0)
        assert read_committed(log) == [2, 5]
        entries = list(iter_entries(log.read_bytes(3, 1 << 20, end=log.log_end_offset)))
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
    abort_all(manager.get(TP))
    crash(manager)
    (stored.directory / f"{0:020d}.txnindex").unlink()
    with started(tmp_path) as manager:
        assert read_committed(manager.get(TP)) == []
        assert stable_end(manager.get(TP)) == 2
    assert index_file(stored.directory, 0) == [(1, 0, 1, 2)]


@pytest.mark.parametrize("seed", range(8))
def test_what_was_aborted_and_flushed_stays_aborted_after_a_power_cut(tmp_path, seed):
    (tmp_path / "data").mkdir()
    fs = PowerCutFileSystem(tmp_path / "data", tmp_path / "after", seed)
    manager = make_manager(tmp_path / "data", fs=fs, runtime=EagerRuntime())
    manager.start()
    log = manager.get_or_create(TP)
    log.append_as_leader(message_set(1), leader_epoch=0)
    send(log)
    end(log, commit=False)
    log.flush()
    manager.upkeep.checkpoint()
    # The next segment begins where the checkpoint says that all before is stable.
    log.durability.request = lambda end: None
    log.roll()
    fs.cut()
    manager.abandon()
    fs.close_all()
    with started(tmp_path / "after") as again:
        assert again.get(TP).log_end_offset == 3
        assert read_committed(again.get(TP)) == [0]


def batch(sequence=0, *, producer=1, epoch=0, count=1, transactional=True):
    return encode_message_set(
        [(None, b"x", 0, ())] * count,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def send(log, sequence=0, *, producer=1, epoch=0, **more):
    """Append as a broker does that asked the coordinator."""
    asked = log.begin_verification(producer, epoch)
    data = batch(sequence, producer=producer, epoch=epoch, **more)
    return log.append_as_leader(data, leader_epoch=0, verification=asked)


def end(log, *, producer=1, epoch=0, commit=True, coordinator_epoch=0):
    return log.end_transaction(
        producer, epoch, commit=commit, coordinator_epoch=coordinator_epoch, leader_epoch=0
    )


def refused(code, call, *args, **more):
    with pytest.raises(ProtocolError) as raised:
        call(*args, **more)
    assert raised.value.code is code


@pytest.fixture
def log(tmp_path):
    with started(tmp_path) as manager:
        yield manager.get_or_create(TP)


def test_a_transaction_begins_only_where_its_coordinator_was_asked(log):
    refused(ErrorCode.INVALID_TXN_STATE, log.append_as_leader, batch(), leader_epoch=0)
    assert log.log_end_offset == 0
    asked = log.begin_verification(1, 0)
    log.append_as_leader(batch(), leader_epoch=0, verification=asked)
    # What is open needs no further question.
    assert log.begin_verification(1, 0) is None
    log.append_as_leader(batch(1), leader_epoch=0)
    end(log)
    refused(ErrorCode.INVALID_TXN_STATE, log.append_as_leader, batch(2), leader_epoch=0)
    send(log, 2)


def test_a_marker_between_the_question_and_the_append_refuses_the_append(log):
    send(log)
    end(log)
    late = log.begin_verification(1, 0)
    assert log.begin_verification(1, 0) is late
    end(log)
    call = log.append_as_leader
    refused(ErrorCode.INVALID_TXN_STATE, call, batch(1), leader_epoch=0, verification=late)
    again = log.begin_verification(1, 0)
    assert again is not late
    call(batch(1), leader_epoch=0, verification=again)


def test_a_higher_epoch_is_asked_about_even_while_a_transaction_is_open(log):
    send(log)
    refused(ErrorCode.INVALID_TXN_STATE, log.append_as_leader, batch(epoch=1), leader_epoch=0)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, send, log, 1, epoch=1)
    send(log, epoch=1)
    assert log.last_stable_offset(2) == 0


def test_a_batch_of_no_transaction_is_refused_while_one_is_open(log):
    send(log)
    plain = batch(1, transactional=False)
    refused(ErrorCode.INVALID_TXN_STATE, log.append_as_leader, plain, leader_epoch=0)
    end(log)
    assert log.append_as_leader(plain, leader_epoch=0).base_offset == 2


def test_markers_of_replaced_coordinators_are_refused_and_those_of_successors_fence(log):
    send(log)
    end(log, epoch=2, coordinator_epoch=5)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, end, log, epoch=1, coordinator_epoch=6)
    refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED, end, log, epoch=2, coordinator_epoch=4)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, send, log, 1)
    # Sent again, it is taken again; the epoch of the coordinator survives one of the producer.
    end(log, epoch=2, coordinator_epoch=5)
    send(log, epoch=3)
    refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED, end, log, epoch=3, coordinator_epoch=4)


@pytest.mark.parametrize("clean", [True, False])
def test_epochs_of_coordinators_are_known_after_a_restart(tmp_path, clean):
    manager = make_manager(tmp_path)
    manager.start()
    log = manager.get_or_create(TP)
    send(log)
    end(log, coordinator_epoch=5)
    (manager.close if clean else lambda: crash(manager))()
    with started(tmp_path) as manager:
        known = manager.get(TP)
        refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED, end, known, coordinator_epoch=4)
        end(known, coordinator_epoch=5)


def test_a_marker_counts_when_it_is_below_the_high_watermark(log):
    send(log)
    send(log, producer=2)
    end(log)
    assert [log.last_stable_offset(mark) for mark in (0, 1, 2, 3)] == [0, 0, 0, 1]
    end(log, producer=2, commit=False)
    assert [log.last_stable_offset(mark) for mark in (2, 3, 4)] == [1, 1, 4]


def test_a_transaction_whose_marker_was_cut_off_is_open_again(log):
    send(log)
    end(log)
    log.truncate_to(1)
    assert log.begin_verification(1, 0) is None
    assert log.last_stable_offset(1) == 0
    send(log, 1)
    end(log)
    assert log.last_stable_offset(3) == 3


def test_a_transactional_batch_without_a_producer_is_of_no_transaction(log):
    data = encode_message_set([(None, b"x", 0, ())], is_transactional=True)
    assert log.append_as_leader(data, leader_epoch=0).base_offset == 0
    assert log.last_stable_offset(1) == 1


class CountingFileSystem(UnsyncedFileSystem):
    """Counts files that were opened and closed, and writes."""

    def __init__(self):
        self.opens = self.closes = self.writes = 0

    def open(self, path, flags):
        self.opens += 1
        return super().open(path, flags)

    def close(self, fd):
        self.closes += 1
        super().close(fd)

    def write(self, fd, data):
        self.writes += 1
        return super().write(fd, data)


def test_an_abort_opens_no_file_and_costs_the_same_however_many_there_are(tmp_path):
    """`count` producers begin a transaction each; then each is aborted, interleaved with reads."""
    effort = {}
    for count in (100, 200):
        fs = CountingFileSystem()
        with started(tmp_path / str(count), fs=fs, runtime=EagerRuntime()) as manager:
            log = manager.get_or_create(TP)
            for producer in range(count):
                send(log, producer=producer)
            end(log, producer=count)  # by the clock this one is much later: in a segment of its own
            entries = log.segments[-1].aborted
            before = fs.opens, fs.closes, fs.writes

            def abort_each(log=log, count=count):
                for producer in range(count):
                    end(log, producer=producer, commit=False)
                    log.last_stable_offset(count)

            steps = executed_steps(abort_each)
            assert (fs.opens - before[0], fs.closes - before[1]) == (1, 0)
            assert fs.writes - before[2] == 2 * count  # the marker, and the entry of the index
            assert log.segments[-1].aborted is entries  # not copied
            assert len(entries) == count
            effort[count] = steps
    assert effort[200] < 2.1 * effort[100]


def test_a_read_behind_many_aborts_looks_at_few_of_them(log):
    effort = []
    for count in (200, 400):
        while log.log_end_offset < 2 * count:
            send(log, producer=log.log_end_offset)
            end(log, producer=log.log_end_offset - 1, commit=False)
        found = log.read(2 * count - 2, 1 << 20, end=stable_end(log))
        steps = executed_steps(lambda f=found, at=2 * count - 2: log.aborted_transactions(at, f))
        assert len(log.aborted_transactions(2 * count - 2, found)) == 1
        found.slice.close()
        effort.append(steps)
    assert effort[1] < 1.2 * effort[0]


def open_indexes():
    """Return how many transaction indexes this process holds open."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sum(".txnindex" in link for link in links)


def test_the_indexes_of_many_logs_hold_few_files_open(tmp_path):
    with started(tmp_path) as manager:
        logs = [manager.get_or_create(TopicPartition("t", number)) for number in range(70)]
        for producer in range(2):
            for log in logs:
                end(log, producer=producer, commit=False)
        assert open_indexes() == 64
        for log in logs:
            assert len(index_file(log.path, 0)) == 2
        logs[-1].roll()
        logs[-2].truncate_to(1)
        manager.delete(logs[-3].topic_partition)
        assert open_indexes() == 61
        end(logs[-2], producer=7, commit=False)
        assert [entry[0] for entry in index_file(logs[-2].path, 0)] == [0, 7]


@pytest.mark.parametrize("seed", range(4))
def test_the_last_stable_offset_is_the_first_of_what_is_open_or_ended_above_the_mark(seed):
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
def test_every_reader_gets_what_was_committed(tmp_path, seed):
    stored = TransactionalLog(tmp_path)
    stored.play(seed)
    stored.store(*range(seed % 7 + 5, stored.offset, seed % 7 + 10))
    for clean in (False, True, False):
        with started(tmp_path, index_interval_bytes=100) as manager:
            log = manager.get(TP)
            assert (stable_end(log), log.log_end_offset) == (stored.stable, stored.offset)
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
