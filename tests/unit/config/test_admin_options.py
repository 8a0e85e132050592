import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError

OWN = {"broker.id": "1", "zookeeper.connect": "z:1"}


def test_a_console_on_the_page():
    found = BrokerConfig.from_properties(
        OWN
        | {
            "admin.port": "0",
            "admin.users.file": "users",
            "admin.console": "true",
            "admin.console.operators": "bob, eve",
        }
    )
    assert found.admin_console
    assert found.admin_console_operators == ("bob", "eve")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"admin.console": "true"}, "set admin.port"),
        ({"admin.port": "0", "admin.console.operators": "bob"}, "admin.users.file"),
    ],
)
def test_a_console_needs_a_page_and_its_operators_a_login(given, said):
    with pytest.raises(ConfigError, match=said):
        BrokerConfig.from_properties(OWN | given)
