"""Loads into a genuine HDFS, by the Hadoop client that comes with Spark."""

import pytest

from spark_loader import Loader, ValueColumns, read
from spark_loader.lake.verify import verify
from spark_loader.storage.files import LockedError
from spark_loader.storage.hadoop import HadoopFileSystem
from tests.support import hdfs
from tests.support.clusters import module_cluster
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(hdfs.missing(), reason=hdfs.REASON),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    with hdfs.running_hdfs(tmp_path_factory.mktemp("hdfs")) as uri:
        yield uri


cluster = module_cluster()


def publish(cluster, topic, numbers):
    config = ProducerConfig.from_properties({"zookeeper.connect": cluster.zookeeper})
    with Producer(config) as producer:
        producer.send([KeyedMessage(topic, b'{"n": %d}' % n) for n in numbers])


def test_load_into_hdfs_is_exact_and_verified(cluster, spark, root):
    topic = cluster.create_topic(partitions=3)
    output = f"{root}/lakes/visits"
    loader = Loader(
        zookeeper=cluster.zookeeper,
        topics=[topic],
        output=output,
        columns=ValueColumns.json("n:long"),
    )
    for run in range(3):
        publish(cluster, topic, range(run * 100, run * 100 + 100))
        assert loader.run(spark).rows == 100
    assert loader.run(spark).rows == 0
    report = verify(HadoopFileSystem(root), output)
    assert (report.problems, report.rows) == ([], 300)
    assert sorted(row.n for row in read(spark, output).select("n").collect()) == [*range(300)]


def test_hdfs_publish_and_lock_have_one_winner(root):
    files = HadoopFileSystem(root)
    path = f"{root}/state/one.json"
    assert files.publish(path, b"first")
    assert not files.publish(path, b"second")
    files.replace(path, b"third")
    assert (files.read(path), files.size(path)) == (b"third", 5)
    for _ in range(2):
        files.rename(path, f"{root}/state/two.json")
    assert files.names(f"{root}/state") == ["two.json"]
    with (
        files.lock(f"{root}/lock", "the first"),
        pytest.raises(LockedError, match="held by the first"),
        files.lock(f"{root}/lock", "the second"),
    ):
        pass
