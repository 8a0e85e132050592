import pytest
from click.testing import CliRunner

from zkbroker.cli.main import cli


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("zkbroker.replica", "does not name a logger: give LOGGER:LEVEL"),
        ("zkbroker.replic:debug", "does not name a logger"),
        ("zkbroker.replica:loud", "'loud' is not a level: give debug, info, warning, error or d"),
    ],
)
def test_a_mistake_is_said_before_a_broker_is_asked(typed, said):
    ran = CliRunner().invoke(cli, ["log-levels", typed, "-b", "127.0.0.1:1"])
    assert ran.exit_code == 2
    assert said in ran.stderr
