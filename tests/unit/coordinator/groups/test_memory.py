from tests.support.group_driver import GroupDriver
from zkbroker.coordinator.groups.member import JoinRequest, JoinResult
from zkbroker.coordinator.groups.memory import GroupMemory
from zkbroker.errors import ErrorCode

from .test_coordinator import CoordinatorSetup


def join_of(metadata: bytes, member_id: str = "") -> JoinRequest:
    return JoinRequest(
        member_id, "c", "/127.0.0.1", 10_000, 60_000, "consumer", (("range", metadata),)
    )


def test_rejoin_replaces_memory_of_member() -> None:
    memory = GroupMemory(120_000)
    joined = GroupDriver().group
    answers: list[JoinResult] = []
    joined.join(join_of(bytes(100_000)), answers.append, 0)
    memory.note(joined)
    assert 100_000 < memory.used < 104_000
    assert not memory.has_room_for_join(joined, join_of(bytes(100_000)), 0)
    again = join_of(bytes(100_000), answers[0].member_id)
    assert memory.has_room_for_join(joined, again, 0)
    assert memory.has_room_for_assignments(joined, {answers[0].member_id: bytes(1000)}, 0)
    assert not memory.has_room_for_assignments(joined, {answers[0].member_id: bytes(20_000)}, 0)
    assert memory.has_room_for_assignments(joined, {"somebody": bytes(20_000)}, 0)
    memory.forget(joined)
    assert memory.used == 0


def test_join_above_limit_is_refused_until_others_leave() -> None:
    setup = CoordinatorSetup(metadata_bytes=1_000_000).host()
    outcomes: list[JoinResult] = []
    for number in range(30):
        setup.coordinator.join(f"g{number}", join_of(bytes(100_000)), outcomes.append)
    good = [each for each in outcomes if each.error is ErrorCode.NONE]
    assert len(good) == 9
    assert {each.error for each in outcomes[9:]} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len(setup.coordinator.list_groups()[1]) == 9
    assert setup.coordinator.leave("g0", good[0].member_id) is ErrorCode.NONE
    setup.coordinator.join("h", join_of(bytes(90_000)), outcomes.append)
    assert outcomes[-1].error is ErrorCode.NONE


def test_assignments_above_limit_are_refused() -> None:
    setup = CoordinatorSetup(metadata_bytes=200_000).host()
    (joined,) = setup.join()
    answers = setup.sync(joined, assignment=bytes(300_000))
    assert answers[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
