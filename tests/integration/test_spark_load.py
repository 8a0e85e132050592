"""The bulk load on real brokers and a real Spark."""

import pytest

from spark_loader import EventTime, Loader, LoadOptions, Progress, read
from spark_loader.files import LocalFileSystem
from spark_loader.verify import verify
from tests.support.loaded import loaded_offsets
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry import ZkSession
from zkbroker.registry.groups import read_offset
from zkbroker.testing import LocalCluster

# A busy machine takes a minute to start the first session.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(2) as running:
        yield running


def line(number: int) -> bytes:
    hour = number % 5
    return b'10.0.0.%d - - [17/May/2015:%02d:05:03 +0000] "GET /%d HTTP/1.1" 200 17 "-" "agent"' % (
        number % 7,
        hour,
        number,
    )


def publish(cluster, topic, numbers, codec="none"):
    config = ProducerConfig.from_properties(
        {"zookeeper.connect": cluster.zookeeper, "compression.codec": codec}
    )
    with Producer(config) as producer:
        producer.send([KeyedMessage(topic, line(n), key=b"10.0.0.%d" % (n % 7)) for n in numbers])


def test_a_topic_is_loaded_by_event_hour_and_a_rerun_loads_only_what_is_new(
    cluster, spark, tmp_path
):
    topic = cluster.create_topic(partitions=4)
    publish(cluster, topic, range(1000), codec="snappy")
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

    publish(cluster, topic, range(1000, 1100))
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
    assert verify(LocalFileSystem(), str(tmp_path)).problems == []
    offsets = loaded_offsets(tmp_path)
    assert all(each == list(range(len(each))) for each in offsets.values())
    with ZkSession(cluster.zookeeper) as session:
        for (_, partition), each in offsets.items():
            stored = read_offset(session, "lake", topic, partition)
            assert stored is not None
            assert stored[0] == len(each)
