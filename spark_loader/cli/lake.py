"""The commands of `zkbroker-load` about the table's files: files, optimize, vacuum, convert."""

import dataclasses
import json
from typing import Any

import click

from spark_loader.cli.options import output_option, spark_options
from spark_loader.cli.output_directory import json_option, opened, opened_lake
from spark_loader.cli.types import Bytes
from spark_loader.lake.convert import convert as convert_manifests
from spark_loader.lake.locks import alone
from spark_loader.lake.operate import table_paths
from spark_loader.lake.optimize import DEFAULT_HOURS, DEFAULT_TARGET, SAFE_RETENTION_HOURS
from spark_loader.lake.optimize import optimize as optimize_table
from spark_loader.lake.optimize import vacuum as vacuum_table
from spark_loader.plurals import counted


@click.command(
    epilog="\b\nExamples:\n  zkbroker-load files lake\n  zkbroker-load files lake --run 3 --json"
)
@output_option
@spark_options
@click.option("--run", type=int, help="As the lake was after this run.")
@json_option
def files(output: str, run: int | None, as_json: bool, **spark: Any) -> None:
    """List the Parquet files that count, for readers that know neither Delta nor Iceberg tables."""
    checkpoints = opened(output, spark)
    paths = table_paths(checkpoints, run)
    click.echo(json.dumps(paths) if as_json else "\n".join(paths), nl=as_json or bool(paths))


@click.command(
    epilog="\b\nExamples:\n  zkbroker-load optimize lake\n"
    "  zkbroker-load optimize lake --older-than 2 --target-file-bytes 64m"
)
@output_option
@spark_options
@click.option(
    "--older-than",
    "hours",
    type=click.FloatRange(0),
    default=DEFAULT_HOURS,
    show_default=True,
    metavar="HOURS",
    help="Only hours that ended so long ago, in --time-zone of the loads, which may add to others.",
)
@click.option(
    "--target-file-bytes",
    "target",
    type=Bytes(),
    default=DEFAULT_TARGET,
    help="Merge up to about this size.  [default: 128m]",
)
@json_option
def optimize(output: str, hours: float, target: int, as_json: bool, **spark: Any) -> None:
    """Merge small files of each hour. Readers and loads may go on meanwhile."""
    checkpoints = opened(output, spark)
    done = optimize_table(checkpoints, older_than_hours=hours, target_bytes=target)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(done)))
        return
    click.echo(
        f"{counted(done.before, 'file')} before, {done.after:,} after: {done.removed:,} merged "
        f"into {done.added:,}"
    )


@click.command(
    epilog="\b\nExamples:\n  zkbroker-load vacuum lake --dry-run\n"
    "  zkbroker-load vacuum lake --retention 336"
)
@output_option
@spark_options
@click.option(
    "--retention",
    "hours",
    type=click.IntRange(0),
    default=SAFE_RETENTION_HOURS,
    show_default=True,
    metavar="HOURS",
    help="Keep what was replaced or left behind since.",
)
@click.option("--allow-short-retention", "allow", is_flag=True, help="Allow less than a week.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@json_option
def vacuum(
    output: str, hours: int, allow: bool, dry_run: bool, as_json: bool, **spark: Any
) -> None:
    """Delete files that no reader needs any more: merged, taken back, or left by a crash.

    Runs that need them can then no longer be read as they were.
    """
    checkpoints = opened(output, spark)
    found = vacuum_table(checkpoints, retention_hours=hours, allow_short=allow, dry_run=dry_run)
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{counted(len(found), 'file')} {'would be ' if dry_run else ''}deleted")


@click.command(epilog="\b\nExample:\n  zkbroker-load convert lake")
@output_option
@spark_options
def convert(output: str, **spark: Any) -> None:
    """Take over a lake that an older release loaded, without copying its data.

    Its manifests become commits of a table; loads go on where it ended.
    """
    checkpoints = opened_lake(output, spark)
    with alone(checkpoints):
        done = convert_manifests(checkpoints)
    if not done.runs:
        click.echo("every manifest is in the table already")
        return
    click.echo(f"{counted(done.runs, 'run')} with {counted(done.files, 'file')} taken over")
