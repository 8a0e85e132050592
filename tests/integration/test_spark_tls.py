"""Spark's source, sink and loads over TLS, with certificates of the clients."""

from collections.abc import Iterator

import pytest

from spark_loader import Loader, LoadOptions
from tests.support.clusters import MakeCluster
from tests.support.security_ways import PROPERTIES, Credentials, Way
from zkbroker.config.security import ClientSecurity
from zkbroker.testing import LocalCluster

pytestmark = pytest.mark.spark

CERTIFIED = Way("CERTIFIED", "SSL", certificate=True)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("spark-tls"))


@pytest.fixture(scope="module")
def cluster(local_cluster: MakeCluster, credentials: Credentials) -> Iterator[LocalCluster]:
    properties = {
        "listeners": "CERTIFIED://127.0.0.1:0",
        "ssl.keystore.location": credentials.broker,
        "ssl.truststore.location": credentials.trusted,
        **PROPERTIES,
    }
    with local_cluster(1, properties=properties) as running:
        yield running


def test_sink_source_and_load_work_over_tls(spark, source, cluster, credentials, tmp_path) -> None:
    topic = cluster.create_topic(partitions=2)
    own = credentials.java(CERTIFIED)
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap("CERTIFIED"),
        **{f"kafka.{key}": value for key, value in own.items()},
    }
    frame = spark.range(100).selectExpr("concat('value ', id) value")
    writer = frame.write.format("zkbroker").options(**options, topic=topic)
    writer.mode("append").save()
    reader = spark.read.format("zkbroker").options(**options, subscribe=topic)
    expected = sorted(b"value %d" % number for number in range(100))
    assert sorted(bytes(row.value) for row in reader.load().collect()) == expected
    by_zookeeper = LoadOptions(
        zookeeper=cluster.zookeeper,
        topics=(topic,),
        output=str(tmp_path / "lake"),
        security=ClientSecurity.from_properties(own),
        fallback="load-time",
    )
    assert Loader(by_zookeeper).run(spark).rows == 100
