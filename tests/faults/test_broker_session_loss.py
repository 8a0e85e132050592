"""A broker whose ZooKeeper session breaks, expires or outlives it, while clients go on."""

import threading

import pytest

from tests.support.zookeeper import until
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import FetchRequest, SimpleConsumer
from zkbroker.errors import ZkbrokerError
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry import partitions, paths
from zkbroker.registry.controller_election import controller_epoch, current_controller
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession


class Writer:
    """Sends one message after the other, without retries; no send may fail."""

    def __init__(self, cluster, topic):
        self.sent = 0
        self.problems = []
        self._topic = topic
        self._stopping = threading.Event()
        config = ProducerConfig.from_properties(
            {
                "metadata.broker.list": cluster.bootstrap_servers,
                "request.required.acks": "1",
                "message.send.max.retries": "0",
                "request.timeout.ms": "60000",
            }
        )
        self._producer = Producer(config)
        self._task = threading.Thread(target=self._run)
        self._task.start()

    def _run(self):
        try:
            while not self._stopping.is_set():
                self._producer.send(KeyedMessage(self._topic, b"%d" % self.sent))
                self.sent += 1
        except ZkbrokerError as error:
            self.problems.append(error)

    def more(self, count):
        """Wait until `count` further messages are acknowledged."""
        wanted = self.sent + count
        until(lambda: self.sent >= wanted or bool(self.problems))
        assert self.problems == []

    def stop(self):
        self._stopping.set()
        self._task.join(60)
        self._producer.close()
        assert self.problems == []
        return self.sent


@pytest.fixture
def cluster():
    with LocalCluster(properties={"zookeeper.session.timeout.ms": 8000}) as started:
        yield started


def values(cluster, topic, count):
    """Read the first `count` messages."""
    host, port = cluster.broker(1).address
    found = []
    with SimpleConsumer(host, port) as consumer:
        while len(found) < count:
            records = list(consumer.fetch(FetchRequest(topic, 0, len(found))))
            assert records, f"only {len(found)} of {count} messages"
            found += [record.value for record in records]
    return found


def leader_epoch(zk, topic):
    state = partitions.partition_state(zk, topic, 0)
    return -1 if state is None else state.leader_epoch


def leader(zk, topic):
    state = partitions.partition_state(zk, topic, 0)
    return -1 if state is None else state.leader


def owner(zk, path):
    stat = zk.exists(path)
    return 0 if stat is None else stat.ephemeral_owner


def test_paused_broker_registers_again_and_loses_no_request(cluster):
    topic = cluster.create_topic()
    with ZkSession(cluster.zookeeper, session_timeout_ms=20_000) as zk:
        session = owner(zk, paths.broker(1))
        elections = controller_epoch(zk)
        writer = Writer(cluster, topic)
        writer.more(20)
        cluster.broker(1).pause()
        until(lambda: zk.exists(paths.broker(1)) is None)
        until(lambda: partitions.partition_state(zk, topic, 0) is None)
        cluster.broker(1).resume()
        until(lambda: owner(zk, paths.broker(1)) not in {0, session})
        until(lambda: partitions.partition_state(zk, topic, 0) is not None)
        until(lambda: current_controller(zk) == 1)
        # It registers its leadership at once, and leads until the controller has decided.
        until(lambda: leader_epoch(zk, topic) == 1)
        writer.more(20)
        count = writer.stop()
        assert leader_epoch(zk, topic) == 1, "one decision for one return"
        assert controller_epoch(zk) > elections
        new = owner(zk, paths.broker(1))
        assert owner(zk, paths.partition_state(topic, 0)) == new
        assert owner(zk, paths.CONTROLLER) == new
    assert values(cluster, topic, count) == [b"%d" % n for n in range(count)]


def test_produce_and_fetch_continue_without_zookeeper(cluster):
    topic = cluster.create_topic()
    writer = Writer(cluster, topic)
    writer.more(20)
    for _ in range(2):
        cluster.embedded_zookeeper.kill()
        writer.more(200)
        assert len(values(cluster, topic, 220)) >= 220
        cluster.embedded_zookeeper.start()
        writer.more(20)
    with ZkSession(cluster.zookeeper, session_timeout_ms=20_000) as zk:
        until(lambda: owner(zk, paths.broker(1)) != 0)
        until(lambda: leader(zk, topic) == 1)
        late = cluster.create_topic()
        assert leader(zk, late) == 1
    count = writer.stop()
    assert values(cluster, topic, count) == [b"%d" % n for n in range(count)]


def test_killed_broker_returns_before_its_old_session_expires(chroot):
    properties = {"zookeeper.session.timeout.ms": "120000"}
    with (
        LocalCluster(zookeeper=chroot, properties=properties) as cluster,
        ZkSession(cluster.zookeeper) as zk,
    ):
        topic = cluster.create_topic()
        stale = owner(zk, paths.broker(1))
        cluster.broker(1).kill()
        assert owner(zk, paths.broker(1)) == stale
        cluster.broker(1).start()
        assert owner(zk, paths.broker(1)) not in {0, stale}
        assert leader_epoch(zk, topic) == 1, "one decision for one return"
        # It also takes over the controllership of its predecessor.
        until(lambda: owner(zk, paths.CONTROLLER) == owner(zk, paths.broker(1)))
        assert controller_epoch(zk) == 2
