"""A streaming query that is killed and started again: exactly once into Parquet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_loader import register
from zkbroker.testing import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
RESTARTS = int(os.environ.get("ZKBROKER_RESTARTS", "10"))

QUERY = """
import os, signal, sys, time
from spark_loader import register, session

bootstrap, topic, place, kill = sys.argv[1:]
spark = session("local[2]")
register(spark)
query = (
    spark.readStream.format("zkbroker")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 150)
    .load()
    .writeStream.format("parquet")
    .option("path", place + "/copy")
    .option("checkpointLocation", place + "/checkpoint")
)

if kill == "no":
    query.trigger(availableNow=True).start().awaitTermination()
else:
    query = query.start()
    while query.lastProgress is None:
        time.sleep(0.02)
    # Anywhere in a later batch: planned, half written or committed.
    time.sleep(float(kill))
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.soak
def test_a_stream_killed_and_restarted_ten_times_copies_each_record_once(spark, cluster, tmp_path):
    topic = cluster.create_topic(partitions=3)
    register(spark)
    published = 0
    for restart in range(RESTARTS):
        frame = spark.range(published, published + 600).selectExpr("concat('v', id) value")
        writer = frame.write.format("zkbroker").option("topic", topic)
        writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers).mode("append").save()
        published += 600
        run_query(cluster, topic, tmp_path, kill=str(0.05 * restart))
    run_query(cluster, topic, tmp_path, kill="no")
    copied = spark.read.parquet(str(tmp_path / "copy"))
    values = sorted(bytes(row.value) for row in copied.collect())
    assert values == sorted(b"v%d" % n for n in range(published))
    offsets = copied.select("partition", "offset")
    assert offsets.distinct().count() == offsets.count() == published


def run_query(cluster, topic, place, kill):
    finished = subprocess.run(
        [sys.executable, "-c", QUERY, cluster.bootstrap_servers, topic, str(place), kill],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=900,
        check=False,
    )
    assert finished.returncode == (0 if kill == "no" else -9)


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(1) as running:
        yield running
