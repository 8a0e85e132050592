"""Users with ACLs: brokers and clients that show certificates, or log in.

Two brokers with an authorizer. They replicate as super users, by certificates or by logins; alice
may write, bob may read, and a client that is neither may do nothing.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.interop.kafka_python import kafka
from tests.support.authorized import SETTINGS
from tests.support.certificates import Authority
from tests.support.clusters import TestCluster
from tests.support.zookeeper import until
from zkbroker.cli.main import cli
from zkbroker.registry.acls import add_acls, ensure_acl_tree
from zkbroker.registry.topics import create_topic
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acls import Acl, Pattern, Permission
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
USERS = ("alice", "bob", "mallory", "admin")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass
class Secured:
    """A running cluster, the names of its users, and the settings of their clients."""

    cluster: LocalCluster
    names: Mapping[str, str]
    librdkafka: Mapping[str, Mapping[str, str]]
    python: Mapping[str, Mapping[str, Any]]


@contextlib.contextmanager
def running(
    where: str, settings: Mapping[str, str], names: Mapping[str, str]
) -> Iterator[LocalCluster]:
    super_users = f"User:{names['broker']};User:{names['admin']}"
    every = {
        **{key: value for key, value in SETTINGS.items() if key != "listeners"},
        "super.users": super_users,
        "offsets.topic.num.partitions": "1",
        **settings,
    }
    with ZkSession(where) as zk:
        ensure_acl_tree(zk)
        for user, operation, kind, name in (
            ("alice", Operation.WRITE, TOPIC, "t"),
            ("bob", Operation.READ, TOPIC, "t"),
            ("bob", Operation.READ, GROUP, "g"),
        ):
            acl = Acl(f"User:{names[user]}", Permission.ALLOW, operation)
            add_acls(zk, Pattern(kind, name), [acl])
        with TestCluster(brokers=2, zookeeper=where, properties=every) as cluster:
            create_topic(zk, "t", {0: [1, 2]}, {"min.insync.replicas": "2"})
            yield cluster
            for broker in cluster.brokers:
                log = broker.log_path.read_text()
                assert "Traceback" not in log
                assert "may not act for the cluster" not in log


@pytest.fixture(scope="module", params=["SSL", "SASL_PLAINTEXT"])
def secured(
    request: pytest.FixtureRequest, zookeeper: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    where = f"{zookeeper.connect_string}/users-{request.param}"
    directory = tmp_path_factory.mktemp("users")
    make = by_certificates if request.param == "SSL" else by_logins
    with make(where, directory) as made:
        until(lambda: is_known(made))
        yield made


def is_known(secured: Secured) -> bool:
    """Whether every broker knows the topic: one that does not asks for the right to create it."""
    return all(
        "t"
        in AdminClient({"bootstrap.servers": place, **secured.librdkafka["admin"]})
        .list_topics(timeout=300)
        .topics
        for place in secured.cluster.bootstrap_servers.split(",")
    )


@contextlib.contextmanager
def by_certificates(where: str, directory: Path) -> Iterator[Secured]:
    authority = Authority()
    trusted = authority.trusted(directory)
    keys = {user: authority.issue(f"CN={user},O=test") for user in (*USERS, "broker")}
    names = {user: f"CN={user},O=test" for user in keys}
    stores = {user: key.pem(directory) for user, key in keys.items()}
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": stores["broker"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
    }
    with running(where, settings, names) as cluster:
        yield Secured(
            cluster,
            names,
            {
                user: {
                    "security.protocol": "SSL",
                    "ssl.ca.location": trusted,
                    "ssl.certificate.location": stores[user],
                    "ssl.key.location": stores[user],
                }
                for user in USERS
            },
            {
                user: {
                    "security_protocol": "SSL",
                    "ssl_cafile": trusted,
                    "ssl_certfile": stores[user],
                    "ssl_keyfile": stores[user],
                }
                for user in USERS
            },
        )


@contextlib.contextmanager
def by_logins(where: str, directory: Path) -> Iterator[Secured]:
    names = {user: user for user in (*USERS, "broker")}
    users = " ".join(f'user_{user}="{user}-secret"' for user in names)
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PLAIN} username="broker" password="broker-secret" {users};'
        ),
    }
    with running(where, settings, names) as cluster:
        yield Secured(
            cluster,
            names,
            {
                user: {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": user,
                    "sasl.password": f"{user}-secret",
                }
                for user in USERS
            },
            {
                user: {
                    "security_protocol": "SASL_PLAINTEXT",
                    "sasl_mechanism": "PLAIN",
                    "sasl_plain_username": user,
                    "sasl_plain_password": f"{user}-secret",
                }
                for user in USERS
            },
        )


def produced(
    secured: Secured, user: str, value: bytes, *, idempotent: bool = False
) -> KafkaError | None:
    """Produce with librdkafka; return the error."""
    place = {"bootstrap.servers": secured.cluster.bootstrap_servers}
    producer = Producer(
        {**place, **secured.librdkafka[user], "acks": "all", "enable.idempotence": idempotent}
    )
    errors: list[KafkaError | None] = []
    producer.produce("t", value, on_delivery=lambda error, message: errors.append(error))
    producer.flush(30)
    (error,) = errors
    return error


def test_writer_produces_and_reader_consumes(secured: Secured) -> None:
    assert produced(secured, "alice", b"one", idempotent=True) is None
    for user in ("bob", "mallory"):
        error = produced(secured, user, b"no")
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    place = {"bootstrap.servers": secured.cluster.bootstrap_servers}
    group = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**place, **secured.librdkafka["bob"], **group})
    consumer.subscribe(["t"])
    found = consumer.poll(30)
    assert found is not None
    assert (found.error(), found.value()) == (None, b"one")
    consumer.close()


def test_users_without_rights_are_refused(secured: Secured) -> None:
    place = {"bootstrap_servers": secured.cluster.bootstrap_servers.split(",")}
    consumer = kafka.KafkaConsumer("t", group_id="g", **place, **secured.python["alice"])
    with pytest.raises(kafka.errors.KafkaError) as caught:
        consumer.poll(timeout_ms=60_000)
    assert "Authorization" in type(caught.value).__name__
    consumer.close()
    mallory = kafka.KafkaConsumer(group_id=None, **place, **secured.python["mallory"])
    assert mallory.topics() == set()
    mallory.close()
    admin = AdminClient(
        {
            "bootstrap.servers": secured.cluster.bootstrap_servers,
            **secured.librdkafka["mallory"],
        }
    )
    (deleted,) = admin.delete_topics(["t"]).values()
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        deleted.result(30)


def test_administrator_changes_acls_with_command_config(secured: Secured, tmp_path: Path) -> None:
    def run(user: str, *arguments: str) -> Result:
        file = tmp_path / f"{user}.properties"
        settings = secured.librdkafka[user].items()
        file.write_text("".join(f"{key}={value}\n" for key, value in settings))
        where = ["-b", secured.cluster.bootstrap_servers, "--command-config", str(file)]
        return CliRunner().invoke(cli, ["acls", *arguments, *where])

    name = secured.names["mallory"]
    grant = ("add", "--allow-principal", f"User:{name}", "--producer", "--topic", "t")
    refused = run("mallory", *grant)
    assert refused.exit_code == 1
    assert "CLUSTER_AUTHORIZATION_FAILED (31)" in str(refused.exception)
    assert run("admin", *grant).exit_code == 0
    until(lambda: produced(secured, "mallory", b"two") is None)
    listed = run("admin", "list", "--principal", f"User:{name}", "--json")
    assert [each["operation"] for each in json.loads(listed.stdout)] == [
        "Write",
        "Create",
        "Describe",
    ]
    named = ("remove", "--topic", "t", "--allow-principal", f"User:{name}", "--yes")
    assert run("admin", *named).exit_code == 0
    until(lambda: produced(secured, "mallory", b"no") is not None)
