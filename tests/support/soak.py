"""How long the long runs are, so that one that failed can be run again in minutes.

`ZKBROKER_SOAK_SHARE=0.1` makes a tenth of each run: its first rounds, under the same seeds.
`ZKBROKER_SOAK_SEED=1000` adds 1000 to the seeds, for schedules that were not run before.
"""

import os

SHARE = float(os.environ.get("ZKBROKER_SOAK_SHARE", "1"))
SEED = int(os.environ.get("ZKBROKER_SOAK_SEED", "0"))


def part_of(count: int) -> int:
    """Return how many of `count` rounds to run: one at least."""
    return max(1, round(count * SHARE))


def seeds(first: int, count: int) -> range:
    """Return the seeds of a run that has `count` of them, from `first` on."""
    return range(first + SEED, first + SEED + part_of(count))
