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
