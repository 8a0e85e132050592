"""Loads into a genuine HDFS, by the Hadoop client that comes with Spark."""

import pytest

from spark_loader import Loader, ValueColumns, read
from spark_loader.storage.hadoop import HadoopFileSystem
from tests.support import hdfs
from tests.support.clusters import module_cluster
from tests.support.lake_files import check_lock, check_missing, check_publish, check_rename
from tests.support.loading import verified
from tests.support.spark_records import publish

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(hdfs.missing(), reason=hdfs.REASON),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    with hdfs.running_hdfs(tmp_path_factory.mktemp("hdfs")) as uri:
        yield uri


cluster = module_cluster()


def test_load_into_hdfs_is_exact_and_verified(cluster, spark, root):
    topic = cluster.create_topic(partitions=3)
    output = f"{root}/lakes/visits"
    loader = Loader(
        zookeeper=cluster.zookeeper,
        topics=[topic],
        output=output,
        columns=ValueColumns.json("n:long"),
    )
    for run in range(2):
        publish(cluster, topic, [b'{"n": %d}' % n for n in range(run * 100, run * 100 + 100)])
        assert loader.run(spark).rows == 100
    assert loader.run(spark).rows == 0
    assert verified(output, HadoopFileSystem(root)).rows == 200
    assert sorted(row.n for row in read(spark, output).select("n").collect()) == [*range(200)]


@pytest.mark.parametrize("check", [check_publish, check_rename, check_missing, check_lock])
def test_file_operations_are_atomic_or_repeatable(root, check):
    check(HadoopFileSystem(root), f"{root}/{check.__name__}")
