"""The cluster's id is created once and claimed by other brokers."""

import json
import re

import pytest

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.cluster_id import claim_cluster_id, cluster_id, read_cluster_id


def test_cluster_id_is_created_once(session, other):
    assert read_cluster_id(session) is None
    made = cluster_id(session)
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", made)
    assert cluster_id(other) == read_cluster_id(session) == made
    assert json.loads(session.get(paths.CLUSTER_ID)[0]) == {"version": "1", "id": made}


def test_concurrent_broker_takes_existing_cluster_id(session, other):
    create = session.create
    session.create = lambda *given, **options: (cluster_id(other), create(*given, **options))[1]
    assert cluster_id(session) == read_cluster_id(other)


def test_configured_cluster_id_must_match(session):
    claim_cluster_id(session, "given")
    claim_cluster_id(session, "given")
    with pytest.raises(
        RegistryError, match=r"holds cluster given, the data is of cluster other.*chroot"
    ):
        claim_cluster_id(session, "other")


def test_invalid_cluster_id_node_is_named(session):
    session.create(paths.CLUSTER_ID, b"[]", parents=True)
    with pytest.raises(RegistryError, match="/cluster/id holds no cluster id"):
        read_cluster_id(session)
