import click
import pytest
from click.testing import CliRunner

from zkbroker.cli.compat.kcat_habits import brokers_of, kcat_switches


@click.command()
@kcat_switches("-C")
def consume():
    click.echo("ran")


def test_brokers_are_removed_from_settings():
    properties = {"metadata.broker.list": "a:1", "bootstrap.servers": "", "acks": "1"}
    assert brokers_of(properties) == "a:1"
    assert properties == {"acks": "1"}
    assert brokers_of({}) is None


@pytest.mark.parametrize("arguments", [["-C"], ["-q", "-E", "-vv", "-d", "all", "-m", "5"]])
def test_switches_without_effect_are_accepted(arguments):
    assert CliRunner().invoke(consume, arguments).output == "ran\n"


def test_mode_of_another_command_is_refused():
    result = CliRunner().invoke(consume, ["-P"])
    assert result.exit_code == 2
    assert "zkbroker produce -t TOPIC" in result.output
