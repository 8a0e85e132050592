"""ACLs as data: operations that are allowed or denied to a principal on named resources.

    binding = pattern (type, name, pattern type) + ACL (principal, permission, operation, host)

    LITERAL    the name itself; `*` is every name of the type
    PREFIXED   every name that begins with the prefix

Invariant: a pattern that was checked (`check_pattern`) can be the name of a node in ZooKeeper.
Numbers are those of the ACL APIs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.security.authorizer import CLUSTER, Labelled, Operation, ResourceType

ANY = 1
"""In a filter: matches everything."""
WILDCARD = "*"
"""As a literal name: every name of a type. As a host: every host."""
EVERYONE = "User:*"
MAX_NAME_CHARS = 1000
MAX_PRINCIPAL_CHARS = 2000


class PatternType(IntEnum):
    """How the name of a pattern matches."""

    LITERAL = 3
    PREFIXED = 4


MATCH = 2
"""In a filter, in place of a pattern type: every pattern that applies to the name."""


class Permission(Labelled):
    """Whether an ACL allows or denies."""

    DENY = 2
    ALLOW = 3


class Pattern(NamedTuple):
    """The resources to which ACLs apply."""

    type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def applies_to(self, name: str) -> bool:
        """Whether the pattern matches the name of a resource of its type."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class Acl(NamedTuple):
    """A permission of a principal: `User:name`, or `User:*` for all."""

    principal: str
    permission: Permission
    operation: Operation
    host: str = WILDCARD


class Binding(NamedTuple):
    """One ACL of one pattern."""

    pattern: Pattern
    acl: Acl


@dataclass(frozen=True, slots=True)
class BindingFilter:
    """A filter of bindings; None and `ANY` match everything.

    Args:
        resource_type: a `ResourceType` or `ANY`.
        name: of the resource.
        pattern_type: a `PatternType`, `MATCH` or `ANY`.
        principal: of the ACL, as are the next three.
    """

    resource_type: int = ANY
    name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def takes_pattern(self, pattern: Pattern) -> bool:
        """Whether the filter matches a pattern."""
        if self.resource_type not in (ANY, pattern.type):
            return False
        if self.pattern_type not in (ANY, MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        return self.pattern_type == MATCH and pattern.applies_to(self.name)

    def takes_acl(self, acl: Acl) -> bool:
        """Whether the filter matches an ACL."""
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
        )


def check_pattern(pattern: Pattern) -> None:
    """Check that ACLs of a pattern can be stored.

    Raises:
        ProtocolError: they cannot (42).
    """
    kind, name, _ = pattern
    if not name:
        raise _invalid("Invalid empty resource name.")
    if kind is ResourceType.CLUSTER and name != CLUSTER.name:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER.name}.")
    if len(name) > MAX_NAME_CHARS:
        raise _invalid(
            f"The resource name has {len(name)} characters: at most {MAX_NAME_CHARS} can be kept."
        )
    bad = next(_not_in_nodes(name), None)
    if bad is not None or name in (".", ".."):
        shown = repr(name if bad is None else bad)
        raise _invalid(f"The resource name cannot be kept in ZooKeeper: it has {shown}.")


def check_acl(acl: Acl) -> None:
    """Check that an ACL can be stored.

    Raises:
        ProtocolError: it cannot (42).
    """
    kind, colon, name = acl.principal.partition(":")
    if not (kind and colon and name):
        raise _invalid(
            f"expected a principal of the form type:name, as User:alice, but got "
            f"{acl.principal[:100]!r}"
        )
    if len(acl.principal) > MAX_PRINCIPAL_CHARS:
        raise _invalid(f"The principal has more than {MAX_PRINCIPAL_CHARS} characters.")
    if not acl.host or len(acl.host) > 255:
        raise _invalid("The host must be an IP address or *.")


def _not_in_nodes(name: str) -> Iterator[str]:
    """Yield the characters that are not allowed in the name of a node."""
    for each in name:
        code = ord(each)
        if (
            each == "/"
            or code < 0x20
            or 0x7F <= code <= 0x9F
            or 0xD800 <= code <= 0xF8FF
            or 0xFFF0 <= code <= 0xFFFF
        ):
            yield each


def _invalid(text: str) -> ProtocolError:
    return ProtocolError(text, code=ErrorCode.INVALID_REQUEST)
