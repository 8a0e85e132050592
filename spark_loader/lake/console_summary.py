"""A lake as the console shows it: runs, positions, gaps and quarantine, as plain data.

Invariant: nothing is written, and the result is bounded: the last `RUNS` runs, the first `GAPS`
    gaps.
"""

import contextlib
import datetime as dt
from typing import Any

from spark_loader.errors import LoadError
from spark_loader.lake.audit import kept_ledgers
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import Entry, Gap, beside
from spark_loader.storage.filesystems import filesystem_for

RUNS = 200
GAPS = 1000


def read_lake(path: str) -> dict[str, Any]:
    """Return the console's data of an output directory; times in ms since 1970.

    Raises:
        LoadError: there is no lake, or it cannot be read.
        OSError: the storage does not answer.
    """
    filesystem = filesystem_for(path)
    checkpoints = Checkpoints(filesystem, path)
    if not filesystem.names(checkpoints.output):
        raise LoadError(f"there is no lake at {checkpoints.output}: correct the directory")
    unfinished = checkpoints.unfinished()
    entries = checkpoints.table.entries() if checkpoints.table.exists() else []
    latest = entries[-1] if entries else None
    runs = [_run(checkpoints, entry) for entry in entries[-RUNS:]]
    if unfinished is not None:
        runs.append(
            {
                "id": unfinished.run,
                "started_ms": _ms(unfinished.created),
                "ended_ms": None,
                "rows": None,
                "bytes": None,
                "files": None,
                "state": "unfinished",
            }
        )
    gaps, _ = kept_ledgers(entries)
    _, quarantined = beside(entries)
    return {
        "path": path,
        "runs": runs[::-1],
        "positions": []
        if latest is None
        else [
            {"topic": source.topic, "partition": str(source.partition), "loaded_to": offset}
            for source, offset in sorted(latest.positions.items())
        ],
        "gaps": [_gap(each) for each in gaps[:GAPS]],
        "quarantine": {"rows": sum(each.rows for each in quarantined), "files": len(quarantined)},
    }


def _run(checkpoints: Checkpoints, entry: Entry) -> dict[str, Any]:
    started = None
    # Only loads have a plan, and old plans may be gone.
    with contextlib.suppress(LoadError, OSError):
        if checkpoints.is_planned(entry.run):
            started = _ms(checkpoints.plan(entry.run).created)
    return {
        "id": entry.run,
        "started_ms": started,
        "ended_ms": _ms(entry.created),
        "rows": entry.rows,
        "bytes": entry.size_bytes,
        "files": len(entry.checksums) + len(entry.files),
        "state": entry.kind,
    }


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "topic": gap.topic,
        "partition": str(gap.partition),
        "from": gap.start,
        "to": gap.until,
        "reason": gap.cause,
    }


def _ms(text: str) -> int | None:
    """Return a time of a checkpoint in ms; None where the text is no time."""
    try:
        return round(dt.datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None
