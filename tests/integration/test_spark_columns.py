"""Typed columns and buckets, on real brokers, a real Spark and a server of S3's protocol."""

from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable

from spark_loader import EventTime, Loader, ValueColumns, files, read
from spark_loader.storage.s3 import S3FileSystem
from tests.support.clusters import module_cluster
from tests.support.loading import verified
from tests.support.s3_server import running_s3
from tests.support.spark_records import publish

pytestmark = pytest.mark.spark


cluster = module_cluster()


def line(number: int) -> bytes:
    return b'10.0.0.%d - - [17/May/2015:%02d:05:03 +0200] "GET /%d HTTP/1.1" %d %b "-" "agent"' % (
        number % 7,
        number % 5 + 2,
        number,
        404 if number % 10 == 0 else 200,
        b"-" if number % 4 == 0 else b"%d" % number,
    )


def test_access_log_lines_load_into_typed_columns(cluster, spark, tmp_path):
    topic = cluster.create_topic(partitions=3)
    publish(cluster, topic, [*map(line, range(1000)), b"no line of a log", b"\xff\xfe"])
    where = {"zookeeper": cluster.zookeeper, "topics": [topic], "output": str(tmp_path)}
    loader = Loader(**where, columns=ValueColumns.access_log(), event_time=EventTime.column("time"))
    result = loader.run(spark)
    assert (result.rows, result.quarantined) == (1000, 2)
    frame = read(spark, str(tmp_path))
    types = dict(frame.dtypes)
    assert [types[name] for name in ("host", "time", "status", "bytes", "agent")] == [
        "string", "timestamp", "int", "bigint", "string",
    ]  # fmt: skip
    [row] = frame.where("path = '/7'").collect()
    assert (row.host, row.status, row.bytes, row.referer, row.hour) == ("10.0.0.0", 200, 7, None, 2)
    assert frame.where("status = 404").count() == 100
    assert frame.where("bytes is null").count() == 250
    assert frame.selectExpr("sum(bytes)").first()[0] == sum(n for n in range(1000) if n % 4)

    # An added column is null in older files.
    publish(cluster, topic, [line(5000)])
    columns = ValueColumns.regex(r'"(?P<method>\S+) (?P<path>\S+) HTTP/(?P<version>[0-9.]+)"', "")
    assert Loader(**where, columns=columns).run(spark).rows == 1
    frame = read(spark, str(tmp_path))
    assert [row.path for row in frame.where("version = '1.1'").collect()] == ["/5000"]
    table = DeltaTable(tmp_path).to_pyarrow_table(columns=["time", "version", "status"])
    assert (table.num_rows, table.column("version").null_count) == (1001, 1000)
    assert max(table.column("time").drop_null().to_pylist()) == datetime(
        2015, 5, 17, 4, 5, 3, tzinfo=UTC
    )
    verified(tmp_path)


@pytest.fixture(scope="module")
def server():
    with running_s3() as running:
        yield running


def test_load_into_bucket_is_exact_and_verified(cluster, spark, server):
    topic = cluster.create_topic(partitions=3)
    output = f"s3://{server.bucket()}/lakes/visits"
    bucket = S3FileSystem.of(output, server.options)
    where = {"zookeeper": cluster.zookeeper, "topics": [topic], "output": output}
    loader = Loader(
        **where,
        storage=server.options,
        columns=ValueColumns.json("n:long"),
        format="parquet",
    )
    for run in range(2):
        publish(cluster, topic, [b'{"n": %d}' % n for n in range(run * 100, run * 100 + 100)])
        assert loader.run(spark).rows == 100
    assert loader.run(spark).rows == 0
    assert verified(output, bucket).rows == 200
    options = {**server.options, "AWS_ALLOW_HTTP": "true"}
    table = DeltaTable(output, storage_options=options).to_pyarrow_table(columns=["n"])
    assert sorted(table.column("n").to_pylist()) == [*range(200)]
    named = files(output, storage=server.options)
    assert {each.path for each in bucket.walk(output)} >= {
        each.removeprefix(f"{output}/") for each in named
    }
    # No staged files of mappers are left.
    left = [each.path for each in bucket.walk(output) if "/staging/" in each.path]
    assert left == []
