"""An index of the ACLs of a cluster, by literal names and by prefixes.

    1. find the ACLs that apply: of the literal name, of the literal `*`, of each prefix of the name
    2. if there are none, `allow.everyone.if.no.acl.found` decides
    3. else there must be no Deny and at least one Allow for the principal or `User:*`, the host or
       `*`, and the operation or All. An Allow of Read, Write, Delete or Alter includes Describe,
       and one of AlterConfigs includes DescribeConfigs.

Invariant: an answer follows from the present ACLs: any change discards the cached decisions. A
pattern whose ACLs could not be read denies every access, since a Deny may be among them. The cache
is bounded, whatever names clients ask for.

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
_LITERAL, _PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
_MAX_KEPT_NAME = 300
"""Decisions for longer names are not cached: they would take memory, and no topic has one."""

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
"""Takes the place of ACLs that could not be read. No node gives the same ACL twice."""


class AclIndex:
    """The ACLs of all patterns.

    Args:
        allow_if_none: whether access is allowed if no ACL applies to a resource.
    """

    def __init__(self, *, allow_if_none: bool = False) -> None:
        self._allow_if_none = allow_if_none
        self._acls: dict[tuple[ResourceType, str, PatternType], Sequence[Acl]] = {}
        self._lengths: dict[ResourceType, Counter[int]] = {each: Counter() for each in ResourceType}
        self._of_principal: dict[str, dict[Pattern, None]] = {}
        self._decisions: dict[tuple[object, ...], bool] = {}

    def __len__(self) -> int:
        return len(self._acls)

    def replace(self, acls: Mapping[Pattern, Sequence[Acl]], paced: Paced = iter) -> None:
        """Replace all ACLs, one pattern after the other.

        Args:
            acls: the ACLs of all patterns.
            paced: iterates over patterns and lets other tasks run in between.
        """
        for pattern in paced([each for each in self.patterns() if each not in acls]):
            self.set(pattern, ())
        for pattern in paced(list(acls)):
            self.set(pattern, acls[pattern])

    def set(self, pattern: Pattern, acls: Sequence[Acl]) -> None:
        """Replace the ACLs of one pattern; without any the pattern is removed."""
        before = self.acls(pattern)
        if before == acls:
            return
        self._decisions.clear()
        for acl in before:
            of_principal = self._of_principal.get(acl.principal)
            if of_principal is not None:
                of_principal.pop(pattern, None)
                if not of_principal:
                    del self._of_principal[acl.principal]
        if pattern.pattern_type is PatternType.PREFIXED:
            lengths = self._lengths[pattern.type]
            lengths[len(pattern.name)] += bool(acls) - bool(before)
            if not lengths[len(pattern.name)]:
                del lengths[len(pattern.name)]
        if acls:
            self._acls[pattern] = acls
            for acl in acls:
                self._of_principal.setdefault(acl.principal, {})[pattern] = None
        else:
            self._acls.pop(pattern, None)

    def patterns(self) -> list[Pattern]:
        """Return every pattern that has ACLs, literal ones first."""
        return sorted(map(Pattern._make, self._acls), key=lambda each: each.pattern_type)

    def acls(self, pattern: Pattern) -> Sequence[Acl]:
        """Return the ACLs of a pattern, empty without any."""
        return self._acls.get(pattern, ())

    def find(
        self, wanted: BindingFilter, pace: Callable[[], object] = lambda: None
    ) -> Iterator[Binding]:
        """Yield the bindings that match a filter, grouped by pattern.

        Args:
            wanted: the filter.
            pace: called from time to time, to let other tasks run.
        """
        for count, pattern in enumerate(self._candidates(wanted)):
            if wanted.takes_pattern(pattern):
                acls = self.acls(pattern)
                if acls != UNREADABLE:
                    yield from (Binding(pattern, each) for each in acls if wanted.takes_acl(each))
            if count % _PACED == 0:
                pace()

    def _candidates(self, wanted: BindingFilter) -> list[Pattern]:
        """Return the patterns that may match a filter; all patterns for a filter without a name."""
        name = wanted.name
        if name is None:
            return self.patterns()
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
        """Whether a principal may do an operation on any resource of a type."""
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
            acls = self._acls.get((kind, literal, _LITERAL))
            if acls is not None:
                yield acls
        for length in self._lengths[kind]:
            if length <= len(name):
                acls = self._acls.get((kind, name[:length], _PREFIXED))
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
    """Whether one of some denied patterns covers every name of a pattern."""
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
    """Return an address in a canonical form: IPv6 has many forms, and may carry an IPv4 address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _is_host(acl: Acl, address: str) -> bool:
    host = acl.host
    return host in (WILDCARD, address) or (":" in host and comparable_host(host) == address)
