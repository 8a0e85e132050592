"""`zkbroker-load`: load topics, look at what was loaded, prove it, move positions.

Without a command it loads. Exit status: 0 for success, 1 when the load or the check failed (the
message says why and what to do), 2 when the command line is wrong.
"""

import dataclasses
import json
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import click
from rich.table import Table

from spark_loader.causes import cause_of
from spark_loader.cli.change import adopt_files, replay_quarantine, rewind, set_position
from spark_loader.cli.inspect import audit, diff, plan, status, verify
from spark_loader.cli.lake import convert, files, optimize, vacuum
from spark_loader.cli.options import (
    DEBUG,
    cluster_options,
    event_time_options,
    load_options,
    run_options,
    spark_options,
    spark_settings,
    storage_settings,
)
from spark_loader.cli.output import print_table
from spark_loader.cli.progress import ProgressBar, ProgressLines
from spark_loader.errors import LoadError
from spark_loader.load.job import Loader
from spark_loader.load.options import LoadOptions
from spark_loader.load.result import LoadResult
from spark_loader.plurals import counted
from zkbroker import __version__
from zkbroker.cli.main import ReaderGone, ending_with_the_reader, run
from zkbroker.cli.suggestions import no_such_command
from zkbroker.errors import ZkbrokerError


class LoadByDefault(click.Group):
    """Runs `load` when the command line has options only."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else "-"
        if first.startswith("-"):
            if first not in ("-h", "--help", "--version"):
                args = ["load", *args]
        elif first not in self.commands:
            raise no_such_command(first, self.commands, ctx)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List each command with its whole first sentence."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(limit=200)) for name, each in self.commands.items()]
            )

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; errors of disk, network and Spark become one line each."""
        try:
            return self._invoke(ctx)
        except (ReaderGone, click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception:
            if ctx.meta.get(DEBUG):
                traceback.print_exc()
            raise

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            with ending_with_the_reader():
                return super().invoke(ctx)
        except ReaderGone:
            raise
        except OSError as error:
            if isinstance(error, ZkbrokerError):
                raise
            raise LoadError(_file_error(error)) from error
        except Exception as error:
            if not type(error).__module__.startswith(("py4j", "pyspark")):
                raise
            raise LoadError(f"Spark: {cause_of(error)}") from error


def _file_error(error: OSError) -> str:
    """Return a file system's error as `path: why`."""
    if error.filename is None or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}"


@click.group(
    cls=LoadByDefault,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n"
    "  zkbroker-load -b 127.0.0.1:9092 -t visits --output lake\n"
    "  zkbroker-load verify lake",
)
@click.version_option(__version__, "--version", message="zkbroker-load %(version)s")
def cli() -> None:
    """Load topics into a lake with Spark; each record counts exactly once.

    Run it again at any time: it goes on where the last run ended, and resumes a stopped run with
    the same offset ranges. `zkbroker-load load --help` lists the options of a load.
    """


@cli.command(
    epilog="\b\nExamples:\n"
    "  zkbroker-load -b 127.0.0.1:9092 -t visits --output lake\n"
    "  zkbroker-load -z 127.0.0.1:2181 -t visits --output lake --columns-access-log\n"
    "  zkbroker-load -b 127.0.0.1:9092 -t visits --output s3://lakes/visits -G lake \\\n"
    "    --columns-json at:timestamp,member:string,took:double --event-time-column at"
)
@cluster_options
@event_time_options
@run_options
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON only.")
def load(as_json: bool, quiet: bool, master: str, **given: Any) -> None:
    """Load new records."""
    options = load_options(given)
    spark_conf, storage = spark_settings(given), storage_settings(given)
    loader = partial(Loader, options, master=master, spark_conf=spark_conf, storage=storage)
    try:
        if quiet or as_json:
            result = loader().run()
        else:
            with ProgressBar() if sys.stderr.isatty() else ProgressLines() as shown:
                result = loader(progress=shown.update).run()
    except KeyboardInterrupt:
        click.echo("stopped: the next load resumes this run", err=True)
        raise
    if as_json:
        click.echo(json.dumps(result_as_json(result)))
    elif result.ranges or result.gaps:
        show(result, options)
    else:
        click.echo(f"nothing new: everything in the topics is in {options.output} already")


def show(result: LoadResult, options: LoadOptions) -> None:
    """Print what a load did."""
    rate = result.rows / result.seconds if result.seconds else 0.0
    click.echo(
        f"{counted(result.rows, 'row')} in {result.seconds:.1f} s ({rate:,.0f}/s) "
        f"→ {options.output}"
    )
    table = Table()
    for name in ("topic", "partition", "from", "until", "offsets"):
        table.add_column(name, justify="left" if name == "topic" else "right")
    for each in result.ranges:
        table.add_row(
            each.topic, str(each.partition), str(each.start), str(each.until), f"{each.size:,}"
        )
    for gap in result.gaps:
        table.add_row(
            gap.topic, str(gap.partition), str(gap.start), str(gap.until), f"gap: {gap.cause}"
        )
    if table.row_count:
        print_table(table)
    click.echo(
        f"run {result.run}: {counted(len(result.files), 'file')}, "
        f"{counted(result.bytes, 'byte')}, {result.quarantined:,} quarantined, lag {result.lag:,}"
        + (f", resumed ({counted(result.adopted, 'mapper')} kept)" if result.resumed else "")
    )


def result_as_json(result: LoadResult) -> dict[str, Any]:
    """Return a result as JSON holds it."""
    content = dataclasses.asdict(result)
    for name in ("ranges", "gaps"):
        for each in content[name]:
            each["from"] = each.pop("start")
            each.pop("estimated_bytes", None)
    return content


for command in (
    status, plan, verify, audit, diff, rewind, set_position, replay_quarantine, adopt_files,
    files, optimize, vacuum, convert,
):  # fmt: skip
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the `zkbroker-load` script."""
    run(cli, arguments, "zkbroker-load")
