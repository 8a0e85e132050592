"""Inventories: the same for the same files, however they were counted."""

from hypothesis import given
from hypothesis import strategies as st

from spark_loader.json_codec import from_json, to_json
from spark_loader.lake.inventory import Inventory

files = st.dictionaries(st.text(max_size=8), st.integers(0, 1 << 40), max_size=20)


@given(files, files)
def test_adding_and_removing_come_out_as_counting_anew(kept, gone):
    gone = {path: size for path, size in gone.items() if path not in kept}
    both = Inventory.of([*gone.items(), *reversed(kept.items())])
    left = both.changed(removed=gone.items())
    assert left == Inventory.of(kept.items())
    assert from_json(Inventory, to_json(left)) == left
    assert (left == both) == (not gone)


def test_a_name_or_a_length_that_differs_is_another_inventory():
    one = Inventory.of([("a", 1), ("b", 2)])
    assert one != Inventory.of([("a", 2), ("b", 1)])
    assert one != Inventory.of([("a", 1), ("c", 2)])
