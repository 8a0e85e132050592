"""Spark's source, sink and loads with a login over TLS."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.clusters import MakeCluster
from tests.support.sasl_cluster import (
    PASSWORD,
    SECURE,
    USER,
    client_properties,
    secured_properties,
)
from tests.support.spark_records import check_round_trip
from zkbroker.registry.scram_users import write_credentials
from zkbroker.security.sasl.scram import SHA_512, make_credential
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

pytestmark = pytest.mark.spark

AUTHORITY = Authority()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> str:
    return AUTHORITY.trusted(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def cluster(
    local_cluster: MakeCluster, authority: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    keystore = AUTHORITY.issue("broker").pem(tmp_path_factory.mktemp("keys"))
    with local_cluster(1, properties=secured_properties(keystore, authority)) as running:
        with ZkSession(running.zookeeper) as session:
            made = {SHA_512.mechanism: make_credential(SHA_512, PASSWORD)}
            write_credentials(session, USER, made)
        yield running


def test_sink_source_and_load_work_over_sasl_ssl(
    spark, source, cluster: LocalCluster, authority: str, tmp_path: Path
) -> None:
    topic = cluster.create_topic(partitions=2)
    own = {
        **client_properties("SCRAM-SHA-512"),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": authority,
    }
    servers = cluster.bootstrap(SECURE)
    check_round_trip(spark, topic, tmp_path / "lake", servers, own, bootstrap=servers)
