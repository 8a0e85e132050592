"""Tables and counts for people.

Invariant: what goes to a pipe or a file is never cut: a table is as wide there as its rows.
"""

from rich.console import Console
from rich.table import Table

_WIDE = 10_000


def print_table(table: Table) -> None:
    """Print a table, at the terminal's width or, where there is none, at its own."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDE)
        for column in table.columns:
            column.no_wrap = True
    console.print(table)
