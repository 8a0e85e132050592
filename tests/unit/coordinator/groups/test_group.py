"""The state machine by example; `test_group_model.py` covers what a model predicts."""

import pytest

from tests.support.group_driver import GroupDriver
from zkbroker.coordinator.groups.group import GroupState
from zkbroker.errors import ErrorCode
from zkbroker.protocol.offsets_topic import decode_group, encode_group

NONE = ErrorCode.NONE


def test_lone_member_leads_and_gets_its_assignment():
    d = GroupDriver()
    (joined,) = d.join(client_id="app")
    assert joined.error is NONE
    assert joined.member_id == joined.leader == "app-1"
    assert (joined.generation, joined.protocol) == (1, "range")
    assert joined.members == (("app-1", b"meta"),)
    assert d.group.state is GroupState.COMPLETING
    (synced,) = d.sync("app-1", 1, {"app-1": b"all"})
    assert (synced.error, synced.assignment) == (NONE, b"all")
    assert d.group.state is GroupState.STABLE
    assert d.heartbeat("app-1", 1) is NONE


def test_only_leader_gets_metadata():
    d = GroupDriver(initial_delay_ms=3000)
    first = d.join(client_id="a", protocols=(("range", b"A"),))
    second = d.join(client_id="b", protocols=(("range", b"B"),))
    assert first == second == []
    d.advance(6000)
    assert first[0].leader == second[0].leader == "a-1"
    assert first[0].members == (("a-1", b"A"), ("b-2", b"B"))
    assert second[0].members == ()
    assert first[0].generation == second[0].generation == 1


def test_follower_waits_for_leader_assignment():
    d = GroupDriver(initial_delay_ms=10)
    d.join(), d.join()
    d.advance(20)
    follower = d.sync("c-2", 1)
    assert follower == []
    d.sync("c-1", 1, {"c-1": b"x", "c-2": b"y"})
    assert follower[0].assignment == b"y"
    # a repeated sync of a stable group gets the known assignment
    assert d.sync("c-2", 1)[0].assignment == b"y"


def test_member_missing_from_assignment_gets_empty_share():
    d = GroupDriver(initial_delay_ms=10)
    d.join(), d.join()
    d.advance(20)
    follower = d.sync("c-2", 1)
    d.sync("c-1", 1, {"c-1": b"x", "stranger": b"z"})
    assert (follower[0].error, follower[0].assignment) == (NONE, b"")


def test_each_newcomer_extends_initial_delay_up_to_rebalance_timeout():
    d = GroupDriver(initial_delay_ms=3000)
    first = d.join(rebalance_ms=7000)
    d.advance(2000)
    d.join(rebalance_ms=7000)
    d.advance(2000)  # 3000 passed, one came: 3000 more
    assert first == []
    d.join(rebalance_ms=7000)
    d.advance(2500)  # 6500 of 7000: the rest of the rebalance time runs
    assert first == []
    d.advance(500)
    assert first[0].error is NONE
    assert len(first[0].members) == 3


def test_members_that_do_not_rejoin_in_time_are_removed():
    d = GroupDriver()
    ids = d.stable(2, session_ms=300_000, rebalance_ms=5000)
    newcomer = d.join(session_ms=300_000, rebalance_ms=5000)
    d.join(ids[1], session_ms=300_000, rebalance_ms=5000)
    d.advance(4999)
    assert newcomer == []
    d.advance(1)
    assert newcomer[0].error is NONE
    assert newcomer[0].leader == ids[1]  # the leader did not come
    assert d.heartbeat(ids[0], 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_longest_rebalance_timeout_applies():
    d = GroupDriver()
    first = d.join(session_ms=300_000, rebalance_ms=5000)
    d.sync(first[0].member_id, 1, {})
    newcomer = d.join(session_ms=300_000, rebalance_ms=20_000)
    d.advance(19_999)
    assert newcomer == []
    d.advance(1)
    assert newcomer[0].error is NONE


def test_session_timeout_replaces_missing_rebalance_timeout():
    d = GroupDriver()
    d.stable(1, session_ms=30_000, rebalance_ms=-1)
    newcomer = d.join(session_ms=30_000, rebalance_ms=-1)
    d.advance(29_000)
    assert newcomer == []
    d.advance(1000)
    assert newcomer[0].error is NONE


def test_expired_member_is_removed_and_group_rebalances():
    d = GroupDriver()
    ids = d.stable(2, session_ms=10_000)
    d.advance(9_999)
    assert d.heartbeat(ids[0], d.group.generation) is NONE
    d.advance(1)
    assert list(d.group.members) == [ids[0]]
    assert d.heartbeat(ids[0], d.group.generation) is ErrorCode.REBALANCE_IN_PROGRESS


def test_session_of_waiting_member_does_not_expire():
    d = GroupDriver()
    ids = d.stable(1, session_ms=300_000, rebalance_ms=300_000)
    newcomer = d.join(session_ms=6000, rebalance_ms=6000)
    d.advance(60_000)
    assert newcomer == []
    d.join(ids[0], session_ms=300_000, rebalance_ms=300_000)
    assert newcomer[0].error is NONE


def waiting_reply(d, member_id):
    return d.group.members[member_id].join_reply


def test_disconnected_newcomer_is_removed():
    d = GroupDriver(initial_delay_ms=3000)
    d.join(client_id="gone", session_ms=45_000)
    d.group.gone(waiting_reply(d, "gone-1"), d.now)
    assert not d.group.members
    first, second = d.join(), d.join()
    d.advance(6000)
    assert first[0].leader == second[0].leader == first[0].member_id


def test_rebalance_continues_without_disconnected_newcomer():
    d = GroupDriver()
    ids = d.stable(1)
    d.join(client_id="gone", rebalance_ms=300_000)
    reply = waiting_reply(d, f"gone-{d.ids}")
    d.group.gone(reply, d.now)
    d.group.gone(reply, d.now)
    again = d.join(ids[0])
    assert (again[0].error, [name for name, _ in again[0].members]) == (NONE, ids)


def test_disconnected_member_may_rejoin_within_its_session():
    d = GroupDriver()
    ids = d.stable(2, session_ms=10_000)
    d.join(ids[0], protocols=(("range", b"other"),))
    d.group.gone(waiting_reply(d, ids[0]), d.now)
    assert d.group.members[ids[0]].join_reply is None
    second = d.join(ids[1])
    assert second == [], "it may come back"
    d.advance(9_999)
    assert second == []
    d.advance(1)
    assert second[0].leader == ids[1], "an expired member does not lead"


def test_member_disconnected_during_sync_expires():
    d = GroupDriver()
    first, second = d.join(), d.join()
    first = d.join(first[0].member_id)
    d.sync(second[0].member_id, 2)
    d.group.gone(d.group.members[second[0].member_id].sync_reply, d.now)
    d.advance(5_000)
    d.sync(first[0].member_id, 2, {})
    d.advance(5_000)
    assert list(d.group.members) == [first[0].member_id]


def test_group_is_empty_in_next_generation_after_last_leave():
    d = GroupDriver()
    (member,) = d.stable(1)
    assert d.leave(member) is NONE
    assert d.group.state is GroupState.EMPTY
    assert d.group.generation == 2
    assert d.stored[-1].members == []
    assert d.stored[-1].protocol is None
    assert d.leave(member) is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.group.next_deadline() is None


def test_leader_without_sync_is_removed_after_rebalance_timeout():
    d = GroupDriver(initial_delay_ms=10)
    d.join(rebalance_ms=20_000), d.join(rebalance_ms=20_000)
    d.advance(20)
    follower = d.sync("c-2", 1)
    for _ in range(3):
        d.advance(6000)
        assert d.heartbeat("c-1", 1) is NONE  # alive, but its poll loop hangs
    d.advance(6000)
    assert follower[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(d.group.members) == ["c-2"]


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [
        ("c-1", 1, NONE),
        ("c-1", 0, ErrorCode.ILLEGAL_GENERATION),
        ("c-1", 2, ErrorCode.ILLEGAL_GENERATION),
        ("unknown", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_requests_with_other_generation_or_unknown_member_are_fenced(member, generation, error):
    d = GroupDriver()
    d.stable(1)
    assert d.heartbeat(member, generation) is error
    assert d.sync(member, generation)[0].error is error
    assert d.group.check_commit(member, generation, d.now) is error


def test_commit_is_allowed_while_rebalancing_until_assignment_is_due():
    d = GroupDriver()
    (member,) = d.stable(1)
    d.join()
    assert d.group.state is GroupState.PREPARING
    assert d.group.check_commit(member, 1, d.now) is NONE
    d.join(member)
    assert d.group.state is GroupState.COMPLETING
    assert d.group.check_commit(member, 2, d.now) is ErrorCode.REBALANCE_IN_PROGRESS


def test_nonmember_commits_only_to_empty_group():
    d = GroupDriver()
    assert d.group.check_commit("", -1, d.now) is NONE
    d.stable(1)
    assert d.group.check_commit("", -1, d.now) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "join",
    [
        {"protocols": (("sticky", b""),)},
        {"protocol_type": "connect"},
        {"protocols": ()},
        {"protocol_type": ""},
    ],
)
def test_member_without_common_protocol_is_refused(join):
    d = GroupDriver()
    d.stable(1)
    assert d.join(**join)[0].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert d.group.state is GroupState.STABLE


def test_empty_group_accepts_any_protocol_type():
    d = GroupDriver()
    (member,) = d.stable(1)
    d.leave(member)
    assert d.join(protocol_type="connect", protocols=(("v1", b""),))[0].error is NONE
    assert d.group.protocol_type == "connect"


def test_full_group_refuses_join():
    d = GroupDriver(max_size=2)
    d.stable(2)
    assert d.join()[0].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_assignment_stored_after_new_rebalance_is_dropped():
    d = GroupDriver()
    (joined,) = d.join()
    d.hold_store = True
    waiting = d.sync(joined.member_id, 1, {joined.member_id: b"x"})
    newcomer = d.join()
    assert waiting[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    d.held.pop()(NONE, d.now)
    assert d.group.state is GroupState.PREPARING
    d.join(joined.member_id)
    assert newcomer[0].error is NONE


def test_restored_group_keeps_generation_and_members():
    d = GroupDriver()
    ids = d.stable(2)
    restarted = GroupDriver()
    restarted.now = d.now + 50_000
    restarted.group.restore(decode_group(encode_group(d.stored[-1])), restarted.now)
    assert restarted.group.state is GroupState.STABLE
    for each in ids:
        assert restarted.heartbeat(each, d.group.generation) is NONE
        assert restarted.sync(each, d.group.generation)[0].assignment == each.encode()
    # sessions of members that did not return expire
    restarted.advance(9_999)
    restarted.heartbeat(ids[1], d.group.generation)
    restarted.advance(1)
    assert list(restarted.group.members) == [ids[1]]
    assert restarted.group.leader == ids[1]


def test_close_answers_waiting_joins():
    d = GroupDriver(initial_delay_ms=10)
    joins = [d.join(), d.join()]
    d.group.close(ErrorCode.NOT_COORDINATOR)
    assert [answer[0].error for answer in joins] == [ErrorCode.NOT_COORDINATOR] * 2
    assert d.heartbeat("c-1", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.join()[0].error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("joining", [False, True])
def test_nothing_comes_due_in_a_closed_group(joining):
    """It may close between the moment when it is found due and its tick."""
    d = GroupDriver()
    d.stable(2)
    if joining:
        d.join()
    stored = len(d.stored)
    d.group.close(ErrorCode.NOT_COORDINATOR)
    d.group.tick(d.now + 1_000_000)
    assert (d.group.state, d.group.next_deadline()) == (GroupState.DEAD, None)
    assert len(d.stored) == stored
