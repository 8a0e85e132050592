"""Logins to real brokers: clients, brokers among themselves, users that come and go."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from tests.support.clusters import MakeCluster
from tests.support.login_session import request_frame
from tests.support.sasl_cluster import (
    BROKERS,
    LISTENER,
    MECHANISMS,
    PASSWORD,
    USER,
    broker_properties,
    client_properties,
)
from tests.support.zookeeper import until
from zkbroker.cli.main import cli
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.security import ClientSecurity
from zkbroker.consumer import GroupConsumer
from zkbroker.errors import AuthenticationFailed, ErrorCode, NetworkError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.protocol import ApiKey, decode_response
from zkbroker.protocol.messages import (
    ApiVersionsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from zkbroker.registry.user_configs import ConfigEntity, change_entity_config
from zkbroker.runtime import get_runtime
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import free_port

RUNTIME = get_runtime("threads")


@pytest.fixture(scope="module")
def cluster(local_cluster: MakeCluster) -> Iterator[LocalCluster]:
    properties = {
        **broker_properties(),
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "2",
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
    }
    with local_cluster(brokers=2, properties=properties) as running:
        users(running.zookeeper, "add", USER, password=PASSWORD)
        yield running
        for broker in running.brokers:
            log = broker.log_path.read_text()
            assert "Traceback" not in log, log[log.index("Traceback") - 2000 :]
            assert PASSWORD not in log
            assert "of brokers" not in log


def users(zookeeper: str, *arguments: str, password: str = "") -> str:
    done = CliRunner().invoke(cli, ["users", *arguments, "-z", zookeeper], input=password)
    assert done.exit_code == 0, done.output
    return done.output


def address(cluster: LocalCluster, listener: str = LISTENER) -> tuple[str, int]:
    return cluster.brokers[0].listeners[listener]


def connect(cluster: LocalCluster, mechanism: str, *login: str, listener: str = LISTENER):
    security = ClientSecurity.from_properties(client_properties(mechanism, *login))
    host, port = address(cluster, listener)
    return BrokerConnection(RUNTIME, host, port, security=security)


def can_log_in(cluster: LocalCluster, mechanism: str, *login: str) -> bool:
    try:
        connect(cluster, mechanism, *login).close()
    except AuthenticationFailed:
        return False
    return True


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_own_clients_produce_and_consume_after_login(cluster: LocalCluster, mechanism: str) -> None:
    topic = f"t-{mechanism}"
    cluster.create_topic(topic, partitions=2, replication=2)
    common = dict(client_properties(mechanism))
    servers = cluster.bootstrap(LISTENER)
    with Producer(
        ProducerConfig.from_properties(
            {"metadata.broker.list": servers, "request.required.acks": "-1", **common}
        )
    ) as producer:
        for number in range(20):
            producer.send(KeyedMessage(topic, b"%d" % number, key=b"%d" % number))
    with GroupConsumer(
        GroupConsumerConfig.from_properties(
            {
                "bootstrap.servers": servers,
                "group.id": f"g-{mechanism}",
                "auto.offset.reset": "earliest",
                **common,
            }
        )
    ) as consumer:
        consumer.subscribe([topic])
        found: list[bytes] = []
        until(lambda: found.extend(each.value for each in consumer.poll(1.0)) or len(found) == 20)
    assert sorted(found, key=int) == [b"%d" % number for number in range(20)]


def test_broker_log_contains_no_password(cluster: LocalCluster) -> None:
    secret = "not the password of anyone"
    assert not can_log_in(cluster, "PLAIN", USER, secret)
    path = cluster.brokers[0].log_path
    reason = "login failed mechanism=PLAIN: Authentication failed: Invalid username"
    until(lambda: reason in path.read_text())
    assert secret not in path.read_text()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_users_change_while_brokers_run(cluster: LocalCluster, mechanism: str) -> None:
    user = f"new-{mechanism}"
    zookeeper = cluster.zookeeper
    assert not can_log_in(cluster, mechanism, user, "first")
    users(zookeeper, "add", user, "--mechanism", mechanism, password="first")
    until(lambda: can_log_in(cluster, mechanism, user, "first"))
    users(zookeeper, "alter", user, password="second")
    until(lambda: can_log_in(cluster, mechanism, user, "second"))
    assert not can_log_in(cluster, mechanism, user, "first")
    assert f"{user}  {mechanism} (4096 iterations)" in users(zookeeper, "list")
    kept = connect(cluster, mechanism, user, "second")
    users(zookeeper, "delete", user)
    until(lambda: not can_log_in(cluster, mechanism, user, "second"))
    assert kept.request(MetadataRequest([])).brokers
    kept.close()


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_refused_login_names_user_and_mechanism(cluster: LocalCluster, mechanism: str) -> None:
    with pytest.raises(
        AuthenticationFailed, match=f"the user 'mallory' by {mechanism} at"
    ) as refused:
        connect(cluster, mechanism, "mallory", "hush")
    assert "hush" not in str(refused.value)


def test_mechanism_of_other_listener_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(AuthenticationFailed, match="offers PLAIN: set sasl"):
        connect(cluster, "SCRAM-SHA-512", listener=BROKERS)
    with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
        connect(cluster, "PLAIN", listener=BROKERS)


def exchange(to: tuple[str, int], *frames: bytes) -> list[bytes]:
    """Send frames one by one; return the answers' until the broker closes."""
    answers = []
    with socket.create_connection(to, 10) as connection:
        stream = connection.makefile("rb")
        for frame in frames:
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            try:
                size = stream.read(4)
            except ConnectionResetError:
                break
            if len(size) < 4:
                break
            answers.append(stream.read(int.from_bytes(size, "big")))
    return answers


def test_listener_without_logins_returns_illegal_sasl_state(cluster: LocalCluster) -> None:
    handshake = request_frame(SaslHandshakeRequest("PLAIN"), 1)
    token = request_frame(SaslAuthenticateRequest(b"\0a\0b"), 0)
    answers = exchange(address(cluster, "PLAINTEXT"), handshake, token, handshake)
    assert len(answers) == 3
    for key, version, answer in zip((17, 36, 17), (1, 0, 1), answers, strict=True):
        _, response = decode_response(key, version, answer)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("listener", ["PLAINTEXT", LISTENER])
def test_every_listener_announces_sasl_apis(cluster: LocalCluster, listener: str) -> None:
    (answer,) = exchange(address(cluster, listener), request_frame(ApiVersionsRequest(), 0))
    _, response = decode_response(ApiKey.API_VERSIONS, 0, answer)
    spans = {each.key: (each.min_version, each.max_version) for each in response.versions}
    assert (spans[17], spans[36]) == ((0, 1), (0, 0))


def test_requests_before_login_close_connection(cluster: LocalCluster) -> None:
    metadata = request_frame(MetadataRequest(["t-PLAIN"]), 1)
    assert exchange(address(cluster), metadata) == []
    handshake = request_frame(SaslHandshakeRequest("PLAIN"), 0)
    bare = exchange(address(cluster), handshake, b"\0mallory\0x", metadata)
    assert len(bare) == 1
    started = time.monotonic()
    token = request_frame(SaslAuthenticateRequest(b"\0mallory\0x"), 0)
    handshake = request_frame(SaslHandshakeRequest("PLAIN"), 1)
    answers = exchange(address(cluster), handshake, token, metadata)
    assert time.monotonic() - started >= 0.1  # connection.failed.authentication.delay.ms
    _, response = decode_response(ApiKey.SASL_AUTHENTICATE, 0, answers[1])
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert len(answers) == 2


def test_long_frames_are_accepted_only_after_login(cluster: LocalCluster) -> None:
    long = request_frame(MetadataRequest(["x" * 200] * 4000), 1)
    assert len(long) > 512 * 1024
    assert exchange(address(cluster), long) == []
    handshake = request_frame(SaslHandshakeRequest("PLAIN"), 1)
    token = request_frame(SaslAuthenticateRequest(f"\0{USER}\0{PASSWORD}".encode()), 0)
    assert len(exchange(address(cluster), handshake, token, long)) == 3


def test_client_without_login_is_refused(cluster: LocalCluster) -> None:
    host, port = address(cluster)
    with (
        BrokerConnection(RUNTIME, host, port) as connection,
        pytest.raises(NetworkError, match=r"asks for a login: set security\.protocol"),
    ):
        connection.request(MetadataRequest([]))


def test_brokers_log_in_with_scram_users(local_cluster: MakeCluster) -> None:
    page = free_port()
    properties = broker_properties("SCRAM-SHA-512") | {"admin.port": str(page)}
    cluster = local_cluster(properties=properties)
    users(cluster.zookeeper, "add", "broker", password="of brokers")
    with cluster:
        cluster.add_broker()
        with BrokerConnection(RUNTIME, *address(cluster, "PLAINTEXT")) as connection:
            until(lambda: len(connection.request(MetadataRequest([])).brokers) == 2)
        counted = 'zkbroker_logins_total{listener="INTERNAL",mechanism="SCRAM-SHA-512",result='
        metrics = f"http://127.0.0.1:{page}/metrics"
        until(lambda: counted + '"good"}' in urlopen(metrics, timeout=300).read().decode())


def test_invalid_login_settings_prevent_start(tmp_path: Path, cluster: LocalCluster) -> None:
    settings = broker_properties() | {
        "broker.id": "7",
        "log.dirs": str(tmp_path / "data"),
        "zookeeper.connect": f"{cluster.zookeeper}/refused",
        "listener.name.client.plain.sasl.server.callback.handler.class": "none.such:thing",
    }
    path = tmp_path / "server.properties"
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    path.write_text(text.replace("\\", "\\\\"))
    done = subprocess.run(
        [sys.executable, "-m", "zkbroker.cli", "broker", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0
    assert "cannot be imported" in done.stderr
    assert "Traceback" not in done.stderr
    assert PASSWORD not in done.stderr


def test_user_quota_applies_to_all_logins_of_user(cluster: LocalCluster) -> None:
    request = MetadataRequest(topics=[])
    with (
        ZkSession(cluster.zookeeper) as session,
        connect(cluster, "SCRAM-SHA-512") as scram,
        connect(cluster, "PLAIN") as plain,
        BrokerConnection(RUNTIME, *cluster.brokers[0].address) as anonymous,
    ):
        entity = ConfigEntity(user=USER)
        change_entity_config(session, entity, {"request_percentage": "0.01"})
        try:
            until(lambda: scram.request(request).throttle_time_ms > 0)
            # Another connection, by another mechanism: the same user.
            assert plain.request(request).throttle_time_ms > 0
            assert anonymous.request(request).throttle_time_ms == 0
        finally:
            change_entity_config(session, entity, {"request_percentage": None})
    # The credentials, which stand beside it, are kept.
    assert can_log_in(cluster, "SCRAM-SHA-512")
