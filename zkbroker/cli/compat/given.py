"""The options that a genuine tool was given, and how they are said in ours.

Invariant: a tool asks here for what it was given; a value that is missing is a usage error.
"""

import click

Given = dict[str, list[str]]
"""Option → its values, none for a flag; the bare arguments stand under `""`."""

FIND = ("zookeeper", "broker-list", "bootstrap-server")
"""Options that say where the cluster is."""

COMMAND_CONFIG = "command-config"


def one(given: Given, name: str) -> str | None:
    """Return the last value of an option, None without one."""
    values = given.get(name)
    return values[-1] if values else None


def required(given: Given, name: str) -> str:
    """Return the last value of an option.

    Raises:
        click.UsageError: it was not given.
    """
    value = one(given, name)
    if value is None:
        raise click.UsageError(f"--{name} is required")
    return value


def pass_on(given: Given, names: dict[str, str]) -> list[str]:
    """Pass options on under another name; those without a value as flags."""
    arguments: list[str] = []
    for name, ours in names.items():
        if name in given:
            values = given[name]
            arguments += [part for value in values for part in (ours, value)] or [ours]
    return arguments


def command_config(given: Given, *names: str) -> list[str]:
    """Say where the security settings stand; the tools call the option by several names."""
    for name in (*names, COMMAND_CONFIG):
        path = one(given, name)
        if path is not None:
            return ["--command-config", path]
    return []


def properties_of(given: Given) -> dict[str, str]:
    """Return what `--property key=value` said."""
    return dict(text.partition("=")[::2] for text in given.get("property", []))


def discovery(given: Given) -> list[str]:
    """Say where the cluster is in options of ours."""
    return pass_on(given, {"zookeeper": "-z", "broker-list": "-b", "bootstrap-server": "-b"})
