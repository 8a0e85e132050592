"""Nodes of ACLs and their notices: bytes and concurrent writes."""

import json

import pytest

from tests.support.instant_session import InstantSession, children_data
from zkbroker.errors import ProtocolError, RegistryError
from zkbroker.registry import acls as module
from zkbroker.registry.acls import (
    add_acls,
    decode_acls,
    decode_notice,
    encode_acls,
    encode_notice,
    ensure_acl_tree,
    node_path,
    read_all_acls,
    remove_acls,
)
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acl_index import UNREADABLE
from zkbroker.security.acls import Acl, Pattern, PatternType, Permission
from zkbroker.zookeeper import ConnectionLost

TOPIC = ResourceType.TOPIC
ORDERS = Pattern(TOPIC, "orders")
TEAM = Pattern(ResourceType.GROUP, "team-", PatternType.PREFIXED)
ALICE = Acl("User:alice", Permission.ALLOW, Operation.READ)
BOB = Acl("User:bob", Permission.DENY, Operation.CLUSTER_ACTION, "10.0.0.7")


@pytest.fixture
def session(session):
    ensure_acl_tree(session)
    return session


def notices(session, form=PatternType.LITERAL):
    return children_data(session, module.FORMS[form][1])


def test_acl_node_has_genuine_bytes():
    data = encode_acls([ALICE, BOB])
    assert data == (
        b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",'
        b'"operation":"Read","host":"*"},{"principal":"User:bob","permissionType":"Deny",'
        b'"operation":"ClusterAction","host":"10.0.0.7"}]}'
    )
    assert decode_acls(data) == (ALICE, BOB)
    assert "é".encode() in encode_acls([ALICE._replace(principal="User:é")])


def test_acls_of_later_versions_are_read():
    other = encode_acls([ALICE]).replace(b"Read", b"rEAD").replace(b"Allow", b"ALLOW")
    assert decode_acls(other) == (ALICE,)
    assert decode_acls(b"") == ()
    later = json.loads(encode_acls([ALICE, ALICE]))
    later["acls"].append({**later["acls"][0], "operation": "CreateTokens"})
    assert decode_acls(json.dumps(later).encode()) == (ALICE,)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"null",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        b'{"version":1,"acls":[{}]}',
        encode_acls([ALICE]).replace(b'"User:alice"', b"1"),
        encode_acls([ALICE]).replace(b"Allow", b"Maybe"),
        b"[" * 100_000,
    ],
)
def test_unreadable_acl_node_denies_all_access(data, session, caplog):
    with pytest.raises(ValueError, match=r".+"):
        decode_acls(data)
    session.create(node_path(ORDERS), data)
    for _ in range(3):
        assert read_all_acls(session) == {ORDERS: UNREADABLE}
    levels = [each.levelname for each in caplog.records if "all access is denied" in each.message]
    assert levels.count("WARNING") == 1
    for change in (add_acls, remove_acls):
        with pytest.raises(RegistryError, match="repair or delete the node"):
            change(session, ORDERS, [ALICE])
    assert session.get(node_path(ORDERS))[0] == data
    assert notices(session) == []


def test_acl_notices_have_genuine_form():
    assert encode_notice(ORDERS) == b"Topic:orders"
    assert encode_notice(TEAM) == (
        b'{"version":1,"resourceType":"Group","name":"team-","patternType":"PREFIXED"}'
    )
    for pattern in (ORDERS, TEAM, Pattern(TOPIC, "a:b")):
        assert decode_notice(pattern.pattern_type, encode_notice(pattern)) == pattern
    assert decode_notice(PatternType.LITERAL, b"User:alice") is None
    for form, data in (
        (PatternType.LITERAL, b"Topic"),
        (PatternType.LITERAL, b"\xff:"),
        (PatternType.PREFIXED, b"Topic:t"),
        (PatternType.PREFIXED, b'{"resourceType":"Topic"}'),
        (PatternType.PREFIXED, b'{"resourceType":1,"name":"n","patternType":"PREFIXED"}'),
        (PatternType.PREFIXED, b'{"resourceType":"Topic","name":"n","patternType":"ODD"}'),
    ):
        with pytest.raises(ValueError, match=r".+"):
            decode_notice(form, data)


def test_acls_are_added_and_removed(session):
    assert add_acls(session, TEAM, [ALICE]) == (ALICE,)
    assert add_acls(session, TEAM, [BOB, ALICE]) == (ALICE, BOB)
    assert read_all_acls(session) == {TEAM: (ALICE, BOB)}
    assert remove_acls(session, TEAM, [ALICE]) == (BOB,)
    assert remove_acls(session, TEAM, [BOB]) == ()
    assert session.exists(node_path(TEAM)) is None
    assert remove_acls(session, TEAM, [BOB]) == ()
    assert notices(session, PatternType.PREFIXED) == [encode_notice(TEAM)] * 4
    assert notices(session) == []


def test_unchanged_acls_add_no_notice(session):
    add_acls(session, ORDERS, [ALICE])
    add_acls(session, ORDERS, [ALICE])
    remove_acls(session, ORDERS, [BOB])
    assert notices(session) == [b"Topic:orders"]


def test_concurrent_acl_writes_are_merged(session, other):
    def first():
        session.before = lambda: None
        add_acls(other, ORDERS, [BOB])

    session.before = first
    assert set(add_acls(session, ORDERS, [ALICE])) == {ALICE, BOB}

    def removed():
        session.before = lambda: None
        remove_acls(other, ORDERS, [ALICE, BOB])

    session.before = removed
    carol = ALICE._replace(principal="User:carol")
    assert add_acls(session, ORDERS, [carol]) == (carol,)


def test_acl_write_with_lost_response_adds_notice(session, monkeypatch):
    create_node = session.create
    lost = []

    def create(path, data=b"", **more):
        made = create_node(path, data, **more)
        if not lost:
            lost.append(path)
            raise ConnectionLost(path)
        return made

    monkeypatch.setattr(session, "create", create)
    assert add_acls(session, ORDERS, [ALICE]) == (ALICE,)
    assert lost == [node_path(ORDERS)]
    assert notices(session) == [b"Topic:orders"]


def test_invalid_acls_are_refused_before_writing(session):
    for pattern, acl in (
        (Pattern(TOPIC, "a/b"), ALICE),
        (ORDERS, ALICE._replace(principal="alice")),
    ):
        with pytest.raises(ProtocolError):
            add_acls(session, pattern, [acl])
    many = [ALICE._replace(principal=f"User:{number:0100}") for number in range(8000)]
    with pytest.raises(ProtocolError, match="do not fit into a node"):
        add_acls(session, ORDERS, many)
    assert read_all_acls(session) == {}


def test_unknown_resource_types_and_missing_trees_are_skipped(session):
    session.create("/kafka-acl/User", parents=True)
    session.create("/kafka-acl/User/x", encode_acls([ALICE]))
    assert read_all_acls(session) == {}
    assert read_all_acls(InstantSession()) == {}
