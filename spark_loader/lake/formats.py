"""Which table format an output directory has.

    _delta_log/                    Delta
    metadata/v….metadata.json      Iceberg
    neither                        the requested one, Delta by default

Invariant: the format of a directory never changes.
"""

from collections.abc import Callable

from spark_loader.errors import LoadError
from spark_loader.lake.delta import DeltaTable
from spark_loader.lake.table_files import metadata_version
from spark_loader.lake.table_format import TableFormat
from spark_loader.storage.files import LakeFileSystem, join
from spark_loader.storage.table_log import LOG

DELTA, ICEBERG = "delta", "iceberg"


def open_table(filesystem: LakeFileSystem, output: str, kind: str = "") -> TableFormat:
    """Return the table of a directory, whether it exists yet or not.

    Args:
        filesystem: where it lies.
        output: the directory.
        kind: the format that it has to be of; empty for any.

    Raises:
        LoadError: it is of another one, or the format's library is missing.
    """
    there = ""
    if filesystem.names(join(output, LOG)):
        there = DELTA
    elif any(map(metadata_version, filesystem.names(join(output, "metadata")))):
        there = ICEBERG
    if there and kind and there != kind:
        raise LoadError(
            f"{output} is a table of format {there}, not {kind}: leave --table, or load into "
            "another directory"
        )
    return _OPENERS[there or kind or DELTA](filesystem, output)


def _iceberg(filesystem: LakeFileSystem, output: str) -> TableFormat:
    try:
        from spark_loader.lake.iceberg import IcebergTable
    except ModuleNotFoundError as error:
        raise LoadError(
            f"an Iceberg table is written by a library ({error}): pip install 'zkbroker[iceberg]'"
        ) from None
    return IcebergTable(filesystem, output)


_OPENERS: dict[str, Callable[[LakeFileSystem, str], TableFormat]] = {
    DELTA: DeltaTable,
    ICEBERG: _iceberg,
}
TABLE_FORMATS = tuple(_OPENERS)
