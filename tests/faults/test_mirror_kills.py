"""Mirrors, brokers and ZooKeeper are killed on both sides while two sources are mirrored into one.

Every message that a source holds is in the target, at least once, and the first occurrences come in
the order of the source's partition. With exactly.once the partition in the target is that of the
source, message by message.
"""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import soak
from tests.support.clusters import TestCluster
from tests.support.mirroring import COMMITTED, MirrorProcess, committed, read_all
from tests.support.process import wait_until
from tests.support.producing import TestProducer
from tests.support.record_strategies import FORMATS
from zkbroker.mirror import SourceConfig
from zkbroker.testing import LocalCluster

PARTITIONS = 3


@pytest.fixture(scope="module")
def clusters() -> Iterator[list[LocalCluster]]:
    """Two sources and a target, each with a ZooKeeper of its own."""
    properties = {"log.flush.interval.messages": "1"}
    with (
        TestCluster(1, properties=properties) as east,
        TestCluster(1, properties=properties) as west,
        TestCluster(2, properties=properties) as here,
    ):
        yield [east, west, here]


class Writer:
    """Fills both sources, in every format, in the background."""

    def __init__(self, sources: list[LocalCluster], topics: list[str], messages: int) -> None:
        self._sources = sources
        self._topics = topics
        self._messages = messages
        self.written = 0
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            senders = [TestProducer(each.bootstrap_servers) for each in self._sources]
            formats = itertools.cycle(FORMATS)
            per_set = max(10, self._messages // 20_000)
            for turn in itertools.count():
                for index, partition in itertools.product(range(2), range(PARTITIONS)):
                    magic, codec = next(formats)
                    values = [
                        b"%d-%d-%08d-%d" % (index, partition, turn, n) for n in range(per_set)
                    ]
                    senders[index].send(
                        self._topics[index], partition, values, magic=magic, codec=codec
                    )
                    self.written += per_set
                if self.written >= self._messages:
                    return
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error


def mirror_under_kills(
    clusters: list[LocalCluster],
    folder: Path,
    messages: int,
    kills: int,
    seed: int,
    *,
    exactly_once: bool,
) -> None:
    """Kill at seeded points of the progress, then check the mirrored messages."""
    rolls = random.Random(seed)
    *sources, here = clusters
    group = f"mirror-{seed}-{exactly_once}"
    topics = [f"orders-{group}-{index}" for index in range(2)]
    for topic, cluster in zip(topics, sources, strict=True):
        cluster.create_topic(topic, partitions=PARTITIONS)
        here.create_topic(topic, partitions=PARTITIONS)
    properties = {
        "whitelist": f"orders-{group}-.*",
        "identity.partitions": "true",
        "offset.commit.interval.ms": "300",
        "source.east.zookeeper.connect": sources[0].zookeeper,
        "source.east.group.id": group,
        "source.east.zookeeper.session.timeout.ms": "10000",
        "source.west.bootstrap.servers": sources[1].bootstrap_servers,
        "source.west.group.id": group,
        "source.west.session.timeout.ms": "10000",
        "source.west.heartbeat.interval.ms": "500",
        "target.bootstrap.servers": here.bootstrap_servers,
        "exactly.once": str(exactly_once).lower(),
    }
    mirrors = [MirrorProcess(folder, f"mirror-{n}", properties) for n in range(2)]
    for each in mirrors:
        each.start()

    def kill_mirror() -> None:
        victim = rolls.choice(mirrors)
        victim.kill()
        victim.start()

    def kill_broker() -> None:
        broker = rolls.choice(rolls.choice(clusters).brokers)
        broker.kill()
        time.sleep(rolls.uniform(0, 0.5))  # the outage is part of the schedule
        broker.start()

    def kill_zookeeper() -> None:
        zookeeper = rolls.choice(clusters).embedded_zookeeper
        zookeeper.kill()
        time.sleep(rolls.uniform(0, 0.5))
        zookeeper.start()

    acts: list[Callable[[], None]] = [kill_broker, kill_mirror, kill_zookeeper]
    schedule = [acts[n % 3] for n in range(kills)]
    rolls.shuffle(schedule)
    points = sorted(rolls.sample(range(messages // 20, messages), kills))
    writer = Writer(sources, topics, messages)
    done = 0
    try:
        for point, act in zip(points, schedule, strict=True):
            assert wait_until(lambda at=point: writer.written >= at or writer.error, 600, 0.01)
            assert writer.error is None, writer.error
            act()
            done += 1
        writer.thread.join(600)
        assert writer.error is None, writer.error
        assert not writer.thread.is_alive()
        for each in mirrors:
            # no passing error ends it; a supervisor would restart it anyway
            assert each.alive, each.output
        stored = [
            read_all(cluster.bootstrap_servers, topic)
            for topic, cluster in zip(topics, sources, strict=True)
        ]
        wanted = [
            {(topics[index], number): len(row) for number, row in found.items()}
            for index, found in enumerate(stored)
        ]

        def all_committed() -> bool:
            for index, cluster in enumerate(sources):
                where = {"zookeeper.connect": cluster.zookeeper}
                if index == 1:
                    where = {"bootstrap.servers": cluster.bootstrap_servers}
                source = SourceConfig(properties={"group.id": group, **where})
                if committed(source, cluster) != wanted[index]:
                    return False
            return True

        assert wait_until(all_committed, 300, 0.5), "\n".join(each.output for each in mirrors)
    finally:
        for each in mirrors:
            each.kill()
    for index, found in enumerate(stored):
        arrived = read_all(
            here.bootstrap_servers, topics[index], COMMITTED if exactly_once else None
        )
        for number, row in found.items():
            if exactly_once:
                assert [m.value for m in arrived[number]] == [m.value for m in row], (index, number)
                continue
            # a set whose response was lost at a kill of the source is in the source twice
            sent, first = (
                list(dict.fromkeys(m.value for m in each)) for each in (row, arrived[number])
            )
            assert first == sent, (index, number)
    assert done == kills


# Each seed kills a source broker, a target broker and the mirror. The first one also stops the
# ZooKeeper of a source, the other one that of the target.
@pytest.mark.parametrize(("exactly_once", "seed"), [(False, 167), (True, 84)])
def test_few_kills_lose_no_message(clusters, tmp_path, exactly_once, seed):
    mirror_under_kills(clusters, tmp_path, 10_000, kills=4, seed=seed, exactly_once=exactly_once)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("exactly_once", [False, True])
def test_sixty_kills_lose_none_of_two_million_messages(clusters, tmp_path, exactly_once):
    messages, kills, seed = soak.part_of(2_000_000), soak.part_of(60), 60 + soak.SEED
    mirror_under_kills(clusters, tmp_path, messages, kills, seed, exactly_once=exactly_once)
