"""Every client by every way to connect: it produces, joins a group, and consumes.

The ways stand in `tests/support/security_ways.py`. Brokers copy among themselves by the listener
that asks for certificates.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from tests.interop.jobs import CLIENTS, LEGACY, missing
from tests.support import java_clients, node_clients
from tests.support.clusters import MakeCluster
from tests.support.process import eventually, wait_until
from tests.support.security_ways import WAYS, Credentials, Way
from zkbroker.cli.main import cli
from zkbroker.client import Cluster, StaticSource, ZooKeeperSource
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.security import ClientSecurity
from zkbroker.consumer import Consumer, GroupConsumer, SimpleConsumer, Whitelist
from zkbroker.errors import ZkbrokerError
from zkbroker.mirror import Mirror, MirrorConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.testing import LocalCluster

VALUES = [f"value {number}" for number in range(20)]
_LIMIT_S = 300
PYTHON = ("confluent", "kafka-python", "kafka-python-2.0.2", "aiokafka")


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("security"))


@pytest.fixture(scope="module")
def cluster(local_cluster: MakeCluster, credentials: Credentials) -> Iterator[LocalCluster]:
    properties = {
        **credentials.broker_properties(),
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
    }
    with local_cluster(2, replication=2, properties=properties) as running:
        yield running
        for broker in running.brokers:
            assert "Traceback" not in broker.log_path.read_text()


@pytest.fixture(params=WAYS, ids=lambda way: f"{way.listener}")
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


def _run(command: list[str], text: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        input=text,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.parametrize("library", [*PYTHON, "kafkajs"])
def test_python_and_node_clients(
    cluster: LocalCluster, credentials: Credentials, library: str
) -> None:
    """Each library in one process, by one way after the other."""
    if missing(library):
        pytest.skip(str(missing(library)))
    command, environment = [sys.executable, str(CLIENTS / "matrix_client.py")], dict(os.environ)
    if library == "kafka-python-2.0.2":
        environment["PYTHONPATH"] = str(LEGACY)
    elif library == "kafkajs":
        command, environment = node_clients.command("matrix.js"), node_clients.environment()
    jobs = [
        credentials.job(
            library, way, cluster.bootstrap(way.listener), cluster.create_topic(), VALUES
        )
        for way in WAYS
    ]
    assert json.loads(_run(command, json.dumps(jobs), environment)) == [VALUES] * len(WAYS)


@pytest.mark.parametrize("version", java_clients.version_parameters())
def test_java(cluster: LocalCluster, credentials: Credentials, way: Way, version: str) -> None:
    topic = cluster.create_topic()
    file = credentials.java_file(way)
    command = java_clients.command(
        "Secured", version, cluster.bootstrap(way.listener), file, topic, *VALUES
    )
    assert java_clients.run(command, timeout_s=_LIMIT_S).splitlines() == VALUES


def test_kcat(cluster: LocalCluster, credentials: Credentials, way: Way) -> None:
    if missing("kcat"):
        pytest.skip(str(missing("kcat")))
    topic = cluster.create_topic()
    common = ["kcat", "-b", cluster.bootstrap(way.listener), "-t", topic]
    for pair in credentials.librdkafka(way).items():
        common += ["-X", "=".join(pair)]
    _run([*common, "-P"], "\n".join(VALUES) + "\n", dict(os.environ))
    found = _run([*common, "-C", "-e", "-q", "-o", "beginning"], "", dict(os.environ))
    assert found.splitlines() == VALUES


def test_own_clients(cluster: LocalCluster, credentials: Credentials, way: Way) -> None:
    topic = cluster.create_topic()
    settings = credentials.java(way)
    bootstrap = {"bootstrap.servers": cluster.bootstrap(way.listener), **settings}
    by_zookeeper = {"zookeeper.connect": cluster.zookeeper, **settings}
    for number, properties in enumerate((bootstrap, by_zookeeper)):
        with Producer(ProducerConfig.from_properties({**properties, "acks": "all"})) as producer:
            half = VALUES[number * 10 : number * 10 + 10]
            producer.send([KeyedMessage(topic, value.encode()) for value in half])
    group = {**bootstrap, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"}
    with GroupConsumer(GroupConsumerConfig.from_properties(group)) as consumer:
        consumer.subscribe([topic])
        found: list[str] = []
        wait_until(
            lambda: (
                found.extend(each.value.decode() for each in consumer.poll(0.2))
                or len(found) >= len(VALUES)
            ),
            _LIMIT_S,
        )
    assert found == VALUES
    streams = {
        **by_zookeeper,
        "group.id": f"{topic}-zk",
        "auto.offset.reset": "smallest",
        "consumer.timeout.ms": "60000",
    }
    with Consumer.create(ConsumerConfig.from_properties(streams)) as connector:
        (stream,) = connector.create_message_streams_by_filter(Whitelist(topic), 1)
        assert [next(stream).value.decode() for _ in VALUES] == VALUES
    security = ClientSecurity.from_properties(settings)
    with Cluster(StaticSource(bootstrap["bootstrap.servers"]), security=security) as view:
        assert len(view.brokers()) == 2
        (partition,) = view.partitions(topic)
        assert partition.leader is not None
        address = view.brokers()[partition.leader]
        cluster_topics = view.topics()
    assert topic in cluster_topics
    with SimpleConsumer(address.host, address.port, security=security) as simple:
        assert simple.get_offsets_before(topic, 0, -1, 1) == [len(VALUES)]
    with Cluster(ZooKeeperSource(cluster.zookeeper), security=security) as view:
        ports = {each.port for each in view.brokers().values()}
    # A client that finds brokers in ZooKeeper takes their first listener of its protocol.
    first = next(each for each in WAYS if each.protocol == way.protocol)
    assert all(f":{port}" in cluster.bootstrap(first.listener) for port in ports)


CERTIFIED = WAYS[-1]
"""For commands and mirrors, whose settings become a `ClientSecurity` as those of clients do."""


def test_the_command_line(cluster: LocalCluster, credentials: Credentials) -> None:
    way = CERTIFIED
    topic = cluster.create_topic()
    file = credentials.java_file(way)
    where = ["-b", cluster.bootstrap(way.listener), "--command-config", file]
    runner = CliRunner()

    def run(*arguments: str, text: str = "") -> str:
        done = runner.invoke(cli, arguments, input=text)
        assert done.exit_code == 0, done.output
        return done.stdout

    acked = ["-X", "request.required.acks=-1"]
    run("produce", *where, "-t", topic, *acked, text="\n".join(VALUES) + "\n")
    assert run("consume", *where, "-t", topic, "-e").splitlines() == VALUES
    assert topic in run("metadata", *where)
    assert f"{topic}:0:20" in run("offsets", "get", *where, "-t", topic)
    kcat = ["kcat", "-b", cluster.bootstrap(way.listener), "-F", file, "-t", topic]
    assert topic in run(*kcat, "-L")
    assert run(*kcat, "-C", "-e", "-q", "-o", "beginning").splitlines() == VALUES
    genuine = ["--bootstrap-server", cluster.bootstrap(way.listener), "--topic", topic]
    console = ["--from-beginning", "--max-messages", "20", "--consumer.config", file]
    shown = run("kafka-console-consumer", *genuine, *console)
    assert shown.splitlines() == VALUES
    sure = ["--request-required-acks", "-1"]
    run("kafka-console-producer", *genuine, *sure, "--producer.config", file, text="one more\n")
    offsets = run("kafka-get-offsets", *genuine, "--command-config", file)
    assert f"{topic}:0:21" in offsets


def test_mirrors(cluster: LocalCluster, credentials: Credentials) -> None:
    way = CERTIFIED
    topic = cluster.create_topic()
    settings = {
        "bootstrap.servers": cluster.bootstrap(way.listener),
        **credentials.java(way),
    }
    with Producer(ProducerConfig.from_properties(settings)) as producer:
        producer.send([KeyedMessage(topic, value.encode()) for value in VALUES])
    given = {
        "whitelist": topic,
        "topic.prefix": f"{way.listener.lower()}-",
        **{f"source.here.{key}": value for key, value in settings.items()},
        "source.here.group.id": f"mirror-{topic}",
        **{f"target.{key}": value for key, value in settings.items()},
        "offset.syncs.topic": "",
    }
    with Mirror(MirrorConfig.from_properties(given)) as mirror:
        eventually(lambda: mirror.metrics()["messages"] == len(VALUES), timeout_s=_LIMIT_S)


def test_acknowledged_messages_are_on_both_brokers(
    cluster: LocalCluster, credentials: Credentials
) -> None:
    topic = cluster.create_topic(partitions=4)
    settings = {
        "bootstrap.servers": cluster.bootstrap("SSL"),
        "acks": "all",
        **credentials.java(WAYS[1]),
    }
    with Producer(ProducerConfig.from_properties(settings)) as producer:
        producer.send([KeyedMessage(topic, os.urandom(2000)) for _ in range(500)])
    stored = []
    for broker in cluster.brokers:
        logs = sorted(broker.data_directory.glob(f"{topic}-*/*.log"))
        stored.append([path.read_bytes() for path in logs])
    assert len(stored[0]) == 4
    assert stored[0] == stored[1]


def test_refused_client_gets_reason(cluster: LocalCluster, credentials: Credentials) -> None:
    def refused(listener: str, **settings: str) -> str:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        security = ClientSecurity.from_properties(given)
        source = StaticSource(cluster.bootstrap(listener))
        with (
            pytest.raises(ZkbrokerError) as error,
            Cluster(source, security=security, request_timeout_ms=5000) as view,
        ):
            view.topics()
        return str(error.value)

    ca = credentials.trusted
    assert "speaks TLS at this port: set security.protocol=SSL" in refused("SSL")
    assert "ssl.truststore.location" in refused("SSL", security_protocol="SSL")
    assert "is that the port of an SSL" in refused(
        "PLAINTEXT", security_protocol="SSL", ssl_ca_location=ca
    )
    assert "ssl.client.auth=required" in refused(
        "CERTIFIED", security_protocol="SSL", ssl_ca_location=ca
    )
    log = "".join(broker.log_path.read_text() for broker in cluster.brokers)
    assert "a client that does not speak TLS" in log
    assert "that is a TLS handshake, not a request of this protocol" in log
    assert "the client shows no certificate" in log
    assert "does not trust the authority that signed this broker's certificate" in log
