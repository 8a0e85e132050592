"""Control batches, and the removal of aborted transactions."""

import pytest

from tests.support.transactional import TransactionalLog
from zkbroker.records import (
    ABORT,
    COMMIT,
    committed_only,
    control_batch,
    control_type,
    encode_message_set,
    iter_records,
)


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_marker_has_its_type(kind):
    batch = control_batch(kind, producer_id=7, producer_epoch=1, timestamp_ms=5, base_offset=9)
    assert control_type(batch) == kind
    assert list(iter_records(batch)) == []


def test_plain_batch_is_no_marker_and_stays_unchanged():
    data = encode_message_set([(None, b"x", 0, ())])
    assert control_type(data) is None
    assert control_type(b"") is None
    assert committed_only(data, []) is data


@pytest.mark.parametrize("seed", range(20))
def test_only_aborted_records_are_left_out(tmp_path, seed):
    log = TransactionalLog(tmp_path)
    log.play(seed)
    stable = [(offset, entry) for offset, entry in log.entries if offset < log.stable]
    aborted = [(producer, first) for producer, first, _, _ in log.aborted]
    data = b"".join(entry for _, entry in stable)
    kept = [record.offset for record in iter_records(committed_only(data, aborted))]
    assert kept == log.committed
    last = stable[-1][0]
    cut = [record.offset for record in iter_records(committed_only(data[:-5], aborted))]
    assert cut == [offset for offset in log.committed if offset < last]
