"""Seeded schedules of a whole group on a virtual clock; see `tests/support/simulated_group.py`."""

import multiprocessing
import os
from collections.abc import Iterator

import pytest

from tests.support import soak
from tests.support.logged_errors import logged_errors
from tests.support.simulated_group import SimGroup
from zkbroker.rebalance import Rebalancer
from zkbroker.zookeeper import ClaimBlocked, SessionState

DEFAULT_SCHEDULES = 200
FULL_SCHEDULES = 100_000


@pytest.fixture
def errors() -> Iterator[list[str]]:
    with logged_errors("zkbroker.rebalance") as errors:
        yield errors


def run_seeds(seeds: range) -> tuple[list[str], float, int]:
    """Return the problems, the longest time to settle (s), and the most rounds of a consumer."""
    problems: list[str] = []
    longest_s, most_rounds = 0.0, 0
    with logged_errors("zkbroker.rebalance") as errors:
        for seed in seeds:
            group = SimGroup(seed)
            problems += [f"seed {seed}: {problem}" for problem in group.run()]
            longest_s = max(longest_s, group.settle_s)
            most_rounds = max(most_rounds, group.settle_rounds)
    return problems + errors, longest_s, most_rounds


def test_schedules_settle_with_one_owner_per_partition(errors: list[str]) -> None:
    for seed in range(DEFAULT_SCHEDULES):
        assert SimGroup(seed).run() == [], f"seed {seed}"
    assert errors == []


class KeepsPartitionsAfterSessionLoss(Rebalancer):
    def _state_changed(self, state: SessionState) -> None:
        if state is not SessionState.LOST:
            super()._state_changed(state)


class GivesUpWhenBlocked(Rebalancer):
    def _await_owner(self, blocked: ClaimBlocked) -> float:
        return 1e9


class ForgetsUnansweredClaim(Rebalancer):
    def _stop_and_release(self, generation: int) -> None:
        self._held = set(self._owned)
        super()._stop_and_release(generation)


# With the seed that found it last: the search begins there.
@pytest.mark.parametrize(
    ("faulty", "seed"),
    [
        (KeepsPartitionsAfterSessionLoss, 53),
        (GivesUpWhenBlocked, 5),
        (ForgetsUnansweredClaim, 79),
    ],
)
def test_schedules_find_faulty_rebalancer(
    faulty: type[Rebalancer], seed: int, errors: list[str]
) -> None:
    assert any(SimGroup(each, faulty).run() for each in range(seed, seed + 300))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_hundred_thousand_schedules_settle() -> None:
    step = 250
    wanted = soak.seeds(0, FULL_SCHEDULES)
    seeds = [wanted[start : start + step] for start in range(0, len(wanted), step)]
    problems: list[str] = []
    longest_s, most_rounds, done = 0.0, 0, 0
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for found, seconds, rounds in pool.imap_unordered(run_seeds, seeds):
            problems += found
            longest_s, most_rounds = max(longest_s, seconds), max(most_rounds, rounds)
            done += step
            print(
                f"{done} schedules, {len(problems)} problems; settled within {longest_s:.1f} s "
                f"and {most_rounds} rounds after the last fault",
                flush=True,
            )
    assert problems == []
