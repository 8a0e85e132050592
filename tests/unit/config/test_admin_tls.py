"""TLS settings of the admin page: those of a listener with the prefix `admin.`."""

import pytest

from zkbroker.config.admin_tls import admin_tls
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError

KEY = {"admin.ssl.keystore.location": "/k.pem"}


def test_settings_with_admin_prefix_are_read():
    assert admin_tls({"ssl.keystore.location": "/k.pem"}, pytest.fail) is None
    found = admin_tls(KEY, pytest.fail)
    assert (found.tls.keystore_location, found.client_auth) == ("/k.pem", "none")
    config = BrokerConfig.from_properties({"zookeeper.connect": "h:1", **KEY}, warn=pytest.fail)
    assert config.admin_tls == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"admin.ssl.truststore.location": "/t"}, r"set admin\.ssl\.keystore\.location"),
        ({**KEY, "admin.ssl.client.auth": "required"}, r"needs admin\.ssl\.truststore\.location"),
        ({**KEY, "admin.ssl.client.auth": "perhaps"}, "settings with the prefix admin"),
    ],
)
def test_incomplete_tls_settings_are_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        admin_tls(given, pytest.fail)


def test_unknown_key_is_warned_about_with_nearest():
    warnings = []
    admin_tls({**KEY, "admin.ssl.keystore.pasword": "x"}, warnings.append)
    assert "did you mean admin.ssl.keystore.password?" in warnings[0]
