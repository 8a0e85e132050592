"""How commands connect to brokers: `--command-config FILE`, or settings of their own.

A command's security travels with its click context, so that whatever opens a cluster in it uses it.

Invariant: secrets come from files: a command that is given none connects plainly.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from zkbroker.cli.output import say
from zkbroker.config.java_options import java_properties
from zkbroker.config.properties import load_properties
from zkbroker.config.security import ClientSecurity, is_security

F = TypeVar("F", bound=Callable[..., Any])

OPTION = "--command-config"
_META = "zkbroker.security"
# Of a client's file, that say nothing to a command.
_QUIET = ("client.id", "bootstrap.servers", "group.id")


def security_option(command: F) -> F:
    """Add `--command-config`; what it says is found by `current_security`."""
    return click.option(
        OPTION,
        "command_config",
        envvar="ZKBROKER_COMMAND_CONFIG",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        expose_value=False,
        callback=_read,
        help="Property file with security.protocol, ssl.*, sasl.* and zookeeper.* of connections.",
    )(command)


def _read(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is None or context.resilient_parsing:
        return
    properties = load_properties(path)
    others = [key for key in properties if not is_security(key) and key not in _QUIET]
    if others:
        say(
            f"warning: {OPTION} {path}: only security.protocol, ssl.*, sasl.* and the logins at "
            f"ZooKeeper have an effect, not {', '.join(sorted(others))}",
            err=True,
        )
    use_security(properties)


def use_security(properties: Mapping[str, str]) -> None:
    """Add the security settings among properties to those of the command; later ones count."""
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
    return ClientSecurity.from_properties(
        security_properties(), warn=lambda text: say(f"warning: {text}", err=True)
    )


def _only(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if is_security(key)}
