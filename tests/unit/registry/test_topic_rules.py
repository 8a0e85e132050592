"""The rules for names, partitions, replicas and racks of a topic."""

import pytest

from zkbroker.errors import ErrorCode, InvalidTopic, ProtocolError
from zkbroker.registry.topic_rules import (
    MAX_PARTITIONS,
    Racks,
    check_assignment,
    check_new_name,
    check_topic_name,
    plan_growth,
    plan_topic,
)

THREE = {1: None, 2: None, 3: None}
MIXED = {1: "a", 2: None, 3: "b"}


def test_invalid_topic_names_are_refused():
    for name in ("", ".", "..", "a b", "ä", "a/b", "a\n", "x" * 250):
        with pytest.raises(InvalidTopic):
            check_topic_name(name)
    for name in ("a", "A.b_c-9", "...", "x" * 249):
        check_topic_name(name)


def test_existing_or_colliding_topic_name_is_refused():
    with pytest.raises(ProtocolError, match=r"Topic 'a\.b' already exists") as refused:
        check_new_name("a.b", ["a.b"])
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(InvalidTopic, match=r"collides with existing topics: a\.b_c, a_b\.c$"):
        check_new_name("a.b.c", {"a_b.c", "a.b_c", "ab.c", "a-b-c"})
    check_new_name("a.b.c", ["a.b", "ab_c"])
    check_new_name("abc", ["a.b"])


@pytest.mark.parametrize("count", [-2, 0, MAX_PARTITIONS + 1])
def test_partition_count_out_of_bounds_is_refused(count):
    with pytest.raises(ProtocolError, match="Number of partitions must be") as refused:
        plan_topic(THREE, count, 1)
    assert refused.value.code is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (0, "must be larger than 0"),
        (4, "Replication factor: 4 larger than available brokers: 3."),
    ],
)
def test_invalid_replication_factor_is_refused(factor, message):
    with pytest.raises(ProtocolError, match=message) as refused:
        plan_topic(THREE, 1, factor)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_incomplete_racks_are_refused_unless_ignored():
    with pytest.raises(
        ProtocolError, match=r"Not all brokers have rack information.*on brokers 2 too"
    ) as refused:
        plan_topic(MIXED, 1, 1)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ProtocolError, match="Not all brokers"):
        plan_growth("t", {0: (1,)}, 2, MIXED)
    assert plan_topic(MIXED, 1, 1, racks=Racks.IGNORED)
    assert plan_topic(MIXED, 1, 1, racks=Racks.USED_IF_COMPLETE)
    assert plan_growth("t", {0: (1,)}, 2, MIXED, racks=Racks.IGNORED) == {1: (2,)}
    assert plan_topic({1: "a", 2: "b"}, 1, 1)


def test_ignored_racks_do_not_affect_assignment():
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    aware = plan_topic(racks, 8, 2)
    assert all(racks[one] != racks[other] for one, other in aware.values())
    unaware = plan_growth("t", {0: (0, 1)}, 4, racks, racks=Racks.IGNORED)
    assert unaware == {1: (1, 2), 2: (2, 3), 3: (3, 0)}


def test_growth_keeps_replication_factor():
    assert plan_growth("t", {0: (2, 3), 1: (3, 1)}, 4, THREE) == {2: (1, 3), 3: (2, 3)}


@pytest.mark.parametrize("total", [0, 1, 2])
def test_fewer_or_equal_partitions_are_refused(total):
    with pytest.raises(ProtocolError, match=r"already has 2|currently has 2") as refused:
        plan_growth("t", {0: (1,), 1: (2,)}, total, THREE)
    assert refused.value.code is ErrorCode.INVALID_PARTITIONS


def test_growth_needs_assignment_of_each_new_partition():
    assert plan_growth("t", {0: (1,)}, 3, THREE, assignment=[[2], [2]]) == {1: (2,), 2: (2,)}
    for wrong in ([[2]], [[2], [9]], [[2], []], [[2], [1, 2]], [[2], [-1]]):
        with pytest.raises(ProtocolError) as refused:
            plan_growth("t", {0: (1,)}, 3, THREE, assignment=wrong)
        assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ({1: [1]}, "consecutive 0-based"),
        ({0: [1], 2: [1]}, "consecutive 0-based"),
        ({0: []}, "replication factor of 0 for partition id 0"),
        ({0: [1], 1: [2, 2]}, "Duplicate brokers not allowed.*2, 2 for partition id 1"),
        ({0: [9, 1]}, r"Unknown broker\(s\).*: 9 for partition id 0; live ones are 1, 2, 3"),
        ({0: [2**31]}, "names broker 2147483648, above 2147483647"),
        ({0: [1, 2], 1: [1]}, "Inconsistent replication factor.*2 for the first, 1 for"),
    ],
)
def test_invalid_assignment_is_refused(assignment, message):
    with pytest.raises(ProtocolError, match=message) as refused:
        check_assignment(assignment, THREE)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_empty_assignment_is_refused():
    with pytest.raises(ProtocolError, match="must be larger than 0"):
        check_assignment({}, THREE)


def test_assignment_may_name_dead_brokers_where_allowed():
    assert check_assignment({0: [1], 1: [7]}, None) == {0: (1,), 1: (7,)}
