"""Transactions in adopted logs, as readers of committed messages see them: ours and others'."""

import shutil
import subprocess

import confluent_kafka
import pytest
from click.testing import CliRunner

from tests.interop.kafka_python import kafka
from tests.support.brokers import MortalBroker
from tests.support.markdown import ROOT
from tests.support.transactional import TransactionalLog
from zkbroker.cli.main import cli
from zkbroker.client import Cluster, ZooKeeperSource
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.config.fetching import FetchSettings
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer import AssignedConsumer, GroupConsumer, SimpleConsumer
from zkbroker.consumer.message_set import FetchRequest
from zkbroker.log import TopicPartition

GOLDEN = ROOT / "tests/golden/data/segments/kafka-2.3.0/g-v2-transactional-0"
COMMITTED = "read_committed"


class Adopted:
    """A broker on a directory with two logs: one settled, one with an open transaction."""

    def __init__(self, chroot, root):
        self.chroot = chroot
        self.root = root
        self.directory = root / "kafka-logs"
        self.settled = TransactionalLog(self.directory, TopicPartition("settled", 0))
        self.settled.play(7, steps=400)
        for producer in (1, 2, 3):
            self.settled.send(producer)
            self.settled.abort(producer)
        self.settled.send(None)
        self.settled.store(*range(50, self.settled.offset, 50))
        self.open = TransactionalLog(self.directory, TopicPartition("open", 0))
        self.open.send(None, 3)
        self.open.send(1)
        self.open.send(None, 2)
        self.open.store()
        shutil.copytree(GOLDEN, self.directory / GOLDEN.name)
        self.run("adopt", self.directory, "-z", chroot, "--broker-id", 0)

    def run(self, *arguments):
        ran = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        return ran.output

    def start(self):
        self.broker = MortalBroker(
            self.root,
            {
                "broker.id": "0",
                "zookeeper.connect": self.chroot,
                "log.dirs": str(self.directory),
                "log.retention.ms": "-1",
                "group.initial.rebalance.delay.ms": "0",
                "offsets.topic.num.partitions": "1",
            },
        )
        self.broker.start()
        self.bootstrap = "{}:{}".format(*self.broker.address)


@pytest.fixture(scope="module")
def adopted(zookeeper, tmp_path_factory):
    made = Adopted(
        f"{zookeeper.connect_string}/adopted-transactions", tmp_path_factory.mktemp("adopted")
    )
    made.start()
    yield made
    assert made.broker.stop()


def by_simple(adopted, topic, level, end):
    host, port = adopted.broker.address
    with SimpleConsumer(host, port, read_committed=level == COMMITTED) as consumer:
        offsets, at = [], 0
        while (found := consumer.fetch(FetchRequest(topic, 0, at, 700))).next_offset > at:
            offsets += [record.offset for record in found]
            at = found.next_offset
        return offsets


def by_assigned(adopted, topic, level, end):
    settings = FetchSettings(read_committed=level == COMMITTED)
    with (
        Cluster(ZooKeeperSource(adopted.chroot)) as cluster,
        AssignedConsumer(
            cluster,
            {(topic, 0): 0},
            stop=resolve_offsets(cluster, {(topic, 0): -1}, read_committed=level == COMMITTED),
            settings=settings,
        ) as consumer,
    ):
        return [message.offset for message in consumer]


def by_group(adopted, topic, level, end):
    config = GroupConsumerConfig(
        bootstrap_servers=(adopted.bootstrap,),
        group_id=f"ours-{topic}-{level}",
        isolation_level=level,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    offsets = []
    with GroupConsumer(config) as consumer:
        consumer.subscribe([topic])
        while not offsets or offsets[-1] < end:
            offsets += [message.offset for message in consumer.poll(0.1)]
    return offsets


def by_confluent(adopted, topic, level, end):
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": adopted.bootstrap,
            "group.id": "none",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.max.bytes": 1000,
            "message.max.bytes": 1000,
            "max.partition.fetch.bytes": 700,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    offsets = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, offsets
            if message.error():
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                return offsets
            offsets.append(message.offset())
    finally:
        consumer.close()


def by_kafka_python(adopted, topic, level, end):
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=adopted.bootstrap, isolation_level=level, max_partition_fetch_bytes=700
    )
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    offsets = []
    try:
        while not offsets or offsets[-1] < end:
            for messages in consumer.poll(100).values():
                offsets += [message.offset for message in messages]
        return offsets
    finally:
        consumer.close()


def lines(offsets):
    return "".join(f"{offset}\n" for offset in offsets)


READERS = [by_simple, by_assigned, by_group, by_confluent, by_kafka_python]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("topic", ["settled", "open"])
def test_read_committed_returns_committed_messages_only(adopted, topic, read):
    wanted = getattr(adopted, topic).committed
    assert len(wanted) == (3 if topic == "open" else len(wanted)) > 0
    assert read(adopted, topic, COMMITTED, wanted[-1]) == wanted


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("topic", ["settled", "open"])
def test_read_uncommitted_returns_all_messages(adopted, topic, read):
    wanted = list(getattr(adopted, topic).values)
    assert read(adopted, topic, "read_uncommitted", wanted[-1]) == wanted


@pytest.mark.parametrize("read", [by_assigned, by_confluent])
def test_genuine_committed_transactions_are_read(adopted, read):
    both = [
        read(adopted, "g-v2-transactional", level, 0) for level in (COMMITTED, "read_uncommitted")
    ]
    assert both[0] == both[1]
    assert len(both[0]) > 20


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_stops_where_nothing_is_committed(adopted):
    kcat = subprocess.run(
        ["kcat", "-b", adopted.bootstrap, "-C", "-t", "open", "-e", "-q", "-f", "%o\n"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert kcat.stdout == lines(adopted.open.committed)


def test_consume_stops_where_nothing_is_committed(adopted):
    ours = [
        *("consume", "-b", adopted.bootstrap, "-t", "open", "-e", "-f", "%o\n"),
        *("-X", "isolation.level=read_committed"),
    ]
    assert adopted.run(*ours) == lines(adopted.open.committed)


def test_open_transactions_are_listed_and_aborted(chroot, tmp_path):
    adopted = Adopted(chroot, tmp_path)
    listed = adopted.run("log", "abort-transactions", adopted.directory, "--dry-run")
    assert "open-0: producer 1, offsets 3 to 3\n" in listed
    adopted.start()
    assert by_simple(adopted, "open", COMMITTED, 0) == [0, 1, 2]
    assert adopted.broker.stop()
    shown = adopted.run("log", "abort-transactions", adopted.directory / "open-0")
    assert shown == "open-0: producer 1, offsets 3 to 3\n1 transactions aborted\n"
    adopted.start()
    assert by_confluent(adopted, "open", COMMITTED, 0) == [0, 1, 2, 4, 5]
    assert adopted.broker.stop()
