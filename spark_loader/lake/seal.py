"""Checksums of the files that the library wrote, so that `verify` can detect changes.

    optimize, rewind ─▶ files by the library ─▶ their SHA-256, in a commit of its own

Invariant: a file was whole when it was sealed: its Parquet footer was read and its rows were
counted. Files whose seal a crash prevented are sealed by the next optimize or rewind; until then
`verify` reads them too, and reports how many there are.
"""

from spark_loader.errors import CheckpointError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import Entry, now_text
from spark_loader.sink.data_formats import format_of
from spark_loader.storage.files import join, sha256_of


def seal(checkpoints: Checkpoints) -> int:
    """Seal every file of the table that has no seal yet; return how many.

    Raises:
        CheckpointError: the number of rows in a file differs from the table's.
    """
    table = checkpoints.table
    known = table.checksums()
    found: dict[str, str] = {}
    for file in table.files():
        if file.path in known:
            continue
        with checkpoints.filesystem.opened(join(table.output, file.path)) as local:
            rows = format_of(file.path).count_rows(local)
            if rows != file.rows:
                raise CheckpointError(f"{file.path} holds {rows} rows, the table says {file.rows}")
            found[file.path] = sha256_of(local)
    if found:
        table.commit(Entry(run=0, kind="seal", created=now_text(), checksums=found))
    return len(found)
