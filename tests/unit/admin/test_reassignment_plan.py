from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.flows import fewest_moves
from zkbroker.admin.reassignment_plan import moved_replicas, plan_reassignment
from zkbroker.errors import ConfigError


@st.composite
def clusters(draw, racks=False):
    """An assignment over some brokers, and the brokers that are to hold it."""
    factor = draw(st.integers(1, 3))
    old = list(range(draw(st.integers(factor, 7))))
    current = {
        (f"t{number % 3}", number): tuple(draw(st.permutations(old))[:factor])
        for number in range(draw(st.integers(0, 24)))
    }
    leaving = draw(st.sets(st.sampled_from(old), max_size=3))
    coming = range(10, 10 + draw(st.integers(0, 3)))
    allowed = sorted({*old, *coming} - leaving)
    while len(allowed) < factor:
        allowed.append(20 + len(allowed))
    names = st.sampled_from(["a", "b", "c"]) if racks else st.none()
    return current, {broker: draw(names) for broker in allowed}


def after(current, plan):
    return {**current, **plan}


def loads(assignment, brokers):
    held = Counter(broker for replicas in assignment.values() for broker in replicas)
    return [held[broker] for broker in brokers]


@given(clusters(racks=True))
def test_plan_keeps_replica_counts_on_allowed_brokers(given_cluster):
    current, brokers = given_cluster
    plan = plan_reassignment(current, brokers)
    assert plan == plan_reassignment(dict(reversed(current.items())), brokers)
    for key, replicas in plan.items():
        assert replicas != current[key]
        assert len(replicas) == len(set(replicas)) == len(current[key])
        assert set(replicas) <= set(brokers)
    for replicas in after(current, plan).values():
        assert set(replicas) <= set(brokers)


@given(clusters(racks=True))
def test_plan_keeps_racks_where_possible(given_cluster):
    current, brokers = given_cluster
    plan = plan_reassignment(current, brokers)
    available = len(set(brokers.values()))
    for key, replicas in after(current, plan).items():
        stay = [broker for broker in current[key] if broker in brokers]
        gone = len(current[key]) - len(stay)
        now = len({brokers[broker] for broker in replicas})
        assert now >= min(len({brokers[broker] for broker in stay}) + gone, available)


@given(clusters())
# The broker that gets one more must not be the one with the lowest id: it has the partition.
@example(({("t", 0): (3, 4, 5), ("t", 1): (2, 1, 6)}, dict.fromkeys([2, 3, 4, 5, 6])))
def test_plan_without_racks_balances_brokers_with_fewest_moves(given_cluster):
    current, brokers = given_cluster
    plan = plan_reassignment(current, brokers)
    assert moved_replicas(current, plan) == fewest_moves(current, brokers)
    held = loads(after(current, plan), brokers)
    assert max(held) - min(held) <= 1


@given(clusters(racks=True))
def test_plan_without_balance_moves_only_forced_replicas(given_cluster):
    current, brokers = given_cluster
    plan = plan_reassignment(current, brokers, balance=False)
    forced = sum(broker not in brokers for replicas in current.values() for broker in replicas)
    assert moved_replicas(current, plan) == forced
    assert all(set(current[key]) - set(brokers) for key in plan)


@given(clusters(racks=True), st.integers(1, 3))
def test_plan_reaches_replication_factor(given_cluster, factor):
    current, brokers = given_cluster
    brokers |= {30: "a", 31: "b", 32: "c"} if None not in brokers.values() else {}
    plan = plan_reassignment(current, brokers, replication_factor=factor)
    for replicas in after(current, plan).values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(brokers)


def test_new_broker_gets_its_share_of_leaders():
    current = {("t", number): (1 + number % 2, 2 - number % 2) for number in range(12)}
    plan = plan_reassignment(current, {1: None, 2: None, 3: None})
    assert moved_replicas(current, plan) == 8
    leads = Counter(replicas[0] for replicas in after(current, plan).values())
    assert leads == {1: 4, 2: 4, 3: 4}


def test_too_few_brokers_are_refused():
    with pytest.raises(
        ConfigError, match=r"topic t has 2 replicas of each .* there are 1 to use: 7"
    ):
        plan_reassignment({("t", 0): (1, 2)}, {7: None})
