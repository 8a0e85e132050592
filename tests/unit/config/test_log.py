import pytest

from zkbroker.config.log import LOG_KEYS, LogConfig, LogManagerConfig, magic_of_format
from zkbroker.config.schema import from_properties
from zkbroker.errors import ConfigError

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("properties", "name", "value"),
    [
        ({"log.file.size": "2000"}, "segment_bytes", 2000),
        ({"log.segment.bytes": "3000", "log.file.size": "2000"}, "segment_bytes", 3000),
        ({"log.roll.hours": "2"}, "roll_ms", 2 * HOUR),
        ({"log.roll.ms": "5", "log.roll.hours": "2"}, "roll_ms", 5),
        ({"log.retention.hours": "3"}, "retention_ms", 3 * HOUR),
        ({"log.retention.minutes": "3", "log.retention.hours": "9"}, "retention_ms", 180_000),
        ({"log.retention.ms": "-1"}, "retention_ms", -1),
        ({"log.retention.hours": "-1"}, "retention_ms", -1),
        ({"log.retention.size": "77"}, "retention_bytes", 77),
        ({"log.flush.interval": "500"}, "flush_messages", 500),
        ({"log.flush.interval.messages": "1"}, "flush_messages", 1),
        ({"log.default.flush.interval.ms": "3000"}, "flush_ms", 3000),
        ({"log.flush.scheduler.interval.ms": "2000"}, "flush_ms", 2000),
        ({"log.flush.interval.ms": "9", "log.flush.scheduler.interval.ms": "2"}, "flush_ms", 9),
        ({"max.message.size": "5"}, "max_message_bytes", 5),
        ({"log.cleanup.policy": "compact, delete"}, "cleanup_policy", "compact,delete"),
    ],
)
def test_key_of_each_generation_is_read(properties, name, value):
    assert set(properties) <= LOG_KEYS
    assert getattr(from_properties(LogConfig, properties), name) == value


def test_old_topic_maps_become_overrides():
    config = from_properties(
        LogManagerConfig,
        {
            "log.retention.hours.per.topic": "a:1,b:2",
            "topic.log.file.size": "a:1000",
            "topic.flush.intervals.ms": "b:7",
            "log.cleanup.interval.mins": "10",
            "log.dir": "/data",
        },
    )
    assert config.topic_overrides("a") == {"segment.bytes": "1000", "retention.ms": str(HOUR)}
    assert config.topic_overrides("b") == {"retention.ms": str(2 * HOUR), "flush.ms": "7"}
    assert config.topic_overrides("c") == {}
    assert config.retention_check_ms == 600_000
    assert config.log_dirs == ("/data",)


def test_topic_settings_override_broker_settings():
    config = LogConfig().with_topic_overrides(
        {"segment.ms": "5", "message.timestamp.type": "logappendtime", "delete.retention.ms": "9"}
    )
    assert (config.roll_ms, config.timestamp_type) == (5, "LogAppendTime")
    values = config.topic_values()
    assert values["segment.ms"] == "5"
    assert values["delete.retention.ms"] == "9"
    assert values["preallocate"] == "false"
    assert values.keys() == LogConfig.TOPIC_FIELDS.keys()
    assert LogConfig().with_topic_overrides(LogConfig().topic_values()).segment_bytes == 1024**3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("segment.bytes", "1"),
        ("cleanup.policy", "shred"),
        ("message.format.version", "new"),
        ("compression.type", "rar"),
        ("flush.messages", "0"),
        ("no.such.name", "1"),
    ],
)
def test_invalid_topic_setting_is_refused(name, text):
    with pytest.raises(ConfigError, match=name):
        LogConfig().with_topic_overrides({name: text})


def test_misspelt_topic_setting_is_refused_with_nearest():
    with pytest.raises(ConfigError, match=r"retentoin\.ms .*did you mean retention\.ms\?"):
        LogConfig().with_topic_overrides({"retentoin.ms": "1"})


@pytest.mark.parametrize(
    ("text", "magic"),
    [
        ("producer", None), ("0", 0), ("1", 1), ("2", 2), ("0.8.2.2", 0), ("0.9.0", 0),
        ("0.10.0-IV1", 1), ("0.10.2", 1), ("0.11.0", 2), ("1.0", 2), ("2.3-IV1", 2), ("3.0", 2),
    ],
)  # fmt: skip
def test_format_version_has_magic(text, magic):
    assert magic_of_format(text) == magic


@pytest.mark.parametrize("text", ["", "3", "x", "0.", "producers", "10"])
def test_invalid_format_version_is_refused(text):
    with pytest.raises(ValueError):
        magic_of_format(text)
