"""The path of a node decides its rights."""

import pytest

from zkbroker.registry import paths
from zkbroker.zookeeper.acls import (
    ALL,
    OPEN,
    OPEN_PATHS,
    PRIVATE,
    READ,
    READABLE,
    SECRET_PATHS,
    Grant,
    acl_for,
    acl_of,
    kazoo_acl,
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", READABLE),
        ("/brokers/ids/1", READABLE),
        ("/config", READABLE),
        ("/config/topics/t", READABLE),
        ("/config/usersfoo", READABLE),
        ("/kafka-acl/Topic/t", READABLE),
        ("/config/users", PRIVATE),
        ("/config/users/alice", PRIVATE),
        ("/config/brokers/<default>", PRIVATE),
        ("/delegation_token", READABLE),
        ("/delegation_token/tokens/x", PRIVATE),
        ("/consumers", OPEN),
        ("/consumers/g/ids/c", OPEN),
        ("/consumersfoo", READABLE),
    ],
)
def test_path_decides_acl(path, expected):
    assert acl_for(path) == expected


def test_protected_paths_are_those_of_registry():
    assert paths.USER_CONFIGS in SECRET_PATHS
    assert paths.BROKER_CONFIGS in SECRET_PATHS
    assert OPEN_PATHS == (paths.CONSUMERS,)


def test_grants_round_trip_through_kazoo():
    acl = frozenset({Grant("sasl", "kafka", ALL), Grant("world", "anyone", READ)})
    assert acl_of(kazoo_acl(acl)) == acl
