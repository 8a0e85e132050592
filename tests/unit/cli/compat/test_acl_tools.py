"""The genuine kafka-acls as a command of ours."""

import click
import pytest

from zkbroker.cli.compat.kafka_tools import TOOLS

ZK = ("--authorizer-properties", "zookeeper.connect=zk:2181/c")
BROKER = ("--bootstrap-server", "b:9092")


def translated(*arguments):
    tool = TOOLS["kafka-acls"]
    return tool.translate(tool.parse(arguments))


def test_cluster_options_and_actions():
    assert translated(*ZK, "--list") == ["acls", "list", "--genuine-text", "-z", "zk:2181/c"]
    assert translated(*BROKER, "--list", "--cluster")[3:] == ["-b", "b:9092", "--cluster"]
    with_config = translated(*BROKER, "--command-config", "f", "--list", "--topic", "t")
    assert with_config[3:] == ["-b", "b:9092", "--command-config", "f", "--topic", "t"]
    for wrong in (ZK, (*ZK, "--list", "--add")):
        with pytest.raises(click.UsageError, match="exactly one action"):
            translated(*wrong)
    with pytest.raises(click.UsageError, match="--bootstrap-server, or --authorizer-properties"):
        translated("--list")


def test_remove_adds_defaults_of_the_genuine_tool():
    add = translated(*ZK, "--add", "--allow-principal", "User:a", "--topic", "t")
    assert add[5:] == ["--topic", "t", "--allow-principal", "User:a"]
    remove = translated(*ZK, "--remove", "--force", "--allow-principal", "User:a", "--topic", "t")
    assert remove[-5:] == ["--allow-host", "*", "--operation", "All", "--yes"]
    every = translated(*ZK, "--remove", "--topic", "t")
    assert every[5:] == ["--topic", "t"]
    producer = translated(
        *ZK, "--remove", "--producer", "--topic", "t", "--deny-principal", "User:a"
    )
    assert producer[-2:] == ["--deny-host", "*"]
