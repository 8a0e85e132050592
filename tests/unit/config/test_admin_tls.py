"""TLS of the admin page: the settings of a listener behind `admin.`."""

import pytest

from zkbroker.config.admin_tls import admin_tls
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError

KEY = {"admin.ssl.keystore.location": "/k.pem"}


def test_settings_behind_admin_count():
    assert admin_tls({"ssl.keystore.location": "/k.pem"}, pytest.fail) is None
    found = admin_tls(KEY, pytest.fail)
    assert (found.tls.keystore_location, found.client_auth) == ("/k.pem", "none")
    config = BrokerConfig.from_properties({"zookeeper.connect": "h:1", **KEY}, warn=pytest.fail)
    assert config.admin_tls == found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"admin.ssl.truststore.location": "/t"}, r"set admin\.ssl\.keystore\.location"),
        ({**KEY, "admin.ssl.client.auth": "required"}, r"needs admin\.ssl\.truststore\.location"),
        ({**KEY, "admin.ssl.client.auth": "perhaps"}, "settings with the prefix admin"),
    ],
)
def test_what_cannot_protect_is_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        admin_tls(given, pytest.fail)


def test_an_unknown_one_is_named():
    warnings = []
    admin_tls({**KEY, "admin.ssl.keystore.pasword": "x"}, warnings.append)
    assert "did you mean admin.ssl.keystore.password?" in warnings[0]
