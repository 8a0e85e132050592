"""What the command asks for before it goes anywhere."""

import pytest
from click.testing import CliRunner

from zkbroker.cli.zookeeper_security import command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "choose secure or unsecure"),
        (["closed"], "'closed' is not one of 'secure', 'unsecure'"),
        (["--zookeeper.acl=no"], "is not one of 'secure', 'unsecure'"),
    ],
)
def test_an_action_is_needed(arguments, said):
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2
    assert said in done.output
