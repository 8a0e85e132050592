"""DescribeAcls, CreateAcls and DeleteAcls."""

import pytest

from tests.support.handler_services import HandlerSession
from tests.support.instant_session import InstantSession
from zkbroker.broker.context import RequestContext
from zkbroker.broker.handlers import acls as module
from zkbroker.broker.handlers.acls import AclsHandlers
from zkbroker.protocol.messages import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from zkbroker.protocol.messages.acls import AclCreation, AclFilter
from zkbroker.registry.acl_watch import AclWatch
from zkbroker.registry.acls import node_path, read_all_acls
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acl_index import AclIndex
from zkbroker.security.acls import MATCH, Acl, Pattern, PatternType, Permission

TOPIC = ResourceType.TOPIC
ORDERS, TEAM = Pattern(TOPIC, "orders"), Pattern(TOPIC, "ord", PatternType.PREFIXED)
ALICE = Acl("User:alice", Permission.ALLOW, Operation.READ)


@pytest.fixture
def context():
    return RequestContext(HandlerSession(), 30, 1, 1, "c")


@pytest.fixture
def session():
    return InstantSession()


@pytest.fixture
def index():
    return AclIndex()


@pytest.fixture
def handlers(session, index):
    watch = AclWatch(session, index.replace, index.set)
    watch.start()
    yield AclsHandlers(lambda: index, session, watch, prefixed=True)
    watch.close(5)


def creation(pattern, acl=ALICE):
    return AclCreation(*pattern[:2], pattern[2], acl.principal, acl.host, acl.operation, 3)


def create(handlers, context, *creations):
    return handlers.create(CreateAclsRequest(list(creations)), context).results


def test_created_acls_are_in_force_before_the_response(handlers, context, session, index):
    answers = create(handlers, context, creation(ORDERS), creation(TEAM), creation(ORDERS))
    assert [each.error_code for each in answers] == [0, 0, 0]
    assert (index.acls(ORDERS), index.acls(TEAM)) == ((ALICE,), (ALICE,))
    assert read_all_acls(session) == {ORDERS: (ALICE,), TEAM: (ALICE,)}


def test_invalid_creation_does_not_affect_the_others(handlers, context, index):
    bad = creation(Pattern(TOPIC, "a/b"))
    unknown = creation(ORDERS)
    unknown.operation = 1
    answers = create(handlers, context, bad, unknown, creation(ORDERS))
    assert [each.error_code for each in answers] == [42, 42, 0]
    assert "'/'" in answers[0].error_message
    assert index.acls(ORDERS) == (ALICE,)


def test_prefixed_acls_need_a_cluster_that_supports_them(handlers, context, session, index):
    handlers._prefixed = False
    answers = create(handlers, context, creation(TEAM), creation(ORDERS))
    assert [each.error_code for each in answers] == [35, 0]
    assert "inter.broker.protocol.version of 2.0" in answers[0].error_message


def test_failed_write_is_reported_for_each_acl_of_the_pattern(handlers, context, session):
    session.create(node_path(ORDERS), b"?")
    other = creation(ORDERS, ALICE._replace(principal="User:bob"))
    answers = create(handlers, context, creation(ORDERS), other, creation(TEAM))
    assert [each.error_code for each in answers] == [7, 7, 0]
    assert "repair or delete" in answers[1].error_message


def test_describe_filters_acls_by_pattern_and_principal(handlers, context):
    bob = ALICE._replace(principal="User:bob")
    create(handlers, context, creation(ORDERS), creation(ORDERS, bob), creation(TEAM))
    asked = DescribeAclsRequest(TOPIC, "orders", MATCH)
    found = handlers.describe(asked, context).resources
    assert [(e.resource_name, e.pattern_type, len(e.acls)) for e in found] == [
        ("orders", 3, 2),
        ("ord", 4, 1),
    ]
    asked.principal = "User:bob"
    (only,) = handlers.describe(asked, context).resources
    assert [(a.principal, a.host, a.operation, a.permission_type) for a in only.acls] == [
        ("User:bob", "*", 3, 3)
    ]
    assert handlers.describe(DescribeAclsRequest(resource_type=0), context).error_code == 42


def test_each_filter_returns_the_acls_it_deleted(handlers, context, session, index):
    create(handlers, context, creation(ORDERS), creation(TEAM))
    filters = [AclFilter(TOPIC, "orders", 3), AclFilter(pattern_type=1), AclFilter(operation=0)]
    answers = handlers.delete(DeleteAclsRequest(filters), context).results
    assert [[m.resource_name for m in each.matching] for each in answers] == [
        ["orders"],
        ["orders", "ord"],
        [],
    ]
    assert [each.error_code for each in answers] == [0, 0, 42]
    assert read_all_acls(session) == {}
    assert len(index) == 0


def test_time_of_writes_in_one_request_is_bounded(handlers, context, session, monkeypatch):
    monkeypatch.setattr(module, "WRITE_WITHIN_S", -1.0)
    (answer,) = create(handlers, context, creation(ORDERS))
    assert answer.error_code == 7
    assert "send the rest in another one" in answer.error_message
    assert read_all_acls(session) == {}


def test_acl_requests_are_refused_without_authorizer(context):
    assert module.describe_no_acls(DescribeAclsRequest(), context).error_code == 54
    (answer,) = module.create_no_acls(CreateAclsRequest([creation(ORDERS)]), context).results
    assert answer.error_code == 54
    (deleted,) = module.delete_no_acls(DeleteAclsRequest([AclFilter()]), context).results
    assert (deleted.error_code, deleted.matching) == (54, [])
