"""Options of `kafka-configs`, translated into ours."""

import click
import pytest

from zkbroker.cli.compat.config_tool import TOOLS

ZK = ("--zookeeper", "zk:2181")
OUR_ZK = ["--genuine-text", "-z", "zk:2181"]


def _translated(*arguments):
    tool = TOOLS["kafka-configs"]
    return tool.translate(tool.parse(arguments))


@pytest.mark.parametrize(
    ("arguments", "means"),
    [
        ("--entity-type topics --entity-name t", ["--topic", "t"]),
        ("--entity-type users", ["--users"]),
        ("--entity-type users --entity-default", ["--user-default"]),
        ("--entity-type users --entity-name u --entity-type clients --entity-name c",
         ["--user", "u", "--client", "c"]),
        ("--entity-type users --entity-default --entity-type clients --entity-name c",
         ["--user-default", "--client", "c"]),
        ("--entity-type users --entity-name u --entity-type clients --entity-default",
         ["--user", "u", "--client-default"]),
        ("--entity-type users --entity-default --entity-type clients --entity-default",
         ["--user-default", "--client-default"]),
        ("--entity-type users --entity-type clients --entity-name u", ["--user", "u", "--clients"]),
        ("--user u --client-defaults", ["--user", "u", "--client-default"]),
        ("--broker 1 --all", ["--broker", "1", "--all"]),
    ],
)  # fmt: skip
def test_entity_names_belong_to_types_in_order(arguments, means):
    assert _translated(*ZK, "--describe", *arguments.split()) == [
        "configs", "describe", *OUR_ZK, *means
    ]  # fmt: skip


def test_settings_are_split_at_commas_outside_brackets():
    shown = _translated(
        *ZK, "--alter", "--entity-type", "topics", "--entity-name", "t",
        "--add-config",
        "cleanup.policy=[compact,delete], retention.ms=1,k=[iterations=1,password=a=b]",
        "--delete-config", "flush.ms, flush.messages",
    )  # fmt: skip
    assert shown == [
        "configs", "alter", *OUR_ZK, "--topic", "t",
        "--config", "cleanup.policy=compact,delete", "--config", "retention.ms=1",
        "--config", "k=iterations=1,password=a=b",
        "--delete-config", "flush.ms", "--delete-config", "flush.messages",
    ]  # fmt: skip


def test_bootstrap_server_and_command_config_are_passed_on():
    assert _translated(
        "--bootstrap-server", "b:9092", "--command-config", "f", "--describe", "--entity-type",
        "brokers", "--entity-name", "1",
    ) == ["configs", "describe", "--genuine-text", "-b", "b:9092", "--command-config", "f",
          "--broker", "1"]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--describe --entity-type topics", "exactly one of --zookeeper, --bootstrap-server"),
        ("--zookeeper z --entity-type topics", "exactly one of --describe, --alter"),
        ("--zookeeper z --describe", "give --entity-type"),
        ("--zookeeper z --describe --entity-type groups", "groups is not known"),
        ("--zookeeper z --describe --entity-name t", "give --entity-type"),
        ("--zookeeper z --describe --entity-type users --entity-name a --entity-name b",
         "needs an --entity-type"),
        ("--zookeeper z --describe --entity-type users --entity-type users", "given twice"),
        ("--zookeeper z --describe --entity-type users --entity-type topics", "go together"),
        ("--zookeeper z --alter --entity-type users --entity-name a", "needs --add-config"),
        ("--zookeeper z --alter --entity-type users --add-config a=1", "needs --entity-name"),
        ("--zookeeper z --alter --entity-type users --entity-name a --add-config a", "KEY=VALUE"),
        ("--bootstrap-server b --describe --entity-type users", "kept in ZooKeeper"),
    ],
)  # fmt: skip
def test_incomplete_options_are_usage_errors(arguments, reason):
    with pytest.raises(click.UsageError, match=reason):
        _translated(*arguments.split())
