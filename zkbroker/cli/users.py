"""`zkbroker users`: the users that may log in by SCRAM."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import open_empty_session, zookeeper_option
from zkbroker.cli.output import json_option, print_json, say
from zkbroker.errors import ClientError, ConfigError
from zkbroker.security.sasl import SCRAM_SHA_256, SCRAM_SHA_512

if TYPE_CHECKING:
    from zkbroker.security.sasl.scram import ScramCredential

MECHANISMS = (SCRAM_SHA_256, SCRAM_SHA_512)
PASSWORD_VARIABLE = "ZKBROKER_USER_PASSWORD"  # noqa: S105 - the name of a variable
_DEFAULT_ITERATIONS = 4096
_MAX_PASSWORD_BYTES = 64 * 1024

_mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    multiple=True,
    help="SCRAM mechanism; both by default. Repeatable.",
)
_iterations_option = click.option(
    "--iterations",
    type=int,
    default=_DEFAULT_ITERATIONS,
    show_default=True,
    help="Rounds of hashing: more make stolen credentials harder to guess, and logins slower.",
)
_password_option = click.option(
    "--password-file",
    metavar="FILE",
    help="File that holds the password; - for standard input. Asked for without it, or taken from "
    f"{PASSWORD_VARIABLE}.",
)


@click.group(
    "users",
    epilog="\b\nExamples:\n"
    "  zkbroker users add alice -z 127.0.0.1:2181\n"
    "  zkbroker users add alice --password-file secret.txt --iterations 8192\n"
    "  zkbroker users list",
)
def command() -> None:
    """Manage the users that may log in by SCRAM.

    Users are kept in ZooKeeper, as Kafka's own kafka-configs keeps them: give -z, or set
    ZKBROKER_ZOOKEEPER once. Brokers use a change at once. Passwords are not stored, and never given
    on the command line, which others can read.
    """


@command.command("add", epilog="\b\nExample:\n  zkbroker users add alice --mechanism SCRAM-SHA-512")
@click.argument("user")
@zookeeper_option
@_mechanism_option
@_iterations_option
@_password_option
def add_command(
    user: str,
    zookeeper: str | None,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: str | None,
) -> None:
    """Add a user."""
    from zkbroker.registry.scram_users import scram_user, write_credentials

    # Users for brokers must exist before the first broker starts.
    with open_empty_session(zookeeper) as session:
        there = sorted(set(scram_user(session, user)) & set(mechanisms or MECHANISMS))
        if there:
            raise ClientError(
                f"the user {user!r} has a password for {' and '.join(there)}: set another one with "
                "zkbroker users alter"
            )
        credentials = _credentials(user, mechanisms or MECHANISMS, iterations, password_file)
        write_credentials(session, user, credentials)
    say(f"Added user {user!r} for {' and '.join(credentials)}.")


@command.command("alter", epilog="\b\nExample:\n  zkbroker users alter alice --iterations 8192")
@click.argument("user")
@zookeeper_option
@_mechanism_option
@_iterations_option
@_password_option
def alter_command(
    user: str,
    zookeeper: str | None,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: str | None,
) -> None:
    """Set a new password for a user.

    Without --mechanism, for all mechanisms of the user. Open connections stay open.
    """
    from zkbroker.registry.scram_users import scram_user, write_credentials

    with open_empty_session(zookeeper, make_chroot=False) as session:
        known = scram_user(session, user)
        if not known:
            raise ClientError(_no_user(user))
        credentials = _credentials(user, mechanisms or tuple(known), iterations, password_file)
        write_credentials(session, user, credentials)
    say(f"Changed the password of user {user!r} for {' and '.join(credentials)}.")


@command.command("list", epilog="\b\nExample:\n  zkbroker users list -z 127.0.0.1:2181")
@zookeeper_option
@json_option
def list_command(zookeeper: str | None, as_json: bool) -> None:
    """List users, their mechanisms and iterations."""
    from zkbroker.registry.scram_users import scram_users

    with open_empty_session(zookeeper, make_chroot=False) as session:
        users = scram_users(session)
    if as_json:
        print_json(users)
        return
    for user, mechanisms in users.items():
        shown = (
            f"{name} ({'cannot be read' if count is None else f'{count} iterations'})"
            for name, count in mechanisms.items()
        )
        say(f"{user}  {', '.join(shown)}")


@command.command("delete", epilog="\b\nExample:\n  zkbroker users delete alice")
@click.argument("user")
@zookeeper_option
@_mechanism_option
def delete_command(user: str, zookeeper: str | None, mechanisms: tuple[str, ...]) -> None:
    """Delete a user's passwords: all, or those of --mechanism.

    Quotas of the user stay. Open connections stay open.
    """
    from zkbroker.registry.scram_users import delete_credentials, scram_user

    with open_empty_session(zookeeper, make_chroot=False) as session:
        known = scram_user(session, user)
        doomed = [name for name in known if name in (mechanisms or MECHANISMS)]
        if not doomed:
            raise ClientError(_no_user(user, mechanisms))
        delete_credentials(session, user, doomed)
    say(f"Deleted user {user!r} for {' and '.join(doomed)}.")


def _no_user(user: str, mechanisms: tuple[str, ...] = ()) -> str:
    which = f" for {' and '.join(mechanisms)}" if mechanisms else ""
    return f"there is no user {user!r}{which}: zkbroker users list shows all users"


def _credentials(
    user: str, mechanisms: tuple[str, ...], iterations: int, password_file: str | None
) -> "dict[str, ScramCredential]":
    from zkbroker.security.sasl.scram import HASHES, make_credential

    if not user:
        raise ConfigError("the user has no name: give one")
    password = _password(user, password_file)
    return {
        name: make_credential(HASHES[name], password, iterations)
        for name in MECHANISMS
        if name in mechanisms
    }


def _password(user: str, password_file: str | None) -> str:
    """Return the password: from a file, standard input, the environment or a prompt."""
    if password_file is not None:
        return _read_password(password_file)
    if PASSWORD_VARIABLE in os.environ:
        return os.environ[PASSWORD_VARIABLE]
    if sys.stdin.isatty():
        asked: str = click.prompt(
            f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True
        )
        return asked
    return _read_password("-")


def _read_password(name: str) -> str:
    """Read a password, without its line end."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_MAX_PASSWORD_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_MAX_PASSWORD_BYTES + 1)
        if len(data) > _MAX_PASSWORD_BYTES:
            raise ConfigError(f"{name} holds more than a password")
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the password from {name}: {error}") from error
    if "\n" in text:
        raise ConfigError(f"{name} holds several lines: a password is one")
    return text
