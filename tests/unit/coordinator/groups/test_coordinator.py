import pytest

from tests.support.inline_runtime import InlineRuntime
from tests.support.memory_log import MemoryLog, ParkingLog
from tests.support.replicas import Park
from zkbroker.coordinator.groups import (
    CoordinatorSettings,
    GroupCoordinator,
    JoinRequest,
)
from zkbroker.coordinator.groups.coordinator import unique_member_id
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import (
    ErrorCode,
    MessageSizeTooLarge,
    NotEnoughReplicas,
    NotLeaderForPartition,
    ProtocolError,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
)
from zkbroker.protocol.offsets_topic import OffsetValue
from zkbroker.runtime import get_runtime

NONE = ErrorCode.NONE
DAY_MS = 86_400_000


class CoordinatorSetup:
    """A coordinator with virtual clocks and in-memory logs."""

    def __init__(self, logs=None, **settings):
        self.clock, self.wall = 1_000, 1_500_000_000_000
        self.logs = logs if logs is not None else {}
        self.runtime = InlineRuntime(lambda: self.clock, lambda: self.wall)
        self.ids = 0
        self.assigned: set[int] = set()
        self.coordinator = GroupCoordinator(
            CoordinatorSettings(
                initial_rebalance_delay_ms=0,
                retention_ms=DAY_MS,
                **settings,
            ),
            runtime=self.runtime,
            partition_count=lambda: 4,
            new_member_id=self._member_id,
            led_here=lambda number: number in self.assigned,
        )

    def _member_id(self, client_id):
        self.ids += 1
        return f"{client_id}-{self.ids}"

    def host(self, *numbers):
        for number in numbers or range(4):
            self.coordinator.host(number, self.logs.setdefault(number, MemoryLog()))
        self.runtime.run("load")
        return self

    def join(self, group="g", member_id="", session_ms=10_000):
        answers = []
        request = JoinRequest(
            member_id, "c", "/127.0.0.1", session_ms, 60_000, "consumer", (("range", b"meta"),)
        )
        self.coordinator.join(group, request, answers.append)
        return answers

    def sync(self, joined, group="g", assignment=b"x"):
        answers = []
        given = {joined.member_id: assignment}
        self.coordinator.sync(group, joined.member_id, joined.generation, given, answers.append)
        return answers

    def stable(self, group="g"):
        (joined,) = self.join(group)
        answers = self.sync(joined, group)
        self.runtime.run("store-")
        assert answers[0].error is NONE
        return joined

    def commit(self, group="g", member="", generation=-1, offset=5, topic="t", expire=-1):
        value = OffsetValue(
            offset, metadata="", commit_timestamp_ms=self.wall, expire_timestamp_ms=expire
        )
        return self.coordinator.commit(group, member, generation, {(topic, 0): value})

    def offset(self, group="g", topic="t"):
        error, offsets = self.coordinator.offsets(group)
        assert error is NONE
        value = offsets.get((topic, 0))
        return None if value is None else value.offset

    def pass_time(self, ms):
        self.clock += ms
        self.wall += ms
        self.coordinator.tick()


def test_all_requests_for_group_of_other_broker_are_refused():
    setup = CoordinatorSetup()
    c = setup.coordinator
    answers = []
    assert setup.join()[0].error is ErrorCode.NOT_COORDINATOR
    c.sync("g", "m", 1, {}, answers.append)
    assert answers[0].error is ErrorCode.NOT_COORDINATOR
    assert c.heartbeat("g", "m", 1) is ErrorCode.NOT_COORDINATOR
    assert c.leave("g", "m") is ErrorCode.NOT_COORDINATOR
    assert setup.commit() is ErrorCode.NOT_COORDINATOR
    assert c.offsets("g")[0] is ErrorCode.NOT_COORDINATOR
    assert c.describe("g").error is ErrorCode.NOT_COORDINATOR
    assert c.delete("g") is ErrorCode.NOT_COORDINATOR


def test_requests_waiting_for_replicas_are_parked():
    setup = CoordinatorSetup(logs={number: ParkingLog() for number in range(4)}).host()
    park, offsets = Park(), {("t", 0): OffsetValue(1, metadata="", commit_timestamp_ms=1)}
    assert setup.coordinator.commit("g", "", -1, offsets, park) is NONE
    assert park.times == 1
    assert (
        setup.coordinator.commit_transactional("g", (1, 0), offsets, lambda number: NONE, park)
        is NONE
    )
    assert park.times == 2
    assert setup.commit("gone") is NONE
    assert setup.coordinator.delete("gone", park) is NONE
    assert park.times == 3


def test_leader_sync_is_answered_after_store():
    setup = CoordinatorSetup().host()
    (joined,) = setup.join()
    answers = setup.sync(joined)
    assert answers == []
    setup.runtime.run("store-")
    assert [each.error for each in answers] == [NONE]
    # The session of a member with an answered sync starts then.
    setup.pass_time(10_000)
    assert setup.coordinator.heartbeat("g", joined.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_loading_partition_answers_load_in_progress():
    setup = CoordinatorSetup()
    setup.assigned = {key_partition("g", 4)}
    assert setup.commit() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    setup.coordinator.host(key_partition("g", 4), MemoryLog())
    assert setup.join()[0].error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert setup.commit() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert setup.coordinator.offsets("g")[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert setup.coordinator.list_groups() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    assert setup.coordinator.leave("g", "m") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    setup.runtime.run("load")
    assert setup.join()[0].error is NONE


def test_sync_and_heartbeat_hide_error_14_while_loading():
    """Clients take error 14 as fatal where genuine brokers never send it (GroupCoordinator)."""
    setup = CoordinatorSetup()
    setup.coordinator.host(key_partition("g", 4), MemoryLog())
    answers = []
    setup.coordinator.sync("g", "m", 3, {}, answers.append)
    assert [each.error for each in answers] == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert setup.coordinator.heartbeat("g", "m", 3) is NONE
    setup.runtime.run("load")
    assert setup.coordinator.heartbeat("g", "m", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_unnamed_group_has_offsets_but_no_members():
    setup = CoordinatorSetup().host()
    assert setup.join("")[0].error is ErrorCode.INVALID_GROUP_ID
    assert setup.coordinator.heartbeat("", "m", 1) is ErrorCode.INVALID_GROUP_ID
    assert setup.commit("", offset=7) is NONE
    assert setup.offset("") == 7


def test_member_id_begins_with_bounded_client_id():
    assert unique_member_id("app").startswith("app-")
    assert unique_member_id("app") != unique_member_id("app")
    assert len(unique_member_id("x" * 30_000)) < 300


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_session_timeout_outside_bounds_is_refused(session_ms):
    assert (
        CoordinatorSetup().host().join(session_ms=session_ms)[0].error
        is ErrorCode.INVALID_SESSION_TIMEOUT
    )


def test_unknown_group_refuses_members():
    setup = CoordinatorSetup().host()
    assert setup.join(member_id="m")[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert setup.coordinator.heartbeat("g", "m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert setup.coordinator.leave("g", "m") is ErrorCode.UNKNOWN_MEMBER_ID
    assert setup.commit(member="m", generation=1) is ErrorCode.ILLEGAL_GENERATION


def test_members_offsets_and_generation_survive_restart():
    setup = CoordinatorSetup().host()
    joined = setup.stable()
    assert setup.commit(member=joined.member_id, generation=1, offset=42) is NONE
    again = CoordinatorSetup(setup.logs).host()
    assert again.coordinator.heartbeat("g", joined.member_id, 1) is NONE
    assert again.offset() == 42
    assert again.commit(member=joined.member_id, generation=1, offset=43) is NONE
    # its session expires without requests
    again.pass_time(10_000)
    assert again.coordinator.heartbeat("g", joined.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_sessions_ignore_wall_clock_jumps():
    setup = CoordinatorSetup().host()
    joined = setup.stable()
    setup.wall += 10 * DAY_MS
    setup.coordinator.tick()
    assert setup.coordinator.heartbeat("g", joined.member_id, 1) is NONE


@pytest.mark.parametrize("closed", [False, True])
def test_end_of_coordination_answers_waiting_requests(closed):
    setup = CoordinatorSetup().host()
    joined = setup.stable()
    waiting = setup.join()
    assert waiting == []
    if closed:
        setup.coordinator.close()
    else:
        setup.coordinator.release(key_partition("g", 4))
    assert waiting[0].error is ErrorCode.NOT_COORDINATOR
    assert setup.coordinator.heartbeat("g", joined.member_id, 1) is ErrorCode.NOT_COORDINATOR


def test_group_that_moves_away_while_another_one_expires_writes_nothing():
    setup = CoordinatorSetup().host()
    first, moved = key_partition("g", 4), key_partition("other", 4)
    assert first != moved
    setup.stable("g"), setup.stable("other")
    log = setup.logs[moved]
    end = log.log_end_offset
    setup.logs[first].on_step = lambda what: setup.coordinator.release(moved)
    setup.pass_time(10_000)
    assert setup.coordinator.heartbeat("other", "m", 1) is ErrorCode.NOT_COORDINATOR
    assert log.log_end_offset == end


def test_groups_are_described_and_listed():
    setup = CoordinatorSetup().host()
    joined = setup.stable()
    setup.commit("plain")
    described = setup.coordinator.describe("g")
    assert (described.state, described.protocol_type, described.protocol) == (
        "Stable",
        "consumer",
        "range",
    )
    assert described.members == ((joined.member_id, "c", "/127.0.0.1", b"meta", b"x"),)
    assert setup.coordinator.describe("none").state == "Dead"
    assert sorted(setup.coordinator.list_groups()[1]) == [("g", "consumer"), ("plain", "")]
    setup.join()
    described = setup.coordinator.describe("g")
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    assert all(member[3:] == (b"", b"") for member in described.members)


def test_only_empty_group_is_deleted_with_its_offsets():
    setup = CoordinatorSetup().host()
    joined = setup.stable()
    setup.commit(member=joined.member_id, generation=1)
    assert setup.coordinator.delete("none") is ErrorCode.GROUP_ID_NOT_FOUND
    assert setup.coordinator.delete("g") is ErrorCode.NON_EMPTY_GROUP
    setup.coordinator.leave("g", joined.member_id)
    assert setup.coordinator.delete("g") is NONE
    assert setup.offset() is None
    again = CoordinatorSetup(setup.logs).host()
    assert again.coordinator.list_groups()[1] == []


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (StorageError("disk"), ErrorCode.NOT_COORDINATOR),
        (NotLeaderForPartition(), ErrorCode.NOT_COORDINATOR),
        (UnknownTopicOrPartition(), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (NotEnoughReplicas(), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (
            ProtocolError(code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ),
        (RequestTimedOut(), ErrorCode.REQUEST_TIMED_OUT),
        (MessageSizeTooLarge(), ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (
            ProtocolError(code=ErrorCode.RECORD_LIST_TOO_LARGE),
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ),
        (
            ProtocolError(code=ErrorCode.INVALID_PRODUCER_EPOCH),
            ErrorCode.INVALID_PRODUCER_EPOCH,
        ),
    ],
    ids=repr,
)
def test_failed_commit_is_not_acknowledged(failure, error):
    # GroupMetadataManager.storeOffsets of genuine brokers.
    setup = CoordinatorSetup().host()
    setup.commit(offset=5)
    setup.logs[key_partition("g", 4)].fail_with = failure
    assert setup.commit(offset=6) is error
    assert setup.offset() == 5


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (StorageError("disk"), ErrorCode.NOT_COORDINATOR),
        (NotLeaderForPartition(), ErrorCode.NOT_COORDINATOR),
        (NotEnoughReplicas(), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (RequestTimedOut(), ErrorCode.REBALANCE_IN_PROGRESS),
        (MessageSizeTooLarge(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=repr,
)
def test_unstored_assignments_are_not_sent(failure, error):
    # GroupMetadataManager.storeGroup of genuine brokers.
    setup = CoordinatorSetup().host()
    (joined,) = setup.join()
    setup.logs[key_partition("g", 4)].fail_with = failure
    answers = setup.sync(joined)
    setup.runtime.run("store-")
    assert [each.error for each in answers] == [error]
    assert setup.coordinator.describe("g").state == "PreparingRebalance"


def test_failed_deletion_succeeds_at_next_attempt():
    setup = CoordinatorSetup().host()
    setup.commit(offset=5)
    log = setup.logs[key_partition("g", 4)]
    log.fail_with = NotEnoughReplicas()
    assert setup.coordinator.delete("g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert setup.offset() == 5
    log.fail_with = None
    assert setup.coordinator.delete("g") is NONE
    assert setup.coordinator.delete("g") is ErrorCode.GROUP_ID_NOT_FOUND


def test_empty_commit_creates_no_group():
    setup = CoordinatorSetup().host()
    assert setup.coordinator.commit("g", "", -1, {}) is NONE
    assert setup.coordinator.list_groups()[1] == []


def test_deadline_task_sleeps_until_next_deadline():
    setup = CoordinatorSetup().host()
    setup.stable()
    wait_s = setup.coordinator._until_due()
    assert wait_s == 10.0
    setup.clock += int(wait_s * 1000)
    assert setup.coordinator._until_due() is None
    assert setup.coordinator.describe("g").state == "Empty"


def test_close_waits_for_running_upkeep(monkeypatch):
    runtime = get_runtime("threads")
    coordinator = GroupCoordinator(
        CoordinatorSettings(maintenance_ms=1),
        runtime=runtime,
        partition_count=lambda: 1,
    )
    begun, ended = runtime.event(), runtime.event()

    def expire_offsets():
        begun.set()
        while not coordinator._deadlines.closed:
            runtime.sleep(0.01)
        runtime.sleep(0.05)
        ended.set()

    monkeypatch.setattr(coordinator.upkeep, "expire_offsets", expire_offsets)
    coordinator.start()
    assert begun.wait(20)
    coordinator.close()
    assert ended.is_set()


def test_group_of_partition_lost_during_verification_is_not_counted():
    setup = CoordinatorSetup().host()

    class Verifying(MemoryLog):
        def begin_verification(self, producer_id, producer_epoch):
            return object()

    number = key_partition("g", 4)
    setup.coordinator.host(number, Verifying())
    setup.runtime.run("load")

    def verify(partition):
        setup.coordinator.release(partition)
        return NONE

    offsets = {("t", 0): OffsetValue(9, metadata="", commit_timestamp_ms=1)}
    error = setup.coordinator.commit_transactional("g", (1, 0), offsets, verify)
    assert error is ErrorCode.NOT_COORDINATOR
    assert setup.coordinator._partitions.memory.used == 0
