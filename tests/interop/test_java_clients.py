"""Genuine Java producers, consumers and admin clients against a cluster of two brokers.

The checks themselves are the programs of `tests/interop/java`; each prints a line a check.
"""

import pytest

from tests.support import java_clients
from tests.support.clusters import module_cluster
from zkbroker.producer.partitioners import DefaultPartitioner
from zkbroker.testing import LocalCluster

pytestmark = pytest.mark.skipif(not java_clients.versions(), reason=java_clients.REASON)

PROGRAMS = {"ProducerChecks": 22, "ConsumerChecks": 22, "AdminChecks": 28}
"""Each program and how many checks it has, so that none goes missing unseen."""


cluster = module_cluster(2, check_logs=True, properties={"offsets.topic.num.partitions": "4"})


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("version", java_clients.version_parameters())
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
