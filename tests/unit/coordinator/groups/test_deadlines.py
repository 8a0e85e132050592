"""Deadlines of many keys in one heap."""

from hypothesis import given
from hypothesis import strategies as st

from zkbroker.coordinator.groups.deadlines import DeadlineHeap


def test_only_earlier_deadline_replaces_known_one():
    heap = DeadlineHeap()
    assert heap.earliest() is None
    assert heap.add("a", 10)
    assert not heap.add("a", 20)
    assert not heap.add("b", 15)
    assert heap.add("b", 5)
    assert heap.earliest() == 5


def test_discarded_key_is_never_due():
    heap = DeadlineHeap()
    heap.add("a", 10)
    heap.discard("a")
    heap.discard("a")
    assert heap.earliest() is None
    assert heap.pop_due(99) == []


def test_due_keys_are_returned_once_in_order():
    heap = DeadlineHeap()
    for key, at in (("c", 30), ("a", 10), ("b", 20)):
        heap.add(key, at)
    heap.add("a", 5)
    assert heap.pop_due(20) == ["a", "b"]
    assert heap.pop_due(20) == []
    assert heap.earliest() == 30


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=30))
def test_heap_matches_plain_dictionary(added):
    heap, model = DeadlineHeap(), {}
    for key, at in added:
        heap.add(key, at)
        model[key] = min(at, model.get(key, at))
        assert heap.earliest() == min(model.values())
    assert set(heap.pop_due(4)) == {key for key, at in model.items() if at <= 4}
