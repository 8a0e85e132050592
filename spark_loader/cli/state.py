"""The commands of `zkbroker-load` besides loading: look, prove, move, replay."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.table import Table

from spark_loader.cli.options import (
    cluster_options,
    event_time_options,
    load_options,
    output_option,
    run_options,
    sink_options,
    spark_options,
    spark_settings,
)
from spark_loader.cli.output import print_table
from spark_loader.errors import DataLoss, LoadError
from spark_loader.lake import operate
from spark_loader.lake.adopt import adopt, survey
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.integrity import look_over, require_whole
from spark_loader.lake.ledger import Manifest
from spark_loader.lake.replay import replay
from spark_loader.lake.settle import locked
from spark_loader.lake.verify import verify as verify_output
from spark_loader.load.planning import make_plan
from spark_loader.network import NetworkAccess
from spark_loader.reading.access import Access
from spark_loader.reading.options import ConnectOptions
from spark_loader.reading.positions import TopicPartition, partition_to_json
from spark_loader.reading.resolve import SourceCluster
from spark_loader.storage.files import LakeFileSystem
from spark_loader.storage.filesystems import filesystem_for
from spark_loader.words import counted
from zkbroker.cli.generation import PartitionNumber
from zkbroker.config.generation import parse_generation
from zkbroker.errors import ConfigError
from zkbroker.types import Partition07

ACCESS: Access = NetworkAccess()

zookeeper_option = click.option("--zookeeper", default="", metavar="HOST:PORT[/CHROOT]")
bootstrap_option = click.option("--bootstrap", default="", metavar="HOST:PORT,…")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
partition_option = click.option(
    "--partition",
    "partitions",
    type=PartitionNumber(),
    multiple=True,
    help="Repeatable; all without it. In Kafka 0.7 BROKER-NUMBER.",
)


@click.command()
@output_option
@spark_options
@zookeeper_option
@bootstrap_option
@click.option("--group", default="", help="Compare with this group; by default the loads' own.")
@json_option
def status(
    output: str, zookeeper: str, bootstrap: str, group: str, as_json: bool, **spark: Any
) -> None:
    """Show how far each partition is loaded; with a cluster given, its lag too."""
    checkpoints, _ = _opened(output, spark)
    unfinished = checkpoints.unfinished()
    if unfinished is None:
        operate.require_loaded(checkpoints)
    with _view(zookeeper, bootstrap, _from_07(checkpoints)) as view:
        standings = operate.status(checkpoints, view, group)
    gaps = operate.gap_ledger(checkpoints)
    aborted = operate.aborted_offsets(checkpoints)
    if as_json:
        content = {
            "partitions": [
                {**_source(each.source), **_fields(each, "source"), "lag": each.lag}
                for each in standings
            ],
            "unfinished_run": unfinished.run if unfinished else None,
            "gaps": [dataclasses.asdict(gap) for gap in gaps],
            "aborted": aborted,
        }
        click.echo(json.dumps(content))
        return
    table = Table("topic", "partition", "position", "log start", "log end", "lag", "group")
    for each in standings:
        table.add_row(
            each.source.topic,
            str(each.source.partition),
            *(
                "" if number is None else f"{number:,}"
                for number in (each.position, each.log_start, each.log_end, each.lag, each.group)
            ),
        )
    print_table(table)
    for each in standings:
        if each.gone:
            click.echo(f"{each.source} is no longer in the cluster")
        elif each.position is None:
            click.echo(f"{each.source} is new: the next load takes it up")
        if each.lost:
            deleted = (
                f"{counted(each.lost, 'offset')} {'was' if each.lost == 1 else 'were'} deleted"
            )
            click.echo(f"{each.source}: {deleted} before being loaded")
    for gap in gaps:
        click.echo(f"gap {gap}")
    if aborted:
        click.echo(f"{counted(aborted, 'offset')} of aborted transactions left out")
    if unfinished is not None:
        click.echo(f"run {unfinished.run} is unfinished; the next load takes it up")


@click.command()
@cluster_options
@event_time_options
@run_options
@spark_options
@json_option
def plan(as_json: bool, **given: Any) -> None:
    """Show what a load would do: splits and estimated bytes. Nothing is written.

    Takes every option of a load.
    """
    options = load_options(given)
    checkpoints, filesystem = _opened(options.output, given)
    adopted: Manifest | None = None
    if options.adopt and look_over(checkpoints, filesystem):
        adopted = survey(checkpoints, filesystem)
    else:
        require_whole(checkpoints, filesystem)
    unfinished = checkpoints.unfinished() if adopted is None else None
    with _view(
        options.zookeeper,
        options.bootstrap,
        parse_generation(options.generation),
        read_committed=options.read_committed,
    ) as view:
        if view is None:
            raise ConfigError("name the cluster: --zookeeper or --bootstrap")
        held: list[DataLoss] = []
        made = unfinished
        if made is None:
            run, latest = checkpoints.next_run(), adopted or checkpoints.latest()
            made, held = make_plan(run + (adopted is not None), options, view, latest)
    planned = made.mappers if made is not None else ()
    if as_json:
        mappers = [
            [{**_source(r.source), "from": r.start, "until": r.until, "bytes": r.estimated_bytes}
             for r in mapper]
            for mapper in planned
        ]  # fmt: skip
        content = {
            "resumes": unfinished is not None,
            "adopts": adopted.note if adopted is not None else None,
            "mappers": mappers,
            "held_back": [str(each) for each in held],
        }
        click.echo(json.dumps(content))
        return
    if adopted is not None:
        click.echo(f"would begin anew: {adopted.note}")
    table = Table(
        "mapper", "topic", "partition", "from", "until", "offsets", "about bytes",
        title=f"run {made.run}" if made is not None else None,
    )  # fmt: skip
    for number, mapper in enumerate(planned):
        for each in mapper:
            table.add_row(
                str(number),
                each.topic,
                str(each.partition),
                str(each.start),
                str(each.until),
                f"{each.size:,}",
                f"{each.estimated_bytes:,}",
            )
    if planned:
        print_table(table)
    elif made is None:
        click.echo("nothing new")
    for gap in made.gaps if made is not None else ():
        click.echo(f"would give up {gap}")
    for trouble in held:
        click.echo(f"would be held back: {trouble}")
    if unfinished is not None:
        click.echo(f"run {unfinished.run} is unfinished: this is its plan")


@click.command()
@output_option
@spark_options
@json_option
def verify(output: str, as_json: bool, **spark: Any) -> None:
    """Prove over manifests and files, offline, that each offset is there exactly once."""
    _, filesystem = _opened(output, spark)
    report = verify_output(filesystem, output)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report)))
    else:
        click.echo(
            f"{counted(report.manifests, 'manifest')}, {counted(report.files, 'file')}, "
            f"{counted(report.rows, 'row')}, {report.quarantined:,} quarantined, "
            f"{counted(report.gap_offsets, 'offset')} in the gap ledger, "
            f"{report.absent_offsets:,} absent from the log, {report.aborted_offsets:,} aborted"
        )
        for problem in report.problems:
            click.echo(problem)
        if not report.problems:
            click.echo("no gap, no duplicate, every checksum right")
    if report.problems:
        raise LoadError(counted(len(report.problems), "problem"))


@click.command()
@output_option
@spark_options
@zookeeper_option
@bootstrap_option
@json_option
def audit(output: str, zookeeper: str, bootstrap: str, as_json: bool, **spark: Any) -> None:
    """Reconcile what the logs took in with what was written."""
    checkpoints, _ = _opened(output, spark)
    with _view(zookeeper, bootstrap, _from_07(checkpoints)) as view:
        books = operate.audit(checkpoints, view)
    names = (
        "appended",
        "rows",
        "quarantined",
        "gaps",
        "absent",
        "aborted",
        "pending",
        "difference",
    )
    if as_json:
        content = [
            {**_source(each.source), **{name: getattr(each, name) for name in names}}
            for each in books
        ]
        click.echo(json.dumps(content))
    else:
        table = Table("topic", "partition", *names)
        for each in books:
            numbers = (f"{getattr(each, name):,}" for name in names)
            table.add_row(each.source.topic, str(each.source.partition), *numbers)
        print_table(table)
    wrong = [str(each.source) for each in books if each.difference]
    if wrong:
        raise LoadError(f"the books of {', '.join(wrong)} do not balance")


@click.command()
@output_option
@spark_options
@click.option("--from-run", type=int, help="Compare the positions after this run …")
@click.option("--to-run", type=int, help="… with those after this one; the latest by default.")
@click.option("--group", default="", help="Compare with a group's offsets in ZooKeeper instead.")
@zookeeper_option
@bootstrap_option
@json_option
def diff(
    output: str,
    from_run: int | None,
    to_run: int | None,
    group: str,
    zookeeper: str,
    bootstrap: str,
    as_json: bool,
    **spark: Any,
) -> None:
    """Show which positions differ between two runs, or from a consumer group's offsets."""
    checkpoints, _ = _opened(output, spark)
    here = operate.positions_at(checkpoints, to_run)
    if group:
        with _view(zookeeper, bootstrap, _from_07(checkpoints)) as view:
            if view is None:
                raise ConfigError("--group needs --zookeeper or --bootstrap")
            there = view.group_offsets(group, sorted(here))
    elif from_run is not None:
        there = operate.positions_at(checkpoints, from_run)
    else:
        raise ConfigError("give --from-run or --group")
    found = operate.diff(here, there)
    if as_json:
        content = [{**_source(each.source), **_fields(each, "source")} for each in found]
        click.echo(json.dumps(content))
        return
    for each in found:
        click.echo(f"{each.source}: {each.here} here, {each.there} there")
    if not found:
        click.echo("no difference")


@click.command()
@output_option
@spark_options
@click.option("--topic", required=True)
@partition_option
@click.option("--to", "to", type=click.IntRange(0), required=True, help="Offset to go back to.")
def rewind(output: str, topic: str, partitions: tuple[int, ...], to: int, **spark: Any) -> None:
    """Go back: withdraw what was loaded from an offset on, so that it is loaded again.

    A partition goes back to the beginning of the files that hold the offset.
    """
    checkpoints, filesystem = _opened(output, spark)
    latest = checkpoints.latest()
    known = latest.positions if latest is not None else {}
    sources = [
        each
        for each in sorted(known)
        if each.topic == topic and (not partitions or each.partition in partitions)
    ]
    if not sources:
        raise LoadError(f"nothing of {topic} was loaded here")
    with locked(checkpoints, filesystem):
        moved = operate.rewind(checkpoints, filesystem, sources, to)
    for source, position in moved.items():
        click.echo(f"{source}: the next load begins at offset {position}")


@click.command("set")
@output_option
@spark_options
@click.option("--topic", required=True)
@click.option("--partition", type=PartitionNumber(), required=True)
@click.option("--to", "to", type=click.IntRange(0), required=True, help="Next offset to load.")
def set_position(output: str, topic: str, partition: int, to: int, **spark: Any) -> None:
    """Set a position. Offsets passed over go into the gap ledger; going back is a rewind."""
    checkpoints, filesystem = _opened(output, spark)
    source = TopicPartition(topic, partition)
    with locked(checkpoints, filesystem):
        position = operate.set_position(checkpoints, filesystem, source, to)
    click.echo(f"{source}: the next load begins at offset {position}")


@click.command("replay-quarantine")
@output_option
@spark_options
@event_time_options
@click.option("--headers", is_flag=True, help="Write record headers, as when loading.")
def replay_quarantine(output: str, headers: bool, **given: Any) -> None:
    """Load quarantined records again, with other event time options than before."""
    checkpoints, filesystem = _opened(output, given)
    with locked(checkpoints, filesystem):
        manifest = replay(checkpoints, filesystem, sink_options(given), headers=headers)
    click.echo(manifest.note if manifest is not None else "the quarantine is empty")


@click.command("adopt")
@output_option
@spark_options
@json_option
def adopt_files(output: str, as_json: bool, **given: Any) -> None:
    """Take the data files that are there over as a new beginning, where checkpoints are lost.

    Offsets come from the files themselves; the next load goes on behind them. A directory that is
    as the last load left it stays as it is.
    """
    checkpoints, filesystem = _opened(output, given)
    with locked(checkpoints, filesystem):
        # Where nothing was ever planned it says that there is nothing.
        wanted = look_over(checkpoints, filesystem) or not checkpoints.run_numbers()
        manifest = adopt(checkpoints, filesystem) if wanted else None
    if as_json:
        gaps = [str(each) for each in manifest.gaps] if manifest is not None else []
        run = manifest.run if manifest is not None else 0
        click.echo(json.dumps({"run": run, "gaps": gaps}))
        return
    if manifest is None:
        click.echo(f"{output} is as its last load left it: there is nothing to take over")
        return
    click.echo(f"run {manifest.run}: {manifest.note}")
    for source, position in sorted(manifest.positions.items()):
        click.echo(f"{source}: the next load begins at offset {position}")
    for gap in manifest.gaps:
        click.echo(f"gap {gap}")


COMMANDS = (
    status, plan, verify, audit, diff, rewind, set_position, replay_quarantine, adopt_files
)  # fmt: skip


def _opened(output: str, given: dict[str, Any]) -> tuple[Checkpoints, LakeFileSystem]:
    prefix = "spark.hadoop."
    settings = {
        key.removeprefix(prefix): value
        for key, value in spark_settings(given).items()
        if key.startswith(prefix)
    }
    filesystem = filesystem_for(output, settings=settings)
    return Checkpoints(filesystem, output), filesystem


@contextmanager
def _view(
    zookeeper: str, bootstrap: str, legacy07: bool, *, read_committed: bool = False
) -> Iterator[SourceCluster | None]:
    """Give a view of the cluster that is named, or None when none is."""
    if not zookeeper and not bootstrap:
        yield None
        return
    addresses = tuple(part.strip() for part in bootstrap.split(",") if part.strip())
    connect = ConnectOptions(
        legacy07=legacy07,
        zookeeper=zookeeper or None,
        bootstrap=addresses,
        read_committed=read_committed,
    )
    view = ACCESS.view(connect)
    try:
        yield view
    finally:
        view.close()


def _from_07(checkpoints: Checkpoints) -> bool:
    """Return whether what was loaded here is of Kafka 0.7."""
    latest = checkpoints.latest()
    known = latest.positions if latest is not None else {}
    return any(isinstance(source.partition, Partition07) for source in known)


def _source(source: TopicPartition) -> dict[str, Any]:
    return {"topic": source.topic, "partition": partition_to_json(source.partition)}


def _fields(record: Any, *left_out: str) -> dict[str, Any]:
    content = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return {name: value for name, value in content.items() if name not in left_out}
