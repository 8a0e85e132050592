"""ACLs that can be stored."""

import pytest

from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acls import (
    MAX_NAME_CHARS,
    Acl,
    Pattern,
    PatternType,
    Permission,
    check_acl,
    check_pattern,
)

TOPIC = ResourceType.TOPIC


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern(TOPIC, "orders"),
        Pattern(TOPIC, "*"),
        Pattern(TOPIC, "100%"),
        Pattern(ResourceType.GROUP, "grün und blau"),
        Pattern(TOPIC, "...", PatternType.PREFIXED),
        Pattern(ResourceType.CLUSTER, "kafka-cluster"),
    ],
)
def test_valid_patterns_are_accepted(pattern):
    check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (Pattern(TOPIC, ""), "Invalid empty resource name"),
        (Pattern(ResourceType.CLUSTER, "other"), "only valid name for the CLUSTER resource"),
        (Pattern(TOPIC, "a/b"), "'/'"),
        (Pattern(TOPIC, "a\x00b"), r"'\\x00'"),
        (Pattern(TOPIC, "a\nb"), r"'\\n'"),
        (Pattern(TOPIC, "\ud800"), "ZooKeeper"),
        (Pattern(TOPIC, ".."), r"'\.\.'"),
        (Pattern(TOPIC, "a" * (MAX_NAME_CHARS + 1)), "1001 characters"),
    ],
)
def test_invalid_patterns_are_refused(pattern, message):
    with pytest.raises(ProtocolError, match=message) as caught:
        check_pattern(pattern)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("principal", ["alice", ":alice", "User:", "", "User:" + "a" * 5000])
def test_invalid_principals_are_refused(principal):
    with pytest.raises(ProtocolError):
        check_acl(Acl(principal, Permission.ALLOW, Operation.READ))


def test_invalid_hosts_are_refused():
    check_acl(Acl("User:CN=a,O=b", Permission.ALLOW, Operation.READ))
    for host in ("", "a" * 300):
        with pytest.raises(ProtocolError, match="host"):
            check_acl(Acl("User:a", Permission.ALLOW, Operation.READ, host))
