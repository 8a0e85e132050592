"""The commands of `zkbroker-load` that commit to the table: rewind, set, replay, adopt."""

import json
from typing import Any

import click

from spark_loader.cli.options import (
    event_time_options,
    file_options,
    output_option,
    spark_options,
    topic_option,
)
from spark_loader.cli.output_directory import cluster_view, json_option, opened_lake
from spark_loader.errors import LoadError
from spark_loader.lake import operate
from spark_loader.lake.adopt import adopt
from spark_loader.lake.integrity import needs_adoption
from spark_loader.lake.locks import alone
from spark_loader.lake.replay import replay
from spark_loader.reading.generations import generation_of
from spark_loader.reading.positions import TopicPartition
from spark_loader.sink.partition import SinkOptions
from zkbroker.cli.connection import cluster_options as discovery_options
from zkbroker.cli.generation import PartitionNumber


@click.command(
    epilog="\b\nExamples:\n  zkbroker-load rewind lake -t visits --to 0\n"
    "  zkbroker-load rewind lake -t visits --partition 3 --to 100"
)
@output_option
@spark_options
@topic_option
@click.option(
    "--partition",
    "partitions",
    type=PartitionNumber(),
    multiple=True,
    help="Repeatable; all without it. In Kafka 0.7 BROKER-NUMBER.",
)
@click.option("--to", "to", type=click.IntRange(0), required=True, help="Offset to go back to.")
def rewind(output: str, topic: str, partitions: tuple[int, ...], to: int, **spark: Any) -> None:
    """Go back: withdraw what was loaded from an offset on, so that it is loaded again.

    Rows are taken out one by one; where a file of JSON, raw lines or quarantine holds the
    offset, the partition goes back to its beginning.
    """
    checkpoints = opened_lake(output, spark)
    latest = checkpoints.table.latest()
    known = latest.positions if latest is not None else {}
    sources = [
        each
        for each in sorted(known)
        if each.topic == topic and (not partitions or each.partition in partitions)
    ]
    if not sources:
        chosen = " ".join(f"{topic}-{each}" for each in partitions) or topic
        raise LoadError(f"nothing of {chosen} was loaded here: correct topic or partition")
    if not partitions:
        # Partitions that are not loaded that far have nothing to withdraw.
        sources = [each for each in sources if known[each] >= to] or sources
    with alone(checkpoints):
        moved = operate.rewind(checkpoints, sources, to)
    for source, position in moved.items():
        click.echo(f"{source}: the next load begins at offset {position}")


@click.command(
    "set", epilog="\b\nExample:\n  zkbroker-load set lake -t visits --partition 3 --to 100"
)
@output_option
@spark_options
@discovery_options
@topic_option
@click.option(
    "--partition", type=PartitionNumber(), required=True, help="In Kafka 0.7 BROKER-NUMBER."
)
@click.option("--to", "to", type=click.IntRange(0), required=True, help="Next offset to load.")
def set_position(
    output: str,
    zookeeper: str | None,
    bootstrap: str | None,
    topic: str,
    partition: int,
    to: int,
    **spark: Any,
) -> None:
    """Set a position. Offsets passed over go into the gap ledger; going back is a rewind.

    To set a partition that was never loaded, name the cluster: the partition is looked up there.
    """
    checkpoints = opened_lake(output, spark)
    source = TopicPartition(topic, partition)
    generation = generation_of([partition])
    with cluster_view(zookeeper, bootstrap, generation) as cluster:
        operate.require_known(checkpoints, source, cluster)
    with alone(checkpoints):
        position = operate.set_position(checkpoints, source, to)
    click.echo(f"{source}: the next load begins at offset {position}")


@click.command(
    "replay-quarantine",
    epilog="\b\nExamples:\n  zkbroker-load replay-quarantine lake --event-time-fallback timestamp\n"
    "  zkbroker-load replay-quarantine lake --columns-json at:timestamp,member:string",
)
@output_option
@spark_options
@event_time_options
@click.option("--headers", is_flag=True, help="Write record headers, as when loading.")
def replay_quarantine(output: str, headers: bool, **given: Any) -> None:
    """Load quarantined records again, with different options."""
    checkpoints = opened_lake(output, given)
    with alone(checkpoints):
        entry = replay(checkpoints, SinkOptions(**file_options(given)), headers=headers)
    click.echo(entry.note if entry is not None else "the quarantine is empty")


@click.command("adopt", epilog="\b\nExample:\n  zkbroker-load adopt lake")
@output_option
@spark_options
@json_option
def adopt_files(output: str, as_json: bool, **given: Any) -> None:
    """Adopt the data files as a new beginning, where checkpoints are lost.

    Offsets come from the files themselves; the next load goes on after them. A directory that is as
    the last load left it is not changed.
    """
    checkpoints = opened_lake(output, given)
    with alone(checkpoints):
        # `adopt` raises where nothing was ever planned.
        wanted = needs_adoption(checkpoints) or not checkpoints.run_numbers()
        entry = adopt(checkpoints) if wanted else None
    if as_json:
        gaps = [str(each) for each in entry.gaps] if entry is not None else []
        run = entry.run if entry is not None else 0
        click.echo(json.dumps({"run": run, "gaps": gaps}))
        return
    if entry is None:
        click.echo(f"{output} is as its last load left it: there is nothing to take over")
        return
    click.echo(f"run {entry.run}: {entry.note}")
    for source, position in sorted(entry.positions.items()):
        click.echo(f"{source}: the next load begins at offset {position}")
    for gap in entry.gaps:
        click.echo(f"gap {gap}")
