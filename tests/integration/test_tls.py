"""Brokers that speak TLS: other keys while they run, and starts that cannot work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import MakeCluster
from tests.support.process import eventually
from tests.support.security_ways import Credentials, Way
from zkbroker.client import Cluster, StaticSource
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.security import ClientSecurity
from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.protocol.messages import AlterConfigsRequest, DescribeConfigsRequest
from zkbroker.protocol.messages.configs import (
    AlterConfigsResource,
    ConfigResourceType,
    DescribeConfigsResource,
)
from zkbroker.protocol.messages.topics import TopicConfig
from zkbroker.testing import LocalCluster

SSL = Way("SSL", "SSL")
KEYSTORE = "listener.name.ssl.ssl.keystore.location"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def cluster(local_cluster: MakeCluster, credentials: Credentials) -> Iterator[LocalCluster]:
    properties = {
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.location": credentials.broker,
        "ssl.truststore.location": credentials.trusted,
        "ssl.key.password": "of no use",
    }
    with local_cluster(2, replication=2, properties=properties) as running:
        yield running


def topics(cluster: LocalCluster, credentials: Credentials, listener: str = "SSL") -> list[str]:
    security = ClientSecurity.from_properties(credentials.java(SSL) if listener == "SSL" else {})
    source = StaticSource(cluster.bootstrap(listener).split(",")[0])
    with Cluster(source, security=security, request_timeout_ms=5000) as view:
        return view.topics()


def alter(cluster: LocalCluster, path: str) -> tuple[int, str]:
    with Cluster(StaticSource(cluster.bootstrap("PLAINTEXT").split(",")[0])) as view:
        resource = AlterConfigsResource(
            ConfigResourceType.BROKER, "1", [TopicConfig(KEYSTORE, path)]
        )
        (answer,) = view.connection(1).request(AlterConfigsRequest([resource])).resources
        return answer.error_code, answer.error_message or ""


def test_keystore_changes_by_alter_configs(
    cluster: LocalCluster, credentials: Credentials, tmp_path: Path
) -> None:
    assert topics(cluster, credentials) == []
    code, message = alter(cluster, str(tmp_path / "none.pem"))
    assert code != ErrorCode.NONE
    assert "cannot be read" in message
    other = credentials.authority.issue("CN=broker", hosts=("b.example",)).pem(tmp_path)
    assert alter(cluster, other) == (0, "")

    def refused() -> bool:
        try:
            topics(cluster, credentials)
        except ZkbrokerError as error:
            return "not for 127.0.0.1" in str(error)
        return False

    eventually(refused, "the other certificate is shown")
    assert alter(cluster, credentials.broker) == (0, "")
    eventually(lambda: not refused(), "the first certificate is shown again")


def test_secrets_are_not_described(cluster: LocalCluster) -> None:
    with Cluster(StaticSource(cluster.bootstrap("PLAINTEXT").split(",")[0])) as view:
        request = DescribeConfigsRequest(
            [DescribeConfigsResource(ConfigResourceType.BROKER, "1", None)]
        )
        (answer,) = view.connection(1).request(request).resources
    found = {each.name: (each.value, each.is_sensitive) for each in answer.entries}
    assert found["ssl.key.password"] == (None, True)
    assert found["ssl.keystore.location"][1] is False


def test_restarted_broker_replicates_over_tls(
    cluster: LocalCluster, credentials: Credentials
) -> None:
    topic = cluster.create_topic()
    settings = {
        "bootstrap.servers": cluster.bootstrap("SSL"),
        "acks": "all",
        **credentials.java(SSL),
    }
    with Producer(ProducerConfig.from_properties(settings)) as producer:
        producer.send([KeyedMessage(topic, b"x" * 1000) for _ in range(200)])
        cluster.broker(2).kill()
        cluster.broker(2).start()
        producer.send([KeyedMessage(topic, b"y" * 1000) for _ in range(200)])
    stored = [broker.data_directory / f"{topic}-0" for broker in cluster.brokers]

    def equal() -> bool:
        first, second = ([each.read_bytes() for each in sorted(d.glob("*.log"))] for d in stored)
        return first == second and sum(map(len, first)) > 400_000

    eventually(equal, "both brokers hold the same")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ssl.keystore.location": "/none.pem"}, "ssl.keystore.location=/none.pem cannot be read"),
        ({"ssl.truststore.location": "/none.pem"}, "ssl.truststore.location=/none.pem cannot be"),
        ({"ssl.cipher.suites": "TLS_NONE"}, "OpenSSL knows none of them"),
    ],
)
def test_invalid_tls_settings_prevent_start(
    local_cluster: MakeCluster, credentials: Credentials, wrong: dict[str, str], message: str
) -> None:
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": credentials.broker,
        "ssl.truststore.location": credentials.trusted,
        "ssl.client.auth": "requested",
        **wrong,
    }
    with pytest.raises(ZkbrokerError) as refused, local_cluster(1, properties=properties):
        pass
    assert message in str(refused.value)
