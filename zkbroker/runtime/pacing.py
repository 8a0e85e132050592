"""Long loops that let other tasks run, or go part by part, or whose steps wait for the disk.

Invariant: between two turns of the others a loop does at most `every` steps, a few milliseconds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from zkbroker.runtime.base import Runtime

Item = TypeVar("Item")


def paced(runtime: Runtime, items: Iterable[Item], every: int = 250) -> Iterator[Item]:
    """Yield the items, and let other tasks run after every so many of them.

    Args:
        runtime: whose tasks wait.
        items: what to go through.
        every: how many items are a few milliseconds of work.
    """
    for count, item in enumerate(items, 1):
        yield item
        if count % every == 0:
            runtime.sleep(0)


def in_parts(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield the items in their order, so many at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def side_by_side(
    runtime: Runtime, items: Sequence[Item], step: Callable[[Item], object], tasks: int, name: str
) -> None:
    """Do a step for every item, several at a time; returns when all are done.

    Args:
        runtime: whose tasks do them.
        items: begun in their order.
        step: it waits, for the disk for instance, and may run beside itself.
        tasks: how many at a time.
        name: of the tasks.

    Raises:
        Exception: what the first step that failed raised, once the others are done.
    """
    left, failures = iter(items), list[Exception]()

    def work() -> None:
        for item in left:
            try:
                step(item)
            except Exception as error:  # noqa: BLE001 - raised by who asked
                failures.append(error)

    others = [runtime.spawn(work, name=name) for _ in range(min(tasks, len(items)) - 1)]
    work()
    for task in others:
        task.join()
    if failures:
        raise failures[0]
