"""`zkbroker help COMMAND`: the same as `zkbroker COMMAND --help`."""

import click

from zkbroker.cli.output import say
from zkbroker.cli.suggestions import no_such_command


@click.command(
    "help",
    epilog="\b\nExamples:\n"
    "  zkbroker help\n"
    "  zkbroker help topics create\n"
    "  zkbroker help kafka-topics",
)
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, names: tuple[str, ...]) -> None:
    """Explain a command: the same as its --help."""
    shown = context.find_root()
    for name in names:
        group = shown.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{shown.command_path} has no commands of its own", shown)
        found = group.get_command(shown, name)
        if found is None:
            # The main group suggests names itself, those of the genuine tools included.
            group.resolve_command(shown, [name])
            raise no_such_command(name, group.list_commands(shown), shown)
        shown = click.Context(found, info_name=name, parent=shown, **found.context_settings)
    for line in shown.get_help().split("\n"):
        say(line)
