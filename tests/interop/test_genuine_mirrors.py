"""Genuine Kafka 0.8.2.2 as source and target of a mirror, and its MirrorMaker with our brokers."""

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import java_clients
from tests.support.cluster07 import cluster07, make_topic, registry_tree
from tests.support.clusters import MakeCluster
from tests.support.genuine_broker import GenuineBroker
from tests.support.mirroring import caught_up, connect, contents
from tests.support.process import wait_until
from tests.support.producing import TestProducer
from zkbroker.client import Cluster, ZooKeeperSource
from zkbroker.config.generation import GENERATION
from zkbroker.consumer import LATEST_TIME
from zkbroker.errors import ConfigError
from zkbroker.legacy07 import Cluster07
from zkbroker.mirror import MirrorConfig, SourceConfig, group_offsets
from zkbroker.records import Codec, encode_message_set
from zkbroker.testing import LocalCluster

pytestmark = pytest.mark.skipif(java_clients.old_missing(), reason=java_clients.REASON)

PARTITIONS = 2
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def ours(local_cluster: MakeCluster) -> Iterator[LocalCluster]:
    with local_cluster(1, properties={"num.partitions": str(PARTITIONS)}) as cluster:
        yield cluster


@contextmanager
def genuine(folder: Path, cluster: LocalCluster, name: str) -> Iterator[GenuineBroker]:
    folder.mkdir()
    properties = {"broker.id": "0", "num.partitions": str(PARTITIONS)}
    connect_to = f"{cluster.zookeeper}/{name}"
    broker = GenuineBroker(folder, connect_to, folder / "data", properties)
    broker.start()
    try:
        # it listens before it is registered
        with connect(connect_to) as view:
            assert wait_until(lambda: len(view.brokers()) == 1)
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def theirs(ours: LocalCluster, tmp_path_factory) -> Iterator[GenuineBroker]:
    with genuine(tmp_path_factory.mktemp("genuine") / "one", ours, "genuine") as broker:
        yield broker


def bootstrap(broker: GenuineBroker) -> str:
    return f"127.0.0.1:{broker.port}"


def fill(where: str, servers: str, topic: str) -> None:
    """Create a topic by use, and write every codec of magic 0 with nulls among the messages."""
    with connect(where) as cluster:
        cluster.partitions(topic, create=True, timeout_s=30)
    sender = TestProducer(servers)
    for partition in range(PARTITIONS):
        for turn, codec in itertools.product(range(4), CODECS):
            records = [
                (
                    None if n % 3 == 0 else b"key-%d" % n,
                    None if n % 7 == 1 else b"%d %d %d" % (partition, turn, n) * (n * 9),
                    -1,
                    (),
                )
                for n in range(turn * 9 + 1)
            ]
            sender.send_set(
                topic, partition, encode_message_set(records, magic=0, codec=codec), version=0
            )
    sender.close()


def stored(servers: str, topic: str) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    found = contents(servers, topic)
    return {number: [(key, value) for key, value, *_ in row] for number, row in found.items()}


def mirror(
    from_: dict[str, str], to: dict[str, str], topic: str, *, identity: bool = True
) -> dict[str, int]:
    source = SourceConfig(properties={"group.id": f"m-{next(_numbers)}", **from_})
    given = MirrorConfig.from_properties(
        {"whitelist": topic, "identity.partitions": str(identity).lower()},
        sources=[source],
        target=to,
    )
    with caught_up(given) as running:
        metrics = running.metrics()
    with Cluster(ZooKeeperSource(from_["zookeeper.connect"])) as cluster:
        assert group_offsets(source, cluster)
    return metrics


def test_genuine_cluster_is_mirrored_both_ways(ours, theirs):
    topic = "there-and-back"
    fill(f"{ours.zookeeper}/genuine", bootstrap(theirs), topic)
    source = {"zookeeper.connect": f"{ours.zookeeper}/genuine"}
    mirror(source, {"bootstrap.servers": ours.bootstrap_servers}, topic)
    assert stored(ours.bootstrap_servers, topic) == stored(f"{ours.zookeeper}/genuine", topic)

    back = "and-back"
    ours.create_topic(back, partitions=PARTITIONS)
    fill(ours.bootstrap_servers, ours.bootstrap_servers, back)
    source = {"zookeeper.connect": ours.zookeeper}
    mirror(source, {"zookeeper.connect": f"{ours.zookeeper}/genuine"}, back)
    assert stored(f"{ours.zookeeper}/genuine", back) == stored(ours.bootstrap_servers, back)


def test_messages_are_mirrored_between_genuine_clusters(ours, theirs, tmp_path):
    topic = "genuine-to-genuine"
    fill(f"{ours.zookeeper}/genuine", bootstrap(theirs), topic)
    with genuine(tmp_path / "other", ours, "other"):
        source = {"zookeeper.connect": f"{ours.zookeeper}/genuine"}
        metrics = mirror(source, {"zookeeper.connect": f"{ours.zookeeper}/other"}, topic)
        assert stored(f"{ours.zookeeper}/other", topic) == stored(
            f"{ours.zookeeper}/genuine", topic
        )
        assert metrics["encoded_batches"] <= PARTITIONS  # where the first chunk begins
        assert metrics["stored_batches"] > 0


@pytest.mark.parametrize("wanted", [None, "false", "true"])
def test_idempotence_is_off_for_targets_without_producer_ids(ours, theirs, wanted, caplog):
    caplog.set_level("INFO", logger="zkbroker.mirror")
    topic = f"no-ids-{wanted}"
    ours.create_topic(topic, partitions=PARTITIONS)
    fill(ours.bootstrap_servers, ours.bootstrap_servers, topic)
    target = {"zookeeper.connect": f"{ours.zookeeper}/genuine"}
    if wanted is not None:
        target["enable.idempotence"] = wanted
    if wanted == "true":
        with pytest.raises(ConfigError, match=r"enable\.idempotence=true is not for this target"):
            mirror({"zookeeper.connect": ours.zookeeper}, target, topic, identity=False)
        return
    mirror({"zookeeper.connect": ours.zookeeper}, target, topic, identity=False)
    assert stored(f"{ours.zookeeper}/genuine", topic) == stored(ours.bootstrap_servers, topic)
    assert "idempotence=false" in caplog.text


def test_genuine_0_8_cluster_is_mirrored_into_0_7(ours, theirs, tmp_path):
    topic = "down-to-0-7"
    fill(f"{ours.zookeeper}/genuine", bootstrap(theirs), topic)
    with (
        registry_tree(f"{ours.zookeeper}/old") as tree,
        cluster07(tmp_path, f"{ours.zookeeper}/old-brokers", tree),
    ):
        make_topic(tree, topic)
        target = {GENERATION: "0.7", "zk.connect": tree.connect_string}
        source = {"zookeeper.connect": f"{ours.zookeeper}/genuine"}
        mirror(source, target, topic, identity=False)
        sent = [
            value or b"" for _, row in stored(bootstrap(theirs), topic).items() for _, value in row
        ]
        found: list[bytes] = []
        with Cluster07(tree.connect_string) as cluster:
            for partition in cluster.numbers(topic):
                end = cluster.offset(topic, partition, LATEST_TIME)
                at = 0
                while at != end:
                    came = cluster.consumer(partition.broker).fetch(topic, partition.number, at)
                    found += [each.payload for each in came.messages]
                    at = came.next_offset
        assert sorted(body for body in found if not body.startswith(b"first")) == sorted(sent)


@pytest.mark.parametrize("into_ours", [True, False])
def test_genuine_mirror_maker_works_with_our_brokers(ours, theirs, tmp_path, into_ours):
    topic = f"maker-{into_ours}"
    ends = [
        (f"{ours.zookeeper}/genuine", f"{ours.zookeeper}/genuine", bootstrap(theirs)),
        (ours.zookeeper, ours.bootstrap_servers, ours.bootstrap_servers),
    ]
    (zookeeper, origin, servers), (_, target, to) = ends if into_ours else ends[::-1]
    if not into_ours:
        ours.create_topic(topic, partitions=PARTITIONS)
    fill(origin, servers, topic)
    consumer = tmp_path / "consumer.properties"
    consumer.write_text(
        f"zookeeper.connect={zookeeper}\ngroup.id=maker\nauto.offset.reset=smallest\n"
    )
    producer = tmp_path / "producer.properties"
    producer.write_text(f"metadata.broker.list={to}\nrequest.required.acks=1\n")
    arguments = ("--consumer.config", str(consumer), "--producer.config", str(producer))
    log = tmp_path / "maker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            java_clients.tool_command("kafka.tools.MirrorMaker", *arguments, "--whitelist", topic),
            stdout=output,
            stderr=output,
        )
    expected = [pair for row in stored(origin, topic).values() for pair in row if pair[1]]

    def arrived() -> bool:
        with connect(target) as cluster:
            if topic not in cluster.topics():
                return False
        found = [pair for row in stored(target, topic).values() for pair in row if pair[1]]
        return sorted(found, key=str) == sorted(expected, key=str)

    try:
        assert wait_until(arrived, interval_s=0.5), log.read_text(errors="replace")[-3000:]
    finally:
        process.terminate()
        process.wait(300)
