"""Seeded schedules of a whole group on a virtual clock; see `tests/support/simulated_group.py`."""

import logging
import multiprocessing
import os
from collections.abc import Iterator

import pytest

from tests.support.simulated_group import ErrorsSeen, SimGroup

DEFAULT_SCHEDULES = 600
FULL_SCHEDULES = 100_000


@pytest.fixture
def errors_seen() -> Iterator[ErrorsSeen]:
    seen = ErrorsSeen()
    logger = logging.getLogger("zkbroker.rebalance")
    logger.addHandler(seen)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    yield seen
    logger.removeHandler(seen)
    logger.setLevel(level)
    logger.propagate = propagate


def run_seeds(seeds: range) -> tuple[list[str], float, int]:
    seen = ErrorsSeen()
    logger = logging.getLogger("zkbroker.rebalance")
    logger.handlers = [seen]
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    problems: list[str] = []
    longest_s, most_rounds = 0.0, 0
    for seed in seeds:
        group = SimGroup(seed)
        problems += [f"seed {seed}: {problem}" for problem in group.run()]
        longest_s = max(longest_s, group.settle_s)
        most_rounds = max(most_rounds, group.settle_rounds)
    return problems + seen.texts, longest_s, most_rounds


def test_every_schedule_settles_with_one_owner_for_each_partition(errors_seen: ErrorsSeen) -> None:
    for seed in range(DEFAULT_SCHEDULES):
        assert SimGroup(seed).run() == [], f"seed {seed}"
    assert errors_seen.texts == []


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_schedules_settle() -> None:
    step = 250
    seeds = [range(start, start + step) for start in range(0, FULL_SCHEDULES, step)]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        results = pool.map(run_seeds, seeds, chunksize=1)
    problems = [problem for result in results for problem in result[0]]
    assert problems == []
    longest_s, most_rounds = (max(result[n] for result in results) for n in (1, 2))
    print(f"{FULL_SCHEDULES} schedules, all at rest within {longest_s:.1f} s, {most_rounds} rounds")
