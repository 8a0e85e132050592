"""The lock of an output directory, and recovery from an operation that was interrupted.

Invariant: after `recover` the directory holds no file that a manifest withdrew, no file of a failed
attempt of a published run, and no replay that is half published. Repeatable.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from spark_loader.errors import LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import Manifest, MapperOffsets, live, now_text
from spark_loader.storage.files import LakeFileSystem, LockedError, join


@contextmanager
def locked(checkpoints: Checkpoints, filesystem: LakeFileSystem) -> Iterator[None]:
    """Keep every other load and operator out of the directory; raise LoadError when one is in."""
    owner = f"{socket.gethostname()} process {os.getpid()} since {now_text()}"
    try:
        with filesystem.lock(checkpoints.path("lock"), owner):
            yield
    except LockedError as error:
        raise LoadError(f"a load into this output is running: {error}") from None


def recover(checkpoints: Checkpoints, filesystem: LakeFileSystem) -> None:
    """Bring the directory into the state that its last manifest describes."""
    replayed = unfinished_replay(checkpoints)
    if replayed is not None:
        publish_replay(checkpoints, filesystem, replayed)
    latest = checkpoints.latest()
    if latest is None:
        return
    for path in latest.withdrawn:
        filesystem.delete(join(checkpoints.output, path))
    # Every mapper of a published run has its offsets, so no attempt still under way can count.
    for name in checkpoints.staged_names(latest.run):
        staging = checkpoints.staging(latest.run)
        filesystem.delete(join(checkpoints.output, staging, name))


def unfinished_replay(checkpoints: Checkpoints) -> MapperOffsets | None:
    """Return what a replay wrote that was stopped before it counted, if there is one.

    A replay has offsets like a mapper, but no plan: what it covers is in quarantine already.
    """
    counted = max([0, *checkpoints.manifest_numbers()])
    for run in checkpoints.run_numbers():
        if run <= counted or checkpoints.is_planned(run):
            continue
        found = checkpoints.mapper_offsets(run, 0)
        if found is not None:
            return found
    return None


def publish_replay(
    checkpoints: Checkpoints, filesystem: LakeFileSystem, done: MapperOffsets
) -> Manifest:
    """Give a replay's files their names and write its manifest."""
    for each in [*done.files, *done.quarantined]:
        filesystem.rename(
            join(checkpoints.output, each.staged), join(checkpoints.output, each.path)
        )
    latest = checkpoints.latest()
    assert latest is not None
    _, quarantined = live(checkpoints.manifests())
    left = sum(each.rows for each in done.quarantined)
    manifest = Manifest(
        run=done.run,
        created=now_text(),
        kind="replay",
        files=done.files,
        quarantined=done.quarantined,
        withdrawn=tuple(each.path for each in quarantined),
        rows=done.rows,
        positions=latest.positions,
        topics_created_ms=latest.topics_created_ms,
        group=latest.group,
        note=f"{done.rows} records out of quarantine, {left} still in it",
    )
    checkpoints.write_manifest(manifest)
    return manifest
