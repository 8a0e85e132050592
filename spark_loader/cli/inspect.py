"""The commands of `zkbroker-load` that change nothing: status, plan, verify, audit, diff."""

import dataclasses
import json
from typing import Any

import click
from rich.table import Table

from spark_loader.cli.options import (
    cluster_options,
    event_time_options,
    load_options,
    output_option,
    run_options,
    spark_options,
)
from spark_loader.cli.output import print_table
from spark_loader.cli.output_directory import (
    cluster_view,
    generation_loaded,
    json_option,
    opened,
)
from spark_loader.errors import DataLoss, LoadError
from spark_loader.json_codec import to_json
from spark_loader.lake import audit as books
from spark_loader.lake import operate
from spark_loader.lake.adopt import survey
from spark_loader.lake.integrity import needs_adoption, require_whole
from spark_loader.lake.ledger import Entry
from spark_loader.lake.verify import verify as verify_output
from spark_loader.load.planning import make_plan
from spark_loader.plurals import counted
from spark_loader.reading.positions import TopicPartition
from zkbroker.cli.connection import cluster_options as discovery_options
from zkbroker.config.generation import parse_generation
from zkbroker.errors import ConfigError


@click.command(
    epilog="\b\nExamples:\n  zkbroker-load status lake\n"
    "  zkbroker-load status lake -b 127.0.0.1:9092"
)
@output_option
@spark_options
@discovery_options
@click.option(
    "-G", "--group", default="", help="Compare with this group; by default the loads' own."
)
@json_option
def status(
    output: str,
    zookeeper: str | None,
    bootstrap: str | None,
    group: str,
    as_json: bool,
    **spark: Any,
) -> None:
    """Show how far each partition is loaded; with a cluster given, its lag too."""
    checkpoints = opened(output, spark)
    unfinished = checkpoints.unfinished()
    if unfinished is None:
        operate.require_loaded(checkpoints)
    elif not checkpoints.table.exists():
        # A first run that was stopped; not a lake without a table.
        require_whole(checkpoints)
    with cluster_view(zookeeper, bootstrap, generation_loaded(checkpoints)) as cluster:
        standings = operate.status(checkpoints, cluster, group)
    gaps = books.gap_ledger(checkpoints)
    aborted = books.aborted_offsets(checkpoints)
    if as_json:
        content = {
            "partitions": [{**_fields(each), "lag": each.lag} for each in standings],
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
    if standings:
        print_table(table)
    for each in standings:
        if each.gone:
            click.echo(f"{each.source} is no longer in the cluster")
        elif each.position is None:
            click.echo(f"{each.source} is new: the next load takes it up")
        elif each.beyond:
            click.echo(f"{each.source}: its log ends before the position, so a load would fail")
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


@click.command(epilog="\b\nExample:\n  zkbroker-load plan -b 127.0.0.1:9092 -t visits lake")
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
    checkpoints = opened(options.output, given)
    adopted: Entry | None = None
    if options.adopt and needs_adoption(checkpoints):
        adopted = survey(checkpoints).entry
    else:
        require_whole(checkpoints)
    unfinished = checkpoints.unfinished() if adopted is None else None
    with cluster_view(
        options.zookeeper,
        options.bootstrap,
        parse_generation(options.generation),
        read_committed=options.read_committed,
    ) as cluster:
        assert cluster is not None  # `load_options` asks for one
        held: list[DataLoss] = []
        made = unfinished
        if made is None:
            run, latest = checkpoints.next_run(), adopted or checkpoints.table.latest()
            made, held = make_plan(run + (adopted is not None), options, cluster, latest)
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
        click.echo(f"would begin again: {adopted.note}")
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
    for trouble in dict.fromkeys(map(str, held)):
        click.echo(f"would be held back: {trouble}")
    if unfinished is not None:
        click.echo(f"run {unfinished.run} is unfinished: this is its plan")


@click.command(epilog="\b\nExample:\n  zkbroker-load verify lake")
@output_option
@spark_options
@json_option
def verify(output: str, as_json: bool, **spark: Any) -> None:
    """Prove over table and files, offline, that each offset is there exactly once."""
    report = verify_output(opened(output, spark).filesystem, output)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report)))
    else:
        click.echo(
            f"{counted(report.commits, 'run')}, {counted(report.files, 'file')}, "
            f"{counted(report.rows, 'row')}, {report.quarantined:,} quarantined, "
            f"{counted(report.gap_offsets, 'offset')} in the gap ledger, "
            f"{report.absent_offsets:,} absent from the log, {report.aborted_offsets:,} aborted"
        )
        if report.unsealed:
            click.echo(f"{counted(report.unsealed, 'file')} without a checksum until next sealed")
        if report.unreferenced:
            click.echo(f"{counted(report.unreferenced, 'file')} beside them, for vacuum")
        for problem in report.problems:
            click.echo(problem)
        if not report.problems:
            click.echo("no gap, no duplicate, every checksum right")
    if report.problems:
        raise LoadError(counted(len(report.problems), "problem"))


@click.command(epilog="\b\nExample:\n  zkbroker-load audit lake -b 127.0.0.1:9092")
@output_option
@spark_options
@discovery_options
@json_option
def audit(
    output: str, zookeeper: str | None, bootstrap: str | None, as_json: bool, **spark: Any
) -> None:
    """Reconcile what the logs took in with what was written."""
    checkpoints = opened(output, spark)
    with cluster_view(zookeeper, bootstrap, generation_loaded(checkpoints)) as cluster:
        found = books.audit(checkpoints, cluster)
    names = [*(each.name for each in dataclasses.fields(books.Audit)[1:]), "difference"]
    if as_json:
        content = [{**_fields(each), "difference": each.difference} for each in found]
        click.echo(json.dumps(content))
    else:
        table = Table("topic", "partition", *names)
        for each in found:
            numbers = (f"{getattr(each, name):,}" for name in names)
            table.add_row(each.source.topic, str(each.source.partition), *numbers)
        print_table(table)
    wrong = [str(each.source) for each in found if each.difference]
    if wrong:
        raise LoadError(f"the books of {', '.join(wrong)} do not balance")


@click.command(
    epilog="\b\nExamples:\n  zkbroker-load diff lake --from-run 3\n"
    "  zkbroker-load diff lake --group lake -z 127.0.0.1:2181"
)
@output_option
@spark_options
@click.option("--from-run", type=int, help="Compare the positions after this run …")
@click.option("--to-run", type=int, help="… with those after this one; the latest by default.")
@click.option(
    "-G", "--group", default="", help="Compare with a group's offsets in ZooKeeper instead."
)
@discovery_options
@json_option
def diff(
    output: str,
    from_run: int | None,
    to_run: int | None,
    group: str,
    zookeeper: str | None,
    bootstrap: str | None,
    as_json: bool,
    **spark: Any,
) -> None:
    """Show which positions differ between two runs, or from a consumer group's offsets."""
    checkpoints = opened(output, spark)
    here = operate.positions_at(checkpoints, to_run)
    if group:
        with cluster_view(zookeeper, bootstrap, generation_loaded(checkpoints)) as cluster:
            if cluster is None:
                raise ConfigError("--group needs -z HOST:PORT or -b HOST:PORT")
            there = cluster.group_offsets(group, sorted(here))
    elif from_run is not None:
        there = operate.positions_at(checkpoints, from_run)
    else:
        raise ConfigError("name what to compare with: --from-run RUN or --group GROUP")
    found = operate.diff(here, there)
    if as_json:
        content = [_fields(each) for each in found]
        click.echo(json.dumps(content))
        return
    for each in found:
        texts = ["nothing" if at is None else str(at) for at in (each.here, each.there)]
        click.echo(f"{each.source}: {texts[0]} here, {texts[1]} there")
    if not found:
        click.echo("no difference")


def _source(source: TopicPartition) -> dict[str, Any]:
    return {"topic": source.topic, "partition": to_json(source.partition)}


def _fields(record: Any) -> dict[str, Any]:
    content = {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}
    return {**_source(content.pop("source")), **content}
