"""The cluster's id, on a ZooKeeper in memory."""

import re

import pytest

from tests.support.instant_session import InstantSession, new_server
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.cluster_id import claim_cluster_id, cluster_id, read_cluster_id


def test_the_id_is_made_once_for_all():
    server = new_server()
    one, two = InstantSession(server), InstantSession(server)
    assert read_cluster_id(one) is None
    made = cluster_id(one)
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", made)
    assert cluster_id(two) == read_cluster_id(one) == made


def test_the_second_broker_takes_the_id_of_the_first():
    server = new_server()
    session, other = InstantSession(server), InstantSession(server)
    create = session.create
    session.create = lambda *given, **options: (cluster_id(other), create(*given, **options))[1]
    assert cluster_id(session) == read_cluster_id(other)


def test_a_given_id_is_claimed_unless_the_cluster_has_another():
    session = InstantSession()
    claim_cluster_id(session, "given")
    claim_cluster_id(session, "given")
    with pytest.raises(
        RegistryError, match=r"holds cluster given, the data is of cluster other.*chroot"
    ):
        claim_cluster_id(session, "other")


def test_a_node_that_holds_something_else_is_named():
    session = InstantSession()
    session.create(paths.CLUSTER_ID, b"[]", parents=True)
    with pytest.raises(RegistryError, match="/cluster/id holds no cluster id"):
        read_cluster_id(session)
