"""Settings given on a command line."""

import click

from zkbroker.config.properties import read_properties
from zkbroker.config.references import resolve


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
