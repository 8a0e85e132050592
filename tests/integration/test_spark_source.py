"""`format("zkbroker")` in Spark itself, on real brokers."""

import pytest

from tests.support.clusters import module_cluster

pytestmark = pytest.mark.spark


cluster = module_cluster(2)


def publish(spark, source, topic, count, first=0):
    frame = spark.range(first, first + count).selectExpr(
        "cast(id % 5 as string) key",
        "concat('value ', id) value",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) headers",
    )
    source(frame.write, topic=topic).mode("append").save()


def test_written_rows_read_back_with_headers_and_predicates(spark, source, cluster):
    topic = cluster.create_topic(partitions=3)
    publish(spark, source, topic, 1000)
    frame = source(spark.read, subscribe=topic, includeHeaders="true", minPartitions="5").load()
    rows = frame.collect()
    assert sorted(bytes(row.value) for row in rows) == sorted(b"value %d" % n for n in range(1000))
    for row in rows:
        number = int(bytes(row.value).split()[1])
        assert (row.topic, bytes(row.key)) == (topic, b"%d" % (number % 5))
        assert [(each.key, bytes(each.value)) for each in row.headers] == [("n", b"%d" % number)]
        assert row.timestampType == 0
    by_key = {bytes(row.key): row.partition for row in rows}
    assert all(by_key[bytes(row.key)] == row.partition for row in rows)
    narrowed = frame.where(f"topic = '{topic}' and partition = {rows[0].partition} and offset < 7")
    assert sorted(row.offset for row in narrowed.collect()) == [*range(7)]
    assert frame.where("topic = 'another'").count() == 0
    assert frame.where("timestamp >= now()").count() == 0


def test_source_rows_can_be_written_unchanged(spark, source, cluster):
    first, second = cluster.create_topic(partitions=2), cluster.create_topic(partitions=2)
    publish(spark, source, first, 20)
    rows = source(spark.read, subscribe=first, includeHeaders="true").load()
    source(rows.write, topic=second).mode("append").save()
    wanted = ["key", "value", "partition", "headers"]
    copies = source(spark.read, subscribe=second, includeHeaders="true").load()
    assert sorted(map(str, copies.select(wanted).collect())) == sorted(
        map(str, rows.select(wanted).collect())
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"subscibe": "t"}, "there is no option subscibe: did you mean subscribe"),
        ({"subscribe": "no-such-topic"}, "no-such-topic"),
    ],
)
def test_invalid_read_option_is_named_in_spark_error(spark, source, more, message):
    with pytest.raises(Exception, match=message):
        source(spark.read, **more).load().count()


@pytest.mark.parametrize(
    ("columns", "mode", "message"),
    [
        (["id"], "append", "column named value"),
        (["cast(id as string) value", "'t' topic"], "overwrite", "overwritten"),
    ],
)
def test_invalid_frame_or_mode_is_refused(spark, source, columns, mode, message):
    with pytest.raises(Exception, match=message):
        source(spark.range(1).selectExpr(*columns).write).mode(mode).save()


def test_restarted_stream_copies_each_record_once(spark, source, cluster, tmp_path):
    topic = cluster.create_topic(partitions=2)
    for restart in range(2):
        publish(spark, source, topic, 100, first=100 * restart)
        query = (
            source(
                spark.readStream,
                subscribe=topic,
                startingOffsets="earliest",
                maxOffsetsPerTrigger="60",
            )
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "copy"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        ends = query.lastProgress["sources"][0]["latestOffset"]
        assert ends is not None
    copied = [bytes(row.value) for row in spark.read.parquet(str(tmp_path / "copy")).collect()]
    assert sorted(copied) == sorted(b"value %d" % n for n in range(200))


def test_stream_writes_to_topic(spark, source, cluster, tmp_path):
    first, second = cluster.create_topic(partitions=2), cluster.create_topic()
    publish(spark, source, first, 200)
    query = (
        source(spark.readStream, subscribe=first, startingOffsets="earliest")
        .load()
        .selectExpr("key", "value", f"'{second}' topic", "0 partition")
        .writeStream.format("zkbroker")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    copied = [bytes(row.value) for row in source(spark.read, subscribe=second).load().collect()]
    assert sorted(copied) == sorted(b"value %d" % n for n in range(200))
