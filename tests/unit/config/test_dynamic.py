"""The settings of a broker that may change while it runs."""

import re

import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.dynamic import CHANGEABLE, WITHOUT_EFFECT, changed_config, check_change
from zkbroker.errors import ConfigError, ErrorCode, ProtocolError

# Defaults of topics, the cleaner, threads, connections and throttles, as in 2.1, and the rate of
# connections of 2.7. Listeners, TLS and reporters of metrics are missing.
_EXPECTED = """
background.threads compression.type follower.replication.throttled.rate
leader.replication.throttled.rate log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size
log.cleaner.delete.retention.ms log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
log.cleaner.io.max.bytes.per.second log.cleaner.min.cleanable.ratio
log.cleaner.min.compaction.lag.ms log.cleaner.threads log.cleanup.policy
log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes
log.index.size.max.bytes log.message.downconversion.enable
log.message.timestamp.difference.max.ms log.message.timestamp.type log.preallocate
log.retention.bytes log.retention.ms log.roll.jitter.ms log.roll.ms
log.segment.bytes log.segment.delete.delay.ms logger.levels
max.connection.creation.rate max.connections.per.ip
max.connections.per.ip.overrides message.max.bytes min.insync.replicas num.io.threads
num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers
replica.alter.log.dirs.io.max.bytes.per.second unclean.leader.election.enable
"""
EXPECTED = _EXPECTED.split()


def static(**given):
    return BrokerConfig.from_properties({"zookeeper.connect": "z", **given})


def test_changeable_settings():
    assert sorted(CHANGEABLE) == EXPECTED
    assert WITHOUT_EFFECT.keys() < CHANGEABLE


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "broker.id",
            "broker.id needs a restart of the broker: set it in the broker's properties file, and",
        ),
        (
            "log.retention.hours",
            "log.retention.hours needs a restart of the broker; set log.retention.ms, which may",
        ),
        (
            "ssl.protocol",
            "ssl.protocol has no effect on this broker, and may not change while it runs",
        ),
        ("log.retention.m", "log.retention.m is no setting of a broker; did you mean log.retent"),
        ("x", "x is no setting of a broker"),
    ],
)
def test_change_of_static_setting_is_refused_with_reason(key, message):
    with pytest.raises(ProtocolError, match="^" + re.escape(message)) as raised:
        check_change(key, "1")
    assert raised.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("log.retention.ms", "soon"),
        ("leader.replication.throttled.rate", "-1"),
        ("background.threads", "0"),
        ("log.cleanup.policy", "shred"),
        ("max.connections.per.ip.overrides", "1.2.3.4"),
    ],
)
def test_invalid_value_is_refused(key, text):
    with pytest.raises(ConfigError, match=f"^{re.escape(key)}='{text}' is not allowed: give "):
        check_change(key, text)


def test_broker_settings_override_defaults_and_properties_file():
    config = static(**{"log.retention.hours": "1", "message.max.bytes": "100"})
    changed = changed_config(
        config,
        {"log.retention.ms": "5", "log.cleaner.threads": "2"},
        {"log.cleaner.threads": "3", "leader.replication.throttled.rate": "9"},
    )
    assert changed.log.retention_ms == 5
    assert changed.log.max_message_bytes == 100
    assert changed.log_manager.cleaner_threads == 3
    assert changed_config(config, {}, {"follower.replication.throttled.rate": "9"}) is config


def test_contradicting_settings_are_refused():
    with pytest.raises(ConfigError, match=r"log\.cleaner\.dedupe\.buffer\.size=2000000 is too sma"):
        changed_config(
            static(), {"log.cleaner.dedupe.buffer.size": "2000000"}, {"log.cleaner.threads": "2"}
        )


def test_key_files_of_listener_may_change_but_not_passwords():
    check_change("listener.name.external.ssl.keystore.location", "/other.pem")
    check_change("listener.name.external.ssl.truststore.location", "/other.pem")
    for key in ("ssl.keystore.password", "ssl.key.password", "ssl.keystore.key"):
        with pytest.raises(ProtocolError, match="not kept in ZooKeeper"):
            check_change(f"listener.name.external.{key}", "x")
    with pytest.raises(ProtocolError, match="needs a restart"):
        check_change("ssl.keystore.location", "/other.pem")
