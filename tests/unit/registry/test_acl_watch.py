"""The watch of ACLs reads the patterns that notices name."""

import pytest

from tests.support.zookeeper import until
from zkbroker.registry import notices as module
from zkbroker.registry.acl_watch import AclWatch
from zkbroker.registry.acls import add_acls, encode_acls, node_path, remove_acls
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acl_index import UNREADABLE, AclIndex
from zkbroker.security.acls import Acl, Pattern, PatternType, Permission
from zkbroker.zookeeper import NotPermitted

TOPIC = ResourceType.TOPIC
ORDERS = Pattern(TOPIC, "orders")
TEAM = Pattern(TOPIC, "team-", PatternType.PREFIXED)
ALICE = Acl("User:alice", Permission.ALLOW, Operation.READ)
BOB = Acl("User:bob", Permission.ALLOW, Operation.READ)


@pytest.fixture
def index():
    return AclIndex()


@pytest.fixture
def replaced():
    """Every complete set of ACLs that the watch read."""
    return []


@pytest.fixture
def watch(session, index, replaced):
    def take_all(acls):
        replaced.append(acls)
        index.replace(acls)

    made = AclWatch(session, take_all, index.set)
    yield made
    made.close(5)


def test_start_creates_tree_and_reads_acls(session, other, watch, index):
    add_acls(other, ORDERS, [ALICE])
    watch.start()
    assert index.acls(ORDERS) == (ALICE,)
    assert session.children("/kafka-acl") == [
        *("Cluster", "DelegationToken", "Group", "Topic", "TransactionalId")
    ]
    assert session.children("/kafka-acl-extended/prefixed") == session.children("/kafka-acl")


def test_changed_patterns_are_read_individually(other, watch, index, replaced):
    watch.start()
    for pattern in (ORDERS, TEAM):
        add_acls(other, pattern, [ALICE])
        until(lambda p=pattern: index.acls(p) == (ALICE,))
        add_acls(other, pattern, [BOB])
        until(lambda p=pattern: index.acls(p) == (ALICE, BOB))
        remove_acls(other, pattern, [ALICE, BOB])
        until(lambda p=pattern: index.acls(p) == ())
    assert len(replaced) == 1


def test_all_is_read_after_outage(session, other, watch, index):
    watch.start()
    session.suspend()
    add_acls(other, ORDERS, [ALICE])
    for name in other.children("/kafka-acl-changes"):
        other.delete(f"/kafka-acl-changes/{name}")
    session.reconnect()
    until(lambda: index.acls(ORDERS) == (ALICE,))
    session.expire()
    remove_acls(other, ORDERS, [ALICE])
    session.reconnect()
    until(lambda: index.acls(ORDERS) == ())


def test_unreadable_notice_causes_full_read(other, watch, index):
    watch.start()
    other.create(node_path(ORDERS), encode_acls([ALICE]))
    other.create("/kafka-acl-changes/acl_changes_", b"?", sequential=True)
    until(lambda: index.acls(ORDERS) == (ALICE,))
    other.create("/kafka-acl-changes/acl_changes_", b"User:alice", sequential=True)
    other.set(node_path(ORDERS), b"?")
    other.create("/kafka-acl-changes/acl_changes_", b"Topic:orders", sequential=True)
    until(lambda: index.acls(ORDERS) == UNREADABLE)


def test_own_changes_are_read_at_once(session, watch, index):
    watch.start()
    session.create(node_path(ORDERS), encode_acls([ALICE]))
    assert watch.reread([ORDERS])
    assert index.acls(ORDERS) == (ALICE,)


def test_old_acl_notices_are_purged(session, other, watch, monkeypatch):
    other.create("/kafka-acl-changes", parents=True)
    add_acls(other, ORDERS, [ALICE])
    # The server's clock is at 1970.
    monkeypatch.setattr(module, "KEPT_MS", 10**15)
    watch.start()
    assert len(session.children("/kafka-acl-changes")) == 1
    monkeypatch.setattr(module, "KEPT_MS", 15 * 60 * 1000)
    add_acls(other, TEAM, [ALICE])
    until(lambda: not session.children("/kafka-acl-extended-changes"))
    assert session.children("/kafka-acl-changes") == []


def test_notice_that_may_not_be_deleted_does_not_stop_the_watch(session, other, watch, index):
    def refuse(path, **options):
        raise NotPermitted(f"{path}: ZooKeeper permits it only to another login")

    other.create("/kafka-acl-changes", parents=True)
    add_acls(other, ORDERS, [ALICE])
    session.delete = refuse
    watch.start()
    assert index.acls(ORDERS) == (ALICE,)
    add_acls(other, TEAM, [ALICE])
    until(lambda: index.acls(TEAM) == (ALICE,))


def test_deleted_notice_tree_is_recreated(session, other, watch, index):
    watch.start()
    other.delete("/kafka-acl-changes", recursive=True)
    until(lambda: session.exists("/kafka-acl-changes") is not None)
    add_acls(other, ORDERS, [ALICE])
    until(lambda: index.acls(ORDERS) == (ALICE,))
