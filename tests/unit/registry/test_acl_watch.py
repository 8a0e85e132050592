"""A broker's ACLs follow the notices."""

import pytest

from tests.support.instant_session import InstantSession
from tests.support.zookeeper import until
from zkbroker.registry import acl_watch as module
from zkbroker.registry.acl_watch import AclWatch
from zkbroker.registry.acls import add_acls, encode_acls, node_path, remove_acls
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acl_index import UNREADABLE, AclIndex
from zkbroker.security.acls import Acl, Pattern, PatternType, Permission

TOPIC = ResourceType.TOPIC
ORDERS = Pattern(TOPIC, "orders")
TEAM = Pattern(TOPIC, "team-", PatternType.PREFIXED)
ALICE = Acl("User:alice", Permission.ALLOW, Operation.READ)
BOB = Acl("User:bob", Permission.ALLOW, Operation.READ)


@pytest.fixture
def session():
    return InstantSession()


@pytest.fixture
def other(session):
    return InstantSession(session.server)


@pytest.fixture
def index():
    return AclIndex()


@pytest.fixture
def whole():
    return []


@pytest.fixture
def watch(session, index, whole):
    def take_all(acls):
        whole.append(acls)
        index.replace(acls)

    made = AclWatch(session, take_all, index.set)
    yield made
    made.close(5)


def test_the_tree_is_made_and_what_stands_in_it_is_read(session, other, watch, index):
    add_acls(other, ORDERS, [ALICE])
    watch.start()
    assert index.acls(ORDERS) == (ALICE,)
    assert session.children("/kafka-acl") == [
        *("Cluster", "DelegationToken", "Group", "Topic", "TransactionalId")
    ]
    assert session.children("/kafka-acl-extended/prefixed") == session.children("/kafka-acl")


def test_changes_of_both_forms_are_followed_one_pattern_at_a_time(other, watch, index, whole):
    watch.start()
    for pattern in (ORDERS, TEAM):
        add_acls(other, pattern, [ALICE])
        until(lambda p=pattern: index.acls(p) == (ALICE,))
        add_acls(other, pattern, [BOB])
        until(lambda p=pattern: index.acls(p) == (ALICE, BOB))
        remove_acls(other, pattern)
        until(lambda p=pattern: index.acls(p) == ())
    assert len(whole) == 1


def test_after_an_outage_everything_is_read_again(session, other, watch, index, whole):
    watch.start()
    session.suspend()
    add_acls(other, ORDERS, [ALICE])
    for name in other.children("/kafka-acl-changes"):
        other.delete(f"/kafka-acl-changes/{name}")
    session.reconnect()
    until(lambda: index.acls(ORDERS) == (ALICE,))
    session.expire()
    remove_acls(other, ORDERS)
    session.reconnect()
    until(lambda: index.acls(ORDERS) == ())


def test_a_notice_that_cannot_be_read_has_everything_read(other, watch, index):
    watch.start()
    other.create(node_path(ORDERS), encode_acls([ALICE]))
    other.create("/kafka-acl-changes/acl_changes_", b"?", sequential=True)
    until(lambda: index.acls(ORDERS) == (ALICE,))
    other.create("/kafka-acl-changes/acl_changes_", b"User:alice", sequential=True)
    other.set(node_path(ORDERS), b"?")
    other.create("/kafka-acl-changes/acl_changes_", b"Topic:orders", sequential=True)
    until(lambda: index.acls(ORDERS) == UNREADABLE)


def test_what_this_broker_wrote_is_read_at_once(session, watch, index):
    watch.start()
    session.create(node_path(ORDERS), encode_acls([ALICE]))
    assert watch.reread([ORDERS])
    assert index.acls(ORDERS) == (ALICE,)


def test_notices_are_purged_after_a_quarter_of_an_hour(session, other, watch, monkeypatch):
    other.create("/kafka-acl-changes", parents=True)
    add_acls(other, ORDERS, [ALICE])
    # The clock of the played server stands in 1970.
    monkeypatch.setattr(module, "PURGE_AFTER_MS", 10**15)
    watch.start()
    assert len(session.children("/kafka-acl-changes")) == 1
    monkeypatch.setattr(module, "PURGE_AFTER_MS", 15 * 60 * 1000)
    add_acls(other, TEAM, [ALICE])
    until(lambda: not session.children("/kafka-acl-extended-changes"))
    assert session.children("/kafka-acl-changes") == []


def test_a_tree_of_notices_that_was_deleted_is_made_again(session, other, watch, index):
    watch.start()
    other.delete("/kafka-acl-changes", recursive=True)
    until(lambda: session.exists("/kafka-acl-changes") is not None)
    add_acls(other, ORDERS, [ALICE])
    until(lambda: index.acls(ORDERS) == (ALICE,))
