"""How commands connect to brokers: `--command-config FILE`, or settings of their own.

A command's security settings are in its click context, where all code that connects finds them.

Invariant: secrets come from files; a command without a file connects without TLS or a login.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import click

from zkbroker.cli.output import warn
from zkbroker.config.java_options import java_properties
from zkbroker.config.properties import load_properties
from zkbroker.config.security import ClientSecurity, is_security
from zkbroker.errors import ZkbrokerError

F = TypeVar("F", bound=Callable[..., Any])

OPTION = "--command-config"
_META = "zkbroker.security"
_NOTE = f"security.protocol, ssl.* and sasl.* belong in a property file: give {OPTION} FILE"
# Settings in a client's file that mean nothing to a command.
_QUIET = ("client.id", "bootstrap.servers", "group.id")


def security_option(command: F) -> F:
    """Add `--command-config`; `current_security` returns its settings.

    If a command fails because it has no security settings, its error says so.
    """

    @functools.wraps(command)
    def noted(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except ZkbrokerError as error:
            if "security.protocol" in str(error) and not security_properties():
                error.add_note(_NOTE)
            raise

    option = click.option(
        OPTION,
        "command_config",
        envvar="ZKBROKER_COMMAND_CONFIG",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        expose_value=False,
        callback=_read,
        help="Property file with security.protocol, ssl.*, sasl.* and zookeeper.* of connections.",
    )
    return cast("F", option(noted))


def _read(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is None or context.resilient_parsing:
        return
    properties = load_properties(path)
    others = [key for key in properties if not is_security(key) and key not in _QUIET]
    if others:
        warn(
            f"{OPTION} {path}: only security.protocol, ssl.*, sasl.* and the logins at ZooKeeper "
            f"have an effect, not {', '.join(sorted(others))}"
        )
    use_security(properties)


def use_security(properties: Mapping[str, str]) -> None:
    """Add the security settings among properties to those of the command; later ones override."""
    meta = click.get_current_context().meta
    meta[_META] = {**security_properties(), **_only(properties)}


def security_properties() -> dict[str, str]:
    """Return the security settings of the command, and of KAFKA_OPTS, as properties."""
    context = click.get_current_context(silent=True)
    given = {} if context is None else context.meta.get(_META, {})
    return {**java_properties(), **given}


def current_security() -> ClientSecurity:
    """Return how the command connects to brokers.

    Raises:
        ConfigError: the settings do not fit.
    """
    return ClientSecurity.from_properties(security_properties(), warn=warn)


def _only(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if is_security(key)}
