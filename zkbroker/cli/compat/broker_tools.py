"""The genuine tools that ask brokers through their own protocol, without ZooKeeper.

Invariant: that of `kafka_tools`.
"""

import click

from zkbroker.cli.compat.kafka_tool import Tool
from zkbroker.cli.compat.tool_options import (
    COMMAND_CONFIG,
    Given,
    command_config,
    exactly_one,
    one,
    required,
)

_SERVER = "bootstrap-server"


def _asked(given: Given, *command: str) -> list[str]:
    """Return the beginning of one of our commands with output like the genuine tool's."""
    where = ["-b", required(given, _SERVER), "--genuine-text"]
    return [*command, *where, *command_config(given, "admin.config")]


def _delete_records(given: Given) -> list[str]:
    file = required(given, "offset-json-file")
    return [*_asked(given, "records", "delete"), "--file", file]


def _log_dirs(given: Given) -> list[str]:
    if "describe" not in given:
        raise click.UsageError("--describe is required")
    shown = _asked(given, "log-dirs")
    for option, ours in (("topic-list", "-t"), ("broker-list", "--broker")):
        for name in (one(given, option) or "").split(","):
            shown += [ours, name] if name else []
    return shown


def _leader_election(given: Given) -> list[str]:
    kind = required(given, "election-type").lower()
    if kind != "preferred":
        raise click.UsageError(
            f"--election-type {kind}: only preferred is known here; set the topic's "
            "unclean.leader.election.enable=true for a while to have a partition led by a replica "
            "that is not in sync"
        )
    way = exactly_one(
        given,
        ("all-topic-partitions", "topic", "path-to-json-file"),
        "give exactly one of --all-topic-partitions, --topic with --partition, --path-to-json-file",
    )
    shown = _asked(given, "elect")
    if way == "topic":
        shown.append(f"{required(given, 'topic')}-{required(given, 'partition')}")
    elif way == "path-to-json-file":
        shown += ["--file", required(given, "path-to-json-file")]
    return shown


TOOLS = {
    "kafka-delete-records": Tool(
        "Delete the records of partitions below an offset.",
        _delete_records,
        example="--bootstrap-server 127.0.0.1:9092 --offset-json-file offsets.json",
        values=(_SERVER, "offset-json-file", COMMAND_CONFIG),
    ),
    "kafka-log-dirs": Tool(
        "Show the data directories of brokers as JSON.",
        _log_dirs,
        example="--bootstrap-server 127.0.0.1:9092 --describe --topic-list visits",
        values=(_SERVER, "topic-list", "broker-list", COMMAND_CONFIG),
        flags=("describe",),
    ),
    "kafka-broker-api-versions": Tool(
        "Show the versions of each API that brokers speak.",
        lambda given: _asked(given, "api-versions"),
        example="--bootstrap-server 127.0.0.1:9092",
        values=(_SERVER, COMMAND_CONFIG),
    ),
    "kafka-leader-election": Tool(
        "Let preferred replicas lead again.",
        _leader_election,
        example="--bootstrap-server 127.0.0.1:9092 --election-type preferred "
        "--all-topic-partitions",
        values=(
            _SERVER, "election-type", "topic", "partition", "path-to-json-file", "admin.config",
            COMMAND_CONFIG,
        ),
        flags=("all-topic-partitions",),
    ),
}  # fmt: skip
