from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.registry.assignment import alternate_racks, assign_replicas


def unaware(count):
    return dict.fromkeys(range(count))


def test_first_replicas_rotate_from_start_broker():
    assigned = assign_replicas(unaware(3), 5, start_broker=1)
    assert assigned == {0: [1], 1: [2], 2: [0], 3: [1], 4: [2]}


def test_further_replicas_are_shifted_by_increasing_step():
    # The example of Kafka's documentation: five brokers, ten partitions.
    assigned = assign_replicas(unaware(5), 10, 3, start_broker=0)
    assert [assigned[p] for p in range(5)] == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 0],
        [4, 0, 1],
    ]
    assert [assigned[p] for p in range(5, 10)] == [
        *([0, 2, 3], [1, 3, 4], [2, 4, 0], [3, 0, 1], [4, 1, 2])
    ]


def test_growing_topic_continues_its_assignment():
    whole = assign_replicas(unaware(3), 7, start_broker=2)
    grown = assign_replicas(unaware(3), 4, start_broker=2, first_partition=3)
    assert grown == {p: whole[p] for p in range(3, 7)}


def test_missing_start_broker_is_replaced_by_next():
    assert assign_replicas({1: None, 5: None}, 1, start_broker=3) == {0: [5]}
    assert assign_replicas({1: None, 5: None}, 1, start_broker=9) == {0: [1]}


def test_rack_aware_growth_starts_at_index_of_first_broker():
    # Genuine brokers take the index of the broker among the ids and count from it in rack order.
    assert alternate_racks({0: "a", 1: "a", 2: "b"}) == [0, 2, 1]
    assert assign_replicas({0: "a", 1: "a", 2: "b"}, 1, start_broker=2) == {0: [1]}


def test_partition_uses_every_rack_before_one_twice():
    # Computed by hand from the rule of Kafka 2.x: order 0 3 5 1 4 2, three racks, start 0.
    racks = {0: "a", 1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    assert alternate_racks(racks) == [0, 3, 5, 1, 4, 2]
    assigned = assign_replicas(racks, 7, 3, start_broker=0)
    assert {len({racks[broker] for broker in each}) for each in assigned.values()} == {3}
    assert assigned == {
        0: [0, 3, 5],
        1: [3, 5, 1],
        2: [5, 1, 4],
        3: [1, 4, 5],
        4: [4, 2, 5],
        5: [2, 3, 5],
        6: [0, 4, 5],
    }


def test_racks_alternate():
    assert alternate_racks({0: "a", 1: "b", 2: "c", 3: "a", 4: "b"}) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("racks", [{0: "a", 1: None, 2: "b"}, {0: None, 1: None, 2: None}])
def test_incomplete_racks_are_ignored(racks):
    assert assign_replicas(racks, 3, start_broker=0) == {0: [0], 1: [1], 2: [2]}


def test_racks_can_be_ignored():
    racks = {0: "a", 1: "a", 2: "b"}
    assert assign_replicas(racks, 3, start_broker=0, rack_aware=False) == {0: [0], 1: [1], 2: [2]}


@pytest.mark.parametrize(("brokers", "factor"), [(0, 1), (2, 3)])
def test_replication_factor_above_broker_count_is_refused(brokers, factor):
    with pytest.raises(ProtocolError) as caught:
        assign_replicas(unaware(brokers), 1, factor)
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@given(
    st.dictionaries(st.integers(0, 50), st.sampled_from(["a", "b", "c"]), min_size=1, max_size=9),
    st.integers(1, 40),
    st.integers(1, 4),
    st.booleans(),
)
def test_replicas_differ_and_leaders_are_balanced(racks, partitions, factor, rack_aware):
    factor = min(factor, len(racks))
    assigned = assign_replicas(racks, partitions, factor, rack_aware=rack_aware)
    assert list(assigned) == list(range(partitions))
    assert all(len(set(replicas)) == factor for replicas in assigned.values())
    leaders = Counter(replicas[0] for replicas in assigned.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in racks) <= 1
