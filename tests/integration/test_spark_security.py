"""Spark's source, sink and loads over TLS: with a login, and with a certificate of the client."""

import pytest

from tests.support.certificates import Authority
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
from zkbroker.zookeeper import ZkSession

pytestmark = pytest.mark.spark

AUTHORITY = Authority()
CERTIFIED = "CERTIFIED"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return AUTHORITY.trusted(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def cluster(local_cluster, authority, tmp_path_factory):
    keystore = AUTHORITY.issue("broker").pem(tmp_path_factory.mktemp("keys"))
    properties = secured_properties(keystore, authority)
    properties["listeners"] += f",{CERTIFIED}://127.0.0.1:0"
    properties["listener.security.protocol.map"] += f",{CERTIFIED}:SSL"
    properties["listener.name.certified.ssl.client.auth"] = "required"
    with local_cluster(1, properties=properties) as running:
        with ZkSession(running.zookeeper) as session:
            made = {SHA_512.mechanism: make_credential(SHA_512, PASSWORD)}
            write_credentials(session, USER, made)
        yield running


def test_sink_source_and_load_work_over_sasl_ssl(spark, source, cluster, authority, tmp_path):
    topic = cluster.create_topic(partitions=2)
    client = {
        **client_properties("SCRAM-SHA-512"),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": authority,
    }
    servers = cluster.bootstrap(SECURE)
    check_round_trip(spark, topic, tmp_path / "lake", servers, client, bootstrap=servers)


def test_sink_source_and_load_work_over_tls(spark, source, cluster, authority, tmp_path):
    topic = cluster.create_topic(partitions=2)
    client = {
        "security.protocol": "SSL",
        "ssl.truststore.location": authority,
        "ssl.keystore.location": AUTHORITY.issue("CN=alice,O=test", hosts=()).pem(tmp_path),
    }
    servers, zookeeper = cluster.bootstrap(CERTIFIED), cluster.zookeeper
    check_round_trip(spark, topic, tmp_path / "lake", servers, client, zookeeper=zookeeper)
