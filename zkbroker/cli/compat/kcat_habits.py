"""Other habits of kcat's users: switches without effect here, and modes of other commands."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_MODES = {
    "-C": "to read: zkbroker consume -t TOPIC",
    "-P": "to publish: zkbroker produce -t TOPIC",
    "-L": "to list brokers and partitions: zkbroker metadata",
    "-Q": "to look up offsets by time: zkbroker offsets get -t TOPIC --time MS",
}


def kcat_switches(mode: str) -> Callable[[F], F]:
    """Let a command accept kcat's switches without effect; its help does not show them.

    Args:
        mode: the switch of its own mode; those of other modes are refused with the command to
            type instead.
    """

    def elsewhere(context: click.Context, parameter: click.Parameter, given: bool) -> None:
        if given:
            letter = parameter.opts[0]
            raise click.UsageError(f"{letter} is another command here. {_MODES[letter]}")

    def decorate(command: F) -> F:
        hidden: dict[str, Any] = {"hidden": True, "expose_value": False}
        # Each parameter is named here: click would give -q and -Q the same name.
        for letter in _MODES:
            refuse = None if letter == mode else elsewhere
            name = f"mode_{letter[1]}"
            command = click.option(letter, name, is_flag=True, callback=refuse, **hidden)(command)
        for letter in ("-q", "-E"):
            name = f"kcat_{letter[1]}"
            command = click.option(letter, name, is_flag=True, **hidden)(command)
        command = click.option("-v", "kcat_v", count=True, **hidden)(command)
        command = click.option("-d", "kcat_d", metavar="CONTEXTS", **hidden)(command)
        return click.option("-m", "kcat_m", type=float, **hidden)(command)

    return decorate


def properties_option(command: F) -> F:
    """Add `-F`, given to the command as `properties_file`."""
    return click.option(
        "-F",
        "--properties",
        "properties_file",
        type=click.Path(exists=True, dir_okay=False),
        help="Read settings from a property file; -X overrides it.",
    )(command)


def brokers_of(properties: dict[str, str]) -> str | None:
    """Remove the brokers from settings and return them; kcat's configuration files name them."""
    found = [properties.pop(key, None) for key in ("bootstrap.servers", "metadata.broker.list")]
    return next((each for each in found if each), None)
