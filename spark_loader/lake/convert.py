"""Converts a lake of a release that had manifests and no table. No data file is copied or read.

    _zkbroker/manifests/000012.json ─▶ a commit of the table: run 12 and the files that still count

Invariant: after it `verify` holds as it did before, with the same runs, positions, gaps and
checksums. A conversion that was stopped goes on after the last run in the table. The manifests stay
where they are, and are not read again.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_loader.errors import CheckpointError, LoadError
from spark_loader.json_codec import from_json
from spark_loader.lake.adopt import table_file, unified
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import Entry, TableFile, beside
from spark_loader.sink.data_formats import in_table
from spark_loader.storage.files import FileStatus, join


@dataclass(slots=True)
class ConversionCounts:
    """Counts of a conversion: runs, and files that the table names now."""

    runs: int = 0
    files: int = 0


def convert(checkpoints: Checkpoints) -> ConversionCounts:
    """Make a table from manifests.

    Raises:
        LoadError: there are no manifests, or a data file is missing or of another length.
        CheckpointError: a manifest cannot be read.
    """
    numbers = _numbers(checkpoints)
    if not numbers:
        raise LoadError(f"{checkpoints.output} has no manifests: there is nothing to convert")
    latest = _manifest(checkpoints, numbers[-1])
    manifests = [_manifest(checkpoints, number) for number in numbers if number >= latest.beginning]
    data, _ = beside(manifests)
    live = {each.path for each in data}
    counted = checkpoints.counted()
    done = ConversionCounts()
    for manifest in manifests:
        if manifest.run > counted:
            entry, files, schema = _commit_of(checkpoints, manifest, live)
            checkpoints.table.commit(entry, files, schema)
            done.runs += 1
            done.files += len(files)
    _give_up_attempts(checkpoints)
    return done


def _commit_of(
    checkpoints: Checkpoints, manifest: Entry, live: set[str]
) -> tuple[Entry, list[TableFile], pa.Schema | None]:
    """Return a manifest as a commit: its Parquet files that still count become the table's."""
    files: list[TableFile] = []
    schema: pa.Schema | None = None
    for each in manifest.files:
        if not in_table(each.path) or each.path not in live:
            continue
        path = join(checkpoints.output, each.path)
        if checkpoints.filesystem.size(path) != each.size_bytes:
            raise LoadError(
                f"{each.path} is missing or its length has changed: put it back, or give "
                f"it up with the release that loaded it: zkbroker-load adopt"
            )
        with checkpoints.filesystem.opened(path) as local:
            footer = pq.read_metadata(local)
            schema = unified(schema, pq.read_schema(local))
        files.append(table_file(FileStatus(each.path, each.size_bytes), footer, each.sha256))
    others = tuple(each for each in manifest.files if not in_table(each.path))
    entry = replace(
        manifest,
        checksums={each.path: each.sha256 for each in files},
        files=others,
        size_bytes=sum(each.size_bytes for each in manifest.files),
    )
    return entry, files, schema


def _give_up_attempts(checkpoints: Checkpoints) -> None:
    """Let the mappers of a stopped run begin again: its plan and ranges stay."""
    plan = checkpoints.unfinished()
    if plan is None:
        return
    for mapper in range(len(plan.mappers)):
        path = checkpoints.offsets_path(plan.run, mapper)
        if checkpoints.filesystem.size(path) is None:
            continue
        found = json.loads(checkpoints.filesystem.read(path))
        for each in [*found.get("files", ()), *found.get("quarantined", ())]:
            for name in ("staged", "path"):
                checkpoints.filesystem.delete(join(checkpoints.output, each[name]))
        checkpoints.forget_mapper(plan.run, mapper)


def _numbers(checkpoints: Checkpoints) -> list[int]:
    names = checkpoints.filesystem.names(checkpoints.path("manifests"))
    return [int(name[:-5]) for name in names if name.endswith(".json") and name[0] != "."]


def _manifest(checkpoints: Checkpoints, run: int) -> Entry:
    path = checkpoints.path("manifests", f"{run:06d}.json")
    try:
        found: Any = json.loads(checkpoints.filesystem.read(path))
        if not isinstance(found, dict) or found.get("format") != "zkbroker-load-manifest":
            raise ValueError("it is not a manifest")
        if found.get("checksum", _checksum(found)) != _checksum(found):
            raise ValueError("it was altered: its checksum does not match")
        return from_json(Entry, found)
    except ValueError as error:
        raise CheckpointError(f"{path} cannot be read ({error}): put it back") from None


def _checksum(document: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest without its checksum; the first releases wrote none."""
    content = {name: value for name, value in document.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
