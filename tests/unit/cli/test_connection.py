import click
import pytest
from click.testing import CliRunner

from zkbroker.cli import connection
from zkbroker.cli.connection import (
    cluster_options,
    discovery_properties,
    open_cluster,
    open_session,
    zookeeper_option,
)
from zkbroker.errors import ConfigError, RegistryError


def test_brokers_count_before_a_zookeeper():
    assert discovery_properties("b:1", "z:1") == {"metadata.broker.list": "b:1"}
    assert discovery_properties(None, "z:1") == {"zookeeper.connect": "z:1"}


def test_a_command_without_a_cluster_says_what_to_give():
    with pytest.raises(ConfigError, match="ZKBROKER_BOOTSTRAP"):
        discovery_properties(None, None)
    with pytest.raises(ConfigError, match="ZKBROKER_BOOTSTRAP"), open_cluster(None, None):
        pass
    with pytest.raises(ConfigError, match="ZKBROKER_ZOOKEEPER"), open_session(None):
        pass


@pytest.mark.parametrize(
    ("typed", "used"),
    [
        ([], ("env:9092", "env:2181")),
        (["-z", "typed:2181"], (None, "typed:2181")),
        (["-b", "typed:9092"], ("typed:9092", "env:2181")),
        (["-b", "typed:9092", "-z", "typed:2181"], ("typed:9092", "typed:2181")),
    ],
)
def test_a_zookeeper_that_was_typed_counts_before_brokers_of_the_environment(typed, used):
    found = []

    @click.command()
    @cluster_options
    def command(bootstrap, zookeeper):
        found.append((bootstrap, zookeeper))

    environment = {"ZKBROKER_BOOTSTRAP": "env:9092", "ZKBROKER_ZOOKEEPER": "env:2181"}
    ran = CliRunner(env=environment).invoke(command, typed)
    assert ran.exit_code == 0, ran.output
    assert found == [used]


@pytest.mark.parametrize(
    ("typed", "used"),
    [
        ([], "env:2181"),
        (["-z", "typed:2181"], "typed:2181"),
        (["-b", "typed:9092"], None),
        (["-b", "typed:9092", "-z", "typed:2181"], "typed:2181"),
    ],
)
def test_brokers_that_were_typed_count_before_a_zookeeper_of_the_environment(typed, used):
    found = []

    @click.command()
    @zookeeper_option
    def command(zookeeper):
        found.append(zookeeper)

    environment = {"ZKBROKER_BOOTSTRAP": "env:9092", "ZKBROKER_ZOOKEEPER": "env:2181"}
    ran = CliRunner(env=environment).invoke(command, typed)
    assert ran.exit_code == 0, ran.output
    assert found == [used]


def test_the_zookeeper_of_brokers_may_have_another_address_from_here(monkeypatch):
    def refuse(*arguments, **options):
        raise RegistryError("no ZooKeeper answered")

    monkeypatch.setattr(connection, "_zookeeper_of_brokers", lambda: "inner:2181/kafka")
    monkeypatch.setattr("zkbroker.zookeeper.session.ZkSession", refuse)
    with pytest.raises(RegistryError) as refused, open_session(None):
        pass
    (note,) = refused.value.__notes__
    assert note.startswith("inner:2181/kafka is the zookeeper.connect of the brokers; if it has")
