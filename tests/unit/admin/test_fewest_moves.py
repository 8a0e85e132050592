"""Exchanges between brokers, against a plain flow of least cost."""

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.flows import fewest_moves
from zkbroker.admin.fewest_moves import with_fewest_moves
from zkbroker.admin.reassignment_plan import moved_replicas


@st.composite
def targets(draw):
    """An assignment, any other one of the same size, and the brokers of that one."""
    factor = draw(st.integers(1, 3))
    brokers = list(range(draw(st.integers(factor, 6))))
    old = [*brokers, 10, 11]
    keys = [("t", number) for number in range(draw(st.integers(0, 16)))]
    current = {key: tuple(draw(st.permutations(old))[:factor]) for key in keys}
    return current, {key: draw(st.permutations(brokers))[:factor] for key in keys}, brokers


# The gap of broker 9 can be filled only where another replica then has to make room.
BLOCKED = {("t", 0): (1, 9), ("t", 1): (2, 3), ("t", 2): (2, 3)}
SWAPPED = {("t", 0): (1,), ("t", 1): (2,)}


@given(targets())
@example(({}, {}, [1, 2]))
@example((BLOCKED, {**BLOCKED, ("t", 0): (1, 2)}, [1, 2, 3]))
@example((SWAPPED, {("t", 0): (2,), ("t", 1): (1,)}, [1, 2]))
def test_result_is_balanced_with_fewest_moves(assignments):
    current, target, brokers = assignments
    found = with_fewest_moves(current, target, brokers)
    loads = Counter(broker for replicas in found.values() for broker in replicas)
    assert max(loads[b] for b in brokers) - min(loads[b] for b in brokers) <= 1
    for key, replicas in found.items():
        assert len(set(replicas)) == len(replicas) == len(target[key])
        assert set(replicas) <= set(brokers)
    assert moved_replicas(current, found) == fewest_moves(current, brokers)


def test_optimal_assignment_is_unchanged():
    current = {("t", number): (number % 3, (number + 1) % 3) for number in range(7)}
    assert with_fewest_moves(current, current, range(3)) == {
        key: list(replicas) for key, replicas in current.items()
    }
