"""Lines and tables for people, JSON for programs: all output of commands except messages.

Invariant: output is harmless to a terminal, whatever its origin; see `foreign_text`.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zkbroker.cli.foreign_text import harmless, harmless_json, harmless_lines
from zkbroker.types import PartitionKey

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_WIDTH = 100_000
_LEAST_WIDTH = 16
"""Least width of a column whose cells are broken, unless its heading is wider."""
_GAP = 2
FEW = 5
"""Names in one line."""

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add `--json`, given to the command as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def say(text: object = "", *, err: bool = False) -> None:
    """Print one line; a line end within it is shown as an escape."""
    click.echo(harmless(text), err=err)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    say(f"warning: {text}", err=True)


def say_lines(text: object, *, err: bool = False) -> None:
    """Print a text of several lines, the later ones indented."""
    click.echo(harmless_lines(text), err=err)


def name_partitions(partitions: Collection[PartitionKey]) -> str:
    """Return partitions as text for one line: a few by name, many by topic and number."""
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
    """Print a value as JSON; compact: without spaces and end of line, as kcat prints it."""
    if compact:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    else:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(harmless_json(text), nl=not compact)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool) -> None:
    """Print rows as JSON objects whose fields are the columns, or as a table."""
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[int] = ()
) -> None:
    """Print a table; in a pipe each row is one line.

    On a terminal that is too narrow for columns, each row is a block of lines, one a column.

    Args:
        columns: headings.
        rows: cells; None is shown as `-`.
        numbers: indexes of the columns that are aligned to the right.
    """
    # Imported only when a table is printed: the import takes a tenth of a second.
    from rich.table import Table

    cells = [["-" if cell is None else harmless(cell) for cell in row] for row in rows]
    console = table_console()
    if not _has_room(columns, cells, console.width):
        _print_blocks(columns, cells)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in numbers else "left", overflow="fold")
    for each in cells:
        table.add_row(*each)
    console.print(table)


def table_console() -> "Console":
    """Return the console that prints tables; in a pipe it is so wide that no cell is broken."""
    from rich.console import Console

    # In a pipe each row is one line, unless a width is asked for.
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, markup=False, width=_PIPED_WIDTH if piped else None)


def _has_room(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether every column gets its width, or enough of it for broken names to be read."""
    from rich.cells import cell_len

    widest = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    least = [
        min(whole, max(_LEAST_WIDTH, cell_len(name)))
        for whole, name in zip(widest, columns, strict=True)
    ]
    return sum(least) + _GAP * (len(columns) - 1) <= width


def _print_blocks(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    longest = max(map(len, columns))
    for number, row in enumerate(rows):
        if number:
            click.echo()
        for name, cell in zip(columns, row, strict=True):
            click.echo(f"{name:{longest}}  {cell}".rstrip())
