import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkbroker.errors import ConfigError
from zkbroker.protocol.java_hash import string_hash
from zkbroker.rebalance import range_assign, roundrobin_assign, thread_ids
from zkbroker.rebalance.assignor import find_assignor

topics = st.dictionaries(
    st.text("abcxyz.-_09", min_size=1, max_size=6), st.integers(0, 40), max_size=4
)
consumers = st.dictionaries(
    st.text("gabc_-0123456789", min_size=1, max_size=12),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 12), max_size=4),
    max_size=6,
)


def group(
    partitions: dict[str, int], members: dict[str, dict[str, int]]
) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
    names = sorted(partitions)
    threads: dict[str, list[str]] = {}
    for consumer, taken in members.items():
        for letter, streams in taken.items():
            if names:
                topic = names[ord(letter) % len(names)]
                threads.setdefault(topic, []).extend(thread_ids(consumer, streams))
    return {name: list(range(count)) for name, count in partitions.items()}, threads


@settings(deadline=None, derandomize=True, max_examples=150)
@given(topics, consumers, st.randoms(use_true_random=False))
@pytest.mark.parametrize("assign", [range_assign, roundrobin_assign])
def test_members_agree_on_assignment_in_any_order(assign, partitions, members, random) -> None:
    numbers, threads = group(partitions, members)
    first = assign(numbers, threads)

    def shuffled(values):
        items = list(values)
        random.shuffle(items)
        return items

    seen_otherwise = assign(
        {name: shuffled(numbers[name]) for name in shuffled(numbers)},
        {name: shuffled(threads[name]) for name in shuffled(threads)},
    )
    assert seen_otherwise == first
    assert first.keys() == {
        (name, n) for name in numbers if threads.get(name) for n in numbers[name]
    }
    for (name, _), thread in first.items():
        assert thread in threads[name]


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.integers(0, 60), st.integers(1, 25))
def test_range_assignment_is_documented_formula(partitions: int, threads: int) -> None:
    ids = sorted(f"g_h-{n}-0" for n in range(threads))
    shares = range_assign({"t": range(partitions)}, {"t": ids})
    n, x = partitions // threads, partitions % threads
    for i, thread in enumerate(ids):
        start, count = n * i + min(i, x), n + (1 if i < x else 0)
        owned = [p for p in range(partitions) if shares["t", p] == thread]
        assert owned == list(range(start, start + count))
        assert len(owned) <= math.ceil(partitions / threads)


def test_threads_are_ordered_as_strings_and_partitions_as_numbers() -> None:
    shares = range_assign({"t": [10, 9, 1]}, {"t": thread_ids("c", 11)})
    assert shares == {("t", 1): "c-0", ("t", 9): "c-1", ("t", 10): "c-10"}


def test_range_assignment_of_golden_group() -> None:
    lines = Path("tests/golden/data/znodes/kafka-0.8.2.2.txt").read_text().splitlines()
    ids, owners = [], {}
    for line in lines:
        path, _, data = line[2:].partition("  ->  ")
        if "/golden-group/ids/" in path:
            ids.append(path.rpartition("/")[2])
        elif "/golden-group/owners/g08-multi/" in path:
            owners["g08-multi", int(path.rpartition("/")[2])] = data
    assert len(owners) == 6
    threads = [thread for consumer in ids for thread in thread_ids(consumer, 1)]
    assert range_assign({"g08-multi": range(6)}, {"g08-multi": threads}) == owners


def test_round_robin_skips_threads_without_topic() -> None:
    shares = roundrobin_assign({"a": [0, 1], "b": [0]}, {"a": ["x-0", "y-0"], "b": ["z-0"]})
    assert shares["b", 0] == "z-0"
    assert {shares["a", 0], shares["a", 1]} == {"x-0", "y-0"}
    assert roundrobin_assign({"a": [0]}, {}) == {}


def test_round_robin_orders_partitions_by_java_hash() -> None:
    order = sorted(range(8), key=lambda n: string_hash(f"[topic,{n}]"))
    shares = roundrobin_assign({"topic": range(8)}, {"topic": ["c-1", "c-0", "c-2"]})
    assert [shares["topic", n] for n in order] == [f"c-{i % 3}" for i in range(8)]


def assign_all_to_first(partitions, threads):
    return {
        (topic, number): min(threads[topic])
        for topic, numbers in partitions.items()
        for number in numbers
    }


class CallableAssignor:
    def __call__(self, partitions, threads):
        return assign_all_to_first(partitions, threads)


NOT_CALLABLE = object()


def test_assignor_is_found_by_name_or_import_path():
    assert find_assignor("range") is range_assign
    assert find_assignor("roundrobin") is roundrobin_assign
    for name in ("assign_all_to_first", "CallableAssignor"):
        assign = find_assignor(f"{__name__}:{name}")
        assert assign({"t": [0, 1]}, {"t": ["b-0", "a-0"]}) == {("t", 0): "a-0", ("t", 1): "a-0"}


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("sticky", "range, roundrobin or the import path"),
        ("no.such:thing", "cannot be imported"),
        (f"{__name__}:NOT_CALLABLE", "cannot be called"),
    ],
)
def test_invalid_assignor_is_refused(strategy, message):
    with pytest.raises(ConfigError, match=message):
        find_assignor(strategy)
