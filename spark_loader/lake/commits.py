"""The commits of a Delta table with their versions, while writers add more.

Invariant: each commit has the version that it made. The library reads the present log and counts
    down from the version at which the table was opened; a commit added in between would shift every
    number.
"""

from collections.abc import Callable, Mapping
from typing import Any

from spark_loader.errors import CheckpointError

_TRIES = 20


def numbered_commits(newest: Callable[[], Any]) -> list[Mapping[str, Any]]:
    """Return every commit, the newest first.

    Args:
        newest: returns the library's table as it is now, None when there is none.

    Raises:
        CheckpointError: commits come faster than they can be read.
    """
    table = newest()
    for _ in range(_TRIES):
        if table is None:
            return []
        version = table.version()
        found: list[Mapping[str, Any]] = table.history()
        table = newest()
        if table is not None and table.version() == version:
            return found
    raise CheckpointError("commits are added faster than they can be read: try again later")
