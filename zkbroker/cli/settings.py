"""Options and settings of command lines."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from zkbroker.config.properties import read_properties
from zkbroker.config.references import resolve

F = TypeVar("F", bound=Callable[..., Any])


def grouped(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return one decorator that adds options to a command, in the order of its help."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def settings_option(*names: str, text: str) -> Callable[[F], F]:
    """Return a repeatable option of `KEY=VALUE`, given to the command as `settings`."""
    return click.option(*names, "settings", metavar="KEY=VALUE", multiple=True, help=text)


def parse_settings(settings: tuple[str, ...], hint: str) -> dict[str, str]:
    """Turn `KEY=VALUE` arguments into a dict; values may refer to files and to the environment.

    Raises:
        click.BadParameter: an argument has no `=`.
        ConfigError: a reference leads nowhere.
    """
    properties: dict[str, str] = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint=hint)
        properties[key.strip()] = value.strip()
    return resolve(properties, hint, read_properties)
