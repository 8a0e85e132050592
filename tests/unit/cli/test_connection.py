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


def test_producer_connects_to_brokers_before_zookeeper():
    assert discovery_properties("b:1", "z:1") == {"metadata.broker.list": "b:1"}
    assert discovery_properties(None, "z:1") == {"zookeeper.connect": "z:1"}


def test_missing_cluster_is_refused_with_the_variables_to_set():
    with pytest.raises(ConfigError, match="ZKBROKER_BOOTSTRAP"):
        discovery_properties(None, None)
    with pytest.raises(ConfigError, match="ZKBROKER_BOOTSTRAP"), open_cluster(None, None):
        pass
    with pytest.raises(ConfigError, match="ZKBROKER_ZOOKEEPER"), open_session(None):
        pass


@pytest.mark.parametrize(
    ("option", "typed", "bootstrap", "zookeeper"),
    [
        (cluster_options, "", "env:9092", "env:2181"),
        (cluster_options, "-z typed:2181", None, "typed:2181"),
        (cluster_options, "-b typed:9092", "typed:9092", "env:2181"),
        (cluster_options, "-b typed:9092 -z typed:2181", "typed:9092", "typed:2181"),
        (zookeeper_option, "", None, "env:2181"),
        (zookeeper_option, "-z typed:2181", None, "typed:2181"),
        (zookeeper_option, "-b typed:9092", None, None),
        (zookeeper_option, "-b typed:9092 -z typed:2181", None, "typed:2181"),
    ],
)
def test_command_line_overrides_the_environment(option, typed, bootstrap, zookeeper):
    given = {}
    command = click.command()(option(lambda **values: given.update(values)))
    environment = {"ZKBROKER_BOOTSTRAP": "env:9092", "ZKBROKER_ZOOKEEPER": "env:2181"}
    ran = CliRunner(env=environment).invoke(command, typed)
    assert ran.exit_code == 0, ran.output
    assert (given.get("bootstrap"), given["zookeeper"]) == (bootstrap, zookeeper)


def test_unreachable_zookeeper_of_brokers_adds_a_note(monkeypatch):
    def refuse(*arguments, **options):
        raise RegistryError("no ZooKeeper answered")

    monkeypatch.setattr(connection, "_zookeeper_of_brokers", lambda: "inner:2181/kafka")
    monkeypatch.setattr("zkbroker.zookeeper.session.ZkSession", refuse)
    with pytest.raises(RegistryError) as refused, open_session(None):
        pass
    (note,) = refused.value.__notes__
    assert note.startswith("inner:2181/kafka is the zookeeper.connect of the brokers; if it has")
