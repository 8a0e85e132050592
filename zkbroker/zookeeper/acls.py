"""Rights on nodes: what a login may do with a node, and which rights a node gets when it is made.

    every node                                   its maker: all        the world: read
    /config/users, /config/brokers,
    /config/scram_secret,
    /delegation_token/tokens, and below          its maker: all
    /consumers, and below                        the world: all

This is what brokers of Kafka give with `zookeeper.set.acl=true`; without it the world has all
rights on every node.

Invariant: rights are decided by the path alone, relative to the chroot; a node that holds secrets
is never made readable first and closed later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.security import ACL, Id

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ALL = READ | WRITE | CREATE | DELETE | ADMIN

SECRET_PATHS = (
    "/config/users",
    "/config/brokers",
    "/config/scram_secret",
    "/delegation_token/tokens",
)
OPEN_PATHS = ("/consumers",)


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One entry of a node's ACL.

    Args:
        scheme: `world`, `sasl`, `digest`, `x509`, `ip`; `auth` stands for the logins of the session
            that sets it.
        identity: within the scheme; `anyone` in `world`.
        permissions: a sum of `READ`, `WRITE`, `CREATE`, `DELETE` and `ADMIN`.
    """

    scheme: str
    identity: str
    permissions: int


Acl = frozenset[Grant]

OPEN: Acl = frozenset({Grant("world", "anyone", ALL)})
PRIVATE: Acl = frozenset({Grant("auth", "", ALL)})
READABLE: Acl = PRIVATE | {Grant("world", "anyone", READ)}


def acl_for(path: str) -> Acl:
    """Return the rights of a node where rights are set.

    Args:
        path: relative to the chroot; empty for the chroot itself.
    """
    if _is_within(path, OPEN_PATHS):
        return OPEN
    return PRIVATE if _is_within(path, SECRET_PATHS) else READABLE


def _is_within(path: str, parents: Sequence[str]) -> bool:
    return any(path == parent or path.startswith(parent + "/") for parent in parents)


def kazoo_acl(acl: Acl) -> list[Any]:
    """Return rights as the client takes them."""
    return [ACL(each.permissions, Id(each.scheme, each.identity)) for each in sorted(acl)]


def acl_of(found: Sequence[Any]) -> Acl:
    """Return the rights that the client read of a node."""
    return frozenset(Grant(each.id.scheme, each.id.id, each.perms) for each in found)
