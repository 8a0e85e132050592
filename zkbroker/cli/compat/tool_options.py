"""The options given to a genuine tool, and their translation into ours.

Invariant: tools read their options only here; a missing value is a usage error.
"""

from collections.abc import Iterable, Mapping

import click

Given = dict[str, list[str]]
"""Option → its values, none for a flag; bare arguments are under `""`."""

FIND = ("zookeeper", "broker-list", "bootstrap-server")
"""Options that name the cluster."""

COMMAND_CONFIG = "command-config"


def one(given: Given, name: str) -> str | None:
    """Return the last value of an option, None without one."""
    values = given.get(name)
    return values[-1] if values else None


def required(given: Given, name: str) -> str:
    """Return the last value of an option.

    Raises:
        click.UsageError: the option was not given.
    """
    value = one(given, name)
    if value is None:
        raise click.UsageError(f"--{name} is required")
    return value


def exactly_one(given: Given, names: Iterable[str], error: str) -> str:
    """Return the one option of these that was given.

    Raises:
        click.UsageError: none was given, or several.
    """
    found = [name for name in names if name in given]
    if len(found) != 1:
        raise click.UsageError(error)
    return found[0]


def pass_on(given: Given, names: Iterable[str] | Mapping[str, str]) -> list[str]:
    """Pass options on, under another name if there is one; those without a value as flags."""
    arguments: list[str] = []
    for name in names:
        if name in given:
            ours = names[name] if isinstance(names, Mapping) else f"--{name}"
            arguments += [part for value in given[name] for part in (ours, value)] or [ours]
    return arguments


def command_config(given: Given, *names: str) -> list[str]:
    """Return our option for the file of security settings; tools name theirs differently."""
    for name in (*names, COMMAND_CONFIG):
        path = one(given, name)
        if path is not None:
            return ["--command-config", path]
    return []


def properties_of(given: Given) -> dict[str, str]:
    """Return the properties of `--property key=value`."""
    return dict(text.partition("=")[::2] for text in given.get("property", []))


def discovery(given: Given) -> list[str]:
    """Return our options that name the cluster."""
    return pass_on(given, {"zookeeper": "-z", "broker-list": "-b", "bootstrap-server": "-b"})
