"""The documented examples of the assignment strategies, and their general properties."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.assignors import RackAssignor, RandomAssignor
from zkbroker.consumer.group.assignors import (
    ClusterPartitions,
    MemberAssignment,
    MemberSubscription,
    RangeAssignor,
    RoundRobinAssignor,
)
from zkbroker.consumer.group.sticky import StickyAssignor

FOUR_TOPICS = ["t0", "t1", "t2", "t3"]
UNEQUAL = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}


def parse(text):
    """`t0p0 t1p2` as a list of pairs."""
    return [(word[:2], int(word[3:])) for word in text.split()]


def shares(assignor, counts, topics, sticky=None):
    """Assign; with `sticky`, each member's own assignor sends its partitions and gets its share."""
    members = {
        member: MemberSubscription(
            frozenset(names),
            sticky[member].user_data(frozenset(names)) if sticky else None,
        )
        for member, names in topics.items()
    }
    assigned = assignor.assign(ClusterPartitions(counts), members)
    for member, own in (sticky or {}).items():
        if member in assigned:
            own.on_assignment(assigned[member], max(own._generation, 0) + 1)
    return {member: list(share.partitions) for member, share in assigned.items()}


def both(names):
    return {"C0": names, "C1": names}


def test_range_with_two_topics_of_four_partitions():
    assert shares(RangeAssignor(), {"t0": 4, "t1": 4}, both(["t0", "t1"])) == {
        "C0": parse("t0p0 t0p1 t1p0 t1p1"),
        "C1": parse("t0p2 t0p3 t1p2 t1p3"),
    }


def test_range_with_two_topics_of_three_partitions():
    assert shares(RangeAssignor(), {"t0": 3, "t1": 3}, both(["t0", "t1"])) == {
        "C0": parse("t0p0 t0p1 t1p0 t1p1"),
        "C1": parse("t0p2 t1p2"),
    }


def test_roundrobin_with_equal_subscriptions():
    assert shares(RoundRobinAssignor(), {"t0": 3, "t1": 3}, both(["t0", "t1"])) == {
        "C0": parse("t0p0 t0p2 t1p1"),
        "C1": parse("t0p1 t1p0 t1p2"),
    }


def test_roundrobin_with_unequal_subscriptions_before_and_after_c0_leaves():
    counts = {"t0": 1, "t1": 2, "t2": 3}
    assert shares(RoundRobinAssignor(), counts, UNEQUAL) == {
        "C0": parse("t0p0"),
        "C1": parse("t1p0"),
        "C2": parse("t1p1 t2p0 t2p1 t2p2"),
    }
    left = {member: UNEQUAL[member] for member in ("C1", "C2")}
    assert shares(RoundRobinAssignor(), counts, left) == {
        "C1": parse("t0p0 t1p1"),
        "C2": parse("t1p0 t2p0 t2p1 t2p2"),
    }


def test_roundrobin_starts_over_when_c1_leaves():
    counts = dict.fromkeys(FOUR_TOPICS, 2)
    assert shares(RoundRobinAssignor(), counts, dict.fromkeys(["C0", "C2"], FOUR_TOPICS)) == {
        "C0": parse("t0p0 t1p0 t2p0 t3p0"),
        "C2": parse("t0p1 t1p1 t2p1 t3p1"),
    }


def test_sticky_with_equal_subscriptions_before_and_after_c1_leaves():
    counts = dict.fromkeys(FOUR_TOPICS, 2)
    own = {member: StickyAssignor() for member in ("C0", "C1", "C2")}
    everyone = dict.fromkeys(own, FOUR_TOPICS)
    assert shares(own["C0"], counts, everyone, own) == {
        "C0": parse("t0p0 t1p1 t3p0"),
        "C1": parse("t0p1 t2p0 t3p1"),
        "C2": parse("t1p0 t2p1"),
    }
    left = {member: own[member] for member in ("C0", "C2")}
    after = shares(own["C0"], counts, dict.fromkeys(left, FOUR_TOPICS), left)
    assert after == {
        "C0": parse("t0p0 t1p1 t3p0 t2p0"),
        "C2": parse("t1p0 t2p1 t0p1 t3p1"),
    }


def test_sticky_with_unequal_subscriptions_before_and_after_c0_leaves():
    counts = {"t0": 1, "t1": 2, "t2": 3}
    own = {member: StickyAssignor() for member in UNEQUAL}
    assert shares(own["C0"], counts, UNEQUAL, own) == {
        "C0": parse("t0p0"),
        "C1": parse("t1p0 t1p1"),
        "C2": parse("t2p0 t2p1 t2p2"),
    }
    left = {member: own[member] for member in ("C1", "C2")}
    after = shares(own["C1"], counts, {m: UNEQUAL[m] for m in left}, left)
    assert after == {
        "C1": parse("t1p0 t1p1 t0p0"),
        "C2": parse("t2p0 t2p1 t2p2"),
    }


def test_random_example_assigns_each_partition_to_one_subscriber():
    counts = {"t0": 40, "t1": 40}
    topics = {"C0": ["t0"], "C1": ["t0", "t1"]}
    assigned = shares(RandomAssignor(random.Random(1)), counts, topics)
    assert sorted(assigned["C0"] + assigned["C1"]) == [
        (topic, number) for topic in counts for number in range(40)
    ]
    assert {topic for topic, _ in assigned["C0"]} == {"t0"}
    assert {topic for topic, _ in assigned["C1"]} == {"t0", "t1"}


def test_rack_example_assigns_partitions_within_rack():
    cluster = ClusterPartitions(
        {"t": 4},
        leaders={("t", 0): 1, ("t", 1): 2, ("t", 2): 1, ("t", 3): 2},
        racks={1: "rack1", 2: "rack2"},
    )
    own = {"consumer1": RackAssignor("rack1"), "consumer2": RackAssignor("rack2")}
    members = {
        member: MemberSubscription(frozenset({"t"}), each.user_data(frozenset({"t"})))
        for member, each in own.items()
    }
    assert own["consumer2"].assign(cluster, members) == {
        "consumer1": MemberAssignment((("t", 0), ("t", 2))),
        "consumer2": MemberAssignment((("t", 1), ("t", 3))),
    }
    # a partition in a rack without a member goes to the member with the fewest partitions
    members.pop("consumer2")
    assert len(own["consumer1"].assign(cluster, members)["consumer1"].partitions) == 4


@pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor(), StickyAssignor()])
def test_unknown_topics_and_empty_groups_get_no_assignment(assignor):
    assert shares(assignor, {}, {"C0": ["gone"]}) == {"C0": []}
    assert shares(assignor, {"t0": 1}, {}) == {}
    assert shares(assignor, {"t0": 1}, {"C0": []}) == {"C0": []}


CLUSTERS = st.dictionaries(st.sampled_from(FOUR_TOPICS), st.integers(0, 7))
GROUPS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d", "e"]),
    st.frozensets(st.sampled_from(FOUR_TOPICS)),
    min_size=1,
)


@pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor(), StickyAssignor()])
@settings(deadline=None, derandomize=True)
@given(counts=CLUSTERS, topics=GROUPS)
def test_every_subscribed_partition_has_exactly_one_owner(assignor, counts, topics):
    assigned = shares(assignor, counts, topics)
    given_out = Counter(p for share in assigned.values() for p in share)
    wanted = {topic for names in topics.values() for topic in names}
    assert given_out == Counter((t, n) for t in wanted for n in range(counts.get(t, 0)))
    assert all(topic in topics[m] for m, share in assigned.items() for topic, _ in share)


def could_be_more_even(assigned, topics):
    """Whether some chain of moves brings two members closer together, by exhaustive search."""
    for start in assigned:
        reached, frontier = {start}, [start]
        while frontier:
            member = frontier.pop()
            names = {topic for topic, _ in assigned[member]}
            for other in assigned:
                if other not in reached and names & set(topics[other]):
                    reached.add(other)
                    frontier.append(other)
        if any(len(assigned[other]) <= len(assigned[start]) - 2 for other in reached):
            return True
    return False


@settings(deadline=None, derandomize=True, max_examples=200)
@given(counts=CLUSTERS, before=GROUPS, after=GROUPS)
def test_sticky_assignment_is_balanced_with_fewest_moves(counts, before, after):
    own = {member: StickyAssignor() for member in {*before, *after}}
    first = shares(next(iter(own.values())), counts, before, {m: own[m] for m in before})
    assert not could_be_more_even(first, before)
    again = shares(StickyAssignor(), counts, before, {m: own[m] for m in before})
    assert {m: set(s) for m, s in again.items()} == {m: set(s) for m, s in first.items()}
    second = shares(StickyAssignor(), counts, after, {m: own[m] for m in after})
    assert not could_be_more_even(second, after)


@settings(deadline=None, derandomize=True)
@given(partitions=st.integers(1, 40), members=st.integers(2, 7))
def test_sticky_with_equal_subscriptions_moves_only_partitions_of_leaver(partitions, members):
    names = [f"m{n}" for n in range(members)]
    own = {name: StickyAssignor() for name in names}
    first = shares(StickyAssignor(), {"t0": partitions}, {key: ["t0"] for key in names}, own)
    left = {name: own[name] for name in names[1:]}
    second = shares(StickyAssignor(), {"t0": partitions}, {key: ["t0"] for key in left}, left)
    for name in left:
        assert set(first[name]) <= set(second[name])
    # when it returns, each other member gives up only its surplus
    own[names[0]] = StickyAssignor()
    third = shares(StickyAssignor(), {"t0": partitions}, {key: ["t0"] for key in names}, own)
    for name in left:
        assert set(third[name]) <= set(second[name])


def test_sticky_prefers_claim_of_later_generation():
    old, new = StickyAssignor(), StickyAssignor()
    old.on_assignment(MemberAssignment((("t0", 0), ("t0", 1))), 3)
    new.on_assignment(MemberAssignment((("t0", 0),)), 4)
    topics = frozenset({"t0"})
    members = {
        "a": MemberSubscription(topics, old.user_data(topics)),
        "b": MemberSubscription(topics, new.user_data(topics)),
    }
    assigned = StickyAssignor().assign(ClusterPartitions({"t0": 2}), members)
    assert assigned["b"].partitions == (("t0", 0),)


def test_sticky_user_data_matches_java_and_reads_older_forms():
    assignor = StickyAssignor()
    assignor.on_assignment(MemberAssignment((("t0", 1), ("t0", 2))), 7)
    data = assignor.user_data(frozenset())
    assert data == bytes.fromhex("00000001 0002 7430 00000002 00000001 00000002 00000007")
    topics = frozenset({"t0"})
    for user_data in (data, data[:-4], b"\0\1" + data, b"\0\0" + data[:-4]):
        members = {
            "a": MemberSubscription(topics, None),
            "b": MemberSubscription(topics, user_data),
        }
        assigned = StickyAssignor().assign(ClusterPartitions({"t0": 3}), members)
        assert set(assigned["b"].partitions) == {("t0", 1), ("t0", 2)}
