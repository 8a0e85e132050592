"""Settings of brokers that change while they run, on two real brokers."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.broker_requests import message_set, metadata, produce
from tests.support.brokers import connect
from tests.support.clusters import module_cluster
from tests.support.zookeeper import until
from zkbroker.cluster import Broker
from zkbroker.errors import ErrorCode, NetworkError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from zkbroker.protocol.messages.configs import (
    AlterConfigsResource,
    AlteredConfigs,
    ConfigEntry,
    ConfigResourceType,
    ConfigSource,
    ConfigSynonym,
    DescribeConfigsResource,
)
from zkbroker.protocol.messages.topics import NewTopic, ReplicaAssignment, TopicConfig
from zkbroker.registry.broker_configs import broker_config, set_broker_config
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

BROKER = ConfigResourceType.BROKER


cluster = module_cluster(
    2, check_logs=True, properties={"num.partitions": 1, "log.retention.hours": 24}
)


@pytest.fixture
def first(cluster: LocalCluster) -> Iterator[BrokerConnection]:
    with connect(cluster.brokers[0]) as connected:
        yield connected
        for name in ("1", ""):
            assert alter(connected, name).error_code == 0


@pytest.fixture
def session(cluster: LocalCluster) -> Iterator[ZkSession]:
    with ZkSession(cluster.zookeeper) as started:
        yield started


def alter(connection: BrokerConnection, name: str, **settings: str) -> AlteredConfigs:
    given = [TopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
    request = AlterConfigsRequest([AlterConfigsResource(BROKER, name, given)])
    answer: AlteredConfigs = connection.request(request).resources[0]
    return answer


def described(
    connection: BrokerConnection, name: str, *keys: str, kind: int = BROKER
) -> dict[str, ConfigEntry]:
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    request = DescribeConfigsRequest([resource], include_synonyms=True)
    answer: DescribeConfigsResponse = connection.request(request)
    assert answer.resources[0].error_code == 0
    return {entry.name: entry for entry in answer.resources[0].entries}


def create_on(connection: BrokerConnection, topic: str, broker: int) -> None:
    """Create a topic of one partition on one broker, and wait until it is led there."""
    new = NewTopic(topic, assignments=[ReplicaAssignment(0, [broker])])
    answer = connection.request(CreateTopicsRequest([new], timeout_ms=10_000))
    assert [each.error_code for each in answer.topics] == [0]
    until(lambda: [each.leader for each in metadata(connection, topic, 1).partitions] == [broker])


def log_lines(broker: Broker, text: str) -> int:
    return broker.log_path.read_text().count(text)


def test_sources_and_synonyms_are_listed_in_order_of_precedence(
    first: BrokerConnection,
) -> None:
    key = "message.max.bytes"
    assert alter(first, "1", message_max_bytes="900000").error_code == 0
    assert alter(first, "", message_max_bytes="800000").error_code == 0
    entry = described(first, "1", key)[key]
    assert (entry.value, entry.source) == ("900000", ConfigSource.DYNAMIC_BROKER)
    assert (entry.read_only, entry.is_sensitive) == (False, False)
    assert entry.synonyms == [
        ConfigSynonym(key, "900000", ConfigSource.DYNAMIC_BROKER),
        ConfigSynonym(key, "800000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ConfigSynonym(key, "1000012", ConfigSource.DEFAULT),
    ]
    # The default entity has only the settings that were set for all brokers.
    (entry,) = described(first, "").values()
    assert (entry.value, entry.source) == ("800000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert entry.synonyms == [ConfigSynonym(key, "800000", ConfigSource.DYNAMIC_DEFAULT_BROKER)]


def test_time_is_described_in_its_configured_unit(first: BrokerConnection) -> None:
    keys = ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
    found = described(first, "1", *keys)
    assert [found[key].value for key in keys] == [None, None, "24"]
    hours = [
        ConfigSynonym(keys[2], "24", ConfigSource.STATIC_BROKER),
        ConfigSynonym(keys[2], "168", ConfigSource.DEFAULT),
    ]
    assert found[keys[2]].synonyms == hours
    assert alter(first, "", log_retention_ms="5000").error_code == 0
    found = described(first, "1", *keys)
    assert found[keys[0]].value == "5000"
    set_now = ConfigSynonym(keys[0], "5000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert found[keys[0]].synonyms == [set_now, *hours]
    assert found[keys[2]].synonyms == hours


def test_all_settings_are_described_and_secrets_hidden(first: BrokerConnection) -> None:
    found = described(first, "1")
    assert len(found) > 200
    assert found["num.io.threads"].value == "8"
    assert found["num.io.threads"].source == ConfigSource.DEFAULT
    assert found["broker.id"].source == ConfigSource.STATIC_BROKER
    assert (found["broker.id"].read_only, found["log.dir"].read_only) == (True, True)
    hidden = {name for name, entry in found.items() if entry.is_sensitive}
    assert "ssl.keystore.password" in hidden
    assert all(found[name].value is None for name in hidden)
    words = ("password", "secret", "jaas", "master", "auth.digest")
    assert all(any(word in name for word in words) for name in hidden)


@pytest.mark.parametrize(
    ("name", "settings", "code", "message"),
    [
        ("1", {"broker_id": "5"}, ErrorCode.INVALID_REQUEST, "broker.id needs a restart"),
        ("", {"num_partitons": "5"}, ErrorCode.INVALID_REQUEST, "did you mean num.partitions?"),
        ("1", {"log_retention_ms": "soon"}, ErrorCode.INVALID_CONFIG, "log.retention.ms='soon' is"),
        ("2", {"log_retention_ms": "5"}, ErrorCode.INVALID_REQUEST, "This is broker 1; ask bro"),
    ],
)
def test_invalid_change_is_refused_and_nothing_written(
    first: BrokerConnection,
    session: ZkSession,
    name: str,
    settings: dict[str, str],
    code: ErrorCode,
    message: str,
) -> None:
    answer = alter(first, name, message_max_bytes="900000", **settings)
    assert answer.error_code == code
    assert message in str(answer.error_message)
    assert broker_config(session, int(name) if name else None) == {}


def test_topic_default_takes_effect_on_running_brokers(
    cluster: LocalCluster, first: BrokerConnection
) -> None:
    for broker in (1, 2):
        create_on(first, f"small-{broker}", broker)
    large = message_set(2, [b"x" * 5000])

    def sends(connection: BrokerConnection, number: int) -> Callable[[], int]:
        return lambda: produce(connection, f"small-{number}", large).error_code

    with connect(cluster.brokers[1]) as second:
        asked = [sends(first, 1), sends(second, 2)]
        # Broker 1 may know of the other's leadership before that one does.
        until(lambda: [ask() for ask in asked] == [0, 0])
        assert alter(first, "", message_max_bytes="1000").error_code == 0
        for ask in asked:
            until(lambda ask=ask: ask() == ErrorCode.MESSAGE_TOO_LARGE)
        topic = described(first, "small-1", "max.message.bytes", kind=ConfigResourceType.TOPIC)
        assert topic["max.message.bytes"].value == "1000"
        assert topic["max.message.bytes"].source == ConfigSource.DYNAMIC_DEFAULT_BROKER
        # A broker's own setting wins over that of all.
        assert alter(first, "1", message_max_bytes="1000000").error_code == 0
        until(lambda: asked[0]() == 0)
        assert asked[1]() == ErrorCode.MESSAGE_TOO_LARGE
        assert alter(first, "").error_code == 0
        until(lambda: asked[1]() == 0)


def test_connection_limit_takes_effect_on_running_broker(
    cluster: LocalCluster, first: BrokerConnection
) -> None:
    broker = cluster.brokers[0]
    before = log_lines(broker, "limit=max.connections.per.ip")
    assert alter(first, "1", max_connections_per_ip="1").error_code == 0

    def is_refused() -> bool:
        try:
            with connect(broker) as another:
                described(another, "1")
        except NetworkError:
            return True
        return False

    # A change is logged before its parts take it.
    until(is_refused)
    assert log_lines(broker, "settings={'max.connections.per.ip': '1'}") > 0
    assert log_lines(broker, "limit=max.connections.per.ip") > before


def test_fetcher_and_cleaner_settings_take_effect(
    cluster: LocalCluster, first: BrokerConnection
) -> None:
    broker = cluster.brokers[0]
    create_on(first, "copied", 2)
    changed = alter(first, "1", num_replica_fetchers="3", log_cleaner_threads="2")
    assert changed.error_code == 0
    until(lambda: log_lines(broker, "fetchers of each leader before=1 now=3") > 0)
    contradiction = alter(first, "1", log_cleaner_dedupe_buffer_size="2", log_cleaner_threads="2")
    assert contradiction.error_code == ErrorCode.INVALID_CONFIG
    assert "is too small for log.cleaner.threads=2" in str(contradiction.error_message)


def test_settings_written_to_zookeeper_take_effect(
    cluster: LocalCluster, first: BrokerConnection, session: ZkSession
) -> None:
    broker = cluster.brokers[0]
    rate = "leader.replication.throttled.rate"
    settings = {rate: "10000", "broker.id": "9", "background.threads": "9"}
    set_broker_config(session, 1, settings)
    until(lambda: log_lines(broker, "replication throttled rate=10000") > 0)
    assert log_lines(broker, "ignored key=broker.id error=broker.id needs a restart") > 0
    assert log_lines(broker, "config key=background.threads has no effect: requests are ") > 0
    found = described(first, "1", rate, "broker.id")
    assert (found[rate].value, found[rate].source) == ("10000", ConfigSource.DYNAMIC_BROKER)
    assert found["broker.id"].value == "1"


def test_dynamic_settings_survive_restart(cluster: LocalCluster, first: BrokerConnection) -> None:
    with connect(cluster.brokers[1]) as second:
        assert alter(second, "2", min_insync_replicas="2").error_code == 0
    broker = cluster.brokers[1]
    broker.stop()
    broker.start()
    with connect(broker) as second:
        create_on(second, "strict", 2)
        answer = produce(second, "strict", message_set(2, [b"x"]), acks=-1)
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert alter(second, "2").error_code == 0
        again = message_set(2, [b"x"])
        until(lambda: produce(second, "strict", again, acks=-1).error_code == 0)
