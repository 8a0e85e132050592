"""The part of a log that its view of 0.7 may show."""

from tests.support.clocks import Clock
from tests.support.logs import (
    EagerRuntime,
    append,
    append_transactional,
    end_transaction,
    start_log,
)
from zkbroker.log.legacy07.master import LogMaster


def test_master_exposes_committed_messages_and_epochs(tmp_path):
    manager, log = start_log(tmp_path, clock=Clock(), runtime=EagerRuntime())
    epoch, mark = 0, 0
    master = LogMaster(log, lambda: mark, lambda: epoch)
    try:
        append(log, 3, size=1)
        assert (master.start, master.end, master.written_end) == (0, 0, 3)
        mark = 3
        assert master.read(1, master.end) == ([1, 2], [b"v1", b"v2"], 3)
        append_transactional(log)
        mark = 4
        assert master.end == 3
        end_transaction(log, commit=False)
        epoch = 2
        append(log, 1, size=1, epoch=2)
        mark = 6
        assert master.read(3, master.end) == ([5], [b"v0"], 6)
        assert [master.epoch_of(offset) for offset in (0, 4, 5)] == [0, 0, 2]
        assert [master.end_of(each) for each in (-1, 0, 1, 2, 3)] == [None, 5, 5, 6, None]
        before = master.term
        assert master.take_lowest_cut() == 2**63 - 1
        log.truncate_to(5)
        assert (master.take_lowest_cut(), master.take_lowest_cut()) == (5, 2**63 - 1)
        assert master.term != before
        master.flush(5)
        assert log.recovery_point == 5
    finally:
        manager.close()
