"""Groups with Node.js clients: kafkajs, kafka-ts and kafka-node, which uses ZooKeeper as well."""

import contextlib
import json
import subprocess
import threading
import uuid

import confluent_kafka
import pytest

from tests.interop.jobs import BEFORE_ZSTD
from tests.interop.test_groups import (  # noqa: F401 - the broker is a fixture
    PARTITIONS,
    groups_broker,
    scene_of,
)
from tests.support import node_clients
from tests.support.group_members import MemberProcess, wait_until_read, wait_until_shared
from tests.support.producing import TestProducer
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer import ConsumerConnector
from zkbroker.registry import group_offsets
from zkbroker.zookeeper import ZkSession

pytestmark = pytest.mark.skipif(
    node_clients.missing() is not None, reason=str(node_clients.missing())
)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["node-kafkajs", "node-kafka-node"])
def test_node_members_of_one_library_join_leave_and_crash(groups_broker, kind):  # noqa: F811
    with scene_of(groups_broker, "roundrobin") as scene:
        scene.join_leave_and_crash(kind, kind)


def test_node_members_share_a_group_with_others(groups_broker):  # noqa: F811
    with scene_of(groups_broker) as scene:
        kinds = ["node-kafkajs", "node-kafka-node", "zkbroker", "kafka-python"]
        kafkajs, kafka_node, *_ = scene.join(*kinds)
        scene.produce()
        scene.leave(kafkajs)
        scene.crash(kafka_node)
        scene.join("node-kafkajs", "node-kafka-node")
        scene.produce()


def publish(scene, codec, values):
    """Write values with librdkafka; each has a header that names the codec."""
    settings = {"bootstrap.servers": scene.address, "compression.type": codec}
    producer = confluent_kafka.Producer(settings)
    for value in values:
        producer.produce(scene.topic, value.encode(), headers={"by": codec})
    assert producer.flush(60) == 0


def test_kafka_ts_reads_what_librdkafka_and_itself_wrote(groups_broker):  # noqa: F811
    if not (node_clients.FOLDER / "node_modules" / "kafka-ts").exists():
        pytest.skip("kafka-ts is not installed")
    with scene_of(groups_broker) as scene:
        # zstd it reads with Node.js 22.15 and later.
        theirs = {
            codec: [f"{codec}-{number} " * 50 for number in range(3)] for codec in BEFORE_ZSTD
        }
        for codec, values in theirs.items():
            publish(scene, codec, values)
        own = [f"own-{number}" for number in range(3)]
        written = [(value, codec) for codec, values in theirs.items() for value in values]
        written += [(value, "kafka-ts") for value in own]
        job = {
            "bootstrap": scene.address,
            "topic": scene.topic,
            "group": scene.group,
            "values": own,
            "expect": len(written),
        }
        done = subprocess.run(
            node_clients.command("kafka_ts.js"),
            input=json.dumps(job),
            capture_output=True,
            text=True,
            timeout=200,
            env=node_clients.environment(),
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        found = [(each["value"], each["headers"]["by"]) for each in json.loads(done.stdout)]
        assert sorted(found) == sorted(written)
        settings = {"bootstrap.servers": scene.address, "group.id": scene.group}
        reader = confluent_kafka.Consumer(settings)
        try:
            numbers = [confluent_kafka.TopicPartition(scene.topic, n) for n in range(PARTITIONS)]
            committed = [max(each.offset, 0) for each in reader.committed(numbers, timeout=60)]
        finally:
            reader.close()
        assert sum(committed) == len(found)


class Streams:
    """A member of our own of a ZooKeeper group, seen as the other members are."""

    kind, errors = "streams", ()

    def __init__(self, zookeeper, group, topic):
        config = {"zookeeper.connect": zookeeper, "group.id": group}
        more = {"auto.offset.reset": "smallest", "auto.commit.interval.ms": "100"}
        self._connector = ConsumerConnector(ConsumerConfig.from_properties(config | more))
        (stream,) = self._connector.create_message_streams({topic: 1})[topic]
        self.read = []
        self._reader = threading.Thread(target=self._follow, args=(stream,), daemon=True)
        self._reader.start()

    @property
    def held(self):
        return {number for _, number in self._connector.owned()}

    def _follow(self, stream):
        for message in stream:
            self.read.append((message.partition, message.offset))

    def leave(self):
        self._connector.shutdown()
        self._reader.join(60)


def test_node_members_share_a_zookeeper_group_with_our_streams(local_cluster):
    with local_cluster(2) as cluster, contextlib.ExitStack() as ending:
        topic, group = cluster.create_topic(partitions=PARTITIONS), f"group-{uuid.uuid4().hex[:8]}"
        producer = TestProducer(cluster.bootstrap_servers)
        ending.callback(producer.close)
        ends = dict.fromkeys(range(PARTITIONS), 0)
        everybody, here = [], []

        def join(member):
            everybody.append(member)
            here.append(member)
            wait_until_shared(here, PARTITIONS)
            return member

        def node():
            member = MemberProcess("node-high-level", cluster.zookeeper, group, topic)
            ending.callback(member.process.kill)
            return member

        def leave(member):
            here.remove(member)
            member.leave()
            wait_until_shared(here, PARTITIONS)

        def produce():
            for number in range(PARTITIONS):
                producer.send(topic, number, [b"value"] * 10)
                ends[number] += 10
            wait_until_read(everybody, ends)

        first = join(node())
        produce()
        join(Streams(cluster.zookeeper, group, topic))
        produce()
        join(node())
        produce()
        leave(first)
        produce()
        leave(here[0])
        produce()
        (last,) = here
        assert last.kind == "node-high-level"
        last.leave()
        with ZkSession(cluster.zookeeper) as session:
            committed = group_offsets.read_offsets(session, group, [(topic, n) for n in ends])
        assert {number: offset for (_, number), (offset, _) in committed.items()} == ends
