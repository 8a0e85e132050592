"""Spark and transactions: aborted records are left out; streams write exactly once."""

import pytest
from pyspark.errors import StreamingQueryException

from spark_loader import Loader
from spark_loader.lake.audit import audit
from spark_loader.lake.checkpoint import Checkpoints
from tests.support.clusters import module_cluster
from tests.support.loading import LOCAL, verified
from tests.support.spark_queries import RESTARTS, run_query
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]


cluster = module_cluster(1)


def producer(cluster, transactional_id):
    properties = {
        "metadata.broker.list": cluster.bootstrap_servers,
        "transactional.id": transactional_id,
        # A transaction stays open while Spark reads; that takes a busy machine more than a minute.
        "transaction.timeout.ms": "600000",
    }
    return Producer(ProducerConfig.from_properties(properties))


def send(to, topic, values):
    to.send([KeyedMessage(topic, value=value, partition=0) for value in values])
    to.flush()


def values(frame):
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def test_aborted_records_are_skipped_and_open_ones_wait(spark, source, cluster, tmp_path):
    topic = cluster.create_topic()
    with producer(cluster, f"{topic}-a") as first, producer(cluster, f"{topic}-b") as second:
        first.begin()
        send(first, topic, [b"kept 0", b"kept 1"])
        second.begin()
        send(second, topic, [b"aborted 0", b"aborted 1", b"aborted 2"])
        first.commit()
        second.abort()
        second.begin()
        send(second, topic, [b"open 0"])
        first.begin()
        send(first, topic, [b"kept 2"])
        first.commit()
        committed = [b"kept 0", b"kept 1"]
        everything = [b"aborted 0", b"aborted 1", b"aborted 2", *committed, b"kept 2", b"open 0"]
        level = {"kafka.isolation.level": "read_committed"}
        assert values(source(spark.read, subscribe=topic, **level).load()) == committed
        assert values(source(spark.read, subscribe=topic).load()) == everything
        strict, loose = (
            Loader(
                bootstrap=cluster.bootstrap_servers,
                topics=[topic],
                output=str(tmp_path / name),
                fallback="timestamp",
                isolation_level=name,
            )
            for name in ("read_committed", "read_uncommitted")
        )
        loaded = strict.run(spark)
        # Two markers and the aborted messages before the one that is open.
        assert (loaded.rows, [each.until for each in loaded.ranges]) == (2, [7])
        assert loose.run(spark).rows == 7
        second.commit()
    assert strict.run(spark).rows == 2
    assert loose.run(spark).rows == 0
    for name, aborted, rows in (("read_committed", 3, 4), ("read_uncommitted", 0, 7)):
        output = str(tmp_path / name)
        report = verified(output)
        assert (report.rows, report.aborted_offsets, report.gap_offsets) == (rows, aborted, 0)
        [books] = audit(Checkpoints(LOCAL, output))
        assert (books.difference, books.pending, books.aborted) == (0, 0, aborted)
    assert values(source(spark.read, subscribe=topic, **level).load()) == [
        *committed,
        b"kept 2",
        b"open 0",
    ]


def copying(spark, source, cluster, topics, place, **more):
    return (
        source(spark.readStream, subscribe=topics[0], startingOffsets="earliest", **more)
        .load()
        .selectExpr("key", "value", f"'{topics[1]}' topic")
        .writeStream.format("zkbroker")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("transactionalIdPrefix", f"copy-{topics[1]}")
        .option("checkpointLocation", str(place / "checkpoint"))
    )


def test_repeated_micro_batch_writes_no_duplicates(spark, source, cluster, tmp_path):
    topics = cluster.create_topic(partitions=3), cluster.create_topic(partitions=2)

    def run(**more):
        query = copying(spark, source, cluster, topics, tmp_path, **more)
        query.trigger(availableNow=True).start().awaitTermination()

    frame = spark.range(200).selectExpr("cast(id as string) key", "concat('v', id) value")
    source(frame.write, topic=topics[0]).mode("append").save()
    run(maxOffsetsPerTrigger="90")
    commits = tmp_path / "checkpoint" / "commits"
    done = sorted(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
    assert len(done) > 1
    # As if the driver was killed after its tasks had committed, before its own commit.
    (commits / str(done[-1])).unlink()
    (commits / f".{done[-1]}.crc").unlink(missing_ok=True)
    frame = spark.range(200, 230).selectExpr("cast(id as string) key", "concat('v', id) value")
    source(frame.write, topic=topics[0]).mode("append").save()
    run(maxOffsetsPerTrigger="90")
    for level in ("read_committed", "read_uncommitted"):
        copied = source(spark.read, subscribe=topics[1], **{"isolation.level": level}).load()
        assert values(copied) == sorted(b"v%d" % n for n in range(230))


def test_committed_tasks_of_failed_micro_batch_write_no_duplicates(
    spark, source, cluster, tmp_path
):
    topics = cluster.create_topic(partitions=3), cluster.create_topic(partitions=2)
    frame = spark.range(90).selectExpr("cast(id % 3 as int) partition", "concat('v', id) value")
    source(frame.write, topic=topics[0]).mode("append").save()
    # In the middle of the rows of one task.
    failing = "if(value = cast('v46' as binary), cast(raise_error('told to') as binary), value)"

    def run(value):
        rows = source(spark.readStream, subscribe=topics[0], startingOffsets="earliest").load()
        return (
            rows.selectExpr(f"{value} value", f"'{topics[1]}' topic")
            .writeStream.format("zkbroker")
            .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
            .option("transactionalIdPrefix", f"copy-{topics[1]}")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    def copied():
        level = {"isolation.level": "read_committed"}
        return values(source(spark.read, subscribe=topics[1], **level).load())

    records = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    try:
        with pytest.raises(StreamingQueryException, match="told to"):
            run(failing).awaitTermination()
        # Each task committed all of its rows or none; the failed one had sent some of its rows.
        there = set(copied())
        tasks = [{b"v%d" % n for n in range(90) if n % 3 == task} for task in range(3)]
        assert all(there >= each or not there & each for each in tasks)
        assert not there & tasks[1]
        run("value").awaitTermination()
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", records)
    assert copied() == sorted(b"v%d" % n for n in range(90))


COPY = """
query = (
    records.selectExpr("value", f"'{topics[1]}' topic")
    .writeStream.format("zkbroker")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("transactionalIdPrefix", "copy")
)
"""


@pytest.mark.soak
def test_killed_driver_writes_each_row_once(spark, source, cluster, tmp_path):
    topics = cluster.create_topic(partitions=3), cluster.create_topic(partitions=2)
    for restart in range(RESTARTS):
        frame = spark.range(600 * restart, 600 * (restart + 1)).selectExpr("concat('v', id) value")
        source(frame.write, topic=topics[0]).mode("append").save()
        run_query(COPY, cluster.bootstrap_servers, topics, tmp_path, kill=str(0.07 * restart))
    run_query(COPY, cluster.bootstrap_servers, topics, tmp_path, kill="no")
    level = {"isolation.level": "read_committed"}
    copied = values(source(spark.read, subscribe=topics[1], **level).load())
    assert copied == sorted(b"v%d" % n for n in range(RESTARTS * 600))
