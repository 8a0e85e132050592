"""The settings that a broker shows: names, defaults, secrets."""

import pytest

from tests.unit.config.test_legacy07 import GENUINE as OF_0_7
from zkbroker.config.broker import BrokerConfig, refuse_unknown
from zkbroker.config.broker_keys import DEFAULTS, SHOWN, UNUSED, is_secret, shown_as_given
from zkbroker.errors import ConfigError

# The settings that a genuine broker of 2.1 shows.
_GENUINE = """
advertised.host.name advertised.listeners advertised.port alter.config.policy.class.name
alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
authorizer.class.name auto.create.topics.enable auto.leader.rebalance.enable background.threads
broker.id broker.id.generation.enable broker.rack client.quota.callback.class compression.type
connection.failed.authentication.delay.ms connections.max.idle.ms controlled.shutdown.enable
controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
controller.socket.timeout.ms create.topic.policy.class.name default.replication.factor
delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
delegation.token.master.key delegation.token.max.lifetime.ms
delete.records.purgatory.purge.interval.requests delete.topic.enable
fetch.purgatory.purge.interval.requests group.initial.rebalance.delay.ms
group.max.session.timeout.ms group.min.session.timeout.ms host.name inter.broker.listener.name
inter.broker.protocol.version leader.imbalance.check.interval.seconds
leader.imbalance.per.broker.percentage listener.security.protocol.map listeners
log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
log.cleaner.enable log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
log.cleaner.io.max.bytes.per.second log.cleaner.min.cleanable.ratio
log.cleaner.min.compaction.lag.ms log.cleaner.threads log.cleanup.policy log.dir log.dirs
log.flush.interval.messages log.flush.interval.ms log.flush.offset.checkpoint.interval.ms
log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms
log.index.interval.bytes log.index.size.max.bytes log.message.downconversion.enable
log.message.format.version log.message.timestamp.difference.max.ms log.message.timestamp.type
log.preallocate log.retention.bytes log.retention.check.interval.ms log.retention.hours
log.retention.minutes log.retention.ms log.roll.hours log.roll.jitter.hours log.roll.jitter.ms
log.roll.ms log.segment.bytes log.segment.delete.delay.ms max.connections.per.ip
max.connections.per.ip.overrides max.incremental.fetch.session.cache.slots message.max.bytes
metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
min.insync.replicas num.io.threads num.network.threads num.partitions
num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
offset.metadata.max.bytes offsets.commit.required.acks offsets.commit.timeout.ms
offsets.load.buffer.size offsets.retention.check.interval.ms offsets.retention.minutes
offsets.topic.compression.codec offsets.topic.num.partitions offsets.topic.replication.factor
offsets.topic.segment.bytes password.encoder.cipher.algorithm password.encoder.iterations
password.encoder.key.length password.encoder.keyfactory.algorithm password.encoder.old.secret
password.encoder.secret port principal.builder.class producer.purgatory.purge.interval.requests
queued.max.request.bytes queued.max.requests quota.consumer.default quota.producer.default
quota.window.num quota.window.size.seconds replica.fetch.backoff.ms replica.fetch.max.bytes
replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms
replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
replication.quota.window.size.seconds request.timeout.ms reserved.broker.max.id
sasl.client.callback.handler.class sasl.enabled.mechanisms sasl.jaas.config
sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.callback.handler.class sasl.login.class sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol
sasl.server.callback.handler.class security.inter.broker.protocol socket.receive.buffer.bytes
socket.request.max.bytes socket.send.buffer.bytes ssl.cipher.suites ssl.client.auth
ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.key.password
ssl.keymanager.algorithm ssl.keystore.location ssl.keystore.password ssl.keystore.type
ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
ssl.truststore.location ssl.truststore.password ssl.truststore.type
transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
transaction.remove.expired.transaction.cleanup.interval.ms
transaction.state.log.load.buffer.size transaction.state.log.min.isr
transaction.state.log.num.partitions transaction.state.log.replication.factor
transaction.state.log.segment.bytes transactional.id.expiration.ms
unclean.leader.election.enable zookeeper.connect zookeeper.connection.timeout.ms
zookeeper.max.in.flight.requests zookeeper.session.timeout.ms zookeeper.set.acl
zookeeper.sync.time.ms
"""
GENUINE = _GENUINE.split()

SINCE_2_1 = {
    "connections.max.reauth.ms",
    "control.plane.listener.name",
    "group.max.size",
    "log.cleaner.max.compaction.lag.ms",
    "max.connections",
    "ssl.principal.mapping.rules",
}

OF_0_8 = [
    *("allow.everyone.if.no.acl.found", "controller.message.queue.size"),
    *("kafka.csv.metrics.reporter.enabled", "kafka.metrics.reporters"),
    *("replica.lag.max.messages", "super.users"),
]

# At least one of these is valid for each key.
VALUES = """
1 4096 8388608 true false PLAINTEXT://:9092 a:1 gzip delete CreateTime 0.10.2 2.1-IV2 PLAINTEXT
A:SSL
"""

# Defaults of genuine brokers that differ here, with the reasons.
OTHER_DEFAULTS = {
    "group.max.session.timeout.ms": "300000",  # 2.3 has ours
    "inter.broker.protocol.version": "2.1-IV2",
    "log.message.format.version": "2.1-IV2",  # messages are stored as sent
    "queued.max.request.bytes": "-1",  # bounded here
    "socket.receive.buffer.bytes": "102400",  # the system adapts it
    "socket.send.buffer.bytes": "102400",
}

SOME_DEFAULTS = {
    "broker.id": "-1",
    "log.cleaner.io.max.bytes.per.second": "1.7976931348623157E308",
    "log.dir": "/tmp/kafka-logs",
    "log.dirs": None,
    "log.flush.interval.messages": "9223372036854775807",
    "log.flush.interval.ms": None,
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.flush.scheduler.interval.ms": "9223372036854775807",
    "log.index.interval.bytes": "4096",
    "log.index.size.max.bytes": "10485760",
    "log.message.timestamp.type": "CreateTime",
    "log.retention.bytes": "-1",
    "log.retention.check.interval.ms": "300000",
    "log.retention.hours": "168",
    "log.retention.minutes": None,
    "log.retention.ms": None,
    "log.roll.hours": "168",
    "log.roll.jitter.hours": "0",
    "log.roll.jitter.ms": None,
    "log.roll.ms": None,
    "log.segment.bytes": "1073741824",
    "log.segment.delete.delay.ms": "60000",
    "max.connections.per.ip.overrides": "",
    "message.max.bytes": "1000012",
    "offsets.retention.minutes": "10080",
    "transactional.id.expiration.ms": "604800000",
    "zookeeper.connect": None,
}


def test_all_keys_of_genuine_brokers_are_shown():
    assert len(GENUINE) == len(set(GENUINE)) == 182
    assert sorted({*GENUINE, *SINCE_2_1} - SHOWN.keys()) == []


@pytest.mark.parametrize("key", SOME_DEFAULTS)
def test_default_is_shown_under_its_key(key):
    assert SHOWN[key].default == SOME_DEFAULTS[key]
    assert DEFAULTS.get(key) == SOME_DEFAULTS[key]


def test_defaults_that_differ_from_genuine_brokers():
    for key, value in OTHER_DEFAULTS.items():
        assert SHOWN[key].default not in (value, None)


def test_no_key_of_any_generation_is_unknown():
    """An unknown key is warned about before its value is parsed."""
    unknown = []
    for key in [*OF_0_7, *OF_0_8, *GENUINE]:
        for value in VALUES.split():
            warnings = []
            given = {"zookeeper.connect": "z", key: value}
            try:
                BrokerConfig.from_properties(given, warn=warnings.append)
            except ConfigError:
                continue
            unknown += [warning for warning in warnings if "unknown" in warning]
            break
        else:
            pytest.fail(f"no value was taken for {key}")
    assert unknown == []


def test_keys_without_effect_are_known():
    refuse_unknown(UNUSED)
    warned = []
    given = {key: value or "1" for key, value in UNUSED.items() if key != "authorizer.class.name"}
    BrokerConfig.from_properties({"zookeeper.connect": "z", **given}, warn=warned.append)
    assert len(warned) == len(given)
    assert not [text for text in warned if "unknown" in text]


def test_given_settings_are_shown_under_current_names():
    assert shown_as_given(
        {
            "log.retention.size": "10",
            "log.cleanup.interval.mins": "2",
            "log.retention.hours": " 24 ",
            "delete.topic.enable": "FALSE",
            "max.message.size": "7",
            "message.max.bytes": "8",
            "my.plugin": "x",
        }
    ) == {
        "log.retention.bytes": "10",
        "log.retention.check.interval.ms": "120000",
        "log.retention.hours": "24",
        "delete.topic.enable": "false",
        "message.max.bytes": "8",
        "my.plugin": "x",
    }


def test_passwords_are_sensitive():
    assert {name for name, key in SHOWN.items() if key.sensitive} == {
        "delegation.token.master.key",
        "password.encoder.old.secret",
        "password.encoder.secret",
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
        "zookeeper.auth.digest",
        "zookeeper.sasl.jaas.config",
        "zookeeper.ssl.keystore.password",
        "zookeeper.ssl.truststore.password",
    }


def test_unknown_key_is_refused_with_nearest():
    with pytest.raises(ConfigError, match=r"^num\.partitons is no setting of a broker; did you me"):
        refuse_unknown(["num.partitions", "num.partitons"])


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("ssl.keystore.location", False),
        ("max.connection.creation.rate", False),
        ("plain.sasl.server.callback.handler.class", False),
        ("ssl.client.auth", False),
        ("ssl.keystore.key", True),
        ("ssl.key.pem", True),
        ("ssl.key.password", True),
        ("scram-sha-512.sasl.jaas.config", True),
        ("ssl.keystore.pasword", True),
        ("sasl.jaas.conf", True),
    ],
)
def test_unknown_settings_of_listener_are_secret(key, secret):
    assert is_secret(f"listener.name.external.{key}") is secret
