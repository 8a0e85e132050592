"""Which operations clients may do.

Invariant: a configured authorizer decides, or the broker does not start.
"""

from dataclasses import dataclass

from zkbroker.config.schema import Bool, Str, option

AUTHORIZER_KEYS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
"""Keys that have no effect without an authorizer."""


@dataclass(frozen=True, kw_only=True)
class AuthorizationOptions:
    """The authorizer and its defaults."""

    # fmt: off
    authorizer_class: str = option("authorizer.class.name", Str(), "",
        "Authorizer of the broker: `kafka.security.auth.SimpleAclAuthorizer` (or "
        "`kafka.security.authorizer.AclAuthorizer`) for the ACLs in ZooKeeper, or the import path "
        "of one of your own, `package.module:Name`. Without one every client may do everything.")
    super_users: str = option("super.users", Str(), "",
        "Principals that may do everything, separated by semicolons: `User:admin;User:CN=b,O=c`. "
        "The brokers' own belong here.")
    allow_if_no_acl: bool = option("allow.everyone.if.no.acl.found", Bool(), False,
        "Whether every client may use a resource for which there is no ACL at all.")
    # fmt: on
