"""Each row of the election table in the module, and the invariants of elections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkbroker.controller import leader_rules as rules
from zkbroker.controller.leader_rules import Election


@pytest.mark.parametrize(
    ("replicas", "live", "expected"),
    [
        ([2, 0, 1], {0, 1, 2}, Election(2, (2, 0, 1))),
        ([2, 0, 1], {0, 1}, Election(0, (0, 1))),
        ([2], {0, 1}, None),
        ([], {0}, None),
    ],
)
def test_election_of_new_partition(replicas, live, expected):
    assert rules.new_partition(replicas, live) == expected


@pytest.mark.parametrize(
    ("isr", "live", "unclean", "expected"),
    [
        ([2, 1, 0], {0, 1}, False, Election(0, (1, 0))),  # the assignment's order, not the ISR's
        ([2, 1], {0, 1}, False, Election(1, (1,))),
        ([2], {0, 1}, False, None),
        ([2], {0, 1}, True, Election(0, (0,), unclean=True)),
        ([2, 1], {0, 1}, True, Election(1, (1,))),  # unclean only without a live replica in sync
        ([2], set(), True, None),
    ],
)
def test_election_of_offline_partition(isr, live, unclean, expected):
    assert rules.offline_partition([0, 1, 2], isr, live, unclean=unclean) == expected


@pytest.mark.parametrize(
    ("isr", "live", "expected"),
    [
        ([0, 3, 4], {0, 3, 4}, Election(3, (0, 3, 4))),
        ([0, 4], {0, 3, 4}, Election(4, (0, 4))),
        ([0], {0, 3, 4}, None),
        ([0, 3], {0}, None),
    ],
)
def test_election_of_reassigned_partition(isr, live, expected):
    assert rules.reassigned([3, 4], isr, live) == expected


@pytest.mark.parametrize(
    ("isr", "live", "expected"),
    [
        ([1, 0], {0, 1}, Election(0, (1, 0))),
        ([1], {0, 1}, None),
        ([1, 0], {1}, None),
    ],
)
def test_election_of_preferred_leader(isr, live, expected):
    assert rules.preferred([0, 1], isr, live) == expected


@pytest.mark.parametrize(
    ("isr", "live", "leaving", "expected"),
    [
        ([1, 2, 0], {0, 2}, {1}, Election(0, (2, 0))),
        ([1, 2], {0, 2}, {1}, Election(2, (2,))),
        ([1], {0, 2}, {1}, None),
        ([1, 2], {0}, {1}, None),
        ([1, 2], {0}, {1, 2}, None),
    ],
)
def test_election_at_controlled_shutdown(isr, live, leaving, expected):
    assert rules.controlled_shutdown([0, 1, 2], isr, live, leaving) == expected


@pytest.mark.parametrize(
    ("leader", "isr", "lost", "expected"),
    [
        (0, [0, 1, 2], {1}, Election(0, (0, 2))),
        (0, [0, 1], {0}, Election(-1, (1,))),
        (0, [0], {0}, Election(-1, (0,))),  # the last one stays: it has every message
        (0, [0, 1], {0, 1}, Election(-1, (0, 1))),
        (0, [0], {1}, None),
        (-1, [0], {0}, None),
    ],
)
def test_election_without_lost_replica(leader, isr, lost, expected):
    assert rules.without_replicas(leader, isr, lost) == expected


@pytest.mark.parametrize(
    ("back", "leader", "isr", "live", "expected"),
    [
        ({0}, 0, (0, 1, 2), {0, 1, 2}, Election(1, (1, 2))),
        ({1}, 0, (0, 1, 2), {0, 1, 2}, Election(0, (0, 2))),
        ({0}, 0, (0, 1), {0}, Election(0, (0, 1))),
        ({0, 1}, 0, (0, 1), {0, 1}, Election(0, (0, 1))),
        ({0}, 2, (0, 1, 2), {0, 1}, Election(1, (1, 2))),
        ({0}, 2, (0, 2), {0}, None),
    ],
)
def test_election_after_unnoticed_restart(back, leader, isr, live, expected):
    before = Election(leader, isr)
    assert rules.without_restarted(back, [0, 1, 2], before, live) == expected


brokers = st.integers(0, 5)
some = st.lists(brokers, unique=True, max_size=4)


@given(replicas=some, isr=some, live=st.sets(brokers), leaving=st.sets(brokers), leader=brokers)
def test_clean_election_chooses_live_assigned_replica_of_isr(replicas, isr, live, leaving, leader):
    elected = [
        rules.offline_partition(replicas, isr, live, unclean=False),
        rules.reassigned(replicas, isr, live),
        rules.preferred(replicas, isr, live),
        rules.controlled_shutdown(replicas, isr, live - leaving, leaving),
    ]
    for each in elected:
        if each is not None:
            assert each.leader in live
            assert each.leader in replicas
            assert each.leader in each.isr
            assert each.leader in isr
            assert set(each.isr) <= set(isr)
    shrunk = rules.without_replicas(leader, isr, live)
    if shrunk is not None:
        assert shrunk.isr or not isr
        assert shrunk.leader in (leader, -1)
