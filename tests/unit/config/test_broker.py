import re

import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.listeners import Endpoint
from zkbroker.errors import ConfigError

ZOOKEEPER = {"zookeeper.connect": "localhost:2181"}


# The keys of the server.properties that each generation shipped, with its values.
GENUINE = {
    "0.7.2": """brokerid=0 port=9092 num.threads=8 socket.send.buffer=1048576
        socket.receive.buffer=1048576 max.socket.request.bytes=104857600 log.dir=/tmp/kafka-logs
        num.partitions=1 log.flush.interval=10000 log.default.flush.interval.ms=1000
        log.default.flush.scheduler.interval.ms=1000 log.retention.hours=168
        log.file.size=536870912 log.cleanup.interval.mins=1 enable.zookeeper=true
        zk.connect=localhost:2181 zk.connectiontimeout.ms=1000000""",
    "0.8.2": """broker.id=0 port=9092 num.network.threads=3 num.io.threads=8
        socket.send.buffer.bytes=102400 socket.receive.buffer.bytes=102400
        socket.request.max.bytes=104857600 log.dirs=/tmp/kafka-logs num.partitions=1
        num.recovery.threads.per.data.dir=1 log.retention.hours=168 log.segment.bytes=1073741824
        log.retention.check.interval.ms=300000 log.cleaner.enable=false
        zookeeper.connect=localhost:2181 zookeeper.connection.timeout.ms=6000""",
    "0.10.2": """broker.id=0 listeners=PLAINTEXT://:9092 num.network.threads=3 num.io.threads=8
        socket.send.buffer.bytes=102400 socket.receive.buffer.bytes=102400
        socket.request.max.bytes=104857600 log.dirs=/tmp/kafka-logs num.partitions=1
        num.recovery.threads.per.data.dir=1 log.retention.hours=168 log.segment.bytes=1073741824
        log.retention.check.interval.ms=300000 zookeeper.connect=localhost:2181
        zookeeper.connection.timeout.ms=6000 delete.topic.enable=true""",
    "2.3": """broker.id=0 num.network.threads=3 num.io.threads=8 socket.send.buffer.bytes=102400
        socket.receive.buffer.bytes=102400 socket.request.max.bytes=104857600
        log.dirs=/tmp/kafka-logs num.partitions=1 num.recovery.threads.per.data.dir=1
        offsets.topic.replication.factor=1 transaction.state.log.replication.factor=1
        transaction.state.log.min.isr=1 log.retention.hours=168 log.segment.bytes=1073741824
        log.retention.check.interval.ms=300000 zookeeper.connect=localhost:2181
        zookeeper.connection.timeout.ms=6000 group.initial.rebalance.delay.ms=0""",
}


@pytest.mark.parametrize("generation", GENUINE)
def test_properties_file_of_each_generation_works_unmodified(generation: str) -> None:
    properties = dict(pair.split("=", 1) for pair in GENUINE[generation].split())
    warnings: list[str] = []
    config = BrokerConfig.from_properties(properties, warn=warnings.append)
    assert config.broker_id == 0
    assert config.endpoints[0].port == 9092
    assert config.zookeeper_connect == "localhost:2181"
    assert config.max_request_bytes == 104857600
    assert config.log_manager.log_dirs == ("/tmp/kafka-logs",)
    assert [warning for warning in warnings if "unknown" in warning] == []
    assert all("has no effect: " in warning for warning in warnings)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "PLAINTEXT"),
        ({"listeners": "INSIDE://a:1,PLAINTEXT://a:2"}, "PLAINTEXT"),
        ({"listeners": "INSIDE://a:1,OUTSIDE://a:2"}, "INSIDE"),
        ({"listeners": "OUTSIDE://a:1,INSIDE://a:2"}, "OUTSIDE"),
        (
            {"listeners": "INSIDE://a:1,OUTSIDE://a:2", "inter.broker.listener.name": "outside"},
            "OUTSIDE",
        ),
        (
            {
                "listeners": "INSIDE://a:1,PLAINTEXT://a:2",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "PLAINTEXT",
        ),
    ],
)
def test_inter_broker_listener_is_chosen(more: dict[str, str], name: str) -> None:
    protocols = {"listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"}
    assert BrokerConfig.from_properties(ZOOKEEPER | protocols | more).inter_broker == name


def test_super_users_without_authorizer_are_warned_about() -> None:
    warnings: list[str] = []
    given = ZOOKEEPER | {"authorizer.class.name": " ", "super.users": "User:a"}
    config = BrokerConfig.from_properties(given, warn=warnings.append)
    assert (config.authorizer_class, config.super_users) == ("", "User:a")
    assert warnings == ["config key=super.users has no effect without authorizer.class.name"]
    name = "kafka.security.auth.SimpleAclAuthorizer"
    BrokerConfig.from_properties({**given, "authorizer.class.name": name}, warn=warnings.append)
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("ssl.keystore.location", "all listeners are plain"),
        ("sasl.enabled.mechanisms", "no listener has a SASL_ protocol"),
        ("sasl.kerberos.service.name", "Kerberos is not supported"),
        ("connections.max.reauth.ms", "a login holds as long as its connection"),
        ("replica.lag.max.messages", "time alone"),
        ("num.recovery.threads.per.data.dir", "one task"),
    ],
)
def test_key_without_effect_is_warned_about_with_reason(key: str, reason: str) -> None:
    warnings: list[str] = []
    BrokerConfig.from_properties(ZOOKEEPER | {key: "x"}, warn=warnings.append)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"config key={key} has no effect: ")
    assert reason in warnings[0]


def test_zookeeper_connect_is_required() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect \(or zk\.connect\) is required"):
        BrokerConfig.from_properties({"broker.id": "1"})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("port", "70000", "port='70000' is not allowed: give a whole number from 0 up to 65535"),
        ("listeners", "SSL://:9093", "set inter.broker.listener.name to one of SSL"),
        ("listeners", "nonsense", "give NAME://host:port"),
        ("broker.id.generation.enable", "false", "broker.id is required"),
    ],
)
def test_invalid_value_is_refused_with_allowed_values(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        BrokerConfig.from_properties(ZOOKEEPER | {key: value})


@pytest.mark.parametrize(
    ("properties", "advertised"),
    [
        ({"port": "0"}, "PLAINTEXT://machine:4711"),
        ({"host.name": "kafka1"}, "PLAINTEXT://kafka1:9092"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "PLAINTEXT://machine:9092"),
        ({"listeners": "PLAINTEXT://[::1]:0"}, "PLAINTEXT://[::1]:4711"),
        ({"advertised.host.name": "public"}, "PLAINTEXT://public:9092"),
        ({"advertised.host.name": "public", "advertised.port": "99"}, "PLAINTEXT://public:99"),
        (
            {"listeners": "PLAINTEXT://:1", "advertised.listeners": "PLAINTEXT://public:99"},
            "PLAINTEXT://public:99",
        ),
    ],
)
def test_advertised_endpoints(properties: dict[str, str], advertised: str) -> None:
    config = BrokerConfig.from_properties(ZOOKEEPER | properties)
    endpoints = config.advertised_endpoints({"PLAINTEXT": ("127.0.0.1", 4711)}, lambda: "machine")
    assert [str(endpoint) for endpoint in endpoints] == [advertised]


def test_several_listeners_keep_their_names() -> None:
    config = BrokerConfig.from_properties(
        ZOOKEEPER
        | {
            "listeners": "INTERNAL://:9092,EXTERNAL://:9093",
            "advertised.listeners": "EXTERNAL://public:443,INTERNAL://inside:9092",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        }
    )
    endpoints = config.advertised_endpoints({}, lambda: "machine")
    assert endpoints == (Endpoint("INTERNAL", "inside", 9092), Endpoint("EXTERNAL", "public", 443))


def test_units_of_old_keys_are_converted() -> None:
    given = {"offsets.retention.minutes": "2", "log.retention.hours": "3"}
    config = BrokerConfig.from_properties(ZOOKEEPER | given, warn=pytest.fail)
    assert config.offsets_retention_ms == 120_000
    assert config.log.retention_ms == 3 * 3_600_000


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("log.retention.hour", "log.retention.hours"),
        ("log.segment.byte", "log.segment.bytes"),
        ("log.dri", "log.dir"),
        ("zookeeper.conect", "zookeeper.connect"),
        ("queued.max.request", "queued.max.requests"),
    ],
)
def test_unknown_key_is_warned_about_with_nearest_of_broker_and_log(key: str, meant: str) -> None:
    warnings: list[str] = []
    BrokerConfig.from_properties({"zookeeper.connect": "z", key: "1"}, warn=warnings.append)
    assert warnings == [f"config key={key} is unknown and ignored; did you mean {meant}?"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"replica.fetch.wait.max.ms": "40000"}, "replica.socket.timeout.ms=30000"),
        (
            {"replica.fetch.wait.max.ms": "600", "replica.lag.time.max.ms": "599"},
            "replica.lag.time.max.ms=599",
        ),
        ({"inter.broker.protocol.version": "0.8.2"}, "log.message.format.version=0.8.2"),
        (
            {"inter.broker.protocol.version": "0.8.2.2", "log.message.format.version": "0.10.2"},
            "magic 0 alone",
        ),
    ],
)
def test_contradicting_replication_settings_are_refused(
    settings: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        BrokerConfig.from_properties(ZOOKEEPER | settings)


def test_replication_defaults_of_genuine_brokers() -> None:
    config = BrokerConfig.from_properties(
        ZOOKEEPER
        | {
            "inter.broker.protocol.version": "0.8.2.2",
            "log.message.format.version": "0.8.2",
            "replica.fetch.wait.max.ms": "500",
            "replica.lag.time.max.ms": "500",
        }
    )
    assert (config.replica_fetchers, config.replica_fetch_max_bytes) == (1, 1024**2)
    assert config.replica_fetch_response_max_bytes == 10 * 1024**2
    assert config.replica_receive_buffer_bytes == 64 * 1024
