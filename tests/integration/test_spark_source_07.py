"""`format("zkbroker")` on a 0.7 cluster, in Spark itself."""

import json

import pytest

from spark_loader import register
from tests.support.client07 import Broker07, broker_address, entry, gzip_wrapper
from tests.support.cluster07 import cluster07, commits, ends, registry_tree
from tests.support.zookeeper import until

pytestmark = pytest.mark.spark


def write(tree, numbers):
    """Write plain and compressed messages into all partitions, in order within each."""
    for broker in range(2):
        connection = Broker07(*broker_address(tree, broker))
        for number in range(2):
            bodies = [b"%d-%d %03d" % (broker, number, n) for n in numbers]
            half = len(bodies) // 2
            data = b"".join(map(entry, bodies[:half])) + gzip_wrapper(bodies[half:])
            connection.produce("t", number, data)
        connection.offsets("t", 0, -1)
        connection.close()
    until(lambda: all(tree.exists(f"/brokers/topics/t/{n}") for n in range(2)))


def test_batches_and_streams_read_0_7_cluster(spark, chroot, tmp_path):
    register(spark)
    with registry_tree(chroot) as tree, cluster07(tmp_path, chroot, tree):
        write(tree, range(100))
        options = {
            "kafka.generation": "0.7",
            "zookeeper.connect": tree.connect_string,
            "subscribe": "t",
        }
        rows = spark.read.format("zkbroker").options(**options).load().collect()
        everything = sorted(
            b"%d-%d %03d" % (b, p, n) for b in range(2) for p in range(2) for n in range(100)
        )
        assert sorted(bytes(row.value) for row in rows) == everything
        assert {(row.key, row.topic, row.timestampType) for row in rows} == {(None, "t", -1)}
        for row in rows:
            name = bytes(row.value).partition(b" ")[0].decode()
            assert f"{row.partition >> 16}-{row.partition & 0xFFFF}" == name
        end = ends(tree, "t")
        furthest = {}
        for row in rows:
            name = f"{row.partition >> 16}-{row.partition & 0xFFFF}"
            furthest[name] = max(furthest.get(name, 0), row.offset)
        assert furthest == end
        # A read between two positions, with a predicate that Spark evaluates itself.
        half = len(entry(b"0-0 000")) * 50
        starting = json.dumps({"t": {"0-0": half, "0-1": -2, "1-0": -2, "1-1": -2}})
        ending = json.dumps({"t": {"0-0": -1, "0-1": half, "1-0": 100, "1-1": 17}})
        frame = (
            spark.read.format("zkbroker")
            .options(**options, startingOffsets=starting, endingOffsets=ending)
            .load()
        )
        counts = {}
        for row in frame.where("offset > 20").collect():
            name = f"{row.partition >> 16}-{row.partition & 0xFFFF}"
            counts[name] = counts.get(name, 0) + 1
        assert counts == {"0-0": 50, "0-1": 49, "1-0": 4}

        def stream(most):
            query = (
                spark.readStream.format("zkbroker")
                .options(
                    **options,
                    startingOffsets="earliest",
                    maxOffsetsPerTrigger=str(most),
                    **{"kafka.group.id": "shown"},
                )
                .load()
                .selectExpr("value", "topic", "partition", "offset")
                .writeStream.format("parquet")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(tmp_path / "out"))
            )
            assert query.awaitTermination(300)
            return query

        assert len(stream(4000).recentProgress) > 1
        write(tree, range(100, 120))
        stream(1_000_000)
        found = spark.read.parquet(str(tmp_path / "out")).collect()
        more = sorted(
            b"%d-%d %03d" % (b, p, n) for b in range(2) for p in range(2) for n in range(100, 120)
        )
        assert sorted(bytes(row.value) for row in found) == sorted(everything + more)
        # Spark calls `commit` of a batch when the next one begins.
        shown = commits(tree, "shown", "t")
        assert all(0 < at <= ends(tree, "t")[name] for name, at in shown.items())
        assert shown.keys() == ends(tree, "t").keys()
        offsets = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*")).read_text()
        assert '"0-1"' in offsets.replace("\\", "")
