"""Brokers and ZooKeeper: registration, topics written by others, lost sessions, shutdown."""

import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.broker_requests import (
    fetch,
    fetch_request,
    message_set,
    metadata,
    only,
    produce,
    values,
)
from tests.support.brokers import MortalBroker, connect
from tests.support.process import eventually
from zkbroker.cluster.process import BrokerProcess
from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    InitProducerIdRequest,
    MetadataRequest,
    ProduceRequest,
)
from zkbroker.protocol.messages.topics import NewTopic, ReplicaAssignment
from zkbroker.records import Codec, MessageSetBuilder
from zkbroker.registry import paths
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.topics import encode_assignment
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

Start = Callable[..., BrokerProcess]


@pytest.fixture
def start(chroot: str, tmp_path: Path) -> Iterator[Start]:
    """Starts brokers on the test's own tree."""
    started: list[BrokerProcess] = []

    def start_one(broker_id: int = 0, connect: str = chroot, **settings: str) -> BrokerProcess:
        extra = {name.replace("__", "."): value for name, value in settings.items()}
        process = MortalBroker(
            tmp_path,
            {
                "broker.id": str(broker_id),
                "zookeeper.connect": connect,
                "log.index.size.max.bytes": "4096",
                **extra,
            },
        )
        process.start()
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.stop()


@pytest.fixture(scope="module")
def where(zookeeper: EmbeddedZooKeeper) -> str:
    """The tree of the broker that tests share."""
    return f"{zookeeper.connect_string}/one-broker-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def tree(where: str) -> Iterator[ZkSession]:
    with ZkSession(where) as session:
        yield session


@pytest.fixture(scope="module")
def shared(where: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "broker.id": "0",
        "zookeeper.connect": where,
        "log.index.size.max.bytes": "4096",
    }
    process = MortalBroker(tmp_path_factory.mktemp("shared"), settings)
    yield process
    process.stop()


@pytest.fixture
def process(shared: BrokerProcess) -> BrokerProcess:
    """That broker, running."""
    if not shared.alive:
        shared.start()
    return shared


@pytest.fixture
def t(process: BrokerProcess) -> str:
    """A topic of one partition on that broker, which it leads."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with connect(process) as connection:
        metadata(connection, name, 1)
        eventually(lambda: led(connection, name))
    return name


def led(connection: BrokerConnection, topic: str) -> bool:
    found = connection.request(MetadataRequest([topic]), 4).topics[0]
    return not found.error_code and all(not p.error_code for p in found.partitions)


def test_broker_registers_like_genuine_one(start: Start, zk: ZkSession) -> None:
    process = start(7, broker__rack="r1")
    with connect(process) as connection:
        metadata(connection, "t", 1)
        eventually(lambda: led(connection, "t"))
    data, stat = zk.get(paths.broker(7))
    node = json.loads(data)
    host, port = process.address
    assert (node["host"], node["port"], node["version"], node["rack"]) == (host, port, 4, "r1")
    assert node["endpoints"] == [f"PLAINTEXT://{host}:{port}"]
    assert stat.ephemeral_owner
    # The node under the leader's own registration comes once it leads.
    eventually(lambda: zk.exists(paths.partition_state("t", 0)) is not None)
    state, state_stat = zk.get(paths.partition_state("t", 0))
    assert json.loads(state) == {
        "controller_epoch": 1,
        "leader": 7,
        "version": 1,
        "leader_epoch": 0,
        "isr": [7],
    }
    assert state_stat.ephemeral_owner == stat.ephemeral_owner
    assert json.loads(zk.get(paths.CONTROLLER)[0])["brokerid"] == 7
    # It raised the limit of open files to the hard one.
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    soft, hard = line.split()[3:5]
    assert soft == hard


def test_broker_without_id_gets_one_and_keeps_it(start: Start, zk: ZkSession) -> None:
    process = start(-1)
    assert list_brokers(zk).keys() == {1001}
    process.stop()
    process.start()
    assert list_brokers(zk).keys() == {1001}


def test_data_sequences_and_leader_epochs_survive_kill(process: BrokerProcess, t: str) -> None:
    with connect(process) as connection:
        producer = connection.request(InitProducerIdRequest()).producer_id
        for sequence in range(3):
            sent = produce(connection, t, sequenced(producer, sequence))
            assert (sent.error_code, sent.base_offset) == (0, sequence)
        old = metadata(connection, t, 7).partitions[0].leader_epoch
    process.kill()
    process.start()
    with connect(process) as connection:
        eventually(lambda: led(connection, t))
        assert values(fetch(connection, t, 0)) == [b"0", b"1", b"2"]
        again = produce(connection, t, sequenced(producer, 2))
        assert (again.error_code, again.base_offset) == (0, 2)
        gap = produce(connection, t, sequenced(producer, 9))
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert produce(connection, t, sequenced(producer, 3)).base_offset == 3
        new = metadata(connection, t, 7).partitions[0].leader_epoch
        assert new == old + 1
        for epoch, code in (
            (old, ErrorCode.FENCED_LEADER_EPOCH),
            (new, ErrorCode.NONE),
            (new + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            asked = fetch_request(t, 0)
            asked.topics[0].partitions[0].current_leader_epoch = epoch
            assert only(connection.request(asked, 9)).error_code == code


def sequenced(producer_id: int, sequence: int) -> bytes:
    builder = MessageSetBuilder(
        2, Codec.NONE, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
    )
    builder.append(None, b"%d" % sequence, timestamp_ms=int(time.time() * 1000))
    return builder.build()


def test_topic_of_0_8_tool_is_served_and_deleted(process: BrokerProcess, tree: ZkSession) -> None:
    with connect(process) as connection:
        # Written by `kafka-topics.sh --create` of 0.8, and later by its `--delete`.
        tree.create(paths.topic("old"), encode_assignment({0: [0], 1: [0]}), parents=True)
        eventually(lambda: led(connection, "old"))
        assert produce(connection, "old", message_set(0, [b"v"]), version=0).error_code == 0
        directory = process.data_directory
        assert (directory / "old-0").is_dir()
        tree.create("/admin/delete_topics/old", parents=True)
        eventually(lambda: tree.exists(paths.topic("old")) is None)
        eventually(lambda: not (directory / "old-0").exists())
        assert produce(connection, "old", message_set(0, [b"v"]), version=0).error_code == 3
        eventually(lambda: tree.exists("/admin/delete_topics/old") is None)


def test_topic_deletion_waits_for_stopped_broker(start: Start, zk: ZkSession) -> None:
    first, second = start(0), start(1)
    replicas = [ReplicaAssignment(0, [0]), ReplicaAssignment(1, [1])]
    topic = NewTopic("t", -1, -1, replicas)
    create = CreateTopicsRequest([topic], timeout_ms=10_000)
    delete = DeleteTopicsRequest(["t"], timeout_ms=500)
    with connect(first) as connection, connect(second) as other:
        assert connection.request(create).topics[0].error_code == 0
        eventually(lambda: led(other, "t"))
        for partition, peer in enumerate((connection, other)):
            data = message_set(2, [b"old"])
            assert produce(peer, "t", data, partition=partition).error_code == 0
    second.kill()
    with connect(first) as connection:
        eventually(lambda: list_brokers(zk).keys() == {0})
        answer = connection.request(delete).topics[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        # Until the other broker has dropped its part, the name is not free.
        assert (second.data_directory / "t-1").is_dir()
        found = connection.request(create).topics[0]
        assert found.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert metadata(connection, "t", 4).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused = produce(connection, "t", message_set(2, [b"x"]))
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert zk.exists("/admin/delete_topics/t") is not None

        second.start()
        eventually(lambda: zk.exists(paths.topic("t")) is None)
        eventually(lambda: zk.exists("/admin/delete_topics/t") is None)
        assert not (second.data_directory / "t-1").exists()
        eventually(lambda: connection.request(create).topics[0].error_code == 0)
        with connect(second) as other:
            for partition, peer in enumerate((connection, other)):
                eventually(partial(led, peer, "t"))
                assert fetch(peer, "t", 0, partition=partition).high_watermark == 0
                data = message_set(2, [b"new"])
                assert produce(peer, "t", data, partition=partition).base_offset == 0


def test_logs_of_topics_missing_in_zookeeper_are_kept(
    process: BrokerProcess, tree: ZkSession, t: str
) -> None:
    process.stop()
    tree.delete(paths.topic(t), recursive=True)
    process.start()
    assert (process.data_directory / f"{t}-0").is_dir()


def test_topic_settings_follow_notifications_of_every_form(
    process: BrokerProcess, tree: ZkSession, t: str
) -> None:
    with connect(process) as connection:
        for note, limit in (
            (f'"{t}"', 100),
            (f'{{"version":1,"entity_type":"topics","entity_name":"{t}"}}', 2000),
            (f'{{"version":2,"entity_path":"topics/{t}"}}', 300),
        ):
            config = {"version": 1, "config": {"max.message.bytes": str(limit)}}
            tree.ensure_path(paths.topic_config(t))
            tree.set(paths.topic_config(t), json.dumps(config).encode())
            tree.create(paths.CONFIG_CHANGE_PREFIX, note.encode(), sequential=True, parents=True)
            size = limit * 2 if limit < 2000 else 1500
            expected = 0 if limit == 2000 else ErrorCode.MESSAGE_TOO_LARGE

            def answers(size: int = size, expected: int = expected) -> bool:
                return produce(connection, t, message_set(2, [b"x" * size])).error_code == expected

            eventually(answers)


def test_clean_stop_answers_waiting_fetch_and_writes_shutdown_mark(
    process: BrokerProcess, tree: ZkSession, t: str
) -> None:
    with connect(process) as connection:
        produce(connection, t, message_set(2, [b"v"]))
        waiting = connection.send(fetch_request(t, 1, max_wait_ms=100_000))
        sent = connection.send(ProduceRequest(topics=[]))
        assert process.stop()
        answer = only(waiting.result(60))
        assert (answer.error_code, answer.high_watermark) == (0, 1)
        assert sent.result(60).topics == []
    assert tree.exists(paths.broker(0)) is None
    # The last broker leaves a persistent state, as a genuine one does.
    state, stat = tree.get(paths.partition_state(t, 0))
    assert (json.loads(state)["leader"], json.loads(state)["isr"]) == (0, [0])
    assert stat.ephemeral_owner == 0
    assert (process.data_directory / ".kafka_cleanshutdown").exists()


def test_each_listener_advertises_its_own_addresses(start: Start) -> None:
    process = start(
        listeners="INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        advertised__listeners="INSIDE://127.0.0.1:0,OUTSIDE://public.example:443",
        listener__security__protocol__map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    log = process.log_path.read_text()
    ports = {
        name: int(log.split(f"listener={name}")[0].rpartition("address=127.0.0.1:")[2].split()[0])
        for name in ("INSIDE", "OUTSIDE")
    }
    for name, host in (("INSIDE", "127.0.0.1"), ("OUTSIDE", "public.example")):
        with BrokerConnection(get_runtime("threads"), "127.0.0.1", ports[name]) as connection:
            assert [b.host for b in connection.request(MetadataRequest([]), 1).brokers] == [host]


def test_failed_start_registers_no_broker(
    start: Start, process: BrokerProcess, where: str, tree: ZkSession
) -> None:
    port = str(process.address[1])
    with pytest.raises(ZkbrokerError, match="cannot listen on"):
        start(1, where, port=port)
    assert list_brokers(tree).keys() == {0}


def test_broker_serves_over_ipv6(start: Start) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    process = start(listeners="PLAINTEXT://[::1]:0")
    with connect(process) as connection:
        assert connection.host == "::1"
        metadata(connection, "t", 1)
        eventually(lambda: led(connection, "t"))
        assert [b.host for b in connection.request(MetadataRequest([]), 1).brokers] == ["::1"]
        assert produce(connection, "t", message_set(2, [b"six"])).error_code == 0


def test_counts_of_client_versions_are_stored_on_disk(process: BrokerProcess, t: str) -> None:
    with connect(process) as connection:
        metadata(connection, t, 0)
    with socket.create_connection(process.address, 20) as refused:
        refused.settimeout(20)
        refused.sendall(b"\x00\x00\x00\x0e\x00\x00\x00\x63\x00\x00\x00\x01\x00\x04newx")
        assert refused.recv(1) == b""
    process.stop()
    saved = json.loads((process.data_directory / "client-versions.json").read_text())
    served = {
        (client["client_id"], each["api"], each["version"]): each["served"]
        for client in saved["clients"]
        for each in client["requests"]
    }
    assert served["test", "METADATA", 0] is True
    assert served["newx", "PRODUCE", 99] is False
