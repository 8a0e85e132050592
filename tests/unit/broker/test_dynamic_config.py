"""The configuration of a running broker follows ZooKeeper."""

import pytest

from zkbroker.broker.dynamic_config import DynamicConfig
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError, ProtocolError, StorageError
from zkbroker.registry.broker_configs import BrokerSettings


@pytest.fixture
def dynamic():
    return DynamicConfig(BrokerConfig.from_properties({"zookeeper.connect": "z"}))


def test_listeners_get_the_configuration_at_once_and_after_each_change(dynamic):
    seen = []
    dynamic.on_change(lambda now: seen.append(now.config.log.retention_ms))
    for settings in (
        BrokerSettings({"log.retention.ms": "5"}, {}),
        BrokerSettings({"log.retention.ms": "5"}, {"log.retention.ms": "6"}),
        BrokerSettings({"log.retention.ms": "5"}, {"log.retention.ms": "6"}),
        BrokerSettings(),
    ):
        dynamic.take(settings)
    assert seen == [604_800_000, 5, 6, 604_800_000]
    assert dynamic.config is dynamic.static


def test_invalid_setting_is_logged_and_the_others_apply(dynamic, caplog):
    own = {"broker.id": "5", "log.retention.ms": "x", "message.max.bytes": "7"}
    dynamic.take(BrokerSettings({}, own))
    assert dynamic.config.log.max_message_bytes == 7
    assert dynamic.settings == BrokerSettings({}, {"message.max.bytes": "7"})
    assert [message.split(" error=")[0] for message in caplog.messages] == [
        "broker setting ignored key=broker.id",
        "broker setting ignored key=log.retention.ms",
    ]


def test_contradicting_settings_are_not_applied(dynamic, caplog):
    wrong = {"log.cleaner.dedupe.buffer.size": "2000000", "log.cleaner.threads": "2"}
    dynamic.take(BrokerSettings({"message.max.bytes": "7"}, {}))
    dynamic.take(BrokerSettings({}, wrong))
    assert dynamic.changed == {"message.max.bytes": "7"}
    assert "broker settings not applied error=log.cleaner.dedupe.buffer.size" in caplog.text
    with pytest.raises(ConfigError):
        dynamic.check({}, wrong)


def test_setting_without_effect_is_logged_once(dynamic, caplog):
    dynamic.take(BrokerSettings({"background.threads": "9"}, {}))
    dynamic.take(BrokerSettings({"background.threads": "9"}, {"log.retention.ms": "6"}))
    (message,) = caplog.messages
    assert message.startswith("config key=background.threads has no effect: requests are ")


def test_change_of_a_static_setting_is_refused(dynamic):
    with pytest.raises(ProtocolError, match="needs a restart"):
        dynamic.check({"num.partitions": "3"}, {})


def test_settings_are_applied_again_after_a_listener_failed(dynamic):
    seen = []

    def part(now):
        seen.append(now.config.log.retention_ms)
        if len(seen) == 2:
            raise StorageError("the disk is away")

    dynamic.on_change(part)
    settings = BrokerSettings({"log.retention.ms": "5"}, {})
    with pytest.raises(StorageError):
        dynamic.take(settings)
    dynamic.take(settings)
    dynamic.take(settings)
    assert seen == [604_800_000, 5, 5]
