"""Spark's source, sink and loads over TLS, with certificates of the clients."""

from collections.abc import Iterator

import pytest

from tests.support.clusters import MakeCluster
from tests.support.security_ways import PROPERTIES, Credentials, Way
from tests.support.spark_records import check_round_trip
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
    servers, client = cluster.bootstrap("CERTIFIED"), credentials.java(CERTIFIED)
    lake = tmp_path / "lake"
    check_round_trip(spark, topic, lake, servers, client, zookeeper=cluster.zookeeper)
