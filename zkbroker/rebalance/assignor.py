"""The assignment of partitions to the threads of a group; pure functions.

    range        for each topic by itself: P partitions in numeric order, the C threads that take
                 the topic in string order, n = P // C, x = P % C; thread i takes
                 n + (1 if i < x else 0) partitions from n * i + min(i, x) on
    round robin  the partitions of all topics, in the order of the Java hash code of
                 "[topic,partition]", dealt to all threads in string order in a circle, past the
                 threads that do not take the topic

Invariant: the result depends only on the sets of partitions and threads, so that any two members
that see the same group agree; JVM consumers of 0.8 to 2.x compute the same one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from zkbroker.config.import_path import import_instance, is_import_path
from zkbroker.errors import ConfigError
from zkbroker.protocol.java_hash import string_hash
from zkbroker.types import PartitionKey

Shares = dict[PartitionKey, str]
_Order = Callable[[int], int | str]
Assignor = Callable[[Mapping[str, Iterable[int]], Mapping[str, Iterable[str]]], Shares]


def range_assign(
    partitions: Mapping[str, Iterable[int]],
    threads: Mapping[str, Iterable[str]],
    *,
    order: _Order = int,
) -> Shares:
    """Assign each topic's partitions in ranges.

    Args:
        partitions: topic → its partitions.
        threads: topic → ids of the threads that take it.
        order: the sort key of partitions.

    Returns:
        partition → thread id; a topic without a member is left out.
    """
    shares: Shares = {}
    for topic, numbers in partitions.items():
        ordered = sorted(numbers, key=order)
        takers = sorted(set(threads.get(topic, ())))
        if not takers:
            continue
        count, extra = divmod(len(ordered), len(takers))
        for index, thread in enumerate(takers):
            start = count * index + min(index, extra)
            for number in ordered[start : start + count + (1 if index < extra else 0)]:
                shares[topic, number] = thread
    return shares


def roundrobin_assign(
    partitions: Mapping[str, Iterable[int]], threads: Mapping[str, Iterable[str]]
) -> Shares:
    """Assign all partitions in turn.

    Arguments and result as of `range_assign`. Members before 0.10.2 refuse to take part unless
    all subscribe alike.
    """
    takers = {topic: frozenset(ids) for topic, ids in threads.items()}
    circle = sorted(frozenset().union(*takers.values()))
    everything = sorted(
        ((topic, number) for topic, numbers in partitions.items() for number in numbers),
        key=lambda item: (string_hash(f"[{item[0]},{item[1]}]"), item),
    )
    shares: Shares = {}
    position = 0
    for topic, number in everything:
        wanted = takers.get(topic)
        if not wanted:
            continue
        while circle[position % len(circle)] not in wanted:
            position += 1
        shares[topic, number] = circle[position % len(circle)]
        position += 1
    return shares


ASSIGNORS: Mapping[str, Assignor] = {"range": range_assign, "roundrobin": roundrobin_assign}
"""Value of `partition.assignment.strategy` → assignor."""

_KEY = "partition.assignment.strategy"


def find_assignor(strategy: str) -> Assignor:
    """Return the assignor that a setting names.

    Args:
        strategy: `range`, `roundrobin`, or the import path of a function, or of a class with
            callable objects. Each member computes the assignment by itself, so the result must
            depend only on the arguments.

    Raises:
        ConfigError: there is none of that name, or it cannot be called.
    """
    if strategy in ASSIGNORS:
        return ASSIGNORS[strategy]
    if not is_import_path(strategy):
        raise ConfigError(
            f"{_KEY}={strategy!r} is not allowed: give {', '.join(ASSIGNORS)} or the import path "
            "of a function (package.module:name)"
        )
    found: Assignor = import_instance(_KEY, strategy)
    if not callable(found):
        raise ConfigError(f"{_KEY}={strategy!r} is not allowed: it cannot be called")
    return found


def thread_ids(consumer_id: str, streams: int) -> Sequence[str]:
    """Return the ids of a consumer's threads for one topic."""
    return [f"{consumer_id}-{number}" for number in range(streams)]
