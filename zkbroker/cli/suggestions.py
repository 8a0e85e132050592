"""Suggestions for a command that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches

import click


def no_such_command(
    name: str, known: Iterable[str], context: click.Context | None
) -> click.UsageError:
    """Return the error for an unknown command, with similar names."""
    near = get_close_matches(name, list(known))
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return click.UsageError(f"No such command '{name}'.{meant}", context)
