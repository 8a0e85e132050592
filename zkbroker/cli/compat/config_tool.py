"""Kafka's own `kafka-configs`: settings of topics, brokers, users and clients.

Invariant, beside that of `kafka_tools`: `--entity-name` and `--entity-default` belong to
`--entity-type` in the order in which they are given, and so do the short forms of 2.5 (`--user`,
`--client-defaults`, …).
"""

import re

import click

from zkbroker.cli.compat.kafka_tool import ORDER, Tool
from zkbroker.cli.compat.tool_options import Given, command_config, discovery, exactly_one, pass_on

_TYPES = {"topics": "topic", "brokers": "broker", "users": "user", "clients": "client", "ips": "ip"}
_SHORT = {singular: plural for plural, singular in _TYPES.items()}
_DEFAULTS = {f"{singular}-defaults": plural for plural, singular in _TYPES.items()}
_COMMA = re.compile(r",(?![^\[]*\])")
_WANT = "--entity-type topics, brokers, users, clients or ips"


def _configs(given: Given) -> list[str]:
    action = exactly_one(given, ("describe", "alter"), "give exactly one of --describe, --alter")
    places = ("zookeeper", "bootstrap-server")
    place = exactly_one(given, places, "give exactly one of --zookeeper, --bootstrap-server")
    entities = _entities(given)
    if place == "bootstrap-server":
        kept = [kind for kind, _ in entities if kind not in ("topics", "brokers")]
        if kept:
            raise click.UsageError(
                f"settings of {' and '.join(kept)} are kept in ZooKeeper, and brokers of "
                "this version cannot show or change them: give --zookeeper, not --bootstrap-server"
            )
    shown = ["configs", action, "--genuine-text"]
    shown += [*discovery(given), *command_config(given)]
    for kind, name in entities:
        singular = _TYPES[kind]
        if name is None:
            shown.append(f"--{singular}s")
        elif name:
            shown += [f"--{singular}", name]
        else:
            shown.append(f"--{singular}-default")
    if action == "describe":
        return shown + pass_on(given, ["all"])
    if any(name is None for _, name in entities):
        raise click.UsageError("--alter needs --entity-name or --entity-default")
    for text in given.get("add-config", []):
        for setting in _split(text):
            shown += ["--config", setting]
    shown += pass_on(given, {"add-config-file": "--config-file"})
    for text in given.get("delete-config", []):
        for key in text.split(","):
            shown += ["--delete-config", key.strip()]
    if not any(each in given for each in ("add-config", "add-config-file", "delete-config")):
        raise click.UsageError("--alter needs --add-config, --add-config-file or --delete-config")
    return shown


def _entities(given: Given) -> list[tuple[str, str | None]]:
    """Return kinds with their names: "" for the default entity, None for all."""
    kinds: list[str] = []
    names: list[str] = []
    entities: list[tuple[str, str | None]] = []
    for text in given.get(ORDER, []):
        option, _, value = text.partition("=")
        if option == "entity-type":
            if value not in _TYPES:
                raise click.UsageError(f"--entity-type {value} is not known: give {_WANT}")
            kinds.append(value)
        elif option == "entity-name":
            names.append(value)
        elif option == "entity-default":
            names.append("")
        elif option in _DEFAULTS:
            entities.append((_DEFAULTS[option], ""))
        else:
            entities.append((_SHORT[option], value))
    if not kinds and not entities:
        raise click.UsageError(f"give {_WANT}")
    if len(names) > len(kinds):
        raise click.UsageError("each --entity-name or --entity-default needs an --entity-type")
    padded: list[str | None] = [*names, *([None] * (len(kinds) - len(names)))]
    entities += zip(kinds, padded, strict=True)
    found = {kind for kind, _ in entities}
    if len(found) < len(entities):
        raise click.UsageError("the same entity type is given twice")
    if len(found) > 1 and found != {"users", "clients"}:
        raise click.UsageError("only users and clients go together")
    return entities


def _split(text: str) -> list[str]:
    """Split `a=1,b=[2,3]` at the commas outside of brackets, and drop the brackets."""
    found = []
    for setting in filter(None, map(str.strip, _COMMA.split(text))):
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--add-config {setting!r} is not KEY=VALUE")
        value = value.strip()
        if value.startswith("[") and value.endswith("]"):
            value = value[1:-1]
        found.append(f"{key.strip()}={value}")
    return found


_ORDERED = (
    "entity-type", "entity-name", "entity-default", *_SHORT, *_DEFAULTS,
)  # fmt: skip

TOOLS = {
    "kafka-configs": Tool(
        "Describe and alter settings of topics, brokers, users and clients.",
        _configs,
        example="--zookeeper 127.0.0.1:2181 --alter --entity-type users --entity-name alice "
        "--add-config producer_byte_rate=1048576",
        values=(
            "zookeeper", "bootstrap-server", "command-config", "entity-type", "entity-name",
            "add-config", "add-config-file", "delete-config", *_SHORT,
        ),
        flags=("describe", "alter", "entity-default", "all", "force", *_DEFAULTS),
        ignored=("force",),
        ordered=_ORDERED,
    ),
}  # fmt: skip
