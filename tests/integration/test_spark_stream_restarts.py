"""A streaming query that is killed and started again: exactly once into Parquet."""

import pytest

from spark_loader import register
from tests.support.clusters import module_cluster
from tests.support.spark_queries import RESTARTS, run_query

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

COPY = 'query = records.writeStream.format("parquet").option("path", place + "/copy")'


@pytest.mark.soak
def test_killed_stream_copies_each_record_once(spark, cluster, tmp_path):
    topic = cluster.create_topic(partitions=3)
    register(spark)
    published = 0
    for restart in range(RESTARTS):
        frame = spark.range(published, published + 600).selectExpr("concat('v', id) value")
        writer = frame.write.format("zkbroker").option("topic", topic)
        writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers).mode("append").save()
        published += 600
        run_query(COPY, cluster.bootstrap_servers, [topic], tmp_path, kill=str(0.05 * restart))
    run_query(COPY, cluster.bootstrap_servers, [topic], tmp_path, kill="no")
    copied = spark.read.parquet(str(tmp_path / "copy"))
    values = sorted(bytes(row.value) for row in copied.collect())
    assert values == sorted(b"v%d" % n for n in range(published))
    offsets = copied.select("partition", "offset")
    assert offsets.distinct().count() == offsets.count() == published


cluster = module_cluster(1)
