"""Settings of the 0.7 listener: genuine names and defaults, topic maps, invalid values."""

import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.legacy07 import KEYS, Legacy07Config, Log07Settings
from zkbroker.errors import ConfigError

HOUR_MS = 3_600_000
BASE = {
    "zookeeper.connect": "zk:2181/newer",
    "broker.id": "1",
    "log.dirs": "/data/newer",
    "legacy07.listener": "127.0.0.1:6667",
    "legacy07.log.dir": "/data/old",
}

# The broker properties of 0.7.2.
_GENUINE = """
brokerid log.dir port hostname socket.send.buffer socket.receive.buffer max.socket.request.bytes
max.message.size num.threads monitoring.period.secs num.partitions topic.partition.count.map
log.file.size topic.log.file.size log.roll.hours topic.log.roll.hours log.retention.hours
topic.log.retention.hours log.retention.size topic.log.retention.size log.cleanup.interval.mins
enable.zookeeper log.flush.interval log.default.flush.scheduler.interval.ms
log.default.flush.interval.ms topic.flush.intervals.ms max.topic.name.length zk.connect
zk.sessiontimeout.ms zk.connectiontimeout.ms zk.synctime.ms
"""
GENUINE = _GENUINE.split()


def config(warnings=None, **more):
    properties = {**BASE, **{key.replace("_", "."): value for key, value in more.items()}}
    report = (lambda text: None) if warnings is None else warnings.append
    return BrokerConfig.from_properties(properties, warn=report)


def test_topic_maps_override_settings():
    own = config(
        log_file_size="100",
        topic_log_file_size="t:11",
        log_roll_hours="2",
        topic_log_roll_hours="t:3",
        log_retention_hours="4",
        topic_log_retention_hours="t:5",
        log_retention_size="60",
        topic_log_retention_size="t:61",
        log_flush_interval="7",
        log_default_flush_interval_ms="80",
        topic_flush_intervals_ms="t:81",
        num_partitions="9",
        topic_partition_count_map="t:10",
    ).legacy07
    assert own.of_log("t") == Log07Settings(
        file_bytes=11,
        roll_ms=3 * HOUR_MS,
        retention_ms=5 * HOUR_MS,
        retention_bytes=61,
        flush_messages=7,
        flush_ms=81,
    )
    assert own.of_log("u") == Log07Settings(
        file_bytes=100,
        roll_ms=2 * HOUR_MS,
        retention_ms=4 * HOUR_MS,
        retention_bytes=60,
        flush_messages=7,
        flush_ms=80,
    )
    assert (own.partitions("t"), own.partitions("u")) == (10, 9)


def test_all_broker_properties_of_0_7_2_are_known():
    values = dict.fromkeys(GENUINE, "20")
    values.update({"log.dir": "/d", "hostname": "h", "zk.connect": "zk:1/c", "port": "1"})
    values.update({"enable.zookeeper": "true"})
    values.update({key: "t:1" for key in GENUINE if key.startswith("topic.")})
    warnings = []
    BrokerConfig.from_properties(
        {**values, "legacy07.listener": ":6667", "legacy07.log.dir": "/old"}, warn=warnings.append
    )
    assert not [text for text in warnings if "unknown" in text]
    ignored = {text.split("key=")[1].split()[0] for text in warnings}
    assert ignored == {
        "num.threads",
        "monitoring.period.secs",
        "enable.zookeeper",
        "zk.synctime.ms",
    }


def test_settings_without_legacy_listener_have_no_effect():
    warnings = []
    plain = BrokerConfig.from_properties(
        {
            "zk.connect": "zk:1",
            "log.roll.hours": "1",
            "max.topic.name.length": "9",
            "legacy07.log.dir": "/x",
        },
        warn=warnings.append,
    )
    assert plain.legacy07 == Legacy07Config()
    assert sorted(warnings) == [
        "config key=legacy07.log.dir has no effect without legacy07.listener",
        "config key=max.topic.name.length has no effect without legacy07.listener",
    ]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"legacy07_log_dir": "/data/newer/"}, "is one of log.dirs"),
        ({"legacy07_zookeeper_chroot": "/newer/"}, "is the chroot of zookeeper.connect"),
        ({"legacy07_zookeeper_chroot": "relative"}, "must begin with /"),
        ({"legacy07_listener": "nonsense"}, "legacy07.listener"),
        ({"legacy07_listener": "[::1]:6667"}, "IPv4"),
        ({"legacy07_advertised_listener": "x"}, "legacy07.advertised.listener"),
        ({"log_flush_interval": "0"}, "log.flush.interval"),
    ],
)
def test_invalid_value_is_refused_with_hint(more, text):
    with pytest.raises(ConfigError) as raised:
        config(**more)
    assert text in str(raised.value)


def test_root_chroot_needs_other_chroot_of_zookeeper_connect():
    assert config(legacy07_zookeeper_chroot="/").legacy07.chroot == "/"
    with pytest.raises(ConfigError, match="chroot"):
        config(legacy07_zookeeper_chroot="/", zookeeper_connect="zk:2181")


def test_unknown_key_is_warned_about_with_nearest():
    warnings = []
    config(warnings, legacy07_log_dirs="/x")
    assert warnings == [
        "config key=legacy07.log.dirs is unknown and ignored; did you mean legacy07.log.dir?"
    ]
    assert "legacy07.log.dir" in KEYS


def test_default_log_directory_is_beside_log_dirs():
    given = {"zookeeper.connect": "zk:1", "legacy07.listener": ":6667"}
    for log_dirs, expected in (("/data/a/,/data/b", "/data/a-07"), ("", "/tmp/kafka-logs-07")):
        named = {"log.dirs": log_dirs} if log_dirs else {}
        assert BrokerConfig.from_properties({**given, **named}).legacy07.log_dir == expected
    with pytest.raises(ConfigError, match=r"needs legacy07\.log\.dir"):
        Legacy07Config(listener=":6667")
