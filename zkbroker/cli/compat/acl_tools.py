"""The genuine tool that changes ACLs.

Invariant: that of `kafka_tools`.
"""

import click

from zkbroker.cli.compat.kafka_tool import Tool
from zkbroker.cli.compat.tool_options import Given, command_config, exactly_one, one, pass_on

_RESOURCES = (
    "topic", "group", "transactional-id", "delegation-token", "resource-pattern-type",
)  # fmt: skip
_CLIENTS = ("allow-principal", "deny-principal", "allow-host", "deny-host", "operation")
_SHORTCUTS = ("producer", "consumer", "idempotent")


def _acls(given: Given) -> list[str]:
    action = exactly_one(
        given,
        ("list", "add", "remove"),
        "Command must include exactly one action: --list, --add, --remove.",
    )
    shown = ["acls", action, "--genuine-text", *_where(given), *pass_on(given, _RESOURCES)]
    if "cluster" in given:
        shown.append("--cluster")
    if action == "list":
        return shown + pass_on(given, ["principal"])
    shown += pass_on(given, (*_CLIENTS, *_SHORTCUTS))
    if action == "remove":
        shown += _exactly(given) + (["--yes"] if "force" in given else [])
    return shown


def _exactly(given: Given) -> list[str]:
    """Return the defaults of the genuine tool for the ACLs to remove, if it names any."""
    exactly: list[str] = []
    named = [each for each in ("allow", "deny") if f"{each}-principal" in given]
    for each in named:
        if f"{each}-host" not in given:
            exactly += [f"--{each}-host", "*"]
    shortcut = "producer" in given or "consumer" in given
    if named and not shortcut and "operation" not in given:
        exactly += ["--operation", "All"]
    return exactly


def _where(given: Given) -> list[str]:
    bootstrap = one(given, "bootstrap-server")
    if bootstrap is not None:
        return ["-b", bootstrap, *command_config(given)]
    for text in given.get("authorizer-properties", []):
        key, _, value = text.partition("=")
        if key.strip() == "zookeeper.connect":
            return ["-z", value.strip()]
    raise click.UsageError(
        "give --bootstrap-server, or --authorizer-properties zookeeper.connect=HOST:PORT"
    )


TOOLS = {
    "kafka-acls": Tool(
        "List, add and remove ACLs.",
        _acls,
        values=(
            *("bootstrap-server", "command-config", "authorizer-properties", "principal"),
            *_RESOURCES,
            *_CLIENTS,
        ),
        flags=("list", "add", "remove", *_SHORTCUTS, "force"),
        optional=("cluster",),
        ignored=("authorizer", "zk-tls-config-file"),
        example="--authorizer-properties zookeeper.connect=127.0.0.1:2181 --list",
    )
}
