"""Settings given on a command line."""

import click


def parse_settings(settings: tuple[str, ...], hint: str) -> dict[str, str]:
    """Turn `KEY=VALUE` arguments into a dict.

    Raises:
        click.BadParameter: an argument has no `=`.
    """
    properties: dict[str, str] = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint=hint)
        properties[key.strip()] = value.strip()
    return properties
