"""Super users, and the time before the ACLs are loaded."""

import pytest

from zkbroker.errors import ConfigError
from zkbroker.security import CLUSTER, Operation, Principal, Resource, ResourceType
from zkbroker.security.acls import Acl, Pattern, Permission
from zkbroker.security.simple_authorizer import SimpleAclAuthorizer, parse_super_users

ALICE, ADMIN = Principal("User", "alice"), Principal("User", "CN=admin,O=x")
ORDERS = Resource(ResourceType.TOPIC, "orders")


@pytest.fixture
def authorizer():
    return SimpleAclAuthorizer(parse_super_users("User:root; User:CN=admin,O=x;"))


def reads(authorizer, principal, **given):
    return authorizer.allows(principal, Operation.READ, ORDERS, "10.0.0.1")


@pytest.mark.parametrize("allow_if_none", [False, True])
def test_only_super_users_pass_before_acls_are_loaded(allow_if_none):
    authorizer = SimpleAclAuthorizer(["User:CN=admin,O=x"], allow_if_none=allow_if_none)
    assert not authorizer.ready
    assert not reads(authorizer, ALICE)
    assert not authorizer.allows_some(ALICE, Operation.WRITE, ResourceType.TOPIC, "10.0.0.1")
    assert reads(authorizer, ADMIN)
    authorizer.take_all({})
    assert authorizer.ready
    assert reads(authorizer, ALICE) is allow_if_none


def test_super_users_pass_despite_denials(authorizer):
    denial = Acl("User:*", Permission.DENY, Operation.ALL)
    authorizer.take_all({Pattern(*ORDERS): (denial,), Pattern(*CLUSTER): (denial,)})
    assert reads(authorizer, ADMIN)
    assert authorizer.allows(ADMIN, Operation.CLUSTER_ACTION, CLUSTER, "10.0.0.1")
    assert authorizer.allows_some(ADMIN, Operation.WRITE, ResourceType.TOPIC, "10.0.0.1")
    assert not reads(authorizer, ALICE)


def test_previous_acls_apply_while_new_ones_load(authorizer):
    denied = Acl("User:*", Permission.DENY, Operation.READ)
    allowed = Acl("User:alice", Permission.ALLOW, Operation.READ)
    everything = Pattern(ResourceType.TOPIC, "*")
    authorizer.take_all({everything: (denied, allowed)})

    def paced(patterns):
        for pattern in patterns:
            assert not reads(authorizer, ALICE)
            yield pattern
        assert not reads(authorizer, ALICE)

    authorizer.take_all({everything: (allowed,), Pattern(*ORDERS): (denied,)}, paced)
    assert not reads(authorizer, ALICE)
    authorizer.take_all({everything: (allowed,)}, paced)
    assert reads(authorizer, ALICE)
    authorizer.take(Pattern(*ORDERS), (denied,))
    assert not reads(authorizer, ALICE)


def test_super_users_are_parsed():
    assert parse_super_users("") == frozenset()
    assert parse_super_users("User:a;User:CN=b,O=c") == {"User:a", "User:CN=b,O=c"}
    for bad in ("alice", "User:a;b", "User:"):
        with pytest.raises(ConfigError, match=r"super\.users=.*has no type"):
            parse_super_users(bad)
    with pytest.raises(ConfigError, match=r"not by commas: set super\.users=User:a;User:b$"):
        parse_super_users("User:a,User:b")
