"""Upkeep of the coordinator: expiry of offsets, and deleted topics."""

import logging
import threading

import pytest

from tests.support.memory_log import MemoryLog
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import (
    ErrorCode,
    MessageSizeTooLarge,
    NotEnoughReplicas,
    NotLeaderForPartition,
    StorageError,
)
from zkbroker.protocol.offsets_topic import OffsetValue
from zkbroker.records import COMMIT, control_batch

from .test_coordinator import DAY_MS, CoordinatorSetup


def test_offsets_of_a_deleted_topic_are_forgotten():
    setup = CoordinatorSetup().host()
    setup.commit(topic="t")
    setup.commit(topic="u")
    setup.coordinator.forget_topic("t")
    assert setup.offset(topic="t") is None
    assert CoordinatorSetup(setup.logs).host().offset(topic="u") == 5


def test_offsets_committed_while_a_deleted_topic_is_forgotten_are_kept():
    class Slow(MemoryLog):
        waiting = staticmethod(lambda: None)

        def wait_durable(self, *_, **__):
            self.waiting()

    logs = {each: Slow() for each in range(4)}
    setup = CoordinatorSetup(logs).host()
    groups = {key_partition(f"g{each}", 4): f"g{each}" for each in range(10)}
    for group in groups.values():
        setup.commit(group)

    def create_again():
        # The topic was deleted and created again while the replicas were awaited.
        for log in logs.values():
            log.waiting = lambda: None
        for group in groups.values():
            assert setup.offset(group) is None
            setup.commit(group, offset=2)

    for log in logs.values():
        log.waiting = create_again
    setup.coordinator.forget_topic("t")
    assert len(groups) == 4
    assert [setup.offset(group) for group in groups.values()] == [2] * 4


def test_topic_deleted_during_load_is_forgotten():
    before = CoordinatorSetup().host()
    before.commit(topic="t")
    before.commit(topic="u")
    setup = CoordinatorSetup(before.logs)
    setup.coordinator.host(key_partition("g", 4), before.logs[key_partition("g", 4)])
    setup.coordinator.forget_topic("t")
    setup.runtime.run("load")
    for each in (setup, CoordinatorSetup(setup.logs).host()):
        assert (each.offset(topic="t"), each.offset(topic="u")) == (None, 5)


def test_open_transaction_does_not_restore_offsets_of_deleted_topic():
    class Transactional(MemoryLog):
        def mark(self, coordinator, number):
            marker = control_batch(COMMIT, producer_id=1, producer_epoch=0, timestamp_ms=1)
            offset = self.append(bytearray(marker)).last_offset
            coordinator.end_transaction(number, 1, offset, commit=True)

    number = key_partition("g", 4)
    logs = {each: Transactional() for each in range(4)}
    setup = CoordinatorSetup(logs).host()
    setup.commit(topic="u")
    offsets = {(topic, 0): OffsetValue(9, metadata="", commit_timestamp_ms=1) for topic in "tu"}
    assert (
        setup.coordinator.commit_transactional("g", (1, 0), offsets, lambda number: ErrorCode.NONE)
        is ErrorCode.NONE
    )
    setup.coordinator.forget_topic("t")
    logs[number].mark(setup.coordinator, number)
    for each in (setup, CoordinatorSetup(logs).host()):
        assert each.offset(topic="t") is None
        assert each.offset(topic="u") == 9


class TestExpiry:
    def test_offsets_of_group_with_members_never_expire(self):
        setup = CoordinatorSetup().host()
        joined = setup.stable()
        setup.commit(member=joined.member_id, generation=1)
        setup.wall += 10 * DAY_MS
        assert setup.coordinator.upkeep.expire_offsets() == 0
        assert setup.offset() == 5

    def test_offsets_expire_one_retention_after_group_became_empty(self):
        setup = CoordinatorSetup().host()
        joined = setup.stable()
        setup.commit(member=joined.member_id, generation=1)
        setup.wall += 10 * DAY_MS
        setup.coordinator.leave("g", joined.member_id)
        setup = restarted = CoordinatorSetup(setup.logs)
        restarted.wall = 1_500_000_000_000 + 11 * DAY_MS - 1
        restarted.host()
        assert setup.coordinator.upkeep.expire_offsets() == 0
        setup.wall += 1
        assert setup.coordinator.upkeep.expire_offsets() == 1
        assert setup.coordinator.describe("g").state == "Dead"
        assert CoordinatorSetup(setup.logs).host().coordinator.list_groups()[1] == []

    def test_nonmember_offsets_expire_one_retention_after_commit(self):
        setup = CoordinatorSetup().host()
        setup.commit(topic="t")
        setup.wall += DAY_MS - 1
        setup.commit(topic="u")
        setup.wall += 1
        assert setup.coordinator.upkeep.expire_offsets() == 1
        assert (setup.offset(topic="t"), setup.offset(topic="u")) == (None, 5)

    def test_expiry_time_of_commit_is_used(self):
        setup = CoordinatorSetup().host()
        setup.commit(expire=setup.wall + 100)
        setup.wall += 99
        assert setup.coordinator.upkeep.expire_offsets() == 0
        setup.wall += 1
        assert setup.coordinator.upkeep.expire_offsets() == 1

    def test_commit_during_expiry_is_kept(self):
        setup = CoordinatorSetup().host()
        setup.commit()
        setup.wall += DAY_MS
        log = setup.logs[key_partition("g", 4)]
        commit = threading.Thread(target=setup.commit, kwargs={"offset": 6})

        def commit_first(what):
            log.on_step = lambda what: None
            commit.start()
            commit.join(0.2)

        log.on_step = commit_first
        assert setup.coordinator.upkeep.expire_offsets() == 1
        commit.join()
        for each in (setup, CoordinatorSetup(setup.logs).host()):
            assert each.offset() == 6
            assert each.coordinator.describe("g").state == "Empty"

    def test_failed_expiry_is_retried_at_next_check(self):
        setup = CoordinatorSetup().host()
        setup.commit()
        setup.wall += DAY_MS
        log = setup.logs[key_partition("g", 4)]
        log.fail_with = NotEnoughReplicas()
        setup.coordinator.upkeep.expire_offsets()
        assert setup.offset() == 5
        assert [name for name, _ in setup.coordinator.list_groups()[1]] == ["g"]
        log.fail_with = None
        assert setup.coordinator.upkeep.expire_offsets() == 1
        assert setup.offset() is None
        assert setup.coordinator.list_groups()[1] == []


@pytest.mark.parametrize(
    ("failure", "level", "code"),
    [
        (NotLeaderForPartition("moved"), logging.INFO, ErrorCode.NOT_COORDINATOR),
        (NotEnoughReplicas("one in sync"), logging.INFO, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (StorageError("the disk is broken"), logging.ERROR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_leader_change_errors_are_not_logged_as_broker_errors(caplog, failure, level, code):
    with caplog.at_level(logging.INFO):
        error = CoordinatorSetup().coordinator._partitions.storage_error("commit", "g", failure)
        assert error is code
    (record,) = caplog.records
    assert record.levelno == level
    assert str(failure) in record.message


def test_oversized_commit_logs_one_warning_per_minute(caplog):
    setup = CoordinatorSetup()
    failure = MessageSizeTooLarge("2000 bytes are more than message.max.bytes=1000")
    with caplog.at_level(logging.INFO):
        for _ in range(500):
            error = setup.coordinator._partitions.storage_error("commit", "g", failure)
            assert error is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        setup.clock += 60_000
        setup.coordinator._partitions.storage_error("commit", "g", failure)
        setup.coordinator._partitions.storage_error("commit", "other", failure)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    left_out = [record.message.partition("left_out=")[2].split()[0] for record in caplog.records]
    assert left_out == ["0", "499", "0"]
