"""Settings of users are passed on as they change."""

from zkbroker.broker.user_settings import UserSettings
from zkbroker.registry.user_configs import ConfigEntity, UserConfigs


def test_listeners_get_user_settings_at_once_and_after_each_change():
    settings, seen = UserSettings(), []
    settings.on_change(seen.append)
    changed = UserConfigs({ConfigEntity(user="alice"): {"producer_byte_rate": "5"}})
    settings.take(changed)
    assert seen == [UserConfigs(), changed]
    assert settings.now is changed


def test_invalid_quota_is_logged_once_for_each_change_of_it(caplog):
    settings = UserSettings()

    def lines_after(user, address, other):
        caplog.clear()
        settings.take(
            UserConfigs(
                {
                    ConfigEntity(user="u"): {"producer_byte_rate": user, "request_percentage": "9"},
                    ConfigEntity(ip="10.0.0.2"): {"connection_creation_rate": address},
                    ConfigEntity(user="other"): {"consumer_byte_rate": other},
                }
            )
        )
        return [line.split()[2:5] for line in caplog.messages]

    user = ["entity=users/u", "key=producer_byte_rate", "value='fast':"]
    address = ["entity=ips/10.0.0.2", "key=connection_creation_rate", "value='0':"]
    assert lines_after("fast", "0", "1") == [user, address]
    assert lines_after("fast", "0", "2") == []
    assert lines_after("5", "0", "2") == []
    assert lines_after("fast", "0", "2") == [user]
