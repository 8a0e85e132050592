import pytest
from click.testing import CliRunner

from zkbroker.cli.zookeeper_security import command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "choose secure or unsecure"),
        (["closed"], "'closed' is not one of 'secure', 'unsecure'"),
        (["--zookeeper.acl=no"], "is not one of 'secure', 'unsecure'"),
    ],
)
def test_missing_or_unknown_action_is_refused(arguments, message):
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2
    assert message in done.output
