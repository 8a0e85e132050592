"""Lines and tables for people, JSON for programs: all that commands print, but messages themselves.

Invariant: everything printed here is harmless to a terminal, whoever chose it; see `foreign_text`.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import click

from zkbroker.cli.foreign_text import harmless, harmless_json, harmless_lines
from zkbroker.types import PartitionKey

_PIPED_WIDTH = 100_000
FEW = 5
"""Names in one line."""

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add `--json`, given to the command as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def say(text: object = "", *, err: bool = False) -> None:
    """Print one line.

    Args:
        text: the line; an end of line within it is shown, not obeyed.
        err: to standard error.
    """
    click.echo(harmless(text), err=err)


def say_lines(text: object, *, err: bool = False) -> None:
    """Print a text of several lines, the later ones indented."""
    click.echo(harmless_lines(text), err=err)


def name_partitions(partitions: Collection[PartitionKey]) -> str:
    """Return partitions in words for one line: a few by name, many by topic and number."""
    if len(partitions) <= FEW:
        return ", ".join(f"{topic}-{number}" for topic, number in partitions)
    by_topic = Counter(topic for topic, _ in partitions)
    topics = [f"{topic} ({count})" for topic, count in sorted(by_topic.items())]
    more = f" and {len(topics) - FEW} more" if len(topics) > FEW else ""
    return (
        f"{len(partitions)} partitions of {len(topics)} topic{'s' if len(topics) > 1 else ''}: "
        f"{', '.join(topics[:FEW])}{more}"
    )


def print_json(value: object, *, compact: bool = False) -> None:
    """Print a value as JSON.

    Args:
        value: what `json.dumps` takes.
        compact: without spaces and without the end of line, as kcat prints it.
    """
    if compact:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    else:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(harmless_json(text), nl=not compact)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[int] = ()
) -> None:
    """Print a table.

    Args:
        columns: headings.
        rows: cells; None is shown as `-`.
        numbers: indexes of the columns that are aligned to the right.
    """
    # Imported when a table is printed: it costs a tenth of a second.
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*("-" if cell is None else harmless(cell) for cell in row))
    # What is piped into another program is one line a row, unless a width is asked for.
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    width = _PIPED_WIDTH if piped else None
    Console(highlight=False, markup=False, width=width).print(table)
