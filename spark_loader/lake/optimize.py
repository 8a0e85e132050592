"""Merges small files of an hour into few, and removes files that no longer count.

    optimize   the library's compaction: files out and files in, one commit; then their checksums
    vacuum     the library lists the files that no kept version needs, and they are deleted

Invariants. Readers see the rows of an hour once, in the old files or in the new ones; a crash
leaves files that no commit names, and the next optimize does the rest. An hour that loads may still
add to is left alone. `vacuum` keeps the files of every version of the last `retention_hours`, those
of a load that is under way, and whatever else lies in the directory, such as another lake.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_loader.errors import LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.contents import made_by_loads
from spark_loader.lake.ledger import beside
from spark_loader.lake.locks import alone, optimizing
from spark_loader.lake.operate import require_loaded
from spark_loader.lake.seal import seal
from spark_loader.lake.table_files import LiveFile, partition_values
from spark_loader.lake.table_format import Hours
from spark_loader.plurals import counted
from spark_loader.sink.event_time import zone_of
from spark_loader.storage.files import join

DEFAULT_HOURS = 24.0
DEFAULT_TARGET = 128 * 1024 * 1024
SAFE_RETENTION_HOURS = 168
_DELETES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Optimized:
    """Counts of an optimize: the table's files before and after, and those it replaced."""

    before: int
    after: int
    removed: int
    added: int


def optimize(
    checkpoints: Checkpoints,
    *,
    older_than_hours: float = DEFAULT_HOURS,
    target_bytes: int = DEFAULT_TARGET,
    now: datetime | None = None,
) -> Optimized:
    """Merge small files of each hour that ended long enough ago.

    Args:
        checkpoints: of the output directory.
        older_than_hours: how long ago an hour must have ended, in the time zones of the loads.
        target_bytes: about the size of files; larger ones stay as they are.
        now: the time; that of the clock by default.

    Raises:
        LoadError: nothing was loaded there, or another optimize is running.
        CheckpointError: a rewind changed the same files meanwhile; run it again.
    """
    require_loaded(checkpoints)
    table = checkpoints.table
    with optimizing(checkpoints):
        before = table.files()
        latest = table.latest()
        zones = latest.zones if latest is not None else ()
        end = (now or datetime.now(UTC)) - timedelta(hours=older_than_hours)
        hours = _ended_by(end, zones)
        small = _worth_merging(before, hours, target_bytes)
        if small:
            table.compact(hours, target_bytes, small)
        seal(checkpoints)
        after = table.files()
    kept = {each.path for each in after} & {each.path for each in before}
    return Optimized(len(before), len(after), len(before) - len(kept), len(after) - len(kept))


def _ended_by(end: datetime, zones: Iterable[str]) -> Hours:
    """Return the hours that had ended by a time in every one of the time zones."""
    last = min(end.astimezone(zone_of(name)).replace(tzinfo=None) for name in {*zones} or {"UTC"})
    return Hours(f"{last:%Y-%m-%d}", last.hour)


def _worth_merging(files: Sequence[LiveFile], hours: Hours, target_bytes: int) -> list[LiveFile]:
    """Return the small files of hours that have several."""
    by_hour: dict[tuple[str, str, str], list[LiveFile]] = {}
    for file in files:
        values = partition_values(file.path)
        if file.size_bytes < target_bytes and hours.holds(values["date"], int(values["hour"])):
            place = (values["topic"], values["date"], values["hour"])
            by_hour.setdefault(place, []).append(file)
    return [each for found in by_hour.values() if len(found) > 1 for each in found]


def vacuum(
    checkpoints: Checkpoints,
    *,
    retention_hours: int = SAFE_RETENTION_HOURS,
    allow_short: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Delete the files that no sufficiently recent version of the table needs.

    Args:
        checkpoints: of the output directory.
        retention_hours: how long a file is kept after it was replaced or left behind.
        allow_short: whether that may be less than a week; readers and loads that began earlier
            than that may then fail or have to be repeated.
        dry_run: whether nothing is deleted.

    Returns:
        the paths of these files, relative to the output directory.

    Raises:
        LoadError: the retention is too short, a load is running and the retention is less than a
            week, or the file system is one that the library cannot list.
    """
    if retention_hours < SAFE_RETENTION_HOURS and not allow_short:
        raise LoadError(
            f"a retention of {counted(retention_hours, 'hour')} is less than "
            f"{SAFE_RETENTION_HOURS}: readers that began earlier may need the deleted files. Give "
            "--allow-short-retention when there are none"
        )
    require_loaded(checkpoints)
    table = checkpoints.table
    with ExitStack() as stack:
        if retention_hours < SAFE_RETENTION_HOURS:
            # Files of unfinished mappers are younger than a safe retention.
            stack.enter_context(alone(checkpoints))
        stack.enter_context(optimizing(checkpoints))
        # Before the entries: a run that is published in between is then among both.
        under_way = checkpoints.under_way()
        data, _ = beside(table.entries())
        kept = {each.path for each in data} | under_way
        found = table.format.unneeded(retention_hours)
        known = table.checksums()
        doomed = sorted(
            path for path in found if path not in kept and (path in known or _of_topic(path))
        )
        if not dry_run:
            paths = [join(checkpoints.output, path) for path in doomed]
            with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
                list(pool.map(checkpoints.filesystem.delete, paths))
    return doomed


def _of_topic(path: str) -> bool:
    """Return whether a file that no commit names may be one that a crash left behind."""
    return path.startswith("topic=") and made_by_loads(path)
