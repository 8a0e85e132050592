import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError

OWN = {"broker.id": "1", "zookeeper.connect": "z:1"}


def test_console_settings_are_read():
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
    ("given", "message"),
    [
        ({"admin.console": "true"}, "set admin.port"),
        ({"admin.port": "0", "admin.console.operators": "bob"}, "admin.users.file"),
    ],
)
def test_console_needs_admin_port_and_users_file(given, message):
    with pytest.raises(ConfigError, match=message):
        BrokerConfig.from_properties(OWN | given)
