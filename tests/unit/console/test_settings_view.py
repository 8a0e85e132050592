import pytest

from zkbroker.console.settings_view import is_secret, setting_rows
from zkbroker.protocol.messages.configs import ConfigEntry, ConfigSource


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("ssl.keystore.password", True),
        ("ssl.key.password", True),
        ("listener.name.sasl.plain.sasl.jaas.config", True),
        ("sasl.oauthbearer.client.secret", True),
        ("ssl.keystore.key", True),
        ("ssl.keystore.location", False),
        ("admin.users.file", False),
        ("retention.ms", False),
    ],
)
def test_secret_settings_by_name(name, hidden):
    assert is_secret(name) is hidden


def test_secret_values_are_hidden():
    rows = setting_rows(
        [
            ConfigEntry("z", "told", source=ConfigSource.STATIC_BROKER, is_sensitive=True),
            ConfigEntry("a.password", "oops", source=ConfigSource.DEFAULT),
            ConfigEntry("retention.ms", "5", source=ConfigSource.TOPIC),
            ConfigEntry("log.level", "INFO", source=6),
        ]
    )
    assert [(row["name"], row["value"], row["sensitive"]) for row in rows] == [
        ("a.password", None, True),
        ("log.level", "INFO", False),
        ("retention.ms", "5", False),
        ("z", None, True),
    ]
    assert [row["source"] for row in rows] == ["default", "source 6", "topic", "broker's file"]


def test_source_from_brokers_before_1_1():
    (row,) = setting_rows([ConfigEntry("a", "1", is_default=True)])
    assert (row["source"], row["default"]) == ("default", True)
