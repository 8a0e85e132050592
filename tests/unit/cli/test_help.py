import pytest
from click.testing import CliRunner

from zkbroker.cli.main import cli


def output_of(*arguments, status=0):
    ran = CliRunner().invoke(cli, arguments, prog_name="zkbroker")
    assert ran.exit_code == status, ran.output
    return ran.output


@pytest.mark.parametrize(
    "names", [(), ("topics",), ("topics", "create"), ("kcat",), ("kafka-topics.sh",), ("help",)]
)
def test_help_prints_the_help_option_of_a_command(names):
    assert output_of("help", *names) == output_of(*names, "--help")


def test_unknown_command_names_are_refused():
    assert "Did you mean topics" in output_of("help", "topic", status=2)
    assert "No such command 'creat'" in output_of("help", "topics", "creat", status=2)
    assert "zkbroker top has no commands of its own" in output_of("help", "top", "x", status=2)
