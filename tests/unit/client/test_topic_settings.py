"""Settings of topics from the description of a broker."""

from types import SimpleNamespace

from zkbroker.client.topic_settings import CLEANUP, MIN_ISR, topic_settings
from zkbroker.errors import ErrorCode
from zkbroker.protocol import ApiKey


def described(name, code=ErrorCode.NONE, value="2"):
    entries = [
        SimpleNamespace(name=MIN_ISR, value=value),
        SimpleNamespace(name="retention.ms", value="1"),
    ]
    return SimpleNamespace(resource_name=name, error_code=code, entries=entries)


def broker(*resources, versions=(ApiKey.DESCRIBE_CONFIGS,)):
    answer = SimpleNamespace(resources=resources)
    return SimpleNamespace(versions=versions, request=lambda request, timeout_s: answer)


def test_topic_settings_returns_described_values():
    unknown = described("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    connection = broker(described("t"), unknown, described("v", value=None))
    found = topic_settings(connection, ["t", "u", "v"], [MIN_ISR, CLEANUP])
    assert found == {"t": {MIN_ISR: "2"}, "v": {}}


def test_topic_settings_are_empty_for_old_brokers():
    assert topic_settings(broker(described("t"), versions=()), ["t"], [MIN_ISR]) == {}
