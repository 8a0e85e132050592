"""Opens the output directory of a command and, where one is named, the cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from spark_loader.cli.options import spark_settings, storage_settings
from spark_loader.errors import LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.reading.access import Access, NetworkAccess
from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.generations import check_connect, generation_of
from spark_loader.reading.resolve import SourceCluster
from spark_loader.storage.filesystems import filesystem_for
from zkbroker.cli.security import current_security

ACCESS: Access = NetworkAccess()

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def opened(output: str, given: dict[str, Any]) -> Checkpoints:
    """Return the checkpoints of an output directory."""
    prefix = "spark.hadoop."
    settings = {
        key.removeprefix(prefix): value
        for key, value in spark_settings(given).items()
        if key.startswith(prefix)
    }
    filesystem = filesystem_for(output, settings=settings, storage=storage_settings(given))
    return Checkpoints(filesystem, output)


def opened_lake(output: str, given: dict[str, Any]) -> Checkpoints:
    """Return the same for a directory that must exist, so that a misspelt name makes no new lake.

    Raises:
        LoadError: nothing is there.
    """
    checkpoints = opened(output, given)
    if not checkpoints.filesystem.names(checkpoints.output):
        raise LoadError(f"there is no lake at {checkpoints.output}: correct the directory")
    return checkpoints


@contextmanager
def cluster_view(
    zookeeper: str | None, bootstrap: str | None, generation: str, *, read_committed: bool = False
) -> Iterator[SourceCluster | None]:
    """Give a view of the named cluster, or None when none is named."""
    if not zookeeper and not bootstrap:
        yield None
        return
    addresses = tuple(part.strip() for part in (bootstrap or "").split(",") if part.strip())
    connect = ConnectOptions(
        generation=generation,
        zookeeper=zookeeper or None,
        bootstrap=addresses,
        read_committed=read_committed,
        security=current_security(),
    )
    check_connect(connect)
    view = ACCESS.view(connect)
    try:
        yield view
    finally:
        view.close()


def generation_loaded(checkpoints: Checkpoints) -> str:
    """Return the generation of Kafka from which this lake was loaded."""
    latest = checkpoints.table.latest()
    known = latest.positions if latest is not None else {}
    return generation_of(source.partition for source in known)
