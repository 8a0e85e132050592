"""ACLs made from the options of an operator."""

import pytest

from zkbroker.admin.acl_plan import AclPlan
from zkbroker.errors import ConfigError
from zkbroker.security import CLUSTER, Operation, Resource, ResourceType
from zkbroker.security.acls import ANY, MATCH, PatternType, Permission

TOPIC = Resource(ResourceType.TOPIC, "orders")
GROUP = Resource(ResourceType.GROUP, "g")
TX = Resource(ResourceType.TRANSACTIONAL_ID, "tx")
READ, WRITE = Operation.READ, Operation.WRITE


def rows(plan):
    return [
        (p.type.label, p.name, a.principal, a.permission.label, a.operation.label, a.host)
        for p, a in plan.bindings()
    ]


def test_each_principal_host_and_operation_gets_an_acl():
    plan = AclPlan(
        resources=[TOPIC],
        allowed=["User:a", "User:b"],
        allowed_hosts=["10.0.0.1"],
        denied=["User:c"],
        operations=[READ, WRITE],
    )
    assert rows(plan) == [
        ("Topic", "orders", "User:a", "Allow", "Read", "10.0.0.1"),
        ("Topic", "orders", "User:a", "Allow", "Write", "10.0.0.1"),
        ("Topic", "orders", "User:b", "Allow", "Read", "10.0.0.1"),
        ("Topic", "orders", "User:b", "Allow", "Write", "10.0.0.1"),
        ("Topic", "orders", "User:c", "Deny", "Read", "*"),
        ("Topic", "orders", "User:c", "Deny", "Write", "*"),
    ]
    assert rows(AclPlan(resources=[CLUSTER], allowed=["User:a"])) == [
        ("Cluster", "kafka-cluster", "User:a", "Allow", "All", "*")
    ]


def test_shortcuts_give_operations_of_genuine_tool():
    plan = AclPlan(
        resources=[TOPIC, TX, GROUP],
        allowed=["User:a"],
        producer=True,
        consumer=True,
        idempotent=True,
        pattern_type=PatternType.PREFIXED,
    )
    assert [(*each[:2], each[4]) for each in rows(plan)] == [
        ("Topic", "orders", "Describe"),
        ("Topic", "orders", "Write"),
        ("Topic", "orders", "Create"),
        ("Topic", "orders", "Read"),
        ("TransactionalId", "tx", "Describe"),
        ("TransactionalId", "tx", "Write"),
        ("Group", "g", "Read"),
        ("Cluster", "kafka-cluster", "IdempotentWrite"),
    ]
    forms = {pattern.type: pattern.pattern_type for pattern, _ in plan.bindings()}
    assert forms.pop(ResourceType.CLUSTER) is PatternType.LITERAL
    assert set(forms.values()) == {PatternType.PREFIXED}


def test_filters_match_anything_not_named():
    (every,) = AclPlan(pattern_type=ANY).filters()
    assert (every.resource_type, every.name, every.pattern_type, every.operation) == (1, None, 1, 1)
    (of_topic,) = AclPlan(resources=[TOPIC], pattern_type=MATCH).filters()
    assert (of_topic.name, of_topic.pattern_type, of_topic.principal) == ("orders", MATCH, None)
    (named,) = AclPlan(resources=[TOPIC], denied=["User:a"], operations=[READ]).filters()
    assert (named.principal, named.host, named.operation) == ("User:a", None, READ)
    assert named.permission == Permission.DENY
    of_cluster = AclPlan(resources=[CLUSTER], pattern_type=MATCH).filters()
    assert [each.pattern_type for each in of_cluster] == [PatternType.LITERAL]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"allowed": ["User:a"]}, "no resource is named"),
        ({"resources": [TOPIC]}, "no principal is named"),
        ({"resources": [TOPIC], "allowed": ["a"]}, "'a' is not a principal"),
        ({"resources": [TOPIC], "allowed_hosts": ["h"]}, "--allow-host needs --allow-principal"),
        (
            {"resources": [TOPIC], "allowed": ["User:a"], "pattern_type": MATCH},
            "literal or prefixed",
        ),
        (
            {"resources": [GROUP], "allowed": ["User:a"], "operations": [WRITE]},
            "Write is not an operation of a Group: give All, Delete, Describe, Read",
        ),
        (
            {"resources": [TOPIC], "allowed": ["User:a"], "idempotent": True},
            "goes with --producer",
        ),
        (
            {"resources": [TOPIC], "allowed": ["User:a"], "producer": True, "operations": [READ]},
            "leave out --operation",
        ),
        ({"resources": [TX], "allowed": ["User:a"], "producer": True}, "need a --topic"),
        ({"resources": [TOPIC], "allowed": ["User:a"], "consumer": True}, "needs a --group"),
        (
            {"resources": [TOPIC, GROUP], "allowed": ["User:a"], "producer": True},
            "do not apply to a Group",
        ),
    ],
)
def test_inconsistent_plan_is_refused(given, text):
    with pytest.raises(ConfigError, match=text):
        AclPlan(**given).bindings()
