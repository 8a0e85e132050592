"""The genuine tools that look at topics, replicas and logs, and change them.

Invariant: that of `kafka_tools`.
"""

import click

from zkbroker.cli.compat.kafka_tool import Tool
from zkbroker.cli.compat.tool_options import (
    COMMAND_CONFIG,
    Given,
    command_config,
    discovery,
    one,
    pass_on,
    required,
)


def _topics(given: Given) -> list[str]:
    actions = [each for each in ("list", "create", "describe", "alter", "delete") if each in given]
    if len(actions) != 1:
        raise click.UsageError(
            "give exactly one of --list, --create, --describe, --alter, --delete"
        )
    (action,) = actions
    topic = one(given, "topic")
    if ("zookeeper" in given) == ("bootstrap-server" in given):
        raise click.UsageError("give exactly one of --bootstrap-server and --zookeeper")
    if action == "create" and "zookeeper" in given and "replica-assignment" not in given:
        # Like the genuine tool with --zookeeper, which has no defaults.
        required(given, "partitions")
        required(given, "replication-factor")
    shown = ["topics", action, *discovery(given), *command_config(given)]
    if action in ("create", "alter", "delete"):
        shown.append(required(given, "topic"))
    elif action == "describe" and topic is not None:
        shown.append(topic)
    return shown + pass_on(
        given,
        {
            name: f"--{name}"
            for name in (
                "partitions",
                "replication-factor",
                "replica-assignment",
                "config",
                "delete-config",
                "unavailable-partitions",
                "under-replicated-partitions",
                "under-min-isr-partitions",
                "topics-with-overrides",
                "disable-rack-aware",
                "if-not-exists",
            )
        },
    )


def _reassign(given: Given) -> list[str]:
    actions = [each for each in ("generate", "execute", "verify") if each in given]
    if len(actions) != 1:
        raise click.UsageError("give exactly one of --generate, --execute, --verify")
    if "zookeeper" not in given and "bootstrap-server" not in given:
        raise click.UsageError("give --bootstrap-server or --zookeeper")
    # If both are given, brokers only serve moves between directories, as in newer tools.
    place = {"zookeeper": "-z"} if "zookeeper" in given else {"bootstrap-server": "-b"}
    where = [*pass_on(given, place), *command_config(given)]
    if actions == ["generate"]:
        shown = ["reassign", "plan", *where, "--with-current"]
        shown += ["--topics-file", required(given, "topics-to-move-json-file")]
        shown += ["--brokers", required(given, "broker-list")]
        return shown + pass_on(given, {"disable-rack-aware": "--disable-rack-aware"})
    shown = ["reassign", actions[0], required(given, "reassignment-json-file"), *where]
    if actions == ["verify"]:
        shown.append("--status-zero")
    else:
        shown += ["--no-rollback", *pass_on(given, {"throttle": "--throttle"})]
    return shown


def _elect(given: Given) -> list[str]:
    if ("zookeeper" in given) == ("bootstrap-server" in given):
        raise click.UsageError("give exactly one of --bootstrap-server and --zookeeper")
    shown = ["elect", "--genuine-text", *discovery(given), *command_config(given, "admin.config")]
    return shown + pass_on(given, {"path-to-json-file": "--file"})


def _dump(given: Given) -> list[str]:
    names = (
        "files",
        "print-data-log",
        "deep-iteration",
        "verify-index-only",
        "index-sanity-check",
        "max-message-size",
        "value-decoder-class",
        "key-decoder-class",
        "offsets-decoder",
    )
    return ["dump-log", *pass_on(given, {name: f"--{name}" for name in names})]


TOOLS = {
    "kafka-topics": Tool(
        "List, create, describe, alter and delete topics.",
        _topics,
        example="--zookeeper 127.0.0.1:2181 --create --topic visits --partitions 8 "
        "--replication-factor 3",
        values=(
            "zookeeper", "bootstrap-server", "topic", "partitions", "replication-factor",
            "replica-assignment",
            "config", "delete-config", COMMAND_CONFIG,
        ),
        flags=(
            "list", "create", "describe", "alter", "delete", "unavailable-partitions",
            "under-replicated-partitions", "under-min-isr-partitions",
            "topics-with-overrides", "disable-rack-aware", "if-not-exists",
        ),
    ),
    "kafka-reassign-partitions": Tool(
        "Move partitions between brokers.",
        _reassign,
        example="--zookeeper 127.0.0.1:2181 --reassignment-json-file plan.json --execute",
        values=(
            "zookeeper", "bootstrap-server", COMMAND_CONFIG, "reassignment-json-file",
            "topics-to-move-json-file", "broker-list", "throttle",
        ),
        flags=("generate", "execute", "verify", "disable-rack-aware"),
        ignored=("timeout",),
    ),
    "kafka-preferred-replica-election": Tool(
        "Let preferred replicas lead again.",
        _elect,
        example="--zookeeper 127.0.0.1:2181",
        values=(
            "zookeeper", "bootstrap-server", "path-to-json-file", "admin.config", COMMAND_CONFIG,
        ),
    ),
    "kafka-dump-log": Tool(
        "Print the contents of segments and indexes.",
        _dump,
        example="--files visits-0/00000000000000000000.log --print-data-log",
        values=("files", "max-message-size", "value-decoder-class", "key-decoder-class"),
        flags=(
            "print-data-log", "deep-iteration", "verify-index-only", "index-sanity-check",
            "offsets-decoder",
        ),
    ),
}  # fmt: skip
