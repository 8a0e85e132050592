"""The genuine tools of offsets and of groups in ZooKeeper.

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


def _offset_checker(given: Given) -> list[str]:
    topics = (one(given, "topic") or "").split(",")
    shown = ["groups", "describe", required(given, "group"), "-z", required(given, "zookeeper")]
    shown.append("--table-only")
    if "broker-info" in given:
        shown.append("--broker-info")
    return shown + [part for topic in topics if topic for part in ("-t", topic)]


_RESETS = {
    "to-earliest": "earliest",
    "to-latest": "latest",
    "to-current": "current",
    "to-offset": "offset:",
    "shift-by": "shift:",
    "by-duration": "duration:",
    "to-datetime": "",
    "from-file": "file:",
}
_ACTIONS = ("list", "describe", "delete", "reset-offsets")


def _consumer_groups(given: Given) -> list[str]:
    action = exactly_one(
        given, _ACTIONS, "give exactly one of --list, --describe, --delete, --reset-offsets"
    )
    place = exactly_one(
        given,
        ("bootstrap-server", "zookeeper"),
        "give --bootstrap-server, or --zookeeper for groups kept there",
    )
    where = [*discovery(given), *command_config(given)]
    if action == "list":
        kept = "zookeeper" if place == "zookeeper" else "coordinator"
        return ["groups", "list", *where, "--names-of", kept]
    groups = given.get("group", [])
    if not groups:
        raise click.UsageError("--group is required")
    if action == "delete":
        return ["groups", "delete", *where, "--genuine-text", *groups]
    if len(groups) > 1:
        raise click.UsageError("give --group once")
    if action == "describe":
        if place == "zookeeper":
            return ["groups", "describe", *groups, *where, "--table-only"]
        flags = pass_on(given, ("members", "state"))
        return ["groups", "describe", *groups, *where, "--genuine-text", *flags]
    way = exactly_one(
        given, _RESETS, f"give exactly one of {' '.join(f'--{each}' for each in _RESETS)}"
    )
    if "execute" in given and "dry-run" in given:
        raise click.UsageError("give --execute or --dry-run, not both")
    target = _RESETS[way] + (one(given, way) or "")
    shown = ["offsets", "reset", *where, "--genuine-text"]
    if place != "zookeeper":
        shown += ["--kept-by", "coordinator"]
    # A file names its partitions; the genuine tool accepts a scope beside it and ignores it.
    scopes = {} if way == "from-file" else {"topic": "-t", "all-topics": "--all-topics"}
    shown += pass_on(given, {**scopes, "export": "--csv"})
    if "execute" not in given:
        shown.append("--dry-run")
    return [*shown, "--", *groups, target]


def _get_offsets(given: Given) -> list[str]:
    shown = ["offsets", "get", "-t", required(given, "topic"), *discovery(given)]
    return [*shown, *command_config(given), *pass_on(given, ("partitions", "time", "offsets"))]


def _export(given: Given) -> list[str]:
    group = one(given, "group")
    shown = ["offsets", "export", "-z", required(given, "zkconnect")]
    return shown + pass_on(given, {"output-file": "-o"}) + ([group] if group else [])


def _import(given: Given) -> list[str]:
    file = required(given, "input-file")
    return ["offsets", "import", file, "-z", required(given, "zkconnect")]


def _update(given: Given) -> list[str]:
    from zkbroker.config import load_properties

    bare = given.get("", [])
    if len(bare) != 3:
        raise click.UsageError("give earliest or latest, a consumer property file, and a topic")
    when, path, topic = bare
    properties = load_properties(path)
    group = properties.get("group.id") or properties.get("groupid")
    connect = properties.get("zookeeper.connect") or properties.get("zk.connect")
    if group is None or connect is None:
        raise click.UsageError(f"{path} needs group.id and zookeeper.connect")
    where = ["-z", connect, "--kept-by", "zookeeper"]
    return ["offsets", "reset", group, when, *where, "-t", topic]


def _verify(given: Given) -> list[str]:
    group = required(given, "group")
    return ["groups", "verify", group, "-z", required(given, "zookeeper.connect")]


TOOLS = {
    "kafka-consumer-groups": Tool(
        "List, describe and delete groups, and reset their offsets.",
        _consumer_groups,
        example="--bootstrap-server 127.0.0.1:9092 --describe --group counters",
        values=(
            "bootstrap-server", "zookeeper", "group", "topic", "to-offset", "shift-by",
            "by-duration", "to-datetime", "from-file", COMMAND_CONFIG,
        ),
        flags=(
            *_ACTIONS, "members", "state", "all-topics", "to-earliest", "to-latest", "to-current",
            "execute", "dry-run", "export", "offsets", "new-consumer", "verbose",
        ),
        ignored=("timeout", "new-consumer", "verbose"),
    ),
    "kafka-consumer-offset-checker": Tool(
        "Show a ZooKeeper group's offsets and lag.",
        _offset_checker,
        example="--zookeeper 127.0.0.1:2181 --group counters",
        values=("zookeeper", "group", "topic"),
        flags=("broker-info",),
        ignored=("retry.backoff.ms", "socket.timeout.ms"),
    ),
    "kafka-get-offsets": Tool(
        "Print log offsets by time.",
        _get_offsets,
        example="--broker-list 127.0.0.1:9092 --topic visits --time -1",
        values=(
            "broker-list", "bootstrap-server", "topic", "partitions", "time", "offsets",
            COMMAND_CONFIG,
        ),
        ignored=("max-wait-ms",),
    ),
    "kafka-export-zk-offsets": Tool(
        "Write the offsets of ZooKeeper groups.",
        _export,
        example="--zkconnect 127.0.0.1:2181 --group counters",
        values=("zkconnect", "group", "output-file"),
    ),
    "kafka-import-zk-offsets": Tool(
        "Commit exported offsets.", _import,
        example="--zkconnect 127.0.0.1:2181 --input-file offsets.txt",
        values=("zkconnect", "input-file")
    ),
    "kafka-update-offsets-in-zk": Tool(
        "Reset a ZooKeeper group: earliest|latest consumer.properties topic.",
        _update,
        example="earliest consumer.properties visits",
        positional=3,
    ),
    "kafka-verify-consumer-rebalance": Tool(
        "Find unowned partitions and owners that are gone.",
        _verify,
        example="--zookeeper.connect 127.0.0.1:2181 --group counters",
        values=("zookeeper.connect", "group"),
    ),
}  # fmt: skip
