"""Long loops that let other tasks run, go in parts, or make several steps at a time.

Invariant: between two turns of other tasks a loop makes at most `every` steps, a few milliseconds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from zkbroker.runtime.base import Runtime

Item = TypeVar("Item")


def paced(runtime: Runtime, items: Iterable[Item], every: int = 250) -> Iterator[Item]:
    """Yield the items, and let other tasks run after each `every` of them.

    Args: every is the number of items that take a few milliseconds.
    """
    for count, item in enumerate(items, 1):
        yield item
        if count % every == 0:
            runtime.sleep(0)


def in_parts(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield the items in order, in parts of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def side_by_side(
    runtime: Runtime, items: Sequence[Item], step: Callable[[Item], object], tasks: int, name: str
) -> None:
    """Make a step for every item, several at a time; returns when all are done.

    Args:
        runtime: whose tasks make the steps.
        items: begun in order.
        step: may wait, such as for the disk, and may run several times at once.
        tasks: how many at a time.
        name: of the tasks.

    Raises:
        Exception: the error of the first failed step, once all others are done.
    """
    left, failures = iter(items), list[Exception]()

    def work() -> None:
        for item in left:
            try:
                step(item)
            except Exception as error:  # noqa: BLE001 - raised below by the caller's task
                failures.append(error)

    others = [runtime.spawn(work, name=name) for _ in range(min(tasks, len(items)) - 1)]
    work()
    for task in others:
        task.join()
    if failures:
        raise failures[0]
