"""The distribution of tests to the workers of pytest-xdist.

Invariants: the tests of a file run on one worker, so that what they share is started once; so do
all files that share a Spark session, the most expensive of all. The longest tests begin first, so
that no worker ends long after the others: Spark, then the folders in the order of their names, of
which the unit tests, thousands of short ones, are last.
"""

import math
import os
from pathlib import Path, PurePosixPath

import pytest
from xdist.scheduler import LoadFileScheduling

from zkbroker.zookeeper import embedded

_WORKERS_PER_CORE = 3
"""Most of the time a test waits for other processes."""
_MOST_WORKERS = 16


def worker_count() -> int:
    """Return how many tests run at once, by the cores that this process may use."""
    cores = float(len(os.sched_getaffinity(0)))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, int(quota) / int(period))
    except (OSError, ValueError):
        pass  # no group, or one without a bound
    return max(1, min(_MOST_WORKERS, math.ceil(_WORKERS_PER_CORE * cores)))


def take_own_ports(worker: str | None) -> None:
    """Give a worker, such as `gw3`, ports that no other worker hands out."""
    if worker is None:
        return
    number = int(worker.removeprefix("gw")) % _MOST_WORKERS
    every = embedded._SERVER_PORTS
    share = len(every) // _MOST_WORKERS
    embedded._SERVER_PORTS = every[number * share : (number + 1) * share]
    embedded._MOST_GIVEN = share * 4 // 5


def own_place_first(found: list[pytest.Item | pytest.Collector], worker: str, count: int) -> None:
    """Rotate the contents of a folder, so that workers begin to collect at different files.

    Together they would compile the same file, which takes much longer than to read what another
    worker has compiled.
    """
    start = len(found) * int(worker.removeprefix("gw")) // count
    found[:] = found[start:] + found[:start]


def longest_first(items: list[pytest.Item]) -> None:
    """Sort the tests in place, independently of the order of files; those of a file keep theirs."""
    items.sort(key=lambda item: (item.get_closest_marker("spark") is None, item.path.parts))


# Files of the shared Spark session besides those named test_spark_*.
_WITH_SPARK = {"test_console_loads.py", "test_hadoop.py", "test_lake_readers.py"}


class OneSparkWorker(LoadFileScheduling):
    """`--dist loadfile`, and one worker for all files of the shared Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        name = PurePosixPath(file).name
        return "spark" if name.startswith("test_spark_") or name in _WITH_SPARK else file
