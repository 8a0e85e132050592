"""Mirrors from a 0.7 cluster of our own listeners into a newer one."""

import random
import threading
import time
from collections import Counter

import pytest

from tests.support import soak
from tests.support.client07 import Broker07, broker_address, entry, gzip_wrapper
from tests.support.cluster07 import cluster07, commits, ends, make_topic
from tests.support.clusters import TestCluster
from tests.support.mirroring import COMMITTED, MirrorProcess, catch_up, caught_up, config, read_all
from tests.support.zookeeper import until
from zkbroker.config.generation import GENERATION
from zkbroker.mirror import Mirror, SourceConfig

PARTITIONS = [(broker, number) for broker in range(2) for number in range(2)]


@pytest.fixture
def here(chroot):
    with TestCluster(1, zookeeper=f"{chroot}/here") as cluster:
        yield cluster


def old(tree, group="mirror", **settings):
    properties = {
        GENERATION: "0.7",
        "zk.connect": tree.connect_string,
        "groupid": group,
        "zk.sessiontimeout.ms": "10000",
        "fetcher.backoff.ms": "20",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    return SourceConfig(properties=properties, label="old")


class Writer:
    """Writes numbered messages into every partition, plain and compressed in turn."""

    def __init__(self, tree, topic):
        self.tree, self.topic = tree, topic
        self.written = Counter()

    def write(self, sets):
        brokers = {n: Broker07(*broker_address(self.tree, n)) for n, _ in PARTITIONS}
        for turn in range(sets):
            for broker, number in PARTITIONS:
                bodies = []
                for _ in range(5):
                    n = self.written[broker, number]
                    bodies.append(b"%d-%d %06d" % (broker, number, n))
                    self.written[broker, number] += 1
                packed = gzip_wrapper(bodies) if turn % 2 else b"".join(map(entry, bodies))
                brokers[broker].produce(self.topic, number, packed)
        for broker in brokers.values():
            # A set is stored once a later request on the connection was answered.
            assert broker.offsets(self.topic, 0, -1)
            broker.close()


def arrived(here, topic, config=None):
    """Return the messages of each source partition in the order of the target."""
    found = {}
    for messages in read_all(here.bootstrap_servers, topic, config).values():
        for message in messages:
            assert message.key is None
            assert message.timestamp > 1_600_000_000_000
            name, _, number = message.value.partition(b" ")
            if not name.startswith(b"first"):
                found.setdefault(name.decode(), []).append(int(number))
    return found


def test_0_7_source_is_mirrored_in_order_and_committed_in_bytes(tmp_path, chroot, tree, here):
    here.create_topic("t", partitions=3)
    with cluster07(tmp_path, chroot, tree):
        make_topic(tree, "t")
        writer = Writer(tree, "t")
        writer.write(40)
        given = config([old(tree)], here, whitelist="t", num_streams="2")
        with caught_up(given) as mirror:
            assert mirror.metrics()["dropped_messages"] == 0
            metrics = mirror.metrics()
        assert metrics["messages"] == 40 * 5 * 4 + 2
        assert commits(tree, "mirror", "t") == ends(tree, "t")
        assert arrived(here, "t") == {f"{b}-{n}": list(range(200)) for b, n in PARTITIONS}
        # It continues at its position: no message is repeated.
        writer.write(4)
        with caught_up(given) as mirror:
            pass
        assert mirror.metrics()["messages"] == 4 * 5 * 4
        assert arrived(here, "t") == {f"{b}-{n}": list(range(220)) for b, n in PARTITIONS}
        assert commits(tree, "mirror", "t") == ends(tree, "t")


def test_second_mirror_takes_over_partitions(tmp_path, chroot, tree, here):
    here.create_topic("t", partitions=2)
    with cluster07(tmp_path, chroot, tree):
        make_topic(tree, "t")
        writer = Writer(tree, "t")
        writer.write(10)
        given = config([old(tree)], here, whitelist="t", offset_commit_interval_ms="100")
        with Mirror(given) as one:
            with Mirror(given) as two:
                held = lambda mirror: len(mirror._workers()[0].source.positions())  # noqa: E731
                until(lambda: (held(one), held(two)) == (2, 2))
                writer.write(10)
                catch_up(one)
            until(lambda: held(one) == 4)
            writer.write(10)
            catch_up(one)
        found = arrived(here, "t")
        assert found == {f"{b}-{n}": list(range(150)) for b, n in PARTITIONS}


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize(
    "kills",
    [3, pytest.param(40, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
    ids=["short", "long"],
)
def test_kills_of_mirror_and_brokers_lose_nothing(
    tmp_path, chroot, tree, here, kills, exactly_once
):
    here.create_topic("t", partitions=3)
    rolls = random.Random(7 + soak.SEED)
    with cluster07(tmp_path, chroot, tree) as brokers:
        make_topic(tree, "t")
        writer = Writer(tree, "t")
        properties = {
            "whitelist": "t",
            "offset.commit.interval.ms": "100",
            "exactly.once": str(exactly_once).lower(),
            **{f"source.old.{key}": value for key, value in old(tree).properties.items()},
            "target.bootstrap.servers": here.bootstrap_servers,
        }
        del properties[f"source.old.{GENERATION}"]
        mirror = MirrorProcess(tmp_path, "mirror", properties)
        mirror.start("--from-07")
        try:
            for _ in range(soak.part_of(kills)):
                writing = threading.Thread(target=writer.write, args=(20,))
                writing.start()
                time.sleep(rolls.uniform(0.2, 1.5))
                mirror.kill()
                mirror.start("--from-07")
                writing.join()
                if rolls.random() < 0.5:
                    # All it was sent is flushed and acknowledged by `write`.
                    broker = brokers[rolls.randrange(2)]
                    broker.kill()
                    broker.start()
                    until(lambda: len(tree.get_children("/brokers/ids")) == 2)
                    until(lambda: len(ends(tree, "t")) == 4)
            until(lambda: commits(tree, "mirror", "t") == ends(tree, "t"), 90)
            assert mirror.alive, mirror.output
            assert mirror.stop() in (0, -15, 130, 143)
        finally:
            mirror.kill()
    found = arrived(here, "t", COMMITTED if exactly_once else None)
    assert len(found) == 4
    for name, numbers in found.items():
        first = numbers if exactly_once else list(dict.fromkeys(numbers))
        assert first == list(range(writer.written[int(name[0]), int(name[2])]))
