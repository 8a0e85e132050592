"""`zkbroker hash-password`: a line for a file of users."""

import sys

import click

from zkbroker.cli.output import say


@click.command(
    "hash-password",
    epilog="\b\nExamples:\n"
    "  zkbroker hash-password prometheus >> admin-users\n"
    "  zkbroker hash-password prometheus < password-file >> admin-users",
)
@click.argument("user")
def command(user: str) -> None:
    """Print the line of a user for `admin.users.file`.

    At a terminal the command asks for the password; otherwise it is the first line of standard
    input. It is never an argument, which other users of the machine could see.
    """
    from zkbroker.security.password_hashes import PasswordHash

    if not user or set(user) & set(":#\n") or user != user.strip():
        raise click.BadParameter("a user's name has no ':' and no '#' in it", param_hint="USER")
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("no password was given: write it to standard input")
    say(f"{user}:{PasswordHash.of(password)}")
