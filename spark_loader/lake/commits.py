"""The commits of a Delta table under their versions, while writers add more.

Invariant: a commit comes with the version that it made. The library reads commits from the log as
it is at that moment and counts down from the version that the table was opened at; a commit that
was added between the two would shift every number.
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
