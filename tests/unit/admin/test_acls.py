"""ACLs through ZooKeeper and through brokers."""

import pytest

from tests.support.instant_session import InstantSession
from tests.support.played_cluster import PlayedCluster
from zkbroker.admin.acls import BrokerAcls, ZooKeeperAcls
from zkbroker.errors import ClientError, ProtocolError
from zkbroker.protocol.messages import (
    CreateAclsResponse,
    DeleteAclsResponse,
    DescribeAclsResponse,
)
from zkbroker.protocol.messages.acls import (
    CreatedAcl,
    DeletedAcl,
    DeletedAcls,
    DescribedAcl,
    DescribedAclsResource,
)
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acls import Acl, Binding, BindingFilter, Pattern, PatternType, Permission

TOPIC = ResourceType.TOPIC
ALICE = Acl("User:alice", Permission.ALLOW, Operation.READ)
LITERAL = Binding(Pattern(TOPIC, "orders"), ALICE)
PREFIXED = Binding(Pattern(TOPIC, "ord", PatternType.PREFIXED), ALICE)


def answering(*answers, version=1):
    left = list(answers)
    return PlayedCluster(lambda connection, request: left.pop(0), version=version)


def test_acls_are_added_found_and_removed_in_zookeeper():
    session = InstantSession()
    acls = ZooKeeperAcls(session)
    assert acls.find([BindingFilter()]) == []
    acls.add([LITERAL, PREFIXED, LITERAL])
    assert set(acls.find([BindingFilter(), BindingFilter()])) == {LITERAL, PREFIXED}
    assert acls.remove([BindingFilter(name="orders")]) == [LITERAL]
    assert acls.find([BindingFilter()]) == [PREFIXED]


def test_invalid_acl_prevents_all_writes():
    session = InstantSession()
    bad = Binding(Pattern(TOPIC, "a/b"), ALICE)
    with pytest.raises(ProtocolError):
        ZooKeeperAcls(session).add([LITERAL, bad])
    assert session.exists("/kafka-acl") is None


def test_unknown_operations_and_resource_types_are_left_out():
    described = DescribedAclsResource(
        TOPIC, "orders", 3, [DescribedAcl("User:alice", "*", 3, 3), DescribedAcl("User:a", "*", 15)]
    )
    user = DescribedAclsResource(7, "alice", 3, [])
    cluster = answering(DescribeAclsResponse(resources=[described, user]))
    assert BrokerAcls(cluster).find([BindingFilter(TOPIC)]) == [LITERAL]
    ((_, request, version),) = cluster.asked
    assert (request.resource_type, request.pattern_type, version) == (TOPIC, 1, 1)


def test_acls_are_added_in_batches_and_refusal_names_acl():
    many = [Binding(Pattern(TOPIC, f"t{n}"), ALICE) for n in range(501)]
    cluster = answering(
        CreateAclsResponse(results=[CreatedAcl()] * 500), CreateAclsResponse(results=[CreatedAcl()])
    )
    BrokerAcls(cluster).add(many)
    assert [len(request.creations) for _, request, _ in cluster.asked] == [500, 1]
    refused = answering(
        CreateAclsResponse(results=[CreatedAcl(31, "Cluster authorization failed.")])
    )
    with pytest.raises(ProtocolError, match=r"User:alice on Topic orders: Cluster authorization"):
        BrokerAcls(refused).add([LITERAL])


def test_removed_acls_are_returned():
    matching = [DeletedAcl(0, None, TOPIC, "ord", 4, "User:alice", "*", 3, 3)]
    cluster = answering(DeleteAclsResponse(results=[DeletedAcls(matching=matching)]))
    assert BrokerAcls(cluster).remove([BindingFilter()]) == [PREFIXED]


def test_missing_authorizer_is_reported():
    with pytest.raises(ProtocolError, match=r"set authorizer\.class\.name"):
        BrokerAcls(answering(DescribeAclsResponse(error_code=54))).find([BindingFilter()])


def test_prefixed_acl_is_refused_for_broker_before_2_0():
    old = answering(CreateAclsResponse(results=[CreatedAcl()]), version=0)
    with pytest.raises(ClientError, match=r"before Kafka 2\.0"):
        BrokerAcls(old).add([PREFIXED])
    BrokerAcls(old).add([LITERAL])
