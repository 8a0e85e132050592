"""Genuine Java producers, consumers and admin clients against a cluster of two brokers.

The checks themselves are the programs of `tests/interop/java`; each prints a line a check.
"""

from collections.abc import Iterator

import pytest

from tests.support import java_clients
from tests.support.clusters import MakeCluster
from zkbroker.producer.partitioners import DefaultPartitioner
from zkbroker.testing import LocalCluster

VERSIONS = java_clients.versions()
pytestmark = pytest.mark.skipif(not VERSIONS, reason=java_clients.REASON)

PROGRAMS = {"ProducerChecks": 22, "ConsumerChecks": 22, "AdminChecks": 28}
"""Each program and how many checks it has, so that none goes missing unseen."""


@pytest.fixture(scope="module")
def cluster(local_cluster: MakeCluster) -> Iterator[LocalCluster]:
    with local_cluster(brokers=2, properties={"offsets.topic.num.partitions": "4"}) as running:
        yield running
        for broker in running.brokers:
            log = broker.log_path.read_text()
            assert "Traceback" not in log, log[log.index("Traceback") - 2000 :]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    "version",
    [pytest.param(v, marks=[] if v == VERSIONS[-1] else [pytest.mark.soak]) for v in VERSIONS],
)
def test_checks(cluster: LocalCluster, version: str, program: str) -> None:
    output = java_clients.run(java_clients.command(program, version, cluster.bootstrap_servers))
    lines = [line.split("\t") for line in output.splitlines()]
    failed = [columns[1:] for columns in lines if columns[0] == "fail"]
    assert failed == []
    assert len([columns for columns in lines if columns[0] == "ok"]) == PROGRAMS[program]
    keys = [columns[1:] for columns in lines if columns[0] == "key"]
    assert bool(keys) == (program == "ProducerChecks")
    ours = DefaultPartitioner()
    for partition, key in keys:
        assert ours.partition(bytes.fromhex(key), 12) == int(partition), key
