"""Entries of a fetch answer are checked by their headers; aborted ones are left out."""

import pytest

from spark_loader.reading.committed import look_over, parted
from tests.support.transactional import TransactionalLog
from zkbroker.records import iter_records


@pytest.fixture
def log(tmp_path):
    """Offsets 0 and 1 of producer 1 committed by 4, 2 and 3 of producer 2 aborted by 5, then 6."""
    log = TransactionalLog(tmp_path)
    log.send(1, 2)
    log.send(2, 2)
    log.commit(1)
    log.abort(2)
    log.send(None)
    return log


def data_of(log):
    return b"".join(entry for _, entry in log.entries)


def test_aborted_batches_are_left_out(log):
    seen = look_over(data_of(log), 0, 7, [(2, 2)])
    assert (seen.aborted, seen.end) == ([(2, 4)], 7)
    assert [each.offset for each in iter_records(seen.kept)] == [0, 1, 6]


def test_answer_without_aborted_batches_is_unchanged(log):
    data = data_of(log)
    seen = look_over(data[:-3], 0, 7, ())
    assert (seen.aborted, seen.end) == ([], 6)
    assert seen.kept == data[:-3]


def test_answer_may_begin_before_requested_offset(log):
    seen = look_over(data_of(log), 3, 7, [(2, 2)])
    assert (seen.aborted, seen.end) == ([(3, 4)], 7)


@pytest.mark.parametrize("damage", ["order", "end", "size"])
def test_inconsistent_entries_are_rejected(log, damage):
    data = bytearray(data_of(log))
    if damage == "order":
        data[7] = 3  # the first entry claims the place of the second
    elif damage == "size":
        data[11] = 1
    assert look_over(bytes(data), 0, 6 if damage == "end" else 7, [(2, 2)]) is None


def test_missing_runs_are_split_by_cause():
    assert parted([(2, 6), (8, 9)], [(2, 4)]) == [(2, 4, True), (4, 6, False), (8, 9, False)]
    assert parted([(0, 10)], []) == [(0, 10, False)]
