"""The length and the seeds of soak tests, so that a failed one can be repeated in minutes.

`ZKBROKER_SOAK_SHARE=0.1` runs the first tenth of each test, under the same seeds.
`ZKBROKER_SOAK_SEED=1000` adds 1000 to the seeds, for new schedules; Hypothesis draws new examples.
"""

import os

SHARE = float(os.environ.get("ZKBROKER_SOAK_SHARE", "1"))
SEED = int(os.environ.get("ZKBROKER_SOAK_SEED", "0"))


def part_of(count: int) -> int:
    """Return how many of `count` rounds to run, at least one."""
    return max(1, round(count * SHARE))


def seeds(first: int, count: int) -> range:
    """Return the seeds of a test that has `count` of them, from `first` on."""
    return range(first + SEED, first + SEED + part_of(count))
