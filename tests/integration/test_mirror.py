"""Mirrors between real clusters: contents, commits, and prevention of loops."""

import itertools
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests.support import soak
from tests.support.clusters import MakeCluster, TestCluster
from tests.support.mirroring import (
    COMMITTED,
    MirrorProcess,
    catch_up,
    caught_up,
    committed,
    config,
    connect,
    contents,
    read_all,
    require_same,
    source,
)
from tests.support.process import wait_until
from tests.support.producing import TestProducer
from tests.support.record_strategies import FORMATS
from zkbroker.admin import coordinator_groups, topics, zk_groups
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ConfigError
from zkbroker.mirror import PATH_HEADER, Mirror, read_syncs, translate
from zkbroker.producer import KeyedMessage, MessageTooLarge, Producer
from zkbroker.records import encode_message_set
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper.embedded import free_port
from zkbroker.zookeeper.session import ZkSession

_numbers = itertools.count()
STAMP = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}


def fresh(stem: str) -> str:
    return f"{stem}-{next(_numbers)}"


@pytest.fixture(scope="module")
def east(local_cluster: MakeCluster) -> Iterator[LocalCluster]:
    with local_cluster(1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def west(east: LocalCluster) -> Iterator[LocalCluster]:
    with TestCluster(1, zookeeper=f"{east.zookeeper}/west") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def here(east: LocalCluster) -> Iterator[LocalCluster]:
    with TestCluster(2, zookeeper=f"{east.zookeeper}/here") as cluster:
        yield cluster


def fill(cluster: LocalCluster, topic: str, partitions: int, sets: int = 3) -> int:
    """Write messages of every format and codec, with nulls, tombstones and headers among them."""
    sender = TestProducer(cluster.bootstrap_servers)
    count = 0
    for partition in range(partitions):
        for turn, (magic, codec) in itertools.product(range(sets), FORMATS):
            records = [
                (
                    None if n % 3 == 0 else b"key-%d" % n,
                    None if n % 7 == 1 else b"%d %d %d" % (partition, turn, n) * (n % 40 + 1),
                    STAMP + count + n if magic else -1,
                    (("trace", b"%d" % n), ("empty", None)) if magic == 2 and n % 2 else (),
                )
                for n in range(turn * 5 + 1 + partition)
            ]
            version = {0: 0, 1: 2, 2: None}[magic]
            data = encode_message_set(records, magic=magic, codec=codec)
            sender.send_set(topic, partition, data, version=version)
            count += len(records)
    sender.close()
    return count


def send(cluster: LocalCluster, topic: str, values: list[bytes], **settings: str) -> None:
    given = {"bootstrap.servers": cluster.bootstrap_servers, "producer.type": "async", **settings}
    with Producer(ProducerConfig.from_properties({"linger.ms": "20", **given})) as producer:
        for value in values:
            producer.send(KeyedMessage(topic, value, key=value[:4], timestamp_ms=STAMP))


@pytest.mark.parametrize("coordinator", [False, True])
def test_two_sources_are_mirrored_into_one_target(east, west, here, coordinator):
    ours, theirs = fresh("formats"), fresh("formats")
    for cluster, topic in ((east, ours), (west, theirs)):
        cluster.create_topic(topic, partitions=3, config={"retention.ms": "-1"})
        fill(cluster, topic, 3)
    group = fresh("mirror")
    sources = [
        source(east, name="east", group=group, coordinator=coordinator),
        source(west, name="west", group=group, coordinator=not coordinator),
    ]
    given = config(sources, here, whitelist=f"{ours},{theirs}", identity_partitions="true")
    with caught_up(given) as mirror:
        metrics = mirror.metrics()
    for cluster, topic in ((east, ours), (west, theirs)):
        require_same(here.bootstrap_servers, cluster.bootstrap_servers, topic)
    assert metrics["dropped_messages"] == 0
    assert metrics["lag"] == 0
    # all positions are committed when the mirror has ended
    for each, cluster, topic in zip(sources, (east, west), (ours, theirs), strict=True):
        stored = read_all(cluster.bootstrap_servers, topic)
        assert committed(each, cluster) == {(topic, n): len(found) for n, found in stored.items()}


def test_stored_batches_are_mirrored_unchanged(east, here):
    topic = east.create_topic(fresh("raw"), partitions=1)
    send(east, topic, [os.urandom(400) for _ in range(2000)], **{"compression.type": "lz4"})
    given = config(
        [source(east, group=fresh("m"))], here, whitelist=topic, identity_partitions="true"
    )
    with caught_up(given) as mirror:
        metrics = mirror.metrics()
    assert metrics["stored_batches"] > 0
    assert metrics["encoded_batches"] == 0
    require_same(here.bootstrap_servers, east.bootstrap_servers, topic)


@pytest.mark.parametrize("prefixed", [False, True])
def test_mirrors_in_both_directions_do_not_loop(east, west, prefixed):
    topic = fresh("both")
    for cluster in (east, west):
        cluster.create_topic(topic, partitions=2)
    pattern = rf"(east\.|west\.)*{topic}"
    mirrors = []
    for name, one, other_name, other in (
        ("east", east, "west", west),
        ("west", west, "east", east),
    ):
        settings = {"topic_prefix": "{source}."} if prefixed else {}
        mirrors.append(
            Mirror(
                config(
                    [source(one, name=name, group=fresh("loop"), coordinator=True)],
                    other,
                    whitelist=pattern,
                    target_name=other_name,
                    **settings,
                )
            )
        )
    send(east, topic, [b"east-%d" % n for n in range(300)])
    send(west, topic, [b"west-%d" % n for n in range(200)])
    for _ in range(3):  # mirrored messages must have had the time to return
        for mirror in mirrors:
            catch_up(mirror)
    for mirror in mirrors:
        mirror.close()
    for cluster, other in ((east, "west"), (west, "east")):
        with connect(cluster.bootstrap_servers) as view:
            names = [name for name in view.topics() if topic in name]
        own = [m for found in read_all(cluster.bootstrap_servers, topic).values() for m in found]
        if prefixed:
            assert sorted(names) == sorted([topic, f"{other}.{topic}"])
            assert len(own) == (300 if cluster is east else 200)
        else:
            assert names == [topic]
            assert len(own) == 500
            foreign = [m for m in own if m.value.startswith(other.encode())]
            assert {m.headers for m in foreign} == {((PATH_HEADER, other.encode()),)}


def test_other_partition_count_distributes_by_key(east, here):
    topic = east.create_topic(fresh("keys"), partitions=2)
    here.create_topic(topic, partitions=5)
    expected = here.create_topic(fresh("expected"), partitions=5)
    values = [b"%04d-%d" % (n % 50, n) for n in range(500)]
    send(east, topic, values)
    send(here, expected, values)
    with caught_up(config([source(east, group=fresh("m"))], here, whitelist=topic)):
        pass

    def placed(name):
        return {n: sorted(row) for n, row in contents(here.bootstrap_servers, name).items()}

    assert placed(topic) == placed(expected)


def shouted(message):
    if message.value.endswith(b"7"):
        return []
    return [
        KeyedMessage(message.topic, message.value.upper(), key=message.key),
        KeyedMessage("copies-" + message.topic, message.value, partition=0),
    ]


def test_message_handler_replaces_messages(east, here):
    topic = east.create_topic(fresh("handled"), partitions=1)
    here.create_topic(f"copies-{topic}")
    send(east, topic, [b"abc%d" % n for n in range(20)])
    given = config(
        [source(east, group=fresh("m"))],
        here,
        whitelist=topic,
        message_handler="tests.integration.test_mirror:shouted",
    )
    with caught_up(given):
        pass
    kept = [b"abc%d" % n for n in range(20) if n % 10 != 7]
    (found,) = read_all(here.bootstrap_servers, topic).values()
    assert [m.value for m in found] == [value.upper() for value in kept]
    (copies,) = read_all(here.bootstrap_servers, f"copies-{topic}").values()
    assert [m.value for m in copies] == kept


def test_refused_message_ends_mirror_without_commit(east, here):
    topic = east.create_topic(fresh("refused"))
    here.create_topic(topic, config={"max.message.bytes": "2000"})
    send(east, topic, [b"small", b"x" * 10_000, b"behind"])
    each = source(east, group=fresh("m"))
    with (
        Mirror(config([each], here, whitelist=topic)) as mirror,
        pytest.raises(MessageTooLarge),
    ):
        mirror.wait(300)
    assert committed(each, east) == {}
    # with abort.on.send.failure=false the dropped message is counted and committed
    with caught_up(config([each], here, whitelist=topic, abort_on_send_failure="false")) as mirror:
        dropped = mirror.metrics()["dropped_messages"]
    (found,) = read_all(here.bootstrap_servers, topic).values()
    assert dropped == 1
    assert [m.value for m in found][-2:] == [b"small", b"behind"]
    assert committed(each, east) == {(topic, 0): 3}


@pytest.mark.parametrize("through_zookeeper", [False, True])
def test_topics_are_created_and_followed_like_source(east, here, through_zookeeper):
    topic = east.create_topic(
        fresh("like"), partitions=2, config={"retention.ms": "7200000", "cleanup.policy": "delete"}
    )
    send(east, topic, [b"first"])
    to = {"zookeeper.connect": here.zookeeper} if through_zookeeper else here
    each = source(east, group=fresh("m"), coordinator=not through_zookeeper)
    if not through_zookeeper:
        each.properties["metadata.max.age.ms"] = "500"
    given = config(
        [each],
        to,
        whitelist=topic,
        identity_partitions="true",
        topics_interval_ms="200",
    )
    with Mirror(given) as mirror, ZkSession(here.zookeeper) as session:
        catch_up(mirror)
        (made,) = topics.describe(session, [topic])
        assert len(made.partitions) == 2
        assert dict(made.config) == {"retention.ms": "7200000", "cleanup.policy": "delete"}
        with ZkSession(east.zookeeper) as origin:
            topics.alter_config(
                origin, topic, add={"retention.ms": "3600000"}, delete=["cleanup.policy"]
            )
            topics.add_partitions(origin, topic, 3)

        def followed():
            (now,) = topics.describe(session, [topic])
            return (len(now.partitions), dict(now.config)) == (3, {"retention.ms": "3600000"})

        assert wait_until(followed, interval_s=0.1)
        sender = TestProducer(east.bootstrap_servers)
        sender.send(topic, 2, [b"in the new one"])
        sender.close()
        assert wait_until(
            lambda: (
                [m.value for m in read_all(here.bootstrap_servers, topic).get(2, ())]
                == [b"in the new one"]
            ),
            interval_s=0.2,
        )


def test_group_offsets_are_translated_to_target(east, here, tmp_path, tool):
    topic = east.create_topic(fresh("synced"), partitions=2)
    here.create_topic(topic, partitions=2)
    send(here, topic, [b"was there before %d" % n for n in range(7)])
    before = {n: len(found) for n, found in read_all(here.bootstrap_servers, topic).items()}
    send(east, topic, [b"%04d" % n for n in range(400)])
    ends = {n: len(found) for n, found in read_all(east.bootstrap_servers, topic).items()}
    syncs = fresh("syncs")
    properties = {
        "whitelist": topic,
        "identity.partitions": "true",
        "offset.syncs.topic": syncs,
        "source.east.zookeeper.connect": east.zookeeper,
        "source.east.group.id": fresh("m"),
        "target.bootstrap.servers": here.bootstrap_servers,
    }
    process = MirrorProcess(tmp_path, "mirror", properties)
    process.start("--until-caught-up")
    assert wait_until(lambda: not process.alive, interval_s=0.1)
    assert "mirrored 400 messages" in process.output
    group = fresh("readers")
    places = {(topic, 0): 33, (topic, 1): ends[1]}
    with ZkSession(east.zookeeper) as session:
        zk_groups.write(session, group, places)
    with connect(here.bootstrap_servers) as cluster:
        found = translate(places, read_syncs(cluster, syncs, "east"))
        assert found[topic, 0].offset == before[0] + 33
        assert found[topic, 1].offset == before[1] + ends[1]
        file = tmp_path / "mirror.properties"
        tool("mirror", "offsets", "--apply", "--json", "--group", group, "--config", file)
        kept = coordinator_groups.describe(cluster, group).offsets
    expected = {(topic, 0): before[0] + 33, (topic, 1): before[1] + ends[1]}
    assert kept == expected
    # The settings name the target's brokers and its ZooKeeper.
    both = tmp_path / "both.properties"
    both.write_text(f"{file.read_text()}target.zookeeper.connect={here.zookeeper}\n")
    apply = ("mirror", "offsets", "--apply", "zookeeper", "--group", group, "--config")
    assert "committed 2 offsets" in tool(*apply, both)
    assert "no ZooKeeper" in tool(*apply, file, status=2)
    with ZkSession(here.zookeeper) as session:
        assert zk_groups.committed(session, group) == expected


@pytest.mark.parametrize("coordinator", [False, True])
def test_rebalance_of_mirrors_loses_and_repeats_nothing(east, here, coordinator):
    topic = east.create_topic(fresh("shared"), partitions=4)
    here.create_topic(topic, partitions=4)
    group = fresh("m")
    written: list[bytes] = []
    over = threading.Event()

    def write():
        given = {"bootstrap.servers": east.bootstrap_servers, "producer.type": "async"}
        settings = ProducerConfig.from_properties({**given, "linger.ms": "5"})
        with Producer(settings) as producer:
            while not over.is_set():
                value = b"%06d" % len(written)
                producer.send(KeyedMessage(topic, value, key=value))
                written.append(value)
                if len(written) % 20 == 0:
                    time.sleep(0.01)

    def make():
        each = source(east, group=group, coordinator=coordinator)
        return Mirror(config([each], here, whitelist=topic, identity_partitions="true"))

    writer = threading.Thread(target=write)
    writer.start()
    first = make()
    try:
        assert wait_until(lambda: first.metrics()["messages"] > 500)
        second = make()
        assert wait_until(lambda: second.metrics()["messages"] > 500)
        first.close()
        at = second.metrics()["messages"]
        assert wait_until(lambda: second.metrics()["messages"] > at + 500)
    finally:
        over.set()
        writer.join()
    catch_up(second)
    second.close()
    require_same(here.bootstrap_servers, east.bootstrap_servers, topic)
    assert sum(map(len, read_all(here.bootstrap_servers, topic).values())) == len(written)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("messages", "seconds"),
    [
        pytest.param(8_000, 1, id="short"),
        pytest.param(40_000, soak.part_of(60), id="a minute", marks=pytest.mark.soak),
    ],
)
def test_unavailable_target_delays_mirror_within_its_window_without_loss(
    east, here, messages, seconds
):
    topic = east.create_topic(fresh("outage"), partitions=2)
    here.create_topic(topic, partitions=2)
    send(east, topic, [b"before"])
    each = source(east, group=fresh("m"), coordinator=True)
    window = 4 * 1024 * 1024
    given = config([each], here, whitelist=topic, window_bytes=str(window))
    with Mirror(given) as mirror:
        catch_up(mirror)
        for broker in here.brokers:
            broker.kill()
        before = resident_bytes()
        send(east, topic, [os.urandom(1000) for _ in range(messages)])
        assert wait_until(lambda: mirror.metrics()["open_bytes"] > window // 2)
        most = 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            most = max(most, mirror.metrics()["open_bytes"])
            time.sleep(0.1)
        grown = resident_bytes() - before
        for broker in here.brokers:
            broker.start()
        catch_up(mirror)
    # one chunk may be taken beyond the window
    assert most <= window + 1024 * 1024
    assert grown < 100 * 1024 * 1024
    require_same(here.bootstrap_servers, east.bootstrap_servers, topic)


def test_mirror_maker_options_mirror_until_sigterm(east, here, tmp_path):
    topic = east.create_topic(fresh("maker"))
    send(east, topic, [b"one", b"two"])
    group = fresh("m")
    consumer = tmp_path / "consumer.properties"
    consumer.write_text(f"zookeeper.connect={east.zookeeper}\ngroup.id={group}\n")
    producer = tmp_path / "producer.properties"
    producer.write_text(f"metadata.broker.list={here.bootstrap_servers}\n")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "zkbroker.cli", "kafka-mirror-maker.sh"),
            *("--consumer.config", consumer, "--producer.config", producer),
            *("--num.streams=2", "--whitelist", topic, "--abort.on.send.failure", "true"),
            *("--offset.commit.interval.ms", "1000", "--num.producers", "2"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )

    def arrived():
        with connect(here.bootstrap_servers) as view:
            if topic not in view.topics():
                return False
        found = [m for row in read_all(here.bootstrap_servers, topic).values() for m in row]
        return [m.value for m in found] == [b"one", b"two"]

    try:
        assert wait_until(lambda: process.poll() is not None or arrived(), interval_s=0.2)
    finally:
        process.terminate()
        _, output = process.communicate(timeout=300)
    assert process.returncode == 143, output
    assert "--num.producers has no effect here" in output
    with ZkSession(east.zookeeper) as session:
        assert zk_groups.committed(session, group) == {(topic, 0): 2}


def test_cluster_is_not_mirrored_into_itself(east):
    with pytest.raises(ConfigError, match="is the target itself"):
        Mirror(config([source(east)], east, whitelist=".*"))


@pytest.mark.parametrize("coordinator", [False, True])
def test_exactly_once_resumes_at_position_in_target_and_commits_in_group(east, here, coordinator):
    topic = east.create_topic(fresh("once"), partitions=3, config=KEPT)
    here.create_topic(topic, partitions=3, config=KEPT)
    once = {"whitelist": topic, "exactly_once": "true", "exactly_once_id": fresh("id")}
    send(east, topic, [b"%d" % n for n in range(500)])
    with caught_up(config([source(east, group=fresh("m"), coordinator=coordinator)], here, **once)):
        pass
    send(east, topic, [b"%d" % n for n in range(500, 800)])
    # another group begins at the start of the topic, as after a loss of its commits
    other = source(east, group=fresh("m"), coordinator=coordinator)
    with caught_up(config([other], here, **once)) as mirror:
        assert mirror.metrics()["failures"] == 0
    expected = {
        n: [m.value for m in row] for n, row in read_all(east.bootstrap_servers, topic).items()
    }
    arrived = read_all(here.bootstrap_servers, topic, COMMITTED)
    assert {n: [m.value for m in row] for n, row in arrived.items()} == expected
    assert committed(other, east) == {(topic, n): len(row) for n, row in expected.items()}


def test_exactly_once_refuses_unsupported_settings(east, here):
    for settings, why in (
        ({"abort_on_send_failure": "false"}, r"abort\.on\.send\.failure=true"),
        ({"exactly_once_topic": ""}, r"exactly\.once\.topic"),
    ):
        with pytest.raises(ConfigError, match=why):
            config([source(east)], here, whitelist="x", exactly_once="true", **settings)
    with pytest.raises(ConfigError, match="a name for each"):
        config([source(east), source(east)], here, whitelist="x", exactly_once="true")


class RecordingListener:
    """A rebalance listener of the user's."""

    calls: ClassVar[list[str]] = []

    def __init__(self, text: str) -> None:
        self._text = text

    def on_partitions_assigned(self, partitions):
        self.calls.append(f"{self._text} +{len(partitions)}")

    def on_partitions_revoked(self, partitions):
        self.calls.append(f"{self._text} -{len(partitions)}")

    def on_partitions_lost(self, partitions):
        self.calls.append(f"{self._text} lost {len(partitions)}")


def test_rebalance_listener_is_called_and_progress_is_logged(east, here, caplog, monkeypatch):
    monkeypatch.setattr("zkbroker.mirror.mirror._STATUS_S", 0.2)
    caplog.set_level("INFO", "zkbroker.mirror")
    topic = east.create_topic(fresh("heard"), partitions=2, config=KEPT)
    here.create_topic(topic, partitions=2, config=KEPT)
    send(east, topic, [b"%d" % n for n in range(100)])
    given = config(
        [source(east, group=fresh("m"), coordinator=True)],
        here,
        whitelist=topic,
        rebalance_listener=f"{__name__}:RecordingListener",
        rebalance_listener_args="heard",
    )
    with caught_up(given):
        assert wait_until(lambda: "mirrored messages_per_s=" in caplog.text)
    assert "heard +2" in RecordingListener.calls
    assert RecordingListener.calls[-1] == "heard -2"


def test_mirror_shows_metrics_and_live_table(east, here, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # its output is drawn as on a terminal
    topic = east.create_topic(fresh("shown"), partitions=1, config=KEPT)
    here.create_topic(topic, partitions=1, config=KEPT)
    send(east, topic, [b"%d" % n for n in range(100)])
    process = MirrorProcess(
        tmp_path,
        "shown",
        {
            "whitelist": topic,
            "source.east.zookeeper.connect": east.zookeeper,
            "source.east.group.id": fresh("m"),
            "target.bootstrap.servers": here.bootstrap_servers,
        },
    )
    port = free_port()
    process.start("--top", "--metrics-port", str(port))
    try:

        def page() -> str:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as got:
                    return got.read().decode()
            except OSError:
                return ""

        def shown() -> bool:
            return re.search(rf'messages_total\S*topic="{topic}"\S* 100', page()) is not None

        assert wait_until(shown, interval_s=0.2), page()
        assert wait_until(lambda: re.search(r"consumer_lag\S* 0", page())), page()
        assert wait_until(lambda: topic in process.output, interval_s=0.1)
        assert "bytes/s" in process.output
        assert process.stop() == 143
    finally:
        process.kill()
