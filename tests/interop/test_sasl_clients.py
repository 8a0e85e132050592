"""Clients of every library log in by every mechanism that they know, and are refused alike."""

from collections.abc import Iterator

import pytest

from tests.interop.secured import LIBRARIES, Secured, missing, round_trip
from tests.support.sasl_cluster import (
    LISTENER,
    MECHANISMS,
    PASSWORD,
    TOKEN,
    USER,
    broker_properties,
)
from zkbroker.registry.scram_users import write_credentials
from zkbroker.security.sasl.scram import HASHES, make_credential
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

TOPIC = "t"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    properties = broker_properties() | {"offsets.topic.num.partitions": "2"}
    with LocalCluster(brokers=1, properties=properties) as running:
        with ZkSession(running.zookeeper) as session:
            made = {name: make_credential(HASHES[name], PASSWORD, 8192) for name in HASHES}
            write_credentials(session, USER, made)
        running.create_topic(TOPIC)
        yield running
        log = running.brokers[0].log_path.read_text()
        assert "Traceback" not in log, log[log.index("Traceback") - 2000 :]
        assert PASSWORD not in log


def job(cluster: LocalCluster, mechanism: str, password: str = PASSWORD) -> Secured:
    return Secured(
        bootstrap=cluster.bootstrap(LISTENER),
        topic=TOPIC,
        protocol="SASL_PLAINTEXT",
        mechanism=mechanism,
        user=USER,
        password=password,
        token=TOKEN if mechanism == "OAUTHBEARER" else "",
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_logs_in(cluster: LocalCluster, library: str, mechanism: str) -> None:
    reason = missing(library)
    if reason is not None:
        pytest.skip(reason)
    round_trip(library, job(cluster, mechanism))


@pytest.mark.parametrize("library", ["confluent", "kafkajs", "java"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told_by_the_client(
    cluster: LocalCluster, library: str, mechanism: str
) -> None:
    reason = missing(library)
    if reason is not None:
        pytest.skip(reason)
    with pytest.raises(AssertionError, match=r"(?i)authentication"):
        round_trip(library, job(cluster, mechanism, "wrong"))
