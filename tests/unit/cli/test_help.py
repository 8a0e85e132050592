import pytest
from click.testing import CliRunner

from zkbroker.cli.main import cli


def printed(*arguments, status=0):
    ran = CliRunner().invoke(cli, arguments, prog_name="zkbroker")
    assert ran.exit_code == status, ran.output
    return ran.output


@pytest.mark.parametrize(
    "names", [(), ("topics",), ("topics", "create"), ("kcat",), ("kafka-topics.sh",), ("help",)]
)
def test_help_of_a_command_is_its_own(names):
    assert printed("help", *names) == printed(*names, "--help")


def test_mistyped_names_are_answered_as_elsewhere():
    assert "Did you mean topics" in printed("help", "topic", status=2)
    assert "No such command 'creat'" in printed("help", "topics", "creat", status=2)
    assert "zkbroker top has no commands of its own" in printed("help", "top", "x", status=2)
