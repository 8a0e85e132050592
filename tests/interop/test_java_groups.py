"""Groups of genuine Java consumers, alone and together with members of the other libraries."""

import pytest

from tests.interop.test_groups import (  # noqa: F401 - the brokers are fixtures
    PARTITIONS,
    groups_broker,
    needs_old,
    own_broker,
    scene_of,
)
from tests.support import java_clients
from tests.support.group_members import wait_until_shared

VERSIONS = java_clients.versions()
pytestmark = pytest.mark.skipif(not VERSIONS, reason=java_clients.REASON)

NEWEST = f"java-{VERSIONS[-1]}" if VERSIONS else ""
OLDEST = f"java-{VERSIONS[0]}" if VERSIONS else ""


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param("range", marks=pytest.mark.soak),
        pytest.param("roundrobin", marks=pytest.mark.soak),
        pytest.param("sticky", marks=pytest.mark.soak),
        "cooperative-sticky",
    ],
)
def test_java_members_join_leave_and_crash(groups_broker, strategy):  # noqa: F811
    with scene_of(groups_broker, strategy) as scene:
        scene.join_leave_and_crash(OLDEST, NEWEST)


@pytest.mark.parametrize("strategy", ["range", pytest.param("roundrobin", marks=pytest.mark.soak)])
def test_java_members_share_a_group_with_all_others(groups_broker, strategy):  # noqa: F811
    with scene_of(groups_broker, strategy) as scene:
        members = scene.join(NEWEST, "zkbroker", "confluent", "kafka-python", OLDEST)
        scene.produce()
        scene.leave(members[0])
        scene.produce()
        scene.crash(members[1])
        scene.produce()
        (late,) = scene.join(NEWEST)
        assert late.held
        scene.produce()


@pytest.mark.parametrize("leader", [pytest.param("zkbroker", marks=pytest.mark.soak), "java"])
def test_sticky_members_of_java_and_ours_keep_partitions(groups_broker, leader):  # noqa: F811
    ours, theirs = "zkbroker", NEWEST
    kinds = (ours, theirs, ours) if leader == "zkbroker" else (theirs, ours, theirs)
    with scene_of(groups_broker, "sticky", session_ms=30_000) as scene:
        # The first member leads, and assigns by the subscriptions of both kinds of members.
        (first,) = scene.join(kinds[0])
        second, third = scene.join(*kinds[1:])
        before = {member: set(member.held) for member in (first, second, third)}
        assert all(len(held) == 2 for held in before.values())
        scene.produce()
        scene.leave(third)
        assert before[first] < first.held
        assert before[second] < second.held
        scene.produce()


@pytest.mark.parametrize("strategy", ["range", pytest.param("sticky", marks=pytest.mark.soak)])
def test_java_members_survive_kill_of_coordinator(own_broker, strategy):  # noqa: F811
    with scene_of(own_broker, strategy) as scene:
        scene.join(NEWEST, "zkbroker", OLDEST)
        scene.produce()
        for _ in range(2):
            own_broker.kill()
            own_broker.start()
            scene.connect()
            scene.produce()
        wait_until_shared(scene.here, PARTITIONS)
