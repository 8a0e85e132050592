"""The commands of `zkbroker-load` besides loading: look, prove, move, replay."""

import dataclasses
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from spark_loader import operate
from spark_loader.access import Access
from spark_loader.brokers import NetworkAccess
from spark_loader.checkpoint import Checkpoints
from spark_loader.cli_options import (
    cluster_options,
    event_time_options,
    load_options,
    output_option,
    sink_options,
    spark_options,
    spark_settings,
)
from spark_loader.errors import DataLoss, LoadError
from spark_loader.files import FileSystem, LockedError
from spark_loader.filesystems import filesystem_for
from spark_loader.ledger import now_text
from spark_loader.options import ConnectOptions
from spark_loader.planning import make_plan
from spark_loader.positions import TopicPartition
from spark_loader.replay import replay
from spark_loader.resolve import ClusterView
from spark_loader.verify import verify as verify_output
from zkbroker.errors import ConfigError

ACCESS: Access = NetworkAccess()

zookeeper_option = click.option("--zookeeper", default="", metavar="HOST:PORT[/CHROOT]")
bootstrap_option = click.option("--bootstrap", default="", metavar="HOST:PORT,…")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
partition_option = click.option(
    "--partition", "partitions", type=int, multiple=True, help="Repeatable; all without it."
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
    with _view(zookeeper, bootstrap) as view:
        standings = operate.status(checkpoints, view, group)
    gaps = operate.gap_ledger(checkpoints)
    if as_json:
        content = {
            "partitions": [
                {**_source(each.source), **_fields(each, "source"), "lag": each.lag}
                for each in standings
            ],
            "unfinished_run": unfinished.run if unfinished else None,
            "gaps": [dataclasses.asdict(gap) for gap in gaps],
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
    Console().print(table)
    for each in standings:
        if each.gone:
            click.echo(f"{each.source} is no longer in the cluster")
        elif each.position is None:
            click.echo(f"{each.source} is new: the next load takes it up")
        if each.lost:
            click.echo(f"{each.source}: {each.lost} offsets were deleted before they were loaded")
    for gap in gaps:
        click.echo(f"gap {gap}")
    if unfinished is not None:
        click.echo(f"run {unfinished.run} is unfinished; the next load takes it up")


@click.command()
@cluster_options
@spark_options
@json_option
def plan(as_json: bool, **given: Any) -> None:
    """Show what a load would do: splits and estimated bytes. Nothing is written."""
    options = load_options(given)
    checkpoints, _ = _opened(options.output, given)
    unfinished = checkpoints.unfinished()
    with _view(options.zookeeper, options.bootstrap) as view:
        if view is None:
            raise ConfigError("name the cluster: --zookeeper or --bootstrap")
        held: list[DataLoss] = []
        made = unfinished
        if made is None:
            made, held = make_plan(checkpoints.next_run(), options, view, checkpoints.latest())
    planned = made.mappers if made is not None else ()
    if as_json:
        mappers = [
            [{**_source(r.source), "from": r.start, "until": r.until, "bytes": r.estimated_bytes}
             for r in mapper]
            for mapper in planned
        ]  # fmt: skip
        content = {
            "resumes": unfinished is not None,
            "mappers": mappers,
            "held_back": [str(each) for each in held],
        }
        click.echo(json.dumps(content))
        return
    title = f"run {made.run}" if made is not None else "nothing new"
    table = Table(
        "mapper", "topic", "partition", "from", "until", "offsets", "about bytes", title=title
    )
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
    Console().print(table)
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
            f"{report.manifests} manifests, {report.files} files, {report.rows:,} rows, "
            f"{report.quarantined:,} quarantined, {report.gap_offsets:,} offsets in the gap "
            f"ledger, {report.absent_offsets:,} absent from the log"
        )
        for problem in report.problems:
            click.echo(problem)
        if not report.problems:
            click.echo("no gap, no duplicate, every checksum right")
    if report.problems:
        raise LoadError(f"{len(report.problems)} problems")


@click.command()
@output_option
@spark_options
@zookeeper_option
@bootstrap_option
@json_option
def audit(output: str, zookeeper: str, bootstrap: str, as_json: bool, **spark: Any) -> None:
    """Reconcile what the logs took in with what was written."""
    checkpoints, _ = _opened(output, spark)
    with _view(zookeeper, bootstrap) as view:
        books = operate.audit(checkpoints, view)
    names = ("appended", "rows", "quarantined", "gaps", "absent", "pending", "difference")
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
        Console().print(table)
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
        with _view(zookeeper, bootstrap) as view:
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
    with _locked(checkpoints, filesystem):
        moved = operate.rewind(checkpoints, filesystem, sources, to)
    for source, position in moved.items():
        click.echo(f"{source}: the next load begins at offset {position}")


@click.command("set")
@output_option
@spark_options
@click.option("--topic", required=True)
@click.option("--partition", type=int, required=True)
@click.option("--to", "to", type=click.IntRange(0), required=True, help="Next offset to load.")
def set_position(output: str, topic: str, partition: int, to: int, **spark: Any) -> None:
    """Set a position. Offsets passed over go into the gap ledger; going back is a rewind."""
    checkpoints, filesystem = _opened(output, spark)
    source = TopicPartition(topic, partition)
    with _locked(checkpoints, filesystem):
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
    with _locked(checkpoints, filesystem):
        manifest = replay(checkpoints, filesystem, sink_options(given), headers=headers)
    click.echo(manifest.note if manifest is not None else "the quarantine is empty")


COMMANDS = (status, plan, verify, audit, diff, rewind, set_position, replay_quarantine)


def _opened(output: str, given: dict[str, Any]) -> tuple[Checkpoints, FileSystem]:
    prefix = "spark.hadoop."
    settings = {
        key.removeprefix(prefix): value
        for key, value in spark_settings(given).items()
        if key.startswith(prefix)
    }
    filesystem = filesystem_for(output, settings=settings)
    return Checkpoints(filesystem, output), filesystem


@contextmanager
def _view(zookeeper: str, bootstrap: str) -> Iterator[ClusterView | None]:
    """Give a view of the cluster that is named, or None when none is."""
    if not zookeeper and not bootstrap:
        yield None
        return
    addresses = tuple(part.strip() for part in bootstrap.split(",") if part.strip())
    view = ACCESS.view(ConnectOptions(zookeeper=zookeeper or None, bootstrap=addresses))
    try:
        yield view
    finally:
        view.close()


@contextmanager
def _locked(checkpoints: Checkpoints, filesystem: FileSystem) -> Iterator[None]:
    owner = f"{socket.gethostname()} process {os.getpid()} since {now_text()}"
    try:
        with filesystem.lock(checkpoints.path("lock"), owner):
            yield
    except LockedError as error:
        raise LoadError(f"a load into this output is running: {error}") from None


def _source(source: TopicPartition) -> dict[str, Any]:
    return {"topic": source.topic, "partition": source.partition}


def _fields(record: Any, *left_out: str) -> dict[str, Any]:
    content = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return {name: value for name, value in content.items() if name not in left_out}
