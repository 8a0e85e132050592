"""Clients of every library log in by every mechanism that they know, plain and over TLS.

Brokers log in to each other over TLS: what is written is replicated before it is read. Ways without
a login stand in `test_security_matrix`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.secured import LIBRARIES, Secured, missing, round_trips
from tests.support.certificates import Authority
from tests.support.clusters import MakeCluster
from tests.support.sasl_cluster import (
    LISTENER,
    MECHANISMS,
    PASSWORD,
    SECURE,
    TOKEN,
    USER,
    secured_properties,
)
from zkbroker.registry.scram_users import write_credentials
from zkbroker.security.sasl.scram import HASHES, make_credential
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

TOPIC = "t"
AUTHORITY = Authority()
LISTENERS = {"SASL_PLAINTEXT": LISTENER, "SASL_SSL": SECURE}
OFTEN = "SCRAM-SHA-512"


OVER_TLS = [("SASL_SSL", mechanism) for mechanism in MECHANISMS]
WAYS = [*(("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS), ("SASL_SSL", OFTEN)]
RARE = [way for way in OVER_TLS if way not in WAYS]
"""Those of the soak run."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def cluster(local_cluster: MakeCluster, directory: Path) -> Iterator[LocalCluster]:
    properties = {
        **secured_properties(
            AUTHORITY.issue("broker").pem(directory), AUTHORITY.trusted(directory)
        ),
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "2",
        "min.insync.replicas": "2",
        # Each group has one member.
        "group.initial.rebalance.delay.ms": "300",
    }
    with local_cluster(brokers=2, properties=properties) as running:
        with ZkSession(running.zookeeper) as session:
            made = {name: make_credential(HASHES[name], PASSWORD, 8192) for name in HASHES}
            write_credentials(session, USER, made)
        running.create_topic(TOPIC, replication=2)
        yield running
        for broker in running.brokers:
            log = broker.log_path.read_text()
            assert "Traceback" not in log, log[log.index("Traceback") - 2000 :]
            assert PASSWORD not in log


def job(
    cluster: LocalCluster,
    directory: Path,
    protocol: str,
    mechanism: str,
    password: str = PASSWORD,
) -> Secured:
    return Secured(
        bootstrap=cluster.bootstrap(LISTENERS[protocol]),
        topic=TOPIC,
        protocol=protocol,
        mechanism=mechanism,
        user=USER,
        password=password,
        token=TOKEN if mechanism == "OAUTHBEARER" else "",
        ca=AUTHORITY.trusted(directory) if protocol == "SASL_SSL" else "",
    )


@pytest.mark.parametrize(
    "ways", [WAYS, pytest.param(RARE, marks=pytest.mark.soak)], ids=["often", "rare"]
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_client_produces_and_consumes_after_login(
    cluster: LocalCluster, directory: Path, library: str, ways: list[tuple[str, str]]
) -> None:
    reason = missing(library)
    if reason is not None:
        pytest.skip(reason)
    round_trips(library, [job(cluster, directory, *way) for way in ways])


@pytest.mark.parametrize("library", ["confluent", "kafkajs", "java"])
@pytest.mark.parametrize(
    ("protocol", "mechanism"), [("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", OFTEN)]
)
def test_client_reports_wrong_password(
    cluster: LocalCluster, directory: Path, library: str, protocol: str, mechanism: str
) -> None:
    reason = missing(library)
    if reason is not None:
        pytest.skip(reason)
    with pytest.raises(AssertionError, match=r"(?i)authentication"):
        round_trips(library, [job(cluster, directory, protocol, mechanism, "wrong")])
