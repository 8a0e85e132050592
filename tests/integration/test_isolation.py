"""Each of our readers, at both isolation levels, during transactions.

One partition holds, in this order:

    plain a0 a1 [aborted]  c0 c1 [committed]  b0 [aborted] [empty abort]  open: o0 o1  plain

A reader of committed messages gets `plain c0 c1`, stands at the first message of the open
transaction, and gets `o0 o1 plain` when that is committed. Every other one gets all. Both come to
the end, though it holds markers and nothing else.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from tests.support.clusters import module_cluster
from tests.support.zookeeper import until
from zkbroker.cli.main import cli
from zkbroker.client import Cluster, StaticSource
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.fetching import FetchSettings
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import (
    AssignedConsumer,
    Consumer,
    FetchRequest,
    GroupConsumer,
    SimpleConsumer,
)
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.testing import LocalCluster

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
BEFORE = {
    COMMITTED: [b"plain", b"c0", b"c1"],
    UNCOMMITTED: [b"plain", b"a0", b"a1", b"c0", b"c1", b"b0", b"o0", b"o1", b"plain"],
}
AFTER = {COMMITTED: [*BEFORE[COMMITTED], b"o0", b"o1", b"plain"], UNCOMMITTED: BEFORE[UNCOMMITTED]}


cluster = module_cluster(
    properties={"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
)


@dataclass
class Written:
    cluster: LocalCluster
    view: Cluster
    topic: str
    producer: Producer

    def end(self, level: str) -> int:
        """Where the log ends for readers of a level."""
        key = (self.topic, 0)
        found = resolve_offsets(self.view, {key: LATEST_TIME}, read_committed=level == COMMITTED)
        return found[key] or 0

    def commit(self) -> None:
        """Commit the open transaction, and wait until readers see it."""
        self.producer.commit()
        until(lambda: self.end(COMMITTED) == self.end(UNCOMMITTED))


@pytest.fixture
def written(cluster: LocalCluster) -> Iterator[Written]:
    topic = cluster.create_topic()
    brokers = (cluster.bootstrap_servers,)

    def send(producer: Producer, *values: bytes) -> None:
        producer.send([KeyedMessage(topic, value) for value in values])

    with ExitStack() as stack:
        view = stack.enter_context(Cluster(StaticSource(brokers)))
        plain = stack.enter_context(Producer(ProducerConfig(broker_list=brokers)))
        ours = stack.enter_context(
            Producer(ProducerConfig(broker_list=brokers, transactional_id=topic))
        )
        send(plain, b"plain")
        for name, commit in ((b"a0 a1", False), (b"c0 c1", True), (b"b0", False), (b"", False)):
            ours.begin()
            send(ours, *name.split())
            ours.send_offsets({(topic, 0): 0}, topic)
            ours.commit() if commit else ours.abort()
        found = Written(cluster, view, topic, ours)
        # The markers of each transaction but the last are written before the next one begins.
        until(lambda: found.end(COMMITTED) == found.end(UNCOMMITTED) == 9)
        ours.begin()
        send(ours, b"o0", b"o1")
        send(plain, b"plain")
        assert (found.end(COMMITTED), found.end(UNCOMMITTED)) == (9, 12)
        yield found


LEVELS = pytest.mark.parametrize("level", [COMMITTED, UNCOMMITTED])


def follow(take: Callable[[], list[bytes | None]], wanted: list[bytes]) -> list[bytes | None]:
    """Take until there is as much as is wanted, and a little longer."""
    found: list[bytes | None] = []
    until(lambda: found.extend(take()) is None and len(found) >= len(wanted))
    found += take()
    return found


@LEVELS
def test_simple_consumer(written: Written, level: str) -> None:
    address = next(iter(written.view.brokers().values()))
    with SimpleConsumer(
        address.host, address.port, read_committed=level == COMMITTED, max_wait_ms=50
    ) as consumer:
        at = 0

        def take() -> list[bytes | None]:
            nonlocal at
            found = consumer.fetch(FetchRequest(written.topic, 0, at, 100))
            assert found.high_watermark == written.end(level)
            at = found.next_offset
            return [record.value for record in found]

        assert follow(take, BEFORE[level]) == BEFORE[level]
        until(lambda: take() == [] and at == written.end(level))
        written.commit()
        rest = AFTER[level][len(BEFORE[level]) :]
        assert follow(take, rest) == rest
        # The last one is no message: the marker of the commit.
        until(lambda: take() == [] and at == written.end(UNCOMMITTED) == 13)


@LEVELS
@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_streams(written: Written, level: str, storage: str) -> None:
    config = ConsumerConfig(
        group_id=f"{written.topic}-{level}-{storage}",
        zookeeper_connect=written.cluster.zookeeper,
        isolation_level=level,
        auto_offset_reset="smallest",
        auto_commit_enable=False,
        offsets_storage=storage,
        dual_commit_enabled=False,
    )
    found: list[bytes | None] = []
    with Consumer.create(config) as connector:
        stream = connector.create_message_streams({written.topic: 1})[written.topic][0]

        def read() -> None:
            for message in stream:
                found.append(message.value)  # noqa: PERF401 - read while it grows

        reader = threading.Thread(target=read)
        reader.start()
        key = (written.topic, 0)
        # The position of a message is set before the reader has it in its list.
        until(lambda: len(found) >= len(BEFORE[level]))
        until(lambda: connector.positions().get(key) == written.end(level))
        assert found == BEFORE[level]
        until(lambda: connector.lag()[key] == 0)
        written.commit()
        until(lambda: len(found) >= len(AFTER[level]))
        until(lambda: connector.positions()[key] == 13)
        assert found == AFTER[level]
        connector.commit_offsets()
        connector.shutdown()
        reader.join(120)
    assert committed_by_streams(written, config.group_id, storage) == 13


def committed_by_streams(written: Written, group: str, storage: str) -> int | None:
    address = next(iter(written.view.brokers().values()))
    with SimpleConsumer(address.host, address.port) as consumer:
        key = (written.topic, 0)
        return consumer.fetch_offsets(group, [key], storage=storage)[key]


@LEVELS
@pytest.mark.parametrize("subscribe", [True, False])
def test_group_consumer(written: Written, level: str, subscribe: bool) -> None:
    config = GroupConsumerConfig(
        bootstrap_servers=(written.cluster.bootstrap_servers,),
        group_id=f"{written.topic}-{level}-{subscribe}",
        isolation_level=level,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    key = (written.topic, 0)
    with GroupConsumer(config) as consumer:
        if subscribe:
            consumer.subscribe([written.topic])
        else:
            consumer.assign([key])

        def take() -> list[bytes | None]:
            return [message.value for message in consumer.poll(0.05)]

        assert follow(take, BEFORE[level]) == BEFORE[level]
        until(lambda: take() == [] and consumer.positions()[key] == written.end(level))
        assert consumer.lag()[key] == 0
        assert consumer.end_offsets([key])[key] == written.end(level)
        written.commit()
        rest = AFTER[level][len(BEFORE[level]) :]
        assert follow(take, rest) == rest
        until(lambda: take() == [] and consumer.positions()[key] == 13)
        consumer.commit()
        assert consumer.committed([key])[key].offset == 13


@LEVELS
def test_assigned_consumer(written: Written, level: str) -> None:
    def read() -> list[bytes | None]:
        key = (written.topic, 0)
        settings = FetchSettings(read_committed=level == "read_committed")
        stop = {key: written.end(level)}
        with AssignedConsumer(written.view, {key: 0}, stop=stop, settings=settings) as consumer:
            return [message.value for message in consumer]

    assert read() == BEFORE[level]
    written.commit()
    assert read() == AFTER[level]


def zkbroker(*arguments: str) -> list[bytes]:
    """Run a command in this process; return the words of its output."""
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout_bytes.split()


@LEVELS
@pytest.mark.parametrize("where", ["partitions", "kcat", "group", "zookeeper-group"])
def test_consume_command(written: Written, level: str, where: str) -> None:
    isolation = ["-X", f"isolation.level={level}"]
    brokers = ["-b", written.cluster.bootstrap_servers]
    match where:
        case "partitions":
            command = ["consume", *brokers, "-t", written.topic, "-o", "beginning", "-e"]
        case "kcat":
            command = ["kcat", "-C", *brokers, "-t", written.topic, "-e", "-q"]
        case "group":
            command = ["consume", *brokers, "-G", f"{written.topic}-{level}", written.topic]
            command += ["-o", "beginning", "-e"]
        case _:
            command = ["consume", "-z", written.cluster.zookeeper, "-G", f"{level}-{written.topic}"]
            command += [written.topic, "-X", "auto.offset.reset=smallest"]
            command += ["-c", str(len(BEFORE[level]))]
    assert zkbroker(*command, *isolation) == BEFORE[level]


@LEVELS
def test_negative_offset_counts_from_end_of_isolation_level(written: Written, level: str) -> None:
    brokers = ["-b", written.cluster.bootstrap_servers]
    isolation = ["-X", f"isolation.level={level}"]
    group = ["-G", f"{written.topic}-{level}-end", written.topic, "-o", "-4", "-e"]
    # Four offsets before the end: from 5 on, or from 8 on.
    found = zkbroker("consume", *brokers, *group, *isolation)
    assert found == ([b"c1"] if level == COMMITTED else [b"o0", b"o1", b"plain"])


def test_transactional_produce_command_is_atomic(cluster: LocalCluster) -> None:
    topic = cluster.create_topic()
    command = [sys.executable, "-m", "zkbroker.cli", "produce", "-b", cluster.bootstrap_servers]
    command += ["-t", topic, "-X", "transactional.id=typed", "-X", "max.request.size=100"]

    def produce(text: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, input=text, capture_output=True, timeout=120, check=False)

    assert produce(b"a\nb\n").returncode == 0
    refused = produce(b"c\n" + b"x" * 200 + b"\n")
    assert refused.returncode == 1
    assert b"max.request.size" in refused.stderr
    assert b"Traceback" not in refused.stderr
    read = ["consume", "-b", cluster.bootstrap_servers, "-t", topic, "-o", "beginning", "-e"]
    assert zkbroker(*read, "-X", "isolation.level=read_committed") == [b"a", b"b"]
