"""The authorizer that Kafka calls SimpleAclAuthorizer: super users, and the ACLs of ZooKeeper.

Invariant: until the ACLs have been read, only super users are allowed anything.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from zkbroker.errors import ConfigError
from zkbroker.security.acl_index import AclIndex, Paced
from zkbroker.security.acls import Acl, Pattern
from zkbroker.security.authorizer import Operation, Resource, ResourceType
from zkbroker.security.principal import Principal

_COMMA = re.compile(r",\s*User:")


def parse_super_users(text: str) -> frozenset[str]:
    """Read `super.users`: `User:alice;User:CN=b,O=c`.

    Raises:
        ConfigError: a principal has no type, or commas separate the principals.
    """
    users = [each.strip() for each in text.split(";")]
    for user in users:
        kind, colon, name = user.partition(":")
        if user and not (kind and colon and name):
            raise ConfigError(
                f"super.users={text!r} is not allowed: give principals as User:alice, separated "
                f"by semicolons; {user!r} has no type"
            )
        # A comma without a type after it may belong to a certificate's name.
        if _COMMA.search(user):
            raise ConfigError(
                f"super.users={text!r} is not allowed: principals are separated by semicolons, not "
                f"by commas: set super.users={_COMMA.sub(';User:', text)}"
            )
    return frozenset(filter(None, users))


class SimpleAclAuthorizer:
    """Decides by super users and ACLs.

    Args:
        super_users: principals (`User:name`) that may do everything.
        allow_if_none: whether access is allowed if no ACL applies to a resource.
    """

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_none: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_none = allow_if_none
        self.index = AclIndex(allow_if_none=allow_if_none)
        """The present ACLs."""
        self.ready = False
        """Whether the ACLs have been read."""

    def take_all(self, acls: Mapping[Pattern, Sequence[Acl]], paced: Paced = iter) -> None:
        """Replace all ACLs at once.

        Args:
            acls: the ACLs of all patterns.
            paced: iterates over patterns and lets other tasks run in between; until the end the old
                ACLs decide.
        """
        index = AclIndex(allow_if_none=self._allow_if_none)
        index.replace(acls, paced)
        self.index = index
        self.ready = True

    def take(self, pattern: Pattern, acls: Sequence[Acl]) -> None:
        """Replace the ACLs of one pattern."""
        self.index.set(pattern, acls)

    def allows(
        self, principal: Principal, operation: Operation, resource: Resource, host: str
    ) -> bool:
        """Whether a principal may do an operation; see `AclIndex`."""
        return self._ask(principal, lambda name: self.index.allows(name, operation, resource, host))

    def allows_some(
        self, principal: Principal, operation: Operation, kind: ResourceType, host: str
    ) -> bool:
        """Whether a principal may do an operation on any resource of a type."""
        return self._ask(
            principal, lambda name: self.index.allows_some(name, operation, kind, host)
        )

    def _ask(self, principal: Principal, decide: Callable[[str], bool]) -> bool:
        name = str(principal)
        return name in self._super_users or (self.ready and decide(name))
