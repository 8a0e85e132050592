"""Clients of 0.7 need the same permissions as all others."""

from types import SimpleNamespace

import pytest

from zkbroker.broker.guard import Permissions
from zkbroker.broker.legacy07.guard import Guard07
from zkbroker.errors import ProtocolError
from zkbroker.security import ANONYMOUS, Operation
from zkbroker.security.audit import AuditLog

SESSION = SimpleNamespace(ip="10.0.0.1")


class AllowedOperations:
    def __init__(self, *allowed):
        self.allowed = set(allowed)

    def allows(self, principal, operation, resource, host):
        assert (principal, host) == (ANONYMOUS, "10.0.0.1")
        return (operation, resource.name) in self.allowed


def guard(*allowed, exists=True):
    permissions = Permissions(AllowedOperations(*allowed), AuditLog(lambda: 0))
    return Guard07(permissions, lambda topic: exists)


def test_each_request_needs_permission_for_its_operation():
    none, read = guard(), guard((Operation.READ, "t"))
    write, describe = guard((Operation.WRITE, "t")), guard((Operation.DESCRIBE, "t"))
    assert read.may(SESSION, Operation.READ, "t")
    assert not read.may(SESSION, Operation.READ, "u")
    write.require_write(SESSION, "t")
    describe.require(SESSION, Operation.DESCRIBE, "t")
    assert not none.may(SESSION, Operation.READ, "t")
    for refused in (none, read):
        with pytest.raises(ProtocolError, match="may not WRITE topic 't'"):
            refused.require_write(SESSION, "t")
    for refused in (none, read, write):
        with pytest.raises(ProtocolError, match="may not DESCRIBE topic 't'"):
            refused.require(SESSION, Operation.DESCRIBE, "t")


def test_produce_to_missing_topic_needs_create_permission():
    write = (Operation.WRITE, "t")
    with pytest.raises(ProtocolError, match="may not CREATE topic 't'"):
        guard(write, exists=False).require_write(SESSION, "t")
    for create in ("t", "kafka-cluster"):
        guard(write, (Operation.CREATE, create), exists=False).require_write(SESSION, "t")


def test_every_request_is_allowed_without_authorizer():
    open_to_all = Guard07(None, lambda topic: False)
    assert open_to_all.may(SESSION, Operation.READ, "t")
    open_to_all.require_write(SESSION, "t")
    open_to_all.require(SESSION, Operation.DESCRIBE, "t")
