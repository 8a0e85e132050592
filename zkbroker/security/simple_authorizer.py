"""The authorizer that Kafka calls SimpleAclAuthorizer: super users, and the ACLs of ZooKeeper.

Invariant: until the ACLs were read nothing is allowed, but to super users.
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
        ConfigError: one has no type, or commas separate them.
    """
    users = [each.strip() for each in text.split(";")]
    for user in users:
        kind, colon, name = user.partition(":")
        if user and not (kind and colon and name):
            raise ConfigError(
                f"super.users={text!r} is not allowed: give principals as User:alice, separated "
                f"by semicolons; {user!r} has no type"
            )
        # A comma alone may be one of a certificate's name.
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
        allow_if_none: what holds where no ACL applies to a resource.
    """

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_none: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_none = allow_if_none
        self._index = AclIndex(allow_if_none=allow_if_none)
        self._ready = False

    @property
    def index(self) -> AclIndex:
        """The ACLs that hold now."""
        return self._index

    @property
    def ready(self) -> bool:
        """Whether the ACLs were read."""
        return self._ready

    def take_all(self, acls: Mapping[Pattern, Sequence[Acl]], paced: Paced = iter) -> None:
        """Take the ACLs of the cluster in place of those before, all at once.

        Args:
            acls: of all patterns.
            paced: goes through them, and lets others run meanwhile: they are answered by the ACLs
                before.
        """
        index = AclIndex(allow_if_none=self._allow_if_none)
        index.replace(acls, paced)
        self._index = index
        self._ready = True

    def take(self, pattern: Pattern, acls: Sequence[Acl]) -> None:
        """Take the ACLs of one pattern."""
        self._index.set(pattern, acls)

    def allows(
        self, principal: Principal, operation: Operation, resource: Resource, host: str
    ) -> bool:
        """Whether a principal may do an operation; see `AclIndex`."""
        return self._ask(
            principal, lambda name: self._index.allows(name, operation, resource, host)
        )

    def allows_some(
        self, principal: Principal, operation: Operation, kind: ResourceType, host: str
    ) -> bool:
        """Whether there is any name of a type on which a principal may do an operation."""
        return self._ask(
            principal, lambda name: self._index.allows_some(name, operation, kind, host)
        )

    def _ask(self, principal: Principal, decide: Callable[[str], bool]) -> bool:
        name = str(principal)
        return name in self._super_users or (self._ready and decide(name))
