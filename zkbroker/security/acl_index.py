"""The ACLs of a cluster, as they are looked up: by a literal name and by the prefixes of a name.

    1. the ACLs that apply: of the literal name, of the literal `*`, of every prefix of the name
    2. none at all: `allow.everyone.if.no.acl.found` decides
    3. else no Deny and at least one Allow of: the principal or `User:*`; the host or `*`; the
       operation or All. To allow, Read, Write, Delete and Alter are Describe as well, and
       AlterConfigs is DescribeConfigs.

Invariant: an answer holds for the ACLs of that moment: the kept decisions go with any change. A
pattern whose ACLs could not be read denies everything it applies to, since a Deny may be among
them. What is kept is bounded, whatever names clients ask about.

The rules are those of SimpleAclAuthorizer (2.1), `allows_some` that of KIP-679 (2.8).
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from zkbroker.security.acls import (
    ANY,
    EVERYONE,
    WILDCARD,
    Acl,
    Binding,
    BindingFilter,
    Pattern,
    PatternType,
    Permission,
)
from zkbroker.security.authorizer import Operation, Resource, ResourceType

MAX_DECISIONS = 20_000
_PACED = 500
_MAX_KEPT_NAME = 300
"""Longer names are decided each time: they would take memory, and no topic has one."""

_ALLOWED_BY: Mapping[Operation, frozenset[Operation]] = {
    **{each: frozenset({each, Operation.ALL}) for each in Operation},
    Operation.DESCRIBE: frozenset(
        {
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.ALL,
        }
    ),
    Operation.DESCRIBE_CONFIGS: frozenset(
        {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}
    ),
}

Paced = Callable[[list[Pattern]], Iterable[Pattern]]

UNREADABLE: Sequence[Acl] = (Acl(EVERYONE, Permission.DENY, Operation.ALL, "*"),) * 2
"""What stands for ACLs that could not be read. The same one twice: no node is read as this."""


class AclIndex:
    """The ACLs of all patterns.

    Args:
        allow_if_none: what holds where no ACL applies to a resource.
    """

    def __init__(self, *, allow_if_none: bool = False) -> None:
        self._allow_if_none = allow_if_none
        self._literal: dict[tuple[ResourceType, str], Sequence[Acl]] = {}
        self._prefixed: dict[tuple[ResourceType, str], Sequence[Acl]] = {}
        self._lengths: dict[ResourceType, Counter[int]] = {each: Counter() for each in ResourceType}
        self._of_principal: dict[str, dict[Pattern, None]] = {}
        self._decisions: dict[tuple[object, ...], bool] = {}

    def __len__(self) -> int:
        return len(self._literal) + len(self._prefixed)

    def replace(self, acls: Mapping[Pattern, Sequence[Acl]], paced: Paced = iter) -> None:
        """Take these ACLs in place of all others, one pattern after the other.

        Args:
            acls: of all patterns.
            paced: goes through them, and lets others run meanwhile.
        """
        for pattern in paced([each for each in self.patterns() if each not in acls]):
            self.set(pattern, ())
        for pattern in paced(list(acls)):
            self.set(pattern, acls[pattern])

    def set(self, pattern: Pattern, acls: Sequence[Acl]) -> None:
        """Take the ACLs of one pattern; none removes it."""
        kept = self._prefixed if pattern.pattern_type is PatternType.PREFIXED else self._literal
        key = (pattern.type, pattern.name)
        before = kept.get(key, ())
        if before == acls:
            return
        self._decisions.clear()
        for acl in before:
            of_principal = self._of_principal.get(acl.principal)
            if of_principal is not None:
                of_principal.pop(pattern, None)
                if not of_principal:
                    del self._of_principal[acl.principal]
        if kept is self._prefixed:
            lengths = self._lengths[pattern.type]
            lengths[len(pattern.name)] += bool(acls) - bool(before)
            if not lengths[len(pattern.name)]:
                del lengths[len(pattern.name)]
        if acls:
            kept[key] = acls
            for acl in acls:
                self._of_principal.setdefault(acl.principal, {})[pattern] = None
        else:
            kept.pop(key, None)

    def patterns(self) -> Iterator[Pattern]:
        """Yield every pattern that has ACLs."""
        for kind, name in self._literal:
            yield Pattern(kind, name, PatternType.LITERAL)
        for kind, name in self._prefixed:
            yield Pattern(kind, name, PatternType.PREFIXED)

    def acls(self, pattern: Pattern) -> Sequence[Acl]:
        """Return the ACLs of a pattern, none where there are none."""
        kept = self._prefixed if pattern.pattern_type is PatternType.PREFIXED else self._literal
        return kept.get((pattern.type, pattern.name), ())

    def find(
        self, wanted: BindingFilter, pace: Callable[[], object] = lambda: None
    ) -> Iterator[Binding]:
        """Yield the bindings that a filter chooses; those of one pattern follow each other.

        Args:
            wanted: the filter.
            pace: called now and then, to let others run.
        """
        for count, pattern in enumerate(self._candidates(wanted)):
            if wanted.takes_pattern(pattern):
                acls = self.acls(pattern)
                if acls != UNREADABLE:
                    yield from (Binding(pattern, each) for each in acls if wanted.takes_acl(each))
            if count % _PACED == 0:
                pace()

    def _candidates(self, wanted: BindingFilter) -> list[Pattern]:
        """Return the patterns that a filter may choose: without a name all there are."""
        name = wanted.name
        if name is None:
            return list(self.patterns())
        found: list[Pattern] = []
        kinds = [each for each in ResourceType if wanted.resource_type in (ANY, each)]
        for kind in kinds:
            found += [Pattern(kind, each, PatternType.LITERAL) for each in {name, WILDCARD}]
            found += [
                Pattern(kind, name[:length], PatternType.PREFIXED)
                for length in self._lengths[kind]
                if length <= len(name)
            ]
        return found

    def allows(self, principal: str, operation: Operation, resource: Resource, host: str) -> bool:
        """Whether a principal (`User:name`) may do an operation from an address."""
        key = (principal, operation, resource, host)
        known = self._decisions.get(key)
        if known is None:
            known = self._decide(principal, operation, resource, host)
            self._keep(key, known, resource.name)
        return known

    def allows_some(
        self, principal: str, operation: Operation, kind: ResourceType, host: str
    ) -> bool:
        """Whether there is any name of a type on which a principal may do an operation."""
        key = (principal, operation, kind, host)
        known = self._decisions.get(key)
        if known is None:
            known = self._decide_some(principal, operation, kind, host)
            self._keep(key, known, "")
        return known

    def _keep(self, key: tuple[object, ...], decision: bool, name: str) -> None:
        if len(name) <= _MAX_KEPT_NAME:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[key] = decision

    def _decide(self, principal: str, operation: Operation, resource: Resource, host: str) -> bool:
        found = list(self._applying(resource))
        if not found:
            return self._allow_if_none
        address = comparable_host(host)
        allowed = False
        for acls in found:
            for acl in acls:
                if acl.principal not in (principal, EVERYONE) or not _is_host(acl, address):
                    continue
                if acl.permission is Permission.DENY:
                    if acl.operation in (operation, Operation.ALL):
                        return False
                elif acl.operation in _ALLOWED_BY[operation]:
                    allowed = True
        return allowed

    def _applying(self, resource: Resource) -> Iterator[Sequence[Acl]]:
        kind, name = resource
        for literal in (name,) if name == WILDCARD else (name, WILDCARD):
            acls = self._literal.get((kind, literal))
            if acls is not None:
                yield acls
        for length in self._lengths[kind]:
            if length <= len(name):
                acls = self._prefixed.get((kind, name[:length]))
                if acls is not None:
                    yield acls

    def _decide_some(
        self, principal: str, operation: Operation, kind: ResourceType, host: str
    ) -> bool:
        address = comparable_host(host)
        named = {**self._of_principal.get(principal, {}), **self._of_principal.get(EVERYONE, {})}
        allowed: list[Pattern] = []
        denied: set[Pattern] = set()
        for pattern in named:
            if pattern.type is not kind:
                continue
            for acl in self.acls(pattern):
                if (
                    acl.principal in (principal, EVERYONE)
                    and _is_host(acl, address)
                    and acl.operation in (operation, Operation.ALL)
                ):
                    if acl.permission is Permission.DENY:
                        denied.add(pattern)
                    else:
                        allowed.append(pattern)
        if Pattern(kind, WILDCARD) in denied:
            return False
        return self._allow_if_none or any(not _covered(each, denied) for each in allowed)


def _covered(pattern: Pattern, denied: Iterable[Pattern]) -> bool:
    """Whether what a pattern allows is denied whole by another one."""
    return any(
        other == pattern
        or (
            other.pattern_type is PatternType.PREFIXED
            and pattern != (pattern.type, WILDCARD, PatternType.LITERAL)
            and pattern.name.startswith(other.name)
        )
        for other in denied
    )


def comparable_host(host: str) -> str:
    """Return an address in one spelling: IPv6 has many, and may carry an IPv4 one."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _is_host(acl: Acl, address: str) -> bool:
    host = acl.host
    return host in (WILDCARD, address) or (":" in host and comparable_host(host) == address)
