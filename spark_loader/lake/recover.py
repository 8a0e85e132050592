"""Recovery from an operation that was interrupted.

Invariant: after `recover` no run that counts has staged files, no withdrawn file lies beside the
    table, and no replay is half published. It can be repeated. Parquet files that no commit names
    are left to `vacuum`: readers do not see them.
"""

from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import Entry, MapperOffsets, beside, now_text, total_bytes
from spark_loader.lake.rows import take_back
from spark_loader.lake.table_files import schema_from_texts
from spark_loader.storage.files import join

# Older runs have nothing left: each load recovers the last ones.
_LOOKED_AT = 4


def recover(checkpoints: Checkpoints) -> None:
    """Bring the directory into the state that its last entry describes."""
    replayed = unfinished_replay(checkpoints)
    if replayed is not None:
        publish_replay(checkpoints, replayed)
    latest = checkpoints.table.latest()
    if latest is None:
        return
    checkpoints.table.format.settle()
    if latest.kind == "rewind":
        # A rewind with lost files commits its entry before it removes the rows.
        take_back(checkpoints.table, latest)
    for path in latest.withdrawn:
        checkpoints.filesystem.delete(join(checkpoints.output, path))
    # Every mapper of a published run has its offsets, so no attempt still under way can count.
    for run in checkpoints.run_numbers()[-_LOOKED_AT:]:
        if latest.counts(run):
            checkpoints.clear_staging(run)


def unfinished_replay(checkpoints: Checkpoints) -> MapperOffsets | None:
    """Return the offsets of a replay that was stopped before it counted, if there is one.

    A replay has offsets like a mapper, but no plan: its records are in quarantine already.
    """
    latest = checkpoints.table.latest()
    for run in checkpoints.run_numbers():
        if (latest is not None and latest.counts(run)) or checkpoints.is_planned(run):
            continue
        found = checkpoints.mapper_offsets(run, 0)
        # Offsets with ranges are those of a late attempt of a mapper, of a run that was given up.
        if found is not None and not found.ranges:
            return found
    return None


def publish_replay(checkpoints: Checkpoints, done: MapperOffsets) -> Entry:
    """Give a replay's files beside the table their names and commit it."""
    checkpoints.unstage([*done.files, *done.quarantined])
    entries = checkpoints.table.entries()
    _, quarantined = beside(entries)
    left = sum(each.rows for each in done.quarantined)
    entry = Entry(
        run=done.run,
        created=now_text(),
        kind="replay",
        checksums={each.path: each.sha256 for each in done.tabled},
        files=done.files,
        quarantined=done.quarantined,
        withdrawn=tuple(each.path for each in quarantined),
        rows=done.rows,
        size_bytes=total_bytes(done.tabled, done.files),
        positions=entries[-1].positions,
        topics_created_ms=entries[-1].topics_created_ms,
        group=entries[-1].group,
        note=f"{done.rows} records out of quarantine, {left} still in it",
    )
    checkpoints.table.commit(entry, done.tabled, schema_from_texts([done.schema]))
    return entry
