"""How the tests are shared out among the workers of pytest-xdist.

Invariants: the tests of a file run on one worker, for what they share is started once; so do all
files that share a Spark session, the dearest of all. What takes longest begins first, so that no
worker ends long after the others: Spark, then the folders in the order of their names, among which
the unit tests, thousands of short ones, are last.
"""

from pathlib import PurePosixPath

import pytest
from xdist.scheduler import LoadFileScheduling


def longest_first(items: list[pytest.Item]) -> None:
    """Sort the tests in place; those of a file keep their order."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


# Files of the shared Spark session besides those named test_spark_*.
_WITH_SPARK = {"test_console_loads.py", "test_hadoop.py", "test_lake_readers.py"}


class OneSparkWorker(LoadFileScheduling):
    """`--dist loadfile`, and one worker for all files of the shared Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        name = PurePosixPath(file).name
        return "spark" if name.startswith("test_spark_") or name in _WITH_SPARK else file
