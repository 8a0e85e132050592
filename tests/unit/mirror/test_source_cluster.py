"""Committed offsets of a source group."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tests.unit.mirror.test_config import make
from zkbroker.mirror.source_cluster import group_offsets
from zkbroker.protocol import ApiKey

ROOM = "zkbroker.mirror.source_cluster"


@pytest.mark.parametrize(
    ("describes", "in_zookeeper", "expected"),
    [
        (True, {}, {("t", 0): 8}),
        (False, {}, {}),
        (True, {("t", 0): 5}, {("t", 0): 5}),
    ],
)
def test_group_without_zookeeper_offsets_reads_broker_offsets(
    monkeypatch, describes, in_zookeeper, expected
):
    monkeypatch.setattr(f"{ROOM}.ZkSession", lambda connect, security: nullcontext(connect))
    monkeypatch.setattr(
        f"{ROOM}.zk_groups.committed",
        lambda session, name: in_zookeeper if session == "east:2181" else {},
    )
    monkeypatch.setattr(
        f"{ROOM}.coordinator_groups.describe",
        lambda cluster, name: SimpleNamespace(offsets={("t", 0): 8}),
    )
    versions = {ApiKey.DESCRIBE_GROUPS: (0, 0)} if describes else {}
    connection = SimpleNamespace(versions=versions)
    brokers = SimpleNamespace(any_connection=lambda: connection)
    assert group_offsets(make().sources[0], brokers) == expected
