"""Mirrors into a 0.7 cluster of our own listeners, from clusters of every generation."""

import subprocess
import sys
import threading

import pytest

from tests.integration.test_legacy07_producer import stored
from tests.integration.test_mirror_07 import Writer, old
from tests.support import soak
from tests.support.client07 import Broker07, broker_address
from tests.support.cluster07 import cluster07, commits, ends, make_topic, registry_tree
from tests.support.clusters import TestCluster
from tests.support.mirroring import MirrorProcess, caught_up, config, source
from tests.support.zookeeper import until
from zkbroker.config.generation import GENERATION
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ConfigError
from zkbroker.mirror import Mirror
from zkbroker.producer import KeyedMessage, MessageTooLarge, Producer
from zkbroker.records import Codec
from zkbroker.records.legacy07 import entries


@pytest.fixture
def east(chroot):
    with TestCluster(1, zookeeper=f"{chroot}/east") as cluster:
        yield cluster


def into(tree, **settings):
    """Return the properties of a target of Kafka 0.7."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return {GENERATION: "0.7", "zk.connect": tree.connect_string, **given}


def sender(cluster, **settings):
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer(
        ProducerConfig.from_properties({"bootstrap.servers": cluster.bootstrap_servers, **given})
    )


def arrived(tree, topic):
    """Return the numbers of each source partition, by target partition, in the order of the log."""
    found = {}
    for place, bodies in stored(tree, topic).items():
        for body in bodies:
            if body and not body.startswith(b"first"):
                name, _, number = body.partition(b" ")
                found.setdefault(name.decode(), []).append((place, int(number)))
    return found


@pytest.mark.parametrize("coordinator", [False, True])
def test_values_arrive_in_order_at_partitions_chosen_by_key(
    tmp_path, chroot, tree, east, coordinator, caplog
):
    east.create_topic("t", partitions=3)
    with sender(east, compression_codec="gzip", producer_type="async") as producer:
        for n in range(300):
            producer.send(
                KeyedMessage("t", b"%d %06d" % (n % 3, n), partition=n % 3, headers=[("h", b"1")])
            )
        for n in range(70):
            producer.send(KeyedMessage("t", b"key%d %06d" % (n % 7, n), key=b"k%d" % (n % 7)))
        producer.send(KeyedMessage("t", None, key=b"gone"))
    with cluster07(tmp_path, chroot, tree):
        make_topic(tree, "t")
        given = config([source(east, coordinator=coordinator)], into(tree), whitelist="t")
        with caught_up(given) as mirror:
            assert mirror.metrics()["messages"] == 371
        assert "values only" in caplog.text
        assert sum(bodies.count(b"") for bodies in stored(tree, "t").values()) == 1
        found = arrived(tree, "t")
    for p in range(3):
        row = found[str(p)]
        assert [n for _, n in row] == list(range(p, 300, 3))
        assert len({place for place, _ in row}) == 1
    for k in range(7):
        row = found[f"key{k}"]
        assert [n for _, n in row] == list(range(k, 70, 7))
        assert len({place for place, _ in row}) == 1


def test_aborted_messages_are_skipped_and_newer_codecs_become_gzip(tmp_path, chroot, tree, east):
    east.create_topic("t", partitions=1)
    with sender(east, transactional_id="x", compression_codec="zstd") as producer:
        for turn, end in enumerate((producer.commit, producer.abort, producer.commit)):
            producer.begin()
            for n in range(10):
                producer.send(KeyedMessage("t", b"0 %d" % (turn * 10 + n)))
            end()
    with cluster07(tmp_path, chroot, tree):
        make_topic(tree, "t")
        with caught_up(config([source(east)], into(tree), whitelist="t")):
            pass
        (row,) = arrived(tree, "t").values()
        assert [n for _, n in row] == [*range(10), *range(20, 30)]
        name, end = max(ends(tree, "t").items(), key=lambda item: item[1])
        broker, number = map(int, name.split("-"))
        reader = Broker07(*broker_address(tree, broker))
        ((_, data),) = reader.multifetch([("t", number, 0)], size=end)
        reader.close()
        assert {each.codec for each in entries(memoryview(data))} - {0} == {Codec.GZIP}


def test_0_7_cluster_is_mirrored_into_another_with_same_partitions(tmp_path, chroot, tree):
    with (
        registry_tree(f"{chroot}-other") as there,
        cluster07(tmp_path / "one", f"{chroot}/one", tree),
        cluster07(tmp_path / "two", f"{chroot}/two", there),
    ):
        make_topic(tree, "t")
        make_topic(there, "t")
        writer = Writer(tree, "t")
        writer.write(10)
        with caught_up(config([old(tree)], into(there), whitelist="t")):
            pass
        assert commits(tree, "mirror", "t") == ends(tree, "t")
        for name, row in arrived(there, "t").items():
            assert row == [(name, n) for n in range(50)]
        with pytest.raises(ConfigError, match="is the target itself"):
            Mirror(config([old(tree)], into(tree), whitelist="t"))


def test_message_too_large_for_0_7_ends_mirror(tmp_path, chroot, tree, east):
    east.create_topic("t", partitions=1)
    with sender(east) as producer:
        producer.send([KeyedMessage("t", b"0 0"), KeyedMessage("t", b"0 1" * 2000)])
        producer.send(KeyedMessage("t", b"0 2"))
    with cluster07(tmp_path, chroot, tree, max_message_size="5000"):
        make_topic(tree, "t")
        to = into(tree, max_message_size="5000")
        with (
            pytest.raises(MessageTooLarge, match=r"max\.message\.size"),
            Mirror(config([source(east)], to, whitelist="t")) as mirror,
        ):
            mirror.wait(300)
        given = config([source(east)], to, whitelist="t", abort_on_send_failure="false")
        with caught_up(given) as mirror:
            assert mirror.metrics()["dropped_messages"] == 1
        (row,) = arrived(tree, "t").values()
        assert list(dict.fromkeys(n for _, n in row)) == [0, 2]


@pytest.mark.parametrize(
    "rounds",
    [2, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
    ids=["short", "long"],
)
def test_kills_of_mirror_and_target_lose_nothing(tmp_path, chroot, tree, east, rounds):
    east.create_topic("t", partitions=2)
    done = threading.Event()
    written = [0, 0]

    def write():
        with sender(east, producer_type="async", linger_ms="5") as producer:
            while not done.is_set():
                for partition in range(2):
                    value = b"%d %06d" % (partition, written[partition])
                    producer.send(KeyedMessage("t", value, partition=partition))
                    written[partition] += 1
                done.wait(0.002)

    with cluster07(tmp_path, chroot, tree) as brokers:
        make_topic(tree, "t")
        properties = {
            "whitelist": "t",
            "offset.commit.interval.ms": "100",
            "source.east.zookeeper.connect": east.zookeeper,
            "source.east.group.id": "m",
            **{f"target.{key}": value for key, value in into(tree).items() if key != GENERATION},
        }
        mirror = MirrorProcess(tmp_path, "mirror", properties)
        mirror.start("--to-07")
        writing = threading.Thread(target=write)
        writing.start()

        def took_more():
            before = sum(ends(tree, "t").values())
            until(lambda: sum(ends(tree, "t").values()) > before)

        try:
            for number in range(soak.part_of(rounds)):
                took_more()
                mirror.kill()
                mirror.start("--to-07")
                took_more()
                brokers[number % 2].kill()
                brokers[number % 2].start()
                until(lambda: len(ends(tree, "t")) == 4)
            done.set()
            writing.join()
            mirror.stop()
            tool = [sys.executable, "-m", "zkbroker.cli", "mirror", "--to-07", "--until-caught-up"]
            file = tmp_path / "mirror.properties"
            subprocess.run([*tool, "--config", file], check=True, timeout=120)
        finally:
            done.set()
            mirror.kill()
        found = arrived(tree, "t")
    for partition in range(2):
        numbers = {n for _, n in found[str(partition)]}
        assert numbers == set(range(written[partition]))
