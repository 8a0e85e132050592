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
    exactly_one,
    one,
    pass_on,
    required,
)

_PLACES = ("bootstrap-server", "zookeeper")
_ONE_PLACE = "give exactly one of --bootstrap-server and --zookeeper"
_TOPIC_ACTIONS = ("list", "create", "describe", "alter", "delete")
_TOPIC_VALUES = (
    "partitions", "replication-factor", "replica-assignment", "config", "delete-config",
)  # fmt: skip
_TOPIC_FLAGS = (
    "unavailable-partitions", "under-replicated-partitions", "under-min-isr-partitions",
    "topics-with-overrides", "disable-rack-aware", "if-not-exists",
)  # fmt: skip
_DUMP_VALUES = ("files", "max-message-size", "value-decoder-class", "key-decoder-class")
_DUMP_FLAGS = (
    "print-data-log", "deep-iteration", "verify-index-only", "index-sanity-check",
    "offsets-decoder",
)  # fmt: skip


def _topics(given: Given) -> list[str]:
    action = exactly_one(
        given,
        _TOPIC_ACTIONS,
        "give exactly one of --list, --create, --describe, --alter, --delete",
    )
    topic = one(given, "topic")
    place = exactly_one(given, _PLACES, _ONE_PLACE)
    if action == "create" and place == "zookeeper" and "replica-assignment" not in given:
        # Like the genuine tool with --zookeeper, which has no defaults.
        required(given, "partitions")
        required(given, "replication-factor")
    shown = ["topics", action, *discovery(given), *command_config(given)]
    if action in ("create", "alter", "delete"):
        shown.append(required(given, "topic"))
    elif action == "describe" and topic is not None:
        shown.append(topic)
    return shown + pass_on(given, (*_TOPIC_VALUES, *_TOPIC_FLAGS))


def _reassign(given: Given) -> list[str]:
    action = exactly_one(
        given,
        ("generate", "execute", "verify"),
        "give exactly one of --generate, --execute, --verify",
    )
    if "zookeeper" not in given and "bootstrap-server" not in given:
        raise click.UsageError("give --bootstrap-server or --zookeeper")
    # If both are given, brokers only serve moves between directories, as in newer tools.
    place = {"zookeeper": "-z"} if "zookeeper" in given else {"bootstrap-server": "-b"}
    where = [*pass_on(given, place), *command_config(given)]
    if action == "generate":
        shown = ["reassign", "plan", *where, "--with-current"]
        shown += ["--topics-file", required(given, "topics-to-move-json-file")]
        shown += ["--brokers", required(given, "broker-list")]
        return shown + pass_on(given, ["disable-rack-aware"])
    shown = ["reassign", action, required(given, "reassignment-json-file"), *where]
    if action == "verify":
        shown.append("--status-zero")
    else:
        shown += ["--no-rollback", *pass_on(given, ["throttle"])]
    return shown


def _elect(given: Given) -> list[str]:
    exactly_one(given, _PLACES, _ONE_PLACE)
    shown = ["elect", "--genuine-text", *discovery(given), *command_config(given, "admin.config")]
    return shown + pass_on(given, {"path-to-json-file": "--file"})


def _dump(given: Given) -> list[str]:
    return ["dump-log", *pass_on(given, (*_DUMP_VALUES, *_DUMP_FLAGS))]


TOOLS = {
    "kafka-topics": Tool(
        "List, create, describe, alter and delete topics.",
        _topics,
        example="--zookeeper 127.0.0.1:2181 --create --topic visits --partitions 8 "
        "--replication-factor 3",
        values=(*_PLACES, "topic", *_TOPIC_VALUES, COMMAND_CONFIG),
        flags=(*_TOPIC_ACTIONS, *_TOPIC_FLAGS),
    ),
    "kafka-reassign-partitions": Tool(
        "Move partitions between brokers.",
        _reassign,
        example="--zookeeper 127.0.0.1:2181 --reassignment-json-file plan.json --execute",
        values=(
            *_PLACES, COMMAND_CONFIG, "reassignment-json-file", "topics-to-move-json-file",
            "broker-list", "throttle",
        ),
        flags=("generate", "execute", "verify", "disable-rack-aware"),
        ignored=("timeout",),
    ),
    "kafka-preferred-replica-election": Tool(
        "Let preferred replicas lead again.",
        _elect,
        example="--zookeeper 127.0.0.1:2181",
        values=(*_PLACES, "path-to-json-file", "admin.config", COMMAND_CONFIG),
    ),
    "kafka-dump-log": Tool(
        "Print the contents of segments and indexes.",
        _dump,
        example="--files visits-0/00000000000000000000.log --print-data-log",
        values=_DUMP_VALUES,
        flags=_DUMP_FLAGS,
    ),
}  # fmt: skip
