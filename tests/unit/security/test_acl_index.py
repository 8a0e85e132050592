"""Decisions by ACLs, as SimpleAclAuthorizer makes them."""

import pytest

from zkbroker.security import Operation, Resource, ResourceType
from zkbroker.security import acl_index as module
from zkbroker.security.acl_index import UNREADABLE, AclIndex, comparable_host
from zkbroker.security.acls import (
    MATCH,
    Acl,
    Binding,
    BindingFilter,
    Pattern,
    PatternType,
    Permission,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL


def allow(principal="User:alice", operation=READ, host="*"):
    return Acl(principal, Permission.ALLOW, operation, host)


def deny(principal="User:alice", operation=READ, host="*"):
    return Acl(principal, Permission.DENY, operation, host)


def index(*bindings, allow_if_none=False):
    made = AclIndex(allow_if_none=allow_if_none)
    for pattern, *acls in bindings:
        made.set(pattern, tuple(acls))
    return made


def find(made, *given, **more):
    return list(made.find(BindingFilter(*given, **more)))


def allows(made, name="orders", operation=READ, *, principal="User:alice", host="10.0.0.1"):
    return made.allows(principal, operation, Resource(TOPIC, name), host)


@pytest.mark.parametrize(
    "pattern",
    [Pattern(TOPIC, "orders"), Pattern(TOPIC, "*"), Pattern(TOPIC, "ord", PREFIXED)],
)
def test_literal_wildcard_and_prefix_patterns_match(pattern):
    made = index((pattern, allow()))
    assert allows(made)
    assert not allows(made, principal="User:bob")
    assert not allows(made, operation=WRITE)
    assert not made.allows("User:alice", READ, Resource(GROUP, "orders"), "10.0.0.1")
    assert allows(made, "or") == (pattern.name == "*")


def test_star_in_a_prefix_is_literal():
    made = index((Pattern(TOPIC, "*", PREFIXED), allow()))
    assert allows(made, "*a")
    assert not allows(made, "a")


def test_any_matching_deny_wins():
    for pattern in (Pattern(TOPIC, "orders"), Pattern(TOPIC, "*"), Pattern(TOPIC, "o", PREFIXED)):
        for denial in (deny(), deny("User:*"), deny(operation=ALL), deny(host="10.0.0.1")):
            made = index((Pattern(TOPIC, "or", PREFIXED), allow(operation=ALL)), (pattern, denial))
            assert not allows(made)
            assert allows(made, operation=WRITE) != (denial.operation is ALL)


def test_deny_for_another_host_does_not_apply():
    made = index((Pattern(TOPIC, "orders"), allow(), deny(host="10.9.9.9")))
    assert allows(made)
    assert not allows(made, host="10.9.9.9")


@pytest.mark.parametrize(
    ("given", "implied"),
    [
        *((each, DESCRIBE) for each in (READ, WRITE, Operation.DELETE, Operation.ALTER, ALL)),
        (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS),
    ],
)
def test_allow_implies_describe_but_deny_does_not(given, implied):
    assert allows(index((Pattern(TOPIC, "orders"), allow(operation=given))), operation=implied)
    made = index((Pattern(TOPIC, "orders"), allow(operation=implied), deny(operation=given)))
    assert allows(made, operation=implied) == (given is not ALL)


def test_other_operations_imply_nothing():
    made = index((Pattern(TOPIC, "orders"), allow(operation=Operation.CREATE)))
    assert not allows(made, operation=DESCRIBE)
    made = index((Pattern(TOPIC, "orders"), allow(operation=DESCRIBE)))
    assert not allows(made)


def test_setting_decides_only_for_resources_without_acls():
    assert not allows(index())
    made = index((Pattern(TOPIC, "o", PREFIXED), allow("User:bob")), allow_if_none=True)
    assert allows(made, "payments")
    assert not allows(made, "orders")


def test_hosts_are_compared_as_addresses():
    made = index((Pattern(TOPIC, "orders"), allow(host="0:0:0:0:0:0:0:1"), allow(host="10.0.0.1")))
    assert allows(made, host="::1")
    assert allows(made, host="::ffff:10.0.0.1")
    assert not allows(made, host="::2")
    assert comparable_host("fe80::1%eth0") == "fe80::1"
    assert comparable_host("no address") == "no address"


def test_unreadable_acls_deny_everything_they_match():
    made = index((Pattern(TOPIC, "*"), allow("User:*", ALL)), allow_if_none=True)
    made.set(Pattern(TOPIC, "or", PREFIXED), UNREADABLE)
    assert not allows(made)
    assert allows(made, "payments")
    assert find(made, name="or") == []
    made.set(Pattern(TOPIC, "or", PREFIXED), ())
    assert allows(made)


def test_cached_decisions_are_dropped_on_change(monkeypatch):
    made = index((Pattern(TOPIC, "orders"), allow()))
    assert allows(made)
    made.set(Pattern(TOPIC, "orders"), (deny(),))
    assert not allows(made)
    made.replace({Pattern(TOPIC, "ord", PREFIXED): (allow(),)})
    assert allows(made)
    assert list(made.patterns()) == [Pattern(TOPIC, "ord", PREFIXED)]


def test_number_of_cached_decisions_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_DECISIONS", 10)
    made = index((Pattern(TOPIC, "*"), allow()))
    for number in range(100):
        assert allows(made, f"t{number}")
        assert allows(made, f"{number}" * 500)
    assert len(made._decisions) <= 10
    assert all(len(key[2].name) < 500 for key in made._decisions)


def test_filter_selects_bindings():
    one, other = Pattern(TOPIC, "orders"), Pattern(TOPIC, "ord", PREFIXED)
    every, group = Pattern(TOPIC, "*"), Pattern(GROUP, "orders")
    made = index((one, allow(), deny("User:bob")), (other, allow()), (every, allow()))
    made.set(group, (allow(operation=WRITE),))
    match = find(made, TOPIC, "orders", MATCH, "User:alice")
    assert {each.pattern for each in match} == {one, other, every}
    assert {each.pattern for each in find(made, name="orders")} == {one, group}
    assert find(made, permission=Permission.DENY) == [Binding(one, deny("User:bob"))]
    assert find(made, operation=WRITE) == [Binding(group, allow(operation=WRITE))]
    assert find(made, TOPIC, "ord", PREFIXED) == [Binding(other, allow())]
    assert find(made, host="10.0.0.1") == []
    assert {each.pattern for each in find(made, name="*")} == {every}
    assert find(made, name="other", pattern_type=PREFIXED) == []


def test_filter_by_resource_name_does_not_scan_all_patterns(monkeypatch):
    made = index((Pattern(TOPIC, "orders"), allow()), (Pattern(TOPIC, "or", PREFIXED), allow()))
    monkeypatch.setattr(made, "patterns", lambda: pytest.fail("looked at all"))
    for form, count in ((LITERAL, 1), (PREFIXED, 0), (MATCH, 2), (1, 1)):
        assert len(find(made, TOPIC, "orders", form)) == count
    assert len(find(made, name="or", pattern_type=PREFIXED)) == 1


def test_full_scan_lets_other_tasks_run():
    made = index(*((Pattern(TOPIC, f"t{number}"), allow()) for number in range(2000)))
    paces = []
    assert len(list(made.find(BindingFilter(), lambda: paces.append(1)))) == 2000
    assert len(paces) == 4


def some(made, principal="User:alice"):
    return made.allows_some(principal, WRITE, TOPIC, "10.0.0.1")


@pytest.mark.parametrize(
    ("allowed", "denied", "may"),
    [
        (("orders", LITERAL), None, True),
        (("ord", PREFIXED), None, True),
        (("*", LITERAL), None, True),
        (("orders", LITERAL), ("orders", LITERAL), False),
        (("orders", LITERAL), ("o", PREFIXED), False),
        (("orders", LITERAL), ("orders-", PREFIXED), True),
        (("ord", PREFIXED), ("ord", PREFIXED), False),
        (("ord", PREFIXED), ("or", PREFIXED), False),
        (("ord", PREFIXED), ("orders", LITERAL), True),
        (("*", LITERAL), ("o", PREFIXED), True),
        (("*", LITERAL), ("*", LITERAL), False),
        (("ord", PREFIXED), ("*", LITERAL), False),
    ],
)
def test_allows_some_unless_denied_for_the_whole_pattern(allowed, denied, may):
    made = index((Pattern(TOPIC, *allowed), allow(operation=WRITE)))
    if denied:
        pattern = Pattern(TOPIC, *denied)
        made.set(pattern, (*made.acls(pattern), deny("User:*", WRITE)))
    assert some(made) is may
    assert not some(made, "User:bob")
    assert not index((Pattern(TOPIC, *allowed), allow())).allows_some(
        "User:alice", WRITE, TOPIC, "10.0.0.1"
    )


def test_allows_some_without_any_acls():
    assert some(index(allow_if_none=True))
    assert not some(index((Pattern(TOPIC, "*"), deny(operation=ALL)), allow_if_none=True))


def test_prefixes_are_looked_up_by_length():
    made = AclIndex()
    made.replace(
        {
            Pattern(TOPIC, f"team-{number:06d}-", PREFIXED): (allow(f"User:u{number}", WRITE),)
            for number in range(5_000)
        }
    )
    assert len(made) == 5_000
    assert allows(made, "team-004711-orders", WRITE, principal="User:u4711")
    assert not allows(made, "team-004711-orders", WRITE, principal="User:u4712")
    assert some(made, "User:u4999")
    assert list(made._lengths[TOPIC]) == [12]
    made.replace({})
    assert len(made) == 0
    assert not made._lengths[TOPIC]
    assert not made._of_principal
