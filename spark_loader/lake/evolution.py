"""Columns of a table from load to load: new ones may be added, and each keeps its type.

Invariant: published columns fit the table. A load whose columns do not is refused before it reads
    anything; a column that a file lacks reads as null.
"""

import pyarrow as pa

from spark_loader.columns.spec import ValueColumns, require_same_types
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.table_files import schema_from_texts


def require_fitting(checkpoints: Checkpoints, columns: ValueColumns | None) -> None:
    """Check that columns fit those of the table, and those that unfinished runs have written.

    Raises:
        ConfigError: one of them had another type.
        LoadError: existing files have columns that do not fit each other.
    """
    if columns is None:
        return
    checkpoints.table.format.check(pa.schema(columns.fields))
    table = checkpoints.table.newest()
    unfinished = schema_from_texts(
        done.schema for plan in checkpoints.open_plans() for done in checkpoints.done_so_far(plan)
    )
    for known in (None if table is None else table.schema(), unfinished):
        if known is not None:
            require_same_types(known, columns)
