"""Turns an operator's resources, principals, hosts and operations into ACL bindings.

    --producer   topics: Describe, Write, Create; transactional ids: Describe, Write
    --consumer   topics: Describe, Read; groups: Read
    --idempotent the cluster: IdempotentWrite

Invariant: nothing is guessed. ACLs to add name resources, principals and operations that fit the
    resources; for removal and lists, the plan filters existing ACLs. The sets of operations are
    those of genuine kafka-acls (2.3).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from zkbroker.errors import ConfigError
from zkbroker.security.acls import (
    ANY,
    WILDCARD,
    Acl,
    Binding,
    BindingFilter,
    Pattern,
    PatternType,
    Permission,
)
from zkbroker.security.authorizer import CLUSTER, Operation, Resource, ResourceType

_ALL, _READ, _WRITE = Operation.ALL, Operation.READ, Operation.WRITE
_DESCRIBE, _CREATE, _DELETE = Operation.DESCRIBE, Operation.CREATE, Operation.DELETE
_CONFIGS = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})

FITTING = {
    ResourceType.TOPIC: frozenset({_ALL, _READ, _WRITE, _CREATE, _DESCRIBE, _DELETE})
    | {Operation.ALTER}
    | _CONFIGS,
    ResourceType.GROUP: frozenset({_ALL, _READ, _DESCRIBE, _DELETE}),
    ResourceType.CLUSTER: frozenset({_ALL, _CREATE, _DESCRIBE, Operation.ALTER})
    | {Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE}
    | _CONFIGS,
    ResourceType.TRANSACTIONAL_ID: frozenset({_ALL, _DESCRIBE, _WRITE}),
    ResourceType.DELEGATION_TOKEN: frozenset({_ALL, _DESCRIBE}),
}
"""The valid operations of each resource type."""

_FOR_PRODUCERS = {
    ResourceType.TOPIC: (_DESCRIBE, _WRITE, _CREATE),
    ResourceType.TRANSACTIONAL_ID: (_DESCRIBE, _WRITE),
}
_FOR_CONSUMERS = {ResourceType.TOPIC: (_DESCRIBE, _READ), ResourceType.GROUP: (_READ,)}

OPERATIONS = {each.label.lower(): each for each in Operation}
PATTERN_TYPES = {"any": ANY, "match": 2, "literal": 3, "prefixed": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class AclPlan:
    """An operator's choice of ACLs.

    Args:
        resources: types and names.
        pattern_type: of the names: a `PatternType`, or `MATCH` or `ANY` to choose.
        allowed, denied: principals.
        allowed_hosts, denied_hosts: their addresses; empty adds every host, and chooses any.
        operations: empty adds All, and chooses any.
        producer, consumer, idempotent: add or choose the operations that such a client needs.
    """

    resources: Sequence[Resource] = ()
    pattern_type: int = PatternType.LITERAL
    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()
    operations: Sequence[Operation] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False

    def bindings(self) -> list[Binding]:
        """Return the bindings to add.

        Raises:
            ConfigError: the plan is incomplete or inconsistent.
        """
        self._check()
        if not self.allowed and not self.denied:
            raise ConfigError("no principal is named: give --allow-principal or --deny-principal")
        if self.pattern_type not in tuple(PatternType):
            raise ConfigError(
                "ACLs can be added for a literal name or a prefix: give --resource-pattern-type "
                "literal or prefixed"
            )
        form = PatternType(self.pattern_type)
        found: dict[Binding, None] = {}
        for resource, operations in self._wanted():
            # The cluster has one literal name, whatever the pattern type.
            literal = resource.type is ResourceType.CLUSTER
            pattern = Pattern(*resource, PatternType.LITERAL if literal else form)
            for permission, principals, hosts in self._clients():
                for principal, host, operation in product(
                    principals, hosts or (WILDCARD,), operations or (_ALL,)
                ):
                    found[Binding(pattern, Acl(principal, permission, operation, host))] = None
        return list(found)

    def filters(self) -> list[BindingFilter]:
        """Return the filters for the chosen bindings; if nothing is named, for all bindings.

        Raises:
            ConfigError: the plan is inconsistent.
        """
        if self.resources or self.producer or self.consumer or self.idempotent:
            self._check()
        found: dict[BindingFilter, None] = {}
        wanted = self._wanted() if self.resources else [((ANY, None), self.operations)]
        for (kind, name), operations in wanted:
            form = PatternType.LITERAL if kind == ResourceType.CLUSTER else self.pattern_type
            for client, operation, permission in self._choices(operations):
                found[BindingFilter(kind, name, form, *client, operation, permission)] = None
        return list(found)

    def _clients(self) -> Iterator[tuple[Permission, Sequence[str], Sequence[str]]]:
        yield Permission.ALLOW, self.allowed, self.allowed_hosts
        yield Permission.DENY, self.denied, self.denied_hosts

    def _choices(
        self, operations: Sequence[Operation]
    ) -> Iterator[tuple[tuple[str | None, str | None], int, int]]:
        if not self.allowed and not self.denied:
            for operation in operations or (ANY,):
                yield (None, None), operation, ANY
        for permission, principals, hosts in self._clients():
            for principal, host, operation in product(
                principals, hosts or (None,), operations or (ANY,)
            ):
                yield (principal, host), operation, permission

    def _wanted(self) -> Iterator[tuple[Resource, Sequence[Operation]]]:
        shortcuts = self._shortcuts()
        if not shortcuts:
            for resource in self.resources:
                yield resource, self.operations
            return
        for resource in self.resources:
            operations = [each for found in shortcuts for each in found.get(resource.type, ())]
            if operations:
                yield resource, list(dict.fromkeys(operations))
        if self.idempotent:
            yield CLUSTER, [Operation.IDEMPOTENT_WRITE]

    def _shortcuts(self) -> list[Mapping[ResourceType, Sequence[Operation]]]:
        """Return the operations of the shortcuts that are chosen."""
        chosen = (self.producer, _FOR_PRODUCERS), (self.consumer, _FOR_CONSUMERS)
        return [operations for is_chosen, operations in chosen if is_chosen]

    def _check(self) -> None:
        kinds = {resource.type for resource in self.resources}
        if not kinds:
            raise ConfigError(
                "no resource is named: give --topic, --group, --cluster, --transactional-id or "
                "--delegation-token"
            )
        for hosts, principals, name in (
            (self.allowed_hosts, self.allowed, "allow"),
            (self.denied_hosts, self.denied, "deny"),
        ):
            if hosts and not principals:
                raise ConfigError(f"--{name}-host needs --{name}-principal")
        for principal in (*self.allowed, *self.denied):
            kind, colon, name = principal.partition(":")
            if not (kind and colon and name):
                raise ConfigError(
                    f"{principal!r} is not a principal: give TYPE:NAME, as User:alice"
                )
        if self.idempotent and not self.producer:
            raise ConfigError("--idempotent goes with --producer")
        if self.producer or self.consumer:
            self._check_shortcuts(kinds)
        for resource in self.resources:
            odd = [each for each in self.operations if each not in FITTING[resource.type]]
            if odd:
                fitting = ", ".join(sorted(each.label for each in FITTING[resource.type]))
                raise ConfigError(
                    f"{odd[0].label} is not an operation of a {resource.type.label}: give {fitting}"
                )

    def _check_shortcuts(self, kinds: set[ResourceType]) -> None:
        if self.operations:
            raise ConfigError(
                "--producer and --consumer imply the operations: leave out --operation"
            )
        if ResourceType.TOPIC not in kinds:
            raise ConfigError("--producer and --consumer need a --topic")
        if self.consumer and ResourceType.GROUP not in kinds:
            raise ConfigError("--consumer needs a --group")
        for kind in sorted(kinds.difference(*self._shortcuts())):
            raise ConfigError(f"--producer and --consumer do not apply to a {kind.label}")
