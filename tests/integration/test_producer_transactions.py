"""Transactions of our producer on real brokers: visible as a whole, or not at all."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.clusters import MakeCluster
from tests.support.zookeeper import until
from zkbroker.client import Cluster, StaticSource
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.config.fetching import FetchSettings
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import AssignedConsumer, SimpleConsumer
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.producer import (
    EncodedBatch,
    InvalidTransactionState,
    KeyedMessage,
    Producer,
    ProducerFenced,
    TransactionAbortable,
    TransactionAborted,
    TransactionFatal,
)
from zkbroker.protocol.transaction_topic import TRANSACTION_TOPIC
from zkbroker.testing import LocalCluster

RUNTIMES = pytest.mark.parametrize("runtime", ["threads", "gevent"])


@pytest.fixture(scope="module")
def cluster(local_cluster: MakeCluster) -> Iterator[LocalCluster]:
    properties = {
        "transaction.state.log.num.partitions": "3",
        "offsets.topic.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
    with local_cluster(3, replication=3, properties=properties) as running:
        yield running


@pytest.fixture(scope="module")
def view(cluster: LocalCluster) -> Iterator[Cluster]:
    with Cluster(StaticSource(tuple(cluster.bootstrap_servers.split(",")))) as found:
        yield found


def make(cluster: LocalCluster, name: str, runtime: str = "threads", **options: object) -> Producer:
    config = ProducerConfig(
        broker_list=tuple(cluster.bootstrap_servers.split(",")),
        transactional_id=name,
        **{"producer_type": "async", **options},  # type: ignore[arg-type]
    )
    return Producer(config, runtime=runtime)


def read(view: Cluster, topic: str, level: str = "read_committed") -> list[bytes | None]:
    """Return the values that a reader of this isolation level finds."""
    keys = [(topic, each.partition) for each in view.partitions(topic)]
    ends = resolve_offsets(
        view,
        dict.fromkeys(keys, LATEST_TIME),
        read_committed=level == "read_committed",
        timeout_s=30,
    )
    settings = FetchSettings(read_committed=level == "read_committed")
    with AssignedConsumer(view, dict.fromkeys(keys, 0), stop=ends, settings=settings) as consumer:
        return [message.value for message in consumer]


def committed_offset(view: Cluster, group: str, topic: str) -> int | None:
    address = next(iter(view.brokers().values()))
    with SimpleConsumer(address.host, address.port) as consumer:
        return consumer.fetch_offsets(group, [(topic, 0)], storage="kafka")[topic, 0]


@RUNTIMES
def test_committed_messages_are_read_and_aborted_are_not(cluster, view, runtime):
    topic = cluster.create_topic(partitions=2)
    with make(cluster, topic, runtime) as producer:
        for number in range(6):
            producer.begin()
            for partition in (0, 1):
                value = b"%d of %d" % (partition, number)
                producer.send(KeyedMessage(topic, value, partition=partition))
            producer.flush()
            producer.send_offsets({(topic, 0): number}, topic)
            if number % 2:
                producer.abort()
            else:
                producer.commit()
    kept = [b"%d of %d" % (p, number) for number in (0, 2, 4) for p in (0, 1)]
    until(lambda: sorted(read(view, topic)) == sorted(kept))
    assert len(read(view, topic, "read_uncommitted")) == 12
    until(lambda: committed_offset(view, topic, topic) == 4)


@RUNTIMES
def test_open_transaction_is_invisible_to_committed_readers(cluster, view, runtime):
    topic = cluster.create_topic()
    with make(cluster, topic, runtime) as producer, producer.transaction():
        producer.send(KeyedMessage(topic, b"a"))
        producer.flush()
        assert read(view, topic) == []
        assert read(view, topic, "read_uncommitted") == [b"a"]
        producer.send_offsets({(topic, 0): 7}, topic)
        assert committed_offset(view, topic, topic) is None
    until(lambda: read(view, topic) == [b"a"])
    until(lambda: committed_offset(view, topic, topic) == 7)


def test_encoded_batches_are_part_of_transaction(cluster, view):
    topic = cluster.create_topic()
    reported = []
    with make(cluster, topic) as producer:
        for name in (b"aborted", b"committed"):
            producer.begin()
            producer.send_batch(
                EncodedBatch(topic, 0, reported.append, records=[(None, name, 1, ())] * 3)
            )
            producer.flush()
            if name == b"aborted":
                until(lambda: len(reported) == 1)
                producer.abort()
            else:
                producer.commit()
    until(lambda: read(view, topic) == [b"committed"] * 3)
    assert [batch.error for batch in reported] == [None, None]


@RUNTIMES
def test_second_instance_fences_first_and_ends_its_transaction(cluster, view, runtime):
    topic = cluster.create_topic()
    first = make(cluster, topic, runtime)
    first.begin()
    first.send(KeyedMessage(topic, b"of the first"))
    first.flush()
    with make(cluster, topic, runtime) as second:
        second.init_transactions()
        with second.transaction():
            second.send(KeyedMessage(topic, b"of the second"))
        first.send(KeyedMessage(topic, b"too late"))
        with pytest.raises(TransactionFatal):
            first.commit()
        with pytest.raises(TransactionFatal):
            first.begin()
        first.close()
        with second.transaction():
            second.send(KeyedMessage(topic, b"of the second, again"))
    until(lambda: read(view, topic) == [b"of the second", b"of the second, again"])


def test_idle_first_instance_is_fenced_at_commit(cluster, view):
    topic = cluster.create_topic()
    first = make(cluster, topic)
    first.begin()
    first.send(KeyedMessage(topic, b"of the first"))
    first.flush()
    with make(cluster, topic) as second:
        second.init_transactions()
    with pytest.raises(ProducerFenced, match="another producer began"):
        first.commit()
    first.close()
    assert read(view, topic) == []


def test_coordinator_aborts_transaction_after_timeout(cluster, view):
    topic = cluster.create_topic()
    producer = make(cluster, topic, transaction_timeout_ms=15_000)
    with producer.transaction():
        producer.send(KeyedMessage(topic, b"in time"))
    producer.begin()
    producer.send(KeyedMessage(topic, b"too late"))
    producer.flush()
    ends = {(topic, 0): LATEST_TIME}
    # Two messages and two markers, and no open transaction.
    until(lambda: resolve_offsets(view, ends, read_committed=True)[topic, 0] == 4)
    with pytest.raises(ProducerFenced, match=r"transaction\.timeout\.ms=15000"):
        producer.commit()
    producer.close()
    assert read(view, topic) == [b"in time"]
    with make(cluster, topic) as successor, successor.transaction():
        successor.send(KeyedMessage(topic, b"next"))
    until(lambda: read(view, topic) == [b"in time", b"next"])


def test_exception_in_block_aborts_and_next_transaction_commits(cluster, view):
    topic = cluster.create_topic()
    with make(cluster, topic) as producer:
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send(KeyedMessage(topic, b"aborted"))
            producer.flush()
            raise ZeroDivisionError
        dropped = None
        with pytest.raises(ZeroDivisionError), producer.transaction():
            dropped = producer.send(KeyedMessage(topic, b"never sent"))
            raise ZeroDivisionError
        assert isinstance(dropped.exception(10), TransactionAborted)
        with pytest.raises(InvalidTransactionState):
            producer.send(KeyedMessage(topic, b"outside"))
        with producer.transaction():
            producer.send(KeyedMessage(topic, b"committed"))
    until(lambda: read(view, topic) == [b"committed"])


def test_too_large_message_fails_transaction_but_not_producer(cluster, view):
    topic = cluster.create_topic(config={"max.message.bytes": "10000"})
    with make(cluster, topic) as producer:
        producer.begin()
        producer.send(KeyedMessage(topic, b"small"))
        producer.flush()
        producer.send(KeyedMessage(topic, b"x" * 20_000))
        with pytest.raises(TransactionAbortable, match=r"max\.message\.bytes"):
            producer.commit()
        producer.abort()
        with producer.transaction():
            producer.send(KeyedMessage(topic, b"small again"))
    until(lambda: read(view, topic) == [b"small again"])


# -- killed processes


@contextmanager
def killed(cluster: LocalCluster, broker_id: int) -> Iterator[None]:
    broker = cluster.broker(broker_id)
    broker.kill()
    try:
        yield
    finally:
        broker.start()


@pytest.mark.parametrize("runtime", [pytest.param("threads", marks=pytest.mark.soak), "gevent"])
def test_transaction_survives_kill_of_coordinator(cluster, view, runtime):
    topic = cluster.create_topic(partitions=2)
    with make(cluster, topic, runtime) as producer:
        with producer.transaction():
            producer.send(KeyedMessage(topic, b"before"))
        number = key_partition(topic, 3)
        view.refresh([TRANSACTION_TOPIC])
        coordinator = view.leader(TRANSACTION_TOPIC, number)
        assert coordinator is not None
        producer.begin()
        producer.send(KeyedMessage(topic, b"first half", partition=0))
        producer.flush()
        with killed(cluster, coordinator):
            producer.send(KeyedMessage(topic, b"second half", partition=1))
            producer.send_offsets({(topic, 0): 3}, topic)
            producer.commit()
            with producer.transaction():
                producer.send(KeyedMessage(topic, b"after"))
    wanted = [b"after", b"before", b"first half", b"second half"]
    until(lambda: sorted(read(view, topic)) == wanted)
    until(lambda: committed_offset(view, topic, topic) == 3)


def test_transaction_survives_kill_of_partition_leader(cluster, view):
    topic = cluster.create_topic()
    view.refresh([topic])
    leader = view.leader(topic, 0)
    assert leader is not None
    with make(cluster, topic, linger_ms=5) as producer:
        producer.begin()
        values = [b"%d" % number for number in range(300)]
        for value in values[:100]:
            producer.send(KeyedMessage(topic, value))
        with killed(cluster, leader):
            for value in values[100:]:
                producer.send(KeyedMessage(topic, value))
            producer.commit()
    until(lambda: read(view, topic) == values)


def test_successor_ends_transaction_of_killed_program(cluster, view):
    topic = cluster.create_topic()
    command = [sys.executable, "-m", "tests.support.transaction_writer"]
    program = subprocess.Popen(
        [*command, cluster.bootstrap_servers, topic, topic, "90000"], stdout=subprocess.PIPE
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == b"open\n"
    finally:
        program.kill()
        program.wait()
        program.stdout.close()
    assert read(view, topic) == [b"of the first, committed"]
    assert len(read(view, topic, "read_uncommitted")) == 2
    with make(cluster, topic) as successor:
        successor.init_transactions()
        assert committed_offset(view, topic, topic) is None
        with successor.transaction():
            successor.send(KeyedMessage(topic, b"of the second"))
    wanted = [b"of the first, committed", b"of the second"]
    until(lambda: read(view, topic) == wanted)


def test_transactional_and_plain_producers_share_a_topic(cluster, view):
    topic = cluster.create_topic()
    plain = Producer(
        ProducerConfig(broker_list=tuple(cluster.bootstrap_servers.split(",")), required_acks=-1)
    )
    counts = {b"a": 0, b"b": 0}

    def run(name: bytes) -> None:
        with make(cluster, f"{topic}-{name.decode()}") as producer:
            for number in range(20):
                producer.begin()
                producer.send(KeyedMessage(topic, b"%s%d" % (name, number)))
                if number % 3:
                    producer.commit()
                    counts[name] += 1
                else:
                    producer.flush()
                    producer.abort()

    tasks = [threading.Thread(target=run, args=(name,)) for name in counts]
    for task in tasks:
        task.start()
    for number in range(10):
        plain.send(KeyedMessage(topic, b"plain%d" % number))
    for task in tasks:
        task.join()
    plain.close()
    expected = {b"plain%d" % n for n in range(10)}
    expected |= {b"%s%d" % (name, n) for name in counts for n in range(20) if n % 3}
    until(lambda: set(read(view, topic)) == expected)
    assert len(read(view, topic)) == len(expected)
    assert counts == {b"a": 13, b"b": 13}
