import pytest
from click.testing import CliRunner

from zkbroker.cli.main import cli


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("zkbroker.replica", "does not name a logger: give LOGGER:LEVEL"),
        ("zkbroker.replic:debug", "does not name a logger"),
        ("zkbroker.replica:loud", "'loud' is not a level: give debug, info, warning, error or d"),
    ],
)
def test_invalid_level_is_refused_before_connecting(typed, message):
    ran = CliRunner().invoke(cli, ["log-levels", typed, "-b", "127.0.0.1:1"])
    assert ran.exit_code == 2
    assert message in ran.stderr
