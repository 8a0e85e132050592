"""A log as its view may see it."""

from tests.support.clocks import Clock
from tests.support.logs import TP, EagerRuntime, make_manager, message_set
from zkbroker.log.legacy07.master import LogMaster
from zkbroker.records import encode_message_set


def test_what_may_be_seen_and_what_it_is(tmp_path):
    manager = make_manager(tmp_path, clock=Clock(), runtime=EagerRuntime())
    manager.start()
    log = manager.get_or_create(TP)
    epoch, mark = 0, 0
    master = LogMaster(log, lambda: mark, lambda: epoch)
    try:
        log.append_as_leader(message_set(3, size=1), leader_epoch=0)
        assert (master.start, master.end, master.written_end) == (0, 0, 3)
        mark = 3
        assert master.read(1, master.end) == ([1, 2], [b"v1", b"v2"], 3)
        asked = log.begin_verification(1, 0)
        data = encode_message_set(
            [(None, b"aborted", 1, ())],
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        log.append_as_leader(data, leader_epoch=0, verification=asked)
        mark = 4
        assert master.end == 3
        log.end_transaction(1, 0, commit=False, coordinator_epoch=0, leader_epoch=0)
        epoch = 2
        log.append_as_leader(message_set(1, size=1), leader_epoch=2)
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
