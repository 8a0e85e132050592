"""`zkbroker-load`: load topics, look at what was loaded, prove it, move positions.

Without a command it loads. Exit status: 0 all is well, 1 the load or the check failed (the message
says why and what to do), 2 the command line is wrong.
"""

import dataclasses
import json
import logging
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from spark_loader.cli_options import (
    cluster_options,
    event_time_options,
    load_options,
    spark_options,
    spark_settings,
)
from spark_loader.cli_state import COMMANDS
from spark_loader.errors import LoadError
from spark_loader.job import Loader
from spark_loader.load_options import LoadOptions
from spark_loader.progress import Progress
from spark_loader.result import LoadResult
from zkbroker import __version__
from zkbroker.cli.main import run
from zkbroker.errors import ZkbrokerError


class LoadByDefault(click.Group):
    """Runs `load` when the first word is no command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (
            args[0] not in self.commands and args[0] not in ("-h", "--help", "--version")
        ):
            args = ["load", *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what disk, network or Spark say becomes an error of one line."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            if isinstance(error, BrokenPipeError | ZkbrokerError):
                raise
            raise LoadError(str(error)) from error
        except Exception as error:
            if not type(error).__module__.startswith(("py4j", "pyspark")):
                raise
            thrown = getattr(error, "java_exception", None)
            raise LoadError(f"Spark: {thrown.toString() if thrown else error}") from error


@click.group(
    cls=LoadByDefault,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", message="zkbroker-load %(version)s")
def cli() -> None:
    """Load topics into a lake with Spark; each record counts exactly once.

    Run it again at any time: it goes on where the last run ended, and takes up a run that was
    stopped with the same offset ranges. `zkbroker-load load --help` lists the options of a load.
    """


@cli.command()
@cluster_options
@event_time_options
@click.option("--max-time", metavar="DURATION", help="Stop after about this: 90s, 15m, 2h.")
@click.option("--headers", is_flag=True, help="Load record headers too.")
@click.option("--keep-damaged", is_flag=True, help="Quarantine damaged log entries.")
@click.option(
    "--max-quarantined", type=int, default=1000, show_default=True, help="Per mapper; -1 for any."
)
@click.option("--master", default="local[*,4]", show_default=True, help="Spark master.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON only.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def load(as_json: bool, quiet: bool, master: str, **given: Any) -> None:
    """Load what is new."""
    options = load_options(given)
    spark_conf = spark_settings(given)
    try:
        if quiet or as_json or not sys.stderr.isatty():
            result = Loader(options, master=master, spark_conf=spark_conf).run()
        else:
            with ProgressBar() as bar:
                loader = Loader(options, master=master, spark_conf=spark_conf, progress=bar.update)
                result = loader.run()
    except KeyboardInterrupt:
        click.echo("stopped: the next load takes up what this one planned", err=True)
        raise
    if as_json:
        click.echo(json.dumps(result_as_json(result)))
    else:
        Console().print(summary(result, options))


class ProgressBar:
    """Shows rows, rows per second and lag on the terminal's error stream."""

    def __init__(self) -> None:
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} rows/s  lag {task.fields[lag]:,}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bars.add_task("plan", total=None, rate="-", lag=0)

    def __enter__(self) -> "ProgressBar":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def update(self, progress: Progress) -> None:
        """Take a report of the load."""
        speed = next((each.speed for each in self._bars.tasks if each.id == self._task), None)
        self._bars.update(
            self._task,
            description=progress.stage,
            completed=progress.rows,
            total=progress.planned_rows or None,
            lag=progress.lag,
            rate=f"{speed:,.0f}" if speed else "-",
        )


def summary(result: LoadResult, options: LoadOptions) -> Table:
    """Return the table printed at the end."""
    rate = result.rows / result.seconds if result.seconds else 0.0
    table = Table(
        title=f"{result.rows:,} rows in {result.seconds:.1f} s ({rate:,.0f}/s) → {options.output}",
        caption=(
            f"run {result.run}, {len(result.files)} files, {result.bytes:,} bytes, "
            f"{result.quarantined:,} quarantined, lag {result.lag:,}"
            + (f", resumed ({result.adopted} mappers kept)" if result.resumed else "")
            if result.run
            else "nothing new"
        ),
    )
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
    return table


def result_as_json(result: LoadResult) -> dict[str, Any]:
    """Return a result as JSON holds it."""
    content = dataclasses.asdict(result)
    for name in ("ranges", "gaps"):
        for each in content[name]:
            each["from"] = each.pop("start")
            each.pop("estimated_bytes", None)
    return content


for command in COMMANDS:
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the `zkbroker-load` script."""
    # Py4J logs a traceback of every Ctrl-C; people who press it know.
    logging.getLogger().addFilter(
        lambda record: not str(record.msg).startswith("KeyboardInterrupt")
    )
    run(cli, arguments, "zkbroker-load")


if __name__ == "__main__":
    main()
