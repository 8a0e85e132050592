"""The bulk load on real brokers and a real Spark."""

import threading

import pytest

from spark_loader import DataLoss, EventTime, Loader, LoadOptions, Progress, read
from spark_loader.errors import DamagedLog
from tests.support.clusters import module_cluster
from tests.support.inline_spark import InlineSpark
from tests.support.loaded import loaded_offsets
from tests.support.loading import verified
from tests.support.process import wait_until
from tests.support.spark_records import publish
from zkbroker.admin.topics import alter_config
from zkbroker.consumer import EARLIEST_TIME, SimpleConsumer
from zkbroker.producer import KeyedMessage
from zkbroker.records import iter_entries
from zkbroker.registry.group_offsets import read_offset
from zkbroker.zookeeper import ZkSession

pytestmark = pytest.mark.spark


cluster = module_cluster(2)


def line(number: int) -> bytes:
    hour = number % 5
    return b'10.0.0.%d - - [17/May/2015:%02d:05:03 +0000] "GET /%d HTTP/1.1" 200 17 "-" "agent"' % (
        number % 7,
        hour,
        number,
    )


def publish_lines(cluster, topic, numbers, codec="none"):
    messages = [KeyedMessage(topic, line(n), key=b"10.0.0.%d" % (n % 7)) for n in numbers]
    publish(cluster, topic, messages, {"compression.codec": codec})


def test_second_load_adds_only_new_records(cluster, spark, tmp_path):
    topic = cluster.create_topic(partitions=4)
    publish_lines(cluster, topic, range(1000), codec="snappy")
    seen: list[Progress] = []
    loader = Loader(
        LoadOptions(
            zookeeper=cluster.zookeeper,
            topics=(topic,),
            output=str(tmp_path),
            group="lake",
            event_time=EventTime.access_log(),
        ),
        progress=seen.append,
    )
    first = loader.run(spark)
    assert (first.run, first.rows, first.quarantined, first.lag) == (1, 1000, 0, 0)
    assert seen[0].stage == "plan"
    assert (seen[-1].stage, seen[-1].rows) == ("done", 1000)

    publish_lines(cluster, topic, range(1000, 1100))
    assert loader.run(spark).rows == 100
    nothing = loader.run(spark)
    assert (nothing.run, nothing.rows, nothing.files) == (0, 0, ())

    frame = spark.read.parquet(str(tmp_path))
    assert sorted(bytes(row.value) for row in frame.collect()) == sorted(map(line, range(1100)))
    wrong_hour = frame.where("hour != hour(to_utc_timestamp(event_time, current_timezone()))")
    assert wrong_hour.count() == 0
    per_member = {row.key.decode(): row["count"] for row in frame.groupBy("key").count().collect()}
    assert per_member == {
        f"10.0.0.{m}": len([n for n in range(1100) if n % 7 == m]) for m in range(7)
    }
    assert read(spark, str(tmp_path)).count() == 1100
    verified(tmp_path)
    offsets = loaded_offsets(tmp_path)
    assert all(each == list(range(len(each))) for each in offsets.values())
    with ZkSession(cluster.zookeeper) as session:
        for (_, partition), each in offsets.items():
            stored = read_offset(session, "lake", topic, partition)
            assert stored is not None
            assert stored[0] == len(each)


def test_records_deleted_by_retention_fail_load_or_become_gap(local_cluster, spark, tmp_path):
    with local_cluster(properties={"log.retention.check.interval.ms": "200"}) as running:
        topic = running.create_topic(partitions=1, config={"segment.bytes": "2000"})
        where = {
            "zookeeper": running.zookeeper,
            "topics": [topic],
            "output": str(tmp_path / "lake"),
        }
        publish_lines(running, topic, range(50))
        assert Loader(**where).run(spark=spark).rows == 50
        for start in range(50, 200, 10):
            publish_lines(running, topic, range(start, start + 10))
        with ZkSession(running.zookeeper) as session:
            alter_config(session, topic, add={"retention.bytes": "4000"})
        with SimpleConsumer(*running.broker(1).address) as consumer:

            def beginning() -> int:
                return consumer.get_offsets_before(topic, 0, EARLIEST_TIME, 1)[0]

            assert wait_until(lambda: beginning() > 50)
            with ZkSession(running.zookeeper) as session:
                alter_config(session, topic, add={"retention.bytes": "-1"})
            # A check that had begun before may still delete: wait until the log stays as it is.
            first = beginning()
            while wait_until(lambda at=first: beginning() != at, 5):
                first = beginning()
        with pytest.raises(DataLoss, match=rf"{topic}-0 \[50, {first}\)"):
            Loader(**where).run(spark=spark)
        loaded = Loader(**where, on_out_of_range="earliest").run(spark=spark)
        assert loaded.rows == 200 - first
        (gap,) = loaded.gaps
        assert (gap.topic, gap.partition, gap.start, gap.until) == (topic, 0, 50, first)
        assert Loader(**where).run(spark=spark).rows == 0


def test_load_survives_broker_restart(local_cluster, spark, tmp_path):
    with local_cluster(2) as running:
        topic = running.create_topic(partitions=4)
        publish_lines(running, topic, range(2000), codec="snappy")
        broker = running.broker(2)
        killed = threading.Event()

        def kill_once(progress: Progress) -> None:
            if progress.stage == "load" and not killed.is_set():
                killed.set()
                broker.kill()
                restart.start()

        restart = threading.Thread(target=broker.start)
        loaded = Loader(
            zookeeper=running.zookeeper,
            topics=[topic],
            output=str(tmp_path / "lake"),
            progress=kill_once,
        ).run(spark=spark)
        assert killed.is_set()
        restart.join()
        assert loaded.rows == 2000
        verified(tmp_path / "lake")


@pytest.mark.parametrize("part", ["body", pytest.param("size", marks=pytest.mark.soak)])
def test_damaged_partition_does_not_block_other_partitions(cluster, tmp_path, part):
    topic = cluster.create_topic(partitions=3)
    for first in range(0, 600, 60):
        publish_lines(cluster, topic, range(first, first + 60), codec="snappy")
    logs = [log for broker in cluster.brokers for log in broker.directory.rglob(f"{topic}-1/*.log")]
    data = bytearray(logs[0].read_bytes())
    entry = list(iter_entries(bytes(data)))[2]
    if part == "body":
        data[entry.position + entry.size - 5] ^= 0x55
    else:
        data[entry.position + 9] = 1
    logs[0].write_bytes(bytes(data))

    def load(**more):
        where = {"zookeeper": cluster.zookeeper, "topics": [topic], "output": str(tmp_path)}
        return Loader(**where, **more).run(InlineSpark())

    start, until = entry.base_offset, entry.last_offset + 1
    with pytest.raises(DamagedLog, match=rf"{topic}-1 \[{start}, .*damaged") as failed:
        load()
    assert "All else was loaded" in str(failed.value)
    assert loaded_offsets(tmp_path).keys() == {(topic, 0), (topic, 2)}
    kept = load(keep_damaged=True)
    assert kept.quarantined > 0
    offsets = loaded_offsets(tmp_path)[topic, 1]
    assert not set(offsets) & set(range(start, until))
    assert offsets[:start] == [*range(start)]
    verified(tmp_path)
    assert load().rows == 0


def test_concurrent_loads_of_two_topics_both_count(cluster, spark, tmp_path):
    topics = [cluster.create_topic(partitions=2) for _ in range(2)]
    rounds = 2
    ready = threading.Barrier(2)
    loaded: dict[str, list[int]] = {topic: [] for topic in topics}

    def load_often(topic: str) -> None:
        for number in range(rounds):
            publish_lines(cluster, topic, range(number * 100, number * 100 + 100))
            ready.wait(120)
            loader = Loader(
                zookeeper=cluster.zookeeper,
                topics=[topic],
                output=str(tmp_path),
                group="side-by-side",
                event_time=EventTime.access_log(),
            )
            loaded[topic].append(loader.run(spark).rows)

    threads = [threading.Thread(target=load_often, args=(topic,)) for topic in topics]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert list(loaded.values()) == [[100] * rounds] * 2
    report = verified(tmp_path)
    assert (report.commits, report.rows) == (2 * rounds, 2 * rounds * 100)
    for found in loaded_offsets(tmp_path).values():
        assert found == [*range(len(found))]
    with ZkSession(cluster.zookeeper) as zookeeper:
        committed = [
            read_offset(zookeeper, "side-by-side", topic, partition)[0]
            for topic in topics
            for partition in range(2)
        ]
    assert sum(committed) == 2 * rounds * 100
